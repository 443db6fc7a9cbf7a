/* exact.h - a fraction of whole numbers that is rounded once, at the end.
 *
 * Numerator and denominator are kept in lowest terms, so that 128 bits hold what real volumes,
 * balances and prices multiply to; what they do not hold sets `overflowed`, never a wrong number. */
#ifndef TW_CORE_EXACT_H
#define TW_CORE_EXACT_H

#include <tradewake/base/decimal.h>

#include <assert.h>
#include <stdbool.h>

__extension__ typedef __int128 wide;

struct exact {
    wide numerator, denominator; /* denominator above 0 */
    bool overflowed;
};

static inline wide wide_gcd(wide a, wide b)
{
    a = a < 0 ? -a : a;
    while (b != 0) {
        wide rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static inline struct exact exact_of(wide value)
{
    return (struct exact){value, 1, false};
}

static inline void exact_mul(struct exact *e, wide factor)
{
    wide common = wide_gcd(factor, e->denominator);
    if (common > 1) {
        factor /= common;
        e->denominator /= common;
    }
    e->overflowed |= __builtin_mul_overflow(e->numerator, factor, &e->numerator);
}

static inline void exact_div(struct exact *e, wide divisor)
{
    assert(divisor > 0);
    wide common = wide_gcd(e->numerator, divisor);
    if (common > 1) {
        divisor /= common;
        e->numerator /= common;
    }
    e->overflowed |= __builtin_mul_overflow(e->denominator, divisor, &e->denominator);
}

/* Below 0, 0 or above 0, as e is to value. */
static inline int exact_compare(const struct exact *e, tw_decimal value)
{
    /* Whole part first: value x denominator may not fit. */
    wide whole = e->numerator / e->denominator, rest = e->numerator % e->denominator;
    if (whole != value)
        return whole < value ? -1 : 1;
    return rest == 0 ? 0 : rest < 0 ? -1 : 1;
}

/* To a whole multiple of step. False when it does not fit a decimal. */
static inline bool exact_round(struct exact *e, tw_decimal step, enum tw_rounding rounding,
                               tw_decimal *ret)
{
    exact_div(e, step);
    if (e->overflowed)
        return false;
    wide steps = e->numerator / e->denominator, rest = e->numerator % e->denominator;
    assert(e->numerator >= 0); /* sizes are */
    if (rounding == TW_ROUND_UP && rest != 0)
        steps++;
    if (rounding == TW_ROUND_NEAREST && rest >= e->denominator - rest)
        steps++;
    wide value;
    if (__builtin_mul_overflow(steps, (wide)step, &value) || value > INT64_MAX)
        return false;
    *ret = (tw_decimal)value;
    return true;
}

#endif
