/* exact.h - a fraction of whole numbers that is rounded once, at the end.
 *
 * Products are kept as they come and brought to lowest terms only when 128 bits do not hold them,
 * so that the ordinary case costs multiplications and one division. What lowest terms do not hold
 * either sets `overflowed`, never a wrong number. */
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

static inline void exact_reduce(struct exact *e)
{
    wide common = wide_gcd(e->numerator, e->denominator);
    if (common > 1) {
        e->numerator /= common;
        e->denominator /= common;
    }
}

/* *term x *factor does not fit: what the factor shares with the other term is taken out first. */
static inline void exact_squeeze(struct exact *e, wide *term, wide *other, wide factor)
{
    exact_reduce(e);
    wide common = wide_gcd(factor, *other);
    if (common > 1) {
        factor /= common;
        *other /= common;
    }
    wide product;
    if (__builtin_mul_overflow(*term, factor, &product))
        e->overflowed = true;
    else
        *term = product;
}

static inline void exact_mul(struct exact *e, wide factor)
{
    wide product;
    if (!__builtin_mul_overflow(e->numerator, factor, &product))
        e->numerator = product;
    else
        exact_squeeze(e, &e->numerator, &e->denominator, factor);
}

static inline void exact_div(struct exact *e, wide divisor)
{
    assert(divisor > 0);
    wide product;
    if (!__builtin_mul_overflow(e->denominator, divisor, &product))
        e->denominator = product;
    else
        exact_squeeze(e, &e->denominator, &e->numerator, divisor);
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
static inline bool exact_round(const struct exact *e, tw_decimal step, enum tw_rounding rounding,
                               tw_decimal *ret)
{
    struct exact in_steps = *e;
    exact_div(&in_steps, step);
    if (in_steps.overflowed)
        return false;
    wide steps = in_steps.numerator / in_steps.denominator,
         rest = in_steps.numerator % in_steps.denominator;
    assert(in_steps.numerator >= 0); /* sizes are */
    if (rounding == TW_ROUND_UP && rest != 0)
        steps++;
    if (rounding == TW_ROUND_NEAREST && rest >= in_steps.denominator - rest)
        steps++;
    wide value;
    if (__builtin_mul_overflow(steps, (wide)step, &value) || value > INT64_MAX)
        return false;
    *ret = (tw_decimal)value;
    return true;
}

#endif
