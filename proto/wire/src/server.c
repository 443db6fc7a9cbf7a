#include "core.h"
#include "serving.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/limits.h>

#include <grpc/grpc_security.h>

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Messages up to this size reach us and are refused with details; the core refuses larger ones. */
#define CORE_RECEIVE_BYTES_MAX  (TW_REQUEST_BYTES_MAX + 64u * 1024u)
#define KEEPALIVE_MS            45000
#define KEEPALIVE_TIMEOUT_MS    15000
#define CLIENT_PING_INTERVAL_MS 4000 /* every 5 s is allowed, also when one comes a little early   \
                                      */
#define HANDSHAKE_TIMEOUT_MS   10000
#define CONCURRENT_STREAMS_MAX 1024
#define TYPE_DEPTH_MAX         16u

static_assert(CORE_RECEIVE_BYTES_MAX > TW_REQUEST_BYTES_MAX, "a request of the largest size fits");

/* ---- The table of methods. ---- */

static uint32_t path_hash(const char *path, size_t length)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)path[i]) * 16777619u;
    return hash ^ hash >> 16;
}

/* The bucket that holds the path, or the free one where it belongs. */
static uint32_t bucket_find(const struct tw_wire_server *server, const char *path, size_t length)
{
    uint32_t at = path_hash(path, length) & (WIRE_METHOD_BUCKETS - 1);
    for (; server->buckets[at] != 0; at = (at + 1) & (WIRE_METHOD_BUCKETS - 1)) {
        const struct wire_method *method = &server->methods[server->buckets[at] - 1];
        if (method->path_length == length && memcmp(method->row->path, path, length) == 0)
            break;
    }
    return at;
}

const struct wire_method *wire_method_find(const struct tw_wire_server *server, grpc_slice path)
{
    uint32_t at =
        bucket_find(server, (const char *)GRPC_SLICE_START_PTR(path), GRPC_SLICE_LENGTH(path));
    return server->buckets[at] == 0 ? NULL : &server->methods[server->buckets[at] - 1];
}

/* Decoding and the walk over strings recurse as deep as the type does, so a type that contains
 * itself would let a client choose the depth. */
static bool type_depth_is_bounded(const ProtobufCMessageDescriptor *type, unsigned depth)
{
    if (depth > TYPE_DEPTH_MAX)
        return false;
    for (unsigned i = 0; i < type->n_fields; i++)
        if (type->fields[i].type == PROTOBUF_C_TYPE_MESSAGE &&
            !type_depth_is_bounded(type->fields[i].descriptor, depth + 1))
            return false;
    return true;
}

static tw_status method_check(const struct tw_wire_method *row, const struct tw_method_type *type,
                              struct tw_error *error)
{
    if (type == NULL)
        return tw_error_set(error, TW_INVALID, "method %s is in no .proto file", row->path);
    if (row->on_request == NULL)
        return tw_error_set(error, TW_INVALID, "method %s has no on_request", row->path);
    if (type->client_streams && !type->server_streams)
        return tw_error_set(error, TW_INVALID, "method %s streams from the client only: not served",
                            row->path);
    if (row->watches && (type->client_streams || !type->server_streams))
        return tw_error_set(error, TW_INVALID, "method %s watches, but streams no answers only",
                            row->path);
    if (row->takes_invalid && !type->client_streams)
        return tw_error_set(error, TW_INVALID,
                            "method %s takes invalid messages, but is no stream "
                            "of them",
                            row->path);
    if (!type_depth_is_bounded(type->input, 0))
        return tw_error_set(error, TW_INVALID,
                            "method %s takes %s, which contains itself or is "
                            "deeper than %u",
                            row->path, type->input->name, TYPE_DEPTH_MAX);
    return TW_OK;
}

static tw_status method_add(struct tw_wire_server *server, const struct tw_wire_method *row,
                            struct tw_error *error)
{
    static const char health[] = "/grpc.health.v1.Health/";
    const struct tw_method_type *type = tw_method_type_find(row->path);
    tw_status status = method_check(row, type, error);
    if (status != TW_OK)
        return status;

    size_t length = strlen(row->path);
    uint32_t bucket = bucket_find(server, row->path, length);
    if (server->buckets[bucket] != 0)
        return tw_error_set(error, TW_INVALID, "method %s is given twice", row->path);
    server->methods[server->n_methods] = (struct wire_method){
        .row = row,
        .type = type,
        .path_length = length,
        .request_bytes_max =
            row->request_bytes_max == 0 ? TW_REQUEST_BYTES_MAX : row->request_bytes_max,
        .is_stream = type->server_streams,
        .is_served_in_drain = strncmp(row->path, health, sizeof health - 1) == 0,
    };
    server->buckets[bucket] = ++server->n_methods;
    return TW_OK;
}

