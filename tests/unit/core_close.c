/* core_close.c - what a reduction comes to: targets, minimums, and what a netting account is sent.
 */
#include "core_support.h"

Test(core_close, a_reduction_follows_its_target)
{
    static const struct {
        const char *name, *filled, *held, *remaining, *initial; /* remaining NULL = a full close */
        const char *min, *step, *volume;
        tw_reason reason;
    } rows[] = {
        {"a full close closes all that is left", "1", "0.37", NULL, "1", "0.01", "0.01", "0.37", 0},
        {"a full close of less than the minimum", "1", "0.004", NULL, "1", "0.01", "0.01", "0.004",
         0},
        {"a full close of nothing", "1", "0", NULL, "1", "0.01", "0.01", "0",
         REASON(ALREADY_CLOSED)},
        {"half", "1", "1", "0.5", "1", "0.01", "0.01", "0.5", 0},
        {"half, again: the target holds", "1", "0.5", "0.5", "1", "0.01", "0.01", "0",
         REASON(NO_CHANGE)},
        {"a later, larger remaining changes nothing", "1", "0.5", "0.7", "1", "0.01", "0.01", "0",
         REASON(NO_CHANGE)},
        {"a third of 0.10: the target is rounded down", "0.1", "0.1", "2", "3", "0.01", "0.01",
         "0.04", 0},
        {"closed 0.3 of 1.0, then 0.3 again", "0.5", "0.5", "0.7", "1", "0.01", "0.01", "0.15", 0},
        {"... the second time", "0.5", "0.35", "0.4", "1", "0.01", "0.01", "0.15", 0},
        {"what the stop took in between is not closed again", "0.5", "0.1", "0.4", "1", "0.01",
         "0.01", "0", REASON(NO_CHANGE)},
        {"a target below the minimum keeps the minimum", "0.05", "0.05", "0.1", "1", "0.01", "0.01",
         "0.04", REASON(KEPT_MIN)},
        {"... and there is no more to close", "0.05", "0.01", "0.1", "1", "0.01", "0.01", "0",
         REASON(KEPT_MIN)},
        {"the smallest copy of all", "0.01", "0.01", "0.5", "1", "0.01", "0.01", "0",
         REASON(KEPT_MIN)},
        {"a reduction smaller than the smallest order waits", "1", "1", "0.95", "1", "0.1", "0.01",
         "0", REASON(BELOW_MIN)},
        {"... and goes with the next", "1", "1", "0.9", "1", "0.1", "0.01", "0.1", 0},
        {"more than the minimum is left, but not by an order", "0.1", "0.15", "0.5", "1", "0.1",
         "0.01", "0", REASON(BELOW_MIN)},
        {"a minimum that is no multiple of the step", "1", "1", "0.1", "1", "0.1", "0.5", "0.5",
         REASON(KEPT_MIN)},
        {"a step that has grown", "1", "1", "0.55", "1", "0.1", "0.1", "0.5", 0},
        {"held of an older, finer step: what is sent is of today's", "1.57", "1.57", "1", "2",
         "0.1", "0.1", "0.8", 0},
        {"... and what is over stays", "1.57", "0.77", "1", "2", "0.1", "0.1", "0",
         REASON(BELOW_MIN)},
        {"... until the full close", "1.57", "0.77", NULL, "2", "0.1", "0.1", "0.77", 0},
        {"held more than filled (adopted)", "1", "1.2", "0.5", "1", "0.01", "0.01", "0.7", 0},
        {"nothing known of the master's volume", "1", "1", "0.5", "0", "0.01", "0.01", "0.99",
         REASON(KEPT_MIN)},
        {"nothing known of the instrument: to the last digit, never all of it", "0.9", "0.9", "1",
         "3", "0", "0", "0.6", 0},
        {"nothing known of the instrument, and next to nothing left", "0.00000002", "0.00000002",
         "1", "9", "0", "0", "0.00000001", REASON(KEPT_MIN)},
        {"large numbers", "9999999999.99999999", "9999999999.99999999", "1", "3", "0.00000001",
         "0.00000001", "6666666666.66666666", 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct tw_close_input input = {
            .filled = dec(rows[i].filled),
            .held = dec(rows[i].held),
            .is_full = rows[i].remaining == NULL,
            .master_remaining = rows[i].remaining != NULL ? dec(rows[i].remaining) : 0,
            .master_initial = dec(rows[i].initial),
            .volume_min = dec(rows[i].min),
            .volume_step = dec(rows[i].step),
        };
        struct tw_close_decision decision = tw_close_decide(&input);
        cr_expect_eq(decision.volume, dec(rows[i].volume), "%s: %s", rows[i].name,
                     TEXT(decision.volume));
        cr_expect_eq(decision.reason, rows[i].reason, "%s: %s", rows[i].name,
                     reason_name(decision.reason));
    }
}

Test(core_close, a_close_larger_than_the_largest_order_is_several)
{
    static const struct {
        const char *name, *held, *target, *max, *orders[4]; /* target NULL = a full close */
    } rows[] = {
        {"as large as allowed", "5", NULL, "5", {"5"}},
        {"in two", "8", NULL, "5", {"5", "3"}},
        {"in three", "12", NULL, "5", {"5", "5", "2"}},
        {"a reduction in two", "8", "1", "5", {"5", "2"}},
        {"the last one is no crumb", "5.05", NULL, "5", {"4.9", "0.15"}},
        {"a maximum off the step", "8", NULL, "5.005", {"5", "3"}},
        {"no maximum", "800", NULL, "0", {"800"}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        tw_decimal held = dec(rows[i].held);
        for (size_t k = 0; k < 4 && rows[i].orders[k] != NULL; k++) {
            const struct tw_close_input input = {
                .filled = dec(rows[i].held),
                .held = held,
                .is_full = rows[i].target == NULL,
                .master_remaining = rows[i].target != NULL ? dec(rows[i].target) : 0,
                .master_initial = dec(rows[i].held),
                .volume_min = dec("0.1"),
                .volume_step = dec("0.01"),
                .volume_max = dec(rows[i].max),
            };
            struct tw_close_decision decision = tw_close_decide(&input);
            cr_expect_eq(decision.volume, dec(rows[i].orders[k]), "%s: %s", rows[i].name,
                         TEXT(decision.volume));
            held -= decision.volume;
        }
        cr_expect_eq(held, rows[i].target != NULL ? dec(rows[i].target) : 0, "%s: %s is left",
                     rows[i].name, TEXT(held));
    }
}

/* Whatever the chain of partial closes: the volume sent is never more than there is, what is left
 * never below the target of the moment, and after the full close nothing is left. */
Test(core_close, a_chain_of_partial_closes_ends_flat)
{
    uint64_t seed = 20261130;
    for (int round = 0; round < 20000; round++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        tw_decimal step = dec((seed >> 20) % 2 != 0 ? "0.01" : "0.001");
        tw_decimal filled = step * (tw_decimal)(1 + (seed >> 33) % 500), held = filled;
        tw_decimal initial = dec("0.01") * (tw_decimal)(1 + (seed >> 43) % 300),
                   remaining = initial;
        while (remaining > dec("0.01") && held > 0) {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            remaining -=
                dec("0.01") * (tw_decimal)(1 + (seed >> 33) % (uint64_t)(remaining / dec("0.01")));
            remaining = remaining > 0 ? remaining : dec("0.01");
            const struct tw_close_input input = {filled,  held, false, remaining,
                                                 initial, step, step,  0};
            struct tw_close_decision decision = tw_close_decide(&input);
            cr_assert_leq(decision.volume, held);
            cr_assert_geq(decision.volume, 0);
            held -= decision.volume;
            __extension__ typedef __int128 wide;
            cr_assert((wide)held * initial >= (wide)filled * remaining - (wide)step * initial,
                      "%s left of %s at %s of %s", TEXT(held), TEXT(filled), TEXT(remaining),
                      TEXT(initial));
            cr_assert(held >= step, "the last bit goes with the full close");
        }
        const struct tw_close_input full = {filled, held, true, 0, initial, step, step, 0};
        cr_assert_eq(tw_close_decide(&full).volume, held);
    }
}

Test(core_close, a_netting_order_first_brings_the_position_to_zero)
{
    static const struct {
        const char *name, *net;
        enum tw_side side;
        const char *volume, *sent;
        bool is_reduction;
    } rows[] = {
        {"flat, buy", "0", TW_BUY, "1", "1", false},
        {"flat, sell", "0", TW_SELL, "1", "1", false},
        {"long, buy more", "2", TW_BUY, "1", "1", false},
        {"short, sell more", "-2", TW_SELL, "1", "1", false},
        {"long, sell some", "2", TW_SELL, "1", "1", true},
        {"long, sell all", "2", TW_SELL, "2", "2", true},
        {"long, sell through: first to zero", "2", TW_SELL, "3", "2", true},
        {"short, buy some", "-2", TW_BUY, "1", "1", true},
        {"short, buy through: first to zero", "-2", TW_BUY, "5", "2", true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tw_net_order order =
            tw_net_decide(dec(rows[i].net), rows[i].side, dec(rows[i].volume));
        cr_expect_eq(order.volume, dec(rows[i].sent), "%s: %s", rows[i].name, TEXT(order.volume));
        cr_expect_eq(order.is_reduction, rows[i].is_reduction, "%s", rows[i].name);
    }
}

/* ---- Several positions of one copy ---- */

enum { TICKETS = 4 };

/* Orders until nothing more can be closed, as text: "0:0.05 1:0.02". Checks each on the way. */
static void cut_all(const char *name, tw_decimal *held, tw_decimal volume, tw_decimal min, tw_decimal step, char *ret,
                    size_t size)
{
    tw_decimal smallest = tw_decimal_round(min, step, TW_ROUND_UP);
    size_t used = 0;
    ret[0] = '\0';
    for (int orders = 0; volume > 0; orders++) {
        cr_assert_lt(orders, 10, "%s", name);
        struct tw_ticket_order order = tw_tickets_decide(held, TICKETS, volume, min, step);
        if (order.volume == 0)
            return;
        tw_decimal rest = held[order.ticket] - order.volume;
        cr_expect(order.volume <= volume, "%s: more than was to be closed", name);
        cr_expect(rest == 0 || (rest >= smallest && order.volume >= smallest && order.volume % step == 0),
                  "%s: order %d", name, orders);
        held[order.ticket] = rest;
        volume -= order.volume;
        char text[TW_DECIMAL_TEXT_BYTES];
        used += (size_t)snprintf(ret + used, size - used, "%s%u:%s", used > 0 ? " " : "", order.ticket,
                                 tw_decimal_text(order.volume, text));
    }
}

Test(core_close, a_cut_over_several_positions_leaves_and_orders_nothing_below_the_minimum)
{
    static const struct {
        const char *name, *held[TICKETS], *volume, *min, *step, *orders;
    } rows[] = {
        {"the newest holds enough", {"1", "1"}, "0.4", "0.01", "0.01", "0:0.4"},
        {"the newest whole, the rest of the next", {"0.5", "1"}, "0.7", "0.01", "0.01", "0:0.5 1:0.2"},
        {"all of it", {"0.5", "1", "0.25"}, "1.75", "0.01", "0.01", "0:0.5 1:1 2:0.25"},
        {"the next would be too little: of each so much that both are orders",
         {"0.05", "0.2"}, "0.07", "0.05", "0.01", "1:0.07"},
        {"the newest would be left with too little: another one", {"0.08", "0.5"}, "0.05", "0.05", "0.01", "1:0.05"},
        {"whole, and the rest would be too little: less of the newest, more of the next",
         {"0.2", "0.1"}, "0.22", "0.05", "0.01", "0:0.12 1:0.1"},
        {"two in part", {"0.2", "0.2"}, "0.24", "0.05", "0.01", "0:0.15 1:0.09"},
        {"one that is whole is an order, however little", {"0.02", "0.2"}, "0.02", "0.05", "0.01", "0:0.02"},
        {"not exactly: as much as can be", {"0.08", "0.06"}, "0.07", "0.05", "0.01", "1:0.06"},
        {"nothing at all", {"0.08", "0.09"}, "0.07", "0.05", "0.01", ""},
        {"a position of an older step goes whole", {"0.123", "0.5"}, "0.25", "0.1", "0.1", "0:0.123 1:0.1"},
        {"a third one makes it fit", {"0.08", "0.06", "0.05"}, "0.11", "0.05", "0.01", "1:0.06 2:0.05"},
        {"four", {"0.06", "0.06", "0.06", "0.06"}, "0.18", "0.05", "0.01", "0:0.06 1:0.06 2:0.06"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        tw_decimal held[TICKETS] = {0};
        char orders[200];
        for (size_t k = 0; k < TICKETS && rows[i].held[k] != NULL; k++)
            held[k] = dec(rows[i].held[k]);
        cut_all(rows[i].name, held, dec(rows[i].volume), dec(rows[i].min), dec(rows[i].step), orders, sizeof orders);
        cr_expect_str_eq(orders, rows[i].orders, "%s: %s", rows[i].name, orders);
    }
}

Test(core_close, many_positions_are_cut_from_the_newest_on)
{
    tw_decimal held[20];
    for (size_t i = 0; i < COUNT(held); i++)
        held[i] = dec("0.1");
    struct tw_ticket_order order = tw_tickets_decide(held, COUNT(held), dec("1.95"), dec("0.1"), dec("0.01"));
    cr_expect_eq(order.ticket, 0);
    cr_expect_eq(order.volume, dec("0.1"));
}
