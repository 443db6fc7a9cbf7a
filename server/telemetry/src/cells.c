#include "cells.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { CELL_HELD = 1, CELL_WARMING_UP = 2, CELL_UNLISTED = 4 };

/* What the key begins with; the names follow, each with its NUL. */
struct cell_kind {
    uint8_t flags, threads_range, own_step;
};

#define CELL_KEY_BYTES (sizeof(struct cell_kind) + 3u * TW_ID_BYTES)

struct cell {
    struct table_entry entry;
    struct cell_kind kind;
    const char *master_id, *follower_id, *adapter; /* point into key */
    uint64_t copies;
    struct tw_histogram times[TW_SUMMARY_TIMES]; /* of held ones only the last two */
    uint8_t key[];
};

static struct cell *cell_of(struct table_entry *entry)
{
    return (struct cell *)((char *)entry - offsetof(struct cell, entry));
}

static uint32_t key_append(uint8_t *key, uint32_t used, const char *name)
{
    size_t size = strnlen(name, TW_ID_CHARS_MAX);
    memcpy(key + used, name, size);
    key[used + size] = 0;
    return used + (uint32_t)size + 1u;
}

static uint32_t key_make(uint8_t key[CELL_KEY_BYTES], const struct cell_kind *kind,
                         const struct summary_subject *subject)
{
    bool is_listed = (kind->flags & CELL_UNLISTED) == 0;
    memcpy(key, kind, sizeof *kind);
    uint32_t used = sizeof *kind;
    used = key_append(key, used, is_listed ? subject->master_id : "");
    used = key_append(key, used, is_listed ? subject->follower_id : "");
    return key_append(key, used, is_listed ? subject->adapter : "");
}

static struct cell *cell_new(struct cells *cells, uint64_t hash, const uint8_t *key, uint32_t size)
{
    struct cell *cell = calloc(1, sizeof *cell + size);
    if (cell == NULL)
        return NULL;
    memcpy(cell->key, key, size);
    memcpy(&cell->kind, key, sizeof cell->kind);
    cell->master_id = (const char *)cell->key + sizeof cell->kind;
    cell->follower_id = cell->master_id + strlen(cell->master_id) + 1u;
    cell->adapter = cell->follower_id + strlen(cell->follower_id) + 1u;
    cell->entry = (struct table_entry){.hash = hash, .key = cell->key, .key_size = size};
    if (!table_insert(&cells->table, &cell->entry)) {
        free(cell);
        return NULL;
    }
    return cell;
}

static struct cell *cell_find(struct cells *cells, struct cell_kind kind,
                              const struct summary_subject *subject)
{
    uint8_t key[CELL_KEY_BYTES];
    uint32_t size = key_make(key, &kind, subject);
    uint64_t hash = table_hash(key, size);
    struct table_entry *entry = table_find(&cells->table, hash, key, size);
    if (entry != NULL)
        return cell_of(entry);
    if (cells->table.count < CELLS_MAX || (kind.flags & CELL_UNLISTED) != 0)
        return cell_new(cells, hash, key, size);

    /* Without names there are at most as many cells as kinds: a few hundred. */
    kind.flags |= CELL_UNLISTED;
    return cell_find(cells, kind, subject);
}

bool cells_add(struct cells *cells, const struct tw_sample *sample,
               const struct summary_subject *subject, const struct summary_times *times)
{
    bool is_warming_up = (sample->flags & TW_SAMPLE_WARMING_UP) != 0;
    struct cell_kind kind = {
        .flags =
            (uint8_t)((times->is_held ? CELL_HELD : 0) | (is_warming_up ? CELL_WARMING_UP : 0)),
        .threads_range = (uint8_t)subject->threads_range,
        .own_step = (uint8_t)fixed_step(times->ns[TW_OWN_TIME]),
    };
    struct cell *cell = cell_find(cells, kind, subject);
    if (cell == NULL)
        return false;

    bool fits = true;
    cell->copies++;
    if ((cell->kind.flags & CELL_UNLISTED) != 0)
        cells->unlisted++;
    for (size_t i = times->is_held ? TW_QUEUE_WAIT : TW_OWN_TIME; i < TW_SUMMARY_TIMES; i++)
        fits &= tw_histogram_add(&cell->times[i], times->ns[i]);
    return fits;
}
static_assert(TW_OWN_TIME < TW_QUEUE_WAIT && TW_PATH_TIME < TW_QUEUE_WAIT &&
                  TW_QUEUE_WAIT < TW_BROKER_TIME,
              "held samples count in the last two");

