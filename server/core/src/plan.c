#include <tradewake/core/plan.h>

#include "exact.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define STATE(name) TRADEWAKE__V1__COPY_STATE__COPY_STATE_##name
#define REASON(name) TRADEWAKE__V1__REASON__REASON_##name
#define ACTION(name) TRADEWAKE__V1__COPY_ACTION__COPY_ACTION_##name

/* What the rules of one opening share. */
struct opening {
    const struct tw_event *event;
    const struct tw_follower_view *view;
    int64_t now_wall_ns;
    struct tw_plan *plan;
};

/* True: the next rule; false: the plan says why not. */
typedef bool rule_fn(struct opening *opening);

/* Notes one step. input, output, note: may be "". */
static void TW_PRINTF(5, 6) trace_add(struct opening *o, const char *rule, const char *input,
                                      const char *output, const char *format, ...)
{
    struct tw_trace *trace = o->view->trace;
    if (trace->n_steps == TW_TRACE_STEPS_MAX)
        return;
    struct tw_trace_step *step = &trace->steps[trace->n_steps++];
    step->rule = rule;
    snprintf(step->input, sizeof step->input, "%s", input);
    snprintf(step->output, sizeof step->output, "%s", output);
    va_list values;
    va_start(values, format);
    vsnprintf(step->note, sizeof step->note, format, values);
    va_end(values);
}

/* Only when somebody asks: nothing is formatted for a plan that is carried out. */
#define note(o, ...)                                                                                 \
    do {                                                                                             \
        if ((o)->view->trace != NULL)                                                                \
            trace_add(o, __VA_ARGS__);                                                               \
    } while (0)

/* A decimal for a note; a few at once. */
#define TEXT(value) tw_decimal_text((value), (char[TW_DECIMAL_TEXT_BYTES]){0})

static const char *reason_word(tw_reason reason)
{
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(&tradewake__v1__reason__descriptor, (int)reason);
    return value != NULL ? value->name + sizeof "REASON_" - 1 : "?";
}

static bool skip(struct opening *o, tw_reason reason)
{
    o->plan->state = STATE(SKIPPED);
    o->plan->reason = reason;
    return false;
}

static void remark(struct opening *o, tw_reason reason)
{
    assert(o->plan->n_remarks < TW_REMARKS_MAX);
    o->plan->remarks[o->plan->n_remarks++] = reason;
}

static bool rule_halt(struct opening *o)
{
    return o->view->is_halted ? skip(o, REASON(HALTED)) : true;
}

static bool rule_mode(struct opening *o)
{
    switch (o->view->follower->mode) {
    case TW_MODE_PAUSED:
        return skip(o, REASON(FOLLOWER_PAUSED));
    case TW_MODE_CLOSE_ONLY:
        return skip(o, REASON(CLOSE_ONLY));
    case TW_MODE_ACTIVE:
    case TW_MODE_MONITOR: /* decided in full: the last rule */
        return o->view->is_leaving ? skip(o, REASON(CLOSE_ONLY)) : true;
    }
    assert(!"a mode that does not exist");
    return true;
}

static bool rule_stop_out(struct opening *o)
{
    return o->view->is_stopped_out ? skip(o, REASON(RISK_LIMIT)) : true;
}

static bool rule_breaker(struct opening *o)
{
    return o->view->is_breaker_open ? skip(o, REASON(BREAKER_OPEN)) : true;
}

static bool matches_any(const char *const *patterns, uint32_t n, const char *text)
{
    for (uint32_t i = 0; i < n; i++)
        if (tw_pattern_matches(patterns[i], text))
            return true;
    return false;
}

/* The filters see the master's name; excluded wins. */
static bool rule_symbol_filter(struct opening *o)
{
    const struct tw_rules *rules = o->view->rules;
    bool included = rules->n_included == 0 ||
                    matches_any(rules->included, rules->n_included, o->event->symbol);
    if (!included || matches_any(rules->excluded, rules->n_excluded, o->event->symbol))
        return skip(o, REASON(SYMBOL_FILTERED));
    return true;
}

static const char *map_symbol(const struct tw_symbol_mapping *map, uint32_t n, const char *symbol)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(map[i].from, symbol) == 0)
            return map[i].to;
    return NULL;
}

