/* gate.c - the last gate (core/last_gate.h) of every follower: asked by who is about to call, told and written by the
 * sweep, armed again by RearmGate. */
#include "internal.h"

#include <tradewake/base/log.h>

/* ---- On the way of an order: under the slot's mutex ---- */

enum tw_breach gate_ask(struct tw_copy *copy, const struct tw_order *order, int64_t now_mono_ns, int64_t now_wall_ns,
                        struct tw_gate_order *ret)
{
    struct tw_slot *slot = copy->subscription->slot;
    struct tw_engine *engine = slot->engine;
    const struct tw_listing *listing = copy->listing;
    *ret = (struct tw_gate_order){
        .id = tw_gate_id(order->client_order_id),
        .is_first = copy->leg_ids[copy->order_leg] <= copy->id_attempt,
        .is_counted = copy->calls > 0,
        .volume = order->volume,
        .planned = copy->volume,
        .contract_size = listing->instrument.contract_size,
        .price = order->price != TW_DECIMAL_UNSET && order->price > 0 ? order->price : tw_listing_price(listing, order->side),
        .window_end_wall_ns = copy->window_end_wall_ns,
        .now_mono_ns = now_mono_ns,
        .now_wall_ns = now_wall_ns,
    };
    enum tw_breach breach = tw_last_gate_ask(&slot->gate, &engine->gate_limits, ret);
    if (breach == TW_BREACH_NONE)
        return breach;
    atomic_fetch_add_explicit(&engine->breaches[breach], 1, memory_order_relaxed);
    if (slot->gate.tripped == TW_BREACH_NONE) {
        tw_last_gate_trip(&slot->gate, breach, now_wall_ns);
        slot->is_risk_dirty = true;
        slot->is_gate_told = false;
        atomic_store_explicit(&engine->has_gate_news, true, memory_order_release);
    }
    return breach;
}

void gate_count(struct tw_slot *slot, const struct tw_gate_order *order)
{
    struct tw_engine *engine = slot->engine;
    tw_last_gate_count(&slot->gate, &engine->gate_limits, order);
    if (engine->gate_limits.orders_per_day == 0 || slot->is_gate_counted)
        return;
    slot->is_gate_counted = true;
    atomic_store_explicit(&engine->has_gate_news, true, memory_order_release);
}

/* ---- Later ---- */

static void tell(struct tw_slot *slot)
{
    pthread_mutex_lock(&slot->mutex);
    enum tw_breach breach = slot->gate.tripped;
    bool is_news = breach != TW_BREACH_NONE && !slot->is_gate_told;
    slot->is_gate_told |= is_news;
    slot->is_risk_dirty |= slot->is_gate_counted;
    slot->is_gate_counted = false;
    pthread_mutex_unlock(&slot->mutex);
    slot_dirty_push(slot);
    if (is_news)
        tw_log(TW_LOG_ERROR, "gate.tripped", "follower=%s breach=%s opens=stopped closes=go_on do=\"look, then: tradewake followers rearm %s\"",
               slot->id, tw_breach_word(breach), slot->id);
}

void gates_sweep(struct tw_engine *engine)
{
    struct tw_slot *slot, *next;
    if (!atomic_exchange_explicit(&engine->has_gate_news, false, memory_order_acquire))
        return;
    pthread_rwlock_rdlock(&engine->fleet_lock);
    HASH_ITER(hh, engine->slots, slot, next)
    tell(slot);
    pthread_rwlock_unlock(&engine->fleet_lock);
}

uint64_t tw_engine_breaches(const struct tw_engine *engine, enum tw_breach breach)
{
    return atomic_load_explicit(&engine->breaches[breach], memory_order_relaxed);
}
