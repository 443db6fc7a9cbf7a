#include "metrics_text.h"

#include <tradewake/base/accept.h>
#include <tradewake/base/clock.h>

#include <tradewake/v1/copies.pb-c.h>
#include <tradewake/v1/types.pb-c.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Numbers are integers all the way; seconds are written with their nanoseconds. */
#define SECONDS_TEXT_BYTES 32u

static const char *seconds_text(uint64_t ns, char text[SECONDS_TEXT_BYTES])
{
    uint64_t second_ns = (uint64_t)TW_NS_PER_S;
    int length = snprintf(text, SECONDS_TEXT_BYTES, "%" PRIu64 ".%09" PRIu64, ns / second_ns,
                          ns % second_ns);
    while (text[length - 1] == '0')
        text[--length] = '\0';
    if (text[length - 1] == '.')
        text[length - 1] = '\0';
    return text;
}

static void family(struct text *text, const char *name, const char *type, const char *help)
{
    text_add(text, "# HELP tradewake_%s %s\n# TYPE tradewake_%s %s\n", name, help, name, type);
}

/* ---- Histograms. ---- */

static void histogram_lines(struct text *text, const char *name, const char *help,
                            const struct tw_fixed_histogram *histogram)
{
    char seconds[SECONDS_TEXT_BYTES];
    uint64_t seen = 0;

    family(text, name, "histogram", help);
    for (size_t i = 0; i < TW_FIXED_BUCKETS; i++) {
        seen += histogram->buckets[i];
        text_add(text, "tradewake_%s_bucket{le=\"%s\"} %" PRIu64 "\n", name,
                 seconds_text(tw_fixed_bucket_ns[i], seconds), seen);
    }
    text_add(text, "tradewake_%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, histogram->count);
    text_add(text, "tradewake_%s_sum %s\n", name, seconds_text(histogram->sum_ns, seconds));
    text_add(text, "tradewake_%s_count %" PRIu64 "\n", name, histogram->count);
}

static void histograms(struct text *text, const struct tw_sampler_totals *totals)
{
    static const struct {
        enum tw_summary_time time;
        const char *name, *help;
    } rows[] = {
        {TW_OWN_TIME, "own_time_seconds",
         "From the receipt of an event to the order call of a copy that was not held."},
        {TW_PATH_TIME, "path_time_seconds",
         "From the observation of an event at the master to the order call of a copy that was not "
         "held."},
        {TW_QUEUE_WAIT, "queue_wait_seconds", "From the journal to the thread that made the call."},
        {TW_BROKER_TIME, "broker_seconds", "From the order call to the answer of the broker."},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        histogram_lines(text, rows[i].name, rows[i].help, &totals->times[rows[i].time]);
}

/* ---- Copies by state and reason. ---- */

/* The contract's word without its prefix; "NONE" for 0, because an empty label is no label. */
static const char *word_of(const ProtobufCEnumDescriptor *words, size_t prefix, int number)
{
    const ProtobufCEnumValue *value =
        number == 0 ? NULL : protobuf_c_enum_descriptor_get_value(words, number);
    return value == NULL ? "NONE" : value->name + prefix;
}

static void copies(struct text *text)
{
    family(text, "copies_total", "counter", "Copies by the state they reached and the reason.");
    for (int state = 0; state < (int)TW_COPY_STATES; state++)
        for (int reason = 0; reason < (int)TW_COPY_REASONS; reason++) {
            uint64_t count = tw_copy_counters_get(state, reason);
            bool is_always = state == TRADEWAKE__V1__COPY_STATE__COPY_STATE_DONE && reason == 0;
            if (count == 0 && !is_always)
                continue;
            text_add(text, "tradewake_copies_total{state=\"%s\",reason=\"%s\"} %" PRIu64 "\n",
                     word_of(&tradewake__v1__copy_state__descriptor, strlen("COPY_STATE_"), state),
                     word_of(&tradewake__v1__reason__descriptor, strlen("REASON_"), reason), count);
        }
}

/* ---- Everything that is one number. ---- */

struct line {
    const char *name, *label, *type, *help; /* help NULL: one more line of the family above */
    uint64_t value;
};

static void lines(struct text *text, const struct line *at, size_t count)
{
    for (const struct line *end = at + count; at < end; at++) {
        if (at->help != NULL)
            family(text, at->name, at->type, at->help);
        text_add(text, "tradewake_%s%s %" PRIu64 "\n", at->name, at->label, at->value);
    }
}

static void executor_lines(struct text *text, const struct tw_telemetry_executor *executor)
{
    const struct tw_executor_status *status = &executor->status;
    const struct line rows[] = {
        {"executor_threads", "{kind=\"running\"}", "gauge",
         "Threads of the executor: running now, ready at start, allowed, needed at the worst, lost "
         "in calls past their deadline.",
         status->threads},
        {"executor_threads", "{kind=\"ready\"}", NULL, NULL, status->threads_ready},
        {"executor_threads", "{kind=\"max\"}", NULL, NULL, status->threads_max},
        {"executor_threads", "{kind=\"needed\"}", NULL, NULL, executor->threads_needed},
        {"executor_threads", "{kind=\"lost\"}", NULL, NULL, status->threads_lost},
        {"executor_threads_created_late_total", "", "counter",
         "Threads created after the start, in the middle of work.", status->threads_created_late},
        {"executor_calls", "{state=\"in_flight\"}", "gauge", "Calls that run, and that wait.",
         status->calls_in_flight},
        {"executor_calls", "{state=\"queued\"}", NULL, NULL, status->calls_queued},
        {"executor_calls_completed_total", "", "counter", "Calls that came back.",
         status->calls_completed},
        {"executor_calls_in_flight_peak", "", "gauge", "The most calls that ever ran at once.",
         status->peak_in_flight},
        {"executor_groups", "", "gauge", "Groups of threads, one per usable core.", status->groups},
        {"executor_pinned", "", "gauge", "1 when groups are pinned to their cores.",
         status->pinned ? 1u : 0u},
        {"executor_realtime", "", "gauge", "1 when leaders have real-time priority.",
         status->realtime ? 1u : 0u},
    };
    lines(text, rows, sizeof rows / sizeof rows[0]);
}

static void sampler_lines(struct text *text, const struct metrics_reading *reading)
{
    const struct tw_sampler_totals *totals = &reading->sampler;
    const struct line rows[] = {
        {"samples_total", "", "counter", "Copies whose times were sampled.", totals->samples},
        {"samples_held_total", "", "counter",
         "Copies left out of own and path time because they had to wait for something that is not "
         "the service's to hurry.",
         totals->held},
        {"samples_lost_total", "", "counter",
         "Samples that found their ring full; 0 in a healthy server.", totals->lost},
        {"samples_left_out_total", "", "counter",
         "Samples that readers of WatchOwnTime were too slow for.", totals->left_out},
        {"samples_unlisted_total", "", "counter",
         "Samples that the summary since start holds under other, without their names.",
         totals->unlisted},
        {"sample_cells", "", "gauge", "Cells of the summary since start that are in use.",
         totals->cells},
        {"sample_cells_max", "", "gauge", "Cells there can be.", totals->cells_max},
        {"sample_readers", "", "gauge", "Streams of samples and of summaries that are open.",
         totals->readers},
        {"followers", "{connected=\"true\"}", "gauge", "Followers by whether their broker answers.",
         reading->followers_connected},
        {"followers", "{connected=\"false\"}", NULL, NULL,
         reading->followers_total - reading->followers_connected},
        {"connections_turned_away_total", "", "counter",
         "Connections that were closed because listener.connections_max were there.", tw_accept_turned_away()},
        {"ready", "", "gauge", "1 when /readyz answers 200.", reading->is_ready ? 1u : 0u},
    };
    lines(text, rows, sizeof rows / sizeof rows[0]);
}

static void history_lines(struct text *text, const struct metrics_reading *reading)
{
    const struct line rows[] = {
        {"history_behind_records", "", "gauge",
         "Records of the log that the history has not taken up yet; they come late, and are not lost.",
         reading->history_behind},
        {"history_failing", "", "gauge", "1 while the history cannot be written; orders go on.",
         reading->is_history_failing ? 1u : 0u},
    };
    if (reading->has_history)
        lines(text, rows, sizeof rows / sizeof rows[0]);
}

static void backlog_lines(struct text *text, const struct metrics_reading *reading)
{
    const struct line row = {"journal_backlog_bytes", "", "gauge",
                             "Memory of copies that wait for the disk of the journal; opens are refused beyond copies.backlog_bytes.",
                             reading->backlog_bytes};
    if (reading->has_backlog)
        lines(text, &row, 1);
}

static void gate_lines(struct text *text, const struct metrics_reading *reading)
{
    const char *word;
    uint64_t count = 0;
    if (reading->breach == NULL)
        return;
    text_add(text, "# HELP tradewake_gate_breaches_total Orders that the last gate did not let through; the follower's opens "
                   "wait for RearmGate.\n# TYPE tradewake_gate_breaches_total counter\n");
    for (unsigned i = 0; (word = reading->breach(reading->context, i, &count)) != NULL; i++)
        text_add(text, "tradewake_gate_breaches_total{breach=\"%s\"} %llu\n", word, (unsigned long long)count);
}

static void server_lines(struct text *text, const struct metrics_reading *reading)
{
    struct tw_metric_line more;
    for (unsigned i = 0; reading->line != NULL && reading->line(reading->context, i, &more); i++) {
        const struct line row = {more.name, more.labels, more.type, more.help, more.value};
        lines(text, &row, 1);
    }
}

/* The names that every Prometheus client library gives a process; without our prefix. */
static void process_lines(struct text *text, const struct metrics_reading *reading)
{
    const struct process_reading *process = &reading->process;
    char seconds[SECONDS_TEXT_BYTES];
    const struct line rows[] = {
        {"process_resident_memory_bytes", NULL, "gauge", "Resident memory.",
         process->resident_bytes},
        {"process_virtual_memory_bytes", NULL, "gauge", "Address space.", process->virtual_bytes},
        {"process_threads", NULL, "gauge", "Threads of the process.", process->threads},
        {"process_open_fds", NULL, "gauge", "Open files.", process->open_files},
        {"process_max_fds", NULL, "gauge", "Open files that are allowed.", process->open_files_max},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        text_add(text, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n", rows[i].name, rows[i].help,
                 rows[i].name, rows[i].type, rows[i].name, rows[i].value);
    text_add(text,
             "# HELP process_cpu_seconds_total User and system time.\n"
             "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total %s\n",
             seconds_text(process->cpu_ns, seconds));
    text_add(text,
             "# HELP process_start_time_seconds When the process started, since 1970.\n"
             "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %s\n",
             seconds_text((uint64_t)reading->start_wall_ns, seconds));
}

/* ---- Who it is. ---- */

static void label_text(struct text *text, const char *value)
{
    for (; *value != '\0'; value++) {
        if (*value == '\n')
            text_add(text, "\\n");
        else if (*value == '"' || *value == '\\')
            text_add(text, "\\%c", *value);
        else
            text_add(text, "%c", *value);
    }
}

static void info_line(struct text *text, const char *name, const char *label, const char *value,
                      const char *help)
{
    family(text, name, "gauge", help);
    text_add(text, "tradewake_%s{%s=\"", name, label);
    label_text(text, value);
    text_add(text, "\"} 1\n");
}

void metrics_text(struct text *text, const struct metrics_reading *reading)
{
    histograms(text, &reading->sampler);
    copies(text);
    executor_lines(text, &reading->executor);
    sampler_lines(text, reading);
    history_lines(text, reading);
    backlog_lines(text, reading);
    gate_lines(text, reading);
    server_lines(text, reading);
    info_line(text, "build_info", "version", reading->version, "The version that runs; always 1.");
    info_line(text, "instance_info", "instance_id", reading->instance_id,
              "Changes with every start; always 1.");
    process_lines(text, reading);
}
