#include "plot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 960,
    LEFT = 70,
    RIGHT = 170, /* the legend's */
    HEAD = 64,
    PANEL = 380,
    PANEL_TOP = 34,
    PANEL_BOTTOM = 54,
    TICKS_MAX = 64,
};

/* Colours that differ in lightness too; told apart by marker and dash without them. */
static const struct style {
    const char *colour, *dash;
    enum marker { CIRCLE, SQUARE, TRIANGLE, DIAMOND, CROSS, PLUS, TRIANGLE_DOWN, RING, BAR } marker;
} styles[] = {
    {"#333333", "2 3", PLUS},        {"#0b5fa5", "none", CIRCLE},       {"#b3570a", "8 4", TRIANGLE},
    {"#6b4fa0", "3 2", SQUARE},      {"#1f7a4d", "10 3 2 3", DIAMOND},  {"#a01f4f", "5 5", CROSS},
    {"#7a6a00", "1 3", RING},        {"#00707a", "12 4", TRIANGLE_DOWN}, {"#555555", "6 2 1 2", BAR},
};
enum { STYLES = sizeof styles / sizeof styles[0] };

struct axis {
    double low, high;
    bool is_log;
    double from, to; /* pixels of low and high */
    double ticks[TICKS_MAX];
    size_t n_ticks;
};

static double at(const struct axis *axis, double value)
{
    double share = axis->is_log ? (log(value) - log(axis->low)) / (log(axis->high) - log(axis->low))
                                : (value - axis->low) / (axis->high - axis->low);
    return axis->from + share * (axis->to - axis->from);
}

static bool is_shown(const struct axis *y, double value)
{
    return !y->is_log || value > 0;
}

/* 1, 2, 5, 10, 20, ... around what there is. */
static double step_below(double value)
{
    double decade = pow(10, floor(log10(value)));
    double share = value / decade;
    return decade * (share >= 5 ? 5 : share >= 2 ? 2 : 1);
}

static double step_above(double value)
{
    double below = step_below(value);
    if (below >= value * 0.999999)
        return below;
    double decade = pow(10, floor(log10(value)));
    double share = below / decade;
    return decade * (share >= 5 ? 10 : share >= 2 ? 5 : 2);
}

static void ticks_log(struct axis *axis)
{
    for (double tick = axis->low; tick <= axis->high * 1.0001 && axis->n_ticks < TICKS_MAX;
         tick = step_above(tick * 1.01))
        axis->ticks[axis->n_ticks++] = tick;
}

static void ticks_linear(struct axis *axis)
{
    double step = step_above(axis->high / 8);
    for (double tick = 0; tick <= axis->high * 1.0001 && axis->n_ticks < TICKS_MAX; tick += step)
        axis->ticks[axis->n_ticks++] = tick;
}

static struct axis axis_y(const struct plot_panel *panel, double top)
{
    struct axis axis = {.low = HUGE_VAL, .is_log = panel->is_y_log, .from = top + PANEL - PANEL_BOTTOM,
                        .to = top + PANEL_TOP};
    for (size_t s = 0; s < panel->n_series; s++)
        for (size_t i = 0; i < panel->series[s].n; i++) {
            double y = panel->series[s].y[i];
            if (!is_shown(&axis, y))
                continue;
            axis.low = fmin(axis.low, y);
            axis.high = fmax(axis.high, y);
        }
    if (axis.high <= 0)
        axis.low = axis.high = 1;
    axis.low = axis.is_log ? step_below(axis.low * 0.95) : 0;
    axis.high = axis.is_log ? step_above(axis.high * 1.05) : axis.high * 1.08;
    if (axis.is_log)
        ticks_log(&axis);
    else
        ticks_linear(&axis);
    return axis;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Names stand side by side; numbers stand where some series has a point. */
static struct axis axis_x(const struct plot_panel *panel)
{
    struct axis axis = {.from = LEFT, .to = WIDTH - RIGHT};
    if (panel->x_names != NULL) {
        axis.low = -0.5;
        axis.high = (double)panel->n_x_names - 0.5;
        for (size_t i = 0; i < panel->n_x_names && i < TICKS_MAX; i++)
            axis.ticks[axis.n_ticks++] = (double)i;
        return axis;
    }
    axis.is_log = true;
    for (size_t s = 0; s < panel->n_series; s++)
        for (size_t i = 0; i < panel->series[s].n; i++) {
            bool is_new = axis.n_ticks < TICKS_MAX;
            for (size_t t = 0; t < axis.n_ticks; t++)
                is_new = is_new && axis.ticks[t] != panel->series[s].x[i];
            if (is_new)
                axis.ticks[axis.n_ticks++] = panel->series[s].x[i];
        }
    qsort(axis.ticks, axis.n_ticks, sizeof axis.ticks[0], by_value);
    axis.low = axis.n_ticks > 0 ? axis.ticks[0] / 1.25 : 1;
    axis.high = axis.n_ticks > 0 ? axis.ticks[axis.n_ticks - 1] * 1.25 : 2;
    return axis;
}

/* ---- drawing ---- */

static void text(FILE *to, double x, double y, const char *anchor, int size, const char *words)
{
    fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\">", x, y, anchor, size);
    for (; *words != '\0'; words++)
        switch (*words) {
        case '<':
            fputs("&lt;", to);
            break;
        case '&':
            fputs("&amp;", to);
            break;
        default:
            fputc(*words, to);
        }
    fputs("</text>\n", to);
}

