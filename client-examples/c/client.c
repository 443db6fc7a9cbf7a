/* client.c - Tradewake from C: one event, what every follower did with it, and how long our part took.
 *
 *     c-client [--server ADDR:PORT] [--master M1] [--event ID] [--symbol EURUSD] [--volume 0.10]
 *              [--samples 5] [--timeout-ms 10000]
 *
 * It watches the samples, sends that the master bought, prints each follower's copy, and then the samples
 * of this event. Exit code 0: every copy is settled. 1: refused. 2: usage. 3: nobody answered. 4: not
 * settled, a copy may have executed or is still on its way: run it again with the same --event and see. */
#include <tradewake/base/arena.h>
#include <tradewake/base/clock.h>
#include <tradewake/wire/client.h>

#include <google/protobuf/timestamp.pb-c.h>
#include <tradewake/v1/events.pb-c.h>
#include <tradewake/v1/metrics.pb-c.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SUBMIT_EVENT "/tradewake.v1.EventService/SubmitEvent"
#define WATCH_OWN_TIME "/tradewake.v1.MetricsService/WatchOwnTime"
#define ANSWER_BYTES_MAX ((size_t)64 << 20) /* an answer of 4 MiB takes so much once it is decoded */
#define RETRY_NS (200 * TW_NS_PER_MS)
#define SAMPLES_NS_MAX (5 * TW_NS_PER_S)
#define UNAVAILABLE 14 /* google.rpc.Code */

enum { EXIT_DONE, EXIT_REFUSED, EXIT_USAGE, EXIT_UNREACHABLE, EXIT_NOT_SETTLED };

struct options {
    const char *server, *master, *event, *symbol, *volume;
    const char *samples, *timeout_ms; /* numbers, checked by options_read() */
};

static const char *enum_word(const ProtobufCEnumDescriptor *type, int value)
{
    const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(type, value);
    static char number[16]; /* a newer server may say what this program does not know */
    if (known != NULL)
        return known->name;
    snprintf(number, sizeof number, "%d", value);
    return number;
}

/* ---- The event ---- */

/* Whether it arrived is not known after UNAVAILABLE and need not be: the event_id is the same, so the
 * server answers duplicate = true and sends nothing again. Anything else is an answer, and final. */
static tw_status submit(struct tw_wire_client *client, const Tradewake__V1__SubmitEventRequest *request,
                        int64_t deadline_ns, struct tw_arena *arena,
                        Tradewake__V1__SubmitEventResponse **ret, struct tw_wire_answer *answer,
                        struct tw_error *error)
{
    for (bool is_told = false;; is_told = true) {
        ProtobufCMessage *response;
        *answer = (struct tw_wire_answer){0};
        tw_status status = tw_wire_client_call(client, SUBMIT_EVENT, &request->base, deadline_ns, arena,
                                               &response, answer, error);
        if (status == TW_OK)
            *ret = (Tradewake__V1__SubmitEventResponse *)response;
        int64_t wait_ns = answer->refusal.retry_after_ns > 0 ? answer->refusal.retry_after_ns : RETRY_NS;
        if (status == TW_OK || answer->code != UNAVAILABLE || tw_mono_ns() + wait_ns >= deadline_ns)
            return status;
        if (!is_told) /* once: it may go on for long */
            fprintf(stderr, "%s; the same event goes out again, every %" PRId64 " ms\n", error->text,
                    wait_ns / TW_NS_PER_MS);
        const struct timespec wait = {wait_ns / TW_NS_PER_S, wait_ns % TW_NS_PER_S};
        nanosleep(&wait, NULL);
    }
}

static void print_copy(const Tradewake__V1__CopySummary *copy)
{
    printf("  %-12s %-20s %-28s %s", copy->follower_id,
           enum_word(&tradewake__v1__copy_state__descriptor, copy->state),
           copy->reason == 0 ? "" : enum_word(&tradewake__v1__reason__descriptor, copy->reason), copy->symbol);
    if (copy->own_time_ns > 0) /* an order went out */
        printf(" %s of %s at %s, own time %" PRIu64 " us", copy->filled_volume[0] == '\0' ? "0" : copy->filled_volume,
               copy->volume, copy->average_price[0] == '\0' ? "-" : copy->average_price, copy->own_time_ns / 1000);
    putchar('\n');
}

static int print_copies(const Tradewake__V1__SubmitEventResponse *m)
{
    size_t n_unknown = 0;
    printf("event %s%s: %u accepted, %u skipped, %u still on their way\n", m->event_id,
           m->duplicate ? " (known before, nothing was sent again)" : "", m->accepted, m->skipped, m->pending);
    for (size_t i = 0; i < m->n_copies; i++) {
        n_unknown += m->copies[i]->state == TRADEWAKE__V1__COPY_STATE__COPY_STATE_UNKNOWN;
        print_copy(m->copies[i]);
    }
    if (n_unknown > 0)
        printf("%zu copies are UNKNOWN: they may have executed and are being looked up. Do not send the "
               "trade under a new id.\n", n_unknown);
    return n_unknown > 0 || m->pending > 0 ? EXIT_NOT_SETTLED : EXIT_DONE;
}

