/* changes.c - the journal thread: what changed is written down, made durable, and then gets its
 * change_id, its place in the index and its way to whoever watches; what nobody needs is forgotten.
 *
 *   any thread --change_push()--> [one list, newest first] --taken whole--> journal thread
 *   rpc thread --record_await_durable()--> [likewise] -------------------->
 *   adapters   --slot_dirty_push()--> [likewise] ------------------------->
 *
 * A copy is in its list at most once; what changes while it waits there is one change. The lists hold
 * references. One turn: write outcomes, sync, tell who waits for an event, tell who watches copies. */
#include "state.h"

#include <tradewake/base/crash_point.h>

#include <stdlib.h>
#include <string.h>

#define TAKE_WAIT_NS_MAX (20 * TW_NS_PER_MS)
enum { EVICT_LOOKS_MAX = 256 };

struct tw_change_feed {
    struct tw_engine *engine;
    struct tw_change_feed *next;
    void (*notify)(void *context);
    void *context;
    pthread_mutex_t mutex; /* journal thread puts, the watcher takes */
    struct tw_change *ring; /* TW_STREAM_QUEUE_ENTRIES */
    uint64_t head, tail;   /* run freely, compared only by difference */
    uint64_t dropped;
};

/* ---- Into the list ---- */

bool change_mark(struct tw_copy *copy)
{
    if (copy->is_change_queued)
        return false;
    copy->is_change_queued = true;
    return true;
}

void change_push(struct tw_copy *copy)
{
    struct tw_engine *engine = copy->record->engine;
    tw_record_hold(copy->record);
    atomic_fetch_add_explicit(&copy->record->changes_queued, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&engine->journal.posted, 1, memory_order_relaxed);
    struct tw_copy *head = atomic_load_explicit(&engine->journal.head, memory_order_relaxed);
    do {
        copy->next_change = head;
    } while (!atomic_compare_exchange_weak_explicit(&engine->journal.head, &head, copy,
                                                    memory_order_seq_cst, memory_order_relaxed));
    changes_wake(engine, false);
}

/* ---- The journal's file ---- */

uint64_t log_append(struct tw_engine *engine, uint16_t type, struct state_out *out)
{
    return tw_journal_append(engine->log, type, out->bytes, out->size);
}

bool is_durable_until(const struct tw_engine *engine, uint64_t sequence)
{
    return engine->log == NULL || tw_journal_durable(engine->log) >= sequence;
}

void record_await_durable(struct tw_record *record)
{
    struct tw_engine *engine = record->engine;
    if (is_durable_until(engine, record->durable_sequence)) {
        atomic_store_explicit(&record->is_durable, true, memory_order_release);
        return;
    }
    tw_record_hold(record);
    struct tw_record *head = atomic_load_explicit(&engine->journal.fresh, memory_order_relaxed);
    do {
        record->next_fresh = head;
    } while (!atomic_compare_exchange_weak_explicit(&engine->journal.fresh, &head, record,
                                                    memory_order_seq_cst, memory_order_relaxed));
    changes_wake(engine, true);
}

void changes_hurry(struct tw_engine *engine)
{
    atomic_store_explicit(&engine->journal.is_sync_wanted, true, memory_order_seq_cst);
    changes_wake(engine, true);
}

void leg_dirty(struct tw_leg *leg)
{
    struct tw_slot *slot = leg->slot;
    if (leg->is_dirty)
        return;
    leg->is_dirty = true;
    leg->next_dirty = slot->dirty_legs;
    slot->dirty_legs = leg;
    atomic_fetch_add_explicit(&leg->position->busy, 1, memory_order_relaxed);
}

void slot_dirty_push(struct tw_slot *slot)
{
    struct tw_engine *engine = slot->engine;
    pthread_mutex_lock(&slot->mutex);
    bool is_new = !slot->is_dirty && (slot->dirty_legs != NULL || slot->is_risk_dirty);
    slot->is_dirty |= is_new;
    pthread_mutex_unlock(&slot->mutex);
    if (!is_new)
        return;
    slot_hold(slot);
    struct tw_slot *head = atomic_load_explicit(&engine->journal.dirty, memory_order_relaxed);
    do {
        slot->next_dirty = head;
    } while (!atomic_compare_exchange_weak_explicit(&engine->journal.dirty, &head, slot,
                                                    memory_order_seq_cst, memory_order_relaxed));
    changes_wake(engine, false);
}

/* A copy, and its part of an event with one follower. */
#define COPY_AND_EVENT_BYTES (sizeof(struct tw_copy) + sizeof(struct tw_record))

