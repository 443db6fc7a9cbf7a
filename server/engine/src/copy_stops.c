/* copy_stops.c - changes of stops: where they are to stand, whether they may be touched now, and what lets others by when
 * they may not. Under the slot's mutex, but for copy_refused_withdraw(). */
#include "copy.h"

#include <string.h>

/* Written under the slot's mutex alone, so that the usual "no, as before" costs no locked instruction. */
void copy_refused_set(struct tw_copy *copy, bool is_refused)
{
    if (atomic_load_explicit(&copy->is_refused, memory_order_relaxed) == is_refused)
        return;
    atomic_store_explicit(&copy->is_refused, is_refused, memory_order_relaxed);
    if (is_refused)
        atomic_fetch_add_explicit(&copy_slot(copy)->stops_refused, 1, memory_order_relaxed);
    else
        atomic_fetch_sub_explicit(&copy_slot(copy)->stops_refused, 1, memory_order_relaxed);
}

/* Whether stops of this share can be those of the position. */
static bool is_on_its_side(const struct tw_leg *leg)
{
    if (!leg->slot->caps.netting || leg->is_pending)
        return true;
    tw_decimal net = slot_net(leg->slot, leg->listing);
    return leg->side == TW_BUY ? net > 0 : net < 0;
}

/* What the event does not name is the share's own, where the one position has another share's. */
static tw_decimal own_if_unset(const struct tw_leg *leg, tw_decimal wanted, tw_decimal own)
{
    return wanted == TW_DECIMAL_UNSET && leg->slot->caps.netting && !leg->is_pending && own > 0 ? own : wanted;
}

bool leg_stops_decide(const struct tw_leg *leg, const struct tw_copy *change, tw_decimal *ret_stop_loss,
                      tw_decimal *ret_take_profit)
{
    const struct tw_stops_input input = {
        .stop_loss = own_if_unset(leg, change->stop_loss, leg->own_stop_loss), /* turned for this follower already */
        .take_profit = own_if_unset(leg, change->take_profit, leg->own_take_profit),
        .side = leg->side,
        .listing = leg->listing,
        /* The master's has filled, ours not: the order's stops are meant. */
        .pending_price = leg->is_pending ? leg->order_price : TW_DECIMAL_UNSET,
    };
    tw_stops_decide(&input, ret_stop_loss, ret_take_profit);
    return is_on_its_side(leg);
}

void leg_own_stops(struct tw_leg *leg, const struct tw_copy *copy)
{
    if (copy->stop_loss != TW_DECIMAL_UNSET)
        leg->own_stop_loss = copy->stop_loss;
    if (copy->take_profit != TW_DECIMAL_UNSET)
        leg->own_take_profit = copy->take_profit;
}

/* Its stops did not come with the open: they are placed now. */
enum gate gate_protect(struct tw_copy *copy, struct tw_order *order)
{
    const struct tw_leg *leg = copy->leg;
    if (leg->is_closed)
        return gate_end(copy, STATE(DONE), REASON(ALREADY_CLOSED));
    if (!is_on_its_side(leg))
        return gate_end(copy, STATE(DONE), REASON(UNSPECIFIED)); /* its stops are not the position's */
    order->op = TW_OP_MODIFY;
    if (!copy_slot(copy)->caps.netting)
        memcpy(order->position_id, leg->ticket, sizeof leg->ticket);
    return copy_slot(copy)->is_connected ? GATE_PASS : gate_park(copy, REASON(NO_CONNECTION));
}

#define FREEZE_POLL_NS (250 * TW_NS_PER_MS)

static bool is_near(tw_decimal price, tw_decimal stop, tw_decimal distance)
{
    if (stop == TW_DECIMAL_UNSET || stop == 0)
        return false;
    return (price > stop ? price - stop : stop - price) < distance;
}

/* A stop that the price has come close to may not be touched: the change waits. */
static bool is_frozen(const struct tw_leg *leg, const struct tw_order *order)
{
    const struct tw_listing *listing = leg->listing;
    tw_decimal distance = listing->instrument.freeze_distance;
    tw_decimal price = leg->side == TW_BUY ? listing->bid : listing->ask;
    if (distance <= 0 || price == TW_DECIMAL_UNSET)
        return false;
    return (order->stop_loss != TW_DECIMAL_UNSET && is_near(price, leg->stop_loss, distance)) ||
           (order->take_profit != TW_DECIMAL_UNSET && is_near(price, leg->take_profit, distance));
}

/* What this change sets and a newer one says nothing about, that one sets, too. */
static void stops_hand_on(const struct tw_copy *copy, struct tw_copy *newer)
{
    if (newer->stop_loss == TW_DECIMAL_UNSET)
        newer->stop_loss = copy->stop_loss;
    if (newer->take_profit == TW_DECIMAL_UNSET)
        newer->take_profit = copy->take_profit;
}

