/* digest.h - SHA-256 over lines of text, as ids and hashes of events are made of them.
 *
 * Without an allocation: OpenSSL's one-call functions take a context from the heap and look the algorithm
 * up each time, which costs a worker more than the two blocks themselves (server/core/README.md has the
 * figures). The older interface of the same library works in place.
 *
 * Thread: any; a struct is one thread's. Blocks: no. */
#ifndef TW_CORE_DIGEST_H
#define TW_CORE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

enum { TW_SHA256_BYTES = 32 };

void tw_sha256(const void *bytes, size_t size, uint8_t ret[TW_SHA256_BYTES]);

/* Text that is put together line by line; each line ends with 0x0A, so that no two run together. What
 * does not fit is a bug: the caller's array holds the longest there is. */
struct tw_lines {
    char *at, *end;
};

void tw_lines_put(struct tw_lines *lines, const char *text);
void tw_lines_put_number(struct tw_lines *lines, int64_t number); /* decimal, as printf's %lld */

#endif
