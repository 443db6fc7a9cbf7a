/* The MT4 Detailed Statement: HTML as one program writes it, read row by row.
 *
 * A table row with a number in its first cell is a trade, an order or money; the comment stands in
 * the title of that cell, or alone in the row after it. Sections begin with a row of one bold line.
 */
#include "history_rows.h"

#include <string.h>

enum section { BEFORE, CLOSED, OPEN_TRADES, WORKING_ORDERS, SUMMARY };

enum cell {
    TICKET,
    OPEN_TIME,
    TYPE,
    SIZE,
    ITEM,
    OPEN_PRICE,
    STOP_LOSS,
    TAKE_PROFIT,
    CLOSE_TIME,
    CLOSE_PRICE,
    CELLS_NEEDED,
    CELLS_MAX = 20,
};

static const struct {
    const char *heading;
    enum section section;
} sections[] = {
    {"Closed Transactions:", CLOSED},
    {"Open Trades:", OPEN_TRADES},
    {"Working Orders:", WORKING_ORDERS},
    {"Summary:", SUMMARY},
};

struct mt4 {
    const struct history_text *text;
    const char *cursor;
    enum section section;
    bool has_comment;       /* the last trade had its comment in the title */
    uint32_t last_trade;    /* index + 1 of the row that a comment row is about; 0 = none */
    const char *counted_to; /* lines are counted once, as rows come in order */
    uint32_t line;
};

struct table_row {
    const char *at;
    int n;
    struct history_field cells[CELLS_MAX]; /* without tags and blanks around */
    struct history_field title;            /* of the first cell */
};

/* ---- HTML ---- */

static const char *find(const char *at, const char *end, const char *word)
{
    size_t size = strlen(word);
    for (; (size_t)(end - at) >= size; at++)
        if (history_is((struct history_field){at, size}, word))
            return at;
    return NULL;
}

/* Is `at` the tag <word ...>? */
static bool is_tag(const char *at, const char *end, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(end - at) < size + 2 || *at != '<' ||
        !history_is((struct history_field){at + 1, size}, word))
        return false;
    return strchr(" \t\r\n>/", at[size + 1]) != NULL && at[size + 1] != '\0';
}

/* Behind the '>' of the tag at `at`; a '>' inside quotes does not end it. NULL = it does not end.
 */
static const char *tag_end(const char *at, const char *end)
{
    char quote = '\0';
    for (; at < end; at++) {
        if (quote != '\0')
            quote = *at == quote ? '\0' : quote;
        else if (*at == '"' || *at == '\'')
            quote = *at;
        else if (*at == '>')
            return at + 1;
    }
    return NULL;
}

static const char *find_tag(const char *at, const char *end, const char *word)
{
    for (; at < end && (at = memchr(at, '<', (size_t)(end - at))) != NULL; at++)
        if (is_tag(at, end, word))
            return at;
    return NULL;
}

/* What is between tags, blanks and &nbsp; around it taken off. A cell has at most one run of text.
 */
static struct history_field cell_text(const char *at, const char *end)
{
    struct history_field field = history_trim(at, at);
    while (at < end) {
        if (*at == '<') {
            const char *behind = tag_end(at, end);
            at = behind != NULL ? behind : end;
            continue;
        }
        const char *next = memchr(at, '<', (size_t)(end - at));
        field = history_trim(at, next != NULL ? next : end);
        if (field.size > 0 && !history_is(field, "&nbsp;"))
            return field;
        field.size = 0;
        at = next != NULL ? next : end;
    }
    return field;
}

static struct history_field title_of(const char *tag, const char *end)
{
    const char *at = find(tag, end, "title=\"");
    if (at == NULL)
        return (struct history_field){tag, 0};
    at += strlen("title=\"");
    const char *quote = memchr(at, '"', (size_t)(end - at));
    return history_trim(at, quote != NULL ? quote : at);
}

