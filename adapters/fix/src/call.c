/* call.c - orders and questions of the host. Thread: reactor. */
#include "fix.h"

#include <tradewake/base/clock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PICTURE_TRIES = 3 };

/* ---- A call that is out. ---- */

static void ack_set(struct tw_adapter_call *call, enum tw_outcome outcome, tw_reason reason, const char *words)
{
    call->ack = (struct tw_ack){.outcome = outcome, .reason = reason, .remaining_volume = TW_DECIMAL_UNSET};
    snprintf(call->ack.broker_message, sizeof call->ack.broker_message, "%.90s", words);
}

static void not_sent(struct tw_adapter_call *call, enum tw_outcome outcome, tw_reason reason, const char *words)
{
    ack_set(call, outcome, reason, words);
    call->ack.not_sent = true;
    call->done(call);
}

static void flight_watch(struct fix_flight *flight, struct fix_order *order)
{
    if (flight->order != NULL)
        flight->order->waiting--;
    flight->order = order;
    if (order != NULL)
        order->waiting++;
}

/* Takes it down; what it was asked is in its call's ack. */
static void flight_land(struct fix_flight *flight)
{
    struct fix_account *account = flight->account;
    struct tw_adapter_call *call = flight->call;
    (void)tw_timer_stop(account->adapter->reactor, &call->timer);
    *(flight->previous != NULL ? &flight->previous->next : &account->flights) = flight->next;
    if (flight->next != NULL)
        flight->next->previous = flight->previous;
    flight_watch(flight, NULL);
    fix_picture_clear(&flight->picture);
    free(flight);
    call->done(call);
}

/* No answer comes. Where only the question before an order is out, the order has not been sent. */
static void flight_lose(struct fix_flight *flight, tw_reason reason, const char *words)
{
    bool is_unsent = flight->kind == FIX_FIRST;
    ack_set(flight->call, is_unsent ? TW_OUTCOME_RETRY_LATER : TW_OUTCOME_AMBIGUOUS, reason, words);
    flight->call->ack.not_sent = is_unsent;
    flight_land(flight);
}

static void on_limit(struct tw_timer *timer)
{
    struct tw_adapter_call *call = (struct tw_adapter_call *)(void *)((char *)timer - offsetof(struct tw_adapter_call, timer));
    flight_lose(call->adapter_data[0], REASON(TIMEOUT), "no answer in time");
}

static struct fix_flight *flight_start(struct fix_account *account, struct tw_adapter_call *call, enum fix_kind kind,
                                       int64_t limit_mono_ns)
{
    struct fix_flight *flight = calloc(1, sizeof *flight);
    if (flight == NULL)
        return NULL;
    *flight = (struct fix_flight){
        .next = account->flights, .account = account, .call = call, .kind = kind, .limit_mono_ns = limit_mono_ns};
    if (flight->next != NULL)
        flight->next->previous = flight;
    account->flights = flight;
    call->adapter_data[0] = flight;
    call->timer = (struct tw_timer){.fire = on_limit};
    tw_timer_set(account->adapter->reactor, &call->timer, limit_mono_ns);
    return flight;
}

/* It was not sent: the flight is over before it has begun. */
static void flight_refuse(struct fix_flight *flight, bool is_mutating, const char *why)
{
    ack_set(flight->call, is_mutating ? TW_OUTCOME_RETRY_LATER : TW_OUTCOME_AMBIGUOUS, REASON(BUSY), why);
    flight->call->ack.not_sent = true;
    flight_land(flight);
}

/* Whether it may go; if not, it is answered. */
static bool may_go(struct fix_account *account, struct tw_adapter_call *call, bool is_mutating, int64_t *ret_limit)
{
    enum tw_outcome no = is_mutating ? TW_OUTCOME_RETRY_LATER : TW_OUTCOME_AMBIGUOUS;
    int64_t now = tw_mono_ns();
    *ret_limit = now + account->settings.call_timeout_ns;
    if (*ret_limit > call->deadline_mono_ns)
        *ret_limit = call->deadline_mono_ns;
    if (now >= *ret_limit)
        not_sent(call, no, REASON(TIMEOUT), "the deadline had passed");
    else if (!account->is_up || !fix_line_is_up(account->line))
        not_sent(call, no, REASON(NO_CONNECTION), account->why[0] != '\0' ? account->why : "no connection");
    else
        return true;
    return false;
}

/* ---- What is known of an order, as an answer. ---- */

/* The name under which the host knows a working order. Where the venue can list them it is the venue's; elsewhere a
 * cancel needs our own, also after a restart. */
static const char *handle_of(const struct fix_account *account, const struct fix_order *order)
{
    return account->venue->profile.asks_all ? order->order_id : order->id;
}

static tw_decimal lots(const struct fix_account *account, const struct fix_order *order, tw_decimal units)
{
    const struct fix_symbol *symbol = fix_venue_symbol_by_venue_name(account->venue, order->symbol);
    tw_decimal volume;
    return symbol != NULL && fix_lots_of(symbol, units, &volume) ? volume : TW_DECIMAL_UNSET;
}

