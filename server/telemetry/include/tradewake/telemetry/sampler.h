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

/* ---- Every sample: WatchOwnTime. ---- */

/* Called when what the reader waits for has come; may say so once too often. Thread: sampler.
 * Blocks: no. */
typedef void tw_sampler_wake_fn(void *context);

struct tw_feed_entry {
    struct tw_sample sample; /* holds one reference to its subject */
    uint64_t id;             /* counts what passed the filter, from 0; gaps were left out */
};

/* Samples put from now on. *filter is copied.
 * Thread: any.  Fails: TW_LIMIT (too many feeds), TW_NO_MEMORY. */
TW_MUST_CHECK tw_status tw_feed_open(struct tw_sampler *sampler,
                                     const struct tw_sample_filter *filter,
                                     tw_sampler_wake_fn *wake, void *context,
                                     struct tw_feed **ret_feed);

/* When this returns wake() is not running and will not be called; what is queued is released.
 * NULL is allowed. Thread: reader.  Blocks: no longer than a wake() of this feed takes. */
void tw_feed_close(struct tw_feed *feed);

enum tw_feed_next {
    TW_FEED_EMPTY,   /* nothing has come */
    TW_FEED_SAMPLES, /* so many, ids without a gap */
    TW_FEED_GAP,     /* so many were left out at this point */
};

/* What comes next and how much of it, up to limit samples: *ret_count counts samples or the gap, and
 * *ret_first_id is the first of them. *ret_more: something is known to come behind it.
 * Thread: reader. */
enum tw_feed_next tw_feed_peek(struct tw_feed *feed, uint32_t limit, uint64_t *ret_first_id,
                               uint64_t *ret_count, bool *ret_more);

/* The entry at `index` of the samples that peek found. Thread: reader. */
const struct tw_feed_entry *tw_feed_at(const struct tw_feed *feed, uint64_t index);

/* Goes behind `count` of what peek found, releasing the subjects of samples. Thread: reader. */
void tw_feed_advance(struct tw_feed *feed, uint64_t count);

/* Asks for one wake() as soon as `samples` of them are queued, or there is a gap. True: it is so
 * already, peek again (no wake will come). 0 = no wake wanted. Thread: reader. */
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

/* Groups, the largest first; after tw_summary_finish() at most TW_SUMMARY_GROUPS_MAX and "other".
 * Owns: whoever took it; free with tw_summary_free(). */
struct tw_summary_view {
    int64_t start_wall_ns, end_wall_ns;
    const struct tw_summary_group *const *groups;
    size_t n_groups;
    uint32_t omitted; /* groups that are in "other" */
};

/* Sorts, and folds what is too much for one answer into "other": beyond TW_SUMMARY_GROUPS_MAX
 * groups, or beyond what TW_ANSWER_BYTES_MAX can carry. The view lives as long as the summary.
 * Thread: owner.  Fails: TW_NO_MEMORY. */
TW_MUST_CHECK tw_status tw_summary_finish(struct tw_summary *summary, struct tw_summary_view *ret);
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

/* One summary per window, aligned to whole multiples of window_ns since 1970. A sample belongs to
 * the window in which the sampler read it. A window that has not been taken when the next one ends
 * is merged with it. wake() is called at the end of every window, also of an empty one.
 * Thread: any.  Fails: TW_LIMIT (too many), TW_NO_MEMORY. */
TW_MUST_CHECK tw_status tw_windows_open(struct tw_sampler *sampler,
                                        const struct tw_sample_filter *filter,
                                        enum tw_group_by group_by, int64_t window_ns,
                                        tw_sampler_wake_fn *wake, void *context,
                                        struct tw_windows **ret_windows);

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
    uint64_t samples, held, lost, late_threads;
    uint64_t left_out; /* for slow readers, over all feeds */
    uint32_t feeds, windows;
    uint32_t cells, cells_max;  /* of the summary since start */
    uint64_t samples_unlisted;  /* that are in "other" since start, because the cells are all taken */
};

/* Asks for the totals; answer() is called exactly once, and *totals is its to read until it returns.
 * Thread: any.  Blocks: no.  Fails: TW_NO_MEMORY, TW_LIMIT. */
typedef void tw_totals_answer_fn(void *context, const struct tw_sampler_totals *totals);
TW_MUST_CHECK tw_status tw_sampler_totals(struct tw_sampler *sampler, tw_totals_answer_fn *answer,
                                          void *context);

#endif
