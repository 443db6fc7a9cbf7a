/* core_rules.c - what a caller may set about followers and subscriptions, and what is refused by
 * name. */
#include "core_support.h"

#include <stdlib.h>

#define SIZING(name) TRADEWAKE__V1__SIZING_MODE__SIZING_MODE_##name

struct rules_case {
    const char *name;
    int sizing, rounding, pending;
    char *multiplier, *fixed, *risk, *min, *max, *coefficient, *deviation;
    bool force_min;
    char *tiers[3][2];
    char *map[2][2];
    char *included, *excluded;
    int64_t magics[2];
    int sides[3];
    int64_t window_ms; /* 0 = absent */
    int window_nanos;
    const char *field; /* NULL = they are right */
};

static struct rules_case cases[] = {
    {"nothing at all", .sizing = 0},
    {"a multiplier", .multiplier = "0.5"},
    {"a multiplier of 0", .multiplier = "0", .field = "multiplier"},
    {"a negative multiplier", .multiplier = "-1", .field = "multiplier"},
    {"a multiplier in scientific notation", .multiplier = "1e1", .field = "multiplier"},
    {"an unknown mode", .sizing = 99, .field = "sizing"},
    {"an unknown rounding", .rounding = 3, .field = "rounding"},
    {"an unknown policy", .pending = 4, .field = "pending"},

    /* A parameter of another mode would be a silent mistake. */
    {"fixed", SIZING(FIXED), .fixed = "0.1"},
    {"fixed without its volume", SIZING(FIXED), .field = "fixed_volume"},
    {"fixed of nothing", SIZING(FIXED), .fixed = "0", .field = "fixed_volume"},
    {"a fixed volume without the mode", .fixed = "0.1", .field = "fixed_volume"},
    {"a fixed volume with another mode", SIZING(BALANCE), .fixed = "0.1", .field = "fixed_volume"},
    {"fixed with a multiplier", SIZING(FIXED), .fixed = "0.1", .multiplier = "2",
     .field = "multiplier"},
    {"fixed with tiers", SIZING(FIXED), .fixed = "0.1", .tiers = {{"1", "2"}}, .field = "tiers"},
    {"risk", SIZING(RISK), .risk = "0.01"},
    {"risk without its fraction", SIZING(RISK), .field = "risk_fraction"},
    {"a risk fraction without the mode", .risk = "0.01", .field = "risk_fraction"},
    {"risk with a multiplier", SIZING(RISK), .risk = "0.01", .multiplier = "2",
     .field = "multiplier"},
    {"risk with tiers", SIZING(RISK), .risk = "0.01", .tiers = {{"1", "2"}}, .field = "tiers"},
    {"balance with a multiplier", SIZING(BALANCE), .multiplier = "2"},
    {"contract with tiers", SIZING(CONTRACT), .tiers = {{"1", "2"}, {"", "3"}}},

    {"tiers that rise", .tiers = {{"1", "2"}, {"5", "1"}, {"", "0.5"}}},
    {"tiers with a multiplier", .multiplier = "2", .tiers = {{"1", "2"}}, .field = "multiplier"},
    {"a tier that does not rise", .tiers = {{"5", "2"}, {"5", "1"}}, .field = "tiers[1].up_to"},
    {"a tier that falls", .tiers = {{"5", "2"}, {"1", "1"}}, .field = "tiers[1].up_to"},
    {"an open-ended tier in the middle", .tiers = {{"", "2"}, {"1", "1"}},
     .field = "tiers[0].up_to"},
    {"a tier without a multiplier", .tiers = {{"1", ""}}, .field = "tiers[0].multiplier"},
    {"a tier up to 0", .tiers = {{"0", "1"}}, .field = "tiers[0].up_to"},

    {"bounds", .min = "0.1", .max = "0.1"},
    {"a minimum of 0", .min = "0", .field = "min_volume"},
    {"a minimum above the maximum", .min = "0.2", .max = "0.1", .field = "min_volume"},
    {"a coefficient", .coefficient = "2", .force_min = true},
    {"a coefficient without force_min", .coefficient = "2", .field = "max_risk_coefficient"},

