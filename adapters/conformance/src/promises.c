#include "bench.h"

#include <tradewake/base/clock.h>

#include <stdio.h>
#include <string.h>

static const struct conformance_settings nothing = {0};

/* How much later than its time-out an answer may come on a busy machine, and still be "at" it. */
#define AT_NS (500 * TW_NS_PER_MS)

#define SKIP_UNLESS(condition, why)                                                                \
    do {                                                                                           \
        if (!(condition))                                                                          \
            cr_skip_test(why);                                                                     \
    } while (0)

static void expect_held(struct bench *bench, tw_decimal volume)
{
    struct tw_snapshot snapshot = bench_snapshot(bench);
    tw_decimal held = 0;
    for (size_t i = 0; i < snapshot.n_positions; i++)
        held += snapshot.positions[i].volume;
    cr_expect_eq(held, volume, "the account holds %lld, expected %lld", (long long)held,
                 (long long)volume);
    tw_snapshot_clear(&snapshot);
}

static struct tw_ack opened(struct bench *bench, const char *client_order_id)
{
    struct tw_order order = bench_open(bench, client_order_id);
    struct tw_ack ack = bench_execute(bench, &order);
    cr_assert_eq(ack.outcome, TW_OUTCOME_DONE, "open: outcome %d, %s", ack.outcome,
                 ack.broker_message);
    return ack;
}

/* ---- Life. ---- */

void conformance_close_of_nothing_is_allowed(const struct adapter_under_test *under_test)
{
    under_test->ops->close(NULL);

    cr_expect_eq(under_test->ops->abi_major, TW_ADAPTER_ABI_MAJOR);
    cr_expect_geq(under_test->ops->struct_size, sizeof(struct tw_adapter_ops));
    cr_expect_str_neq(under_test->ops->name, "");
}

void conformance_an_unknown_setting_is_refused_by_its_name(
    const struct adapter_under_test *under_test)
{
    struct tw_adapter_setting setting = {"no_such_setting", "1"};
    struct tw_session_options options = {
        .follower_id = "conformance", .adapter = bench_adapter(under_test), .settings = &setting, .n_settings = 1, .credentials_ref = ""};
    struct bench bench;
    struct tw_error error = {{0}};
    char key[65] = "";
    bench_start(&bench, under_test, nothing);

    cr_expect_eq(under_test->ops->check(bench.adapter, &options, key, &error), TW_INVALID);

    cr_expect_str_eq(key, "no_such_setting");
    cr_expect_str_neq(error.text, "", "a refusal has words");
    bench_stop(&bench);
}

void conformance_capabilities_are_within_the_limits(const struct adapter_under_test *under_test)
{
    struct bench bench;
    bench_start(&bench, under_test, nothing);

    cr_expect_geq(bench.can.max_parallel, 1);
    cr_expect_leq(bench.can.max_parallel, TW_PARALLEL_MAX);
    cr_expect_gt(bench.can.call_timeout_ms, 0);
    bench_stop(&bench);
}

void conformance_the_host_is_told_everything_before_the_connection(
    const struct adapter_under_test *under_test)
{
    struct bench bench;
    bench_start(&bench, under_test, nothing);

    cr_expect(bench.account_first, "the account comes before the connection");
    cr_expect(bench.instruments_first, "the instruments come before the connection");
    cr_expect_gt(bench.instrument.contract_size, 0);
    cr_expect_gt(bench.instrument.tick_size, 0);
    bench_stop(&bench);
}

void conformance_a_session_can_be_closed_and_opened_again(
    const struct adapter_under_test *under_test)
{
    struct bench bench;
    bench_start(&bench, under_test, nothing);
    opened(&bench, "before");

    bench_session_close(&bench);
    bench_session_open(&bench, nothing);
    bench_await_connections(&bench, 1);

    expect_held(&bench, bench_decimal(under_test->volume));
    bench_stop(&bench);
}

void conformance_nobody_is_told_anything_after_the_close(
    const struct adapter_under_test *under_test)
{
    struct bench bench;
    bench_start(&bench, under_test, nothing);
    opened(&bench, "a");

    bench_session_close(&bench);
    under_test->ops->close(bench.adapter);
    tw_reactor_stop(bench.reactor); /* whatever was posted has run by now */

    cr_expect_eq(bench.told_after_close, 0);
}

/* ---- The six orders. ---- */

