/* scale.c - from 30 to 10 000 followers without threads of their own: own time of a copy, and what a
 * copy costs in processor time, all of the server's counted, the reading of accounts too.
 *
 * Each size is a server of its own. Events come one after the other, each when the one before is done at
 * every follower; a round has as many as make --events copies. */
#include "bench.h"
#include "driven.h"
#include "plot.h"

#include <tradewake/base/clock.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POINTS_MAX = 16, FOLLOWERS_MAX = 10000 };

struct point {
    uint32_t followers;
    struct times own_ms;
    double cpu_us_per_copy;
    double idle_cpu_us_per_s; /* before the first event */
    double copies_per_s;
};

struct sender {
    uint32_t events; /* of a round */
    uint32_t turn;   /* over all rounds */
};

static size_t event_make(void *context, uint32_t slot, uint8_t bytes[LOAD_MESSAGE_BYTES])
{
    struct sender *sender = context;
    char id[32], position[32];
    (void)slot;
    snprintf(id, sizeof id, "E%u", sender->turn);
    snprintf(position, sizeof position, "P%u", sender->turn / 2);
    const struct driven_event event = {.id = id,
                                       .position_id = position,
                                       .is_close = sender->turn++ % 2 == 1,
                                       .waits_until_done = true,
                                       .observed_wall_ns = tw_wall_ns()};
    return driven_event_pack(&event, bytes);
}

/* An even number: what is opened is closed. */
static uint32_t events_of(uint32_t copies, uint32_t followers)
{
    uint32_t pairs = (copies / 2 + followers - 1) / followers;
    return pairs > 0 ? 2 * pairs : 2;
}

/* The summary once it has `count` copies. */
static bool summary_wait(struct driven *server, uint64_t count, struct driven_summary *ret)
{
    for (int64_t until_ns = tw_mono_ns() + 10 * TW_NS_PER_S; tw_mono_ns() < until_ns;) {
        if (!driven_summary_get(server, ret))
            return false;
        if (ret->own.count == count && ret->samples_lost == 0)
            return true;
        driven_summary_clear(ret);
        usleep(5000);
    }
    fprintf(stderr, "there are not %llu samples of own time after 10 s\n", (unsigned long long)count);
    return false;
}

/* By round; the first one warms up and does not count. */
struct series {
    double *p50, *p95, *p99, *max, *cpu_us, *per_s;
};

static bool round_run(struct driven *server, struct load *load, struct sender *sender, uint32_t followers,
                      struct driven_summary *before, struct series *series, uint32_t round)
{
    const struct load_work work = {
        .count = sender->events, .outstanding = 1, .make = event_make, .context = sender};
    uint64_t copies = (uint64_t)work.count * followers;
    struct driven_summary after;
    double cpu_us = process_cpu_us(server->pid);
    int64_t from_ns = tw_mono_ns();
    if (!load_run(load, &work))
        return false;
    series->per_s[round] = (double)copies * 1e9 / (double)(tw_mono_ns() - from_ns);
    series->cpu_us[round] = (process_cpu_us(server->pid) - cpu_us) / (double)copies;
    if (!summary_wait(server, before->own.count + copies, &after))
        return false;
    struct times times = driven_times_between(&before->own, &after.own);
    series->p50[round] = times.p50;
    series->p95[round] = times.p95;
    series->p99[round] = times.p99;
    series->max[round] = times.max;
    driven_summary_clear(before);
    *before = after;
    return true;
}

static double idle_measure(const struct driven *server)
{
    double cpu_us = process_cpu_us(server->pid);
    int64_t from_ns = tw_mono_ns();
    usleep(1000000);
    return (process_cpu_us(server->pid) - cpu_us) * 1e9 / (double)(tw_mono_ns() - from_ns);
}

static bool point_rounds(struct driven *server, struct load *load, const struct bench_options *options,
                         struct point *point)
{
    size_t n = options->rounds;
    double *all = calloc(6 * n, sizeof *all);
    struct series series = {all, all + n, all + 2 * n, all + 3 * n, all + 4 * n, all + 5 * n};
    struct driven_summary before = {0};
    struct sender sender = {.events = events_of(options->events, point->followers)};
    bool is_good = true;
    for (uint32_t round = 0; round <= n && is_good; round++) {
        progress("scale", round, options->rounds + 1);
        is_good = round_run(server, load, &sender, point->followers, &before, &series, round == 0 ? 0 : round - 1);
    }
    progress("scale", 1, 1);
    point->own_ms = (struct times){figure_median(series.p50, n), figure_median(series.p95, n),
                                   figure_median(series.p99, n), figure_median(series.max, n)};
    point->cpu_us_per_copy = figure_median(series.cpu_us, n);
    point->copies_per_s = figure_median(series.per_s, n);
    driven_summary_clear(&before);
    free(all);
    return is_good;
}

