/* listener.h - whether the server's own port still takes connections.
 *
 * The gRPC core's listener ends for good when accept() fails once in a way that it does not know, and the
 * process goes on as if nothing were wrong; tradewake/base/accept.h keeps the known ways from it. So the
 * server asks itself: it connects to its own port like any client and waits for the first bytes that come
 * back, which with TLS are the answer to a ClientHello. A flood of connections makes them late, by more than
 * any limit; so before silence counts the kernel is asked whether the connection has been accepted at
 * all (/proc/net/tcp: it has an inode then). A dead listener accepts none. A port that refuses has nobody
 * who listens, if it ever answered. Any other connection that does not come about proves nothing, and ends
 * nothing. Each question also makes a listener look again that was told "nobody waits" in a shortage.
 *
 * Thread: one, but listener_is_answering(), which any may call. Blocks: no. */
#ifndef TW_LISTENER_H
#define TW_LISTENER_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct listener {
    struct sockaddr_storage address;
    uint16_t port;          /* 0 = a unix socket */
    socklen_t address_size; /* 0 = it cannot be asked */
    uint8_t greeting[2048]; /* TLS: a ClientHello */
    uint32_t greeting_bytes;
    int spare;    /* a descriptor to give up when there is no other to ask with; -1 = none */
    int question; /* the connection that waits for its first bytes; -1 = none */
    bool is_greeted;
    int64_t asked_mono_ns;   /* when the last question began */
    int64_t greeted_mono_ns; /* since when it waits */
    bool has_answered;       /* ever */
    int64_t refused_mono_ns; /* the first of the refusals that came in a row; 0 = the last was none */
    atomic_bool is_answering;
};

/* listen: as in the settings; port: the one in use. An address that cannot be understood is not
 * asked. Owns: two file descriptors, until listener_clear(). */
void listener_init(struct listener *listener, const char *listen, int port, bool has_tls);
void listener_clear(struct listener *listener);

/* To be called about once a second: looks after the question that is out, or asks the next, two
 * seconds after the last. Returns for how long a connection that came about has had no answer; 0 =
 * all is well, or nothing is known. */
int64_t listener_look(struct listener *listener, int64_t now_mono_ns);

/* Thread: any. False from five seconds without an answer on. */
bool listener_is_answering(const struct listener *listener);

#endif
