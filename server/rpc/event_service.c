/* event_service.c - tradewake.v1.EventService. */
#include "readers.h"
#include "services.h"
#include "trace.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/limits.h>
#include <tradewake/core/check.h>

#include <google/protobuf/duration.pb-c.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- What became of an event, as a message ---- */

struct answer {
    struct tw_record *record; /* a reference; NULL, with is_duplicate: its copies are forgotten */
    char event_id[TW_ID_BYTES];
    int64_t received_wall_ns;
    struct tw_record_counts counts;
    bool is_duplicate, sequence_gap;
    uint64_t expected_sequence;
    enum tw_wait wait;
    Tradewake__V1__CopyView view;
};

enum { COUNTS_MAX = 10 * 80 }; /* states x reasons there are */

static bool count_add(Tradewake__V1__SubmitEventResponse *m, struct tw_arena *arena,
                      Tradewake__V1__CopyState state, tw_reason reason)
{
    for (size_t i = 0; i < m->n_counts; i++)
        if (m->counts[i]->state == state && m->counts[i]->reason == reason) {
            m->counts[i]->count++;
            return true;
        }
    Tradewake__V1__StateCount *count = tw_arena_take(arena, sizeof *count);
    if (count == NULL || m->n_counts == COUNTS_MAX)
        return false;
    tradewake__v1__state_count__init(count);
    count->state = state;
    count->reason = reason;
    count->count = 1;
    m->counts[m->n_counts++] = count;
    return true;
}

static Google__Protobuf__Timestamp *time_message(struct tw_arena *arena, int64_t wall_ns)
{
    Google__Protobuf__Timestamp *time = tw_arena_take(arena, sizeof *time);
    if (time == NULL)
        return NULL;
    google__protobuf__timestamp__init(time);
    time->seconds = wall_ns / TW_NS_PER_S;
    time->nanos = (int32_t)(wall_ns % TW_NS_PER_S);
    return time;
}

static bool fill_copies(const struct answer *answer, struct tw_arena *arena,
                        Tradewake__V1__SubmitEventResponse *m)
{
    size_t n = tw_record_copy_count(answer->record);
    size_t room = n < COUNTS_MAX ? n : COUNTS_MAX;
    m->counts = tw_arena_zero(arena, (room + 1) * sizeof *m->counts);
    bool wants_copies = answer->view != TRADEWAKE__V1__COPY_VIEW__COPY_VIEW_COUNTS;
    m->copies = wants_copies ? tw_arena_zero(arena, (n + 1) * sizeof *m->copies) : NULL;
    if (m->counts == NULL || (wants_copies && m->copies == NULL))
        return false;
    for (size_t i = 0; i < n; i++) {
        struct tw_copy *copy = tw_record_copy(answer->record, i);
        bool is_shown = wants_copies && (answer->view != TRADEWAKE__V1__COPY_VIEW__COPY_VIEW_SKIPPED ||
                                         tw_copy_was_skipped(copy));
        Tradewake__V1__CopyState state;
        tw_reason reason;
        if (is_shown) {
            Tradewake__V1__CopySummary *summary = tw_copy_summary(copy, arena);
            if (summary == NULL)
                return false;
            m->copies[m->n_copies++] = summary;
            state = summary->state;
            reason = summary->reason;
        } else {
            tw_copy_state(copy, &state, &reason);
        }
        if (!count_add(m, arena, state, reason))
            return false;
    }
    return true;
}

static uint32_t answer_pending(const struct answer *answer)
{
    return answer->record != NULL ? tw_record_pending(answer->record, answer->wait) : 0;
}

