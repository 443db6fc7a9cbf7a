/* core_open.c - whether an opening is copied, as what, and which rule has the first word. */
#include "core_support.h"

#define S(ns) ((ns)*TW_NS_PER_S)

/* ---- The order of the rules ---- */

/* Each row breaks everything from a rule on; the reason is that of the first. */
static void break_halt(struct fixture *f)
{
    f->view.is_halted = true;
}
static void break_mode(struct fixture *f)
{
    f->follower.mode = TW_MODE_CLOSE_ONLY;
}
static void break_stop_out(struct fixture *f)
{
    f->view.is_stopped_out = true;
}
static void break_breaker(struct fixture *f)
{
    f->view.is_breaker_open = true;
}
static void break_symbol_filter(struct fixture *f)
{
    static struct tw_pattern excluded;
    excluded = tw_pattern_of("US500");
    f->rules.excluded = &excluded;
    f->rules.n_excluded = 1;
}
static void break_symbol(struct fixture *f)
{
    f->event.symbol = "US500";
}
static void break_side(struct fixture *f)
{
    f->rules.allows_buy = false;
}
static void break_magic(struct fixture *f)
{
    static const struct tw_magic_range excluded[] = {{0, 0}};
    f->rules.magics_excluded = excluded;
    f->rules.n_magics_excluded = 1;
}
static void break_age(struct fixture *f)
{
    f->event.observed_wall_ns = NOW_NS - S(61);
}
static void break_queue(struct fixture *f)
{
    f->view.wait_ns = S(61);
}
static void break_size(struct fixture *f)
{
    f->event.volume = dec("0.001");
}
static void break_limits(struct fixture *f)
{
    f->follower.max_order_volume = 1;
}
static void break_deviation(struct fixture *f)
{
    f->rules.max_price_deviation = 0;
}
static void break_monitor(struct fixture *f)
{
    f->follower.mode = TW_MODE_MONITOR;
}

Test(core_open, the_first_rule_that_says_no_gives_the_reason)
{
    static const struct {
        void (*break_it)(struct fixture *f);
        tw_reason reason;
    } rows[] = {
        {break_halt, REASON(HALTED)},
        {break_mode, REASON(CLOSE_ONLY)},
        {break_stop_out, REASON(RISK_LIMIT)},
        {break_breaker, REASON(BREAKER_OPEN)},
        {break_symbol_filter, REASON(SYMBOL_FILTERED)},
        {break_symbol, REASON(SYMBOL_NOT_FOUND)},
        {break_side, REASON(SIDE_FILTERED)},
        {break_magic, REASON(MAGIC_FILTERED)},
        {break_age, REASON(TOO_OLD)},
        {break_queue, REASON(QUEUE_FULL)},
        {break_size, REASON(BELOW_MIN)},
        {break_limits, REASON(RISK_LIMIT)},
        {break_deviation, REASON(MISSING_SPEC)},
        {break_monitor, REASON(MONITORED)},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fixture f;
        fixture_open(&f, NULL, NULL);
        for (size_t k = COUNT(rows); k > i; k--)
            rows[k - 1].break_it(&f);

        struct tw_plan plan = plan_now(&f);

        cr_expect_eq(plan.reason, rows[i].reason, "row %zu: %s instead of %s", i,
                     reason_name(plan.reason), reason_name(rows[i].reason));
        cr_expect_eq(plan.state,
                     rows[i].reason == REASON(TOO_OLD) ? STATE(EXPIRED) : STATE(SKIPPED));
        fixture_close(&f);
    }
}

Test(core_open, modes_and_leaving)
{
    static const struct {
        enum tw_mode mode;
        bool is_leaving;
        tw_reason reason;
    } rows[] = {
        {TW_MODE_ACTIVE, false, REASON(UNSPECIFIED)},
        {TW_MODE_ACTIVE, true, REASON(CLOSE_ONLY)},
        {TW_MODE_MONITOR, false, REASON(MONITORED)},
        {TW_MODE_MONITOR, true, REASON(CLOSE_ONLY)},
        {TW_MODE_CLOSE_ONLY, false, REASON(CLOSE_ONLY)},
        {TW_MODE_PAUSED, false, REASON(FOLLOWER_PAUSED)},
        {TW_MODE_PAUSED, true, REASON(FOLLOWER_PAUSED)},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fixture f;
        fixture_open(&f, NULL, NULL);
        f.follower.mode = rows[i].mode;
        f.view.is_leaving = rows[i].is_leaving;
        struct tw_plan plan = plan_now(&f);
        cr_expect_eq(plan.reason, rows[i].reason, "row %zu: %s", i, reason_name(plan.reason));
        fixture_close(&f);
    }
}