/* What has filled, or as what, is not known: the venue is asked again. A fill without the position that it made could
 * not be closed by anybody. */
static bool is_unclear(const struct fix_account *account, const struct fix_order *order)
{
    bool is_lost = !account->venue->profile.is_netting && order->cum > 0 && order->position_id[0] == '\0' && order->op != TW_OP_CLOSE;
    bool is_unread = order->has_unread_fill || (order->state == FIX_FILLED && order->cum == 0);
    return fix_order_is_over(order) && (is_lost || is_unread);
}

static void ack_from_order(const struct fix_account *account, const struct fix_order *order, struct tw_adapter_call *call)
{
    struct tw_ack *ack = &call->ack;
    const struct fix_profile *profile = &account->venue->profile;
    ack_set(call, TW_OUTCOME_AMBIGUOUS, REASON(UNSPECIFIED), order->text);
    tw_decimal filled = lots(account, order, order->cum);
    if (filled == TW_DECIMAL_UNSET) {
        ack->reason = REASON(BROKER_OTHER);
        snprintf(ack->broker_message, sizeof ack->broker_message, "a quantity that is no number of lots, or a symbol that is not named");
        return;
    }
    ack->filled_volume = filled;
    ack->average_price = order->average;
    snprintf(ack->order_id, sizeof ack->order_id, "%s", handle_of(account, order));
    const struct fix_symbol *symbol = fix_venue_symbol_by_venue_name(account->venue, order->symbol);
    if (order->cum > 0)
        snprintf(ack->position_id, sizeof ack->position_id, "%s",
                 profile->is_netting ? (symbol != NULL ? symbol->instrument.symbol : "") : order->position_id);
    const struct fix_rule *rule = fix_rule_find(&profile->refused, order->reject_reason, order->text);
    switch (order->state) {
    case FIX_FILLED:
        ack->outcome = TW_OUTCOME_DONE;
        break;
    case FIX_CANCELLED:
    case FIX_EXPIRED:
    case FIX_DONE_FOR_DAY:
        ack->outcome = order->cum > 0 ? TW_OUTCOME_PARTIAL : TW_OUTCOME_REJECTED;
        ack->reason = REASON(BROKER_OTHER);
        break;
    case FIX_REJECTED:
        ack->outcome = order->cum > 0 ? TW_OUTCOME_PARTIAL : TW_OUTCOME_REJECTED;
        ack->reason = rule != NULL ? rule->reason : REASON(BROKER_OTHER);
        ack->broker_code = order->reject_reason;
        break;
    case FIX_NEW:
    case FIX_PARTIAL:
    case FIX_PENDING_NEW:
        ack->outcome = TW_OUTCOME_ACCEPTED;
        ack->filled_volume = 0; /* what fills of what works is told when it is over */
        break;
    case FIX_SENT:
    case FIX_STATE_COUNT:
        break;
    }
    if (is_unclear(account, order))
        ack->outcome = TW_OUTCOME_AMBIGUOUS;
}

static bool wants_stops(const struct tw_order *order)
{
    bool has_stop = order->stop_loss != TW_DECIMAL_UNSET && order->stop_loss > 0;
    bool has_target = order->take_profit != TW_DECIMAL_UNSET && order->take_profit > 0;
    return has_stop || has_target;
}

/* ---- D: open, close, place. ---- */

/* Answers when the order is over, or works and is to. */
static void placing_judge(struct fix_flight *flight)
{
    struct fix_account *account = flight->account;
    struct fix_order *order = flight->order;
    struct tw_adapter_call *call = flight->call;
    bool is_pending = call->order.op == TW_OP_PLACE;
    bool works = is_pending && (order->state == FIX_NEW || order->state == FIX_PARTIAL) && order->order_id[0] != '\0';
    if (!fix_order_is_over(order) && !works)
        return;
    ack_from_order(account, order, call);
    struct tw_ack *ack = &call->ack;
    const struct fix_rule *rule = fix_rule_find(&account->venue->profile.refused, order->reject_reason, order->text);
    if (is_unclear(account, order)) {
        ack->outcome = TW_OUTCOME_AMBIGUOUS;
    } else if (works) {
        ack->outcome = TW_OUTCOME_DONE;
        order->is_told_working = true;
    } else if (order->state == FIX_REJECTED && order->cum == 0) {
        ack->outcome = rule != NULL ? rule->outcome : TW_OUTCOME_REJECTED;
    } else if (order->cum == 0 && order->state != FIX_FILLED && !is_pending) {
        ack->outcome = TW_OUTCOME_RETRY_NOW; /* immediate or cancel: there was nothing at a price */
        ack->reason = REASON(REQUOTE);
    }
    ack->stops_missing = ack->outcome == TW_OUTCOME_DONE && call->order.op != TW_OP_CLOSE && wants_stops(&call->order);
    if (call->order.op == TW_OP_CLOSE && !account->venue->profile.is_netting && account->has_picture && !account->is_stale) {
        const struct fix_position *left = fix_position_find(&account->positions, order->position_id);
        ack->remaining_volume = left == NULL ? 0 : lots(account, order, left->units);
    }
    flight_land(flight);
}

