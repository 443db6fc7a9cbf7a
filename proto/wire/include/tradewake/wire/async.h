/* async.h - protobuf-c messages over the gRPC C core, the calling side, without waiting.
 *
 *     any thread --call, watch--> channel --> [ queue ] --done, message, end, tick--> the line's thread
 *
 * A line is one completion queue and the one thread that empties it; channels to any number of servers
 * share it. Every answer comes on that thread, so what only the answers touch needs no lock.
 *
 * A call is made once. The core repeats nothing of its own accord, except what HTTP/2 proves to have never
 * been read by the other side. A call does not wait for a connection: without one it fails at once. */
#ifndef TW_WIRE_ASYNC_H
#define TW_WIRE_ASYNC_H

#include <tradewake/wire/client.h>

struct tw_wire_line;
struct tw_wire_channel;
struct tw_wire_pending; /* a call that is out, or a stream */

struct tw_wire_line_options {
    const char *name; /* of the thread, at most 15 characters */
    /* Called so often, about. Thread: the line's. */
    void (*on_tick)(void *context);
    int64_t tick_ns;
    void *context;
};

TW_MUST_CHECK tw_status tw_wire_line_start(const struct tw_wire_line_options *options,
                                           struct tw_wire_line **ret_line, struct tw_error *error);

/* Cancels what is out, waits until all of it has come back, joins, frees. NULL is allowed. What is begun meanwhile
 * is refused. Thread: main. */
void tw_wire_line_stop(struct tw_wire_line *line);

/* Whether the calling thread is the line's. */
bool tw_wire_line_is_current(const struct tw_wire_line *line);

/* Fails: as tw_wire_client_open(). Owns: the caller, close() after its last call has come back. */
TW_MUST_CHECK tw_status tw_wire_channel_open(struct tw_wire_line *line, const struct tw_wire_client_options *options,
                                             struct tw_wire_channel **ret_channel, struct tw_error *error);
void tw_wire_channel_close(struct tw_wire_channel *channel); /* NULL is allowed */

/* Is there a connection at this moment? When not, one is begun, if none is. Thread: any. */
bool tw_wire_channel_is_ready(struct tw_wire_channel *channel);

/* response: only with code 0 (OK); gone when the function returns. Text in it that is no text is empty.
 * An answer that is no message has code 13 (INTERNAL). Thread: the line's. */
typedef void tw_wire_done_fn(void *context, const struct tw_wire_answer *answer, const ProtobufCMessage *response);

/* One unary call; done() comes exactly once when TW_OK was returned, and not otherwise. request: packed before the
 * return. ret_pending: NULL = not wanted; valid until done() has returned.
 * Thread: any.  Blocks: no.  Fails: TW_INVALID (the path), TW_STOPPED, TW_NO_MEMORY: nothing was sent. */
TW_MUST_CHECK tw_status tw_wire_call_begin(struct tw_wire_channel *channel, const char *path,
                                           const ProtobufCMessage *request, int64_t deadline_mono_ns,
                                           tw_wire_done_fn *done, void *context,
                                           struct tw_wire_pending **ret_pending, struct tw_error *error);

/* The same, with the metadata `traceparent`; NULL or "" = without. It is copied. */
TW_MUST_CHECK tw_status tw_wire_call_begin_traced(struct tw_wire_channel *channel, const char *path,
                                                  const ProtobufCMessage *request, int64_t deadline_mono_ns,
                                                  const char *traceparent, tw_wire_done_fn *done, void *context,
                                                  struct tw_wire_pending **ret_pending, struct tw_error *error);

struct tw_wire_watch {
    /* One message. False: the next one is not read before tw_wire_watch_read_on(). Thread: the line's. */
    bool (*on_message)(void *context, const ProtobufCMessage *message);
    /* Exactly once, the last that is heard of it. Thread: the line's. */
    void (*on_end)(void *context, const struct tw_wire_answer *answer);
};

/* A server stream. ret_pending: valid until on_end() has returned. As tw_wire_call_begin() otherwise. */
TW_MUST_CHECK tw_status tw_wire_watch_begin(struct tw_wire_channel *channel, const char *path,
                                            const ProtobufCMessage *request, const struct tw_wire_watch *watch,
                                            void *context, struct tw_wire_pending **ret_pending,
                                            struct tw_error *error);

/* After on_message() returned false. Thread: the line's. */
void tw_wire_watch_read_on(struct tw_wire_pending *pending);

/* It ends soon, with code 1 (CANCELLED) unless it had ended already. Thread: any, while pending is valid. */
void tw_wire_pending_cancel(struct tw_wire_pending *pending);

#endif
