/* order.h - what goes to a broker and what comes back, as plain values.
 *
 * Numbers of enums equal those of tradewake.v1 where both have them. Decimals are scaled by 1e-8. */
#ifndef TW_ADAPTERS_ORDER_H
#define TW_ADAPTERS_ORDER_H

#include <tradewake/base/decimal.h>
#include <tradewake/base/limits.h>

#include <tradewake/v1/types.pb-c.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef Tradewake__V1__Reason tw_reason;

enum tw_side { TW_SIDE_NONE = 0, TW_BUY = 1, TW_SELL = 2 };
enum tw_order_type {
    TW_ORDER_NONE = 0,
    TW_ORDER_MARKET = 1,
    TW_ORDER_LIMIT = 2,
    TW_ORDER_STOP = 3,
    TW_ORDER_STOP_LIMIT = 4,
};

static inline enum tw_side tw_side_opposite(enum tw_side side)
{
    return side == TW_BUY ? TW_SELL : side == TW_SELL ? TW_BUY : TW_SIDE_NONE;
}

/* What we know about an order. Zero is the careful value: an answer that nobody filled in is
 * AMBIGUOUS. Whether an order is sent again is decided from this word alone, in one place
 * (server/core/retry). */
enum tw_outcome {
    TW_OUTCOME_AMBIGUOUS = 0, /* it may be live: ask the broker, never send it again blindly */
    TW_OUTCOME_DONE,          /* as asked, in full */
    TW_OUTCOME_ACCEPTED,      /* the broker has it; what becomes of it comes by a push or a look-up */
    TW_OUTCOME_PARTIAL,       /* part of it (filled_volume); the rest is gone */
    TW_OUTCOME_NO_CHANGE,     /* it was in the wanted state already: a success */
    TW_OUTCOME_RETRY_NOW,     /* certainly not executed: the price moved */
    TW_OUTCOME_RETRY_LATER,   /* certainly not executed: busy, limited, offline */
    TW_OUTCOME_REJECTED,      /* certainly not executed, and the same order never will be */
    TW_OUTCOME_NOT_FOUND,     /* mutating: its position or order is gone, final; look-up: not seen now */
    TW_OUTCOME_UNSUPPORTED,   /* this adapter cannot do that; nothing was sent */
};

enum tw_order_op {
    TW_OP_OPEN,         /* market: symbol, side, volume, stop_loss, take_profit, price as a hint */
    TW_OP_CLOSE,        /* position_id (hedging) or symbol and side of the position (netting); volume */
    TW_OP_MODIFY,       /* position_id or symbol: stop_loss, take_profit */
    TW_OP_PLACE,        /* type limit, stop, stop-limit: price, stop_price, volume, expiry, stops */
    TW_OP_MODIFY_ORDER, /* order_id: price, stop_price, stops, expiry */
    TW_OP_CANCEL,       /* order_id */
};

/* One order call. Absent decimals are TW_DECIMAL_UNSET, in modifications: leave as it is; a stop of 0
 * means none, or remove it. */
struct tw_order {
    enum tw_order_op op;
    enum tw_side side; /* of the order; of the position for MODIFY; a close of a long one is a SELL */
    enum tw_order_type type;
    uint32_t attempt;  /* 0 for the first call of this client_order_id */
    char client_order_id[TW_COPY_ID_BYTES];
    char symbol[TW_SYMBOL_BYTES]; /* the follower's name of it */
    char position_id[TW_BROKER_ID_BYTES];
    char order_id[TW_BROKER_ID_BYTES];
    tw_decimal volume; /* CLOSE: UNSET = all there is */
    tw_decimal price;  /* market: the event's price, what a broker without quotes trades at */
    tw_decimal stop_price;
    tw_decimal stop_loss;
    tw_decimal take_profit;
    int64_t expires_wall_ns; /* 0 = good till cancelled; MODIFY_ORDER: -1 = leave, 0 = remove */
    bool reduce_only;        /* netting closes: never cross zero; with nothing to close NOT_FOUND */
};

/* The answer. The caller zeroes it; an adapter fills in what it knows. */
struct tw_ack {
    enum tw_outcome outcome;
    tw_reason reason;        /* the broker's why in our vocabulary; UNSPECIFIED = none */
    int32_t broker_code;
    bool not_sent;           /* it never left the adapter */
    bool stops_missing;      /* executed, but its stops are not at the broker */
    char order_id[TW_BROKER_ID_BYTES];
    char position_id[TW_BROKER_ID_BYTES];
    char remainder_position_id[TW_BROKER_ID_BYTES]; /* the new ticket of what a partial close left */
    char broker_message[TW_BROKER_TEXT_BYTES];
    tw_decimal filled_volume;    /* by this order, all its executions; 0 = nothing */
    tw_decimal average_price;    /* 0 = unknown */
    tw_decimal remaining_volume; /* of the position, CLOSE; UNSET = not said */
    int64_t retry_after_ns;      /* 0 = the caller's back-off */
};

struct tw_instrument {
    tw_decimal volume_min, volume_step, volume_max;
    tw_decimal contract_size;
    tw_decimal tick_size;
    tw_decimal min_notional;    /* 0 = none */
    tw_decimal stops_distance;  /* in price; 0 = none */
    tw_decimal freeze_distance; /* in price; 0 = none */
    char base_currency[8], profit_currency[8]; /* "" = the account's */
    char symbol[TW_SYMBOL_BYTES]; /* last: what is reckoned with lies together */
};

struct tw_account {
    char currency[8];
    tw_decimal balance, equity, free_margin; /* UNSET = unknown */
    uint32_t leverage;                       /* 0 = unknown */
};

struct tw_held_position {
    char position_id[TW_BROKER_ID_BYTES];
    char symbol[TW_SYMBOL_BYTES];
    enum tw_side side;
    tw_decimal volume, open_price, stop_loss, take_profit; /* stops: 0 = none */
    char client_order_id[TW_COPY_ID_BYTES]; /* "" = not ours */
    char from_position_id[TW_BROKER_ID_BYTES]; /* the ticket this is the remainder of; "" = none */
};

struct tw_held_order {
    char order_id[TW_BROKER_ID_BYTES];
    char symbol[TW_SYMBOL_BYTES];
    enum tw_side side;
    enum tw_order_type type;
    tw_decimal volume, price, stop_price, stop_loss, take_profit;
    char client_order_id[TW_COPY_ID_BYTES];
    int64_t expires_wall_ns; /* 0 = none */
};

/* Everything an account holds, complete or not at all. Arrays from the heap. */
struct tw_snapshot {
    bool complete;
    int64_t as_of_wall_ns;
    struct tw_account account;
    struct tw_held_position *positions;
    struct tw_held_order *orders;
    size_t n_positions, n_orders;
};

void tw_snapshot_clear(struct tw_snapshot *snapshot);

#endif
