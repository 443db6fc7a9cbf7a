/* ring.h - one core's samples: many workers put, the sampler takes.
 *
 * A bounded queue after Vyukov. Each place has a turn: 2 x lap = free for that lap, 2 x lap + 1 =
 * filled in that lap. A worker claims a place by moving the tail, fills it and passes the turn on;
 * nobody waits for anybody. Zeroed memory is an empty ring, so pages that no burst has reached are
 * never touched. */
#ifndef TELEMETRY_RING_H
#define TELEMETRY_RING_H

#include <tradewake/telemetry/sample.h>

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ring {
    /* Set by ring_init(), read-only afterwards. */
    struct tw_sample *samples;
    atomic_uint *turns;
    void *memory;

    /* The workers'. */
    alignas(64) _Atomic uint64_t tail; /* places claimed since start */
    alignas(64) _Atomic uint64_t lost; /* samples that found no place */

    /* The sampler's. */
    alignas(64) uint64_t head; /* places emptied since start */
};

bool ring_init(struct ring *ring);
void ring_clear(struct ring *ring);

/* False, counted, when the ring is full. A put that returned true is ordered before every later
 * sequentially consistent read of the same thread: see sampler_park(). Thread: any. */
bool ring_put(struct ring *ring, const struct tw_sample *sample);

/* False when the next place has not been filled. Thread: sampler. */
bool ring_take(struct ring *ring, struct tw_sample *ret_sample);

/* Whether places are claimed that have not been taken. Thread: sampler. */
bool ring_is_used(const struct ring *ring);

#endif