static bool point_run(const struct bench_options *options, struct point *point)
{
    const struct driven_fleet fleet = {
        .followers = point->followers, .max_parallel = 32, .adapter = "paper", .latency = "constant:0"};
    struct driven server = {0};
    struct load *load = NULL;
    bool is_good = driven_start(options->realtime, &server) && driven_fleet(&server, &fleet) &&
                   (load = load_open(server.address, DRIVEN_SUBMIT, LOAD_UNARY)) != NULL;
    if (is_good) {
        point->idle_cpu_us_per_s = idle_measure(&server);
        is_good = point_rounds(&server, load, options, point);
    }
    load_close(load);
    driven_stop(&server);
    return is_good;
}

/* ---- The command ---- */

static uint32_t points_read(const char *list, struct point points[POINTS_MAX])
{
    uint32_t n = 0;
    while (n < POINTS_MAX) {
        char *rest;
        unsigned long followers = strtoul(list, &rest, 10);
        if (rest == list || (*rest != ',' && *rest != '\0') || followers == 0 || followers > FOLLOWERS_MAX)
            return 0;
        points[n++].followers = (uint32_t)followers;
        if (*rest == '\0')
            return n;
        list = rest + 1;
    }
    return 0;
}

static void scale_print(const struct bench_options *options, const struct point *points, uint32_t n)
{
    struct machine machine;
    machine_look(&machine);
    if (options->json) {
        printf("{\"bench\":\"scale\",\"copies\":%u,\"rounds\":%u,\"points\":[", options->events, options->rounds);
        for (uint32_t i = 0; i < n; i++) {
            printf("%s{\"followers\":%u,", i == 0 ? "" : ",", points[i].followers);
            times_json(stdout, "own_ms", &points[i].own_ms);
            printf(",\"cpu_us_per_copy\":%.2f,\"idle_cpu_us_per_s\":%.0f,\"copies_per_s\":%.0f}",
                   points[i].cpu_us_per_copy, points[i].idle_cpu_us_per_s, points[i].copies_per_s);
        }
        printf("],");
        machine_json(stdout, &machine);
        printf("}\n");
        return;
    }
    machine_print(stdout, &machine);
    printf("Events one after the other, %u copies a round, accounts that answer at once and need no thread; "
           "medians of %u rounds\n\n",
           options->events, options->rounds);
    printf("%9s %9s %9s %9s %9s %12s %14s %12s\n", "followers", "own p50", "p95", "p99", "max ms", "CPU us/copy",
           "idle CPU us/s", "copies/s");
    for (uint32_t i = 0; i < n; i++)
        printf("%9u %9.3f %9.3f %9.3f %9.3f %12.2f %14.0f %12.0f\n", points[i].followers, points[i].own_ms.p50,
               points[i].own_ms.p95, points[i].own_ms.p99, points[i].own_ms.max, points[i].cpu_us_per_copy,
               points[i].idle_cpu_us_per_s, points[i].copies_per_s);
}

static bool scale_plot(const struct bench_options *options, const struct point *points, uint32_t n)
{
    double x[POINTS_MAX], p50[POINTS_MAX], p99[POINTS_MAX], max[POINTS_MAX], cpu_us[POINTS_MAX];
    for (uint32_t i = 0; i < n; i++) {
        x[i] = points[i].followers;
        p50[i] = points[i].own_ms.p50;
        p99[i] = points[i].own_ms.p99;
        max[i] = points[i].own_ms.max;
        cpu_us[i] = points[i].cpu_us_per_copy;
    }
    const struct plot_series own[] = {{.name = "p50", .x = x, .y = p50, .n = n},
                                      {.name = "p99", .x = x, .y = p99, .n = n},
                                      {.name = "max", .x = x, .y = max, .n = n}};
    const struct plot_series cpu[] = {{.name = "whole server", .x = x, .y = cpu_us, .n = n}};
    const struct plot_panel panels[] = {
        {.title = "Own time of a copy, one event after the other", .x_label = "followers", .y_label = "own time, ms",
         .series = own, .n_series = 3, .is_y_log = true},
        {.title = "Processor time of a copy", .x_label = "followers", .y_label = "CPU, microseconds per copy",
         .series = cpu, .n_series = 1},
    };
    struct machine machine;
    char title[128], about[256];
    machine_look(&machine);
    machine_words(&machine, about, sizeof about);
    snprintf(title, sizeof title, "Followers without threads, %u copies a round, %u rounds", options->events,
             options->rounds);
    return plot_write(options->plot, title, about, panels, 2);
}

int bench_scale(const struct bench_options *options)
{
    struct point points[POINTS_MAX] = {0};
    uint32_t n = points_read(options->points, points);
    if (n == 0) {
        fprintf(stderr, "--points is \"%s\", expected up to %d numbers of followers, 1..%d, with commas\n",
                options->points, POINTS_MAX, FOLLOWERS_MAX);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    for (uint32_t i = 0; i < n; i++)
        if (!point_run(options, &points[i]))
            return 1;
    scale_print(options, points, n);
    return options->plot == NULL || scale_plot(options, points, n) ? 0 : 1;
}
