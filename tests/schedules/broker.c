/* broker.c - the adapter of the simulation: the way to the brokers, which loses and delays, and the
 * brokers' books. A request that has left goes on when the server is gone. The promises of an adapter are
 * kept: what is called not found after the settle time will not come any more, and a complete snapshot is
 * the book as it was at some moment of the call. */
#include "world.h"

#include <internal.h> /* of the engine: copy_of_job() */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const symbols[] = {"EURUSD", "XAUUSD"};
enum { N_SYMBOLS = 2, OWN_SYMBOL = 0 };

/* Of this life. */
struct session {
    struct tw_session_host host;
    bool is_open, is_told_up;
};
static struct session sessions[FOLLOWERS_MAX];
static uint32_t mutations;

static struct follower *follower_of(int i)
{
    return &world->s.followers[i];
}

static int number_of(const struct follower *follower)
{
    return (int)(follower - world->s.followers);
}

static int symbol_of(const char *text)
{
    return strcmp(text, symbols[1]) == 0;
}

uint32_t broker_mutations(void)
{
    return mutations;
}

static const char *op_word(enum tw_order_op op)
{
    static const char *const words[] = {"OPEN", "CLOSE", "MODIFY", "PLACE", "MODIFY_ORDER", "CANCEL"};
    return words[op];
}

static const char *outcome_word(enum tw_outcome outcome)
{
    static const char *const words[] = {"AMBIGUOUS", "DONE", "ACCEPTED", "PARTIAL", "NO_CHANGE", "RETRY_NOW",
                                        "RETRY_LATER", "REJECTED", "NOT_FOUND", "UNSUPPORTED"};
    return words[outcome];
}

/* ---- The book ---- */

static struct held *held_new(struct follower *follower)
{
    for (int i = 0; i < HELD_MAX; i++)
        if (!follower->held[i].is_used) {
            follower->held[i] = (struct held){.is_used = true, .ticket = ++follower->next_ticket, .position = -1};
            return &follower->held[i];
        }
    violation("the book of a broker is full");
}

static struct held *held_by_ticket(struct follower *follower, const char *text)
{
    uint32_t ticket = (uint32_t)strtoul(text, NULL, 10);
    for (int i = 0; i < HELD_MAX; i++)
        if (follower->held[i].is_used && follower->held[i].ticket == ticket)
            return &follower->held[i];
    return NULL;
}

static struct held *held_by_symbol(struct follower *follower, int symbol)
{
    for (int i = 0; i < HELD_MAX; i++)
        if (follower->held[i].is_used && follower->held[i].symbol == symbol)
            return &follower->held[i];
    return NULL;
}

static struct working *working_by_ticket(struct follower *follower, uint32_t ticket)
{
    for (int i = 0; i < WORKING_MAX; i++)
        if (follower->working[i].is_used && follower->working[i].ticket == ticket)
            return &follower->working[i];
    return NULL;
}

static void ticket_text(uint32_t ticket, char ret[TW_BROKER_ID_BYTES])
{
    snprintf(ret, TW_BROKER_ID_BYTES, "%" PRIu32, ticket);
}

static struct answer *answer_by_id(struct follower *follower, const char *id)
{
    for (uint32_t i = follower->n_answers; i > 0; i--)
        if (strcmp(follower->answers[i - 1].id, id) == 0)
            return &follower->answers[i - 1];
    return NULL;
}

static struct answer *answer_note(struct follower *follower, const char *id, const struct tw_ack *ack, int64_t visible_ns)
{
    struct answer *answer = answer_by_id(follower, id);
    if (answer == NULL) {
        if (follower->n_answers == ANSWERS_MAX)
            violation("more orders at one follower than the simulation keeps");
        answer = &follower->answers[follower->n_answers++];
    }
    *answer = (struct answer){.visible_ns = visible_ns, .ack = *ack};
    snprintf(answer->id, sizeof answer->id, "%s", id);
    return answer;
}

static void held_show(const struct held *held, struct tw_held_position *ret)
{
    *ret = (struct tw_held_position){.side = held->side, .volume = held->volume, .open_price = LOT,
                                     .stop_loss = held->stop_loss, .take_profit = held->take_profit};
    ticket_text(held->ticket, ret->position_id);
    if (held->from_ticket != 0)
        ticket_text(held->from_ticket, ret->from_position_id);
    snprintf(ret->symbol, sizeof ret->symbol, "%s", symbols[held->symbol]);
    snprintf(ret->client_order_id, sizeof ret->client_order_id, "%s", held->id);
}

/* ---- News ---- */

void news_add(const struct news *news)
{
    for (int i = 0; i < NEWS_MAX; i++)
        if (!world->s.news[i].is_used) {
            world->s.news[i] = *news;
            world->s.news[i].is_used = true;
            return;
        }
    violation("more news than the simulation keeps");
}

