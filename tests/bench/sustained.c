/* sustained.c - a steady rate of copies for a while, every sample read by one subscriber: none may be lost,
 * and memory may not grow with time.
 *
 * Accounts answer at once and need no thread. The sender keeps a timetable: an event that is late is sent at
 * once, so a server that cannot keep up shows in the rate. What it remembers of copies (copies.remembered) fills up
 * first; memory is looked at from then on. */
#include "bench.h"
#include "driven.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/arena.h>

#include <tradewake/v1/metrics.pb-c.h>

#include <google/protobuf/duration.pb-c.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WATCH_OWN_TIME "/tradewake.v1.MetricsService/WatchOwnTime"
#define SETTLE_NS (15 * TW_NS_PER_S)

enum {
    OUTSTANDING = 32,
    BLOCK = 64, /* positions are opened in a row, then closed: a close right behind its open withdraws it */
    SECONDS_MAX = 3600,
    BATCH_BYTES_MAX = 16 * 1024 * 1024,
};

/* ---- The subscriber ---- */

struct subscriber {
    struct tw_wire_client *client;
    struct tw_wire_stream *stream;
    pthread_t thread;
    bool is_started;
    _Atomic uint64_t received, dropped;
    atomic_bool is_over;
};

static void *subscriber_main(void *context)
{
    struct subscriber *subscriber = context;
    struct tw_arena arena;
    tw_arena_init(&arena, BATCH_BYTES_MAX);
    for (;;) {
        ProtobufCMessage *message;
        struct tw_error error = {0};
        tw_arena_reset(&arena);
        if (tw_wire_stream_read(subscriber->stream, INT64_MAX, &arena, &message, NULL, &error) != TW_OK)
            break;
        const Tradewake__V1__WatchOwnTimeResponse *response = (const void *)message;
        if (response->payload_case == TRADEWAKE__V1__WATCH_OWN_TIME_RESPONSE__PAYLOAD_BATCH)
            atomic_fetch_add(&subscriber->received, response->batch->n_samples);
        else if (response->payload_case == TRADEWAKE__V1__WATCH_OWN_TIME_RESPONSE__PAYLOAD_DROPPED)
            atomic_fetch_add(&subscriber->dropped, response->dropped->count);
    }
    tw_arena_clear(&arena);
    atomic_store(&subscriber->is_over, true);
    return NULL;
}

static bool subscriber_start(const struct driven *server, struct subscriber *subscriber)
{
    Google__Protobuf__Duration delay = GOOGLE__PROTOBUF__DURATION__INIT;
    Tradewake__V1__WatchOwnTimeRequest request = TRADEWAKE__V1__WATCH_OWN_TIME_REQUEST__INIT;
    struct tw_error error = {0};
    delay.nanos = (int32_t)(20 * TW_NS_PER_MS);
    request.max_batch = 4096;
    request.max_delay = &delay;
    struct tw_arena arena;
    ProtobufCMessage *started;
    tw_arena_init(&arena, BATCH_BYTES_MAX);
    bool is_good = tw_wire_client_open_plain(server->address, &subscriber->client, &error) == TW_OK &&
                   tw_wire_stream_open(subscriber->client, WATCH_OWN_TIME, &request.base, INT64_MAX,
                                       &subscriber->stream, &error) == TW_OK &&
                   tw_wire_stream_read(subscriber->stream, tw_mono_ns() + SETTLE_NS, &arena, &started, NULL, &error) ==
                       TW_OK;
    tw_arena_clear(&arena);
    if (!is_good)
        fprintf(stderr, WATCH_OWN_TIME ": %s\n", error.text);
    subscriber->is_started =
        is_good && pthread_create(&subscriber->thread, NULL, subscriber_main, subscriber) == 0;
    return subscriber->is_started;
}

/* Its stream ends with the server. */
static void subscriber_stop(struct subscriber *subscriber)
{
    if (subscriber->is_started)
        pthread_join(subscriber->thread, NULL);
    tw_wire_stream_close(subscriber->stream);
    tw_wire_client_close(subscriber->client);
}

/* ---- The sender ---- */

struct looked {
    double rss_mib, at_s;
};

struct sender {
    const struct driven *server;
    uint32_t events, sent;
    uint32_t shown_s;
    int64_t from_mono_ns, interval_ns;
    struct looked looked[SECONDS_MAX + 1]; /* once a second */
    uint32_t n_looked;
};

