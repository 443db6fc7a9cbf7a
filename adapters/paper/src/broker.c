#include "broker.h"
#include "news.h"
#include "wide.h"

#include <stdlib.h>
#include <string.h>

#define REASON(name) TRADEWAKE__V1__REASON__REASON_##name

/* One order being executed: what it is, and the entry it turns into. An op that refuses leaves the
 * entry as it found it. */
struct act {
    struct account *account;
    const struct tw_order *order;
    struct fault fault;
    int64_t now_wall_ns;
    struct tw_ack *ack;
    struct entry entry;
};

static const struct {
    enum tw_outcome outcome;
    tw_reason reason;
    int64_t retry_after_ns;
    const char *words;
} refusals[REFUSED_COUNT] = {
    [REFUSED_REQUOTE] = {TW_OUTCOME_RETRY_NOW, REASON(REQUOTE), 0, "requote"},
    [REFUSED_OFF_QUOTES] = {TW_OUTCOME_RETRY_NOW, REASON(REQUOTE), 0, "off quotes"},
    [REFUSED_BUSY] = {TW_OUTCOME_RETRY_LATER, REASON(BUSY), 0, "trade context busy"},
    [REFUSED_RATE_LIMITED] = {TW_OUTCOME_RETRY_LATER, REASON(RATE_LIMITED), 200000000,
                              "too many requests"},
    [REFUSED_NO_CONNECTION] = {TW_OUTCOME_RETRY_LATER, REASON(NO_CONNECTION), 0, "no connection"},
    [REFUSED_NO_MONEY] = {TW_OUTCOME_REJECTED, REASON(NO_MONEY), 0, "not enough money"},
    [REFUSED_MARKET_CLOSED] = {TW_OUTCOME_REJECTED, REASON(MARKET_CLOSED), 0, "market is closed"},
    [REFUSED_OTHER] = {TW_OUTCOME_REJECTED, REASON(BROKER_OTHER), 0, "rejected"},
    [REFUSED_SYMBOL] = {TW_OUTCOME_REJECTED, REASON(SYMBOL_NOT_FOUND), 0, "unknown symbol"},
    [REFUSED_VOLUME] = {TW_OUTCOME_REJECTED, REASON(INVALID_VOLUME), 0, "invalid volume"},
    [REFUSED_NOTIONAL] = {TW_OUTCOME_REJECTED, REASON(BELOW_MIN_NOTIONAL), 0,
                          "below the minimum notional"},
    [REFUSED_PRICE] = {TW_OUTCOME_REJECTED, REASON(INVALID_PRICE), 0, "invalid price"},
    [REFUSED_STOPS] = {TW_OUTCOME_REJECTED, REASON(INVALID_STOPS), 0, "invalid stops"},
    [REFUSED_EXPIRY] = {TW_OUTCOME_REJECTED, REASON(INVALID_EXPIRY), 0, "invalid expiration"},
    [REFUSED_GONE] = {TW_OUTCOME_NOT_FOUND, REASON(ALREADY_CLOSED), 0, "no such position or order"},
    [REFUSED_REDUCE_ONLY] = {TW_OUTCOME_REJECTED, REASON(BROKER_OTHER), 0, "nothing to reduce"},
    [REFUSED_TOO_LATE] = {TW_OUTCOME_RETRY_LATER, REASON(TIMEOUT), 0, "the deadline had passed"},
    [REFUSED_LOGIN] = {TW_OUTCOME_REJECTED, REASON(AUTH), 0, "account disabled"},
    [REFUSED_TRADING] = {TW_OUTCOME_REJECTED, REASON(TRADE_DISABLED), 0, "trade is disabled"},
    [REFUSED_OPENING] = {TW_OUTCOME_REJECTED, REASON(TRADE_DISABLED), 0, "only closing is allowed"},
    [REFUSED_HEDGING] = {TW_OUTCOME_REJECTED, REASON(HEDGE_PROHIBITED), 0, "hedging is prohibited"},
    [REFUSED_OUT_OF_FIFO] = {TW_OUTCOME_REJECTED, REASON(FIFO), 0, "the older position is to be closed first"},
};

/* Faults that are a plain refusal. */
static const struct {
    bool refuses;
    enum refusal refusal;
} refusal_of_fault[FAULT_KIND_COUNT] = {
    [FAULT_REQUOTE] = {true, REFUSED_REQUOTE},
    [FAULT_BUSY] = {true, REFUSED_BUSY},
    [FAULT_OFF_QUOTES] = {true, REFUSED_OFF_QUOTES},
    [FAULT_RATE_LIMITED] = {true, REFUSED_RATE_LIMITED},
    [FAULT_NO_MONEY] = {true, REFUSED_NO_MONEY},
    [FAULT_MARKET_CLOSED] = {true, REFUSED_MARKET_CLOSED},
    [FAULT_REJECT] = {true, REFUSED_OTHER},
};

