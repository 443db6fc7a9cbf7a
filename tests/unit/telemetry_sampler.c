/* The sampler with its thread: feeds, windows, questions, and what overflows. */
#include "sampler_inside.h"
#include "telemetry_fixture.h"

#include <criterion/criterion.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

TestSuite(feed, .timeout = 60);
TestSuite(sampler, .timeout = 60);
TestSuite(summaries, .timeout = 60);

static struct tw_sampler *sampler_begin(void)
{
    const struct tw_sampler_options options = {.subjects = fixture_subjects};
    struct tw_sampler *sampler;
    struct tw_error error;
    cr_assert_eq(tw_sampler_start(&options, &sampler, &error), TW_OK, "%s", error.text);
    return sampler;
}

static struct tw_feed *feed_begin(struct tw_sampler *sampler, const struct tw_sample_filter *filter,
                                  struct reader *reader)
{
    struct tw_feed *feed;
    const struct tw_reader told = reader_init(reader);
    cr_assert_eq(tw_feed_open(sampler, filter, &told, &feed), TW_OK);
    while (!tw_feed_is_open(feed))
        semaphore_await(&reader->woken);
    return feed;
}

static void feed_finish(struct tw_feed *feed, struct reader *reader)
{
    tw_feed_close(feed);
    semaphore_await(&reader->gone);
}

struct counts {
    uint64_t received, dropped, next_id, gaps;
};

/* Reads all there is, batches of at most 256. */
static void feed_read(struct tw_feed *feed, struct counts *counts)
{
    struct tw_feed_found found;
    while ((found = tw_feed_peek(feed, 256)).next != TW_FEED_EMPTY) {
        cr_assert_eq(found.first_id, counts->next_id);
        cr_assert_gt(found.count, 0);
        if (found.next == TW_FEED_GAP) {
            counts->dropped += found.count;
            counts->gaps++;
        } else {
            counts->received += found.count;
            for (uint64_t i = 0; i < found.count; i++)
                cr_assert_eq(tw_feed_at(feed, i)->id, counts->next_id + i);
        }
        counts->next_id += found.count;
        tw_feed_advance(feed, &found);
    }
}

/* A ring has room for one lap; so many and then a wait never overflow it. */
static void put_many(struct tw_sampler *sampler, struct subject *subject, uint64_t count,
                     uint64_t before)
{
    for (uint64_t i = 0; i < count; i++) {
        cr_assert(put_one(sampler, subject, 100000 + i));
        if (i % 4096 == 4095)
            samples_await(sampler, before + i + 1);
    }
    samples_await(sampler, before + count);
}

Test(feed, a_reader_gets_every_sample_in_order_and_every_reference_comes_back)
{
    const struct tw_sample_filter all = {0};
    struct tw_sampler *sampler = sampler_begin();
    struct reader reader;
    struct tw_feed *feed = feed_begin(sampler, &all, &reader);
    struct subject subject;
    struct counts counts = {0};
    subject_init(&subject, "M1", "F1");

    put_many(sampler, &subject, 1000, 0);
    struct tw_feed_found found = tw_feed_peek(feed, 10);
    cr_assert_eq(found.next, TW_FEED_SAMPLES);
    cr_expect_eq(found.count, 10);
    cr_expect(found.is_more);
    struct tw_sample_facts facts;
    tw_feed_describe(feed, tw_feed_at(feed, 3), &facts);
    cr_expect_str_eq(facts.follower_id, "F1");
    cr_expect_eq(tw_feed_at(feed, 3)->sample.called_ns, 100003);
    feed_read(feed, &counts);

    cr_expect_eq(counts.received, 1000);
    cr_expect_eq(counts.dropped, 0);
    put_many(sampler, &subject, 10, 1000); /* left in the queue at the close */
    feed_finish(feed, &reader);
    tw_sampler_stop(sampler);
    cr_expect_eq(atomic_load(&subject.references), 0);
}

