/* top: what the server does, live. A terminal gets a screen, everything else a line of JSON a tick.
 */
#include "command.h"
#include "top_screen.h"

#include <tradewake/base/clock.h>
#include <tradewake/v1/metrics.pb-c.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ANSWERS_BYTES_MAX ((size_t)64 << 20)
#define ANSWER_WITHIN_NS  (2 * TW_NS_PER_S) /* a server that hangs is told soon */
#define FLEET_EVERY       5u                /* ticks: a fleet may have thousands */

struct top {
    struct session *session;
    struct tw_arena arenas[2]; /* the last answer lives until the next one is there */
    const Tradewake__V1__OwnTimeSummary *last;
    struct facts facts;
    struct facts_question question;
    struct top_view view;
    uint64_t n_reads;
};

/* One tick's answers. On failure what was not read stays as it was. */
static tw_status read_tick(struct top *top)
{
    struct facts_question *question = &top->question;
    const Tradewake__V1__OwnTimeSummary *now;
    question->arena = &top->arenas[top->n_reads % 2];
    question->deadline_mono_ns = tw_mono_ns() + ANSWER_WITHIN_NS;
    tw_arena_reset(question->arena);
    tw_status status = facts_read_executor(question, &top->facts);
    if (status == TW_OK && top->n_reads % FLEET_EVERY == 0)
        status = facts_read_fleet(question, &top->facts);
    if (status == TW_OK)
        status = facts_read_times(question, &top->facts, &now);
    if (status != TW_OK)
        return status;
    /* Until there is something to compare with, nothing has happened. */
    top->facts.span = facts_span(top->last != NULL ? top->last : now, now);
    top->last = now;
    top->n_reads++;
    return TW_OK;
}

static void keep_tick(struct top *top)
{
    struct top_view *view = &top->view;
    view->ticks[view->n_ticks++ % TOP_TICKS] =
        (struct top_tick){.at_wall_ns = tw_wall_ns(), .times = top->facts.span};
}

/* ---- JSON ---- */

static void json_figures(struct tw_json *json, const char *name, const struct figures *figures)
{
    const struct {
        const char *name;
        uint64_t value;
    } members[] = {{"count", figures->count},
                   {"p50_ns", figures->p50_ns},
                   {"p95_ns", figures->p95_ns},
                   {"p99_ns", figures->p99_ns},
                   {"max_ns", figures->max_ns}};
    tw_json_key(json, name);
    tw_json_object(json);
    for (size_t i = 0; i < COUNT(members); i++) {
        tw_json_key(json, members[i].name);
        tw_json_number(json, (int64_t)members[i].value);
    }
    tw_json_end(json, false);
}

static void json_number(struct tw_json *json, const char *name, uint64_t value)
{
    tw_json_key(json, name);
    tw_json_number(json, (int64_t)value);
}

static void print_tick(struct top *top)
{
    struct tw_json *json = &top->session->json;
    const struct facts *facts = &top->facts;
    bool is_away = top->view.trouble[0] != '\0';
    tw_json_object(json);
    json_number(json, "at_ms", (uint64_t)(tw_wall_ns() / TW_NS_PER_MS));
    tw_json_key(json, "state");
    tw_json_text(json, is_away ? "away" : facts->is_ready ? "live" : "not_ready");
    if (is_away) {
        tw_json_key(json, "trouble");
        tw_json_text(json, top->view.trouble);
        tw_json_end(json, false);
        return;
    }
    json_figures(json, "own_time", &facts->span.own);
    json_figures(json, "path_time", &facts->span.path);
    json_figures(json, "queue_wait", &facts->span.wait);
    json_figures(json, "broker_time", &facts->span.broker);
    json_number(json, "held", facts->span.held);
    json_figures(json, "own_time_since_start", &facts->since_start.own);
    json_number(json, "threads_ready", facts->executor.ready);
    json_number(json, "threads_needed", facts->executor.needed);
    json_number(json, "calls_in_flight", facts->executor.in_flight);
    json_number(json, "calls_queued", facts->executor.queued);
    json_number(json, "threads_created_late", facts->executor.created_late);
    json_number(json, "threads_lost", facts->executor.lost);
    json_number(json, "samples_lost", facts->samples_lost);
    json_number(json, "followers", facts->fleet.followers);
    json_number(json, "followers_not_connected", facts->fleet.away.count);
    json_number(json, "followers_with_drift", facts->fleet.drifting.count);
    json_number(json, "halts", facts->fleet.halts);
    tw_json_end(json, false);
}

