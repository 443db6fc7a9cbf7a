/* core_size.c - how large a copy is: every mode, what is missing, rounding, minimum, maximum,
 * notional. */
#include "core_support.h"

/* One row: what differs from a BUY of 1 EURUSD by an account of 10000 USD, its master's too. Money
 * is "CURRENCY BALANCE EQUITY FREE_MARGIN". */
struct size_case {
    const char *name;
    Tradewake__V1__SizingMode sizing;
    const char *multiplier, *fixed, *risk, *min, *max, *coefficient;
    bool nearest, force_min, reverse, ignore_stop_loss, is_sell, no_master;
    const char *volume, *price, *stop_loss, *take_profit, *contract; /* of the event */
    const char *own_money, *master_money;
    const char *own_min, *own_step, *own_max, *own_contract, *notional,
        *profit;                           /* of the instrument */
    const char *quote, *pair, *pair_quote; /* "bid/ask" of EURUSD, and of another symbol */

    tw_reason reason; /* of a skip; UNSPECIFIED = it is sent */
    const char *sent; /* its volume */
    tw_reason remark;
};

#define MODE(name) TRADEWAKE__V1__SIZING_MODE__SIZING_MODE_##name

static const struct size_case cases[] = {
    /* Multiplier. */
    {"as it is", .sent = "1"},
    {"the multiplier of nobody is 1", MODE(MULTIPLIER), .volume = "0.37", .sent = "0.37"},
    {"a multiplier", .multiplier = "0.33", .volume = "0.10", .sent = "0.03"},
    {"toward zero at the very end", .multiplier = "0.99999999", .sent = "0.99"},
    {"exactly on the step", .multiplier = "0.1", .volume = "0.70", .sent = "0.07"},
    {"nearest, half goes up", .multiplier = "0.55", .volume = "0.10", .nearest = true,
     .sent = "0.06"},
    {"nearest, below the half", .multiplier = "0.54999999", .volume = "0.10", .nearest = true,
     .sent = "0.05"},
    {"nearest, from below the minimum", .multiplier = "0.05", .volume = "0.10", .nearest = true,
     .sent = "0.01"},
    {"nearest to nothing", .multiplier = "0.04", .volume = "0.10", .nearest = true,
     .reason = REASON(BELOW_MIN)},
    {"an eighth of a step is not lost in between", .multiplier = "0.125", .volume = "0.08",
     .own_step = "0.01", .sent = "0.01"},
    {"crypto: five decimals", .volume = "0.079711", .own_min = "0.00001", .own_step = "0.00001",
     .sent = "0.07971"},
    {"crypto: three decimals", .volume = "0.079711", .own_min = "0.001", .own_step = "0.001",
     .sent = "0.079"},
    {"a step that is no power of ten", .volume = "1", .own_step = "0.03", .sent = "0.99"},
    {"a step above the minimum", .volume = "1.3", .own_step = "0.5", .own_min = "0.1", .sent = "1"},

    /* Fixed. */
    {"fixed, whatever the master does", MODE(FIXED), .fixed = "0.2", .volume = "7", .sent = "0.2"},
    {"fixed is rounded to the step, too", MODE(FIXED), .fixed = "0.057", .sent = "0.05"},
    {"fixed below the minimum", MODE(FIXED), .fixed = "0.005", .reason = REASON(BELOW_MIN)},
    {"fixed above the maximum", MODE(FIXED), .fixed = "500", .sent = "100",
     .remark = REASON(CLAMPED_MAX)},

    /* Balance, equity, free margin: each looks at its own figure. */
    {"balance", MODE(BALANCE), .own_money = "USD 5000 1 1", .master_money = "USD 20000 1 1",
     .sent = "0.25"},
    {"equity", MODE(EQUITY), .own_money = "USD 1 5000 1", .master_money = "USD 1 20000 1",
     .sent = "0.25"},
    {"free margin", MODE(FREE_MARGIN), .own_money = "USD 1 1 5000", .master_money = "USD 1 1 20000",
     .sent = "0.25"},
    {"a ratio with a multiplier", MODE(BALANCE), .multiplier = "3", .own_money = "USD 5000 1 1",
     .master_money = "USD 20000 1 1", .sent = "0.75"},
    {"a third is cut once", MODE(BALANCE), .multiplier = "3", .own_money = "USD 10000 1 1",
     .master_money = "USD 30000 1 1", .sent = "1"},
    {"awkward money", MODE(BALANCE), .own_money = "USD 12345.67 1 1",
     .master_money = "USD 98765.43 1 1", .volume = "8.01", .sent = "1"}, /* 1.00124 */
    {"awkward money, one cent less", MODE(BALANCE), .own_money = "USD 12330.23 1 1",
     .master_money = "USD 98765.43 1 1", .volume = "8.01", .sent = "0.99"}, /* 0.999988 */
    {"the master in another currency, its pair quoted", MODE(BALANCE), .own_money = "USD 6000 1 1",
     .master_money = "EUR 5000 1 1", .pair = "EURUSD", .pair_quote = "1.19999/1.20001",
     .sent = "1"},
    {"the same, but for a point: the mid counts", MODE(BALANCE), .own_money = "USD 6000 1 1",
     .master_money = "EUR 5000 1 1", .pair = "EURUSD", .pair_quote = "1.2/1.20001", .sent = "0.99"},
    {"the inverse pair quoted", MODE(BALANCE), .own_money = "JPY 750000 1 1",
     .master_money = "USD 10000 1 1", .pair = "JPYUSD", .pair_quote = "0.005/0.015",
     .sent = "0.75"},
    {"the inverse of a pair", MODE(BALANCE), .own_money = "EUR 5000 1 1",
     .master_money = "USD 6000 1 1", .pair = "EURUSD", .pair_quote = "1.19999/1.20001",
     .sent = "1"},
    {"no pair", MODE(BALANCE), .own_money = "CHF 5000 1 1", .master_money = "USD 6000 1 1",
     .reason = REASON(MISSING_ACCOUNT)},
    {"a pair with half a quote", MODE(BALANCE), .own_money = "USD 6000 1 1",
     .master_money = "EUR 5000 1 1", .pair = "EURUSD", .pair_quote = "1.2/",
     .reason = REASON(MISSING_ACCOUNT)},
    {"a pair quoted at nothing", MODE(BALANCE), .own_money = "USD 6000 1 1",
     .master_money = "EUR 5000 1 1", .pair = "EURUSD", .pair_quote = "0/0",
     .reason = REASON(MISSING_ACCOUNT)},
    {"no word of the master's account", MODE(BALANCE), .no_master = true,
     .reason = REASON(MISSING_ACCOUNT)},
    {"no word of the master's account, equity", MODE(EQUITY), .no_master = true,
     .reason = REASON(MISSING_ACCOUNT)},
    {"no word of the master's account, margin", MODE(FREE_MARGIN), .no_master = true,
     .reason = REASON(MISSING_ACCOUNT)},
    {"the master says nothing of its balance", MODE(BALANCE), .master_money = "USD - 5 5",
     .reason = REASON(MISSING_ACCOUNT)},
    {"the master has nothing", MODE(BALANCE), .master_money = "USD 0 5 5",
     .reason = REASON(MISSING_ACCOUNT)},
    {"the master owes", MODE(EQUITY), .master_money = "USD 5 -5 5",
     .reason = REASON(MISSING_ACCOUNT)},
    {"the master's free margin is gone", MODE(FREE_MARGIN), .master_money = "USD 5 5 0",
     .reason = REASON(MISSING_ACCOUNT)},
    {"the follower's balance has not been read", MODE(BALANCE), .own_money = "USD - 5 5",
     .reason = REASON(MISSING_ACCOUNT)},
    {"the follower has nothing", MODE(BALANCE), .own_money = "USD 0 5 5",
     .reason = REASON(MISSING_ACCOUNT)},
    {"the master names no currency", MODE(BALANCE), .master_money = "? 5000 1 1",
     .reason = REASON(MISSING_ACCOUNT)},
    {"neither names a currency: still a guess", MODE(BALANCE), .master_money = "? 5000 1 1",
     .own_money = "? 5000 1 1", .reason = REASON(MISSING_ACCOUNT)},
    {"more than 128 bits", MODE(BALANCE), .multiplier = "9999999999.99999999",
     .volume = "9999999999.99999999", .own_money = "USD 9999999999.99999999 1 1",
     .master_money = "USD 9999999999.99999997 1 1", .reason = REASON(INTERNAL)},
    {"more than a volume can be", .multiplier = "9999999999", .volume = "9999999999",
     .reason = REASON(INTERNAL)},

    /* Contract. */
    {"same notional", MODE(CONTRACT), .contract = "100000", .own_contract = "1000",
     .own_max = "1000", .sent = "100"},
    {"same notional, a third", MODE(CONTRACT), .contract = "1", .own_contract = "3",
     .sent = "0.33"},
    {"same notional with a multiplier", MODE(CONTRACT), .multiplier = "0.5", .contract = "100000",
     .own_contract = "100000", .sent = "0.5"},
    {"no contract size of the master", MODE(CONTRACT), .reason = REASON(MISSING_SPEC)},
    {"no contract size of its own", MODE(CONTRACT), .contract = "100000", .own_contract = "0",
     .reason = REASON(MISSING_SPEC)},

    /* Risk: balance x fraction / (distance x contract). */
    {"1 % over 50 pips", MODE(RISK), .risk = "0.01", .quote = "1.09998/1.10000",
     .stop_loss = "1.095", .sent = "0.2"},
    {"the entry is the ask, for a buy", MODE(RISK), .risk = "0.01", .quote = "1.09980/1.10000",
     .stop_loss = "1.095", .sent = "0.2"},
    {"the entry is the bid, for a sell", MODE(RISK), .risk = "0.01", .is_sell = true,
     .quote = "1.09980/1.10000", .stop_loss = "1.10480", .sent = "0.2"},
    {"without a quote, the event's price", MODE(RISK), .risk = "0.01", .price = "1.1",
     .stop_loss = "1.095", .sent = "0.2"},
    {"the volume of the master does not matter", MODE(RISK), .risk = "0.01", .price = "1.1",
     .volume = "50", .stop_loss = "1.095", .sent = "0.2"},
    {"a stop on the wrong side is a distance all the same", MODE(RISK), .risk = "0.01",
     .price = "1.1", .stop_loss = "1.105", .sent = "0.2"},
    {"no entry", MODE(RISK), .risk = "0.01", .stop_loss = "1.095", .reason = REASON(MISSING_SPEC)},
    {"no stop loss", MODE(RISK), .risk = "0.01", .price = "1.1", .reason = REASON(NO_STOP_LOSS)},
    {"a stop loss of 0 is none", MODE(RISK), .risk = "0.01", .price = "1.1", .stop_loss = "0",
     .reason = REASON(NO_STOP_LOSS)},
    {"a stop loss at the entry is none", MODE(RISK), .risk = "0.01", .price = "1.1",
     .stop_loss = "1.1", .reason = REASON(NO_STOP_LOSS)},
    {"a stop loss that is ignored is none", MODE(RISK), .risk = "0.01", .price = "1.1",
     .stop_loss = "1.095", .ignore_stop_loss = true, .reason = REASON(NO_STOP_LOSS)},
    {"reversed: the take profit is the stop", MODE(RISK), .risk = "0.01", .reverse = true,
     .quote = "1.10000/1.10010", .stop_loss = "1.09", .take_profit = "1.105", .sent = "0.2"},
    {"reversed without a take profit", MODE(RISK), .risk = "0.01", .reverse = true, .price = "1.1",
     .stop_loss = "1.095", .reason = REASON(NO_STOP_LOSS)},
    {"no balance", MODE(RISK), .risk = "0.01", .price = "1.1", .stop_loss = "1.095",
     .own_money = "USD - 5 5", .reason = REASON(MISSING_ACCOUNT)},
    {"no contract size", MODE(RISK), .risk = "0.01", .price = "1.1", .stop_loss = "1.095",
     .own_contract = "0", .reason = REASON(MISSING_SPEC)},
    {"the loss is in another currency, direct", MODE(RISK), .risk = "0.01", .price = "1.1",
     .stop_loss = "1.095", .profit = "CHF", .pair = "CHFUSD", .pair_quote = "0.79/0.81",
     .sent = "0.25"},
    {"the loss is in another currency, inverse", MODE(RISK), .risk = "0.01", .price = "1.1",
     .stop_loss = "1.095", .profit = "CHF", .pair = "USDCHF", .pair_quote = "1.24/1.26",
     .sent = "0.25"},
    {"the loss is in a currency nobody quotes", MODE(RISK), .risk = "0.01", .price = "1.1",
     .stop_loss = "1.095", .profit = "CHF", .reason = REASON(MISSING_ACCOUNT)},
    {"an instrument without a currency counts in the account's", MODE(RISK), .risk = "0.01",
     .price = "1.1", .stop_loss = "1.095", .profit = "-", .sent = "0.2"},
    {"a stop of one point", MODE(RISK), .risk = "0.01", .price = "1.1", .stop_loss = "1.09999",
     .sent = "100"},
    {"a stop of one point, clamped", MODE(RISK), .risk = "0.01", .price = "1.1",
     .stop_loss = "1.09999", .max = "2", .sent = "2", .remark = REASON(CLAMPED_MAX)},

    /* Minimum. */
    {"below the instrument's minimum", .multiplier = "0.009", .reason = REASON(BELOW_MIN)},
    {"the rule's own minimum", .volume = "0.09", .min = "0.1", .reason = REASON(BELOW_MIN)},
    {"equal to the rule's own minimum", .volume = "0.1", .min = "0.1", .sent = "0.1"},
    {"a rule's minimum below the instrument's says nothing", .volume = "0.05", .min = "0.01",
     .own_min = "0.1", .reason = REASON(BELOW_MIN)},
    {"raised to the minimum", .multiplier = "0.001", .force_min = true, .sent = "0.01",
     .remark = REASON(FORCED_MIN)},
    {"raised to the rule's minimum", .multiplier = "0.001", .force_min = true, .min = "0.1",
     .sent = "0.1", .remark = REASON(FORCED_MIN)},
    {"raised to a multiple of the step", .multiplier = "0.001", .force_min = true, .min = "0.1",
     .own_step = "0.03", .sent = "0.12", .remark = REASON(FORCED_MIN)},
    {"the coefficient allows it", .multiplier = "0.005", .force_min = true, .coefficient = "2",
     .sent = "0.01", .remark = REASON(FORCED_MIN)},
    {"the coefficient counts from before rounding", .multiplier = "0.00499999", .force_min = true,
     .coefficient = "2", .reason = REASON(BELOW_MIN)},
    {"the coefficient has its say about nothing else", .volume = "1", .force_min = true,
     .coefficient = "1", .sent = "1"},
    {"no step: nobody knows what may be sent", .own_step = "0", .reason = REASON(MISSING_SPEC)},

    /* Maximum. */
    {"clamped to the instrument's maximum", .volume = "101", .sent = "100",
     .remark = REASON(CLAMPED_MAX)},
    {"clamped to the rule's maximum", .volume = "3", .max = "2.5", .sent = "2.5",
     .remark = REASON(CLAMPED_MAX)},
    {"equal to the maximum", .volume = "2.5", .max = "2.5", .sent = "2.5"},
    {"the smaller maximum counts", .volume = "500", .max = "200", .sent = "100",
     .remark = REASON(CLAMPED_MAX)},
    {"clamped to a multiple of the step", .volume = "3", .max = "2.555", .sent = "2.55",
     .remark = REASON(CLAMPED_MAX)},
    {"an instrument without a maximum", .volume = "5000", .own_max = "0", .sent = "5000"},
    {"a maximum below the minimum", .volume = "1", .max = "0.05", .own_min = "0.1",
     .reason = REASON(BELOW_MIN)},
    {"a minimum above the maximum is not forced", .volume = "0.02", .max = "0.05", .own_min = "0.1",
     .force_min = true, .reason = REASON(BELOW_MIN)},
    {"a maximum below a step", .volume = "1", .max = "0.005", .own_min = "0.001",
     .reason = REASON(BELOW_MIN)},

    /* Notional: 10 USD at 1.1 for contracts of 100 are 0.0909 lots. */
    {"notional is reached", .volume = "0.1", .own_contract = "100", .notional = "11",
     .price = "1.1", .sent = "0.1"},
    {"notional is missed", .volume = "0.09", .own_contract = "100", .notional = "10",
     .price = "1.1", .reason = REASON(BELOW_MIN_NOTIONAL)},
    {"notional by the quote, which is cheaper", .volume = "0.1", .own_contract = "100",
     .notional = "10", .price = "1.1", .quote = "0.98/0.99", .reason = REASON(BELOW_MIN_NOTIONAL)},
    {"raised to the notional", .volume = "0.02", .own_contract = "100", .notional = "10",
     .price = "1.1", .force_min = true, .sent = "0.1", .remark = REASON(FORCED_MIN)},
    {"raised from below the minimum to the notional", .volume = "0.001", .own_contract = "100",
     .notional = "10", .price = "1.1", .force_min = true, .sent = "0.1",
     .remark = REASON(FORCED_MIN)},
    {"raised to the notional, the coefficient says no", .volume = "0.02", .own_contract = "100",
     .notional = "10", .price = "1.1", .force_min = true, .coefficient = "4.9",
     .reason = REASON(BELOW_MIN)},
    {"raised to the notional, the coefficient says just yes", .volume = "0.02",
     .own_contract = "100", .notional = "10", .price = "1.1", .force_min = true, .coefficient = "5",
     .sent = "0.1", .remark = REASON(FORCED_MIN)},
    {"a clamped copy below the notional is not raised above its maximum", .volume = "1",
     .max = "0.05", .own_contract = "100", .notional = "10", .price = "1.1", .force_min = true,
     .reason = REASON(BELOW_MIN_NOTIONAL)},
    {"a tiny copy is not raised above its maximum for the notional", .volume = "0.001",
     .max = "0.05", .own_contract = "100", .notional = "10", .price = "1.1", .force_min = true,
     .reason = REASON(BELOW_MIN)},
    {"notional without a price", .volume = "1", .notional = "10", .reason = REASON(MISSING_SPEC)},
    {"notional without a contract size", .volume = "1", .notional = "10", .own_contract = "0",
     .price = "1.1", .reason = REASON(MISSING_SPEC)},
};

