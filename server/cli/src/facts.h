/* facts.h - what a server says of itself, as plain numbers: what `top` shows and `doctor` judges.
 *
 * Figures of a span of time are the difference of two answers since start: histograms of the
 * contract have the same buckets for ever, so one is taken from the other bucket by bucket, and
 * nothing between the two is missed.
 *
 * Thread: main. */
#ifndef CLI_FACTS_H
#define CLI_FACTS_H

#include <tradewake/base/arena.h>
#include <tradewake/base/status.h>
#include <tradewake/wire/client.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct Tradewake__V1__Histogram Tradewake__V1__Histogram;
typedef struct Tradewake__V1__OwnTimeSummary Tradewake__V1__OwnTimeSummary;

enum { FACTS_TEXT_BYTES = 160, FACTS_ID_BYTES = 65 };

struct figures {
    uint64_t count, p50_ns, p95_ns, p99_ns, max_ns;
};

struct times {
    struct figures own, path, wait, broker;
    uint64_t held;
};

/* How many followers of a kind, and one of them. */
struct some {
    uint32_t count;
    char follower_id[FACTS_ID_BYTES];
    char words[FACTS_TEXT_BYTES]; /* what it says: a reason, a message; "" = nothing */
};

struct executor_facts {
    uint32_t threads, ready, max, needed, in_flight, queued, peak, lost, groups;
    uint64_t created_late, completed, resident_bytes;
    bool is_pinned, is_realtime;
};

struct fleet_facts {
    uint32_t followers;
    struct some away, blocked, drifting, tripped, stopped_out;
    uint64_t drifts;
    uint32_t halts;
    bool is_all_halted;
};

struct facts {
    bool is_ready; /* health of "readiness" */
    struct executor_facts executor;
    uint64_t samples_lost;
    struct times since_start;
    struct times span; /* of the last facts_span() */
    struct fleet_facts fleet;
    uint32_t unknown; /* copies whose outcome is not known; at most 1000 are counted */

    /* The master whose events come latest, by the median of the way to us; and one whose events
     * come at once, always: a clock that is ahead looks like that. "" = none. */
    char late_master[FACTS_ID_BYTES];
    uint64_t late_ns;
    char instant_master[FACTS_ID_BYTES];
};

/* Whom to ask, until when, where answers are kept, and what was said when it failed. */
struct facts_question {
    struct tw_wire_client *client;
    int64_t deadline_mono_ns;
    struct tw_arena *arena;
    struct tw_wire_answer answer;
    struct tw_error error;
};

/* Each asks for a part of *facts and leaves the others alone. Failing, as tw_wire_client_call(). */
tw_status facts_read_executor(struct facts_question *question,
                              struct facts *facts); /* and is_ready */
/* *ret_summary: in the question's arena, for facts_span(). */
tw_status facts_read_times(struct facts_question *question, struct facts *facts,
                           const Tradewake__V1__OwnTimeSummary **ret_summary);
tw_status facts_read_fleet(struct facts_question *question, struct facts *facts);
tw_status facts_read_masters(struct facts_question *question, struct facts *facts);
tw_status facts_read_unknown(struct facts_question *question, struct facts *facts);

/* What happened between two answers. before: NULL, or of another life of the server (more copies
 * than now): everything since start. */
struct times facts_span(const Tradewake__V1__OwnTimeSummary *before,
                        const Tradewake__V1__OwnTimeSummary *now);
/* The same of one histogram. Each may be NULL. */
struct figures figures_between(const Tradewake__V1__Histogram *before,
                               const Tradewake__V1__Histogram *now);

/* "0.14 ms", "63.2 ms", "1.20 s"; "-" for 0. Returns text. */
enum { NS_TEXT_BYTES = 24 };
char *ns_text(uint64_t ns, char text[NS_TEXT_BYTES]);

#endif
