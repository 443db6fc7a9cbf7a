/* What goes wrong on purpose: what the caller is told, what really happened, and how it is counted.
 */
#include "paper_fixture.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define QUOTES       "quotes={\"EURUSD\":\"1.10000/1.10020\"}"

struct fault_case {
    const char *name, *faults;
    enum tw_outcome outcome;
    tw_reason reason;
    bool executed;
    uint64_t calls;
    enum tw_outcome looked_up;
};

/* The first open of 0.10 at an account that answers in 2 ms, with 60 ms of patience. */
/* clang-format off */
static const struct fault_case fault_cases[] = {
    {"requote", "open#1=requote", TW_OUTCOME_RETRY_NOW, REASON(REQUOTE), false, 1, TW_OUTCOME_NOT_FOUND},
    {"off quotes", "open#1=off_quotes", TW_OUTCOME_RETRY_NOW, REASON(REQUOTE), false, 1, TW_OUTCOME_NOT_FOUND},
    {"busy", "open#1=busy", TW_OUTCOME_RETRY_LATER, REASON(BUSY), false, 1, TW_OUTCOME_NOT_FOUND},
    {"rate limited", "open#1=rate_limited", TW_OUTCOME_RETRY_LATER, REASON(RATE_LIMITED), false, 1, TW_OUTCOME_NOT_FOUND},
    {"no money", "open#1=no_money", TW_OUTCOME_REJECTED, REASON(NO_MONEY), false, 1, TW_OUTCOME_REJECTED},
    {"market closed", "open#1=market_closed", TW_OUTCOME_REJECTED, REASON(MARKET_CLOSED), false, 1, TW_OUTCOME_REJECTED},
    {"reject", "open#1=reject", TW_OUTCOME_REJECTED, REASON(BROKER_OTHER), false, 1, TW_OUTCOME_REJECTED},
    {"reject, executed", "open#1=reject_executed", TW_OUTCOME_REJECTED, REASON(BROKER_OTHER), true, 1, TW_OUTCOME_DONE},
    {"delay", "open#1=delay:20ms", TW_OUTCOME_DONE, REASON(UNSPECIFIED), true, 1, TW_OUTCOME_DONE},
    {"delay past the time-out", "open#1=delay:10s", TW_OUTCOME_AMBIGUOUS, REASON(TIMEOUT), false, 0, TW_OUTCOME_NOT_FOUND},
    {"hang, executed", "open#1=hang_executed:20ms", TW_OUTCOME_DONE, REASON(UNSPECIFIED), true, 1, TW_OUTCOME_DONE},
    {"hang", "open#1=hang:20ms", TW_OUTCOME_AMBIGUOUS, REASON(TIMEOUT), false, 1, TW_OUTCOME_NOT_FOUND},
    {"time-out, executed", "open#1=timeout_executed", TW_OUTCOME_AMBIGUOUS, REASON(TIMEOUT), true, 1, TW_OUTCOME_DONE},
    {"time-out, lost", "open#1=timeout_lost", TW_OUTCOME_AMBIGUOUS, REASON(TIMEOUT), false, 0, TW_OUTCOME_NOT_FOUND},
    {"every call of any kind", "any#*=busy", TW_OUTCOME_RETRY_LATER, REASON(BUSY), false, 1, TW_OUTCOME_AMBIGUOUS},
    {"another op", "close#1=busy", TW_OUTCOME_DONE, REASON(UNSPECIFIED), true, 1, TW_OUTCOME_DONE},
};
/* clang-format on */

Test(paper_faults, each_says_what_it_should_and_does_what_it_should)
{
    for (size_t i = 0; i < COUNT(fault_cases); i++) {
        const struct fault_case *c = &fault_cases[i];
        struct desk desk;
        char settings[512];
        snprintf(settings, sizeof(settings), "latency=constant:2ms;call_timeout=60ms;%s;faults=%s",
                 QUOTES, c->faults);
        desk_open(&desk, settings);

        struct tw_ack ack = desk_open_position(&desk, "o", "EURUSD", TW_BUY, "0.10");
        struct tw_ack found = desk_lookup(&desk, "o");
        struct tw_paper_book book = desk_book(&desk);

        cr_expect_eq(ack.outcome, c->outcome, "%s: outcome %d", c->name, ack.outcome);
        cr_expect_eq(ack.reason, c->reason, "%s: reason %d", c->name, ack.reason);
        cr_expect_eq(book.holds.n_positions, c->executed ? 1 : 0, "%s", c->name);
        cr_expect_eq(book.n_deals, c->executed ? 1 : 0, "%s", c->name);
        cr_expect_eq(book.calls, c->calls, "%s: %llu calls", c->name,
                     (unsigned long long)book.calls);
        cr_expect_eq(found.outcome, c->looked_up, "%s: look-up %d", c->name, found.outcome);
        tw_paper_book_clear(&book);
        desk_close(&desk);
    }
}