void conformance_an_open_says_what_it_did(const struct adapter_under_test *under_test)
{
    struct bench bench;
    bench_start(&bench, under_test, nothing);

    struct tw_ack ack = opened(&bench, "open");

    cr_expect_eq(ack.filled_volume, bench_decimal(under_test->volume));
    cr_expect_gt(ack.average_price, 0);
    cr_expect_str_neq(ack.position_id, "");
    cr_expect_not(ack.not_sent);
    cr_expect_not(ack.stops_missing);
    expect_held(&bench, bench_decimal(under_test->volume));
    bench_stop(&bench);
}

void conformance_a_full_close_leaves_nothing(const struct adapter_under_test *under_test)
{
    struct bench bench;
    bench_start(&bench, under_test, nothing);
    struct tw_ack open = opened(&bench, "open");

    struct tw_order order = bench_close(&bench, "close", open.position_id, TW_DECIMAL_UNSET);
    struct tw_ack ack = bench_execute(&bench, &order);

    cr_expect_eq(ack.outcome, TW_OUTCOME_DONE);
    cr_expect_eq(ack.filled_volume, bench_decimal(under_test->volume));
    cr_expect(ack.remaining_volume == 0 || ack.remaining_volume == TW_DECIMAL_UNSET);
    expect_held(&bench, 0);
    bench_stop(&bench);
}

void conformance_a_partial_close_leaves_the_rest(const struct adapter_under_test *under_test)
{
    struct bench bench;
    tw_decimal volume = bench_decimal(under_test->volume), part = bench_decimal(under_test->part);
    bench_start(&bench, under_test, nothing);
    struct tw_ack open = opened(&bench, "open");

    struct tw_order order = bench_close(&bench, "part", open.position_id, part);
    struct tw_ack ack = bench_execute(&bench, &order);
    cr_assert_eq(ack.outcome, TW_OUTCOME_DONE);
    cr_expect_eq(ack.filled_volume, part);
    cr_expect(ack.remaining_volume == volume - part || ack.remaining_volume == TW_DECIMAL_UNSET);
    expect_held(&bench, volume - part);

    const char *rest =
        ack.remainder_position_id[0] != '\0' ? ack.remainder_position_id : open.position_id;
    order = bench_close(&bench, "rest", rest, TW_DECIMAL_UNSET);
    cr_expect_eq(bench_execute(&bench, &order).outcome, TW_OUTCOME_DONE);
    expect_held(&bench, 0);
    bench_stop(&bench);
}

void conformance_a_changed_stop_is_at_the_broker(const struct adapter_under_test *under_test)
{
    struct bench bench;
    bench_start(&bench, under_test, nothing);
    struct tw_ack open = opened(&bench, "open");

    struct tw_order order = bench_modify(&bench, "modify", open.position_id);
    enum tw_outcome changed = bench_execute(&bench, &order).outcome;
    if (changed == TW_OUTCOME_UNSUPPORTED) {
        bench_stop(&bench);
        cr_skip_test("this adapter changes no stops of positions");
    }
    cr_expect_eq(changed, TW_OUTCOME_DONE);
    order = bench_modify(&bench, "remove", open.position_id);
    order.stop_loss = TW_DECIMAL_UNSET;
    order.take_profit = 0;
    cr_expect_eq(bench_execute(&bench, &order).outcome, TW_OUTCOME_DONE);

    struct tw_snapshot snapshot = bench_snapshot(&bench);
    cr_assert_eq(snapshot.n_positions, 1);
    cr_expect_eq(snapshot.positions[0].stop_loss, bench_decimal(under_test->stop_loss),
                 "what is not named stays");
    cr_expect_eq(snapshot.positions[0].take_profit, 0, "0 removes");
    tw_snapshot_clear(&snapshot);
    bench_stop(&bench);
}

void conformance_a_change_to_what_is_already_so_succeeds(
    const struct adapter_under_test *under_test)
{
    struct bench bench;
    bench_start(&bench, under_test, nothing);
    struct tw_ack open = opened(&bench, "open");
    struct tw_order order = bench_modify(&bench, "first", open.position_id);
    enum tw_outcome changed = bench_execute(&bench, &order).outcome;
    if (changed == TW_OUTCOME_UNSUPPORTED) {
        bench_stop(&bench);
        cr_skip_test("this adapter changes no stops of positions");
    }
    cr_assert_eq(changed, TW_OUTCOME_DONE);

    order = bench_modify(&bench, "second", open.position_id);
    struct tw_ack ack = bench_execute(&bench, &order);

    cr_expect(ack.outcome == TW_OUTCOME_NO_CHANGE || ack.outcome == TW_OUTCOME_DONE, "outcome %d",
              ack.outcome);
    bench_stop(&bench);
}

