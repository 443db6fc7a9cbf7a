#include "border.h"

#include <tradewake/adapters/venue_codes.h>

#include <stdio.h>
#include <string.h>

#define REASON(name) TRADEWAKE__V1__REASON__REASON_##name

static_assert((int)TWP_DONE == (int)TW_OUTCOME_DONE && (int)TWP_UNSUPPORTED == (int)TW_OUTCOME_UNSUPPORTED,
              "the first ten outcomes have our numbers");
static_assert((int)TWP_OP_CLOSE == (int)TW_OP_CLOSE && (int)TWP_OP_CANCEL == (int)TW_OP_CANCEL, "so do operations,");
static_assert((int)TWP_SELL == (int)TW_SELL && (int)TWP_STOP_LIMIT == (int)TW_ORDER_STOP_LIMIT, "sides and types,");
static_assert((int)TWP_CODES_MT5 == (int)TW_VENUE_MT5 && (int)TWP_R_OTHER == (int)REASON(BROKER_OTHER),
              "tables and reasons");

/* ---- Out ---- */

static bool text_put(char *to, size_t size, const char *from)
{
    size_t length = strlen(from);
    if (length >= size)
        return false;
    memcpy(to, from, length + 1);
    return true;
}

bool border_order(const struct tw_order *order, int64_t deadline_mono_ns, struct twp_order *ret)
{
    *ret = (struct twp_order){
        .size = sizeof *ret,
        .op = (int32_t)order->op,
        .side = (int32_t)order->side,
        .type = (int32_t)order->type,
        .attempt = order->attempt,
        .flags = order->reduce_only ? TWP_ORDER_REDUCE_ONLY : 0,
        .deadline_mono_ns = deadline_mono_ns,
        .expires_wall_ns = order->expires_wall_ns,
        .volume = order->volume,
        .price = order->price,
        .stop_price = order->stop_price,
        .stop_loss = order->stop_loss,
        .take_profit = order->take_profit,
    };
    return text_put(ret->client_order_id, sizeof ret->client_order_id, order->client_order_id) &&
           text_put(ret->symbol, sizeof ret->symbol, order->symbol) &&
           text_put(ret->position_id, sizeof ret->position_id, order->position_id) &&
           text_put(ret->order_id, sizeof ret->order_id, order->order_id);
}

/* ---- Back ---- */

/* An id of theirs: printable ASCII that ends. */
static bool is_id(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\0')
            return true;
        if ((unsigned char)text[i] <= 0x20 || (unsigned char)text[i] >= 0x7f)
            return false;
    }
    return false;
}

/* A symbol, too, but with spaces: "US 30". */
static bool is_symbol(const char *text, size_t size)
{
    size_t length = strnlen(text, size);
    if (length == 0 || length == size)
        return false;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < 0x20 || (unsigned char)text[i] >= 0x7f)
            return false;
    return true;
}

static void words_take(char *to, size_t size, const char *from, size_t from_size)
{
    size_t length = strnlen(from, from_size < size - 1 ? from_size : size - 1);
    for (size_t i = 0; i < length; i++)
        to[i] = (unsigned char)from[i] < 0x20 || (unsigned char)from[i] >= 0x7f ? '?' : from[i];
    to[length] = '\0';
}

tw_reason border_reason(int32_t reason)
{
    switch (reason) {
    case TWP_R_NONE:
    case TWP_R_SYMBOL_NOT_FOUND:
        return (tw_reason)reason;
    default:
        return reason >= TWP_R_REQUOTE && reason <= TWP_R_AUTH ? (tw_reason)reason : REASON(BROKER_OTHER);
    }
}

static bool is_success(enum tw_outcome outcome)
{
    return outcome == TW_OUTCOME_DONE || outcome == TW_OUTCOME_ACCEPTED || outcome == TW_OUTCOME_PARTIAL ||
           outcome == TW_OUTCOME_NO_CHANGE;
}

static bool is_refusal(enum tw_outcome outcome)
{
    return outcome == TW_OUTCOME_RETRY_NOW || outcome == TW_OUTCOME_RETRY_LATER || outcome == TW_OUTCOME_REJECTED ||
           outcome == TW_OUTCOME_UNSUPPORTED || outcome == TW_OUTCOME_NOT_FOUND;
}

