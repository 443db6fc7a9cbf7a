#include "core.h"
#include "details.h"
#include "serving.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/crash_point.h>
#include <tradewake/base/limits.h>
#include <tradewake/base/log.h>
#include <tradewake/wire/message.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON(name) TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_##name

/* What a handler may build its answer from, decoding included. */
#define CALL_ARENA_BYTES_MAX (32u * 1024u * 1024u)
/* What a struct that waits for its next call may keep. */
#define CALL_ARENA_KEPT_BYTES_MAX (64u * 1024u)
#define CALL_HEADERS_BYTES_MAX    (32u * 1024u)
#define REQUEST_ID_CHARS_MAX      128u

#define DRAIN_RETRY_NS    TW_NS_PER_S
#define OVERLOAD_RETRY_NS (100 * TW_NS_PER_MS)
#define PLACE_HELD_NS     TW_NS_PER_MS /* well above the way from headers to message of one packet */

enum { TRAILERS_MAX = 3 };

struct header {
    struct header *next;
    const char *key;
    const char *value;
};

/* ---- Structs. ---- */

struct tw_call *wire_call_new(struct wire_queue *queue)
{
    struct tw_call *call = calloc(1, sizeof *call);
    if (call == NULL)
        return NULL;
    call->queue = queue;
    for (unsigned kind = 0; kind < OP_KINDS; kind++)
        call->ops[kind] = (struct op){.call = call, .kind = (enum op_kind)kind};
    grpc_metadata_array_init(&call->metadata);
    tw_arena_init(&call->kept, CALL_HEADERS_BYTES_MAX);
    tw_arena_init(&call->arena, CALL_ARENA_BYTES_MAX);
    return call;
}

static void arena_reuse(struct tw_arena *arena)
{
    if (arena->used_bytes > CALL_ARENA_KEPT_BYTES_MAX)
        tw_arena_clear(arena);
    else
        tw_arena_reset(arena);
}

void wire_call_recycle(struct tw_call *call)
{
    assert(call->core == NULL);
    assert(call->message == NULL);
    gpr_free(call->peer);
    arena_reuse(&call->arena);
    tw_arena_reset(&call->kept);
    call->metadata.count = 0;

    *call = (struct tw_call){
        .queue = call->queue,
        .metadata = call->metadata,
        .kept = call->kept,
        .arena = call->arena,
    };
    for (unsigned kind = 0; kind < OP_KINDS; kind++)
        call->ops[kind] = (struct op){.call = call, .kind = (enum op_kind)kind};
}

void wire_call_free(struct tw_call *call)
{
    gpr_free(call->peer);
    grpc_metadata_array_destroy(&call->metadata);
    tw_arena_clear(&call->kept);
    tw_arena_clear(&call->arena);
    free(call);
}

/* ---- Batches. ---- */

static void batch_start(struct tw_call *call, enum op_kind kind, const grpc_op *ops, size_t n_ops)
{
    assert((call->out & 1u << kind) == 0);
    call->out |= 1u << kind;
    grpc_call_error error = grpc_call_start_batch(call->core, ops, n_ops, &call->ops[kind], NULL);
    if (error != GRPC_CALL_OK) {
        /* The batch never completes, so the call would never end: a bug of ours, and no way on. */
        tw_log(TW_LOG_ERROR, "wire.batch_refused", "op=%d error=%d next=abort", (int)kind,
               (int)error);
        abort();
    }
}

static grpc_op close_op(struct tw_call *call)
{
    call->is_close_started = true;
    return (grpc_op){.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                     .data.recv_close_on_server.cancelled = &call->cancelled};
}

/* From here on we hear of it when the client goes away. */
static void close_watch(struct tw_call *call)
{
    if (call->is_close_started)
        return;
    grpc_op op = close_op(call);
    batch_start(call, OP_CLOSE, &op, 1);
}

static void message_read(struct tw_call *call)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->message};
    batch_start(call, OP_MESSAGE, &op, 1);
}

