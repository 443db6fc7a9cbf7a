/* One stream: a thread that writes, the main thread that reads. */
#include "replay.h"

#include <tradewake/base/clock.h>

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define READ_SLICE_NS   (100 * TW_NS_PER_MS)
#define BROKEN_MAX      20 /* streams that broke before it is given up: about 10 s */
#define BROKEN_PAUSE_MS 500
#define RESENDS_MAX     1000u /* of one event that the server is too busy for */
#define SENT_SLICE_NS                                                                              \
    TW_NS_PER_S /* so often a wait for orders to be sent looks whether it is over */
#define SENT_SLICES_MAX                                                                            \
    10 /* what is not sent by then waits for something else: a market, a pause */
#define CODE_UNAVAILABLE        14 /* google.rpc.Code */
#define CODE_RESOURCE_EXHAUSTED 8

enum event_state { EVENT_WAITING, EVENT_SENT, EVENT_ANSWERED };

struct conversation {
    const struct replay_sending *sending;
    struct replay_result *result; /* main */
    struct tw_wire_stream *stream;
    int64_t started_ns;

    /* Guarded by lock. The condition is signalled at every change of what the sender waits for. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint8_t *states;        /* enum event_state, by event */
    uint16_t *resends;      /* by event */
    bool *has_queued;       /* by event: accepted, and copies of it may not be sent yet */
    uint32_t first_waiting; /* no event below it is WAITING */
    uint32_t queue[TW_STREAM_UNANSWERED_MAX]; /* sent and not answered, oldest first */
    uint32_t queue_head, queue_tail;          /* run freely */
    uint32_t answered;
    int64_t not_before_ns; /* the server asked for a pause */
    bool is_over;          /* broken, given up or interrupted: the sender goes home */
};

/* ---- The sender ---- */

/* Sleeps until signalled or until_ns. Lock held. */
static void wait_until(struct conversation *talk, int64_t until_ns)
{
    struct timespec until = {.tv_sec = until_ns / TW_NS_PER_S, .tv_nsec = until_ns % TW_NS_PER_S};
    pthread_cond_timedwait(&talk->changed, &talk->lock, &until);
}

/* May this event be written now? Else *ret_until_ns says when to look again. Lock held. */
static bool is_ready(const struct conversation *talk, uint32_t index, int64_t now_ns,
                     int64_t *ret_until_ns)
{
    const struct tw_history_event *event = &talk->sending->history->events[index];
    int64_t due_ns =
        talk->sending->due_ns != NULL ? talk->started_ns + talk->sending->due_ns[index] : 0;
    *ret_until_ns = due_ns > talk->not_before_ns ? due_ns : talk->not_before_ns;
    if (*ret_until_ns > now_ns)
        return false;
    *ret_until_ns = now_ns + TW_NS_PER_S; /* signalled before */
    if (talk->queue_tail - talk->queue_head == TW_STREAM_UNANSWERED_MAX)
        return false;
    return event->previous == TW_HISTORY_NONE || talk->states[event->previous] == EVENT_ANSWERED;
}

/* The next event to write, marked as sent; NONE when all are answered or it is over. */
static uint32_t next_to_send(struct conversation *talk)
{
    uint32_t n = talk->sending->history->n_events, found = TW_HISTORY_NONE;
    pthread_mutex_lock(&talk->lock);
    while (!talk->is_over && talk->answered < n && found == TW_HISTORY_NONE) {
        int64_t now_ns = tw_mono_ns(), until_ns = now_ns + TW_NS_PER_S;
        while (talk->first_waiting < n && talk->states[talk->first_waiting] != EVENT_WAITING)
            talk->first_waiting++;
        if (talk->first_waiting == n || !is_ready(talk, talk->first_waiting, now_ns, &until_ns)) {
            wait_until(talk, until_ns);
            continue;
        }
        found = talk->first_waiting;
        talk->states[found] = EVENT_SENT;
        talk->queue[talk->queue_tail++ % TW_STREAM_UNANSWERED_MAX] = found;
    }
    pthread_mutex_unlock(&talk->lock);
    return found;
}

static bool is_over(struct conversation *talk)
{
    pthread_mutex_lock(&talk->lock);
    bool over = talk->is_over;
    pthread_mutex_unlock(&talk->lock);
    return over;
}

