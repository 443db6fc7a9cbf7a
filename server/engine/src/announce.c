/* announce.c - what the rest of the process is told about a copy that changed: counters, the change queue, whoever waits
 * for the event's copies, and the sampler. Never under a lock. */
#include "copy.h"

#include <tradewake/telemetry/counters.h>
#include <tradewake/telemetry/sample.h>

#include <stdlib.h>

void record_wake(struct tw_record *record)
{
    struct waiter *ready = NULL;
    pthread_mutex_lock(&record->mutex);
    for (struct waiter **at = &record->waiters; *at != NULL;) {
        struct waiter *waiter = *at;
        if (tw_record_pending(record, waiter->wait) > 0) {
            at = &waiter->next;
            continue;
        }
        *at = waiter->next;
        waiter->next = ready;
        ready = waiter;
    }
    pthread_mutex_unlock(&record->mutex);

    while (ready != NULL) {
        struct waiter *next = ready->next;
        ready->wake(ready->context);
        free(ready);
        ready = next;
    }
}

bool tw_record_wait(struct tw_record *record, enum tw_wait wait, void (*wake)(void *context),
                    void *context)
{
    struct waiter *waiter = malloc(sizeof *waiter);
    if (waiter == NULL)
        return false;
    *waiter = (struct waiter){wake, context, wait, NULL};
    pthread_mutex_lock(&record->mutex);
    waiter->next = record->waiters;
    record->waiters = waiter;
    pthread_mutex_unlock(&record->mutex);
    record_wake(record); /* it may have been the last one just before */
    return true;
}

void record_count_down(struct tw_record *record, atomic_uint *pending)
{
    if (atomic_fetch_sub_explicit(pending, 1, memory_order_acq_rel) == 1)
        record_wake(record);
}

/* Under the slot's mutex. One that a start finds UNKNOWN counts from its next look-up on. */
static void unknown_count(struct tw_copy *copy)
{
    bool is_unknown = copy->state == STATE(UNKNOWN);
    if (is_unknown == copy->is_unknown_counted)
        return;
    copy->is_unknown_counted = is_unknown;
    atomic_fetch_add_explicit(&copy->record->engine->copies_unknown, is_unknown ? 1 : -1, memory_order_relaxed);
}

uint64_t tw_engine_copies_unknown(const struct tw_engine *engine)
{
    int64_t n = atomic_load_explicit(&engine->copies_unknown, memory_order_relaxed);
    return n > 0 ? (uint64_t)n : 0;
}

/* What the rest of the process is told about a copy that changed; the caller holds its record. */
void copy_announce(struct tw_copy *copy)
{
    struct tw_record *record = copy->record;
    struct tw_slot *slot = copy_slot(copy);
    pthread_mutex_lock(&slot->mutex);
    bool is_over = copy_is_over(copy);
    bool counts_sent = (is_over || copy->calls > 0) && !copy->is_sent_counted;
    bool counts_done = is_over && !copy->is_done_counted;
    copy->is_sent_counted |= counts_sent;
    copy->is_done_counted |= counts_done;
    unknown_count(copy);
    bool changed = change_mark(copy);
    copy_state state = copy->state;
    tw_reason reason = copy->reason;
    pthread_mutex_unlock(&slot->mutex);

    if (counts_done)
        tw_copy_counters_add((int32_t)state, (int32_t)reason);
    if (changed)
        change_push(copy);
    if (counts_sent)
        record_count_down(record, &record->pending_sent);
    if (counts_done)
        record_count_down(record, &record->pending_done);
}

void copy_put_sample(struct tw_copy *copy)
{
    struct tw_record *record = copy->record;
    const struct tw_sample sample = {
        .subject = copy,
        .received_mono_ns = record->received_mono_ns,
        .planned_ns = copy->planned_ns,
        .journaled_ns = copy->journaled_ns,
        .started_ns = copy->started_ns,
        .called_ns = copy->called_ns,
        .answered_ns = copy->answered_ns,
        .held_ns = copy->held_ns,
        .threads_at_start = (uint16_t)copy->threads_at_start,
        .threads_created = (uint16_t)copy->threads_created,
        .queue_depth = copy->queue_depth > UINT16_MAX ? UINT16_MAX : (uint16_t)copy->queue_depth,
        .flags = copy_slot(copy)->caps.blocking ? TW_SAMPLE_BLOCKING : 0,
    };
    struct tw_sampler *sampler = atomic_load_explicit(&record->engine->sampler, memory_order_acquire);
    if (sampler == NULL)
        return;
    tw_record_hold(record);
    if (!tw_sampler_put(sampler, &sample))
        tw_record_release(record);
}
