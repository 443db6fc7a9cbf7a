/* messages.c - copies, records and masters as the public contract shows them. */
#include "internal.h"

#include <google/protobuf/timestamp.pb-c.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Small things in an arena; an arena that is full gives empty texts, and the answer is refused as
 * too large when it is packed. ---- */

static char empty_text[] = "";

char *arena_print(struct tw_arena *arena, const char *format, ...)
{
    char text[1024];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    size_t size = length < 0 ? 0 : (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
    char *copy = tw_arena_text(arena, text, size);
    return copy != NULL ? copy : empty_text;
}

char *arena_text(struct tw_arena *arena, const char *text)
{
    if (text[0] == '\0')
        return empty_text;
    char *copy = tw_arena_text(arena, text, strlen(text));
    return copy != NULL ? copy : empty_text;
}

char *arena_decimal(struct tw_arena *arena, tw_decimal value)
{
    char text[TW_DECIMAL_TEXT_BYTES];
    return arena_text(arena, tw_decimal_text(value, text));
}

Google__Protobuf__Timestamp *arena_time(struct tw_arena *arena, int64_t wall_ns)
{
    Google__Protobuf__Timestamp *time = tw_arena_take(arena, sizeof *time);
    if (time == NULL)
        return NULL;
    google__protobuf__timestamp__init(time);
    time->seconds = wall_ns / TW_NS_PER_S;
    time->nanos = (int32_t)(wall_ns % TW_NS_PER_S);
    return time;
}

void *arena_alloc(void *arena, size_t size)
{
    return tw_arena_take(arena, size);
}

void arena_free(void *arena, void *pointer)
{
    (void)arena, (void)pointer;
}

ProtobufCMessage *message_copy(const ProtobufCMessage *message, struct tw_arena *arena)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = malloc(size + 1);
    if (packed == NULL)
        return NULL;
    protobuf_c_message_pack(message, packed);
    ProtobufCAllocator in_arena = {arena_alloc, arena_free, arena};
    ProtobufCMessage *copy = protobuf_c_message_unpack(message->descriptor,
                                                       arena != NULL ? &in_arena : NULL, size, packed);
    free(packed);
    return copy;
}

/* ---- Records ---- */

void tw_record_hold(struct tw_record *record)
{
    atomic_fetch_add_explicit(&record->refs, 1, memory_order_relaxed);
}

void record_free(struct tw_record *record)
{
    while (record->waiters != NULL) {
        struct waiter *next = record->waiters->next;
        record->waiters->wake(record->waiters->context);
        free(record->waiters);
        record->waiters = next;
    }
    for (uint32_t i = 0; i < record->n_copies; i++) {
        free(record->copies[i].told);
        free(record->copies[i].asks_id);
        free(record->copies[i].late);
        if (record->copies[i].subscription != NULL)
            subscription_release(record->copies[i].subscription);
    }
    pthread_mutex_destroy(&record->mutex);
    free(record->packed);
    free(record);
}

void tw_record_release(struct tw_record *record)
{
    if (atomic_fetch_sub_explicit(&record->refs, 1, memory_order_acq_rel) == 1)
        record_free(record);
}

int64_t tw_record_received_wall_ns(const struct tw_record *record)
{
    return record->received_wall_ns;
}

const char *tw_record_event_id(const struct tw_record *record)
{
    return record->event_id;
}

size_t tw_record_copy_count(const struct tw_record *record)
{
    return record->n_copies;
}

struct tw_copy *tw_record_copy(struct tw_record *record, size_t index)
{
    assert(index < record->n_copies);
    return &record->copies[index];
}

Tradewake__V1__TradeEvent *tw_record_event(const struct tw_record *record, struct tw_arena *arena)
{
    ProtobufCAllocator in_arena = {arena_alloc, arena_free, arena};
    if (record->packed == NULL)
        return NULL;
    return tradewake__v1__trade_event__unpack(&in_arena, record->packed_bytes, record->packed);
}

