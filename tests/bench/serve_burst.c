/* serve_burst.c - the burst through the running server: closes x followers blocking calls at once, events
 * over gRPC, as unary calls at once over one connection and over one stream.
 *
 * All closes of a burst carry one observed_at, stamped by this program's clock right before the first one
 * is packed: path time counts from there, own time from the server's receipt of each. Both come from the
 * samples (WatchOwnTime), path time from this side's stamp and not from what the server makes of it.
 *
 * The floor (pool_floor.c) takes turns with them in every round, in a process of its own.
 *
 * Own time can be made to look good by reading late; path time cannot. At the end that is tried: the server
 * is stopped while a burst is sent, and its path times must show the stop. */
#include "bench.h"
#include "driven.h"
#include "plot.h"
#include "pool.h"

#include <tradewake/base/clock.h>

#include <tradewake/v1/metrics.pb-c.h>

#include <google/protobuf/duration.pb-c.h>
#include <google/protobuf/timestamp.pb-c.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define WATCH_OWN_TIME "/tradewake.v1.MetricsService/WatchOwnTime"
#define BATCH_BYTES_MAX ((size_t)64 << 20)
#define SAMPLES_NS_MAX (30 * TW_NS_PER_S)
#define STOPPED_NS (200 * TW_NS_PER_MS)

enum { MAX_PARALLEL = 32, CLOSES_MAX = 1024 };

/* ---- The floor, in its process ---- */

enum { GO = 'g', END = 'e' };

struct floor_memory {
    int64_t from_mono_ns;
    struct copy_times copies[];
};

struct floor_seat {
    pid_t pid;
    int go, done; /* a byte each way per round */
    struct floor_memory *memory;
    size_t bytes;
};

static _Noreturn void floor_main(const struct bench_options *options, struct floor_memory *memory, int go, int done)
{
    struct burst burst = {.closes = options->closes,
                          .followers = options->followers,
                          .answer_ns = options->answer_ns,
                          .copies = memory->copies};
    uint32_t threads = options->threads > burst_copies(&burst) ? options->threads : burst_copies(&burst);
    const struct pool_settings settings = {.threads = threads, /* as in `burst` */
                                           .closes = options->closes,
                                           .followers = options->followers};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    char byte = pool_floor.open(&settings, &burst) ? '+' : '-';
    usleep(300000); /* every thread has gone to sleep */
    while (write(done, &byte, 1) == 1 && read(go, &byte, 1) == 1 && byte == GO) {
        atomic_store(&burst.answered, 0);
        memory->from_mono_ns = tw_mono_ns();
        pool_floor.submit(&burst);
        while (atomic_load(&burst.answered) < burst_copies(&burst))
            usleep(1000);
        byte = '+';
    }
    _exit(0);
}

static bool floor_wait(const struct floor_seat *seat)
{
    char byte;
    return read(seat->done, &byte, 1) == 1 && byte == '+';
}

static bool floor_open(const struct bench_options *options, struct floor_seat *ret)
{
    int go[2], done[2];
    ret->bytes = sizeof *ret->memory + (size_t)options->closes * options->followers * sizeof ret->memory->copies[0];
    ret->memory = mmap(NULL, ret->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ret->memory == MAP_FAILED || pipe(go) != 0 || pipe(done) != 0) {
        perror("serve-burst");
        return false;
    }
    fflush(NULL);
    ret->pid = fork();
    if (ret->pid == 0)
        floor_main(options, ret->memory, go[0], done[1]);
    close(go[0]);
    close(done[1]);
    ret->go = go[1];
    ret->done = done[0];
    if (ret->pid < 0 || !floor_wait(ret)) {
        fprintf(stderr, "the floor's threads could not be made\n");
        return false;
    }
    return true;
}

static bool floor_round(const struct floor_seat *seat, double *path_ms, uint32_t copies)
{
    const char byte = GO;
    if (write(seat->go, &byte, 1) != 1 || !floor_wait(seat))
        return false;
    for (uint32_t i = 0; i < copies; i++)
        path_ms[i] = (double)(seat->memory->copies[i].started_mono_ns - seat->memory->from_mono_ns) / 1e6;
    return true;
}

