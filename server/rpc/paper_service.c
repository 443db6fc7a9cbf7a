#include "paper_service.h"

#include <tradewake/adapters/paper.h>
#include <tradewake/base/clock.h>
#include <tradewake/core/check.h>

#include <tradewake/paper/v1/paper.pb-c.h>

#include <stdio.h>
#include <string.h>

#define REASON(name) TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_##name

/* A book of 16384 deals takes about 6 MB while it is put together, and packs to less than 4 MiB. */
#define BOOK_BUILD_BYTES_MAX  (64u * 1024u * 1024u)
#define CONFIGURE_ENTRIES_MAX 4096u /* quotes, and instruments: far above any drill */

/* Set before the first call. */
static void *adapter;

void tw_paper_service_adapter_set(void *paper)
{
    adapter = paper;
}

/* ---- Checks. ---- */

static const struct tw_check *top(struct tw_refusal *refusal, struct tw_check *ret)
{
    *ret = (struct tw_check){.prefix = "", .refusal = refusal};
    return ret;
}

static void no_such_account(struct tw_refusal *refusal, const char *follower_id)
{
    (void)tw_refuse(refusal, REASON(NOT_FOUND), "follower_id", "there is no paper account \"%s\"",
                    follower_id);
}

static bool symbol_check(const struct tw_check *check, const char *value)
{
    return tw_check_text(check, "symbol", value, 1, TW_SYMBOL_CHARS_MAX);
}

/* ---- GetBook. ---- */

/* Texts of a response; NULL when the arena is used up. */
static char *decimal(struct tw_arena *arena, tw_decimal value)
{
    char text[TW_DECIMAL_TEXT_BYTES];
    tw_decimal_text(value, text);
    return tw_arena_text(arena, text, strlen(text));
}

/* Of a stop: 0 is none, and none is "". */
static char *stop(struct tw_arena *arena, tw_decimal value)
{
    return decimal(arena, value == 0 ? TW_DECIMAL_UNSET : value);
}

static char *text(struct tw_arena *arena, const char *value)
{
    return tw_arena_text(arena, value, strlen(value));
}

static Google__Protobuf__Timestamp *timestamp(struct tw_arena *arena, int64_t wall_ns)
{
    Google__Protobuf__Timestamp *at = tw_arena_take(arena, sizeof(*at));
    if (at == NULL)
        return NULL;
    google__protobuf__timestamp__init(at);
    at->seconds = wall_ns / TW_NS_PER_S;
    at->nanos = (int32_t)(wall_ns % TW_NS_PER_S);
    return at;
}

static Tradewake__Paper__V1__PaperPosition *
position_message(struct tw_arena *arena, const struct tw_held_position *held, bool has_comment)
{
    Tradewake__Paper__V1__PaperPosition *message = tw_arena_take(arena, sizeof(*message));
    if (message == NULL)
        return NULL;
    tradewake__paper__v1__paper_position__init(message);
    message->position_id = text(arena, held->position_id);
    message->symbol = text(arena, held->symbol);
    message->side = (Tradewake__V1__Side)held->side;
    message->volume = decimal(arena, held->volume);
    message->open_price = decimal(arena, held->open_price);
    message->stop_loss = stop(arena, held->stop_loss);
    message->take_profit = stop(arena, held->take_profit);
    message->client_order_id = text(arena, held->client_order_id);
    if (has_comment)
        message->comment = message->client_order_id;
    return message;
}

static Tradewake__Paper__V1__PaperOrder *order_message(struct tw_arena *arena,
                                                       const struct tw_held_order *held)
{
    Tradewake__Paper__V1__PaperOrder *message = tw_arena_take(arena, sizeof(*message));
    if (message == NULL)
        return NULL;
    tradewake__paper__v1__paper_order__init(message);
    message->order_id = text(arena, held->order_id);
    message->symbol = text(arena, held->symbol);
    message->side = (Tradewake__V1__Side)held->side;
    message->type = (Tradewake__V1__OrderType)held->type;
    message->volume = decimal(arena, held->volume);
    message->price = decimal(arena, held->price);
    message->stop_price = stop(arena, held->stop_price);
    message->stop_loss = stop(arena, held->stop_loss);
    message->take_profit = stop(arena, held->take_profit);
    message->client_order_id = text(arena, held->client_order_id);
    if (held->expires_wall_ns != 0)
        message->expires_at = timestamp(arena, held->expires_wall_ns);
    return message;
}