static int print_failure(tw_status status, const struct tw_wire_answer *answer,
                         const struct tw_error *error, const struct options *options)
{
    const struct tw_refusal *refusal = &answer->refusal;
    if (status == TW_UNREACHABLE || answer->code == UNAVAILABLE) {
        fprintf(stderr, "nobody answers at %s: %s\nstart one with `build/release/tradewake dev`, or name it with "
                "--server or TRADEWAKE_SERVER\n", options->server, error->text);
        return EXIT_UNREACHABLE;
    }
    if (status == TW_TIMEOUT) {
        fprintf(stderr, "no answer in time: the event may have arrived. Send it again with --event %s\n",
                options->event);
        return EXIT_NOT_SETTLED;
    }
    if (refusal->reason == TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_UNSPECIFIED) {
        fprintf(stderr, "%s: %s\n", tw_grpc_code_name(answer->code), error->text);
        return EXIT_REFUSED;
    }
    fprintf(stderr, "refused: %s", tw_refusal_name(refusal->reason));
    if (refusal->field[0] != '\0')
        fprintf(stderr, ", field %s", refusal->field);
    fprintf(stderr, ": %s\n", refusal->text);
    if (refusal->retry_after_ns > 0)
        fprintf(stderr, "try again in %" PRId64 " ms\n", refusal->retry_after_ns / TW_NS_PER_MS);
    return EXIT_REFUSED;
}

/* *ret_n_copies: whose samples come; none when the event was known before. */
static int send_event(struct tw_wire_client *client, const struct options *options, uint32_t *ret_n_copies)
{
    Google__Protobuf__Timestamp observed_at;
    Tradewake__V1__OpenPosition open;
    Tradewake__V1__TradeEvent event;
    Tradewake__V1__SubmitEventRequest request;
    int64_t now_ns = tw_wall_ns();

    google__protobuf__timestamp__init(&observed_at);
    observed_at.seconds = now_ns / TW_NS_PER_S;
    observed_at.nanos = (int32_t)(now_ns % TW_NS_PER_S);
    tradewake__v1__open_position__init(&open);
    open.position_id = (char *)(uintptr_t)options->event; /* only read, like all that follow */
    open.symbol = (char *)(uintptr_t)options->symbol;
    open.side = TRADEWAKE__V1__SIDE__SIDE_BUY;
    open.volume = (char *)(uintptr_t)options->volume;
    tradewake__v1__trade_event__init(&event);
    event.event_id = (char *)(uintptr_t)options->event;
    event.master_id = (char *)(uintptr_t)options->master;
    event.observed_at = &observed_at;
    event.action_case = TRADEWAKE__V1__TRADE_EVENT__ACTION_OPEN;
    event.open = &open;
    tradewake__v1__submit_event_request__init(&request);
    request.event = &event;
    request.wait_for = TRADEWAKE__V1__WAIT_FOR__WAIT_FOR_DONE;
    request.view = TRADEWAKE__V1__COPY_VIEW__COPY_VIEW_ALL;

    struct tw_arena arena;
    struct tw_wire_answer answer;
    struct tw_error error = {0};
    Tradewake__V1__SubmitEventResponse *response = NULL;
    int64_t deadline_ns = tw_mono_ns() + strtoll(options->timeout_ms, NULL, 10) * TW_NS_PER_MS;
    tw_arena_init(&arena, ANSWER_BYTES_MAX);
    tw_status status = submit(client, &request, deadline_ns, &arena, &response, &answer, &error);
    int code = status == TW_OK ? print_copies(response) : print_failure(status, &answer, &error, options);
    *ret_n_copies = status == TW_OK && !response->duplicate ? response->accepted : 0;
    tw_arena_clear(&arena);
    return code;
}

/* ---- The samples ---- */

/* NULL: there are none to be had; the event goes out all the same. */
static struct tw_wire_stream *watch_open(struct tw_wire_client *client, const struct options *options)
{
    Tradewake__V1__SampleFilter filter;
    Tradewake__V1__WatchOwnTimeRequest request;
    struct tw_wire_stream *stream = NULL;
    struct tw_wire_answer answer = {0};
    struct tw_error error = {0};
    struct tw_arena arena;
    ProtobufCMessage *started;

    tradewake__v1__sample_filter__init(&filter);
    filter.master_id = (char *)(uintptr_t)options->master;
    tradewake__v1__watch_own_time_request__init(&request);
    request.filter = &filter;
    tw_arena_init(&arena, ANSWER_BYTES_MAX);
    tw_status status = tw_wire_stream_open(client, WATCH_OWN_TIME, &request.base, INT64_MAX, &stream, &error);
    /* The first message says that the stream has begun: from here on no sample is missed. */
    if (status == TW_OK)
        status = tw_wire_stream_read(stream, tw_mono_ns() + SAMPLES_NS_MAX, &arena, &started, &answer, &error);
    tw_arena_clear(&arena);
    if (status == TW_OK)
        return stream;
    fprintf(stderr, "no samples: %s\n", error.text);
    tw_wire_stream_close(stream);
    return NULL;
}

