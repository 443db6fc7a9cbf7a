/* copy_answer.c - what an answer says, of a call or of a look-up: the verdict, and what it changes at the position.
 * Under the slot's mutex. */
#include "copy.h"

#include <stdlib.h>
#include <string.h>

static void average_add(struct tw_copy *copy, tw_decimal volume, tw_decimal price)
{
    if (price > 0) {
        __extension__ typedef __int128 wide;
        wide value = (wide)copy->average_price * copy->filled + (wide)price * volume;
        copy->average_price = (tw_decimal)(value / (copy->filled + volume));
    }
    copy->filled += volume;
}

void copy_tell_keep(struct tw_copy *copy, const struct tw_ack *ack)
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
        leg_ticket_push(leg);
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

/* What a close was sent to, or was of; a look-up asks by id, and the answer says of which position it was. */
static const char *ticket_of_close(const struct flight *flight)
{
    const struct tw_order *order = &flight->call.order;
    return order->position_id[0] != '\0' ? order->position_id : flight->call.ack.position_id;
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
    tw_decimal held = leg_ticket_holds(leg, ticket_of_close(flight));
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
    leg_ticket_close(leg, ticket, closed, is_there ? flight->call.ack.remainder_position_id : "");
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

static void apply_stops(struct tw_copy *copy, const struct tw_order *order)
{
    struct tw_leg *leg = copy->leg;
    leg->stop_loss = set_or(order->stop_loss, leg->stop_loss);
    leg->take_profit = set_or(order->take_profit, leg->take_profit);
    leg_own_stops(leg, copy);
    if (leg->slot->caps.netting)
        net_stops_set(leg->slot, leg->listing, leg->stop_loss, leg->take_profit);
}

/* After a crash it is not known whether a cancel, or the close of what the order became, was called last: what
 * filled something was the close. */
enum tw_order_op copy_op_answered(const struct flight *flight)
{
    bool was_close = flight->phase == PHASE_LOOKUP && flight->call.ack.filled_volume > 0;
    return flight->call.order.op == TW_OP_CANCEL && was_close ? TW_OP_CLOSE : flight->call.order.op;
}

/* What the answer changes at the position. Under the slot's mutex. order: what was sent, which for a
 * netting account, a cancel or late stops is not what the copy is. */
void copy_apply(struct tw_copy *copy, const struct flight *flight)
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
    enum tw_order_op op = copy_op_answered(flight);
    bool is_reduction = copy->op == TW_OP_CLOSE || op != order->op;
    /* What closed something had something to close: the fill was told, and a crash took what was told. */
    if (is_reduction && executed && ack->filled_volume > 0 && leg->is_pending)
        leg_filled(leg, leg->placed, ack->position_id);
    bool is_trade = op == TW_OP_OPEN || op == TW_OP_CLOSE || op == TW_OP_PLACE;
    if (executed && is_trade && ack->filled_volume > 0)
        average_add(copy, ack->filled_volume, ack->average_price);
    if (copy->op == TW_OP_CLOSE && copy->filled > copy->volume) /* found after a crash that took how much it was sent for */
        copy->volume = copy->filled;
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
    if (!executed || !leg->slot->caps.netting)
        return;
    if (copy->op != TW_OP_PLACE)
        net_stops_trade(leg->slot, leg->listing, flight, before);
    net_changed(leg->slot, leg->listing); /* by an order that waited and is found filled, too */
}

/* A number for each copy and each of its calls: the same on every run. */
static uint32_t spread_of(const struct tw_copy *copy)
{
    uint64_t mixed = (copy->leg->number * 512 + copy->calls + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)((mixed ^ mixed >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 32);
}

struct tw_verdict copy_judge(struct tw_copy *copy, const struct flight *flight, int64_t now_mono_ns)
{
    const struct tw_slot *slot = copy_slot(copy);
    const struct tw_ack *ack = &flight->call.ack;
    const struct tw_call_state state = {
        .op = copy->is_protecting        ? TW_OP_MODIFY
              : copy->op == TW_OP_CANCEL ? (copy_op_answered(flight) == TW_OP_CANCEL ? TW_OP_CANCEL : TW_OP_CLOSE)
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
