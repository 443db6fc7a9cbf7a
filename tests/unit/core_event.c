/* core_event.c - what an event says: every field that can be wrong, and when two are the same. */
#include "core_support.h"

#include <tradewake/base/arena.h>
#include <tradewake/core/event.h>

/* Events as people write them: "field=value" pairs, set by the descriptors' names. */
static char *text_of(struct tw_arena *arena, const char *text)
{
    char *copy = tw_arena_text(arena, text, strlen(text));
    cr_assert_not_null(copy);
    return copy;
}

static ProtobufCMessage *message_new(struct tw_arena *arena, const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *message = tw_arena_zero(arena, type->sizeof_message);
    cr_assert_not_null(message);
    protobuf_c_message_init(type, message);
    return message;
}

static void *field_at(ProtobufCMessage *message, unsigned offset)
{
    return (unsigned char *)message + offset;
}

/* One field by its path; members of a oneof set its case. Timestamps are "SECONDS" or
 * "SECONDS.NANOS". */
static void set(struct tw_arena *arena, ProtobufCMessage *message, const char *path,
                const char *value)
{
    char name[64];
    size_t length = strcspn(path, ".");
    snprintf(name, sizeof name, "%.*s", (int)length, path);
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
    cr_assert_not_null(field, "%s has no %s", message->descriptor->name, name);
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0)
        *(uint32_t *)field_at(message, field->quantifier_offset) = field->id;
    void *at = field_at(message, field->offset);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        ProtobufCMessage **inner = at;
        if (*inner == NULL)
            *inner = message_new(arena, field->descriptor);
        if (field->descriptor == &google__protobuf__timestamp__descriptor) {
            Google__Protobuf__Timestamp *time = (Google__Protobuf__Timestamp *)*inner;
            char *rest;
            time->seconds = strtoll(value, &rest, 10);
            time->nanos = *rest == '.' ? atoi(rest + 1) : 0;
        } else if (path[length] == '.') {
            set(arena, *inner, path + length + 1, value);
        }
        return;
    }
    if (field->type == PROTOBUF_C_TYPE_STRING)
        *(char **)at = text_of(arena, value);
    else if (field->type == PROTOBUF_C_TYPE_BOOL)
        *(protobuf_c_boolean *)at = strcmp(value, "true") == 0;
    else if (field->type == PROTOBUF_C_TYPE_ENUM || field->type == PROTOBUF_C_TYPE_UINT32)
        *(int32_t *)at = atoi(value);
    else
        *(int64_t *)at = (int64_t)strtoull(value, NULL, 10);
}

enum { PAIRS_MAX = 8 };
struct pair {
    const char *path, *value;
};

static Tradewake__V1__TradeEvent *event_of(struct tw_arena *arena, const struct pair *first,
                                           const struct pair *more)
{
    ProtobufCMessage *m = message_new(arena, &tradewake__v1__trade_event__descriptor);
    set(arena, m, "event_id", "e1");
    set(arena, m, "master_id", "M1");
    set(arena, m, "observed_at", "1796000000");
    for (size_t i = 0; i < PAIRS_MAX && first[i].path != NULL; i++)
        set(arena, m, first[i].path, first[i].value);
    for (size_t i = 0; more != NULL && i < PAIRS_MAX && more[i].path != NULL; i++)
        set(arena, m, more[i].path, more[i].value);
    return (Tradewake__V1__TradeEvent *)m;
}

static const struct pair open[PAIRS_MAX] = {{"open.position_id", "p1"},
                                            {"open.symbol", "EURUSD"},
                                            {"open.side", "1"},
                                            {"open.volume", "0.1"}};
static const struct pair modify[PAIRS_MAX] = {{"modify.position_id", "p1"}};
static const struct pair close[PAIRS_MAX] = {{"close.position_id", "p1"}};
static const struct pair place[PAIRS_MAX] = {{"place.order_id", "o1"}, {"place.symbol", "EURUSD"},
                                             {"place.side", "2"},      {"place.type", "2"},
                                             {"place.volume", "0.1"},  {"place.price", "1.1"}};
