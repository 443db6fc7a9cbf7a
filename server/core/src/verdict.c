#include <tradewake/core/verdict.h>

#include <tradewake/base/clock.h>
#include <tradewake/base/limits.h>

#define STATE(name) TRADEWAKE__V1__COPY_STATE__COPY_STATE_##name
#define REASON(name) TRADEWAKE__V1__REASON__REASON_##name

#define CALL_BACKOFF_MIN_NS (100 * TW_NS_PER_MS)
#define CALL_BACKOFF_MAX_NS (5 * TW_NS_PER_S)
#define LOOKUP_BACKOFF_MIN_NS (250 * TW_NS_PER_MS)
#define LOOKUP_BACKOFF_MAX_NS (5 * TW_NS_PER_S)
#define LOOKUP_AGAIN_NS (50 * TW_NS_PER_MS)
#define PRICE_MOVED_NS (10 * TW_NS_PER_MS) /* a fresh price is there at once; a breath for the venue */

enum { ABSENCES_FOR_PROOF = 2 };

static int64_t back_off(int64_t min_ns, int64_t max_ns, uint32_t times)
{
    int64_t wait_ns = min_ns;
    for (uint32_t i = 1; i < times && wait_ns < max_ns; i++)
        wait_ns *= 2;
    return wait_ns < max_ns ? wait_ns : max_ns;
}

static struct tw_verdict final(Tradewake__V1__CopyState state, tw_reason reason)
{
    return (struct tw_verdict){.next = TW_NEXT_FINAL, .state = state, .reason = reason};
}

static tw_reason reason_or(const struct tw_ack *ack, tw_reason otherwise)
{
    return ack->reason != REASON(UNSPECIFIED) ? ack->reason : otherwise;
}

static struct tw_verdict call_at(int64_t at_mono_ns, tw_reason reason, bool same_id_again)
{
    return (struct tw_verdict){.next = TW_NEXT_CALL, .at_mono_ns = at_mono_ns, .state = STATE(QUEUED),
                               .reason = reason, .same_id_again = same_id_again};
}

static bool opens(const struct tw_call_state *state)
{
    return state->op == TW_OP_OPEN || state->op == TW_OP_PLACE;
}

static bool may_call_again(const struct tw_call_state *state, int64_t wait_ns)
{
    if (state->reduces_risk)
        return true;
    if (opens(state) && (state->is_position_closed || wait_ns >= state->window_left_ns))
        return false;
    return state->calls < TW_CALLS_PER_OPEN_MAX;
}

/* Certainly not executed; the broker, or the way to it, may think differently later. */
static struct tw_verdict again(const struct tw_call_state *state, const struct tw_ack *ack,
                               int64_t wait_ns, int64_t now_mono_ns)
{
    tw_reason reason = reason_or(ack, REASON(BUSY));
    if (ack->retry_after_ns > wait_ns)
        wait_ns = ack->retry_after_ns;
    if (reason == REASON(NO_CONNECTION) && ack->not_sent)
        return (struct tw_verdict){.next = TW_NEXT_CONNECT, .state = STATE(QUEUED), .reason = reason,
                                   .same_id_again = true};
    if (!may_call_again(state, wait_ns))
        return final(STATE(REJECTED), reason);
    return call_at(now_mono_ns + wait_ns, reason, ack->not_sent);
}

/* The broker's last word on this order. A close goes on all the same: its position is still there. A tighter stop is
 * tried again a few times: the price moves. */
static struct tw_verdict refused(const struct tw_call_state *state, const struct tw_ack *ack,
                                 int64_t now_mono_ns)
{
    tw_reason reason = reason_or(ack, REASON(BROKER_OTHER));
    bool is_change = state->op == TW_OP_MODIFY;
    if (!state->reduces_risk || (is_change && state->calls >= TW_CALLS_PER_OPEN_MAX))
        return final(STATE(REJECTED), reason);
    if (reason == REASON(MARKET_CLOSED))
        return (struct tw_verdict){.next = TW_NEXT_MARKET, .state = STATE(QUEUED), .reason = reason};
    return call_at(now_mono_ns + back_off(CALL_BACKOFF_MIN_NS, CALL_BACKOFF_MAX_NS, state->calls),
                   reason, false);
}

static struct tw_verdict ask(const struct tw_call_state *state, const struct tw_ack *ack,
                             int64_t now_mono_ns)
{
    return (struct tw_verdict){
        .next = TW_NEXT_LOOKUP,
        .at_mono_ns = now_mono_ns + back_off(LOOKUP_BACKOFF_MIN_NS, LOOKUP_BACKOFF_MAX_NS,
                                             state->lookups + 1),
        .state = STATE(UNKNOWN),
        .reason = reason_or(ack, REASON(TIMEOUT)),
    };
}

