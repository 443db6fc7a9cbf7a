#include "message.h"

#include "text.h"

#include <tradewake/base/limits.h>
#include <tradewake/wire/message.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* An honest message of small fields unpacks to about 12 times its size, a hostile one to 60. */
enum { DECODE_FACTOR = 16, DECODE_BYTES_MIN = 64 * 1024 };

static_assert(TW_REQUEST_BYTES_MAX * DECODE_FACTOR <= 4u * 1024u * 1024u,
              "the largest request costs at most 4 MiB while it is served");

/* What protobuf-c allocates from. Every allocation has its size in front of it: a string whose
 * strlen() falls short of it holds a NUL, which protobuf-c does not tell. */
struct heap {
    struct tw_arena *arena;
    unsigned char *at, *end; /* the unused rest of the last chunk */
    size_t left_bytes;
    bool is_exhausted;
};

enum { SIZE_BYTES = sizeof(uint64_t), CHUNK_BYTES = 1024 };

static void *heap_alloc(void *data, size_t size)
{
    struct heap *heap = data;
    if (size > heap->left_bytes)
        goto exhausted; /* also keeps the sum below from wrapping */

    size_t needed = SIZE_BYTES + ((size + SIZE_BYTES - 1) & ~(size_t)(SIZE_BYTES - 1));
    if (needed > heap->left_bytes)
        goto exhausted;
    if (needed > (size_t)(heap->end - heap->at)) {
        size_t chunk = needed > CHUNK_BYTES ? needed : CHUNK_BYTES;
        unsigned char *taken = tw_arena_take(heap->arena, chunk);
        if (taken == NULL)
            goto exhausted;
        heap->at = taken;
        heap->end = taken + chunk;
    }

    unsigned char *block = heap->at;
    heap->at += needed;
    heap->left_bytes -= needed;
    memcpy(block, &(uint64_t){size}, SIZE_BYTES);
    return block + SIZE_BYTES;

exhausted:
    heap->is_exhausted = true;
    return NULL;
}

static void heap_free(void *data, void *block)
{
    (void)data;
    (void)block; /* the arena gives everything back at once */
}

static size_t heap_size(const char *block)
{
    uint64_t size;
    memcpy(&size, block - SIZE_BYTES, SIZE_BYTES);
    return size;
}

ProtobufCMessage *wire_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                              size_t size, struct tw_arena *arena, size_t size_max,
                              bool *ret_is_too_large)
{
    struct heap heap = {.arena = arena, .left_bytes = size_max};
    ProtobufCAllocator allocator = {
        .alloc = heap_alloc, .free = heap_free, .allocator_data = &heap};
    ProtobufCMessage *message = protobuf_c_message_unpack(type, &allocator, size, bytes);
    *ret_is_too_large = message == NULL && heap.is_exhausted;
    return message;
}

/* ---- The walk over every string. ---- */

/* Where the walk stands: one step per message it went into, the innermost first. */
struct step {
    const struct step *outer;
    const ProtobufCFieldDescriptor *field;
    const ProtobufCMessage *entry; /* of a map field: the entry; else NULL */
    size_t index;                  /* of a repeated field */
};

struct walk {
    struct tw_refusal *refusal; /* filled by the first fault only */
    bool has_fault;
};

struct path {
    char text[TW_REFUSAL_FIELD_BYTES];
    size_t used;
};

static void path_add(struct path *path, const char *format, ...) TW_PRINTF(2, 3);

static void path_add(struct path *path, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    int length = vsnprintf(path->text + path->used, sizeof path->text - path->used, format, values);
    va_end(values);
    path->used += (size_t)length;
    if (path->used >= sizeof path->text)
        path->used = sizeof path->text - 1;
}

/* A map is a repeated message of this form on the wire; protoc reserves the name's ending for it.
 */
static bool is_map_entry(const ProtobufCMessageDescriptor *type)
{
    size_t length = strlen(type->name);
    return type->n_fields == 2 && length > 5 && strcmp(type->name + length - 5, "Entry") == 0 &&
           strcmp(type->fields[0].name, "key") == 0 && strcmp(type->fields[1].name, "value") == 0;
}

/* The key of a map entry when it can be shown as ["KEY"], else NULL. */
static const char *shown_key(const ProtobufCMessage *entry)
{
    const ProtobufCFieldDescriptor *field = &entry->descriptor->fields[0];
    if (field->type != PROTOBUF_C_TYPE_STRING)
        return NULL;
    const char *const *member = (const void *)((const char *)entry + field->offset);
    const char *key = *member;
    if (key == NULL || strlen(key) > 64 || strpbrk(key, "\"\\") != NULL)
        return NULL;
    return tw_text_is_valid(key, strlen(key)) ? key : NULL;
}

