/* cli_fields.c - messages from text and to text, by their descriptors: what flags set, what -o json
 * and tables show. */
#include <tradewake/cli/fields.h>
#include <tradewake/cli/json.h>

#include <tradewake/v1/copies.pb-c.h>
#include <tradewake/v1/events.pb-c.h>
#include <tradewake/v1/followers.pb-c.h>
#include <tradewake/v1/metrics.pb-c.h>

#include <google/protobuf/duration.pb-c.h>
#include <google/protobuf/timestamp.pb-c.h>

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tw_arena arena;

static void setup(void)
{
    tw_arena_init(&arena, 1 << 20);
}

static void teardown(void)
{
    tw_arena_clear(&arena);
}

TestSuite(cli_fields, .init = setup, .fini = teardown);

static void expect_json(const ProtobufCMessage *message, bool is_pretty, const char *expected)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    struct tw_json json = {.out = memory, .is_pretty = is_pretty};
    tw_json_message(&json, message);
    fclose(memory);
    cr_expect_str_eq(text, expected, "%s", text);
    free(text);
}

static ProtobufCMessage *made(const ProtobufCMessageDescriptor *type,
                              const char *const (*fields)[2], size_t n)
{
    ProtobufCMessage *message = tw_fields_new(type, &arena);
    for (size_t i = 0; i < n; i++) {
        struct tw_error error = {0};
        cr_assert_eq(tw_fields_set(message, fields[i][0], fields[i][1], &arena, &error), TW_OK,
                     "%s", error.text);
    }
    return message;
}

#define MADE(type, ...)                                                                            \
    made(&tradewake__v1__##type##__descriptor, (const char *const[][2]){__VA_ARGS__},              \
         sizeof((const char *const[][2]){__VA_ARGS__}) / sizeof(const char *[2]))

Test(cli_fields, a_message_is_written_with_every_field_in_the_names_of_the_contract)
{
    ProtobufCMessage *request =
        MADE(submit_event_request, {"event.event_id", "e\"1"}, {"event.close.position_id", "7"},
             {"event.close.volume", "0.10"}, {"event.sequence", "9007199254740991"},
             {"event.observed_at", "2031-02-03T04:05:06.789Z"}, {"wait_for", "done"});

    expect_json(
        request, false,
        "{\"event\":{\"event_id\":\"e\\\"1\",\"master_id\":\"\",\"sequence\":9007199254740991,"
        "\"observed_at\":\"2031-02-03T04:05:06.789Z\",\"close\":{\"position_id\":\"7\",\"volume\":"
        "\"0.10\","
        "\"remaining_volume\":\"\",\"new_position_id\":\"\",\"price\":\"\"}},\"wait_for\":\"WAIT_"
        "FOR_DONE\","
        "\"view\":\"COPY_VIEW_UNSPECIFIED\"}\n");
}

Test(cli_fields, lists_maps_and_unknown_enum_values_have_their_form)
{
    Tradewake__V1__Follower *follower = (Tradewake__V1__Follower *)(void *)MADE(
        follower, {"follower_id", "F1"}, {"adapter_config", "latency=constant:1ms"},
        {"adapter_config", "seed=a=b"}, {"symbol_map", "from_symbol=GOLD,to_symbol=XAUUSD"});
    follower->mode = (Tradewake__V1__FollowerMode)99; /* of a newer server */
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    struct tw_json json = {.out = memory};

    tw_json_message(&json, &follower->base);
    fclose(memory);

    cr_expect_not_null(strstr(text, "\"mode\":99,"), "%s", text);
    cr_expect_not_null(
        strstr(text, "\"adapter_config\":{\"latency\":\"constant:1ms\",\"seed\":\"a=b\"}"), "%s",
        text);
    cr_expect_not_null(
        strstr(text, "\"symbol_map\":[{\"from_symbol\":\"GOLD\",\"to_symbol\":\"XAUUSD\"}]"), "%s",
        text);
    cr_expect_not_null(strstr(text, "\"instruments\":[]"), "%s", text);
    cr_expect_null(strstr(text, "\"account\""), "an absent message is left out: %s", text);
    free(text);
}

