#include "translate.h"

#include <tradewake/base/clock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON(name)    TRADEWAKE__V1__REASON__REASON_##name
#define SETTLE_MS_WORST 60000u /* MT4's; what is taken of a bridge that has not said */

/* Messages are written to be read: protobuf-c has no const. */
static char *text(const char *value)
{
    return (char *)(uintptr_t)value;
}

/* False: it does not fit, and *ret is "". */
static bool text_copy(const char *from, char *ret, size_t size)
{
    size_t length = from == NULL ? 0 : strlen(from);
    bool fits = length < size;
    if (fits && length > 0)
        memcpy(ret, from, length);
    ret[fits ? length : 0] = '\0';
    return fits;
}

#define TEXT_COPY(from, to) text_copy(from, to, sizeof(to))

/* "" becomes `absent`. */
static bool number(const char *from, tw_decimal absent, tw_decimal *ret)
{
    if (!tw_decimal_parse(from, ret))
        return false;
    if (*ret == TW_DECIMAL_UNSET)
        *ret = absent;
    return true;
}

int64_t remote_duration_ns(const Google__Protobuf__Duration *duration)
{
    if (duration == NULL || duration->seconds < 0 || duration->nanos < 0)
        return 0;
    if (duration->seconds >= INT64_MAX / TW_NS_PER_S)
        return INT64_MAX;
    return duration->seconds * TW_NS_PER_S + duration->nanos;
}

static int64_t wall_ns(const Google__Protobuf__Timestamp *at)
{
    if (at == NULL || at->seconds <= 0 || at->seconds >= INT64_MAX / TW_NS_PER_S)
        return 0;
    return at->seconds * TW_NS_PER_S + at->nanos;
}

static Google__Protobuf__Timestamp *timestamp_fill(Google__Protobuf__Timestamp *ret, int64_t ns)
{
    google__protobuf__timestamp__init(ret);
    ret->seconds = ns / TW_NS_PER_S;
    ret->nanos = (int32_t)(ns % TW_NS_PER_S);
    return ret;
}

/* ---- An order. ---- */

/* 31 bits that MT4 and MT5 keep where they do not keep a comment (FNV-1a). */
static uint32_t magic_of(const char *client_order_id)
{
    uint32_t hash = 2166136261u;
    for (const char *at = client_order_id; *at != '\0'; at++)
        hash = (hash ^ (uint8_t)*at) * 16777619u;
    return hash & 0x7fffffffu;
}

static const Tradewake__V1__OrderType order_types[] = {
    [TW_ORDER_NONE] = TRADEWAKE__V1__ORDER_TYPE__ORDER_TYPE_MARKET,
    [TW_ORDER_MARKET] = TRADEWAKE__V1__ORDER_TYPE__ORDER_TYPE_MARKET,
    [TW_ORDER_LIMIT] = TRADEWAKE__V1__ORDER_TYPE__ORDER_TYPE_LIMIT,
    [TW_ORDER_STOP] = TRADEWAKE__V1__ORDER_TYPE__ORDER_TYPE_STOP,
    [TW_ORDER_STOP_LIMIT] = TRADEWAKE__V1__ORDER_TYPE__ORDER_TYPE_STOP_LIMIT,
};

static void open_fill(const struct tw_order *order, uint32_t comment_max, struct execute_message *ret)
{
    Tradewake__Adapter__V1__Open *open = &ret->open;
    tradewake__adapter__v1__open__init(open);
    open->symbol = text(order->symbol);
    open->side = (Tradewake__V1__Side)order->side;
    open->type = order->op == TW_OP_PLACE ? order_types[order->type] : TRADEWAKE__V1__ORDER_TYPE__ORDER_TYPE_MARKET;
    open->volume = tw_decimal_text(order->volume, ret->numbers[0]);
    open->price = tw_decimal_text(order->price, ret->numbers[1]);
    open->stop_price = tw_decimal_text(order->stop_price, ret->numbers[2]);
    open->stop_loss = tw_decimal_text(order->stop_loss, ret->numbers[3]);
    open->take_profit = tw_decimal_text(order->take_profit, ret->numbers[4]);
    open->magic = magic_of(order->client_order_id);
    if (comment_max >= strlen(order->client_order_id))
        (void)TEXT_COPY(order->client_order_id, ret->comment);
    open->comment = ret->comment;
    if (order->op == TW_OP_PLACE && order->expires_wall_ns > 0) {
        open->time_in_force = TRADEWAKE__ADAPTER__V1__TIME_IN_FORCE__TIME_IN_FORCE_GTD;
        open->expires_at = timestamp_fill(&ret->expires_at, order->expires_wall_ns);
    }
    ret->request.operation_case = TRADEWAKE__ADAPTER__V1__EXECUTE_REQUEST__OPERATION_OPEN;
    ret->request.open = open;
}