/* The caller's x-request-id, when it is one. The value belongs to the core's call. */
static bool request_id(const struct tw_call *call, grpc_metadata *ret)
{
    static const char key[] = "x-request-id";
    for (size_t i = 0; i < call->metadata.count; i++) {
        const grpc_metadata *header = &call->metadata.metadata[i];
        if (!wire_slice_is(header->key, key, sizeof key - 1))
            continue;
        if (GRPC_SLICE_LENGTH(header->value) > REQUEST_ID_CHARS_MAX)
            return false;
        *ret = (grpc_metadata){.key = grpc_slice_from_static_string(key), .value = header->value};
        return true;
    }
    return false;
}

/* Tells the client that its stream is open. */
static void headers_send(struct tw_call *call)
{
    grpc_metadata metadata;
    grpc_op op = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    if (request_id(call, &metadata)) {
        op.data.send_initial_metadata.count = 1;
        op.data.send_initial_metadata.metadata = &metadata;
    }
    call->has_headers = true;
    batch_start(call, OP_HEADERS, &op, 1);
}

static grpc_slice pushback_slice(int64_t pushback_ms)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)pushback_ms);
    return grpc_slice_from_copied_string(text);
}

static size_t trailers_fill(const struct tw_call *call, const struct ending *ending,
                            grpc_metadata trailers[TRAILERS_MAX])
{
    size_t count = 0;
    if (GRPC_SLICE_LENGTH(ending->details) > 0)
        trailers[count++] =
            (grpc_metadata){.key = grpc_slice_from_static_string("grpc-status-details-bin"),
                            .value = ending->details};
    if (ending->pushback_ms > 0)
        trailers[count++] = (grpc_metadata){
            .key = grpc_slice_from_static_string("grpc-retry-pushback-ms"),
            .value = pushback_slice(ending->pushback_ms)}; /* inline: nothing to give back */
    if (request_id(call, &trailers[count]))
        count++;
    return count;
}

static void ending_clear(struct ending *ending)
{
    grpc_slice_unref(ending->message);
    grpc_slice_unref(ending->details);
    *ending = (struct ending){.code = GRPC_STATUS_OK};
}

/* The last batch. answer: NULL, or a unary call's; takes it. Without headers before and without an
 * answer this becomes what HTTP/2 calls trailers-only. */
static void status_send(struct tw_call *call, struct ending *ending, grpc_byte_buffer *answer)
{
    grpc_op ops[4];
    size_t n_ops = 0;
    grpc_metadata trailers[TRAILERS_MAX];
    if (!call->has_headers)
        ops[n_ops++] = (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA};
    call->has_headers = true;
    if (answer != NULL)
        ops[n_ops++] =
            (grpc_op){.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = answer};
    ops[n_ops] = (grpc_op){.op = GRPC_OP_SEND_STATUS_FROM_SERVER};
    ops[n_ops].data.send_status_from_server.status = ending->code;
    ops[n_ops].data.send_status_from_server.trailing_metadata = trailers;
    ops[n_ops].data.send_status_from_server.trailing_metadata_count =
        trailers_fill(call, ending, trailers);
    if (GRPC_SLICE_LENGTH(ending->message) > 0)
        ops[n_ops].data.send_status_from_server.status_details = &ending->message;
    n_ops++;
    if (!call->is_close_started) {
        call->is_close_in_finish = true;
        ops[n_ops++] = close_op(call);
    }
    batch_start(call, OP_FINISH, ops, n_ops);
    if (answer != NULL)
        grpc_byte_buffer_destroy(answer); /* its slices have been moved out */
    ending_clear(ending);                 /* the core has taken its own references */
}

/* ---- Ending. ---- */

static struct ending ending_of(const struct tw_refusal *refusal)
{
    char message[WIRE_MESSAGE_BYTES];
    uint8_t details[TW_ERROR_DETAILS_BYTES_MAX];
    tw_refusal_message(refusal, message, sizeof message);
    size_t size = wire_details_pack(refusal, message, details);
    return (struct ending){
        .code = (grpc_status_code)tw_refusal_code(refusal->reason),
        .message = grpc_slice_from_copied_string(message),
        .details = grpc_slice_from_copied_buffer((const char *)details, size),
        .pushback_ms = (refusal->retry_after_ns + TW_NS_PER_MS - 1) / TW_NS_PER_MS,
    };
}