static int64_t soon(int64_t longest_ns)
{
    return world->s.now_ns + draw_ns(TW_NS_PER_US, longest_ns);
}

static void tell_position(struct follower *follower, const struct held *held, tw_reason reason)
{
    struct news news = {.kind = NEWS_POSITION, .follower = (uint8_t)number_of(follower), .reason = reason,
                        .at_ns = soon(50 * TW_NS_PER_MS)};
    held_show(held, &news.held);
    news_add(&news);
    if (chance(50))
        news_add(&news);
}

/* ---- Orders at the broker ---- */

struct act {
    struct follower *follower;
    struct wire *wire;
    const struct tw_order *order;
    struct tw_ack *ack;
};

static tw_decimal filled_by_dice(tw_decimal volume)
{
    if (volume <= STEP || !chance(world->s.weather.partial))
        return volume;
    return (1 + (tw_decimal)draw((uint64_t)(volume / STEP - 1))) * STEP;
}

static tw_decimal given(tw_decimal value, tw_decimal otherwise)
{
    return value == TW_DECIMAL_UNSET ? otherwise : value;
}

static void filled(struct act *act, tw_decimal volume, tw_decimal wanted)
{
    act->ack->outcome = volume < wanted ? TW_OUTCOME_PARTIAL : TW_OUTCOME_DONE;
    act->ack->filled_volume = volume;
    act->ack->average_price = LOT;
}

static void net_add(struct act *act, enum tw_side side, tw_decimal volume)
{
    int symbol = symbol_of(act->order->symbol);
    struct held *held = held_by_symbol(act->follower, symbol);
    if (held == NULL) {
        held = held_new(act->follower);
        held->symbol = (uint8_t)symbol;
        held->side = side;
    }
    if (held->side == side) {
        held->volume += volume;
    } else {
        held->volume -= volume;
        if (held->volume < 0) {
            held->volume = -held->volume;
            held->side = side;
        }
    }
    ticket_text(held->ticket, act->ack->position_id);
    if (held->volume == 0)
        held->is_used = false;
}

static void do_open(struct act *act)
{
    const struct tw_order *order = act->order;
    tw_decimal volume = filled_by_dice(order->volume);
    filled(act, volume, order->volume);
    if (act->follower->caps.netting) {
        net_add(act, order->side, volume);
        return;
    }
    struct held *held = held_new(act->follower);
    held->symbol = (uint8_t)symbol_of(order->symbol);
    held->side = order->side;
    held->volume = volume;
    held->stop_loss = given(order->stop_loss, 0);
    held->take_profit = given(order->take_profit, 0);
    held->position = act->wire->position;
    memcpy(held->id, order->client_order_id, sizeof held->id);
    ticket_text(held->ticket, act->ack->position_id);
}

static void do_close_net(struct act *act)
{
    const struct tw_order *order = act->order;
    struct held *held = held_by_symbol(act->follower, symbol_of(order->symbol));
    bool reduces = act->follower->caps.reduce_only && order->reduce_only;
    if (reduces && (held == NULL || held->side == order->side)) {
        act->ack->outcome = TW_OUTCOME_NOT_FOUND;
        return;
    }
    tw_decimal wanted = reduces && order->volume > held->volume ? held->volume : order->volume;
    tw_decimal volume = filled_by_dice(wanted);
    filled(act, volume, order->volume);
    if (volume == wanted)
        act->ack->outcome = TW_OUTCOME_DONE;
    net_add(act, order->side, volume);
}

static void do_close(struct act *act)
{
    const struct tw_order *order = act->order;
    if (act->follower->caps.netting) {
        do_close_net(act);
        return;
    }
    struct held *held = held_by_ticket(act->follower, order->position_id);
    if (held == NULL) {
        act->ack->outcome = TW_OUTCOME_NOT_FOUND;
        return;
    }
    tw_decimal wanted = given(order->volume, held->volume);
    if (wanted > held->volume)
        wanted = held->volume;
    tw_decimal volume = filled_by_dice(wanted);
    filled(act, volume, wanted);
    act->wire->position = held->position;
    held->volume -= volume;
    ticket_text(held->ticket, act->ack->position_id);
    act->ack->remaining_volume = held->volume;
    if (held->volume == 0) {
        held->is_used = false;
    } else if (act->follower->renumbers) {
        held->from_ticket = held->ticket;
        held->ticket = ++act->follower->next_ticket;
        ticket_text(held->ticket, act->ack->remainder_position_id);
    }
}