static void floor_close(struct floor_seat *seat)
{
    const char byte = END;
    if (seat->pid <= 0)
        return;
    if (write(seat->go, &byte, 1) != 1)
        kill(seat->pid, SIGKILL);
    waitpid(seat->pid, NULL, 0);
    close(seat->go);
    close(seat->done);
    munmap(seat->memory, seat->bytes);
}

/* ---- The server's side of a round ---- */

/* A copy whose call begins in another process: which, and when its event was received. */
struct arrival {
    char id[24];
    int64_t received_wall_ns;
};

/* What a test plugin writes down when an order's call begins (tests/plugins/sim.c). */
struct stamp {
    int64_t mono_ns;
    char id[40], unused[16];
};

struct served {
    const struct bench_options *options;
    char stamps_path[320];
    FILE *stamps;             /* hosted: what the plugin wrote, read on from where the last round ended */
    struct arrival *arrivals; /* hosted: of a round's samples */
    struct driven server;
    struct load *unary, *stream;
    struct tw_wire_client *watcher; /* a connection of its own: samples do not wait behind answers */
    struct tw_wire_stream *samples;
    uint32_t bursts; /* so far; ids never repeat */
};

struct sender {
    uint32_t burst;
    bool is_close, is_streamed;
    int64_t observed_wall_ns;
};

static size_t event_make(void *context, uint32_t slot, uint8_t bytes[LOAD_MESSAGE_BYTES])
{
    const struct sender *sender = context;
    char id[48], position[48];
    snprintf(id, sizeof id, "%c%u-%u", sender->is_close ? 'C' : 'O', sender->burst, slot);
    snprintf(position, sizeof position, "P%u-%u", sender->burst, slot);
    const struct driven_event event = {.id = id,
                                       .position_id = position,
                                       .is_close = sender->is_close,
                                       .waits_until_done = !sender->is_close,
                                       .is_streamed = sender->is_streamed,
                                       .observed_wall_ns = sender->observed_wall_ns};
    return driven_event_pack(&event, bytes);
}

static bool events_send(struct served *served, struct sender *sender)
{
    const struct load_work work = {.count = served->options->closes,
                                   .outstanding = served->options->closes,
                                   .make = event_make,
                                   .context = sender};
    sender->observed_wall_ns = tw_wall_ns();
    return load_run(sender->is_streamed ? served->stream : served->unary, &work);
}

/* What the samples of a burst's closes say. */
struct round_times {
    double *own_ms, *path_ms; /* of each copy */
    double *vendor_own_ms, *vendor_path_ms; /* hosted: the same, to the start of the call in the library's process */
    uint32_t n, n_created;
};

static void sample_take(const Tradewake__V1__OwnTimeSample *sample, const struct sender *sender,
                        struct round_times *times, struct arrival *arrivals, uint32_t copies)
{
    char prefix[24];
    snprintf(prefix, sizeof prefix, "C%u-", sender->burst);
    if (strncmp(sample->event_id, prefix, strlen(prefix)) != 0 || times->n == copies)
        return;
    int64_t received_ns = sample->received_at->seconds * TW_NS_PER_S + sample->received_at->nanos;
    times->own_ms[times->n] = (double)sample->own_time_ns / 1e6;
    times->path_ms[times->n] =
        (double)(received_ns + (int64_t)sample->own_time_ns - sender->observed_wall_ns) / 1e6;
    times->n_created += sample->threads_created > 0;
    if (arrivals != NULL) {
        snprintf(arrivals[times->n].id, sizeof arrivals[0].id, "%s", sample->copy_id);
        arrivals[times->n].received_wall_ns = received_ns;
    }
    times->n++;
}

static bool samples_read(struct served *served, const struct sender *sender, struct round_times *times)
{
    uint32_t copies = served->options->closes * served->options->followers;
    int64_t until_ns = tw_mono_ns() + SAMPLES_NS_MAX;
    struct tw_arena arena;
    struct tw_error error = {0};
    bool is_good = true;
    times->n = times->n_created = 0;
    tw_arena_init(&arena, BATCH_BYTES_MAX);
    while (is_good && times->n < copies) {
        ProtobufCMessage *message;
        tw_arena_reset(&arena);
        is_good = tw_wire_stream_read(served->samples, until_ns, &arena, &message, NULL, &error) == TW_OK;
        const Tradewake__V1__WatchOwnTimeResponse *response = is_good ? (const void *)message : NULL;
        if (!is_good)
            fprintf(stderr, "%u samples of %u have come: %s\n", times->n, copies, error.text);
        else if (response->payload_case == TRADEWAKE__V1__WATCH_OWN_TIME_RESPONSE__PAYLOAD_BATCH)
            for (size_t i = 0; i < response->batch->n_samples; i++)
                sample_take(response->batch->samples[i], sender, times, served->arrivals, copies);
        else if (response->payload_case == TRADEWAKE__V1__WATCH_OWN_TIME_RESPONSE__PAYLOAD_DROPPED)
            is_good = fprintf(stderr, "the server has dropped samples\n") < 0;
    }
    tw_arena_clear(&arena);
    return is_good;
}

