/* history.c - what the log says of copies, put into the history's file row by row; and questions about what
 * is not in memory any more, answered from there.
 *
 * A row is made of the log's record alone and of the names that the file has: the engine's memory is not looked
 * at, so that the file can be made anew from the log at any time. */
#include "audit.h"

#include <tradewake/base/log.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_NS_MAX TW_NS_PER_S
#define OPEN_STATES (1u << STATE(QUEUED) | 1u << STATE(SENT) | 1u << STATE(UNKNOWN))
enum { ARENA_BYTES = 1 << 20, WORDS_MAX = 256 };

/* A copy that is read needs somebody it belongs to: these stand in. The history thread's. */
struct taking {
    struct tw_master master;
    struct tw_slot slot;
    struct tw_subscription subscription;
    struct tw_record *record;
    struct tw_arena arena; /* a row's texts */
    uint64_t unknown;      /* copies whose event or subscription is in no record there is */
    struct tw_history_words words[WORDS_MAX];
};

/* ---- Rows from records ---- */

static void text_set(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from);
}

/* Who the copy belongs to, by the file's names. TW_NOT_FOUND: nobody that is known. */
static tw_status stand_in(struct taking *taking, struct tw_history_file *file, uint64_t number, uint32_t subscription,
                          struct tw_error *error)
{
    const struct tw_history_event *event;
    const char *follower_id;
    struct tw_record *record = taking->record;
    tw_status status = tw_history_event_of(file, number, &event, error);
    if (status == TW_OK)
        status = tw_history_subscription_of(file, subscription, &follower_id, error);
    if (status != TW_OK)
        return status;
    record->number = number;
    text_set(record->event_id, sizeof record->event_id, event->event_id);
    text_set(record->subject_id, sizeof record->subject_id, event->subject_id);
    text_set(record->symbol, sizeof record->symbol, event->symbol);
    record->volume = event->volume;
    text_set(taking->master.id, sizeof taking->master.id, event->master_id);
    text_set(taking->slot.id, sizeof taking->slot.id, follower_id);
    taking->subscription.number = subscription;
    return TW_OK;
}

static void leg_pass(struct taking *taking, struct state_in *in)
{
    struct tw_leg leg = {0};
    (void)state_get_leg_names(in);
    state_get_leg(in, &leg);
    leg_tickets_clear(&leg);
    uint64_t n_applied = state_get_u(in);
    for (uint64_t i = 0; i < n_applied && !in->failed; i++) {
        struct tw_copy copy = {.record = taking->record, .subscription = &taking->subscription};
        (void)state_get_u(in);
        (void)state_get_copy_names(in);
        (void)state_get_copy_values(in, &copy);
    }
}

static tw_status take_copy(struct taking *taking, struct tw_history_file *file, struct state_in *in,
                           uint64_t change_id, struct tw_error *error)
{
    struct tw_copy copy = {.record = taking->record, .subscription = &taking->subscription, .change_id = change_id};
    uint64_t number = state_get_u(in);
    const struct copy_names names = state_get_copy_names(in);
    const struct copy_texts texts = state_get_copy_values(in, &copy);
    copy.told = texts.told_size > 0 ? (char *)(uintptr_t)texts.told : NULL; /* only read */
    if (state_get_u(in) != 0)
        leg_pass(taking, in);
    if (in->failed)
        return TW_OK; /* said by the caller */
    tw_status status = stand_in(taking, file, number, names.subscription_number, error);
    if (status != TW_OK) {
        taking->unknown += status == TW_NOT_FOUND;
        return status == TW_NOT_FOUND ? TW_OK : status;
    }
    char copy_id[TW_COPY_ID_BYTES];
    copy_id_make(&copy, copy_id);
    tw_arena_reset(&taking->arena);
    struct tw_history_copy row = copy_row(&copy, texts.symbol[0] != '\0' ? texts.symbol : taking->record->symbol, copy_id,
                                        &taking->arena);
    row.place = number * TW_HISTORY_PLACES + names.index;
    return tw_history_put_copy(file, &row, error);
}

