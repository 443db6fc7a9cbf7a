/* Where FIX sessions are, what a follower says of his, and what orders look like on the wire. */
#include "compose.h"
#include "settings.h"

#include <tradewake/base/clock.h>

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const char ctrader[] = "# a broker\n"
                              "[ct]\n"
                              "profile  = ctrader\n"
                              "address  = h51.p.ctrader.com:5212\n"
                              "ca       = system\n"
                              "sender   = live.broker.{account}\n"
                              "target   = cServer\n"
                              "username = {account}\n"
                              "password = secret:ct-{account}\n"
                              "currency = USD\n"
                              "symbol EURUSD = 1 contract=100000 tick=0.00001 min=0.01 step=0.01 max=50 base=EUR quote=USD\n"
                              "\n"
                              "[plain]\n"
                              "profile = generic44\n"
                              "address = 127.0.0.1:9880\n"
                              "sender = US\n"
                              "target = THEM\n"
                              "hours = sun 22:05 - fri 21:55\n"
                              "reset = 22:00\n"
                              "symbol EURUSD = EUR/USD contract=1000 tick=0.00001 min=0.01 step=0.01 max=50\n";

static struct fix_venues venues;

static void read_all(void)
{
    struct tw_error error = {{0}};
    cr_assert_eq(fix_venues_read(ctrader, "fix.ini", &venues, &error), TW_OK, "%s", error.text);
}

static void clear(void)
{
    fix_venues_clear(&venues);
}

TestSuite(fix_rules, .init = read_all, .fini = clear);

/* ---- The file. ---- */

Test(fix_rules, a_section_is_a_profile_with_what_it_says)
{
    const struct fix_venue *ct = fix_venues_find(&venues, "ct"), *plain = fix_venues_find(&venues, "plain");

    cr_assert_not_null(ct);
    cr_expect_str_eq(ct->host, "h51.p.ctrader.com");
    cr_expect_str_eq(ct->port, "5212");
    cr_expect(ct->is_tls && ct->is_per_account && ct->profile.resets_at_logon);
    cr_expect_str_eq(ct->target_sub, "TRADE");
    cr_expect_str_eq(ct->password, "ct-{account}");
    cr_expect_str_eq(fix_venue_symbol(ct, "EURUSD")->venue_name, "1");
    cr_expect_not(plain->is_tls || plain->is_per_account || plain->profile.resets_at_logon);
    cr_expect_eq(plain->reset_min, 22 * 60);
    cr_expect_null(fix_venues_find(&venues, "nobody"));
}

Test(fix_rules, a_mistake_is_told_with_its_line_its_tag_and_the_rule)
{
#define BEFORE "[a]\nprofile = generic44\naddress = 127.0.0.1:1\nsender = S\ntarget = T\n"
#define SYMBOL "symbol X = X contract=1 tick=1 min=1 step=1 max=1\n"
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"profile = ctrader\n", "fix.ini:1: found \"profile = ctrader\" before the first [NAME]"},
        {"[a]\nsender = S\n", "fix.ini:2: profile comes first"},
        {"[a]\nprofile = fix42\n", "fix.ini:2: profile is \"fix42\", expected one of generic44, ctrader"},
        {BEFORE "heartbeat = 0\n", "fix.ini:6: heartbeat (108 HeartBtInt"},
        {BEFORE "password = hunter2\n", "password (554) is not kept here: expected secret:NAME"},
        {BEFORE "colour = red\n", "fix.ini:6: unknown setting \"colour\""},
        {BEFORE "reset = noon\n", "reset (141 ResetSeqNumFlag) is \"noon\""},
        {BEFORE "hours = all day\n", "hours is \"all day\""},
        {BEFORE "positions = maybe\n", "positions (35=AN) is \"maybe\", expected yes or no"},
        {BEFORE "symbol X =\n", "has no name at the venue (55 Symbol)"},
        {BEFORE "symbol X = X contract=1\n", "a symbol needs contract, tick, min, step and max"},
        {BEFORE "symbol X = X contract=-1\n", "contract is \"-1\", expected a number above 0"},
        {BEFORE SYMBOL SYMBOL, "symbol X is given twice"},
        {BEFORE, "it names no symbol"},
        {"[a]\nprofile = generic44\naddress = fix.example.com:1\nsender = S\ntarget = T\n" SYMBOL, "ca is missing"},
        {"[a]\nprofile = generic44\naddress = 127.0.0.1:1\ntarget = T\n" SYMBOL, "(49 SenderCompID)"},
        {"[a]\nprofile = generic44\naddress = 127.0.0.1\n", "expected HOST:PORT"},
        {"[a]\nprofile = generic44\naddress = 127.0.0.1:99999\n", "expected HOST:PORT"},
        {"[a]\nprofile = ctrader\naddress = 127.0.0.1:1\nsender = S\ntarget = T\n" SYMBOL, "expected {account} in sender (49)"},
        {BEFORE SYMBOL "[a]\n", "section [a] is given twice"},
        {"[../a]\n", "found [../a]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fix_venues made = {0};
        struct tw_error error = {{0}};
        cr_expect_eq(fix_venues_read(cases[i].text, "fix.ini", &made, &error), TW_INVALID, "%s", cases[i].words);
        cr_expect_not_null(strstr(error.text, cases[i].words), "\"%s\" is not in \"%s\"", cases[i].words, error.text);
        fix_venues_clear(&made);
    }
}

