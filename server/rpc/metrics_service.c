#include "metrics_service.h"

#include "readers.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/limits.h>
#include <tradewake/core/check.h>
#include <tradewake/telemetry/sampler.h>
#include <tradewake/telemetry/telemetry.h>

#include <tradewake/v1/metrics.pb-c.h>

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define REASON(name) TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_##name

#define BATCH_DEFAULT     256u
#define BATCH_MAX         4096u
#define DELAY_NS_DEFAULT  (20 * TW_NS_PER_MS)
#define DELAY_NS_MIN      (1 * TW_NS_PER_MS)
#define DELAY_NS_MAX      (10 * TW_NS_PER_S)
#define WINDOW_NS_DEFAULT TW_NS_PER_S
#define WINDOW_NS_MIN     (100 * TW_NS_PER_MS)
#define WINDOW_NS_MAX     (3600 * TW_NS_PER_S)
#define HEARTBEAT_NS      (15 * TW_NS_PER_S)
#define BUSY_RETRY_NS     (100 * TW_NS_PER_MS)

/* A sample's ids, numbers and tags on the wire; and what it takes while it is put together. */
#define SAMPLE_WIRE_BYTES_MAX  512u
#define SAMPLE_BUILD_BYTES_MAX 1024u
/* Of a summary: tw_summary_finish() keeps its wire form below TW_ANSWER_BYTES_MAX, and a bucket takes
 * less here than it is counted with there. */
#define SUMMARY_BUILD_BYTES_MAX (2u * TW_ANSWER_BYTES_MAX)

static_assert(BATCH_MAX * SAMPLE_WIRE_BYTES_MAX <= TW_ANSWER_BYTES_MAX, "a batch is one message");
static_assert(BATCH_MAX <= TW_STREAM_QUEUE_ENTRIES, "a full batch can be waited for");
static_assert(BATCH_MAX * SAMPLE_BUILD_BYTES_MAX <= SUMMARY_BUILD_BYTES_MAX, "one arena for both");

/* Set before the first call, and cleared after the last. */
static struct tw_telemetry *telemetry;

/* The stream thread's alone: every message is put together here and packed before the next. */
static struct tw_arena stream_arena;

void tw_metrics_service_open(struct tw_telemetry *source)
{
    telemetry = source;
    tw_arena_init(&stream_arena, SUMMARY_BUILD_BYTES_MAX);
}

void tw_metrics_service_close(void)
{
    tw_arena_clear(&stream_arena);
    telemetry = NULL;
}

/* ---- Messages. ---- */

/* protobuf-c has no const: packing only reads. */
static char *borrowed(const char *text)
{
    return text == NULL ? (char *)(uintptr_t) "" : (char *)(uintptr_t)text;
}

static void timestamp_fill(Google__Protobuf__Timestamp *ret, int64_t wall_ns)
{
    google__protobuf__timestamp__init(ret);
    ret->seconds = wall_ns / TW_NS_PER_S;
    ret->nanos = (int32_t)(wall_ns % TW_NS_PER_S);
}

static void duration_fill(Google__Protobuf__Duration *ret, int64_t ns)
{
    google__protobuf__duration__init(ret);
    ret->seconds = ns / TW_NS_PER_S;
    ret->nanos = (int32_t)(ns % TW_NS_PER_S);
}

struct started {
    Tradewake__V1__WatchStarted message;
    Google__Protobuf__Duration interval;
};

static void started_fill(struct started *ret)
{
    tradewake__v1__watch_started__init(&ret->message);
    duration_fill(&ret->interval, HEARTBEAT_NS);
    ret->message.instance_id = borrowed(tw_telemetry_instance_id(telemetry));
    ret->message.heartbeat_interval = &ret->interval;
}

struct heartbeat {
    Tradewake__V1__Heartbeat message;
    Google__Protobuf__Timestamp time;
};

static void heartbeat_fill(struct heartbeat *ret)
{
    tradewake__v1__heartbeat__init(&ret->message);
    timestamp_fill(&ret->time, tw_wall_ns());
    ret->message.server_time = &ret->time;
}

