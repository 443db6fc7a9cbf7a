/* crew.h - groups of workers, their queues, and who wakes whom.
 *
 *   crew_put --> [queue of a group] : never more jobs than the group has idle workers
 *           \--> [overflow]         : jobs that no idle worker was left for, or none beside the reserve
 *   crew_wake -> leader of the group -> its workers;  spawner -> late workers
 *
 * Locks, in the order in which two may be held at once: lane, group (the lower index first),
 * overflow. A leader takes none of them: it reads atomics and wakes. */
#ifndef TW_EXECUTOR_CREW_H
#define TW_EXECUTOR_CREW_H

#include "fair.h"
#include "job_list.h"
#include "pace.h"

#include <tradewake/base/limits.h>

#include <pthread.h>
#include <stdatomic.h>

enum { CACHE_LINE = 64 };

/* Jobs that are admitted, best class first. Guarded by lock; count is read by any thread. */
struct queue {
    pthread_mutex_t lock;
    struct job_list of_class[CLASSES];
    _Atomic uint32_t count;
};

/* The same where more jobs wait than there are threads to take them: fair between tenants. */
struct crowd {
    pthread_mutex_t lock;
    struct fair_list of_class[CLASSES];
    struct pace pace;
    _Atomic uint32_t count;
};

/* tw_job.group: which queue an admitted job stands in. */
enum { QUEUE_OVERFLOW = TW_GROUPS_MAX, QUEUE_PORTS };

struct crew;

/* Neighbours share cache lines, and a core: the workers of a group are made in a row. */
struct worker {
    pthread_t id;
    struct group *group;

    /* The worker's alone. */
    struct tw_job *job;
    bool has_arrived;  /* has looked at the queues once */
    bool is_idle;      /* counted in group->idle */
    bool is_returning; /* counted in crew->returning */
    bool is_late;      /* counted in crew->starting until its first look at the queues */

    /* The call that its job is in: when it counts as lost, CALL_NONE or CALL_LOST. The worker
     * writes it; from a time to CALL_LOST the watch does, under crew->watching. */
    _Atomic int64_t call_until_ns;
    bool is_left; /* lost when the crew stopped; crew_stop()'s alone */
};

#define CALL_NONE INT64_MAX
#define CALL_LOST INT64_MIN

struct group {
    /* Guarded by queue.lock; idle is written there and read by any thread. Invariant when the lock
     * is free: queue.count <= idle. */
    _Alignas(CACHE_LINE) struct queue queue;
    uint32_t coming;       /* workers that were woken and have not looked yet; see wakes_due() */
    _Atomic uint32_t idle; /* workers that wait, or are on their way to a job */

    /* Where idle workers sleep. Changes after a job was put and before anybody is woken. */
    _Alignas(CACHE_LINE) _Atomic uint32_t epoch;

    /* Where the leader sleeps, and how many it is to wake. */
    _Alignas(CACHE_LINE) _Atomic uint32_t call;
    _Atomic uint32_t to_wake;

    /* Set at start, then read-only. */
    _Alignas(CACHE_LINE) struct crew *crew;
    pthread_t leader;
    uint32_t index;
    int core;
    bool has_leader, is_realtime;
};

struct crew_options {
    uint32_t groups, threads_max, lost_max, reserved;
    const int *cores; /* of each group */
    bool pinned, realtime;
    size_t stack_bytes;
};

/* The executor's running totals in one word, so that one addition moves a job from one to the
 * other: waiting jobs in the high half, running ones in the low half. */
#define LOAD_RUNNING UINT64_C(1)
#define LOAD_WAITING (UINT64_C(1) << 32)

struct crew {
    struct group groups[TW_GROUPS_MAX];

    /* Jobs that no idle worker was left for. */
    _Alignas(CACHE_LINE) struct crowd overflow;

    /* Written by every thread. */
    _Alignas(CACHE_LINE) _Atomic uint64_t load;
    _Atomic uint32_t peak_running;
    /* Jobs that are not urgent and have a worker: it runs them, or is on its way to them in a group's queue. */
    _Atomic uint32_t ordinary;
    _Alignas(CACHE_LINE) _Atomic uint64_t completed;
    _Atomic uint32_t returning; /* workers whose job has ended and who will look for the next */

    /* Written when threads are made. */
    _Alignas(CACHE_LINE) _Atomic uint32_t threads;
    _Atomic uint32_t threads_ready;
    _Atomic uint64_t threads_late;
    _Atomic uint32_t arrived_leaders;
    _Atomic uint32_t arrived; /* workers that have looked at the queues once */
    _Atomic uint32_t
        awaited; /* so many have to, before somebody goes on; UINT32_MAX = nobody waits */
    _Atomic uint32_t starting;       /* late workers that have not */
    _Atomic uint32_t wanted;         /* workers there are to be, beside those that are lost */
    _Atomic uint32_t lost;           /* workers in a call past its deadline */
    _Atomic uint32_t exited;         /* workers that have left their loop */
    _Atomic int64_t watched_mono_ns; /* when somebody last looked for lost calls */

