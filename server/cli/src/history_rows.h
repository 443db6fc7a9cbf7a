/* history_rows.h - what the readers of the formats hand to the builder of events; private. */
#ifndef CLI_HISTORY_ROWS_H
#define CLI_HISTORY_ROWS_H

#include <tradewake/cli/history.h>

#include <stdbool.h>

#define HISTORY_ROWS_MAX 1000000u
#define HISTORY_HELD     INT64_MAX /* closed_s of what is open still */

/* The file, for messages: a place is a pointer into it. */
struct history_text {
    const char *name;
    const char *begin, *end;
};

/* Bytes of the file, without blanks around them. */
struct history_field {
    const char *at;
    size_t size;
};

/* One trade or order of the file. */
struct history_row {
    const char *at; /* where it stands */
    uint32_t line;
    uint64_t ticket;          /* 0 = the format has none */
    uint64_t to, from, hedge; /* tickets that the comment names; 0 = none */
    int64_t opened_s, closed_s;
    bool is_sell, is_order;
    enum tw_history_type type;
    char symbol[TW_SYMBOL_BYTES];
    tw_decimal volume, closed_volume;
    tw_decimal open_price, close_price, stop_loss, take_profit;
};

struct history_rows {
    struct history_row *rows;
    uint32_t n, capacity;
    uint32_t skipped;
};

/* Writes "NAME:LINE:COLUMN: ..." of the place `at` and returns TW_INVALID. */
tw_status history_fail(const struct history_text *text, const char *at, struct tw_error *error,
                       const char *format, ...) TW_PRINTF(4, 5);
uint32_t history_line(const struct history_text *text, const char *at);

/* One more row, zeroed. Fails: TW_NO_MEMORY, TW_INVALID (too many). */
TW_MUST_CHECK tw_status history_rows_add(struct history_rows *rows, struct history_row **ret,
                                         struct tw_error *error);

/* The readers. Rows they added before a failure are the caller's to free. */
TW_MUST_CHECK tw_status history_csv_read(const struct history_text *text, struct history_rows *rows,
                                         enum tw_history_format *ret_format,
                                         struct tw_error *error);
TW_MUST_CHECK tw_status history_mt4_read(const struct history_text *text, struct history_rows *rows,
                                         struct tw_error *error);

/* ---- Fields. Each names place, what was found and what was expected. ---- */

/* The field as it can stand in a message: one line of ASCII, cut. Returns out. */
#define HISTORY_SHOWN_BYTES 48u
const char *history_shown(struct history_field field, char out[HISTORY_SHOWN_BYTES]);

struct history_field history_trim(const char *begin, const char *end);
bool history_is(struct history_field field, const char *word); /* without regard to case */

/* "2026.08.31 01:05:00", seconds may be missing. */
TW_MUST_CHECK tw_status history_time(const struct history_text *text, struct history_field field,
                                     int64_t *ret, struct tw_error *error);

/* "4 694.88", "0.8073753982300885" (rounded to 8 decimals); blanks and no-break spaces between
 * digits separate thousands. "" is UNSET. */
TW_MUST_CHECK tw_status history_number(const struct history_text *text, struct history_field field,
                                       tw_decimal *ret, struct tw_error *error);
/* As history_number(), not below 0; 0 is UNSET. */
TW_MUST_CHECK tw_status history_price(const struct history_text *text, struct history_field field,
                                      tw_decimal *ret, struct tw_error *error);
TW_MUST_CHECK tw_status history_symbol(const struct history_text *text, struct history_field field,
                                       char ret[TW_SYMBOL_BYTES], struct tw_error *error);

/* "Buy", "sell limit", ...: side and type into *row. False for any other word. */
bool history_side(struct history_field field, struct history_row *row);

#endif