static struct tw_listing *find_with_suffix(const struct tw_market *market, const char *symbol,
                                           const char *suffix)
{
    char name[2 * TW_SYMBOL_BYTES];
    if (suffix[0] == '\0')
        return NULL;
    snprintf(name, sizeof name, "%s%s", symbol, suffix);
    return tw_market_find(market, name);
}

/* The subscription's map feeds the follower's; the suffix is for names that no mapping named. */
static bool rule_symbol(struct opening *o)
{
    const struct tw_follower_rules *follower = o->view->follower;
    const struct tw_rules *rules = o->view->rules;
    const char *name = o->event->symbol;
    const char *mapped = map_symbol(rules->symbol_map, rules->n_symbol_map, name);
    bool is_mapped = mapped != NULL;
    name = is_mapped ? mapped : name;
    mapped = map_symbol(follower->symbol_map, follower->n_symbol_map, name);
    is_mapped |= mapped != NULL;
    name = mapped != NULL ? mapped : name;

    struct tw_listing *plain = tw_market_find(o->view->market, name);
    struct tw_listing *suffixed = find_with_suffix(o->view->market, name, follower->symbol_suffix);
    o->plan->listing = (is_mapped || suffixed == NULL) && plain != NULL ? plain : suffixed;
    if (o->plan->listing != NULL) {
        note(o, "symbol", o->event->symbol, o->plan->listing->instrument.symbol, "%s",
             is_mapped                    ? "by a symbol mapping"
             : o->plan->listing == plain ? "the plain name"
                                          : "with the follower's suffix");
        return true;
    }
    return skip(o, tw_market_is_empty(o->view->market) ? REASON(NO_CONNECTION)
                                                       : REASON(SYMBOL_NOT_FOUND));
}

static bool rule_side_filter(struct opening *o)
{
    const struct tw_rules *rules = o->view->rules;
    bool allowed = o->event->side == TW_BUY ? rules->allows_buy : rules->allows_sell;
    return allowed ? true : skip(o, REASON(SIDE_FILTERED));
}

static bool in_ranges(const struct tw_magic_range *ranges, uint32_t n, int64_t magic)
{
    for (uint32_t i = 0; i < n; i++)
        if (magic >= ranges[i].first && magic <= ranges[i].last)
            return true;
    return false;
}

static bool rule_magic_filter(struct opening *o)
{
    const struct tw_rules *rules = o->view->rules;
    bool included = rules->n_magics_included == 0 ||
                    in_ranges(rules->magics_included, rules->n_magics_included, o->event->magic);
    if (!included || in_ranges(rules->magics_excluded, rules->n_magics_excluded, o->event->magic))
        return skip(o, REASON(MAGIC_FILTERED));
    return true;
}

/* A master's clock ahead of ours does not make an event old. */
static bool rule_age(struct opening *o)
{
    if (o->now_wall_ns - o->event->observed_wall_ns <= o->view->rules->open_window_ns)
        return true;
    o->plan->state = STATE(EXPIRED);
    o->plan->reason = REASON(TOO_OLD);
    return false;
}

static bool is_pending(const struct opening *o)
{
    return o->event->type != TW_ORDER_MARKET;
}

static bool rule_expiry(struct opening *o)
{
    if (!is_pending(o) || o->event->expires_wall_ns == 0 || o->event->expires_wall_ns > o->now_wall_ns)
        return true;
    o->plan->state = STATE(EXPIRED);
    o->plan->reason = REASON(INVALID_EXPIRY);
    return false;
}

static bool rule_pending_policy(struct opening *o)
{
    if (!is_pending(o) || o->view->rules->pending == TW_PENDING_COPY)
        return true;
    return skip(o, REASON(PENDING_SKIPPED));
}

