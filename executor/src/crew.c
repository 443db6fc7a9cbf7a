#include "crew.h"

#include "futex.h"
#include "lane.h"

#include <tradewake/base/clock.h>

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#if defined(__has_include)
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#define TW_HAS_RSEQ 1
#endif
#endif
#ifndef TW_HAS_RSEQ
#define TW_HAS_RSEQ 0
#endif

enum {
    /* Up to so many workers are woken by the thread that has work for them; more than that is
     * quicker through the group's leader, whose wakes stay on its own core. A leader without
     * real-time priority would have to wait for that core like everybody else: then no more than
     * these are woken to begin with, and they wake the rest. */
    WAKE_DIRECTLY_MAX = 2,
    /* A burst is woken in portions: when fewer than WAKE_AGAIN_BELOW are still on their way, the
     * worker that sees it wakes the next WAKE_PORTION before it runs its own job. */
    WAKE_PORTION = 32,
    WAKE_AGAIN_BELOW = 8,
    /* From so many jobs on that nobody has taken yet, a single job goes to another core. */
    BACKLOG = 4,
    /* From so many on, a group that has nothing left to do takes half of them, at most a portion.
     */
    STEAL_FROM = 8,
};

static _Thread_local struct worker *this_worker;

/* ---- queues ---- */

static void queue_init(struct queue *queue)
{
    pthread_mutex_init(&queue->lock, NULL);
}

static void queue_clear(struct queue *queue)
{
    pthread_mutex_destroy(&queue->lock);
}

/* count is written under the lock alone, so a plain load and store do. */
static void count_change(_Atomic uint32_t *count, uint32_t by)
{
    uint32_t now = atomic_load_explicit(count, memory_order_relaxed);
    atomic_store_explicit(count, now + by, memory_order_relaxed);
}

/* Moves the first n jobs of one class. */
static void move_jobs(struct queue *queue, uint32_t index, struct job_list *from, int job_class,
                      uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct tw_job *job = job_list_take(from);
        job_group_set(job, index);
        job_state_set(job, JOB_QUEUED);
        job_list_append(&queue->of_class[job_class], job);
    }
    count_change(&queue->count, n);
}

static int best_class(const struct queue *queue)
{
    int c = 0;
    while (c < CLASSES && queue->of_class[c].count == 0)
        c++;
    return c;
}

static struct tw_job *queue_take(struct queue *queue)
{
    int c = best_class(queue);
    if (c == CLASSES)
        return NULL;
    struct tw_job *job = job_list_take(&queue->of_class[c]);
    count_change(&queue->count, UINT32_MAX);
    job_state_set(job, JOB_RUNNING);
    return job;
}

void queue_remove(struct queue *queue, struct tw_job *job)
{
    job_list_remove(&queue->of_class[job->job_class], job);
    count_change(&queue->count, UINT32_MAX);
}

/* ---- crowds ---- */

void crowd_init(struct crowd *crowd)
{
    pthread_mutex_init(&crowd->lock, NULL);
}

void crowd_clear(struct crowd *crowd)
{
    pthread_mutex_destroy(&crowd->lock);
}

void crowd_put(struct crowd *crowd, uint32_t index, struct batch *batch)
{
    if (batch->count > 0)
        pace_begin(&crowd->pace, tw_mono_ns());
    for (int c = 0; c < CLASSES; c++)
        for (struct tw_job *job; (job = job_list_take(&batch->of_class[c])) != NULL;) {
            job_group_set(job, index);
            job_state_set(job, JOB_QUEUED);
            fair_append(&crowd->of_class[c], job);
        }
    count_change(&crowd->count, batch->count);
    batch->count = 0;
}

static int crowd_best_class(const struct crowd *crowd)
{
    int c = 0;
    while (c < CLASSES && fair_count(&crowd->of_class[c]) == 0)
        c++;
    return c;
}

struct tw_job *crowd_take(struct crowd *crowd)
{
    int c = crowd_best_class(crowd);
    if (c == CLASSES)
        return NULL;
    struct tw_job *job = fair_take(&crowd->of_class[c]);
    count_change(&crowd->count, UINT32_MAX);
    pace_taken(&crowd->pace, tw_mono_ns(), atomic_load_explicit(&crowd->count, memory_order_relaxed));
    job_state_set(job, JOB_RUNNING);
    return job;
}

void crowd_remove(struct crowd *crowd, struct tw_job *job)
{
    fair_remove(&crowd->of_class[job->job_class], job);
    count_change(&crowd->count, UINT32_MAX);
    if (atomic_load_explicit(&crowd->count, memory_order_relaxed) == 0)
        pace_end(&crowd->pace);
}

