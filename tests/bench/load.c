#include "load.h"

#include <tradewake/base/clock.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUTSTANDING_MAX = 1024, RUN_S_MAX = 300 };

/* One unary call; what the core writes to. */
struct slot {
    struct load *load;
    uint32_t index;
    grpc_call *call;
    grpc_metadata_array headers, trailers;
    grpc_status_code code;
    grpc_slice words;
    grpc_byte_buffer *answer;
    int64_t sent_mono_ns;
};

/* The one call of a stream; the address of a byte is the tag of its batch. */
struct stream {
    grpc_call *call;
    grpc_metadata_array headers, trailers;
    grpc_status_code code;
    grpc_slice words;
    grpc_byte_buffer *answer;
    char opened, ended, sent, received;
    bool is_over, is_sending;
};

struct load {
    const char *path;
    enum load_kind kind;
    grpc_channel *channel;
    grpc_completion_queue *queue;
    void *method;
    struct stream stream;

    /* Of the run in progress. */
    const struct load_work *work;
    uint32_t n_sent, n_answered;
    bool has_failed;
    struct slot slots[OUTSTANDING_MAX];
};

/* ---- Life ---- */

struct load *load_open(const char *address, const char *path, enum load_kind kind)
{
    struct load *load = calloc(1, sizeof *load);
    grpc_arg args[] = {
        {.type = GRPC_ARG_INTEGER, .key = (char[]){GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL}, .value.integer = 1},
        {.type = GRPC_ARG_INTEGER, .key = (char[]){GRPC_ARG_ENABLE_HTTP_PROXY}, .value.integer = 0},
    };
    const grpc_channel_args list = {.num_args = sizeof args / sizeof args[0], .args = args};
    if (load == NULL)
        return NULL;
    grpc_init();
    grpc_channel_credentials *plain = grpc_insecure_credentials_create();
    load->channel = grpc_channel_create(address, plain, &list);
    grpc_channel_credentials_release(plain);
    load->queue = grpc_completion_queue_create_for_next(NULL);
    load->method = grpc_channel_register_call(load->channel, path, NULL, NULL);
    load->path = path;
    load->kind = kind;
    return load;
}

static grpc_event event_next(struct load *load)
{
    gpr_timespec until = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(RUN_S_MAX, GPR_TIMESPAN));
    return grpc_completion_queue_next(load->queue, until, NULL);
}

static void ending_clear(grpc_metadata_array *headers, grpc_metadata_array *trailers, grpc_slice words)
{
    grpc_metadata_array_destroy(headers);
    grpc_metadata_array_destroy(trailers);
    grpc_slice_unref(words);
}

static void stream_close(struct load *load)
{
    struct stream *stream = &load->stream;
    if (stream->call == NULL)
        return;
    grpc_call_cancel(stream->call, NULL);
    while (!stream->is_over)
        stream->is_over = event_next(load).tag == &stream->ended;
    grpc_call_unref(stream->call);
    ending_clear(&stream->headers, &stream->trailers, stream->words);
    stream->call = NULL;
}

void load_close(struct load *load)
{
    if (load == NULL)
        return;
    stream_close(load);
    grpc_completion_queue_shutdown(load->queue);
    while (event_next(load).type != GRPC_QUEUE_SHUTDOWN)
        continue;
    grpc_byte_buffer_destroy(load->stream.answer); /* one that came after the last run */
    grpc_completion_queue_destroy(load->queue);
    grpc_channel_destroy(load->channel);
    grpc_shutdown();
    free(load);
}

/* ---- Messages ---- */

static grpc_byte_buffer *message_make(struct load *load, uint32_t slot)
{
    uint8_t bytes[LOAD_MESSAGE_BYTES];
    size_t size = load->work->make(load->work->context, slot, bytes);
    grpc_slice slice = grpc_slice_from_copied_buffer((const char *)bytes, size);
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    load->slots[slot].sent_mono_ns = tw_mono_ns();
    load->n_sent++;
    return message;
}

static void answered(struct load *load, uint32_t slot)
{
    if (load->work->answered_us != NULL)
        load->work->answered_us[load->n_answered] = (double)(tw_mono_ns() - load->slots[slot].sent_mono_ns) / 1e3;
    load->n_answered++;
}

static void failed_say(struct load *load, grpc_status_code code, grpc_slice words)
{
    if (!load->has_failed)
        fprintf(stderr, "%s ended with code %d: %.*s\n", load->path, (int)code, (int)GRPC_SLICE_LENGTH(words),
                (const char *)GRPC_SLICE_START_PTR(words));
    load->has_failed = true;
}

static void batch_start(grpc_call *call, const grpc_op *ops, size_t n, void *tag)
{
    grpc_call_error refused = grpc_call_start_batch(call, ops, n, tag, NULL);
    assert(refused == GRPC_CALL_OK);
    (void)refused;
}