static bool order_fill_in(struct fix_account *account, struct fix_order *order, const struct tw_order *wanted,
                          const struct fix_symbol *symbol, tw_decimal units)
{
    order->owner = account;
    order->is_ours = true;
    order->op = wanted->op;
    order->side = wanted->side;
    order->type = wanted->op == TW_OP_PLACE ? wanted->type : TW_ORDER_MARKET;
    order->attempt = wanted->attempt;
    order->quantity = units;
    order->price = wanted->op == TW_OP_PLACE ? wanted->price : TW_DECIMAL_UNSET;
    order->stop_price = wanted->op == TW_OP_PLACE ? wanted->stop_price : TW_DECIMAL_UNSET;
    order->names_position = wanted->op == TW_OP_CLOSE;
    snprintf(order->symbol, sizeof order->symbol, "%s", symbol->venue_name);
    if (wanted->op == TW_OP_CLOSE && !account->venue->profile.is_netting)
        snprintf(order->position_id, sizeof order->position_id, "%s", wanted->position_id);
    return order->position_id[0] != '\0' || wanted->op != TW_OP_CLOSE || account->venue->profile.is_netting;
}

/* Is this id out, or has it been? Then it is not sent: what became of it is the answer. */
static bool is_sent_before(struct fix_flight *flight)
{
    struct fix_orders *orders = fix_line_orders(flight->account->line);
    struct fix_order *known = fix_orders_find(orders, flight->call->order.client_order_id);
    if (known == NULL)
        return false;
    if (known->is_absent && known->waiting == 0) { /* proved not to exist: the same id once more */
        fix_orders_remove(orders, known);
        return false;
    }
    flight_watch(flight, known);
    placing_judge(flight);
    return true;
}

static void place(struct fix_flight *flight, const struct fix_symbol *symbol, tw_decimal units)
{
    struct fix_account *account = flight->account;
    const struct tw_order *wanted = &flight->call->order;
    struct fix_orders *orders = fix_line_orders(account->line);
    struct fix_terms terms = fix_account_terms(account, symbol->venue_name);
    struct fix_body body;
    char why[WHY_BYTES] = "it cannot be kept";
    flight->kind = FIX_PLACING;
    if (is_sent_before(flight))
        return;
    struct fix_order *order = fix_orders_add(orders, wanted->client_order_id);
    bool is_good = order != NULL && order_fill_in(account, order, wanted, symbol, units);
    terms.units = units;
    if (is_good)
        fix_compose_new(&terms, wanted, &body);
    flight_watch(flight, order);
    if (is_good && fix_line_send(account->line, "D", &body, &flight->seq, why))
        return;
    flight_watch(flight, NULL);
    if (order != NULL)
        fix_orders_remove(orders, order);
    flight_refuse(flight, true, why);
}

/* What is there of what is to be closed; false: not known well enough, or not there. */
static bool close_units(const struct fix_account *account, const struct fix_symbol *symbol, const struct tw_order *wanted,
                        tw_decimal *units)
{
    const char *id = account->venue->profile.is_netting ? symbol->venue_name : wanted->position_id;
    const struct fix_position *position = fix_position_find(&account->positions, id);
    bool is_there = account->has_picture && !account->is_stale && position != NULL && position->units > 0 && position->side != wanted->side;
    if (!is_there)
        return false;
    if (wanted->volume == TW_DECIMAL_UNSET || *units > position->units)
        *units = position->units;
    return true;
}

static bool close_is_certain(const struct fix_account *account, const struct fix_symbol *symbol, const struct tw_order *wanted,
                             tw_decimal units)
{
    tw_decimal there = units;
    if (!close_units(account, symbol, wanted, &there))
        return false;
    return wanted->volume == TW_DECIMAL_UNSET || there == units;
}

static bool asks_position(const struct fix_account *account, const struct tw_order *wanted)
{
    bool depends = !account->venue->profile.is_netting || wanted->reduce_only || wanted->volume == TW_DECIMAL_UNSET;
    return wanted->op == TW_OP_CLOSE && depends && account->venue->profile.asks_positions;
}