struct executor {
    Tradewake__V1__ExecutorStatus message;
    Google__Protobuf__Timestamp warm_since;
};

static void executor_fill(struct executor *ret)
{
    struct tw_telemetry_executor now;
    tw_telemetry_executor_get(telemetry, &now);

    Tradewake__V1__ExecutorStatus *message = &ret->message;
    tradewake__v1__executor_status__init(message);
    message->threads = now.status.threads;
    message->threads_ready = now.status.threads_ready;
    message->threads_max = now.status.threads_max;
    message->threads_needed = now.threads_needed;
    message->calls_in_flight = now.status.calls_in_flight;
    message->calls_queued = now.status.calls_queued;
    message->calls_completed = now.status.calls_completed;
    message->threads_created_late = now.status.threads_created_late;
    message->peak_in_flight = now.status.peak_in_flight;
    message->resident_bytes = now.resident_bytes;
    message->threads_lost = now.status.threads_lost;
    message->groups = now.status.groups;
    message->pinned = now.status.pinned;
    message->realtime = now.status.realtime;
    if (now.warm_since_wall_ns != 0) {
        timestamp_fill(&ret->warm_since, now.warm_since_wall_ns);
        message->warm_since = &ret->warm_since;
    }
}

/* ---- One sample. ---- */

struct sample_parts {
    Tradewake__V1__OwnTimeSample message;
    Tradewake__V1__StageTimes times;
    Google__Protobuf__Timestamp received_at;
    struct tw_sample_facts facts; /* holds copy_id */
};
static_assert(sizeof(struct sample_parts) + sizeof(void *) + 32u <= SAMPLE_BUILD_BYTES_MAX,
              "what a sample takes while it is put together");

static void times_fill(Tradewake__V1__StageTimes *ret, const struct tw_sample *sample,
                       uint64_t upstream_ns)
{
    tradewake__v1__stage_times__init(ret);
    ret->planned_ns = sample->planned_ns;
    ret->journaled_ns = sample->journaled_ns;
    ret->started_ns = sample->started_ns;
    ret->called_ns = sample->called_ns;
    ret->answered_ns = sample->answered_ns;
    ret->held_ns = sample->held_ns;
    ret->upstream_ns = upstream_ns;
}

static void sample_fill(struct sample_parts *ret, const struct tw_feed *feed,
                        const struct tw_feed_entry *entry)
{
    const struct tw_sample *sample = &entry->sample;
    const struct tw_sample_facts *facts = &ret->facts;
    tw_feed_describe(feed, entry, &ret->facts);
    times_fill(&ret->times, sample, facts->upstream_ns);
    timestamp_fill(&ret->received_at, facts->received_wall_ns);

    Tradewake__V1__OwnTimeSample *message = &ret->message;
    tradewake__v1__own_time_sample__init(message);
    message->copy_id = ret->facts.copy_id;
    message->event_id = borrowed(facts->event_id);
    message->master_id = borrowed(facts->master_id);
    message->follower_id = borrowed(facts->follower_id);
    message->action = (Tradewake__V1__CopyAction)facts->action;
    message->received_at = &ret->received_at;
    message->times = &ret->times;
    message->own_time_ns = sample->called_ns;
    message->threads_at_start = sample->threads_at_start;
    message->threads_created = sample->threads_created;
    message->queue_depth = sample->queue_depth;
    message->blocking = (sample->flags & TW_SAMPLE_BLOCKING) != 0;
    message->warming_up = (sample->flags & TW_SAMPLE_WARMING_UP) != 0;
    message->trace_id = borrowed(facts->trace_id);
}

/* NULL without memory. */
static Tradewake__V1__OwnTimeBatch *batch_build(struct tw_arena *arena, const struct tw_feed *feed,
                                                const struct tw_feed_found *found)
{
    size_t count = (size_t)found->count;
    Tradewake__V1__OwnTimeBatch *batch = tw_arena_take(arena, sizeof *batch);
    struct sample_parts *parts = tw_arena_take(arena, count * sizeof *parts);
    Tradewake__V1__OwnTimeSample **samples =
        tw_arena_take(arena, count * sizeof(Tradewake__V1__OwnTimeSample *));
    if (batch == NULL || parts == NULL || samples == NULL)
        return NULL;

    for (size_t i = 0; i < count; i++) {
        sample_fill(&parts[i], feed, tw_feed_at(feed, i));
        samples[i] = &parts[i].message;
    }
    tradewake__v1__own_time_batch__init(batch);
    batch->first_sample_id = found->first_id;
    batch->samples = samples;
    batch->n_samples = count;
    return batch;
}

