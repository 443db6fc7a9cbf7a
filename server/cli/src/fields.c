#include <tradewake/cli/fields.h>

#include <tradewake/base/clock.h>
#include <tradewake/config/value.h>

#include <google/protobuf/duration.pb-c.h>
#include <google/protobuf/timestamp.pb-c.h>

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { PATH_BYTES = 160, SUGGEST_MAX = 128, TIME_MS_CHARS = 23 /* 2026-11-30T09:48:36.123 */ };

/* ---- Members ---- */

const void *tw_fields_member(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    return (const char *)message + field->offset;
}

static void *member(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    return (char *)message + field->offset;
}

static void *quantifier(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    return (char *)message + field->quantifier_offset;
}

size_t tw_fields_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const char *count = (const char *)message + field->quantifier_offset;
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)(const void *)count;
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
        *(const uint32_t *)(const void *)count != field->id)
        return 0;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(ProtobufCMessage *const *)tw_fields_member(message, field) != NULL;
    return 1;
}

/* protoc-c does not mark them: an entry is a message NAMEEntry of a key and a value. */
bool tw_fields_is_map(const ProtobufCFieldDescriptor *field)
{
    if (field->type != PROTOBUF_C_TYPE_MESSAGE || field->label != PROTOBUF_C_LABEL_REPEATED)
        return false;
    const ProtobufCMessageDescriptor *type = field->descriptor;
    size_t length = strlen(type->short_name);
    return length > 5 && strcmp(type->short_name + length - 5, "Entry") == 0 &&
           type->n_fields == 2 && strcmp(type->fields[0].name, "key") == 0 &&
           strcmp(type->fields[1].name, "value") == 0 &&
           type->fields[0].type == PROTOBUF_C_TYPE_STRING;
}

ProtobufCMessage *tw_fields_new(const ProtobufCMessageDescriptor *type, struct tw_arena *arena)
{
    ProtobufCMessage *message = tw_arena_take(arena, type->sizeof_message);
    if (message != NULL)
        type->message_init(message);
    return message;
}

/* ---- Enums ---- */

/* "COPY_STATE_" of "CopyState": what every name of the enum begins with. */
static size_t prefix_size(const ProtobufCEnumDescriptor *type)
{
    const char *first = type->values[0].name;
    const char *end = strstr(first, "UNSPECIFIED");
    size_t size = end != NULL ? (size_t)(end - first) : 0;
    for (unsigned i = 0; i < type->n_values; i++)
        if (strncmp(type->values[i].name, first, size) != 0)
            return 0;
    return size;
}

char *tw_fields_enum(const ProtobufCEnumDescriptor *type, int32_t value, bool is_short, char *text,
                     size_t size)
{
    const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(type, value);
    if (known == NULL)
        snprintf(text, size, "%" PRId32, value);
    else if (is_short && value == 0 && strstr(known->name, "UNSPECIFIED") != NULL)
        snprintf(text, size, "-");
    else
        snprintf(text, size, "%s", known->name + (is_short ? prefix_size(type) : 0));
    return text;
}

static tw_status parse_enum(const ProtobufCEnumDescriptor *type, const char *path, const char *text,
                            int32_t *ret, struct tw_error *error)
{
    const char *words[SUGGEST_MAX];
    size_t prefix = prefix_size(type), n = 0;
    char upper[64], wanted[64];
    snprintf(wanted, sizeof wanted, "%s", text);
    for (char *at = wanted; *at != '\0'; at++)
        if (*at == '-')
            *at = '_'; /* "follow-out" */
    for (unsigned i = 0; i < type->n_values; i++) {
        const char *name = type->values[i].name;
        if (strcasecmp(wanted, name) == 0 || strcasecmp(wanted, name + prefix) == 0) {
            *ret = type->values[i].value;
            return TW_OK;
        }
        if (n < SUGGEST_MAX)
            words[n++] = name + prefix;
    }
    for (size_t i = 0; i < sizeof upper; i++) {
        upper[i] = (char)toupper((unsigned char)wanted[i]);
        if (wanted[i] == '\0')
            break;
    }
    const char *near = tw_value_suggest(upper, words, n);
    if (near != NULL)
        return tw_error_set(error, TW_INVALID, "%s: found \"%s\"; did you mean %s?", path, text,
                            near);
    char expected[256] = "";
    size_t used = 0;
    for (size_t i = 1; i < n && used + 80 < sizeof expected; i++) /* 0 is UNSPECIFIED */
        used += (size_t)snprintf(expected + used, sizeof expected - used, "%s%.60s",
                                 i > 1 ? ", " : "", words[i]);
    return tw_error_set(error, TW_INVALID, "%s: found \"%s\", expected one of %s", path, text,
                        expected);
}

