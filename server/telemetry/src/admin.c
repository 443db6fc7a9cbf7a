#include "admin.h"

#include "http_request.h"
#include "metrics_text.h"
#include "telemetry_inside.h"
#include "text.h"

#include <tradewake/base/accept.h>
#include <tradewake/base/clock.h>
#include <tradewake/base/log.h>
#include <tradewake/executor/reactor.h>

#include <assert.h>
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#define CONNECTIONS_MAX 64
#define LISTEN_BACKLOG  512 /* a dropped SYN costs a probe a whole second */
/* The time a client has for the whole of its next request, or to take an answer. A probe every
 * 10 s and a scrape every 15 s keep their connections. */
#define IDLE_MS 30000u
/* After a refusal we read on for so long, so that the answer is not lost to a reset. */
#define LINGER_MS 2000u
#define SWEEP_MS  1000u

enum connection_state {
    READING,   /* for the next request */
    ASKING,    /* the sampler has been asked; the connection must stay until it answers */
    WRITING,   /* the answer is on its way */
    LINGERING, /* the answer has gone and we have said so; what still comes is thrown away */
    CLOSING,
};

struct connection {
    uv_tcp_t tcp;
    struct admin *admin;
    struct connection *next, *previous;
    enum connection_state state;
    uint64_t deadline_ms; /* by the loop's clock */
    bool is_asking;       /* the sampler will answer: not to be freed before */
    bool is_closed;       /* libuv has let go of it */

    struct http_request request; /* points into `in` */
    bool closes;                 /* after this answer */
    size_t in_bytes;
    char in[HTTP_HEAD_BYTES_MAX + HTTP_BODY_BYTES_MAX];

    uv_write_t write;
    uv_shutdown_t shutdown;
    struct text out;
    struct tw_task answered;
    struct tw_sampler_totals totals;
};

struct admin {
    /* Set by admin_open(), read-only afterwards. */
    struct tw_telemetry *telemetry;
    struct tw_reactor *house;
    int port;

    /* The house thread's alone. */
    uv_tcp_t listener;
    uv_timer_t sweep;
    struct connection *connections; /* newest first */
    int n_connections;
    int n_handles; /* listener and timer that libuv still knows */
    bool is_full;  /* somebody waits in libuv's hands until a connection ends */
    bool is_closing;

    /* main gives, the house thread gives back: `done` orders the two. */
    sem_t done;
    struct tw_task opening, closing;
    struct sockaddr_storage address;
    int failure; /* a libuv error of bind or listen; 0 = it listens */
};

static void connection_read(struct connection *connection);
static void connection_accept(struct admin *admin);

/* ---- The end of a connection, and of all. ---- */

static void admin_check_done(struct admin *admin)
{
    if (admin->is_closing && admin->n_connections == 0 && admin->n_handles == 0)
        sem_post(&admin->done);
}

static void connection_free_when_done(struct connection *connection)
{
    struct admin *admin = connection->admin;
    if (connection->is_asking || !connection->is_closed)
        return;

    if (connection->next != NULL)
        connection->next->previous = connection->previous;
    if (connection->previous != NULL)
        connection->previous->next = connection->next;
    else
        admin->connections = connection->next;
    text_clear(&connection->out);
    free(connection);
    admin->n_connections--;
    if (admin->is_full && !admin->is_closing)
        connection_accept(admin);
    else if (admin->n_connections == 0 && !admin->is_closing)
        uv_timer_stop(&admin->sweep);
    admin_check_done(admin);
}

static void on_connection_closed(uv_handle_t *handle)
{
    struct connection *connection = handle->data;
    connection->is_closed = true;
    connection_free_when_done(connection);
}

static void connection_close(struct connection *connection)
{
    if (connection->state == CLOSING)
        return;
    connection->state = CLOSING;
    uv_close((uv_handle_t *)&connection->tcp, on_connection_closed);
}

static void deadline_set(struct connection *connection, uint64_t ms)
{
    connection->deadline_ms = uv_now(connection->tcp.loop) + ms;
}

