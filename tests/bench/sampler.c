/* sampler.c - what a sample costs the worker that puts it: nanoseconds per tw_sampler_put(), by one
 * thread and by two on different cores. A burst fits the rings, as every burst should; whether all of
 * it arrived is counted, not assumed. */
#include "bench.h"

#include <tradewake/base/clock.h>
#include <tradewake/telemetry/sampler.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { PUTS = 8000, THREADS_MAX = 2 }; /* both threads on one core still fit its ring */

/* ---- A subject that costs nothing ---- */

static void subject_describe(void *subject, struct tw_sample_facts *ret)
{
    (void)subject;
    *ret = (struct tw_sample_facts){.event_id = "E1",
                                    .master_id = "M1",
                                    .follower_id = "F1",
                                    .adapter = "paper",
                                    .trace_id = ""};
}

static void subject_count(void *subject)
{
    (void)subject;
}

/* ---- The threads that put ---- */

struct putter {
    pthread_t id;
    struct tw_sampler *sampler;
    pthread_barrier_t *start;
    uint32_t nth;
    double ns_each;
};

static void pin_to_nth_core(uint32_t nth)
{
    cpu_set_t usable, one;
    sched_getaffinity(0, sizeof usable, &usable);
    uint32_t seen = 0, wanted = nth % (uint32_t)CPU_COUNT(&usable);
    for (size_t core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &usable) && seen++ == wanted) {
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            sched_setaffinity(0, sizeof one, &one);
        }
}

static void *putter_main(void *arg)
{
    static char subject;
    struct putter *putter = arg;
    struct tw_sample sample = {.subject = &subject, .received_mono_ns = tw_mono_ns(), .threads_at_start = 1};
    pin_to_nth_core(putter->nth);
    pthread_barrier_wait(putter->start);
    int64_t from_ns = tw_mono_ns();
    for (uint32_t i = 0; i < PUTS; i++) {
        sample.called_ns = 1000 + i;
        sample.answered_ns = 2000 + i;
        (void)tw_sampler_put(putter->sampler, &sample); /* what was lost is counted there */
    }
    putter->ns_each = (double)(tw_mono_ns() - from_ns) / PUTS;
    return NULL;
}

static void on_totals(void *context, const struct tw_sampler_totals *totals)
{
    atomic_store((_Atomic uint64_t *)context, totals->samples + totals->lost + 1);
}

/* Until the sampler has read `count` samples, or lost them. */
static bool drained_wait(struct tw_sampler *sampler, uint64_t count)
{
    for (int64_t until_ns = tw_mono_ns() + 10 * TW_NS_PER_S; tw_mono_ns() < until_ns;) {
        _Atomic uint64_t seen = 0;
        if (tw_sampler_totals(sampler, on_totals, &seen) != TW_OK)
            return false;
        while (atomic_load(&seen) == 0)
            usleep(200);
        if (atomic_load(&seen) > count)
            return true;
    }
    fprintf(stderr, "the sampler has not read %llu samples within 10 s\n", (unsigned long long)count);
    return false;
}

static bool round_run(struct tw_sampler *sampler, uint32_t threads, double *ret_ns)
{
    struct putter putters[THREADS_MAX] = {0};
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, threads);
    *ret_ns = 0;
    for (uint32_t t = 0; t < threads; t++) {
        putters[t] = (struct putter){.sampler = sampler, .start = &start, .nth = t};
        if (pthread_create(&putters[t].id, NULL, putter_main, &putters[t]) != 0)
            abort(); /* two threads are always there */
    }
    for (uint32_t t = 0; t < threads; t++) {
        pthread_join(putters[t].id, NULL);
        *ret_ns += putters[t].ns_each / threads;
    }
    pthread_barrier_destroy(&start);
    return true;
}

/* ---- The command ---- */

static bool rounds_run(struct tw_sampler *sampler, uint32_t rounds, double *ns[THREADS_MAX], uint64_t *ret_put)
{
    uint64_t put = 0;
    for (uint32_t round = 0; round < rounds; round++) {
        progress("sampler", round, rounds);
        for (uint32_t threads = 1; threads <= THREADS_MAX; threads++) {
            put += (uint64_t)threads * PUTS;
            if (!round_run(sampler, threads, &ns[threads - 1][round]) || !drained_wait(sampler, put))
                return false;
        }
    }
    progress("sampler", rounds, rounds);
    *ret_put = put;
    return true;
}

static void sampler_print(const struct bench_options *options, const double ns[THREADS_MAX], uint64_t put, uint64_t lost)
{
    struct machine machine;
    machine_look(&machine);
    if (options->json) {
        printf("{\"bench\":\"sampler\",\"rounds\":%u,\"puts\":%d,\"ns_per_sample\":{\"threads_1\":%.1f,"
               "\"threads_2\":%.1f},\"samples\":%llu,\"lost\":%llu,",
               options->rounds, PUTS, ns[0], ns[1], (unsigned long long)put, (unsigned long long)lost);
        machine_json(stdout, &machine);
        printf("}\n");
        return;
    }
    machine_print(stdout, &machine);
    printf("%d samples at once by each thread, medians of %u rounds\n\n", PUTS, options->rounds);
    for (uint32_t threads = 1; threads <= THREADS_MAX; threads++)
        printf("%u thread%s %8.1f ns per sample\n", threads, threads == 1 ? " " : "s", ns[threads - 1]);
    printf("%llu samples, %llu lost\n", (unsigned long long)put, (unsigned long long)lost);
}

int bench_sampler(const struct bench_options *options)
{
    const struct tw_sampler_options sampler_options = {
        .subjects = {subject_describe, subject_count, subject_count}};
    struct tw_sampler *sampler;
    struct tw_error error = {0};
    if (tw_sampler_start(&sampler_options, &sampler, &error) != TW_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    double *all = calloc(THREADS_MAX * (size_t)options->rounds, sizeof *all);
    double *ns[THREADS_MAX] = {all, all + options->rounds};
    uint64_t put = 0;
    bool is_good = rounds_run(sampler, options->rounds, ns, &put);
    uint64_t lost = tw_sampler_lost(sampler);
    if (is_good)
        sampler_print(options,
                      (const double[]){figure_median(ns[0], options->rounds), figure_median(ns[1], options->rounds)},
                      put, lost);
    free(all);
    tw_sampler_stop(sampler);
    return is_good ? 0 : 1;
}
