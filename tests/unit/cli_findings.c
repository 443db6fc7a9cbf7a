/* cli_findings.c - what `tradewake doctor` finds, by the facts; and the figures of a span of time.
 */
#include "command.h"
#include "findings.h"

#include <tradewake/v1/metrics.pb-c.h>

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define MS(n) (UINT64_C(1000000) * (n))

static struct facts healthy(void)
{
    return (struct facts){
        .is_ready = true,
        .executor = {.threads = 1024,
                     .ready = 1024,
                     .max = 4096,
                     .needed = 960,
                     .groups = 2,
                     .is_pinned = true,
                     .is_realtime = true},
        .since_start = {.own = {1000, MS(1), MS(2), MS(3), MS(4)},
                        .path = {1000, MS(3), MS(4), MS(5), MS(6)},
                        .wait = {1000, MS(1), MS(1), MS(1), MS(1)},
                        .broker = {1000, MS(130), MS(200), MS(250), MS(400)}},
        .fleet = {.followers = 30},
    };
}

/* What makes one finding of healthy facts. */
static void no_change(struct facts *facts)
{
    (void)facts;
}
static void drains(struct facts *facts)
{
    facts->is_ready = false;
}
static void few_threads(struct facts *facts)
{
    facts->executor.ready = 512;
}
static void enough_threads(struct facts *facts)
{
    facts->executor.ready = facts->executor.needed;
}
static void over_the_maximum(struct facts *facts)
{
    facts->executor.needed = 5000;
    facts->executor.ready = facts->executor.max;
}
static void made_late(struct facts *facts)
{
    facts->executor.created_late = 296;
}
static void lost_threads(struct facts *facts)
{
    facts->executor.lost = 3;
}
static void all_in_calls(struct facts *facts)
{
    facts->executor.in_flight = facts->executor.threads;
    facts->executor.queued = 12;
}
static void a_moment_queued(struct facts *facts)
{
    facts->executor.queued = 12;
}
static void ordinary(struct facts *facts)
{
    facts->executor.is_realtime = false;
}
static void lost_samples(struct facts *facts)
{
    facts->samples_lost = 7;
}
static void nothing_measured(struct facts *facts)
{
    memset(&facts->since_start, 0, sizeof facts->since_start);
}
static void starved(struct facts *facts)
{
    facts->since_start.own.p99_ns = MS(60);
    facts->since_start.wait.p99_ns = MS(58);
}
static void slow_before(struct facts *facts)
{
    facts->since_start.own.p99_ns = MS(60);
}
static void slow_but_few(struct facts *facts)
{
    starved(facts);
    facts->since_start.own.count = 29;
}
static void was_slow_is_not(struct facts *facts)
{
    starved(facts);
    facts->span.own = (struct figures){100, MS(1), MS(1), MS(2), MS(2)};
}
static void broker_slower(struct facts *facts)
{
    facts->span.broker = (struct figures){60, MS(300), MS(400), MS(500), MS(500)};
}
static void broker_as_ever(struct facts *facts)
{
    facts->span.broker = (struct figures){60, MS(240), MS(400), MS(500), MS(500)};
}
static void long_tail(struct facts *facts)
{
    facts->since_start.broker.p99_ns = MS(4000);
}
static void late_events(struct facts *facts)
{
    facts->late_ns = MS(2500);
    snprintf(facts->late_master, sizeof facts->late_master, "M7");
}
static void far_away(struct facts *facts)
{
    facts->late_ns = MS(300);
    snprintf(facts->late_master, sizeof facts->late_master, "M7");
}
static void no_way_at_all(struct facts *facts)
{
    snprintf(facts->instant_master, sizeof facts->instant_master, "M8");
}
static void many_held(struct facts *facts)
{
    facts->since_start.held = 500;
}
static void one_away(struct facts *facts)
{
    facts->fleet.away = (struct some){1, "F07", "refused the password"};
}
static void all_away(struct facts *facts)
{
    facts->fleet.away = (struct some){30, "F01", ""};
}
static void gate(struct facts *facts)
{
    facts->fleet.tripped = (struct some){1, "F07", ""};
}
static void over_a_limit(struct facts *facts)
{
    facts->fleet.stopped_out = (struct some){2, "F07", "512.30"};
}
static void blocked(struct facts *facts)
{
    facts->fleet.blocked = (struct some){4, "F07", "FOLLOWER_PAUSED"};
}
static void drifting(struct facts *facts)
{
    facts->fleet.drifting = (struct some){1, "F07", ""};
    facts->fleet.drifts = 2;
}
static void one_halt(struct facts *facts)
{
    facts->fleet.halts = 1;
}
static void all_halted(struct facts *facts)
{
    facts->fleet.halts = 1;
    facts->fleet.is_all_halted = true;
}
static void not_known(struct facts *facts)
{
    facts->unknown = 5;
}

