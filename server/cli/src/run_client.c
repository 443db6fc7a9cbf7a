/* submit, watch, copies, health and the like: what needs more than its row of the table. */
#include "command.h"

#include <tradewake/base/clock.h>
#include <tradewake/v1/copies.pb-c.h>
#include <tradewake/v1/events.pb-c.h>
#include <tradewake/v1/followers.pb-c.h>
#include <tradewake/v1/metrics.pb-c.h>
#include <grpc/health/v1/health.pb-c.h>

#include <google/protobuf/timestamp.pb-c.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* ---- submit ---- */

static const struct column summary_columns[] = {
    {"FOLLOWER", "follower_id", TW_FIELD_PLAIN}, {"ACTION", "action", TW_FIELD_PLAIN},
    {"STATE", "state", TW_FIELD_PLAIN},          {"REASON", "reason", TW_FIELD_PLAIN},
    {"SYMBOL", "symbol", TW_FIELD_PLAIN},        {"SIDE", "side", TW_FIELD_PLAIN},
    {"VOLUME", "volume", TW_FIELD_PLAIN},        {"FILLED", "filled_volume", TW_FIELD_PLAIN},
    {"PRICE", "average_price", TW_FIELD_PLAIN},  {"OWN MS", "own_time_ns", TW_FIELD_MS},
    {"COPY", "copy_id", TW_FIELD_PLAIN},         {0},
};

static bool is_text_empty(const ProtobufCMessage *message, const char *path)
{
    char text[PRINTED_BYTES];
    tw_fields_text(message, path, TW_FIELD_PLAIN, text, sizeof text);
    return strcmp(text, "-") == 0 || text[0] == '\0';
}

/* An id that was given none is unique, and sorts by time. */
int request_defaults(struct session *session, ProtobufCMessage *request, const char *id_field,
                     const char *time_field)
{
    char id[48];
    uint32_t random_part = 0;
    struct tw_error error;
    tw_status status = TW_OK;
    if (getrandom(&random_part, sizeof random_part, 0) != (ssize_t)sizeof random_part)
        return session_error(session, "the system gives no random numbers");
    snprintf(id, sizeof id, "cli-%" PRId64 "-%08" PRIx32, tw_wall_ns() / TW_NS_PER_MS, random_part);
    if (is_text_empty(request, id_field))
        status = tw_fields_set(request, id_field, id, &session->arena, &error);
    if (status == TW_OK && is_text_empty(request, time_field))
        status = tw_fields_set(request, time_field, "now", &session->arena, &error);
    return status == TW_OK ? TW_EXIT_DONE : session_error(session, "%s", error.text);
}

static void print_submitted(struct session *session,
                            const Tradewake__V1__SubmitEventResponse *response)
{
    char state[64], reason[64];
    if (session->is_json) {
        tw_json_message(&session->json, &response->base);
        return;
    }
    if (response->n_copies > 0) {
        struct table *table = table_new(summary_columns);
        for (size_t i = 0; i < response->n_copies; i++)
            table_add(table, &response->copies[i]->base);
        table_print(table, stdout);
        table_free(table);
        putchar('\n');
    }
    printf("event %s%s: %u accepted + %u skipped, %u pending\n", response->event_id,
           response->duplicate ? " (duplicate: nothing was sent by this call)" : "",
           response->accepted, response->skipped, response->pending);
    for (size_t i = 0; i < response->n_counts; i++)
        printf("  %-10s %-20s %u\n",
               tw_fields_enum(&tradewake__v1__copy_state__descriptor,
                              (int32_t)response->counts[i]->state, true, state, sizeof state),
               tw_fields_enum(&tradewake__v1__reason__descriptor,
                              (int32_t)response->counts[i]->reason, true, reason, sizeof reason),
               response->counts[i]->count);
}

