/* burst.c - closes x followers calls at once over each pool, pools taking turns within each round.
 */
#include "bench.h"
#include "plot.h"
#include "pool.h"

#include <tradewake/base/clock.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct pool *const all_pools[] = {
    &pool_floor,   &pool_tradewake, &pool_growing, &pool_thread_per_call,
    &pool_condvar,
#ifdef BENCH_HAS_GLIB
    &pool_glib,
#endif
    &pool_libuv,   &pool_tokio,     &pool_java,    &pool_wake,
};
enum { GO = 'g', END = 'e' };
enum { POOLS_MAX = sizeof all_pools / sizeof all_pools[0], STAIRS = 8 };

static const char pools_by_default[] =
    "floor,tradewake,growing,thread-per-call,condvar,glib,libuv,tokio,java";
/* One copy alone is compared with the bare wake: a leader would only stand in its way. */
static const char pools_of_one_copy[] = "wake,tradewake,condvar,glib,libuv,tokio,java";

/* What parent and child share. */
struct seat_memory {
    int64_t from_mono_ns; /* of the last burst */
    uint32_t threads_ready, threads_created;
    double cpu_us; /* what the process used for it, answers included */
    struct copy_times copies[];
};

/* Figures round by round, ms. */
struct series {
    double *p50, *p95, *p99, *max;
};

/* A pool in its process, and what it has shown. */
struct seat {
    const struct pool *pool;
    pid_t child;
    int go, done; /* a byte each way per round */
    struct seat_memory *memory;
    size_t memory_bytes;
    struct series own, event; /* from the burst's beginning, and from the copy's close's */
    double *cpu_us;           /* per round, of one copy */
    struct times cold, own_ms, event_ms;
    double cpu_us_per_copy;
    uint32_t threads_created;
    double *stair_ms[STAIRS]; /* own time of copies by threads at start; growable by rounds */
    size_t stair_n[STAIRS];
};

/* ---- the child ---- */

static double cpu_us_now(const struct burst *burst)
{
    struct timespec used = {0};
    clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
    if (burst->cpu_of == 0 || clock_getcpuclockid(burst->cpu_of, &clock) == 0)
        clock_gettime(clock, &used);
    return (double)used.tv_sec * 1e6 + (double)used.tv_nsec / 1e3;
}

static void burst_once(const struct pool *pool, struct burst *burst, struct seat_memory *memory)
{
    uint32_t threads = atomic_load(&burst->threads);
    atomic_store(&burst->answered, 0);
    memory->threads_ready = threads;
    double cpu_us = cpu_us_now(burst);
    memory->from_mono_ns = burst->from_mono_ns = tw_mono_ns();
    pool->submit(burst);
    uint32_t most = threads;
    while (atomic_load(&burst->answered) < burst_copies(burst)) {
        uint32_t now = atomic_load(&burst->threads);
        most = now > most ? now : most;
        usleep(1000);
    }
    memory->threads_created = most - threads;
    memory->cpu_us = cpu_us_now(burst) - cpu_us;
}

static _Noreturn void child_main(const struct seat *seat, const struct bench_options *options)
{
    const struct pool *pool = seat->pool;
    struct burst burst = {.closes = options->closes,
                          .followers = options->followers,
                          .answer_ns = options->answer_ns,
                          .work_ns = options->work_ns,
                          .copies = seat->memory->copies};
    const struct pool_settings settings = {.threads = options->threads,
                                           .closes = options->closes,
                                           .followers = options->followers,
                                           .realtime = options->realtime,
                                           .pinned = options->pinned};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bool is_open = pool->open(&settings, &burst);
    usleep(300000); /* every thread has gone to sleep */
    char byte = is_open ? '+' : '-';
    while (write(seat->done, &byte, 1) == 1 && read(seat->go, &byte, 1) == 1 && byte == GO) {
        if (pool->is_new_each_round) {
            pool->close();
            is_open = pool->open(&settings, &burst);
            usleep(100000);
        }
        burst_once(pool, &burst, seat->memory);
        byte = is_open ? '+' : '-';
    }
    pool->close();
    exit(0);
}

/* ---- the parent ---- */