/* This program's own clock against the server's figures: no order call can have been made before its event
 * was sent, nor after this program has read its sample. */
static bool times_check(const struct sender *sender, const struct round_times *times)
{
    double until_ms = (double)(tw_wall_ns() - sender->observed_wall_ns) / 1e6;
    for (uint32_t i = 0; i < times->n; i++)
        if (times->path_ms[i] < times->own_ms[i] || times->path_ms[i] > until_ms) {
            fprintf(stderr, "a copy's path time is %.3f ms, own time %.3f ms; its burst was over after %.3f ms\n",
                    times->path_ms[i], times->own_ms[i], until_ms);
            return false;
        }
    return true;
}

static int arrival_compare(const void *a, const void *b)
{
    return strcmp(((const struct arrival *)a)->id, ((const struct arrival *)b)->id);
}

/* The stamps of a burst's closes: each has been written before its answer came, and so before its sample did. */
static bool stamps_read(struct served *served, const struct sender *sender, struct round_times *times)
{
    int64_t wall_of_mono_ns = tw_wall_ns() - tw_mono_ns();
    struct stamp stamp;
    uint32_t n = 0;
    qsort(served->arrivals, times->n, sizeof served->arrivals[0], arrival_compare);
    clearerr(served->stamps);
    while (n < times->n && fread(&stamp, sizeof stamp, 1, served->stamps) == 1) {
        struct arrival wanted = {.received_wall_ns = 0};
        memcpy(wanted.id, stamp.id, sizeof wanted.id - 1);
        const struct arrival *found =
            bsearch(&wanted, served->arrivals, times->n, sizeof wanted, arrival_compare);
        if (found == NULL)
            continue; /* an open */
        int64_t began_wall_ns = stamp.mono_ns + wall_of_mono_ns;
        times->vendor_own_ms[n] = (double)(began_wall_ns - found->received_wall_ns) / 1e6;
        times->vendor_path_ms[n] = (double)(began_wall_ns - sender->observed_wall_ns) / 1e6;
        n++;
    }
    if (n < times->n)
        fprintf(stderr, "%u stamps of %u are there\n", n, times->n);
    return n == times->n;
}

/* Opens what is closed then. is_stopped: the server sleeps while the closes are sent. */
static bool served_round(struct served *served, bool is_streamed, struct round_times *times)
{
    struct sender opens = {.burst = served->bursts};
    struct sender closes = {.burst = served->bursts++, .is_close = true, .is_streamed = is_streamed};
    if (!events_send(served, &opens))
        return false;
    usleep(100000); /* every thread has gone to sleep */
    return events_send(served, &closes) && samples_read(served, &closes, times) && times_check(&closes, times) &&
           (served->stamps == NULL || stamps_read(served, &closes, times));
}

/* ---- Does a late reader look late? ---- */

/* Wakes the stopped server from a process of its own: this one is in the middle of sending. */
static pid_t waker_start(pid_t server)
{
    fflush(NULL);
    pid_t waker = fork();
    if (waker == 0) {
        usleep((useconds_t)(STOPPED_NS / TW_NS_PER_US));
        kill(server, SIGCONT);
        _exit(0);
    }
    return waker;
}

struct late {
    double path_ms_min, path_ms_server_max; /* by this side's clock; as the server's own summary has it */
    double own_ms_p50;
};

