/* MetricsService against calls that are not real: what is written when, what is refused, and what
 * happens when nobody reads. Time moves when the test says so. */
#include "metrics_service.h"
#include "telemetry_fixture.h"

#include <tradewake/telemetry/telemetry.h>

#include <tradewake/v1/metrics.pb-c.h>

#include <criterion/criterion.h>

#include <sched.h>
#include <stdlib.h>

#define REASON(name) TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_##name

TestSuite(service, .timeout = 60);

/* ---- A clock that can be moved on. ---- */

int64_t __real_tw_mono_ns(void);
int64_t __wrap_tw_mono_ns(void);
static atomic_llong moved_ns;

int64_t __wrap_tw_mono_ns(void)
{
    return __real_tw_mono_ns() + atomic_load(&moved_ns);
}

/* ---- A call. ---- */

struct tw_call {
    atomic_uint references;
    sem_t posted;
    void *data;
    bool is_stuck; /* a write that is out does not complete */
    int64_t write_started_mono_ns, timer_due_mono_ns;
    bool is_over, is_evicted;
    struct tw_refusal refusal;
    uint8_t *bytes; /* of the last message, packed */
    size_t size;
    unsigned written;
};

static void call_init(struct tw_call *call)
{
    *call = (struct tw_call){.timer_due_mono_ns = INT64_MAX};
    atomic_store(&call->references, 1);
    sem_init(&call->posted, 0, 0);
}

static void message_keep(struct tw_call *call, const ProtobufCMessage *message)
{
    free(call->bytes);
    call->size = protobuf_c_message_get_packed_size(message);
    call->bytes = malloc(call->size + 1);
    protobuf_c_message_pack(message, call->bytes);
    call->written++;
}

void tw_call_data_set(struct tw_call *call, void *data)
{
    call->data = data;
}

void *tw_call_data(const struct tw_call *call)
{
    return call->data;
}

struct tw_call *tw_call_ref(struct tw_call *call)
{
    atomic_fetch_add(&call->references, 1);
    return call;
}

void tw_call_unref(struct tw_call *call)
{
    atomic_fetch_sub(&call->references, 1);
}

void tw_call_post(struct tw_call *call)
{
    sem_post(&call->posted);
}

bool tw_call_is_writable(const struct tw_call *call)
{
    return !call->is_over && call->write_started_mono_ns == 0;
}

int64_t tw_call_write_started_mono_ns(const struct tw_call *call)
{
    return call->write_started_mono_ns;
}

bool tw_call_write(struct tw_call *call, const ProtobufCMessage *message, bool more)
{
    (void)more;
    if (!tw_call_is_writable(call))
        return false;
    message_keep(call, message);
    call->write_started_mono_ns = tw_mono_ns();
    return true;
}

void tw_call_timer_set(struct tw_call *call, int64_t due_mono_ns)
{
    call->timer_due_mono_ns = due_mono_ns;
}

void tw_call_answer(struct tw_call *call, const ProtobufCMessage *response)
{
    cr_assert_not(call->is_over, "answered twice");
    message_keep(call, response);
    call->is_over = true;
}

void tw_call_refuse(struct tw_call *call, const struct tw_refusal *refusal)
{
    cr_assert_not(call->is_over, "refused after the end");
    call->refusal = *refusal;
    call->is_over = true;
}

void tw_call_evict(struct tw_call *call, const struct tw_refusal *refusal)
{
    tw_call_refuse(call, refusal);
    call->is_evicted = true;
}

/* What the stream thread does: the write completes, a post or a timer arrives. */
static void call_go_on(struct tw_call *call)
{
    if (!call->is_stuck)
        call->write_started_mono_ns = 0;
    while (sem_trywait(&call->posted) == 0)
        ;
    tw_metrics_watch_on_news(call);
}

static void call_end(struct tw_call *call)
{
    tw_metrics_watch_on_finished(call, true);
    free(call->bytes);
    call->bytes = NULL;
    while (atomic_load(&call->references) > 1)
        sched_yield(); /* the sampler lets go of it */
}

/* ---- The server around it. ---- */

static struct tw_telemetry *telemetry;
static struct subject copy;