static void money_set(struct tw_account *account, const char *text)
{
    char currency[8], figures[3][32];
    if (text == NULL)
        return;
    cr_assert_eq(sscanf(text, "%7s %31s %31s %31s", currency, figures[0], figures[1], figures[2]),
                 4, "%s", text);
    tw_decimal *const to[] = {&account->balance, &account->equity, &account->free_margin};
    for (size_t i = 0; i < 3; i++)
        *to[i] = dec(strcmp(figures[i], "-") == 0 ? "" : figures[i]);
    snprintf(account->currency, sizeof account->currency, "%s",
             strcmp(currency, "?") == 0 ? "" : currency);
}

static void quote_text(struct fixture *f, const char *symbol, const char *text)
{
    char bid[32] = "", ask[32] = "";
    if (text == NULL)
        return;
    sscanf(text, "%31[^/]/%31s", bid, ask);
    quote(f, symbol, bid, ask);
}

static char *given(const char *text)
{
    static char texts[16][32];
    static unsigned at;
    char *room = texts[at++ % 16];
    snprintf(room, 32, "%s", text != NULL ? text : "");
    return room;
}

static void case_rules(const struct size_case *c, Tradewake__V1__CopyRules *rules)
{
    tradewake__v1__copy_rules__init(rules);
    rules->sizing = c->sizing;
    rules->multiplier = given(c->multiplier);
    rules->fixed_volume = given(c->fixed);
    rules->risk_fraction = given(c->risk);
    rules->min_volume = given(c->min);
    rules->max_volume = given(c->max);
    rules->max_risk_coefficient = given(c->coefficient);
    rules->force_min = c->force_min;
    rules->reverse = c->reverse;
    rules->ignore_stop_loss = c->ignore_stop_loss;
    if (c->nearest)
        rules->rounding = TRADEWAKE__V1__ROUNDING__ROUNDING_NEAREST;
}

