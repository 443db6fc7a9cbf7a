#include "paper_fixture.h"

#define QUOTED "latency=zero;quotes={\"EURUSD\":\"1.10000/1.10020\"}"

Test(paper_hedging, the_host_hears_account_and_instruments_before_the_connection)
{
    struct desk desk;
    desk_open(&desk, QUOTED ";balance=2500.50;currency=EUR");

    cr_expect(desk.heard.is_connected);
    cr_expect(desk.heard.account_before_connection);
    cr_expect(desk.heard.instruments_before_connection);
    cr_expect_eq(desk.heard.quotes, 1);
    assert_decimal(desk.heard.bid, "1.1", "bid");
    assert_decimal(desk.heard.account.balance, "2500.5", "balance");
    assert_decimal(desk.heard.account.free_margin, "2500.5", "free margin");
    cr_expect_str_eq(desk.heard.account.currency, "EUR");
    desk_close(&desk);
}

Test(paper_hedging, a_market_order_trades_at_its_side_of_the_quote)
{
    struct desk desk;
    desk_open(&desk, QUOTED);

    struct tw_ack buy = desk_open_position(&desk, "b", "EURUSD", TW_BUY, "0.10");
    struct tw_ack sell = desk_open_position(&desk, "s", "EURUSD", TW_SELL, "0.10");
    struct tw_ack closed_buy = desk_close_position(&desk, "cb", buy.position_id, "");
    struct tw_ack closed_sell = desk_close_position(&desk, "cs", sell.position_id, "");

    cr_expect_eq(buy.outcome, TW_OUTCOME_DONE);
    assert_decimal(buy.average_price, "1.1002", "buy");
    assert_decimal(sell.average_price, "1.1", "sell");
    assert_decimal(closed_buy.average_price, "1.1", "close of the buy");
    assert_decimal(closed_sell.average_price, "1.1002", "close of the sell");
    desk_close(&desk);
}

Test(paper_hedging, without_a_quote_the_event_s_price_counts_then_the_open_price_then_one)
{
    struct desk desk;
    desk_open(&desk, "latency=zero");

    struct tw_order priced = open_of("p", "EURUSD", TW_BUY, "0.10");
    priced.price = D("1.25");
    struct tw_ack open = desk_execute(&desk, &priced);
    struct tw_ack bare = desk_open_position(&desk, "b", "EURUSD", TW_BUY, "0.10");
    struct tw_order close_priced = close_of("c1", open.position_id, "0.04");
    close_priced.price = D("1.5");
    struct tw_ack first = desk_execute(&desk, &close_priced);
    struct tw_ack rest = desk_close_position(&desk, "c2", open.position_id, "");

    assert_decimal(open.average_price, "1.25", "open");
    assert_decimal(bare.average_price, "1", "open without any price");
    assert_decimal(first.average_price, "1.5", "close with a price");
    assert_decimal(rest.average_price, "1.25", "close without one");
    desk_close(&desk);
}

Test(paper_hedging, a_partial_close_keeps_the_ticket_and_says_what_remains)
{
    struct desk desk;
    desk_open(&desk, QUOTED);

    struct tw_ack open = desk_open_position(&desk, "o", "EURUSD", TW_BUY, "0.10");
    struct tw_ack part = desk_close_position(&desk, "c", open.position_id, "0.04");
    struct tw_paper_book book = desk_book(&desk);

    cr_expect_eq(part.outcome, TW_OUTCOME_DONE);
    assert_decimal(part.remaining_volume, "0.06", "remaining");
    cr_expect_str_eq(part.remainder_position_id, "");
    cr_assert_eq(book.holds.n_positions, 1);
    cr_expect_str_eq(book.holds.positions[0].position_id, open.position_id);
    cr_expect_str_eq(book.holds.positions[0].client_order_id, "o");
    cr_expect_eq(book.n_deals, 2);
    cr_expect_eq(book.calls, 2);
    tw_paper_book_clear(&book);
    desk_close(&desk);
}

