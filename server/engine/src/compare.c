/* compare.c - what we believe a follower holds, against what its broker says.
 *
 * The question goes through the follower's lane as a poll: it never takes the last slot of a follower
 * that has orders to send. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct question {
    struct tw_job job; /* first */
    struct tw_adapter_call call;
    struct tw_snapshot snapshot;
    struct tw_slot *slot; /* held */
    struct tw_comparison *comparison;
};

static char *print(struct tw_arena *arena, const char *text)
{
    return arena_print(arena, "%s", text);
}

static const struct tw_held_position *held_find(const struct tw_snapshot *snapshot, const char *ticket)
{
    for (size_t i = 0; i < snapshot->n_positions; i++)
        if (strcmp(snapshot->positions[i].position_id, ticket) == 0)
            return &snapshot->positions[i];
    return NULL;
}

static bool is_believed(const struct tw_slot *slot, const struct tw_held_position *position)
{
    for (const struct tw_leg *leg = slot->legs; leg != NULL; leg = leg->next)
        if (strcmp(leg->ticket, position->position_id) == 0 ||
            (leg->jobs > 0 && strcmp(leg->open_copy_id, position->client_order_id) == 0))
            return true;
    return false;
}

static Tradewake__V1__Drift *drift_add(struct tw_arena *arena, Tradewake__V1__CompareFollowerResponse *ret,
                                       Tradewake__V1__DriftKind kind)
{
    Tradewake__V1__Drift *drift = tw_arena_take(arena, sizeof *drift);
    if (drift == NULL)
        return NULL;
    tradewake__v1__drift__init(drift);
    drift->kind = kind;
    ret->drifts[ret->n_drifts++] = drift;
    return drift;
}

static void leg_compare(const struct tw_leg *leg, const struct tw_snapshot *snapshot,
                        struct tw_arena *arena, Tradewake__V1__CompareFollowerResponse *ret)
{
    const struct tw_held_position *there = held_find(snapshot, leg->ticket);
    if (leg->jobs > 0 || (there != NULL && there->volume == leg->held))
        return; /* on its way: not a difference yet */
    Tradewake__V1__Drift *drift =
        drift_add(arena, ret, there == NULL ? TRADEWAKE__V1__DRIFT_KIND__DRIFT_KIND_MISSING
                                            : TRADEWAKE__V1__DRIFT_KIND__DRIFT_KIND_VOLUME);
    if (drift == NULL)
        return;
    drift->symbol = print(arena, leg->listing->instrument.symbol);
    drift->master_position_id = print(arena, leg->position->id);
    drift->broker_position_id = print(arena, leg->ticket);
    drift->believed_volume = arena_decimal(arena, leg->held);
    drift->broker_volume = there != NULL ? arena_decimal(arena, there->volume) : print(arena, "0");
    drift->client_order_id = print(arena, leg->open_copy_id);
}

static void position_compare(const struct tw_slot *slot, const struct tw_held_position *there,
                             struct tw_arena *arena, Tradewake__V1__CompareFollowerResponse *ret)
{
    if (is_believed(slot, there))
        return;
    bool is_ours = there->client_order_id[0] != '\0';
    Tradewake__V1__Drift *drift =
        drift_add(arena, ret, is_ours ? TRADEWAKE__V1__DRIFT_KIND__DRIFT_KIND_EXTRA
                                      : TRADEWAKE__V1__DRIFT_KIND__DRIFT_KIND_FOREIGN);
    if (drift == NULL)
        return;
    drift->symbol = print(arena, there->symbol);
    drift->broker_position_id = print(arena, there->position_id);
    drift->broker_volume = arena_decimal(arena, there->volume);
    drift->client_order_id = print(arena, there->client_order_id);
}

static void held_add(const struct tw_leg *leg, struct tw_arena *arena,
                     Tradewake__V1__CompareFollowerResponse *ret)
{
    Tradewake__V1__HeldPosition *held = tw_arena_take(arena, sizeof *held);
    char **tickets = tw_arena_zero(arena, sizeof *tickets);
    if (held == NULL || tickets == NULL)
        return;
    tradewake__v1__held_position__init(held);
    held->master_id = print(arena, leg->position->master->id);
    held->master_position_id = print(arena, leg->position->id);
    held->symbol = print(arena, leg->listing->instrument.symbol);
    held->side = (Tradewake__V1__Side)leg->side;
    held->volume = arena_decimal(arena, leg->held);
    held->open_price = leg->open_price > 0 ? arena_decimal(arena, leg->open_price) : held->open_price;
    held->copy_id = print(arena, leg->open_copy_id);
    tickets[0] = print(arena, leg->ticket);
    held->broker_position_ids = tickets;
    held->n_broker_position_ids = 1;
    ret->positions[ret->n_positions++] = held;
}