/* ---- Answers. ---- */

struct answer {
    int status;
    const char *type; /* NULL = plain text */
    struct text body;
};

static void on_shutdown(uv_shutdown_t *shutdown, int failed)
{
    if (failed != 0)
        connection_close(shutdown->data);
}

/* The answer is out: the next request, or the end. */
static void on_written(uv_write_t *write, int failed)
{
    struct connection *connection = write->data;
    text_clear(&connection->out);
    if (connection->state == CLOSING)
        return;
    if (failed != 0) {
        connection_close(connection);
        return;
    }
    if (connection->closes) {
        connection->state = LINGERING;
        connection->in_bytes = 0;
        connection->shutdown.data = connection;
        deadline_set(connection, LINGER_MS);
        if (uv_shutdown(&connection->shutdown, (uv_stream_t *)&connection->tcp, on_shutdown) != 0)
            connection_close(connection);
        else
            connection_read(connection);
        return;
    }

    connection->in_bytes -= connection->request.bytes;
    memmove(connection->in, connection->in + connection->request.bytes, connection->in_bytes);
    connection->state = READING;
    deadline_set(connection, IDLE_MS);
    connection_read(connection);
}

static void head_write(struct text *out, const struct answer *answer, bool closes)
{
    char date[64] = "";
    time_t now = (time_t)(tw_wall_ns() / TW_NS_PER_S);
    struct tm utc;
    if (gmtime_r(&now, &utc) != NULL)
        strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &utc);

    text_add(out,
             "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
             "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n%s%s\r\n",
             answer->status, http_status_words(answer->status), date,
             answer->type != NULL ? answer->type : "text/plain; charset=utf-8", answer->body.used,
             answer->status == 405 ? "Allow: GET, HEAD\r\n" : "",
             closes ? "Connection: close\r\n" : "Connection: keep-alive\r\n");
}

/* Sends it; the body is ours afterwards. */
static void connection_answer(struct connection *connection, struct answer *answer)
{
    struct text *out = &connection->out;
    head_write(out, answer, connection->closes);
    if (answer->body.used > 0 && !connection->request.is_head)
        text_add(out, "%s", answer->body.bytes);
    bool has_failed = out->has_failed || answer->body.has_failed;
    text_clear(&answer->body);

    connection->state = WRITING;
    connection->write.data = connection;
    deadline_set(connection, IDLE_MS);
    uv_buf_t bytes = uv_buf_init(out->bytes, (unsigned)out->used);
    if (has_failed ||
        uv_write(&connection->write, (uv_stream_t *)&connection->tcp, &bytes, 1, on_written) != 0)
        connection_close(connection);
}

static void connection_refuse(struct connection *connection, int status, const char *words)
{
    struct answer answer = {.status = status};
    text_add(&answer.body, "%s\n", words);
    connection->closes = true;
    connection->request.is_head = false;
    connection_answer(connection, &answer);
}

/* ---- Pages. ---- */

/* The lines of all checks, or of those that fail; whether all pass. */
static bool checks_run(const struct tw_telemetry *telemetry, const struct tw_health_check *check,
                       bool is_verbose, struct text *body)
{
    bool all_pass = true;
    for (; check != NULL && check->name != NULL; check++) {
        char why[256] = "";
        bool passes = check->passes(telemetry->options.callbacks.context, why, sizeof why);
        all_pass &= passes;
        if (!passes)
            text_add(body, "[-]%s failed: %s\n", check->name, why);
        else if (is_verbose)
            text_add(body, "[+]%s ok\n", check->name);
    }
    return all_pass;
}

static void checks_page(struct connection *connection, const struct tw_health_check *checks,
                        const char *good, const char *bad)
{
    struct answer answer = {.status = 200};
    bool is_verbose = http_query_has(connection->request.query, "verbose");
    if (!checks_run(connection->admin->telemetry, checks, is_verbose, &answer.body))
        answer.status = 503;
    text_add(&answer.body, "%s\n", answer.status == 200 ? good : bad);
    connection_answer(connection, &answer);
}

