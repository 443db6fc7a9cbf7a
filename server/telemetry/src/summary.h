/* summary.h - groups of samples, each with its four histograms.
 *
 * A summary is filled by the sampler alone and then handed over as a whole. */
#ifndef TELEMETRY_SUMMARY_H
#define TELEMETRY_SUMMARY_H

#include "table.h"

#include <tradewake/telemetry/sampler.h>

#define SUMMARY_LABEL_BYTES 72u
static_assert(SUMMARY_LABEL_BYTES > TW_ID_CHARS_MAX, "an id fits");

/* Copies that were handed over within a second. */
struct burst {
    uint64_t id;
    int64_t first_wall_ns, last_wall_ns;
    bool is_shown; /* its first second has been told and stays what it is */
};

/* What a sample, or a cell of samples, can be grouped by. */
struct summary_subject {
    const char *master_id, *follower_id, *adapter;
    uint32_t threads_range;
    const struct burst *burst; /* NULL unless grouped by it */
};

/* The times of one sample, worked out once and used by every summary. */
struct summary_times {
    uint64_t ns[TW_SUMMARY_TIMES];
    bool is_held; /* own and path time do not count */
};

struct group {
    struct tw_summary_group shown; /* first: the reader's view */
    struct table_entry entry;
    uint64_t copies; /* the size that decides which are the largest */
    char label[SUMMARY_LABEL_BYTES];
    uint8_t key[];
};

struct tw_summary {
    struct table groups; /* of struct group */
    struct group **list; /* the same, in order of arrival; after finish: in order of size */
    size_t n_list, list_capacity;
    struct group *other; /* "other", once something had to go there; not in groups */
    int64_t start_wall_ns, end_wall_ns;
    enum tw_group_by group_by;
    uint32_t omitted; /* after finish */
};

/* Without grouping the one group is there from the start. NULL without memory. */
struct tw_summary *summary_new(enum tw_group_by group_by, int64_t start_wall_ns);

/* The group a subject belongs to, made when it is new; "other" when there are too many. NULL without
 * memory. */
struct group *summary_group(struct tw_summary *summary, const struct summary_subject *subject);

/* The group "other". NULL without memory. */
struct group *summary_other(struct tw_summary *summary);

/* False without memory: the sample is then in some of the histograms only. */
bool group_add(struct group *group, const struct summary_times *times);

/* Adds all of `from`, which stays as it is. False when something did not fit in memory. */
bool summary_merge(struct tw_summary *summary, const struct tw_summary *from);

/* The range of powers of two that a number of threads is in; "513-1024" holds 700. */
uint32_t threads_range(uint32_t threads);

/* "2026-11-30T09:48:36Z": the first second of a burst. */
void burst_label(const struct burst *burst, char label[SUMMARY_LABEL_BYTES]);

/* Which of the steps of /metrics a time has reached: 0 = below the first. */
uint32_t fixed_step(uint64_t value_ns);

#endif
