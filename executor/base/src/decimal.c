#include <tradewake/base/decimal.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { WHOLE_DIGITS_MAX = 10, FRACTION_DIGITS_MAX = 8 };

__extension__ typedef __int128 wide;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool tw_decimal_parse(const char *text, tw_decimal *ret)
{
    if (*text == '\0') {
        *ret = TW_DECIMAL_UNSET;
        return true;
    }

    bool negative = *text == '-';
    const char *at = text + negative;
    int64_t units = 0;
    int whole_digits = 0, fraction_digits = 0;
    for (; is_digit(*at) && whole_digits <= WHOLE_DIGITS_MAX; at++, whole_digits++)
        units = units * 10 + (*at - '0');
    if (whole_digits == 0 || whole_digits > WHOLE_DIGITS_MAX)
        return false;

    if (*at == '.') {
        at++;
        for (; is_digit(*at) && fraction_digits < FRACTION_DIGITS_MAX; at++, fraction_digits++)
            units = units * 10 + (*at - '0');
        if (fraction_digits == 0)
            return false;
    }
    if (*at != '\0')
        return false;

    /* At most 18 digits: ten in front of the point and eight behind it fit an int64. */
    for (; fraction_digits < FRACTION_DIGITS_MAX; fraction_digits++)
        units *= 10;
    *ret = negative ? -units : units;
    return true;
}

char *tw_decimal_text(tw_decimal value, char text[TW_DECIMAL_TEXT_BYTES])
{
    if (value == TW_DECIMAL_UNSET) {
        text[0] = '\0';
        return text;
    }
    uint64_t magnitude = value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value;
    uint64_t whole = magnitude / (uint64_t)TW_DECIMAL_ONE, fraction = magnitude % (uint64_t)TW_DECIMAL_ONE;
    int length = snprintf(text, TW_DECIMAL_TEXT_BYTES, "%s%llu.%08llu", value < 0 ? "-" : "",
                          (unsigned long long)whole, (unsigned long long)fraction);
    while (text[length - 1] == '0')
        text[--length] = '\0';
    if (text[length - 1] == '.')
        text[--length] = '\0';
    return text;
}

/* numerator / denominator as a whole number; denominator above 0. */
static wide divide(wide numerator, wide denominator, enum tw_rounding rounding)
{
    wide quotient = numerator / denominator, rest = numerator % denominator;
    wide away = numerator < 0 ? -1 : 1;
    wide magnitude = rest < 0 ? -rest : rest;
    switch (rounding) {
    case TW_ROUND_DOWN:
        return quotient;
    case TW_ROUND_NEAREST:
        return magnitude >= denominator - magnitude ? quotient + away : quotient;
    case TW_ROUND_UP:
        return magnitude != 0 ? quotient + away : quotient;
    }
    assert(!"a rounding that does not exist");
    return quotient;
}

static bool fits(wide value)
{
    return value > INT64_MIN && value <= INT64_MAX; /* INT64_MIN is UNSET */
}

bool tw_decimal_scale(tw_decimal value, tw_decimal numerator, tw_decimal denominator,
                      tw_decimal step, enum tw_rounding rounding, tw_decimal *ret)
{
    assert(value != TW_DECIMAL_UNSET && numerator != TW_DECIMAL_UNSET);
    assert(denominator > 0);
    assert(step > 0);

    /* One division by denominator x step: rounding twice would not be exact. Both products of two
     * int64 fit 127 bits. */
    wide steps = divide((wide)value * numerator, (wide)denominator * step, rounding);
    if (!fits(steps))
        return false;
    wide scaled = steps * step;
    if (!fits(scaled))
        return false;
    *ret = (tw_decimal)scaled;
    return true;
}

tw_decimal tw_decimal_round(tw_decimal value, tw_decimal step, enum tw_rounding rounding)
{
    assert(value != TW_DECIMAL_UNSET);
    assert(step > 0);
    /* 64 bits do: only the step away from zero may not fit, and then the value stays below. */
    tw_decimal low = value / step * step, rest = value - low, rounded;
    tw_decimal magnitude = rest < 0 ? -rest : rest;
    bool goes_away = (rounding == TW_ROUND_UP && rest != 0) ||
                     (rounding == TW_ROUND_NEAREST && magnitude >= step - magnitude);
    if (!goes_away || __builtin_add_overflow(low, value < 0 ? -step : step, &rounded) ||
        rounded == TW_DECIMAL_UNSET)
        return low;
    return rounded;
}

bool tw_decimal_mul(tw_decimal a, tw_decimal b, tw_decimal *ret)
{
    return tw_decimal_scale(a, b, TW_DECIMAL_ONE, 1, TW_ROUND_DOWN, ret);
}

bool tw_decimal_add(tw_decimal a, tw_decimal b, tw_decimal *ret)
{
    if (a == TW_DECIMAL_UNSET || b == TW_DECIMAL_UNSET)
        return false;
    tw_decimal sum;
    if (__builtin_add_overflow(a, b, &sum) || sum == TW_DECIMAL_UNSET)
        return false;
    *ret = sum;
    return true;
}
