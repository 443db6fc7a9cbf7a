/* tradewake-bench - the executor against everything else, on this machine. */
#include "bench.h"

#include <tradewake/base/clock.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct command {
    const char *name, *about;
    int (*run)(const struct bench_options *options);
    uint32_t rounds; /* when nobody says; few where a round takes long and hardly varies */
    bool has_plot;
};

static const struct command commands[] = {
    {"burst", "closes x followers calls at once over each pool", bench_burst, 15, true},
    {"ready-cost", "what ready threads cost: ms to create, KiB each", bench_ready_cost, 15, false},
    {"serve-burst", "the burst through a running server: own time and path time", bench_serve_burst, 15, true},
    {"intake", "events per second and latency, beside a bare gRPC C core echo", bench_intake, 15, false},
    {"scale", "30 to 10 000 followers without threads: own time, CPU per copy", bench_scale, 5, true},
    {"sustained", "a steady rate of copies, every sample read: none lost, memory bounded", bench_sustained, 1, false},
    {"min-threads", "50 jobs on a pool that grows every half second, by its minimum", bench_min_threads, 3, false},
    {"waits", "1000 waits of a second: threads, timers, jobs", bench_waits, 3, false},
    {"requests", "1200 requests behind one lock: one thread, thread each, executor", bench_requests, 1, false},
    {"plan", "planning alone: ns per follower, all rules set", bench_plan, 15, false},
    {"sampler", "ns per sample on the worker's side", bench_sampler, 15, false},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

enum kind { NUMBER, DURATION, TEXT, ON_OFF, SWITCH, WITHOUT };

struct option {
    const char *name, *about;
    enum kind kind;
    size_t offset;
};

#define AT(member) offsetof(struct bench_options, member)
static const struct option options_table[] = {
    {"--closes", "events of a burst (27)", NUMBER, AT(closes)},
    {"--followers", "copies of each event (30; sustained: 1000)", NUMBER, AT(followers)},
    {"--answer", "how long each call is blocked (130ms)", DURATION, AT(answer_ns)},
    {"--work", "what the submitting thread does for each event before it hands over (0us)", DURATION, AT(work_ns)},
    {"--pools", "floor,tradewake,growing,thread-per-call,condvar,glib,libuv,tokio,java; also wake", TEXT, AT(pools)},
    {"--rounds", "what is compared takes turns within each (15; 5 or fewer where they are long)", NUMBER, AT(rounds)},
    {"--threads", "ready threads of each pool (1024)", NUMBER, AT(threads)},
    {"--outstanding", "intake: events on their way at once (32)", NUMBER, AT(outstanding)},
    {"--events", "intake: events of a round; scale: copies of one (20000)", NUMBER, AT(events)},
    {"--rate", "sustained: copies a second (100000)", NUMBER, AT(rate)},
    {"--seconds", "sustained: for so long (10)", NUMBER, AT(seconds)},
    {"--points", "scale, plan: numbers of followers (30,100,300,1000,3000,10000)", TEXT, AT(points)},
    {"--adapter", "serve-burst: the followers' broker (paper); plugin:slow130, or another of plugins/ beside this program; fix: a FIX session each at fix_acceptor beside it", TEXT, AT(adapter)},
    {"--hosted", "serve-burst: the plugin in a process of its own, and when its calls begin there", SWITCH, AT(hosted)},
    {"--realtime", "on or off: real-time leaders where they are allowed (on)", ON_OFF, AT(realtime)},
    {"--no-realtime", "the same as --realtime off", WITHOUT, AT(realtime)},
    {"--no-pin", "workers anywhere in the affinity mask", WITHOUT, AT(pinned)},
    {"--plot", "burst, scale, serve-burst: a picture of it, FILE.svg", TEXT, AT(plot)},
    {"--json", "one object instead of a table", SWITCH, AT(json)},
};
enum { OPTIONS = sizeof options_table / sizeof options_table[0] };

static int usage(FILE *to)
{
    fprintf(to, "tradewake-bench COMMAND [OPTION...]\n\n");
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-14s %s\n", commands[i].name, commands[i].about);
    fprintf(to, "\n");
    for (size_t i = 0; i < OPTIONS; i++)
        fprintf(to, "  %-14s %s\n", options_table[i].name, options_table[i].about);
    return to == stdout ? 0 : 2;
}

/* "130ms", "50us", "1s"; false for anything else. */
static bool duration_parse(const char *text, int64_t *ret_ns)
{
    static const struct {
        const char *unit;
        int64_t ns;
    } units[] = {{"ns", 1}, {"us", TW_NS_PER_US}, {"ms", TW_NS_PER_MS}, {"s", TW_NS_PER_S}};
    char *rest;
    errno = 0;
    long long value = strtoll(text, &rest, 10);
    if (rest == text || errno != 0 || value < 0 || value > 1000000000)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(rest, units[i].unit) == 0) {
            *ret_ns = value * units[i].ns;
            return true;
        }
    return false;
}