static bool late_try(struct served *served, struct round_times *times, struct late *ret)
{
    struct sender opens = {.burst = served->bursts};
    struct sender closes = {.burst = served->bursts++, .is_close = true};
    struct driven_summary summary = {0};
    if (!events_send(served, &opens))
        return false;
    kill(served->server.pid, SIGSTOP);
    waitpid(served->server.pid, NULL, WUNTRACED); /* every thread of it has stopped */
    pid_t waker = waker_start(served->server.pid);
    bool is_good = events_send(served, &closes);
    waitpid(waker, NULL, 0);
    if (!is_good || !samples_read(served, &closes, times) || !driven_summary_get(&served->server, &summary))
        return false;
    figures_sort(times->path_ms, times->n);
    ret->path_ms_min = times->path_ms[0];
    ret->own_ms_p50 = figure_median(times->own_ms, times->n);
    ret->path_ms_server_max = summary.path.n > 0 ? (double)summary.path.upper_ns[summary.path.n - 1] / 1e6 : 0;
    driven_summary_clear(&summary);
    double stopped_ms = (double)STOPPED_NS / 1e6;
    if (ret->path_ms_min < stopped_ms * 0.9 || ret->path_ms_server_max < stopped_ms * 0.9) {
        fprintf(stderr, "the server was stopped for %.0f ms, and its path time is %.1f ms\n", stopped_ms,
                ret->path_ms_min);
        return false;
    }
    return true;
}

/* ---- Figures ---- */

struct series {
    double *p50, *p95, *p99, *max; /* by round */
};

static struct series series_new(uint32_t rounds)
{
    double *all = calloc(4 * (size_t)rounds, sizeof *all);
    return (struct series){all, all + rounds, all + 2 * (size_t)rounds, all + 3 * (size_t)rounds};
}

static void series_set(struct series *series, uint32_t round, double *values, uint32_t n)
{
    struct times times = times_of(values, n);
    series->p50[round] = times.p50;
    series->p95[round] = times.p95;
    series->p99[round] = times.p99;
    series->max[round] = times.max;
}

static double median_of_copy(const double *values, uint32_t n)
{
    double *copy = calloc(n, sizeof *copy);
    memcpy(copy, values, n * sizeof *copy);
    double median = figure_median(copy, n);
    free(copy);
    return median;
}

static struct times series_median(const struct series *series, uint32_t rounds)
{
    return (struct times){median_of_copy(series->p50, rounds), median_of_copy(series->p95, rounds),
                          median_of_copy(series->p99, rounds), median_of_copy(series->max, rounds)};
}

/* Round by round, so that what disturbs the machine disturbs both sides of the fraction. */
static struct ratio {
    double middle, low, high; /* median, and 10 and 90 percent of the rounds */
} ratio_of(const double *ours, const double *theirs, uint32_t rounds)
{
    double *ratios = calloc(rounds, sizeof *ratios);
    for (uint32_t r = 0; r < rounds; r++)
        ratios[r] = ours[r] / theirs[r];
    figures_sort(ratios, rounds);
    struct ratio ratio = {figure_at(ratios, rounds, 500), figure_at(ratios, rounds, 100),
                          figure_at(ratios, rounds, 900)};
    free(ratios);
    return ratio;
}

enum side { SIDE_FLOOR, SIDE_UNARY, SIDE_STREAM, SIDES };
static const char *const side_names[SIDES] = {"floor", "unary", "stream"};

struct account {
    struct series own[SIDES], path[SIDES]; /* the floor's own time is its path time */
    struct series vendor_own[SIDES], vendor_path[SIDES]; /* hosted; the floor has none */
    uint32_t copies_created; /* samples whose copy had to wait for a new thread */
    struct late late;
    bool realtime;
};

static bool turn_take(struct served *served, const struct floor_seat *floor, enum side side, struct account *account,
                      struct round_times *times, uint32_t round)
{
    uint32_t copies = served->options->closes * served->options->followers;
    if (side == SIDE_FLOOR) {
        if (!floor_round(floor, times->path_ms, copies))
            return false;
        memcpy(times->own_ms, times->path_ms, copies * sizeof *times->own_ms);
    } else if (!served_round(served, side == SIDE_STREAM, times)) {
        return false;
    } else {
        account->copies_created += times->n_created;
        if (served->stamps != NULL) {
            series_set(&account->vendor_own[side], round, times->vendor_own_ms, copies);
            series_set(&account->vendor_path[side], round, times->vendor_path_ms, copies);
        }
    }
    series_set(&account->own[side], round, times->own_ms, copies);
    series_set(&account->path[side], round, times->path_ms, copies);
    return true;
}

