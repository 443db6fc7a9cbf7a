/* What becomes of an order, report by report: totals, ends, changes that are out, corrections, repetitions. */
#include "orders.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define UNITS(n) ((n) * TW_DECIMAL_ONE)

static struct fix_orders *orders;
static struct fix_change change;

static void setup(void)
{
    orders = fix_orders_new(100);
}

static void teardown(void)
{
    fix_orders_free(orders);
}

TestSuite(fix_orders, .init = setup, .fini = teardown);

static struct fix_report report(const char *id, char exec_type, char ord_status, const char *exec_id, int64_t cum)
{
    struct fix_report made = {.exec_type = exec_type,
                              .ord_status = ord_status,
                              .side = TW_BUY,
                              .type = TW_ORDER_MARKET,
                              .quantity = UNITS(100),
                              .cum = UNITS(cum),
                              .leaves = UNITS(100 - cum),
                              .average = UNITS(2),
                              .last_price = TW_DECIMAL_UNSET,
                              .price = TW_DECIMAL_UNSET,
                              .stop_price = TW_DECIMAL_UNSET,
                              .reject_reason = FIX_NO_CODE};
    snprintf(made.cl_ord_id, sizeof made.cl_ord_id, "%s", id);
    snprintf(made.order_id, sizeof made.order_id, "V-%s", id);
    snprintf(made.exec_id, sizeof made.exec_id, "%s", exec_id);
    return made;
}

static struct fix_order *sent(const char *id)
{
    struct fix_order *order = fix_orders_add(orders, id);
    cr_assert_not_null(order);
    order->side = TW_BUY;
    order->quantity = UNITS(100);
    return order;
}

static void take(struct fix_report told)
{
    cr_assert(fix_orders_report(orders, &told, &change));
}

/* ---- The way of an order. ---- */

/* Each row: reports "ExecType OrdStatus Cum", and what the order is then. */
static const struct way {
    const char *name;
    struct {
        char exec_type, ord_status;
        int64_t cum;
    } told[6];
    enum fix_state state;
    int64_t cum;
} ways[] = {
    {"a fill without an acknowledgement", {{'F', '2', 100}}, FIX_FILLED, 100},
    {"all of it", {{'A', 'A', 0}, {'0', '0', 0}, {'F', '1', 40}, {'F', '2', 100}}, FIX_FILLED, 100},
    {"an acknowledgement that a fill has overtaken", {{'F', '1', 40}, {'0', '0', 0}}, FIX_PARTIAL, 40},
    {"rejected", {{'8', '8', 0}}, FIX_REJECTED, 0},
    {"partly filled, the rest cancelled", {{'0', '0', 0}, {'F', '1', 40}, {'4', '4', 40}}, FIX_CANCELLED, 40},
    {"expired", {{'0', '0', 0}, {'C', 'C', 0}}, FIX_EXPIRED, 0},
    {"done for the day", {{'0', '0', 0}, {'F', '1', 10}, {'3', '3', 10}}, FIX_DONE_FOR_DAY, 10},
    {"a fill after the end is booked", {{'F', '1', 40}, {'4', '4', 40}, {'F', '1', 60}}, FIX_CANCELLED, 60},
    {"an acknowledgement after the end changes nothing", {{'F', '2', 100}, {'0', '0', 0}}, FIX_FILLED, 100},
    {"pending cancel says nothing of what is below", {{'F', '1', 40}, {'6', '6', 40}}, FIX_PARTIAL, 40},
    {"pending replace of a new one", {{'0', '0', 0}, {'E', 'E', 0}}, FIX_NEW, 0},
    {"a fill under a pending replace", {{'0', '0', 0}, {'E', 'E', 0}, {'F', 'E', 30}}, FIX_PARTIAL, 30},
    {"restated", {{'0', '0', 0}, {'D', '0', 0}}, FIX_NEW, 0},
    {"a status shows fills that were missed", {{'0', '0', 0}, {'I', '1', 70}}, FIX_PARTIAL, 70},
    {"a status with less changes nothing", {{'F', '1', 70}, {'I', '1', 40}}, FIX_PARTIAL, 70},
    {"calculated is filled", {{'F', '2', 100}, {'B', 'B', 100}}, FIX_FILLED, 100},
    {"suspended works on", {{'0', '0', 0}, {'9', '9', 0}}, FIX_NEW, 0},
};

Test(fix_orders, every_way_ends_where_it_should)
{
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const struct way *way = &ways[i];
        struct fix_order *order = sent(way->name);

        for (int k = 0; k < 6 && way->told[k].exec_type != '\0'; k++) {
            char exec_id[16];
            snprintf(exec_id, sizeof exec_id, "E%d", k);
            take(report(way->name, way->told[k].exec_type, way->told[k].ord_status, exec_id, way->told[k].cum));
        }

        cr_expect_eq(order->state, way->state, "%s: state %d", way->name, order->state);
        cr_expect_eq(order->cum, UNITS(way->cum), "%s: filled %lld", way->name, (long long)order->cum);
        fix_orders_remove(orders, order);
    }
}