static void take(tw_decimal *field, const char *text)
{
    if (text != NULL)
        *field = dec(text);
}

static void case_instrument(const struct size_case *c, struct fixture *f)
{
    struct tw_instrument eurusd = instrument_of("EURUSD");
    take(&eurusd.volume_min, c->own_min);
    take(&eurusd.volume_step, c->own_step);
    take(&eurusd.volume_max, c->own_max);
    take(&eurusd.contract_size, c->own_contract);
    take(&eurusd.min_notional, c->notional);
    if (c->profit != NULL)
        snprintf(eurusd.profit_currency, sizeof eurusd.profit_currency, "%s",
                 strcmp(c->profit, "-") == 0 ? "" : c->profit);
    tell(f, &eurusd);
    quote_text(f, "EURUSD", c->quote);
    if (c->pair != NULL)
        quote_text(f, c->pair, c->pair_quote);
}

static void case_open(const struct size_case *c, struct fixture *f)
{
    Tradewake__V1__CopyRules rules;
    case_rules(c, &rules);
    fixture_open(f, &rules, NULL);
    case_instrument(c, f);
    money_set(&f->account, c->own_money);
    money_set(&f->master, c->master_money);
    if (c->no_master)
        f->view.master_account = NULL;
    f->event.side = c->is_sell ? TW_SELL : TW_BUY;
    take(&f->event.volume, c->volume);
    f->event.price = dec(c->price);
    f->event.stop_loss = dec(c->stop_loss);
    f->event.take_profit = dec(c->take_profit);
    f->event.contract_size = dec(c->contract);
}

