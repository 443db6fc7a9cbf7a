/* Fields of history files: times, numbers, symbols, and places in messages. */
#include "history_rows.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHOLE_DIGITS_MAX = 10, FRACTION_DIGITS = 8 };

uint32_t history_line(const struct history_text *text, const char *at)
{
    uint32_t line = 1;
    for (const char *byte = text->begin; byte < at; byte++)
        line += *byte == '\n';
    return line;
}

tw_status history_fail(const struct history_text *text, const char *at, struct tw_error *error,
                       const char *format, ...)
{
    char words[TW_ERROR_TEXT_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(words, sizeof words, format, values);
    va_end(values);

    const char *line_begin = at;
    while (line_begin > text->begin && line_begin[-1] != '\n')
        line_begin--;
    return tw_error_set(error, TW_INVALID, "%.200s:%u:%u: %.280s", text->name,
                        history_line(text, at), (unsigned)(at - line_begin) + 1, words);
}

const char *history_shown(struct history_field field, char out[HISTORY_SHOWN_BYTES])
{
    size_t used = 0;
    for (; used < field.size && used < HISTORY_SHOWN_BYTES - 4; used++) {
        unsigned char c = (unsigned char)field.at[used];
        out[used] = c < 0x20 || c > 0x7e ? '?' : (char)c;
    }
    memcpy(out + used, used < field.size ? "..." : "", used < field.size ? 4 : 1);
    return out;
}

tw_status history_rows_add(struct history_rows *rows, struct history_row **ret,
                           struct tw_error *error)
{
    if (rows->n == HISTORY_ROWS_MAX)
        return tw_error_set(error, TW_INVALID,
                            "more than %u trades, expected fewer; cut the file into parts",
                            HISTORY_ROWS_MAX);
    if (rows->n == rows->capacity) {
        uint32_t capacity = rows->capacity > 0 ? 2 * rows->capacity : 256;
        struct history_row *grown = realloc(rows->rows, capacity * sizeof *grown);
        if (grown == NULL)
            return tw_error_set(error, TW_NO_MEMORY, "no memory for %u trades", capacity);
        rows->rows = grown;
        rows->capacity = capacity;
    }
    *ret = &rows->rows[rows->n++];
    **ret = (struct history_row){.type = TW_HISTORY_MARKET,
                                 .open_price = TW_DECIMAL_UNSET,
                                 .close_price = TW_DECIMAL_UNSET,
                                 .stop_loss = TW_DECIMAL_UNSET,
                                 .take_profit = TW_DECIMAL_UNSET};
    return TW_OK;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The bytes of a blank at `at`: a space, a no-break space in UTF-8 (wide or narrow) or in
 * Windows-1252; 0 = none. */
static size_t blank_size(const char *at, const char *end)
{
    static const struct {
        const char *bytes;
        size_t size;
    } blanks[] = {{" ", 1},        {"\t", 1},           {"\r", 1},  {"\n", 1},
                  {"\xc2\xa0", 2}, {"\xe2\x80\xaf", 3}, {"\xa0", 1}};
    for (size_t i = 0; i < sizeof blanks / sizeof blanks[0]; i++)
        if ((size_t)(end - at) >= blanks[i].size &&
            memcmp(at, blanks[i].bytes, blanks[i].size) == 0)
            return blanks[i].size;
    return 0;
}

struct history_field history_trim(const char *begin, const char *end)
{
    for (size_t n; begin < end && (n = blank_size(begin, end)) > 0;)
        begin += n;
    for (bool again = true; again && begin < end;) {
        again = false;
        for (size_t n = 1; n <= 3 && (size_t)(end - begin) >= n && !again; n++)
            if (blank_size(end - n, end) == n) {
                end -= n;
                again = true;
            }
    }
    return (struct history_field){begin, (size_t)(end - begin)};
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool history_is(struct history_field field, const char *word)
{
    if (strlen(word) != field.size)
        return false;
    for (size_t i = 0; i < field.size; i++)
        if (lower(field.at[i]) != lower(word[i]))
            return false;
    return true;
}

/* So many digits as one number; *cursor moves behind them. */
static bool digits(const char **cursor, const char *end, int count_min, int count_max, int *ret)
{
    int value = 0, count = 0;
    const char *at = *cursor;
    for (; at < end && is_digit(*at) && count < count_max; at++, count++)
        value = value * 10 + (*at - '0');
    if (count < count_min)
        return false;
    *cursor = at;
    *ret = value;
    return true;
}

static bool mark(const char **cursor, const char *end, const char *marks)
{
    if (*cursor == end || strchr(marks, **cursor) == NULL || **cursor == '\0')
        return false;
    ++*cursor;
    return true;
}

/* Days since 1970-01-01 of a day of the Gregorian calendar. */
static int64_t civil_days(int year, int month, int day)
{
    int64_t y =
        month <= 2 ? year - 1 : year; /* the year begins in March, so that leap days end it */
    int64_t era = y / 400, year_of_era = y % 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static bool parse_time(const char *at, const char *end, int64_t *ret)
{
    int year, month, day, hour, minute, second = 0;
    bool good =
        digits(&at, end, 4, 4, &year) && mark(&at, end, ".-") && digits(&at, end, 1, 2, &month) &&
        mark(&at, end, ".-") && digits(&at, end, 1, 2, &day) && mark(&at, end, " T") &&
        digits(&at, end, 1, 2, &hour) && mark(&at, end, ":") && digits(&at, end, 2, 2, &minute);
    if (good && at < end)
        good = mark(&at, end, ":") && digits(&at, end, 2, 2, &second);
    if (!good || at != end)
        return false;
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 ||
        second > 59)
        return false;
    *ret = civil_days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
    return true;
}

tw_status history_time(const struct history_text *text, struct history_field field, int64_t *ret,
                       struct tw_error *error)
{
    char found[HISTORY_SHOWN_BYTES];
    if (parse_time(field.at, field.at + field.size, ret))
        return TW_OK;
    return history_fail(text, field.at, error,
                        "found \"%s\", expected a time such as 2026.08.31 01:05:00",
                        history_shown(field, found));
}

/* Whole digits with blanks between thousands. */
static bool parse_whole(const char **cursor, const char *end, int64_t *ret)
{
    const char *at = *cursor;
    int64_t value = 0;
    int count = 0, group = -1; /* digits since the last blank; -1 = no blank yet */
    while (at < end) {
        if (is_digit(*at)) {
            value = value * 10 + (*at++ - '0');
            count += value > 0;
            group += group >= 0;
            if (count > WHOLE_DIGITS_MAX)
                return false;
            continue;
        }
        size_t blank = blank_size(at, end);
        if (blank == 0)
            break;
        if (at == *cursor || (group >= 0 && group != 3))
            return false;
        group = 0;
        at += blank;
    }
    if (at == *cursor || (group >= 0 && group != 3))
        return false;
    *cursor = at;
    *ret = value;
    return true;
}

static bool parse_number(struct history_field field, tw_decimal *ret)
{
    const char *at = field.at, *end = field.at + field.size;
    bool is_negative = at < end && *at == '-';
    at += is_negative;
    int64_t units = 0;
    if (!parse_whole(&at, end, &units))
        return false;

    int fraction = 0;
    bool rounds_up = false;
    if (at < end && *at == '.') {
        const char *first = ++at;
        for (; at < end && is_digit(*at); at++, fraction++) {
            if (fraction < FRACTION_DIGITS)
                units = units * 10 + (*at - '0');
            else if (fraction == FRACTION_DIGITS)
                rounds_up = *at >= '5'; /* half away from zero: the next digit alone decides */
        }
        if (at == first)
            return false;
    }
    if (at != end)
        return false;
    for (; fraction < FRACTION_DIGITS; fraction++)
        units *= 10;
    units += rounds_up;
    *ret = is_negative ? -units : units;
    return true;
}

tw_status history_number(const struct history_text *text, struct history_field field,
                         tw_decimal *ret, struct tw_error *error)
{
    char found[HISTORY_SHOWN_BYTES];
    if (field.size == 0) {
        *ret = TW_DECIMAL_UNSET;
        return TW_OK;
    }
    if (parse_number(field, ret))
        return TW_OK;
    return history_fail(text, field.at, error, "found \"%s\", expected a number such as 4 694.88",
                        history_shown(field, found));
}

tw_status history_price(const struct history_text *text, struct history_field field,
                        tw_decimal *ret, struct tw_error *error)
{
    tw_decimal price;
    tw_status status = history_number(text, field, &price, error);
    if (status != TW_OK)
        return status;
    if (price != TW_DECIMAL_UNSET && price < 0)
        return history_fail(text, field.at, error,
                            "found a price below 0, expected one above, or 0 for none");
    *ret = price == 0 ? TW_DECIMAL_UNSET : price;
    return TW_OK;
}

/* One character of UTF-8 that is none of control; its bytes, or 0. */
static size_t character_size(const char *at, const char *end)
{
    const unsigned char *byte = (const unsigned char *)at;
    size_t left = (size_t)(end - at);
    if (byte[0] < 0x80)
        return byte[0] >= 0x20 && byte[0] != 0x7f ? 1 : 0;
    size_t size = byte[0] >= 0xc2 && byte[0] < 0xe0   ? 2
                  : byte[0] >= 0xe0 && byte[0] < 0xf0 ? 3
                  : byte[0] >= 0xf0 && byte[0] < 0xf5 ? 4
                                                      : 0;
    if (size == 0 || size > left)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((byte[i] & 0xc0) != 0x80)
            return 0;
    bool is_overlong = (byte[0] == 0xe0 && byte[1] < 0xa0) || (byte[0] == 0xf0 && byte[1] < 0x90);
    bool is_surrogate = byte[0] == 0xed && byte[1] >= 0xa0;
    bool is_beyond = byte[0] == 0xf4 && byte[1] >= 0x90;
    bool is_c1 = byte[0] == 0xc2 && byte[1] < 0xa0;
    return is_overlong || is_surrogate || is_beyond || is_c1 ? 0 : size;
}

tw_status history_symbol(const struct history_text *text, struct history_field field,
                         char ret[TW_SYMBOL_BYTES], struct tw_error *error)
{
    char found[HISTORY_SHOWN_BYTES];
    const char *end = field.at + field.size;
    bool good = field.size > 0 && field.size <= TW_SYMBOL_CHARS_MAX;
    for (const char *at = field.at; good && at < end;) {
        size_t size = character_size(at, end);
        good = size > 0;
        at += size;
    }
    if (!good)
        return history_fail(text, field.at, error,
                            "found \"%s\", expected a symbol of 1 to %u bytes of UTF-8",
                            history_shown(field, found), TW_SYMBOL_CHARS_MAX);
    memcpy(ret, field.at, field.size);
    ret[field.size] = '\0';
    return TW_OK;
}

bool history_side(struct history_field field, struct history_row *row)
{
    static const struct {
        const char *word;
        bool is_sell, is_order;
        enum tw_history_type type;
    } words[] = {
        {"buy", false, false, TW_HISTORY_MARKET},     {"sell", true, false, TW_HISTORY_MARKET},
        {"buy limit", false, true, TW_HISTORY_LIMIT}, {"sell limit", true, true, TW_HISTORY_LIMIT},
        {"buy stop", false, true, TW_HISTORY_STOP},   {"sell stop", true, true, TW_HISTORY_STOP},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (history_is(field, words[i].word)) {
            row->is_sell = words[i].is_sell;
            row->is_order = words[i].is_order;
            row->type = words[i].type;
            return true;
        }
    return false;
}