static Tradewake__Paper__V1__PaperDeal *deal_message(struct tw_arena *arena,
                                                     const struct tw_paper_deal *deal)
{
    Tradewake__Paper__V1__PaperDeal *message = tw_arena_take(arena, sizeof(*message));
    if (message == NULL)
        return NULL;
    tradewake__paper__v1__paper_deal__init(message);
    message->client_order_id = text(arena, deal->client_order_id);
    message->symbol = text(arena, deal->symbol);
    message->side = (Tradewake__V1__Side)deal->side;
    message->volume = decimal(arena, deal->volume);
    message->price = decimal(arena, deal->price);
    message->position_id = text(arena, deal->position_id);
    message->at = timestamp(arena, deal->at_wall_ns);
    return message;
}

static Tradewake__V1__AccountState *account_message(struct tw_arena *arena,
                                                    const struct tw_account *account)
{
    Tradewake__V1__AccountState *message = tw_arena_take(arena, sizeof(*message));
    if (message == NULL)
        return NULL;
    tradewake__v1__account_state__init(message);
    message->currency = text(arena, account->currency);
    message->balance = decimal(arena, account->balance);
    message->equity = decimal(arena, account->equity);
    message->free_margin = decimal(arena, account->free_margin);
    message->leverage = account->leverage;
    return message;
}

/* False: the arena is used up. */
static bool book_fill(struct tw_arena *arena, const struct tw_paper_book *book,
                      Tradewake__Paper__V1__GetBookResponse *response)
{
    const struct tw_snapshot *holds = &book->holds;
    response->positions = tw_arena_take(arena, (holds->n_positions + 1) * sizeof(void *));
    response->orders = tw_arena_take(arena, (holds->n_orders + 1) * sizeof(void *));
    response->deals = tw_arena_take(arena, (book->n_deals + 1) * sizeof(void *));
    response->account = account_message(arena, &holds->account);
    if (response->positions == NULL || response->orders == NULL || response->deals == NULL)
        return false;
    for (size_t i = 0; i < holds->n_positions; i++)
        response->positions[i] =
            position_message(arena, &holds->positions[i], !book->strip_comments);
    for (size_t i = 0; i < holds->n_orders; i++)
        response->orders[i] = order_message(arena, &holds->orders[i]);
    for (size_t i = 0; i < book->n_deals; i++)
        response->deals[i] = deal_message(arena, &book->deals[i]);
    response->n_positions = holds->n_positions;
    response->n_orders = holds->n_orders;
    response->n_deals = book->n_deals;
    response->calls = book->calls;
    return arena->used_bytes < arena->cap_bytes / 2; /* far from the cap: nothing was left out */
}

static void no_room(struct tw_refusal *refusal)
{
    (void)tw_refuse(refusal, REASON(TOO_LARGE), NULL,
                    "the book is larger than an answer may be; close positions first");
}

void tw_paper_get_book_on_request(struct tw_call *call, const ProtobufCMessage *request_message,
                                  const struct tw_refusal *invalid)
{
    const Tradewake__Paper__V1__GetBookRequest *request = (const void *)request_message;
    struct tw_refusal refusal = {0};
    struct tw_check check;
    (void)invalid; /* refused before it comes here: no takes_invalid */
    if (!tw_check_id(top(&refusal, &check), "follower_id", request->follower_id)) {
        tw_call_refuse(call, &refusal);
        return;
    }

    struct tw_paper_book book = {0};
    tw_status status =
        adapter == NULL ? TW_NOT_FOUND : tw_paper_book_read(adapter, request->follower_id, &book);
    struct tw_arena arena;
    tw_arena_init(&arena, BOOK_BUILD_BYTES_MAX);
    Tradewake__Paper__V1__GetBookResponse response;
    tradewake__paper__v1__get_book_response__init(&response);
    if (status == TW_NOT_FOUND)
        no_such_account(&refusal, request->follower_id);
    else if (status != TW_OK || !book_fill(&arena, &book, &response))
        no_room(&refusal);
    if (refusal.reason != REASON(UNSPECIFIED))
        tw_call_refuse(call, &refusal);
    else
        tw_call_answer(call, &response.base);
    tw_paper_book_clear(&book);
    tw_arena_clear(&arena);
}