uint32_t tw_record_pending(const struct tw_record *record, enum tw_wait wait)
{
    if (!atomic_load_explicit(&record->is_durable, memory_order_acquire))
        return record->n_copies > 0 ? record->n_copies : 1;
    switch (wait) {
    case TW_WAIT_SENT:
        return atomic_load_explicit(&record->pending_sent, memory_order_acquire);
    case TW_WAIT_DONE:
        return atomic_load_explicit(&record->pending_done, memory_order_acquire);
    case TW_WAIT_ACCEPTED:
        break;
    }
    return 0;
}

struct tw_record_counts tw_record_counts_get(const struct tw_record *record)
{
    return (struct tw_record_counts){record->accepted, record->skipped};
}

struct tw_record *tw_engine_record_find(struct tw_engine *engine, const char *master_id,
                                        const char *event_id)
{
    struct tw_master *master = fleet_master_find(engine, master_id);
    struct tw_record *record = NULL;
    if (master == NULL)
        return NULL;
    pthread_mutex_lock(&master->mutex);
    HASH_FIND_STR(master->records, event_id, record);
    if (record != NULL)
        tw_record_hold(record);
    pthread_mutex_unlock(&master->mutex);
    return record;
}

/* ---- Copies ---- */

void tw_copy_hold(struct tw_copy *copy)
{
    tw_record_hold(copy->record);
}

void tw_copy_release(struct tw_copy *copy)
{
    tw_record_release(copy->record);
}

static pthread_mutex_t *copy_mutex(struct tw_copy *copy)
{
    return &copy->subscription->slot->mutex;
}

bool tw_copy_was_skipped(struct tw_copy *copy)
{
    return copy->is_skipped; /* set before anybody else could see the copy */
}

void tw_copy_state(struct tw_copy *copy, copy_state *ret_state, tw_reason *ret_reason)
{
    pthread_mutex_lock(copy_mutex(copy));
    *ret_state = (copy_state)copy->state;
    *ret_reason = (tw_reason)copy->reason;
    pthread_mutex_unlock(copy_mutex(copy));
}

uint64_t tw_copy_own_time_ns(struct tw_copy *copy)
{
    pthread_mutex_lock(copy_mutex(copy));
    uint64_t called_ns = copy->called_ns;
    pthread_mutex_unlock(copy_mutex(copy));
    return called_ns;
}

uint64_t tw_copy_change_id(struct tw_copy *copy)
{
    pthread_mutex_lock(copy_mutex(copy));
    uint64_t change_id = copy->change_id;
    pthread_mutex_unlock(copy_mutex(copy));
    return change_id;
}

bool tw_copy_is_terminal(struct tw_copy *copy)
{
    copy_state state;
    tw_reason reason;
    tw_copy_state(copy, &state, &reason);
    return state != STATE(QUEUED) && state != STATE(SENT) && state != STATE(UNKNOWN);
}

uint64_t tw_copy_place(const struct tw_copy *copy)
{
    return copy->record->number * TW_HISTORY_PLACES + (uint64_t)(copy - copy->record->copies);
}

int64_t tw_copy_received_wall_ns(const struct tw_copy *copy)
{
    return copy->record->received_wall_ns;
}

/* "" when nothing is there, also for volumes that were never decided. */
char *volume_text(struct tw_arena *arena, tw_decimal value)
{
    return value > 0 ? arena_decimal(arena, value) : empty_text;
}