/* ---- Times ---- */

bool tw_fields_well_known(const ProtobufCMessage *message, char *text, size_t size)
{
    if (message->descriptor == &google__protobuf__timestamp__descriptor) {
        const Google__Protobuf__Timestamp *time =
            (const Google__Protobuf__Timestamp *)(const void *)message;
        time_t seconds = (time_t)time->seconds;
        struct tm parts;
        if (gmtime_r(&seconds, &parts) == NULL)
            parts = (struct tm){.tm_year = 70, .tm_mday = 1};
        char date[40];
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
        snprintf(text, size, "%s.%09dZ", date, time->nanos);
        size_t length = strlen(text);
        /* Three, six or nine digits, as the JSON of protobuf has them. */
        while (length > 14 && strcmp(text + length - 4, "000Z") == 0 && text[length - 5] != '.') {
            memcpy(text + length - 4, "Z", 2);
            length -= 3;
        }
        return true;
    }
    if (message->descriptor == &google__protobuf__duration__descriptor) {
        const Google__Protobuf__Duration *span =
            (const Google__Protobuf__Duration *)(const void *)message;
        bool is_negative = span->seconds < 0 || span->nanos < 0;
        int written = snprintf(text, size, "%s%" PRIu64 ".%09d", is_negative ? "-" : "",
                               span->seconds < 0 ? (uint64_t)0 - (uint64_t)span->seconds
                                                 : (uint64_t)span->seconds,
                               abs(span->nanos));
        size_t length = written > 0 && (size_t)written < size - 1 ? (size_t)written : size - 2;
        while (length > 0 && text[length - 1] == '0')
            length--;
        if (length > 0 && text[length - 1] == '.')
            length--;
        memcpy(text + length, "s", 2);
        return true;
    }
    return false;
}

/* "now", or RFC 3339 with "Z" or an offset. */
static bool parse_timestamp(const char *text, int64_t *ret_seconds, int32_t *ret_nanos)
{
    if (strcmp(text, "now") == 0) {
        int64_t now_ns = tw_wall_ns();
        *ret_seconds = now_ns / TW_NS_PER_S;
        *ret_nanos = (int32_t)(now_ns % TW_NS_PER_S);
        return true;
    }
    struct tm parts = {0};
    const char *at = strptime(text, "%Y-%m-%dT%H:%M:%S", &parts);
    if (at == NULL)
        return false;
    int32_t nanos = 0, scale = 100000000;
    if (*at == '.')
        for (at++; *at >= '0' && *at <= '9' && scale > 0; at++, scale /= 10)
            nanos += (*at - '0') * scale;
    int64_t seconds = timegm(&parts);
    int hours, minutes, consumed = 0;
    if (strcmp(at, "Z") == 0) {
        /* UTC as it is. */
    } else if ((*at == '+' || *at == '-') &&
               sscanf(at + 1, "%2d:%2d%n", &hours, &minutes, &consumed) == 2 &&
               at[1 + consumed] == '\0') {
        seconds += (*at == '+' ? -1 : 1) * (hours * 3600 + minutes * 60);
    } else {
        return false;
    }
    *ret_seconds = seconds;
    *ret_nanos = nanos;
    return true;
}