/* NULL: the arena is full. */
static Tradewake__V1__SubmitEventResponse *answer_message(const struct answer *answer,
                                                          struct tw_arena *arena)
{
    Tradewake__V1__SubmitEventResponse *m = tw_arena_take(arena, sizeof *m);
    if (m == NULL)
        return NULL;
    tradewake__v1__submit_event_response__init(m);
    m->event_id = tw_arena_text(arena, answer->event_id, strlen(answer->event_id));
    m->pending = answer_pending(answer); /* before the states are read */
    m->accepted = answer->counts.accepted;
    m->skipped = answer->counts.skipped;
    m->duplicate = answer->is_duplicate;
    m->sequence_gap = answer->sequence_gap;
    m->expected_sequence = answer->expected_sequence;
    m->received_at = time_message(arena, answer->received_wall_ns);
    if (m->event_id == NULL || m->received_at == NULL)
        return NULL;
    return answer->record == NULL || fill_copies(answer, arena, m) ? m : NULL;
}

/* ---- From the request to the engine ---- */

static bool submit(struct tw_call *call, const Tradewake__V1__TradeEvent *message, struct answer *ret,
                   struct tw_refusal *refusal)
{
    struct tw_event event;
    struct tw_trace_context trace;
    int64_t received_wall_ns = tw_call_received_wall_ns(call);
    if (!tw_event_read(message, received_wall_ns, &event, refusal))
        return false;
    (void)tw_trace_context_read(tw_call_metadata(call, "traceparent"), &trace);
    const struct tw_submission submission = {
        .event = &event,
        .message = message,
        .received_mono_ns = tw_call_received_mono_ns(call),
        .received_wall_ns = received_wall_ns,
        .trace_id = trace.id,
        .traceparent = trace.parent,
    };
    struct tw_submitted submitted;
    if (!tw_engine_submit(tw_services_engine(), &submission, &submitted, refusal))
        return false;
    *ret = (struct answer){
        .record = submitted.record,
        .is_duplicate = submitted.is_duplicate,
        .sequence_gap = submitted.sequence_gap,
        .expected_sequence = submitted.expected_sequence,
        .received_wall_ns = submitted.forgotten_received_wall_ns,
        .counts = {.accepted = submitted.forgotten_accepted, .skipped = submitted.forgotten_skipped},
    };
    snprintf(ret->event_id, sizeof ret->event_id, "%s", event.event_id);
    if (ret->record != NULL) {
        ret->received_wall_ns = tw_record_received_wall_ns(ret->record);
        ret->counts = tw_record_counts_get(ret->record);
    }
    return true;
}

static bool check_view(int view, struct tw_refusal *refusal)
{
    const struct tw_check check = {"", refusal};
    return tw_check_enum_or_default(&check, "view", view, &tradewake__v1__copy_view__descriptor);
}

/* ---- SubmitEvent ---- */

struct waiting {
    struct answer answer;
    bool is_answered;
};

static void submit_answer(struct tw_call *call, struct waiting *waiting)
{
    struct tw_refusal refusal = {0};
    Tradewake__V1__SubmitEventResponse *m = answer_message(&waiting->answer, tw_call_arena(call));
    waiting->is_answered = true;
    tw_call_timer_set(call, INT64_MAX);
    if (m != NULL) {
        tw_call_answer(call, &m->base);
        return;
    }
    tw_refuse(&refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_TOO_LARGE, NULL,
              "the event was taken, but its answer is too large: ask with COPY_VIEW_COUNTS");
    tw_call_refuse(call, &refusal);
}

static void wake_call(void *context)
{
    struct tw_call *call = context;
    tw_call_post(call);
    tw_call_unref(call);
}

static void submit_wait(struct tw_call *call, struct waiting *waiting)
{
    int64_t now_ns = tw_mono_ns(), deadline_ns = tw_call_deadline_mono_ns(call);
    bool is_accepted_enough = waiting->answer.wait == TW_WAIT_ACCEPTED; /* durable: the disk's time */
    int64_t until_ns = is_accepted_enough ? INT64_MAX
                                          : now_ns + (int64_t)TW_WAIT_MS_DEFAULT * TW_NS_PER_MS;
    if (deadline_ns != INT64_MAX && !is_accepted_enough)
        until_ns = deadline_ns - (int64_t)TW_WAIT_MARGIN_MS * TW_NS_PER_MS;
    if (answer_pending(&waiting->answer) == 0) {
        submit_answer(call, waiting);
        return;
    }
    tw_call_timer_set(call, until_ns);
    tw_call_ref(call);
    if (!tw_record_wait(waiting->answer.record, waiting->answer.wait, wake_call, call)) {
        tw_call_unref(call);
        submit_answer(call, waiting);
    }
}

