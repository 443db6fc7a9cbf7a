/* remote.h - the adapter, its bridges and its sessions.
 *
 *     DOWN -> OPENING (OpenSession) -> INSTRUMENTS (GetInstrument each) -> WATCHING (WatchAccount) -> [SNAPSHOT] -> UP
 *      ^------- whatever fails, and the stream's end: after a back-off -------------------------------------'
 *
 * Everything moves on the line's thread, in its ticks and when something comes back: what only it touches is marked
 * so, and needs no lock. The host is told there, holding no lock. */
#ifndef REMOTE_REMOTE_H
#define REMOTE_REMOTE_H

#include "count.h"
#include "settings.h"

#include <tradewake/adapters/remote.h>
#include <tradewake/wire/async.h>

#include <tradewake/adapter/v1/broker_adapter.pb-c.h>

#include <pthread.h>
#include <stdatomic.h>

#define REASON(name) TRADEWAKE__V1__REASON__REASON_##name
#define METHOD(name) "/tradewake.adapter.v1.BrokerAdapterService/" name

#define TICK_NS     (20 * TW_NS_PER_MS)
#define ASK_NS      (5 * TW_NS_PER_S)   /* so long may a question of ours take */
#define BACK_OFF_NS (100 * TW_NS_PER_MS) /* doubling */
#define BACK_OFF_NS_MAX (5 * TW_NS_PER_S)
#define STEADY_NS       (5 * TW_NS_PER_S) /* a session that lasted so long has not failed to come up */

enum { TOKEN_BYTES = 257, WHY_BYTES = 256 };

enum phase { PHASE_DOWN, PHASE_OPENING, PHASE_INSTRUMENTS, PHASE_WATCHING, PHASE_SNAPSHOT, PHASE_UP };

struct remote {
    /* Set by open, read-only afterwards: any thread. */
    struct tw_reactor *reactor;
    struct tw_wire_line *line;
    struct bridge *bridges;
    size_t n_bridges; /* guarded by lock while it grows */

    uint64_t dice; /* the line's thread */

    /* Guarded by lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct session *sessions;      /* doubly linked; the first's `previous` is the last */
    const struct session *telling; /* whose host is being told at this moment */
};

struct bridge {
    /* Set by open, read-only afterwards: any thread. */
    struct remote *remote;
    char name[TW_BRIDGE_NAME_BYTES];
    struct tw_wire_channel *channel;

    /* Guarded by lock; written on the line's thread. */
    bool is_known;  /* `can` is what it last said */
    bool is_proven; /* it has said so since its connection was last lost */
    bool was_tried;
    Tradewake__Adapter__V1__GetCapabilitiesResponse *can;
    atomic_uint comment_max; /* of it; any thread */
    char why[WHY_BYTES]; /* it is not proven */

    /* The line's thread. */
    bool is_asking;
    unsigned failures;
    int64_t due_mono_ns;
};

/* A pending order at the broker. */
struct working {
    struct working *next;
    char order_id[TW_BROKER_ID_BYTES];
    char client_order_id[TW_COPY_ID_BYTES];
};

/* What is known of a position since it was last told. */
struct known {
    struct tw_held_position position;
    bool is_there;
    struct known *next;
};

struct session {
    /* Set by session_open, read-only afterwards: any thread. */
    struct remote *remote;
    struct bridge *bridge;
    struct tw_session_host host;
    struct tw_capabilities can;
    int64_t call_timeout_ns;
    char *account_key, *credentials_ref, *symbols;
    Tradewake__Adapter__V1__OpenSessionRequest__ConfigEntry *config, **config_list;
    size_t n_config;
    bool wants_symbols; /* they are the bridge's; then `symbols` is the line's thread's */

    /* Guarded by lock. */
    struct session *next, *previous;
    atomic_bool is_closing; /* read anywhere */
    bool is_up;        /* orders may go */
    unsigned n_out;    /* questions and streams that have not come back */
    char session_id[TOKEN_BYTES];

    /* The line's thread. */
    enum phase phase;
    uint32_t life; /* rises with each failure: what comes back of an earlier one is not listened to */
    unsigned failures;
    int64_t due_mono_ns, up_mono_ns;
    struct tw_wire_pending *stream; /* NULL = none; guarded by lock */
    bool is_told_up, was_told_why;
    char why[WHY_BYTES];
    char epoch[TOKEN_BYTES];
    struct count count;
    int64_t heard_mono_ns;
    bool is_at_broker; /* the bridge has its broker */
    struct tw_account account;
    bool has_account;
    struct tw_instrument *instruments;
    tw_decimal (*quotes)[2];
    size_t n_instruments, n_asked, n_answered;
    struct working *working; /* guarded by lock */
    struct known *known;
};

/* ---- bridge.c ---- */

/* Asks those that are due. Thread: line. */
void remote_bridge_tick(struct bridge *bridge, int64_t now_mono_ns);
/* The connection is gone; what it can is asked anew. Thread: line. */
void remote_bridge_lost(struct bridge *bridge, int64_t now_mono_ns);
/* After so many failures in a row, with chance in it so that not all come at once. Thread: line. */
int64_t remote_back_off_ns(struct remote *remote, unsigned failures);

/* ---- session.c ---- */

void remote_session_tick(struct session *session, int64_t now_mono_ns);
/* Down it goes; why: for people. Thread: line. */
void remote_session_fail(struct session *session, const char *why);
/* The same, after what the transport said: the bridge may be another one now, or have forgotten everybody. */
void remote_session_cut(struct session *session, const struct tw_wire_answer *answer);
/* Questions: `life` of the session is kept with them. Thread: line. Fails silently: the session is failed then. */
struct question {
    struct session *session;
    uint32_t life, index;
    void (*answer)(struct session *session, uint32_t index, const ProtobufCMessage *response);
};
void remote_session_ask(struct session *session, const char *path, const ProtobufCMessage *request, uint32_t index,
                 void (*answer)(struct session *session, uint32_t index, const ProtobufCMessage *response));
/* False: it is being closed, and its host is not to be told. End each true one. Thread: line. */
bool remote_tell_begin(struct session *session);
void remote_tell_end(struct session *session);
/* One that was out has come back; the last one of a closed session frees it. Thread: line. */
void remote_session_back(struct session *session);
void remote_session_free(struct session *session);
/* Everything is there: the host is told. Thread: line. */
void remote_session_up(struct session *session);

/* ---- watch.c ---- */

void remote_watch_begin(struct session *session);
void remote_watch_check(struct session *session, int64_t now_mono_ns);
void remote_working_add(struct session *session, const char *order_id, const char *client_order_id); /* under lock */
void remote_working_clear(struct session *session);
void remote_known_clear(struct session *session);

/* ---- call.c ---- */

void remote_execute(void *session, struct tw_adapter_call *call);
void remote_lookup(void *session, struct tw_adapter_call *call);
void remote_snapshot(void *session, struct tw_adapter_call *call);

#endif