static tw_status set_well_known(ProtobufCMessage *message, const char *path, const char *text,
                                struct tw_error *error)
{
    if (message->descriptor == &google__protobuf__timestamp__descriptor) {
        Google__Protobuf__Timestamp *time = (Google__Protobuf__Timestamp *)(void *)message;
        if (!parse_timestamp(text, &time->seconds, &time->nanos))
            return tw_error_set(
                error, TW_INVALID,
                "%s: found \"%s\", expected a time such as 2026-11-30T09:48:36Z, or now", path,
                text);
        return TW_OK;
    }
    Google__Protobuf__Duration *span = (Google__Protobuf__Duration *)(void *)message;
    struct tw_error why;
    int64_t ns;
    if (tw_value_parse(&(struct tw_value_rule){.type = TW_VALUE_DURATION}, text, &ns, &why) !=
        TW_OK)
        return tw_error_set(error, TW_INVALID, "%s: %s", path, why.text);
    span->seconds = ns / TW_NS_PER_S;
    span->nanos = (int32_t)(ns % TW_NS_PER_S);
    return TW_OK;
}

static bool is_well_known(const ProtobufCMessageDescriptor *type)
{
    return type == &google__protobuf__timestamp__descriptor ||
           type == &google__protobuf__duration__descriptor;
}

/* ---- Setting ---- */

struct setting {
    struct tw_arena *arena;
    struct tw_error *error;
    const char *path; /* whole, for messages */
};

static tw_status no_memory(const struct setting *setting)
{
    return tw_error_set(setting->error, TW_NO_MEMORY, "%s: no memory", setting->path);
}

static tw_status parse_integer(const struct setting *setting, const char *text, int64_t min,
                               uint64_t max, uint64_t *ret)
{
    char *end;
    bool is_negative = text[0] == '-';
    bool is_number =
        (text[0] >= '0' && text[0] <= '9') || (is_negative && text[1] >= '0' && text[1] <= '9');
    uint64_t magnitude = is_number ? strtoull(text + is_negative, &end, 10) : 0;
    /* Two's complement has one more below zero. */
    bool fits = is_negative ? min < 0 && magnitude <= max + 1 : magnitude <= max;
    if (!is_number || *end != '\0' || !fits)
        return tw_error_set(setting->error, TW_INVALID,
                            "%s: found \"%s\", expected a whole number from %" PRId64
                            " to %" PRIu64,
                            setting->path, text, min, max);
    *ret = is_negative ? (uint64_t)0 - magnitude : magnitude;
    return TW_OK;
}

static tw_status set_path(const struct setting *setting, ProtobufCMessage *message,
                          const char *path, const char *text);

/* NAME=VALUE,NAME=VALUE into the fields of an entry; KEY=VALUE of a map. */
static tw_status set_entry(const struct setting *setting, ProtobufCMessage *entry, bool is_map,
                           char *text)
{
    if (is_map) {
        char *equals = strchr(text, '=');
        if (equals == NULL || equals == text)
            return tw_error_set(setting->error, TW_INVALID, "%s: found \"%s\", expected KEY=VALUE",
                                setting->path, text);
        *equals = '\0';
        tw_status status = set_path(setting, entry, "key", text);
        return status == TW_OK ? set_path(setting, entry, "value", equals + 1) : status;
    }
    char *rest = text;
    for (char *part = strsep(&rest, ","); part != NULL; part = strsep(&rest, ",")) {
        char *equals = strchr(part, '=');
        if (equals == NULL)
            return tw_error_set(
                setting->error, TW_INVALID,
                "%s: found \"%s\", expected NAME=VALUE,NAME=VALUE with the fields of %s",
                setting->path, part, entry->descriptor->short_name);
        *equals = '\0';
        tw_status status = set_path(setting, entry, part, equals + 1);
        if (status != TW_OK)
            return status;
    }
    return TW_OK;
}

