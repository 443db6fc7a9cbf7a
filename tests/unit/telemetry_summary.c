/* Groups, cells and bursts: the pure part of what the sampler keeps. */
#include "cells.h"
#include "sampler_inside.h"
#include "summary.h"

#include <tradewake/base/clock.h>

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

static struct summary_subject subject_of(const char *master, const char *follower, uint32_t threads)
{
    return (struct summary_subject){.master_id = master,
                                    .follower_id = follower,
                                    .adapter = "paper",
                                    .threads_range = threads_range(threads)};
}

static struct summary_times times_of(uint64_t own_ns, bool is_held)
{
    return (struct summary_times){.ns = {[TW_OWN_TIME] = own_ns,
                                         [TW_PATH_TIME] = own_ns + 1000,
                                         [TW_QUEUE_WAIT] = own_ns / 2,
                                         [TW_BROKER_TIME] = 130000000},
                                  .is_held = is_held};
}

static const struct tw_summary_group *group_named(const struct tw_summary *summary, const char *key)
{
    for (size_t i = 0; i < tw_summary_span(summary).groups; i++)
        if (strcmp(tw_summary_group_at(summary, i)->key, key) == 0)
            return tw_summary_group_at(summary, i);
    return NULL;
}

static uint64_t copies_of(const struct tw_summary_group *group)
{
    return group == NULL ? 0 : group->times[TW_BROKER_TIME].count;
}

