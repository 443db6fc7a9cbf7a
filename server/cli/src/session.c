/* Calls, their failures, and streams. */
#include "command.h"

#include <tradewake/base/clock.h>
#include <tradewake/wire/descriptors.h>

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_SLICE_NS (200 * TW_NS_PER_MS) /* so often a waiting stream looks for Ctrl-C */

/* ---- Failures ---- */

/* What a person can do about it. */
/* clang-format off */
static const struct {
    Tradewake__V1__ErrorReason reason;
    const char *hint;
} hints[] = {
    {TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_SCOPE_REQUIRED, "name --follower, --master or --everything"},
    {TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_MASK_REQUIRED, "give at least one field to change"},
    {TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_EVENT_ID_REUSED, "send it under another --event-id, or leave it out"},
    {TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_ALREADY_EXISTS, "use update, or another id"},
    {TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_NOT_FOUND, "`tradewake followers`, `tradewake subscriptions` and `tradewake copies` list what there is"},
    {TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_MASTER_NOT_FOUND,
     "nobody follows this master: `tradewake subscriptions create --master M --follower F`"},
    {TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_POSITION_EXISTS, "the position is open already: another --position, or --increase"},
    {TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_HAS_OPEN_COPIES, "say what is to happen with them: --on-open close, leave or follow-out"},
    {TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_EXECUTOR_CAPACITY, "raise executor.threads_max, or lower --max-parallel"},
    {TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_ETAG_MISMATCH, "somebody else changed it meanwhile: read it again"},
    {TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_OVERLOADED, "nothing was sent: try again in a moment"},
    {TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_SUBSCRIBER_TOO_SLOW, "read faster, or ask for less: --summary, --slower-than"},
    {TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_SHUTTING_DOWN, "the server is going down: try again when it is back"},
    {TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_UNIMPLEMENTED, "this server does not have it: compare `tradewake version` here and there"},
};
/* clang-format on */

static const char *hint_of(Tradewake__V1__ErrorReason reason)
{
    for (size_t i = 0; i < COUNT(hints); i++)
        if (hints[i].reason == reason)
            return hints[i].hint;
    return "";
}

struct failure {
    const char *code, *reason, *field, *text, *hint;
};

static void print_failure(struct session *session, const struct failure *failure)
{
    if (session->is_json) {
        struct tw_json json = {.out = stderr, .is_pretty = session->json.is_pretty};
        const struct {
            const char *key, *text;
        } members[] = {{"code", failure->code},
                       {"reason", failure->reason},
                       {"field", failure->field},
                       {"message", failure->text},
                       {"hint", failure->hint}};
        tw_json_object(&json);
        tw_json_key(&json, "error");
        tw_json_object(&json);
        for (size_t i = 0; i < COUNT(members); i++) {
            tw_json_key(&json, members[i].key);
            tw_json_text(&json, members[i].text);
        }
        tw_json_end(&json, false);
        tw_json_end(&json, false);
        return;
    }
    fprintf(stderr, "%stradewake: %s%s%s%s%s%s%s\n", style_on(stderr, STYLE_BAD), failure->reason,
            failure->reason[0] != '\0' && failure->field[0] != '\0' ? " " : "", failure->field,
            failure->reason[0] != '\0' || failure->field[0] != '\0' ? ": " : "", failure->text,
            style_off(stderr), "");
    if (failure->hint[0] != '\0')
        fprintf(stderr, "  %s\n", failure->hint);
}

