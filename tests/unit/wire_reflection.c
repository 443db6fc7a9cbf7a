/* grpc.reflection, both versions, through a server in this process. */
#include "health.h"
#include "reflection.h"
#include "wire_support.h"

#include <tradewake/wire/descriptors.h>

#include <grpc/reflection/v1/reflection.pb-c.h>
#include <grpc/reflection/v1alpha/reflection.pb-c.h>

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define V1      "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
#define V1ALPHA "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

typedef Grpc__Reflection__V1__ServerReflectionRequest request_v1;
typedef Grpc__Reflection__V1__ServerReflectionResponse response_v1;

static const struct tw_wire_method methods[] = {
    TW_HEALTH_METHODS, TW_REFLECTION_METHODS, {.path = NULL}};
static struct pair pair;
static struct tw_wire_stream *stream;
static char host[] = "h";

static void open_stream(const char *path)
{
    struct tw_error error = {0};
    cr_assert_eq(tw_wire_stream_open(pair.client, path, NULL, INT64_MAX, &stream, &error), TW_OK);
}

static void start(void)
{
    tw_reflection_methods_set(methods);
    pair_start_with(&pair, NULL, methods);
    open_stream(V1);
}

static void stop(void)
{
    tw_wire_stream_close(stream);
    pair_stop(&pair);
}

TestSuite(wire_reflection, .init = start, .fini = stop, .timeout = 20);

static void ask_only(const request_v1 *request)
{
    struct tw_error error = {0};
    cr_assert_eq(tw_wire_stream_write(stream, &request->base, &error), TW_OK, "%s", error.text);
}

static response_v1 *answer(void)
{
    struct tw_error error = {0};
    struct tw_wire_answer ending;
    ProtobufCMessage *message = NULL;
    cr_assert_eq(tw_wire_stream_read(stream, in_ms(5000), &pair.arena, &message, &ending, &error),
                 TW_OK, "%s", error.text);
    return (response_v1 *)message;
}

static void request_make(request_v1 *request, const char *symbol)
{
    grpc__reflection__v1__server_reflection_request__init(request);
    request->host = host;
    request->message_request_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL;
    request->file_containing_symbol = (char *)(uintptr_t)symbol;
}

static response_v1 *ask_symbol(const char *symbol)
{
    request_v1 request;
    request_make(&request, symbol);
    ask_only(&request);
    return answer();
}

static response_v1 *ask_file(const char *name)
{
    request_v1 request;
    request_make(&request, name);
    request.message_request_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME;
    ask_only(&request);
    return answer();
}

static bool is_file(const response_v1 *response, const char *name)
{
    const struct tw_descriptor_file *file = tw_descriptor_file_find(name);
    if (response->message_response_case !=
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE)
        return false;
    const ProtobufCBinaryData *first =
        &response->file_descriptor_response->file_descriptor_proto[0];
    return first->len == file->size_bytes && memcmp(first->data, file->bytes, first->len) == 0;
}

Test(wire_reflection, services_that_are_served_are_listed_each_once)
{
    request_v1 request;
    grpc__reflection__v1__server_reflection_request__init(&request);
    request.message_request_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES;
    request.list_services = (char[]){"*"};
    ask_only(&request);
    const response_v1 *response = answer();

    cr_assert_eq(
        response->message_response_case,
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE);
    const Grpc__Reflection__V1__ListServiceResponse *list = response->list_services_response;
    cr_assert_eq(list->n_service, 3);
    cr_expect_str_eq(list->service[0]->name, "grpc.health.v1.Health");
    cr_expect_str_eq(list->service[1]->name, "grpc.reflection.v1.ServerReflection");
    cr_expect_str_eq(list->service[2]->name, "grpc.reflection.v1alpha.ServerReflection");
}

static const char *const symbols[][2] = {
    {"tradewake.v1.EventService", "tradewake/v1/events.proto"},
    {"tradewake.v1.EventService.SubmitEvent", "tradewake/v1/events.proto"},
    {"tradewake.v1.TradeEvent", "tradewake/v1/events.proto"},
    {"tradewake.v1.TradeEvent.open", "tradewake/v1/events.proto"},
    {"tradewake.v1.TradeEvent.action", "tradewake/v1/events.proto"},
    {"tradewake.v1.Follower.AdapterConfigEntry", "tradewake/v1/followers.proto"},
    {"tradewake.v1.Follower.AdapterConfigEntry.key", "tradewake/v1/followers.proto"},
    {"tradewake.v1.Side", "tradewake/v1/types.proto"},
    {"tradewake.v1.SIDE_BUY", "tradewake/v1/types.proto"},
    {"grpc.health.v1.HealthCheckResponse.ServingStatus", "grpc/health/v1/health.proto"},
    {"grpc.health.v1.HealthCheckResponse.SERVING", "grpc/health/v1/health.proto"},
    {"google.protobuf.Timestamp", "google/protobuf/timestamp.proto"},
};

Test(wire_reflection, symbols_of_every_kind_lead_to_their_file)
{
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        const response_v1 *response = ask_symbol(symbols[i][0]);
        cr_expect(is_file(response, symbols[i][1]), "%s", symbols[i][0]);
        cr_expect_str_eq(response->valid_host, "h");
        cr_expect_str_eq(response->original_request->file_containing_symbol, symbols[i][0]);
    }
}