/* Under the slot's mutex. A position's ticket may be renamed by its master meanwhile; the id shown is
 * then the old or the new one. */
static bool compare(struct tw_slot *slot, const struct tw_snapshot *snapshot, struct tw_arena *arena,
                    Tradewake__V1__CompareFollowerResponse *ret)
{
    size_t n_legs = 0;
    for (const struct tw_leg *leg = slot->legs; leg != NULL; leg = leg->next)
        n_legs++;
    ret->drifts = tw_arena_zero(arena, (n_legs + snapshot->n_positions + 1) * sizeof *ret->drifts);
    ret->positions = tw_arena_zero(arena, (n_legs + 1) * sizeof *ret->positions);
    if (ret->drifts == NULL || ret->positions == NULL)
        return false;
    for (const struct tw_leg *leg = slot->legs; leg != NULL; leg = leg->next) {
        if (leg->held > 0)
            held_add(leg, arena, ret);
        if (leg->was_open)
            leg_compare(leg, snapshot, arena, ret);
    }
    for (size_t i = 0; i < snapshot->n_positions; i++)
        position_compare(slot, &snapshot->positions[i], arena, ret);
    ret->broker_as_of = arena_time(arena, snapshot->as_of_wall_ns);
    uint32_t drifts = 0; /* what is not ours is no drift of ours */
    for (size_t i = 0; i < ret->n_drifts; i++)
        drifts += ret->drifts[i]->kind != TRADEWAKE__V1__DRIFT_KIND__DRIFT_KIND_FOREIGN;
    slot->drifts = drifts;
    return true;
}

static void question_end(struct question *question)
{
    struct tw_comparison *comparison = question->comparison;
    tw_snapshot_clear(&question->snapshot);
    slot_release(question->slot);
    free(question);
    comparison->done(comparison);
}

static void answer(struct question *question)
{
    struct tw_comparison *comparison = question->comparison;
    struct tw_slot *slot = question->slot;
    if (question->call.ack.outcome == TW_OUTCOME_DONE && question->snapshot.complete) {
        pthread_mutex_lock(&slot->mutex);
        bool ok = compare(slot, &question->snapshot, comparison->arena, comparison->ret);
        pthread_mutex_unlock(&slot->mutex);
        if (!ok)
            tw_refuse(&comparison->refusal, REFUSAL(OVERLOADED), NULL, "no memory for the answer");
    } else {
        comparison->refusal.retry_after_ns = TW_NS_PER_S;
        tw_refuse(&comparison->refusal, REFUSAL(BROKER_UNAVAILABLE), "follower_id",
                  "the broker of \"%s\" cannot be asked now", slot->id);
    }
    tw_job_finish(&question->job, TW_JOB_DONE);
    question_end(question);
}

static void on_done(struct tw_adapter_call *call)
{
    answer(container_of(call, struct question, call));
}

static void run(struct tw_job *job)
{
    struct question *question = (struct question *)job;
    struct tw_slot *slot = question->slot;
    question->call.deadline_mono_ns = tw_mono_ns() + (int64_t)slot->caps.call_timeout_ms * TW_NS_PER_MS;
    slot->ops->snapshot(slot->session, &question->call);
    if (slot->caps.blocking)
        answer(question);
}

static void cancelled(struct tw_job *job)
{
    struct question *question = (struct question *)job;
    tw_refuse(&question->comparison->refusal, REFUSAL(SHUTTING_DOWN), NULL, "the server is stopping");
    question_end(question);
}

bool tw_engine_follower_compare(struct tw_engine *engine, const char *follower_id,
                                struct tw_comparison *comparison)
{
    struct tw_slot *slot = fleet_slot_hold(engine, follower_id);
    if (slot == NULL)
        return tw_refuse(&comparison->refusal, REFUSAL(NOT_FOUND), "follower_id",
                         "there is no follower \"%.64s\"", follower_id);
    struct question *question = calloc(1, sizeof *question);
    if (question == NULL) {
        slot_release(slot);
        return tw_refuse(&comparison->refusal, REFUSAL(OVERLOADED), NULL, "no memory");
    }
    question->slot = slot;
    question->comparison = comparison;
    question->call.snapshot = &question->snapshot;
    question->call.done = on_done;
    question->job.run = run;
    question->job.cancelled = cancelled;
    question->job.lane = slot->lane;
    question->job.job_class = TW_JOB_POLL;
    struct tw_job *job = &question->job;
    tw_executor_submit(engine->executor, &job, 1);
    return true;
}