/* ---- One summary. ---- */

struct group_parts {
    Tradewake__V1__SummaryGroup message;
    Tradewake__V1__Histogram times[TW_SUMMARY_TIMES];
};

struct summary_parts {
    Tradewake__V1__OwnTimeSummary message;
    Google__Protobuf__Timestamp start, end;
    struct executor executor;
};

static bool histogram_build(struct tw_arena *arena, const struct tw_histogram *from,
                            Tradewake__V1__Histogram *ret)
{
    tradewake__v1__histogram__init(ret);
    ret->count = from->count;
    ret->min_ns = from->min_ns;
    ret->max_ns = from->max_ns;
    ret->sum_ns = from->sum_ns;
    ret->p50_ns = tw_histogram_at(from, 50000);
    ret->p90_ns = tw_histogram_at(from, 90000);
    ret->p95_ns = tw_histogram_at(from, 95000);
    ret->p99_ns = tw_histogram_at(from, 99000);
    ret->p999_ns = tw_histogram_at(from, 99900);
    if (from->n_buckets == 0)
        return true;

    ret->bucket_upper_ns = tw_arena_take(arena, from->n_buckets * sizeof(uint64_t));
    ret->bucket_count = tw_arena_take(arena, from->n_buckets * sizeof(uint64_t));
    if (ret->bucket_upper_ns == NULL || ret->bucket_count == NULL)
        return false;
    for (uint32_t i = 0; i < from->n_buckets; i++) {
        ret->bucket_upper_ns[i] = tw_histogram_bucket_upper_ns(from, i);
        ret->bucket_count[i] = tw_histogram_bucket_count(from, i);
    }
    ret->n_bucket_upper_ns = ret->n_bucket_count = from->n_buckets;
    return true;
}

static bool group_build(struct tw_arena *arena, const struct tw_summary_group *group,
                        struct group_parts *ret)
{
    tradewake__v1__summary_group__init(&ret->message);
    ret->message.key = borrowed(group->key);
    ret->message.own_time = &ret->times[TW_OWN_TIME];
    ret->message.path_time = &ret->times[TW_PATH_TIME];
    ret->message.queue_wait = &ret->times[TW_QUEUE_WAIT];
    ret->message.broker_time = &ret->times[TW_BROKER_TIME];
    ret->message.held = group->held;
    for (size_t i = 0; i < TW_SUMMARY_TIMES; i++)
        if (!histogram_build(arena, &group->times[i], &ret->times[i]))
            return false;
    return true;
}

/* NULL without memory. The message lives as long as the summary and the arena. */
static Tradewake__V1__OwnTimeSummary *summary_build(struct tw_arena *arena,
                                                    struct tw_summary *summary)
{
    if (tw_summary_finish(summary) != TW_OK)
        return NULL;

    struct tw_summary_span span = tw_summary_span(summary);
    struct summary_parts *parts = tw_arena_take(arena, sizeof *parts);
    struct group_parts *groups = tw_arena_take(arena, (span.groups + 1u) * sizeof *groups);
    Tradewake__V1__SummaryGroup **list =
        tw_arena_take(arena, (span.groups + 1u) * sizeof(Tradewake__V1__SummaryGroup *));
    if (parts == NULL || groups == NULL || list == NULL)
        return NULL;
    for (size_t i = 0; i < span.groups; i++) {
        if (!group_build(arena, tw_summary_group_at(summary, i), &groups[i]))
            return NULL;
        list[i] = &groups[i].message;
    }

