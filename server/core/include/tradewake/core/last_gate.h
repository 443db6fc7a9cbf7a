/* last_gate.h - the last look at an order, right before the adapter is called.
 *
 * It believes nothing of what planned the order: it has counters of its own, and asks of every order that opens or
 * places whether it is one that can be. What is not trips the gate: no order that opens goes to that follower
 * any more until a person has looked and armed it again (RearmGate). What closes, cancels or tightens a stop never
 * comes by here.
 *
 *     ask() -> no breach -> ... -> the call is made: count()
 *           -> a breach: trip(), and the order is not sent
 *
 * Some breaches can be configured: figures that no order of this installation ever has. The others are faults of the
 * service itself: an order larger than planned, more orders than planned, an id that went out before, an open
 * whose window is over.
 *
 * Pure: no clock, no lock; whoever owns the follower guards it. */
#ifndef TW_CORE_LAST_GATE_H
#define TW_CORE_LAST_GATE_H

#include <tradewake/base/decimal.h>
#include <tradewake/core/copy_id.h>

#include <stdbool.h>
#include <stdint.h>

/* Never renumber: the journal has them. Word in logs and metrics; what it means. */
#define TW_BREACH_MAP(X)                                                                             \
    X(VOLUME, 1, "volume", "an order of more lots than gate.order_volume")                           \
    X(NOTIONAL, 2, "notional", "an order of more money than gate.order_notional, or nobody knows")   \
    X(RATE, 3, "rate", "more orders in a second than gate.orders_per_second")                        \
    X(DAY, 4, "day", "more orders in a day than gate.orders_per_day")                                \
    X(PLANNED, 5, "planned", "an order that was not planned, or a larger one than planned")          \
    X(DUPLICATE, 6, "duplicate", "a client order id that another order had")                         \
    X(STALE, 7, "stale", "an open whose window is over")

enum tw_breach {
    TW_BREACH_NONE = 0,
#define TW_BREACH_ENUM(name, number, word, meaning) TW_BREACH_##name = number,
    TW_BREACH_MAP(TW_BREACH_ENUM)
#undef TW_BREACH_ENUM
    TW_BREACH_COUNT
};

/* "volume"; static; "none". */
const char *tw_breach_word(enum tw_breach breach);

/* Figures that no order has; 0 = anything. */
struct tw_gate_limits {
    tw_decimal order_volume;
    tw_decimal order_notional;  /* volume x contract size x price */
    uint32_t orders_per_second; /* so many at once, and as many in every second to come */
    uint32_t orders_per_day;    /* UTC */
};

enum { TW_GATE_IDS = 64 /* a power of two */ };

/* A follower's. {0} is an armed one. */
struct tw_last_gate {
    enum tw_breach tripped; /* NONE = armed */
    int64_t tripped_wall_ns;
    uint64_t planned, out;  /* orders that open: planned since the start, and called */
    int64_t due_mono_ns;    /* of the rate: how far ahead of it the orders are */
    int64_t day;            /* since 1970, of day_out */
    uint32_t day_out;
    uint64_t ids[TW_GATE_IDS]; /* of the latest orders; by their lowest bits */
};

/* An order that is about to be called. */
struct tw_gate_order {
    uint64_t id; /* tw_gate_id() of its client order id */
    bool is_first;              /* the first call under this id */
    bool is_counted;            /* its copy has called before: it is one of those that are out */
    tw_decimal volume, planned; /* now, and at most */
    tw_decimal contract_size, price; /* price UNSET = none is known */
    int64_t window_end_wall_ns;
    int64_t now_mono_ns, now_wall_ns;
};

/* 64 bits of a client order id, never 0. They are hashes already, and nobody outside chooses them. */
uint64_t tw_gate_id(const char client_order_id[TW_COPY_ID_BYTES]);

/* One more order is on its way here. */
void tw_last_gate_plan(struct tw_last_gate *gate);

/* What is wrong with the order; what tripped the gate before, when it is tripped. Changes nothing. */
enum tw_breach tw_last_gate_ask(const struct tw_last_gate *gate, const struct tw_gate_limits *limits,
                                const struct tw_gate_order *order);

/* The call is made. */
void tw_last_gate_count(struct tw_last_gate *gate, const struct tw_gate_limits *limits, const struct tw_gate_order *order);

void tw_last_gate_trip(struct tw_last_gate *gate, enum tw_breach breach, int64_t now_wall_ns);

/* Armed, and what is counted in a second and a day begins anew. */
void tw_last_gate_rearm(struct tw_last_gate *gate);

#endif