Test(summary, threads_fall_into_ranges_of_powers_of_two)
{
    static const struct {
        uint32_t threads;
        const char *label;
    } rows[] = {{0, "0"},
                {1, "1"},
                {2, "2"},
                {3, "3-4"},
                {4, "3-4"},
                {5, "5-8"},
                {512, "257-512"},
                {513, "513-1024"},
                {1024, "513-1024"},
                {1025, "1025-2048"},
                {65535, "32769-65536"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tw_summary *summary = summary_new(TW_GROUP_BY_THREADS, 0);
        struct summary_subject subject = subject_of("M", "F", rows[i].threads);
        struct summary_times times = times_of(1, false);
        cr_assert(group_add(summary_group(summary, &subject), &times));
        cr_assert_eq(tw_summary_finish(summary), TW_OK);
        cr_expect_str_eq(tw_summary_group_at(summary, 0)->key, rows[i].label, "%u",
                         rows[i].threads);
        tw_summary_free(summary);
    }
}

Test(summary, steps_begin_with_their_bound)
{
    cr_expect_eq(fixed_step(0), 0);
    cr_expect_eq(fixed_step(9999), 0);
    cr_expect_eq(fixed_step(10000), 1);
    cr_expect_eq(fixed_step(UINT64_C(9999999999)), TW_FIXED_BUCKETS - 1u);
    cr_expect_eq(fixed_step(UINT64_MAX), TW_FIXED_BUCKETS);
}

/* 100 followers, follower i with i copies: the 64 largest are shown, the 36 smallest are one. */
Test(summary, the_largest_groups_are_shown_and_the_rest_is_other)
{
    struct tw_summary *summary = summary_new(TW_GROUP_BY_FOLLOWER, 0);
    uint64_t rest = 0, total = 0;
    for (uint32_t i = 1; i <= 100; i++) {
        char name[8];
        snprintf(name, sizeof name, "F%u", i);
        struct summary_subject subject = subject_of("M", name, 4);
        struct summary_times times = times_of(i * 1000u, false);
        for (uint32_t n = 0; n < i; n++)
            cr_assert(group_add(summary_group(summary, &subject), &times));
        rest += i <= 36 ? i : 0;
        total += i;
    }

    cr_assert_eq(tw_summary_finish(summary), TW_OK);
    struct tw_summary_span span = tw_summary_span(summary);
    cr_expect_eq(span.groups, TW_SUMMARY_GROUPS_MAX + 1u);
    cr_expect_eq(span.groups_omitted, 36);
    cr_expect_str_eq(tw_summary_group_at(summary, 0)->key, "F100");
    cr_expect_str_eq(tw_summary_group_at(summary, 63)->key, "F37");
    cr_expect_str_eq(tw_summary_group_at(summary, 64)->key, "other");
    cr_expect_eq(copies_of(group_named(summary, "other")), rest);
    uint64_t seen = 0;
    for (size_t i = 0; i < span.groups; i++)
        seen += copies_of(tw_summary_group_at(summary, i));
    cr_expect_eq(seen, total);
    tw_summary_free(summary);
}

/* Histograms with thousands of buckets each: fewer groups, but one answer. */
Test(summary, an_answer_stays_below_its_limit)
{
    struct tw_summary *summary = summary_new(TW_GROUP_BY_FOLLOWER, 0);
    uint64_t added = 0;
    for (uint32_t f = 0; f < 40; f++) {
        char name[8];
        snprintf(name, sizeof name, "F%u", f);
        struct summary_subject subject = subject_of("M", name, 4);
        for (uint32_t bucket = f; bucket < TW_HISTOGRAM_BUCKETS; bucket += 3) {
            uint64_t ns = tw_histogram_upper_ns(bucket);
            struct summary_times times = {.ns = {ns, ns, ns, ns}};
            cr_assert(group_add(summary_group(summary, &subject), &times));
            added++;
        }
    }

    cr_assert_eq(tw_summary_finish(summary), TW_OK);
    size_t buckets = 0;
    uint64_t seen = 0;
    struct tw_summary_span span = tw_summary_span(summary);
    for (size_t i = 0; i < span.groups; i++) {
        seen += copies_of(tw_summary_group_at(summary, i));
        for (size_t j = 0; j < TW_SUMMARY_TIMES; j++)
            buckets += tw_summary_group_at(summary, i)->times[j].n_buckets;
    }
    /* A bound of up to ten bytes and a count of at least one. */
    cr_expect_lt(buckets * 11u, TW_ANSWER_BYTES_MAX);
    cr_expect_gt(span.groups, 10);
    cr_expect_eq(span.groups_omitted, 40u - (span.groups - 1u));
    cr_expect_eq(seen, added);
    tw_summary_free(summary);
}

Test(summary, merged_windows_hold_what_both_held)
{
    struct tw_summary *first = summary_new(TW_GROUP_BY_FOLLOWER, 0);
    struct tw_summary *second = summary_new(TW_GROUP_BY_FOLLOWER, 0);
    struct summary_subject a = subject_of("M", "A", 4), b = subject_of("M", "B", 4);
    struct summary_times fast = times_of(1000, false), held = times_of(5000, true);
    cr_assert(group_add(summary_group(first, &a), &fast));
    cr_assert(group_add(summary_group(second, &a), &held));
    cr_assert(group_add(summary_group(second, &b), &fast));
    cr_assert(group_add(summary_other(second), &fast));

    cr_assert(summary_merge(first, second));
    cr_assert_eq(tw_summary_finish(first), TW_OK);

    const struct tw_summary_group *group = group_named(first, "A");
    cr_expect_eq(group->times[TW_OWN_TIME].count, 1, "held copies are left out");
    cr_expect_eq(group->times[TW_PATH_TIME].count, 1);
    cr_expect_eq(group->times[TW_QUEUE_WAIT].count, 2);
    cr_expect_eq(group->times[TW_BROKER_TIME].count, 2);
    cr_expect_eq(group->held, 1);
    cr_expect_eq(copies_of(group_named(first, "B")), 1);
    cr_expect_eq(copies_of(group_named(first, "other")), 1);
    cr_expect_eq(tw_summary_span(first).groups_omitted, 1);
    tw_summary_free(first);
    tw_summary_free(second);
}

/* ---- Since start. ---- */

/* Two masters, three followers, fast and slow, held and not, warming up and not. */
static void cells_fill(struct cells *cells)
{
    static const struct {
        const char *master, *follower;
        uint64_t own_ns;
        bool is_held, is_warming_up;
    } samples[] = {
        {"M1", "A", 500000, false, true},   {"M1", "A", 1500000, false, false},
        {"M1", "B", 1700000, false, false}, {"M1", "B", 90000000, true, false},
        {"M2", "B", 3000000, false, false}, {"M2", "C", 4900000, false, false},
        {"M2", "C", 3000000, false, false}, {"M2", "C", 12000000, false, false},
    };
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        struct summary_subject subject = subject_of(samples[i].master, samples[i].follower, 600);
        struct summary_times times = times_of(samples[i].own_ns, samples[i].is_held);
        struct tw_sample sample = {
            .flags = samples[i].is_warming_up ? (uint16_t)TW_SAMPLE_WARMING_UP : (uint16_t)0};
        cr_assert(cells_add(cells, &sample, &subject, &times));
    }
}