/* A service is served whole: a method that is missing in the table is a mistake, not a decision. */
static tw_status services_check(const struct tw_wire_server *server, struct tw_error *error)
{
    for (uint32_t i = 0; i < server->n_methods; i++)
        for (uint32_t k = 0; k < tw_method_types_count(); k++) {
            const struct tw_method_type *type = tw_method_type_at(k);
            if (strcmp(type->service, server->methods[i].type->service) != 0)
                continue;
            char path[256];
            int length = snprintf(path, sizeof path, "/%s/%s", type->service, type->name);
            if (server->buckets[bucket_find(server, path, (size_t)length)] == 0)
                return tw_error_set(error, TW_INVALID, "method %s is missing in the table", path);
        }
    return TW_OK;
}

static tw_status methods_read(struct tw_wire_server *server, const struct tw_wire_method *rows,
                              struct tw_error *error)
{
    uint32_t count = 0;
    while (rows[count].path != NULL)
        count++;
    if (count == 0 || count > WIRE_METHOD_BUCKETS / 2)
        return tw_error_set(error, TW_INVALID, "%u methods to serve, expected 1..%u", count,
                            WIRE_METHOD_BUCKETS / 2);
    server->methods = calloc(count, sizeof *server->methods);
    if (server->methods == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for %u methods", count);

    for (uint32_t i = 0; i < count; i++) {
        tw_status status = method_add(server, &rows[i], error);
        if (status != TW_OK)
            return status;
    }
    return services_check(server, error);
}

/* ---- The core's server. ---- */

static grpc_arg arg_integer(const char *key, int value)
{
    return (grpc_arg){.type = GRPC_ARG_INTEGER,
                      .key = (char *)(uintptr_t)key, /* only read */
                      .value.integer = value};
}

/* Why each: proto/wire/README.md. */
static grpc_server *core_new(void)
{
    grpc_arg args[] = {
        arg_integer(GRPC_ARG_ALLOW_REUSEPORT, 0),
        arg_integer(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1),
        arg_integer(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, CORE_RECEIVE_BYTES_MAX),
        arg_integer(GRPC_ARG_MAX_METADATA_SIZE, TW_METADATA_BYTES_MAX),
        arg_integer(GRPC_ARG_MAX_CONCURRENT_STREAMS, CONCURRENT_STREAMS_MAX),
        arg_integer(GRPC_ARG_KEEPALIVE_TIME_MS, KEEPALIVE_MS),
        arg_integer(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KEEPALIVE_TIMEOUT_MS),
        arg_integer(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        arg_integer(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, CLIENT_PING_INTERVAL_MS),
        arg_integer(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, HANDSHAKE_TIMEOUT_MS),
        arg_integer(GRPC_ARG_ENABLE_CHANNELZ, 0),
    };
    grpc_channel_args list = {.num_args = sizeof args / sizeof args[0], .args = args};
    return grpc_server_create(&list, NULL);
}

static void core_register(struct tw_wire_server *server)
{
    for (uint32_t i = 0; i < server->n_queues; i++)
        grpc_server_register_completion_queue(server->core, server->queues[i]->core, NULL);
    for (uint32_t i = 0; i < server->n_methods; i++)
        if (server->methods[i].row->watches)
            server->methods[i].registered = grpc_server_register_method(
                server->core, server->methods[i].row->path, NULL, GRPC_SRM_PAYLOAD_NONE, 0);
}

/* ---- Binding. ---- */

static const char unix_prefix[] = "unix:";

static bool is_unix(const char *listen)
{
    return strncmp(listen, unix_prefix, sizeof unix_prefix - 1) == 0;
}

/* "host:port" with a port of 0..65535, or "unix:/path". */
static tw_status address_check(const char *listen, struct tw_error *error)
{
    if (is_unix(listen)) {
        size_t length = strlen(listen + sizeof unix_prefix - 1);
        if (length == 0 || length >= sizeof((struct sockaddr_un *)NULL)->sun_path)
            return tw_error_set(error, TW_INVALID,
                                "address \"%s\": the path of a socket has 1 to "
                                "%zu characters",
                                listen, sizeof((struct sockaddr_un *)NULL)->sun_path - 1);
        return TW_OK;
    }
    const char *colon = strrchr(listen, ':');
    char *end = NULL;
    long port = -1;
    if (colon != NULL && colon != listen && colon[1] >= '0' && colon[1] <= '9')
        port = strtol(colon + 1, &end, 10);
    if (port < 0 || port > 65535 || *end != '\0')
        return tw_error_set(error, TW_INVALID,
                            "address \"%s\": expected HOST:PORT with a port of "
                            "0 to 65535, or unix:/PATH",
                            listen);
    return TW_OK;
}

/* The core unlinks a socket that is there without asking whether somebody listens on it. */
static bool unix_is_taken(const char *listen)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", listen + sizeof unix_prefix - 1);
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (probe < 0)
        return false;
    bool is_taken = connect(probe, (const struct sockaddr *)&address, sizeof address) == 0;
    close(probe);
    return is_taken;
}

static tw_status bind_port(struct tw_wire_server *server, struct tw_error *error)
{
    const char *listen = server->options.listen;
    if (is_unix(listen) && unix_is_taken(listen))
        return tw_error_set(error, TW_IO, "%s is taken: another server listens there", listen);

    grpc_server_credentials *credentials = server->tls != NULL ? wire_tls_server_credentials(server->tls)
                                                               : grpc_insecure_server_credentials_create();
    mode_t mask = is_unix(listen) ? umask(0177) : 0; /* for the owner alone */
    wire_core_quiet_begin();
    int port = grpc_server_add_http2_port(server->core, listen, credentials);
    const char *reason = wire_core_quiet_end();
    if (is_unix(listen))
        umask(mask);
    grpc_server_credentials_release(credentials);
    if (port == 0)
        return tw_error_set(error, TW_IO, "%s is taken or may not be bound: %s; give another address with --listen", listen,
                            reason[0] == '\0' ? "no such address here" : reason);
    server->port = is_unix(listen) ? 0 : port;
    return TW_OK;
}

/* ---- Life. ---- */

static uint32_t rpc_threads_default(void)
{
    cpu_set_t usable;
    if (sched_getaffinity(0, sizeof usable, &usable) != 0)
        return 1;
    uint32_t cores = (uint32_t)CPU_COUNT(&usable);
    return cores < WIRE_RPC_THREADS_MAX ? cores : WIRE_RPC_THREADS_MAX;
}

static tw_status queues_new(struct tw_wire_server *server, uint32_t rpc_threads,
                            struct tw_error *error)
{
    for (uint32_t i = 0; i <= rpc_threads; i++) {
        char name[16] = "tw-stream";
        bool is_stream = i == rpc_threads;
        if (!is_stream)
            snprintf(name, sizeof name, "tw-rpc-%u", i % WIRE_RPC_THREADS_MAX);
        tw_status status = wire_queue_new(server, is_stream, name, &server->queues[i]);
        if (status != TW_OK)
            return tw_error_set(error, status, "no memory for the queue of %s", name);
        server->n_queues++;
    }
    return TW_OK;
}

static tw_status queues_start(struct tw_wire_server *server, struct tw_error *error)
{
    for (uint32_t i = 0; i < server->n_queues; i++) {
        tw_status status = wire_queue_start(server->queues[i], error);
        if (status != TW_OK)
            return status;
    }
    return TW_OK;
}

static void queues_wake(struct tw_wire_server *server)
{
    for (uint32_t i = 0; i < server->n_queues; i++)
        wire_queue_wake(server->queues[i]);
}

/* Copes with whatever is not there yet. The core's server is down, or was never up. */
static void server_free(struct tw_wire_server *server)
{
    atomic_store_explicit(&server->is_stopping, true, memory_order_release);
    for (uint32_t i = 0; i < server->n_queues; i++)
        wire_queue_join(server->queues[i]);
    if (server->core != NULL)
        grpc_server_destroy(server->core);
    for (uint32_t i = 0; i < server->n_queues; i++)
        wire_queue_free(server->queues[i]);
    wire_core_exit();

    wire_tls_free(server->tls);
    peers_clear(&server->peers);
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->mutex);
    free((char *)(uintptr_t)server->options.listen);
    free(server->methods);
    free(server);
}

