/* bench.h - what the commands of tradewake-bench share: options, figures, the machine, the output.
 *
 * Figures are medians over rounds of what each round gave. Floating point is fine here: nothing of it
 * is money. */
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct bench_options {
    uint32_t closes, followers, rounds, threads, outstanding, events, rate, seconds;
    bool has_followers; /* somebody said how many */
    int64_t answer_ns, work_ns;
    const char *pools;   /* comma-separated; NULL = all */
    const char *points;  /* numbers, comma-separated */
    const char *adapter; /* of the server's followers */
    const char *plot;    /* the picture's file; NULL = none */
    bool json, realtime, pinned, hosted;
};

int bench_burst(const struct bench_options *options);
int bench_ready_cost(const struct bench_options *options);
int bench_serve_burst(const struct bench_options *options);
int bench_intake(const struct bench_options *options);
int bench_scale(const struct bench_options *options);
int bench_min_threads(const struct bench_options *options);
int bench_waits(const struct bench_options *options);
int bench_requests(const struct bench_options *options);
int bench_sustained(const struct bench_options *options);
int bench_plan(const struct bench_options *options);
int bench_sampler(const struct bench_options *options);

/* The cancelled() of every job here: nobody cancels, so it ends the program. */
struct tw_job;
void bench_job_cancelled(struct tw_job *job);

/* ---- figures ---- */

/* The value below which `per_mille` of the n sorted values are. */
double figure_at(const double *sorted, size_t n, unsigned per_mille);
void figures_sort(double *values, size_t n);
/* Sorts, and returns the one in the middle. */
double figure_median(double *values, size_t n);

struct times {
    double p50, p95, p99, max; /* ms */
};
struct times times_of(double *values_ms, size_t n);
void times_json(FILE *to, const char *name, const struct times *times);

/* ---- the machine ---- */

struct machine {
    char model[96], kernel[96];
    uint32_t cores, mhz;
    uint64_t memory_mib;
    bool realtime_allowed;
    uint64_t threads_limit; /* RLIMIT_NPROC; 0 = none */
};
void machine_look(struct machine *ret);
void machine_json(FILE *to, const struct machine *machine);
void machine_print(FILE *to, const struct machine *machine);
/* In one line, for below a picture's title. */
void machine_words(const struct machine *machine, char *words, size_t size);

/* A bar on a terminal's stderr while a long run goes on; nothing elsewhere. */
void progress(const char *what, uint32_t done, uint32_t all);

#endif
