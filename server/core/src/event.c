#include <tradewake/core/event.h>

#include <tradewake/base/clock.h>
#include <tradewake/base/limits.h>
#include <tradewake/core/check.h>
#include <tradewake/core/digest.h>

#include <stdio.h>
#include <string.h>

/* 2020-01-01: nothing that this service copies is older. */
#define OBSERVED_MIN_WALL_NS (INT64_C(1577836800) * TW_NS_PER_S)

static const struct tw_event event_absent = {
    .event_id = "", .master_id = "", .position_id = "", .order_id = "", .new_position_id = "",
    .symbol = "",
    .volume = TW_DECIMAL_UNSET, .remaining_volume = TW_DECIMAL_UNSET, .price = TW_DECIMAL_UNSET,
    .stop_price = TW_DECIMAL_UNSET, .stop_loss = TW_DECIMAL_UNSET, .take_profit = TW_DECIMAL_UNSET,
    .contract_size = TW_DECIMAL_UNSET,
};

static bool read_ticket(const struct tw_check *check, const char *field, const char *value,
                        const char **ret)
{
    *ret = value;
    return tw_check_text(check, field, value, 1, TW_ID_CHARS_MAX);
}

static bool read_side(const struct tw_check *check, const char *field, int value, enum tw_side *ret)
{
    if (!tw_check_enum(check, field, value, &tradewake__v1__side__descriptor))
        return false;
    *ret = (enum tw_side)value;
    return true;
}

static bool read_symbol(const struct tw_check *check, const char *value, const char **ret)
{
    *ret = value;
    return tw_check_text(check, "symbol", value, 1, TW_SYMBOL_CHARS_MAX);
}

static bool read_open(const Tradewake__V1__OpenPosition *m, const struct tw_check *check,
                      struct tw_event *e)
{
    e->kind = TW_EVENT_OPEN;
    e->type = TW_ORDER_MARKET;
    e->magic = m->magic;
    e->increase = m->increase;
    return read_ticket(check, "position_id", m->position_id, &e->position_id) &&
           read_symbol(check, m->symbol, &e->symbol) &&
           read_side(check, "side", (int)m->side, &e->side) &&
           tw_check_decimal(check, "volume", m->volume, TW_POSITIVE_REQUIRED, &e->volume) &&
           tw_check_decimal(check, "price", m->price, TW_NOT_NEGATIVE, &e->price) &&
           tw_check_decimal(check, "stop_loss", m->stop_loss, TW_NOT_NEGATIVE, &e->stop_loss) &&
           tw_check_decimal(check, "take_profit", m->take_profit, TW_NOT_NEGATIVE, &e->take_profit) &&
           tw_check_text(check, "comment", m->comment, 0, TW_COMMENT_CHARS_MAX) &&
           tw_check_decimal(check, "contract_size", m->contract_size, TW_POSITIVE, &e->contract_size) &&
           tw_check_text(check, "from_position_id", m->from_position_id, 0, TW_ID_CHARS_MAX);
}

static bool read_modify(const Tradewake__V1__ModifyPosition *m, const struct tw_check *check,
                        struct tw_event *e)
{
    e->kind = TW_EVENT_MODIFY;
    return read_ticket(check, "position_id", m->position_id, &e->position_id) &&
           tw_check_decimal(check, "stop_loss", m->stop_loss, TW_NOT_NEGATIVE, &e->stop_loss) &&
           tw_check_decimal(check, "take_profit", m->take_profit, TW_NOT_NEGATIVE, &e->take_profit);
}

static bool read_close(const Tradewake__V1__ClosePosition *m, const struct tw_check *check,
                       struct tw_event *e)
{
    e->kind = TW_EVENT_CLOSE;
    e->new_position_id = m->new_position_id;
    return read_ticket(check, "position_id", m->position_id, &e->position_id) &&
           tw_check_decimal(check, "volume", m->volume, TW_POSITIVE, &e->volume) &&
           tw_check_decimal(check, "remaining_volume", m->remaining_volume, TW_NOT_NEGATIVE,
                            &e->remaining_volume) &&
           tw_check_text(check, "new_position_id", m->new_position_id, 0, TW_ID_CHARS_MAX) &&
           tw_check_decimal(check, "price", m->price, TW_NOT_NEGATIVE, &e->price);
}