void broker_refuse(struct tw_ack *ack, enum refusal refusal)
{
    ack->outcome = refusals[refusal].outcome;
    ack->reason = refusals[refusal].reason;
    ack->retry_after_ns = refusals[refusal].retry_after_ns;
    ack->broker_code = (int32_t)refusal + 1;
    strncpy(ack->broker_message, refusals[refusal].words, sizeof(ack->broker_message) - 1);
}

/* ---- Prices, volumes, stops. ---- */

/* What a market order trades at: the quote, else the caller's hint, else `last`. */
static tw_decimal market_price(const struct market *market, enum tw_side side, tw_decimal hint,
                               tw_decimal last)
{
    if (market->bid > 0)
        return side == TW_BUY ? market->ask : market->bid;
    return hint > 0 ? hint : last;
}

static struct market *market_of_order(struct act *act)
{
    if (act->order->side != TW_BUY && act->order->side != TW_SELL) {
        broker_refuse(act->ack, REFUSED_OTHER);
        return NULL;
    }
    if (instruments_find(&act->account->book.instruments, act->order->symbol) == NULL) {
        broker_refuse(act->ack, REFUSED_SYMBOL);
        return NULL;
    }
    struct market *market = book_market_make(&act->account->book, act->order->symbol);
    if (market == NULL)
        broker_refuse(act->ack, REFUSED_BUSY);
    return market;
}

static bool volume_allowed(struct act *act, const struct tw_instrument *instrument,
                           tw_decimal volume)
{
    if (volume <= 0 || volume < instrument->volume_min || volume > instrument->volume_max ||
        volume % instrument->volume_step != 0) {
        broker_refuse(act->ack, REFUSED_VOLUME);
        return false;
    }
    return true;
}

static bool notional_allowed(struct act *act, const struct tw_instrument *instrument,
                             tw_decimal volume, tw_decimal price)
{
    tw_decimal units, notional;
    if (instrument->min_notional == 0 ||
        !tw_decimal_mul(volume, instrument->contract_size, &units) ||
        !tw_decimal_mul(units, price, &notional) || notional >= instrument->min_notional)
        return true;
    broker_refuse(act->ack, REFUSED_NOTIONAL);
    return false;
}

static bool on_tick(const struct market *market, tw_decimal price)
{
    return price % market->instrument->tick_size == 0;
}

static bool stop_allowed(const struct market *market, bool is_below, tw_decimal stop)
{
    return on_tick(market, stop) &&
           (is_below ? stop <= market->bid - market->instrument->stops_distance
                     : stop >= market->ask + market->instrument->stops_distance);
}

/* Whether a position of this side may have these stops now (0 or UNSET = none). Both stops of a
 * long position are measured from the bid, of a short one from the ask: where it is closed. */
static bool stops_allowed(const struct market *market, enum tw_side side, tw_decimal stop_loss,
                          tw_decimal take_profit)
{
    struct market at = *market;
    if (market->bid <= 0 || market->instrument == NULL)
        return true;
    if (side == TW_BUY)
        at.ask = at.bid;
    else
        at.bid = at.ask;
    return (stop_loss <= 0 || stop_allowed(&at, side == TW_BUY, stop_loss)) &&
           (take_profit <= 0 || stop_allowed(&at, side != TW_BUY, take_profit));
}

static tw_decimal given_or(tw_decimal given, tw_decimal otherwise)
{
    return given == TW_DECIMAL_UNSET ? otherwise : given;
}

/* ---- Entering and leaving. ---- */

struct trade {
    struct market *market;
    enum tw_side side;
    tw_decimal volume, price;
    tw_decimal stop_loss, take_profit; /* UNSET: not said */
    uint64_t ticket;                   /* of the pending that fills; 0 = the next one */
    const char *client_order_id;
    int64_t at_wall_ns;
};

static void deal_note(struct entry *entry, const struct trade *trade, uint64_t position)
{
    entry->has_deal = true;
    entry->deal = (struct deal){.market = trade->market,
                                .position = position,
                                .side = trade->side,
                                .volume = trade->volume,
                                .price = trade->price,
                                .at_wall_ns = trade->at_wall_ns};
    memcpy(entry->deal.client_order_id, trade->client_order_id,
           strnlen(trade->client_order_id, TW_COPY_ID_CHARS));
}

static struct position *position_note(struct entry *entry, const struct position *after)
{
    struct position *noted = &entry->positions[entry->n_positions++];
    *noted = *after;
    return noted;
}

static const struct position *enter_new(struct entry *entry, const struct trade *trade,
                                        tw_decimal volume)
{
    struct position position = {
        .ticket = trade->ticket != 0 ? trade->ticket : entry->line.next_ticket++,
        .market = trade->market,
        .side = trade->side,
        .volume = volume,
        .open_price = trade->price,
        .stop_loss = given_or(trade->stop_loss, 0),
        .take_profit = given_or(trade->take_profit, 0),
    };
    memcpy(position.client_order_id, trade->client_order_id,
           strnlen(trade->client_order_id, TW_COPY_ID_CHARS));
    return position_note(entry, &position);
}