/* The bytes of the answer, whatever they mean. */
static const char *shape_check(const struct twp_result *result)
{
    if (result->size < RESULT_BYTES_FIRST || result->size > sizeof *result)
        return "it changed the size of its answer";
    if (!is_id(result->order_id, sizeof result->order_id) || !is_id(result->position_id, sizeof result->position_id) ||
        !is_id(result->remainder_position_id, sizeof result->remainder_position_id))
        return "an id in its answer is no text";
    if (result->filled_volume < 0 || result->average_price < 0 || result->retry_after_ns < 0 ||
        (result->remaining_volume < 0 && result->remaining_volume != TWP_UNSET))
        return "a number in its answer is below zero";
    return NULL;
}

static void fields_take(const struct twp_result *result, struct tw_ack *ret)
{
    ret->reason = border_reason(result->reason);
    ret->broker_code = result->vendor_code;
    ret->not_sent = (result->flags & TWP_F_NOT_SENT) != 0;
    ret->stops_missing = (result->flags & TWP_F_STOPS_MISSING) != 0;
    ret->filled_volume = result->filled_volume;
    ret->average_price = result->average_price;
    ret->remaining_volume = result->remaining_volume;
    ret->retry_after_ns = result->retry_after_ns;
    text_put(ret->order_id, sizeof ret->order_id, result->order_id);
    text_put(ret->position_id, sizeof ret->position_id, result->position_id);
    text_put(ret->remainder_position_id, sizeof ret->remainder_position_id, result->remainder_position_id);
    words_take(ret->broker_message, sizeof ret->broker_message, result->text, sizeof result->text);
}

static void code_take(int32_t code_table, enum tw_order_op op, struct tw_ack *ret)
{
    const struct tw_venue_code *row = tw_venue_code_find((enum tw_venue)code_table, ret->broker_code, op, ret->not_sent);
    ret->outcome = row != NULL ? row->outcome : TW_OUTCOME_AMBIGUOUS;
    if (ret->reason == REASON(UNSPECIFIED))
        ret->reason = row != NULL ? row->reason : REASON(BROKER_OTHER);
    if (row != NULL && ret->broker_message[0] == '\0')
        words_take(ret->broker_message, sizeof ret->broker_message, row->words, strlen(row->words));
}

/* NULL, or what contradicts itself. */
static const char *outcome_take(int32_t outcome, int32_t code_table, enum tw_order_op op, struct tw_ack *ret)
{
    if (outcome == TWP_BY_CODE) {
        code_take(code_table, op, ret);
    } else if (outcome == TWP_SESSION_LOST) {
        ret->outcome = TW_OUTCOME_AMBIGUOUS;
        if (ret->reason == REASON(UNSPECIFIED))
            ret->reason = REASON(NO_CONNECTION);
    } else if (outcome >= TWP_AMBIGUOUS && outcome <= TWP_UNSUPPORTED) {
        ret->outcome = (enum tw_outcome)outcome;
    } else {
        return "it returned an outcome that there is not";
    }
    if (ret->not_sent && is_success(ret->outcome))
        return "it says success, and that nothing was sent";
    if (ret->not_sent && ret->outcome == TW_OUTCOME_AMBIGUOUS)
        ret->outcome = TW_OUTCOME_RETRY_LATER;
    return NULL;
}

/* What was filled, against what was asked. */
static const char *fill_check(const struct tw_order *order, bool is_hedging, const struct tw_ack *ack)
{
    bool fills = order->op == TW_OP_OPEN || order->op == TW_OP_CLOSE;
    bool has_filled = ack->outcome == TW_OUTCOME_DONE || ack->outcome == TW_OUTCOME_PARTIAL;
    if (is_refusal(ack->outcome) && ack->filled_volume > 0)
        return "it says that nothing was executed, and how much was";
    if (ack->outcome == TW_OUTCOME_PARTIAL && !fills)
        return "it executed part of an order that has no volume";
    if (order->volume != TW_DECIMAL_UNSET && ack->filled_volume > order->volume)
        return "it executed more than was asked";
    if (fills && has_filled && ack->filled_volume == 0)
        return "it executed an order, and does not say how much";
    if (order->op == TW_OP_OPEN && has_filled && is_hedging && ack->position_id[0] == '\0')
        return "it opened a position, and does not say which";
    if (order->op == TW_OP_PLACE && has_filled && ack->order_id[0] == '\0')
        return "it placed an order, and does not say which";
    return NULL;
}

