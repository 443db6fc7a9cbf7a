#include "audit_tool.h"

#include <tradewake/base/clock.h>
#include <tradewake/cli/fields.h>
#include <tradewake/cli/json.h>
#include <tradewake/engine/audit.h>
#include <tradewake/journal/history.h>
#include <tradewake/journal/walk.h>

#include <tradewake/v1/copies.pb-c.h>
#include <tradewake/v1/errors.pb-c.h>
#include <tradewake/v1/events.pb-c.h>
#include <tradewake/v1/followers.pb-c.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What a record may hold. */
static const ProtobufCMessageDescriptor *const types[] = {
    &tradewake__v1__follower__descriptor,
    &tradewake__v1__subscription__descriptor,
    &tradewake__v1__active_halt__descriptor,
    &tradewake__v1__create_follower_request__descriptor,
    &tradewake__v1__update_follower_request__descriptor,
    &tradewake__v1__delete_follower_request__descriptor,
    &tradewake__v1__create_subscription_request__descriptor,
    &tradewake__v1__update_subscription_request__descriptor,
    &tradewake__v1__delete_subscription_request__descriptor,
    &tradewake__v1__halt_request__descriptor,
    &tradewake__v1__resume_request__descriptor,
    &tradewake__v1__reset_stop_out_request__descriptor,
    &tradewake__v1__rearm_gate_request__descriptor,
    &tradewake__v1__resolve_copy_request__descriptor,
    &tradewake__v1__copy__descriptor,
};

struct telling {
    const struct tw_cli_audit *wanted;
    struct tw_json json;
    uint64_t taken; /* by the history: records of the log up to this one have been told */
    uint64_t n;
};

/* NULL: none, or of a version that this one does not know. Owns: the caller. */
static ProtobufCMessage *unpacked(const struct tw_audit_message *message)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i]->name, message->type) == 0)
            return protobuf_c_message_unpack(types[i], NULL, message->size, message->bytes);
    return NULL;
}

static const char *result_word(const struct tw_audit *audit)
{
    static const char prefix[] = "ERROR_REASON_";
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(&tradewake__v1__error_reason__descriptor, audit->result);
    if (audit->result == 0)
        return "DONE";
    return value != NULL ? value->name + sizeof prefix - 1 : "UNKNOWN";
}

static const char *time_text(int64_t wall_ns, char text[40])
{
    time_t seconds = (time_t)(wall_ns / TW_NS_PER_S);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    size_t length = strftime(text, 40, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + length, 40 - length, ".%03dZ", (int)(wall_ns % TW_NS_PER_S / TW_NS_PER_MS));
    return text;
}

/* ---- For programs ---- */

static void json_text(struct tw_json *json, const char *key, const char *text)
{
    tw_json_key(json, key);
    tw_json_text(json, text);
}

static void json_message(struct tw_json *json, const char *key, const ProtobufCMessage *message)
{
    if (message == NULL)
        return;
    tw_json_key(json, key);
    tw_json_message(json, message);
}

static void tell_json(struct telling *telling, const struct tw_audit *audit, ProtobufCMessage *const messages[3])
{
    struct tw_json *json = &telling->json;
    char at[40];
    tw_json_object(json);
    json_text(json, "at", time_text(audit->at_wall_ns, at));
    json_text(json, "who", audit->who);
    json_text(json, "method", audit->method + (audit->method[0] == '/'));
    json_text(json, "master_id", audit->master_id);
    json_text(json, "follower_id", audit->follower_id);
    json_text(json, "object_id", audit->object_id);
    json_text(json, "result", result_word(audit));
    json_text(json, "why", audit->why);
    json_text(json, "peer", audit->peer);
    tw_json_key(json, "left_out");
    tw_json_number(json, (int64_t)audit->left_out);
    json_message(json, "request", messages[0]);
    json_message(json, "before", messages[1]);
    json_message(json, "after", messages[2]);
    tw_json_end(json, false);
}

/* ---- For people: a line, and below it what became different ---- */

struct finding {
    const char *path;
    char text[256];
    bool is_found;
};

static void find(void *context, const char *path, const char *text)
{
    struct finding *finding = context;
    if (strcmp(path, finding->path) != 0)
        return;
    finding->is_found = true;
    snprintf(finding->text, sizeof finding->text, "%s", text);
}

static struct finding found_in(const ProtobufCMessage *message, const char *path)
{
    struct finding finding = {.path = path};
    if (message != NULL)
        tw_fields_each(message, find, &finding);
    return finding;
}

/* What every change changes, and what changes by itself. */
static bool is_told(const char *path)
{
    static const char *const left_out[] = {"etag", "updated_at", "created_at", "account", "connected", "open_positions"};
    for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++)
        if (strncmp(path, left_out[i], strlen(left_out[i])) == 0)
            return false;
    return true;
}