/* 1970-01-05 was a Monday. */
#define AT(day, hour, minute) ((((4 + (day)) * 24 + (hour)) * 60 + (minute)) * 60 * TW_NS_PER_S)
enum { MON, TUE, WED, THU, FRI, SAT, SUN };

Test(fix_rules, a_session_has_hours)
{
    const struct fix_hours week = fix_venues_find(&venues, "plain")->hours, none = {0},
                           night = {.is_set = true, .is_daily = true, .start_min = 22 * 60, .end_min = 21 * 60},
                           day = {.is_set = true, .is_daily = true, .start_min = 8 * 60, .end_min = 17 * 60};

    cr_expect(fix_hours_are_open(&none, AT(SAT, 12, 0)));
    cr_expect(fix_hours_are_open(&week, AT(WED, 3, 0)));
    cr_expect(fix_hours_are_open(&week, AT(SUN, 22, 5)));
    cr_expect_not(fix_hours_are_open(&week, AT(SUN, 22, 4)));
    cr_expect_not(fix_hours_are_open(&week, AT(FRI, 21, 55)));
    cr_expect_not(fix_hours_are_open(&week, AT(SAT, 12, 0)));
    cr_expect(fix_hours_are_open(&night, AT(TUE, 1, 0)));
    cr_expect_not(fix_hours_are_open(&night, AT(TUE, 21, 30)));
    cr_expect(fix_hours_are_open(&day, AT(SUN, 8, 0)));
    cr_expect_not(fix_hours_are_open(&day, AT(SUN, 17, 0)));
}

Test(fix_rules, numbers_begin_anew_at_an_hour)
{
    const struct fix_venue *plain = fix_venues_find(&venues, "plain");

    cr_expect_eq(fix_last_reset_wall_ns(plain, AT(WED, 23, 0)), AT(WED, 22, 0));
    cr_expect_eq(fix_last_reset_wall_ns(plain, AT(WED, 22, 0)), AT(WED, 22, 0));
    cr_expect_eq(fix_last_reset_wall_ns(plain, AT(WED, 21, 59)), AT(TUE, 22, 0));
    cr_expect_eq(fix_last_reset_wall_ns(fix_venues_find(&venues, "ct"), AT(WED, 1, 0)), INT64_MIN);
}

Test(fix_rules, lots_are_units_exactly_or_not_at_all)
{
    const struct fix_symbol *symbol = fix_venue_symbol(fix_venues_find(&venues, "ct"), "EURUSD");
    tw_decimal lots = 0, units = 0;

    cr_expect(fix_units_of(symbol, TW_DECIMAL_ONE * 29 / 100, &units));
    cr_expect_eq(units, TW_DECIMAL_ONE * 29000);
    cr_expect(fix_lots_of(symbol, TW_DECIMAL_ONE * 29000, &lots));
    cr_expect_eq(lots, TW_DECIMAL_ONE * 29 / 100);
    cr_expect_not(fix_units_of(symbol, INT64_MAX / 2, &units));
    cr_expect_not(fix_lots_of(symbol, 1, &lots), "a hundred millionth of a unit is no lot");
}

/* ---- What a follower says. ---- */