static bool read_place(const Tradewake__V1__PlaceOrder *m, const struct tw_check *check,
                       struct tw_event *e)
{
    e->kind = TW_EVENT_PLACE;
    e->type = (enum tw_order_type)m->type;
    e->magic = m->magic;
    bool ok = read_ticket(check, "order_id", m->order_id, &e->order_id) &&
              read_symbol(check, m->symbol, &e->symbol) &&
              read_side(check, "side", (int)m->side, &e->side) &&
              tw_check_enum(check, "type", (int)m->type, &tradewake__v1__order_type__descriptor) &&
              tw_check_decimal(check, "volume", m->volume, TW_POSITIVE_REQUIRED, &e->volume) &&
              tw_check_decimal(check, "price", m->price, TW_POSITIVE_REQUIRED, &e->price) &&
              tw_check_decimal(check, "stop_price", m->stop_price, TW_POSITIVE, &e->stop_price) &&
              tw_check_decimal(check, "stop_loss", m->stop_loss, TW_NOT_NEGATIVE, &e->stop_loss) &&
              tw_check_decimal(check, "take_profit", m->take_profit, TW_NOT_NEGATIVE, &e->take_profit) &&
              tw_check_timestamp(check, "expires_at", m->expires_at, &e->expires_wall_ns) &&
              tw_check_text(check, "comment", m->comment, 0, TW_COMMENT_CHARS_MAX) &&
              tw_check_decimal(check, "contract_size", m->contract_size, TW_POSITIVE, &e->contract_size);
    if (!ok)
        return false;
    if (e->type == TW_ORDER_MARKET)
        return tw_check_fail(check, "type", "is a market order, expected a pending one");
    if ((e->type == TW_ORDER_STOP_LIMIT) != (e->stop_price != TW_DECIMAL_UNSET))
        return tw_check_fail(check, "stop_price", "goes with a stop-limit order, and only with one");
    return true;
}

static bool read_modify_order(const Tradewake__V1__ModifyOrder *m, const struct tw_check *check,
                              struct tw_event *e)
{
    e->kind = TW_EVENT_MODIFY_ORDER;
    e->expires_wall_ns = -1;
    if (m->expires_at != NULL && m->expires_at->seconds == 0 && m->expires_at->nanos == 0)
        e->expires_wall_ns = 0;
    return read_ticket(check, "order_id", m->order_id, &e->order_id) &&
           tw_check_decimal(check, "price", m->price, TW_POSITIVE, &e->price) &&
           tw_check_decimal(check, "stop_price", m->stop_price, TW_POSITIVE, &e->stop_price) &&
           tw_check_decimal(check, "stop_loss", m->stop_loss, TW_NOT_NEGATIVE, &e->stop_loss) &&
           tw_check_decimal(check, "take_profit", m->take_profit, TW_NOT_NEGATIVE, &e->take_profit) &&
           tw_check_timestamp(check, "expires_at", m->expires_at, &e->expires_wall_ns);
}

static bool read_cancel(const Tradewake__V1__CancelOrder *m, const struct tw_check *check,
                        struct tw_event *e)
{
    e->kind = TW_EVENT_CANCEL;
    return read_ticket(check, "order_id", m->order_id, &e->order_id);
}

static bool read_trigger(const Tradewake__V1__TriggerOrder *m, const struct tw_check *check,
                         struct tw_event *e)
{
    e->kind = TW_EVENT_TRIGGER;
    return read_ticket(check, "order_id", m->order_id, &e->order_id) &&
           read_ticket(check, "position_id", m->position_id, &e->position_id) &&
           tw_check_decimal(check, "price", m->price, TW_NOT_NEGATIVE, &e->price) &&
           tw_check_decimal(check, "volume", m->volume, TW_POSITIVE, &e->volume);
}