    Tradewake__V1__OwnTimeSummary *message = &parts->message;
    tradewake__v1__own_time_summary__init(message);
    timestamp_fill(&parts->start, span.start_wall_ns);
    timestamp_fill(&parts->end, span.end_wall_ns);
    executor_fill(&parts->executor);
    message->window_start = &parts->start;
    message->window_end = &parts->end;
    message->groups = list;
    message->n_groups = span.groups;
    message->executor = &parts->executor.message;
    message->samples_lost = tw_sampler_lost(tw_telemetry_sampler(telemetry));
    message->groups_omitted = span.groups_omitted;
    return message;
}

/* ---- Requests. ---- */

static bool id_read(const struct tw_check *check, const char *field, const char *value,
                    char ret[TW_ID_BYTES])
{
    if (value[0] == '\0')
        return true;
    if (!tw_check_id(check, field, value))
        return false;
    memcpy(ret, value, strlen(value) + 1u);
    return true;
}

static bool filter_read(const Tradewake__V1__SampleFilter *filter, struct tw_refusal *refusal,
                        struct tw_sample_filter *ret)
{
    const struct tw_check check = {.prefix = "filter.", .refusal = refusal};
    int64_t min_own_time_ns = 0;

    *ret = (struct tw_sample_filter){0};
    if (filter == NULL)
        return true;
    if (!id_read(&check, "master_id", filter->master_id, ret->master_id) ||
        !id_read(&check, "follower_id", filter->follower_id, ret->follower_id) ||
        !tw_check_duration(&check, "min_own_time", filter->min_own_time, 0, INT64_MAX,
                           &min_own_time_ns))
        return false;
    ret->min_own_time_ns = (uint64_t)min_own_time_ns;
    ret->exclude_warm_up = filter->exclude_warm_up;
    ret->exclude_held = filter->exclude_held;
    return true;
}

static bool group_by_read(int value, struct tw_refusal *refusal, enum tw_group_by *ret)
{
    const struct tw_check check = {.prefix = "", .refusal = refusal};
    *ret = (enum tw_group_by)value;
    return tw_check_enum_or_default(&check, "group_by", value,
                                    &tradewake__v1__group_by__descriptor);
}
static_assert((int)TW_GROUP_BY_NONE == TRADEWAKE__V1__GROUP_BY__GROUP_BY_UNSPECIFIED &&
                  (int)TW_GROUP_BY_THREADS == TRADEWAKE__V1__GROUP_BY__GROUP_BY_THREADS &&
                  (int)TW_GROUP_BY_MASTER == TRADEWAKE__V1__GROUP_BY__GROUP_BY_MASTER &&
                  (int)TW_GROUP_BY_FOLLOWER == TRADEWAKE__V1__GROUP_BY__GROUP_BY_FOLLOWER &&
                  (int)TW_GROUP_BY_ADAPTER == TRADEWAKE__V1__GROUP_BY__GROUP_BY_ADAPTER &&
                  (int)TW_GROUP_BY_BURST == TRADEWAKE__V1__GROUP_BY__GROUP_BY_BURST,
              "the numbers of the contract");

/* What a status of the sampler's means to a caller. */
static void refuse_status(struct tw_call *call, tw_status status)
{
    struct tw_refusal refusal;
    if (status == TW_LIMIT)
        tw_refuse(&refusal, REASON(TOO_MANY_STREAMS), NULL,
                  "the server has as many readers of samples as it takes; close one first");
    else
        tw_refuse(&refusal, REASON(OVERLOADED), NULL, "no memory for it now; nothing was begun");
    if (status != TW_LIMIT)
        refusal.retry_after_ns = BUSY_RETRY_NS;
    tw_call_refuse(call, &refusal);
}

/* ---- Streams. ---- */

struct watch {
    struct tw_call *call; /* not a reference: on_finished comes before the call goes */
    bool has_started;     /* WatchStarted has been sent */
    bool is_over;         /* evicted: nothing may follow */
    int64_t heartbeat_due_mono_ns;

    /* Writes the next message if there is one; false when there is nothing to write now. */
    bool (*next)(struct watch *watch, int64_t now_mono_ns);
    void (*close)(struct watch *watch);