static grpc_call *call_make(struct load *load)
{
    return grpc_channel_create_registered_call(load->channel, NULL, GRPC_PROPAGATE_DEFAULTS, load->queue,
                                               load->method, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
}

static grpc_op status_op(grpc_metadata_array *trailers, grpc_status_code *code, grpc_slice *words)
{
    return (grpc_op){.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                     .data.recv_status_on_client = {
                         .trailing_metadata = trailers, .status = code, .status_details = words}};
}

/* ---- A call for each message ---- */

static void slot_send(struct load *load, uint32_t index)
{
    struct slot *slot = &load->slots[index];
    slot->load = load;
    slot->index = index;
    grpc_metadata_array_init(&slot->headers);
    grpc_metadata_array_init(&slot->trailers);
    slot->words = grpc_empty_slice();
    grpc_byte_buffer *message = message_make(load, index);
    slot->call = call_make(load);
    const grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &slot->headers},
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &slot->answer},
        status_op(&slot->trailers, &slot->code, &slot->words),
    };
    batch_start(slot->call, ops, sizeof ops / sizeof ops[0], slot);
    grpc_byte_buffer_destroy(message);
}

static void slot_take(struct load *load, struct slot *slot)
{
    answered(load, slot->index);
    if (slot->code != GRPC_STATUS_OK || slot->answer == NULL)
        failed_say(load, slot->code, slot->words);
    grpc_byte_buffer_destroy(slot->answer);
    grpc_call_unref(slot->call);
    ending_clear(&slot->headers, &slot->trailers, slot->words);
}

static void unary_run(struct load *load)
{
    for (uint32_t slot = 0; slot < load->work->outstanding && slot < load->work->count; slot++)
        slot_send(load, slot);
    while (load->n_answered < load->n_sent) {
        grpc_event event = event_next(load);
        if (event.type != GRPC_OP_COMPLETE) {
            fprintf(stderr, "%s: no answer within %d s\n", load->path, RUN_S_MAX);
            abort(); /* the core still writes to the slots */
        }
        struct slot *slot = event.tag;
        slot_take(load, slot);
        if (load->n_sent < load->work->count && !load->has_failed)
            slot_send(load, slot->index);
    }
}

/* ---- One call for all messages ---- */

static void stream_receive(struct stream *stream)
{
    const grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &stream->answer};
    batch_start(stream->call, &op, 1, &stream->received);
}

static void stream_open(struct load *load)
{
    struct stream *stream = &load->stream;
    grpc_metadata_array_init(&stream->headers);
    grpc_metadata_array_init(&stream->trailers);
    stream->words = grpc_empty_slice();
    stream->call = call_make(load);
    const grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &stream->headers},
    };
    const grpc_op status = status_op(&stream->trailers, &stream->code, &stream->words);
    batch_start(stream->call, ops, sizeof ops / sizeof ops[0], &stream->opened);
    batch_start(stream->call, &status, 1, &stream->ended);
    stream_receive(stream);
}

/* The hint is given while another message follows at once, so that the core may put them together. */
static void stream_send(struct load *load)
{
    struct stream *stream = &load->stream;
    const struct load_work *work = load->work;
    if (stream->is_sending || load->n_sent == work->count || load->n_sent - load->n_answered == work->outstanding)
        return;
    grpc_byte_buffer *message = message_make(load, load->n_sent % work->outstanding);
    bool is_more = load->n_sent < work->count && load->n_sent - load->n_answered < work->outstanding;
    const grpc_op op = {.op = GRPC_OP_SEND_MESSAGE,
                        .flags = is_more ? GRPC_WRITE_BUFFER_HINT : 0,
                        .data.send_message.send_message = message};
    stream->is_sending = true;
    batch_start(stream->call, &op, 1, &stream->sent);
    grpc_byte_buffer_destroy(message);
}

static void stream_take(struct load *load)
{
    struct stream *stream = &load->stream;
    if (stream->answer == NULL)
        return; /* the end; its status says why */
    answered(load, load->n_answered % load->work->outstanding);
    grpc_byte_buffer_destroy(stream->answer);
    stream->answer = NULL;
    stream_receive(stream);
}

static void stream_run(struct load *load)
{
    struct stream *stream = &load->stream;
    if (stream->call == NULL)
        stream_open(load);
    while (load->n_answered < load->work->count && !load->has_failed) {
        stream_send(load);
        grpc_event event = event_next(load);
        if (event.tag == &stream->sent)
            stream->is_sending = false;
        else if (event.tag == &stream->received)
            stream_take(load);
        stream->is_over = stream->is_over || event.tag == &stream->ended;
        if (stream->is_over || event.type != GRPC_OP_COMPLETE)
            failed_say(load, stream->code, stream->words);
    }
}

bool load_run(struct load *load, const struct load_work *work)
{
    assert(work->outstanding > 0 && work->outstanding <= OUTSTANDING_MAX);
    load->work = work;
    load->n_sent = load->n_answered = 0;
    load->has_failed = false;
    if (load->kind == LOAD_STREAM)
        stream_run(load);
    else
        unary_run(load);
    return !load->has_failed;
}
