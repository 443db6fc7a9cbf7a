/* core.h - the gRPC C core's idioms in our words. */
#ifndef WIRE_CORE_H
#define WIRE_CORE_H

#include <tradewake/base/arena.h>

#include <grpc/grpc.h>
#include <grpc/support/time.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The core counts its users; its log goes to tw_log(). Thread: any. */
void wire_core_init(void);
void wire_core_exit(void);

/* While quiet, what the core logs as an error on this thread is kept instead of written: the reason
 * of the failure ("Address already in use"), "" when it named none. Thread: any. */
void wire_core_quiet_begin(void);
const char *wire_core_quiet_end(void);

/* INT64_MAX and "never" are each other. */
gpr_timespec wire_timespec(int64_t mono_ns);
int64_t wire_mono_ns(gpr_timespec time);

/* The message as one slice; a byte buffer with it. Owns: the caller. */
grpc_byte_buffer *wire_buffer_pack(const ProtobufCMessage *message, size_t packed_size);

/* The buffer's bytes: its only slice as it lies there, or all of them copied into the arena.
 * False when the arena has no room. Valid as long as both. */
bool wire_buffer_bytes(const grpc_byte_buffer *buffer, struct tw_arena *arena,
                       const uint8_t **ret_bytes, size_t *ret_size);

bool wire_slice_is(grpc_slice slice, const char *text, size_t length);

#endif
