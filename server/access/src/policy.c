/* policy.c - who there is: a YAML file, read with libyaml into identities.
 *
 *     identities:
 *       web-backend:
 *         certificates: ["uri:spiffe://example/web"]   any of these names in the client's certificate
 *         tokens: true                                 a token whose sub is "web-backend"
 *         roles: [publisher]                           publisher, operator, viewer, admin
 *         masters: [M1, M2]                            or "*": all
 *         followers: "*"
 *
 * Every mistake is one line with file:line:column: a right that was meant and not given is found at the start. */
#include "access.h"

#include <tradewake/base/file.h>

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { POLICY_BYTES_MAX = 1024 * 1024, IDENTITIES_MAX = 10000, IDS_MAX = 100000 };

struct reading {
    const char *path;
    yaml_document_t *document;
    struct tw_error *error;
};

/* The place of a node, then words. Returns false. */
static bool wrong(const struct reading *in, const yaml_node_t *node, const char *format, ...) TW_PRINTF(3, 4);
static bool wrong(const struct reading *in, const yaml_node_t *node, const char *format, ...)
{
    char words[256];
    va_list values;
    va_start(values, format);
    vsnprintf(words, sizeof words, format, values);
    va_end(values);
    tw_error_set(in->error, TW_INVALID, "%s:%zu:%zu: %s", in->path, node->start_mark.line + 1, node->start_mark.column + 1,
                 words);
    return false;
}

/* Its text; NULL: no scalar, or with a NUL in it. */
static const char *scalar(const yaml_node_t *node)
{
    const char *text = node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
    return text != NULL && strlen(text) == node->data.scalar.length ? text : NULL;
}

/* ---- Sets of ids ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

bool id_set_has(const struct id_set *set, const char *id)
{
    return set->is_all || (set->n > 0 && id[0] != '\0' && bsearch(id, set->ids, set->n, sizeof set->ids[0], by_text) != NULL);
}

static bool ids_read(const struct reading *in, const yaml_node_t *node, struct id_set *ret)
{
    const char *text = scalar(node);
    if (text != NULL && strcmp(text, "*") == 0)
        return ret->is_all = true;
    if (node->type != YAML_SEQUENCE_NODE)
        return wrong(in, node, "expected a list of ids, or \"*\"");
    size_t n = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
    if (n > IDS_MAX)
        return wrong(in, node, "more than %d ids", IDS_MAX);
    ret->ids = calloc(n + 1, sizeof ret->ids[0]);
    if (ret->ids == NULL)
        return wrong(in, node, "no memory");
    for (size_t i = 0; i < n; i++) {
        const yaml_node_t *item = yaml_document_get_node(in->document, node->data.sequence.items.start[i]);
        text = scalar(item);
        if (text == NULL || text[0] == '\0' || strlen(text) >= TW_ID_BYTES || strcmp(text, "*") == 0)
            return wrong(in, item, "expected an id of 1 to %d characters", (int)TW_ID_BYTES - 1);
        memcpy(ret->ids[ret->n++], text, strlen(text) + 1);
    }
    qsort(ret->ids, ret->n, sizeof ret->ids[0], by_text);
    return true;
}

static bool masters_read(const struct reading *in, const yaml_node_t *node, struct tw_identity *ret)
{
    return ids_read(in, node, &ret->masters);
}

static bool followers_read(const struct reading *in, const yaml_node_t *node, struct tw_identity *ret)
{
    return ids_read(in, node, &ret->followers);
}

/* ---- The other keys of an identity ---- */

static bool roles_read(const struct reading *in, const yaml_node_t *node, struct tw_identity *ret)
{
    static const struct {
        const char *name;
        enum role role;
    } names[] = {{"publisher", ROLE_PUBLISHER}, {"operator", ROLE_OPERATOR}, {"viewer", ROLE_VIEWER}, {"admin", ROLE_ADMIN}};
    if (node->type != YAML_SEQUENCE_NODE)
        return wrong(in, node, "expected a list of roles: publisher, operator, viewer, admin");
    for (const yaml_node_item_t *at = node->data.sequence.items.start; at < node->data.sequence.items.top; at++) {
        const yaml_node_t *item = yaml_document_get_node(in->document, *at);
        const char *text = scalar(item);
        unsigned role = 0;
        for (size_t i = 0; text != NULL && i < sizeof names / sizeof names[0]; i++)
            role |= strcmp(text, names[i].name) == 0 ? names[i].role : 0u;
        if (role == 0)
            return wrong(in, item, "found \"%s\", expected publisher, operator, viewer or admin", text != NULL ? text : "");
        ret->roles |= role;
    }
    return true;
}

