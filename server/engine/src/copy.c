/* copy.c - one copy from the moment it is planned: its job, the last gate before the order call, and the answer.
 *
 * A copy's job holds its key (the position) from submit to its end, also while it waits for a retry, a
 * look-up, a connection or a mode: what comes later for the same position waits behind it. What decides is in
 * copy_gate.c and copy_stops.c, what an answer means in copy_answer.c and copy_next.c. */
#include "copy.h"

#include <tradewake/base/crash_point.h>
#include <tradewake/telemetry/counters.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *copy_action_word(copy_action action)
{
    static const char *const words[] = {
        [ACTION(OPEN)] = "OPEN", [ACTION(MODIFY)] = "MODIFY", [ACTION(CLOSE)] = "CLOSE",
        [ACTION(PARTIAL_CLOSE)] = "PARTIAL_CLOSE", [ACTION(PLACE)] = "PLACE",
        [ACTION(MODIFY_ORDER)] = "MODIFY_ORDER", [ACTION(CANCEL)] = "CANCEL", [ACTION(LINK)] = "LINK",
    };
    return words[action];
}

struct tw_copy_id_input copy_id_input(const struct tw_copy *copy)
{
    return (struct tw_copy_id_input){
        .master_id = copy->record->master->id,
        .event_id = copy->record->event_id,
        .follower_id = copy_slot(copy)->id,
        .subject_id = copy->record->subject_id,
        .action = copy_action_word(copy->action),
    };
}

void copy_order_id(const struct tw_copy *copy, uint32_t leg, uint32_t attempt,
                   char ret[TW_COPY_ID_BYTES])
{
    struct tw_copy_id_input input = copy_id_input(copy);
    input.leg = leg;
    input.attempt = attempt;
    tw_copy_id(&input, ret);
}

void copy_id_make(const struct tw_copy *copy, char ret[TW_COPY_ID_BYTES])
{
    copy_order_id(copy, 0, 0, ret);
}

bool copy_is_over(const struct tw_copy *copy)
{
    switch ((copy_state)copy->state) {
    case STATE(QUEUED):
    case STATE(SENT):
    case STATE(UNKNOWN):
        return false;
    default:
        return true;
    }
}

/* The copy is over. What its leg reserved and did not get is free again. */
void copy_conclude(struct tw_copy *copy, copy_state state, tw_reason reason)
{
    assert(!copy_is_over(copy));
    struct tw_leg *leg = copy->leg;
    if (copy->filled > 0 && state != STATE(DONE)) /* whatever ends it now, part of it was done */
        state = STATE(PARTIAL);
    if (state == STATE(DONE) && reason == REASON(UNSPECIFIED) && copy->n_remarks > 0)
        reason = copy->remarks[0];
    copy->state = (uint8_t)state;
    copy->reason = (uint8_t)reason;
    copy->updated_wall_ns = tw_wall_ns();
    atomic_store_explicit(&copy->may_be_withdrawn, false, memory_order_relaxed);
    copy_parked_remove(copy);
    copy_refused_set(copy, false);
    if (leg == NULL)
        return;
    applied_note(copy);
    if (leg->unsent_modify == copy)
        leg->unsent_modify = NULL;
    bool waits_at_broker = copy->op == TW_OP_PLACE && state == STATE(DONE);
    if (copy_opens(copy) && !waits_at_broker) {
        tw_decimal missing = copy->volume - copy->filled;
        leg->wanted -= missing;
        if (!leg->is_closed)
            leg->listing->open_volume -= missing;
        if (leg->held <= 0 && leg->wanted <= 0)
            leg_close(leg);
    }
    leg->jobs--; /* the leg itself stays until the journal thread has written how it ended */
}

void copy_order_fill(const struct tw_copy *copy, struct tw_order *order)
{
    order->op = (enum tw_order_op)copy->op;
    order->side = (enum tw_side)copy->side;
    order->type = (enum tw_order_type)copy->type;
    order->attempt = copy->adapter_attempt;
    order->volume = copy->volume;
    order->price = copy->price;
    order->stop_price = copy->stop_price;
    order->stop_loss = copy->stop_loss;
    order->take_profit = copy->take_profit;
    order->expires_wall_ns = copy->expires_wall_ns;
    memcpy(order->symbol, copy->listing->instrument.symbol, sizeof order->symbol);
}

