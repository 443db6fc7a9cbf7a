/* Unary calls through a server in this process. */
#include "wire_support.h"

#include <grpc/grpc.h>
#include <grpc/status.h>

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Test(wire_calls, a_call_is_answered_and_told_when_it_was_received, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    Tradewake__V1__SubmitEventResponse *response = NULL;
    struct tw_wire_answer answer;
    int64_t before_ns = tw_mono_ns();

    tw_status status = submit(&pair, "echo-1", "EURUSD", 60000, &response, &answer);

    cr_assert_eq(status, TW_OK);
    cr_expect_str_eq(response->event_id, "echo-1");
    cr_expect_eq(response->accepted, 1);
    cr_expect_eq(answer.code, 0);
    int64_t received_ns = atomic_load(&seen.received_mono_ns);
    cr_expect_geq(received_ns, before_ns);
    cr_expect_leq(received_ns, tw_mono_ns());
    int64_t left_ns = atomic_load(&seen.deadline_mono_ns) - before_ns;
    cr_expect(left_ns > 50 * TW_NS_PER_S && left_ns < 70 * TW_NS_PER_S,
              "the deadline arrived as %lld ns from now", (long long)left_ns);
    cr_expect(await_count(&seen.finished, 1));
    pair_stop(&pair);
}

Test(wire_calls, a_refusal_arrives_with_every_detail, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    Tradewake__V1__SubmitEventResponse *response = NULL;
    struct tw_wire_answer answer;

    tw_status status = submit(&pair, "refuse", NULL, 5000, &response, &answer);

    cr_assert_eq(status, TW_REFUSED);
    cr_expect_eq(answer.code, GRPC_STATUS_FAILED_PRECONDITION);
    cr_expect_str_eq(answer.message,
                     "POSITION_EXISTS event.open.position_id: position \"17\" is open");
    cr_expect_eq(answer.refusal.reason, REASON(POSITION_EXISTS));
    cr_expect_str_eq(answer.refusal.field, "event.open.position_id");
    cr_expect_str_eq(answer.refusal.text, "position \"17\" is open");
    cr_expect_eq(answer.refusal.retry_after_ns, 1500 * TW_NS_PER_MS);
    cr_assert_eq(answer.refusal.n_facts, 1);
    cr_expect_str_eq(answer.refusal.facts[0].key, "open_since_ms");
    cr_expect_str_eq(answer.refusal.facts[0].value, "1200");
    cr_expect_null(response);
    pair_stop(&pair);
}

Test(wire_calls, posts_from_another_thread_are_merged_and_answered, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    Tradewake__V1__SubmitEventResponse *response = NULL;
    struct tw_wire_answer answer;

    cr_assert_eq(submit(&pair, "later", NULL, 5000, &response, &answer), TW_OK);

    cr_expect_str_eq(response->event_id, "later");
    cr_expect_geq(atomic_load(&seen.posts), 1);
    pair_stop(&pair);
    cr_expect_leq(atomic_load(&seen.posts), 100);
}

Test(wire_calls, a_timer_runs_once_and_not_before_its_time, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    Tradewake__V1__SubmitEventResponse *response = NULL;
    struct tw_wire_answer answer;

    cr_assert_eq(submit(&pair, "timer", NULL, 5000, &response, &answer), TW_OK);

    cr_expect_str_eq(response->event_id, "timer");
    int64_t waited_ns = atomic_load(&seen.timer_ran_mono_ns) - atomic_load(&seen.received_mono_ns);
    cr_expect(waited_ns >= 30 * TW_NS_PER_MS, "ran after %lld ns", (long long)waited_ns);
    pair_stop(&pair);
    cr_expect_eq(atomic_load(&seen.timers), 1);
}

Test(wire_calls, an_answer_above_the_limit_becomes_too_large, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    Tradewake__V1__SubmitEventResponse *response = NULL;
    struct tw_wire_answer answer;

    cr_assert_eq(submit(&pair, "huge", NULL, 5000, &response, &answer), TW_REFUSED);

    cr_expect_eq(answer.code, GRPC_STATUS_RESOURCE_EXHAUSTED);
    cr_expect_eq(answer.refusal.reason, REASON(TOO_LARGE));
    pair_stop(&pair);
}

