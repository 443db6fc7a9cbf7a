/* master.c - the master's script, and the upstream that sends it: every event until it is answered, with the
 * same id, and now and then once more. */
#include "world.h"

#include <tradewake/core/event.h>
#include <tradewake/engine/engine.h>

#include <stdio.h>
#include <string.h>

/* ---- The script ---- */

enum state { NOTHING, PLACED, HELD, GONE };

struct writer {
    enum state states[POSITIONS_MAX];
    bool was_placed[POSITIONS_MAX];
    tw_decimal volumes[POSITIONS_MAX];
};

static enum script_kind next_kind(enum state state, bool was_placed, tw_decimal volume)
{
    uint64_t dice = draw(100);
    switch (state) {
    case NOTHING:
        return dice < 78 ? DO_OPEN : DO_PLACE;
    case PLACED:
        return dice < 20 ? DO_MODIFY_ORDER : dice < 55 ? DO_CANCEL : DO_TRIGGER;
    case HELD:
    case GONE:
        break;
    }
    if (dice < 8 && world->s.is_serial && (!was_placed || world->is_everything))
        return DO_INCREASE;
    if (world->is_pairs && dice < 80 && volume > STEP && world->s.is_orderly)
        return DO_PARTIAL;
    if (dice < 20)
        return DO_MODIFY;
    return dice < 50 && volume > STEP && world->s.is_orderly ? DO_PARTIAL : DO_CLOSE;
}

static void event_write(struct writer *writer, struct script_event *event, uint8_t position)
{
    enum state *state = &writer->states[position];
    tw_decimal *volume = &writer->volumes[position];
    *event = (struct script_event){.position = position, .kind = next_kind(*state, writer->was_placed[position], *volume),
                                   .due_ns = INT64_MAX};
    event->price = (tw_decimal)draw(20) * (LOT / 100);
    switch (event->kind) {
    case DO_OPEN:
    case DO_PLACE:
    case DO_INCREASE:
        event->volume = (1 + (tw_decimal)draw(chance(300) ? 4 : 200)) * STEP;
        *volume += event->volume;
        writer->was_placed[position] |= event->kind == DO_PLACE;
        *state = event->kind == DO_PLACE ? PLACED : HELD;
        break;
    case DO_TRIGGER:
        *state = HELD;
        break;
    case DO_PARTIAL:
        event->volume = (1 + (tw_decimal)draw((uint64_t)(*volume / STEP - 1))) * STEP;
        event->renames = chance(200);
        *volume -= event->volume;
        break;
    case DO_CLOSE:
    case DO_CANCEL:
        *state = GONE;
        break;
    case DO_MODIFY:
    case DO_MODIFY_ORDER:
        break;
    }
}

/* The second of two partial closes that name the same ticket and come together. */
static void partner_write(struct writer *writer, struct script_event *first, struct script_event *event)
{
    tw_decimal *volume = &writer->volumes[first->position];
    *event = *first;
    first->renames = false;
    event->is_with_last = true;
    event->price = (tw_decimal)draw(20) * (LOT / 100);
    event->volume = (1 + (tw_decimal)draw((uint64_t)(*volume / STEP - 1))) * STEP;
    *volume -= event->volume;
}

static bool has_partner(const struct writer *writer, const struct script_event *event)
{
    return world->is_pairs && event->kind == DO_PARTIAL && writer->volumes[event->position] > STEP &&
           world->s.n_events < EVENTS_MAX;
}

static int64_t gap(void)
{
    uint64_t dice = draw(100);
    if (dice < 35)
        return 0;
    if (dice < 95)
        return draw_ns(10 * TW_NS_PER_US, 5 * TW_NS_PER_S);
    return draw_ns(TW_NS_PER_S, 90 * TW_NS_PER_S);
}

