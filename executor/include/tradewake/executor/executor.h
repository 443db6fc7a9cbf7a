/* executor.h - threads that are ready before the burst.
 *
 * Workers are created once, kept for ever and reused: one group per usable core, its workers pinned
 * to it, and a leader on each core that wakes its own group. A job belongs to a lane (a follower).
 *
 *   any thread --submit--> lane --admitted--> [group's queue] --taken--> worker --run(job)-->
 *                           |  \--admitted--> [reactor's queue] ------> reactor --run(job)--> ...
 *                           held: same key busy, or lane at its max_parallel
 *
 * Lanes. At most max_parallel jobs of a lane run at once. Jobs with the same key never overlap and
 * keep the order in which they were submitted; jobs with different keys overtake freely. Among what
 * may start, risk-reducing jobs go first, then the others, first in first out; polls come last, never
 * take a lane's last slot and wait while the lane has other work.
 *
 * Reserve. Where threads are short, jobs that are not urgent leave threads_reserved of them to those that are.
 *
 * Tenants. Where admitted jobs wait for a thread, or for the reactor, each tenant has its turn: one with ten
 * thousand jobs does not keep one with three waiting.
 *
 * A job is a struct embedded in what it is about: nothing is allocated to submit it. Every submitted
 * job comes back exactly once: through run() that ends in tw_job_finish(), or through cancelled().
 *
 * The executor knows nothing of orders, brokers or the network. */
#ifndef TW_EXECUTOR_EXECUTOR_H
#define TW_EXECUTOR_EXECUTOR_H

#include <tradewake/base/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tw_executor;
struct tw_lane;
struct tw_reactor;
struct tw_job;

typedef void tw_job_fn(struct tw_job *job);

enum tw_job_class {
    TW_JOB_URGENT, /* reduces risk: closes, cancels, tighter stops */
    TW_JOB_NORMAL,
    TW_JOB_POLL,   /* account reads, look-ups that nobody waits for */
};

enum tw_job_end {
    TW_JOB_DONE, /* key and slot are free; the executor does not touch the job again */
    TW_JOB_PARK, /* the slot is free, the key stays taken until tw_job_unpark() and another finish */
};

struct tw_job {
    /* Set by the owner before submit, and left alone until the job is back. */
    tw_job_fn *run;       /* Thread: worker (may block), or the reactor for a reactor's lane (may
                             not). Must lead to exactly one tw_job_finish(): before run() returns on
                             a worker, at any later time, from the reactor, on a reactor's lane. */
    tw_job_fn *cancelled; /* Thread: the one in tw_lane_cancel() or tw_executor_stop(); no lock is
                             held. run() was not called since the last submit or unpark and will not be. */
    tw_job_fn *lost;      /* NULL unless run() uses tw_job_call_begin(). Thread: watch. The call is past its
                             time. Must lead to exactly one tw_job_finish() before it returns; the job
                             is not that run's any more. No executor lock is held. */
    struct tw_lane *lane;
    uint64_t key;         /* jobs of one lane and key keep their order; 0 = no order asked for */
    enum tw_job_class job_class;
    uint32_t tenant;      /* where jobs wait for a thread, tenants take turns; two may share a turn */

    /* Set by the executor, for run() to read. */
    int64_t submitted_mono_ns; /* of the latest submit */
    int64_t held_ns;           /* of the time since submit, what was spent not admitted by the lane, or parked */
    uint64_t threads_late;     /* late-thread counter of the executor when the job was submitted */
    uint32_t threads_at_start; /* threads there were when it was submitted */
    uint32_t queue_depth;      /* admitted jobs that waited for a thread then */

    /* The executor's alone. */
    struct tw_job *next, *previous;                 /* in the one list it stands in */
    struct tw_job *next_in_lane, *previous_in_lane; /* all of the lane, as submitted */
    struct tw_job *first_of_key, *last_of_key;      /* who waits for this one's key */
    struct tw_job *child[2];                        /* in the lane's tree of busy keys */
    int64_t held_from_mono_ns;
    uint32_t state;
    uint32_t group;
};

