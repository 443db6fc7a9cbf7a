/* server.h - protobuf-c messages over the gRPC C core, the serving side.
 *
 * A service is a table of methods. Which of them stream is read from the descriptors that are built
 * into the program, and must agree with the table. Everything else is ours: the core's own machinery
 * (callbacks, auth processor, compression) stays off, for the reasons in proto/wire/README.md.
 *
 * Threads. `rpc` threads, one completion queue each, own the calls they accepted; one `stream`
 * thread owns the calls of methods marked `watches`. Every function below with "Thread: call" is
 * called only on the thread that owns the call: from its callbacks. Another thread that has news for
 * a call says so with tw_call_post() and the call's on_post() runs on its own thread.
 *
 * Life of a call:   on_request (unary: once; bidi: once per message)  -> on_half_close (bidi)
 *                   on_post, on_timer, on_writable whenever           -> on_finished, once, last
 * After on_finished the call is freed as soon as its last reference is dropped. */
#ifndef TW_WIRE_SERVER_H
#define TW_WIRE_SERVER_H

#include <tradewake/base/arena.h>
#include <tradewake/base/status.h>
#include <tradewake/wire/refusal.h>
#include <tradewake/wire/tls.h>

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tw_call;
struct tw_wire_server;

struct tw_wire_method {
    const char *path;           /* "/tradewake.v1.EventService/SubmitEvent" */
    uint32_t request_bytes_max; /* 0 = TW_REQUEST_BYTES_MAX */
    bool watches;               /* long-lived: owned by the stream thread */
    bool takes_invalid;         /* bidi: on_request also gets messages that broke a rule of the wire */

    /* A message arrived, decoded into the call's arena. For a unary method the arena lives as long
     * as the call; for a bidi one it is reset after on_request returns (copy what you keep).
     * invalid: NULL, or (only with takes_invalid) what was wrong, with request NULL when it could
     * not be decoded at all. Without takes_invalid such a call is refused before this is called.
     * Bidi: the next message is read when this has returned, unless tw_call_reading_pause(). */
    void (*on_request)(struct tw_call *call, const ProtobufCMessage *request,
                       const struct tw_refusal *invalid);
    void (*on_half_close)(struct tw_call *call); /* bidi; NULL = the call is ended with OK */
    void (*on_writable)(struct tw_call *call);   /* streams: the write that was out has completed */
    void (*on_post)(struct tw_call *call);       /* after tw_call_post(); several posts may be one */
    void (*on_timer)(struct tw_call *call);      /* after tw_call_timer_set() */
    /* NULL = nothing to clean up. Called when on_request() or on_half_close() was. */
    void (*on_finished)(struct tw_call *call, bool cancelled);
};

struct tw_wire_options {
    const char *listen;      /* "127.0.0.1:50051", "unix:/run/x.sock"; port 0 = any */
    uint32_t rpc_threads;    /* 0 = one per usable core, at most 4 */
    uint32_t streams_per_peer_max; /* 0 = TW_STREAMS_PER_PEER_MAX */
    const struct tw_wire_server_tls *tls; /* NULL = plain text; copied */
    /* Asked before a call is given to its method, on the headers alone. False, with *ret filled in,
     * refuses it. NULL = everybody may. Thread: call. */
    bool (*authorize)(void *context, struct tw_call *call, struct tw_refusal *ret);
    /* Asked with each message that was decoded, before its method gets it; likewise. */
    bool (*admit)(void *context, struct tw_call *call, const ProtobufCMessage *request,
                  struct tw_refusal *ret);
    /* Asked again of a stream that watches, with the request that began it: a caller's token ends, or his right. False ends
     * the stream with *ret. NULL = who may once, may on. Thread: call. */
    bool (*still)(void *context, struct tw_call *call, const ProtobufCMessage *request, struct tw_refusal *ret);
    void *context;
};

/* Binds, starts the threads and serves. methods: kept by reference, terminated by .path == NULL.
 * Thread: main.
 * Fails: TW_INVALID (address, a method that no descriptor knows, or a method of a named service that
 *        is missing in the table; what a file of tls holds), TW_IO (such a file cannot be read), TW_IO (the port is taken or may not be bound: error names it). */
TW_MUST_CHECK tw_status tw_wire_server_start(const struct tw_wire_options *options,
                                             const struct tw_wire_method *methods,
                                             struct tw_wire_server **ret_server,
                                             struct tw_error *error);

/* The port in use (of "host:0"). */
int tw_wire_server_port(const struct tw_wire_server *server);

/* Reads the files of tls again; what begins from now on is shown the new certificate. On failure the one
 * before stays. Without tls: TW_OK. Thread: any.  Fails: as the start. */