/* ---- totals ---- */

void crew_begin(struct crew *crew)
{
    uint64_t load =
        atomic_fetch_add_explicit(&crew->load, LOAD_RUNNING - LOAD_WAITING, memory_order_relaxed);
    uint32_t running = (uint32_t)load + 1;
    uint32_t peak = atomic_load_explicit(&crew->peak_running, memory_order_relaxed);
    while (running > peak &&
           !atomic_compare_exchange_weak_explicit(&crew->peak_running, &peak, running,
                                                  memory_order_relaxed, memory_order_relaxed))
        continue;
}

void crew_end(struct crew *crew)
{
    atomic_fetch_sub_explicit(&crew->load, LOAD_RUNNING, memory_order_relaxed);
    atomic_fetch_add_explicit(&crew->completed, 1, memory_order_relaxed);
}

uint32_t crew_queued(const struct crew *crew)
{
    uint32_t queued = atomic_load_explicit(&crew->overflow.count, memory_order_relaxed);
    for (uint32_t g = 0; g < crew->n_groups; g++)
        queued += atomic_load_explicit(&crew->groups[g].queue.count, memory_order_relaxed);
    return queued;
}

/* ---- the reserve ---- */

/* How many more jobs that are not urgent may have a worker when `ordinary` have one: what is reserved, an eighth of
 * the workers at most, is left for urgent ones. */
static uint32_t ordinary_room(const struct crew *crew, uint32_t ordinary)
{
    if (crew->reserved == 0)
        return UINT32_MAX;
    uint32_t threads = atomic_load_explicit(&crew->threads, memory_order_relaxed);
    uint32_t lost = atomic_load_explicit(&crew->lost, memory_order_relaxed);
    uint32_t there = threads > lost ? threads - lost : 0;
    uint32_t most = there - (crew->reserved < there / 8 ? crew->reserved : there / 8);
    return most > ordinary ? most - ordinary : 0;
}

/* Workers for up to n jobs that are not urgent. Returns for how many. */
static uint32_t ordinary_begin(struct crew *crew, uint32_t n)
{
    if (crew->reserved == 0)
        return n;
    uint32_t ordinary = atomic_load(&crew->ordinary);
    for (;;) {
        uint32_t room = ordinary_room(crew, ordinary);
        uint32_t granted = n < room ? n : room;
        if (granted == 0 || atomic_compare_exchange_weak(&crew->ordinary, &ordinary, ordinary + granted))
            return granted;
    }
}

void crew_ordinary_end(struct crew *crew, uint32_t n)
{
    if (crew->reserved != 0)
        atomic_fetch_sub(&crew->ordinary, n); /* before the overflow is looked at: see overflow_put() */
}

/* Whether an idle worker would get one of the jobs in the overflow. */
static bool overflow_has_some(struct crew *crew)
{
    struct crowd *overflow = &crew->overflow;
    return atomic_load(&overflow->count) > 0 && (crew->reserved == 0 || fair_count(&overflow->of_class[TW_JOB_URGENT]) > 0 ||
                                                 ordinary_room(crew, atomic_load(&crew->ordinary)) > 0);
}

/* ---- putting ---- */

/* How many workers are to be woken now. Waking a whole burst first and running it then takes twice
 * through the caches of the kernel, and the first worker would start only after the last was woken;
 * in portions each worker runs while it is still warm.
 *
 * `coming` may be too low (a worker that came by itself is counted off like a woken one), which
 * costs one wake too many. It is never too high while a job waits: a job in the queue has an idle
 * worker, every idle worker went idle before that job was put (or would have taken it), so it
 * sleeps, and can be woken, or finds that the epoch has changed, and looks. Under the group's lock.
 */
static uint32_t wakes_due(struct group *group, uint32_t portion)
{
    uint32_t queued = atomic_load_explicit(&group->queue.count, memory_order_relaxed);
    if (group->coming >= WAKE_AGAIN_BELOW || group->coming >= queued)
        return 0;
    uint32_t due = queued - group->coming < portion ? queued - group->coming : portion;
    group->coming += due;
    return due;
}

/* Puts up to one share (1 / parts) of the batch into a group, never more than it has idle workers
 * for. Returns how many of those are to be woken. */
