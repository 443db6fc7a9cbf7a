/* engine.h - from one event of a master to one order at every follower.
 *
 *   rpc thread                                   worker (or reactor)            journal thread
 *   tw_engine_submit():                          gate -> call -> answer         change ids, index,
 *     one mutex per master over dedupe,   job     applied under the slot's       watchers, eviction
 *     sequence, plan, append, submit    ------->  lock, then the key is  ------>
 *     (chunks of 256 followers)                   released            changes
 *
 * A record is one event with its copies, one per subscribed follower, in one block: it is counted,
 * and lives until nobody needs it and `copies_remembered` later ones have pushed it out.
 *
 * Locks, outermost first: master -> fleet -> slot; never two of a kind. Under a slot's lock no I/O, no
 * call into an adapter and no wait. What a copy is (state, fills, times) is guarded by its slot. */
#ifndef TW_ENGINE_ENGINE_H
#define TW_ENGINE_ENGINE_H

#include <tradewake/adapters/adapter.h>
#include <tradewake/base/arena.h>
#include <tradewake/core/event.h>
#include <tradewake/core/last_gate.h>
#include <tradewake/executor/executor.h>
#include <tradewake/executor/reactor.h>
#include <tradewake/journal/history.h>
#include <tradewake/wire/refusal.h>

#include <tradewake/v1/copies.pb-c.h>
#include <tradewake/v1/events.pb-c.h>
#include <tradewake/v1/followers.pb-c.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tw_engine;
struct tw_record;
struct tw_copy;
struct tw_sampler;
struct tw_sample_subject_ops;
struct tw_journal_disk;

/* A snapshot of the journal in dir, as it is at the end of a segment, which is full. */
struct tw_engine_snapshot_wanted {
    const char *dir;
    uint32_t until;
    uint32_t copies_remembered, events_remembered; /* as in the options of the engine that will read it */
    int64_t events_kept_ns;
    const struct tw_journal_disk *disk; /* NULL = the real one */
};

/* Makes it: tw_engine_snapshot(), here or in a process of its own. should_stop(stop) true: there is no time any
 * more; then TW_CANCELLED. Thread: snapshots. */
typedef tw_status tw_engine_snapshot_fn(void *context, const struct tw_engine_snapshot_wanted *wanted,
                                        bool (*should_stop)(void *stop), void *stop, struct tw_error *error);

struct tw_engine_options {
    struct tw_executor *executor;
    struct tw_reactor *reactor;
    struct tw_sampler *sampler;  /* may be set later, before the first event: tw_engine_sampler_set() */
    /* Adapters by name; opened and closed by whoever made them, after the engine is stopped. */
    struct tw_engine_adapter {
        const struct tw_adapter_ops *ops;
        void *adapter;
    } const *adapters;
    size_t n_adapters;
    uint32_t threads_lost_max; /* of an adapter, then its breaker opens; 0 = TW_THREADS_LOST_MAX_DEFAULT */
    uint32_t unknown_calls_max; /* of a follower's order calls in a row, then its breaker opens; 0 = never */
    struct tw_gate_limits gate_limits; /* of the last gate, of every follower; 0 = none */
    uint32_t copies_remembered;
    uint64_t backlog_bytes_max; /* of copies that wait for the disk: beyond it no more opens; 0 = any number */
    uint32_t events_remembered; /* ids of events whose copies are forgotten: at most so many, at least 1, */
    int64_t events_kept_ns;     /* and for so long */
    const char *journal_dir; /* NULL = nothing is kept */
    bool journal_syncs;      /* false: for measuring only */
    uint32_t snapshot_segments; /* a snapshot after so many full segments; 0 = never */
    uint64_t log_bytes;      /* so much of the log is kept that a start does not need any more */
    tw_engine_snapshot_fn *snapshot; /* NULL = on the thread that wants it, with its memory */
    void *snapshot_context;
    const char *history_path; /* the SQLite file of every copy there was; NULL = none */
    int64_t history_keep_ns;
    int64_t audit_keep_ns; /* so long who changed what can be asked for; 0 = for ever */

    /* For tests; zero = the real ones. */
    const struct tw_journal_disk *journal_disk;
    uint64_t journal_segment_bytes;
    const char *boot_id; /* of the machine: another one than the log's means that the power was gone */
};

TW_MUST_CHECK tw_status tw_engine_start(const struct tw_engine_options *options,
                                        struct tw_engine **ret_engine, struct tw_error *error);

