/* copy_next.c - what follows from an answer: another order of the same copy, a question, a wait, or the end. Under the
 * slot's mutex. */
#include "copy.h"

#include <tradewake/base/crash_point.h>

/* The second order has leg 1; further ones of a leg with many tickets count on from there. */
static void next_order(struct tw_copy *copy)
{
    copy->id_attempt = copy->order_leg == 0 ? 0 : copy->id_attempt + 1;
    copy->order_leg = 1;
    copy->adapter_attempt = 0;
}

/* The cancel found nothing: the order has filled, which the broker has told or is asked for, or it is gone.
 * True: it goes on. */
static bool cancel_again(struct tw_copy *copy, struct tw_verdict *verdict)
{
    const struct tw_leg *leg = copy->leg;
    if (leg->is_closed)
        return false;
    if (leg->held > 0) {
        copy->id_attempt++; /* the close of what it became is another order */
        *verdict = (struct tw_verdict){.next = TW_NEXT_CALL, .state = STATE(QUEUED)};
        return true;
    }
    copy->asks_open = true;
    copy->lookups = copy->absences = 0;
    *verdict = (struct tw_verdict){.next = TW_NEXT_LOOKUP, .state = STATE(UNKNOWN), .at_mono_ns = tw_mono_ns()};
    return true;
}

struct tw_verdict copy_ask_open_again(struct tw_copy *copy)
{
    int64_t wait_ns = CANCEL_AGAIN_NS << (copy->lookups < 6 ? copy->lookups : 6);
    if (copy->lookups < UINT8_MAX)
        copy->lookups++;
    return (struct tw_verdict){.next = TW_NEXT_LOOKUP, .state = STATE(UNKNOWN), .reason = REASON(TIMEOUT),
                               .at_mono_ns = tw_mono_ns() + (wait_ns < ASK_AGAIN_NS_MAX ? wait_ns : ASK_AGAIN_NS_MAX)};
}

/* Not found once more; it proves something only after the settle time. True: so often that it is gone. */
bool copy_absence_count(struct tw_copy *copy)
{
    int64_t settled_ns = copy->call_deadline_mono_ns + (int64_t)copy_slot(copy)->caps.settle_ms * TW_NS_PER_MS;
    copy->absences = (uint8_t)(copy->absences + (tw_mono_ns() > settled_ns));
    return copy->absences >= CANCELS_LOST_MAX;
}

/* What became of the order that a cancel did not find. It filled: the copy goes on and closes that; it waits:
 * it is cancelled once more; it is gone. */
struct tw_verdict copy_open_asked(struct tw_copy *copy, const struct tw_ack *ack)
{
    struct tw_leg *leg = copy->leg;
    struct tw_verdict again = {.next = TW_NEXT_CALL, .state = STATE(QUEUED), .at_mono_ns = tw_mono_ns()};
    applied_note(copy);
    switch (ack->outcome) {
    case TW_OUTCOME_DONE:
    case TW_OUTCOME_PARTIAL:
        if (ack->filled_volume > 0 && leg->is_pending && !leg->is_closed)
            leg_filled(leg, ack->filled_volume, ack->position_id);
        else if (ack->filled_volume == 0 && leg->held == 0)
            leg_close(leg);
        break;
    case TW_OUTCOME_ACCEPTED:
        again.at_mono_ns += CANCEL_AGAIN_NS;
        break;
    case TW_OUTCOME_REJECTED:
        if (leg->held == 0)
            leg_close(leg);
        break;
    case TW_OUTCOME_NOT_FOUND:
    case TW_OUTCOME_UNSUPPORTED:
        if (!copy_absence_count(copy) && leg->held == 0)
            return copy_ask_open_again(copy);
        if (leg->held == 0)
            leg_close(leg);
        break;
    default:
        return copy_ask_open_again(copy);
    }
    copy->asks_open = false;
    return again;
}

/* Whether a copy whose order has ended takes another one: late stops, the second order of a netting
 * account, or what a lost cancel leaves to do. *verdict then says when. */