static const struct {
    void (*change)(struct facts *facts);
    const char *name; /* of the one finding; NULL = none */
    enum finding_level level;
    const char *says, *advises; /* parts of it */
} cases[] = {
    {no_change, NULL, FINDING_NONE, "", ""},
    {drains, "ready", FINDING_PROBLEM, "not ready", "health"},
    {few_threads, "threads_ready", FINDING_WARNING, "960 broker calls", "at least 960"},
    {few_threads, "threads_ready", FINDING_WARNING, "448 are made", "Restart"},
    {enough_threads, NULL, FINDING_NONE, "", ""},
    {over_the_maximum, "threads_ready", FINDING_WARNING, "5000",
     "threads_max (now 4096) to at least 5000"},
    {made_late, "threads_created_late", FINDING_WARNING, "296 threads", "by threads"},
    {lost_threads, "threads_lost", FINDING_PROBLEM, "3 threads", "unknown"},
    {all_in_calls, "calls_queued", FINDING_PROBLEM, "12 calls wait", "threads_max"},
    {a_moment_queued, NULL, FINDING_NONE, "", ""},
    {ordinary, "realtime", FINDING_NOTE, "without real-time", "CAP_SYS_NICE"},
    {lost_samples, "samples_lost", FINDING_WARNING, "7 samples", "processor"},
    {nothing_measured, "measured", FINDING_NOTE, "No copy", "submit"},
    {starved, "own_time", FINDING_WARNING, "since the start: median 1.00 ms, 99 % within 60.0 ms",
     "did not get a processor"},
    {slow_before, "own_time", FINDING_WARNING, "60.0 ms", "journal's disk"},
    {slow_but_few, NULL, FINDING_NONE, "", ""},
    {was_slow_is_not, NULL, FINDING_NONE, "", ""},
    {broker_slower, "broker_slower", FINDING_WARNING,
     "median 300.0 ms of 60 calls just now, 130.0 ms since", "by follower"},
    {broker_as_ever, NULL, FINDING_NONE, "", ""},
    {long_tail, "broker_tail", FINDING_NOTE, "4.00 s or more", "follower"},
    {late_events, "upstream_late", FINDING_WARNING, "master M7 are 2.50 s old", "clock"},
    {far_away, NULL, FINDING_NONE, "", ""},
    {no_way_at_all, "upstream_instant", FINDING_NOTE, "M8", "path time"},
    {many_held, "held", FINDING_NOTE, "500 of 1500", "max_parallel"},
    {one_away, "not_connected", FINDING_WARNING,
     "1 of 30 followers are not connected, F07 among them: refused the password", "blocked"},
    {all_away, "not_connected", FINDING_PROBLEM, "30 of 30", "blocked"},
    {gate, "gate_tripped", FINDING_PROBLEM, "F07", "rearm F07"},
    {over_a_limit, "stopped_out", FINDING_WARNING, "512.30", "reset-stop-out F07"},
    {blocked, "blocked", FINDING_NOTE,
     "4 of 30 followers would not get an open now, F07 among them: FOLLOWER_PAUSED", "blocked"},
    {drifting, "drift", FINDING_WARNING, "2 differences", "compare F07"},
    {one_halt, "halts", FINDING_WARNING, "1 halts", "resume"},
    {all_halted, "halts", FINDING_WARNING, "Everything", "halts"},
    {not_known, "copies_unknown", FINDING_WARNING, "5 copies may have executed",
     "Send nothing anew"},
};

Test(findings, each_fault_is_one_finding_with_its_numbers_and_advice)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct facts facts = healthy();
        struct finding found[FINDINGS_MAX];
        cases[i].change(&facts);
        size_t n = findings_of(&facts, found);
        cr_assert_eq(n, cases[i].name != NULL ? 1u : 0u, "row %zu: %zu findings, the first %s", i,
                     n, n > 0 ? found[0].name : "-");
        if (n == 0)
            continue;
        cr_assert_str_eq(found[0].name, cases[i].name, "row %zu: %s", i, found[0].name);
        cr_assert_eq(found[0].level, cases[i].level, "row %zu: level %d", i, (int)found[0].level);
        cr_assert_not_null(strstr(found[0].what, cases[i].says), "row %zu: %s", i, found[0].what);
        cr_assert_not_null(strstr(found[0].advice, cases[i].advises), "row %zu: %s", i,
                           found[0].advice);
        cr_assert_lt(strlen(found[0].what), sizeof found[0].what - 1, "row %zu is cut off", i);
        cr_assert_lt(strlen(found[0].advice), sizeof found[0].advice - 1, "row %zu is cut off", i);
    }
}

