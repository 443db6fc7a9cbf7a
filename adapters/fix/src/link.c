#include "link.h"

#include <tradewake/base/clock.h>

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

enum {
    CHUNK_BYTES = 16 * 1024,
    UNSENT_BYTES_MAX = 4 * 1024 * 1024, /* a peer that reads nothing for so long is gone */
    HOST_BYTES = 256,
    WHY_BYTES = 256,
};

enum phase { RESOLVING, CONNECTING, SHAKING, UP, DOWN };

struct fix_link_tls {
    SSL_CTX *context;
};

struct fix_link {
    struct tw_reactor *reactor;
    struct fix_link_host host;
    char name[HOST_BYTES], port[8], server_name[HOST_BYTES];
    int64_t step_ns;
    enum phase phase;
    bool is_closed, is_polled; /* by who made it; the handle is open */
    bool is_resolving;
    int file; /* -1 = none */
    uv_poll_t poll;
    uv_getaddrinfo_t resolve;
    struct addrinfo *addresses, *next_address;
    struct tw_timer patience;
    struct tw_task begin;
    bool has_begun;
    int events; /* what is polled for */
    const struct fix_link_tls *tls;
    SSL *ssl; /* its two BIOs are memory */
    BIO *from_peer, *to_peer;
    char *unsent; /* for the socket */
    size_t n_unsent, unsent_room, sent;
};

/* ---- TLS: what is trusted. ---- */

static tw_status tls_fail(const char *what, struct tw_error *error)
{
    char words[160] = "";
    unsigned long code = ERR_get_error();
    if (code != 0)
        ERR_error_string_n(code, words, sizeof words);
    ERR_clear_error();
    return tw_error_set(error, TW_INVALID, "%s%s%s", what, words[0] != '\0' ? ": " : "", words);
}