/* No more work of its own on the reactor; call it before the reactor is stopped. Thread: main. */
void tw_engine_quiesce(struct tw_engine *engine);

/* No call is at a broker: the log may end as a clean stop. Before tw_engine_stop(). Thread: main. */
void tw_engine_quiet(struct tw_engine *engine);

/* Closes the sessions and frees. No call comes in any more; executor and reactor have been stopped. */
void tw_engine_stop(struct tw_engine *engine);

/* The same when calls are lost and still out: the log is closed, everything that they may touch stays.
 * The process has to end. */
void tw_engine_abandon(struct tw_engine *engine);

/* Reads the log up to the end of the segment, which is full, and writes down what is to be remembered of it
 * (snapshot.h of the journal). Needs the memory of a second engine for so long.
 * Thread: any, also beside a server, and in a process of its own. */
TW_MUST_CHECK tw_status tw_engine_snapshot(const struct tw_engine_snapshot_wanted *wanted, uint64_t *ret_bytes,
                                           struct tw_error *error);

void tw_engine_sampler_set(struct tw_engine *engine, struct tw_sampler *sampler);
const struct tw_sample_subject_ops *tw_engine_subject_ops(void);

/* Random, new at every start; and of the state: both 16 hex digits. */
const char *tw_engine_instance_id(const struct tw_engine *engine);
const char *tw_engine_journal_id(const struct tw_engine *engine);

/* ---- Events ---- */

struct tw_submission {
    const struct tw_event *event;
    const Tradewake__V1__TradeEvent *message; /* kept as received, for GetEvent */
    int64_t received_mono_ns, received_wall_ns;
    const char *trace_id;    /* 32 hex digits, or "" */
    const char *traceparent; /* what it was read from, "00-..." of 55 characters; NULL or "" = none */
};

struct tw_submitted {
    struct tw_record *record; /* a reference of the caller's: tw_record_release(). NULL: a duplicate whose
                               * copies are forgotten; what is left of it is below */
    int64_t forgotten_received_wall_ns;
    uint32_t forgotten_accepted, forgotten_skipped;
    bool is_duplicate;
    bool sequence_gap;
    uint64_t expected_sequence; /* 0 = not numbered */
};

/* Plans the event and hands every order to the executor. False: *refusal, and nothing was changed.
 * Thread: rpc.  Blocks: for the master's lock. */
bool tw_engine_submit(struct tw_engine *engine, const struct tw_submission *submission,
                      struct tw_submitted *ret, struct tw_refusal *refusal);

void tw_record_hold(struct tw_record *record);
void tw_record_release(struct tw_record *record);

/* Finds what became of an event; NULL when it is not remembered. Owns: the caller, a reference. */
struct tw_record *tw_engine_record_find(struct tw_engine *engine, const char *master_id,
                                        const char *event_id);

int64_t tw_record_received_wall_ns(const struct tw_record *record);
const char *tw_record_event_id(const struct tw_record *record);
size_t tw_record_copy_count(const struct tw_record *record);
struct tw_copy *tw_record_copy(struct tw_record *record, size_t index);

/* The event as it was received, unpacked into arena. NULL: no memory. */
Tradewake__V1__TradeEvent *tw_record_event(const struct tw_record *record, struct tw_arena *arena);

enum tw_wait { TW_WAIT_ACCEPTED, TW_WAIT_SENT, TW_WAIT_DONE };

/* Copies that are not as far yet; 0 = all are. Thread: any. */
uint32_t tw_record_pending(const struct tw_record *record, enum tw_wait wait);

/* wake(context) is called exactly once, soon after tw_record_pending() became 0 (at once when it is).
 * Thread: any; wake: any, it does not block. False: no memory, wake is not called. */
TW_MUST_CHECK bool tw_record_wait(struct tw_record *record, enum tw_wait wait,
                                  void (*wake)(void *context), void *context);

/* How copies of an answer are counted: accepted + skipped = subscribed. */
struct tw_record_counts {
    uint32_t accepted, skipped;
};
struct tw_record_counts tw_record_counts_get(const struct tw_record *record);

/* ---- Copies, as messages in arena; NULL: no memory. They take the slot's lock. Thread: any. ---- */

Tradewake__V1__Copy *tw_copy_message(struct tw_copy *copy, struct tw_arena *arena);
Tradewake__V1__CopySummary *tw_copy_summary(struct tw_copy *copy, struct tw_arena *arena);
/* Whether it was a rule's no from the start: nothing was handed to the executor. */
bool tw_copy_was_skipped(struct tw_copy *copy);
/* State and reason of one reading. */
void tw_copy_state(struct tw_copy *copy, Tradewake__V1__CopyState *ret_state, tw_reason *ret_reason);

