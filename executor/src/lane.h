/* lane.h - the rules of a lane: who may start, who waits, for what.
 *
 *   submit -> HELD (its key is busy) -> READY (waits for a slot) -> admitted -> running -> back
 *                                        ^                                        |
 *                                        +------------ PARKED (keeps the key) <---+
 *
 * Pure rules on one lane; the caller holds lane->lock for every function here and takes it off
 * before it calls anybody. */
#ifndef TW_EXECUTOR_LANE_H
#define TW_EXECUTOR_LANE_H

#include "job_list.h"
#include "keys.h"
#include "pace.h"

#include <pthread.h>
#include <stdatomic.h>

/* tw_job.state. Written under the lane's lock, except TRANSIT -> QUEUED -> RUNNING, which are
 * written under the lock of the queue that job->group names; so whoever reads it under the lane's
 * lock alone reads it atomically: acquire, since QUEUED also says that job->group is written. */
enum job_state {
    JOB_AWAY,    /* its owner has it */
    JOB_HELD,    /* waits for its key, in the list of the key's owner */
    JOB_READY,   /* has its key, waits for a slot of the lane */
    JOB_TRANSIT, /* admitted; in the hands of a thread inside submit */
    JOB_QUEUED,  /* admitted; in a queue */
    JOB_RUNNING,
    JOB_LOST,   /* its call is past its deadline: lost() ends this run of it */
    JOB_PARKED, /* has its key, waits for tw_job_unpark() */
};

static inline void job_state_set(struct tw_job *job, enum job_state state)
{
    __atomic_store_n(&job->state, (uint32_t)state, __ATOMIC_RELEASE);
}

static inline enum job_state job_state_get(const struct tw_job *job)
{
    return (enum job_state)__atomic_load_n(&job->state, __ATOMIC_ACQUIRE);
}

/* The queue that the job stands in. Changes under the locks of both queues, so it stands still
 * under the lock of the one that it names. */
static inline void job_group_set(struct tw_job *job, uint32_t group)
{
    __atomic_store_n(&job->group, group, __ATOMIC_RELAXED);
}

static inline uint32_t job_group_get(const struct tw_job *job)
{
    return __atomic_load_n(&job->group, __ATOMIC_RELAXED);
}

struct tw_lane {
    /* Set by tw_lane_new(), then read-only: any thread. */
    struct tw_executor *executor;
    struct port *port; /* NULL: workers */

    /* Guarded by the executor's lanes_lock. */
    struct tw_lane *next, *previous;

    /* Guarded by lock. */
    pthread_mutex_t lock;
    uint32_t max_parallel;
    uint32_t slots_taken;   /* admitted or running */
    uint32_t slots_of_work; /* of them, those that are not polls */
    struct job_list ready[CLASSES];
    struct pace pace;          /* of those in ready that are not polls */
    _Atomic uint32_t waiting;  /* how many those are; read by any thread */
    struct tw_job *first, *last; /* every job that is not back, as submitted */
    struct keys keys;
    _Atomic uint32_t jobs; /* how many those are, and calls that are lost; read by any thread */

    /* A call was lost, and none has come back since: one job at a time, the probe. Written under
     * the lock, read by any thread. */
    _Atomic bool is_wedged;
    _Atomic bool is_blocked; /* the probe was lost as well: nothing starts */
    struct tw_job *probe;    /* admitted, not ended; NULL = the next one will be it */
    uint32_t lost;           /* calls past their deadline that have not come back */
};

/* Takes a job in. True: it is admitted (a slot is taken, state TRANSIT). */
bool lane_place(struct tw_lane *lane, struct tw_job *job);

/* The next waiting job that may start now, admitted as by lane_place(); NULL when there is none.
 * held_ns is brought up to date. */
struct tw_job *lane_admit_next(struct tw_lane *lane);

/* A run of the job ends. */
void lane_finish(struct tw_lane *lane, struct tw_job *job);
void lane_park(struct tw_lane *lane, struct tw_job *job);

/* A parked job competes again. */
void lane_unpark(struct tw_lane *lane, struct tw_job *job);

/* The call that the job is in passed its deadline. */
void lane_lost(struct tw_lane *lane, struct tw_job *job);

/* A call came back: whoever it goes to is alive. */
void lane_heal(struct tw_lane *lane);

/* A lost call came back. */
void lane_lost_end(struct tw_lane *lane);

/* Takes out a job that is HELD, READY, PARKED, or admitted and already off its queue. */
void lane_withdraw(struct tw_lane *lane, struct tw_job *job);

#endif
