/* breaker.c - a broker whose calls do not come back (by adapter), and a session whose order calls end unknown (the fuse, by
 * follower, at the end of the file).
 *
 * A lost call costs a thread for good, so an adapter may lose only so many. With all of them lost its
 * breaker is open: new positions are skipped, whatever else there is to ask or to close waits, but
 * for one call at a time, the probe. A probe that comes back in time lets all of that through; new
 * positions wait until a lost call is back.
 *
 * And a session (fuse) whose order calls end unknown one after the other: its opens are skipped until the broker has been
 * asked what it holds, and has answered; closes go on, each with its own back-off. */
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

/* ---- A session whose order calls end unknown ---- */

#define ASK_MIN_NS TW_NS_PER_S
#define ASK_MAX_NS (32 * TW_NS_PER_S)

bool breaker_blocks(const struct tw_slot *slot)
{
    return slot->fuse.is_blown || (slot->caps.blocking && breaker_skips_opens(slot));
}

static void blown_set(struct tw_slot *slot, bool is_blown)
{
    if (slot->fuse.is_blown == is_blown)
        return;
    slot->fuse.is_blown = is_blown;
    if (is_blown)
        atomic_fetch_add_explicit(&slot->engine->fuses_blown, 1, memory_order_relaxed);
    else
        atomic_fetch_sub_explicit(&slot->engine->fuses_blown, 1, memory_order_relaxed);
}

static int64_t ask_after_ns(const struct fuse *fuse)
{
    int64_t wait_ns = ASK_MIN_NS;
    for (uint32_t i = 1; i < fuse->times && wait_ns < ASK_MAX_NS; i++)
        wait_ns *= 2;
    return wait_ns;
}

void fuse_on_call(struct tw_slot *slot, const struct tw_ack *ack)
{
    struct fuse *fuse = &slot->fuse;
    uint32_t most = slot->engine->unknown_calls_max;
    if (ack->not_sent)
        return;
    if (ack->outcome != TW_OUTCOME_AMBIGUOUS) { /* a no is an answer, too */
        fuse->unknown = fuse->times = 0;
        blown_set(slot, false);
        return;
    }
    if (most == 0 || ++fuse->unknown < most || fuse->is_blown)
        return;
    fuse->times++;
    fuse->ask_mono_ns = tw_mono_ns() + ask_after_ns(fuse);
    blown_set(slot, true);
}

/* A session that answers gets orders again: the next unknown one blows the fuse again, for twice as long. */
void fuse_on_query(struct tw_slot *slot, bool is_answered)
{
    struct fuse *fuse = &slot->fuse;
    if (!fuse->is_blown || !is_answered)
        return;
    fuse->unknown = slot->engine->unknown_calls_max - 1;
    blown_set(slot, false);
}

bool fuse_asks(struct tw_slot *slot, int64_t now_mono_ns)
{
    struct fuse *fuse = &slot->fuse;
    if (!fuse->is_blown || now_mono_ns < fuse->ask_mono_ns)
        return false;
    fuse->ask_mono_ns = now_mono_ns + ask_after_ns(fuse);
    return true;
}

const char *fuse_news(struct tw_slot *slot)
{
    struct fuse *fuse = &slot->fuse;
    bool is_news = fuse->is_told_blown != fuse->is_blown;
    fuse->is_told_blown = fuse->is_blown;
    return !is_news ? NULL : fuse->is_blown ? "open" : "closed";
}

uint32_t tw_engine_breakers_open(const struct tw_engine *engine, bool of_adapters)
{
    uint32_t n = 0;
    if (!of_adapters)
        return atomic_load_explicit(&engine->fuses_blown, memory_order_relaxed);
    for (size_t i = 0; i < engine->n_adapters; i++)
        n += atomic_load_explicit(&engine->breakers[i].lost, memory_order_relaxed) >= engine->threads_lost_max;
    return n;
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
