#include "core.h"
#include "serving.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/log.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* Decoding and validation go as deep as the types do, handlers as deep as they like. */
#define QUEUE_STACK_BYTES (1024u * 1024u)

static _Thread_local const struct wire_queue *queue_here;

void wire_queue_assert_here(const struct wire_queue *queue)
{
    assert(queue == queue_here);
    (void)queue;
    (void)queue_here;
}

/* ---- The pool. A struct goes back where it came from; its arenas' first block stays with it. ----
 */

static void queue_unref(struct wire_queue *queue)
{
    /* acq_rel: whoever drops the last reference sees what the others wrote. */
    if (atomic_fetch_sub_explicit(&queue->refs, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&queue->mutex);
    free(queue->timers);
    free(queue);
}

static void struct_free(struct wire_queue *queue, struct tw_call *call)
{
    wire_call_free(call);
    queue_unref(queue);
}

static void pool_put(struct wire_queue *queue, struct tw_call *call)
{
    if (queue->n_free >= WIRE_FREE_PER_QUEUE_MAX) {
        struct_free(queue, call);
        return;
    }
    wire_call_recycle(call);
    call->next = queue->free;
    queue->free = call;
    queue->n_free++;
}

static void pool_collect(struct wire_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    struct tw_call *call = queue->returned;
    queue->returned = NULL;
    pthread_mutex_unlock(&queue->mutex);
    while (call != NULL) {
        struct tw_call *next = call->mailbox_next;
        pool_put(queue, call);
        call = next;
    }
}

static struct tw_call *pool_take(struct wire_queue *queue)
{
    if (queue->free == NULL)
        pool_collect(queue);
    struct tw_call *call = queue->free;
    if (call != NULL) {
        queue->free = call->next;
        queue->n_free--;
        return call;
    }

    call = wire_call_new(queue);
    if (call == NULL) {
        /* Without a call in the core no client would be heard again: better to be restarted. */
        tw_log(TW_LOG_ERROR, "wire.no_memory", "queue=%s next=abort", queue->name);
        abort();
    }
    atomic_fetch_add_explicit(&queue->refs, 1, memory_order_relaxed);
    return call;
}

void tw_call_unref(struct tw_call *call)
{
    if (atomic_fetch_sub_explicit(&call->refs, 1, memory_order_acq_rel) != 1)
        return;

    struct wire_queue *queue = call->queue;
    if (queue == queue_here) {
        pool_put(queue, call);
        return;
    }
    pthread_mutex_lock(&queue->mutex);
    bool is_closed = queue->is_closed;
    if (!is_closed) {
        call->mailbox_next = queue->returned;
        queue->returned = call;
    }
    pthread_mutex_unlock(&queue->mutex);
    if (is_closed)
        struct_free(queue, call);
}

struct tw_call *tw_call_ref(struct tw_call *call)
{
    atomic_fetch_add_explicit(&call->refs, 1, memory_order_relaxed);
    return call;
}

/* ---- The mailbox. ---- */

static void wake(struct wire_queue *queue)
{
    /* Started by whoever set is_wake_out, so there is never a second batch with this tag; the
     * thread does not end the core's queue before it has come back. */
    grpc_call_error error = grpc_call_start_batch(queue->wake_call, NULL, 0, queue, NULL);
    assert(error == GRPC_CALL_OK);
    (void)error;
}

void wire_queue_wake(struct wire_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    bool is_due = !queue->is_closed && !queue->is_wake_out;
    queue->is_wake_out = queue->is_wake_out || is_due;
    pthread_mutex_unlock(&queue->mutex);
    if (is_due)
        wake(queue);
}

void tw_call_post(struct tw_call *call)
{
    /* acq_rel, with the exchange in mailbox_run(): what was written before this post is seen by the
     * on_post() that follows it, also when the post is merged into an earlier one. */
    if (atomic_exchange_explicit(&call->is_posted, true, memory_order_acq_rel))
        return;

    struct wire_queue *queue = call->queue;
    bool is_due = false;
    pthread_mutex_lock(&queue->mutex);
    if (!queue->is_closed) {
        tw_call_ref(call);
        call->mailbox_next = NULL;
        if (queue->posted_last == NULL)
            queue->posted_first = call;
        else
            queue->posted_last->mailbox_next = call;
        queue->posted_last = call;
        is_due = !queue->is_wake_out;
        queue->is_wake_out = true;
    }
    pthread_mutex_unlock(&queue->mutex);
    if (is_due)
        wake(queue);
}

/* The server is up: the first calls are asked for. */
static void prime(struct wire_queue *queue)
{
    const struct tw_wire_server *server = queue->server;
    queue->is_primed = true;
    if (!queue->is_stream)
        for (uint32_t i = 0; i < WIRE_REQUESTED_PER_QUEUE; i++)
            wire_queue_request(queue, NULL);
    else
        for (uint32_t i = 0; i < server->n_methods; i++)
            if (server->methods[i].registered != NULL)
                for (uint32_t k = 0; k < WIRE_REQUESTED_PER_WATCH; k++)
                    wire_queue_request(queue, &server->methods[i]);
}

static void streams_end(struct wire_queue *queue)
{
    queue->are_streams_ended = true;
    for (struct tw_call *call = queue->live, *next; call != NULL; call = next) {
        next = call->next;
        wire_call_end_stream(call);
    }
}

/* An eviction may end the next call, too: none of those that are live is freed meanwhile. */
static void streams_look_again(struct wire_queue *queue, unsigned looks)
{
    queue->looked = looks;
    for (struct tw_call *call = queue->live, *next; call != NULL; call = next) {
        next = call->next;
        wire_call_look_again(call);
    }
}

static void mailbox_run(struct wire_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    struct tw_call *call = queue->posted_first;
    queue->posted_first = queue->posted_last = NULL;
    queue->is_wake_out = false;
    pthread_mutex_unlock(&queue->mutex);

    while (call != NULL) {
        struct tw_call *next = call->mailbox_next; /* before the call can be posted again */
        atomic_exchange_explicit(&call->is_posted, false, memory_order_acq_rel);
        wire_call_on_post(call);
        tw_call_unref(call);
        call = next;
    }
    if (!queue->is_primed && atomic_load_explicit(&queue->server->is_serving, memory_order_acquire))
        prime(queue);
    unsigned looks = atomic_load_explicit(&queue->server->looks, memory_order_acquire);
    if (queue->looked != looks)
        streams_look_again(queue, looks);
    if (!queue->are_streams_ended &&
        atomic_load_explicit(&queue->server->is_ending_streams, memory_order_acquire))
        streams_end(queue);
}

/* ---- Timers: a binary heap of calls; a call knows its place in it. ---- */

static void timer_place(struct wire_queue *queue, uint32_t index, struct tw_call *call)
{
    queue->timers[index] = call;
    call->timer_slot = index + 1;
}

static void timer_up(struct wire_queue *queue, uint32_t index, struct tw_call *call)
{
    while (index > 0) {
        uint32_t parent = (index - 1) / 2;
        if (queue->timers[parent]->timer_due_mono_ns <= call->timer_due_mono_ns)
            break;
        timer_place(queue, index, queue->timers[parent]);
        index = parent;
    }
    timer_place(queue, index, call);
}

static void timer_down(struct wire_queue *queue, uint32_t index, struct tw_call *call)
{
    for (;;) {
        uint32_t child = 2 * index + 1;
        if (child >= queue->n_timers)
            break;
        if (child + 1 < queue->n_timers &&
            queue->timers[child + 1]->timer_due_mono_ns < queue->timers[child]->timer_due_mono_ns)
            child++;
        if (call->timer_due_mono_ns <= queue->timers[child]->timer_due_mono_ns)
            break;
        timer_place(queue, index, queue->timers[child]);
        index = child;
    }
    timer_place(queue, index, call);
}

static void timer_remove(struct wire_queue *queue, struct tw_call *call)
{
    uint32_t index = call->timer_slot - 1;
    struct tw_call *last = queue->timers[--queue->n_timers];
    call->timer_slot = 0;
    if (last == call)
        return;
    timer_up(queue, index, last);
    timer_down(queue, last->timer_slot - 1, last);
}

static void timers_grow(struct wire_queue *queue)
{
    uint32_t wanted = queue->timers_max == 0 ? 64 : 2 * queue->timers_max;
    struct tw_call **grown = realloc(queue->timers, wanted * sizeof(struct tw_call *));
    if (grown == NULL) {
        tw_log(TW_LOG_ERROR, "wire.no_memory", "queue=%s next=abort", queue->name);
        abort();
    }
    queue->timers = grown;
    queue->timers_max = wanted;
}

void wire_queue_timer_set(struct wire_queue *queue, struct tw_call *call, int64_t due_mono_ns)
{
    if (call->timer_slot != 0)
        timer_remove(queue, call);
    if (due_mono_ns == INT64_MAX)
        return;
    if (queue->n_timers == queue->timers_max)
        timers_grow(queue);
    call->timer_due_mono_ns = due_mono_ns;
    timer_up(queue, queue->n_timers++, call);
}

static void timers_run(struct wire_queue *queue)
{
    if (queue->n_timers == 0)
        return;
    int64_t now_ns = tw_mono_ns();
    while (queue->n_timers > 0 && queue->timers[0]->timer_due_mono_ns <= now_ns) {
        struct tw_call *call = queue->timers[0];
        timer_remove(queue, call);
        wire_call_on_timer(call);
    }
}

static int64_t timers_next(const struct wire_queue *queue)
{
    return queue->n_timers == 0 ? INT64_MAX : queue->timers[0]->timer_due_mono_ns;
}

/* ---- Calls and completions. ---- */

void wire_queue_request(struct wire_queue *queue, const struct wire_method *method)
{
    struct tw_call *call = pool_take(queue);
    grpc_server *server = queue->server->core;
    void *tag = &call->ops[OP_REQUEST];
    atomic_store_explicit(&call->refs, 1, memory_order_relaxed);
    call->method = method;
    call->phase = CALL_REQUESTED;
    call->out = 1u << OP_REQUEST;
    queue->n_requested++;
    grpc_call_error error =
        method == NULL
            ? grpc_server_request_call(server, &call->core, &call->details, &call->metadata,
                                       queue->core, queue->core, tag)
            : grpc_server_request_registered_call(server, method->registered, &call->core,
                                                  &call->details.deadline, &call->metadata, NULL,
                                                  queue->core, queue->core, tag);
    assert(error == GRPC_CALL_OK);
    (void)error;
}

static void completion_run(struct wire_queue *queue, void *tag, bool ok)
{
    if (tag == queue)
        mailbox_run(queue);
    else if (tag == queue->server)
        wire_server_core_is_down(queue->server);
    else
        wire_call_on_completion(tag, ok);
}

/* The core keeps the first completion of this thread in a thread-local cache, if asked to, instead
 * of queueing it and waking somebody. This moves it out of there, if there is room for it; else it
 * stays until there is. */
static void early_fetch(struct wire_queue *queue)
{
    void *tag;
    int ok;
    if (queue->n_early == sizeof queue->early / sizeof queue->early[0] ||
        !grpc_completion_queue_thread_local_cache_flush(queue->core, &tag, &ok))
        return;
    queue->early[queue->n_early].tag = tag;
    queue->early[queue->n_early].ok = ok;
    queue->n_early++;
}

bool wire_queue_completed(struct wire_queue *queue, const void *tag, int *ret_ok)
{
    early_fetch(queue);
    grpc_completion_queue_thread_local_cache_init(queue->core);
    if (queue->n_early == 0 || queue->early[queue->n_early - 1].tag != tag)
        return false;
    *ret_ok = queue->early[--queue->n_early].ok;
    return true;
}

/* What completed on this thread while it was at work. */
static void early_run(struct wire_queue *queue)
{
    for (;;) {
        if (queue->n_early == 0)
            early_fetch(queue);
        if (queue->n_early == 0)
            return;
        queue->n_early--;
        void *tag = queue->early[queue->n_early].tag;
        int ok = queue->early[queue->n_early].ok;
        grpc_completion_queue_thread_local_cache_init(queue->core); /* keeps what it has */
        completion_run(queue, tag, ok != 0);
    }
}

static void event_run(struct wire_queue *queue, const grpc_event *event)
{
    grpc_completion_queue_thread_local_cache_init(queue->core);
    completion_run(queue, event->tag, event->success != 0);
    early_run(queue);
}

static bool is_turn_due(struct wire_queue *queue, bool has_completed)
{
    queue->since_turn += has_completed;
    queue->looks = has_completed ? 0 : queue->looks + 1;
    return queue->since_turn >= WIRE_COMPLETIONS_PER_TURN || queue->looks >= WIRE_LOOKS_PER_TURN;
}

/* Who waits with a message is served when nothing else has come, and after so many completions in any case. */
static void turn_run(struct wire_queue *queue)
{
    struct tw_call *call = NULL;
    queue->since_turn = queue->looks = 0;
    for (struct turn *turn; call == NULL && (turn = turns_take(&queue->turns)) != NULL;) {
        call = (struct tw_call *)((char *)turn - offsetof(struct tw_call, turn));
        if (call->phase == CALL_OVER) { /* its client has gone away meanwhile: no turn is spent on that */
            tw_call_unref(call);
            call = NULL;
        }
    }
    if (call == NULL)
        return;
    grpc_completion_queue_thread_local_cache_init(queue->core);
    wire_call_on_turn(call);
    tw_call_unref(call);
    early_run(queue);
}

/* When nothing can come any more, the queue closes: its calls are over, the core has given back
 * those that waited, and nobody is about to wake it. */
static void close_if_done(struct wire_queue *queue)
{
    if (!atomic_load_explicit(&queue->server->is_stopping, memory_order_acquire) ||
        queue->n_live > 0 || queue->n_requested > 0)
        return;

    pthread_mutex_lock(&queue->mutex);
    bool is_closing = !queue->is_closed && !queue->is_wake_out;
    queue->is_closed = queue->is_closed || is_closing;
    pthread_mutex_unlock(&queue->mutex);
    if (is_closing)
        grpc_completion_queue_shutdown(queue->core);
}

static void *queue_main(void *arg)
{
    struct wire_queue *queue = arg;
    queue_here = queue;
    for (;;) {
        bool waits = !turns_is_empty(&queue->turns);
        gpr_timespec until = waits ? gpr_inf_past(GPR_CLOCK_MONOTONIC) : wire_timespec(timers_next(queue));
        grpc_event event = grpc_completion_queue_next(queue->core, until, NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            break;
        if (event.type == GRPC_OP_COMPLETE)
            event_run(queue, &event);
        if (waits && is_turn_due(queue, event.type == GRPC_OP_COMPLETE))
            turn_run(queue);
        timers_run(queue);
        close_if_done(queue);
    }
    queue_here = NULL;
    return NULL;
}

/* ---- Life. ---- */

tw_status wire_queue_new(struct tw_wire_server *server, bool is_stream, const char *name,
                         struct wire_queue **ret_queue)
{
    struct wire_queue *queue = calloc(1, sizeof *queue);
    if (queue == NULL)
        return TW_NO_MEMORY;
    queue->server = server;
    queue->is_stream = is_stream;
    snprintf(queue->name, sizeof queue->name, "%s", name);
    atomic_init(&queue->refs, 1);
    pthread_mutex_init(&queue->mutex, NULL);

    /* The rpc threads move everybody's bytes, the stream thread only takes completions: a core's
     * poller that woke there would have to hand most of what it reads to another thread. */
    grpc_completion_queue_attributes attributes = {
        .version = 1,
        .cq_completion_type = GRPC_CQ_NEXT,
        .cq_polling_type = is_stream ? GRPC_CQ_NON_POLLING : GRPC_CQ_DEFAULT_POLLING,
    };
    const grpc_completion_queue_factory *factory =
        grpc_completion_queue_factory_lookup(&attributes);
    queue->core = grpc_completion_queue_create(factory, &attributes, NULL);

    queue->wake_channel =
        grpc_lame_client_channel_create(NULL, GRPC_STATUS_UNAVAILABLE, "goes nowhere");
    queue->wake_call = grpc_channel_create_call(queue->wake_channel, NULL, GRPC_PROPAGATE_DEFAULTS,
                                                queue->core, grpc_slice_from_static_string("/wake"),
                                                NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    *ret_queue = queue;
    return TW_OK;
}

tw_status wire_queue_start(struct wire_queue *queue, struct tw_error *error)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, QUEUE_STACK_BYTES);
    int failure = pthread_create(&queue->thread, &attributes, queue_main, queue);
    pthread_attr_destroy(&attributes);
    if (failure != 0)
        return tw_error_set(error, TW_LIMIT, "no thread for %s: the system allows no more",
                            queue->name);
    queue->has_thread = true;
    pthread_setname_np(queue->thread, queue->name);
    return TW_OK;
}

void wire_queue_join(struct wire_queue *queue)
{
    if (queue->has_thread) {
        wire_queue_wake(queue); /* it looks at is_stopping */
        pthread_join(queue->thread, NULL);
        queue->has_thread = false;
    } else if (queue->core != NULL) {
        /* The thread was never started, so the queue is drained here. */
        queue_here = queue;
        grpc_completion_queue_shutdown(queue->core);
        for (;;) {
            grpc_event event =
                grpc_completion_queue_next(queue->core, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
            if (event.type == GRPC_QUEUE_SHUTDOWN)
                break;
            completion_run(queue, event.tag, event.success != 0);
        }
        queue->is_closed = true;
        queue_here = NULL;
    }
}

void wire_queue_free(struct wire_queue *queue)
{
    if (queue == NULL)
        return;
    /* The thread is gone and the mailbox is closed: nobody else reads these lists any more. */
    pool_collect(queue);
    while (queue->free != NULL) {
        struct tw_call *call = queue->free;
        queue->free = call->next;
        struct_free(queue, call);
    }
    if (queue->wake_call != NULL)
        grpc_call_unref(queue->wake_call);
    if (queue->wake_channel != NULL)
        grpc_channel_destroy(queue->wake_channel);
    if (queue->core != NULL)
        grpc_completion_queue_destroy(queue->core);
    queue_unref(queue);
}