uint64_t tw_engine_backlog_bytes(const struct tw_engine *engine)
{
    uint64_t done = atomic_load_explicit(&engine->journal.done, memory_order_acquire);
    return (atomic_load_explicit(&engine->journal.posted, memory_order_acquire) - done) * COPY_AND_EVENT_BYTES;
}

/* ---- Feeds ---- */

struct tw_change_feed *tw_engine_feed_open(struct tw_engine *engine, void (*notify)(void *context),
                                           void *context)
{
    struct tw_change_feed *feed = calloc(1, sizeof *feed);
    if (feed == NULL)
        return NULL;
    feed->ring = calloc(TW_STREAM_QUEUE_ENTRIES, sizeof *feed->ring);
    if (feed->ring == NULL) {
        free(feed);
        return NULL;
    }
    feed->engine = engine;
    feed->notify = notify;
    feed->context = context;
    pthread_mutex_init(&feed->mutex, NULL);
    pthread_mutex_lock(&engine->journal.feeds_mutex);
    feed->next = engine->journal.feeds;
    engine->journal.feeds = feed;
    pthread_mutex_unlock(&engine->journal.feeds_mutex);
    return feed;
}

void tw_engine_feed_close(struct tw_change_feed *feed)
{
    if (feed == NULL)
        return;
    struct tw_engine *engine = feed->engine;
    pthread_mutex_lock(&engine->journal.feeds_mutex);
    for (struct tw_change_feed **at = &engine->journal.feeds; *at != NULL; at = &(*at)->next)
        if (*at == feed) {
            *at = feed->next;
            break;
        }
    pthread_mutex_unlock(&engine->journal.feeds_mutex);
    /* The journal thread is outside of it now. */
    for (; feed->tail != feed->head; feed->tail++)
        tw_copy_release(feed->ring[feed->tail % TW_STREAM_QUEUE_ENTRIES].copy);
    pthread_mutex_destroy(&feed->mutex);
    free(feed->ring);
    free(feed);
}

/* True: it was empty before. */
static bool feed_put(struct tw_change_feed *feed, struct tw_copy *copy, uint64_t change_id)
{
    pthread_mutex_lock(&feed->mutex);
    bool was_empty = feed->head == feed->tail && feed->dropped == 0;
    if (feed->head - feed->tail < TW_STREAM_QUEUE_ENTRIES) {
        tw_copy_hold(copy);
        feed->ring[feed->head++ % TW_STREAM_QUEUE_ENTRIES] = (struct tw_change){copy, change_id};
    } else {
        feed->dropped++;
    }
    pthread_mutex_unlock(&feed->mutex);
    return was_empty;
}

size_t tw_change_feed_take(struct tw_change_feed *feed, struct tw_change *ret, size_t n_max,
                           uint64_t *ret_dropped)
{
    size_t n = 0;
    pthread_mutex_lock(&feed->mutex);
    while (n < n_max && feed->tail != feed->head)
        ret[n++] = feed->ring[feed->tail++ % TW_STREAM_QUEUE_ENTRIES];
    *ret_dropped = feed->dropped;
    feed->dropped = 0;
    pthread_mutex_unlock(&feed->mutex);
    return n;
}

size_t tw_change_feed_count(struct tw_change_feed *feed)
{
    pthread_mutex_lock(&feed->mutex);
    size_t n = (size_t)(feed->head - feed->tail);
    pthread_mutex_unlock(&feed->mutex);
    return n;
}

/* notify() does not block and takes no lock of the engine: it posts to the watcher's thread. It is
 * called under feeds_mutex, because that is what keeps the feed from being closed meanwhile. */
static void feeds_put(struct tw_engine *engine, struct tw_copy *copy, uint64_t change_id)
{
    pthread_mutex_lock(&engine->journal.feeds_mutex);
    for (struct tw_change_feed *feed = engine->journal.feeds; feed != NULL; feed = feed->next)
        if (feed_put(feed, copy, change_id))
            feed->notify(feed->context);
    pthread_mutex_unlock(&engine->journal.feeds_mutex);
}

/* ---- Forgetting ---- */

/* Nothing of it is open, and nothing waits to be written and put into the index. */
static bool is_over(struct tw_record *record)
{
    return tw_record_pending(record, TW_WAIT_DONE) == 0 &&
           atomic_load_explicit(&record->changes_queued, memory_order_acquire) == 0;
}

/* What is not in memory is in the past: noted before it goes, so that who does not find it knows where else
 * to ask, and how far the history must have come. */
