#include "lane.h"

#include <tradewake/base/clock.h>

#include <assert.h>

static bool has_work(const struct tw_lane *lane)
{
    return lane->slots_of_work > 0 || lane->ready[TW_JOB_URGENT].count > 0 ||
           lane->ready[TW_JOB_NORMAL].count > 0;
}

/* Polls leave the last slot free; a lane that has one slot alone would never be read then, so there
 * the one slot will do. What is parked, or waits behind a parked job, is not work: it may be the
 * poll's answer that it waits for. */
static bool may_start(const struct tw_lane *lane, enum tw_job_class job_class)
{
    if (lane->slots_taken >= lane->max_parallel)
        return false;
    if (atomic_load_explicit(&lane->is_wedged, memory_order_relaxed) &&
        (lane->probe != NULL || atomic_load_explicit(&lane->is_blocked, memory_order_relaxed)))
        return false;
    if (job_class != TW_JOB_POLL)
        return true;
    return !has_work(lane) &&
           (lane->slots_taken + 1 < lane->max_parallel || lane->slots_taken == 0);
}

static void admit(struct tw_lane *lane, struct tw_job *job)
{
    lane->slots_taken++;
    lane->slots_of_work += job->job_class != TW_JOB_POLL;
    if (atomic_load_explicit(&lane->is_wedged, memory_order_relaxed))
        lane->probe = job;
    job_state_set(job, JOB_TRANSIT);
}

static void slot_release(struct tw_lane *lane, const struct tw_job *job)
{
    assert(lane->slots_taken > 0);
    if (lane->probe == job)
        lane->probe = NULL;
    lane->slots_taken--;
    lane->slots_of_work -= job->job_class != TW_JOB_POLL;
}

static void make_ready(struct tw_lane *lane, struct tw_job *job)
{
    job_state_set(job, JOB_READY);
    job_list_append(&lane->ready[job->job_class], job);
    if (job->job_class == TW_JOB_POLL)
        return;
    uint32_t waiting = atomic_load_explicit(&lane->waiting, memory_order_relaxed);
    atomic_store_explicit(&lane->waiting, waiting + 1, memory_order_relaxed);
    if (waiting == 0)
        pace_begin(&lane->pace, tw_mono_ns());
}

/* One of those in ready is there no more. Returns how many are left. */
static uint32_t ready_less(struct tw_lane *lane)
{
    uint32_t waiting = atomic_load_explicit(&lane->waiting, memory_order_relaxed) - 1;
    atomic_store_explicit(&lane->waiting, waiting, memory_order_relaxed);
    return waiting;
}

/* ---- the list of the key's owner: who waits for the key, oldest first ---- */

static void wait_for_key(struct tw_job *owner, struct tw_job *job)
{
    job_state_set(job, JOB_HELD);
    job->next = NULL;
    job->previous = owner->last_of_key;
    if (owner->last_of_key != NULL)
        owner->last_of_key->next = job;
    else
        owner->first_of_key = job;
    owner->last_of_key = job;
}

static void stop_waiting_for_key(struct tw_lane *lane, struct tw_job *job)
{
    struct tw_job *owner = *keys_slot(&lane->keys, job->key);
    if (job->previous != NULL)
        job->previous->next = job->next;
    else
        owner->first_of_key = job->next;
    if (job->next != NULL)
        job->next->previous = job->previous;
    else
        owner->last_of_key = job->previous;
}

/* The owner gives its key up; the next in its list has it then and waits for a slot. */
static void key_release(struct tw_lane *lane, struct tw_job *owner)
{
    if (owner->key == 0)
        return;
    struct tw_job **slot = keys_slot(&lane->keys, owner->key);
    assert(*slot == owner);
    struct tw_job *heir = owner->first_of_key;
    if (heir == NULL) {
        keys_remove(slot);
        return;
    }
    heir->first_of_key = heir->next;
    heir->last_of_key = heir->next == NULL ? NULL : owner->last_of_key;
    if (heir->next != NULL)
        heir->next->previous = NULL;
    keys_replace(slot, heir);
    make_ready(lane, heir);
}

/* ---- the lane's list of everything ---- */

static void enter(struct tw_lane *lane, struct tw_job *job)
{
    job->next_in_lane = NULL;
    job->previous_in_lane = lane->last;
    if (lane->last != NULL)
        lane->last->next_in_lane = job;
    else
        lane->first = job;
    lane->last = job;
    atomic_fetch_add_explicit(&lane->jobs, 1, memory_order_relaxed);
}