/* Whether another copy wants its key. */
static bool is_in_the_way(const struct tw_copy *copy)
{
    uint32_t jobs = 0;
    for (const struct tw_leg *leg = copy_slot(copy)->legs; leg != NULL; leg = leg->next)
        if (leg->key == copy->leg->key)
            jobs += leg->jobs;
    return jobs > 1;
}

/* A change for the same key that came later: on a netting account it may be another share's. */
static struct tw_copy *newer_change(const struct tw_copy *copy)
{
    for (const struct tw_leg *leg = copy_slot(copy)->legs; leg != NULL; leg = leg->next)
        if (leg->key == copy->leg->key && leg->unsent_modify != NULL &&
            leg->unsent_modify->record->number > copy->record->number)
            return leg->unsent_modify;
    return NULL;
}

/* It waits, and nobody waits behind it: who is there already goes first, once in two times, so that those who are not in
 * the lane yet do not make it run in circles. */
static void wait_aside(struct tw_copy *copy)
{
    copy->leg->unsent_modify = copy;
    copy_refused_set(copy, true);
    copy->lets_by = !copy->lets_by && is_in_the_way(copy) && newer_change(copy) == NULL;
}

/* Until the price has moved away, which may be never: nothing waits behind it, as behind a stop that was refused. */
static enum gate wait_frozen(struct tw_copy *copy)
{
    struct tw_copy *newer = newer_change(copy);
    if (newer != NULL || copy->leg->is_close_planned) {
        if (newer != NULL && newer->leg == copy->leg)
            stops_hand_on(copy, newer);
        return gate_end(copy, STATE(CANCELLED), REASON(SUPERSEDED));
    }
    wait_aside(copy);
    copy->wake_mono_ns = tw_mono_ns() + FREEZE_POLL_NS;
    return gate_park(copy, REASON(INVALID_STOPS));
}

enum gate gate_modify(struct tw_copy *copy, struct tw_order *order)
{
    struct tw_leg *leg = copy->leg;
    if (leg->is_closed)
        return gate_end(copy, STATE(SKIPPED),
                   leg->was_open ? REASON(ALREADY_CLOSED) : REASON(NO_COPY_TO_ACT_ON));
    if (leg->held == 0 && !leg->is_pending)
        return gate_end(copy, copy->calls > 0 ? STATE(DONE) : STATE(SKIPPED), REASON(NO_COPY_TO_ACT_ON));
    bool is_waiting = leg->is_pending;
    if (!leg_stops_decide(leg, copy, &order->stop_loss, &order->take_profit)) {
        leg_own_stops(leg, copy);
        return gate_end(copy, copy->calls > 0 ? STATE(DONE) : STATE(SKIPPED), REASON(NO_CHANGE));
    }
    bool same_stop_loss = order->stop_loss == TW_DECIMAL_UNSET || order->stop_loss == leg->stop_loss;
    bool same_take_profit = order->take_profit == TW_DECIMAL_UNSET ||
                            order->take_profit == leg->take_profit;
    if (same_stop_loss && same_take_profit && copy->tickets_done == 0)
        return gate_end(copy, copy->calls > 0 ? STATE(DONE) : STATE(SKIPPED), REASON(NO_CHANGE));

    copy->reduces_risk = tw_stops_tighten(leg->side, leg->stop_loss, leg->take_profit,
                                          order->stop_loss, order->take_profit);
    if (!copy->reduces_risk) {
        if (subscription_is_halted(copy->subscription))
            return gate_end(copy, STATE(SKIPPED), REASON(HALTED));
        enum gate gate = gate_mode(copy, STATE(SKIPPED));
        if (gate != GATE_PASS)
            return gate;
    }
    if (is_waiting) {
        order->op = TW_OP_MODIFY_ORDER;
        memcpy(order->order_id, leg->ticket, sizeof order->order_id);
        return gate_reduce(copy);
    }
    if (is_frozen(leg, order))
        return wait_frozen(copy);
    const char *ticket = leg_ticket_at(leg, copy->tickets_done);
    if (ticket == NULL) /* a hand has closed what was left to change */
        return gate_end(copy, STATE(DONE), REASON(UNSPECIFIED));
    if (!copy_slot(copy)->caps.netting)
        memcpy(order->position_id, ticket, sizeof leg->ticket);
    return gate_reduce(copy);
}

/* The stops were to be the waiting order's, and it is not there: it has just filled (then they are the
 * position's, as soon as the broker has told), or it is gone. True: once more. */
