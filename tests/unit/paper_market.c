/* What quotes and time set off: stops, pendings, expiries; and what the host hears of it. */
#include "paper_fixture.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define QUOTED       "latency=zero;quotes={\"EURUSD\":\"1.10000/1.10010\"}"

/* ---- Stops. ---- */

struct stop_case {
    const char *name;
    enum tw_side side;
    const char *stop_loss, *take_profit, *bid, *ask;
    const char *fill; /* NULL: it stays open */
};

/* clang-format off */
static const struct stop_case stops[] = {
    {"long, stop loss on the bid", TW_BUY, "1.09500", "", "1.09500", "1.09600", "1.095"},
    {"long, the bid one tick above", TW_BUY, "1.09500", "", "1.09501", "1.09601", NULL},
    {"long, the ask below does not count", TW_BUY, "1.09500", "", "1.09501", "1.09501", NULL},
    {"long, stop loss over a gap", TW_BUY, "1.09500", "", "1.05000", "1.05010", "1.05"},
    {"long, take profit on the bid", TW_BUY, "", "1.11000", "1.11000", "1.11010", "1.11"},
    {"long, take profit: the ask does not count", TW_BUY, "", "1.11000", "1.10990", "1.11010", NULL},
    {"long, take profit over a gap", TW_BUY, "", "1.11000", "1.15000", "1.15010", "1.15"},
    {"short, stop loss on the ask", TW_SELL, "1.11000", "", "1.10990", "1.11000", "1.11"},
    {"short, the bid does not count", TW_SELL, "1.11000", "", "1.10980", "1.10990", NULL},
    {"short, take profit on the ask", TW_SELL, "", "1.09000", "1.08990", "1.09000", "1.09"},
    {"short, take profit: the bid does not count", TW_SELL, "", "1.09000", "1.08990", "1.09010", NULL},
    {"short, stop loss over a gap", TW_SELL, "1.11000", "", "1.20000", "1.20010", "1.2001"},
};
/* clang-format on */

Test(paper_market, stops_fire_on_their_side_of_the_quote_and_fill_at_it)
{
    for (size_t i = 0; i < COUNT(stops); i++) {
        const struct stop_case *c = &stops[i];
        struct desk desk;
        desk_open(&desk, QUOTED);
        struct tw_order order = open_of("o", "EURUSD", c->side, "0.10");
        order.stop_loss = D(c->stop_loss);
        order.take_profit = D(c->take_profit);
        struct tw_ack open = desk_execute(&desk, &order);
        cr_assert_eq(open.outcome, TW_OUTCOME_DONE, "%s: %s", c->name, open.broker_message);

        desk_quote(&desk, "EURUSD", c->bid, c->ask);

        struct tw_paper_book book = desk_book(&desk);
        cr_expect_eq(book.holds.n_positions, c->fill == NULL ? 1 : 0, "%s", c->name);
        cr_assert_eq(book.n_deals, c->fill == NULL ? 1 : 2, "%s", c->name);
        cr_expect_eq(desk.heard.positions, c->fill == NULL ? 0 : 1, "%s", c->name);
        if (c->fill != NULL) {
            assert_decimal(book.deals[1].price, c->fill, c->name);
            cr_expect_str_eq(book.deals[1].client_order_id, "", "%s", c->name);
            cr_expect_eq(book.deals[1].side, tw_side_opposite(c->side), "%s", c->name);
            cr_expect_str_eq(desk.heard.position.position_id, open.position_id, "%s", c->name);
            cr_expect_eq(desk.heard.position.volume, 0, "%s", c->name);
            cr_expect_eq(desk.heard.account.balance, book.holds.account.balance, "%s", c->name);
        }
        cr_expect_eq(book.calls, 1, "%s: a stop is no call", c->name);
        tw_paper_book_clear(&book);
        desk_close(&desk);
    }
}

Test(paper_market, without_a_quote_no_stop_is_checked_or_fires)
{
    struct desk desk;
    desk_open(&desk, "latency=zero");
    struct tw_order order = open_of("o", "EURUSD", TW_BUY, "0.10");
    order.stop_loss = D("5");

    cr_expect_eq(desk_execute(&desk, &order).outcome, TW_OUTCOME_DONE);
    desk_quote(&desk, "GBPUSD", "1.3", "1.3");
    struct tw_paper_book book = desk_book(&desk);
    cr_expect_eq(book.holds.n_positions, 1);
    tw_paper_book_clear(&book);
    desk_close(&desk);
}