/* The first round opens connections and the stream, and does not count. */
static bool rounds_run(struct served *served, const struct floor_seat *floor, struct account *account)
{
    uint32_t copies = served->options->closes * served->options->followers, rounds = served->options->rounds;
    double *all = calloc(4 * (size_t)copies, sizeof *all);
    struct round_times times = {.own_ms = all, .path_ms = all + copies, .vendor_own_ms = all + 2 * (size_t)copies,
                                .vendor_path_ms = all + 3 * (size_t)copies};
    bool is_good = true;
    for (uint32_t round = 0; round <= rounds && is_good; round++)
        for (uint32_t i = 0; i < SIDES && is_good; i++) {
            progress("serve-burst", round * SIDES + i, (rounds + 1) * SIDES);
            is_good = turn_take(served, floor, (i + round) % SIDES, account, &times, round == 0 ? 0 : round - 1);
            usleep(60000);
        }
    progress("serve-burst", 1, 1);
    is_good = is_good && late_try(served, &times, &account->late);
    free(all);
    return is_good;
}

/* ---- The account ---- */

static void to_floor_json(const struct account *account, enum side side, uint32_t rounds)
{
    const struct series *ours = &account->path[side], *bottom = &account->path[SIDE_FLOOR];
    struct ratio p50 = ratio_of(ours->p50, bottom->p50, rounds), max = ratio_of(ours->max, bottom->max, rounds);
    printf("\"to_floor\":{\"p50\":%.3f,\"p50_low\":%.3f,\"p50_high\":%.3f,\"max\":%.3f,\"max_low\":%.3f,"
           "\"max_high\":%.3f}",
           p50.middle, p50.low, p50.high, max.middle, max.low, max.high);
}

static void side_json(const struct account *account, enum side side, uint32_t rounds)
{
    struct times own = series_median(&account->own[side], rounds), path = series_median(&account->path[side], rounds);
    times_json(stdout, "own_ms", &own);
    printf(",");
    times_json(stdout, "path_ms", &path);
    printf(",");
    to_floor_json(account, side, rounds);
}

static void vendor_json(const struct account *account, enum side side, uint32_t rounds)
{
    struct times own = series_median(&account->vendor_own[side], rounds), path = series_median(&account->vendor_path[side], rounds);
    printf("\"%s\":{", side_names[side]);
    times_json(stdout, "own_ms", &own);
    printf(",");
    times_json(stdout, "path_ms", &path);
    printf("}");
}

/* The figures at the top are those of the unary calls. */
static void account_json(const struct bench_options *options, const struct account *account)
{
    struct times bottom = series_median(&account->path[SIDE_FLOOR], options->rounds);
    struct machine machine;
    machine_look(&machine);
    printf("{\"bench\":\"serve-burst\",\"closes\":%u,\"followers\":%u,\"copies\":%u,\"answer_ms\":%.3f,"
           "\"rounds\":%u,\"adapter\":\"%s\",\"realtime\":%s,",
           options->closes, options->followers, options->closes * options->followers,
           (double)options->answer_ns / 1e6, options->rounds, options->adapter,
           account->realtime ? "true" : "false");
    side_json(account, SIDE_UNARY, options->rounds);
    printf(",\"stream\":{");
    side_json(account, SIDE_STREAM, options->rounds);
    printf("},\"hosted\":%s,", options->hosted ? "true" : "false");
    if (options->hosted) {
        printf("\"vendor_call\":{");
        vendor_json(account, SIDE_UNARY, options->rounds);
        printf(",");
        vendor_json(account, SIDE_STREAM, options->rounds);
        printf("},");
    }
    times_json(stdout, "floor_ms", &bottom);
    printf(",\"copies_with_new_threads\":%u,\"late\":{\"stopped_ms\":%.0f,\"path_ms_min\":%.1f,"
           "\"path_ms_server_max\":%.1f,\"own_ms_p50\":%.3f},",
           account->copies_created, (double)STOPPED_NS / 1e6, account->late.path_ms_min,
           account->late.path_ms_server_max, account->late.own_ms_p50);
    machine_json(stdout, &machine);
    printf("}\n");
}