static void forgotten_note(struct tw_engine *engine, const struct tw_record *record)
{
    uint64_t last = atomic_load_explicit(&engine->journal.forgotten_change_id, memory_order_relaxed);
    for (uint32_t i = 0; i < record->n_copies; i++)
        if (record->copies[i].change_id > last) /* it is over: nobody changes it any more */
            last = record->copies[i].change_id;
    atomic_store_explicit(&engine->journal.forgotten_change_id, last, memory_order_release);
    if (record->number > atomic_load_explicit(&engine->history.forgotten_number, memory_order_relaxed))
        atomic_store_explicit(&engine->history.forgotten_number, record->number, memory_order_release);
}

void history_unlink(struct tw_engine *engine, struct tw_record *record)
{
    forgotten_note(engine, record);
    if (record->older != NULL)
        record->older->newer = record->newer;
    else
        engine->history.oldest = record->newer;
    if (record->newer != NULL)
        record->newer->older = record->older;
    else
        engine->history.newest = record->older;
    record->is_in_history = false;
    engine->history.n_copies -= record->n_copies;
}

/* The oldest record that nothing is open of, taken out of the history; NULL when all fits, or what is
 * too much is still at work. */
static struct tw_record *history_take_oldest(struct tw_engine *engine)
{
    struct tw_record *found = NULL;
    pthread_mutex_lock(&engine->history.mutex);
    if (engine->history.n_copies > engine->copies_remembered) {
        found = engine->history.oldest;
        for (int looks = 0; found != NULL && !is_over(found); found = found->newer)
            if (++looks == EVICT_LOOKS_MAX) {
                found = NULL;
                break;
            }
        if (found != NULL)
            history_unlink(engine, found);
    }
    pthread_mutex_unlock(&engine->history.mutex);
    return found;
}

static void forget(struct tw_engine *engine, struct tw_record *record)
{
    struct tw_master *master = record->master;
    pthread_mutex_lock(&master->mutex);
    if (record->hh.tbl != NULL) /* a snapshot's is in no table, nor is a twin of one that is remembered */
        HASH_DEL(master->records, record);
    forgotten_add(engine, record);
    pthread_mutex_unlock(&master->mutex);
    pthread_mutex_lock(&engine->journal.index_mutex);
    for (uint32_t i = 0; i < record->n_copies; i++) {
        struct tw_copy *copy = &record->copies[i];
        if (copy->is_indexed)
            HASH_DEL(engine->journal.index, copy);
        copy->is_indexed = false;
    }
    pthread_mutex_unlock(&engine->journal.index_mutex);
    tw_record_release(record); /* the history's */
}

/* ---- A turn ---- */

void index_add(struct tw_engine *engine, struct tw_copy *copy)
{
    struct tw_copy *twin = NULL;
    pthread_mutex_lock(&engine->journal.index_mutex);
    HASH_FIND_STR(engine->journal.index, copy->id, twin);
    if (twin == NULL) {
        HASH_ADD_STR(engine->journal.index, id, copy);
        copy->is_indexed = true;
    }
    pthread_mutex_unlock(&engine->journal.index_mutex);
}

enum { BATCH_MAX = 256 };

/* A turn's copies, and what is done with them once they are durable. */
struct batch {
    struct tw_copy *copies[BATCH_MAX];
    struct tw_position *done[BATCH_MAX]; /* whose copy ended: one less is busy; NULL = none */
    uint64_t change_ids[BATCH_MAX]; /* first the place in the record alone */
    uint32_t attempts[BATCH_MAX];   /* of its id as written, with the order leg */
    uint8_t order_legs[BATCH_MAX];
    uint32_t n;
};

static bool is_terminal_state(uint8_t state)
{
    return state != STATE(QUEUED) && state != STATE(SENT) && state != STATE(UNKNOWN);
}

/* The leg without this copy among those that changed it: it is written itself. */
static void put_outcome(struct state_out *out, struct tw_copy *copy)
{
    bool was_applied = copy->is_applied;
    applied_forget(copy);
    state_put_u(out, copy->record->number);
    state_stamp(copy, copy->leg);
    state_put_copy(out, copy);
    state_put_u(out, copy->leg != NULL);
    if (copy->leg != NULL)
        state_put_leg(out, copy->leg);
    if (was_applied)
        applied_note(copy);
    copy->is_applied_anew = false;
}

