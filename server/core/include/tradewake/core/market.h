/* market.h - what one account can trade, and at what price: instruments as told by the broker,
 * corrected by hand, with the last quote and what we hold of each.
 *
 * Guarded by whoever owns it (the follower's slot lock). A listing, once there, stays as long as its
 * market: pointers to it and to its symbol may be kept. */
#ifndef TW_CORE_MARKET_H
#define TW_CORE_MARKET_H

#include <tradewake/adapters/order.h>
#include <tradewake/core/rules.h>
#include <tradewake/core/symbol.h>

#include <stdbool.h>
#include <stddef.h>

/* What every opening looks at comes first: two cache lines of a listing are its hot part. */
struct tw_listing {
    tw_decimal bid, ask;             /* UNSET = no quote */
    tw_decimal open_volume;          /* of our open and coming copies, all sides */
    struct tw_instrument instrument; /* in force: as told, with the corrections on top */
    struct tw_instrument told;
};

struct tw_market_slot {
    uint32_t hash;
    struct tw_listing *listing; /* NULL = free */
};

/* Listings by symbol: an open table, and the listings in blocks of their own. {0} is an empty one. */
struct tw_market {
    struct tw_market_slot *slots;
    uint32_t n_slots, n_listings; /* slots: a power of two, at most two thirds taken */
    struct tw_market_block *blocks;
};

void tw_market_clear(struct tw_market *market);

/* NULL when the account has no such symbol. */
struct tw_listing *tw_market_find(const struct tw_market *market, const char *symbol);
bool tw_market_is_empty(const struct tw_market *market);

/* The same by a name that is hashed already: of so many characters. */
struct tw_listing *tw_market_find_hashed(const struct tw_market *market, const char *symbol, uint32_t length,
                                         uint32_t hash);

/* Brings nearer what tw_market_find_hashed() looks at first; and then, what it finds there. */
void tw_market_prefetch_slot(const struct tw_market *market, uint32_t hash);
void tw_market_prefetch_listing(const struct tw_market *market, uint32_t hash);

/* As tw_market_find(); a symbol that is not known yet gets a listing that nobody has told of.
 * NULL: no memory. */
struct tw_listing *tw_market_find_or_add(struct tw_market *market, const char *symbol);

/* These symbols are now like this; corrections come from rules. False: no memory. */
bool tw_market_tell(struct tw_market *market, const struct tw_instrument *instruments, size_t n,
                    const struct tw_follower_rules *rules);
bool tw_market_quote(struct tw_market *market, const char *symbol, tw_decimal bid, tw_decimal ask);

/* After the corrections changed. */
void tw_market_correct(struct tw_market *market, const struct tw_follower_rules *rules);

/* The price a market order of this side trades at: ask for a buy, bid for a sell; UNSET without. */
tw_decimal tw_listing_price(const struct tw_listing *listing, enum tw_side side);

#endif
