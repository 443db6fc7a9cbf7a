/* Netting accounts: one position per symbol. */
#include "paper_fixture.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define NETTING      "latency=zero;account_mode=netting"

struct step {
    enum tw_side side;
    const char *volume, *price;
};

struct net_case {
    const char *name;
    struct step steps[4];
    size_t n_steps;
    enum tw_side side;
    const char *volume, *open_price, *balance; /* volume "0": flat */
};

/* One symbol with a contract of 1, so that money is easy to read. */
/* clang-format off */
static const struct net_case nets[] = {
    {"adds at the average", {{TW_BUY, "1", "10"}, {TW_BUY, "3", "14"}}, 2, TW_BUY, "4", "13", "1000"},
    {"the average is rounded once", {{TW_BUY, "1", "10"}, {TW_BUY, "2", "11"}}, 2, TW_BUY, "3", "10.66666667", "1000"},
    {"the other side reduces and realizes", {{TW_BUY, "4", "10"}, {TW_SELL, "1", "12"}}, 2, TW_BUY, "3", "10", "1002"},
    {"flat", {{TW_SELL, "2", "10"}, {TW_BUY, "2", "7"}}, 2, TW_SIDE_NONE, "0", "0", "1006"},
    {"over to the other side at the price of the flip", {{TW_BUY, "1", "10"}, {TW_SELL, "3", "9"}}, 2, TW_SELL, "2", "9", "999"},
    {"there and back", {{TW_BUY, "1", "10"}, {TW_SELL, "2", "11"}, {TW_BUY, "3", "10"}}, 3, TW_BUY, "2", "10", "1002"},
};
/* clang-format on */

Test(paper_netting, orders_meet_in_one_position)
{
    for (size_t i = 0; i < COUNT(nets); i++) {
        const struct net_case *c = &nets[i];
        struct desk desk;
        desk_open(&desk,
                  NETTING ";balance=1000;instruments={\"X\":{\"min\":1,\"step\":1,\"max\":100,"
                          "\"contract\":1,\"tick\":\"0.01\"}}");
        for (size_t k = 0; k < c->n_steps; k++) {
            char id[] = {'o', (char)('0' + k), '\0'};
            struct tw_order order = open_of(id, "X", c->steps[k].side, c->steps[k].volume);
            order.price = D(c->steps[k].price);
            struct tw_ack ack = desk_execute(&desk, &order);
            cr_assert_eq(ack.outcome, TW_OUTCOME_DONE, "%s: step %zu", c->name, k);
            cr_expect_eq(ack.filled_volume, order.volume, "%s: step %zu", c->name, k);
        }
        struct tw_paper_book book = desk_book(&desk);
        cr_expect_eq(book.n_deals, c->n_steps, "%s", c->name);
        cr_assert_eq(book.holds.n_positions, c->side == TW_SIDE_NONE ? 0 : 1, "%s", c->name);
        if (c->side != TW_SIDE_NONE) {
            cr_expect_eq(book.holds.positions[0].side, c->side, "%s", c->name);
            assert_decimal(book.holds.positions[0].volume, c->volume, c->name);
            assert_decimal(book.holds.positions[0].open_price, c->open_price, c->name);
        }
        assert_decimal(book.holds.account.balance, c->balance, c->name);
        tw_paper_book_clear(&book);
        desk_close(&desk);
    }
}

static struct tw_order net_close(const char *id, const char *symbol, enum tw_side side,
                                 const char *volume)
{
    struct tw_order order = open_of(id, symbol, side, "1");
    order.op = TW_OP_CLOSE;
    order.volume = D(volume);
    order.reduce_only = true;
    return order;
}

Test(paper_netting, a_close_is_by_symbol_and_never_crosses_zero)
{
    struct desk desk;
    desk_open(&desk, NETTING);
    desk_open_position(&desk, "o", "EURUSD", TW_BUY, "0.30");

    struct tw_order wrong_side = net_close("w", "EURUSD", TW_BUY, "0.10");
    struct tw_order other = net_close("g", "GBPUSD", TW_SELL, "0.10");
    struct tw_order part = net_close("p", "EURUSD", TW_SELL, "0.10");
    struct tw_order more = net_close("m", "EURUSD", TW_SELL, "5");
    cr_expect_eq(desk_execute(&desk, &wrong_side).outcome, TW_OUTCOME_NOT_FOUND);
    cr_expect_eq(desk_execute(&desk, &other).outcome, TW_OUTCOME_NOT_FOUND);
    struct tw_ack parted = desk_execute(&desk, &part), closed = desk_execute(&desk, &more);
    struct tw_ack again = desk_execute(&desk, &more);

    assert_decimal(parted.remaining_volume, "0.2", "remaining");
    cr_expect_eq(closed.outcome, TW_OUTCOME_DONE);
    assert_decimal(closed.filled_volume, "0.2", "filled: what there was");
    assert_decimal(closed.remaining_volume, "0", "remaining");
    cr_expect_eq(again.outcome, TW_OUTCOME_NOT_FOUND);
    desk_close(&desk);
}