bool copy_modify_again(struct tw_copy *copy, struct tw_verdict *verdict)
{
    const struct tw_leg *leg = copy->leg;
    if (leg->is_closed || (leg->is_pending && copy->cancels_lost == CANCELS_LOST_MAX))
        return false;
    copy->cancels_lost++;
    *verdict = (struct tw_verdict){.next = TW_NEXT_CALL, .state = STATE(QUEUED),
                                   .at_mono_ns = tw_mono_ns() + (leg->is_pending ? CANCEL_AGAIN_NS : 0)};
    return true;
}

/* A change that was refused is tried again, but nothing waits behind it: a newer change or a close takes its place, and
 * whatever else comes goes first. */
void copy_refused_wait(struct tw_copy *copy, struct tw_verdict *verdict)
{
    struct tw_copy *newer = copy->leg->unsent_modify;
    if (newer == NULL && !copy->leg->is_close_planned) {
        wait_aside(copy);
        return;
    }
    if (newer != NULL)
        stops_hand_on(copy, newer);
    *verdict = (struct tw_verdict){.next = TW_NEXT_FINAL, .state = STATE(CANCELLED), .reason = REASON(SUPERSEDED)};
}

/* A change of this key that is not at the broker now. */
static struct tw_copy *waiting_change(struct tw_job *job, uint64_t key)
{
    struct tw_copy *copy = copy_of_job(job);
    bool is_one = copy != NULL && job->key == key && copy->op == TW_OP_MODIFY &&
                  atomic_load_explicit(&copy->may_be_withdrawn, memory_order_acquire);
    return is_one ? copy : NULL;
}

static bool is_refused(const struct tw_copy *copy)
{
    return atomic_load_explicit(&copy->is_refused, memory_order_relaxed);
}

static bool is_refused_of(struct tw_job *job, void *context)
{
    const struct tw_leg *leg = context;
    struct tw_copy *copy = waiting_change(job, leg->key);
    if (copy == NULL || copy->leg != leg || !is_refused(copy))
        return false;
    atomic_store_explicit(&copy->withdrawn_for, REASON(SUPERSEDED), memory_order_release);
    return true;
}

void copy_refused_withdraw(struct tw_leg *leg)
{
    if (atomic_load_explicit(&leg->slot->stops_refused, memory_order_relaxed) > 0)
        (void)tw_lane_cancel(leg->slot->lane, is_refused_of, leg);
}

/* Changes of one key on their way to its end, oldest first. */
struct stepping {
    uint64_t key;
    uint32_t n;
    struct tw_copy *copies[16];
};

/* The first is one that waits; those behind it go with it, so that the newest stays the last. */
static bool steps_back(struct tw_job *job, void *context)
{
    struct stepping *stepping = context;
    struct tw_copy *copy = waiting_change(job, stepping->key);
    if (copy == NULL || stepping->n == sizeof stepping->copies / sizeof stepping->copies[0] ||
        (stepping->n == 0 && !is_refused(copy)))
        return false;
    tw_record_hold(copy->record);
    stepping->copies[stepping->n++] = copy;
    atomic_store_explicit(&copy->withdrawn_for, REASON(OPERATOR), memory_order_release);
    return true;
}

/* Under the fleet lock: the session of a lane that looks empty for a moment is closed when its follower is deleted. */
static void step_back(struct tw_slot *slot, uint64_t key)
{
    struct stepping stepping = {.key = key};
    if (slot->lane == NULL)
        return;
    (void)tw_lane_cancel(slot->lane, steps_back, &stepping);
    for (uint32_t i = 0; i < stepping.n; i++) {
        struct tw_record *record = stepping.copies[i]->record;
        copy_give_back(stepping.copies[i]);
        tw_record_release(record);
    }
}

void copy_refused_step_back(struct tw_slot *slot, uint64_t key)
{
    if (atomic_load_explicit(&slot->stops_refused, memory_order_relaxed) == 0)
        return;
    pthread_rwlock_rdlock(&slot->engine->fleet_lock);
    step_back(slot, key);
    pthread_rwlock_unlock(&slot->engine->fleet_lock);
}

void copy_let_by(struct tw_copy *copy)
{
    struct tw_slot *slot = copy_slot(copy);
    if (!is_refused(copy))
        return;
    pthread_rwlock_rdlock(&slot->engine->fleet_lock);
    pthread_mutex_lock(&slot->mutex);
    bool lets_by = !copy_is_over(copy) && copy->lets_by; /* not over: its job is in the lane */
    pthread_mutex_unlock(&slot->mutex);
    if (lets_by)
        step_back(slot, copy->job.key);
    pthread_rwlock_unlock(&slot->engine->fleet_lock);
}