static void place_begin(struct fix_account *account, struct tw_adapter_call *call, int64_t limit)
{
    const struct tw_order *wanted = &call->order;
    const struct fix_symbol *symbol = fix_venue_symbol(account->venue, wanted->symbol);
    tw_decimal units = 0;
    bool has_volume = wanted->volume != TW_DECIMAL_UNSET;
    if (symbol == NULL) {
        not_sent(call, TW_OUTCOME_REJECTED, REASON(SYMBOL_NOT_FOUND), "the session's section names no such symbol (55)");
        return;
    }
    if ((has_volume && (wanted->volume <= 0 || !fix_units_of(symbol, wanted->volume, &units))) ||
        (!has_volume && !asks_position(account, wanted))) {
        not_sent(call, TW_OUTCOME_REJECTED, REASON(INVALID_VOLUME), "no exact quantity (38)");
        return;
    }
    struct fix_flight *flight = flight_start(account, call, FIX_FIRST, limit);
    if (flight == NULL) {
        not_sent(call, TW_OUTCOME_RETRY_LATER, REASON(BUSY), "no memory for a call");
        return;
    }
    if (!asks_position(account, wanted) || close_is_certain(account, symbol, wanted, units)) {
        if (!has_volume)
            (void)close_units(account, symbol, wanted, &units);
        place(flight, symbol, units);
        return;
    }
    /* What we have followed does not have it: it is asked for, before it is sold or called gone. */
    if (!fix_picture_ask(account, &flight->picture))
        flight_refuse(flight, true, "the positions cannot be asked for");
}

/* The picture that the order waited for is there. */
static void place_go_on(struct fix_flight *flight)
{
    struct fix_account *account = flight->account;
    const struct tw_order *wanted = &flight->call->order;
    const struct fix_symbol *symbol = fix_venue_symbol(account->venue, wanted->symbol);
    tw_decimal units = 0;
    fix_picture_clear(&flight->picture);
    bool is_good = wanted->volume == TW_DECIMAL_UNSET || fix_units_of(symbol, wanted->volume, &units);
    if (is_good && close_units(account, symbol, wanted, &units)) {
        place(flight, symbol, units);
        return;
    }
    ack_set(flight->call, TW_OUTCOME_NOT_FOUND, REASON(ALREADY_CLOSED), "there is no such position");
    flight->call->ack.not_sent = true;
    flight_land(flight);
}

/* ---- F and G: cancel and replace. ---- */

/* Our cancel has ended it, and nothing of it has filled. Else it is NOT_FOUND: the host asks what became of the order,
 * and closes that. */
static bool is_cancelled_whole(const struct fix_order *order)
{
    return order->state == FIX_CANCELLED && order->cum == 0 && !order->has_unread_fill;
}

static void changing_judge(struct fix_flight *flight, const struct fix_change *change, const struct fix_report *report)
{
    struct fix_account *account = flight->account;
    struct fix_order *order = flight->order;
    struct tw_adapter_call *call = flight->call;
    bool is_cancel = call->order.op == TW_OP_CANCEL;
    if (fix_order_is_over(order)) {
        /* Over: by our cancel, or it filled first, and then there is nothing left to change. */
        bool is_done = is_cancel && is_cancelled_whole(order);
        ack_set(call, is_done ? TW_OUTCOME_DONE : TW_OUTCOME_NOT_FOUND, is_done ? REASON(UNSPECIFIED) : REASON(ALREADY_CLOSED),
                order->text);
        if (is_cancel && order->state == FIX_CANCELLED)
            order->is_told_working = false; /* the call tells it */
    } else if (change->is_change_answer && !change->change_refused && !is_cancel) {
        ack_set(call, TW_OUTCOME_DONE, REASON(UNSPECIFIED), order->text);
    } else if (change->change_refused) {
        const struct fix_rule *rule =
            fix_rule_find(&account->venue->profile.cancel_refused, report->reject_reason, report->text);
        ack_set(call, rule != NULL ? rule->outcome : TW_OUTCOME_AMBIGUOUS, rule != NULL ? rule->reason : REASON(BROKER_OTHER),
                report->text);
        call->ack.broker_code = report->reject_reason;
    } else {
        return;
    }
    snprintf(call->ack.order_id, sizeof call->ack.order_id, "%s", handle_of(account, order));
    flight_land(flight);
}

/* The order that is to be changed. NULL: there is none. */
static struct fix_order *target_of(struct fix_account *account, const struct tw_order *wanted)
{
    struct fix_orders *orders = fix_line_orders(account->line);
    struct fix_order *order = fix_orders_find_order(orders, wanted->order_id);
    const struct fix_symbol *symbol = fix_venue_symbol(account->venue, wanted->symbol);
    if (order == NULL)
        order = fix_orders_find(orders, wanted->order_id);
    if (order != NULL && order->owner == NULL)
        order->owner = account;
    if (order != NULL || account->venue->profile.asks_all || symbol == NULL)
        return order != NULL && order->owner == account ? order : NULL;
    /* Of an earlier life: the venue knows it by our ClOrdID. */
    order = fix_orders_add(orders, wanted->order_id);
    if (order == NULL)
        return NULL;
    order->owner = account;
    order->op = TW_OP_PLACE;
    order->is_ours = true;
    order->side = wanted->side != TW_SIDE_NONE ? wanted->side : TW_BUY;
    order->type = wanted->type;
    order->state = FIX_NEW;
    snprintf(order->symbol, sizeof order->symbol, "%s", symbol->venue_name);
    return order;
}

