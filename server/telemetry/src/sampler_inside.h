/* sampler_inside.h - what the sampler's files share: rings, feeds, windows, and what they cross by.
 *
 * Everything reaches the sampler as a command in one list that any thread may push to. */
#ifndef TELEMETRY_SAMPLER_INSIDE_H
#define TELEMETRY_SAMPLER_INSIDE_H

#include "cells.h"
#include "ring.h"
#include "summary.h"

#include <pthread.h>
#include <stdatomic.h>

#define READERS_MAX       256u /* feeds and windows; each costs the sampler a little per sample */
#define QUESTIONS_MAX     64u  /* that wait for an answer; each costs it up to some milliseconds */
#define BURSTS_REMEMBERED 64u

struct command {
    void (*run)(struct tw_sampler *sampler, struct command *command); /* Thread: sampler */
    struct command *next;
};

struct bursts {
    struct burst list[BURSTS_REMEMBERED]; /* id % BURSTS_REMEMBERED */
    uint64_t next_id;                     /* ids begin with 1: 0 is a free place */
};

struct tw_sampler {
    /* Set by tw_sampler_start(), read-only afterwards. */
    struct tw_sample_subject_ops subjects;
    int64_t warm_mono_ns, start_wall_ns;
    struct ring *rings; /* one per core */
    uint32_t n_rings;
    pthread_t thread;
    bool is_started;

    /* Any thread writes, the sampler reads. */
    atomic_uint parked; /* a futex: 1 = the sampler sleeps until somebody makes it 0 */
    atomic_bool stopping;
    _Atomic(struct command *) commands; /* newest first */
    atomic_uint readers, questions;
    atomic_ullong unread; /* samples lost to a lack of memory; the sampler writes */

    /* The sampler's alone. */
    struct command *pending; /* oldest first */
    struct tw_feed *feeds;
    struct tw_windows *windows;
    struct cells cells;
    struct bursts bursts;
    struct tw_sampler_totals totals;
    int64_t nap_ns;
};

/* Hands a command to the sampler and sees to it that it runs soon. Thread: any.  Blocks: no. */
void sampler_post(struct tw_sampler *sampler, struct command *command);

/* Takes one of so many places, or says that there is none. Thread: any. */
bool place_take(atomic_uint *taken, uint32_t max);

/* What the sampler knows of one sample when it goes round. */
struct reading {
    struct tw_sample sample;
    struct tw_sample_facts facts;
    struct summary_subject subject;
    struct summary_times times;
};

bool filter_matches(const struct tw_sample_filter *filter, const struct reading *reading);

/* Feeds. Thread: sampler. publish() makes what was offered visible and wakes the reader if it asked. */
void feed_offer(struct tw_feed *feed, const struct reading *reading);
void feed_publish(struct tw_feed *feed);
struct tw_feed *feed_next(const struct tw_feed *feed);

/* Windows. Thread: sampler. end() closes what is due and returns when the next one ends. */
bool windows_add(struct tw_windows *windows, const struct reading *reading);
int64_t windows_end(struct tw_windows *windows, int64_t now_mono_ns);
struct tw_windows *windows_next(const struct tw_windows *windows);

/* The burst that a copy handed over at this time belongs to. Thread: sampler. */
struct burst *burst_of(struct bursts *bursts, int64_t handed_over_wall_ns);

/* The burst of this number, or NULL when it is forgotten. */
struct burst *burst_by_id(struct bursts *bursts, uint64_t id);

#endif