/* Nothing may follow. What is being written goes first. */
static void end(struct tw_call *call, struct ending ending)
{
    assert(call->phase == CALL_OPEN);
    call->phase = CALL_ENDING;
    call->ending = ending;
    if (call->is_closed) /* nobody is there to hear it */
        ending_clear(&call->ending);
    else if ((call->out & 1u << OP_WRITE) != 0)
        call->is_end_pending = true;
    else
        status_send(call, &call->ending, NULL);
}

static void refuse(struct tw_call *call, const struct tw_refusal *refusal)
{
    if (call->phase == CALL_OPEN)
        end(call, ending_of(refusal));
}

static void refuse_shutting_down(struct tw_call *call)
{
    struct tw_refusal refusal;
    tw_refuse(&refusal, REASON(SHUTTING_DOWN), NULL, "the server is going away; try again");
    refusal.retry_after_ns = DRAIN_RETRY_NS;
    refuse(call, &refusal);
}

static void live_remove(struct tw_call *call)
{
    struct wire_queue *queue = call->queue;
    if (call->previous != NULL)
        call->previous->next = call->next;
    else
        queue->live = call->next;
    if (call->next != NULL)
        call->next->previous = call->previous;
    call->next = call->previous = NULL;
    queue->n_live--;
}

static void live_add(struct tw_call *call)
{
    struct wire_queue *queue = call->queue;
    call->previous = NULL;
    call->next = queue->live;
    if (call->next != NULL)
        call->next->previous = call;
    queue->live = call;
    queue->n_live++;
}

static void finish(struct tw_call *call)
{
    wire_queue_timer_set(call->queue, call, INT64_MAX);
    if (call->is_counted)
        peers_give(&call->queue->server->peers, call->peer);
    if (call->has_row)
        call->queue->turns.rows[call->row].live--;
    call->phase = CALL_OVER;
    if (call->is_shown && call->method->row->on_finished != NULL)
        call->method->row->on_finished(call, call->is_cancelled);

    assert(!call->is_in_place); /* its message came, or the core's word that none will */
    live_remove(call);
    grpc_byte_buffer_destroy(call->message);
    call->message = NULL;
    call->metadata.count = 0; /* its elements go with the core's call */
    grpc_call_unref(call->core);
    call->core = NULL;
    tw_call_unref(call);
}

/* After every event: a call is over when the core has nothing of it any more. */
static void settle(struct tw_call *call)
{
    if (call->is_closed && call->out == 0)
        finish(call);
}

/* ---- Reading. ---- */

static void reading_go_on(struct tw_call *call)
{
    if (call->phase == CALL_OPEN && !call->is_half_closed && !call->is_paused &&
        !call->is_in_request && (call->out & 1u << OP_MESSAGE) == 0)
        message_read(call);
}

static void half_closed(struct tw_call *call)
{
    call->is_half_closed = true;
    if (call->phase != CALL_OPEN)
        return;
    if (call->method->row->on_half_close == NULL) {
        tw_call_end(call);
        return;
    }
    call->is_shown = true;
    call->method->row->on_half_close(call);
}

static void request_give(struct tw_call *call, const ProtobufCMessage *request,
                         const struct tw_refusal *invalid)
{
    call->is_shown = true;
    call->is_in_request = true;
    call->method->row->on_request(call, request, invalid);
    call->is_in_request = false;
}

