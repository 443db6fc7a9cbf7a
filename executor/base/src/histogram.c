#include <tradewake/base/histogram.h>

#include <assert.h>
#include <stdlib.h>

/* Values below 2^8 have a bucket each; above that the top 8 bits of a value name its bucket. */
#define EXACT_BITS   8u
#define EXACT_VALUES (1u << EXACT_BITS)
#define PER_DOUBLING (EXACT_VALUES / 2u)

__extension__ typedef unsigned __int128 wide; /* no ISO C has it */

#define COUNT_BITS 48u
#define COUNT_MASK ((UINT64_C(1) << COUNT_BITS) - 1u)

static_assert(TW_HISTOGRAM_BUCKETS == EXACT_VALUES + (64u - EXACT_BITS) * PER_DOUBLING,
              "every value of 64 bits has its bucket");
static_assert(100u <= PER_DOUBLING, "a bucket is at most 1 % wide");

static uint32_t index_of(uint64_t bucket)
{
    return (uint32_t)(bucket >> COUNT_BITS);
}

static uint64_t bucket_make(uint32_t index, uint64_t count)
{
    return (uint64_t)index << COUNT_BITS | (count & COUNT_MASK);
}

uint32_t tw_histogram_index(uint64_t value_ns)
{
    if (value_ns < EXACT_VALUES)
        return (uint32_t)value_ns;

    uint32_t shift = 64u - EXACT_BITS - (uint32_t)__builtin_clzll(value_ns);
    return EXACT_VALUES + (shift - 1u) * PER_DOUBLING +
           (uint32_t)((value_ns >> shift) - PER_DOUBLING);
}

uint64_t tw_histogram_upper_ns(uint32_t index)
{
    assert(index < TW_HISTOGRAM_BUCKETS);
    if (index < EXACT_VALUES)
        return index;

    uint32_t shift = (index - EXACT_VALUES) / PER_DOUBLING + 1u;
    uint64_t top = PER_DOUBLING + (index - EXACT_VALUES) % PER_DOUBLING;
    return ((top + 1u) << shift) - 1u; /* of the last bucket: 2^64 - 1, by wrapping */
}

static uint64_t lower_ns(uint32_t index)
{
    return index == 0 ? 0 : tw_histogram_upper_ns(index - 1u) + 1u;
}

/* The first place whose bucket is not before `index`. */
static uint32_t place_of(const struct tw_histogram *histogram, uint32_t index)
{
    uint64_t wanted = bucket_make(index, 0);
    uint32_t low = 0, length = histogram->n_buckets;
    while (length > 0) {
        uint32_t half = length / 2u;
        if (histogram->buckets[low + half] < wanted) {
            low += half + 1u;
            length -= half + 1u;
        } else {
            length = half;
        }
    }
    return low;
}

static bool reserve(struct tw_histogram *histogram, uint32_t buckets)
{
    if (buckets <= histogram->capacity)
        return true;

    uint32_t capacity = histogram->capacity == 0 ? 8u : histogram->capacity;
    while (capacity < buckets)
        capacity += capacity / 2u;
    uint64_t *grown = realloc(histogram->buckets, capacity * sizeof *grown);
    if (grown == NULL)
        return false;
    histogram->buckets = grown;
    histogram->capacity = capacity;
    return true;
}