/* The next <tr> with its cells. False at the end; *ret_status says why. */
static bool next_row(struct mt4 *mt4, struct table_row *ret, struct tw_error *error,
                     tw_status *ret_status)
{
    const char *end = mt4->text->end;
    *ret_status = TW_OK;
    const char *row = find_tag(mt4->cursor, end, "tr");
    if (row == NULL)
        return false;
    const char *row_end = find_tag(row + 1, end, "/tr");
    if (row_end == NULL) {
        *ret_status =
            history_fail(mt4->text, row, error, "this row does not end; is the file truncated?");
        return false;
    }
    mt4->cursor = row_end;

    *ret = (struct table_row){.at = row};
    for (const char *cell = find_tag(row, row_end, "td"); cell != NULL;) {
        const char *text = tag_end(cell, row_end);
        if (text == NULL)
            break;
        const char *next = find_tag(text, row_end, "td");
        const char *text_end = find_tag(text, row_end, "/td");
        if (text_end == NULL || (next != NULL && next < text_end))
            text_end = next != NULL ? next : row_end;
        if (ret->n == 0)
            ret->title = title_of(cell, text);
        if (ret->n == CELLS_MAX)
            break; /* wider than any row that we read */
        ret->cells[ret->n++] = cell_text(text, text_end);
        cell = next;
    }
    return true;
}

/* ---- Rows ---- */

static bool parse_ticket(const char *at, const char *end, uint64_t *ret)
{
    uint64_t ticket = 0;
    const char *first = at;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(ticket, 10u, &ticket) ||
            __builtin_add_overflow(ticket, (uint64_t)(*at - '0'), &ticket))
            return false;
    *ret = ticket;
    return at > first && ticket > 0;
}

static bool is_ticket(struct history_field field, uint64_t *ret)
{
    const char *end = field.at + field.size;
    for (const char *at = field.at; at < end; at++)
        if (*at < '0' || *at > '9')
            return false;
    return parse_ticket(field.at, end, ret);
}

/* "to #5", "from #4[sl]", "close hedge by #7": the tickets that a comment links to. */
static void read_comment(struct history_field comment, struct history_row *row)
{
    const struct {
        const char *words;
        uint64_t *ret;
    } links[] = {{"to #", &row->to}, {"from #", &row->from}, {"close hedge by #", &row->hedge}};
    const char *end = comment.at + comment.size;
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        size_t size = strlen(links[i].words);
        if (comment.size > size &&
            history_is((struct history_field){comment.at, size}, links[i].words))
            (void)parse_ticket(comment.at + size, end, links[i].ret);
    }
}

static tw_status read_volume(const struct mt4 *mt4, struct history_field size,
                             struct history_row *row, struct tw_error *error)
{
    tw_status status = history_number(mt4->text, size, &row->volume, error);
    if (status != TW_OK)
        return status;
    /* 0 is looked into later: the second leg of a close-by has lost its size, its partner has it.
     */
    if (row->volume == TW_DECIMAL_UNSET || row->volume < 0)
        return history_fail(mt4->text, size.at, error, "found a size that is not above 0");
    return TW_OK;
}

static tw_status read_trade(const struct mt4 *mt4, const struct table_row *table,
                            struct history_row *row, struct tw_error *error)
{
    const struct {
        enum cell cell;
        tw_decimal *ret;
    } prices[] = {{OPEN_PRICE, &row->open_price},
                  {STOP_LOSS, &row->stop_loss},
                  {TAKE_PROFIT, &row->take_profit}};
    bool is_closed = mt4->section == CLOSED;

    tw_status status = history_time(mt4->text, table->cells[OPEN_TIME], &row->opened_s, error);
    if (status == TW_OK)
        status = history_symbol(mt4->text, table->cells[ITEM], row->symbol, error);
    if (status == TW_OK)
        status = read_volume(mt4, table->cells[SIZE], row, error);
    for (size_t i = 0; i < sizeof prices / sizeof prices[0] && status == TW_OK; i++)
        status = history_price(mt4->text, table->cells[prices[i].cell], prices[i].ret, error);

    row->closed_s = HISTORY_HELD; /* the other sections show the market there, not a close */
    if (status == TW_OK && is_closed)
        status = history_time(mt4->text, table->cells[CLOSE_TIME], &row->closed_s, error);
    if (status == TW_OK && is_closed)
        status = history_price(mt4->text, table->cells[CLOSE_PRICE], &row->close_price, error);
    row->closed_volume = row->volume;
    return status;
}

