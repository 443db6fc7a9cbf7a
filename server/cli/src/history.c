/* Rows to events: chains of partial closes, and the order of it all. */
#include <tradewake/cli/history.h>

#include "history_rows.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An event on its way into order. */
struct draft {
    struct tw_history_event event;
    uint32_t chain;  /* events of one position or order share it */
    bool is_late;    /* nothing tells where in its second it belongs: behind what begins there */
    uint64_t ticket; /* place within its second; of what is not late */
    uint32_t sequence;
};

struct building {
    const struct history_text *text;
    struct history_row *rows;
    uint32_t n_rows;
    uint32_t *by_ticket; /* rows in the order of their tickets */
    uint32_t *child;     /* by row: the row of the remainder; NONE = there is none */
    uint32_t *parent;
    struct draft *drafts;
    uint32_t n_drafts, capacity;
    uint32_t moved;
    uint32_t rows_built;
};

/* ---- Chains ---- */

static int by_ticket_order(const void *a, const void *b, void *context)
{
    const struct history_row *rows = context;
    uint64_t left = rows[*(const uint32_t *)a].ticket, right = rows[*(const uint32_t *)b].ticket;
    return (left > right) - (left < right);
}

static uint32_t row_of_ticket(const struct building *building, uint64_t ticket)
{
    uint32_t low = 0, high = building->n_rows;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (building->rows[building->by_ticket[middle]].ticket < ticket)
            low = middle + 1;
        else
            high = middle;
    }
    bool is_found = low < building->n_rows && ticket != 0 &&
                    building->rows[building->by_ticket[low]].ticket == ticket;
    return is_found ? building->by_ticket[low] : TW_HISTORY_NONE;
}

static tw_status sort_tickets(struct building *building, struct tw_error *error)
{
    for (uint32_t i = 0; i < building->n_rows; i++)
        building->by_ticket[i] = i;
    qsort_r(building->by_ticket, building->n_rows, sizeof building->by_ticket[0], by_ticket_order,
            building->rows);
    for (uint32_t i = 1; i < building->n_rows; i++) {
        const struct history_row *first = &building->rows[building->by_ticket[i - 1]];
        const struct history_row *second = &building->rows[building->by_ticket[i]];
        if (first->ticket != 0 && first->ticket == second->ticket)
            return history_fail(building->text, second->at, error,
                                "ticket %" PRIu64 " stands twice, also in line %" PRIu32,
                                second->ticket, first->line);
    }
    return TW_OK;
}

/* The remainder of `part` is `rest`. A link that is known already, from its other end, is fine. */
static tw_status link_rows(struct building *building, uint32_t part, uint32_t rest,
                           struct tw_error *error)
{
    const struct history_row *a = &building->rows[part], *b = &building->rows[rest];
    if (building->child[part] == rest)
        return TW_OK;
    if (building->child[part] != TW_HISTORY_NONE || building->parent[rest] != TW_HISTORY_NONE ||
        part == rest)
        return history_fail(building->text, a->at, error,
                            "tickets %" PRIu64 " and %" PRIu64
                            " are linked, but one of them is part of another chain",
                            a->ticket, b->ticket);
    if (a->is_order || b->is_order || a->is_sell != b->is_sell || strcmp(a->symbol, b->symbol) != 0)
        return history_fail(building->text, a->at, error,
                            "tickets %" PRIu64 " and %" PRIu64
                            " are linked, but are not of one symbol and side",
                            a->ticket, b->ticket);
    if (a->closed_s == HISTORY_HELD)
        return history_fail(building->text, a->at, error,
                            "ticket %" PRIu64 " is open still, but %" PRIu64
                            " says to be its remainder",
                            a->ticket, b->ticket);
    building->child[part] = rest;
    building->parent[rest] = part;
    return TW_OK;
}

/* A ticket in the middle of a chain names only one of its neighbours: both ends are asked. A link
 * to a ticket outside the file (its period was cut) is none. */
static tw_status link_chains(struct building *building, struct tw_error *error)
{
    tw_status status = sort_tickets(building, error);
    for (uint32_t i = 0; i < building->n_rows && status == TW_OK; i++) {
        uint32_t rest = row_of_ticket(building, building->rows[i].to);
        uint32_t part = row_of_ticket(building, building->rows[i].from);
        if (rest != TW_HISTORY_NONE)
            status = link_rows(building, i, rest, error);
        if (part != TW_HISTORY_NONE && status == TW_OK)
            status = link_rows(building, part, i, error);
    }
    return status;
}