static void line(FILE *to, double x1, double y1, double x2, double y2, const char *colour)
{
    fprintf(to, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2, colour);
}

static void marker_draw(FILE *to, const struct style *style, double x, double y)
{
    const char *colour = style->colour;
    switch (style->marker) {
    case CIRCLE:
        fprintf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"%s\"/>\n", x, y, colour);
        return;
    case RING:
        fprintf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\" fill=\"#fff\" stroke=\"%s\" stroke-width=\"2\"/>\n", x, y,
                colour);
        return;
    case SQUARE:
        fprintf(to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"9\" height=\"9\" fill=\"%s\"/>\n", x - 4.5, y - 4.5, colour);
        return;
    case TRIANGLE:
    case TRIANGLE_DOWN: {
        double way = style->marker == TRIANGLE ? 1 : -1;
        fprintf(to, "<path d=\"M%.1f %.1fl5.5 %.1fh-11z\" fill=\"%s\"/>\n", x, y - 5.5 * way, 10 * way, colour);
        return;
    }
    case DIAMOND:
        fprintf(to, "<path d=\"M%.1f %.1fl6 6l-6 6l-6 -6z\" fill=\"%s\"/>\n", x, y - 6, colour);
        return;
    case CROSS:
        fprintf(to, "<path d=\"M%.1f %.1fl10 10m0 -10l-10 10\" stroke=\"%s\" stroke-width=\"2.5\"/>\n", x - 5, y - 5,
                colour);
        return;
    case PLUS:
        fprintf(to, "<path d=\"M%.1f %.1fh12m-6 -6v12\" stroke=\"%s\" stroke-width=\"2.5\"/>\n", x - 6, y, colour);
        return;
    case BAR:
        fprintf(to, "<path d=\"M%.1f %.1fh14\" stroke=\"%s\" stroke-width=\"4\"/>\n", x - 7, y, colour);
        return;
    }
}

static void series_draw(FILE *to, const struct plot_panel *panel, size_t s, const struct axis *x, const struct axis *y)
{
    const struct plot_series *series = &panel->series[s];
    const struct style *style = &styles[s % STYLES];
    bool is_begun = false;
    if (panel->x_names == NULL && series->is_ours && series->n == 1) /* one level, whatever the others do */
        fprintf(to, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"%s\" stroke-width=\"1.5\" stroke-dasharray=\"10 6\"/>\n", x->from,
                at(y, series->y[0]), x->to, style->colour);
    if (panel->x_names == NULL) {
        fprintf(to, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" stroke-dasharray=\"%s\" d=\"", style->colour,
                series->is_ours ? "3.5" : "1.8", series->is_ours ? "none" : style->dash);
        for (size_t i = 0; i < series->n; i++)
            if (is_shown(y, series->y[i])) {
                fprintf(to, "%c%.1f %.1f", is_begun ? 'L' : 'M', at(x, series->x[i]), at(y, series->y[i]));
                is_begun = true;
            }
        fputs("\"/>\n", to);
    }
    for (size_t i = 0; i < series->n; i++)
        if (is_shown(y, series->y[i]))
            marker_draw(to, style, at(x, series->x[i]), at(y, series->y[i]));
}