Test(core_size, every_mode_gives_the_volume_or_the_reason)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct size_case *c = &cases[i];
        struct fixture f;
        case_open(c, &f);

        struct tw_plan plan = plan_now(&f);

        cr_expect_eq(plan.reason, c->reason, "%s: %s", c->name, reason_name(plan.reason));
        cr_expect_eq(plan.state, c->sent != NULL ? STATE(QUEUED) : STATE(SKIPPED), "%s: state %d",
                     c->name, (int)plan.state);
        if (c->sent != NULL) {
            cr_expect_eq(plan.volume, dec(c->sent), "%s: %s", c->name, TEXT(plan.volume));
            cr_expect_eq(plan.n_remarks, c->remark != REASON(UNSPECIFIED) ? 1u : 0u,
                         "%s: %u remarks", c->name, plan.n_remarks);
            cr_expect_eq(plan.remarks[0], c->remark, "%s: %s", c->name,
                         reason_name(plan.remarks[0]));
        }
        fixture_close(&f);
    }
}

Test(core_size, an_account_with_a_suffix_has_its_pairs_with_it)
{
    const struct size_case balance = {"balance", MODE(BALANCE), .own_money = "USD 6000 1 1",
                                      .master_money = "EUR 5000 1 1"};
    struct fixture f;
    case_open(&balance, &f);
    cr_expect_eq(plan_now(&f).reason, REASON(MISSING_ACCOUNT));
    quote(&f, "EURUSD.r", "1.2", "1.2");
    cr_expect_eq(plan_now(&f).reason, REASON(MISSING_ACCOUNT), "of another account, maybe");

    f.follower.symbol_suffix = ".r";
    struct tw_instrument eurusd = instrument_of("EURUSD.r");
    tell(&f, &eurusd);
    cr_expect_eq(plan_now(&f).volume, dec("1"));

    f.follower.symbol_suffix = "";
    fixture_close(&f);
}