Test(feed, what_a_slow_reader_misses_is_counted_and_another_misses_nothing)
{
    const uint64_t total = 3 * TW_STREAM_QUEUE_ENTRIES + 17;
    const struct tw_sample_filter all = {0};
    struct tw_sampler *sampler = sampler_begin();
    struct reader slow_reader, quick_reader;
    struct tw_feed *slow = feed_begin(sampler, &all, &slow_reader);
    struct tw_feed *quick = feed_begin(sampler, &all, &quick_reader);
    struct counts slow_counts = {0}, quick_counts = {0};
    struct subject subject;
    subject_init(&subject, "M1", "F1");

    for (uint64_t put = 0; put < total;) {
        uint64_t step = total - put < 4096 ? total - put : 4096;
        put_many(sampler, &subject, step, put);
        put += step;
        feed_read(quick, &quick_counts);
        if (put == 10 * 4096) { /* one batch in the middle, so that there is more than one gap */
            struct tw_feed_found found = tw_feed_peek(slow, 256);
            cr_assert_eq(found.next, TW_FEED_SAMPLES);
            slow_counts.received += found.count;
            slow_counts.next_id += found.count;
            tw_feed_advance(slow, &found);
        }
    }
    cr_expect_eq(totals_now(sampler).left_out, total - TW_STREAM_QUEUE_ENTRIES - 256);
    feed_read(slow, &slow_counts);

    cr_expect_eq(quick_counts.received, total);
    cr_expect_eq(quick_counts.gaps, 0);
    cr_expect_eq(slow_counts.received, TW_STREAM_QUEUE_ENTRIES + 256);
    cr_expect_eq(slow_counts.received + slow_counts.dropped, total);
    cr_expect_eq(slow_counts.gaps, 2, "one inside, one at the end with nothing behind it");
    cr_expect_eq(tw_sampler_lost(sampler), 0);
    feed_finish(slow, &slow_reader);
    feed_finish(quick, &quick_reader);
    tw_sampler_stop(sampler);
    cr_expect_eq(atomic_load(&subject.references), 0);
}

Test(feed, a_filter_counts_only_what_passes_it)
{
    const struct tw_sample_filter filter = {.follower_id = "F2", .min_own_time_ns = 500};
    struct tw_sampler *sampler = sampler_begin();
    struct reader reader;
    struct tw_feed *feed = feed_begin(sampler, &filter, &reader);
    struct counts counts = {0};
    struct subject one, two;
    subject_init(&one, "M1", "F1");
    subject_init(&two, "M1", "F2");

    cr_assert(put_one(sampler, &one, 1000));
    cr_assert(put_one(sampler, &two, 499));
    cr_assert(put_one(sampler, &two, 500));
    cr_assert(put_one(sampler, &two, 501));
    samples_await(sampler, 4);
    cr_expect_eq(tw_feed_at(feed, 0)->sample.called_ns, 500);
    feed_read(feed, &counts);

    cr_expect_eq(counts.received, 2);
    cr_expect_eq(counts.next_id, 2);
    feed_finish(feed, &reader);
    tw_sampler_stop(sampler);
}

Test(feed, an_armed_reader_is_woken_when_as_many_as_it_asked_for_are_there)
{
    const struct tw_sample_filter all = {0};
    struct tw_sampler *sampler = sampler_begin();
    struct reader reader;
    struct tw_feed *feed = feed_begin(sampler, &all, &reader);
    struct subject subject;
    int woken;
    subject_init(&subject, "M1", "F1");
    while (sem_trywait(&reader.woken) == 0)
        ;

    cr_expect_not(tw_feed_arm(feed, 3));
    put_many(sampler, &subject, 2, 0);
    sem_getvalue(&reader.woken, &woken);
    cr_expect_eq(woken, 0, "two are not three");
    put_many(sampler, &subject, 1, 2);
    semaphore_await(&reader.woken);
    put_many(sampler, &subject, 5, 3);
    sem_getvalue(&reader.woken, &woken);
    cr_expect_eq(woken, 0, "once per arming");
    cr_expect(tw_feed_arm(feed, 8), "it is so already");
    cr_expect_not(tw_feed_arm(feed, 9));
    cr_expect_not(tw_feed_arm(feed, 0));

    feed_finish(feed, &reader);
    tw_sampler_stop(sampler);
}