/* BUY LIMIT <-> SELL STOP, BUY STOP <-> SELL LIMIT: the other side of the same price. */
static bool rule_reverse(struct opening *o)
{
    static const enum tw_order_type reversed[] = {
        [TW_ORDER_MARKET] = TW_ORDER_MARKET,
        [TW_ORDER_LIMIT] = TW_ORDER_STOP,
        [TW_ORDER_STOP] = TW_ORDER_LIMIT,
    };
    if (!o->view->rules->reverse)
        return true;
    if (o->event->type == TW_ORDER_STOP_LIMIT)
        return skip(o, REASON(UNSUPPORTED_REVERSE));
    o->plan->side = tw_side_opposite(o->event->side);
    o->plan->type = reversed[o->event->type];
    note(o, "reverse", o->event->side == TW_BUY ? "BUY" : "SELL",
         o->plan->side == TW_BUY ? "BUY" : "SELL", "sides are turned, stop loss and take profit swapped");
    return true;
}

/* Limits away from the market, stops likewise: never a worse price than the master's by a rounding. */
static tw_decimal pending_price(const struct tw_instrument *instrument, enum tw_side side,
                                bool is_limit, tw_decimal price)
{
    if (price == TW_DECIMAL_UNSET || instrument->tick_size <= 0)
        return price;
    bool is_below = (side == TW_BUY) == is_limit; /* of the market */
    return tw_decimal_round(price, instrument->tick_size, is_below ? TW_ROUND_DOWN : TW_ROUND_UP);
}

static bool rule_pending_price(struct opening *o)
{
    if (!is_pending(o))
        return true;
    const struct tw_instrument *instrument = &o->plan->listing->instrument;
    tw_pending_prices(instrument, o->plan->side, o->plan->type, &o->plan->price, &o->plan->stop_price);
    return true;
}

/* ---- Size: one fraction, rounded once. ---- */

static tw_decimal tier_multiplier(const struct tw_rules *rules, tw_decimal volume)
{
    for (uint32_t i = 0; i < rules->n_tiers; i++)
        if (rules->tiers[i].up_to == TW_DECIMAL_UNSET || volume <= rules->tiers[i].up_to)
            return rules->tiers[i].multiplier;
    return TW_DECIMAL_UNSET;
}

/* Multiplies *size by what one unit of `from` is worth in `to`: the exact mid of the account's pair,
 * else one over the mid of the inverse. False: no such quote. */
static bool convert(const struct tw_follower_view *view, const char *from, const char *to,
                    struct exact *size)
{
    if (strcmp(from, to) == 0)
        return true;
    char pair[2 * sizeof view->account->currency], inverse[sizeof pair];
    snprintf(pair, sizeof pair, "%s%s", from, to);
    snprintf(inverse, sizeof inverse, "%s%s", to, from);
    const struct tw_listing *direct = tw_market_find(view->market, pair);
    if (direct != NULL && direct->bid > 0 && direct->ask > 0) {
        exact_mul(size, (wide)direct->bid + direct->ask);
        exact_div(size, 2 * (wide)TW_DECIMAL_ONE);
        return true;
    }
    const struct tw_listing *other = tw_market_find(view->market, inverse);
    if (other != NULL && other->bid > 0 && other->ask > 0) {
        exact_mul(size, 2 * (wide)TW_DECIMAL_ONE);
        exact_div(size, (wide)other->bid + other->ask);
        return true;
    }
    return false;
}

static bool is_known(tw_decimal money)
{
    return money != TW_DECIMAL_UNSET && money > 0;
}

/* Follower's money over the master's, in the follower's currency. */
static bool size_by_money(struct opening *o, tw_decimal mine, tw_decimal masters, struct exact *size)
{
    if (!is_known(masters) || !is_known(mine))
        return skip(o, REASON(MISSING_ACCOUNT));
    struct exact per_unit = exact_of(1);
    if (!convert(o->view, o->view->master_account->currency, o->view->account->currency, &per_unit))
        return skip(o, REASON(MISSING_ACCOUNT));
    exact_mul(size, mine);
    exact_div(size, masters);
    exact_mul(size, per_unit.denominator);
    exact_div(size, per_unit.numerator);
    return true;
}

static bool size_multiplier(struct opening *o, struct exact *size)
{
    const struct tw_rules *rules = o->view->rules;
    tw_decimal multiplier = rules->n_tiers > 0 ? tier_multiplier(rules, o->event->volume)
                                               : rules->multiplier;
    if (multiplier == TW_DECIMAL_UNSET)
        return skip(o, REASON(RISK_LIMIT)); /* larger than the last tier says anything about */
    *size = exact_of(o->event->volume);
    exact_mul(size, multiplier);
    exact_div(size, TW_DECIMAL_ONE);
    return true;
}

