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

/* Callers are neighbours in one array: where they fell into one row, turns did nothing for them. */
Test(turns, neighbours_spread_over_the_rows)
{
    static char callers[4096];
    for (size_t step = 8; step * TURNS_ROWS <= sizeof callers; step += 8) {
        bool is_taken[TURNS_ROWS] = {0};
        unsigned rows = 0;
        for (size_t i = 0; i < TURNS_ROWS; i++) {
            uint32_t row = turns_row(&callers[i * step]);
            cr_assert_lt(row, TURNS_ROWS);
            rows += !is_taken[row];
            is_taken[row] = true;
        }
        cr_expect_gt(rows, TURNS_ROWS / 3, "%u rows, %zu bytes apart", rows, step);
    }
}
