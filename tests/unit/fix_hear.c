/* Messages of the venue as plain values: numbers, times, reports, positions, refusals. */
#include "hear.h"

#include <tradewake/base/clock.h>

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "35=8|11=a|": the first field with the tag. */
static const char *value_of(const void *message, uint32_t tag, size_t *ret_n)
{
    for (const char *at = message; *at != '\0';) {
        char *equals;
        unsigned long found = strtoul(at, &equals, 10);
        size_t n = strcspn(equals + 1, "|");
        if (found == tag) {
            *ret_n = n;
            return equals + 1;
        }
        at = equals + 1 + n;
        at += *at == '|';
    }
    return NULL;
}

static struct fix_heard hear(const char *profile, const char *type, const char *message)
{
    struct fix_heard heard;
    fix_hear(fix_profile_find(profile), type, value_of, message, &heard);
    return heard;
}

Test(fix_hear, numbers_are_exact_or_none)
{
    static const struct {
        const char *text;
        bool is_one;
        tw_decimal number;
    } cases[] = {
        {"1", true, TW_DECIMAL_ONE},           {"1.", true, TW_DECIMAL_ONE},
        {".5", true, TW_DECIMAL_ONE / 2},      {"0001.50", true, TW_DECIMAL_ONE * 3 / 2},
        {"-1.1", true, -TW_DECIMAL_ONE * 11 / 10}, {"1.08709", true, 108709000},
        {"1.1234567800000", true, 112345678},  {"1.123456789", false, 0},
        {"00000000000000000001", true, TW_DECIMAL_ONE}, {"9999999999.99999999", true, INT64_C(999999999999999999)},
        {"10000000000", false, 0},             {"", false, 0},
        {"-", false, 0},                       {".", false, 0},
        {"+1", false, 0},                      {"1e3", false, 0},
        {"1,5", false, 0},                     {"1 ", false, 0},
        {"nan", false, 0},                     {"1.1.1", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tw_decimal number = 7;
        bool is_one = fix_decimal_read(cases[i].text, strlen(cases[i].text), &number);
        cr_expect_eq(is_one, cases[i].is_one, "\"%s\"", cases[i].text);
        cr_expect_eq(number, is_one ? cases[i].number : 7, "\"%s\" is %lld", cases[i].text, (long long)number);
    }
}

Test(fix_hear, times_are_utc_with_any_fraction)
{
    static const struct {
        const char *text;
        bool is_one;
        int64_t ns;
    } cases[] = {
        {"19700101-00:00:01", true, TW_NS_PER_S},
        {"20261201-00:00:00", true, INT64_C(1796083200) * TW_NS_PER_S},
        {"20240229-12:00:00.5", true, INT64_C(1709208000) * TW_NS_PER_S + 500 * TW_NS_PER_MS},
        {"19700101-00:00:00.000000001", true, 1},
        {"20161231-23:59:60", true, INT64_C(1483228800) * TW_NS_PER_S}, /* a leap second */
        {"20261301-00:00:00", false, 0},
        {"20261201-24:00:00", false, 0},
        {"20261201-00:00:00.", false, 0},
        {"20261201-00:00:00.1234567890", false, 0},
        {"20261201", false, 0},
        {"2026120a-00:00:00", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t ns = 7;
        bool is_one = fix_time_read(cases[i].text, strlen(cases[i].text), &ns);
        cr_expect_eq(is_one, cases[i].is_one, "\"%s\"", cases[i].text);
        cr_expect_eq(ns, is_one ? cases[i].ns : 7, "\"%s\" is %lld", cases[i].text, (long long)ns);
    }
}

Test(fix_hear, an_execution_is_read_whole)
{
    struct fix_heard heard = hear("ctrader", "8", "37=V1|11=T1A|41=T0|17=E9|150=F|39=1|55=1|54=2|40=2|38=1000|14=400|151=600|"
                                                  "6=1.1|31=1.2|44=1.05|721=P7|494=label|103=3|584=Q1|911=4|58=half|43=Y|");
    const struct fix_report *r = &heard.report;

    cr_assert_eq(heard.kind, FIX_HEARD_EXECUTION);
    cr_expect_str_eq(r->order_id, "V1");
    cr_expect_str_eq(r->cl_ord_id, "T1A");
    cr_expect_str_eq(r->orig_cl_ord_id, "T0");
    cr_expect_str_eq(r->exec_id, "E9");
    cr_expect_str_eq(r->position_id, "P7");
    cr_expect_str_eq(r->request_id, "Q1");
    cr_expect_eq(r->exec_type, 'F');
    cr_expect_eq(r->ord_status, '1');
    cr_expect_eq(r->side, TW_SELL);
    cr_expect_eq(r->type, TW_ORDER_LIMIT);
    cr_expect_eq(r->cum, 400 * TW_DECIMAL_ONE);
    cr_expect_eq(r->leaves, 600 * TW_DECIMAL_ONE);
    cr_expect_eq(r->total, 4);
    cr_expect(r->is_duplicate);
    cr_expect_eq(r->stop_price, TW_DECIMAL_UNSET, "what is absent is absent");
    cr_expect_str_eq(hear("generic44", "8", "721=P7|").report.position_id, "", "there are none of this name there");
}

Test(fix_hear, an_id_that_does_not_fit_is_none_and_words_are_cut)
{
    char message[400];
    snprintf(message, sizeof message, "11=%070d|58=%0200d|", 1, 1);
    struct fix_heard heard = hear("generic44", "8", message);

    cr_expect_str_eq(heard.report.cl_ord_id, "");
    cr_expect_eq(strlen(heard.report.text), sizeof heard.report.text - 1);
    cr_expect_str_eq(hear("generic44", "8", "58=a\033[2Jb|").report.text, "a?[2Jb");
}

Test(fix_hear, positions_have_a_side)
{
    cr_expect_eq(hear("ctrader", "AP", "710=Q|721=P|55=1|704=100|705=0|727=1|728=0|730=1.1|").report.side, TW_BUY);
    struct fix_heard sold = hear("ctrader", "AP", "710=Q|721=P|55=1|704=0|705=30|727=1|");
    cr_expect_eq(sold.report.side, TW_SELL);
    cr_expect_eq(sold.report.quantity, 30 * TW_DECIMAL_ONE);
    struct fix_heard both = hear("generic44", "AP", "710=Q|55=1|704=100|705=30|727=1|");
    cr_expect_eq(both.report.side, TW_BUY);
    cr_expect_eq(both.report.quantity, 70 * TW_DECIMAL_ONE);
    cr_expect_eq(hear("generic44", "AP", "710=Q|55=1|705=0|727=1|").report.quantity, 0, "one side that is nothing is told");
}

/* Taken for nothing, they had closed our books while the position was open. */
Test(fix_hear, positions_that_cannot_be_read_are_not_nothing)
{
    static const char *const unread[] = {
        "710=Q|55=1|727=1|",
        "710=Q|55=1|704=1e5|705=0|727=1|",
        "710=Q|55=1|704=0|705=0.000000001|727=1|",
        "710=Q|55=1|702=2|703=SOD|704=0|703=TQ|704=100|727=1|",
    };
    for (size_t i = 0; i < sizeof unread / sizeof unread[0]; i++)
        cr_expect_eq(hear("generic44", "AP", unread[i]).report.quantity, TW_DECIMAL_UNSET, "%s", unread[i]);
}

Test(fix_hear, refusals_name_what_they_refuse)
{
    struct fix_heard j = hear("generic44", "j", "45=12|372=D|379=T1A|380=4|58=down|");
    cr_expect_eq(j.kind, FIX_HEARD_UNREAD);
    cr_expect_eq(j.ref_seq, 12);
    cr_expect_str_eq(j.ref_id, "T1A");
    cr_expect_eq(j.code, 4);
    cr_expect_not(j.is_session_reject);
    struct fix_heard three = hear("generic44", "3", "45=13|373=1|58=tag|");
    cr_expect(three.is_session_reject);
    cr_expect_eq(three.code, FIX_NO_CODE);
    cr_expect_eq(hear("generic44", "9", "11=c|41=a|39=2|434=1|102=0|103=9|").report.reject_reason, 0);
}
