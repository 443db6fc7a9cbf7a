#include "calling.h"
#include "core.h"
#include "message.h"

#include <tradewake/base/clock.h>
#include <tradewake/wire/client.h>
#include <tradewake/wire/descriptors.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A call waits on a queue of its own; making one costs several calls' time, so they are kept. */
enum { QUEUES_KEPT = 32 };

struct tw_wire_client {
    /* Set by open, read-only afterwards: any thread. */
    grpc_channel *channel;
    grpc_metadata headers[1]; /* of each call */
    size_t n_headers;

    /* Guarded by mutex. */
    pthread_mutex_t mutex;
    grpc_completion_queue *queues[QUEUES_KEPT];
    uint32_t n_queues;
};

/* The batches of a stream; the address of its entry is the tag. */
enum batch {
    BATCH_OPEN,
    BATCH_HEADERS,
    BATCH_STATUS,
    BATCH_READ,
    BATCH_WRITE,
    BATCH_CLOSE,
    BATCHES
};

struct tw_wire_stream {
    struct tw_wire_client *client;
    const struct tw_method_type *type;
    grpc_call *call;
    grpc_completion_queue *queue;
    char tags[BATCHES];

    /* The reading thread's alone. */
    struct wire_ending ending;
    grpc_byte_buffer *message;
    bool is_reading; /* a read is out */
    bool is_over;
    struct tw_wire_answer answer; /* once it is over */

    /* The writing thread's alone. */
    bool is_half_closed;
};

/* ---- Life. ---- */

static void token_set(struct tw_wire_client *client, const char *token)
{
    static const char scheme[] = "Bearer ";
    size_t size = strlen(token);
    grpc_slice value = grpc_slice_malloc(sizeof scheme - 1 + size);
    memcpy(GRPC_SLICE_START_PTR(value), scheme, sizeof scheme - 1);
    memcpy(GRPC_SLICE_START_PTR(value) + sizeof scheme - 1, token, size);
    client->headers[client->n_headers++] =
        (grpc_metadata){.key = grpc_slice_from_static_string("authorization"), .value = value};
}

tw_status tw_wire_client_open(const struct tw_wire_client_options *options, struct tw_wire_client **ret_client,
                              struct tw_error *error)
{
    if (options->address[0] == '\0')
        return tw_error_set(error, TW_INVALID, "the address is empty, expected HOST:PORT");
    struct tw_wire_client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for a client");
    pthread_mutex_init(&client->mutex, NULL);
    wire_core_init();
    tw_status status = wire_channel_new(options, NULL, 0, &client->channel, error);
    if (status != TW_OK) {
        tw_wire_client_close(client);
        return status;
    }
    if (options->token != NULL)
        token_set(client, options->token);
    *ret_client = client;
    return TW_OK;
}

tw_status tw_wire_client_open_plain(const char *address, struct tw_wire_client **ret_client, struct tw_error *error)
{
    const struct tw_wire_client_options options = {.address = address};
    return tw_wire_client_open(&options, ret_client, error);
}

static void queue_free(grpc_completion_queue *queue)
{
    grpc_completion_queue_shutdown(queue);
    grpc_completion_queue_destroy(queue);
}

void tw_wire_client_close(struct tw_wire_client *client)
{
    if (client == NULL)
        return;
    for (uint32_t i = 0; i < client->n_queues; i++)
        queue_free(client->queues[i]);
    if (client->channel != NULL)
        grpc_channel_destroy(client->channel);
    for (size_t i = 0; i < client->n_headers; i++)
        grpc_slice_unref(client->headers[i].value);
    wire_core_exit();
    pthread_mutex_destroy(&client->mutex);
    free(client);
}

static grpc_completion_queue *queue_take(struct tw_wire_client *client)
{
    grpc_completion_queue *queue = NULL;
    pthread_mutex_lock(&client->mutex);
    if (client->n_queues > 0)
        queue = client->queues[--client->n_queues];
    pthread_mutex_unlock(&client->mutex);
    return queue != NULL ? queue : grpc_completion_queue_create_for_pluck(NULL);
}

/* Nothing of the call that used it is out any more. */
static void queue_give(struct tw_wire_client *client, grpc_completion_queue *queue)
{
    pthread_mutex_lock(&client->mutex);
    bool is_kept = client->n_queues < QUEUES_KEPT;
    if (is_kept)
        client->queues[client->n_queues++] = queue;
    pthread_mutex_unlock(&client->mutex);
    if (!is_kept)
        queue_free(queue);
}

/* ---- Endings. ---- */

/* What a status that is not OK means to the caller. */
static tw_status answer_status(const struct tw_wire_answer *answer, struct tw_error *error)
{
    tw_status status = TW_REFUSED;
    if (answer->code == GRPC_STATUS_DEADLINE_EXCEEDED)
        status = TW_TIMEOUT;
    else if (answer->code == GRPC_STATUS_UNAVAILABLE &&
             answer->refusal.reason == TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_UNSPECIFIED)
        status = TW_UNREACHABLE;
    return tw_error_set(error, status, "%s: %s", tw_grpc_code_name(answer->code), answer->message);
}