static tw_status settings_read(const char *adapter, const char *key, const char *value, struct fix_settings *ret, char *ret_key)
{
    struct tw_adapter_setting setting = {key, value};
    struct tw_session_options options = {.follower_id = "F1", .adapter = adapter, .settings = &setting, .n_settings = key != NULL};
    struct tw_error error = {{0}};
    return fix_settings_read(&venues, &options, ret, ret_key, &error);
}

Test(fix_rules, what_a_follower_says_is_checked_by_key)
{
    static const struct {
        const char *adapter, *key, *value, *wrong;
    } cases[] = {
        {"fix:ct", NULL, NULL, NULL},         {"fix:ct", "account", "123", NULL},
        {"fix:ct", "account", "a/b", "account"}, {"fix:ct", "account", "..", "account"},
        {"fix:ct", "account_mode", "hedging", NULL}, {"fix:ct", "account_mode", "netting", "account_mode"},
        {"fix:ct", "call_timeout", "200ms", NULL}, {"fix:ct", "call_timeout", "1h", "call_timeout"},
        {"fix:ct", "host", "evil.example", "host"}, {"fix:nobody", NULL, NULL, ""},
        {"fix", NULL, NULL, ""},              {"fix:plain", NULL, NULL, "currency"},
        {"fix:plain", "currency", "USD", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fix_settings settings;
        char key[FIX_SETTING_KEY_BYTES] = "";
        tw_status status = settings_read(cases[i].adapter, cases[i].key, cases[i].value, &settings, key);
        cr_expect_eq(status, cases[i].wrong == NULL ? TW_OK : TW_INVALID, "case %zu", i);
        if (cases[i].wrong != NULL)
            cr_expect_str_eq(key, cases[i].wrong, "case %zu: %s", i, key);
    }
}

Test(fix_rules, what_an_account_can_do_is_what_its_venue_can)
{
#define SECTION(profile, sender, more)                                                                                 \
    "[v]\nprofile = " profile "\naddress = 127.0.0.1:1\nsender = " sender "\ntarget = T\ncurrency = USD\n" more SYMBOL
    static const struct {
        const char *text;
        bool netting, query_by_id, not_found_is_final, reduce_only;
    } cases[] = {
        {SECTION("generic44", "S", ""), true, true, true, false},
        {SECTION("generic44", "S", "positions = yes\n"), true, true, true, true},
        {SECTION("generic44", "S", "order_status = no\n"), true, false, false, false},
        {SECTION("generic44", "S", "unique_ids = no\n"), true, true, false, false},
        {SECTION("ctrader", "S-{account}", ""), false, true, true, false},
        {SECTION("ctrader", "S-{account}", "unique_ids = no\n"), false, true, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct tw_session_options options = {.follower_id = "F1", .adapter = "fix:v"};
        struct fix_venues made = {0};
        struct fix_settings settings;
        struct tw_capabilities can;
        char key[FIX_SETTING_KEY_BYTES] = "";
        struct tw_error error = {{0}};
        cr_assert_eq(fix_venues_read(cases[i].text, "fix.ini", &made, &error), TW_OK, "case %zu: %s", i, error.text);
        cr_assert_eq(fix_settings_read(&made, &options, &settings, key, &error), TW_OK, "case %zu: %s", i, error.text);

        fix_settings_capabilities(&settings, &can);

        cr_expect_eq(can.netting, cases[i].netting, "case %zu", i);
        cr_expect_eq(can.query_by_id, cases[i].query_by_id, "case %zu", i);
        cr_expect_eq(can.not_found_is_final, cases[i].not_found_is_final, "case %zu", i);
        cr_expect_eq(can.reduce_only, cases[i].reduce_only, "case %zu", i);
        fix_venues_clear(&made);
    }
}

/* ---- On the wire. ---- */

static const char *shown(const struct fix_body *body)
{
    static char text[FIX_BODY_BYTES + 1];
    cr_assert_not(body->is_full);
    for (size_t i = 0; i < body->n; i++)
        text[i] = body->text[i] == '\001' ? '|' : body->text[i];
    text[body->n] = '\0';
    return text;
}

static struct tw_order order_of(enum tw_order_op op)
{
    struct tw_order order = {.op = op,
                             .side = TW_SELL,
                             .type = TW_ORDER_LIMIT,
                             .client_order_id = "T1A",
                             .position_id = "P9",
                             .price = TW_DECIMAL_ONE * 11 / 10,
                             .stop_price = TW_DECIMAL_UNSET,
                             .volume = TW_DECIMAL_ONE};
    return order;
}

static struct fix_terms terms_of(const char *venue, const char *account)
{
    const struct fix_venue *found = fix_venues_find(&venues, venue);
    return (struct fix_terms){.profile = &found->profile, .account = account, .symbol = found->symbols[0].venue_name,
                              .units = TW_DECIMAL_ONE * 1000, .now_wall_ns = AT(MON, 1, 2) + 3 * TW_NS_PER_MS};
}

Test(fix_rules, orders_look_as_the_profile_wants_them)
{
    struct fix_terms ct = terms_of("ct", ""), plain = terms_of("plain", "ACC");
    struct tw_order order = order_of(TW_OP_CLOSE);
    struct fix_body body;

    fix_compose_new(&ct, &order, &body);
    cr_expect_str_eq(shown(&body),
                     "11=T1A|55=1|54=2|60=19700105-01:02:00.003|38=1000|40=1|59=3|721=P9|494=T1A|");
    fix_compose_new(&plain, &order, &body);
    cr_expect_str_eq(shown(&body), "11=T1A|1=ACC|21=1|55=EUR/USD|54=2|60=19700105-01:02:00.003|38=1000|40=1|59=3|");
    order.op = TW_OP_PLACE;
    fix_compose_new(&plain, &order, &body);
    cr_expect_str_eq(shown(&body), "11=T1A|1=ACC|21=1|55=EUR/USD|54=2|60=19700105-01:02:00.003|38=1000|40=2|44=1.1|59=1|");
    order.type = TW_ORDER_STOP;
    order.expires_wall_ns = AT(TUE, 0, 0);
    fix_compose_new(&ct, &order, &body);
    cr_expect_str_eq(shown(&body), "11=T1A|55=1|54=2|60=19700105-01:02:00.003|38=1000|40=3|99=1.1|59=6|"
                                   "126=19700106-00:00:00.000|494=T1A|");
}

Test(fix_rules, changes_name_what_they_change)
{
    struct fix_order target = {.current_id = "T1A", .order_id = "V7", .symbol = "1", .side = TW_BUY, .type = TW_ORDER_LIMIT,
                               .quantity = TW_DECIMAL_ONE * 500, .price = TW_DECIMAL_ONE, .stop_price = TW_DECIMAL_UNSET};
    struct fix_terms ct = terms_of("ct", "");
    struct tw_order change = order_of(TW_OP_MODIFY_ORDER);
    struct fix_body body;
    change.expires_wall_ns = -1;

    fix_compose_cancel(&ct, &target, "T1C", &body);
    cr_expect_str_eq(shown(&body), "11=T1C|41=T1A|37=V7|55=1|54=1|60=19700105-01:02:00.003|38=500|");
    fix_compose_replace(&ct, &target, &change, &body);
    cr_expect_str_eq(shown(&body), "11=T1A|41=T1A|37=V7|55=1|54=1|60=19700105-01:02:00.003|38=500|40=2|44=1.1|59=1|");
}

Test(fix_rules, a_separator_in_a_value_is_never_sent)
{
    struct fix_body body = {.n = 0};
    fix_put(&body, 58, "a\00138=9");

    cr_expect(body.is_full);
    cr_expect_eq(body.n, 0);
}

/* ---- What a refusal means. ---- */

Test(fix_rules, a_duplicate_is_asked_for_and_never_taken_as_a_refusal)
{
    const struct fix_profile *names[] = {fix_profile_find("generic44"), fix_profile_find("ctrader")};
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(fix_rule_find(&names[i]->refused, 6, "")->outcome, TW_OUTCOME_AMBIGUOUS);
        cr_expect_eq(fix_rule_find(&names[i]->refused, 77, "?")->outcome, TW_OUTCOME_REJECTED, "39=8 is a refusal");
        cr_expect_null(fix_rule_find(&names[i]->cancel_refused, 99, "?"), "what is not listed is asked for");
    }
    cr_expect_eq(fix_rule_find(&names[1]->refused, 0, "position_not_found: 5")->outcome, TW_OUTCOME_NOT_FOUND);
}
