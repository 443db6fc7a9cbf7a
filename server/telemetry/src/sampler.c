#include "sampler_inside.h"

#include <tradewake/base/clock.h>

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RINGS_MAX 64u /* more cores share a ring; each has 1 MiB of address space */

/* Between two rounds that found something. Ten thousand samples a second are then twenty per round. */
#define NAP_NS_MIN (2 * TW_NS_PER_MS)
/* Doubled with every round that found nothing; after this one the sampler parks and the next sample
 * wakes it. So a worker pays for a wake at most every 14 ms. */
#define NAP_NS_MAX        (8 * TW_NS_PER_MS)
#define ROUND_SAMPLES_MAX 1024u /* per ring, before feeds are published */

/* ---- The worker's side. ---- */

static void sampler_wake(struct tw_sampler *sampler)
{
    if (atomic_exchange(&sampler->parked, 0) == 1)
        syscall(SYS_futex, &sampler->parked, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

bool tw_sampler_put(struct tw_sampler *sampler, const struct tw_sample *sample)
{
    unsigned core =
        (unsigned)sched_getcpu(); /* from memory the kernel keeps; a wrong one does no harm */
    if (!ring_put(&sampler->rings[core % sampler->n_rings], sample))
        return false;
    if (atomic_load(&sampler->parked) != 0)
        sampler_wake(sampler);
    return true;
}

void sampler_post(struct tw_sampler *sampler, struct command *command)
{
    command->next = atomic_load_explicit(&sampler->commands, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&sampler->commands, &command->next, command))
        ;
    if (atomic_load(&sampler->parked) != 0)
        sampler_wake(sampler);
}

bool place_take(atomic_uint *taken, uint32_t max)
{
    if (atomic_fetch_add(taken, 1) < max)
        return true;
    atomic_fetch_sub(taken, 1);
    return false;
}

uint64_t tw_sampler_lost(const struct tw_sampler *sampler)
{
    uint64_t lost = atomic_load_explicit(&sampler->unread, memory_order_relaxed);
    for (uint32_t i = 0; i < sampler->n_rings; i++)
        lost += atomic_load_explicit(&sampler->rings[i].lost, memory_order_relaxed);
    return lost;
}

/* ---- One sample. ---- */

bool filter_matches(const struct tw_sample_filter *filter, const struct reading *reading)
{
    const struct tw_sample *sample = &reading->sample;

    return sample->called_ns >= filter->min_own_time_ns &&
           !(filter->exclude_held && sample->held_ns > 0) &&
           !(filter->exclude_warm_up && (sample->flags & TW_SAMPLE_WARMING_UP) != 0) &&
           (filter->master_id[0] == '\0' ||
            strcmp(filter->master_id, reading->subject.master_id) == 0) &&
           (filter->follower_id[0] == '\0' ||
            strcmp(filter->follower_id, reading->subject.follower_id) == 0);
}

static uint64_t difference(uint64_t later, uint64_t earlier)
{
    return later > earlier ? later - earlier : 0;
}

static const char *named(const char *name)
{
    return name != NULL ? name : "";
}

/* Works out once what every reader needs. */
static void reading_make(const struct tw_sampler *sampler, struct reading *reading)
{
    struct tw_sample *sample = &reading->sample;
    struct tw_sample_facts *facts = &reading->facts;
    sampler->subjects.describe(sample->subject, facts);

    bool is_warm = sample->received_mono_ns + (int64_t)sample->called_ns >= sampler->warm_mono_ns;
    sample->flags = (uint16_t)((sample->flags & ~(unsigned)TW_SAMPLE_WARMING_UP) |
                               (is_warm ? 0u : (unsigned)TW_SAMPLE_WARMING_UP));
    reading->subject = (struct summary_subject){
        .master_id = named(facts->master_id),
        .follower_id = named(facts->follower_id),
        .adapter = named(facts->adapter),
        .threads_range = threads_range(sample->threads_at_start),
    };
    reading->times.is_held = sample->held_ns > 0;
    reading->times.ns[TW_OWN_TIME] = sample->called_ns;
    reading->times.ns[TW_PATH_TIME] = facts->upstream_ns + sample->called_ns;
    reading->times.ns[TW_QUEUE_WAIT] = difference(sample->started_ns, sample->journaled_ns);
    reading->times.ns[TW_BROKER_TIME] = difference(sample->answered_ns, sample->called_ns);
}

static void totals_add(struct tw_sampler_totals *totals, const struct summary_times *times)
{
    totals->samples++;
    if (times->is_held)
        totals->held++;
    for (size_t i = 0; i < TW_SUMMARY_TIMES; i++) {
        if (times->is_held && (i == TW_OWN_TIME || i == TW_PATH_TIME))
            continue;
        uint32_t bucket = 0;
        while (bucket < TW_FIXED_BUCKETS && times->ns[i] > tw_fixed_bucket_ns[bucket])
            bucket++;
        totals->times[i].buckets[bucket]++;
        totals->times[i].count++;
        totals->times[i].sum_ns += times->ns[i];
    }
}

/* Goes round with one sample; its reference ends here. */
static void sampler_read(struct tw_sampler *sampler, struct reading *reading)
{
    reading_make(sampler, reading);
    totals_add(&sampler->totals, &reading->times);

    bool fits = cells_add(&sampler->cells, &reading->sample, &reading->subject, &reading->times);
    for (struct tw_feed *feed = sampler->feeds; feed != NULL; feed = feed_next(feed))
        feed_offer(feed, reading);
    for (struct tw_windows *at = sampler->windows; at != NULL; at = windows_next(at))
        fits &= windows_add(at, reading);
    if (!fits)
        atomic_fetch_add_explicit(&sampler->unread, 1, memory_order_relaxed);

    sampler->subjects.release(reading->sample.subject);
}

/* ---- Questions. ---- */

struct question {
    struct command command;
    struct tw_sample_filter filter;
    enum tw_group_by group_by;
    tw_summary_answer_fn *summary;
    tw_totals_answer_fn *totals;
    void *context;
};

static void answer_summary(struct tw_sampler *sampler, const struct question *question)
{
    struct tw_summary *summary = summary_new(question->group_by, sampler->start_wall_ns);
    if (summary != NULL && !cells_collect(&sampler->cells, &question->filter, summary)) {
        tw_summary_free(summary);
        summary = NULL;
    }
    if (summary != NULL)
        summary->end_wall_ns = tw_wall_ns();
    question->summary(question->context, summary);
}

static void answer_totals(struct tw_sampler *sampler, const struct question *question)
{
    struct tw_sampler_totals *totals = &sampler->totals;
    totals->lost = tw_sampler_lost(sampler);
    totals->unlisted = sampler->cells.unlisted;
    totals->readers = atomic_load_explicit(&sampler->readers, memory_order_relaxed);
    totals->cells = sampler->cells.table.count;
    totals->cells_max = CELLS_MAX;
    question->totals(question->context, totals);
}

static void question_run(struct tw_sampler *sampler, struct command *command)
{
    struct question *question =
        (struct question *)((char *)command - offsetof(struct question, command));
    if (question->summary != NULL)
        answer_summary(sampler, question);
    else
        answer_totals(sampler, question);
    free(question);
    atomic_fetch_sub(&sampler->questions, 1);
}

static tw_status question_post(struct tw_sampler *sampler, const struct question *asked)
{
    if (!place_take(&sampler->questions, QUESTIONS_MAX))
        return TW_LIMIT;
    struct question *question = malloc(sizeof *question);
    if (question == NULL) {
        atomic_fetch_sub(&sampler->questions, 1);
        return TW_NO_MEMORY;
    }
    *question = *asked;
    question->command.run = question_run;
    sampler_post(sampler, &question->command);
    return TW_OK;
}

tw_status tw_sampler_summary(struct tw_sampler *sampler, const struct tw_sample_filter *filter,
                             enum tw_group_by group_by, tw_summary_answer_fn *answer, void *context)
{
    assert(group_by != TW_GROUP_BY_BURST);
    return question_post(sampler, &(struct question){.filter = *filter,
                                                     .group_by = group_by,
                                                     .summary = answer,
                                                     .context = context});
}

tw_status tw_sampler_totals(struct tw_sampler *sampler, tw_totals_answer_fn *answer, void *context)
{
    return question_post(sampler, &(struct question){.totals = answer, .context = context});
}

/* ---- The sampler's thread. ---- */

/* Reads what is in the rings, up to a bound, so that feeds are published in between. */
static bool round_read(struct tw_sampler *sampler)
{
    bool has_read = false;
    struct reading reading;

    for (uint32_t i = 0; i < sampler->n_rings; i++)
        for (uint32_t n = 0;
             n < ROUND_SAMPLES_MAX && ring_take(&sampler->rings[i], &reading.sample); n++) {
            sampler_read(sampler, &reading);
            has_read = true;
        }
    for (struct tw_feed *feed = sampler->feeds; feed != NULL; feed = feed_next(feed))
        feed_publish(feed);
    return has_read;
}

/* Runs the oldest command, one a round: a question that takes milliseconds must not keep the rings
 * waiting behind many of its kind. */
static bool round_command(struct tw_sampler *sampler)
{
    if (sampler->pending == NULL) {
        struct command *newest = atomic_exchange(&sampler->commands, NULL);
        while (newest != NULL) { /* turns the list round */
            struct command *next = newest->next;
            newest->next = sampler->pending;
            sampler->pending = newest;
            newest = next;
        }
    }
    struct command *command = sampler->pending;
    if (command == NULL)
        return false;
    sampler->pending = command->next;
    command->run(sampler, command);
    return true;
}

static int64_t windows_end_due(struct tw_sampler *sampler)
{
    int64_t next_mono_ns = INT64_MAX, now_mono_ns = tw_mono_ns();
    for (struct tw_windows *at = sampler->windows; at != NULL; at = windows_next(at)) {
        int64_t ends_mono_ns = windows_end(at, now_mono_ns);
        if (ends_mono_ns < next_mono_ns)
            next_mono_ns = ends_mono_ns;
    }
    return next_mono_ns;
}

static bool is_anything_waiting(const struct tw_sampler *sampler)
{
    if (atomic_load(&sampler->commands) != NULL || atomic_load(&sampler->stopping))
        return true;
    for (uint32_t i = 0; i < sampler->n_rings; i++)
        if (ring_is_used(&sampler->rings[i]))
            return true;
    return false;
}

static struct timespec timespec_of(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / TW_NS_PER_S, .tv_nsec = ns % TW_NS_PER_S};
}

