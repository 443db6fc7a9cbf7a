/* client.h - protobuf-c messages over the gRPC C core, the calling side; synchronous.
 *
 * For the command line, tests and tools: one thread waits for its own answer. */
#ifndef TW_WIRE_CLIENT_H
#define TW_WIRE_CLIENT_H

#include <tradewake/base/arena.h>
#include <tradewake/base/status.h>
#include <tradewake/wire/refusal.h>
#include <tradewake/wire/tls.h>

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

struct tw_wire_client;
struct tw_wire_stream;

/* What a call ended with. code 0 = OK; refusal.reason is set when the server sent our ErrorInfo. */
struct tw_wire_answer {
    int32_t code;
    char message[1024];
    struct tw_refusal refusal;
};

struct tw_wire_client_options {
    const char *address;                  /* "127.0.0.1:50051", "unix:/path" */
    const struct tw_wire_client_tls *tls; /* NULL = plain text */
    const char *token;                    /* sent as "authorization: Bearer" with each call; NULL = none */
};

/* The connection is made by the first call. options: copied; files are read now.
 * Thread: any.  Owns: the caller, close() after its last stream.
 * Fails: TW_INVALID (address, or what a file of tls holds), TW_IO, TW_NO_MEMORY. */
TW_MUST_CHECK tw_status tw_wire_client_open(const struct tw_wire_client_options *options,
                                            struct tw_wire_client **ret_client, struct tw_error *error);

/* The same in plain text. */
TW_MUST_CHECK tw_status tw_wire_client_open_plain(const char *address, struct tw_wire_client **ret_client,
                                                  struct tw_error *error);
void tw_wire_client_close(struct tw_wire_client *client);

/* One unary call. path as in server.h; the response type comes from the built-in descriptors.
 * *ret_response: in arena, set on TW_OK only. ret_answer: NULL = not wanted.
 * Thread: any, several at once.  Blocks: until the answer or deadline_mono_ns.
 * Fails: TW_UNREACHABLE (UNAVAILABLE without an ErrorInfo), TW_TIMEOUT (DEADLINE_EXCEEDED),
 *        TW_REFUSED (any other status; see *ret_answer), TW_INVALID (path). error holds words. */
TW_MUST_CHECK tw_status tw_wire_client_call(struct tw_wire_client *client, const char *path,
                                            const ProtobufCMessage *request,
                                            int64_t deadline_mono_ns, struct tw_arena *arena,
                                            ProtobufCMessage **ret_response,
                                            struct tw_wire_answer *ret_answer,
                                            struct tw_error *error);

/* Opens a server-streaming or bidi call. request: for a server stream, sent at once and
 * half-closed; NULL for bidi. deadline_mono_ns: INT64_MAX = none. */
TW_MUST_CHECK tw_status tw_wire_stream_open(struct tw_wire_client *client, const char *path,
                                            const ProtobufCMessage *request,
                                            int64_t deadline_mono_ns,
                                            struct tw_wire_stream **ret_stream,
                                            struct tw_error *error);

/* Bidi: sends one message; waits for flow control. One thread may write while another reads. */
TW_MUST_CHECK tw_status tw_wire_stream_write(struct tw_wire_stream *stream,
                                             const ProtobufCMessage *message,
                                             struct tw_error *error);
void tw_wire_stream_half_close(struct tw_wire_stream *stream);

/* The next message, in arena. Blocks until one is there or until_mono_ns.
 * Fails: TW_TIMEOUT (none yet: call again), TW_ENDED (OK status), else as tw_wire_client_call(). */
TW_MUST_CHECK tw_status tw_wire_stream_read(struct tw_wire_stream *stream, int64_t until_mono_ns,
                                            struct tw_arena *arena, ProtobufCMessage **ret_message,
                                            struct tw_wire_answer *ret_answer,
                                            struct tw_error *error);

/* Cancels if it is not over, and frees. NULL is allowed. */
void tw_wire_stream_close(struct tw_wire_stream *stream);

#endif