/* Waits until every change made before the call has its change_id and is in the index, at most 1 s.
 * False: HISTORY_BEHIND. Thread: any but journal. */
bool tw_engine_catch_up(struct tw_engine *engine);

/* The copy and, with it, a reference to its record; NULL when unknown. */
struct tw_copy *tw_engine_copy_find(struct tw_engine *engine, const char *copy_id,
                                    struct tw_record **ret_record);

/* An operator's word on a copy that is UNKNOWN; its call is ResolveCopy. Applied and handed to the journal when it
 * returns: tw_engine_catch_up() waits until it is durable. Also true when it is the word that ended the copy before.
 * Thread: rpc. */
bool tw_engine_copy_resolve(struct tw_engine *engine, struct tw_copy *copy,
                            const Tradewake__V1__ResolveCopyRequest *request, struct tw_refusal *refusal);

/* A filter as CopyService has it; strings "" and empty lists match all. */
struct tw_copy_filter {
    const char *master_id, *follower_id, *event_id, *subject_id;
    const Tradewake__V1__CopyState *states;
    const tw_reason *reasons;
    const Tradewake__V1__CopyAction *actions;
    size_t n_states, n_reasons, n_actions;
    int64_t received_from_wall_ns, received_until_wall_ns; /* INT64_MIN, INT64_MAX = any */
};
bool tw_copy_matches(struct tw_copy *copy, const struct tw_copy_filter *filter);

/* A place in the history, newest first: {UINT64_MAX, 0} is before the newest. */
struct tw_copy_cursor {
    uint64_t record_number;
    uint32_t index;
};

/* The next copies after *cursor that match, at most n_max; each with a reference to its record (give
 * it back with tw_copy_release()). *cursor moves behind the last one. Fewer than n_max: that was all. */
size_t tw_engine_copies_list(struct tw_engine *engine, const struct tw_copy_filter *filter,
                             struct tw_copy_cursor *cursor, struct tw_copy **ret, size_t n_max);
void tw_copy_hold(struct tw_copy *copy);
void tw_copy_release(struct tw_copy *copy);
uint64_t tw_copy_own_time_ns(struct tw_copy *copy);
uint64_t tw_copy_change_id(struct tw_copy *copy);
bool tw_copy_is_terminal(struct tw_copy *copy);
int64_t tw_copy_received_wall_ns(const struct tw_copy *copy);
uint64_t tw_copy_place(const struct tw_copy *copy); /* as the history has it: falls from newest to oldest */

/* ---- The past: what is not in memory any more is asked of the history ---- */

/* Events up to this number may be in the past alone; 0 = none is, or there is no history to ask. Look after
 * memory has been looked at, not before. Thread: any. */
uint64_t tw_engine_past_number(const struct tw_engine *engine);

enum tw_past_kind { TW_PAST_COPY, TW_PAST_LIST, TW_PAST_CHANGES, TW_PAST_EVENT };

/* One question. What memory knows is left out of lists: memory's word is newer. */
struct tw_past {
    /* Set by the asker; what it points to stays until done() is called. */
    enum tw_past_kind kind;
    struct tw_arena *arena; /* for the answer */
    const char *copy_id;                    /* COPY */
    const char *master_id, *event_id;       /* EVENT */
    const struct tw_copy_filter *filter;    /* LIST, CHANGES */
    size_t n_max;                           /* LIST, CHANGES */
    bool is_slowest_first;                  /* LIST */
    uint64_t place, called_ns;              /* LIST: what follows these; UINT64_MAX: from the start */
    uint64_t place_min;                     /* LIST, newest first: nothing below */
    uint64_t after, until;                  /* CHANGES: change ids above, up to */
    /* Thread: history, or the asker's. Does not block. */
    void (*done)(struct tw_past *past);
    void *context;

    /* The answer. */
    bool is_behind; /* the history has not come so far yet, or cannot be read: HISTORY_BEHIND */
    Tradewake__V1__Copy **copies; /* COPY, LIST, CHANGES */
    uint64_t *places;
    size_t n;
    bool is_unfinished; /* LIST: there may be more behind place (and called_ns), which have moved */
    uint64_t last;      /* CHANGES: looked at up to this change id */
    Tradewake__V1__TradeEvent *event; /* EVENT; NULL = there is none */
    int64_t event_received_wall_ns;
    struct tw_history_count *counts;
    size_t n_counts;