static bool seat_open(struct seat *seat, const struct bench_options *options)
{
    uint32_t copies = options->closes * options->followers;
    int go[2], done[2];
    seat->memory_bytes = sizeof *seat->memory + copies * sizeof seat->memory->copies[0];
    seat->memory =
        mmap(NULL, seat->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seat->memory == MAP_FAILED || pipe(go) != 0 || pipe(done) != 0) {
        perror("burst");
        return false;
    }
    seat->go = go[1];
    seat->done = done[0];
    fflush(NULL);
    seat->child = fork();
    if (seat->child == 0) {
        struct seat mine = {
            .pool = seat->pool, .memory = seat->memory, .go = go[0], .done = done[1]};
        close(go[1]);
        close(done[0]);
        child_main(&mine, options);
    }
    close(go[0]);
    close(done[1]);
    char byte = '-';
    if (seat->child < 0 || read(seat->done, &byte, 1) != 1 || byte != '+') {
        fprintf(stderr, "the pool %s could not be opened\n", seat->pool->name);
        return false;
    }
    return true;
}

static void seat_close(struct seat *seat)
{
    const char byte = END; /* not the pipe's end: the children after it hold that open too */
    if (seat->child > 0 && write(seat->go, &byte, 1) != 1)
        kill(seat->child, SIGKILL);
    close(seat->go);
    close(seat->done);
    if (seat->child > 0)
        waitpid(seat->child, NULL, 0);
    munmap(seat->memory, seat->memory_bytes);
}

/* Up to 32 threads at start, up to 64, 128, ... */
static unsigned stair_of(uint32_t threads)
{
    unsigned stair = 0;
    while (stair + 1 < STAIRS && threads > 32u << stair)
        stair++;
    return stair;
}

static struct series series_new(uint32_t rounds)
{
    double *all = calloc(4 * (size_t)rounds, sizeof *all);
    return (struct series){all, all + rounds, all + 2 * (size_t)rounds, all + 3 * (size_t)rounds};
}

static void series_set(struct series *series, uint32_t round, const struct times *times)
{
    series->p50[round] = times->p50;
    series->p95[round] = times->p95;
    series->p99[round] = times->p99;
    series->max[round] = times->max;
}

static void round_take(struct seat *seat, uint32_t copies, uint32_t round, bool is_cold)
{
    double *own_ms = calloc(copies, sizeof *own_ms), *event_ms = calloc(copies, sizeof *event_ms);
    for (uint32_t i = 0; i < copies; i++) {
        const struct copy_times *copy = &seat->memory->copies[i];
        own_ms[i] = (double)(copy->started_mono_ns - seat->memory->from_mono_ns) / 1e6;
        event_ms[i] = (double)(copy->started_mono_ns - copy->event_mono_ns) / 1e6;
        unsigned stair = stair_of(copy->threads_at_start);
        if (!is_cold)
            seat->stair_ms[stair][seat->stair_n[stair]++] = own_ms[i];
    }
    struct times own = times_of(own_ms, copies), event = times_of(event_ms, copies);
    free(own_ms);
    free(event_ms);
    if (is_cold) {
        seat->cold = own;
        return;
    }
    series_set(&seat->own, round, &own);
    series_set(&seat->event, round, &event);
    seat->cpu_us[round] = seat->memory->cpu_us / copies;
    if (seat->memory->threads_created > seat->threads_created)
        seat->threads_created = seat->memory->threads_created;
}

static bool seat_round(struct seat *seat)
{
    char byte = GO;
    if (write(seat->go, &byte, 1) == 1 && read(seat->done, &byte, 1) == 1 && byte == '+')
        return true;
    fprintf(stderr, "the pool %s has died\n", seat->pool->name);
    return false;
}

/* ---- the account ---- */

struct ratio {
    double middle, low, high; /* median, and 10 and 90 percent of the rounds */
};

/* Round by round, so that what disturbs the machine disturbs both sides of the fraction. */
static struct ratio ratio_of(const double *ours, const double *theirs, uint32_t rounds)
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

static double median_of_copy(const double *values, uint32_t n)
{
    double *copy = calloc(n, sizeof *copy);
    memcpy(copy, values, n * sizeof *copy);
    double middle = figure_median(copy, n);
    free(copy);
    return middle;
}

static struct times series_median(const struct series *series, uint32_t rounds)
{
    return (struct times){median_of_copy(series->p50, rounds), median_of_copy(series->p95, rounds),
                          median_of_copy(series->p99, rounds), median_of_copy(series->max, rounds)};
}