/* Takes volume (at most what there is) out of a position, realizing its profit. */
static const struct position *leave(const struct account *account, struct entry *entry,
                                    const struct position *position, const struct trade *trade,
                                    bool new_ticket)
{
    tw_decimal profit = book_profit(&account->book, position, trade->volume, trade->price);
    if (!tw_decimal_add(entry->line.balance, profit, &entry->line.balance))
        entry->line.balance = INT64_MAX / 4; /* a made-up fortune; it stops growing here */

    struct position after = *position;
    after.volume -= trade->volume;
    if (!new_ticket || after.volume == 0)
        return position_note(entry, &after);

    struct position rest = after;
    after.volume = 0;
    position_note(entry, &after);
    rest.from_ticket = position->ticket;
    rest.ticket = entry->line.next_ticket++;
    return position_note(entry, &rest);
}

/* (a x volume + b x volume) / volume, the one rounding at the end. */
static tw_decimal average(tw_decimal price_a, tw_decimal volume_a, tw_decimal price_b,
                          tw_decimal volume_b)
{
    wide value = (wide)price_a * volume_a + (wide)price_b * volume_b;
    wide volume = (wide)volume_a + volume_b;
    return (tw_decimal)((value + volume / 2) / volume);
}

static const struct position *net_add(struct entry *entry, const struct position *position,
                                      const struct trade *trade)
{
    struct position after = *position;
    after.open_price = average(position->open_price, position->volume, trade->price, trade->volume);
    after.volume += trade->volume;
    after.stop_loss = given_or(trade->stop_loss, after.stop_loss);
    after.take_profit = given_or(trade->take_profit, after.take_profit);
    return position_note(entry, &after);
}

/* Against the one position: smaller, flat, or over to the other side. */
static const struct position *net_against(const struct account *account, struct entry *entry,
                                          const struct position *position,
                                          const struct trade *trade)
{
    struct trade part = *trade;
    if (part.volume > position->volume)
        part.volume = position->volume;
    const struct position *after = leave(account, entry, position, &part, false);
    tw_decimal over = trade->volume - part.volume;
    return over > 0 ? enter_new(entry, trade, over) : after;
}

/* Executes a trade that opens, on either kind of account. Returns what is then held (volume 0:
 * flat), in entry. */
static const struct position *enter(const struct account *account, struct entry *entry,
                                    const struct trade *trade)
{
    const struct position *held =
        account->is_netting ? book_position_of(&account->book, trade->market) : NULL;
    const struct position *after = held == NULL ? enter_new(entry, trade, trade->volume)
                                   : held->side == trade->side
                                       ? net_add(entry, held, trade)
                                       : net_against(account, entry, held, trade);
    deal_note(entry, trade, after->ticket);
    return after;
}

/* What this trade adds to the margin in use is there, or nobody asks. */
static bool margin_allowed(const struct account *account, const struct trade *trade)
{
    const struct book *book = &account->book;
    if (book->leverage == 0)
        return true;
    tw_decimal before = 0, volume = trade->volume, price = trade->price;
    const struct position *held =
        account->is_netting ? book_position_of(book, trade->market) : NULL;
    if (held != NULL && held->side == trade->side) {
        before = held->margin;
        price = average(held->open_price, held->volume, price, volume);
        volume += held->volume;
    } else if (held != NULL) {
        before = held->margin;
        if (volume <= held->volume)
            return true;
        volume -= held->volume;
    }
    struct tw_account money;
    book_account(book, &money);
    return book_margin(book, trade->market, volume, price) - before <= money.free_margin;
}

/* ---- The six orders. ---- */

static bool is_reduced(const struct fault *fault, tw_decimal volume)
{
    return fault->kind == FAULT_PARTIAL && fault->value < volume;
}

static void ack_filled(struct tw_ack *ack, const struct trade *trade, tw_decimal wanted)
{
    ack->outcome = trade->volume < wanted ? TW_OUTCOME_PARTIAL : TW_OUTCOME_DONE;
    ack->filled_volume = trade->volume;
    ack->average_price = trade->price;
}

/* A netting order that may only reduce: never more than there is on the other side. */
static bool reduce_only_cut(struct act *act, struct trade *trade)
{
    const struct position *held = book_position_of(&act->account->book, trade->market);
    if (held == NULL || held->side == trade->side) {
        broker_refuse(act->ack, REFUSED_REDUCE_ONLY);
        return false;
    }
    if (trade->volume > held->volume)
        trade->volume = held->volume;
    return true;
}