    {"a map", .map = {{"A", "B"}, {"B", "C"}}},
    {"a map from nothing", .map = {{"", "B"}}, .field = "symbol_map[0].from_symbol"},
    {"a map to nothing", .map = {{"A", "B"}, {"C", ""}}, .field = "symbol_map[1].to_symbol"},
    {"a symbol that is mapped twice", .map = {{"A", "B"}, {"A", "C"}},
     .field = "symbol_map[1].from_symbol"},
    {"an empty pattern", .included = "", .field = "symbols_included[0]"},
    {"an empty pattern to exclude", .excluded = "", .field = "symbols_excluded[0]"},
    {"patterns", .included = "EUR*", .excluded = "*CHF"},
    {"a range of magics", .magics = {5, 9}},
    {"one magic", .magics = {5, 5}},
    {"a range that ends before it begins", .magics = {9, 5}, .field = "magics_included[0]"},
    {"both sides", .sides = {1, 2}},
    {"an unspecified side", .sides = {1, -1}, .field = "sides[1]"},
    {"an unknown side", .sides = {7}, .field = "sides[0]"},

    {"a window of a millisecond", .window_ms = 1},
    {"a window of a day", .window_ms = 86400000},
    {"a window of more", .window_ms = 86400001, .field = "open_window"},
    {"a window of nearly nothing", .window_nanos = 999999, .field = "open_window"},
    {"a window before now", .window_ms = -1000, .field = "open_window"},
    {"a window of two minds", .window_ms = 1000, .window_nanos = -1, .field = "open_window"},
    {"a deviation of 0", .deviation = "0"},
    {"a negative deviation", .deviation = "-0.1", .field = "max_price_deviation"},
};

static char empty[] = "";

static char *or_empty(char *text)
{
    return text != NULL ? text : empty;
}

struct parts {
    Tradewake__V1__CopyRules rules;
    Tradewake__V1__VolumeTier tiers[3], *tier_list[3];
    Tradewake__V1__SymbolMapping map[2], *map_list[2];
    Tradewake__V1__MagicRange magics, *magic_list[1];
    Tradewake__V1__Side sides[3];
    Google__Protobuf__Duration window;
};

static void parts_fill(struct rules_case *c, struct parts *p)
{
    Tradewake__V1__CopyRules *rules = &p->rules;
    tradewake__v1__copy_rules__init(rules);
    rules->sizing = (Tradewake__V1__SizingMode)c->sizing;
    rules->rounding = (Tradewake__V1__Rounding)c->rounding;
    rules->pending = (Tradewake__V1__PendingPolicy)c->pending;
    rules->multiplier = or_empty(c->multiplier);
    rules->fixed_volume = or_empty(c->fixed);
    rules->risk_fraction = or_empty(c->risk);
    rules->min_volume = or_empty(c->min);
    rules->max_volume = or_empty(c->max);
    rules->max_risk_coefficient = or_empty(c->coefficient);
    rules->max_price_deviation = or_empty(c->deviation);
    rules->force_min = c->force_min;
    rules->tiers = p->tier_list;
    for (size_t i = 0; i < 3 && c->tiers[i][0] != NULL; i++, rules->n_tiers++) {
        tradewake__v1__volume_tier__init(p->tier_list[i] = &p->tiers[i]);
        p->tiers[i].up_to = c->tiers[i][0];
        p->tiers[i].multiplier = c->tiers[i][1];
    }
    rules->symbol_map = p->map_list;
    for (size_t i = 0; i < 2 && c->map[i][0] != NULL; i++, rules->n_symbol_map++) {
        tradewake__v1__symbol_mapping__init(p->map_list[i] = &p->map[i]);
        p->map[i].from_symbol = c->map[i][0];
        p->map[i].to_symbol = c->map[i][1];
    }
    rules->symbols_included = &c->included;
    rules->n_symbols_included = c->included != NULL;
    rules->symbols_excluded = &c->excluded;
    rules->n_symbols_excluded = c->excluded != NULL;
    tradewake__v1__magic_range__init(p->magic_list[0] = &p->magics);
    p->magics.first = c->magics[0];
    p->magics.last = c->magics[1];
    rules->magics_included = p->magic_list;
    rules->n_magics_included = c->magics[0] != 0;
    rules->sides = p->sides;
    for (size_t i = 0; i < 3 && c->sides[i] != 0; i++)
        p->sides[rules->n_sides++] = (Tradewake__V1__Side)(c->sides[i] < 0 ? 0 : c->sides[i]);
    google__protobuf__duration__init(&p->window);
    p->window.seconds = c->window_ms / 1000;
    p->window.nanos = (int32_t)(c->window_ms % 1000 * TW_NS_PER_MS) + c->window_nanos;
    if (c->window_ms != 0 || c->window_nanos != 0)
        rules->open_window = &p->window;
}