static void stops_set(struct act *act, tw_decimal *stop_loss, tw_decimal *take_profit)
{
    tw_decimal stop = given(act->order->stop_loss, *stop_loss), profit = given(act->order->take_profit, *take_profit);
    bool is_same = stop == *stop_loss && profit == *take_profit;
    act->ack->outcome = is_same ? TW_OUTCOME_NO_CHANGE : TW_OUTCOME_DONE;
    *stop_loss = stop;
    *take_profit = profit;
}

static void do_modify(struct act *act)
{
    struct held *held = act->follower->caps.netting
                            ? held_by_symbol(act->follower, symbol_of(act->order->symbol))
                            : held_by_ticket(act->follower, act->order->position_id);
    if (held == NULL)
        act->ack->outcome = TW_OUTCOME_NOT_FOUND;
    else
        stops_set(act, &held->stop_loss, &held->take_profit);
}

static void do_place(struct act *act)
{
    const struct tw_order *order = act->order;
    for (int i = 0; i < WORKING_MAX; i++) {
        struct working *working = &act->follower->working[i];
        if (working->is_used)
            continue;
        *working = (struct working){
            .is_used = true, .ticket = ++act->follower->next_ticket, .symbol = (uint8_t)symbol_of(order->symbol),
            .side = order->side, .type = order->type, .volume = order->volume, .price = order->price,
            .stop_loss = given(order->stop_loss, 0), .take_profit = given(order->take_profit, 0),
            .position = act->wire->position, .event = act->wire->event};
        memcpy(working->id, order->client_order_id, sizeof working->id);
        act->ack->outcome = TW_OUTCOME_DONE;
        act->follower->had_working = true;
        ticket_text(working->ticket, act->ack->order_id);
        if (chance(500))
            news_add(&(struct news){.kind = NEWS_FILL, .follower = (uint8_t)number_of(act->follower),
                                    .ticket = working->ticket, .at_ns = soon(20 * TW_NS_PER_S)});
        return;
    }
    violation("more working orders than the simulation keeps");
}

static struct working *working_of_order(struct act *act)
{
    struct working *working = working_by_ticket(act->follower, (uint32_t)strtoul(act->order->order_id, NULL, 10));
    if (working == NULL)
        act->ack->outcome = TW_OUTCOME_NOT_FOUND;
    return working;
}

static void do_modify_order(struct act *act)
{
    struct working *working = working_of_order(act);
    if (working == NULL)
        return;
    stops_set(act, &working->stop_loss, &working->take_profit);
    if (act->order->price != TW_DECIMAL_UNSET && act->order->price != working->price) {
        working->price = act->order->price;
        act->ack->outcome = TW_OUTCOME_DONE;
    }
}

static void do_cancel(struct act *act)
{
    struct working *working = working_of_order(act);
    if (working == NULL)
        return;
    working->is_used = false;
    act->ack->outcome = TW_OUTCOME_DONE;
}

/* What the broker says instead of doing it. */
static bool refuses(struct tw_ack *ack)
{
    const struct weather *weather = &world->s.weather;
    if (chance(weather->busy)) {
        ack->outcome = TW_OUTCOME_RETRY_LATER;
        ack->reason = REASON(BUSY);
    } else if (chance(weather->moved)) {
        ack->outcome = TW_OUTCOME_RETRY_NOW;
    } else if (chance(weather->refused)) {
        ack->outcome = TW_OUTCOME_REJECTED;
        ack->reason = REASON(BROKER_OTHER);
    } else {
        return false;
    }
    return true;
}

static bool is_executed(const struct tw_ack *ack)
{
    return ack->outcome == TW_OUTCOME_DONE || ack->outcome == TW_OUTCOME_PARTIAL ||
           ack->outcome == TW_OUTCOME_NO_CHANGE;
}

static void execute(struct wire *wire)
{
    static void (*const by_op[])(struct act *) = {
        [TW_OP_OPEN] = do_open, [TW_OP_CLOSE] = do_close, [TW_OP_MODIFY] = do_modify,
        [TW_OP_PLACE] = do_place, [TW_OP_MODIFY_ORDER] = do_modify_order, [TW_OP_CANCEL] = do_cancel,
    };
    struct follower *follower = follower_of(wire->follower);
    struct act act = {follower, wire, &wire->order, &wire->ack};
    wire->ack = (struct tw_ack){.remaining_volume = TW_DECIMAL_UNSET};
    if (!refuses(&wire->ack))
        by_op[wire->order.op](&act);
    trace("broker F%d %s %s vol=%lld pos=%s ord=%s -> %s filled=%lld pos=%s", wire->follower, op_word(wire->order.op),
          wire->order.client_order_id, (long long)(wire->order.volume / STEP), wire->order.position_id,
          wire->order.order_id, outcome_word(wire->ack.outcome), (long long)(wire->ack.filled_volume / STEP),
          wire->ack.position_id);
    follower->mutations++;
    if (is_executed(&wire->ack) || wire->ack.outcome == TW_OUTCOME_REJECTED) {
        struct answer *answer =
            answer_note(follower, wire->order.client_order_id, &wire->ack,
                        chance(world->s.weather.hidden) ? draw_ns(0, wire->settles_ns - world->s.now_ns) + world->s.now_ns
                                                        : world->s.now_ns);
        if (wire->order.op == TW_OP_PLACE && is_executed(&wire->ack))
            answer->working = (uint32_t)strtoul(wire->ack.order_id, NULL, 10);
    }
    if (is_executed(&wire->ack)) {
        world->totals.executed++;
        judge_executed(wire);
    }
}

