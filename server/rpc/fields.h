/* fields.h - what a request is about, by the names of its fields. */
#ifndef TW_RPC_FIELDS_H
#define TW_RPC_FIELDS_H

#include <protobuf-c/protobuf-c.h>

/* The text field of the message; "" = there is none, or it is empty. NULL is allowed. */
const char *tw_field_text(const ProtobufCMessage *message, const char *name);

/* The message in the message; NULL = there is none. */
const ProtobufCMessage *tw_field_message(const ProtobufCMessage *message, const char *name);

/* In the message, or in one that it holds. */
const char *tw_field_text_anywhere(const ProtobufCMessage *message, const char *name);

#endif