/* The message in the call's arena, or why not. True = as it should be. */
static bool request_decode(struct tw_call *call, const grpc_byte_buffer *buffer,
                           ProtobufCMessage **ret_request, struct tw_refusal *ret_invalid)
{
    const struct wire_method *method = call->method;
    size_t size = buffer->data.raw.slice_buffer.length;
    *ret_request = NULL;
    if (size > method->request_bytes_max) {
        tw_refuse(ret_invalid, REASON(TOO_LARGE), NULL,
                  "the message has %zu bytes; %s takes at most %u", size, method->type->name,
                  method->request_bytes_max);
        tw_refusal_fact_add(ret_invalid, "size_bytes", "%zu", size);
        tw_refusal_fact_add(ret_invalid, "size_bytes_max", "%u", method->request_bytes_max);
        return false;
    }

    const uint8_t *bytes;
    if (!wire_buffer_bytes(buffer, &call->arena, &bytes, &size))
        return tw_refuse(ret_invalid, REASON(OVERLOADED), NULL, "no memory for the message");
    const struct tw_wire_options *options = &call->queue->server->options;
    return tw_message_decode(method->type->input, bytes, size, &call->arena, ret_request,
                             ret_invalid) &&
           (options->admit == NULL ||
            options->admit(options->context, call, *ret_request, ret_invalid));
}

static void request_take(struct tw_call *call, const grpc_byte_buffer *buffer)
{
    ProtobufCMessage *request;
    struct tw_refusal invalid;
    tw_crash_point("rpc.received");
    if (request_decode(call, buffer, &request, &invalid)) {
        call->request = call->method->row->watches ? request : NULL;
        request_give(call, request, NULL);
    } else if (call->method->row->takes_invalid) {
        request_give(call, request, &invalid);
    } else {
        refuse(call, &invalid);
    }
}

static void count_refuse(struct tw_call *call, const char *came)
{
    struct tw_refusal refusal;
    tw_refuse(&refusal, REASON(UNIMPLEMENTED), NULL, "%s takes exactly one message; %s",
              call->method->type->name, came);
    refuse(call, &refusal);
}

/* The only message of a unary or server-streaming call. If what follows it has been received, too,
 * it is looked at first: a second message is refused before anything is done. It is not waited
 * for, because some clients half-close a loop iteration later. */
static void only_message_take(struct tw_call *call, grpc_byte_buffer *buffer)
{
    int ok;
    message_read(call);
    if (wire_queue_completed(call->queue, &call->ops[OP_MESSAGE], &ok)) {
        call->out &= ~(1u << OP_MESSAGE);
        call->is_half_closed = call->message == NULL;
        if (call->is_half_closed && grpc_call_failed_before_recv_message(call->core)) {
            close_watch(call); /* the client has withdrawn it */
            return;
        }
    }
    if (call->message != NULL) {
        count_refuse(call, "more came");
        return;
    }

    request_take(call, buffer);
    if (call->phase == CALL_OPEN && call->method->is_stream && !call->has_headers)
        headers_send(call);
    if (call->phase == CALL_OPEN)
        close_watch(call);
}

static void stream_message_take(struct tw_call *call, grpc_byte_buffer *buffer)
{
    request_take(call, buffer);
    arena_reuse(&call->arena);
    reading_go_on(call);
}

static void message_take(struct tw_call *call, grpc_byte_buffer *buffer)
{
    int64_t from_ns = call->has_row ? tw_mono_ns() : 0;
    if (call->method->type->client_streams)
        stream_message_take(call, buffer);
    else
        only_message_take(call, buffer);
    if (call->has_row)
        turns_used(&call->queue->turns, call->row, from_ns, tw_mono_ns());
}

/* True: its caller has had more of this thread than his share; the call keeps the message until its turn. */
static bool must_wait(struct tw_call *call, grpc_byte_buffer *buffer)
{
    struct wire_queue *queue = call->queue;
    if (!call->has_row || !turns_must_wait(&queue->turns, call->row, tw_mono_ns()))
        return false;
    call->message = buffer;
    tw_call_ref(call);
    turns_wait(&queue->turns, call->row, &call->turn);
    return true;
}

void wire_call_on_turn(struct tw_call *call)
{
    grpc_byte_buffer *buffer = call->message;
    assert(call->phase != CALL_OVER);
    call->message = NULL;
    if (call->phase == CALL_OPEN && !call->is_closed && !call->is_half_closed)
        message_take(call, buffer);
    grpc_byte_buffer_destroy(buffer);
    if (call->phase == CALL_OPEN || call->phase == CALL_ENDING)
        settle(call);
}

