/* What people write in adapter_config: latency, faults, JSON, and each key. */
#include "faults.h"
#include "instruments.h"
#include "latency.h"
#include "settings.h"
#include "text.h"

#include <tradewake/base/clock.h>

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

struct duration_case {
    const char *text;
    bool is_valid;
    int64_t ns;
};

static const struct duration_case durations[] = {
    {"0", true, 0},
    {"0ms", true, 0},
    {"130ms", true, 130 * TW_NS_PER_MS},
    {"1.5s", true, 1500 * TW_NS_PER_MS},
    {"20us", true, 20 * TW_NS_PER_US},
    {"2m", true, 120 * TW_NS_PER_S},
    {"60m", true, 3600 * TW_NS_PER_S},
    {"61m", false, 0},
    {"130", false, 0},
    {"ms", false, 0},
    {"-1ms", false, 0},
    {"1h", false, 0},
    {"1 ms", false, 0},
    {"1..5s", false, 0},
    {"99999999999s", false, 0},
    {"", false, 0},
};

Test(paper_settings, a_time_is_a_number_and_a_unit)
{
    for (size_t i = 0; i < COUNT(durations); i++) {
        const struct duration_case *c = &durations[i];
        int64_t ns = -1;
        cr_expect_eq(span_duration(span_of(c->text), &ns), c->is_valid, "\"%s\"", c->text);
        cr_expect_eq(ns, c->is_valid ? c->ns : -1, "\"%s\" is %lld", c->text, (long long)ns);
    }
}

struct latency_case {
    const char *text;
    bool is_valid;
    enum latency_model model;
    int64_t base_ns;
};

static const struct latency_case latencies[] = {
    {"constant:130ms", true, LATENCY_CONSTANT, 130 * TW_NS_PER_MS},
    {"constant:0", true, LATENCY_CONSTANT, 0},
    {"lognormal:130ms:0.30", true, LATENCY_LOGNORMAL, 130 * TW_NS_PER_MS},
    {"zero", true, LATENCY_CONSTANT, 0},
    {"mt4-lib", true, LATENCY_LOGNORMAL, 130 * TW_NS_PER_MS},
    {"mt5-vps", true, LATENCY_LOGNORMAL, 35 * TW_NS_PER_MS},
    {"mt-remote", true, LATENCY_LOGNORMAL, 220 * TW_NS_PER_MS},
    {"ctrader", true, LATENCY_LOGNORMAL, 85 * TW_NS_PER_MS},
    {"fix-lastlook", true, LATENCY_UNIFORM, 5 * TW_NS_PER_MS},
    {"fix-exchange", true, LATENCY_LOGNORMAL, 2 * TW_NS_PER_MS},
    {"crypto", true, LATENCY_LOGNORMAL, 25 * TW_NS_PER_MS},
    {"", false, 0, 0},
    {"130ms", false, 0, 0},
    {"constant", false, 0, 0},
    {"constant:130", false, 0, 0},
    {"constant:130ms:0.3", false, 0, 0},
    {"lognormal:130ms", false, 0, 0},
    {"lognormal:130ms:9", false, 0, 0},
    {"lognormal:130ms:0.3:1", false, 0, 0},
    {"Zero", false, 0, 0},
};

Test(paper_settings, a_latency_is_a_model_or_a_preset)
{
    for (size_t i = 0; i < COUNT(latencies); i++) {
        const struct latency_case *c = &latencies[i];
        struct latency latency = {0};
        struct tw_error error = {{0}};
        tw_status status = latency_parse(c->text, &latency, &error);
        cr_expect_eq(status, c->is_valid ? TW_OK : TW_INVALID, "\"%s\"", c->text);
        if (!c->is_valid) {
            cr_expect_not_null(strstr(error.text, "mt4-lib"), "\"%s\" does not say what there is",
                               c->text);
            continue;
        }
        cr_expect_eq(latency.model, c->model, "\"%s\"", c->text);
        cr_expect_eq(latency.base_ns, c->base_ns, "\"%s\"", c->text);
    }
}

