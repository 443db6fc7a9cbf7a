#include "json_read.h"

#include <tradewake/cli/fields.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 16, VALUE_BYTES = 1024 };

struct reader {
    const char *text, *at;
    struct tw_arena *arena;
    struct tw_error *error;
    int depth;
};

/* Where the reader stands, and what it expected there. */
static tw_status expected(struct reader *r, const char *what)
{
    int line = 1, column = 1;
    for (const char *at = r->text; at < r->at; at++) {
        column = *at == '\n' ? 1 : column + 1;
        line += *at == '\n';
    }
    if (*r->at == '\0')
        return tw_error_set(r->error, TW_INVALID, "%d:%d: the text ends, expected %s", line, column,
                            what);
    return tw_error_set(r->error, TW_INVALID, "%d:%d: found \"%.16s\", expected %s", line, column,
                        r->at, what);
}

static char peek(struct reader *r)
{
    r->at += strspn(r->at, " \t\r\n");
    return *r->at;
}

static bool take(struct reader *r, char c)
{
    if (peek(r) != c)
        return false;
    r->at++;
    return true;
}

/* The four digits of \uXXXX; -1: they are none. */
static int hex4(const char *at)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef", *found;
        char c = at[i];
        c = c >= 'A' && c <= 'F' ? (char)(c - 'A' + 'a') : c;
        found = c != '\0' ? strchr(digits, c) : NULL;
        if (found == NULL)
            return -1;
        value = value * 16 + (int)(found - digits);
    }
    return value;
}

static size_t put_utf8(char *to, int code)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (char)(0xc0 | code >> 6);
        to[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    to[0] = (char)(0xe0 | code >> 12);
    to[1] = (char)(0x80 | (code >> 6 & 0x3f));
    to[2] = (char)(0x80 | (code & 0x3f));
    return 3;
}

/* What stands behind a backslash; the cursor is on it. False: nothing that JSON knows. */
static bool read_escape(struct reader *r, char *to, size_t *used)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    const char *simple = *r->at != '\0' ? strchr(from, *r->at) : NULL;
    if (simple != NULL) {
        to[(*used)++] = into[simple - from];
        r->at++;
        return true;
    }
    int code = *r->at == 'u' ? hex4(r->at + 1) : -1;
    if (code <= 0 || (code >= 0xd800 && code < 0xe000)) /* half a pair: symbols and ids have none */
        return false;
    *used += put_utf8(to + *used, code);
    r->at += 5;
    return true;
}

static tw_status read_text(struct reader *r, char *to)
{
    size_t used = 0;
    if (!take(r, '"'))
        return expected(r, "a text in quotes");
    while (*r->at != '"') {
        if ((unsigned char)*r->at < ' ' || used + 4 > VALUE_BYTES)
            return expected(r, "the end of a text, of at most 1000 bytes on one line");
        if (*r->at != '\\') {
            to[used++] = *r->at++;
            continue;
        }
        r->at++;
        if (!read_escape(r, to, &used))
            return expected(r, "an escape such as \\n or \\u00e9");
    }
    r->at++;
    to[used] = '\0';
    return TW_OK;
}