/* The second leg of a close-by is written with size 0: what it closed is its partner's size. */
static tw_status restore_volumes(struct building *building, struct tw_error *error)
{
    for (uint32_t i = 0; i < building->n_rows; i++) {
        struct history_row *row = &building->rows[i];
        uint32_t partner = row_of_ticket(building, row->hedge);
        if (row->volume == 0 && partner != TW_HISTORY_NONE)
            row->volume = building->rows[partner].volume;
        if (row->volume <= 0)
            return history_fail(building->text, row->at, error, "found a size that is not above 0");
        if (row->ticket != 0)
            row->closed_volume = row->volume;
    }
    return TW_OK;
}

/* ---- Events ---- */

static void subject_text(const struct history_row *row, char text[TW_HISTORY_SUBJECT_BYTES])
{
    if (row->ticket != 0)
        snprintf(text, TW_HISTORY_SUBJECT_BYTES, "%" PRIu64, row->ticket);
    else
        snprintf(text, TW_HISTORY_SUBJECT_BYTES, "row%" PRIu32, row->line);
}

/* Room for every event there can be was made before: two per row. */
static struct tw_history_event *draft_add(struct building *building, const struct history_row *row,
                                          enum tw_history_kind kind, uint32_t chain)
{
    assert(building->n_drafts < building->capacity);
    struct draft *draft = &building->drafts[building->n_drafts];
    *draft = (struct draft){
        .event = {.kind = kind,
                  .line = row->line,
                  .at_s = row->opened_s,
                  .previous = TW_HISTORY_NONE,
                  .is_sell = row->is_sell,
                  .type = row->type,
                  .volume = row->volume,
                  .remaining_volume = TW_DECIMAL_UNSET,
                  .price = row->open_price,
                  .stop_loss = TW_DECIMAL_UNSET,
                  .take_profit = TW_DECIMAL_UNSET},
        .chain = chain,
        /* The exports begin with the newest, and rows without tickets have nothing else to go by.
         */
        .ticket = row->ticket != 0 ? row->ticket : UINT64_MAX - row->line,
        .sequence = building->n_drafts,
    };
    building->n_drafts++;
    memcpy(draft->event.symbol, row->symbol, sizeof row->symbol);
    subject_text(row, draft->event.subject);
    return &draft->event;
}

/* What ends something: not before `after_s`, when what it ends was there. Returns when. */
static int64_t end_at(struct building *building, struct tw_history_event *event, int64_t at_s,
                      int64_t after_s)
{
    building->moved += at_s < after_s;
    event->at_s = at_s < after_s ? after_s : at_s;
    building->drafts[building->n_drafts - 1].is_late = true;
    return event->at_s;
}

static void build_order(struct building *building, uint32_t index)
{
    const struct history_row *row = &building->rows[index];
    struct tw_history_event *place = draft_add(building, row, TW_HISTORY_PLACE, index);
    place->stop_loss = row->stop_loss;
    place->take_profit = row->take_profit;
    building->rows_built++;
    if (row->closed_s == HISTORY_HELD)
        return;
    struct tw_history_event *cancel = draft_add(building, row, TW_HISTORY_CANCEL, index);
    cancel->price = TW_DECIMAL_UNSET; /* the file tells the market's, which is not the order's */
    end_at(building, cancel, row->closed_s, row->opened_s);
}

/* One part of a chain closed: in part while something remains, which may have a ticket of its own.
 */
static int64_t build_close(struct building *building, uint32_t root, uint32_t index,
                           tw_decimal remaining, uint64_t *ticket, int64_t after_s)
{
    const struct history_row *row = &building->rows[index];
    uint32_t rest = building->child[index];
    struct tw_history_event *close =
        draft_add(building, row, remaining > 0 ? TW_HISTORY_PARTIAL_CLOSE : TW_HISTORY_CLOSE, root);
    close->volume = row->closed_volume;
    close->price = row->close_price;
    int64_t at_s = end_at(building, close, row->closed_s, after_s);
    if (remaining > 0)
        close->remaining_volume = remaining;
    if (rest == TW_HISTORY_NONE)
        return at_s;

    /* The remainder's ticket tells where in its second this happened. */
    struct draft *draft = &building->drafts[building->n_drafts - 1];
    if (building->rows[rest].ticket > *ticket)
        *ticket = building->rows[rest].ticket;
    draft->ticket = *ticket;
    draft->is_late = false;
    subject_text(&building->rows[rest], close->remainder);
    return at_s;
}