static int compare_ns(const void *a, const void *b)
{
    int64_t x, y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

Test(paper_settings, lognormal_samples_have_their_median_and_tail_and_repeat_with_their_seed)
{
    enum { N = 20001 };
    static int64_t samples[N];
    struct latency latency;
    cr_assert_eq(latency_parse("mt4-lib", &latency, NULL), TW_OK);
    uint64_t prng = 42, again = 42, other = 43;
    bool differs = false;
    for (int i = 0; i < N; i++) {
        samples[i] = latency_sample_ns(&latency, &prng);
        cr_assert_eq(samples[i], latency_sample_ns(&latency, &again), "sample %d", i);
        differs = differs || samples[i] != latency_sample_ns(&latency, &other);
    }
    qsort(samples, N, sizeof(samples[0]), compare_ns);

    /* m = 130 ms, sigma = 0.30: p95 = m x e^(1.645 sigma) = 213 ms, p99 = m x e^(2.326 sigma) =
     * 261. */
    cr_expect(llabs(samples[N / 2] - 130 * TW_NS_PER_MS) < 2 * TW_NS_PER_MS, "p50 %lld",
              (long long)samples[N / 2]);
    cr_expect(llabs(samples[N * 95 / 100] - 213 * TW_NS_PER_MS) < 5 * TW_NS_PER_MS, "p95 %lld",
              (long long)samples[N * 95 / 100]);
    cr_expect(llabs(samples[N * 99 / 100] - 261 * TW_NS_PER_MS) < 12 * TW_NS_PER_MS, "p99 %lld",
              (long long)samples[N * 99 / 100]);
    cr_expect(differs, "another seed gives the same samples");
}

Test(paper_settings, last_look_holds_from_5_to_105_ms)
{
    struct latency latency;
    uint64_t prng = 1;
    int64_t least = INT64_MAX, most = 0;
    cr_assert_eq(latency_parse("fix-lastlook", &latency, NULL), TW_OK);
    for (int i = 0; i < 10000; i++) {
        int64_t ns = latency_sample_ns(&latency, &prng);
        least = ns < least ? ns : least;
        most = ns > most ? ns : most;
    }
    cr_expect_geq(least, 5 * TW_NS_PER_MS);
    cr_expect_lt(least, 6 * TW_NS_PER_MS);
    cr_expect_leq(most, 105 * TW_NS_PER_MS);
    cr_expect_gt(most, 104 * TW_NS_PER_MS);
}

struct faults_case {
    const char *text;
    uint32_t n_rules; /* 0 with is_valid: no faults */
    bool is_valid;
};

static const struct faults_case fault_lists[] = {
    {"", 0, true},
    {"none", 0, true},
    {"open#1=requote", 1, true},
    {"open#1=requote, open#2=requote", 2, true},
    {"any#*=busy", 1, true},
    {"close#p0.01=off_quotes", 1, true},
    {"open#1=partial:0.06", 1, true},
    {"open#1=delay:3s", 1, true},
    {"modify#1=no_stops,place#1=reject,cancel#1=hang,lookup#1=timeout_lost", 4, true},
    {"open#1=rate_limited,open#2=no_money,open#3=market_closed,open#4=timeout_executed", 4, true},
    {"open#1=drop_reply,open#2=reject_executed", 2, true},
    {"open=busy", 0, false},
    {"open#=busy", 0, false},
    {"open#0=busy", 0, false},
    {"open#x=busy", 0, false},
    {"open#p0=busy", 0, false},
    {"open#p1.5=busy", 0, false},
    {"opens#1=busy", 0, false},
    {"open#1=buzy", 0, false},
    {"open#1=", 0, false},
    {"open#1", 0, false},
    {"open#1#2=busy", 0, false},
    {"open#1=busy=2", 0, false},
    {"open#1=partial", 0, false},
    {"open#1=partial:0", 0, false},
    {"open#1=partial:-1", 0, false},
    {"open#1=delay", 0, false},
    {"open#1=delay:3", 0, false},
    {"open#1=busy:1", 0, false},
    {"open#1=busy,", 0, false},
    {",open#1=busy", 0, false},
};

Test(paper_settings, a_list_of_faults_is_read_whole_or_refused)
{
    for (size_t i = 0; i < COUNT(fault_lists); i++) {
        const struct faults_case *c = &fault_lists[i];
        struct faults faults = {0};
        struct tw_error error = {{0}};
        tw_status status = faults_parse(c->text, &faults, &error);
        cr_expect_eq(status, c->is_valid ? TW_OK : TW_INVALID, "\"%s\"", c->text);
        cr_expect_eq(faults.n_rules, c->n_rules, "\"%s\" has %u rules", c->text, faults.n_rules);
        cr_expect(c->is_valid || error.text[0] != '\0', "\"%s\": no words", c->text);
        faults_clear(&faults);
    }
}

Test(paper_settings, more_faults_than_fit_are_refused)
{
    char text[FAULTS_TEXT_BYTES] = "";
    for (unsigned i = 0; i < FAULTS_MAX + 1; i++)
        strcat(text, i == 0 ? "open#1=busy" : ",open#1=busy");
    struct faults faults = {0};

    cr_expect_eq(faults_parse(text, &faults, NULL), TW_INVALID);
    text[strlen(text) - strlen(",open#1=busy")] = '\0';
    cr_expect_eq(faults_parse(text, &faults, NULL), TW_OK);
    cr_expect_eq(faults.n_rules, FAULTS_MAX);
    faults_clear(&faults);
}

struct draw_case {
    enum fault_op op;
    enum fault_kind expected;
};

/* open#2=busy, close#*=requote, any#5=reject, any#*=delay:1s: calls in this order. */
static const struct draw_case draws[] = {
    {FAULT_OP_OPEN, FAULT_DELAY},    /* 1st open */
    {FAULT_OP_OPEN, FAULT_BUSY},     /* 2nd open */
    {FAULT_OP_CLOSE, FAULT_REQUOTE}, /* every close */
    {FAULT_OP_LOOKUP, FAULT_DELAY},  /* 4th of any */
    {FAULT_OP_OPEN, FAULT_REJECT},   /* 5th of any */
    {FAULT_OP_CLOSE, FAULT_REQUOTE}, /* the first that matches wins */
    {FAULT_OP_MODIFY, FAULT_DELAY},
};

Test(paper_settings, the_first_rule_that_matches_wins_and_every_call_is_counted)
{
    struct faults faults;
    uint64_t counts[FAULT_OP_COUNT] = {0}, prng = 1;
    cr_assert_eq(
        faults_parse("open#2=busy,close#*=requote,any#5=reject,any#*=delay:1s", &faults, NULL),
        TW_OK);
    for (size_t i = 0; i < COUNT(draws); i++) {
        struct fault fault = faults_next(&faults, draws[i].op, counts, &prng);
        cr_expect_eq(fault.kind, draws[i].expected, "call %zu: %d", i + 1, fault.kind);
    }
    cr_expect_eq(counts[FAULT_OP_OPEN], 3);
    cr_expect_eq(counts[FAULT_OP_CLOSE], 2);
    cr_expect_eq(counts[FAULT_OP_ANY], 7);
    faults_clear(&faults);
}

Test(paper_settings, a_fault_of_an_order_says_nothing_about_a_question)
{
    struct faults faults;
    uint64_t counts[FAULT_OP_COUNT] = {0}, prng = 1;
    cr_assert_eq(faults_parse("any#*=no_money", &faults, NULL), TW_OK);

    cr_expect_eq(faults_next(&faults, FAULT_OP_LOOKUP, counts, &prng).kind, FAULT_NONE);
    cr_expect_eq(faults_next(&faults, FAULT_OP_OPEN, counts, &prng).kind, FAULT_NO_MONEY);
    faults_clear(&faults);
}

Test(paper_settings, a_share_of_calls_is_about_that_share)
{
    struct faults faults;
    uint64_t counts[FAULT_OP_COUNT] = {0}, prng = 7;
    int hits = 0;
    cr_assert_eq(faults_parse("open#p0.01=busy", &faults, NULL), TW_OK);
    for (int i = 0; i < 100000; i++)
        hits += faults_next(&faults, FAULT_OP_OPEN, counts, &prng).kind == FAULT_BUSY;
    cr_expect(hits > 850 && hits < 1150, "%d of 100000", hits);
    faults_clear(&faults);
}

struct json_case {
    const char *name, *json, *words; /* words: in the error; NULL = it is right */
};

#define EUR                                                                                        \
    "\"min\":\"0.01\",\"step\":\"0.01\",\"max\":\"100\",\"contract\":\"100000\",\"tick\":\"0."     \
    "00001\""

/* clang-format off */
static const struct json_case instrument_texts[] = {
    {"five fields", "{\"EURUSD\":{" EUR "}}", NULL},
    {"whole numbers", "{\"US500\":{\"min\":1,\"step\":1,\"max\":1000,\"contract\":1,\"tick\":\"0.01\"}}", NULL},
    {"all fields", "{\"EURUSD\":{" EUR ",\"min_notional\":\"10\",\"stops\":\"0.001\",\"freeze\":\"0\"}}", NULL},
    {"not JSON", "{\"EURUSD\":", "not JSON"},
    {"not an object", "[]", "not a JSON object"},
    {"no symbol", "{}", "no symbol"},
    {"symbol without fields", "{\"EURUSD\":1}", "EURUSD"},
    {"missing tick", "{\"EURUSD\":{\"min\":\"1\",\"step\":\"1\",\"max\":\"1\",\"contract\":\"1\"}}", "EURUSD.tick"},
    {"unknown field", "{\"EURUSD\":{" EUR ",\"leverage\":\"1\"}}", "unknown key"},
    {"a fraction as a number", "{\"EURUSD\":{\"min\":0.01,\"step\":\"1\",\"max\":\"1\",\"contract\":\"1\",\"tick\":\"1\"}}", "EURUSD.min"},
    {"step of zero", "{\"EURUSD\":{\"min\":\"1\",\"step\":\"0\",\"max\":\"1\",\"contract\":\"1\",\"tick\":\"1\"}}", "volume_step"},
    {"maximum below the minimum", "{\"EURUSD\":{\"min\":\"2\",\"step\":\"1\",\"max\":\"1\",\"contract\":\"1\",\"tick\":\"1\"}}", "max_volume"},
    {"same symbol twice", "{\"A\":{" EUR "},\"A\":{" EUR "}}", "not JSON"},
    {"control character in a symbol", "{\"A\\u0001\":{" EUR "}}", "instruments"},
};
/* clang-format on */

Test(paper_settings, instruments_are_read_whole_or_refused_with_the_place)
{
    for (size_t i = 0; i < COUNT(instrument_texts); i++) {
        const struct json_case *c = &instrument_texts[i];
        struct instruments table = {0};
        struct tw_error error = {{0}};
        tw_status status = instruments_parse(c->json, &table, &error);
        cr_expect_eq(status, c->words == NULL ? TW_OK : TW_INVALID, "%s: %s", c->name, error.text);
        if (c->words != NULL)
            cr_expect_not_null(strstr(error.text, c->words), "%s: %s", c->name, error.text);
        instruments_clear(&table);
    }
}

static const struct json_case quote_texts[] = {
    {"a quote", "{\"EURUSD\":\"1.10000/1.10010\"}", NULL},
    {"bid and ask alike", "{\"EURUSD\":\"1.1/1.1\"}", NULL},
    {"crossed", "{\"EURUSD\":\"1.2/1.1\"}", "EURUSD"},
    {"one side", "{\"EURUSD\":\"1.2\"}", "EURUSD"},
    {"three sides", "{\"EURUSD\":\"1.1/1.2/1.3\"}", "EURUSD"},
    {"zero", "{\"EURUSD\":\"0/1\"}", "EURUSD"},
    {"a number", "{\"EURUSD\":1.1}", "EURUSD"},
    {"empty name", "{\"\":\"1/1\"}", "quotes"},
};

Test(paper_settings, quotes_are_read_whole_or_refused_with_the_place)
{
    for (size_t i = 0; i < COUNT(quote_texts); i++) {
        const struct json_case *c = &quote_texts[i];
        struct quote *quotes = NULL;
        size_t n = 0;
        struct tw_error error = {{0}};
        tw_status status = quotes_parse(c->json, &quotes, &n, &error);
        cr_expect_eq(status, c->words == NULL ? TW_OK : TW_INVALID, "%s: %s", c->name, error.text);
        if (c->words != NULL)
            cr_expect_not_null(strstr(error.text, c->words), "%s: %s", c->name, error.text);
        free(quotes);
    }
}

struct builtin_case {
    const char *symbol, *base, *profit;
    tw_decimal min, step, max, contract, tick, stops;
};

#define E8(whole, fraction) ((whole)*TW_DECIMAL_ONE + (fraction))

/* clang-format off */
static const struct builtin_case builtins[] = {
    {"EURUSD", "EUR", "USD", E8(0, 1000000), E8(0, 1000000), E8(100, 0), E8(100000, 0), E8(0, 1000), 0},
    {"GBPUSD", "GBP", "USD", E8(0, 1000000), E8(0, 1000000), E8(100, 0), E8(100000, 0), E8(0, 1000), 0},
    {"USDJPY", "USD", "JPY", E8(0, 1000000), E8(0, 1000000), E8(100, 0), E8(100000, 0), E8(0, 100000), 0},
    {"EURUSDm", "", "", E8(0, 1000000), E8(0, 1000000), E8(100, 0), E8(1000, 0), E8(0, 1000), 0},
    {"XAUUSD", "XAU", "USD", E8(0, 1000000), E8(0, 1000000), E8(50, 0), E8(100, 0), E8(0, 1000000), E8(0, 50000000)},
    {"GER40", "", "", E8(0, 10000000), E8(0, 10000000), E8(100, 0), E8(1, 0), E8(0, 50000000), 0},
    {"ES", "", "", E8(1, 0), E8(1, 0), E8(500, 0), E8(50, 0), E8(0, 25000000), 0},
    {"ETHUSDT", "", "", E8(0, 100000), E8(0, 100000), E8(2000, 0), E8(1, 0), E8(0, 1000000), 0},
    {"AAPL", "", "", E8(1, 0), E8(1, 0), E8(10000, 0), E8(1, 0), E8(0, 1000000), 0},
};
/* clang-format on */

Test(paper_settings, the_built_in_table_has_the_usual_and_the_awkward_ones)
{
    struct instruments table = instruments_builtin();
    for (size_t i = 0; i < COUNT(builtins); i++) {
        const struct builtin_case *c = &builtins[i];
        const struct tw_instrument *found = instruments_find(&table, c->symbol);
        cr_assert_not_null(found, "%s", c->symbol);
        cr_expect_eq(found->volume_min, c->min, "%s", c->symbol);
        cr_expect_eq(found->volume_step, c->step, "%s", c->symbol);
        cr_expect_eq(found->volume_max, c->max, "%s", c->symbol);
        cr_expect_eq(found->contract_size, c->contract, "%s", c->symbol);
        cr_expect_eq(found->tick_size, c->tick, "%s", c->symbol);
        cr_expect_eq(found->stops_distance, c->stops, "%s", c->symbol);
        cr_expect_str_eq(found->base_currency, c->base, "%s", c->symbol);
        cr_expect_str_eq(found->profit_currency, c->profit, "%s", c->symbol);
    }
    for (size_t i = 0; i < table.n; i++) {
        struct tw_instrument derived = table.list[i];
        instrument_currencies(&derived);
        cr_expect_null(instrument_check(&table.list[i]), "%s", table.list[i].symbol);
        cr_expect_str_eq(derived.base_currency, table.list[i].base_currency, "%s", derived.symbol);
        cr_expect_eq(instruments_find(&table, table.list[i].symbol), &table.list[i],
                     "%s is out of order", table.list[i].symbol);
    }
}

Test(paper_settings, a_changed_built_in_table_is_the_account_s_own)
{
    struct instruments table = instruments_builtin(), other = instruments_builtin();
    struct tw_instrument changed = *instruments_find(&table, "EURUSD"), added = changed;
    changed.volume_min = E8(5, 0);
    changed.volume_max = E8(500, 0);
    strcpy(added.symbol, "ZZZABC");

    cr_assert_eq(instruments_put(&table, &changed), TW_OK);
    cr_assert_eq(instruments_put(&table, &added), TW_OK);

    cr_expect_eq(instruments_find(&table, "EURUSD")->volume_min, E8(5, 0));
    cr_expect_eq(instruments_find(&other, "EURUSD")->volume_min, E8(0, 1000000));
    cr_expect_str_eq(instruments_find(&table, "ZZZABC")->profit_currency, "ABC");
    cr_expect_eq(table.n, other.n + 1);
    instruments_clear(&table);
}

struct setting_case {
    const char *key, *value;
    bool is_valid;
};

static const struct setting_case settings[] = {
    {"account_mode", "netting", true},
    {"account_mode", "hedged", false},
    {"balance", "2500.50", true},
    {"balance", "-1", false},
    {"balance", "", false},
    {"balance", "1e3", false},
    {"currency", "EUR", true},
    {"currency", "USDT", true},
    {"currency", "euro", false},
    {"currency", "E", false},
    {"currency", "ABCDEFGH", false},
    {"leverage", "30", true},
    {"leverage", "0", false},
    {"leverage", "1:30", false},
    {"seed", "0", true},
    {"seed", "x", false},
    {"nonblocking", "true", true},
    {"nonblocking", "yes", false},
    {"call_timeout", "500ms", true},
    {"call_timeout", "0", false},
    {"settle", "200ms", true},
    {"settle", "soon", false},
    {"remainder", "new_ticket", true},
    {"remainder", "old", false},
    {"banned", "hedging,out_of_fifo", true},
    {"banned", "everything", false},
    {"latency", "zero", true},
    {"latency", "fast", false},
    {"faults", "open#1=busy", true},
    {"faults", "open", false},
    {"quotes", "{\"A\":\"1/1\"}", true},
    {"quotes", "A=1/1", false},
    {"instruments", "{}", false},
    {"Balance", "1", false},
    {"instrument", "{}", false},
    {"", "1", false},
};

Test(paper_settings, every_key_is_checked_and_the_wrong_one_is_named)
{
    for (size_t i = 0; i < COUNT(settings); i++) {
        const struct setting_case *c = &settings[i];
        struct tw_adapter_setting setting = {c->key, c->value};
        struct tw_session_options options = {
            .follower_id = "F1", .settings = &setting, .n_settings = 1};
        struct settings read;
        struct tw_error error = {{0}};
        char key[SETTING_KEY_BYTES] = "?";
        tw_status status = settings_read(&options, &read, key, &error);
        cr_expect_eq(status, c->is_valid ? TW_OK : TW_INVALID, "%s=%s: %s", c->key, c->value,
                     error.text);
        cr_expect_str_eq(key, c->is_valid ? "?" : c->key, "%s=%s", c->key, c->value);
        cr_expect(c->is_valid || error.text[0] != '\0', "%s=%s: no words", c->key, c->value);
        settings_clear(&read);
    }
}

Test(paper_settings, what_is_not_named_has_its_default)
{
    struct tw_session_options options = {.follower_id = "F1"}, other = {.follower_id = "F2"};
    struct settings one, two;
    char key[SETTING_KEY_BYTES];
    cr_assert_eq(settings_read(&options, &one, key, NULL), TW_OK);
    cr_assert_eq(settings_read(&other, &two, key, NULL), TW_OK);

    cr_expect_not(one.is_netting);
    cr_expect_not(one.nonblocking);
    cr_expect_not(one.remainder_new_ticket);
    cr_expect_eq(one.balance, 10000 * TW_DECIMAL_ONE);
    cr_expect_str_eq(one.currency, "USD");
    cr_expect_eq(one.leverage, 0);
    cr_expect_eq(one.call_timeout_ns, 2 * TW_NS_PER_S);
    cr_expect_eq(one.settle_ns, TW_NS_PER_S);
    cr_expect_eq(one.latency.model, LATENCY_CONSTANT);
    cr_expect_eq(one.latency.base_ns, TW_NS_PER_MS);
    cr_expect_eq(one.faults.n_rules, 0);
    cr_expect_null(one.instruments.own, "the built-in table is shared");
    cr_expect_neq(one.seed, two.seed, "two accounts have one seed");
    settings_clear(&one);
    settings_clear(&two);
}
