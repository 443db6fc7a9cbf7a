/* rules.h - who follows how: what a caller set, checked, in the form that planning reads.
 *
 * Both structs are made once from a message, never changed afterwards and swapped as a whole when a
 * caller updates them. Strings and arrays live in the struct's own memory. */
#ifndef TW_CORE_RULES_H
#define TW_CORE_RULES_H

#include <tradewake/adapters/order.h>
#include <tradewake/wire/refusal.h>

#include <tradewake/v1/followers.pb-c.h>

#include <stdbool.h>
#include <stdint.h>

enum tw_sizing {
    TW_SIZE_MULTIPLIER = 1,
    TW_SIZE_FIXED,
    TW_SIZE_BALANCE,
    TW_SIZE_EQUITY,
    TW_SIZE_FREE_MARGIN,
    TW_SIZE_CONTRACT,
    TW_SIZE_RISK,
};

enum tw_pending_policy { TW_PENDING_COPY = 1, TW_PENDING_SKIP, TW_PENDING_MARKET_ON_TRIGGER };

enum tw_mode { TW_MODE_ACTIVE = 1, TW_MODE_MONITOR, TW_MODE_CLOSE_ONLY, TW_MODE_PAUSED };

/* Heads and hashes are symbol.h's: what planning reads of nearly every entry. */
struct tw_symbol_mapping {
    uint64_t from_head;
    const char *from, *to;
    uint32_t to_length, to_hash;
};

/* What "EUR*" and "*USD" say of a name's head and tail; only where both agree is the text looked at. */
struct tw_pattern {
    uint64_t head, head_mask, tail, tail_mask; /* masks: the characters that are certain */
    const char *text;
};

struct tw_magic_range {
    int64_t first, last; /* both included */
};

struct tw_tier {
    tw_decimal up_to; /* inclusive; UNSET = no upper end */
    tw_decimal multiplier;
};

struct tw_rules {
    enum tw_sizing sizing;
    tw_decimal multiplier;    /* 1 when absent */
    tw_decimal fixed_volume;  /* FIXED only */
    tw_decimal risk_fraction; /* RISK only */
    enum tw_rounding rounding;
    tw_decimal min_volume, max_volume; /* UNSET = the instrument's */
    bool force_min;
    tw_decimal max_risk_coefficient; /* UNSET = any */
    bool reverse, ignore_stop_loss, ignore_take_profit;
    enum tw_pending_policy pending;
    bool allows_buy, allows_sell; /* the master's side */
    int64_t open_window_ns;
    tw_decimal max_price_deviation; /* UNSET = none */
    bool reopen_closed_by_hand, close_on_unsubscribe;

    const struct tw_symbol_mapping *symbol_map;
    const struct tw_pattern *included, *excluded;
    const struct tw_magic_range *magics_included, *magics_excluded;
    const struct tw_tier *tiers;
    uint32_t n_symbol_map, n_included, n_excluded, n_magics_included, n_magics_excluded, n_tiers;

    uint32_t memory_bytes;
    void *memory; /* what the pointers point into; from the heap */
};

/* Checks and reads. prefix: the path of the rules in the request, "subscription.rules.".
 * message NULL = defaults. False: *refusal is set, *ret untouched. Free with tw_rules_clear(). */
bool tw_rules_read(const Tradewake__V1__CopyRules *message, const char *prefix, struct tw_rules *ret,
                   struct tw_refusal *refusal);
void tw_rules_clear(struct tw_rules *rules);

struct tw_instrument_override {
    const char *symbol;
    tw_decimal volume_min, volume_max, volume_step, contract_size, tick_size, min_notional; /* UNSET = as told */
};

struct tw_loss_limit {
    Tradewake__V1__RiskMeasure measure;
    Tradewake__V1__RiskPeriod period;
    tw_decimal max_absolute, max_fraction; /* UNSET = none; one of them is set */
    bool close_positions;
};

/* What a caller set about a follower. */
struct tw_follower_rules {
    enum tw_mode mode;
    uint32_t max_parallel; /* 0 = the adapter's own limit */
    const char *symbol_suffix;
    const struct tw_symbol_mapping *symbol_map;
    const struct tw_instrument_override *instruments;
    uint32_t n_symbol_map, n_instruments;

    tw_decimal max_order_volume, max_total_volume; /* UNSET = none */
    uint32_t max_open_positions, max_orders_per_second; /* 0 = none */
    const struct tw_loss_limit *loss_limits;
    uint32_t n_loss_limits;

    void *memory; /* as in tw_rules */
};

/* As tw_rules_read(); prefix "follower.". Ids, adapter and adapter_config are looked at elsewhere. */
bool tw_follower_rules_read(const Tradewake__V1__Follower *message, const char *prefix,
                            struct tw_follower_rules *ret, struct tw_refusal *refusal);
void tw_follower_rules_clear(struct tw_follower_rules *rules);

/* "EUR*" and "??USD" against "EURUSD"; every other character stands for itself. Pure. */
bool tw_pattern_matches(const char *pattern, const char *text);

/* One entry of a list. The texts are the caller's, and stay. Pure. */
struct tw_pattern tw_pattern_of(const char *text);
struct tw_symbol_mapping tw_symbol_mapping_of(const char *from, const char *to);

#endif