Test(paper_hedging, with_new_ticket_the_remainder_is_a_position_of_its_own_with_the_same_client_id)
{
    struct desk desk;
    desk_open(&desk, QUOTED ";remainder=new_ticket");

    struct tw_ack open = desk_open_position(&desk, "o", "EURUSD", TW_BUY, "0.10");
    struct tw_ack part = desk_close_position(&desk, "c", open.position_id, "0.04");
    struct tw_ack again = desk_close_position(&desk, "c2", open.position_id, "0.01");
    struct tw_ack found = desk_lookup(&desk, "c");
    struct tw_paper_book book = desk_book(&desk);

    cr_assert_str_neq(part.remainder_position_id, "");
    cr_expect_str_neq(part.remainder_position_id, open.position_id);
    cr_expect_eq(again.outcome, TW_OUTCOME_NOT_FOUND);
    cr_expect_str_eq(found.remainder_position_id, part.remainder_position_id);
    cr_assert_eq(book.holds.n_positions, 1);
    cr_expect_str_eq(book.holds.positions[0].position_id, part.remainder_position_id);
    cr_expect_str_eq(book.holds.positions[0].from_position_id, open.position_id);
    cr_expect_str_eq(book.holds.positions[0].client_order_id, "o");
    tw_paper_book_clear(&book);
    desk_close(&desk);
}

Test(paper_hedging, what_is_gone_is_not_found_and_that_is_final)
{
    struct desk desk;
    desk_open(&desk, QUOTED);

    struct tw_order modify = modify_of("m", "4711", "1.0", "");
    struct tw_order cancel = order_of(TW_OP_CANCEL, "x");
    snprintf(cancel.order_id, sizeof(cancel.order_id), "12");
    struct tw_order change = order_of(TW_OP_MODIFY_ORDER, "mo");
    snprintf(change.order_id, sizeof(change.order_id), "not a ticket");

    cr_expect_eq(desk_close_position(&desk, "c", "4711", "").outcome, TW_OUTCOME_NOT_FOUND);
    cr_expect_eq(desk_execute(&desk, &modify).outcome, TW_OUTCOME_NOT_FOUND);
    cr_expect_eq(desk_execute(&desk, &cancel).outcome, TW_OUTCOME_NOT_FOUND);
    cr_expect_eq(desk_execute(&desk, &change).outcome, TW_OUTCOME_NOT_FOUND);
    desk_close(&desk);
}

Test(paper_hedging, a_known_client_id_is_executed_twice_and_the_look_up_shows_the_sum)
{
    struct desk desk;
    desk_open(&desk, QUOTED);

    desk_open_position(&desk, "same", "EURUSD", TW_BUY, "0.10");
    desk_open_position(&desk, "same", "EURUSD", TW_BUY, "0.10");
    struct tw_ack found = desk_lookup(&desk, "same");
    struct tw_paper_book book = desk_book(&desk);

    cr_expect_eq(book.holds.n_positions, 2);
    cr_expect_eq(book.n_deals, 2);
    cr_expect_eq(found.outcome, TW_OUTCOME_DONE);
    assert_decimal(found.filled_volume, "0.2", "filled");
    tw_paper_book_clear(&book);
    desk_close(&desk);
}

Test(paper_hedging, a_refusal_or_a_change_under_an_id_never_hides_what_was_executed_under_it)
{
    struct desk desk;
    desk_open(&desk, QUOTED);
    struct tw_ack open = desk_open_position(&desk, "same", "EURUSD", TW_BUY, "0.10");
    struct tw_order modify = modify_of("same", open.position_id, "1.05", "");

    cr_expect_eq(desk_open_position(&desk, "same", "EURUSD", TW_BUY, "0.001").outcome,
                 TW_OUTCOME_REJECTED);
    cr_expect_eq(desk_execute(&desk, &modify).outcome, TW_OUTCOME_DONE);
    struct tw_ack found = desk_lookup(&desk, "same");

    cr_expect_eq(found.outcome, TW_OUTCOME_DONE);
    assert_decimal(found.filled_volume, "0.1", "filled");
    cr_expect_str_eq(found.position_id, open.position_id);
    desk_close(&desk);
}

Test(paper_hedging, the_oldest_answers_and_deals_are_forgotten_and_the_newest_are_found)
{
    enum { N = 20000 };
    struct desk desk;
    desk_open(&desk, QUOTED);
    struct tw_ack last = {0};
    char id[TW_COPY_ID_BYTES];
    for (int i = 0; i < N; i++) {
        snprintf(id, sizeof(id), "o%d", i);
        if (i % 2 == 0)
            last = desk_open_position(&desk, id, "EURUSD", TW_BUY, "0.10");
        else
            cr_assert_eq(desk_close_position(&desk, id, last.position_id, "").outcome,
                         TW_OUTCOME_DONE);
    }

    cr_expect_eq(desk_lookup(&desk, "o0").outcome, TW_OUTCOME_NOT_FOUND);
    for (int i = N - 16384; i < N; i++) {
        snprintf(id, sizeof(id), "o%d", i);
        cr_assert_eq(desk_lookup(&desk, id).outcome, TW_OUTCOME_DONE, "%s", id);
    }
    struct tw_paper_book book = desk_book(&desk);
    cr_assert_eq(book.n_deals, 16384);
    cr_expect_str_eq(book.deals[0].client_order_id, "o3616");
    cr_expect_str_eq(book.deals[16383].client_order_id, id);
    cr_expect_eq(book.calls, N);
    tw_paper_book_clear(&book);
    desk_close(&desk);
}