Test(paper_netting, a_reduce_only_order_is_cut_to_what_there_is_or_refused)
{
    struct desk desk;
    desk_open(&desk, NETTING);
    struct tw_order reduce = open_of("r", "EURUSD", TW_SELL, "0.50");
    reduce.reduce_only = true;

    cr_expect_eq(desk_execute(&desk, &reduce).outcome, TW_OUTCOME_REJECTED);
    desk_open_position(&desk, "o", "EURUSD", TW_BUY, "0.30");
    struct tw_ack cut = desk_execute(&desk, &reduce);

    cr_expect_eq(cut.outcome, TW_OUTCOME_PARTIAL);
    assert_decimal(cut.filled_volume, "0.3", "filled");
    struct tw_paper_book book = desk_book(&desk);
    cr_expect_eq(book.holds.n_positions, 0);
    tw_paper_book_clear(&book);
    desk_close(&desk);
}

Test(paper_netting, the_one_position_carries_the_stops_last_given)
{
    struct desk desk;
    desk_open(&desk, NETTING ";quotes={\"EURUSD\":\"1.10000/1.10000\"}");
    struct tw_order first = open_of("a", "EURUSD", TW_BUY, "0.10");
    first.stop_loss = D("1.09");
    first.take_profit = D("1.12");
    struct tw_order second = open_of("b", "EURUSD", TW_BUY, "0.10");
    second.stop_loss = D("1.08");
    desk_execute(&desk, &first);
    desk_execute(&desk, &second);

    struct tw_paper_book book = desk_book(&desk);
    assert_decimal(book.holds.positions[0].stop_loss, "1.08", "stop loss");
    assert_decimal(book.holds.positions[0].take_profit, "1.12", "take profit");
    tw_paper_book_clear(&book);

    struct tw_order modify = order_of(TW_OP_MODIFY, "m");
    strcpy(modify.symbol, "EURUSD");
    modify.side = TW_BUY;
    modify.stop_loss = D("1.095");
    cr_expect_eq(desk_execute(&desk, &modify).outcome, TW_OUTCOME_DONE);
    modify.side = TW_SELL;
    cr_expect_eq(desk_execute(&desk, &modify).outcome, TW_OUTCOME_NOT_FOUND);
    desk_quote(&desk, "EURUSD", "1.09500", "1.09510");
    book = desk_book(&desk);
    cr_expect_eq(book.holds.n_positions, 0, "the stop closes all of it");
    cr_expect_eq(book.n_deals, 3);
    tw_paper_book_clear(&book);
    desk_close(&desk);
}

Test(paper_netting, a_flip_drops_the_stops_of_the_side_that_is_gone)
{
    struct desk desk;
    desk_open(&desk, NETTING ";quotes={\"EURUSD\":\"1.10000/1.10000\"}");
    struct tw_order first = open_of("a", "EURUSD", TW_BUY, "0.10");
    first.stop_loss = D("1.09");
    desk_execute(&desk, &first);
    struct tw_ack flip = desk_open_position(&desk, "b", "EURUSD", TW_SELL, "0.20");

    struct tw_paper_book book = desk_book(&desk);
    cr_assert_eq(book.holds.n_positions, 1);
    cr_expect_str_eq(book.holds.positions[0].position_id, flip.position_id);
    cr_expect_str_eq(book.holds.positions[0].client_order_id, "b");
    assert_decimal(book.holds.positions[0].stop_loss, "0", "stop loss");
    tw_paper_book_clear(&book);
    desk_close(&desk);
}

Test(paper_netting, margin_is_for_what_is_held_in_the_end)
{
    struct desk desk;
    desk_open(&desk, NETTING ";leverage=100;balance=1200;quotes={\"EURUSD\":\"1.00000/1.00000\"}");

    cr_expect_eq(desk_open_position(&desk, "a", "EURUSD", TW_BUY, "1.00").outcome, TW_OUTCOME_DONE);
    cr_expect_eq(desk_open_position(&desk, "b", "EURUSD", TW_BUY, "0.50").reason, REASON(NO_MONEY));
    cr_expect_eq(desk_open_position(&desk, "c", "EURUSD", TW_SELL, "2.20").outcome,
                 TW_OUTCOME_DONE);
    assert_decimal(desk.heard.account.free_margin, "0", "free margin of 1.20 short");
    cr_expect_eq(desk_open_position(&desk, "d", "EURUSD", TW_BUY, "0.20").outcome, TW_OUTCOME_DONE);
    desk_close(&desk);
}

Test(paper_netting, a_hand_closes_by_the_ticket_it_sees)
{
    struct desk desk;
    desk_open(&desk, NETTING);
    struct tw_ack open = desk_open_position(&desk, "o", "EURUSD", TW_SELL, "0.30");
    struct tw_order close = close_of("", open.position_id, "0.10"), gone = close_of("", "99", "");
    char id[TW_BROKER_ID_BYTES];
    tw_reason reason;

    cr_expect_eq(tw_paper_act(desk.adapter, "F1", &close, id, &reason, NULL), TW_OK);
    cr_expect_eq(tw_paper_act(desk.adapter, "F1", &gone, id, &reason, NULL), TW_NOT_FOUND);

    assert_decimal(desk.heard.position.volume, "0.2", "what is left");
    cr_expect_eq(desk.heard.reason, REASON(ALREADY_CLOSED));
    desk_close(&desk);
}