static void executor_now(void *context, struct tw_executor_status *ret_status,
                         uint32_t *ret_threads_needed)
{
    (void)context;
    *ret_status = (struct tw_executor_status){.threads = 1030,
                                              .threads_ready = 1024,
                                              .threads_max = 4096,
                                              .threads_lost = 2,
                                              .threads_created_late = 6,
                                              .calls_in_flight = 7,
                                              .calls_queued = 8,
                                              .peak_in_flight = 810,
                                              .calls_completed = 12345,
                                              .groups = 2,
                                              .pinned = true,
                                              .realtime = true};
    *ret_threads_needed = 960;
}

static void followers_now(void *context, uint32_t *ret_total, uint32_t *ret_connected)
{
    (void)context;
    *ret_total = *ret_connected = 30;
}

static void service_begin(void)
{
    const struct tw_telemetry_options options = {
        .instance_id = "instance-1",
        .version = "0.1.0",
        .admin_listen = "",
        .subjects = fixture_subjects,
        .callbacks = {.executor = executor_now, .followers = followers_now},
    };
    cr_assert_eq(tw_telemetry_start(&options, &telemetry, NULL), TW_OK);
    tw_metrics_service_open(telemetry);
    subject_init(&copy, "M1", "F1");
    copy.received_wall_ns = INT64_C(1764496116250000000);
}

static void service_end(void)
{
    tw_metrics_service_close();
    tw_telemetry_stop(telemetry);
    cr_expect_eq(atomic_load(&copy.references), 0);
}

static void put(uint32_t count)
{
    static uint64_t total;
    for (uint32_t i = 0; i < count; i++) {
        cr_assert(put_one(tw_telemetry_sampler(telemetry), &copy, 1000000 + i));
        if (++total % 4096 == 0)
            samples_await(tw_telemetry_sampler(telemetry), total);
    }
    samples_await(tw_telemetry_sampler(telemetry), total);
}

/* ---- WatchOwnTime. ---- */

static Tradewake__V1__WatchOwnTimeResponse *own_time_last(const struct tw_call *call)
{
    Tradewake__V1__WatchOwnTimeResponse *response =
        tradewake__v1__watch_own_time_response__unpack(NULL, call->size, call->bytes);
    cr_assert_not_null(response);
    return response;
}

static void own_time_free(Tradewake__V1__WatchOwnTimeResponse *response)
{
    tradewake__v1__watch_own_time_response__free_unpacked(response, NULL);
}

/* Waits for the next message of the stream. */
static Tradewake__V1__WatchOwnTimeResponse *own_time_next(struct tw_call *call)
{
    unsigned before = call->written;
    call_go_on(call);
    while (call->written == before) {
        semaphore_await(&call->posted);
        call_go_on(call);
    }
    return own_time_last(call);
}

static void watch_begin(struct tw_call *call, Tradewake__V1__WatchOwnTimeRequest *request)
{
    call_init(call);
    tw_metrics_watch_on_request(call, &request->base, NULL);
    cr_assert_not(call->is_over, "%s", call->refusal.text);
    Tradewake__V1__WatchOwnTimeResponse *response = own_time_next(call);
    cr_assert_eq(response->payload_case, TRADEWAKE__V1__WATCH_OWN_TIME_RESPONSE__PAYLOAD_STARTED);
    cr_expect_str_eq(response->started->instance_id, "instance-1");
    cr_expect_str_eq(response->started->journal_id, "");
    cr_expect_eq(response->started->last_change_id, 0);
    cr_expect_eq(response->started->heartbeat_interval->seconds, 15);
    own_time_free(response);
}

