/* host.h - the host, its guests and their calls.
 *
 * Locks, outermost first: tw_host.lock (the list of guests), guest.lock (one guest). Neither is held in a call into the
 * adapter, nor in a write to the wire but tw_call_post(). */
#ifndef HOST_HOST_H
#define HOST_HOST_H

#include "memory.h"

#include <tradewake/adapters/host.h>
#include <tradewake/base/clock.h>
#include <tradewake/base/limits.h>
#include <tradewake/executor/executor.h>
#include <tradewake/wire/server.h>

#include <tradewake/adapter/v1/broker_adapter.pb-c.h>

#include <pthread.h>
#include <stdatomic.h>

#define REASON(name)  TRADEWAKE__V1__REASON__REASON_##name
#define OUTCOME(name) TRADEWAKE__ADAPTER__V1__OUTCOME__OUTCOME_##name
#define METHOD(name)  "/tradewake.adapter.v1.BrokerAdapterService/" name

#define HEARTBEAT_NS (2 * TW_NS_PER_S)

enum { TOKEN_BYTES = 64, WHY_BYTES = 256, HAPPENINGS_MAX = 64 };

/* What happened at the broker, until it is written to whoever watches. */
struct happening {
    enum { HAPPENED_POSITION, HAPPENED_ORDER_GONE, HAPPENED_MARKET_OPEN } kind;
    tw_reason reason;
    struct tw_held_position position;
    char order_id[TW_BROKER_ID_BYTES], position_id[TW_BROKER_ID_BYTES], client_order_id[TW_COPY_ID_BYTES];
};

struct listing {
    struct tw_instrument instrument;
    tw_decimal bid, ask; /* UNSET = no quote yet */
    bool is_news;
};

struct tw_host {
    /* Set by the start, read-only afterwards: any thread. */
    struct tw_host_options options;
    struct tw_executor *executor;
    struct tw_wire_server *wire;
    struct tw_lane *questions; /* about settings: of no guest */
    char epoch[24];            /* of this process */
    pthread_t closer;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t news;  /* for the closer */
    struct guest *guests;
    struct guest *leaving; /* to be closed when nothing of theirs is out */
    uint64_t n_ids;
    uint32_t threads_needed;
    bool is_stopping, is_closer_gone;
};

struct guest {
    /* Set when it is made, read-only afterwards: any thread. */
    struct tw_host *host;
    char *account_key, *credentials_ref;
    struct tw_adapter_setting *settings; /* texts are ours */
    size_t n_settings;
    void *session;
    struct tw_capabilities can;
    struct tw_lane *lane;

    /* Guarded by tw_host.lock. */
    struct guest *next;
    uint64_t id;     /* of the latest OpenSession: an earlier one's caller has no say any more */
    uint32_t n_refs; /* calls that are out, and the list it stands in */

    pthread_mutex_t lock; /* guards what follows */
    bool is_connected, was_told;
    char why[WHY_BYTES];
    struct tw_account account;
    struct listing *listings;
    size_t n_listings;
    struct opening *openings; /* calls that wait for the connection */
    struct memory memory;
    /* Who watches: the newest. Each message has the next number; a picture says which number it has. */
    struct tw_call *watcher;
    uint64_t sequence;
    struct happening *happenings; /* a ring, made with the first */
    size_t first_happening, n_happenings;
    bool wants_picture; /* something was lost: it is told to take one */
    bool is_loss_news, is_return_news; /* both, where it was away for a moment: the loss is told first */
    bool is_account_news, is_quote_news, is_beat_due, is_other_market;
};

/* ---- guest.c ---- */

/* NULL: no such session. Held until guest_drop(). Thread: any. */
struct guest *guest_of(struct tw_host *host, const char *session_id);
void guest_drop(struct guest *guest);
void guest_id_text(const struct guest *guest, char ret[TOKEN_BYTES]);
void guest_openings_post(struct guest *guest); /* under guest->lock: there is news for them */
void *guests_close_main(void *host);

void on_open_session(struct tw_call *call, const ProtobufCMessage *request, const struct tw_refusal *invalid);
void on_open_session_post(struct tw_call *call);
void on_open_session_finished(struct tw_call *call, bool cancelled);
void on_close_session(struct tw_call *call, const ProtobufCMessage *request, const struct tw_refusal *invalid);
void on_get_instrument(struct tw_call *call, const ProtobufCMessage *request, const struct tw_refusal *invalid);

/* ---- order.c ---- */

void on_execute(struct tw_call *call, const ProtobufCMessage *request, const struct tw_refusal *invalid);
void on_lookup(struct tw_call *call, const ProtobufCMessage *request, const struct tw_refusal *invalid);
void on_snapshot(struct tw_call *call, const ProtobufCMessage *request, const struct tw_refusal *invalid);
void on_check_config(struct tw_call *call, const ProtobufCMessage *request, const struct tw_refusal *invalid);
void on_order_post(struct tw_call *call);
void on_order_finished(struct tw_call *call, bool cancelled);

/* ---- watch.c ---- */

void on_watch(struct tw_call *call, const ProtobufCMessage *request, const struct tw_refusal *invalid);
void on_watch_news(struct tw_call *call);
void on_watch_timer(struct tw_call *call);
void on_watch_finished(struct tw_call *call, bool cancelled);
void session_host_fill(struct guest *guest, struct tw_session_host *ret);

extern struct tw_host *host_here; /* handlers are given no context: there is one in a process */

#endif