struct tw_executor_options {
    uint32_t threads_ready; /* workers at start; rounded up to a multiple of TW_THREADS_ROUND */
    uint32_t threads_max;   /* never more; 0 = TW_THREADS_MAX_DEFAULT */
    uint32_t groups;        /* 0 = min(cores in the affinity mask, cgroup CPU quota, TW_GROUPS_MAX) */
    bool pinned;            /* workers and leaders to their core; false: anywhere in the affinity mask */
    bool realtime;          /* leaders SCHED_FIFO where the system allows it; refused is not an error */
    uint32_t stack_bytes;   /* 0 = TW_WORKER_STACK_BYTES */
    uint32_t threads_lost_max; /* lost threads that are replaced, beyond threads_max;
                                  0 = TW_THREADS_LOST_MAX_DEFAULT */
    uint32_t threads_reserved; /* so many workers, an eighth of all at most, run urgent jobs alone */
};

/* Effective numbers and counters; one consistent reading is not promised between fields. */
struct tw_executor_status {
    uint32_t threads, threads_ready, threads_max;
    uint32_t threads_lost;       /* in a call past its deadline */
    uint64_t threads_created_late;
    uint32_t calls_in_flight;    /* jobs between the start of run() and finish */
    uint32_t calls_queued;       /* submitted and not started: admitted or held */
    uint32_t peak_in_flight;
    uint64_t calls_completed;
    uint32_t groups;
    bool pinned, realtime;
};

/* Starts groups, leaders and threads_ready workers; when it returns every one of them waits.
 *
 * Thread: main.  Blocks: 15 to 20 microseconds per thread.
 * Fails:  TW_LIMIT when threads_ready exceeds what threads_max, RLIMIT_NPROC, the cgroup's pids.max
 *         or memory allow: both numbers and the limit's name are in error; TW_NO_MEMORY. Nothing is
 *         left running on failure, and nothing is ever silently less than asked. */
TW_MUST_CHECK tw_status tw_executor_start(const struct tw_executor_options *options,
                                          struct tw_executor **ret_executor, struct tw_error *error);

/* Cancels what waits, lets running jobs finish, joins every thread, frees. NULL is allowed.
 * Returns how many threads are in a lost call: nobody waits for them, and when such a call comes back its
 * thread sleeps for ever, inside tw_job_call_end(). What the call itself uses has to stay as it is.
 * Reactor lanes: the caller has stopped their adapters first; their reactor stops after this.
 * Other threads may still call while this runs, as long as they are out before it returns (a job
 * that runs keeps it from returning). Lanes outlive it until tw_lane_free().
 * Thread: main; not from run().  Blocks: as long as the slowest running job. */
uint32_t tw_executor_stop(struct tw_executor *executor);

/* What the machine allows: the smallest of threads_max, RLIMIT_NPROC, pids.max and memory, with the
 * name of the limit that decides ("executor.threads_max", "RLIMIT_NPROC", "cgroup pids.max",
 * "memory"; static). */
uint32_t tw_executor_threads_allowed(const struct tw_executor_options *options, const char **ret_limit);

/* Bytes of memory that the process may still take: of the machine, its container and RLIMIT_AS the least; pages of files
 * count as free. UINT64_MAX: no limit is known. Reads some files of /proc and /sys. Thread: any. */
uint64_t tw_executor_memory_left(void);

/* Sees to it that at least `threads` workers are ready, off the hot path (a fleet that grows), and the reserve beside
 * them as far as there may be more; they count as ready, not as late. Fewer than there are changes nothing.
 * Thread: any but workers.  Blocks: as tw_executor_start().
 * Fails: TW_LIMIT, with both numbers in error; what had been created stays. */
