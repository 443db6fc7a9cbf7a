/* serving.h - what the parts of the serving side know of each other.
 *
 *     server.c   binds, starts and stops; the table of methods
 *     queue.c    one thread and its completion queue: events, mailbox, timers, the pool of calls
 *     call.c     one call: what each completion means, and what a handler may do
 *     peers.c    how many streams each peer has open
 *
 * A call belongs to the queue that the core bound it to, for ever. Whoever is on another thread
 * puts it into the queue's mailbox and wakes the queue. */
#ifndef WIRE_SERVING_H
#define WIRE_SERVING_H

#include "peers.h"
#include "tls.h"
#include "turns.h"

#include <tradewake/base/arena.h>
#include <tradewake/wire/descriptors.h>
#include <tradewake/wire/server.h>

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WIRE_RPC_THREADS_MAX 4u
/* Calls that wait in the core for a client: one, so that no queue accepts more than it is about to serve (README.md). What comes in
 * between waits in the core. */
#define WIRE_REQUESTED_PER_QUEUE 1u
#define WIRE_REQUESTED_PER_WATCH 2u
/* Calls at once per queue; beyond it new ones are refused (OVERLOADED) on their headers. */
#define WIRE_LIVE_PER_QUEUE_MAX 16384u
/* Of them, those of one caller at most: who floods does not take the others' places. */
#define WIRE_LIVE_PER_CALLER_MAX 8192u
/* So many completions in a row, and then somebody who waits has his turn all the same. */
#define WIRE_COMPLETIONS_PER_TURN 64u
/* A look for completions reads from one connection: so many that find none, and then a turn. */
#define WIRE_LOOKS_PER_TURN 64u
/* Structs that are kept for the next call, per queue. */
#define WIRE_FREE_PER_QUEUE_MAX 1024u
#define WIRE_METHOD_BUCKETS     256u /* power of two, well above the number of methods */

/* A method as it is served: the caller's row and what the descriptors say. */
struct wire_method {
    const struct tw_wire_method *row;
    const struct tw_method_type *type;
    size_t path_length;
    uint32_t request_bytes_max;
    bool is_stream;          /* either side streams */
    bool is_served_in_drain; /* health: a drain is what it reports */
    void *registered;        /* the core's name of it; NULL = by path */
};

struct wire_queue;

enum op_kind {
    OP_REQUEST, /* a client called */
    OP_MESSAGE, /* RECV_MESSAGE */
    OP_CLOSE,   /* RECV_CLOSE_ON_SERVER, in a batch of its own */
    OP_HEADERS, /* SEND_INITIAL_METADATA, in a batch of its own */
    OP_WRITE,   /* SEND_MESSAGE of a stream */
    OP_FINISH,  /* SEND_STATUS_FROM_SERVER and whatever goes with it */
    OP_KINDS
};

/* The address of one of these is the tag of one batch. */
struct op {
    struct tw_call *call;
    enum op_kind kind;
};

enum call_phase {
    CALL_REQUESTED, /* waits in the core */
    CALL_OPEN,      /* a client is there, and we owe it a status */
    CALL_ENDING,    /* the status is decided: nothing may follow */
    CALL_OVER       /* the core has let go of it; on_finished() has run */
};

/* How a call ends. The slices are ours until they are sent. */
struct ending {
    grpc_status_code code;
    grpc_slice message;
    grpc_slice details;  /* google.rpc.Status; empty = none */
    int64_t pushback_ms; /* grpc-retry-pushback-ms; 0 = none */
};

struct header; /* one request header, copied for the handler */

struct tw_call {
    /* Any thread. */
    atomic_uint refs;
    atomic_bool is_posted; /* in the mailbox, or about to be */
    struct wire_queue *queue;

    /* Guarded by the queue's mutex. */
    struct tw_call *mailbox_next;

    /* The queue's thread alone, from here on. */
    struct tw_call *next, *previous;  /* among the live or the free ones */
    const struct wire_method *method; /* NULL = not known (yet) */
    enum call_phase phase;
    unsigned out; /* 1 << op_kind: what the core still has */
    struct op ops[OP_KINDS];

    grpc_call *core;
    grpc_call_details details;
    grpc_metadata_array metadata; /* its elements belong to core */
    grpc_byte_buffer *message;
    int cancelled;

    bool is_close_started; /* RECV_CLOSE_ON_SERVER is out, or was */
    bool is_close_in_finish;
    bool is_closed; /* it has come */
    bool is_cancelled;
    bool is_in_place;       /* accepted, its only message not yet read; the timer is its own */
    bool has_headers;       /* SEND_INITIAL_METADATA is out, or was */
    bool has_message;       /* at least one has come */
    bool is_half_closed;    /* the client sends nothing more, or we read nothing more */
    bool is_shown;          /* the method knows of it, so on_finished() is due */
    bool is_paused;         /* tw_call_reading_pause() */
    bool is_in_request;     /* inside on_request() */
    bool is_counted;        /* among its peer's streams */
    bool is_stopped_by_us;  /* half-closed by tw_wire_server_end_streams() */
    bool is_write_buffered; /* the last write was told that more comes */
    bool is_end_pending;    /* `ending` waits for the write that is out */