static bool changes_terms(const struct tw_order *wanted)
{
    return wanted->price != TW_DECIMAL_UNSET || wanted->stop_price != TW_DECIMAL_UNSET || wanted->expires_wall_ns != -1;
}

static bool is_so_already(const struct fix_order *order, const struct tw_order *wanted)
{
    bool price = wanted->price == TW_DECIMAL_UNSET || wanted->price == order->price;
    bool stop = wanted->stop_price == TW_DECIMAL_UNSET || wanted->stop_price == order->stop_price;
    return price && stop && wanted->expires_wall_ns == -1;
}

/* A change that is out, and for whose answer nobody waits: it, or the answer, may be lost with its connection. */
static bool is_given_up(const struct fix_flight *flight)
{
    const struct fix_flight *other = flight->account->flights;
    while (other != NULL && (other == flight || other->kind != FIX_CHANGING || other->order != flight->order))
        other = other->next;
    return other == NULL;
}

static void change_send(struct fix_flight *flight)
{
    struct fix_account *account = flight->account;
    const struct tw_order *wanted = &flight->call->order;
    struct fix_orders *orders = fix_line_orders(account->line);
    struct fix_order *order = flight->order;
    struct fix_terms terms = fix_account_terms(account, order->symbol);
    struct fix_body body;
    char why[WHY_BYTES] = "a change of it is out already";
    bool is_cancel = wanted->op == TW_OP_CANCEL;
    if (is_given_up(flight))
        fix_order_change_give_up(orders, order);
    if (!fix_order_change(orders, order, is_cancel ? FIX_OVERLAY_CANCEL : FIX_OVERLAY_REPLACE, wanted->client_order_id)) {
        flight_refuse(flight, true, why);
        return;
    }
    if (is_cancel)
        fix_compose_cancel(&terms, order, wanted->client_order_id, &body);
    else
        fix_compose_replace(&terms, order, wanted, &body);
    if (fix_line_send(account->line, is_cancel ? "F" : "G", &body, &flight->seq, why))
        return;
    fix_order_change_undo(orders, order);
    flight_refuse(flight, true, why);
}

static void change_begin(struct fix_account *account, struct tw_adapter_call *call, int64_t limit)
{
    const struct tw_order *wanted = &call->order;
    bool is_cancel = wanted->op == TW_OP_CANCEL;
    if (!is_cancel && !changes_terms(wanted)) {
        not_sent(call, TW_OUTCOME_UNSUPPORTED, REASON(INVALID_STOPS), "FIX 4.4 has no stop loss or take profit of an order");
        return;
    }
    struct fix_order *order = target_of(account, wanted);
    bool is_gone = order == NULL ? account->has_orders : fix_order_is_over(order);
    if (is_gone) {
        not_sent(call, TW_OUTCOME_NOT_FOUND, REASON(ALREADY_CLOSED), "there is no such order");
        return;
    }
    if (order == NULL) {
        not_sent(call, TW_OUTCOME_UNSUPPORTED, REASON(BROKER_OTHER), "no such order is known here, and this venue does not list them");
        return;
    }
    if (!is_cancel && is_so_already(order, wanted)) {
        not_sent(call, TW_OUTCOME_NO_CHANGE, REASON(NO_CHANGE), "it is so already");
        return;
    }
    struct fix_flight *flight = flight_start(account, call, FIX_CHANGING, limit);
    if (flight == NULL) {
        not_sent(call, TW_OUTCOME_RETRY_LATER, REASON(BUSY), "no memory for a call");
        return;
    }
    flight_watch(flight, order);
    change_send(flight);
}

void fix_execute(void *session, struct tw_adapter_call *call)
{
    struct fix_account *account = session;
    int64_t limit;
    if (call->order.op == TW_OP_MODIFY) {
        not_sent(call, TW_OUTCOME_UNSUPPORTED, REASON(INVALID_STOPS), "FIX 4.4 has no stop loss or take profit of a position");
        return;
    }
    if (!may_go(account, call, true, &limit))
        return;
    if (call->order.op == TW_OP_CANCEL || call->order.op == TW_OP_MODIFY_ORDER)
        change_begin(account, call, limit);
    else
        place_begin(account, call, limit);
}

/* ---- H: what became of it? ---- */

/* An id that is a cancel's or a replace's, not an order's own: or after a restart a pending's that was heard of under no
 * other. */
static bool is_of_change(const struct fix_order *order, const struct tw_order *asked)
{
    bool is_cancel = asked->op == TW_OP_CANCEL && order->op == TW_OP_PLACE && order->type != TW_ORDER_MARKET;
    return strcmp(order->id, asked->client_order_id) != 0 || is_cancel;
}