static bool tokens_read(const struct reading *in, const yaml_node_t *node, struct tw_identity *ret)
{
    const char *text = scalar(node);
    if (text == NULL || (strcmp(text, "true") != 0 && strcmp(text, "false") != 0))
        return wrong(in, node, "expected true or false");
    ret->takes_tokens = text[0] == 't';
    return true;
}

static bool certificates_read(const struct reading *in, const yaml_node_t *node, struct tw_identity *ret)
{
    if (node->type != YAML_SEQUENCE_NODE)
        return wrong(in, node, "expected a list of names of certificates");
    size_t n = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
    ret->certificates = calloc(n + 1, sizeof *ret->certificates);
    for (size_t i = 0; i < n; i++) {
        const yaml_node_t *item = yaml_document_get_node(in->document, node->data.sequence.items.start[i]);
        const char *text = scalar(item);
        if (text == NULL || (strncmp(text, "uri:", 4) != 0 && strncmp(text, "dns:", 4) != 0) || text[4] == '\0')
            return wrong(in, item, "expected \"uri:NAME\" or \"dns:NAME\"");
        if (ret->certificates == NULL || (ret->certificates[ret->n_certificates] = strdup(text)) == NULL)
            return wrong(in, item, "no memory");
        ret->n_certificates++;
    }
    return true;
}

static const struct identity_key {
    const char *name;
    bool (*read)(const struct reading *in, const yaml_node_t *node, struct tw_identity *ret);
} identity_keys[] = {
    {"certificates", certificates_read}, {"tokens", tokens_read},       {"roles", roles_read},
    {"masters", masters_read},           {"followers", followers_read},
};
enum { IDENTITY_KEYS = sizeof identity_keys / sizeof identity_keys[0] };

static bool identity_read(const struct reading *in, const yaml_node_t *name, const yaml_node_t *body, struct tw_identity *ret)
{
    const char *text = scalar(name);
    bool is_seen[IDENTITY_KEYS] = {false};
    if (text == NULL || text[0] == '\0' || strlen(text) >= TW_ID_BYTES)
        return wrong(in, name, "expected a name of 1 to %d characters", (int)TW_ID_BYTES - 1);
    memcpy(ret->name, text, strlen(text) + 1);
    if (body->type != YAML_MAPPING_NODE)
        return wrong(in, body, "expected a map: certificates, tokens, roles, masters, followers");
    for (const yaml_node_pair_t *pair = body->data.mapping.pairs.start; pair < body->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(in->document, pair->key);
        const char *word = scalar(key);
        size_t i = 0;
        while (i < IDENTITY_KEYS && (word == NULL || strcmp(identity_keys[i].name, word) != 0))
            i++;
        if (i == IDENTITY_KEYS)
            return wrong(in, key, "found \"%s\", expected certificates, tokens, roles, masters or followers",
                         word != NULL ? word : "");
        if (is_seen[i])
            return wrong(in, key, "\"%s\" is there twice", word);
        is_seen[i] = true;
        if (!identity_keys[i].read(in, yaml_document_get_node(in->document, pair->value), ret))
            return false;
    }
    if (ret->n_certificates == 0 && !ret->takes_tokens)
        return wrong(in, body, "\"%s\" cannot be recognised: name certificates, or say tokens: true", ret->name);
    if (ret->roles == 0)
        return wrong(in, body, "\"%s\" has no role: nothing would be allowed", ret->name);
    return true;
}

/* ---- All of them ---- */

void policy_free(struct policy *policy)
{
    if (policy == NULL)
        return;
    for (size_t i = 0; i < policy->n_identities; i++) {
        struct tw_identity *identity = &policy->identities[i];
        for (size_t k = 0; k < identity->n_certificates; k++)
            free((char *)(uintptr_t)identity->certificates[k]);
        free(identity->certificates);
        free(identity->masters.ids);
        free(identity->followers.ids);
    }
    free(policy->identities);
    free(policy);
}

/* The name is the first member. */
static_assert(offsetof(struct tw_identity, name) == 0, "by_text() compares identities by name");

const struct tw_identity *policy_by_name(const struct policy *policy, const char *name)
{
    return policy->n_identities > 0
               ? bsearch(name, policy->identities, policy->n_identities, sizeof *policy->identities, by_text)
               : NULL;
}

