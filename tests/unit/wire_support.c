#include "wire_support.h"

#include "details.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct seen seen;

/* Criterion's own process forgets one of its timers when it runs tests with time-outs. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libcriterion.so\n";
}

int64_t in_ms(int64_t ms)
{
    return tw_mono_ns() + ms * TW_NS_PER_MS;
}

bool await_count(atomic_int *counter, int value)
{
    int64_t until_ns = in_ms(10000);
    while (atomic_load(counter) < value) {
        if (tw_mono_ns() > until_ns)
            return false;
        usleep(500);
    }
    return true;
}

/* ---- SubmitEvent. ---- */

static void answer_id(struct tw_call *call, const char *event_id)
{
    Tradewake__V1__SubmitEventResponse response;
    tradewake__v1__submit_event_response__init(&response);
    response.event_id = (char *)(uintptr_t)event_id;
    response.accepted = 1;
    tw_call_answer(call, &response.base);
}

static void refuse_fully(struct tw_call *call)
{
    struct tw_refusal refusal;
    tw_refuse(&refusal, REASON(POSITION_EXISTS), "event.open.position_id",
              "position \"%s\" is open", "17");
    tw_refusal_fact_add(&refusal, "open_since_ms", "%d", 1200);
    refusal.retry_after_ns = 1500 * TW_NS_PER_MS;
    tw_call_refuse(call, &refusal);
}

static void refuse_overload(struct tw_call *call)
{
    struct tw_refusal refusal;
    tw_refuse(&refusal, REASON(OVERLOADED), NULL, "full");
    refusal.retry_after_ns = 100 * TW_NS_PER_MS;
    tw_call_refuse(call, &refusal);
}

static void *post_often(void *arg)
{
    struct tw_call *call = arg;
    for (int i = 0; i < 100; i++)
        tw_call_post(call);
    tw_call_unref(call);
    return NULL;
}

static void post_from_elsewhere(struct tw_call *call)
{
    pthread_t thread;
    int failure = pthread_create(&thread, NULL, post_often, tw_call_ref(call));
    assert(failure == 0);
    (void)failure;
    pthread_detach(thread);
}

static void answer_huge(struct tw_call *call)
{
    size_t size = 5u * 1024u * 1024u;
    char *text = malloc(size + 1);
    assert(text != NULL);
    memset(text, 'x', size);
    text[size] = '\0';
    answer_id(call, text);
    free(text);
}

static void submit_on_request(struct tw_call *call, const ProtobufCMessage *request,
                              const struct tw_refusal *invalid)
{
    (void)invalid;
    const Tradewake__V1__SubmitEventRequest *submit_request = (const void *)request;
    const char *id = submit_request->event == NULL ? "" : submit_request->event->event_id;
    atomic_fetch_add(&seen.requests, 1); /* before the client can know */
    atomic_store(&seen.received_mono_ns, tw_call_received_mono_ns(call));
    atomic_store(&seen.deadline_mono_ns, tw_call_deadline_mono_ns(call));
    if (strcmp(id, "refuse") == 0)
        refuse_fully(call);
    else if (strcmp(id, "overload") == 0)
        refuse_overload(call);
    else if (strcmp(id, "later") == 0)
        post_from_elsewhere(call);
    else if (strcmp(id, "timer") == 0)
        tw_call_timer_set(call, in_ms(30));
    else if (strcmp(id, "huge") == 0)
        answer_huge(call);
    else if (strcmp(id, "header") == 0)
        answer_id(call, tw_call_metadata(call, "x-request-id"));
    else if (strcmp(id, "token") == 0)
        answer_id(call, tw_call_metadata(call, "authorization"));
    else if (strcmp(id, "never") != 0)
        answer_id(call, id);
}

static void submit_on_post(struct tw_call *call)
{
    atomic_fetch_add(&seen.posts, 1);
    answer_id(call, "later");
}

static void submit_on_timer(struct tw_call *call)
{
    atomic_store(&seen.timer_ran_mono_ns, tw_mono_ns());
    atomic_fetch_add(&seen.timers, 1);
    answer_id(call, "timer");
}

static void count_finished(struct tw_call *call, bool cancelled)
{
    (void)call;
    atomic_fetch_add(&seen.cancelled, cancelled);
    atomic_fetch_add(&seen.finished, 1);
}

/* ---- StreamEvents. ---- */