static void message_arrived(struct tw_call *call, grpc_byte_buffer *buffer, bool ok)
{
    bool is_client_stream = call->method->type->client_streams;
    if (buffer == NULL) {
        /* The core says "end of stream" and "cancelled" the same way. */
        if (!ok || call->is_closed || grpc_call_failed_before_recv_message(call->core))
            close_watch(call);
        else if (is_client_stream && call->is_half_closed)
            return; /* we half-closed it before the client did */
        else if (is_client_stream)
            half_closed(call);
        else if (!call->has_message && call->phase == CALL_OPEN)
            count_refuse(call, "none came");
        else
            call->is_half_closed = true;
        return;
    }

    bool is_another = call->has_message;
    call->has_message = true;
    if (call->phase == CALL_OPEN && !call->is_closed && !call->is_half_closed) {
        if (is_client_stream) {
            call->received_mono_ns = tw_mono_ns();
            call->received_wall_ns = tw_wall_ns();
        }
        if (is_another && !is_client_stream)
            count_refuse(call, "more came");
        else if (must_wait(call, buffer))
            return;
        else
            message_take(call, buffer);
    }
    grpc_byte_buffer_destroy(buffer);
}

/* A call of one message keeps its place among those that wait in the core until that message is
 * served, so that a queue accepts no more calls than it is about to serve: the others stay in the
 * core, where the next free queue finds them. */
static void place_hold(struct tw_call *call)
{
    call->is_in_place = true;
    wire_queue_timer_set(call->queue, call, call->received_mono_ns + PLACE_HELD_NS);
}

/* True = its place is free; the caller asks for another call. */
static bool place_leave(struct tw_call *call)
{
    bool was_in_place = call->is_in_place;
    call->is_in_place = false;
    if (was_in_place)
        wire_queue_timer_set(call->queue, call, INT64_MAX);
    return was_in_place;
}

static void on_message(struct tw_call *call, bool ok)
{
    grpc_byte_buffer *buffer = call->message;
    call->message = NULL;
    bool is_place_free = place_leave(call);
    message_arrived(call, buffer, ok);
    if (is_place_free)
        wire_queue_request(call->queue, NULL);
}

/* ---- The door. ---- */

static bool stream_admit(struct tw_call *call, struct tw_refusal *ret)
{
    struct tw_wire_server *server = call->queue->server;
    if (atomic_load_explicit(&server->is_ending_streams, memory_order_acquire)) {
        tw_refuse(ret, REASON(SHUTTING_DOWN), NULL, "the server is going away; try again");
        ret->retry_after_ns = DRAIN_RETRY_NS;
        return false;
    }
    call->is_counted = peers_take(&server->peers, tw_call_peer(call), server->streams_per_peer_max);
    if (call->is_counted)
        return true;
    tw_refuse(ret, REASON(TOO_MANY_STREAMS), NULL,
              "this connection has %u streams open; close one first", server->streams_per_peer_max);
    tw_refusal_fact_add(ret, "streams_max", "%u", server->streams_per_peer_max);
    return false;
}

/* Where it is asked who calls, no caller takes all the places of a thread. */
static bool caller_admit(struct tw_call *call, struct tw_refusal *ret)
{
    struct wire_queue *queue = call->queue;
    if (call->caller == NULL || queue->is_stream)
        return true;
    uint32_t row = turns_row(&queue->turns, call->caller, call->received_mono_ns);
    if (queue->turns.rows[row].live >= WIRE_LIVE_PER_CALLER_MAX) {
        tw_refuse(ret, REASON(OVERLOADED), NULL, "this caller has too many calls open at once; try again");
        ret->retry_after_ns = OVERLOAD_RETRY_NS;
        return false;
    }
    call->row = row;
    call->has_row = true;
    queue->turns.rows[row].live++;
    return true;
}

