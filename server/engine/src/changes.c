/* changes.c - the journal thread: what changed gets its change_id, its place in the index and its way
 * to whoever watches; and what nobody needs any more is forgotten.
 *
 *   any thread --change_push()--> [one list, newest first] --taken whole--> journal thread
 *
 * A copy is in the list at most once; what changes while it waits there is one change. The list holds a
 * reference to the copy's record. */
#include "internal.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Changes are taken in batches: the burst itself has the cores to itself first. */
#define BATCH_WAIT_NS (3 * TW_NS_PER_MS)
#define CATCH_UP_NS_MAX TW_NS_PER_S
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

static void wake_journal(struct tw_engine *engine)
{
    atomic_fetch_add_explicit(&engine->journal.wake, 1, memory_order_release);
    if (atomic_exchange_explicit(&engine->journal.is_asleep, false, memory_order_seq_cst))
        syscall(SYS_futex, &engine->journal.wake, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void change_push(struct tw_copy *copy)
{
    struct tw_engine *engine = copy->record->engine;
    tw_record_hold(copy->record);
    atomic_fetch_add_explicit(&engine->journal.posted, 1, memory_order_relaxed);
    struct tw_copy *head = atomic_load_explicit(&engine->journal.head, memory_order_relaxed);
    do {
        copy->next_change = head;
    } while (!atomic_compare_exchange_weak_explicit(&engine->journal.head, &head, copy,
                                                    memory_order_seq_cst, memory_order_relaxed));
    if (atomic_load_explicit(&engine->journal.is_asleep, memory_order_seq_cst))
        wake_journal(engine);
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

static bool is_over(struct tw_record *record)
{
    return tw_record_pending(record, TW_WAIT_DONE) == 0;
}

static void history_unlink(struct tw_engine *engine, struct tw_record *record)
{
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
    if (record->origin == ORIGIN(EVENT)) {
        pthread_mutex_lock(&master->mutex);
        HASH_DEL(master->records, record);
        pthread_mutex_unlock(&master->mutex);
    }
    uint64_t last = atomic_load_explicit(&engine->journal.forgotten_change_id, memory_order_relaxed);
    pthread_mutex_lock(&engine->journal.index_mutex);
    for (uint32_t i = 0; i < record->n_copies; i++) {
        struct tw_copy *copy = &record->copies[i];
        if (copy->is_indexed)
            HASH_DEL(engine->journal.index, copy);
        copy->is_indexed = false;
        last = copy->change_id > last ? copy->change_id : last;
    }
    pthread_mutex_unlock(&engine->journal.index_mutex);
    atomic_store_explicit(&engine->journal.forgotten_change_id, last, memory_order_release);
    tw_record_release(record); /* the history's */
}

/* ---- The thread ---- */

static void index_add(struct tw_engine *engine, struct tw_copy *copy)
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

static void take_up(struct tw_engine *engine, struct tw_copy *copy)
{
    struct tw_slot *slot = copy->subscription->slot;
    char id[TW_COPY_ID_BYTES];
    copy_id_make(copy, id); /* a microsecond: not under the lock */
    uint64_t change_id = atomic_fetch_add_explicit(&engine->journal.last_change_id, 1,
                                                   memory_order_relaxed) + 1;
    pthread_mutex_lock(&slot->mutex);
    copy->is_change_queued = false; /* from here on a change is a new one */
    copy->change_id = change_id;
    if (!copy->has_id)
        memcpy(copy->id, id, sizeof id);
    copy->has_id = true;
    bool is_indexed = copy->is_indexed;
    pthread_mutex_unlock(&slot->mutex);

    if (!is_indexed)
        index_add(engine, copy);
    feeds_put(engine, copy, change_id);
    tw_record_release(copy->record);
    atomic_fetch_add_explicit(&engine->journal.done, 1, memory_order_release);
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

/* True: go on; false: the list stayed empty and the engine stops. */
static bool await_changes(struct tw_engine *engine)
{
    while (atomic_load_explicit(&engine->journal.head, memory_order_acquire) == NULL) {
        if (atomic_load_explicit(&engine->journal.is_stopping, memory_order_acquire))
            return false;
        unsigned seen = atomic_load_explicit(&engine->journal.wake, memory_order_acquire);
        atomic_store_explicit(&engine->journal.is_asleep, true, memory_order_seq_cst);
        if (atomic_load_explicit(&engine->journal.head, memory_order_seq_cst) == NULL &&
            !atomic_load_explicit(&engine->journal.is_stopping, memory_order_seq_cst))
            syscall(SYS_futex, &engine->journal.wake, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        atomic_store_explicit(&engine->journal.is_asleep, false, memory_order_seq_cst);
    }
    return true;
}

static void *journal_main(void *arg)
{
    struct tw_engine *engine = arg;
    prctl(PR_SET_NAME, "journal");
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 5); /* the burst goes first */
    while (await_changes(engine)) {
        const struct timespec batch = {0, BATCH_WAIT_NS};
        if (!atomic_load_explicit(&engine->journal.is_hurried, memory_order_relaxed))
            clock_nanosleep(CLOCK_MONOTONIC, 0, &batch, NULL);
        struct tw_copy *copy = take_all(engine);
        while (copy != NULL) {
            struct tw_copy *next = copy->next_change; /* the copy may be queued again at once */
            take_up(engine, copy);
            copy = next;
        }
        struct tw_record *oldest;
        while ((oldest = history_take_oldest(engine)) != NULL)
            forget(engine, oldest);
    }
    return NULL;
}

bool tw_engine_catch_up(struct tw_engine *engine)
{
    uint64_t target = atomic_load_explicit(&engine->journal.posted, memory_order_acquire);
    int64_t deadline_ns = tw_mono_ns() + CATCH_UP_NS_MAX;
    while (atomic_load_explicit(&engine->journal.done, memory_order_acquire) < target) {
        if (tw_mono_ns() > deadline_ns)
            return false;
        const struct timespec moment = {0, TW_NS_PER_MS / 2};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
    }
    return true;
}

tw_status changes_start(struct tw_engine *engine, struct tw_error *error)
{
    pthread_mutex_init(&engine->journal.index_mutex, NULL);
    pthread_mutex_init(&engine->journal.feeds_mutex, NULL);
    int failed = pthread_create(&engine->journal.thread, NULL, journal_main, engine);
    if (failed != 0)
        return tw_error_set(error, TW_NO_MEMORY, "the journal thread cannot be started: %s",
                            strerror(failed));
    engine->journal.is_started = true;
    return TW_OK;
}

void changes_stop(struct tw_engine *engine)
{
    if (!engine->journal.is_started)
        return;
    atomic_store_explicit(&engine->journal.is_stopping, true, memory_order_seq_cst);
    atomic_store_explicit(&engine->journal.is_asleep, true, memory_order_seq_cst);
    wake_journal(engine);
    pthread_join(engine->journal.thread, NULL);
    pthread_mutex_destroy(&engine->journal.index_mutex);
    pthread_mutex_destroy(&engine->journal.feeds_mutex);
}

uint64_t tw_engine_last_change_id(struct tw_engine *engine)
{
    return atomic_load_explicit(&engine->journal.last_change_id, memory_order_acquire);
}

uint64_t tw_engine_forgotten_change_id(struct tw_engine *engine)
{
    return atomic_load_explicit(&engine->journal.forgotten_change_id, memory_order_acquire);
}