static bool number_parse(const char *text, uint32_t *ret)
{
    char *rest;
    unsigned long value = strtoul(text, &rest, 10);
    if (rest == text || *rest != '\0' || text[0] == '-' || value == 0 || value > 1000000)
        return false;
    *ret = (uint32_t)value;
    return true;
}

static bool option_read(const struct option *option, const char *value, struct bench_options *options)
{
    void *at = (char *)options + option->offset;
    switch (option->kind) {
    case NUMBER:
        return number_parse(value, at);
    case DURATION:
        return duration_parse(value, at);
    case TEXT:
        *(const char **)at = value;
        return true;
    case ON_OFF:
        *(bool *)at = strcmp(value, "on") == 0;
        return strcmp(value, "on") == 0 || strcmp(value, "off") == 0;
    case SWITCH:
        *(bool *)at = true;
        return true;
    case WITHOUT:
        *(bool *)at = false;
        return true;
    }
    return false;
}

static bool options_read(int argc, char **argv, struct bench_options *options)
{
    for (int i = 2; i < argc; i++) {
        const struct option *option = NULL;
        for (size_t o = 0; o < OPTIONS && option == NULL; o++)
            if (strcmp(argv[i], options_table[o].name) == 0)
                option = &options_table[o];
        if (option == NULL) {
            fprintf(stderr, "there is no option \"%s\"\n", argv[i]);
            return false;
        }
        bool has_value = option->kind < SWITCH;
        const char *value = has_value && i + 1 < argc ? argv[i + 1] : "";
        if (!option_read(option, value, options)) {
            fprintf(stderr, "%s is \"%s\", expected: %s\n", option->name, value, option->about);
            return false;
        }
        options->has_followers |= option->offset == AT(followers);
        i += has_value;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct bench_options options = {.closes = 27,
                                    .followers = 30,
                                    .threads = 1024,
                                    .outstanding = 32,
                                    .events = 20000,
                                    .rate = 100000,
                                    .seconds = 10,
                                    .points = "30,100,300,1000,3000,10000",
                                    .adapter = "paper",
                                    .answer_ns = 130 * TW_NS_PER_MS,
                                    .realtime = true,
                                    .pinned = true};
    if (argc > 1 && strcmp(argv[1], "--help") == 0)
        return usage(stdout);
    for (size_t i = 0; i < COMMANDS; i++)
        if (argc > 1 && strcmp(argv[1], commands[i].name) == 0) {
            options.rounds = commands[i].rounds;
            if (!options_read(argc, argv, &options))
                return 2;
            if (options.plot != NULL && !commands[i].has_plot) {
                fprintf(stderr, "--plot: %s has no picture\n", commands[i].name);
                return 2;
            }
            return commands[i].run(&options);
        }
    return usage(stderr);
}