Test(fix_orders, a_report_that_comes_twice_books_once)
{
    sent("a");
    take(report("a", 'F', '1', "E1", 40));
    cr_expect_eq(change.booked, UNITS(40));

    take(report("a", 'F', '1', "E1", 40));

    cr_expect_eq(change.booked, 0);
    cr_expect_eq(change.oddity, FIX_ODD_NONE);
}

Test(fix_orders, a_replay_in_reverse_books_what_was_filled)
{
    struct fix_order *order = sent("a");
    take(report("a", 'F', '2', "E3", 100));
    take(report("a", 'F', '1', "E2", 70));
    take(report("a", 'F', '1', "E1", 40));

    cr_expect_eq(order->cum, UNITS(100));
    cr_expect_eq(order->state, FIX_FILLED);
    cr_expect_eq(order->leaves, 0);
}

Test(fix_orders, a_cum_that_goes_back_without_a_correction_is_odd_and_changes_nothing)
{
    struct fix_order *order = sent("a");
    take(report("a", 'F', '1', "E1", 70));

    take(report("a", 'F', '1', "E2", 40));

    cr_expect_eq(change.oddity, FIX_ODD_CUM_BACK);
    cr_expect_eq(change.booked, 0);
    cr_expect_eq(order->cum, UNITS(70));
}

Test(fix_orders, an_exec_id_used_again_does_not_lose_a_fill)
{
    struct fix_order *order = sent("a");
    take(report("a", 'F', '1', "E1", 40));

    take(report("a", 'F', '2', "E1", 100)); /* the same ExecID, and more is filled */

    cr_expect_eq(change.booked, UNITS(60));
    cr_expect_eq(order->state, FIX_FILLED);
}

Test(fix_orders, more_than_was_ordered_is_booked_and_said)
{
    sent("a");
    take(report("a", 'F', '2', "E1", 140));

    cr_expect_eq(change.booked, UNITS(140));
    cr_expect_eq(change.oddity, FIX_ODD_CUM_OVER);
}

/* ---- Corrections and busts. ---- */

Test(fix_orders, a_bust_takes_back_once)
{
    struct fix_order *order = sent("a");
    take(report("a", 'F', '2', "E1", 100));

    take(report("a", 'H', '1', "E2", 40));
    cr_expect_eq(change.booked, -UNITS(60));
    cr_expect(change.is_correction);
    cr_expect_eq(order->cum, UNITS(40));
    cr_expect_eq(order->state, FIX_PARTIAL, "it works again");
    take(report("a", 'F', '2', "E3", 100));
    take(report("a", 'H', '1', "E2", 40)); /* told again */

    cr_expect_eq(change.booked, 0);
    cr_expect_eq(order->cum, UNITS(100));
    cr_expect_eq(order->state, FIX_FILLED);
}

/* ---- Changes that are out. ---- */

Test(fix_orders, a_refused_cancel_leaves_the_order_as_it_was)
{
    struct fix_order *order = sent("a");
    take(report("a", 'F', '1', "E1", 40));
    cr_assert(fix_order_change(orders, order, FIX_OVERLAY_CANCEL, "c"));
    struct fix_report pending = report("c", '6', '6', "E2", 40);
    take(pending);
    cr_expect_eq(order->overlay, FIX_OVERLAY_CANCEL);

    struct fix_report refused = report("c", '\0', '1', "", 75);
    fix_orders_cancel_reject(orders, &refused, &change);

    cr_expect(change.change_refused);
    cr_expect_eq(order->overlay, FIX_OVERLAY_NONE);
    cr_expect_eq(order->state, FIX_PARTIAL);
    cr_expect_eq(order->cum, UNITS(40), "a refusal books nothing");
    cr_expect_str_eq(order->current_id, "a");
}

Test(fix_orders, a_cancel_that_was_asked_for_answers_it)
{
    struct fix_order *order = sent("a");
    take(report("a", '0', '0', "E1", 0));
    cr_assert(fix_order_change(orders, order, FIX_OVERLAY_CANCEL, "c"));
    struct fix_report told = report("c", '4', '4', "E2", 0);
    snprintf(told.orig_cl_ord_id, sizeof told.orig_cl_ord_id, "a");

    take(told);

    cr_expect(change.is_change_answer);
    cr_expect(change.is_over);
    cr_expect_not(change.is_unsolicited);
    cr_expect_eq(order->state, FIX_CANCELLED);
}

Test(fix_orders, a_cancel_that_nobody_asked_for_is_unsolicited)
{
    sent("a");
    take(report("a", '0', '0', "E1", 0));

    take(report("a", '4', '4', "E2", 0));

    cr_expect(change.is_unsolicited);
    cr_expect_not(change.is_change_answer);
}

