/* fuzz_requests.c
 * Targets:  tw_event_read, tw_event_read_position, tw_event_read_order, tw_rules_read, tw_follower_rules_read and
 *           tw_mask_apply, on every request type that carries what they read (chosen by the first byte, as in
 *           fuzz_wire_decode, whose corpus it shares)
 * Property: what was accepted is accepted again after it was packed, and is the same event; what was refused names a
 *           field and a reason; a mask changes only what it may. */
#include <tradewake/base/arena.h>
#include <tradewake/base/clock.h>
#include <tradewake/core/event.h>
#include <tradewake/core/mask.h>
#include <tradewake/core/rules.h>
#include <tradewake/wire/descriptors.h>
#include <tradewake/wire/message.h>

#include <tradewake/v1/events.pb-c.h>
#include <tradewake/v1/followers.pb-c.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define REASON(name) TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_##name
#define NOW_NS (1700000000 * TW_NS_PER_S)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void refused(const struct tw_refusal *refusal)
{
    require(refusal->reason != REASON(UNSPECIFIED));
    require(refusal->text[0] != '\0');
    require(tw_text_is_valid(refusal->text, strlen(refusal->text)));
    require(tw_text_is_valid(refusal->field, strlen(refusal->field)));
}

static void event_try(const Tradewake__V1__TradeEvent *message)
{
    struct tw_event event, again;
    struct tw_refusal refusal = {0};
    uint8_t hash[TW_EVENT_HASH_BYTES], hash_again[TW_EVENT_HASH_BYTES];
    if (!tw_event_read(message, NOW_NS, &event, &refusal)) {
        refused(&refusal);
        return;
    }
    require(message != NULL && tw_event_subject_id(&event)[0] != '\0');
    size_t size = protobuf_c_message_get_packed_size(&message->base);
    uint8_t *bytes = malloc(size + 1);
    require(bytes != NULL && protobuf_c_message_pack(&message->base, bytes) == size);
    Tradewake__V1__TradeEvent *copy = tradewake__v1__trade_event__unpack(NULL, size, bytes);
    require(copy != NULL && tw_event_read(copy, NOW_NS, &again, &refusal));
    tw_event_hash(&event, hash);
    tw_event_hash(&again, hash_again);
    require(memcmp(hash, hash_again, sizeof hash) == 0);
    tradewake__v1__trade_event__free_unpacked(copy, NULL);
    free(bytes);
}

static void follower_try(const Tradewake__V1__Follower *message)
{
    struct tw_follower_rules rules;
    struct tw_refusal refusal = {0};
    if (message == NULL)
        return;
    if (tw_follower_rules_read(message, "follower.", &rules, &refusal))
        tw_follower_rules_clear(&rules);
    else
        refused(&refusal);
}

static void subscription_try(const Tradewake__V1__Subscription *message)
{
    struct tw_rules rules;
    struct tw_refusal refusal = {0};
    if (message == NULL)
        return;
    if (tw_rules_read(message->rules, "subscription.rules.", &rules, &refusal))
        tw_rules_clear(&rules);
    else
        refused(&refusal);
}

static void snapshot_try(const Tradewake__V1__SyncMasterRequest *message)
{
    struct tw_event event;
    struct tw_refusal refusal = {0};
    for (size_t i = 0; i < message->n_positions; i++)
        if (!tw_event_read_position(message->positions[i], "positions[0].", &event, &refusal))
            refused(&refusal);
    for (size_t i = 0; i < message->n_orders; i++)
        if (!tw_event_read_order(message->orders[i], "orders[0].", &event, &refusal))
            refused(&refusal);
}

static ProtobufCMessage *heap_copy(const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(size + 1);
    require(bytes != NULL);
    protobuf_c_message_pack(message, bytes);
    ProtobufCMessage *copy = protobuf_c_message_unpack(message->descriptor, NULL, size, bytes);
    require(copy != NULL);
    free(bytes);
    return copy;
}

/* An update of a follower that has nothing set yet: its id is nobody's to change. */
static void mask_try(const Tradewake__V1__UpdateFollowerRequest *message)
{
    static const char *const settable[] = {"display_name", "mode", "adapter_config", "symbol_map", "risk", "instruments", NULL};
    struct tw_refusal refusal = {0};
    Tradewake__V1__Follower nobody;
    if (message->follower == NULL || message->update_mask == NULL)
        return;
    tradewake__v1__follower__init(&nobody);
    ProtobufCMessage *target = heap_copy(&nobody.base), *source = heap_copy(&message->follower->base);
    const struct tw_mask mask = {.paths = message->update_mask->paths, .n_paths = message->update_mask->n_paths,
                                 .settable = settable, .prefix = "follower."};
    if (!tw_mask_apply(&mask, target, source, &refusal))
        refused(&refusal);
    require(((Tradewake__V1__Follower *)target)->follower_id[0] == '\0');
    protobuf_c_message_free_unpacked(target, NULL);
    protobuf_c_message_free_unpacked(source, NULL);
}

#define AS(type) ((const Tradewake__V1__##type *)(const void *)message)
#define IS(type) (message->descriptor == &tradewake__v1__##type##__descriptor)

static void try(const ProtobufCMessage *message)
{
    if (IS(submit_event_request))
        event_try(AS(SubmitEventRequest)->event);
    else if (IS(stream_events_request))
        event_try(AS(StreamEventsRequest)->event);
    else if (IS(explain_event_request))
        event_try(AS(ExplainEventRequest)->event);
    else if (IS(sync_master_request))
        snapshot_try(AS(SyncMasterRequest));
    else if (IS(create_follower_request))
        follower_try(AS(CreateFollowerRequest)->follower);
    else if (IS(update_follower_request))
        follower_try(AS(UpdateFollowerRequest)->follower), mask_try(AS(UpdateFollowerRequest));
    else if (IS(create_subscription_request))
        subscription_try(AS(CreateSubscriptionRequest)->subscription);
    else if (IS(update_subscription_request))
        subscription_try(AS(UpdateSubscriptionRequest)->subscription);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const ProtobufCMessageDescriptor *type = tw_method_type_at(data[0] % tw_method_types_count())->input;
    struct tw_arena arena;
    struct tw_refusal refusal = {0};
    ProtobufCMessage *message = NULL;
    tw_arena_init(&arena, 64u * 1024u * 1024u);
    if (tw_message_decode(type, data + 1, size - 1, &arena, &message, &refusal))
        try(message);
    tw_arena_clear(&arena);
    return 0;
}