    /* WatchOwnTime. */
    struct tw_feed *feed;
    uint32_t batch_max;
    int64_t delay_ns;
    int64_t batch_due_mono_ns; /* when what is queued goes, full batch or not; 0 = nothing is */

    /* WatchOwnTimeSummary. */
    struct tw_windows *windows;
};

/* The sampler's word to the stream thread. Its reference goes with gone(). */
static void reader_wake(void *context)
{
    tw_call_post(context);
}

static void reader_gone(void *context)
{
    tw_call_unref(context);
}

static struct tw_reader reader_of(struct tw_call *call)
{
    return (struct tw_reader){
        .context = tw_call_ref(call), .wake = reader_wake, .gone = reader_gone};
}

static bool watch_write(struct watch *watch, const ProtobufCMessage *message, int64_t now_mono_ns)
{
    bool is_written = tw_call_write(watch->call, message, false);
    tw_arena_reset(&stream_arena);
    watch->heartbeat_due_mono_ns = now_mono_ns + HEARTBEAT_NS;
    return is_written;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When to look again though nobody says anything. */
static void watch_timer_set(struct watch *watch)
{
    int64_t due_mono_ns = tw_reader_due_mono_ns(watch->call);
    bool is_write_out = due_mono_ns != INT64_MAX;
    if (!is_write_out && watch->has_started)
        due_mono_ns = watch->heartbeat_due_mono_ns;
    if (!is_write_out && watch->batch_due_mono_ns != 0)
        due_mono_ns = earlier(due_mono_ns, watch->batch_due_mono_ns);
    tw_call_timer_set(watch->call, due_mono_ns);
}

/* Whatever the occasion: a post, a timer, or a write that has completed. */
void tw_metrics_watch_on_news(struct tw_call *call)
{
    struct watch *watch = tw_call_data(call);
    int64_t now_mono_ns = tw_mono_ns();
    if (watch == NULL || watch->is_over)
        return;
    watch->is_over = tw_reader_evict(call, now_mono_ns);
    if (watch->is_over)
        return;

    while (tw_call_is_writable(call) && watch->next(watch, now_mono_ns))
        ;
    if (!watch->is_over)
        watch_timer_set(watch);
}

void tw_metrics_watch_on_finished(struct tw_call *call, bool cancelled)
{
    struct watch *watch = tw_call_data(call);
    (void)cancelled;
    if (watch == NULL) /* refused */
        return;
    tw_call_data_set(call, NULL);
    watch->close(watch);
    free(watch);
}

static struct watch *watch_new(struct tw_call *call)
{
    struct watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL) {
        refuse_status(call, TW_NO_MEMORY);
        return NULL;
    }
    watch->call = call;
    return watch;
}

/* The sampler has its reader, or the call is refused. */
static void watch_begin(struct watch *watch, tw_status status)
{
    if (status != TW_OK) {
        tw_call_unref(watch->call); /* the reader's */
        refuse_status(watch->call, status);
        free(watch);
        return;
    }
    tw_call_data_set(watch->call, watch);
}

/* ---- WatchOwnTime. ---- */

static bool own_time_write(struct watch *watch, Tradewake__V1__WatchOwnTimeResponse *response,
                           int64_t now_mono_ns)
{
    return watch_write(watch, &response->base, now_mono_ns);
}

static bool own_time_start(struct watch *watch, int64_t now_mono_ns)
{
    if (!tw_feed_is_open(watch->feed))
        return false;

    struct started started;
    started_fill(&started);
    Tradewake__V1__WatchOwnTimeResponse response;
    tradewake__v1__watch_own_time_response__init(&response);
    response.payload_case = TRADEWAKE__V1__WATCH_OWN_TIME_RESPONSE__PAYLOAD_STARTED;
    response.started = &started.message;
    watch->has_started = true;
    return own_time_write(watch, &response, now_mono_ns);
}

static bool own_time_heartbeat(struct watch *watch, int64_t now_mono_ns)
{
    struct heartbeat heartbeat;
    heartbeat_fill(&heartbeat);
    Tradewake__V1__WatchOwnTimeResponse response;
    tradewake__v1__watch_own_time_response__init(&response);
    response.payload_case = TRADEWAKE__V1__WATCH_OWN_TIME_RESPONSE__PAYLOAD_HEARTBEAT;
    response.heartbeat = &heartbeat.message;
    return own_time_write(watch, &response, now_mono_ns);
}

