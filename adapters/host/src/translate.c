#include "translate.h"

#include <tradewake/base/clock.h>

#include <string.h>

#define OUTCOME(name) TRADEWAKE__ADAPTER__V1__OUTCOME__OUTCOME_##name
#define REASON(name)  TRADEWAKE__V1__REASON__REASON_##name
#define TYPE(name)    TRADEWAKE__V1__ORDER_TYPE__ORDER_TYPE_##name

/* Messages are written to be read: protobuf-c has no const. */
static char *text(const char *value)
{
    return (char *)(uintptr_t)value;
}

static bool text_copy(const char *from, char *ret, size_t size)
{
    size_t length = strlen(from);
    bool fits = length < size;
    memcpy(ret, from, fits ? length + 1 : 0);
    return fits;
}

#define TEXT_COPY(from, to) text_copy(from, to, sizeof(to))

/* ---- In. ---- */

static bool side_take(Tradewake__V1__Side side, enum tw_side *ret)
{
    *ret = side == TRADEWAKE__V1__SIDE__SIDE_BUY    ? TW_BUY
           : side == TRADEWAKE__V1__SIDE__SIDE_SELL ? TW_SELL
                                                    : TW_SIDE_NONE;
    return *ret != TW_SIDE_NONE;
}

static bool type_take(Tradewake__V1__OrderType type, enum tw_order_type *ret)
{
    *ret = type == TYPE(MARKET)       ? TW_ORDER_MARKET
           : type == TYPE(LIMIT)      ? TW_ORDER_LIMIT
           : type == TYPE(STOP)       ? TW_ORDER_STOP
           : type == TYPE(STOP_LIMIT) ? TW_ORDER_STOP_LIMIT
                                      : TW_ORDER_NONE;
    return *ret != TW_ORDER_NONE;
}

static bool is_above_zero(tw_decimal value)
{
    return value != TW_DECIMAL_UNSET && value > 0;
}

static bool open_take(const Tradewake__Adapter__V1__Open *open, struct tw_order *ret)
{
    if (!type_take(open->type, &ret->type))
        return false;
    ret->op = ret->type == TW_ORDER_MARKET ? TW_OP_OPEN : TW_OP_PLACE;
    if (open->expires_at != NULL)
        ret->expires_wall_ns = open->expires_at->seconds * TW_NS_PER_S + open->expires_at->nanos;
    return side_take(open->side, &ret->side) && TEXT_COPY(open->symbol, ret->symbol) &&
           tw_decimal_parse(open->volume, &ret->volume) && is_above_zero(ret->volume) &&
           tw_decimal_parse(open->price, &ret->price) && tw_decimal_parse(open->stop_price, &ret->stop_price) &&
           tw_decimal_parse(open->stop_loss, &ret->stop_loss) && tw_decimal_parse(open->take_profit, &ret->take_profit);
}

static bool close_take(const Tradewake__Adapter__V1__Close *close, struct tw_order *ret)
{
    enum tw_side held;
    ret->op = TW_OP_CLOSE;
    ret->type = TW_ORDER_MARKET;
    ret->reduce_only = close->reduce_only;
    if (!side_take(close->side, &held))
        return false;
    ret->side = tw_side_opposite(held);
    return TEXT_COPY(close->position_id, ret->position_id) && TEXT_COPY(close->symbol, ret->symbol) &&
           tw_decimal_parse(close->volume, &ret->volume) && (ret->volume == TW_DECIMAL_UNSET || ret->volume > 0);
}

static bool modify_take(const Tradewake__Adapter__V1__Modify *modify, bool is_netting, struct tw_order *ret)
{
    ret->op = modify->order_id[0] != '\0' ? TW_OP_MODIFY_ORDER : TW_OP_MODIFY;
    ret->expires_wall_ns = modify->expires_at != NULL
                               ? modify->expires_at->seconds * TW_NS_PER_S + modify->expires_at->nanos
                               : -1;
    bool is_named = modify->order_id[0] != '\0' || modify->position_id[0] != '\0';
    /* Where one symbol is one position, its name may stand in the position's place. */
    const char *symbol = modify->symbol[0] == '\0' && is_netting ? modify->position_id : modify->symbol;
    return is_named && TEXT_COPY(modify->order_id, ret->order_id) && TEXT_COPY(modify->position_id, ret->position_id) &&
           TEXT_COPY(symbol, ret->symbol) && tw_decimal_parse(modify->price, &ret->price) &&
           tw_decimal_parse(modify->stop_price, &ret->stop_price) && tw_decimal_parse(modify->stop_loss, &ret->stop_loss) &&
           tw_decimal_parse(modify->take_profit, &ret->take_profit);
}