/* Into the place of one value. */
static tw_status set_value(const struct setting *setting, const ProtobufCFieldDescriptor *field,
                           void *at, const char *text)
{
    uint64_t number = 0;
    tw_status status = TW_OK;
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        *(char **)at = tw_arena_text(setting->arena, text, strlen(text));
        return *(char **)at != NULL ? TW_OK : no_memory(setting);
    case PROTOBUF_C_TYPE_ENUM:
        return parse_enum(field->descriptor, setting->path, text, at, setting->error);
    case PROTOBUF_C_TYPE_BOOL: {
        struct tw_error why;
        int64_t is_true;
        if (tw_value_parse(&(struct tw_value_rule){.type = TW_VALUE_BOOL}, text, &is_true, &why) !=
            TW_OK)
            return tw_error_set(setting->error, TW_INVALID, "%s: %s", setting->path, why.text);
        *(protobuf_c_boolean *)at = (protobuf_c_boolean)is_true;
        return TW_OK;
    }
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
        status = parse_integer(setting, text, INT32_MIN, INT32_MAX, &number);
        if (status == TW_OK)
            *(int32_t *)at = (int32_t)(int64_t)number;
        return status;
    case PROTOBUF_C_TYPE_UINT32:
        status = parse_integer(setting, text, 0, UINT32_MAX, &number);
        if (status == TW_OK)
            *(uint32_t *)at = (uint32_t)number;
        return status;
    case PROTOBUF_C_TYPE_INT64:
        status = parse_integer(setting, text, INT64_MIN, INT64_MAX, &number);
        if (status == TW_OK)
            *(int64_t *)at = (int64_t)number;
        return status;
    case PROTOBUF_C_TYPE_UINT64:
        status = parse_integer(setting, text, 0, UINT64_MAX, &number);
        if (status == TW_OK)
            *(uint64_t *)at = number;
        return status;
    case PROTOBUF_C_TYPE_MESSAGE: {
        ProtobufCMessage *message = tw_fields_new(field->descriptor, setting->arena);
        char *copy = tw_arena_text(setting->arena, text, strlen(text));
        if (message == NULL || copy == NULL)
            return no_memory(setting);
        *(ProtobufCMessage **)at = message;
        if (is_well_known(field->descriptor))
            return set_well_known(message, setting->path, text, setting->error);
        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            return set_entry(setting, message, tw_fields_is_map(field), copy);
        break;
    }
    default:
        break;
    }
    return tw_error_set(setting->error, TW_INVALID,
                        "%s: cannot be given as text; name a field inside it", setting->path);
}

static size_t entry_size(const ProtobufCFieldDescriptor *field)
{
    bool is_pointer =
        field->type == PROTOBUF_C_TYPE_MESSAGE || field->type == PROTOBUF_C_TYPE_STRING;
    return is_pointer ? sizeof(void *) : sizeof(int32_t);
}

/* One more entry at the end; the array is copied: a person gives a handful. */
static tw_status append(const struct setting *setting, ProtobufCMessage *message,
                        const ProtobufCFieldDescriptor *field, const char *text)
{
    size_t *count = quantifier(message, field);
    void **array = member(message, field);
    size_t size = entry_size(field);
    char *grown = tw_arena_zero(setting->arena, (*count + 1) * size);
    if (grown == NULL)
        return no_memory(setting);
    if (*count > 0)
        memcpy(grown, *array, *count * size);
    tw_status status = set_value(setting, field, grown + *count * size, text);
    if (status != TW_OK)
        return status;
    *array = grown;
    *count += 1;
    return TW_OK;
}

static tw_status set_repeated(const struct setting *setting, ProtobufCMessage *message,
                              const ProtobufCFieldDescriptor *field, const char *text)
{
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return append(setting, message, field, text);
    if (field->type != PROTOBUF_C_TYPE_STRING && field->type != PROTOBUF_C_TYPE_ENUM)
        return tw_error_set(setting->error, TW_INVALID, "%s: cannot be given as text",
                            setting->path);
    char *rest = tw_arena_text(setting->arena, text, strlen(text));
    if (rest == NULL)
        return no_memory(setting);
    for (char *part = strsep(&rest, ","); part != NULL; part = strsep(&rest, ",")) {
        tw_status status = append(setting, message, field, part);
        if (status != TW_OK)
            return status;
    }
    return TW_OK;
}