static void execute_open(struct act *act)
{
    const struct tw_order *order = act->order;
    struct market *market = market_of_order(act);
    if (market == NULL || !volume_allowed(act, market->instrument, order->volume))
        return;

    struct trade trade = {.market = market,
                          .side = order->side,
                          .volume = is_reduced(&act->fault, order->volume) ? act->fault.value
                                                                           : order->volume,
                          .price = market_price(market, order->side, order->price, TW_DECIMAL_ONE),
                          .stop_loss = order->stop_loss,
                          .take_profit = order->take_profit,
                          .client_order_id = order->client_order_id,
                          .at_wall_ns = act->now_wall_ns};
    bool stops_missing =
        act->fault.kind == FAULT_NO_STOPS && (order->stop_loss > 0 || order->take_profit > 0);
    if (stops_missing)
        trade.stop_loss = trade.take_profit = TW_DECIMAL_UNSET;
    if (act->account->is_netting && order->reduce_only && !reduce_only_cut(act, &trade))
        return;
    if (!stops_allowed(market, trade.side, trade.stop_loss, trade.take_profit)) {
        broker_refuse(act->ack, REFUSED_STOPS);
        return;
    }
    if (!order->reduce_only &&
        !notional_allowed(act, market->instrument, order->volume, trade.price))
        return;
    if (!margin_allowed(act->account, &trade)) {
        broker_refuse(act->ack, REFUSED_NO_MONEY);
        return;
    }

    const struct position *after = enter(act->account, &act->entry, &trade);
    ack_filled(act->ack, &trade, order->volume);
    act->ack->stops_missing = stops_missing;
    act->ack->remaining_volume = TW_DECIMAL_UNSET;
    ticket_text(after->ticket, act->ack->order_id);
    if (after->volume > 0)
        ticket_text(after->ticket, act->ack->position_id);
}

/* side: the position's; NONE = whichever. */
static struct position *position_of_order(struct act *act, enum tw_side side)
{
    const struct book *book = &act->account->book;
    struct position *position = NULL;
    if (act->account->is_netting) {
        const struct market *market = book_market(book, act->order->symbol);
        position = market != NULL ? book_position_of(book, market) : NULL;
        if (position != NULL && side != TW_SIDE_NONE && position->side != side)
            position = NULL; /* a close never crosses zero, and never closes the other side */
    } else {
        position = book_position(book, ticket_parse(act->order->position_id));
    }
    if (position == NULL)
        broker_refuse(act->ack, REFUSED_GONE);
    return position;
}

static void execute_close(struct act *act)
{
    const struct tw_order *order = act->order;
    struct position *position = position_of_order(act, tw_side_opposite(order->side));
    if (position == NULL)
        return;
    tw_decimal wanted = given_or(order->volume, position->volume);
    if (wanted >= position->volume)
        wanted = position->volume; /* all of it: whatever the step is by now */
    else if (position->market->instrument != NULL &&
             !volume_allowed(act, position->market->instrument, wanted))
        return;

    enum tw_side side = tw_side_opposite(position->side);
    struct trade trade = {
        .market = position->market,
        .side = side,
        .volume = is_reduced(&act->fault, wanted) ? act->fault.value : wanted,
        .price = market_price(position->market, side, order->price, position->open_price),
        .client_order_id = order->client_order_id,
        .at_wall_ns = act->now_wall_ns};
    bool new_ticket = act->account->remainder_new_ticket && !act->account->is_netting;
    uint64_t ticket = position->ticket;
    const struct position *after = leave(act->account, &act->entry, position, &trade, new_ticket);
    deal_note(&act->entry, &trade, ticket);
    ack_filled(act->ack, &trade, wanted);
    act->ack->remaining_volume = after->volume;
    ticket_text(ticket, act->ack->position_id);
    if (after->ticket != ticket)
        ticket_text(after->ticket, act->ack->remainder_position_id);
}

static void ack_no_change(struct tw_ack *ack)
{
    ack->outcome = TW_OUTCOME_NO_CHANGE;
    ack->reason = REASON(NO_CHANGE);
}

static void execute_modify(struct act *act)
{
    struct position *position = position_of_order(act, act->order->side);
    if (position == NULL)
        return;
    struct position after = *position;
    after.stop_loss = given_or(act->order->stop_loss, position->stop_loss);
    after.take_profit = given_or(act->order->take_profit, position->take_profit);
    ticket_text(position->ticket, act->ack->position_id);
    if (after.stop_loss == position->stop_loss && after.take_profit == position->take_profit) {
        ack_no_change(act->ack);
        return;
    }
    /* Only what changes is looked at: a stop that the market has come near to may stay. */
    if (!stops_allowed(position->market, position->side,
                       after.stop_loss != position->stop_loss ? after.stop_loss : 0,
                       after.take_profit != position->take_profit ? after.take_profit : 0)) {
        broker_refuse(act->ack, REFUSED_STOPS);
        return;
    }
    act->ack->outcome = TW_OUTCOME_DONE;
    act->ack->stops_missing = act->fault.kind == FAULT_NO_STOPS;
    if (!act->ack->stops_missing)
        position_note(&act->entry, &after);
}

