/* Drawing; ncurses is in this file only. */
#include "top_screen.h"

#include <tradewake/base/clock.h>

#include <inttypes.h>
#include <ncurses.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PAIR_GOOD = 1, PAIR_WARN, PAIR_BAD, LABEL_WIDTH = 11 };

static bool is_open;

bool top_screen_open(void)
{
    SCREEN *screen = newterm(NULL, stdout, stdin);
    if (screen == NULL)
        return false;
    is_open = true;
    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);
    if (has_colors()) {
        start_color();
        use_default_colors();
        init_pair(PAIR_GOOD, COLOR_GREEN, -1);
        init_pair(PAIR_WARN, COLOR_YELLOW, -1);
        init_pair(PAIR_BAD, COLOR_RED, -1);
    }
    return true;
}

void top_screen_close(void)
{
    if (is_open)
        endwin();
    is_open = false;
}

int top_screen_key(int64_t within_ns)
{
    timeout((int)(within_ns / TW_NS_PER_MS) + 1);
    int key = getch();
    return key == ERR ? -1 : key;
}

/* ---- Pieces ---- */

static void style(int pair)
{
    attrset(pair == 0 ? A_NORMAL : (attr_t)COLOR_PAIR(pair));
}

/* A line of plain text, cut at the right edge. */
static void line(int *y, const char *format, ...) TW_PRINTF(2, 3);
static void line(int *y, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (*y < LINES)
        mvaddnstr(*y, 0, text, COLS);
    ++*y;
}

static void heading(int *y, const char *text)
{
    ++*y;
    attrset(A_BOLD);
    line(y, "%s", text);
    attrset(A_NORMAL);
}

static void clock_text(int64_t wall_ns, char text[16])
{
    time_t seconds = (time_t)(wall_ns / TW_NS_PER_S);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    strftime(text, 16, "%H:%M:%S", &parts);
}

static void figures_line(int *y, const char *name, const struct figures *figures)
{
    char text[4][NS_TEXT_BYTES];
    line(y, "%-*s %9s %9s %9s %9s", LABEL_WIDTH, name, ns_text(figures->p50_ns, text[0]),
         ns_text(figures->p95_ns, text[1]), ns_text(figures->p99_ns, text[2]),
         ns_text(figures->max_ns, text[3]));
}

static const struct top_tick *tick_back(const struct top_view *view, size_t back)
{
    return &view->ticks[(view->n_ticks - 1 - back) % TOP_TICKS];
}

static size_t ticks_kept(const struct top_view *view)
{
    return view->n_ticks < TOP_TICKS ? view->n_ticks : TOP_TICKS;
}

static const struct top_tick *last_busy(const struct top_view *view)
{
    for (size_t back = 0; back < ticks_kept(view); back++)
        if (tick_back(view, back)->times.own.count > 0)
            return tick_back(view, back);
    return NULL;
}

/* ---- Parts of the screen, top to bottom ---- */

static void draw_title(int *y, const struct top_view *view)
{
    char now[16];
    bool is_away = view->trouble[0] != '\0';
    clock_text(tw_wall_ns(), now);
    attrset(A_BOLD);
    line(y, "tradewake top  %s  %s UTC", view->server, now);
    style(is_away ? PAIR_BAD : view->facts->is_ready ? PAIR_GOOD : PAIR_WARN);
    if (is_away)
        line(y, "reconnecting: %s", view->trouble);
    else
        line(y, "%s%s", view->facts->is_ready ? "live" : "not ready: it drains, or is starting",
             view->is_held ? ", held (p goes on)" : "");
    attrset(A_NORMAL);
}

static void draw_times(int *y, const struct top_view *view)
{
    const struct top_tick *busy = last_busy(view);
    char at[16] = "none yet", title[128];
    if (busy != NULL)
        clock_text(busy->at_wall_ns, at);
    snprintf(title, sizeof title, "%-*s %9s %9s %9s %9s   last tick with copies: %s", LABEL_WIDTH,
             "JUST NOW", "p50", "p95", "p99", "max", at);
    heading(y, title);
    const struct times none = {0}, *times = busy != NULL ? &busy->times : &none;
    figures_line(y, "own time", &times->own);
    figures_line(y, "path time", &times->path);
    figures_line(y, "queue wait", &times->wait);
    figures_line(y, "broker", &times->broker);
    snprintf(title, sizeof title, "%-*s %9s %9s %9s %9s   %" PRIu64 " copies, %" PRIu64 " held",
             LABEL_WIDTH, "SINCE START", "p50", "p95", "p99", "max",
             view->facts->since_start.own.count, view->facts->since_start.held);
    heading(y, title);
    figures_line(y, "own time", &view->facts->since_start.own);
    figures_line(y, "path time", &view->facts->since_start.path);
}