/* ---- Configure. ---- */

static bool quotes_read(const Tradewake__Paper__V1__ConfigureRequest *request,
                        struct tw_paper_quote *quotes, struct tw_refusal *refusal)
{
    for (size_t i = 0; i < request->n_quotes; i++) {
        const Tradewake__Paper__V1__Quote *quote = request->quotes[i];
        char prefix[48];
        snprintf(prefix, sizeof(prefix), "quotes[%zu].", i);
        struct tw_check check = {.prefix = prefix, .refusal = refusal};
        if (!symbol_check(&check, quote->symbol) ||
            !tw_check_decimal(&check, "bid", quote->bid, TW_POSITIVE_REQUIRED, &quotes[i].bid) ||
            !tw_check_decimal(&check, "ask", quote->ask, TW_POSITIVE_REQUIRED, &quotes[i].ask))
            return false;
        if (quotes[i].bid > quotes[i].ask)
            return tw_check_fail(&check, "ask", "is \"%s\", expected at least the bid \"%s\"",
                                 quote->ask, quote->bid);
        quotes[i].symbol = quote->symbol;
    }
    return true;
}

static bool instrument_read(const struct tw_check *check,
                            const Tradewake__Paper__V1__Instrument *from, struct tw_instrument *ret)
{
    *ret = (struct tw_instrument){0};
    if (!symbol_check(check, from->symbol) ||
        !tw_check_decimal(check, "min_volume", from->min_volume, TW_POSITIVE, &ret->volume_min) ||
        !tw_check_decimal(check, "max_volume", from->max_volume, TW_POSITIVE, &ret->volume_max) ||
        !tw_check_decimal(check, "volume_step", from->volume_step, TW_POSITIVE,
                          &ret->volume_step) ||
        !tw_check_decimal(check, "contract_size", from->contract_size, TW_POSITIVE,
                          &ret->contract_size) ||
        !tw_check_decimal(check, "tick_size", from->tick_size, TW_POSITIVE, &ret->tick_size) ||
        !tw_check_decimal(check, "min_notional", from->min_notional, TW_NOT_NEGATIVE,
                          &ret->min_notional) ||
        !tw_check_decimal(check, "stops_distance", from->stops_distance, TW_NOT_NEGATIVE,
                          &ret->stops_distance) ||
        !tw_check_decimal(check, "freeze_distance", from->freeze_distance, TW_NOT_NEGATIVE,
                          &ret->freeze_distance))
        return false;
    strncpy(ret->symbol, from->symbol, sizeof(ret->symbol) - 1);
    return true;
}

static bool instruments_read(const Tradewake__Paper__V1__ConfigureRequest *request,
                             struct tw_instrument *instruments, struct tw_refusal *refusal)
{
    for (size_t i = 0; i < request->n_instruments; i++) {
        char prefix[48];
        snprintf(prefix, sizeof(prefix), "instruments[%zu].", i);
        struct tw_check check = {.prefix = prefix, .refusal = refusal};
        if (!instrument_read(&check, request->instruments[i], &instruments[i]))
            return false;
    }
    return true;
}

static const enum tw_paper_connection connections[] = {
    [TRADEWAKE__PAPER__V1__CONNECTION__CONNECTION_UNSPECIFIED] = TW_PAPER_CONNECTION_KEEP,
    [TRADEWAKE__PAPER__V1__CONNECTION__CONNECTION_UP] = TW_PAPER_CONNECTION_UP,
    [TRADEWAKE__PAPER__V1__CONNECTION__CONNECTION_DOWN] = TW_PAPER_CONNECTION_DOWN,
};