static bool size_fixed(struct opening *o, struct exact *size)
{
    *size = exact_of(o->view->rules->fixed_volume);
    return true;
}

static bool size_balance(struct opening *o, struct exact *size)
{
    const struct tw_account *master = o->view->master_account;
    return size_multiplier(o, size) &&
           (master != NULL ? size_by_money(o, o->view->account->balance, master->balance, size)
                           : skip(o, REASON(MISSING_ACCOUNT)));
}

static bool size_equity(struct opening *o, struct exact *size)
{
    const struct tw_account *master = o->view->master_account;
    return size_multiplier(o, size) &&
           (master != NULL ? size_by_money(o, o->view->account->equity, master->equity, size)
                           : skip(o, REASON(MISSING_ACCOUNT)));
}

static bool size_free_margin(struct opening *o, struct exact *size)
{
    const struct tw_account *master = o->view->master_account;
    return size_multiplier(o, size) &&
           (master != NULL ? size_by_money(o, o->view->account->free_margin, master->free_margin, size)
                           : skip(o, REASON(MISSING_ACCOUNT)));
}

static bool size_contract(struct opening *o, struct exact *size)
{
    tw_decimal mine = o->plan->listing->instrument.contract_size;
    if (!is_known(o->event->contract_size) || !is_known(mine))
        return skip(o, REASON(MISSING_SPEC));
    if (!size_multiplier(o, size))
        return false;
    exact_mul(size, o->event->contract_size);
    exact_div(size, mine);
    return true;
}

static tw_decimal entry_price(const struct opening *o)
{
    if (is_pending(o))
        return o->plan->price;
    tw_decimal quoted = tw_listing_price(o->plan->listing, o->plan->side);
    return is_known(quoted) ? quoted : o->event->price;
}

/* balance x fraction / (|entry - stop| x contract x what the profit currency is worth). */
static bool size_risk(struct opening *o, struct exact *size)
{
    const struct tw_rules *rules = o->view->rules;
    const struct tw_instrument *instrument = &o->plan->listing->instrument;
    tw_decimal stop = rules->reverse ? o->event->take_profit : o->event->stop_loss;
    if (rules->ignore_stop_loss || !is_known(stop))
        return skip(o, REASON(NO_STOP_LOSS));
    tw_decimal entry = entry_price(o);
    if (!is_known(entry) || !is_known(instrument->contract_size))
        return skip(o, REASON(MISSING_SPEC));
    if (!is_known(o->view->account->balance))
        return skip(o, REASON(MISSING_ACCOUNT));
    tw_decimal distance = entry > stop ? entry - stop : stop - entry;
    if (distance == 0)
        return skip(o, REASON(NO_STOP_LOSS));

    const char *profit = instrument->profit_currency[0] != '\0' ? instrument->profit_currency
                                                                : o->view->account->currency;
    struct exact per_unit = exact_of(1);
    if (!convert(o->view, profit, o->view->account->currency, &per_unit))
        return skip(o, REASON(MISSING_ACCOUNT));
    *size = exact_of(o->view->account->balance);
    exact_mul(size, rules->risk_fraction);
    exact_div(size, distance);
    exact_mul(size, TW_DECIMAL_ONE);
    exact_div(size, instrument->contract_size);
    exact_mul(size, per_unit.denominator);
    exact_div(size, per_unit.numerator);
    return true;
}

typedef bool sizing_fn(struct opening *o, struct exact *size);

static sizing_fn *const sizing_by_mode[] = {
    [TW_SIZE_MULTIPLIER] = size_multiplier,
    [TW_SIZE_FIXED] = size_fixed,
    [TW_SIZE_BALANCE] = size_balance,
    [TW_SIZE_EQUITY] = size_equity,
    [TW_SIZE_FREE_MARGIN] = size_free_margin,
    [TW_SIZE_CONTRACT] = size_contract,
    [TW_SIZE_RISK] = size_risk,
};

static tw_decimal larger_of(tw_decimal a, tw_decimal b)
{
    return a > b ? a : b; /* UNSET is below everything */
}

