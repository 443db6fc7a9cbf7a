#include "summary.h"

#include <tradewake/base/clock.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More groups than a master has followers; what comes later is in "other" from the start. */
#define GROUPS_TRACKED_MAX 16384u

/* What one bucket, one histogram and one group take on the wire at most: a bound of up to 10 bytes
 * and a count of up to 7; eleven numbers; a key, and the fields around it. */
#define WIRE_BUCKET_BYTES    17u
#define WIRE_HISTOGRAM_BYTES 128u
#define WIRE_GROUP_BYTES     (SUMMARY_LABEL_BYTES + 64u)
#define WIRE_REST_BYTES      4096u /* the executor's status and the message itself */

static_assert(GROUPS_TRACKED_MAX > TW_FOLLOWERS_PER_MASTER_MAX, "one event is told apart");

const uint64_t tw_fixed_bucket_ns[TW_FIXED_BUCKETS] = {
    UINT64_C(10000),      UINT64_C(20000),      UINT64_C(50000),       UINT64_C(100000),
    UINT64_C(200000),     UINT64_C(500000),     UINT64_C(1000000),     UINT64_C(2000000),
    UINT64_C(5000000),    UINT64_C(10000000),   UINT64_C(20000000),    UINT64_C(50000000),
    UINT64_C(100000000),  UINT64_C(200000000),  UINT64_C(500000000),   UINT64_C(1000000000),
    UINT64_C(2000000000), UINT64_C(5000000000), UINT64_C(10000000000),
};

uint32_t fixed_step(uint64_t value_ns)
{
    uint32_t step = 0;
    while (step < TW_FIXED_BUCKETS && value_ns >= tw_fixed_bucket_ns[step])
        step++;
    return step;
}

uint32_t threads_range(uint32_t threads)
{
    return threads <= 1u ? threads : 33u - (uint32_t)__builtin_clz(threads - 1u);
}

static void threads_range_label(uint32_t range, char label[SUMMARY_LABEL_BYTES])
{
    if (range <= 2u)
        snprintf(label, SUMMARY_LABEL_BYTES, "%u", range);
    else
        snprintf(label, SUMMARY_LABEL_BYTES, "%u-%u", (1u << (range - 2u)) + 1u,
                 1u << (range - 1u));
}

void burst_label(const struct burst *burst, char label[SUMMARY_LABEL_BYTES])
{
    char text[TW_TIME_TEXT_BYTES];
    tw_time_text(burst->first_wall_ns, text);
    snprintf(label, SUMMARY_LABEL_BYTES, "%.19sZ", text); /* the second, without what follows */
}

static void group_free(struct group *group)
{
    if (group == NULL)
        return;
    for (size_t i = 0; i < TW_SUMMARY_TIMES; i++)
        tw_histogram_clear(&group->shown.times[i]);
    free(group);
}

void tw_summary_free(struct tw_summary *summary)
{
    if (summary == NULL)
        return;
    for (size_t i = 0; i < summary->n_list; i++)
        if (summary->list[i] != summary->other)
            group_free(summary->list[i]);
    group_free(summary->other);
    free(summary->list);
    table_clear(&summary->groups);
    free(summary);
}

static struct group *group_new(const void *key, size_t key_size, const char *label)
{
    struct group *group = calloc(1, sizeof *group + key_size);
    if (group == NULL)
        return NULL;
    memcpy(group->key, key, key_size);
    snprintf(group->label, sizeof group->label, "%s", label);
    group->shown.key = group->label;
    group->entry = (struct table_entry){.hash = table_hash(group->key, key_size),
                                        .key = group->key,
                                        .key_size = (uint32_t)key_size};
    return group;
}

static bool list_reserve(struct tw_summary *summary)
{
    if (summary->n_list < summary->list_capacity)
        return true;
    size_t capacity = summary->list_capacity == 0 ? 8u : summary->list_capacity * 2u;
    struct group **list = realloc(summary->list, capacity * sizeof(struct group *));
    if (list == NULL)
        return false;
    summary->list = list;
    summary->list_capacity = capacity;
    return true;
}

struct group *summary_other(struct tw_summary *summary)
{
    if (summary->other == NULL)
        summary->other = group_new("", 0, "other");
    return summary->other;
}

/* The group of this key, made with the label when it is new. */
static struct group *group_of_key(struct tw_summary *summary, const void *key, size_t key_size,
                                  const char *label)
{
    struct table_entry *entry =
        table_find(&summary->groups, table_hash(key, key_size), key, (uint32_t)key_size);
    if (entry != NULL)
        return (struct group *)((char *)entry - offsetof(struct group, entry));
    if (summary->n_list == GROUPS_TRACKED_MAX)
        return summary_other(summary);

    struct group *group = group_new(key, key_size, label);
    if (group == NULL || !list_reserve(summary) || !table_insert(&summary->groups, &group->entry)) {
        group_free(group);
        return NULL;
    }
    summary->list[summary->n_list++] = group;
    return group;
}

struct group *summary_group(struct tw_summary *summary, const struct summary_subject *subject)
{
    char label[SUMMARY_LABEL_BYTES];
    const char *name = "";