Test(paper_faults, a_partial_open_fills_that_much_and_the_rest_is_gone)
{
    struct desk desk;
    desk_open(&desk, "latency=zero;faults=open#1=partial:0.06;" QUOTES);

    struct tw_ack open = desk_open_position(&desk, "o", "EURUSD", TW_BUY, "0.10");
    struct tw_ack found = desk_lookup(&desk, "o");

    cr_expect_eq(open.outcome, TW_OUTCOME_PARTIAL);
    assert_decimal(open.filled_volume, "0.06", "filled");
    cr_expect_eq(found.outcome, TW_OUTCOME_PARTIAL);
    assert_decimal(found.filled_volume, "0.06", "filled, looked up");
    struct tw_paper_book book = desk_book(&desk);
    assert_decimal(book.holds.positions[0].volume, "0.06", "held");
    tw_paper_book_clear(&book);
    desk_close(&desk);
}

Test(paper_faults, a_partial_close_leaves_the_rest_in_the_position)
{
    struct desk desk;
    desk_open(&desk, "latency=zero;faults=close#1=partial:0.01,close#2=partial:5;" QUOTES);
    struct tw_ack open = desk_open_position(&desk, "o", "EURUSD", TW_BUY, "0.10");

    struct tw_ack part = desk_close_position(&desk, "c1", open.position_id, "0.03");
    struct tw_ack whole = desk_close_position(&desk, "c2", open.position_id, "0.03");

    cr_expect_eq(part.outcome, TW_OUTCOME_PARTIAL);
    assert_decimal(part.filled_volume, "0.01", "filled");
    assert_decimal(part.remaining_volume, "0.09", "remaining");
    cr_expect_eq(whole.outcome, TW_OUTCOME_DONE, "more than was asked for is all of it");
    assert_decimal(whole.remaining_volume, "0.06", "remaining");
    desk_close(&desk);
}

Test(paper_faults, no_stops_executes_and_says_that_the_stops_are_missing)
{
    struct desk desk;
    desk_open(&desk, "latency=zero;faults=open#1=no_stops;" QUOTES);
    struct tw_order order = open_of("o", "EURUSD", TW_BUY, "0.10");
    order.stop_loss = D("1.09");

    struct tw_ack ack = desk_execute(&desk, &order);

    cr_expect_eq(ack.outcome, TW_OUTCOME_DONE);
    cr_expect(ack.stops_missing);
    cr_expect(desk_lookup(&desk, "o").stops_missing);
    struct tw_paper_book book = desk_book(&desk);
    assert_decimal(book.holds.positions[0].stop_loss, "0", "stop loss");
    tw_paper_book_clear(&book);
    desk_close(&desk);
}

Test(paper_faults, a_dropped_reply_was_executed_and_the_connection_comes_back_by_itself)
{
    struct desk desk;
    desk_open(&desk, "latency=zero;faults=open#1=drop_reply;" QUOTES);

    struct tw_ack lost = desk_open_position(&desk, "o", "EURUSD", TW_BUY, "0.10");
    cr_expect_eq(lost.outcome, TW_OUTCOME_AMBIGUOUS);
    cr_expect_eq(lost.reason, REASON(NO_CONNECTION));
    cr_expect_eq(desk.heard.losses, 1);
    struct tw_ack offline = desk_open_position(&desk, "p", "EURUSD", TW_BUY, "0.10");
    cr_expect_eq(offline.outcome, TW_OUTCOME_RETRY_LATER);
    cr_expect(offline.not_sent);
    while (!desk.heard.is_connected)
        desk_lookup(&desk,
                    "o"); /* without a reactor the next call that comes late enough reconnects */

    cr_expect_eq(desk.heard.connections, 2);
    cr_expect_eq(desk_lookup(&desk, "o").outcome, TW_OUTCOME_DONE);
    cr_expect_eq(desk_lookup(&desk, "p").outcome, TW_OUTCOME_NOT_FOUND);
    desk_close(&desk);
}