/* Whether a pending may be like this. */
static bool pending_allowed(struct act *act, const struct pending *pending)
{
    const struct market *market = pending->market;
    bool is_stop_limit = pending->type == TW_ORDER_STOP_LIMIT;
    enum refusal why = REFUSED_COUNT;
    tw_decimal low = pending->side == TW_BUY ? pending->stop_loss : pending->take_profit;
    tw_decimal high = pending->side == TW_BUY ? pending->take_profit : pending->stop_loss;
    if (pending->price <= 0 || !on_tick(market, pending->price) ||
        (is_stop_limit && (pending->stop_price <= 0 || !on_tick(market, pending->stop_price))))
        why = REFUSED_PRICE;
    else if (market->bid > 0 &&
             ((low > 0 && low > pending->price) || (high > 0 && high < pending->price) ||
              !on_tick(market, low) || !on_tick(market, high)))
        why = REFUSED_STOPS;
    else if (pending->expires_wall_ns != 0 && pending->expires_wall_ns <= act->now_wall_ns)
        why = REFUSED_EXPIRY;
    if (why == REFUSED_COUNT)
        return true;
    broker_refuse(act->ack, why);
    return false;
}

static void pending_note(struct act *act, const struct pending *after)
{
    act->entry.has_pending = true;
    act->entry.pending = *after;
    ticket_text(after->ticket, act->ack->order_id);
}

static void execute_place(struct act *act)
{
    const struct tw_order *order = act->order;
    if (order->type != TW_ORDER_LIMIT && order->type != TW_ORDER_STOP &&
        order->type != TW_ORDER_STOP_LIMIT) {
        act->ack->outcome = TW_OUTCOME_UNSUPPORTED;
        return;
    }
    struct market *market = market_of_order(act);
    if (market == NULL || !volume_allowed(act, market->instrument, order->volume))
        return;

    bool no_stops = act->fault.kind == FAULT_NO_STOPS;
    struct pending pending = {.market = market,
                              .side = order->side,
                              .type = order->type,
                              .volume = order->volume,
                              .price = order->price,
                              .stop_price = given_or(order->stop_price, 0),
                              .stop_loss = no_stops ? 0 : given_or(order->stop_loss, 0),
                              .take_profit = no_stops ? 0 : given_or(order->take_profit, 0),
                              .expires_wall_ns =
                                  order->expires_wall_ns > 0 ? order->expires_wall_ns : 0};
    memcpy(pending.client_order_id, order->client_order_id,
           strnlen(order->client_order_id, TW_COPY_ID_CHARS));
    if (!pending_allowed(act, &pending) ||
        !notional_allowed(act, market->instrument, pending.volume, pending.price))
        return;

    pending.ticket = act->entry.line.next_ticket++;
    pending_note(act, &pending);
    act->ack->outcome = TW_OUTCOME_DONE;
    act->ack->stops_missing = no_stops && (order->stop_loss > 0 || order->take_profit > 0);
}

static struct pending *pending_of_order(struct act *act)
{
    struct pending *pending = book_pending(&act->account->book, ticket_parse(act->order->order_id));
    if (pending == NULL)
        broker_refuse(act->ack, REFUSED_GONE);
    return pending;
}

static bool pending_is_same(const struct pending *a, const struct pending *b)
{
    return a->price == b->price && a->stop_price == b->stop_price && a->stop_loss == b->stop_loss &&
           a->take_profit == b->take_profit && a->expires_wall_ns == b->expires_wall_ns;
}

static void execute_modify_order(struct act *act)
{
    const struct tw_order *order = act->order;
    struct pending *pending = pending_of_order(act);
    if (pending == NULL)
        return;
    struct pending after = *pending;
    after.price = given_or(order->price, pending->price);
    after.stop_price = given_or(order->stop_price, pending->stop_price);
    after.stop_loss = given_or(order->stop_loss, pending->stop_loss);
    after.take_profit = given_or(order->take_profit, pending->take_profit);
    after.expires_wall_ns =
        order->expires_wall_ns < 0 ? pending->expires_wall_ns : order->expires_wall_ns;
    ticket_text(pending->ticket, act->ack->order_id);
    if (pending_is_same(pending, &after)) {
        ack_no_change(act->ack);
        return;
    }
    if (!pending_allowed(act, &after))
        return;
    pending_note(act, &after);
    act->ack->outcome = TW_OUTCOME_DONE;
}

static void execute_cancel(struct act *act)
{
    struct pending *pending = pending_of_order(act);
    if (pending == NULL)
        return;
    struct pending after = *pending;
    after.volume = 0;
    pending_note(act, &after);
    act->ack->outcome = TW_OUTCOME_DONE;
}

typedef void execute_fn(struct act *act);

static execute_fn *const execute_by_op[] = {
    [TW_OP_OPEN] = execute_open,     [TW_OP_CLOSE] = execute_close,
    [TW_OP_MODIFY] = execute_modify, [TW_OP_PLACE] = execute_place,
    [TW_OP_CANCEL] = execute_cancel, [TW_OP_MODIFY_ORDER] = execute_modify_order,
};

/* ---- From call to book. ---- */