    struct ending ending;
    int64_t received_mono_ns, received_wall_ns, deadline_mono_ns, write_started_mono_ns;
    char *peer;             /* the core's memory */
    struct header *headers; /* in kept */
    struct tw_arena kept;   /* lives as long as the call */
    struct tw_arena arena;  /* unary: as long as the call; bidi: one message */
    void *data;
    const void *caller;
    const ProtobufCMessage *request; /* in arena: of a stream that watches; NULL = it has not come, or is none */
    const char **certificate_names; /* in kept, once they were asked for; NULL = not yet, or none */
    size_t n_certificate_names;

    bool has_row;     /* its caller is known, and has a row among the queue's turns */
    uint32_t row;
    struct turn turn; /* while it waits with its message */

    int64_t timer_due_mono_ns;
    uint32_t timer_slot; /* index in the queue's heap + 1; 0 = not set */
};

struct wire_queue {
    /* Set at start, read-only afterwards: any thread. */
    struct tw_wire_server *server; /* not touched after the thread has ended */
    grpc_completion_queue *core;
    grpc_channel *wake_channel;
    grpc_call *wake_call; /* goes nowhere: an empty batch on it wakes the queue */
    bool is_stream;
    char name[16];
    pthread_t thread;
    bool has_thread;

    atomic_uint refs; /* the server, and every call struct */

    /* Guarded by mutex. */
    pthread_mutex_t mutex;
    struct tw_call *posted_first, *posted_last;
    struct tw_call *returned; /* unreferenced by another thread */
    bool is_wake_out;         /* the empty batch is started and has not come back */
    bool is_closed;           /* nothing is posted or returned any more */

    /* The thread's alone. */
    struct tw_call *live, *free;
    uint32_t n_live, n_free, n_requested;
    struct tw_call **timers; /* a heap, the earliest first */
    uint32_t n_timers, timers_max;
    struct turns turns;
    uint32_t since_turn; /* completions since somebody who waited had his turn */
    uint32_t looks;      /* that found none, in a row */
    bool is_primed, are_streams_ended;
    unsigned looked; /* the server's looks, when its streams were last looked at */
    struct { /* completions taken out of the core's cache, to be handled next */
        void *tag;
        int ok;
    } early[2];
    uint32_t n_early;
};

struct tw_wire_server {
    /* Set at start, read-only afterwards: any thread. */
    struct tw_wire_options options;
    struct wire_method *methods;
    uint32_t n_methods;
    uint32_t buckets[WIRE_METHOD_BUCKETS]; /* index in methods + 1, by hash of the path */
    grpc_server *core;
    struct wire_tls *tls; /* NULL = plain text */
    struct wire_queue *queues[WIRE_RPC_THREADS_MAX + 1]; /* the last one is the streams' */
    uint32_t n_queues;
    int port;
    uint32_t streams_per_peer_max;
    bool is_core_up;

    /* Any thread. */
    atomic_uint looks; /* rises: streams that watch are to be looked at again */
    atomic_bool is_serving, is_draining, is_ending_streams, is_stopping;
    struct peers peers;

    /* Guarded by mutex: main waits for the core. */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_core_down;
};

/* ---- server.c ---- */

/* The method of a path, or NULL. Thread: any. */
const struct wire_method *wire_method_find(const struct tw_wire_server *server, grpc_slice path);

/* The shutdown tag came back. Thread: any queue. */
void wire_server_core_is_down(struct tw_wire_server *server);

/* ---- queue.c ---- */

/* Half-built queues are freed, too. Owns: the server, until wire_queue_free(). */
TW_MUST_CHECK tw_status wire_queue_new(struct tw_wire_server *server, bool is_stream,
                                       const char *name, struct wire_queue **ret_queue);
TW_MUST_CHECK tw_status wire_queue_start(struct wire_queue *queue, struct tw_error *error);

/* Waits until the thread has ended; the core's queue is gone afterwards. */
void wire_queue_join(struct wire_queue *queue);
void wire_queue_free(struct wire_queue *queue);

/* The queue looks at its mailbox and at the server's flags. Thread: any. */
void wire_queue_wake(struct wire_queue *queue);

/* Asserts that this is the queue's own thread. */
void wire_queue_assert_here(const struct wire_queue *queue);

/* If the batch with this tag has completed already, takes its completion: true. Others that came
 * in between are kept for later. Thread: the queue's. */
bool wire_queue_completed(struct wire_queue *queue, const void *tag, int *ret_ok);

/* Asks the core for one more call of the method; NULL: of any that is not registered.
 * Thread: the queue's. */
void wire_queue_request(struct wire_queue *queue, const struct wire_method *method);

/* due_mono_ns: INT64_MAX stops it. Thread: the queue's. */
void wire_queue_timer_set(struct wire_queue *queue, struct tw_call *call, int64_t due_mono_ns);

/* ---- call.c ---- */

/* A fresh struct. NULL = no memory. */
struct tw_call *wire_call_new(struct wire_queue *queue);
void wire_call_free(struct tw_call *call);

/* Makes a struct that was used ready for its next call; what it holds is given back. */
void wire_call_recycle(struct tw_call *call);

/* One completion. Thread: the queue's. */
void wire_call_on_completion(struct op *op, bool ok);
void wire_call_on_post(struct tw_call *call);
void wire_call_on_timer(struct tw_call *call);

/* It has waited with its message, and has its turn. */
void wire_call_on_turn(struct tw_call *call);

/* Ends a stream that watches, if its caller may no longer. Thread: the queue's. */
void wire_call_look_again(struct tw_call *call);

/* The server goes away: streams end with SHUTTING_DOWN, event streams once their handler has
 * answered what came. Thread: the queue's. */
void wire_call_end_stream(struct tw_call *call);

#endif
