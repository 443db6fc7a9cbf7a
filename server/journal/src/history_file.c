#include "history_file.h"

#include <tradewake/base/clock.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOUR_NS (INT64_C(3600) * TW_NS_PER_S)

/* ---- SQLite, told in our words ---- */

tw_status history_error(struct tw_history_file *file, struct tw_error *error)
{
    int code = sqlite3_errcode(file->db);
    if ((code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB)
        file->is_damaged = true;
    return tw_error_set(error, TW_IO, "%s (%d)%s", sqlite3_errmsg(file->db), sqlite3_extended_errcode(file->db),
                        (code & 0xff) == SQLITE_FULL ? ": make room on the disk" : "");
}

sqlite3_stmt *history_statement(struct tw_history_file *file, enum statement which, struct tw_error *error)
{
    sqlite3_stmt **at = &file->statements[which];
    if (*at == NULL && sqlite3_prepare_v3(file->db, history_sql[which], -1, SQLITE_PREPARE_PERSISTENT, at, NULL) != SQLITE_OK) {
        (void)history_error(file, error);
        return NULL;
    }
    sqlite3_reset(*at);
    sqlite3_clear_bindings(*at);
    return *at;
}

tw_status history_run(struct tw_history_file *file, sqlite3_stmt *statement, struct tw_error *error)
{
    int code = sqlite3_step(statement);
    tw_status status = code == SQLITE_DONE || code == SQLITE_ROW ? TW_OK : history_error(file, error);
    sqlite3_reset(statement);
    return status;
}

static tw_status execute(struct tw_history_file *file, const char *sql, struct tw_error *error)
{
    return sqlite3_exec(file->db, sql, NULL, NULL, NULL) == SQLITE_OK ? TW_OK : history_error(file, error);
}

static void bind_text(sqlite3_stmt *statement, int at, const char *text)
{
    (void)sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}

static void bind_number(sqlite3_stmt *statement, int at, uint64_t value)
{
    (void)sqlite3_bind_int64(statement, at, (sqlite3_int64)value);
}

static void bind_decimal(sqlite3_stmt *statement, int at, tw_decimal value)
{
    if (value != TW_DECIMAL_UNSET)
        (void)sqlite3_bind_int64(statement, at, value);
}

/* ---- Life ---- */

/* Nothing but what this program wrote is believed; durable is told apart from written in history_begin(). */
static const char settings_sql[] =
    "PRAGMA trusted_schema = OFF; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
    "PRAGMA journal_size_limit = 67108864; PRAGMA cache_size = -4096; PRAGMA temp_store = MEMORY;";

static tw_status file_connect(const char *path, int flags, struct tw_history_file **ret_file, struct tw_error *error)
{
    struct tw_history_file *file = calloc(1, sizeof *file);
    if (file == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the history");
    int code = sqlite3_open_v2(path, &file->db, flags | SQLITE_OPEN_NOMUTEX, NULL);
    if (code != SQLITE_OK) {
        tw_error_set(error, TW_IO, "%s cannot be opened: %s", path,
                     file->db != NULL ? sqlite3_errmsg(file->db) : sqlite3_errstr(code));
        history_file_close(file);
        return TW_IO;
    }
    (void)sqlite3_busy_timeout(file->db, 200);
    *ret_file = file;
    return TW_OK;
}

static tw_status progress_read(struct tw_history_file *file, struct tw_error *error)
{
    sqlite3_stmt *statement = history_statement(file, GET_PROGRESS, error);
    if (statement == NULL)
        return TW_IO;
    int code = sqlite3_step(statement);
    if (code != SQLITE_ROW) {
        if (code == SQLITE_DONE)
            return tw_error_set(error, TW_UNSUPPORTED, "it was never finished");
        return history_error(file, error);
    }
    struct history_progress *progress = &file->progress;
    snprintf(progress->log_id, sizeof progress->log_id, "%s", (const char *)sqlite3_column_text(statement, 0));
    progress->taken = (uint64_t)sqlite3_column_int64(statement, 1);
    progress->taken_crc = (uint32_t)sqlite3_column_int64(statement, 2);
    progress->forgotten_change_id = (uint64_t)sqlite3_column_int64(statement, 3);
    progress->is_partial = sqlite3_column_int(statement, 4) != 0;
    sqlite3_reset(statement);
    return TW_OK;
}

static tw_status pragma_read(struct tw_history_file *file, const char *sql, int64_t *ret, struct tw_error *error)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(file->db, sql, -1, &statement, NULL) != SQLITE_OK || sqlite3_step(statement) != SQLITE_ROW) {
        tw_status status = history_error(file, error);
        sqlite3_finalize(statement);
        return status;
    }
    *ret = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return TW_OK;
}

