/* metrics_text.h - the page /metrics: Prometheus text format 0.0.4, as a function of one reading. */
#ifndef TELEMETRY_METRICS_TEXT_H
#define TELEMETRY_METRICS_TEXT_H

#include "process.h"
#include "text.h"

#include <tradewake/telemetry/sampler.h>
#include <tradewake/telemetry/telemetry.h>

struct metrics_reading {
    const char *version, *instance_id;
    int64_t start_wall_ns;
    bool is_ready;
    uint32_t followers_total, followers_connected;
    bool has_history, is_history_failing;
    uint64_t history_behind;
    bool has_backlog;
    uint64_t backlog_bytes;
    const char *(*breach)(void *context, unsigned index, uint64_t *ret_count); /* NULL = none */
    bool (*line)(void *context, unsigned index, struct tw_metric_line *ret); /* NULL = none */
    void *context; /* of both */
    struct tw_telemetry_executor executor;
    struct tw_sampler_totals sampler;
    struct process_reading process;
};

/* Appends the page; copies are read from the counters. Thread: any. */
void metrics_text(struct text *text, const struct metrics_reading *reading);

#endif
