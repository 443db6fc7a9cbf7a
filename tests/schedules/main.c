/* main.c - schedules, one after the other: a life of the server, its end, the next life, and the judge.
 *
 *     schedules [--schedules N] [--seed N] [--jobs N] [--trace] [--broken WORD] [--keep-going]
 *               [--everything] [--pairs] [--forgetful]
 *
 * A job is a process that keeps a world and lets children live in it; a child ends when the server would
 * (exit 100), when a promise is broken (1), or when there is nothing left to do (0). */
#include "world.h"

#include <tradewake/base/arena.h>
#include <tradewake/base/log.h>
#include <tradewake/core/copy_id.h>
#include <tradewake/engine/engine.h>

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALM_NS (130 * TW_NS_PER_S)        /* two comparisons with the broker fit in */
#define UNSETTLED_NS (1800 * TW_NS_PER_S)
#define STEPS_MAX 400000u
enum { JOBS_MAX = 64 };

struct world *world;

/* ---- Dice, time, words ---- */

uint64_t draw(uint64_t below)
{
    uint64_t z = world->s.random += UINT64_C(0x9E3779B97F4A7C15); /* SplitMix64 */
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    return below > 1 ? z % below : 0;
}

bool chance(uint32_t in_1000)
{
    return in_1000 > 0 && draw(1000) < in_1000;
}

int64_t draw_ns(int64_t from_ns, int64_t until_ns)
{
    if (until_ns <= from_ns)
        return from_ns;
    uint64_t span = (uint64_t)(until_ns - from_ns);
    uint32_t bits = 1;
    while (bits < 62 && (span >> bits) != 0)
        bits++;
    return from_ns + (int64_t)(draw(span + 1) >> draw(bits));
}

static void say(const char *format, va_list values)
{
    printf("%12.3f ms  life %u  %5" PRIu64 "  ", (double)world->s.now_ns / 1e6, world->s.life, world->s.points);
    vprintf(format, values);
    putchar('\n');
}

void trace(const char *format, ...)
{
    if (!world->is_traced)
        return;
    va_list values;
    va_start(values, format);
    say(format, values);
    va_end(values);
}

void violation(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    printf("VIOLATION seed=%" PRIu64 " life=%u at=%.3f ms: ", world->seed, world->s.life, (double)world->s.now_ns / 1e6);
    vprintf(format, values);
    printf("\n     again: schedules --seed %" PRIu64 " --schedules 1 --trace%s%s%s%s%s\n", world->seed,
           world->is_everything ? " --everything" : "", world->is_pairs ? " --pairs" : "",
           world->is_forgetful ? " --forgetful" : "", world->broken != 0 ? " --broken " : "", broken_words[world->broken]);
    va_end(values);
    fflush(stdout);
    _exit(END_VIOLATION);
}

int64_t __wrap_tw_mono_ns(void);
int64_t __wrap_tw_wall_ns(void);
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags);
void __wrap_tw_log(enum tw_log_level level, const char *event, const char *format, ...);

int64_t __wrap_tw_mono_ns(void)
{
    world->s.now_ns += 200;
    crash_point();
    return world->s.now_ns;
}

int64_t __wrap_tw_wall_ns(void)
{
    return __wrap_tw_mono_ns() + WALL_BASE_NS;
}

ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags)
{
    (void)flags;
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)draw(256);
    return (ssize_t)size;
}

void __wrap_tw_log(enum tw_log_level level, const char *event, const char *format, ...)
{
    (void)level;
    bool is_end = strcmp(event, "journal.died") == 0;
    if (!world->is_traced && !is_end)
        return;
    char text[1024];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (is_end)
        violation("the journal has ended the server: %s", text);
    trace("log %s %s", event, text);
}

/* ---- The end of a life ---- */

void life_end(void)
{
    world->totals.points += world->s.points;
    broker_life_ends();
    disk_forget_fds();
    world->s.life++;
    world->s.now_ns += draw_ns(TW_NS_PER_MS, 100 * TW_NS_PER_S);
    fflush(stdout);
    _exit(END_LIFE);
}

