/* internal.h - the engine's own structs: who is guarded by what.
 *
 * Locks, outermost first: engine->change_mutex, master->mutex, engine->fleet_lock, slot->mutex; leaves: record->mutex,
 * engine->audit.mutex, engine->history.mutex. */
#ifndef TW_ENGINE_INTERNAL_H
#define TW_ENGINE_INTERNAL_H

#include "spares.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/limits.h>
#include <tradewake/core/copy_id.h>
#include <tradewake/core/last_gate.h>
#include <tradewake/core/plan.h>
#include <tradewake/core/verdict.h>
#include <tradewake/engine/audit.h>
#include <tradewake/engine/engine.h>
#include <tradewake/journal/journal.h>
#include <tradewake/telemetry/sample.h>

#include <google/protobuf/timestamp.pb-c.h>

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <uthash.h>

#define STATE(name) TRADEWAKE__V1__COPY_STATE__COPY_STATE_##name
#define REASON(name) TRADEWAKE__V1__REASON__REASON_##name
#define ACTION(name) TRADEWAKE__V1__COPY_ACTION__COPY_ACTION_##name
#define ORIGIN(name) TRADEWAKE__V1__COPY_ORIGIN__COPY_ORIGIN_##name
#define REFUSAL(name) TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_##name

#define container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

typedef Tradewake__V1__CopyState copy_state;
typedef Tradewake__V1__CopyAction copy_action;

/* ---- An adapter whose calls do not come back: breaker.c ---- */

struct breaker {
    atomic_uint lost;         /* calls past their deadline that are still out */
    atomic_bool is_probe_out; /* the one call that is let through meanwhile */
    atomic_bool is_alive;     /* something has come back since the last one was lost */
    atomic_uint back;         /* so many have come back since the start */
    uint32_t lost_told, back_told; /* the sweep's */
};

/* A session whose order calls end unknown, one after the other: breaker.c. Guarded by the slot's mutex. */
struct fuse {
    uint32_t unknown;     /* order calls in a row of which nobody knows what became */
    uint32_t times;       /* it has blown so often without an answered order call in between */
    bool is_blown;
    bool is_told_blown;   /* what the log has been told */
    int64_t ask_mono_ns;  /* while it is blown: when the broker is next asked what it holds */
};

/* ---- A follower, alive ---- */

struct tw_slot {
    /* Set when it is made, read-only afterwards: any thread. */
    struct tw_engine *engine;
    char id[TW_ID_BYTES];
    uint32_t number; /* rises; the order of followers everywhere */
    const struct tw_adapter_ops *ops;
    void *session;
    struct tw_capabilities caps;
    struct breaker *breaker; /* of its adapter */
    struct tw_lane *lane;

    atomic_uint refs;
    atomic_bool is_halted; /* in its own scope */
    UT_hash_handle hh;     /* in engine->slots; guarded by fleet_lock */
    struct tw_slot *retired_next; /* in engine->retired; guarded by fleet_lock */

    /* Guarded by mutex. */
    pthread_mutex_t mutex;
    Tradewake__V1__Follower *message; /* what callers set */
    struct tw_follower_rules rules;   /* the same, checked */
    uint64_t revision;
    int64_t created_wall_ns, updated_wall_ns;
    char request_id[TW_ID_BYTES];
    bool is_deleted;

    struct tw_market market;
    struct tw_account account;
    bool is_connected;
    int64_t connected_since_wall_ns;
    char connection_message[TW_BROKER_TEXT_BYTES];
    uint32_t open_positions; /* legs not closed, coming ones included */
    atomic_uint stops_refused; /* changes that a broker refused and that are tried again */
    uint32_t drifts;
    struct tw_leg *dirty_legs;   /* changed without a copy, not written yet */
    bool is_dirty, is_risk_dirty;
    struct tw_slot *next_dirty;  /* in journal.dirty */
    int64_t compared_mono_ns;    /* when its broker was last asked for everything */
    bool is_comparing, compares_again; /* again: asked for while a question was on its way */
    bool is_started;             /* its lane takes jobs */
    uint64_t answers;            /* taken up so far, and news of positions and orders */
    struct {
        bool is_out;
        uint32_t limit; /* index into rules.loss_limits */
        tw_decimal measured;
        int64_t since_wall_ns, until_wall_ns; /* until 0 = for good */
    } stop_out;
    struct baseline { /* the account when a period began, by RiskPeriod */
        int64_t from_wall_ns; /* 0 = none yet */
        tw_decimal balance, equity;
    } baselines[5];
    struct tw_last_gate gate;
    struct fuse fuse;
    bool is_gate_told, is_gate_counted; /* the trip is in the log; count: day_out is not written down yet */
    bool wants_close_all; /* a stop-out that closes: the sweep does it */
    atomic_bool wants_settling; /* a leg of it is_unsettled */
    struct tw_leg *legs;     /* not closed */
    int64_t *opens_mono_ns;  /* when the latest opens began: max_orders_per_second of them, a ring */
    uint32_t opens_room, opens_at;
    struct tw_copy *parked_oldest, *parked_newest; /* waiting for a connection, a market or a mode */
};