static void note_start(struct tw_copy *copy, int64_t now_mono_ns)
{
    if (copy->started_ns != 0)
        return;
    copy->started_ns = (uint64_t)(now_mono_ns - copy->record->received_mono_ns);
    copy->threads_at_start = copy->job.threads_at_start;
    copy->queue_depth = copy->job.queue_depth;
    uint64_t late = tw_executor_threads_late(copy->record->engine->executor) - copy->job.threads_late;
    copy->threads_created = late > UINT16_MAX ? UINT16_MAX : (uint32_t)late;
}

/* What a look-up is about: the copy's latest order, the one that its cancel did not find, one that may have filled
 * against what it was to reduce, or one that may have done what it is to do. */
void copy_order_asked(const struct tw_copy *copy, struct tw_order *order)
{
    const struct tw_leg *leg = copy->asks_open ? copy->leg : NULL;
    if (copy->asks_share != 0)
        leg = net_waiting_share(copy, copy->asks_share); /* NULL: news came meanwhile, and what its own order became is known */
    order->op = leg != NULL ? TW_OP_PLACE : (enum tw_order_op)copy->last_op;
    if (leg != NULL)
        memcpy(order->client_order_id, leg->open_order_id, sizeof order->client_order_id);
    else if (copy->asks_id != NULL)
        snprintf(order->client_order_id, sizeof order->client_order_id, "%s", copy->asks_id);
}

/* Fills in the flight's order, or says what happened instead. Takes the slot's mutex. */
static enum gate take_off(struct tw_copy *copy, struct flight *flight)
{
    struct tw_slot *slot = copy_slot(copy);
    struct tw_order *order = &flight->call.order;
    flight->copy = copy;
    flight->phase = (enum copy_phase)copy->phase;
    flight->is_probe = false;
    flight->call.ack = (struct tw_ack){0};
    flight->call.snapshot = NULL;
    flight->call.traceparent = copy->record->traceparent;
    memset(order, 0, sizeof *order);
    int64_t now_mono_ns = tw_mono_ns(), now_wall_ns = tw_wall_ns();
    copy_order_id(copy, copy->order_leg, copy->id_attempt, order->client_order_id); /* a microsecond: not under the lock */

    pthread_mutex_lock(&slot->mutex);
    copy_refused_set(copy, false);
    copy->waits_for_journal = false;
    note_start(copy, now_mono_ns);
    copy_order_fill(copy, order);
    if (flight->phase == PHASE_CALL && copy->leg != NULL)
        copy->n_told = copy->leg->n_told;
    enum gate gate = GATE_PASS;
    struct tw_gate_order last;
    bool is_asked = false;
    if (atomic_load_explicit(&copy->record->engine->is_stopping, memory_order_acquire))
        gate = GATE_PARK; /* no new call begins: the next start goes on with it */
    else if (flight->phase == PHASE_CALL && !copy_id_is_written(copy))
        gate = GATE_PARK, copy->waits_for_journal = true;
    else if (flight->phase == PHASE_CALL)
        gate = gate_by_op(copy, order, now_wall_ns);
    else
        copy_order_asked(copy, order);
    if (gate == GATE_PASS && flight->phase == PHASE_CALL && copy_opens(copy) && !copy->is_protecting && !order->reduce_only) {
        is_asked = true;
        if (gate_ask(copy, order, now_mono_ns, now_wall_ns, &last) != TW_BREACH_NONE)
            gate = gate_end(copy, STATE(CANCELLED), REASON(GATE_TRIPPED));
    }
    if (gate == GATE_PASS)
        gate = gate_breaker(copy, flight);
    if (gate == GATE_PASS) {
        if (is_asked)
            gate_count(slot, &last);
        if (copy->order_leg == 0 && copy->id_attempt == 0 && !copy->has_id) {
            memcpy(copy->id, order->client_order_id, sizeof copy->id);
            copy->has_id = true;
        }
        if (copy_opens(copy) && copy->leg->open_copy_id[0] == '\0')
            memcpy(copy->leg->open_copy_id, copy->id, sizeof copy->id);
        if (copy_opens(copy) && !copy->is_protecting && strcmp(copy->leg->open_copy_id, copy->id) == 0)
            memcpy(copy->leg->open_order_id, order->client_order_id, sizeof copy->id);
        if (copy->op == TW_OP_PLACE)
            copy->leg->placed = copy->volume;
        atomic_store_explicit(&copy->may_be_withdrawn, false, memory_order_relaxed);
        if (flight->phase == PHASE_CALL) {
            copy->state = STATE(SENT);
            copy->reason = copy->is_protecting ? REASON(UNPROTECTED) : REASON(UNSPECIFIED);
            flight->number = ++copy->calls;
            copy->is_counted = false; /* what was asked for is not what is asked for from here on */
            copy->last_op = (uint8_t)order->op;
            copy->leg_ids[copy->order_leg] = copy->id_attempt + 1;
            copy->lookups = copy->absences = 0;
            copy->is_call_out = true;
            copy->subscription->calls_out++;
            if (copy->leg->unsent_modify == copy)
                copy->leg->unsent_modify = NULL;
        }
    }
    bool is_first_call = gate == GATE_PASS && flight->phase == PHASE_CALL && !copy->is_sent_counted;
    copy->is_sent_counted |= is_first_call;
    pthread_mutex_unlock(&slot->mutex);