static const struct crash *crash_next(void)
{
    bool is_storm = world->s.phase == PHASE_STORM && !world->s.is_stopping;
    return is_storm && world->s.next_crash < world->s.n_crashes ? &world->s.crashes[world->s.next_crash] : NULL;
}

void crash_arm(void)
{
    const struct crash *crash = crash_next();
    world->s.points = world->s.crash_point = 0;
    if (crash != NULL && crash->when != CRASH_AFTER_EVENT)
        world->s.crash_point = crash->points;
}

static void crash_look_at_events(void)
{
    const struct crash *crash = crash_next();
    if (crash != NULL && crash->when == CRASH_AFTER_EVENT && world->s.crash_point == 0 &&
        world->s.life_events >= crash->events)
        world->s.crash_point = world->s.points + crash->points;
}

bool crash_is_next(void)
{
    const struct crash *crash = crash_next();
    return crash != NULL && crash->kind != CRASH_CLEAN && world->s.points + 1 == world->s.crash_point;
}

void crash_point(void)
{
    world->s.points++;
    if (world->s.points != world->s.crash_point)
        return;
    const struct crash *crash = crash_next();
    if (crash == NULL)
        return;
    world->s.next_crash++;
    switch (crash->kind) {
    case CRASH_CLEAN:
        world->s.is_stopping = true;
        return;
    case CRASH_POWER:
        trace("---- the power is gone");
        world->totals.power_cuts++;
        world->s.boot++;
        world->s.n_power_cuts++;
        disk_cut_power();
        master_power_cut();
        break;
    case CRASH_KILL:
        trace("---- killed");
        world->totals.kills++;
        break;
    }
    life_end();
}

/* ---- A schedule ---- */

static void weather_draw(struct weather *weather)
{
    static const uint32_t mild = 10, bad = 150, awful = 500;
    uint32_t *const all[] = {&weather->request_lost, &weather->reply_lost, &weather->late, &weather->busy, &weather->moved,
                             &weather->refused, &weather->partial, &weather->early_answer, &weather->incomplete,
                             &weather->hidden};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        uint64_t dice = draw(100);
        *all[i] = dice < 40 ? 0 : dice < 70 ? mild : dice < 95 ? bad : awful;
    }
}

static void follower_draw(struct follower *follower, uint8_t number)
{
    follower->caps = (struct tw_capabilities){
        .blocking = chance(200),
        .netting = chance(400),
        .query_by_id = true,
        .not_found_is_final = chance(600),
        .reduce_only = chance(700),
        .max_parallel = 1 + (uint32_t)draw(4),
        .call_timeout_ms = 200 + (uint32_t)draw(3000),
        .settle_ms = (uint32_t)draw(3000),
    };
    if (world->is_forgetful && !follower->caps.netting) /* as such an adapter has to say */
        follower->caps.not_found_is_final = false;
    follower->renumbers = chance(400);
    follower->is_up = true;
    for (int i = 0; i < 3; i++) {
        int64_t down_ns = world->s.now_ns + draw_ns(TW_NS_PER_MS, 30 * TW_NS_PER_S);
        if (!chance(120))
            continue;
        news_add(&(struct news){.kind = NEWS_DOWN, .follower = number, .at_ns = down_ns});
        news_add(&(struct news){.kind = NEWS_UP, .follower = number,
                                .at_ns = down_ns + draw_ns(TW_NS_PER_MS, 80 * TW_NS_PER_S)});
    }
    if (chance(60))
        news_add(&(struct news){.kind = NEWS_HAND, .follower = number,
                                .at_ns = world->s.now_ns + draw_ns(TW_NS_PER_MS, 20 * TW_NS_PER_S)});
}

