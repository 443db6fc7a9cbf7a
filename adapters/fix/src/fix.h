/* fix.h - the adapter, its lines and its accounts.
 *
 *     account (a follower) --> line (a FIX session: numbers, messages, orders) --> link (a socket)
 *
 *     DOWN -> LINKING (TCP, TLS) -> LOGON -> SYNC (what was missed is replayed) -> UP
 *      ^--- whatever fails, and the end of the hours: after a back-off ---------'
 *
 * Everything moves on the reactor: what only it touches needs no lock. The host is told there, holding none. */
#ifndef FIX_FIX_H
#define FIX_FIX_H

#include "compose.h"
#include "link.h"
#include "orders.h"
#include "settings.h"
#include "venues.h"

#include <tradewake/adapters/fix.h>

#include <pthread.h>

#define REASON(name) TRADEWAKE__V1__REASON__REASON_##name

enum { WHY_BYTES = 256, REQUEST_ID_BYTES = 24, ORDERS_REMEMBERED = 10000 };

struct fix_line;

struct fix_adapter {
    /* Set by open, read-only afterwards: any thread. */
    struct tw_reactor *reactor;
    char *state_dir, *secrets_dir; /* NULL = none */
    struct fix_venues venues;
    struct fix_link_tls *tls[FIX_VENUES_MAX]; /* by venue; NULL = plain text */

    /* Guarded by lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_quiet; /* the reactor is not to be used any more */

    /* The reactor's; after it is quiet, main's. */
    struct fix_line *lines;
    uint64_t dice, n_requests;
};

/* What is known of a position. In the venue's units. */
struct fix_position {
    char id[FIX_ID_BYTES]; /* 721; netting: the venue's symbol */
    char symbol[TW_SYMBOL_BYTES]; /* the venue's name */
    char client_order_id[FIX_ID_BYTES];
    enum tw_side side;
    tw_decimal units, price;
};

struct fix_positions {
    struct fix_position *list;
    size_t n, room;
};

/* A question for everything that an account holds: AN, and AF. Part of the call it is asked for, or of the start. */
struct fix_picture {
    bool is_asked, has_positions, has_orders, has_failed;
    char positions_id[REQUEST_ID_BYTES], orders_id[REQUEST_ID_BYTES];
    int positions_wanted, positions_got, orders_wanted, orders_got; /* wanted: FIX_NO_CODE = not said yet */
    uint64_t fills_before; /* one that comes in between makes it worthless */
    unsigned tries;
    struct fix_positions positions;
    uint64_t stamp; /* on the orders that were listed */
};

enum fix_kind {
    FIX_PLACING,  /* D: until it is over, or works */
    FIX_CHANGING, /* F or G: until the venue has answered it */
    FIX_ASKING,   /* H */
    FIX_PICTURE,  /* AN and AF */
    FIX_FIRST,    /* AN and AF before an order that depends on it */
};

/* A call that is out. */
struct fix_flight {
    struct fix_flight *next, *previous;
    struct fix_account *account;
    struct tw_adapter_call *call;
    enum fix_kind kind;
    struct fix_order *order; /* PLACING: it; CHANGING: what is changed; ASKING: if it is known */
    bool was_placing;        /* ASKING: the order of this very call, which the venue has called a duplicate */
    uint64_t seq;            /* of the message that is out; 0 = none */
    int64_t limit_mono_ns;
    struct fix_picture picture;
};

struct fix_account {
    /* Set by session_open, read-only afterwards: any thread. */
    struct tw_task attach, detach;
    struct fix_adapter *adapter;
    const struct fix_venue *venue;
    struct tw_session_host host;
    struct tw_capabilities can;
    struct fix_settings settings;

    /* The reactor's. */
    struct fix_line *line; /* NULL = it has none: why says why */
    struct fix_account *next;
    bool is_up;           /* orders may go, and the host knows it */
    bool was_told, is_told_up;
    char why[WHY_BYTES];
    struct fix_flight *flights;
    struct fix_positions positions;
    bool has_picture;       /* positions are those of the venue, followed since */
    bool is_stale;          /* something happened of which nobody knows whether the picture has it: it is taken anew */
    bool has_orders;        /* the book has every order that works there */
    bool is_starting;
    struct fix_picture start; /* before the host is told that it is up */
    struct tw_timer start_timer;
    uint64_t fills;
};

/* ---- line.c: the FIX session ---- */

