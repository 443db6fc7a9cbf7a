#include <tradewake/cli/json.h>

#include <tradewake/cli/fields.h>

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static void line_break(struct tw_json *json)
{
    if (!json->is_pretty)
        return;
    fputc('\n', json->out);
    for (uint32_t i = 0; i < json->depth; i++)
        fputs("  ", json->out);
}

/* Before a key, or before a value that has none. */
static void item_begin(struct tw_json *json)
{
    if (json->has_key) {
        json->has_key = false;
        return;
    }
    if (json->has_items)
        fputc(',', json->out);
    if (json->depth > 0)
        line_break(json);
    json->has_items = true;
}

static void item_end(struct tw_json *json)
{
    json->has_items = true;
    if (json->depth > 0)
        return;
    json->has_items = false;
    fputc('\n', json->out);
}

static void open_level(struct tw_json *json, char bracket)
{
    item_begin(json);
    fputc(bracket, json->out);
    json->depth++;
    json->has_items = false;
}

void tw_json_object(struct tw_json *json)
{
    open_level(json, '{');
}

void tw_json_array(struct tw_json *json)
{
    open_level(json, '[');
}

void tw_json_end(struct tw_json *json, bool is_array)
{
    assert(json->depth > 0);
    json->depth--;
    if (json->has_items)
        line_break(json);
    fputc(is_array ? ']' : '}', json->out);
    item_end(json);
}

/* The bytes of the character at `at`, 0 when it is no UTF-8. */
static size_t utf8_size(const unsigned char *at)
{
    if (at[0] < 0x80)
        return 1;
    size_t size = at[0] >= 0xc2 && at[0] < 0xe0   ? 2
                  : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
                  : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                                  : 0;
    for (size_t i = 1; i < size; i++)
        if ((at[i] & 0xc0) != 0x80) /* the NUL at the end stops it, too */
            return 0;
    bool is_bad = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] >= 0xa0) ||
                  (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] >= 0x90);
    return is_bad ? 0 : size;
}

static void write_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0';) {
        size_t size = utf8_size(at);
        if (size == 0) {
            fputs("\\ufffd", out);
            size = 1;
        } else if (*at == '"' || *at == '\\') {
            fprintf(out, "\\%c", *at);
        } else if (*at < 0x20 || *at == 0x7f) {
            fprintf(out, "\\u%04x", *at);
        } else {
            fwrite(at, 1, size, out);
        }
        at += size;
    }
    fputc('"', out);
}

void tw_json_key(struct tw_json *json, const char *key)
{
    item_begin(json);
    write_string(json->out, key);
    fputs(json->is_pretty ? ": " : ":", json->out);
    json->has_key = true;
}

void tw_json_text(struct tw_json *json, const char *text)
{
    item_begin(json);
    write_string(json->out, text);
    item_end(json);
}

void tw_json_number(struct tw_json *json, int64_t value)
{
    item_begin(json);
    fprintf(json->out, "%" PRId64, value);
    item_end(json);
}

static void write_unsigned(struct tw_json *json, uint64_t value)
{
    item_begin(json);
    fprintf(json->out, "%" PRIu64, value);
    item_end(json);
}

void tw_json_bool(struct tw_json *json, bool value)
{
    item_begin(json);
    fputs(value ? "true" : "false", json->out);
    item_end(json);
}

static void write_bytes(struct tw_json *json, const ProtobufCBinaryData *data)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    item_begin(json);
    fputc('"', json->out);
    for (size_t i = 0; i < data->len; i += 3) {
        size_t left = data->len - i;
        uint32_t three = (uint32_t)data->data[i] << 16 |
                         (left > 1 ? (uint32_t)data->data[i + 1] << 8 : 0) |
                         (left > 2 ? data->data[i + 2] : 0);
        char four[4] = {digits[three >> 18], digits[three >> 12 & 63],
                        left > 1 ? digits[three >> 6 & 63] : '=',
                        left > 2 ? digits[three & 63] : '='};
        fwrite(four, 1, sizeof four, json->out);
    }
    fputc('"', json->out);
    item_end(json);
}

static void write_enum(struct tw_json *json, const ProtobufCEnumDescriptor *type, int32_t value)
{
    char text[96];
    if (protobuf_c_enum_descriptor_get_value(type, value) == NULL)
        tw_json_number(json, value); /* of a newer server */
    else
        tw_json_text(json, tw_fields_enum(type, value, false, text, sizeof text));
}

/* One value; `at` points to it. */
static void write_value(struct tw_json *json, const ProtobufCFieldDescriptor *field, const void *at)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        tw_json_number(json, *(const int32_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        tw_json_number(json, *(const int64_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        write_unsigned(json, *(const uint32_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        write_unsigned(json, *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        tw_json_bool(json, *(const protobuf_c_boolean *)at != 0);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        write_enum(json, field->descriptor, *(const int32_t *)at);
        break;
    case PROTOBUF_C_TYPE_STRING:
        tw_json_text(json, *(char *const *)at);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        write_bytes(json, at);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        tw_json_message(json, *(ProtobufCMessage *const *)at);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        assert(!"the contract has no floating point");
        break;
    }
}

static size_t value_size(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return sizeof(int64_t);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
        return sizeof(char *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(ProtobufCMessage *);
    default:
        return sizeof(int32_t);
    }
}

static void write_map(struct tw_json *json, ProtobufCMessage *const *entries, size_t n)
{
    tw_json_object(json);
    for (size_t i = 0; i < n; i++) {
        const ProtobufCMessageDescriptor *type = entries[i]->descriptor;
        const ProtobufCFieldDescriptor *value = &type->fields[1];
        tw_json_key(json, *(char *const *)tw_fields_member(entries[i], &type->fields[0]));
        write_value(json, value, tw_fields_member(entries[i], value));
    }
    tw_json_end(json, false);
}

static void write_repeated(struct tw_json *json, const ProtobufCMessage *message,
                           const ProtobufCFieldDescriptor *field)
{
    size_t n = tw_fields_count(message, field);
    const char *items = *(const char *const *)tw_fields_member(message, field);
    if (tw_fields_is_map(field)) {
        write_map(json, (ProtobufCMessage *const *)(const void *)items, n);
        return;
    }
    tw_json_array(json);
    for (size_t i = 0; i < n; i++)
        write_value(json, field, items + i * value_size(field->type));
    tw_json_end(json, true);
}

void tw_json_message(struct tw_json *json, const ProtobufCMessage *message)
{
    char text[64];
    if (tw_fields_well_known(message, text, sizeof text)) {
        tw_json_text(json, text);
        return;
    }
    tw_json_object(json);
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        bool is_repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
        if (!is_repeated && tw_fields_count(message, field) == 0)
            continue;
        tw_json_key(json, field->name);
        if (is_repeated)
            write_repeated(json, message, field);
        else
            write_value(json, field, tw_fields_member(message, field));
    }
    tw_json_end(json, false);
}
