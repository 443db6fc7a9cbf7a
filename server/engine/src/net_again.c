/* net_again.c - a netting order that was only to reduce, and found nothing on its side.
 *
 * Then our shares do not add up to what the account has. An order of ours has filled that nobody has told of, and the
 * account is at zero or beyond: who waits at the broker is asked for, one after the other, and as soon as one has
 * filled, what is left to do is decided anew, by what the shares add up to then. Nothing was executed, so nothing can
 * come twice. When no order explains it, a hand has closed it. Under the slot's mutex. */
#include "copy.h"

#include <string.h>

/* What is left of it brings the account nearer to zero, as far as we know. */
static bool is_reduction(const struct tw_copy *copy)
{
    return tw_net_decide(slot_net(copy_slot(copy), copy->listing), (enum tw_side)copy->side, 1).is_reduction;
}

/* Another share of the symbol whose order waits at the broker, as far as we know: the first by number from this one
 * on. Under the slot's mutex. */
struct tw_leg *net_waiting_share(const struct tw_copy *copy, uint64_t from)
{
    struct tw_leg *first = NULL;
    for (struct tw_leg *leg = copy_slot(copy)->legs; leg != NULL; leg = leg->next)
        if (leg->listing == copy->listing && leg != copy->leg && leg->is_pending && leg->number >= from &&
            (first == NULL || leg->number < first->number))
            first = leg;
    return first;
}

/* The next share to be asked for, from this number on. True: it goes on. */
static bool share_ask(struct tw_copy *copy, uint64_t from, struct tw_verdict *verdict)
{
    const struct tw_leg *waiting = net_waiting_share(copy, from);
    copy->asks_share = waiting != NULL ? waiting->number : 0;
    copy->lookups = copy->absences = 0;
    if (waiting == NULL)
        return false;
    *verdict = (struct tw_verdict){.next = TW_NEXT_LOOKUP, .state = STATE(UNKNOWN), .at_mono_ns = tw_mono_ns()};
    return true;
}

/* No order of ours explains it: the share that was to be closed is not there. But where a power cut may have taken events
 * that a broker knows, an order of one of them has closed it, and stands for another share as soon as the event comes
 * again: then the share stays, for what it adds up to; settle.c closes it when it is due. */
static void share_is_gone(struct tw_copy *copy)
{
    struct tw_slot *slot = copy_slot(copy);
    slot->compared_mono_ns = 0; /* the broker is asked for all that it holds */
    if (copy->op != TW_OP_OPEN && !may_miss_events(slot->engine, tw_wall_ns()))
        leg_close(copy->leg);
}

/* True: it goes on. */
bool copy_reduce_again(struct tw_copy *copy, struct tw_verdict *verdict)
{
    if (copy->leg->is_closed || (copy->op == TW_OP_OPEN && copy->calls >= TW_CALLS_PER_OPEN_MAX))
        return false;
    if (!is_reduction(copy)) { /* the fill was told while the order was on its way */
        copy->id_attempt++;
        copy->adapter_attempt = 0;
        *verdict = (struct tw_verdict){.next = TW_NEXT_CALL, .state = STATE(QUEUED), .at_mono_ns = tw_mono_ns()};
        return true;
    }
    if (share_ask(copy, 1, verdict))
        return true;
    share_is_gone(copy);
    return false;
}

/* What became of the order of the share that was asked for. */
struct tw_verdict copy_share_asked(struct tw_copy *copy, const struct flight *flight)
{
    const struct tw_ack *ack = &flight->call.ack;
    struct tw_leg *leg = leg_of_order(copy_slot(copy), flight->call.order.client_order_id); /* NULL: news came meanwhile */
    struct tw_verdict verdict = {.next = TW_NEXT_CALL, .state = STATE(QUEUED), .at_mono_ns = tw_mono_ns()};
    applied_note(copy);
    bool is_absent = ack->outcome == TW_OUTCOME_NOT_FOUND || ack->outcome == TW_OUTCOME_UNSUPPORTED;
    if (leg != NULL && !leg_order_asked(leg, ack) && !(is_absent && copy_absence_count(copy)))
        return copy_ask_open_again(copy);
    if (copy->leg->is_closed || !is_reduction(copy) || ack->filled_volume > 0)
        copy->asks_share = 0;
    else if (!share_ask(copy, copy->asks_share + 1, &verdict)) {
        share_is_gone(copy);
        verdict = copy->op == TW_OP_OPEN
                      ? (struct tw_verdict){.next = TW_NEXT_FINAL, .state = STATE(REJECTED), .reason = REASON(BROKER_OTHER)}
                      : (struct tw_verdict){.next = TW_NEXT_FINAL, .state = STATE(DONE), .reason = REASON(ALREADY_CLOSED)};
    }
    return verdict;
}