Tradewake__V1__CopySummary *tw_copy_summary(struct tw_copy *copy, struct tw_arena *arena)
{
    Tradewake__V1__CopySummary *m = tw_arena_take(arena, sizeof *m);
    if (m == NULL)
        return NULL;
    tradewake__v1__copy_summary__init(m);
    char id[TW_COPY_ID_BYTES];
    m->follower_id = copy->subscription->slot->id;
    m->master_position_id = copy->record->subject_id;

    pthread_mutex_lock(copy_mutex(copy));
    bool has_id = copy->has_id;
    if (has_id)
        memcpy(id, copy->id, sizeof id);
    m->action = (copy_action)copy->action;
    m->state = (copy_state)copy->state;
    m->reason = (tw_reason)copy->reason;
    m->side = (Tradewake__V1__Side)copy->side;
    m->attempts = copy->calls;
    m->own_time_ns = copy->called_ns;
    const char *symbol = copy->symbol;
    tw_decimal volume = copy->volume, filled = copy->filled, average = copy->average_price;
    pthread_mutex_unlock(copy_mutex(copy));

    if (!has_id)
        copy_id_make(copy, id);
    m->copy_id = arena_text(arena, id);
    m->symbol = arena_text(arena, symbol);
    m->volume = volume_text(arena, volume);
    m->filled_volume = volume_text(arena, filled);
    m->average_price = volume_text(arena, average);
    return m;
}

const char *reason_word(tw_reason reason)
{
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(&tradewake__v1__reason__descriptor, (int)reason);
    return value != NULL ? value->name + strlen("REASON_") : "?";
}

static const char *sizing_word(const struct tw_copy *copy)
{
    const ProtobufCEnumValue *mode =
        protobuf_c_enum_descriptor_get_value(&tradewake__v1__sizing_mode__descriptor, copy->sizing);
    return mode != NULL ? mode->name + strlen("SIZING_MODE_") : "?";
}

static char *remark_words(const struct tw_copy *copy, struct tw_arena *arena)
{
    char words[160] = "";
    for (uint32_t i = 0, used = 0; i < copy->n_remarks && used < sizeof words; i++)
        used += (uint32_t)snprintf(words + used, sizeof words - used, " (%s)", reason_word((tw_reason)copy->remarks[i]));
    return arena_text(arena, words);
}

/* "the master's 0.1 by MULTIPLIER is 0.033, the order 0.03": how an opening's volume came about. */
static char *opening_words(const struct tw_copy *copy, struct tw_arena *arena)
{
    tw_decimal volume = copy->record->volume;
    const char *master = volume > 0 ? arena_print(arena, "the master's %s by ", arena_decimal(arena, volume))
                                                    : "";
    const char *order = copy->volume > 0 ? arena_print(arena, ", the order %s", arena_decimal(arena, copy->volume)) : "";
    return arena_print(arena, "%s%s is %s%s%s", master, sizing_word(copy), arena_decimal(arena, copy->wanted), order,
                       remark_words(copy, arena));
}

/* "the master has 0.6 of 1 left, so 0.4 is closed". */
static char *reduction_words(const struct tw_copy *copy, struct tw_arena *arena)
{
    const char *order = copy->volume > 0 ? arena_print(arena, ", so %s is closed", arena_decimal(arena, copy->volume)) : "";
    return arena_print(arena, "the master has %s of %s left%s%s", arena_decimal(arena, copy->master_remaining),
                       arena_decimal(arena, copy->master_initial), order, remark_words(copy, arena));
}

/* The arithmetic of the decision; "" where there is none. */
static char *arithmetic(const struct tw_copy *copy, struct tw_arena *arena)
{
    if (copy->action == ACTION(PARTIAL_CLOSE) && copy->master_initial > 0)
        return reduction_words(copy, arena);
    return copy->sizing != 0 && copy->wanted != TW_DECIMAL_UNSET ? opening_words(copy, arena) : empty_text;
}

static char *state_words(const struct tw_copy *copy, struct tw_arena *arena);

/* A sentence or two for people: the arithmetic, what happened, and what comes next. */
static char *copy_words(const struct tw_copy *copy, struct tw_arena *arena)
{
    const char *sizes = arithmetic(copy, arena);
    char *state = state_words(copy, arena);
    return sizes[0] != '\0' ? arena_print(arena, "%s; %s", sizes, state) : state;
}