Test(service, a_full_batch_goes_at_once_and_the_rest_after_the_delay)
{
    Tradewake__V1__WatchOwnTimeRequest request = TRADEWAKE__V1__WATCH_OWN_TIME_REQUEST__INIT;
    Google__Protobuf__Duration delay = GOOGLE__PROTOBUF__DURATION__INIT;
    struct tw_call call;
    service_begin();
    request.max_batch = 4;
    delay.seconds = 10;
    request.max_delay = &delay;
    watch_begin(&call, &request);

    put(8);
    for (unsigned i = 0; i < 2; i++) {
        Tradewake__V1__WatchOwnTimeResponse *response = own_time_next(&call);
        cr_assert_eq(response->payload_case, TRADEWAKE__V1__WATCH_OWN_TIME_RESPONSE__PAYLOAD_BATCH);
        cr_expect_eq(response->batch->first_sample_id, i * 4);
        cr_expect_eq(response->batch->n_samples, 4);
        own_time_free(response);
    }
    put(2);
    call_go_on(&call);
    cr_expect_eq(call.written, 3, "two samples wait for more");
    cr_expect_leq(call.timer_due_mono_ns, tw_mono_ns() + 10 * TW_NS_PER_S);

    atomic_fetch_add(&moved_ns, 10 * TW_NS_PER_S);
    cr_assert_leq(call.timer_due_mono_ns, tw_mono_ns());
    Tradewake__V1__WatchOwnTimeResponse *response = own_time_next(&call);
    cr_expect_eq(response->batch->first_sample_id, 8);
    cr_expect_eq(response->batch->n_samples, 2);
    own_time_free(response);
    call_end(&call);
    service_end();
}

Test(service, a_sample_carries_everything_the_copy_knows)
{
    Tradewake__V1__WatchOwnTimeRequest request = TRADEWAKE__V1__WATCH_OWN_TIME_REQUEST__INIT;
    struct tw_call call;
    service_begin();
    watch_begin(&call, &request);
    put(1);
    call_go_on(&call); /* seen: the delay begins */
    cr_assert_eq(call.written, 1);
    atomic_fetch_add(&moved_ns, 20 * TW_NS_PER_MS);

    Tradewake__V1__WatchOwnTimeResponse *response = own_time_next(&call);
    cr_assert_eq(response->payload_case, TRADEWAKE__V1__WATCH_OWN_TIME_RESPONSE__PAYLOAD_BATCH);
    const Tradewake__V1__OwnTimeSample *sample = response->batch->samples[0];
    cr_expect_str_eq(sample->copy_id, "T1ABCDEFGHIJKLMNOPQR");
    cr_expect_str_eq(sample->event_id, "E1");
    cr_expect_str_eq(sample->master_id, "M1");
    cr_expect_str_eq(sample->follower_id, "F1");
    cr_expect_eq(sample->action, TRADEWAKE__V1__COPY_ACTION__COPY_ACTION_CLOSE);
    cr_expect_eq(sample->received_at->seconds, 1764496116);
    cr_expect_eq(sample->received_at->nanos, 250000000);
    cr_expect_eq(sample->times->planned_ns, 1000);
    cr_expect_eq(sample->times->journaled_ns, 2000);
    cr_expect_eq(sample->times->started_ns, 999000);
    cr_expect_eq(sample->times->called_ns, 1000000);
    cr_expect_eq(sample->times->answered_ns, 131000000);
    cr_expect_eq(sample->times->held_ns, 0);
    cr_expect_eq(sample->times->upstream_ns, 1000);
    cr_expect_eq(sample->own_time_ns, 1000000);
    cr_expect_eq(sample->threads_at_start, 1024);
    cr_expect_eq(sample->threads_created, 0);
    cr_expect_eq(sample->queue_depth, 3);
    cr_expect(sample->blocking);
    cr_expect_not(sample->warming_up);
    cr_expect_str_eq(sample->trace_id, "");
    own_time_free(response);
    call_end(&call);
    service_end();
}

Test(service, received_and_dropped_are_the_total)
{
    const uint64_t total = TW_STREAM_QUEUE_ENTRIES + 5000;
    Tradewake__V1__WatchOwnTimeRequest request = TRADEWAKE__V1__WATCH_OWN_TIME_REQUEST__INIT;
    struct tw_call call;
    uint64_t received = 0, dropped = 0;
    service_begin();
    request.max_batch = 4096;
    watch_begin(&call, &request);

    put((uint32_t)total); /* nobody reads meanwhile */
    while (received + dropped < total) {
        Tradewake__V1__WatchOwnTimeResponse *response = own_time_next(&call);
        if (response->payload_case == TRADEWAKE__V1__WATCH_OWN_TIME_RESPONSE__PAYLOAD_DROPPED) {
            dropped += response->dropped->count;
        } else {
            cr_assert_eq(response->batch->first_sample_id, received + dropped);
            received += response->batch->n_samples;
        }
        own_time_free(response);
    }
    cr_expect_eq(received, TW_STREAM_QUEUE_ENTRIES);
    cr_expect_eq(dropped, 5000);
    call_end(&call);
    service_end();
}

