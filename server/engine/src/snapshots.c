/* snapshots.c - when a snapshot is made, and what of the log may go then. On a thread of its own, which
 * takes no lock of the engine; what costs is best done in a process of its own (tw_engine_snapshot_fn).
 *
 * Every so many full segments one is made. The last two stay, and the log behind the older of them, so that
 * one file that cannot be read any more is never fatal. What is before that goes as soon as the sealed
 * segments are more than is to be kept, and nobody needs them any more (the history reads them too). */
#include "internal.h"

#include <tradewake/base/log.h>
#include <tradewake/journal/snapshot.h>

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK_NS TW_NS_PER_S

static bool is_stopping(void *arg)
{
    struct tw_engine *engine = arg;
    pthread_mutex_lock(&engine->snapshots.mutex);
    bool is_stopping = engine->snapshots.is_stopping;
    pthread_mutex_unlock(&engine->snapshots.mutex);
    return is_stopping;
}

/* False: the engine stops. */
static bool rest(struct tw_engine *engine)
{
    int64_t until_ns = tw_mono_ns() + LOOK_NS;
    const struct timespec until = {until_ns / TW_NS_PER_S, until_ns % TW_NS_PER_S};
    pthread_mutex_lock(&engine->snapshots.mutex);
    while (!engine->snapshots.is_stopping &&
           pthread_cond_timedwait(&engine->snapshots.stopping, &engine->snapshots.mutex, &until) == 0)
        ;
    bool goes_on = !engine->snapshots.is_stopping;
    pthread_mutex_unlock(&engine->snapshots.mutex);
    return goes_on;
}

static tw_status make_here(void *context, const struct tw_engine_snapshot_wanted *wanted,
                           bool (*should_stop)(void *stop), void *stop, struct tw_error *error)
{
    uint64_t bytes;
    (void)context;
    (void)should_stop;
    (void)stop;
    return tw_engine_snapshot(wanted, &bytes, error);
}

/* True: there is a new one. */
static bool make(struct tw_engine *engine, uint32_t until)
{
    struct tw_error error = {{0}};
    const struct tw_engine_snapshot_wanted wanted = {
        .dir = engine->snapshots.dir,
        .until = until,
        .copies_remembered = engine->copies_remembered,
        .events_remembered = engine->forgotten.n_max,
        .events_kept_ns = engine->forgotten.kept_ns,
        .disk = engine->snapshots.disk,
    };
    int64_t from_ns = tw_mono_ns();
    tw_status status =
        engine->snapshots.make(engine->snapshots.make_context, &wanted, is_stopping, engine, &error);
    long long ms = (long long)((tw_mono_ns() - from_ns) / TW_NS_PER_MS);
    if (status == TW_CANCELLED)
        return false;
    if (status == TW_OK || status == TW_EXISTS)
        tw_log(TW_LOG_INFO, "journal.snapshot", "snapshot=%08u ms=%lld", until, ms);
    else
        tw_log(TW_LOG_WARN, "journal.snapshot_failed", "snapshot=%08u ms=%lld why=\"%s\" next=\"the log is kept; "
               "again after the next full segment\"", until, ms, error.text);
    return status == TW_OK || status == TW_EXISTS;
}

/* This segment, or one before it: what is before it is in the history. */
static uint32_t taken_until(struct tw_engine *engine, uint32_t segment)
{
    uint64_t taken = history_taken(engine);
    while (segment > 0 && taken != UINT64_MAX) {
        uint64_t first = tw_journal_segment_first(engine->log, segment);
        if (first == 0) /* gone, or not to be read: keep all that there is */
            return 0;
        if (first <= taken + 1)
            break;
        segment--;
    }
    return segment;
}

/* keep: the segment at whose end the older snapshot stands; 0 = there are not two. */
static void forget(struct tw_engine *engine, uint32_t keep)
{
    uint32_t before = tw_journal_oldest_for(engine->log, engine->snapshots.log_bytes);
    if (before > keep)
        before = keep;
    before = taken_until(engine, before);
    tw_journal_forget_before(engine->log, before);
}

/* Whether the older of the two snapshots holds more of the log than is to be kept: a new one lets the other be
 * the older. */
static bool is_held(const struct tw_engine *engine, uint32_t keep)
{
    return tw_journal_oldest_for(engine->log, engine->snapshots.log_bytes) > keep;
}

static void *snapshots_main(void *arg)
{
    struct tw_engine *engine = arg;
    uint32_t last = tw_journal_snapshot(engine->log), tried = last, keep = 0;
    prctl(PR_SET_NAME, "snapshots");
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 5); /* not lower: it takes the lock of the log */
    do {
        uint32_t sealed = tw_journal_segment(engine->log) - 1;
        bool is_due = sealed >= last + engine->snapshots.every || (sealed > last && is_held(engine, keep));
        if (is_due && sealed > tried) {
            uint32_t newest[2];
            tried = sealed;
            if (make(engine, sealed)) {
                last = sealed;
                keep = tw_snapshot_newest(engine->snapshots.dir, newest, NULL) == TW_OK ? newest[1] : 0;
            }
        }
        forget(engine, keep);
    } while (rest(engine));
    return NULL;
}

tw_status snapshots_start(struct tw_engine *engine, const struct tw_engine_options *options,
                          struct tw_error *error)
{
    if (engine->log == NULL || options->snapshot_segments == 0)
        return TW_OK;
    engine->snapshots.every = options->snapshot_segments;
    engine->snapshots.log_bytes = options->log_bytes;
    engine->snapshots.make = options->snapshot != NULL ? options->snapshot : make_here;
    engine->snapshots.make_context = options->snapshot_context;
    engine->snapshots.disk = options->journal_disk;
    snprintf(engine->snapshots.dir, sizeof engine->snapshots.dir, "%s", options->journal_dir);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&engine->snapshots.mutex, NULL);
    pthread_cond_init(&engine->snapshots.stopping, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int failed = pthread_create(&engine->snapshots.thread, NULL, snapshots_main, engine);
    if (failed != 0)
        return tw_error_set(error, TW_NO_MEMORY, "the thread for snapshots cannot be started: %s",
                            strerror(failed));
    engine->snapshots.is_started = true;
    return TW_OK;
}

void snapshots_stop(struct tw_engine *engine)
{
    if (!engine->snapshots.is_started)
        return;
    pthread_mutex_lock(&engine->snapshots.mutex);
    engine->snapshots.is_stopping = true;
    pthread_cond_signal(&engine->snapshots.stopping);
    pthread_mutex_unlock(&engine->snapshots.mutex);
    pthread_join(engine->snapshots.thread, NULL);
    pthread_cond_destroy(&engine->snapshots.stopping);
    pthread_mutex_destroy(&engine->snapshots.mutex);
    engine->snapshots.is_started = false;
}