/* On the headers alone, before anything is read. */
static bool admit(struct tw_call *call, struct tw_refusal *ret)
{
    struct tw_wire_server *server = call->queue->server;
    const struct wire_method *method = call->method;
    if (method == NULL)
        return tw_refuse(ret, REASON(UNIMPLEMENTED), NULL, "there is no such method here");
    if (atomic_load_explicit(&server->is_draining, memory_order_acquire) &&
        !method->is_served_in_drain) {
        tw_refuse(ret, REASON(SHUTTING_DOWN), NULL, "the server is going away; try again");
        ret->retry_after_ns = DRAIN_RETRY_NS;
        return false;
    }
    if (call->queue->n_live > WIRE_LIVE_PER_QUEUE_MAX) {
        tw_refuse(ret, REASON(OVERLOADED), NULL, "too many calls at once; try again");
        ret->retry_after_ns = OVERLOAD_RETRY_NS;
        return false;
    }
    if (server->options.authorize != NULL &&
        !server->options.authorize(server->options.context, call, ret))
        return false;
    return caller_admit(call, ret) && (!method->is_stream || stream_admit(call, ret));
}

static void on_requested(struct tw_call *call, bool ok)
{
    struct wire_queue *queue = call->queue;
    queue->n_requested--;
    if (!ok) { /* the server goes away; there is no call */
        call->core = NULL;
        call->metadata.count = 0;
        tw_call_unref(call);
        return;
    }
    call->received_mono_ns = tw_mono_ns();
    call->received_wall_ns = tw_wall_ns();
    call->phase = CALL_OPEN;
    live_add(call);

    const struct wire_method *place = call->method;
    if (call->method == NULL) {
        call->method = wire_method_find(queue->server, call->details.method);
        grpc_call_details_destroy(&call->details);
    }
    call->deadline_mono_ns = wire_mono_ns(call->details.deadline);

    struct tw_refusal refusal;
    bool is_admitted = admit(call, &refusal);
    if (is_admitted && place == NULL && !call->method->type->client_streams)
        place_hold(call);
    else
        wire_queue_request(queue, place); /* another waits in its place */
    if (!is_admitted) {
        refuse(call, &refusal);
        return;
    }
    if (call->method->is_stream)
        close_watch(call);
    if (call->method->type->client_streams)
        headers_send(call);
    message_read(call);
}

/* ---- Completions. ---- */

static void on_close(struct tw_call *call, bool ok)
{
    call->is_closed = true;
    call->is_cancelled = !ok || call->cancelled != 0;
}

static void on_headers(struct tw_call *call, bool ok)
{
    (void)call;
    (void)ok; /* a client that is gone is told by the close */
}

static void on_write(struct tw_call *call, bool ok)
{
    call->write_started_mono_ns = 0;
    if (call->is_end_pending) {
        call->is_end_pending = false;
        if (call->is_closed || !ok)
            ending_clear(&call->ending);
        else
            status_send(call, &call->ending, NULL);
    } else if (ok && call->phase == CALL_OPEN && !call->is_closed &&
               call->method->row->on_writable != NULL) {
        call->method->row->on_writable(call);
    }
}

static void on_finish(struct tw_call *call, bool ok)
{
    tw_crash_point("rpc.answered");
    if (call->is_close_in_finish)
        on_close(call, ok);
}

void wire_call_on_completion(struct op *op, bool ok)
{
    static void (*const on_op[OP_KINDS])(struct tw_call *, bool) = {
        [OP_REQUEST] = on_requested, [OP_MESSAGE] = on_message, [OP_CLOSE] = on_close,
        [OP_HEADERS] = on_headers,   [OP_WRITE] = on_write,     [OP_FINISH] = on_finish,
    };
    struct tw_call *call = tw_call_ref(op->call);
    call->out &= ~(1u << op->kind);
    on_op[op->kind](call, ok);
    if (call->phase == CALL_OPEN || call->phase == CALL_ENDING)
        settle(call);
    tw_call_unref(call);
}

void wire_call_on_post(struct tw_call *call)
{
    if (call->phase == CALL_OVER || !call->is_shown || call->method->row->on_post == NULL)
        return;
    call->method->row->on_post(call);
}

