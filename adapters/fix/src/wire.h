/* wire.h - codec, session and store behind one door: what a line needs of them. It performs what the session decides:
 * writes down, hands out bytes, delivers. Thread: reactor. */
#ifndef FIX_WIRE_H
#define FIX_WIRE_H

#include "hear.h"
#include "venues.h"

struct fix_wire;

struct fix_wire_host {
    void (*on_out)(void *context, const char *bytes, size_t n); /* written down already */
    void (*on_message)(void *context, const struct fix_heard *heard);
    void (*on_logon)(void *context);
    void (*on_missed)(void *context); /* messages that may have been reports will never come */
    void (*on_end)(void *context, bool is_fatal, const char *why); /* the connection is to be closed */
};

struct fix_wire_options {
    const struct fix_venue *venue;
    const char *state_dir; /* NULL = nothing is kept */
    const char *account;   /* of a session of its own; "" = shared */
    const char *sender, *sender_sub, *username;
    const struct fix_wire_host *host;
    void *context;
};

TW_MUST_CHECK tw_status fix_wire_open(const struct fix_wire_options *options, struct fix_wire **ret, struct tw_error *error);
void fix_wire_close(struct fix_wire *wire); /* NULL is allowed */

/* Before a connection: numbers that began before reset_wall_ns begin anew (INT64_MIN = never); may_reset: no order is out,
 * and if the venue begins anew by itself that is followed. */
TW_MUST_CHECK tw_status fix_wire_prepare(struct fix_wire *wire, int64_t reset_wall_ns, bool may_reset, struct tw_error *error);
/* The Logon goes out. */
void fix_wire_connected(struct fix_wire *wire, int64_t now_mono_ns, const char *password);
void fix_wire_disconnected(struct fix_wire *wire);
void fix_wire_bytes(struct fix_wire *wire, const char *bytes, size_t n, int64_t now_mono_ns);
void fix_wire_tick(struct fix_wire *wire, int64_t now_mono_ns);
void fix_wire_logout(struct fix_wire *wire, int64_t now_mono_ns, const char *text);
/* Logged on, and no message is missing. */
bool fix_wire_is_synced(const struct fix_wire *wire);

/* Fails: nothing has been sent, and no number is used up that could be. */
TW_MUST_CHECK tw_status fix_wire_send(struct fix_wire *wire, const char *msg_type, const char *body, size_t n,
                                      int64_t now_mono_ns, uint64_t *ret_seq, struct tw_error *error);

#endif
