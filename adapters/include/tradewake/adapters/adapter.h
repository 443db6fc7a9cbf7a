/* adapter.h - what a broker adapter is: one table of functions, two kinds behind one contract.
 *
 * An adapter is the way to one kind of broker; a session is one account at it (a follower).
 *
 * Threads. The words used below:
 *   main     the thread that opens and closes adapters and sessions. One call at a time per adapter.
 *   worker   one of the executor's threads; may be held for the broker's answer.
 *   reactor  the one thread of the libuv loop; may not block.
 *   caller   a worker for a blocking session, the reactor for a non-blocking one. Up to max_parallel
 *            callers may be inside one session at once (blocking), each with its own call; the
 *            adapter guards what they share.
 * Life.    open -> session_open -> (execute | lookup | snapshot)* -> session_close -> close.
 *          session_close() is called once, when no call of that session is out.
 * Memory.  Every pointer passed in is valid until the call returns, or until call->done() for a
 *          non-blocking one; keep a copy, not the pointer.
 *
 * What an adapter never does: send a mutating call again on its own, guess an outcome (what is not
 * certain is AMBIGUOUS), or call into the host while a call of the host is waiting on a lock of its.
 *
 * Retries are the core's, in one place. Codes of a venue are a table in the adapter, and an unlisted
 * code on a mutating call is AMBIGUOUS. */
#ifndef TW_ADAPTERS_ADAPTER_H
#define TW_ADAPTERS_ADAPTER_H

#include <tradewake/adapters/order.h>
#include <tradewake/base/status.h>
#include <tradewake/executor/reactor.h>

/* What one account at a broker can do; constant for the life of a session. */
struct tw_capabilities {
    bool blocking;           /* a worker is held for each call; false: calls run on the reactor */
    bool netting;            /* one position per symbol; false: hedging, a position has an id */
    bool query_by_id;        /* lookup finds an order by its client order id, also a closed one */
    bool not_found_is_final; /* after the settle time NOT_FOUND proves that it was never executed */
    bool reduce_only;        /* a netting close never crosses zero */
    uint32_t max_parallel;   /* calls at once; 1..TW_PARALLEL_MAX */
    uint32_t call_timeout_ms; /* execute answers within it, or AMBIGUOUS */
    uint32_t settle_ms;      /* so long after a call's time-out NOT_FOUND proves nothing */
};

/* One call to a session. The caller's memory; embedded in what the call is about. */
struct tw_adapter_call {
    struct tw_order order;    /* execute; lookup reads client_order_id and symbol */
    int64_t deadline_mono_ns; /* not to be sent after this instant; answered by then or AMBIGUOUS */
    struct tw_ack ack;        /* zeroed by the caller, filled in by the adapter; execute and lookup */
    struct tw_snapshot *snapshot; /* snapshot: zeroed by the caller, filled in */
    /* The trace that the event came with (W3C Trace Context), as its sender wrote it, for who is called in turn.
     * NULL or "" = none; stays until the answer. An adapter that has no place for it leaves it out. */
    const char *traceparent;

    /* Non-blocking sessions: called by the adapter exactly once per call, on the reactor, possibly
     * before execute() returns; nothing of the call is touched afterwards. Not called for blocking
     * sessions: there the return is the answer. */
    void (*done)(struct tw_adapter_call *call);

    /* The adapter's own while the call is out. */
    struct tw_timer timer;
    void *adapter_data[4];
};

/* What a session tells without being asked. Thread: any; also before session_open() has returned.
 * The callee does not block, and does not call into the adapter. context: as given. */
struct tw_session_host {
    void *context;

    /* First after everything below has been told once (account, instruments, quotes), and at each
     * change. why: for people, on loss. A connection lost is made again by the adapter. */
    void (*on_connection)(void *context, bool is_connected, const char *why);
    /* These symbols are (now) like this; others stay as they are. */
    void (*on_instruments)(void *context, const struct tw_instrument *instruments, size_t n);
    void (*on_quote)(void *context, const char *symbol, tw_decimal bid, tw_decimal ask);
    void (*on_account)(void *context, const struct tw_account *account);
    /* A position changed at the broker without a call of ours: stop loss, take profit, a hand, or a
     * pending that filled. volume 0 = it is gone. */
    void (*on_position)(void *context, const struct tw_held_position *position, tw_reason reason);
    /* A working order is gone: filled (position_id names what it became) or expired ("" then). */
    void (*on_order_gone)(void *context, const char *order_id, const char *client_order_id,
                          const char *position_id);
    /* The market opened again: what waits for it may try. */
    void (*on_market_open)(void *context);
};

struct tw_adapter_setting {
    const char *key, *value;
};

struct tw_session_options {
    const char *follower_id;
    const char *adapter; /* as the follower says it: "paper", "plugin:NAME" */
    const struct tw_adapter_setting *settings; /* adapter_config; unknown keys are refused. No value is a
                                                * secret, some are "secret:NAME": secret.h */
    size_t n_settings;
    const char *credentials_ref;
    struct tw_session_host host;
};

struct tw_adapter_options {
    const char *state_dir; /* the adapter's own folder, there already; NULL = keep nothing */
    struct tw_reactor *reactor;
    const char *secrets_dir; /* where "secret:NAME" is a file, see secret.h; stays; NULL = nowhere */
    const void *own; /* what the configuration says to this adapter alone, as its header has it; stays; NULL = nothing */
};

#define TW_ADAPTER_ABI_MAJOR 1u

struct tw_adapter_ops {
    uint32_t abi_major;   /* TW_ADAPTER_ABI_MAJOR it was built with */
    uint32_t struct_size; /* sizeof(struct tw_adapter_ops) it was built with; new members only at the end */
    const char *name;     /* "paper" */

    /* Thread: main. */
    tw_status (*open)(const struct tw_adapter_options *options, void **ret_adapter,
                      struct tw_error *error);
    /* NULL and half-open are allowed. Thread: main. No session is open. */
    void (*close)(void *adapter);

    /* Are these settings possible? Nothing is opened. Fails: TW_INVALID with the key's name in
     * ret_key (65 bytes) and words in error. Thread: any. */
    tw_status (*check)(void *adapter, const struct tw_session_options *options, char *ret_key,
                       struct tw_error *error);

    /* Begins to connect; the host hears on_connection when the account can be used. An account that
     * cannot be reached is not a failure. Thread: main. */
    tw_status (*session_open)(void *adapter, const struct tw_session_options *options,
                              void **ret_session, struct tw_error *error);
    void (*session_close)(void *session);
    void (*capabilities)(void *session, struct tw_capabilities *ret);

    /* Places, changes or closes. Mutates. Thread: caller. */
    void (*execute)(void *session, struct tw_adapter_call *call);
    /* What became of order.client_order_id? Changes nothing; ack.outcome is DONE, PARTIAL, ACCEPTED
     * (working), REJECTED, NOT_FOUND, or AMBIGUOUS (could not ask). Thread: caller. */
    void (*lookup)(void *session, struct tw_adapter_call *call);
    /* Everything the account holds; ack.outcome DONE and snapshot->complete, or not. Thread: caller. */
    void (*snapshot)(void *session, struct tw_adapter_call *call);
};

#endif