Test(service, an_idle_stream_beats_every_fifteen_seconds)
{
    Tradewake__V1__WatchOwnTimeRequest request = TRADEWAKE__V1__WATCH_OWN_TIME_REQUEST__INIT;
    struct tw_call call;
    service_begin();
    watch_begin(&call, &request);
    call_go_on(&call);
    cr_assert_eq(call.written, 1);

    for (unsigned i = 0; i < 2; i++) {
        atomic_fetch_add(&moved_ns, 14 * TW_NS_PER_S);
        call_go_on(&call);
        cr_expect_eq(call.written, 1 + i, "not before its time");
        atomic_fetch_add(&moved_ns, TW_NS_PER_S);
        cr_assert_leq(call.timer_due_mono_ns, tw_mono_ns());
        call_go_on(&call);
        cr_assert_eq(call.written, 2 + i);
        Tradewake__V1__WatchOwnTimeResponse *response = own_time_last(&call);
        cr_assert_eq(response->payload_case,
                     TRADEWAKE__V1__WATCH_OWN_TIME_RESPONSE__PAYLOAD_HEARTBEAT);
        cr_expect_gt(response->heartbeat->server_time->seconds, 1700000000);
        own_time_free(response);
        call_go_on(&call);
    }
    call_end(&call);
    service_end();
}

Test(service, a_reader_that_takes_nothing_for_thirty_seconds_is_ended)
{
    Tradewake__V1__WatchOwnTimeRequest request = TRADEWAKE__V1__WATCH_OWN_TIME_REQUEST__INIT;
    struct tw_call call;
    service_begin();
    watch_begin(&call, &request);
    call.is_stuck = true;
    call_go_on(&call);
    put(10);
    atomic_fetch_add(&moved_ns, 29 * TW_NS_PER_S);
    call_go_on(&call);
    cr_assert_not(call.is_over);

    atomic_fetch_add(&moved_ns, TW_NS_PER_S);
    cr_assert_leq(call.timer_due_mono_ns, tw_mono_ns());
    call_go_on(&call);
    cr_assert(call.is_evicted);
    cr_expect_eq(call.refusal.reason, REASON(SUBSCRIBER_TOO_SLOW));
    call_go_on(&call); /* a post that comes late finds nothing to do */
    call_end(&call);
    service_end();
}

/* ---- WatchOwnTimeSummary. ---- */

static Tradewake__V1__WatchOwnTimeSummaryResponse *summary_next(struct tw_call *call)
{
    unsigned before = call->written;
    call_go_on(call);
    while (call->written == before) {
        semaphore_await(&call->posted);
        call_go_on(call);
    }
    return tradewake__v1__watch_own_time_summary_response__unpack(NULL, call->size, call->bytes);
}

static void summary_free(Tradewake__V1__WatchOwnTimeSummaryResponse *response)
{
    tradewake__v1__watch_own_time_summary_response__free_unpacked(response, NULL);
}