    switch (summary->group_by) {
    case TW_GROUP_BY_NONE:
        break;
    case TW_GROUP_BY_THREADS:
        threads_range_label(subject->threads_range, label);
        name = label;
        break;
    case TW_GROUP_BY_MASTER:
        name = subject->master_id;
        break;
    case TW_GROUP_BY_FOLLOWER:
        name = subject->follower_id;
        break;
    case TW_GROUP_BY_ADAPTER:
        name = subject->adapter;
        break;
    case TW_GROUP_BY_BURST: /* by its number: the label of its first second may still change */
        burst_label(subject->burst, label);
        return group_of_key(summary, &subject->burst->id, sizeof subject->burst->id, label);
    }
    return group_of_key(summary, name, strlen(name), name);
}

struct tw_summary *summary_new(enum tw_group_by group_by, int64_t start_wall_ns)
{
    struct tw_summary *summary = calloc(1, sizeof *summary);
    if (summary == NULL)
        return NULL;
    summary->group_by = group_by;
    summary->start_wall_ns = start_wall_ns;
    if (group_by == TW_GROUP_BY_NONE && group_of_key(summary, "", 0, "") == NULL) {
        tw_summary_free(summary);
        return NULL;
    }
    return summary;
}

bool group_add(struct group *group, const struct summary_times *times)
{
    bool fits = true;
    group->copies++;
    if (times->is_held)
        group->shown.held++;
    for (size_t i = 0; i < TW_SUMMARY_TIMES; i++)
        if (!times->is_held || (i != TW_OWN_TIME && i != TW_PATH_TIME))
            fits &= tw_histogram_add(&group->shown.times[i], times->ns[i]);
    return fits;
}

static bool group_merge(struct group *group, const struct group *from)
{
    bool fits = true;
    group->copies += from->copies;
    group->shown.held += from->shown.held;
    for (size_t i = 0; i < TW_SUMMARY_TIMES; i++)
        fits &= tw_histogram_merge(&group->shown.times[i], &from->shown.times[i]);
    return fits;
}

bool summary_merge(struct tw_summary *summary, const struct tw_summary *from)
{
    bool fits = true;
    for (size_t i = 0; i < from->n_list; i++) {
        const struct group *theirs = from->list[i];
        struct group *ours =
            group_of_key(summary, theirs->key, theirs->entry.key_size, theirs->label);
        fits &= ours != NULL && group_merge(ours, theirs);
    }
    if (from->other != NULL) {
        struct group *other = summary_other(summary);
        fits &= other != NULL && group_merge(other, from->other);
    }
    return fits;
}

/* The largest first; equal ones by name, so that two readings agree. */
static int compare_groups(const void *a, const void *b)
{
    const struct group *x = *(struct group *const *)a, *y = *(struct group *const *)b;
    if (x->copies != y->copies)
        return x->copies < y->copies ? 1 : -1;
    return strcmp(x->label, y->label);
}

static size_t wire_bytes(const struct group *group)
{
    size_t bytes = WIRE_GROUP_BYTES;
    for (size_t i = 0; i < TW_SUMMARY_TIMES; i++)
        bytes += WIRE_HISTOGRAM_BYTES + (size_t)group->shown.times[i].n_buckets * WIRE_BUCKET_BYTES;
    return bytes;
}

/* How many of the sorted groups one answer can carry beside "other", which at worst has every
 * bucket that is left out. */
static size_t shown_count(const struct tw_summary *summary)
{
    const size_t room = TW_ANSWER_BYTES_MAX - WIRE_REST_BYTES -
                        TW_SUMMARY_TIMES * ((size_t)TW_HISTOGRAM_BUCKETS * WIRE_BUCKET_BYTES +
                                            WIRE_HISTOGRAM_BYTES);
    size_t shown = 0, bytes = 0;
    while (shown < summary->n_list && shown < TW_SUMMARY_GROUPS_MAX) {
        bytes += wire_bytes(summary->list[shown]);
        if (bytes > room)
            break;
        shown++;
    }
    return shown;
}

tw_status tw_summary_finish(struct tw_summary *summary)
{
    if (summary->n_list > 1)
        qsort(summary->list, summary->n_list, sizeof(struct group *), compare_groups);

    size_t shown = shown_count(summary);
    /* Groups that never had a place of their own are at least one. */
    uint32_t unlisted = summary->other != NULL ? 1u : 0u;
    if (shown < summary->n_list && summary_other(summary) == NULL)
        return TW_NO_MEMORY;
    if (summary->other != NULL && !list_reserve(summary))
        return TW_NO_MEMORY;

    summary->omitted = (uint32_t)(summary->n_list - shown) + unlisted;
    for (size_t i = shown; i < summary->n_list; i++) {
        if (!group_merge(summary->other, summary->list[i]))
            return TW_NO_MEMORY;
        group_free(summary->list[i]);
        summary->list[i] = NULL;
    }
    summary->n_list = shown;
    table_clear(&summary->groups); /* it names groups that are gone; nobody asks by key any more */
    if (summary->other != NULL)
        summary->list[summary->n_list++] = summary->other;
    return TW_OK;
}

struct tw_summary_span tw_summary_span(const struct tw_summary *summary)
{
    return (struct tw_summary_span){.start_wall_ns = summary->start_wall_ns,
                                    .end_wall_ns = summary->end_wall_ns,
                                    .groups = summary->n_list,
                                    .groups_omitted = summary->omitted};
}

const struct tw_summary_group *tw_summary_group_at(const struct tw_summary *summary, size_t index)
{
    assert(index < summary->n_list);
    return &summary->list[index]->shown;
}