/* What one lot is worth in the instrument's profit currency; 0 = unknown. */
static bool notional_reaches(const struct opening *o, tw_decimal volume, tw_decimal price)
{
    const struct tw_instrument *instrument = &o->plan->listing->instrument;
    struct exact notional = exact_of(volume);
    exact_mul(&notional, instrument->contract_size);
    exact_div(&notional, TW_DECIMAL_ONE);
    exact_mul(&notional, price);
    exact_div(&notional, TW_DECIMAL_ONE);
    return !notional.overflowed && exact_compare(&notional, instrument->min_notional) >= 0;
}

/* The smallest multiple of the step that meets the minimum and the minimum notional; 0: none does, or
 * nobody can tell. */
static tw_decimal smallest_allowed(const struct opening *o, tw_decimal minimum, tw_decimal price)
{
    const struct tw_instrument *instrument = &o->plan->listing->instrument;
    tw_decimal volume = tw_decimal_round(minimum, instrument->volume_step, TW_ROUND_UP);
    if (instrument->min_notional > 0) {
        if (!is_known(price) || !is_known(instrument->contract_size))
            return 0;
        struct exact needed = exact_of(instrument->min_notional);
        exact_mul(&needed, TW_DECIMAL_ONE);
        exact_div(&needed, instrument->contract_size);
        exact_mul(&needed, TW_DECIMAL_ONE);
        exact_div(&needed, price);
        tw_decimal by_notional;
        if (!exact_round(&needed, instrument->volume_step, TW_ROUND_UP, &by_notional))
            return 0;
        volume = larger_of(volume, by_notional);
    }
    return volume;
}

/* Raises to the smallest allowed order, unless the real risk would exceed the wanted one too far. */
static bool force_minimum(struct opening *o, const struct exact *wanted, tw_decimal minimum,
                          tw_decimal price, tw_reason why)
{
    const struct tw_rules *rules = o->view->rules;
    tw_decimal forced = smallest_allowed(o, minimum, price);
    if (!rules->force_min || forced == 0)
        return skip(o, why);
    if (rules->max_risk_coefficient != TW_DECIMAL_UNSET) {
        struct exact most = *wanted;
        exact_mul(&most, rules->max_risk_coefficient);
        exact_div(&most, TW_DECIMAL_ONE);
        if (!most.overflowed && exact_compare(&most, forced) < 0)
            return skip(o, REASON(BELOW_MIN));
    }
    note(o, "force_min", TEXT(o->plan->volume), TEXT(forced), "raised to the smallest order allowed");
    o->plan->volume = forced;
    remark(o, REASON(FORCED_MIN));
    return true;
}

static bool rule_notional(struct opening *o, const struct exact *wanted, tw_decimal minimum)
{
    const struct tw_instrument *instrument = &o->plan->listing->instrument;
    if (instrument->min_notional <= 0)
        return true;
    tw_decimal price = entry_price(o);
    if (!is_known(price) || !is_known(instrument->contract_size))
        return skip(o, REASON(MISSING_SPEC));
    if (notional_reaches(o, o->plan->volume, price))
        return true;
    return force_minimum(o, wanted, minimum, price, REASON(BELOW_MIN_NOTIONAL));
}

static const char *sizing_words(const struct opening *o)
{
    static _Thread_local char words[128];
    const struct tw_rules *rules = o->view->rules;
    tw_decimal multiplier = rules->n_tiers > 0 ? tier_multiplier(rules, o->event->volume)
                                               : rules->multiplier;
    static const char *const ratios[] = {
        [TW_SIZE_MULTIPLIER] = "", [TW_SIZE_BALANCE] = " x the balances' ratio",
        [TW_SIZE_EQUITY] = " x the equities' ratio", [TW_SIZE_FREE_MARGIN] = " x the free margins' ratio",
        [TW_SIZE_CONTRACT] = " x the contract sizes' ratio",
    };
    if (rules->sizing == TW_SIZE_FIXED)
        return "the fixed volume";
    if (rules->sizing == TW_SIZE_RISK)
        snprintf(words, sizeof words, "%s of the balance between entry and stop loss",
                 TEXT(rules->risk_fraction));
    else
        snprintf(words, sizeof words, "x %s%s%s", TEXT(multiplier),
                 rules->n_tiers > 0 ? " (by tier)" : "", ratios[rules->sizing]);
    return words;
}