static tw_status take_outcome(struct taking *taking, struct tw_history_file *file, struct state_in *in,
                              uint64_t sequence, struct tw_error *error)
{
    tw_status status = TW_OK;
    uint64_t n = state_get_u(in);
    for (uint64_t i = 0; i < n && !in->failed && status == TW_OK; i++)
        status = take_copy(taking, file, in, sequence * BATCH_PLACES + i, error);
    return status;
}

static tw_status take_event(struct taking *taking, struct tw_history_file *file, struct state_in *in,
                            struct tw_error *error)
{
    struct tw_record *record = taking->record;
    const struct event_head head = state_get_event_head(in);
    if (!state_get_event(in, record) || in->failed) {
        in->failed = true;
        return TW_OK;
    }
    record->number = head.number;
    text_set(record->event_id, sizeof record->event_id, head.event_id);
    text_set(taking->master.id, sizeof taking->master.id, head.master_id);
    const struct tw_history_event row = record_row(record);
    tw_status status = tw_history_put_event(file, &row, error);
    free(record->packed);
    record->packed = NULL;
    record->packed_bytes = 0;
    return status;
}

static tw_status take_follower(struct tw_history_file *file, struct state_in *in, struct tw_error *error)
{
    uint32_t number = (uint32_t)state_get_u(in);
    size_t size;
    const uint8_t *packed = state_get_bytes(in, &size);
    Tradewake__V1__Follower *message = tradewake__v1__follower__unpack(NULL, size, packed);
    if (message == NULL) {
        in->failed = true;
        return TW_OK;
    }
    tw_status status = tw_history_put_follower(file, number, message->follower_id, error);
    tradewake__v1__follower__free_unpacked(message, NULL);
    return status;
}

static tw_status take_subscription(struct tw_history_file *file, struct state_in *in, struct tw_error *error)
{
    char id[TW_ID_BYTES], master_id[TW_ID_BYTES];
    uint32_t number = (uint32_t)state_get_u(in);
    state_get_text(in, id, sizeof id);
    state_get_text(in, master_id, sizeof master_id);
    uint32_t follower = (uint32_t)state_get_u(in);
    return in->failed ? TW_OK : tw_history_put_subscription(file, number, id, follower, error);
}

static tw_status take_audit(struct tw_history_file *file, struct state_in *in, uint64_t sequence, struct tw_error *error)
{
    char texts[TW_AUDIT_TEXTS_BYTES], result[64] = "";
    struct tw_audit audit;
    size_t size = (size_t)(in->end - in->at);
    if (!tw_audit_read(in->at, size, texts, &audit)) {
        in->failed = true;
        return TW_OK;
    }
    const ProtobufCEnumValue *word =
        protobuf_c_enum_descriptor_get_value(&tradewake__v1__error_reason__descriptor, audit.result);
    if (audit.result != 0)
        snprintf(result, sizeof result, "%s", word != NULL ? word->name + strlen("ERROR_REASON_") : "UNKNOWN");
    const struct tw_history_audit row = {
        .sequence = sequence, .at_ns = audit.at_wall_ns, .who = audit.who, .peer = audit.peer, .method = audit.method,
        .master_id = audit.master_id, .follower_id = audit.follower_id, .object_id = audit.object_id,
        .result = result, .why = audit.why, .left_out = audit.left_out, .record = in->at, .record_size = size,
    };
    return tw_history_put_audit(file, &row, error);
}

static tw_status take(void *context, struct tw_history_file *file, const struct tw_journal_seen *seen,
                      struct tw_error *error)
{
    struct tw_engine *engine = context;
    struct state_in in = {seen->bytes, seen->bytes + seen->size, false};
    tw_status status = TW_OK;
    switch ((enum state_type)seen->type) {
    case STATE_FOLLOWER:
        status = take_follower(file, &in, error);
        break;
    case STATE_SUBSCRIPTION:
        status = take_subscription(file, &in, error);
        break;
    case STATE_EVENT:
        status = take_event(engine->taking, file, &in, error);
        break;
    case STATE_OUTCOME:
        status = take_outcome(engine->taking, file, &in, seen->sequence, error);
        break;
    case STATE_AUDIT:
        status = take_audit(file, &in, seen->sequence, error);
        break;
    default: /* of no copy's life */
        break;
    }
    if (in.failed && status == TW_OK)
        status = tw_error_set(error, TW_INVALID, "journal record %llu (type %u) cannot be understood",
                              (unsigned long long)seen->sequence, seen->type);
    return status;
}