Test(wire_calls, a_deadline_ends_the_call_on_both_sides, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    Tradewake__V1__SubmitEventResponse *response = NULL;
    struct tw_wire_answer answer;

    /* The connection is there: a machine that is busy may take longer to make it than the deadline is. */
    cr_assert_eq(submit(&pair, "echo", NULL, 10000, &response, &answer), TW_OK);

    cr_expect_eq(submit(&pair, "never", NULL, 1500, &response, &answer), TW_TIMEOUT);

    cr_expect_eq(answer.code, GRPC_STATUS_DEADLINE_EXCEEDED);
    cr_expect(await_count(&seen.finished, 2));
    cr_expect_eq(atomic_load(&seen.cancelled), 1);
    pair_stop(&pair);
}

Test(wire_calls, nobody_at_the_address_is_unreachable, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    tw_wire_server_stop(pair.server, 1000);
    pair.server = NULL;
    Tradewake__V1__SubmitEventResponse *response = NULL;
    struct tw_wire_answer answer;

    cr_expect_eq(submit(&pair, "echo", NULL, 5000, &response, &answer), TW_UNREACHABLE);

    cr_expect_eq(answer.refusal.reason, REASON(UNSPECIFIED));
    pair_stop(&pair);
}

/* ---- What our own client never sends. ---- */

struct bad_call {
    const char *name;
    struct raw_call call;
    int code;
    Tradewake__V1__ErrorReason reason;
    const char *field;
};

#define TEXT(literal) .messages = {literal}, .sizes = {sizeof(literal) - 1}, .n_messages = 1

static const struct bad_call bad_calls[] = {
    {"unknown method",
     {.path = "/tradewake.v1.EventService/Nothing", TEXT("x")},
     GRPC_STATUS_UNIMPLEMENTED,
     REASON(UNIMPLEMENTED),
     ""},
    {"unknown service",
     {.path = "/a.B/C", TEXT("x")},
     GRPC_STATUS_UNIMPLEMENTED,
     REASON(UNIMPLEMENTED),
     ""},
    {"a path that is none",
     {.path = "nothing", TEXT("x")},
     GRPC_STATUS_UNIMPLEMENTED,
     REASON(UNIMPLEMENTED),
     ""},
    {"garbage bytes",
     {.path = SUBMIT_EVENT, TEXT("\xff\xff\xff\xff\xff")},
     GRPC_STATUS_INVALID_ARGUMENT,
     REASON(UNDECODABLE),
     ""},
    {"a length beyond the end",
     {.path = SUBMIT_EVENT, TEXT("\x0a\x7fxx")},
     GRPC_STATUS_INVALID_ARGUMENT,
     REASON(UNDECODABLE),
     ""},
    {"a group",
     {.path = SUBMIT_EVENT, TEXT("\x0b\x0c")},
     GRPC_STATUS_INVALID_ARGUMENT,
     REASON(UNDECODABLE),
     ""},
    {"NUL in the id",
     {.path = SUBMIT_EVENT,
      TEXT("\x0a\x05\x0a\x03"
           "a\0b")},
     GRPC_STATUS_INVALID_ARGUMENT,
     REASON(INVALID_FIELD),
     "event.event_id"},
    {"control character in the symbol",
     {.path = SUBMIT_EVENT,
      TEXT("\x0a\x0a\x0a\x01"
           "e\x52\x05\x12\x03"
           "E\x01U")},
     GRPC_STATUS_INVALID_ARGUMENT,
     REASON(INVALID_FIELD),
     "event.open.symbol"},
    {"invalid UTF-8 in the symbol",
     {.path = SUBMIT_EVENT,
      TEXT("\x0a\x0a\x0a\x01"
           "e\x52\x05\x12\x03"
           "E\xffU")},
     GRPC_STATUS_INVALID_ARGUMENT,
     REASON(INVALID_FIELD),
     "event.open.symbol"},
    {"no message at all",
     {.path = SUBMIT_EVENT, .n_messages = 0},
     GRPC_STATUS_UNIMPLEMENTED,
     REASON(UNIMPLEMENTED),
     ""},
    {"no message to a server stream",
     {.path = WATCH_OWN_TIME, .n_messages = 0},
     GRPC_STATUS_UNIMPLEMENTED,
     REASON(UNIMPLEMENTED),
     ""},
};

