#include "opening.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/crash_point.h>

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* A rule is a function of the opening. True: the next one; false: the plan says why not. */

void opening_note(struct opening *o, const char *rule, const char *input, const char *output,
                  const char *format, ...)
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

void opening_explain(struct opening *o, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(o->why, sizeof o->why, format, values);
    va_end(values);
}

static const char *reason_word(tw_reason reason)
{
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(&tradewake__v1__reason__descriptor, (int)reason);
    return value != NULL ? value->name + sizeof "REASON_" - 1 : "?";
}

static const char *type_word(enum tw_order_type type)
{
    static const char *const words[] = {
        [TW_ORDER_NONE] = "",
        [TW_ORDER_MARKET] = "",
        [TW_ORDER_LIMIT] = " LIMIT",
        [TW_ORDER_STOP] = " STOP",
        [TW_ORDER_STOP_LIMIT] = " STOP LIMIT",
    };
    return words[type];
}

/* ---- Whether anything new may be opened ---- */

static bool rule_halt(struct opening *o)
{
    return o->view->is_halted ? skip(o, REASON(HALTED), "a halt is in force") : true;
}

static bool rule_mode(struct opening *o)
{
    switch (o->view->follower->mode) {
    case TW_MODE_PAUSED:
        return skip(o, REASON(FOLLOWER_PAUSED), "the follower is paused");
    case TW_MODE_CLOSE_ONLY:
        return skip(o, REASON(CLOSE_ONLY), "the follower only closes");
    case TW_MODE_ACTIVE:
    case TW_MODE_MONITOR: /* decided in full: the last rule */
        break;
    }
    return o->view->is_leaving
               ? skip(o, REASON(CLOSE_ONLY), "the follower is leaving: it follows out")
               : true;
}

static bool rule_stop_out(struct opening *o)
{
    return o->view->is_stopped_out
               ? skip(o, REASON(RISK_LIMIT), "a loss limit has been reached: nothing new is opened")
               : true;
}

static bool rule_breaker(struct opening *o)
{
    return o->view->is_breaker_open
               ? skip(o, REASON(BREAKER_OPEN), "calls to this broker have not come back")
               : true;
}

/* ---- What is traded ---- */

static const char *first_match(const struct opening *o, const struct tw_pattern *patterns, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if ((o->symbol_head & patterns[i].head_mask) == patterns[i].head &&
            (o->symbol_tail & patterns[i].tail_mask) == patterns[i].tail &&
            tw_pattern_matches(patterns[i].text, o->event->symbol))
            return patterns[i].text;
    return NULL;
}

/* The filters see the master's name; excluded wins. */
static bool rule_symbol_filter(struct opening *o)
{
    const struct tw_rules *rules = o->view->rules;
    const char *symbol = o->event->symbol;
    const char *excluded = first_match(o, rules->excluded, rules->n_excluded);
    if (excluded != NULL)
        return skip(o, REASON(SYMBOL_FILTERED), "%s matches \"%s\" of symbols_excluded", symbol,
                    excluded);
    const char *included = first_match(o, rules->included, rules->n_included);
    if (rules->n_included > 0 && included == NULL)
        return skip(o, REASON(SYMBOL_FILTERED), "%s matches none of the %u of symbols_included",
                    symbol, rules->n_included);
    if (included != NULL)
        note(o, "symbols_included", symbol, symbol, "matches \"%s\"", included);
    return true;
}

/* NULL: the map says nothing about it. */
static const struct tw_symbol_mapping *mapping_of(const struct tw_symbol_mapping *map, uint32_t n,
                                                  const char *symbol, uint64_t head)
{
    for (uint32_t i = 0; i < n; i++)
        if (tw_symbol_is(symbol, head, map[i].from, map[i].from_head))
            return &map[i];
    return NULL;
}

/* What the maps make of the master's name: the subscription's feeds the follower's. */
struct mapped {
    const char *name;
    const struct tw_symbol_mapping *last; /* that gave the name; NULL = none */
};