/* ---- What the broker does by itself ---- */

static void fill(const struct news *news)
{
    struct follower *follower = follower_of(news->follower);
    struct working *working = working_by_ticket(follower, news->ticket);
    if (working == NULL)
        return;
    struct working was = *working;
    struct wire wire = {.follower = news->follower, .event = was.event, .position = was.position, .is_open = true};
    wire.order = (struct tw_order){.op = TW_OP_OPEN, .side = was.side, .volume = was.volume,
                                   .stop_loss = was.stop_loss, .take_profit = was.take_profit};
    snprintf(wire.order.symbol, sizeof wire.order.symbol, "%s", symbols[was.symbol]);
    memcpy(wire.order.client_order_id, was.id, sizeof was.id);
    wire.ack = (struct tw_ack){.remaining_volume = TW_DECIMAL_UNSET};
    struct act act = {follower, &wire, &wire.order, &wire.ack};
    working->is_used = false;
    uint32_t partial = world->s.weather.partial;
    world->s.weather.partial = 0;
    do_open(&act);
    world->s.weather.partial = partial;
    world->totals.fills++;
    judge_executed(&wire);
    ticket_text(was.ticket, wire.ack.order_id);
    (void)answer_note(follower, was.id, &wire.ack, world->s.now_ns);
    trace("broker F%d order %u fills: position %s", news->follower, was.ticket, wire.ack.position_id);

    struct news gone = {.kind = NEWS_ORDER_GONE, .follower = news->follower, .ticket = was.ticket,
                        .at_ns = soon(50 * TW_NS_PER_MS)};
    memcpy(gone.id, was.id, sizeof gone.id);
    memcpy(gone.position_id, wire.ack.position_id, sizeof gone.position_id);
    news_add(&gone);
    if (chance(50))
        news_add(&gone);
}

/* Somebody closes a position by hand, whole or in part. */
static void hand(const struct news *news)
{
    struct follower *follower = follower_of(news->follower);
    struct held *held = NULL;
    for (int i = 0, skip = (int)draw(4); i < HELD_MAX && (held == NULL || skip > 0); i++)
        if (follower->held[i].is_used) {
            held = &follower->held[i];
            skip--;
        }
    if (held == NULL || follower->caps.netting)
        return;
    tw_decimal volume = chance(500) || held->volume == STEP
                            ? held->volume : (1 + (tw_decimal)draw((uint64_t)(held->volume / STEP - 1))) * STEP;
    int position = held->position;
    held->volume -= volume;
    follower->share[position] -= held->side == TW_BUY ? volume : -volume;
    follower->was_closed_by_hand[position] = true;
    held->is_used = held->volume > 0;
    world->totals.hands++;
    trace("broker F%d position %u: %lld closed by hand, %lld left", news->follower, held->ticket,
          (long long)(volume / STEP), (long long)(held->volume / STEP));
    tell_position(follower, held, held->volume == 0 ? REASON(ALREADY_CLOSED) : REASON(UNSPECIFIED));
}

static void connection_set(int number, bool is_up)
{
    struct session *session = &sessions[number];
    if (!session->is_open || session->is_told_up == is_up)
        return;
    session->is_told_up = is_up;
    trace("F%d is %s", number, is_up ? "connected" : "not connected");
    session->host.on_connection(session->host.context, is_up, is_up ? NULL : "lost");
}

static void go_down(int number)
{
    follower_of(number)->is_up = false;
    for (int i = 0; i < WIRES_MAX; i++) {
        struct wire *wire = &world->s.wires[i];
        if (!wire->is_used || wire->follower != number || wire->call == NULL)
            continue;
        wire->is_reply_lost = true;
        if (!wire->is_delivered && chance(500))
            wire->arrives_ns = INT64_MAX;
        if (chance(500)) /* it is told at once */
            wire->answers_ns = world->s.now_ns;
    }
    connection_set(number, false);
}