static bool own_time_dropped(struct watch *watch, const struct tw_feed_found *found,
                             int64_t now_mono_ns)
{
    Tradewake__V1__Dropped dropped;
    tradewake__v1__dropped__init(&dropped);
    dropped.count = found->count;
    Tradewake__V1__WatchOwnTimeResponse response;
    tradewake__v1__watch_own_time_response__init(&response);
    response.payload_case = TRADEWAKE__V1__WATCH_OWN_TIME_RESPONSE__PAYLOAD_DROPPED;
    response.dropped = &dropped;
    bool is_written = own_time_write(watch, &response, now_mono_ns);
    if (is_written)
        tw_feed_advance(watch->feed, found);
    return is_written;
}

static bool own_time_batch(struct watch *watch, const struct tw_feed_found *found,
                           int64_t now_mono_ns)
{
    Tradewake__V1__WatchOwnTimeResponse response;
    tradewake__v1__watch_own_time_response__init(&response);
    response.payload_case = TRADEWAKE__V1__WATCH_OWN_TIME_RESPONSE__PAYLOAD_BATCH;
    response.batch = batch_build(&stream_arena, watch->feed, found);
    if (response.batch == NULL) {
        watch->is_over = true;
        tw_arena_clear(&stream_arena);
        refuse_status(watch->call, TW_NO_MEMORY);
        return false;
    }
    bool is_written = own_time_write(watch, &response, now_mono_ns);
    if (is_written)
        tw_feed_advance(watch->feed, found);
    watch->batch_due_mono_ns = 0;
    return is_written;
}

/* Whether the samples found go now: a full batch, one that cannot grow because some were left out
 * behind it, or one that has waited long enough. */
static bool batch_is_due(struct watch *watch, const struct tw_feed_found *found,
                         int64_t now_mono_ns)
{
    if (watch->batch_due_mono_ns == 0)
        watch->batch_due_mono_ns = now_mono_ns + watch->delay_ns;
    return found->count >= watch->batch_max || found->is_more ||
           now_mono_ns >= watch->batch_due_mono_ns;
}

static bool own_time_next(struct watch *watch, int64_t now_mono_ns)
{
    if (!watch->has_started)
        return own_time_start(watch, now_mono_ns);

    for (;;) {
        struct tw_feed_found found = tw_feed_peek(watch->feed, watch->batch_max);
        if (found.next == TW_FEED_GAP)
            return own_time_dropped(watch, &found, now_mono_ns);
        if (found.next == TW_FEED_SAMPLES && batch_is_due(watch, &found, now_mono_ns))
            return own_time_batch(watch, &found, now_mono_ns);
        if (found.next == TW_FEED_EMPTY && now_mono_ns >= watch->heartbeat_due_mono_ns)
            return own_time_heartbeat(watch, now_mono_ns);
        /* The first sample starts the delay, a full batch ends it. */
        if (!tw_feed_arm(watch->feed, found.next == TW_FEED_EMPTY ? 1u : watch->batch_max))
            return false;
    }
}

static void own_time_close(struct watch *watch)
{
    tw_feed_close(watch->feed);
}