void tw_submit_event_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                const struct tw_refusal *invalid)
{
    (void)invalid;
    const Tradewake__V1__SubmitEventRequest *m = (const Tradewake__V1__SubmitEventRequest *)request;
    struct tw_refusal refusal = {0};
    const struct tw_check check = {"", &refusal};
    struct waiting *waiting = tw_arena_zero(tw_call_arena(call), sizeof *waiting);
    bool ok = waiting != NULL ? true
                              : tw_refuse(&refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_TOO_LARGE,
                                          NULL, "the event takes more memory than one may");
    ok = ok &&
         tw_check_enum_or_default(&check, "wait_for", (int)m->wait_for,
                                  &tradewake__v1__wait_for__descriptor) &&
         check_view((int)m->view, &refusal) && submit(call, m->event, &waiting->answer, &refusal);
    if (!ok) {
        tw_call_refuse(call, &refusal);
        return;
    }
    static const enum tw_wait waits[] = {TW_WAIT_ACCEPTED, TW_WAIT_ACCEPTED, TW_WAIT_SENT, TW_WAIT_DONE};
    waiting->answer.wait = waits[m->wait_for];
    waiting->answer.view = m->view;
    tw_call_data_set(call, waiting);
    submit_wait(call, waiting);
}

void tw_submit_event_on_news(struct tw_call *call)
{
    struct waiting *waiting = tw_call_data(call);
    if (waiting != NULL && !waiting->is_answered &&
        tw_record_pending(waiting->answer.record, waiting->answer.wait) == 0)
        submit_answer(call, waiting);
}

void tw_submit_event_on_timer(struct tw_call *call)
{
    struct waiting *waiting = tw_call_data(call);
    if (waiting == NULL || waiting->is_answered)
        return;
    if (tw_record_pending(waiting->answer.record, TW_WAIT_ACCEPTED) == 0)
        submit_answer(call, waiting);
    else /* not durable yet: no answer before that */
        tw_call_timer_set(call, tw_mono_ns() + 2 * TW_NS_PER_MS);
}

void tw_submit_event_on_finished(struct tw_call *call, bool cancelled)
{
    (void)cancelled;
    struct waiting *waiting = tw_call_data(call);
    if (waiting != NULL && waiting->answer.record != NULL)
        tw_record_release(waiting->answer.record);
}

/* ---- StreamEvents: answers in the order of the requests ---- */

struct stream_answer {
    struct answer answer;
    bool is_taken;              /* else it was refused */
    struct tw_refusal *refusal; /* from the heap; NULL: no memory for it either */
    char event_id[TW_ID_BYTES];
};

struct event_stream {
    uint32_t head, tail; /* run freely, compared only by difference */
    bool is_paused, is_half_closed;
    bool is_waiting; /* until the event to be answered next is durable */
    bool is_watched; /* a timer will look whether the reader is hopeless */
    bool is_over;    /* it was: nothing may follow */
    struct stream_answer answers[TW_STREAM_UNANSWERED_MAX];
};

static struct event_stream *stream_of(struct tw_call *call)
{
    struct event_stream *stream = tw_call_data(call);
    if (stream == NULL) {
        stream = calloc(1, sizeof *stream);
        tw_call_data_set(call, stream);
    }
    return stream;
}

static void stream_answer_clear(struct stream_answer *answer)
{
    if (answer->answer.record != NULL)
        tw_record_release(answer->answer.record);
    free(answer->refusal);
    *answer = (struct stream_answer){0};
}

