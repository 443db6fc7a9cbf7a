#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tw_host *host_here;

/* ---- What it can do. ---- */

static Tradewake__Adapter__V1__IdStrength strength_of(uint32_t strength)
{
    static const Tradewake__Adapter__V1__IdStrength strengths[] = {
        TRADEWAKE__ADAPTER__V1__ID_STRENGTH__ID_STRENGTH_UNSPECIFIED, TRADEWAKE__ADAPTER__V1__ID_STRENGTH__ID_STRENGTH_TAG,
        TRADEWAKE__ADAPTER__V1__ID_STRENGTH__ID_STRENGTH_JOURNAL, TRADEWAKE__ADAPTER__V1__ID_STRENGTH__ID_STRENGTH_BROKER};
    return strengths[strength < sizeof strengths / sizeof strengths[0] ? strength : 0];
}

static void on_get_capabilities(struct tw_call *call, const ProtobufCMessage *request, const struct tw_refusal *invalid)
{
    static Tradewake__V1__OrderType types[] = {
        TRADEWAKE__V1__ORDER_TYPE__ORDER_TYPE_MARKET, TRADEWAKE__V1__ORDER_TYPE__ORDER_TYPE_LIMIT,
        TRADEWAKE__V1__ORDER_TYPE__ORDER_TYPE_STOP, TRADEWAKE__V1__ORDER_TYPE__ORDER_TYPE_STOP_LIMIT};
    const struct tw_host_about *about = &host_here->options.about;
    Tradewake__Adapter__V1__GetCapabilitiesResponse response;
    Google__Protobuf__Duration settle, heartbeat;
    (void)request;
    (void)invalid;
    tradewake__adapter__v1__get_capabilities_response__init(&response);
    google__protobuf__duration__init(&settle);
    google__protobuf__duration__init(&heartbeat);
    settle.seconds = about->settle_ms / 1000;
    settle.nanos = (int32_t)(about->settle_ms % 1000 * 1000000);
    heartbeat.seconds = HEARTBEAT_NS / TW_NS_PER_S;
    response.adapter = (char *)(uintptr_t)about->name;
    response.version = (char *)(uintptr_t)about->version;
    response.order_types = types;
    response.n_order_types = sizeof types / sizeof types[0];
    response.hedging = about->hedging;
    response.netting = about->netting;
    response.partial_close = response.stops_on_open = response.modify_order = true;
    response.id_strength = strength_of(about->id_strength);
    response.client_order_id_max = TW_COPY_ID_CHARS;
    response.max_parallel = about->max_parallel;
    response.not_found_settle = &settle;
    response.heartbeat = &heartbeat;
    response.reduce_only = about->reduce_only;
    response.close_by_position = about->hedging;
    response.pushes_quotes = response.pushes_account = true;
    tw_call_answer(call, &response.base);
}

static const struct tw_wire_method methods[] = {
    {.path = METHOD("GetCapabilities"), .on_request = on_get_capabilities},
    {.path = METHOD("OpenSession"), .on_request = on_open_session, .on_post = on_open_session_post, .on_finished = on_open_session_finished},
    {.path = METHOD("CloseSession"), .on_request = on_close_session},
    {.path = METHOD("GetInstrument"), .on_request = on_get_instrument},
    {.path = METHOD("CheckConfig"), .on_request = on_check_config, .on_post = on_order_post, .on_finished = on_order_finished},
    {.path = METHOD("Execute"), .on_request = on_execute, .on_post = on_order_post, .on_finished = on_order_finished},
    {.path = METHOD("Lookup"), .on_request = on_lookup, .on_post = on_order_post, .on_finished = on_order_finished},
    {.path = METHOD("Snapshot"), .on_request = on_snapshot, .on_post = on_order_post, .on_finished = on_order_finished},
    {.path = METHOD("WatchAccount"), .watches = true, .on_request = on_watch, .on_post = on_watch_news,
     .on_writable = on_watch_news, .on_timer = on_watch_timer, .on_finished = on_watch_finished},
    {0},
};

/* ---- Life. ---- */

