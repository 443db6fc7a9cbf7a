/* paper.h - the built-in simulated broker, and the broker's side of it for demos, tests and drills.
 *
 * An account is made by the first session of a follower and stays: it has its own ledger, and what
 * happened in it is the truth, whatever the callers believe. The functions below look at it and act
 * on it as the broker and as the account's owner would; they work whether or not a session is open.
 *
 * adapter_config of an account: README.md beside this folder. */
#ifndef TW_ADAPTERS_PAPER_H
#define TW_ADAPTERS_PAPER_H

#include <tradewake/adapters/adapter.h>

extern const struct tw_adapter_ops tw_adapter_paper;

/* One execution; those by hand, by stop loss and by take profit too. */
struct tw_paper_deal {
    char client_order_id[TW_COPY_ID_BYTES]; /* "" = nobody's order: a hand, a stop */
    char symbol[TW_SYMBOL_BYTES];
    char position_id[TW_BROKER_ID_BYTES];
    enum tw_side side;
    tw_decimal volume, price;
    int64_t at_wall_ns;
};

/* The ledger as it stands. Client order ids are there even where the broker strips comments. */
struct tw_paper_book {
    struct tw_snapshot holds;
    struct tw_paper_deal *deals; /* in order; of very many, the last 16384 */
    size_t n_deals;
    uint64_t calls; /* mutating calls that reached the broker */
    bool strip_comments;
};

/* All: adapter is what tw_adapter_paper.open gave.  Thread: any.  Blocks: no. */

/* *ret is the caller's, tw_paper_book_clear() it.
 * Fails: TW_NOT_FOUND (no such account), TW_NO_MEMORY. */
TW_MUST_CHECK tw_status tw_paper_book_read(void *adapter, const char *follower_id,
                                           struct tw_paper_book *ret);
void tw_paper_book_clear(struct tw_paper_book *book);

struct tw_paper_quote {
    const char *symbol;
    tw_decimal bid, ask; /* above 0, bid not above ask */
};

enum tw_paper_connection {
    TW_PAPER_CONNECTION_KEEP,
    TW_PAPER_CONNECTION_UP,
    TW_PAPER_CONNECTION_DOWN
};

/* What changes; {0} changes nothing. */
struct tw_paper_change {
    const struct tw_paper_quote *quotes; /* merged: other symbols keep theirs */
    size_t n_quotes;
    /* Added or changed. UNSET: as it is; of a symbol that is new only min_notional, stops_distance
     * and freeze_distance may be (none then). Currencies follow from the name. */
    const struct tw_instrument *instruments;
    size_t n_instruments;
    const char *latency; /* NULL = as it is; else as adapter_config.latency */
    const char *faults;  /* NULL = as it is; "none" or "" = none; the counting begins anew */
    enum tw_paper_connection connection;
    bool market_closed, market_open, strip_comments;
};

/* follower_id: "" = every account. When it returns, everything that the quotes set off has been
 * executed. Instruments are changed before quotes, quotes before the market opens.
 * Fails: TW_NOT_FOUND; TW_INVALID (the field in *ret_field, "faults", "latency",
 *        "instruments[2].tick_size"; no account has changed); TW_IO, TW_NO_MEMORY (some of it may
 *        have been done). Words in error. */
#define TW_PAPER_FIELD_BYTES 64u
TW_MUST_CHECK tw_status tw_paper_configure(void *adapter, const char *follower_id,
                                           const struct tw_paper_change *change,
                                           char ret_field[TW_PAPER_FIELD_BYTES],
                                           struct tw_error *error);

/* What the account's owner does in another terminal: order is an OPEN, CLOSE (by position_id),
 * PLACE or CANCEL, without a client order id. No latency, no faults, no market hours.
 * *ret_id: the position, or the order of a PLACE; "" when nothing is left of it.
 * Fails: TW_NOT_FOUND (account, position, order), TW_REFUSED (the broker's why in error), TW_BUSY
 * (the ledger cannot be written). */
TW_MUST_CHECK tw_status tw_paper_act(void *adapter, const char *follower_id,
                                     const struct tw_order *order, char ret_id[TW_BROKER_ID_BYTES],
                                     tw_reason *ret_reason, struct tw_error *error);

/* amount below 0 is a withdrawal. Fails: TW_NOT_FOUND, TW_INVALID (it does not fit), TW_IO. */
TW_MUST_CHECK tw_status tw_paper_deposit(void *adapter, const char *follower_id, tw_decimal amount);

#endif
