/* plot.h - pictures of figures, as SVG.
 *
 * Readable without colour: every series has a marker and a dash pattern of its own and stands in the legend;
 * axes have names and units; the background is light. Nothing but the C library is needed. */
#ifndef TESTS_BENCH_PLOT_H
#define TESTS_BENCH_PLOT_H

#include <stdbool.h>
#include <stddef.h>

/* Points from left to right. A y of 0 or less is left out where the axis is logarithmic. */
struct plot_series {
    const char *name;
    const double *x, *y;
    size_t n;
    bool is_ours; /* drawn thicker */
};

struct plot_panel {
    const char *title, *x_label, *y_label;
    const struct plot_series *series;
    size_t n_series;
    const char *const *x_names; /* of x = 0, 1, ...; NULL: x is a number, on a logarithmic axis */
    size_t n_x_names;
    const char *x_prefix; /* before each number on the x axis; NULL = nothing */
    bool is_y_log;
};

/* Panels stand below each other. False: words are on stderr. */
bool plot_write(const char *path, const char *title, const char *about, const struct plot_panel *panels,
                size_t n_panels);

#endif