struct tw_subscription {
    /* Set when it is made. */
    uint32_t number;
    char id[TW_ID_BYTES];
    struct tw_master *master;
    struct tw_slot *slot; /* holds a reference */
    int64_t created_wall_ns;
    char request_id[TW_ID_BYTES];

    atomic_uint refs;
    atomic_bool is_halted; /* of this pair */
    UT_hash_handle hh;     /* in engine->subscriptions; guarded by fleet_lock */
    uint32_t calls_out;    /* order calls at the broker now; guarded by the slot's mutex */

    /* Guarded by the master's mutex. */
    Tradewake__V1__CopyRules *message; /* NULL = defaults */
    struct tw_rules rules;
    uint64_t revision;
    int64_t updated_wall_ns;
    bool is_leaving; /* follows out */
    atomic_bool is_gone; /* deleted; kept for the copies that name it */
    struct tw_subscription *retired;
};

/* ---- A master's position and its copies ---- */

enum position_state { POSITION_OPEN, POSITION_CLOSED, POSITION_MARK /* closed before it was opened */ };

/* A hedging account makes a position of its own of every order: what a leg was increased by before. */
struct older_ticket {
    struct older_ticket *next;
    char id[TW_BROKER_ID_BYTES];
    tw_decimal held;
};

/* One follower's share of one master position. Guarded by the slot's mutex. */
struct tw_leg {
    uint64_t number; /* rises over all legs */
    uint32_t stamp;  /* rises with every writing down: records of several threads may stand in another order */
    struct tw_slot *slot;
    struct tw_position *position;
    struct tw_listing *listing;
    enum tw_side side;
    uint64_t key;
    enum tw_order_type order_type; /* of the order it was opened with */
    bool is_from_order;            /* it began as a pending order of the master's */
    bool is_reversed, ignores_stop_loss, ignores_take_profit; /* as when it was opened */
    bool is_pending;       /* its order waits at the broker: nothing of it has filled */
    bool is_closed;        /* nothing is left, or will be */
    bool was_open;         /* something was filled once */
    bool is_close_planned; /* a full close has been planned: what still waits to open need not */
    bool is_mended;        /* held is what the broker said since the start; hedging accounts */
    bool is_let_go;        /* left to the owner of the account: closed here, and not ours there */
    uint32_t n_told;       /* so often the broker said of itself that a ticket holds less; hedging accounts */
    bool is_unsettled;     /* it has just filled: what the master reduced meanwhile was not reduced here */
    uint32_t jobs;         /* copies of it that are not terminal */
    tw_decimal wanted;     /* planned by opens: reserved in the listing */
    tw_decimal placed;     /* of it, by the order that waits, or waited, at the broker */
    tw_decimal filled, held;
    tw_decimal open_price;
    tw_decimal order_price;            /* of its order while is_pending, as the broker has it */
    tw_decimal stop_loss, take_profit; /* at the broker, as believed; 0 = none. Netting: the one position's */
    tw_decimal own_stop_loss, own_take_profit; /* netting: what its master last wanted for this share */
    char ticket[TW_BROKER_ID_BYTES];   /* the broker's position id, now; the order's while is_pending */
    tw_decimal ticket_held;      /* of held, under this ticket; hedging accounts */
    struct older_ticket *older;  /* the rest of it, newest first */
    char open_copy_id[TW_COPY_ID_BYTES]; /* once its first call was made */
    char open_order_id[TW_COPY_ID_BYTES]; /* the client order id of the latest call that was to open it */
    struct tw_copy *unsent_modify; /* the latest change that has not been sent */
    struct tw_copy *applied;        /* copies whose answers changed it and are not written yet */
    struct tw_leg *previous, *next; /* in slot->legs */
    struct tw_leg *next_dirty;      /* in slot->dirty_legs */
    bool is_dirty;
};

struct tw_leg_block {
    struct tw_leg_block *next;
    uint32_t n_legs;
    struct tw_leg legs[]; /* ascending by slot number */
};

/* A pending order of the master, as last changed. */
struct pending {
    char symbol[TW_SYMBOL_BYTES];
    enum tw_side side;
    enum tw_order_type type;
    tw_decimal price, stop_price, stop_loss, take_profit, contract_size;
    int64_t magic, expires_wall_ns;
};

/* A position of the master, or a pending order of it (then it is in master->orders). Guarded by the
 * master's mutex. */
struct tw_position {
    uint64_t number;      /* rises over all masters */
    char id[TW_ID_BYTES]; /* the latest ticket */
    struct pending *pending; /* orders, and what a trigger left of them; NULL = a position */
    int64_t observed_wall_ns; /* of the latest event that touched it */
    int64_t opened_wall_ns;
    struct tw_master *master;
    enum position_state state;
    tw_decimal initial, remaining; /* of the master */
    struct tw_leg_block *blocks;
    bool is_hashed, is_order, is_remembered;
    atomic_uint busy; /* open legs, and copies that are not terminal, or not written as such: keeps the legs */
    UT_hash_handle hh;
    struct tw_position *closed_next; /* in master->closed, oldest first */
};

struct tw_master {
    char id[TW_ID_BYTES];
    struct tw_engine *engine;
    uint32_t tenant; /* of its copies' jobs */
    atomic_bool is_halted;
    UT_hash_handle hh; /* in engine->masters; guarded by fleet_lock */

