/* stops.c - prices on the instrument's ticks: of pending orders, of stop losses and take profits.
 */
#include <tradewake/core/plan.h>

/* ---- Pending orders ---- */

/* Limits away from the market, stops likewise: never a worse price than the master's by a rounding.
 */
static tw_decimal pending_price(const struct tw_instrument *instrument, enum tw_side side,
                                bool is_limit, tw_decimal price)
{
    if (price == TW_DECIMAL_UNSET || instrument->tick_size <= 0)
        return price;
    bool is_below = (side == TW_BUY) == is_limit; /* of the market */
    return tw_decimal_round(price, instrument->tick_size, is_below ? TW_ROUND_DOWN : TW_ROUND_UP);
}

void tw_pending_prices(const struct tw_instrument *instrument, enum tw_side side,
                       enum tw_order_type type, tw_decimal *price, tw_decimal *stop_price)
{
    /* A stop-limit's price is its limit, reached after its stop price. */
    *price = pending_price(instrument, side, type != TW_ORDER_STOP, *price);
    *stop_price = pending_price(instrument, side, false, *stop_price);
}

/* ---- Stops ---- */

/* The nearest allowed place of a stop: for a long position its stop loss stays `stops_distance`
 * below the bid and its take profit above it; for a short one the other way round from the ask. */
static tw_decimal keep_distance(const struct tw_listing *listing, enum tw_side side, bool is_below,
                                tw_decimal pending_price, tw_decimal stop)
{
    const struct tw_instrument *instrument = &listing->instrument;
    tw_decimal from = pending_price != TW_DECIMAL_UNSET ? pending_price
                      : side == TW_BUY                  ? listing->bid
                                                        : listing->ask;
    if (instrument->stops_distance <= 0 || from <= 0)
        return stop;
    tw_decimal nearest =
        is_below ? from - instrument->stops_distance : from + instrument->stops_distance;
    bool is_inside = is_below ? stop > nearest : stop < nearest;
    if (!is_inside || nearest <= 0)
        return stop;
    if (instrument->tick_size <= 0)
        return nearest;
    return tw_decimal_round(nearest, instrument->tick_size, is_below ? TW_ROUND_DOWN : TW_ROUND_UP);
}

/* Toward the entry: a stop below the price is rounded up, one above it down. */
static tw_decimal place_stop(const struct tw_stops_input *input, bool is_stop_loss, tw_decimal stop)
{
    const struct tw_listing *listing = input->listing;
    if (stop == TW_DECIMAL_UNSET || stop == 0)
        return stop;
    bool is_below = (input->side == TW_BUY) == is_stop_loss;
    if (listing->instrument.tick_size > 0)
        stop = tw_decimal_round(stop, listing->instrument.tick_size,
                                is_below ? TW_ROUND_UP : TW_ROUND_DOWN);
    return keep_distance(listing, input->side, is_below, input->pending_price, stop);
}

void tw_stops_decide(const struct tw_stops_input *input, tw_decimal *ret_stop_loss,
                     tw_decimal *ret_take_profit)
{
    tw_decimal stop_loss = input->is_reversed ? input->take_profit : input->stop_loss;
    tw_decimal take_profit = input->is_reversed ? input->stop_loss : input->take_profit;
    if (input->ignores_stop_loss)
        stop_loss = TW_DECIMAL_UNSET;
    if (input->ignores_take_profit)
        take_profit = TW_DECIMAL_UNSET;
    *ret_stop_loss = place_stop(input, true, stop_loss);
    *ret_take_profit = place_stop(input, false, take_profit);
}

/* A stop loss nearer to the price protects more; having one protects more than having none. */
static bool stop_loss_tightens(enum tw_side side, tw_decimal now, tw_decimal next)
{
    if (next == TW_DECIMAL_UNSET || next == now)
        return true;
    if (next == 0)
        return false;
    return now == 0 || (side == TW_BUY ? next > now : next < now);
}

static bool take_profit_tightens(enum tw_side side, tw_decimal now, tw_decimal next)
{
    if (next == TW_DECIMAL_UNSET || next == now)
        return true;
    if (next == 0)
        return false;
    return now == 0 || (side == TW_BUY ? next < now : next > now);
}

bool tw_stops_tighten(enum tw_side side, tw_decimal now_stop_loss, tw_decimal now_take_profit,
                      tw_decimal next_stop_loss, tw_decimal next_take_profit)
{
    return stop_loss_tightens(side, now_stop_loss, next_stop_loss) &&
           take_profit_tightens(side, now_take_profit, next_take_profit);
}
