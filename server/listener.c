#include "listener.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/log.h>

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#define ASK_EVERY_NS (2 * TW_NS_PER_S)
#define LATE_NS      (2 * TW_NS_PER_S)
#define UNREADY_NS   (5 * TW_NS_PER_S)
#define CONNECT_NS   (10 * TW_NS_PER_S) /* then it is tried anew */

/* ---- Where it is, and how it is greeted ---- */

static void address_unix(struct listener *listener, const char *path)
{
    struct sockaddr_un *address = (struct sockaddr_un *)&listener->address;
    if (strlen(path) >= sizeof address->sun_path)
        return;
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, path, strlen(path) + 1);
    listener->address_size = sizeof *address;
}

/* "0.0.0.0" and "[::]" are everywhere: so here. */
static void address_tcp(struct listener *listener, const char *host, int port)
{
    struct addrinfo *found = NULL;
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    char name[256], service[8];
    size_t size = strlen(host);
    bool is_bracketed = size >= 2 && host[0] == '[' && host[size - 1] == ']';
    snprintf(name, sizeof name, "%.*s", (int)(is_bracketed ? size - 2 : size), host + is_bracketed);
    snprintf(service, sizeof service, "%d", port);
    const char *ask = name;
    if (strcmp(name, "0.0.0.0") == 0)
        ask = "127.0.0.1";
    else if (strcmp(name, "::") == 0)
        ask = "::1";
    if (getaddrinfo(ask, service, &wanted, &found) != 0)
        return;
    memcpy(&listener->address, found->ai_addr, found->ai_addrlen);
    listener->address_size = found->ai_addrlen;
    listener->port = (uint16_t)port;
    freeaddrinfo(found);
}

/* What a TLS client says first. The same bytes may be said again and again: nothing comes of them.
 */
static void greeting_make(struct listener *listener)
{
    static const unsigned char h2[] = {2, 'h', '2'};
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl = context != NULL ? SSL_new(context) : NULL;
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    if (ssl != NULL && in != NULL && out != NULL) {
        SSL_set_bio(ssl, in, out); /* takes them over */
        (void)SSL_set_alpn_protos(ssl, h2, sizeof h2);
        (void)SSL_connect(ssl);
        int n = BIO_read(out, listener->greeting, sizeof listener->greeting);
        listener->greeting_bytes = n > 0 ? (uint32_t)n : 0;
    } else {
        BIO_free(in);
        BIO_free(out);
    }
    SSL_free(ssl);
    SSL_CTX_free(context);
    if (listener->greeting_bytes == 0)
        listener->address_size = 0; /* it would wait for ever */
}

void listener_init(struct listener *listener, const char *listen, int port, bool has_tls)
{
    const char *colon = strrchr(listen, ':');
    char host[256];
    *listener = (struct listener){.spare = open("/dev/null", O_RDONLY | O_CLOEXEC), .question = -1};
    atomic_init(&listener->is_answering, true);
    if (strncmp(listen, "unix:", 5) == 0) {
        address_unix(listener, listen + 5);
    } else if (colon != NULL) {
        snprintf(host, sizeof host, "%.*s", (int)(colon - listen), listen);
        address_tcp(listener, host, port);
    }
    if (has_tls)
        greeting_make(listener);
}

static void fd_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void listener_clear(struct listener *listener)
{
    fd_close(&listener->spare);
    fd_close(&listener->question);
}

/* ---- A question ---- */

static void refused(struct listener *listener, int64_t now_mono_ns)
{
    fd_close(&listener->question);
    if (listener->refused_mono_ns == 0)
        listener->refused_mono_ns = now_mono_ns;
}