    /* Guarded by mutex. */
    pthread_mutex_t mutex;
    struct tw_subscription **members; /* ascending by slot number; each holds a reference */
    uint32_t n_members, members_room;
    struct tw_position *positions, *orders;
    struct tw_position *closed_oldest, *closed_newest;
    struct tw_record *records; /* by event id */
    uint32_t open_positions;
    uint64_t last_sequence;
    uint64_t *ahead; /* sequences seen beyond a gap, unordered */
    uint32_t n_ahead;
    char last_event_id[TW_ID_BYTES];
    int64_t last_received_wall_ns;
    int64_t observed_wall_ns; /* the newest observed_at so far */
    struct sync *syncs;       /* snapshots taken up, newest first */
    uint32_t n_syncs;
    bool has_account;
    struct tw_account account;
};

/* ---- Copies ---- */

/* Somebody waits until a record's copies are as far as `wait`; from the heap. */
struct waiter {
    void (*wake)(void *context);
    void *context;
    enum tw_wait wait;
    struct waiter *next;
};

enum copy_phase { PHASE_CALL, PHASE_LOOKUP };

struct tw_copy {
    struct tw_job job; /* first */

    /* Set by the planner before submit, read-only afterwards. */
    struct tw_record *record;
    struct tw_subscription *subscription; /* holds a reference */
    struct tw_leg *leg;                   /* NULL for what touches no position; gone when terminal */
    uint64_t leg_number;                  /* of the leg, for good; 0 = not known since a start */
    int64_t window_end_wall_ns;           /* opens: too old after it */
    tw_decimal master_remaining, master_initial; /* reductions */

    /* The change queue's: one push at a time, see changes.c. */
    struct tw_copy *next_change;

    atomic_bool may_be_withdrawn; /* QUEUED and no call out: what a halt may cancel */
    atomic_int withdrawn_for;     /* a tw_reason, set by who withdraws it; 0 = the executor stopped */

    /* Guarded by the slot's mutex from submit on. */
    struct tw_copy *parked_next, *parked_previous;
    struct tw_copy *next_applied; /* in leg->applied */
    const char *symbol; /* the listing's, else the record's */
    struct tw_listing *listing;
    tw_decimal volume, price, stop_price, stop_loss, take_profit;
    tw_decimal filled, average_price, wanted; /* wanted: before rounding, opens */
    int64_t expires_wall_ns, call_deadline_mono_ns, updated_wall_ns;
    int64_t wake_mono_ns; /* while it parks: by the clock at the latest; 0 = by other news */
    uint64_t change_id;
    uint32_t stamp; /* as a leg's */
    char *told; /* order id, position id, message of the broker, each ended by a NUL; or NULL */
    int32_t broker_code;
    uint32_t planned_ns, journaled_ns;
    uint64_t started_ns, called_ns, answered_ns, held_ns;
    uint32_t threads_at_start, threads_created, queue_depth;
    uint32_t calls;
    uint32_t id_attempt; /* of the client order id: a close goes on for hours, and no id comes twice */
    uint32_t leg_ids[2]; /* client order ids sent so far, by order leg */
    uint32_t n_told;     /* leg->n_told when its latest order was called */
    uint32_t written_attempt; /* and the order leg below: the id that the journal has, durably */
    uint8_t lookups, absences, adapter_attempt;
    uint8_t op, side, type, action, state, phase, sizing;
    uint8_t last_op;     /* of the latest order call */
    uint8_t order_leg;   /* netting: 1 once the first of two orders is done */
    uint8_t written_leg;
    bool waits_for_journal; /* its next order has an id that the journal does not have yet */
    bool is_counted;     /* what a look-up finds is in the leg already */
    bool asks_open;      /* a cancel that found nothing: what became of the order is asked for */
    char *asks_id;       /* an order that may have done it already, in a run that is not in the log: it is asked for first */
    bool asks_own_next;  /* what is not found of that may have been sent under the copy's own id: then that is asked for */
    uint64_t asks_share; /* a reduction that found nothing: what became of the order of this leg, by number; 0 = none */
    bool is_protecting;  /* open; its stops are being placed after it */
    uint8_t tickets_done; /* changes: positions of the leg whose stops stand already */
    uint8_t cancels_lost; /* cancels in a row that found nothing to cancel */
    uint8_t lost_calls;   /* order calls that are past their deadline and still out */
    struct late_answer *late; /* what such a call brought; taken up by the next run */
    uint8_t reason, n_remarks, remarks[TW_REMARKS_MAX];
    bool is_full_close, reduces_risk;
    bool is_applied;     /* in leg->applied */
    bool is_applied_anew; /* has changed since its outcome was written down */
    atomic_bool is_refused; /* a change that is tried again: what comes for its position goes first, or takes its place */
    bool lets_by;        /* of such a change: those that were there already go before its next try */
    bool is_skipped;     /* from the start */
    bool is_change_queued, is_indexed, is_parked, has_id;
    bool is_sent_counted, is_done_counted, is_call_out, is_sampled;
    bool is_unknown_counted; /* it is one of engine->copies_unknown */
    char id[TW_COPY_ID_BYTES];
    UT_hash_handle hh; /* in history.index; the journal thread's */
};