/* Waits until every order of an event that was accepted has been sent. A close that comes before
 * its open was sent withdraws it, which is right, and not what happened in the file. An event that
 * the server knows sends nothing when it comes again: it only answers, here as late as we ask. */
static void await_sent(struct conversation *talk, uint32_t index)
{
    struct replay_request request;
    Tradewake__V1__SubmitEventRequest submit = TRADEWAKE__V1__SUBMIT_EVENT_REQUEST__INIT;
    replay_request_init(&request, talk->sending->names, &talk->sending->history->events[index],
                        tw_wall_ns());
    submit.event = &request.event;
    submit.view = TRADEWAKE__V1__COPY_VIEW__COPY_VIEW_COUNTS;
    submit.wait_for = TRADEWAKE__V1__WAIT_FOR__WAIT_FOR_SENT;
    for (uint32_t slice = 0; slice < SENT_SLICES_MAX && !is_over(talk); slice++) {
        struct tw_arena arena;
        struct tw_wire_answer answer;
        struct tw_error error;
        ProtobufCMessage *response;
        tw_arena_init(&arena, (size_t)1 << 20);
        tw_status status = tw_wire_client_call(
            talk->sending->session->client, "/tradewake.v1.EventService/SubmitEvent", &submit.base,
            tw_mono_ns() + SENT_SLICE_NS, &arena, &response, &answer, &error);
        bool is_sent = status == TW_OK &&
                       ((const Tradewake__V1__SubmitEventResponse *)(void *)response)->pending == 0;
        tw_arena_clear(&arena);
        /* Another failure than lateness shows on the stream, too. */
        if (is_sent || (status != TW_OK && status != TW_TIMEOUT))
            return;
    }
}

static bool must_await(struct conversation *talk, uint32_t index)
{
    uint32_t previous = talk->sending->history->events[index].previous;
    pthread_mutex_lock(&talk->lock);
    bool must = !talk->sending->floods && previous != TW_HISTORY_NONE && talk->has_queued[previous];
    pthread_mutex_unlock(&talk->lock);
    return must;
}

static void end_it(struct conversation *talk)
{
    pthread_mutex_lock(&talk->lock);
    talk->is_over = true;
    pthread_cond_broadcast(&talk->changed);
    pthread_mutex_unlock(&talk->lock);
}

/* Thread: the sender, from open to the end of one stream. */
static void *sender_main(void *arg)
{
    struct conversation *talk = arg;
    struct replay_request request;
    uint32_t index;
    while ((index = next_to_send(talk)) != TW_HISTORY_NONE) {
        struct tw_error error;
        if (must_await(talk, index))
            await_sent(talk, talk->sending->history->events[index].previous);
        replay_request_init(&request, talk->sending->names, &talk->sending->history->events[index],
                            tw_wall_ns());
        /* Why it broke is what the reader is told. */
        if (tw_wire_stream_write(talk->stream, &request.request.base, &error) != TW_OK)
            return NULL;
    }
    tw_wire_stream_half_close(talk->stream);
    return NULL;
}

/* ---- Answers ---- */

static void keep_refusal(struct conversation *talk, const char *event_id,
                         const Tradewake__V1__EventRefusal *refused)
{
    struct replay_result *result = talk->result;
    if (result->refused < REPLAY_REFUSALS_KEPT) {
        struct replay_refusal *kept = &result->refusals[result->refused];
        snprintf(kept->event_id, sizeof kept->event_id, "%s", event_id);
        snprintf(kept->reason, sizeof kept->reason, "%s", refused->reason);
        snprintf(kept->field, sizeof kept->field, "%s", refused->field);
        snprintf(kept->text, sizeof kept->text, "%s", refused->message);
    }
    result->refused++;
}

static void count_accepted(struct conversation *talk,
                           const Tradewake__V1__SubmitEventResponse *accepted)
{
    struct replay_result *result = talk->result;
    result->accepted += accepted->accepted;
    result->skipped += accepted->skipped;
    result->duplicates += accepted->duplicate ? 1 : 0;
    if (result->first_received_s == 0 && accepted->received_at != NULL)
        result->first_received_s = accepted->received_at->seconds;
    if (accepted->accepted + accepted->skipped == talk->sending->subscribed)
        return;
    if (result->mismatched < REPLAY_REFUSALS_KEPT)
        snprintf(result->mismatches[result->mismatched], sizeof result->mismatches[0],
                 "event %s: %u accepted + %u skipped, expected %u followers", accepted->event_id,
                 accepted->accepted, accepted->skipped, talk->sending->subscribed);
    result->mismatched++;
}