static const char *const unknown_symbols[] = {
    "",
    "tradewake.v1",
    "tradewake.v1.",
    "tradewake.v1.Nothing",
    "tradewake.v1.TradeEvent.nothing",
    "tradewake.v1.Side.SIDE_BUY",
    "TradeEvent",
    ".tradewake.v1.TradeEvent",
    "tradewake.v1.TradeEventX",
};

Test(wire_reflection, an_unknown_symbol_is_an_error_inside_a_stream_that_goes_on)
{
    for (size_t i = 0; i < sizeof unknown_symbols / sizeof unknown_symbols[0]; i++) {
        const response_v1 *response = ask_symbol(unknown_symbols[i]);
        cr_assert_eq(
            response->message_response_case,
            GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE,
            "\"%s\"", unknown_symbols[i]);
        cr_expect_eq(response->error_response->error_code, 5);
    }
    request_v1 request;
    grpc__reflection__v1__server_reflection_request__init(&request);
    ask_only(&request);
    cr_expect_eq(answer()->error_response->error_code, 3);
    cr_expect(is_file(ask_file("tradewake/v1/events.proto"), "tradewake/v1/events.proto"));
}

Test(wire_reflection, a_file_comes_first_and_brings_everything_it_imports)
{
    for (uint32_t i = 0; i < tw_descriptor_files_count(); i++) {
        const struct tw_descriptor_file *file = tw_descriptor_file_at(i);
        const response_v1 *response = ask_file(file->name);
        cr_assert(is_file(response, file->name), "%s", file->name);
        const Grpc__Reflection__V1__FileDescriptorResponse *files =
            response->file_descriptor_response;
        for (size_t k = 0; k < file->parsed->n_dependency; k++) {
            const struct tw_descriptor_file *import =
                tw_descriptor_file_find(file->parsed->dependency[k]);
            size_t at = 0;
            while (at < files->n_file_descriptor_proto &&
                   files->file_descriptor_proto[at].len != import->size_bytes)
                at++;
            cr_expect_lt(at, files->n_file_descriptor_proto, "%s without %s", file->name,
                         import->name);
        }
    }
}

Test(wire_reflection, extensions_are_none_of_a_known_type_and_unknown_else)
{
    request_v1 request;
    grpc__reflection__v1__server_reflection_request__init(&request);
    request.message_request_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE;
    request.all_extension_numbers_of_type = (char[]){"tradewake.v1.TradeEvent"};
    ask_only(&request);
    const response_v1 *response = answer();
    cr_expect_eq(
        response->message_response_case,
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ALL_EXTENSION_NUMBERS_RESPONSE);
    cr_expect_str_eq(response->all_extension_numbers_response->base_type_name,
                     "tradewake.v1.TradeEvent");

    request.all_extension_numbers_of_type = (char[]){"tradewake.v1.Side"}; /* no message */
    ask_only(&request);
    cr_expect_eq(answer()->error_response->error_code, 5);
}

Test(wire_reflection, many_requests_at_once_are_answered_in_order)
{
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
            request_v1 request;
            request_make(&request, symbols[i][0]);
            ask_only(&request);
        }
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
            tw_arena_reset(&pair.arena);
            cr_assert_str_eq(answer()->original_request->file_containing_symbol, symbols[i][0]);
        }
}

/* The same question in both versions gives the same bytes. */
Test(wire_reflection, v1alpha_answers_as_v1_does)
{
    const response_v1 *v1 = ask_symbol("tradewake.v1.EventService");
    size_t size = protobuf_c_message_get_packed_size(&v1->base);
    uint8_t *bytes = malloc(size), *bytes_alpha;
    protobuf_c_message_pack(&v1->base, bytes);
    tw_wire_stream_close(stream);
    open_stream(V1ALPHA);

    Grpc__Reflection__V1alpha__ServerReflectionRequest request;
    grpc__reflection__v1alpha__server_reflection_request__init(&request);
    request.host = host;
    request.message_request_case =
        GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL;
    request.file_containing_symbol = (char[]){"tradewake.v1.EventService"};
    struct tw_error error = {0};
    cr_assert_eq(tw_wire_stream_write(stream, &request.base, &error), TW_OK);
    const response_v1 *alpha = answer(); /* only its base is looked at */

    cr_assert_eq(protobuf_c_message_get_packed_size(&alpha->base), size);
    bytes_alpha = malloc(size);
    protobuf_c_message_pack(&alpha->base, bytes_alpha);
    cr_expect_eq(memcmp(bytes, bytes_alpha, size), 0);
    free(bytes);
    free(bytes_alpha);
}

Test(wire_reflection, half_close_ends_with_ok)
{
    ask_symbol("tradewake.v1.Side");
    struct tw_error error = {0};
    struct tw_wire_answer ending;
    ProtobufCMessage *message = NULL;

    tw_wire_stream_half_close(stream);

    cr_expect_eq(tw_wire_stream_read(stream, in_ms(5000), &pair.arena, &message, &ending, &error),
                 TW_ENDED);
    cr_expect_eq(ending.code, 0);
}