struct tw_record {
    struct tw_engine *engine;
    struct tw_master *master;
    uint64_t number; /* rises over all masters */
    atomic_uint refs;

    /* Set by the planner, read-only once it is in the history. */
    int64_t received_mono_ns, received_wall_ns;
    uint64_t upstream_ns;
    uint8_t hash[TW_EVENT_HASH_BYTES];
    Tradewake__V1__CopyOrigin origin;
    char event_id[TW_ID_BYTES];
    char subject_id[TW_ID_BYTES]; /* the position or order, as the event names it */
    char symbol[TW_SYMBOL_BYTES];
    char trace_id[33];
    char traceparent[56]; /* for bridges; of this run alone: a start knows the trace's id, and no more */
    bool sequence_gap;
    uint64_t expected_sequence;
    tw_decimal volume; /* of the master, for an opening; 0 = it names none */
    uint8_t *packed; /* the TradeEvent as received; NULL for what the service made itself */
    size_t packed_bytes;
    uint32_t n_copies, accepted, skipped;
    atomic_uint n_planned; /* so many of the copies are there to be read; the rest is planned right now */

    atomic_uint pending_sent, pending_done;
    atomic_uint changes_queued; /* of its copies, not taken up by the journal thread yet */
    atomic_bool is_durable;
    uint64_t durable_sequence;      /* of the journal: once it is durable, the event is */
    struct tw_record *next_fresh;   /* in journal.fresh */
    pthread_mutex_t mutex; /* guards waiters */
    struct waiter *waiters;

    UT_hash_handle hh;                  /* in master->records */
    struct tw_record *older, *newer;    /* in the history; guarded by history.mutex */
    bool is_in_history;

    struct tw_copy copies[];
};

/* ---- The engine ---- */

struct tw_active_halt {
    struct tw_active_halt *next;
    char follower_id[TW_ID_BYTES], master_id[TW_ID_BYTES];
    bool everything;
    char *note;
    char by[TW_ID_BYTES]; /* who set it, or last said why; "" = nobody is asked who calls */
    int64_t since_wall_ns;
};

/* Refusals that are counted, because there were too many to write each down; and what the last one was. */
struct audit_unwritten {
    struct tw_audit_pace pace;
    uint64_t n;
    int64_t at_wall_ns;
    int32_t result;
    char who[TW_ID_BYTES], peer[128], method[128], why[160];
};

struct tw_engine {
    /* Set at start. */
    struct tw_executor *executor;
    struct tw_reactor *reactor;
    struct tw_sampler *_Atomic sampler; /* NULL until telemetry has started; what was on its way may be earlier */
    const struct tw_engine_adapter *adapters;
    struct breaker *breakers; /* of each */
    size_t n_adapters;
    uint32_t threads_lost_max;
    uint32_t unknown_calls_max; /* of a session in a row; 0 = any number */
    atomic_uint fuses_blown;    /* sessions that open nothing now */
    uint32_t copies_remembered;
    uint64_t backlog_bytes_max; /* 0 = none */
    char instance_id[17], journal_id[17];
    struct tw_journal *log;      /* NULL = nothing is kept */
    int64_t started_wall_ns, started_mono_ns;
    bool is_shadow;  /* only read into, by who makes a snapshot: there are no adapters */
    /* When the first run after the machine had lost power began; 0 = it did not. For a while, what may have been
     * sent before is asked for first. */
    int64_t power_lost_wall_ns;

    struct tw_gate_limits gate_limits; /* set at start */
    atomic_uint_fast64_t breaches[TW_BREACH_COUNT]; /* orders that the last gate did not let through */
    atomic_bool has_gate_news; /* a follower has something for gates_sweep() */
    atomic_uint_fast64_t refused[TW_LOAD_COUNT]; /* events, for load */
    atomic_int_fast64_t copies_unknown; /* that were announced so, and have not been otherwise since */

    atomic_bool is_halted; /* everything */
    atomic_bool is_memory_short; /* what is left of it is for closes */
    atomic_bool is_stopping;
    atomic_bool is_recovering; /* what was on its way is not in the lanes yet: nobody mends or plans beside it */
    atomic_bool is_quiet; /* nothing was at a broker when it stopped */
    struct tw_timer sweep; /* the reactor's */
    struct tw_task settling; /* the reactor's while is_settling */
    atomic_bool is_settling;
    atomic_uint_fast64_t next_internal, next_position, next_leg;
    atomic_uint legs_remembered; /* of closed positions */

    pthread_rwlock_t fleet_lock; /* guards the tables and counts, not what they point to */
    struct tw_master *masters;
    struct tw_slot *slots;
    struct tw_subscription *subscriptions;
    struct tw_active_halt *halts;
    struct tw_slot *retired; /* deleted, their last jobs not back yet */
    struct tw_subscription *retired_subscriptions; /* while the journal is read */
    uint32_t next_slot_number;
    uint32_t next_subscription;
    atomic_uint threads_needed;
    struct spares spares; /* for records and blocks of legs */
    atomic_uint n_followers, n_connected;
    pthread_mutex_t change_mutex; /* one change of the fleet at a time; outside every other lock */