static void seat_conclude(struct seat *seat, uint32_t rounds)
{
    seat->cpu_us_per_copy = median_of_copy(seat->cpu_us, rounds);
    seat->own_ms = series_median(&seat->own, rounds);
    seat->event_ms = series_median(&seat->event, rounds);
}

static const struct seat *seat_of(const struct seat *seats, size_t n, const struct pool *pool)
{
    for (size_t i = 0; i < n; i++)
        if (seats[i].pool == pool)
            return &seats[i];
    return NULL;
}

/* What the others are compared with; NULL: nothing. */
static const struct seat *bottom_of(const struct bench_options *options, const struct seat *seats,
                                    size_t n)
{
    const struct seat *floor = seat_of(seats, n, &pool_floor),
                      *wake = seat_of(seats, n, &pool_wake);
    bool is_one = options->closes * options->followers == 1;
    return wake != NULL && (is_one || floor == NULL) ? wake : floor;
}

static void stairs_json(const struct seat *seat)
{
    printf(",\"by_threads_at_start\":[");
    const char *comma = "";
    for (unsigned s = 0; s < STAIRS; s++)
        if (seat->stair_n[s] > 0) {
            struct times times = times_of(seat->stair_ms[s], seat->stair_n[s]);
            printf("%s{\"threads_up_to\":%u,\"copies\":%zu,", comma, 32u << s, seat->stair_n[s]);
            times_json(stdout, "own_ms", &times);
            printf("}");
            comma = ",";
        }
    printf("]");
}

static void burst_json(const struct bench_options *options, struct seat *seats, size_t n)
{
    const struct seat *bottom = bottom_of(options, seats, n);
    struct machine machine;
    machine_look(&machine);
    printf("{\"bench\":\"burst\",\"closes\":%u,\"followers\":%u,\"copies\":%u,\"answer_ms\":%.3f,"
           "\"work_us\":%.1f,\"rounds\":%u,\"realtime\":%s,\"pinned\":%s,",
           options->closes, options->followers, options->closes * options->followers,
           (double)options->answer_ns / 1e6, (double)options->work_ns / 1e3, options->rounds,
           options->realtime && machine.realtime_allowed ? "true" : "false",
           options->pinned ? "true" : "false");
    machine_json(stdout, &machine);
    printf(",\"pools\":[");
    for (size_t i = 0; i < n; i++) {
        printf("%s{\"name\":\"%s\",", i == 0 ? "" : ",", seats[i].pool->name);
        times_json(stdout, "own_ms", &seats[i].own_ms);
        printf(",");
        times_json(stdout, "event_ms", &seats[i].event_ms);
        printf(",");
        times_json(stdout, "cold_ms", &seats[i].cold);
        printf(",\"threads_ready\":%u,\"threads_created\":%u,\"cpu_us_per_copy\":%.2f",
               seats[i].memory->threads_ready, seats[i].threads_created, seats[i].cpu_us_per_copy);
        if (bottom != NULL) {
            struct ratio p50 = ratio_of(seats[i].own.p50, bottom->own.p50, options->rounds);
            struct ratio max = ratio_of(seats[i].own.max, bottom->own.max, options->rounds);
            printf(",\"to_%s\":{\"p50\":%.3f,\"p50_low\":%.3f,\"p50_high\":%.3f,\"max\":%.3f,"
                   "\"max_low\":%.3f,\"max_high\":%.3f}",
                   bottom->pool->name, p50.middle, p50.low, p50.high, max.middle, max.low,
                   max.high);
        }
        stairs_json(&seats[i]);
        printf("}");
    }
    printf("]}\n");
}

static void stairs_print(struct seat *seats, size_t n)
{
    printf("\nOwn time by threads at start, median ms (share of copies)\n%-16s", "");
    for (unsigned s = 0; s < STAIRS; s++)
        printf("   up to %-5u", 32u << s);
    for (size_t i = 0; i < n; i++) {
        size_t all = 0;
        for (unsigned s = 0; s < STAIRS; s++)
            all += seats[i].stair_n[s];
        printf("\n%-16s", seats[i].pool->name);
        for (unsigned s = 0; s < STAIRS; s++)
            if (seats[i].stair_n[s] > 0)
                printf(" %7.2f (%2.0f%%)", figure_median(seats[i].stair_ms[s], seats[i].stair_n[s]),
                       100.0 * (double)seats[i].stair_n[s] / (double)all);
            else
                printf(" %13s", "");
    }
    printf(
        "\nPublished (.NET 10, 4 cores, cloud machine; 27 closes x 30 followers, the runtime's "
        "pool):\n"
        "33-36 threads 5.5-14 ms, 40-69: 19, 73-102: 45, 134-163: 71, 344-486: 125-190 (max 244).\n"
        "There with 12 closes: warm pool 2.8 / 20.7 / 25.2 (p50 / p95 / max), 64 ready and the "
        "rest on\n"
        "demand 25.9 / 55.3 / 61.1, 512 ready 1.2 / 5.0 / 7.9.\n");
}