TW_MUST_CHECK tw_status tw_wire_server_tls_reload(struct tw_wire_server *server, struct tw_error *error);

/* Soon after, still() is asked of every stream that watches. Thread: any.  Blocks: no. */
void tw_wire_server_look_again(struct tw_wire_server *server);

/* Refuses new calls from now on with SHUTTING_DOWN (the connections stay); only grpc.health.v1 goes
 * on, which tells of the drain. Thread: any. */
void tw_wire_server_drain(struct tw_wire_server *server);

/* Ends every watching stream with UNAVAILABLE SHUTTING_DOWN. A bidi stream is half-closed in its
 * client's name: nothing more is read, on_half_close() is called, and the tw_call_end() that follows
 * once everything is answered sends SHUTTING_DOWN. Thread: any. */
void tw_wire_server_end_streams(struct tw_wire_server *server);

/* GOAWAY, waits up to grace_ms for the calls in progress, cancels the rest, joins, frees.
 * Thread: main.  Blocks: at most grace_ms and a moment. NULL is allowed. */
void tw_wire_server_stop(struct tw_wire_server *server, uint32_t grace_ms);

/* ---- One call. Thread: call, unless it says otherwise. ---- */

/* When the first completion that told of the call was seen, before anything was decoded; of a bidi
 * call: when the message in on_request was. */
int64_t tw_call_received_mono_ns(const struct tw_call *call);
int64_t tw_call_received_wall_ns(const struct tw_call *call);
int64_t tw_call_deadline_mono_ns(const struct tw_call *call); /* INT64_MAX = none */
const char *tw_call_path(const struct tw_call *call);
const char *tw_call_peer(const struct tw_call *call);          /* "ipv4:127.0.0.1:40122" */

bool tw_call_streams_requests(const struct tw_call *call); /* bidi: messages come one after the other */

/* The first value of a request header, or NULL; valid as long as the call. */
const char *tw_call_metadata(const struct tw_call *call, const char *key);

/* The names that the client's verified certificate gives it, "dns:NAME" or "uri:NAME", as long as the
 * call. *ret_n 0: it showed none, or there is no TLS. */
enum { TW_CERTIFICATE_NAMES_MAX = 16 };
const char *const *tw_call_certificate_names(struct tw_call *call, size_t *ret_n);

/* SHA-256 of that certificate (DER), as RFC 8705's x5t#S256 has it; false: none. */
bool tw_call_certificate_sha256(const struct tw_call *call, uint8_t ret[32]);

/* Unary: for request and answer, freed with the call. */
struct tw_arena *tw_call_arena(struct tw_call *call);

/* Who calls, as authorize() found out; of the caller's own kind. */
void tw_call_caller_set(struct tw_call *call, const void *caller);
const void *tw_call_caller(const struct tw_call *call);

/* The handler's own. */
void tw_call_data_set(struct tw_call *call, void *data);
void *tw_call_data(const struct tw_call *call);

/* Answers a unary call; nothing may follow. response is only read. An answer above
 * TW_ANSWER_BYTES_MAX becomes TOO_LARGE. */
void tw_call_answer(struct tw_call *call, const ProtobufCMessage *response);

/* Refuses a unary call, or ends a stream, with the refusal's status and details. Nothing may follow. */
void tw_call_refuse(struct tw_call *call, const struct tw_refusal *refusal);

/* Streams: sends one message. False, with nothing sent, while a write is out (wait for on_writable)
 * or after the end. more: another message is ready behind this one, so that the core may wait. */
bool tw_call_write(struct tw_call *call, const ProtobufCMessage *message, bool more);
bool tw_call_is_writable(const struct tw_call *call);

/* Streams: ends with OK after what has been written. */
void tw_call_end(struct tw_call *call);

/* Streams: when the write that is out began; 0 = none is. For readers that are hopeless. */
int64_t tw_call_write_started_mono_ns(const struct tw_call *call);

/* Streams: ends at once with this refusal, past what the reader has not taken. Thread: call. */
void tw_call_evict(struct tw_call *call, const struct tw_refusal *refusal);

/* Bidi: no further message is read until resume. Call pause inside on_request. */
void tw_call_reading_pause(struct tw_call *call);
void tw_call_reading_resume(struct tw_call *call);

/* on_timer is called once when the time has come; setting it again moves it; INT64_MAX stops it. */
void tw_call_timer_set(struct tw_call *call, int64_t due_mono_ns);

/* on_post() will run on the call's thread, unless the call has finished. Posts that come before it
 * runs are merged. Thread: any that holds a reference.  Blocks: no. */
void tw_call_post(struct tw_call *call);

/* References keep the struct, not the connection. Thread: any. */
struct tw_call *tw_call_ref(struct tw_call *call);
void tw_call_unref(struct tw_call *call);

#endif