void wire_call_on_timer(struct tw_call *call)
{
    if (place_leave(call)) /* a slow client: others need not wait for it */
        wire_queue_request(call->queue, NULL);
    else if (call->phase == CALL_OPEN && call->method->row->on_timer != NULL)
        call->method->row->on_timer(call);
}

void wire_call_look_again(struct tw_call *call)
{
    const struct tw_wire_options *options = &call->queue->server->options;
    struct tw_refusal refusal = {0};
    if (call->phase == CALL_OPEN && call->request != NULL && options->still != NULL &&
        !options->still(options->context, call, call->request, &refusal))
        tw_call_evict(call, &refusal);
}

void wire_call_end_stream(struct tw_call *call)
{
    if (call->phase != CALL_OPEN || call->method == NULL || !call->method->is_stream)
        return;
    if (!call->method->type->client_streams) {
        refuse_shutting_down(call);
        return;
    }
    if (call->is_half_closed)
        return; /* its handler is about to end it anyway */
    call->is_stopped_by_us = true;
    half_closed(call);
}

/* ---- What a handler may ask and do. ---- */

int64_t tw_call_received_mono_ns(const struct tw_call *call)
{
    return call->received_mono_ns;
}

int64_t tw_call_received_wall_ns(const struct tw_call *call)
{
    return call->received_wall_ns;
}

int64_t tw_call_deadline_mono_ns(const struct tw_call *call)
{
    return call->deadline_mono_ns;
}

const char *tw_call_path(const struct tw_call *call)
{
    return call->method->row->path;
}

const char *tw_call_peer(const struct tw_call *call)
{
    struct tw_call *cache = (struct tw_call *)(uintptr_t)call;
    if (call->peer == NULL && call->core != NULL)
        cache->peer = grpc_call_get_peer(call->core);
    return call->peer == NULL ? "" : call->peer;
}

static const char *header_keep(struct tw_call *call, const char *key, grpc_slice value)
{
    struct header *header = tw_arena_take(&call->kept, sizeof *header);
    if (header == NULL)
        return NULL;
    header->key = tw_arena_text(&call->kept, key, strlen(key));
    header->value = tw_arena_text(&call->kept, (const char *)GRPC_SLICE_START_PTR(value),
                                  GRPC_SLICE_LENGTH(value));
    if (header->key == NULL || header->value == NULL)
        return NULL;
    header->next = call->headers;
    call->headers = header;
    return header->value;
}

bool tw_call_streams_requests(const struct tw_call *call)
{
    return call->method->type->client_streams;
}

const char *tw_call_metadata(const struct tw_call *call, const char *key)
{
    for (const struct header *header = call->headers; header != NULL; header = header->next)
        if (strcmp(header->key, key) == 0)
            return header->value;

    size_t length = strlen(key);
    for (size_t i = 0; i < call->metadata.count; i++)
        if (wire_slice_is(call->metadata.metadata[i].key, key, length))
            return header_keep((struct tw_call *)(uintptr_t)call, key,
                               call->metadata.metadata[i].value);
    return NULL;
}

struct tw_arena *tw_call_arena(struct tw_call *call)
{
    wire_queue_assert_here(call->queue);
    return &call->arena;
}

void tw_call_caller_set(struct tw_call *call, const void *caller)
{
    wire_queue_assert_here(call->queue);
    call->caller = caller;
}

const void *tw_call_caller(const struct tw_call *call)
{
    return call->caller;
}

void tw_call_data_set(struct tw_call *call, void *data)
{
    call->data = data;
}

void *tw_call_data(const struct tw_call *call)
{
    return call->data;
}

static void answer_too_large(struct tw_call *call, size_t size)
{
    struct tw_refusal refusal;
    tw_refuse(&refusal, REASON(TOO_LARGE), NULL,
              "the answer would have %zu bytes, at most %u are sent; ask for less", size,
              TW_ANSWER_BYTES_MAX);
    tw_refusal_fact_add(&refusal, "size_bytes", "%zu", size);
    tw_refusal_fact_add(&refusal, "size_bytes_max", "%u", TW_ANSWER_BYTES_MAX);
    refuse(call, &refusal);
}