/* Text, a number as it stands, true or false. */
static tw_status read_scalar(struct reader *r, char *to)
{
    if (peek(r) == '"')
        return read_text(r, to);
    size_t length = strspn(r->at, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");
    if (length == 0 || length >= VALUE_BYTES)
        return expected(r, "a value");
    memcpy(to, r->at, length);
    to[length] = '\0';
    r->at += length;
    return TW_OK;
}

static tw_status read_object(struct reader *r, ProtobufCMessage *message);

static void *member_at(ProtobufCMessage *message, unsigned offset)
{
    return (unsigned char *)message + offset;
}

/* A message that stands alone: the one that is there already, or a new one. */
static tw_status read_message(struct reader *r, const ProtobufCFieldDescriptor *field,
                              ProtobufCMessage *message)
{
    ProtobufCMessage **place = member_at(message, field->offset);
    if (*place == NULL)
        *place = tw_fields_new(field->descriptor, r->arena);
    if (*place == NULL)
        return tw_error_set(r->error, TW_NO_MEMORY, "%s: no memory", field->name);
    return read_object(r, *place);
}

static tw_status append_message(struct reader *r, const ProtobufCFieldDescriptor *field,
                                ProtobufCMessage *message)
{
    ProtobufCMessage ***list = member_at(message, field->offset);
    size_t *n = member_at(message, field->quantifier_offset);
    bool is_full = (*n & (*n - 1)) == 0; /* room doubles at each power of two */
    if (is_full) {
        ProtobufCMessage **larger = tw_arena_take(r->arena, (*n > 0 ? 2 * *n : 1) * sizeof *larger);
        if (larger == NULL)
            return tw_error_set(r->error, TW_NO_MEMORY, "%s: no memory", field->name);
        if (*n > 0)
            memcpy(larger, *list, *n * sizeof *larger);
        *list = larger;
    }
    ProtobufCMessage *entry = tw_fields_new(field->descriptor, r->arena);
    if (entry == NULL)
        return tw_error_set(r->error, TW_NO_MEMORY, "%s: no memory", field->name);
    (*list)[(*n)++] = entry;
    return read_object(r, entry);
}

static tw_status set_scalar(struct reader *r, const ProtobufCFieldDescriptor *field,
                            ProtobufCMessage *message)
{
    char value[VALUE_BYTES];
    const char *from = (peek(r), r->at);
    struct tw_error why;
    tw_status status = read_scalar(r, value);
    if (status != TW_OK)
        return status;
    status = tw_fields_set(message, field->name, value, r->arena, &why);
    if (status == TW_OK)
        return TW_OK;
    r->at = from;
    return expected(r, why.text);
}

static bool is_plain_message(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_MESSAGE;
}

/* A value of a field, which may be one of several. */
static tw_status read_value(struct reader *r, const ProtobufCFieldDescriptor *field,
                            ProtobufCMessage *message)
{
    bool is_object = is_plain_message(field) && peek(r) == '{'; /* times are text */
    if (field->label == PROTOBUF_C_LABEL_REPEATED && is_plain_message(field))
        return append_message(r, field, message);
    return is_object ? read_message(r, field, message) : set_scalar(r, field, message);
}

static tw_status read_list(struct reader *r, const ProtobufCFieldDescriptor *field,
                           ProtobufCMessage *message)
{
    if (!take(r, '['))
        return expected(r, "a list: [");
    if (take(r, ']'))
        return TW_OK;
    do {
        tw_status status = read_value(r, field, message);
        if (status != TW_OK)
            return status;
    } while (take(r, ','));
    return take(r, ']') ? TW_OK : expected(r, "a comma or the end of the list");
}

static tw_status read_member(struct reader *r, ProtobufCMessage *message)
{
    char name[VALUE_BYTES];
    const char *from = (peek(r), r->at);
    tw_status status = read_text(r, name);
    if (status != TW_OK)
        return status;
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
    if (field == NULL) {
        r->at = from;
        snprintf(name, sizeof name, "a field of %s", message->descriptor->short_name);
        return expected(r, name);
    }
    if (!take(r, ':'))
        return expected(r, "a colon");
    return field->label == PROTOBUF_C_LABEL_REPEATED ? read_list(r, field, message)
                                                     : read_value(r, field, message);
}

static tw_status read_object(struct reader *r, ProtobufCMessage *message)
{
    if (!take(r, '{'))
        return expected(r, "an object: {");
    if (++r->depth > DEPTH_MAX)
        return expected(r, "less depth");
    bool is_empty = take(r, '}');
    while (!is_empty) {
        tw_status status = read_member(r, message);
        if (status != TW_OK)
            return status;
        if (!take(r, ','))
            break;
    }
    r->depth--;
    return is_empty || take(r, '}') ? TW_OK : expected(r, "a comma or the end of the object");
}

tw_status json_read(const char *text, ProtobufCMessage *message, struct tw_arena *arena,
                    struct tw_error *error)
{
    struct reader reader = {.text = text, .at = text, .arena = arena, .error = error};
    tw_status status = read_object(&reader, message);
    if (status == TW_OK && peek(&reader) != '\0')
        return expected(&reader, "the end of the text");
    return status;
}
