#include "reflection.h"

#include "readers.h"

#include <tradewake/base/clock.h>
#include <tradewake/wire/descriptors.h>
#include <tradewake/wire/message.h>

#include <grpc/reflection/v1/reflection.pb-c.h>
#include <grpc/reflection/v1alpha/reflection.pb-c.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { FILES_MAX = 64, SERVICES_MAX = 32, SYMBOL_CHARS_MAX = 512 };
enum { CODE_INVALID_ARGUMENT = 3, CODE_NOT_FOUND = 5 };

typedef Google__Protobuf__DescriptorProto message_proto;
typedef Google__Protobuf__EnumDescriptorProto enum_proto;
typedef Google__Protobuf__FieldDescriptorProto field_proto;
typedef Google__Protobuf__FileDescriptorProto file_proto;

/* Set before the server starts, read-only afterwards. */
static const struct tw_wire_method *served;

void tw_reflection_methods_set(const struct tw_wire_method *methods)
{
    served = methods;
}

/* ---- Where a symbol is declared. ---- */

/* What follows name in a dotted path: "" when the path is the name, NULL when it begins otherwise.
 */
static const char *path_after(const char *path, const char *name)
{
    size_t length = strlen(name);
    if (strncmp(path, name, length) != 0)
        return NULL;
    if (path[length] == '\0')
        return path + length;
    return path[length] == '.' ? path + length + 1 : NULL;
}

static bool path_is(const char *path, const char *name)
{
    return strcmp(path, name) == 0;
}

/* Values of an enum are named as if they stood beside it. */
static bool enums_have(enum_proto *const *enums, size_t count, const char *path)
{
    for (size_t i = 0; i < count; i++) {
        if (path_is(path, enums[i]->name))
            return true;
        for (size_t k = 0; k < enums[i]->n_value; k++)
            if (path_is(path, enums[i]->value[k]->name))
                return true;
    }
    return false;
}

static bool fields_have(field_proto *const *fields, size_t count, const char *path)
{
    for (size_t i = 0; i < count; i++)
        if (path_is(path, fields[i]->name))
            return true;
    return false;
}

static bool oneofs_have(const message_proto *message, const char *path)
{
    for (size_t i = 0; i < message->n_oneof_decl; i++)
        if (path_is(path, message->oneof_decl[i]->name))
            return true;
    return false;
}

/* As deep as messages are nested in our own files. */
static bool messages_have(message_proto *const *messages, size_t count, const char *path)
{
    for (size_t i = 0; i < count; i++) {
        const message_proto *message = messages[i];
        const char *rest = path_after(path, message->name);
        if (rest == NULL)
            continue;
        if (rest[0] == '\0' || fields_have(message->field, message->n_field, rest) ||
            fields_have(message->extension, message->n_extension, rest) ||
            oneofs_have(message, rest) ||
            enums_have(message->enum_type, message->n_enum_type, rest) ||
            messages_have(message->nested_type, message->n_nested_type, rest))
            return true;
    }
    return false;
}

static bool services_have(const file_proto *file, const char *path)
{
    for (size_t i = 0; i < file->n_service; i++) {
        const char *rest = path_after(path, file->service[i]->name);
        if (rest == NULL)
            continue;
        if (rest[0] == '\0')
            return true;
        for (size_t k = 0; k < file->service[i]->n_method; k++)
            if (path_is(rest, file->service[i]->method[k]->name))
                return true;
    }
    return false;
}

static bool file_has(const file_proto *file, const char *symbol)
{
    const char *path = path_after(symbol, file->package);
    return path != NULL && path[0] != '\0' &&
           (services_have(file, path) ||
            messages_have(file->message_type, file->n_message_type, path) ||
            enums_have(file->enum_type, file->n_enum_type, path) ||
            fields_have(file->extension, file->n_extension, path));
}

static const struct tw_descriptor_file *symbol_find(const char *symbol)
{
    if (strlen(symbol) > SYMBOL_CHARS_MAX)
        return NULL;
    for (uint32_t i = 0; i < tw_descriptor_files_count(); i++)
        if (file_has(tw_descriptor_file_at(i)->parsed, symbol))
            return tw_descriptor_file_at(i);
    return NULL;
}

