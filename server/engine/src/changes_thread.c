/* changes_thread.c - the journal thread: it makes turns (changes.c) while there is something to do.
 *
 * Apart from them so that a test may make the turns itself, one by one, where it wants to. */
#include "internal.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Changes are taken in batches: the burst itself has the cores to itself first. */
#define BATCH_WAIT_NS (3 * TW_NS_PER_MS)
#define CATCH_UP_NS_MAX TW_NS_PER_S

/* What ends the thread's sleep. */
enum journal_sleep { AWAKE, UNTIL_URGENT /* an answer, or somebody, waits for the disk */, UNTIL_ANY };

/* After the work is where the thread looks for it. */
void changes_wake(struct tw_engine *engine, bool is_urgent)
{
    int from = is_urgent ? UNTIL_URGENT : UNTIL_ANY;
    if (atomic_load_explicit(&engine->journal.sleeps_until, memory_order_seq_cst) < from)
        return;
    atomic_fetch_add_explicit(&engine->journal.wake, 1, memory_order_release);
    if (atomic_exchange_explicit(&engine->journal.sleeps_until, AWAKE, memory_order_seq_cst) != AWAKE)
        syscall(SYS_futex, &engine->journal.wake, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void log_await(struct tw_engine *engine, uint64_t sequence)
{
    while (!is_durable_until(engine, sequence)) {
        changes_hurry(engine);
        const struct timespec moment = {0, 50 * TW_NS_PER_US};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
    }
}

/* An answer waits for the disk, or the engine stops: what else there is need not come together first. */
static bool is_urgent(struct tw_engine *engine)
{
    return atomic_load_explicit(&engine->journal.fresh, memory_order_seq_cst) != NULL ||
           atomic_load_explicit(&engine->journal.is_sync_wanted, memory_order_seq_cst) ||
           atomic_load_explicit(&engine->journal.is_stopping, memory_order_seq_cst);
}

/* Until is_due(), a wake-up by who pushed something, or the time is over. */
static void sleep_until(struct tw_engine *engine, enum journal_sleep until, bool (*is_due)(struct tw_engine *),
                        const struct timespec *time_max)
{
    unsigned seen = atomic_load_explicit(&engine->journal.wake, memory_order_acquire);
    atomic_store_explicit(&engine->journal.sleeps_until, until, memory_order_seq_cst);
    if (!is_due(engine))
        syscall(SYS_futex, &engine->journal.wake, FUTEX_WAIT_PRIVATE, seen, time_max, NULL, 0);
    atomic_store_explicit(&engine->journal.sleeps_until, AWAKE, memory_order_seq_cst);
}

static bool has_work_or_stops(struct tw_engine *engine)
{
    return changes_pending(engine) || atomic_load_explicit(&engine->journal.is_stopping, memory_order_seq_cst);
}

/* True: go on; false: nothing is left and the engine stops. */
static bool await_work(struct tw_engine *engine)
{
    static const struct timespec look_again = {1, 0}, batch = {0, BATCH_WAIT_NS};
    while (!changes_pending(engine)) {
        if (atomic_load_explicit(&engine->journal.is_stopping, memory_order_acquire))
            return false;
        bool is_full = is_disk_full(engine);
        sleep_until(engine, UNTIL_ANY, has_work_or_stops, is_full ? &look_again : NULL);
        if (is_full)
            return true; /* a sync looks whether there is room again */
    }
    if (!is_urgent(engine))
        sleep_until(engine, UNTIL_URGENT, is_urgent, &batch);
    return true;
}

static void *journal_main(void *arg)
{
    struct tw_engine *engine = arg;
    prctl(PR_SET_NAME, "journal");
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 5); /* the burst goes first */
    while (await_work(engine))
        changes_turn(engine);
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
    changes_wake(engine, true);
    pthread_join(engine->journal.thread, NULL);
}
