/* decimal.h - money, prices and volumes: integers scaled by 1e-8, never floating point.
 *
 * Every operation is exact or says that it cannot be: a result that does not fit is an error, never
 * a wrapped number. Rounding happens in one place, at the end of a calculation, and is named. */
#ifndef TW_BASE_DECIMAL_H
#define TW_BASE_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int64_t tw_decimal; /* units of 1e-8: "1.25" is 125000000 */

#define TW_DECIMAL_ONE INT64_C(100000000)
#define TW_DECIMAL_UNSET INT64_MIN /* absent: the "" of the wire */
#define TW_DECIMAL_TEXT_BYTES 24u

/* Reads -?[0-9]{1,10}(\.[0-9]{1,8})? and nothing else; "" is TW_DECIMAL_UNSET.
 * False, with *ret untouched, for anything else. Thread: any. */
bool tw_decimal_parse(const char *text, tw_decimal *ret);

/* Canonical: no trailing zeros, no plus, "-0" is "0"; UNSET is "". Returns text. */
char *tw_decimal_text(tw_decimal value, char text[TW_DECIMAL_TEXT_BYTES]);

enum tw_rounding { TW_ROUND_DOWN /* toward zero */, TW_ROUND_NEAREST /* half away from zero */,
                   TW_ROUND_UP /* away from zero */ };

/* value x numerator / denominator, rounded once to a whole multiple of step (1 = 1e-8).
 * denominator and step are above 0. False when the result does not fit; *ret is untouched then. */
bool tw_decimal_scale(tw_decimal value, tw_decimal numerator, tw_decimal denominator,
                      tw_decimal step, enum tw_rounding rounding, tw_decimal *ret);

/* value to a whole multiple of step. step is above 0; the magnitude only grows by less than a step. */
tw_decimal tw_decimal_round(tw_decimal value, tw_decimal step, enum tw_rounding rounding);

/* a x b, rounded toward zero to 1e-8. False when it does not fit. */
bool tw_decimal_mul(tw_decimal a, tw_decimal b, tw_decimal *ret);

/* a + b. False when it does not fit, or one of the two is UNSET. */
bool tw_decimal_add(tw_decimal a, tw_decimal b, tw_decimal *ret);

#endif