static uint32_t group_put(struct group *group, struct batch *batch, uint32_t parts)
{
    uint32_t put = 0;
    pthread_mutex_lock(&group->queue.lock);
    uint32_t room = atomic_load_explicit(&group->idle, memory_order_relaxed) -
                    atomic_load_explicit(&group->queue.count, memory_order_relaxed);
    for (int c = 0; c < CLASSES; c++) {
        struct job_list *from = &batch->of_class[c];
        uint32_t share = (from->count + parts - 1) / parts;
        if (share > room - put)
            share = room - put;
        if (c != TW_JOB_URGENT && share > 0)
            share = ordinary_begin(group->crew, share);
        move_jobs(&group->queue, group->index, from, c, share);
        put += share;
    }
    if (put > 0)
        atomic_fetch_add_explicit(&group->epoch, 1, memory_order_relaxed);
    uint32_t due = wakes_due(group, group->is_realtime ? WAKE_PORTION : WAKE_DIRECTLY_MAX);
    pthread_mutex_unlock(&group->queue.lock);
    batch->count -= put;
    return due;
}

/* Idle workers that nothing is on its way to, up to n of them, are to look again. Returns how many. */
static uint32_t kick(struct crew *crew, uint32_t n, struct wakes *wakes)
{
    uint32_t left = n;
    for (uint32_t g = 0; g < crew->n_groups && left > 0; g++) {
        struct group *group = &crew->groups[g];
        uint32_t idle = atomic_load(&group->idle);
        uint32_t taken = atomic_load_explicit(&group->queue.count, memory_order_relaxed);
        if (idle <= taken)
            continue;
        uint32_t kicked = idle - taken < left ? idle - taken : left;
        atomic_fetch_add_explicit(&group->epoch, 1, memory_order_release);
        wakes->of_group[g] += kicked;
        left -= kicked;
    }
    return n - left;
}

/* The rest of a batch: no idle worker was seen for it, or none beside the reserve. */
static void overflow_put(struct crew *crew, struct batch *batch, struct wakes *wakes)
{
    pthread_mutex_lock(&crew->overflow.lock);
    uint32_t n = batch->count, urgent = batch->of_class[TW_JOB_URGENT].count;
    crowd_put(&crew->overflow, QUEUE_OVERFLOW, batch);
    pthread_mutex_unlock(&crew->overflow.lock);

    /* Count first, then look who is idle, and how many ordinary jobs have a worker; a worker says that it is idle, or
     * that its ordinary job has ended, first, then looks at the count. All of it is sequentially consistent, so one of
     * the two sees the other. (The addition of nothing is what orders the count that was written under the lock.) */
    atomic_fetch_add(&crew->overflow.count, 0);
    uint32_t room = ordinary_room(crew, atomic_load(&crew->ordinary)), ordinary = n - urgent;
    uint32_t kicked = kick(crew, urgent + (ordinary < room ? ordinary : room), wakes);
    wakes->spawner |= kicked < n && atomic_load_explicit(&crew->threads, memory_order_relaxed) <
                                        crew_threads_ceiling(crew);
}

/* The group of the core that this thread runs on now, else the first. */
static struct group *group_here(struct crew *crew)
{
    int core = sched_getcpu();
    for (uint32_t g = 0; g < crew->n_groups; g++)
        if (crew->groups[g].core == core)
            return &crew->groups[g];
    return &crew->groups[0];
}

/* The group to fill first; for a job alone the only one. A worker's own, so that the next job of a
 * lane stays on the core. Else the one of this core: a wake here takes 15 microseconds, one of a
 * core that sleeps takes 50; unless this one has a backlog already, then the one with the least. */
static uint32_t first_group(struct crew *crew)
{
    if (crew_is_worker(crew))
        return this_worker->group->index;
    struct group *best = group_here(crew);
    uint32_t least = atomic_load_explicit(&best->queue.count, memory_order_relaxed);
    for (uint32_t g = 0; g < crew->n_groups && least >= BACKLOG; g++) {
        uint32_t count = atomic_load_explicit(&crew->groups[g].queue.count, memory_order_relaxed);
        if (count < least) {
            best = &crew->groups[g];
            least = count;
        }
    }
    return best->index;
}

void crew_put(struct crew *crew, struct batch *batch, struct wakes *wakes)
{
    uint32_t n = crew->n_groups, first = first_group(crew);
    /* An even share each; then what one group had no room for, wherever there is room. */
    for (uint32_t k = 0; k < 2 * n && batch->count > 0; k++) {
        struct group *group = &crew->groups[(first + k) % n];
        wakes->of_group[group->index] += group_put(group, batch, k < n ? n - k : 1);
    }
    if (batch->count > 0)
        overflow_put(crew, batch, wakes);
}

/* ---- waking ---- */

static void group_wake(struct group *group, uint32_t workers)
{
    if (workers <= WAKE_DIRECTLY_MAX) {
        futex_wake(&group->epoch, workers);
        return;
    }
    /* Release: the leader that sees the call sees how many. */
    atomic_fetch_add_explicit(&group->to_wake, workers, memory_order_relaxed);
    atomic_fetch_add_explicit(&group->call, 1, memory_order_release);
    futex_wake(&group->call, 1);
}

