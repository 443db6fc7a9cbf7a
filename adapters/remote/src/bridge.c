/* bridge.c - is a bridge there, and what can it do? */
#include "remote.h"
#include "translate.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/log.h>

#include <stdio.h>
#include <string.h>

int64_t remote_back_off_ns(struct remote *remote, unsigned failures)
{
    int64_t ns = BACK_OFF_NS << (failures > 6 ? 6 : failures);
    if (ns > BACK_OFF_NS_MAX)
        ns = BACK_OFF_NS_MAX;
    remote->dice ^= remote->dice << 13;
    remote->dice ^= remote->dice >> 7;
    remote->dice ^= remote->dice << 17;
    return ns / 2 + (int64_t)(remote->dice % (uint64_t)(ns / 2 + 1));
}

static void bridge_why(struct bridge *bridge, const char *why)
{
    pthread_mutex_lock(&bridge->remote->lock);
    bridge->is_proven = false;
    bridge->was_tried = true;
    snprintf(bridge->why, sizeof bridge->why, "bridge %s: %s", bridge->name, why);
    pthread_cond_broadcast(&bridge->remote->changed);
    pthread_mutex_unlock(&bridge->remote->lock);
}

static void bridge_keep(struct bridge *bridge, const ProtobufCMessage *response)
{
    /* Of what it said a copy is kept, until it says it again. */
    size_t size = protobuf_c_message_get_packed_size(response);
    uint8_t bytes[4096], *packed = size <= sizeof bytes ? bytes : NULL;
    Tradewake__Adapter__V1__GetCapabilitiesResponse *kept = NULL;
    if (packed != NULL && protobuf_c_message_pack(response, packed) == size)
        kept = tradewake__adapter__v1__get_capabilities_response__unpack(NULL, size, packed);
    if (kept == NULL) {
        bridge_why(bridge, "its capabilities are no answer");
        return;
    }
    pthread_mutex_lock(&bridge->remote->lock);
    Tradewake__Adapter__V1__GetCapabilitiesResponse *before = bridge->can;
    bridge->can = kept;
    atomic_store(&bridge->comment_max, kept->comment_max);
    bridge->is_known = bridge->is_proven = bridge->was_tried = true;
    pthread_cond_broadcast(&bridge->remote->changed);
    pthread_mutex_unlock(&bridge->remote->lock);
    if (before != NULL)
        tradewake__adapter__v1__get_capabilities_response__free_unpacked(before, NULL);
    tw_log(TW_LOG_INFO, "bridge.there", "bridge=%s adapter=\"%s\" version=\"%s\"", bridge->name, kept->adapter,
           kept->version);
}

static void on_capabilities(void *context, const struct tw_wire_answer *answer, const ProtobufCMessage *response)
{
    struct bridge *bridge = context;
    bool was_quiet = bridge->failures > 0;
    bridge->is_asking = false;
    if (response != NULL) {
        bridge_keep(bridge, response);
        if (bridge->is_proven)
            bridge->failures = 0;
    } else {
        bridge_why(bridge, answer->message);
        bridge->due_mono_ns = tw_mono_ns() + remote_back_off_ns(bridge->remote, bridge->failures++);
    }
    if (!bridge->is_proven && !was_quiet)
        tw_log(TW_LOG_WARN, "bridge.away", "bridge=%s why=\"%s\"", bridge->name, bridge->why);
}

void remote_bridge_tick(struct bridge *bridge, int64_t now_mono_ns)
{
    struct tw_error error = {{0}};
    Tradewake__Adapter__V1__GetCapabilitiesRequest request;
    tradewake__adapter__v1__get_capabilities_request__init(&request);
    if (bridge->is_proven || bridge->is_asking || bridge->due_mono_ns > now_mono_ns)
        return;
    bridge->is_asking = true;
    if (tw_wire_call_begin(bridge->channel, METHOD("GetCapabilities"), &request.base, now_mono_ns + ASK_NS,
                           on_capabilities, bridge, NULL, &error) == TW_OK)
        return;
    bridge->is_asking = false;
    bridge_why(bridge, error.text);
    bridge->due_mono_ns = now_mono_ns + remote_back_off_ns(bridge->remote, bridge->failures++);
}

void remote_bridge_lost(struct bridge *bridge, int64_t now_mono_ns)
{
    if (!bridge->is_proven)
        return;
    bridge_why(bridge, "the connection was lost");
    bridge->due_mono_ns = now_mono_ns + remote_back_off_ns(bridge->remote, 0);
    tw_log(TW_LOG_WARN, "bridge.away", "bridge=%s why=\"%s\"", bridge->name, bridge->why);
}