static void close_fill(const struct tw_order *order, struct execute_message *ret)
{
    Tradewake__Adapter__V1__Close *close = &ret->close;
    tradewake__adapter__v1__close__init(close);
    close->position_id = text(order->position_id);
    close->volume = tw_decimal_text(order->volume, ret->numbers[0]);
    close->symbol = text(order->symbol);
    close->side = (Tradewake__V1__Side)tw_side_opposite(order->side);
    close->reduce_only = order->reduce_only;
    ret->request.operation_case = TRADEWAKE__ADAPTER__V1__EXECUTE_REQUEST__OPERATION_CLOSE;
    ret->request.close = close;
}

static void modify_fill(const struct tw_order *order, struct execute_message *ret)
{
    Tradewake__Adapter__V1__Modify *modify = &ret->modify;
    tradewake__adapter__v1__modify__init(modify);
    if (order->op == TW_OP_MODIFY_ORDER)
        modify->order_id = text(order->order_id);
    else
        modify->position_id = text(order->position_id[0] != '\0' ? order->position_id : order->symbol);
    modify->symbol = text(order->symbol);
    modify->stop_loss = tw_decimal_text(order->stop_loss, ret->numbers[3]);
    modify->take_profit = tw_decimal_text(order->take_profit, ret->numbers[4]);
    if (order->op == TW_OP_MODIFY_ORDER) {
        modify->price = tw_decimal_text(order->price, ret->numbers[1]);
        modify->stop_price = tw_decimal_text(order->stop_price, ret->numbers[2]);
        if (order->expires_wall_ns >= 0)
            modify->expires_at = timestamp_fill(&ret->expires_at, order->expires_wall_ns);
    }
    ret->request.operation_case = TRADEWAKE__ADAPTER__V1__EXECUTE_REQUEST__OPERATION_MODIFY;
    ret->request.modify = modify;
}

static void cancel_fill(const struct tw_order *order, struct execute_message *ret)
{
    tradewake__adapter__v1__cancel__init(&ret->cancel);
    ret->cancel.order_id = text(order->order_id);
    ret->request.operation_case = TRADEWAKE__ADAPTER__V1__EXECUTE_REQUEST__OPERATION_CANCEL;
    ret->request.cancel = &ret->cancel;
}

void remote_execute_message_fill(const struct tw_order *order, const char *session_id, int64_t deadline_wall_ns,
                          uint32_t comment_max, struct execute_message *ret)
{
    ret->comment[0] = '\0';
    tradewake__adapter__v1__execute_request__init(&ret->request);
    ret->request.session_id = text(session_id);
    ret->request.client_order_id = text(order->client_order_id);
    ret->request.attempt = order->attempt;
    ret->request.deadline = timestamp_fill(&ret->deadline, deadline_wall_ns);
    switch (order->op) {
    case TW_OP_OPEN:
    case TW_OP_PLACE:
        open_fill(order, comment_max, ret);
        return;
    case TW_OP_CLOSE:
        close_fill(order, ret);
        return;
    case TW_OP_MODIFY:
    case TW_OP_MODIFY_ORDER:
        modify_fill(order, ret);
        return;
    case TW_OP_CANCEL:
        cancel_fill(order, ret);
        return;
    }
}

/* ---- An answer. ---- */

