/* core_mask.c - which fields an update changes, and what it may not name. */
#include "core_support.h"

#include <tradewake/core/mask.h>

#include <google/protobuf/any.pb-c.h>
#include <google/protobuf/timestamp.pb-c.h>

#include <stdlib.h>

static const char *const follower_fields[] = {"display_name", "mode", "adapter_config",
                                              "symbol_map",   "risk", NULL};
static const char *const subscription_fields[] = {"rules", NULL};

static Tradewake__V1__Follower *follower_new(const char *name, Tradewake__V1__FollowerMode mode)
{
    Tradewake__V1__Follower *follower = calloc(1, sizeof *follower);
    cr_assert_not_null(follower);
    tradewake__v1__follower__init(follower);
    follower->display_name = strdup(name);
    follower->follower_id = strdup(name);
    follower->mode = mode;
    return follower;
}

/* The most volume of one order; a limit on positions beside it. */
static void risk_add(Tradewake__V1__Follower *follower, const char *max_order_volume,
                     uint32_t positions)
{
    follower->risk = calloc(1, sizeof *follower->risk);
    cr_assert_not_null(follower->risk);
    tradewake__v1__risk_limits__init(follower->risk);
    follower->risk->max_order_volume = strdup(max_order_volume);
    follower->risk->max_open_positions = positions;
}

static bool apply(const char *path, Tradewake__V1__Follower *target,
                  Tradewake__V1__Follower *source, struct tw_refusal *refusal)
{
    char text[128];
    snprintf(text, sizeof text, "%s", path);
    char *const paths[] = {text};
    const struct tw_mask mask = {paths, 1, follower_fields, "follower."};
    *refusal = (struct tw_refusal){0};
    return tw_mask_apply(&mask, &target->base, &source->base, refusal);
}

static void both_free(Tradewake__V1__Follower *target, Tradewake__V1__Follower *source)
{
    tradewake__v1__follower__free_unpacked(target, NULL);
    tradewake__v1__follower__free_unpacked(source, NULL);
}

#define ACTIVE TRADEWAKE__V1__FOLLOWER_MODE__FOLLOWER_MODE_ACTIVE
#define PAUSED TRADEWAKE__V1__FOLLOWER_MODE__FOLLOWER_MODE_PAUSED

Test(core_mask, one_field_changes_and_the_others_stay)
{
    Tradewake__V1__Follower *target = follower_new("old", ACTIVE),
                            *source = follower_new("new", PAUSED);
    struct tw_refusal refusal;

    cr_assert(apply("mode", target, source, &refusal));

    cr_expect_eq(target->mode, PAUSED);
    cr_expect_str_eq(target->display_name, "old");
    both_free(target, source);
}

Test(core_mask, a_star_changes_everything_settable_and_nothing_else)
{
    Tradewake__V1__Follower *target = follower_new("old", ACTIVE),
                            *source = follower_new("new", PAUSED);
    struct tw_refusal refusal;
    risk_add(target, "5", 5);

    cr_assert(apply("*", target, source, &refusal));

    cr_expect_eq(target->mode, PAUSED);
    cr_expect_str_eq(target->display_name, "new");
    cr_expect_null(target->risk, "what the source does not say is gone");
    cr_expect_str_eq(target->follower_id, "old");
    both_free(target, source);
}

Test(core_mask, a_nested_path_changes_one_field_of_a_message)
{
    Tradewake__V1__Follower *target = follower_new("old", ACTIVE),
                            *source = follower_new("new", PAUSED);
    struct tw_refusal refusal;
    risk_add(target, "5", 7);
    risk_add(source, "2", 9);

    cr_assert(apply("risk.max_order_volume", target, source, &refusal));

    cr_expect_str_eq(target->risk->max_order_volume, "2");
    cr_expect_eq(target->risk->max_open_positions, 7u);
    both_free(target, source);
}