/* ---- Messages. ---- */

static tw_status message_read(const ProtobufCMessageDescriptor *type,
                              const grpc_byte_buffer *buffer, struct tw_arena *arena,
                              ProtobufCMessage **ret_message, struct tw_error *error)
{
    const uint8_t *bytes;
    size_t size;
    bool is_too_large = true;
    ProtobufCMessage *message = NULL;
    if (wire_buffer_bytes(buffer, arena, &bytes, &size))
        message = wire_unpack(type, bytes, size, arena, SIZE_MAX, &is_too_large);
    if (message != NULL) {
        *ret_message = message;
        return TW_OK;
    }
    if (is_too_large)
        return tw_error_set(error, TW_LIMIT, "the answer of %zu bytes does not fit its memory",
                            grpc_byte_buffer_length((grpc_byte_buffer *)(uintptr_t)buffer));
    return tw_error_set(error, TW_IO, "the answer is not a message of type %s", type->name);
}

static tw_status method_find(const char *path, const ProtobufCMessage *request,
                             const struct tw_method_type **ret_type, struct tw_error *error)
{
    const struct tw_method_type *type = tw_method_type_find(path);
    if (type == NULL)
        return tw_error_set(error, TW_INVALID, "method %s is in no .proto file", path);
    if (request != NULL && request->descriptor != type->input)
        return tw_error_set(error, TW_INVALID, "method %s takes %s, not %s", path,
                            type->input->name, request->descriptor->name);
    *ret_type = type;
    return TW_OK;
}

static grpc_call *call_new(struct tw_wire_client *client, const char *path,
                           grpc_completion_queue *queue, int64_t deadline_mono_ns)
{
    grpc_slice method = grpc_slice_from_copied_string(path);
    grpc_call *call =
        grpc_channel_create_call(client->channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue, method,
                                 NULL, wire_timespec(deadline_mono_ns), NULL);
    grpc_slice_unref(method);
    return call;
}

/* ops may come from the stack; the tag stands for all of them. */
static void batch_start(grpc_call *call, const grpc_op *ops, size_t n_ops, void *tag)
{
    grpc_call_error failure = grpc_call_start_batch(call, ops, n_ops, tag, NULL);
    assert(failure == GRPC_CALL_OK);
    (void)failure;
}

static grpc_event batch_await(grpc_completion_queue *queue, void *tag, int64_t until_mono_ns)
{
    return grpc_completion_queue_pluck(queue, tag, wire_timespec(until_mono_ns), NULL);
}

static grpc_op opening_op(struct tw_wire_client *client)
{
    return (grpc_op){
        .op = GRPC_OP_SEND_INITIAL_METADATA,
        .data.send_initial_metadata = {.count = client->n_headers, .metadata = client->headers},
    };
}

/* ---- Unary calls. ---- */

tw_status tw_wire_client_call(struct tw_wire_client *client, const char *path,
                              const ProtobufCMessage *request, int64_t deadline_mono_ns,
                              struct tw_arena *arena, ProtobufCMessage **ret_response,
                              struct tw_wire_answer *ret_answer, struct tw_error *error)
{
    const struct tw_method_type *type;
    tw_status status = method_find(path, request, &type, error);
    if (status != TW_OK)
        return status;
    if (type->client_streams || type->server_streams)
        return tw_error_set(error, TW_INVALID, "method %s streams", path);

    struct wire_ending ending;
    wire_ending_init(&ending);
    grpc_completion_queue *queue = queue_take(client);
    grpc_call *call = call_new(client, path, queue, deadline_mono_ns);
    grpc_byte_buffer *sent = wire_buffer_pack(request, protobuf_c_message_get_packed_size(request));
    grpc_byte_buffer *received = NULL;
    grpc_op ops[] = {
        opening_op(client),
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = sent},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        wire_headers_op(&ending),
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &received},
        wire_status_op(&ending),
    };
    batch_start(call, ops, sizeof ops / sizeof ops[0], call);
    batch_await(queue, call, INT64_MAX); /* the core keeps the call's deadline */

    struct tw_wire_answer answer;
    wire_answer_read(&ending, &answer);
    if (ret_answer != NULL)
        *ret_answer = answer;
    if (ending.code != GRPC_STATUS_OK)
        status = answer_status(&answer, error);
    else if (received == NULL)
        status = tw_error_set(error, TW_IO, "%s answered OK without a message", path);
    else
        status = message_read(type->output, received, arena, ret_response, error);

    grpc_byte_buffer_destroy(sent);
    grpc_byte_buffer_destroy(received);
    wire_ending_clear(&ending);
    grpc_call_unref(call);
    queue_give(client, queue);
    return status;
}

/* ---- Streams. ---- */