static tw_status parts_start(struct tw_host *host, struct tw_error *error)
{
    enum { QUESTIONS_PARALLEL = 4, STREAMS_MAX = 100000 };
    const uint32_t most = host->options.threads_max; /* 0 = the executor's own */
    const struct tw_executor_options executor = {
        .threads_ready = most > 0 && most < TW_THREADS_ROUND ? most : TW_THREADS_ROUND,
        .threads_max = host->options.threads_max,
        .threads_lost_max = host->options.threads_lost_max,
        .pinned = host->options.pinned,
        .realtime = host->options.realtime,
    };
    const struct tw_wire_options wire = {.listen = host->options.listen, .streams_per_peer_max = STREAMS_MAX};
    tw_status status = tw_executor_start(&executor, &host->executor, error);
    if (status != TW_OK)
        return status;
    host->threads_needed = QUESTIONS_PARALLEL;
    host->questions = tw_lane_new(host->executor, QUESTIONS_PARALLEL, NULL);
    if (host->questions == NULL || pthread_create(&host->closer, NULL, guests_close_main, host) != 0)
        return tw_error_set(error, TW_NO_MEMORY, "no memory, or no thread, for the host");
    host->is_closer_gone = false;
    return tw_wire_server_start(&wire, methods, &host->wire, error);
}

tw_status tw_host_start(const struct tw_host_options *options, struct tw_host **ret_host, struct tw_error *error)
{
    struct tw_host *host = calloc(1, sizeof *host);
    if (host == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the host");
    host->options = *options;
    host->is_closer_gone = true;
    pthread_mutex_init(&host->lock, NULL);
    pthread_cond_init(&host->news, NULL);
    snprintf(host->epoch, sizeof host->epoch, "%llx", (unsigned long long)tw_wall_ns());
    host_here = host;
    tw_status status = parts_start(host, error);
    if (status != TW_OK) {
        (void)tw_host_stop(host);
        return status;
    }
    *ret_host = host;
    return TW_OK;
}

/* An order that the adapter has kept beyond its time and the account's settle time. Under host->lock. */
static bool has_overdue(const struct tw_host *host)
{
    int64_t now_ns = tw_mono_ns();
    bool is_overdue = false;
    for (struct guest *guest = host->guests; guest != NULL && !is_overdue; guest = guest->next) {
        pthread_mutex_lock(&guest->lock);
        is_overdue = memory_is_overdue(&guest->memory, now_ns, (int64_t)guest->can.settle_ms * TW_NS_PER_MS);
        pthread_mutex_unlock(&guest->lock);
    }
    return is_overdue;
}

const char *tw_host_is_worn(struct tw_host *host)
{
    struct tw_executor_status status;
    tw_executor_status_get(host->executor, &status);
    uint32_t lost_max = host->options.threads_lost_max > 0 ? host->options.threads_lost_max : TW_THREADS_LOST_MAX_DEFAULT;
    bool is_blocked = false;
    pthread_mutex_lock(&host->lock);
    for (const struct guest *guest = host->guests; guest != NULL && !is_blocked; guest = guest->next)
        is_blocked = tw_lane_is_blocked(guest->lane);
    bool is_overdue = status.threads_lost > 0 && has_overdue(host);
    pthread_mutex_unlock(&host->lock);
    if (tw_lane_is_blocked(host->questions))
        return "it does not come back from a question about settings";
    if (is_blocked)
        return "an account's calls do not come back, one after the other";
    if (is_overdue)
        return "an order does not come back: only the end of this process proves that it goes out no more";
    return status.threads_lost >= lost_max ? "too many calls do not come back" : NULL;
}

uint32_t tw_host_stop(struct tw_host *host)
{
    enum { GRACE_MS = 200 };
    if (host == NULL)
        return 0;
    tw_wire_server_stop(host->wire, GRACE_MS);
    pthread_mutex_lock(&host->lock);
    while (host->guests != NULL) {
        struct guest *guest = host->guests;
        host->guests = guest->next;
        pthread_mutex_unlock(&host->lock);
        guest_drop(guest);
        pthread_mutex_lock(&host->lock);
    }
    host->is_stopping = true;
    pthread_cond_signal(&host->news);
    pthread_mutex_unlock(&host->lock);
    uint32_t lost = tw_executor_stop(host->executor);
    if (lost > 0)
        return lost; /* what they are in stays as it is */
    if (!host->is_closer_gone)
        pthread_join(host->closer, NULL);
    tw_lane_free(host->questions);
    pthread_cond_destroy(&host->news);
    pthread_mutex_destroy(&host->lock);
    free(host);
    host_here = NULL;
    return 0;
}
