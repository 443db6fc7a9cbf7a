/* The table of what can be wrong. */
#include "findings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Own time above this is worth a word; it is a tenth of a broker's usual answer. */
#define OWN_P99_NS_MAX UINT64_C(10000000)
/* An upstream that is further away than this has another clock, or events that wait somewhere. */
#define LATE_NS_MAX   UINT64_C(1000000000)
#define TAIL_NS_MIN   UINT64_C(1000000000)
#define ENOUGH_COPIES 30u

typedef enum finding_level look_fn(const struct facts *facts, struct finding *finding);

#define WHAT(...)   snprintf(finding->what, sizeof finding->what, __VA_ARGS__)
#define ADVICE(...) snprintf(finding->advice, sizeof finding->advice, __VA_ARGS__)

/* ---- The server ---- */

static enum finding_level look_ready(const struct facts *facts, struct finding *finding)
{
    if (facts->is_ready)
        return FINDING_NONE;
    WHAT("The server is not ready: it drains, or has not finished starting.");
    ADVICE("`tradewake health --service readiness --wait 30s`; its log says what it waits for.");
    return FINDING_PROBLEM;
}

static enum finding_level look_threads_ready(const struct facts *facts, struct finding *finding)
{
    const struct executor_facts *executor = &facts->executor;
    if (executor->needed <= executor->ready)
        return FINDING_NONE;
    WHAT("%u broker calls may be due at once, but %u threads were ready at the start: %u are made "
         "in the "
         "middle of a burst, or their calls wait.",
         executor->needed, executor->ready, executor->needed - executor->ready);
    if (executor->needed > executor->max)
        ADVICE("Raise executor.threads_max (now %u) to at least %u and restart, or lower the "
               "followers' "
               "max_parallel.",
               executor->max, executor->needed);
    else
        ADVICE("Restart when it is quiet: the start makes them. An executor.threads that was set "
               "by hand has "
               "to be at least %u.",
               executor->needed);
    return FINDING_WARNING;
}

static enum finding_level look_created_late(const struct facts *facts, struct finding *finding)
{
    if (facts->executor.created_late == 0)
        return FINDING_NONE;
    WHAT("%" PRIu64 " threads were made after the start, in the middle of work.",
         facts->executor.created_late);
    ADVICE("Each cost the copy that needed it. `tradewake watch --summary --by threads` shows "
           "what; the fleet "
           "has grown or threads were lost since the start.");
    return FINDING_WARNING;
}

static enum finding_level look_lost(const struct facts *facts, struct finding *finding)
{
    if (facts->executor.lost == 0)
        return FINDING_NONE;
    WHAT("%u threads are lost: each is in a broker call past its deadline.", facts->executor.lost);
    ADVICE("Their copies are UNKNOWN: `tradewake copies --state unknown` names followers; their "
           "broker or its "
           "library hangs.");
    return FINDING_PROBLEM;
}

static enum finding_level look_queued(const struct facts *facts, struct finding *finding)
{
    const struct executor_facts *executor = &facts->executor;
    if (executor->queued == 0 || executor->in_flight < executor->threads)
        return FINDING_NONE;
    WHAT("%u calls wait for a thread: all %u are in a call.", executor->queued, executor->threads);
    ADVICE("Raise executor.threads_max (now %u), or lower the followers' max_parallel.",
           executor->max);
    return FINDING_PROBLEM;
}

static enum finding_level look_realtime(const struct facts *facts, struct finding *finding)
{
    if (facts->executor.is_realtime)
        return FINDING_NONE;
    WHAT("The executor's leaders run without real-time priority: it was refused, or "
         "executor.realtime is off.");
    ADVICE("Where own time matters allow it: CAP_SYS_NICE, or RLIMIT_RTPRIO of 1 or more "
           "(LimitRTPRIO in the "
           "systemd unit).");
    return facts->since_start.own.p99_ns > OWN_P99_NS_MAX ? FINDING_WARNING : FINDING_NOTE;
}

static enum finding_level look_samples_lost(const struct facts *facts, struct finding *finding)
{
    if (facts->samples_lost == 0)
        return FINDING_NONE;
    WHAT("%" PRIu64 " samples are lost since the start: the figures below leave those copies out.",
         facts->samples_lost);
    ADVICE("The sampler did not get to run for a while: too little processor for this load.");
    return FINDING_WARNING;
}

/* ---- Time ---- */

static enum finding_level look_measured(const struct facts *facts, struct finding *finding)
{
    if (facts->since_start.own.count > 0)
        return FINDING_NONE;
    WHAT("No copy has been measured since the start, so nothing can be said of times.");
    ADVICE("`tradewake submit open --help`, or client-examples/burst.");
    return FINDING_NOTE;
}