/* Writes one copy as it is now, with its leg. */
static void take_up(struct batch *batch, struct tw_copy *copy, struct state_out *out, uint32_t *n_written)
{
    struct tw_slot *slot = copy->subscription->slot;
    char id[TW_COPY_ID_BYTES];
    copy_id_make(copy, id); /* a microsecond: not under the lock */
    uint32_t at = batch->n++;
    batch->copies[at] = copy;
    batch->done[at] = NULL;
    batch->change_ids[at] = *n_written;
    pthread_mutex_lock(&slot->mutex);
    copy->is_change_queued = false; /* from here on a change is a new one */
    if (!copy->has_id)
        memcpy(copy->id, id, sizeof id);
    copy->has_id = true;
    const struct tw_leg *leg = copy->leg;
    put_outcome(out, copy);
    *n_written += 1;
    batch->attempts[at] = copy->id_attempt;
    batch->order_legs[at] = copy->order_leg;
    if (leg != NULL && is_terminal_state(copy->state))
        batch->done[at] = leg->position;
    pthread_mutex_unlock(&slot->mutex);
}

/* Now that the outcomes are in the log, and not before: until then the leg goes with its copies wherever it is
 * written, by a plan that comes in between too. Else a crash would leave what a copy did in the leg, and the copy to be
 * asked for, found, and counted once more. */
static void batch_appended(struct batch *batch)
{
    for (uint32_t i = 0; i < batch->n; i++) {
        struct tw_copy *copy = batch->copies[i];
        struct tw_slot *slot = copy->subscription->slot;
        pthread_mutex_lock(&slot->mutex);
        if (!copy->is_applied_anew || batch->done[i] != NULL)
            applied_forget(copy);
        if (batch->done[i] != NULL)
            copy->leg = NULL;
        pthread_mutex_unlock(&slot->mutex);
    }
}

/* change_id = sequence of the record x 65536 + place in it. */
static void batch_number(struct tw_engine *engine, struct batch *batch, uint64_t sequence)
{
    for (uint32_t i = 0; i < batch->n; i++) {
        batch->change_ids[i] += sequence * 65536;
        if (batch->done[i] != NULL)
            atomic_fetch_sub_explicit(&batch->done[i]->busy, 1, memory_order_release);
    }
    if (batch->n > 0)
        atomic_store_explicit(&engine->journal.last_change_id, batch->change_ids[batch->n - 1],
                              memory_order_release);
}

static void batch_publish(struct tw_engine *engine, struct batch *batch)
{
    for (uint32_t i = 0; i < batch->n; i++) {
        struct tw_copy *copy = batch->copies[i];
        struct tw_slot *slot = copy->subscription->slot;
        pthread_mutex_lock(&slot->mutex);
        copy->change_id = batch->change_ids[i];
        bool is_indexed = copy->is_indexed;
        pthread_mutex_unlock(&slot->mutex);
        copy_written(copy, batch->order_legs[i], batch->attempts[i]);
        if (!is_indexed)
            index_add(engine, copy);
        feeds_put(engine, copy, batch->change_ids[i]);
        atomic_fetch_sub_explicit(&copy->record->changes_queued, 1, memory_order_release);
        tw_record_release(copy->record);
        atomic_fetch_add_explicit(&engine->journal.done, 1, memory_order_release);
    }
}

