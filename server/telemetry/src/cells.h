/* cells.h - every sample since start, counted so that any filter and grouping can be asked for.
 *
 * A cell is a set of histograms for one combination of master, follower, adapter, range of threads,
 * step of own time, held or not, warming up or not. A question merges the cells it means. Cells are
 * bounded: samples of combinations that come after the last one was taken lose their names and are
 * found in "other". Thread: sampler. */
#ifndef TELEMETRY_CELLS_H
#define TELEMETRY_CELLS_H

#include "summary.h"

/* About 600 followers with several magnitudes of own time each; a few KiB for a busy one. */
#define CELLS_MAX 8192u

struct cells {
    struct table table; /* of struct cell */
    uint64_t unlisted;  /* samples without names */
};

/* False without memory. */
bool cells_add(struct cells *cells, const struct tw_sample *sample,
               const struct summary_subject *subject, const struct summary_times *times);

/* Adds what the filter means to the summary. False without memory. */
bool cells_collect(const struct cells *cells, const struct tw_sample_filter *filter,
                   struct tw_summary *summary);

void cells_clear(struct cells *cells);

#endif