void tw_metrics_watch_on_request(struct tw_call *call, const ProtobufCMessage *message,
                                 const struct tw_refusal *invalid)
{
    const Tradewake__V1__WatchOwnTimeRequest *request =
        (const Tradewake__V1__WatchOwnTimeRequest *)message;
    (void)invalid;
    struct tw_refusal refusal;
    const struct tw_check check = {.prefix = "", .refusal = &refusal};
    struct tw_sample_filter filter;
    int64_t delay_ns = DELAY_NS_DEFAULT;
    bool is_valid = filter_read(request->filter, &refusal, &filter) &&
                    (request->max_batch <= BATCH_MAX ||
                     tw_check_fail(&check, "max_batch", "is %u, expected at most %u",
                                   request->max_batch, BATCH_MAX)) &&
                    tw_check_duration(&check, "max_delay", request->max_delay, DELAY_NS_MIN,
                                      DELAY_NS_MAX, &delay_ns);
    if (!is_valid) {
        tw_call_refuse(call, &refusal);
        return;
    }

    struct watch *watch = watch_new(call);
    if (watch == NULL)
        return;
    watch->next = own_time_next;
    watch->close = own_time_close;
    watch->batch_max = request->max_batch == 0 ? BATCH_DEFAULT : request->max_batch;
    watch->delay_ns = delay_ns;
    const struct tw_reader reader = reader_of(call);
    watch_begin(watch,
                tw_feed_open(tw_telemetry_sampler(telemetry), &filter, &reader, &watch->feed));
}

/* ---- WatchOwnTimeSummary. ---- */

static bool windows_start(struct watch *watch, int64_t now_mono_ns)
{
    if (!tw_windows_is_open(watch->windows))
        return false;

    struct started started;
    started_fill(&started);
    Tradewake__V1__WatchOwnTimeSummaryResponse response;
    tradewake__v1__watch_own_time_summary_response__init(&response);
    response.payload_case = TRADEWAKE__V1__WATCH_OWN_TIME_SUMMARY_RESPONSE__PAYLOAD_STARTED;
    response.started = &started.message;
    watch->has_started = true;
    return watch_write(watch, &response.base, now_mono_ns);
}

static bool windows_heartbeat(struct watch *watch, int64_t now_mono_ns)
{
    struct heartbeat heartbeat;
    heartbeat_fill(&heartbeat);
    Tradewake__V1__WatchOwnTimeSummaryResponse response;
    tradewake__v1__watch_own_time_summary_response__init(&response);
    response.payload_case = TRADEWAKE__V1__WATCH_OWN_TIME_SUMMARY_RESPONSE__PAYLOAD_HEARTBEAT;
    response.heartbeat = &heartbeat.message;
    return watch_write(watch, &response.base, now_mono_ns);
}

static bool windows_summary(struct watch *watch, struct tw_summary *summary, int64_t now_mono_ns)
{
    Tradewake__V1__WatchOwnTimeSummaryResponse response;
    tradewake__v1__watch_own_time_summary_response__init(&response);
    response.payload_case = TRADEWAKE__V1__WATCH_OWN_TIME_SUMMARY_RESPONSE__PAYLOAD_SUMMARY;
    response.summary = summary_build(&stream_arena, summary);
    bool is_written = response.summary != NULL && watch_write(watch, &response.base, now_mono_ns);
    if (response.summary == NULL) {
        watch->is_over = true;
        tw_arena_clear(&stream_arena);
        refuse_status(watch->call, TW_NO_MEMORY);
    }
    tw_summary_free(summary);
    return is_written;
}

static bool windows_next_message(struct watch *watch, int64_t now_mono_ns)
{
    if (!watch->has_started)
        return windows_start(watch, now_mono_ns);

    struct tw_summary *summary = tw_windows_take(watch->windows);
    if (summary != NULL)
        return windows_summary(watch, summary, now_mono_ns);
    return now_mono_ns >= watch->heartbeat_due_mono_ns && windows_heartbeat(watch, now_mono_ns);
}

static void windows_close(struct watch *watch)
{
    tw_windows_close(watch->windows);
}

void tw_metrics_watch_summary_on_request(struct tw_call *call, const ProtobufCMessage *message,
                                         const struct tw_refusal *invalid)
{
    const Tradewake__V1__WatchOwnTimeSummaryRequest *request =
        (const Tradewake__V1__WatchOwnTimeSummaryRequest *)message;
    (void)invalid;
    struct tw_refusal refusal;
    const struct tw_check check = {.prefix = "", .refusal = &refusal};
    struct tw_sample_filter filter;
    enum tw_group_by group_by;
    int64_t window_ns = WINDOW_NS_DEFAULT;
    if (!filter_read(request->filter, &refusal, &filter) ||
        !group_by_read((int)request->group_by, &refusal, &group_by) ||
        !tw_check_duration(&check, "window", request->window, WINDOW_NS_MIN, WINDOW_NS_MAX,
                           &window_ns)) {
        tw_call_refuse(call, &refusal);
        return;
    }

    struct watch *watch = watch_new(call);
    if (watch == NULL)
        return;
    watch->next = windows_next_message;
    watch->close = windows_close;
    const struct tw_reader reader = reader_of(call);
    watch_begin(watch, tw_windows_open(tw_telemetry_sampler(telemetry), &filter, group_by,
                                       window_ns, &reader, &watch->windows));
}

