#include "calling.h"
#include "core.h"

#include <tradewake/base/clock.h>
#include <tradewake/wire/async.h>
#include <tradewake/wire/descriptors.h>
#include <tradewake/wire/message.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* The core tries again after so long, and then ever less often; who calls has a back-off of his own. */
#define RECONNECT_MS_MIN     100
#define RECONNECT_MS_MAX     2000
#define CONNECT_TIMEOUT_MS   5000

struct tw_wire_line {
    grpc_completion_queue *queue;
    pthread_t thread;
    struct tw_wire_line_options options;

    /* Guarded by mutex. A batch on a queue that is shut down would be the core's end: batches are begun under it. */
    pthread_mutex_t mutex;
    bool is_stopping; /* somebody wants the end; the line's thread sees to it */
    bool is_shut;
    struct tw_wire_pending *out; /* all that are out */
};

struct tw_wire_channel {
    struct tw_wire_line *line;
    grpc_channel *core;
};

/* What comes back of a call; the address of its entry in `tags` is the tag. */
enum part { PART_SENT, PART_STATUS, PART_READ, PARTS };

struct tag {
    struct tw_wire_pending *pending;
    enum part part;
};

/* The line's thread alone, once the first batch is out; but for cancelling. */
struct tw_wire_pending {
    struct tag tags[PARTS];
    struct tw_wire_line *line;
    struct tw_wire_pending *next, *previous; /* in line->out; guarded by the line's mutex */
    const struct tw_method_type *type;
    grpc_call *call;
    struct wire_ending ending;
    grpc_byte_buffer *message;
    unsigned n_out;  /* batches */
    bool is_reading; /* one of them */
    bool is_over;    /* the status is there */
    void *context;
    tw_wire_done_fn *done;      /* unary */
    struct tw_wire_watch watch; /* stream */
};

/* ---- Calls. ---- */

static void pending_free(struct tw_wire_pending *pending)
{
    struct tw_wire_line *line = pending->line;
    pthread_mutex_lock(&line->mutex);
    if (pending->previous != NULL)
        pending->previous->next = pending->next;
    else if (line->out == pending)
        line->out = pending->next;
    if (pending->next != NULL)
        pending->next->previous = pending->previous;
    pthread_mutex_unlock(&line->mutex);
    grpc_byte_buffer_destroy(pending->message);
    wire_ending_clear(&pending->ending);
    if (pending->call != NULL)
        grpc_call_unref(pending->call);
    free(pending);
}

