/* sample.h - one copy's times on their way from the worker to whoever watches.
 *
 *   worker --put--> [ring of its core] --sampler thread--> histograms, and a feed per watcher
 *
 * put() takes no lock, allocates nothing and makes no system call. A full ring loses the sample and
 * counts it. Names are not copied: a sample points to its subject (the copy), which stays until
 * released. */
#ifndef TW_TELEMETRY_SAMPLE_H
#define TW_TELEMETRY_SAMPLE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

struct tw_sampler;

enum { TW_SAMPLE_BLOCKING = 1, TW_SAMPLE_WARMING_UP = 2 /* set by the sampler */ };

/* Times count from received_mono_ns; 0 = not reached. planned and journaled saturate at 4.29 s. */
struct tw_sample {
    void *subject;
    int64_t received_mono_ns;
    uint32_t planned_ns, journaled_ns;
    uint64_t started_ns, called_ns, answered_ns, held_ns;
    uint16_t threads_at_start, threads_created, queue_depth;
    uint16_t flags;
};
static_assert(sizeof(struct tw_sample) == 64, "one cache line");

/* What a sample is about. Strings belong to the subject and live until its release. */
struct tw_sample_facts {
    char copy_id[24];
    const char *event_id, *master_id, *follower_id, *adapter, *trace_id; /* trace_id: "" = none */
    int32_t action;           /* tradewake.v1.CopyAction */
    int64_t received_wall_ns;
    uint64_t upstream_ns;     /* observed_at to received_at; never below 0 */
};

/* The engine's side of a subject. Thread: sampler and stream; both are cheap and take no lock. */
struct tw_sample_subject_ops {
    void (*describe)(void *subject, struct tw_sample_facts *ret);
    void (*hold)(void *subject);    /* one more reference */
    void (*release)(void *subject); /* one reference less; every sample that was put holds one */
};

/* Owns: on true the sampler has the sample's reference to its subject; on false (ring full, counted)
 * the caller still has it. Thread: any.  Blocks: no. */
bool tw_sampler_put(struct tw_sampler *sampler, const struct tw_sample *sample);

#endif
