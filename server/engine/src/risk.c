/* risk.c - loss limits: the account against what it was when the period began.
 *
 * The account is looked at whenever the broker tells of it, off the hot path; an open only reads the
 * flag. */
#include "internal.h"

#include <string.h>
#include <time.h>

#define PERIOD(name) TRADEWAKE__V1__RISK_PERIOD__RISK_PERIOD_##name
#define MEASURE(name) TRADEWAKE__V1__RISK_MEASURE__RISK_MEASURE_##name
#define DAY_NS (INT64_C(86400) * TW_NS_PER_S)

struct period {
    int64_t from_wall_ns, until_wall_ns; /* until 0 = for ever */
};

static int64_t month_start(struct tm *utc, int months)
{
    struct tm first = {.tm_year = utc->tm_year, .tm_mon = utc->tm_mon + months, .tm_mday = 1};
    return (int64_t)timegm(&first) * TW_NS_PER_S;
}

/* The calendar period, in UTC, that now is in; weeks begin on Monday. */
static struct period period_of(Tradewake__V1__RiskPeriod period, int64_t now_wall_ns)
{
    int64_t day = now_wall_ns / DAY_NS;
    int64_t monday = day - (day + 3) % 7; /* 1970-01-01 was a Thursday */
    time_t seconds = (time_t)(now_wall_ns / TW_NS_PER_S);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    switch (period) {
    case PERIOD(DAY):
        return (struct period){day * DAY_NS, (day + 1) * DAY_NS};
    case PERIOD(WEEK):
        return (struct period){monday * DAY_NS, (monday + 7) * DAY_NS};
    case PERIOD(MONTH):
        return (struct period){month_start(&utc, 0), month_start(&utc, 1)};
    default:
        return (struct period){1, 0};
    }
}

static bool is_money(tw_decimal value)
{
    return value != TW_DECIMAL_UNSET;
}

/* What was lost, and of how much the limit's fraction is. */
static bool measure(const struct tw_slot *slot, const struct tw_loss_limit *limit, tw_decimal *ret_lost,
                    tw_decimal *ret_base)
{
    const struct baseline *baseline = &slot->baselines[limit->period];
    const struct tw_account *account = &slot->account;
    if (!is_money(account->balance) || !is_money(account->equity))
        return false;
    *ret_base = baseline->balance;
    switch (limit->measure) {
    case MEASURE(BALANCE_LOSS):
        *ret_lost = baseline->balance - account->balance;
        return true;
    case MEASURE(EQUITY_LOSS):
        *ret_lost = baseline->equity - account->equity;
        return true;
    case MEASURE(DRAWDOWN):
        *ret_lost = account->balance - account->equity;
        *ret_base = account->balance;
        return true;
    default:
        return false;
    }
}

static bool is_breached(const struct tw_loss_limit *limit, tw_decimal lost, tw_decimal base)
{
    tw_decimal allowed;
    if (is_money(limit->max_absolute) && lost >= limit->max_absolute)
        return true;
    return is_money(limit->max_fraction) && base > 0 &&
           tw_decimal_mul(base, limit->max_fraction, &allowed) && lost >= allowed;
}

static void baselines_follow(struct tw_slot *slot, int64_t now_wall_ns)
{
    if (!is_money(slot->account.balance) || !is_money(slot->account.equity))
        return;
    for (int period = PERIOD(DAY); period <= PERIOD(LIFETIME); period++) {
        struct baseline *baseline = &slot->baselines[period];
        int64_t from_ns = period_of((Tradewake__V1__RiskPeriod)period, now_wall_ns).from_wall_ns;
        if (baseline->from_wall_ns == 0 || (baseline->from_wall_ns < from_ns && period != PERIOD(LIFETIME)))
        {
            *baseline = (struct baseline){now_wall_ns, slot->account.balance, slot->account.equity};
            slot->is_risk_dirty = true;
        }
    }
}

void risk_expire(struct tw_slot *slot, int64_t now_wall_ns)
{
    if (slot->stop_out.is_out && slot->stop_out.until_wall_ns != 0 &&
        now_wall_ns >= slot->stop_out.until_wall_ns)
    {
        slot->stop_out.is_out = false;
        slot->is_risk_dirty = true;
    }
}

void risk_look(struct tw_slot *slot, int64_t now_wall_ns)
{
    risk_expire(slot, now_wall_ns);
    baselines_follow(slot, now_wall_ns);
    for (uint32_t i = 0; i < slot->rules.n_loss_limits && !slot->stop_out.is_out; i++) {
        const struct tw_loss_limit *limit = &slot->rules.loss_limits[i];
        tw_decimal lost, base;
        if (!measure(slot, limit, &lost, &base) || !is_breached(limit, lost, base))
            continue;
        slot->stop_out.is_out = slot->is_risk_dirty = true;
        slot->stop_out.limit = i;
        slot->stop_out.measured = lost;
        slot->stop_out.since_wall_ns = now_wall_ns;
        slot->stop_out.until_wall_ns = period_of(limit->period, now_wall_ns).until_wall_ns;
        slot->wants_close_all |= limit->close_positions;
    }
}

void risk_reset(struct tw_slot *slot, int64_t now_wall_ns)
{
    memset(&slot->stop_out, 0, sizeof slot->stop_out);
    memset(slot->baselines, 0, sizeof slot->baselines);
    slot->wants_close_all = false;
    slot->is_risk_dirty = true;
    baselines_follow(slot, now_wall_ns);
}
