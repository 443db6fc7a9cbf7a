/* core_support.h - a follower on paper: rules, one account, one market, one event; every test
 * changes what it is about and leaves the rest. */
#ifndef CORE_SUPPORT_H
#define CORE_SUPPORT_H

#include <tradewake/base/clock.h>
#include <tradewake/core/plan.h>

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#define STATE(name)  TRADEWAKE__V1__COPY_STATE__COPY_STATE_##name
#define REASON(name) TRADEWAKE__V1__REASON__REASON_##name
#define ACTION(name) TRADEWAKE__V1__COPY_ACTION__COPY_ACTION_##name
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define NOW_NS (INT64_C(1796000000) * TW_NS_PER_S)

/* "" and NULL are UNSET. */
static inline tw_decimal dec(const char *text)
{
    tw_decimal value = TW_DECIMAL_UNSET;
    cr_assert(tw_decimal_parse(text != NULL ? text : "", &value), "\"%s\" is not a decimal", text);
    return value;
}

static inline const char *reason_name(tw_reason reason)
{
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(&tradewake__v1__reason__descriptor, (int)reason);
    return value != NULL ? value->name + strlen("REASON_") : "?";
}

/* A text for a message; a few at once. */
#define TEXT(value) tw_decimal_text((value), (char[TW_DECIMAL_TEXT_BYTES]){0})

struct fixture {
    struct tw_rules rules;
    struct tw_follower_rules follower;
    struct tw_market market;
    struct tw_account account, master;
    struct tw_event event;
    struct tw_follower_view view;
    struct tw_trace trace;
};

static inline void account_set(struct tw_account *account, const char *currency,
                               const char *balance)
{
    *account = (struct tw_account){.balance = dec(balance),
                                   .equity = dec(balance),
                                   .free_margin = dec(balance),
                                   .leverage = 100};
    snprintf(account->currency, sizeof account->currency, "%s", currency);
}

/* 0.01 / 0.01 / 100 lots of 100000, ticks of 0.00001. */
static inline struct tw_instrument instrument_of(const char *symbol)
{
    struct tw_instrument instrument = {
        .volume_min = dec("0.01"),
        .volume_step = dec("0.01"),
        .volume_max = dec("100"),
        .contract_size = dec("100000"),
        .tick_size = dec("0.00001"),
    };
    snprintf(instrument.symbol, sizeof instrument.symbol, "%s", symbol);
    if (strlen(symbol) == 6) {
        snprintf(instrument.base_currency, sizeof instrument.base_currency, "%.3s", symbol);
        snprintf(instrument.profit_currency, sizeof instrument.profit_currency, "%.3s", symbol + 3);
    }
    return instrument;
}

static inline void tell(struct fixture *f, const struct tw_instrument *instrument)
{
    cr_assert(tw_market_tell(&f->market, instrument, 1, &f->follower));
}

static inline void quote(struct fixture *f, const char *symbol, const char *bid, const char *ask)
{
    cr_assert(tw_market_quote(&f->market, symbol, dec(bid), dec(ask)));
}

static inline struct tw_event event_open(const char *symbol, enum tw_side side, const char *volume)
{
    struct tw_event event;
    tw_event_clear(&event, TW_EVENT_OPEN);
    event.event_id = "e1";
    event.master_id = "M1";
    event.position_id = "p1";
    event.observed_wall_ns = NOW_NS;
    event.symbol = symbol;
    event.side = side;
    event.type = TW_ORDER_MARKET;
    event.volume = dec(volume);
    return event;
}

/* rules, follower: NULL = defaults. */
static inline void fixture_open(struct fixture *f, const Tradewake__V1__CopyRules *rules,
                                const Tradewake__V1__Follower *follower)
{
    struct tw_refusal refusal = {0};
    Tradewake__V1__Follower plain;
    tradewake__v1__follower__init(&plain);
    *f = (struct fixture){0};
    cr_assert(tw_rules_read(rules, "rules.", &f->rules, &refusal), "%s %s", refusal.field,
              refusal.text);
    cr_assert(tw_follower_rules_read(follower != NULL ? follower : &plain, "follower.",
                                     &f->follower, &refusal),
              "%s %s", refusal.field, refusal.text);
    account_set(&f->account, "USD", "10000");
    account_set(&f->master, "USD", "10000");
    const struct tw_instrument eurusd = instrument_of("EURUSD");
    tell(f, &eurusd);
    f->event = event_open("EURUSD", TW_BUY, "1");
    f->view = (struct tw_follower_view){
        .follower = &f->follower,
        .rules = &f->rules,
        .market = &f->market,
        .account = &f->account,
        .master_account = &f->master,
    };
}

static inline void fixture_close(struct fixture *f)
{
    tw_rules_clear(&f->rules);
    tw_follower_rules_clear(&f->follower);
    tw_market_clear(&f->market);
}

static inline struct tw_plan plan_now(const struct fixture *f)
{
    struct tw_plan plan;
    tw_plan_open(&f->event, &f->view, NOW_NS, &plan);
    return plan;
}

#endif