Test(fix_orders, a_replace_moves_the_chain_on)
{
    struct fix_order *order = sent("a");
    take(report("a", '0', '0', "E1", 0));
    cr_assert(fix_order_change(orders, order, FIX_OVERLAY_REPLACE, "b"));
    cr_expect_not(fix_order_change(orders, order, FIX_OVERLAY_CANCEL, "c"), "one at a time");
    struct fix_report told = report("b", '5', '0', "E2", 0);
    snprintf(told.orig_cl_ord_id, sizeof told.orig_cl_ord_id, "a");
    snprintf(told.order_id, sizeof told.order_id, "V-new");
    told.price = UNITS(3);

    take(told);

    cr_expect(change.is_change_answer);
    cr_expect_str_eq(order->current_id, "b");
    cr_expect_str_eq(order->order_id, "V-new");
    cr_expect_eq(order->price, UNITS(3));
    cr_expect_eq(fix_orders_find(orders, "a"), order);
    cr_expect_eq(fix_orders_find(orders, "b"), order);
    cr_expect_eq(fix_orders_find_order(orders, "V-a"), order, "the old one leads here too");
    cr_expect(fix_order_change(orders, order, FIX_OVERLAY_CANCEL, "c"));
}

Test(fix_orders, a_fill_that_ends_it_answers_no_cancel)
{
    struct fix_order *order = sent("a");
    take(report("a", '0', '0', "E1", 0));
    cr_assert(fix_order_change(orders, order, FIX_OVERLAY_CANCEL, "c"));

    take(report("a", 'F', '2', "E2", 100));
    cr_expect_not(change.is_change_answer, "the refusal of the cancel is still to come");
    struct fix_report refused = report("c", '\0', '2', "", 0);
    refused.reject_reason = 0; /* too late to cancel */
    fix_orders_cancel_reject(orders, &refused, &change);

    cr_expect(change.change_refused);
    cr_expect_eq(order->state, FIX_FILLED);
}

/* ---- What nobody here has sent. ---- */

Test(fix_orders, an_unasked_report_is_adopted)
{
    take(report("hand", 'F', '2', "E1", 100));

    cr_assert_not_null(change.order);
    cr_expect(change.is_adopted);
    cr_expect_not(change.order->is_ours);
    cr_expect_eq(change.booked, UNITS(100));
    take(report("hand", 'F', '2', "E1", 100));
    cr_expect_eq(change.booked, 0);
    cr_expect_not(change.is_adopted);
}

Test(fix_orders, the_word_that_there_is_no_such_order_is_no_rejection)
{
    struct fix_order *order = sent("a");
    struct fix_report told = report("a", 'I', '8', "0", 0);
    told.reject_reason = 5;
    snprintf(told.order_id, sizeof told.order_id, "NONE");

    take(told);
    cr_expect(order->is_absent);
    cr_expect_eq(order->state, FIX_SENT);
    take(report("a", '0', '0', "E1", 0)); /* it was there after all */
    cr_expect_not(order->is_absent);
    take(told);

    cr_expect_not(order->is_absent, "it has been heard of");
}

Test(fix_orders, those_that_are_over_are_forgotten_first_and_those_that_work_never)
{
    struct fix_order *working = sent("works");
    take(report("works", '0', '0', "W", 0));
    for (int i = 0; i < 250; i++) {
        char id[16];
        snprintf(id, sizeof id, "o%d", i);
        sent(id);
        take(report(id, 'F', '2', id, 100));
    }

    cr_expect_eq(fix_orders_find(orders, "works"), working);
    cr_expect_null(fix_orders_find(orders, "o0"));
    cr_expect_not_null(fix_orders_find(orders, "o249"));
    size_t n = 0;
    for (struct fix_order *order = fix_orders_first(orders); order != NULL; order = order->older)
        n++;
    cr_expect_eq(n, 100);
}

Test(fix_orders, a_forgotten_order_takes_all_its_names_along_and_nobody_elses)
{
    for (int i = 0; i < 300; i++) {
        char id[16], change_id[16], undone[16];
        snprintf(id, sizeof id, "o%d", i);
        snprintf(change_id, sizeof change_id, "r%d", i);
        snprintf(undone, sizeof undone, "u%d", i);
        struct fix_order *order = sent(id);
        take(report(id, '0', '0', "E1", 0));
        cr_assert(fix_order_change(orders, order, FIX_OVERLAY_CANCEL, undone));
        fix_order_change_undo(orders, order);
        cr_assert(fix_order_change(orders, order, FIX_OVERLAY_REPLACE, change_id));
        struct fix_report told = report(change_id, '5', '0', "E2", 0);
        snprintf(told.orig_cl_ord_id, sizeof told.orig_cl_ord_id, "%s", id);
        take(told);
        take(report(change_id, 'F', '2', "E3", 100));
    }

    for (int i = 0; i < 300; i++) {
        char id[16], change_id[16], undone[16], order_id[16];
        snprintf(id, sizeof id, "o%d", i);
        snprintf(change_id, sizeof change_id, "r%d", i);
        snprintf(undone, sizeof undone, "u%d", i);
        snprintf(order_id, sizeof order_id, "V-r%d", i);
        bool is_kept = i >= 200;
        cr_expect_eq(fix_orders_find(orders, id) != NULL, is_kept, "%s", id);
        cr_expect_eq(fix_orders_find(orders, change_id) != NULL, is_kept, "%s", change_id);
        cr_expect_eq(fix_orders_find_order(orders, order_id) != NULL, is_kept, "%s", order_id);
        cr_expect_null(fix_orders_find(orders, undone));
    }
}