static char *state_words(const struct tw_copy *copy, struct tw_arena *arena)
{
    const char *why = reason_word((tw_reason)copy->reason);
    bool has_reason = copy->reason != REASON(UNSPECIFIED);
    switch ((copy_state)copy->state) {
    case STATE(QUEUED):
        return has_reason ? arena_print(arena, "waits: %s", why) : arena_print(arena, "waits for its turn");
    case STATE(SENT):
        return arena_print(arena, "the order call has been made; the broker has not answered yet");
    case STATE(DONE):
        has_reason = has_reason && (copy->n_remarks == 0 || copy->remarks[0] != copy->reason); /* said already */
        return has_reason ? arena_print(arena, "done: %s", why) : arena_print(arena, "done");
    case STATE(PARTIAL):
        return arena_print(arena, "the broker did part of it (%s); the rest is gone", why);
    case STATE(REJECTED):
        return arena_print(arena, "the broker said no: %s", why);
    case STATE(SKIPPED):
        return arena_print(arena, "nothing was sent: %s", why);
    case STATE(EXPIRED):
        return arena_print(arena, "too late to be sent: %s", why);
    case STATE(CANCELLED):
        return arena_print(arena, "withdrawn before it was sent: %s", why);
    case STATE(UNKNOWN):
        return arena_print(arena, "it may have executed (%s): the broker is being asked, %u times so far",
                           why, copy->lookups);
    default:
        return empty_text;
    }
}

/* What the broker told, out of the copy's one text; "" when nothing. */
struct told {
    const char *order_id, *position_id, *message;
};

static struct told told_of(const char *told)
{
    if (told == NULL)
        return (struct told){"", "", ""};
    const char *position = told + strlen(told) + 1;
    return (struct told){told, position, position + strlen(position) + 1};
}

/* The newest; a close that is refused for hours has thousands. */
enum { IDS_TOLD_MAX = 100 };

/* The client order ids sent so far, by order leg. */
static void fill_order_ids(struct tw_copy_id_input input, const uint32_t sent[2], struct tw_arena *arena,
                           Tradewake__V1__Copy *m)
{
    uint32_t first[2], n = 0;
    for (uint32_t leg = 0; leg < 2; leg++) {
        first[leg] = sent[leg] > IDS_TOLD_MAX ? sent[leg] - IDS_TOLD_MAX : 0;
        n += sent[leg] - first[leg];
    }
    m->client_order_ids = tw_arena_zero(arena, (n + 1) * sizeof *m->client_order_ids);
    if (m->client_order_ids == NULL)
        return;
    for (uint32_t leg = 0; leg < 2; leg++)
        for (uint32_t i = first[leg]; i < sent[leg]; i++) {
            char id[TW_COPY_ID_BYTES];
            input.leg = leg;
            input.attempt = i;
            tw_copy_id(&input, id);
            m->client_order_ids[m->n_client_order_ids++] = arena_text(arena, id);
        }
}

/* ---- A copy as a row, and a row as a message: the same from memory and from the history's file ---- */

static char *remarks_text(const struct tw_copy *copy, struct tw_arena *arena)
{
    char text[512];
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < copy->n_remarks && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? "," : "",
                                 reason_word((tw_reason)copy->remarks[i]));
    return arena_text(arena, text);
}

