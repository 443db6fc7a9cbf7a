/* instruments.h - what can be traded at a paper account.
 *
 * A sorted table: the built-in one, shared by all accounts that name none, or the account's own. */
#ifndef PAPER_INSTRUMENTS_H
#define PAPER_INSTRUMENTS_H

#include <tradewake/adapters/order.h>
#include <tradewake/base/status.h>

struct instruments {
    const struct tw_instrument *list; /* sorted by symbol */
    size_t n;
    struct tw_instrument *own; /* what list points to, from the heap; NULL = the built-in table */
};

/* The built-in table; never to be cleared, harmless if it is. Thread: any. */
struct instruments instruments_builtin(void);

/* NULL: not traded here. Valid until the table is changed. */
const struct tw_instrument *instruments_find(const struct instruments *table, const char *symbol);

/* Adds it, or changes what it is like; a built-in table becomes a copy of its own first.
 * Fails: TW_NO_MEMORY, nothing has changed then. */
TW_MUST_CHECK tw_status instruments_put(struct instruments *table,
                                        const struct tw_instrument *instrument);
void instruments_clear(struct instruments *table);

/* Base and profit currency of a name of six letters, else "" and "". */
void instrument_currencies(struct tw_instrument *instrument);

/* NULL, or what is wrong with it: the field's name in PaperService and words. */
struct instrument_fault {
    const char *field, *words;
};
const struct instrument_fault *instrument_check(const struct tw_instrument *instrument);

/* {"EURUSD": {"min": "0.01", "step": ..., "max":, "contract":, "tick":, "min_notional":, "stops":,
 * "freeze":}}; the last three may be left out. Replaces *ret, which is cleared by the caller later.
 * Fails: TW_INVALID (the place and what is expected in error), TW_NO_MEMORY. */
TW_MUST_CHECK tw_status instruments_parse(const char *json, struct instruments *ret,
                                          struct tw_error *error);

struct quote {
    char symbol[TW_SYMBOL_BYTES];
    tw_decimal bid, ask; /* both above 0, bid not above ask */
};

/* {"EURUSD": "1.10000/1.10010"}. *ret_quotes: from the heap, the caller's.
 * Fails: TW_INVALID, TW_NO_MEMORY. */
TW_MUST_CHECK tw_status quotes_parse(const char *json, struct quote **ret_quotes, size_t *ret_n,
                                     struct tw_error *error);

/* "1.10000/1.10010" */
bool quote_sides_parse(const char *text, tw_decimal *ret_bid, tw_decimal *ret_ask);

#endif