/* Everything but the two lists. */
static bool change_read(const Tradewake__Paper__V1__ConfigureRequest *request,
                        struct tw_paper_change *ret, struct tw_refusal *refusal)
{
    struct tw_check check;
    (void)top(refusal, &check);
    if (request->follower_id[0] != '\0' &&
        !tw_check_id(&check, "follower_id", request->follower_id))
        return false;
    if (!tw_check_enum_or_default(&check, "connection", (int)request->connection,
                                  &tradewake__paper__v1__connection__descriptor))
        return false;
    if (request->market_closed && request->market_open)
        return tw_check_fail(&check, "market_open",
                             "expected one of market_closed and market_open");
    if (request->n_quotes > CONFIGURE_ENTRIES_MAX)
        return tw_check_fail(&check, "quotes", "has %zu entries, expected at most %u",
                             request->n_quotes, CONFIGURE_ENTRIES_MAX);
    if (request->n_instruments > CONFIGURE_ENTRIES_MAX)
        return tw_check_fail(&check, "instruments", "has %zu entries, expected at most %u",
                             request->n_instruments, CONFIGURE_ENTRIES_MAX);
    *ret = (struct tw_paper_change){
        .latency = request->latency[0] != '\0' ? request->latency : NULL,
        .faults = request->faults[0] != '\0' ? request->faults : NULL,
        .connection = connections[request->connection],
        .market_closed = request->market_closed,
        .market_open = request->market_open,
        .strip_comments = request->strip_comments,
        .n_quotes = request->n_quotes,
        .n_instruments = request->n_instruments,
    };
    return true;
}

static void configure_refuse(struct tw_refusal *refusal, tw_status status, const char *field,
                             const char *follower_id, const struct tw_error *error)
{
    if (status == TW_NOT_FOUND)
        no_such_account(refusal, follower_id);
    else if (status == TW_INVALID)
        (void)tw_refuse(refusal, REASON(INVALID_FIELD), field, "%s", error->text);
    else
        (void)tw_refuse(refusal, REASON(INTERNAL), NULL, "%s", error->text);
}

static bool configure(const Tradewake__Paper__V1__ConfigureRequest *request, struct tw_arena *arena,
                      struct tw_refusal *refusal)
{
    struct tw_paper_change change;
    if (!change_read(request, &change, refusal))
        return false;
    struct tw_paper_quote *quotes = tw_arena_zero(arena, (request->n_quotes + 1) * sizeof(*quotes));
    struct tw_instrument *instruments =
        tw_arena_zero(arena, (request->n_instruments + 1) * sizeof(*instruments));
    if (quotes == NULL || instruments == NULL)
        return tw_refuse(refusal, REASON(TOO_LARGE), NULL, "the request is too large");
    if (!quotes_read(request, quotes, refusal) || !instruments_read(request, instruments, refusal))
        return false;
    change.quotes = quotes;
    change.instruments = instruments;

    char field[TW_PAPER_FIELD_BYTES] = "";
    struct tw_error error = {{0}};
    tw_status status = TW_NOT_FOUND;
    if (adapter != NULL)
        status = tw_paper_configure(adapter, request->follower_id, &change, field, &error);
    if (status != TW_OK)
        configure_refuse(refusal, status, field, request->follower_id, &error);
    return status == TW_OK;
}

void tw_paper_configure_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                   const struct tw_refusal *invalid)
{
    struct tw_refusal refusal = {0};
    Tradewake__Paper__V1__ConfigureResponse response;
    tradewake__paper__v1__configure_response__init(&response);
    (void)invalid;
    struct tw_arena arena;
    tw_arena_init(&arena, BOOK_BUILD_BYTES_MAX);
    if (configure((const void *)request, &arena, &refusal))
        tw_call_answer(call, &response.base);
    else
        tw_call_refuse(call, &refusal);
    tw_arena_clear(&arena);
}

/* ---- ActByHand. ---- */

static struct tw_order by_hand(enum tw_order_op op)
{
    return (struct tw_order){.op = op,
                             .volume = TW_DECIMAL_UNSET,
                             .price = TW_DECIMAL_UNSET,
                             .stop_price = TW_DECIMAL_UNSET,
                             .stop_loss = TW_DECIMAL_UNSET,
                             .take_profit = TW_DECIMAL_UNSET};
}

