/* sampler.h - the sampler: one thread that reads every sample, and hands on what it made of them.
 *
 *   rings --> [sampler thread] --> since-start cells, the fixed histograms of /metrics
 *                              --> feed     one queue per WatchOwnTime reader      --> stream thread
 *                              --> windows  one per WatchOwnTimeSummary reader     --> stream thread
 *                              --> answers  to GetOwnTimeSummary and /metrics      --> who asked
 *
 * Threads do not share here, they hand over. Histograms are touched by the sampler thread alone; a
 * summary that leaves it is a new object and belongs to whoever takes it. A feed is a queue with one
 * writer (the sampler) and one reader (the thread of its call); when the reader is slow the sampler
 * leaves samples out and counts them, it never waits.
 *
 * The sampler sleeps in short naps while samples come and parks when none do; only the first sample
 * after a quiet time costs its worker a system call. */
#ifndef TW_TELEMETRY_SAMPLER_H
#define TW_TELEMETRY_SAMPLER_H

#include <tradewake/base/histogram.h>
#include <tradewake/base/limits.h>
#include <tradewake/base/status.h>
#include <tradewake/telemetry/sample.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tw_feed;
struct tw_sampler;
struct tw_summary;
struct tw_windows;

struct tw_sampler_options {
    struct tw_sample_subject_ops subjects;
    int64_t warm_mono_ns; /* copies called before are flagged TW_SAMPLE_WARMING_UP */
};

/* Thread: main.  Fails: TW_NO_MEMORY. */
TW_MUST_CHECK tw_status tw_sampler_start(const struct tw_sampler_options *options,
                                         struct tw_sampler **ret_sampler, struct tw_error *error);

/* Reads what was put, releases what is held, joins, frees. Feeds and windows are closed and answers
 * have come before. NULL is allowed. Thread: main; nobody puts any more. */
void tw_sampler_stop(struct tw_sampler *sampler);

/* Samples a full ring did not take, since start. Thread: any. */
uint64_t tw_sampler_lost(const struct tw_sampler *sampler);

/* ---- Which samples. ---- */

struct tw_sample_filter {
    char master_id[TW_ID_BYTES];   /* "" = all */
    char follower_id[TW_ID_BYTES]; /* "" = all */
    uint64_t min_own_time_ns;      /* only those that took at least so long; 0 = all */
    bool exclude_warm_up;
    bool exclude_held;
};

/* ---- What readers are told. ---- */

struct tw_reader {
    void *context;
    /* What the reader waits for has come; may say so once too often. Thread: sampler. Blocks: no. */
    void (*wake)(void *context);
    /* The last call: after a close no wake() comes once this has been called, so that the context
     * can go. Thread: sampler.  Blocks: no. */
    void (*gone)(void *context);
};

/* ---- Every sample: WatchOwnTime. ---- */

struct tw_feed_entry {
    struct tw_sample sample; /* holds one reference to its subject */
    uint64_t id;             /* counts what passed the filter, from 0; gaps were left out */
};

/* Begins shortly afterwards: wake() is called once when every sample put from then on is in the
 * feed. *filter and *reader are copied.
 * Thread: any.  Blocks: no.  Fails: TW_LIMIT (too many readers), TW_NO_MEMORY; gone() is not called. */
TW_MUST_CHECK tw_status tw_feed_open(struct tw_sampler *sampler,
                                     const struct tw_sample_filter *filter,
                                     const struct tw_reader *reader, struct tw_feed **ret_feed);

/* Whether it has begun. Thread: reader. */
bool tw_feed_is_open(const struct tw_feed *feed);

/* The feed is the sampler's again, with everything queued. NULL is allowed.
 * Thread: reader.  Blocks: no. */
void tw_feed_close(struct tw_feed *feed);

enum tw_feed_next {
    TW_FEED_EMPTY,   /* nothing has come */
    TW_FEED_SAMPLES, /* so many, ids without a gap */
    TW_FEED_GAP,     /* so many were left out at this point */
};

struct tw_feed_found {
    enum tw_feed_next next;
    uint64_t first_id, count; /* of the samples, or of what was left out */
    bool is_more;             /* something is known to come behind it */
};

/* What comes next, at most `limit` samples of it. Thread: reader. */
struct tw_feed_found tw_feed_peek(struct tw_feed *feed, uint32_t limit);

/* The entry at `index` of the samples that peek found. Thread: reader. */
const struct tw_feed_entry *tw_feed_at(const struct tw_feed *feed, uint64_t index);

/* Goes behind what peek found; releases the subjects of samples. Thread: reader. */
void tw_feed_advance(struct tw_feed *feed, const struct tw_feed_found *found);

/* Asks for one wake() as soon as `samples` of them are queued, or some were left out. True: it is so
 * already, peek again (no wake will come). 0 = no wake is wanted, false. Thread: reader. */
bool tw_feed_arm(struct tw_feed *feed, uint32_t samples);

/* Fills what a sample is about. The strings live as long as the entry is not advanced over.
 * Thread: reader. */
