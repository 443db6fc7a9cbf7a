/* base_decimal.c - reading, writing and rounding money; the edges of what fits. */
#include <tradewake/base/decimal.h>

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>

#define ONE      TW_DECIMAL_ONE
#define DIGITS18 INT64_C(999999999999999999)

Test(decimal, reads_what_the_wire_may_say_and_nothing_else)
{
    static const struct {
        const char *text;
        bool is_good;
        tw_decimal value;
    } cases[] = {
        {"", true, TW_DECIMAL_UNSET},
        {"0", true, 0},
        {"-0", true, 0},
        {"1", true, ONE},
        {"1.25", true, 125000000},
        {"-1.25", true, -125000000},
        {"0.00000001", true, 1},
        {"-0.00000001", true, -1},
        {"007.10", true, 710000000},
        {"9999999999.99999999", true, DIGITS18},
        {"-9999999999.99999999", true, -DIGITS18},
        {"10000000000", false, 0}, /* eleven digits */
        {"00000000001", false, 0}, /* eleven digits, whatever they are */
        {"0.000000001", false, 0}, /* nine behind the point */
        {"0.123456780", false, 0}, /* also when the ninth is 0 */
        {".5", false, 0},
        {"5.", false, 0},
        {"-", false, 0},
        {"--1", false, 0},
        {"+1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"1,5", false, 0},
        {"1.5.5", false, 0},
        {"1e5", false, 0},
        {"0x10", false, 0},
        {"NaN", false, 0},
        {"\xd9\xa1", false, 0}, /* a digit elsewhere in Unicode */
        {"99999999999999999999999999", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tw_decimal value = 42;
        bool is_good = tw_decimal_parse(cases[i].text, &value);
        cr_expect_eq(is_good, cases[i].is_good, "\"%s\"", cases[i].text);
        cr_expect_eq(value, cases[i].is_good ? cases[i].value : 42, "\"%s\" gives %ld",
                     cases[i].text, value);
    }
}

Test(decimal, writes_the_shortest_text)
{
    static const struct {
        tw_decimal value;
        const char *text;
    } cases[] = {
        {TW_DECIMAL_UNSET, ""},
        {0, "0"},
        {1, "0.00000001"},
        {-1, "-0.00000001"},
        {ONE, "1"},
        {-10 * ONE, "-10"},
        {125000000, "1.25"},
        {DIGITS18, "9999999999.99999999"},
        {INT64_MAX, "92233720368.54775807"},
        {-INT64_MAX, "-92233720368.54775807"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[TW_DECIMAL_TEXT_BYTES];
        cr_expect_str_eq(tw_decimal_text(cases[i].value, text), cases[i].text);
    }
}

Test(decimal, what_is_written_reads_back)
{
    uint64_t state = 20261130;
    for (int i = 0; i < 100000; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        tw_decimal value = (int64_t)(state >> 4) % (DIGITS18 + 1), again = 0;
        value = (state & 1) != 0 ? -value : value;
        char text[TW_DECIMAL_TEXT_BYTES];
        cr_assert(tw_decimal_parse(tw_decimal_text(value, text), &again), "\"%s\"", text);
        cr_assert_eq(again, value, "\"%s\"", text);
    }
}

Test(decimal, rounds_to_a_step_toward_away_or_to_the_nearest)
{
    static const struct {
        tw_decimal value, step, down, nearest, up;
    } cases[] = {
        {0, 10, 0, 0, 0},
        {14, 10, 10, 10, 20},
        {15, 10, 10, 20, 20}, /* half goes away from zero */
        {16, 10, 10, 20, 20},
        {20, 10, 20, 20, 20},
        {-14, 10, -10, -10, -20},
        {-15, 10, -10, -20, -20},
        {-16, 10, -10, -20, -20},
        {5, 7, 0, 7, 7},
        {3, 7, 0, 0, 7},
        {1, INT64_MAX, 0, 0, INT64_MAX},
        /* A result that does not fit stays below: there is no such multiple. */
        {INT64_MAX, INT64_MAX - 1, INT64_MAX - 1, INT64_MAX - 1, INT64_MAX - 1},
        {-INT64_MAX, 2, -INT64_MAX + 1, -INT64_MAX + 1, -INT64_MAX + 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tw_decimal value = cases[i].value, step = cases[i].step;
        cr_expect_eq(tw_decimal_round(value, step, TW_ROUND_DOWN), cases[i].down, "down %zu", i);
        cr_expect_eq(tw_decimal_round(value, step, TW_ROUND_NEAREST), cases[i].nearest, "near %zu",
                     i);
        cr_expect_eq(tw_decimal_round(value, step, TW_ROUND_UP), cases[i].up, "up %zu", i);
    }
}

Test(decimal, scales_exactly_and_rounds_once)
{
    static const struct {
        const char *name;
        tw_decimal value, numerator, denominator, step;
        enum tw_rounding rounding;
        bool fits;
        tw_decimal result;
    } cases[] = {
        {"a third", ONE, 1, 3, 1, TW_ROUND_DOWN, true, 33333333},
        {"a third, up", ONE, 1, 3, 1, TW_ROUND_UP, true, 33333334},
        {"negative, down is toward zero", -ONE, 1, 3, 1, TW_ROUND_DOWN, true, -33333333},
        /* 1.499999988500000001: rounded to 1e-8 first it would be 1.49999999 or 1.5 and then 2. */
        {"rounded once", 149999999, 999999999, 1000000000, ONE, TW_ROUND_NEAREST, true, ONE},
        {"just below half a step", 1499, 1, 1000, 3, TW_ROUND_NEAREST, true, 0},
        {"half a step", 1500, 1, 1000, 3, TW_ROUND_NEAREST, true, 3},
        {"to a step", 123 * ONE, 1, 1, 10 * ONE, TW_ROUND_DOWN, true, 120 * ONE},
        {"128 bits in between", INT64_MAX, INT64_MAX, INT64_MAX, 1, TW_ROUND_DOWN, true, INT64_MAX},
        {"does not fit", INT64_MAX, 2, 1, 1, TW_ROUND_DOWN, false, 0},
        {"does not fit below", -INT64_MAX, 2, 1, 1, TW_ROUND_DOWN, false, 0},
        {"the last step does not fit", INT64_MAX, 1, 1, 2, TW_ROUND_UP, false, 0},
        {"INT64_MIN is not a number", INT64_C(-4611686018427387904), 2, 1, 1, TW_ROUND_DOWN, false,
         0},
        {"huge denominator and step", INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, TW_ROUND_DOWN,
         true, INT64_MAX},
        {"nothing", 0, INT64_MAX, 1, 1, TW_ROUND_UP, true, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tw_decimal result = 42;
        bool fits = tw_decimal_scale(cases[i].value, cases[i].numerator, cases[i].denominator,
                                     cases[i].step, cases[i].rounding, &result);
        cr_expect_eq(fits, cases[i].fits, "%s", cases[i].name);
        cr_expect_eq(result, cases[i].fits ? cases[i].result : 42, "%s: %ld", cases[i].name,
                     result);
    }
}

Test(decimal, sums_and_products_that_do_not_fit_are_refused)
{
    tw_decimal result = 42;
    cr_expect_not(tw_decimal_add(INT64_MAX, 1, &result));
    cr_expect_not(tw_decimal_add(-INT64_MAX, -1, &result), "INT64_MIN is UNSET");
    cr_expect_not(tw_decimal_add(TW_DECIMAL_UNSET, ONE, &result));
    cr_expect_not(tw_decimal_add(ONE, TW_DECIMAL_UNSET, &result));
    cr_expect_not(tw_decimal_mul(INT64_MAX, 2 * ONE, &result));
    cr_expect_eq(result, 42, "a refusal changed the result");

    cr_expect(tw_decimal_add(INT64_MAX, -1, &result));
    cr_expect_eq(result, INT64_MAX - 1);
    cr_expect(tw_decimal_mul(150000000, -150000000, &result));
    cr_expect_eq(result, -225000000);
    cr_expect(tw_decimal_mul(1, 99999999, &result), "what is below 1e-8 is cut");
    cr_expect_eq(result, 0);
}