static double rss_mib_of(pid_t pid)
{
    char path[64], line[256];
    double kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtod(line + 6, NULL);
    if (file != NULL)
        fclose(file);
    return kib / 1024;
}

static void look(struct sender *sender, double at_s)
{
    if (sender->n_looked <= SECONDS_MAX)
        sender->looked[sender->n_looked++] = (struct looked){rss_mib_of(sender->server->pid), at_s};
}

/* Waits for the event's time on the timetable. */
static void turn_await(struct sender *sender)
{
    int64_t due_ns = sender->from_mono_ns + (int64_t)sender->sent * sender->interval_ns;
    const struct timespec due = {due_ns / TW_NS_PER_S, due_ns % TW_NS_PER_S};
    if (due_ns > tw_mono_ns())
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
    uint32_t second = (uint32_t)((tw_mono_ns() - sender->from_mono_ns) / TW_NS_PER_S);
    if (second == sender->shown_s)
        return;
    sender->shown_s = second;
    look(sender, second);
    progress("sustained", sender->sent, sender->events);
}

static size_t event_make(void *context, uint32_t slot, uint8_t bytes[LOAD_MESSAGE_BYTES])
{
    struct sender *sender = context;
    char id[32], position[32];
    (void)slot;
    turn_await(sender);
    snprintf(id, sizeof id, "E%u", sender->sent);
    snprintf(position, sizeof position, "P%u-%u", sender->sent / (2 * BLOCK), sender->sent % BLOCK);
    const struct driven_event event = {.id = id,
                                       .position_id = position,
                                       .is_close = sender->sent++ / BLOCK % 2 == 1,
                                       .waits_until_done = true,
                                       .observed_wall_ns = tw_wall_ns()};
    return driven_event_pack(&event, bytes);
}

/* ---- The account ---- */

struct account {
    uint64_t copies, received, dropped, counted, samples_lost;
    double seconds, cpu_us_per_copy;
    struct times own_ms;
    double rss_begin_mib, rss_full_mib, rss_end_mib; /* full: what is remembered has filled up */
};

/* Until every copy has its sample, here and in the server's own summary. */
static bool samples_await(struct driven *server, const struct subscriber *subscriber, struct account *account)
{
    for (int64_t until_ns = tw_mono_ns() + SETTLE_NS;; usleep(20000)) {
        struct driven_summary summary, nothing = {0};
        account->received = atomic_load(&subscriber->received);
        account->dropped = atomic_load(&subscriber->dropped);
        bool is_late = tw_mono_ns() >= until_ns;
        if (account->received + account->dropped < account->copies && !is_late)
            continue;
        if (!driven_summary_get(server, &summary))
            return false;
        account->counted = summary.own.count + summary.held;
        account->samples_lost = summary.samples_lost;
        bool is_all = account->counted >= account->copies;
        if (is_all || is_late)
            account->own_ms = driven_times_between(&nothing.own, &summary.own);
        driven_summary_clear(&summary);
        if (is_all || is_late)
            return true;
    }
}

/* The first look after as many copies as are remembered, or the last. */
static double rss_when_full(const struct sender *sender, double copies_per_s)
{
    enum { REMEMBERED = 200000 };
    for (uint32_t i = 0; i < sender->n_looked; i++)
        if (sender->looked[i].at_s * copies_per_s >= 1.5 * REMEMBERED)
            return sender->looked[i].rss_mib;
    return sender->n_looked > 0 ? sender->looked[sender->n_looked - 1].rss_mib : 0;
}

static bool run(const struct bench_options *options, struct driven *server, struct subscriber *subscriber,
                struct sender *sender, struct account *account)
{
    struct load *load = load_open(server->address, DRIVEN_SUBMIT, LOAD_UNARY);
    const struct load_work work = {
        .count = sender->events, .outstanding = OUTSTANDING, .make = event_make, .context = sender};
    account->copies = (uint64_t)sender->events * options->followers;
    double cpu_us = process_cpu_us(server->pid);
    sender->from_mono_ns = tw_mono_ns();
    look(sender, 0);
    bool is_good = load != NULL && load_run(load, &work);
    progress("sustained", 1, 1);
    account->seconds = (double)(tw_mono_ns() - sender->from_mono_ns) / 1e9;
    account->cpu_us_per_copy = (process_cpu_us(server->pid) - cpu_us) / (double)account->copies;
    account->rss_begin_mib = sender->looked[0].rss_mib;
    account->rss_full_mib = rss_when_full(sender, (double)account->copies / account->seconds);
    account->rss_end_mib = rss_mib_of(server->pid);
    is_good = is_good && samples_await(server, subscriber, account);
    load_close(load);
    return is_good;
}