static bool side_read(const struct tw_check *check, Tradewake__V1__Side side, struct tw_order *ret)
{
    if (!tw_check_enum(check, "side", (int)side, &tradewake__v1__side__descriptor))
        return false;
    ret->side = (enum tw_side)side;
    return true;
}

static bool open_read(const Tradewake__Paper__V1__HandOpen *from, struct tw_order *ret,
                      struct tw_refusal *refusal)
{
    struct tw_check check = {.prefix = "open.", .refusal = refusal};
    *ret = by_hand(TW_OP_OPEN);
    ret->type = TW_ORDER_MARKET;
    if (!symbol_check(&check, from->symbol) || !side_read(&check, from->side, ret) ||
        !tw_check_decimal(&check, "volume", from->volume, TW_POSITIVE_REQUIRED, &ret->volume))
        return false;
    strncpy(ret->symbol, from->symbol, sizeof(ret->symbol) - 1);
    return true;
}

static bool close_read(const Tradewake__Paper__V1__HandClose *from, struct tw_order *ret,
                       struct tw_refusal *refusal)
{
    struct tw_check check = {.prefix = "close.", .refusal = refusal};
    *ret = by_hand(TW_OP_CLOSE);
    if (!tw_check_text(&check, "position_id", from->position_id, 1, TW_BROKER_ID_BYTES - 1) ||
        !tw_check_decimal(&check, "volume", from->volume, TW_POSITIVE, &ret->volume))
        return false;
    strncpy(ret->position_id, from->position_id, sizeof(ret->position_id) - 1);
    return true;
}

static bool place_read(const Tradewake__Paper__V1__HandPlace *from, struct tw_order *ret,
                       struct tw_refusal *refusal)
{
    struct tw_check check = {.prefix = "place.", .refusal = refusal};
    *ret = by_hand(TW_OP_PLACE);
    if (!symbol_check(&check, from->symbol) || !side_read(&check, from->side, ret) ||
        !tw_check_enum(&check, "type", (int)from->type, &tradewake__v1__order_type__descriptor) ||
        !tw_check_decimal(&check, "volume", from->volume, TW_POSITIVE_REQUIRED, &ret->volume) ||
        !tw_check_decimal(&check, "price", from->price, TW_POSITIVE_REQUIRED, &ret->price))
        return false;
    ret->type = (enum tw_order_type)from->type;
    if (ret->type != TW_ORDER_LIMIT && ret->type != TW_ORDER_STOP)
        return tw_check_fail(&check, "type", "expected ORDER_TYPE_LIMIT or ORDER_TYPE_STOP");
    strncpy(ret->symbol, from->symbol, sizeof(ret->symbol) - 1);
    return true;
}

static bool cancel_read(const Tradewake__Paper__V1__HandCancel *from, struct tw_order *ret,
                        struct tw_refusal *refusal)
{
    struct tw_check check = {.prefix = "cancel.", .refusal = refusal};
    *ret = by_hand(TW_OP_CANCEL);
    if (!tw_check_text(&check, "order_id", from->order_id, 1, TW_BROKER_ID_BYTES - 1))
        return false;
    strncpy(ret->order_id, from->order_id, sizeof(ret->order_id) - 1);
    return true;
}

/* Which field a broker's no is about, of an act of each kind. */
static const char *field_to_blame(enum tw_order_op op, tw_reason reason)
{
    switch (reason) {
    case TRADEWAKE__V1__REASON__REASON_SYMBOL_NOT_FOUND:
        return op == TW_OP_PLACE ? "place.symbol" : "open.symbol";
    case TRADEWAKE__V1__REASON__REASON_INVALID_PRICE:
        return "place.price";
    case TRADEWAKE__V1__REASON__REASON_ALREADY_CLOSED:
        return op == TW_OP_CANCEL ? "cancel.order_id" : "close.position_id";
    default:
        return op == TW_OP_OPEN    ? "open.volume"
               : op == TW_OP_PLACE ? "place.volume"
                                   : "close.volume";
    }
}