static void ask(struct listener *listener, int64_t now_mono_ns)
{
    listener->asked_mono_ns = now_mono_ns;
    listener->is_greeted = false;
    fd_close(&listener->spare); /* a want of descriptors does not keep us from asking */
    int fd = socket(listener->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    listener->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    listener->question = fd;
    if (fd < 0 || connect(fd, (const struct sockaddr *)&listener->address, listener->address_size) == 0 ||
        errno == EINPROGRESS)
        return;
    if (errno == ECONNREFUSED)
        refused(listener, now_mono_ns);
    else
        fd_close(&listener->question);
}

static bool is_refused(int fd)
{
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == ECONNREFUSED;
}

static short events_of(int fd)
{
    struct pollfd waits = {.fd = fd, .events = POLLIN | POLLOUT};
    return poll(&waits, 1, 0) > 0 ? waits.revents : 0;
}

/* Whether the server's end of the connection from this port has been accepted, by one of the
 * kernel's tables. */
static bool is_accepted_in(const char *table, uint16_t server_port, uint16_t own_port)
{
    FILE *file = fopen(table, "re");
    char line[512];
    bool is_accepted = false;
    while (file != NULL && !is_accepted && fgets(line, sizeof line, file) != NULL) {
        unsigned local, remote;
        unsigned long inode;
        /* "  5: 0100007F:C383 0100007F:8DD2 01 00000000:00000000 00:00000000 00000000  0  0 81230
         * ..." */
        is_accepted =
            sscanf(line, " %*u: %*[0-9A-F]:%x %*[0-9A-F]:%x %*x %*x:%*x %*x:%*x %*x %*u %*u %lu",
                   &local, &remote, &inode) == 3 &&
            local == server_port && remote == own_port && inode != 0;
    }
    if (file != NULL)
        fclose(file);
    return is_accepted;
}

static bool is_accepted(const struct listener *listener)
{
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    if (listener->port == 0 || getsockname(listener->question, (struct sockaddr *)&own, &size) != 0)
        return false;
    uint16_t own_port = ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
                                                        : ((struct sockaddr_in *)&own)->sin_port);
    return is_accepted_in("/proc/net/tcp", listener->port, own_port) ||
           is_accepted_in("/proc/net/tcp6", listener->port, own_port);
}

static void answered(struct listener *listener)
{
    fd_close(&listener->question);
    bool is_back = !atomic_exchange(&listener->is_answering, true);
    if (is_back || !listener->has_answered)
        tw_log(TW_LOG_INFO, "listener.answers", "again=%s", is_back ? "yes" : "no");
    listener->has_answered = true;
}

static int64_t silent(struct listener *listener, int64_t silent_ns)
{
    if (silent_ns >= UNREADY_NS && atomic_exchange(&listener->is_answering, false))
        tw_log(TW_LOG_WARN, "listener.silent",
               "ready=no silent_ms=%lld why=\"the own port takes no connection\"",
               (long long)(silent_ns / TW_NS_PER_MS));
    return silent_ns;
}

static int64_t unanswered(struct listener *listener, int64_t now_mono_ns)
{
    int64_t silent_ns = now_mono_ns - listener->greeted_mono_ns;
    if (silent_ns < LATE_NS || !is_accepted(listener))
        return silent(listener, silent_ns);
    answered(listener);
    return 0;
}

/* Nobody has taken a connection since the first refusal. */
static int64_t unreachable(struct listener *listener, int64_t now_mono_ns)
{
    if (!listener->has_answered || listener->refused_mono_ns == 0)
        return 0;
    return silent(listener, now_mono_ns - listener->refused_mono_ns);
}

int64_t listener_look(struct listener *listener, int64_t now_mono_ns)
{
    if (listener->address_size == 0)
        return 0;
    if (listener->question < 0) {
        if (listener->asked_mono_ns == 0 || now_mono_ns - listener->asked_mono_ns >= ASK_EVERY_NS)
            ask(listener, now_mono_ns);
        return unreachable(listener, now_mono_ns);
    }
    short events = events_of(listener->question);
    if (!listener->is_greeted && (events & POLLOUT) != 0 && (events & (POLLERR | POLLHUP)) == 0) {
        (void)send(listener->question, listener->greeting, listener->greeting_bytes, MSG_NOSIGNAL);
        listener->is_greeted = true;
        listener->greeted_mono_ns = now_mono_ns;
        listener->refused_mono_ns = 0;
    }
    if (listener->is_greeted && (events & (POLLIN | POLLERR | POLLHUP)) != 0) {
        answered(listener); /* an end is an answer, too: it was taken */
        return 0;
    }
    if (listener->is_greeted)
        return unanswered(listener, now_mono_ns);
    if ((events & (POLLERR | POLLHUP)) != 0 && is_refused(listener->question))
        refused(listener, now_mono_ns);
    else if ((events & (POLLERR | POLLHUP)) != 0 || now_mono_ns - listener->asked_mono_ns >= CONNECT_NS)
        fd_close(&listener->question);
    return unreachable(listener, now_mono_ns);
}

bool listener_is_answering(const struct listener *listener)
{
    return atomic_load(&listener->is_answering);
}
