/* telemetry_fixture.h - copies that count their references, and waiting for what the sampler says. */
#ifndef TESTS_TELEMETRY_FIXTURE_H
#define TESTS_TELEMETRY_FIXTURE_H

#include <tradewake/base/clock.h>
#include <tradewake/telemetry/sampler.h>

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* One copy; many samples may be about it. */
struct subject {
    atomic_llong references;
    char copy_id[24], event_id[16], master_id[16], follower_id[16];
    uint64_t upstream_ns;
    int64_t received_wall_ns;
};

static inline void subject_describe(void *subject, struct tw_sample_facts *ret)
{
    const struct subject *self = subject;
    *ret = (struct tw_sample_facts){
        .event_id = self->event_id,
        .master_id = self->master_id,
        .follower_id = self->follower_id,
        .adapter = "paper",
        .trace_id = "",
        .action = 3,
        .received_wall_ns = self->received_wall_ns,
        .upstream_ns = self->upstream_ns,
    };
    memcpy(ret->copy_id, self->copy_id, sizeof ret->copy_id);
}

static inline void subject_hold(void *subject)
{
    atomic_fetch_add(&((struct subject *)subject)->references, 1);
}

static inline void subject_release(void *subject)
{
    atomic_fetch_sub(&((struct subject *)subject)->references, 1);
}

static const struct tw_sample_subject_ops fixture_subjects = {
    .describe = subject_describe, .hold = subject_hold, .release = subject_release};

static inline void subject_init(struct subject *subject, const char *master, const char *follower)
{
    *subject = (struct subject){.upstream_ns = 1000, .received_wall_ns = tw_wall_ns()};
    snprintf(subject->copy_id, sizeof subject->copy_id, "T1ABCDEFGHIJKLMNOPQR");
    snprintf(subject->event_id, sizeof subject->event_id, "E1");
    snprintf(subject->master_id, sizeof subject->master_id, "%s", master);
    snprintf(subject->follower_id, sizeof subject->follower_id, "%s", follower);
}

static inline struct tw_sample sample_of(struct subject *subject, uint64_t own_ns)
{
    return (struct tw_sample){
        .subject = subject,
        .received_mono_ns = tw_mono_ns(),
        .planned_ns = 1000,
        .journaled_ns = 2000,
        .started_ns = own_ns > 3000 ? own_ns - 1000 : 2500,
        .called_ns = own_ns,
        .answered_ns = own_ns + 130000000,
        .threads_at_start = 1024,
        .queue_depth = 3,
        .flags = TW_SAMPLE_BLOCKING,
    };
}

/* Puts one; true when the ring took it. */
static inline bool put_one(struct tw_sampler *sampler, struct subject *subject, uint64_t own_ns)
{
    const struct tw_sample sample = sample_of(subject, own_ns);
    atomic_fetch_add(&subject->references, 1);
    if (tw_sampler_put(sampler, &sample))
        return true;
    atomic_fetch_sub(&subject->references, 1);
    return false;
}

static inline void semaphore_await(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        ;
}

/* ---- The sampler's answers, waited for. ---- */

struct totals_wait {
    sem_t answered;
    struct tw_sampler_totals totals;
};

static inline void on_totals_answer(void *context, const struct tw_sampler_totals *totals)
{
    struct totals_wait *wait = context;
    wait->totals = *totals;
    sem_post(&wait->answered);
}

static inline struct tw_sampler_totals totals_now(struct tw_sampler *sampler)
{
    struct totals_wait wait;
    sem_init(&wait.answered, 0, 0);
    while (tw_sampler_totals(sampler, on_totals_answer, &wait) != TW_OK)
        ;
    semaphore_await(&wait.answered);
    sem_destroy(&wait.answered);
    return wait.totals;
}

/* Returns when the sampler has read so many. */
static inline void samples_await(struct tw_sampler *sampler, uint64_t samples)
{
    while (totals_now(sampler).samples < samples)
        ;
}

struct summary_wait {
    sem_t answered;
    struct tw_summary *summary;
};

static inline void on_summary_answer(void *context, struct tw_summary *summary)
{
    struct summary_wait *wait = context;
    wait->summary = summary;
    sem_post(&wait->answered);
}

/* Owns: the caller. NULL when it could not be asked. */
static inline struct tw_summary *summary_now(struct tw_sampler *sampler,
                                             const struct tw_sample_filter *filter,
                                             enum tw_group_by group_by)
{
    struct summary_wait wait = {.summary = NULL};
    sem_init(&wait.answered, 0, 0);
    if (tw_sampler_summary(sampler, filter, group_by, on_summary_answer, &wait) != TW_OK)
        return NULL;
    semaphore_await(&wait.answered);
    sem_destroy(&wait.answered);
    return wait.summary;
}

/* ---- A reader of a feed or of windows. ---- */

struct reader {
    sem_t woken, gone;
};

static inline void reader_on_wake(void *context)
{
    sem_post(&((struct reader *)context)->woken);
}

static inline void reader_on_gone(void *context)
{
    sem_post(&((struct reader *)context)->gone);
}

static inline struct tw_reader reader_init(struct reader *reader)
{
    sem_init(&reader->woken, 0, 0);
    sem_init(&reader->gone, 0, 0);
    return (struct tw_reader){.context = reader, .wake = reader_on_wake, .gone = reader_on_gone};
}

#endif