/* What a look-up will find. What may be tried again leaves no trace, as at a real broker. */
static void answer_note(struct act *act)
{
    const struct tw_ack *ack = act->ack;
    struct answer *answer = &act->entry.answer;
    bool is_executed = ack->outcome == TW_OUTCOME_DONE || ack->outcome == TW_OUTCOME_PARTIAL ||
                       ack->outcome == TW_OUTCOME_NO_CHANGE;
    if (act->order->client_order_id[0] == '\0' ||
        (!is_executed && ack->outcome != TW_OUTCOME_REJECTED))
        return;
    act->entry.has_answer = true;
    *answer = (struct answer){
        .stops_missing = ack->stops_missing,
        .op = act->order->op,
        .outcome = ack->outcome == TW_OUTCOME_NO_CHANGE ? TW_OUTCOME_DONE : ack->outcome,
        .reason = ack->reason,
        .position = ticket_parse(ack->position_id),
        .order = ticket_parse(ack->order_id),
        .remainder = ticket_parse(ack->remainder_position_id),
        .filled = ack->filled_volume,
        .average_price = ack->average_price,
        .remaining = ack->remaining_volume,
    };
    memcpy(answer->client_order_id, act->order->client_order_id, sizeof(answer->client_order_id));
    answer->client_order_id[TW_COPY_ID_CHARS] = '\0';
}

static void ack_from_answer(const struct account *account, const struct answer *answer,
                            struct tw_ack *ack)
{
    bool is_working = answer->op == TW_OP_PLACE && answer->filled == 0 &&
                      book_pending(&account->book, answer->order) != NULL;
    ack->outcome = is_working ? TW_OUTCOME_ACCEPTED : answer->outcome;
    ack->reason = answer->reason;
    ack->stops_missing = answer->stops_missing;
    ack->filled_volume = answer->filled;
    ack->average_price = answer->average_price;
    ack->remaining_volume = answer->remaining;
    ticket_text(answer->position, ack->position_id);
    ticket_text(answer->order, ack->order_id);
    ticket_text(answer->remainder, ack->remainder_position_id);
}

/* A new or changed pending may be one that the market has reached already. */
static void match_new(struct act *act)
{
    uint64_t ticket = act->entry.pending.ticket;
    broker_match(act->account, act->entry.pending.market, act->now_wall_ns);
    const struct answer *answer =
        book_answer(&act->account->book, act->entry.pending.client_order_id);
    if (book_pending(&act->account->book, ticket) != NULL || answer == NULL ||
        answer->order != ticket)
        return;
    act->ack->filled_volume = answer->filled;
    act->ack->average_price = answer->average_price;
    ticket_text(answer->position, act->ack->position_id);
}

static void commit(struct act *act)
{
    if (account_commit(act->account, &act->entry) != TW_OK) {
        *act->ack = (struct tw_ack){.remaining_volume = TW_DECIMAL_UNSET};
        broker_refuse(act->ack, REFUSED_BUSY); /* not written, so it has not happened */
        return;
    }
    if (act->entry.has_pending && act->entry.pending.volume > 0)
        match_new(act);
}

static void ack_reset(struct tw_ack *ack)
{
    *ack = (struct tw_ack){.remaining_volume = TW_DECIMAL_UNSET};
}

/* ---- What an account may not do. ---- */

/* Another position of the same symbol that makes this order one of two sides, or out of order. */
static bool stands_against(const struct position *other, const struct tw_order *order, const struct position *closed)
{
    if (closed == NULL)
        return strcmp(other->market->symbol, order->symbol) == 0 && other->side != order->side;
    return other->market == closed->market && other->side == closed->side && other->ticket < closed->ticket &&
           closed->from_ticket == 0;
}

static bool has_against(const struct book *book, const struct tw_order *order, const struct position *closed)
{
    for (uint32_t i = 0; i < book->n_positions; i++)
        if (stands_against(book->positions[i], order, closed))
            return true;
    return false;
}

static bool is_opening(const struct account *account, const struct tw_order *order)
{
    return (order->op == TW_OP_OPEN && !(account->is_netting && order->reduce_only)) || order->op == TW_OP_PLACE;
}

/* REFUSED_COUNT: nothing against it. */
static enum refusal banned_why(const struct account *account, const struct tw_order *order)
{
    uint32_t banned = account->banned;
    if (banned & BANNED_LOGIN)
        return REFUSED_LOGIN;
    if (banned & BANNED_TRADING)
        return REFUSED_TRADING;
    if ((banned & BANNED_OPENING) && is_opening(account, order))
        return REFUSED_OPENING;
    if (account->is_netting)
        return REFUSED_COUNT;
    if ((banned & BANNED_HEDGING) && is_opening(account, order) && has_against(&account->book, order, NULL))
        return REFUSED_HEDGING;
    const struct position *closed = (banned & BANNED_OUT_OF_FIFO) && order->op == TW_OP_CLOSE
                                        ? book_position(&account->book, ticket_parse(order->position_id))
                                        : NULL;
    return closed != NULL && has_against(&account->book, order, closed) ? REFUSED_OUT_OF_FIFO : REFUSED_COUNT;
}