Test(paper_hedging, a_look_up_finds_what_was_closed_long_ago_and_nothing_that_never_was)
{
    struct desk desk;
    desk_open(&desk, QUOTED);

    struct tw_ack open = desk_open_position(&desk, "o", "EURUSD", TW_BUY, "0.10");
    desk_close_position(&desk, "c", open.position_id, "");
    struct tw_ack found = desk_lookup(&desk, "o"), closed = desk_lookup(&desk, "c");

    cr_expect_eq(found.outcome, TW_OUTCOME_DONE);
    cr_expect_str_eq(found.position_id, open.position_id);
    cr_expect_eq(closed.outcome, TW_OUTCOME_DONE);
    assert_decimal(closed.remaining_volume, "0", "remaining");
    cr_expect_eq(desk_lookup(&desk, "never").outcome, TW_OUTCOME_NOT_FOUND);
    desk_close(&desk);
}

Test(paper_hedging, profit_moves_balance_and_equity_and_the_host_hears_both)
{
    struct desk desk;
    desk_open(&desk, "latency=zero;quotes={\"EURUSD\":\"1.10000/1.10000\"}");

    struct tw_ack open = desk_open_position(&desk, "o", "EURUSD", TW_BUY, "1.00");
    desk_quote(&desk, "EURUSD", "1.09000", "1.09000");
    assert_decimal(desk.heard.account.equity, "9000", "equity while it is open");
    assert_decimal(desk.heard.account.balance, "10000", "balance while it is open");
    desk_close_position(&desk, "c", open.position_id, "");

    assert_decimal(desk.heard.account.equity, "9000", "equity");
    assert_decimal(desk.heard.account.balance, "9000", "balance");
    desk_close(&desk);
}

struct conversion {
    const char *name, *quotes, *equity;
};

/* A yen position of one lot that has gained one yen: 100000 JPY. */
static const struct conversion conversions[] = {
    {"the pair itself", "{\"USDJPY\":\"150/150\",\"JPYUSD\":\"0.00600/0.00800\"}", "10700"},
    {"one over the inverse", "{\"USDJPY\":\"199/201\"}", "10500"},
    {"nobody quotes it", "{\"EURJPY\":\"150/150\"}", "110000"},
};

Test(paper_hedging, profit_is_converted_at_the_mid_of_the_pair_else_its_inverse_else_not)
{
    for (size_t i = 0; i < sizeof(conversions) / sizeof(conversions[0]); i++) {
        const struct conversion *c = &conversions[i];
        char settings[512];
        struct desk desk;
        snprintf(settings, sizeof(settings), "latency=zero;quotes=%s", c->quotes);
        desk_open(&desk, settings);
        struct tw_order order = open_of("o", "EURJPY", TW_BUY, "1.00");
        desk_quote(&desk, "EURJPY", "150", "150");
        cr_assert_eq(desk_execute(&desk, &order).outcome, TW_OUTCOME_DONE, "%s", c->name);

        desk_quote(&desk, "EURJPY", "151", "151");

        assert_decimal(desk.heard.account.equity, c->equity, c->name);
        desk_close(&desk);
    }
}

struct refused_open {
    const char *name, *symbol, *volume, *stop_loss, *take_profit;
    tw_reason reason;
};

static const struct refused_open refused_opens[] = {
    {"unknown symbol", "NOPE", "0.10", "", "", REASON(SYMBOL_NOT_FOUND)},
    {"below the minimum", "EURUSD", "0.001", "", "", REASON(INVALID_VOLUME)},
    {"above the maximum", "EURUSD", "100.01", "", "", REASON(INVALID_VOLUME)},
    {"off the step", "EURUSD", "0.015", "", "", REASON(INVALID_VOLUME)},
    {"stop loss above the bid", "EURUSD", "0.10", "1.10001", "", REASON(INVALID_STOPS)},
    {"take profit below the bid", "EURUSD", "0.10", "", "1.09999", REASON(INVALID_STOPS)},
    {"stop off the tick", "EURUSD", "0.10", "1.090001", "", REASON(INVALID_STOPS)},
};