static void refusal_message(const struct tw_refusal *refusal, Tradewake__V1__EventRefusal *m,
                            Google__Protobuf__Duration *retry_after, char *text, size_t size)
{
    tradewake__v1__event_refusal__init(m);
    tw_refusal_message(refusal, text, size);
    m->code = tw_refusal_code(refusal->reason);
    m->reason = (char *)(uintptr_t)tw_refusal_name(refusal->reason);
    m->message = text;
    m->field = (char *)(uintptr_t)refusal->field;
    if (refusal->retry_after_ns > 0) {
        google__protobuf__duration__init(retry_after);
        retry_after->seconds = refusal->retry_after_ns / TW_NS_PER_S;
        retry_after->nanos = (int32_t)(refusal->retry_after_ns % TW_NS_PER_S);
        m->retry_after = retry_after;
    }
}

/* False: a write is out. */
static bool stream_write(struct tw_call *call, struct stream_answer *entry, bool more)
{
    Tradewake__V1__StreamEventsResponse m;
    Tradewake__V1__EventRefusal refusal;
    Google__Protobuf__Duration retry_after;
    char text[TW_REFUSAL_TEXT_BYTES + TW_REFUSAL_FIELD_BYTES + 64];
    struct tw_arena arena;
    tradewake__v1__stream_events_response__init(&m);
    m.event_id = entry->event_id;
    tw_arena_init(&arena, TW_ANSWER_BYTES_MAX * 4);
    struct tw_refusal too_large = {0};
    if (entry->is_taken) {
        m.answer_case = TRADEWAKE__V1__STREAM_EVENTS_RESPONSE__ANSWER_ACCEPTED;
        m.accepted = answer_message(&entry->answer, &arena);
        if (m.accepted == NULL)
            tw_refuse(&too_large, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_TOO_LARGE, NULL,
                      "the event was taken, but its answer is too large: ask with COPY_VIEW_COUNTS");
    }
    const struct tw_refusal *refused = entry->refusal != NULL ? entry->refusal : &too_large;
    if (refused->reason != TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_UNSPECIFIED) {
        m.answer_case = TRADEWAKE__V1__STREAM_EVENTS_RESPONSE__ANSWER_REFUSED;
        refusal_message(refused, &refusal, &retry_after, text, sizeof text);
        m.refused = &refusal;
    }
    bool written = tw_call_write(call, &m.base, more);
    tw_arena_clear(&arena);
    return written;
}

/* Whether an answer may go: a refusal, or an event that is durable. Else it is waited for. */
static bool is_ready(struct tw_call *call, struct event_stream *stream, struct stream_answer *entry)
{
    struct tw_record *record = entry->answer.record;
    if (record == NULL || tw_record_pending(record, TW_WAIT_ACCEPTED) == 0)
        return true;
    if (stream->is_waiting)
        return false;
    stream->is_waiting = true;
    tw_call_ref(call);
    if (!tw_record_wait(record, TW_WAIT_ACCEPTED, wake_call, call)) {
        stream->is_waiting = false;
        stream->is_watched = true;
        tw_call_unref(call);
        tw_call_timer_set(call, tw_mono_ns() + TW_NS_PER_MS);
    }
    return false;
}

/* One timer while a write is out, not one per answer. */
static void reader_watch(struct tw_call *call, struct event_stream *stream)
{
    int64_t due_ns = tw_reader_due_mono_ns(call);
    stream->is_watched = due_ns != INT64_MAX;
    if (stream->is_watched)
        tw_call_timer_set(call, due_ns);
}

static void stream_pump(struct tw_call *call, struct event_stream *stream)
{
    while (stream->tail != stream->head && tw_call_is_writable(call)) {
        struct stream_answer *entry = &stream->answers[stream->tail % TW_STREAM_UNANSWERED_MAX];
        if (!is_ready(call, stream, entry) || !stream_write(call, entry, stream->head - stream->tail > 1))
            break;
        stream_answer_clear(entry);
        stream->tail++;
    }
    if (stream->is_paused && stream->head - stream->tail < TW_STREAM_UNANSWERED_MAX / 2) {
        stream->is_paused = false;
        tw_call_reading_resume(call);
    }
    if (stream->is_half_closed && stream->tail == stream->head)
        tw_call_end(call);
    else if (!stream->is_watched)
        reader_watch(call, stream);
}