static const struct pair change[PAIRS_MAX] = {{"modify_order.order_id", "o1"}};
static const struct pair cancel[PAIRS_MAX] = {{"cancel.order_id", "o1"}};
static const struct pair trigger[PAIRS_MAX] = {{"trigger.order_id", "o1"},
                                               {"trigger.position_id", "p1"}};
static const struct pair nothing[PAIRS_MAX] = {{NULL, NULL}};

#define LONG64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

Test(core_event, every_field_that_is_wrong_is_named)
{
    static const struct {
        const struct pair *base;
        const char *path, *value, *field; /* field NULL = it is right */
    } rows[] = {
        {open, "event_id", "", "event.event_id"},
        {open, "event_id", LONG64, NULL},
        {open, "event_id", LONG64 "a", "event.event_id"},
        {open, "event_id", "a b", "event.event_id"},
        {open, "event_id", "a/b", "event.event_id"},
        {open, "event_id", "A-z.0_9:", NULL},
        {open, "event_id", "\xc3\xa4", "event.event_id"},
        {open, "master_id", "", "event.master_id"},
        {open, "master_id", "M 1", "event.master_id"},
        {open, "sequence", "9007199254740991", NULL},
        {open, "sequence", "9007199254740992", "event.sequence"},
        {open, "observed_at", "1577836799", "event.observed_at"},
        {open, "observed_at", "1577836800", NULL},
        {open, "observed_at", "1796000005", NULL},
        {open, "observed_at", "1796000005.001000000", "event.observed_at"},
        {open, "observed_at", "1796000000000", "event.observed_at"}, /* milliseconds for seconds */
        {open, "observed_at", "-9223372036854775808", "event.observed_at"},
        {open, "observed_at", "9223372036854775807", "event.observed_at"},
        {open, "observed_at", "1796000000.1000000000", "event.observed_at"},
        {open, "observed_at", "1796000000.-1", "event.observed_at"},
        {nothing, "sequence", "1", "event.action"},

        {open, "open.position_id", "", "event.open.position_id"},
        {open, "open.position_id", "#7 \xe2\x82\xac", NULL}, /* a ticket is the broker's text */
        {open, "open.position_id", LONG64 "a", "event.open.position_id"},
        {open, "open.symbol", "", "event.open.symbol"},
        {open, "open.symbol", LONG64 "a", "event.open.symbol"},
        {open, "open.side", "0", "event.open.side"},
        {open, "open.side", "3", "event.open.side"},
        {open, "open.volume", "", "event.open.volume"},
        {open, "open.volume", "0", "event.open.volume"},
        {open, "open.volume", "-0.1", "event.open.volume"},
        {open, "open.volume", "1e3", "event.open.volume"},
        {open, "open.volume", "0,1", "event.open.volume"},
        {open, "open.volume", "0.123456789", "event.open.volume"},
        {open, "open.volume", "12345678901", "event.open.volume"},
        {open, "open.price", "", NULL},
        {open, "open.price", "0", NULL},
        {open, "open.price", "-1", "event.open.price"},
        {open, "open.price", "NaN", "event.open.price"},
        {open, "open.stop_loss", "-1", "event.open.stop_loss"},
        {open, "open.take_profit", "x", "event.open.take_profit"},
        {open, "open.contract_size", "0", "event.open.contract_size"},
        {open, "open.magic", "-1", NULL},

        {modify, "modify.position_id", "", "event.modify.position_id"},
        {modify, "modify.stop_loss", "0", NULL},
        {modify, "modify.stop_loss", "-1", "event.modify.stop_loss"},
        {modify, "modify.take_profit", " 1", "event.modify.take_profit"},

        {close, "close.position_id", "", "event.close.position_id"},
        {close, "close.volume", "0", "event.close.volume"},
        {close, "close.volume", "0.1", NULL},
        {close, "close.remaining_volume", "0", NULL},
        {close, "close.remaining_volume", "-0.1", "event.close.remaining_volume"},
        {close, "close.new_position_id", LONG64 "a", "event.close.new_position_id"},
        {close, "close.price", "-1", "event.close.price"},

        {place, "place.order_id", "", "event.place.order_id"},
        {place, "place.symbol", "", "event.place.symbol"},
        {place, "place.side", "0", "event.place.side"},
        {place, "place.type", "0", "event.place.type"},
        {place, "place.type", "1", "event.place.type"}, /* a market order does not wait */
        {place, "place.type", "5", "event.place.type"},
        {place, "place.type", "3", NULL},
        {place, "place.type", "4", "event.place.stop_price"}, /* a stop-limit without its stop */
        {place, "place.stop_price", "1.2", "event.place.stop_price"}, /* a limit with one */
        {place, "place.volume", "0", "event.place.volume"},
        {place, "place.price", "", "event.place.price"},
        {place, "place.price", "0", "event.place.price"},
        {place, "place.expires_at", "1796000100", NULL},
        {place, "place.expires_at", "1795000000", NULL}, /* has expired: a matter of the rules */
        {place, "place.expires_at", "1796000100.1000000000", "event.place.expires_at"},

        {change, "modify_order.order_id", "", "event.modify_order.order_id"},
        {change, "modify_order.price", "0", "event.modify_order.price"},
        {change, "modify_order.price", "1.1", NULL},
        {change, "modify_order.stop_price", "-1", "event.modify_order.stop_price"},
        {change, "modify_order.stop_loss", "-1", "event.modify_order.stop_loss"},
        {change, "modify_order.expires_at", "99999999999999", "event.modify_order.expires_at"},

        {cancel, "cancel.order_id", "", "event.cancel.order_id"},
        {trigger, "trigger.order_id", "", "event.trigger.order_id"},
        {trigger, "trigger.position_id", "", "event.trigger.position_id"},
        {trigger, "trigger.volume", "0", "event.trigger.volume"},
        {trigger, "trigger.price", "-1", "event.trigger.price"},

        {open, "master_account.balance", "x", "event.master_account.balance"},
        {open, "master_account.balance", "-5", NULL}, /* an account can owe */
        {open, "master_account.currency", "12345678", "event.master_account.currency"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tw_arena arena;
        tw_arena_init(&arena, 65536);
        const struct pair wrong[PAIRS_MAX] = {{rows[i].path, rows[i].value}};
        Tradewake__V1__TradeEvent *message = event_of(&arena, rows[i].base, wrong);
        struct tw_event event;
        struct tw_refusal refusal = {0};

        bool ok = tw_event_read(message, NOW_NS, &event, &refusal);

        cr_expect_eq(ok, rows[i].field == NULL, "%s = \"%s\": %s", rows[i].path, rows[i].value,
                     refusal.text);
        cr_expect_str_eq(refusal.field, rows[i].field != NULL ? rows[i].field : "", "%s = \"%s\"",
                         rows[i].path, rows[i].value);
        tw_arena_clear(&arena);
    }
}

Test(core_event, an_event_without_a_time_or_without_anything_is_refused)
{
    struct tw_arena arena;
    tw_arena_init(&arena, 65536);
    struct tw_event event;
    struct tw_refusal refusal = {0};
    cr_expect_not(tw_event_read(NULL, NOW_NS, &event, &refusal));
    cr_expect_str_eq(refusal.field, "event");

    Tradewake__V1__TradeEvent *message = event_of(&arena, open, NULL);
    message->observed_at = NULL;
    cr_expect_not(tw_event_read(message, NOW_NS, &event, &refusal));
    cr_expect_str_eq(refusal.field, "event.observed_at");
    tw_arena_clear(&arena);
}

static struct tw_event read_ok(struct tw_arena *arena, const struct pair *first,
                               const struct pair *more)
{
    struct tw_event event;
    struct tw_refusal refusal = {0};
    cr_assert(tw_event_read(event_of(arena, first, more), NOW_NS, &event, &refusal), "%s %s",
              refusal.field, refusal.text);
    return event;
}

Test(core_event, what_is_absent_is_not_zero)
{
    struct tw_arena arena;
    tw_arena_init(&arena, 65536);
    struct tw_event event = read_ok(&arena, open, NULL);
    cr_expect_eq(event.price, TW_DECIMAL_UNSET);
    cr_expect_eq(event.stop_loss, TW_DECIMAL_UNSET);
    cr_expect_not(event.has_account);

    event = read_ok(&arena, open, (const struct pair[PAIRS_MAX]){{"open.stop_loss", "0"}});
    cr_expect_eq(event.stop_loss, 0);
    tw_arena_clear(&arena);
}

Test(core_event, an_expiry_is_left_removed_or_set)
{
    struct tw_arena arena;
    tw_arena_init(&arena, 65536);
    cr_expect_eq(read_ok(&arena, change, NULL).expires_wall_ns, -1);
    cr_expect_eq(
        read_ok(&arena, change, (const struct pair[PAIRS_MAX]){{"modify_order.expires_at", "0"}})
            .expires_wall_ns,
        0);
    cr_expect_eq(
        read_ok(&arena, change,
                (const struct pair[PAIRS_MAX]){{"modify_order.expires_at", "1796000100.5"}})
            .expires_wall_ns,
        INT64_C(1796000100) * TW_NS_PER_S + 5);
    cr_expect_eq(read_ok(&arena, place, NULL).expires_wall_ns, 0);
    tw_arena_clear(&arena);
}

Test(core_event, the_subject_is_the_position_or_the_order)
{
    static const struct {
        const struct pair *base;
        const char *subject, *word;
    } rows[] = {{open, "p1", "open"},      {modify, "p1", "modify"},       {close, "p1", "close"},
                {place, "o1", "place"},    {change, "o1", "modify_order"}, {cancel, "o1", "cancel"},
                {trigger, "o1", "trigger"}};
    struct tw_arena arena;
    tw_arena_init(&arena, 65536);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tw_event event = read_ok(&arena, rows[i].base, NULL);
        cr_expect_str_eq(tw_event_subject_id(&event), rows[i].subject);
        cr_expect_str_eq(tw_event_kind_word(event.kind), rows[i].word);
    }
    tw_arena_clear(&arena);
}