static const char *doubt(const char *what, struct tw_ack *ret)
{
    *ret = (struct tw_ack){.reason = REASON(BROKER_OTHER), .remaining_volume = TW_DECIMAL_UNSET};
    snprintf(ret->broker_message, sizeof ret->broker_message, "%s", what);
    return what;
}

const char *border_answer(int32_t outcome, const struct twp_result *result, const struct tw_order *order, bool is_hedging,
                          int32_t code_table, struct tw_ack *ret)
{
    *ret = (struct tw_ack){.remaining_volume = TW_DECIMAL_UNSET};
    const char *what = shape_check(result);
    if (what == NULL) {
        fields_take(result, ret);
        what = outcome_take(outcome, code_table, order->op, ret);
    }
    if (what == NULL)
        what = fill_check(order, is_hedging, ret);
    if (what == NULL && is_refusal(ret->outcome) && ret->outcome != TW_OUTCOME_NOT_FOUND &&
        ret->reason == REASON(UNSPECIFIED))
        ret->reason = REASON(BROKER_OTHER);
    return what == NULL ? NULL : doubt(what, ret);
}

const char *border_found(int32_t outcome, const struct twp_result *result, int32_t code_table, struct tw_ack *ret)
{
    *ret = (struct tw_ack){.remaining_volume = TW_DECIMAL_UNSET};
    const char *what = shape_check(result);
    if (what == NULL) {
        fields_take(result, ret);
        ret->not_sent = false;
        what = outcome_take(outcome, code_table, TW_OP_OPEN, ret);
    }
    if (what != NULL)
        return doubt(what, ret);
    switch (ret->outcome) {
    case TW_OUTCOME_DONE:
    case TW_OUTCOME_PARTIAL:
    case TW_OUTCOME_ACCEPTED:
        return NULL;
    case TW_OUTCOME_NOT_FOUND:
    case TW_OUTCOME_REJECTED:
        return ret->filled_volume == 0 ? NULL : doubt("it does not find an order, and says how much of it was executed", ret);
    default:
        ret->outcome = TW_OUTCOME_AMBIGUOUS; /* it could not ask */
        return NULL;
    }
}

/* ---- Lists ---- */

/* What both know of it; the rest is zero. */
static bool item_take(const void *item, uint32_t first, void *ret, size_t ours)
{
    enum { BYTES_MAX = 64 * 1024 };
    uint32_t size;
    if (item == NULL)
        return false;
    memcpy(&size, item, sizeof size);
    if (size < first || size > BYTES_MAX)
        return false;
    memset(ret, 0, ours);
    memcpy(ret, item, size < ours ? size : ours);
    return true;
}

static bool is_currency(const char *text, size_t size)
{
    return is_id(text, size);
}

static bool is_figure(twp_decimal value)
{
    return value == TWP_UNSET || (value > -INT64_MAX && value < INT64_MAX);
}

bool border_account(const struct twp_account *from, struct tw_account *ret)
{
    if (from->size < ACCOUNT_BYTES_FIRST || from->size > sizeof *from || !is_currency(from->currency, sizeof from->currency) ||
        !is_figure(from->balance) || !is_figure(from->equity) || !is_figure(from->free_margin))
        return false;
    *ret = (struct tw_account){
        .balance = from->balance, .equity = from->equity, .free_margin = from->free_margin, .leverage = from->leverage};
    memcpy(ret->currency, from->currency, sizeof ret->currency);
    return true;
}