static bool rule_size(struct opening *o)
{
    const struct tw_rules *rules = o->view->rules;
    const struct tw_instrument *instrument = &o->plan->listing->instrument;
    struct exact wanted;
    if (!sizing_by_mode[rules->sizing](o, &wanted))
        return false;
    if (!is_known(instrument->volume_step) || instrument->volume_min == TW_DECIMAL_UNSET)
        return skip(o, REASON(MISSING_SPEC));
    tw_decimal volume;
    if (!exact_round(&wanted, instrument->volume_step, rules->rounding, &volume))
        return skip(o, REASON(INTERNAL)); /* no venue's volumes are that large */

    o->plan->volume = volume;
    o->plan->sizing = rules->sizing;
    struct exact cut = wanted;
    if (!exact_round(&cut, 1, TW_ROUND_DOWN, &o->plan->wanted))
        o->plan->wanted = TW_DECIMAL_UNSET;
    note(o, "size", TEXT(o->event->volume), TEXT(o->plan->wanted), "%s", sizing_words(o));
    note(o, "rounding", TEXT(o->plan->wanted), TEXT(volume), "%s to a multiple of the step %s",
         rules->rounding == TW_ROUND_NEAREST ? "to the nearest" : "toward zero",
         TEXT(instrument->volume_step));
    tw_decimal minimum = larger_of(rules->min_volume, instrument->volume_min);
    if ((volume < minimum || volume == 0) &&
        !force_minimum(o, &wanted, minimum, entry_price(o), REASON(BELOW_MIN)))
        return false;

    tw_decimal maximum = instrument->volume_max > 0 ? instrument->volume_max : INT64_MAX;
    if (rules->max_volume != TW_DECIMAL_UNSET && rules->max_volume < maximum)
        maximum = rules->max_volume;
    if (o->plan->volume > maximum) {
        o->plan->volume = tw_decimal_round(maximum, instrument->volume_step, TW_ROUND_DOWN);
        if (o->plan->volume < minimum || o->plan->volume == 0)
            return skip(o, REASON(BELOW_MIN));
        remark(o, REASON(CLAMPED_MAX));
        note(o, "max_volume", TEXT(volume), TEXT(o->plan->volume), "clamped to the largest allowed, %s",
             TEXT(maximum));
    }
    return rule_notional(o, &wanted, minimum);
}

static bool rule_limits(struct opening *o)
{
    const struct tw_follower_rules *follower = o->view->follower;
    if (follower->max_order_volume != TW_DECIMAL_UNSET && o->plan->volume > follower->max_order_volume)
        return skip(o, REASON(RISK_LIMIT));
    tw_decimal total;
    if (follower->max_total_volume != TW_DECIMAL_UNSET &&
        (!tw_decimal_add(o->plan->listing->open_volume, o->plan->volume, &total) ||
         total > follower->max_total_volume))
        return skip(o, REASON(RISK_LIMIT));
    if (follower->max_open_positions > 0 && !o->event->increase &&
        o->view->open_positions >= follower->max_open_positions)
        return skip(o, REASON(MAX_POSITIONS));
    return true;
}

static bool rule_price_deviation(struct opening *o)
{
    tw_decimal allowed = o->view->rules->max_price_deviation;
    if (allowed == TW_DECIMAL_UNSET || is_pending(o))
        return true;
    tw_decimal quoted = tw_listing_price(o->plan->listing, o->plan->side);
    if (!is_known(quoted) || !is_known(o->event->price))
        return skip(o, REASON(MISSING_SPEC));
    tw_decimal away = quoted > o->event->price ? quoted - o->event->price : o->event->price - quoted;
    return away <= allowed ? true : skip(o, REASON(PRICE_DEVIATION));
}

