/* core_stops.c - where stop losses and take profits stand at a follower, and whether they got
 * tighter. */
#include "core_support.h"

struct stop_case {
    const char *name;
    enum tw_side side;
    const char *stop_loss, *take_profit; /* the master's */
    const char *tick, *distance, *bid, *ask, *pending;
    bool reverse, no_stop_loss, no_take_profit;
    const char *to_stop_loss, *to_take_profit; /* "" = left as it is */
};

static const struct stop_case cases[] = {
    {"as they are", TW_BUY, "1.09", "1.11", .to_stop_loss = "1.09", .to_take_profit = "1.11"},
    {"none given, none changed", TW_BUY, "", "", .to_stop_loss = "", .to_take_profit = ""},
    {"0 removes", TW_BUY, "0", "0", .tick = "0.01", .distance = "0.01", .bid = "1.1", .ask = "1.1",
     .to_stop_loss = "0", .to_take_profit = "0"},

    /* To the tick, toward the entry. */
    {"long: the stop loss up, the take profit down", TW_BUY, "1.0901", "1.1199", .tick = "0.01",
     .to_stop_loss = "1.1", .to_take_profit = "1.11"},
    {"short: the stop loss down, the take profit up", TW_SELL, "1.1199", "1.0901", .tick = "0.01",
     .to_stop_loss = "1.11", .to_take_profit = "1.1"},
    {"on the tick already", TW_BUY, "1.09", "1.12", .tick = "0.01", .to_stop_loss = "1.09",
     .to_take_profit = "1.12"},
    {"no tick known", TW_BUY, "1.09012345", "1.11987654", .tick = "0", .to_stop_loss = "1.09012345",
     .to_take_profit = "1.11987654"},
    {"a tick that is no power of ten", TW_BUY, "100.1", "101.9", .tick = "0.25",
     .to_stop_loss = "100.25", .to_take_profit = "101.75"},

    /* Out of the stops distance: a long position counts from the bid, a short one from the ask. */
    {"long, at the edge is allowed", TW_BUY, "1.099", "1.101", .distance = "0.001", .bid = "1.1",
     .ask = "1.2", .to_stop_loss = "1.099", .to_take_profit = "1.101"},
    {"long, inside", TW_BUY, "1.0995", "1.1005", .distance = "0.001", .bid = "1.1", .ask = "1.2",
     .to_stop_loss = "1.099", .to_take_profit = "1.101"},
    {"long, on the wrong side of the price", TW_BUY, "1.15", "1.05", .distance = "0.001",
     .bid = "1.1", .ask = "1.2", .to_stop_loss = "1.099", .to_take_profit = "1.101"},
    {"short, at the edge", TW_SELL, "1.101", "1.099", .distance = "0.001", .bid = "1", .ask = "1.1",
     .to_stop_loss = "1.101", .to_take_profit = "1.099"},
    {"short, inside", TW_SELL, "1.1005", "1.0995", .distance = "0.001", .bid = "1", .ask = "1.1",
     .to_stop_loss = "1.101", .to_take_profit = "1.099"},
    {"the nearest is rounded away from the price", TW_BUY, "1.0999", "1.1001", .tick = "0.01",
     .distance = "0.005", .bid = "1.1", .ask = "1.1", .to_stop_loss = "1.09",
     .to_take_profit = "1.11"},
    {"no quote, nothing to count from", TW_BUY, "1.0999", "1.1001", .distance = "0.005",
     .to_stop_loss = "1.0999", .to_take_profit = "1.1001"},
    {"no distance", TW_BUY, "1.2", "1.0", .distance = "0", .bid = "1.1", .ask = "1.1",
     .to_stop_loss = "1.2", .to_take_profit = "1"},
    {"a distance larger than the price", TW_BUY, "0.04", "0.06", .distance = "0.1", .bid = "0.05",
     .ask = "0.05", .to_stop_loss = "0.04", .to_take_profit = "0.15"},

    /* An order that waits: from its own price. */
    {"a pending order's stops count from its price", TW_BUY, "1.0495", "1.0505",
     .distance = "0.001", .bid = "1.1", .ask = "1.1", .pending = "1.05", .to_stop_loss = "1.049",
     .to_take_profit = "1.051"},

    /* Reversed: they change places, and are what they are for the follower's side. */
    {"reversed", TW_SELL, "1.0901", "1.1199", .tick = "0.01", .reverse = true,
     .to_stop_loss = "1.11", .to_take_profit = "1.1"},
    {"reversed, one only", TW_SELL, "1.09", "", .reverse = true, .to_stop_loss = "",
     .to_take_profit = "1.09"},
    {"reversed, one removed", TW_SELL, "0", "1.12", .reverse = true, .to_stop_loss = "1.12",
     .to_take_profit = "0"},

    /* Ignored: as the follower means it, after the exchange. */
    {"no stop loss here", TW_BUY, "1.09", "1.11", .no_stop_loss = true, .to_stop_loss = "",
     .to_take_profit = "1.11"},
    {"no take profit here", TW_BUY, "1.09", "1.11", .no_take_profit = true, .to_stop_loss = "1.09",
     .to_take_profit = ""},
    {"no stop loss here, reversed: the master's take profit", TW_SELL, "1.09", "1.11",
     .reverse = true, .no_stop_loss = true, .to_stop_loss = "", .to_take_profit = "1.09"},
};