static void live_page(struct connection *connection)
{
    checks_page(connection, connection->admin->telemetry->options.callbacks.live, "alive",
                "not alive");
}

static void ready_page(struct connection *connection)
{
    checks_page(connection, connection->admin->telemetry->options.callbacks.ready, "ready",
                "not ready");
}

static void index_page(struct connection *connection)
{
    const struct tw_telemetry_options *options = &connection->admin->telemetry->options;
    struct answer answer = {.status = 200, .type = "text/html; charset=utf-8"};
    text_add(&answer.body,
             "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>tradewake</title>\n"
             "<h1>tradewake %s</h1>\n<ul>\n"
             "<li><a href=\"/livez\">/livez</a>: 200 while the process works\n"
             "<li><a href=\"/readyz\">/readyz</a>: 200 while it takes events; "
             "<a href=\"/readyz?verbose\">?verbose</a> lists the checks\n"
             "<li><a href=\"/metrics\">/metrics</a>: for Prometheus\n"
             "<li><a href=\"/loglevel\">/loglevel</a>: what is logged; PUT changes it, from this machine alone\n"
             "</ul>\n</html>\n",
             options->version);
    connection_answer(connection, &answer);
}

/* The histograms belong to the sampler: it is asked for a copy, and answers on its own thread. */
static void on_totals(void *context, const struct tw_sampler_totals *totals)
{
    struct connection *connection = context;
    connection->totals = *totals;
    tw_reactor_post(connection->admin->house, &connection->answered);
}

static void metrics_page(struct connection *connection)
{
    connection->state = ASKING;
    connection->is_asking = true;
    if (tw_sampler_totals(connection->admin->telemetry->sampler, on_totals, connection) == TW_OK)
        return;
    connection->is_asking = false;
    connection_refuse(connection, 503, "too many readings are asked for at once: try again");
}

static void on_answered(struct tw_task *task)
{
    struct connection *connection =
        (struct connection *)((char *)task - offsetof(struct connection, answered));
    connection->is_asking = false;
    if (connection->state == CLOSING) {
        connection_free_when_done(connection);
        return;
    }

    struct tw_telemetry *telemetry = connection->admin->telemetry;
    const struct tw_telemetry_callbacks *callbacks = &telemetry->options.callbacks;
    struct metrics_reading reading = {
        .version = telemetry->options.version,
        .instance_id = telemetry->options.instance_id,
        .start_wall_ns = telemetry->start_wall_ns,
        .sampler = connection->totals,
    };
    struct text ignored = {0};
    reading.is_ready = checks_run(telemetry, callbacks->ready, false, &ignored);
    text_clear(&ignored);
    callbacks->followers(callbacks->context, &reading.followers_total,
                         &reading.followers_connected);
    reading.has_backlog = callbacks->backlog != NULL;
    reading.backlog_bytes = reading.has_backlog ? callbacks->backlog(callbacks->context) : 0;
    reading.breach = callbacks->breach;
    reading.line = callbacks->line;
    reading.context = callbacks->context;
    reading.has_history = callbacks->history != NULL &&
                          callbacks->history(callbacks->context, &reading.history_behind, &reading.is_history_failing);
    tw_telemetry_executor_get(telemetry, &reading.executor);
    process_read(&reading.process);

    struct answer answer = {.status = 200, .type = "text/plain; version=0.0.4; charset=utf-8"};
    metrics_text(&answer.body, &reading);
    connection_answer(connection, &answer);
}

/* ---- What may be changed. ---- */

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    if (address->sa_family != AF_INET6)
        return false;
    const struct in6_addr *in6 = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(in6) || (IN6_IS_ADDR_V4MAPPED(in6) && in6->s6_addr[12] == IN_LOOPBACKNET);
}

static bool is_from_here(struct connection *connection)
{
    struct sockaddr_storage peer;
    int size = sizeof peer;
    return uv_tcp_getpeername(&connection->tcp, (struct sockaddr *)&peer, &size) == 0 &&
           is_loopback((const struct sockaddr *)&peer);
}