static void crashes_draw(void)
{
    static const uint32_t at_least[] = {200, 650, 900, 1000};
    uint64_t dice = draw(1000);
    while (dice >= at_least[world->s.n_crashes])
        world->s.n_crashes++;
    for (uint32_t i = 0; i < world->s.n_crashes; i++) {
        struct crash *crash = &world->s.crashes[i];
        uint64_t kind = draw(100);
        crash->kind = kind < 55 ? CRASH_KILL : kind < 92 ? CRASH_POWER : CRASH_CLEAN;
        crash->when = draw(100) < 50 ? CRASH_AFTER_EVENT : i > 0 && chance(300) ? CRASH_IN_START : CRASH_AFTER_POINTS;
        crash->events = 1 + (uint32_t)draw(4);
        uint32_t range = crash->when == CRASH_AFTER_EVENT ? 400 : crash->when == CRASH_IN_START ? 300 : 4000;
        crash->points = 1 + (uint32_t)(draw(range) >> draw(4));
    }
}

static void schedule_begin(void)
{
    static const uint32_t segments[] = {8192, 16384, 65536};
    memset(&world->s, 0, sizeof world->s);
    world->s.random = world->seed * UINT64_C(0xD1342543DE82EF95) + 1;
    world->s.now_ns = TW_NS_PER_S;
    disk_begin();
    world->s.segment_bytes = segments[draw(3)];
    world->s.n_followers = 1 + (uint32_t)draw(FOLLOWERS_MAX);
    world->s.n_positions = 1 + (uint32_t)draw(POSITIONS_MAX);
    world->s.is_serial = chance(600);
    world->s.is_orderly = world->s.is_serial || world->is_everything || chance(500);
    if (chance(850))
        weather_draw(&world->s.weather);
    for (uint32_t i = 0; i < world->s.n_followers; i++)
        follower_draw(&world->s.followers[i], (uint8_t)i);
    crashes_draw();
    script_write();
    world->is_running = true;
    world->totals.schedules++;
    trace("==== schedule %" PRIu64 ": %u followers, %u positions, %u events, %u crashes, %s", world->seed,
          world->s.n_followers, world->s.n_positions, world->s.n_events, world->s.n_crashes,
          world->s.is_serial    ? "one event after the other"
          : world->s.is_orderly ? "events side by side"
                                : "events side by side, and in any order after a restart");
    for (uint32_t i = 0; i < world->s.n_followers; i++) {
        const struct tw_capabilities *caps = &world->s.followers[i].caps;
        trace("F%u: %s%s%s%s%s parallel=%u timeout=%u settle=%u", i, caps->netting ? "netting" : "hedging",
              caps->blocking ? " blocking" : "", caps->not_found_is_final ? " not-found-is-final" : "",
              caps->reduce_only ? " reduce-only" : "", world->s.followers[i].renumbers ? " renumbers" : "",
              caps->max_parallel, caps->call_timeout_ms, caps->settle_ms);
    }
}

/* ---- A life ---- */

static bool is_there(bool made, const struct tw_refusal *refusal)
{
    return made || refusal->reason == TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_ALREADY_EXISTS;
}

static void set_up(struct tw_engine *engine)
{
    struct tw_arena arena;
    tw_arena_init(&arena, 1024 * 1024);
    for (uint32_t i = 0; i < world->s.n_followers; i++) {
        struct tw_refusal refusal = {0}, refusal_2 = {0};
        char id[16];
        snprintf(id, sizeof id, "F%u", i);
        Tradewake__V1__Follower follower, *made;
        Tradewake__V1__Subscription subscription, *subscribed;
        tradewake__v1__follower__init(&follower);
        tradewake__v1__subscription__init(&subscription);
        follower.follower_id = id;
        follower.adapter = (char *)(uintptr_t)"book";
        subscription.master_id = (char *)(uintptr_t)MASTER;
        subscription.follower_id = id;
        if (!is_there(tw_engine_follower_create(engine, &follower, "", &arena, &made, &refusal), &refusal) ||
            !is_there(tw_engine_subscription_create(engine, &subscription, "", &arena, &subscribed, &refusal_2),
                      &refusal_2))
            violation("follower %s cannot be made: %s%s", id, refusal.text, refusal_2.text);
    }
    tw_arena_clear(&arena);
    world->s.is_set_up = true;
}

