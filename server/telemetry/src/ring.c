#include "ring.h"

#include <tradewake/base/limits.h>

#include <stddef.h>
#include <sys/mman.h>

#define ENTRIES    TW_SAMPLE_RING_ENTRIES
#define RING_BYTES (ENTRIES * (sizeof(struct tw_sample) + sizeof(atomic_uint)))

static uint32_t turn_of(uint64_t position)
{
    return (uint32_t)(position / ENTRIES * 2u);
}

bool ring_init(struct ring *ring)
{
    *ring = (struct ring){0};
    void *memory =
        mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;

    ring->memory = memory;
    ring->samples = memory;
    ring->turns = (atomic_uint *)(ring->samples + ENTRIES);
    return true;
}

void ring_clear(struct ring *ring)
{
    if (ring->memory != NULL)
        munmap(ring->memory, RING_BYTES);
    ring->memory = NULL;
}

bool ring_put(struct ring *ring, const struct tw_sample *sample)
{
    uint64_t position = atomic_load_explicit(&ring->tail, memory_order_relaxed);

    for (;;) {
        /* Pairs with the release in ring_take(): the place has been read before it is filled. */
        uint32_t turn =
            atomic_load_explicit(&ring->turns[position % ENTRIES], memory_order_acquire);
        int32_t ahead = (int32_t)(turn - turn_of(position));

        if (ahead < 0) { /* still filled from the lap before */
            atomic_fetch_add_explicit(&ring->lost, 1, memory_order_relaxed);
            return false;
        }
        if (ahead > 0)
            position = atomic_load_explicit(&ring->tail, memory_order_relaxed);
        else if (atomic_compare_exchange_weak_explicit(&ring->tail, &position, position + 1u,
                                                       memory_order_relaxed, memory_order_relaxed))
            break;
    }

    ring->samples[position % ENTRIES] = *sample;
    /* Sequentially consistent, not only release: the caller looks next whether the sampler is
     * parked, and must not look before the sample can be seen. */
    atomic_store(&ring->turns[position % ENTRIES], turn_of(position) + 1u);
    return true;
}

bool ring_take(struct ring *ring, struct tw_sample *ret_sample)
{
    uint64_t position = ring->head;
    atomic_uint *turn = &ring->turns[position % ENTRIES];

    if (atomic_load(turn) != turn_of(position) + 1u)
        return false;
    *ret_sample = ring->samples[position % ENTRIES];
    atomic_store_explicit(turn, turn_of(position) + 2u, memory_order_release);
    ring->head = position + 1u;
    return true;
}

bool ring_is_used(const struct ring *ring)
{
    return atomic_load(&ring->tail) != ring->head;
}