void script_write(void)
{
    struct writer writer = {0};
    uint32_t n = 2 + (uint32_t)draw(8);
    bool ends_flat = chance(700);
    while (world->s.n_events < n) {
        uint8_t position = (uint8_t)draw(world->s.n_positions);
        struct script_event *event = &world->s.events[world->s.n_events];
        if (writer.states[position] == GONE) {
            n--;
            continue;
        }
        event_write(&writer, event, position);
        world->s.n_events++;
        if (has_partner(&writer, event)) {
            partner_write(&writer, event, event + 1);
            world->s.n_events++;
        }
    }
    for (uint8_t p = 0; ends_flat && p < world->s.n_positions && world->s.n_events < EVENTS_MAX; p++) {
        if (writer.states[p] != HELD && writer.states[p] != PLACED)
            continue;
        struct script_event *event = &world->s.events[world->s.n_events++];
        *event = (struct script_event){.position = p, .kind = writer.states[p] == HELD ? DO_CLOSE : DO_CANCEL,
                                       .due_ns = INT64_MAX};
    }
    int64_t due_ns = world->s.now_ns;
    for (uint32_t i = 0; i < world->s.n_events; i++) {
        struct script_event *event = &world->s.events[i];
        event->gap_ns = event->is_with_last ? 0 : gap();
        event->repeats = chance(150) ? 1 + (uint8_t)draw(2) : 0;
        due_ns += event->gap_ns;
        if (!world->s.is_serial || i == 0)
            event->due_ns = due_ns;
    }
}

/* ---- An event as a message ---- */

/* The position's ticket changes with every partial close that says so. */
static void position_name(uint32_t event, char ret[16], char ret_after[16])
{
    uint32_t renamed = 0, position = world->s.events[event].position;
    for (uint32_t i = 0; i < event; i++)
        renamed += world->s.events[i].position == position && world->s.events[i].renames;
    snprintf(ret, 16, renamed > 0 ? "p%ur%u" : "p%u", position, renamed);
    snprintf(ret_after, 16, "p%ur%u", position, renamed + 1);
}

struct texts {
    char id[16], position[16], after[16], order[16], volume[24], rest[24], price[24], stop[24];
};

static void decimal_text(tw_decimal value, char ret[24])
{
    snprintf(ret, 24, "%lld.%08lld", (long long)(value / LOT), (long long)(value % LOT));
}

static tw_decimal remaining_after(uint32_t event)
{
    tw_decimal remaining = 0;
    for (uint32_t i = 0; i <= event; i++) {
        const struct script_event *e = &world->s.events[i];
        if (e->position != world->s.events[event].position)
            continue;
        if (e->kind == DO_OPEN || e->kind == DO_PLACE || e->kind == DO_INCREASE)
            remaining += e->volume;
        else if (e->kind == DO_PARTIAL)
            remaining -= e->volume;
    }
    return remaining;
}

union action {
    Tradewake__V1__OpenPosition open;
    Tradewake__V1__ModifyPosition modify;
    Tradewake__V1__ClosePosition close;
    Tradewake__V1__PlaceOrder place;
    Tradewake__V1__ModifyOrder modify_order;
    Tradewake__V1__CancelOrder cancel;
    Tradewake__V1__TriggerOrder trigger;
};