static bool order_act(const char *follower_id, const struct tw_order *order,
                      char id[TW_BROKER_ID_BYTES], struct tw_refusal *refusal)
{
    struct tw_error error = {{0}};
    tw_reason reason = TRADEWAKE__V1__REASON__REASON_UNSPECIFIED;
    tw_status status = tw_paper_act(adapter, follower_id, order, id, &reason, &error);
    if (status == TW_OK)
        return true;
    if (status == TW_NOT_FOUND && reason == TRADEWAKE__V1__REASON__REASON_UNSPECIFIED)
        no_such_account(refusal, follower_id);
    else if (status == TW_NOT_FOUND)
        (void)tw_refuse(refusal, REASON(NOT_FOUND), field_to_blame(order->op, reason), "%s",
                        error.text);
    else if (status == TW_REFUSED)
        (void)tw_refuse(refusal, REASON(INVALID_FIELD), field_to_blame(order->op, reason), "%s",
                        error.text);
    else
        (void)tw_refuse(refusal, REASON(INTERNAL), NULL, "%s", error.text);
    return false;
}

static bool deposit_act(const Tradewake__Paper__V1__ActByHandRequest *request,
                        struct tw_refusal *refusal)
{
    struct tw_check check = {.prefix = "deposit.", .refusal = refusal};
    tw_decimal amount = TW_DECIMAL_UNSET;
    if (!tw_check_decimal(&check, "amount", request->deposit->amount, TW_ANY_DECIMAL, &amount))
        return false;
    if (amount == TW_DECIMAL_UNSET || amount == 0)
        return tw_check_fail(&check, "amount", "is \"%s\", expected a number other than 0",
                             request->deposit->amount);
    tw_status status = tw_paper_deposit(adapter, request->follower_id, amount);
    if (status == TW_NOT_FOUND)
        no_such_account(refusal, request->follower_id);
    else if (status == TW_INVALID)
        return tw_check_fail(&check, "amount", "is more than the account can hold");
    else if (status != TW_OK)
        (void)tw_refuse(refusal, REASON(INTERNAL), NULL, "%s", tw_status_words(status));
    return status == TW_OK;
}

static bool act(const Tradewake__Paper__V1__ActByHandRequest *request, char id[TW_BROKER_ID_BYTES],
                struct tw_refusal *refusal)
{
    struct tw_order order;
    struct tw_check check;
    bool is_read = false;
    if (!tw_check_id(top(refusal, &check), "follower_id", request->follower_id))
        return false;
    if (adapter == NULL) {
        no_such_account(refusal, request->follower_id);
        return false;
    }
    switch (request->act_case) {
    case TRADEWAKE__PAPER__V1__ACT_BY_HAND_REQUEST__ACT_OPEN:
        is_read = open_read(request->open, &order, refusal);
        break;
    case TRADEWAKE__PAPER__V1__ACT_BY_HAND_REQUEST__ACT_CLOSE:
        is_read = close_read(request->close, &order, refusal);
        break;
    case TRADEWAKE__PAPER__V1__ACT_BY_HAND_REQUEST__ACT_PLACE:
        is_read = place_read(request->place, &order, refusal);
        break;
    case TRADEWAKE__PAPER__V1__ACT_BY_HAND_REQUEST__ACT_CANCEL:
        is_read = cancel_read(request->cancel, &order, refusal);
        break;
    case TRADEWAKE__PAPER__V1__ACT_BY_HAND_REQUEST__ACT_DEPOSIT:
        return deposit_act(request, refusal);
    default:
        return tw_check_fail(&check, "act", "expected one of open, close, cancel, deposit, place");
    }
    return is_read && order_act(request->follower_id, &order, id, refusal);
}

void tw_paper_act_on_request(struct tw_call *call, const ProtobufCMessage *request,
                             const struct tw_refusal *invalid)
{
    char id[TW_BROKER_ID_BYTES] = "";
    struct tw_refusal refusal = {0};
    (void)invalid;
    if (!act((const void *)request, id, &refusal)) {
        tw_call_refuse(call, &refusal);
        return;
    }
    Tradewake__Paper__V1__ActByHandResponse response;
    tradewake__paper__v1__act_by_hand_response__init(&response);
    response.position_id = id;
    tw_call_answer(call, &response.base);
}