Test(core_stops, every_stop_stands_where_it_may)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct stop_case *c = &cases[i];
        struct tw_listing listing = {.bid = dec(c->bid), .ask = dec(c->ask)};
        listing.instrument.tick_size = c->tick != NULL ? dec(c->tick) : dec("0.00001");
        listing.instrument.stops_distance = c->distance != NULL ? dec(c->distance) : 0;
        const struct tw_stops_input input = {
            .stop_loss = dec(c->stop_loss),
            .take_profit = dec(c->take_profit),
            .is_reversed = c->reverse,
            .ignores_stop_loss = c->no_stop_loss,
            .ignores_take_profit = c->no_take_profit,
            .side = c->side,
            .listing = &listing,
            .pending_price = dec(c->pending),
        };
        tw_decimal stop_loss = 42, take_profit = 42;

        tw_stops_decide(&input, &stop_loss, &take_profit);

        cr_expect_eq(stop_loss, dec(c->to_stop_loss), "%s: stop loss %s", c->name, TEXT(stop_loss));
        cr_expect_eq(take_profit, dec(c->to_take_profit), "%s: take profit %s", c->name,
                     TEXT(take_profit));
    }
}

Test(core_stops, tighter_is_nearer_to_the_price_and_something_rather_than_nothing)
{
    static const struct {
        enum tw_side side;
        const char *stop_loss, *take_profit, *next_stop_loss,
            *next_take_profit; /* "" = unchanged */
        bool tighter;
    } rows[] = {
        {TW_BUY, "1.09", "1.11", "1.095", "", true},
        {TW_BUY, "1.09", "1.11", "1.085", "", false},
        {TW_SELL, "1.11", "1.09", "1.105", "", true},
        {TW_SELL, "1.11", "1.09", "1.115", "", false},
        {TW_BUY, "1.09", "1.11", "", "1.105", true},
        {TW_BUY, "1.09", "1.11", "", "1.115", false},
        {TW_SELL, "1.11", "1.09", "", "1.095", true},
        {TW_SELL, "1.11", "1.09", "", "1.085", false},
        {TW_BUY, "0", "0", "1.09", "1.11", true},
        {TW_BUY, "1.09", "1.11", "0", "", false},
        {TW_BUY, "1.09", "1.11", "", "0", false},
        {TW_BUY, "1.09", "1.11", "1.095", "1.115", false},
        {TW_BUY, "1.09", "1.11", "1.085", "1.105", false},
        {TW_BUY, "1.09", "1.11", "1.09", "1.11", true},
        {TW_BUY, "1.09", "1.11", "", "", true},
        {TW_BUY, "0", "0", "0", "0", true},
        {TW_SELL, "0", "1.09", "1.2", "", true},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        cr_expect_eq(tw_stops_tighten(rows[i].side, dec(rows[i].stop_loss),
                                      dec(rows[i].take_profit), dec(rows[i].next_stop_loss),
                                      dec(rows[i].next_take_profit)),
                     rows[i].tighter, "row %zu", i);
}