void conformance_a_pending_is_placed_and_cancelled(const struct adapter_under_test *under_test)
{
    struct bench bench;
    bench_start(&bench, under_test, nothing);
    struct tw_order order = bench_place(&bench, "place");
    struct tw_ack placed = bench_execute(&bench, &order);
    if (placed.outcome == TW_OUTCOME_UNSUPPORTED) {
        bench_stop(&bench);
        cr_skip_test("this adapter places no pending orders");
    }
    cr_assert(placed.outcome == TW_OUTCOME_DONE || placed.outcome == TW_OUTCOME_ACCEPTED);
    cr_assert_str_neq(placed.order_id, "");
    cr_expect_eq(placed.filled_volume, 0);

    struct tw_snapshot snapshot = bench_snapshot(&bench);
    cr_assert_eq(snapshot.n_orders, 1);
    cr_expect_str_eq(snapshot.orders[0].order_id, placed.order_id);
    cr_expect_eq(snapshot.orders[0].type, TW_ORDER_LIMIT);
    cr_expect_eq(snapshot.orders[0].price, bench_decimal(under_test->limit_price));
    tw_snapshot_clear(&snapshot);
    if (bench.can.query_by_id)
        cr_expect_eq(bench_lookup(&bench, "place").outcome, TW_OUTCOME_ACCEPTED);

    order = bench_cancel("cancel", placed.order_id);
    cr_expect_eq(bench_execute(&bench, &order).outcome, TW_OUTCOME_DONE);
    snapshot = bench_snapshot(&bench);
    cr_expect_eq(snapshot.n_orders, 0);
    tw_snapshot_clear(&snapshot);
    bench_stop(&bench);
}

void conformance_what_is_gone_is_not_found(const struct adapter_under_test *under_test)
{
    struct bench bench;
    bench_start(&bench, under_test, nothing);
    struct tw_ack open = opened(&bench, "open");
    struct tw_order order = bench_close(&bench, "close", open.position_id, TW_DECIMAL_UNSET);
    cr_assert_eq(bench_execute(&bench, &order).outcome, TW_OUTCOME_DONE);

    struct tw_order again = bench_close(&bench, "again", open.position_id, TW_DECIMAL_UNSET);
    struct tw_order modify = bench_modify(&bench, "modify", open.position_id);
    struct tw_order cancel = bench_cancel("cancel", open.position_id);

    cr_expect_eq(bench_execute(&bench, &again).outcome, TW_OUTCOME_NOT_FOUND);
    enum tw_outcome modified = bench_execute(&bench, &modify).outcome;
    cr_expect(modified == TW_OUTCOME_NOT_FOUND || modified == TW_OUTCOME_UNSUPPORTED);
    enum tw_outcome cancelled = bench_execute(&bench, &cancel).outcome;
    cr_expect(cancelled == TW_OUTCOME_NOT_FOUND || cancelled == TW_OUTCOME_UNSUPPORTED);
    expect_held(&bench, 0);
    bench_stop(&bench);
}

void conformance_a_netting_close_never_crosses_zero(const struct adapter_under_test *under_test)
{
    struct bench bench;
    bench_start(&bench, under_test, nothing);
    if (!bench.can.netting || !bench.can.reduce_only) {
        bench_stop(&bench);
        cr_skip_test("not a netting account that reduces only");
    }
    struct tw_ack open = opened(&bench, "open");

    struct tw_order order =
        bench_close(&bench, "more", open.position_id, 3 * bench_decimal(under_test->volume));
    struct tw_ack ack = bench_execute(&bench, &order);

    cr_expect_neq(ack.outcome, TW_OUTCOME_AMBIGUOUS);
    struct tw_snapshot snapshot = bench_snapshot(&bench);
    for (size_t i = 0; i < snapshot.n_positions; i++)
        cr_expect_eq(snapshot.positions[i].side, TW_BUY, "it went over to the other side");
    if (snapshot.n_positions == 0) {
        struct tw_order again = bench_close(&bench, "again", open.position_id, bench_decimal(under_test->volume));
        cr_expect_eq(bench_execute(&bench, &again).outcome, TW_OUTCOME_NOT_FOUND, "there is nothing to reduce");
    }
    tw_snapshot_clear(&snapshot);
    bench_stop(&bench);
}

/* ---- Questions. ---- */