static void tell_different(void *context, const char *path, const char *text)
{
    const struct finding before = found_in(context, path);
    if (!is_told(path))
        return;
    if (!before.is_found)
        printf("    + %s: %s\n", path, text);
    else if (strcmp(before.text, text) != 0)
        printf("    %s: %s -> %s\n", path, before.text, text);
}

static void tell_gone(void *context, const char *path, const char *text)
{
    if (is_told(path) && !found_in(context, path).is_found)
        printf("    - %s: %s\n", path, text);
}

static void tell_words(const struct tw_audit *audit, ProtobufCMessage *const messages[3])
{
    char at[40];
    const char *method = strrchr(audit->method, '/');
    printf("%s %-20s %-20s %s", time_text(audit->at_wall_ns, at), audit->who[0] != '\0' ? audit->who : "-",
           method != NULL ? method + 1 : audit->method, result_word(audit));
    const char *const names[] = {"master", "follower", "object", "why"};
    const char *const texts[] = {audit->master_id, audit->follower_id, audit->object_id, audit->why};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (texts[i][0] != '\0')
            printf(strchr(texts[i], ' ') != NULL ? " %s=\"%s\"" : " %s=%s", names[i], texts[i]);
    if (audit->left_out > 0)
        printf(" refusals_like_this_one=%llu", (unsigned long long)audit->left_out);
    printf(" peer=%s\n", audit->peer);
    if (audit->result == 0 && messages[2] != NULL)
        tw_fields_each(messages[2], tell_different, messages[1]);
    if (audit->result == 0 && messages[1] != NULL)
        tw_fields_each(messages[1], tell_gone, messages[2]);
}

/* ---- Which, and from where ---- */

static bool is_wanted(const struct tw_cli_audit *wanted, const struct tw_audit *audit)
{
    const char *method = strrchr(audit->method, '/');
    return audit->at_wall_ns >= wanted->from_wall_ns &&
           (wanted->who[0] == '\0' || strcmp(wanted->who, audit->who[0] != '\0' ? audit->who : "-") == 0) &&
           (wanted->method[0] == '\0' || strcmp(wanted->method, audit->method + (audit->method[0] == '/')) == 0 ||
            (method != NULL && strcmp(wanted->method, method + 1) == 0)) &&
           (wanted->follower_id[0] == '\0' || strcmp(wanted->follower_id, audit->follower_id) == 0) &&
           (!wanted->refused || audit->result != 0);
}

static tw_status tell(void *context, uint64_t sequence, const uint8_t *record, size_t size)
{
    struct telling *telling = context;
    char texts[TW_AUDIT_TEXTS_BYTES];
    struct tw_audit audit;
    (void)sequence;
    if (!tw_audit_read(record, size, texts, &audit) || !is_wanted(telling->wanted, &audit))
        return TW_OK;
    ProtobufCMessage *messages[] = {unpacked(&audit.request), unpacked(&audit.before), unpacked(&audit.after)};
    telling->n++;
    if (telling->wanted->is_json)
        tell_json(telling, &audit, messages);
    else
        tell_words(&audit, messages);
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++)
        if (messages[i] != NULL)
            protobuf_c_message_free_unpacked(messages[i], NULL);
    return TW_OK;
}

/* What the history has not taken up yet, or cannot. */
static tw_status tell_logged(void *context, const struct tw_journal_entry *entry)
{
    struct telling *telling = context;
    if (entry->problem != TW_JOURNAL_PROBLEM_NONE || entry->type != TW_AUDIT_RECORD_TYPE || entry->sequence <= telling->taken)
        return TW_OK;
    return tell(telling, entry->sequence, entry->bytes, entry->size);
}

int tw_audit_command(const struct tw_cli_audit *wanted)
{
    struct telling telling = {.wanted = wanted, .json = {.out = stdout}};
    struct tw_error error = {{0}};
    char history[4096], journal[4096];
    snprintf(history, sizeof history, "%s/history.db", wanted->state_dir);
    snprintf(journal, sizeof journal, "%s/journal", wanted->state_dir);
    tw_status status =
        tw_history_audit_read(history, wanted->from_wall_ns, INT64_MAX, tell, &telling, &telling.taken, &error);
    bool is_there = status == TW_OK;
    if (status == TW_OK || status == TW_NOT_FOUND) {
        status = tw_journal_walk(journal, 0, tell_logged, &telling, &error);
        if (status == TW_NOT_FOUND && is_there)
            status = TW_OK;
    }
    if (status != TW_OK)
        fprintf(stderr, "tradewake: %s\n", error.text);
    return status == TW_OK ? TW_EXIT_DONE : TW_EXIT_FAILED;
}
