/* waits.c - 1000 waits of a second: as threads, as timers of the reactor, as jobs of the executor.
 * Waiting needs no thread, only work does: an adapter that needs none is not given one. */
#include "apart.h"
#include "bench.h"

#include <tradewake/base/clock.h>
#include <tradewake/executor/executor.h>
#include <tradewake/executor/reactor.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { WAITS = 1000, PARALLEL = 50, STACK_BYTES = 256 * 1024 };

static atomic_int waited;

static void second_wait(void)
{
    const struct timespec second = {1, 0};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &second, NULL);
    atomic_fetch_add(&waited, 1);
}

static void all_wait(struct apart *ret, int64_t from_ns)
{
    ret->start_ms = (double)(tw_mono_ns() - from_ns) / 1e6;
    ret->threads = apart_threads();
    while (atomic_load(&waited) < WAITS)
        usleep(1000);
    ret->all_ms = (double)(tw_mono_ns() - from_ns) / 1e6;
    ret->is_good = true;
}

/* ---- Threads ---- */

static void *thread_main(void *arg)
{
    (void)arg;
    second_wait();
    return NULL;
}

static void threads_measure(const void *arg, struct apart *ret)
{
    (void)arg;
    pthread_attr_t attributes;
    pthread_t id;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int64_t from_ns = tw_mono_ns();
    for (int i = 0; i < WAITS; i++)
        if (pthread_create(&id, &attributes, thread_main, NULL) != 0)
            return;
    all_wait(ret, from_ns);
}

/* ---- Timers ---- */

static void on_timer(struct tw_timer *timer)
{
    (void)timer;
    atomic_fetch_add(&waited, 1);
}

static void timers_measure(const void *arg, struct apart *ret)
{
    (void)arg;
    struct tw_reactor *reactor;
    struct tw_timer *timers = calloc(WAITS, sizeof *timers);
    if (tw_reactor_start("reactor", &reactor, NULL) != TW_OK)
        return;
    int64_t from_ns = tw_mono_ns();
    for (int i = 0; i < WAITS; i++) {
        timers[i].fire = on_timer;
        tw_timer_set(reactor, &timers[i], tw_mono_ns() + TW_NS_PER_S);
    }
    all_wait(ret, from_ns);
    tw_reactor_stop(reactor);
    free(timers);
}

/* ---- Jobs ---- */

static void job_run(struct tw_job *job)
{
    second_wait();
    tw_job_finish(job, TW_JOB_DONE);
}

/* The threads are there before: that they are is the point. Their memory is counted. */
static void jobs_measure(const void *arg, struct apart *ret)
{
    (void)arg;
    const struct tw_executor_options options = {.threads_ready = WAITS, .pinned = true};
    struct tw_executor *executor;
    struct tw_job *jobs = calloc(WAITS, sizeof *jobs), **batch = calloc(WAITS, sizeof *batch);
    if (tw_executor_start(&options, &executor, NULL) != TW_OK)
        return;
    for (int i = 0; i < WAITS; i++) {
        jobs[i] = (struct tw_job){.run = job_run,
                                  .cancelled = bench_job_cancelled,
                                  .lane = i % PARALLEL == 0
                                              ? tw_lane_new(executor, PARALLEL, NULL)
                                              : jobs[i - 1].lane,
                                  .job_class = TW_JOB_NORMAL};
        batch[i] = &jobs[i];
    }
    int64_t from_ns = tw_mono_ns();
    tw_executor_submit(executor, batch, WAITS);
    all_wait(ret, from_ns);
    tw_executor_stop(executor);
    for (int i = 0; i < WAITS; i += PARALLEL)
        tw_lane_free(jobs[i].lane);
    free(jobs);
    free(batch);
}

/* ---- The command ---- */

static const struct way {
    const char *name;
    void (*measure)(const void *arg, struct apart *ret);
} ways[] = {
    {"threads", threads_measure},
    {"timers", timers_measure},
    {"jobs", jobs_measure},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static void waits_print(const struct bench_options *options, const struct apart rows[WAYS])
{
    struct machine machine;
    machine_look(&machine);
    if (options->json) {
        printf("{\"bench\":\"waits\",\"waits\":%d,\"wait_ms\":1000,\"rounds\":%u,\"ways\":[", WAITS, options->rounds);
        for (size_t i = 0; i < WAYS; i++)
            printf("%s{\"name\":\"%s\",\"seconds\":%.3f,\"threads\":%u,\"mib\":%.2f,\"cpu_ms\":%.1f}",
                   i == 0 ? "" : ",", ways[i].name, rows[i].all_ms / 1e3, rows[i].threads, rows[i].memory_mib,
                   rows[i].cpu_ms);
        printf("],");
        machine_json(stdout, &machine);
        printf("}\n");
        return;
    }
    machine_print(stdout, &machine);
    printf("%d waits of 1 s, each way in a process of its own; medians of %u rounds\n\n", WAITS, options->rounds);
    printf("%-22s %9s %9s %9s %9s\n", "", "seconds", "threads", "MiB more", "CPU ms");
    for (size_t i = 0; i < WAYS; i++)
        printf("%-22s %9.3f %9u %9.2f %9.1f\n", ways[i].name, rows[i].all_ms / 1e3, rows[i].threads,
               rows[i].memory_mib, rows[i].cpu_ms);
    printf("Published (.NET course, 32 cores): threads 1.3 s, 1008 threads, 59 MB more; awaited tasks 1.0 s, "
           "9 threads, 0 MB more.\n");
}

int bench_waits(const struct bench_options *options)
{
    struct apart *all = calloc(WAYS * (size_t)options->rounds, sizeof *all), rows[WAYS]; /* way by way */
    bool is_good = true;
    for (uint32_t round = 0; round < options->rounds && is_good; round++)
        for (uint32_t way = 0; way < WAYS && is_good; way++) {
            progress("waits", round * WAYS + way, options->rounds * WAYS);
            is_good = apart_run(ways[way].measure, NULL, &all[way * (size_t)options->rounds + round]);
        }
    progress("waits", 1, 1);
    for (uint32_t way = 0; way < WAYS; way++)
        rows[way] = apart_median(&all[way * (size_t)options->rounds], options->rounds);
    free(all);
    if (is_good)
        waits_print(options, rows);
    return is_good ? 0 : 1;
}