static enum finding_level look_own_time(const struct facts *facts, struct finding *finding)
{
    const struct times *times =
        facts->span.own.count >= ENOUGH_COPIES ? &facts->span : &facts->since_start;
    char p50[NS_TEXT_BYTES], p99[NS_TEXT_BYTES], wait[NS_TEXT_BYTES];
    if (times->own.count < ENOUGH_COPIES || times->own.p99_ns <= OWN_P99_NS_MAX)
        return FINDING_NONE;
    WHAT("Own time is high %s: median %s, 99 %% within %s, of %" PRIu64
         " copies; the wait for a thread is %s "
         "(99 %%).",
         times == &facts->span ? "just now" : "since the start", ns_text(times->own.p50_ns, p50),
         ns_text(times->own.p99_ns, p99), times->own.count, ns_text(times->wait.p99_ns, wait));
    if (times->wait.p99_ns * 2 >= times->own.p99_ns)
        ADVICE("Threads were there but did not get a processor: look for what else runs on this "
               "machine, give "
               "the server more cores or real-time priority.");
    else
        ADVICE("Most of it passes before a thread is asked for: planning or the journal's disk. "
               "`tradewake copies --slowest --limit 5 -o json` shows the stages.");
    return FINDING_WARNING;
}

static enum finding_level look_broker_now(const struct facts *facts, struct finding *finding)
{
    const struct figures *now = &facts->span.broker, *usual = &facts->since_start.broker;
    char is[NS_TEXT_BYTES], was[NS_TEXT_BYTES];
    if (now->count < ENOUGH_COPIES || usual->count < 2 * now->count ||
        now->p50_ns < 2 * usual->p50_ns)
        return FINDING_NONE;
    WHAT("Brokers answer slower than usual: median %s of %" PRIu64
         " calls just now, %s since the start.",
         ns_text(now->p50_ns, is), now->count, ns_text(usual->p50_ns, was));
    ADVICE("`tradewake watch --summary --by follower` shows at whom. Not our part, but it holds "
           "threads and "
           "lanes longer.");
    return FINDING_WARNING;
}

static enum finding_level look_broker_tail(const struct facts *facts, struct finding *finding)
{
    const struct figures *broker = &facts->since_start.broker;
    char p50[NS_TEXT_BYTES], p99[NS_TEXT_BYTES];
    if (broker->count < ENOUGH_COPIES || broker->p99_ns < TAIL_NS_MIN ||
        broker->p99_ns < 10 * broker->p50_ns)
        return FINDING_NONE;
    WHAT("One broker call in a hundred takes %s or more; the median is %s.",
         ns_text(broker->p99_ns, p99), ns_text(broker->p50_ns, p50));
    ADVICE("`tradewake watch --summary --by follower`: mostly it is one account or one server of "
           "the broker.");
    return FINDING_NOTE;
}

static enum finding_level look_upstream_late(const struct facts *facts, struct finding *finding)
{
    char late[NS_TEXT_BYTES];
    if (facts->late_ns <= LATE_NS_MAX)
        return FINDING_NONE;
    WHAT("Events of master %s are %s old when they arrive (median).", facts->late_master,
         ns_text(facts->late_ns, late));
    ADVICE("Either they wait on their way, or its clock is behind ours: compare both with a time "
           "server. "
           "observed_at decides when an open is too old.");
    return FINDING_WARNING;
}

static enum finding_level look_upstream_instant(const struct facts *facts, struct finding *finding)
{
    if (facts->instant_master[0] == '\0')
        return FINDING_NONE;
    WHAT("Events of master %s take no time at all to arrive, each of them: that is a clock ahead "
         "of ours, or no "
         "observed_at.",
         facts->instant_master);
    ADVICE("Compare its clock with a time server; path time says nothing until then.");
    return FINDING_NOTE;
}

static enum finding_level look_held(const struct facts *facts, struct finding *finding)
{
    uint64_t held = facts->since_start.held, all = held + facts->since_start.own.count;
    if (all < ENOUGH_COPIES || held * 5 < all)
        return FINDING_NONE;
    WHAT("%" PRIu64 " of %" PRIu64
         " copies were held: they waited for an earlier order on their position, for "
         "max_parallel or an order rate, and are not in own time.",
         held, all);
    ADVICE("`tradewake copies --slowest`: where max_parallel is the cause, the broker may allow "
           "more.");
    return FINDING_NOTE;
}

/* ---- Followers ---- */

static enum finding_level look_away(const struct facts *facts, struct finding *finding)
{
    const struct some *away = &facts->fleet.away;
    if (away->count == 0)
        return FINDING_NONE;
    WHAT("%u of %u followers are not connected, %s among them%s%s.", away->count,
         facts->fleet.followers, away->follower_id, away->words[0] != '\0' ? ": " : "",
         away->words);
    ADVICE("Opens for them expire, closes wait. `tradewake followers --blocked`.");
    return away->count == facts->fleet.followers ? FINDING_PROBLEM : FINDING_WARNING;
}

