/* message.h - bytes from outside become a message, or a refusal that says where they are wrong.
 *
 * protobuf-c trusts its input more than a server may: it checks no UTF-8, cuts strings at an
 * embedded NUL and can be made to use sixty times the memory of a message. So decoding is done
 * here, once for everybody: into an arena, with a cap, and with a look at every string.
 *
 * Text is UTF-8 without control characters (U+0000 to U+001F, U+007F to U+009F). Fields that the
 * type does not know are dropped. */
#ifndef TW_WIRE_MESSAGE_H
#define TW_WIRE_MESSAGE_H

#include <tradewake/base/arena.h>
#include <tradewake/wire/refusal.h>

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What decoding a message of so many bytes may take from its arena. */
size_t tw_message_decode_bytes_max(size_t size);

/* Decodes and checks size bytes. True: *ret_message is complete and every string in it is text.
 * False: *ret_refusal says why, with the field's path in proto names ("event.open.symbol",
 * "follower.adapter_config[\"latency\"]", "rules.symbols[2]"), and *ret_message is NULL (it could
 * not be decoded: UNDECODABLE, TOO_LARGE) or the message with every string that is no text emptied
 * (INVALID_FIELD), so that the rest of it may be shown to people.
 *
 * Thread: one at a time per arena.  Owns: everything lies in the arena; bytes are not kept. */
TW_MUST_CHECK bool tw_message_decode(const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                                     size_t size, struct tw_arena *arena,
                                     ProtobufCMessage **ret_message,
                                     struct tw_refusal *ret_refusal);

/* True when size bytes are text as above. */
TW_MUST_CHECK bool tw_text_is_valid(const char *bytes, size_t size);

#endif