#define WIDE                                                                                       \
    "latency=zero;instruments={\"EURUSD\":{\"min\":\"0.01\",\"step\":\"0.01\",\"max\":\"100\","    \
    "\"contract\":\"100000\",\"tick\":\"0.00001\",\"stops\":\"0.00100\"}};"                        \
    "quotes={\"EURUSD\":\"1.10000/1.10010\"}"

struct distance_case {
    const char *name;
    enum tw_side side;
    const char *stop_loss, *take_profit;
    bool is_allowed;
};

static const struct distance_case distances[] = {
    {"long, stop loss at the distance from the bid", TW_BUY, "1.09900", "", true},
    {"long, stop loss one tick inside", TW_BUY, "1.09901", "", false},
    {"long, take profit at the distance from the bid", TW_BUY, "", "1.10100", true},
    {"long, take profit one tick inside", TW_BUY, "", "1.10099", false},
    {"short, stop loss at the distance from the ask", TW_SELL, "1.10110", "", true},
    {"short, stop loss one tick inside", TW_SELL, "1.10109", "", false},
    {"short, take profit at the distance from the ask", TW_SELL, "", "1.09910", true},
    {"short, take profit one tick inside", TW_SELL, "", "1.09911", false},
};

Test(paper_market, a_stop_inside_the_stops_distance_is_refused_at_the_open_and_later)
{
    for (size_t i = 0; i < COUNT(distances); i++) {
        const struct distance_case *c = &distances[i];
        struct desk desk;
        desk_open(&desk, WIDE);
        struct tw_order with = open_of("a", "EURUSD", c->side, "0.10");
        with.stop_loss = D(c->stop_loss);
        with.take_profit = D(c->take_profit);
        struct tw_ack open = desk_execute(&desk, &with);
        struct tw_ack bare = desk_open_position(&desk, "b", "EURUSD", c->side, "0.10");
        struct tw_order modify = modify_of("m", bare.position_id, c->stop_loss, c->take_profit);
        struct tw_ack later = desk_execute(&desk, &modify);

        cr_expect_eq(open.outcome, c->is_allowed ? TW_OUTCOME_DONE : TW_OUTCOME_REJECTED, "%s",
                     c->name);
        cr_expect_eq(later.outcome, c->is_allowed ? TW_OUTCOME_DONE : TW_OUTCOME_REJECTED, "%s",
                     c->name);
        if (!c->is_allowed)
            cr_expect_eq(later.reason, REASON(INVALID_STOPS), "%s", c->name);
        desk_close(&desk);
    }
}

Test(paper_market, a_stop_the_market_has_come_near_to_may_stay_while_the_other_is_changed)
{
    struct desk desk;
    desk_open(&desk, WIDE);
    struct tw_order order = open_of("o", "EURUSD", TW_BUY, "0.10");
    order.stop_loss = D("1.09900");
    struct tw_ack open = desk_execute(&desk, &order);
    desk_quote(&desk, "EURUSD", "1.09950", "1.09960");

    struct tw_order modify = modify_of("m", open.position_id, "1.09900", "1.12000");
    cr_expect_eq(desk_execute(&desk, &modify).outcome, TW_OUTCOME_DONE);
    desk_close(&desk);
}

/* ---- Pendings. ---- */

struct pending_case {
    const char *name;
    enum tw_side side;
    enum tw_order_type type;
    const char *price, *bid, *ask;
    const char *fill; /* NULL: it goes on waiting */
};

/* clang-format off */
static const struct pending_case pendings[] = {
    {"buy limit on the ask", TW_BUY, TW_ORDER_LIMIT, "1.09500", "1.09490", "1.09500", "1.095"},
    {"buy limit, only the bid is there", TW_BUY, TW_ORDER_LIMIT, "1.09500", "1.09490", "1.09501", NULL},
    {"buy limit over a gap", TW_BUY, TW_ORDER_LIMIT, "1.09500", "1.08000", "1.08010", "1.0801"},
    {"buy stop on the ask", TW_BUY, TW_ORDER_STOP, "1.11000", "1.10990", "1.11000", "1.11"},
    {"buy stop, not yet", TW_BUY, TW_ORDER_STOP, "1.11000", "1.10980", "1.10999", NULL},
    {"buy stop over a gap", TW_BUY, TW_ORDER_STOP, "1.11000", "1.12000", "1.12010", "1.1201"},
    {"sell limit on the bid", TW_SELL, TW_ORDER_LIMIT, "1.11000", "1.11000", "1.11010", "1.11"},
    {"sell limit, only the ask is there", TW_SELL, TW_ORDER_LIMIT, "1.11000", "1.10999", "1.11009", NULL},
    {"sell stop on the bid", TW_SELL, TW_ORDER_STOP, "1.09500", "1.09500", "1.09510", "1.095"},
    {"sell stop over a gap", TW_SELL, TW_ORDER_STOP, "1.09500", "1.08000", "1.08010", "1.08"},
    {"sell stop, not yet", TW_SELL, TW_ORDER_STOP, "1.09500", "1.09501", "1.09511", NULL},
};
/* clang-format on */