static void burst_print(const struct bench_options *options, struct seat *seats, size_t n)
{
    const struct seat *bottom = bottom_of(options, seats, n);
    struct machine machine;
    machine_look(&machine);
    machine_print(stdout, &machine);
    printf("%u closes x %u followers = %u calls of %.0f ms at once; %u threads; leaders %s; "
           "medians of %u "
           "rounds, ms.\nown: since the burst began; event: since the submitting thread took up "
           "the copy's event\n\n",
           options->closes, options->followers, options->closes * options->followers,
           (double)options->answer_ns / 1e6, options->threads,
           options->realtime && machine.realtime_allowed ? "real-time" : "ordinary",
           options->rounds);
    printf("%-16s %8s %8s %8s %8s | %9s %8s %8s | %6s %7s | %s %s (spread)\n", "pool", "own p50",
           "p95", "p99", "max", "event p50", "max", "cold max", "CPU us", "created",
           "own p50 and max to those of", bottom != NULL ? bottom->pool->name : "nothing");
    for (size_t i = 0; i < n; i++) {
        const struct seat *seat = &seats[i];
        printf("%-16s %8.3f %8.3f %8.3f %8.3f | %9.3f %8.3f %8.3f | %6.1f %7u |", seat->pool->name,
               seat->own_ms.p50, seat->own_ms.p95, seat->own_ms.p99, seat->own_ms.max,
               seat->event_ms.p50, seat->event_ms.max, seat->cold.max, seat->cpu_us_per_copy,
               seat->threads_created);
        if (bottom != NULL) {
            struct ratio p50 = ratio_of(seat->own.p50, bottom->own.p50, options->rounds);
            struct ratio max = ratio_of(seat->own.max, bottom->own.max, options->rounds);
            printf(" %6.2f (%.2f-%.2f) %6.2f (%.2f-%.2f)", p50.middle, p50.low, p50.high,
                   max.middle, max.low, max.high);
        }
        printf("\n");
    }
    stairs_print(seats, n);
}

/* The staircase, and the pools side by side. */
static bool burst_plot(const struct bench_options *options, const struct seat *seats, size_t n)
{
    static const char *const figures[] = {"p50", "p95", "max", "max, cold"};
    enum { FIGURES = sizeof figures / sizeof figures[0] };
    double x[POOLS_MAX][STAIRS], y[POOLS_MAX][STAIRS], index[POOLS_MAX], value[FIGURES][POOLS_MAX];
    struct plot_series stairs[POOLS_MAX], sides[FIGURES];
    const char *names[POOLS_MAX];
    for (size_t i = 0; i < n; i++) {
        const struct seat *seat = &seats[i];
        size_t steps = 0;
        for (unsigned s = 0; s < STAIRS; s++)
            if (seat->stair_n[s] > 0) {
                x[i][steps] = 32u << s;
                y[i][steps++] = figure_median(seat->stair_ms[s], seat->stair_n[s]);
            }
        stairs[i] = (struct plot_series){.name = seat->pool->name,
                                         .x = x[i],
                                         .y = y[i],
                                         .n = steps,
                                         .is_ours = seat->pool == &pool_tradewake};
        names[i] = seat->pool->name;
        index[i] = (double)i;
        value[0][i] = seat->own_ms.p50;
        value[1][i] = seat->own_ms.p95;
        value[2][i] = seat->own_ms.max;
        value[3][i] = seat->cold.max;
    }
    for (size_t f = 0; f < FIGURES; f++)
        sides[f] = (struct plot_series){.name = figures[f], .x = index, .y = value[f], .n = n};
    const struct plot_panel panels[] = {
        {.title = "Own time by the threads there were when a copy started",
         .x_label = "threads at start, up to",
         .y_label = "median own time, ms",
         .series = stairs,
         .n_series = n,
         .is_y_log = true},
        {.title = "Own time of each pool",
         .x_label = "pool",
         .y_label = "own time, ms",
         .series = sides,
         .n_series = FIGURES,
         .x_names = names,
         .n_x_names = n,
         .is_y_log = true},
    };
    struct machine machine;
    char title[128], about[256];
    machine_look(&machine);
    machine_words(&machine, about, sizeof about);
    snprintf(title, sizeof title, "%u closes x %u followers, calls of %.0f ms, %u rounds",
             options->closes, options->followers, (double)options->answer_ns / 1e6,
             options->rounds);
    return plot_write(options->plot, title, about, panels, sizeof panels / sizeof panels[0]);
}