static bool rule_stops(struct opening *o)
{
    const struct tw_rules *rules = o->view->rules;
    const struct tw_stops_input input = {
        .stop_loss = o->event->stop_loss,
        .take_profit = o->event->take_profit,
        .is_reversed = rules->reverse,
        .ignores_stop_loss = rules->ignore_stop_loss,
        .ignores_take_profit = rules->ignore_take_profit,
        .side = o->plan->side,
        .listing = o->plan->listing,
        .pending_price = is_pending(o) ? o->plan->price : TW_DECIMAL_UNSET,
    };
    tw_stops_decide(&input, &o->plan->stop_loss, &o->plan->take_profit);
    note(o, "stop_loss", TEXT(rules->reverse ? o->event->take_profit : o->event->stop_loss),
         TEXT(o->plan->stop_loss), "on the tick, outside the stops distance");
    note(o, "take_profit", TEXT(rules->reverse ? o->event->stop_loss : o->event->take_profit),
         TEXT(o->plan->take_profit), "on the tick, outside the stops distance");
    return true;
}

/* What no other rule skips. */
static bool rule_monitor(struct opening *o)
{
    return o->view->follower->mode == TW_MODE_MONITOR ? skip(o, REASON(MONITORED)) : true;
}

static const struct {
    const char *name;
    rule_fn *applies;
} open_rules[] = {
    {"halt", rule_halt},
    {"mode", rule_mode},
    {"stop_out", rule_stop_out},
    {"breaker", rule_breaker},
    {"symbol_filter", rule_symbol_filter},
    {"symbol", rule_symbol},
    {"side_filter", rule_side_filter},
    {"magic_filter", rule_magic_filter},
    {"age", rule_age},
    {"expiry", rule_expiry},
    {"pending_policy", rule_pending_policy},
    {"reverse", rule_reverse},
    {"pending_price", rule_pending_price},
    {"size", rule_size},
    {"limits", rule_limits},
    {"price_deviation", rule_price_deviation},
    {"stops", rule_stops},
    {"monitor", rule_monitor},
};

void tw_plan_open(const struct tw_event *event, const struct tw_follower_view *view,
                  int64_t now_wall_ns, struct tw_plan *ret)
{
    bool is_market = event->type == TW_ORDER_MARKET;
    *ret = (struct tw_plan){
        .action = is_market ? ACTION(OPEN) : ACTION(PLACE),
        .state = STATE(QUEUED),
        .op = is_market ? TW_OP_OPEN : TW_OP_PLACE,
        .side = event->side,
        .type = event->type,
        .volume = TW_DECIMAL_UNSET,
        .price = event->price,
        .stop_price = event->stop_price,
        .stop_loss = TW_DECIMAL_UNSET,
        .take_profit = TW_DECIMAL_UNSET,
        .expires_wall_ns = is_market ? 0 : event->expires_wall_ns,
        .wanted = TW_DECIMAL_UNSET,
    };
    struct opening opening = {event, view, now_wall_ns, ret};
    for (size_t i = 0; i < sizeof open_rules / sizeof open_rules[0]; i++)
        if (!open_rules[i].applies(&opening)) {
            note(&opening, open_rules[i].name, "", reason_word(ret->reason), "says no: nothing is sent");
            return;
        }
    note(&opening, "order", "", TEXT(ret->volume), "is sent as %s", ret->side == TW_BUY ? "BUY" : "SELL");
}

struct tw_close_decision tw_close_decide(const struct tw_close_input *input)
{
    if (input->held <= 0)
        return (struct tw_close_decision){0, REASON(ALREADY_CLOSED)};
    if (input->is_full)
        return (struct tw_close_decision){input->held, REASON(UNSPECIFIED)};

    tw_decimal target = 0;
    tw_reason note = REASON(UNSPECIFIED);
    if (input->master_initial > 0 && input->volume_step > 0) {
        bool fits = tw_decimal_scale(input->filled, input->master_remaining, input->master_initial,
                                     input->volume_step, TW_ROUND_DOWN, &target);
        assert(fits); /* remaining is at most initial */
        (void)fits;
    }
    if (target <= 0 || target < input->volume_min) {
        target = input->volume_min;
        note = REASON(KEPT_MIN);
    }
    if (input->held <= target)
        return (struct tw_close_decision){0, note != 0 ? note : REASON(NO_CHANGE)};
    if (input->held - target < input->volume_min)
        return (struct tw_close_decision){0, REASON(BELOW_MIN)};
    return (struct tw_close_decision){input->held - target, note};
}