void tw_call_answer(struct tw_call *call, const ProtobufCMessage *response)
{
    wire_queue_assert_here(call->queue);
    if (call->phase != CALL_OPEN)
        return;
    assert(!call->method->is_stream);
    assert(response->descriptor == call->method->type->output);

    size_t size = protobuf_c_message_get_packed_size(response);
    if (size > TW_ANSWER_BYTES_MAX) {
        answer_too_large(call, size);
        return;
    }
    call->phase = CALL_ENDING;
    if (call->is_closed)
        return; /* nobody is there any more */
    struct ending ok = {.code = GRPC_STATUS_OK};
    status_send(call, &ok, wire_buffer_pack(response, size));
}

void tw_call_refuse(struct tw_call *call, const struct tw_refusal *refusal)
{
    wire_queue_assert_here(call->queue);
    refuse(call, refusal);
}

bool tw_call_is_writable(const struct tw_call *call)
{
    wire_queue_assert_here(call->queue);
    return call->phase == CALL_OPEN && !call->is_closed && (call->out & 1u << OP_WRITE) == 0;
}

bool tw_call_write(struct tw_call *call, const ProtobufCMessage *message, bool more)
{
    if (!tw_call_is_writable(call))
        return false;
    assert(call->method->is_stream);
    assert(message->descriptor == call->method->type->output);

    size_t size = protobuf_c_message_get_packed_size(message);
    if (size > TW_ANSWER_BYTES_MAX) {
        answer_too_large(call, size);
        return false;
    }
    /* In a batch of their own: headers and a buffered message in one batch wait for each other. */
    if (!call->has_headers)
        headers_send(call);
    grpc_byte_buffer *buffer = wire_buffer_pack(message, size);
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE,
                  .flags = more ? GRPC_WRITE_BUFFER_HINT : 0,
                  .data.send_message.send_message = buffer};
    call->is_write_buffered = more;
    call->write_started_mono_ns = tw_mono_ns();
    batch_start(call, OP_WRITE, &op, 1);
    grpc_byte_buffer_destroy(buffer); /* its slice has been moved out */
    return true;
}

void tw_call_end(struct tw_call *call)
{
    wire_queue_assert_here(call->queue);
    if (call->phase != CALL_OPEN)
        return;
    if (call->is_stopped_by_us)
        refuse_shutting_down(call); /* what came has been answered; more was not read */
    else
        end(call, (struct ending){.code = GRPC_STATUS_OK});
}

int64_t tw_call_write_started_mono_ns(const struct tw_call *call)
{
    wire_queue_assert_here(call->queue);
    return call->write_started_mono_ns;
}

void tw_call_evict(struct tw_call *call, const struct tw_refusal *refusal)
{
    wire_queue_assert_here(call->queue);
    bool is_undecided = call->phase == CALL_OPEN || call->is_end_pending;
    if (!is_undecided || call->is_closed)
        return;
    bool is_behind_data = (call->out & 1u << OP_WRITE) != 0 || call->is_write_buffered;
    if (!is_behind_data) {
        refuse(call, refusal);
        return;
    }

    /* A status would wait behind the data; a cancelled stream's does not, but has no details. */
    char message[WIRE_MESSAGE_BYTES];
    tw_refusal_message(refusal, message, sizeof message);
    call->phase = CALL_ENDING;
    if (call->is_end_pending)
        ending_clear(&call->ending);
    call->is_end_pending = false;
    grpc_call_cancel_with_status(call->core, (grpc_status_code)tw_refusal_code(refusal->reason),
                                 message, NULL);
}

void tw_call_reading_pause(struct tw_call *call)
{
    wire_queue_assert_here(call->queue);
    call->is_paused = true;
}

void tw_call_reading_resume(struct tw_call *call)
{
    wire_queue_assert_here(call->queue);
    call->is_paused = false;
    reading_go_on(call);
}

void tw_call_timer_set(struct tw_call *call, int64_t due_mono_ns)
{
    wire_queue_assert_here(call->queue);
    if (call->phase == CALL_OPEN)
        wire_queue_timer_set(call->queue, call, due_mono_ns);
}
