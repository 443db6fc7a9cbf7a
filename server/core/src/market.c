#include <tradewake/core/market.h>

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE_LINE = 64, BLOCK_LISTINGS = 8, SLOTS_MIN = 16, HOT_BYTES = 2 * CACHE_LINE };
static_assert(offsetof(struct tw_listing, instrument.symbol) + sizeof "EURUSD.suffix" <= HOT_BYTES,
              "what an opening reads, and the beginning of the name");

struct listing_place {
    alignas(CACHE_LINE) struct tw_listing listing;
};

struct tw_market_block {
    struct listing_place places[BLOCK_LISTINGS];
    struct tw_market_block *older;
    uint32_t n;
};

void tw_market_clear(struct tw_market *market)
{
    while (market->blocks != NULL) {
        struct tw_market_block *older = market->blocks->older;
        free(market->blocks);
        market->blocks = older;
    }
    free(market->slots);
    *market = (struct tw_market){0};
}

/* Where a symbol of so many characters is, or would be. */
static struct tw_market_slot *slot_of(const struct tw_market *market, uint32_t hash,
                                      const char *symbol, size_t length)
{
    for (uint32_t at = hash & (market->n_slots - 1);; at = (at + 1) & (market->n_slots - 1)) {
        struct tw_market_slot *slot = &market->slots[at];
        if (slot->listing == NULL || (slot->hash == hash && memcmp(slot->listing->instrument.symbol,
                                                                   symbol, length + 1) == 0))
            return slot;
    }
}

struct tw_listing *tw_market_find_hashed(const struct tw_market *market, const char *symbol, uint32_t length,
                                         uint32_t hash)
{
    return market->n_slots > 0 ? slot_of(market, hash, symbol, length)->listing : NULL;
}

struct tw_listing *tw_market_find(const struct tw_market *market, const char *symbol)
{
    struct tw_symbol name;
    tw_symbol_begin(&name);
    tw_symbol_add(&name, symbol);
    return name.is_too_long ? NULL
                            : tw_market_find_hashed(market, name.text, name.length, tw_symbol_hash(&name));
}

void tw_market_prefetch_slot(const struct tw_market *market, uint32_t hash)
{
    if (market->n_slots > 0)
        __builtin_prefetch(&market->slots[hash & (market->n_slots - 1)]);
}

/* What stands at its first place is nearly always it. */
void tw_market_prefetch_listing(const struct tw_market *market, uint32_t hash)
{
    if (market->n_slots == 0)
        return;
    const struct tw_listing *listing = market->slots[hash & (market->n_slots - 1)].listing;
    for (size_t at = 0; listing != NULL && at < HOT_BYTES; at += CACHE_LINE)
        __builtin_prefetch((const char *)listing + at);
}

bool tw_market_is_empty(const struct tw_market *market)
{
    return market->n_listings == 0;
}

static void take_if_set(tw_decimal *field, tw_decimal correction)
{
    if (correction != TW_DECIMAL_UNSET)
        *field = correction;
}

/* All but the symbol, which never changes and is read without the lock by whoever keeps a pointer to it. */
static void take_figures(struct tw_instrument *to, const struct tw_instrument *from)
{
    enum { FIGURES_BYTES = offsetof(struct tw_instrument, symbol) };
    static_assert(sizeof(struct tw_instrument) - FIGURES_BYTES < TW_SYMBOL_BYTES + sizeof(int64_t),
                  "the symbol comes after everything else");
    memcpy(to, from, FIGURES_BYTES);
}

static void correct(struct tw_listing *listing, const struct tw_follower_rules *rules)
{
    take_figures(&listing->instrument, &listing->told);
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

static void slot_move(struct tw_market *to, const struct tw_market_slot *slot)
{
    const char *symbol = slot->listing->instrument.symbol;
    *slot_of(to, slot->hash, symbol, strlen(symbol)) = *slot;
}

/* Room for one more. False: no memory. */
static bool table_grow(struct tw_market *market)
{
    if (3 * (market->n_listings + 1) <= 2 * market->n_slots)
        return true;
    struct tw_market larger = {.n_slots = market->n_slots > 0 ? 2 * market->n_slots : SLOTS_MIN};
    larger.slots = calloc(larger.n_slots, sizeof *larger.slots);
    if (larger.slots == NULL)
        return false;
    for (uint32_t i = 0; i < market->n_slots; i++)
        if (market->slots[i].listing != NULL)
            slot_move(&larger, &market->slots[i]);
    free(market->slots);
    market->slots = larger.slots;
    market->n_slots = larger.n_slots;
    return true;
}

static struct tw_listing *listing_new(struct tw_market *market)
{
    struct tw_market_block *block = market->blocks;
    if (block == NULL || block->n == BLOCK_LISTINGS) {
        block = aligned_alloc(CACHE_LINE, sizeof *block);
        if (block == NULL)
            return NULL;
        memset(block, 0, sizeof *block);
        block->older = market->blocks;
        market->blocks = block;
    }
    return &block->places[block->n++].listing;
}

struct tw_listing *tw_market_find_or_add(struct tw_market *market, const char *symbol)
{
    struct tw_listing *listing = tw_market_find(market, symbol);
    if (listing != NULL)
        return listing;
    listing = table_grow(market) ? listing_new(market) : NULL;
    if (listing == NULL)
        return NULL;
    struct tw_symbol name;
    tw_symbol_begin(&name);
    tw_symbol_add(&name, symbol);
    uint32_t hash = tw_symbol_hash(&name);
    memcpy(listing->told.symbol, name.text, name.length + 1);
    listing->instrument = listing->told;
    listing->bid = listing->ask = TW_DECIMAL_UNSET;
    *slot_of(market, hash, name.text, name.length) = (struct tw_market_slot){hash, listing};
    market->n_listings++;
    return listing;
}

bool tw_market_tell(struct tw_market *market, const struct tw_instrument *instruments, size_t n,
                    const struct tw_follower_rules *rules)
{
    for (size_t i = 0; i < n; i++) {
        struct tw_listing *listing = tw_market_find_or_add(market, instruments[i].symbol);
        if (listing == NULL)
            return false;
        take_figures(&listing->told, &instruments[i]);
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
    for (struct tw_market_block *block = market->blocks; block != NULL; block = block->older)
        for (uint32_t i = 0; i < block->n; i++)
            correct(&block->places[i].listing, rules);
}

tw_decimal tw_listing_price(const struct tw_listing *listing, enum tw_side side)
{
    return side == TW_BUY ? listing->ask : listing->bid;
}
