/* telemetry.h - everything that tells how the service is doing, started and stopped as one.
 *
 *   engine --tw_sampler_put()--> sampler thread --> feeds and summaries --> MetricsService (server/rpc)
 *          --tw_copy_counters_add()--> counters  \
 *                                                 --> admin port (house thread) --> curl, Prometheus
 *
 * What telemetry cannot know by itself it asks through callbacks, given at start. Nothing here ever
 * makes a worker wait: a full ring loses the sample and counts it. */
#ifndef TW_TELEMETRY_TELEMETRY_H
#define TW_TELEMETRY_TELEMETRY_H

#include <tradewake/base/status.h>
#include <tradewake/executor/executor.h>
#include <tradewake/telemetry/counters.h>
#include <tradewake/telemetry/sample.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TW_TELEMETRY_ADMIN_LISTEN "127.0.0.1:9464" /* where the admin port is when nobody says */
#define TW_TELEMETRY_WARM_UP_MS   10000u           /* of `serve`; `dev` has 0 */

struct tw_reactor;
struct tw_telemetry;

/* One line of /livez?verbose or /readyz?verbose. */
struct tw_health_check {
    const char *name; /* "journal", "listening"; [a-z-] */
    /* True, or false with a few words in why (size bytes). Never asks a broker.
     * Thread: house.  Blocks: no. */
    bool (*passes)(void *context, char *why, size_t size);
};

/* A line of /metrics that the server adds. */
struct tw_metric_line {
    const char *name;   /* without "tradewake_" */
    const char *labels; /* "" or "{kind=\"ready\"}" */
    const char *type, *help; /* NULL = another line of the family before */
    uint64_t value;
};

/* What the server answers. All are called with `context`, from the moment tw_telemetry_start() is
 * entered until tw_telemetry_admin_close() has returned and no RPC is left.
 * Thread: house, rpc and stream, several at once.  Blocks: no. */
struct tw_telemetry_callbacks {
    void *context;

    /* Fills both; zeros while there is no executor yet. threads_needed: the sum over blocking
     * followers of max_parallel. */
    void (*executor)(void *context, struct tw_executor_status *ret_status,
                     uint32_t *ret_threads_needed);

    /* Followers there are, and those whose broker answers. */
    void (*followers)(void *context, uint32_t *ret_total, uint32_t *ret_connected);

    /* How many records of the log the history has not taken up yet, and whether it cannot be written. False:
     * there is no history. NULL = there never is. */
    bool (*history)(void *context, uint64_t *ret_behind, bool *ret_is_failing);

    /* How much memory waits for the disk of the journal. NULL = it is not known. */
    uint64_t (*backlog)(void *context);

    /* Orders that the last gate did not let through, by what was wrong with them: the word of breach `index`, from 0
     * up; NULL behind the last. NULL = there is no gate. */
    const char *(*breach)(void *context, unsigned index, uint64_t *ret_count);

    /* The lines that are the server's own: line `index`, from 0 up; false behind the last. NULL = there are none. */
    bool (*line)(void *context, unsigned index, struct tw_metric_line *ret);

    /* /readyz: 200 when all pass, else 503. /livez likewise; no checks = alive. Both arrays end
     * with .name == NULL; NULL = none. */
    const struct tw_health_check *ready, *live;
};

/* Everything pointed to stays until tw_telemetry_stop() returns. */
struct tw_telemetry_options {
    const char *instance_id;  /* of this start; WatchStarted.instance_id */
    const char *version;      /* "0.1.0", of tradewake_build_info */
    const char *admin_listen; /* "127.0.0.1:9464", "[::1]:0"; "" = no admin port; NULL = default */
    uint32_t warm_up_ms;      /* samples of copies called before are flagged */
    struct tw_sample_subject_ops subjects;
    struct tw_telemetry_callbacks callbacks;

    /* The house thread, when the server has started it already; NULL = telemetry starts one named
     * "house" and ends it in stop. */
    struct tw_reactor *house;
};

/* Starts the sampler and, when asked for, the admin port. The engine, and the threads that answer
 * RPCs, start afterwards.
 *
 * Thread: main.  Blocks: shortly.
 * Fails:  TW_INVALID (admin_listen is no address), TW_IO (it cannot be bound; error names the
 *         address and what to do), TW_NO_MEMORY. Nothing is left running on failure. */
TW_MUST_CHECK tw_status tw_telemetry_start(const struct tw_telemetry_options *options,
                                           struct tw_telemetry **ret_telemetry,
                                           struct tw_error *error);

/* Closes the admin port with whoever is connected. Once the RPCs have ended, too, no callback is called
 * any more, so that what they ask about can be stopped. Twice, and NULL, are allowed.
 * Thread: main.  Blocks: shortly; never for a client. */
void tw_telemetry_admin_close(struct tw_telemetry *telemetry);

/* Closes the admin port, ends the sampler, releases every subject that is still held. NULL is
 * allowed. The order of a stop: tw_wire_server_stop() and tw_telemetry_admin_close() (nobody watches
 * or asks), the executor (nobody puts samples), this, then the engine (nobody holds a subject).
 * Thread: main.  Blocks: shortly. */
void tw_telemetry_stop(struct tw_telemetry *telemetry);

/* Where the engine puts samples; valid until stop. Thread: any. */
struct tw_sampler *tw_telemetry_sampler(struct tw_telemetry *telemetry);

/* The house thread, for the server's own timers and signals. Thread: any. */
struct tw_reactor *tw_telemetry_house(struct tw_telemetry *telemetry);

/* The admin port in use (of "host:0"); 0 = there is none. Thread: any. */
int tw_telemetry_admin_port(const struct tw_telemetry *telemetry);

const char *tw_telemetry_instance_id(const struct tw_telemetry *telemetry);

/* The executor as ExecutorStatus shows it. Thread: any.  Blocks: for one read of /proc/self. */
struct tw_telemetry_executor {
    struct tw_executor_status status;
    uint32_t threads_needed;
    uint64_t resident_bytes;    /* of the process; 0 = not known */
    int64_t warm_since_wall_ns; /* 0 = still warming up */
};
void tw_telemetry_executor_get(struct tw_telemetry *telemetry, struct tw_telemetry_executor *ret);

#endif