static bool types_have(message_proto *const *messages, size_t count, const char *path)
{
    for (size_t i = 0; i < count; i++) {
        const char *rest = path_after(path, messages[i]->name);
        if (rest != NULL && (rest[0] == '\0' || types_have(messages[i]->nested_type,
                                                           messages[i]->n_nested_type, rest)))
            return true;
    }
    return false;
}

/* A message type, not one of its parts. */
static bool type_exists(const char *type)
{
    for (uint32_t i = 0; i < tw_descriptor_files_count(); i++) {
        const file_proto *file = tw_descriptor_file_at(i)->parsed;
        const char *path = path_after(type, file->package);
        if (path != NULL && types_have(file->message_type, file->n_message_type, path))
            return true;
    }
    return false;
}

/* ---- Answers. Everything an answer points to lives until it has been written. ---- */

struct answer {
    Grpc__Reflection__V1__ServerReflectionResponse response;
    Grpc__Reflection__V1__FileDescriptorResponse files;
    ProtobufCBinaryData file_bytes[FILES_MAX];
    Grpc__Reflection__V1__ListServiceResponse list;
    Grpc__Reflection__V1__ServiceResponse services[SERVICES_MAX];
    Grpc__Reflection__V1__ServiceResponse *service_list[SERVICES_MAX];
    Grpc__Reflection__V1__ExtensionNumberResponse numbers;
    Grpc__Reflection__V1__ErrorResponse error;
    char error_text[128];
};

static char *borrowed(const char *text)
{
    return (char *)(uintptr_t)text; /* protobuf-c declares char *; pack only reads */
}

static void answer_error(struct answer *answer, int32_t code, const char *what, const char *name)
{
    grpc__reflection__v1__error_response__init(&answer->error);
    if (strlen(name) > 64)
        name = "(a long name)"; /* not cut: it might end inside a character */
    snprintf(answer->error_text, sizeof answer->error_text, "%s: %s", what, name);
    answer->error.error_code = code;
    answer->error.error_message = answer->error_text;
    answer->response.error_response = &answer->error;
    answer->response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
}

/* The file first, then what it imports, each once. */
static void answer_files(struct answer *answer, const struct tw_descriptor_file *file)
{
    const struct tw_descriptor_file *found[FILES_MAX] = {file};
    size_t n_found = 1;
    for (size_t at = 0; at < n_found; at++) {
        const file_proto *parsed = found[at]->parsed;
        answer->file_bytes[at].data = (uint8_t *)(uintptr_t)found[at]->bytes; /* only read */
        answer->file_bytes[at].len = found[at]->size_bytes;
        for (size_t i = 0; i < parsed->n_dependency; i++) {
            const struct tw_descriptor_file *import =
                tw_descriptor_file_find(parsed->dependency[i]);
            size_t known = 0;
            while (known < n_found && found[known] != import)
                known++;
            if (known == n_found && import != NULL && n_found < FILES_MAX)
                found[n_found++] = import;
        }
    }
    grpc__reflection__v1__file_descriptor_response__init(&answer->files);
    answer->files.file_descriptor_proto = answer->file_bytes;
    answer->files.n_file_descriptor_proto = n_found;
    answer->response.file_descriptor_response = &answer->files;
    answer->response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
}

static void service_add(struct answer *answer, const char *name)
{
    for (size_t i = 0; i < answer->list.n_service; i++)
        if (strcmp(answer->services[i].name, name) == 0)
            return;
    assert(answer->list.n_service < SERVICES_MAX);
    Grpc__Reflection__V1__ServiceResponse *service = &answer->services[answer->list.n_service];
    grpc__reflection__v1__service_response__init(service);
    service->name = borrowed(name);
    answer->service_list[answer->list.n_service++] = service;
}

static void answer_services(struct answer *answer)
{
    grpc__reflection__v1__list_service_response__init(&answer->list);
    answer->list.service = answer->service_list;
    for (const struct tw_wire_method *row = served; row != NULL && row->path != NULL; row++)
        service_add(answer, tw_method_type_find(row->path)->service);
    answer->response.list_services_response = &answer->list;
    answer->response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
}

