#include <tradewake/telemetry/counters.h>

#include <stdatomic.h>
#include <stddef.h>

static atomic_ullong copies[TW_COPY_STATES][TW_COPY_REASONS];

/* A number of a newer contract counts as UNSPECIFIED rather than beside the table. */
static size_t known(int32_t number, size_t count)
{
    return number >= 0 && (size_t)number < count ? (size_t)number : 0;
}

void tw_copy_counters_add(int32_t state, int32_t reason)
{
    atomic_fetch_add_explicit(&copies[known(state, TW_COPY_STATES)][known(reason, TW_COPY_REASONS)],
                              1, memory_order_relaxed);
}

uint64_t tw_copy_counters_get(int32_t state, int32_t reason)
{
    return atomic_load_explicit(
        &copies[known(state, TW_COPY_STATES)][known(reason, TW_COPY_REASONS)],
        memory_order_relaxed);
}
