/* history_read.c - questions: each reads on from a place, as long as one may take. */
#include "history_file.h"

#include <tradewake/base/clock.h>

#include <string.h>
#include <unistd.h>

#define HOUR_NS   (INT64_C(3600) * TW_NS_PER_S)
#define BUDGET_NS (150 * TW_NS_PER_MS)
enum { LOOKS_PER_CLOCK = 32 };

struct reading {
    struct tw_history_file *file;
    struct tw_history_page *page;
    int64_t until_mono_ns;
    uint32_t looks;
    uint64_t low, high; /* event numbers that may match, high excluded */
};

static const char *text(sqlite3_stmt *row, int at)
{
    const char *found = (const char *)sqlite3_column_text(row, at);
    return found != NULL ? found : "";
}

static uint64_t number(sqlite3_stmt *row, int at)
{
    return (uint64_t)sqlite3_column_int64(row, at);
}

static tw_decimal decimal(sqlite3_stmt *row, int at)
{
    return sqlite3_column_type(row, at) == SQLITE_NULL ? TW_DECIMAL_UNSET : sqlite3_column_int64(row, at);
}

/* In the order of COPY_COLUMNS. */
static void row_read(sqlite3_stmt *row, struct tw_history_copy *copy, struct tw_history_event *event)
{
    *copy = (struct tw_history_copy){
        .event = event,
        .place = number(row, 0),
        .change_id = number(row, 1),
        .follower_id = text(row, 2),
        .subscription_id = text(row, 3),
        .copy_id = text(row, 4),
        .action = sqlite3_column_int(row, 5),
        .state = sqlite3_column_int(row, 6),
        .reason = sqlite3_column_int(row, 7),
        .side = sqlite3_column_int(row, 8),
        .type = sqlite3_column_int(row, 9),
        .remarks = text(row, 10),
        .symbol = text(row, 11),
        .volume = decimal(row, 12),
        .price = decimal(row, 13),
        .stop_loss = decimal(row, 14),
        .take_profit = decimal(row, 15),
        .filled = decimal(row, 16),
        .average_price = decimal(row, 17),
        .broker_order_id = text(row, 18),
        .broker_position_id = text(row, 19),
        .broker_message = text(row, 20),
        .message = text(row, 21),
        .broker_code = sqlite3_column_int(row, 22),
        .attempts = (uint32_t)number(row, 23),
        .order_ids = {(uint32_t)number(row, 24), (uint32_t)number(row, 25)},
        .planned_ns = number(row, 26),
        .journaled_ns = number(row, 27),
        .started_ns = number(row, 28),
        .called_ns = number(row, 29),
        .answered_ns = number(row, 30),
        .held_ns = number(row, 31),
        .updated_ns = sqlite3_column_int64(row, 32),
    };
    *event = (struct tw_history_event){
        .number = number(row, 33),
        .event_id = text(row, 34),
        .master_id = text(row, 35),
        .subject_id = text(row, 36),
        .symbol = text(row, 37),
        .trace_id = text(row, 38),
        .origin = sqlite3_column_int(row, 39),
        .received_ns = sqlite3_column_int64(row, 40),
        .upstream_ns = number(row, 41),
    };
}

static bool is_any_or(const char *wanted, const char *value)
{
    return wanted[0] == '\0' || strcmp(wanted, value) == 0;
}

static bool event_matches(const struct tw_history_filter *filter, const struct tw_history_event *event)
{
    return is_any_or(filter->master_id, event->master_id) && is_any_or(filter->event_id, event->event_id) &&
           is_any_or(filter->subject_id, event->subject_id) && event->received_ns >= filter->received_from_ns &&
           event->received_ns < filter->received_until_ns;
}

static bool copy_matches(const struct tw_history_filter *filter, const struct tw_history_copy *copy)
{
    return is_any_or(filter->follower_id, copy->follower_id) && event_matches(filter, copy->event);
}