void crew_wake(struct crew *crew, const struct wakes *wakes)
{
    /* The own core comes last: a real-time leader there takes the core at once, and the others
     * would wait for it. */
    struct group *here = group_here(crew);
    for (uint32_t g = 0; g < crew->n_groups; g++)
        if (wakes->of_group[g] > 0 && &crew->groups[g] != here)
            group_wake(&crew->groups[g], wakes->of_group[g]);
    if (wakes->of_group[here->index] > 0)
        group_wake(here, wakes->of_group[here->index]);
    if (wakes->spawner) {
        atomic_fetch_add_explicit(&crew->spawn_call, 1, memory_order_release);
        futex_wake(&crew->spawn_call, 1);
    }
}

void crew_look(struct crew *crew)
{
    struct wakes wakes = {0};
    if (!overflow_has_some(crew))
        return;
    kick(crew, atomic_load_explicit(&crew->overflow.count, memory_order_relaxed), &wakes);
    crew_wake(crew, &wakes);
}

static void *leader_main(void *arg)
{
    struct group *group = arg;
    char name[16];
    snprintf(name, sizeof name, "tw-leader-%u", group->index);
    prctl(PR_SET_NAME, name);
    struct sched_param lowest = {.sched_priority = 1};
    group->is_realtime = group->crew->realtime && sched_setscheduler(0, SCHED_FIFO, &lowest) == 0;
    /* Release: pairs with the acquire in leaders_await(). */
    atomic_fetch_add_explicit(&group->crew->arrived_leaders, 1, memory_order_release);
    futex_wake(&group->crew->arrived_leaders, 1);

    for (;;) {
        uint32_t seen = atomic_load_explicit(&group->call, memory_order_acquire);
        uint32_t workers = atomic_exchange_explicit(&group->to_wake, 0, memory_order_relaxed);
        if (workers > 0)
            futex_wake(&group->epoch, workers);
        else if (atomic_load_explicit(&group->crew->quit, memory_order_relaxed))
            return NULL;
        else
            futex_wait(&group->call, seen);
    }
}

/* ---- workers ---- */

struct worker *worker_here(void)
{
    return this_worker;
}

bool crew_is_worker(const struct crew *crew)
{
    return this_worker != NULL && this_worker->group->crew == crew;
}

void crew_returning(struct crew *crew)
{
    if (this_worker->is_returning)
        return;
    this_worker->is_returning = true;
    atomic_fetch_add_explicit(&crew->returning, 1, memory_order_relaxed);
}

/* The best of the overflow, if it is of a class before this one and there is a worker for it. Under its lock. */
static struct tw_job *overflow_take(struct crew *crew, int before)
{
    int c = crowd_best_class(&crew->overflow);
    if (c >= before || (c != TW_JOB_URGENT && ordinary_begin(crew, 1) == 0))
        return NULL;
    return crowd_take(&crew->overflow);
}

/* The best job for a worker, from its group or from the overflow. A worker that was idle is on its
 * way to a job of its group and leaves the overflow alone while there is one; a worker whose call
 * has just ended takes the better of the two. Under the group's lock. */
static struct tw_job *best_job(struct worker *worker)
{
    struct group *group = worker->group;
    struct crowd *overflow = &group->crew->overflow;
    bool has_own = atomic_load_explicit(&group->queue.count, memory_order_relaxed) > 0;
    if (atomic_load_explicit(&overflow->count, memory_order_relaxed) == 0 ||
        (has_own && worker->is_idle))
        return queue_take(&group->queue);

    pthread_mutex_lock(&overflow->lock);
    struct tw_job *job = overflow_take(group->crew, best_class(&group->queue));
    pthread_mutex_unlock(&overflow->lock);
    return job != NULL ? job : queue_take(&group->queue);
}

/* Both this and arrivals_await() first write what is theirs and then read what is the other's, all
 * of it sequentially consistent: the last to come sees that it is awaited, or is seen. */
static void arrive(struct crew *crew)
{
    uint32_t arrived = atomic_fetch_add(&crew->arrived, 1) + 1;
    if (arrived >= atomic_load(&crew->awaited))
        futex_wake(&crew->arrived, INT32_MAX);
}

static void arrivals_await(struct crew *crew, uint32_t threads)
{
    atomic_store(&crew->awaited, threads);
    for (uint32_t arrived; (arrived = atomic_load(&crew->arrived)) < threads;)
        futex_wait(&crew->arrived, arrived);
    atomic_store(&crew->awaited, UINT32_MAX);
}

