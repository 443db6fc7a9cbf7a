/* latency.h - how long the simulated broker takes.
 *
 * One number per call, the whole round trip: half of it is the way out, half the way back. Sampling
 * is the one place here with floating point: it decides about time, never about money. */
#ifndef PAPER_LATENCY_H
#define PAPER_LATENCY_H

#include <tradewake/base/status.h>

#include <stdint.h>

enum latency_model { LATENCY_CONSTANT, LATENCY_LOGNORMAL, LATENCY_UNIFORM };

struct latency {
    enum latency_model model;
    int64_t base_ns;   /* constant: the value; log-normal: the median; uniform: the least */
    int64_t spread_ns; /* uniform: the width */
    double sigma;      /* log-normal */
};

/* "constant:130ms", "lognormal:130ms:0.30" or a preset's name.
 * Fails: TW_INVALID, with what is allowed in error. Thread: any. */
TW_MUST_CHECK tw_status latency_parse(const char *text, struct latency *ret,
                                      struct tw_error *error);

/* The next round trip, 0 up to a minute. prng: the account's. Thread: whoever holds its lock. */
int64_t latency_sample_ns(const struct latency *latency, uint64_t *prng);

/* 64 even bits; splitmix64, so that any seed is a good one. */
uint64_t prng_next(uint64_t *state);

/* 0 up to, not including, bound (at least 1). */
uint64_t prng_below(uint64_t *state, uint64_t bound);

#endif