Test(core_open, monitor_decides_in_full)
{
    struct fixture f;
    fixture_open(&f, NULL, NULL);
    f.follower.mode = TW_MODE_MONITOR;
    f.event.volume = dec("0.25");
    f.event.stop_loss = dec("1.05");

    struct tw_plan plan = plan_now(&f);

    cr_expect_eq(plan.reason, REASON(MONITORED));
    cr_expect_eq(plan.volume, dec("0.25"));
    cr_expect_eq(plan.stop_loss, dec("1.05"));
    fixture_close(&f);
}

/* ---- Symbols ---- */

Test(core_open, patterns_match_whole_names)
{
    static const struct {
        const char *pattern, *text;
        bool matches;
    } rows[] = {
        {"EURUSD", "EURUSD", true},
        {"EURUSD", "EURUSDx", false},
        {"EURUSD", "EURUS", false},
        {"EUR*", "EURUSD", true},
        {"EUR*", "EUR", true},
        {"*USD", "EURUSD", true},
        {"*USD", "USDJPY", false},
        {"*", "", true},
        {"*", "anything", true},
        {"?URUSD", "EURUSD", true},
        {"??USD", "EURUSD", false},
        {"???USD", "EURUSD", true},
        {"?", "", false},
        {"E*U*D", "EURUSD", true},
        {"E*U*X", "EURUSD", false},
        {"*R*S*", "EURUSD", true},
        {"**", "x", true},
        {"a*b*c", "aXbYbZc", true},
        {"a*bc", "abcbc", true},
        {"eur*", "EURUSD", false},
        {"EUR.USD", "EURxUSD", false},
        {"", "", true},
        {"", "x", false},
        {"x*", "", false},
        {"[AB]", "A", false},
        {"US500.*", "US500.cash", true},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        cr_expect_eq(tw_pattern_matches(rows[i].pattern, rows[i].text), rows[i].matches,
                     "\"%s\" and \"%s\"", rows[i].pattern, rows[i].text);
}

/* Every text of up to n characters of an alphabet, the first one of each length first; false after the last. */
static bool text_next(char *text, const char *alphabet, size_t n)
{
    size_t at = strlen(text);
    const char *last = alphabet + strlen(alphabet) - 1;
    while (at > 0 && text[at - 1] == *last)
        text[--at] = alphabet[0];
    if (at > 0) {
        text[at - 1] = strchr(alphabet, text[at - 1])[1];
        return true;
    }
    at = strlen(text);
    text[at] = alphabet[0];
    text[at + 1] = '\0';
    return at < n;
}

/* Whether an opening of this symbol passes a filter of this one pattern. */
static bool passes(const char *pattern, const char *symbol)
{
    const struct tw_pattern compiled = tw_pattern_of(pattern);
    uint64_t head = tw_symbol_head(symbol), tail = tw_symbol_tail(symbol, head);
    return (head & compiled.head_mask) == compiled.head && (tail & compiled.tail_mask) == compiled.tail;
}

/* What is looked at before the text never keeps out what the text lets in; names of one to ten characters, with
 * all patterns of up to four characters before, behind, and around a part of eight. */
Test(core_open, head_and_tail_of_a_pattern_agree_with_it)
{
    static const char *const befores[] = {"", "abababab", "abbaabb"}, *const afters[] = {"", "babababa", "b"};
    size_t n = 0, matching = 0;
    for (size_t b = 0; b < COUNT(befores); b++)
        for (size_t a = 0; a < COUNT(afters); a++)
            for (char pattern[8] = "a"; text_next(pattern, "ab?*", 4);)
                for (char text[8] = "a"; text_next(text, "ab", 4);) {
                    char whole_pattern[32], whole_text[32];
                    snprintf(whole_pattern, sizeof whole_pattern, "%s%s%s", befores[b], pattern, afters[a]);
                    snprintf(whole_text, sizeof whole_text, "%s%s%s", befores[b], text, afters[a]);
                    bool matches = tw_pattern_matches(whole_pattern, whole_text);
                    n++;
                    matching += matches;
                    if (matches)
                        cr_assert(passes(whole_pattern, whole_text), "\"%s\" and \"%s\"", whole_pattern, whole_text);
                }
    cr_expect_gt(matching, n / 20, "%zu of %zu", matching, n);
    cr_expect_not(passes("EUR*", "GBPUSD"));
    cr_expect_not(passes("*CHF", "EURUSD"));
    cr_expect_not(passes("EURUSD", "EURUSDm"));
    cr_expect_not(passes("EURUSDm", "EURUSD"));
}

Test(core_open, excluded_symbols_win_over_included_ones)
{
    static const struct {
        const char *included, *excluded; /* NULL = none */
        bool is_copied;
    } rows[] = {
        {NULL, NULL, true},      {"EUR*", NULL, true}, {"GBP*", NULL, false},
        {NULL, "EURUSD", false}, {NULL, "GBP*", true}, {"EUR*", "*USD", false},
        {"*", "GBP*", true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fixture f;
        fixture_open(&f, NULL, NULL);
        const struct tw_pattern included = tw_pattern_of(rows[i].included != NULL ? rows[i].included : "");
        const struct tw_pattern excluded = tw_pattern_of(rows[i].excluded != NULL ? rows[i].excluded : "");
        f.rules.included = &included;
        f.rules.n_included = rows[i].included != NULL;
        f.rules.excluded = &excluded;
        f.rules.n_excluded = rows[i].excluded != NULL;
        struct tw_plan plan = plan_now(&f);
        cr_expect_eq(plan.reason, rows[i].is_copied ? REASON(UNSPECIFIED) : REASON(SYMBOL_FILTERED),
                     "row %zu: %s", i, reason_name(plan.reason));
        fixture_close(&f);
    }
}

Test(core_open, the_masters_name_is_what_filters_see)
{
    const struct tw_symbol_mapping map = tw_symbol_mapping_of("GER40", "EURUSD");
    const struct tw_pattern excluded = tw_pattern_of("EURUSD");
    struct fixture f;
    fixture_open(&f, NULL, NULL);
    f.event.symbol = "GER40";
    f.rules.symbol_map = &map;
    f.rules.n_symbol_map = 1;
    f.rules.excluded = &excluded;
    f.rules.n_excluded = 1;

    struct tw_plan plan = plan_now(&f);

    cr_expect_eq(plan.reason, REASON(UNSPECIFIED), "%s", reason_name(plan.reason));
    cr_expect_str_eq(plan.listing->instrument.symbol, "EURUSD");
    fixture_close(&f);
}

/* What the account lists, and where the names lead. Names are parted by blanks, "from>to" in maps.
 */
Test(core_open, a_symbol_is_found_by_maps_suffix_and_plain_name)
{
    static const struct {
        const char *name, *listed, *by_rules, *by_follower, *suffix, *symbol, *found;
    } rows[] = {
        {"plain", "EURUSD", "", "", "", "EURUSD", "EURUSD"},
        {"suffix first", "EURUSD EURUSD.r", "", "", ".r", "EURUSD", "EURUSD.r"},
        {"plain where the suffix is not", "EURUSD", "", "", ".r", "EURUSD", "EURUSD"},
        {"the subscription's map", "EURUSD DE40", "GER30>DE40", "", "", "GER30", "DE40"},
        {"the follower's map", "EURUSD DE40", "", "GER30>DE40", "", "GER30", "DE40"},
        {"one feeds the other", "DAX GER30", "DE>GER30", "GER30>DAX", "", "DE", "DAX"},
        {"a mapped name is tried as it is", "DE40 DE40.r", "GER30>DE40", "", ".r", "GER30", "DE40"},
        {"a mapped name, only with the suffix there", "DE40.r", "GER30>DE40", "", ".r", "GER30",
         "DE40.r"},
        {"a map beats the same name", "EURUSD EURUSDm", "", "EURUSD>EURUSDm", "", "EURUSD",
         "EURUSDm"},
        {"a map to what is not there", "EURUSD", "EURUSD>NOPE", "", "", "EURUSD", NULL},
        {"case matters", "EURUSD", "", "", "", "eurusd", NULL},
        {"not there", "EURUSD", "", "", ".r", "GBPUSD", NULL},
        {"a map's last entry", "A B C", "a>A b>B c>C", "", "", "c", "C"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fixture f;
        struct tw_symbol_mapping maps[2][4];
        uint32_t n[2] = {0, 0};
        char texts[3][64];
        fixture_open(&f, NULL, NULL);
        tw_market_clear(&f.market);
        snprintf(texts[2], sizeof texts[2], "%s", rows[i].listed);
        for (char *at = strtok(texts[2], " "); at != NULL; at = strtok(NULL, " ")) {
            struct tw_instrument instrument = instrument_of(at);
            tell(&f, &instrument);
        }
        const char *const given[2] = {rows[i].by_rules, rows[i].by_follower};
        for (size_t m = 0; m < 2; m++) {
            snprintf(texts[m], sizeof texts[m], "%s", given[m]);
            for (char *at = strtok(texts[m], " "); at != NULL; at = strtok(NULL, " ")) {
                char *to = strchr(at, '>');
                *to = '\0';
                maps[m][n[m]++] = tw_symbol_mapping_of(at, to + 1);
            }
        }
        f.rules.symbol_map = maps[0];
        f.rules.n_symbol_map = n[0];
        f.follower.symbol_map = maps[1];
        f.follower.n_symbol_map = n[1];
        f.follower.symbol_suffix = rows[i].suffix;
        f.event.symbol = rows[i].symbol;

        struct tw_plan plan = plan_now(&f);

        if (rows[i].found != NULL)
            cr_expect_str_eq(plan.listing != NULL ? plan.listing->instrument.symbol : "none",
                             rows[i].found, "%s", rows[i].name);
        else
            cr_expect_eq(plan.reason, REASON(SYMBOL_NOT_FOUND), "%s: %s", rows[i].name,
                         reason_name(plan.reason));
        f.follower.symbol_suffix = "";
        fixture_close(&f);
    }
}

Test(core_open, an_account_that_has_not_been_read_is_not_one_without_the_symbol)
{
    struct fixture f;
    fixture_open(&f, NULL, NULL);
    tw_market_clear(&f.market);
    struct tw_plan plan = plan_now(&f);
    cr_expect_eq(plan.reason, REASON(NO_CONNECTION));
    fixture_close(&f);
}

/* ---- Sides, magics, age ---- */

Test(core_open, sides_are_the_masters_also_where_reversed)
{
    static const struct {
        bool buys, sells, reverse;
        enum tw_side side;
        bool is_copied;
    } rows[] = {
        {true, true, false, TW_BUY, true},    {true, false, false, TW_BUY, true},
        {true, false, false, TW_SELL, false}, {false, true, false, TW_BUY, false},
        {true, false, true, TW_BUY, true},    {false, true, true, TW_BUY, false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fixture f;
        fixture_open(&f, NULL, NULL);
        f.rules.allows_buy = rows[i].buys;
        f.rules.allows_sell = rows[i].sells;
        f.rules.reverse = rows[i].reverse;
        f.event.side = rows[i].side;
        struct tw_plan plan = plan_now(&f);
        cr_expect_eq(plan.reason, rows[i].is_copied ? REASON(UNSPECIFIED) : REASON(SIDE_FILTERED),
                     "row %zu", i);
        if (rows[i].is_copied)
            cr_expect_eq(plan.side,
                         rows[i].reverse ? tw_side_opposite(rows[i].side) : rows[i].side);
        fixture_close(&f);
    }
}

Test(core_open, both_ends_of_a_magic_range_belong_to_it)
{
    static const struct {
        struct tw_magic_range included, excluded;
        bool includes, excludes;
        int64_t magic;
        bool is_copied;
    } rows[] = {
        {{10, 20}, {0, 0}, true, false, 9, false},
        {{10, 20}, {0, 0}, true, false, 10, true},
        {{10, 20}, {0, 0}, true, false, 20, true},
        {{10, 20}, {0, 0}, true, false, 21, false},
        {{0, 0}, {10, 20}, false, true, 9, true},
        {{0, 0}, {10, 20}, false, true, 10, false},
        {{0, 0}, {10, 20}, false, true, 20, false},
        {{0, 99}, {10, 20}, true, true, 15, false},
        {{0, 99}, {10, 20}, true, true, 50, true},
        {{-5, -1}, {0, 0}, true, false, -3, true},
        {{INT64_MIN, INT64_MAX}, {0, 0}, true, false, INT64_MAX, true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fixture f;
        fixture_open(&f, NULL, NULL);
        f.rules.magics_included = &rows[i].included;
        f.rules.n_magics_included = rows[i].includes;
        f.rules.magics_excluded = &rows[i].excluded;
        f.rules.n_magics_excluded = rows[i].excludes;
        f.event.magic = rows[i].magic;
        struct tw_plan plan = plan_now(&f);
        cr_expect_eq(plan.reason, rows[i].is_copied ? REASON(UNSPECIFIED) : REASON(MAGIC_FILTERED),
                     "row %zu", i);
        fixture_close(&f);
    }
}

Test(core_open, an_event_is_too_old_after_its_window_and_never_too_new)
{
    static const struct {
        int64_t age_ns, window_ns;
        bool is_copied;
    } rows[] = {
        {S(60), S(60), true},
        {S(60) + 1, S(60), false},
        {0, S(60), true},
        {-S(5), S(60), true},
        {TW_NS_PER_MS, TW_NS_PER_MS, true},
        {2 * TW_NS_PER_MS, TW_NS_PER_MS, false},
        {NOW_NS + S(INT64_C(7000000000)), S(60), false}, /* a snapshot's: opened in 1748 */
        {NOW_NS - S(INT64_C(7000000000)), S(60), true},  /* in 2191 */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fixture f;
        fixture_open(&f, NULL, NULL);
        f.rules.open_window_ns = rows[i].window_ns;
        f.event.observed_wall_ns = NOW_NS - rows[i].age_ns;
        f.view.trace = i % 2 == 0 ? &f.trace : NULL;
        struct tw_plan plan = plan_now(&f);
        cr_expect_eq(plan.reason, rows[i].is_copied ? REASON(UNSPECIFIED) : REASON(TOO_OLD),
                     "row %zu", i);
        cr_expect_eq(plan.state, rows[i].is_copied ? STATE(QUEUED) : STATE(EXPIRED), "row %zu", i);
        fixture_close(&f);
    }
}

/* ---- Pending orders ---- */

static void fixture_place(struct fixture *f, enum tw_order_type type, enum tw_side side,
                          const char *price)
{
    fixture_open(f, NULL, NULL);
    tw_event_clear(&f->event, TW_EVENT_PLACE);
    f->event.order_id = "o1";
    f->event.observed_wall_ns = NOW_NS;
    f->event.symbol = "EURUSD";
    f->event.type = type;
    f->event.side = side;
    f->event.volume = dec("1");
    f->event.price = dec(price);
    if (type == TW_ORDER_STOP_LIMIT)
        f->event.stop_price = dec(price);
}

Test(core_open, pending_orders_go_as_they_are_mirrored_or_not_at_all)
{
    static const struct {
        const char *name;
        enum tw_order_type type;
        enum tw_side side;
        enum tw_pending_policy policy;
        bool reverse;
        int64_t expires_in_ns; /* 0 = never */
        tw_reason reason;
        enum tw_order_type to_type;
        enum tw_side to_side;
    } rows[] = {
        {"buy limit", TW_ORDER_LIMIT, TW_BUY, TW_PENDING_COPY, false, 0, 0, TW_ORDER_LIMIT, TW_BUY},
        {"sell stop", TW_ORDER_STOP, TW_SELL, TW_PENDING_COPY, false, 0, 0, TW_ORDER_STOP, TW_SELL},
        {"stop-limit", TW_ORDER_STOP_LIMIT, TW_BUY, TW_PENDING_COPY, false, 0, 0,
         TW_ORDER_STOP_LIMIT, TW_BUY},
        {"buy limit reversed", TW_ORDER_LIMIT, TW_BUY, TW_PENDING_COPY, true, 0, 0, TW_ORDER_STOP,
         TW_SELL},
        {"sell limit reversed", TW_ORDER_LIMIT, TW_SELL, TW_PENDING_COPY, true, 0, 0, TW_ORDER_STOP,
         TW_BUY},
        {"buy stop reversed", TW_ORDER_STOP, TW_BUY, TW_PENDING_COPY, true, 0, 0, TW_ORDER_LIMIT,
         TW_SELL},
        {"sell stop reversed", TW_ORDER_STOP, TW_SELL, TW_PENDING_COPY, true, 0, 0, TW_ORDER_LIMIT,
         TW_BUY},
        {"stop-limit reversed", TW_ORDER_STOP_LIMIT, TW_BUY, TW_PENDING_COPY, true, 0,
         REASON(UNSUPPORTED_REVERSE), 0, 0},
        {"policy skip", TW_ORDER_LIMIT, TW_BUY, TW_PENDING_SKIP, false, 0, REASON(PENDING_SKIPPED),
         0, 0},
        {"policy market on trigger", TW_ORDER_LIMIT, TW_BUY, TW_PENDING_MARKET_ON_TRIGGER, false, 0,
         REASON(PENDING_SKIPPED), 0, 0},
        {"the policy is asked before the mirror", TW_ORDER_STOP_LIMIT, TW_BUY, TW_PENDING_SKIP,
         true, 0, REASON(PENDING_SKIPPED), 0, 0},
        {"expires later", TW_ORDER_LIMIT, TW_BUY, TW_PENDING_COPY, false, S(60), 0, TW_ORDER_LIMIT,
         TW_BUY},
        {"expires now", TW_ORDER_LIMIT, TW_BUY, TW_PENDING_COPY, false, -1, REASON(INVALID_EXPIRY),
         0, 0},
        {"has expired", TW_ORDER_LIMIT, TW_BUY, TW_PENDING_COPY, false, -S(60),
         REASON(INVALID_EXPIRY), 0, 0},
        {"has expired, and is not wanted anyway", TW_ORDER_LIMIT, TW_BUY, TW_PENDING_SKIP, false,
         -S(60), REASON(INVALID_EXPIRY), 0, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fixture f;
        fixture_place(&f, rows[i].type, rows[i].side, "1.1");
        f.rules.pending = rows[i].policy;
        f.rules.reverse = rows[i].reverse;
        if (rows[i].expires_in_ns != 0)
            f.event.expires_wall_ns =
                NOW_NS + (rows[i].expires_in_ns == -1 ? 0 : rows[i].expires_in_ns);

        struct tw_plan plan = plan_now(&f);

        cr_expect_eq(plan.reason, rows[i].reason, "%s: %s", rows[i].name, reason_name(plan.reason));
        if (rows[i].reason == REASON(UNSPECIFIED)) {
            cr_expect_eq(plan.action, ACTION(PLACE), "%s", rows[i].name);
            cr_expect_eq(plan.op, TW_OP_PLACE, "%s", rows[i].name);
            cr_expect_eq(plan.type, rows[i].to_type, "%s", rows[i].name);
            cr_expect_eq(plan.side, rows[i].to_side, "%s", rows[i].name);
            cr_expect_eq(plan.expires_wall_ns, f.event.expires_wall_ns, "%s", rows[i].name);
        } else {
            cr_expect_eq(plan.state,
                         rows[i].reason == REASON(INVALID_EXPIRY) ? STATE(EXPIRED) : STATE(SKIPPED),
                         "%s", rows[i].name);
        }
        fixture_close(&f);
    }
}

Test(core_open, pending_prices_go_away_from_the_market_to_the_tick)
{
    static const struct {
        enum tw_order_type type;
        enum tw_side side;
        const char *tick, *price, *placed;
    } rows[] = {
        {TW_ORDER_LIMIT, TW_BUY, "0.01", "1.236", "1.23"},
        {TW_ORDER_LIMIT, TW_SELL, "0.01", "1.234", "1.24"},
        {TW_ORDER_STOP, TW_BUY, "0.01", "1.234", "1.24"},
        {TW_ORDER_STOP, TW_SELL, "0.01", "1.236", "1.23"},
        {TW_ORDER_LIMIT, TW_BUY, "0.01", "1.23", "1.23"},
        {TW_ORDER_LIMIT, TW_SELL, "0.25", "101.3", "101.5"},
        {TW_ORDER_LIMIT, TW_BUY, "0", "1.23456789", "1.23456789"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fixture f;
        fixture_place(&f, rows[i].type, rows[i].side, rows[i].price);
        struct tw_instrument eurusd = instrument_of("EURUSD");
        eurusd.tick_size = dec(rows[i].tick);
        tell(&f, &eurusd);
        struct tw_plan plan = plan_now(&f);
        cr_expect_eq(plan.price, dec(rows[i].placed), "row %zu: %s", i, TEXT(plan.price));
        fixture_close(&f);
    }
}

Test(core_open, a_stop_limits_two_prices_are_rounded_each_its_way)
{
    struct fixture f;
    fixture_place(&f, TW_ORDER_STOP_LIMIT, TW_BUY, "1.100004");
    f.event.stop_price = dec("1.101004");

    struct tw_plan plan = plan_now(&f);

    cr_expect_eq(plan.price, dec("1.1"), "%s", TEXT(plan.price)); /* a limit to buy: down */
    cr_expect_eq(plan.stop_price, dec("1.10101"), "%s",
                 TEXT(plan.stop_price)); /* a stop to buy: up */
    fixture_close(&f);
}

Test(core_open, age_and_price_deviation_say_nothing_of_what_waits)
{
    struct fixture f;
    fixture_place(&f, TW_ORDER_LIMIT, TW_BUY, "1.1");
    f.rules.max_price_deviation = dec("0.0001");
    quote(&f, "EURUSD", "1.2", "1.2001");
    struct tw_plan plan = plan_now(&f);
    cr_expect_eq(plan.reason, REASON(UNSPECIFIED), "%s", reason_name(plan.reason));
    fixture_close(&f);
}

/* ---- Limits and prices ---- */

Test(core_open, limits_hold_for_the_scaled_volume_with_what_is_open)
{
    static const struct {
        const char *name, *most_order, *most_total, *open, *volume;
        uint32_t most_positions, positions;
        bool increase;
        tw_reason reason;
        bool is_first;
    } rows[] = {
        {"none", "", "", "50", "1", 0, 1000, false, 0, false},
        {"an order as large as allowed", "1", "", "0", "1", 0, 0, false, 0, false},
        {"an order that is larger", "0.99", "", "0", "1", 0, 0, false, REASON(RISK_LIMIT), false},
        {"all together as much as allowed", "", "1.5", "0.5", "1", 0, 0, false, 0, false},
        {"all together more", "", "1.49", "0.5", "1", 0, 0, false, REASON(RISK_LIMIT), false},
        {"a total that does not fit", "", "99", "92233720368", "1", 0, 0, false, REASON(RISK_LIMIT),
         false},
        {"the last position allowed", "", "", "0", "1", 3, 2, false, 0, false},
        {"one too many", "", "", "0", "1", 3, 3, false, REASON(MAX_POSITIONS), false},
        {"an increase is no position more", "", "", "0", "1", 3, 3, true, 0, false},
        {"... but the first one is", "", "", "0", "1", 3, 3, true, REASON(MAX_POSITIONS), true},
        {"an increase counts in the total", "", "1.49", "0.5", "1", 3, 3, true, REASON(RISK_LIMIT),
         false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fixture f;
        fixture_open(&f, NULL, NULL);
        f.follower.max_order_volume = dec(rows[i].most_order);
        f.follower.max_total_volume = dec(rows[i].most_total);
        f.follower.max_open_positions = rows[i].most_positions;
        f.view.open_positions = rows[i].positions;
        f.view.is_first = rows[i].is_first;
        tw_decimal open = TW_DECIMAL_UNSET;
        if (strcmp(rows[i].open, "92233720368") == 0)
            open = INT64_MAX;
        tw_market_find(&f.market, "EURUSD")->open_volume =
            open != TW_DECIMAL_UNSET ? open : dec(rows[i].open);
        f.event.volume = dec(rows[i].volume);
        f.event.increase = rows[i].increase;
        struct tw_plan plan = plan_now(&f);
        cr_expect_eq(plan.reason, rows[i].reason, "%s: %s", rows[i].name, reason_name(plan.reason));
        fixture_close(&f);
    }
}

Test(core_open, a_price_may_be_as_far_away_as_allowed_and_no_further)
{
    static const struct {
        const char *name, *allowed, *price, *bid, *ask;
        enum tw_side side;
        tw_reason reason;
    } rows[] = {
        {"no rule", "", "1.1", "2", "2", TW_BUY, 0},
        {"equal passes", "0.0005", "1.1", "1.1", "1.1005", TW_BUY, 0},
        {"one point more", "0.0005", "1.1", "1.1", "1.10051", TW_BUY, REASON(PRICE_DEVIATION)},
        {"a better price is away, too", "0.0005", "1.1", "1.09", "1.0905", TW_BUY,
         REASON(PRICE_DEVIATION)},
        {"a sell looks at the bid", "0.0005", "1.1", "1.0995", "1.2", TW_SELL, 0},
        {"a sell that is too far", "0.0005", "1.1", "1.09949", "1.1", TW_SELL,
         REASON(PRICE_DEVIATION)},
        {"zero allows the same price", "0", "1.1", "1.0", "1.1", TW_BUY, 0},
        {"no quote", "0.0005", "1.1", "", "", TW_BUY, REASON(MISSING_SPEC)},
        {"no price", "0.0005", "", "1.1", "1.1", TW_BUY, REASON(MISSING_SPEC)},
        {"a price of 0 is none", "0.0005", "0", "1.1", "1.1", TW_BUY, REASON(MISSING_SPEC)},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fixture f;
        fixture_open(&f, NULL, NULL);
        f.rules.max_price_deviation = dec(rows[i].allowed);
        f.event.price = dec(rows[i].price);
        f.event.side = rows[i].side;
        quote(&f, "EURUSD", rows[i].bid, rows[i].ask);
        struct tw_plan plan = plan_now(&f);
        cr_expect_eq(plan.reason, rows[i].reason, "%s: %s", rows[i].name, reason_name(plan.reason));
        fixture_close(&f);
    }
}

/* ---- What people read ---- */

Test(core_open, every_no_says_why_in_words)
{
    static void (*const breaks[])(struct fixture *) = {
        break_halt,   break_mode,      break_stop_out, break_breaker, break_symbol_filter,
        break_symbol, break_side,      break_magic,    break_age,     break_size,
        break_limits, break_deviation, break_monitor,
    };
    for (size_t i = 0; i < COUNT(breaks); i++) {
        struct fixture f;
        fixture_open(&f, NULL, NULL);
        breaks[i](&f);
        if (breaks[i] == break_symbol_filter)
            f.event.symbol = "US500";
        f.view.trace = &f.trace;

        struct tw_plan plan = plan_now(&f);

        const struct tw_trace_step *last = &f.trace.steps[f.trace.n_steps - 1];
        cr_expect_neq(plan.reason, REASON(UNSPECIFIED), "%zu", i);
        cr_expect_str_eq(last->output, reason_name(plan.reason), "%zu", i);
        cr_expect_neq(last->note[0], '\0', "%s says nothing", last->rule);
        fixture_close(&f);
    }
}

Test(core_open, the_arithmetic_can_be_followed)
{
    const struct tw_symbol_mapping map = tw_symbol_mapping_of("EURUSD", "EURUSD.x");
    Tradewake__V1__CopyRules rules;
    tradewake__v1__copy_rules__init(&rules);
    rules.sizing = TRADEWAKE__V1__SIZING_MODE__SIZING_MODE_BALANCE;
    char multiplier[] = "0.5", most[] = "0.6";
    rules.multiplier = multiplier;
    rules.max_volume = most;
    struct fixture f;
    fixture_open(&f, &rules, NULL);
    f.rules.symbol_map = &map;
    f.rules.n_symbol_map = 1;
    struct tw_instrument instrument = instrument_of("EURUSD.x");
    tell(&f, &instrument);
    quote(&f, "EURUSD", "1.19", "1.21");
    account_set(&f.account, "USD", "6000");
    account_set(&f.master, "EUR", "2500");
    f.event.volume = dec("0.75");
    f.view.trace = &f.trace;

    plan_now(&f);

    static const struct {
        const char *rule, *input, *output, *note;
    } told[] = {
        {"symbol_map", "EURUSD", "EURUSD.x", "by the map of the subscription"},
        {"open_window", "0", "", "0 s old, at most 60 s"},
        {"multiplier", "0.75", "0.375", "0.75 x 0.5"},
        {"balance", "0.375", "0.75", "0.375 x 6000 USD / (2500 EUR x 1.2 by EURUSD)"},
        {"rounding", "0.75", "0.75", "0.75 is a multiple of the step 0.01"},
        {"max_volume", "0.75", "0.6", "clamped to 0.6, the largest order of the rules"},
        {"order", "", "0.6", "BUY 0.6 EURUSD.x is sent"},
    };
    cr_assert_eq(f.trace.n_steps, COUNT(told), "%u steps", f.trace.n_steps);
    for (size_t i = 0; i < COUNT(told); i++) {
        cr_expect_str_eq(f.trace.steps[i].rule, told[i].rule);
        cr_expect_str_eq(f.trace.steps[i].input, told[i].input, "%s", told[i].rule);
        cr_expect_str_eq(f.trace.steps[i].output, told[i].output, "%s", told[i].rule);
        cr_expect_str_eq(f.trace.steps[i].note, told[i].note, "%s", told[i].rule);
    }
    fixture_close(&f);
}

Test(core_open, stops_are_told_as_they_are_moved_or_left_out)
{
    static const struct {
        const char *stop_loss, *tick, *distance, *bid, *output, *note;
        bool ignored, reverse;
    } rows[] = {
        {"1.09", "0.00001", "0", "", "1.09", "as it is", false, false},
        {"1.09", "0.00001", "0", "", "", "is left out here", true, false},
        {"1.0901", "0.01", "0", "", "1.1", "to a multiple of the tick 0.01, toward the entry",
         false, false},
        {"1.0999", "0.00001", "0.001", "1.1", "1.099",
         "moved to the nearest place outside the stops distance, 0.001", false, false},
        {"1.09", "0.00001", "0", "", "1.09", "changed places", false, true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fixture f;
        fixture_open(&f, NULL, NULL);
        struct tw_instrument eurusd = instrument_of("EURUSD");
        eurusd.tick_size = dec(rows[i].tick);
        eurusd.stops_distance = dec(rows[i].distance);
        tell(&f, &eurusd);
        quote(&f, "EURUSD", rows[i].bid, rows[i].bid);
        f.rules.reverse = rows[i].reverse;
        f.rules.ignore_stop_loss = rows[i].ignored;
        if (rows[i].reverse)
            f.event.take_profit = dec(rows[i].stop_loss);
        else
            f.event.stop_loss = dec(rows[i].stop_loss);
        plan_now(&f); /* nobody asks */
        f.view.trace = &f.trace;

        plan_now(&f);

        const struct tw_trace_step *step = &f.trace.steps[f.trace.n_steps - 2];
        cr_expect_str_eq(step->rule, "stop_loss", "row %zu", i);
        cr_expect_str_eq(step->output, rows[i].output, "row %zu", i);
        cr_expect_str_eq(step->note, rows[i].note, "row %zu", i);
        fixture_close(&f);
    }
}