static struct tw_wire_server *server_new(const struct tw_wire_options *options)
{
    struct tw_wire_server *server = calloc(1, sizeof *server);
    char *listen = strdup(options->listen);
    if (server == NULL || listen == NULL) {
        free(server);
        free(listen);
        return NULL;
    }
    server->options = *options;
    server->options.listen = listen;
    server->options.tls = NULL; /* the caller's; ours is server->tls */
    server->streams_per_peer_max = options->streams_per_peer_max == 0
                                       ? TW_STREAMS_PER_PEER_MAX
                                       : options->streams_per_peer_max;
    peers_init(&server->peers);
    pthread_mutex_init(&server->mutex, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&server->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    wire_core_init();
    return server;
}

tw_status tw_wire_server_start(const struct tw_wire_options *options,
                               const struct tw_wire_method *methods,
                               struct tw_wire_server **ret_server, struct tw_error *error)
{
    uint32_t rpc_threads = options->rpc_threads == 0 ? rpc_threads_default() : options->rpc_threads;
    if (rpc_threads > WIRE_RPC_THREADS_MAX)
        return tw_error_set(error, TW_INVALID, "rpc_threads is %u, expected 1..%u", rpc_threads,
                            WIRE_RPC_THREADS_MAX);
    tw_status status = address_check(options->listen, error);
    if (status != TW_OK)
        return status;
    struct tw_wire_server *server = server_new(options);
    if (server == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the server");

    status = methods_read(server, methods, error);
    if (status == TW_OK && options->tls != NULL)
        status = wire_tls_new(options->tls, &server->tls, error);
    if (status != TW_OK)
        goto fail;
    status = queues_new(server, rpc_threads, error);
    if (status != TW_OK)
        goto fail;
    server->core = core_new();
    core_register(server);
    status = queues_start(server, error);
    if (status != TW_OK)
        goto fail;
    status = bind_port(server, error);
    if (status != TW_OK)
        goto fail;

    grpc_server_start(server->core);
    atomic_store_explicit(&server->is_serving, true, memory_order_release);
    queues_wake(server); /* each asks for its first calls */
    *ret_server = server;
    return TW_OK;

fail:
    server_free(server);
    return status;
}

int tw_wire_server_port(const struct tw_wire_server *server)
{
    return server->port;
}

tw_status tw_wire_server_tls_reload(struct tw_wire_server *server, struct tw_error *error)
{
    return server->tls != NULL ? wire_tls_reload(server->tls, error) : TW_OK;
}

void tw_wire_server_drain(struct tw_wire_server *server)
{
    atomic_store_explicit(&server->is_draining, true, memory_order_release);
}

void tw_wire_server_end_streams(struct tw_wire_server *server)
{
    atomic_store_explicit(&server->is_ending_streams, true, memory_order_release);
    queues_wake(server);
}

void tw_wire_server_look_again(struct tw_wire_server *server)
{
    atomic_fetch_add_explicit(&server->looks, 1, memory_order_release);
    wire_queue_wake(server->queues[server->n_queues - 1]); /* the one of those that watch */
}

void wire_server_core_is_down(struct tw_wire_server *server)
{
    pthread_mutex_lock(&server->mutex);
    server->is_core_down = true;
    pthread_cond_signal(&server->changed);
    pthread_mutex_unlock(&server->mutex);
}

/* Waits for the shutdown tag; false when until_mono_ns came first. */
static bool core_down_await(struct tw_wire_server *server, int64_t until_mono_ns)
{
    struct timespec until = {.tv_sec = until_mono_ns / TW_NS_PER_S,
                             .tv_nsec = until_mono_ns % TW_NS_PER_S};
    int failure = 0;
    pthread_mutex_lock(&server->mutex);
    while (!server->is_core_down && failure == 0)
        failure = pthread_cond_timedwait(&server->changed, &server->mutex, &until);
    bool is_down = server->is_core_down;
    pthread_mutex_unlock(&server->mutex);
    return is_down;
}

void tw_wire_server_stop(struct tw_wire_server *server, uint32_t grace_ms)
{
    if (server == NULL)
        return;
    int64_t until_mono_ns = tw_mono_ns() + (int64_t)grace_ms * TW_NS_PER_MS;

    /* 1. Nobody new; streams would use up any grace. */
    tw_wire_server_drain(server);
    tw_wire_server_end_streams(server);
    /* 2. GOAWAY; the core gives back the calls that wait for a client. The queues go on. */
    grpc_server_shutdown_and_notify(server->core, server->queues[0]->core, server);
    /* 3. What runs may finish, what does not is cancelled; its completions still come. */
    if (!core_down_await(server, until_mono_ns)) {
        grpc_server_cancel_all_calls(server->core);
        core_down_await(server, INT64_MAX);
    }
    /* 4. Each queue ends when its last call has; then nothing uses the core any more. */
    server_free(server);
}
