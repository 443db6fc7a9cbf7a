/* pace.h - how fast a row of waiting jobs is served, and how long who comes now would wait in it.
 *
 * Written under the row's lock, read by any thread. Measured only while somebody waits: the time from one job to
 * the next, as a mean over the last PACE_JOBS. A row that stands still is at least as slow as it has stood. What was
 * measured before a pause is forgotten: a broker that was slow then may be well now, and nobody is turned away on a guess. */
#ifndef TW_EXECUTOR_PACE_H
#define TW_EXECUTOR_PACE_H

#include <tradewake/base/clock.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { PACE_JOBS = 64, PACE_NO_WAIT_NS = 10000 };
#define PACE_KNOWN_NS (10 * TW_NS_PER_S) /* a row that begins so long after the last measurement knows nothing */

struct pace {
    _Atomic int64_t last_mono_ns; /* when a job was last taken, or the row began; 0 = nobody waits */
    _Atomic int64_t between_ns;
    int64_t measured_mono_ns; /* the last time */
    uint32_t n; /* taken so far, at most PACE_JOBS */
};

/* A job waits now. */
static inline void pace_begin(struct pace *pace, int64_t now_mono_ns)
{
    if (atomic_load_explicit(&pace->last_mono_ns, memory_order_relaxed) != 0)
        return;
    if (now_mono_ns - pace->measured_mono_ns > PACE_KNOWN_NS) {
        pace->n = 0;
        atomic_store_explicit(&pace->between_ns, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&pace->last_mono_ns, now_mono_ns, memory_order_relaxed);
}

/* One of those that waited was taken; left: so many still wait. */
static inline void pace_taken(struct pace *pace, int64_t now_mono_ns, uint32_t left)
{
    int64_t last_ns = atomic_load_explicit(&pace->last_mono_ns, memory_order_relaxed);
    bool has_waited = left > 0 || now_mono_ns - last_ns > PACE_NO_WAIT_NS; /* else it only passed through, alone */
    if (last_ns != 0 && has_waited) {
        int64_t mean_ns = atomic_load_explicit(&pace->between_ns, memory_order_relaxed);
        pace->n += pace->n < PACE_JOBS;
        mean_ns += (now_mono_ns - last_ns - mean_ns) / (int64_t)pace->n;
        atomic_store_explicit(&pace->between_ns, mean_ns, memory_order_relaxed);
        pace->measured_mono_ns = now_mono_ns;
    }
    atomic_store_explicit(&pace->last_mono_ns, left > 0 ? now_mono_ns : 0, memory_order_relaxed);
}

/* Nobody waits any more, and not because the last one was taken. */
static inline void pace_end(struct pace *pace)
{
    atomic_store_explicit(&pace->last_mono_ns, 0, memory_order_relaxed);
}

static inline int64_t pace_wait_ns(const struct pace *pace, uint32_t waiting, int64_t now_mono_ns)
{
    int64_t last_ns = atomic_load_explicit(&pace->last_mono_ns, memory_order_relaxed);
    int64_t wait_ns = atomic_load_explicit(&pace->between_ns, memory_order_relaxed) * (int64_t)waiting;
    int64_t stood_ns = last_ns != 0 ? now_mono_ns - last_ns : 0;
    return waiting == 0 ? 0 : stood_ns > wait_ns ? stood_ns : wait_ns;
}

#endif