/* Is this refusal only for now? */
static bool is_for_now(const Tradewake__V1__EventRefusal *refused)
{
    return refused->retry_after != NULL &&
           (refused->code == CODE_RESOURCE_EXHAUSTED || refused->code == CODE_UNAVAILABLE);
}

/* One answer to the oldest event that was sent. False: it is not that event's. */
static bool take_answer(struct conversation *talk,
                        const Tradewake__V1__StreamEventsResponse *response)
{
    char expected[TW_ID_BYTES];
    pthread_mutex_lock(&talk->lock);
    bool good = talk->queue_head != talk->queue_tail;
    uint32_t index = talk->queue[talk->queue_head % TW_STREAM_UNANSWERED_MAX];
    if (good) {
        replay_event_id(talk->sending->names, &talk->sending->history->events[index], expected);
        good = strcmp(expected, response->event_id) == 0;
    }
    if (good) {
        const Tradewake__V1__EventRefusal *refused =
            response->answer_case == TRADEWAKE__V1__STREAM_EVENTS_RESPONSE__ANSWER_REFUSED
                ? response->refused
                : NULL;
        bool again = refused != NULL && is_for_now(refused) && talk->resends[index] < RESENDS_MAX;
        talk->queue_head++;
        talk->states[index] = again ? EVENT_WAITING : EVENT_ANSWERED;
        if (again) {
            talk->resends[index]++;
            talk->result->resent++;
            talk->not_before_ns = tw_mono_ns() + refused->retry_after->seconds * TW_NS_PER_S +
                                  refused->retry_after->nanos;
            if (index < talk->first_waiting)
                talk->first_waiting = index;
        } else if (refused != NULL) {
            keep_refusal(talk, response->event_id, refused);
            talk->answered++;
        } else if (response->accepted != NULL) {
            count_accepted(talk, response->accepted);
            talk->has_queued[index] = response->accepted->accepted > 0;
            talk->answered++;
        } else {
            good = false; /* an answer without an answer */
        }
        pthread_cond_broadcast(&talk->changed);
    }
    pthread_mutex_unlock(&talk->lock);
    return good;
}

static void show_progress(const struct conversation *talk, uint32_t answered, int64_t now_ns)
{
    enum { WIDTH = 40 };
    static const char full[] = "########################################";
    uint32_t n = talk->sending->history->n_events;
    int filled = (int)((uint64_t)answered * WIDTH / n);
    int64_t elapsed_ms = (now_ns - talk->started_ns) / TW_NS_PER_MS + 1;
    fprintf(stderr,
            "\r[%.*s%*s] %" PRIu32 "/%" PRIu32 " events  %" PRId64 "/s  %" PRIu32 " refused ",
            filled, full, WIDTH - filled, "", answered, n, (int64_t)answered * 1000 / elapsed_ms,
            talk->result->refused);
}

/* Reads until everything is answered (TW_OK), or the stream has ended. */
static tw_status read_answers(struct conversation *talk, struct tw_wire_answer *ret_answer,
                              struct tw_error *error)
{
    struct tw_arena arena;
    tw_status status = TW_OK;
    int64_t shown_ns = 0;
    tw_arena_init(&arena, (size_t)16 << 20);
    while (status == TW_OK && talk->answered < talk->sending->history->n_events && !interrupted()) {
        ProtobufCMessage *message;
        int64_t now_ns = tw_mono_ns();
        if (talk->sending->shows_progress && now_ns - shown_ns >= READ_SLICE_NS) {
            show_progress(talk, talk->answered, now_ns);
            shown_ns = now_ns;
        }
        status = tw_wire_stream_read(talk->stream, now_ns + READ_SLICE_NS, &arena, &message,
                                     ret_answer, error);
        if (status == TW_TIMEOUT)
            status = TW_OK;
        else if (status == TW_OK && !take_answer(talk, (const void *)message))
            status = tw_error_set(error, TW_INVALID,
                                  "the server answered another event than the oldest one");
        tw_arena_reset(&arena);
    }
    tw_arena_clear(&arena);
    return status;
}

