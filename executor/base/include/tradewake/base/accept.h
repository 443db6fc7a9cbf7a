/* accept.h - how many connections the libraries of this process may take.
 *
 * Both listeners are other people's: the gRPC core's and libuv's. The core's accepts for as long as
 * somebody waits and serves nobody meanwhile, so a flood of connections, each closed at once, piles up
 * until no file descriptor is left; and the first accept() that fails for another reason than "nobody
 * waits" ends it for good, while the process goes on (CVE-2023-4785 is one of these reasons). So accept4()
 * of the C library is replaced in this program, and once tw_accept_bound() has been called:
 *   - a connection beyond the bound is closed as soon as it is taken: its client sees an end at once and
 *     tries again later, instead of waiting in a backlog that nobody works off;
 *   - a shortage (descriptors, memory) is told to the library as "nobody waits". Its listener looks again
 *     with the next connection; the server itself makes one every two seconds (server/listener.h);
 *   - what is wrong with one connection only (accept(2), "Error handling") is no reason to stop either.
 * The kernel gives the lowest free number, so the number of a new descriptor says how many are in use:
 * no list is kept, and what brokers, logs and files hold is counted too.
 *
 * Thread: any. Blocks: no. */
#ifndef TW_BASE_ACCEPT_H
#define TW_BASE_ACCEPT_H

#include <stdint.h>

/* From now on. connections_max: beside the descriptors that are in use at this moment; less where
 * RLIMIT_NOFILE is too small: an eighth of it, at least 8, stays for files and brokers. Returns what it is.
 * For main, before the first listener, after RLIMIT_NOFILE was raised. */
uint32_t tw_accept_bound(uint32_t connections_max);

/* That listener's connections are always taken: probes and metrics, bounded where they are served. One
 * per process. */
void tw_accept_always(int listener_fd);

/* Connections that were closed because there were too many, since the start. */
uint64_t tw_accept_turned_away(void);

#endif