/* Same id: the same event, or another? */
Test(core_event, master_and_action_make_an_event_when_it_was_seen_does_not)
{
    static const struct {
        const struct pair *base;
        const char *path, *value;
        bool is_same;
    } rows[] = {
        {open, "observed_at", "1796000001", true},
        {open, "sequence", "7", true},
        {open, "master_account.balance", "5", true},
        {open, "open.volume", "0.10", true},
        {open, "event_id", "e2", true}, /* the id is compared before */
        {open, "master_id", "M2", false},
        {open, "open.position_id", "p2", false},
        {open, "open.symbol", "EURUSDx", false},
        {open, "open.side", "2", false},
        {open, "open.volume", "0.11", false},
        {open, "open.price", "1", false},
        {open, "open.stop_loss", "1", false},
        {open, "open.stop_loss", "0", false},
        {open, "open.take_profit", "1", false},
        {open, "open.magic", "1", false},
        {open, "open.contract_size", "1", false},
        {open, "open.increase", "true", false},
        {close, "close.volume", "0.1", false},
        {close, "close.remaining_volume", "0.1", false},
        {close, "close.new_position_id", "p2", false},
        {close, "close.price", "1", false},
        {place, "place.price", "1.2", false},
        {place, "place.type", "3", false},
        {place, "place.expires_at", "1796000100", false},
        {place, "place.order_id", "o2", false},
        {change, "modify_order.expires_at", "0", false},
        {change, "modify_order.price", "1", false},
        {trigger, "trigger.position_id", "p2", false},
        {trigger, "trigger.volume", "1", false},
    };
    struct tw_arena arena;
    tw_arena_init(&arena, 1 << 20);
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct pair other[PAIRS_MAX] = {{rows[i].path, rows[i].value}};
        struct tw_event a = read_ok(&arena, rows[i].base, NULL),
                        b = read_ok(&arena, rows[i].base, other);
        uint8_t hashes[2][TW_EVENT_HASH_BYTES];
        tw_event_hash(&a, hashes[0]);
        tw_event_hash(&b, hashes[1]);
        cr_expect_eq(memcmp(hashes[0], hashes[1], TW_EVENT_HASH_BYTES) == 0, rows[i].is_same,
                     "%s = \"%s\"", rows[i].path, rows[i].value);
    }
    tw_arena_clear(&arena);
}