Test(core_size, what_was_wanted_is_told_before_rounding)
{
    const struct size_case third = {"a third", .multiplier = "0.33333333", .volume = "0.1",
                                    .sent = "0.03"};
    struct fixture f;
    case_open(&third, &f);

    struct tw_plan plan = plan_now(&f);

    cr_expect_eq(plan.wanted, dec("0.03333333"), "%s", TEXT(plan.wanted));
    cr_expect_eq(plan.sizing, TW_SIZE_MULTIPLIER);
    fixture_close(&f);
}

/* Tiers in the multiplier's place. */
Test(core_size, a_tier_is_chosen_by_the_masters_volume_and_its_end_belongs_to_it)
{
    static const struct {
        const char *volume, *sent;
        tw_reason reason;
        bool open_ended;
    } rows[] = {
        {"0.01", "0.02", REASON(UNSPECIFIED), false}, {"1", "2", REASON(UNSPECIFIED), false},
        {"1.01", "0.5", REASON(UNSPECIFIED), false},  {"10", "5", REASON(UNSPECIFIED), false},
        {"10.01", NULL, REASON(RISK_LIMIT), false}, /* the last tier ends: nothing is said of more
                                                     */
        {"10.01", "1", REASON(UNSPECIFIED), true},    {"99", "9.9", REASON(UNSPECIFIED), true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        Tradewake__V1__VolumeTier tiers[3], *list[3];
        char *const texts[3][2] = {
            {given("1"), given("2")}, {given("10"), given("0.5")}, {given(""), given("0.1")}};
        for (size_t k = 0; k < 3; k++) {
            tradewake__v1__volume_tier__init(list[k] = &tiers[k]);
            tiers[k].up_to = texts[k][0];
            tiers[k].multiplier = texts[k][1];
        }
        Tradewake__V1__CopyRules rules;
        tradewake__v1__copy_rules__init(&rules);
        rules.tiers = list;
        rules.n_tiers = rows[i].open_ended ? 3 : 2;
        struct fixture f;
        fixture_open(&f, &rules, NULL);
        f.event.volume = dec(rows[i].volume);

        struct tw_plan plan = plan_now(&f);

        cr_expect_eq(plan.reason, rows[i].reason, "%s: %s", rows[i].volume,
                     reason_name(plan.reason));
        if (rows[i].sent != NULL)
            cr_expect_eq(plan.volume, dec(rows[i].sent), "%s: %s", rows[i].volume,
                         TEXT(plan.volume));
        fixture_close(&f);
    }
}

/* What is not formatted for nobody is formatted for somebody: whoever asks gets the same decision.
 */
Test(core_size, asking_how_changes_nothing)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fixture f;
        case_open(&cases[i], &f);
        struct tw_plan quiet = plan_now(&f);
        f.view.trace = &f.trace;

        struct tw_plan told = plan_now(&f);

        cr_expect_eq(told.state, quiet.state, "%s", cases[i].name);
        cr_expect_eq(told.reason, quiet.reason, "%s", cases[i].name);
        cr_expect_eq(told.volume, quiet.volume, "%s", cases[i].name);
        cr_expect_gt(f.trace.n_steps, 0, "%s", cases[i].name);
        fixture_close(&f);
    }
}