Test(sampler, a_parked_sampler_is_woken_by_the_next_sample)
{
    struct tw_sampler *sampler = sampler_begin();
    struct subject subject;
    subject_init(&subject, "M1", "F1");

    for (uint64_t round = 0; round < 20; round++) {
        while (atomic_load(&sampler->parked) == 0)
            sched_yield();
        cr_assert(put_one(sampler, &subject, 1000));
        while (atomic_load(&subject.references) != 0) /* read, without asking it anything */
            sched_yield();
    }
    tw_sampler_stop(sampler);
}

/* The sampler asks for the time between its last look at the rings and parking: there the next sample
 * is put, by a worker that does not see it parked yet. */
int64_t __real_tw_mono_ns(void);
int64_t __wrap_tw_mono_ns(void);
static _Atomic(struct tw_sampler *) about_to_park;
static struct subject late_subject;

/* The longest nap asks for the time once; the round that follows asks once, and parks if it has
 * found nothing. */
static bool is_parking_next(const struct tw_sampler *sampler)
{
    static uint64_t samples;
    static unsigned calls;
    if (samples != sampler->totals.samples || sampler->nap_ns != 8 * TW_NS_PER_MS)
        calls = 0;
    else
        calls++;
    samples = sampler->totals.samples;
    return calls == 2;
}

int64_t __wrap_tw_mono_ns(void)
{
    struct tw_sampler *sampler = atomic_load(&about_to_park);
    if (sampler != NULL && pthread_equal(pthread_self(), sampler->thread) &&
        is_parking_next(sampler)) {
        cr_assert_eq(atomic_load(&sampler->parked), 0);
        atomic_store(&about_to_park, NULL); /* once */
        (void)put_one(sampler, &late_subject, 1000);
    }
    return __real_tw_mono_ns();
}

Test(sampler, a_sample_put_just_before_it_parks_is_read)
{
    struct tw_sampler *sampler = sampler_begin();
    subject_init(&late_subject, "M1", "F1");

    for (uint64_t round = 1; round <= 3; round++) {
        atomic_store(&about_to_park, sampler);
        cr_assert(put_one(sampler, &late_subject, 1000)); /* wakes it, so that it parks anew */
        while (atomic_load(&about_to_park) != NULL || atomic_load(&late_subject.references) != 0)
            sched_yield();
    }
    cr_expect_eq(totals_now(sampler).samples, 6);
    tw_sampler_stop(sampler);
}

/* ---- A ring that is full. ---- */

struct stuck_reader {
    sem_t inside, go_on;
};

static void stuck_wake(void *context)
{
    struct stuck_reader *reader = context;
    sem_post(&reader->inside);
    semaphore_await(&reader->go_on);
}

static void stuck_gone(void *context)
{
    (void)context;
}

Test(sampler, a_full_ring_leaves_the_sample_with_the_worker_and_counts_it)
{
    const struct tw_sample_filter all = {0};
    struct tw_sampler *sampler = sampler_begin();
    struct stuck_reader stuck;
    struct subject subject;
    struct tw_feed *feed;
    cpu_set_t one;
    subject_init(&subject, "M1", "F1");
    sem_init(&stuck.inside, 0, 0);
    sem_init(&stuck.go_on, 0, 0);
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0); /* all samples to one ring */

    const struct tw_reader told = {.context = &stuck, .wake = stuck_wake, .gone = stuck_gone};
    cr_assert_eq(tw_feed_open(sampler, &all, &told, &feed), TW_OK);
    semaphore_await(&stuck.inside); /* the sampler now stands inside wake() */

    for (uint32_t i = 0; i < TW_SAMPLE_RING_ENTRIES; i++)
        cr_assert(put_one(sampler, &subject, 1000));
    for (uint32_t i = 0; i < 100; i++)
        cr_assert_not(put_one(sampler, &subject, 1000));
    cr_expect_eq(tw_sampler_lost(sampler), 100);
    cr_expect_eq(atomic_load(&subject.references), TW_SAMPLE_RING_ENTRIES);

    sem_post(&stuck.go_on);
    samples_await(sampler, TW_SAMPLE_RING_ENTRIES);
    cr_assert(put_one(sampler, &subject, 1000), "there is room again");
    samples_await(sampler, TW_SAMPLE_RING_ENTRIES + 1);
    cr_expect_eq(totals_now(sampler).lost, 100);
    tw_feed_close(feed);
    tw_sampler_stop(sampler);
    cr_expect_eq(atomic_load(&subject.references), 0);
}

