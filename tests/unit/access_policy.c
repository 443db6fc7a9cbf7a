/* Who there is: server/access/src/policy.c, and the table of rights. */
#include <access.h>
#include <tradewake/wire/descriptors.h>

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct policy *policy;
static struct tw_error error;

static void clear(void)
{
    policy_free(policy);
}

static bool parse(const char *text)
{
    policy_free(policy);
    policy = NULL;
    error = (struct tw_error){0};
    return policy_parse("p.yaml", text, strlen(text), &policy, &error) == TW_OK;
}

static const char good[] = "identities:\n"
                           "  web: {certificates: [\"uri:spiffe://example/web\", \"dns:web\"], roles: [publisher], masters: [M2, M1]}\n"
                           "  ops: {tokens: true, roles: [operator]}\n"
                           "  page: {tokens: true, roles: [viewer], masters: [M1], followers: [F1, F2]}\n"
                           "  all: {tokens: true, roles: [viewer], masters: \"*\"}\n"
                           "  root: {tokens: true, roles: [admin]}\n";

Test(access_policy, a_good_file_is_read, .fini = clear)
{
    cr_assert(parse(good), "%s", error.text);
    cr_expect_eq(policy->n_identities, 5);
    const struct tw_identity *web = policy_by_name(policy, "web");
    cr_assert_not_null(web);
    cr_expect(id_set_has(&web->masters, "M1"));
    cr_expect(id_set_has(&web->masters, "M2"));
    cr_expect_not(id_set_has(&web->masters, "M3"));
    cr_expect_not(id_set_has(&web->masters, ""));
    cr_expect_not(web->takes_tokens);
    const char *names[] = {"dns:other", "dns:web"};
    cr_expect_eq(policy_by_certificate(policy, names, 2), web);
    cr_expect_null(policy_by_certificate(policy, names, 1));
    cr_expect_null(policy_by_certificate(policy, names, 0));
    cr_expect_null(policy_by_name(policy, "nobody"));
}