void conformance_a_snapshot_is_complete_and_carries_our_ids(
    const struct adapter_under_test *under_test)
{
    struct bench bench;
    bench_start(&bench, under_test, nothing);
    struct tw_ack open = opened(&bench, "ours");

    struct tw_snapshot snapshot = bench_snapshot(&bench);

    cr_assert_eq(snapshot.n_positions, 1);
    cr_expect_str_eq(snapshot.positions[0].position_id, open.position_id);
    cr_expect_str_eq(snapshot.positions[0].symbol, under_test->symbol);
    cr_expect_eq(snapshot.positions[0].side, TW_BUY);
    cr_expect_eq(snapshot.positions[0].open_price, open.average_price);
    cr_expect_str_eq(snapshot.positions[0].client_order_id, "ours");
    cr_expect_str_neq(snapshot.account.currency, "");
    cr_expect_gt(snapshot.as_of_wall_ns, 0);
    tw_snapshot_clear(&snapshot);
    bench_stop(&bench);
}

void conformance_a_look_up_finds_an_order_by_its_id_also_when_it_is_closed(
    const struct adapter_under_test *under_test)
{
    struct bench bench;
    bench_start(&bench, under_test, nothing);
    if (!bench.can.query_by_id) {
        bench_stop(&bench);
        cr_skip_test("no look-up by client order id");
    }
    struct tw_ack open = opened(&bench, "open");
    struct tw_order order = bench_close(&bench, "close", open.position_id, TW_DECIMAL_UNSET);
    cr_assert_eq(bench_execute(&bench, &order).outcome, TW_OUTCOME_DONE);

    struct tw_ack found = bench_lookup(&bench, "open"), closed = bench_lookup(&bench, "close");

    cr_expect_eq(found.outcome, TW_OUTCOME_DONE);
    cr_expect_eq(found.filled_volume, bench_decimal(under_test->volume));
    cr_expect_str_eq(found.position_id, open.position_id);
    cr_expect_eq(closed.outcome, TW_OUTCOME_DONE);
    cr_expect_eq(closed.filled_volume, bench_decimal(under_test->volume));
    bench_stop(&bench);
}

void conformance_a_look_up_of_an_unknown_id_is_not_found(
    const struct adapter_under_test *under_test)
{
    struct bench bench;
    bench_start(&bench, under_test, nothing);

    cr_expect_eq(bench_lookup(&bench, "never").outcome, TW_OUTCOME_NOT_FOUND);
    bench_stop(&bench);
}

/* ---- When it goes wrong. ---- */

/* An open whose answer does not come in time. Returns with the ack, having seen that it came at the
 * time-out. */
static struct tw_ack open_unanswered(struct bench *bench)
{
    struct tw_order order = bench_open(bench, "lost");
    int64_t started = tw_mono_ns();
    struct tw_ack ack = bench_execute(bench, &order);
    int64_t took = tw_mono_ns() - started;
    int64_t timeout = bench->can.call_timeout_ms * TW_NS_PER_MS;
    cr_expect_eq(ack.outcome, TW_OUTCOME_AMBIGUOUS, "outcome %d", ack.outcome);
    cr_expect_eq(ack.reason, TRADEWAKE__V1__REASON__REASON_TIMEOUT, "reason %d", ack.reason);
    cr_expect_geq(took, timeout - TW_NS_PER_MS, "answered before the time-out");
    cr_expect_leq(took, timeout + AT_NS, "answered %lld ms after the time-out",
                  (long long)((took - timeout) / TW_NS_PER_MS));
    return ack;
}

void conformance_a_lost_reply_is_ambiguous_at_the_time_out_and_found_later(
    const struct adapter_under_test *under_test)
{
    SKIP_UNLESS(under_test->reply_lost.n > 0, "this broker cannot be made to lose a reply");
    struct bench bench;
    bench_start(&bench, under_test, under_test->reply_lost);

    open_unanswered(&bench);

    if (bench.can.query_by_id) {
        struct tw_ack found = bench_lookup_known(&bench, "lost");
        cr_expect_eq(found.outcome, TW_OUTCOME_DONE);
        cr_expect_eq(found.filled_volume, bench_decimal(under_test->volume));
        cr_expect_str_neq(found.position_id, "");
    }
    expect_held(&bench, bench_decimal(under_test->volume));
    bench_stop(&bench);
}

void conformance_a_lost_call_is_ambiguous_at_the_time_out_and_never_executed(
    const struct adapter_under_test *under_test)
{
    SKIP_UNLESS(under_test->call_lost.n > 0, "this broker cannot be made to lose a call");
    struct bench bench;
    bench_start(&bench, under_test, under_test->call_lost);

    open_unanswered(&bench);

    cr_expect_eq(bench_lookup_known(&bench, "lost").outcome, TW_OUTCOME_NOT_FOUND);
    expect_held(&bench, 0);
    struct tw_order again = bench_open(&bench, "lost");
    again.attempt = 1; /* the same id, sent again, is a new order */
    cr_expect_eq(bench_execute(&bench, &again).outcome, TW_OUTCOME_DONE);
    expect_held(&bench, bench_decimal(under_test->volume));
    bench_stop(&bench);
}

