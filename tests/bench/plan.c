/* plan.c - planning alone: what deciding one opening costs per follower, every rule set, ids not
 * included.
 *
 * Each follower has rules, a market and an account of its own in memory of its own, as in the
 * server; one pass plans one event for all of them. From a hundred to ten thousand followers the
 * cost should stay the same. */
#include "bench.h"

#include <tradewake/base/clock.h>
#include <tradewake/core/plan.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { POINTS_MAX = 16, PLANS_PER_ROUND = 200000 };

struct planned {
    struct tw_rules rules;
    struct tw_follower_rules follower;
    struct tw_market market;
    struct tw_account account;
};

static tw_decimal dec(const char *text)
{
    tw_decimal value;
    if (!tw_decimal_parse(text, &value))
        abort();
    return value;
}

/* ---- A follower with every rule that an opening can meet ---- */

static bool rules_make(struct tw_rules *ret)
{
    static char multiplier[] = "1.37", min[] = "0.02", max[] = "50", coefficient[] = "3",
                deviation[] = "0.005";
    static char included[] = "EUR*", more[] = "GBP???", excluded[] = "*CHF", from[] = "EURUSD",
                to[] = "EURUSD.x";
    static char *include[] = {more, included}, *exclude[] = {excluded};
    static Tradewake__V1__SymbolMapping mapping, *map[] = {&mapping};
    static Tradewake__V1__MagicRange in, out, *magics_in[] = {&in}, *magics_out[] = {&out};
    static Tradewake__V1__Side sides[] = {TRADEWAKE__V1__SIDE__SIDE_SELL,
                                          TRADEWAKE__V1__SIDE__SIDE_BUY};
    Tradewake__V1__CopyRules m;
    tradewake__v1__copy_rules__init(&m);
    tradewake__v1__symbol_mapping__init(&mapping);
    tradewake__v1__magic_range__init(&in);
    tradewake__v1__magic_range__init(&out);
    m.sizing = TRADEWAKE__V1__SIZING_MODE__SIZING_MODE_BALANCE;
    m.rounding = TRADEWAKE__V1__ROUNDING__ROUNDING_NEAREST;
    m.multiplier = multiplier;
    m.min_volume = min;
    m.max_volume = max;
    m.force_min = true;
    m.max_risk_coefficient = coefficient;
    m.reverse = true;
    m.max_price_deviation = deviation;
    m.symbols_included = include;
    m.n_symbols_included = 2;
    m.symbols_excluded = exclude;
    m.n_symbols_excluded = 1;
    mapping.from_symbol = from;
    mapping.to_symbol = to;
    m.symbol_map = map;
    m.n_symbol_map = 1;
    in.first = 100;
    in.last = 200;
    out.first = 150;
    out.last = 160;
    m.magics_included = magics_in;
    m.magics_excluded = magics_out;
    m.n_magics_included = m.n_magics_excluded = 1;
    m.sides = sides;
    m.n_sides = 2;
    struct tw_refusal refusal = {0};
    return tw_rules_read(&m, "rules.", ret, &refusal);
}

static bool follower_make(struct tw_follower_rules *ret)
{
    static char suffix[] = ".x", order[] = "100", total[] = "1000";
    Tradewake__V1__Follower m;
    Tradewake__V1__RiskLimits risk;
    tradewake__v1__follower__init(&m);
    tradewake__v1__risk_limits__init(&risk);
    m.symbol_suffix = suffix;
    m.risk = &risk;
    risk.max_order_volume = order;
    risk.max_total_volume = total;
    risk.max_open_positions = 1000;
    struct tw_refusal refusal = {0};
    return tw_follower_rules_read(&m, "follower.", ret, &refusal);
}

static bool market_make(struct planned *p)
{
    static const char *const symbols[] = {"EURUSD.x", "GBPUSD.x", "USDJPY.x", "USDCHF.x",
                                          "AUDUSD.x", "NZDUSD.x", "XAUUSD.x", "BTCUSDT.x",
                                          "US500.x",  "GER40.x",  "EURGBP.x", "EURJPY.x"};
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        struct tw_instrument instrument = {
            .volume_min = dec("0.01"),
            .volume_step = dec("0.01"),
            .volume_max = dec("100"),
            .contract_size = dec("100000"),
            .tick_size = dec("0.00001"),
            .min_notional = dec("100"),
            .stops_distance = dec("0.0005"),
        };
        snprintf(instrument.symbol, sizeof instrument.symbol, "%s", symbols[i]);
        snprintf(instrument.profit_currency, sizeof instrument.profit_currency, "USD");
        if (!tw_market_tell(&p->market, &instrument, 1, &p->follower) ||
            !tw_market_quote(&p->market, symbols[i], dec("1.10001"), dec("1.10009")))
            return false;
    }
    return true;
}

static struct planned *planned_new(uint32_t number, const struct tw_account *master,
                                   struct tw_follower_view *ret_view)
{
    struct planned *p = calloc(1, sizeof *p);
    if (p == NULL || !rules_make(&p->rules) || !follower_make(&p->follower) || !market_make(p))
        abort(); /* a bench without memory has nothing to tell */
    p->account = (struct tw_account){.currency = "USD",
                                     .balance = dec("12345.67") + number,
                                     .equity = dec("12000"),
                                     .free_margin = dec("11000")};
    *ret_view = (struct tw_follower_view){
        .follower = &p->follower,
        .rules = &p->rules,
        .market = &p->market,
        .account = &p->account,
        .master_account = master,
        .open_positions = 7,
    };
    return p;
}