/* Once more, to be sure. What may last have been sent long ago is not waited for: after a start a netting account's
 * orders, all of one key, are asked for one after the other. */
static struct tw_verdict ask_for_proof(const struct tw_call_state *state, const struct tw_ack *ack, int64_t now_mono_ns)
{
    struct tw_verdict verdict = ask(state, ack, now_mono_ns);
    bool is_long_ago = now_mono_ns - state->call_deadline_mono_ns - state->settle_ns > LOOKUP_BACKOFF_MAX_NS;
    if (is_long_ago)
        verdict.at_mono_ns = now_mono_ns + LOOKUP_AGAIN_NS;
    return verdict;
}

/* Part of a close is no end: the rest goes on. Part of an open is all there will be. */
static struct tw_verdict partly(const struct tw_call_state *state, const struct tw_ack *ack,
                                int64_t now_mono_ns)
{
    if (state->op == TW_OP_CLOSE)
        return call_at(now_mono_ns, REASON(UNSPECIFIED), false);
    return final(STATE(PARTIAL), reason_or(ack, REASON(BROKER_OTHER)));
}

/* What it was about is not there any more. */
static struct tw_verdict gone(const struct tw_call_state *state)
{
    switch (state->op) {
    case TW_OP_OPEN:
    case TW_OP_PLACE:
        return final(STATE(REJECTED), REASON(BROKER_OTHER));
    case TW_OP_MODIFY_ORDER:
        return final(STATE(DONE), REASON(NO_CHANGE));
    case TW_OP_CLOSE:
    case TW_OP_MODIFY:
    case TW_OP_CANCEL:
        break;
    }
    return final(STATE(DONE), REASON(ALREADY_CLOSED));
}

struct tw_verdict tw_verdict_on_answer(const struct tw_call_state *state, const struct tw_ack *ack,
                                       int64_t now_mono_ns)
{
    switch (ack->outcome) {
    case TW_OUTCOME_DONE:
        return final(STATE(DONE), ack->stops_missing ? REASON(UNPROTECTED) : REASON(UNSPECIFIED));
    case TW_OUTCOME_NO_CHANGE:
        return final(STATE(DONE), REASON(NO_CHANGE));
    case TW_OUTCOME_PARTIAL:
        return partly(state, ack, now_mono_ns);
    case TW_OUTCOME_RETRY_NOW:
        return again(state, ack, PRICE_MOVED_NS, now_mono_ns);
    case TW_OUTCOME_RETRY_LATER:
        return again(state, ack, back_off(CALL_BACKOFF_MIN_NS, CALL_BACKOFF_MAX_NS, state->calls),
                     now_mono_ns);
    case TW_OUTCOME_REJECTED:
    case TW_OUTCOME_UNSUPPORTED:
        return refused(state, ack, now_mono_ns);
    case TW_OUTCOME_NOT_FOUND:
        return gone(state);
    case TW_OUTCOME_ACCEPTED:
    case TW_OUTCOME_AMBIGUOUS:
        break;
    }
    return ask(state, ack, now_mono_ns);
}

struct tw_verdict tw_verdict_on_lookup(const struct tw_call_state *state, const struct tw_ack *ack,
                                       int64_t now_mono_ns, bool *ret_absence)
{
    *ret_absence = false;
    switch (ack->outcome) {
    case TW_OUTCOME_DONE:
    case TW_OUTCOME_PARTIAL:
    case TW_OUTCOME_NO_CHANGE:
    case TW_OUTCOME_REJECTED:
        return tw_verdict_on_answer(state, ack, now_mono_ns);
    case TW_OUTCOME_ACCEPTED: /* a pending order is done when it waits at the broker */
        if (state->op == TW_OP_PLACE && ack->order_id[0] != '\0')
            return final(STATE(DONE), REASON(UNSPECIFIED));
        break;
    default:
        break;
    }

    const struct tw_ack unknown = {.reason = REASON(TIMEOUT)};
    bool is_settled = now_mono_ns > state->call_deadline_mono_ns + state->settle_ns;
    if (ack->outcome != TW_OUTCOME_NOT_FOUND || !is_settled)
        return ask(state, &unknown, now_mono_ns);

    *ret_absence = true;
    if (state->absences + 1 < ABSENCES_FOR_PROOF)
        return ask_for_proof(state, &unknown, now_mono_ns);
    /* A close or a change that comes twice does no harm; an open does, so the adapter must stand by it. */
    if ((state->not_found_is_final || !opens(state)) && may_call_again(state, 0))
        return call_at(now_mono_ns, REASON(UNSPECIFIED), true);
    return final(STATE(REJECTED), REASON(NOT_EXECUTED));
}