    struct {
        /* Set at start. */
        char dir[4096];
        const struct tw_journal_disk *disk;
        uint32_t every; /* full segments of the log from one to the next; 0 = never */
        uint64_t log_bytes;
        tw_engine_snapshot_fn *make;
        void *make_context;
        pthread_t thread;
        bool is_started;
        /* Guarded by mutex. */
        pthread_mutex_t mutex;
        pthread_cond_t stopping; /* monotonic */
        bool is_stopping;
    } snapshots;

    struct {
        pthread_mutex_t mutex; /* a leaf: guards unwritten */
        struct audit_unwritten unwritten[2]; /* of known callers, of strangers */
        int64_t told_mono_ns;                /* the sweep's */
    } audit;

    struct { /* inside a master's mutex */
        pthread_mutex_t mutex;
        struct forgotten_event *ring;
        uint32_t *places; /* in the ring, by key */
        uint32_t n_max, last_place; /* set at start, as is kept_ns */
        int64_t kept_ns;
        uint32_t oldest, n;
        int64_t horizon_wall_ns; /* 0 = nothing was ever dropped */
    } forgotten;

    struct {
        pthread_mutex_t mutex;
        struct tw_record *newest, *oldest; /* numbers fall from newest to oldest */
        uint64_t n_copies, next_number;
        /* The highest number that is not in memory any more. Written under mutex. */
        atomic_uint_fast64_t forgotten_number;
    } history;
    struct tw_history *past; /* the file of what is forgotten, too; NULL = none. Set at start */
    struct taking *taking;   /* history.c: the history thread's */

    struct {
        pthread_t thread;
        _Atomic(struct tw_copy *) head; /* newest first; taken whole */
        _Atomic(struct tw_record *) fresh; /* not durable yet; newest first */
        _Atomic(struct tw_slot *) dirty;   /* legs or risk to be written; each holds a reference */
        atomic_bool is_sync_wanted;
        atomic_uint_fast64_t durable;
        atomic_uint wake;               /* futex word */
        atomic_int sleeps_until; /* an enum journal_sleep */
        atomic_bool is_stopping;
        int64_t taken_mono_ns; /* when changes were last taken; the journal thread's alone */
        bool is_started;
        uint64_t batches; /* the journal thread's: numbers changes where nothing is written */
        atomic_uint_fast64_t last_change_id, forgotten_change_id;
        atomic_uint_fast64_t posted, done; /* for catch-up */
        /* The journal thread's; others under index_mutex. */
        pthread_mutex_t index_mutex;
        struct tw_copy *index; /* by copy id */
        pthread_mutex_t feeds_mutex;
        struct tw_change_feed *feeds;
    } journal;
};

/* forgotten.c: events whose copies are forgotten; add and find under the master's mutex. */
bool forgotten_init(struct tw_engine *engine, uint32_t n_max, int64_t kept_ns);
void forgotten_add(struct tw_engine *engine, const struct tw_record *record);
/* True: ret->is_duplicate says whether it was here. False: another event had the id, or it is too old. */
bool forgotten_find(struct tw_engine *engine, const struct tw_event *event,
                    const uint8_t hash[TW_EVENT_HASH_BYTES], struct tw_submitted *ret,
                    struct tw_refusal *refusal);
void forgotten_clear(struct tw_engine *engine);
/* For a snapshot, while nobody else is at it: at most n_max from the oldest but `from` on; returns how many. */
struct state_out;
struct state_in;
uint32_t forgotten_write(const struct tw_engine *engine, uint32_t from, uint32_t n_max, struct state_out *out);
bool forgotten_read(struct tw_engine *engine, struct state_in *in);

/* messages.c */
ProtobufCMessage *message_copy(const ProtobufCMessage *message, struct tw_arena *arena /* NULL = heap */);
char *arena_print(struct tw_arena *arena, const char *format, ...) TW_PRINTF(2, 3);
Google__Protobuf__Timestamp *arena_time(struct tw_arena *arena, int64_t wall_ns);
char *arena_decimal(struct tw_arena *arena, tw_decimal value);
char *arena_text(struct tw_arena *arena, const char *text);
void *arena_alloc(void *arena, size_t size); /* for protobuf-c */
void arena_free(void *arena, void *pointer);
char *volume_text(struct tw_arena *arena, tw_decimal value); /* "" for what is not above 0 */
const char *reason_word(tw_reason reason);                   /* "TOO_OLD" */
/* A copy as a row of the history, of what state_get_copy_values() gives; its texts are the copy's own or in arena.
 * _now: of one that is alive, taking the slot's mutex. event, follower_id and subscription_id are the caller's. */
struct tw_history_copy copy_row(const struct tw_copy *copy, const char *symbol, const char *copy_id,
                                struct tw_arena *arena);
struct tw_history_copy copy_row_now(struct tw_copy *copy, const char *copy_id, struct tw_arena *arena);
struct tw_history_event record_row(const struct tw_record *record);
/* NULL: no memory. */
Tradewake__V1__Copy *row_message(const struct tw_history_copy *row, struct tw_arena *arena);

