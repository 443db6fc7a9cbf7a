/* doctor: what is slow or wrong, and what to do about it. */
#include "command.h"
#include "findings.h"

#include <tradewake/base/clock.h>
#include <tradewake/v1/metrics.pb-c.h>

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

enum { EXIT_WARNING = 4 };
#define ANSWERS_BYTES_MAX ((size_t)256 << 20)

/* Everything; the span between two looks at the times is --over. */
static tw_status examine(struct session *session, struct facts_question *question,
                         struct facts *facts)
{
    const Tradewake__V1__OwnTimeSummary *before, *now;
    int64_t span_ns = args_number(&session->args, "--over");
    question->deadline_mono_ns = session_deadline(session);
    tw_status status = facts_read_times(question, facts, &before);
    if (status != TW_OK)
        return status;

    interrupt_watch();
    for (int64_t until_ns = tw_mono_ns() + span_ns; tw_mono_ns() < until_ns && !interrupted();)
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);

    question->deadline_mono_ns = session_deadline(session);
    status = facts_read_times(question, facts, &now);
    if (status != TW_OK)
        return status;
    facts->span = facts_span(before, now);

    static tw_status (*const reads[])(struct facts_question *, struct facts *) = {
        facts_read_executor, facts_read_fleet, facts_read_masters, facts_read_unknown};
    for (size_t i = 0; i < COUNT(reads) && status == TW_OK; i++)
        status = reads[i](question, facts);
    return status;
}

static void print_times(const char *what, const struct times *times)
{
    const struct figures *const rows[] = {&times->own, &times->path, &times->broker};
    static const char *const names[] = {"own time", "path time", "broker"};
    if (times->own.count == 0)
        return;
    printf("%s, %" PRIu64 " copies\n", what, times->own.count);
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[4][NS_TEXT_BYTES];
        printf("  %-10s p50 %9s  p95 %9s  p99 %9s  max %9s\n", names[i],
               ns_text(rows[i]->p50_ns, text[0]), ns_text(rows[i]->p95_ns, text[1]),
               ns_text(rows[i]->p99_ns, text[2]), ns_text(rows[i]->max_ns, text[3]));
    }
}

static void print_text(const struct facts *facts, const struct finding *findings, size_t n)
{
    static const enum style styles[] = {STYLE_PLAIN, STYLE_DIM, STYLE_BOLD, STYLE_BAD};
    for (size_t i = 0; i < n; i++)
        printf("%s%zu. %s%s: %s\n   %s\n\n", style_on(stdout, styles[findings[i].level]), i + 1,
               finding_level_word(findings[i].level), style_off(stdout), findings[i].what,
               findings[i].advice);
    if (n == 0)
        printf("%sNothing to find fault with.%s\n\n", style_on(stdout, STYLE_GOOD),
               style_off(stdout));
    print_times("Just now", &facts->span);
    print_times("Since the start", &facts->since_start);
    printf("Executor: %u threads ready, %u needed at worst, %u in flight, at most %u at once\n",
           facts->executor.ready, facts->executor.needed, facts->executor.in_flight,
           facts->executor.peak);
    printf("Followers: %u, %u not connected\n", facts->fleet.followers, facts->fleet.away.count);
}

static void print_json(struct session *session, const struct finding *findings, size_t n)
{
    struct tw_json *json = &session->json;
    tw_json_object(json);
    tw_json_key(json, "worst");
    tw_json_text(json, finding_level_word(n > 0 ? findings[0].level : FINDING_NONE));
    tw_json_key(json, "findings");
    tw_json_array(json);
    for (size_t i = 0; i < n; i++) {
        const char *const members[][2] = {{"level", finding_level_word(findings[i].level)},
                                          {"name", findings[i].name},
                                          {"what", findings[i].what},
                                          {"advice", findings[i].advice}};
        tw_json_object(json);
        for (size_t j = 0; j < COUNT(members); j++) {
            tw_json_key(json, members[j][0]);
            tw_json_text(json, members[j][1]);
        }
        tw_json_end(json, false);
    }
    tw_json_end(json, true);
    tw_json_end(json, false);
}

int run_doctor(struct session *session)
{
    struct tw_arena arena;
    struct facts facts = {0};
    struct finding findings[FINDINGS_MAX];
    int code = session_connect(session);
    if (code != TW_EXIT_DONE)
        return code;
    tw_arena_init(&arena, ANSWERS_BYTES_MAX);
    struct facts_question question = {.client = session->client, .arena = &arena};
    tw_status status = examine(session, &question, &facts);
    if (status != TW_OK) {
        code = session_failed(session, status, &question.answer, &question.error);
    } else {
        static const int codes[] = {TW_EXIT_DONE, TW_EXIT_DONE, EXIT_WARNING, TW_EXIT_FAILED};
        size_t n = findings_of(&facts, findings);
        code = codes[n > 0 ? findings[0].level : FINDING_NONE];
        if (session->is_json)
            print_json(session, findings, n);
        else
            print_text(&facts, findings, n);
    }
    tw_arena_clear(&arena);
    return code;
}
