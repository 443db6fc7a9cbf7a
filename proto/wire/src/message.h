/* message.h - the half of decoding that trusts the other side's text. */
#ifndef WIRE_MESSAGE_H
#define WIRE_MESSAGE_H

#include <tradewake/base/arena.h>

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Unpacks into the arena, using at most size_max bytes of it. NULL when the bytes are no message of
 * this type, or, with *ret_is_too_large, when size_max or the arena's own cap is used up. */
ProtobufCMessage *wire_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                              size_t size, struct tw_arena *arena, size_t size_max,
                              bool *ret_is_too_large);

#endif