static enum finding_level look_tripped(const struct facts *facts, struct finding *finding)
{
    const struct some *tripped = &facts->fleet.tripped;
    if (tripped->count == 0)
        return FINDING_NONE;
    WHAT("The last gate has stopped the opens of %u followers, %s among them: a limit that no rule "
         "should reach "
         "was about to be passed.",
         tripped->count, tripped->follower_id);
    ADVICE("Find out why first (`tradewake copies --reason gate_tripped`), then `tradewake "
           "followers rearm %s`.",
           tripped->follower_id);
    return FINDING_PROBLEM;
}

static enum finding_level look_stopped_out(const struct facts *facts, struct finding *finding)
{
    const struct some *out = &facts->fleet.stopped_out;
    if (out->count == 0)
        return FINDING_NONE;
    WHAT("%u followers are over a loss limit and open nothing, %s among them (measured %s).",
         out->count, out->follower_id, out->words);
    ADVICE("It ends with its period, or by `tradewake followers reset-stop-out %s`.",
           out->follower_id);
    return FINDING_WARNING;
}

static enum finding_level look_blocked(const struct facts *facts, struct finding *finding)
{
    const struct some *blocked = &facts->fleet.blocked;
    if (blocked->count == 0)
        return FINDING_NONE;
    WHAT("%u of %u followers would not get an open now, %s among them: %s.", blocked->count,
         facts->fleet.followers, blocked->follower_id, blocked->words);
    ADVICE("`tradewake followers --blocked` lists them with their reasons.");
    return FINDING_NOTE;
}

static enum finding_level look_drift(const struct facts *facts, struct finding *finding)
{
    const struct some *drifting = &facts->fleet.drifting;
    if (drifting->count == 0)
        return FINDING_NONE;
    WHAT("%u followers hold something else than we believe (%" PRIu64
         " differences), %s among them.",
         drifting->count, facts->fleet.drifts, drifting->follower_id);
    ADVICE("`tradewake followers compare %s` lists them one by one.", drifting->follower_id);
    return FINDING_WARNING;
}

static enum finding_level look_halts(const struct facts *facts, struct finding *finding)
{
    if (facts->fleet.halts == 0)
        return FINDING_NONE;
    if (facts->fleet.is_all_halted)
        WHAT("Everything is halted: nothing is opened anywhere.");
    else
        WHAT("%u halts are in force: nothing is opened there.", facts->fleet.halts);
    ADVICE("`tradewake halts` says who, since when and why; `tradewake resume` lifts one.");
    return FINDING_WARNING;
}

static enum finding_level look_unknown(const struct facts *facts, struct finding *finding)
{
    if (facts->unknown == 0)
        return FINDING_NONE;
    WHAT("%u%s copies may have executed or not: their brokers are being asked.", facts->unknown,
         facts->unknown >= 1000 ? " or more" : "");
    ADVICE("`tradewake copies --state unknown`. Send nothing anew; when a broker cannot be asked, "
           "`tradewake copies resolve --help`.");
    return FINDING_WARNING;
}

static const struct {
    const char *name;
    look_fn *look;
} table[] = {
    {"ready", look_ready},
    {"threads_lost", look_lost},
    {"calls_queued", look_queued},
    {"gate_tripped", look_tripped},
    {"not_connected", look_away},
    {"threads_ready", look_threads_ready},
    {"threads_created_late", look_created_late},
    {"own_time", look_own_time},
    {"broker_slower", look_broker_now},
    {"copies_unknown", look_unknown},
    {"drift", look_drift},
    {"stopped_out", look_stopped_out},
    {"halts", look_halts},
    {"upstream_late", look_upstream_late},
    {"samples_lost", look_samples_lost},
    {"blocked", look_blocked},
    {"upstream_instant", look_upstream_instant},
    {"broker_tail", look_broker_tail},
    {"held", look_held},
    {"realtime", look_realtime},
    {"measured", look_measured},
};
static_assert(COUNT(table) <= FINDINGS_MAX, "each may have something to say");

size_t findings_of(const struct facts *facts, struct finding ret[FINDINGS_MAX])
{
    size_t n = 0;
    struct finding found[COUNT(table)];
    for (size_t i = 0; i < COUNT(table); i++) {
        found[i] = (struct finding){.name = table[i].name};
        found[i].level = table[i].look(facts, &found[i]);
    }
    for (int level = FINDING_PROBLEM; level > FINDING_NONE; level--)
        for (size_t i = 0; i < COUNT(table); i++)
            if ((int)found[i].level == level)
                ret[n++] = found[i];
    return n;
}

const char *finding_level_word(enum finding_level level)
{
    static const char *const words[] = {"nothing", "note", "warning", "problem"};
    return words[level];
}
