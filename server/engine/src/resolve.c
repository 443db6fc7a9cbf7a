/* resolve.c - an operator's word on a copy that is UNKNOWN: what its broker would have answered, had it been asked.
 *
 * The copy's job is taken out of its lane, where it waits for its next look-up, also when that lane is blocked by a call
 * that does not come back; the word is landed like an answer, and the copy ends or goes back into its lane. What is
 * allowed follows from what the order was: the rules below. */
#include "copy.h"

#include <tradewake/base/log.h>
#include <tradewake/core/check.h>

#include <stdio.h>
#include <string.h>

static const struct tw_check *check_of(struct tw_check *check, struct tw_refusal *refusal)
{
    *check = (struct tw_check){.prefix = "", .refusal = refusal};
    return check;
}

/* A copy as the word is checked against it; one reading of what the slot's mutex guards. */
struct subject {
    copy_state state;
    tw_reason reason;
    enum tw_order_op op;
    tw_decimal left;   /* of its volume, not filled yet */
    tw_decimal filled;
    bool names_position; /* what it opens has a ticket of its own */
};

static struct subject subject_of(struct tw_copy *copy)
{
    struct tw_slot *slot = copy->subscription->slot;
    pthread_mutex_lock(&slot->mutex);
    struct subject subject = {
        .state = copy->state,
        .reason = copy->reason,
        .op = copy->is_protecting ? TW_OP_MODIFY : (enum tw_order_op)copy->op,
        .left = copy->volume > copy->filled ? copy->volume - copy->filled : 0,
        .filled = copy->filled,
        .names_position = !slot->caps.netting,
    };
    pthread_mutex_unlock(&slot->mutex);
    return subject;
}

static bool trades(const struct subject *subject)
{
    return subject->op == TW_OP_OPEN || subject->op == TW_OP_CLOSE || subject->op == TW_OP_PLACE;
}

/* How much the word says was filled; ret: as the ack has it. */
static bool volume_read(const struct subject *subject, const Tradewake__V1__ResolveCopyRequest *request,
                        const struct tw_check *check, tw_decimal *ret)
{
    tw_decimal said = TW_DECIMAL_UNSET;
    if (!tw_check_decimal(check, "filled_volume", request->filled_volume, TW_POSITIVE, &said))
        return false;
    bool is_said = said != TW_DECIMAL_UNSET;
    bool is_part = request->state == STATE(PARTIAL);
    if (is_said && (request->state == STATE(REJECTED) || !trades(subject)))
        return tw_check_fail(check, "filled_volume", "is given, but nothing was filled by this");
    if (is_part && !is_said)
        return tw_check_fail(check, "filled_volume", "is needed: how much of it was filled");
    if (is_said && said > subject->left)
        return tw_check_fail(check, "filled_volume", "is more than the copy had left");
    if (is_said && subject->op != TW_OP_CLOSE && is_part == (said == subject->left))
        return tw_check_fail(check, "filled_volume", is_part ? "is all of it: DONE" : "is a part of it: PARTIAL");
    bool is_all = !is_said && request->state == STATE(DONE) &&
                  (subject->op == TW_OP_OPEN || subject->op == TW_OP_CLOSE);
    *ret = is_said ? said : is_all ? subject->left : 0;
    return true;
}

static bool word_check(const struct subject *subject, const Tradewake__V1__ResolveCopyRequest *request,
                       const struct tw_check *check)
{
    if (request->state != STATE(DONE) && request->state != STATE(PARTIAL) && request->state != STATE(REJECTED))
        return tw_check_fail(check, "state", "is not DONE, PARTIAL or REJECTED");
    if (request->state == STATE(PARTIAL) && !trades(subject))
        return tw_check_fail(check, "state", "is PARTIAL, but this copy's order cannot be done in part");
    if (!tw_check_text(check, "broker_position_id", request->broker_position_id, 0, TW_BROKER_ID_BYTES - 1) ||
        !tw_check_text(check, "note", request->note, 0, TW_NOTE_CHARS_MAX))
        return false;
    bool is_opening = subject->op == TW_OP_OPEN || subject->op == TW_OP_PLACE;
    bool has_id = request->broker_position_id[0] != '\0';
    if (has_id && (!is_opening || request->state == STATE(REJECTED)))
        return tw_check_fail(check, "broker_position_id", "is given, but nothing came to be by this");
    bool waits = subject->op == TW_OP_PLACE && request->filled_volume[0] == '\0';
    if (!has_id && is_opening && request->state != STATE(REJECTED) && (waits || subject->names_position))
        return tw_check_fail(check, "broker_position_id", "is needed: by which id it can be closed");
    return true;
}

static struct tw_ack ack_of(const struct subject *subject, const Tradewake__V1__ResolveCopyRequest *request,
                            tw_decimal filled)
{
    struct tw_ack ack = {.reason = REASON(OPERATOR), .filled_volume = filled, .remaining_volume = TW_DECIMAL_UNSET};
    bool waits = subject->op == TW_OP_PLACE && filled == 0 && request->state == STATE(DONE);
    ack.outcome = request->state == STATE(REJECTED)  ? TW_OUTCOME_REJECTED
                  : request->state == STATE(PARTIAL) ? TW_OUTCOME_PARTIAL
                  : waits                            ? TW_OUTCOME_ACCEPTED
                                                     : TW_OUTCOME_DONE;
    (void)snprintf(waits ? ack.order_id : ack.position_id, sizeof ack.position_id, "%s", request->broker_position_id);
    (void)snprintf(ack.broker_message, sizeof ack.broker_message, "%.*s", (int)sizeof ack.broker_message - 1,
                   request->note);
    return ack;
}