static tw_status unknown_field(const struct setting *setting, const ProtobufCMessage *message,
                               const char *name)
{
    const char *words[SUGGEST_MAX];
    size_t n = 0;
    for (unsigned i = 0; i < message->descriptor->n_fields && n < SUGGEST_MAX; i++)
        words[n++] = message->descriptor->fields[i].name;
    const char *near = tw_value_suggest(name, words, n);
    return tw_error_set(setting->error, TW_INVALID, "%s: %s has no field \"%s\"%s%s%s",
                        setting->path, message->descriptor->short_name, name,
                        near != NULL ? "; did you mean " : "", near != NULL ? near : "",
                        near != NULL ? "?" : "");
}

static tw_status set_path(const struct setting *setting, ProtobufCMessage *message,
                          const char *path, const char *text)
{
    char name[PATH_BYTES];
    size_t size = strcspn(path, ".");
    snprintf(name, sizeof name, "%.*s", (int)(size < sizeof name ? size : sizeof name - 1), path);
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
    if (field == NULL)
        return unknown_field(setting, message, name);

    tw_status status = TW_OK;
    if (path[size] == '.') {
        bool is_one_message =
            field->type == PROTOBUF_C_TYPE_MESSAGE && field->label != PROTOBUF_C_LABEL_REPEATED;
        if (!is_one_message)
            return tw_error_set(setting->error, TW_INVALID, "%s: %s has no fields of its own",
                                setting->path, name);
        ProtobufCMessage **inner = member(message, field);
        if (tw_fields_count(message, field) == 0)
            *inner = tw_fields_new(field->descriptor, setting->arena);
        if (*inner == NULL)
            return no_memory(setting);
        status = set_path(setting, *inner, path + size + 1, text);
    } else if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        return set_repeated(setting, message, field, text);
    } else {
        status = set_value(setting, field, member(message, field), text);
    }
    if (status == TW_OK && (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0)
        *(uint32_t *)quantifier(message, field) = field->id;
    return status;
}

tw_status tw_fields_set(ProtobufCMessage *message, const char *path, const char *text,
                        struct tw_arena *arena, struct tw_error *error)
{
    return set_path(&(struct setting){arena, error, path}, message, path, text);
}

/* ---- Reading ---- */

static void ms_text(uint64_t ns, char *text, size_t size)
{
    if (ns == 0)
        snprintf(text, size, "-");
    else
        snprintf(text, size, "%" PRIu64 ".%03" PRIu64, ns / 1000000, ns / 1000 % 1000);
}