/* breaker.c. For slots whose calls block. */
bool breaker_is_open(const struct tw_slot *slot);
bool breaker_skips_opens(const struct tw_slot *slot); /* its adapter's is open, or its own probe is lost */
/* False: not now. *ret_is_probe: tell breaker_probe_back() when the call has come back in time. */
bool breaker_admits(struct tw_slot *slot, bool *ret_is_probe);
void breaker_probe_back(struct tw_slot *slot);
void breaker_lost(struct tw_slot *slot);      /* Thread: watch. */
void breaker_lost_back(struct tw_slot *slot); /* Thread: the worker whose call it was. */
void breakers_tell(struct tw_engine *engine);
/* Whether opens of the follower are held back, for its session or its adapter. Under the slot's mutex. */
bool breaker_blocks(const struct tw_slot *slot);
/* An order call was answered, and how; the broker was asked what it holds, and answered or did not. Under the slot's mutex. */
void fuse_on_call(struct tw_slot *slot, const struct tw_ack *ack);
void fuse_on_query(struct tw_slot *slot, bool is_answered);
bool fuse_asks(struct tw_slot *slot, int64_t now_mono_ns); /* it is time to ask; notes that it is done */
/* What the log is to be told of it, once; NULL = nothing. */
const char *fuse_news(struct tw_slot *slot);

/* When a call counts as lost: it was to be answered by its deadline. */
#define CALL_LOST_AFTER_NS TW_NS_PER_S

/* fleet.c */
void slot_hold(struct tw_slot *slot);
void slot_release(struct tw_slot *slot);
void subscription_hold(struct tw_subscription *subscription);
void subscription_release(struct tw_subscription *subscription);
struct tw_master *fleet_master_find(struct tw_engine *engine, const char *master_id);
struct tw_slot *fleet_slot_hold(struct tw_engine *engine, const char *follower_id);
void fleet_clear(struct tw_engine *engine);
void fleet_sweep(struct tw_engine *engine);
/* "~halt/...": the event id of what the service does by itself. */
void fleet_event_id(struct tw_engine *engine, const char *kind, char ret[TW_ID_BYTES]);
/* Drops members that follow out and hold nothing any more. Under the master's mutex. */
void master_prune(struct tw_master *master);
bool subscription_is_halted(const struct tw_subscription *subscription);

/* gate.c */
/* The last gate's word on an order that opens. Under the slot's mutex. TW_BREACH_NONE: it may go, and is to be counted
 * with this when it does. */
enum tw_breach gate_ask(struct tw_copy *copy, const struct tw_order *order, int64_t now_mono_ns, int64_t now_wall_ns,
                        struct tw_gate_order *ret);
void gate_count(struct tw_slot *slot, const struct tw_gate_order *order);
/* What workers found is told, and what they counted is written. Thread: reactor. */
void gates_sweep(struct tw_engine *engine);

/* risk.c */
/* Looks whether the account, as it is, breaches a loss limit. Under the slot's mutex. */
void risk_look(struct tw_slot *slot, int64_t now_wall_ns);
/* Lifts a stop-out whose period is over. Under the slot's mutex. */
void risk_expire(struct tw_slot *slot, int64_t now_wall_ns);
void risk_reset(struct tw_slot *slot, int64_t now_wall_ns);

/* session.c: what a broker tells */
void session_host_init(struct tw_slot *slot, struct tw_session_host *ret);

/* sequencer.c */
/* Whether there is room for what may wait: what is left of a full disk is kept for closes. */
bool engine_check_room(const struct tw_engine *engine, struct tw_refusal *refusal);
/* What the next event of this master will take is kept ready. Thread: any. */
void master_events_expect(struct tw_master *master, uint32_t n_members);
struct tw_record *record_new(struct tw_master *master, const char *event_id, uint32_t n_copies);
void record_enter(struct tw_record *record);
struct tw_position *position_find(struct tw_master *master, const char *id);
bool position_side(const struct tw_position *position, enum tw_side *ret); /* the side the master holds; false: no share tells */
struct tw_position *order_find(struct tw_master *master, const char *id);
void view_fill(const struct tw_master *master, const struct tw_subscription *subscription,
               struct tw_follower_view *ret);
void view_of_leg(struct tw_follower_view *view, const struct tw_leg *leg);
struct tw_record *sequencer_reopen(struct tw_position *position, const struct tw_event *event);
/* A snapshot taken up. Guarded by the master's mutex. */
struct sync {
    struct sync *next; /* older */
    char id[TW_ID_BYTES];
    uint8_t hash[TW_EVENT_HASH_BYTES];
    uint32_t closes, reductions, opens, cancels, unchanged;
};
void sync_remember(struct tw_master *master, const struct sync *counts);
void syncs_clear(struct tw_master *master); /* sync.c */
/* The power was lost not long ago: events may come again that the broker has, and the log has not. What it shows of a
 * sum of shares says little until then. */
bool may_miss_events(const struct tw_engine *engine, int64_t now_wall_ns);
bool sequencer_run(struct tw_master *master, const struct tw_event *event, struct tw_record *record);
/* Plans an event on whose planning a crash cut short, the last one of its master: for the followers that
 * are in no plan. n_wanted: copies in all. False: some are without one still. Under the master's mutex. */