/* ---- What memory knows, where the log's beginning is gone ---- */

static tw_status seed_fleet(struct tw_engine *engine, struct tw_history_file *file, struct tw_error *error)
{
    tw_status status = TW_OK;
    struct tw_slot *slot, *next_slot;
    struct tw_subscription *subscription, *next;
    HASH_ITER(hh, engine->slots, slot, next_slot)
    if (status == TW_OK)
        status = tw_history_put_follower(file, slot->number, slot->id, error);
    HASH_ITER(hh, engine->subscriptions, subscription, next)
    if (status == TW_OK)
        status = tw_history_put_subscription(file, subscription->number, subscription->id, subscription->slot->number,
                                             error);
    return status;
}

static tw_status seed_copy(struct tw_engine *engine, struct tw_history_file *file, struct tw_copy *copy,
                           struct tw_error *error)
{
    struct tw_arena *arena = &engine->taking->arena;
    struct tw_slot *slot = copy->subscription->slot;
    char copy_id[TW_COPY_ID_BYTES];
    copy_id_make(copy, copy_id);
    tw_arena_reset(arena);
    struct tw_history_copy row = copy_row_now(copy, copy_id, arena);
    row.place = tw_copy_place(copy);
    if (row.change_id == 0) /* comes as a change */
        return TW_OK;
    tw_status status = tw_history_put_follower(file, slot->number, slot->id, error);
    if (status == TW_OK)
        status = tw_history_put_subscription(file, copy->subscription->number, copy->subscription->id, slot->number,
                                             error);
    return status == TW_OK ? tw_history_put_copy(file, &row, error) : status;
}

/* Thread: main; the executor's may be at work already, the journal's not yet: no record goes. */
static tw_status seed(void *context, struct tw_history_file *file, struct tw_error *error)
{
    struct tw_engine *engine = context;
    uint64_t n = 0;
    tw_status status = seed_fleet(engine, file, error);
    for (struct tw_record *record = engine->history.oldest; record != NULL && status == TW_OK; record = record->newer) {
        const struct tw_history_event row = record_row(record);
        status = tw_history_put_event(file, &row, error);
        for (uint32_t i = 0; i < record->n_copies && status == TW_OK; i++, n++)
            status = seed_copy(engine, file, &record->copies[i], error);
    }
    tw_log(TW_LOG_WARN, "history.seeded", "copies=%llu from=memory why=\"the log's beginning is gone\"",
           (unsigned long long)n);
    return status;
}

/* ---- Start and stop ---- */

static size_t words_add(struct tw_history_words *words, size_t n, const char *table, const char *prefix,
                        const ProtobufCEnumDescriptor *descriptor)
{
    for (unsigned i = 0; i < descriptor->n_values && n < WORDS_MAX; i++)
        words[n++] = (struct tw_history_words){table, descriptor->values[i].value,
                                               descriptor->values[i].value == 0
                                                   ? ""
                                                   : descriptor->values[i].name + strlen(prefix)};
    return n;
}

static size_t words_fill(struct tw_history_words words[WORDS_MAX])
{
    size_t n = words_add(words, 0, "states", "COPY_STATE_", &tradewake__v1__copy_state__descriptor);
    n = words_add(words, n, "reasons", "REASON_", &tradewake__v1__reason__descriptor);
    n = words_add(words, n, "actions", "COPY_ACTION_", &tradewake__v1__copy_action__descriptor);
    n = words_add(words, n, "origins", "COPY_ORIGIN_", &tradewake__v1__copy_origin__descriptor);
    n = words_add(words, n, "sides", "SIDE_", &tradewake__v1__side__descriptor);
    return words_add(words, n, "types", "ORDER_TYPE_", &tradewake__v1__order_type__descriptor);
}