static enum tw_outcome outcome_of(Tradewake__Adapter__V1__Outcome outcome)
{
    static const enum tw_outcome outcomes[] = {
        [TRADEWAKE__ADAPTER__V1__OUTCOME__OUTCOME_DONE] = TW_OUTCOME_DONE,
        [TRADEWAKE__ADAPTER__V1__OUTCOME__OUTCOME_ACCEPTED] = TW_OUTCOME_ACCEPTED,
        [TRADEWAKE__ADAPTER__V1__OUTCOME__OUTCOME_PARTIAL] = TW_OUTCOME_PARTIAL,
        [TRADEWAKE__ADAPTER__V1__OUTCOME__OUTCOME_NO_CHANGE] = TW_OUTCOME_NO_CHANGE,
        [TRADEWAKE__ADAPTER__V1__OUTCOME__OUTCOME_RETRY_NOW] = TW_OUTCOME_RETRY_NOW,
        [TRADEWAKE__ADAPTER__V1__OUTCOME__OUTCOME_RETRY_LATER] = TW_OUTCOME_RETRY_LATER,
        [TRADEWAKE__ADAPTER__V1__OUTCOME__OUTCOME_REJECTED] = TW_OUTCOME_REJECTED,
        [TRADEWAKE__ADAPTER__V1__OUTCOME__OUTCOME_NOT_FOUND] = TW_OUTCOME_NOT_FOUND,
        [TRADEWAKE__ADAPTER__V1__OUTCOME__OUTCOME_UNSUPPORTED] = TW_OUTCOME_UNSUPPORTED,
    };
    unsigned number = (unsigned)outcome;
    return number < sizeof outcomes / sizeof outcomes[0] ? outcomes[number] : TW_OUTCOME_AMBIGUOUS;
}

/* A number that is none of ours is not written down as if it were. */
static tw_reason reason_of(Tradewake__V1__Reason reason)
{
    bool is_known = protobuf_c_enum_descriptor_get_value(&tradewake__v1__reason__descriptor, (int)reason) != NULL;
    return is_known ? reason : REASON(BROKER_OTHER);
}

static bool is_refusal(enum tw_outcome outcome)
{
    return outcome == TW_OUTCOME_RETRY_NOW || outcome == TW_OUTCOME_RETRY_LATER || outcome == TW_OUTCOME_REJECTED;
}

static void ack_ambiguous(struct tw_ack *ack, const char *why)
{
    *ack = (struct tw_ack){.reason = REASON(BROKER_OTHER), .remaining_volume = TW_DECIMAL_UNSET};
    (void)TEXT_COPY(why, ack->broker_message);
}

/* The broker's words may be long: they are cut, at a whole character. */
static void words_copy(const char *from, char *ret, size_t size)
{
    snprintf(ret, size, "%s", from);
    size_t length = strlen(ret);
    if (length + 1 < size)
        return;
    while (length > 0 && ((uint8_t)ret[length - 1] & 0xc0) == 0x80)
        length--;
    if (length > 0 && ((uint8_t)ret[length - 1] & 0x80) != 0)
        length--;
    ret[length] = '\0';
}

static bool details_copy(const Tradewake__Adapter__V1__ExecuteResponse *response, struct tw_ack *ack)
{
    bool fits = TEXT_COPY(response->order_id, ack->order_id);
    fits = TEXT_COPY(response->position_id, ack->position_id) && fits;
    fits = TEXT_COPY(response->remainder_position_id, ack->remainder_position_id) && fits;
    fits = number(response->filled_volume, 0, &ack->filled_volume) && fits;
    fits = number(response->average_price, 0, &ack->average_price) && fits;
    return number(response->remaining_volume, TW_DECIMAL_UNSET, &ack->remaining_volume) && fits;
}

static void ack_read(const Tradewake__Adapter__V1__ExecuteResponse *response, struct tw_ack *ret)
{
    const Tradewake__Adapter__V1__Status *status = response != NULL ? response->status : NULL;
    *ret = (struct tw_ack){.remaining_volume = TW_DECIMAL_UNSET};
    if (status == NULL) {
        ack_ambiguous(ret, "the bridge answered without a status");
        return;
    }
    ret->outcome = outcome_of(status->outcome);
    ret->reason = reason_of(status->reason);
    ret->broker_code = status->broker_code;
    ret->stops_missing = response->stops_missing;
    ret->retry_after_ns = remote_duration_ns(status->retry_after);
    words_copy(status->broker_message, ret->broker_message, sizeof ret->broker_message);
    if (!details_copy(response, ret) || ret->filled_volume < 0)
        ack_ambiguous(ret, "the bridge's answer has a number or an id that is none");
}

