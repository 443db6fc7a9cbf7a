/* One reader's summaries: the window that is open belongs to the sampler, the ones that have ended lie
 * in a slot for whoever comes first - the reader, or the next window, which merges with them. */
#include "sampler_inside.h"

#include <tradewake/base/clock.h>

#include <stdlib.h>
#include <string.h>

struct tw_windows {
    /* Set by tw_windows_open(), read-only afterwards. */
    struct tw_sampler *sampler;
    struct tw_sample_filter filter;
    enum tw_group_by group_by;
    int64_t window_ns;
    struct tw_reader reader;
    struct command opening, closing;

    /* The sampler's. */
    struct tw_windows *next;
    struct tw_summary *current;
    int64_t ends_mono_ns;

    /* Taken by exchange: whoever gets the pointer owns the summary. */
    _Atomic(struct tw_summary *) ended;
    atomic_bool is_open;
};

struct tw_windows *windows_next(const struct tw_windows *windows)
{
    return windows->next;
}

static void windows_free(struct tw_windows *windows)
{
    tw_summary_free(windows->current);
    tw_summary_free(atomic_load(&windows->ended));
    free(windows);
}

/* The window that is open now ends at the next whole multiple by the wall clock; asked anew each
 * time, so that a clock that was set costs one odd window. after_wall_ns: the end of the window
 * before, when the clock shows a moment earlier only because it runs a little slower than ours. */
static void window_align(struct tw_windows *windows, int64_t after_wall_ns)
{
    int64_t now_wall_ns = tw_wall_ns();
    int64_t start_wall_ns = now_wall_ns / windows->window_ns * windows->window_ns;
    if (now_wall_ns < after_wall_ns && after_wall_ns - now_wall_ns < windows->window_ns / 2)
        start_wall_ns = after_wall_ns;

    windows->current->start_wall_ns = start_wall_ns;
    windows->current->end_wall_ns = start_wall_ns + windows->window_ns;
    windows->ends_mono_ns = tw_mono_ns() + windows->current->end_wall_ns - now_wall_ns;
}

static void windows_begin(struct tw_sampler *sampler, struct command *command)
{
    struct tw_windows *windows =
        (struct tw_windows *)((char *)command - offsetof(struct tw_windows, opening));
    window_align(windows, 0);
    windows->next = sampler->windows;
    sampler->windows = windows;
    atomic_store(&windows->is_open, true);
    windows->reader.wake(windows->reader.context);
}

static void windows_finish(struct tw_sampler *sampler, struct command *command)
{
    struct tw_windows *windows =
        (struct tw_windows *)((char *)command - offsetof(struct tw_windows, closing));
    struct tw_windows **link = &sampler->windows;
    while (*link != windows)
        link = &(*link)->next;
    *link = windows->next;

    windows->reader.gone(windows->reader.context);
    windows_free(windows);
    atomic_fetch_sub(&sampler->readers, 1);
}

tw_status tw_windows_open(struct tw_sampler *sampler, const struct tw_sample_filter *filter,
                          enum tw_group_by group_by, int64_t window_ns,
                          const struct tw_reader *reader, struct tw_windows **ret_windows)
{
    if (!place_take(&sampler->readers, READERS_MAX))
        return TW_LIMIT;

    struct tw_windows *windows = calloc(1, sizeof *windows);
    struct tw_summary *first = summary_new(group_by, 0);
    if (windows == NULL || first == NULL) {
        free(windows);
        tw_summary_free(first);
        atomic_fetch_sub(&sampler->readers, 1);
        return TW_NO_MEMORY;
    }

    windows->sampler = sampler;
    windows->filter = *filter;
    windows->group_by = group_by;
    windows->window_ns = window_ns;
    windows->reader = *reader;
    windows->opening.run = windows_begin;
    windows->closing.run = windows_finish;
    windows->current = first;
    *ret_windows = windows;
    sampler_post(sampler, &windows->opening);
    return TW_OK;
}

bool tw_windows_is_open(const struct tw_windows *windows)
{
    return atomic_load(&windows->is_open);
}

void tw_windows_close(struct tw_windows *windows)
{
    if (windows != NULL)
        sampler_post(windows->sampler, &windows->closing);
}