/* Hashes are in the journal: what was remembered yesterday must be known again today. By Python's
 * hashlib over "M1\n0\np1\no1\np2\nEURUSD\n1\n2\n-42\n...", UNSET being -2^63. */
Test(core_event, the_hash_of_a_content_stays_what_it_was)
{
    const struct tw_event event = {.kind = TW_EVENT_OPEN,
                                   .event_id = "e1",
                                   .master_id = "M1",
                                   .position_id = "p1",
                                   .order_id = "o1",
                                   .new_position_id = "p2",
                                   .symbol = "EURUSD",
                                   .side = (enum tw_side)1,
                                   .type = (enum tw_order_type)2,
                                   .magic = -42,
                                   .expires_wall_ns = INT64_C(1764496116000000000),
                                   .increase = true,
                                   .volume = 10000000,
                                   .remaining_volume = TW_DECIMAL_UNSET,
                                   .price = 108500000,
                                   .stop_price = TW_DECIMAL_UNSET,
                                   .stop_loss = -1,
                                   .take_profit = 0,
                                   .contract_size = INT64_C(10000000000000)};
    static const uint8_t expected[TW_EVENT_HASH_BYTES] = {0x47, 0x4f, 0x84, 0xce, 0x65, 0x2c,
                                                          0xc6, 0xa3, 0x8d, 0xa3, 0x45, 0xec,
                                                          0x5d, 0x9d, 0x6f, 0x1e};
    uint8_t hash[TW_EVENT_HASH_BYTES];
    tw_event_hash(&event, hash);
    cr_expect_arr_eq(hash, expected, sizeof expected);
}

