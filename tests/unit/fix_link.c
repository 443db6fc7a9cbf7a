/* A connection to a venue: plain and TLS, who is trusted, what is told, and that nothing is told twice. */
#include "link.h"
#include "tls_files.h"

#include <tradewake/base/clock.h>

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DAY_S = 86400 };

/* ---- The other end: one connection, on a thread of its own, that sends back what it reads. ---- */

struct peer {
    pthread_t thread;
    int listener, port;
    SSL_CTX *tls;
    bool closes_at_once, never_shakes, resets; /* resets: when the first byte has come */
    char sni[64];
};

static void echo(struct peer *peer, int file)
{
    char bytes[4096];
    SSL *ssl = peer->tls != NULL ? SSL_new(peer->tls) : NULL;
    if (ssl != NULL) {
        SSL_set_fd(ssl, file);
        if (SSL_accept(ssl) != 1) {
            SSL_free(ssl);
            return;
        }
        const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
        snprintf(peer->sni, sizeof peer->sni, "%s", name != NULL ? name : "");
    }
    for (;;) {
        int n = ssl != NULL ? SSL_read(ssl, bytes, sizeof bytes) : (int)read(file, bytes, sizeof bytes);
        if (n <= 0)
            break;
        int written = ssl != NULL ? SSL_write(ssl, bytes, n) : (int)write(file, bytes, (size_t)n);
        if (written != n)
            break;
    }
    SSL_free(ssl);
}

static void *peer_main(void *arg)
{
    struct peer *peer = arg;
    int file = accept(peer->listener, NULL, NULL);
    char byte;
    if (file < 0)
        return NULL;
    if (peer->resets) {
        const struct linger now = {.l_onoff = 1};
        (void)!read(file, &byte, 1);
        setsockopt(file, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    } else if (peer->never_shakes) {
        while (read(file, &byte, 1) > 0) {
        }
    } else if (!peer->closes_at_once) {
        echo(peer, file);
    }
    close(file);
    return NULL;
}

static void peer_start(struct peer *peer)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    signal(SIGPIPE, SIG_IGN); /* the peer's own */
    peer->listener = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(peer->listener, (struct sockaddr *)&address, size), 0);
    cr_assert_eq(listen(peer->listener, 4), 0);
    cr_assert_eq(getsockname(peer->listener, (struct sockaddr *)&address, &size), 0);
    peer->port = ntohs(address.sin_port);
    cr_assert_eq(pthread_create(&peer->thread, NULL, peer_main, peer), 0);
}

static void peer_end(struct peer *peer)
{
    shutdown(peer->listener, SHUT_RDWR);
    pthread_join(peer->thread, NULL);
    close(peer->listener);
    SSL_CTX_free(peer->tls);
}

/* ---- This end. ---- */

struct seen {
    pthread_mutex_t lock;
    pthread_cond_t news;
    int ups, downs;
    char why[256], bytes[256 * 1024];
    size_t n;
    struct fix_link *link;
    const struct fix_link_options *options;
    const char *to_send;
    size_t n_to_send;
    struct tw_task open, close;
};

static struct tw_reactor *reactor;

static void on_up(void *context)
{
    struct seen *seen = context;
    (void)fix_link_send(seen->link, seen->to_send, seen->n_to_send);
    pthread_mutex_lock(&seen->lock);
    seen->ups++;
    pthread_cond_broadcast(&seen->news);
    pthread_mutex_unlock(&seen->lock);
}

static void on_bytes(void *context, const char *bytes, size_t n)
{
    struct seen *seen = context;
    pthread_mutex_lock(&seen->lock);
    memcpy(seen->bytes + seen->n, bytes, n);
    seen->n += n;
    pthread_cond_broadcast(&seen->news);
    pthread_mutex_unlock(&seen->lock);
}

