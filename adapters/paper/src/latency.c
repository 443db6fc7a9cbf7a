#include "latency.h"
#include "text.h"
#include "wide.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/decimal.h>

#include <math.h>
#include <string.h>

#define SAMPLE_NS_MAX (60 * TW_NS_PER_S)
#define SIGMA_MAX     (5 * TW_DECIMAL_ONE)
enum { TEXT_CHARS_MAX = 64 };

/* Fitted to published figures of real venues (README.md); only how long, not what they answer. */
static const struct {
    const char *name;
    struct latency latency;
} presets[] = {
    {"zero", {LATENCY_CONSTANT, 0, 0, 0}},
    {"mt4-lib", {LATENCY_LOGNORMAL, 130 * TW_NS_PER_MS, 0, 0.30}},
    {"mt5-vps", {LATENCY_LOGNORMAL, 35 * TW_NS_PER_MS, 0, 0.50}},
    {"mt-remote", {LATENCY_LOGNORMAL, 220 * TW_NS_PER_MS, 0, 0.40}},
    {"ctrader", {LATENCY_LOGNORMAL, 85 * TW_NS_PER_MS, 0, 0.45}},
    {"fix-lastlook", {LATENCY_UNIFORM, 5 * TW_NS_PER_MS, 100 * TW_NS_PER_MS, 0}},
    {"fix-exchange", {LATENCY_LOGNORMAL, 2 * TW_NS_PER_MS, 0, 0.60}},
    {"crypto", {LATENCY_LOGNORMAL, 25 * TW_NS_PER_MS, 0, 0.80}},
};

static bool sigma_parse(struct span span, double *ret)
{
    char text[TW_DECIMAL_TEXT_BYTES];
    tw_decimal sigma;
    if (span.size == 0 || !span_copy(span, text, sizeof(text)) || !tw_decimal_parse(text, &sigma) ||
        sigma < 0 || sigma > SIGMA_MAX)
        return false;
    *ret = (double)sigma / (double)TW_DECIMAL_ONE;
    return true;
}

tw_status latency_parse(const char *text, struct latency *ret, struct tw_error *error)
{
    for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++) {
        if (span_is(span_of(text), presets[i].name)) {
            *ret = presets[i].latency;
            return TW_OK;
        }
    }

    struct span rest = span_of(text), model = {0}, base = {0}, sigma = {0}, more;
    struct latency latency = {0};
    (void)span_split(&rest, ':', &model);
    bool has_base = span_split(&rest, ':', &base) && span_duration(base, &latency.base_ns);
    bool has_sigma = span_split(&rest, ':', &sigma);
    bool has_more = span_split(&rest, ':', &more) || strlen(text) > TEXT_CHARS_MAX;
    if (has_base && !has_more && span_is(model, "constant") && !has_sigma) {
        latency.model = LATENCY_CONSTANT;
    } else if (has_base && !has_more && span_is(model, "lognormal") && has_sigma &&
               sigma_parse(sigma, &latency.sigma)) {
        latency.model = LATENCY_LOGNORMAL;
    } else {
        return tw_error_set(
            error, TW_INVALID,
            "latency is \"%.64s\", expected constant:TIME, lognormal:TIME:SIGMA or one of "
            "zero, mt4-lib, mt5-vps, mt-remote, ctrader, fix-lastlook, fix-exchange, "
            "crypto",
            text);
    }
    *ret = latency;
    return TW_OK;
}

uint64_t prng_next(uint64_t *state)
{
    uint64_t mixed = *state += 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

uint64_t prng_below(uint64_t *state, uint64_t bound)
{
    return (uint64_t)(((wide_unsigned)prng_next(state) * bound) >> 64);
}

/* Above 0, up to 1: the logarithm of 0 is not a number. */
static double prng_unit(uint64_t *state)
{
    return ((double)(prng_next(state) >> 11) + 1.0) / 9007199254740992.0;
}

static double lognormal(const struct latency *latency, uint64_t *prng)
{
    double radius = sqrt(-2.0 * log(prng_unit(prng)));
    double z = radius * cos(6.283185307179586 * prng_unit(prng)); /* Box and Muller */
    return (double)latency->base_ns * exp(latency->sigma * z);
}

int64_t latency_sample_ns(const struct latency *latency, uint64_t *prng)
{
    switch (latency->model) {
    case LATENCY_CONSTANT:
        return latency->base_ns;
    case LATENCY_LOGNORMAL: {
        double ns = lognormal(latency, prng);
        return ns < (double)SAMPLE_NS_MAX ? (int64_t)ns : SAMPLE_NS_MAX;
    }
    case LATENCY_UNIFORM:
        return latency->base_ns + (int64_t)prng_below(prng, (uint64_t)latency->spread_ns + 1);
    }
    return 0;
}
