/* copy_gate.c - the gate: whether a copy's order may go, now, and which order that is. Under the slot's mutex. */
#include "copy.h"

#include <stdlib.h>
#include <string.h>

enum gate gate_end(struct tw_copy *copy, copy_state state, tw_reason reason)
{
    copy_conclude(copy, state, reason);
    return GATE_END;
}

enum gate gate_park(struct tw_copy *copy, tw_reason reason)
{
    copy->state = STATE(QUEUED);
    copy->reason = (uint8_t)reason;
    copy->updated_wall_ns = tw_wall_ns();
    return GATE_PARK;
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

enum gate gate_mode(struct tw_copy *copy, copy_state state)
{
    static const tw_reason reasons[] = {
        [TW_MODE_CLOSE_ONLY] = REASON(CLOSE_ONLY),
        [TW_MODE_PAUSED] = REASON(FOLLOWER_PAUSED),
        [TW_MODE_MONITOR] = REASON(MONITORED),
    };
    enum tw_mode mode = copy_slot(copy)->rules.mode;
    return mode == TW_MODE_ACTIVE ? GATE_PASS : gate_end(copy, state, reasons[mode]);
}

static enum gate gate_open(struct tw_copy *copy, struct tw_order *order, int64_t now_wall_ns)
{
    struct tw_slot *slot = copy_slot(copy);
    if (slot->is_deleted || copy->subscription->is_gone || copy->leg->is_close_planned)
        return gate_end(copy, STATE(CANCELLED), REASON(WITHDRAWN));
    if (copy->op == TW_OP_OPEN && copy->leg->is_pending) /* an increase; the order it adds to has not filled */
        return gate_end(copy, STATE(SKIPPED), REASON(NO_COPY_TO_ACT_ON));
    if (copy->leg->is_closed) /* it would add to what is not there any more */
        return gate_end(copy, STATE(SKIPPED), REASON(ALREADY_CLOSED));
    if (subscription_is_halted(copy->subscription))
        return gate_end(copy, STATE(CANCELLED), REASON(HALTED));
    if (slot->stop_out.is_out)
        return gate_end(copy, STATE(CANCELLED), REASON(RISK_LIMIT));
    enum gate mode = gate_mode(copy, STATE(CANCELLED));
    if (mode != GATE_PASS)
        return mode;
    if (now_wall_ns > copy->window_end_wall_ns) {
        bool was_held_back = copy->reason == REASON(NO_CONNECTION) || copy->reason == REASON(ORDER_RATE);
        return gate_end(copy, STATE(EXPIRED), was_held_back ? (tw_reason)copy->reason : REASON(TOO_OLD));
    }
    if (copy->expires_wall_ns != 0 && now_wall_ns >= copy->expires_wall_ns)
        return gate_end(copy, STATE(EXPIRED), REASON(INVALID_EXPIRY));
    if (slot->fuse.is_blown || (slot->caps.blocking && breaker_is_open(slot)))
        return gate_end(copy, copy->calls > 0 ? STATE(REJECTED) : STATE(SKIPPED), REASON(BREAKER_OPEN));
    if (!slot->is_connected)
        return gate_park(copy, REASON(NO_CONNECTION));
    if (copy->calls == 0 && slot->rules.max_orders_per_second != 0) {
        int64_t wait_ns = rate_wait_ns(slot, tw_mono_ns());
        if (wait_ns > 0) {
            copy->wake_mono_ns = tw_mono_ns() + wait_ns;
            return gate_park(copy, REASON(ORDER_RATE));
        }
    }
    if (copy->op == TW_OP_OPEN && slot->caps.netting)
        net_order(copy, order, (enum tw_side)copy->side, copy->volume - copy->filled);
    return GATE_PASS;
}

enum gate gate_reduce(struct tw_copy *copy)
{
    struct tw_slot *slot = copy_slot(copy);
    if (slot->rules.mode == TW_MODE_PAUSED)
        return gate_park(copy, REASON(FOLLOWER_PAUSED));
    if (slot->rules.mode == TW_MODE_MONITOR)
        return gate_park(copy, REASON(MONITORED));
    return slot->is_connected ? GATE_PASS : gate_park(copy, REASON(NO_CONNECTION));
}

static enum gate nothing_to_close(struct tw_copy *copy, tw_reason reason)
{
    if (copy->calls > 0 || copy->filled > 0) /* it went on for the rest, and the target holds now */
        return gate_end(copy, STATE(DONE), copy->filled > 0 ? REASON(UNSPECIFIED) : reason);
    if (reason != REASON(ALREADY_CLOSED))
        return gate_end(copy, STATE(SKIPPED), reason);
    if (copy->leg->was_open)
        return gate_end(copy, STATE(DONE), REASON(ALREADY_CLOSED));
    return gate_end(copy, STATE(SKIPPED), REASON(NO_COPY_TO_ACT_ON));
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
bool copy_leaves_something(const struct tw_copy *copy)
{
    const struct tw_close_input input = close_input(copy);
    return !copy->leg->is_closed && tw_close_decide(&input).volume > 0;
}

static enum gate pass_cancel(struct tw_copy *copy, struct tw_order *order);

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
    memcpy(order->position_id, leg_ticket_at(leg, part.ticket), sizeof order->position_id);
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
    return gate_end(copy, STATE(DONE), copy->filled > 0 ? REASON(UNSPECIFIED) : REASON(BELOW_MIN));
}

static enum gate gate_close(struct tw_copy *copy, struct tw_order *order)
{
    const struct tw_leg *leg = copy->leg;
    if (leg->is_pending && !leg->is_closed) /* the master's filled, ours still waits */
        return copy->is_full_close ? pass_cancel(copy, order)
                                   : gate_end(copy, STATE(SKIPPED), REASON(NO_CHANGE)); /* settle.c, when it fills */
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
    if (copy_slot(copy)->caps.netting) {
        net_order(copy, order, (enum tw_side)copy->side, decision.volume);
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
        return gate_end(copy, copy->calls > 0 ? STATE(DONE) : STATE(SKIPPED), REASON(NO_CHANGE));
    if (subscription_is_halted(copy->subscription))
        return gate_end(copy, STATE(SKIPPED), REASON(HALTED));
    enum gate gate = gate_mode(copy, STATE(SKIPPED));
    if (gate != GATE_PASS)
        return gate;
    memcpy(order->order_id, leg->ticket, sizeof order->order_id);
    return gate_reduce(copy);
}

enum gate gate_by_op(struct tw_copy *copy, struct tw_order *order, int64_t now_wall_ns)
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

/* How long what waits for a broker whose calls do not come back is left alone. */
#define BREAKER_POLL_NS TW_NS_PER_S

/* The breaker's word, last of all: who is let through as the probe has to call. */
enum gate gate_breaker(struct tw_copy *copy, struct flight *flight)
{
    struct tw_slot *slot = copy_slot(copy);
    if (!slot->caps.blocking || breaker_admits(slot, &flight->is_probe))
        return GATE_PASS;
    copy->wake_mono_ns = tw_mono_ns() + BREAKER_POLL_NS;
    if (flight->phase == PHASE_LOOKUP || copy->reason == REASON(BREAKER_OPEN))
        return GATE_WAIT;
    return gate_park(copy, REASON(BREAKER_OPEN));
}