static struct mapped map_name(const struct tw_follower_view *view, const char *symbol, uint64_t head)
{
    const struct tw_rules *rules = view->rules;
    const struct tw_follower_rules *follower = view->follower;
    const struct tw_symbol_mapping *by_rules = mapping_of(rules->symbol_map, rules->n_symbol_map, symbol, head);
    const char *name = by_rules != NULL ? by_rules->to : symbol;
    if (follower->n_symbol_map == 0)
        return (struct mapped){name, by_rules};
    const struct tw_symbol_mapping *by_follower =
        mapping_of(follower->symbol_map, follower->n_symbol_map, name,
                   by_rules != NULL ? tw_symbol_head(name) : head);
    return by_follower != NULL ? (struct mapped){by_follower->to, by_follower}
                               : (struct mapped){name, by_rules};
}

static struct tw_listing *find_plain(const struct tw_market *market, const struct mapped *mapped)
{
    const struct tw_symbol_mapping *last = mapped->last;
    return last != NULL ? tw_market_find_hashed(market, last->to, last->to_length, last->to_hash)
                        : tw_market_find(market, mapped->name);
}

static struct tw_listing *find_with_suffix(const struct tw_follower_view *view, const struct mapped *mapped)
{
    struct tw_symbol name;
    if (view->follower->symbol_suffix[0] == '\0')
        return NULL;
    tw_symbol_begin(&name);
    tw_symbol_add(&name, mapped->name);
    tw_symbol_add(&name, view->follower->symbol_suffix);
    return name.is_too_long
               ? NULL
               : tw_market_find_hashed(view->market, name.text, name.length, tw_symbol_hash(&name));
}

/* A name that a mapping gave is tried as it is first, every other one with the suffix first. */
static struct tw_listing *find_listing(const struct tw_follower_view *view, const struct mapped *mapped)
{
    struct tw_listing *listing =
        mapped->last != NULL ? find_plain(view->market, mapped) : find_with_suffix(view, mapped);
    if (listing != NULL)
        return listing;
    return mapped->last != NULL ? find_with_suffix(view, mapped) : find_plain(view->market, mapped);
}

/* An increase is of what is held, whatever the maps have become since. */
static struct tw_listing *listing_for(const struct tw_follower_view *view, const struct mapped *mapped)
{
    return view->held_listing != NULL ? view->held_listing : find_listing(view, mapped);
}

static bool reverses(const struct opening *o)
{
    return o->view->held_listing != NULL ? o->view->held_is_reversed : o->view->rules->reverse;
}

static void note_symbol(struct opening *o, const struct mapped *mapped)
{
    const struct tw_rules *rules = o->view->rules;
    const char *symbol = o->plan->listing->instrument.symbol;
    bool is_plain = strcmp(symbol, mapped->name) == 0;
    const struct tw_symbol_mapping *by_rules =
        mapping_of(rules->symbol_map, rules->n_symbol_map, o->event->symbol, o->symbol_head);
    if (mapped->last != NULL)
        note(o, "symbol_map", o->event->symbol, symbol, "by the map of the %s%s",
             by_rules == NULL           ? "follower"
             : by_rules == mapped->last ? "subscription"
                                        : "subscription, then of the follower",
             is_plain ? "" : ", with its suffix");
    else
        note(o, is_plain ? "symbol" : "symbol_suffix", o->event->symbol, symbol, "%s",
             is_plain ? "the account has the plain name" : "with the follower's suffix");
}

static bool rule_symbol(struct opening *o)
{
    const struct mapped mapped = map_name(o->view, o->event->symbol, o->symbol_head);
    o->plan->listing = listing_for(o->view, &mapped);
    if (o->plan->listing != NULL) {
        if (o->view->trace != NULL)
            note_symbol(o, &mapped);
        return true;
    }
    if (tw_market_is_empty(o->view->market))
        return skip(o, REASON(NO_CONNECTION), "the account's instruments have not been read yet");
    return skip(o, REASON(SYMBOL_NOT_FOUND), "the account has neither %s nor %s%s", mapped.name,
                mapped.name, o->view->follower->symbol_suffix);
}