static struct tw_engine *life_begin(void)
{
    static const struct tw_engine_adapter adapters[] = {{&broker_ops, NULL}};
    char boot_id[16];
    snprintf(boot_id, sizeof boot_id, "boot-%u", world->s.boot);
    const struct tw_engine_options options = {
        .executor = machine_executor(), .reactor = machine_reactor(),
        .adapters = adapters, .n_adapters = 1,
        .copies_remembered = 10000, .events_remembered = 100, .events_kept_ns = 7 * 24 * 3600 * TW_NS_PER_S,
        .journal_dir = "/state", .journal_syncs = true,
        .journal_disk = disk_ops(), .journal_segment_bytes = world->s.segment_bytes, .boot_id = boot_id,
    };
    struct tw_engine *engine = NULL;
    struct tw_error error = {{0}};
    world->totals.lives++;
    trace("---- the server starts");
    machine_begin();
    crash_arm();
    master_life_begins();
    if (tw_engine_start(&options, &engine, &error) != TW_OK)
        violation("the server does not start: %s", error.text);
    judge_restart(engine);
    if (!world->s.is_set_up)
        set_up(engine);
    return engine;
}

static void engine_end(struct tw_engine *engine)
{
    machine_stop();
    tw_engine_stop(engine);
}

static bool step(struct tw_engine *engine, bool is_taking, int64_t *ret_next_ns)
{
    uint64_t first = draw(3);
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t which = (first + i) % 3;
        bool did = which == 0   ? machine_step(ret_next_ns)
                   : which == 1 ? broker_step(ret_next_ns)
                                : is_taking && master_step(engine, ret_next_ns);
        if (did)
            return true;
    }
    return false;
}

/* As the server does on SIGTERM: no new call begins, those that are out come back. */
_Noreturn static void stop_cleanly(struct tw_engine *engine)
{
    trace("---- stops");
    world->totals.clean_stops++;
    int64_t until_ns = world->s.now_ns + 3 * TW_NS_PER_S;
    tw_engine_quiesce(engine);
    while (broker_calls_out() > 0 && world->s.now_ns < until_ns) {
        int64_t next_ns = until_ns;
        if (!step(engine, false, &next_ns))
            world->s.now_ns = next_ns;
    }
    if (broker_calls_out() == 0)
        tw_engine_quiet(engine);
    engine_end(engine);
    world->s.is_stopping = false;
    life_end();
}

static void phase_look(void)
{
    if (world->s.phase != PHASE_STORM || !master_is_done())
        return;
    if (world->s.calm_ns == 0)
        world->s.calm_ns = world->s.now_ns + draw_ns(1, 30 * TW_NS_PER_S);
    if (world->s.now_ns < world->s.calm_ns)
        return;
    trace("---- calm");
    world->s.phase = PHASE_CALM;
    world->s.calm_ns = world->s.now_ns;
    world->s.crash_point = 0;
    broker_calm();
}

/* Nothing is to be done right now. True: the schedule is over. */
static bool idle(struct tw_engine *engine, int64_t life_ns)
{
    bool is_due = world->s.phase == PHASE_CALM    ? world->s.now_ns > world->s.calm_ns + CALM_NS
                  : world->s.phase == PHASE_AFTER ? world->s.now_ns > life_ns + 70 * TW_NS_PER_S
                                                  : false;
    if (!is_due || !is_settled(engine)) {
        if (world->s.phase != PHASE_STORM && world->s.now_ns > world->s.calm_ns + UNSETTLED_NS)
            judge_unsettled(engine);
        return false;
    }
    judge_end(engine);
    if (world->s.phase == PHASE_AFTER && broker_mutations() > 0)
        violation("all was settled, and after a restart %u orders were sent", broker_mutations());
    if (world->s.phase == PHASE_AFTER || !chance(125))
        return true;
    trace("---- all is settled; once more from the journal");
    world->s.phase = PHASE_AFTER;
    life_end();
}

