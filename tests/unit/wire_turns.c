/* wire_turns.c - callers who want more than their share of a thread take turns. */
#include "turns.h"

#include <criterion/criterion.h>

TestSuite(turns, .timeout = 10);

Test(turns, within_its_share_nobody_waits_and_a_new_window_forgets)
{
    static struct turns turns;
    int64_t now_ns = 100 * TURNS_WINDOW_NS;
    cr_expect_not(turns_must_wait(&turns, 3, now_ns));
    turns_used(&turns, 3, now_ns, now_ns + TURNS_SHARE_NS - 1);
    cr_expect_not(turns_must_wait(&turns, 3, now_ns + TURNS_SHARE_NS));
    turns_used(&turns, 3, now_ns + TURNS_SHARE_NS, now_ns + TURNS_SHARE_NS + 1);
    cr_expect(turns_must_wait(&turns, 3, now_ns + TURNS_SHARE_NS + 1));
    cr_expect_not(turns_must_wait(&turns, 4, now_ns + TURNS_SHARE_NS + 1), "another caller's share is its own");
    cr_expect_not(turns_must_wait(&turns, 3, now_ns + TURNS_WINDOW_NS));
}

Test(turns, one_long_message_uses_up_the_window_in_which_it_ends)
{
    static struct turns turns;
    int64_t now_ns = 100 * TURNS_WINDOW_NS;
    turns_used(&turns, 1, now_ns, now_ns + 3 * TURNS_WINDOW_NS);
    cr_expect(turns_must_wait(&turns, 1, now_ns + 3 * TURNS_WINDOW_NS));
    cr_expect_not(turns_must_wait(&turns, 1, now_ns + 4 * TURNS_WINDOW_NS));
}

Test(turns, each_row_in_turn_and_each_in_its_own_order)
{
    static struct turns turns;
    static const uint32_t rows[7] = {5, 5, 5, 63, 0, 63, 7};
    static const size_t expected[7] = {4, 0, 6, 3, 1, 5, 2};
    struct turn waiting[7];
    cr_expect(turns_is_empty(&turns));
    cr_expect_null(turns_take(&turns));
    for (size_t i = 0; i < 7; i++)
        turns_wait(&turns, rows[i], &waiting[i]);
    cr_expect(turns_must_wait(&turns, 5, 0), "behind its own, whatever is left of its share");
    for (size_t i = 0; i < 7; i++)
        cr_expect_eq(turns_take(&turns), &waiting[expected[i]], "taken as number %zu", i);
    cr_expect(turns_is_empty(&turns));
    cr_expect_not(turns_must_wait(&turns, 5, 0));
}

/* Where two fell into one row, turns did nothing for the one that stood behind the other. */
Test(turns, as_many_callers_as_rows_have_one_each_and_keep_it)
{
    static struct turns turns;
    static char callers[TURNS_ROWS + 1];
    int64_t now_ns = 100 * TURNS_WINDOW_NS;
    bool is_taken[TURNS_ROWS] = {0};
    for (size_t i = 0; i < TURNS_ROWS; i++) {
        uint32_t row = turns_row(&turns, &callers[i], now_ns);
        cr_assert_lt(row, TURNS_ROWS);
        cr_expect_not(is_taken[row], "caller %zu", i);
        is_taken[row] = true;
        turns.rows[row].live++;
    }
    for (size_t i = 0; i < TURNS_ROWS; i++)
        cr_expect_eq(turns.callers[turns_row(&turns, &callers[i], now_ns)], &callers[i]);
    uint32_t shared = turns_row(&turns, &callers[TURNS_ROWS], now_ns);
    cr_assert_lt(shared, TURNS_ROWS);
    cr_expect_neq(turns.callers[shared], &callers[TURNS_ROWS], "one too many: the row stays another's");
}

Test(turns, a_row_is_another_s_once_its_caller_has_nothing_open_and_its_window_is_over)
{
    static struct turns turns;
    static char callers[TURNS_ROWS + 1];
    int64_t now_ns = 100 * TURNS_WINDOW_NS;
    for (size_t i = 0; i < TURNS_ROWS; i++)
        turns.rows[turns_row(&turns, &callers[i], now_ns)].live++;
    uint32_t row = turns_row(&turns, &callers[7], now_ns);
    turns_used(&turns, row, now_ns, now_ns + TURNS_SHARE_NS);
    turns.rows[row].live--;
    (void)turns_row(&turns, &callers[TURNS_ROWS], now_ns);
    cr_expect_eq(turns.callers[row], &callers[7], "who left in this window has not been forgotten");
    cr_expect_eq(turns_row(&turns, &callers[TURNS_ROWS], now_ns + TURNS_WINDOW_NS), row);
    cr_expect_eq(turns.callers[row], &callers[TURNS_ROWS]);
    cr_expect_not(turns_must_wait(&turns, row, now_ns + TURNS_WINDOW_NS));
}
