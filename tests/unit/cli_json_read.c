/* cli_json_read.c - a snapshot in JSON becomes a request, or a line and column that are wrong. */
#include "json_read.h"

#include <tradewake/cli/fields.h>

#include <tradewake/v1/events.pb-c.h>

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

static Tradewake__V1__SyncMasterRequest *request_new(struct tw_arena *arena)
{
    tw_arena_init(arena, 1 << 20);
    ProtobufCMessage *message =
        tw_fields_new(&tradewake__v1__sync_master_request__descriptor, arena);
    cr_assert_not_null(message);
    return (Tradewake__V1__SyncMasterRequest *)(void *)message;
}

Test(cli_json_read, a_snapshot_is_read_whole)
{
    static const char text[] =
        "{ \"master_id\": \"M1\", \"taken_at\": \"2026-11-30T09:48:36Z\", \"sequence\": 42,\n"
        "  \"positions\": [ {\"position_id\": \"1\", \"symbol\": \"EURUSD\", \"side\": "
        "\"SIDE_BUY\",\n"
        "                   \"volume\": \"0.10\", \"magic\": \"-9223372036854775808\", "
        "\"increase\": true},\n"
        "                 {\"position_id\": \"\\u00e9\\n2\", \"side\": \"sell\", \"volume\": "
        "0.5},\n"
        "                 {} ],\n"
        "  \"orders\": [], \"dry_run\": true,\n"
        "  \"master_account\": {\"currency\": \"USD\", \"balance\": \"1000\", \"leverage\": 30} "
        "}\n";
    struct tw_arena arena;
    struct tw_error error;
    Tradewake__V1__SyncMasterRequest *request = request_new(&arena);

    cr_assert_eq(json_read(text, &request->base, &arena, &error), TW_OK, "%s", error.text);

    cr_expect_str_eq(request->master_id, "M1");
    cr_expect_eq(request->taken_at->seconds, 1796032116);
    cr_expect_eq(request->sequence, 42u);
    cr_expect(request->dry_run);
    cr_expect_eq(request->n_orders, 0u);
    cr_expect_str_eq(request->master_account->balance, "1000");
    cr_expect_eq(request->master_account->leverage, 30u);
    cr_assert_eq(request->n_positions, 3u);
    cr_expect_eq(request->positions[0]->side, TRADEWAKE__V1__SIDE__SIDE_BUY);
    cr_expect_eq(request->positions[0]->magic, INT64_MIN);
    cr_expect(request->positions[0]->increase);
    cr_expect_str_eq(request->positions[1]->position_id, "\xc3\xa9\n2");
    cr_expect_str_eq(request->positions[1]->volume, "0.5");
    cr_expect_str_eq(request->positions[2]->position_id, "");
    tw_arena_clear(&arena);
}

Test(cli_json_read, many_entries_stay_in_their_order)
{
    static char text[64 * 1024];
    size_t used = (size_t)snprintf(text, sizeof text, "{\"positions\":[");
    enum { MANY = 1000 };
    for (int i = 0; i < MANY; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s{\"position_id\":\"p%d\"}",
                                 i > 0 ? "," : "", i);
    snprintf(text + used, sizeof text - used, "]}");
    struct tw_arena arena;
    struct tw_error error;
    Tradewake__V1__SyncMasterRequest *request = request_new(&arena);

    cr_assert_eq(json_read(text, &request->base, &arena, &error), TW_OK, "%s", error.text);

    cr_assert_eq(request->n_positions, MANY);
    cr_expect_str_eq(request->positions[0]->position_id, "p0");
    cr_expect_str_eq(request->positions[511]->position_id, "p511");
    cr_expect_str_eq(request->positions[MANY - 1]->position_id, "p999");
    tw_arena_clear(&arena);
}

/* clang-format off */
static const struct {
    const char *text, *error; /* the beginning of the words */
} wrong[] = {
    {"", "1:1: the text ends, expected an object"},
    {"[]", "1:1: found \"[]\", expected an object"},
    {"{", "1:2: the text ends, expected a text in quotes"},
    {"{\"master_id\" \"M1\"}", "1:14: found \"\"M1\"}\", expected a colon"},
    {"{\"master_id\": \"M1\"", "1:19: the text ends, expected a comma or the end of the object"},
    {"{\"master_id\": \"M1\"} x", "1:21: found \"x\", expected the end of the text"},
    {"{\"master\": \"M1\"}", "1:2: found \"\"master\": \"M1\"}\", expected a field of SyncMasterRequest"},
    {"{\n \"positions\": {}}", "2:15: found \"{}}\", expected a list"},
    {"{\"positions\": [{\"side\": \"up\"}]}", "1:25: found \"\"up\"}]}\", expected side: found \"up\", expected one of"},
    {"{\"positions\": [{\"side\": 7}]}", "1:25: found \"7}]}\""},
    {"{\"positions\": [{}", "1:18: the text ends, expected a comma or the end of the list"},
    {"{\"positions\": [{},]}", "1:19: found \"]}\", expected an object"},
    {"{\"sequence\": -1}", "1:14: found \"-1}\""},
    {"{\"master_id\": \"a\nb\"}", "1:17: found \"\nb\"}\", expected the end of a text"},
    {"{\"master_id\": \"\\x\"}", "1:17: found \"x\"}\", expected an escape"},
    {"{\"master_id\": \"\\u12\"}", "1:17: found \"u12\"}\", expected an escape"},
    {"{\"master_id\": \"\\u0000\"}", "1:17: found \"u0000\"}\", expected an escape"},
    {"{\"master_id\": \"\\ud800\"}", "1:17: found \"ud800\"}\", expected an escape"},
    {"{\"dry_run\": maybe}", "1:13: found \"maybe}\""},
    {"{\"taken_at\": \"yesterday\"}", "1:14: found \"\"yesterday\"}\""},
    {"{\"master_id\": }", "1:15: found \"}\", expected a value"},
    {"\xff", "1:1: found"},
};
/* clang-format on */

Test(cli_json_read, what_is_wrong_is_told_with_its_place)
{
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct tw_arena arena;
        struct tw_error error = {0};
        Tradewake__V1__SyncMasterRequest *request = request_new(&arena);
        tw_status status = json_read(wrong[i].text, &request->base, &arena, &error);
        cr_expect_eq(status, TW_INVALID, "%s", wrong[i].text);
        cr_expect_eq(strncmp(error.text, wrong[i].error, strlen(wrong[i].error)), 0, "%s: \"%s\"",
                     wrong[i].text, error.text);
        tw_arena_clear(&arena);
    }
}

Test(cli_json_read, a_text_that_is_cut_anywhere_is_refused)
{
    static const char whole[] =
        "{\"positions\":[{\"position_id\":\"1\",\"increase\":true}],\"sequence\":7}";
    for (size_t length = 0; length + 1 < sizeof whole; length++) {
        char text[sizeof whole] = "";
        memcpy(text, whole, length);
        struct tw_arena arena;
        struct tw_error error;
        Tradewake__V1__SyncMasterRequest *request = request_new(&arena);
        cr_expect_neq(json_read(text, &request->base, &arena, &error), TW_OK, "%s", text);
        tw_arena_clear(&arena);
    }
}
