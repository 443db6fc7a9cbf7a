/* copy.c - one copy from the moment it is planned: last gate, order call, answer, and what follows.
 *
 * A copy's job holds its key (the position) from submit to its end, also while it waits for a retry, a
 * look-up, a connection or a mode: what comes later for the same position waits behind it. */
#include "internal.h"

#include <tradewake/base/crash_point.h>
#include <tradewake/base/log.h>
#include <tradewake/telemetry/counters.h>
#include <tradewake/telemetry/sample.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A call on its way. On the worker's stack for a blocking session, from the heap for the others. */
struct flight {
    struct tw_adapter_call call; /* first */
    struct tw_copy *copy;
    enum copy_phase phase;
    uint32_t number; /* of the order call: copy->calls when it was made */
    bool is_probe;   /* the one call that a broker whose calls do not come back may have */
};

/* What a lost call brought in the end, until its copy takes it up; from the heap. */
struct late_answer {
    struct tw_order order;
    struct tw_ack ack;
};

struct wake_up {
    struct tw_timer timer; /* first */
    struct tw_copy *copy;  /* holds its record */
};

const char *copy_action_word(copy_action action)
{
    static const char *const words[] = {
        [ACTION(OPEN)] = "OPEN", [ACTION(MODIFY)] = "MODIFY", [ACTION(CLOSE)] = "CLOSE",
        [ACTION(PARTIAL_CLOSE)] = "PARTIAL_CLOSE", [ACTION(PLACE)] = "PLACE",
        [ACTION(MODIFY_ORDER)] = "MODIFY_ORDER", [ACTION(CANCEL)] = "CANCEL", [ACTION(LINK)] = "LINK",
    };
    return words[action];
}

static struct tw_slot *slot_of(const struct tw_copy *copy)
{
    return copy->subscription->slot;
}

struct tw_copy_id_input copy_id_input(const struct tw_copy *copy)
{
    return (struct tw_copy_id_input){
        .master_id = copy->record->master->id,
        .event_id = copy->record->event_id,
        .follower_id = slot_of(copy)->id,
        .subject_id = copy->record->subject_id,
        .action = copy_action_word(copy->action),
    };
}

void copy_order_id(const struct tw_copy *copy, uint32_t leg, uint32_t attempt,
                   char ret[TW_COPY_ID_BYTES])
{
    struct tw_copy_id_input input = copy_id_input(copy);
    input.leg = leg;
    input.attempt = attempt;
    tw_copy_id(&input, ret);
}

void copy_id_make(const struct tw_copy *copy, char ret[TW_COPY_ID_BYTES])
{
    copy_order_id(copy, 0, 0, ret);
}

bool copy_is_over(const struct tw_copy *copy)
{
    switch ((copy_state)copy->state) {
    case STATE(QUEUED):
    case STATE(SENT):
    case STATE(UNKNOWN):
        return false;
    default:
        return true;
    }
}

static bool opens(const struct tw_copy *copy)
{
    return copy->op == TW_OP_OPEN || copy->op == TW_OP_PLACE;
}

/* ---- Announcing: never under a lock ---- */

void record_wake(struct tw_record *record)
{
    struct waiter *ready = NULL;
    pthread_mutex_lock(&record->mutex);
    for (struct waiter **at = &record->waiters; *at != NULL;) {
        struct waiter *waiter = *at;
        if (tw_record_pending(record, waiter->wait) > 0) {
            at = &waiter->next;
            continue;
        }
        *at = waiter->next;
        waiter->next = ready;
        ready = waiter;
    }
    pthread_mutex_unlock(&record->mutex);

    while (ready != NULL) {
        struct waiter *next = ready->next;
        ready->wake(ready->context);
        free(ready);
        ready = next;
    }
}

bool tw_record_wait(struct tw_record *record, enum tw_wait wait, void (*wake)(void *context),
                    void *context)
{
    struct waiter *waiter = malloc(sizeof *waiter);
    if (waiter == NULL)
        return false;
    *waiter = (struct waiter){wake, context, wait, NULL};
    pthread_mutex_lock(&record->mutex);
    waiter->next = record->waiters;
    record->waiters = waiter;
    pthread_mutex_unlock(&record->mutex);
    record_wake(record); /* it may have been the last one just before */
    return true;
}

static void count_down(struct tw_record *record, atomic_uint *pending)
{
    if (atomic_fetch_sub_explicit(pending, 1, memory_order_acq_rel) == 1)
        record_wake(record);
}

/* What the rest of the process is told about a copy that changed; the caller holds its record. */
void copy_announce(struct tw_copy *copy)
{
    struct tw_record *record = copy->record;
    struct tw_slot *slot = slot_of(copy);
    pthread_mutex_lock(&slot->mutex);
    bool is_over = copy_is_over(copy);
    bool counts_sent = (is_over || copy->calls > 0) && !copy->is_sent_counted;
    bool counts_done = is_over && !copy->is_done_counted;
    copy->is_sent_counted |= counts_sent;
    copy->is_done_counted |= counts_done;
    bool changed = change_mark(copy);
    copy_state state = copy->state;
    tw_reason reason = copy->reason;
    pthread_mutex_unlock(&slot->mutex);

    if (counts_done)
        tw_copy_counters_add((int32_t)state, (int32_t)reason);
    if (changed)
        change_push(copy);
    if (counts_sent)
        count_down(record, &record->pending_sent);
    if (counts_done)
        count_down(record, &record->pending_done);
}

static void put_sample(struct tw_copy *copy)
{
    struct tw_record *record = copy->record;
    const struct tw_sample sample = {
        .subject = copy,
        .received_mono_ns = record->received_mono_ns,
        .planned_ns = copy->planned_ns,
        .journaled_ns = copy->journaled_ns,
        .started_ns = copy->started_ns,
        .called_ns = copy->called_ns,
        .answered_ns = copy->answered_ns,
        .held_ns = copy->held_ns,
        .threads_at_start = (uint16_t)copy->threads_at_start,
        .threads_created = (uint16_t)copy->threads_created,
        .queue_depth = copy->queue_depth > UINT16_MAX ? UINT16_MAX : (uint16_t)copy->queue_depth,
        .flags = slot_of(copy)->caps.blocking ? TW_SAMPLE_BLOCKING : 0,
    };
    struct tw_sampler *sampler = atomic_load_explicit(&record->engine->sampler, memory_order_acquire);
    if (sampler == NULL)
        return;
    tw_record_hold(record);
    if (!tw_sampler_put(sampler, &sample))
        tw_record_release(record);
}

/* ---- Ends: under the slot's mutex ---- */

void leg_close(struct tw_leg *leg)
{
    if (leg->is_closed)
        return;
    struct tw_slot *slot = leg->slot;
    leg->is_closed = true;
    leg->listing->open_volume -= leg->wanted > leg->held ? leg->wanted : leg->held;
    leg->wanted = leg->held = 0;
    slot->open_positions--;
    atomic_fetch_sub_explicit(&leg->position->busy, 1, memory_order_release); /* who closes it holds it in another way */
    if (leg->previous != NULL)
        leg->previous->next = leg->next;
    else
        slot->legs = leg->next;
    if (leg->next != NULL)
        leg->next->previous = leg->previous;
}

void leg_reopen(struct tw_leg *leg, tw_decimal volume)
{
    struct tw_slot *slot = leg->slot;
    leg->is_closed = false;
    leg->wanted = volume;
    leg->listing->open_volume += volume;
    leg->previous = NULL;
    leg->next = slot->legs;
    if (slot->legs != NULL)
        slot->legs->previous = leg;
    slot->legs = leg;
    slot->open_positions++;
    atomic_fetch_add_explicit(&leg->position->busy, 1, memory_order_relaxed);
}

bool leg_has_ticket(const struct tw_leg *leg, const char *ticket)
{
    if (strcmp(leg->ticket, ticket) == 0)
        return true;
    for (const struct older_ticket *older = leg->older; older != NULL; older = older->next)
        if (strcmp(older->id, ticket) == 0)
            return true;
    return false;
}

bool leg_is_of(const struct tw_leg *leg, const char *client_order_id)
{
    return client_order_id[0] != '\0' && (strcmp(leg->open_order_id, client_order_id) == 0 ||
                                          strcmp(leg->open_copy_id, client_order_id) == 0);
}

/* A netting account's order has filled into a position that is there: its stops are the position's from now on, of
 * which the broker has told already. */
static void net_stops_take(struct tw_leg *leg)
{
    for (const struct tw_leg *other = leg->slot->legs; other != NULL; other = other->next)
        if (other != leg && other->listing == leg->listing && other->held > 0) {
            leg->stop_loss = other->stop_loss;
            leg->take_profit = other->take_profit;
            return;
        }
}

/* Shares whose reduction found nothing while events may be missing (share_is_gone()): what they add up to has changed, and
 * where it is not on their side any more, the reduction is due. */
static void net_changed(struct tw_slot *slot, const struct tw_listing *listing)
{
    if (!may_miss_events(slot->engine, tw_wall_ns()))
        return;
    tw_decimal net = slot_net(slot, listing);
    for (struct tw_leg *leg = slot->legs; leg != NULL; leg = leg->next)
        if (leg->listing == listing && leg->held > 0 && leg->jobs == 0 && (leg->side == TW_BUY ? net <= 0 : net >= 0))
            leg_unsettle(leg);
}

void leg_filled(struct tw_leg *leg, tw_decimal volume, const char *position_id)
{
    leg->is_pending = false;
    leg->was_open = true;
    leg->filled = leg->held = leg->ticket_held = volume;
    snprintf(leg->ticket, sizeof leg->ticket, "%s", position_id);
    leg_unsettle(leg);
    if (leg->slot->caps.netting) {
        net_stops_take(leg);
        net_changed(leg->slot, leg->listing);
    }
}

struct tw_leg *leg_of_order(const struct tw_slot *slot, const char *client_order_id)
{
    struct tw_leg *leg = slot->legs;
    while (leg != NULL && (!leg->is_pending || strcmp(leg->open_order_id, client_order_id) != 0))
        leg = leg->next;
    return leg;
}

bool leg_order_asked(struct tw_leg *leg, const struct tw_ack *ack)
{
    switch (ack->outcome) {
    case TW_OUTCOME_ACCEPTED:
        return true;
    case TW_OUTCOME_DONE:
    case TW_OUTCOME_PARTIAL:
    case TW_OUTCOME_REJECTED:
        break;
    default:
        return false;
    }
    leg_dirty(leg);
    if (ack->filled_volume > 0)
        leg_filled(leg, ack->filled_volume, ack->position_id);
    else
        leg_close(leg); /* a hand, or the broker, has cancelled it */
    return true;
}

void leg_tickets_clear(struct tw_leg *leg)
{
    while (leg->older != NULL) {
        struct older_ticket *next = leg->older->next;
        free(leg->older);
        leg->older = next;
    }
}

/* The leg is about to hold another position: the one it has now steps back. */
static void ticket_push(struct tw_leg *leg)
{
    struct older_ticket *older = malloc(sizeof *older);
    if (older == NULL) /* a position that nobody would close must not come to be */
        abort();
    memcpy(older->id, leg->ticket, sizeof older->id);
    older->held = leg->ticket_held;
    older->next = leg->older;
    leg->older = older;
    leg->ticket_held = 0;
}

/* Nothing is left under the ticket: the one before it comes forward. */
static void ticket_pop(struct tw_leg *leg)
{
    struct older_ticket *older = leg->older;
    leg->ticket_held = 0;
    if (older == NULL)
        return;
    memcpy(leg->ticket, older->id, sizeof leg->ticket);
    leg->ticket_held = older->held;
    leg->older = older->next;
    free(older);
}

void leg_ticket_rename(struct tw_leg *leg, const char *from, const char *to)
{
    char *ticket = leg->ticket;
    for (struct older_ticket *older = leg->older; older != NULL && strcmp(ticket, from) != 0; older = older->next)
        ticket = older->id;
    if (strcmp(ticket, from) != 0 || strcmp(from, to) == 0)
        return;
    leg_dirty(leg);
    snprintf(ticket, TW_BROKER_ID_BYTES, "%s", to); /* from may be this very text: not used any more */
}