Test(sampler, readers_are_bounded)
{
    static struct reader readers[READERS_MAX];
    static struct tw_feed *feeds[READERS_MAX];
    const struct tw_sample_filter all = {0};
    struct tw_sampler *sampler = sampler_begin();
    struct reader one_more;
    const struct tw_reader told = reader_init(&one_more);
    struct tw_feed *feed = NULL;
    struct tw_windows *windows = NULL;
    for (uint32_t i = 0; i < READERS_MAX; i++)
        feeds[i] = feed_begin(sampler, &all, &readers[i]);

    cr_expect_eq(tw_feed_open(sampler, &all, &told, &feed), TW_LIMIT);
    cr_expect_eq(tw_windows_open(sampler, &all, TW_GROUP_BY_NONE, TW_NS_PER_S, &told, &windows),
                 TW_LIMIT);
    feed_finish(feeds[0], &readers[0]);
    while (tw_feed_open(sampler, &all, &told, &feed) == TW_LIMIT)
        sched_yield(); /* the place is given back a moment after gone() */

    tw_feed_close(feed);
    for (uint32_t i = 1; i < READERS_MAX; i++)
        tw_feed_close(feeds[i]);
    tw_sampler_stop(sampler);
}

/* ---- Summaries. ---- */

static uint64_t copies_in(struct tw_summary *summary)
{
    uint64_t copies = 0;
    cr_assert_eq(tw_summary_finish(summary), TW_OK);
    for (size_t i = 0; i < tw_summary_span(summary).groups; i++)
        copies += tw_summary_group_at(summary, i)->times[TW_BROKER_TIME].count;
    return copies;
}

Test(summaries, since_start_holds_what_was_put_before_the_question)
{
    const struct tw_sample_filter all = {0};
    struct tw_sampler *sampler = sampler_begin();
    struct subject subject;
    subject_init(&subject, "M1", "F1");
    for (uint64_t i = 0; i < 500; i++)
        cr_assert(put_one(sampler, &subject, 1000 * (i + 1)));

    struct tw_summary *summary = summary_now(sampler, &all, TW_GROUP_BY_FOLLOWER);
    cr_expect_eq(copies_in(summary), 500);
    const struct tw_summary_group *group = tw_summary_group_at(summary, 0);
    cr_expect_str_eq(group->key, "F1");
    cr_expect_eq(group->times[TW_OWN_TIME].max_ns, 500000);
    cr_expect_eq(group->times[TW_PATH_TIME].max_ns, 501000);
    cr_expect_eq(group->times[TW_QUEUE_WAIT].max_ns, 497000);
    cr_expect_eq(group->times[TW_BROKER_TIME].min_ns, 130000000);
    tw_summary_free(summary);
    tw_sampler_stop(sampler);
}

Test(summaries, samples_before_the_service_is_warm_are_flagged)
{
    struct tw_sampler_options options = {.subjects = fixture_subjects,
                                         .warm_mono_ns = tw_mono_ns() + 3600 * TW_NS_PER_S};
    const struct tw_sample_filter all = {0}, warm = {.exclude_warm_up = true};
    struct tw_sampler *sampler;
    struct subject subject;
    cr_assert_eq(tw_sampler_start(&options, &sampler, NULL), TW_OK);
    subject_init(&subject, "M1", "F1");
    cr_assert(put_one(sampler, &subject, 1000));
    struct tw_sample later = sample_of(&subject, 1000);
    later.received_mono_ns = options.warm_mono_ns - 1000;
    later.flags |= TW_SAMPLE_WARMING_UP; /* not the worker's to say */
    subject_hold(&subject);
    cr_assert(tw_sampler_put(sampler, &later));

    struct tw_summary *summary = summary_now(sampler, &all, TW_GROUP_BY_NONE);
    cr_expect_eq(copies_in(summary), 2);
    tw_summary_free(summary);
    summary = summary_now(sampler, &warm, TW_GROUP_BY_NONE);
    cr_expect_eq(copies_in(summary), 1);
    tw_summary_free(summary);
    tw_sampler_stop(sampler);
}