struct tw_history_copy copy_row(const struct tw_copy *copy, const char *symbol, const char *copy_id,
                                struct tw_arena *arena)
{
    const struct told told = told_of(copy->told);
    return (struct tw_history_copy){
        .change_id = copy->change_id,
        .subscription = copy->subscription->number,
        .copy_id = copy_id,
        .action = copy->action,
        .state = copy->state,
        .reason = copy->reason,
        .side = copy->side,
        .type = copy->type,
        .remarks = remarks_text(copy, arena),
        .symbol = symbol,
        .volume = copy->volume,
        .price = copy->price,
        .stop_loss = copy->stop_loss,
        .take_profit = copy->take_profit,
        .filled = copy->filled,
        .average_price = copy->average_price,
        .broker_order_id = told.order_id,
        .broker_position_id = told.position_id,
        .broker_message = told.message,
        .message = copy_words(copy, arena),
        .broker_code = copy->broker_code,
        .attempts = copy->calls,
        .order_ids = {copy->leg_ids[0], copy->leg_ids[1]},
        .planned_ns = copy->planned_ns,
        .journaled_ns = copy->journaled_ns,
        .started_ns = copy->started_ns,
        .called_ns = copy->called_ns,
        .answered_ns = copy->answered_ns,
        .held_ns = copy->held_ns,
        .updated_ns = copy->updated_wall_ns,
    };
}

struct tw_history_event record_row(const struct tw_record *record)
{
    return (struct tw_history_event){
        .number = record->number,
        .event_id = record->event_id,
        .master_id = record->master->id,
        .subject_id = record->subject_id,
        .symbol = record->symbol,
        .trace_id = record->trace_id,
        .origin = (int32_t)record->origin,
        .received_ns = record->received_wall_ns,
        .upstream_ns = record->upstream_ns,
        .volume = record->volume,
        .packed = record->packed,
        .packed_size = record->packed_bytes,
    };
}

static void remarks_read(const char *text, struct tw_arena *arena, Tradewake__V1__Copy *m)
{
    if (text[0] == '\0')
        return;
    m->remarks = tw_arena_zero(arena, TW_REMARKS_MAX * sizeof *m->remarks);
    while (m->remarks != NULL && text[0] != '\0' && m->n_remarks < TW_REMARKS_MAX) {
        char name[80];
        size_t length = strcspn(text, ",");
        snprintf(name, sizeof name, "REASON_%.*s", (int)length, text);
        const ProtobufCEnumValue *value =
            protobuf_c_enum_descriptor_get_value_by_name(&tradewake__v1__reason__descriptor, name);
        if (value != NULL)
            m->remarks[m->n_remarks++] = (tw_reason)value->value;
        text += length + (text[length] == ',');
    }
}

static Tradewake__V1__StageTimes *row_times(const struct tw_history_copy *row, struct tw_arena *arena)
{
    Tradewake__V1__StageTimes *times = tw_arena_take(arena, sizeof *times);
    if (times == NULL)
        return NULL;
    tradewake__v1__stage_times__init(times);
    times->planned_ns = row->planned_ns;
    times->journaled_ns = row->journaled_ns;
    times->started_ns = row->started_ns;
    times->called_ns = row->called_ns;
    times->answered_ns = row->answered_ns;
    times->held_ns = row->held_ns;
    times->upstream_ns = row->event->upstream_ns;
    return times;
}