/* "debug", or "level=debug" as forms have it; with or without the end of a line. */
static bool level_read(struct http_text body, enum tw_log_level *ret)
{
    static const char key[] = "level=";
    char word[HTTP_BODY_BYTES_MAX + 1u];
    memcpy(word, body.at, body.size);
    word[body.size] = '\0';
    word[strcspn(word, "\r\n")] = '\0';
    return tw_log_level_parse(word + (strncmp(word, key, sizeof key - 1) == 0 ? sizeof key - 1 : 0u), ret);
}

/* Told while both levels let it through, so that a log says why it falls silent. */
static void level_set(enum tw_log_level level)
{
    enum tw_log_level before = tw_log_level_get();
    if (level < before)
        tw_log_level_set(level);
    tw_log(TW_LOG_WARN, "log.level", "level=%s before=%s by=admin", tw_log_level_word(level), tw_log_level_word(before));
    tw_log_level_set(level);
}

static void level_put(struct connection *connection)
{
    struct answer answer = {.status = 200};
    enum tw_log_level level;
    if (!is_from_here(connection)) {
        answer.status = 403;
        text_add(&answer.body, "the level is changed from the machine itself: 127.0.0.1 or ::1\n");
    } else if (!level_read(connection->request.body, &level)) {
        answer.status = 400;
        text_add(&answer.body, "expected debug, info, warn, error or none\n");
    } else {
        level_set(level);
        text_add(&answer.body, "%s\n", tw_log_level_word(level));
    }
    connection_answer(connection, &answer);
}

static void level_page(struct connection *connection)
{
    struct answer answer = {.status = 200};
    text_add(&answer.body, "%s\n", tw_log_level_word(tw_log_level_get()));
    connection_answer(connection, &answer);
}

static void connection_dispatch(struct connection *connection)
{
    static const struct {
        const char *path;
        void (*answer)(struct connection *connection);
        void (*put)(struct connection *connection); /* NULL = nothing to change */
    } pages[] = {
        {"/", index_page, NULL},
        {"/livez", live_page, NULL},
        {"/readyz", ready_page, NULL},
        {"/metrics", metrics_page, NULL},
        {"/loglevel", level_page, level_put},
    };
    struct answer answer = {.status = 404};
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        if (!http_text_is(connection->request.path, pages[i].path))
            continue;
        bool is_put = connection->request.is_put;
        if (!is_put || pages[i].put != NULL) {
            (is_put ? pages[i].put : pages[i].answer)(connection);
            return;
        }
        answer.status = 405;
        text_add(&answer.body, "There is nothing to change here.\n");
        connection_answer(connection, &answer);
        return;
    }
    text_add(&answer.body, "There are /, /livez, /readyz, /metrics and /loglevel here.\n");
    connection_answer(connection, &answer);
}

/* ---- Requests. ---- */

static void on_room_wanted(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_room)
{
    struct connection *connection = handle->data;
    (void)suggested;
    *ret_room = uv_buf_init(connection->in + connection->in_bytes,
                            (unsigned)(sizeof connection->in - connection->in_bytes));
}

/* Serves the request at the beginning of what has been read, if it is whole. */
static void connection_serve(struct connection *connection)
{
    static const char refused[] = "GET or HEAD without a body, or PUT with a word, in at most 8 KiB, please";
    int status;

    switch (
        http_request_read(connection->in, connection->in_bytes, &connection->request, &status)) {
    case HTTP_MORE:
        return;
    case HTTP_REFUSED:
        uv_read_stop((uv_stream_t *)&connection->tcp);
        connection_refuse(connection, status, refused);
        return;
    case HTTP_REQUEST:
        uv_read_stop((uv_stream_t *)&connection->tcp);
        connection->closes = !connection->request.keeps_alive;
        connection_dispatch(connection);
        return;
    }
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *room)
{
    struct connection *connection = stream->data;
    (void)room;
    if (size < 0) { /* the client has gone */
        connection_close(connection);
        return;
    }
    if (connection->state != READING || size == 0)
        return;
    connection->in_bytes += (size_t)size;
    connection_serve(connection);
}

