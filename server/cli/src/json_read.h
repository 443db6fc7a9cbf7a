/* json_read.h - a JSON text into a message of the contract: fields by their names in the .proto,
 * enums by name, decimals and times as text, numbers of 64 bits as numbers or text. Nothing that is
 * not in the message is ignored.
 *
 * Thread: one at a time. */
#ifndef CLI_JSON_READ_H
#define CLI_JSON_READ_H

#include <tradewake/base/arena.h>
#include <tradewake/base/status.h>

#include <protobuf-c/protobuf-c.h>

/* Owns: everything is in arena. Fails: TW_INVALID with the line and column, what was found and what
 * was expected; TW_NO_MEMORY. The message may be set in part then. */
TW_MUST_CHECK tw_status json_read(const char *text, ProtobufCMessage *message,
                                  struct tw_arena *arena, struct tw_error *error);

#endif