tw_status history_file_open(const char *path, struct tw_history_file **ret_file, struct tw_error *error)
{
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return TW_NOT_FOUND;
    struct tw_history_file *file = NULL;
    tw_status status = file_connect(path, SQLITE_OPEN_READWRITE, &file, error);
    if (status != TW_OK)
        return status;
    int64_t version = 0, application = 0;
    status = pragma_read(file, "PRAGMA user_version", &version, error);
    if (status == TW_OK)
        status = pragma_read(file, "PRAGMA application_id", &application, error);
    if (status == TW_OK && (version != HISTORY_SCHEMA || application != HISTORY_APPLICATION))
        status = tw_error_set(error, TW_UNSUPPORTED, "it has schema %lld of %llx, this version %d of %x",
                              (long long)version, (unsigned long long)application, HISTORY_SCHEMA, HISTORY_APPLICATION);
    if (status == TW_OK)
        status = execute(file, settings_sql, error);
    if (status == TW_OK)
        status = progress_read(file, error);
    if (status == TW_OK) {
        *ret_file = file;
        return TW_OK;
    }
    if (file->is_damaged)
        status = TW_INVALID;
    history_file_close(file);
    return status;
}

tw_status history_schema_complete(struct tw_history_file *file, struct tw_error *error)
{
    tw_status status = TW_OK;
    for (const char *const *at = history_schema_audit; *at != NULL && status == TW_OK; at++)
        status = execute(file, *at, error);
    return status;
}

/* What is told of who did what is in no log for as long as it is kept: the file that was moved aside has it. Whatever of
 * it can be read is taken; a damaged one has perhaps nothing. */
static void audit_inherit(struct tw_history_file *file, const char *path)
{
    char *attach = sqlite3_mprintf("ATTACH DATABASE %Q AS old", path);
    if (attach != NULL && sqlite3_exec(file->db, attach, NULL, NULL, NULL) == SQLITE_OK) {
        (void)sqlite3_exec(file->db, "INSERT OR IGNORE INTO main.audit SELECT * FROM old.audit", NULL, NULL, NULL);
        (void)sqlite3_exec(file->db, "DETACH DATABASE old", NULL, NULL, NULL);
    }
    sqlite3_free(attach);
}

/* With what SQLite keeps beside it: left alone, they would be taken for the new file's. */
static tw_status move_aside(const char *path, struct tw_error *error)
{
    static const char *const tails[] = {"", "-wal", "-shm"};
    char from[4096], to[4096];
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        int length = snprintf(from, sizeof from, "%s%s", path, tails[i]);
        int to_length = snprintf(to, sizeof to, "%s.old%s", path, tails[i]);
        if (length < 0 || to_length < 0 || (size_t)to_length >= sizeof to)
            return tw_error_set(error, TW_INVALID, "the path of %s is too long", path);
        if (rename(from, to) != 0 && errno != ENOENT)
            return tw_error_set(error, TW_IO, "%s cannot be moved aside: %s", from, strerror(errno));
    }
    return TW_OK;
}

tw_status history_file_create(const char *path, const struct tw_history_options *options,
                              struct tw_history_file **ret_file, struct tw_error *error)
{
    struct tw_history_file *file = NULL;
    char versions[128];
    snprintf(versions, sizeof versions, "PRAGMA user_version = %d; PRAGMA application_id = %d;", HISTORY_SCHEMA,
             HISTORY_APPLICATION);
    tw_status status = move_aside(path, error);
    if (status == TW_OK)
        status = file_connect(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &file, error);
    if (status != TW_OK)
        return status;
    snprintf(file->progress.log_id, sizeof file->progress.log_id, "%s", options->log_id);
    status = execute(file, settings_sql, error);
    if (status == TW_OK)
        status = history_begin(file, true, error);
    for (const char *const *at = history_schema; *at != NULL && status == TW_OK; at++)
        status = execute(file, *at, error);
    if (status == TW_OK)
        status = history_schema_complete(file, error);
    if (status == TW_OK)
        status = execute(file, versions, error);
    if (status == TW_OK)
        status = history_words_put(file, options, error);
    if (status == TW_OK)
        status = history_commit(file, error);
    if (status != TW_OK) {
        history_rollback(file);
        history_file_close(file);
        return status;
    }
    char old[4096];
    snprintf(old, sizeof old, "%s.old", path);
    if (access(old, R_OK) == 0)
        audit_inherit(file, old);
    *ret_file = file;
    return TW_OK;
}