static void planned_free(struct planned *p)
{
    tw_rules_clear(&p->rules);
    tw_follower_rules_clear(&p->follower);
    tw_market_clear(&p->market);
    free(p);
}

/* ---- Rounds ---- */

/* What this thread has worked: planning waits for nothing, and who else is on the machine is no
 * part of it. */
static int64_t worked_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * TW_NS_PER_S + time.tv_nsec;
}

/* Which follower comes so many after the first; the row begins anew at its end. */
static uint32_t turned(uint32_t i, uint32_t n)
{
    return i < n ? i : i % n;
}

static double round_ns(const struct tw_follower_view *views, uint32_t n,
                       const struct tw_event *event, int64_t now_ns)
{
    uint32_t passes = PLANS_PER_ROUND / n + 1, sent = 0;
    uint64_t symbol_head = tw_symbol_head(event->symbol);
    int64_t from_ns = worked_ns();
    for (uint32_t pass = 0; pass < passes; pass++)
        for (uint32_t i = 0; i < n; i++) {
            struct tw_plan plan;
            for (uint32_t step = 0; step < TW_PLAN_STEPS; step++)
                tw_plan_prefetch(event, symbol_head, &views[turned(i + (TW_PLAN_STEPS - step) * TW_PLAN_AHEAD, n)], (int)step);
            tw_plan_open(event, &views[i], now_ns, &plan);
            sent += plan.state == TRADEWAKE__V1__COPY_STATE__COPY_STATE_QUEUED;
        }
    double ns = (double)(worked_ns() - from_ns);
    if (sent != passes * n) {
        fprintf(stderr, "%u of %u were planned as orders: the bench is wrong\n", sent, passes * n);
        exit(1);
    }
    return ns / (double)passes / n;
}

static uint32_t points_read(const char *text, uint32_t *points)
{
    uint32_t n = 0;
    while (n < POINTS_MAX && *text != '\0') {
        char *rest;
        unsigned long value = strtoul(text, &rest, 10);
        if (rest == text || value == 0 || value > 100000)
            return 0;
        points[n++] = (uint32_t)value;
        text = *rest == ',' ? rest + 1 : rest;
    }
    return n;
}

static struct tw_event event_make(int64_t now_ns)
{
    struct tw_event event;
    tw_event_clear(&event, TW_EVENT_OPEN);
    event.event_id = "e1";
    event.master_id = "M1";
    event.position_id = "p1";
    event.observed_wall_ns = now_ns - TW_NS_PER_MS;
    event.symbol = "EURUSD";
    event.side = TW_BUY;
    event.type = TW_ORDER_MARKET;
    event.volume = dec("1.23");
    event.price = dec("1.1");
    event.stop_loss = dec("1.095001");
    event.take_profit = dec("1.104999");
    event.magic = 123;
    return event;
}

int bench_plan(const struct bench_options *options)
{
    uint32_t points[POINTS_MAX], n_points = points_read(options->points, points), most = 0;
    if (n_points == 0) {
        fprintf(stderr, "--points is \"%s\", expected numbers of followers, with commas\n",
                options->points);
        return 2;
    }
    for (uint32_t i = 0; i < n_points; i++)
        most = points[i] > most ? points[i] : most;
    const struct tw_account master = {.currency = "EUR",
                                      .balance = dec("54321.09"),
                                      .equity = dec("54000"),
                                      .free_margin = dec("50000")};
    struct planned **all = calloc(most, sizeof(struct planned *));
    struct tw_follower_view *views = calloc(most, sizeof *views);
    double *figures = calloc((size_t)n_points * options->rounds, sizeof *figures);
    if (all == NULL || views == NULL || figures == NULL)
        return 1;
    for (uint32_t i = 0; i < most; i++)
        all[i] = planned_new(i, &master, &views[i]);

    int64_t now_ns = tw_wall_ns();
    const struct tw_event event = event_make(now_ns);
    for (uint32_t r = 0; r < options->rounds; r++)
        for (uint32_t i = 0; i < n_points; i++) {
            progress("plan", r * n_points + i, options->rounds * n_points);
            figures[i * options->rounds + r] = round_ns(views, points[i], &event, now_ns);
        }
    progress("plan", 1, 1);

    struct machine machine;
    machine_look(&machine);
    if (options->json) {
        printf("{\"bench\":\"plan\",\"rounds\":%u,\"points\":[", options->rounds);
        for (uint32_t i = 0; i < n_points; i++)
            printf("%s{\"followers\":%u,\"ns_per_follower\":%.1f}", i > 0 ? "," : "", points[i],
                   figure_median(&figures[i * options->rounds], options->rounds));
        printf("],");
        machine_json(stdout, &machine);
        printf("}\n");
    } else {
        machine_print(stdout, &machine);
        printf("one opening, all rules set, ids not included; medians of %u rounds\n\n%-12s %14s\n",
               options->rounds, "followers", "ns each");
        for (uint32_t i = 0; i < n_points; i++)
            printf("%-12u %14.1f\n", points[i],
                   figure_median(&figures[i * options->rounds], options->rounds));
    }
    for (uint32_t i = 0; i < most; i++)
        planned_free(all[i]);
    free(views);
    free(all);
    free(figures);
    return 0;
}
