/* session.h - the FIX 4.4 session of an initiator: what is said when, and which number it has.
 *
 *     message or tick, now --> [ session ] --> actions, to be done in their order
 *
 * A machine without clock, file or socket: the caller reads bytes (codec.h), performs the actions on a store (store.h) and a
 * socket, and tells what happened. So every step between two actions is a place to die at in a test.
 *
 *     DOWN --connected--> LOGON --their Logon--> UP --logout, or theirs--> LOGOUT --> DOWN
 *
 * What it never does:
 *   - It never sends an application message again. A ResendRequest is answered by one gap fill over all that is asked for:
 *     an order that is late by half a minute is a loss, and whoever misses it asks the venue.
 *   - It never lowers a number to get along. A number of theirs that is too low, or their word that ours is, ends the
 *     session for good (is_fatal), with words for a person. Numbers begin anew only where the profile says so, by the
 *     clock (fix_session_renumber()), or when the venue does it and the host has said that it may.
 *   - It never takes a message that is missing as not there: it asks, delivers nothing behind it until it has come, and
 *     says so when it does not come (FIX_DO_MISSED): then the state of the orders is to be asked for. What it has in hand it
 *     delivers, whatever a gap fill says.
 *
 * Thread: one at a time. */
#ifndef TW_FIX_SESSION_H
#define TW_FIX_SESSION_H

#include <tradewake/fix/codec.h>

enum {
    FIX_COMP_BYTES = 65,
    FIX_WHY_BYTES = 200,
    FIX_OUT_BYTES_MAX = 8192,     /* one message of ours */
    FIX_BODY_BYTES_MAX = 4096,    /* the application's part of it */
    FIX_ACTIONS_MAX = 16,         /* of one input */
    FIX_HELD_MAX = 256,           /* messages behind a gap; more are asked for again */
    FIX_HELD_BYTES_MAX = 1 << 20, /* all of them */
    FIX_GAP_TRIES_MAX = 3,        /* a gap is asked for so often; then it is given up, and said (FIX_DO_MISSED) */
};

/* Monotonic: time-outs. Wall: SendingTime. One reading for an input. */
struct fix_now {
    int64_t mono_ns, wall_ns;
};

struct fix_session_options {
    const char *sender, *target;         /* 49, 56 */
    const char *sender_sub, *target_sub; /* 50, 57; NULL or "" = not sent */
    const char *username;                /* 553; likewise */
    uint32_t heartbeat_s;                /* 108; 0 = none */
    uint32_t logon_ms, logout_ms;        /* so long an answer is waited for; 0 = 10 s, 2 s */
    uint32_t sending_time_s_max;         /* 52 may be so far from our clock; 0 = 120 s */
    uint32_t gap_ms;                     /* so long without a step forward, a gap is asked for again; 0 = 5 s */
    uint32_t resend_chunk;               /* so many messages are asked for at once; 0 = all (16=0) */
    bool resets_at_logon;                /* 141=Y: both count from 1 at every Logon */
    bool takes_user_tags;                /* in session messages: tags that FIX 4.4 does not have */
    bool plain_gap_fill;                 /* without 43=Y and 122, for venues that dislike them there */
};

enum fix_phase { FIX_DOWN, FIX_LOGON, FIX_UP, FIX_LOGOUT };

enum fix_do {
    FIX_DO_RENUMBER, /* next_out, next_in: from here on both count from these; write down, before anything else */
    FIX_DO_SEND,     /* bytes, n, seq: write down that seq is used up (0: none is, a gap fill), then send */
    FIX_DO_DELIVER,  /* an application message, or their Reject (3) of one of ours: message. In order, each number once */
    FIX_DO_EXPECT,   /* next_in: what came before it is done; write down (not to be waited for) */
    FIX_DO_UP,       /* logged on */
    FIX_DO_MISSED,   /* from..to of theirs will never come, and may have been reports: ask for the state of the orders */
    FIX_DO_SAY,      /* why: for the log, nothing else */
    FIX_DO_END,      /* why, is_fatal: send what is to be sent, then close the connection. Always the last */
};