Tradewake__V1__Copy *row_message(const struct tw_history_copy *row, struct tw_arena *arena)
{
    const struct tw_history_event *event = row->event;
    Tradewake__V1__Copy *m = tw_arena_take(arena, sizeof *m);
    if (m == NULL)
        return NULL;
    tradewake__v1__copy__init(m);
    m->copy_id = arena_text(arena, row->copy_id);
    m->event_id = arena_text(arena, event->event_id);
    m->master_id = arena_text(arena, event->master_id);
    m->follower_id = arena_text(arena, row->follower_id);
    m->subscription_id = arena_text(arena, row->subscription_id);
    m->origin = (Tradewake__V1__CopyOrigin)event->origin;
    m->action = (copy_action)row->action;
    m->state = (copy_state)row->state;
    m->reason = (tw_reason)row->reason;
    m->message = arena_text(arena, row->message);
    m->master_position_id = arena_text(arena, event->subject_id);
    m->symbol = arena_text(arena, row->symbol);
    m->side = (Tradewake__V1__Side)row->side;
    m->type = (Tradewake__V1__OrderType)row->type;
    m->volume = volume_text(arena, row->volume);
    m->price = volume_text(arena, row->price);
    m->stop_loss = arena_decimal(arena, row->stop_loss);
    m->take_profit = arena_decimal(arena, row->take_profit);
    m->broker_order_id = arena_text(arena, row->broker_order_id);
    m->broker_position_id = arena_text(arena, row->broker_position_id);
    m->filled_volume = volume_text(arena, row->filled);
    m->average_price = volume_text(arena, row->average_price);
    m->broker_code = row->broker_code;
    m->broker_message = arena_text(arena, row->broker_message);
    m->attempts = row->attempts;
    m->times = row_times(row, arena);
    m->received_at = arena_time(arena, event->received_ns);
    m->updated_at = arena_time(arena, row->updated_ns);
    m->change_id = row->change_id;
    m->trace_id = arena_text(arena, event->trace_id);
    remarks_read(row->remarks, arena, m);
    const struct tw_copy_id_input input = {.master_id = m->master_id,
                                           .event_id = m->event_id,
                                           .follower_id = m->follower_id,
                                           .subject_id = m->master_position_id,
                                           .action = copy_action_word(m->action)};
    fill_order_ids(input, row->order_ids, arena, m);
    return m->times != NULL && m->received_at != NULL && m->updated_at != NULL ? m : NULL;
}

struct tw_history_copy copy_row_now(struct tw_copy *copy, const char *copy_id, struct tw_arena *arena)
{
    pthread_mutex_lock(copy_mutex(copy));
    struct tw_history_copy row = copy_row(copy, arena_text(arena, copy->symbol), copy_id, arena);
    row.broker_order_id = arena_text(arena, row.broker_order_id); /* the copy's own may change */
    row.broker_position_id = arena_text(arena, row.broker_position_id);
    row.broker_message = arena_text(arena, row.broker_message);
    pthread_mutex_unlock(copy_mutex(copy));
    return row;
}

Tradewake__V1__Copy *tw_copy_message(struct tw_copy *copy, struct tw_arena *arena)
{
    const struct tw_history_event event = record_row(copy->record);
    char id[TW_COPY_ID_BYTES];
    copy_id_make(copy, id);
    struct tw_history_copy row = copy_row_now(copy, id, arena);
    row.event = &event;
    row.follower_id = copy->subscription->slot->id;
    row.subscription_id = copy->subscription->id;
    return row_message(&row, arena);
}

/* ---- What a sample is about ---- */

static void describe(void *subject, struct tw_sample_facts *ret)
{
    struct tw_copy *copy = subject;
    struct tw_record *record = copy->record;
    copy_id_make(copy, ret->copy_id); /* from what never changes: no lock */
    ret->event_id = record->event_id;
    ret->master_id = record->master->id;
    ret->follower_id = copy->subscription->slot->id;
    ret->adapter = copy->subscription->slot->ops->name;
    ret->trace_id = record->trace_id;
    ret->action = (int32_t)copy->action;
    ret->received_wall_ns = record->received_wall_ns;
    ret->upstream_ns = record->upstream_ns;
}

static void hold(void *subject)
{
    tw_copy_hold(subject);
}

static void release(void *subject)
{
    tw_copy_release(subject);
}

const struct tw_sample_subject_ops *tw_engine_subject_ops(void)
{
    static const struct tw_sample_subject_ops ops = {describe, hold, release};
    return &ops;
}

/* ---- Looking things up ---- */

struct tw_copy *tw_engine_copy_find(struct tw_engine *engine, const char *copy_id,
                                    struct tw_record **ret_record)
{
    struct tw_copy *copy = NULL;
    pthread_mutex_lock(&engine->journal.index_mutex);
    HASH_FIND_STR(engine->journal.index, copy_id, copy);
    if (copy != NULL)
        tw_record_hold(copy->record);
    pthread_mutex_unlock(&engine->journal.index_mutex);
    if (copy != NULL)
        *ret_record = copy->record;
    return copy;
}

