/* core_loss.c - loss limits: periods of the calendar, what counts as lost, which limit counts. */
#include "core_support.h"

#include <tradewake/core/loss.h>

#include <time.h>

#define PERIOD(name)  TRADEWAKE__V1__RISK_PERIOD__RISK_PERIOD_##name
#define MEASURE(name) TRADEWAKE__V1__RISK_MEASURE__RISK_MEASURE_##name

static int64_t at(const char *text)
{
    struct tm utc = {0};
    cr_assert_not_null(strptime(text, "%Y-%m-%d %H:%M:%S", &utc), "%s", text);
    return (int64_t)timegm(&utc) * TW_NS_PER_S;
}

Test(core_loss, periods_are_those_of_the_calendar_in_utc)
{
    static const struct {
        Tradewake__V1__RiskPeriod period;
        const char *now, *from, *until;
    } rows[] = {
        {PERIOD(DAY), "2026-11-30 00:00:00", "2026-11-30 00:00:00", "2026-12-01 00:00:00"},
        {PERIOD(DAY), "2026-11-30 23:59:59", "2026-11-30 00:00:00", "2026-12-01 00:00:00"},
        {PERIOD(WEEK), "2026-11-30 12:00:00", "2026-11-30 00:00:00", "2026-12-07 00:00:00"}, /* a Monday */
        {PERIOD(WEEK), "2026-11-29 23:59:59", "2026-11-23 00:00:00", "2026-11-30 00:00:00"}, /* a Sunday */
        {PERIOD(WEEK), "2027-01-01 00:00:00", "2026-12-28 00:00:00", "2027-01-04 00:00:00"},
        {PERIOD(MONTH), "2026-12-31 23:59:59", "2026-12-01 00:00:00", "2027-01-01 00:00:00"},
        {PERIOD(MONTH), "2028-02-29 12:00:00", "2028-02-01 00:00:00", "2028-03-01 00:00:00"},
        {PERIOD(MONTH), "2027-02-01 00:00:00", "2027-02-01 00:00:00", "2027-03-01 00:00:00"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tw_period period = tw_period_of(rows[i].period, at(rows[i].now));
        cr_expect_eq(period.from_wall_ns, at(rows[i].from), "row %zu", i);
        cr_expect_eq(period.until_wall_ns, at(rows[i].until), "row %zu", i);
    }
    cr_expect_eq(tw_period_of(PERIOD(LIFETIME), NOW_NS).until_wall_ns, 0);
}

Test(core_loss, a_limit_is_reached_when_as_much_is_lost_as_it_says)
{
    static const struct {
        const char *name;
        Tradewake__V1__RiskMeasure measure;
        const char *absolute, *fraction, *balance_then, *equity_then, *balance, *equity, *lost;
        bool reaches;
    } rows[] = {
        {"a balance, not quite", MEASURE(BALANCE_LOSS), "500", "", "10000", "9000", "9500.01", "1", "499.99", false},
        {"a balance, just", MEASURE(BALANCE_LOSS), "500", "", "10000", "9000", "9500", "1", "500", true},
        {"a gain", MEASURE(BALANCE_LOSS), "500", "", "10000", "10000", "12000", "1", "-2000", false},
        {"equity", MEASURE(EQUITY_LOSS), "500", "", "10000", "10100", "10000", "9600", "500", true},
        {"equity against the balance of then", MEASURE(EQUITY_LOSS), "", "0.05", "10000", "12000", "10000", "11500",
         "500", true},
        {"a part of the balance, not quite", MEASURE(BALANCE_LOSS), "", "0.05", "10000", "1", "9500.00000001", "1",
         "499.99999999", false},
        {"the drawdown of now, of the balance of now", MEASURE(DRAWDOWN), "", "0.05", "20000", "20000", "10000", "9500",
         "500", true},
        {"a drawdown that is none", MEASURE(DRAWDOWN), "1", "", "1", "1", "10000", "10000", "0", false},
        {"either of the two", MEASURE(BALANCE_LOSS), "500", "0.01", "10000", "1", "9900", "1", "100", true},
        {"nothing to take a part of", MEASURE(BALANCE_LOSS), "", "0.01", "0", "0", "-5", "1", "5", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct tw_loss_limit limit = {.measure = rows[i].measure,
                                            .period = PERIOD(DAY),
                                            .max_absolute = dec(rows[i].absolute),
                                            .max_fraction = dec(rows[i].fraction)};
        const struct tw_account account = {.balance = dec(rows[i].balance), .equity = dec(rows[i].equity)};
        tw_decimal lost = 0;
        cr_expect_eq(tw_loss_reaches(&limit, dec(rows[i].balance_then), dec(rows[i].equity_then), &account, &lost),
                     rows[i].reaches, "%s", rows[i].name);
        cr_expect_eq(lost, dec(rows[i].lost), "%s: %s", rows[i].name, TEXT(lost));
    }
    const struct tw_loss_limit limit = {.measure = MEASURE(BALANCE_LOSS), .max_absolute = 1, .max_fraction = TW_DECIMAL_UNSET};
    const struct tw_account unknown = {.balance = TW_DECIMAL_UNSET, .equity = 5};
    tw_decimal lost;
    cr_expect_not(tw_loss_reaches(&limit, dec("100"), dec("100"), &unknown, &lost), "nothing is known: no guess");
}

Test(core_loss, of_several_that_are_reached_the_hardest_counts)
{
    static const struct {
        const char *name;
        bool closes_now;
        int64_t until_now;
        bool closes_next;
        int64_t until_next;
        bool takes_over;
    } rows[] = {
        {"one that closes, after one that stops", false, 0, true, 10, true},
        {"one that stops, after one that closes", true, 10, false, 0, false},
        {"a longer one", false, 10, false, 20, true},
        {"one for good", true, 10, true, 0, true},
        {"a shorter one", false, 20, false, 10, false},
        {"after one for good", false, 0, false, 10, false},
        {"itself", true, 10, true, 10, false},
        {"itself, for good", false, 0, false, 0, false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct tw_loss_limit now = {.close_positions = rows[i].closes_now},
                                   next = {.close_positions = rows[i].closes_next};
        cr_expect_eq(tw_loss_outweighs(&now, rows[i].until_now, &next, rows[i].until_next), rows[i].takes_over, "%s",
                     rows[i].name);
    }
    const struct tw_loss_limit any = {0};
    cr_expect(tw_loss_outweighs(NULL, 0, &any, 10));
}
