/* watch.c - calls that do not come back.
 *
 * A worker writes down when the call that it is about to make counts as lost, and takes it back
 * when the call returns: a store and an exchange in its own cache line. The spawner looks at all of
 * them now and then; whoever changes the word first, worker or watch, decides. */
#include "crew.h"

#include "lane.h"

#include <tradewake/base/clock.h>
#include <tradewake/executor/executor.h>

#include <assert.h>
#include <unistd.h>

/* A look that comes so late after the last one does not count. */
#define WATCH_LATE_NS (8 * WATCH_NS)

static _Thread_local bool is_watch;

bool crew_is_watch(void)
{
    return is_watch;
}

void tw_job_call_begin(struct tw_job *job, int64_t lost_mono_ns)
{
    struct worker *worker = worker_here();
    assert(worker != NULL && worker->job == job);
    assert(job->lost != NULL);
    (void)job; /* where asserts are left out */
    assert(lost_mono_ns > 0);
    /* Release: the watch that sees the time sees the job. */
    atomic_store_explicit(&worker->call_until_ns, lost_mono_ns, memory_order_release);
}

/* The call was lost and is back: lost() may still be at work. The process may be past its end, too:
 * then there is nothing left to come back to. */
static void come_back(struct worker *worker)
{
    struct crew *crew = worker->group->crew;
    pthread_mutex_lock(&crew->watching);
    bool is_abandoned = crew->is_abandoned;
    if (!is_abandoned)
        atomic_store(&worker->call_until_ns, CALL_NONE);
    pthread_mutex_unlock(&crew->watching);
    while (is_abandoned)
        pause();
}

bool tw_job_call_end(struct tw_job *job)
{
    struct worker *worker = worker_here();
    assert(worker != NULL);
    int64_t until = atomic_load_explicit(&worker->call_until_ns, memory_order_relaxed);
    if (until == CALL_LOST ||
        !atomic_compare_exchange_strong(&worker->call_until_ns, &until, CALL_NONE)) {
        come_back(worker);
        return false;
    }
    struct tw_lane *lane = job->lane;
    if (atomic_load_explicit(&lane->is_wedged, memory_order_relaxed)) {
        pthread_mutex_lock(&lane->lock);
        lane_heal(lane); /* what waits may start when this job ends */
        pthread_mutex_unlock(&lane->lock);
    }
    return true;
}

static void declare_lost(struct crew *crew, struct worker *worker, int64_t until)
{
    pthread_mutex_lock(&crew->watching);
    if (atomic_compare_exchange_strong(&worker->call_until_ns, &until, CALL_LOST)) {
        struct tw_job *job = worker->job;
        struct tw_lane *lane = job->lane;
        atomic_fetch_add(&crew->lost, 1);
        pthread_mutex_lock(&lane->lock);
        lane_lost(lane, job);
        pthread_mutex_unlock(&lane->lock);
        is_watch = true;
        job->lost(job);
        is_watch = false;
    }
    pthread_mutex_unlock(&crew->watching);
}

void crew_watch(struct crew *crew)
{
    int64_t now_ns = tw_mono_ns();
    int64_t last_ns =
        atomic_exchange_explicit(&crew->watched_mono_ns, now_ns, memory_order_relaxed);
    if (last_ns != 0 && now_ns - last_ns > WATCH_LATE_NS)
        return; /* the machine stood still: the calls are no later than we are, they get a turn
                   first */
    if ((uint32_t)atomic_load_explicit(&crew->load, memory_order_relaxed) == 0)
        return; /* nothing runs */
    pthread_mutex_lock(&crew->making);
    uint32_t n = atomic_load_explicit(&crew->threads, memory_order_relaxed);
    pthread_mutex_unlock(&crew->making); /* of those, none is made or unmade any more */
    for (uint32_t i = 0; i < n; i++) {
        struct worker *worker = &crew->workers[i];
        int64_t until = atomic_load_explicit(&worker->call_until_ns, memory_order_acquire);
        if (until != CALL_LOST && until <= now_ns)
            declare_lost(crew, worker, until);
    }
}
