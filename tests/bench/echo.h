/* echo.h - a bare server on the gRPC C core, in a process of its own: what the library alone costs.
 *
 * It answers two fixed bytes to every message, decodes nothing and keeps nothing. One completion queue
 * and one thread for each core in use, at most four, as the server has. */
#ifndef TESTS_BENCH_ECHO_H
#define TESTS_BENCH_ECHO_H

#include <stdbool.h>
#include <sys/types.h>

#define ECHO_CALL "/bench.v1.Echo/Call"     /* unary */
#define ECHO_STREAM "/bench.v1.Echo/Stream" /* an answer for each message, one call */

struct echo {
    pid_t pid;
    char address[64];
};

/* The caller has not used gRPC yet, and has no other threads. False: words are on stderr. */
bool echo_start(struct echo *ret);
void echo_stop(struct echo *echo);

#endif
