/* replay_send.c - sending history to a server that is busy, breaks off and refuses: every event
 * arrives, in the order of its position, and is answered exactly once. */
#include "replay.h"

#include <tradewake/base/clock.h>
#include <tradewake/wire/server.h>

#include <google/protobuf/duration.pb-c.h>

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Criterion's own process forgets one of its timers when it runs tests with time-outs. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libcriterion.so\n";
}

enum { POSITIONS = 400, POSITIONS_MAX = 1500, FOLLOWERS = 30 };

/* What the fake server does, and what it saw. Its stream is one call at a time: one thread. */
static struct {
    uint32_t busy_every;  /* each so-manieth message is refused for now, and stays so for its first
                             time only */
    uint32_t break_at;    /* the connection ends at this message, once; 0 = never */
    uint32_t refuse_line; /* this line's events are refused for good */
    uint32_t short_line;  /* this line's events forget one follower */
    bool holds; /* nothing is answered before so many are out as may be, and a while longer */

    bool floods; /* the client's switch */

    pthread_mutex_t lock;
    uint32_t asked,
        early; /* questions whether an event was sent; closes that came before the answer */
    bool was_sent[POSITIONS_MAX + 2]; /* by line */
    uint32_t messages, streams, messages_while_held;
    char accepted[2 * POSITIONS_MAX][TW_ID_BYTES]; /* in the order they were accepted */
    uint32_t n_accepted;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A bidi answer waits until the write before it is out: one queue, one call. */
struct outgoing {
    Tradewake__V1__StreamEventsResponse response;
    Tradewake__V1__SubmitEventResponse accepted;
    Tradewake__V1__EventRefusal refused;
    Google__Protobuf__Duration pause;
    char event_id[TW_ID_BYTES];
};
static struct outgoing queue[4096];
static uint32_t queue_head, queue_tail;

static void write_next(struct tw_call *call)
{
    if (queue_head != queue_tail && tw_call_is_writable(call) &&
        tw_call_write(call, &queue[queue_head % 4096].response.base, false))
        queue_head++;
}

static struct outgoing *outgoing_new(const char *event_id)
{
    struct outgoing *answer = &queue[queue_tail++ % 4096];
    tradewake__v1__stream_events_response__init(&answer->response);
    tradewake__v1__submit_event_response__init(&answer->accepted);
    tradewake__v1__event_refusal__init(&answer->refused);
    google__protobuf__duration__init(&answer->pause);
    snprintf(answer->event_id, sizeof answer->event_id, "%s", event_id);
    answer->response.event_id = answer->event_id;
    return answer;
}

static void refuse(struct outgoing *answer, int code, const char *reason, int32_t pause_ns)
{
    answer->response.answer_case = TRADEWAKE__V1__STREAM_EVENTS_RESPONSE__ANSWER_REFUSED;
    answer->response.refused = &answer->refused;
    answer->refused.code = code;
    answer->refused.reason = (char *)(uintptr_t)reason;
    if (pause_ns > 0) {
        answer->pause.nanos = pause_ns;
        answer->refused.retry_after = &answer->pause;
    }
}

static void accept_event(struct outgoing *answer, const char *event_id, bool is_short)
{
    bool is_known = false;
    for (uint32_t i = 0; i < fake.n_accepted && !is_known; i++)
        is_known = strcmp(fake.accepted[i], event_id) == 0;
    if (!is_known)
        snprintf(fake.accepted[fake.n_accepted++], TW_ID_BYTES, "%s", event_id);
    answer->response.answer_case = TRADEWAKE__V1__STREAM_EVENTS_RESPONSE__ANSWER_ACCEPTED;
    answer->response.accepted = &answer->accepted;
    answer->accepted.event_id = answer->event_id;
    answer->accepted.duplicate = is_known;
    answer->accepted.accepted = FOLLOWERS - 2 - is_short;
    answer->accepted.skipped = 2;
}

static uint32_t line_of(const char *event_id)
{
    const char *at = strchr(strchr(event_id, '-') + 1, '-');
    return (uint32_t)strtoul(at + 1, NULL, 10);
}

static void on_request(struct tw_call *call, const ProtobufCMessage *message,
                       const struct tw_refusal *invalid)
{
    (void)invalid;
    const Tradewake__V1__StreamEventsRequest *request = (const void *)message;
    const char *event_id = request->event->event_id;
    pthread_mutex_lock(&fake.lock);
    fake.messages++;
    if (fake.messages == fake.break_at) {
        struct tw_refusal refusal;
        tw_refuse(&refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_SHUTTING_DOWN, NULL,
                  "going down");
        queue_head = queue_tail;
        tw_call_refuse(call, &refusal);
        pthread_mutex_unlock(&fake.lock);
        return;
    }
    struct outgoing *answer = outgoing_new(event_id);
    fake.early += strstr(event_id, "-close") != NULL && !fake.was_sent[line_of(event_id)];
    if (fake.busy_every > 0 && fake.messages % fake.busy_every == 0)
        refuse(answer, 8, "OVERLOADED", 2000000);
    else if (line_of(event_id) == fake.refuse_line)
        refuse(answer, 9, "POSITION_EXISTS", 0);
    else
        accept_event(answer, event_id, line_of(event_id) == fake.short_line);
    bool waits = fake.holds;
    if (waits && fake.messages == TW_STREAM_UNANSWERED_MAX)
        tw_call_timer_set(call, tw_mono_ns() + 200 * TW_NS_PER_MS);
    pthread_mutex_unlock(&fake.lock);
    if (!waits)
        write_next(call);
}

/* The client has had its time to send one too many. */
static void on_timer(struct tw_call *call)
{
    pthread_mutex_lock(&fake.lock);
    fake.messages_while_held = fake.messages;
    fake.holds = false;
    pthread_mutex_unlock(&fake.lock);
    write_next(call);
}

static void on_stream_end(struct tw_call *call, bool cancelled)
{
    (void)call;
    (void)cancelled;
    queue_head = queue_tail;
    pthread_mutex_lock(&fake.lock);
    fake.streams++;
    pthread_mutex_unlock(&fake.lock);
}

/* The orders of an event are sent a while after somebody asks for it. */
static void on_submit(struct tw_call *call, const ProtobufCMessage *message,
                      const struct tw_refusal *invalid)
{
    (void)invalid;
    const Tradewake__V1__SubmitEventRequest *request = (const void *)message;
    cr_expect_eq(request->wait_for, TRADEWAKE__V1__WAIT_FOR__WAIT_FOR_SENT);
    tw_call_data_set(call, request->event->event_id); /* lives as long as the call */
    tw_call_timer_set(call, tw_mono_ns() + 5 * TW_NS_PER_MS);
}

static void on_submit_timer(struct tw_call *call)
{
    Tradewake__V1__SubmitEventResponse response = TRADEWAKE__V1__SUBMIT_EVENT_RESPONSE__INIT;
    response.event_id = tw_call_data(call);
    response.duplicate = true;
    response.accepted = FOLLOWERS;
    pthread_mutex_lock(&fake.lock);
    fake.asked++;
    fake.was_sent[line_of(response.event_id)] = true;
    pthread_mutex_unlock(&fake.lock);
    tw_call_answer(call, &response.base);
}

/* The table names every method of a service: the others are not called here. */
static void refuse_other(struct tw_call *call, const ProtobufCMessage *request,
                         const struct tw_refusal *invalid)
{
    struct tw_refusal refusal;
    (void)request;
    (void)invalid;
    tw_refuse(&refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_UNIMPLEMENTED, NULL, "not here");
    tw_call_refuse(call, &refusal);
}

#define EVENTS "/tradewake.v1.EventService/"
static const struct tw_wire_method methods[] = {
    {.path = EVENTS "SubmitEvent", .on_request = on_submit, .on_timer = on_submit_timer},
    {.path = EVENTS "StreamEvents",
     .on_request = on_request,
     .on_writable = write_next,
     .on_timer = on_timer,
     .on_finished = on_stream_end},
    {.path = EVENTS "SyncMaster", .on_request = refuse_other},
    {.path = EVENTS "ExplainEvent", .on_request = refuse_other},
    {.path = EVENTS "GetEvent", .on_request = refuse_other},
    {.path = EVENTS "GetMaster", .on_request = refuse_other},
    {.path = EVENTS "ListMasters", .on_request = refuse_other},
    {0},
};

/* ---- The client's side ---- */

/* Positions of one file: one after the other, or all opened in one second and closed in the next.
 */
static void make_history(struct tw_history *history, int positions, bool is_in_turn)
{
    char *text = NULL;
    size_t size = 0;
    struct tw_error error = {0};
    FILE *memory = open_memstream(&text, &size);
    fprintf(memory, "Time;Type;Volume;Symbol;Price;Volume;Time;Price;Commission;Swap;Profit\n");
    for (int i = 0; i < positions; i++) {
        int at_s = is_in_turn ? 2 * i : 0;
        fprintf(
            memory,
            "2031.03.01 08:%02d:%02d;Buy;0.01;AUDCAD;0.8;0.01;2031.03.01 08:%02d:%02d;0.9;;;1\n",
            at_s / 60, at_s % 60, (at_s + 1) / 60, (at_s + 1) % 60);
    }
    fclose(memory);
    cr_assert_eq(tw_history_read("F", text, size, history, &error), TW_OK, "%s", error.text);
    free(text);
}

struct run {
    struct session session;
    struct tw_wire_server *server;
    struct tw_history history;
    struct replay_names names;
    struct replay_sending sending;
    struct replay_result result;
    int code;
};

static struct run sent(const int64_t *due_ns, int positions, bool is_in_turn)
{
    struct run run = {0};
    char address[64];
    struct tw_error error = {0};
    const struct tw_wire_options options = {.listen = "127.0.0.1:0", .rpc_threads = 1};
    cr_assert_eq(tw_wire_server_start(&options, methods, &run.server, &error), TW_OK, "%s",
                 error.text);
    snprintf(address, sizeof address, "127.0.0.1:%d", tw_wire_server_port(run.server));
    cr_assert_eq(tw_wire_client_open_plain(address, &run.session.client, &error), TW_OK, "%s",
                 error.text);
    run.session.server = address;
    make_history(&run.history, positions, is_in_turn);
    cr_assert(replay_names_init(&run.names, "M1", NULL, (const uint8_t *)"x", 1));
    run.sending = (struct replay_sending){.session = &run.session,
                                          .history = &run.history,
                                          .names = &run.names,
                                          .due_ns = due_ns,
                                          .subscribed = FOLLOWERS,
                                          .floods = fake.floods};