Test(paper_market, pendings_trigger_on_their_side_of_the_quote_and_fill_at_it)
{
    for (size_t i = 0; i < COUNT(pendings); i++) {
        const struct pending_case *c = &pendings[i];
        struct desk desk;
        desk_open(&desk, QUOTED);
        struct tw_order order = place_of("p", "EURUSD", c->side, c->type, "0.10", c->price);
        struct tw_ack placed = desk_execute(&desk, &order);
        cr_assert_eq(placed.outcome, TW_OUTCOME_DONE, "%s: %s", c->name, placed.broker_message);
        cr_expect_eq(desk_lookup(&desk, "p").outcome, TW_OUTCOME_ACCEPTED, "%s", c->name);

        desk_quote(&desk, "EURUSD", c->bid, c->ask);

        struct tw_paper_book book = desk_book(&desk);
        struct tw_ack found = desk_lookup(&desk, "p");
        cr_expect_eq(book.holds.n_orders, c->fill == NULL ? 1 : 0, "%s", c->name);
        cr_assert_eq(book.holds.n_positions, c->fill == NULL ? 0 : 1, "%s", c->name);
        cr_expect_eq(desk.heard.orders_gone, c->fill == NULL ? 0 : 1, "%s", c->name);
        if (c->fill != NULL) {
            assert_decimal(book.holds.positions[0].open_price, c->fill, c->name);
            cr_expect_str_eq(book.holds.positions[0].client_order_id, "p", "%s", c->name);
            cr_expect_str_eq(desk.heard.gone_order, placed.order_id, "%s", c->name);
            cr_expect_str_eq(desk.heard.gone_client, "p", "%s", c->name);
            cr_expect_str_eq(desk.heard.gone_position, book.holds.positions[0].position_id, "%s",
                             c->name);
            cr_expect_eq(desk.heard.positions, 1, "%s", c->name);
            cr_expect_eq(found.outcome, TW_OUTCOME_DONE, "%s", c->name);
            assert_decimal(found.filled_volume, "0.1", c->name);
        }
        tw_paper_book_clear(&book);
        desk_close(&desk);
    }
}

Test(paper_market, a_stop_limit_waits_for_its_stop_and_then_for_its_limit)
{
    struct desk desk;
    desk_open(&desk, QUOTED);
    struct tw_order order = place_of("p", "EURUSD", TW_BUY, TW_ORDER_STOP_LIMIT, "0.10", "1.10500");
    order.stop_price = D("1.11000");
    cr_assert_eq(desk_execute(&desk, &order).outcome, TW_OUTCOME_DONE);

    desk_quote(&desk, "EURUSD", "1.10390",
               "1.10400"); /* below the limit, but its stop was not reached */
    cr_expect_eq(desk.heard.orders_gone, 0);
    desk_quote(&desk, "EURUSD", "1.11090", "1.11100"); /* the stop */
    cr_expect_eq(desk.heard.orders_gone, 0);
    desk_quote(&desk, "EURUSD", "1.10390", "1.10400"); /* the limit */

    cr_expect_eq(desk.heard.orders_gone, 1);
    struct tw_paper_book book = desk_book(&desk);
    assert_decimal(book.holds.positions[0].open_price, "1.104", "fill");
    tw_paper_book_clear(&book);
    desk_close(&desk);
}

Test(paper_market, a_pending_that_the_market_has_reached_already_fills_at_once)
{
    struct desk desk;
    desk_open(&desk, QUOTED);
    struct tw_order order = place_of("p", "EURUSD", TW_BUY, TW_ORDER_LIMIT, "0.10", "1.20000");

    struct tw_ack ack = desk_execute(&desk, &order);

    cr_expect_eq(ack.outcome, TW_OUTCOME_DONE);
    cr_expect_str_neq(ack.position_id, "");
    assert_decimal(ack.filled_volume, "0.1", "filled");
    assert_decimal(ack.average_price, "1.1001", "price");
    desk_close(&desk);
}