void leg_ticket_reduce(struct tw_leg *leg, const char *ticket, tw_decimal volume)
{
    if (strcmp(leg->ticket, ticket) == 0) {
        tw_decimal less = leg->ticket_held - volume;
        if (less <= 0)
            return;
        leg->ticket_held = volume;
        leg_reduce(leg, leg->held - less);
        if (volume <= 0 && !leg->is_closed)
            ticket_pop(leg);
        return;
    }
    for (struct older_ticket **at = &leg->older; *at != NULL; at = &(*at)->next) {
        struct older_ticket *older = *at;
        if (strcmp(older->id, ticket) != 0 || older->held <= volume)
            continue;
        tw_decimal less = older->held - volume;
        older->held = volume;
        if (volume <= 0) {
            *at = older->next;
            free(older);
        }
        leg_reduce(leg, leg->held - less);
        return;
    }
}

void leg_reduce(struct tw_leg *leg, tw_decimal volume)
{
    if (leg->is_closed || volume >= leg->held)
        return;
    leg_dirty(leg);
    tw_decimal less = leg->held - volume;
    leg->held = volume;
    leg->wanted -= less < leg->wanted ? less : leg->wanted;
    leg->listing->open_volume -= less;
    if (volume <= 0)
        leg_close(leg);
}

static void unpark_list_remove(struct tw_copy *copy)
{
    struct tw_slot *slot = slot_of(copy);
    if (!copy->is_parked)
        return;
    copy->is_parked = false;
    if (copy->parked_previous != NULL)
        copy->parked_previous->parked_next = copy->parked_next;
    else
        slot->parked_oldest = copy->parked_next;
    if (copy->parked_next != NULL)
        copy->parked_next->parked_previous = copy->parked_previous;
    else
        slot->parked_newest = copy->parked_previous;
}

static void unpark_list_add(struct tw_copy *copy)
{
    struct tw_slot *slot = slot_of(copy);
    copy->is_parked = true;
    copy->parked_next = NULL;
    copy->parked_previous = slot->parked_newest;
    if (slot->parked_newest != NULL)
        slot->parked_newest->parked_next = copy;
    else
        slot->parked_oldest = copy;
    slot->parked_newest = copy;
}

/* A leg is never written without the copies that made it what it is: else their answers would be taken
 * up a second time after a crash. */
void applied_note(struct tw_copy *copy)
{
    copy->is_applied_anew = true;
    if (copy->is_applied)
        return;
    copy->is_applied = true;
    copy->next_applied = copy->leg->applied;
    copy->leg->applied = copy;
}

void applied_forget(struct tw_copy *copy)
{
    if (!copy->is_applied)
        return;
    copy->is_applied = false;
    struct tw_copy **at = &copy->leg->applied;
    while (*at != copy)
        at = &(*at)->next_applied;
    *at = copy->next_applied;
}

static void refused_set(struct tw_copy *copy, bool is_refused)
{
    if (atomic_exchange_explicit(&copy->is_refused, is_refused, memory_order_relaxed) == is_refused)
        return;
    if (is_refused)
        atomic_fetch_add_explicit(&slot_of(copy)->stops_refused, 1, memory_order_relaxed);
    else
        atomic_fetch_sub_explicit(&slot_of(copy)->stops_refused, 1, memory_order_relaxed);
}

/* The copy is over. What its leg reserved and did not get is free again. */
static void conclude(struct tw_copy *copy, copy_state state, tw_reason reason)
{
    assert(!copy_is_over(copy));
    struct tw_leg *leg = copy->leg;
    if (state == STATE(DONE) && reason == REASON(UNSPECIFIED) && copy->n_remarks > 0)
        reason = copy->remarks[0];
    copy->state = (uint8_t)state;
    copy->reason = (uint8_t)reason;
    copy->updated_wall_ns = tw_wall_ns();
    atomic_store_explicit(&copy->may_be_withdrawn, false, memory_order_relaxed);
    unpark_list_remove(copy);
    refused_set(copy, false);
    if (leg == NULL)
        return;
    applied_note(copy);
    if (leg->unsent_modify == copy)
        leg->unsent_modify = NULL;
    bool waits_at_broker = copy->op == TW_OP_PLACE && state == STATE(DONE);
    if (opens(copy) && !waits_at_broker) {
        tw_decimal missing = copy->volume - copy->filled;
        leg->wanted -= missing;
        if (!leg->is_closed)
            leg->listing->open_volume -= missing;
        if (leg->held <= 0 && leg->wanted <= 0)
            leg_close(leg);
    }
    leg->jobs--; /* the leg itself stays until the journal thread has written how it ended */
}

/* ---- The gate: whether this order may go, now. Under the slot's mutex. ---- */

enum gate { GATE_PASS, GATE_END, GATE_PARK, GATE_WAIT /* as before: nobody needs to be told */ };

static enum gate end(struct tw_copy *copy, copy_state state, tw_reason reason)
{
    conclude(copy, state, reason);
    return GATE_END;
}

static enum gate park(struct tw_copy *copy, tw_reason reason)
{
    copy->state = STATE(QUEUED);
    copy->reason = (uint8_t)reason;
    copy->updated_wall_ns = tw_wall_ns();
    return GATE_PARK;
}

tw_decimal slot_net(const struct tw_slot *slot, const struct tw_listing *listing)
{
    tw_decimal net = 0;
    for (const struct tw_leg *leg = slot->legs; leg != NULL; leg = leg->next)
        if (leg->listing == listing)
            net += leg->side == TW_BUY ? leg->held : -leg->held;
    return net;
}

static bool is_beyond(bool is_below, tw_decimal price, tw_decimal stop)
{
    return price == TW_DECIMAL_UNSET || (is_below ? stop < price : stop > price);
}

/* A close that leaves shares on the other side turns the position over: it carries the stops of one of them, the
 * newest that has any, as far as they are still on their side of the price. */
static void order_stops_of_others(const struct tw_leg *closing, struct tw_order *order)
{
    const struct tw_listing *listing = closing->listing;
    bool is_long = order->side == TW_BUY;
    tw_decimal price = is_long ? listing->bid : listing->ask;
    const struct tw_leg *leg = closing->slot->legs;
    while (leg != NULL && (leg == closing || leg->listing != listing || leg->side != order->side || leg->held <= 0 ||
                           (leg->own_stop_loss <= 0 && leg->own_take_profit <= 0)))
        leg = leg->next;
    if (leg == NULL)
        return;
    if (leg->own_stop_loss > 0 && is_beyond(is_long, price, leg->own_stop_loss))
        order->stop_loss = leg->own_stop_loss;
    if (leg->own_take_profit > 0 && is_beyond(!is_long, price, leg->own_take_profit))
        order->take_profit = leg->own_take_profit;
}

/* A netting account has one position: what brings it nearer to zero is a reduction, and no order
 * crosses zero. */
static void order_net(const struct tw_copy *copy, struct tw_order *order, enum tw_side side,
                      tw_decimal volume)
{
    struct tw_net_order net = tw_net_decide(slot_net(slot_of(copy), copy->listing), side, volume);
    order->op = net.is_reduction ? TW_OP_CLOSE : TW_OP_OPEN;
    order->type = TW_ORDER_MARKET;
    order->side = side;
    order->volume = net.volume;
    order->reduce_only = net.is_reduction;
    order->position_id[0] = '\0';
    if (net.is_reduction || copy->op == TW_OP_CLOSE)
        order->stop_loss = order->take_profit = TW_DECIMAL_UNSET;
    if (!net.is_reduction && copy->op == TW_OP_CLOSE && copy->id_attempt == 0) /* refused with them: without */
        order_stops_of_others(copy->leg, order);
}

/* When the next open may begin: at most max_orders_per_second in any second. 0 = now. */
static int64_t rate_wait_ns(struct tw_slot *slot, int64_t now_mono_ns)
{
    uint32_t allowed = slot->rules.max_orders_per_second;
    if (allowed == 0)
        return 0;
    if (slot->opens_room != allowed) {
        free(slot->opens_mono_ns);
        slot->opens_mono_ns = calloc(allowed, sizeof *slot->opens_mono_ns);
        slot->opens_room = slot->opens_mono_ns != NULL ? allowed : 0;
        slot->opens_at = 0;
        if (slot->opens_room == 0)
            return TW_NS_PER_S;
    }
    int64_t oldest_ns = slot->opens_mono_ns[slot->opens_at];
    int64_t left_ns = oldest_ns + TW_NS_PER_S - now_mono_ns;
    if (oldest_ns != 0 && left_ns > 0)
        return left_ns;
    slot->opens_mono_ns[slot->opens_at] = now_mono_ns;
    slot->opens_at = (slot->opens_at + 1) % allowed;
    return 0;
}

static enum gate gate_mode_open(struct tw_copy *copy)
{
    switch (slot_of(copy)->rules.mode) {
    case TW_MODE_PAUSED:
        return end(copy, STATE(CANCELLED), REASON(FOLLOWER_PAUSED));
    case TW_MODE_CLOSE_ONLY:
        return end(copy, STATE(CANCELLED), REASON(CLOSE_ONLY));
    case TW_MODE_MONITOR:
        return end(copy, STATE(CANCELLED), REASON(MONITORED));
    case TW_MODE_ACTIVE:
        break;
    }
    return GATE_PASS;
}

static enum gate gate_open(struct tw_copy *copy, struct tw_order *order, int64_t now_wall_ns)
{
    struct tw_slot *slot = slot_of(copy);
    if (slot->is_deleted || copy->subscription->is_gone || copy->leg->is_close_planned)
        return end(copy, STATE(CANCELLED), REASON(WITHDRAWN));
    if (copy->op == TW_OP_OPEN && copy->leg->is_pending) /* an increase; the order it adds to has not filled */
        return end(copy, STATE(SKIPPED), REASON(NO_COPY_TO_ACT_ON));
    if (copy->leg->is_closed) /* it would add to what is not there any more */
        return end(copy, STATE(SKIPPED), REASON(ALREADY_CLOSED));
    if (subscription_is_halted(copy->subscription))
        return end(copy, STATE(CANCELLED), REASON(HALTED));
    if (slot->stop_out.is_out)
        return end(copy, STATE(CANCELLED), REASON(RISK_LIMIT));
    enum gate mode = gate_mode_open(copy);
    if (mode != GATE_PASS)
        return mode;
    if (now_wall_ns > copy->window_end_wall_ns) {
        bool was_held_back = copy->reason == REASON(NO_CONNECTION) || copy->reason == REASON(ORDER_RATE);
        return end(copy, STATE(EXPIRED), was_held_back ? (tw_reason)copy->reason : REASON(TOO_OLD));
    }
    if (copy->expires_wall_ns != 0 && now_wall_ns >= copy->expires_wall_ns)
        return end(copy, STATE(EXPIRED), REASON(INVALID_EXPIRY));
    if (slot->caps.blocking && breaker_is_open(slot))
        return end(copy, copy->calls > 0 ? STATE(REJECTED) : STATE(SKIPPED), REASON(BREAKER_OPEN));
    if (!slot->is_connected)
        return park(copy, REASON(NO_CONNECTION));
    if (copy->calls == 0) {
        int64_t wait_ns = rate_wait_ns(slot, tw_mono_ns());
        if (wait_ns > 0) {
            copy->wake_mono_ns = tw_mono_ns() + wait_ns;
            return park(copy, REASON(ORDER_RATE));
        }
    }
    if (copy->op == TW_OP_OPEN && slot->caps.netting)
        order_net(copy, order, (enum tw_side)copy->side, copy->volume - copy->filled);
    return GATE_PASS;
}

static enum gate gate_reduce(struct tw_copy *copy)
{
    struct tw_slot *slot = slot_of(copy);
    if (slot->rules.mode == TW_MODE_PAUSED)
        return park(copy, REASON(FOLLOWER_PAUSED));
    if (slot->rules.mode == TW_MODE_MONITOR)
        return park(copy, REASON(MONITORED));
    return slot->is_connected ? GATE_PASS : park(copy, REASON(NO_CONNECTION));
}