int run_submit(struct session *session)
{
    static const char *const waits[] = {"done", "sent", "accepted"};
    ProtobufCMessage *request, *response;
    struct tw_error error;
    int code = session_request(session, session->command->method, &request);
    if (code != TW_EXIT_DONE)
        return code;
    code = request_defaults(session, request, "event.event_id", "event.observed_at");
    if (code != TW_EXIT_DONE)
        return code;
    if (tw_fields_set(request, "wait_for", waits[args_number(&session->args, "--wait")],
                      &session->arena, &error) != TW_OK)
        return session_error(session, "%s", error.text);
    code = session_call(session, session->command->method, request, &session->arena, &response);
    if (code == TW_EXIT_DONE)
        print_submitted(session, (const Tradewake__V1__SubmitEventResponse *)(void *)response);
    return code;
}

/* ---- watch ---- */

static const struct column sample_columns[] = {
    {"RECEIVED", "received_at", TW_FIELD_TIME},
    {"MASTER", "master_id", TW_FIELD_PLAIN},
    {"FOLLOWER", "follower_id", TW_FIELD_PLAIN},
    {"ACTION", "action", TW_FIELD_PLAIN},
    {"OWN MS", "own_time_ns", TW_FIELD_MS},
    {"HELD MS", "times.held_ns", TW_FIELD_MS},
    {"STARTED", "times.started_ns", TW_FIELD_MS},
    {"ANSWERED", "times.answered_ns", TW_FIELD_MS},
    {"THREADS", "threads_at_start", TW_FIELD_PLAIN},
    {"CREATED", "threads_created", TW_FIELD_PLAIN},
    {"COPY", "copy_id", TW_FIELD_PLAIN},
    {0},
};

static void print_dropped(struct session *session, const Tradewake__V1__Dropped *dropped)
{
    if (session->is_json) {
        tw_json_object(&session->json);
        tw_json_key(&session->json, "dropped");
        tw_json_message(&session->json, &dropped->base);
        tw_json_end(&session->json, false);
    } else {
        printf("-- %" PRIu64 " left out: this reader was too slow\n", dropped->count);
    }
    fflush(stdout);
}

static uint64_t print_samples(struct session *session, void *context,
                              const ProtobufCMessage *message, uint64_t left)
{
    struct table *table = context;
    const Tradewake__V1__WatchOwnTimeResponse *response = (const void *)message;
    if (response->payload_case == TRADEWAKE__V1__WATCH_OWN_TIME_RESPONSE__PAYLOAD_DROPPED)
        print_dropped(session, response->dropped);
    if (response->payload_case != TRADEWAKE__V1__WATCH_OWN_TIME_RESPONSE__PAYLOAD_BATCH)
        return 0;
    size_t n = response->batch->n_samples < left ? response->batch->n_samples : (size_t)left;
    for (size_t i = 0; i < n; i++) {
        if (session->is_json)
            tw_json_message(&session->json, &response->batch->samples[i]->base);
        else
            table_add(table, &response->batch->samples[i]->base);
    }
    if (!session->is_json)
        table_print(table, stdout);
    fflush(stdout);
    return n;
}

static const struct column window_columns[] = {
    {"WINDOW", NULL, TW_FIELD_PLAIN},
    {"GROUP", NULL, TW_FIELD_PLAIN},
    {"COPIES", NULL, TW_FIELD_PLAIN},
    {"OWN P50", NULL, TW_FIELD_PLAIN},
    {"P95", NULL, TW_FIELD_PLAIN},
    {"P99", NULL, TW_FIELD_PLAIN},
    {"MAX MS", NULL, TW_FIELD_PLAIN},
    {"PATH P50", NULL, TW_FIELD_PLAIN},
    {"MAX MS", NULL, TW_FIELD_PLAIN},
    {"HELD", NULL, TW_FIELD_PLAIN},
    {0},
};