Test(core_event, a_close_and_a_modify_of_the_same_position_differ)
{
    struct tw_arena arena;
    tw_arena_init(&arena, 65536);
    struct tw_event a = read_ok(&arena, close, NULL), b = read_ok(&arena, modify, NULL);
    uint8_t hashes[2][TW_EVENT_HASH_BYTES];
    tw_event_hash(&a, hashes[0]);
    tw_event_hash(&b, hashes[1]);
    cr_expect_neq(memcmp(hashes[0], hashes[1], TW_EVENT_HASH_BYTES), 0);
    tw_arena_clear(&arena);
}

Test(core_event, entries_of_a_snapshot_are_blamed_by_their_place)
{
    Tradewake__V1__OpenPosition position;
    Tradewake__V1__PlaceOrder order;
    struct tw_event event;
    struct tw_refusal refusal = {0};
    tradewake__v1__open_position__init(&position);
    tradewake__v1__place_order__init(&order);

    cr_expect_not(tw_event_read_position(&position, "positions[3].", &event, &refusal));
    cr_expect_str_eq(refusal.field, "positions[3].position_id");
    cr_expect_not(tw_event_read_order(&order, "orders[0].", &event, &refusal));
    cr_expect_str_eq(refusal.field, "orders[0].order_id");
}