Test(summaries, windows_are_aligned_and_lose_nothing_when_the_reader_is_slow)
{
    const int64_t window_ns = 100 * TW_NS_PER_MS;
    const struct tw_sample_filter all = {0};
    struct tw_sampler *sampler = sampler_begin();
    struct reader reader;
    const struct tw_reader told = reader_init(&reader);
    struct tw_windows *windows;
    struct subject subject;
    uint64_t put = 0, seen = 0;
    int64_t last_end_wall_ns = 0;
    subject_init(&subject, "M1", "F1");
    cr_assert_eq(tw_windows_open(sampler, &all, TW_GROUP_BY_FOLLOWER, window_ns, &told, &windows),
                 TW_OK);
    while (!tw_windows_is_open(windows))
        semaphore_await(&reader.woken);

    for (unsigned round = 0; round < 4; round++) {
        for (unsigned window = 0; window < round; window++) { /* the reader misses so many */
            cr_assert(put_one(sampler, &subject, 1000));
            put++;
            samples_await(sampler, put);
            semaphore_await(&reader.woken);
        }
        struct tw_summary *summary;
        while ((summary = tw_windows_take(windows)) == NULL)
            semaphore_await(&reader.woken);
        seen += copies_in(summary);
        struct tw_summary_span span = tw_summary_span(summary);
        cr_expect_eq(span.start_wall_ns % window_ns, 0);
        cr_expect_eq(span.end_wall_ns % window_ns, 0);
        cr_expect_geq(span.end_wall_ns - span.start_wall_ns, window_ns);
        if (last_end_wall_ns != 0)
            cr_expect_eq(span.start_wall_ns, last_end_wall_ns, "windows follow each other");
        last_end_wall_ns = span.end_wall_ns;
        tw_summary_free(summary);
    }
    while (seen < put) {
        struct tw_summary *summary;
        while ((summary = tw_windows_take(windows)) == NULL)
            semaphore_await(&reader.woken);
        seen += copies_in(summary);
        tw_summary_free(summary);
    }

    cr_expect_eq(seen, put);
    tw_windows_close(windows);
    semaphore_await(&reader.gone);
    tw_sampler_stop(sampler);
    cr_expect_eq(atomic_load(&subject.references), 0);
}

Test(summaries, windows_group_by_burst)
{
    const struct tw_sample_filter all = {0};
    struct tw_sampler *sampler = sampler_begin();
    struct reader reader;
    const struct tw_reader told = reader_init(&reader);
    struct tw_windows *windows;
    struct tw_summary *summary;
    struct subject one, two;
    subject_init(&one, "M1", "F1");
    subject_init(&two, "M1", "F2");
    one.received_wall_ns = INT64_C(1764496116250000000);
    two.received_wall_ns = one.received_wall_ns + 5 * TW_NS_PER_S;
    cr_assert_eq(tw_windows_open(sampler, &all, TW_GROUP_BY_BURST, TW_NS_PER_S, &told, &windows),
                 TW_OK);
    while (!tw_windows_is_open(windows))
        semaphore_await(&reader.woken);
    cr_assert(put_one(sampler, &one, 1000));
    cr_assert(put_one(sampler, &one, 2000));
    cr_assert(put_one(sampler, &two, 1000));

    do {
        while ((summary = tw_windows_take(windows)) == NULL)
            semaphore_await(&reader.woken);
        if (copies_in(summary) == 3)
            break;
        tw_summary_free(summary); /* an empty window: all three came behind its end */
    } while (true);
    cr_assert_eq(tw_summary_span(summary).groups, 2);
    cr_expect_str_eq(tw_summary_group_at(summary, 0)->key, "2025-11-30T09:48:36Z");
    cr_expect_eq(tw_summary_group_at(summary, 0)->times[TW_OWN_TIME].count, 2);
    cr_expect_str_eq(tw_summary_group_at(summary, 1)->key, "2025-11-30T09:48:41Z");
    tw_summary_free(summary);
    tw_windows_close(windows);
    semaphore_await(&reader.gone);
    tw_sampler_stop(sampler);
}