static bool read_action(const Tradewake__V1__TradeEvent *m, struct tw_event *e,
                        struct tw_refusal *refusal)
{
    struct tw_check check = {.refusal = refusal};
    switch (m->action_case) {
    case TRADEWAKE__V1__TRADE_EVENT__ACTION_OPEN:
        check.prefix = "event.open.";
        return read_open(m->open, &check, e);
    case TRADEWAKE__V1__TRADE_EVENT__ACTION_MODIFY:
        check.prefix = "event.modify.";
        return read_modify(m->modify, &check, e);
    case TRADEWAKE__V1__TRADE_EVENT__ACTION_CLOSE:
        check.prefix = "event.close.";
        return read_close(m->close, &check, e);
    case TRADEWAKE__V1__TRADE_EVENT__ACTION_PLACE:
        check.prefix = "event.place.";
        return read_place(m->place, &check, e);
    case TRADEWAKE__V1__TRADE_EVENT__ACTION_MODIFY_ORDER:
        check.prefix = "event.modify_order.";
        return read_modify_order(m->modify_order, &check, e);
    case TRADEWAKE__V1__TRADE_EVENT__ACTION_CANCEL:
        check.prefix = "event.cancel.";
        return read_cancel(m->cancel, &check, e);
    case TRADEWAKE__V1__TRADE_EVENT__ACTION_TRIGGER:
        check.prefix = "event.trigger.";
        return read_trigger(m->trigger, &check, e);
    default:
        check.prefix = "event.";
        return tw_check_fail(&check, "action", "is missing: what did the master do?");
    }
}

static bool read_account(const Tradewake__V1__AccountState *m, struct tw_event *e,
                         struct tw_refusal *refusal)
{
    if (m == NULL)
        return true;
    const struct tw_check check = {"event.master_account.", refusal};
    e->has_account = true;
    e->account.leverage = m->leverage;
    if (!tw_check_text(&check, "currency", m->currency, 0, sizeof e->account.currency - 1) ||
        !tw_check_decimal(&check, "balance", m->balance, TW_ANY_DECIMAL, &e->account.balance) ||
        !tw_check_decimal(&check, "equity", m->equity, TW_ANY_DECIMAL, &e->account.equity) ||
        !tw_check_decimal(&check, "free_margin", m->free_margin, TW_ANY_DECIMAL,
                          &e->account.free_margin))
        return false;
    snprintf(e->account.currency, sizeof e->account.currency, "%s", m->currency);
    return true;
}

static bool check_observed(const struct tw_check *check, const Tradewake__V1__TradeEvent *m,
                           int64_t now_wall_ns, int64_t *ret)
{
    if (m->observed_at == NULL)
        return tw_check_fail(check, "observed_at", "is missing: when did it happen?");
    int64_t observed_ns = 0;
    if (!tw_check_timestamp(check, "observed_at", m->observed_at, &observed_ns))
        return false;
    if (observed_ns < OBSERVED_MIN_WALL_NS)
        return tw_check_fail(check, "observed_at", "is before 2020: seconds, not milliseconds?");
    int64_t ahead_ms = (observed_ns - now_wall_ns) / TW_NS_PER_MS;
    if (ahead_ms > (int64_t)TW_CLOCK_AHEAD_MS_MAX)
        return tw_check_fail(check, "observed_at", "is %lld ms ahead of this server's clock, at most %u",
                             (long long)ahead_ms, TW_CLOCK_AHEAD_MS_MAX);
    *ret = observed_ns;
    return true;
}

