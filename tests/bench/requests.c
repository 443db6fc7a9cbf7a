/* requests.c - 1200 requests behind one lock: one thread, a thread for each, the executor. What it costs
 * the caller to hand them over, until all are done, and how much memory and processor time they take.
 *
 * In the executor the lock is a lane that runs one job at a time: no thread waits for it. */
#include "apart.h"
#include "bench.h"

#include <tradewake/base/clock.h>
#include <tradewake/executor/executor.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { REQUESTS = 1200, STACK_BYTES = 256 * 1024 };

static const int64_t services_ms[] = {2, 5, 10};
enum { SERVICES = sizeof services_ms / sizeof services_ms[0] };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int served;
static int64_t service_ns;

static void serve(void)
{
    const struct timespec service = {0, service_ns};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &service, NULL);
    atomic_fetch_add(&served, 1);
}

static void started(struct apart *ret, int64_t from_ns)
{
    ret->start_ms = (double)(tw_mono_ns() - from_ns) / 1e6;
    ret->threads = apart_threads();
}

static void all_wait(struct apart *ret, int64_t from_ns)
{
    while (atomic_load(&served) < REQUESTS)
        usleep(1000);
    ret->all_ms = (double)(tw_mono_ns() - from_ns) / 1e6;
    ret->is_good = true;
}

/* The caller itself: it is free when everything is done. */
static void one_measure(const void *arg, struct apart *ret)
{
    service_ns = *(const int64_t *)arg * TW_NS_PER_MS;
    int64_t from_ns = tw_mono_ns();
    for (int i = 0; i < REQUESTS; i++)
        serve();
    started(ret, from_ns);
    all_wait(ret, from_ns);
}

static void *thread_main(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    serve();
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void threads_measure(const void *arg, struct apart *ret)
{
    service_ns = *(const int64_t *)arg * TW_NS_PER_MS;
    pthread_attr_t attributes;
    pthread_t id;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int64_t from_ns = tw_mono_ns();
    for (int i = 0; i < REQUESTS; i++)
        if (pthread_create(&id, &attributes, thread_main, NULL) != 0)
            return;
    started(ret, from_ns);
    all_wait(ret, from_ns);
}

static void job_run(struct tw_job *job)
{
    serve();
    tw_job_finish(job, TW_JOB_DONE);
}

static void executor_measure(const void *arg, struct apart *ret)
{
    service_ns = *(const int64_t *)arg * TW_NS_PER_MS;
    const struct tw_executor_options options = {.threads_ready = 1, .pinned = true};
    struct tw_executor *executor;
    struct tw_job *jobs = calloc(REQUESTS, sizeof *jobs), **batch = calloc(REQUESTS, sizeof *batch);
    if (tw_executor_start(&options, &executor, NULL) != TW_OK)
        return;
    struct tw_lane *lane = tw_lane_new(executor, 1, NULL);
    for (int i = 0; i < REQUESTS; i++) {
        jobs[i] = (struct tw_job){
            .run = job_run, .cancelled = bench_job_cancelled, .lane = lane, .job_class = TW_JOB_NORMAL};
        batch[i] = &jobs[i];
    }
    int64_t from_ns = tw_mono_ns();
    for (int i = 0; i < REQUESTS; i++) /* they come one by one, as requests do */
        tw_executor_submit(executor, &batch[i], 1);
    started(ret, from_ns);
    all_wait(ret, from_ns);
    tw_executor_stop(executor);
    tw_lane_free(lane);
    free(jobs);
    free(batch);
}

/* ---- The command ---- */

static const struct way {
    const char *name;
    void (*measure)(const void *arg, struct apart *ret);
} ways[] = {
    {"one-thread", one_measure},
    {"thread-per-request", threads_measure},
    {"executor", executor_measure},
};
enum { WAYS = sizeof ways / sizeof ways[0], ROWS = WAYS * SERVICES };

static void requests_json(const struct bench_options *options, const struct apart rows[ROWS])
{
    struct machine machine;
    machine_look(&machine);
    printf("{\"bench\":\"requests\",\"requests\":%d,\"rounds\":%u,\"ways\":[", REQUESTS, options->rounds);
    for (size_t row = 0; row < ROWS; row++)
        printf("%s{\"name\":\"%s\",\"service_ms\":%d,\"start_ms\":%.2f,\"all_ms\":%.1f,\"memory_kib\":%.0f,"
               "\"cpu_ms\":%.1f,\"threads\":%u}",
               row == 0 ? "" : ",", ways[row / SERVICES].name, (int)services_ms[row % SERVICES],
               rows[row].start_ms, rows[row].all_ms, rows[row].memory_mib * 1024, rows[row].cpu_ms,
               rows[row].threads);
    printf("],");
    machine_json(stdout, &machine);
    printf("}\n");
}

static void requests_print(const struct bench_options *options, const struct apart rows[ROWS])
{
    struct machine machine;
    machine_look(&machine);
    machine_print(stdout, &machine);
    printf("%d requests behind one lock, each way in a process of its own; medians of %u rounds\n\n", REQUESTS,
           options->rounds);
    printf("%-20s %8s %10s %10s %12s %9s %8s\n", "", "service", "start ms", "all ms", "memory KiB", "CPU ms",
           "threads");
    for (size_t row = 0; row < ROWS; row++)
        printf("%-20s %5d ms %10.2f %10.1f %12.0f %9.1f %8u\n", ways[row / SERVICES].name,
               (int)services_ms[row % SERVICES], rows[row].start_ms, rows[row].all_ms,
               rows[row].memory_mib * 1024, rows[row].cpu_ms, rows[row].threads);
    printf("Published (.NET, Celeron 3 GHz, 1 GB, around 2010; start / all / memory):\n"
           "  one thread             2 ms: - / 3688 / 10792 K      5 ms: - / 7281 / 10780 K      10 ms: - / 13125 / "
           "10792 K\n"
           "  a thread per request   2 ms: 656 / 4234 / 323508 K   5 ms: 625 / 7719 / 323508 K   10 ms: 750 / 13735 / "
           "323508 K\n");
}

int bench_requests(const struct bench_options *options)
{
    struct apart *all = calloc(ROWS * (size_t)options->rounds, sizeof *all), rows[ROWS]; /* row by row */
    bool is_good = true;
    for (uint32_t round = 0; round < options->rounds && is_good; round++)
        for (uint32_t row = 0; row < ROWS && is_good; row++) {
            progress("requests", round * ROWS + row, options->rounds * ROWS);
            is_good = apart_run(ways[row / SERVICES].measure, &services_ms[row % SERVICES],
                                &all[row * (size_t)options->rounds + round]);
        }
    progress("requests", 1, 1);
    for (uint32_t row = 0; row < ROWS; row++)
        rows[row] = apart_median(&all[row * (size_t)options->rounds], options->rounds);
    free(all);
    if (!is_good)
        return 1;
    if (options->json)
        requests_json(options, rows);
    else
        requests_print(options, rows);
    return 0;
}
