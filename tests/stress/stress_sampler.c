/* Promise: whatever many workers put at once is read exactly once or was counted as lost; every
 * reader gets it or a count of what it missed; windows and the summary since start hold all of it;
 * every reference comes back. Both sides are printed. */
#include "telemetry_fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define WRITERS      8u
#define SAMPLES_EACH 40000u
#define PINGS        200u

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static struct tw_sampler *sampler;
static struct subject subjects[4];
static atomic_ullong taken, refused; /* by the rings, as the writers saw it */
static atomic_bool writers_are_done;

/* Every other writer insists, so that rings stay full; the others give up at once. */
static void *writer_main(void *argument)
{
    size_t first = (size_t)(uintptr_t)argument;
    for (uint64_t i = 0; i < SAMPLES_EACH; i++) {
        bool is_taken = false;
        do {
            is_taken = put_one(sampler, &subjects[(first + i) % 4], 1000 + i * 100);
            atomic_fetch_add(is_taken ? &taken : &refused, 1);
        } while (!is_taken && first % 2 == 1 && sched_yield() == 0);
    }
    return NULL;
}

/* ---- Readers of feeds. ---- */

struct feed_reader {
    struct reader told;
    struct tw_feed *feed;
    bool is_slow;
    uint64_t received, dropped, next_id;
    pthread_t thread;
};

/* One step; false when nothing has come. */
static bool feed_step(struct feed_reader *reader)
{
    struct tw_feed_found found = tw_feed_peek(reader->feed, 256);
    if (found.next == TW_FEED_EMPTY)
        return false;
    CHECK(found.first_id == reader->next_id);
    reader->next_id += found.count;
    if (found.next == TW_FEED_GAP)
        reader->dropped += found.count;
    else
        reader->received += found.count;
    for (uint64_t i = 0; found.next == TW_FEED_SAMPLES && i < found.count; i++) {
        struct tw_sample_facts facts;
        tw_feed_describe(reader->feed, tw_feed_at(reader->feed, i), &facts);
        CHECK(facts.follower_id[0] == 'F');
    }
    tw_feed_advance(reader->feed, &found);
    return true;
}

static void *feed_main(void *argument)
{
    struct feed_reader *reader = argument;
    while (!atomic_load(&writers_are_done) || reader->next_id < atomic_load(&taken)) {
        if (reader->is_slow && !atomic_load(&writers_are_done))
            usleep(20000); /* that is what makes it slow */
        if (!feed_step(reader) && !tw_feed_arm(reader->feed, 1))
            semaphore_await(&reader->told.woken);
    }
    return NULL;
}

static void feed_begin(struct feed_reader *reader, bool is_slow)
{
    const struct tw_sample_filter all = {0};
    const struct tw_reader told = reader_init(&reader->told);
    reader->is_slow = is_slow;
    CHECK(tw_feed_open(sampler, &all, &told, &reader->feed) == TW_OK);
    while (!tw_feed_is_open(reader->feed))
        semaphore_await(&reader->told.woken);
}

/* ---- A reader of windows. ---- */

struct windows_reader {
    struct reader told;
    struct tw_windows *windows;
    uint64_t copies, windows_seen;
    pthread_t thread;
};

static uint64_t copies_in(struct tw_summary *summary)
{
    uint64_t copies = 0;
    CHECK(tw_summary_finish(summary) == TW_OK);
    for (size_t i = 0; i < tw_summary_span(summary).groups; i++)
        copies += tw_summary_group_at(summary, i)->times[TW_BROKER_TIME].count;
    tw_summary_free(summary);
    return copies;
}

static void *windows_main(void *argument)
{
    struct windows_reader *reader = argument;
    while (!atomic_load(&writers_are_done) || reader->copies < atomic_load(&taken)) {
        semaphore_await(&reader->told.woken);
        struct tw_summary *summary = tw_windows_take(reader->windows);
        if (summary == NULL)
            continue;
        reader->copies += copies_in(summary);
        reader->windows_seen++;
    }
    return NULL;
}

static void windows_begin(struct windows_reader *reader)
{
    const struct tw_sample_filter all = {0};
    const struct tw_reader told = reader_init(&reader->told);
    CHECK(tw_windows_open(sampler, &all, TW_GROUP_BY_FOLLOWER, 100 * TW_NS_PER_MS, &told,
                          &reader->windows) == TW_OK);
    while (!tw_windows_is_open(reader->windows))
        semaphore_await(&reader->told.woken);
}

/* ---- Somebody who asks all the time. ---- */

