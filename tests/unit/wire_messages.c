/* Decoding, text, refusals and the built-in descriptors: pure functions. */
#include "details.h"
#include "text.h"

#include <tradewake/base/arena.h>
#include <tradewake/base/clock.h>
#include <tradewake/base/limits.h>
#include <tradewake/wire/descriptors.h>
#include <tradewake/wire/message.h>

#include <tradewake/v1/events.pb-c.h>
#include <tradewake/v1/followers.pb-c.h>

#include <grpc/status.h>

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON(name) TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_##name

struct text_case {
    const char *name, *bytes;
    size_t size, first_bad; /* first_bad == size: it is text */
    enum text_fault fault;
};

#define ROW(name, literal, at, fault)                                                              \
    {                                                                                              \
        name, literal, sizeof(literal) - 1, at, TEXT_##fault                                       \
    }

static const struct text_case text_cases[] = {
    ROW("empty", "", 0, FINE),
    ROW("ascii", "EURUSD.vip", 10, FINE),
    ROW("umlaut, euro, emoji", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9, FINE),
    ROW("the last code point", "\xf4\x8f\xbf\xbf", 4, FINE),
    ROW("NUL inside", "a\0b", 1, CONTROL),
    ROW("newline", "ab\n", 2, CONTROL),
    ROW("tab", "\t", 0, CONTROL),
    ROW("DEL", "a\x7f", 1, CONTROL),
    ROW("C1 control", "a\xc2\x85", 1, CONTROL),
    ROW("no-break space is text", "\xc2\xa0", 2, FINE),
    ROW("continuation alone", "a\x80", 1, NOT_UTF8),
    ROW("overlong slash", "\xc0\xaf", 0, NOT_UTF8),
    ROW("overlong of three", "\xe0\x80\xaf", 0, NOT_UTF8),
    ROW("overlong of four", "\xf0\x80\x80\xaf", 0, NOT_UTF8),
    ROW("surrogate", "\xed\xa0\x80", 0, NOT_UTF8),
    ROW("above the last", "\xf4\x90\x80\x80", 0, NOT_UTF8),
    ROW("five bytes", "\xf8\x88\x80\x80\x80", 0, NOT_UTF8),
    ROW("cut character", "ab\xe2\x82", 2, NOT_UTF8),
    ROW("lead and ascii", "\xc3(", 0, NOT_UTF8),
    ROW("ff", "a\xff", 1, NOT_UTF8),
};

Test(wire_messages, text_is_utf8_without_control_characters)
{
    for (size_t i = 0; i < sizeof text_cases / sizeof text_cases[0]; i++) {
        const struct text_case *c = &text_cases[i];
        enum text_fault fault;
        size_t at = wire_text_check(c->bytes, c->size, &fault);
        cr_expect_eq(at, c->first_bad, "%s: stopped at %zu", c->name, at);
        cr_expect_eq(fault, c->fault, "%s: fault %d", c->name, (int)fault);
        cr_expect_eq(tw_text_is_valid(c->bytes, c->size), c->fault == TEXT_FINE, "%s", c->name);
    }
}