/* The worker has looked: from now on it is idle or busy, and no longer promised. */
static void looked(struct worker *worker)
{
    struct crew *crew = worker->group->crew;
    if (worker->is_returning) {
        worker->is_returning = false;
        atomic_fetch_sub_explicit(&crew->returning, 1, memory_order_relaxed);
    }
    if (worker->is_late) {
        worker->is_late = false;
        atomic_fetch_sub_explicit(&crew->starting, 1, memory_order_relaxed);
    }
    if (!worker->has_arrived) {
        worker->has_arrived = true;
        arrive(crew);
    }
}

/* Under the group's lock. */
static void idle_set(struct worker *worker, bool is_idle)
{
    if (worker->is_idle == is_idle)
        return;
    worker->is_idle = is_idle;
    uint32_t idle = atomic_load_explicit(&worker->group->idle, memory_order_relaxed);
    if (is_idle)
        atomic_store(&worker->group->idle, idle + 1); /* see overflow_put() */
    else
        atomic_store_explicit(&worker->group->idle, idle - 1, memory_order_relaxed);
}

/* The group with the most jobs that nobody has taken yet; NULL when none is worth the way. */
static struct group *busiest_other(const struct group *mine)
{
    struct crew *crew = mine->crew;
    struct group *busiest = NULL;
    uint32_t most = STEAL_FROM - 1;
    for (uint32_t g = 0; g < crew->n_groups; g++) {
        uint32_t count = atomic_load_explicit(&crew->groups[g].queue.count, memory_order_relaxed);
        if (count > most && &crew->groups[g] != mine) {
            busiest = &crew->groups[g];
            most = count;
        }
    }
    return busiest;
}

/* The group has nothing left to do while another one's core is behind, because something else runs
 * there: the submitter, an rpc thread. Takes half of what waits there. Both locks, the lower index
 * first. Returns how many workers of the group are to be woken. */
static uint32_t steal(struct group *mine, struct group *theirs)
{
    struct group *low = mine->index < theirs->index ? mine : theirs;
    struct group *high = low == mine ? theirs : mine;
    pthread_mutex_lock(&low->queue.lock);
    pthread_mutex_lock(&high->queue.lock);
    uint32_t n = (atomic_load_explicit(&theirs->queue.count, memory_order_relaxed) + 1) / 2;
    uint32_t room = atomic_load_explicit(&mine->idle, memory_order_relaxed) -
                    atomic_load_explicit(&mine->queue.count, memory_order_relaxed);
    n = n < room ? n : room;
    n = n < WAKE_PORTION ? n : WAKE_PORTION;
    count_change(&theirs->queue.count, 0 - n);
    for (int c = 0; c < CLASSES && n > 0; c++) {
        struct job_list *from = &theirs->queue.of_class[c];
        uint32_t part = from->count < n ? from->count : n;
        move_jobs(&mine->queue, mine->index, from, c, part);
        n -= part;
    }
    atomic_fetch_add_explicit(&mine->epoch, 1, memory_order_relaxed);
    uint32_t due = wakes_due(mine, WAKE_PORTION);
    pthread_mutex_unlock(&high->queue.lock);
    pthread_mutex_unlock(&low->queue.lock);
    return due;
}

/* True: there is something to do that was another group's. */
static bool help_others(struct group *group)
{
    if (atomic_load_explicit(&group->queue.count, memory_order_relaxed) > 1)
        return false;
    struct group *behind = busiest_other(group);
    if (behind == NULL)
        return false;
    uint32_t due = steal(group, behind);
    if (due > 0)
        futex_wake(&group->epoch, due);
    return true;
}

/* Waits for the worker's next job. NULL: the crew stops. */
static struct tw_job *worker_take(struct worker *worker)
{
    struct group *group = worker->group;
    struct crew *crew = group->crew;
    for (;;) {
        pthread_mutex_lock(&group->queue.lock);
        group->coming -= worker->is_idle && group->coming > 0;
        struct tw_job *job = best_job(worker);
        uint32_t due = wakes_due(group, WAKE_PORTION);
        idle_set(worker, job == NULL);
        /* Acquire: who sees the epoch of a kick sees the overflow's count too. */
        uint32_t seen = atomic_load_explicit(&group->epoch, memory_order_acquire);
        pthread_mutex_unlock(&group->queue.lock);
        looked(worker);
        if (due > 0)
            futex_wake(&group->epoch, due);
        bool has_more = help_others(group);
        if (job != NULL)
            return job;
        if (has_more)
            continue;

        if (atomic_load_explicit(&crew->quit, memory_order_relaxed))
            return NULL;
        if (!overflow_has_some(crew)) /* see overflow_put() */
            futex_wait(&group->epoch, seen);
    }
}