Test(core_mask, a_nested_path_makes_the_message_that_is_not_there)
{
    Tradewake__V1__Follower *target = follower_new("old", ACTIVE),
                            *source = follower_new("new", PAUSED);
    struct tw_refusal refusal;
    risk_add(source, "2", 9);

    cr_assert(apply("risk.max_order_volume", target, source, &refusal));

    cr_expect_str_eq(target->risk->max_order_volume, "2");
    cr_expect_eq(target->risk->max_open_positions, 0u);
    both_free(target, source);
}

Test(core_mask, a_nested_path_of_a_message_that_the_source_lacks_sets_the_default)
{
    Tradewake__V1__Follower *target = follower_new("old", ACTIVE),
                            *source = follower_new("new", PAUSED);
    struct tw_refusal refusal;
    risk_add(target, "5", 7);

    cr_assert(apply("risk.max_order_volume", target, source, &refusal));

    cr_expect_str_eq(target->risk->max_order_volume, "");
    cr_expect_eq(target->risk->max_open_positions, 7u);
    both_free(target, source);
}

Test(core_mask, lists_change_as_a_whole)
{
    Tradewake__V1__Follower *target = follower_new("old", ACTIVE),
                            *source = follower_new("new", PAUSED);
    struct tw_refusal refusal;
    source->n_symbol_map = 1;
    source->symbol_map = calloc(1, sizeof *source->symbol_map);
    source->symbol_map[0] = calloc(1, sizeof *source->symbol_map[0]);
    tradewake__v1__symbol_mapping__init(source->symbol_map[0]);
    source->symbol_map[0]->from_symbol = strdup("A");

    cr_assert(apply("symbol_map", target, source, &refusal));

    cr_assert_eq(target->n_symbol_map, 1u);
    cr_expect_str_eq(target->symbol_map[0]->from_symbol, "A");
    cr_expect_eq(source->n_symbol_map, 0u);
    both_free(target, source);
}

