/* The two CSV exports of MQL5 Signals. Columns are found by the header, a name that stands twice by
 * its occurrence: the first Time opens, the second closes. */
#include "history_rows.h"

#include <string.h>

enum column {
    OPEN_TIME,
    TYPE,
    VOLUME,
    SYMBOL,
    OPEN_PRICE,
    STOP_LOSS,
    TAKE_PROFIT,
    CLOSE_VOLUME,
    CLOSE_TIME,
    CLOSE_PRICE,
    COLUMN_COUNT,
};

enum { FIELDS_MAX = 32, ABSENT = -1 };

static const struct {
    const char *name;
    int occurrence;
} columns[COLUMN_COUNT] = {
    [OPEN_TIME] = {"Time", 1},    [TYPE] = {"Type", 1},           [VOLUME] = {"Volume", 1},
    [SYMBOL] = {"Symbol", 1},     [OPEN_PRICE] = {"Price", 1},    [STOP_LOSS] = {"S/L", 1},
    [TAKE_PROFIT] = {"T/P", 1},   [CLOSE_VOLUME] = {"Volume", 2}, [CLOSE_TIME] = {"Time", 2},
    [CLOSE_PRICE] = {"Price", 2},
};

struct csv {
    const struct history_text *text;
    const char *cursor; /* the next line */
    uint32_t line;      /* its number, from 1 */
    int place[COLUMN_COUNT];
    int n_columns;
};

struct line {
    const char *at;
    uint32_t number;
    int n;
    struct history_field fields[FIELDS_MAX];
};

/* The next line that is not empty. False at the end of the file. */
static bool next_line(struct csv *csv, struct line *ret, struct tw_error *error,
                      tw_status *ret_status)
{
    const char *end = csv->text->end;
    *ret_status = TW_OK;
    while (csv->cursor < end) {
        const char *begin = csv->cursor;
        const char *newline = memchr(begin, '\n', (size_t)(end - begin));
        const char *line_end = newline != NULL ? newline : end;
        csv->cursor = newline != NULL ? newline + 1 : end;
        csv->line++;
        if (history_trim(begin, line_end).size == 0)
            continue;

        *ret = (struct line){.at = begin, .number = csv->line};
        for (const char *at = begin;;) {
            const char *semicolon = memchr(at, ';', (size_t)(line_end - at));
            const char *field_end = semicolon != NULL ? semicolon : line_end;
            if (ret->n == FIELDS_MAX) {
                *ret_status =
                    history_fail(csv->text, at, error, "found more than %d fields", FIELDS_MAX);
                return false;
            }
            ret->fields[ret->n++] = history_trim(at, field_end);
            if (semicolon == NULL)
                return true;
            at = semicolon + 1;
        }
    }
    return false;
}

static int find_column(const struct line *header, const char *name, int occurrence)
{
    for (int i = 0; i < header->n; i++)
        if (history_is(header->fields[i], name) && --occurrence == 0)
            return i;
    return ABSENT;
}

static tw_status read_header(struct csv *csv, const struct line *header,
                             enum tw_history_format *ret_format, struct tw_error *error)
{
    for (int i = 0; i < COLUMN_COUNT; i++)
        csv->place[i] = find_column(header, columns[i].name, columns[i].occurrence);
    csv->n_columns = header->n;

    bool has_positions = csv->place[CLOSE_VOLUME] != ABSENT;
    for (int i = 0; i < COLUMN_COUNT; i++) {
        bool is_optional = i == STOP_LOSS || i == TAKE_PROFIT || i == CLOSE_VOLUME;
        if (csv->place[i] == ABSENT && !is_optional)
            return history_fail(
                csv->text, header->at, error,
                "found no %scolumn \"%s\", expected Time;Type;Volume;Symbol;Price;... of an MQL5 "
                "history or positions export, or the HTML of an MT4 statement",
                columns[i].occurrence == 2 ? "second " : "", columns[i].name);
    }
    *ret_format = has_positions ? TW_HISTORY_MQL5_POSITIONS : TW_HISTORY_MQL5_TRADES;
    return TW_OK;
}

static struct history_field field_of(const struct csv *csv, const struct line *line,
                                     enum column column)
{
    int place = csv->place[column];
    return place == ABSENT ? (struct history_field){line->at, 0} : line->fields[place];
}