/* No file of ours declares extensions, so a type that exists has none. */
static void answer_extension_numbers(struct answer *answer, const char *type)
{
    if (!type_exists(type)) {
        answer_error(answer, CODE_NOT_FOUND, "no such type", type);
        return;
    }
    grpc__reflection__v1__extension_number_response__init(&answer->numbers);
    answer->numbers.base_type_name = borrowed(type);
    answer->response.all_extension_numbers_response = &answer->numbers;
    answer->response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ALL_EXTENSION_NUMBERS_RESPONSE;
}

static void answer_file(struct answer *answer, const struct tw_descriptor_file *file,
                        const char *what, const char *name)
{
    if (file == NULL)
        answer_error(answer, CODE_NOT_FOUND, what, name);
    else
        answer_files(answer, file);
}

static void answer_fill(struct answer *answer,
                        Grpc__Reflection__V1__ServerReflectionRequest *request)
{
    grpc__reflection__v1__server_reflection_response__init(&answer->response);
    answer->response.valid_host = request->host;
    answer->response.original_request = request;
    switch (request->message_request_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        answer_file(answer, tw_descriptor_file_find(request->file_by_filename), "no such file",
                    request->file_by_filename);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        answer_file(answer, symbol_find(request->file_containing_symbol), "no such symbol",
                    request->file_containing_symbol);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION:
        answer_error(answer, CODE_NOT_FOUND, "no extensions of",
                     request->file_containing_extension->containing_type);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE:
        answer_extension_numbers(answer, request->all_extension_numbers_of_type);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        answer_services(answer);
        break;
    default:
        answer_error(answer, CODE_INVALID_ARGUMENT, "nothing was asked",
                     "message_request is unset");
    }
}

/* The same bytes read as another type: how v1alpha becomes v1 and back. NULL = no memory. */
static ProtobufCMessage *reread(const ProtobufCMessage *message,
                                const ProtobufCMessageDescriptor *as, struct tw_arena *arena)
{
    if (message->descriptor == as)
        return (ProtobufCMessage *)(uintptr_t)message;
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = tw_arena_take(arena, size);
    ProtobufCMessage *other = NULL;
    struct tw_refusal refusal;
    if (bytes != NULL) {
        protobuf_c_message_pack(message, bytes);
        if (!tw_message_decode(as, bytes, size, arena, &other, &refusal))
            return NULL;
    }
    return other;
}

void tw_reflection_on_request(struct tw_call *call, const ProtobufCMessage *request,
                              const struct tw_refusal *invalid)
{
    (void)invalid;
    bool is_alpha =
        request->descriptor == &grpc__reflection__v1alpha__server_reflection_request__descriptor;
    struct tw_arena *arena = tw_call_arena(call);
    ProtobufCMessage *asked =
        reread(request, &grpc__reflection__v1__server_reflection_request__descriptor, arena);
    ProtobufCMessage *response = NULL;
    struct answer *answer = tw_arena_zero(arena, sizeof *answer);
    if (asked != NULL && answer != NULL) {
        answer_fill(answer, (Grpc__Reflection__V1__ServerReflectionRequest *)asked);
        response =
            reread(&answer->response.base,
                   is_alpha ? &grpc__reflection__v1alpha__server_reflection_response__descriptor
                            : &grpc__reflection__v1__server_reflection_response__descriptor,
                   arena);
    }
    if (response == NULL) {
        struct tw_refusal refusal;
        tw_refuse(&refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_OVERLOADED, NULL,
                  "no memory for the answer");
        tw_call_refuse(call, &refusal);
        return;
    }
    /* Nothing else is being written: reading pauses until each response is out. */
    bool is_sent = tw_call_write(call, response, false);
    (void)is_sent; /* false only after the end */
    tw_call_reading_pause(call);
    tw_call_timer_set(call, tw_reader_due_mono_ns(call));
}

void tw_reflection_on_timer(struct tw_call *call)
{
    if (!tw_reader_evict(call, tw_mono_ns()))
        tw_call_timer_set(call, tw_reader_due_mono_ns(call)); /* a later write is out */
}

void tw_reflection_on_writable(struct tw_call *call)
{
    tw_call_reading_resume(call);
}

void tw_reflection_on_half_close(struct tw_call *call)
{
    tw_call_end(call);
}