static void on_down(void *context, const char *why)
{
    struct seen *seen = context;
    pthread_mutex_lock(&seen->lock);
    seen->downs++;
    snprintf(seen->why, sizeof seen->why, "%s", why);
    pthread_cond_broadcast(&seen->news);
    pthread_mutex_unlock(&seen->lock);
}

static void task_open(struct tw_task *task)
{
    struct seen *seen = (struct seen *)(void *)((char *)task - offsetof(struct seen, open));
    seen->link = fix_link_open(seen->options);
}

static void task_close(struct tw_task *task)
{
    struct seen *seen = (struct seen *)(void *)((char *)task - offsetof(struct seen, close));
    fix_link_close(seen->link, false);
}

static void task_close_free(struct tw_task *task)
{
    struct seen *seen = (struct seen *)(void *)((char *)task - offsetof(struct seen, close));
    fix_link_close(seen->link, false);
    free(seen);
}

static void connect_to(struct seen *seen, struct fix_link_options *options, int port, const char *text)
{
    static char port_text[8];
    struct tw_error error;
    snprintf(port_text, sizeof port_text, "%d", port);
    if (reactor == NULL)
        cr_assert_eq(tw_reactor_start("link", &reactor, &error), TW_OK);
    pthread_mutex_init(&seen->lock, NULL);
    pthread_cond_init(&seen->news, NULL);
    options->reactor = reactor;
    options->port = port_text;
    options->step_ns = options->step_ns > 0 ? options->step_ns : 10 * TW_NS_PER_S;
    options->server_name = options->server_name != NULL ? options->server_name : "";
    options->callbacks = (struct fix_link_host){seen, on_up, on_bytes, on_down};
    seen->options = options;
    seen->to_send = text;
    seen->n_to_send = strlen(text);
    seen->open.run = task_open;
    seen->close.run = task_close;
    tw_reactor_post(reactor, &seen->open);
}

#define AWAIT(seen, condition)                                                                                         \
    do {                                                                                                               \
        pthread_mutex_lock(&(seen)->lock);                                                                             \
        while (!(condition))                                                                                           \
            pthread_cond_wait(&(seen)->news, &(seen)->lock);                                                           \
        pthread_mutex_unlock(&(seen)->lock);                                                                           \
    } while (0)

static void done(struct seen *seen)
{
    tw_reactor_post(reactor, &seen->close);
    tw_reactor_stop(reactor);
    reactor = NULL;
}

/* ---- Plain. ---- */

Test(fix_link, what_is_sent_comes_back, .timeout = 30)
{
    static struct seen seen;
    struct peer peer = {0};
    struct fix_link_options options = {.host = "127.0.0.1"};
    peer_start(&peer);

    connect_to(&seen, &options, peer.port, "8=FIX.4.4\0019=5\001");
    AWAIT(&seen, seen.n == 14);

    cr_expect_eq(memcmp(seen.bytes, "8=FIX.4.4\0019=5\001", 14), 0);
    cr_expect_eq(seen.ups, 1);
    cr_expect_eq(seen.downs, 0);
    done(&seen);
    cr_expect_eq(seen.downs, 0, "who closes is not told");
    peer_end(&peer);
}

Test(fix_link, nobody_there_is_told_once, .timeout = 30)
{
    static struct seen seen;
    struct peer peer = {0};
    struct fix_link_options options = {.host = "127.0.0.1"};
    peer_start(&peer);
    int port = peer.port;
    peer_end(&peer);

    connect_to(&seen, &options, port, "");
    AWAIT(&seen, seen.downs > 0);
    done(&seen);

    cr_expect_eq(seen.downs, 1);
    cr_expect_eq(seen.ups, 0);
    cr_expect_not_null(strstr(seen.why, "cannot be reached"), "%s", seen.why);
}

Test(fix_link, the_end_of_the_peer_is_told_once, .timeout = 30)
{
    static struct seen seen;
    struct peer peer = {.closes_at_once = true};
    struct fix_link_options options = {.host = "127.0.0.1"};
    peer_start(&peer);

    connect_to(&seen, &options, peer.port, "");
    AWAIT(&seen, seen.downs > 0);
    done(&seen);

    cr_expect_eq(seen.downs, 1);
    peer_end(&peer);
}

