/* picture.c - what an account holds: asked for as a whole, and followed by executions in between. */
#include "fix.h"

#include <tradewake/base/log.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Positions. ---- */

struct fix_position *fix_position_find(const struct fix_positions *positions, const char *id)
{
    for (size_t i = 0; i < positions->n; i++)
        if (strcmp(positions->list[i].id, id) == 0)
            return &positions->list[i];
    return NULL;
}

static struct fix_position *position_add(struct fix_positions *positions)
{
    if (positions->n == positions->room) {
        size_t room = positions->room > 0 ? positions->room * 2 : 8;
        struct fix_position *grown = realloc(positions->list, room * sizeof *grown);
        if (grown == NULL)
            return NULL;
        positions->list = grown;
        positions->room = room;
    }
    struct fix_position *position = &positions->list[positions->n++];
    *position = (struct fix_position){.side = TW_SIDE_NONE};
    return position;
}

static void position_remove(struct fix_positions *positions, struct fix_position *position)
{
    *position = positions->list[--positions->n];
}

struct fix_position *fix_position_book(struct fix_positions *positions, const struct fix_order *order, bool is_netting,
                                       tw_decimal units, struct fix_position *ret_gone)
{
    const char *id = is_netting ? order->symbol : order->position_id;
    *ret_gone = (struct fix_position){.side = TW_SIDE_NONE};
    if (id[0] == '\0')
        return NULL;
    struct fix_position *position = fix_position_find(positions, id);
    if (position == NULL) {
        bool opens = units > 0 && (is_netting || (order->op != TW_OP_CLOSE && !order->names_position));
        position = opens ? position_add(positions) : NULL;
        if (position == NULL)
            return NULL;
        snprintf(position->id, sizeof position->id, "%s", id);
        snprintf(position->symbol, sizeof position->symbol, "%s", order->symbol);
        snprintf(position->client_order_id, sizeof position->client_order_id, "%s", order->is_ours ? order->id : "");
        position->side = order->side;
        position->price = order->average;
    }
    tw_decimal held = position->units + (order->side == position->side ? units : -units);
    if (held < 0 && is_netting) {
        held = -held;
        position->side = tw_side_opposite(position->side);
    }
    position->units = held;
    if (held > 0) {
        if (order->id[0] != '\0' && strcmp(order->id, position->client_order_id) == 0)
            position->price = order->average; /* its own order goes on filling */
        return position;
    }
    *ret_gone = *position;
    ret_gone->units = 0;
    position_remove(positions, position);
    return NULL;
}

bool fix_position_held(const struct fix_account *account, const struct fix_position *position, struct tw_held_position *ret)
{
    const struct fix_symbol *symbol = fix_venue_symbol_by_venue_name(account->venue, position->symbol);
    *ret = (struct tw_held_position){.side = position->side, .open_price = position->price};
    if (symbol == NULL || !fix_lots_of(symbol, position->units, &ret->volume))
        return false;
    snprintf(ret->symbol, sizeof ret->symbol, "%s", symbol->instrument.symbol);
    snprintf(ret->position_id, sizeof ret->position_id, "%s",
             account->venue->profile.is_netting ? symbol->instrument.symbol : position->id);
    if (strlen(position->client_order_id) < sizeof ret->client_order_id)
        snprintf(ret->client_order_id, sizeof ret->client_order_id, "%.*s", (int)sizeof ret->client_order_id - 1,
                 position->client_order_id);
    return true;
}

/* ---- The question. ---- */

void fix_picture_clear(struct fix_picture *picture)
{
    free(picture->positions.list);
    *picture = (struct fix_picture){.tries = picture->tries};
}

static void request_id(struct fix_account *account, char id[REQUEST_ID_BYTES])
{
    snprintf(id, REQUEST_ID_BYTES, "Q%llx", (unsigned long long)++account->adapter->n_requests);
}

bool fix_picture_ask(struct fix_account *account, struct fix_picture *picture)
{
    struct fix_terms terms = fix_account_terms(account, "");
    struct fix_body body;
    char why[WHY_BYTES];
    fix_picture_clear(picture);
    picture->tries++;
    picture->is_asked = true;
    picture->fills_before = account->fills;
    picture->positions_wanted = picture->orders_wanted = FIX_NO_CODE;
    picture->has_positions = !account->venue->profile.asks_positions;
    picture->has_orders = !account->venue->profile.asks_all;
    request_id(account, picture->positions_id);
    request_id(account, picture->orders_id);
    picture->stamp = account->adapter->n_requests;
    if (!picture->has_positions) {
        fix_compose_positions(&terms, picture->positions_id, &body);
        if (!fix_line_send(account->line, "AN", &body, NULL, why))
            return false;
    }
    if (!picture->has_orders) {
        fix_compose_mass_status(&terms, picture->orders_id, &body);
        if (!fix_line_send(account->line, "AF", &body, NULL, why))
            return false;
    }
    return true;
}

bool fix_picture_is_whole(const struct fix_picture *picture)
{
    return picture->is_asked && picture->has_positions && picture->has_orders && !picture->has_failed;
}