static void life(void)
{
    struct tw_engine *engine = life_begin();
    int64_t life_ns = world->s.now_ns;
    for (;;) {
        int64_t next_ns = INT64_MAX;
        if (++world->s.steps > STEPS_MAX)
            violation("more than %u steps: it does not come to rest", STEPS_MAX);
        world->totals.steps++;
        crash_look_at_events();
        crash_point();
        if (world->s.is_stopping)
            stop_cleanly(engine);
        phase_look();
        if (step(engine, true, &next_ns)) {
            if (world->s.phase == PHASE_STORM && chance(20))
                world->s.now_ns += draw_ns(TW_NS_PER_US, 20 * TW_NS_PER_MS);
            continue;
        }
        if (idle(engine, life_ns))
            break;
        if (next_ns == INT64_MAX)
            violation("nothing will ever happen again");
        if (world->s.phase == PHASE_STORM && world->s.calm_ns > world->s.now_ns && world->s.calm_ns < next_ns)
            next_ns = world->s.calm_ns;
        world->s.now_ns = next_ns;
    }
    world->totals.points += world->s.points;
    engine_end(engine);
    world->is_running = false;
}

/* ---- Processes ---- */

static bool schedule_next(void)
{
    world->is_running = false;
    if (world->last_seed - world->seed < world->stride)
        return false;
    world->seed += world->stride;
    return true;
}

/* No process outlives the one that started it. */
static void end_with_parent(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

_Noreturn static void child(void)
{
    end_with_parent();
    for (;;) {
        if (!world->is_running)
            schedule_begin();
        life();
        trace("==== schedule %" PRIu64 " is over", world->seed);
        if (!schedule_next())
            break;
    }
    fflush(stdout);
    _exit(END_ALL);
}

struct options {
    uint64_t schedules, seed;
    uint32_t jobs, broken;
    bool is_traced, keeps_going, is_everything, is_pairs, is_forgetful;
};

static void *shared(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("schedules: memory");
        exit(2);
    }
    return memory;
}

/* How a child ended; a signal is a violation too. */
static int child_wait(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) != pid)
        ;
    if (WIFEXITED(status) && (WEXITSTATUS(status) <= END_VIOLATION || WEXITSTATUS(status) == END_LIFE))
        return WEXITSTATUS(status);
    printf("VIOLATION seed=%" PRIu64 " life=%u: the server ended by %s %d\n     again: schedules --seed %" PRIu64
           " --schedules 1 --trace\n",
           world->seed, world->s.life, WIFSIGNALED(status) ? "signal" : "exit",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), world->seed);
    fflush(stdout);
    return END_VIOLATION;
}

/* What a library sets up at its first use is set up once, not in every child. */
static void warm_up(void)
{
    char id[TW_COPY_ID_BYTES];
    const struct tw_copy_id_input input = {
        .master_id = "", .event_id = "", .follower_id = "", .subject_id = "", .action = ""};
    tw_copy_id(&input, id);
}

static int job(const struct options *options, uint32_t number, struct totals *ret_totals)
{
    int violations = 0;
    warm_up();
    world = shared(sizeof *world);
    world->seed = options->seed + number;
    world->last_seed = options->seed + options->schedules - 1;
    world->stride = options->jobs;
    world->is_traced = options->is_traced;
    world->broken = options->broken;
    world->is_everything = options->is_everything;
    world->is_pairs = options->is_pairs;
    world->is_forgetful = options->is_forgetful;
    if (world->last_seed - options->seed < number)
        return 0;
    for (;;) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0)
            child();
        if (pid < 0) {
            perror("schedules: fork");
            return 2;
        }
        int end = child_wait(pid);
        if (end == END_ALL)
            break;
        if (end != END_VIOLATION)
            continue;
        violations++;
        if (!options->keeps_going || !schedule_next())
            break;
    }
    *ret_totals = world->totals;
    return violations > 0;
}