struct fix_action {
    enum fix_do what;
    const char *bytes; /* SEND; points into the actions */
    size_t n;
    uint64_t seq;              /* SEND */
    char type[FIX_TYPE_BYTES]; /* SEND: 35 */
    const struct fix_message *message; /* DELIVER; valid until the next message or more */
    uint64_t next_out, next_in;
    uint64_t from, to;
    bool is_fatal; /* END: not to be connected again before a person has looked */
    char why[FIX_WHY_BYTES];
};

/* Caller's memory, used again for every input; about 40 KiB. */
struct fix_actions {
    size_t n;
    size_t n_bytes;
    bool has_more; /* fix_session_more() is to be called after these have been done */
    struct fix_action list[FIX_ACTIONS_MAX];
    char bytes[4 * FIX_OUT_BYTES_MAX];
};

struct fix_session;

/* next_out, next_in: from the store; 1 when nothing was ever sent. Strings are copied.
 * Fails: TW_INVALID (names tag and rule), TW_NO_MEMORY. */
TW_MUST_CHECK tw_status fix_session_new(const struct fix_session_options *options, uint64_t next_out, uint64_t next_in,
                                        struct fix_session **ret, struct tw_error *error);
void fix_session_free(struct fix_session *session); /* NULL is allowed */

/* ---- Inputs. Each fills *ret anew. While a message is delivered, orders may be sent, with other actions. ---- */

/* A connection stands: the Logon goes out. password: 554, in that message and nowhere else; NULL or "" = none. */
void fix_session_on_connected(struct fix_session *session, struct fix_now now, const char *password,
                              struct fix_actions *ret);
/* The connection is gone, whoever closed it. No actions. */
void fix_session_on_disconnected(struct fix_session *session);
void fix_session_on_message(struct fix_session *session, struct fix_now now, const struct fix_message *message,
                            struct fix_actions *ret);
/* While actions.has_more: messages that were held behind a gap, and are due now. */
void fix_session_more(struct fix_session *session, struct fix_now now, struct fix_actions *ret);
/* At least once a second while connected. */
void fix_session_on_tick(struct fix_session *session, struct fix_now now, struct fix_actions *ret);
/* We want to leave: Logout (58: text, "" = none), then END when they have answered, or at the time-out. */
void fix_session_logout(struct fix_session *session, struct fix_now now, const char *text, struct fix_actions *ret);

/* An application message. body: fields, "11=T1<SOH>55=1<SOH>". One FIX_DO_SEND on TW_OK.
 * Fails, with no number used up: TW_UNREACHABLE (not UP), TW_INVALID (what is no field, or too long). */
TW_MUST_CHECK tw_status fix_session_send(struct fix_session *session, struct fix_now now, const char *type,
                                         const char *body, size_t n, struct fix_actions *ret, struct tw_error *error);

/* Between two connections: both count from 1 anew, by the clock or by a person's word. Fails: TW_INVALID (connected). */
TW_MUST_CHECK tw_status fix_session_renumber(struct fix_session *session, struct fix_actions *ret, struct tw_error *error);

/* No order is out: when the venue begins its numbers anew by itself (141=Y), that is followed. Otherwise, and at first,
 * it ends the session for good. */
void fix_session_allow_reset(struct fix_session *session, bool is_allowed);

/* ---- What it knows. ---- */

enum fix_phase fix_session_phase(const struct fix_session *session);
/* UP, and no message of theirs is missing. */
bool fix_session_is_synced(const struct fix_session *session);
uint64_t fix_session_next_out(const struct fix_session *session);
uint64_t fix_session_next_in(const struct fix_session *session);
/* When something is to be done at the latest; INT64_MAX = never. */
int64_t fix_session_due_mono_ns(const struct fix_session *session);

#endif