static void news_happen(const struct news *news)
{
    struct follower *follower = follower_of(news->follower);
    struct session *session = &sessions[news->follower];
    bool is_heard = session->is_open && session->is_told_up && follower->is_up;
    switch (news->kind) {
    case NEWS_UP:
        follower->is_up = true;
        connection_set(news->follower, true);
        break;
    case NEWS_TELL_UP:
        if (follower->is_up)
            connection_set(news->follower, true);
        break;
    case NEWS_DOWN:
        go_down(news->follower);
        break;
    case NEWS_POSITION:
        if (is_heard)
            session->host.on_position(session->host.context, &news->held, news->reason);
        break;
    case NEWS_ORDER_GONE: {
        char order_id[TW_BROKER_ID_BYTES];
        ticket_text(news->ticket, order_id);
        if (is_heard)
            session->host.on_order_gone(session->host.context, order_id, news->id, news->position_id);
        break;
    }
    case NEWS_FILL:
        fill(news);
        break;
    case NEWS_HAND:
        hand(news);
        break;
    }
}

/* ---- The way there and back ---- */

static struct wire *wire_new(int follower, enum wire_kind kind, struct tw_adapter_call *call)
{
    for (int i = 0; i < WIRES_MAX; i++) {
        struct wire *wire = &world->s.wires[i];
        if (wire->is_used)
            continue;
        const struct tw_capabilities *caps = &follower_of(follower)->caps;
        *wire = (struct wire){.is_used = true, .kind = kind, .follower = (uint8_t)follower, .order = call->order,
                              .call = call, .deadline_ns = call->deadline_mono_ns, .event = -1, .position = -1};
        wire->settles_ns = call->deadline_mono_ns + (int64_t)caps->settle_ms * TW_NS_PER_MS;
        return wire;
    }
    violation("more calls than the simulation keeps");
}

/* Whose order it is: what the server says of the job that it runs. A comparison, and a copy, may ask what became of
 * another's order. */
static void wire_name(struct wire *wire)
{
    struct tw_job *job = machine_job();
    struct tw_copy *copy = job != NULL ? copy_of_job(job) : NULL;
    if (wire->kind == WIRE_LOOKUP && (copy == NULL || copy->asks_share != 0))
        return;
    if (copy == NULL)
        violation("an order call from no copy");
    const struct tw_record *record = copy->record;
    if (record->event_id[0] == 'e')
        wire->event = (int8_t)atoi(record->event_id + 1);
    wire->position = (int8_t)(record->subject_id[1] - '0');
    wire->is_open = copy->op == TW_OP_OPEN || copy->op == TW_OP_PLACE;
    if (wire->position < 0 || wire->position >= POSITIONS_MAX)
        violation("an order for a position that is not the master's: \"%s\"", record->subject_id);
}

static void wire_plan(struct wire *wire)
{
    const struct weather *weather = &world->s.weather;
    int64_t now_ns = world->s.now_ns;
    wire->arrives_ns = now_ns + draw_ns(10 * TW_NS_PER_US, 100 * TW_NS_PER_MS);
    wire->answers_ns = wire->arrives_ns + draw_ns(10 * TW_NS_PER_US, 100 * TW_NS_PER_MS);
    if (chance(weather->request_lost)) {
        wire->arrives_ns = INT64_MAX;
        wire->answers_ns = wire->deadline_ns;
    } else if (chance(weather->late)) {
        wire->arrives_ns = now_ns + (int64_t)draw((uint64_t)(wire->settles_ns - now_ns));
        wire->answers_ns = wire->arrives_ns + draw_ns(TW_NS_PER_MS, 100 * TW_NS_PER_MS);
    }
    if (chance(weather->reply_lost)) {
        wire->is_reply_lost = true;
        wire->answers_ns = chance(500) ? now_ns + (int64_t)draw((uint64_t)(wire->deadline_ns - now_ns)) : wire->deadline_ns;
    }
    if (wire->answers_ns > wire->deadline_ns)
        wire->answers_ns = wire->deadline_ns;
}

static void deliver_due(uint8_t follower);

/* The book may be read at either end of the question's stay at the broker. */
static void shoot(struct wire *wire)
{
    deliver_due(wire->follower);
    const struct follower *follower = follower_of(wire->follower);
    struct shot *shot = &world->shots[wire - world->s.wires];
    memcpy(shot->held, follower->held, sizeof shot->held);
    memcpy(shot->working, follower->working, sizeof shot->working);
    wire->is_shot = true;
}

static void deliver(struct wire *wire)
{
    wire->is_delivered = true;
    if (wire->kind == WIRE_EXECUTE)
        execute(wire);
    else if (wire->kind == WIRE_SNAPSHOT && chance(500))
        shoot(wire);
}