Test(core_rules, every_rule_that_is_wrong_is_named)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct parts parts = {0};
        struct tw_rules rules;
        struct tw_refusal refusal = {0};
        parts_fill(&cases[i], &parts);

        bool ok = tw_rules_read(&parts.rules, "subscription.rules.", &rules, &refusal);

        char field[96] = "";
        if (cases[i].field != NULL)
            snprintf(field, sizeof field, "subscription.rules.%s", cases[i].field);
        cr_expect_eq(ok, cases[i].field == NULL, "%s: %s", cases[i].name, refusal.text);
        cr_expect_str_eq(refusal.field, field, "%s", cases[i].name);
        if (ok)
            tw_rules_clear(&rules);
    }
}

Test(core_rules, nothing_set_means_the_published_defaults)
{
    struct tw_rules rules;
    struct tw_refusal refusal = {0};
    cr_assert(tw_rules_read(NULL, "", &rules, &refusal));
    cr_expect_eq(rules.sizing, TW_SIZE_MULTIPLIER);
    cr_expect_eq(rules.multiplier, TW_DECIMAL_ONE);
    cr_expect_eq(rules.rounding, TW_ROUND_DOWN);
    cr_expect_eq(rules.pending, TW_PENDING_COPY);
    cr_expect(rules.allows_buy && rules.allows_sell);
    cr_expect_eq(rules.open_window_ns, 60 * TW_NS_PER_S);
    cr_expect_eq(rules.max_price_deviation, TW_DECIMAL_UNSET);
    cr_expect_eq(rules.max_volume, TW_DECIMAL_UNSET);
    tw_rules_clear(&rules);
}

/* ---- Followers ---- */

static bool follower_reads(const Tradewake__V1__Follower *message, const char *field)
{
    struct tw_follower_rules rules;
    struct tw_refusal refusal = {0};
    bool ok = tw_follower_rules_read(message, "follower.", &rules, &refusal);
    cr_expect_str_eq(refusal.field, field != NULL ? field : "", "%s", refusal.text);
    if (ok)
        tw_follower_rules_clear(&rules);
    return ok;
}

#define LONG64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

Test(core_rules, a_follower_that_is_wrong_is_told_where)
{
    static char too_long[] = LONG64 "a";
    Tradewake__V1__Follower m;
    tradewake__v1__follower__init(&m);
    cr_expect(follower_reads(&m, NULL));

    m.mode = (Tradewake__V1__FollowerMode)9;
    cr_expect_not(follower_reads(&m, "follower.mode"));

    tradewake__v1__follower__init(&m);
    m.max_parallel = 64;
    cr_expect(follower_reads(&m, NULL));
    m.max_parallel = 65;
    cr_expect_not(follower_reads(&m, "follower.max_parallel"));

    tradewake__v1__follower__init(&m);
    m.symbol_suffix = too_long;
    cr_expect_not(follower_reads(&m, "follower.symbol_suffix"));

    tradewake__v1__follower__init(&m);
    m.credentials_ref = too_long;
    cr_expect_not(follower_reads(&m, "follower.credentials_ref"));
}

Test(core_rules, an_override_that_is_wrong_is_told_by_its_place)
{
    static const struct {
        size_t offset;
        const char *value, *field;
    } rows[] = {
#define FIELD(name) offsetof(Tradewake__V1__InstrumentOverride, name)
        {FIELD(min_volume), "0", "min_volume"},   {FIELD(max_volume), "-1", "max_volume"},
        {FIELD(volume_step), "0", "volume_step"}, {FIELD(contract_size), "x", "contract_size"},
        {FIELD(tick_size), "0", "tick_size"},     {FIELD(min_notional), "-1", "min_notional"},
        {FIELD(min_notional), "0", NULL},         {FIELD(symbol), "", "symbol"},
#undef FIELD
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        Tradewake__V1__InstrumentOverride first, second, *list[] = {&first, &second};
        Tradewake__V1__Follower m;
        char symbol[] = "EURUSD", value[16], field[64] = "";
        tradewake__v1__instrument_override__init(&first);
        tradewake__v1__instrument_override__init(&second);
        first.symbol = second.symbol = symbol;
        snprintf(value, sizeof value, "%s", rows[i].value);
        *(char **)((char *)&second + rows[i].offset) = value;
        tradewake__v1__follower__init(&m);
        m.instruments = list;
        m.n_instruments = 2;
        if (rows[i].field != NULL)
            snprintf(field, sizeof field, "follower.instruments[1].%s", rows[i].field);
        cr_expect_eq(follower_reads(&m, field), rows[i].field == NULL, "row %zu", i);
    }
}