Test(paper_faults, repeats_and_lost_calls_count)
{
    struct desk desk;
    desk_open(&desk, "latency=zero;call_timeout=5ms;" QUOTES
                     ";faults=open#1=timeout_lost,open#3=busy,modify#1=reject,place#1=reject,"
                     "cancel#1=reject,lookup#2=timeout_lost");
    struct tw_order modify = modify_of("m", "1", "1", ""), cancel = order_of(TW_OP_CANCEL, "x");
    struct tw_order place = place_of("p", "EURUSD", TW_BUY, TW_ORDER_LIMIT, "0.10", "1.0");

    cr_expect_eq(desk_open_position(&desk, "o", "EURUSD", TW_BUY, "0.10").outcome,
                 TW_OUTCOME_AMBIGUOUS);
    cr_expect_eq(desk_open_position(&desk, "o", "EURUSD", TW_BUY, "0.10").outcome, TW_OUTCOME_DONE);
    cr_expect_eq(desk_open_position(&desk, "p", "EURUSD", TW_BUY, "0.10").outcome,
                 TW_OUTCOME_RETRY_LATER);
    cr_expect_eq(desk_execute(&desk, &modify).outcome, TW_OUTCOME_REJECTED);
    cr_expect_eq(desk_execute(&desk, &place).outcome, TW_OUTCOME_REJECTED);
    cr_expect_eq(desk_execute(&desk, &cancel).outcome, TW_OUTCOME_REJECTED);
    cr_expect_eq(desk_lookup(&desk, "o").outcome, TW_OUTCOME_DONE);
    cr_expect_eq(desk_lookup(&desk, "o").outcome, TW_OUTCOME_AMBIGUOUS);
    cr_expect_eq(desk_lookup(&desk, "o").outcome, TW_OUTCOME_DONE);
    desk_close(&desk);
}

Test(paper_faults, configure_sets_faults_anew_and_none_takes_them_away)
{
    struct desk desk;
    desk_open(&desk, "latency=zero;faults=open#*=busy;" QUOTES);
    cr_expect_eq(desk_open_position(&desk, "a", "EURUSD", TW_BUY, "0.10").outcome,
                 TW_OUTCOME_RETRY_LATER);

    desk_change(&desk, (struct tw_paper_change){.faults = "open#1=no_money"});
    cr_expect_eq(desk_open_position(&desk, "b", "EURUSD", TW_BUY, "0.10").outcome,
                 TW_OUTCOME_REJECTED);
    cr_expect_eq(desk_open_position(&desk, "c", "EURUSD", TW_BUY, "0.10").outcome, TW_OUTCOME_DONE);
    desk_change(&desk, (struct tw_paper_change){.faults = "open#*=busy"});
    desk_change(&desk, (struct tw_paper_change){.faults = "none"});
    cr_expect_eq(desk_open_position(&desk, "d", "EURUSD", TW_BUY, "0.10").outcome, TW_OUTCOME_DONE);
    desk_close(&desk);
}

/* ---- Latency and time-outs. ---- */

static struct tw_ack timed_open(struct desk *desk, const char *id, int64_t *ret_took_ns)
{
    int64_t started = tw_mono_ns();
    struct tw_ack ack = desk_open_position(desk, id, "EURUSD", TW_BUY, "0.10");
    *ret_took_ns = tw_mono_ns() - started;
    return ack;
}

Test(paper_faults, an_answer_takes_its_latency_and_no_less)
{
    struct desk desk;
    int64_t took;
    desk_open(&desk, "latency=constant:30ms;" QUOTES);

    cr_expect_eq(timed_open(&desk, "o", &took).outcome, TW_OUTCOME_DONE);
    cr_expect_geq(took, 30 * TW_NS_PER_MS);
    desk_change(&desk, (struct tw_paper_change){.latency = "constant:60s"});
    desk_change(&desk, (struct tw_paper_change){.latency = "zero"}); /* or it would time out */
    cr_expect_eq(timed_open(&desk, "p", &took).outcome, TW_OUTCOME_DONE);
    desk_close(&desk);
}