static tw_status build_position(struct building *building, uint32_t root, struct tw_error *error)
{
    const struct history_row *row = &building->rows[root];
    tw_decimal remaining = 0;
    for (uint32_t at = root; at != TW_HISTORY_NONE; at = building->child[at])
        if (!tw_decimal_add(remaining, building->rows[at].volume, &remaining))
            return history_fail(building->text, row->at, error,
                                "the sizes of this chain are too large");

    struct tw_history_event *open = draft_add(building, row, TW_HISTORY_OPEN, root);
    open->volume = remaining;
    open->stop_loss = row->stop_loss;
    open->take_profit = row->take_profit;

    int64_t at_s = row->opened_s;
    uint64_t ticket = row->ticket;
    for (uint32_t at = root; at != TW_HISTORY_NONE; at = building->child[at]) {
        building->rows_built++;
        if (building->rows[at].closed_s == HISTORY_HELD)
            break; /* the last of its chain: link_rows() has seen to it */
        remaining -= building->rows[at].closed_volume;
        at_s = build_close(building, root, at, remaining, &ticket, at_s);
    }
    return TW_OK;
}

static tw_status build_events(struct building *building, struct tw_error *error)
{
    for (uint32_t i = 0; i < building->n_rows; i++) {
        tw_status status = TW_OK;
        if (building->rows[i].is_order)
            build_order(building, i);
        else if (building->parent[i] == TW_HISTORY_NONE)
            status = build_position(building, i, error);
        if (status != TW_OK)
            return status;
    }
    /* A chain that is a ring has no root, and its rows were not reached. */
    if (building->rows_built == building->n_rows)
        return TW_OK;
    for (uint32_t i = 0; i < building->n_rows; i++)
        if (building->parent[i] != TW_HISTORY_NONE) {
            uint32_t at = i;
            for (uint32_t steps = 0; at != TW_HISTORY_NONE && steps <= building->n_rows; steps++)
                at = building->parent[at];
            if (at != TW_HISTORY_NONE)
                return history_fail(building->text, building->rows[i].at, error,
                                    "ticket %" PRIu64 " is the remainder of itself",
                                    building->rows[i].ticket);
        }
    assert(!"every row is in a chain or in a ring");
    return TW_INVALID;
}

/* ---- Order ---- */