static bool takes_another(struct tw_copy *copy, const struct flight *flight, struct tw_verdict *verdict)
{
    const struct tw_ack *ack = &flight->call.ack;
    const struct tw_order *order = &flight->call.order;
    if (order->op == TW_OP_CANCEL && ack->outcome == TW_OUTCOME_NOT_FOUND)
        return cancel_again(copy, verdict);
    if (order->op == TW_OP_MODIFY_ORDER && copy->op == TW_OP_MODIFY && ack->outcome == TW_OUTCOME_NOT_FOUND)
        return copy_modify_again(copy, verdict);
    if (order->op == TW_OP_CLOSE && copy_slot(copy)->caps.netting && ack->outcome == TW_OUTCOME_NOT_FOUND &&
        flight->phase == PHASE_CALL)
        return copy_reduce_again(copy, verdict);
    if (verdict->state != STATE(DONE) || copy->is_protecting)
        return false;
    bool has_stops = copy->stop_loss > 0 || copy->take_profit > 0;
    if (copy->op == TW_OP_OPEN && ack->stops_missing && has_stops && !copy->leg->is_closed) {
        copy->is_protecting = true;
        next_order(copy);
        *verdict = (struct tw_verdict){.next = TW_NEXT_CALL, .state = STATE(SENT),
                                       .reason = REASON(UNPROTECTED), .same_id_again = true};
        return true;
    }
    bool is_close = copy->op == TW_OP_CLOSE || (copy->op == TW_OP_CANCEL && copy_op_answered(flight) != TW_OP_CANCEL);
    /* Each further order has moved something: a volume is filled, or a ticket is gone from the leg. */
    bool is_netting = copy_slot(copy)->caps.netting;
    bool has_moved = (ack->outcome == TW_OUTCOME_DONE && ack->filled_volume > 0) ||
                     (ack->outcome == TW_OUTCOME_NOT_FOUND && !is_netting);
    bool has_more = is_close ? copy_leaves_something(copy)
                             : copy->op == TW_OP_OPEN && is_netting && copy->filled < copy->volume;
    bool is_next_ticket = copy->op == TW_OP_MODIFY && !copy->leg->is_closed &&
                          leg_ticket_at(copy->leg, copy->tickets_done + 1u) != NULL;
    if (is_next_ticket)
        copy->tickets_done++;
    if (is_next_ticket || (has_more && has_moved)) {
        next_order(copy);
        *verdict = (struct tw_verdict){.next = TW_NEXT_CALL, .state = STATE(QUEUED), .same_id_again = true};
        return true;
    }
    return false;
}

/* What the verdict makes of the copy. Under the slot's mutex. */
void copy_follow(struct tw_copy *copy, const struct flight *flight, struct tw_verdict *verdict)
{
    bool goes_on = false;
    if (copy->op == TW_OP_MODIFY && verdict->next == TW_NEXT_CALL)
        copy_refused_wait(copy, verdict);
    if (verdict->next == TW_NEXT_FINAL) {
        goes_on = takes_another(copy, flight, verdict);
        tw_crash_point_if(goes_on, "copy.second_order");
        if (!goes_on && copy->is_protecting) {
            copy_conclude(copy, STATE(DONE), verdict->state == STATE(DONE) ? REASON(UNSPECIFIED)
                                                                      : REASON(UNPROTECTED));
            return;
        }
        if (!goes_on) {
            copy_conclude(copy, verdict->state, verdict->reason);
            return;
        }
    }
    copy->state = (uint8_t)verdict->state;
    copy->reason = (uint8_t)verdict->reason;
    copy->updated_wall_ns = tw_wall_ns();
    copy->phase = verdict->next == TW_NEXT_LOOKUP ? PHASE_LOOKUP : PHASE_CALL;
    atomic_store_explicit(&copy->may_be_withdrawn, verdict->state == STATE(QUEUED) && copy->filled == 0,
                          memory_order_relaxed);
    if (verdict->next == TW_NEXT_LOOKUP || goes_on)
        return;
    if (verdict->same_id_again) {
        copy->adapter_attempt++;
    } else {
        copy->id_attempt++;
        copy->adapter_attempt = 0;
    }
}
