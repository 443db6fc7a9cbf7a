/* net.c - the one position of a netting account, of which each leg is a share: which order brings it where it should be,
 * and whose stops it carries. Under the slot's mutex. */
#include "copy.h"

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
void net_order(const struct tw_copy *copy, struct tw_order *order, enum tw_side side,
                      tw_decimal volume)
{
    struct tw_net_order net = tw_net_decide(slot_net(copy_slot(copy), copy->listing), side, volume);
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

/* A netting account's order has filled into a position that is there: its stops are the position's from now on, of
 * which the broker has told already. */
void net_stops_take(struct tw_leg *leg)
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
void net_changed(struct tw_slot *slot, const struct tw_listing *listing)
{
    if (!may_miss_events(slot->engine, tw_wall_ns()))
        return;
    tw_decimal net = slot_net(slot, listing);
    for (struct tw_leg *leg = slot->legs; leg != NULL; leg = leg->next)
        if (leg->listing == listing && leg->held > 0 && leg->jobs == 0 && (leg->side == TW_BUY ? net <= 0 : net >= 0))
            leg_unsettle(leg);
}

/* The one position of a netting account has them: so does every share of it. An order that waits has its own. */
void net_stops_set(struct tw_slot *slot, const struct tw_listing *listing, tw_decimal stop_loss,
                          tw_decimal take_profit)
{
    for (struct tw_leg *leg = slot->legs; leg != NULL; leg = leg->next)
        if (leg->listing == listing && !leg->is_pending) {
            leg->stop_loss = stop_loss;
            leg->take_profit = take_profit;
        }
}

/* The one position's stops as believed; none while our shares add up to nothing. */
struct net_stops net_stops_of(const struct tw_slot *slot, const struct tw_listing *listing)
{
    if (slot_net(slot, listing) != 0)
        for (const struct tw_leg *leg = slot->legs; leg != NULL; leg = leg->next)
            if (leg->listing == listing && leg->held > 0)
                return (struct net_stops){leg->stop_loss, leg->take_profit};
    return (struct net_stops){0, 0};
}

/* What a trade made of them: a new position has the order's, one that was there keeps what the order does not name,
 * and one that is gone has none. */
void net_stops_trade(struct tw_slot *slot, const struct tw_listing *listing, const struct flight *flight,
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