Test(wire_calls, bad_calls_are_refused_by_name_and_never_reach_the_method, .timeout = 60)
{
    struct pair pair;
    pair_start(&pair, NULL);
    for (size_t i = 0; i < sizeof bad_calls / sizeof bad_calls[0]; i++) {
        const struct bad_call *bad = &bad_calls[i];
        struct raw_answer answer;

        raw_run(pair.address, &bad->call, &answer);

        cr_expect_eq(answer.code, bad->code, "%s: code %d, %s", bad->name, answer.code,
                     answer.message);
        cr_expect(answer.has_details, "%s: no details", bad->name);
        cr_expect_eq(answer.refusal.reason, bad->reason, "%s: reason %s", bad->name,
                     tw_refusal_name(answer.refusal.reason));
        cr_expect_str_eq(answer.refusal.field, bad->field, "%s: field %s", bad->name,
                         answer.refusal.field);
        cr_expect_eq(answer.n_messages, 0, "%s: was answered", bad->name);
        cr_expect_eq(strncmp(answer.message, tw_refusal_name(bad->reason),
                             strlen(tw_refusal_name(bad->reason))),
                     0, "%s: message %s", bad->name, answer.message);
    }
    cr_expect_eq(atomic_load(&seen.requests), 0);
    pair_stop(&pair);
}

Test(wire_calls, two_messages_to_a_unary_method_are_refused, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    static const char never[] = "\x0a\x07\x0a\x05never"; /* so that the answer is not first */
    struct raw_call call = {.path = SUBMIT_EVENT,
                            .messages = {never, never},
                            .sizes = {sizeof never - 1, sizeof never - 1},
                            .n_messages = 2};
    struct raw_answer answer;

    raw_run(pair.address, &call, &answer);

    cr_expect_eq(answer.code, GRPC_STATUS_UNIMPLEMENTED);
    cr_expect_eq(answer.refusal.reason, REASON(UNIMPLEMENTED));
    cr_expect_not_null(strstr(answer.message, "exactly one message"));
    pair_stop(&pair);
}

Test(wire_calls, a_message_is_served_before_its_half_close, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    struct raw_call call = {.path = SUBMIT_EVENT,
                            TEXT("\x0a\x06\x0a\x04"
                                 "echo"),
                            .leaves_open = true};
    struct raw_answer answer;

    raw_run(pair.address, &call, &answer);

    cr_expect_eq(answer.code, GRPC_STATUS_OK, "%s", answer.message);
    cr_expect_eq(answer.n_messages, 1);
    pair_stop(&pair);
}

Test(wire_calls, a_call_that_is_cancelled_before_its_message_never_reaches_the_method,
     .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    struct raw_call call = {.path = SUBMIT_EVENT, .leaves_open = true, .cancels = true};
    struct raw_answer answer;
    Tradewake__V1__SubmitEventResponse *response = NULL;
    struct tw_wire_answer after;

    for (int i = 0; i < 50; i++)
        raw_run(pair.address, &call, &answer);

    cr_expect_eq(answer.code, GRPC_STATUS_CANCELLED);
    cr_expect_eq(submit(&pair, "echo", NULL, 5000, &response, &after), TW_OK);
    cr_expect_eq(atomic_load(&seen.requests), 1, "only the last one");
    pair_stop(&pair);
}

struct silent_call {
    const char *address;
    pthread_t thread;
};