Test(core_mask, what_cannot_be_set_is_refused_with_the_field_to_blame)
{
    static const struct {
        const char *path, *field;
    } rows[] = {
        {"follower_id", "update_mask"},
        {"nothing_like_it", "update_mask"},
        {"", "update_mask"},
        {".", "update_mask"},
        {"risk.", "update_mask"},
        {".risk", "update_mask"},
        {"risk..max", "update_mask"},
        {"risk.nothing", "update_mask"},
        {"mode.x", "update_mask"},
        {"symbol_map.from_symbol", "update_mask"},
        {"symbol_map[0]", "update_mask"},
        {"risk.loss_limits.measure", "update_mask"},
        {"Mode", "update_mask"},
        {"adapter_config.latency", "update_mask"},
        {"displayName", "update_mask"},
        {"account", "update_mask"},
        {"a_name_that_is_longer_than_any_field_of_any_message_that_this_service_will_ever_have",
         "update_mask"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        Tradewake__V1__Follower *target = follower_new("old", ACTIVE),
                                *source = follower_new("new", PAUSED);
        struct tw_refusal refusal;
        cr_expect_not(apply(rows[i].path, target, source, &refusal), "\"%s\"", rows[i].path);
        cr_expect_eq(refusal.reason, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_INVALID_FIELD);
        cr_expect_str_eq(refusal.field, rows[i].field, "\"%s\": %s", rows[i].path, refusal.field);
        cr_expect_str_eq(target->display_name, "old");
        both_free(target, source);
    }
}

/* A mistyped name of a value arrives as 0 in several languages, and would mean the default. */
Test(core_mask, an_enum_that_is_named_is_not_unspecified)
{
    Tradewake__V1__Follower *target = follower_new("old", PAUSED),
                            *source = follower_new("new", (Tradewake__V1__FollowerMode)0);
    struct tw_refusal refusal;

    cr_expect_not(apply("mode", target, source, &refusal));
    cr_expect_str_eq(refusal.field, "follower.mode");
    cr_expect_eq(target->mode, PAUSED);

    cr_expect(apply("*", target, source, &refusal),
              "a star means the default where nothing is said");
    both_free(target, source);
}

Test(core_mask, a_nested_enum_that_is_named_is_not_unspecified_either)
{
    Tradewake__V1__Subscription *target = calloc(1, sizeof *target),
                                *source = calloc(1, sizeof *source);
    tradewake__v1__subscription__init(target);
    tradewake__v1__subscription__init(source);
    char path[] = "rules.sizing";
    char *const paths[] = {path};
    const struct tw_mask mask = {paths, 1, subscription_fields, "subscription."};
    struct tw_refusal refusal = {0};

    cr_expect_not(tw_mask_apply(&mask, &target->base, &source->base, &refusal));
    cr_expect_str_eq(refusal.field, "subscription.rules.sizing");

    source->rules = calloc(1, sizeof *source->rules);
    tradewake__v1__copy_rules__init(source->rules);
    cr_expect_not(tw_mask_apply(&mask, &target->base, &source->base, &refusal),
                  "in a message that is there");
    source->rules->sizing = TRADEWAKE__V1__SIZING_MODE__SIZING_MODE_RISK;
    cr_expect(tw_mask_apply(&mask, &target->base, &source->base, &refusal));
    cr_expect_eq(target->rules->sizing, TRADEWAKE__V1__SIZING_MODE__SIZING_MODE_RISK);
    tradewake__v1__subscription__free_unpacked(target, NULL);
    tradewake__v1__subscription__free_unpacked(source, NULL);
}

Test(core_mask, no_path_is_no_update)
{
    Tradewake__V1__Follower *target = follower_new("old", ACTIVE),
                            *source = follower_new("new", PAUSED);
    const struct tw_mask mask = {NULL, 0, follower_fields, "follower."};
    struct tw_refusal refusal = {0};
    cr_expect_not(tw_mask_apply(&mask, &target->base, &source->base, &refusal));
    cr_expect_eq(refusal.reason, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_MASK_REQUIRED);
    both_free(target, source);
}

/* Fields are exchanged between the two messages: twice must not be not at all. */
Test(core_mask, a_field_that_several_paths_name_changes_once)
{
    static char *const masks[][3] = {
        {"mode", "mode"},
        {"mode", "*"},
        {"*", "mode"},
        {"*", "*"},
        {"mode", "risk", "risk.max_order_volume"},
        {"risk.max_order_volume", "risk", "mode"},
        {"risk.max_order_volume", "risk.max_order_volume", "mode"},
    };
    for (size_t i = 0; i < COUNT(masks); i++) {
        Tradewake__V1__Follower *target = follower_new("old", ACTIVE),
                                *source = follower_new("new", PAUSED);
        struct tw_refusal refusal = {0};
        risk_add(target, "5", 7);
        risk_add(source, "2", 9);
        const struct tw_mask mask = {masks[i], masks[i][2] != NULL ? 3 : 2, follower_fields,
                                     "follower."};

        cr_assert(tw_mask_apply(&mask, &target->base, &source->base, &refusal), "%s", refusal.text);

        cr_expect_eq(target->mode, PAUSED, "row %zu", i);
        cr_expect_str_eq(target->risk->max_order_volume, i == 0 ? "5" : "2", "row %zu", i);
        both_free(target, source);
    }
}

Test(core_mask, a_mask_with_one_bad_path_changes_nothing)
{
    Tradewake__V1__Follower *target = follower_new("old", ACTIVE),
                            *source = follower_new("new", PAUSED);
    struct tw_refusal refusal = {0};
    static char *const paths[] = {"mode", "display_name", "nothing_like_it"};
    const struct tw_mask mask = {paths, COUNT(paths), follower_fields, "follower."};

    cr_expect_not(tw_mask_apply(&mask, &target->base, &source->base, &refusal));

    cr_expect_eq(target->mode, ACTIVE);
    cr_expect_str_eq(target->display_name, "old");
    both_free(target, source);
}

Test(core_mask, there_are_no_more_paths_than_can_be_compared)
{
    enum { MANY = 257 };
    Tradewake__V1__Follower *target = follower_new("old", ACTIVE),
                            *source = follower_new("new", PAUSED);
    struct tw_refusal refusal = {0};
    static char mode[] = "mode";
    char *paths[MANY];
    for (size_t i = 0; i < MANY; i++)
        paths[i] = mode;
    struct tw_mask mask = {paths, MANY, follower_fields, "follower."};
    cr_expect_not(tw_mask_apply(&mask, &target->base, &source->base, &refusal));
    mask.n_paths = MANY - 1;
    cr_expect(tw_mask_apply(&mask, &target->base, &source->base, &refusal));
    both_free(target, source);
}

/* No message of ours that a mask changes has such fields yet. */
Test(core_mask, fields_of_every_width_change)
{
    static const char *const stamp_fields[] = {"seconds", "nanos", NULL}, *const any_fields[] = {"type_url", "value", NULL},
                      *const open_fields[] = {"magic", "increase", "side", NULL};
    char star[] = "*";
    char *const paths[] = {star};
    struct tw_refusal refusal = {0};

    Google__Protobuf__Timestamp early, late;
    google__protobuf__timestamp__init(&early);
    google__protobuf__timestamp__init(&late);
    late.seconds = INT64_C(1) << 40;
    late.nanos = 7;
    const struct tw_mask stamp = {paths, 1, stamp_fields, ""};
    cr_assert(tw_mask_apply(&stamp, &early.base, &late.base, &refusal));
    cr_expect_eq(early.seconds, INT64_C(1) << 40);
    cr_expect_eq(early.nanos, 7);

    uint8_t bytes[3] = {1, 2, 3};
    Google__Protobuf__Any none, some;
    google__protobuf__any__init(&none);
    google__protobuf__any__init(&some);
    some.value = (ProtobufCBinaryData){sizeof bytes, bytes};
    const struct tw_mask any = {paths, 1, any_fields, ""};
    cr_assert(tw_mask_apply(&any, &none.base, &some.base, &refusal));
    cr_expect_eq(none.value.len, sizeof bytes);
    cr_expect_eq(none.value.data, bytes);
    cr_expect_eq(some.value.len, 0);

    Tradewake__V1__OpenPosition small, large;
    tradewake__v1__open_position__init(&small);
    tradewake__v1__open_position__init(&large);
    large.magic = -5;
    large.increase = true;
    large.side = TRADEWAKE__V1__SIDE__SIDE_SELL;
    const struct tw_mask open = {paths, 1, open_fields, ""};
    cr_assert(tw_mask_apply(&open, &small.base, &large.base, &refusal));
    cr_expect(small.magic == -5 && small.increase && small.side == TRADEWAKE__V1__SIDE__SIDE_SELL);
    cr_expect(large.magic == 0 && !large.increase);
}

/* Where a message that is not there has to be made, and there is no memory for it, in the target or in the source. */
static unsigned fails_at; /* the call of calloc() that fails; 0 = none does */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    return fails_at > 0 && --fails_at == 0 ? NULL : __real_calloc(n, size);
}

Test(core_mask, without_memory_a_nested_path_is_refused)
{
    for (unsigned n = 1; n <= 2; n++) {
        Tradewake__V1__Follower *target = follower_new("old", ACTIVE), *source = follower_new("new", PAUSED);
        struct tw_refusal refusal;
        fails_at = n;
        bool ok = apply("risk.max_open_positions", target, source, &refusal);
        fails_at = 0;
        cr_expect_not(ok, "call %u", n);
        cr_expect_eq(refusal.reason, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_INTERNAL);
        both_free(target, source);
    }
}