static bool rule_side_filter(struct opening *o)
{
    const struct tw_rules *rules = o->view->rules;
    bool allowed = o->event->side == TW_BUY ? rules->allows_buy : rules->allows_sell;
    return allowed ? true
                   : skip(o, REASON(SIDE_FILTERED), "only the master's %s are copied",
                          o->event->side == TW_BUY ? "SELL" : "BUY");
}

static const struct tw_magic_range *range_of(const struct tw_magic_range *ranges, uint32_t n,
                                             int64_t magic)
{
    for (uint32_t i = 0; i < n; i++)
        if (magic >= ranges[i].first && magic <= ranges[i].last)
            return &ranges[i];
    return NULL;
}

static bool rule_magic_filter(struct opening *o)
{
    const struct tw_rules *rules = o->view->rules;
    long long magic = o->event->magic;
    const struct tw_magic_range *excluded =
        range_of(rules->magics_excluded, rules->n_magics_excluded, magic);
    if (excluded != NULL)
        return skip(o, REASON(MAGIC_FILTERED), "magic %lld is in %lld..%lld of magics_excluded",
                    magic, (long long)excluded->first, (long long)excluded->last);
    if (rules->n_magics_included > 0 &&
        range_of(rules->magics_included, rules->n_magics_included, magic) == NULL)
        return skip(o, REASON(MAGIC_FILTERED), "magic %lld is in none of the %u of magics_included",
                    magic, rules->n_magics_included);
    return true;
}

/* ---- When ---- */

/* Seconds, to the millisecond, for a note. */
static tw_decimal seconds_of(int64_t ns)
{
    return ns / TW_NS_PER_MS * (TW_DECIMAL_ONE / 1000);
}

int64_t tw_plan_window_end(const struct tw_event *event, const struct tw_rules *rules)
{
    return event->observed_wall_ns + rules->open_window_ns;
}

/* A master's clock ahead of ours does not make an event old. */
static bool rule_age(struct opening *o)
{
    int64_t window_ns = o->view->rules->open_window_ns, observed_ns = o->event->observed_wall_ns;
    if (observed_ns <
        o->now_wall_ns - window_ns) /* observed_ns may be of 1678: no difference of it fits */
        return end_with(o, STATE(EXPIRED), REASON(TOO_OLD),
                        "it is older than the open window of %s s", TEXT(seconds_of(window_ns)));
    note(o, "open_window", TEXT(seconds_of(o->now_wall_ns - observed_ns)), "",
         "%s s old, at most %s s", TEXT(seconds_of(o->now_wall_ns - observed_ns)),
         TEXT(seconds_of(window_ns)));
    return true;
}

/* It would be too old by the time it can be called: said now, not after a place in the queue. */
static bool rule_queue(struct opening *o)
{
    int64_t wait_ns = o->view->wait_ns;
    if (wait_ns == 0 || o->now_wall_ns + wait_ns <= tw_plan_window_end(o->event, o->view->rules))
        return true;
    return skip(o, REASON(QUEUE_FULL), "what waits before it takes about %s s: longer than its open window of %s s allows",
                TEXT(seconds_of(wait_ns)), TEXT(seconds_of(o->view->rules->open_window_ns)));
}

static bool rule_expiry(struct opening *o)
{
    if (!opening_is_pending(o) || o->event->expires_wall_ns == 0 ||
        o->event->expires_wall_ns > o->now_wall_ns)
        return true;
    return end_with(o, STATE(EXPIRED), REASON(INVALID_EXPIRY), "the order has expired already");
}

/* ---- What kind of order ---- */