/* Reads on, beginning with what came behind the last request. */
static void connection_read(struct connection *connection)
{
    if (uv_read_start((uv_stream_t *)&connection->tcp, on_room_wanted, on_read) != 0)
        connection_close(connection);
    else if (connection->state == READING && connection->in_bytes > 0)
        connection_serve(connection);
}

/* ---- Connections. ---- */

static void on_sweep(uv_timer_t *timer)
{
    struct admin *admin = timer->data;
    uint64_t now_ms = uv_now(timer->loop);
    for (struct connection *at = admin->connections; at != NULL; at = at->next)
        if (at->state != ASKING && at->deadline_ms <= now_ms)
            connection_close(at);
    if (admin->is_full)
        connection_accept(admin);
}

/* A full house must not turn a probe away: the one that has been idle longest makes room. */
static void longest_idle_close(struct admin *admin)
{
    struct connection *longest = NULL;
    for (struct connection *at = admin->connections; at != NULL; at = at->next)
        if ((at->state == READING || at->state == LINGERING) &&
            (longest == NULL ||
             at->deadline_ms <= longest->deadline_ms)) /* the list is newest first */
            longest = at;
    if (longest != NULL)
        connection_close(longest);
}

/* Takes the connection that libuv holds. Until somebody does it listens no further, so a client that
 * finds no place, or no memory, waits in the backlog. */
static void connection_accept(struct admin *admin)
{
    struct connection *connection = NULL;
    if (admin->n_connections < CONNECTIONS_MAX)
        connection = calloc(1, sizeof *connection);
    admin->is_full = connection == NULL;
    if (connection == NULL) { /* again when one has ended, or with the next sweep */
        longest_idle_close(admin);
        uv_timer_start(&admin->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
        return;
    }

    connection->admin = admin;
    connection->tcp.data = connection;
    connection->answered.run = on_answered;
    connection->next = admin->connections;
    if (connection->next != NULL)
        connection->next->previous = connection;
    admin->connections = connection;
    if (admin->n_connections++ == 0)
        uv_timer_start(&admin->sweep, on_sweep, SWEEP_MS, SWEEP_MS);

    uv_tcp_init(admin->listener.loop, &connection->tcp);
    deadline_set(connection, IDLE_MS);
    if (uv_accept((uv_stream_t *)&admin->listener, (uv_stream_t *)&connection->tcp) != 0)
        connection_close(connection);
    else
        connection_read(connection);
}

static void on_connection(uv_stream_t *listener, int failed)
{
    struct admin *admin = listener->data;
    if (failed == 0 && !admin->is_closing)
        connection_accept(admin);
}

/* ---- Life. ---- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct admin *admin = handle->data;
    admin->n_handles--;
    admin_check_done(admin);
}

static int listen_begin(struct admin *admin, uv_loop_t *loop)
{
    int failure = uv_timer_init(loop, &admin->sweep);
    if (failure != 0)
        return failure;
    admin->sweep.data = admin;
    admin->n_handles++;

    failure = uv_tcp_init(loop, &admin->listener);
    if (failure != 0)
        return failure;
    admin->listener.data = admin;
    admin->n_handles++;

    failure = uv_tcp_bind(&admin->listener, (const struct sockaddr *)&admin->address, 0);
    if (failure == 0)
        failure = uv_listen((uv_stream_t *)&admin->listener, LISTEN_BACKLOG, on_connection);
    uv_os_fd_t fd;
    if (failure == 0 && uv_fileno((uv_handle_t *)&admin->listener, &fd) == 0)
        tw_accept_always(fd); /* CONNECTIONS_MAX is its bound */
    int size = sizeof admin->address;
    if (failure == 0)
        failure = uv_tcp_getsockname(&admin->listener, (struct sockaddr *)&admin->address, &size);
    return failure;
}

