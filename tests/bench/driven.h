/* driven.h - a running server for the bench: the build's own `tradewake serve`, with a state directory
 * of its own, a fleet on the paper broker and one master.
 *
 *   driven_start -> driven_fleet -> load.h for the events, the questions below for the figures -> stop */
#ifndef TESTS_BENCH_DRIVEN_H
#define TESTS_BENCH_DRIVEN_H

#include "bench.h"
#include "load.h"

#include <tradewake/wire/client.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define DRIVEN_SUBMIT "/tradewake.v1.EventService/SubmitEvent"
#define DRIVEN_STREAM "/tradewake.v1.EventService/StreamEvents"

struct driven {
    pid_t pid, venue_pid; /* the second: a FIX venue; 0 = none */
    int venue_commands;   /* its stdin; it ends with it */
    char address[64], dir[256];
    struct tw_wire_client *client;
};

/* False: words are on stderr; stop it all the same. */
bool driven_start(bool realtime, struct driven *ret);
/* adapter: "plugin:NAME" is plugins/NAME.so beside this program, loaded into the server, or, hosted, into a process of its own;
 * "fix" is the program fix_acceptor beside it, which takes answer_ns for an order, with a FIX session for each follower. */
bool driven_start_with(bool realtime, const char *adapter, bool is_hosted, int64_t answer_ns, struct driven *ret);
void driven_stop(struct driven *server);

struct driven_fleet {
    uint32_t followers, max_parallel;
    const char *adapter, *latency; /* "paper", "constant:130ms"; of a plugin as built into it */
    bool is_blocking;
    const char *stamps; /* a file where the test plugins write down when their calls begin; NULL = none */
};

/* Creates followers F1 .. Fn subscribed to M1, and waits until each of them is connected. */
bool driven_fleet(struct driven *server, const struct driven_fleet *fleet);

/* ---- Events ---- */

struct driven_event {
    const char *id, *position_id;
    bool is_close;          /* else it opens */
    bool waits_until_done;  /* unary only: the answer comes when every copy is done */
    bool is_streamed;
    int64_t observed_wall_ns;
};

/* The request, as it goes over the wire; returns its size. */
size_t driven_event_pack(const struct driven_event *event, uint8_t bytes[LOAD_MESSAGE_BYTES]);

/* ---- Questions ---- */

bool driven_realtime(struct driven *server, bool *ret);

/* Since the start, of M1's copies. Buckets are sparse; upper bounds rise. */
struct driven_histogram {
    uint64_t count;
    size_t n;
    uint64_t *upper_ns, *counts;
};
struct driven_summary {
    struct driven_histogram own, path;
    uint64_t held; /* copies that are in neither: they waited for what is not ours to hurry */
    uint64_t samples_lost;
};
bool driven_summary_get(struct driven *server, struct driven_summary *ret);
void driven_summary_clear(struct driven_summary *summary);

/* What came between two summaries. */
struct times driven_times_between(const struct driven_histogram *before, const struct driven_histogram *after);

/* Processor time of a process so far, user and system, all threads. */
double process_cpu_us(pid_t pid);

#endif