static void *silent_main(void *arg)
{
    const struct silent_call *silent = arg;
    struct raw_call call = {.path = SUBMIT_EVENT, .leaves_open = true};
    struct raw_answer answer;
    raw_run(silent->address, &call, &answer);
    return NULL;
}

static bool count_and_let_in(void *context, struct tw_call *call, struct tw_refusal *ret)
{
    (void)call;
    (void)ret;
    atomic_fetch_add((atomic_int *)context, 1);
    return true;
}

Test(wire_calls, clients_that_send_no_message_hold_nobody_up, .timeout = 30)
{
    struct pair pair;
    atomic_int n_accepted = 0;
    pair_start(&pair, &(struct tw_wire_options){.authorize = count_and_let_in, .context = &n_accepted});
    struct silent_call silent[16]; /* four times the places of both queues, at least */
    for (size_t i = 0; i < sizeof silent / sizeof silent[0]; i++) {
        silent[i].address = pair.address;
        cr_assert_eq(pthread_create(&silent[i].thread, NULL, silent_main, &silent[i]), 0);
    }
    Tradewake__V1__SubmitEventResponse *response = NULL;
    struct tw_wire_answer answer;

    cr_expect(await_count(&n_accepted, 16), "%d were let in", atomic_load(&n_accepted));
    cr_expect_eq(submit(&pair, "echo", NULL, 5000, &response, &answer), TW_OK, "%s", answer.message);

    pair_stop(&pair);
    for (size_t i = 0; i < sizeof silent / sizeof silent[0]; i++)
        pthread_join(silent[i].thread, NULL);
}

static void oversize(struct pair *pair, size_t size, struct raw_answer *ret)
{
    char *bytes = calloc(1, size);
    memcpy(bytes, "\x0a\x04\x0a\x02ok", 6);
    struct raw_call call = {
        .path = SUBMIT_EVENT, .messages = {bytes}, .sizes = {size}, .n_messages = 1};
    raw_run(pair->address, &call, ret);
    free(bytes);
}

Test(wire_calls, too_large_messages_are_refused_with_the_limit, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    struct raw_answer answer;

    oversize(&pair, 65 * 1024, &answer);
    cr_expect_eq(answer.code, GRPC_STATUS_RESOURCE_EXHAUSTED);
    cr_expect_eq(answer.refusal.reason, REASON(TOO_LARGE));
    cr_expect_eq(answer.refusal.retry_after_ns, 0);
    cr_expect_str_eq(answer.refusal.facts[1].value, "65536");

    oversize(&pair, 1024 * 1024, &answer); /* the core's own limit */
    cr_expect_eq(answer.code, GRPC_STATUS_RESOURCE_EXHAUSTED);
    cr_expect_eq(atomic_load(&seen.requests), 0);
    pair_stop(&pair);
}

Test(wire_calls, compressed_messages_are_refused_on_their_headers, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    static char packed[4096] = "\x0a\xfd\x1f\x0a\xfa\x1f";
    memset(packed + 6, 'e', 4090);
    struct raw_call call = {
        .path = SUBMIT_EVENT, .messages = {packed}, .sizes = {sizeof packed}, .n_messages = 1};
    struct raw_answer answer;

    raw_run(pair.address, &call, &answer);
    cr_expect_eq(answer.code, GRPC_STATUS_OK, "%s", answer.message);

    call.compresses = true;
    raw_run(pair.address, &call, &answer);
    cr_expect_eq(answer.code, GRPC_STATUS_UNIMPLEMENTED, "%d %s", answer.code, answer.message);
    cr_expect_eq(atomic_load(&seen.requests), 1, "only the plain one");
    pair_stop(&pair);
}