static struct tw_refusal *refusal_keep(const struct tw_refusal *refusal)
{
    struct tw_refusal *kept = malloc(sizeof *kept);
    if (kept != NULL)
        *kept = *refusal;
    return kept;
}

void tw_stream_events_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                 const struct tw_refusal *invalid)
{
    const Tradewake__V1__StreamEventsRequest *m = (const Tradewake__V1__StreamEventsRequest *)request;
    struct event_stream *stream = stream_of(call);
    struct tw_refusal refusal = {0};
    if (stream == NULL) {
        tw_refuse(&refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_OVERLOADED, NULL, "no memory");
        refusal.retry_after_ns = TW_NS_PER_S;
        tw_call_refuse(call, &refusal);
        return;
    }
    struct stream_answer *entry = &stream->answers[stream->head % TW_STREAM_UNANSWERED_MAX];
    *entry = (struct stream_answer){0};
    if (m != NULL && m->event != NULL)
        snprintf(entry->event_id, sizeof entry->event_id, "%s", m->event->event_id);
    bool ok = invalid == NULL && check_view((int)m->view, &refusal) &&
              submit(call, m->event, &entry->answer, &refusal);
    entry->is_taken = ok;
    if (!ok)
        entry->refusal = refusal_keep(invalid != NULL ? invalid : &refusal);
    entry->answer.view = m == NULL || m->view == 0 ? TRADEWAKE__V1__COPY_VIEW__COPY_VIEW_COUNTS : m->view;
    stream->head++;
    if (stream->head - stream->tail == TW_STREAM_UNANSWERED_MAX) {
        stream->is_paused = true;
        tw_call_reading_pause(call);
    }
    stream_pump(call, stream);
}

void tw_stream_events_on_writable(struct tw_call *call)
{
    struct event_stream *stream = tw_call_data(call);
    if (stream != NULL)
        stream_pump(call, stream);
}

void tw_stream_events_on_news(struct tw_call *call)
{
    struct event_stream *stream = tw_call_data(call);
    if (stream == NULL || stream->is_over)
        return;
    stream->is_waiting = false;
    stream_pump(call, stream);
}

void tw_stream_events_on_timer(struct tw_call *call)
{
    struct event_stream *stream = tw_call_data(call);
    if (stream == NULL || stream->is_over)
        return;
    stream->is_watched = false;
    stream->is_over = tw_reader_evict(call, tw_mono_ns());
    if (!stream->is_over)
        stream_pump(call, stream);
}

void tw_stream_events_on_half_close(struct tw_call *call)
{
    struct event_stream *stream = tw_call_data(call);
    if (stream == NULL) {
        tw_call_end(call);
        return;
    }
    stream->is_half_closed = true;
    stream_pump(call, stream);
}

void tw_stream_events_on_finished(struct tw_call *call, bool cancelled)
{
    (void)cancelled;
    struct event_stream *stream = tw_call_data(call);
    if (stream == NULL)
        return;
    for (; stream->tail != stream->head; stream->tail++)
        stream_answer_clear(&stream->answers[stream->tail % TW_STREAM_UNANSWERED_MAX]);
    free(stream);
}

/* ---- Questions ---- */

static void refuse_large(struct tw_call *call)
{
    struct tw_refusal refusal = {0};
    tw_refuse(&refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_TOO_LARGE, NULL,
              "the answer takes more memory than one may");
    tw_call_refuse(call, &refusal);
}

static void refuse_unknown_event(struct tw_call *call, const char *master_id, const char *event_id)
{
    struct tw_refusal refusal = {0};
    tw_refuse(&refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_NOT_FOUND, "event_id",
              "no event \"%.64s\" of \"%.64s\" is remembered", event_id, master_id);
    tw_call_refuse(call, &refusal);
}

