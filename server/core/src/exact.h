/* exact.h - one product of whole numbers over another, rounded once, at the end.
 *
 * Factors are only noted until a value is wanted. Then they are multiplied as they are, which
 * nearly always fits 128 bits; where it does not, what above and below have in common is taken out
 * first. What does not fit in lowest terms either is said to be so: never a wrong number. */
#ifndef TW_CORE_EXACT_H
#define TW_CORE_EXACT_H

#include <tradewake/base/decimal.h>

#include <assert.h>
#include <stdbool.h>

__extension__ typedef unsigned __int128 wide;

enum { EXACT_FACTORS_MAX = 6 }; /* the longest size has five */

struct exact {
    uint64_t above[EXACT_FACTORS_MAX], below[EXACT_FACTORS_MAX]; /* below: none is 0 */
    uint32_t n_above, n_below;
};

static inline void exact_mul(struct exact *e, uint64_t factor)
{
    assert(e->n_above < EXACT_FACTORS_MAX);
    e->above[e->n_above++] = factor;
}

static inline void exact_div(struct exact *e, uint64_t divisor)
{
    assert(divisor > 0);
    assert(e->n_below < EXACT_FACTORS_MAX);
    e->below[e->n_below++] = divisor;
}

/* value: not below 0, as sizes are. */
static inline void exact_set(struct exact *e, tw_decimal value)
{
    assert(value >= 0);
    e->above[0] = (uint64_t)value;
    e->n_above = 1;
    e->n_below = 0;
}

static inline uint64_t exact_gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static inline void exact_reduce(struct exact *e)
{
    for (uint32_t i = 0; i < e->n_above; i++)
        for (uint32_t k = 0; k < e->n_below; k++) {
            uint64_t common = exact_gcd(e->above[i], e->below[k]);
            e->above[i] /= common;
            e->below[k] /= common;
        }
}

/* Digit by digit of 64 bits. False: more than 128. */
static inline bool exact_product(const uint64_t *factors, uint32_t n, wide *ret)
{
    uint64_t low = n > 0 ? factors[0] : 1, high = 0;
    for (uint32_t i = 1; i < n; i++) {
        wide below = (wide)low * factors[i];
        low = (uint64_t)below;
        if (__builtin_mul_overflow(high, factors[i], &high) ||
            __builtin_add_overflow(high, (uint64_t)(below >> 64), &high))
            return false;
    }
    *ret = (wide)high << 64 | low;
    return true;
}

/* False: not even in lowest terms. */
static inline bool exact_terms(const struct exact *e, wide *ret_numerator, wide *ret_denominator)
{
    if (exact_product(e->above, e->n_above, ret_numerator) &&
        exact_product(e->below, e->n_below, ret_denominator))
        return true;
    struct exact lowest = *e;
    exact_reduce(&lowest);
    return exact_product(lowest.above, lowest.n_above, ret_numerator) &&
           exact_product(lowest.below, lowest.n_below, ret_denominator);
}

/* Whether e >= value; `otherwise` where its terms do not fit. */
static inline bool exact_reaches(const struct exact *e, tw_decimal value, bool otherwise)
{
    wide numerator, denominator, least;
    if (value <= 0)
        return true;
    if (!exact_terms(e, &numerator, &denominator))
        return otherwise;
    if (!__builtin_mul_overflow(denominator, (wide)value, &least))
        return numerator >= least;
    return numerator / denominator >= (wide)value;
}

/* A fraction worked out: whole and rest / denominator. One division of 128 bits, however often it
 * is rounded. */
struct exact_value {
    int64_t whole;
    wide rest, denominator;
};

/* False when it does not fit a decimal. */
static inline bool exact_value(const struct exact *e, struct exact_value *ret)
{
    wide numerator, denominator;
    if (!exact_terms(e, &numerator, &denominator))
        return false;
    wide whole = numerator / denominator;
    if (whole > INT64_MAX)
        return false;
    *ret = (struct exact_value){(int64_t)whole, numerator - whole * denominator, denominator};
    return true;
}

/* To a whole multiple of step. False when that does not fit a decimal. */
static inline bool exact_round(const struct exact_value *value, tw_decimal step,
                               enum tw_rounding rounding, tw_decimal *ret)
{
    int64_t low = value->whole / step * step, over = value->whole - low;
    bool is_half = over > (step - 1) / 2 || (step % 2 != 0 && over == step / 2 &&
                                             value->rest >= value->denominator - value->rest);
    bool goes_up = (rounding == TW_ROUND_UP && (over > 0 || value->rest > 0)) ||
                   (rounding == TW_ROUND_NEAREST && is_half);
    *ret = low;
    return !goes_up || !__builtin_add_overflow(low, step, ret);
}

#endif