static int by_time(const void *a, const void *b)
{
    const struct draft *left = a, *right = b;
    if (left->event.at_s != right->event.at_s)
        return left->event.at_s < right->event.at_s ? -1 : 1;
    if (left->is_late != right->is_late)
        return left->is_late ? 1 : -1;
    if (left->ticket != right->ticket)
        return left->ticket < right->ticket ? -1 : 1;
    return (left->sequence > right->sequence) - (left->sequence < right->sequence);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static tw_status collect_symbols(struct tw_history *history, struct tw_error *error)
{
    history->symbols = calloc(history->n_events, sizeof *history->symbols);
    if (history->symbols == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for %" PRIu32 " symbols",
                            history->n_events);
    for (uint32_t i = 0; i < history->n_events; i++)
        memcpy(history->symbols[i], history->events[i].symbol, sizeof *history->symbols);
    qsort(history->symbols, history->n_events, sizeof *history->symbols, by_text);
    for (uint32_t i = 0; i < history->n_events; i++) {
        bool is_new =
            i == 0 || strcmp(history->symbols[history->n_symbols - 1], history->symbols[i]) != 0;
        if (is_new)
            memmove(history->symbols[history->n_symbols++], history->symbols[i],
                    sizeof *history->symbols);
    }
    return TW_OK;
}

/* Drafts in order become the events of the history. */
static tw_status finish(struct building *building, struct tw_history *history,
                        struct tw_error *error)
{
    uint32_t *last = building->by_ticket; /* its work is done: now the last event by chain */
    qsort(building->drafts, building->n_drafts, sizeof building->drafts[0], by_time);
    history->events = calloc(building->n_drafts, sizeof *history->events);
    if (history->events == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for %" PRIu32 " events",
                            building->n_drafts);

    for (uint32_t i = 0; i < building->n_rows; i++)
        last[i] = TW_HISTORY_NONE;
    for (uint32_t i = 0; i < building->n_drafts; i++) {
        struct draft *draft = &building->drafts[i];
        struct tw_history_event *event = &history->events[history->n_events++];
        *event = draft->event;
        event->previous = last[draft->chain];
        last[draft->chain] = i;
        history->by_kind[event->kind]++;
    }
    history->positions_held =
        history->by_kind[TW_HISTORY_OPEN] - history->by_kind[TW_HISTORY_CLOSE];
    history->orders_held = history->by_kind[TW_HISTORY_PLACE] - history->by_kind[TW_HISTORY_CANCEL];
    history->events_moved = building->moved;
    return collect_symbols(history, error);
}

static tw_status build(const struct history_text *text, struct history_rows *rows,
                       struct tw_history *history, struct tw_error *error)
{
    struct building building = {
        .text = text, .rows = rows->rows, .n_rows = rows->n, .capacity = 2 * rows->n};
    tw_status status = TW_NO_MEMORY;
    building.by_ticket = calloc(rows->n, sizeof *building.by_ticket);
    building.child = calloc(rows->n, sizeof *building.child);
    building.parent = calloc(rows->n, sizeof *building.parent);
    building.drafts = calloc(building.capacity, sizeof *building.drafts);
    if (building.by_ticket == NULL || building.child == NULL || building.parent == NULL ||
        building.drafts == NULL) {
        tw_error_set(error, TW_NO_MEMORY, "no memory for %" PRIu32 " trades", rows->n);
        goto done;
    }
    for (uint32_t i = 0; i < rows->n; i++)
        building.child[i] = building.parent[i] = TW_HISTORY_NONE;

    status = link_chains(&building, error);
    if (status == TW_OK)
        status = restore_volumes(&building, error);
    if (status == TW_OK)
        status = build_events(&building, error);
    if (status == TW_OK)
        status = finish(&building, history, error);

done:
    free(building.drafts);
    free(building.parent);
    free(building.child);
    free(building.by_ticket);
    return status;
}

/* ---- Reading ---- */

static bool starts_with(const struct history_text *text, const char *bytes, size_t size)
{
    return (size_t)(text->end - text->begin) >= size && memcmp(text->begin, bytes, size) == 0;
}

static tw_status read_rows(struct history_text *text, struct history_rows *rows,
                           enum tw_history_format *ret_format, struct tw_error *error)
{
    if (starts_with(text, "\xff\xfe", 2) || starts_with(text, "\xfe\xff", 2))
        return history_fail(text, text->begin, error,
                            "found UTF-16, expected UTF-8; save the file as UTF-8");
    if (starts_with(text, "\xef\xbb\xbf", 3))
        text->begin += 3;

    struct history_field all = history_trim(text->begin, text->end);
    if (all.size > 0 && all.at[0] == '<') {
        *ret_format = TW_HISTORY_MT4_STATEMENT;
        return history_mt4_read(text, rows, error);
    }
    return history_csv_read(text, rows, ret_format, error);
}

tw_status tw_history_read(const char *name, const char *bytes, size_t size, struct tw_history *ret,
                          struct tw_error *error)
{
    struct history_text text = {name, bytes, bytes + size};
    struct history_rows rows = {0};
    struct tw_history history = {0};

    tw_status status = read_rows(&text, &rows, &history.format, error);
    if (status == TW_OK && rows.n == 0)
        status = history_fail(&text, text.end, error, "found no trade and no order in the file");
    if (status == TW_OK)
        status = build(&text, &rows, &history, error);
    history.rows_skipped = rows.skipped;
    free(rows.rows);
    if (status != TW_OK) {
        tw_history_clear(&history);
        return status;
    }
    *ret = history;
    return TW_OK;
}

void tw_history_clear(struct tw_history *history)
{
    free(history->events);
    free(history->symbols);
    *history = (struct tw_history){0};
}

const char *tw_history_format_words(enum tw_history_format format)
{
    static const char *const words[] = {
        [TW_HISTORY_MQL5_TRADES] = "MQL5 history",
        [TW_HISTORY_MQL5_POSITIONS] = "MQL5 positions",
        [TW_HISTORY_MT4_STATEMENT] = "MT4 statement",
    };
    return words[format];
}

const char *tw_history_kind_word(enum tw_history_kind kind)
{
    static const char *const words[] = {
        [TW_HISTORY_OPEN] = "open",     [TW_HISTORY_PARTIAL_CLOSE] = "partial-close",
        [TW_HISTORY_CLOSE] = "close",   [TW_HISTORY_PLACE] = "place",
        [TW_HISTORY_CANCEL] = "cancel",
    };
    return words[kind];
}
