/* json.h - JSON for programs that read what the commands print.
 *
 * Messages are written from their descriptors, so that a field added to the contract is in the
 * output without a line here. Names as in the .proto, every field also when it is empty (absent
 * messages and unset members of a oneof apart), enums by name, decimals as the strings they are,
 * 64-bit numbers as numbers (the contract keeps them below 2^53, `magic` apart), times as RFC 3339,
 * durations as "1.5s". */
#ifndef TW_CLI_JSON_H
#define TW_CLI_JSON_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct tw_json {
    FILE *out;
    bool is_pretty; /* two spaces per level; false: one line */
    /* The writer's own. */
    uint32_t depth;
    bool has_items; /* in the object or array that is open */
    bool has_key;
};

/* {.out = file} is ready to use. A value at depth 0 ends its line. Thread: one at a time. */
void tw_json_object(struct tw_json *json);
void tw_json_array(struct tw_json *json);
void tw_json_end(struct tw_json *json, bool is_array);
void tw_json_key(struct tw_json *json, const char *key);

/* Bytes that are no UTF-8 become U+FFFD. */
void tw_json_text(struct tw_json *json, const char *text);
void tw_json_number(struct tw_json *json, int64_t value);
void tw_json_bool(struct tw_json *json, bool value);
void tw_json_message(struct tw_json *json, const ProtobufCMessage *message);

#endif
