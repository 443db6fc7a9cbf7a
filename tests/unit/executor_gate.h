/* executor_gate.h - places to stand in for tests of the executor: no test of it sleeps.
 *
 * A gate holds whoever enters until it is let through, and tells how many stand there. A record
 * keeps the order in which things happened. A trial is a job that does both. */
#ifndef TESTS_EXECUTOR_GATE_H
#define TESTS_EXECUTOR_GATE_H

#include <tradewake/executor/executor.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned entered, allowed, inside;
};

#define GATE_CLOSED                                                                                \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0                               \
    }

static inline void gate_enter(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->entered++;
    gate->inside++;
    pthread_cond_broadcast(&gate->changed);
    while (gate->allowed == 0)
        pthread_cond_wait(&gate->changed, &gate->lock);
    gate->allowed--;
    gate->inside--;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

/* Lets n through, now or when they come. */
static inline void gate_let(struct gate *gate, unsigned n)
{
    pthread_mutex_lock(&gate->lock);
    gate->allowed += n;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

/* Waits until n have come since the beginning. */
static inline void gate_await(struct gate *gate, unsigned n)
{
    pthread_mutex_lock(&gate->lock);
    while (gate->entered < n)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static inline unsigned gate_entered(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    unsigned entered = gate->entered;
    pthread_mutex_unlock(&gate->lock);
    return entered;
}

struct record {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned n;
    char text[4096]; /* "a b c": names in the order in which they came */
};

#define RECORD_EMPTY                                                                               \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, ""                                 \
    }

static inline void record_add(struct record *record, const char *name)
{
    pthread_mutex_lock(&record->lock);
    size_t used = strlen(record->text);
    snprintf(record->text + used, sizeof record->text - used, "%s%s", used == 0 ? "" : " ", name);
    record->n++;
    pthread_cond_broadcast(&record->changed);
    pthread_mutex_unlock(&record->lock);
}

static inline void record_await(struct record *record, unsigned n)
{
    pthread_mutex_lock(&record->lock);
    while (record->n < n)
        pthread_cond_wait(&record->changed, &record->lock);
    pthread_mutex_unlock(&record->lock);
}

struct trial {
    struct tw_job job;
    const char *name;
    struct gate *gate;       /* entered inside run(); NULL: none */
    struct record *started;  /* NULL: none */
    struct record *ended;    /* after finish, or cancelled with "-name"; NULL: none */
    enum tw_job_end ends[4]; /* of the first runs; DONE after that */
    unsigned runs;
};

static inline void trial_run(struct tw_job *job)
{
    struct trial *trial = (struct trial *)job;
    struct record *ended = trial->ended;
    const char *name = trial->name;
    unsigned run = trial->runs++;
    if (trial->started != NULL)
        record_add(trial->started, name);
    if (trial->gate != NULL)
        gate_enter(trial->gate);
    tw_job_finish(job, run < 4 ? trial->ends[run] : TW_JOB_DONE);
    if (ended != NULL)
        record_add(ended, name);
}

static inline void trial_cancelled(struct tw_job *job)
{
    struct trial *trial = (struct trial *)job;
    char name[32];
    snprintf(name, sizeof name, "-%s", trial->name);
    if (trial->ended != NULL)
        record_add(trial->ended, name);
}

static inline void trial_submit(struct tw_executor *executor, struct trial *trial)
{
    struct tw_job *job = &trial->job;
    tw_executor_submit(executor, &job, 1);
}

#define TRIAL(lane_, key_, class_, name_, ...)                                                     \
    {                                                                                              \
        .job = {.run = trial_run,                                                                  \
                .cancelled = trial_cancelled,                                                      \
                .lane = (lane_),                                                                   \
                .key = (key_),                                                                     \
                .job_class = (class_)},                                                            \
        .name = (name_), __VA_ARGS__                                                               \
    }

#endif
