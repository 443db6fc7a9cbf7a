/* plan.h - what one follower does about one event: pure functions of the event, the follower as it is
 * now, and the time. No clock, thread, I/O or allocation.
 *
 * An opening is decided by a row of rules in a fixed order; the first that says no gives the reason.
 * A closing is decided by what the copy is, never by today's filters. */
#ifndef TW_CORE_PLAN_H
#define TW_CORE_PLAN_H

#include <tradewake/core/event.h>
#include <tradewake/core/market.h>
#include <tradewake/core/rules.h>

#include <tradewake/v1/copies.pb-c.h>

#include <stdbool.h>
#include <stdint.h>

/* What was decided on the way, rule by rule; for people. */
enum { TW_TRACE_STEPS_MAX = 32 };
struct tw_trace_step {
    const char *rule; /* static */
    char input[96], output[96], note[160];
};
struct tw_trace {
    struct tw_trace_step steps[TW_TRACE_STEPS_MAX];
    uint32_t n_steps;
};

/* A follower as planning sees it. Borrowed for the call, under the slot's lock. */
struct tw_follower_view {
    const struct tw_follower_rules *follower;
    const struct tw_rules *rules;
    const struct tw_market *market;
    const struct tw_account *account;        /* of the follower */
    const struct tw_account *master_account; /* the last one seen; NULL = none */
    bool is_halted;      /* in any scope */
    bool is_leaving;     /* follows out: no new positions */
    bool is_stopped_out;
    bool is_breaker_open;
    int64_t wait_ns;     /* its order would wait about so long before it can be called */
    bool is_first;       /* an increase that opens a position here: counts as one more */
    struct tw_listing *held_listing; /* what an increase adds to, with its side: NULL = nothing is held */
    bool held_is_reversed;
    uint32_t open_positions; /* coming ones included */
    struct tw_trace *trace;  /* NULL = nobody asks how it was decided */
};

enum { TW_REMARKS_MAX = 4 };

/* One entry of a plan: an order, or a reason. */
struct tw_plan {
    Tradewake__V1__CopyAction action;
    Tradewake__V1__CopyState state; /* QUEUED: to be sent; else final */
    tw_reason reason;               /* of a final state, or what a queued one waits for */
    tw_reason remarks[TW_REMARKS_MAX];
    uint32_t n_remarks;
    enum tw_order_op op;
    struct tw_listing *listing; /* NULL while the symbol is not resolved */
    enum tw_side side;          /* of the order to send */
    enum tw_order_type type;
    tw_decimal volume, price, stop_price, stop_loss, take_profit; /* UNSET = absent */
    int64_t expires_wall_ns;
    enum tw_sizing sizing; /* by which wanted came about */
    tw_decimal wanted;     /* before rounding to the step, cut to 1e-8; UNSET = not reached */
};

/* After it, an open is too old. */
int64_t tw_plan_window_end(const struct tw_event *event, const struct tw_rules *rules);

/* An opening: a market order, or a pending one by event->type. now_wall_ns: one reading for the whole
 * event. */
void tw_plan_open(const struct tw_event *event, const struct tw_follower_view *view,
                  int64_t now_wall_ns, struct tw_plan *ret);

/* Brings nearer what planning an opening for a follower will read, so that it is there when its turn comes: in four
 * steps, because each reads where the next one looks. For follower i of a row call step 0 for i + 4 x TW_PLAN_AHEAD, step 1
 * for i + 3 x TW_PLAN_AHEAD, and so on. Changes nothing. Step 0 needs no lock; what the others find
 * may be out of date, so they do under the slot's lock like everything else. symbol_head: tw_symbol_head(event->symbol),
 * once for the whole row; step 0 does not look at it. */
enum { TW_PLAN_AHEAD = 2, TW_PLAN_STEPS = 4 };
void tw_plan_prefetch(const struct tw_event *event, uint64_t symbol_head, const struct tw_follower_view *view, int step);

/* What a reduction or a close of a copy comes to, given what it is now. */
struct tw_close_input {
    tw_decimal filled;    /* at the follower, by the opens of this copy */
    tw_decimal held;      /* of it, still there */
    bool is_full;         /* the master holds nothing any more */
    tw_decimal master_remaining, master_initial; /* of a reduction */
    tw_decimal volume_min, volume_step;          /* the instrument's, now */
    tw_decimal volume_max;                       /* of one order; 0 = any */
};

struct tw_close_decision {
    tw_decimal volume; /* of the next order, at most volume_max: ask again after it; 0 = nothing is sent, for this reason: */
    tw_reason reason;  /* ALREADY_CLOSED, KEPT_MIN, NO_CHANGE or BELOW_MIN; or a remark: KEPT_MIN */
};

struct tw_close_decision tw_close_decide(const struct tw_close_input *input);

/* A hedging copy that was added to holds several positions at its broker. Which of them the next order closes, and how
 * much of it, when `volume` is to be closed of all: no order is smaller than the smallest one, unless it closes a position
 * whole, and no position is left with less. As much as that allows, of the newest positions first. held: newest first, at most TW_TICKETS_CUT_MAX are looked at. volume 0: nothing can be closed. */
enum { TW_TICKETS_CUT_MAX = 8 };
struct tw_ticket_order {
    uint32_t ticket; /* index into held */
    tw_decimal volume;
};
struct tw_ticket_order tw_tickets_decide(const tw_decimal *held, uint32_t n, tw_decimal volume,
                                         tw_decimal volume_min, tw_decimal volume_step);
/* Of one order: at most volume_max, and what is left of `volume` for the next is not too little to be one. */
tw_decimal tw_order_part(tw_decimal volume, tw_decimal volume_max, tw_decimal volume_min, tw_decimal volume_step);

/* Prices of a pending order on the instrument's ticks: away from the market. */
void tw_pending_prices(const struct tw_instrument *instrument, enum tw_side side,
                       enum tw_order_type type, tw_decimal *price, tw_decimal *stop_price);

/* What a netting account is sent for `volume` more on `side`, when what is ours of the symbol adds up
 * to net (below 0 = short): first what brings it to zero, as a reduction; the rest is another order. */
struct tw_net_order {
    bool is_reduction;
    tw_decimal volume; /* of this order; at most what was asked for */
};
struct tw_net_order tw_net_decide(tw_decimal net, enum tw_side side, tw_decimal volume);

/* Where the stops of a position are to stand at this follower, given the event's. is_reversed, and
 * which ones are ignored, as when the copy was opened. UNSET = leave as it is, 0 = remove. */
struct tw_stops_input {
    tw_decimal stop_loss, take_profit; /* the master's */
    bool is_reversed, ignores_stop_loss, ignores_take_profit;
    enum tw_side side; /* of the follower's position */
    const struct tw_listing *listing;
    tw_decimal pending_price; /* of an order that waits: its stops count from here; UNSET = a position */
};
void tw_stops_decide(const struct tw_stops_input *input, tw_decimal *ret_stop_loss,
                     tw_decimal *ret_take_profit);

/* Whether stops at `next` protect at least as well as at `now` (0 = none): in CLOSE_ONLY and under a
 * halt only such changes pass. UNSET in next = unchanged. */
bool tw_stops_tighten(enum tw_side side, tw_decimal now_stop_loss, tw_decimal now_take_profit,
                      tw_decimal next_stop_loss, tw_decimal next_take_profit);

#endif
