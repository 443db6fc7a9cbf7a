/* pool.h - one way to run many blocking calls at once; what `burst` compares.
 *
 * A pool is opened in a process of its own, so that the threads of one are no burden to another. It
 * gets a burst event by event, and runs copy_run() once for every copy, on whatever thread it has.
 */
#ifndef TESTS_BENCH_POOL_H
#define TESTS_BENCH_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What one copy found; in memory that the parent shares. */
struct copy_times {
    int64_t event_mono_ns; /* its close was begun */
    int64_t started_mono_ns;
    uint32_t threads_at_start;
};

struct burst {
    uint32_t closes, followers; /* closes x followers copies */
    int64_t answer_ns;          /* each call is blocked for so long */
    int64_t work_ns; /* what the submitting thread does for each close before it hands over */
    struct copy_times *copies;
    _Atomic uint32_t answered;
    _Atomic uint32_t threads; /* of the pool now; kept by the pool */
    int64_t from_mono_ns;     /* the burst's beginning */
    int cpu_of; /* the process whose processor time counts; 0 = the one that submits */
};

static inline uint32_t burst_copies(const struct burst *burst)
{
    return burst->closes * burst->followers;
}

/* A close begins: notes the time for its copies, and works as long as its decoding and planning
 * would. Thread: the submitter, before it hands the copies over. */
void event_begin(struct burst *burst, uint32_t close);

/* The call of one copy: notes the time, blocks, counts itself. */
void copy_run(struct burst *burst, uint32_t copy);

struct pool_settings {
    uint32_t threads; /* ready ones */
    uint32_t closes, followers;
    bool realtime, pinned;
};

struct pool {
    const char *name, *about;
    bool is_new_each_round; /* what it has learned in one burst would spoil the next */
    bool (*is_there)(void); /* NULL: always */
    const char *missing;    /* what to say when it is not */

    /* Returns false with words on stderr. */
    bool (*open)(const struct pool_settings *settings, struct burst *burst);
    /* Hands over everything; returns without waiting for answers. */
    void (*submit)(struct burst *burst);
    /* All answers are there. */
    void (*close)(void);
};

extern const struct pool pool_floor, pool_wake, pool_tradewake, pool_growing, pool_thread_per_call,
    pool_condvar, pool_glib, pool_libuv, pool_java, pool_tokio;

#endif