static void stream_on_request(struct tw_call *call, const ProtobufCMessage *request,
                              const struct tw_refusal *invalid)
{
    const Tradewake__V1__StreamEventsRequest *message = (const void *)request;
    const char *id = message == NULL || message->event == NULL ? "" : message->event->event_id;
    Tradewake__V1__EventRefusal refused;
    tradewake__v1__event_refusal__init(&refused);
    Tradewake__V1__StreamEventsResponse response;
    tradewake__v1__stream_events_response__init(&response);
    response.event_id = (char *)(uintptr_t)id;
    if (invalid != NULL) {
        refused.code = tw_refusal_code(invalid->reason);
        refused.reason = (char *)(uintptr_t)tw_refusal_name(invalid->reason);
        refused.field = (char *)(uintptr_t)invalid->field;
        response.refused = &refused;
        response.answer_case = TRADEWAKE__V1__STREAM_EVENTS_RESPONSE__ANSWER_REFUSED;
    }
    atomic_fetch_add(&seen.requests, 1); /* before the client can know */
    atomic_store(&seen.received_mono_ns, tw_call_received_mono_ns(call));
    if (!tw_call_write(call, &response.base, false))
        atomic_fetch_add(&seen.blocked, 1);
    tw_call_reading_pause(call); /* until this answer is out */
    if (strcmp(id, "end") == 0)
        tw_call_end(call);
    if (strcmp(id, "pause") == 0)
        tw_call_timer_set(call, in_ms(30));
}

static void stream_on_writable(struct tw_call *call)
{
    tw_call_reading_resume(call);
}

static void stream_on_half_close(struct tw_call *call)
{
    atomic_fetch_add(&seen.half_closes, 1);
    tw_call_end(call);
}

static void stream_on_timer(struct tw_call *call)
{
    atomic_fetch_add(&seen.timers, 1);
    tw_call_reading_resume(call);
}

/* ---- WatchOwnTime. ---- */

struct watch {
    char mode[16];
    uint32_t left;
};

static void watch_write(struct tw_call *call)
{
    static char filler[1000];
    struct watch *watch = tw_call_data(call);
    if (watch == NULL || strcmp(watch->mode, "quiet") == 0)
        return;
    memset(filler, 'f', sizeof filler - 1);
    while (watch->left > 0 && tw_call_is_writable(call)) {
        Tradewake__V1__WatchStarted started;
        tradewake__v1__watch_started__init(&started);
        started.instance_id = filler;
        started.last_change_id = watch->left;
        Tradewake__V1__WatchOwnTimeResponse response;
        tradewake__v1__watch_own_time_response__init(&response);
        response.payload_case = TRADEWAKE__V1__WATCH_OWN_TIME_RESPONSE__PAYLOAD_STARTED;
        response.started = &started;
        watch->left--;
        if (!tw_call_write(call, &response.base, watch->left > 0))
            abort();
        atomic_fetch_add(&seen.writes, 1);
    }
    if (watch->left == 0)
        tw_call_end(call);
}

static void watch_on_request(struct tw_call *call, const ProtobufCMessage *request,
                             const struct tw_refusal *invalid)
{
    (void)invalid;
    const Tradewake__V1__WatchOwnTimeRequest *watch_request = (const void *)request;
    const char *mode = watch_request->filter == NULL ? "quiet" : watch_request->filter->master_id;
    atomic_fetch_add(&seen.requests, 1);
    if (strcmp(mode, "refuse") == 0) {
        refuse_fully(call);
        return;
    }
    struct watch *watch = calloc(1, sizeof *watch);
    assert(watch != NULL);
    snprintf(watch->mode, sizeof watch->mode, "%s", mode);
    watch->left = strcmp(mode, "flood") == 0 ? UINT32_MAX : watch_request->max_batch;
    tw_call_data_set(call, watch);
    if (strcmp(mode, "flood") == 0)
        tw_call_timer_set(call, in_ms(20));
    watch_write(call);
}

static void watch_on_timer(struct tw_call *call)
{
    int64_t started_ns = tw_call_write_started_mono_ns(call);
    if (started_ns != 0 && tw_mono_ns() - started_ns > 200 * TW_NS_PER_MS) {
        struct tw_refusal refusal;
        tw_refuse(&refusal, REASON(SUBSCRIBER_TOO_SLOW), NULL, "nothing was taken for 200 ms");
        atomic_store(&seen.write_started_mono_ns, started_ns);
        tw_call_evict(call, &refusal);
        return;
    }
    atomic_fetch_add(&seen.timers, 1);
    tw_call_timer_set(call, in_ms(20));
}

static void watch_on_finished(struct tw_call *call, bool cancelled)
{
    free(tw_call_data(call));
    count_finished(call, cancelled);
}

static void refuse_on_request(struct tw_call *call, const ProtobufCMessage *request,
                              const struct tw_refusal *invalid)
{
    (void)request;
    (void)invalid;
    struct tw_refusal refusal;
    tw_refuse(&refusal, REASON(UNIMPLEMENTED), NULL, "not in this test");
    tw_call_refuse(call, &refusal);
}