/* Sleeps until a worker or a command wakes us. `parked` and what they put before they read it are
 * all sequentially consistent: either they see that we are parked, or we see what they put. */
static void sampler_park(struct tw_sampler *sampler, int64_t until_mono_ns)
{
    atomic_store(&sampler->parked, 1);
    if (is_anything_waiting(sampler)) {
        atomic_store(&sampler->parked, 0);
        return;
    }

    int64_t wait_ns = until_mono_ns - tw_mono_ns();
    struct timespec wait = timespec_of(wait_ns < 0 ? 0 : wait_ns);
    syscall(SYS_futex, &sampler->parked, FUTEX_WAIT_PRIVATE, 1,
            until_mono_ns == INT64_MAX ? NULL : &wait, NULL, 0);
    atomic_store(&sampler->parked, 0);
}

static void sampler_rest(struct tw_sampler *sampler, bool was_busy, int64_t until_mono_ns)
{
    sampler->nap_ns = was_busy ? NAP_NS_MIN : sampler->nap_ns * 2;
    if (sampler->nap_ns > NAP_NS_MAX) {
        sampler->nap_ns = NAP_NS_MAX;
        sampler_park(sampler, until_mono_ns);
        return;
    }

    int64_t left_ns = until_mono_ns - tw_mono_ns();
    int64_t nap_ns = left_ns < sampler->nap_ns ? left_ns : sampler->nap_ns;
    if (nap_ns > 0)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = nap_ns}, NULL);
}