static bool is_any_or(const char *wanted, const char *value)
{
    return wanted[0] == '\0' || strcmp(wanted, value) == 0;
}

static bool record_matches(const struct tw_record *record, const struct tw_copy_filter *filter)
{
    return is_any_or(filter->master_id, record->master->id) &&
           is_any_or(filter->event_id, record->event_id) &&
           is_any_or(filter->subject_id, record->subject_id) &&
           record->received_wall_ns >= filter->received_from_wall_ns &&
           record->received_wall_ns < filter->received_until_wall_ns;
}

#define CONTAINS(list, n, value)                                                                     \
    __extension__({                                                                                  \
        bool found = (n) == 0;                                                                       \
        for (size_t at_ = 0; at_ < (n) && !found; at_++)                                             \
            found = (list)[at_] == (value);                                                          \
        found;                                                                                       \
    })

bool tw_copy_matches(struct tw_copy *copy, const struct tw_copy_filter *filter)
{
    if (!record_matches(copy->record, filter) ||
        !is_any_or(filter->follower_id, copy->subscription->slot->id) ||
        !CONTAINS(filter->actions, filter->n_actions, (copy_action)copy->action))
        return false;
    copy_state state;
    tw_reason reason;
    tw_copy_state(copy, &state, &reason);
    return CONTAINS(filter->states, filter->n_states, state) &&
           CONTAINS(filter->reasons, filter->n_reasons, reason);
}

enum { HISTORY_STEPS_AT_ONCE = 256 }; /* whoever appends to the history never waits for more */

/* The newest record below a number, held; from: a held record to go on from (it is released), or NULL.
 * NULL: there is none. */
static struct tw_record *history_below(struct tw_engine *engine, struct tw_record *from, uint64_t number)
{
    struct tw_record *record = from;
    bool is_found;
    do {
        pthread_mutex_lock(&engine->history.mutex);
        struct tw_record *at = record != NULL && record->is_in_history ? record : engine->history.newest;
        for (int steps = 0; at != NULL && at->number >= number && steps < HISTORY_STEPS_AT_ONCE; steps++)
            at = at->older;
        if (at != NULL)
            tw_record_hold(at);
        is_found = at == NULL || at->number < number;
        pthread_mutex_unlock(&engine->history.mutex);
        if (record != NULL)
            tw_record_release(record);
        record = at;
    } while (!is_found);
    return record;
}

size_t tw_engine_copies_list(struct tw_engine *engine, const struct tw_copy_filter *filter,
                             struct tw_copy_cursor *cursor, struct tw_copy **ret, size_t n_max)
{
    /* The cursor names the last copy given out: the record's number plus one, and its index. */
    size_t n = 0;
    bool is_first = cursor->record_number == UINT64_MAX;
    uint64_t number = is_first ? UINT64_MAX : cursor->record_number + 1;
    uint32_t index_max = is_first ? UINT32_MAX : cursor->index;
    struct tw_record *record = history_below(engine, NULL, number);
    while (record != NULL && n < n_max) {
        bool is_cursors = !is_first && record->number == cursor->record_number;
        uint32_t n_planned = atomic_load_explicit(&record->n_planned, memory_order_acquire);
        uint32_t i = is_cursors ? index_max : n_planned;
        if (i > 0 && record_matches(record, filter))
            while (i > 0 && n < n_max) {
                struct tw_copy *copy = &record->copies[--i];
                if (!tw_copy_matches(copy, filter))
                    continue;
                tw_copy_hold(copy);
                ret[n++] = copy;
            }
        if (n < n_max)
            record = history_below(engine, record, record->number);
    }
    if (record != NULL)
        tw_record_release(record);
    if (n > 0) {
        struct tw_copy *last = ret[n - 1];
        cursor->record_number = last->record->number;
        cursor->index = (uint32_t)(last - last->record->copies);
    }
    return n;
}