/* The kernel keeps the C library's "restartable sequence" area of a thread up to date at every
 * switch to it, which touches two cold cache lines: 5 to 10 percent of what starting a job costs.
 * Nothing that runs here needs it; who asks for the core then gets it from the vDSO. */
static void restartable_off(void)
{
#if TW_HAS_RSEQ
    enum { RSEQ_BYTES = 32, RSEQ_UNREGISTER = 1 }; /* as glibc registers it; else nothing happens */
    syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset, RSEQ_BYTES,
            RSEQ_UNREGISTER, RSEQ_SIG);
#endif
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    char name[16];
    snprintf(name, sizeof name, "tw-worker-%u", worker->group->index);
    prctl(PR_SET_NAME, name);
    restartable_off();
    this_worker = worker;

    while ((worker->job = worker_take(worker)) != NULL) {
        crew_begin(worker->group->crew);
        worker->job->run(worker->job);
        worker->job = NULL;
    }
    struct crew *crew = worker->group->crew;
    atomic_fetch_add_explicit(&crew->exited, 1, memory_order_release);
    futex_wake(&crew->exited, 1);
    return NULL;
}

/* ---- making threads ---- */

/* New threads inherit the mask, the slice and the signals of the thread that makes them: so the
 * maker takes on for a while what they shall have, which is a few system calls for all of them.
 *
 * A short slice gives a thread that wakes an early deadline: it runs before a thread that computes,
 * and a leader's wakes lead to calls at once also where real-time priority is not to be had.
 * Kernels before 6.12 do not know slices, and leave everything as it is. */
enum { SLICE_NS = 100000 /* the least that the kernel takes */ };

struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns, deadline_ns, period_ns;
};
static_assert(sizeof(struct scheduling) == 48, "struct sched_attr, version 0");

struct maker {
    cpu_set_t cores;
    sigset_t signals;
    struct scheduling scheduling;
    bool has_short_slice;
};

static void maker_begin(struct maker *maker)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &maker->signals);
    sched_getaffinity(0, sizeof maker->cores, &maker->cores);

    maker->scheduling = (struct scheduling){0};
    maker->has_short_slice =
        syscall(SYS_sched_getattr, 0, &maker->scheduling, sizeof maker->scheduling, 0) == 0 &&
        maker->scheduling.policy == SCHED_OTHER;
    struct scheduling brief = maker->scheduling;
    brief.slice_ns = SLICE_NS;
    if (maker->has_short_slice)
        syscall(SYS_sched_setattr, 0, &brief, 0);
}

static void maker_move(const struct crew *crew, int core)
{
    if (!crew->pinned)
        return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)core, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void maker_end(struct maker *maker)
{
    if (maker->has_short_slice)
        syscall(SYS_sched_setattr, 0, &maker->scheduling, 0);
    sched_setaffinity(0, sizeof maker->cores, &maker->cores);
    pthread_sigmask(SIG_SETMASK, &maker->signals, NULL);
}

static int thread_make(const struct crew *crew, pthread_t *id, void *(*main)(void *), void *arg)
{
    pthread_attr_t attributes;
    int failed = pthread_attr_init(&attributes);
    if (failed != 0)
        return failed;
    pthread_attr_setstacksize(&attributes, crew->stack_bytes);
    failed = pthread_create(id, &attributes, main, arg);
    pthread_attr_destroy(&attributes);
    return failed;
}

static int worker_make(struct crew *crew, struct group *group, bool is_late)
{
    uint32_t made = atomic_load_explicit(&crew->threads, memory_order_relaxed);
    assert(made < crew->threads_max + crew->lost_max);
    struct worker *worker = &crew->workers[made];
    *worker = (struct worker){.group = group, .is_late = is_late, .call_until_ns = CALL_NONE};
    /* Counted before it exists: whoever sees it at work sees it counted. */
    atomic_store_explicit(&crew->threads, made + 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&crew->starting, is_late, memory_order_relaxed);
    atomic_fetch_add_explicit(&crew->threads_late, is_late, memory_order_relaxed);
    int failed = thread_make(crew, &worker->id, worker_main, worker);
    if (failed != 0) {
        atomic_store_explicit(&crew->threads, made, memory_order_relaxed);
        atomic_fetch_sub_explicit(&crew->starting, is_late, memory_order_relaxed);
        atomic_fetch_sub_explicit(&crew->threads_late, is_late, memory_order_relaxed);
    }
    return failed;
}

/* Threads that a group is to have when there are `all`: the first groups get what is left over, and
 * since late threads follow the same order, no group is ever over its share. */