static void ack_of_change(const struct fix_account *account, const struct fix_order *order, const char *id,
                          struct tw_adapter_call *call)
{
    bool is_only_name = strcmp(order->id, id) == 0;
    bool is_done = (strcmp(order->current_id, id) == 0 && !is_only_name) || is_cancelled_whole(order);
    bool is_out = (strcmp(order->change_id, id) == 0 || is_only_name) && !fix_order_is_over(order);
    ack_set(call, is_done ? TW_OUTCOME_DONE : is_out ? TW_OUTCOME_AMBIGUOUS : TW_OUTCOME_NOT_FOUND, REASON(UNSPECIFIED),
            order->text);
    snprintf(call->ack.order_id, sizeof call->ack.order_id, "%s", handle_of(account, order));
}

static void asking_answer(struct fix_flight *flight)
{
    if (is_of_change(flight->order, &flight->call->order)) {
        ack_of_change(flight->account, flight->order, flight->call->order.client_order_id, flight->call);
        if (flight->call->order.op == TW_OP_CANCEL && flight->order->state == FIX_CANCELLED)
            flight->order->is_told_working = false;
    } else {
        ack_from_order(flight->account, flight->order, flight->call);
    }
    if (flight->call->ack.outcome == TW_OUTCOME_ACCEPTED && flight->call->order.op == TW_OP_PLACE)
        flight->order->is_told_working = true;
    flight_land(flight);
}

static void ask(struct fix_flight *flight)
{
    struct fix_account *account = flight->account;
    const struct tw_order *asked = &flight->call->order;
    const struct fix_order *order = flight->order;
    const struct fix_symbol *symbol = fix_venue_symbol(account->venue, asked->symbol);
    const char *venue_symbol = order != NULL && order->symbol[0] != '\0' ? order->symbol : symbol != NULL ? symbol->venue_name : "";
    struct fix_terms terms = fix_account_terms(account, venue_symbol);
    struct fix_body body;
    char why[WHY_BYTES] = "";
    flight->kind = FIX_ASKING;
    fix_compose_status(&terms, order != NULL ? order->current_id : asked->client_order_id, order != NULL ? order->order_id : "",
                       order != NULL ? order->side : asked->side, &body);
    if (!fix_line_send(account->line, "H", &body, &flight->seq, why))
        flight_refuse(flight, false, why);
}

void fix_calls_ask_working(struct fix_account *account)
{
    const struct fix_profile *profile = &account->venue->profile;
    struct fix_order *order = profile->asks_order && !profile->asks_all ? fix_orders_first(fix_line_orders(account->line)) : NULL;
    for (; order != NULL; order = order->older) {
        if (order->owner != account || !order->is_told_working || fix_order_is_over(order))
            continue;
        struct fix_terms terms = fix_account_terms(account, order->symbol);
        struct fix_body body;
        char why[WHY_BYTES];
        fix_compose_status(&terms, order->current_id, order->order_id, order->side, &body);
        if (!fix_line_send(account->line, "H", &body, NULL, why))
            return; /* the next connection asks anew */
    }
}

void fix_lookup(void *session, struct tw_adapter_call *call)
{
    struct fix_account *account = session;
    int64_t limit;
    if (!may_go(account, call, false, &limit))
        return;
    struct fix_order *order = fix_orders_find(fix_line_orders(account->line), call->order.client_order_id);
    bool asks = account->venue->profile.asks_order;
    bool is_known = order != NULL && !is_unclear(account, order) && (fix_order_is_over(order) || (!asks && order->state != FIX_SENT));
    if (!asks && !is_known) {
        ack_set(call, TW_OUTCOME_AMBIGUOUS, REASON(BROKER_OTHER), "this venue cannot be asked for an order (35=H)");
        call->done(call);
        return;
    }
    struct fix_flight *flight = flight_start(account, call, FIX_ASKING, limit);
    if (flight == NULL) {
        not_sent(call, TW_OUTCOME_AMBIGUOUS, REASON(BUSY), "no memory for a call");
        return;
    }
    flight_watch(flight, order);
    if (is_known)
        asking_answer(flight);
    else
        ask(flight);
}

/* ---- Everything. ---- */