Test(service, windows_add_up_and_a_slow_reader_gets_merged_ones)
{
    Tradewake__V1__WatchOwnTimeSummaryRequest request =
        TRADEWAKE__V1__WATCH_OWN_TIME_SUMMARY_REQUEST__INIT;
    Google__Protobuf__Duration window = GOOGLE__PROTOBUF__DURATION__INIT;
    struct tw_call call;
    service_begin();
    window.nanos = 100000000;
    request.window = &window;
    call_init(&call);
    tw_metrics_watch_summary_on_request(&call, &request.base, NULL);
    Tradewake__V1__WatchOwnTimeSummaryResponse *response = summary_next(&call);
    cr_assert_eq(response->payload_case,
                 TRADEWAKE__V1__WATCH_OWN_TIME_SUMMARY_RESPONSE__PAYLOAD_STARTED);
    cr_expect_str_eq(response->started->instance_id, "instance-1");
    summary_free(response);

    for (unsigned i = 0; i < 5; i++) { /* five windows end while a write is out */
        put(100);
        while (sem_trywait(&call.posted) == 0)
            ;
        semaphore_await(&call.posted);
    }
    uint64_t copies = 0;
    int64_t longest_ns = 0;
    while (copies < 500) {
        response = summary_next(&call);
        cr_assert_eq(response->payload_case,
                     TRADEWAKE__V1__WATCH_OWN_TIME_SUMMARY_RESPONSE__PAYLOAD_SUMMARY);
        const Tradewake__V1__OwnTimeSummary *summary = response->summary;
        cr_assert_eq(summary->n_groups, 1, "one group, also when it is empty");
        cr_expect_str_eq(summary->groups[0]->key, "");
        copies += summary->groups[0]->own_time->count;
        int64_t length_ns =
            (summary->window_end->seconds - summary->window_start->seconds) * TW_NS_PER_S +
            summary->window_end->nanos - summary->window_start->nanos;
        longest_ns = length_ns > longest_ns ? length_ns : longest_ns;
        cr_expect_eq(summary->executor->threads, 1030);
        summary_free(response);
    }
    cr_expect_eq(copies, 500);
    cr_expect_geq(longest_ns, 5 * 100 * TW_NS_PER_MS, "five windows came as one");
    call_end(&call);
    service_end();
}

Test(service, a_long_window_beats_meanwhile)
{
    Tradewake__V1__WatchOwnTimeSummaryRequest request =
        TRADEWAKE__V1__WATCH_OWN_TIME_SUMMARY_REQUEST__INIT;
    Google__Protobuf__Duration window = GOOGLE__PROTOBUF__DURATION__INIT;
    struct tw_call call;
    service_begin();
    window.seconds = 3600;
    request.window = &window;
    call_init(&call);
    tw_metrics_watch_summary_on_request(&call, &request.base, NULL);
    summary_free(summary_next(&call));
    call_go_on(&call);
    cr_assert_eq(call.written, 1);

    atomic_fetch_add(&moved_ns, 15 * TW_NS_PER_S);
    cr_assert_leq(call.timer_due_mono_ns, tw_mono_ns());
    Tradewake__V1__WatchOwnTimeSummaryResponse *response = summary_next(&call);
    cr_expect_eq(response->payload_case,
                 TRADEWAKE__V1__WATCH_OWN_TIME_SUMMARY_RESPONSE__PAYLOAD_HEARTBEAT);
    summary_free(response);
    call_end(&call);
    service_end();
}

/* ---- GetOwnTimeSummary and GetExecutorStatus. ---- */

static void get_end(struct tw_call *call)
{
    tw_metrics_summary_on_finished(call, false);
    free(call->bytes);
    while (atomic_load(&call->references) > 1)
        sched_yield();
}