static uint32_t group_share(const struct crew *crew, uint32_t group, uint32_t all)
{
    return all / crew->n_groups + (group < all % crew->n_groups);
}

tw_status crew_grow(struct crew *crew, uint32_t threads, struct tw_error *error)
{
    struct maker maker;
    int failed = 0;
    pthread_mutex_lock(&crew->making);
    uint32_t wanted_before = atomic_load_explicit(&crew->wanted, memory_order_relaxed);
    if (threads > wanted_before)
        atomic_store_explicit(&crew->wanted, threads, memory_order_relaxed);
    threads += crew_threads_ceiling(crew) - crew->threads_max;
    uint32_t before = atomic_load_explicit(&crew->threads, memory_order_relaxed);
    maker_begin(&maker);
    for (uint32_t g = 0; g < crew->n_groups && failed == 0 && threads > before; g++) {
        maker_move(crew, crew->groups[g].core);
        uint32_t missing = group_share(crew, g, threads) - group_share(crew, g, before);
        for (uint32_t i = 0; i < missing && failed == 0; i++)
            failed = worker_make(crew, &crew->groups[g], false);
    }
    maker_end(&maker);
    if (failed != 0) /* refused: the spawner is not to make the rest of it all the same */
        atomic_store_explicit(&crew->wanted, wanted_before, memory_order_relaxed);

    uint32_t made = atomic_load_explicit(&crew->threads, memory_order_relaxed);
    if (made > atomic_load_explicit(&crew->threads_ready, memory_order_relaxed))
        atomic_store_explicit(&crew->threads_ready, made, memory_order_relaxed);
    arrivals_await(crew, made);
    pthread_mutex_unlock(&crew->making);
    if (failed != 0)
        return tw_error_set(error, TW_LIMIT,
                            "%u threads of %u could be created: the system said: %s", made, threads,
                            strerror(failed));
    return TW_OK;
}

/* ---- late threads ---- */

static bool is_short_of_threads(const struct crew *crew)
{
    uint32_t promised = atomic_load_explicit(&crew->starting, memory_order_relaxed) +
                        atomic_load_explicit(&crew->returning, memory_order_relaxed);
    return atomic_load_explicit(&crew->overflow.count, memory_order_relaxed) > promised &&
           atomic_load_explicit(&crew->threads, memory_order_relaxed) <
               crew_threads_ceiling(crew) &&
           !atomic_load_explicit(&crew->quit, memory_order_relaxed);
}

/* A lost worker is replaced before a job misses it, as long as the cap allows. */
static bool is_short_of_ready_ones(const struct crew *crew)
{
    uint32_t threads = atomic_load_explicit(&crew->threads, memory_order_relaxed);
    return threads - atomic_load_explicit(&crew->lost, memory_order_relaxed) <
               atomic_load_explicit(&crew->wanted, memory_order_relaxed) &&
           threads < crew_threads_ceiling(crew) &&
           !atomic_load_explicit(&crew->quit, memory_order_relaxed);
}

/* False when none is missing, or the system gives none; the next call tries again. */
static bool missing_worker_make(struct crew *crew)
{
    bool is_made = false;
    pthread_mutex_lock(&crew->making);
    bool is_late = is_short_of_threads(crew);
    if (is_late || is_short_of_ready_ones(crew)) {
        uint32_t made = atomic_load_explicit(&crew->threads, memory_order_relaxed);
        struct group *group = &crew->groups[made % crew->n_groups];
        maker_move(crew, group->core);
        is_made = worker_make(crew, group, is_late) == 0;
    }
    pthread_mutex_unlock(&crew->making);
    return is_made;
}

static void *spawner_main(void *arg)
{
    struct crew *crew = arg;
    struct maker maker;
    prctl(PR_SET_NAME, "tw-spawner");
    maker_begin(&maker);

    for (;;) {
        uint32_t seen = atomic_load_explicit(&crew->spawn_call, memory_order_acquire);
        crew_watch(crew);
        while (missing_worker_make(crew))
            continue;
        if (atomic_load_explicit(&crew->quit, memory_order_relaxed))
            return NULL;
        sched_setaffinity(0, sizeof maker.cores, &maker.cores);
        futex_wait_for(&crew->spawn_call, seen, WATCH_NS);
    }
}

/* ---- life ---- */

static void groups_init(struct crew *crew, const struct crew_options *options)
{
    for (uint32_t g = 0; g < crew->n_groups; g++) {
        struct group *group = &crew->groups[g];
        group->crew = crew;
        group->index = g;
        group->core = options->cores[g];
        queue_init(&group->queue);
    }
}

static int leader_make(struct crew *crew, struct group *group)
{
    maker_move(crew, group->core);
    int failed = thread_make(crew, &group->leader, leader_main, group);
    group->has_leader = failed == 0;
    return failed;
}

