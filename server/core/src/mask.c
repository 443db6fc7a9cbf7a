#include <tradewake/core/mask.h>

#include <tradewake/core/check.h>

#include <stdlib.h>
#include <string.h>

static size_t element_bytes(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

static void swap_bytes(void *a, void *b, size_t size)
{
    unsigned char saved[32];
    memcpy(saved, a, size);
    memcpy(a, b, size);
    memcpy(b, saved, size);
}

static void *at(ProtobufCMessage *message, unsigned offset)
{
    return (unsigned char *)message + offset;
}

static void swap_field(const ProtobufCFieldDescriptor *field, ProtobufCMessage *a, ProtobufCMessage *b)
{
    bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    swap_bytes(at(a, field->offset), at(b, field->offset),
               repeated ? sizeof(void *) : element_bytes(field));
    if (repeated)
        swap_bytes(at(a, field->quantifier_offset), at(b, field->quantifier_offset), sizeof(size_t));
}

/* The message in a field, made when it is absent. NULL: no memory. */
static ProtobufCMessage *submessage(const ProtobufCFieldDescriptor *field, ProtobufCMessage *message)
{
    ProtobufCMessage **inner = at(message, field->offset);
    const ProtobufCMessageDescriptor *descriptor = field->descriptor;
    if (*inner == NULL) {
        *inner = calloc(1, descriptor->sizeof_message);
        if (*inner != NULL)
            protobuf_c_message_init(descriptor, *inner);
    }
    return *inner;
}

static bool is_settable(const struct tw_mask *mask, const char *name)
{
    for (const char *const *settable = mask->settable; *settable != NULL; settable++)
        if (strcmp(*settable, name) == 0)
            return true;
    return false;
}

static bool apply_path(const struct tw_mask *mask, const char *path, ProtobufCMessage *target,
                       ProtobufCMessage *source, struct tw_refusal *refusal)
{
    const struct tw_check in_mask = {"", refusal}, in_message = {mask->prefix, refusal};
    const char *rest = path;
    for (bool is_top = true;; is_top = false) {
        size_t length = strcspn(rest, ".");
        char name[64];
        if (length == 0 || length >= sizeof name)
            return tw_check_fail(&in_mask, "update_mask", "\"%.100s\" is not a path", path);
        memcpy(name, rest, length);
        name[length] = '\0';
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field_by_name(target->descriptor, name);
        if (field == NULL || (is_top && !is_settable(mask, name)))
            return tw_check_fail(&in_mask, "update_mask", "\"%.100s\" names nothing that can be set",
                                 path);
        if (rest[length] == '\0') {
            if (field->type == PROTOBUF_C_TYPE_ENUM && field->label != PROTOBUF_C_LABEL_REPEATED &&
                *(int *)at(source, field->offset) == 0)
                return tw_check_fail(&in_message, path, "is named in the mask but unspecified");
            swap_field(field, target, source);
            return true;
        }
        if (field->type != PROTOBUF_C_TYPE_MESSAGE || field->label == PROTOBUF_C_LABEL_REPEATED)
            return tw_check_fail(&in_mask, "update_mask",
                                 "\"%.100s\" reaches into a list or a plain value", path);
        target = submessage(field, target);
        source = submessage(field, source);
        if (target == NULL || source == NULL)
            return tw_refuse(refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_INTERNAL, NULL,
                             "no memory");
        rest += length + 1;
    }
}

bool tw_mask_apply(const struct tw_mask *mask, ProtobufCMessage *target, ProtobufCMessage *source,
                   struct tw_refusal *refusal)
{
    if (mask->n_paths == 0)
        return tw_refuse(refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_MASK_REQUIRED, "update_mask",
                         "is empty: name the fields to change, or \"*\"");
    for (size_t i = 0; i < mask->n_paths; i++) {
        if (strcmp(mask->paths[i], "*") != 0) {
            if (!apply_path(mask, mask->paths[i], target, source, refusal))
                return false;
            continue;
        }
        for (const char *const *name = mask->settable; *name != NULL; name++)
            swap_field(protobuf_c_message_descriptor_get_field_by_name(target->descriptor, *name),
                       target, source);
    }
    return true;
}