static void legend_draw(FILE *to, const struct plot_panel *panel, double top)
{
    for (size_t s = 0; s < panel->n_series; s++) {
        const struct style *style = &styles[s % STYLES];
        double y = top + PANEL_TOP + 14 + 22 * (double)s, x = WIDTH - RIGHT + 14;
        if (panel->x_names == NULL)
            fprintf(to, "<path d=\"M%.1f %.1fh34\" stroke=\"%s\" stroke-width=\"%s\" stroke-dasharray=\"%s\"/>\n", x, y,
                    style->colour, panel->series[s].is_ours ? "3.5" : "1.8",
                    panel->series[s].is_ours ? "none" : style->dash);
        marker_draw(to, style, x + 17, y);
        text(to, x + 42, y + 4, "start", 13, panel->series[s].name);
    }
}

static void number(char *words, size_t size, const char *prefix, double value)
{
    snprintf(words, size, "%s%.*f", prefix != NULL ? prefix : "", value >= 10 || value == floor(value) ? 0 : value >= 1 ? 1 : 2,
             value);
}

static void panel_draw(FILE *to, const struct plot_panel *panel, double top)
{
    struct axis x = axis_x(panel), y = axis_y(panel, top);
    double bottom = y.from, right = x.to;
    char words[64];
    text(to, LEFT, top + 16, "start", 15, panel->title);
    for (size_t t = 0; t < y.n_ticks; t++) {
        double place = at(&y, y.ticks[t]);
        line(to, LEFT, place, right, place, "#dddddd");
        number(words, sizeof words, NULL, y.ticks[t]);
        text(to, LEFT - 8, place + 4, "end", 12, words);
    }
    for (size_t t = 0; t < x.n_ticks; t++) {
        double place = at(&x, x.ticks[t]);
        line(to, place, bottom, place, bottom + 5, "#222222");
        if (panel->x_names != NULL)
            snprintf(words, sizeof words, "%s", panel->x_names[t]);
        else
            number(words, sizeof words, panel->x_prefix, x.ticks[t]);
        text(to, place, bottom + 19, "middle", 12, words);
    }
    line(to, LEFT, bottom, right, bottom, "#222222");
    line(to, LEFT, bottom, LEFT, y.to, "#222222");
    text(to, (LEFT + right) / 2, bottom + 40, "middle", 13, panel->x_label);
    fprintf(to, "<g transform=\"translate(18 %.1f) rotate(-90)\">", (bottom + y.to) / 2);
    text(to, 0, 0, "middle", 13, panel->y_label);
    fputs("</g>\n", to);
    /* Ours is drawn last, so that nothing hides it. */
    for (int ours = 0; ours < 2; ours++)
        for (size_t s = 0; s < panel->n_series; s++)
            if (panel->series[s].is_ours == (ours == 1))
                series_draw(to, panel, s, &x, &y);
    legend_draw(to, panel, top);
}

bool plot_write(const char *path, const char *title, const char *about, const struct plot_panel *panels,
                size_t n_panels)
{
    FILE *to = fopen(path, "w");
    if (to == NULL) {
        fprintf(stderr, "--plot: %s cannot be written: %s\n", path, strerror(errno));
        return false;
    }
    size_t height = HEAD + PANEL * n_panels + 10;
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%zu\" viewBox=\"0 0 %d %zu\" "
            "font-family=\"sans-serif\" fill=\"#111111\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
            WIDTH, height, WIDTH, height);
    text(to, LEFT, 26, "start", 18, title);
    text(to, LEFT, 46, "start", 12, about);
    for (size_t p = 0; p < n_panels; p++)
        panel_draw(to, &panels[p], HEAD + PANEL * (double)p);
    fputs("</svg>\n", to);
    bool is_good = ferror(to) == 0;
    return fclose(to) == 0 && is_good;
}
