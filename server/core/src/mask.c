#include <tradewake/core/mask.h>

#include <tradewake/core/check.h>

#include <stdlib.h>
#include <string.h>

enum {
    FIELD_NAME_BYTES = 64,
    PATHS_MAX = 256, /* each is compared with every other */
};

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

static void swap_field(const ProtobufCFieldDescriptor *field, ProtobufCMessage *a,
                       ProtobufCMessage *b)
{
    bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    swap_bytes(at(a, field->offset), at(b, field->offset),
               repeated ? sizeof(void *) : element_bytes(field));
    if (repeated)
        swap_bytes(at(a, field->quantifier_offset), at(b, field->quantifier_offset),
                   sizeof(size_t));
}

/* The message in a field, made when it is absent. NULL: no memory. */
static ProtobufCMessage *submessage(const ProtobufCFieldDescriptor *field,
                                    ProtobufCMessage *message)
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

/* The field that a path's next part names, in messages of this type; NULL: none. *rest: behind it.
 */
static const ProtobufCFieldDescriptor *next_field(const ProtobufCMessageDescriptor *type,
                                                  const char **rest)
{
    char name[FIELD_NAME_BYTES];
    size_t length = strcspn(*rest, ".");
    if (length == 0 || length >= sizeof name)
        return NULL;
    memcpy(name, *rest, length);
    name[length] = '\0';
    *rest += length;
    return protobuf_c_message_descriptor_get_field_by_name(type, name);
}

static bool is_one_message(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_MESSAGE && field->label != PROTOBUF_C_LABEL_REPEATED;
}

static bool is_one_enum(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_ENUM && field->label != PROTOBUF_C_LABEL_REPEATED;
}

/* Whether a path may be named, and what it would take over. source: NULL inside a message that is
 * not there, whose fields are the defaults. */
static bool check_path(const struct tw_mask *mask, const char *path,
                       const ProtobufCMessageDescriptor *type, ProtobufCMessage *source,
                       struct tw_refusal *refusal)
{
    const struct tw_check in_mask = {"", refusal}, in_message = {mask->prefix, refusal};
    for (const char *rest = path;; rest++) {
        bool is_top = rest == path;
        const ProtobufCFieldDescriptor *field = next_field(type, &rest);
        if (field == NULL || (is_top && !is_settable(mask, field->name)))
            return tw_check_fail(&in_mask, "update_mask",
                                 "\"%.100s\" names nothing that can be set", path);
        if (*rest == '\0' && is_one_enum(field) &&
            (source == NULL || *(int *)at(source, field->offset) == 0))
            return tw_check_fail(&in_message, path, "is named in the mask but unspecified");
        if (*rest == '\0')
            return true;
        if (!is_one_message(field))
            return tw_check_fail(&in_mask, "update_mask",
                                 "\"%.100s\" reaches into a list or a plain value", path);
        source = source != NULL ? *(ProtobufCMessage **)at(source, field->offset) : NULL;
        type = field->descriptor;
    }
}

/* Takes over what a path names, which has been checked. False: no memory. */
static bool apply_path(const char *path, ProtobufCMessage *target, ProtobufCMessage *source)
{
    for (const char *rest = path;; rest++) {
        const ProtobufCFieldDescriptor *field = next_field(target->descriptor, &rest);
        if (*rest == '\0') {
            swap_field(field, target, source);
            return true;
        }
        target = submessage(field, target);
        source = submessage(field, source);
        if (target == NULL || source == NULL)
            return false;
    }
}

static bool is_star(const char *path)
{
    return strcmp(path, "*") == 0;
}

/* Whether another path takes this one over as well: fields are exchanged, and twice would be not at
 * all. */
static bool is_covered(const struct tw_mask *mask, size_t i)
{
    const char *path = mask->paths[i];
    for (size_t k = 0; k < mask->n_paths; k++) {
        const char *other = mask->paths[k];
        size_t length = strlen(other);
        if (k < i && strcmp(other, path) == 0)
            return true;
        if (is_star(other) && !is_star(path))
            return true;
        if (strncmp(path, other, length) == 0 && path[length] == '.')
            return true;
    }
    return false;
}

bool tw_mask_apply(const struct tw_mask *mask, ProtobufCMessage *target, ProtobufCMessage *source,
                   struct tw_refusal *refusal)
{
    if (mask->n_paths == 0)
        return tw_refuse(refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_MASK_REQUIRED,
                         "update_mask", "is empty: name the fields to change, or \"*\"");
    if (mask->n_paths > PATHS_MAX)
        return tw_refuse(refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_INVALID_FIELD,
                         "update_mask", "has %zu paths, at most %d", mask->n_paths, PATHS_MAX);
    for (size_t i = 0; i < mask->n_paths; i++)
        if (!is_star(mask->paths[i]) &&
            !check_path(mask, mask->paths[i], target->descriptor, source, refusal))
            return false;
    for (size_t i = 0; i < mask->n_paths; i++) {
        if (is_covered(mask, i))
            continue;
        if (!is_star(mask->paths[i])) {
            if (!apply_path(mask->paths[i], target, source))
                return tw_refuse(refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_INTERNAL, NULL,
                                 "no memory");
            continue;
        }
        for (const char *const *name = mask->settable; *name != NULL; name++)
            swap_field(protobuf_c_message_descriptor_get_field_by_name(target->descriptor, *name),
                       target, source);
    }
    return true;
}