static void path_build(struct path *path, const struct step *step)
{
    if (step == NULL)
        return;
    path_build(path, step->outer);

    const struct step *outer = step->outer;
    if (outer != NULL && outer->entry != NULL && step->field->id == 2 &&
        shown_key(outer->entry) != NULL)
        return; /* ["KEY"] stands for the value */
    path_add(path, "%s%s", outer == NULL ? "" : ".", step->field->name);
    if (step->field->label != PROTOBUF_C_LABEL_REPEATED)
        return;
    const char *key = step->entry == NULL ? NULL : shown_key(step->entry);
    if (key != NULL)
        path_add(path, "[\"%s\"]", key);
    else
        path_add(path, "[%zu]", step->index);
}

static void fault_found(struct walk *walk, const struct step *step, const char *string, size_t at,
                        enum text_fault fault)
{
    if (walk->has_fault)
        return;
    walk->has_fault = true;

    struct path path = {.used = 0};
    path_build(&path, step);
    unsigned byte = (unsigned char)string[at];
    if (fault == TEXT_CONTROL)
        tw_refuse(walk->refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_INVALID_FIELD, path.text,
                  "a control character (byte 0x%02x at offset %zu); expected UTF-8 text without",
                  byte, at);
    else
        tw_refuse(walk->refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_INVALID_FIELD, path.text,
                  "byte 0x%02x at offset %zu is not UTF-8; expected UTF-8 text", byte, at);
}

static void string_walk(struct walk *walk, const struct step *step, char *string)
{
    if (string == NULL || string == step->field->default_value)
        return; /* absent: not one of our allocations */

    size_t size = heap_size(string) - 1;
    enum text_fault fault;
    size_t at = wire_text_check(string, size, &fault);
    if (at == size)
        return;
    fault_found(walk, step, string, at, fault);
    string[0] = '\0';
}

static void message_walk(struct walk *walk, const struct step *outer, ProtobufCMessage *message);

static void value_walk(struct walk *walk, struct step *step, void *member)
{
    if (step->field->type == PROTOBUF_C_TYPE_STRING) {
        char **string = member;
        string_walk(walk, step, *string);
        return;
    }

    ProtobufCMessage **message = member;
    if (*message == NULL)
        return;
    if (step->field->label == PROTOBUF_C_LABEL_REPEATED && is_map_entry((*message)->descriptor))
        step->entry = *message;
    message_walk(walk, step, *message);
}

static void field_walk(struct walk *walk, const struct step *outer, ProtobufCMessage *message,
                       const ProtobufCFieldDescriptor *field)
{
    char *base = (char *)message;
    void *member = base + field->offset;
    void *quantifier = base + field->quantifier_offset;
    struct step step = {.outer = outer, .field = field};

    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t count = *(size_t *)quantifier;
        void **values = *(void ***)member; /* strings and messages alike are pointers */
        for (size_t i = 0; i < count; i++) {
            step.index = i;
            step.entry = NULL;
            value_walk(walk, &step, &values[i]);
        }
    } else if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0 ||
               *(uint32_t *)quantifier == field->id) {
        value_walk(walk, &step, member);
    }
}

/* As deep as the type, which is not recursive (wire_type_depth_is_bounded() at start). */
static void message_walk(struct walk *walk, const struct step *outer, ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE)
            field_walk(walk, outer, message, field);
    }
    message->n_unknown_fields = 0;
    message->unknown_fields = NULL;
}

size_t tw_message_decode_bytes_max(size_t size)
{
    size_t wanted = size > SIZE_MAX / DECODE_FACTOR ? SIZE_MAX : size * DECODE_FACTOR;
    return wanted < DECODE_BYTES_MIN ? DECODE_BYTES_MIN : wanted;
}

bool tw_message_decode(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t size,
                       struct tw_arena *arena, ProtobufCMessage **ret_message,
                       struct tw_refusal *ret_refusal)
{
    bool is_too_large;
    size_t size_max = tw_message_decode_bytes_max(size);
    ProtobufCMessage *message = wire_unpack(type, bytes, size, arena, size_max, &is_too_large);
    *ret_message = message;
    if (is_too_large)
        return tw_refuse(ret_refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_TOO_LARGE, NULL,
                         "the message of %zu bytes decodes to more than %zu bytes of memory", size,
                         size_max);
    if (message == NULL)
        return tw_refuse(ret_refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_UNDECODABLE, NULL,
                         "the %zu bytes are not a message of type %s", size, type->name);

    struct walk walk = {.refusal = ret_refusal};
    message_walk(&walk, NULL, message);
    return !walk.has_fault;
}