static tw_status pending_new(struct tw_wire_channel *channel, const char *path, const ProtobufCMessage *request,
                             bool is_stream, int64_t deadline_mono_ns, struct tw_wire_pending **ret,
                             struct tw_error *error)
{
    const struct tw_method_type *type = tw_method_type_find(path);
    if (type == NULL || type->client_streams || type->server_streams != is_stream || request->descriptor != type->input)
        return tw_error_set(error, TW_INVALID, "method %s is none that can be called so", path);
    struct tw_wire_pending *pending = calloc(1, sizeof *pending);
    if (pending == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for a call");
    wire_ending_init(&pending->ending);
    pending->line = channel->line;
    pending->type = type;
    for (int i = 0; i < PARTS; i++)
        pending->tags[i] = (struct tag){pending, (enum part)i};
    grpc_slice method = grpc_slice_from_copied_string(path);
    pending->call = grpc_channel_create_call(channel->core, NULL, GRPC_PROPAGATE_DEFAULTS, channel->line->queue, method,
                                             NULL, wire_timespec(deadline_mono_ns), NULL);
    grpc_slice_unref(method);
    *ret = pending;
    return TW_OK;
}

/* Under the line's mutex. */
static void batch_start(struct tw_wire_pending *pending, const grpc_op *ops, size_t n_ops, enum part part)
{
    grpc_call_error failure = grpc_call_start_batch(pending->call, ops, n_ops, &pending->tags[part], NULL);
    assert(failure == GRPC_CALL_OK);
    (void)failure;
}

/* The first batches are begun between the two. False: the line has stopped, and the pending is gone. */
static bool line_enter(struct tw_wire_pending *pending)
{
    struct tw_wire_line *line = pending->line;
    pthread_mutex_lock(&line->mutex);
    if (line->is_stopping) {
        pthread_mutex_unlock(&line->mutex);
        pending_free(pending);
        return false;
    }
    pending->next = line->out;
    if (line->out != NULL)
        line->out->previous = pending;
    line->out = pending;
    return true;
}

static void line_leave(struct tw_wire_line *line)
{
    pthread_mutex_unlock(&line->mutex);
}

tw_status tw_wire_call_begin_traced(struct tw_wire_channel *channel, const char *path, const ProtobufCMessage *request,
                                    int64_t deadline_mono_ns, const char *traceparent, tw_wire_done_fn *done, void *context,
                                    struct tw_wire_pending **ret_pending, struct tw_error *error)
{
    struct tw_wire_pending *pending;
    tw_status status = pending_new(channel, path, request, false, deadline_mono_ns, &pending, error);
    if (status != TW_OK)
        return status;
    pending->done = done;
    pending->context = context;
    pending->n_out = 1;
    if (!line_enter(pending))
        return tw_error_set(error, TW_STOPPED, "the calls have ended");
    if (ret_pending != NULL)
        *ret_pending = pending;
    grpc_byte_buffer *sent = wire_buffer_pack(request, protobuf_c_message_get_packed_size(request));
    bool is_traced = traceparent != NULL && traceparent[0] != '\0';
    grpc_metadata trace = {.key = grpc_slice_from_static_string("traceparent"),
                           .value = grpc_slice_from_copied_string(is_traced ? traceparent : "")};
    const grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA, .data.send_initial_metadata = {.count = is_traced, .metadata = &trace}},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = sent},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        wire_headers_op(&pending->ending),
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &pending->message},
        wire_status_op(&pending->ending),
    };
    batch_start(pending, ops, sizeof ops / sizeof ops[0], PART_STATUS);
    line_leave(channel->line); /* nothing of it is ours any more */
    grpc_byte_buffer_destroy(sent);
    grpc_slice_unref(trace.value); /* the core has its own */
    return TW_OK;
}

tw_status tw_wire_call_begin(struct tw_wire_channel *channel, const char *path, const ProtobufCMessage *request,
                             int64_t deadline_mono_ns, tw_wire_done_fn *done, void *context,
                             struct tw_wire_pending **ret_pending, struct tw_error *error)
{
    return tw_wire_call_begin_traced(channel, path, request, deadline_mono_ns, NULL, done, context, ret_pending, error);
}

static void read_begin(struct tw_wire_pending *pending)
{
    struct tw_wire_line *line = pending->line;
    pthread_mutex_lock(&line->mutex);
    if (line->is_shut) { /* it is cancelled already */
        pthread_mutex_unlock(&line->mutex);
        return;
    }
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &pending->message};
    pending->is_reading = true;
    pending->n_out++;
    batch_start(pending, &op, 1, PART_READ);
    pthread_mutex_unlock(&line->mutex);
}

tw_status tw_wire_watch_begin(struct tw_wire_channel *channel, const char *path, const ProtobufCMessage *request,
                              const struct tw_wire_watch *watch, void *context, struct tw_wire_pending **ret_pending,
                              struct tw_error *error)
{
    struct tw_wire_pending *pending;
    tw_status status = pending_new(channel, path, request, true, INT64_MAX, &pending, error);
    if (status != TW_OK)
        return status;
    pending->watch = *watch;
    pending->context = context;
    pending->n_out = 2;
    if (!line_enter(pending))
        return tw_error_set(error, TW_STOPPED, "the calls have ended");
    *ret_pending = pending;
    grpc_byte_buffer *sent = wire_buffer_pack(request, protobuf_c_message_get_packed_size(request));
    const grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = sent},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        wire_headers_op(&pending->ending),
    };
    /* The first read is begun when this has come back: on the line's thread, as every other. */
    const grpc_op ended = wire_status_op(&pending->ending);
    batch_start(pending, &ended, 1, PART_STATUS);
    batch_start(pending, ops, sizeof ops / sizeof ops[0], PART_SENT);
    line_leave(channel->line);
    grpc_byte_buffer_destroy(sent);
    return TW_OK;
}