bool fix_picture_on_position(struct fix_account *account, struct fix_picture *picture, const struct fix_report *report)
{
    enum { VALID = 0, NO_POSITIONS = 2 };
    if (!picture->is_asked || report->request_id[0] == '\0' || strcmp(report->request_id, picture->positions_id) != 0)
        return false;
    if (report->result == NO_POSITIONS || report->total == 0) {
        picture->has_positions = true;
        return true;
    }
    if (report->result != VALID && report->result != FIX_NO_CODE) {
        picture->has_failed = true;
        return true;
    }
    if (report->total != FIX_NO_CODE)
        picture->positions_wanted = report->total;
    if (report->exec_type == 'O') /* the acknowledgement: what it announces is still to come */
        return true;
    picture->positions_got++;
    if (report->quantity == TW_DECIMAL_UNSET) {
        picture->has_failed = true; /* what cannot be read is not nothing */
        return true;
    }
    if (report->quantity > 0) {
        struct fix_position *position = position_add(&picture->positions);
        if (position == NULL) {
            picture->has_failed = true;
            return true;
        }
        bool is_netting = account->venue->profile.is_netting;
        snprintf(position->id, sizeof position->id, "%s", is_netting ? report->symbol : report->position_id);
        snprintf(position->symbol, sizeof position->symbol, "%s", report->symbol);
        snprintf(position->client_order_id, sizeof position->client_order_id, "%s", report->label);
        position->side = report->side;
        position->units = report->quantity;
        position->price = report->average != TW_DECIMAL_UNSET ? report->average : 0;
        if (position->id[0] == '\0')
            picture->has_failed = true; /* nobody could close it */
    }
    picture->has_positions = picture->positions_wanted >= 0 && picture->positions_got >= picture->positions_wanted;
    return true;
}

bool fix_picture_on_order(struct fix_account *account, struct fix_picture *picture, const struct fix_report *report,
                          struct fix_order *order)
{
    (void)account;
    if (!picture->is_asked || report->request_id[0] == '\0' || strcmp(report->request_id, picture->orders_id) != 0)
        return false;
    if (report->total == 0 || (order == NULL && report->ord_status == '8')) {
        picture->has_orders = true; /* none */
        return true;
    }
    if (report->total != FIX_NO_CODE)
        picture->orders_wanted = report->total;
    picture->orders_got++;
    if (order != NULL)
        order->listed = picture->stamp;
    picture->has_orders = report->is_last || (picture->orders_wanted >= 0 && picture->orders_got >= picture->orders_wanted);
    return true;
}

bool fix_picture_on_unread(struct fix_picture *picture, const char *id, bool is_empty)
{
    if (!picture->is_asked || id[0] == '\0')
        return false;
    if (strcmp(id, picture->positions_id) == 0)
        picture->has_positions = is_empty;
    else if (strcmp(id, picture->orders_id) == 0)
        picture->has_orders = is_empty;
    else
        return false;
    picture->has_failed |= !is_empty;
    return true;
}

/* ---- It is there. ---- */

static void owner_find(struct fix_account *account, struct fix_position *position)
{
    const struct fix_position *known = fix_position_find(&account->positions, position->id);
    if (position->client_order_id[0] != '\0')
        return;
    if (known != NULL) {
        memcpy(position->client_order_id, known->client_order_id, sizeof position->client_order_id);
        return;
    }
    if (account->venue->profile.is_netting)
        return;
    for (const struct fix_order *order = fix_orders_first(fix_line_orders(account->line)); order != NULL; order = order->older)
        if (order->is_ours && order->op != TW_OP_CLOSE && strcmp(order->position_id, position->id) == 0)
            memcpy(position->client_order_id, order->id, sizeof position->client_order_id);
}

static void position_tell(struct fix_account *account, const struct fix_position *position)
{
    struct tw_held_position held;
    if (!account->is_up || !fix_position_held(account, position, &held))
        return;
    account->host.on_position(account->host.context, &held,
                              position->units == 0 ? REASON(ALREADY_CLOSED) : REASON(UNSPECIFIED));
}

void fix_picture_take(struct fix_account *account, struct fix_picture *picture)
{
    struct fix_positions before = account->positions;
    bool had_picture = account->has_picture;
    for (size_t i = 0; i < picture->positions.n; i++)
        owner_find(account, &picture->positions.list[i]);
    account->has_orders = account->venue->profile.asks_all;
    if (!account->venue->profile.asks_positions)
        return;
    account->positions = picture->positions;
    picture->positions = (struct fix_positions){0};
    account->has_picture = true;
    account->is_stale = false;
    for (size_t i = 0; had_picture && i < account->positions.n; i++) {
        const struct fix_position *now = &account->positions.list[i], *was = fix_position_find(&before, now->id);
        if (was == NULL || was->units != now->units || was->side != now->side)
            position_tell(account, now);
    }
    for (size_t i = 0; had_picture && i < before.n; i++)
        if (fix_position_find(&account->positions, before.list[i].id) == NULL) {
            before.list[i].units = 0;
            position_tell(account, &before.list[i]);
        }
    free(before.list);
}