static bool rule_pending_policy(struct opening *o)
{
    if (!opening_is_pending(o) || o->view->rules->pending == TW_PENDING_COPY)
        return true;
    return skip(o, REASON(PENDING_SKIPPED), "%s",
                o->view->rules->pending == TW_PENDING_SKIP
                    ? "pending orders are not copied"
                    : "nothing is placed: a market order follows when the master's fills");
}

/* BUY LIMIT <-> SELL STOP, BUY STOP <-> SELL LIMIT: the other side of the same price. */
static bool rule_reverse(struct opening *o)
{
    static const enum tw_order_type reversed[] = {
        [TW_ORDER_MARKET] = TW_ORDER_MARKET,
        [TW_ORDER_LIMIT] = TW_ORDER_STOP,
        [TW_ORDER_STOP] = TW_ORDER_LIMIT,
    };
    if (!reverses(o))
        return true;
    if (o->event->type == TW_ORDER_STOP_LIMIT)
        return skip(o, REASON(UNSUPPORTED_REVERSE), "a stop-limit order has no mirror image");
    o->plan->side = tw_side_opposite(o->event->side);
    o->plan->type = reversed[o->event->type];
    note(o, "reverse", side_word(o->event->side), side_word(o->plan->side),
         "%s%s becomes %s%s, stop loss and take profit change places", side_word(o->event->side),
         type_word(o->event->type), side_word(o->plan->side), type_word(o->plan->type));
    return true;
}

static bool rule_pending_price(struct opening *o)
{
    if (!opening_is_pending(o))
        return true;
    const struct tw_instrument *instrument = &o->plan->listing->instrument;
    tw_pending_prices(instrument, o->plan->side, o->plan->type, &o->plan->price,
                      &o->plan->stop_price);
    if (o->plan->price != o->event->price)
        note(o, "price", TEXT(o->event->price), TEXT(o->plan->price),
             "to a multiple of the tick %s, away from the market", TEXT(instrument->tick_size));
    if (o->plan->stop_price != o->event->stop_price)
        note(o, "stop_price", TEXT(o->event->stop_price), TEXT(o->plan->stop_price),
             "to a multiple of the tick %s, away from the market", TEXT(instrument->tick_size));
    return true;
}

/* ---- What the follower's limits say ---- */

static bool rule_order_volume(struct opening *o)
{
    tw_decimal most = o->view->follower->max_order_volume;
    if (most == TW_DECIMAL_UNSET)
        return true;
    if (o->plan->volume > most)
        return skip(o, REASON(RISK_LIMIT), "%s is more than max_order_volume, %s",
                    TEXT(o->plan->volume), TEXT(most));
    note(o, "max_order_volume", TEXT(o->plan->volume), TEXT(o->plan->volume), "at most %s",
         TEXT(most));
    return true;
}

static bool rule_total_volume(struct opening *o)
{
    tw_decimal most = o->view->follower->max_total_volume, open = o->plan->listing->open_volume,
               total;
    if (most == TW_DECIMAL_UNSET)
        return true;
    if (!tw_decimal_add(open, o->plan->volume, &total) || total > most)
        return skip(o, REASON(RISK_LIMIT),
                    "%s open or coming + %s is more than max_total_volume, %s", TEXT(open),
                    TEXT(o->plan->volume), TEXT(most));
    note(o, "max_total_volume", TEXT(open), TEXT(total), "%s open or coming + %s, at most %s",
         TEXT(open), TEXT(o->plan->volume), TEXT(most));
    return true;
}

static bool rule_open_positions(struct opening *o)
{
    uint32_t most = o->view->follower->max_open_positions, open = o->view->open_positions;
    if (most == 0 || (o->event->increase && !o->view->is_first))
        return true;
    if (open >= most)
        return skip(o, REASON(MAX_POSITIONS), "%u are open or coming, max_open_positions is %u",
                    open, most);
    note(o, "max_open_positions", "", "", "number %u of at most %u", open + 1, most);
    return true;
}