void broker_execute(struct account *account, const struct tw_order *order, struct fault fault,
                    int64_t now_wall_ns, struct tw_ack *ack)
{
    struct act act = {
        .account = account, .order = order, .fault = fault, .now_wall_ns = now_wall_ns, .ack = ack};
    ack_reset(ack);
    account_entry(account, &act.entry);
    act.entry.line.calls++;
    if (refusal_of_fault[fault.kind].refuses)
        broker_refuse(ack, refusal_of_fault[fault.kind].refusal);
    else if (account->is_market_closed)
        broker_refuse(ack, REFUSED_MARKET_CLOSED);
    else if (banned_why(account, order) != REFUSED_COUNT)
        broker_refuse(ack, banned_why(account, order));
    else
        execute_by_op[order->op](&act);
    answer_note(&act);
    commit(&act);
}

static void tell_changes(struct account *account, const struct entry *entry, tw_reason reason)
{
    for (uint32_t i = 0; i < entry->n_positions; i++)
        news_position(account, &entry->positions[i], reason);
}

void broker_hand(struct account *account, const struct tw_order *order, int64_t now_wall_ns,
                 struct tw_ack *ack)
{
    struct act act = {.account = account, .order = order, .now_wall_ns = now_wall_ns, .ack = ack};
    ack_reset(ack);
    account_entry(account, &act.entry);
    execute_by_op[order->op](&act);
    struct pending gone = act.entry.pending;
    if (act.entry.has_pending && gone.volume == 0)
        gone = *book_pending(&account->book, gone.ticket);
    commit(&act);
    if (ack->outcome != TW_OUTCOME_DONE)
        return;
    tell_changes(account, &act.entry,
                 order->op == TW_OP_CLOSE ? REASON(ALREADY_CLOSED) : REASON(UNSPECIFIED));
    if (order->op == TW_OP_CANCEL)
        news_order_gone(account, &gone, 0);
}

tw_status broker_deposit(struct account *account, tw_decimal amount)
{
    struct entry entry;
    account_entry(account, &entry);
    if (!tw_decimal_add(entry.line.balance, amount, &entry.line.balance))
        return TW_INVALID;
    return account_commit(account, &entry);
}

void broker_lookup(const struct account *account, const char *client_order_id, struct tw_ack *ack)
{
    ack_reset(ack);
    const struct answer *answer = book_answer(&account->book, client_order_id);
    if (answer == NULL)
        ack->outcome = TW_OUTCOME_NOT_FOUND;
    else
        ack_from_answer(account, answer, ack);
}

/* ---- What quotes and time set off. ---- */

static bool is_reached(enum tw_side side, enum tw_order_type type, tw_decimal price,
                       const struct market *market)
{
    tw_decimal quote = side == TW_BUY ? market->ask : market->bid;
    bool from_above = (side == TW_BUY) == (type == TW_ORDER_LIMIT);
    return from_above ? quote <= price : quote >= price;
}

static bool stop_fires(const struct position *position)
{
    const struct market *market = position->market;
    tw_decimal stop_loss = position->stop_loss, take_profit = position->take_profit;
    if (position->side == TW_BUY)
        return (stop_loss > 0 && market->bid <= stop_loss) ||
               (take_profit > 0 && market->bid >= take_profit);
    return (stop_loss > 0 && market->ask >= stop_loss) ||
           (take_profit > 0 && market->ask <= take_profit);
}

/* Closes it at the quote, also over a gap. */
static bool stop_execute(struct account *account, const struct position *position,
                         int64_t now_wall_ns)
{
    struct entry entry;
    account_entry(account, &entry);
    enum tw_side side = tw_side_opposite(position->side);
    struct trade trade = {.market = position->market,
                          .side = side,
                          .volume = position->volume,
                          .price = market_price(position->market, side, 0, 0),
                          .client_order_id = "",
                          .at_wall_ns = now_wall_ns};
    leave(account, &entry, position, &trade, false);
    deal_note(&entry, &trade, position->ticket);
    if (account_commit(account, &entry) != TW_OK)
        return false;
    tell_changes(account, &entry, REASON(ALREADY_CLOSED));
    return true;
}

static bool stops_match(struct account *account, const struct market *market, int64_t now_wall_ns)
{
    for (uint32_t i = 0; i < account->book.n_positions; i++) {
        const struct position *position = account->book.positions[i];
        if (position->market == market && stop_fires(position))
            return stop_execute(account, position, now_wall_ns);
    }
    return false;
}

static void fill_note(struct entry *entry, const struct pending *pending, const struct trade *trade,
                      const struct position *after)
{
    if (pending->client_order_id[0] == '\0')
        return;
    entry->has_answer = true;
    entry->answer = (struct answer){.op = TW_OP_PLACE,
                                    .outcome = TW_OUTCOME_DONE,
                                    .position = after->ticket,
                                    .order = pending->ticket,
                                    .filled = trade->volume,
                                    .average_price = trade->price,
                                    .remaining = TW_DECIMAL_UNSET};
    memcpy(entry->answer.client_order_id, pending->client_order_id,
           sizeof(entry->answer.client_order_id));
}

