/* history_file.h - the SQLite file: its schema, its statements, one transaction at a time. */
#ifndef JOURNAL_HISTORY_FILE_H
#define JOURNAL_HISTORY_FILE_H

#include <tradewake/journal/history.h>

#include <sqlite3.h>

#define HISTORY_SCHEMA       1 /* PRAGMA user_version; a file of another one is made anew */
#define HISTORY_APPLICATION  0x74774849

enum statement {
    PUT_FOLLOWER,
    PUT_SUBSCRIPTION,
    PUT_EVENT,
    PUT_HOUR,
    PUT_COPY,
    PUT_CHANGE,
    PUT_AUDIT,
    PUT_PROGRESS,
    GET_EVENT,
    GET_SUBSCRIPTION,
    GET_FOLLOWER,
    GET_PROGRESS,
    GET_RANGE,
    FIND_COPY,
    FIND_EVENT,
    COUNT_EVENT,
    LIST_NEWEST,
    LIST_FOLLOWER,
    LIST_OF_EVENT,
    EVENTS_OF_MASTER,
    EVENTS_OF_ID,
    EVENTS_OF_SUBJECT,
    SLOWEST_ALL,
    SLOWEST_RANGE,
    SLOWEST_OF_ID,
    SLOWEST_OF_SUBJECT,
    LIST_CHANGED,
    OLD_EVENTS,
    OLD_CHANGE,
    DELETE_CHANGES,
    DELETE_COPIES,
    DELETE_EVENT,
    DELETE_HOURS,
    DELETE_AUDIT,
    STATEMENTS
};

extern const char *const history_schema[]; /* one statement each; ends with NULL */
extern const char *const history_schema_audit[]; /* likewise; for files, too, that were made without */
extern const char *const history_sql[STATEMENTS];

struct history_progress {
    char log_id[64];
    uint64_t taken;
    uint32_t taken_crc; /* of the record at `taken`: another one there is another log */
    uint64_t forgotten_change_id;
    bool is_partial; /* made anew from a log whose beginning was gone, without what is known elsewhere */
};

struct cached_event {
    struct tw_history_event event; /* number 0 = none */
    char texts[5][TW_ID_BYTES];
};

struct cached_subscription {
    bool is_known;
    uint32_t follower;
    char follower_id[TW_ID_BYTES];
};

enum { EVENTS_CACHED = 512 };

struct tw_history_file {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    bool is_in_transaction;
    bool is_damaged; /* SQLite says so */
    struct history_progress progress;
    struct cached_event events[EVENTS_CACHED]; /* by number */
    struct cached_subscription *subscriptions; /* by number */
    uint32_t subscriptions_room;
    uint64_t old_from; /* retention has looked at events up to this one */
};

/* Opens what is there. TW_NOT_FOUND: there is none. TW_UNSUPPORTED: it is of another schema, or none of ours.
 * TW_INVALID: it is damaged. Thread: main, history. */
tw_status history_file_open(const char *path, struct tw_history_file **ret_file, struct tw_error *error);
/* A new one; what is there is moved aside, to PATH.old. */
tw_status history_file_create(const char *path, const struct tw_history_options *options,
                              struct tw_history_file **ret_file, struct tw_error *error);
void history_file_close(struct tw_history_file *file);

/* is_safe: a power cut does not take it back. */
tw_status history_begin(struct tw_history_file *file, bool is_safe, struct tw_error *error);
tw_status history_commit(struct tw_history_file *file, struct tw_error *error);
void history_rollback(struct tw_history_file *file);

tw_status history_words_put(struct tw_history_file *file, const struct tw_history_options *options,
                            struct tw_error *error);

/* What a file of an earlier version does not have yet. In a transaction. */
tw_status history_schema_complete(struct tw_history_file *file, struct tw_error *error);

/* Deletes a few records of the audit from before, in a transaction of its own; likewise. */
tw_status history_delete_old_audit(struct tw_history_file *file, int64_t before_ns, bool *ret_more, struct tw_error *error);

/* Deletes a few events received before and over, in a transaction of its own. *ret_more: call again soon. */
tw_status history_delete_old(struct tw_history_file *file, int64_t before_ns, uint64_t open_states, bool *ret_more,
                             struct tw_error *error);

/* Prepared, reset, without values; NULL with the words. */
sqlite3_stmt *history_statement(struct tw_history_file *file, enum statement which, struct tw_error *error);
tw_status history_error(struct tw_history_file *file, struct tw_error *error);
/* Steps a statement that gives no rows. */
tw_status history_run(struct tw_history_file *file, sqlite3_stmt *statement, struct tw_error *error);

#endif