static struct tw_copy *take_all(struct tw_engine *engine)
{
    struct tw_copy *newest = atomic_exchange_explicit(&engine->journal.head, NULL, memory_order_acquire);
    struct tw_copy *oldest = NULL;
    while (newest != NULL) {
        struct tw_copy *next = newest->next_change;
        newest->next_change = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

static struct tw_copy *batch_take(struct tw_engine *engine, struct batch *batch, struct tw_copy *copy)
{
    static struct state_out out; /* the journal thread's alone */
    static struct state_out counted;
    uint32_t n_written = 0;
    batch->n = 0;
    out.size = 0;
    while (copy != NULL && batch->n < BATCH_MAX) {
        struct tw_copy *next = copy->next_change; /* the copy may be queued again at once */
        take_up(batch, copy, &out, &n_written);
        copy = next;
    }
    uint64_t sequence = engine->journal.batches++;
    if (engine->log != NULL && batch->n > 0) {
        counted.size = 0;
        state_put_u(&counted, n_written);
        state_put_raw(&counted, out.bytes, out.size);
        sequence = log_append(engine, STATE_OUTCOME, &counted);
        tw_crash_point("changes.outcome_written");
    }
    batch_appended(batch);
    batch_number(engine, batch, sequence);
    return copy;
}

/* Writes up to BATCH_MAX legs of a slot that changed without a copy; true: there are more. */
static bool legs_write(struct tw_engine *engine, struct tw_slot *slot, struct state_out *out)
{
    struct tw_position *done[BATCH_MAX];
    uint32_t n = 0;
    struct state_out counted = {0};
    out->size = 0;
    pthread_mutex_lock(&slot->mutex);
    while (slot->dirty_legs != NULL && n < BATCH_MAX) {
        struct tw_leg *leg = slot->dirty_legs;
        slot->dirty_legs = leg->next_dirty;
        leg->is_dirty = false;
        state_stamp(NULL, leg);
        state_put_leg(out, leg);
        done[n++] = leg->position;
    }
    bool has_more = slot->dirty_legs != NULL;
    pthread_mutex_unlock(&slot->mutex);
    if (engine->log != NULL && n > 0) {
        state_put_u(&counted, n);
        state_put_raw(&counted, out->bytes, out->size);
        log_append(engine, STATE_LEG, &counted);
        state_out_clear(&counted);
    }
    for (uint32_t i = 0; i < n; i++)
        atomic_fetch_sub_explicit(&done[i]->busy, 1, memory_order_release);
    return has_more;
}

static void slot_write(struct tw_engine *engine, struct tw_slot *slot)
{
    static struct state_out out; /* the journal thread's alone */
    pthread_mutex_lock(&slot->mutex);
    slot->is_dirty = false;
    bool is_risk_dirty = slot->is_risk_dirty;
    slot->is_risk_dirty = false;
    pthread_mutex_unlock(&slot->mutex);
    while (legs_write(engine, slot, &out))
        ;
    if (engine->log != NULL && is_risk_dirty) {
        out.size = 0;
        pthread_mutex_lock(&slot->mutex);
        state_put_risk(&out, slot);
        pthread_mutex_unlock(&slot->mutex);
        log_append(engine, STATE_RISK, &out);
    }
    slot_release(slot);
}

static void slots_write(struct tw_engine *engine)
{
    struct tw_slot *slot = atomic_exchange_explicit(&engine->journal.dirty, NULL, memory_order_acquire);
    while (slot != NULL) {
        struct tw_slot *next = slot->next_dirty;
        slot_write(engine, slot);
        slot = next;
    }
}

/* Whoever waits for these events hears that they are durable, or waits for the next turn. */
static void fresh_announce(struct tw_record *record)
{
    while (record != NULL) {
        struct tw_record *next = record->next_fresh;
        assert(is_durable_until(record->engine, record->durable_sequence)); /* it was appended before the sync */
        atomic_store_explicit(&record->is_durable, true, memory_order_release);
        record_wake(record);
        tw_record_release(record);
        record = next;
    }
}

bool changes_pending(struct tw_engine *engine)
{
    return atomic_load_explicit(&engine->journal.head, memory_order_seq_cst) != NULL ||
           atomic_load_explicit(&engine->journal.fresh, memory_order_seq_cst) != NULL ||
           atomic_load_explicit(&engine->journal.dirty, memory_order_seq_cst) != NULL ||
           atomic_load_explicit(&engine->journal.is_sync_wanted, memory_order_seq_cst);
}

bool is_disk_full(const struct tw_engine *engine)
{
    return engine->log != NULL && !tw_journal_has_room(engine->log);
}

void changes_turn(struct tw_engine *engine)
{
    static struct batch batch;
    atomic_store_explicit(&engine->journal.is_sync_wanted, false, memory_order_seq_cst);
    struct tw_record *fresh = atomic_exchange_explicit(&engine->journal.fresh, NULL, memory_order_acquire);
    /* Answers first, then the rest; but one event after the other does not hold up what follows. */
    bool takes = fresh == NULL || tw_mono_ns() - engine->journal.taken_mono_ns > TAKE_WAIT_NS_MAX;
    struct tw_copy *copy = takes ? take_all(engine) : NULL;
    if (takes) {
        slots_write(engine);
        engine->journal.taken_mono_ns = tw_mono_ns();
    }
    do {
        copy = batch_take(engine, &batch, copy);
        if (engine->log != NULL && (tw_journal_durable(engine->log) < tw_journal_appended(engine->log) ||
                                    is_disk_full(engine)))
            (void)tw_journal_sync(engine->log);
        tw_crash_point_if(fresh != NULL, "changes.event_synced");
        fresh_announce(fresh);
        fresh = NULL;
        tw_crash_point_if(batch.n > 0, "changes.outcome_synced");
        batch_publish(engine, &batch);
    } while (copy != NULL);
    history_news(engine);
    struct tw_record *oldest;
    while ((oldest = history_take_oldest(engine)) != NULL)
        forget(engine, oldest);
}

uint64_t tw_engine_last_change_id(struct tw_engine *engine)
{
    return atomic_load_explicit(&engine->journal.last_change_id, memory_order_acquire);
}

uint64_t tw_engine_forgotten_change_id(struct tw_engine *engine)
{
    return atomic_load_explicit(&engine->journal.forgotten_change_id, memory_order_acquire);
}