/* The volumes: above 0, and what was closed not more than what was opened. */
static tw_status read_volumes(const struct csv *csv, const struct line *line,
                              struct history_row *row, struct tw_error *error)
{
    struct history_field opened = field_of(csv, line, VOLUME);
    struct history_field closed = field_of(csv, line, CLOSE_VOLUME);
    tw_status status = history_number(csv->text, opened, &row->volume, error);
    if (status == TW_OK)
        status = history_number(csv->text, closed, &row->closed_volume, error);
    if (status != TW_OK)
        return status;
    if (row->volume == TW_DECIMAL_UNSET || row->volume <= 0)
        return history_fail(csv->text, opened.at, error, "found a volume that is not above 0");
    if (row->closed_volume == TW_DECIMAL_UNSET)
        row->closed_volume = row->volume;
    if (row->closed_volume <= 0 || row->closed_volume > row->volume)
        return history_fail(csv->text, closed.at, error,
                            "found a closed volume that is not above 0 and at most the opened one");
    return TW_OK;
}

static tw_status read_trade(const struct csv *csv, const struct line *line, struct history_row *row,
                            struct tw_error *error)
{
    const struct {
        enum column column;
        tw_decimal *ret;
    } prices[] = {{OPEN_PRICE, &row->open_price},
                  {STOP_LOSS, &row->stop_loss},
                  {TAKE_PROFIT, &row->take_profit},
                  {CLOSE_PRICE, &row->close_price}};
    row->at = line->at;
    row->line = line->number;
    tw_status status =
        history_time(csv->text, field_of(csv, line, OPEN_TIME), &row->opened_s, error);
    if (status == TW_OK)
        status = read_volumes(csv, line, row, error);
    if (status == TW_OK)
        status = history_symbol(csv->text, field_of(csv, line, SYMBOL), row->symbol, error);
    for (size_t i = 0; i < sizeof prices / sizeof prices[0] && status == TW_OK; i++)
        status =
            history_price(csv->text, field_of(csv, line, prices[i].column), prices[i].ret, error);
    if (status != TW_OK)
        return status;

    struct history_field closed = field_of(csv, line, CLOSE_TIME);
    row->closed_s = HISTORY_HELD;
    if (closed.size > 0)
        status = history_time(csv->text, closed, &row->closed_s, error);
    return status;
}

static tw_status read_line(const struct csv *csv, const struct line *line,
                           struct history_rows *rows, struct tw_error *error)
{
    struct history_row side = {0}, *row;
    char found[HISTORY_SHOWN_BYTES];
    int64_t ignored;
    if (line->n != csv->n_columns)
        return history_fail(csv->text, line->fields[line->n - 1].at, error,
                            "the row has %d fields, expected %d as in the header%s", line->n,
                            csv->n_columns,
                            line->n < csv->n_columns ? "; is the file truncated?" : "");

    struct history_field type = field_of(csv, line, TYPE);
    bool is_trade = history_side(type, &side);
    /* Deposits, corrections and the like have a time, a type and an amount. */
    if (!is_trade && type.size > 0 && field_of(csv, line, SYMBOL).size == 0) {
        rows->skipped++;
        return history_time(csv->text, field_of(csv, line, OPEN_TIME), &ignored, error);
    }
    if (!is_trade)
        return history_fail(
            csv->text, type.at, error,
            "found type \"%s\", expected Buy, Sell, Buy Limit, Sell Stop or the like",
            history_shown(type, found));

    tw_status status = history_rows_add(rows, &row, error);
    if (status != TW_OK)
        return status;
    row->is_sell = side.is_sell;
    row->is_order = side.is_order;
    row->type = side.type;
    return read_trade(csv, line, row, error);
}

tw_status history_csv_read(const struct history_text *text, struct history_rows *rows,
                           enum tw_history_format *ret_format, struct tw_error *error)
{
    struct csv csv = {.text = text, .cursor = text->begin};
    struct line line;
    tw_status status;
    if (!next_line(&csv, &line, error, &status))
        return status != TW_OK ? status
                               : history_fail(text, text->begin, error, "the file is empty");

    status = read_header(&csv, &line, ret_format, error);
    if (status != TW_OK)
        return status;
    while (next_line(&csv, &line, error, &status)) {
        status = read_line(&csv, &line, rows, error);
        if (status != TW_OK)
            return status;
    }
    return status;
}
