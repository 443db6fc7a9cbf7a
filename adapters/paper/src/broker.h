/* broker.h - what the simulated broker does with an order: the rules of hedging and netting
 * accounts, of margin, stops and pendings. Everything here runs under the account's lock and takes
 * no time; flight.c adds the time. */
#ifndef PAPER_BROKER_H
#define PAPER_BROKER_H

#include "account.h"

/* A call that has reached the broker: executes it or refuses it, writes it down, fills in ack. */
void broker_execute(struct account *account, const struct tw_order *order, struct fault fault,
                    int64_t now_wall_ns, struct tw_ack *ack);

/* What became of this id? */
void broker_lookup(const struct account *account, const char *client_order_id, struct tw_ack *ack);

/* Everything the account holds. Fails: TW_NO_MEMORY; *ret holds nothing then. */
TW_MUST_CHECK tw_status broker_snapshot(const struct account *account, int64_t now_wall_ns,
                                        struct tw_snapshot *ret);

/* Executes every stop and every pending that this symbol's quote reaches; nothing while the market
 * is closed. */
void broker_match(struct account *account, const struct market *market, int64_t now_wall_ns);
void broker_match_all(struct account *account, int64_t now_wall_ns);

/* Takes away pendings whose time has passed. Returns when the next one's comes; INT64_MAX: none. */
int64_t broker_expire(struct account *account, int64_t now_wall_ns);

/* An answer that says no. Each is one row of a table: outcome, reason, code, words. */
enum refusal {
    REFUSED_REQUOTE,
    REFUSED_OFF_QUOTES,
    REFUSED_BUSY,
    REFUSED_RATE_LIMITED,
    REFUSED_NO_CONNECTION,
    REFUSED_NO_MONEY,
    REFUSED_MARKET_CLOSED,
    REFUSED_OTHER,
    REFUSED_SYMBOL,
    REFUSED_VOLUME,
    REFUSED_NOTIONAL,
    REFUSED_PRICE,
    REFUSED_STOPS,
    REFUSED_EXPIRY,
    REFUSED_GONE,
    REFUSED_REDUCE_ONLY,
    REFUSED_TOO_LATE,
    REFUSED_LOGIN,
    REFUSED_TRADING,
    REFUSED_OPENING,
    REFUSED_HEDGING,
    REFUSED_OUT_OF_FIFO,
    REFUSED_COUNT
};
void broker_refuse(struct tw_ack *ack, enum refusal refusal);

/* By hand: the same rules, but no client order id, no faults, no market hours, not counted as a
 * call; and the host hears of it. What became of it is in ack. */
void broker_hand(struct account *account, const struct tw_order *order, int64_t now_wall_ns,
                 struct tw_ack *ack);

/* Fails: TW_IO, TW_NO_MEMORY. */
TW_MUST_CHECK tw_status broker_deposit(struct account *account, tw_decimal amount);

#endif
