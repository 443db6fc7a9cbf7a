/* min_threads.c - 50 jobs of 100 ms on a pool that creates one thread per half second once its minimum
 * is used up, by that minimum; beside the executor, whose threads are there before the jobs. */
#include "bench.h"

#include <tradewake/base/clock.h>
#include <tradewake/executor/executor.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { JOBS = 50, JOB_MS = 100, GROW_MS = 500, STACK_BYTES = 256 * 1024 };

static const uint32_t minima[] = {2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 30, 35, 40};
enum { MINIMA = sizeof minima / sizeof minima[0], ROWS = MINIMA + 1 }; /* and ours */

static void job_sleep(void)
{
    const struct timespec wait = {0, JOB_MS * TW_NS_PER_MS};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &wait, NULL);
}

/* ---- The pool that grows ---- */

struct growing {
    atomic_int next, done;
    uint32_t n_threads;
    pthread_t threads[JOBS];
};

static void *growing_worker(void *arg)
{
    struct growing *pool = arg;
    while (atomic_fetch_add(&pool->next, 1) < JOBS) {
        job_sleep();
        atomic_fetch_add(&pool->done, 1);
    }
    return NULL;
}

static void growing_add(struct growing *pool)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (pool->n_threads < JOBS && pthread_create(&pool->threads[pool->n_threads], &attributes,
                                                 growing_worker, pool) == 0)
        pool->n_threads++;
    pthread_attr_destroy(&attributes);
}

/* The threads of the minimum are created when the first jobs ask for them, the rest one by one. */
static double growing_run(uint32_t minimum)
{
    struct growing pool = {0};
    int64_t from_ns = tw_mono_ns(), grow_ns = from_ns + GROW_MS * TW_NS_PER_MS;
    while (pool.n_threads < minimum)
        growing_add(&pool);
    while (atomic_load(&pool.done) < JOBS) {
        usleep(1000);
        if (tw_mono_ns() < grow_ns || atomic_load(&pool.next) >= JOBS)
            continue;
        growing_add(&pool);
        grow_ns += GROW_MS * TW_NS_PER_MS;
    }
    double ms = (double)(tw_mono_ns() - from_ns) / 1e6;
    for (uint32_t i = 0; i < pool.n_threads; i++)
        pthread_join(pool.threads[i], NULL);
    return ms;
}

/* ---- Ours ---- */

static atomic_int ours_done;

static void ours_job_run(struct tw_job *job)
{
    job_sleep();
    tw_job_finish(job, TW_JOB_DONE);
    atomic_fetch_add(&ours_done, 1);
}

static double ours_run(struct tw_executor *executor, struct tw_lane *lane)
{
    struct tw_job jobs[JOBS], *batch[JOBS];
    atomic_store(&ours_done, 0);
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (struct tw_job){
            .run = ours_job_run, .cancelled = bench_job_cancelled, .lane = lane, .job_class = TW_JOB_NORMAL};
        batch[i] = &jobs[i];
    }
    int64_t from_ns = tw_mono_ns();
    tw_executor_submit(executor, batch, JOBS);
    while (atomic_load(&ours_done) < JOBS)
        usleep(1000);
    return (double)(tw_mono_ns() - from_ns) / 1e6;
}

/* ---- The command ---- */

static void min_threads_json(const struct bench_options *options, const double ms[ROWS])
{
    struct machine machine;
    machine_look(&machine);
    printf("{\"bench\":\"min-threads\",\"jobs\":%d,\"job_ms\":%d,\"grow_ms\":%d,\"rounds\":%u,\"points\":[",
           JOBS, JOB_MS, GROW_MS, options->rounds);
    for (size_t i = 0; i < MINIMA; i++)
        printf("%s{\"minimum\":%u,\"all_ms\":%.1f}", i == 0 ? "" : ",", minima[i], ms[i]);
    printf("],\"tradewake\":{\"all_ms\":%.1f},", ms[MINIMA]);
    machine_json(stdout, &machine);
    printf("}\n");
}

static void min_threads_print(const struct bench_options *options, const double ms[ROWS])
{
    enum { WIDTH = 50 };
    static const char hashes[] = "##################################################";
    struct machine machine;
    machine_look(&machine);
    machine_print(stdout, &machine);
    printf("%d jobs of %d ms at once, one more thread per %d ms above the minimum; medians of %u rounds, ms\n\n",
           JOBS, JOB_MS, GROW_MS, options->rounds);
    for (size_t i = 0; i < ROWS; i++) {
        int width = (int)(ms[i] / ms[0] * WIDTH + 0.5);
        if (i < MINIMA)
            printf("minimum %-4u %8.1f  %.*s\n", minima[i], ms[i], width, hashes);
        else
            printf("tradewake    %8.1f  %.*s\n", ms[i], width, hashes);
    }
    printf("Published (C#, dual core, around 2010): the total falls dramatically at 5 and goes on falling until "
           "13.\nMono 6.8, 2 cores: 100 jobs of 130 ms with the default minimum of 2 took 4.3 s.\n");
}

static void rounds_run(uint32_t rounds, struct tw_executor *executor, struct tw_lane *lane, double ret_ms[ROWS])
{
    double *ms = calloc(ROWS * (size_t)rounds, sizeof *ms); /* row by row */
    for (uint32_t round = 0; round < rounds; round++)
        for (uint32_t row = 0; row < ROWS; row++) {
            progress("min-threads", round * ROWS + row, rounds * ROWS);
            ms[row * (size_t)rounds + round] = row < MINIMA ? growing_run(minima[row]) : ours_run(executor, lane);
        }
    progress("min-threads", 1, 1);
    for (uint32_t row = 0; row < ROWS; row++)
        ret_ms[row] = figure_median(ms + row * (size_t)rounds, rounds);
    free(ms);
}

int bench_min_threads(const struct bench_options *options)
{
    const struct tw_executor_options executor_options = {.threads_ready = JOBS, .pinned = true};
    struct tw_executor *executor;
    struct tw_error error = {0};
    if (tw_executor_start(&executor_options, &executor, &error) != TW_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    struct tw_lane *lane = tw_lane_new(executor, JOBS, NULL);
    double ms[ROWS];
    rounds_run(options->rounds, executor, lane, ms);
    tw_executor_stop(executor);
    tw_lane_free(lane);
    if (options->json)
        min_threads_json(options, ms);
    else
        min_threads_print(options, ms);
    return 0;
}
