#include "echo.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { QUEUES_MAX = 4, ASKED_PER_QUEUE = 16 };

static grpc_server *server;
static void *method_call, *method_stream;

/* A call, from before it came to after it ended. */
struct echo_call {
    bool is_stream;
    enum echo_step { STEP_COME, STEP_MESSAGE, STEP_LAST } step;
    grpc_completion_queue *queue;
    grpc_call *core;
    grpc_metadata_array metadata;
    grpc_byte_buffer *message;
    gpr_timespec deadline;
    int is_cancelled;
};

static void call_ask(grpc_completion_queue *queue, bool is_stream)
{
    struct echo_call *call = calloc(1, sizeof *call);
    call->queue = queue;
    call->is_stream = is_stream;
    grpc_metadata_array_init(&call->metadata);
    grpc_server_request_registered_call(server, is_stream ? method_stream : method_call, &call->core,
                                        &call->deadline, &call->metadata, is_stream ? NULL : &call->message,
                                        queue, queue, call);
}

static grpc_byte_buffer *answer_make(void)
{
    static const char bytes[] = {0x08, 0x01};
    grpc_slice slice = grpc_slice_from_static_buffer(bytes, sizeof bytes);
    return grpc_raw_byte_buffer_create(&slice, 1);
}

static void batch(struct echo_call *call, const grpc_op *ops, size_t n, enum echo_step step)
{
    call->step = step;
    if (grpc_call_start_batch(call->core, ops, n, call, NULL) != GRPC_CALL_OK)
        abort(); /* the batches below are never wrong */
}

static grpc_op status_op(void)
{
    return (grpc_op){.op = GRPC_OP_SEND_STATUS_FROM_SERVER,
                     .data.send_status_from_server.status = GRPC_STATUS_OK};
}

static grpc_op end_op(struct echo_call *call)
{
    return (grpc_op){.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                     .data.recv_close_on_server.cancelled = &call->is_cancelled};
}

static void call_answer(struct echo_call *call)
{
    grpc_byte_buffer *answer = answer_make();
    const grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = answer},
        status_op(),
        end_op(call),
    };
    batch(call, ops, sizeof ops / sizeof ops[0], STEP_LAST);
    grpc_byte_buffer_destroy(answer);
}

static grpc_op receive_op(struct echo_call *call)
{
    return (grpc_op){.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->message};
}

static void stream_open(struct echo_call *call)
{
    const grpc_op ops[] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}, receive_op(call)};
    batch(call, ops, 2, STEP_MESSAGE);
}

/* Answers the message that came, and takes the next one. */
static void stream_go_on(struct echo_call *call)
{
    if (call->message == NULL) {
        const grpc_op ops[] = {status_op(), end_op(call)};
        batch(call, ops, 2, STEP_LAST);
        return;
    }
    grpc_byte_buffer_destroy(call->message);
    call->message = NULL;
    grpc_byte_buffer *answer = answer_make();
    const grpc_op ops[] = {{.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = answer},
                           receive_op(call)};
    batch(call, ops, 2, STEP_MESSAGE);
    grpc_byte_buffer_destroy(answer);
}

static void call_free(struct echo_call *call)
{
    grpc_byte_buffer_destroy(call->message);
    grpc_metadata_array_destroy(&call->metadata);
    grpc_call_unref(call->core);
    free(call);
}

static void call_go_on(struct echo_call *call)
{
    switch (call->step) {
    case STEP_COME:
        call_ask(call->queue, call->is_stream);
        if (call->is_stream)
            stream_open(call);
        else
            call_answer(call);
        break;
    case STEP_MESSAGE:
        stream_go_on(call);
        break;
    case STEP_LAST:
        call_free(call);
        break;
    }
}

static void *queue_main(void *arg)
{
    grpc_completion_queue *queue = arg;
    for (;;)
        call_go_on(grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).tag);
    return NULL;
}

/* Says its port through the pipe, and serves until it is killed. */
static _Noreturn void echo_main(int tell)
{
    cpu_set_t usable;
    grpc_completion_queue *queues[QUEUES_MAX];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sched_getaffinity(0, sizeof usable, &usable);
    int n = CPU_COUNT(&usable) < QUEUES_MAX ? CPU_COUNT(&usable) : QUEUES_MAX;

    grpc_init();
    server = grpc_server_create(NULL, NULL);
    method_call = grpc_server_register_method(server, ECHO_CALL, NULL, GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
    method_stream = grpc_server_register_method(server, ECHO_STREAM, NULL, GRPC_SRM_PAYLOAD_NONE, 0);
    for (int i = 0; i < n; i++) {
        queues[i] = grpc_completion_queue_create_for_next(NULL);
        grpc_server_register_completion_queue(server, queues[i], NULL);
    }
    grpc_server_credentials *plain = grpc_insecure_server_credentials_create();
    int port = grpc_server_add_http2_port(server, "127.0.0.1:0", plain);
    grpc_server_credentials_release(plain);
    grpc_server_start(server);
    for (int i = 0; i < n; i++) {
        pthread_t id;
        for (int k = 0; k < ASKED_PER_QUEUE; k++)
            call_ask(queues[i], false);
        call_ask(queues[i], true);
        if (pthread_create(&id, NULL, queue_main, queues[i]) != 0)
            exit(1);
    }
    if (write(tell, &port, sizeof port) != sizeof port)
        exit(1);
    for (;;)
        pause();
}

bool echo_start(struct echo *ret)
{
    int tell[2], port = 0;
    *ret = (struct echo){0};
    if (pipe(tell) != 0) {
        perror("echo");
        return false;
    }
    fflush(NULL);
    ret->pid = fork();
    if (ret->pid == 0)
        echo_main(tell[1]);
    close(tell[1]);
    bool is_good = ret->pid > 0 && read(tell[0], &port, sizeof port) == sizeof port && port > 0;
    close(tell[0]);
    snprintf(ret->address, sizeof ret->address, "127.0.0.1:%d", port);
    if (!is_good)
        fprintf(stderr, "the echo server could not be started\n");
    return is_good;
}

void echo_stop(struct echo *echo)
{
    if (echo->pid <= 0)
        return;
    kill(echo->pid, SIGKILL);
    waitpid(echo->pid, NULL, 0);
    echo->pid = 0;
}