void tw_pending_prices(const struct tw_instrument *instrument, enum tw_side side,
                       enum tw_order_type type, tw_decimal *price, tw_decimal *stop_price)
{
    /* A stop-limit's price is its limit, reached after its stop price. */
    *price = pending_price(instrument, side, type != TW_ORDER_STOP, *price);
    *stop_price = pending_price(instrument, side, false, *stop_price);
}

/* ---- Netting ---- */

struct tw_net_order tw_net_decide(tw_decimal net, enum tw_side side, tw_decimal volume)
{
    bool is_opposite = side == TW_BUY ? net < 0 : net > 0;
    tw_decimal there = net < 0 ? -net : net;
    if (!is_opposite)
        return (struct tw_net_order){false, volume};
    return (struct tw_net_order){true, volume < there ? volume : there};
}

/* ---- Stops ---- */

/* The nearest allowed place of a stop: for a long position its stop loss stays `stops_distance` below
 * the bid and its take profit above it; for a short one the other way round from the ask. */
static tw_decimal keep_distance(const struct tw_listing *listing, enum tw_side side, bool is_below,
                                tw_decimal pending_price, tw_decimal stop)
{
    const struct tw_instrument *instrument = &listing->instrument;
    tw_decimal from = pending_price != TW_DECIMAL_UNSET ? pending_price
                      : side == TW_BUY                  ? listing->bid
                                                        : listing->ask;
    if (instrument->stops_distance <= 0 || !is_known(from))
        return stop;
    tw_decimal nearest = is_below ? from - instrument->stops_distance : from + instrument->stops_distance;
    bool is_inside = is_below ? stop > nearest : stop < nearest;
    if (!is_inside || nearest <= 0)
        return stop;
    if (instrument->tick_size <= 0)
        return nearest;
    return tw_decimal_round(nearest, instrument->tick_size, is_below ? TW_ROUND_DOWN : TW_ROUND_UP);
}

/* Toward the entry: a stop below the price is rounded up, one above it down. */
static tw_decimal place_stop(const struct tw_stops_input *input, bool is_stop_loss, tw_decimal stop)
{
    const struct tw_listing *listing = input->listing;
    if (stop == TW_DECIMAL_UNSET || stop == 0)
        return stop;
    bool is_below = (input->side == TW_BUY) == is_stop_loss;
    if (listing->instrument.tick_size > 0)
        stop = tw_decimal_round(stop, listing->instrument.tick_size,
                                is_below ? TW_ROUND_UP : TW_ROUND_DOWN);
    return keep_distance(listing, input->side, is_below, input->pending_price, stop);
}

void tw_stops_decide(const struct tw_stops_input *input, tw_decimal *ret_stop_loss,
                     tw_decimal *ret_take_profit)
{
    tw_decimal stop_loss = input->is_reversed ? input->take_profit : input->stop_loss;
    tw_decimal take_profit = input->is_reversed ? input->stop_loss : input->take_profit;
    if (input->ignores_stop_loss)
        stop_loss = TW_DECIMAL_UNSET;
    if (input->ignores_take_profit)
        take_profit = TW_DECIMAL_UNSET;
    *ret_stop_loss = place_stop(input, true, stop_loss);
    *ret_take_profit = place_stop(input, false, take_profit);
}

/* A stop loss nearer to the price protects more; having one protects more than having none. */
static bool stop_loss_tightens(enum tw_side side, tw_decimal now, tw_decimal next)
{
    if (next == TW_DECIMAL_UNSET || next == now)
        return true;
    if (next == 0)
        return false;
    return now == 0 || (side == TW_BUY ? next > now : next < now);
}

static bool take_profit_tightens(enum tw_side side, tw_decimal now, tw_decimal next)
{
    if (next == TW_DECIMAL_UNSET || next == now)
        return true;
    if (next == 0)
        return false;
    return now == 0 || (side == TW_BUY ? next < now : next > now);
}

bool tw_stops_tighten(enum tw_side side, tw_decimal now_stop_loss, tw_decimal now_take_profit,
                      tw_decimal next_stop_loss, tw_decimal next_take_profit)
{
    return stop_loss_tightens(side, now_stop_loss, next_stop_loss) &&
           take_profit_tightens(side, now_take_profit, next_take_profit);
}
