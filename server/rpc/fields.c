#include "fields.h"

#include <stddef.h>

const ProtobufCMessage *tw_field_message(const ProtobufCMessage *message, const char *name)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
    if (field == NULL || field->type != PROTOBUF_C_TYPE_MESSAGE || field->label == PROTOBUF_C_LABEL_REPEATED)
        return NULL;
    return *(const ProtobufCMessage *const *)((const char *)message + field->offset);
}

const char *tw_field_text(const ProtobufCMessage *message, const char *name)
{
    const ProtobufCFieldDescriptor *field =
        message != NULL ? protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name) : NULL;
    if (field == NULL || field->type != PROTOBUF_C_TYPE_STRING || field->label == PROTOBUF_C_LABEL_REPEATED)
        return "";
    const char *text = *(const char *const *)((const char *)message + field->offset);
    return text != NULL ? text : "";
}

const char *tw_field_text_anywhere(const ProtobufCMessage *message, const char *name)
{
    static const char *const inner[] = {"event", "filter", "follower", "subscription"};
    const char *text = tw_field_text(message, name);
    for (size_t i = 0; text[0] == '\0' && i < sizeof inner / sizeof inner[0]; i++)
        text = tw_field_text(tw_field_message(message, inner[i]), name);
    return text;
}