Test(cells, any_filter_can_be_asked_for_since_start)
{
    static const struct {
        const char *name;
        struct tw_sample_filter filter;
        uint64_t own, broker, held;
    } rows[] = {
        {"everything", {.min_own_time_ns = 0}, 7, 8, 1},
        {"one master", {.master_id = "M1"}, 3, 4, 1},
        {"one follower", {.follower_id = "B"}, 2, 3, 1},
        {"both", {.master_id = "M2", .follower_id = "B"}, 1, 1, 0},
        {"nobody", {.master_id = "M3"}, 0, 0, 0},
        {"warm ones", {.exclude_warm_up = true}, 6, 7, 1},
        {"not held", {.exclude_held = true}, 7, 7, 0},
        {"at a step", {.min_own_time_ns = 2000000}, 4, 5, 1},
        /* Own time is cut within the step of 2 to 5 ms, the others with the step. */
        {"within a step", {.min_own_time_ns = 4000000}, 2, 4, 1},
        {"above all that is not held", {.min_own_time_ns = 80000000}, 0, 1, 1},
        {"above everything", {.min_own_time_ns = 500000000}, 0, 0, 0},
    };
    struct cells cells = {0};
    cells_fill(&cells);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tw_summary *summary = summary_new(TW_GROUP_BY_NONE, 0);
        cr_assert(cells_collect(&cells, &rows[i].filter, summary));
        cr_assert_eq(tw_summary_finish(summary), TW_OK);
        const struct tw_summary_group *group = tw_summary_group_at(summary, 0);
        cr_expect_eq(group->times[TW_OWN_TIME].count, rows[i].own, "%s: %lu", rows[i].name,
                     (unsigned long)group->times[TW_OWN_TIME].count);
        cr_expect_eq(copies_of(group), rows[i].broker, "%s: %lu", rows[i].name,
                     (unsigned long)copies_of(group));
        cr_expect_eq(group->held, rows[i].held, "%s: %lu", rows[i].name,
                     (unsigned long)group->held);
        if (rows[i].own > 0)
            cr_expect_geq(group->times[TW_OWN_TIME].min_ns, rows[i].filter.min_own_time_ns, "%s",
                          rows[i].name);
        tw_summary_free(summary);
    }
    cells_clear(&cells);
}

Test(cells, any_grouping_can_be_asked_for_since_start)
{
    static const struct {
        enum tw_group_by group_by;
        const char *key;
        uint64_t copies;
        size_t groups;
    } rows[] = {
        {TW_GROUP_BY_NONE, "", 8, 1},         {TW_GROUP_BY_THREADS, "513-1024", 8, 1},
        {TW_GROUP_BY_MASTER, "M1", 4, 2},     {TW_GROUP_BY_MASTER, "M2", 4, 2},
        {TW_GROUP_BY_FOLLOWER, "B", 3, 3},    {TW_GROUP_BY_FOLLOWER, "C", 3, 3},
        {TW_GROUP_BY_ADAPTER, "paper", 8, 1},
    };
    const struct tw_sample_filter all = {0};
    struct cells cells = {0};
    cells_fill(&cells);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tw_summary *summary = summary_new(rows[i].group_by, 0);
        cr_assert(cells_collect(&cells, &all, summary));
        cr_assert_eq(tw_summary_finish(summary), TW_OK);
        cr_expect_eq(tw_summary_span(summary).groups, rows[i].groups, "%s", rows[i].key);
        cr_expect_eq(copies_of(group_named(summary, rows[i].key)), rows[i].copies, "%s",
                     rows[i].key);
        tw_summary_free(summary);
    }
    cells_clear(&cells);
}

