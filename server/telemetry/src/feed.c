/* One reader's samples: a queue with one writer and one reader, and a count of what had no place. */
#include "sampler_inside.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

#define ENTRIES       TW_STREAM_QUEUE_ENTRIES
#define ENTRIES_BYTES (ENTRIES * sizeof(struct tw_feed_entry))

struct tw_feed {
    /* Set by tw_feed_open(), read-only afterwards. */
    struct tw_sampler *sampler;
    struct tw_sample_filter filter;
    struct tw_reader reader;
    struct tw_feed_entry *entries;
    struct command opening, closing;

    /* The sampler's. */
    alignas(64) struct tw_feed *next;
    uint64_t filled; /* of tail, before it is published */
    uint64_t passed; /* samples that passed the filter */

    /* The sampler writes, the reader reads; in this order, see tw_feed_peek(). */
    alignas(64) atomic_ullong tail; /* entries ever queued */
    atomic_ullong offered;          /* samples ever offered: queued and left out */
    atomic_bool is_open;

    /* The reader writes, the sampler reads. */
    alignas(64) atomic_ullong head; /* entries ever taken */
    atomic_uint armed;              /* wake when so many are queued; 0 = do not */

    /* The reader's. */
    alignas(64) uint64_t taken; /* of head */
    uint64_t expected_id;
};

struct tw_feed *feed_next(const struct tw_feed *feed)
{
    return feed->next;
}

static struct tw_feed *feed_of_opening(struct command *command)
{
    return (struct tw_feed *)((char *)command - offsetof(struct tw_feed, opening));
}

static struct tw_feed *feed_of_closing(struct command *command)
{
    return (struct tw_feed *)((char *)command - offsetof(struct tw_feed, closing));
}

static void feed_free(struct tw_feed *feed)
{
    if (feed->entries != NULL)
        munmap(feed->entries, ENTRIES_BYTES);
    free(feed);
}

static void feed_begin(struct tw_sampler *sampler, struct command *command)
{
    struct tw_feed *feed = feed_of_opening(command);
    feed->next = sampler->feeds;
    sampler->feeds = feed;
    atomic_store(&feed->is_open, true);
    feed->reader.wake(feed->reader.context);
}

/* The reader has let go: what is queued is ours again. */
static void feed_end(struct tw_sampler *sampler, struct command *command)
{
    struct tw_feed *feed = feed_of_closing(command);
    struct tw_feed **link = &sampler->feeds;
    while (*link != feed)
        link = &(*link)->next;
    *link = feed->next;

    for (uint64_t at = atomic_load(&feed->head); at != feed->filled; at++)
        sampler->subjects.release(feed->entries[at % ENTRIES].sample.subject);
    feed->reader.gone(feed->reader.context);
    feed_free(feed);
    atomic_fetch_sub(&sampler->readers, 1);
}