/* Who asks the book sees what has arrived until now, whatever else has not had its turn yet. */
static void deliver_due(uint8_t follower)
{
    for (int i = 0; i < WIRES_MAX; i++) {
        struct wire *wire = &world->s.wires[i];
        if (!wire->is_used || wire->is_delivered || wire->follower != follower || wire->arrives_ns > world->s.now_ns)
            continue;
        deliver(wire);
        if (wire->call == NULL)
            wire->is_used = false;
    }
}

/* How long a broker whose history is short remembers an order that is over. */
#define HISTORY_NS (8 * TW_NS_PER_S)

static bool is_forgotten(const struct follower *follower, const struct answer *answer)
{
    return world->is_forgetful && !follower->caps.netting && answer->working == 0 &&
           world->s.now_ns > answer->visible_ns + HISTORY_NS;
}

static void look_up(struct wire *wire, struct tw_ack *ack)
{
    deliver_due(wire->follower);
    struct follower *follower = follower_of(wire->follower);
    struct answer *answer = answer_by_id(follower, wire->order.client_order_id);
    if (answer == NULL || answer->visible_ns > world->s.now_ns || is_forgotten(follower, answer)) {
        ack->outcome = TW_OUTCOME_NOT_FOUND;
        return;
    }
    *ack = answer->ack;
    if (answer->working != 0 && working_by_ticket(follower, answer->working) != NULL)
        ack->outcome = TW_OUTCOME_ACCEPTED;
    if (ack->outcome == TW_OUTCOME_NO_CHANGE)
        ack->outcome = TW_OUTCOME_DONE;
}

static void snapshot(struct wire *wire, struct tw_ack *ack)
{
    if (!wire->is_shot)
        deliver_due(wire->follower);
    const struct follower *follower = follower_of(wire->follower);
    const struct shot *shot = &world->shots[wire - world->s.wires];
    const struct held *book = wire->is_shot ? shot->held : follower->held;
    const struct working *orders = wire->is_shot ? shot->working : follower->working;
    struct tw_snapshot *ret = wire->call->snapshot;
    ack->outcome = TW_OUTCOME_DONE;
    *ret = (struct tw_snapshot){.complete = true, .as_of_wall_ns = world->s.now_ns + WALL_BASE_NS};
    ret->account = (struct tw_account){.currency = "USD", .balance = 10000 * LOT, .equity = 10000 * LOT,
                                       .free_margin = 10000 * LOT, .leverage = 100};
    ret->positions = calloc(HELD_MAX, sizeof *ret->positions);
    ret->orders = calloc(WORKING_MAX, sizeof *ret->orders);
    if (ret->positions == NULL || ret->orders == NULL)
        abort();
    for (int i = 0; i < HELD_MAX; i++)
        if (book[i].is_used)
            held_show(&book[i], &ret->positions[ret->n_positions++]);
    for (int i = 0; i < WORKING_MAX; i++) {
        const struct working *working = &orders[i];
        if (!working->is_used)
            continue;
        struct tw_held_order *order = &ret->orders[ret->n_orders++];
        *order = (struct tw_held_order){.side = working->side, .type = working->type, .volume = working->volume,
                                        .price = working->price, .stop_loss = working->stop_loss,
                                        .take_profit = working->take_profit};
        ticket_text(working->ticket, order->order_id);
        snprintf(order->symbol, sizeof order->symbol, "%s", symbols[working->symbol]);
        memcpy(order->client_order_id, working->id, sizeof order->client_order_id);
    }
}

/* What the caller hears; the question, for those, is answered as of now. */
static struct tw_ack answer_make(struct wire *wire)
{
    struct tw_ack ack = {.remaining_volume = TW_DECIMAL_UNSET};
    bool has_answer = wire->is_delivered && !wire->is_reply_lost;
    if (has_answer && wire->kind == WIRE_EXECUTE)
        ack = wire->ack;
    else if (has_answer && wire->kind == WIRE_LOOKUP)
        look_up(wire, &ack);
    else if (has_answer && !chance(world->s.weather.incomplete))
        snapshot(wire, &ack);
    if (wire->kind == WIRE_LOOKUP)
        trace("F%d look-up %s -> %s filled=%lld", wire->follower, wire->order.client_order_id, outcome_word(ack.outcome),
              (long long)(ack.filled_volume / STEP));
    else if (wire->kind == WIRE_EXECUTE)
        trace("F%d answer %s -> %s", wire->follower, wire->order.client_order_id, outcome_word(ack.outcome));
    if (wire->kind != WIRE_SNAPSHOT)
        judge_answered(wire, &ack);
    return ack;
}

static void answer(struct wire *wire)
{
    struct tw_adapter_call *call = wire->call;
    call->ack = answer_make(wire);
    wire->call = NULL;
    if (wire->is_delivered || wire->arrives_ns == INT64_MAX || wire->kind != WIRE_EXECUTE)
        wire->is_used = false;
    crash_point();
    call->done(call);
    crash_point();
}