TW_MUST_CHECK tw_status tw_executor_prepare(struct tw_executor *executor, uint32_t threads,
                                            struct tw_error *error);

void tw_executor_status_get(struct tw_executor *executor, struct tw_executor_status *ret);

/* The number of late threads so far; a sample's threads_created is its difference. Thread: any. */
uint64_t tw_executor_threads_late(const struct tw_executor *executor);

/* max_parallel: 1..TW_PARALLEL_MAX. reactor: NULL = workers run the lane's jobs and may block; else
 * they run on that reactor and may not.
 * Thread: any.  Owns: the caller; tw_lane_free() after every job of it is back. */
struct tw_lane *tw_lane_new(struct tw_executor *executor, uint32_t max_parallel,
                            struct tw_reactor *reactor);
void tw_lane_free(struct tw_lane *lane);

/* Takes effect at the next admission; what runs goes on. Thread: any. */
void tw_lane_parallel_set(struct tw_lane *lane, uint32_t max_parallel);

/* How long a job of this tenant and of the class NORMAL that is submitted now would wait until it runs, going by how fast the lane, and the
 * threads, have served those that waited lately; 0: not at all, as far as anybody knows. What waits for a busy key alone
 * is not looked at. Thread: any.  Blocks: no. */
int64_t tw_lane_wait_ns(const struct tw_lane *lane, uint32_t tenant);

/* Jobs submitted and not back: waiting, parked and running. Thread: any. */
uint32_t tw_lane_jobs(const struct tw_lane *lane);

/* Hands over jobs, in this order: one pass over the lanes, then one wake per group, however many
 * jobs there are. Jobs of one call may belong to different lanes. The array is only read.
 *
 * Thread: any, also from inside run().  Blocks: no.
 * Owns:   the executor owns each job until its finish or cancelled().
 * Fails:  never; after tw_executor_stop() began each job's cancelled() is called instead. */
void tw_executor_submit(struct tw_executor *executor, struct tw_job *const *jobs, size_t count);

/* Ends one run of a job; see tw_job_end. The in-flight count falls and the lane's next job is on its
 * way before this returns: announce the completion afterwards.
 * Thread: worker inside run(), the reactor, or the watch inside lost(). */
void tw_job_finish(struct tw_job *job, enum tw_job_end end);

/* Around a call that may never come back, inside run() of a worker's lane. Once lost_mono_ns has passed the job's
 * lost() is called, the thread counts as lost and, up to a cap, has a successor. A lane with a lost call
 * is wedged: one job at a time, the probe, until some call of it comes back; when the probe is lost
 * too, nothing starts until then.
 *
 * tw_job_call_end() false: it was lost. The job is somebody else's now: hand over what the call
 * brought, call tw_lane_lost_call_end(), and return from run() without a tw_job_finish(). A lost
 * call counts in tw_lane_jobs() until then.
 * Thread: worker inside run().  Blocks: no (a lost one: while its lost() is at work). */
void tw_job_call_begin(struct tw_job *job, int64_t lost_mono_ns);
bool tw_job_call_end(struct tw_job *job);
void tw_lane_lost_call_end(struct tw_lane *lane);

/* Whether a lost probe keeps everything of the lane waiting. Thread: any. */
bool tw_lane_is_blocked(const struct tw_lane *lane);

/* Lets a parked job compete again, before all later jobs of its key. Harmless when it is not parked
 * (then it does nothing and says false). Thread: any; the caller knows that the job still exists. */
bool tw_job_unpark(struct tw_job *job);

/* Withdraws every job of the lane that waits (held, admitted and not yet taken, or parked) and for
 * which match() says true. match is called under the lane's lock, in order: no calls back; it may note on
 * the job why.
 * Their cancelled() has been called when this returns. Jobs that run are not touched.
 * Returns how many. Thread: any but inside run() of the same lane. */
size_t tw_lane_cancel(struct tw_lane *lane, bool (*match)(struct tw_job *job, void *context),
                      void *context);

#endif
