/* history.h - every copy, and every change of it, in a SQLite file that users may open too.
 *
 *   journal thread --tw_history_news()--> history thread: reads the log up to what is durable,
 *                                         takes it up in transactions, answers questions, deletes
 *                                         what is too old
 *   any thread --------tw_history_ask()--> [questions] --run(reader)--> the asker's own callback
 *
 * What a record of the log means is not known here: take() is told the record and puts what it says.
 * The file follows the log and is never ahead of what is durable; each transaction ends with the
 * sequence up to which it has come, so that nothing is lost or doubled whenever it is cut short. A file that
 * is missing, of another schema, of another log, or damaged is made anew from the log that is there.
 *
 * Whatever fails here is said in the log and tried again; nobody but who asks about old copies waits
 * for it. */
#ifndef TW_JOURNAL_HISTORY_H
#define TW_JOURNAL_HISTORY_H

#include <tradewake/base/decimal.h>
#include <tradewake/base/limits.h>
#include <tradewake/base/status.h>
#include <tradewake/journal/follow.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tw_history;
struct tw_history_file; /* what take() puts into and questions read from; the history thread's */

/* ---- What is kept. Texts are never NULL; those that come out are valid until the callback returns. ---- */

struct tw_history_event {
    uint64_t number; /* rises over all masters */
    const char *event_id, *master_id, *subject_id, *symbol, *trace_id;
    int32_t origin;
    tw_decimal volume; /* the master's; UNSET or 0 where it names none */
    int64_t received_ns;
    uint64_t upstream_ns;
    const uint8_t *packed; /* as received; NULL for what the service made itself */
    size_t packed_size;
};

/* A place is the event's number x 65536 + the index of the copy in it: newest first is falling places. */
#define TW_HISTORY_PLACES 65536u

struct tw_history_copy {
    uint64_t place, change_id;
    const struct tw_history_event *event; /* out: without packed. In: only its number is looked at */
    uint32_t subscription;                /* in: its number; out: 0 */
    const char *follower_id, *subscription_id; /* out */
    const char *copy_id;
    int32_t action, state, reason, side, type;
    const char *remarks; /* "CLAMPED_MAX,UNPROTECTED" */
    const char *symbol;
    tw_decimal volume, price, stop_loss, take_profit, filled, average_price;
    const char *broker_order_id, *broker_position_id, *broker_message, *message;
    int32_t broker_code;
    uint32_t attempts;
    uint32_t order_ids[2]; /* client order ids sent so far, by order leg */
    uint64_t planned_ns, journaled_ns, started_ns, called_ns, answered_ns, held_ns;
    int64_t updated_ns;
};

/* Thread: history, inside take(). Fails: what SQLite says; pass it on. */
TW_MUST_CHECK tw_status tw_history_put_follower(struct tw_history_file *file, uint32_t number, const char *id,
                                                struct tw_error *error);
TW_MUST_CHECK tw_status tw_history_put_subscription(struct tw_history_file *file, uint32_t number, const char *id,
                                                    uint32_t follower, struct tw_error *error);
TW_MUST_CHECK tw_status tw_history_put_event(struct tw_history_file *file, const struct tw_history_event *event,
                                             struct tw_error *error);
/* The copy as it is now, and one change. TW_NOT_FOUND: its event or subscription is not in the file. */
TW_MUST_CHECK tw_status tw_history_put_copy(struct tw_history_file *file, const struct tw_history_copy *copy,
                                            struct tw_error *error);

/* What an event or subscription that is in the file is called; TW_NOT_FOUND. Valid until the next call. */
TW_MUST_CHECK tw_status tw_history_event_of(struct tw_history_file *file, uint64_t number,
                                            const struct tw_history_event **ret, struct tw_error *error);
TW_MUST_CHECK tw_status tw_history_subscription_of(struct tw_history_file *file, uint32_t number,
                                                   const char **ret_follower_id, struct tw_error *error);

/* Who changed what, or was refused. Texts are never NULL. */
struct tw_history_audit {
    uint64_t sequence; /* of the log */
    int64_t at_ns;
    const char *who, *peer, *method, *master_id, *follower_id, *object_id;
    const char *result; /* "" = done; "PERMISSION_DENIED" */
    const char *why;
    uint64_t left_out;  /* stands for so many refusals; 0 = for itself */
    const uint8_t *record; /* all of it, as in the log */
    size_t record_size;
};
TW_MUST_CHECK tw_status tw_history_put_audit(struct tw_history_file *file, const struct tw_history_audit *audit,
                                             struct tw_error *error);

/* ---- Questions ---- */

struct tw_history_question {
    struct tw_history_question *next; /* the queue's */
    uint64_t sequence;                /* the file must have come so far */
    int64_t deadline_mono_ns;         /* else run() is called with file NULL at this time */
    /* Exactly once. Thread: history, or the one in tw_history_ask() or tw_history_stop(). */
    void (*run)(struct tw_history_question *question, struct tw_history_file *file);
};

/* Owns: the history, until run() is called. Thread: any.  Blocks: no. */
void tw_history_ask(struct tw_history *history, struct tw_history_question *question);

/* Empty texts match everything; what else is asked of a copy, each() decides. */
struct tw_history_filter {
    const char *master_id, *follower_id, *event_id, *subject_id;
    int64_t received_from_ns, received_until_ns; /* INT64_MIN, INT64_MAX = any */
};