Test(paper_hedging, what_the_instrument_does_not_allow_is_rejected_with_its_reason)
{
    struct desk desk;
    desk_open(&desk, QUOTED);
    for (size_t i = 0; i < sizeof(refused_opens) / sizeof(refused_opens[0]); i++) {
        const struct refused_open *c = &refused_opens[i];
        struct tw_order order = open_of("o", c->symbol, TW_BUY, c->volume);
        order.stop_loss = D(c->stop_loss);
        order.take_profit = D(c->take_profit);

        struct tw_ack ack = desk_execute(&desk, &order);

        cr_expect_eq(ack.outcome, TW_OUTCOME_REJECTED, "%s: outcome %d", c->name, ack.outcome);
        cr_expect_eq(ack.reason, c->reason, "%s: reason %d", c->name, ack.reason);
    }
    struct tw_paper_book book = desk_book(&desk);
    cr_expect_eq(book.holds.n_positions, 0);
    cr_expect_eq(book.n_deals, 0);
    tw_paper_book_clear(&book);
    desk_close(&desk);
}

Test(paper_hedging, with_leverage_an_order_without_the_margin_for_it_is_no_money)
{
    struct desk desk;
    desk_open(&desk,
              "latency=zero;leverage=100;balance=1000;quotes={\"EURUSD\":\"1.10000/1.10000\"}");

    struct tw_ack too_much = desk_open_position(&desk, "a", "EURUSD", TW_BUY, "1.00");
    struct tw_ack fits = desk_open_position(&desk, "b", "EURUSD", TW_BUY, "0.90");
    struct tw_ack no_more = desk_open_position(&desk, "c", "EURUSD", TW_BUY, "0.01");

    cr_expect_eq(too_much.outcome, TW_OUTCOME_REJECTED);
    cr_expect_eq(too_much.reason, REASON(NO_MONEY));
    cr_expect_eq(fits.outcome, TW_OUTCOME_DONE);
    assert_decimal(desk.heard.account.free_margin, "10", "free margin");
    cr_expect_eq(no_more.reason, REASON(NO_MONEY));
    desk_close(&desk);
}

Test(paper_hedging, a_change_to_what_is_already_so_is_no_change)
{
    struct desk desk;
    desk_open(&desk, QUOTED);
    struct tw_ack open = desk_open_position(&desk, "o", "EURUSD", TW_BUY, "0.10");

    struct tw_order set = modify_of("m1", open.position_id, "1.09", "");
    struct tw_order same = modify_of("m2", open.position_id, "1.09", "0");
    struct tw_order removed = modify_of("m3", open.position_id, "0", "");

    cr_expect_eq(desk_execute(&desk, &set).outcome, TW_OUTCOME_DONE);
    cr_expect_eq(desk_execute(&desk, &same).outcome, TW_OUTCOME_NO_CHANGE);
    cr_expect_eq(desk_execute(&desk, &removed).outcome, TW_OUTCOME_DONE);
    struct tw_paper_book book = desk_book(&desk);
    assert_decimal(book.holds.positions[0].stop_loss, "0", "stop loss");
    tw_paper_book_clear(&book);
    desk_close(&desk);
}

Test(paper_hedging, a_second_session_of_one_account_is_refused)
{
    struct desk desk;
    desk_open(&desk, QUOTED);
    struct tw_session_options options = {.follower_id = "F1", .host = host_of(&desk.heard)};
    void *second = NULL;
    struct tw_error error = {{0}};

    cr_expect_eq(tw_adapter_paper.session_open(desk.adapter, &options, &second, &error), TW_EXISTS);
    cr_expect_null(second);
    desk_close(&desk);
}

Test(paper_hedging, the_account_is_there_after_its_session)
{
    struct desk desk;
    struct tw_error error = {{0}};
    desk_open(&desk, QUOTED);
    desk_open_position(&desk, "o", "EURUSD", TW_BUY, "0.10");
    tw_adapter_paper.session_close(desk.session);

    struct tw_paper_book book = desk_book(&desk);
    cr_expect_eq(book.holds.n_positions, 1);
    tw_paper_book_clear(&book);
    desk_quote(&desk, "EURUSD", "1.2", "1.2");
    cr_assert_eq(desk_session(&desk, QUOTED, &error), TW_OK, "%s", error.text);

    assert_decimal(desk.heard.bid, "1.2", "the quote of the broker, not of the settings");
    cr_expect_eq(desk_lookup(&desk, "o").outcome, TW_OUTCOME_DONE);
    desk_close(&desk);
}