/* Even positions are long, odd ones short; the first two share a symbol. */
static void message_fill(uint32_t number, struct texts *t, union action *a, Tradewake__V1__TradeEvent *m)
{
    const struct script_event *event = &world->s.events[number];
    bool is_long = event->position % 2 == 0;
    Tradewake__V1__Side side = is_long ? TRADEWAKE__V1__SIDE__SIDE_BUY : TRADEWAKE__V1__SIDE__SIDE_SELL;
    char *symbol = (char *)(uintptr_t)(event->position < 2 ? "EURUSD" : "XAUUSD");
    snprintf(t->id, sizeof t->id, "e%u", number);
    snprintf(t->order, sizeof t->order, "o%u", event->position);
    position_name(number, t->position, t->after);
    decimal_text(event->volume, t->volume);
    decimal_text(is_long ? LOT / 2 + event->price : 2 * LOT - event->price, t->stop);
    decimal_text(is_long ? LOT / 10 * 7 + event->price : LOT / 2 * 3 - event->price, t->price);
    decimal_text(remaining_after(number), t->rest);
    m->event_id = t->id;
    switch (event->kind) {
    case DO_OPEN:
    case DO_INCREASE:
        tradewake__v1__open_position__init(&a->open);
        a->open.position_id = t->position;
        a->open.symbol = symbol;
        a->open.side = side;
        a->open.volume = t->volume;
        a->open.increase = event->kind == DO_INCREASE;
        m->action_case = TRADEWAKE__V1__TRADE_EVENT__ACTION_OPEN;
        m->open = &a->open;
        break;
    case DO_MODIFY:
        tradewake__v1__modify_position__init(&a->modify);
        a->modify.position_id = t->position;
        a->modify.stop_loss = t->stop;
        m->action_case = TRADEWAKE__V1__TRADE_EVENT__ACTION_MODIFY;
        m->modify = &a->modify;
        break;
    case DO_PARTIAL:
    case DO_CLOSE:
        tradewake__v1__close_position__init(&a->close);
        a->close.position_id = t->position;
        if (event->kind == DO_PARTIAL && number % 2 == 0 && world->s.is_serial)
            a->close.volume = t->volume;
        else if (event->kind == DO_PARTIAL)
            a->close.remaining_volume = t->rest;
        if (event->renames)
            a->close.new_position_id = t->after;
        m->action_case = TRADEWAKE__V1__TRADE_EVENT__ACTION_CLOSE;
        m->close = &a->close;
        break;
    case DO_PLACE:
        tradewake__v1__place_order__init(&a->place);
        a->place.order_id = t->order;
        a->place.symbol = symbol;
        a->place.side = side;
        a->place.type = TRADEWAKE__V1__ORDER_TYPE__ORDER_TYPE_LIMIT;
        a->place.volume = t->volume;
        a->place.price = t->price;
        m->action_case = TRADEWAKE__V1__TRADE_EVENT__ACTION_PLACE;
        m->place = &a->place;
        break;
    case DO_MODIFY_ORDER:
        tradewake__v1__modify_order__init(&a->modify_order);
        a->modify_order.order_id = t->order;
        a->modify_order.price = t->price;
        m->action_case = TRADEWAKE__V1__TRADE_EVENT__ACTION_MODIFY_ORDER;
        m->modify_order = &a->modify_order;
        break;
    case DO_CANCEL:
        tradewake__v1__cancel_order__init(&a->cancel);
        a->cancel.order_id = t->order;
        m->action_case = TRADEWAKE__V1__TRADE_EVENT__ACTION_CANCEL;
        m->cancel = &a->cancel;
        break;
    case DO_TRIGGER:
        tradewake__v1__trigger_order__init(&a->trigger);
        a->trigger.order_id = t->order;
        a->trigger.position_id = t->position;
        m->action_case = TRADEWAKE__V1__TRADE_EVENT__ACTION_TRIGGER;
        m->trigger = &a->trigger;
        break;
    }
}

/* ---- Sending ---- */

static void on_accepted(void *context)
{
    struct script_event *event = context;
    uint32_t number = (uint32_t)(event - world->s.events);
    if (!event->is_acked)
        trace("e%u is acknowledged", number);
    bool is_first = !event->is_acked;
    event->is_acked = true;
    if (is_first && world->s.is_serial && number + 1 < world->s.n_events)
        event[1].due_ns = world->s.now_ns + event[1].gap_ns;
    if (is_first && event->repeats > 0)
        event->due_ns = world->s.now_ns + draw_ns(TW_NS_PER_US, 30 * TW_NS_PER_S);
}

static bool is_close(const struct script_event *event)
{
    return event->kind == DO_CLOSE || event->kind == DO_CANCEL;
}

static void taken_note(const struct script_event *event)
{
    struct taken *taken = &world->s.taken[event->position];
    taken->close |= is_close(event);
    taken->cancel |= event->kind == DO_CANCEL;
    taken->trigger |= event->kind == DO_TRIGGER;
}