    /* Before the stamp: waking who waits for the last call of an event is part of our own time. */
    if (is_first_call)
        record_count_down(copy->record, &copy->record->pending_sent);
    return gate;
}

/* The other order has not done it; this one's own, sent in a run before, may have. */
static struct tw_verdict ask_own(struct tw_copy *copy, int64_t now_mono_ns)
{
    copy_asked_for(copy);
    copy->lookups = copy->absences = 0;
    return (struct tw_verdict){.next = TW_NEXT_LOOKUP, .at_mono_ns = now_mono_ns, .state = STATE(UNKNOWN),
                               .reason = REASON(NO_CONNECTION)};
}

void copy_land(struct flight *flight)
{
    struct tw_copy *copy = flight->copy;
    struct tw_record *record = copy->record;
    struct tw_slot *slot = copy_slot(copy);
    const struct tw_ack *ack = &flight->call.ack;
    int64_t now_mono_ns = tw_mono_ns();

    pthread_mutex_lock(&slot->mutex);
    bool is_first = flight->phase == PHASE_CALL && copy->answered_ns == 0;
    if (is_first)
        copy->answered_ns = (uint64_t)(now_mono_ns - record->received_mono_ns);
    if (flight->phase == PHASE_CALL && copy->is_call_out) {
        copy->is_call_out = false;
        copy->subscription->calls_out--;
    }
    bool asks_share = flight->phase == PHASE_LOOKUP && copy->asks_share != 0;
    if (!asks_share && (flight->phase == PHASE_CALL || ack->outcome != TW_OUTCOME_NOT_FOUND))
        copy_tell_keep(copy, ack);
    slot->answers++;
    if (flight->phase == PHASE_CALL)
        fuse_on_call(slot, ack);
    struct tw_verdict verdict;
    if (asks_share) {
        verdict = copy_share_asked(copy, flight);
    } else if (flight->phase == PHASE_LOOKUP && copy->asks_open) {
        verdict = copy_open_asked(copy, ack);
    } else {
        verdict = copy_judge(copy, flight, now_mono_ns);
        copy_apply(copy, flight);
        if (verdict.next == TW_NEXT_CALL && copy->asks_own_next)
            verdict = ask_own(copy, now_mono_ns);
    }
    copy_follow(copy, flight, &verdict);
    if (verdict.next != TW_NEXT_LOOKUP && verdict.next != TW_NEXT_CONNECT)
        copy_asked_for(copy);
    if (verdict.next == TW_NEXT_LOOKUP && copy->late != NULL)
        verdict.at_mono_ns = now_mono_ns; /* no need to ask: it has come by itself */
    pthread_mutex_unlock(&slot->mutex);
    tw_crash_point_if(flight->phase == PHASE_CALL, "copy.answered");
    tw_crash_point_if(flight->phase == PHASE_CALL && copy->calls > 1, "copy.answered_again");
    tw_crash_point_if(flight->phase == PHASE_LOOKUP, "copy.found");
    tw_crash_point_if(ack->outcome == TW_OUTCOME_PARTIAL, "copy.filled_in_part");
    if (asks_share)
        slot_dirty_push(slot); /* another leg than its own */
    settle_begin(slot);

    if (is_first)
        copy_put_sample(copy);
    tw_record_hold(record);
    if (verdict.next == TW_NEXT_FINAL)
        tw_job_finish(&copy->job, TW_JOB_DONE);
    else
        copy_wait_for(copy, &verdict);
    copy_announce(copy);
    if (verdict.next == TW_NEXT_FINAL)
        tw_record_release(record); /* the copy's own */
    tw_record_release(record);
}

static void on_done(struct tw_adapter_call *call)
{
    struct flight *flight = (struct flight *)call;
    copy_land(flight);
    free(flight);
}

/* ---- The job ---- */

/* Test builds can take their time before a job is parked: what comes in between must not be lost. */
static void parking_slowly(void)
{
    const struct timespec time = {.tv_nsec = tw_fault_number("PARK_MS", 0) * TW_NS_PER_MS};
    if (time.tv_nsec > 0)
        nanosleep(&time, NULL);
}