static void on_opening(struct tw_task *task)
{
    struct admin *admin = (struct admin *)((char *)task - offsetof(struct admin, opening));
    admin->failure = listen_begin(admin, tw_reactor_loop(admin->house));
    sem_post(&admin->done);
}

static void on_closing(struct tw_task *task)
{
    struct admin *admin = (struct admin *)((char *)task - offsetof(struct admin, closing));
    admin->is_closing = true;
    for (struct connection *at = admin->connections; at != NULL; at = at->next)
        connection_close(at);
    if (admin->n_handles >= 1)
        uv_close((uv_handle_t *)&admin->sweep, on_handle_closed);
    if (admin->n_handles >= 2)
        uv_close((uv_handle_t *)&admin->listener, on_handle_closed);
    admin_check_done(admin);
}

static void done_wait(struct admin *admin)
{
    while (sem_wait(&admin->done) != 0)
        ; /* a signal came first */
}

/* "127.0.0.1:9464", "[::1]:9464", ":9464". */
static tw_status address_read(const char *listen, struct sockaddr_storage *ret_address,
                              struct tw_error *error)
{
    char host[256], port[8];
    const char *colon = strrchr(listen, ':');
    size_t host_size = colon == NULL ? 0 : (size_t)(colon - listen);
    bool has_brackets = host_size >= 2 && listen[0] == '[' && colon[-1] == ']';
    if (colon == NULL || host_size >= sizeof host || strlen(colon + 1) >= sizeof port ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1) || colon[1] == '\0' ||
        atoi(colon + 1) > 65535 || (!has_brackets && memchr(listen, ':', host_size) != NULL))
        return tw_error_set(error, TW_INVALID,
                            "the admin address is \"%.200s\", expected ADDRESS:PORT such as %s",
                            listen, TW_TELEMETRY_ADMIN_LISTEN);

    size_t skip = has_brackets ? 1u : 0u;
    snprintf(host, sizeof host, "%.*s", (int)(host_size - 2u * skip), listen + skip);
    snprintf(port, sizeof port, "%s", colon + 1);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found;
    int failed = getaddrinfo(host[0] == '\0' ? NULL : host, port, &hints, &found);
    if (failed != 0)
        return tw_error_set(error, TW_INVALID, "the admin address %.200s is not known here: %s",
                            listen, gai_strerror(failed));
    memcpy(ret_address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return TW_OK;
}

static int port_of(const struct sockaddr_storage *address)
{
    char port[8] = "0";
    (void)getnameinfo((const struct sockaddr *)address, sizeof *address, NULL, 0, port, sizeof port,
                      NI_NUMERICSERV);
    return atoi(port);
}

tw_status admin_open(struct tw_telemetry *telemetry, const char *listen, struct admin **ret_admin,
                     struct tw_error *error)
{
    struct admin *admin = calloc(1, sizeof *admin);
    if (admin == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the admin port");
    admin->telemetry = telemetry;
    admin->house = telemetry->house;
    admin->opening.run = on_opening;
    admin->closing.run = on_closing;

    tw_status status = address_read(listen, &admin->address, error);
    if (status != TW_OK) {
        free(admin);
        return status;
    }
    sem_init(&admin->done, 0, 0);
    tw_reactor_post(admin->house, &admin->opening);
    done_wait(admin);
    if (admin->failure != 0) {
        status =
            tw_error_set(error, TW_IO, "the admin port cannot listen on %.200s: %s (%s)%s", listen,
                         uv_strerror(admin->failure), uv_err_name(admin->failure),
                         admin->failure == UV_EADDRINUSE
                             ? "; another program has it: end that one, or give another address "
                               "with --admin"
                             : "; give another address with --admin");
        admin_close(admin);
        return status;
    }
    admin->port = port_of(&admin->address);
    *ret_admin = admin;
    return TW_OK;
}

void admin_close(struct admin *admin)
{
    if (admin == NULL)
        return;
    tw_reactor_post(admin->house, &admin->closing);
    done_wait(admin);
    sem_destroy(&admin->done);
    free(admin);
}

int admin_port(const struct admin *admin)
{
    return admin->port;
}