Test(cli_fields, numbers_of_histograms_and_pretty_printing)
{
    uint64_t bounds[] = {1, 18446744073709551615u};
    Tradewake__V1__Histogram histogram = TRADEWAKE__V1__HISTOGRAM__INIT;
    histogram.count = 3;
    histogram.n_bucket_upper_ns = 2;
    histogram.bucket_upper_ns = bounds;

    expect_json(&histogram.base, true,
                "{\n  \"count\": 3,\n  \"min_ns\": 0,\n  \"max_ns\": 0,\n  \"sum_ns\": 0,\n  "
                "\"p50_ns\": 0,\n  \"p90_ns\": 0,\n"
                "  \"p95_ns\": 0,\n  \"p99_ns\": 0,\n  \"p999_ns\": 0,\n  \"bucket_upper_ns\": [\n "
                "   1,\n    18446744073709551615\n  ],\n"
                "  \"bucket_count\": []\n}\n");
}

Test(cli_fields, text_in_json_is_escaped_and_always_utf8)
{
    static const struct {
        const char *text, *expected;
    } rows[] = {
        {"a\"b\\c", "\"a\\\"b\\\\c\"\n"},
        {"tab\tnl\n\x7f", "\"tab\\u0009nl\\u000a\\u007f\"\n"},
        {"\xc3\xa9\xf0\x9f\x98\x80", "\"\xc3\xa9\xf0\x9f\x98\x80\"\n"},
        {"cut \xe2\x82", "\"cut \\ufffd\\ufffd\"\n"},
        {"\xff\xc0\xaf", "\"\\ufffd\\ufffd\\ufffd\"\n"},
        {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"\n"}, /* half of a surrogate pair */
        {"\xe0\x80\x80", "\"\\ufffd\\ufffd\\ufffd\"\n"}, /* longer than it need be */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text = NULL;
        size_t size = 0;
        FILE *memory = open_memstream(&text, &size);
        struct tw_json json = {.out = memory};
        tw_json_text(&json, rows[i].text);
        fclose(memory);
        cr_expect_str_eq(text, rows[i].expected, "row %zu: %s", i, text);
        free(text);
    }
}

Test(cli_fields, times_and_durations)
{
    static const struct {
        int64_t seconds;
        int32_t nanos;
        const char *time, *duration;
    } rows[] = {
        {0, 0, "1970-01-01T00:00:00.000Z", "0s"},
        {1927875600, 120000000, "2031-02-03T09:00:00.120Z", "1927875600.12s"},
        {1927875600, 120300000, "2031-02-03T09:00:00.120300Z", "1927875600.1203s"},
        {5, 1, "1970-01-01T00:00:05.000000001Z", "5.000000001s"},
        {10, 0, "1970-01-01T00:00:10.000Z", "10s"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Google__Protobuf__Timestamp time = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
        Google__Protobuf__Duration span = GOOGLE__PROTOBUF__DURATION__INIT;
        char text[64];
        time.seconds = span.seconds = rows[i].seconds;
        time.nanos = span.nanos = rows[i].nanos;
        cr_expect(tw_fields_well_known(&time.base, text, sizeof text));
        cr_expect_str_eq(text, rows[i].time, "%s", text);
        cr_expect(tw_fields_well_known(&span.base, text, sizeof text));
        cr_expect_str_eq(text, rows[i].duration, "%s", text);
    }
}

/* clang-format off */
static const struct {
    const char *path, *text, *shown_path, *shown; /* set, then read back as a person sees it */
} good[] = {
    {"mode", "close-only", "mode", "CLOSE_ONLY"},
    {"mode", "FOLLOWER_MODE_PAUSED", "mode", "PAUSED"},
    {"mode", "Active", "mode", "ACTIVE"},
    {"max_parallel", "4294967295", "max_parallel", "4294967295"},
    {"risk.max_order_volume", "5", "risk.max_order_volume", "5"},
    {"risk.max_open_positions", "3", "risk.max_open_positions", "3"},
    {"risk.loss_limits", "measure=drawdown,max_fraction=0.05,close_positions=yes", "risk.loss_limits", "{...}"},
    {"connected", "true", "connected", "yes"},
    {"created_at", "2031-02-03T10:00:00+01:00", "created_at", "2031-02-03T09:00:00.000Z"},
    {"created_at", "2031-02-03T09:00:00.5Z", "created_at", "2031-02-03T09:00:00.500Z"},
    {"symbol_suffix", "", "symbol_suffix", "-"},
};
/* clang-format on */

Test(cli_fields, a_field_is_set_from_text)
{
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ProtobufCMessage *message = tw_fields_new(&tradewake__v1__follower__descriptor, &arena);
        struct tw_error error = {0};
        char text[128];

        cr_assert_eq(tw_fields_set(message, good[i].path, good[i].text, &arena, &error), TW_OK,
                     "%s", error.text);

        cr_expect_str_eq(
            tw_fields_text(message, good[i].shown_path, TW_FIELD_PLAIN, text, sizeof text),
            good[i].shown, "%s", text);
    }
}