    run.code = replay_send(&run.sending, &run.result);

    tw_wire_client_close(run.session.client);
    tw_wire_server_stop(run.server, 1000);
    return run;
}

static void clear(struct run *run)
{
    tw_history_clear(&run->history);
}

/* Each event once, and no close before its open. */
static void expect_all_in_order(const struct run *run)
{
    cr_expect_eq(fake.n_accepted, run->history.n_events);
    for (uint32_t i = 0; i < fake.n_accepted; i++) {
        uint32_t line = line_of(fake.accepted[i]);
        bool is_close = strstr(fake.accepted[i], "-close") != NULL, was_opened = false;
        for (uint32_t before = 0; before < i; before++)
            was_opened = was_opened || line_of(fake.accepted[before]) == line;
        cr_expect_eq(is_close, was_opened, "%s was accepted as number %u", fake.accepted[i], i);
    }
}

Test(replay_send, every_event_is_sent_once_and_answered, .timeout = 60)
{
    fake.floods = true;
    struct run run = sent(NULL, POSITIONS, true);

    cr_assert_eq(run.code, TW_EXIT_DONE);
    cr_expect_eq(run.result.answered, 2 * POSITIONS);
    cr_expect_eq(run.result.accepted, 2 * POSITIONS * (FOLLOWERS - 2));
    cr_expect_eq(run.result.skipped, 2 * POSITIONS * 2);
    cr_expect_eq(
        run.result.mismatched + run.result.refused + run.result.resent + run.result.duplicates, 0);
    expect_all_in_order(&run);
    clear(&run);
}

Test(replay_send, a_close_is_not_sent_before_the_orders_of_its_open_were, .timeout = 60)
{
    struct run run = sent(NULL, 50, true);

    cr_assert_eq(run.code, TW_EXIT_DONE);
    cr_expect_eq(fake.asked, 50);
    cr_expect_eq(fake.early, 0);
    expect_all_in_order(&run);
    clear(&run);
}

Test(replay_send, a_flood_asks_for_nothing_and_still_keeps_its_order, .timeout = 60)
{
    fake.floods = true;

    struct run run = sent(NULL, POSITIONS, true);

    cr_assert_eq(run.code, TW_EXIT_DONE);
    cr_expect_eq(fake.asked, 0);
    expect_all_in_order(&run);
    clear(&run);
}

Test(replay_send, what_a_busy_server_refuses_is_sent_again_before_what_depends_on_it, .timeout = 60)
{
    fake.floods = true;
    fake.busy_every = 7;

    struct run run = sent(NULL, POSITIONS, true);

    cr_assert_eq(run.code, TW_EXIT_DONE);
    cr_expect_eq(run.result.answered, 2 * POSITIONS);
    cr_expect_geq(run.result.resent, 2 * POSITIONS / 7);
    cr_expect_eq(run.result.refused, 0);
    expect_all_in_order(&run);
    clear(&run);
}

Test(replay_send, after_a_break_what_was_not_answered_is_sent_again_with_the_same_ids,
     .timeout = 60)
{
    fake.floods = true;
    fake.break_at = POSITIONS / 2;

    struct run run = sent(NULL, POSITIONS, true);

    cr_assert_eq(run.code, TW_EXIT_DONE);
    cr_expect_eq(run.result.answered, 2 * POSITIONS);
    cr_expect_geq(fake.streams, 2);
    expect_all_in_order(&run);
    clear(&run);
}

Test(replay_send, a_final_refusal_is_counted_kept_and_does_not_stop_the_rest, .timeout = 60)
{
    fake.floods = true;
    fake.refuse_line = 5;

    struct run run = sent(NULL, POSITIONS, true);

    cr_assert_eq(run.code, TW_EXIT_DONE);
    cr_expect_eq(run.result.answered, 2 * POSITIONS);
    cr_expect_eq(run.result.refused, 2);
    cr_expect_str_eq(run.result.refusals[0].reason, "POSITION_EXISTS");
    cr_expect_eq(fake.n_accepted, 2 * POSITIONS - 2);
    clear(&run);
}

Test(replay_send, an_answer_that_forgets_a_follower_is_seen, .timeout = 60)
{
    fake.floods = true;
    fake.short_line = 9;

    struct run run = sent(NULL, POSITIONS, true);

    cr_expect_eq(run.result.mismatched, 2);
    cr_expect_not_null(
        strstr(run.result.mismatches[0], "27 accepted + 2 skipped, expected 30 followers"), "%s",
        run.result.mismatches[0]);
    clear(&run);
}

Test(replay_send, no_more_than_1024_events_are_out_at_once, .timeout = 60)
{
    fake.floods = true;
    fake.holds = true;

    struct run run = sent(NULL, POSITIONS_MAX, false);

    cr_assert_eq(run.code, TW_EXIT_DONE);
    cr_expect_eq(fake.messages_while_held, TW_STREAM_UNANSWERED_MAX);
    expect_all_in_order(&run);
    clear(&run);
}

Test(replay_send, events_wait_until_they_are_due, .timeout = 60)
{
    fake.floods = true;
    static int64_t due_ns[2 * POSITIONS];
    for (uint32_t i = POSITIONS; i < 2 * POSITIONS; i++)
        due_ns[i] = 300 * TW_NS_PER_MS;
    int64_t began_ns = tw_mono_ns();

    struct run run = sent(due_ns, POSITIONS, false);

    cr_assert_eq(run.code, TW_EXIT_DONE);
    cr_expect_geq(tw_mono_ns() - began_ns, 300 * TW_NS_PER_MS);
    expect_all_in_order(&run);
    clear(&run);
}

Test(replay_send, ids_are_the_same_for_the_same_content_and_others_for_another_run)
{
    struct replay_names first, again, other, second_run;
    struct tw_history_event event = {.kind = TW_HISTORY_OPEN, .line = 17};
    char text[3][TW_ID_BYTES];
    cr_assert(replay_names_init(&first, "M1", NULL, (const uint8_t *)"abc", 3));
    cr_assert(replay_names_init(&again, "M2", NULL, (const uint8_t *)"abc", 3));
    cr_assert(replay_names_init(&other, "M1", NULL, (const uint8_t *)"abd", 3));
    cr_assert(replay_names_init(&second_run, "M1", "r2", (const uint8_t *)"abc", 3));

    replay_event_id(&first, &event, text[0]);
    cr_expect_str_eq(text[0], "rp-ba7816bf8f01-17-open"); /* SHA-256 of "abc" */
    replay_event_id(&again, &event, text[1]);
    cr_expect_str_eq(text[0], text[1]);
    replay_event_id(&other, &event, text[1]);
    cr_expect_str_neq(text[0], text[1]);
    replay_event_id(&second_run, &event, text[2]);
    cr_expect_str_eq(text[2], "rp-ba7816bf8f01-r2-17-open");

    cr_expect_not(replay_names_init(&first, "M1", "", (const uint8_t *)"abc", 3));
    cr_expect_not(replay_names_init(&first, "M1", "a b", (const uint8_t *)"abc", 3));
    cr_expect_not(replay_names_init(&first, "M1", "12345678901234567", (const uint8_t *)"abc", 3));
}