/* Fills it at the quote; without the money for it, it is gone and nothing else. */
static bool pending_execute(struct account *account, const struct pending *due, int64_t now_wall_ns)
{
    struct pending pending = *due;
    struct entry entry;
    account_entry(account, &entry);
    struct trade trade = {.market = pending.market,
                          .side = pending.side,
                          .volume = pending.volume,
                          .price = market_price(pending.market, pending.side, 0, 0),
                          .stop_loss = pending.stop_loss > 0 ? pending.stop_loss : TW_DECIMAL_UNSET,
                          .take_profit =
                              pending.take_profit > 0 ? pending.take_profit : TW_DECIMAL_UNSET,
                          .ticket = pending.ticket,
                          .client_order_id = pending.client_order_id,
                          .at_wall_ns = now_wall_ns};
    uint64_t became = 0;
    if (margin_allowed(account, &trade)) {
        const struct position *after = enter(account, &entry, &trade);
        fill_note(&entry, &pending, &trade, after);
        became = after->ticket;
    }
    entry.has_pending = true;
    entry.pending = pending;
    entry.pending.volume = 0;
    if (account_commit(account, &entry) != TW_OK)
        return false;
    news_order_gone(account, &pending, became);
    tell_changes(account, &entry, REASON(UNSPECIFIED));
    return true;
}

/* A stop-limit whose stop is reached becomes a limit order. */
static bool pending_trigger(struct account *account, const struct pending *due)
{
    struct entry entry;
    account_entry(account, &entry);
    entry.has_pending = true;
    entry.pending = *due;
    entry.pending.triggered = true;
    return account_commit(account, &entry) == TW_OK;
}

static bool pendings_match(struct account *account, const struct market *market,
                           int64_t now_wall_ns)
{
    for (uint32_t i = 0; i < account->book.n_pendings; i++) {
        const struct pending *pending = account->book.pendings[i];
        if (pending->market != market)
            continue;
        bool is_stop_limit = pending->type == TW_ORDER_STOP_LIMIT;
        if (is_stop_limit && !pending->triggered) {
            if (is_reached(pending->side, TW_ORDER_STOP, pending->stop_price, market))
                return pending_trigger(account, pending);
        } else if (is_reached(pending->side, is_stop_limit ? TW_ORDER_LIMIT : pending->type,
                              pending->price, market)) {
            return pending_execute(account, pending, now_wall_ns);
        }
    }
    return false;
}

void broker_match(struct account *account, const struct market *market, int64_t now_wall_ns)
{
    if (account->is_market_closed || market->bid <= 0)
        return;
    while (stops_match(account, market, now_wall_ns) ||
           pendings_match(account, market, now_wall_ns)) {
    }
}

void broker_match_all(struct account *account, int64_t now_wall_ns)
{
    for (uint32_t i = 0; i < account->book.n_markets; i++)
        broker_match(account, account->book.markets[i], now_wall_ns);
}

int64_t broker_expire(struct account *account, int64_t now_wall_ns)
{
    int64_t next = INT64_MAX;
    for (uint32_t i = 0; i < account->book.n_pendings;) {
        struct pending pending = *account->book.pendings[i];
        if (pending.expires_wall_ns == 0 || pending.expires_wall_ns > now_wall_ns) {
            if (pending.expires_wall_ns != 0 && pending.expires_wall_ns < next)
                next = pending.expires_wall_ns;
            i++;
            continue;
        }
        struct entry entry;
        account_entry(account, &entry);
        entry.has_pending = true;
        entry.pending = pending;
        entry.pending.volume = 0;
        if (account_commit(account, &entry) != TW_OK)
            return next; /* it stays, and is tried again at the next call */
        news_order_gone(account, &pending, 0);
    }
    return next;
}

/* ---- Everything there is. ---- */

tw_status broker_snapshot(const struct account *account, int64_t now_wall_ns,
                          struct tw_snapshot *ret)
{
    const struct book *book = &account->book;
    struct tw_snapshot snapshot = {.as_of_wall_ns = now_wall_ns,
                                   .n_positions = book->n_positions,
                                   .n_orders = book->n_pendings};
    if (book->n_positions > 0)
        snapshot.positions = calloc(book->n_positions, sizeof(*snapshot.positions));
    if (book->n_pendings > 0)
        snapshot.orders = calloc(book->n_pendings, sizeof(*snapshot.orders));
    if ((book->n_positions > 0 && snapshot.positions == NULL) ||
        (book->n_pendings > 0 && snapshot.orders == NULL)) {
        tw_snapshot_clear(&snapshot);
        return TW_NO_MEMORY;
    }
    book_account(book, &snapshot.account);
    for (uint32_t i = 0; i < book->n_positions; i++)
        position_shown(account, book->positions[i], &snapshot.positions[i]);
    for (uint32_t i = 0; i < book->n_pendings; i++)
        pending_shown(account, book->pendings[i], &snapshot.orders[i]);
    snapshot.complete = true;
    *ret = snapshot;
    return TW_OK;
}