tw_status history_start(struct tw_engine *engine, const struct tw_engine_options *options, struct tw_error *error)
{
    struct taking *taking = calloc(1, sizeof *taking);
    engine->taking = taking;
    if (taking != NULL)
        taking->record = calloc(1, sizeof *taking->record);
    if (taking == NULL || taking->record == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the history");
    tw_arena_init(&taking->arena, ARENA_BYTES);
    taking->record->engine = engine;
    taking->record->master = &taking->master;
    taking->subscription.slot = &taking->slot;
    taking->subscription.master = &taking->master;
    const struct tw_history_options history_options = {
        .path = options->history_path,
        .log_dir = options->journal_dir,
        .log_id = engine->journal_id,
        .log_last = tw_journal_appended(engine->log),
        .keep_ns = options->history_keep_ns,
        .audit_keep_ns = options->audit_keep_ns,
        .open_states = OPEN_STATES,
        .words = taking->words,
        .n_words = words_fill(taking->words),
        .take = take,
        .seed = seed,
        .context = engine,
    };
    tw_status status = tw_history_start(&history_options, &engine->past, error);
    if (status == TW_OK)
        history_news(engine);
    return status;
}

void history_stop(struct tw_engine *engine)
{
    history_news(engine);
    tw_history_stop(engine->past);
    engine->past = NULL;
    if (engine->taking == NULL)
        return;
    tw_arena_clear(&engine->taking->arena);
    free(engine->taking->master.ahead);
    free(engine->taking->record);
    free(engine->taking);
    engine->taking = NULL;
}

void history_news(struct tw_engine *engine)
{
    if (engine->past != NULL)
        tw_history_news(engine->past, tw_journal_durable(engine->log));
}

uint64_t history_taken(const struct tw_engine *engine)
{
    return engine->past != NULL ? tw_history_taken(engine->past) : UINT64_MAX;
}

bool tw_engine_history_status(const struct tw_engine *engine, struct tw_history_status *ret)
{
    if (engine->past != NULL)
        tw_history_status_get(engine->past, ret);
    return engine->past != NULL;
}

uint64_t tw_engine_lost_change_id(const struct tw_engine *engine)
{
    struct tw_history_status status;
    if (!tw_engine_history_status(engine, &status))
        return atomic_load_explicit(&engine->journal.forgotten_change_id, memory_order_acquire);
    return status.forgotten_change_id;
}

uint64_t tw_engine_past_number(const struct tw_engine *engine)
{
    if (engine->past == NULL)
        return 0;
    return atomic_load_explicit(&engine->history.forgotten_number, memory_order_acquire);
}

/* ---- Questions. Thread: history ---- */

static bool has(const int *values, size_t n, int value)
{
    for (size_t i = 0; i < n; i++)
        if (values[i] == value)
            return true;
    return n == 0;
}

static bool is_any_or(const char *wanted, const char *value)
{
    return wanted[0] == '\0' || strcmp(wanted, value) == 0;
}

static bool row_matches(const struct tw_history_copy *row, const struct tw_copy_filter *filter)
{
    const struct tw_history_event *event = row->event;
    return is_any_or(filter->master_id, event->master_id) && is_any_or(filter->event_id, event->event_id) &&
           is_any_or(filter->subject_id, event->subject_id) && is_any_or(filter->follower_id, row->follower_id) &&
           event->received_ns >= filter->received_from_wall_ns && event->received_ns < filter->received_until_wall_ns &&
           has((const int *)filter->states, filter->n_states, row->state) &&
           has((const int *)filter->reasons, filter->n_reasons, row->reason) &&
           has((const int *)filter->actions, filter->n_actions, row->action);
}

static bool is_in_memory(struct tw_engine *engine, const struct tw_history_copy *row)
{
    struct tw_record *record;
    struct tw_copy *copy = tw_engine_copy_find(engine, row->copy_id, &record);
    bool is_same = copy != NULL && tw_copy_place(copy) == row->place;
    if (copy != NULL)
        tw_record_release(record);
    return is_same;
}

static bool past_add(struct tw_past *past, const struct tw_history_copy *row)
{
    Tradewake__V1__Copy *m = row_message(row, past->arena);
    if (m == NULL)
        return false;
    past->places[past->n] = row->place;
    past->copies[past->n++] = m;
    return true;
}

static bool on_listed(void *context, const struct tw_history_copy *row)
{
    struct tw_past *past = context;
    if (!past->is_slowest_first && row->place < past->place_min) {
        past->is_unfinished = false;
        return false;
    }
    if (!row_matches(row, past->filter) || is_in_memory(past->engine, row))
        return true;
    if (past->n < past->n_max && past_add(past, row))
        return true;
    past->is_unfinished = true;
    return false;
}

static bool on_changed(void *context, const struct tw_history_copy *row)
{
    struct tw_past *past = context;
    return !row_matches(row, past->filter) || is_in_memory(past->engine, row) || past_add(past, row);
}

static bool on_found(void *context, const struct tw_history_copy *row)
{
    return past_add(context, row);
}

static tw_status past_list(struct tw_past *past, struct tw_history_file *file, struct tw_error *error)
{
    const struct tw_copy_filter *filter = past->filter;
    const struct tw_history_filter history_filter = {.master_id = filter->master_id,
                                                     .follower_id = filter->follower_id,
                                                     .event_id = filter->event_id,
                                                     .subject_id = filter->subject_id,
                                                     .received_from_ns = filter->received_from_wall_ns,
                                                     .received_until_ns = filter->received_until_wall_ns};
    struct tw_history_page page = {.filter = &history_filter,
                                   .each = on_listed,
                                   .context = past,
                                   .is_slowest_first = past->is_slowest_first,
                                   .place = past->place,
                                   .called_ns = past->called_ns};
    past->is_unfinished = true; /* on_listed() knows better when it ends it */
    tw_status status = tw_history_list(file, &page, error);
    past->place = page.place;
    past->called_ns = page.called_ns;
    past->is_unfinished = past->is_unfinished && page.is_unfinished;
    return status;
}

static void on_event(void *context, const struct tw_history_event *event, const struct tw_history_count *counts,
                     size_t n)
{
    struct tw_past *past = context;
    ProtobufCAllocator in_arena = {arena_alloc, arena_free, past->arena};
    past->counts = tw_arena_take(past->arena, (n + 1) * sizeof *counts);
    if (past->counts == NULL)
        return;
    memcpy(past->counts, counts, n * sizeof *counts);
    past->n_counts = n;
    past->event_received_wall_ns = event->received_ns;
    past->event = tradewake__v1__trade_event__unpack(&in_arena, event->packed_size, event->packed);
}

static tw_status past_answer(struct tw_past *past, struct tw_history_file *file, struct tw_error *error)
{
    size_t room = past->kind == TW_PAST_COPY ? 1 : past->n_max;
    past->copies = tw_arena_zero(past->arena, (room + 1) * sizeof *past->copies);
    past->places = tw_arena_zero(past->arena, (room + 1) * sizeof *past->places);
    if (past->copies == NULL || past->places == NULL)
        return TW_NO_MEMORY;
    switch (past->kind) {
    case TW_PAST_COPY:
        return tw_history_find(file, past->copy_id, on_found, past, error);
    case TW_PAST_LIST:
        return past_list(past, file, error);
    case TW_PAST_CHANGES:
        return tw_history_changed(file, past->after, past->until, past->n_max, on_changed, past, &past->last, error);
    case TW_PAST_EVENT:
        return tw_history_event_find(file, past->master_id, past->event_id, on_event, past, error);
    }
    return TW_INVALID;
}

static void past_run(struct tw_history_question *question, struct tw_history_file *file)
{
    struct tw_past *past = container_of(question, struct tw_past, question);
    struct tw_error error = {0};
    tw_status status = file != NULL ? past_answer(past, file, &error) : TW_TIMEOUT;
    if (status != TW_OK && status != TW_NOT_FOUND)
        past->is_behind = true;
    if (file != NULL && past->is_behind)
        tw_log(TW_LOG_WARN, "history.unread", "why=\"%s\"", error.text);
    past->done(past);
}

void tw_engine_past_ask(struct tw_engine *engine, struct tw_past *past)
{
    past->engine = engine;
    if (engine->past == NULL) {
        past->done(past);
        return;
    }
    past->question = (struct tw_history_question){
        .sequence = atomic_load_explicit(&engine->journal.forgotten_change_id, memory_order_acquire) / BATCH_PLACES,
        .deadline_mono_ns = tw_mono_ns() + ASK_NS_MAX,
        .run = past_run,
    };
    tw_history_ask(engine->past, &past->question);
}