/* ---- The loop ---- */

/* Waits for the next tick; on a screen keys are heard meanwhile. False: it is to end. */
static bool wait_tick(struct top *top, int64_t until_ns, bool is_screen)
{
    for (int64_t now_ns; (now_ns = tw_mono_ns()) < until_ns && !interrupted();) {
        int64_t left_ns =
            until_ns - now_ns < TW_NS_PER_S / 10 ? until_ns - now_ns : TW_NS_PER_S / 10;
        if (!is_screen) {
            nanosleep(&(struct timespec){.tv_nsec = left_ns}, NULL);
            continue;
        }
        int key = top_screen_key(left_ns);
        if (key == 'q' || key == 'Q')
            return false;
        if (key == 'p' || key == 'P' || key == ' ')
            top->view.is_held = !top->view.is_held;
        if (key != -1)
            top_screen_draw(&top->view); /* also when the terminal has another size */
    }
    return !interrupted();
}

static void show(struct top *top, bool is_screen)
{
    if (is_screen) {
        if (!top->view.is_held)
            top_screen_draw(&top->view);
    } else {
        print_tick(top);
        fflush(stdout);
    }
}

static void loop(struct top *top, bool is_screen)
{
    const struct args *args = &top->session->args;
    uint64_t left = args_has(args, "--count") ? (uint64_t)args_number(args, "--count") : UINT64_MAX;
    int64_t span_ns = args_number(args, "--for"), start_ns = tw_mono_ns();
    int64_t next_ns = start_ns;
    for (;;) {
        show(top, is_screen);
        if (--left == 0 || (span_ns > 0 && tw_mono_ns() - start_ns >= span_ns))
            return;
        next_ns += top->view.interval_ns;
        if (next_ns < tw_mono_ns())
            next_ns = tw_mono_ns(); /* an answer took longer than a tick */
        if (!wait_tick(top, next_ns, is_screen))
            return;
        if (read_tick(top) == TW_OK) {
            keep_tick(top);
            top->view.trouble[0] = '\0';
        } else {
            snprintf(top->view.trouble, sizeof top->view.trouble, "%.150s",
                     top->question.error.text);
        }
    }
}

static int run(struct top *top)
{
    struct session *session = top->session;
    tw_status status = read_tick(top);
    if (status != TW_OK) /* somebody has to be there at first */
        return session_failed(session, status, &top->question.answer, &top->question.error);
    keep_tick(top);
    interrupt_watch();
    bool is_screen = isatty(STDOUT_FILENO) && !session->is_json;
    if (is_screen && !top_screen_open())
        return session_error(session, "the terminal \"%s\" is not known here; -o json needs none",
                             getenv("TERM") != NULL ? getenv("TERM") : "");
    loop(top, is_screen);
    top_screen_close();
    return TW_EXIT_DONE;
}

int run_top(struct session *session)
{
    static struct top top; /* 600 ticks are too much for a stack */
    int code = session_connect(session);
    if (code != TW_EXIT_DONE)
        return code;
    top = (struct top){.session = session, .question.client = session->client};
    top.view.server = session->server;
    top.view.facts = &top.facts;
    top.view.interval_ns = args_number(&session->args, "--interval");
    for (size_t i = 0; i < COUNT(top.arenas); i++)
        tw_arena_init(&top.arenas[i], ANSWERS_BYTES_MAX);
    code = run(&top);
    for (size_t i = 0; i < COUNT(top.arenas); i++)
        tw_arena_clear(&top.arenas[i]);
    return code;
}