Test(access_policy, every_mistake_is_named_with_its_place, .fini = clear)
{
    static const struct {
        const char *text, *said;
    } rows[] = {
        {"", "p.yaml:1:1: expected one map, identities:"},
        {"- a\n", "p.yaml:1:1: expected one map, identities:"},
        {"people: {}\n", "p.yaml:1:1: expected one map, identities:"},
        {"identities: {}\nmore: {}\n", "p.yaml:1:1: expected one map, identities:"},
        {"identities: [a]\n", "p.yaml:1:13: expected a map of identities by name"},
        {"identities:\n  a: b\n", "p.yaml:2:6: expected a map: certificates, tokens, roles, masters, followers"},
        {"identities:\n  a: {role: [admin]}\n", "p.yaml:2:7: found \"role\", expected certificates, tokens, roles, masters or followers"},
        {"identities:\n  a: {tokens: yes, roles: [admin]}\n", "p.yaml:2:15: expected true or false"},
        {"identities:\n  a: {tokens: true, roles: [root]}\n", "p.yaml:2:29: found \"root\", expected publisher, operator, viewer or admin"},
        {"identities:\n  a: {tokens: true, roles: admin}\n", "p.yaml:2:28: expected a list of roles: publisher, operator, viewer, admin"},
        {"identities:\n  a: {roles: [admin]}\n", "p.yaml:2:6: \"a\" cannot be recognised: name certificates, or say tokens: true"},
        {"identities:\n  a: {tokens: true}\n", "p.yaml:2:6: \"a\" has no role: nothing would be allowed"},
        {"identities:\n  a: {certificates: [web], roles: [admin]}\n", "p.yaml:2:22: expected \"uri:NAME\" or \"dns:NAME\""},
        {"identities:\n  a: {tokens: true, roles: [viewer], masters: M1}\n", "p.yaml:2:47: expected a list of ids, or \"*\""},
        {"identities:\n  a: {tokens: true, roles: [viewer], masters: [\"\"]}\n", "p.yaml:2:48: expected an id of 1 to 64 characters"},
        {"identities:\n  a: {tokens: true, roles: [viewer], masters: [\"*\"]}\n", "p.yaml:2:48: expected an id of 1 to 64 characters"},
        {"identities:\n  a: {tokens: true, roles: [viewer], roles: [admin]}\n", "p.yaml:2:38: \"roles\" is there twice"},
        {"identities:\n  a: {tokens: true, roles: [admin]}\n  a: {tokens: true, roles: [admin]}\n", "p.yaml:2:3: \"a\" is there twice"},
        {"identities:\n  a: {certificates: [\"dns:x\"], roles: [admin]}\n  b: {certificates: [\"dns:x\"], roles: [viewer]}\n",
         "p.yaml:2:3: \"a\" and \"b\" share a certificate's name"},
        {"identities:\n  a: {tokens: true, roles: [admin]\n", "p.yaml:3:1: not YAML: did not find expected ',' or '}'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_expect_not(parse(rows[i].text), "%s", rows[i].text);
        cr_expect_str_eq(error.text, rows[i].said);
    }
}

/* ---- Rights ---- */

static bool may(const char *who, const char *path, const char *master, const char *follower)
{
    const struct tw_access_objects objects = {master, follower};
    return tw_access_may(policy_by_name(policy, who), path, &objects);
}

#define EVENTS    "/tradewake.v1.EventService/"
#define COPIES    "/tradewake.v1.CopyService/"
#define FOLLOWERS "/tradewake.v1.FollowerService/"

Test(access_policy, rights_are_bound_to_objects, .fini = clear)
{
    static const struct {
        const char *who, *path, *master, *follower;
        bool may;
    } rows[] = {
        {"web", EVENTS "SubmitEvent", "M1", "", true},
        {"web", EVENTS "SubmitEvent", "M3", "", false},
        {"web", EVENTS "SubmitEvent", "", "", false},
        {"web", EVENTS "GetMaster", "M2", "", true},
        {"web", EVENTS "ListMasters", "", "", false},
        {"web", COPIES "ListCopies", "M1", "F9", true},
        {"web", COPIES "ListCopies", "M3", "F9", false},
        {"web", COPIES "ListCopies", "", "", false},
        {"web", FOLLOWERS "Halt", "M1", "", false},
        {"web", FOLLOWERS "ListFollowers", "M1", "", false},
        {"ops", FOLLOWERS "Halt", "M3", "", true},
        {"ops", EVENTS "SubmitEvent", "M1", "", false},
        {"ops", COPIES "ListCopies", "", "", true},
        {"page", COPIES "WatchCopies", "M1", "", true},
        {"page", COPIES "WatchCopies", "M9", "F2", true},
        {"page", COPIES "WatchCopies", "M9", "F3", false},
        {"page", COPIES "WatchCopies", "", "", false},
        {"page", FOLLOWERS "GetFollower", "", "F1", true},
        {"page", FOLLOWERS "GetFollower", "", "F3", false},
        {"page", FOLLOWERS "DeleteFollower", "", "F1", false},
        {"all", COPIES "WatchCopies", "", "", true},
        {"all", EVENTS "ListMasters", "", "", true},
        {"all", EVENTS "SubmitEvent", "M1", "", false},
        {"root", EVENTS "SubmitEvent", "M9", "", true},
        {"root", "/tradewake.v1.EventService/NoSuchMethod", "", "", false},
    };
    cr_assert(parse(good), "%s", error.text);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_eq(may(rows[i].who, rows[i].path, rows[i].master, rows[i].follower), rows[i].may, "%s %s master=%s follower=%s",
                     rows[i].who, rows[i].path, rows[i].master, rows[i].follower);
}

/* A method that is served and in no row would be nobody's; a row out of order would not be found. */
Test(access_policy, the_table_has_every_method_that_is_served, .fini = clear)
{
    cr_assert(parse(good), "%s", error.text);
    const struct tw_identity *root = policy_by_name(policy, "root");
    for (uint32_t i = 0; i < tw_method_types_count(); i++) {
        const struct tw_method_type *type = tw_method_type_at(i);
        char path[256];
        snprintf(path, sizeof path, "/%s/%s", type->service, type->name);
        if (strncmp(type->service, "grpc.health", 11) != 0 && strncmp(type->service, "tradewake.adapter", 17) != 0)
            cr_expect(tw_access_may_call(root, path), "%s", path);
    }
}