static void end_on_ground(struct tw_copy *copy, enum gate gate)
{
    struct tw_record *record = copy->record;
    tw_record_hold(record);
    slot_dirty_push(copy_slot(copy)); /* shares that were given up */
    if (gate == GATE_END) {
        tw_job_finish(&copy->job, TW_JOB_DONE);
    } else {
        parking_slowly();
        tw_job_finish(&copy->job, TW_JOB_PARK);
        copy_wait_in_slot(copy);
        copy_let_by(copy);
    }
    if (gate != GATE_WAIT)
        copy_announce(copy);
    if (gate == GATE_END)
        tw_record_release(record);
    tw_record_release(record);
}

/* The last thing before the call. */
static void stamp_call(struct tw_copy *copy, struct flight *flight)
{
    struct tw_slot *slot = copy_slot(copy);
    pthread_mutex_lock(&slot->mutex);
    int64_t now_mono_ns = tw_mono_ns();
    flight->call.deadline_mono_ns = now_mono_ns + (int64_t)slot->caps.call_timeout_ms * TW_NS_PER_MS;
    copy->call_deadline_mono_ns = flight->call.deadline_mono_ns;
    if (copy->called_ns == 0) {
        copy->held_ns = (uint64_t)copy->job.held_ns;
        copy->called_ns = (uint64_t)(now_mono_ns - copy->record->received_mono_ns);
    }
    pthread_mutex_unlock(&slot->mutex);
}

static void run(struct tw_job *job)
{
    struct tw_copy *copy = (struct tw_copy *)job;
    struct tw_slot *slot = copy_slot(copy);
    struct flight local, *flight = &local;
    if (copy->phase == PHASE_LOOKUP && slot->caps.blocking && copy_late_take(copy, flight)) {
        copy_land(flight);
        return;
    }
    if (!slot->caps.blocking) {
        flight = malloc(sizeof *flight);
        if (flight == NULL) { /* nothing was sent: wait a little, like a busy broker */
            copy_wait_for(copy, &(struct tw_verdict){.next = TW_NEXT_CALL,
                                                .at_mono_ns = tw_mono_ns() + 100 * TW_NS_PER_MS});
            return;
        }
        flight->call.done = on_done;
    }

    tw_crash_point("copy.taken");
    enum gate gate = take_off(copy, flight);
    if (gate != GATE_PASS) {
        if (!slot->caps.blocking)
            free(flight);
        end_on_ground(copy, gate);
        return;
    }
    void (*call)(void *session, struct tw_adapter_call *call) = slot->ops->execute;
    if (flight->phase == PHASE_LOOKUP) {
        flight->call.deadline_mono_ns = tw_mono_ns() + (int64_t)slot->caps.call_timeout_ms * TW_NS_PER_MS;
        call = slot->ops->lookup;
    } else {
        stamp_call(copy, flight);
        tw_crash_point("copy.past_the_gate");
    }
    if (!slot->caps.blocking)
        call(slot->session, &flight->call);
    else if (copy_call_and_wait(flight, call))
        copy_land(flight);
}

void copy_give_back(struct tw_copy *copy)
{
    struct tw_job *job = &copy->job;
    tw_executor_submit(copy->record->engine->executor, &job, 1);
}

/* Withdrawn before it was sent: by a halt, a deletion, or because the executor stops. */
static void cancelled(struct tw_job *job)
{
    struct tw_copy *copy = (struct tw_copy *)job;
    struct tw_record *record = copy->record;
    struct tw_slot *slot = copy_slot(copy);
    tw_reason reason = (tw_reason)atomic_load_explicit(&copy->withdrawn_for, memory_order_acquire);
    if (reason == REASON(OPERATOR)) { /* whoever took it ends it, or gives it back: resolve.c, copy_stops.c */
        atomic_store_explicit(&copy->withdrawn_for, REASON(UNSPECIFIED), memory_order_release);
        return;
    }
    if (reason == REASON(UNSPECIFIED)) { /* the process ends; what is queued stays queued */
        tw_record_release(record);
        return;
    }
    pthread_mutex_lock(&slot->mutex);
    copy_conclude(copy, STATE(CANCELLED), reason);
    pthread_mutex_unlock(&slot->mutex);
    copy_announce(copy);
    tw_record_release(record);
}

/* A lane has other jobs too: questions to the broker. NULL: it is not a copy's. */
struct tw_copy *copy_of_job(struct tw_job *job)
{
    return job->run == run ? (struct tw_copy *)job : NULL;
}