void tw_feed_describe(const struct tw_feed *feed, const struct tw_feed_entry *entry,
                      struct tw_sample_facts *ret);

/* ---- Summaries. ---- */

/* The numbers are those of tradewake.v1.GroupBy. */
enum tw_group_by {
    TW_GROUP_BY_NONE,
    TW_GROUP_BY_THREADS,
    TW_GROUP_BY_MASTER,
    TW_GROUP_BY_FOLLOWER,
    TW_GROUP_BY_ADAPTER,
    TW_GROUP_BY_BURST, /* windows only */
};

enum tw_summary_time { TW_OWN_TIME, TW_PATH_TIME, TW_QUEUE_WAIT, TW_BROKER_TIME, TW_SUMMARY_TIMES };

struct tw_summary_group {
    const char *key; /* of the summary */
    struct tw_histogram times[TW_SUMMARY_TIMES];
    uint64_t held; /* copies that are in queue wait and broker time only */
};

/* Sorts the groups, the largest first, and folds what is too much for one answer into a last group
 * "other": beyond TW_SUMMARY_GROUPS_MAX groups, or beyond what TW_ANSWER_BYTES_MAX can carry.
 * Once per summary, before its groups are looked at. Returns TW_OK or TW_NO_MEMORY.
 * Owns: a summary belongs to whoever took it; Thread: the owner's. */
TW_MUST_CHECK tw_status tw_summary_finish(struct tw_summary *summary);

struct tw_summary_span {
    int64_t start_wall_ns, end_wall_ns;
    size_t groups;
    uint32_t groups_omitted; /* that are in "other" */
};
struct tw_summary_span tw_summary_span(const struct tw_summary *summary);

/* Valid as long as the summary. */
const struct tw_summary_group *tw_summary_group_at(const struct tw_summary *summary, size_t index);

/* NULL is allowed. */
void tw_summary_free(struct tw_summary *summary);

/* Asks for the summary since start. answer() is called exactly once, with NULL when memory did not
 * suffice; it owns the summary. Everything put before the call is in it. group_by: not BURST.
 * Since start, min_own_time_ns cuts own time at its bucket; the other three times are kept in the
 * steps of /metrics (1, 2, 5), and are cut at the step at or below.
 *
 * Thread: any.  Blocks: no.  Fails: TW_NO_MEMORY, TW_LIMIT (too many questions are waiting). */
typedef void tw_summary_answer_fn(void *context, struct tw_summary *summary); /* Thread: sampler */
TW_MUST_CHECK tw_status tw_sampler_summary(struct tw_sampler *sampler,
                                           const struct tw_sample_filter *filter,
                                           enum tw_group_by group_by, tw_summary_answer_fn *answer,
                                           void *context);

/* One summary per window, aligned to whole multiples of window_ns since 1970; the first is cut short
 * by when the reader came. A sample belongs to the window in which the sampler read it. A window
 * that has not been taken when the next one ends is merged with it. wake() is called when the first
 * window has begun and at the end of every one, also of an empty one.
 * Thread: any.  Blocks: no.  Fails: TW_LIMIT (too many readers), TW_NO_MEMORY. */
TW_MUST_CHECK tw_status tw_windows_open(struct tw_sampler *sampler,
                                        const struct tw_sample_filter *filter,
                                        enum tw_group_by group_by, int64_t window_ns,
                                        const struct tw_reader *reader,
                                        struct tw_windows **ret_windows);

/* Whether the first window has begun. Thread: reader. */
bool tw_windows_is_open(const struct tw_windows *windows);

/* The windows that have ended since the last take, as one; NULL = none. Owns: the caller.
 * Thread: reader. */
struct tw_summary *tw_windows_take(struct tw_windows *windows);

/* As tw_feed_close(). */
void tw_windows_close(struct tw_windows *windows);

/* ---- What /metrics shows. ---- */

#define TW_FIXED_BUCKETS 19u /* 10 us to 10 s in 1-2-5 steps */
extern const uint64_t tw_fixed_bucket_ns[TW_FIXED_BUCKETS];

struct tw_fixed_histogram {
    uint64_t buckets[TW_FIXED_BUCKETS + 1]; /* not cumulative; the last is "above" */
    uint64_t count, sum_ns;
};

struct tw_sampler_totals {
    struct tw_fixed_histogram times[TW_SUMMARY_TIMES];
    uint64_t samples, held, lost;
    uint64_t left_out; /* for slow readers, over all feeds */
    uint64_t unlisted; /* samples that are in "other" since start: the cells are all taken */
    uint32_t readers;  /* feeds and windows that are open */
    uint32_t cells, cells_max; /* of the summary since start */
};

/* Asks for the totals; answer() is called exactly once, and *totals is its to read until it returns.
 * Thread: any.  Blocks: no.  Fails: TW_NO_MEMORY, TW_LIMIT. */
typedef void tw_totals_answer_fn(void *context, const struct tw_sampler_totals *totals);
TW_MUST_CHECK tw_status tw_sampler_totals(struct tw_sampler *sampler, tw_totals_answer_fn *answer,
                                          void *context);

#endif
