/* fix_ours - the session of adapters/fix as a program, for tests that play its venue.
 *
 *     fix_ours HOST PORT SENDER TARGET FOLDER HEARTBEAT_S
 *
 * Codec, session and file are the product's; the socket is a blocking one. It logs in, logs in again a moment after the
 * connection was lost, and ends with stdin. What is fatal to a session ends only its connections: it waits for the end. It never has an
 * order out, so that the venue may begin its numbers anew. */
#include "venues.h"
#include "wire.h"

#include <tradewake/base/clock.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TICK_MS = 20, AGAIN_MS = 50, BUFFER_BYTES = 16384 };

struct ours {
    struct fix_wire *wire;
    int fd;
    bool has_ended, is_fatal;
};

static void on_out(void *context, const char *bytes, size_t n)
{
    const struct ours *ours = context;
    while (n > 0) {
        ssize_t sent = send(ours->fd, bytes, n, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return; /* the next read tells */
        bytes += sent > 0 ? sent : 0;
        n -= sent > 0 ? (size_t)sent : 0;
    }
}

static void on_message(void *context, const struct fix_heard *heard)
{
    (void)context;
    (void)heard;
}

static void on_logon(void *context)
{
    (void)context;
    puts("logon");
}

static void on_missed(void *context)
{
    (void)context;
    puts("missed");
}

static void on_end(void *context, bool is_fatal, const char *why)
{
    struct ours *ours = context;
    ours->has_ended = true;
    ours->is_fatal |= is_fatal;
    printf("end%s: %s\n", is_fatal ? ", fatal" : "", why);
}

/* False: stdin has ended. */
static bool wait_ms(int ms, int fd, bool *ret_readable)
{
    struct pollfd polled[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    char ignored[64];
    *ret_readable = false;
    if (poll(polled, 2, ms) < 0)
        return true;
    *ret_readable = (polled[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
    return polled[0].revents == 0 || read(STDIN_FILENO, ignored, sizeof ignored) > 0;
}

/* False: stdin has ended. */
static bool connection_live(struct ours *ours)
{
    static char buffer[BUFFER_BYTES];
    bool is_readable;
    ours->has_ended = false;
    fix_wire_connected(ours->wire, tw_mono_ns(), "");
    while (!ours->has_ended) {
        if (!wait_ms(TICK_MS, ours->fd, &is_readable))
            return false;
        ssize_t n = is_readable ? recv(ours->fd, buffer, sizeof buffer, 0) : -1;
        if (is_readable && n <= 0)
            break;
        if (n > 0)
            fix_wire_bytes(ours->wire, buffer, (size_t)n, tw_mono_ns());
        fix_wire_tick(ours->wire, tw_mono_ns());
    }
    fix_wire_disconnected(ours->wire);
    return true;
}

static int connect_to(const char *host, const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && inet_pton(AF_INET, host, &address.sin_addr) == 1 &&
        connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static void run(struct ours *ours, const char *host, const char *port)
{
    struct tw_error error = {{0}};
    bool is_readable, goes_on = true;
    while (goes_on) {
        ours->fd = -1;
        if (!ours->is_fatal && fix_wire_prepare(ours->wire, INT64_MIN, true, &error) == TW_OK)
            ours->fd = connect_to(host, port);
        if (ours->fd >= 0) {
            goes_on = connection_live(ours);
            close(ours->fd);
        }
        goes_on = goes_on && wait_ms(AGAIN_MS, -1, &is_readable);
    }
}

int main(int argc, char **argv)
{
    static const struct fix_wire_host host = {on_out, on_message, on_logon, on_missed, on_end};
    struct ours ours = {.fd = -1};
    struct fix_venues venues;
    struct tw_error error = {{0}};
    char text[1024];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 7) {
        fputs("usage: fix_ours HOST PORT SENDER TARGET FOLDER HEARTBEAT_S\n", stderr);
        return 2;
    }
    snprintf(text, sizeof text,
             "[venue]\nprofile = generic44\naddress = %s:%s\nsender = %s\ntarget = %s\nheartbeat = %s\ncurrency = USD\n"
             "symbol EURUSD = EURUSD contract=100000 tick=0.00001 min=0.01 step=0.01 max=50\n",
             argv[1], argv[2], argv[3], argv[4], argv[6]);
    tw_status status = fix_venues_read(text, "arguments", &venues, &error);
    if (status == TW_OK) {
        const struct fix_wire_options options = {.venue = &venues.list[0],
                                                 .state_dir = argv[5],
                                                 .account = "",
                                                 .sender = argv[3],
                                                 .sender_sub = "",
                                                 .username = "",
                                                 .host = &host,
                                                 .context = &ours};
        status = fix_wire_open(&options, &ours.wire, &error);
    }
    if (status != TW_OK) {
        fprintf(stderr, "fix_ours: %s\n", error.text);
        return 1;
    }
    run(&ours, argv[1], argv[2]);
    fix_wire_close(ours.wire);
    fix_venues_clear(&venues);
    return 0;
}