static bool is_time_over(struct reading *reading)
{
    return ++reading->looks % LOOKS_PER_CLOCK == 0 && tw_mono_ns() > reading->until_mono_ns;
}

/* Every row of the statement, until each() says no or time is over. *ret_ended: all was read. */
static tw_status rows_read(struct reading *reading, sqlite3_stmt *rows, bool *ret_ended, struct tw_error *error)
{
    struct tw_history_page *page = reading->page;
    struct tw_history_copy copy;
    struct tw_history_event event;
    int code;
    *ret_ended = false;
    while ((code = sqlite3_step(rows)) == SQLITE_ROW) {
        row_read(rows, &copy, &event);
        if (copy_matches(page->filter, &copy) && !page->each(page->context, &copy))
            break;
        page->place = copy.place;
        page->called_ns = copy.called_ns;
        if (is_time_over(reading))
            break;
    }
    *ret_ended = code == SQLITE_DONE;
    tw_status status = code == SQLITE_DONE || code == SQLITE_ROW ? TW_OK : history_error(reading->file, error);
    sqlite3_reset(rows);
    page->is_unfinished = !*ret_ended;
    return status;
}

/* Which events came in the wanted time, to the hour. */
static tw_status range_find(struct reading *reading, struct tw_error *error)
{
    const struct tw_history_filter *filter = reading->page->filter;
    reading->low = 0;
    reading->high = INT64_MAX / TW_HISTORY_PLACES;
    if (filter->received_from_ns == INT64_MIN && filter->received_until_ns == INT64_MAX)
        return TW_OK;
    sqlite3_stmt *statement = history_statement(reading->file, GET_RANGE, error);
    if (statement == NULL)
        return TW_IO;
    (void)sqlite3_bind_int64(statement, 1, filter->received_from_ns / HOUR_NS - 1);
    (void)sqlite3_bind_int64(statement, 2, filter->received_until_ns / HOUR_NS);
    int code = sqlite3_step(statement);
    if (code != SQLITE_ROW)
        return history_error(reading->file, error);
    bool is_any = sqlite3_column_type(statement, 0) != SQLITE_NULL;
    reading->low = number(statement, 0);
    reading->high = is_any ? number(statement, 1) + 1 : reading->low;
    sqlite3_reset(statement);
    return TW_OK;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void bind(sqlite3_stmt *statement, int at, uint64_t value)
{
    (void)sqlite3_bind_int64(statement, at, (sqlite3_int64)smaller(value, INT64_MAX));
}

static tw_status list_places(struct reading *reading, struct tw_error *error)
{
    struct tw_history_page *page = reading->page;
    sqlite3_stmt *rows = history_statement(reading->file, LIST_NEWEST, error);
    bool is_ended;
    if (rows == NULL)
        return TW_IO;
    bind(rows, 1, smaller(page->place, reading->high * TW_HISTORY_PLACES));
    bind(rows, 2, reading->low * TW_HISTORY_PLACES);
    return rows_read(reading, rows, &is_ended, error);
}

/* 0: there is none. */
static tw_status follower_number(struct reading *reading, uint64_t *ret, struct tw_error *error)
{
    sqlite3_stmt *row = history_statement(reading->file, GET_FOLLOWER, error);
    if (row == NULL)
        return TW_IO;
    (void)sqlite3_bind_text(row, 1, reading->page->filter->follower_id, -1, SQLITE_STATIC);
    if (sqlite3_step(row) != SQLITE_ROW)
        return history_error(reading->file, error);
    *ret = number(row, 0);
    sqlite3_reset(row);
    return TW_OK;
}

static tw_status list_follower(struct reading *reading, struct tw_error *error)
{
    struct tw_history_page *page = reading->page;
    uint64_t follower = 0;
    bool is_ended;
    tw_status status = follower_number(reading, &follower, error);
    if (status != TW_OK || follower == 0)
        return status;
    sqlite3_stmt *rows = history_statement(reading->file, LIST_FOLLOWER, error);
    if (rows == NULL)
        return TW_IO;
    bind(rows, 1, smaller(page->place, reading->high * TW_HISTORY_PLACES));
    bind(rows, 2, reading->low * TW_HISTORY_PLACES);
    bind(rows, 3, follower);
    return rows_read(reading, rows, &is_ended, error);
}

/* Events first: their copies lie together. */
static tw_status list_events(struct reading *reading, struct tw_error *error)
{
    struct tw_history_page *page = reading->page;
    const struct tw_history_filter *filter = page->filter;
    enum statement which = filter->event_id[0] != '\0'     ? EVENTS_OF_ID
                           : filter->subject_id[0] != '\0' ? EVENTS_OF_SUBJECT
                                                           : EVENTS_OF_MASTER;
    const char *wanted = which == EVENTS_OF_ID        ? filter->event_id
                         : which == EVENTS_OF_SUBJECT ? filter->subject_id
                                                      : filter->master_id;
    sqlite3_stmt *events = history_statement(reading->file, which, error);
    if (events == NULL)
        return TW_IO;
    (void)sqlite3_bind_text(events, 1, wanted, -1, SQLITE_STATIC);
    uint64_t newest = page->place == UINT64_MAX ? UINT64_MAX : page->place / TW_HISTORY_PLACES;
    bind(events, 2, smaller(newest, reading->high));
    bind(events, 3, reading->low);
    int code = SQLITE_DONE;
    tw_status status = TW_OK;
    bool is_ended = true;
    while (status == TW_OK && is_ended && (code = sqlite3_step(events)) == SQLITE_ROW) {
        const struct tw_history_event event = {.number = number(events, 0),
                                               .event_id = text(events, 1),
                                               .master_id = text(events, 2),
                                               .subject_id = text(events, 3),
                                               .received_ns = sqlite3_column_int64(events, 4)};
        uint64_t first = event.number * TW_HISTORY_PLACES;
        if (event_matches(filter, &event)) {
            sqlite3_stmt *rows = history_statement(reading->file, LIST_OF_EVENT, error);
            if (rows == NULL)
                return TW_IO;
            bind(rows, 1, smaller(page->place, first + TW_HISTORY_PLACES));
            bind(rows, 2, first);
            status = rows_read(reading, rows, &is_ended, error);
        } else {
            page->place = smaller(page->place, first);
        }
        if (is_ended && is_time_over(reading)) {
            page->place = smaller(page->place, first);
            is_ended = false;
        }
    }
    if (status == TW_OK && is_ended && code != SQLITE_DONE)
        status = history_error(reading->file, error);
    sqlite3_reset(events);
    page->is_unfinished = !is_ended;
    return status;
}

static tw_status list_slowest(struct reading *reading, struct tw_error *error)
{
    struct tw_history_page *page = reading->page;
    const struct tw_history_filter *filter = page->filter;
    bool is_range = filter->received_from_ns != INT64_MIN || filter->received_until_ns != INT64_MAX;
    enum statement which = filter->event_id[0] != '\0'     ? SLOWEST_OF_ID
                           : filter->subject_id[0] != '\0' ? SLOWEST_OF_SUBJECT
                           : is_range                      ? SLOWEST_RANGE
                                                           : SLOWEST_ALL;
    sqlite3_stmt *rows = history_statement(reading->file, which, error);
    bool is_ended;
    if (rows == NULL)
        return TW_IO;
    bind(rows, 1, page->place);
    bind(rows, 2, page->called_ns);
    if (which == SLOWEST_OF_ID || which == SLOWEST_OF_SUBJECT)
        (void)sqlite3_bind_text(rows, 3, which == SLOWEST_OF_ID ? filter->event_id : filter->subject_id, -1,
                                SQLITE_STATIC);
    if (which == SLOWEST_RANGE) {
        bind(rows, 3, reading->low * TW_HISTORY_PLACES);
        bind(rows, 4, reading->high * TW_HISTORY_PLACES);
    }
    return rows_read(reading, rows, &is_ended, error);
}

tw_status tw_history_list(struct tw_history_file *file, struct tw_history_page *page, struct tw_error *error)
{
    const struct tw_history_filter *filter = page->filter;
    struct reading reading = {.file = file, .page = page, .until_mono_ns = tw_mono_ns() + BUDGET_NS};
    page->is_unfinished = false;
    tw_status status = range_find(&reading, error);
    if (status != TW_OK || reading.low >= reading.high)
        return status;
    if (page->is_slowest_first)
        return list_slowest(&reading, error);
    if (filter->event_id[0] != '\0' || filter->subject_id[0] != '\0')
        return list_events(&reading, error);
    if (filter->follower_id[0] != '\0')
        return list_follower(&reading, error);
    return filter->master_id[0] != '\0' ? list_events(&reading, error) : list_places(&reading, error);
}

tw_status tw_history_changed(struct tw_history_file *file, uint64_t after, uint64_t until, size_t n_max,
                             tw_history_copy_fn *each, void *context, uint64_t *ret_last, struct tw_error *error)
{
    struct tw_history_copy copy;
    struct tw_history_event event;
    sqlite3_stmt *rows = history_statement(file, LIST_CHANGED, error);
    int code = SQLITE_DONE;
    size_t n = 0;
    if (rows == NULL)
        return TW_IO;
    bind(rows, 1, after);
    bind(rows, 2, until);
    *ret_last = after;
    while (n < n_max && (code = sqlite3_step(rows)) == SQLITE_ROW) {
        row_read(rows, &copy, &event);
        if (!each(context, &copy))
            break;
        *ret_last = copy.change_id;
        n++;
    }
    if (code == SQLITE_DONE && n < n_max)
        *ret_last = until;
    tw_status status = code == SQLITE_DONE || code == SQLITE_ROW ? TW_OK : history_error(file, error);
    sqlite3_reset(rows);
    return status;
}

tw_status tw_history_find(struct tw_history_file *file, const char *copy_id, tw_history_copy_fn *each, void *context,
                          struct tw_error *error)
{
    struct tw_history_copy copy;
    struct tw_history_event event;
    sqlite3_stmt *rows = history_statement(file, FIND_COPY, error);
    if (rows == NULL)
        return TW_IO;
    (void)sqlite3_bind_text(rows, 1, copy_id, -1, SQLITE_STATIC);
    int code = sqlite3_step(rows);
    tw_status status = code == SQLITE_ROW ? TW_OK : code == SQLITE_DONE ? TW_NOT_FOUND : history_error(file, error);
    if (status == TW_OK) {
        row_read(rows, &copy, &event);
        (void)each(context, &copy);
    }
    sqlite3_reset(rows);
    return status;
}

enum { COUNTS_MAX = 512 };

static tw_status counts_read(struct tw_history_file *file, uint64_t event, struct tw_history_count *ret, size_t *ret_n,
                             struct tw_error *error)
{
    sqlite3_stmt *rows = history_statement(file, COUNT_EVENT, error);
    int code = SQLITE_DONE;
    *ret_n = 0;
    if (rows == NULL)
        return TW_IO;
    bind(rows, 1, event);
    while (*ret_n < COUNTS_MAX && (code = sqlite3_step(rows)) == SQLITE_ROW)
        ret[(*ret_n)++] = (struct tw_history_count){sqlite3_column_int(rows, 0), sqlite3_column_int(rows, 1),
                                                    (uint32_t)number(rows, 2)};
    tw_status status = code == SQLITE_DONE || code == SQLITE_ROW ? TW_OK : history_error(file, error);
    sqlite3_reset(rows);
    return status;
}

tw_status tw_history_event_find(struct tw_history_file *file, const char *master_id, const char *event_id,
                                tw_history_event_fn *each, void *context, struct tw_error *error)
{
    struct tw_history_count counts[COUNTS_MAX];
    size_t n = 0;
    sqlite3_stmt *row = history_statement(file, FIND_EVENT, error);
    if (row == NULL)
        return TW_IO;
    (void)sqlite3_bind_text(row, 1, master_id, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(row, 2, event_id, -1, SQLITE_STATIC);
    int code = sqlite3_step(row);
    tw_status status = code == SQLITE_ROW ? TW_OK : code == SQLITE_DONE ? TW_NOT_FOUND : history_error(file, error);
    if (status == TW_OK)
        status = counts_read(file, number(row, 0), counts, &n, error);
    if (status == TW_OK) {
        const struct tw_history_event event = {.number = number(row, 0),
                                               .event_id = event_id,
                                               .master_id = master_id,
                                               .symbol = text(row, 1),
                                               .subject_id = text(row, 2),
                                               .trace_id = text(row, 3),
                                               .origin = sqlite3_column_int(row, 4),
                                               .received_ns = sqlite3_column_int64(row, 5),
                                               .upstream_ns = number(row, 6),
                                               .packed = sqlite3_column_blob(row, 7),
                                               .packed_size = (size_t)sqlite3_column_bytes(row, 7)};
        each(context, &event, counts, n);
    }
    sqlite3_reset(row);
    return status;
}

/* ---- From outside ---- */

static tw_status audit_rows(sqlite3 *db, int64_t from_ns, int64_t until_ns, tw_history_audit_fn *each, void *context,
                            struct tw_error *error)
{
    sqlite3_stmt *statement = NULL;
    static const char sql[] = "SELECT sequence, record FROM audit WHERE at_ns >= ?1 AND at_ns < ?2 ORDER BY at_ns, sequence";
    int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (code != SQLITE_OK) {
        sqlite3_finalize(statement);
        return TW_OK; /* a file of an earlier version has none */
    }
    (void)sqlite3_bind_int64(statement, 1, from_ns);
    (void)sqlite3_bind_int64(statement, 2, until_ns);
    tw_status status = TW_OK;
    while (status == TW_OK && (code = sqlite3_step(statement)) == SQLITE_ROW)
        status = each(context, (uint64_t)sqlite3_column_int64(statement, 0), sqlite3_column_blob(statement, 1),
                      (size_t)sqlite3_column_bytes(statement, 1));
    if (status == TW_OK && code != SQLITE_DONE)
        status = tw_error_set(error, TW_IO, "%s", sqlite3_errmsg(db));
    sqlite3_finalize(statement);
    return status;
}

static tw_status taken_read(sqlite3 *db, uint64_t *ret_taken, struct tw_error *error)
{
    sqlite3_stmt *statement = NULL;
    tw_status status = TW_OK;
    if (sqlite3_prepare_v2(db, "SELECT taken FROM progress WHERE one = 1", -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        status = tw_error_set(error, TW_IO, "%s", sqlite3_errmsg(db));
    else
        *ret_taken = (uint64_t)sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return status;
}

tw_status tw_history_audit_read(const char *path, int64_t from_ns, int64_t until_ns, tw_history_audit_fn *each,
                                void *context, uint64_t *ret_taken, struct tw_error *error)
{
    sqlite3 *db = NULL;
    if (access(path, F_OK) != 0)
        return tw_error_set(error, TW_NOT_FOUND, "there is no %s", path);
    tw_status status = TW_OK;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        status = tw_error_set(error, TW_IO, "%s cannot be opened: %s", path, sqlite3_errmsg(db));
    if (status == TW_OK) {
        (void)sqlite3_busy_timeout(db, 2000);
        /* One transaction: what is taken up, and what of it is here, are of one moment. */
        (void)sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
        status = taken_read(db, ret_taken, error);
    }
    if (status == TW_OK)
        status = audit_rows(db, from_ns, until_ns, each, context, error);
    sqlite3_close(db);
    return status;
}