Test(service, the_summary_since_start_has_figures_and_buckets_that_agree)
{
    Tradewake__V1__GetOwnTimeSummaryRequest request =
        TRADEWAKE__V1__GET_OWN_TIME_SUMMARY_REQUEST__INIT;
    struct tw_call call;
    service_begin();
    put(1000);
    request.group_by = TRADEWAKE__V1__GROUP_BY__GROUP_BY_THREADS;
    call_init(&call);
    tw_metrics_summary_on_request(&call, &request.base, NULL);
    semaphore_await(&call.posted);
    tw_metrics_summary_on_post(&call);

    Tradewake__V1__OwnTimeSummary *summary =
        tradewake__v1__own_time_summary__unpack(NULL, call.size, call.bytes);
    cr_assert_not_null(summary);
    cr_assert_eq(summary->n_groups, 1);
    cr_expect_str_eq(summary->groups[0]->key, "513-1024");
    const Tradewake__V1__Histogram *own = summary->groups[0]->own_time;
    cr_expect_eq(own->count, 1000);
    cr_expect_eq(own->min_ns, 1000000);
    cr_expect_eq(own->max_ns, 1000999);
    cr_expect_eq(own->sum_ns, UINT64_C(1000499500));
    cr_expect(own->p50_ns >= 1000499 && own->p50_ns <= 1000499 + 10004);
    cr_expect(own->p50_ns <= own->p90_ns && own->p90_ns <= own->p95_ns &&
              own->p95_ns <= own->p99_ns && own->p99_ns <= own->p999_ns &&
              own->p999_ns <= own->max_ns);
    cr_assert_eq(own->n_bucket_upper_ns, own->n_bucket_count);
    uint64_t counted = 0;
    for (size_t i = 0; i < own->n_bucket_count; i++)
        counted += own->bucket_count[i];
    cr_expect_eq(counted, 1000);
    cr_expect_eq(summary->groups[0]->path_time->max_ns, 1001999);
    cr_expect_eq(summary->groups[0]->broker_time->min_ns, 130000000);
    cr_expect_eq(summary->samples_lost, 0);
    cr_expect_gt(summary->window_end->seconds * TW_NS_PER_S + summary->window_end->nanos,
                 summary->window_start->seconds * TW_NS_PER_S + summary->window_start->nanos);
    tradewake__v1__own_time_summary__free_unpacked(summary, NULL);
    get_end(&call);
    service_end();
}

Test(service, a_caller_that_went_away_is_not_answered_and_leaves_nothing)
{
    Tradewake__V1__GetOwnTimeSummaryRequest request =
        TRADEWAKE__V1__GET_OWN_TIME_SUMMARY_REQUEST__INIT;
    struct tw_call call;
    service_begin();
    call_init(&call);
    tw_metrics_summary_on_request(&call, &request.base, NULL);
    tw_metrics_summary_on_finished(&call, true);
    semaphore_await(&call.posted);
    tw_metrics_summary_on_post(&call);
    cr_expect_eq(call.written, 0);
    get_end(&call);
    service_end();
}

Test(service, the_executor_is_shown_number_by_number)
{
    Tradewake__V1__GetExecutorStatusRequest request =
        TRADEWAKE__V1__GET_EXECUTOR_STATUS_REQUEST__INIT;
    struct tw_call call;
    service_begin();
    call_init(&call);
    tw_metrics_executor_on_request(&call, &request.base, NULL);

    Tradewake__V1__ExecutorStatus *status =
        tradewake__v1__executor_status__unpack(NULL, call.size, call.bytes);
    cr_assert_not_null(status);
    cr_expect_eq(status->threads, 1030);
    cr_expect_eq(status->threads_ready, 1024);
    cr_expect_eq(status->threads_max, 4096);
    cr_expect_eq(status->threads_needed, 960);
    cr_expect_eq(status->calls_in_flight, 7);
    cr_expect_eq(status->calls_queued, 8);
    cr_expect_eq(status->calls_completed, 12345);
    cr_expect_eq(status->threads_created_late, 6);
    cr_expect_eq(status->peak_in_flight, 810);
    cr_expect_gt(status->resident_bytes, 1000000);
    cr_expect_eq(status->threads_lost, 2);
    cr_expect_eq(status->groups, 2);
    cr_expect(status->pinned);
    cr_expect(status->realtime);
    cr_assert_not_null(status->warm_since, "without a warm-up it is warm from the start");
    tradewake__v1__executor_status__free_unpacked(status, NULL);
    free(call.bytes);
    service_end();
}

/* ---- What is refused. ---- */

struct refusal_row {
    const char *name, *field;
    const char *master_id, *follower_id;
    int64_t min_own_time_s;
    uint32_t max_batch;
    int64_t delay_ms, window_ms; /* 0 = not given, -1 = given as zero */
    int group_by;
};