static void side_print(const struct account *account, enum side side, uint32_t rounds)
{
    struct times own = series_median(&account->own[side], rounds), path = series_median(&account->path[side], rounds);
    const struct series *ours = &account->path[side], *bottom = &account->path[SIDE_FLOOR];
    struct ratio p50 = ratio_of(ours->p50, bottom->p50, rounds), max = ratio_of(ours->max, bottom->max, rounds);
    printf("%-8s %8.3f %8.3f %8.3f %8.3f | %8.3f %8.3f %8.3f %8.3f | %6.2f (%.2f-%.2f) %6.2f (%.2f-%.2f)\n",
           side_names[side], own.p50, own.p95, own.p99, own.max, path.p50, path.p95, path.p99, path.max, p50.middle,
           p50.low, p50.high, max.middle, max.low, max.high);
}

static void vendor_print(const struct account *account, enum side side, uint32_t rounds)
{
    struct times own = series_median(&account->vendor_own[side], rounds), path = series_median(&account->vendor_path[side], rounds);
    printf("%-8s %8.3f %8.3f %8.3f %8.3f | %8.3f %8.3f %8.3f %8.3f\n", side_names[side], own.p50, own.p95, own.p99, own.max,
           path.p50, path.p95, path.p99, path.max);
}

static void account_print(const struct bench_options *options, const struct account *account)
{
    struct machine machine;
    machine_look(&machine);
    machine_print(stdout, &machine);
    printf("%u closes x %u followers = %u blocking calls of %.0f ms through the server; leaders %s; medians of %u "
           "rounds, ms.\nown: since the server received the close; path: since this program began to send\n\n",
           options->closes, options->followers, options->closes * options->followers,
           (double)options->answer_ns / 1e6, account->realtime ? "real-time" : "ordinary", options->rounds);
    printf("%-8s %8s %8s %8s %8s | %8s %8s %8s %8s | %s\n", "", "own p50", "p95", "p99", "max", "path p50", "p95",
           "p99", "max", "path of floor's: p50       max (spread)");
    for (enum side side = SIDE_FLOOR; side < SIDES; side++)
        side_print(account, side, options->rounds);
    if (options->hosted) {
        printf("\nthe same to the start of the vendor's call, stamped in its process\n");
        vendor_print(account, SIDE_UNARY, options->rounds);
        vendor_print(account, SIDE_STREAM, options->rounds);
    }
    printf("\n%u copies waited for a new thread. Stopped for %.0f ms while a burst was sent: path time at least "
           "%.1f ms\n(%.1f at most in the server's own summary), own time p50 %.3f.\n",
           account->copies_created, (double)STOPPED_NS / 1e6, account->late.path_ms_min,
           account->late.path_ms_server_max, account->late.own_ms_p50);
}

static bool account_plot(const struct bench_options *options, const struct account *account)
{
    static const char *const figures[] = {"own p50", "own max", "path p50", "path max"};
    enum { FIGURES = sizeof figures / sizeof figures[0] };
    double value[FIGURES][SIDES], index[SIDES];
    struct plot_series series[FIGURES];
    for (enum side side = SIDE_FLOOR; side < SIDES; side++) {
        struct times own = series_median(&account->own[side], options->rounds);
        struct times path = series_median(&account->path[side], options->rounds);
        index[side] = side;
        value[0][side] = side == SIDE_FLOOR ? 0 : own.p50; /* the floor knows no receipt */
        value[1][side] = side == SIDE_FLOOR ? 0 : own.max;
        value[2][side] = path.p50;
        value[3][side] = path.max;
    }
    for (size_t f = 0; f < FIGURES; f++)
        series[f] = (struct plot_series){.name = figures[f], .x = index, .y = value[f], .n = SIDES};
    const struct plot_panel panel = {.title = "Own time: since the server received; path time: since the client began",
                                     .x_label = account->realtime ? "leaders with real-time priority" : "ordinary leaders",
                                     .y_label = "ms",
                                     .series = series,
                                     .n_series = FIGURES,
                                     .x_names = side_names,
                                     .n_x_names = SIDES,
                                     .is_y_log = true};
    struct machine machine;
    char title[128], about[256];
    machine_look(&machine);
    machine_words(&machine, about, sizeof about);
    snprintf(title, sizeof title, "%u closes x %u followers through the server, calls of %.0f ms, %u rounds",
             options->closes, options->followers, (double)options->answer_ns / 1e6, options->rounds);
    return plot_write(options->plot, title, about, &panel, 1);
}

/* ---- The command ---- */