static void totals_print(const struct totals *all, uint32_t n, double seconds)
{
    struct totals sum = {0};
    for (uint32_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof sum / sizeof(uint64_t); k++)
            ((uint64_t *)(void *)&sum)[k] += ((const uint64_t *)(const void *)&all[i])[k];
    printf("schedules=%" PRIu64 " lives=%" PRIu64 " kills=%" PRIu64 " power_cuts=%" PRIu64 " clean_stops=%" PRIu64
           " crash_points=%" PRIu64 " steps=%" PRIu64 "\nevents=%" PRIu64 " duplicates=%" PRIu64 " order_calls=%" PRIu64
           " executed=%" PRIu64 " unknown=%" PRIu64 " look_ups=%" PRIu64 " pendings_filled=%" PRIu64
           " closed_by_hand=%" PRIu64 " seconds=%.1f\n",
           sum.schedules, sum.lives, sum.kills, sum.power_cuts, sum.clean_stops, sum.points, sum.steps, sum.events,
           sum.duplicates, sum.calls, sum.executed, sum.unknown, sum.lookups, sum.fills, sum.hands, seconds);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* True when every job is well; the first that is not ends the others. */
static bool jobs_run(const struct options *options, struct totals *totals)
{
    pid_t pids[JOBS_MAX];
    bool is_well = true;
    for (uint32_t i = 0; i < options->jobs; i++) {
        fflush(stdout);
        pids[i] = fork();
        if (pids[i] == 0) {
            end_with_parent();
            exit(job(options, i, &totals[i]));
        }
        is_well &= pids[i] > 0;
    }
    for (uint32_t left = options->jobs; left > 0; left--) {
        int status = 0;
        pid_t ended = wait(&status);
        bool is_bad = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        for (uint32_t i = 0; i < options->jobs; i++) {
            if (pids[i] == ended)
                pids[i] = 0;
            else if (is_bad && is_well && pids[i] > 0 && !options->keeps_going)
                kill(pids[i], SIGTERM);
        }
        is_well &= !is_bad;
    }
    return is_well;
}

/* ---- Options ---- */

_Noreturn static void usage(void)
{
    fputs("usage: schedules [--schedules N] [--seed N] [--jobs N] [--trace] [--keep-going] [--everything]\n"
          "                 [--pairs] [--forgetful] [--broken blind-resend|early-answer|dropped-close]\n", stderr);
    exit(2);
}

static uint64_t number_read(const char *text)
{
    char *end = NULL;
    uint64_t number = text != NULL ? strtoull(text, &end, 10) : 0;
    if (text == NULL || *text == '\0' || *end != '\0')
        usage();
    return number;
}

static uint32_t broken_read(const char *word)
{
    for (uint32_t i = 1; word != NULL && i < N_BROKEN; i++)
        if (strcmp(word, broken_words[i]) == 0)
            return i;
    usage();
}

static struct options options_read(char **argv)
{
    struct options options = {.schedules = 1000, .seed = 1, .jobs = 1};
    for (char **arg = argv + 1; *arg != NULL; arg++) {
        if (strcmp(*arg, "--trace") == 0)
            options.is_traced = true;
        else if (strcmp(*arg, "--keep-going") == 0)
            options.keeps_going = true;
        else if (strcmp(*arg, "--everything") == 0)
            options.is_everything = true;
        else if (strcmp(*arg, "--pairs") == 0)
            options.is_pairs = true;
        else if (strcmp(*arg, "--forgetful") == 0)
            options.is_forgetful = true;
        else if (strcmp(*arg, "--schedules") == 0)
            options.schedules = number_read(*++arg);
        else if (strcmp(*arg, "--seed") == 0)
            options.seed = number_read(*++arg);
        else if (strcmp(*arg, "--jobs") == 0)
            options.jobs = (uint32_t)number_read(*++arg);
        else if (strcmp(*arg, "--broken") == 0)
            options.broken = broken_read(*++arg);
        else
            usage();
    }
    if (options.schedules == 0 || options.jobs == 0 || options.jobs > JOBS_MAX)
        usage();
    return options;
}

int main(int argc, char **argv)
{
    (void)argc;
    struct options options = options_read(argv);
    struct totals *totals = shared(JOBS_MAX * sizeof *totals);
    double from = seconds_now();
    if (options.is_traced)
        setvbuf(stdout, NULL, _IOLBF, 0); /* to the last line, also when it ends by a signal */
    bool is_well = jobs_run(&options, totals);
    totals_print(totals, options.jobs, seconds_now() - from);
    printf("%s\n", is_well ? "1 passed, 0 failed" : "0 passed, 1 failed");
    return is_well ? 0 : 1;
}