void tw_wire_watch_read_on(struct tw_wire_pending *pending)
{
    if (!pending->is_reading && !pending->is_over)
        read_begin(pending);
}

void tw_wire_pending_cancel(struct tw_wire_pending *pending)
{
    grpc_call_cancel(pending->call, NULL);
}

/* ---- Answers: on the line's thread. ---- */

/* NULL: it is no message. Text that is none was emptied: the rest of the answer is worth having. */
static ProtobufCMessage *decode(const struct tw_wire_pending *pending, struct tw_arena *arena)
{
    const uint8_t *bytes;
    size_t size = grpc_byte_buffer_length(pending->message);
    ProtobufCMessage *message;
    struct tw_refusal refusal;
    tw_arena_init(arena, tw_message_decode_bytes_max(size) + size + 4096);
    if (!wire_buffer_bytes(pending->message, arena, &bytes, &size))
        return NULL;
    (void)!tw_message_decode(pending->type->output, bytes, size, arena, &message, &refusal);
    return message;
}

static void unary_over(struct tw_wire_pending *pending)
{
    struct tw_wire_answer answer;
    struct tw_arena arena = {0};
    ProtobufCMessage *response = NULL;
    wire_answer_read(&pending->ending, &answer);
    if (answer.code == GRPC_STATUS_OK && pending->message != NULL)
        response = decode(pending, &arena);
    if (answer.code == GRPC_STATUS_OK && response == NULL) {
        answer.code = GRPC_STATUS_INTERNAL;
        snprintf(answer.message, sizeof answer.message, "the answer is not a message of type %s",
                 pending->type->output->name);
    }
    pending->done(pending->context, &answer, response);
    tw_arena_clear(&arena);
}

static void message_over(struct tw_wire_pending *pending)
{
    struct tw_arena arena = {0};
    ProtobufCMessage *message = decode(pending, &arena);
    bool goes_on = true;
    grpc_byte_buffer *buffer = pending->message;
    if (message != NULL)
        goes_on = pending->watch.on_message(pending->context, message);
    else
        grpc_call_cancel_with_status(pending->call, GRPC_STATUS_INTERNAL, "a message that is none", NULL);
    tw_arena_clear(&arena);
    grpc_byte_buffer_destroy(buffer);
    pending->message = NULL;
    if (goes_on && !pending->is_over)
        read_begin(pending);
}

static void part_over(struct tw_wire_pending *pending, enum part part)
{
    pending->n_out--;
    if (part == PART_STATUS)
        pending->is_over = true;
    if (part == PART_SENT && !pending->is_over)
        read_begin(pending);
    if (part == PART_READ)
        pending->is_reading = false;
    if (part == PART_READ && pending->message != NULL)
        message_over(pending);
    if (pending->n_out > 0)
        return;
    if (pending->done != NULL) {
        unary_over(pending);
    } else if (pending->is_over) {
        struct tw_wire_answer answer;
        wire_answer_read(&pending->ending, &answer);
        pending->watch.on_end(pending->context, &answer);
    }
    if (pending->is_over)
        pending_free(pending);
}

/* ---- The line. ---- */