void remote_ack_from_response(const struct tw_order *order, const Tradewake__Adapter__V1__ExecuteResponse *response,
                       struct tw_ack *ret)
{
    ack_read(response, ret);
    if (ret->outcome == TW_OUTCOME_AMBIGUOUS)
        return;
    /* Only what was refused can have stayed here; and nothing that filled was. */
    ret->not_sent = is_refusal(ret->outcome) && response->status->not_sent;
    if ((is_refusal(ret->outcome) || ret->outcome == TW_OUTCOME_NOT_FOUND) && ret->filled_volume > 0)
        ack_ambiguous(ret, "the bridge refused what it says has filled");
    else if (ret->outcome == TW_OUTCOME_PARTIAL && ret->filled_volume == 0)
        ack_ambiguous(ret, "the bridge does not say how much has filled");
    else if (order->op == TW_OP_OPEN && ret->outcome == TW_OUTCOME_DONE &&
             (ret->filled_volume == 0 || ret->position_id[0] == '\0'))
        ack_ambiguous(ret, "the bridge does not say what has filled");
    else if (order->op == TW_OP_PLACE && (ret->outcome == TW_OUTCOME_DONE || ret->outcome == TW_OUTCOME_ACCEPTED) &&
             ret->order_id[0] == '\0' && ret->position_id[0] == '\0')
        ack_ambiguous(ret, "the bridge does not name the order it placed");
}

void remote_ack_from_lookup(const Tradewake__Adapter__V1__LookupResponse *response, struct tw_ack *ret)
{
    ack_read(response->last, ret);
    /* Busy, limited: it could not be asked. And what was seen nowhere in a hurry is not absent. */
    bool could_ask = ret->outcome != TW_OUTCOME_RETRY_NOW && ret->outcome != TW_OUTCOME_RETRY_LATER &&
                     ret->outcome != TW_OUTCOME_UNSUPPORTED;
    if (!could_ask || (ret->outcome == TW_OUTCOME_NOT_FOUND && !response->authoritative))
        ret->outcome = TW_OUTCOME_AMBIGUOUS;
}

/* ---- What an account holds. ---- */

bool remote_account_from_message(const Tradewake__V1__AccountState *message, struct tw_account *ret)
{
    *ret = (struct tw_account){.balance = TW_DECIMAL_UNSET, .equity = TW_DECIMAL_UNSET, .free_margin = TW_DECIMAL_UNSET};
    if (message == NULL)
        return false;
    ret->leverage = message->leverage;
    return TEXT_COPY(message->currency, ret->currency) && tw_decimal_parse(message->balance, &ret->balance) &&
           tw_decimal_parse(message->equity, &ret->equity) && tw_decimal_parse(message->free_margin, &ret->free_margin);
}

static bool side_of(Tradewake__V1__Side side, enum tw_side *ret)
{
    *ret = side == TRADEWAKE__V1__SIDE__SIDE_BUY    ? TW_BUY
           : side == TRADEWAKE__V1__SIDE__SIDE_SELL ? TW_SELL
                                                    : TW_SIDE_NONE;
    return *ret != TW_SIDE_NONE;
}

/* Ours have 20 characters: a longer one is somebody else's. */
static void client_id_copy(const char *from, char ret[TW_COPY_ID_BYTES])
{
    (void)text_copy(from, ret, TW_COPY_ID_BYTES);
}

bool remote_position_from_message(const Tradewake__Adapter__V1__Position *message, struct tw_held_position *ret)
{
    *ret = (struct tw_held_position){0};
    client_id_copy(message->client_order_id, ret->client_order_id);
    return TEXT_COPY(message->position_id, ret->position_id) && TEXT_COPY(message->symbol, ret->symbol) &&
           ret->symbol[0] != '\0' && side_of(message->side, &ret->side) &&
           TEXT_COPY(message->from_position_id, ret->from_position_id) && number(message->volume, 0, &ret->volume) &&
           ret->volume >= 0 && number(message->open_price, 0, &ret->open_price) &&
           number(message->stop_loss, 0, &ret->stop_loss) && number(message->take_profit, 0, &ret->take_profit);
}

static bool order_from_message(const Tradewake__Adapter__V1__WorkingOrder *message, struct tw_held_order *ret)
{
    *ret = (struct tw_held_order){.expires_wall_ns = wall_ns(message->expires_at)};
    for (int type = TW_ORDER_LIMIT; type <= TW_ORDER_STOP_LIMIT; type++)
        if (order_types[type] == message->type)
            ret->type = (enum tw_order_type)type;
    client_id_copy(message->client_order_id, ret->client_order_id);
    return TEXT_COPY(message->order_id, ret->order_id) && ret->order_id[0] != '\0' &&
           TEXT_COPY(message->symbol, ret->symbol) && side_of(message->side, &ret->side) &&
           number(message->volume, 0, &ret->volume) && number(message->price, TW_DECIMAL_UNSET, &ret->price) &&
           number(message->stop_price, TW_DECIMAL_UNSET, &ret->stop_price) &&
           number(message->stop_loss, 0, &ret->stop_loss) && number(message->take_profit, 0, &ret->take_profit);
}