static bool name_matches(const char *wanted, const struct cell *cell, const char *name)
{
    if (wanted[0] == '\0')
        return true;
    return (cell->kind.flags & CELL_UNLISTED) == 0 && strcmp(wanted, name) == 0;
}

/* Whether the filter means this cell, or part of it: *ret_min_ns is where own time begins then. */
static bool cell_matches(const struct cell *cell, const struct tw_sample_filter *filter,
                         uint64_t *ret_min_ns)
{
    uint32_t step = cell->kind.own_step;

    if (!name_matches(filter->master_id, cell, cell->master_id) ||
        !name_matches(filter->follower_id, cell, cell->follower_id) ||
        (filter->exclude_warm_up && (cell->kind.flags & CELL_WARMING_UP) != 0) ||
        (filter->exclude_held && (cell->kind.flags & CELL_HELD) != 0) ||
        step < fixed_step(filter->min_own_time_ns))
        return false;

    bool is_whole = step > 0 && tw_fixed_bucket_ns[step - 1u] >= filter->min_own_time_ns;
    *ret_min_ns = is_whole ? 0 : filter->min_own_time_ns;
    return true;
}

static bool cell_collect(const struct cell *cell, uint64_t min_ns, struct tw_summary *summary)
{
    const struct tw_histogram *own = &cell->times[TW_OWN_TIME];
    bool is_held = (cell->kind.flags & CELL_HELD) != 0;
    if (!is_held && (own->count == 0 || own->max_ns < min_ns))
        return true;

    const struct summary_subject subject = {
        .master_id = cell->master_id,
        .follower_id = cell->follower_id,
        .adapter = cell->adapter,
        .threads_range = cell->kind.threads_range,
    };
    bool has_names = (cell->kind.flags & CELL_UNLISTED) == 0 ||
                     summary->group_by == TW_GROUP_BY_NONE ||
                     summary->group_by == TW_GROUP_BY_THREADS;
    struct group *group = has_names ? summary_group(summary, &subject) : summary_other(summary);
    if (group == NULL)
        return false;

    bool fits = tw_histogram_merge_from(&group->shown.times[TW_OWN_TIME], own, min_ns);
    for (size_t i = TW_OWN_TIME + 1u; i < TW_SUMMARY_TIMES; i++)
        fits &= tw_histogram_merge(&group->shown.times[i], &cell->times[i]);
    group->copies += cell->copies;
    if (is_held)
        group->shown.held += cell->copies;
    return fits;
}

bool cells_collect(const struct cells *cells, const struct tw_sample_filter *filter,
                   struct tw_summary *summary)
{
    assert(summary->group_by != TW_GROUP_BY_BURST);
    for (uint32_t i = 0; i < cells->table.capacity; i++) {
        struct table_entry *entry = cells->table.slots[i];
        uint64_t min_ns;
        if (entry != NULL && cell_matches(cell_of(entry), filter, &min_ns) &&
            !cell_collect(cell_of(entry), min_ns, summary))
            return false;
    }
    return true;
}

void cells_clear(struct cells *cells)
{
    for (uint32_t i = 0; i < cells->table.capacity; i++) {
        if (cells->table.slots[i] == NULL)
            continue;
        struct cell *cell = cell_of(cells->table.slots[i]);
        for (size_t j = 0; j < TW_SUMMARY_TIMES; j++)
            tw_histogram_clear(&cell->times[j]);
        free(cell);
    }
    table_clear(&cells->table);
}