/* What was sent and not answered is sent again, with the same ids. */
static void take_back_unanswered(struct conversation *talk)
{
    for (; talk->queue_head != talk->queue_tail; talk->queue_head++) {
        uint32_t index = talk->queue[talk->queue_head % TW_STREAM_UNANSWERED_MAX];
        talk->states[index] = EVENT_WAITING;
        if (index < talk->first_waiting)
            talk->first_waiting = index;
    }
}

/* From open to the end of one stream. TW_OK: everything is answered, or it was interrupted. */
static tw_status run_stream(struct conversation *talk, struct tw_wire_answer *ret_answer,
                            struct tw_error *error)
{
    pthread_t sender;
    tw_status status = tw_wire_stream_open(talk->sending->session->client,
                                           "/tradewake.v1.EventService/StreamEvents", NULL,
                                           INT64_MAX, &talk->stream, error);
    if (status != TW_OK)
        return status;
    talk->is_over = false;
    if (pthread_create(&sender, NULL, sender_main, talk) != 0) {
        tw_wire_stream_close(talk->stream);
        return tw_error_set(error, TW_NO_MEMORY, "the system has no thread to send from");
    }
    status = read_answers(talk, ret_answer, error);
    if (status == TW_ENDED)
        status = talk->answered == talk->sending->history->n_events
                     ? TW_OK
                     : tw_error_set(error, TW_UNREACHABLE, "the server ended the stream early");
    end_it(talk);
    pthread_join(sender, NULL);
    tw_wire_stream_close(talk->stream);
    take_back_unanswered(talk);
    return status;
}

static bool is_worth_another(tw_status status, const struct tw_wire_answer *answer)
{
    return status == TW_UNREACHABLE || (status == TW_REFUSED && answer->code == CODE_UNAVAILABLE);
}

static int converse(struct conversation *talk)
{
    struct session *session = talk->sending->session;
    struct tw_wire_answer answer = {0};
    struct tw_error error = {0};
    tw_status status = TW_OK;
    uint32_t broken = 0, answered_before = 0;
    talk->started_ns = tw_mono_ns();
    interrupt_watch();
    do {
        answer = (struct tw_wire_answer){0};
        status = run_stream(talk, &answer, &error);
        broken = talk->answered > answered_before ? 0 : broken + 1; /* it gets ahead: keep on */
        answered_before = talk->answered;
        if (!is_worth_another(status, &answer) || broken >= BROKEN_MAX || interrupted())
            break;
        nanosleep(&(struct timespec){.tv_nsec = BROKEN_PAUSE_MS * TW_NS_PER_MS}, NULL);
    } while (true);
    if (talk->sending->shows_progress)
        fprintf(stderr, "\r%80s\r", "");
    if (status != TW_OK)
        return session_failed(session, status, &answer, &error);
    if (talk->answered < talk->sending->history->n_events)
        return session_error(session,
                             "interrupted after %" PRIu32 " of %" PRIu32
                             " events; the same command goes on where it stopped",
                             talk->answered, talk->sending->history->n_events);
    return TW_EXIT_DONE;
}

int replay_send(const struct replay_sending *sending, struct replay_result *ret)
{
    struct conversation *talk = calloc(1, sizeof *talk);
    pthread_condattr_t attributes;
    int code = TW_EXIT_FAILED;
    *ret = (struct replay_result){0};
    if (talk == NULL)
        return session_error(sending->session, "no memory");

    *talk = (struct conversation){.sending = sending, .result = ret};
    pthread_mutex_init(&talk->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&talk->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    talk->states = calloc(sending->history->n_events, sizeof *talk->states);
    talk->resends = calloc(sending->history->n_events, sizeof *talk->resends);
    talk->has_queued = calloc(sending->history->n_events, sizeof *talk->has_queued);
    if (talk->states == NULL || talk->resends == NULL || talk->has_queued == NULL)
        code = session_error(sending->session, "no memory");
    else
        code = converse(talk);
    ret->answered = talk->answered;

    pthread_cond_destroy(&talk->changed);
    pthread_mutex_destroy(&talk->lock);
    free(talk->has_queued);
    free(talk->resends);
    free(talk->states);
    free(talk);
    return code;
}