/* False: no more is wanted, and this one counts as not read. */
typedef bool tw_history_copy_fn(void *context, const struct tw_history_copy *copy);

/* Reads on from a place, as far as one question may take. */
struct tw_history_page {
    const struct tw_history_filter *filter;
    tw_history_copy_fn *each;
    void *context;
    bool is_slowest_first;   /* by called_ns, of those that were called; then by place */
    uint64_t place;          /* copies before this one; UINT64_MAX: from the start. Out: of the last one looked at */
    uint64_t called_ns;      /* slowest first: likewise */
    bool is_unfinished;      /* out: time was over, or each() said no; go on from `place` */
};
TW_MUST_CHECK tw_status tw_history_list(struct tw_history_file *file, struct tw_history_page *page,
                                        struct tw_error *error);

/* Copies whose latest change is after `after` and at most `until`, oldest change first, at most n_max looked
 * at. *ret_last: the last one looked at; `until` when that was all. */
TW_MUST_CHECK tw_status tw_history_changed(struct tw_history_file *file, uint64_t after, uint64_t until, size_t n_max,
                                           tw_history_copy_fn *each, void *context, uint64_t *ret_last,
                                           struct tw_error *error);

/* TW_NOT_FOUND: each() was not called. */
TW_MUST_CHECK tw_status tw_history_find(struct tw_history_file *file, const char *copy_id, tw_history_copy_fn *each,
                                        void *context, struct tw_error *error);

/* Copies of an event by state and reason. */
struct tw_history_count {
    int32_t state, reason;
    uint32_t count;
};
typedef void tw_history_event_fn(void *context, const struct tw_history_event *event,
                                 const struct tw_history_count *counts, size_t n_counts);
/* An event of a master's, as it was received. TW_NOT_FOUND: each() was not called. */
TW_MUST_CHECK tw_status tw_history_event_find(struct tw_history_file *file, const char *master_id, const char *event_id,
                                              tw_history_event_fn *each, void *context, struct tw_error *error);

/* The audit from outside, for tools: beside the server that writes the file, or without one. Oldest first, those from
 * from_ns on and before until_ns. *ret_taken: the log's sequence up to which the file has come; what follows is
 * in the log alone. Fails: TW_NOT_FOUND (no file), TW_IO, or what each() said. Thread: any. */
typedef tw_status tw_history_audit_fn(void *context, uint64_t sequence, const uint8_t *record, size_t size);
TW_MUST_CHECK tw_status tw_history_audit_read(const char *path, int64_t from_ns, int64_t until_ns,
                                              tw_history_audit_fn *each, void *context, uint64_t *ret_taken,
                                              struct tw_error *error);

/* ---- The history itself ---- */

/* Numbers in words, for people: one table of the file each. Static. */
struct tw_history_words {
    const char *table; /* "states" */
    int32_t number;
    const char *word;
};

struct tw_history_options {
    const char *path;    /* of the file */
    const char *log_dir; /* that it follows */
    const char *log_id;  /* a file of another log is made anew */
    uint64_t log_last;   /* the last sequence of the log at the start: a file that is beyond is not this log's */
    int64_t keep_ns;     /* events received longer ago are deleted, once they are over */
    int64_t audit_keep_ns; /* and so long the audit; 0 = for ever */
    uint64_t open_states; /* bits of the states that are not over */
    const struct tw_history_words *words; /* n_words */
    size_t n_words;

    /* Puts what a record says. Thread: history.
     * Fails: what the functions above said; TW_INVALID: it cannot be understood. */
    tw_status (*take)(void *context, struct tw_history_file *file, const struct tw_journal_seen *seen,
                      struct tw_error *error);
    /* The log's first record is not its first any more: puts what is known from elsewhere, as a file that is
     * made anew cannot read it. NULL = nothing. Thread: the one in tw_history_start(). */
    tw_status (*seed)(void *context, struct tw_history_file *file, struct tw_error *error);
    void *context;
};

/* Opens the file, or begins to make it anew, and starts the thread. A file that cannot be opened is no
 * failure: see above. Thread: main. Fails: TW_NO_MEMORY. */
TW_MUST_CHECK tw_status tw_history_start(const struct tw_history_options *options, struct tw_history **ret_history,
                                         struct tw_error *error);

/* Takes up what is durable by now, answers what is asked, ends the thread. NULL is allowed.
 * Thread: main.  Blocks: at most a second or so. */
void tw_history_stop(struct tw_history *history);

/* The log is durable up to here. Thread: journal.  Blocks: no. */
void tw_history_news(struct tw_history *history, uint64_t durable);

/* Taken up so far, and so far that a power cut does not take it back: what comes later in the log must be
 * kept. UINT64_MAX: it has failed for so long that nobody is to wait for it. Thread: any. */
uint64_t tw_history_taken(const struct tw_history *history);

/* How it is doing. Thread: any. */
struct tw_history_status {
    uint64_t taken;       /* sequence */
    uint64_t behind;      /* records that are durable and not taken up */
    uint64_t forgotten_change_id; /* changes up to this one may be missing */
    bool is_failing;
};
void tw_history_status_get(const struct tw_history *history, struct tw_history_status *ret);

#endif
