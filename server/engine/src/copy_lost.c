/* copy_lost.c - calls that do not come back in time, and what they bring when they do. */
#include "copy.h"

#include <stdlib.h>

/* What a lost call brought in the end, until its copy takes it up; from the heap. */
struct late_answer {
    struct tw_order order;
    struct tw_ack ack;
};

static bool is_certain(const struct tw_ack *ack)
{
    return ack->outcome != TW_OUTCOME_AMBIGUOUS && ack->outcome != TW_OUTCOME_ACCEPTED;
}

/* Under the slot's mutex. What it brought decides when nothing has been decided since; else the broker is
 * asked for all it holds, and whatever does not fit comes to light. Returns what is not needed. */
static struct late_answer *late_keep(struct tw_copy *copy, const struct flight *flight,
                                     struct late_answer *late)
{
    struct tw_slot *slot = copy_slot(copy);
    copy->lost_calls--;
    slot->answers++;
    bool is_open = !copy_is_over(copy) && copy->phase == PHASE_LOOKUP && copy->calls == flight->number;
    if (!is_open) {
        slot->compared_mono_ns = 0;
        return late;
    }
    copy->call_deadline_mono_ns = tw_mono_ns(); /* until now it may have executed */
    copy->absences = 0;
    if (late == NULL || copy->late != NULL)
        return late;
    *late = (struct late_answer){flight->call.order, flight->call.ack};
    copy->late = late;
    return NULL;
}

/* The call is past its deadline and some: from here on it is a call whose outcome is unknown, like one that
 * timed out; its flight, on its thread's stack, holds the record until it is back. Thread: watch. */
void copy_lost(struct tw_job *job)
{
    struct tw_copy *copy = (struct tw_copy *)job;
    struct tw_slot *slot = copy_slot(copy);
    tw_record_hold(copy->record);
    breaker_lost(slot);
    pthread_mutex_lock(&slot->mutex);
    struct flight flight = {.copy = copy, .phase = (enum copy_phase)copy->phase};
    flight.call.order.op = (enum tw_order_op)copy->last_op;
    flight.call.ack = (struct tw_ack){.outcome = TW_OUTCOME_AMBIGUOUS, .reason = REASON(TIMEOUT),
                                      .remaining_volume = TW_DECIMAL_UNSET};
    copy->lost_calls = (uint8_t)(copy->lost_calls + (flight.phase == PHASE_CALL));
    pthread_mutex_unlock(&slot->mutex);
    copy_land(&flight);
}

/* The lost call is back: what it brought is evidence. Not to be acted on here, the job is not ours: its next
 * run takes it up. */
static void come_back(struct flight *flight)
{
    struct tw_copy *copy = flight->copy;
    struct tw_record *record = copy->record;
    struct tw_slot *slot = copy_slot(copy);
    if (flight->phase == PHASE_CALL) {
        struct late_answer *late = is_certain(&flight->call.ack) ? malloc(sizeof *late) : NULL;
        pthread_mutex_lock(&slot->mutex);
        late = late_keep(copy, flight, late);
        pthread_mutex_unlock(&slot->mutex);
        free(late);
    }
    (void)tw_job_unpark(&copy->job);
    breaker_lost_back(slot);
    tw_lane_lost_call_end(slot->lane);
    tw_record_release(record);
}

/* True: the flight is one that has landed already. */
bool copy_late_take(struct tw_copy *copy, struct flight *flight)
{
    struct tw_slot *slot = copy_slot(copy);
    pthread_mutex_lock(&slot->mutex);
    struct late_answer *late = copy->late;
    copy->late = NULL;
    pthread_mutex_unlock(&slot->mutex);
    if (late == NULL)
        return false;
    *flight = (struct flight){.copy = copy, .phase = PHASE_CALL, .call = {.order = late->order, .ack = late->ack}};
    free(late);
    return true;
}

/* A worker waits for the answer. False: it was lost. */
bool copy_call_and_wait(struct flight *flight, void (*call)(void *session, struct tw_adapter_call *call))
{
    struct tw_slot *slot = copy_slot(flight->copy);
    struct tw_job *job = &flight->copy->job;
    tw_job_call_begin(job, flight->call.deadline_mono_ns + CALL_LOST_AFTER_NS);
    call(slot->session, &flight->call);
    if (!tw_job_call_end(job)) {
        come_back(flight);
        return false;
    }
    if (flight->is_probe)
        breaker_probe_back(slot);
    return true;
}