const struct tw_wire_method test_methods[] = {
    {.path = SUBMIT_EVENT,
     .request_bytes_max = 64 * 1024,
     .on_request = submit_on_request,
     .on_post = submit_on_post,
     .on_timer = submit_on_timer,
     .on_finished = count_finished},
    {.path = STREAM_EVENTS,
     .request_bytes_max = 64 * 1024,
     .takes_invalid = true,
     .on_request = stream_on_request,
     .on_writable = stream_on_writable,
     .on_half_close = stream_on_half_close,
     .on_timer = stream_on_timer,
     .on_finished = count_finished},
    {.path = "/tradewake.v1.EventService/SyncMaster", .on_request = refuse_on_request},
    {.path = "/tradewake.v1.EventService/ExplainEvent", .on_request = refuse_on_request},
    {.path = "/tradewake.v1.EventService/GetEvent", .on_request = refuse_on_request},
    {.path = "/tradewake.v1.EventService/GetMaster", .on_request = refuse_on_request},
    {.path = "/tradewake.v1.EventService/ListMasters", .on_request = refuse_on_request},
    {.path = WATCH_OWN_TIME,
     .watches = true,
     .on_request = watch_on_request,
     .on_writable = watch_write,
     .on_timer = watch_on_timer,
     .on_finished = watch_on_finished},
    {.path = "/tradewake.v1.MetricsService/WatchOwnTimeSummary",
     .watches = true,
     .on_request = refuse_on_request},
    {.path = "/tradewake.v1.MetricsService/GetOwnTimeSummary", .on_request = refuse_on_request},
    {.path = "/tradewake.v1.MetricsService/GetExecutorStatus", .on_request = refuse_on_request},
    {.path = NULL},
};

/* ---- A server and a client. ---- */

void pair_start(struct pair *pair, const struct tw_wire_options *options)
{
    pair_start_with(pair, options, test_methods);
}

void pair_start_with(struct pair *pair, const struct tw_wire_options *options,
                     const struct tw_wire_method *methods)
{
    struct tw_wire_options with = options == NULL ? (struct tw_wire_options){0} : *options;
    struct tw_error error = {0};
    if (with.listen == NULL)
        with.listen = "127.0.0.1:0";
    if (with.rpc_threads == 0)
        with.rpc_threads = 2;
    *pair = (struct pair){0};
    tw_status status = tw_wire_server_start(&with, methods, &pair->server, &error);
    if (status != TW_OK) {
        fprintf(stderr, "server: %s\n", error.text);
        abort();
    }
    snprintf(pair->address, sizeof pair->address, "127.0.0.1:%d",
             tw_wire_server_port(pair->server));
    if (tw_wire_client_open_plain(pair->address, &pair->client, &error) != TW_OK)
        abort();
    tw_arena_init(&pair->arena, 16u * 1024u * 1024u);
}

void pair_stop(struct pair *pair)
{
    tw_wire_client_close(pair->client);
    tw_wire_server_stop(pair->server, 2000);
    tw_arena_clear(&pair->arena);
}

tw_status submit(struct pair *pair, const char *event_id, const char *symbol, int64_t deadline_ms,
                 Tradewake__V1__SubmitEventResponse **ret_response,
                 struct tw_wire_answer *ret_answer)
{
    Tradewake__V1__OpenPosition open;
    tradewake__v1__open_position__init(&open);
    Tradewake__V1__TradeEvent event;
    tradewake__v1__trade_event__init(&event);
    Tradewake__V1__SubmitEventRequest request;
    tradewake__v1__submit_event_request__init(&request);
    request.event = &event;
    event.event_id = (char *)(uintptr_t)event_id;
    if (symbol != NULL) {
        open.symbol = (char *)(uintptr_t)symbol;
        event.open = &open;
        event.action_case = TRADEWAKE__V1__TRADE_EVENT__ACTION_OPEN;
    }
    struct tw_error error = {0};
    return tw_wire_client_call(pair->client, SUBMIT_EVENT, &request.base, in_ms(deadline_ms),
                               &pair->arena, (ProtobufCMessage **)ret_response, ret_answer, &error);
}

/* ---- Raw calls. ---- */

struct raw {
    grpc_call *call;
    grpc_completion_queue *queue;
    grpc_metadata_array headers, trailers;
    grpc_status_code code;
    grpc_slice details;
    grpc_byte_buffer *message;
};

