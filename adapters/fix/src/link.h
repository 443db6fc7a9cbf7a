/* link.h - a connection to a venue: TCP, and TLS over it. The only file of this adapter with sockets.
 *
 *     resolve -> connect (each address in turn) -> [TLS: verified, SNI] -> up -> down
 *
 * It carries bytes and decides nothing. Nothing waits: the socket is polled by the reactor's loop, and TLS runs over
 * memory, so that what it wants to read or write is only ever bytes. Each step up is bounded; what is down is not made
 * again here.
 *
 * Thread: reactor. */
#ifndef FIX_LINK_H
#define FIX_LINK_H

#include <tradewake/base/status.h>
#include <tradewake/executor/reactor.h>

#include <stddef.h>

struct fix_link;
struct fix_link_tls;

struct fix_link_tls_options {
    const char *ca;               /* PEM file, or "system" */
    const char *certificate, *key; /* PEM files; "" = none */
};

/* What is trusted, and who we are. Thread: any; reads files. */
TW_MUST_CHECK tw_status fix_link_tls_new(const struct fix_link_tls_options *options, struct fix_link_tls **ret,
                                         struct tw_error *error);
void fix_link_tls_free(struct fix_link_tls *tls); /* NULL is allowed */

struct fix_link_host {
    void *context;
    void (*on_up)(void *context);
    void (*on_bytes)(void *context, const char *bytes, size_t n);
    /* Once, and last. The link is closed by who made it, here or later. why: for people. */
    void (*on_down)(void *context, const char *why);
};

struct fix_link_options {
    struct tw_reactor *reactor;
    const char *host, *port;
    const struct fix_link_tls *tls; /* NULL = plain text; lives longer than the link */
    const char *server_name;        /* in the certificate; "" = host */
    int64_t step_ns;                /* for TCP, and once more for TLS */
    struct fix_link_host callbacks;
};

/* Begins; what comes of it is told, never before this has returned. NULL: no memory. */
struct fix_link *fix_link_open(const struct fix_link_options *options);

/* Copied; goes out at once as far as the system takes it. False: it is down, or so much waits that the peer does not
 * read any more. */
bool fix_link_send(struct fix_link *link, const char *bytes, size_t n);

/* Whether everything has been handed to the system. */
bool fix_link_is_drained(const struct fix_link *link);

/* Nothing is told any more. NULL is allowed. is_abrupt: the peer sees a reset. */
void fix_link_close(struct fix_link *link, bool is_abrupt);

#endif
