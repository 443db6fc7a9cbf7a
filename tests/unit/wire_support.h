/* wire_support.h - a small server over proto/wire whose behaviour each request chooses, and raw
 * calls for what our own client would never send. */
#ifndef WIRE_SUPPORT_H
#define WIRE_SUPPORT_H

#include <tradewake/base/arena.h>
#include <tradewake/base/clock.h>
#include <tradewake/wire/client.h>
#include <tradewake/wire/server.h>

#include <tradewake/v1/events.pb-c.h>
#include <tradewake/v1/metrics.pb-c.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SUBMIT_EVENT   "/tradewake.v1.EventService/SubmitEvent"
#define STREAM_EVENTS  "/tradewake.v1.EventService/StreamEvents"
#define WATCH_OWN_TIME "/tradewake.v1.MetricsService/WatchOwnTime"
#define REASON(name)   TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_##name

/* What the server saw; the counters are of the whole process. Waits for a value are await_count().
 */
struct seen {
    atomic_int requests, finished, cancelled, posts, timers, half_closes, writes, blocked;
    atomic_llong received_mono_ns, deadline_mono_ns, timer_ran_mono_ns, write_started_mono_ns;
};
extern struct seen seen;

/* SubmitEvent does what its event_id says:
 *   echo*    answers with the id and accepted = 1
 *   refuse   POSITION_EXISTS with every detail there is
 *   overload OVERLOADED with RetryInfo
 *   later    answers from on_post(), posted a hundred times by another thread
 *   timer    answers from on_timer(), 30 ms on
 *   never    does not answer
 *   huge     answers with 5 MiB
 *   header   answers with the value of the request header "x-request-id" as event_id
 *   token    likewise with "authorization"
 * StreamEvents echoes ids, shows refusals, and ends after "end"; on "pause" it reads on 30 ms
 * later. WatchOwnTime's filter.master_id: "count" writes max_batch messages of 1000 bytes and ends;
 * "flood" writes without end and evicts once a write is out for 200 ms; "quiet" writes nothing;
 * "refuse" refuses at once. */
extern const struct tw_wire_method test_methods[];

/* The server and one client; rpc_threads 2. The address is chosen by the system. */
struct pair {
    struct tw_wire_server *server;
    struct tw_wire_client *client;
    struct tw_arena arena;
    char address[64];
};
void pair_start(struct pair *pair, const struct tw_wire_options *options);
void pair_start_with(struct pair *pair, const struct tw_wire_options *options,
                     const struct tw_wire_method *methods);
void pair_stop(struct pair *pair);

int64_t in_ms(int64_t ms);

/* Waits until *counter is at least value; false after ten seconds. */
bool await_count(atomic_int *counter, int value);

/* SubmitEvent with this event_id (and a symbol, where not NULL). */
tw_status submit(struct pair *pair, const char *event_id, const char *symbol, int64_t deadline_ms,
                 Tradewake__V1__SubmitEventResponse **ret_response,
                 struct tw_wire_answer *ret_answer);

/* One call on the core's own API. */
struct raw_call {
    const char *path;
    const void *messages[2];
    size_t sizes[2];
    size_t n_messages;
    bool leaves_open; /* no half-close */
    bool cancels;     /* once the messages are out */
    bool compresses;  /* gzip, by the channel's own choice */
    const char *request_id;
};
struct raw_answer {
    int code;
    char message[1024];
    size_t n_messages;
    struct tw_refusal refusal;
    bool has_details;
    char request_id[64];
    char pushback_ms[24];
};
void raw_run(const char *address, const struct raw_call *call, struct raw_answer *ret);

#endif
