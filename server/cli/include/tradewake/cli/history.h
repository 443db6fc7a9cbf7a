/* history.h - a file of past trades, as the events of a master.
 *
 *     bytes --reader of the format--> rows --chains, order--> events, oldest first
 *
 * Three formats, told apart by their content:
 *   MQL5 history CSV    Time;Type;Volume;Symbol;Price;S/L;T/P;Time;Price;...;Comment   trades and
 * orders MQL5 positions CSV  Time;Type;Volume;Symbol;Price;Volume;Time;Price;... positions MT4
 * statement       the "Detailed Statement" in HTML, with its chains of partial closes
 *
 * A row of such a file is two events, and the order of rows is not the order of events. Here they
 * are sorted by time. Within a second opens go before closes, as no position closes before it
 * opens, except where tickets tell otherwise: a partial close gives the remainder a new ticket, and
 * tickets rise.
 *
 * Pure: bytes in, events out, or an error that names line and column. Decimals only. */
#ifndef TW_CLI_HISTORY_H
#define TW_CLI_HISTORY_H

#include <tradewake/base/decimal.h>
#include <tradewake/base/limits.h>
#include <tradewake/base/status.h>

#include <stddef.h>
#include <stdint.h>

enum tw_history_format {
    TW_HISTORY_MQL5_TRADES,
    TW_HISTORY_MQL5_POSITIONS,
    TW_HISTORY_MT4_STATEMENT
};

enum tw_history_kind {
    TW_HISTORY_OPEN,
    TW_HISTORY_PARTIAL_CLOSE,
    TW_HISTORY_CLOSE,
    TW_HISTORY_PLACE,
    TW_HISTORY_CANCEL,
    TW_HISTORY_KIND_COUNT,
};

/* The order types of such files. Values as on the wire (tradewake.v1.OrderType). */
enum tw_history_type { TW_HISTORY_MARKET = 1, TW_HISTORY_LIMIT = 2, TW_HISTORY_STOP = 3 };

#define TW_HISTORY_NONE          UINT32_MAX
#define TW_HISTORY_SUBJECT_BYTES 24u /* a ticket, or the number of a row */

struct tw_history_event {
    enum tw_history_kind kind;
    uint32_t line; /* of the row it comes from: with kind, unique in the file */
    int64_t at_s;  /* seconds since 1970 on the file's clock */
    uint32_t
        previous; /* index of the event before it on the same position or order; NONE = first */
    char subject[TW_HISTORY_SUBJECT_BYTES];   /* the position or order it is about */
    char remainder[TW_HISTORY_SUBJECT_BYTES]; /* PARTIAL_CLOSE: what the rest is called now; "" =
                                                 the same */
    char symbol[TW_SYMBOL_BYTES];
    bool is_sell; /* of the position or order */
    enum tw_history_type type;
    tw_decimal volume;                 /* of this event; all of it for a CLOSE */
    tw_decimal remaining_volume;       /* PARTIAL_CLOSE */
    tw_decimal price;                  /* UNSET = not in the file */
    tw_decimal stop_loss, take_profit; /* OPEN, PLACE: the last ones there were; UNSET = none */
};

struct tw_history {
    enum tw_history_format format;
    struct tw_history_event *events; /* oldest first */
    uint32_t n_events;
    char (*symbols)[TW_SYMBOL_BYTES]; /* each once, in the order of the events */
    uint32_t n_symbols;
    uint32_t by_kind[TW_HISTORY_KIND_COUNT];
    uint32_t positions_held, orders_held; /* open at the end of the file */
    uint32_t rows_skipped;                /* balance, summaries: not trades */
    uint32_t events_moved; /* lay before what they depend on, and were put behind it */
};

/* Reads all of it. name: for messages.
 * Owns: the caller, tw_history_clear(). Thread: any.  Blocks: no.
 * Fails: TW_INVALID ("NAME:LINE:COLUMN: found ..., expected ..."), TW_NO_MEMORY. */
TW_MUST_CHECK tw_status tw_history_read(const char *name, const char *bytes, size_t size,
                                        struct tw_history *ret, struct tw_error *error);

/* {0} and a cleared one are allowed. */
void tw_history_clear(struct tw_history *history);

/* "MT4 statement"; static. */
const char *tw_history_format_words(enum tw_history_format format);

/* "open", "partial-close", ...; static. */
const char *tw_history_kind_word(enum tw_history_kind kind);

#endif