/* The worker stands still until the answer is there; the rest of the world waits with it. */
static void answer_blocking(struct wire *wire)
{
    struct tw_adapter_call *call = wire->call;
    if (wire->arrives_ns <= wire->answers_ns) {
        world->s.now_ns = wire->arrives_ns > world->s.now_ns ? wire->arrives_ns : world->s.now_ns;
        deliver(wire);
        crash_point();
    }
    world->s.now_ns = wire->answers_ns > world->s.now_ns ? wire->answers_ns : world->s.now_ns;
    call->ack = answer_make(wire);
    wire->call = NULL;
    if (wire->is_delivered || wire->arrives_ns == INT64_MAX || wire->kind != WIRE_EXECUTE)
        wire->is_used = false;
}

static void send_off(struct wire *wire)
{
    const struct follower *follower = follower_of(wire->follower);
    world->totals.calls += wire->kind == WIRE_EXECUTE;
    world->totals.lookups += wire->kind == WIRE_LOOKUP;
    if (wire->kind == WIRE_EXECUTE)
        trace("F%d send %s %s vol=%lld pos=%s ord=%s event=%d position=%d attempt=%u", wire->follower,
              op_word(wire->order.op), wire->order.client_order_id, (long long)(wire->order.volume / STEP),
              wire->order.position_id, wire->order.order_id, wire->event, wire->position, wire->order.attempt);
    wire_plan(wire);
    if (follower->caps.blocking) {
        answer_blocking(wire);
        return;
    }
    if (chance(world->s.weather.early_answer)) { /* before execute() returns */
        wire->arrives_ns = wire->answers_ns = world->s.now_ns;
        deliver(wire);
        answer(wire);
    }
}

static void not_sent(struct wire *wire)
{
    struct tw_adapter_call *call = wire->call;
    call->ack = (struct tw_ack){.outcome = TW_OUTCOME_AMBIGUOUS, .remaining_volume = TW_DECIMAL_UNSET};
    if (wire->kind == WIRE_EXECUTE)
        call->ack = (struct tw_ack){.outcome = TW_OUTCOME_RETRY_LATER, .reason = REASON(NO_CONNECTION), .not_sent = true,
                                    .remaining_volume = TW_DECIMAL_UNSET};
    wire->is_used = false;
    if (!follower_of(wire->follower)->caps.blocking)
        call->done(call);
}

static void call_begin(void *context, struct tw_adapter_call *call, enum wire_kind kind)
{
    int number = number_of(context);
    crash_point();
    struct wire *wire = wire_new(number, kind, call);
    if (kind != WIRE_SNAPSHOT)
        wire_name(wire);
    mutations += kind == WIRE_EXECUTE;
    if (!follower_of(number)->is_up) {
        not_sent(wire);
        return;
    }
    if (kind == WIRE_EXECUTE)
        judge_call(wire);
    send_off(wire);
    crash_point();
}

/* ---- The table ---- */

static tw_status op_open(const struct tw_adapter_options *options, void **ret_adapter, struct tw_error *error)
{
    (void)options;
    (void)error;
    *ret_adapter = world;
    return TW_OK;
}

static void op_close(void *adapter)
{
    (void)adapter;
}

static tw_status op_check(void *adapter, const struct tw_session_options *options, char *ret_key, struct tw_error *error)
{
    (void)adapter;
    (void)options;
    (void)ret_key;
    (void)error;
    return TW_OK;
}

static tw_status op_session_open(void *adapter, const struct tw_session_options *options, void **ret_session,
                                 struct tw_error *error)
{
    (void)adapter;
    (void)error;
    int number = options->follower_id[1] - '0';
    struct session *session = &sessions[number];
    struct tw_instrument instruments[N_SYMBOLS];
    *session = (struct session){.host = options->host, .is_open = true};
    mutations = 0;
    for (int i = 0; i < N_SYMBOLS; i++) {
        instruments[i] = (struct tw_instrument){.volume_min = STEP, .volume_step = STEP, .volume_max = 1000 * LOT,
                                                .contract_size = 100000 * LOT, .tick_size = 1000};
        snprintf(instruments[i].symbol, sizeof instruments[i].symbol, "%s", symbols[i]);
    }
    const struct tw_account account = {.currency = "USD", .balance = 10000 * LOT, .equity = 10000 * LOT,
                                       .free_margin = 10000 * LOT, .leverage = 100};
    session->host.on_instruments(session->host.context, instruments, N_SYMBOLS);
    session->host.on_account(session->host.context, &account);
    for (int i = 0; i < N_SYMBOLS; i++)
        session->host.on_quote(session->host.context, symbols[i], LOT, LOT + 1000);
    if (chance(300) && follower_of(number)->is_up)
        connection_set(number, true);
    else
        news_add(&(struct news){.kind = NEWS_TELL_UP, .follower = (uint8_t)number, .at_ns = soon(500 * TW_NS_PER_MS)});
    *ret_session = follower_of(number);
    return TW_OK;
}