static bool raw_batch(struct raw *raw, const grpc_op *ops, size_t n_ops)
{
    grpc_call_error failure = grpc_call_start_batch(raw->call, ops, n_ops, raw, NULL);
    if (failure != GRPC_CALL_OK)
        abort();
    grpc_event event =
        grpc_completion_queue_pluck(raw->queue, raw, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    return event.success != 0;
}

static void raw_send(struct raw *raw, const struct raw_call *call)
{
    grpc_metadata metadata = {.key = grpc_slice_from_static_string("x-request-id")};
    grpc_op open = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    if (call->request_id != NULL) {
        metadata.value = grpc_slice_from_static_string(call->request_id);
        open.data.send_initial_metadata.count = 1;
        open.data.send_initial_metadata.metadata = &metadata;
    }
    raw_batch(raw, &open, 1);
    for (size_t i = 0; i < call->n_messages; i++) {
        grpc_slice slice = grpc_slice_from_copied_buffer(call->messages[i], call->sizes[i]);
        grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
        grpc_slice_unref(slice);
        grpc_op ops[2] = {{.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = buffer},
                          {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT}};
        bool is_last = i + 1 == call->n_messages && !call->leaves_open;
        raw_batch(raw, ops, is_last ? 2 : 1);
        grpc_byte_buffer_destroy(buffer);
    }
    if (call->n_messages == 0 && !call->leaves_open)
        raw_batch(raw, &(grpc_op){.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT}, 1);
    if (call->cancels)
        grpc_call_cancel(raw->call, NULL);
}

static void raw_trailer(const struct raw *raw, const char *key, char *text, size_t size)
{
    for (size_t i = 0; i < raw->trailers.count; i++) {
        const grpc_metadata *trailer = &raw->trailers.metadata[i];
        if (grpc_slice_str_cmp(trailer->key, key) == 0)
            snprintf(text, size, "%.*s", (int)GRPC_SLICE_LENGTH(trailer->value),
                     (const char *)GRPC_SLICE_START_PTR(trailer->value));
    }
}

static void raw_read(struct raw *raw, struct raw_answer *ret)
{
    raw_batch(raw,
              &(grpc_op){.op = GRPC_OP_RECV_INITIAL_METADATA,
                         .data.recv_initial_metadata.recv_initial_metadata = &raw->headers},
              1);
    for (;;) {
        raw_batch(
            raw,
            &(grpc_op){.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &raw->message},
            1);
        if (raw->message == NULL)
            break;
        ret->n_messages++;
        grpc_byte_buffer_destroy(raw->message);
        raw->message = NULL;
    }
    raw_batch(raw,
              &(grpc_op){.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                         .data.recv_status_on_client = {.trailing_metadata = &raw->trailers,
                                                        .status = &raw->code,
                                                        .status_details = &raw->details}},
              1);
    ret->code = raw->code;
    snprintf(ret->message, sizeof ret->message, "%.*s", (int)GRPC_SLICE_LENGTH(raw->details),
             (const char *)GRPC_SLICE_START_PTR(raw->details));
    raw_trailer(raw, "x-request-id", ret->request_id, sizeof ret->request_id);
    raw_trailer(raw, "grpc-retry-pushback-ms", ret->pushback_ms, sizeof ret->pushback_ms);
    for (size_t i = 0; i < raw->trailers.count; i++)
        if (grpc_slice_str_cmp(raw->trailers.metadata[i].key, "grpc-status-details-bin") == 0)
            ret->has_details = wire_details_unpack(
                GRPC_SLICE_START_PTR(raw->trailers.metadata[i].value),
                GRPC_SLICE_LENGTH(raw->trailers.metadata[i].value), &ret->refusal);
}

void raw_run(const char *address, const struct raw_call *call, struct raw_answer *ret)
{
    *ret = (struct raw_answer){0};
    grpc_init();
    grpc_channel_credentials *insecure = grpc_insecure_credentials_create();
    grpc_arg gzip = {.type = GRPC_ARG_INTEGER,
                     .key = (char *)(uintptr_t)GRPC_COMPRESSION_CHANNEL_DEFAULT_ALGORITHM,
                     .value.integer = GRPC_COMPRESS_GZIP};
    grpc_channel_args args = {.num_args = call->compresses ? 1 : 0, .args = &gzip};
    grpc_channel *channel = grpc_channel_create(address, insecure, &args);
    grpc_channel_credentials_release(insecure);
    struct raw raw = {.queue = grpc_completion_queue_create_for_pluck(NULL),
                      .details = grpc_empty_slice()};
    grpc_metadata_array_init(&raw.headers);
    grpc_metadata_array_init(&raw.trailers);
    raw.call = grpc_channel_create_call(
        channel, NULL, GRPC_PROPAGATE_DEFAULTS, raw.queue,
        grpc_slice_from_static_string(call->path), NULL,
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(10, GPR_TIMESPAN)), NULL);
    raw_send(&raw, call);
    raw_read(&raw, ret);

    grpc_slice_unref(raw.details);
    grpc_metadata_array_destroy(&raw.headers);
    grpc_metadata_array_destroy(&raw.trailers);
    grpc_call_unref(raw.call);
    grpc_channel_destroy(channel);
    grpc_completion_queue_shutdown(raw.queue);
    grpc_completion_queue_destroy(raw.queue);
    grpc_shutdown();
}