static void add_group(struct table *table, const char *window,
                      const Tradewake__V1__SummaryGroup *group)
{
    char texts[10][64];
    const char *cells[10];
    const Tradewake__V1__Histogram none = TRADEWAKE__V1__HISTOGRAM__INIT;
    const Tradewake__V1__Histogram *own = group->own_time != NULL ? group->own_time : &none;
    const Tradewake__V1__Histogram *path = group->path_time != NULL ? group->path_time : &none;
    snprintf(texts[0], sizeof texts[0], "%s", window);
    snprintf(texts[1], sizeof texts[1], "%.60s", group->key[0] != '\0' ? group->key : "all");
    snprintf(texts[2], sizeof texts[2], "%" PRIu64, own->count);
    const char *const names[] = {"p50_ns", "p95_ns", "p99_ns", "max_ns"};
    for (size_t i = 0; i < 4; i++)
        tw_fields_text(&own->base, names[i], TW_FIELD_MS, texts[3 + i], sizeof texts[0]);
    tw_fields_text(&path->base, "p50_ns", TW_FIELD_MS, texts[7], sizeof texts[0]);
    tw_fields_text(&path->base, "max_ns", TW_FIELD_MS, texts[8], sizeof texts[0]);
    snprintf(texts[9], sizeof texts[9], "%" PRIu64, group->held);
    for (size_t i = 0; i < 10; i++)
        cells[i] = texts[i];
    table_add_texts(table, cells);
}

static uint64_t print_window(struct session *session, void *context,
                             const ProtobufCMessage *message, uint64_t left)
{
    struct table *table = context;
    char window[64] = "-";
    (void)left;
    const Tradewake__V1__WatchOwnTimeSummaryResponse *response = (const void *)message;
    if (response->payload_case != TRADEWAKE__V1__WATCH_OWN_TIME_SUMMARY_RESPONSE__PAYLOAD_SUMMARY)
        return 0;
    const Tradewake__V1__OwnTimeSummary *summary = response->summary;
    if (session->is_json) {
        tw_json_message(&session->json, &summary->base);
    } else {
        tw_fields_text(&summary->base, "window_start", TW_FIELD_PLAIN, window, sizeof window);
        for (size_t i = 0; i < summary->n_groups; i++)
            add_group(table, window, summary->groups[i]);
        table_print(table, stdout);
    }
    fflush(stdout);
    return 1;
}

int run_watch(struct session *session)
{
    bool is_summary = args_has(&session->args, "--summary");
    const char *method = is_summary ? "/tradewake.v1.MetricsService/WatchOwnTimeSummary"
                                    : "/tradewake.v1.MetricsService/WatchOwnTime";
    static const char *const only_summary[][2] = {{"--by", "group_by"}, {"--window", "window"}};
    ProtobufCMessage *request;
    struct tw_error error;
    int code = session_request(session, method, &request);
    if (code != TW_EXIT_DONE)
        return code;
    for (size_t i = 0; i < COUNT(only_summary); i++) {
        const char *text = args_text(&session->args, only_summary[i][0]);
        if (text == NULL)
            continue;
        if (!is_summary)
            return usage_error(session->command, "%s goes with --summary", only_summary[i][0]);
        if (tw_fields_set(request, only_summary[i][1], text, &session->arena, &error) != TW_OK)
            return usage_error(session->command, "flag %s: %s", only_summary[i][0], error.text);
    }
    struct table *table = table_new(is_summary ? window_columns : sample_columns);
    code =
        session_stream(session, method, request, is_summary ? print_window : print_samples, table);
    table_free(table);
    return code;
}

/* ---- copies ---- */

static uint64_t print_changes(struct session *session, void *context,
                              const ProtobufCMessage *message, uint64_t left)
{
    struct table *table = context;
    const Tradewake__V1__WatchCopiesResponse *response = (const void *)message;
    if (response->payload_case == TRADEWAKE__V1__WATCH_COPIES_RESPONSE__PAYLOAD_DROPPED)
        print_dropped(session, response->dropped);
    if (response->payload_case != TRADEWAKE__V1__WATCH_COPIES_RESPONSE__PAYLOAD_BATCH)
        return 0;
    size_t n = response->batch->n_copies < left ? response->batch->n_copies : (size_t)left;
    for (size_t i = 0; i < n; i++) {
        if (session->is_json)
            tw_json_message(&session->json, &response->batch->copies[i]->base);
        else
            table_add(table, &response->batch->copies[i]->base);
    }
    if (!session->is_json)
        table_print(table, stdout);
    fflush(stdout);
    return n;
}

