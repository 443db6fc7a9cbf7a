#include <tradewake/core/loss.h>

#include <tradewake/base/clock.h>

#include <time.h>

#define PERIOD(name)  TRADEWAKE__V1__RISK_PERIOD__RISK_PERIOD_##name
#define MEASURE(name) TRADEWAKE__V1__RISK_MEASURE__RISK_MEASURE_##name
#define DAY_NS        (INT64_C(86400) * TW_NS_PER_S)

static int64_t month_start(const struct tm *utc, int months)
{
    struct tm first = {.tm_year = utc->tm_year, .tm_mon = utc->tm_mon + months, .tm_mday = 1};
    return (int64_t)timegm(&first) * TW_NS_PER_S;
}

struct tw_period tw_period_of(Tradewake__V1__RiskPeriod period, int64_t now_wall_ns)
{
    int64_t day = now_wall_ns / DAY_NS;
    int64_t monday = day - (day + 3) % 7; /* 1970-01-01 was a Thursday */
    time_t seconds = (time_t)(now_wall_ns / TW_NS_PER_S);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    switch (period) {
    case PERIOD(DAY):
        return (struct tw_period){day * DAY_NS, (day + 1) * DAY_NS};
    case PERIOD(WEEK):
        return (struct tw_period){monday * DAY_NS, (monday + 7) * DAY_NS};
    case PERIOD(MONTH):
        return (struct tw_period){month_start(&utc, 0), month_start(&utc, 1)};
    default:
        return (struct tw_period){1, 0};
    }
}

static bool is_money(tw_decimal value)
{
    return value != TW_DECIMAL_UNSET;
}

/* What was lost, and of how much the limit's fraction is. */
static bool measure(const struct tw_loss_limit *limit, tw_decimal balance, tw_decimal equity,
                    const struct tw_account *account, tw_decimal *ret_lost, tw_decimal *ret_base)
{
    if (!is_money(account->balance) || !is_money(account->equity))
        return false;
    *ret_base = balance;
    switch (limit->measure) {
    case MEASURE(BALANCE_LOSS):
        *ret_lost = balance - account->balance;
        return true;
    case MEASURE(EQUITY_LOSS):
        *ret_lost = equity - account->equity;
        return true;
    case MEASURE(DRAWDOWN):
        *ret_lost = account->balance - account->equity;
        *ret_base = account->balance;
        return true;
    default:
        return false;
    }
}

bool tw_loss_reaches(const struct tw_loss_limit *limit, tw_decimal balance, tw_decimal equity,
                     const struct tw_account *account, tw_decimal *ret_lost)
{
    tw_decimal base, allowed;
    if (!measure(limit, balance, equity, account, ret_lost, &base))
        return false;
    if (is_money(limit->max_absolute) && *ret_lost >= limit->max_absolute)
        return true;
    return is_money(limit->max_fraction) && base > 0 && tw_decimal_mul(base, limit->max_fraction, &allowed) &&
           *ret_lost >= allowed;
}

static bool lasts_longer(int64_t until_wall_ns, int64_t than_until_wall_ns)
{
    return than_until_wall_ns != 0 && (until_wall_ns == 0 || until_wall_ns > than_until_wall_ns);
}

bool tw_loss_outweighs(const struct tw_loss_limit *now, int64_t now_until_wall_ns, const struct tw_loss_limit *next,
                       int64_t next_until_wall_ns)
{
    if (now == NULL || now->close_positions != next->close_positions)
        return now == NULL || next->close_positions;
    return lasts_longer(next_until_wall_ns, now_until_wall_ns);
}