static bool snapshot_orders(const struct fix_account *account, uint64_t stamp, struct tw_snapshot *snapshot)
{
    size_t n = 0;
    const struct fix_order *first = fix_orders_first(fix_line_orders(account->line));
    for (const struct fix_order *order = first; order != NULL; order = order->older)
        n += order->listed == stamp && !fix_order_is_over(order);
    snapshot->orders = calloc(n + 1, sizeof *snapshot->orders);
    if (snapshot->orders == NULL)
        return false;
    for (const struct fix_order *order = first; order != NULL; order = order->older) {
        if (order->listed != stamp || fix_order_is_over(order) || order->type == TW_ORDER_MARKET)
            continue;
        const struct fix_symbol *symbol = fix_venue_symbol_by_venue_name(account->venue, order->symbol);
        struct tw_held_order *held = &snapshot->orders[snapshot->n_orders];
        *held = (struct tw_held_order){.side = order->side, .type = order->type, .price = order->price,
                                       .stop_price = order->stop_price, .stop_loss = 0, .take_profit = 0,
                                       .expires_wall_ns = order->expires_wall_ns};
        if (symbol == NULL || order->quantity == TW_DECIMAL_UNSET || !fix_lots_of(symbol, order->quantity, &held->volume))
            return false;
        snprintf(held->symbol, sizeof held->symbol, "%s", symbol->instrument.symbol);
        snprintf(held->order_id, sizeof held->order_id, "%s", handle_of(account, order));
        if (strlen(order->id) < sizeof held->client_order_id)
            memcpy(held->client_order_id, order->id, strlen(order->id) + 1);
        snapshot->n_orders++;
    }
    return true;
}

static bool snapshot_positions(const struct fix_account *account, struct tw_snapshot *snapshot)
{
    snapshot->positions = calloc(account->positions.n + 1, sizeof *snapshot->positions);
    if (snapshot->positions == NULL)
        return false;
    for (size_t i = 0; i < account->positions.n; i++)
        if (!fix_position_held(account, &account->positions.list[i], &snapshot->positions[snapshot->n_positions++]))
            return false;
    return true;
}

static void snapshot_answer(struct fix_flight *flight)
{
    struct fix_account *account = flight->account;
    struct tw_snapshot *snapshot = flight->call->snapshot;
    uint64_t stamp = flight->picture.stamp;
    snapshot->as_of_wall_ns = tw_wall_ns();
    snapshot->account = (struct tw_account){.balance = TW_DECIMAL_UNSET, .equity = TW_DECIMAL_UNSET, .free_margin = TW_DECIMAL_UNSET};
    memcpy(snapshot->account.currency, account->settings.currency, sizeof snapshot->account.currency);
    snapshot->complete = snapshot_positions(account, snapshot) && snapshot_orders(account, stamp, snapshot);
    if (!snapshot->complete)
        tw_snapshot_clear(snapshot);
    ack_set(flight->call, snapshot->complete ? TW_OUTCOME_DONE : TW_OUTCOME_AMBIGUOUS, REASON(UNSPECIFIED),
            snapshot->complete ? "" : "a position or order has a symbol that the session's section does not name");
    flight_land(flight);
}

void fix_snapshot(void *session, struct tw_adapter_call *call)
{
    struct fix_account *account = session;
    const struct fix_profile *profile = &account->venue->profile;
    int64_t limit;
    if (!profile->asks_positions || !profile->asks_all) {
        ack_set(call, TW_OUTCOME_UNSUPPORTED, REASON(BROKER_OTHER), "this venue lists no positions (35=AN) or no orders (35=AF)");
        call->done(call);
        return;
    }
    if (!may_go(account, call, false, &limit))
        return;
    struct fix_flight *flight = flight_start(account, call, FIX_PICTURE, limit);
    if (flight == NULL)
        not_sent(call, TW_OUTCOME_AMBIGUOUS, REASON(BUSY), "no memory for a call");
    else if (!fix_picture_ask(account, &flight->picture))
        flight_refuse(flight, false, "the account cannot be asked for");
}

void fix_calls_on_picture(struct fix_account *account, struct fix_flight *flight)
{
    struct fix_picture *picture = &flight->picture;
    if (picture->has_failed) {
        flight_lose(flight, REASON(BROKER_OTHER), "the venue does not list what the account holds");
        return;
    }
    if (!fix_picture_is_whole(picture))
        return;
    if (picture->fills_before != account->fills && picture->tries < PICTURE_TRIES) {
        if (!fix_picture_ask(account, picture))
            flight_refuse(flight, flight->kind == FIX_FIRST, "the account cannot be asked for");
        return;
    }
    if (picture->fills_before != account->fills) {
        flight_lose(flight, REASON(BUSY), "the account changes faster than it can be read");
        return;
    }
    fix_picture_take(account, picture);
    if (flight->kind == FIX_FIRST)
        place_go_on(flight);
    else
        snapshot_answer(flight);
}

/* ---- What the venue says. ---- */

static void on_absent(struct fix_flight *flight, const struct fix_report *report)
{
    ack_set(flight->call, flight->was_placing ? TW_OUTCOME_AMBIGUOUS : TW_OUTCOME_NOT_FOUND, REASON(UNSPECIFIED), report->text);
    flight_land(flight);
}

/* Asked over a later connection than the change went out on, the venue says that none is under way: it never arrived. */
static void change_look(const struct fix_flight *flight, const struct fix_report *report)
{
    struct fix_order *order = flight->order;
    bool is_asked = order->is_change_cut && strcmp(order->change_id, flight->call->order.client_order_id) == 0;
    bool is_status = report->exec_type == 'I' && report->ord_status != '\0';
    bool is_under_way = report->ord_status == '6' || report->ord_status == 'E' || strcmp(report->cl_ord_id, order->change_id) == 0;
    if (is_asked && is_status && !is_under_way && !fix_order_is_over(order))
        fix_order_change_give_up(fix_line_orders(flight->account->line), order);
}

