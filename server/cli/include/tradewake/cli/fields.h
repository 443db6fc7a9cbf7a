/* fields.h - messages by the names of their fields, from their descriptors.
 *
 * So that a flag is one row of a table ("--volume" sets "event.open.volume"), and a column of a
 * table one path ("times.called_ns"). */
#ifndef TW_CLI_FIELDS_H
#define TW_CLI_FIELDS_H

#include <tradewake/base/arena.h>
#include <tradewake/base/status.h>

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message with nothing set, in arena. NULL: no memory. */
ProtobufCMessage *tw_fields_new(const ProtobufCMessageDescriptor *type, struct tw_arena *arena);

/* Sets the field at path ("follower.risk.max_order_volume") from text; messages on the way are
 * made. Enums by name, with or without prefix, in any case; times in RFC 3339 or "now"; durations
 * as "10s"; a repeated field takes one more entry per call, or several separated by commas; a map
 * takes KEY=VALUE; a repeated message NAME=VALUE,NAME=VALUE. Owns: everything is in arena. Fails:
 * TW_INVALID with words that name the path, what was found and what was expected; TW_NO_MEMORY. */
TW_MUST_CHECK tw_status tw_fields_set(ProtobufCMessage *message, const char *path, const char *text,
                                      struct tw_arena *arena, struct tw_error *error);

enum tw_field_format {
    TW_FIELD_PLAIN,
    TW_FIELD_MS,   /* a number of nanoseconds as milliseconds: "0.123" */
    TW_FIELD_TIME, /* a Timestamp to the millisecond */
};

/* The field at path as text for people: enums without prefix, UNSPECIFIED and what is absent as
 * "-", entries of a repeated field separated by commas. Returns text. */
char *tw_fields_text(const ProtobufCMessage *message, const char *path, enum tw_field_format format,
                     char *text, size_t size);

/* The repeated messages of a list's answer: the first such field. */
bool tw_fields_list(const ProtobufCMessage *message, ProtobufCMessage ***ret_items, size_t *ret_n);

/* Calls back with every field that is set, "risk.max_order_volume" and its text. */
typedef void tw_fields_visit(void *context, const char *path, const char *text);
void tw_fields_each(const ProtobufCMessage *message, tw_fields_visit *visit, void *context);

/* ---- For the two writers ---- */

const void *tw_fields_member(const ProtobufCMessage *message,
                             const ProtobufCFieldDescriptor *field);

/* How many values the field has: 0 or 1 for a single one (an unset oneof or message: 0). */
size_t tw_fields_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Is this type the entry of a map? */
bool tw_fields_is_map(const ProtobufCFieldDescriptor *field);

/* "2026-11-30T09:48:36.123Z" of a Timestamp, "1.5s" of a Duration; false for other messages. */
bool tw_fields_well_known(const ProtobufCMessage *message, char *text, size_t size);

/* "COPY_STATE_DONE" or its number; without prefix: "DONE". Returns text. */
char *tw_fields_enum(const ProtobufCEnumDescriptor *type, int32_t value, bool is_short, char *text,
                     size_t size);

#endif