static void draw_executor(int *y, const struct top_view *view)
{
    const struct executor_facts *executor = &view->facts->executor;
    heading(y, "EXECUTOR");
    line(y, "%u threads ready, %u needed at worst, %u in flight, at most %u at once, %u queued",
         executor->ready, executor->needed, executor->in_flight, executor->peak, executor->queued);
    bool is_bad = executor->lost > 0 || executor->created_late > 0 || view->facts->samples_lost > 0;
    style(is_bad ? PAIR_BAD : 0);
    line(y,
         "%" PRIu64 " created late, %u lost, %" PRIu64 " samples lost, %" PRIu64
         " MiB, %s, real time %s",
         executor->created_late, executor->lost, view->facts->samples_lost,
         executor->resident_bytes >> 20, executor->is_pinned ? "pinned" : "not pinned",
         executor->is_realtime ? "yes" : "no");
    attrset(A_NORMAL);
}

static void some_line(int *y, const char *what, const struct some *some)
{
    if (some->count == 0)
        return;
    style(PAIR_WARN);
    line(y, "  %u %s, %s among them%s%s", some->count, what, some->follower_id,
         some->words[0] != '\0' ? ": " : "", some->words);
    attrset(A_NORMAL);
}

static void draw_fleet(int *y, const struct top_view *view)
{
    const struct fleet_facts *fleet = &view->facts->fleet;
    heading(y, "FOLLOWERS");
    line(y, "%u, %u connected, %u halts in force", fleet->followers,
         fleet->followers - fleet->away.count, fleet->halts);
    some_line(y, "not connected", &fleet->away);
    some_line(y, "stopped by the last gate", &fleet->tripped);
    some_line(y, "over a loss limit", &fleet->stopped_out);
    some_line(y, "with drift", &fleet->drifting);
    some_line(y, "blocked", &fleet->blocked);
}

/* The median of each tick as a mark; a tick without copies is blank. Log scale: a mark is a factor
 * of about 3. */
static void draw_marks(int *y, const struct top_view *view)
{
    static const char marks[] = "_.-:=+*#%@";
    char text[TOP_TICKS + 1];
    size_t room = COLS > LABEL_WIDTH + 1 ? (size_t)(COLS - LABEL_WIDTH - 1) : 1,
           n = ticks_kept(view);
    if (n > room)
        n = room;
    for (size_t i = 0; i < n; i++) {
        uint64_t ns = tick_back(view, n - 1 - i)->times.own.p50_ns, step_ns = 30000;
        size_t mark = 0;
        while (ns > step_ns && mark + 2 < sizeof marks) {
            mark++;
            step_ns *= 3;
        }
        text[i] = ns == 0 ? ' ' : marks[mark];
    }
    text[n] = '\0';
    ++*y;
    line(y, "%-*s %s", LABEL_WIDTH, "own p50", text);
}

static void draw_busy_ticks(int *y, const struct top_view *view)
{
    heading(y, "TICK      COPIES   own p50       p95       max  path p50    broker   HELD");
    for (size_t back = 0; back < ticks_kept(view) && *y < LINES - 1; back++) {
        const struct top_tick *tick = tick_back(view, back);
        char at[16], text[5][NS_TEXT_BYTES];
        if (tick->times.own.count == 0)
            continue;
        clock_text(tick->at_wall_ns, at);
        line(y, "%s %7" PRIu64 " %9s %9s %9s %9s %9s %6" PRIu64, at, tick->times.own.count,
             ns_text(tick->times.own.p50_ns, text[0]), ns_text(tick->times.own.p95_ns, text[1]),
             ns_text(tick->times.own.max_ns, text[2]), ns_text(tick->times.path.p50_ns, text[3]),
             ns_text(tick->times.broker.p50_ns, text[4]), tick->times.held);
    }
}

void top_screen_draw(const struct top_view *view)
{
    static void (*const parts[])(int *, const struct top_view *) = {
        draw_title, draw_times, draw_executor, draw_fleet, draw_marks, draw_busy_ticks};
    int y = 0;
    erase();
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        parts[i](&y, view);
    refresh();
}