/* It was ended by this very word. */
static bool is_said_already(const struct subject *subject, const Tradewake__V1__ResolveCopyRequest *request)
{
    tw_decimal said = TW_DECIMAL_UNSET;
    bool is_same = subject->reason == REASON(OPERATOR) && subject->state == (copy_state)request->state;
    bool is_read = tw_decimal_parse(request->filled_volume, &said);
    return is_same && (request->filled_volume[0] == '\0' || (is_read && said <= subject->filled));
}

static bool refuse_not_unknown(struct tw_copy *copy, const struct subject *subject, struct tw_refusal *refusal)
{
    const ProtobufCEnumValue *state =
        protobuf_c_enum_descriptor_get_value(&tradewake__v1__copy_state__descriptor, (int)subject->state);
    return tw_refuse(refusal, REFUSAL(COPY_NOT_UNKNOWN), "copy_id", "the copy \"%s\" is %s: only one that is UNKNOWN takes a word",
                     copy->id, state != NULL ? state->name + strlen("COPY_STATE_") : "over");
}

static bool word_is_for(struct tw_job *job, void *context)
{
    struct tw_copy *copy = context;
    if (job != &copy->job)
        return false;
    atomic_store_explicit(&copy->withdrawn_for, REASON(OPERATOR), memory_order_release);
    return true;
}

/* Takes the copy out of its lane while it waits there (false: it is at work right now, or over); then it is the caller's
 * until it has landed, which ends it, or has been given back. The caller holds its record, and no lock. */
static bool copy_take(struct tw_copy *copy)
{
    struct tw_lane *lane = copy_slot(copy)->lane;
    return lane != NULL && tw_lane_cancel(lane, word_is_for, copy) > 0;
}

enum word_end {
    WORD_LANDED,
    WORD_TOO_EARLY, /* the broker is being asked right now */
    WORD_TOO_LATE,  /* it is not UNKNOWN any more */
};

/* The same way as an answer of a look-up. The reason is the operator's, and what goes on goes on at once. While the copy is
 * out of its lane that looks empty, and a deleted follower's session is closed then: hence the fleet lock. */
static enum word_end copy_word_land(struct tw_engine *engine, struct tw_copy *copy, const struct tw_ack *ack)
{
    pthread_rwlock_rdlock(&engine->fleet_lock);
    if (!copy_take(copy)) {
        pthread_rwlock_unlock(&engine->fleet_lock);
        return WORD_TOO_EARLY;
    }
    struct tw_slot *slot = copy_slot(copy);
    struct flight flight = {.copy = copy, .phase = PHASE_LOOKUP, .call.ack = *ack};
    pthread_mutex_lock(&slot->mutex);
    bool is_wanted = copy->state == STATE(UNKNOWN) && copy->phase == PHASE_LOOKUP;
    struct tw_verdict verdict = {.next = TW_NEXT_CALL};
    if (is_wanted) {
        copy->asks_open = false; /* the word is about its own order */
        copy->asks_share = 0;
        copy_asked_for(copy);
        copy_order_fill(copy, &flight.call.order);
        copy_order_asked(copy, &flight.call.order);
        copy_tell_keep(copy, ack);
        slot->answers++;
        verdict = copy_judge(copy, &flight, tw_mono_ns());
        if (verdict.next == TW_NEXT_FINAL)
            verdict.reason = REASON(OPERATOR);
        copy_apply(copy, &flight);
        copy_follow(copy, &flight, &verdict);
        copy_parked_remove(copy);
    }
    pthread_mutex_unlock(&slot->mutex);
    if (!is_wanted || verdict.next != TW_NEXT_FINAL)
        copy_give_back(copy);
    pthread_rwlock_unlock(&engine->fleet_lock);
    if (!is_wanted)
        return WORD_TOO_LATE;
    settle_begin(slot);
    slot_dirty_push(slot);
    copy_announce(copy);
    if (verdict.next == TW_NEXT_FINAL)
        tw_record_release(copy->record); /* the copy's own */
    return WORD_LANDED;
}

#define ASKED_RIGHT_NOW_NS (250 * TW_NS_PER_MS)

bool tw_engine_copy_resolve(struct tw_engine *engine, struct tw_copy *copy,
                            const Tradewake__V1__ResolveCopyRequest *request, struct tw_refusal *refusal)
{
    struct tw_check check;
    struct subject subject = subject_of(copy);
    tw_decimal filled = 0;
    if (is_said_already(&subject, request))
        return true;
    if (subject.state != STATE(UNKNOWN))
        return refuse_not_unknown(copy, &subject, refusal);
    if (!word_check(&subject, request, check_of(&check, refusal)) || !volume_read(&subject, request, &check, &filled))
        return false;
    struct tw_ack ack = ack_of(&subject, request, filled);
    enum word_end end = copy_word_land(engine, copy, &ack);
    if (end == WORD_TOO_EARLY) {
        tw_refuse(refusal, REFUSAL(BROKER_UNAVAILABLE), "copy_id",
                  "the broker is being asked for the copy \"%s\" right now", copy->id);
        refusal->retry_after_ns = ASKED_RIGHT_NOW_NS;
        return false;
    }
    if (end == WORD_TOO_LATE) {
        subject = subject_of(copy);
        return refuse_not_unknown(copy, &subject, refusal);
    }
    const char *trace_id = copy->record->trace_id;
    tw_log(TW_LOG_WARN, "copy.resolved", "copy=%s follower=%s state=%s%s%s", copy->id, copy->subscription->slot->id,
           request->state == STATE(DONE) ? "DONE" : request->state == STATE(PARTIAL) ? "PARTIAL" : "REJECTED",
           trace_id[0] != '\0' ? " trace=" : "", trace_id);
    return true;
}