void history_file_close(struct tw_history_file *file)
{
    if (file == NULL)
        return;
    for (size_t i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(file->statements[i]);
    sqlite3_close(file->db);
    free(file->subscriptions);
    free(file);
}

tw_status history_words_put(struct tw_history_file *file, const struct tw_history_options *options,
                            struct tw_error *error)
{
    tw_status status = TW_OK;
    for (size_t i = 0; i < options->n_words && status == TW_OK; i++) {
        char *sql = sqlite3_mprintf("REPLACE INTO \"%w\" VALUES (%d, %Q)", options->words[i].table,
                                    options->words[i].number, options->words[i].word);
        status = sql != NULL ? execute(file, sql, error) : TW_NO_MEMORY;
        sqlite3_free(sql);
    }
    return status;
}

/* ---- Transactions ---- */

tw_status history_begin(struct tw_history_file *file, bool is_safe, struct tw_error *error)
{
    tw_status status = execute(file, is_safe ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", error);
    if (status == TW_OK)
        status = execute(file, "BEGIN IMMEDIATE", error);
    file->is_in_transaction = status == TW_OK;
    return status;
}

tw_status history_commit(struct tw_history_file *file, struct tw_error *error)
{
    const struct history_progress *progress = &file->progress;
    sqlite3_stmt *statement = history_statement(file, PUT_PROGRESS, error);
    if (statement == NULL)
        return TW_IO;
    bind_text(statement, 1, progress->log_id);
    bind_number(statement, 2, progress->taken);
    bind_number(statement, 3, progress->taken_crc);
    bind_number(statement, 4, progress->forgotten_change_id);
    bind_number(statement, 5, progress->is_partial);
    tw_status status = history_run(file, statement, error);
    if (status == TW_OK)
        status = execute(file, "COMMIT", error);
    file->is_in_transaction = status != TW_OK;
    return status;
}

void history_rollback(struct tw_history_file *file)
{
    if (file->is_in_transaction)
        (void)sqlite3_exec(file->db, "ROLLBACK", NULL, NULL, NULL);
    file->is_in_transaction = false;
    memset(file->events, 0, sizeof file->events); /* what was put is not in the file */
    if (file->subscriptions != NULL)
        memset(file->subscriptions, 0, file->subscriptions_room * sizeof *file->subscriptions);
}

/* ---- Put ---- */

tw_status tw_history_put_follower(struct tw_history_file *file, uint32_t number, const char *id, struct tw_error *error)
{
    sqlite3_stmt *statement = history_statement(file, PUT_FOLLOWER, error);
    if (statement == NULL)
        return TW_IO;
    bind_number(statement, 1, number);
    bind_text(statement, 2, id);
    return history_run(file, statement, error);
}

tw_status tw_history_put_subscription(struct tw_history_file *file, uint32_t number, const char *id, uint32_t follower,
                                      struct tw_error *error)
{
    sqlite3_stmt *statement = history_statement(file, PUT_SUBSCRIPTION, error);
    if (statement == NULL)
        return TW_IO;
    bind_number(statement, 1, number);
    bind_text(statement, 2, id);
    bind_number(statement, 3, follower);
    return history_run(file, statement, error);
}

static void event_cache(struct tw_history_file *file, const struct tw_history_event *event)
{
    struct cached_event *cached = &file->events[event->number % EVENTS_CACHED];
    const char *const from[] = {event->event_id, event->master_id, event->subject_id, event->symbol, event->trace_id};
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++)
        snprintf(cached->texts[i], sizeof cached->texts[i], "%s", from[i]);
    cached->event = *event;
    cached->event.event_id = cached->texts[0];
    cached->event.master_id = cached->texts[1];
    cached->event.subject_id = cached->texts[2];
    cached->event.symbol = cached->texts[3];
    cached->event.trace_id = cached->texts[4];
    cached->event.packed = NULL;
    cached->event.packed_size = 0;
}

tw_status tw_history_put_event(struct tw_history_file *file, const struct tw_history_event *event,
                               struct tw_error *error)
{
    sqlite3_stmt *statement = history_statement(file, PUT_EVENT, error);
    if (statement == NULL)
        return TW_IO;
    bind_number(statement, 1, event->number);
    bind_text(statement, 2, event->event_id);
    bind_text(statement, 3, event->master_id);
    bind_text(statement, 4, event->subject_id);
    bind_text(statement, 5, event->symbol);
    (void)sqlite3_bind_int(statement, 6, event->origin);
    (void)sqlite3_bind_int64(statement, 7, event->received_ns);
    bind_number(statement, 8, event->upstream_ns);
    bind_text(statement, 9, event->trace_id);
    bind_decimal(statement, 10, event->volume);
    if (event->packed != NULL)
        (void)sqlite3_bind_blob64(statement, 11, event->packed, event->packed_size, SQLITE_STATIC);
    tw_status status = history_run(file, statement, error);
    statement = status == TW_OK ? history_statement(file, PUT_HOUR, error) : NULL;
    if (statement == NULL)
        return TW_IO;
    (void)sqlite3_bind_int64(statement, 1, event->received_ns / HOUR_NS);
    bind_number(statement, 2, event->number);
    status = history_run(file, statement, error);
    if (status == TW_OK)
        event_cache(file, event);
    return status;
}

tw_status tw_history_event_of(struct tw_history_file *file, uint64_t number, const struct tw_history_event **ret,
                              struct tw_error *error)
{
    struct cached_event *cached = &file->events[number % EVENTS_CACHED];
    *ret = &cached->event;
    if (cached->event.number == number && number != 0)
        return TW_OK;
    sqlite3_stmt *statement = history_statement(file, GET_EVENT, error);
    if (statement == NULL)
        return TW_IO;
    bind_number(statement, 1, number);
    int code = sqlite3_step(statement);
    if (code != SQLITE_ROW) {
        tw_status status = code == SQLITE_DONE ? TW_NOT_FOUND : history_error(file, error);
        sqlite3_reset(statement);
        return status;
    }
    const struct tw_history_event event = {
        .number = number,
        .event_id = (const char *)sqlite3_column_text(statement, 0),
        .master_id = (const char *)sqlite3_column_text(statement, 1),
        .subject_id = (const char *)sqlite3_column_text(statement, 2),
        .symbol = (const char *)sqlite3_column_text(statement, 3),
        .trace_id = (const char *)sqlite3_column_text(statement, 4),
        .origin = sqlite3_column_int(statement, 5),
        .received_ns = sqlite3_column_int64(statement, 6),
        .upstream_ns = (uint64_t)sqlite3_column_int64(statement, 7),
        .volume = sqlite3_column_type(statement, 8) == SQLITE_NULL ? TW_DECIMAL_UNSET
                                                                   : sqlite3_column_int64(statement, 8),
    };
    event_cache(file, &event);
    sqlite3_reset(statement);
    return TW_OK;
}

enum { SUBSCRIPTIONS_MAX = 1 << 24 };

static struct cached_subscription *subscription_place(struct tw_history_file *file, uint32_t number)
{
    if (number >= SUBSCRIPTIONS_MAX)
        return NULL;
    if (number >= file->subscriptions_room) {
        uint32_t room = file->subscriptions_room == 0 ? 256 : file->subscriptions_room;
        while (room <= number)
            room *= 2;
        struct cached_subscription *grown = realloc(file->subscriptions, room * sizeof *grown);
        if (grown == NULL)
            return NULL;
        memset(grown + file->subscriptions_room, 0, (room - file->subscriptions_room) * sizeof *grown);
        file->subscriptions = grown;
        file->subscriptions_room = room;
    }
    return &file->subscriptions[number];
}

static tw_status subscription_load(struct tw_history_file *file, uint32_t number, struct cached_subscription **ret,
                                   struct tw_error *error)
{
    struct cached_subscription *cached = subscription_place(file, number);
    if (cached == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for subscription %u", number);
    *ret = cached;
    if (cached->is_known)
        return TW_OK;
    sqlite3_stmt *statement = history_statement(file, GET_SUBSCRIPTION, error);
    if (statement == NULL)
        return TW_IO;
    bind_number(statement, 1, number);
    int code = sqlite3_step(statement);
    tw_status status = code == SQLITE_ROW ? TW_OK : code == SQLITE_DONE ? TW_NOT_FOUND : history_error(file, error);
    if (status == TW_OK) {
        cached->follower = (uint32_t)sqlite3_column_int64(statement, 0);
        snprintf(cached->follower_id, sizeof cached->follower_id, "%s",
                 (const char *)sqlite3_column_text(statement, 1));
        cached->is_known = true;
    }
    sqlite3_reset(statement);
    return status;
}

tw_status tw_history_subscription_of(struct tw_history_file *file, uint32_t number, const char **ret_follower_id,
                                     struct tw_error *error)
{
    struct cached_subscription *cached;
    tw_status status = subscription_load(file, number, &cached, error);
    if (status == TW_OK)
        *ret_follower_id = cached->follower_id;
    return status;
}

static void copy_bind(sqlite3_stmt *statement, const struct tw_history_copy *copy, uint32_t follower)
{
    bind_number(statement, 1, copy->place);
    bind_number(statement, 2, copy->place / TW_HISTORY_PLACES);
    bind_number(statement, 3, copy->subscription);
    bind_number(statement, 4, follower);
    bind_text(statement, 5, copy->copy_id);
    bind_number(statement, 6, copy->change_id);
    (void)sqlite3_bind_int(statement, 7, copy->action);
    (void)sqlite3_bind_int(statement, 8, copy->state);
    (void)sqlite3_bind_int(statement, 9, copy->reason);
    bind_text(statement, 10, copy->remarks);
    (void)sqlite3_bind_int(statement, 11, copy->side);
    (void)sqlite3_bind_int(statement, 12, copy->type);
    bind_text(statement, 13, copy->symbol);
    const tw_decimal decimals[] = {copy->volume, copy->price, copy->stop_loss,
                                   copy->take_profit, copy->filled, copy->average_price};
    for (int i = 0; i < 6; i++)
        bind_decimal(statement, 14 + i, decimals[i]);
    bind_text(statement, 20, copy->broker_order_id);
    bind_text(statement, 21, copy->broker_position_id);
    (void)sqlite3_bind_int(statement, 22, copy->broker_code);
    bind_text(statement, 23, copy->broker_message);
    bind_text(statement, 24, copy->message);
    const uint64_t numbers[] = {copy->attempts, copy->order_ids[0], copy->order_ids[1], copy->planned_ns,
                                copy->journaled_ns, copy->started_ns, copy->called_ns, copy->answered_ns,
                                copy->held_ns};
    for (int i = 0; i < 9; i++)
        bind_number(statement, 25 + i, numbers[i]);
    (void)sqlite3_bind_int64(statement, 34, copy->updated_ns);
}

tw_status tw_history_put_copy(struct tw_history_file *file, const struct tw_history_copy *copy, struct tw_error *error)
{
    struct cached_subscription *subscription;
    tw_status status = subscription_load(file, copy->subscription, &subscription, error);
    if (status != TW_OK)
        return status;
    sqlite3_stmt *statement = history_statement(file, PUT_COPY, error);
    if (statement == NULL)
        return TW_IO;
    copy_bind(statement, copy, subscription->follower);
    status = history_run(file, statement, error);
    statement = status == TW_OK ? history_statement(file, PUT_CHANGE, error) : NULL;
    if (statement == NULL)
        return TW_IO;
    bind_number(statement, 1, copy->place);
    bind_number(statement, 2, copy->change_id);
    (void)sqlite3_bind_int(statement, 3, copy->state);
    (void)sqlite3_bind_int(statement, 4, copy->reason);
    bind_number(statement, 5, copy->attempts);
    bind_decimal(statement, 6, copy->volume);
    bind_decimal(statement, 7, copy->filled);
    bind_decimal(statement, 8, copy->average_price);
    (void)sqlite3_bind_int(statement, 9, copy->broker_code);
    bind_text(statement, 10, copy->broker_message);
    (void)sqlite3_bind_int64(statement, 11, copy->updated_ns);
    return history_run(file, statement, error);
}

tw_status tw_history_put_audit(struct tw_history_file *file, const struct tw_history_audit *audit, struct tw_error *error)
{
    sqlite3_stmt *statement = history_statement(file, PUT_AUDIT, error);
    if (statement == NULL)
        return TW_IO;
    const char *const texts[] = {audit->who, audit->peer, audit->method, audit->master_id,
                                 audit->follower_id, audit->object_id, audit->result, audit->why};
    bind_number(statement, 1, audit->sequence);
    (void)sqlite3_bind_int64(statement, 2, audit->at_ns);
    for (int i = 0; i < 8; i++)
        bind_text(statement, 3 + i, texts[i]);
    bind_number(statement, 11, audit->left_out);
    (void)sqlite3_bind_blob64(statement, 12, audit->record, audit->record_size, SQLITE_STATIC);
    return history_run(file, statement, error);
}

/* ---- Delete ---- */

enum { AUDIT_OLD_AT_ONCE = 256 };

tw_status history_delete_old_audit(struct tw_history_file *file, int64_t before_ns, bool *ret_more, struct tw_error *error)
{
    sqlite3_stmt *statement = history_statement(file, DELETE_AUDIT, error);
    if (statement == NULL)
        return TW_IO;
    (void)sqlite3_bind_int64(statement, 1, before_ns);
    bind_number(statement, 2, AUDIT_OLD_AT_ONCE);
    tw_status status = history_run(file, statement, error);
    *ret_more = status == TW_OK && sqlite3_changes(file->db) == AUDIT_OLD_AT_ONCE;
    return status;
}

enum { OLD_AT_ONCE = 8 }; /* an event may have thousands of copies */

static tw_status event_delete(struct tw_history_file *file, uint64_t number, struct tw_error *error)
{
    static const enum statement steps[] = {OLD_CHANGE, DELETE_CHANGES, DELETE_COPIES, DELETE_EVENT};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        sqlite3_stmt *statement = history_statement(file, steps[i], error);
        if (statement == NULL)
            return TW_IO;
        bind_number(statement, 1, number);
        int code = sqlite3_step(statement);
        if (code != SQLITE_DONE && code != SQLITE_ROW)
            return history_error(file, error);
        if (steps[i] == OLD_CHANGE && code == SQLITE_ROW) {
            uint64_t change_id = (uint64_t)sqlite3_column_int64(statement, 0);
            if (change_id > file->progress.forgotten_change_id)
                file->progress.forgotten_change_id = change_id;
        }
        sqlite3_reset(statement);
    }
    memset(&file->events[number % EVENTS_CACHED], 0, sizeof file->events[0]);
    return TW_OK;
}

/* The next few events by number; those to be deleted. */
static tw_status old_find(struct tw_history_file *file, int64_t before_ns, uint64_t open_states,
                          uint64_t ret[OLD_AT_ONCE], size_t *ret_n, bool *ret_more, struct tw_error *error)
{
    sqlite3_stmt *statement = history_statement(file, OLD_EVENTS, error);
    int code;
    *ret_n = 0;
    *ret_more = false;
    if (statement == NULL)
        return TW_IO;
    bind_number(statement, 1, file->old_from);
    bind_number(statement, 2, open_states);
    bind_number(statement, 3, OLD_AT_ONCE);
    size_t n = 0;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        uint64_t number = (uint64_t)sqlite3_column_int64(statement, 0);
        if (sqlite3_column_int64(statement, 1) >= before_ns)
            break;
        if (sqlite3_column_int64(statement, 2) == 0)
            ret[(*ret_n)++] = number;
        file->old_from = number; /* one that is not over is looked at again in the next round */
        *ret_more = ++n == OLD_AT_ONCE;
    }
    tw_status status = code == SQLITE_ROW || code == SQLITE_DONE ? TW_OK : history_error(file, error);
    sqlite3_reset(statement);
    return status;
}

tw_status history_delete_old(struct tw_history_file *file, int64_t before_ns, uint64_t open_states, bool *ret_more,
                             struct tw_error *error)
{
    uint64_t numbers[OLD_AT_ONCE];
    size_t n = 0;
    tw_status status = old_find(file, before_ns, open_states, numbers, &n, ret_more, error);
    if (!*ret_more)
        file->old_from = 0;
    if (status != TW_OK || n == 0)
        return status;
    const struct history_progress before = file->progress;
    status = history_begin(file, false, error);
    for (size_t i = 0; i < n && status == TW_OK; i++)
        status = event_delete(file, numbers[i], error);
    sqlite3_stmt *hours = status == TW_OK ? history_statement(file, DELETE_HOURS, error) : NULL;
    if (status == TW_OK)
        status = hours != NULL ? history_run(file, hours, error) : TW_IO;
    if (status == TW_OK)
        status = history_commit(file, error);
    if (status != TW_OK) {
        history_rollback(file);
        file->progress = before;
    }
    return status;
}