static void op_session_close(void *session)
{
    sessions[number_of(session)].is_open = false;
}

static void op_capabilities(void *session, struct tw_capabilities *ret)
{
    *ret = ((const struct follower *)session)->caps;
}

static void op_execute(void *session, struct tw_adapter_call *call)
{
    call_begin(session, call, WIRE_EXECUTE);
}

static void op_lookup(void *session, struct tw_adapter_call *call)
{
    call_begin(session, call, WIRE_LOOKUP);
}

static void op_snapshot(void *session, struct tw_adapter_call *call)
{
    call_begin(session, call, WIRE_SNAPSHOT);
}

const struct tw_adapter_ops broker_ops = {
    .abi_major = TW_ADAPTER_ABI_MAJOR, .struct_size = sizeof(struct tw_adapter_ops), .name = "book",
    .open = op_open, .close = op_close, .check = op_check,
    .session_open = op_session_open, .session_close = op_session_close, .capabilities = op_capabilities,
    .execute = op_execute, .lookup = op_lookup, .snapshot = op_snapshot,
};

/* ---- Steps ---- */

uint32_t broker_calls_out(void)
{
    uint32_t n = 0;
    for (int i = 0; i < WIRES_MAX; i++)
        n += world->s.wires[i].is_used;
    return n;
}

/* The calls of the life that ends are heard of by nobody any more. */
void broker_life_ends(void)
{
    for (int i = 0; i < WIRES_MAX; i++) {
        struct wire *wire = &world->s.wires[i];
        wire->call = NULL;
        if (wire->is_used && (wire->is_delivered || wire->arrives_ns == INT64_MAX || wire->kind != WIRE_EXECUTE))
            wire->is_used = false;
    }
    for (int i = 0; i < NEWS_MAX; i++)
        if (world->s.news[i].kind == NEWS_TELL_UP)
            world->s.news[i].is_used = false;
}

/* From here on nothing goes wrong any more. */
void broker_calm(void)
{
    world->s.weather = (struct weather){0};
    for (int i = 0; i < NEWS_MAX; i++) {
        enum news_kind kind = world->s.news[i].kind;
        if (kind == NEWS_DOWN || kind == NEWS_HAND)
            world->s.news[i].is_used = false;
    }
    for (uint32_t i = 0; i < world->s.n_followers; i++)
        if (!follower_of((int)i)->is_up)
            news_add(&(struct news){.kind = NEWS_UP, .follower = (uint8_t)i, .at_ns = soon(TW_NS_PER_S)});
}

static int64_t due_of(const struct wire *wire)
{
    int64_t due_ns = wire->is_delivered ? INT64_MAX : wire->arrives_ns;
    if (wire->call != NULL && wire->answers_ns < due_ns)
        due_ns = wire->answers_ns;
    return due_ns;
}

static void wire_step(struct wire *wire)
{
    bool may_answer = wire->call != NULL && wire->answers_ns <= world->s.now_ns;
    if (!wire->is_delivered && wire->arrives_ns <= world->s.now_ns && (!may_answer || wire->arrives_ns <= wire->answers_ns)) {
        deliver(wire);
        if (wire->call == NULL)
            wire->is_used = false;
        return;
    }
    answer(wire);
}

bool broker_step(int64_t *ret_next_ns)
{
    struct wire *wires[WIRES_MAX];
    struct news *news[NEWS_MAX];
    uint64_t n_wires = 0, n_news = 0;
    for (int i = 0; i < WIRES_MAX; i++) {
        struct wire *wire = &world->s.wires[i];
        if (!wire->is_used)
            continue;
        int64_t due_ns = due_of(wire);
        if (due_ns <= world->s.now_ns)
            wires[n_wires++] = wire;
        else if (due_ns < *ret_next_ns)
            *ret_next_ns = due_ns;
    }
    for (int i = 0; i < NEWS_MAX; i++) {
        struct news *one = &world->s.news[i];
        if (one->is_used && one->at_ns <= world->s.now_ns)
            news[n_news++] = one;
        else if (one->is_used && one->at_ns < *ret_next_ns)
            *ret_next_ns = one->at_ns;
    }
    if (n_wires + n_news == 0)
        return false;
    uint64_t which = draw(n_wires + n_news);
    if (which < n_wires) {
        wire_step(wires[which]);
        return true;
    }
    struct news happens = *news[which - n_wires];
    news[which - n_wires]->is_used = false;
    news_happen(&happens);
    return true;
}