static void *sampler_main(void *argument)
{
    struct tw_sampler *sampler = argument;
    struct sched_param parameter = {0};
    /* A batch thread does not push a worker off its core when it wakes. Refused is no error. */
    (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &parameter);
    sampler->nap_ns = NAP_NS_MIN;

    for (;;) {
        /* Read first: what was put before it was set is found in this round. */
        bool is_stopping = atomic_load(&sampler->stopping);
        bool has_read = round_read(sampler);
        int64_t until_mono_ns = windows_end_due(sampler);
        bool has_run = round_command(sampler);
        if (is_stopping && !has_read && !has_run)
            return NULL;
        if (!is_stopping && !has_run)
            sampler_rest(sampler, has_read, until_mono_ns);
    }
}

/* ---- Life. ---- */

static uint32_t rings_wanted(void)
{
    long cores = sysconf(_SC_NPROCESSORS_CONF);
    return cores < 1 ? 1u : cores > (long)RINGS_MAX ? RINGS_MAX : (uint32_t)cores;
}

tw_status tw_sampler_start(const struct tw_sampler_options *options,
                           struct tw_sampler **ret_sampler, struct tw_error *error)
{
    struct tw_sampler *sampler = calloc(1, sizeof *sampler);
    if (sampler == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the sampler");
    sampler->subjects = options->subjects;
    sampler->warm_mono_ns = options->warm_mono_ns;
    sampler->start_wall_ns = tw_wall_ns();

    sampler->rings = aligned_alloc(alignof(struct ring), rings_wanted() * sizeof(struct ring));
    while (sampler->rings != NULL && sampler->n_rings < rings_wanted() &&
           ring_init(&sampler->rings[sampler->n_rings]))
        sampler->n_rings++;
    if (sampler->n_rings < rings_wanted()) {
        tw_error_set(error, TW_NO_MEMORY, "no memory for %u rings of samples", rings_wanted());
        goto fail;
    }

    int failed = pthread_create(&sampler->thread, NULL, sampler_main, sampler);
    if (failed != 0) {
        tw_error_set(error, TW_NO_MEMORY, "the sampler's thread cannot be created: %s",
                     strerror(failed));
        goto fail;
    }
    pthread_setname_np(sampler->thread, "sampler");
    sampler->is_started = true;
    *ret_sampler = sampler;
    return TW_OK;

fail:
    tw_sampler_stop(sampler);
    return TW_NO_MEMORY;
}

void tw_sampler_stop(struct tw_sampler *sampler)
{
    if (sampler == NULL)
        return;
    if (sampler->is_started) {
        atomic_store(&sampler->stopping, true);
        sampler_wake(sampler);
        pthread_join(sampler->thread, NULL);
        assert(sampler->feeds == NULL &&
               sampler->windows == NULL); /* closed before: see the header */
    }
    for (uint32_t i = 0; i < sampler->n_rings; i++)
        ring_clear(&sampler->rings[i]);
    free(sampler->rings);
    cells_clear(&sampler->cells);
    free(sampler);
}
