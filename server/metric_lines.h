/* metric_lines.h - the lines of /metrics that only the server put together can tell. */
#ifndef TW_SERVER_METRIC_LINES_H
#define TW_SERVER_METRIC_LINES_H

#include <tradewake/telemetry/telemetry.h>

struct tw_engine;

/* Line `index`, from 0 up; false behind the last. engine: NULL until there is one. Thread: any. */
bool metric_line(struct tw_engine *engine, unsigned index, struct tw_metric_line *ret);

#endif