static const struct refusal_row refusal_rows[] = {
    {"a master with a blank", "filter.master_id", "M 1", "", 0, 0, 0, 0, 0},
    {"a follower with a slash", "filter.follower_id", "", "F/1", 0, 0, 0, 0, 0},
    {"an own time below 0", "filter.min_own_time", "", "", -1, 0, 0, 0, 0},
    {"a batch too large", "max_batch", "", "", 0, 4097, 0, 0, 0},
    {"no delay at all", "max_delay", "", "", 0, 0, -1, 0, 0},
    {"a delay too long", "max_delay", "", "", 0, 0, 10001, 0, 0},
    {"a window too short", "window", "", "", 0, 0, 0, 99, 0},
    {"no window at all", "window", "", "", 0, 0, 0, -1, 0},
    {"a window too long", "window", "", "", 0, 0, 0, 3600001, 0},
    {"an unknown grouping", "group_by", "", "", 0, 0, 0, 0, 6},
    {"a burst since start", "group_by", "", "", 0, 0, 0, 0, 5},
};

static void duration_from(Google__Protobuf__Duration *duration, int64_t ms)
{
    google__protobuf__duration__init(duration);
    duration->seconds = ms < 0 ? 0 : ms / 1000;
    duration->nanos = ms < 0 ? 0 : (int32_t)(ms % 1000) * 1000000;
}

static void expect_refused(const struct tw_call *call, const struct refusal_row *row)
{
    cr_assert(call->is_over, "%s", row->name);
    cr_expect_eq(call->refusal.reason, REASON(INVALID_FIELD), "%s", row->name);
    cr_expect_str_eq(call->refusal.field, row->field, "%s", row->name);
    cr_expect_neq(call->refusal.text[0], '\0', "%s", row->name);
    cr_expect_null(call->data, "%s", row->name);
    cr_expect_eq(atomic_load(&call->references), 1, "%s", row->name);
}

Test(service, values_out_of_range_are_refused_with_their_field)
{
    service_begin();
    for (size_t i = 0; i < sizeof refusal_rows / sizeof refusal_rows[0]; i++) {
        const struct refusal_row *row = &refusal_rows[i];
        char master_id[16], follower_id[16];
        Tradewake__V1__SampleFilter filter = TRADEWAKE__V1__SAMPLE_FILTER__INIT;
        Google__Protobuf__Duration own, delay, window;
        snprintf(master_id, sizeof master_id, "%s", row->master_id);
        snprintf(follower_id, sizeof follower_id, "%s", row->follower_id);
        google__protobuf__duration__init(&own);
        own.seconds = row->min_own_time_s;
        duration_from(&delay, row->delay_ms);
        duration_from(&window, row->window_ms);
        filter.master_id = master_id;
        filter.follower_id = follower_id;
        filter.min_own_time = &own;

        bool is_filter = strncmp(row->field, "filter.", 7) == 0;
        struct tw_call call;
        if (is_filter || row->max_batch != 0 || row->delay_ms != 0) {
            Tradewake__V1__WatchOwnTimeRequest request =
                TRADEWAKE__V1__WATCH_OWN_TIME_REQUEST__INIT;
            request.filter = &filter;
            request.max_batch = row->max_batch;
            request.max_delay = row->delay_ms == 0 ? NULL : &delay;
            call_init(&call);
            tw_metrics_watch_on_request(&call, &request.base, NULL);
            expect_refused(&call, row);
        }
        if (is_filter || row->window_ms != 0 || row->group_by == 6) {
            Tradewake__V1__WatchOwnTimeSummaryRequest request =
                TRADEWAKE__V1__WATCH_OWN_TIME_SUMMARY_REQUEST__INIT;
            request.filter = &filter;
            request.window = row->window_ms == 0 ? NULL : &window;
            request.group_by = (Tradewake__V1__GroupBy)row->group_by;
            call_init(&call);
            tw_metrics_watch_summary_on_request(&call, &request.base, NULL);
            expect_refused(&call, row);
        }
        if (is_filter || row->group_by != 0) {
            Tradewake__V1__GetOwnTimeSummaryRequest request =
                TRADEWAKE__V1__GET_OWN_TIME_SUMMARY_REQUEST__INIT;
            request.filter = &filter;
            request.group_by = (Tradewake__V1__GroupBy)row->group_by;
            call_init(&call);
            tw_metrics_summary_on_request(&call, &request.base, NULL);
            expect_refused(&call, row);
        }
    }
    service_end();
}