/* Everything that is out is cancelled, and nothing new begins. */
static bool line_shut(struct tw_wire_line *line)
{
    pthread_mutex_lock(&line->mutex);
    bool is_due = line->is_stopping && !line->is_shut;
    if (is_due) {
        line->is_shut = true;
        for (struct tw_wire_pending *pending = line->out; pending != NULL; pending = pending->next)
            grpc_call_cancel(pending->call, NULL);
        grpc_completion_queue_shutdown(line->queue);
    }
    bool is_shut = line->is_shut;
    pthread_mutex_unlock(&line->mutex);
    return is_shut;
}

static void *line_main(void *arg)
{
    struct tw_wire_line *line = arg;
    const struct tw_wire_line_options *options = &line->options;
    int64_t due = tw_mono_ns();
    for (;;) {
        grpc_event event = grpc_completion_queue_next(line->queue, wire_timespec(due), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        if (event.type == GRPC_OP_COMPLETE) {
            const struct tag *tag = event.tag;
            part_over(tag->pending, tag->part);
        }
        if (tw_mono_ns() < due)
            continue;
        if (!line_shut(line))
            options->on_tick(options->context);
        due = tw_mono_ns() + options->tick_ns;
    }
}

tw_status tw_wire_line_start(const struct tw_wire_line_options *options, struct tw_wire_line **ret_line,
                             struct tw_error *error)
{
    struct tw_wire_line *line = calloc(1, sizeof *line);
    if (line == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for a line");
    line->options = *options;
    pthread_mutex_init(&line->mutex, NULL);
    wire_core_init();
    line->queue = grpc_completion_queue_create_for_next(NULL);
    if (pthread_create(&line->thread, NULL, line_main, line) != 0) {
        grpc_completion_queue_shutdown(line->queue);
        grpc_completion_queue_destroy(line->queue);
        wire_core_exit();
        pthread_mutex_destroy(&line->mutex);
        free(line);
        return tw_error_set(error, TW_LIMIT, "no thread for %s", options->name);
    }
    pthread_setname_np(line->thread, options->name);
    *ret_line = line;
    return TW_OK;
}

void tw_wire_line_stop(struct tw_wire_line *line)
{
    if (line == NULL)
        return;
    pthread_mutex_lock(&line->mutex);
    line->is_stopping = true; /* seen at the next tick */
    pthread_mutex_unlock(&line->mutex);
    pthread_join(line->thread, NULL);
    grpc_completion_queue_destroy(line->queue);
    wire_core_exit();
    pthread_mutex_destroy(&line->mutex);
    free(line);
}

bool tw_wire_line_is_current(const struct tw_wire_line *line)
{
    return pthread_equal(line->thread, pthread_self()) != 0;
}

tw_status tw_wire_channel_open(struct tw_wire_line *line, const struct tw_wire_client_options *options,
                               struct tw_wire_channel **ret_channel, struct tw_error *error)
{
    struct tw_wire_channel *channel = calloc(1, sizeof *channel);
    if (channel == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for a channel");
    const grpc_arg more[] = {
        wire_arg_integer(GRPC_ARG_ENABLE_RETRIES, 0), /* nor what a service config would bring */
        wire_arg_integer(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
        wire_arg_integer(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, RECONNECT_MS_MIN),
        wire_arg_integer(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, RECONNECT_MS_MAX),
        wire_arg_integer(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, CONNECT_TIMEOUT_MS),
    };
    tw_status status = wire_channel_new(options, more, sizeof more / sizeof more[0], &channel->core, error);
    if (status != TW_OK) {
        free(channel);
        return status;
    }
    channel->line = line;
    *ret_channel = channel;
    return TW_OK;
}

void tw_wire_channel_close(struct tw_wire_channel *channel)
{
    if (channel == NULL)
        return;
    grpc_channel_destroy(channel->core);
    free(channel);
}

bool tw_wire_channel_is_ready(struct tw_wire_channel *channel)
{
    return grpc_channel_check_connectivity_state(channel->core, 1) == GRPC_CHANNEL_READY;
}