/* ---- For the planner: before submit, nobody else sees the copy ---- */

void copy_init(struct tw_copy *copy, struct tw_record *record, struct tw_subscription *subscription)
{
    subscription_hold(subscription);
    copy->record = record;
    copy->subscription = subscription;
    copy->symbol = record->symbol;
    copy->state = STATE(QUEUED);
    copy->volume = copy->price = copy->stop_price = TW_DECIMAL_UNSET;
    copy->stop_loss = copy->take_profit = TW_DECIMAL_UNSET;
    copy->window_end_wall_ns = INT64_MAX;
    copy->written_attempt = UINT32_MAX;
    copy->job.run = run;
    copy->job.cancelled = cancelled;
    copy->job.lost = copy_lost;
    copy->job.lane = subscription->slot->lane;
    copy->job.tenant = subscription->master->tenant;
    copy->job.job_class = TW_JOB_NORMAL;
}

void copy_plan_set(struct tw_copy *copy, const struct tw_plan *plan)
{
    copy->action = (uint8_t)plan->action;
    copy->op = (uint8_t)plan->op;
    copy->side = (uint8_t)plan->side;
    copy->type = (uint8_t)plan->type;
    copy->volume = plan->volume;
    copy->price = plan->price;
    copy->stop_price = plan->stop_price;
    copy->stop_loss = plan->stop_loss;
    copy->take_profit = plan->take_profit;
    copy->expires_wall_ns = plan->expires_wall_ns;
    copy->reason = (uint8_t)plan->reason;
    copy->sizing = plan->wanted != TW_DECIMAL_UNSET ? (uint8_t)plan->sizing : 0;
    copy->wanted = plan->wanted;
    copy->n_remarks = (uint8_t)plan->n_remarks;
    for (uint32_t i = 0; i < plan->n_remarks; i++)
        copy->remarks[i] = (uint8_t)plan->remarks[i];
    if (plan->listing != NULL) {
        copy->listing = plan->listing;
        copy->symbol = plan->listing->instrument.symbol;
    }
}

void copy_ready(struct tw_copy *copy, struct tw_leg *leg, bool reduces_risk)
{
    copy->leg = leg;
    copy->leg_number = leg->number;
    if (copy_opens(copy))
        tw_last_gate_plan(&leg->slot->gate);
    copy->reduces_risk = reduces_risk;
    copy->job.job_class = reduces_risk ? TW_JOB_URGENT : TW_JOB_NORMAL;
    atomic_store_explicit(&copy->may_be_withdrawn, true, memory_order_relaxed);
    copy->job.key = leg->key;
    copy->listing = leg->listing;
    copy->symbol = leg->listing->instrument.symbol;
    leg->jobs++;
    atomic_fetch_add_explicit(&leg->position->busy, 1, memory_order_relaxed);
}

void copy_ask_first(struct tw_copy *copy)
{
    struct tw_engine *engine = copy->record->engine;
    copy->call_deadline_mono_ns =
        engine->started_mono_ns + (int64_t)copy_slot(copy)->caps.call_timeout_ms * TW_NS_PER_MS;
    copy->state = STATE(UNKNOWN);
    copy->reason = REASON(NO_CONNECTION);
    copy->phase = PHASE_LOOKUP;
    copy->lookups = copy->absences = 0;
    atomic_store_explicit(&copy->may_be_withdrawn, false, memory_order_relaxed);
    if (copy->leg_ids[copy->order_leg] <= copy->id_attempt) /* its call may have come after what was written */
        copy->leg_ids[copy->order_leg] = copy->id_attempt + 1;
    if (copy->calls == 0)
        copy->last_op = copy->op;
}

void copy_ask_for(struct tw_copy *copy, const char *client_order_id)
{
    copy->asks_id = strdup(client_order_id);
    if (copy->asks_id == NULL)
        return;
    copy_ask_first(copy);
    copy->leg_ids[0] = 0; /* nothing was ever sent for it */
}

void copy_asked_for(struct tw_copy *copy)
{
    free(copy->asks_id);
    copy->asks_id = NULL;
    copy->asks_own_next = false;
}

void copy_end_unsent(struct tw_copy *copy, copy_state state, tw_reason reason)
{
    copy->state = (uint8_t)state;
    copy->reason = (uint8_t)reason;
    copy->is_skipped = true;
    copy->is_sent_counted = copy->is_done_counted = true;
    tw_copy_counters_add((int32_t)state, (int32_t)reason);
}