bool identity_has_certificate(const struct tw_identity *identity, const char *const *names, size_t n_names)
{
    for (size_t i = 0; i < identity->n_certificates; i++)
        for (size_t k = 0; k < n_names; k++)
            if (strcmp(identity->certificates[i], names[k]) == 0)
                return true;
    return false;
}

const struct tw_identity *policy_by_certificate(const struct policy *policy, const char *const *names, size_t n_names)
{
    for (size_t i = 0; n_names > 0 && i < policy->n_identities; i++)
        if (identity_has_certificate(&policy->identities[i], names, n_names))
            return &policy->identities[i];
    return NULL;
}

/* Two identities of one certificate would make the order of the file decide. */
static bool certificates_are_apart(const struct reading *in, const yaml_node_t *node, const struct policy *policy)
{
    for (size_t i = 0; i < policy->n_identities; i++)
        for (size_t k = i + 1; k < policy->n_identities; k++)
            if (identity_has_certificate(&policy->identities[i], policy->identities[k].certificates,
                                         policy->identities[k].n_certificates))
                return wrong(in, node, "\"%s\" and \"%s\" share a certificate's name", policy->identities[i].name,
                             policy->identities[k].name);
    return true;
}

static bool identities_read(const struct reading *in, const yaml_node_t *node, struct policy *policy)
{
    if (node->type != YAML_MAPPING_NODE)
        return wrong(in, node, "expected a map of identities by name");
    size_t n = (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start);
    if (n > IDENTITIES_MAX)
        return wrong(in, node, "more than %d identities", IDENTITIES_MAX);
    policy->identities = calloc(n + 1, sizeof *policy->identities);
    if (policy->identities == NULL)
        return wrong(in, node, "no memory");
    for (size_t i = 0; i < n; i++) {
        const yaml_node_pair_t *pair = &node->data.mapping.pairs.start[i];
        policy->n_identities++;
        if (!identity_read(in, yaml_document_get_node(in->document, pair->key),
                           yaml_document_get_node(in->document, pair->value), &policy->identities[i]))
            return false;
    }
    qsort(policy->identities, n, sizeof *policy->identities, by_text);
    for (size_t i = 1; i < n; i++)
        if (strcmp(policy->identities[i - 1].name, policy->identities[i].name) == 0)
            return wrong(in, node, "\"%s\" is there twice", policy->identities[i].name);
    return certificates_are_apart(in, node, policy);
}

static bool document_read(const struct reading *in, struct policy *policy)
{
    const yaml_node_t *root = yaml_document_get_root_node(in->document);
    if (root == NULL || root->type != YAML_MAPPING_NODE || root->data.mapping.pairs.top - root->data.mapping.pairs.start != 1)
        goto no_identities;
    const yaml_node_t *key = yaml_document_get_node(in->document, root->data.mapping.pairs.start->key);
    const char *word = scalar(key);
    if (word == NULL || strcmp(word, "identities") != 0)
        goto no_identities;
    return identities_read(in, yaml_document_get_node(in->document, root->data.mapping.pairs.start->value), policy);

no_identities:
    tw_error_set(in->error, TW_INVALID, "%s:1:1: expected one map, identities:", in->path);
    return false;
}

tw_status policy_parse(const char *path, const char *text, size_t size, struct policy **ret, struct tw_error *error)
{
    yaml_parser_t parser;
    yaml_document_t document;
    struct policy *policy = calloc(1, sizeof *policy);
    if (policy == NULL || yaml_parser_initialize(&parser) != 1) {
        free(policy);
        return tw_error_set(error, TW_NO_MEMORY, "no memory for %s", path);
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    tw_status status = TW_OK;
    if (yaml_parser_load(&parser, &document) != 1) {
        status = tw_error_set(error, TW_INVALID, "%s:%zu:%zu: not YAML: %s", path, parser.problem_mark.line + 1,
                              parser.problem_mark.column + 1, parser.problem != NULL ? parser.problem : "cannot be read");
    } else {
        const struct reading in = {path, &document, error};
        status = document_read(&in, policy) ? TW_OK : TW_INVALID;
        yaml_document_delete(&document);
    }
    yaml_parser_delete(&parser);
    if (status == TW_OK)
        *ret = policy;
    else
        policy_free(policy);
    return status;
}

tw_status policy_read(const char *path, struct policy **ret, struct tw_error *error)
{
    char *text;
    size_t size;
    tw_status status = tw_file_read(path, POLICY_BYTES_MAX, &text, &size, error);
    if (status != TW_OK)
        return status;
    status = policy_parse(path, text, size, ret, error);
    free(text);
    return status;
}