static void event_past_done(struct tw_past *past)
{
    struct tw_call *call = past->context;
    tw_call_post(call);
    tw_call_unref(call);
}

static void get_past_event(struct tw_call *call, const Tradewake__V1__GetEventRequest *m)
{
    struct tw_past *past = tw_arena_zero(tw_call_arena(call), sizeof *past);
    if (past == NULL) {
        refuse_large(call);
        return;
    }
    *past = (struct tw_past){.kind = TW_PAST_EVENT,
                             .arena = tw_call_arena(call),
                             .master_id = m->master_id,
                             .event_id = m->event_id,
                             .done = event_past_done,
                             .context = call};
    tw_call_data_set(call, past);
    tw_call_ref(call);
    tw_engine_past_ask(tw_services_engine(), past);
}

void tw_get_event_on_request(struct tw_call *call, const ProtobufCMessage *request,
                             const struct tw_refusal *invalid)
{
    (void)invalid;
    const Tradewake__V1__GetEventRequest *m = (const Tradewake__V1__GetEventRequest *)request;
    struct tw_arena *arena = tw_call_arena(call);
    struct tw_record *record = tw_engine_record_find(tw_services_engine(), m->master_id, m->event_id);
    if (record == NULL) {
        if (tw_engine_past_number(tw_services_engine()) > 0)
            get_past_event(call, m);
        else
            refuse_unknown_event(call, m->master_id, m->event_id);
        return;
    }
    const struct answer answer = {.record = record,
                                  .received_wall_ns = tw_record_received_wall_ns(record),
                                  .view = TRADEWAKE__V1__COPY_VIEW__COPY_VIEW_COUNTS};
    Tradewake__V1__SubmitEventResponse *counts = answer_message(&answer, arena);
    Tradewake__V1__GetEventResponse response;
    tradewake__v1__get_event_response__init(&response);
    response.event = tw_record_event(record, arena);
    if (counts != NULL) {
        response.received_at = counts->received_at;
        response.counts = counts->counts;
        response.n_counts = counts->n_counts;
        tw_call_answer(call, &response.base);
    } else {
        refuse_large(call);
    }
    tw_record_release(record);
}

void tw_get_event_on_past(struct tw_call *call)
{
    const struct tw_past *past = tw_call_data(call);
    struct tw_arena *arena = tw_call_arena(call);
    Tradewake__V1__GetEventResponse response;
    if (past->is_behind) {
        struct tw_refusal refusal;
        tw_refuse(&refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_HISTORY_BEHIND, NULL,
                  "the history has not caught up yet");
        refusal.retry_after_ns = TW_NS_PER_S;
        tw_call_refuse(call, &refusal);
        return;
    }
    if (past->event == NULL) {
        refuse_unknown_event(call, past->master_id, past->event_id);
        return;
    }
    tradewake__v1__get_event_response__init(&response);
    response.event = past->event;
    response.received_at = time_message(arena, past->event_received_wall_ns);
    response.counts = tw_arena_zero(arena, (past->n_counts + 1) * sizeof *response.counts);
    for (size_t i = 0; i < past->n_counts && response.counts != NULL; i++) {
        Tradewake__V1__StateCount *count = tw_arena_take(arena, sizeof *count);
        if (count == NULL)
            break;
        tradewake__v1__state_count__init(count);
        count->state = (Tradewake__V1__CopyState)past->counts[i].state;
        count->reason = (tw_reason)past->counts[i].reason;
        count->count = past->counts[i].count;
        response.counts[response.n_counts++] = count;
    }
    if (response.received_at != NULL && response.n_counts == past->n_counts)
        tw_call_answer(call, &response.base);
    else
        refuse_large(call);
}

void tw_get_master_on_request(struct tw_call *call, const ProtobufCMessage *request,
                              const struct tw_refusal *invalid)
{
    (void)invalid;
    const Tradewake__V1__GetMasterRequest *m = (const Tradewake__V1__GetMasterRequest *)request;
    struct tw_refusal refusal = {0};
    Tradewake__V1__Master response;
    if (tw_engine_master_get(tw_services_engine(), m->master_id, tw_call_arena(call), &response, &refusal))
        tw_call_answer(call, &response.base);
    else
        tw_call_refuse(call, &refusal);
}

