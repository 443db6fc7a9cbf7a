#include <tradewake/core/market.h>

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct entry {
    struct tw_listing listing; /* first: a listing is its entry */
    UT_hash_handle hh;
};

void tw_market_clear(struct tw_market *market)
{
    struct entry *table = market->table, *entry, *after;
    HASH_ITER(hh, table, entry, after)
    {
        HASH_DEL(table, entry);
        free(entry);
    }
    market->table = NULL;
}

struct tw_listing *tw_market_find(const struct tw_market *market, const char *symbol)
{
    struct entry *table = market->table, *entry = NULL;
    HASH_FIND_STR(table, symbol, entry);
    return entry != NULL ? &entry->listing : NULL;
}

bool tw_market_is_empty(const struct tw_market *market)
{
    return market->table == NULL;
}

static void take_if_set(tw_decimal *field, tw_decimal correction)
{
    if (correction != TW_DECIMAL_UNSET)
        *field = correction;
}

static void correct(struct tw_listing *listing, const struct tw_follower_rules *rules)
{
    listing->instrument = listing->told;
    for (uint32_t i = 0; i < rules->n_instruments; i++) {
        const struct tw_instrument_override *by_hand = &rules->instruments[i];
        if (strcmp(by_hand->symbol, listing->told.symbol) != 0)
            continue;
        take_if_set(&listing->instrument.volume_min, by_hand->volume_min);
        take_if_set(&listing->instrument.volume_max, by_hand->volume_max);
        take_if_set(&listing->instrument.volume_step, by_hand->volume_step);
        take_if_set(&listing->instrument.contract_size, by_hand->contract_size);
        take_if_set(&listing->instrument.tick_size, by_hand->tick_size);
        take_if_set(&listing->instrument.min_notional, by_hand->min_notional);
    }
}

struct tw_listing *tw_market_find_or_add(struct tw_market *market, const char *symbol)
{
    struct tw_listing *listing = tw_market_find(market, symbol);
    if (listing != NULL)
        return listing;
    struct entry *table = market->table, *entry = calloc(1, sizeof *entry);
    if (entry == NULL)
        return NULL;
    memcpy(entry->listing.told.symbol, symbol, strlen(symbol) + 1);
    entry->listing.instrument = entry->listing.told;
    entry->listing.bid = entry->listing.ask = TW_DECIMAL_UNSET;
    HASH_ADD_STR(table, listing.told.symbol, entry);
    market->table = table;
    return &entry->listing;
}

bool tw_market_tell(struct tw_market *market, const struct tw_instrument *instruments, size_t n,
                    const struct tw_follower_rules *rules)
{
    for (size_t i = 0; i < n; i++) {
        struct tw_listing *listing = tw_market_find_or_add(market, instruments[i].symbol);
        if (listing == NULL)
            return false;
        listing->told = instruments[i];
        listing->is_told = true;
        correct(listing, rules);
    }
    return true;
}

bool tw_market_quote(struct tw_market *market, const char *symbol, tw_decimal bid, tw_decimal ask)
{
    struct tw_listing *listing = tw_market_find_or_add(market, symbol);
    if (listing == NULL)
        return false;
    listing->bid = bid;
    listing->ask = ask;
    return true;
}

void tw_market_correct(struct tw_market *market, const struct tw_follower_rules *rules)
{
    struct entry *table = market->table, *entry, *after;
    HASH_ITER(hh, table, entry, after)
    correct(&entry->listing, rules);
}

tw_decimal tw_listing_price(const struct tw_listing *listing, enum tw_side side)
{
    return side == TW_BUY ? listing->ask : listing->bid;
}