/* Waits until every leader has its priority; crew->realtime then says whether all have it. */
static void leaders_await(struct crew *crew)
{
    for (uint32_t arrived; (arrived = atomic_load_explicit(&crew->arrived_leaders,
                                                           memory_order_acquire)) < crew->n_groups;)
        futex_wait(&crew->arrived_leaders, arrived);
    for (uint32_t g = 0; g < crew->n_groups; g++)
        crew->realtime &= crew->groups[g].is_realtime;
}

tw_status crew_start(struct crew *crew, const struct crew_options *options, struct tw_error *error)
{
    assert(options->groups > 0);
    assert(options->groups <= TW_GROUPS_MAX);
    crew->n_groups = options->groups;
    crew->threads_max = options->threads_max;
    crew->lost_max = options->lost_max;
    crew->reserved = options->reserved;
    crew->stack_bytes = options->stack_bytes;
    crew->pinned = options->pinned;
    crew->realtime = options->realtime;
    atomic_store_explicit(&crew->awaited, UINT32_MAX, memory_order_relaxed);
    pthread_mutex_init(&crew->making, NULL);
    pthread_mutex_init(&crew->watching, NULL);
    crowd_init(&crew->overflow);
    groups_init(crew, options);
    crew->workers = calloc(options->threads_max + options->lost_max, sizeof *crew->workers);
    if (crew->workers == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for %u workers", options->threads_max);

    struct maker maker;
    maker_begin(&maker);
    int failed = thread_make(crew, &crew->spawner, spawner_main, crew);
    crew->has_spawner = failed == 0;
    for (uint32_t g = 0; g < crew->n_groups && failed == 0; g++)
        failed = leader_make(crew, &crew->groups[g]);
    maker_end(&maker);
    if (failed != 0)
        return tw_error_set(error, TW_LIMIT, "the executor's leaders could not be created: %s",
                            strerror(failed));
    leaders_await(crew);
    return TW_OK;
}

static void everybody_wake(struct crew *crew)
{
    for (uint32_t g = 0; g < crew->n_groups; g++) {
        struct group *group = &crew->groups[g];
        atomic_fetch_add(&group->epoch, 1);
        futex_wake(&group->epoch, UINT32_MAX);
        atomic_fetch_add(&group->call, 1);
        futex_wake(&group->call, 1);
    }
    atomic_fetch_add(&crew->spawn_call, 1);
    futex_wake(&crew->spawn_call, 1);
}

/* Until every worker has left its loop, or is lost. */
static void workers_await(struct crew *crew)
{
    for (;;) {
        uint32_t exited = atomic_load_explicit(&crew->exited, memory_order_acquire);
        if (exited + atomic_load(&crew->lost) >= atomic_load(&crew->threads))
            return;
        futex_wait_for(&crew->exited, exited, WATCH_NS);
        crew_watch(crew);
    }
}

/* Joins all but those that are in a lost call; they sleep for ever when they are back. Returns how
 * many those are. */
static uint32_t workers_join(struct crew *crew)
{
    uint32_t n = atomic_load(&crew->threads), left = 0;
    pthread_mutex_lock(&crew->watching);
    crew->is_abandoned = true;
    for (uint32_t i = 0; i < n; i++)
        if (atomic_load(&crew->workers[i].call_until_ns) == CALL_LOST) {
            pthread_detach(crew->workers[i].id);
            crew->workers[i].is_left = true;
            left++;
        }
    pthread_mutex_unlock(&crew->watching);
    for (uint32_t i = 0; i < n; i++)
        if (!crew->workers[i].is_left)
            pthread_join(crew->workers[i].id, NULL);
    return left;
}

uint32_t crew_stop(struct crew *crew)
{
    if (crew->n_groups == 0)
        return 0;
    atomic_store(&crew->quit, true);
    everybody_wake(crew);
    if (crew->has_spawner)
        pthread_join(crew->spawner, NULL); /* first: it might still make a worker */
    workers_await(crew);
    uint32_t left = workers_join(crew);
    assert(atomic_load(&crew->ordinary) == 0); /* each job that had a worker has given it back */
    for (uint32_t g = 0; g < crew->n_groups; g++) {
        if (crew->groups[g].has_leader)
            pthread_join(crew->groups[g].leader, NULL);
        queue_clear(&crew->groups[g].queue);
    }
    crowd_clear(&crew->overflow);
    if (left > 0)
        return left;
    pthread_mutex_destroy(&crew->making);
    pthread_mutex_destroy(&crew->watching);
    free(crew->workers);
    return 0;
}