    /* The engine's. */
    struct tw_engine *engine;
    struct tw_history_question question;
};

/* done() is called exactly once, at the latest after a second. Thread: any.  Blocks: no. */
void tw_engine_past_ask(struct tw_engine *engine, struct tw_past *past);

/* Changes up to this one may be neither in memory nor in the past. */
uint64_t tw_engine_lost_change_id(const struct tw_engine *engine);

/* While it is short, opens are refused: what is left of the memory is for closes. Thread: any. */
void tw_engine_memory_short_set(struct tw_engine *engine, bool is_short);

/* About how much memory copies take that cannot be forgotten because the journal has not written them, durably. Thread: any. */
uint64_t tw_engine_backlog_bytes(const struct tw_engine *engine);

/* How the history is doing; false: there is none. Thread: any. */
bool tw_engine_history_status(const struct tw_engine *engine, struct tw_history_status *ret);

/* ---- Changes ---- */

struct tw_change_feed;

/* A feed of copies that changed, from now on. notify(context) after something was added to an empty
 * feed. Thread: any; notify: journal, does not block. NULL: no memory. */
struct tw_change_feed *tw_engine_feed_open(struct tw_engine *engine, void (*notify)(void *context),
                                           void *context);
void tw_engine_feed_close(struct tw_change_feed *feed);

/* One change on its way to a watcher: the copy may have changed again since, and then comes again. */
struct tw_change {
    struct tw_copy *copy; /* with a reference to its record */
    uint64_t change_id;
};

/* Takes up to n_max, oldest first; give each copy back with tw_copy_release(). *ret_dropped: how many
 * were left out since the last call because the feed was full. Thread: one. */
size_t tw_change_feed_take(struct tw_change_feed *feed, struct tw_change *ret, size_t n_max,
                           uint64_t *ret_dropped);
size_t tw_change_feed_count(struct tw_change_feed *feed);

uint64_t tw_engine_last_change_id(struct tw_engine *engine);
/* Changes up to this one may have been forgotten. */
uint64_t tw_engine_forgotten_change_id(struct tw_engine *engine);

/* ---- Masters ---- */

/* False with MASTER_NOT_FOUND. Strings of *ret are in arena. */
bool tw_engine_master_get(struct tw_engine *engine, const char *master_id, struct tw_arena *arena,
                          Tradewake__V1__Master *ret, struct tw_refusal *refusal);
/* Ids in ascending order, those after `after`; in arena. Returns how many, at most n_max. */
size_t tw_engine_masters_list(struct tw_engine *engine, const char *after, struct tw_arena *arena,
                              const char **ret_ids, size_t n_max);

/* ---- The fleet: messages as FollowerService has them; answers in arena. ---- */

typedef Tradewake__V1__Follower tw_follower_message;
typedef Tradewake__V1__Subscription tw_subscription_message;

bool tw_engine_follower_create(struct tw_engine *engine, const Tradewake__V1__Follower *wanted,
                               const char *request_id, struct tw_arena *arena,
                               Tradewake__V1__Follower **ret, struct tw_refusal *refusal);
bool tw_engine_follower_get(struct tw_engine *engine, const char *follower_id, struct tw_arena *arena,
                            Tradewake__V1__Follower **ret, struct tw_refusal *refusal);
bool tw_engine_follower_update(struct tw_engine *engine, const Tradewake__V1__Follower *wanted,
                               char *const *paths, size_t n_paths, struct tw_arena *arena,
                               Tradewake__V1__Follower **ret, struct tw_refusal *refusal);
bool tw_engine_follower_delete(struct tw_engine *engine, const char *follower_id,
                               Tradewake__V1__OnOpen on_open, uint32_t *ret_closing,
                               struct tw_refusal *refusal);
/* Ascending by id, those after `after`; master_id "" = all. */
size_t tw_engine_followers_list(struct tw_engine *engine, const char *after, const char *master_id,
                                bool only_blocked, struct tw_arena *arena,
                                Tradewake__V1__Follower **ret, size_t n_max);

bool tw_engine_subscription_create(struct tw_engine *engine, const Tradewake__V1__Subscription *wanted,
                                   const char *request_id, struct tw_arena *arena,
                                   Tradewake__V1__Subscription **ret, struct tw_refusal *refusal);