bool host_order_from_request(const Tradewake__Adapter__V1__ExecuteRequest *request, bool is_netting, struct tw_order *ret)
{
    *ret = (struct tw_order){
        .attempt = request->attempt,
        .volume = TW_DECIMAL_UNSET,
        .price = TW_DECIMAL_UNSET,
        .stop_price = TW_DECIMAL_UNSET,
        .stop_loss = TW_DECIMAL_UNSET,
        .take_profit = TW_DECIMAL_UNSET,
    };
    if (request->client_order_id[0] == '\0' || !TEXT_COPY(request->client_order_id, ret->client_order_id))
        return false;
    switch (request->operation_case) {
    case TRADEWAKE__ADAPTER__V1__EXECUTE_REQUEST__OPERATION_OPEN:
        return open_take(request->open, ret);
    case TRADEWAKE__ADAPTER__V1__EXECUTE_REQUEST__OPERATION_CLOSE:
        return close_take(request->close, ret);
    case TRADEWAKE__ADAPTER__V1__EXECUTE_REQUEST__OPERATION_MODIFY:
        return modify_take(request->modify, is_netting, ret);
    case TRADEWAKE__ADAPTER__V1__EXECUTE_REQUEST__OPERATION_CANCEL:
        ret->op = TW_OP_CANCEL;
        return request->cancel->order_id[0] != '\0' && TEXT_COPY(request->cancel->order_id, ret->order_id);
    default:
        return false;
    }
}

int64_t host_deadline_mono_ns(const Tradewake__Adapter__V1__ExecuteRequest *request, int64_t now_wall_ns, int64_t now_mono_ns)
{
    if (request->deadline == NULL)
        return INT64_MAX;
    if (request->deadline->seconds <= 0 || request->deadline->seconds >= INT64_MAX / TW_NS_PER_S)
        return request->deadline->seconds <= 0 ? 0 : INT64_MAX;
    int64_t wall_ns = request->deadline->seconds * TW_NS_PER_S + request->deadline->nanos;
    return now_mono_ns + (wall_ns - now_wall_ns);
}

/* ---- Out. ---- */

void host_timestamp_fill(int64_t wall_ns, Google__Protobuf__Timestamp *ret)
{
    google__protobuf__timestamp__init(ret);
    ret->seconds = wall_ns / TW_NS_PER_S;
    ret->nanos = (int32_t)(wall_ns % TW_NS_PER_S);
}

static Tradewake__V1__Side side_of(enum tw_side side)
{
    return side == TW_BUY    ? TRADEWAKE__V1__SIDE__SIDE_BUY
           : side == TW_SELL ? TRADEWAKE__V1__SIDE__SIDE_SELL
                             : TRADEWAKE__V1__SIDE__SIDE_UNSPECIFIED;
}

static Tradewake__Adapter__V1__Outcome outcome_of(enum tw_outcome outcome)
{
    static const Tradewake__Adapter__V1__Outcome outcomes[] = {
        [TW_OUTCOME_AMBIGUOUS] = OUTCOME(AMBIGUOUS),     [TW_OUTCOME_DONE] = OUTCOME(DONE),
        [TW_OUTCOME_ACCEPTED] = OUTCOME(ACCEPTED),       [TW_OUTCOME_PARTIAL] = OUTCOME(PARTIAL),
        [TW_OUTCOME_NO_CHANGE] = OUTCOME(NO_CHANGE),     [TW_OUTCOME_RETRY_NOW] = OUTCOME(RETRY_NOW),
        [TW_OUTCOME_RETRY_LATER] = OUTCOME(RETRY_LATER), [TW_OUTCOME_REJECTED] = OUTCOME(REJECTED),
        [TW_OUTCOME_NOT_FOUND] = OUTCOME(NOT_FOUND),     [TW_OUTCOME_UNSUPPORTED] = OUTCOME(UNSUPPORTED),
    };
    size_t number = (size_t)outcome;
    return number < sizeof outcomes / sizeof outcomes[0] ? outcomes[number] : OUTCOME(AMBIGUOUS);
}

void host_answer_fill(const struct tw_ack *ack, const struct tw_order *order, bool is_netting, struct answer_message *ret)
{
    tradewake__adapter__v1__execute_response__init(&ret->response);
    tradewake__adapter__v1__status__init(&ret->status);
    ret->response.status = &ret->status;
    ret->status.outcome = outcome_of(ack->outcome);
    ret->status.reason = ack->reason;
    ret->status.broker_code = ack->broker_code;
    ret->status.broker_message = text(ack->broker_message);
    ret->status.not_sent = ack->not_sent;
    if (ack->retry_after_ns > 0) {
        google__protobuf__duration__init(&ret->retry_after);
        ret->retry_after.seconds = ack->retry_after_ns / TW_NS_PER_S;
        ret->retry_after.nanos = (int32_t)(ack->retry_after_ns % TW_NS_PER_S);
        ret->status.retry_after = &ret->retry_after;
    }
    /* On a netting account the position is its symbol, where the broker gives it no id. */
    bool is_symbol = ack->position_id[0] == '\0' && is_netting && order != NULL && order->op == TW_OP_OPEN &&
                     (ack->outcome == TW_OUTCOME_DONE || ack->outcome == TW_OUTCOME_PARTIAL);
    ret->response.order_id = text(ack->order_id);
    ret->response.position_id = text(is_symbol ? order->symbol : ack->position_id);
    ret->response.remainder_position_id = text(ack->remainder_position_id);
    ret->response.filled_volume = tw_decimal_text(ack->filled_volume, ret->numbers[0]);
    ret->response.average_price = tw_decimal_text(ack->average_price, ret->numbers[1]);
    ret->response.remaining_volume = tw_decimal_text(ack->remaining_volume, ret->numbers[2]);
    ret->response.stops_missing = ack->stops_missing;
}

