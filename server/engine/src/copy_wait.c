/* copy_wait.c - a copy that waits for something, with its key taken: parked in its slot, or woken by the clock. */
#include "copy.h"

#include <tradewake/base/crash_point.h>

#include <stdlib.h>

struct wake_up {
    struct tw_timer timer; /* first */
    struct tw_copy *copy;  /* holds its record */
};

void copy_parked_remove(struct tw_copy *copy)
{
    struct tw_slot *slot = copy_slot(copy);
    if (!copy->is_parked)
        return;
    copy->is_parked = false;
    if (copy->parked_previous != NULL)
        copy->parked_previous->parked_next = copy->parked_next;
    else
        slot->parked_oldest = copy->parked_next;
    if (copy->parked_next != NULL)
        copy->parked_next->parked_previous = copy->parked_previous;
    else
        slot->parked_newest = copy->parked_previous;
}

static void copy_parked_add(struct tw_copy *copy)
{
    struct tw_slot *slot = copy_slot(copy);
    copy->is_parked = true;
    copy->parked_next = NULL;
    copy->parked_previous = slot->parked_newest;
    if (slot->parked_newest != NULL)
        slot->parked_newest->parked_next = copy;
    else
        slot->parked_oldest = copy;
    slot->parked_newest = copy;
}

/* The first id follows from the event, which comes again if a crash takes it, and needs no record. What the service
 * made itself does not come again under its id; and that there is a further id must be known after a crash, whatever it
 * takes with it: else the one before would be asked for, found wanting, and sent again beside it. */
bool copy_id_is_written(const struct tw_copy *copy)
{
    bool is_first = copy->order_leg == 0 && copy->id_attempt == 0 && copy->record->origin == ORIGIN(EVENT);
    return copy->record->engine->log == NULL || is_first ||
           (copy->written_leg == copy->order_leg && copy->written_attempt == copy->id_attempt);
}

void copy_written(struct tw_copy *copy, uint8_t order_leg, uint32_t id_attempt)
{
    struct tw_slot *slot = copy_slot(copy);
    pthread_mutex_lock(&slot->mutex);
    copy->written_leg = order_leg;
    copy->written_attempt = id_attempt;
    bool may_go = copy->waits_for_journal && copy_id_is_written(copy);
    if (may_go) /* the mark stays: a job that is on its way to being parked is not woken here, and looks once more there */
        copy_parked_remove(copy);
    pthread_mutex_unlock(&slot->mutex);
    if (may_go)
        (void)tw_job_unpark(&copy->job);
}

static void on_wake_up(struct tw_timer *timer)
{
    struct wake_up *wake = (struct wake_up *)timer;
    (void)tw_job_unpark(&wake->copy->job);
    tw_record_release(wake->copy->record);
    free(wake);
}

static void wake_at(struct tw_copy *copy, int64_t due_mono_ns)
{
    if (atomic_load_explicit(&copy->record->engine->is_stopping, memory_order_acquire))
        return; /* the next start goes on with it */
    struct wake_up *wake = calloc(1, sizeof *wake);
    if (wake == NULL) { /* too early is harmless, never is not */
        (void)tw_job_unpark(&copy->job);
        return;
    }
    wake->copy = copy;
    wake->timer.fire = on_wake_up;
    tw_record_hold(copy->record);
    tw_timer_set(copy->record->engine->reactor, &wake->timer, due_mono_ns);
}

static bool may_try_now(const struct tw_copy *copy)
{
    const struct tw_slot *slot = copy_slot(copy);
    if (atomic_load_explicit(&slot->engine->is_stopping, memory_order_acquire))
        return false; /* the next start goes on with it */
    if (copy->waits_for_journal)
        return copy_id_is_written(copy);
    switch ((tw_reason)copy->reason) {
    case REASON(FOLLOWER_PAUSED):
    case REASON(MONITORED):
        return slot->rules.mode == TW_MODE_ACTIVE || slot->rules.mode == TW_MODE_CLOSE_ONLY;
    case REASON(NO_CONNECTION):
        return slot->is_connected;
    case REASON(ORDER_RATE):
    case REASON(INVALID_STOPS):
        return false; /* by the clock alone */
    default:
        return false;
    }
}