static void value_text(const ProtobufCFieldDescriptor *field, const void *at,
                       enum tw_field_format format, char *text, size_t size)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        snprintf(text, size, "%s", *(char *const *)at);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        tw_fields_enum(field->descriptor, *(const int32_t *)at, true, text, size);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        snprintf(text, size, "%s", *(const protobuf_c_boolean *)at ? "yes" : "no");
        break;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
        snprintf(text, size, "%" PRId32, *(const int32_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT32:
        snprintf(text, size, "%" PRIu32, *(const uint32_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT64:
        snprintf(text, size, "%" PRId64, *(const int64_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
        if (format == TW_FIELD_MS)
            ms_text(*(const uint64_t *)at, text, size);
        else
            snprintf(text, size, "%" PRIu64, *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        if (!tw_fields_well_known(*(ProtobufCMessage *const *)at, text, size))
            snprintf(text, size, "{...}");
        else if (format == TW_FIELD_TIME && strlen(text) > TIME_MS_CHARS)
            snprintf(text + TIME_MS_CHARS, size - TIME_MS_CHARS, "Z");
        break;
    default:
        text[0] = '\0';
        break;
    }
}

static void repeated_text(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                          char *text, size_t size)
{
    size_t used = 0, n = tw_fields_count(message, field);
    const char *items = *(const char *const *)tw_fields_member(message, field);
    bool is_map = tw_fields_is_map(field);
    text[0] = '\0';
    for (size_t i = 0; i < n && used + 2 < size; i++) {
        char one[256];
        if (is_map) {
            const ProtobufCMessage *entry = ((ProtobufCMessage *const *)(const void *)items)[i];
            char key[96], value[128];
            tw_fields_text(entry, "key", TW_FIELD_PLAIN, key, sizeof key);
            tw_fields_text(entry, "value", TW_FIELD_PLAIN, value, sizeof value);
            snprintf(one, sizeof one, "%s=%s", key, value);
        } else {
            value_text(field, items + i * entry_size(field), TW_FIELD_PLAIN, one, sizeof one);
        }
        int written = snprintf(text + used, size - used, "%s%s", i > 0 ? "," : "", one);
        used += written > 0 ? (size_t)written : 0;
    }
}

char *tw_fields_text(const ProtobufCMessage *message, const char *path, enum tw_field_format format,
                     char *text, size_t size)
{
    char name[PATH_BYTES];
    size_t length = strcspn(path, ".");
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1),
             path);
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
    assert(field != NULL); /* paths are ours */

    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        repeated_text(message, field, text, size);
    else if (tw_fields_count(message, field) == 0)
        text[0] = '\0';
    else if (path[length] == '.')
        return tw_fields_text(*(ProtobufCMessage *const *)tw_fields_member(message, field),
                              path + length + 1, format, text, size);
    else
        value_text(field, tw_fields_member(message, field), format, text, size);
    if (text[0] == '\0')
        snprintf(text, size, "-");
    return text;
}

bool tw_fields_list(const ProtobufCMessage *message, ProtobufCMessage ***ret_items, size_t *ret_n)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        if (field->type != PROTOBUF_C_TYPE_MESSAGE || field->label != PROTOBUF_C_LABEL_REPEATED)
            continue;
        *ret_n = tw_fields_count(message, field);
        *ret_items = *(ProtobufCMessage * *const *)tw_fields_member(message, field);
        return true;
    }
    return false;
}

/* Is it what a message begins with? */
static bool is_default(const ProtobufCFieldDescriptor *field, const void *at)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return (*(char *const *)at)[0] == '\0';
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
        return *(const uint64_t *)at == 0;
    default:
        return *(const uint32_t *)at == 0;
    }
}

static void each_under(const ProtobufCMessage *message, const char *prefix, tw_fields_visit *visit,
                       void *context)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        size_t n = tw_fields_count(message, field);
        char path[PATH_BYTES], text[1024];
        snprintf(path, sizeof path, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", field->name);
        bool is_message = field->type == PROTOBUF_C_TYPE_MESSAGE && !tw_fields_is_map(field) &&
                          !is_well_known(field->descriptor);
        if (n == 0)
            continue;
        if (field->label == PROTOBUF_C_LABEL_REPEATED && is_message) {
            ProtobufCMessage *const *items =
                *(ProtobufCMessage *const *const *)tw_fields_member(message, field);
            for (size_t at = 0; at < n; at++) {
                char entry[PATH_BYTES + 24];
                snprintf(entry, sizeof entry, "%s[%zu]", path, at);
                each_under(items[at], entry, visit, context);
            }
        } else if (is_message) {
            each_under(*(ProtobufCMessage *const *)tw_fields_member(message, field), path, visit,
                       context);
        } else if (field->label == PROTOBUF_C_LABEL_REPEATED ||
                   field->type == PROTOBUF_C_TYPE_MESSAGE ||
                   !is_default(field, tw_fields_member(message, field))) {
            visit(context, path,
                  tw_fields_text(message, field->name, TW_FIELD_PLAIN, text, sizeof text));
        }
    }
}

void tw_fields_each(const ProtobufCMessage *message, tw_fields_visit *visit, void *context)
{
    each_under(message, "", visit, context);
}