static bool answers_question(const struct fix_flight *flight, const struct fix_report *report, const struct fix_order *order)
{
    const char *id = flight->call->order.client_order_id;
    return (order != NULL && flight->order == order) || strcmp(report->cl_ord_id, id) == 0;
}

bool fix_calls_ask_for(const struct fix_account *account, const char *cl_ord_id)
{
    for (const struct fix_flight *flight = account->flights; flight != NULL; flight = flight->next)
        if (flight->kind == FIX_ASKING && strcmp(flight->call->order.client_order_id, cl_ord_id) == 0)
            return true;
    return false;
}

void fix_calls_on_report(struct fix_account *account, const struct fix_report *report, const struct fix_change *change)
{
    bool is_unknown = fix_report_is_unknown_order(report);
    for (struct fix_flight *flight = account->flights, *next; flight != NULL; flight = next) {
        next = flight->next;
        if (flight->kind == FIX_ASKING && answers_question(flight, report, change->order)) {
            if (is_unknown && (change->order == NULL || change->order->is_absent || flight->was_placing)) {
                on_absent(flight, report);
                continue;
            }
            if (change->order == NULL || is_unknown)
                continue; /* it was heard of before, and is not known now: the next look will tell */
            if (flight->order != change->order)
                flight_watch(flight, change->order);
            change->order->is_ours = true;
            change_look(flight, report);
            asking_answer(flight);
        } else if (flight->kind == FIX_PLACING && flight->order == change->order && change->order != NULL && !is_unknown) {
            placing_judge(flight);
        } else if (flight->kind == FIX_CHANGING && flight->order == change->order && change->order != NULL) {
            changing_judge(flight, change, report);
        }
    }
}

bool fix_calls_on_duplicate(struct fix_account *account, struct fix_order *order, const struct fix_report *report)
{
    const struct fix_rule *rule = fix_rule_find(&account->venue->profile.refused, report->reject_reason, report->text);
    bool is_refusal = report->exec_type == '8' && report->ord_status == '8' && order->state == FIX_SENT;
    if (!is_refusal || rule == NULL || rule->outcome != TW_OUTCOME_AMBIGUOUS)
        return false;
    order->is_known_there = true;
    order->is_absent = false;
    for (struct fix_flight *flight = account->flights, *next; flight != NULL; flight = next) {
        next = flight->next;
        if (flight->kind != FIX_PLACING || flight->order != order)
            continue;
        if (account->venue->profile.asks_order) {
            flight->was_placing = true; /* "no such order" is no answer to it */
            ask(flight); /* within the same call */
        } else {
            ack_set(flight->call, TW_OUTCOME_AMBIGUOUS, rule->reason, report->text);
            flight_land(flight);
        }
    }
    return true;
}

void fix_calls_on_unread(struct fix_flight *flight, bool is_session_reject, int code, const char *text)
{
    struct fix_account *account = flight->account;
    const struct fix_rule *rule = fix_rule_find(&account->venue->profile.unread, code, text);
    struct fix_orders *orders = fix_line_orders(account->line);
    struct fix_order *order = flight->order;
    /* A message that the session itself has refused has been read by nobody behind it. */
    enum tw_outcome outcome = is_session_reject ? TW_OUTCOME_REJECTED : rule != NULL ? rule->outcome : TW_OUTCOME_AMBIGUOUS;
    tw_reason reason = rule != NULL ? rule->reason : REASON(BROKER_OTHER);
    if (flight->kind == FIX_ASKING) {
        bool is_absent = outcome == TW_OUTCOME_NOT_FOUND && !flight->was_placing && (order == NULL || !order->is_known_there);
        if (is_absent && order != NULL && order->state == FIX_SENT)
            order->is_absent = true;
        ack_set(flight->call, is_absent ? TW_OUTCOME_NOT_FOUND : TW_OUTCOME_AMBIGUOUS, reason, text);
        flight_land(flight);
        return;
    }
    ack_set(flight->call, outcome, reason, text);
    flight->call->ack.broker_code = code;
    if (flight->kind == FIX_CHANGING)
        fix_order_change_undo(orders, order);
    else if (flight->kind == FIX_PLACING && outcome != TW_OUTCOME_AMBIGUOUS && order->state == FIX_SENT)
        order->state = FIX_REJECTED;
    flight_land(flight);
}

void fix_calls_cut(struct fix_account *account, const char *why)
{
    for (struct fix_order *order = fix_orders_first(fix_line_orders(account->line)); order != NULL; order = order->older)
        if (order->owner == account)
            order->is_change_cut = true;
    while (account->flights != NULL)
        flight_lose(account->flights, REASON(NO_CONNECTION), why);
}