/* Prints the samples of our event, at most n_max; returns how many. */
static long print_samples(const Tradewake__V1__WatchOwnTimeResponse *m, const char *event_id, long n_max)
{
    long n = 0;
    if (m->payload_case == TRADEWAKE__V1__WATCH_OWN_TIME_RESPONSE__PAYLOAD_DROPPED)
        printf("  (%" PRIu64 " samples left out: we read too slowly)\n", m->dropped->count);
    if (m->payload_case != TRADEWAKE__V1__WATCH_OWN_TIME_RESPONSE__PAYLOAD_BATCH)
        return 0;
    for (size_t i = 0; i < m->batch->n_samples && n < n_max; i++) {
        const Tradewake__V1__OwnTimeSample *sample = m->batch->samples[i];
        if (strcmp(sample->event_id, event_id) != 0)
            continue;
        printf("  %-12s own time %6" PRIu64 " us, of that held %" PRIu64 " us; %u threads, %u created\n",
               sample->follower_id, sample->own_time_ns / 1000, sample->times->held_ns / 1000,
               sample->threads_at_start, sample->threads_created);
        n++;
    }
    return n;
}

static void watch(struct tw_wire_stream *stream, const struct options *options, uint32_t n_copies)
{
    struct tw_arena arena;
    struct tw_wire_answer answer = {0};
    struct tw_error error = {0};
    ProtobufCMessage *message;
    long wanted = strtol(options->samples, NULL, 10), left = wanted < n_copies ? wanted : n_copies;
    int64_t until_ns = tw_mono_ns() + SAMPLES_NS_MAX;
    tw_status status = TW_OK;

    printf("samples:\n");
    tw_arena_init(&arena, ANSWER_BYTES_MAX);
    while (left > 0 && status == TW_OK) {
        status = tw_wire_stream_read(stream, until_ns, &arena, &message, &answer, &error);
        if (status == TW_OK)
            left -= print_samples((const Tradewake__V1__WatchOwnTimeResponse *)message, options->event, left);
        tw_arena_reset(&arena);
    }
    if (status != TW_OK && status != TW_TIMEOUT)
        fprintf(stderr, "no more samples: %s\n", error.text);
    tw_arena_clear(&arena);
}

/* ---- Main ---- */

static void usage(FILE *out)
{
    fputs("c-client [--server ADDR:PORT] [--master M1] [--event ID] [--symbol EURUSD] [--volume 0.10]\n"
          "         [--samples 5] [--timeout-ms 10000]\n", out);
}

static bool wrong(const char *flag, const char *what)
{
    fprintf(stderr, "c-client: %s %s\n", flag, what);
    usage(stderr);
    return false;
}

static bool is_number(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits < 10 && text[digits] == '\0';
}

static bool options_read(int argc, char **argv, struct options *options)
{
    const struct {
        const char *flag;
        const char **value;
    } flags[] = {
        {"--server", &options->server}, {"--master", &options->master}, {"--event", &options->event},
        {"--symbol", &options->symbol}, {"--volume", &options->volume}, {"--samples", &options->samples},
        {"--timeout-ms", &options->timeout_ms},
    };
    for (int i = 1; i < argc; i += 2) {
        size_t at = 0, n = sizeof flags / sizeof flags[0];
        while (at < n && strcmp(flags[at].flag, argv[i]) != 0)
            at++;
        if (at == n)
            return wrong(argv[i], "is no flag of mine");
        if (i + 1 == argc)
            return wrong(argv[i], "needs a value");
        *flags[at].value = argv[i + 1];
    }
    if (strchr(options->server, ':') == NULL)
        return wrong(options->server, "is no address: expected ADDR:PORT");
    if (!is_number(options->samples) || !is_number(options->timeout_ms))
        return wrong("--samples, --timeout-ms:", "expected a number");
    return true;
}

int main(int argc, char **argv)
{
    char event_id[32];
    const char *server = getenv("TRADEWAKE_SERVER");
    snprintf(event_id, sizeof event_id, "c-%" PRId64, tw_wall_ns());
    struct options options = {.server = server != NULL ? server : "127.0.0.1:50051", .master = "M1",
                              .event = event_id, .symbol = "EURUSD", .volume = "0.10", .samples = "5",
                              .timeout_ms = "10000"};
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return EXIT_DONE;
    }
    if (!options_read(argc, argv, &options))
        return EXIT_USAGE;

    struct tw_wire_client *client;
    struct tw_error error = {0};
    if (tw_wire_client_open_plain(options.server, &client, &error) != TW_OK) {
        fprintf(stderr, "%s\n", error.text);
        return EXIT_USAGE;
    }
    struct tw_wire_stream *stream = watch_open(client, &options);
    uint32_t n_copies;
    int code = send_event(client, &options, &n_copies);
    if (stream != NULL && n_copies > 0)
        watch(stream, &options, n_copies);
    tw_wire_stream_close(stream);
    tw_wire_client_close(client);
    return code;
}
