/* apart.h - a measurement in a process of its own, so that neither threads nor memory of one are in the
 * figures of another. */
#ifndef TESTS_BENCH_APART_H
#define TESTS_BENCH_APART_H

#include <stdbool.h>
#include <stdint.h>

struct apart {
    double start_ms; /* until the caller was free again */
    double all_ms;   /* until everything was done */
    double cpu_ms;   /* of the process, user and system */
    double memory_mib; /* the most there was, less what there was before */
    uint32_t threads;  /* of the process, the most that the measurement saw */
    bool is_good;
};

/* Runs measure(arg, ret) in a child; it sets all but cpu_ms and memory_mib, which are set here.
 * The caller has no other threads. False when it failed; words are on stderr. */
bool apart_run(void (*measure)(const void *arg, struct apart *ret), const void *arg, struct apart *ret);

/* Threads of this process now. */
uint32_t apart_threads(void);

/* Member by member the median of n measurements. */
struct apart apart_median(const struct apart *all, uint32_t n);

#endif