bool sequencer_complete(struct tw_record *record, uint32_t n_wanted);
uint64_t leg_key(const struct tw_leg *leg);
void position_remember(struct tw_position *position);
void position_hash(struct tw_position *position, bool is_order);
void position_unhash(struct tw_position *position);
struct tw_leg_block *leg_block_new(struct tw_position *position, uint32_t n_legs_max);
struct tw_leg *position_leg(struct tw_position *position, const struct tw_slot *slot);
void position_finish(struct tw_position *position);
void position_free(struct tw_position *position);
/* Closes what the followers (slot NULL = all) hold of one position, as one record with this event id.
 * NULL: there was nothing to close. Owns: the caller, a reference. Under the master's mutex. */
struct tw_record *sequencer_close_legs(struct tw_master *master, struct tw_position *position,
                                       const struct tw_slot *slot, Tradewake__V1__CopyOrigin origin,
                                       const char *event_id);
/* A close that repairs a close that came before its open asks for that one's order first: a crash in between does not
 * take the question along. At recovery, under nobody's lock, for a copy that is about to ask for its own order. */
void sequencer_ask_again(struct tw_copy *copy);
/* Reduces what one follower holds of it to what the master has left of it; otherwise the same. */
struct tw_record *sequencer_reduce_leg(struct tw_master *master, struct tw_position *position,
                                       const struct tw_slot *slot, const char *event_id);

/* Closes and cancels what the follower (NULL = all) holds of this master, positions and orders, as one
 * event; returns how many copies that takes. Under the master's mutex. */
uint32_t master_close_legs(struct tw_master *master, const struct tw_slot *slot,
                           Tradewake__V1__CopyOrigin origin, const char *event_id);

/* settle.c: what the master reduced while the order of a follower waited. Under the slot's mutex; then, without it,
 * settle_begin(). */
void leg_unsettle(struct tw_leg *leg);
void settle_begin(struct tw_slot *slot);
/* Thread: reactor. */
void settle_all(struct tw_engine *engine);

/* copy.c and what belongs to it: copy_*.c, leg.c, net.c, announce.c; what these share with each other is in copy.h */
void copy_init(struct tw_copy *copy, struct tw_record *record, struct tw_subscription *subscription);
void copy_plan_set(struct tw_copy *copy, const struct tw_plan *plan);
void copy_ready(struct tw_copy *copy, struct tw_leg *leg, bool reduces_risk);
/* It may have been sent before: the broker is asked before anything is. */
void copy_ask_first(struct tw_copy *copy);
/* What this copy is to do may have been done by the order of another one: that is asked for first. */
void copy_ask_for(struct tw_copy *copy, const char *client_order_id);
void copy_end_unsent(struct tw_copy *copy, copy_state state, tw_reason reason);
void copy_announce(struct tw_copy *copy);
void record_wake(struct tw_record *record);
/* The client order id of an attempt, and the copy's own; from what never changes: no lock. */
struct tw_copy_id_input copy_id_input(const struct tw_copy *copy);
void copy_order_id(const struct tw_copy *copy, uint32_t leg, uint32_t attempt,
                   char ret[TW_COPY_ID_BYTES]);
void copy_id_make(const struct tw_copy *copy, char ret[TW_COPY_ID_BYTES]);
void copy_wake_parked(struct tw_slot *slot);
/* A full close of the leg is about to be planned: a change of it that is tried again and would be before it is withdrawn.
 * Without the slot's mutex. */
void copy_refused_withdraw(struct tw_leg *leg);
/* What was submitted for this key goes before changes that are tried again. The same. */
void copy_refused_step_back(struct tw_slot *slot, uint64_t key);
/* What the copy did is in its leg, and neither is in the log: from now on the leg is written with it. And: its outcome is in
 * the log. Under the slot's mutex. */
void applied_note(struct tw_copy *copy);
void applied_forget(struct tw_copy *copy);
/* The journal has it, durably, with the id of this order leg and attempt. Thread: journal. */
void copy_written(struct tw_copy *copy, uint8_t order_leg, uint32_t id_attempt);
/* Whether the order that opens, or opened, the leg has this client order id. */
bool leg_is_of(const struct tw_leg *leg, const char *client_order_id);
/* Its order at the broker filled: what it became. Under the slot's mutex. */
void leg_filled(struct tw_leg *leg, tw_decimal volume, const char *position_id);
/* The leg whose order, with this client order id, waits at the broker as far as we know. Under the slot's mutex. */
struct tw_leg *leg_of_order(const struct tw_slot *slot, const char *client_order_id);
/* What the broker says of that order when asked for it. False: nothing that can be relied on. The same. */
bool leg_order_asked(struct tw_leg *leg, const struct tw_ack *ack);
/* What is ours of a symbol at a netting account; below 0 = short. Under the slot's mutex. */
tw_decimal slot_net(const struct tw_slot *slot, const struct tw_listing *listing);
/* Where the stops of a change are to stand, UNSET = as they are. False: they cannot be the position's, because this
 * share is not on the side that a netting account is on. Under the slot's mutex. */
bool leg_stops_decide(const struct tw_leg *leg, const struct tw_copy *change, tw_decimal *ret_stop_loss,
                      tw_decimal *ret_take_profit);