static bool rule_price_deviation(struct opening *o)
{
    tw_decimal allowed = o->view->rules->max_price_deviation, price = o->event->price;
    if (allowed == TW_DECIMAL_UNSET || opening_is_pending(o))
        return true;
    tw_decimal quoted = tw_listing_price(o->plan->listing, o->plan->side);
    if (!is_known(quoted) || !is_known(price))
        return skip(o, REASON(MISSING_SPEC), "max_price_deviation needs %s",
                    is_known(price) ? "a quote" : "the event's price");
    tw_decimal away = quoted > price ? quoted - price : price - quoted;
    if (away > allowed)
        return skip(o, REASON(PRICE_DEVIATION), "%s is %s away from the event's %s, at most %s",
                    TEXT(quoted), TEXT(away), TEXT(price), TEXT(allowed));
    note(o, "max_price_deviation", TEXT(price), TEXT(quoted), "%s away, at most %s", TEXT(away),
         TEXT(allowed));
    return true;
}

/* ---- Its stops ---- */

/* from: the master's, of the same meaning here. */
static void note_stop(struct opening *o, const char *rule, tw_decimal from, tw_decimal to,
                      bool is_ignored)
{
    const struct tw_instrument *instrument = &o->plan->listing->instrument;
    if (o->view->trace == NULL || !is_known(from))
        return;
    if (is_ignored)
        note(o, rule, TEXT(from), "", "is left out here");
    else if (from == to)
        note(o, rule, TEXT(from), TEXT(to), "%s",
             reverses(o) ? "changed places" : "as it is");
    else if ((to > from ? to - from : from - to) < instrument->tick_size)
        note(o, rule, TEXT(from), TEXT(to), "to a multiple of the tick %s, toward the entry",
             TEXT(instrument->tick_size));
    else
        note(o, rule, TEXT(from), TEXT(to),
             "moved to the nearest place outside the stops distance, %s",
             TEXT(instrument->stops_distance));
}

static bool rule_stops(struct opening *o)
{
    const struct tw_rules *rules = o->view->rules;
    const struct tw_event *event = o->event;
    const struct tw_stops_input input = {
        .stop_loss = event->stop_loss,
        .take_profit = event->take_profit,
        .is_reversed = reverses(o),
        .ignores_stop_loss = rules->ignore_stop_loss,
        .ignores_take_profit = rules->ignore_take_profit,
        .side = o->plan->side,
        .listing = o->plan->listing,
        .pending_price = opening_is_pending(o) ? o->plan->price : TW_DECIMAL_UNSET,
    };
    tw_stops_decide(&input, &o->plan->stop_loss, &o->plan->take_profit);
    note_stop(o, "stop_loss", reverses(o) ? event->take_profit : event->stop_loss,
              o->plan->stop_loss, rules->ignore_stop_loss);
    note_stop(o, "take_profit", reverses(o) ? event->stop_loss : event->take_profit,
              o->plan->take_profit, rules->ignore_take_profit);
    return true;
}

/* What no other rule skips. */
static bool rule_monitor(struct opening *o)
{
    return o->view->follower->mode == TW_MODE_MONITOR
               ? skip(o, REASON(MONITORED), "decided and recorded: the follower only watches")
               : true;
}

/* In this order; the first no ends it. A list for the preprocessor: asked one by one the rules become one function,
 * where a table of them is twenty jumps. */