Test(fix_link, a_connection_that_the_peer_resets_is_told_as_that, .timeout = 30)
{
    static struct seen seen;
    struct peer peer = {.resets = true};
    struct fix_link_options options = {.host = "127.0.0.1"};
    peer_start(&peer);

    connect_to(&seen, &options, peer.port, "x");
    AWAIT(&seen, seen.downs > 0);
    done(&seen);

    cr_expect_eq(seen.downs, 1);
    cr_expect_not_null(strstr(seen.why, "Connection reset by peer"), "%s", seen.why);
    peer_end(&peer);
}

static int files_open(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

Test(fix_link, a_thousand_connections_that_fail_leave_nothing_behind, .timeout = 60)
{
    struct peer peer = {0};
    struct fix_link_options options = {.host = "127.0.0.1"};
    peer_start(&peer);
    int port = peer.port, before = 0;
    peer_end(&peer);
    for (int i = 0; i < 1000; i++) {
        static struct seen seen;
        memset(&seen, 0, sizeof seen);
        if (i % 100 == 0 && i > 0) { /* what was closed is gone when the reactor is */
            tw_reactor_stop(reactor);
            reactor = NULL;
        }
        connect_to(&seen, &options, port, "");
        AWAIT(&seen, seen.downs > 0);
        struct seen *closing = calloc(1, sizeof *closing);
        closing->link = seen.link;
        closing->close.run = task_close_free;
        tw_reactor_post(reactor, &closing->close);
        if (i == 100)
            before = files_open();
    }
    int after = files_open();
    cr_expect_leq(after, before + 3, "%d files are open, %d were", after, before);
    tw_reactor_stop(reactor);
    reactor = NULL;
}

/* ---- TLS. ---- */

static char dir[64];

static const char *path(const char *name)
{
    return tls_path(dir, name);
}

static void files_make(void)
{
    tls_dir_make(dir);
    struct tls_pair ours = tls_authority("ours"), others = tls_authority("others");
    struct tls_pair venue = tls_signed(&ours, "DNS:localhost,IP:127.0.0.1", -60, DAY_S);
    struct tls_pair elsewhere = tls_signed(&ours, "DNS:elsewhere.example", -60, DAY_S);
    struct tls_pair old = tls_signed(&ours, "DNS:localhost,IP:127.0.0.1", -2 * DAY_S, -DAY_S);
    tls_write(dir, "ours", &ours);
    tls_write(dir, "others", &others);
    tls_write(dir, "venue", &venue);
    tls_write(dir, "elsewhere", &elsewhere);
    tls_write(dir, "old", &old);
    tls_pair_free(&ours);
    tls_pair_free(&others);
    tls_pair_free(&venue);
    tls_pair_free(&elsewhere);
    tls_pair_free(&old);
}

static void files_remove(void)
{
    tls_dir_remove(dir);
}

TestSuite(fix_link_tls, .init = files_make, .fini = files_remove, .timeout = 30);

static SSL_CTX *peer_tls(const char *name)
{
    char file[32];
    SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
    snprintf(file, sizeof file, "%s.pem", name);
    cr_assert_eq(SSL_CTX_use_certificate_chain_file(tls, path(file)), 1);
    snprintf(file, sizeof file, "%s.key", name);
    cr_assert_eq(SSL_CTX_use_PrivateKey_file(tls, path(file), SSL_FILETYPE_PEM), 1);
    return tls;
}

static struct fix_link_tls *our_tls(const char *ca)
{
    struct fix_link_tls *tls;
    struct tw_error error = {{0}};
    const struct fix_link_tls_options options = {.ca = ca, .certificate = "", .key = ""};
    cr_assert_eq(fix_link_tls_new(&options, &tls, &error), TW_OK, "%s", error.text);
    return tls;
}

Test(fix_link_tls, what_is_sent_comes_back_and_the_name_is_sent)
{
    static struct seen seen;
    static char text[100001];
    struct peer peer = {.tls = peer_tls("venue")};
    struct fix_link_tls *tls = our_tls(path("ours.pem"));
    struct fix_link_options options = {.host = "127.0.0.1", .tls = tls, .server_name = "localhost"};
    memset(text, 'x', sizeof text - 1);
    peer_start(&peer);

    connect_to(&seen, &options, peer.port, text);
    AWAIT(&seen, seen.n == sizeof text - 1);

    cr_expect_eq(memcmp(seen.bytes, text, seen.n), 0);
    done(&seen);
    peer_end(&peer);
    cr_expect_str_eq(peer.sni, "localhost");
    fix_link_tls_free(tls);
}

Test(fix_link_tls, who_is_not_trusted_is_refused)
{
    static const struct {
        const char *name, *certificate, *ca, *server_name, *words;
    } cases[] = {
        {"signed by others", "venue", "others.pem", "", "certificate of 127.0.0.1 is refused"},
        {"another name", "elsewhere", "ours.pem", "", "certificate of 127.0.0.1 is refused"},
        {"expired", "old", "ours.pem", "", "certificate has expired"},
        {"not the name that is wanted", "venue", "ours.pem", "fix.example.com", "certificate of fix.example.com is refused"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct seen *seen = calloc(1, sizeof *seen);
        struct peer peer = {.tls = peer_tls(cases[i].certificate)};
        struct fix_link_tls *tls = our_tls(path(cases[i].ca));
        struct fix_link_options options = {.host = "127.0.0.1", .tls = tls, .server_name = cases[i].server_name};
        peer_start(&peer);

        connect_to(seen, &options, peer.port, "password");
        AWAIT(seen, seen->downs + seen->ups > 0);

        cr_expect_eq(seen->ups, 0, "%s", cases[i].name);
        cr_expect_not_null(strstr(seen->why, cases[i].words), "%s: %s", cases[i].name, seen->why);
        done(seen);
        peer_end(&peer);
        fix_link_tls_free(tls);
        free(seen);
    }
}

Test(fix_link_tls, a_handshake_that_does_not_come_is_given_up)
{
    static struct seen seen;
    struct peer peer = {.never_shakes = true};
    struct fix_link_tls *tls = our_tls(path("ours.pem"));
    struct fix_link_options options = {.host = "127.0.0.1", .tls = tls, .step_ns = 200 * TW_NS_PER_MS};
    peer_start(&peer);

    connect_to(&seen, &options, peer.port, "");
    AWAIT(&seen, seen.downs > 0);

    cr_expect_not_null(strstr(seen.why, "no TLS within 200 ms"), "%s", seen.why);
    done(&seen);
    peer_end(&peer);
    fix_link_tls_free(tls);
}

Test(fix_link_tls, a_peer_without_tls_is_refused)
{
    static struct seen seen;
    struct peer peer = {0}; /* sends back what it reads: no handshake */
    struct fix_link_tls *tls = our_tls(path("ours.pem"));
    struct fix_link_options options = {.host = "127.0.0.1", .tls = tls};
    peer_start(&peer);

    connect_to(&seen, &options, peer.port, "");
    AWAIT(&seen, seen.downs > 0);

    cr_expect_eq(seen.ups, 0);
    done(&seen);
    peer_end(&peer);
    fix_link_tls_free(tls);
}

Test(fix_link_tls, a_file_that_is_no_certificate_is_named)
{
    struct fix_link_tls *tls;
    struct tw_error error = {{0}};
    const struct fix_link_tls_options options = {.ca = "/nowhere.pem", .certificate = "", .key = ""};

    cr_expect_neq(fix_link_tls_new(&options, &tls, &error), TW_OK);
    cr_expect_not_null(strstr(error.text, "ca cannot be read"), "%s", error.text);
}
