/* intake.c - how many events a second the server takes, and what one costs, beside a bare echo on the same
 * library: one follower on an account that answers at once and needs no thread.
 *
 * The same client sends the same requests to both (load.h). Each slot opens and closes positions
 * of its own, so that every event leads to an order. That the server has made them is counted. */
#include "bench.h"
#include "driven.h"
#include "echo.h"

#include <tradewake/base/clock.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A slot opens so many positions and then closes them: far enough apart that the open has left when its
 * close comes (it would be withdrawn, and neither would be sent). */
enum { OUTSTANDING_MAX = 1024, DEPTH = 32 };

/* One way of sending to one server. */
struct lane {
    struct load *load;
    pid_t pid;
    bool is_streamed;
    double *per_s, *p50_us, *cpu_us; /* by round */
};
enum { LANES = 4 };

struct sender {
    uint32_t run; /* ids never repeat */
    bool is_streamed;
    uint32_t turns[OUTSTANDING_MAX];
};

static size_t event_make(void *context, uint32_t slot, uint8_t bytes[LOAD_MESSAGE_BYTES])
{
    struct sender *sender = context;
    char id[48], position[48];
    uint32_t turn = sender->turns[slot]++;
    snprintf(id, sizeof id, "E%u-%u-%u", sender->run, slot, turn);
    snprintf(position, sizeof position, "P%u-%u-%u", sender->run, slot, turn / (2 * DEPTH) * DEPTH + turn % DEPTH);
    const struct driven_event event = {.id = id,
                                       .position_id = position,
                                       .is_close = turn / DEPTH % 2 == 1,
                                       .is_streamed = sender->is_streamed,
                                       .observed_wall_ns = tw_wall_ns()};
    return driven_event_pack(&event, bytes);
}

/* Rounds up so that every slot ends with a close. */
static uint32_t events_of(const struct bench_options *options)
{
    uint32_t whole = 2 * DEPTH * options->outstanding;
    return (options->events + whole - 1) / whole * whole;
}

static bool lane_round(struct lane *lane, const struct bench_options *options, uint32_t run, double *answered_us,
                       uint32_t round)
{
    struct sender sender = {.run = run, .is_streamed = lane->is_streamed};
    const struct load_work work = {.count = events_of(options),
                                   .outstanding = options->outstanding,
                                   .make = event_make,
                                   .context = &sender,
                                   .answered_us = answered_us};
    double cpu_us = process_cpu_us(lane->pid);
    int64_t from_ns = tw_mono_ns();
    if (!load_run(lane->load, &work))
        return false;
    double seconds = (double)(tw_mono_ns() - from_ns) / 1e9;
    usleep(20000); /* what follows the last answers belongs to them */
    lane->cpu_us[round] = (process_cpu_us(lane->pid) - cpu_us) / work.count;
    lane->per_s[round] = work.count / seconds;
    lane->p50_us[round] = figure_median(answered_us, work.count);
    return true;
}

/* The first round warms both up and does not count. */
static bool rounds_run(struct lane lanes[LANES], const struct bench_options *options)
{
    double *answered_us = calloc(events_of(options), sizeof *answered_us);
    bool is_good = true;
    uint32_t run = 0;
    for (uint32_t round = 0; round <= options->rounds && is_good; round++)
        for (uint32_t i = 0; i < LANES && is_good; i++) {
            progress("intake", run, (options->rounds + 1) * LANES);
            is_good = lane_round(&lanes[(i + round) % LANES], options, run++, answered_us,
                                 round == 0 ? 0 : round - 1);
        }
    progress("intake", 1, 1);
    free(answered_us);
    return is_good;
}

/* Every event of ours has led to an order, whose sample came: all but a few that a busy machine has kept
 * until their close withdrew them. */
static bool orders_check(struct driven *server, const struct bench_options *options)
{
    uint64_t sent = 2 * (uint64_t)(options->rounds + 1) * events_of(options), orders = 0, lost = 0;
    for (int64_t until_ns = tw_mono_ns() + 2 * TW_NS_PER_S; tw_mono_ns() < until_ns && orders < sent;) {
        struct driven_summary summary;
        if (!driven_summary_get(server, &summary))
            return false;
        orders = summary.own.count + summary.held;
        lost = summary.samples_lost;
        driven_summary_clear(&summary);
        usleep(20000);
    }
    if (orders != sent || lost != 0)
        fprintf(stderr, "%llu events were sent, %llu orders made, %llu samples lost\n", (unsigned long long)sent,
                (unsigned long long)orders, (unsigned long long)lost);
    return orders <= sent && orders >= sent - sent / 100 && lost == 0;
}

/* ---- The account ---- */

struct intake {
    double unary_per_s, stream_per_s, unary_p50_us, stream_p50_us, unary_cpu_us, stream_cpu_us;
};

