/* verdict.h - what an answer of a broker leads to: the one place where it is decided whether an order
 * is called again.
 *
 * Opens are called at most TW_CALLS_PER_OPEN_MAX times and only inside their window; closes until the
 * position is flat. A tighter stop that is refused is called as often as an open. Waits double to
 * 5 s, an eighth shorter or longer, each copy's by its own share. One table says which no is waited
 * out, and how. What may have executed is looked up, and called again only on proof that it did not.
 * Pure: state, answer and now_ns in; one verdict out. */
#ifndef TW_CORE_VERDICT_H
#define TW_CORE_VERDICT_H

#include <tradewake/adapters/order.h>

#include <tradewake/v1/copies.pb-c.h>

#include <stdbool.h>
#include <stdint.h>

enum tw_next {
    TW_NEXT_FINAL,   /* the copy is over: state and reason */
    TW_NEXT_CALL,    /* make an order call, at the earliest at at_mono_ns */
    TW_NEXT_LOOKUP,  /* ask what became of it, at at_mono_ns */
    TW_NEXT_CONNECT, /* call when the connection is back */
    TW_NEXT_MARKET,  /* call when the market opens */
};

struct tw_verdict {
    enum tw_next next;
    int64_t at_mono_ns;
    Tradewake__V1__CopyState state; /* now: final, QUEUED or UNKNOWN */
    tw_reason reason;
    bool same_id_again; /* the id is not used up: not executed is proved, or the call never left */
};

/* What is known of one copy when an answer comes. */
struct tw_call_state {
    enum tw_order_op op;
    bool reduces_risk;         /* a close, a cancel, a tighter stop: not given up after one no */
    uint32_t calls;            /* order calls made, this one included */
    uint32_t lookups;          /* since the last order call */
    uint32_t absences;         /* look-ups since the last call that prove absence */
    bool is_position_closed;   /* by the master: an open is not sent again */
    int64_t window_left_ns;    /* until the open is too old; may be negative */
    int64_t call_deadline_mono_ns; /* of the last order call */
    int64_t settle_ns;         /* after that deadline, NOT_FOUND proves nothing for so long */
    bool not_found_is_final;   /* the adapter's word */
    uint32_t spread;           /* of the copy and its call: where in its quarter a wait ends, over 2^32 */
};

/* After an order call. */
struct tw_verdict tw_verdict_on_answer(const struct tw_call_state *state, const struct tw_ack *ack,
                                       int64_t now_mono_ns);

/* After a look-up. An executed order ends as its answer would have; *ret_absence: this one proves
 * absence (count it). */
struct tw_verdict tw_verdict_on_lookup(const struct tw_call_state *state, const struct tw_ack *ack,
                                       int64_t now_mono_ns, bool *ret_absence);

#endif