Test(wire_messages, cleaning_leaves_text)
{
    static const char *const rows[][2] = {
        {"fine \xc3\xa4", "fine \xc3\xa4"},
        {"a\x01"
         "b\nc",
         "a?b?c"},
        {"cut \xe2\x82", "cut "},
        {"bad \xff end", "bad ? end"},
        {"\xc0\xaf", "??"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[32];
        snprintf(text, sizeof text, "%s", rows[i][0]);
        wire_text_clean(text);
        cr_expect_str_eq(text, rows[i][1]);
    }
}

/* ---- Paths of what is wrong. ---- */

static struct tw_arena arena;

static void arena_start(void)
{
    tw_arena_init(&arena, 64u * 1024u * 1024u);
}

static void arena_end(void)
{
    tw_arena_clear(&arena);
}

TestSuite(wire_decode, .init = arena_start, .fini = arena_end);

static bool decode_packed(const ProtobufCMessage *message, ProtobufCMessage **ret_message,
                          struct tw_refusal *ret_refusal)
{
    uint8_t *bytes = malloc(protobuf_c_message_get_packed_size(message) + 1);
    size_t size = protobuf_c_message_pack(message, bytes);
    bool is_fine =
        tw_message_decode(message->descriptor, bytes, size, &arena, ret_message, ret_refusal);
    free(bytes);
    return is_fine;
}

static void expect_field(const ProtobufCMessage *message, const char *field)
{
    ProtobufCMessage *decoded = NULL;
    struct tw_refusal refusal = {0};
    cr_expect_not(decode_packed(message, &decoded, &refusal), "%s", field);
    cr_expect_eq(refusal.reason, REASON(INVALID_FIELD), "%s", field);
    cr_expect_str_eq(refusal.field, field);
    cr_expect_not_null(decoded, "%s", field);
}

#define BAD  ((char[]){"E\x01U"})
#define GOOD ((char[]){"good"})

Test(wire_decode, the_path_names_fields_of_messages_oneofs_lists_and_maps)
{
    Tradewake__V1__OpenPosition open;
    tradewake__v1__open_position__init(&open);
    open.symbol = BAD;
    Tradewake__V1__TradeEvent event;
    tradewake__v1__trade_event__init(&event);
    event.action_case = TRADEWAKE__V1__TRADE_EVENT__ACTION_OPEN;
    event.open = &open;
    Tradewake__V1__SubmitEventRequest submit;
    tradewake__v1__submit_event_request__init(&submit);
    submit.event = &event;
    expect_field(&submit.base, "event.open.symbol");

    Tradewake__V1__OpenPosition first;
    tradewake__v1__open_position__init(&first);
    Tradewake__V1__SyncMasterRequest sync;
    tradewake__v1__sync_master_request__init(&sync);
    sync.positions = (Tradewake__V1__OpenPosition *[]){&first, &open};
    sync.n_positions = 2;
    expect_field(&sync.base, "positions[1].symbol");

    Tradewake__V1__CopyRules rules;
    tradewake__v1__copy_rules__init(&rules);
    rules.symbols_included = (char *[]){GOOD, GOOD, BAD};
    rules.n_symbols_included = 3;
    expect_field(&rules.base, "symbols_included[2]");
}

Test(wire_decode, the_path_names_the_key_of_a_map_entry)
{
    Tradewake__V1__Follower__AdapterConfigEntry entries[2];
    tradewake__v1__follower__adapter_config_entry__init(&entries[0]);
    tradewake__v1__follower__adapter_config_entry__init(&entries[1]);
    Tradewake__V1__Follower follower;
    tradewake__v1__follower__init(&follower);
    follower.adapter_config =
        (Tradewake__V1__Follower__AdapterConfigEntry *[]){&entries[0], &entries[1]};
    follower.n_adapter_config = 2;
    Tradewake__V1__CreateFollowerRequest create;
    tradewake__v1__create_follower_request__init(&create);
    create.follower = &follower;

    entries[1].key = (char[]){"latency"};
    entries[1].value = BAD;
    expect_field(&create.base, "follower.adapter_config[\"latency\"]");

    entries[1].key = BAD;
    entries[1].value = GOOD;
    expect_field(&create.base, "follower.adapter_config[1].key");

    entries[1].key = (char[]){"with \"quotes\""};
    entries[1].value = BAD;
    expect_field(&create.base, "follower.adapter_config[1].value");
}

Test(wire_decode, what_is_no_text_is_emptied_and_the_rest_stays)
{
    Tradewake__V1__TradeEvent event;
    tradewake__v1__trade_event__init(&event);
    event.event_id = (char[]){"e\xff"};
    event.master_id = (char[]){"M1"};
    ProtobufCMessage *decoded = NULL;
    struct tw_refusal refusal = {0};

    cr_expect_not(decode_packed(&event.base, &decoded, &refusal));

    const Tradewake__V1__TradeEvent *rest = (const void *)decoded;
    cr_expect_str_eq(rest->event_id, "");
    cr_expect_str_eq(rest->master_id, "M1");
    cr_expect_str_eq(refusal.field, "event_id");
}

Test(wire_decode, fields_the_type_does_not_know_are_dropped)
{
    static const uint8_t bytes[] = {0x0a, 1, 'e', 0xfa, 0x06, 2, 'x', 'y'}; /* 1 and 111 */
    ProtobufCMessage *decoded = NULL;
    struct tw_refusal refusal = {0};

    cr_assert(tw_message_decode(&tradewake__v1__trade_event__descriptor, bytes, sizeof bytes,
                                &arena, &decoded, &refusal));

    cr_expect_eq(decoded->n_unknown_fields, 0);
    cr_expect_eq(protobuf_c_message_get_packed_size(decoded), 3);
}

/* ---- Hostile messages. ---- */

static void expect_cheap(const char *name, const ProtobufCMessageDescriptor *type,
                         const uint8_t *bytes, size_t size)
{
    ProtobufCMessage *decoded = NULL;
    struct tw_refusal refusal = {0};
    tw_arena_reset(&arena);
    bool is_fine = tw_message_decode(type, bytes, size, &arena, &decoded, &refusal);
    cr_expect_not(is_fine, "%s was taken", name);
    cr_expect_eq(refusal.reason, REASON(TOO_LARGE), "%s: %s", name,
                 tw_refusal_name(refusal.reason));
    cr_expect_leq(arena.used_bytes, tw_message_decode_bytes_max(size) + 4096, "%s used %zu bytes",
                  name, arena.used_bytes);
}

Test(wire_decode, messages_that_grow_when_decoded_are_stopped_at_the_cap)
{
    static uint8_t bytes[TW_REQUEST_BYTES_MAX];

    for (size_t i = 0; i + 1 < sizeof bytes; i += 2) { /* empty positions of a snapshot */
        bytes[i] = 5 << 3 | 2;
        bytes[i + 1] = 0;
    }
    expect_cheap("empty positions", &tradewake__v1__sync_master_request__descriptor, bytes,
                 sizeof bytes);

    for (size_t i = 0; i + 1 < sizeof bytes; i += 2) { /* varints nobody asked for */
        bytes[i] = 15 << 3;
        bytes[i + 1] = 1;
    }
    expect_cheap("unknown fields", &tradewake__v1__sync_master_request__descriptor, bytes,
                 sizeof bytes);
    cr_expect_leq(tw_message_decode_bytes_max(sizeof bytes), 4u * 1024u * 1024u);
}

Test(wire_decode, an_honest_snapshot_of_many_positions_fits)
{
    enum { POSITIONS = 2000 };
    static Tradewake__V1__OpenPosition positions[POSITIONS];
    static Tradewake__V1__OpenPosition *list[POSITIONS];
    static char ids[POSITIONS][8], symbol[] = "EURUSD", volume[] = "0.10";
    Tradewake__V1__SyncMasterRequest sync;
    tradewake__v1__sync_master_request__init(&sync);
    for (size_t i = 0; i < POSITIONS; i++) {
        tradewake__v1__open_position__init(&positions[i]);
        snprintf(ids[i], sizeof ids[i], "%zu", i);
        positions[i].position_id = ids[i];
        positions[i].symbol = symbol;
        positions[i].side = TRADEWAKE__V1__SIDE__SIDE_BUY;
        positions[i].volume = volume;
        list[i] = &positions[i];
    }
    sync.positions = list;
    sync.n_positions = POSITIONS;
    ProtobufCMessage *decoded = NULL;
    struct tw_refusal refusal = {0};

    cr_expect(decode_packed(&sync.base, &decoded, &refusal), "%s", refusal.text);
    cr_expect_eq(((Tradewake__V1__SyncMasterRequest *)decoded)->n_positions, POSITIONS);
}

/* ---- Refusals. ---- */

Test(wire_messages, every_reason_has_its_code)
{
    static const struct {
        Tradewake__V1__ErrorReason reason;
        const char *name;
        int32_t code;
    } rows[] = {
        {REASON(INVALID_FIELD), "INVALID_FIELD", GRPC_STATUS_INVALID_ARGUMENT},
        {REASON(SCOPE_REQUIRED), "SCOPE_REQUIRED", GRPC_STATUS_INVALID_ARGUMENT},
        {REASON(MASK_REQUIRED), "MASK_REQUIRED", GRPC_STATUS_INVALID_ARGUMENT},
        {REASON(INCOMPLETE_SNAPSHOT), "INCOMPLETE_SNAPSHOT", GRPC_STATUS_INVALID_ARGUMENT},
        {REASON(UNDECODABLE), "UNDECODABLE", GRPC_STATUS_INVALID_ARGUMENT},
        {REASON(EVENT_ID_REUSED), "EVENT_ID_REUSED", GRPC_STATUS_ALREADY_EXISTS},
        {REASON(ALREADY_EXISTS), "ALREADY_EXISTS", GRPC_STATUS_ALREADY_EXISTS},
        {REASON(NOT_FOUND), "NOT_FOUND", GRPC_STATUS_NOT_FOUND},
        {REASON(MASTER_NOT_FOUND), "MASTER_NOT_FOUND", GRPC_STATUS_NOT_FOUND},
        {REASON(POSITION_EXISTS), "POSITION_EXISTS", GRPC_STATUS_FAILED_PRECONDITION},
        {REASON(STALE_SNAPSHOT), "STALE_SNAPSHOT", GRPC_STATUS_FAILED_PRECONDITION},
        {REASON(FOLLOW_CYCLE), "FOLLOW_CYCLE", GRPC_STATUS_FAILED_PRECONDITION},
        {REASON(HAS_OPEN_COPIES), "HAS_OPEN_COPIES", GRPC_STATUS_FAILED_PRECONDITION},
        {REASON(EXECUTOR_CAPACITY), "EXECUTOR_CAPACITY", GRPC_STATUS_FAILED_PRECONDITION},
        {REASON(RESUME_OTHER_JOURNAL), "RESUME_OTHER_JOURNAL", GRPC_STATUS_FAILED_PRECONDITION},
        {REASON(RESUME_TOO_OLD), "RESUME_TOO_OLD", GRPC_STATUS_OUT_OF_RANGE},
        {REASON(EVENT_TOO_OLD), "EVENT_TOO_OLD", GRPC_STATUS_FAILED_PRECONDITION},
        {REASON(COPY_NOT_UNKNOWN), "COPY_NOT_UNKNOWN", GRPC_STATUS_FAILED_PRECONDITION},
        {REASON(ETAG_MISMATCH), "ETAG_MISMATCH", GRPC_STATUS_ABORTED},
        {REASON(UNAUTHENTICATED), "UNAUTHENTICATED", GRPC_STATUS_UNAUTHENTICATED},
        {REASON(PERMISSION_DENIED), "PERMISSION_DENIED", GRPC_STATUS_PERMISSION_DENIED},
        {REASON(OVERLOADED), "OVERLOADED", GRPC_STATUS_RESOURCE_EXHAUSTED},
        {REASON(TOO_MANY_STREAMS), "TOO_MANY_STREAMS", GRPC_STATUS_RESOURCE_EXHAUSTED},
        {REASON(SUBSCRIBER_TOO_SLOW), "SUBSCRIBER_TOO_SLOW", GRPC_STATUS_RESOURCE_EXHAUSTED},
        {REASON(TOO_LARGE), "TOO_LARGE", GRPC_STATUS_RESOURCE_EXHAUSTED},
        {REASON(SHUTTING_DOWN), "SHUTTING_DOWN", GRPC_STATUS_UNAVAILABLE},
        {REASON(HISTORY_BEHIND), "HISTORY_BEHIND", GRPC_STATUS_UNAVAILABLE},
        {REASON(BROKER_UNAVAILABLE), "BROKER_UNAVAILABLE", GRPC_STATUS_UNAVAILABLE},
        {REASON(UNIMPLEMENTED), "UNIMPLEMENTED", GRPC_STATUS_UNIMPLEMENTED},
        {REASON(INTERNAL), "INTERNAL", GRPC_STATUS_INTERNAL},
    };
    size_t n_rows = sizeof rows / sizeof rows[0];
    cr_expect_eq(n_rows + 1, tradewake__v1__error_reason__descriptor.n_values,
                 "a reason of errors.proto has no row here");
    for (size_t i = 0; i < n_rows; i++) {
        cr_expect_eq(tw_refusal_code(rows[i].reason), rows[i].code, "%s", rows[i].name);
        cr_expect_str_eq(tw_refusal_name(rows[i].reason), rows[i].name);
    }
    cr_expect_eq(tw_refusal_code((Tradewake__V1__ErrorReason)999), GRPC_STATUS_INTERNAL);
    cr_expect_str_eq(tw_grpc_code_name(GRPC_STATUS_ABORTED), "ABORTED");
    cr_expect_str_eq(tw_grpc_code_name(17), "CODE_17");
}

static void expect_round_trip(const struct tw_refusal *refusal)
{
    char message[WIRE_MESSAGE_BYTES];
    uint8_t bytes[TW_ERROR_DETAILS_BYTES_MAX];
    struct tw_refusal again = {0};
    tw_refusal_message(refusal, message, sizeof message);
    size_t size = wire_details_pack(refusal, message, bytes);

    cr_assert(wire_details_unpack(bytes, size, &again));
    cr_expect_eq(again.reason, refusal->reason);
    cr_expect_str_eq(again.field, refusal->field);
    cr_expect_str_eq(again.text, refusal->text);
    cr_expect_eq(again.retry_after_ns, refusal->retry_after_ns);
    cr_assert_eq(again.n_facts, refusal->n_facts);
    for (uint32_t i = 0; i < again.n_facts; i++) {
        cr_expect_str_eq(again.facts[i].key, refusal->facts[i].key);
        cr_expect_str_eq(again.facts[i].value, refusal->facts[i].value);
    }
}

Test(wire_messages, a_refusal_survives_its_details_from_shortest_to_longest)
{
    struct tw_refusal refusal;
    tw_refuse(&refusal, REASON(INTERNAL), NULL, "x");
    expect_round_trip(&refusal);

    char longest[2 * TW_REFUSAL_TEXT_BYTES];
    memset(longest, 'm', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    tw_refuse(&refusal, REASON(RESUME_OTHER_JOURNAL), longest, "%s", longest);
    refusal.retry_after_ns = 3600 * TW_NS_PER_S + 1;
    for (int i = 0; i < 6; i++) /* the fifth and sixth are dropped */
        tw_refusal_fact_add(&refusal, longest, "%s", longest);
    cr_expect_eq(refusal.n_facts, TW_REFUSAL_FACTS_MAX);
    cr_expect_eq(strlen(refusal.text), TW_REFUSAL_TEXT_BYTES - 1);
    expect_round_trip(&refusal);
}

Test(wire_messages, a_refusal_is_text_whatever_went_into_it)
{
    struct tw_refusal refusal;
    tw_refuse(&refusal, REASON(INVALID_FIELD), "a\x01", "found \"%s\"", "\xff\n");
    cr_expect_str_eq(refusal.field, "a?");
    cr_expect_str_eq(refusal.text, "found \"??\"");
}

Test(wire_messages, details_that_are_not_ours_are_none)
{
    struct tw_refusal refusal = {0};
    cr_expect_not(wire_details_unpack((const uint8_t *)"\xff\xff", 2, &refusal));
    cr_expect_not(wire_details_unpack((const uint8_t *)"", 0, &refusal));
    cr_expect_eq(refusal.reason, REASON(UNSPECIFIED));
}

Test(wire_messages, what_another_server_sends_is_made_sane)
{
    static const uint8_t bytes[] = /* found by fuzz_wire_details; a delay of -1 ns, controls */
        "\x08\x09\x12\x02"
        "a\x01"
        "\x1a\x3c\x0a\x28"
        "type.googleapis.com/google.rpc.ErrorInfo"
        "\x12\x10"
        "\x0a\x03"
        "NEW"
        "\x12\x09"
        "tradewake"
        "\x1a\x39\x0a\x28"
        "type.googleapis.com/google.rpc.RetryInfo"
        "\x12\x0d\x0a\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    struct tw_refusal refusal = {0};

    cr_assert(wire_details_unpack(bytes, sizeof bytes - 1, &refusal));

    cr_expect_eq(refusal.reason, REASON(INTERNAL), "a reason this program does not know");
    cr_expect_str_eq(refusal.text, "a?");
    cr_expect_eq(refusal.retry_after_ns, 0);
}

/* ---- Descriptors. ---- */

Test(wire_messages, the_descriptors_know_which_methods_stream)
{
    static const struct {
        const char *path;
        bool client_streams, server_streams;
    } rows[] = {
        {"/tradewake.v1.EventService/SubmitEvent", false, false},
        {"/tradewake.v1.EventService/StreamEvents", true, true},
        {"/tradewake.v1.MetricsService/WatchOwnTime", false, true},
        {"/grpc.health.v1.Health/Watch", false, true},
        {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", true, true},
        {"/tradewake.adapter.v1.BrokerAdapterService/Execute", false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct tw_method_type *type = tw_method_type_find(rows[i].path);
        cr_assert_not_null(type, "%s", rows[i].path);
        cr_expect_eq(type->client_streams, rows[i].client_streams, "%s", rows[i].path);
        cr_expect_eq(type->server_streams, rows[i].server_streams, "%s", rows[i].path);
    }
    cr_expect_null(tw_method_type_find("/tradewake.v1.EventService/Nothing"));
}

Test(wire_messages, every_import_of_every_file_is_there_and_comes_before_it)
{
    cr_assert_gt(tw_descriptor_files_count(), 10);
    for (uint32_t i = 0; i < tw_descriptor_files_count(); i++) {
        const struct tw_descriptor_file *file = tw_descriptor_file_at(i);
        cr_expect_eq(tw_descriptor_file_find(file->name), file);
        for (size_t k = 0; k < file->parsed->n_dependency; k++) {
            const struct tw_descriptor_file *import =
                tw_descriptor_file_find(file->parsed->dependency[k]);
            cr_assert_not_null(import, "%s imports %s", file->name, file->parsed->dependency[k]);
            cr_expect_lt(import, file);
        }
    }
}