static uint64_t sum_stopped(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* What is known of the values beside their buckets. */
static void totals_add(struct tw_histogram *histogram, uint64_t count, uint64_t min_ns,
                       uint64_t max_ns, uint64_t sum_ns)
{
    if (histogram->count == 0 || min_ns < histogram->min_ns)
        histogram->min_ns = min_ns;
    if (max_ns > histogram->max_ns)
        histogram->max_ns = max_ns;
    histogram->count += count;
    histogram->sum_ns = sum_stopped(histogram->sum_ns, sum_ns);
}

bool tw_histogram_add(struct tw_histogram *histogram, uint64_t value_ns)
{
    uint32_t index = tw_histogram_index(value_ns);
    uint32_t at = place_of(histogram, index);

    if (at == histogram->n_buckets || index_of(histogram->buckets[at]) != index) {
        if (!reserve(histogram, histogram->n_buckets + 1u))
            return false;
        for (uint32_t i = histogram->n_buckets; i > at; i--)
            histogram->buckets[i] = histogram->buckets[i - 1u];
        histogram->buckets[at] = bucket_make(index, 0);
        histogram->n_buckets++;
    }
    histogram->buckets[at]++;
    totals_add(histogram, 1, value_ns, value_ns, value_ns);
    return true;
}

/* How many buckets of *from, beginning with `first`, *histogram does not have. */
static uint32_t missing_count(const struct tw_histogram *histogram, const struct tw_histogram *from,
                              uint32_t first)
{
    uint32_t missing = 0, at = 0;
    for (uint32_t i = first; i < from->n_buckets; i++) {
        while (at < histogram->n_buckets &&
               index_of(histogram->buckets[at]) < index_of(from->buckets[i]))
            at++;
        if (at == histogram->n_buckets ||
            index_of(histogram->buckets[at]) != index_of(from->buckets[i]))
            missing++;
    }
    return missing;
}

/* Merges from the back, so that no bucket is moved before its place is free. */
static void buckets_merge(struct tw_histogram *histogram, const struct tw_histogram *from,
                          uint32_t first, uint32_t missing)
{
    uint32_t ours = histogram->n_buckets, theirs = from->n_buckets;
    uint32_t to = ours + missing;
    uint64_t *buckets = histogram->buckets;

    histogram->n_buckets = to;
    while (theirs > first) {
        uint64_t other = from->buckets[theirs - 1u];
        if (ours > 0 && index_of(buckets[ours - 1u]) == index_of(other)) {
            buckets[--to] = buckets[--ours] + (other & COUNT_MASK);
            theirs--;
        } else if (ours > 0 && index_of(buckets[ours - 1u]) > index_of(other)) {
            buckets[--to] = buckets[--ours];
        } else {
            buckets[--to] = other;
            theirs--;
        }
    }
}

bool tw_histogram_merge_from(struct tw_histogram *histogram, const struct tw_histogram *from,
                             uint64_t min_ns)
{
    uint32_t first = min_ns == 0 ? 0 : place_of(from, tw_histogram_index(min_ns));
    if (first == from->n_buckets)
        return true;

    uint32_t missing = missing_count(histogram, from, first);
    if (!reserve(histogram, histogram->n_buckets + missing))
        return false;
    buckets_merge(histogram, from, first, missing);

    if (first == 0) {
        totals_add(histogram, from->count, from->min_ns > min_ns ? from->min_ns : min_ns,
                   from->max_ns, from->sum_ns);
        return true;
    }
    uint64_t count = 0, sum_ns = 0, low_ns = lower_ns(index_of(from->buckets[first]));
    for (uint32_t i = first; i < from->n_buckets; i++) {
        uint64_t upper_ns = tw_histogram_bucket_upper_ns(from, i), part_ns;
        count += from->buckets[i] & COUNT_MASK;
        if (__builtin_mul_overflow(upper_ns, from->buckets[i] & COUNT_MASK, &part_ns))
            part_ns = UINT64_MAX;
        sum_ns = sum_stopped(sum_ns, part_ns);
    }
    totals_add(histogram, count, low_ns > min_ns ? low_ns : min_ns, from->max_ns,
               sum_ns < from->sum_ns ? sum_ns : from->sum_ns);
    return true;
}

bool tw_histogram_merge(struct tw_histogram *histogram, const struct tw_histogram *from)
{
    return tw_histogram_merge_from(histogram, from, 0);
}

uint64_t tw_histogram_at(const struct tw_histogram *histogram, uint32_t parts_per_100000)
{
    assert(parts_per_100000 <= 100000u);
    if (histogram->count == 0)
        return 0;

    wide parts = (wide)histogram->count * parts_per_100000;
    uint64_t rank = (uint64_t)((parts + 99999u) / 100000u);
    if (rank == 0)
        rank = 1;

    uint64_t seen = 0;
    for (uint32_t i = 0; i < histogram->n_buckets; i++) {
        seen += histogram->buckets[i] & COUNT_MASK;
        if (seen >= rank) {
            uint64_t upper_ns = tw_histogram_bucket_upper_ns(histogram, i);
            return upper_ns < histogram->max_ns ? upper_ns : histogram->max_ns;
        }
    }
    return histogram->max_ns;
}

uint64_t tw_histogram_bucket_upper_ns(const struct tw_histogram *histogram, uint32_t at)
{
    assert(at < histogram->n_buckets);
    return tw_histogram_upper_ns(index_of(histogram->buckets[at]));
}

uint64_t tw_histogram_bucket_count(const struct tw_histogram *histogram, uint32_t at)
{
    assert(at < histogram->n_buckets);
    return histogram->buckets[at] & COUNT_MASK;
}

void tw_histogram_reset(struct tw_histogram *histogram)
{
    uint64_t *buckets = histogram->buckets;
    uint32_t capacity = histogram->capacity;
    *histogram = (struct tw_histogram){.buckets = buckets, .capacity = capacity};
}

void tw_histogram_clear(struct tw_histogram *histogram)
{
    free(histogram->buckets);
    *histogram = (struct tw_histogram){0};
}
