/* Buckets against their definition, percentiles and merges against a sorted array. */
#include <tradewake/base/histogram.h>

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#define VALUES 20000u

/* A seeded generator (xorshift), so that a failure can be seen again. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Durations of every magnitude: as many below a microsecond as above an hour. */
static void fill_magnitudes(uint64_t *values, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = next_random(&seed) % 64u;
        values[i] = next_random(&seed) >> bits;
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void add_all(struct tw_histogram *histogram, const uint64_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cr_assert(tw_histogram_add(histogram, values[i]));
}

static void expect_same(const struct tw_histogram *a, const struct tw_histogram *b)
{
    cr_expect_eq(a->count, b->count);
    cr_expect_eq(a->min_ns, b->min_ns);
    cr_expect_eq(a->max_ns, b->max_ns);
    cr_expect_eq(a->sum_ns, b->sum_ns);
    cr_assert_eq(a->n_buckets, b->n_buckets);
    cr_expect_eq(memcmp(a->buckets, b->buckets, a->n_buckets * sizeof *a->buckets), 0);
}

Test(histogram, every_bucket_begins_where_the_one_before_ends_and_is_at_most_one_percent_wide)
{
    for (uint32_t i = 1; i < TW_HISTOGRAM_BUCKETS; i++) {
        uint64_t lower = tw_histogram_upper_ns(i - 1u) + 1u, upper = tw_histogram_upper_ns(i);

        cr_assert_geq(upper, lower, "bucket %u", i);
        cr_assert_eq(tw_histogram_index(lower), i, "bucket %u", i);
        cr_assert_eq(tw_histogram_index(upper), i, "bucket %u", i);
        cr_assert_leq(upper - lower, lower / 100u, "bucket %u", i);
    }
    cr_assert_eq(tw_histogram_upper_ns(TW_HISTOGRAM_BUCKETS - 1u), UINT64_MAX);
}

/* Clients merge histograms of different servers: a bound that moves would break them. */
Test(histogram, bounds_are_those_of_v1)
{
    static const struct {
        uint64_t value, upper;
    } rows[] = {
        {0, 0},
        {1, 1},
        {255, 255},
        {256, 257},
        {257, 257},
        {1000, 1003},
        {10000, 10047},
        {1000000, 1003519},
        {2200000, 2211839},
        {130000000, 130023423},
        {UINT64_C(1) << 32, UINT64_C(4328521727)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_eq(tw_histogram_upper_ns(tw_histogram_index(rows[i].value)), rows[i].upper,
                     "%llu: %llu", (unsigned long long)rows[i].value,
                     (unsigned long long)tw_histogram_upper_ns(tw_histogram_index(rows[i].value)));
}

Test(histogram, percentiles_agree_with_a_sorted_array)
{
    static uint64_t values[VALUES];
    static const uint32_t parts[] = {0, 1, 1000, 50000, 90000, 95000, 99000, 99900, 99999, 100000};
    struct tw_histogram histogram = {0};
    fill_magnitudes(values, VALUES, 0x9E3779B97F4A7C15u);
    add_all(&histogram, values, VALUES);
    qsort(values, VALUES, sizeof values[0], compare);

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        uint64_t rank = ((uint64_t)VALUES * parts[i] + 99999u) / 100000u;
        uint64_t exact = values[rank == 0 ? 0 : rank - 1u];
        uint64_t found = tw_histogram_at(&histogram, parts[i]);

        cr_expect_geq(found, exact, "at %u", parts[i]);
        cr_expect_leq(found - exact, exact / 100u, "at %u", parts[i]);
    }
    cr_expect_eq(histogram.count, VALUES);
    cr_expect_eq(histogram.min_ns, values[0]);
    cr_expect_eq(histogram.max_ns, values[VALUES - 1u]);
    cr_expect_eq(tw_histogram_at(&histogram, 100000), values[VALUES - 1u]);
    tw_histogram_clear(&histogram);
}

Test(histogram, bucket_counts_agree_with_a_sorted_array)
{
    static uint64_t values[VALUES];
    struct tw_histogram histogram = {0};
    fill_magnitudes(values, VALUES, 42);
    add_all(&histogram, values, VALUES);
    qsort(values, VALUES, sizeof values[0], compare);

    size_t at = 0;
    for (uint32_t i = 0; i < histogram.n_buckets; i++) {
        uint64_t inside = 0;
        while (at < VALUES && values[at] <= tw_histogram_bucket_upper_ns(&histogram, i)) {
            inside++;
            at++;
        }
        cr_assert_eq(tw_histogram_bucket_count(&histogram, i), inside, "bucket %u", i);
        cr_assert_gt(inside, 0, "an empty bucket takes no place");
    }
    cr_expect_eq(at, VALUES);
    tw_histogram_clear(&histogram);
}

Test(histogram, merging_is_the_same_as_having_seen_it_all)
{
    static uint64_t values[VALUES];
    struct tw_histogram all = {0}, left = {0}, right = {0};
    fill_magnitudes(values, VALUES, 7);
    add_all(&all, values, VALUES);
    add_all(&left, values, VALUES / 3u);
    add_all(&right, values + VALUES / 3u, VALUES - VALUES / 3u);

    cr_assert(tw_histogram_merge(&left, &right));
    expect_same(&left, &all);

    struct tw_histogram empty = {0};
    cr_assert(tw_histogram_merge(&empty, &all));
    expect_same(&empty, &all);
    tw_histogram_reset(&right);
    cr_assert(tw_histogram_merge(&all, &right));
    expect_same(&all, &empty);

    tw_histogram_clear(&all);
    tw_histogram_clear(&left);
    tw_histogram_clear(&right);
    tw_histogram_clear(&empty);
}

Test(histogram, a_part_holds_the_buckets_from_the_bound_up)
{
    static uint64_t values[VALUES];
    const uint64_t min_ns = 5000000;
    struct tw_histogram all = {0}, part = {0};
    uint64_t inside = 0, sum = 0;
    for (size_t i = 0; i < VALUES; i++) {
        values[i] = 1000u + i * 1000u;
        /* The bound's own bucket counts whole. */
        if (tw_histogram_index(values[i]) >= tw_histogram_index(min_ns)) {
            inside++;
            sum += values[i];
        }
    }
    add_all(&all, values, VALUES);

    cr_assert(tw_histogram_merge_from(&part, &all, min_ns));
    cr_expect_eq(part.count, inside);
    cr_expect_eq(part.min_ns, min_ns);
    cr_expect_eq(part.max_ns, all.max_ns);
    cr_expect_geq(part.sum_ns, sum);
    cr_expect_leq(part.sum_ns - sum, sum / 100u);

    struct tw_histogram none = {0};
    cr_assert(tw_histogram_merge_from(&none, &all, UINT64_MAX));
    cr_expect_eq(none.count, 0);

    struct tw_histogram whole = {0};
    cr_assert(tw_histogram_merge_from(&whole, &all, 1));
    expect_same(&whole, &all);

    tw_histogram_clear(&all);
    tw_histogram_clear(&part);
    tw_histogram_clear(&none);
    tw_histogram_clear(&whole);
}

Test(histogram, an_empty_one_has_no_figures)
{
    struct tw_histogram histogram = {0};

    cr_expect_eq(tw_histogram_at(&histogram, 99000), 0);
    cr_assert(tw_histogram_add(&histogram, 0));
    cr_expect_eq(histogram.count, 1);
    cr_expect_eq(tw_histogram_at(&histogram, 50000), 0);
    tw_histogram_reset(&histogram);
    cr_expect_eq(histogram.count, 0);
    cr_assert(tw_histogram_add(&histogram, UINT64_MAX));
    cr_assert(tw_histogram_add(&histogram, UINT64_MAX));
    cr_expect_eq(histogram.sum_ns, UINT64_MAX, "the sum stops instead of wrapping");
    cr_expect_eq(tw_histogram_at(&histogram, 1), UINT64_MAX);
    tw_histogram_clear(&histogram);
}

/* ---- Memory that is not there. ---- */

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
static bool realloc_fails;

void *__wrap_realloc(void *old, size_t size)
{
    return realloc_fails ? NULL : __real_realloc(old, size);
}

Test(histogram, without_memory_nothing_has_changed)
{
    struct tw_histogram histogram = {0}, other = {0};
    for (uint64_t i = 0; i < 8; i++)
        cr_assert(tw_histogram_add(&histogram, i));
    for (uint64_t i = 4; i < 40; i++)
        cr_assert(tw_histogram_add(&other, i));

    realloc_fails = true;
    cr_expect_not(tw_histogram_add(&histogram, 1000));
    cr_expect_not(tw_histogram_merge(&histogram, &other));
    cr_expect(tw_histogram_add(&histogram, 3), "a bucket that is there needs none");
    realloc_fails = false;

    cr_expect_eq(histogram.count, 9);
    cr_expect_eq(histogram.n_buckets, 8);
    cr_expect_eq(histogram.max_ns, 7);
    tw_histogram_clear(&histogram);
    tw_histogram_clear(&other);
}