/* ---- GetOwnTimeSummary. ---- */

/* A question under way: the call and the sampler hold one reference each. */
struct asked {
    atomic_uint references;
    struct tw_call *call;       /* a reference */
    struct tw_summary *summary; /* written before is_answered, read after */
    atomic_bool is_answered;
};

static void asked_release(struct asked *asked)
{
    if (atomic_fetch_sub(&asked->references, 1) != 1)
        return;
    tw_summary_free(asked->summary);
    tw_call_unref(asked->call);
    free(asked);
}

/* Thread: sampler. */
static void on_summary(void *context, struct tw_summary *summary)
{
    struct asked *asked = context;
    asked->summary = summary;
    atomic_store(&asked->is_answered, true);
    tw_call_post(asked->call);
    asked_release(asked);
}

void tw_metrics_summary_on_request(struct tw_call *call, const ProtobufCMessage *message,
                                   const struct tw_refusal *invalid)
{
    const Tradewake__V1__GetOwnTimeSummaryRequest *request =
        (const Tradewake__V1__GetOwnTimeSummaryRequest *)message;
    (void)invalid;
    struct tw_refusal refusal;
    const struct tw_check check = {.prefix = "", .refusal = &refusal};
    struct tw_sample_filter filter;
    enum tw_group_by group_by;
    bool is_valid = filter_read(request->filter, &refusal, &filter) &&
                    group_by_read((int)request->group_by, &refusal, &group_by);
    if (is_valid && group_by == TW_GROUP_BY_BURST)
        is_valid = tw_check_fail(&check, "group_by",
                                 "is GROUP_BY_BURST, which only windows have: WatchOwnTimeSummary");
    if (!is_valid) {
        tw_call_refuse(call, &refusal);
        return;
    }

    struct asked *asked = calloc(1, sizeof *asked);
    if (asked == NULL) {
        refuse_status(call, TW_NO_MEMORY);
        return;
    }
    asked->references = 2;
    asked->call = tw_call_ref(call);
    tw_call_data_set(call, asked);
    if (tw_sampler_summary(tw_telemetry_sampler(telemetry), &filter, group_by, on_summary, asked) !=
        TW_OK) {
        asked_release(asked); /* the sampler's */
        refuse_status(call, TW_NO_MEMORY);
    }
}

void tw_metrics_summary_on_post(struct tw_call *call)
{
    struct asked *asked = tw_call_data(call);
    if (asked == NULL || !atomic_load(&asked->is_answered))
        return;

    struct tw_arena arena;
    tw_arena_init(&arena, SUMMARY_BUILD_BYTES_MAX);
    Tradewake__V1__OwnTimeSummary *summary =
        asked->summary == NULL ? NULL : summary_build(&arena, asked->summary);
    if (summary != NULL)
        tw_call_answer(call, &summary->base);
    else
        refuse_status(call, TW_NO_MEMORY);
    tw_arena_clear(&arena);
}

void tw_metrics_summary_on_finished(struct tw_call *call, bool cancelled)
{
    struct asked *asked = tw_call_data(call);
    (void)cancelled;
    if (asked == NULL)
        return;
    tw_call_data_set(call, NULL);
    asked_release(asked);
}

/* ---- GetExecutorStatus. ---- */

void tw_metrics_executor_on_request(struct tw_call *call, const ProtobufCMessage *message,
                                    const struct tw_refusal *invalid)
{
    (void)message;
    (void)invalid;
    struct executor executor;
    executor_fill(&executor);
    tw_call_answer(call, &executor.message.base);
}