/* More followers than cells: whoever has none is counted under "other", and nothing is lost. */
Test(cells, samples_beyond_the_cells_lose_their_names_and_nothing_else)
{
    const uint32_t followers = CELLS_MAX + 1000u;
    const struct tw_sample_filter all = {0};
    const struct tw_sample sample = {0};
    struct cells cells = {0};
    for (uint32_t i = 0; i < followers; i++) {
        char name[16];
        snprintf(name, sizeof name, "F%u", i);
        struct summary_subject subject = subject_of("M", name, 4);
        struct summary_times times = times_of(1000, false);
        cr_assert(cells_add(&cells, &sample, &subject, &times));
    }
    cr_expect_eq(cells.unlisted, 1000);
    cr_expect_eq(cells.table.count, CELLS_MAX + 1u);

    struct tw_summary *by_master = summary_new(TW_GROUP_BY_MASTER, 0);
    cr_assert(cells_collect(&cells, &all, by_master));
    cr_assert_eq(tw_summary_finish(by_master), TW_OK);
    cr_expect_eq(copies_of(group_named(by_master, "M")), CELLS_MAX);
    cr_expect_eq(copies_of(group_named(by_master, "other")), 1000);
    cr_expect_eq(tw_summary_span(by_master).groups_omitted, 1);
    tw_summary_free(by_master);

    struct tw_summary *by_threads = summary_new(TW_GROUP_BY_THREADS, 0);
    cr_assert(cells_collect(&cells, &all, by_threads));
    cr_assert_eq(tw_summary_finish(by_threads), TW_OK);
    cr_expect_eq(copies_of(group_named(by_threads, "3-4")), followers);
    tw_summary_free(by_threads);
    cells_clear(&cells);
}

/* ---- Bursts. ---- */

#define AT(ms) (INT64_C(1764496116000000000) + (ms)*TW_NS_PER_MS) /* 2025-11-30T09:48:36Z */

Test(bursts, copies_within_a_second_of_each_other_are_one)
{
    struct bursts bursts = {0};
    char label[SUMMARY_LABEL_BYTES];

    struct burst *first = burst_of(&bursts, AT(200));
    cr_expect_eq(burst_of(&bursts, AT(1200)), first, "a second later at most");
    cr_expect_eq(burst_of(&bursts, AT(700)), first);
    struct burst *second = burst_of(&bursts, AT(1201));
    cr_expect_neq(second, first);
    cr_expect_eq(burst_of(&bursts, AT(900)), first, "one that was answered late");

    burst_label(first, label);
    cr_expect_str_eq(label, "2025-11-30T09:48:36Z");
    burst_label(second, label);
    cr_expect_str_eq(label, "2025-11-30T09:48:37Z");
}

Test(bursts, a_late_answer_may_move_the_first_second_until_it_was_told)
{
    struct bursts bursts = {0};
    char label[SUMMARY_LABEL_BYTES];
    struct burst *burst = burst_of(&bursts, AT(1100));

    cr_expect_eq(burst_of(&bursts, AT(900)), burst);
    burst_label(burst, label);
    cr_expect_str_eq(label, "2025-11-30T09:48:36Z");
    burst->is_shown = true;
    cr_expect_eq(burst_of(&bursts, AT(300)), burst);
    cr_expect_eq(burst->first_wall_ns, AT(900));
    cr_expect_neq(burst_of(&bursts, AT(50)), burst, "more than a second before the last");
}

Test(bursts, old_ones_are_forgotten)
{
    struct bursts bursts = {0};
    uint64_t id = burst_of(&bursts, AT(0))->id;
    cr_expect_not_null(burst_by_id(&bursts, id));
    for (int i = 1; i <= (int)BURSTS_REMEMBERED; i++)
        burst_of(&bursts, AT(i * 2000));
    cr_expect_null(burst_by_id(&bursts, id));
    cr_expect_null(burst_by_id(&bursts, 0));
}