static bool watch_open(struct served *served)
{
    enum { SAMPLES_OF_BATCH = 4096 };
    Google__Protobuf__Duration delay = GOOGLE__PROTOBUF__DURATION__INIT;
    Tradewake__V1__WatchOwnTimeRequest request = TRADEWAKE__V1__WATCH_OWN_TIME_REQUEST__INIT;
    struct tw_arena arena;
    struct tw_error error = {0};
    ProtobufCMessage *started;
    delay.nanos = (int32_t)(100 * TW_NS_PER_MS); /* samples are sent after the burst, not within it */
    request.max_batch = SAMPLES_OF_BATCH;
    request.max_delay = &delay;
    tw_arena_init(&arena, BATCH_BYTES_MAX);
    bool is_good =
        tw_wire_client_open_plain(served->server.address, &served->watcher, &error) == TW_OK &&
        tw_wire_stream_open(served->watcher, WATCH_OWN_TIME, &request.base, INT64_MAX, &served->samples, &error) ==
            TW_OK &&
        tw_wire_stream_read(served->samples, tw_mono_ns() + SAMPLES_NS_MAX, &arena, &started, NULL, &error) == TW_OK;
    tw_arena_clear(&arena);
    if (!is_good)
        fprintf(stderr, WATCH_OWN_TIME ": %s\n", error.text);
    return is_good;
}

static bool served_open(const struct bench_options *options, struct served *served)
{
    char latency[48];
    snprintf(latency, sizeof latency, "constant:%lldus", (long long)(options->answer_ns / TW_NS_PER_US));
    const struct driven_fleet fleet = {.followers = options->followers,
                                       .max_parallel = MAX_PARALLEL,
                                       .adapter = options->adapter,
                                       .latency = latency,
                                       .is_blocking = true,
                                       .stamps = options->hosted ? served->stamps_path : NULL};
    served->options = options;
    if (!driven_start_with(options->realtime, options->adapter, options->hosted, options->answer_ns, &served->server))
        return false;
    snprintf(served->stamps_path, sizeof served->stamps_path, "%s/stamps", served->server.dir);
    if (!driven_fleet(&served->server, &fleet) || !watch_open(served))
        return false;
    if (options->hosted) {
        served->stamps = fopen(served->stamps_path, "re");
        served->arrivals = calloc((size_t)options->closes * options->followers, sizeof served->arrivals[0]);
        if (served->stamps == NULL || served->arrivals == NULL) {
            fprintf(stderr, "%s: no stamps; is %s one of plugins/ beside this program?\n", served->stamps_path, options->adapter);
            return false;
        }
    }
    served->unary = load_open(served->server.address, DRIVEN_SUBMIT, LOAD_UNARY);
    served->stream = load_open(served->server.address, DRIVEN_STREAM, LOAD_STREAM);
    return served->unary != NULL && served->stream != NULL;
}

static void served_close(struct served *served)
{
    if (served->stamps != NULL)
        fclose(served->stamps);
    free(served->arrivals);
    load_close(served->unary);
    load_close(served->stream);
    tw_wire_stream_close(served->samples);
    tw_wire_client_close(served->watcher);
    driven_stop(&served->server);
}

int bench_serve_burst(const struct bench_options *options)
{
    struct floor_seat floor = {0};
    struct served served = {0};
    struct account account = {0};
    if (options->closes > CLOSES_MAX) {
        fprintf(stderr, "--closes is %u, expected 1..%d\n", options->closes, CLOSES_MAX);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    for (enum side side = SIDE_FLOOR; side < SIDES; side++) {
        account.own[side] = series_new(options->rounds);
        account.path[side] = series_new(options->rounds);
        account.vendor_own[side] = series_new(options->rounds);
        account.vendor_path[side] = series_new(options->rounds);
    }
    bool is_good = floor_open(options, &floor) && served_open(options, &served) &&
                   rounds_run(&served, &floor, &account) && driven_realtime(&served.server, &account.realtime);
    if (is_good && options->json)
        account_json(options, &account);
    else if (is_good)
        account_print(options, &account);
    if (is_good && options->plot != NULL)
        is_good = account_plot(options, &account);
    served_close(&served);
    floor_close(&floor);
    for (enum side side = SIDE_FLOOR; side < SIDES; side++) {
        free(account.own[side].p50);
        free(account.path[side].p50);
        free(account.vendor_own[side].p50);
        free(account.vendor_path[side].p50);
    }
    return is_good ? 0 : 1;
}
