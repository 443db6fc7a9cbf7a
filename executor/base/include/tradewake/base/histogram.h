/* histogram.h - how often which duration: log-linear, sparse, mergeable.
 *
 * Buckets as in HdrHistogram with two significant digits: values below 256 have a bucket each, above
 * that every doubling is cut into 128, so that a bucket is less than 0.8 % wide. The bounds are the
 * same in every histogram and never change in v1: two are merged by adding counts. Only buckets that
 * hold something take memory, 8 bytes each; a real distribution has a few hundred.
 *
 * {0} is an empty histogram. Not for two threads at once: one owner fills it and hands it over. */
#ifndef TW_BASE_HISTOGRAM_H
#define TW_BASE_HISTOGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TW_HISTOGRAM_BUCKETS 7424u /* over all uint64 values */

/* The bucket a value belongs to, and the largest value of a bucket. */
uint32_t tw_histogram_index(uint64_t value_ns);
uint64_t tw_histogram_upper_ns(uint32_t index);

struct tw_histogram {
    uint64_t count;          /* values seen */
    uint64_t min_ns, max_ns; /* of an empty one: 0 */
    uint64_t sum_ns;         /* stops at UINT64_MAX */
    uint64_t *buckets;       /* ascending; index << 48 | count; from the heap */
    uint32_t n_buckets, capacity;
};

/* Adds one value. False, with nothing changed, when there is no memory for a new bucket. */
bool tw_histogram_add(struct tw_histogram *histogram, uint64_t value_ns);

/* Adds all of *from, which stays as it is. False, with nothing changed, without memory. */
bool tw_histogram_merge(struct tw_histogram *histogram, const struct tw_histogram *from);

/* As merge, but only the buckets that reach up to min_ns or higher. min and sum of the part are
 * known to the width of a bucket only. */
bool tw_histogram_merge_from(struct tw_histogram *histogram, const struct tw_histogram *from,
                             uint64_t min_ns);

/* The smallest bucket bound (but no more than the maximum) that at least parts_per_100000 of the
 * values do not exceed: 50000 is the median, 99900 is p99.9. 0 when empty. */
uint64_t tw_histogram_at(const struct tw_histogram *histogram, uint32_t parts_per_100000);

uint64_t tw_histogram_bucket_upper_ns(const struct tw_histogram *histogram, uint32_t at);
uint64_t tw_histogram_bucket_count(const struct tw_histogram *histogram, uint32_t at);

/* Empties; the memory is kept for the next round. */
void tw_histogram_reset(struct tw_histogram *histogram);

/* Empties and frees. {0} is allowed. */
void tw_histogram_clear(struct tw_histogram *histogram);

#endif