bool tw_engine_subscription_get(struct tw_engine *engine, const char *subscription_id,
                                struct tw_arena *arena, Tradewake__V1__Subscription **ret,
                                struct tw_refusal *refusal);
bool tw_engine_subscription_update(struct tw_engine *engine, const Tradewake__V1__Subscription *wanted,
                                   char *const *paths, size_t n_paths, struct tw_arena *arena,
                                   Tradewake__V1__Subscription **ret, struct tw_refusal *refusal);
bool tw_engine_subscription_delete(struct tw_engine *engine, const char *subscription_id,
                                   Tradewake__V1__OnOpen on_open, uint32_t *ret_closing,
                                   struct tw_refusal *refusal);
size_t tw_engine_subscriptions_list(struct tw_engine *engine, const char *after, const char *master_id,
                                    const char *follower_id, struct tw_arena *arena,
                                    Tradewake__V1__Subscription **ret, size_t n_max);

/* by: whose halt it is; "" = nobody is asked who calls. */
bool tw_engine_halt(struct tw_engine *engine, const Tradewake__V1__HaltRequest *request, const char *by,
                    struct tw_arena *arena, Tradewake__V1__HaltResponse *ret,
                    struct tw_refusal *refusal);
bool tw_engine_resume(struct tw_engine *engine, const Tradewake__V1__ResumeRequest *request,
                      struct tw_refusal *refusal);
size_t tw_engine_halts_list(struct tw_engine *engine, struct tw_arena *arena,
                            Tradewake__V1__ActiveHalt **ret, size_t n_max);

/* A complete picture of what the master holds. */
bool tw_engine_sync(struct tw_engine *engine, const Tradewake__V1__SyncMasterRequest *request,
                    int64_t received_mono_ns, int64_t received_wall_ns, struct tw_arena *arena,
                    Tradewake__V1__SyncMasterResponse *ret, struct tw_refusal *refusal);

/* What the event would do, rule by rule, at one follower or ("") at all of them after `after` in the
 * master's order; at most n_max. Nothing is carried out. */
bool tw_engine_explain(struct tw_engine *engine, const struct tw_event *event, const char *follower_id,
                       const char *after, struct tw_arena *arena, Tradewake__V1__Explanation **ret,
                       size_t n_max, size_t *ret_n, struct tw_refusal *refusal);

bool tw_engine_stop_out_reset(struct tw_engine *engine, const char *follower_id, struct tw_arena *arena,
                              Tradewake__V1__Follower **ret, struct tw_refusal *refusal);

/* Arms the follower's last gate again. Written down soon after: what a crash takes back leaves it tripped. */
bool tw_engine_gate_rearm(struct tw_engine *engine, const char *follower_id, struct tw_arena *arena,
                          Tradewake__V1__Follower **ret, struct tw_refusal *refusal);
/* Orders that the last gate did not let through. Thread: any. */
uint64_t tw_engine_breaches(const struct tw_engine *engine, enum tw_breach breach);

/* Breakers that are open now: of adapters, or of followers' sessions. Thread: any. */
uint32_t tw_engine_breakers_open(const struct tw_engine *engine, bool of_adapters);

/* Copies that are UNKNOWN now. Those of an earlier run count once they have been looked up in vain. Thread: any. */
uint64_t tw_engine_copies_unknown(const struct tw_engine *engine);

/* Events that were refused for load, by what was short: nothing was written or sent. Thread: any. */
enum tw_load { TW_LOAD_QUEUE, TW_LOAD_BACKLOG, TW_LOAD_DISK, TW_LOAD_MEMORY, TW_LOAD_COUNT };
uint64_t tw_engine_refused(const struct tw_engine *engine, enum tw_load load);

/* Asks the broker and compares. Runs on the follower's lane: done(context) is called from a worker or
 * the reactor when *ret (in arena) or *refusal is there. False: refused at once, done is not called. */
struct tw_comparison {
    struct tw_arena *arena;
    Tradewake__V1__CompareFollowerResponse *ret;
    struct tw_refusal refusal;
    void (*done)(struct tw_comparison *comparison);
    void *context;
};
bool tw_engine_follower_compare(struct tw_engine *engine, const char *follower_id,
                                struct tw_comparison *comparison);

struct tw_fleet_counts {
    uint32_t followers, connected;
    uint32_t threads_needed; /* sum of max_parallel over blocking followers */
};
struct tw_fleet_counts tw_engine_fleet_counts(struct tw_engine *engine);

#endif