static void account_print(const struct bench_options *options, const struct account *account)
{
    struct machine machine;
    double per_s = (double)account->copies / account->seconds;
    machine_look(&machine);
    if (options->json) {
        printf("{\"bench\":\"sustained\",\"followers\":%u,\"rate\":%u,\"seconds\":%.2f,\"copies\":%llu,"
               "\"copies_per_s\":%.0f,\"samples\":{\"received\":%llu,\"dropped\":%llu,\"counted\":%llu,\"lost\":%llu},"
               "\"rss_mib\":{\"begin\":%.1f,\"full\":%.1f,\"end\":%.1f},\"cpu_us_per_copy\":%.2f,",
               options->followers, options->rate, account->seconds, (unsigned long long)account->copies, per_s,
               (unsigned long long)account->received, (unsigned long long)account->dropped,
               (unsigned long long)account->counted, (unsigned long long)account->samples_lost, account->rss_begin_mib,
               account->rss_full_mib, account->rss_end_mib, account->cpu_us_per_copy);
        times_json(stdout, "own_ms", &account->own_ms);
        printf(",");
        machine_json(stdout, &machine);
        printf("}\n");
        return;
    }
    machine_print(stdout, &machine);
    printf("%llu copies in %.2f s: %.0f a second of %u wanted, %u followers, one subscriber\n"
           "samples: %llu received, %llu dropped for a slow reader, %llu counted by the server, %llu lost\n"
           "own time p50 %.3f, p99 %.3f, max %.3f ms; the server's CPU %.2f us a copy\n"
           "memory: %.0f MiB at first, %.0f with what is remembered, %.0f at the end\n",
           (unsigned long long)account->copies, account->seconds, per_s, options->rate, options->followers,
           (unsigned long long)account->received, (unsigned long long)account->dropped,
           (unsigned long long)account->counted, (unsigned long long)account->samples_lost, account->own_ms.p50,
           account->own_ms.p99, account->own_ms.max, account->cpu_us_per_copy, account->rss_begin_mib,
           account->rss_full_mib, account->rss_end_mib);
}

/* The rate is printed, not judged: it is the machine's, too. */
static bool account_check(const struct account *account)
{
    bool is_whole = account->received == account->copies && account->dropped == 0 && account->samples_lost == 0 &&
                    account->counted == account->copies;
    bool is_bounded = account->rss_end_mib <= account->rss_full_mib * 1.25 + 32;
    if (!is_whole)
        fprintf(stderr, "%llu copies do not have a sample each\n", (unsigned long long)account->copies);
    if (!is_bounded)
        fprintf(stderr, "memory still grows: %.0f MiB, then %.0f\n", account->rss_full_mib, account->rss_end_mib);
    return is_whole && is_bounded;
}

int bench_sustained(const struct bench_options *given)
{
    struct bench_options options = *given;
    if (!options.has_followers)
        options.followers = 1000;
    if (options.seconds > SECONDS_MAX || 
        (uint64_t)options.followers * 2 * BLOCK > (uint64_t)options.rate * options.seconds) {
        fprintf(stderr, "--seconds is %u, expected up to %d, with --rate x --seconds at least %d x --followers\n",
                options.seconds, SECONDS_MAX, 2 * BLOCK);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    const struct driven_fleet fleet = {
        .followers = options.followers, .max_parallel = 32, .adapter = "paper", .latency = "constant:0"};
    struct driven server = {0};
    struct subscriber subscriber = {0};
    struct account account = {0};
    struct sender *sender = calloc(1, sizeof *sender);
    uint64_t events = (uint64_t)options.rate * options.seconds / options.followers;
    if (sender == NULL)
        return 1;
    sender->server = &server;
    sender->events = (uint32_t)((events + 2 * BLOCK - 1) / (2 * BLOCK) * 2 * BLOCK); /* what is opened is closed */
    sender->interval_ns = TW_NS_PER_S * options.followers / options.rate;
    bool is_good = driven_start(options.realtime, &server) && driven_fleet(&server, &fleet) &&
                   subscriber_start(&server, &subscriber) && run(&options, &server, &subscriber, sender, &account);
    if (is_good)
        account_print(&options, &account);
    is_good = is_good && account_check(&account);
    driven_stop(&server);
    subscriber_stop(&subscriber);
    free(sender);
    return is_good ? 0 : 1;
}
