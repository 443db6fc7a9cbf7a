/* MetricsService over a real connection: the four methods, and an end with streams still open. */
#include "metrics_service.h"
#include "telemetry_fixture.h"

#include <tradewake/telemetry/telemetry.h>
#include <tradewake/wire/client.h>

#include <tradewake/v1/metrics.pb-c.h>

#include <criterion/criterion.h>

#define SERVICE "/tradewake.v1.MetricsService/"

TestSuite(metrics_wire, .timeout = 60);

static const struct tw_wire_method methods[] = {TW_METRICS_METHODS, {.path = NULL}};

static void executor_now(void *context, struct tw_executor_status *ret_status,
                         uint32_t *ret_threads_needed)
{
    (void)context;
    *ret_status = (struct tw_executor_status){.threads = 1024, .threads_ready = 1024};
    *ret_threads_needed = 960;
}

static void followers_now(void *context, uint32_t *ret_total, uint32_t *ret_connected)
{
    (void)context;
    *ret_total = *ret_connected = 30;
}

static struct tw_telemetry *telemetry;
static struct tw_wire_server *server;
static struct tw_wire_client *client;
static struct tw_arena arena;
static struct subject copy;

static void start(void)
{
    const struct tw_telemetry_options options = {
        .instance_id = "instance-1",
        .version = "0.1.0",
        .admin_listen = "",
        .subjects = fixture_subjects,
        .callbacks = {.executor = executor_now, .followers = followers_now},
    };
    const struct tw_wire_options wire = {.listen = "127.0.0.1:0", .rpc_threads = 2};
    char address[64];
    struct tw_error error = {""};
    cr_assert_eq(tw_telemetry_start(&options, &telemetry, &error), TW_OK, "%s", error.text);
    tw_metrics_service_open(telemetry);
    cr_assert_eq(tw_wire_server_start(&wire, methods, &server, &error), TW_OK, "%s", error.text);
    snprintf(address, sizeof address, "127.0.0.1:%d", tw_wire_server_port(server));
    cr_assert_eq(tw_wire_client_open_plain(address, &client, &error), TW_OK, "%s", error.text);
    tw_arena_init(&arena, 16u * 1024u * 1024u);
    subject_init(&copy, "M1", "F1");
}

static void stop(void)
{
    tw_arena_clear(&arena);
    tw_wire_client_close(client);
    tw_wire_server_stop(server, 1000);
    tw_metrics_service_close();
    tw_telemetry_stop(telemetry);
    cr_expect_eq(atomic_load(&copy.references), 0);
}

static int64_t soon(void)
{
    return tw_mono_ns() + 10 * TW_NS_PER_S;
}

static tw_status call(const char *path, const ProtobufCMessage *request,
                      ProtobufCMessage **ret_response, struct tw_wire_answer *ret_answer)
{
    struct tw_error error;
    return tw_wire_client_call(client, path, request, soon(), &arena, ret_response, ret_answer,
                               &error);
}

static struct tw_wire_stream *stream_begin(const char *path, const ProtobufCMessage *request)
{
    struct tw_wire_stream *stream;
    struct tw_error error = {""};
    cr_assert_eq(tw_wire_stream_open(client, path, request, INT64_MAX, &stream, &error), TW_OK,
                 "%s", error.text);
    return stream;
}

static ProtobufCMessage *stream_next(struct tw_wire_stream *stream)
{
    ProtobufCMessage *message = NULL;
    struct tw_wire_answer answer = {0};
    struct tw_error error = {""};
    cr_assert_eq(tw_wire_stream_read(stream, soon(), &arena, &message, &answer, &error), TW_OK,
                 "%s", error.text);
    return message;
}

Test(metrics_wire, single_questions_are_answered, .init = start, .fini = stop)
{
    Tradewake__V1__GetExecutorStatusRequest status;
    Tradewake__V1__GetOwnTimeSummaryRequest summary;
    ProtobufCMessage *response = NULL;
    struct tw_wire_answer answer = {0};
    tradewake__v1__get_executor_status_request__init(&status);
    tradewake__v1__get_own_time_summary_request__init(&summary);
    for (int i = 0; i < 100; i++)
        cr_assert(put_one(tw_telemetry_sampler(telemetry), &copy, 1000000));

    cr_assert_eq(call(SERVICE "GetExecutorStatus", &status.base, &response, &answer), TW_OK);
    cr_expect_eq(((Tradewake__V1__ExecutorStatus *)response)->threads_needed, 960);
    for (int i = 0; i < 50; i++) {
        cr_assert_eq(call(SERVICE "GetOwnTimeSummary", &summary.base, &response, &answer), TW_OK);
        cr_assert_eq(((Tradewake__V1__OwnTimeSummary *)response)->groups[0]->own_time->count, 100);
    }
    summary.group_by = TRADEWAKE__V1__GROUP_BY__GROUP_BY_BURST;
    cr_assert_eq(call(SERVICE "GetOwnTimeSummary", &summary.base, &response, &answer), TW_REFUSED);
    cr_expect_eq(answer.refusal.reason, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_INVALID_FIELD);
    cr_expect_str_eq(answer.refusal.field, "group_by");
}

