/* load.h - a client that sends as fast as a server takes it: one connection, one thread, many messages on
 * their way. The same for every server, so that its own cost is in every figure alike.
 *
 * It looks into no answer: what ended with OK was answered. */
#ifndef TESTS_BENCH_LOAD_H
#define TESTS_BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOAD_MESSAGE_BYTES = 2048 };

struct load;

enum load_kind {
    LOAD_UNARY,  /* a call for each message */
    LOAD_STREAM, /* one call for all of them; answers come in the order of the messages */
};

/* address: "127.0.0.1:50051"; path: "/package.Service/Method". The connection is made by the first
 * run. NULL when there is none; words are on stderr. */
struct load *load_open(const char *address, const char *path, enum load_kind kind);
void load_close(struct load *load);

struct load_work {
    uint32_t count, outstanding; /* messages, and how many unanswered ones there may be */
    /* Writes the message into bytes and returns its size. slot: below outstanding; the messages of a
     * slot follow one another, each after the answer to the one before. */
    size_t (*make)(void *context, uint32_t slot, uint8_t bytes[LOAD_MESSAGE_BYTES]);
    void *context;
    double *answered_us; /* of each message, in the order of the answers; NULL = not wanted */
};

/* Returns when everything has been answered. False when something was not; words are on stderr. */
bool load_run(struct load *load, const struct load_work *work);

#endif