static tw_status tls_fill(SSL_CTX *context, const struct fix_link_tls_options *options, struct tw_error *error)
{
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1)
        return tls_fail("TLS 1.2 is not to be had", error);
    (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    bool is_system = strcmp(options->ca, "system") == 0;
    if (is_system ? SSL_CTX_set_default_verify_paths(context) != 1
                  : SSL_CTX_load_verify_locations(context, options->ca, NULL) != 1)
        return tls_fail("ca cannot be read", error);
    if (options->certificate[0] == '\0')
        return TW_OK;
    if (SSL_CTX_use_certificate_chain_file(context, options->certificate) != 1)
        return tls_fail("certificate cannot be read", error);
    if (SSL_CTX_use_PrivateKey_file(context, options->key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(context) != 1)
        return tls_fail("key cannot be read, or is not that of the certificate", error);
    return TW_OK;
}

tw_status fix_link_tls_new(const struct fix_link_tls_options *options, struct fix_link_tls **ret, struct tw_error *error)
{
    struct fix_link_tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for TLS");
    ERR_clear_error();
    tls->context = SSL_CTX_new(TLS_client_method());
    tw_status status =
        tls->context != NULL ? tls_fill(tls->context, options, error) : tls_fail("TLS cannot be set up", error);
    if (status == TW_OK)
        *ret = tls;
    else
        fix_link_tls_free(tls);
    return status;
}

void fix_link_tls_free(struct fix_link_tls *tls)
{
    if (tls == NULL)
        return;
    SSL_CTX_free(tls->context);
    free(tls);
}

/* ---- The end. ---- */

static void link_free_when_idle(struct fix_link *link)
{
    if (!link->is_closed || link->is_polled || link->is_resolving || !link->has_begun)
        return;
    if (link->addresses != NULL)
        uv_freeaddrinfo(link->addresses);
    SSL_free(link->ssl);
    free(link->unsent);
    free(link);
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct fix_link *link = handle->data;
    link->is_polled = false;
    link_free_when_idle(link);
}

static void socket_drop(struct fix_link *link)
{
    if (link->is_polled && !uv_is_closing((uv_handle_t *)&link->poll))
        uv_close((uv_handle_t *)&link->poll, on_poll_closed);
    if (link->file >= 0)
        close(link->file);
    link->file = -1;
    link->events = 0;
}

static void link_fail(struct fix_link *link, const char *why)
{
    if (link->phase == DOWN)
        return;
    link->phase = DOWN;
    (void)tw_timer_stop(link->reactor, &link->patience);
    socket_drop(link);
    if (!link->is_closed)
        link->host.on_down(link->host.context, why);
}

void fix_link_close(struct fix_link *link, bool is_abrupt)
{
    if (link == NULL)
        return;
    if (is_abrupt && link->file >= 0) {
        const struct linger now = {.l_onoff = 1};
        (void)setsockopt(link->file, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    link->is_closed = true;
    link->phase = DOWN;
    (void)tw_timer_stop(link->reactor, &link->patience);
    socket_drop(link);
    if (link->is_resolving)
        (void)uv_cancel((uv_req_t *)&link->resolve);
    link_free_when_idle(link);
}

/* ---- Out. ---- */

static void on_socket(uv_poll_t *poll, int status, int events);

static void poll_for(struct fix_link *link, int events)
{
    if (link->file < 0 || link->events == events)
        return;
    link->events = events;
    if (uv_poll_start(&link->poll, events, on_socket) != 0)
        link_fail(link, "the socket cannot be polled");
}

/* As much as the system takes. */
static bool socket_flush(struct fix_link *link)
{
    while (link->sent < link->n_unsent) {
        ssize_t n = send(link->file, link->unsent + link->sent, link->n_unsent - link->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (n < 0) {
            char why[WHY_BYTES];
            snprintf(why, sizeof why, "cannot write: %s", strerror(errno));
            link_fail(link, why);
            return false;
        }
        link->sent += (size_t)n;
    }
    if (link->sent == link->n_unsent)
        link->sent = link->n_unsent = 0;
    poll_for(link, UV_READABLE | (link->n_unsent > 0 ? UV_WRITABLE : 0));
    return link->phase != DOWN;
}

static char *unsent_room(struct fix_link *link, size_t n)
{
    if (link->sent > 0) {
        memmove(link->unsent, link->unsent + link->sent, link->n_unsent - link->sent);
        link->n_unsent -= link->sent;
        link->sent = 0;
    }
    if (link->n_unsent + n > UNSENT_BYTES_MAX)
        return NULL;
    if (link->n_unsent + n > link->unsent_room) {
        size_t room = (link->n_unsent + n) * 2;
        char *grown = realloc(link->unsent, room);
        if (grown == NULL)
            return NULL;
        link->unsent = grown;
        link->unsent_room = room;
    }
    return link->unsent + link->n_unsent;
}

/* What TLS has to say goes to the socket. */
static bool tls_drain(struct fix_link *link)
{
    int pending;
    while ((pending = (int)BIO_ctrl_pending(link->to_peer)) > 0) {
        char *room = unsent_room(link, (size_t)pending);
        int n = room != NULL ? BIO_read(link->to_peer, room, pending) : -1;
        if (n <= 0)
            return false;
        link->n_unsent += (size_t)n;
    }
    return true;
}

bool fix_link_send(struct fix_link *link, const char *bytes, size_t n)
{
    if (link->phase != UP)
        return false;
    if (link->ssl != NULL) {
        ERR_clear_error();
        if (n > 0 && (SSL_write(link->ssl, bytes, (int)n) != (int)n || !tls_drain(link))) {
            link_fail(link, "TLS cannot write any more");
            return false;
        }
    } else {
        char *room = unsent_room(link, n);
        if (room == NULL) {
            link_fail(link, "the peer does not read any more");
            return false;
        }
        memcpy(room, bytes, n);
        link->n_unsent += n;
    }
    return socket_flush(link);
}

bool fix_link_is_drained(const struct fix_link *link)
{
    return link->n_unsent == 0;
}

/* ---- In. ---- */

static void link_up(struct fix_link *link)
{
    (void)tw_timer_stop(link->reactor, &link->patience);
    link->phase = UP;
    link->host.on_up(link->host.context);
}

static void tls_why(const struct fix_link *link, char why[WHY_BYTES])
{
    char words[160] = "";
    long verdict = SSL_get_verify_result(link->ssl);
    unsigned long code = ERR_get_error();
    if (code != 0)
        ERR_error_string_n(code, words, sizeof words);
    ERR_clear_error();
    if (verdict != X509_V_OK)
        snprintf(why, WHY_BYTES, "the certificate of %.140s is refused: %.70s", link->server_name,
                 X509_verify_cert_error_string(verdict));
    else
        snprintf(why, WHY_BYTES, "TLS: %.150s", words[0] != '\0' ? words : "the peer ended it");
}

static bool tls_shake(struct fix_link *link)
{
    ERR_clear_error();
    int done = SSL_do_handshake(link->ssl);
    int wants = done == 1 ? SSL_ERROR_NONE : SSL_get_error(link->ssl, done);
    char why[WHY_BYTES];
    if (wants != SSL_ERROR_NONE && wants != SSL_ERROR_WANT_READ && wants != SSL_ERROR_WANT_WRITE)
        tls_why(link, why);
    else
        why[0] = '\0';
    /* Also an alert: the peer may want to know why. */
    if ((!tls_drain(link) || !socket_flush(link)) && link->phase == DOWN)
        return false;
    if (why[0] != '\0') {
        link_fail(link, why);
        return false;
    }
    if (done == 1)
        link_up(link);
    return link->phase != DOWN && !link->is_closed;
}

static void tls_take(struct fix_link *link, const char *bytes, size_t n)
{
    static _Thread_local char clear[CHUNK_BYTES];
    if (BIO_write(link->from_peer, bytes, (int)n) != (int)n) {
        link_fail(link, "no memory for TLS");
        return;
    }
    if (link->phase == SHAKING && !tls_shake(link))
        return;
    while (link->phase == UP && !link->is_closed) {
        ERR_clear_error();
        int got = SSL_read(link->ssl, clear, sizeof clear);
        if (got > 0) {
            link->host.on_bytes(link->host.context, clear, (size_t)got);
            continue;
        }
        int wants = SSL_get_error(link->ssl, got);
        if (wants == SSL_ERROR_WANT_READ || wants == SSL_ERROR_WANT_WRITE) {
            if (tls_drain(link)) /* a renegotiation, a new key */
                (void)socket_flush(link);
            return;
        }
        char why[WHY_BYTES];
        tls_why(link, why);
        link_fail(link, wants == SSL_ERROR_ZERO_RETURN ? "the peer ended TLS" : why);
    }
}

static void read_all(struct fix_link *link)
{
    static _Thread_local char bytes[CHUNK_BYTES];
    /* Several turns at most: others wait for the loop, too. */
    for (int turn = 0; turn < 8 && link->file >= 0; turn++) {
        ssize_t n = recv(link->file, bytes, sizeof bytes, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n <= 0) {
            char why[WHY_BYTES];
            snprintf(why, sizeof why, n == 0 ? "the peer has closed the connection" : "cannot read: %s", strerror(errno));
            link_fail(link, why);
            return;
        }
        if (link->ssl != NULL)
            tls_take(link, bytes, (size_t)n);
        else
            link->host.on_bytes(link->host.context, bytes, (size_t)n);
        if (link->is_closed || n < (ssize_t)sizeof bytes)
            return;
    }
}

/* ---- The way up. ---- */

static void address_next(struct fix_link *link, const char *why);

static bool tls_begin(struct fix_link *link)
{
    unsigned char address[16];
    bool is_address = inet_pton(AF_INET, link->server_name, address) == 1 || inet_pton(AF_INET6, link->server_name, address) == 1;
    link->ssl = SSL_new(link->tls->context);
    link->from_peer = BIO_new(BIO_s_mem());
    link->to_peer = BIO_new(BIO_s_mem());
    if (link->ssl == NULL || link->from_peer == NULL || link->to_peer == NULL) {
        BIO_free(link->from_peer);
        BIO_free(link->to_peer);
        return false;
    }
    SSL_set_bio(link->ssl, link->from_peer, link->to_peer); /* they are its own from here on */
    SSL_set_connect_state(link->ssl);
    if (is_address)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(link->ssl), link->server_name) == 1;
    SSL_set_hostflags(link->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(link->ssl, link->server_name) == 1 && SSL_set_tlsext_host_name(link->ssl, link->server_name) == 1;
}

static void on_connected(struct fix_link *link)
{
    int on = 1;
    (void)setsockopt(link->file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(link->file, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    link->phase = SHAKING;
    poll_for(link, UV_READABLE);
    if (link->tls == NULL) {
        link_up(link);
        return;
    }
    tw_timer_set(link->reactor, &link->patience, tw_mono_ns() + link->step_ns);
    if (tls_begin(link))
        (void)tls_shake(link);
    else
        link_fail(link, "TLS cannot be set up");
}

/* What the system says of the socket; libuv has one word for whatever befalls it. */
static const char *socket_why(const struct fix_link *link, int status)
{
    int failed = 0;
    socklen_t size = sizeof failed;
    if (getsockopt(link->file, SOL_SOCKET, SO_ERROR, &failed, &size) != 0)
        failed = errno;
    return failed != 0 ? strerror(failed) : status != 0 ? uv_strerror(status) : NULL;
}

static void on_socket(uv_poll_t *poll, int status, int events)
{
    struct fix_link *link = poll->data;
    if (link->is_closed || link->phase == DOWN)
        return;
    if (link->phase == CONNECTING) {
        const char *why = socket_why(link, status);
        if (why != NULL)
            address_next(link, why);
        else
            on_connected(link);
        return;
    }
    if (status != 0) {
        link_fail(link, socket_why(link, status));
        return;
    }
    if ((events & UV_WRITABLE) && !socket_flush(link))
        return;
    if (events & UV_READABLE)
        read_all(link);
}

/* A handle is made for one socket: the next address waits until the last one's is gone. */
static void on_poll_gone(uv_handle_t *handle)
{
    struct fix_link *link = handle->data;
    link->is_polled = false;
    if (link->is_closed)
        link_free_when_idle(link);
    else if (link->phase == CONNECTING)
        address_next(link, "");
}

static bool socket_connect(struct fix_link *link, const struct addrinfo *address, const char **ret_why)
{
    *ret_why = "no socket";
    link->file = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (link->file < 0)
        return false;
    bool is_begun = connect(link->file, address->ai_addr, address->ai_addrlen) == 0 || errno == EINPROGRESS;
    *ret_why = is_begun ? "it cannot be polled" : strerror(errno);
    if (is_begun && uv_poll_init(tw_reactor_loop(link->reactor), &link->poll, link->file) == 0) {
        link->poll.data = link;
        link->is_polled = true;
        poll_for(link, UV_WRITABLE);
        return true;
    }
    close(link->file);
    link->file = -1;
    return false;
}

static void address_next(struct fix_link *link, const char *why)
{
    char words[WHY_BYTES];
    snprintf(words, sizeof words, "%.80s:%s cannot be reached: %.100s", link->name, link->port, why);
    if (link->is_polled) {
        if (link->next_address == NULL) {
            link_fail(link, words);
            return;
        }
        close(link->file);
        link->file = -1;
        link->events = 0;
        uv_close((uv_handle_t *)&link->poll, on_poll_gone);
        return;
    }
    while (link->next_address != NULL) {
        const struct addrinfo *address = link->next_address;
        const char *because;
        link->next_address = address->ai_next;
        if (socket_connect(link, address, &because))
            return;
        snprintf(words, sizeof words, "%.80s:%s cannot be reached: %.100s", link->name, link->port, because);
    }
    link_fail(link, words);
}

static void on_resolved(uv_getaddrinfo_t *resolve, int status, struct addrinfo *addresses)
{
    struct fix_link *link = resolve->data;
    link->is_resolving = false;
    link->addresses = link->next_address = addresses;
    if (link->is_closed) {
        link_free_when_idle(link);
        return;
    }
    if (link->phase == DOWN)
        return; /* it took too long */
    char why[WHY_BYTES];
    snprintf(why, sizeof why, "%.120s has no address: %s", link->name, status != 0 ? uv_strerror(status) : "none");
    if (status != 0 || addresses == NULL) {
        link_fail(link, why);
        return;
    }
    link->phase = CONNECTING;
    address_next(link, "");
}

static void on_patience(struct tw_timer *timer)
{
    struct fix_link *link = (struct fix_link *)(void *)((char *)timer - offsetof(struct fix_link, patience));
    char why[WHY_BYTES];
    snprintf(why, sizeof why, "%.80s:%s: %s within %lld ms", link->name, link->port,
             link->phase == SHAKING ? "no TLS" : link->phase == RESOLVING ? "no address" : "no connection",
             (long long)(link->step_ns / TW_NS_PER_MS));
    link_fail(link, why);
}

static void on_begin(struct tw_task *task)
{
    struct fix_link *link = (struct fix_link *)(void *)((char *)task - offsetof(struct fix_link, begin));
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    link->has_begun = true;
    if (link->is_closed) {
        link_free_when_idle(link);
        return;
    }
    link->resolve.data = link;
    tw_timer_set(link->reactor, &link->patience, tw_mono_ns() + link->step_ns);
    int failed = uv_getaddrinfo(tw_reactor_loop(link->reactor), &link->resolve, on_resolved, link->name, link->port, &hints);
    link->is_resolving = failed == 0;
    if (failed != 0)
        link_fail(link, uv_strerror(failed));
}

struct fix_link *fix_link_open(const struct fix_link_options *options)
{
    struct fix_link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return NULL;
    link->reactor = options->reactor;
    link->host = options->callbacks;
    link->file = -1;
    link->step_ns = options->step_ns;
    link->tls = options->tls;
    link->patience.fire = on_patience;
    link->begin.run = on_begin;
    snprintf(link->name, sizeof link->name, "%s", options->host);
    snprintf(link->port, sizeof link->port, "%s", options->port);
    snprintf(link->server_name, sizeof link->server_name, "%s",
             options->server_name[0] != '\0' ? options->server_name : options->host);
    tw_reactor_post(link->reactor, &link->begin);
    return link;
}