Test(wire_calls, the_request_id_comes_back_with_answers_and_refusals, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    struct raw_answer answer;
    struct raw_call call = {.path = SUBMIT_EVENT,
                            TEXT("\x0a\x08\x0a\x06"
                                 "header"),
                            .request_id = "req-42"};

    raw_run(pair.address, &call, &answer);
    cr_expect_eq(answer.code, GRPC_STATUS_OK);
    cr_expect_str_eq(answer.request_id, "req-42");

    call.messages[0] = "\x0a\x0a\x0a\x08"
                       "overload";
    call.sizes[0] = 12;
    raw_run(pair.address, &call, &answer);
    cr_expect_eq(answer.refusal.reason, REASON(OVERLOADED));
    cr_expect_str_eq(answer.request_id, "req-42");
    cr_expect_str_eq(answer.pushback_ms, "100");
    pair_stop(&pair);
}

/* ---- Who may, and when. ---- */

static bool only_with_id(void *context, struct tw_call *call, struct tw_refusal *ret)
{
    const char *wanted = context;
    const char *id = tw_call_metadata(call, "x-request-id");
    if (id != NULL && strcmp(id, wanted) == 0 && strcmp(tw_call_path(call), SUBMIT_EVENT) == 0 &&
        strncmp(tw_call_peer(call), "ipv4:127.0.0.1:", 15) == 0)
        return true;
    return tw_refuse(ret, REASON(UNAUTHENTICATED), NULL, "no token");
}

Test(wire_calls, authorize_decides_on_the_headers_alone, .timeout = 20)
{
    struct pair pair;
    char wanted[] = "mine";
    pair_start(&pair, &(struct tw_wire_options){.authorize = only_with_id, .context = wanted});
    struct raw_answer answer;
    struct raw_call call = {.path = SUBMIT_EVENT,
                            TEXT("\x0a\x06\x0a\x04"
                                 "echo")};

    raw_run(pair.address, &call, &answer);
    cr_expect_eq(answer.code, GRPC_STATUS_UNAUTHENTICATED);
    cr_expect_eq(atomic_load(&seen.requests), 0);

    call.request_id = "mine";
    raw_run(pair.address, &call, &answer);
    cr_expect_eq(answer.code, GRPC_STATUS_OK, "%s", answer.message);
    pair_stop(&pair);
}

Test(wire_calls, a_draining_server_says_so_and_when_to_come_back, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    Tradewake__V1__SubmitEventResponse *response = NULL;
    struct tw_wire_answer answer;
    cr_assert_eq(submit(&pair, "echo", NULL, 5000, &response, &answer), TW_OK);

    tw_wire_server_drain(pair.server);

    cr_expect_eq(submit(&pair, "echo", NULL, 5000, &response, &answer), TW_REFUSED);
    cr_expect_eq(answer.code, GRPC_STATUS_UNAVAILABLE);
    cr_expect_eq(answer.refusal.reason, REASON(SHUTTING_DOWN));
    cr_expect_gt(answer.refusal.retry_after_ns, 0);
    pair_stop(&pair);
}

static void *submit_never(void *arg)
{
    struct pair *pair = arg;
    Tradewake__V1__SubmitEventResponse *response = NULL;
    static struct tw_wire_answer answer;
    tw_status status = submit(pair, "never", NULL, 30000, &response, &answer);
    cr_expect_eq(status, TW_UNREACHABLE, "%s", answer.message);
    return NULL;
}

Test(wire_calls, stop_cancels_what_does_not_finish_within_the_grace, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, submit_never, &pair), 0);
    cr_assert(await_count(&seen.requests, 1));
    int64_t before_ns = tw_mono_ns();

    tw_wire_server_stop(pair.server, 100);
    pair.server = NULL;

    cr_expect_lt(tw_mono_ns() - before_ns, 5 * TW_NS_PER_S);
    cr_expect_eq(atomic_load(&seen.cancelled), 1);
    pthread_join(thread, NULL);
    pair_stop(&pair);
}

/* ---- Starting. ---- */

Test(wire_calls, a_port_in_use_is_named, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    struct tw_wire_server *second = NULL;
    struct tw_error error = {0};
    char expected[256];
    snprintf(expected, sizeof expected,
             "%s is taken or may not be bound: Address already in use; give another address with --listen",
             pair.address);

    tw_status status = tw_wire_server_start(&(struct tw_wire_options){.listen = pair.address},
                                            test_methods, &second, &error);

    cr_expect_eq(status, TW_IO);
    cr_expect_str_eq(error.text, expected);
    cr_expect_null(second);
    pair_stop(&pair);
}