int session_error(struct session *session, const char *format, ...)
{
    char text[TW_ERROR_TEXT_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    print_failure(session, &(struct failure){"", "", "", text, ""});
    return TW_EXIT_FAILED;
}

static const char *text_or_empty(const struct session *session, const char *flag)
{
    const char *text = args_text(&session->args, flag);
    return text != NULL ? text : "";
}

int session_failed(struct session *session, tw_status status, const struct tw_wire_answer *answer,
                   const struct tw_error *error)
{
    char hint[TW_VALUE_TEXT_BYTES + 128] = "";
    const char *text = error->text[0] != '\0' ? error->text : tw_status_words(status);
    struct failure failure = {tw_grpc_code_name(answer->code), "", "", text, hint};
    if (answer->refusal.reason != TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_UNSPECIFIED) {
        failure.reason = tw_refusal_name(answer->refusal.reason);
        failure.field = answer->refusal.field;
        failure.text = answer->refusal.text;
        failure.hint = hint_of(answer->refusal.reason);
    } else if (status == TW_UNREACHABLE) {
        bool is_tls = text_or_empty(session, "--ca")[0] != '\0';
        failure.text = hint;
        failure.hint = is_tls ? "is it there, does it speak TLS, and did --ca sign its certificate, for this name?"
                              : "start one with `tradewake dev`, name another with --server or TRADEWAKE_SERVER, or "
                                "give --ca where it speaks TLS";
        snprintf(hint, sizeof hint, "nobody answers at %s%s", session->server, is_tls ? " with TLS" : "");
    } else if (status == TW_TIMEOUT) {
        snprintf(hint, sizeof hint, "wait longer with --timeout; it was %s",
                 args_text(&session->args, "--timeout"));
    }
    print_failure(session, &failure);
    return status == TW_UNREACHABLE ? TW_EXIT_UNREACHABLE : TW_EXIT_FAILED;
}

/* ---- Calls ---- */

enum { TOKEN_BYTES_MAX = 8 * 1024 };

/* The first line of a file: a token is one word. False: it was told why. */
static bool token_read(struct session *session, const char *path, char token[TOKEN_BYTES_MAX])
{
    FILE *file = fopen(path, "re");
    bool is_read = file != NULL && fgets(token, TOKEN_BYTES_MAX, file) != NULL;
    int failed = errno;
    if (file != NULL)
        fclose(file);
    if (!is_read) {
        session_error(session, "%s cannot be read: %s", path, file != NULL ? "it is empty" : strerror(failed));
        return false;
    }
    token[strcspn(token, " \t\r\n")] = '\0';
    return true;
}

int session_connect(struct session *session)
{
    struct tw_error error = {0};
    char token[TOKEN_BYTES_MAX];
    if (session->client != NULL)
        return TW_EXIT_DONE;
    session->server = args_text(&session->args, "--server");
    const char *token_path = text_or_empty(session, "--token-file");
    const struct tw_wire_client_tls tls = {
        .ca = text_or_empty(session, "--ca"),
        .certificate = text_or_empty(session, "--certificate"),
        .key = text_or_empty(session, "--key"),
        .server_name = text_or_empty(session, "--server-name"),
    };
    bool is_tls = tls.ca[0] != '\0';
    if ((tls.certificate[0] != '\0') != (tls.key[0] != '\0') || (!is_tls && tls.certificate[0] != '\0'))
        return usage_error(session->command, "--certificate, --key and --ca belong together");
    if (token_path[0] != '\0' && !token_read(session, token_path, token))
        return TW_EXIT_FAILED;
    const struct tw_wire_client_options options = {
        .address = session->server,
        .tls = is_tls ? &tls : NULL,
        .token = token_path[0] != '\0' ? token : NULL,
    };
    if (tw_wire_client_open(&options, &session->client, &error) != TW_OK)
        return session_error(session, "%s", error.text);
    return TW_EXIT_DONE;
}

int64_t session_deadline(const struct session *session)
{
    return tw_mono_ns() + args_number(&session->args, "--timeout");
}

tw_status session_try(struct session *session, const char *method, const ProtobufCMessage *request,
                      struct tw_arena *arena, ProtobufCMessage **ret_response,
                      struct tw_wire_answer *ret_answer)
{
    struct tw_error error;
    *ret_answer = (struct tw_wire_answer){0};
    return tw_wire_client_call(session->client, method, request, session_deadline(session), arena,
                               ret_response, ret_answer, &error);
}

int session_call(struct session *session, const char *method, const ProtobufCMessage *request,
                 struct tw_arena *arena, ProtobufCMessage **ret_response)
{
    struct tw_wire_answer answer = {0};
    struct tw_error error = {0};
    int code = session_connect(session);
    if (code != TW_EXIT_DONE)
        return code;
    tw_status status =
        tw_wire_client_call(session->client, method, request, session_deadline(session), arena,
                            ret_response, &answer, &error);
    return status == TW_OK ? TW_EXIT_DONE : session_failed(session, status, &answer, &error);
}

/* FROM=TO into two fields of one entry. */
static tw_status set_pair(struct session *session, ProtobufCMessage *request,
                          const struct given *given, struct tw_error *error)
{
    char text[2 * TW_VALUE_TEXT_BYTES];
    const char *equals = strchr(given->text, '=');
    const char *comma = strchr(given->option->pair, ',');
    if (equals == NULL)
        return tw_error_set(error, TW_INVALID, "found \"%s\", expected %s", given->text,
                            given->option->value);
    snprintf(text, sizeof text, "%.*s=%.*s,%s=%s", (int)(comma - given->option->pair),
             given->option->pair, (int)(equals - given->text), given->text, comma + 1, equals + 1);
    return tw_fields_set(request, given->option->field, text, &session->arena, error);
}

/* NAME=VALUE of any field that has no flag of its own: "--rule multiplier=0.5" under its root. */
static tw_status set_named(struct session *session, ProtobufCMessage *request,
                           const struct given *given, char *path, size_t path_size,
                           struct tw_error *error)
{
    const char *root = given->option->field, *equals = strchr(given->text, '=');
    if (equals == NULL || equals == given->text)
        return tw_error_set(error, TW_INVALID, "found \"%s\", expected %s", given->text,
                            given->option->value);
    snprintf(path, path_size, "%.*s%.*s", (int)strcspn(root, "*"), root,
             (int)(equals - given->text), given->text);
    return tw_fields_set(request, path, equals + 1, &session->arena, error);
}

/* One flag into the request; path: the field that it set. */
static tw_status set_given(struct session *session, ProtobufCMessage *request,
                           const struct given *given, char *path, size_t path_size,
                           struct tw_error *error)
{
    snprintf(path, path_size, "%s", given->option->field);
    if (given->option->pair != NULL)
        return set_pair(session, request, given, error);
    if (strchr(given->option->field, '*') != NULL)
        return set_named(session, request, given, path, path_size, error);
    return tw_fields_set(request, path, given->text, &session->arena, error);
}

/* "follower.mode" was set: the update changes "mode". Maps and lists change as a whole. */
static tw_status add_to_mask(struct session *session, ProtobufCMessage *request, const char *path,
                             struct tw_error *error)
{
    const char *root = session->command->mask_root;
    size_t size = root != NULL ? strlen(root) : 0;
    if (root == NULL || strncmp(path, root, size) != 0 || path[size] != '.')
        return TW_OK;
    return tw_fields_set(request, "update_mask.paths", path + size + 1, &session->arena, error);
}

int session_request(struct session *session, const char *method, ProtobufCMessage **ret_request)
{
    const struct tw_method_type *type = tw_method_type_find(method);
    assert(type != NULL);
    ProtobufCMessage *request = tw_fields_new(type->input, &session->arena);
    struct tw_error error = {0};
    if (request == NULL)
        return session_error(session, "no memory for a request");

    const struct args *args = &session->args;
    for (size_t i = 0; i < args->n_operands; i++) {
        const char *field = i < COUNT(session->command->operand_fields)
                                ? session->command->operand_fields[i]
                                : NULL;
        if (field != NULL &&
            tw_fields_set(request, field, args->operands[i], &session->arena, &error) != TW_OK)
            return usage_error(session->command, "%s", error.text);
    }
    for (size_t i = 0; i < args->n_given; i++) {
        char path[160];
        if (args->given[i].option->field == NULL)
            continue;
        if (set_given(session, request, &args->given[i], path, sizeof path, &error) != TW_OK ||
            add_to_mask(session, request, path, &error) != TW_OK)
            return usage_error(session->command, "flag %s: %s", args->given[i].option->flag,
                               error.text);
    }
    *ret_request = request;
    return TW_EXIT_DONE;
}

int run_call(struct session *session)
{
    ProtobufCMessage *request, *response;
    int code = session_request(session, session->command->method, &request);
    if (code == TW_EXIT_DONE)
        code = session_call(session, session->command->method, request, &session->arena, &response);
    if (code == TW_EXIT_DONE)
        print_message(session, response);
    return code;
}

/* ---- Lists ---- */

/* Prints one page; returns how many. */
static uint64_t print_page(struct session *session, const ProtobufCMessage *response, uint64_t left,
                           struct table *table)
{
    ProtobufCMessage **items;
    size_t n;
    bool is_list = tw_fields_list(response, &items, &n);
    assert(is_list);
    (void)is_list;
    size_t taken = n < left ? n : (size_t)left;
    for (size_t i = 0; i < taken; i++) {
        if (session->is_json)
            tw_json_message(&session->json, items[i]);
        else
            table_add(table, items[i]);
    }
    return taken;
}

const char *answer_list_name(const ProtobufCMessageDescriptor *type)
{
    for (unsigned i = 0; i < type->n_fields; i++)
        if (type->fields[i].label == PROTOBUF_C_LABEL_REPEATED)
            return type->fields[i].name;
    return "items";
}

static bool has_field(const ProtobufCMessageDescriptor *type, const char *name)
{
    return protobuf_c_message_descriptor_get_field_by_name(type, name) != NULL;
}

/* All pages, or as many things as --limit allows. */
static int list_pages(struct session *session, ProtobufCMessage *request, struct table *table)
{
    struct tw_arena arena;
    const char *limit = NULL;
    for (size_t i = 0; i < session->command->n_options; i++)
        if (strcmp(session->command->options[i].flag, "--limit") == 0)
            limit = "--limit";
    uint64_t left = limit != NULL && args_number(&session->args, limit) > 0
                        ? (uint64_t)args_number(&session->args, limit)
                        : UINT64_MAX;
    int code = TW_EXIT_DONE;
    tw_arena_init(&arena, (size_t)64 << 20);
    while (code == TW_EXIT_DONE && left > 0) {
        ProtobufCMessage *response;
        struct tw_error error;
        char token[256];
        code = session_call(session, session->command->method, request, &arena, &response);
        if (code != TW_EXIT_DONE)
            break;
        left -= print_page(session, response, left, table);
        if (!has_field(response->descriptor, "next_page_token"))
            break;
        tw_fields_text(response, "next_page_token", TW_FIELD_PLAIN, token, sizeof token);
        if (strcmp(token, "-") == 0)
            break;
        if (tw_fields_set(request, "page_token", token, &session->arena, &error) != TW_OK)
            code = session_error(session, "%s", error.text);
        tw_arena_reset(&arena);
    }
    tw_arena_clear(&arena);
    return code;
}

int run_list(struct session *session)
{
    ProtobufCMessage *request;
    struct tw_error error;
    const char *method = session->command->method;
    int code = session_request(session, method, &request);
    if (code != TW_EXIT_DONE)
        return code;
    if (has_field(request->descriptor, "page_size") &&
        tw_fields_set(request, "page_size", "1000", &session->arena, &error) != TW_OK)
        return session_error(session, "%s", error.text);

    /* Nothing goes out before every page is there: half a document helps nobody. */
    struct table *table = table_new(session->command->columns);
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    if (table == NULL || memory == NULL) {
        code = session_error(session, "no memory");
        goto done;
    }
    struct tw_json to_stdout = session->json;
    session->json = (struct tw_json){.out = memory, .is_pretty = to_stdout.is_pretty};
    tw_json_object(&session->json);
    tw_json_key(&session->json, answer_list_name(tw_method_type_find(method)->output));
    tw_json_array(&session->json);
    code = list_pages(session, request, table);
    tw_json_end(&session->json, true);
    tw_json_end(&session->json, false);
    session->json = to_stdout;
    fflush(memory);
    if (code == TW_EXIT_DONE && session->is_json)
        fwrite(text, 1, size, stdout);
    else if (code == TW_EXIT_DONE)
        table_print(table, stdout);

done:
    if (memory != NULL)
        fclose(memory);
    free(text);
    table_free(table);
    return code;
}

/* ---- Streams ---- */

static atomic_bool is_interrupted;

static void on_interrupt(int number)
{
    (void)number;
    atomic_store(&is_interrupted, true);
}

void interrupt_watch(void)
{
    /* Once: a second Ctrl-C ends the program as ever. */
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool interrupted(void)
{
    return atomic_load(&is_interrupted);
}

int session_stream(struct session *session, const char *method, const ProtobufCMessage *request,
                   stream_print *on_message, void *context)
{
    struct tw_wire_stream *stream = NULL;
    struct tw_wire_answer answer = {0};
    struct tw_error error = {0};
    struct tw_arena arena;
    int code = session_connect(session);
    if (code != TW_EXIT_DONE)
        return code;

    int64_t span_ns = args_number(&session->args, "--for");
    int64_t until_ns = span_ns > 0 ? tw_mono_ns() + span_ns : INT64_MAX;
    uint64_t left = args_has(&session->args, "--count")
                        ? (uint64_t)args_number(&session->args, "--count")
                        : UINT64_MAX;
    tw_arena_init(&arena, (size_t)64 << 20);
    interrupt_watch();
    tw_status status =
        tw_wire_stream_open(session->client, method, request, INT64_MAX, &stream, &error);
    while (status == TW_OK && left > 0 && !interrupted()) {
        int64_t now_ns = tw_mono_ns();
        if (now_ns >= until_ns)
            break;
        int64_t slice_ns = now_ns + READ_SLICE_NS < until_ns ? now_ns + READ_SLICE_NS : until_ns;
        ProtobufCMessage *message;
        status = tw_wire_stream_read(stream, slice_ns, &arena, &message, &answer, &error);
        if (status == TW_OK) {
            uint64_t n = on_message(session, context, message, left);
            left -= n < left ? n : left;
            tw_arena_reset(&arena);
        } else if (status == TW_TIMEOUT) {
            status = TW_OK;
        }
    }
    if (status != TW_OK && status != TW_ENDED)
        code = session_failed(session, status, &answer, &error);
    tw_wire_stream_close(stream);
    tw_arena_clear(&arena);
    return code;
}