    /* The spawner's: where it sleeps. */
    _Alignas(CACHE_LINE) _Atomic uint32_t spawn_call;
    _Atomic bool quit;

    /* Set at start, then read-only. */
    _Alignas(CACHE_LINE) uint32_t n_groups;
    uint32_t threads_max;
    uint32_t lost_max; /* so many lost workers are replaced, beyond threads_max */
    uint32_t reserved; /* so many workers run urgent jobs alone; see ordinary_room() */
    size_t stack_bytes;
    bool pinned, realtime;
    pthread_t spawner;
    bool has_spawner;
    struct worker *workers; /* threads_max + lost_max of them; grows under making */

    /* Held while threads are made: ordinary threads only, never on the way of a job. */
    pthread_mutex_t making;

    /* Held while a call is declared lost, and by the worker of such a call when it is back. */
    pthread_mutex_t watching;
    bool is_abandoned; /* guarded by watching: who comes back now finds nothing to go on with */
};

/* Jobs on their way to the queues, in the hands of one thread. */
struct batch {
    struct job_list of_class[CLASSES];
    uint32_t count;
};

/* What crew_put() leaves to crew_wake(). */
struct wakes {
    uint32_t of_group[TW_GROUPS_MAX];
    bool spawner;
};

/* Fails: TW_NO_MEMORY, TW_LIMIT; crew_stop() cleans up either way. */
TW_MUST_CHECK tw_status crew_start(struct crew *crew, const struct crew_options *options,
                                   struct tw_error *error);

/* Lets running jobs finish, joins every thread but those that are lost. No job waits any more and
 * none will be put. Returns how many are lost: the crew's memory has to stay for them. */
uint32_t crew_stop(struct crew *crew);

/* Creates workers until there are `threads` beside the lost ones, and waits until every one of them
 * waits. Fails: TW_LIMIT; what had been created stays. */
TW_MUST_CHECK tw_status crew_grow(struct crew *crew, uint32_t threads, struct tw_error *error);

static inline void batch_add(struct batch *batch, struct tw_job *job)
{
    job_list_append(&batch->of_class[job->job_class], job);
    batch->count++;
}

/* Puts the batch's jobs into queues and empties it. May be called under a lane's lock. */
void crew_put(struct crew *crew, struct batch *batch, struct wakes *wakes);

/* Sees to it that somebody comes for them. Call without a lock. */
void crew_wake(struct crew *crew, const struct wakes *wakes);

/* So many jobs that are not urgent have their worker no more. Somebody is to look at the overflow
 * afterwards: the worker itself does, else crew_look(). */
void crew_ordinary_end(struct crew *crew, uint32_t n);

/* Idle workers look whether there is something for them in the overflow. Call without a lock. */
void crew_look(struct crew *crew);

/* Admitted jobs that wait for a thread. */
uint32_t crew_queued(const struct crew *crew);

/* Whether the calling thread is a worker of this crew that is inside run(). */
bool crew_is_worker(const struct crew *crew);

/* The worker that runs this is about to look for its next job. */
void crew_returning(struct crew *crew);

/* The worker that this thread is; NULL: none. */
struct worker *worker_here(void);

/* Workers that may exist now. */
static inline uint32_t crew_threads_ceiling(const struct crew *crew)
{
    uint32_t lost = atomic_load_explicit(&crew->lost, memory_order_relaxed);
    return crew->threads_max + (lost < crew->lost_max ? lost : crew->lost_max);
}

/* ---- watch.c: calls past their deadline ---- */

/* How often somebody looks. */
#define WATCH_NS INT64_C(50000000)

/* Declares lost what is past its deadline: lost() of each such job is called. */
void crew_watch(struct crew *crew);

/* Whether this thread calls a lost() now. */
bool crew_is_watch(void);

/* ---- the overflow, and a crowd of its own for a reactor ---- */
void crowd_init(struct crowd *crowd);
void crowd_clear(struct crowd *crowd);
/* Under crowd->lock: */
void crowd_put(struct crowd *crowd, uint32_t index, struct batch *batch);
struct tw_job *crowd_take(struct crowd *crowd);
void crowd_remove(struct crowd *crowd, struct tw_job *job);

/* Of a group: under its lock. */
void queue_remove(struct queue *queue, struct tw_job *job);

/* A job begins to run, or ends; keeps the totals. */
void crew_begin(struct crew *crew);
void crew_end(struct crew *crew);

#endif
