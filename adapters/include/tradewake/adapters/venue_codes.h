/* venue_codes.h - what a platform's return code says about an order: data, not code.
 *
 * A bridge returns the vendor's number; what may be done next is decided from the class that the table gives it.
 * A number that is not in the table is AMBIGUOUS on a mutating call: it may have been executed. */
#ifndef TW_ADAPTERS_VENUE_CODES_H
#define TW_ADAPTERS_VENUE_CODES_H

#include <tradewake/adapters/order.h>

enum tw_venue { TW_VENUE_NONE, TW_VENUE_MT4 /* error codes */, TW_VENUE_MT5 /* TRADE_RETCODE_* */, TW_VENUE_COUNT };

/* Where a row holds. A code may have several rows; the first that holds is taken. */
enum tw_venue_where {
    TW_AT_OPEN = 1 << TW_OP_OPEN,
    TW_AT_CLOSE = 1 << TW_OP_CLOSE,
    TW_AT_MODIFY = 1 << TW_OP_MODIFY,
    TW_AT_PLACE = 1 << TW_OP_PLACE,
    TW_AT_MODIFY_ORDER = 1 << TW_OP_MODIFY_ORDER,
    TW_AT_CANCEL = 1 << TW_OP_CANCEL,
    TW_AT_MARKET = TW_AT_OPEN | TW_AT_CLOSE,
    TW_AT_CHANGE = TW_AT_MODIFY | TW_AT_MODIFY_ORDER,
    TW_AT_ALL = TW_AT_MARKET | TW_AT_CHANGE | TW_AT_PLACE | TW_AT_CANCEL,
    TW_AT_UNSENT = 1 << 16, /* only if it certainly never left us */
};

struct tw_venue_code {
    int32_t code;
    uint32_t where;
    enum tw_outcome outcome;
    tw_reason reason;
    const char *words;
};

/* The row of a code; NULL = unlisted: AMBIGUOUS. Static. Thread: any. */
const struct tw_venue_code *tw_venue_code_find(enum tw_venue venue, int32_t code, enum tw_order_op op, bool not_sent);

/* All of a venue's; for tests and for printing. */
const struct tw_venue_code *tw_venue_codes(enum tw_venue venue, size_t *ret_n);

#endif