Test(metrics_wire, a_watcher_gets_every_sample, .init = start, .fini = stop)
{
    Tradewake__V1__WatchOwnTimeRequest request;
    tradewake__v1__watch_own_time_request__init(&request);
    struct tw_wire_stream *stream = stream_begin(SERVICE "WatchOwnTime", &request.base);
    Tradewake__V1__WatchOwnTimeResponse *response = (void *)stream_next(stream);
    cr_assert_eq(response->payload_case, TRADEWAKE__V1__WATCH_OWN_TIME_RESPONSE__PAYLOAD_STARTED);

    uint64_t received = 0;
    for (int i = 0; i < 10000; i++)
        cr_assert(put_one(tw_telemetry_sampler(telemetry), &copy, 1000000));
    while (received < 10000) {
        tw_arena_reset(&arena);
        response = (void *)stream_next(stream);
        cr_assert_eq(response->payload_case, TRADEWAKE__V1__WATCH_OWN_TIME_RESPONSE__PAYLOAD_BATCH);
        cr_assert_eq(response->batch->first_sample_id, received);
        received += response->batch->n_samples;
    }
    cr_expect_eq(received, 10000);
    tw_wire_stream_close(stream);
}

Test(metrics_wire, windows_arrive, .init = start, .fini = stop)
{
    Tradewake__V1__WatchOwnTimeSummaryRequest request;
    Google__Protobuf__Duration window;
    tradewake__v1__watch_own_time_summary_request__init(&request);
    google__protobuf__duration__init(&window);
    window.nanos = 100000000;
    request.window = &window;
    struct tw_wire_stream *stream = stream_begin(SERVICE "WatchOwnTimeSummary", &request.base);
    Tradewake__V1__WatchOwnTimeSummaryResponse *response = (void *)stream_next(stream);
    cr_assert_eq(response->payload_case,
                 TRADEWAKE__V1__WATCH_OWN_TIME_SUMMARY_RESPONSE__PAYLOAD_STARTED);

    uint64_t copies = 0;
    for (int i = 0; i < 500; i++)
        cr_assert(put_one(tw_telemetry_sampler(telemetry), &copy, 1000000));
    while (copies < 500) {
        response = (void *)stream_next(stream);
        cr_assert_eq(response->payload_case,
                     TRADEWAKE__V1__WATCH_OWN_TIME_SUMMARY_RESPONSE__PAYLOAD_SUMMARY);
        copies += response->summary->groups[0]->own_time->count;
    }
    cr_expect_eq(copies, 500);
    tw_wire_stream_close(stream);
}

/* Readers that are cancelled, ended by the server, or left alone, while samples keep coming. */
Test(metrics_wire, nothing_is_left_behind_by_streams_that_end, .init = start, .fini = stop)
{
    Tradewake__V1__WatchOwnTimeRequest request;
    Tradewake__V1__WatchOwnTimeSummaryRequest summary;
    tradewake__v1__watch_own_time_request__init(&request);
    tradewake__v1__watch_own_time_summary_request__init(&summary);
    for (int round = 0; round < 20; round++) {
        struct tw_wire_stream *stream = stream_begin(SERVICE "WatchOwnTime", &request.base);
        struct tw_wire_stream *windows = stream_begin(SERVICE "WatchOwnTimeSummary", &summary.base);
        if (round % 2 == 0)
            (void)stream_next(stream);
        for (int i = 0; i < 500; i++)
            cr_assert(put_one(tw_telemetry_sampler(telemetry), &copy, 1000000));
        tw_wire_stream_close(stream);
        tw_wire_stream_close(windows);
    }
    samples_await(tw_telemetry_sampler(telemetry), 20 * 500);

    struct tw_wire_stream *stream = stream_begin(SERVICE "WatchOwnTime", &request.base);
    (void)stream_next(stream);
    tw_wire_server_end_streams(server);
    ProtobufCMessage *message = NULL;
    struct tw_wire_answer answer = {0};
    struct tw_error error;
    tw_status status;
    while ((status = tw_wire_stream_read(stream, soon(), &arena, &message, &answer, &error)) ==
           TW_OK)
        ;
    cr_expect_eq(status, TW_REFUSED);
    cr_expect_eq(answer.refusal.reason, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_SHUTTING_DOWN);
    tw_wire_stream_close(stream);
    while (totals_now(tw_telemetry_sampler(telemetry)).readers > 0)
        ;
}
