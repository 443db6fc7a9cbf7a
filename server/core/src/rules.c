#include <tradewake/core/rules.h>

#include <tradewake/base/arena.h>
#include <tradewake/base/clock.h>
#include <tradewake/base/limits.h>
#include <tradewake/core/check.h>
#include <tradewake/core/symbol.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RULES_BYTES_MAX = 1024 * 1024, /* a request of 256 KiB, taken apart */
    PATTERN_CHARS_MAX = 64,
    LIST_ENTRIES_MAX = 4096,
};
#define OPEN_WINDOW_NS_MAX (INT64_C(24) * 3600 * TW_NS_PER_S)

bool tw_pattern_matches(const char *pattern, const char *text)
{
    /* The usual two-pointer walk: on a mismatch go back to the last star and let it eat one more.
     */
    const char *star = NULL, *star_text = NULL;
    while (*text != '\0') {
        if (*pattern == '*') {
            star = ++pattern;
            if (*star == '\0')
                return true;
            star_text = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star;
            text = ++star_text;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

struct tw_pattern tw_pattern_of(const char *text)
{
    enum { EIGHT = sizeof(uint64_t) };
    struct tw_pattern pattern = {.text = text};
    uint32_t length = (uint32_t)strlen(text), i = 0;
    for (; i < EIGHT && i < length && text[i] != '*'; i++) {
        if (text[i] == '?')
            continue;
        pattern.head |= (uint64_t)(unsigned char)text[i] << (8 * i);
        pattern.head_mask |= UINT64_C(0xff) << (8 * i);
    }
    if (i < EIGHT && i == length) /* and nothing comes after it */
        pattern.head_mask |= ~UINT64_C(0) << (8 * i);
    for (i = 0; i < EIGHT && i < length && text[length - 1 - i] != '*'; i++) {
        if (text[length - 1 - i] == '?')
            continue;
        pattern.tail |= (uint64_t)(unsigned char)text[length - 1 - i] << (8 * (EIGHT - 1 - i));
        pattern.tail_mask |= UINT64_C(0xff) << (8 * (EIGHT - 1 - i));
    }
    return pattern;
}

/* A message is read twice: once to see that it is right and how much there is to keep, and once
 * more into a block of just that size. Ten thousand followers are planned in a row; what they need
 * lies close together. */
struct reader {
    struct tw_check check;
    unsigned char *memory; /* NULL: only counting, into arena */
    struct tw_arena *arena;
    size_t used;
};

/* Zeroed; NULL: more than may be kept, or no memory. */
static void *keep(struct reader *r, size_t size)
{
    enum { ALIGNMENT = 8 };
    size_t rounded = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    void *kept = r->memory != NULL ? memset(r->memory + r->used, 0, rounded)
                                   : tw_arena_zero(r->arena, rounded);
    r->used += rounded;
    return kept;
}

static const char *keep_text(struct reader *r, const char *text)
{
    size_t size = strlen(text) + 1;
    char *kept = keep(r, size);
    return kept != NULL ? memcpy(kept, text, size) : NULL;
}

static bool no_memory(struct reader *r, const char *field)
{
    return tw_check_fail(&r->check, field, "is too large to be kept");
}

static bool list_is_short(struct reader *r, const char *field, size_t n)
{
    if (n > LIST_ENTRIES_MAX)
        return tw_check_fail(&r->check, field, "has %zu entries, at most %d", n, LIST_ENTRIES_MAX);
    return true;
}

static bool read_patterns(struct reader *r, const char *field, size_t n, char *const *texts,
                          const struct tw_pattern **ret, uint32_t *ret_n)
{
    if (!list_is_short(r, field, n))
        return false;
    struct tw_pattern *patterns = keep(r, n * sizeof *patterns);
    if (patterns == NULL)
        return no_memory(r, field);
    for (size_t i = 0; i < n; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s[%zu]", field, i);
        if (!tw_check_text(&r->check, path, texts[i], 1, PATTERN_CHARS_MAX))
            return false;
        const char *text = keep_text(r, texts[i]);
        if (text == NULL)
            return no_memory(r, field);
        patterns[i] = tw_pattern_of(text);
    }
    *ret = patterns;
    *ret_n = (uint32_t)n;
    return true;
}

struct tw_symbol_mapping tw_symbol_mapping_of(const char *from, const char *to)
{
    struct tw_symbol symbol;
    tw_symbol_begin(&symbol);
    tw_symbol_add(&symbol, to);
    return (struct tw_symbol_mapping){.from_head = tw_symbol_head(from),
                                      .from = from,
                                      .to = to,
                                      .to_length = symbol.length,
                                      .to_hash = tw_symbol_hash(&symbol)};
}

static bool read_symbol_map(struct reader *r, size_t n, Tradewake__V1__SymbolMapping *const *list,
                            const struct tw_symbol_mapping **ret, uint32_t *ret_n)
{
    if (!list_is_short(r, "symbol_map", n))
        return false;
    struct tw_symbol_mapping *map = keep(r, n * sizeof *map);
    if (map == NULL)
        return no_memory(r, "symbol_map");
    for (size_t i = 0; i < n; i++) {
        char from[64], to[64];
        snprintf(from, sizeof from, "symbol_map[%zu].from_symbol", i);
        snprintf(to, sizeof to, "symbol_map[%zu].to_symbol", i);
        if (!tw_check_text(&r->check, from, list[i]->from_symbol, 1, TW_SYMBOL_CHARS_MAX) ||
            !tw_check_text(&r->check, to, list[i]->to_symbol, 1, TW_SYMBOL_CHARS_MAX))
            return false;
        for (size_t k = 0; k < i; k++)
            if (strcmp(map[k].from, list[i]->from_symbol) == 0)
                return tw_check_fail(&r->check, from, "\"%s\" is mapped twice", map[k].from);
        const char *kept_from = keep_text(r, list[i]->from_symbol), *kept_to = keep_text(r, list[i]->to_symbol);
        if (kept_from == NULL || kept_to == NULL)
            return no_memory(r, "symbol_map");
        map[i] = tw_symbol_mapping_of(kept_from, kept_to);
    }
    *ret = map;
    *ret_n = (uint32_t)n;
    return true;
}

static bool read_magics(struct reader *r, const char *field, size_t n,
                        Tradewake__V1__MagicRange *const *list, const struct tw_magic_range **ret,
                        uint32_t *ret_n)
{
    if (!list_is_short(r, field, n))
        return false;
    struct tw_magic_range *ranges = keep(r, n * sizeof *ranges);
    if (ranges == NULL)
        return no_memory(r, field);
    for (size_t i = 0; i < n; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s[%zu]", field, i);
        if (list[i]->first > list[i]->last)
            return tw_check_fail(&r->check, path, "begins at %lld, after its end %lld",
                                 (long long)list[i]->first, (long long)list[i]->last);
        ranges[i] = (struct tw_magic_range){list[i]->first, list[i]->last};
    }
    *ret = ranges;
    *ret_n = (uint32_t)n;
    return true;
}

/* Tiers stand in rising order; the last may be open-ended. */
static bool read_tiers(struct reader *r, size_t n, Tradewake__V1__VolumeTier *const *list,
                       const struct tw_tier **ret, uint32_t *ret_n)
{
    if (!list_is_short(r, "tiers", n))
        return false;
    struct tw_tier *tiers = keep(r, n * sizeof *tiers);
    if (tiers == NULL)
        return no_memory(r, "tiers");
    for (size_t i = 0; i < n; i++) {
        char up_to[64], multiplier[64];
        snprintf(up_to, sizeof up_to, "tiers[%zu].up_to", i);
        snprintf(multiplier, sizeof multiplier, "tiers[%zu].multiplier", i);
        if (!tw_check_decimal(&r->check, up_to, list[i]->up_to, TW_POSITIVE, &tiers[i].up_to) ||
            !tw_check_decimal(&r->check, multiplier, list[i]->multiplier, TW_POSITIVE_REQUIRED,
                              &tiers[i].multiplier))
            return false;
        if (tiers[i].up_to == TW_DECIMAL_UNSET && i + 1 < n)
            return tw_check_fail(&r->check, up_to, "is open-ended, but another tier follows");
        if (i > 0 && tiers[i].up_to != TW_DECIMAL_UNSET && tiers[i].up_to <= tiers[i - 1].up_to)
            return tw_check_fail(&r->check, up_to, "is not above the tier before it");
    }
    *ret = tiers;
    *ret_n = (uint32_t)n;
    return true;
}

static bool read_sides(struct reader *r, const Tradewake__V1__CopyRules *m, struct tw_rules *rules)
{
    rules->allows_buy = rules->allows_sell = m->n_sides == 0;
    for (size_t i = 0; i < m->n_sides; i++) {
        char path[32];
        snprintf(path, sizeof path, "sides[%zu]", i);
        if (!tw_check_enum(&r->check, path, (int)m->sides[i], &tradewake__v1__side__descriptor))
            return false;
        rules->allows_buy |= (int)m->sides[i] == TW_BUY;
        rules->allows_sell |= (int)m->sides[i] == TW_SELL;
    }
    return true;
}

/* A parameter of another mode than the chosen one would be a silent mistake. */
static bool belongs(struct reader *r, const char *field, bool is_given, bool is_wanted,
                    const char *mode)
{
    if (is_given && !is_wanted)
        return tw_check_fail(&r->check, field, "goes with %s only", mode);
    if (!is_given && is_wanted)
        return tw_check_fail(&r->check, field, "is missing, %s needs it", mode);
    return true;
}

static bool read_sizing(struct reader *r, const Tradewake__V1__CopyRules *m, struct tw_rules *rules)
{
    const struct tw_check *check = &r->check;
    if (!tw_check_enum_or_default(check, "sizing", (int)m->sizing,
                                  &tradewake__v1__sizing_mode__descriptor) ||
        !tw_check_enum_or_default(check, "rounding", (int)m->rounding,
                                  &tradewake__v1__rounding__descriptor))
        return false;
    rules->sizing = m->sizing == 0 ? TW_SIZE_MULTIPLIER : (enum tw_sizing)m->sizing;
    rules->rounding =
        m->rounding == TRADEWAKE__V1__ROUNDING__ROUNDING_NEAREST ? TW_ROUND_NEAREST : TW_ROUND_DOWN;
    bool is_fixed = rules->sizing == TW_SIZE_FIXED, is_risk = rules->sizing == TW_SIZE_RISK;
    if (!tw_check_decimal(check, "multiplier", m->multiplier, TW_POSITIVE, &rules->multiplier) ||
        !tw_check_decimal(check, "fixed_volume", m->fixed_volume, TW_POSITIVE,
                          &rules->fixed_volume) ||
        !tw_check_decimal(check, "risk_fraction", m->risk_fraction, TW_POSITIVE,
                          &rules->risk_fraction) ||
        !belongs(r, "fixed_volume", m->fixed_volume[0] != '\0', is_fixed, "SIZING_MODE_FIXED") ||
        !belongs(r, "risk_fraction", m->risk_fraction[0] != '\0', is_risk, "SIZING_MODE_RISK") ||
        !read_tiers(r, m->n_tiers, m->tiers, &rules->tiers, &rules->n_tiers))
        return false;
    if ((is_fixed || is_risk) && m->multiplier[0] != '\0')
        return tw_check_fail(check, "multiplier", "does not go with %s",
                             is_fixed ? "SIZING_MODE_FIXED" : "SIZING_MODE_RISK");
    if ((is_fixed || is_risk) && m->n_tiers > 0)
        return tw_check_fail(check, "tiers", "does not go with %s",
                             is_fixed ? "SIZING_MODE_FIXED" : "SIZING_MODE_RISK");
    if (m->n_tiers > 0 && m->multiplier[0] != '\0')
        return tw_check_fail(check, "multiplier", "does not go with tiers, which take its place");
    if (rules->multiplier == TW_DECIMAL_UNSET)
        rules->multiplier = TW_DECIMAL_ONE;

    rules->force_min = m->force_min;
    if (!tw_check_decimal(check, "min_volume", m->min_volume, TW_POSITIVE, &rules->min_volume) ||
        !tw_check_decimal(check, "max_volume", m->max_volume, TW_POSITIVE, &rules->max_volume) ||
        !tw_check_decimal(check, "max_risk_coefficient", m->max_risk_coefficient, TW_POSITIVE,
                          &rules->max_risk_coefficient))
        return false;
    if (m->max_risk_coefficient[0] != '\0' && !m->force_min)
        return tw_check_fail(check, "max_risk_coefficient", "goes with force_min only");
    if (rules->min_volume != TW_DECIMAL_UNSET && rules->max_volume != TW_DECIMAL_UNSET &&
        rules->min_volume > rules->max_volume)
        return tw_check_fail(check, "min_volume", "is above max_volume");
    return true;
}

static bool read_rules(struct reader *r, const Tradewake__V1__CopyRules *m, struct tw_rules *rules)
{
    const struct tw_check *check = &r->check;
    rules->reverse = m->reverse;
    rules->ignore_stop_loss = m->ignore_stop_loss;
    rules->ignore_take_profit = m->ignore_take_profit;
    rules->reopen_closed_by_hand = m->reopen_closed_by_hand;
    rules->close_on_unsubscribe = m->close_on_unsubscribe;
    rules->open_window_ns = (int64_t)TW_OPEN_WINDOW_MS_DEFAULT * TW_NS_PER_MS;
    rules->pending = m->pending == 0 ? TW_PENDING_COPY : (enum tw_pending_policy)m->pending;
    return read_sizing(r, m, rules) &&
           tw_check_enum_or_default(check, "pending", (int)m->pending,
                                    &tradewake__v1__pending_policy__descriptor) &&
           read_symbol_map(r, m->n_symbol_map, m->symbol_map, &rules->symbol_map,
                           &rules->n_symbol_map) &&
           read_patterns(r, "symbols_included", m->n_symbols_included, m->symbols_included,
                         &rules->included, &rules->n_included) &&
           read_patterns(r, "symbols_excluded", m->n_symbols_excluded, m->symbols_excluded,
                         &rules->excluded, &rules->n_excluded) &&
           read_sides(r, m, rules) &&
           read_magics(r, "magics_included", m->n_magics_included, m->magics_included,
                       &rules->magics_included, &rules->n_magics_included) &&
           read_magics(r, "magics_excluded", m->n_magics_excluded, m->magics_excluded,
                       &rules->magics_excluded, &rules->n_magics_excluded) &&
           tw_check_duration(check, "open_window", m->open_window, TW_NS_PER_MS, OPEN_WINDOW_NS_MAX,
                             &rules->open_window_ns) &&
           tw_check_decimal(check, "max_price_deviation", m->max_price_deviation, TW_NOT_NEGATIVE,
                            &rules->max_price_deviation);
}

bool tw_rules_read(const Tradewake__V1__CopyRules *message, const char *prefix,
                   struct tw_rules *ret, struct tw_refusal *refusal)
{
    Tradewake__V1__CopyRules defaults;
    tradewake__v1__copy_rules__init(&defaults);
    message = message != NULL ? message : &defaults;

    struct tw_rules rules = {0};
    struct tw_arena arena;
    tw_arena_init(&arena, RULES_BYTES_MAX);
    struct reader counting = {.check = {prefix, refusal}, .arena = &arena};
    bool ok = read_rules(&counting, message, &rules);
    tw_arena_clear(&arena);
    if (!ok)
        return false;

    rules = (struct tw_rules){.memory = malloc(counting.used + 1), .memory_bytes = (uint32_t)counting.used};
    struct reader keeping = {.check = {prefix, refusal}, .memory = rules.memory};
    if (rules.memory == NULL)
        return no_memory(&keeping, "");
    ok = read_rules(&keeping, message, &rules);
    assert(ok && keeping.used == counting.used); /* nothing has changed since it was counted */
    (void)ok;
    *ret = rules;
    return true;
}

void tw_rules_clear(struct tw_rules *rules)
{
    free(rules->memory);
    rules->memory = NULL;
}

static bool read_override(struct reader *r, size_t i, const Tradewake__V1__InstrumentOverride *m,
                          struct tw_instrument_override *ret)
{
    char prefix[96];
    snprintf(prefix, sizeof prefix, "%sinstruments[%zu].", r->check.prefix, i);
    const struct tw_check check = {prefix, r->check.refusal};
    ret->symbol = keep_text(r, m->symbol);
    if (ret->symbol == NULL)
        return no_memory(r, "instruments");
    return tw_check_text(&check, "symbol", m->symbol, 1, TW_SYMBOL_CHARS_MAX) &&
           tw_check_decimal(&check, "min_volume", m->min_volume, TW_POSITIVE, &ret->volume_min) &&
           tw_check_decimal(&check, "max_volume", m->max_volume, TW_POSITIVE, &ret->volume_max) &&
           tw_check_decimal(&check, "volume_step", m->volume_step, TW_POSITIVE,
                            &ret->volume_step) &&
           tw_check_decimal(&check, "contract_size", m->contract_size, TW_POSITIVE,
                            &ret->contract_size) &&
           tw_check_decimal(&check, "tick_size", m->tick_size, TW_POSITIVE, &ret->tick_size) &&
           tw_check_decimal(&check, "min_notional", m->min_notional, TW_NOT_NEGATIVE,
                            &ret->min_notional);
}

static bool read_overrides(struct reader *r, const Tradewake__V1__Follower *m,
                           struct tw_follower_rules *rules)
{
    if (!list_is_short(r, "instruments", m->n_instruments))
        return false;
    struct tw_instrument_override *list = keep(r, m->n_instruments * sizeof *list);
    if (list == NULL)
        return no_memory(r, "instruments");
    for (size_t i = 0; i < m->n_instruments; i++)
        if (!read_override(r, i, m->instruments[i], &list[i]))
            return false;
    rules->instruments = list;
    rules->n_instruments = (uint32_t)m->n_instruments;
    return true;
}

static bool read_loss_limit(struct reader *r, size_t i, const Tradewake__V1__RiskLimit *m,
                            struct tw_loss_limit *ret)
{
    char prefix[96];
    snprintf(prefix, sizeof prefix, "%srisk.loss_limits[%zu].", r->check.prefix, i);
    const struct tw_check check = {prefix, r->check.refusal};
    ret->measure = m->measure;
    ret->period = m->period;
    ret->close_positions = m->close_positions;
    if (!tw_check_enum(&check, "measure", (int)m->measure,
                       &tradewake__v1__risk_measure__descriptor) ||
        !tw_check_enum(&check, "period", (int)m->period, &tradewake__v1__risk_period__descriptor) ||
        !tw_check_decimal(&check, "max_absolute", m->max_absolute, TW_POSITIVE,
                          &ret->max_absolute) ||
        !tw_check_decimal(&check, "max_fraction", m->max_fraction, TW_POSITIVE, &ret->max_fraction))
        return false;
    if (ret->max_absolute == TW_DECIMAL_UNSET && ret->max_fraction == TW_DECIMAL_UNSET)
        return tw_check_fail(&check, "max_absolute", "and max_fraction are both missing");
    return true;
}

static bool read_risk(struct reader *r, const Tradewake__V1__RiskLimits *m,
                      struct tw_follower_rules *rules)
{
    rules->max_order_volume = rules->max_total_volume = TW_DECIMAL_UNSET;
    if (m == NULL)
        return true;
    rules->max_open_positions = m->max_open_positions;
    rules->max_orders_per_second = m->max_orders_per_second;
    if (!tw_check_decimal(&r->check, "risk.max_order_volume", m->max_order_volume, TW_POSITIVE,
                          &rules->max_order_volume) ||
        !tw_check_decimal(&r->check, "risk.max_total_volume", m->max_total_volume, TW_POSITIVE,
                          &rules->max_total_volume) ||
        !list_is_short(r, "risk.loss_limits", m->n_loss_limits))
        return false;
    struct tw_loss_limit *limits = keep(r, m->n_loss_limits * sizeof *limits);
    if (limits == NULL)
        return no_memory(r, "risk.loss_limits");
    for (size_t i = 0; i < m->n_loss_limits; i++)
        if (!read_loss_limit(r, i, m->loss_limits[i], &limits[i]))
            return false;
    rules->loss_limits = limits;
    rules->n_loss_limits = (uint32_t)m->n_loss_limits;
    return true;
}

static bool read_follower(struct reader *r, const Tradewake__V1__Follower *m,
                          struct tw_follower_rules *rules)
{
    if (!tw_check_enum_or_default(&r->check, "mode", (int)m->mode,
                                  &tradewake__v1__follower_mode__descriptor) ||
        !tw_check_text(&r->check, "display_name", m->display_name, 0, TW_COMMENT_CHARS_MAX) ||
        !tw_check_text(&r->check, "symbol_suffix", m->symbol_suffix, 0, TW_SYMBOL_CHARS_MAX) ||
        !tw_check_text(&r->check, "credentials_ref", m->credentials_ref, 0, TW_ID_CHARS_MAX))
        return false;
    if (m->max_parallel > TW_PARALLEL_MAX)
        return tw_check_fail(&r->check, "max_parallel", "is %u, at most %u", m->max_parallel,
                             TW_PARALLEL_MAX);
    rules->mode = m->mode == 0 ? TW_MODE_ACTIVE : (enum tw_mode)m->mode;
    rules->max_parallel = m->max_parallel;
    rules->symbol_suffix = keep_text(r, m->symbol_suffix);
    if (rules->symbol_suffix == NULL)
        return no_memory(r, "symbol_suffix");
    return read_symbol_map(r, m->n_symbol_map, m->symbol_map, &rules->symbol_map,
                           &rules->n_symbol_map) &&
           read_overrides(r, m, rules) && read_risk(r, m->risk, rules);
}

bool tw_follower_rules_read(const Tradewake__V1__Follower *message, const char *prefix,
                            struct tw_follower_rules *ret, struct tw_refusal *refusal)
{
    struct tw_follower_rules rules = {0};
    struct tw_arena arena;
    tw_arena_init(&arena, RULES_BYTES_MAX);
    struct reader counting = {.check = {prefix, refusal}, .arena = &arena};
    bool ok = read_follower(&counting, message, &rules);
    tw_arena_clear(&arena);
    if (!ok)
        return false;

    rules = (struct tw_follower_rules){.memory = malloc(counting.used + 1)};
    struct reader keeping = {.check = {prefix, refusal}, .memory = rules.memory};
    if (rules.memory == NULL)
        return no_memory(&keeping, "");
    ok = read_follower(&keeping, message, &rules);
    assert(ok && keeping.used == counting.used);
    (void)ok;
    *ret = rules;
    return true;
}

void tw_follower_rules_clear(struct tw_follower_rules *rules)
{
    free(rules->memory);
    rules->memory = NULL;
}
