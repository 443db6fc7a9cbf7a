/* calling.h - what both calling sides share (client.h waits, async.h does not): a channel, and what a call
 * ends with. */
#ifndef WIRE_CALLING_H
#define WIRE_CALLING_H

#include <tradewake/wire/client.h>

#include <grpc/grpc.h>

/* What a call ends with, as the core fills it in. */
struct wire_ending {
    grpc_metadata_array headers, trailers; /* elements belong to the core's call */
    grpc_status_code code;
    grpc_slice message;
};

enum { WIRE_ARGS_MORE_MAX = 6 };
grpc_arg wire_arg_integer(const char *key, int value);

/* more: added to what every channel of ours has. Owns: the caller. Fails: as tw_wire_client_open(). */
TW_MUST_CHECK tw_status wire_channel_new(const struct tw_wire_client_options *options, const grpc_arg *more,
                                         size_t n_more, grpc_channel **ret, struct tw_error *error);

void wire_ending_init(struct wire_ending *ending);
void wire_ending_clear(struct wire_ending *ending);
grpc_op wire_status_op(struct wire_ending *ending);
grpc_op wire_headers_op(struct wire_ending *ending);

/* The status, its words, and what our details say of it. */
void wire_answer_read(const struct wire_ending *ending, struct tw_wire_answer *ret);

#endif
