/* book.h - what a paper account holds, and what its holdings are worth.
 *
 * The book changes in one way only: an entry, the after-image of everything that one execution
 * changes, is applied. The ledger writes the same entries, so the way back after a restart is the
 * way they came.
 *
 * No threads here: whoever calls holds the account's lock. */
#ifndef PAPER_BOOK_H
#define PAPER_BOOK_H

#include "faults.h"
#include "instruments.h"

#include <tradewake/adapters/order.h>

/* Deals and answers beyond these are forgotten, oldest first: a GetBook answer stays under 4 MiB,
 * and a broker that runs for months does not grow. */
#define BOOK_DEALS_MAX   16384u
#define BOOK_ANSWERS_MAX 16384u

/* One symbol at one account: made when it is first quoted or traded, there until the end. */
struct market {
    const struct tw_instrument *instrument; /* NULL: quoted, but not traded here */
    tw_decimal bid, ask;                    /* 0 = no quote */
    bool quote_told;                        /* the host knows this quote */
    char symbol[TW_SYMBOL_BYTES];
};

struct position {
    uint64_t ticket, from_ticket; /* from: it is the remainder of; 0 = none */
    struct market *market;
    enum tw_side side;
    tw_decimal volume;                             /* in an entry: 0 = gone */
    tw_decimal open_price, stop_loss, take_profit; /* stops: 0 = none */
    char client_order_id[TW_COPY_ID_BYTES];
    tw_decimal floating, margin; /* the book's: at today's quotes, in the account's currency */
};

struct pending {
    uint64_t ticket;
    struct market *market;
    enum tw_side side;
    enum tw_order_type type;
    tw_decimal volume; /* in an entry: 0 = gone */
    tw_decimal price, stop_price, stop_loss, take_profit;
    int64_t expires_wall_ns; /* 0 = good till cancelled */
    bool triggered;          /* stop-limit: its stop was reached, the limit stands */
    char client_order_id[TW_COPY_ID_BYTES];
};

struct deal {
    const struct market *market;
    uint64_t position;
    tw_decimal volume, price;
    int64_t at_wall_ns;
    enum tw_side side;
    char client_order_id[TW_COPY_ID_BYTES];
};

/* What became of a client order id. */
struct answer {
    char client_order_id[TW_COPY_ID_BYTES];
    bool stops_missing;
    enum tw_order_op op;
    enum tw_outcome outcome;
    tw_reason reason;
    uint64_t position, order, remainder;
    tw_decimal filled, average_price;
    tw_decimal remaining; /* UNSET = not a close */
    uint32_t hash, next;  /* the book's: of the id; in the same bucket, index + 1 */
};

/* Counters, balance: what every entry carries whole. */
struct ledger_line {
    tw_decimal balance;
    uint64_t next_ticket;
    uint64_t calls; /* mutating calls that reached the broker */
    uint64_t counts[FAULT_OP_COUNT];
};

struct entry {
    struct ledger_line line;
    uint32_t n_positions;
    struct position positions[2];
    bool has_pending, has_deal, has_answer;
    struct pending pending;
    struct deal deal;
    struct answer answer;
};

struct book {
    struct instruments instruments;
    char currency[8];
    uint32_t leverage;
    struct ledger_line line;
    tw_decimal floating, margin; /* sums over the positions */

    struct market **markets;     /* sorted by symbol */
    struct position **positions; /* sorted by ticket */
    struct pending **pendings;   /* sorted by ticket */
    struct deal *deals;          /* a ring once it has BOOK_DEALS_MAX */
    struct answer *answers;      /* likewise */
    uint32_t *buckets;           /* of answers, by client order id; index + 1 */
    uint32_t n_markets, markets_cap, n_positions, positions_cap, n_pendings, pendings_cap;
    uint32_t n_deals, deals_cap, deals_first, n_answers, answers_cap, answers_first, n_buckets;
    struct position *spare_positions[4]; /* so that applying an entry asks for no memory */
    struct pending *spare_pendings[2];
    uint32_t n_spare_positions, n_spare_pendings;
};

void book_clear(struct book *book);

/* Replaces the table; markets follow. The book owns it from here on, also on failure. */
void book_instruments_set(struct book *book, struct instruments *table);
TW_MUST_CHECK tw_status book_instrument_put(struct book *book,
                                            const struct tw_instrument *instrument);

/* NULL: unknown so far. */
struct market *book_market(const struct book *book, const char *symbol);
/* Made if need be; NULL without memory. */
struct market *book_market_make(struct book *book, const char *symbol);

struct position *book_position(const struct book *book, uint64_t ticket);
struct position *book_position_of(const struct book *book,
                                  const struct market *market); /* netting */
struct pending *book_pending(const struct book *book, uint64_t ticket);
const struct answer *book_answer(const struct book *book, const char *client_order_id);
/* The i-th deal that is remembered, oldest first; likewise answers. */
const struct deal *book_deal(const struct book *book, uint32_t i);
const struct answer *book_answer_at(const struct book *book, uint32_t i);

/* Sees to it that an entry can be applied without asking for memory.
 * Fails: TW_NO_MEMORY. */
TW_MUST_CHECK tw_status book_reserve(struct book *book);

/* Applies it; cannot fail after book_reserve(). */
void book_apply(struct book *book, const struct entry *entry);

/* A new quote: what hangs on it is valued anew. */
void book_quote(struct book *book, struct market *market, tw_decimal bid, tw_decimal ask);

/* What closing `volume` of it at price brings, in the account's currency. */
tw_decimal book_profit(const struct book *book, const struct position *position, tw_decimal volume,
                       tw_decimal price);

/* What holding this costs in margin; 0 without leverage. */
tw_decimal book_margin(const struct book *book, const struct market *market, tw_decimal volume,
                       tw_decimal price);

void book_account(const struct book *book, struct tw_account *ret);

#endif