static enum gate nothing_to_close(struct tw_copy *copy, tw_reason reason)
{
    if (copy->calls > 0) /* it went on for the rest, and the target holds now */
        return end(copy, STATE(DONE), copy->filled > 0 ? REASON(UNSPECIFIED) : reason);
    if (reason != REASON(ALREADY_CLOSED))
        return end(copy, STATE(SKIPPED), reason);
    if (copy->leg->was_open)
        return end(copy, STATE(DONE), REASON(ALREADY_CLOSED));
    return end(copy, STATE(SKIPPED), REASON(NO_COPY_TO_ACT_ON));
}

static struct tw_close_input close_input(const struct tw_copy *copy)
{
    const struct tw_leg *leg = copy->leg;
    return (struct tw_close_input){
        .filled = leg->filled,
        .held = leg->held,
        .is_full = copy->is_full_close,
        .master_remaining = copy->master_remaining,
        .master_initial = copy->master_initial,
        .volume_min = leg->listing->instrument.volume_min,
        .volume_step = leg->listing->instrument.volume_step,
    };
}

/* By what the leg holds, not by what the copy was planned for: that may have grown before its first call. */
static bool leaves_something(const struct tw_copy *copy)
{
    const struct tw_close_input input = close_input(copy);
    return !copy->leg->is_closed && tw_close_decide(&input).volume > 0;
}

static enum gate pass_cancel(struct tw_copy *copy, struct tw_order *order);

/* The leg's positions, newest first; NULL: it has no more. */
static const char *ticket_at(const struct tw_leg *leg, uint32_t n)
{
    const struct older_ticket *older = leg->older;
    if (n == 0)
        return leg->ticket;
    for (uint32_t i = 1; older != NULL && i < n; i++)
        older = older->next;
    return older != NULL ? older->id : NULL;
}

/* Of a copy with several positions: which one the order closes, and how much of it. False: no order is large enough to
 * be one, and small enough. */
static bool order_ticket(const struct tw_leg *leg, struct tw_order *order, tw_decimal volume)
{
    const struct tw_instrument *instrument = &leg->listing->instrument;
    tw_decimal held[TW_TICKETS_CUT_MAX] = {leg->ticket_held};
    uint32_t n = 1;
    for (const struct older_ticket *older = leg->older; older != NULL && n < TW_TICKETS_CUT_MAX; older = older->next)
        held[n++] = older->held;
    struct tw_ticket_order part =
        tw_tickets_decide(held, n, volume, instrument->volume_min, instrument->volume_step);
    if (part.volume == 0)
        return false;
    memcpy(order->position_id, ticket_at(leg, part.ticket), sizeof order->position_id);
    order->volume = tw_order_part(part.volume, instrument->volume_max, instrument->volume_min, instrument->volume_step);
    return true;
}

static bool is_too_little(const struct tw_leg *leg, tw_decimal volume)
{
    return volume < leg->listing->instrument.volume_min;
}

/* Our shares add up to zero, and turning the position over takes an order that is too small to be one. A reduction
 * waits for the next. When all is to be closed, it is set against what the shares on the other side hold: the
 * account cannot hold that either. */
static enum gate net_give_up(struct tw_copy *copy)
{
    struct tw_leg *leg = copy->leg;
    if (!copy->is_full_close)
        return nothing_to_close(copy, REASON(BELOW_MIN));
    tw_decimal rest = leg->held;
    for (struct tw_leg *other = leg->slot->legs, *next; other != NULL && rest > 0; other = next) {
        next = other->next;
        if (other->listing != leg->listing || other->side == leg->side || other->held <= 0)
            continue;
        tw_decimal part = other->held < rest ? other->held : rest;
        rest -= part;
        leg_reduce(other, other->held - part);
    }
    leg_dirty(leg);
    leg_close(leg);
    return end(copy, STATE(DONE), copy->filled > 0 ? REASON(UNSPECIFIED) : REASON(BELOW_MIN));
}

static enum gate gate_close(struct tw_copy *copy, struct tw_order *order)
{
    const struct tw_leg *leg = copy->leg;
    if (leg->is_pending && !leg->is_closed) /* the master's filled, ours still waits */
        return copy->is_full_close ? pass_cancel(copy, order)
                                   : end(copy, STATE(SKIPPED), REASON(NO_CHANGE)); /* settle.c, when it fills */
    enum gate gate = gate_reduce(copy);
    if (gate != GATE_PASS)
        return gate;
    struct tw_close_input input = close_input(copy);
    struct tw_close_decision decision = tw_close_decide(&input);
    if (decision.volume == 0)
        return nothing_to_close(copy, decision.reason);
    tw_decimal volume = decision.volume;
    if (copy->calls == 0) {
        copy->volume = copy->filled + volume; /* filled: by a call before a crash */
        if (decision.reason != REASON(UNSPECIFIED)) {
            copy->remarks[0] = (uint8_t)decision.reason;
            copy->n_remarks = 1;
        }
    }
    input.volume_max = leg->listing->instrument.volume_max; /* more than one order may hold goes in several */
    decision = tw_close_decide(&input);
    if (slot_of(copy)->caps.netting) {
        order_net(copy, order, (enum tw_side)copy->side, decision.volume);
        return order->op == TW_OP_OPEN && is_too_little(leg, order->volume) ? net_give_up(copy) : GATE_PASS;
    }
    order->op = TW_OP_CLOSE;
    order->type = TW_ORDER_MARKET;
    order->volume = decision.volume;
    memcpy(order->position_id, leg->ticket, sizeof leg->ticket);
    order->reduce_only = true;
    return leg->older == NULL || order_ticket(leg, order, volume) ? GATE_PASS
                                                                  : nothing_to_close(copy, REASON(BELOW_MIN));
}

static enum gate pass_cancel(struct tw_copy *copy, struct tw_order *order)
{
    order->op = TW_OP_CANCEL;
    memcpy(order->order_id, copy->leg->ticket, sizeof order->order_id);
    return gate_reduce(copy);
}

/* The master's cancel: what waits is cancelled, what it became in the meantime is closed. */
static enum gate gate_cancel(struct tw_copy *copy, struct tw_order *order)
{
    const struct tw_leg *leg = copy->leg;
    if (leg->is_pending && !leg->is_closed)
        return pass_cancel(copy, order);
    if (leg->held > 0)
        return gate_close(copy, order);
    return nothing_to_close(copy, REASON(ALREADY_CLOSED));
}

static enum gate gate_modify_order(struct tw_copy *copy, struct tw_order *order)
{
    const struct tw_leg *leg = copy->leg;
    if (leg->is_closed || !leg->is_pending)
        return end(copy, copy->calls > 0 ? STATE(DONE) : STATE(SKIPPED), REASON(NO_CHANGE));
    if (subscription_is_halted(copy->subscription))
        return end(copy, STATE(SKIPPED), REASON(HALTED));
    switch (slot_of(copy)->rules.mode) {
    case TW_MODE_CLOSE_ONLY:
        return end(copy, STATE(SKIPPED), REASON(CLOSE_ONLY));
    case TW_MODE_PAUSED:
        return end(copy, STATE(SKIPPED), REASON(FOLLOWER_PAUSED));
    case TW_MODE_MONITOR:
        return end(copy, STATE(SKIPPED), REASON(MONITORED));
    case TW_MODE_ACTIVE:
        break;
    }
    memcpy(order->order_id, leg->ticket, sizeof order->order_id);
    return gate_reduce(copy);
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
static enum gate gate_protect(struct tw_copy *copy, struct tw_order *order)
{
    const struct tw_leg *leg = copy->leg;
    if (leg->is_closed)
        return end(copy, STATE(DONE), REASON(ALREADY_CLOSED));
    if (!is_on_its_side(leg))
        return end(copy, STATE(DONE), REASON(UNSPECIFIED)); /* its stops are not the position's */
    order->op = TW_OP_MODIFY;
    if (!slot_of(copy)->caps.netting)
        memcpy(order->position_id, leg->ticket, sizeof leg->ticket);
    return slot_of(copy)->is_connected ? GATE_PASS : park(copy, REASON(NO_CONNECTION));
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
    for (const struct tw_leg *leg = slot_of(copy)->legs; leg != NULL; leg = leg->next)
        if (leg->key == copy->leg->key)
            jobs += leg->jobs;
    return jobs > 1;
}

/* Until the price has moved away, which may be never: nothing waits behind it, as behind a stop that was refused. */
static enum gate wait_frozen(struct tw_copy *copy)
{
    struct tw_leg *leg = copy->leg;
    if (is_in_the_way(copy)) {
        if (leg->unsent_modify != NULL && leg->unsent_modify != copy)
            stops_hand_on(copy, leg->unsent_modify);
        return end(copy, STATE(CANCELLED), REASON(SUPERSEDED));
    }
    leg->unsent_modify = copy;
    refused_set(copy, true);
    copy->wake_mono_ns = tw_mono_ns() + FREEZE_POLL_NS;
    return park(copy, REASON(INVALID_STOPS));
}

static enum gate gate_modify(struct tw_copy *copy, struct tw_order *order)
{
    struct tw_leg *leg = copy->leg;
    if (leg->is_closed)
        return end(copy, STATE(SKIPPED),
                   leg->was_open ? REASON(ALREADY_CLOSED) : REASON(NO_COPY_TO_ACT_ON));
    if (leg->held == 0 && !leg->is_pending)
        return end(copy, copy->calls > 0 ? STATE(DONE) : STATE(SKIPPED), REASON(NO_COPY_TO_ACT_ON));
    bool is_waiting = leg->is_pending;
    if (!leg_stops_decide(leg, copy, &order->stop_loss, &order->take_profit)) {
        leg_own_stops(leg, copy);
        return end(copy, copy->calls > 0 ? STATE(DONE) : STATE(SKIPPED), REASON(NO_CHANGE));
    }
    bool same_stop_loss = order->stop_loss == TW_DECIMAL_UNSET || order->stop_loss == leg->stop_loss;
    bool same_take_profit = order->take_profit == TW_DECIMAL_UNSET ||
                            order->take_profit == leg->take_profit;
    if (same_stop_loss && same_take_profit && copy->tickets_done == 0)
        return end(copy, copy->calls > 0 ? STATE(DONE) : STATE(SKIPPED), REASON(NO_CHANGE));