static uint32_t line_of(struct mt4 *mt4, const char *at)
{
    for (; mt4->counted_to < at; mt4->counted_to++)
        mt4->line += *mt4->counted_to == '\n';
    return mt4->line;
}

/* A row that begins with a ticket. */
static tw_status read_ticket_row(struct mt4 *mt4, const struct table_row *table, uint64_t ticket,
                                 struct history_rows *rows, struct tw_error *error)
{
    struct history_row side = {0}, *row;
    char found[HISTORY_SHOWN_BYTES];
    mt4->last_trade = 0;
    if (table->n < TYPE + 1)
        return history_fail(mt4->text, table->at, error, "found %d cells, expected a trade with %d",
                            table->n, CELLS_NEEDED);
    bool is_trade = history_side(table->cells[TYPE], &side);
    /* Money: a balance or credit row has its comment where the size would be; a summary of deleted
     * months is a "buy" of "profit". */
    bool is_money = !is_trade && table->n < CELLS_NEEDED;
    bool is_summary = is_trade && table->n > ITEM && history_is(table->cells[ITEM], "profit");
    if (is_money || is_summary) {
        rows->skipped++;
        return TW_OK;
    }
    if (!is_trade)
        return history_fail(
            mt4->text, table->cells[TYPE].at, error,
            "found type \"%s\", expected buy, sell, buy limit, sell stop or the like",
            history_shown(table->cells[TYPE], found));
    if (table->n < CELLS_NEEDED)
        return history_fail(mt4->text, table->at, error,
                            "found %d cells, expected a trade with at least %d", table->n,
                            CELLS_NEEDED);

    tw_status status = history_rows_add(rows, &row, error);
    if (status != TW_OK)
        return status;
    row->at = table->at;
    row->line = line_of(mt4, table->at);
    row->ticket = ticket;
    row->is_sell = side.is_sell;
    row->is_order = side.is_order;
    row->type = side.type;
    mt4->last_trade = rows->n;
    mt4->has_comment = table->title.size > 0;
    read_comment(table->title, row);
    return read_trade(mt4, table, row, error);
}

static tw_status read_row(struct mt4 *mt4, const struct table_row *table, struct history_rows *rows,
                          struct tw_error *error)
{
    uint64_t ticket;
    if (table->n == 0)
        return TW_OK;
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        if (history_is(table->cells[0], sections[i].heading)) {
            mt4->section = sections[i].section;
            mt4->last_trade = 0;
            return TW_OK;
        }
    if (mt4->section == BEFORE || mt4->section == SUMMARY)
        return TW_OK;
    if (is_ticket(table->cells[0], &ticket))
        return read_ticket_row(mt4, table, ticket, rows, error);

    /* A comment, totals or column names. */
    bool is_comment = table->n <= 3 && table->cells[0].size == 0 && mt4->last_trade != 0;
    if (is_comment && !mt4->has_comment)
        read_comment(table->cells[table->n - 1], &rows->rows[mt4->last_trade - 1]);
    mt4->last_trade = 0;
    return TW_OK;
}

tw_status history_mt4_read(const struct history_text *text, struct history_rows *rows,
                           struct tw_error *error)
{
    struct mt4 mt4 = {.text = text, .cursor = text->begin, .counted_to = text->begin, .line = 1};
    struct table_row table;
    tw_status status;
    while (next_row(&mt4, &table, error, &status)) {
        status = read_row(&mt4, &table, rows, error);
        if (status != TW_OK)
            return status;
    }
    if (status != TW_OK)
        return status;
    if (mt4.section == BEFORE)
        return history_fail(
            text, text->begin, error,
            "no \"Closed Transactions:\", expected the HTML of an MT4 Detailed Statement");
    if (mt4.section != SUMMARY)
        return history_fail(text, text->end, error,
                            "the file ends before \"Summary:\"; is it truncated?");
    return TW_OK;
}