void tw_list_masters_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                const struct tw_refusal *invalid)
{
    (void)invalid;
    const Tradewake__V1__ListMastersRequest *m = (const Tradewake__V1__ListMastersRequest *)request;
    struct tw_arena *arena = tw_call_arena(call);
    struct tw_refusal refusal = {0};
    char after[81];
    if (!tw_page_place(m->page_token, "masters", after, &refusal)) {
        tw_call_refuse(call, &refusal);
        return;
    }
    uint32_t size = tw_page_size(m->page_size);
    const char **ids = tw_arena_zero(arena, size * sizeof *ids);
    Tradewake__V1__Master **masters = tw_arena_zero(arena, size * sizeof *masters);
    if (ids == NULL || masters == NULL) {
        refuse_large(call);
        return;
    }
    Tradewake__V1__ListMastersResponse response;
    tradewake__v1__list_masters_response__init(&response);
    response.masters = masters;
    size_t n = tw_engine_masters_list(tw_services_engine(), after, arena, ids, size);
    for (size_t i = 0; i < n; i++) {
        Tradewake__V1__Master *master = tw_arena_take(arena, sizeof *master);
        if (master != NULL &&
            tw_engine_master_get(tw_services_engine(), ids[i], arena, master, &refusal))
            masters[response.n_masters++] = master;
    }
    if (n == size)
        response.next_page_token = tw_page_token(arena, "masters", ids[n - 1]);
    tw_call_answer(call, &response.base);
}

void tw_sync_master_on_request(struct tw_call *call, const ProtobufCMessage *request,
                               const struct tw_refusal *invalid)
{
    (void)invalid;
    struct tw_refusal refusal = {0};
    Tradewake__V1__SyncMasterResponse response;
    if (tw_engine_sync(tw_services_engine(), (const Tradewake__V1__SyncMasterRequest *)request,
                       tw_call_received_mono_ns(call), tw_call_received_wall_ns(call),
                       tw_call_arena(call), &response, &refusal))
        tw_call_answer(call, &response.base);
    else
        tw_call_refuse(call, &refusal);
}

enum { EXPLANATIONS_MAX = 100 };

void tw_explain_event_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                 const struct tw_refusal *invalid)
{
    (void)invalid;
    const Tradewake__V1__ExplainEventRequest *m = (const Tradewake__V1__ExplainEventRequest *)request;
    struct tw_arena *arena = tw_call_arena(call);
    struct tw_refusal refusal = {0};
    struct tw_event event;
    char filter[160], after[81];
    uint32_t size = m->page_size == 0 || m->page_size > EXPLANATIONS_MAX ? EXPLANATIONS_MAX : m->page_size;
    Tradewake__V1__ExplainEventResponse response;
    tradewake__v1__explain_event_response__init(&response);
    response.explanations = tw_arena_zero(arena, size * sizeof *response.explanations);
    bool ok = response.explanations != NULL
                  ? tw_event_read(m->event, tw_call_received_wall_ns(call), &event, &refusal)
                  : tw_refuse(&refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_TOO_LARGE, NULL,
                              "the answer takes more memory than one may");
    if (ok) {
        snprintf(filter, sizeof filter, "explain/%.64s/%.64s", event.master_id, m->follower_id);
        ok = tw_page_place(m->page_token, filter, after, &refusal) &&
             tw_engine_explain(tw_services_engine(), &event, m->follower_id, after, arena,
                               response.explanations, size, &response.n_explanations, &refusal);
    }
    if (!ok) {
        tw_call_refuse(call, &refusal);
        return;
    }
    if (response.n_explanations == size && m->follower_id[0] == '\0')
        response.next_page_token =
            tw_page_token(arena, filter, response.explanations[size - 1]->follower_id);
    tw_call_answer(call, &response.base);
}