Test(core_rules, limits_that_are_wrong_are_told_by_their_place)
{
    static const struct {
        const char *name;
        int measure, period;
        char *absolute, *fraction, *order, *total;
        const char *field;
    } rows[] = {
        {"right", 1, 1, "100", "", "1", "2", NULL},
        {"a fraction", 3, 4, "", "0.05", "", "", NULL},
        {"no measure", 0, 1, "100", "", "", "", "risk.loss_limits[0].measure"},
        {"an unknown measure", 9, 1, "100", "", "", "", "risk.loss_limits[0].measure"},
        {"no period", 1, 0, "100", "", "", "", "risk.loss_limits[0].period"},
        {"no amount", 1, 1, "", "", "", "", "risk.loss_limits[0].max_absolute"},
        {"an amount of 0", 1, 1, "0", "", "", "", "risk.loss_limits[0].max_absolute"},
        {"a fraction of 0", 1, 1, "", "0", "", "", "risk.loss_limits[0].max_fraction"},
        {"an order of 0", 1, 1, "1", "", "0", "", "risk.max_order_volume"},
        {"a total below 0", 1, 1, "1", "", "", "-2", "risk.max_total_volume"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        Tradewake__V1__RiskLimit limit, *list[] = {&limit};
        Tradewake__V1__RiskLimits risk;
        Tradewake__V1__Follower m;
        char field[64] = "";
        tradewake__v1__risk_limit__init(&limit);
        tradewake__v1__risk_limits__init(&risk);
        tradewake__v1__follower__init(&m);
        limit.measure = (Tradewake__V1__RiskMeasure)rows[i].measure;
        limit.period = (Tradewake__V1__RiskPeriod)rows[i].period;
        limit.max_absolute = or_empty(rows[i].absolute);
        limit.max_fraction = or_empty(rows[i].fraction);
        risk.max_order_volume = or_empty(rows[i].order);
        risk.max_total_volume = or_empty(rows[i].total);
        risk.loss_limits = list;
        risk.n_loss_limits = 1;
        m.risk = &risk;
        if (rows[i].field != NULL)
            snprintf(field, sizeof field, "follower.%s", rows[i].field);
        cr_expect_eq(follower_reads(&m, field), rows[i].field == NULL, "%s", rows[i].name);
    }
}

Test(core_rules, a_list_has_an_end)
{
    enum { MANY = 4097 };
    static Tradewake__V1__MagicRange range, *list[MANY];
    tradewake__v1__magic_range__init(&range);
    for (size_t i = 0; i < MANY; i++)
        list[i] = &range;
    Tradewake__V1__CopyRules m;
    struct tw_rules rules;
    struct tw_refusal refusal = {0};
    tradewake__v1__copy_rules__init(&m);
    m.magics_excluded = list;
    m.n_magics_excluded = MANY;
    cr_expect_not(tw_rules_read(&m, "rules.", &rules, &refusal));
    cr_expect_str_eq(refusal.field, "rules.magics_excluded");
    m.n_magics_excluded = MANY - 1;
    cr_assert(tw_rules_read(&m, "rules.", &rules, &refusal));
    cr_expect_eq(rules.n_magics_excluded, MANY - 1);
    tw_rules_clear(&rules);
}

/* What was read does not point into the message. */
Test(core_rules, rules_outlive_the_message_they_came_from)
{
    char from[] = "GER30", to[] = "DE40", pattern[] = "GER*";
    char *patterns[] = {pattern};
    Tradewake__V1__SymbolMapping mapping, *map[] = {&mapping};
    Tradewake__V1__CopyRules m;
    struct tw_rules rules;
    struct tw_refusal refusal = {0};
    tradewake__v1__symbol_mapping__init(&mapping);
    tradewake__v1__copy_rules__init(&m);
    mapping.from_symbol = from;
    mapping.to_symbol = to;
    m.symbol_map = map;
    m.n_symbol_map = 1;
    m.symbols_included = patterns;
    m.n_symbols_included = 1;
    cr_assert(tw_rules_read(&m, "rules.", &rules, &refusal));

    memset(from, 'x', sizeof from);
    memset(to, 'x', sizeof to);
    memset(pattern, 'x', sizeof pattern);

    cr_expect_str_eq(rules.symbol_map[0].from, "GER30");
    cr_expect_str_eq(rules.symbol_map[0].to, "DE40");
    cr_expect_str_eq(rules.included[0].text, "GER*");
    tw_rules_clear(&rules);
}