    copy->reduces_risk = tw_stops_tighten(leg->side, leg->stop_loss, leg->take_profit,
                                          order->stop_loss, order->take_profit);
    if (!copy->reduces_risk) {
        struct tw_slot *slot = slot_of(copy);
        if (subscription_is_halted(copy->subscription))
            return end(copy, STATE(SKIPPED), REASON(HALTED));
        if (slot->rules.mode == TW_MODE_CLOSE_ONLY)
            return end(copy, STATE(SKIPPED), REASON(CLOSE_ONLY));
        if (slot->rules.mode == TW_MODE_PAUSED)
            return end(copy, STATE(SKIPPED), REASON(FOLLOWER_PAUSED));
        if (slot->rules.mode == TW_MODE_MONITOR)
            return end(copy, STATE(SKIPPED), REASON(MONITORED));
    }
    if (is_waiting) {
        order->op = TW_OP_MODIFY_ORDER;
        memcpy(order->order_id, leg->ticket, sizeof order->order_id);
        return gate_reduce(copy);
    }
    if (is_frozen(leg, order))
        return wait_frozen(copy);
    const char *ticket = ticket_at(leg, copy->tickets_done);
    if (ticket == NULL) /* a hand has closed what was left to change */
        return end(copy, STATE(DONE), REASON(UNSPECIFIED));
    if (!slot_of(copy)->caps.netting)
        memcpy(order->position_id, ticket, sizeof leg->ticket);
    return gate_reduce(copy);
}

static enum gate gate_by_op(struct tw_copy *copy, struct tw_order *order, int64_t now_wall_ns)
{
    if (copy->is_protecting)
        return gate_protect(copy, order);
    switch ((enum tw_order_op)copy->op) {
    case TW_OP_OPEN:
    case TW_OP_PLACE:
        return gate_open(copy, order, now_wall_ns);
    case TW_OP_CLOSE:
        return gate_close(copy, order);
    case TW_OP_MODIFY:
        return gate_modify(copy, order);
    case TW_OP_MODIFY_ORDER:
        return gate_modify_order(copy, order);
    case TW_OP_CANCEL:
        return gate_cancel(copy, order);
    }
    assert(!"an operation that does not exist");
    return GATE_PASS;
}

static void order_fill(const struct tw_copy *copy, struct tw_order *order)
{
    order->op = (enum tw_order_op)copy->op;
    order->side = (enum tw_side)copy->side;
    order->type = (enum tw_order_type)copy->type;
    order->attempt = copy->adapter_attempt;
    order->volume = copy->volume;
    order->price = copy->price;
    order->stop_price = copy->stop_price;
    order->stop_loss = copy->stop_loss;
    order->take_profit = copy->take_profit;
    order->expires_wall_ns = copy->expires_wall_ns;
    memcpy(order->symbol, copy->listing->instrument.symbol, sizeof order->symbol);
}

static void note_start(struct tw_copy *copy, int64_t now_mono_ns)
{
    if (copy->started_ns != 0)
        return;
    copy->started_ns = (uint64_t)(now_mono_ns - copy->record->received_mono_ns);
    copy->threads_at_start = copy->job.threads_at_start;
    copy->queue_depth = copy->job.queue_depth;
    uint64_t late = tw_executor_threads_late(copy->record->engine->executor) - copy->job.threads_late;
    copy->threads_created = late > UINT16_MAX ? UINT16_MAX : (uint32_t)late;
}

/* How long what waits for a broker whose calls do not come back is left alone. */
#define BREAKER_POLL_NS TW_NS_PER_S

/* The breaker's word, last of all: who is let through as the probe has to call. */
static enum gate gate_breaker(struct tw_copy *copy, struct flight *flight)
{
    struct tw_slot *slot = slot_of(copy);
    if (!slot->caps.blocking || breaker_admits(slot, &flight->is_probe))
        return GATE_PASS;
    copy->wake_mono_ns = tw_mono_ns() + BREAKER_POLL_NS;
    if (flight->phase == PHASE_LOOKUP || copy->reason == REASON(BREAKER_OPEN))
        return GATE_WAIT;
    return park(copy, REASON(BREAKER_OPEN));
}

/* Another share of the symbol whose order waits at the broker, as far as we know: the first by number from this one
 * on. Under the slot's mutex. */
static struct tw_leg *waiting_share(const struct tw_copy *copy, uint64_t from)
{
    struct tw_leg *first = NULL;
    for (struct tw_leg *leg = slot_of(copy)->legs; leg != NULL; leg = leg->next)
        if (leg->listing == copy->listing && leg != copy->leg && leg->is_pending && leg->number >= from &&
            (first == NULL || leg->number < first->number))
            first = leg;
    return first;
}

/* What a look-up is about: the copy's latest order, the one that its cancel did not find, or one that may have filled
 * against what it was to reduce. */
static void order_asked(const struct tw_copy *copy, struct tw_order *order)
{
    const struct tw_leg *leg = copy->asks_open ? copy->leg : NULL;
    if (copy->asks_share != 0)
        leg = waiting_share(copy, copy->asks_share); /* NULL: news came meanwhile, and what its own order became is known */
    order->op = leg != NULL ? TW_OP_PLACE : (enum tw_order_op)copy->last_op;
    if (leg != NULL)
        memcpy(order->client_order_id, leg->open_order_id, sizeof order->client_order_id);
}

/* The first id follows from the event, which comes again if a crash takes it, and needs no record. What the service
 * made itself does not come again under its id; and that there is a further id must be known after a crash, whatever it
 * takes with it: else the one before would be asked for, found wanting, and sent again beside it. */
static bool is_id_written(const struct tw_copy *copy)
{
    bool is_first = copy->order_leg == 0 && copy->id_attempt == 0 && copy->record->origin == ORIGIN(EVENT);
    return copy->record->engine->log == NULL || is_first ||
           (copy->written_leg == copy->order_leg && copy->written_attempt == copy->id_attempt);
}

void copy_written(struct tw_copy *copy, uint8_t order_leg, uint32_t id_attempt)
{
    struct tw_slot *slot = slot_of(copy);
    pthread_mutex_lock(&slot->mutex);
    copy->written_leg = order_leg;
    copy->written_attempt = id_attempt;
    bool may_go = copy->waits_for_journal && is_id_written(copy);
    if (may_go) /* the mark stays: a job that is on its way to being parked is not woken here, and looks once more there */
        unpark_list_remove(copy);
    pthread_mutex_unlock(&slot->mutex);
    if (may_go)
        (void)tw_job_unpark(&copy->job);
}

/* Fills in the flight's order, or says what happened instead. Takes the slot's mutex. */
static enum gate take_off(struct tw_copy *copy, struct flight *flight)
{
    struct tw_slot *slot = slot_of(copy);
    struct tw_order *order = &flight->call.order;
    flight->copy = copy;
    flight->phase = (enum copy_phase)copy->phase;
    flight->is_probe = false;
    flight->call.ack = (struct tw_ack){0};
    flight->call.snapshot = NULL;
    memset(order, 0, sizeof *order);
    int64_t now_mono_ns = tw_mono_ns(), now_wall_ns = tw_wall_ns();
    copy_order_id(copy, copy->order_leg, copy->id_attempt, order->client_order_id); /* a microsecond: not under the lock */

    pthread_mutex_lock(&slot->mutex);
    refused_set(copy, false);
    copy->waits_for_journal = false;
    note_start(copy, now_mono_ns);
    order_fill(copy, order);
    if (flight->phase == PHASE_CALL && copy->leg != NULL)
        copy->n_told = copy->leg->n_told;
    enum gate gate = GATE_PASS;
    struct tw_gate_order last;
    bool is_asked = false;
    if (atomic_load_explicit(&copy->record->engine->is_stopping, memory_order_acquire))
        gate = GATE_PARK; /* no new call begins: the next start goes on with it */
    else if (flight->phase == PHASE_CALL && !is_id_written(copy))
        gate = GATE_PARK, copy->waits_for_journal = true;
    else if (flight->phase == PHASE_CALL)
        gate = gate_by_op(copy, order, now_wall_ns);
    else
        order_asked(copy, order);
    if (gate == GATE_PASS && flight->phase == PHASE_CALL && opens(copy) && !copy->is_protecting && !order->reduce_only) {
        is_asked = true;
        if (gate_ask(copy, order, now_mono_ns, now_wall_ns, &last) != TW_BREACH_NONE)
            gate = end(copy, STATE(CANCELLED), REASON(GATE_TRIPPED));
    }
    if (gate == GATE_PASS)
        gate = gate_breaker(copy, flight);
    if (gate == GATE_PASS) {
        if (is_asked)
            gate_count(slot, &last);
        if (copy->order_leg == 0 && copy->id_attempt == 0 && !copy->has_id) {
            memcpy(copy->id, order->client_order_id, sizeof copy->id);
            copy->has_id = true;
        }
        if (opens(copy) && copy->leg->open_copy_id[0] == '\0')
            memcpy(copy->leg->open_copy_id, copy->id, sizeof copy->id);
        if (opens(copy) && !copy->is_protecting && strcmp(copy->leg->open_copy_id, copy->id) == 0)
            memcpy(copy->leg->open_order_id, order->client_order_id, sizeof copy->id);
        if (copy->op == TW_OP_PLACE)
            copy->leg->placed = copy->volume;
        atomic_store_explicit(&copy->may_be_withdrawn, false, memory_order_relaxed);
        if (flight->phase == PHASE_CALL) {
            copy->state = STATE(SENT);
            copy->reason = copy->is_protecting ? REASON(UNPROTECTED) : REASON(UNSPECIFIED);
            flight->number = ++copy->calls;
            copy->is_counted = false; /* what was asked for is not what is asked for from here on */
            copy->last_op = (uint8_t)order->op;
            copy->leg_ids[copy->order_leg] = copy->id_attempt + 1;
            copy->lookups = copy->absences = 0;
            copy->is_call_out = true;
            copy->subscription->calls_out++;
            if (copy->leg->unsent_modify == copy)
                copy->leg->unsent_modify = NULL;
        }
    }
    bool is_first_call = gate == GATE_PASS && flight->phase == PHASE_CALL && !copy->is_sent_counted;
    copy->is_sent_counted |= is_first_call;
    pthread_mutex_unlock(&slot->mutex);