bool border_instrument(const void *item, struct tw_instrument *ret)
{
    struct twp_instrument from;
    if (!item_take(item, INSTRUMENT_BYTES_FIRST, &from, sizeof from) || !is_symbol(from.symbol, sizeof from.symbol) ||
        from.volume_min <= 0 || from.volume_step <= 0 || from.volume_max < from.volume_min || from.contract_size <= 0 ||
        from.tick_size <= 0 || from.min_notional < 0 || from.stops_distance < 0 || from.freeze_distance < 0 ||
        !is_currency(from.base_currency, sizeof from.base_currency) ||
        !is_currency(from.profit_currency, sizeof from.profit_currency))
        return false;
    *ret = (struct tw_instrument){
        .volume_min = from.volume_min,
        .volume_step = from.volume_step,
        .volume_max = from.volume_max,
        .contract_size = from.contract_size,
        .tick_size = from.tick_size,
        .min_notional = from.min_notional,
        .stops_distance = from.stops_distance,
        .freeze_distance = from.freeze_distance,
    };
    memcpy(ret->base_currency, from.base_currency, sizeof ret->base_currency);
    memcpy(ret->profit_currency, from.profit_currency, sizeof ret->profit_currency);
    return text_put(ret->symbol, sizeof ret->symbol, from.symbol);
}

bool border_quote(const void *item, struct twp_quote *ret)
{
    return item_take(item, QUOTE_BYTES_FIRST, ret, sizeof *ret) && is_symbol(ret->symbol, sizeof ret->symbol) &&
           ret->bid > 0 && ret->ask >= ret->bid;
}

static bool is_side(int32_t side)
{
    return side == TWP_BUY || side == TWP_SELL;
}

/* Of another program's order the client id may be any text; it is none of ours then. */
static void client_id_take(char ret[TW_COPY_ID_BYTES], const char from[TWP_CLIENT_BYTES])
{
    if (is_id(from, TW_COPY_ID_BYTES))
        memcpy(ret, from, strlen(from) + 1);
}

bool border_position(const void *item, bool may_be_gone, struct tw_held_position *ret)
{
    struct twp_position from;
    if (!item_take(item, POSITION_BYTES_FIRST, &from, sizeof from) || !is_side(from.side) || from.volume < 0 ||
        (from.volume == 0 && !may_be_gone) || !is_symbol(from.symbol, sizeof from.symbol) ||
        !is_id(from.position_id, sizeof from.position_id) || !is_id(from.from_position_id, sizeof from.from_position_id) ||
        from.open_price < 0)
        return false;
    *ret = (struct tw_held_position){
        .side = (enum tw_side)from.side,
        .volume = from.volume,
        .open_price = from.open_price,
        .stop_loss = from.stop_loss,
        .take_profit = from.take_profit,
    };
    client_id_take(ret->client_order_id, from.client_order_id);
    return text_put(ret->position_id, sizeof ret->position_id, from.position_id) &&
           text_put(ret->from_position_id, sizeof ret->from_position_id, from.from_position_id) &&
           text_put(ret->symbol, sizeof ret->symbol, from.symbol);
}

bool border_pending(const void *item, struct tw_held_order *ret)
{
    struct twp_pending from;
    if (!item_take(item, PENDING_BYTES_FIRST, &from, sizeof from) || !is_side(from.side) || from.type < TWP_LIMIT ||
        from.type > TWP_STOP_LIMIT || from.volume <= 0 || !is_symbol(from.symbol, sizeof from.symbol) ||
        !is_id(from.order_id, sizeof from.order_id) || from.order_id[0] == '\0')
        return false;
    *ret = (struct tw_held_order){
        .side = (enum tw_side)from.side,
        .type = (enum tw_order_type)from.type,
        .volume = from.volume,
        .price = from.price,
        .stop_price = from.stop_price,
        .stop_loss = from.stop_loss,
        .take_profit = from.take_profit,
        .expires_wall_ns = from.expires_wall_ns,
    };
    client_id_take(ret->client_order_id, from.client_order_id);
    return text_put(ret->order_id, sizeof ret->order_id, from.order_id) &&
           text_put(ret->symbol, sizeof ret->symbol, from.symbol);
}

bool border_event(const void *item, struct twp_event *ret)
{
    return item_take(item, EVENT_BYTES_FIRST, ret, sizeof *ret) && is_id(ret->order_id, sizeof ret->order_id) &&
           is_id(ret->position_id, sizeof ret->position_id) && is_id(ret->client_order_id, sizeof ret->client_order_id) &&
           (ret->kind != TWP_EVENT_POSITION || ret->position != NULL);
}