static void *asker_main(void *argument)
{
    const struct tw_sample_filter all = {0};
    uint64_t asked = 0, before = 0;
    while (!atomic_load(&writers_are_done)) {
        struct tw_summary *summary = summary_now(sampler, &all, TW_GROUP_BY_MASTER);
        uint64_t copies = copies_in(summary);
        CHECK(copies >= before);
        before = copies;
        asked++;
    }
    *(uint64_t *)argument = asked;
    return NULL;
}

/* ---- The promise. ---- */

static void everything_is_accounted_for(void)
{
    const struct tw_sample_filter all = {0};
    struct feed_reader quick = {0}, slow = {0};
    struct windows_reader windows = {0};
    pthread_t writers[WRITERS], asker;
    uint64_t asked = 0;
    feed_begin(&quick, false);
    feed_begin(&slow, true);
    windows_begin(&windows);
    CHECK(pthread_create(&quick.thread, NULL, feed_main, &quick) == 0);
    CHECK(pthread_create(&slow.thread, NULL, feed_main, &slow) == 0);
    CHECK(pthread_create(&windows.thread, NULL, windows_main, &windows) == 0);
    CHECK(pthread_create(&asker, NULL, asker_main, &asked) == 0);
    for (size_t i = 0; i < WRITERS; i++)
        CHECK(pthread_create(&writers[i], NULL, writer_main, (void *)(uintptr_t)i) == 0);

    for (size_t i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    atomic_store(&writers_are_done, true);
    pthread_join(asker, NULL);
    pthread_join(quick.thread, NULL);
    pthread_join(slow.thread, NULL);
    pthread_join(windows.thread, NULL);

    uint64_t put = atomic_load(&taken), lost = atomic_load(&refused);
    uint64_t since_start = copies_in(summary_now(sampler, &all, TW_GROUP_BY_FOLLOWER));
    struct tw_sampler_totals totals = totals_now(sampler);
    printf("taken %llu, refused %llu; read %llu, lost %llu\n", (unsigned long long)put,
           (unsigned long long)lost, (unsigned long long)totals.samples,
           (unsigned long long)totals.lost);
    printf("quick reader: received %llu + dropped %llu; slow reader: %llu + %llu; left out %llu\n",
           (unsigned long long)quick.received, (unsigned long long)quick.dropped,
           (unsigned long long)slow.received, (unsigned long long)slow.dropped,
           (unsigned long long)totals.left_out);
    printf("windows: %llu in %llu; since start: %llu; asked %llu times meanwhile\n",
           (unsigned long long)windows.copies, (unsigned long long)windows.windows_seen,
           (unsigned long long)since_start, (unsigned long long)asked);
    CHECK(put >= (uint64_t)WRITERS / 2 * SAMPLES_EACH);
    CHECK(totals.samples == put && totals.lost == lost);
    CHECK(quick.received + quick.dropped == put);
    CHECK(slow.received + slow.dropped == put);
    CHECK(quick.dropped + slow.dropped == totals.left_out);
    CHECK(windows.copies == put && since_start == put);

    tw_feed_close(quick.feed);
    tw_feed_close(slow.feed);
    tw_windows_close(windows.windows);
    semaphore_await(&quick.told.gone);
    semaphore_await(&slow.told.gone);
    semaphore_await(&windows.told.gone);
}

/* One sample at a time, now and then, so that the sampler is found napping, parked, and just about
 * to park: none may stay unread. */
static void no_wake_is_missed(void)
{
    for (unsigned i = 0; i < PINGS; i++) {
        CHECK(put_one(sampler, &subjects[0], 1000));
        while (atomic_load(&subjects[0].references) != 0)
            sched_yield();
        usleep((i % 40) * 500); /* 0 to 20 ms: around the moment of parking */
    }
    printf("%u samples one by one: each was read\n", PINGS);
}

int main(void)
{
    const struct tw_sampler_options options = {.subjects = fixture_subjects};
    struct tw_error error = {""};
    CHECK(tw_sampler_start(&options, &sampler, &error) == TW_OK);
    for (size_t i = 0; i < 4; i++) {
        char follower[8];
        snprintf(follower, sizeof follower, "F%zu", i);
        subject_init(&subjects[i], i < 2 ? "M1" : "M2", follower);
    }

    everything_is_accounted_for();
    no_wake_is_missed();
    tw_sampler_stop(sampler);
    for (size_t i = 0; i < 4; i++)
        CHECK(atomic_load(&subjects[i].references) == 0);
    printf("every reference came back\n");
    return 0;
}