void conformance_a_late_answer_is_ambiguous_at_the_time_out(
    const struct adapter_under_test *under_test)
{
    SKIP_UNLESS(under_test->answer_late.n > 0, "this broker cannot be made to answer late");
    struct bench bench;
    bench_start(&bench, under_test, under_test->answer_late);

    open_unanswered(&bench);

    bench_stop(&bench);
}

void conformance_a_final_refusal_has_a_reason_and_executes_nothing(
    const struct adapter_under_test *under_test)
{
    SKIP_UNLESS(under_test->refused.n > 0, "this broker cannot be made to refuse");
    struct bench bench;
    bench_start(&bench, under_test, under_test->refused);

    struct tw_order order = bench_open(&bench, "refused");
    struct tw_ack ack = bench_execute(&bench, &order);

    cr_expect_eq(ack.outcome, TW_OUTCOME_REJECTED);
    cr_expect_neq(ack.reason, TRADEWAKE__V1__REASON__REASON_UNSPECIFIED);
    cr_expect_eq(ack.filled_volume, 0);
    expect_held(&bench, 0);
    bench_stop(&bench);
}

void conformance_a_lost_connection_is_ambiguous_and_made_again(
    const struct adapter_under_test *under_test)
{
    SKIP_UNLESS(under_test->connection_lost.n > 0, "this broker cannot be made to hang up");
    struct bench bench;
    bench_start(&bench, under_test, under_test->connection_lost);

    struct tw_order order = bench_open(&bench, "lost");
    struct tw_ack ack = bench_execute(&bench, &order);
    cr_expect_eq(ack.outcome, TW_OUTCOME_AMBIGUOUS, "outcome %d", ack.outcome);
    bench_await_connections(&bench, 2);

    cr_expect_geq(bench.losses, 1, "the host hears of the loss");
    expect_held(&bench, bench_decimal(under_test->volume));
    bench_stop(&bench);
}

void conformance_a_call_after_its_deadline_is_not_sent(const struct adapter_under_test *under_test)
{
    struct bench bench;
    bench_start(&bench, under_test, nothing);

    struct tw_order order = bench_open(&bench, "late");
    struct tw_ack ack = bench_execute_by(&bench, &order, tw_mono_ns() - 1);

    cr_expect(ack.not_sent);
    cr_expect_eq(ack.outcome, TW_OUTCOME_RETRY_LATER, "outcome %d", ack.outcome);
    expect_held(&bench, 0);
    bench_stop(&bench);
}

/* ---- Side by side. ---- */

struct runner {
    struct round round;
    struct bench *bench;
    struct tw_order order;
    pthread_t thread;
};

static void *runner_main(void *arg)
{
    struct runner *runner = arg;
    round_start(&runner->round, runner->bench, &runner->order);
    round_await(&runner->round);
    return NULL;
}

void conformance_calls_run_side_by_side_up_to_max_parallel(
    const struct adapter_under_test *under_test)
{
    struct bench bench;
    static struct runner runners[TW_PARALLEL_MAX];
    bench_start(&bench, under_test, under_test->slow);
    uint32_t n = bench.can.max_parallel;
    int64_t started = tw_mono_ns();
    for (uint32_t i = 0; i < n; i++) {
        char id[TW_COPY_ID_BYTES];
        snprintf(id, sizeof(id), "parallel-%u", i);
        runners[i].bench = &bench;
        runners[i].order = bench_open(&bench, id);
        cr_assert_eq(pthread_create(&runners[i].thread, NULL, runner_main, &runners[i]), 0);
    }
    for (uint32_t i = 0; i < n; i++)
        pthread_join(runners[i].thread, NULL);
    int64_t took = tw_mono_ns() - started;

    for (uint32_t i = 0; i < n; i++) {
        const struct tw_ack *ack = &runners[i].round.call.ack;
        cr_expect_eq(ack->outcome, TW_OUTCOME_DONE, "call %u: outcome %d", i, ack->outcome);
        for (uint32_t k = 0; k < i && !bench.can.netting; k++)
            cr_expect_str_neq(ack->position_id, runners[k].round.call.ack.position_id,
                              "two calls have one position");
    }
    expect_held(&bench, n * bench_decimal(under_test->volume));
    /* One after the other they would take n x 100 ms. */
    if (under_test->slow.n > 0 && n > 8)
        cr_expect_lt(took, n * 100 * TW_NS_PER_MS / 2, "%u calls took %lld ms", n,
                     (long long)(took / TW_NS_PER_MS));
    bench_stop(&bench);
}