static struct intake intake_of(const struct lane *unary, const struct lane *stream, uint32_t rounds)
{
    return (struct intake){
        .unary_per_s = figure_median(unary->per_s, rounds),
        .stream_per_s = figure_median(stream->per_s, rounds),
        .unary_p50_us = figure_median(unary->p50_us, rounds),
        .stream_p50_us = figure_median(stream->p50_us, rounds),
        .unary_cpu_us = figure_median(unary->cpu_us, rounds),
        .stream_cpu_us = figure_median(stream->cpu_us, rounds),
    };
}

static void intake_json(const char *name, const struct intake *figures)
{
    printf("\"%s\":{\"unary_per_s\":%.0f,\"stream_per_s\":%.0f,\"unary_p50_us\":%.1f,\"stream_p50_us\":%.1f,"
           "\"cpu_us_per_event\":%.2f,\"stream_cpu_us_per_event\":%.2f},",
           name, figures->unary_per_s, figures->stream_per_s, figures->unary_p50_us, figures->stream_p50_us,
           figures->unary_cpu_us, figures->stream_cpu_us);
}

static void intake_row(const char *name, const struct intake *figures)
{
    printf("%-12s %10.0f %10.1f %10.2f | %10.0f %10.1f %10.2f\n", name, figures->unary_per_s,
           figures->unary_p50_us, figures->unary_cpu_us, figures->stream_per_s, figures->stream_p50_us,
           figures->stream_cpu_us);
}

static void intake_print(const struct lane lanes[LANES], const struct bench_options *options)
{
    struct intake echo = intake_of(&lanes[0], &lanes[1], options->rounds);
    struct intake ours = intake_of(&lanes[2], &lanes[3], options->rounds);
    struct machine machine;
    machine_look(&machine);
    if (options->json) {
        printf("{\"bench\":\"intake\",\"outstanding\":%u,\"events\":%u,\"rounds\":%u,", options->outstanding,
               events_of(options), options->rounds);
        intake_json("echo", &echo);
        intake_json("tradewake", &ours);
        machine_json(stdout, &machine);
        printf("}\n");
        return;
    }
    machine_print(stdout, &machine);
    printf("%u events a round, %u on their way at once over one connection, one follower that answers at once; "
           "medians of %u rounds\n\n",
           events_of(options), options->outstanding, options->rounds);
    printf("%-12s %32s | %32s\n%-12s %10s %10s %10s | %10s %10s %10s\n", "", "unary", "stream", "", "per s",
           "p50 us", "CPU us", "per s", "p50 us", "CPU us");
    intake_row("echo", &echo);
    intake_row("tradewake", &ours);
    printf("of echo's    %9.2fx %10s %+10.2f | %9.2fx %10s %+10.2f\n", ours.unary_per_s / echo.unary_per_s, "",
           ours.unary_cpu_us - echo.unary_cpu_us, ours.stream_per_s / echo.stream_per_s, "",
           ours.stream_cpu_us - echo.stream_cpu_us);
}

/* ---- The command ---- */

static bool lanes_open(struct lane lanes[LANES], const struct echo *echo, const struct driven *server,
                       uint32_t rounds)
{
    const struct {
        const char *address, *path;
        pid_t pid;
        bool is_streamed;
    } all[LANES] = {
        {echo->address, ECHO_CALL, echo->pid, false},
        {echo->address, ECHO_STREAM, echo->pid, true},
        {server->address, DRIVEN_SUBMIT, server->pid, false},
        {server->address, DRIVEN_STREAM, server->pid, true},
    };
    for (uint32_t i = 0; i < LANES; i++) {
        double *figures = calloc(3 * (size_t)rounds, sizeof *figures);
        lanes[i] = (struct lane){
            .pid = all[i].pid,
            .is_streamed = all[i].is_streamed,
            .per_s = figures,
            .p50_us = figures + rounds,
            .cpu_us = figures + 2 * (size_t)rounds,
            .load = load_open(all[i].address, all[i].path, all[i].is_streamed ? LOAD_STREAM : LOAD_UNARY),
        };
        if (lanes[i].load == NULL)
            return false;
    }
    return true;
}

int bench_intake(const struct bench_options *options)
{
    const struct driven_fleet fleet = {.followers = 1, .max_parallel = 32, .adapter = "paper", .latency = "constant:0"};
    struct lane lanes[LANES] = {0};
    struct driven server = {0};
    struct echo echo;
    if (options->outstanding > OUTSTANDING_MAX) {
        fprintf(stderr, "--outstanding is %u, expected 1..%d\n", options->outstanding, OUTSTANDING_MAX);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    bool is_good = echo_start(&echo) && driven_start(options->realtime, &server) && driven_fleet(&server, &fleet) &&
                   lanes_open(lanes, &echo, &server, options->rounds) && rounds_run(lanes, options) &&
                   orders_check(&server, options);
    if (is_good)
        intake_print(lanes, options);
    for (uint32_t i = 0; i < LANES; i++) {
        load_close(lanes[i].load);
        free(lanes[i].per_s);
    }
    driven_stop(&server);
    echo_stop(&echo);
    return is_good ? 0 : 1;
}