void host_account_fill(const struct tw_account *account, struct account_message *ret)
{
    tradewake__v1__account_state__init(&ret->state);
    ret->state.currency = text(account->currency);
    ret->state.balance = tw_decimal_text(account->balance, ret->numbers[0]);
    ret->state.equity = tw_decimal_text(account->equity, ret->numbers[1]);
    ret->state.free_margin = tw_decimal_text(account->free_margin, ret->numbers[2]);
    ret->state.leverage = account->leverage;
}

void host_position_fill(const struct tw_held_position *position, struct position_message *ret)
{
    tradewake__adapter__v1__position__init(&ret->position);
    ret->position.position_id = text(position->position_id);
    ret->position.symbol = text(position->symbol);
    ret->position.side = side_of(position->side);
    ret->position.volume = tw_decimal_text(position->volume, ret->numbers[0]);
    ret->position.open_price = tw_decimal_text(position->open_price, ret->numbers[1]);
    ret->position.stop_loss = tw_decimal_text(position->stop_loss, ret->numbers[2]);
    ret->position.take_profit = tw_decimal_text(position->take_profit, ret->numbers[3]);
    ret->position.client_order_id = text(position->client_order_id);
    ret->position.from_position_id = text(position->from_position_id);
}

void host_working_fill(const struct tw_held_order *order, struct working_message *ret)
{
    static const Tradewake__V1__OrderType types[] = {[TW_ORDER_NONE] = TYPE(UNSPECIFIED),
                                                     [TW_ORDER_MARKET] = TYPE(MARKET),
                                                     [TW_ORDER_LIMIT] = TYPE(LIMIT),
                                                     [TW_ORDER_STOP] = TYPE(STOP),
                                                     [TW_ORDER_STOP_LIMIT] = TYPE(STOP_LIMIT)};
    tradewake__adapter__v1__working_order__init(&ret->order);
    ret->order.order_id = text(order->order_id);
    ret->order.symbol = text(order->symbol);
    ret->order.side = side_of(order->side);
    ret->order.type = types[order->type];
    ret->order.volume = tw_decimal_text(order->volume, ret->numbers[0]);
    ret->order.price = tw_decimal_text(order->price, ret->numbers[1]);
    ret->order.stop_price = tw_decimal_text(order->stop_price, ret->numbers[2]);
    ret->order.stop_loss = tw_decimal_text(order->stop_loss, ret->numbers[3]);
    ret->order.take_profit = tw_decimal_text(order->take_profit, ret->numbers[4]);
    ret->order.client_order_id = text(order->client_order_id);
    if (order->expires_wall_ns > 0) {
        host_timestamp_fill(order->expires_wall_ns, &ret->expires_at);
        ret->order.expires_at = &ret->expires_at;
    }
}

void host_instrument_fill(const struct tw_instrument *instrument, tw_decimal bid, tw_decimal ask, struct instrument_message *ret)
{
    tradewake__adapter__v1__get_instrument_response__init(&ret->response);
    tradewake__adapter__v1__status__init(&ret->status);
    ret->status.outcome = OUTCOME(DONE);
    ret->response.status = &ret->status;
    ret->response.tick_size = tw_decimal_text(instrument->tick_size, ret->numbers[0]);
    ret->response.min_volume = tw_decimal_text(instrument->volume_min, ret->numbers[1]);
    ret->response.max_volume = tw_decimal_text(instrument->volume_max, ret->numbers[2]);
    ret->response.volume_step = tw_decimal_text(instrument->volume_step, ret->numbers[3]);
    ret->response.contract_size = tw_decimal_text(instrument->contract_size, ret->numbers[4]);
    ret->response.min_notional = tw_decimal_text(instrument->min_notional, ret->numbers[5]);
    ret->response.stops_distance = tw_decimal_text(instrument->stops_distance, ret->numbers[6]);
    ret->response.freeze_distance = tw_decimal_text(instrument->freeze_distance, ret->numbers[7]);
    ret->response.bid = tw_decimal_text(bid, ret->numbers[8]);
    ret->response.ask = tw_decimal_text(ask, ret->numbers[9]);
    ret->response.base_currency = text(instrument->base_currency);
    ret->response.profit_currency = text(instrument->profit_currency);
}