Test(cli_fields, repeated_fields_take_more_with_every_call_and_commas)
{
    ProtobufCMessage *filter =
        MADE(copy_filter, {"states", "done,copy_state_unknown"}, {"states", "rejected"});
    ProtobufCMessage *rules = MADE(copy_rules, {"symbols_included", "EUR*,GOLD"}, {"sides", "buy"},
                                   {"magics_included", "first=-5,last=9"}, {"open_window", "1.5s"});
    char text[128];

    cr_expect_str_eq(tw_fields_text(filter, "states", TW_FIELD_PLAIN, text, sizeof text),
                     "DONE,UNKNOWN,REJECTED");
    cr_expect_str_eq(tw_fields_text(rules, "symbols_included", TW_FIELD_PLAIN, text, sizeof text),
                     "EUR*,GOLD");
    cr_expect_str_eq(tw_fields_text(rules, "open_window", TW_FIELD_PLAIN, text, sizeof text),
                     "1.5s");
    const Tradewake__V1__CopyRules *set = (const void *)rules;
    cr_expect_eq(set->magics_included[0]->first, -5);
}

/* clang-format off */
static const struct {
    const char *path, *text, *expected;
} bad[] = {
    {"mode", "closed-only", "mode: found \"closed-only\"; did you mean CLOSE_ONLY?"},
    {"mode", "zzz", "mode: found \"zzz\", expected one of ACTIVE, MONITOR, CLOSE_ONLY, PAUSED"},
    {"moed", "x", "moed: Follower has no field \"moed\"; did you mean mode?"},
    {"risk.nothing", "x", "risk.nothing: RiskLimits has no field \"nothing\""},
    {"mode.x", "x", "mode.x: mode has no fields of its own"},
    {"max_parallel", "-1", "max_parallel: found \"-1\", expected a whole number from 0 to 4294967295"},
    {"max_parallel", "4294967296", "max_parallel: found \"4294967296\""},
    {"max_parallel", "4x", "max_parallel: found \"4x\""},
    {"connected", "maybe", "connected: found \"maybe\", expected true or false"},
    {"created_at", "yesterday", "created_at: found \"yesterday\", expected a time"},
    {"created_at", "2031-02-03T09:00:00", "created_at: found"},
    {"adapter_config", "latency", "adapter_config: found \"latency\", expected KEY=VALUE"},
    {"symbol_map", "GOLD", "symbol_map: found \"GOLD\", expected NAME=VALUE,NAME=VALUE with the fields of SymbolMapping"},
    {"symbol_map", "from=GOLD", "symbol_map: SymbolMapping has no field \"from\""},
    {"risk", "x", "risk: cannot be given as text"},
};
/* clang-format on */