/* Whoever reads an explanation finds the rule by the name it has in CopyRules, not "size". */
Test(core_size, a_no_is_told_under_the_rule_that_said_it)
{
    static const struct {
        struct size_case c;
        const char *rule;
    } rows[] = {
        {{"below the minimum", .multiplier = "0.001"}, "min_volume"},
        {{"the coefficient", .multiplier = "0.001", .force_min = true, .coefficient = "2"},
         "max_risk_coefficient"},
        {{"the maximum", .max = "0.05", .own_min = "0.1"}, "max_volume"},
        {{"the notional", .volume = "0.01", .own_contract = "1", .notional = "10", .price = "1"},
         "min_notional"},
        {{"no account", MODE(EQUITY), .no_master = true}, "equity"},
        {{"no balance", MODE(BALANCE), .own_money = "USD - 1 1"}, "balance"},
        {{"no contract size", MODE(CONTRACT), .volume = "1"}, "contract_size"},
        {{"no stop", MODE(RISK), .risk = "0.01"}, "risk_fraction"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fixture f;
        case_open(&rows[i].c, &f);
        f.view.trace = &f.trace;
        struct tw_plan plan = plan_now(&f);
        cr_expect_eq(plan.state, STATE(SKIPPED), "%s", rows[i].c.name);
        cr_expect_str_eq(f.trace.steps[f.trace.n_steps - 1].rule, rows[i].rule, "%s",
                         rows[i].c.name);
        fixture_close(&f);
    }
}
