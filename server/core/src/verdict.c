#include <tradewake/core/verdict.h>

#include <tradewake/base/clock.h>
#include <tradewake/base/limits.h>

#include <assert.h>

#define STATE(name) TRADEWAKE__V1__COPY_STATE__COPY_STATE_##name
#define REASON(name) TRADEWAKE__V1__REASON__REASON_##name

#define LOOKUP_BACKOFF_MIN_NS (250 * TW_NS_PER_MS)
#define BACKOFF_MAX_NS        (5 * TW_NS_PER_S)
#define LOOKUP_AGAIN_NS       (50 * TW_NS_PER_MS)

enum { ABSENCES_FOR_PROOF = 2 };

/* ---- The table: a no that may become a yes, and what is waited for until then ---- */

enum who {
    WHOEVER, /* opens and changes too, a few times; an open inside its window */
    REDUCING /* final for an open or a change: what takes risk away goes on */
};

/* The first row that fits counts. No row: the outcome is not a no. */
static const struct retry {
    enum tw_outcome outcome;
    tw_reason reason;  /* UNSPECIFIED: any */
    bool is_unsent;    /* only when it never left the adapter */
    enum who who;
    enum tw_next next;
    int64_t first_ns;  /* CALL: waits so long after the first call, twice as long after each further one, to 5 s */
    tw_reason otherwise; /* where the answer names none */
} retries[] = {
    /* A fresh price is there at once; a breath for the venue. */
    {TW_OUTCOME_RETRY_NOW, REASON(UNSPECIFIED), false, WHOEVER, TW_NEXT_CALL, 10 * TW_NS_PER_MS, REASON(BUSY)},
    {TW_OUTCOME_RETRY_LATER, REASON(NO_CONNECTION), true, WHOEVER, TW_NEXT_CONNECT, 0, REASON(NO_CONNECTION)},
    {TW_OUTCOME_RETRY_LATER, REASON(UNSPECIFIED), false, WHOEVER, TW_NEXT_CALL, 100 * TW_NS_PER_MS, REASON(BUSY)},
    {TW_OUTCOME_REJECTED, REASON(MARKET_CLOSED), false, REDUCING, TW_NEXT_MARKET, 0, REASON(MARKET_CLOSED)},
    {TW_OUTCOME_REJECTED, REASON(UNSPECIFIED), false, REDUCING, TW_NEXT_CALL, 100 * TW_NS_PER_MS, REASON(BROKER_OTHER)},
    {TW_OUTCOME_UNSUPPORTED, REASON(MARKET_CLOSED), false, REDUCING, TW_NEXT_MARKET, 0, REASON(MARKET_CLOSED)},
    {TW_OUTCOME_UNSUPPORTED, REASON(UNSPECIFIED), false, REDUCING, TW_NEXT_CALL, 100 * TW_NS_PER_MS, REASON(BROKER_OTHER)},
};

static const struct retry *retry_of(const struct tw_ack *ack)
{
    for (size_t i = 0; i < sizeof retries / sizeof retries[0]; i++)
        if (retries[i].outcome == ack->outcome && (!retries[i].is_unsent || ack->not_sent) &&
            (retries[i].reason == REASON(UNSPECIFIED) || retries[i].reason == ack->reason))
            return &retries[i];
    return NULL;
}

/* min_ns after the first time, then doubling. */
static int64_t back_off(int64_t min_ns, uint32_t times)
{
    int64_t wait_ns = min_ns;
    for (uint32_t i = 1; i < times && wait_ns < BACKOFF_MAX_NS; i++)
        wait_ns *= 2;
    return wait_ns < BACKOFF_MAX_NS ? wait_ns : BACKOFF_MAX_NS;
}

/* An eighth less to an eighth more, each copy its own share of that: what failed together does not come back
 * together. */
static int64_t apart(const struct tw_call_state *state, int64_t wait_ns)
{
    int64_t quarter_ns = wait_ns / 4;
    return wait_ns - quarter_ns / 2 + (int64_t)((uint64_t)quarter_ns * state->spread >> 32);
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

/* The same bound for what is not a reduction, whatever it waits for. */
static bool may_call_again(const struct tw_call_state *state, int64_t wait_ns)
{
    if (state->reduces_risk)
        return true;
    if (opens(state) && (state->is_position_closed || wait_ns >= state->window_left_ns))
        return false;
    return state->calls < TW_CALLS_PER_OPEN_MAX;
}

/* The broker's last word on this order. A close goes on all the same: its position is still there. A tighter stop is
 * tried again a few times: the price moves. */
static bool is_final(const struct tw_call_state *state, const struct retry *retry)
{
    return retry->who == REDUCING &&
           (!state->reduces_risk || (state->op == TW_OP_MODIFY && state->calls >= TW_CALLS_PER_OPEN_MAX));
}

/* Certainly not executed. */
static struct tw_verdict refused(const struct tw_call_state *state, const struct tw_ack *ack, int64_t now_mono_ns)
{
    const struct retry *retry = retry_of(ack);
    assert(retry != NULL);
    tw_reason reason = reason_or(ack, retry->otherwise);
    if (is_final(state, retry))
        return final(STATE(REJECTED), reason);
    if (retry->next != TW_NEXT_CALL)
        return (struct tw_verdict){.next = retry->next, .state = STATE(QUEUED), .reason = reason,
                                   .same_id_again = ack->not_sent};
    int64_t wait_ns = apart(state, back_off(retry->first_ns, state->calls));
    if (ack->retry_after_ns > wait_ns)
        wait_ns = ack->retry_after_ns;
    if (!may_call_again(state, wait_ns))
        return final(STATE(REJECTED), reason);
    return call_at(now_mono_ns + wait_ns, reason, ack->not_sent && retry->who == WHOEVER);
}

static struct tw_verdict ask(const struct tw_call_state *state, const struct tw_ack *ack,
                             int64_t now_mono_ns)
{
    return (struct tw_verdict){
        .next = TW_NEXT_LOOKUP,
        .at_mono_ns = now_mono_ns + back_off(LOOKUP_BACKOFF_MIN_NS, state->lookups + 1),
        .state = STATE(UNKNOWN),
        .reason = reason_or(ack, REASON(TIMEOUT)),
    };
}

/* Once more, to be sure. What may last have been sent long ago is not waited for: after a start a netting account's
 * orders, all of one key, are asked for one after the other. */
static struct tw_verdict ask_for_proof(const struct tw_call_state *state, const struct tw_ack *ack, int64_t now_mono_ns)
{
    struct tw_verdict verdict = ask(state, ack, now_mono_ns);
    bool is_long_ago = now_mono_ns - state->call_deadline_mono_ns - state->settle_ns > BACKOFF_MAX_NS;
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
    case TW_OUTCOME_RETRY_LATER:
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