Test(paper_faults, an_answer_that_would_come_too_late_is_ambiguous_at_the_time_out_and_executed)
{
    struct desk desk;
    int64_t took;
    desk_open(&desk, "latency=constant:10s;call_timeout=6s;" QUOTES);
    desk_change(&desk, (struct tw_paper_change){.latency = "constant:4s"});
    struct tw_order order = open_of("o", "EURUSD", TW_BUY, "0.10");
    struct tw_adapter_call call = {.order = order};

    int64_t started = tw_mono_ns();
    call.deadline_mono_ns = started + 3 * TW_NS_PER_S; /* executed after 2, answered after 4 */
    tw_adapter_paper.execute(desk.session, &call);
    took = tw_mono_ns() - started;

    cr_expect_eq(call.ack.outcome, TW_OUTCOME_AMBIGUOUS);
    cr_expect_eq(call.ack.reason, REASON(TIMEOUT));
    cr_expect_geq(took, 3 * TW_NS_PER_S);
    cr_expect_lt(took, 4 * TW_NS_PER_S);
    struct tw_paper_book book = desk_book(&desk);
    cr_expect_eq(book.n_deals, 1);
    tw_paper_book_clear(&book);
    desk_close(&desk);
}

Test(paper_faults, a_call_whose_time_out_passes_before_the_middle_never_executes)
{
    struct desk desk;
    int64_t took;
    desk_open(&desk, "latency=constant:10s;call_timeout=50ms;" QUOTES);

    struct tw_ack ack = timed_open(&desk, "o", &took);

    cr_expect_eq(ack.outcome, TW_OUTCOME_AMBIGUOUS);
    cr_expect_geq(took, 50 * TW_NS_PER_MS);
    cr_expect_lt(took, 5 * TW_NS_PER_S);
    struct tw_paper_book book = desk_book(&desk);
    cr_expect_eq(book.n_deals, 0);
    cr_expect_eq(book.calls, 0);
    tw_paper_book_clear(&book);
    desk_close(&desk);
}

/* ---- Connection and market. ---- */

Test(paper_faults, a_cut_connection_stays_cut_until_it_is_up_again)
{
    struct desk desk;
    desk_open(&desk, "latency=zero;" QUOTES);
    struct tw_ack open = desk_open_position(&desk, "o", "EURUSD", TW_BUY, "0.10");

    desk_change(&desk, (struct tw_paper_change){.connection = TW_PAPER_CONNECTION_DOWN});
    struct tw_ack close = desk_close_position(&desk, "c", open.position_id, "");
    struct tw_ack asked = desk_lookup(&desk, "o");
    cr_expect_not(desk.heard.is_connected);
    cr_expect_eq(close.outcome, TW_OUTCOME_RETRY_LATER);
    cr_expect_eq(close.reason, REASON(NO_CONNECTION));
    cr_expect(close.not_sent);
    cr_expect_eq(asked.outcome, TW_OUTCOME_AMBIGUOUS);
    int accounts = desk.heard.accounts, quotes = desk.heard.quotes;
    desk_quote(&desk, "EURUSD", "1.2", "1.2");
    cr_expect_eq(desk.heard.accounts, accounts, "nothing is heard over a cut line");
    cr_expect_eq(desk.heard.quotes, quotes, "nothing is heard over a cut line");

    desk_change(&desk, (struct tw_paper_change){.connection = TW_PAPER_CONNECTION_UP});
    cr_expect(desk.heard.is_connected);
    assert_decimal(desk.heard.bid, "1.2", "the quote that was missed");
    cr_expect_eq(desk_close_position(&desk, "c", open.position_id, "").outcome, TW_OUTCOME_DONE);
    struct tw_paper_book book = desk_book(&desk);
    cr_expect_eq(book.calls, 2, "what was not sent is not counted");
    tw_paper_book_clear(&book);
    desk_close(&desk);
}

struct cut {
    const char *name;
    bool after_arrival, is_mended; /* mended: it is up again long before the answer */
    struct desk *desk;
};

/* Cuts the line once the call has left, or once it has been executed. */
static void *cut_main(void *arg)
{
    const struct cut *cut = arg;
    struct timespec moment = {.tv_nsec = TW_NS_PER_MS};
    for (size_t n_deals = 0; cut->after_arrival && n_deals == 0;) {
        struct tw_paper_book book = desk_book(cut->desk);
        n_deals = book.n_deals;
        tw_paper_book_clear(&book);
    }
    if (!cut->after_arrival)
        nanosleep(&moment, NULL); /* too early is harmless for the test: then nothing was sent */
    desk_change(cut->desk, (struct tw_paper_change){.connection = TW_PAPER_CONNECTION_DOWN});
    if (cut->is_mended)
        desk_change(cut->desk, (struct tw_paper_change){.connection = TW_PAPER_CONNECTION_UP});
    return NULL;
}

