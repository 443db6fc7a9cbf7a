/* breaker.c - a broker whose calls do not come back.
 *
 * A lost call costs a thread for good, so an adapter may lose only so many. With all of them lost its
 * breaker is open: new positions are skipped, whatever else there is to ask or to close waits, but
 * for one call at a time, the probe. A probe that comes back in time lets all of that through; new
 * positions wait until a lost call is back. */
#include "internal.h"

#include <tradewake/base/log.h>

bool breaker_is_open(const struct tw_slot *slot)
{
    return atomic_load_explicit(&slot->breaker->lost, memory_order_relaxed) >=
           slot->engine->threads_lost_max;
}

bool breaker_skips_opens(const struct tw_slot *slot)
{
    return breaker_is_open(slot) || (slot->lane != NULL && tw_lane_is_blocked(slot->lane));
}

bool breaker_admits(struct tw_slot *slot, bool *ret_is_probe)
{
    *ret_is_probe = false;
    if (!breaker_is_open(slot) || atomic_load(&slot->breaker->is_alive))
        return true;
    *ret_is_probe = !atomic_exchange(&slot->breaker->is_probe_out, true);
    return *ret_is_probe;
}

static void alive(struct breaker *breaker)
{
    atomic_store(&breaker->is_alive, true);
    atomic_store(&breaker->is_probe_out, false);
}

void breaker_probe_back(struct tw_slot *slot)
{
    alive(slot->breaker);
}

void breaker_lost(struct tw_slot *slot)
{
    atomic_store(&slot->breaker->is_alive, false);
    uint32_t lost = atomic_fetch_add(&slot->breaker->lost, 1) + 1;
    tw_log(TW_LOG_WARN, "executor.call_lost", "follower=%s adapter=%s lost=%u lost_max=%u", slot->id,
           slot->ops->name, lost, slot->engine->threads_lost_max);
}

void breaker_lost_back(struct tw_slot *slot)
{
    atomic_fetch_sub(&slot->breaker->lost, 1);
    atomic_fetch_add(&slot->breaker->back, 1);
    alive(slot->breaker);
}

/* Workers write no log lines: the sweep tells what has changed since it was last there. */
void breakers_tell(struct tw_engine *engine)
{
    for (size_t i = 0; i < engine->n_adapters; i++) {
        struct breaker *breaker = &engine->breakers[i];
        uint32_t lost = atomic_load(&breaker->lost), back = atomic_load(&breaker->back);
        bool was_open = breaker->lost_told >= engine->threads_lost_max;
        bool is_open = lost >= engine->threads_lost_max;
        const char *name = engine->adapters[i].ops->name;
        if (back != breaker->back_told)
            tw_log(TW_LOG_INFO, "executor.calls_back", "adapter=%s back=%u lost=%u", name,
                   back - breaker->back_told, lost);
        if (is_open && !was_open)
            tw_log(TW_LOG_ERROR, "breaker.open",
                   "adapter=%s lost=%u skips=opens holds=closes do=\"see what the broker's library waits for; restart when it never comes back\"",
                   name, lost);
        if (was_open && !is_open)
            tw_log(TW_LOG_INFO, "breaker.closed", "adapter=%s lost=%u", name, lost);
        breaker->lost_told = lost;
        breaker->back_told = back;
    }
}