Test(paper_market, the_stops_of_a_pending_are_those_of_its_position_and_fire_at_the_same_quote)
{
    struct desk desk;
    desk_open(&desk, QUOTED);
    struct tw_order order = place_of("p", "EURUSD", TW_BUY, TW_ORDER_LIMIT, "0.10", "1.09500");
    order.stop_loss = D("1.09000");
    desk_execute(&desk, &order);

    desk_quote(&desk, "EURUSD", "1.08000", "1.08010"); /* through both */

    struct tw_paper_book book = desk_book(&desk);
    cr_expect_eq(book.holds.n_positions, 0);
    cr_assert_eq(book.n_deals, 2);
    assert_decimal(book.deals[0].price, "1.0801", "in");
    assert_decimal(book.deals[1].price, "1.08", "out");
    tw_paper_book_clear(&book);
    desk_close(&desk);
}

struct place_case {
    const char *name;
    enum tw_order_type type;
    const char *price, *stop_price, *stop_loss, *take_profit;
    int64_t expires_wall_ns;
    enum tw_outcome outcome;
    tw_reason reason;
};

/* clang-format off */
static const struct place_case places[] = {
    {"off the tick", TW_ORDER_LIMIT, "1.095001", "", "", "", 0, TW_OUTCOME_REJECTED, REASON(INVALID_PRICE)},
    {"no price", TW_ORDER_LIMIT, "0", "", "", "", 0, TW_OUTCOME_REJECTED, REASON(INVALID_PRICE)},
    {"stop-limit without a stop", TW_ORDER_STOP_LIMIT, "1.1", "", "", "", 0, TW_OUTCOME_REJECTED, REASON(INVALID_PRICE)},
    {"stop loss on the wrong side", TW_ORDER_LIMIT, "1.09", "", "1.095", "", 0, TW_OUTCOME_REJECTED, REASON(INVALID_STOPS)},
    {"take profit on the wrong side", TW_ORDER_LIMIT, "1.09", "", "", "1.085", 0, TW_OUTCOME_REJECTED, REASON(INVALID_STOPS)},
    {"expired", TW_ORDER_LIMIT, "1.09", "", "", "", 1, TW_OUTCOME_REJECTED, REASON(INVALID_EXPIRY)},
    {"a market order", TW_ORDER_MARKET, "1.09", "", "", "", 0, TW_OUTCOME_UNSUPPORTED, REASON(UNSPECIFIED)},
};
/* clang-format on */

Test(paper_market, a_pending_that_cannot_be_is_refused_with_its_reason)
{
    struct desk desk;
    desk_open(&desk, QUOTED);
    for (size_t i = 0; i < COUNT(places); i++) {
        const struct place_case *c = &places[i];
        struct tw_order order = place_of("p", "EURUSD", TW_BUY, c->type, "0.10", c->price);
        order.stop_price = D(c->stop_price);
        order.stop_loss = D(c->stop_loss);
        order.take_profit = D(c->take_profit);
        order.expires_wall_ns = c->expires_wall_ns;
        struct tw_ack ack = desk_execute(&desk, &order);
        cr_expect_eq(ack.outcome, c->outcome, "%s: outcome %d", c->name, ack.outcome);
        cr_expect_eq(ack.reason, c->reason, "%s: reason %d", c->name, ack.reason);
    }
    desk_close(&desk);
}

Test(paper_market, a_pending_is_moved_and_cancelled_by_its_id)
{
    struct desk desk;
    desk_open(&desk, QUOTED);
    struct tw_order place = place_of("p", "EURUSD", TW_BUY, TW_ORDER_LIMIT, "0.10", "1.09500");
    struct tw_ack placed = desk_execute(&desk, &place);

    struct tw_order move = order_of(TW_OP_MODIFY_ORDER, "m");
    memcpy(move.order_id, placed.order_id, sizeof(move.order_id));
    move.price = D("1.094");
    move.expires_wall_ns = -1;
    cr_expect_eq(desk_execute(&desk, &move).outcome, TW_OUTCOME_DONE);
    cr_expect_eq(desk_execute(&desk, &move).outcome, TW_OUTCOME_NO_CHANGE);
    struct tw_paper_book book = desk_book(&desk);
    assert_decimal(book.holds.orders[0].price, "1.094", "price");
    tw_paper_book_clear(&book);

    struct tw_order cancel = order_of(TW_OP_CANCEL, "x");
    memcpy(cancel.order_id, placed.order_id, sizeof(cancel.order_id));
    cr_expect_eq(desk_execute(&desk, &cancel).outcome, TW_OUTCOME_DONE);
    cr_expect_eq(desk_execute(&desk, &cancel).outcome, TW_OUTCOME_NOT_FOUND);
    struct tw_ack found = desk_lookup(&desk, "p");
    cr_expect_eq(found.outcome, TW_OUTCOME_DONE);
    assert_decimal(found.filled_volume, "0", "filled");
    desk_close(&desk);
}