bool remote_snapshot_from_response(const Tradewake__Adapter__V1__SnapshotResponse *response, int64_t now_wall_ns,
                            struct tw_snapshot *ret)
{
    *ret = (struct tw_snapshot){.as_of_wall_ns = wall_ns(response->as_of)};
    bool is_whole = response->position_count == response->n_positions && response->order_count == response->n_orders &&
                    remote_account_from_message(response->account, &ret->account);
    if (!is_whole)
        return false;
    if (ret->as_of_wall_ns == 0)
        ret->as_of_wall_ns = now_wall_ns;
    ret->positions = calloc(response->n_positions + 1, sizeof *ret->positions);
    ret->orders = calloc(response->n_orders + 1, sizeof *ret->orders);
    is_whole = ret->positions != NULL && ret->orders != NULL;
    for (; is_whole && ret->n_positions < response->n_positions; ret->n_positions++)
        is_whole = remote_position_from_message(response->positions[ret->n_positions], &ret->positions[ret->n_positions]);
    for (; is_whole && ret->n_orders < response->n_orders; ret->n_orders++)
        is_whole = order_from_message(response->orders[ret->n_orders], &ret->orders[ret->n_orders]);
    ret->complete = is_whole;
    if (!is_whole)
        tw_snapshot_clear(ret);
    return is_whole;
}

bool remote_instrument_from_response(const char *symbol, const Tradewake__Adapter__V1__GetInstrumentResponse *response,
                              struct tw_instrument *ret, tw_decimal *ret_bid, tw_decimal *ret_ask)
{
    *ret = (struct tw_instrument){0};
    return TEXT_COPY(symbol, ret->symbol) && number(response->tick_size, 0, &ret->tick_size) && ret->tick_size > 0 &&
           number(response->min_volume, 0, &ret->volume_min) && number(response->max_volume, 0, &ret->volume_max) &&
           number(response->volume_step, 0, &ret->volume_step) && ret->volume_step > 0 &&
           number(response->contract_size, 0, &ret->contract_size) && ret->contract_size > 0 &&
           number(response->min_notional, 0, &ret->min_notional) &&
           number(response->stops_distance, 0, &ret->stops_distance) &&
           number(response->freeze_distance, 0, &ret->freeze_distance) &&
           TEXT_COPY(response->base_currency, ret->base_currency) &&
           TEXT_COPY(response->profit_currency, ret->profit_currency) && tw_decimal_parse(response->bid, ret_bid) &&
           tw_decimal_parse(response->ask, ret_ask);
}

/* ---- What a bridge can do. ---- */

static uint32_t milliseconds(int64_t ns, uint32_t max)
{
    return ns >= (int64_t)max * TW_NS_PER_MS ? max : (uint32_t)((ns + TW_NS_PER_MS - 1) / TW_NS_PER_MS);
}

void remote_capabilities_from_response(const Tradewake__Adapter__V1__GetCapabilitiesResponse *response, bool is_netting,
                                int64_t call_timeout_ns, struct tw_capabilities *ret)
{
    *ret = (struct tw_capabilities){
        .netting = is_netting,
        .max_parallel = 1,
        .call_timeout_ms = milliseconds(call_timeout_ns, UINT32_MAX),
        .settle_ms = SETTLE_MS_WORST,
    };
    if (response == NULL)
        return;
    Tradewake__Adapter__V1__IdStrength strength = response->id_strength;
    bool is_journal = strength == TRADEWAKE__ADAPTER__V1__ID_STRENGTH__ID_STRENGTH_JOURNAL;
    bool is_broker = strength == TRADEWAKE__ADAPTER__V1__ID_STRENGTH__ID_STRENGTH_BROKER;
    ret->query_by_id = is_journal || is_broker;
    ret->not_found_is_final = is_journal || is_broker;
    ret->reduce_only = response->reduce_only;
    ret->max_parallel = response->max_parallel == 0                ? 1
                        : response->max_parallel > TW_PARALLEL_MAX ? TW_PARALLEL_MAX
                                                                   : response->max_parallel;
    ret->settle_ms = milliseconds(remote_duration_ns(response->not_found_settle), 3600u * 1000u);
}