/* The line that carries this account; made if there is none. NULL with words in why. */
struct fix_line *fix_line_attach(struct fix_adapter *adapter, struct fix_account *account, char why[WHY_BYTES]);
/* The last one takes the line down: Logout, and gone. */
void fix_line_detach(struct fix_line *line, struct fix_account *account);
/* All of them, at once, with a Logout. */
void fix_lines_close(struct fix_adapter *adapter);

/* Whether messages may go, and nothing that was missed is still to come. */
bool fix_line_is_up(const struct fix_line *line);
struct fix_orders *fix_line_orders(struct fix_line *line);
struct fix_account *fix_line_accounts(const struct fix_line *line);
/* Numbered, written down, and on its way with whatever else goes in this turn of the reactor. False: it has not been
 * sent and never will be, with words in why. */
bool fix_line_send(struct fix_line *line, const char *msg_type, const struct fix_body *body, uint64_t *ret_seq,
                   char why[WHY_BYTES]);

/* ---- account.c: a follower ---- */

/* What is known without the venue is told: an open that comes before the connection is planned, and waits for it. */
void fix_account_begin(struct fix_account *account);
/* The line is up, or not any more. */
void fix_account_on_line(struct fix_account *account, bool is_up, const char *why);
/* Reports are missing for good: what the account holds is read anew. */
void fix_account_on_missed(struct fix_account *account);
void fix_account_tell(struct fix_account *account, bool is_up, const char *why);
/* Messages, by kind. */
void fix_accounts_on_execution(struct fix_line *line, const struct fix_report *report);
void fix_accounts_on_cancel_reject(struct fix_line *line, const struct fix_report *report);
void fix_accounts_on_position(struct fix_line *line, const struct fix_report *report);
/* j, or a session's Reject (3): the message with this number was not taken. code: 380; of a 3 FIX_NO_CODE. */
void fix_accounts_on_unread(struct fix_line *line, uint64_t seq, const char *id, bool is_session_reject, int code, const char *text);

void fix_account_free(struct fix_account *account);
struct fix_terms fix_account_terms(const struct fix_account *account, const char *venue_symbol);

/* ---- picture.c ---- */

/* Asks anew. False: it could not be sent. */
bool fix_picture_ask(struct fix_account *account, struct fix_picture *picture);
bool fix_picture_is_whole(const struct fix_picture *picture);
void fix_picture_clear(struct fix_picture *picture);
/* It replaces what was known; what is different is told. */
void fix_picture_take(struct fix_account *account, struct fix_picture *picture);
/* True: the report answers this picture. */
bool fix_picture_on_position(struct fix_account *account, struct fix_picture *picture, const struct fix_report *report);
bool fix_picture_on_order(struct fix_account *account, struct fix_picture *picture, const struct fix_report *report,
                          struct fix_order *order);
bool fix_picture_on_unread(struct fix_picture *picture, const char *id, bool is_empty);

struct fix_position *fix_position_find(const struct fix_positions *positions, const char *id);
/* What an execution does to it. units is above 0, or below for a bust. NULL: no memory, or it is gone (then *ret_gone). */
struct fix_position *fix_position_book(struct fix_positions *positions, const struct fix_order *order, bool is_netting,
                                       tw_decimal units, struct fix_position *ret_gone);
/* As the host has it. False: its symbol is none of the venue's section, or its volume is no number of lots. */
bool fix_position_held(const struct fix_account *account, const struct fix_position *position, struct tw_held_position *ret);

/* ---- call.c ---- */

void fix_execute(void *session, struct tw_adapter_call *call);
void fix_lookup(void *session, struct tw_adapter_call *call);
void fix_snapshot(void *session, struct tw_adapter_call *call);

/* A report has changed this order (NULL: it says that there is no such one). */
void fix_calls_on_report(struct fix_account *account, const struct fix_report *report, const struct fix_change *change);
/* After reports may have been missed, where the venue lists no orders: H for each that the host takes for working. */
void fix_calls_ask_working(struct fix_account *account);
/* Whether a call asks for the order of this ClOrdID at this moment. */
bool fix_calls_ask_for(const struct fix_account *account, const char *cl_ord_id);
void fix_calls_on_picture(struct fix_account *account, struct fix_flight *flight);
void fix_calls_on_unread(struct fix_flight *flight, bool is_session_reject, int code, const char *text);
/* The duplicate of an order: it is asked for. True: it was one, and nothing else is to be done. */
bool fix_calls_on_duplicate(struct fix_account *account, struct fix_order *order, const struct fix_report *report);
/* All that are out come back AMBIGUOUS. */
void fix_calls_cut(struct fix_account *account, const char *why);

#endif