void leg_own_stops(struct tw_leg *leg, const struct tw_copy *copy);
/* Under the slot's mutex: nothing is left of it; so much is left of what it held. */
void leg_close(struct tw_leg *leg);
/* Something of it comes to be although it was taken for closed: reserves so much again. */
void leg_reopen(struct tw_leg *leg, tw_decimal volume);
void leg_reduce(struct tw_leg *leg, tw_decimal volume);
bool leg_has_ticket(const struct tw_leg *leg, const char *ticket);
/* The broker says how much is left under one of its tickets; renamed: under which one now. */
void leg_ticket_reduce(struct tw_leg *leg, const char *ticket, tw_decimal volume);
/* What is left under this ticket has another one now. */
void leg_ticket_rename(struct tw_leg *leg, const char *from, const char *to);
void leg_tickets_clear(struct tw_leg *leg);
const char *copy_action_word(copy_action action);

enum { SEQUENCES_AHEAD_MAX = 1024, BATCH_PLACES = 65536 };

/* Everything that a position, leg or copy needs to be written: see journal.c's callers. */
struct state_out;
uint64_t log_append(struct tw_engine *engine, uint16_t type, struct state_out *out);
/* Waits until the journal has made it durable. Thread: rpc, without any lock but change_mutex. */
void log_await(struct tw_engine *engine, uint64_t sequence);
/* Under the slot's mutex: the leg changed without a copy. After the mutex: push what was marked. */
void leg_dirty(struct tw_leg *leg);
void slot_dirty_push(struct tw_slot *slot);
/* Somebody waits for what is in the lists to be durable. */
void changes_hurry(struct tw_engine *engine);
/* The event is durable once the journal is at durable_sequence; takes a reference. */
void record_await_durable(struct tw_record *record);

/* recover.c */
void recover_seal(struct tw_engine *engine);
struct tw_slot *slot_new(struct tw_engine *engine, const Tradewake__V1__Follower *message, uint32_t number);
struct tw_subscription *subscription_new(struct tw_engine *engine, struct tw_master *master,
                                         struct tw_slot *slot, uint32_t number, const char *id);
bool copy_is_over(const struct tw_copy *copy);
struct tw_copy *copy_of_job(struct tw_job *job);
void history_link(struct tw_engine *engine, struct tw_record *record);
void history_unlink(struct tw_engine *engine, struct tw_record *record);
void record_copies_trim(struct tw_record *record);
tw_status recover(struct tw_engine *engine, const struct tw_engine_options *options, struct tw_error *error);
/* An engine that is only read into; its positions are freed before it: tw_engine_stop(). */
struct tw_engine *engine_shadow_new(const struct tw_engine_snapshot_wanted *wanted);
bool slot_start(struct tw_slot *slot, struct tw_refusal *refusal); /* fleet.c: session and lane */
struct tw_master *master_find_or_add(struct tw_engine *engine, const char *id);
bool member_add(struct tw_master *master, struct tw_subscription *subscription);
void member_remove(struct tw_master *master, struct tw_subscription *subscription);
void halt_flags_set(struct tw_engine *engine, const struct tw_active_halt *halt);
bool halt_covers(const struct tw_engine *engine, const char *follower_id, const char *master_id);
/* compare.c: asks the broker for everything and mends what we believe. */
void reconcile_begin(struct tw_slot *slot);

/* audit.c: writes down how many refusals were not. Thread: reactor; is_last: main, in the end. */
void audit_tell(struct tw_engine *engine, bool is_last);

/* snapshots.c: when one is made, and what of the log may go then */
tw_status snapshots_start(struct tw_engine *engine, const struct tw_engine_options *options,
                          struct tw_error *error);
void snapshots_stop(struct tw_engine *engine);

/* history.c */
/* The history has taken up the log up to this sequence, over a power cut too: no segment with a later one
 * may be removed. UINT64_MAX: there is none that reads the log. Thread: any. */
uint64_t history_taken(const struct tw_engine *engine);
/* After recover(). A history that cannot be opened is no failure. */
tw_status history_start(struct tw_engine *engine, const struct tw_engine_options *options, struct tw_error *error);
void history_stop(struct tw_engine *engine);
/* Thread: journal. The log is durable as far as it says by now. */
void history_news(struct tw_engine *engine);

/* changes.c */
void index_add(struct tw_engine *engine, struct tw_copy *copy);
/* One turn: everything there is to do now. Thread: journal. */
void changes_turn(struct tw_engine *engine);
bool changes_pending(struct tw_engine *engine);
/* Under the slot's mutex, or before submit: marks it; after the mutex: pushes what was marked. */
bool change_mark(struct tw_copy *copy);
void change_push(struct tw_copy *copy);
void record_free(struct tw_record *record);

/* changes_thread.c: who makes the turns, and when. */
tw_status changes_start(struct tw_engine *engine, struct tw_error *error);
void changes_stop(struct tw_engine *engine);
/* There is something to do. is_urgent: an answer waits for the disk. */
void changes_wake(struct tw_engine *engine, bool is_urgent);
/* Whether the journal's disk was full when it was last asked. */
bool is_disk_full(const struct tw_engine *engine);
bool is_durable_until(const struct tw_engine *engine, uint64_t sequence);

#endif