struct tw_summary *tw_windows_take(struct tw_windows *windows)
{
    return atomic_exchange(&windows->ended, NULL);
}

bool windows_add(struct tw_windows *windows, const struct reading *reading)
{
    if (!filter_matches(&windows->filter, reading))
        return true;

    struct summary_subject subject = reading->subject;
    if (windows->group_by == TW_GROUP_BY_BURST)
        subject.burst =
            burst_of(&windows->sampler->bursts,
                     reading->facts.received_wall_ns + (int64_t)reading->sample.journaled_ns);
    struct group *group = summary_group(windows->current, &subject);
    return group != NULL && group_add(group, &reading->times);
}

/* From now on a burst is called by the second that its readers were told. */
static void bursts_show(struct tw_windows *windows)
{
    for (size_t i = 0; i < windows->current->n_list; i++) {
        struct group *group = windows->current->list[i];
        uint64_t id;
        memcpy(&id, group->key, sizeof id);
        struct burst *burst = burst_by_id(&windows->sampler->bursts, id);
        if (burst == NULL)
            continue;
        burst->is_shown = true;
        burst_label(burst, group->label);
    }
}

static void window_end(struct tw_windows *windows)
{
    struct tw_summary *fresh = summary_new(windows->group_by, 0);
    if (fresh == NULL) { /* a longer window rather than none */
        windows->ends_mono_ns += windows->window_ns;
        windows->current->end_wall_ns += windows->window_ns;
        return;
    }
    if (windows->group_by == TW_GROUP_BY_BURST)
        bursts_show(windows);

    struct tw_summary *ended = windows->current;
    int64_t end_wall_ns = ended->end_wall_ns;
    struct tw_summary *before = atomic_exchange(&windows->ended, NULL);
    if (before != NULL) { /* the reader is slow: one coarser window for it */
        if (!summary_merge(before, ended))
            atomic_fetch_add_explicit(&windows->sampler->unread, 1, memory_order_relaxed);
        before->end_wall_ns = end_wall_ns;
        tw_summary_free(ended);
        ended = before;
    }
    atomic_store(&windows->ended, ended);
    windows->current = fresh;
    window_align(windows, end_wall_ns);
    windows->reader.wake(windows->reader.context);
}

int64_t windows_end(struct tw_windows *windows, int64_t now_mono_ns)
{
    if (now_mono_ns >= windows->ends_mono_ns)
        window_end(windows);
    return windows->ends_mono_ns;
}

/* ---- Bursts. ---- */

struct burst *burst_by_id(struct bursts *bursts, uint64_t id)
{
    struct burst *burst = &bursts->list[id % BURSTS_REMEMBERED];
    return id != 0 && burst->id == id ? burst : NULL;
}

static struct burst *burst_new(struct bursts *bursts, int64_t wall_ns)
{
    uint64_t id = ++bursts->next_id;
    struct burst *burst = &bursts->list[id % BURSTS_REMEMBERED];
    *burst = (struct burst){.id = id, .first_wall_ns = wall_ns, .last_wall_ns = wall_ns};
    return burst;
}

/* Samples come in the order of the brokers' answers: a late one may belong to an older burst, or be
 * older than the first of its own. It moves the first second as long as nobody has been told. */
struct burst *burst_of(struct bursts *bursts, int64_t handed_over_wall_ns)
{
    struct burst *begins_later = NULL;

    for (uint64_t back = 0; back < BURSTS_REMEMBERED && back < bursts->next_id; back++) {
        struct burst *burst = burst_by_id(bursts, bursts->next_id - back);
        if (burst == NULL)
            continue;
        if (handed_over_wall_ns < burst->first_wall_ns) {
            if (handed_over_wall_ns >= burst->last_wall_ns - TW_NS_PER_S)
                begins_later = burst; /* unless there is one that has it inside */
        } else if (handed_over_wall_ns <= burst->first_wall_ns + TW_NS_PER_S) {
            if (handed_over_wall_ns > burst->last_wall_ns)
                burst->last_wall_ns = handed_over_wall_ns;
            return burst;
        }
    }

    if (begins_later == NULL)
        return burst_new(bursts, handed_over_wall_ns);
    if (!begins_later->is_shown)
        begins_later->first_wall_ns = handed_over_wall_ns;
    return begins_later;
}