Test(findings, the_worst_come_first)
{
    struct facts facts = healthy();
    struct finding found[FINDINGS_MAX];
    ordinary(&facts);
    one_halt(&facts);
    lost_threads(&facts);
    drifting(&facts);
    size_t n = findings_of(&facts, found);
    cr_assert_eq(n, 4u);
    for (size_t i = 1; i < n; i++)
        cr_assert_leq((int)found[i].level, (int)found[i - 1].level);
    cr_assert_str_eq(found[0].name, "threads_lost");
}

Test(findings, without_real_time_is_a_warning_only_where_own_time_is_high)
{
    struct facts facts = healthy();
    struct finding found[FINDINGS_MAX];
    ordinary(&facts);
    starved(&facts);
    cr_assert_eq(findings_of(&facts, found), 2u);
    cr_assert_eq(found[0].level, FINDING_WARNING);
    cr_assert_eq(found[1].level, FINDING_WARNING);
}

static bool is_command(const char *words)
{
    size_t n;
    const struct command *table = commands_table(&n);
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(table[i].name);
        if (strncmp(words, table[i].name, length) != 0)
            continue;
        const char *rest = words + length;
        bool takes_more =
            strncmp(rest, " --", 3) == 0 || (*rest == ' ' && table[i].n_operands_max > 0);
        if (*rest == '`' || takes_more)
            return true;
    }
    return false;
}

Test(findings, every_command_that_is_advised_exists)
{
    size_t advised = 0;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct facts facts = healthy();
        struct finding found[FINDINGS_MAX];
        cases[i].change(&facts);
        if (findings_of(&facts, found) == 0)
            continue;
        for (const char *at = found[0].advice; (at = strstr(at, "`tradewake ")) != NULL;
             advised++) {
            at += strlen("`tradewake ");
            cr_assert(is_command(at), "row %zu: `tradewake %s", i, at);
        }
    }
    cr_assert_gt(advised, 10u);
}

/* ---- The figures of a span ---- */

static uint64_t bounds[] = {MS(1), MS(2), MS(3), MS(10)};
static uint64_t all_counts[] = {50, 30, 15, 5};
static uint64_t first_bounds[] = {MS(1), MS(3)};
static uint64_t first_counts[] = {50, 5};

static Tradewake__V1__Histogram histogram(uint64_t *upper, uint64_t *count, size_t n,
                                          uint64_t max_ns)
{
    Tradewake__V1__Histogram made = TRADEWAKE__V1__HISTOGRAM__INIT;
    made.bucket_upper_ns = upper;
    made.bucket_count = count;
    made.n_bucket_upper_ns = made.n_bucket_count = n;
    for (size_t i = 0; i < n; i++)
        made.count += count[i];
    made.max_ns = max_ns;
    return made;
}

Test(figures, of_one_histogram_are_its_bounds_and_never_above_its_maximum)
{
    Tradewake__V1__Histogram now = histogram(bounds, all_counts, 4, MS(9));
    struct figures figures = figures_between(NULL, &now);
    cr_assert_eq(figures.count, 100u);
    cr_assert_eq(figures.p50_ns, MS(1));
    cr_assert_eq(figures.p95_ns, MS(3));
    cr_assert_eq(figures.p99_ns, MS(9));
    cr_assert_eq(figures.max_ns, MS(9));
}

Test(figures, of_a_span_are_those_of_what_came_meanwhile)
{
    Tradewake__V1__Histogram before = histogram(first_bounds, first_counts, 2, MS(3));
    Tradewake__V1__Histogram now = histogram(bounds, all_counts, 4, MS(9));
    struct figures figures =
        figures_between(&before, &now); /* 30 of 2 ms, 10 of 3 ms, 5 of 10 ms */
    cr_assert_eq(figures.count, 45u);
    cr_assert_eq(figures.p50_ns, MS(2));
    cr_assert_eq(figures.p95_ns, MS(9));
    cr_assert_eq(figures.max_ns, MS(9));
    cr_assert_eq(figures_between(&now, &now).count, 0u);
    cr_assert_eq(figures_between(&now, &now).max_ns, 0u);
}

Test(figures, of_another_life_of_the_server_are_all_of_it)
{
    Tradewake__V1__Histogram old = histogram(bounds, all_counts, 4, MS(9));
    Tradewake__V1__Histogram fresh = histogram(first_bounds, first_counts, 2, MS(3));
    cr_assert_eq(figures_between(&old, &fresh).count, 55u);
    cr_assert_eq(figures_between(&old, NULL).count, 0u);
}

Test(figures, times_are_written_short)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } rows[] = {{0, "-"},
                {1500, "1 us"},
                {140000, "140 us"},
                {1234567, "1.23 ms"},
                {63200000, "63.2 ms"},
                {1234567890, "1.23 s"},
                {UINT64_C(90000000000), "90.00 s"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[NS_TEXT_BYTES];
        cr_assert_str_eq(ns_text(rows[i].ns, text), rows[i].text, "%s", text);
    }
}
