/* settle.c - what the master reduced while a follower's order still waited is reduced when it fills; and what a netting
 * account could not be asked to reduce, because an order that a power cut took out of the log had reduced it already.
 *
 * That a leg has filled is learned on a broker's thread, under the slot's mutex. How much of it the master has left
 * is in the master's books: the reactor looks there a moment later. After a start every leg is looked at: a crash may
 * have left a reduction unplanned. */
#include "internal.h"

void leg_unsettle(struct tw_leg *leg)
{
    leg->is_unsettled = true;
    atomic_store_explicit(&leg->slot->wants_settling, true, memory_order_release);
}

/* The next leg to look at, with its position kept; NULL: no more. */
static struct tw_leg *take_unsettled(struct tw_slot *slot)
{
    struct tw_leg *leg;
    pthread_mutex_lock(&slot->mutex);
    for (leg = slot->legs; leg != NULL && !leg->is_unsettled; leg = leg->next) {
    }
    if (leg != NULL) {
        leg->is_unsettled = false;
        atomic_fetch_add_explicit(&leg->position->busy, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&slot->mutex);
    return leg;
}

/* Whether its share was to be closed whole, and nobody is at it any more: then that is due again. */
static bool take_left(struct tw_slot *slot, struct tw_position *position)
{
    struct tw_leg *leg = position_leg(position, slot);
    pthread_mutex_lock(&slot->mutex);
    bool is_left = leg != NULL && slot->caps.netting && leg->held > 0 && leg->is_close_planned && leg->jobs == 0;
    if (is_left)
        leg->is_close_planned = false;
    pthread_mutex_unlock(&slot->mutex);
    return is_left;
}

static void settle(struct tw_slot *slot, struct tw_position *position)
{
    struct tw_master *master = position->master;
    char event_id[TW_ID_BYTES];
    struct tw_record *record = NULL;
    pthread_mutex_lock(&master->mutex);
    fleet_event_id(slot->engine, "repair", event_id);
    if (take_left(slot, position))
        record = sequencer_close_legs(master, position, slot, ORIGIN(REPAIR), event_id);
    else if (position->state == POSITION_OPEN && position->remaining < position->initial)
        record = sequencer_reduce_leg(master, position, slot, event_id);
    if (record != NULL)
        tw_record_release(record);
    pthread_mutex_unlock(&master->mutex);
    atomic_fetch_sub_explicit(&position->busy, 1, memory_order_release);
}

/* Slots that want it, each with a reference; at most room of them. */
static size_t slots_take(struct tw_engine *engine, struct tw_slot **ret, size_t room)
{
    size_t n = 0;
    struct tw_slot *slot, *next;
    pthread_rwlock_rdlock(&engine->fleet_lock);
    HASH_ITER(hh, engine->slots, slot, next)
    {
        if (n == room || !atomic_exchange_explicit(&slot->wants_settling, false, memory_order_acq_rel))
            continue;
        slot_hold(slot);
        ret[n++] = slot;
    }
    pthread_rwlock_unlock(&engine->fleet_lock);
    return n;
}

void settle_all(struct tw_engine *engine)
{
    enum { AT_ONCE = 256 };
    struct tw_slot *slots[AT_ONCE];
    size_t n;
    do {
        n = slots_take(engine, slots, AT_ONCE);
        for (size_t i = 0; i < n; i++) {
            for (struct tw_leg *leg; (leg = take_unsettled(slots[i])) != NULL;)
                settle(slots[i], leg->position);
            slot_release(slots[i]);
        }
    } while (n == AT_ONCE);
}

static void on_posted(struct tw_task *task)
{
    struct tw_engine *engine = container_of(task, struct tw_engine, settling);
    atomic_store_explicit(&engine->is_settling, false, memory_order_release); /* what comes from here on posts anew */
    settle_all(engine);
}

void settle_begin(struct tw_slot *slot)
{
    struct tw_engine *engine = slot->engine;
    if (!atomic_load_explicit(&slot->wants_settling, memory_order_acquire) ||
        atomic_load_explicit(&engine->is_stopping, memory_order_acquire) ||
        atomic_load_explicit(&engine->is_recovering, memory_order_acquire) ||
        atomic_exchange_explicit(&engine->is_settling, true, memory_order_acq_rel))
        return;
    engine->settling.run = on_posted;
    tw_reactor_post(engine->reactor, &engine->settling);
}