    /* Before the stamp: waking who waits for the last call of an event is part of our own time. */
    if (is_first_call)
        count_down(copy->record, &copy->record->pending_sent);
    return gate;
}

/* ---- Waiting for something: the key stays taken ---- */

static void on_wake_up(struct tw_timer *timer)
{
    struct wake_up *wake = (struct wake_up *)timer;
    (void)tw_job_unpark(&wake->copy->job);
    tw_record_release(wake->copy->record);
    free(wake);
}

static void wake_at(struct tw_copy *copy, int64_t due_mono_ns)
{
    if (atomic_load_explicit(&copy->record->engine->is_stopping, memory_order_acquire))
        return; /* the next start goes on with it */
    struct wake_up *wake = calloc(1, sizeof *wake);
    if (wake == NULL) { /* too early is harmless, never is not */
        (void)tw_job_unpark(&copy->job);
        return;
    }
    wake->copy = copy;
    wake->timer.fire = on_wake_up;
    tw_record_hold(copy->record);
    tw_timer_set(copy->record->engine->reactor, &wake->timer, due_mono_ns);
}

static bool may_try_now(const struct tw_copy *copy)
{
    const struct tw_slot *slot = slot_of(copy);
    if (atomic_load_explicit(&slot->engine->is_stopping, memory_order_acquire))
        return false; /* the next start goes on with it */
    if (copy->waits_for_journal)
        return is_id_written(copy);
    switch ((tw_reason)copy->reason) {
    case REASON(FOLLOWER_PAUSED):
    case REASON(MONITORED):
        return slot->rules.mode == TW_MODE_ACTIVE || slot->rules.mode == TW_MODE_CLOSE_ONLY;
    case REASON(NO_CONNECTION):
        return slot->is_connected;
    case REASON(ORDER_RATE):
    case REASON(INVALID_STOPS):
        return false; /* by the clock alone */
    default:
        return false;
    }
}

/* The job is parked already. What it waits for may have come in between: look once more. */
static void wait_in_slot(struct tw_copy *copy)
{
    struct tw_slot *slot = slot_of(copy);
    pthread_mutex_lock(&slot->mutex);
    bool is_over = copy_is_over(copy), is_ready = !is_over && may_try_now(copy);
    if (!is_over && !is_ready && !copy->is_parked)
        unpark_list_add(copy);
    int64_t left_ns = opens(copy) && !copy->is_protecting ? copy->window_end_wall_ns - tw_wall_ns()
                                                          : INT64_MAX;
    int64_t due_ns = left_ns != INT64_MAX ? tw_mono_ns() + (left_ns > 0 ? left_ns + TW_NS_PER_MS : 0)
                                          : INT64_MAX;
    if (copy->wake_mono_ns != 0 && copy->wake_mono_ns < due_ns)
        due_ns = copy->wake_mono_ns;
    copy->wake_mono_ns = 0;
    copy->waits_for_journal &= !is_ready;
    bool hurries = copy->waits_for_journal;
    pthread_mutex_unlock(&slot->mutex);
    if (hurries)
        changes_hurry(copy->record->engine);
    if (is_ready)
        (void)tw_job_unpark(&copy->job);
    else if (!is_over && due_ns != INT64_MAX)
        wake_at(copy, due_ns);
}

/* How long a market that is closed is left alone when nobody says that it opened. */
#define MARKET_POLL_NS (5 * TW_NS_PER_S)

void copy_wake_parked(struct tw_slot *slot)
{
    enum { AT_ONCE = 64 };
    struct tw_copy *ready[AT_ONCE];
    size_t n;
    do {
        n = 0;
        pthread_mutex_lock(&slot->mutex);
        while (n < AT_ONCE && slot->parked_oldest != NULL) {
            ready[n] = slot->parked_oldest;
            tw_record_hold(ready[n]->record);
            unpark_list_remove(ready[n++]);
        }
        pthread_mutex_unlock(&slot->mutex);
        for (size_t i = 0; i < n; i++) {
            (void)tw_job_unpark(&ready[i]->job);
            tw_record_release(ready[i]->record);
        }
    } while (n == AT_ONCE);
}

/* ---- The answer ---- */

static void average_add(struct tw_copy *copy, tw_decimal volume, tw_decimal price)
{
    if (price > 0) {
        __extension__ typedef __int128 wide;
        wide value = (wide)copy->average_price * copy->filled + (wide)price * volume;
        copy->average_price = (tw_decimal)(value / (copy->filled + volume));
    }
    copy->filled += volume;
}

static void tell_keep(struct tw_copy *copy, const struct tw_ack *ack)
{
    const char *const parts[] = {ack->order_id,
                                 ack->remainder_position_id[0] != '\0' ? ack->remainder_position_id
                                                                       : ack->position_id,
                                 ack->broker_message};
    copy->broker_code = ack->broker_code;
    size_t size = 0;
    for (size_t i = 0; i < 3; i++)
        size += strlen(parts[i]) + 1;
    if (size == 3)
        return;
    char *told = malloc(size), *at = told;
    if (told == NULL)
        return; /* remarks for people; the copy itself is whole */
    for (size_t i = 0; i < 3; i++) {
        size_t length = strlen(parts[i]) + 1;
        memcpy(at, parts[i], length);
        at += length;
    }
    free(copy->told);
    copy->told = told;
}

/* A market order left while the price was near enough, and was filled when it was not any more. */
static void slippage_remark(struct tw_copy *copy, const struct tw_ack *ack)
{
    tw_decimal allowed = copy->subscription->rules.max_price_deviation, wanted = copy->price, got = ack->average_price;
    if (copy->op != TW_OP_OPEN || allowed == TW_DECIMAL_UNSET || wanted <= 0 || got <= 0 ||
        (got > wanted ? got - wanted : wanted - got) <= allowed || copy->n_remarks == TW_REMARKS_MAX)
        return;
    copy->remarks[copy->n_remarks++] = REASON(SLIPPAGE_BREACH);
}

static void apply_open(struct tw_copy *copy, const struct tw_ack *ack)
{
    struct tw_leg *leg = copy->leg;
    if (copy->op == TW_OP_PLACE && leg->filled > 0) /* the broker told of it before it answered */
        return;
    slippage_remark(copy, ack);
    if (copy->op == TW_OP_PLACE)
        leg_unsettle(leg);
    if (leg->is_closed)
        leg_reopen(leg, copy->volume);
    bool is_other = ack->position_id[0] != '\0' && strcmp(ack->position_id, leg->ticket) != 0;
    if (is_other && leg->ticket_held > 0 && !leg->slot->caps.netting)
        ticket_push(leg);
    leg->ticket_held += ack->filled_volume;
    leg->filled += ack->filled_volume;
    leg->held += ack->filled_volume;
    leg->was_open = true;
    leg->open_price = ack->average_price;
    leg_own_stops(leg, copy);
    if (!leg->slot->caps.netting) {
        leg->stop_loss = ack->stops_missing || copy->stop_loss == TW_DECIMAL_UNSET ? 0 : copy->stop_loss;
        leg->take_profit = ack->stops_missing || copy->take_profit == TW_DECIMAL_UNSET ? 0 : copy->take_profit;
    }
    if (ack->position_id[0] != '\0')
        memcpy(leg->ticket, ack->position_id, sizeof leg->ticket);
}

/* So much less is held under one of its tickets, which may have another name now. */
static void ticket_close(struct tw_leg *leg, const char *ticket, tw_decimal closed, const char *remainder)
{
    for (struct older_ticket **at = &leg->older; *at != NULL; at = &(*at)->next) {
        struct older_ticket *older = *at;
        if (strcmp(older->id, ticket) != 0)
            continue;
        older->held -= closed < older->held ? closed : older->held;
        if (remainder[0] != '\0')
            memcpy(older->id, remainder, sizeof older->id);
        if (older->held == 0) {
            *at = older->next;
            free(older);
        }
        return;
    }
    if (remainder[0] != '\0')
        memcpy(leg->ticket, remainder, sizeof leg->ticket);
    leg->ticket_held -= closed < leg->ticket_held ? closed : leg->ticket_held;
    if (leg->ticket_held == 0 && leg->held > 0)
        ticket_pop(leg);
}

/* What a close was sent to, or was of; a look-up asks by id, and the answer says of which position it was. */
static const char *ticket_of_close(const struct flight *flight)
{
    const struct tw_order *order = &flight->call.order;
    return order->position_id[0] != '\0' ? order->position_id : flight->call.ack.position_id;
}

static tw_decimal ticket_holds(const struct tw_leg *leg, const char *ticket)
{
    if (strcmp(leg->ticket, ticket) == 0)
        return leg->ticket_held;
    for (const struct older_ticket *older = leg->older; older != NULL; older = older->next)
        if (strcmp(older->id, ticket) == 0)
            return older->held;
    return 0;
}

/* Whether what a look-up finds of a close is in the leg already: the broker said since the call what is left, and
 * that is less what was closed. (Told in between: the leg holds too much on the books, which the next comparison
 * mends; counted twice it would hold too little, and a close would leave the rest open.) */
static bool is_counted(const struct tw_copy *copy)
{
    return copy->is_counted || (copy->leg != NULL && copy->n_told != copy->leg->n_told);
}

/* How much of what a close filled the leg holds still. What the broker says it left of the position decides, where
 * it does say so: then nothing is taken off twice, whatever was told or compared before the answer came. */
static tw_decimal closed_by(const struct tw_copy *copy, const struct flight *flight)
{
    const struct tw_leg *leg = copy->leg;
    const struct tw_ack *ack = &flight->call.ack;
    tw_decimal closed = ack->filled_volume < leg->held ? ack->filled_volume : leg->held;
    if (leg->slot->caps.netting || ack->remaining_volume == TW_DECIMAL_UNSET)
        return flight->phase == PHASE_LOOKUP && is_counted(copy) ? 0 : closed;
    tw_decimal held = ticket_holds(leg, ticket_of_close(flight));
    tw_decimal less = held > ack->remaining_volume ? held - ack->remaining_volume : 0;
    return closed < less ? closed : less;
}

static void apply_close(struct tw_copy *copy, const struct flight *flight)
{
    struct tw_leg *leg = copy->leg;
    const char *ticket = ticket_of_close(flight);
    tw_decimal closed = closed_by(copy, flight);
    bool is_there = ticket[0] == '\0' || leg_has_ticket(leg, ticket); /* else it is called otherwise by now */
    leg->held -= closed;
    leg->wanted -= closed < leg->wanted ? closed : leg->wanted;
    if (!leg->is_closed)
        leg->listing->open_volume -= closed;
    ticket_close(leg, ticket, closed, is_there ? flight->call.ack.remainder_position_id : "");
    if (leg->held <= 0)
        leg_close(leg);
}

static void apply_place(struct tw_copy *copy, const struct tw_ack *ack)
{
    struct tw_leg *leg = copy->leg;
    if (leg->filled > 0) /* it filled before its answer was taken up */
        return;
    leg->is_pending = true;
    leg->order_price = copy->price;
    leg_own_stops(leg, copy);
    leg->stop_loss = copy->stop_loss == TW_DECIMAL_UNSET ? 0 : copy->stop_loss;
    leg->take_profit = copy->take_profit == TW_DECIMAL_UNSET ? 0 : copy->take_profit;
    memcpy(leg->ticket, ack->order_id, sizeof leg->ticket);
}

/* The one position of a netting account has them: so does every share of it. An order that waits has its own. */
static void net_stops_set(struct tw_slot *slot, const struct tw_listing *listing, tw_decimal stop_loss,
                          tw_decimal take_profit)
{
    for (struct tw_leg *leg = slot->legs; leg != NULL; leg = leg->next)
        if (leg->listing == listing && !leg->is_pending) {
            leg->stop_loss = stop_loss;
            leg->take_profit = take_profit;
        }
}

static tw_decimal set_or(tw_decimal wanted, tw_decimal otherwise)
{
    return wanted == TW_DECIMAL_UNSET ? otherwise : wanted;
}

struct net_stops {
    tw_decimal stop_loss, take_profit;
};

/* The one position's stops as believed; none while our shares add up to nothing. */
static struct net_stops net_stops_of(const struct tw_slot *slot, const struct tw_listing *listing)
{
    if (slot_net(slot, listing) != 0)
        for (const struct tw_leg *leg = slot->legs; leg != NULL; leg = leg->next)
            if (leg->listing == listing && leg->held > 0)
                return (struct net_stops){leg->stop_loss, leg->take_profit};
    return (struct net_stops){0, 0};
}

/* What a trade made of them: a new position has the order's, one that was there keeps what the order does not name,
 * and one that is gone has none. */
static void net_stops_trade(struct tw_slot *slot, const struct tw_listing *listing, const struct flight *flight,
                            struct net_stops before)
{
    const struct tw_order *order = &flight->call.order;
    struct net_stops now = before;
    if (order->op == TW_OP_OPEN && !flight->call.ack.stops_missing)
        now = (struct net_stops){set_or(order->stop_loss, before.stop_loss),
                                 set_or(order->take_profit, before.take_profit)};
    if (slot_net(slot, listing) == 0)
        now = (struct net_stops){0, 0};
    net_stops_set(slot, listing, now.stop_loss, now.take_profit);
}

static void apply_stops(struct tw_copy *copy, const struct tw_order *order)
{
    struct tw_leg *leg = copy->leg;
    leg->stop_loss = set_or(order->stop_loss, leg->stop_loss);
    leg->take_profit = set_or(order->take_profit, leg->take_profit);
    leg_own_stops(leg, copy);
    if (leg->slot->caps.netting)
        net_stops_set(leg->slot, leg->listing, leg->stop_loss, leg->take_profit);
}

/* One of its positions is not there any more; with the last one the leg is closed. */
static void leg_ticket_gone(struct tw_leg *leg, const char *ticket)
{
    if (leg->older == NULL || ticket[0] == '\0')
        leg_close(leg);
    else
        leg_ticket_reduce(leg, ticket, 0);
}

/* After a crash it is not known whether a cancel, or the close of what the order became, was called last: what
 * filled something was the close. */
static enum tw_order_op op_answered(const struct flight *flight)
{
    bool was_close = flight->phase == PHASE_LOOKUP && flight->call.ack.filled_volume > 0;
    return flight->call.order.op == TW_OP_CANCEL && was_close ? TW_OP_CLOSE : flight->call.order.op;
}

/* What the answer changes at the position. Under the slot's mutex. order: what was sent, which for a
 * netting account, a cancel or late stops is not what the copy is. */
static void apply(struct tw_copy *copy, const struct flight *flight)
{
    struct tw_leg *leg = copy->leg;
    const struct tw_order *order = &flight->call.order;
    const struct tw_ack *ack = &flight->call.ack;
    /* In an answer "not found" means that the position is gone; in a look-up, that the order has not
     * been seen: that says nothing of the position. */
    bool is_gone = ack->outcome == TW_OUTCOME_NOT_FOUND && flight->phase == PHASE_CALL;
    bool executed = ack->outcome == TW_OUTCOME_DONE || ack->outcome == TW_OUTCOME_PARTIAL;
    bool holds = executed || ack->outcome == TW_OUTCOME_NO_CHANGE;
    bool waits_there = ack->outcome == TW_OUTCOME_ACCEPTED && flight->phase == PHASE_LOOKUP && ack->order_id[0] != '\0';
    applied_note(copy);
    enum tw_order_op op = op_answered(flight);
    if (op != order->op && leg->is_pending)
        leg_filled(leg, leg->placed, ack->position_id);
    bool is_trade = op == TW_OP_OPEN || op == TW_OP_CLOSE || op == TW_OP_PLACE;
    if (executed && is_trade && ack->filled_volume > 0)
        average_add(copy, ack->filled_volume, ack->average_price);
    switch (op) {
    case TW_OP_CANCEL:
        if (holds)
            leg_close(leg);
        return;
    case TW_OP_MODIFY:
        if (holds)
            apply_stops(copy, order);
        else if (is_gone && leg->slot->caps.netting)
            leg->slot->compared_mono_ns = 0; /* of a sum, that says nothing: a comparison sees all that is there */
        else if (is_gone)
            leg_ticket_gone(leg, order->position_id);
        return;
    case TW_OP_MODIFY_ORDER:
        if (holds && leg->is_pending) {
            leg_own_stops(leg, copy);
            leg->order_price = order->price == TW_DECIMAL_UNSET ? leg->order_price : order->price;
            leg->stop_loss = order->stop_loss == TW_DECIMAL_UNSET ? leg->stop_loss : order->stop_loss;
            leg->take_profit = order->take_profit == TW_DECIMAL_UNSET ? leg->take_profit : order->take_profit;
        }
        return;
    case TW_OP_OPEN:
    case TW_OP_CLOSE:
    case TW_OP_PLACE:
        break;
    }
    bool is_opening = copy->op == TW_OP_OPEN || copy->op == TW_OP_PLACE;
    struct net_stops before = {0, 0};
    if (leg->slot->caps.netting)
        before = net_stops_of(leg->slot, leg->listing);
    if (is_opening && executed && ack->filled_volume > 0)
        apply_open(copy, ack);
    else if (copy->op == TW_OP_PLACE && (holds || waits_there))
        apply_place(copy, ack);
    else if (!is_opening && executed)
        apply_close(copy, flight);
    else if (!is_opening && is_gone && !leg->slot->caps.netting)
        leg_ticket_gone(leg, order->position_id);
    if (executed && leg->slot->caps.netting && copy->op != TW_OP_PLACE) {
        net_stops_trade(leg->slot, leg->listing, flight, before);
        net_changed(leg->slot, leg->listing);
    }
}

/* A number for each copy and each of its calls: the same on every run. */
static uint32_t spread_of(const struct tw_copy *copy)
{
    uint64_t mixed = (copy->leg->number * 512 + copy->calls + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)((mixed ^ mixed >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 32);
}

static struct tw_verdict judge(struct tw_copy *copy, const struct flight *flight, int64_t now_mono_ns)
{
    const struct tw_slot *slot = slot_of(copy);
    const struct tw_ack *ack = &flight->call.ack;
    const struct tw_call_state state = {
        .op = copy->is_protecting        ? TW_OP_MODIFY
              : copy->op == TW_OP_CANCEL ? (op_answered(flight) == TW_OP_CANCEL ? TW_OP_CANCEL : TW_OP_CLOSE)
                                         : (enum tw_order_op)copy->op,
        .reduces_risk = copy->reduces_risk && !copy->is_protecting,
        .calls = copy->calls,
        .lookups = copy->lookups,
        .absences = copy->absences,
        .is_position_closed = copy->leg->is_close_planned,
        .window_left_ns = copy->window_end_wall_ns - tw_wall_ns(),
        /* While a call is still out nothing proves that it did not execute. */
        .call_deadline_mono_ns = copy->lost_calls > 0 ? now_mono_ns : copy->call_deadline_mono_ns,
        .settle_ns = (int64_t)slot->caps.settle_ms * TW_NS_PER_MS,
        .not_found_is_final = slot->caps.not_found_is_final,
        .spread = spread_of(copy),
    };
    if (flight->phase == PHASE_CALL)
        return tw_verdict_on_answer(&state, ack, now_mono_ns);
    bool absence;
    struct tw_verdict verdict = tw_verdict_on_lookup(&state, ack, now_mono_ns, &absence);
    if (copy->lookups < UINT8_MAX && !ack->not_sent) /* what was not asked need not be asked less often */
        copy->lookups++;
    copy->absences = (uint8_t)(copy->absences + absence);
    return verdict;
}

enum { CANCELS_LOST_MAX = 3 };
#define CANCEL_AGAIN_NS (100 * TW_NS_PER_MS)
#define ASK_AGAIN_NS_MAX (5 * TW_NS_PER_S)

/* The second order has leg 1; further ones of a leg with many tickets count on from there. */
static void next_order(struct tw_copy *copy)
{
    copy->id_attempt = copy->order_leg == 0 ? 0 : copy->id_attempt + 1;
    copy->order_leg = 1;
    copy->adapter_attempt = 0;
}

/* The cancel found nothing: the order has filled, which the broker has told or is asked for, or it is gone.
 * True: it goes on. */
static bool cancel_again(struct tw_copy *copy, struct tw_verdict *verdict)
{
    const struct tw_leg *leg = copy->leg;
    if (leg->is_closed)
        return false;
    if (leg->held > 0) {
        copy->id_attempt++; /* the close of what it became is another order */
        *verdict = (struct tw_verdict){.next = TW_NEXT_CALL, .state = STATE(QUEUED)};
        return true;
    }
    copy->asks_open = true;
    copy->lookups = copy->absences = 0;
    *verdict = (struct tw_verdict){.next = TW_NEXT_LOOKUP, .state = STATE(UNKNOWN), .at_mono_ns = tw_mono_ns()};
    return true;
}

static struct tw_verdict ask_open_again(struct tw_copy *copy)
{
    int64_t wait_ns = CANCEL_AGAIN_NS << (copy->lookups < 6 ? copy->lookups : 6);
    if (copy->lookups < UINT8_MAX)
        copy->lookups++;
    return (struct tw_verdict){.next = TW_NEXT_LOOKUP, .state = STATE(UNKNOWN), .reason = REASON(TIMEOUT),
                               .at_mono_ns = tw_mono_ns() + (wait_ns < ASK_AGAIN_NS_MAX ? wait_ns : ASK_AGAIN_NS_MAX)};
}

/* Not found once more; it proves something only after the settle time. True: so often that it is gone. */
static bool absence_count(struct tw_copy *copy)
{
    int64_t settled_ns = copy->call_deadline_mono_ns + (int64_t)slot_of(copy)->caps.settle_ms * TW_NS_PER_MS;
    copy->absences = (uint8_t)(copy->absences + (tw_mono_ns() > settled_ns));
    return copy->absences >= CANCELS_LOST_MAX;
}

/* What became of the order that a cancel did not find. It filled: the copy goes on and closes that; it waits:
 * it is cancelled once more; it is gone. */
static struct tw_verdict open_asked(struct tw_copy *copy, const struct tw_ack *ack)
{
    struct tw_leg *leg = copy->leg;
    struct tw_verdict again = {.next = TW_NEXT_CALL, .state = STATE(QUEUED), .at_mono_ns = tw_mono_ns()};
    applied_note(copy);
    switch (ack->outcome) {
    case TW_OUTCOME_DONE:
    case TW_OUTCOME_PARTIAL:
        if (ack->filled_volume > 0 && leg->is_pending && !leg->is_closed)
            leg_filled(leg, ack->filled_volume, ack->position_id);
        else if (ack->filled_volume == 0 && leg->held == 0)
            leg_close(leg);
        break;
    case TW_OUTCOME_ACCEPTED:
        again.at_mono_ns += CANCEL_AGAIN_NS;
        break;
    case TW_OUTCOME_REJECTED:
        if (leg->held == 0)
            leg_close(leg);
        break;
    case TW_OUTCOME_NOT_FOUND:
    case TW_OUTCOME_UNSUPPORTED:
        if (!absence_count(copy) && leg->held == 0)
            return ask_open_again(copy);
        if (leg->held == 0)
            leg_close(leg);
        break;
    default:
        return ask_open_again(copy);
    }
    copy->asks_open = false;
    return again;
}

/* ---- A netting order that was only to reduce, and found nothing on its side ----
 *
 * Then our shares do not add up to what the account has. An order of ours has filled that nobody has told of, and the
 * account is at zero or beyond: who waits at the broker is asked for, one after the other, and as soon as one has
 * filled, what is left to do is decided anew, by what the shares add up to then. Nothing was executed, so nothing can
 * come twice. When no order explains it, a hand has closed it. */

/* What is left of it brings the account nearer to zero, as far as we know. */
static bool is_reduction(const struct tw_copy *copy)
{
    return tw_net_decide(slot_net(slot_of(copy), copy->listing), (enum tw_side)copy->side, 1).is_reduction;
}

/* The next share to be asked for, from this number on. True: it goes on. */
static bool share_ask(struct tw_copy *copy, uint64_t from, struct tw_verdict *verdict)
{
    const struct tw_leg *waiting = waiting_share(copy, from);
    copy->asks_share = waiting != NULL ? waiting->number : 0;
    copy->lookups = copy->absences = 0;
    if (waiting == NULL)
        return false;
    *verdict = (struct tw_verdict){.next = TW_NEXT_LOOKUP, .state = STATE(UNKNOWN), .at_mono_ns = tw_mono_ns()};
    return true;
}

/* No order of ours explains it: the share that was to be closed is not there. But where a power cut may have taken events
 * that a broker knows, an order of one of them has closed it, and stands for another share as soon as the event comes
 * again: then the share stays, for what it adds up to; settle.c closes it when it is due. */
static void share_is_gone(struct tw_copy *copy)
{
    struct tw_slot *slot = slot_of(copy);
    slot->compared_mono_ns = 0; /* the broker is asked for all that it holds */
    if (copy->op != TW_OP_OPEN && !may_miss_events(slot->engine, tw_wall_ns()))
        leg_close(copy->leg);
}

/* True: it goes on. */
static bool reduce_again(struct tw_copy *copy, struct tw_verdict *verdict)
{
    if (copy->leg->is_closed || (copy->op == TW_OP_OPEN && copy->calls >= TW_CALLS_PER_OPEN_MAX))
        return false;
    if (!is_reduction(copy)) { /* the fill was told while the order was on its way */
        copy->id_attempt++;
        copy->adapter_attempt = 0;
        *verdict = (struct tw_verdict){.next = TW_NEXT_CALL, .state = STATE(QUEUED), .at_mono_ns = tw_mono_ns()};
        return true;
    }
    if (share_ask(copy, 1, verdict))
        return true;
    share_is_gone(copy);
    return false;
}

/* What became of the order of the share that was asked for. */
static struct tw_verdict share_asked(struct tw_copy *copy, const struct flight *flight)
{
    const struct tw_ack *ack = &flight->call.ack;
    struct tw_leg *leg = leg_of_order(slot_of(copy), flight->call.order.client_order_id); /* NULL: news came meanwhile */
    struct tw_verdict verdict = {.next = TW_NEXT_CALL, .state = STATE(QUEUED), .at_mono_ns = tw_mono_ns()};
    applied_note(copy);
    bool is_absent = ack->outcome == TW_OUTCOME_NOT_FOUND || ack->outcome == TW_OUTCOME_UNSUPPORTED;
    if (leg != NULL && !leg_order_asked(leg, ack) && !(is_absent && absence_count(copy)))
        return ask_open_again(copy);
    if (copy->leg->is_closed || !is_reduction(copy) || ack->filled_volume > 0)
        copy->asks_share = 0;
    else if (!share_ask(copy, copy->asks_share + 1, &verdict)) {
        share_is_gone(copy);
        verdict = copy->op == TW_OP_OPEN
                      ? (struct tw_verdict){.next = TW_NEXT_FINAL, .state = STATE(REJECTED), .reason = REASON(BROKER_OTHER)}
                      : (struct tw_verdict){.next = TW_NEXT_FINAL, .state = STATE(DONE), .reason = REASON(ALREADY_CLOSED)};
    }
    return verdict;
}

/* The stops were to be the waiting order's, and it is not there: it has just filled (then they are the
 * position's, as soon as the broker has told), or it is gone. True: once more. */
static bool modify_again(struct tw_copy *copy, struct tw_verdict *verdict)
{
    const struct tw_leg *leg = copy->leg;
    if (leg->is_closed || (leg->is_pending && copy->cancels_lost == CANCELS_LOST_MAX))
        return false;
    copy->cancels_lost++;
    *verdict = (struct tw_verdict){.next = TW_NEXT_CALL, .state = STATE(QUEUED),
                                   .at_mono_ns = tw_mono_ns() + (leg->is_pending ? CANCEL_AGAIN_NS : 0)};
    return true;
}

/* Whether a copy whose order has ended takes another one: late stops, the second order of a netting
 * account, or what a lost cancel leaves to do. *verdict then says when. */
static bool takes_another(struct tw_copy *copy, const struct flight *flight, struct tw_verdict *verdict)
{
    const struct tw_ack *ack = &flight->call.ack;
    const struct tw_order *order = &flight->call.order;
    if (order->op == TW_OP_CANCEL && ack->outcome == TW_OUTCOME_NOT_FOUND)
        return cancel_again(copy, verdict);
    if (order->op == TW_OP_MODIFY_ORDER && copy->op == TW_OP_MODIFY && ack->outcome == TW_OUTCOME_NOT_FOUND)
        return modify_again(copy, verdict);
    if (order->op == TW_OP_CLOSE && slot_of(copy)->caps.netting && ack->outcome == TW_OUTCOME_NOT_FOUND &&
        flight->phase == PHASE_CALL)
        return reduce_again(copy, verdict);
    if (verdict->state != STATE(DONE) || copy->is_protecting)
        return false;
    bool has_stops = copy->stop_loss > 0 || copy->take_profit > 0;
    if (copy->op == TW_OP_OPEN && ack->stops_missing && has_stops && !copy->leg->is_closed) {
        copy->is_protecting = true;
        next_order(copy);
        *verdict = (struct tw_verdict){.next = TW_NEXT_CALL, .state = STATE(SENT),
                                       .reason = REASON(UNPROTECTED), .same_id_again = true};
        return true;
    }
    bool is_close = copy->op == TW_OP_CLOSE || (copy->op == TW_OP_CANCEL && op_answered(flight) != TW_OP_CANCEL);
    /* Each further order has moved something: a volume is filled, or a ticket is gone from the leg. */
    bool is_netting = slot_of(copy)->caps.netting;
    bool has_moved = (ack->outcome == TW_OUTCOME_DONE && ack->filled_volume > 0) ||
                     (ack->outcome == TW_OUTCOME_NOT_FOUND && !is_netting);
    bool has_more = is_close ? leaves_something(copy)
                             : copy->op == TW_OP_OPEN && is_netting && copy->filled < copy->volume;
    bool is_next_ticket = copy->op == TW_OP_MODIFY && !copy->leg->is_closed &&
                          ticket_at(copy->leg, copy->tickets_done + 1u) != NULL;
    if (is_next_ticket)
        copy->tickets_done++;
    if (is_next_ticket || (has_more && has_moved)) {
        next_order(copy);
        *verdict = (struct tw_verdict){.next = TW_NEXT_CALL, .state = STATE(QUEUED), .same_id_again = true};
        return true;
    }
    return false;
}

/* A change that was refused is tried again, but nothing waits behind it: it is the one that the next change or close
 * takes the place of. */
static void refused_wait(struct tw_copy *copy, struct tw_verdict *verdict)
{
    struct tw_copy *newer = copy->leg->unsent_modify;
    bool is_in_the_way = newer != NULL || copy->leg->is_close_planned;
    if (!is_in_the_way) {
        copy->leg->unsent_modify = copy;
        refused_set(copy, true);
        return;
    }
    if (newer != NULL)
        stops_hand_on(copy, newer);
    *verdict = (struct tw_verdict){.next = TW_NEXT_FINAL, .state = STATE(CANCELLED), .reason = REASON(SUPERSEDED)};
}

/* What the verdict makes of the copy. Under the slot's mutex. */
static void follow(struct tw_copy *copy, const struct flight *flight, struct tw_verdict *verdict)
{
    bool goes_on = false;
    if (copy->op == TW_OP_MODIFY && verdict->next == TW_NEXT_CALL)
        refused_wait(copy, verdict);
    if (verdict->next == TW_NEXT_FINAL) {
        goes_on = takes_another(copy, flight, verdict);
        tw_crash_point_if(goes_on, "copy.second_order");
        if (!goes_on && copy->is_protecting) {
            conclude(copy, STATE(DONE), verdict->state == STATE(DONE) ? REASON(UNSPECIFIED)
                                                                      : REASON(UNPROTECTED));
            return;
        }
        if (!goes_on) {
            /* Refused in the end, but an order before it did part of the copy. */
            bool is_part = verdict->state == STATE(REJECTED) && copy->filled > 0;
            conclude(copy, is_part ? STATE(PARTIAL) : verdict->state, verdict->reason);
            return;
        }
    }
    copy->state = (uint8_t)verdict->state;
    copy->reason = (uint8_t)verdict->reason;
    copy->updated_wall_ns = tw_wall_ns();
    copy->phase = verdict->next == TW_NEXT_LOOKUP ? PHASE_LOOKUP : PHASE_CALL;
    atomic_store_explicit(&copy->may_be_withdrawn, verdict->state == STATE(QUEUED) && copy->filled == 0,
                          memory_order_relaxed);
    if (verdict->next == TW_NEXT_LOOKUP || goes_on)
        return;
    if (verdict->same_id_again) {
        copy->adapter_attempt++;
    } else {
        copy->id_attempt++;
        copy->adapter_attempt = 0;
    }
}

/* Copies that were lost together do not ask together: with many at once one reply that is lost takes the
 * connection, and with it every answer, again and again. From half of the wait to one and a half, by what
 * the copy is and how often it asked: the same on every run. */
static int64_t apart(const struct tw_copy *copy, int64_t at_mono_ns)
{
    int64_t now_ns = tw_mono_ns(), wait_ns = at_mono_ns - now_ns;
    uint64_t mix = copy->record->number * UINT64_C(0x9e3779b97f4a7c15) +
                   (uint64_t)(copy - copy->record->copies) * UINT64_C(0xbf58476d1ce4e5b9) + copy->lookups;
    if (wait_ns <= 0)
        return at_mono_ns;
    mix = (mix ^ mix >> 31) * UINT64_C(0x94d049bb133111eb);
    return now_ns + wait_ns / 2 + (int64_t)((mix ^ mix >> 29) % (uint64_t)wait_ns);
}

/* Parks the job and sees to it that it is woken. The caller holds the record. */
static void wait_for(struct tw_copy *copy, const struct tw_verdict *verdict)
{
    tw_job_finish(&copy->job, TW_JOB_PARK);
    switch (verdict->next) {
    case TW_NEXT_CONNECT:
        wait_in_slot(copy);
        break;
    case TW_NEXT_MARKET:
        wait_in_slot(copy);
        wake_at(copy, tw_mono_ns() + MARKET_POLL_NS);
        break;
    case TW_NEXT_CALL:
        tw_crash_point("copy.refused");
        wake_at(copy, verdict->at_mono_ns);
        tw_crash_point("copy.backing_off");
        break;
    case TW_NEXT_LOOKUP:
        wake_at(copy, apart(copy, verdict->at_mono_ns));
        break;
    case TW_NEXT_FINAL:
        break;
    }
}

static void land(struct flight *flight)
{
    struct tw_copy *copy = flight->copy;
    struct tw_record *record = copy->record;
    struct tw_slot *slot = slot_of(copy);
    const struct tw_ack *ack = &flight->call.ack;
    int64_t now_mono_ns = tw_mono_ns();

    pthread_mutex_lock(&slot->mutex);
    bool is_first = flight->phase == PHASE_CALL && copy->answered_ns == 0;
    if (is_first)
        copy->answered_ns = (uint64_t)(now_mono_ns - record->received_mono_ns);
    if (flight->phase == PHASE_CALL && copy->is_call_out) {
        copy->is_call_out = false;
        copy->subscription->calls_out--;
    }
    bool asks_share = flight->phase == PHASE_LOOKUP && copy->asks_share != 0;
    if (!asks_share && (flight->phase == PHASE_CALL || ack->outcome != TW_OUTCOME_NOT_FOUND))
        tell_keep(copy, ack);
    slot->answers++;
    struct tw_verdict verdict;
    if (asks_share) {
        verdict = share_asked(copy, flight);
    } else if (flight->phase == PHASE_LOOKUP && copy->asks_open) {
        verdict = open_asked(copy, ack);
    } else {
        verdict = judge(copy, flight, now_mono_ns);
        apply(copy, flight);
    }
    follow(copy, flight, &verdict);
    if (verdict.next == TW_NEXT_LOOKUP && copy->late != NULL)
        verdict.at_mono_ns = now_mono_ns; /* no need to ask: it has come by itself */
    pthread_mutex_unlock(&slot->mutex);
    tw_crash_point_if(flight->phase == PHASE_CALL, "copy.answered");
    tw_crash_point_if(flight->phase == PHASE_CALL && copy->calls > 1, "copy.answered_again");
    tw_crash_point_if(flight->phase == PHASE_LOOKUP, "copy.found");
    tw_crash_point_if(ack->outcome == TW_OUTCOME_PARTIAL, "copy.filled_in_part");
    if (asks_share)
        slot_dirty_push(slot); /* another leg than its own */
    settle_begin(slot);

    if (is_first)
        put_sample(copy);
    tw_record_hold(record);
    if (verdict.next == TW_NEXT_FINAL)
        tw_job_finish(&copy->job, TW_JOB_DONE);
    else
        wait_for(copy, &verdict);
    copy_announce(copy);
    if (verdict.next == TW_NEXT_FINAL)
        tw_record_release(record); /* the copy's own */
    tw_record_release(record);
}

static void on_done(struct tw_adapter_call *call)
{
    struct flight *flight = (struct flight *)call;
    land(flight);
    free(flight);
}

/* ---- The job ---- */

/* Test builds can take their time before a job is parked: what comes in between must not be lost. */
static void parking_slowly(void)
{
    const struct timespec time = {.tv_nsec = tw_fault_number("PARK_MS", 0) * TW_NS_PER_MS};
    if (time.tv_nsec > 0)
        nanosleep(&time, NULL);
}

static void end_on_ground(struct tw_copy *copy, enum gate gate)
{
    struct tw_record *record = copy->record;
    tw_record_hold(record);
    slot_dirty_push(slot_of(copy)); /* shares that were given up */
    if (gate == GATE_END) {
        tw_job_finish(&copy->job, TW_JOB_DONE);
    } else {
        parking_slowly();
        tw_job_finish(&copy->job, TW_JOB_PARK);
        wait_in_slot(copy);
    }
    if (gate != GATE_WAIT)
        copy_announce(copy);
    if (gate == GATE_END)
        tw_record_release(record);
    tw_record_release(record);
}

/* The last thing before the call. */
static void stamp_call(struct tw_copy *copy, struct flight *flight)
{
    struct tw_slot *slot = slot_of(copy);
    pthread_mutex_lock(&slot->mutex);
    int64_t now_mono_ns = tw_mono_ns();
    flight->call.deadline_mono_ns = now_mono_ns + (int64_t)slot->caps.call_timeout_ms * TW_NS_PER_MS;
    copy->call_deadline_mono_ns = flight->call.deadline_mono_ns;
    if (copy->called_ns == 0) {
        copy->held_ns = (uint64_t)copy->job.held_ns;
        copy->called_ns = (uint64_t)(now_mono_ns - copy->record->received_mono_ns);
    }
    pthread_mutex_unlock(&slot->mutex);
}

/* ---- Calls that do not come back ---- */

/* The call is past its deadline and some: from here on it is a call whose outcome is unknown, like one that
 * timed out; its flight, on its thread's stack, holds the record until it is back. Thread: watch. */
static void lost(struct tw_job *job)
{
    struct tw_copy *copy = (struct tw_copy *)job;
    struct tw_slot *slot = slot_of(copy);
    tw_record_hold(copy->record);
    breaker_lost(slot);
    pthread_mutex_lock(&slot->mutex);
    struct flight flight = {.copy = copy, .phase = (enum copy_phase)copy->phase};
    flight.call.order.op = (enum tw_order_op)copy->last_op;
    flight.call.ack = (struct tw_ack){.outcome = TW_OUTCOME_AMBIGUOUS, .reason = REASON(TIMEOUT),
                                      .remaining_volume = TW_DECIMAL_UNSET};
    copy->lost_calls = (uint8_t)(copy->lost_calls + (flight.phase == PHASE_CALL));
    pthread_mutex_unlock(&slot->mutex);
    land(&flight);
}

static bool is_certain(const struct tw_ack *ack)
{
    return ack->outcome != TW_OUTCOME_AMBIGUOUS && ack->outcome != TW_OUTCOME_ACCEPTED;
}

/* Under the slot's mutex. What it brought decides when nothing has been decided since; else the broker is
 * asked for all it holds, and whatever does not fit comes to light. Returns what is not needed. */
static struct late_answer *late_keep(struct tw_copy *copy, const struct flight *flight,
                                     struct late_answer *late)
{
    struct tw_slot *slot = slot_of(copy);
    copy->lost_calls--;
    slot->answers++;
    bool is_open = !copy_is_over(copy) && copy->phase == PHASE_LOOKUP && copy->calls == flight->number;
    if (!is_open) {
        slot->compared_mono_ns = 0;
        return late;
    }
    copy->call_deadline_mono_ns = tw_mono_ns(); /* until now it may have executed */
    copy->absences = 0;
    if (late == NULL || copy->late != NULL)
        return late;
    *late = (struct late_answer){flight->call.order, flight->call.ack};
    copy->late = late;
    return NULL;
}

/* The lost call is back: what it brought is evidence. Not to be acted on here, the job is not ours: its next
 * run takes it up. */
static void come_back(struct flight *flight)
{
    struct tw_copy *copy = flight->copy;
    struct tw_record *record = copy->record;
    struct tw_slot *slot = slot_of(copy);
    if (flight->phase == PHASE_CALL) {
        struct late_answer *late = is_certain(&flight->call.ack) ? malloc(sizeof *late) : NULL;
        pthread_mutex_lock(&slot->mutex);
        late = late_keep(copy, flight, late);
        pthread_mutex_unlock(&slot->mutex);
        free(late);
    }
    (void)tw_job_unpark(&copy->job);
    breaker_lost_back(slot);
    tw_lane_lost_call_end(slot->lane);
    tw_record_release(record);
}

/* True: the flight is one that has landed already. */
static bool late_take(struct tw_copy *copy, struct flight *flight)
{
    struct tw_slot *slot = slot_of(copy);
    pthread_mutex_lock(&slot->mutex);
    struct late_answer *late = copy->late;
    copy->late = NULL;
    pthread_mutex_unlock(&slot->mutex);
    if (late == NULL)
        return false;
    *flight = (struct flight){.copy = copy, .phase = PHASE_CALL, .call = {.order = late->order, .ack = late->ack}};
    free(late);
    return true;
}

/* A worker waits for the answer. False: it was lost. */
static bool call_and_wait(struct flight *flight, void (*call)(void *session, struct tw_adapter_call *call))
{
    struct tw_slot *slot = slot_of(flight->copy);
    struct tw_job *job = &flight->copy->job;
    tw_job_call_begin(job, flight->call.deadline_mono_ns + CALL_LOST_AFTER_NS);
    call(slot->session, &flight->call);
    if (!tw_job_call_end(job)) {
        come_back(flight);
        return false;
    }
    if (flight->is_probe)
        breaker_probe_back(slot);
    return true;
}

static void run(struct tw_job *job)
{
    struct tw_copy *copy = (struct tw_copy *)job;
    struct tw_slot *slot = slot_of(copy);
    struct flight local, *flight = &local;
    if (copy->phase == PHASE_LOOKUP && slot->caps.blocking && late_take(copy, flight)) {
        land(flight);
        return;
    }
    if (!slot->caps.blocking) {
        flight = malloc(sizeof *flight);
        if (flight == NULL) { /* nothing was sent: wait a little, like a busy broker */
            wait_for(copy, &(struct tw_verdict){.next = TW_NEXT_CALL,
                                                .at_mono_ns = tw_mono_ns() + 100 * TW_NS_PER_MS});
            return;
        }
        flight->call.done = on_done;
    }

    tw_crash_point("copy.taken");
    enum gate gate = take_off(copy, flight);
    if (gate != GATE_PASS) {
        if (!slot->caps.blocking)
            free(flight);
        end_on_ground(copy, gate);
        return;
    }
    void (*call)(void *session, struct tw_adapter_call *call) = slot->ops->execute;
    if (flight->phase == PHASE_LOOKUP) {
        flight->call.deadline_mono_ns = tw_mono_ns() + (int64_t)slot->caps.call_timeout_ms * TW_NS_PER_MS;
        call = slot->ops->lookup;
    } else {
        stamp_call(copy, flight);
        tw_crash_point("copy.past_the_gate");
    }
    if (!slot->caps.blocking)
        call(slot->session, &flight->call);
    else if (call_and_wait(flight, call))
        land(flight);
}

/* ---- An operator's word ---- */

static bool word_is_for(struct tw_job *job, void *context)
{
    struct tw_copy *copy = context;
    if (job != &copy->job)
        return false;
    atomic_store_explicit(&copy->withdrawn_for, REASON(OPERATOR), memory_order_release);
    return true;
}

bool copy_take(struct tw_copy *copy)
{
    struct tw_lane *lane = slot_of(copy)->lane;
    return lane != NULL && tw_lane_cancel(lane, word_is_for, copy) > 0;
}

void copy_give_back(struct tw_copy *copy)
{
    struct tw_job *job = &copy->job;
    tw_executor_submit(copy->record->engine->executor, &job, 1);
}

/* The same way as an answer of a look-up. The reason is the operator's, and what goes on goes on at once. */
bool copy_word_land(struct tw_copy *copy, const struct tw_ack *ack)
{
    struct tw_slot *slot = slot_of(copy);
    struct flight flight = {.copy = copy, .phase = PHASE_LOOKUP, .call.ack = *ack};
    pthread_mutex_lock(&slot->mutex);
    bool is_wanted = copy->state == STATE(UNKNOWN) && copy->phase == PHASE_LOOKUP;
    struct tw_verdict verdict = {.next = TW_NEXT_CALL};
    if (is_wanted) {
        copy->asks_open = false; /* the word is about its own order */
        copy->asks_share = 0;
        order_fill(copy, &flight.call.order);
        order_asked(copy, &flight.call.order);
        tell_keep(copy, ack);
        slot->answers++;
        verdict = judge(copy, &flight, tw_mono_ns());
        if (verdict.next == TW_NEXT_FINAL)
            verdict.reason = REASON(OPERATOR);
        apply(copy, &flight);
        follow(copy, &flight, &verdict);
        unpark_list_remove(copy);
    }
    pthread_mutex_unlock(&slot->mutex);
    if (!is_wanted || verdict.next != TW_NEXT_FINAL)
        copy_give_back(copy);
    if (!is_wanted)
        return false;
    settle_begin(slot);
    slot_dirty_push(slot);
    copy_announce(copy);
    if (verdict.next == TW_NEXT_FINAL)
        tw_record_release(copy->record); /* the copy's own */
    return true;
}

/* Withdrawn before it was sent: by a halt, a deletion, or because the executor stops. */
static void cancelled(struct tw_job *job)
{
    struct tw_copy *copy = (struct tw_copy *)job;
    struct tw_record *record = copy->record;
    struct tw_slot *slot = slot_of(copy);
    tw_reason reason = (tw_reason)atomic_load_explicit(&copy->withdrawn_for, memory_order_acquire);
    if (reason == REASON(OPERATOR)) { /* whoever took it ends it, or gives it back: resolve.c */
        atomic_store_explicit(&copy->withdrawn_for, REASON(UNSPECIFIED), memory_order_release);
        return;
    }
    if (reason == REASON(UNSPECIFIED)) { /* the process ends; what is queued stays queued */
        tw_record_release(record);
        return;
    }
    pthread_mutex_lock(&slot->mutex);
    conclude(copy, STATE(CANCELLED), reason);
    pthread_mutex_unlock(&slot->mutex);
    copy_announce(copy);
    tw_record_release(record);
}

/* A lane has other jobs too: questions to the broker. NULL: it is not a copy's. */
struct tw_copy *copy_of_job(struct tw_job *job)
{
    return job->run == run ? (struct tw_copy *)job : NULL;
}

static bool is_refused_of(struct tw_job *job, void *context)
{
    struct tw_copy *copy = copy_of_job(job);
    if (copy == NULL || job->key != *(const uint64_t *)context || copy->op != TW_OP_MODIFY ||
        !atomic_load_explicit(&copy->may_be_withdrawn, memory_order_acquire) ||
        !atomic_load_explicit(&copy->is_refused, memory_order_relaxed))
        return false;
    atomic_store_explicit(&copy->withdrawn_for, REASON(SUPERSEDED), memory_order_release);
    return true;
}

void copy_refused_withdraw(const struct tw_leg *leg)
{
    uint64_t key = leg->key;
    if (atomic_load_explicit(&leg->slot->stops_refused, memory_order_relaxed) > 0)
        (void)tw_lane_cancel(leg->slot->lane, is_refused_of, &key);
}

/* ---- For the planner: before submit, nobody else sees the copy ---- */

void copy_init(struct tw_copy *copy, struct tw_record *record, struct tw_subscription *subscription)
{
    subscription_hold(subscription);
    copy->record = record;
    copy->subscription = subscription;
    copy->symbol = record->symbol;
    copy->state = STATE(QUEUED);
    copy->volume = copy->price = copy->stop_price = TW_DECIMAL_UNSET;
    copy->stop_loss = copy->take_profit = TW_DECIMAL_UNSET;
    copy->window_end_wall_ns = INT64_MAX;
    copy->written_attempt = UINT32_MAX;
    copy->job.run = run;
    copy->job.cancelled = cancelled;
    copy->job.lost = lost;
    copy->job.lane = subscription->slot->lane;
    copy->job.job_class = TW_JOB_NORMAL;
}

void copy_plan_set(struct tw_copy *copy, const struct tw_plan *plan)
{
    copy->action = (uint8_t)plan->action;
    copy->op = (uint8_t)plan->op;
    copy->side = (uint8_t)plan->side;
    copy->type = (uint8_t)plan->type;
    copy->volume = plan->volume;
    copy->price = plan->price;
    copy->stop_price = plan->stop_price;
    copy->stop_loss = plan->stop_loss;
    copy->take_profit = plan->take_profit;
    copy->expires_wall_ns = plan->expires_wall_ns;
    copy->reason = (uint8_t)plan->reason;
    copy->sizing = plan->wanted != TW_DECIMAL_UNSET ? (uint8_t)plan->sizing : 0;
    copy->wanted = plan->wanted;
    copy->n_remarks = (uint8_t)plan->n_remarks;
    for (uint32_t i = 0; i < plan->n_remarks; i++)
        copy->remarks[i] = (uint8_t)plan->remarks[i];
    if (plan->listing != NULL) {
        copy->listing = plan->listing;
        copy->symbol = plan->listing->instrument.symbol;
    }
}

void copy_ready(struct tw_copy *copy, struct tw_leg *leg, bool reduces_risk)
{
    copy->leg = leg;
    if (opens(copy))
        tw_last_gate_plan(&leg->slot->gate);
    copy->reduces_risk = reduces_risk;
    copy->job.job_class = reduces_risk ? TW_JOB_URGENT : TW_JOB_NORMAL;
    atomic_store_explicit(&copy->may_be_withdrawn, true, memory_order_relaxed);
    copy->job.key = leg->key;
    copy->listing = leg->listing;
    copy->symbol = leg->listing->instrument.symbol;
    leg->jobs++;
    atomic_fetch_add_explicit(&leg->position->busy, 1, memory_order_relaxed);
}

void copy_ask_first(struct tw_copy *copy)
{
    struct tw_engine *engine = copy->record->engine;
    copy->call_deadline_mono_ns =
        engine->started_mono_ns + (int64_t)slot_of(copy)->caps.call_timeout_ms * TW_NS_PER_MS;
    copy->state = STATE(UNKNOWN);
    copy->reason = REASON(NO_CONNECTION);
    copy->phase = PHASE_LOOKUP;
    copy->lookups = copy->absences = 0;
    atomic_store_explicit(&copy->may_be_withdrawn, false, memory_order_relaxed);
    if (copy->calls > 0)
        return;
    copy->last_op = copy->op;
    copy->leg_ids[0] = 1;
}

void copy_end_unsent(struct tw_copy *copy, copy_state state, tw_reason reason)
{
    copy->state = (uint8_t)state;
    copy->reason = (uint8_t)reason;
    copy->is_skipped = true;
    copy->is_sent_counted = copy->is_done_counted = true;
    tw_copy_counters_add((int32_t)state, (int32_t)reason);
}