bool tw_event_read(const Tradewake__V1__TradeEvent *message, int64_t now_wall_ns,
                   struct tw_event *ret, struct tw_refusal *refusal)
{
    const struct tw_check check = {"event.", refusal};
    if (message == NULL)
        return tw_refuse(refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_INVALID_FIELD, "event",
                         "is missing");

    struct tw_event event = event_absent;
    event.event_id = message->event_id;
    event.master_id = message->master_id;
    event.sequence = message->sequence;
    if (!tw_check_id(&check, "event_id", message->event_id) ||
        !tw_check_id(&check, "master_id", message->master_id) ||
        !check_observed(&check, message, now_wall_ns, &event.observed_wall_ns) ||
        !read_action(message, &event, refusal) ||
        !read_account(message->master_account, &event, refusal))
        return false;
    if (event.sequence >= UINT64_C(1) << 53)
        return tw_check_fail(&check, "sequence", "is 2^53 or more");
    *ret = event;
    return true;
}

bool tw_event_read_position(const Tradewake__V1__OpenPosition *message, const char *prefix,
                            struct tw_event *ret, struct tw_refusal *refusal)
{
    const struct tw_check check = {prefix, refusal};
    *ret = event_absent;
    return read_open(message, &check, ret) &&
           tw_check_timestamp(&check, "opened_at", message->opened_at, &ret->observed_wall_ns);
}

bool tw_event_read_order(const Tradewake__V1__PlaceOrder *message, const char *prefix,
                         struct tw_event *ret, struct tw_refusal *refusal)
{
    const struct tw_check check = {prefix, refusal};
    *ret = event_absent;
    return read_place(message, &check, ret);
}

void tw_event_clear(struct tw_event *event, enum tw_event_kind kind)
{
    *event = event_absent;
    event->kind = kind;
    if (kind == TW_EVENT_MODIFY_ORDER)
        event->expires_wall_ns = -1;
}

/* Canonical bytes of one event: every field on a line of its own, so that no two events share them. */
static size_t hash_text(const struct tw_event *e, char *text, size_t size)
{
    const int64_t numbers[] = {e->side,      e->type,   e->magic,
                               e->expires_wall_ns, e->increase, e->volume,
                               e->remaining_volume, e->price, e->stop_price,
                               e->stop_loss, e->take_profit, e->contract_size};
    struct tw_lines lines = {text, text + size};
    tw_lines_put(&lines, e->master_id);
    tw_lines_put_number(&lines, e->kind);
    tw_lines_put(&lines, e->position_id);
    tw_lines_put(&lines, e->order_id);
    tw_lines_put(&lines, e->new_position_id);
    tw_lines_put(&lines, e->symbol);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        tw_lines_put_number(&lines, numbers[i]);
    return (size_t)(lines.at - text);
}

void tw_event_hash(const struct tw_event *event, uint8_t ret[TW_EVENT_HASH_BYTES])
{
    char text[1024]; /* five ids of 64 and a dozen numbers of 20 digits */
    uint8_t digest[TW_SHA256_BYTES];
    tw_sha256(text, hash_text(event, text, sizeof text), digest);
    memcpy(ret, digest, TW_EVENT_HASH_BYTES);
}

const char *tw_event_subject_id(const struct tw_event *event)
{
    switch (event->kind) {
    case TW_EVENT_PLACE:
    case TW_EVENT_MODIFY_ORDER:
    case TW_EVENT_CANCEL:
    case TW_EVENT_TRIGGER:
        return event->order_id;
    default:
        return event->position_id;
    }
}

const char *tw_event_kind_word(enum tw_event_kind kind)
{
    static const char *const words[] = {
        [TW_EVENT_OPEN] = "open", [TW_EVENT_MODIFY] = "modify", [TW_EVENT_CLOSE] = "close",
        [TW_EVENT_PLACE] = "place", [TW_EVENT_MODIFY_ORDER] = "modify_order",
        [TW_EVENT_CANCEL] = "cancel", [TW_EVENT_TRIGGER] = "trigger",
    };
    return words[kind];
}