static const struct cut cuts[] = {
    {"before it arrived", false, false, NULL},
    {"after it arrived", true, false, NULL},
    {"after it arrived, and mended", true, true, NULL},
};

Test(paper_faults, a_call_that_is_out_when_the_line_is_cut_is_ambiguous)
{
    for (size_t i = 0; i < COUNT(cuts); i++) {
        struct desk desk;
        pthread_t cutter;
        struct cut cut = cuts[i];
        cut.desk = &desk;
        desk_open(&desk, "latency=constant:300ms;" QUOTES);
        cr_assert_eq(pthread_create(&cutter, NULL, cut_main, &cut), 0);

        struct tw_ack ack = desk_open_position(&desk, "o", "EURUSD", TW_BUY, "0.10");
        pthread_join(cutter, NULL);

        struct tw_paper_book book = desk_book(&desk);
        if (!ack.not_sent) {
            cr_expect_eq(ack.outcome, TW_OUTCOME_AMBIGUOUS, "%s: outcome %d", cut.name,
                         ack.outcome);
            cr_expect_eq(ack.reason, REASON(NO_CONNECTION), "%s: reason %d", cut.name, ack.reason);
        }
        cr_expect_eq(book.n_deals, cut.after_arrival ? 1 : 0, "%s", cut.name);
        tw_paper_book_clear(&book);
        desk_close(&desk);
    }
}

Test(paper_faults, a_closed_market_refuses_everything_and_the_host_hears_when_it_opens)
{
    struct desk desk;
    desk_open(&desk, "latency=zero;" QUOTES);
    struct tw_order order = open_of("o", "EURUSD", TW_BUY, "0.10");
    order.stop_loss = D("1.09");
    struct tw_ack open = desk_execute(&desk, &order);

    desk_change(&desk, (struct tw_paper_change){.market_closed = true});
    struct tw_ack close = desk_close_position(&desk, "c", open.position_id, "");
    desk_quote(&desk, "EURUSD", "1.05", "1.0501");
    struct tw_paper_book book = desk_book(&desk);
    cr_expect_eq(close.outcome, TW_OUTCOME_REJECTED);
    cr_expect_eq(close.reason, REASON(MARKET_CLOSED));
    cr_expect_eq(book.holds.n_positions, 1, "no stop fires while the market is closed");
    cr_expect_eq(desk.heard.market_opens, 0);
    tw_paper_book_clear(&book);

    desk_change(&desk, (struct tw_paper_change){.market_open = true});
    book = desk_book(&desk);
    cr_expect_eq(desk.heard.market_opens, 1);
    cr_expect_eq(book.holds.n_positions, 0, "the stop fills over the gap");
    assert_decimal(book.deals[1].price, "1.05", "fill");
    tw_paper_book_clear(&book);
    desk_change(&desk, (struct tw_paper_change){.market_open = true});
    cr_expect_eq(desk.heard.market_opens, 1, "it was open already");
    desk_close(&desk);
}

Test(paper_faults, stripped_comments_hide_our_ids_but_not_from_look_ups_and_the_book)
{
    struct desk desk;
    desk_open(&desk, "latency=zero;remainder=new_ticket;" QUOTES);
    desk_change(&desk, (struct tw_paper_change){.strip_comments = true});
    struct tw_ack open = desk_open_position(&desk, "o", "EURUSD", TW_BUY, "0.10");
    desk_close_position(&desk, "c", open.position_id, "0.04");

    struct tw_snapshot snapshot = {0};
    struct tw_adapter_call call = {.snapshot = &snapshot,
                                   .deadline_mono_ns = tw_mono_ns() + TW_NS_PER_S};
    tw_adapter_paper.snapshot(desk.session, &call);
    struct tw_paper_book book = desk_book(&desk);

    cr_assert_eq(snapshot.n_positions, 1);
    cr_expect_str_eq(snapshot.positions[0].client_order_id, "");
    cr_expect_str_eq(snapshot.positions[0].from_position_id, "");
    cr_expect_str_eq(book.holds.positions[0].client_order_id, "o");
    cr_expect_eq(desk_lookup(&desk, "o").outcome, TW_OUTCOME_DONE);
    tw_paper_book_clear(&book);
    tw_snapshot_clear(&snapshot);
    desk_close(&desk);
}