Test(cli_fields, what_is_wrong_names_the_path_what_was_found_and_what_was_expected)
{
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ProtobufCMessage *message = tw_fields_new(&tradewake__v1__follower__descriptor, &arena);
        struct tw_error error = {0};

        tw_status status = tw_fields_set(message, bad[i].path, bad[i].text, &arena, &error);

        cr_expect_eq(status, TW_INVALID, "%s=%s was accepted", bad[i].path, bad[i].text);
        cr_expect(strncmp(error.text, bad[i].expected, strlen(bad[i].expected)) == 0 ||
                      strstr(error.text, bad[i].expected) != NULL,
                  "%s=%s: \"%s\", expected \"%s\"", bad[i].path, bad[i].text, error.text,
                  bad[i].expected);
    }
}

Test(cli_fields, a_small_arena_is_an_error_and_not_a_crash)
{
    for (size_t cap = 0; cap < 2048; cap += 16) {
        struct tw_arena small;
        struct tw_error error = {0};
        tw_arena_init(&small, cap);
        ProtobufCMessage *message = tw_fields_new(&tradewake__v1__follower__descriptor, &small);
        if (message != NULL) {
            tw_status status =
                tw_fields_set(message, "adapter_config", "latency=constant:1ms", &small, &error);
            cr_expect(status == TW_OK || status == TW_NO_MEMORY, "cap %zu: %s", cap, error.text);
        }
        tw_arena_clear(&small);
    }
}

struct visited {
    char text[512];
};

static void visit(void *context, const char *path, const char *text)
{
    struct visited *visited = context;
    size_t used = strlen(visited->text);
    snprintf(visited->text + used, sizeof visited->text - used, "%s=%s;", path, text);
}

Test(cli_fields, a_message_is_shown_by_what_is_set_in_it)
{
    ProtobufCMessage *follower =
        MADE(follower, {"follower_id", "F1"}, {"mode", "paused"}, {"risk.max_order_volume", "5"},
             {"adapter_config", "a=b"}, {"symbol_map", "from_symbol=A,to_symbol=B"},
             {"connected", "yes"});
    struct visited visited = {0};

    tw_fields_each(follower, visit, &visited);

    cr_expect_str_eq(visited.text,
                     "follower_id=F1;mode=PAUSED;adapter_config=a=b;symbol_map[0].from_symbol=A;"
                     "symbol_map[0].to_symbol=B;"
                     "risk.max_order_volume=5;connected=yes;",
                     "%s", visited.text);
}

Test(cli_fields, times_in_tables_end_with_the_millisecond)
{
    Google__Protobuf__Timestamp time = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    Tradewake__V1__Copy copy = TRADEWAKE__V1__COPY__INIT;
    char text[64];
    copy.received_at = &time;
    time.seconds = 1927875600;
    time.nanos = 123456789;

    cr_expect_str_eq(tw_fields_text(&copy.base, "received_at", TW_FIELD_TIME, text, sizeof text),
                     "2031-02-03T09:00:00.123Z");
    time.nanos = 0;
    cr_expect_str_eq(tw_fields_text(&copy.base, "received_at", TW_FIELD_TIME, text, sizeof text),
                     "2031-02-03T09:00:00.000Z");
}

Test(cli_fields, nanoseconds_are_shown_as_milliseconds)
{
    Tradewake__V1__StageTimes times = TRADEWAKE__V1__STAGE_TIMES__INIT;
    Tradewake__V1__Copy copy = TRADEWAKE__V1__COPY__INIT;
    char text[64];
    copy.times = &times;
    times.called_ns = 1234567;

    cr_expect_str_eq(tw_fields_text(&copy.base, "times.called_ns", TW_FIELD_MS, text, sizeof text),
                     "1.234");
    times.called_ns = 0;
    cr_expect_str_eq(tw_fields_text(&copy.base, "times.called_ns", TW_FIELD_MS, text, sizeof text),
                     "-");
    copy.times = NULL;
    cr_expect_str_eq(tw_fields_text(&copy.base, "times.called_ns", TW_FIELD_MS, text, sizeof text),
                     "-");
}