/* ---- the command ---- */

static bool is_named(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

/* Every word of --pools is a pool that there is. */
static bool pools_check(const char *list)
{
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        size_t length = strcspn(at, ","), known = 0;
        for (size_t i = 0; i < POOLS_MAX; i++)
            known += strlen(all_pools[i]->name) == length &&
                     strncmp(all_pools[i]->name, at, length) == 0;
        if (known == 0) {
            fprintf(stderr, "--pools: there is no pool \"%.*s\" here; there are:", (int)length, at);
            for (size_t i = 0; i < POOLS_MAX; i++)
                fprintf(stderr, " %s", all_pools[i]->name);
            fprintf(stderr, "\n");
            return false;
        }
    }
    return true;
}

static void figures_new(struct seat *seat, const struct bench_options *options)
{
    size_t copies = (size_t)options->closes * options->followers * options->rounds;
    seat->own = series_new(options->rounds);
    seat->event = series_new(options->rounds);
    seat->cpu_us = calloc(options->rounds, sizeof *seat->cpu_us);
    for (unsigned s = 0; s < STAIRS; s++)
        seat->stair_ms[s] = calloc(copies, sizeof *seat->stair_ms[s]);
}

static void figures_free(struct seat *seat)
{
    free(seat->own.p50);
    free(seat->event.p50);
    free(seat->cpu_us);
    for (unsigned s = 0; s < STAIRS; s++)
        free(seat->stair_ms[s]);
}

static bool rounds_run(const struct bench_options *options, struct seat *seats, size_t n)
{
    for (uint32_t round = 0; round <= options->rounds; round++)
        for (size_t i = 0; i < n; i++) {
            progress("burst", round * (uint32_t)n + (uint32_t)i,
                     (options->rounds + 1) * (uint32_t)n);
            /* The pools take turns in another order each round: none always follows the same one.
             */
            struct seat *seat = &seats[(i + round) % n];
            if (!seat_round(seat))
                return false;
            round_take(seat, options->closes * options->followers, round == 0 ? 0 : round - 1,
                       round == 0);
            usleep(60000);
        }
    progress("burst", 1, 1);
    return true;
}

int bench_burst(const struct bench_options *given)
{
    /* Every call of the burst has a thread, whatever the pool: the wait is what is measured. */
    struct bench_options wide = *given;
    const struct bench_options *options = &wide;
    if (wide.threads < wide.closes * wide.followers)
        wide.threads = wide.closes * wide.followers;

    struct seat seats[POOLS_MAX] = {0};
    size_t n = 0;
    bool is_good = options->pools == NULL || pools_check(options->pools);
    if (!is_good)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    const char *wanted = options->pools != NULL                      ? options->pools
                         : options->closes * options->followers == 1 ? pools_of_one_copy
                                                                     : pools_by_default;
    for (size_t i = 0; i < POOLS_MAX && is_good; i++) {
        const struct pool *pool = all_pools[i];
        if (!is_named(wanted, pool->name))
            continue;
        if (pool->is_there != NULL && !pool->is_there()) {
            fprintf(stderr, "%s is left out, it is %s\n", pool->name, pool->missing);
            continue;
        }
        seats[n].pool = pool;
        figures_new(&seats[n], options);
        is_good = seat_open(&seats[n++], options);
    }
    is_good = is_good && rounds_run(options, seats, n);
    for (size_t i = 0; i < n && is_good; i++)
        seat_conclude(&seats[i], options->rounds);
    if (is_good && options->json)
        burst_json(options, seats, n);
    else if (is_good)
        burst_print(options, seats, n);
    if (is_good && options->plot != NULL)
        is_good = burst_plot(options, seats, n);
    for (size_t i = 0; i < n; i++) {
        seat_close(&seats[i]);
        figures_free(&seats[i]);
    }
    return is_good ? 0 : 1;
}