#define OPEN_RULES(ask)                                                                            \
    ask("halt", rule_halt) &&                                                                      \
    ask("mode", rule_mode) &&                                                                      \
    ask("stop_out", rule_stop_out) &&                                                              \
    ask("breaker", rule_breaker) &&                                                                \
    ask("symbol_filter", rule_symbol_filter) &&                                                    \
    ask("symbol", rule_symbol) &&                                                                  \
    ask("sides", rule_side_filter) &&                                                              \
    ask("magic_filter", rule_magic_filter) &&                                                      \
    ask("open_window", rule_age) &&                                                                \
    ask("queue", rule_queue) &&                                                                    \
    ask("expiry", rule_expiry) &&                                                                  \
    ask("pending", rule_pending_policy) &&                                                         \
    ask("reverse", rule_reverse) &&                                                                \
    ask("price", rule_pending_price) &&                                                            \
    ask("size", rule_size) &&                                                                      \
    ask("max_order_volume", rule_order_volume) &&                                                  \
    ask("max_total_volume", rule_total_volume) &&                                                  \
    ask("max_open_positions", rule_open_positions) &&                                              \
    ask("max_price_deviation", rule_price_deviation) &&                                            \
    ask("stops", rule_stops) &&                                                                    \
    ask("monitor", rule_monitor)

#define ASK(name, applies) (o->rule = (name), applies(o))

static bool open_rules_ask(struct opening *o)
{
    return OPEN_RULES(ASK);
}

/* Test builds can be one whose rules are others: what it reads in a log must not be decided anew. */
static void rules_change(struct tw_plan *plan)
{
    if (tw_fault("RULES") != NULL && plan->state == STATE(QUEUED))
        plan->volume *= 3;
}

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
    struct opening
        opening; /* its words are filled in by a rule that says no, and only for a trace */
    opening.event = event;
    opening.view = view;
    opening.symbol_head = tw_symbol_head(event->symbol);
    opening.symbol_tail = tw_symbol_tail(event->symbol, opening.symbol_head);
    opening.now_wall_ns = now_wall_ns;
    opening.plan = ret;
    if (!open_rules_ask(&opening)) {
        note(&opening, opening.rule, "", reason_word(ret->reason), "%s", opening.why);
        return;
    }
    rules_change(ret);
    note(&opening, "order", "", TEXT(ret->volume), "%s%s %s %s is sent", side_word(ret->side),
         type_word(ret->type), TEXT(ret->volume), ret->listing->instrument.symbol);
}

enum { CACHE_LINE = 64 };

/* Every line that it touches: a line that was left out is a wait as long as planning a follower. */
static inline void fetch(const void *from, size_t bytes)
{
    size_t before = (uintptr_t)from % CACHE_LINE;
    for (size_t at = 0; at < before + bytes; at += CACHE_LINE)
        __builtin_prefetch((const char *)from - before + at);
}

/* Of the name that is looked for first. */
static uint32_t first_hash(const struct tw_follower_view *view, const char *symbol, uint64_t symbol_head)
{
    const struct mapped mapped = map_name(view, symbol, symbol_head);
    if (mapped.last != NULL)
        return mapped.last->to_hash;
    struct tw_symbol name;
    tw_symbol_begin(&name);
    tw_symbol_add(&name, mapped.name);
    tw_symbol_add(&name, view->follower->symbol_suffix);
    return tw_symbol_hash(&name);
}

void tw_plan_prefetch(const struct tw_event *event, uint64_t symbol_head, const struct tw_follower_view *view, int step)
{
    enum { LISTS_BYTES_MAX = 8 * CACHE_LINE };
    if (step == 0) {
        fetch(view->rules, sizeof *view->rules);
        fetch(view->follower, sizeof *view->follower);
        fetch(view->market, sizeof *view->market);
        fetch(view->account, sizeof *view->account);
        return;
    }
    if (step == 1) {
        uint32_t lists_bytes = view->rules->memory_bytes;
        fetch(view->rules->memory, lists_bytes < LISTS_BYTES_MAX ? lists_bytes : LISTS_BYTES_MAX);
        fetch(view->follower->symbol_suffix, 1);
        return;
    }
    uint32_t hash = first_hash(view, event->symbol, symbol_head);
    if (step == 2)
        tw_market_prefetch_slot(view->market, hash);
    else
        tw_market_prefetch_listing(view->market, hash);
}