static void send(struct tw_engine *engine, uint32_t number)
{
    static const char *const words[] = {"open", "increase", "modify", "partial close", "close", "place",
                                        "modify order", "cancel", "trigger"};
    struct script_event *event = &world->s.events[number];
    struct texts texts = {0};
    union action action;
    Tradewake__V1__TradeEvent message;
    Google__Protobuf__Timestamp observed;
    struct tw_event read;
    struct tw_refusal refusal = {0};
    struct tw_submitted submitted;
    if (event->observed_ns == 0)
        event->observed_ns = world->s.now_ns;
    event->due_ns = INT64_MAX;
    bool was_acked = event->is_acked;
    if (was_acked && event->repeats > 0)
        event->repeats--;

    tradewake__v1__trade_event__init(&message);
    google__protobuf__timestamp__init(&observed);
    int64_t observed_ns = event->observed_ns + WALL_BASE_NS;
    observed.seconds = observed_ns / TW_NS_PER_S;
    observed.nanos = (int32_t)(observed_ns % TW_NS_PER_S);
    message.observed_at = &observed;
    message.master_id = (char *)(uintptr_t)MASTER;
    message_fill(number, &texts, &action, &message);
    trace("master sends e%u: %s %s volume=%s rest=%s", number, words[event->kind],
          event->kind == DO_PLACE ? texts.order : texts.position, texts.volume, texts.rest);

    int64_t received_mono_ns = world->s.now_ns, received_wall_ns = world->s.now_ns + WALL_BASE_NS;
    if (!tw_event_read(&message, received_wall_ns, &read, &refusal))
        violation("event e%u cannot be read: %s", number, refusal.text);
    const struct tw_submission submission = {
        .event = &read, .message = &message, .trace_id = "",
        .received_mono_ns = received_mono_ns, .received_wall_ns = received_wall_ns};
    uint32_t jobs_before = machine_jobs_submitted();
    crash_point();
    if (!tw_engine_submit(engine, &submission, &submitted, &refusal))
        violation("event e%u is refused: %s", number, refusal.text);
    if (was_acked && !submitted.is_duplicate)
        violation("event e%u was acknowledged, and is taken anew", number);
    if (submitted.is_duplicate && machine_jobs_submitted() != jobs_before)
        violation("event e%u is a duplicate, and sends orders", number);
    world->totals.events++;
    world->totals.duplicates += submitted.is_duplicate;
    taken_note(event);
    world->s.life_events++;
    if (submitted.record == NULL)
        violation("event e%u is forgotten already", number);
    if (!tw_record_wait(submitted.record, TW_WAIT_ACCEPTED, on_accepted, event))
        violation("no memory");
    tw_record_release(submitted.record);
}

/* Who has no answer asks again. */
void master_life_begins(void)
{
    int64_t due_ns = world->s.now_ns;
    world->s.life_events = 0;
    for (uint32_t i = 0; i < world->s.n_events; i++) {
        struct script_event *event = &world->s.events[i];
        if (event->observed_ns != 0 && !event->is_acked)
            event->due_ns = (world->s.is_orderly ? due_ns : world->s.now_ns) + draw_ns(TW_NS_PER_MS, 5 * TW_NS_PER_S);
        if (world->s.is_orderly && event->due_ns != INT64_MAX && !event->is_acked) {
            event->due_ns = event->due_ns < due_ns ? due_ns : event->due_ns;
            due_ns = event->due_ns;
        }
    }
}

/* What was not acknowledged may be as if it had never been sent. */
void master_power_cut(void)
{
    memset(world->s.taken, 0, sizeof world->s.taken);
    for (uint32_t i = 0; i < world->s.n_events; i++)
        if (world->s.events[i].is_acked)
            taken_note(&world->s.events[i]);
}

bool master_step(struct tw_engine *engine, int64_t *ret_next_ns)
{
    for (uint32_t i = 0; i < world->s.n_events; i++) {
        int64_t due_ns = world->s.events[i].due_ns;
        if (due_ns <= world->s.now_ns) {
            send(engine, i);
            return true;
        }
        if (due_ns < *ret_next_ns)
            *ret_next_ns = due_ns;
    }
    return false;
}

bool master_is_done(void)
{
    for (uint32_t i = 0; i < world->s.n_events; i++)
        if (!world->s.events[i].is_acked)
            return false;
    return true;
}