/* The job is parked already. What it waits for may have come in between: look once more. */
void copy_wait_in_slot(struct tw_copy *copy)
{
    struct tw_slot *slot = copy_slot(copy);
    pthread_mutex_lock(&slot->mutex);
    bool is_over = copy_is_over(copy), is_ready = !is_over && may_try_now(copy);
    if (!is_over && !is_ready && !copy->is_parked)
        copy_parked_add(copy);
    int64_t left_ns = copy_opens(copy) && !copy->is_protecting ? copy->window_end_wall_ns - tw_wall_ns()
                                                          : INT64_MAX;
    int64_t due_ns = left_ns != INT64_MAX ? tw_mono_ns() + (left_ns > 0 ? left_ns + TW_NS_PER_MS : 0)
                                          : INT64_MAX;
    if (copy->wake_mono_ns != 0 && copy->wake_mono_ns < due_ns)
        due_ns = copy->wake_mono_ns;
    copy->wake_mono_ns = 0;
    copy->waits_for_journal &= !is_ready;
    bool hurries = copy->waits_for_journal;
    pthread_mutex_unlock(&slot->mutex);
    if (hurries)
        changes_hurry(copy->record->engine);
    if (is_ready)
        (void)tw_job_unpark(&copy->job);
    else if (!is_over && due_ns != INT64_MAX)
        wake_at(copy, due_ns);
}

/* How long a market that is closed is left alone when nobody says that it opened. */
#define MARKET_POLL_NS (5 * TW_NS_PER_S)

void copy_wake_parked(struct tw_slot *slot)
{
    enum { AT_ONCE = 64 };
    struct tw_copy *ready[AT_ONCE];
    size_t n;
    do {
        n = 0;
        pthread_mutex_lock(&slot->mutex);
        while (n < AT_ONCE && slot->parked_oldest != NULL) {
            ready[n] = slot->parked_oldest;
            tw_record_hold(ready[n]->record);
            copy_parked_remove(ready[n++]);
        }
        pthread_mutex_unlock(&slot->mutex);
        for (size_t i = 0; i < n; i++) {
            (void)tw_job_unpark(&ready[i]->job);
            tw_record_release(ready[i]->record);
        }
    } while (n == AT_ONCE);
}

/* Copies that were lost together do not ask together: with many at once one reply that is lost takes the
 * connection, and with it every answer, again and again. From half of the wait to one and a half, by what
 * the copy is and how often it asked: the same on every run. */
static int64_t apart(const struct tw_copy *copy, int64_t at_mono_ns)
{
    int64_t now_ns = tw_mono_ns(), wait_ns = at_mono_ns - now_ns;
    uint64_t mix = copy->record->number * UINT64_C(0x9e3779b97f4a7c15) +
                   (uint64_t)(copy - copy->record->copies) * UINT64_C(0xbf58476d1ce4e5b9) + copy->lookups;
    if (wait_ns <= 0)
        return at_mono_ns;
    mix = (mix ^ mix >> 31) * UINT64_C(0x94d049bb133111eb);
    return now_ns + wait_ns / 2 + (int64_t)((mix ^ mix >> 29) % (uint64_t)wait_ns);
}

/* Parks the job and sees to it that it is woken. The caller holds the record. */
void copy_wait_for(struct tw_copy *copy, const struct tw_verdict *verdict)
{
    tw_job_finish(&copy->job, TW_JOB_PARK);
    switch (verdict->next) {
    case TW_NEXT_CONNECT:
        copy_wait_in_slot(copy);
        break;
    case TW_NEXT_MARKET:
        copy_wait_in_slot(copy);
        wake_at(copy, tw_mono_ns() + MARKET_POLL_NS);
        break;
    case TW_NEXT_CALL:
        tw_crash_point("copy.refused");
        wake_at(copy, verdict->at_mono_ns);
        copy_let_by(copy);
        tw_crash_point("copy.backing_off");
        break;
    case TW_NEXT_LOOKUP:
        wake_at(copy, apart(copy, verdict->at_mono_ns));
        break;
    case TW_NEXT_FINAL:
        break;
    }
}