Test(wire_calls, a_unix_socket_is_private_and_never_stolen, .timeout = 20)
{
    char listen[64];
    snprintf(listen, sizeof listen, "unix:/tmp/tw-wire-%d.sock", (int)getpid());
    struct pair pair;
    pair_start(&pair, &(struct tw_wire_options){.listen = listen});
    struct tw_wire_server *second = NULL;
    struct tw_error error = {0};
    struct stat stat_of;

    cr_expect_eq(stat(listen + 5, &stat_of), 0);
    cr_expect_eq(stat_of.st_mode & 0777, 0600);
    cr_expect_eq(tw_wire_server_start(&(struct tw_wire_options){.listen = listen}, test_methods,
                                      &second, &error),
                 TW_IO);
    tw_wire_client_close(pair.client);
    cr_assert_eq(tw_wire_client_open_plain(listen, &pair.client, &error), TW_OK);
    Tradewake__V1__SubmitEventResponse *response = NULL;
    struct tw_wire_answer answer;
    cr_expect_eq(submit(&pair, "echo", NULL, 5000, &response, &answer), TW_OK);
    pair_stop(&pair);
}

struct bad_start {
    const char *name, *listen, *words;
};

static const struct bad_start bad_starts[] = {
    {"no port", "127.0.0.1", "expected HOST:PORT"},
    {"port too large", "127.0.0.1:65536", "expected HOST:PORT"},
    {"port that is no number", "127.0.0.1:50a", "expected HOST:PORT"},
    {"no host", ":50051", "expected HOST:PORT"},
    {"empty", "", "expected HOST:PORT"},
    {"empty socket path", "unix:", "the path of a socket"},
};

Test(wire_calls, an_address_that_is_none_is_refused_in_words, .timeout = 20)
{
    for (size_t i = 0; i < sizeof bad_starts / sizeof bad_starts[0]; i++) {
        const struct bad_start *bad = &bad_starts[i];
        struct tw_wire_server *server = NULL;
        struct tw_error error = {0};
        tw_status status = tw_wire_server_start(&(struct tw_wire_options){.listen = bad->listen},
                                                test_methods, &server, &error);
        cr_expect_eq(status, TW_INVALID, "%s", bad->name);
        cr_expect_not_null(strstr(error.text, bad->words), "%s: %s", bad->name, error.text);
    }
}

static tw_status start_with(const struct tw_wire_method *methods, struct tw_error *error)
{
    struct tw_wire_server *server = NULL;
    return tw_wire_server_start(&(struct tw_wire_options){.listen = "127.0.0.1:0"}, methods,
                                &server, error);
}

Test(wire_calls, a_table_that_disagrees_with_the_descriptors_is_refused, .timeout = 20)
{
    struct tw_error error = {0};
    struct tw_wire_method unknown[] = {{.path = "/a.B/C", .on_request = test_methods[0].on_request},
                                       {.path = NULL}};
    cr_expect_eq(start_with(unknown, &error), TW_INVALID);
    cr_expect_not_null(strstr(error.text, "/a.B/C"));

    struct tw_wire_method partial[] = {test_methods[0], {.path = NULL}};
    cr_expect_eq(start_with(partial, &error), TW_INVALID);
    cr_expect_not_null(strstr(error.text, "is missing"));

    struct tw_wire_method twice[] = {test_methods[0], test_methods[0], {.path = NULL}};
    cr_expect_eq(start_with(twice, &error), TW_INVALID);
    cr_expect_not_null(strstr(error.text, "twice"));

    struct tw_wire_method watching[] = {test_methods[0], {.path = NULL}};
    watching[0].watches = true;
    cr_expect_eq(start_with(watching, &error), TW_INVALID);
    cr_expect_not_null(strstr(error.text, "watches"));
}