static void opening_send(struct tw_wire_stream *stream, const ProtobufCMessage *request)
{
    grpc_op ops[3] = {opening_op(stream->client)};
    size_t n_ops = 1;
    grpc_byte_buffer *sent = NULL;
    if (request != NULL) {
        sent = wire_buffer_pack(request, protobuf_c_message_get_packed_size(request));
        ops[n_ops++] =
            (grpc_op){.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = sent};
        ops[n_ops++] = (grpc_op){.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
        stream->is_half_closed = true;
    }
    batch_start(stream->call, ops, n_ops, &stream->tags[BATCH_OPEN]);
    grpc_byte_buffer_destroy(sent);
}

tw_status tw_wire_stream_open(struct tw_wire_client *client, const char *path,
                              const ProtobufCMessage *request, int64_t deadline_mono_ns,
                              struct tw_wire_stream **ret_stream, struct tw_error *error)
{
    const struct tw_method_type *type;
    tw_status status = method_find(path, request, &type, error);
    if (status != TW_OK)
        return status;
    if (!type->server_streams || type->client_streams != (request == NULL))
        return tw_error_set(error, TW_INVALID, "method %s %s", path,
                            !type->server_streams  ? "does not stream"
                            : type->client_streams ? "takes its messages one by one"
                                                   : "takes one message at its opening");
    struct tw_wire_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for a stream");

    stream->client = client;
    stream->type = type;
    stream->queue = queue_take(client);
    stream->call = call_new(client, path, stream->queue, deadline_mono_ns);
    wire_ending_init(&stream->ending);
    opening_send(stream, request);
    grpc_op headers = wire_headers_op(&stream->ending), ended = wire_status_op(&stream->ending);
    batch_start(stream->call, &headers, 1, &stream->tags[BATCH_HEADERS]);
    batch_start(stream->call, &ended, 1, &stream->tags[BATCH_STATUS]);
    *ret_stream = stream;
    return TW_OK;
}

tw_status tw_wire_stream_write(struct tw_wire_stream *stream, const ProtobufCMessage *message,
                               struct tw_error *error)
{
    assert(message->descriptor == stream->type->input);
    if (stream->is_half_closed)
        return tw_error_set(error, TW_INVALID, "the stream is half-closed: nothing may be sent");
    void *tag = &stream->tags[BATCH_WRITE];
    grpc_byte_buffer *sent = wire_buffer_pack(message, protobuf_c_message_get_packed_size(message));
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = sent};
    batch_start(stream->call, &op, 1, tag);
    grpc_event event = batch_await(stream->queue, tag, INT64_MAX);
    grpc_byte_buffer_destroy(sent);
    if (!event.success)
        return tw_error_set(error, TW_ENDED, "the stream is over; reading tells why");
    return TW_OK;
}

void tw_wire_stream_half_close(struct tw_wire_stream *stream)
{
    if (stream->is_half_closed)
        return;
    stream->is_half_closed = true;
    void *tag = &stream->tags[BATCH_CLOSE];
    grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
    batch_start(stream->call, &op, 1, tag);
    batch_await(stream->queue, tag, INT64_MAX);
}

/* The status is there, or about to be: nothing else comes before it any more. */
static void over(struct tw_wire_stream *stream)
{
    if (stream->is_over)
        return;
    batch_await(stream->queue, &stream->tags[BATCH_STATUS], INT64_MAX);
    wire_answer_read(&stream->ending, &stream->answer);
    stream->is_over = true;
}

tw_status tw_wire_stream_read(struct tw_wire_stream *stream, int64_t until_mono_ns,
                              struct tw_arena *arena, ProtobufCMessage **ret_message,
                              struct tw_wire_answer *ret_answer, struct tw_error *error)
{
    void *tag = &stream->tags[BATCH_READ];
    if (!stream->is_reading && !stream->is_over) {
        grpc_op op = {.op = GRPC_OP_RECV_MESSAGE,
                      .data.recv_message.recv_message = &stream->message};
        stream->is_reading = true;
        batch_start(stream->call, &op, 1, tag);
    }
    if (stream->is_reading) {
        grpc_event event = batch_await(stream->queue, tag, until_mono_ns);
        if (event.type == GRPC_QUEUE_TIMEOUT)
            return tw_error_set(error, TW_TIMEOUT, "no message yet");
        stream->is_reading = false;
    }

    if (stream->message != NULL) {
        tw_status status =
            message_read(stream->type->output, stream->message, arena, ret_message, error);
        grpc_byte_buffer_destroy(stream->message);
        stream->message = NULL;
        return status;
    }
    over(stream);
    if (ret_answer != NULL)
        *ret_answer = stream->answer;
    if (stream->answer.code == GRPC_STATUS_OK)
        return tw_error_set(error, TW_ENDED, "the stream is over");
    return answer_status(&stream->answer, error);
}

void tw_wire_stream_close(struct tw_wire_stream *stream)
{
    if (stream == NULL)
        return;
    if (!stream->is_over)
        grpc_call_cancel(stream->call, NULL);
    over(stream);
    batch_await(stream->queue, &stream->tags[BATCH_OPEN], INT64_MAX);
    batch_await(stream->queue, &stream->tags[BATCH_HEADERS], INT64_MAX);
    if (stream->is_reading)
        batch_await(stream->queue, &stream->tags[BATCH_READ], INT64_MAX);

    grpc_byte_buffer_destroy(stream->message);
    wire_ending_clear(&stream->ending);
    grpc_call_unref(stream->call);
    queue_give(stream->client, stream->queue);
    free(stream);
}