static void leave(struct tw_lane *lane, struct tw_job *job)
{
    if (job->previous_in_lane != NULL)
        job->previous_in_lane->next_in_lane = job->next_in_lane;
    else
        lane->first = job->next_in_lane;
    if (job->next_in_lane != NULL)
        job->next_in_lane->previous_in_lane = job->previous_in_lane;
    else
        lane->last = job->previous_in_lane;
    job_state_set(job, JOB_AWAY);
    /* Release: who reads 0 sees everything that was done to the jobs. */
    atomic_fetch_sub_explicit(&lane->jobs, 1, memory_order_release);
}

bool lane_place(struct tw_lane *lane, struct tw_job *job)
{
    enter(lane, job);
    job->held_ns = 0;
    job->held_from_mono_ns = job->submitted_mono_ns;
    job->first_of_key = job->last_of_key = NULL;

    if (job->key != 0) {
        struct tw_job **slot = keys_slot(&lane->keys, job->key);
        if (*slot != NULL) {
            wait_for_key(*slot, job);
            return false;
        }
        keys_insert(slot, job);
    }
    if (!may_start(lane, job->job_class)) {
        make_ready(lane, job);
        return false;
    }
    admit(lane, job);
    return true;
}

struct tw_job *lane_admit_next(struct tw_lane *lane)
{
    for (int c = 0; c < CLASSES; c++) {
        if (lane->ready[c].count == 0 || !may_start(lane, (enum tw_job_class)c))
            continue;
        struct tw_job *job = job_list_take(&lane->ready[c]);
        int64_t now_ns = tw_mono_ns();
        job->held_ns += now_ns - job->held_from_mono_ns;
        if (c != TW_JOB_POLL)
            pace_taken(&lane->pace, now_ns, ready_less(lane));
        admit(lane, job);
        return job;
    }
    return NULL;
}

void lane_finish(struct tw_lane *lane, struct tw_job *job)
{
    slot_release(lane, job);
    key_release(lane, job);
    leave(lane, job);
}

void lane_park(struct tw_lane *lane, struct tw_job *job)
{
    slot_release(lane, job);
    job->held_from_mono_ns = tw_mono_ns();
    job_state_set(job, JOB_PARKED);
}

void lane_unpark(struct tw_lane *lane, struct tw_job *job)
{
    make_ready(lane, job);
}

void lane_lost(struct tw_lane *lane, struct tw_job *job)
{
    bool was_probe = lane->probe == job; /* only a wedged lane has one */
    job_state_set(job, JOB_LOST);
    lane->lost++;
    atomic_fetch_add_explicit(&lane->jobs, 1, memory_order_relaxed);
    atomic_store_explicit(&lane->is_wedged, true, memory_order_relaxed);
    if (was_probe)
        atomic_store_explicit(&lane->is_blocked, true, memory_order_relaxed);
}

void lane_heal(struct tw_lane *lane)
{
    lane->probe = NULL;
    atomic_store_explicit(&lane->is_wedged, false, memory_order_relaxed);
    atomic_store_explicit(&lane->is_blocked, false, memory_order_relaxed);
}

void lane_lost_end(struct tw_lane *lane)
{
    assert(lane->lost > 0);
    lane->lost--;
    lane_heal(lane);
    /* Release: as in leave(). */
    atomic_fetch_sub_explicit(&lane->jobs, 1, memory_order_release);
}

void lane_withdraw(struct tw_lane *lane, struct tw_job *job)
{
    switch (job_state_get(job)) {
    case JOB_HELD:
        stop_waiting_for_key(lane, job);
        break;
    case JOB_READY:
        job_list_remove(&lane->ready[job->job_class], job);
        if (job->job_class != TW_JOB_POLL && ready_less(lane) == 0)
            pace_end(&lane->pace);
        key_release(lane, job);
        break;
    case JOB_PARKED:
        key_release(lane, job);
        break;
    case JOB_QUEUED:
        slot_release(lane, job);
        key_release(lane, job);
        break;
    case JOB_AWAY:
    case JOB_TRANSIT:
    case JOB_RUNNING:
    case JOB_LOST:
        assert(!"such a job cannot be withdrawn");
    }
    leave(lane, job);
}