tw_status tw_feed_open(struct tw_sampler *sampler, const struct tw_sample_filter *filter,
                       const struct tw_reader *reader, struct tw_feed **ret_feed)
{
    if (!place_take(&sampler->readers, READERS_MAX))
        return TW_LIMIT;

    struct tw_feed *feed = aligned_alloc(alignof(struct tw_feed), sizeof *feed);
    /* Mapped rather than allocated: pages that a quick reader never needs are never touched. */
    void *entries =
        mmap(NULL, ENTRIES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (feed == NULL || entries == MAP_FAILED) {
        if (entries != MAP_FAILED)
            munmap(entries, ENTRIES_BYTES);
        free(feed);
        atomic_fetch_sub(&sampler->readers, 1);
        return TW_NO_MEMORY;
    }

    *feed = (struct tw_feed){
        .sampler = sampler,
        .filter = *filter,
        .reader = *reader,
        .entries = entries,
        .opening = {.run = feed_begin},
        .closing = {.run = feed_end},
    };
    *ret_feed = feed;
    sampler_post(sampler, &feed->opening);
    return TW_OK;
}

bool tw_feed_is_open(const struct tw_feed *feed)
{
    return atomic_load(&feed->is_open);
}

void tw_feed_close(struct tw_feed *feed)
{
    if (feed != NULL)
        sampler_post(feed->sampler, &feed->closing);
}

void feed_offer(struct tw_feed *feed, const struct reading *reading)
{
    if (!filter_matches(&feed->filter, reading))
        return;

    uint64_t id = feed->passed++;
    /* Pairs with the release in tw_feed_advance(): the entry has been read. */
    uint64_t head = atomic_load_explicit(&feed->head, memory_order_acquire);
    if (feed->filled - head == ENTRIES) {
        feed->sampler->totals.left_out++;
        return;
    }
    feed->sampler->subjects.hold(reading->sample.subject);
    feed->entries[feed->filled++ % ENTRIES] =
        (struct tw_feed_entry){.sample = reading->sample, .id = id};
}

/* The stores and the read of `armed` are sequentially consistent, as is the reverse in
 * tw_feed_arm(): either we see that the reader asked, or it sees what we stored. */
void feed_publish(struct tw_feed *feed)
{
    if (feed->passed == atomic_load_explicit(&feed->offered, memory_order_relaxed))
        return;

    atomic_store(&feed->tail, feed->filled);
    atomic_store(&feed->offered, feed->passed);
    uint32_t wanted = atomic_load(&feed->armed);
    if (wanted == 0 || feed->filled - atomic_load(&feed->head) < wanted)
        return;
    atomic_store(&feed->armed, 0);
    feed->reader.wake(feed->reader.context);
}

/* How many of the first `queued` entries follow each other without a gap. Ids only rise, so a place
 * that is where it belongs has no gap before it. */
static uint64_t run_length(const struct tw_feed *feed, uint64_t queued)
{
    uint64_t low = 1, high = queued;
    while (low < high) {
        uint64_t middle = high - (high - low) / 2u;
        if (tw_feed_at(feed, middle - 1u)->id == feed->expected_id + middle - 1u)
            low = middle;
        else
            high = middle - 1u;
    }
    return low;
}

struct tw_feed_found tw_feed_peek(struct tw_feed *feed, uint32_t limit)
{
    /* offered before tail: an id below it that is not queued by then was left out. */
    uint64_t offered = atomic_load(&feed->offered);
    uint64_t queued = atomic_load(&feed->tail) - feed->taken;
    struct tw_feed_found found = {.first_id = feed->expected_id};

    if (queued == 0) {
        found.count = offered - feed->expected_id;
        found.next = found.count == 0 ? TW_FEED_EMPTY : TW_FEED_GAP;
        return found;
    }

    uint64_t first_id = tw_feed_at(feed, 0)->id;
    if (first_id != feed->expected_id) {
        found.next = TW_FEED_GAP;
        found.count = first_id - feed->expected_id;
        found.is_more = true;
        return found;
    }
    found.next = TW_FEED_SAMPLES;
    found.count = run_length(feed, queued < limit ? queued : limit);
    found.is_more = queued > found.count || offered > feed->expected_id + found.count;
    return found;
}

const struct tw_feed_entry *tw_feed_at(const struct tw_feed *feed, uint64_t index)
{
    return &feed->entries[(feed->taken + index) % ENTRIES];
}

void tw_feed_advance(struct tw_feed *feed, const struct tw_feed_found *found)
{
    feed->expected_id += found->count;
    if (found->next != TW_FEED_SAMPLES)
        return;

    for (uint64_t i = 0; i < found->count; i++)
        feed->sampler->subjects.release(tw_feed_at(feed, i)->sample.subject);
    feed->taken += found->count;
    atomic_store_explicit(&feed->head, feed->taken, memory_order_release);
}

bool tw_feed_arm(struct tw_feed *feed, uint32_t samples)
{
    assert(samples <= ENTRIES);
    atomic_store(&feed->armed, samples);
    if (samples == 0)
        return false;

    uint64_t offered = atomic_load(&feed->offered);
    uint64_t queued = atomic_load(&feed->tail) - feed->taken;
    bool is_gap = queued == 0 && offered != feed->expected_id;
    if (queued < samples && !is_gap)
        return false;
    atomic_store(&feed->armed, 0);
    return true;
}

void tw_feed_describe(const struct tw_feed *feed, const struct tw_feed_entry *entry,
                      struct tw_sample_facts *ret)
{
    feed->sampler->subjects.describe(entry->sample.subject, ret);
}