static int watch_copies(struct session *session)
{
    static const char *const method = "/tradewake.v1.CopyService/WatchCopies";
    ProtobufCMessage *request;
    int code = session_request(session, method, &request);
    if (code != TW_EXIT_DONE)
        return code;
    Tradewake__V1__WatchCopiesRequest *watch = (Tradewake__V1__WatchCopiesRequest *)(void *)request;
    watch->include_existing = args_has(&session->args, "--existing");
    struct table *table = table_new(session->command->columns);
    code = session_stream(session, method, request, print_changes, table);
    table_free(table);
    return code;
}

int run_copies(struct session *session)
{
    if (args_has(&session->args, "--watch") && args_has(&session->args, "--slowest"))
        return usage_error(session->command, "--slowest goes without --watch: changes come as they happen");
    return args_has(&session->args, "--watch") ? watch_copies(session) : run_list(session);
}

/* ---- followers mode ---- */

int run_followers_mode(struct session *session)
{
    ProtobufCMessage *request, *response;
    struct tw_error error;
    int code = session_request(session, session->command->method, &request);
    if (code != TW_EXIT_DONE)
        return code;
    if (tw_fields_set(request, "update_mask.paths", "mode", &session->arena, &error) != TW_OK)
        return session_error(session, "%s", error.text);
    code = session_call(session, session->command->method, request, &session->arena, &response);
    if (code == TW_EXIT_DONE)
        print_message(session, response);
    return code;
}

/* ---- health, version ---- */

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Asks until it serves or --wait has passed; the last answer counts. */
static bool await_serving(struct session *session, const ProtobufCMessage *request)
{
    int64_t until_ns = tw_mono_ns() + args_number(&session->args, "--wait");
    interrupt_watch();
    while (tw_mono_ns() < until_ns && !interrupted()) {
        ProtobufCMessage *response;
        struct tw_wire_answer answer;
        tw_status status = session_try(session, session->command->method, request, &session->arena,
                                       &response, &answer);
        if (status == TW_OK &&
            ((const Grpc__Health__V1__HealthCheckResponse *)(void *)response)->status ==
                GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING)
            return true;
        pause_ms(100);
    }
    return false;
}

int run_health(struct session *session)
{
    ProtobufCMessage *request, *response;
    char word[64];
    int code = session_request(session, session->command->method, &request);
    if (code == TW_EXIT_DONE)
        code = session_connect(session);
    if (code != TW_EXIT_DONE)
        return code;
    (void)await_serving(session, request); /* the call below tells how it ended */
    code = session_call(session, session->command->method, request, &session->arena, &response);
    if (code != TW_EXIT_DONE)
        return code;
    const Grpc__Health__V1__HealthCheckResponse *health = (const void *)response;
    if (session->is_json)
        tw_json_message(&session->json, response);
    else
        puts(tw_fields_enum(&grpc__health__v1__health_check_response__serving_status__descriptor,
                            (int32_t)health->status, false, word, sizeof word));
    return health->status == GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
               ? TW_EXIT_DONE
               : TW_EXIT_FAILED;
}

int run_version(struct session *session)
{
    const char *contract = "tradewake.v1", *library = protobuf_c_version();
    if (!session->is_json) {
        printf("tradewake %s\ncontract   %s\nprotobuf-c %s\ncompiler   %s\n",
               session->host->version, contract, library, __VERSION__);
        return TW_EXIT_DONE;
    }
    const char *const members[][2] = {{"version", session->host->version},
                                      {"contract", contract},
                                      {"protobuf_c", library},
                                      {"compiler", __VERSION__}};
    tw_json_object(&session->json);
    for (size_t i = 0; i < COUNT(members); i++) {
        tw_json_key(&session->json, members[i][0]);
        tw_json_text(&session->json, members[i][1]);
    }
    tw_json_end(&session->json, false);
    return TW_EXIT_DONE;
}