Test(paper_market, without_the_margin_a_pending_that_triggers_is_gone_and_nothing_else)
{
    struct desk desk;
    desk_open(&desk, QUOTED ";leverage=100;balance=100");
    struct tw_order order = place_of("p", "EURUSD", TW_BUY, TW_ORDER_LIMIT, "1.00", "1.09500");
    cr_assert_eq(desk_execute(&desk, &order).outcome, TW_OUTCOME_DONE);

    desk_quote(&desk, "EURUSD", "1.09000", "1.09010");

    struct tw_paper_book book = desk_book(&desk);
    cr_expect_eq(book.holds.n_positions, 0);
    cr_expect_eq(book.holds.n_orders, 0);
    cr_expect_eq(book.n_deals, 0);
    cr_expect_str_eq(desk.heard.gone_position, "");
    tw_paper_book_clear(&book);
    desk_close(&desk);
}

Test(paper_market, a_pending_expires_when_its_time_comes_and_the_host_hears_of_it, .timeout = 20)
{
    struct tw_reactor *reactor;
    struct desk desk;
    cr_assert_eq(tw_reactor_start("market", &reactor, NULL), TW_OK);
    desk_open_with(&desk, QUOTED, NULL, reactor);
    struct tw_order order = place_of("p", "EURUSD", TW_BUY, TW_ORDER_LIMIT, "0.10", "1.09500");
    order.expires_wall_ns = tw_wall_ns() + 50 * TW_NS_PER_MS;
    cr_assert_eq(desk_execute(&desk, &order).outcome, TW_OUTCOME_DONE);

    int gone = 0;
    while (gone == 0) { /* nobody calls the broker: its own timer does it */
        struct timespec moment = {.tv_nsec = TW_NS_PER_MS};
        nanosleep(&moment, NULL);
        pthread_mutex_lock(&desk.heard.lock);
        gone = desk.heard.orders_gone;
        pthread_mutex_unlock(&desk.heard.lock);
    }

    cr_expect_geq(tw_wall_ns(), order.expires_wall_ns);
    cr_expect_str_eq(desk.heard.gone_position, "");
    struct tw_paper_book book = desk_book(&desk);
    cr_expect_eq(book.holds.n_orders, 0);
    tw_paper_book_clear(&book);
    desk_close(&desk);
    tw_reactor_stop(reactor);
}

Test(paper_market, an_account_with_timers_can_be_closed, .timeout = 20)
{
    struct tw_reactor *reactor;
    struct desk desk;
    cr_assert_eq(tw_reactor_start("market", &reactor, NULL), TW_OK);
    desk_open_with(&desk, QUOTED, NULL, reactor);
    struct tw_order order = place_of("p", "EURUSD", TW_BUY, TW_ORDER_LIMIT, "0.10", "1.09500");
    order.expires_wall_ns = tw_wall_ns() + 3600 * TW_NS_PER_S;
    cr_assert_eq(desk_execute(&desk, &order).outcome, TW_OUTCOME_DONE);

    desk_close(&desk);
    tw_reactor_stop(reactor);
}

/* ---- Many. ---- */

Test(paper_market, a_quote_that_sets_off_a_thousand_orders_has_done_so_when_configure_answers)
{
    enum { N = 500 };
    struct desk desk;
    desk_open(&desk, QUOTED);
    for (int i = 0; i < N; i++) {
        char id[TW_COPY_ID_BYTES];
        snprintf(id, sizeof(id), "o%d", i);
        struct tw_order open = open_of(id, "EURUSD", TW_BUY, "0.10");
        open.stop_loss = D("1.09000");
        cr_assert_eq(desk_execute(&desk, &open).outcome, TW_OUTCOME_DONE);
        snprintf(id, sizeof(id), "p%d", i);
        struct tw_order place = place_of(id, "EURUSD", TW_SELL, TW_ORDER_STOP, "0.10", "1.09000");
        cr_assert_eq(desk_execute(&desk, &place).outcome, TW_OUTCOME_DONE);
    }

    desk_quote(&desk, "EURUSD", "1.08990", "1.09000");

    struct tw_paper_book book = desk_book(&desk);
    cr_expect_eq(book.n_deals, 3 * N);
    cr_expect_eq(book.holds.n_positions, N);
    cr_expect_eq(book.holds.n_orders, 0);
    cr_expect_eq(desk.heard.orders_gone, N);
    cr_expect_eq(desk.heard.positions, 2 * N);
    tw_paper_book_clear(&book);
    desk_close(&desk);
}
