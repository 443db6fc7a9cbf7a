/* sequencer.c - one event of a master becomes a record with one copy per follower.
 *
 * Everything here runs on an rpc thread under the master's mutex, from the look for a duplicate to the
 * hand-over of the last chunk, so that the order of events is the order in the lanes. */
#include "state.h"

#include <tradewake/base/crash_point.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Positions ---- */

struct tw_position *position_find(struct tw_master *master, const char *id)
{
    struct tw_position *position = NULL;
    HASH_FIND_STR(master->positions, id, position);
    return position;
}

struct tw_position *order_find(struct tw_master *master, const char *id)
{
    struct tw_position *order = NULL;
    HASH_FIND_STR(master->orders, id, order);
    return order;
}

struct tw_leg *position_leg(struct tw_position *position, const struct tw_slot *slot)
{
    for (struct tw_leg_block *block = position->blocks; block != NULL; block = block->next) {
        uint32_t low = 0, high = block->n_legs;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            struct tw_leg *leg = &block->legs[middle];
            if (leg->slot == slot)
                return leg;
            if (leg->slot->number < slot->number)
                low = middle + 1;
            else
                high = middle;
        }
    }
    return NULL;
}

void position_free(struct tw_position *position)
{
    while (position->blocks != NULL) {
        struct tw_leg_block *next = position->blocks->next;
        for (uint32_t i = 0; i < position->blocks->n_legs; i++)
        {
            leg_tickets_clear(&position->blocks->legs[i]);
            slot_release(position->blocks->legs[i].slot);
        }
        free(position->blocks);
        position->blocks = next;
    }
    free(position->pending);
    free(position);
}

/* Positions and orders have tables of their own: their ids may be the same. */
void position_hash(struct tw_position *position, bool is_order)
{
    struct tw_master *master = position->master;
    position->is_order = is_order;
    if (is_order)
        HASH_ADD_STR(master->orders, id, position);
    else
        HASH_ADD_STR(master->positions, id, position);
    position->is_hashed = true;
}

void position_unhash(struct tw_position *position)
{
    struct tw_master *master = position->master;
    if (position->is_hashed && position->is_order)
        HASH_DEL(master->orders, position);
    else if (position->is_hashed)
        HASH_DEL(master->positions, position);
    position->is_hashed = false;
}

static struct tw_position *position_new(struct tw_master *master, const char *id, bool is_order)
{
    struct tw_position *position = calloc(1, sizeof *position);
    if (position == NULL)
        return NULL;
    snprintf(position->id, sizeof position->id, "%s", id);
    position->master = master;
    position->number = atomic_fetch_add_explicit(&master->engine->next_position, 1, memory_order_relaxed);
    position_hash(position, is_order);
    return position;
}

static uint32_t position_legs(const struct tw_position *position)
{
    uint32_t n = 1; /* the position itself costs about as much as a leg */
    for (const struct tw_leg_block *block = position->blocks; block != NULL; block = block->next)
        n += block->n_legs;
    return n;
}

/* Forgets what has been closed longest, until no more is remembered than copies are. What a copy still
 * works on stays. Only when an event is planned and written: until then positions are in use that nothing
 * tells of. */
static void positions_forget(struct tw_master *master)
{
    struct tw_engine *engine = master->engine;
    while (master->closed_oldest != NULL && master->closed_oldest != master->closed_newest &&
           atomic_load_explicit(&engine->legs_remembered, memory_order_relaxed) >
               engine->copies_remembered) {
        struct tw_position *oldest = master->closed_oldest;
        if (atomic_load_explicit(&oldest->busy, memory_order_acquire) > 0)
            return;
        master->closed_oldest = oldest->closed_next;
        atomic_fetch_sub_explicit(&engine->legs_remembered, position_legs(oldest),
                                  memory_order_relaxed);
        position_unhash(oldest);
        position_free(oldest);
    }
}

/* The master holds nothing of it any more, or it never opened it (a mark). */
void position_remember(struct tw_position *position)
{
    struct tw_master *master = position->master;
    if (master->closed_newest != NULL && master->closed_oldest != NULL)
        master->closed_newest->closed_next = position;
    else
        master->closed_oldest = position;
    master->closed_newest = position;
    atomic_fetch_add_explicit(&master->engine->legs_remembered, position_legs(position),
                              memory_order_relaxed);
}

void position_finish(struct tw_position *position)
{
    assert(position->state == POSITION_OPEN);
    position->state = POSITION_CLOSED;
    position->remaining = 0;
    if (!position->is_order)
        position->master->open_positions--;
    position_remember(position);
}

static size_t leg_block_size(uint32_t n_legs_max)
{
    return sizeof(struct tw_leg_block) + n_legs_max * sizeof(struct tw_leg);
}

struct tw_leg_block *leg_block_new(struct tw_position *position, uint32_t n_legs_max)
{
    struct tw_leg_block *block = spares_take(&position->master->engine->spares, leg_block_size(n_legs_max));
    if (block == NULL)
        return NULL;
    block->next = position->blocks;
    position->blocks = block;
    return block;
}

/* ---- Records ---- */

static size_t record_size(uint32_t n_copies)
{
    return sizeof(struct tw_record) + n_copies * sizeof(struct tw_copy);
}

void master_events_expect(struct tw_master *master, uint32_t n_members)
{
    spares_expect(&master->engine->spares, record_size(n_members));
    spares_expect(&master->engine->spares, leg_block_size(n_members));
}

struct tw_record *record_new(struct tw_master *master, const char *event_id, uint32_t n_copies)
{
    struct tw_record *record = spares_take(&master->engine->spares, record_size(n_copies));
    if (record == NULL)
        return NULL;
    record->engine = master->engine;
    record->master = master;
    record->n_copies = n_copies;
    snprintf(record->event_id, sizeof record->event_id, "%s", event_id);
    pthread_mutex_init(&record->mutex, NULL);
    /* One for the caller. The history's is taken in record_enter(), a copy's when it is submitted.
     * One more than the copies is pending until planning is over. */
    atomic_init(&record->refs, 1);
    atomic_init(&record->pending_sent, n_copies + 1);
    atomic_init(&record->pending_done, n_copies + 1);
    return record;
}

/* Under the history's mutex. */
void history_link(struct tw_engine *engine, struct tw_record *record)
{
    record->is_in_history = true;
    record->older = engine->history.newest;
    if (engine->history.newest != NULL)
        engine->history.newest->newer = record;
    else
        engine->history.oldest = record;
    engine->history.newest = record;
    engine->history.n_copies += record->n_copies;
}

void record_enter(struct tw_record *record)
{
    struct tw_engine *engine = record->engine;
    tw_record_hold(record);
    pthread_mutex_lock(&engine->history.mutex);
    record->number = engine->history.next_number++;
    history_link(engine, record);
    pthread_mutex_unlock(&engine->history.mutex);
}

/* Copies at the end that were never made are not freed with the rest. */
void record_copies_trim(struct tw_record *record)
{
    while (record->n_copies > 0 && record->copies[record->n_copies - 1].subscription == NULL)
        record->n_copies--;
}

/* ---- Planning ---- */

enum { TOUCHED_MAX = 6 };

/* So long after a start that followed a power loss, an open from before it may have been sent already:
 * the log may have lost what the broker has. */
#define ASKS_FIRST_NS (600 * TW_NS_PER_S)

struct planning {
    struct tw_engine *engine;
    struct tw_master *master;
    const struct tw_event *event;
    struct tw_record *record;
    struct tw_subscription **members; /* one per copy */
    struct tw_position *position;  /* NULL = the master has no such position, or order */
    const struct pending *order;   /* a trigger's: what filled; NULL = the master placed no such order */
    struct tw_event as_market;     /* a trigger's market order, as an event */
    struct tw_leg_block *new_legs; /* room for an open's */
    struct tw_position *touched[TOUCHED_MAX]; /* what is written down with the event */
    uint32_t n_touched;
    int64_t now_wall_ns;
    bool is_full_close;
    bool is_closed_already; /* its close came before it, and there may be something to be closed */
    bool meets_refused;     /* somebody has a change of stops that is tried again */
    /* Decides one copy: leaves it QUEUED and ready, or ends it with a reason. */
    void (*plan_one)(struct planning *planning, struct tw_copy *copy);
};

static void touch(struct planning *p, struct tw_position *position)
{
    for (uint32_t i = 0; i < p->n_touched; i++)
        if (p->touched[i] == position)
            return;
    assert(p->n_touched < TOUCHED_MAX);
    p->touched[p->n_touched++] = position;
}

static void plan_skip(struct tw_copy *copy, copy_action action, copy_state state, tw_reason reason)
{
    copy->action = (uint8_t)action;
    copy_end_unsent(copy, state, reason);
}

/* Orders keep their order by position, on netting accounts by symbol. */
uint64_t leg_key(const struct tw_leg *leg)
{
    return leg->slot->caps.netting ? (uint64_t)(uintptr_t)leg->listing : leg->number;
}

static struct tw_leg *leg_new(struct planning *p, struct tw_copy *copy, const struct tw_plan *plan)
{
    struct tw_slot *slot = copy->subscription->slot;
    const struct tw_rules *rules = &copy->subscription->rules;
    struct tw_leg *leg = &p->new_legs->legs[p->new_legs->n_legs++];
    slot_hold(slot);
    *leg = (struct tw_leg){
        .number = atomic_fetch_add_explicit(&p->engine->next_leg, 1, memory_order_relaxed),
        .slot = slot,
        .position = p->position,
        .listing = plan->listing,
        .side = plan->side,
        .is_reversed = rules->reverse,
        .is_from_order = p->event->type != TW_ORDER_MARKET,
        .order_type = plan->type,
        .ignores_stop_loss = rules->ignore_stop_loss,
        .ignores_take_profit = rules->ignore_take_profit,
        .next = slot->legs,
    };
    leg->key = leg_key(leg);
    if (slot->legs != NULL)
        slot->legs->previous = leg;
    slot->legs = leg;
    slot->open_positions++;
    atomic_fetch_add_explicit(&leg->position->busy, 1, memory_order_relaxed);
    return leg;
}

void view_fill(const struct tw_master *master, const struct tw_subscription *subscription,
               struct tw_follower_view *ret)
{
    const struct tw_slot *slot = subscription->slot;
    *ret = (struct tw_follower_view){
        .follower = &slot->rules,
        .rules = &subscription->rules,
        .market = &slot->market,
        .account = &slot->account,
        .master_account = master->has_account ? &master->account : NULL,
        .is_halted = subscription_is_halted(subscription),
        .is_leaving = subscription->is_leaving || slot->is_deleted,
        .is_stopped_out = slot->stop_out.is_out,
        .is_breaker_open = breaker_blocks(slot),
        .wait_ns = slot->lane != NULL ? tw_lane_wait_ns(slot->lane, master->tenant) : 0,
        .open_positions = slot->open_positions,
    };
}

/* leg: what the event adds to, or NULL. */
void view_of_leg(struct tw_follower_view *view, const struct tw_leg *leg)
{
    view->is_first = leg == NULL;
    if (leg == NULL)
        return;
    view->held_listing = leg->listing;
    view->held_is_reversed = leg->is_reversed;
}

bool may_miss_events(const struct tw_engine *engine, int64_t now_wall_ns)
{
    return engine->power_lost_wall_ns != 0 && now_wall_ns < engine->power_lost_wall_ns + ASKS_FIRST_NS;
}

/* Whether the event may have been carried out by a run whose log the power cut took. */
static bool may_be_known(const struct planning *p)
{
    return may_miss_events(p->engine, p->now_wall_ns) && p->event->observed_wall_ns < p->engine->power_lost_wall_ns;
}

static void plan_one_open(struct planning *p, struct tw_copy *copy)
{
    struct tw_subscription *subscription = copy->subscription;
    struct tw_slot *slot = subscription->slot;
    struct tw_leg *leg = NULL;
    bool is_increase = p->new_legs == NULL;
    risk_expire(slot, p->now_wall_ns);
    if (is_increase || p->position->blocks->next != NULL) { /* it is, or may be, there already */
        leg = position_leg(p->position, slot);
        if (leg != NULL && leg->is_closed && !is_increase)
            leg = NULL;
        bool is_waiting = leg != NULL && leg->is_pending; /* nothing of it is held yet: there is nothing to add to */
        if (is_increase && (leg == NULL || leg->is_closed || is_waiting)) {
            plan_skip(copy, ACTION(OPEN), STATE(SKIPPED),
                      leg != NULL && !is_waiting ? REASON(ALREADY_CLOSED) : REASON(NO_COPY_TO_ACT_ON));
            return;
        }
    }
    struct tw_follower_view view;
    struct tw_plan plan;
    view_fill(p->master, subscription, &view);
    view_of_leg(&view, leg);
    /* What may have been sent in time is not too old to be asked for. */
    if (may_be_known(p))
        view.wait_ns = 0;
    tw_plan_open(p->event, &view, may_be_known(p) ? p->event->observed_wall_ns : p->now_wall_ns, &plan);
    copy_plan_set(copy, &plan);
    if (plan.state != STATE(QUEUED)) {
        copy_end_unsent(copy, plan.state, plan.reason);
        return;
    }
    if (leg == NULL)
        leg = leg_new(p, copy, &plan);
    leg->wanted += plan.volume;
    leg->listing->open_volume += plan.volume;
    copy->window_end_wall_ns = tw_plan_window_end(p->event, &subscription->rules);
    if (!slot->is_connected)
        copy->reason = REASON(NO_CONNECTION);
    copy_ready(copy, leg, false);
    if (may_be_known(p))
        copy_ask_first(copy);
}

static void plan_one_marked(struct planning *p, struct tw_copy *copy)
{
    plan_skip(copy, p->event->kind == TW_EVENT_PLACE ? ACTION(PLACE) : ACTION(OPEN), STATE(SKIPPED),
              REASON(ALREADY_CLOSED));
}

/* What a queued reduction waits for right now; for the answer, the gate decides again. */
static tw_reason waits_for(const struct tw_slot *slot)
{
    switch (slot->rules.mode) {
    case TW_MODE_PAUSED:
        return REASON(FOLLOWER_PAUSED);
    case TW_MODE_MONITOR:
        return REASON(MONITORED);
    default:
        return slot->is_connected ? REASON(UNSPECIFIED) : REASON(NO_CONNECTION);
    }
}

static struct tw_close_decision close_now(const struct tw_leg *leg, bool is_full)
{
    const struct tw_close_input input = {
        .filled = leg->filled,
        .held = leg->held,
        .is_full = is_full,
        .master_remaining = leg->position->remaining,
        .master_initial = leg->position->initial,
        .volume_min = leg->listing->instrument.volume_min,
        .volume_step = leg->listing->instrument.volume_step,
    };
    return tw_close_decide(&input);
}

static void close_ready(struct tw_copy *copy, struct tw_leg *leg, bool is_full, tw_decimal volume,
                        copy_action action)
{
    copy->action = (uint8_t)action;
    copy->op = TW_OP_CLOSE;
    copy->side = (uint8_t)tw_side_opposite(leg->side);
    copy->type = TW_ORDER_MARKET;
    copy->volume = volume;
    copy->is_full_close = is_full;
    copy->master_remaining = is_full ? 0 : leg->position->remaining;
    copy->master_initial = leg->position->initial;
    copy->reason = (uint8_t)waits_for(leg->slot);
    leg->is_close_planned |= is_full;
    copy_ready(copy, leg, true);
}

static void plan_one_close(struct planning *p, struct tw_copy *copy)
{
    copy_action action = p->is_full_close ? ACTION(CLOSE) : ACTION(PARTIAL_CLOSE);
    struct tw_leg *leg = p->position != NULL ? position_leg(p->position, copy->subscription->slot) : NULL;
    if (leg == NULL) {
        plan_skip(copy, action, STATE(SKIPPED), REASON(NO_COPY_TO_ACT_ON));
        return;
    }
    copy->listing = leg->listing;
    copy->symbol = leg->listing->instrument.symbol;
    copy->side = (uint8_t)tw_side_opposite(leg->side);
    copy->master_remaining = p->is_full_close ? 0 : p->position->remaining;
    copy->master_initial = p->position->initial;
    if (leg->is_closed && leg->jobs == 0) { /* what adds to it may be at the broker still */
        if (leg->was_open)
            plan_skip(copy, action, STATE(DONE), REASON(ALREADY_CLOSED));
        else
            plan_skip(copy, action, STATE(SKIPPED), REASON(NO_COPY_TO_ACT_ON));
        return;
    }
    if (leg->is_pending && !p->is_full_close) { /* it is reduced when it fills: settle.c */
        plan_skip(copy, action, STATE(SKIPPED), REASON(NO_CHANGE));
        return;
    }
    struct tw_close_decision decision = close_now(leg, p->is_full_close);
    if (decision.volume == 0 && leg->jobs == 0 && !leg->is_pending) {
        plan_skip(copy, action, STATE(SKIPPED), decision.reason);
        return;
    }
    copy->price = p->event->price;
    close_ready(copy, leg, p->is_full_close,
                decision.volume > 0 ? decision.volume : leg->wanted, action);
    if (may_be_known(p)) {
        copy->is_counted = leg->is_mended;
        copy_ask_first(copy);
    }
}

/* The change before this one has not been sent: it gives way, and what only it said is kept. */
static bool supersede_match(struct tw_job *job, void *context)
{
    if (job != context)
        return false;
    struct tw_copy *copy = (struct tw_copy *)job;
    atomic_store_explicit(&copy->withdrawn_for, REASON(SUPERSEDED), memory_order_release);
    return true;
}

static void supersede(struct tw_slot *slot, struct tw_leg *leg, struct tw_copy *copy)
{
    pthread_mutex_lock(&slot->mutex);
    struct tw_copy *before = leg->unsent_modify;
    if (before != NULL)
        tw_record_hold(before->record);
    pthread_mutex_unlock(&slot->mutex);
    if (before == NULL)
        return;

    if (tw_lane_cancel(slot->lane, supersede_match, &before->job) == 1) {
        if (copy->stop_loss == TW_DECIMAL_UNSET)
            copy->stop_loss = before->stop_loss;
        if (copy->take_profit == TW_DECIMAL_UNSET)
            copy->take_profit = before->take_profit;
    }
    tw_record_release(before->record);
}

/* Stops as the follower has them: turned for a reversed copy, without what it ignores. */
static void modify_turn(const struct tw_event *event, const struct tw_leg *leg, struct tw_copy *copy)
{
    copy->stop_loss = leg->is_reversed ? event->take_profit : event->stop_loss;
    copy->take_profit = leg->is_reversed ? event->stop_loss : event->take_profit;
    if (leg->ignores_stop_loss)
        copy->stop_loss = TW_DECIMAL_UNSET;
    if (leg->ignores_take_profit)
        copy->take_profit = TW_DECIMAL_UNSET;
}

static tw_reason modify_refused_now(const struct tw_copy *copy, struct tw_leg *leg)
{
    tw_decimal stop_loss, take_profit;
    if (!leg_stops_decide(leg, copy, &stop_loss, &take_profit)) {
        leg_own_stops(leg, copy);
        return REASON(NO_CHANGE);
    }
    if ((stop_loss == TW_DECIMAL_UNSET || stop_loss == leg->stop_loss) &&
        (take_profit == TW_DECIMAL_UNSET || take_profit == leg->take_profit))
        return REASON(NO_CHANGE);
    if (tw_stops_tighten(leg->side, leg->stop_loss, leg->take_profit, stop_loss, take_profit))
        return REASON(UNSPECIFIED);
    if (subscription_is_halted(copy->subscription))
        return REASON(HALTED);
    switch (leg->slot->rules.mode) {
    case TW_MODE_CLOSE_ONLY:
        return REASON(CLOSE_ONLY);
    case TW_MODE_PAUSED:
        return REASON(FOLLOWER_PAUSED);
    case TW_MODE_MONITOR:
        return REASON(MONITORED);
    case TW_MODE_ACTIVE:
        break;
    }
    return REASON(UNSPECIFIED);
}

/* Takes and leaves the slot's mutex itself: superseding must not hold it. */
static void plan_one_modify(struct planning *p, struct tw_copy *copy)
{
    struct tw_slot *slot = copy->subscription->slot;
    struct tw_leg *leg = p->position != NULL ? position_leg(p->position, slot) : NULL;
    if (leg == NULL) {
        plan_skip(copy, ACTION(MODIFY), STATE(SKIPPED), REASON(NO_COPY_TO_ACT_ON));
        return;
    }
    copy->action = ACTION(MODIFY);
    copy->op = TW_OP_MODIFY;
    modify_turn(p->event, leg, copy);
    supersede(slot, leg, copy);

    pthread_mutex_lock(&slot->mutex);
    copy->listing = leg->listing;
    copy->symbol = leg->listing->instrument.symbol;
    copy->side = (uint8_t)leg->side;
    tw_reason refused = REASON(UNSPECIFIED);
    if (leg->is_closed)
        refused = leg->was_open ? REASON(ALREADY_CLOSED) : REASON(NO_COPY_TO_ACT_ON);
    else if (leg->jobs == 0)
        refused = modify_refused_now(copy, leg);
    if (refused != REASON(UNSPECIFIED)) {
        copy_end_unsent(copy, STATE(SKIPPED), refused);
    } else {
        copy->reason = (uint8_t)waits_for(slot);
        copy_ready(copy, leg, true);
        leg->unsent_modify = copy;
    }
    pthread_mutex_unlock(&slot->mutex);
}

/* A change of an order this follower has no order for: skipped by its policy, or never placed. */
static void plan_no_order(const struct planning *p, struct tw_copy *copy, copy_action action)
{
    bool places = copy->subscription->rules.pending == TW_PENDING_COPY;
    (void)p;
    plan_skip(copy, action, STATE(SKIPPED),
              places ? REASON(NO_COPY_TO_ACT_ON) : REASON(PENDING_SKIPPED));
}

static void show_leg(struct tw_copy *copy, const struct tw_leg *leg)
{
    copy->listing = leg->listing;
    copy->symbol = leg->listing->instrument.symbol;
}

/* The stops of a waiting order keep their distance from the price that it will have. */
static void order_stops_decide(const struct pending *pending, const struct tw_leg *leg, struct tw_copy *copy)
{
    tw_decimal price = copy->price, stop_price = copy->stop_price;
    if (price == TW_DECIMAL_UNSET && leg->is_pending) {
        price = leg->order_price;
    } else if (price == TW_DECIMAL_UNSET && pending != NULL) {
        price = pending->price;
        tw_pending_prices(&leg->listing->instrument, leg->side, leg->order_type, &price, &stop_price);
    }
    if (price == TW_DECIMAL_UNSET)
        return;
    const struct tw_stops_input input = {
        .stop_loss = copy->stop_loss, /* turned already */
        .take_profit = copy->take_profit,
        .side = leg->side,
        .listing = leg->listing,
        .pending_price = price,
    };
    tw_stops_decide(&input, &copy->stop_loss, &copy->take_profit);
}

static void plan_one_modify_order(struct planning *p, struct tw_copy *copy)
{
    struct tw_leg *leg = p->position != NULL ? position_leg(p->position, copy->subscription->slot) : NULL;
    if (leg == NULL) {
        plan_no_order(p, copy, ACTION(MODIFY_ORDER));
        return;
    }
    show_leg(copy, leg);
    copy->side = (uint8_t)leg->side;
    if (leg->is_closed || (!leg->is_pending && leg->jobs == 0)) {
        plan_skip(copy, ACTION(MODIFY_ORDER), STATE(SKIPPED), REASON(NO_CHANGE));
        return;
    }
    copy->action = ACTION(MODIFY_ORDER);
    copy->op = TW_OP_MODIFY_ORDER;
    copy->type = (uint8_t)leg->order_type;
    copy->price = p->event->price;
    copy->stop_price = p->event->stop_price;
    copy->expires_wall_ns = p->event->expires_wall_ns;
    modify_turn(p->event, leg, copy);
    tw_pending_prices(&leg->listing->instrument, leg->side, leg->order_type, &copy->price,
                      &copy->stop_price);
    order_stops_decide(p->position->pending, leg, copy);
    copy->reason = (uint8_t)waits_for(leg->slot);
    copy_ready(copy, leg, false);
}

static void plan_one_cancel(struct planning *p, struct tw_copy *copy)
{
    struct tw_leg *leg = p->position != NULL ? position_leg(p->position, copy->subscription->slot) : NULL;
    if (leg == NULL) {
        plan_no_order(p, copy, ACTION(CANCEL));
        return;
    }
    show_leg(copy, leg);
    copy->side = (uint8_t)tw_side_opposite(leg->side);
    if (leg->is_closed) {
        plan_skip(copy, ACTION(CANCEL), leg->was_open ? STATE(DONE) : STATE(SKIPPED),
                  leg->was_open ? REASON(ALREADY_CLOSED) : REASON(NO_CHANGE));
        return;
    }
    copy->action = ACTION(CANCEL);
    copy->op = TW_OP_CANCEL;
    copy->type = TW_ORDER_MARKET; /* should what it became have to be closed */
    copy->is_full_close = true;
    copy->volume = leg->wanted;
    copy->reason = (uint8_t)waits_for(leg->slot);
    leg->is_close_planned = true;
    copy_ready(copy, leg, true);
    if (may_be_known(p)) /* it may have become a close */
        copy_ask_first(copy);
}

/* The master's order filled. Here it fills by itself, is bought at the market, or is left alone. */
static void plan_one_trigger(struct planning *p, struct tw_copy *copy)
{
    struct tw_slot *slot = copy->subscription->slot;
    struct tw_leg *leg = position_leg(p->position, slot);
    enum tw_pending_policy policy = copy->subscription->rules.pending;
    if (leg != NULL && leg->is_from_order) {
        show_leg(copy, leg);
        copy->side = (uint8_t)leg->side;
        plan_skip(copy, ACTION(LINK), STATE(DONE), REASON(UNSPECIFIED));
    } else if (policy == TW_PENDING_COPY) {
        plan_skip(copy, ACTION(LINK), STATE(SKIPPED), REASON(NO_COPY_TO_ACT_ON));
    } else if (policy == TW_PENDING_SKIP) {
        plan_skip(copy, ACTION(OPEN), STATE(SKIPPED), REASON(PENDING_SKIPPED));
    } else if (p->is_closed_already) {
        plan_skip(copy, ACTION(OPEN), STATE(SKIPPED), REASON(ALREADY_CLOSED));
    } else if (p->order == NULL) {
        plan_skip(copy, ACTION(OPEN), STATE(SKIPPED), REASON(MISSING_SPEC));
    } else {
        plan_one_open(p, copy);
    }
}

static void plan_copy(struct planning *p, struct tw_copy *copy)
{
    if (p->plan_one == plan_one_modify) {
        plan_one_modify(p, copy);
        return;
    }
    struct tw_slot *slot = copy->subscription->slot;
    bool meets_refused = atomic_load_explicit(&slot->stops_refused, memory_order_relaxed) > 0;
    struct tw_leg *leg = meets_refused && p->plan_one == plan_one_close && p->is_full_close && p->position != NULL
                             ? position_leg(p->position, slot)
                             : NULL;
    p->meets_refused |= meets_refused;
    if (leg != NULL)
        copy_refused_withdraw(leg);
    pthread_mutex_lock(&slot->mutex);
    p->plan_one(p, copy);
    pthread_mutex_unlock(&slot->mutex);
}

/* Copies and the legs they work on; the legs of what is on its way already may change meanwhile. */
static void put_plan(struct state_out *out, struct tw_record *record, uint32_t from, uint32_t until)
{
    state_put_u(out, record->number);
    state_put_u(out, until - from);
    for (uint32_t i = from; i < until; i++) {
        struct tw_copy *copy = &record->copies[i];
        struct tw_slot *slot = copy->subscription->slot;
        pthread_mutex_lock(&slot->mutex);
        state_stamp(copy, copy->leg);
        state_put_copy(out, copy);
        state_put_u(out, copy->leg != NULL);
        if (copy->leg != NULL)
            state_put_leg(out, copy->leg);
        pthread_mutex_unlock(&slot->mutex);
    }
}

/* The event, what it made of the master's books, and the first copies, as one record: they are there
 * together or not at all. */
static void put_whole_event(struct state_out *out, struct tw_record *record,
                            struct tw_position *const *touched, uint32_t n_touched, uint32_t until)
{
    state_put_event(out, record);
    state_put_u(out, n_touched);
    for (uint32_t i = 0; i < n_touched; i++)
        state_put_position(out, touched[i]);
    put_plan(out, record, 0, until);
}

static void chunk_write(struct planning *p, uint32_t from, uint32_t until)
{
    struct state_out *writing = state_out_here();
    if (from == 0)
        put_whole_event(writing, p->record, p->touched, p->n_touched, until);
    else
        put_plan(writing, p->record, from, until);
    p->record->durable_sequence =
        log_append(p->engine, from == 0 ? STATE_EVENT : STATE_PLAN, writing);
}

/* Followers lie all over the memory: what planning one of them reads first is on its way while those before it are
 * planned. Only what may be looked at without the slot's lock; the addresses, not what is there. */
static void fetch_ahead(const struct planning *p, uint32_t i, uint32_t until)
{
    if (i + 2 * TW_PLAN_AHEAD < until)
        __builtin_prefetch(p->members[i + 2 * TW_PLAN_AHEAD]);
    if (i + TW_PLAN_AHEAD >= until)
        return;
    const struct tw_subscription *member = p->members[i + TW_PLAN_AHEAD];
    const struct tw_follower_view view = {.follower = &member->slot->rules,
                                          .rules = &member->rules,
                                          .market = &member->slot->market,
                                          .account = &member->slot->account};
    __builtin_prefetch(&member->slot->mutex, 1);
    __builtin_prefetch(&member->slot->legs, 1);
    tw_plan_prefetch(p->event, 0, &view, 0);
}

/* What has been submitted does not wait behind changes that are tried again. The copies are the record's, whose master's
 * lock is held. */
static void refused_step_back(const struct planning *p, uint32_t from, uint32_t until)
{
    for (uint32_t i = from; i < until; i++) {
        const struct tw_copy *copy = &p->record->copies[i];
        if (!copy->is_skipped && copy->op != TW_OP_MODIFY)
            copy_refused_step_back(copy->subscription->slot, copy->job.key);
    }
}

/* One chunk: plan, append, submit. */
static void plan_chunk(struct planning *p, uint32_t from, uint32_t until)
{
    struct tw_record *record = p->record;
    struct tw_job *jobs[TW_PLAN_CHUNK];
    size_t n_jobs = 0;
    for (uint32_t i = from; i < until; i++) {
        struct tw_copy *copy = &record->copies[i];
        fetch_ahead(p, i, until);
        copy_init(copy, record, p->members[i]);
        plan_copy(p, copy);
        if (copy->is_skipped)
            continue;
        jobs[n_jobs++] = &copy->job;
    }
    uint32_t n_skipped = until - from - (uint32_t)n_jobs;
    record->skipped += n_skipped;
    record->accepted += (uint32_t)n_jobs;
    atomic_fetch_sub_explicit(&record->pending_sent, n_skipped, memory_order_relaxed);
    atomic_fetch_sub_explicit(&record->pending_done, n_skipped, memory_order_relaxed);
    atomic_fetch_add_explicit(&record->refs, (unsigned)n_jobs, memory_order_relaxed);

    int64_t now_wall_ns = tw_wall_ns();
    uint32_t planned_ns = (uint32_t)(tw_mono_ns() - record->received_mono_ns);
    for (uint32_t i = from; i < until; i++) {
        struct tw_copy *copy = &record->copies[i];
        copy->planned_ns = copy->journaled_ns = planned_ns;
        copy->updated_wall_ns = now_wall_ns;
        copy->is_change_queued = true; /* nobody else sees it yet */
    }
    if (p->engine->log != NULL) {
        chunk_write(p, from, until);
        tw_crash_point("sequencer.written");
        uint32_t journaled_ns = (uint32_t)(tw_mono_ns() - record->received_mono_ns);
        for (uint32_t i = from; i < until; i++)
            record->copies[i].journaled_ns = journaled_ns;
    }
    atomic_store_explicit(&record->n_planned, until, memory_order_release);
    for (uint32_t i = from; i < until; i++)
        change_push(&record->copies[i]);
    tw_executor_submit(p->engine->executor, jobs, n_jobs);
    if (p->meets_refused)
        refused_step_back(p, from, until);
    tw_crash_point("sequencer.sent");
    tw_crash_point_if(until < record->n_copies, "sequencer.between_chunks");
    tw_crash_point_if(until < record->n_copies && p->is_full_close, "sequencer.between_chunks_of_a_close");
}

static void plan_all(struct planning *p, uint32_t from)
{
    struct tw_record *record = p->record;
    for (; from < record->n_copies; from += TW_PLAN_CHUNK) {
        uint32_t until = from + TW_PLAN_CHUNK;
        plan_chunk(p, from, until < record->n_copies ? until : record->n_copies);
    }
    record_await_durable(record);
    atomic_fetch_sub_explicit(&record->pending_sent, 1, memory_order_acq_rel);
    atomic_fetch_sub_explicit(&record->pending_done, 1, memory_order_acq_rel);
}

/* ---- The event at the master ---- */

static bool legs_make(struct planning *p)
{
    p->new_legs = leg_block_new(p->position, p->master->n_members);
    return p->new_legs != NULL;
}

/* A mark, or what was closed under this id, gives way. True: it was a mark, and this open is too late. But
 * what a run before the power cut may have opened is asked for, and closed. */
static bool gives_way(struct planning *p)
{
    struct tw_position *position = p->position;
    if (position == NULL)
        return false;
    p->is_closed_already = position->state == POSITION_MARK && may_be_known(p);
    if (position->state == POSITION_MARK && !p->is_closed_already) {
        position->state = POSITION_CLOSED;
        p->plan_one = plan_one_marked;
        return true;
    }
    position_unhash(position); /* closed, and the id is used again */
    touch(p, position);
    return false;
}

static bool prepare_open(struct planning *p)
{
    const struct tw_event *event = p->event;
    bool adds = p->position != NULL && p->position->state == POSITION_OPEN; /* checked: it says so */
    if (!adds) {
        if (gives_way(p))
            return true;
        p->position = position_new(p->master, event->position_id, false);
        if (p->position == NULL || !legs_make(p))
            return false;
        p->master->open_positions++;
    }
    p->position->initial += event->volume;
    p->position->remaining += event->volume;
    p->plan_one = plan_one_open;
    return true;
}

static bool prepare_place(struct planning *p)
{
    const struct tw_event *event = p->event;
    if (gives_way(p))
        return true;
    struct tw_position *order = p->position = position_new(p->master, event->order_id, true);
    if (order == NULL || !legs_make(p))
        return false;
    order->pending = calloc(1, sizeof *order->pending);
    if (order->pending == NULL)
        return false;
    *order->pending = (struct pending){
        .side = event->side, .type = event->type, .price = event->price,
        .stop_price = event->stop_price, .stop_loss = event->stop_loss,
        .take_profit = event->take_profit, .contract_size = event->contract_size,
        .magic = event->magic, .expires_wall_ns = event->expires_wall_ns,
    };
    snprintf(order->pending->symbol, sizeof order->pending->symbol, "%s", event->symbol);
    order->initial = order->remaining = event->volume;
    p->plan_one = plan_one_open;
    return true;
}

static void change_if_set(tw_decimal *field, tw_decimal value)
{
    if (value != TW_DECIMAL_UNSET)
        *field = value;
}

static bool prepare_modify_order(struct planning *p)
{
    const struct tw_event *event = p->event;
    p->plan_one = plan_one_modify_order;
    if (p->position == NULL || p->position->pending == NULL)
        return true;
    struct pending *pending = p->position->pending;
    change_if_set(&pending->price, event->price);
    change_if_set(&pending->stop_price, event->stop_price);
    change_if_set(&pending->stop_loss, event->stop_loss);
    change_if_set(&pending->take_profit, event->take_profit);
    if (event->expires_wall_ns >= 0)
        pending->expires_wall_ns = event->expires_wall_ns;
    return true;
}

/* It is over, and was never placed: a place that comes later is too late. */
static bool mark_order(struct planning *p, const char *order_id)
{
    struct tw_position *mark = position_new(p->master, order_id, true);
    if (mark == NULL)
        return false;
    mark->state = POSITION_MARK;
    touch(p, mark);
    position_remember(mark);
    return true;
}

static bool prepare_cancel(struct planning *p)
{
    p->plan_one = plan_one_cancel;
    if (p->position != NULL)
        return true;
    return mark_order(p, p->event->order_id);
}

static void finish_cancel(struct planning *p)
{
    if (p->position != NULL && p->position->state == POSITION_OPEN)
        position_finish(p->position);
}

/* The market order that a trigger stands for: the master's order as last changed. */
static void trigger_event(struct planning *p, const struct tw_event *trigger, tw_decimal volume)
{
    const struct pending *order = p->order;
    p->as_market = *trigger;
    p->as_market.type = TW_ORDER_MARKET;
    p->as_market.symbol = order->symbol;
    p->as_market.side = order->side;
    p->as_market.volume = volume;
    p->as_market.stop_loss = order->stop_loss;
    p->as_market.take_profit = order->take_profit;
    p->as_market.contract_size = order->contract_size;
    p->as_market.magic = order->magic;
    p->as_market.price = trigger->price != TW_DECIMAL_UNSET ? trigger->price : order->price;
    p->event = &p->as_market;
}

/* What is left of an order that filled: known, so that a later trigger or cancel of it is understood,
 * but without copies: they are the position's now. */
static bool order_rest(struct planning *p, struct tw_position *order, tw_decimal volume)
{
    struct tw_position *rest = position_new(p->master, order->id, true);
    if (rest == NULL)
        return false;
    rest->pending = malloc(sizeof *rest->pending);
    if (rest->pending == NULL)
        return false;
    *rest->pending = *order->pending;
    rest->initial = order->initial;
    rest->remaining = order->remaining > volume ? order->remaining - volume : 0;
    rest->observed_wall_ns = order->observed_wall_ns;
    p->order = rest->pending;
    touch(p, rest);
    if (rest->remaining == 0)
        position_finish(rest);
    return true;
}

/* The position that a trigger opens: the order's copies become its copies. */
static struct tw_position *trigger_position(struct planning *p, struct tw_position *order,
                                            const char *id, tw_decimal volume)
{
    struct tw_position *position = position_find(p->master, id);
    if (position != NULL && position->state == POSITION_OPEN)
        return position; /* another part of the same order */
    if (position != NULL) {
        p->is_closed_already = position->state == POSITION_MARK;
        position_unhash(position);
        touch(p, position);
    }
    p->master->open_positions++;
    if (order == NULL || order->state != POSITION_OPEN || order->blocks == NULL)
        return position_new(p->master, id, false);
    position_unhash(order);
    if (!order_rest(p, order, volume))
        return NULL;
    snprintf(order->id, sizeof order->id, "%s", id);
    order->initial = order->remaining = 0;
    position_hash(order, false);
    return order;
}

static bool prepare_trigger(struct planning *p)
{
    const struct tw_event *trigger = p->event;
    struct tw_position *order = order_find(p->master, trigger->order_id);
    bool is_known = order != NULL && order->pending != NULL;
    if (order == NULL && !mark_order(p, trigger->order_id))
        return false;
    tw_decimal volume = trigger->volume;
    if (volume == TW_DECIMAL_UNSET && is_known)
        volume = order->remaining > 0 ? order->remaining : order->initial;
    p->order = is_known ? order->pending : NULL;
    p->plan_one = plan_one_trigger;
    p->position = trigger_position(p, is_known ? order : NULL, trigger->position_id, volume);
    if (p->position == NULL || !legs_make(p))
        return false;
    if (volume == TW_DECIMAL_UNSET)
        return true; /* how much the master holds is not known: its closes name what they leave */
    p->position->initial += volume;
    p->position->remaining += volume;
    if (is_known)
        trigger_event(p, trigger, volume);
    return true;
}

static tw_decimal close_remaining(const struct tw_event *event, const struct tw_position *position)
{
    tw_decimal remaining = 0;
    if (event->remaining_volume != TW_DECIMAL_UNSET)
        remaining = event->remaining_volume;
    else if (event->volume != TW_DECIMAL_UNSET)
        remaining = position->remaining > event->volume ? position->remaining - event->volume : 0;
    return remaining < position->remaining ? remaining : position->remaining;
}

/* The close of what this one leaves, under its new ticket, came before it. */
static bool is_rest_closed(const struct planning *p)
{
    const char *ticket = p->event->new_position_id;
    const struct tw_position *rest = ticket[0] != '\0' ? position_find(p->master, ticket) : NULL;
    return rest != NULL && rest != p->position && rest->state == POSITION_MARK;
}

static bool prepare_close(struct planning *p)
{
    const struct tw_event *event = p->event;
    struct tw_position *position = p->position;
    p->plan_one = plan_one_close;
    bool names_rest = event->remaining_volume != TW_DECIMAL_UNSET ? event->remaining_volume > 0
                                                                  : event->volume != TW_DECIMAL_UNSET;
    if (position == NULL) {
        p->is_full_close = !names_rest;
        if (names_rest)
            return true;
        position = position_new(p->master, event->position_id, false);
        if (position == NULL)
            return false;
        position->state = POSITION_MARK;
        touch(p, position);
        position_remember(position);
        return true;
    }
    if (position->state != POSITION_OPEN) {
        p->is_full_close = !names_rest;
        return true;
    }
    position->remaining = is_rest_closed(p) ? 0 : close_remaining(event, position);
    p->is_full_close = position->remaining == 0;
    return true;
}

/* The position takes the master's new state and ticket; its copies are planned by what it was. */
static void finish_close(struct planning *p)
{
    struct tw_position *position = p->position;
    if (position == NULL || position->state != POSITION_OPEN)
        return;
    if (p->is_full_close) {
        position_finish(position);
        return;
    }
    const char *ticket = p->event->new_position_id;
    if (ticket[0] == '\0' || strcmp(ticket, position->id) == 0)
        return;
    position_unhash(position);
    snprintf(position->id, sizeof position->id, "%s", ticket);
    struct tw_position *stale = position_find(p->master, ticket);
    if (stale != NULL) {
        position_unhash(stale); /* closed or a mark: looked at before */
        touch(p, stale);
    }
    position_hash(position, false);
}

static bool prepare_modify(struct planning *p)
{
    p->plan_one = plan_one_modify;
    return true;
}

typedef bool prepare_fn(struct planning *p);
typedef void finish_fn(struct planning *p);

static const struct {
    prepare_fn *prepare; /* what the event makes of the master's books, and how copies are planned */
    finish_fn *finish;   /* what it leaves of them; NULL = as prepared */
    bool is_of_order;    /* about an order; else about a position */
} kinds[] = {
    [TW_EVENT_OPEN] = {prepare_open, NULL, false},
    [TW_EVENT_MODIFY] = {prepare_modify, NULL, false},
    [TW_EVENT_CLOSE] = {prepare_close, finish_close, false},
    [TW_EVENT_PLACE] = {prepare_place, NULL, true},
    [TW_EVENT_MODIFY_ORDER] = {prepare_modify_order, NULL, true},
    [TW_EVENT_CANCEL] = {prepare_cancel, finish_cancel, true},
    [TW_EVENT_TRIGGER] = {prepare_trigger, NULL, true},
};

/* ---- The door ---- */

#define RETRY_MIN_NS (100 * TW_NS_PER_MS)
#define RETRY_MAX_NS (5 * TW_NS_PER_S)

uint64_t tw_engine_refused(const struct tw_engine *engine, enum tw_load load)
{
    return atomic_load_explicit(&engine->refused[load], memory_order_relaxed);
}

static void refused_count(struct tw_engine *engine, enum tw_load load)
{
    atomic_fetch_add_explicit(&engine->refused[load], 1, memory_order_relaxed);
}

static bool refuse_no_memory(struct tw_engine *engine, struct tw_refusal *refusal)
{
    refused_count(engine, TW_LOAD_MEMORY);
    tw_refuse(refusal, REFUSAL(OVERLOADED), NULL, "no memory for another event");
    refusal->retry_after_ns = TW_NS_PER_S;
    return false;
}

bool engine_check_room(const struct tw_engine *engine, struct tw_refusal *refusal)
{
    if (engine->log == NULL || tw_journal_has_room(engine->log))
        return true;
    tw_refuse(refusal, REFUSAL(OVERLOADED), NULL,
              "the disk of the journal is as good as full: make room; until then only what reduces is taken");
    refusal->retry_after_ns = TW_NS_PER_S;
    return false;
}

/* A disk that does not keep up must not fill the memory: what is not written cannot be forgotten. A quarter more is kept
 * for closes and changes. */
static bool check_backlog(struct tw_engine *engine, bool adds, struct tw_refusal *refusal)
{
    uint64_t most = engine->backlog_bytes_max, waiting = most > 0 ? tw_engine_backlog_bytes(engine) : 0;
    if (waiting <= (adds ? most : most + most / 4))
        return true;
    refused_count(engine, TW_LOAD_BACKLOG);
    tw_refuse(refusal, REFUSAL(OVERLOADED), NULL,
              "%llu MiB of copies wait for the disk of the journal (copies.backlog_bytes): %s", (unsigned long long)(waiting >> 20),
              adds ? "until it has caught up only what reduces or changes is taken" : "nothing is taken until it has caught up");
    refusal->retry_after_ns = TW_NS_PER_S;
    return false;
}

void tw_engine_memory_short_set(struct tw_engine *engine, bool is_short)
{
    atomic_store_explicit(&engine->is_memory_short, is_short, memory_order_relaxed);
}

static bool refuse_short_memory(struct tw_engine *engine, struct tw_refusal *refusal)
{
    refused_count(engine, TW_LOAD_MEMORY);
    tw_refuse(refusal, REFUSAL(OVERLOADED), NULL,
              "less memory is left than memory.reserved_bytes: until there is more only what reduces or changes is taken");
    refusal->retry_after_ns = TW_NS_PER_S;
    return false;
}

/* What is left of a full disk, of the memory that waits for a slow one, and of memory altogether, is kept for closes. */
static bool check_room(struct tw_engine *engine, bool adds, struct tw_refusal *refusal)
{
    if (!check_backlog(engine, adds, refusal))
        return false;
    if (adds && atomic_load_explicit(&engine->is_memory_short, memory_order_relaxed))
        return refuse_short_memory(engine, refusal);
    bool has_room = !adds || engine_check_room(engine, refusal);
    if (!has_room)
        refused_count(engine, TW_LOAD_DISK);
    return has_room;
}

/* How much too late an open would be called at this follower, by how fast its lane has been served; 0: it may be in
 * time, or is too old already, which its copy says. */
static int64_t late_by_ns(const struct tw_subscription *member, const struct tw_event *event, int64_t now_wall_ns)
{
    int64_t wait_ns = member->slot->lane != NULL ? tw_lane_wait_ns(member->slot->lane, member->master->tenant) : 0;
    int64_t end_wall_ns = tw_plan_window_end(event, &member->rules);
    return wait_ns > 0 && now_wall_ns <= end_wall_ns && now_wall_ns + wait_ns > end_wall_ns ? now_wall_ns + wait_ns - end_wall_ns : 0;
}

/* What would come too late everywhere is refused before anything of it is written. Where it may still be in time at one
 * follower it is taken, and is QUEUE_FULL at the others. Closes are never refused for this. Under the master's mutex. */
static bool check_wait(struct tw_master *master, const struct tw_event *event, struct tw_refusal *refusal)
{
    int64_t now_wall_ns = tw_wall_ns(), least_ns = INT64_MAX;
    for (uint32_t i = 0; i < master->n_members && least_ns > 0; i++) {
        int64_t late_ns = late_by_ns(master->members[i], event, now_wall_ns);
        if (late_ns < least_ns)
            least_ns = late_ns;
    }
    if (least_ns == 0 || master->n_members == 0)
        return true;
    refused_count(master->engine, TW_LOAD_QUEUE);
    tw_refuse(refusal, REFUSAL(OVERLOADED), NULL,
              "what waits before it takes longer than its open window allows, by %lld ms at the least: nothing of it was taken",
              (long long)((least_ns + TW_NS_PER_MS - 1) / TW_NS_PER_MS));
    refusal->retry_after_ns = least_ns < RETRY_MIN_NS ? RETRY_MIN_NS : least_ns > RETRY_MAX_NS ? RETRY_MAX_NS : least_ns;
    return false;
}

static bool check_load(struct tw_master *master, const struct tw_event *event, struct tw_refusal *refusal)
{
    bool adds = event->kind == TW_EVENT_OPEN || event->kind == TW_EVENT_PLACE;
    return check_room(master->engine, adds, refusal) && (!adds || check_wait(master, event, refusal));
}

/* The side on which the master holds the position, as any share of it tells; false: nobody has one. */
bool position_side(const struct tw_position *position, enum tw_side *ret)
{
    for (const struct tw_leg_block *block = position->blocks; block != NULL; block = block->next)
        if (block->n_legs > 0) {
            const struct tw_leg *leg = &block->legs[0];
            *ret = leg->is_reversed ? tw_side_opposite(leg->side) : leg->side; /* both as they were when it was made */
            return true;
        }
    return false;
}

static bool check_position(struct tw_master *master, const struct tw_event *event,
                           struct tw_refusal *refusal)
{
    const struct tw_position *position = position_find(master, event->position_id);
    if (event->kind == TW_EVENT_OPEN && !event->increase && position != NULL &&
        position->state == POSITION_OPEN)
        return tw_refuse(refusal, REFUSAL(POSITION_EXISTS), "event.open.position_id",
                         "position \"%s\" of \"%s\" is open already; set increase to add to it",
                         event->position_id, master->id);
    const struct tw_position *order = order_find(master, event->order_id);
    if (event->kind == TW_EVENT_PLACE && order != NULL && order->state == POSITION_OPEN)
        return tw_refuse(refusal, REFUSAL(POSITION_EXISTS), "event.place.order_id",
                         "order \"%s\" of \"%s\" is placed already", event->order_id, master->id);
    tw_decimal sum;
    if (event->kind == TW_EVENT_OPEN && position != NULL && position->state == POSITION_OPEN &&
        (!tw_decimal_add(position->initial, event->volume, &sum)))
        return tw_refuse(refusal, REFUSAL(INVALID_FIELD), "event.open.volume",
                         "adds up to more than can be counted");
    enum tw_side side;
    if (event->kind == TW_EVENT_OPEN && position != NULL && position->state == POSITION_OPEN &&
        position_side(position, &side) && side != event->side)
        return tw_refuse(refusal, REFUSAL(INVALID_FIELD), "event.open.side",
                         "position \"%s\" of \"%s\" is on the other side: what makes it smaller is a close",
                         event->position_id, master->id);
    if (event->kind == TW_EVENT_CLOSE && event->new_position_id[0] != '\0') {
        const struct tw_position *other = position_find(master, event->new_position_id);
        if (other != NULL && other != position && other->state == POSITION_OPEN)
            return tw_refuse(refusal, REFUSAL(POSITION_EXISTS), "event.close.new_position_id",
                             "position \"%s\" of \"%s\" is open already", event->new_position_id,
                             master->id);
    }
    return true;
}

/* Notes a numbered event. *ret_expected: the number that was expected; *ret_gap: this is not it, and
 * none before it is missing any more once that one comes. */
static void sequence_note(struct tw_master *master, uint64_t sequence, bool *ret_gap,
                          uint64_t *ret_expected)
{
    *ret_gap = false;
    *ret_expected = 0;
    if (sequence == 0)
        return;
    if (master->last_sequence == 0)
        master->last_sequence = sequence - 1; /* the first one seen is where counting begins */
    *ret_expected = master->last_sequence + 1;
    if (sequence > master->last_sequence + 1) {
        *ret_gap = true;
        if (master->ahead == NULL)
            master->ahead = calloc(SEQUENCES_AHEAD_MAX, sizeof *master->ahead);
        if (master->ahead != NULL && master->n_ahead < SEQUENCES_AHEAD_MAX)
            master->ahead[master->n_ahead++] = sequence;
        return;
    }
    if (sequence == master->last_sequence + 1)
        master->last_sequence = sequence;
    for (uint32_t i = 0; i < master->n_ahead;) {
        if (master->ahead[i] > master->last_sequence + 1) {
            i++;
            continue;
        }
        if (master->ahead[i] == master->last_sequence + 1)
            master->last_sequence++;
        master->ahead[i] = master->ahead[--master->n_ahead];
        i = 0;
    }
}

static bool record_fill(struct tw_record *record, const struct tw_submission *submission)
{
    const struct tw_event *event = submission->event;
    record->origin = ORIGIN(EVENT);
    record->received_mono_ns = submission->received_mono_ns;
    record->received_wall_ns = submission->received_wall_ns;
    int64_t upstream_ns = submission->received_wall_ns - event->observed_wall_ns;
    record->upstream_ns = upstream_ns > 0 ? (uint64_t)upstream_ns : 0;
    snprintf(record->subject_id, sizeof record->subject_id, "%s", tw_event_subject_id(event));
    snprintf(record->symbol, sizeof record->symbol, "%s", event->symbol);
    snprintf(record->trace_id, sizeof record->trace_id, "%s", submission->trace_id);
    if (submission->traceparent != NULL)
        snprintf(record->traceparent, sizeof record->traceparent, "%s", submission->traceparent);
    record->volume = event->volume > 0 ? event->volume : 0;
    record->packed_bytes = tradewake__v1__trade_event__get_packed_size(submission->message);
    record->packed = malloc(record->packed_bytes + 1);
    if (record->packed == NULL)
        return false;
    tradewake__v1__trade_event__pack(submission->message, record->packed);
    return true;
}

static void note_event(struct tw_master *master, const struct tw_submission *submission,
                       struct tw_record *record)
{
    const struct tw_event *event = submission->event;
    sequence_note(master, event->sequence, &record->sequence_gap, &record->expected_sequence);
    if (event->has_account) {
        master->account = event->account;
        master->has_account = true;
    }
    if (master->observed_wall_ns < event->observed_wall_ns)
        master->observed_wall_ns = event->observed_wall_ns;
    snprintf(master->last_event_id, sizeof master->last_event_id, "%s", event->event_id);
    master->last_received_wall_ns = submission->received_wall_ns;
}

/* The close that came before the open of this position; NULL: it is forgotten. */
static struct tw_record *early_close_find(const struct tw_master *master, const char *position_id)
{
    struct tw_record *record, *next, *found = NULL;
    HASH_ITER(hh, master->records, record, next)
    {
        if (record->origin == ORIGIN(EVENT) && strcmp(record->subject_id, position_id) == 0 && record->n_copies > 0 &&
            record->copies[0].action == ACTION(CLOSE) && (found == NULL || record->number > found->number))
            found = record;
    }
    return found;
}

static struct tw_record *reduce_legs(struct tw_master *master, struct tw_position *position,
                                     const struct tw_slot *slot, bool is_full,
                                     Tradewake__V1__CopyOrigin origin, const char *event_id,
                                     const struct tw_record *asked);

/* The close came before its open: what is found of that is closed now, unless the close's own order had done it. */
static void close_again(struct planning *p)
{
    char event_id[TW_ID_BYTES];
    fleet_event_id(p->engine, "repair", event_id);
    struct tw_record *record = reduce_legs(p->master, p->position, NULL, true, ORIGIN(REPAIR), event_id,
                                           early_close_find(p->master, p->position->id));
    if (record != NULL)
        tw_record_release(record);
}

/* Plans what the event comes to. record: filled in; the event's own, or one of a snapshot's. Under the
 * master's mutex. False: no memory, and the record is gone. */
bool sequencer_run(struct tw_master *master, const struct tw_event *event, struct tw_record *record)
{
    struct planning planning = {
        .engine = master->engine,
        .master = master,
        .event = event,
        .record = record,
        .members = master->members,
        .position = kinds[event->kind].is_of_order ? order_find(master, event->order_id)
                                                   : position_find(master, event->position_id),
        .now_wall_ns = record->received_wall_ns,
    };
    if (!kinds[event->kind].prepare(&planning)) {
        record->n_copies = 0; /* none has been made yet */
        tw_record_release(record);
        return false;
    }
    if (planning.position != NULL) {
        if (planning.position->observed_wall_ns < event->observed_wall_ns)
            planning.position->observed_wall_ns = event->observed_wall_ns;
        if (planning.position->opened_wall_ns == 0)
            planning.position->opened_wall_ns = event->observed_wall_ns;
    }
    if (record->origin == ORIGIN(EVENT))
        HASH_ADD_STR(master->records, event_id, record);
    if (kinds[event->kind].finish != NULL)
        kinds[event->kind].finish(&planning);
    if (planning.position != NULL)
        touch(&planning, planning.position);
    if (planning.is_closed_already)
        position_finish(planning.position);
    record_enter(record);
    plan_all(&planning, 0);
    if (planning.is_closed_already)
        close_again(&planning);
    positions_forget(master);
    return true;
}

/* ---- An event whose planning a crash cut short ---- */

/* The books are those after the event: what its plan goes by is found in them. */
static bool resume_open(struct planning *p)
{
    bool is_over = p->position == NULL || p->position->state != POSITION_OPEN;
    bool adds = !is_over && p->event->increase && p->position->initial > p->event->volume;
    p->plan_one = is_over ? plan_one_marked : plan_one_open;
    return is_over || adds || legs_make(p);
}

static bool resume_close(struct planning *p)
{
    if (p->position == NULL && p->event->new_position_id[0] != '\0')
        p->position = position_find(p->master, p->event->new_position_id);
    p->is_full_close = p->position != NULL && p->position->state != POSITION_OPEN;
    p->plan_one = plan_one_close;
    return true;
}

static bool resume_modify_order(struct planning *p)
{
    p->plan_one = plan_one_modify_order;
    return true;
}

static bool resume_cancel(struct planning *p)
{
    p->plan_one = plan_one_cancel;
    return true;
}

static bool resume_trigger(struct planning *p)
{
    const struct tw_position *order = order_find(p->master, p->event->order_id);
    const struct tw_event *trigger = p->event;
    p->plan_one = plan_one_trigger;
    p->order = order != NULL ? order->pending : NULL;
    if (p->order != NULL && p->position != NULL)
        trigger_event(p, trigger, trigger->volume != TW_DECIMAL_UNSET ? trigger->volume : p->position->initial);
    return p->position != NULL && legs_make(p);
}

static bool has_copy(const struct tw_record *record, uint32_t n, const struct tw_subscription *member)
{
    for (uint32_t i = 0; i < n; i++)
        if (record->copies[i].subscription == member)
            return true;
    return false;
}

/* Who was to have a copy and has none, from record->n_copies on; returns how many there are in all. */
static uint32_t members_missing(const struct tw_record *record, uint32_t n_wanted,
                                struct tw_subscription **ret)
{
    const struct tw_master *master = record->master;
    uint32_t n = record->n_copies;
    for (uint32_t i = 0; i < master->n_members && n < n_wanted; i++)
        if (master->members[i]->slot->lane != NULL && !has_copy(record, record->n_copies, master->members[i]))
            ret[n++] = master->members[i];
    return n;
}

static bool resume(struct planning *p)
{
    static prepare_fn *const resumes[] = {
        [TW_EVENT_OPEN] = resume_open, [TW_EVENT_MODIFY] = prepare_modify, [TW_EVENT_CLOSE] = resume_close,
        [TW_EVENT_PLACE] = resume_open, [TW_EVENT_MODIFY_ORDER] = resume_modify_order,
        [TW_EVENT_CANCEL] = resume_cancel, [TW_EVENT_TRIGGER] = resume_trigger,
    };
    return resumes[p->event->kind](p);
}

bool sequencer_complete(struct tw_record *record, uint32_t n_wanted)
{
    Tradewake__V1__TradeEvent *message =
        tradewake__v1__trade_event__unpack(NULL, record->packed_bytes, record->packed);
    struct tw_subscription **members = calloc(n_wanted, sizeof *members);
    struct tw_event event;
    struct tw_refusal refusal = {0};
    bool ok = message != NULL && members != NULL &&
              tw_event_read(message, record->received_wall_ns, &event, &refusal);
    uint32_t n_planned = record->n_copies, n = ok ? members_missing(record, n_wanted, members) : n_planned;
    if (ok && n > n_planned) {
        struct planning planning = {
            .engine = record->engine,
            .master = record->master,
            .event = &event,
            .record = record,
            .members = members,
            .position = kinds[event.kind].is_of_order ? order_find(record->master, event.order_id)
                                                      : position_find(record->master, event.position_id),
            .now_wall_ns = tw_wall_ns(),
        };
        ok = resume(&planning);
        if (ok) {
            record->n_copies = n;
            atomic_store(&record->is_durable, false);
            atomic_fetch_add(&record->pending_sent, n - n_planned + 1);
            atomic_fetch_add(&record->pending_done, n - n_planned + 1);
            plan_all(&planning, n_planned);
        }
    }
    free(members);
    if (message != NULL)
        tradewake__v1__trade_event__free_unpacked(message, NULL);
    return ok && record->n_copies == n_wanted;
}

/* A new event, checked: from here on it happens. Under the master's mutex. */
static bool accept(struct tw_master *master, const struct tw_submission *submission,
                   const uint8_t hash[TW_EVENT_HASH_BYTES], struct tw_record **ret,
                   struct tw_refusal *refusal)
{
    const struct tw_event *event = submission->event;
    tw_crash_point("sequencer.entered");
    struct tw_record *record = record_new(master, event->event_id, master->n_members);
    if (record == NULL)
        return refuse_no_memory(master->engine, refusal);
    memcpy(record->hash, hash, TW_EVENT_HASH_BYTES);
    if (!record_fill(record, submission)) {
        record->n_copies = 0;
        tw_record_release(record);
        return refuse_no_memory(master->engine, refusal);
    }
    note_event(master, submission, record);
    if (!sequencer_run(master, event, record))
        return refuse_no_memory(master->engine, refusal);
    *ret = record;
    return true;
}

bool tw_engine_submit(struct tw_engine *engine, const struct tw_submission *submission,
                      struct tw_submitted *ret, struct tw_refusal *refusal)
{
    const struct tw_event *event = submission->event;
    uint8_t hash[TW_EVENT_HASH_BYTES];
    tw_event_hash(event, hash);

    struct tw_master *master = fleet_master_find(engine, event->master_id);
    if (master == NULL)
        return tw_refuse(refusal, REFUSAL(MASTER_NOT_FOUND), "event.master_id",
                         "nobody follows \"%s\"", event->master_id);
    pthread_mutex_lock(&master->mutex);
    struct tw_record *known = NULL, *record = NULL;
    struct tw_submitted forgotten = {0};
    bool ok = true;
    HASH_FIND_STR(master->records, event->event_id, known);
    tw_crash_point_if(known != NULL, "sequencer.duplicate");
    if (known != NULL) {
        ok = memcmp(known->hash, hash, sizeof hash) == 0;
        if (ok) {
            tw_record_hold(known);
            record = known;
        } else {
            tw_refuse(refusal, REFUSAL(EVENT_ID_REUSED), "event.event_id",
                      "\"%s\" was another event of \"%s\"", event->event_id, master->id);
        }
    } else if (!forgotten_find(engine, event, hash, &forgotten, refusal)) {
        ok = false;
    } else if (!forgotten.is_duplicate) {
        master_prune(master);
        if (master->n_members == 0)
            ok = tw_refuse(refusal, REFUSAL(MASTER_NOT_FOUND), "event.master_id",
                           "nobody follows \"%s\"", event->master_id);
        ok = ok && check_load(master, event, refusal) && check_position(master, event, refusal) &&
             accept(master, submission, hash, &record, refusal);
    }
    pthread_mutex_unlock(&master->mutex);
    if (!ok)
        return false;
    if (record == NULL) {
        *ret = forgotten;
        return true;
    }
    *ret = (struct tw_submitted){
        .record = record,
        .is_duplicate = known != NULL,
        .sequence_gap = record->sequence_gap,
        .expected_sequence = record->expected_sequence,
    };
    return true;
}

/* ---- What was closed by hand, opened again where the rules say so ---- */

static bool wants_reopen(struct tw_position *position, struct tw_subscription *member)
{
    struct tw_leg *leg = member->rules.reopen_closed_by_hand ? position_leg(position, member->slot) : NULL;
    if (leg == NULL)
        return false;
    pthread_mutex_lock(&member->slot->mutex);
    bool wants = leg->is_closed && leg->was_open && !leg->is_close_planned;
    pthread_mutex_unlock(&member->slot->mutex);
    return wants;
}

struct tw_record *sequencer_reopen(struct tw_position *position, const struct tw_event *event)
{
    struct tw_master *master = position->master;
    uint32_t n = 0, made = 0;
    for (uint32_t i = 0; i < master->n_members; i++)
        n += wants_reopen(position, master->members[i]);
    struct tw_record *record = n > 0 ? record_new(master, event->event_id, n) : NULL;
    if (record == NULL)
        return NULL;
    struct planning p = {.engine = master->engine, .master = master, .event = event, .record = record,
                         .position = position, .now_wall_ns = tw_wall_ns()};
    record->origin = ORIGIN(SYNC);
    record->received_mono_ns = tw_mono_ns();
    record->received_wall_ns = p.now_wall_ns;
    snprintf(record->subject_id, sizeof record->subject_id, "%s", position->id);
    snprintf(record->symbol, sizeof record->symbol, "%s", event->symbol);
    if (!legs_make(&p)) {
        record->n_copies = 0;
        tw_record_release(record);
        return NULL;
    }
    atomic_fetch_add(&record->refs, n);
    for (uint32_t i = 0; i < master->n_members && made < n; i++) {
        if (!wants_reopen(position, master->members[i]))
            continue;
        struct tw_copy *copy = &record->copies[made++];
        struct tw_slot *slot = master->members[i]->slot;
        copy_init(copy, record, master->members[i]);
        pthread_mutex_lock(&slot->mutex);
        plan_one_open(&p, copy);
        copy->is_change_queued = true;
        pthread_mutex_unlock(&slot->mutex);
        record->accepted += !copy->is_skipped;
        record->skipped += copy->is_skipped;
    }
    uint32_t missing = n - made + record->skipped;
    record->n_copies = made;
    atomic_store_explicit(&record->n_planned, made, memory_order_release);
    atomic_fetch_sub(&record->pending_sent, missing + 1);
    atomic_fetch_sub(&record->pending_done, missing + 1);
    atomic_fetch_sub(&record->refs, missing);
    record_enter(record);
    if (record->engine->log != NULL) {
        struct state_out *writing = state_out_here();
        put_whole_event(writing, record, NULL, 0, made);
        record->durable_sequence = log_append(record->engine, STATE_EVENT, writing);
    }
    record_await_durable(record);
    for (uint32_t i = 0; i < made; i++) {
        struct tw_job *job = &record->copies[i].job;
        change_push(&record->copies[i]);
        if (!record->copies[i].is_skipped)
            tw_executor_submit(master->engine->executor, &job, 1);
    }
    return record;
}

/* ---- Closes that the service decides itself ---- */

/* How much of a leg such a close takes; 0: nothing is to be done. */
static tw_decimal reduces_by(const struct tw_leg *leg, bool is_full)
{
    if (leg->is_closed || leg->is_close_planned)
        return 0;
    if (is_full)
        return leg->held > 0 ? leg->held : leg->wanted;
    return leg->is_pending ? 0 : close_now(leg, false).volume;
}

/* A close that came before the open it closes has its copies, which never had a leg nor called anybody: what a run before
 * the power cut may have sent for this follower has the first id of such a copy. (One that did its work and is over has
 * no leg after a start, either.) False: there is none. */
static bool early_close_id(const struct tw_record *close, const struct tw_slot *slot, char ret_id[TW_COPY_ID_BYTES])
{
    for (uint32_t i = 0; i < close->n_copies; i++) {
        const struct tw_copy *early = &close->copies[i];
        if (early->subscription->slot != slot || early->leg != NULL || early->calls > 0)
            continue;
        copy_order_id(early, 0, 0, ret_id);
        return true;
    }
    return false;
}

void sequencer_ask_again(struct tw_copy *copy)
{
    const struct tw_record *record = copy->record;
    const struct tw_slot *slot = copy->subscription->slot;
    bool is_first_order = copy->order_leg == 0 && copy->id_attempt == 0 && copy->filled == 0 && !copy->is_counted;
    if (record->origin != ORIGIN(REPAIR) || copy->action != ACTION(CLOSE) || !is_first_order || !slot->caps.netting)
        return;
    const struct tw_record *close = early_close_find(record->master, copy->leg->position->id);
    char id[TW_COPY_ID_BYTES];
    if (close == NULL || !early_close_id(close, slot, id))
        return;
    copy->asks_id = strdup(id);
    copy->asks_own_next = copy->asks_id != NULL;
}

static bool reduce_one(struct tw_record *record, uint32_t index, struct tw_subscription *member,
                       struct tw_leg *leg, bool is_full, const struct tw_record *asked)
{
    struct tw_slot *slot = member->slot;
    if (is_full)
        copy_refused_withdraw(leg);
    pthread_mutex_lock(&slot->mutex);
    tw_decimal volume = reduces_by(leg, is_full);
    bool is_wanted = volume > 0 || (is_full && !leg->is_closed && !leg->is_close_planned);
    if (is_wanted) {
        struct tw_copy *copy = &record->copies[index];
        copy_init(copy, record, member);
        close_ready(copy, leg, is_full, volume,
                    !is_full ? ACTION(PARTIAL_CLOSE) : leg->is_pending ? ACTION(CANCEL) : ACTION(CLOSE));
        char id[TW_COPY_ID_BYTES];
        if (asked != NULL && slot->caps.netting && early_close_id(asked, slot, id))
            copy_ask_for(copy, id); /* what is closed by its ticket cannot be closed twice */
        copy->is_change_queued = true;
        copy->updated_wall_ns = record->received_wall_ns;
    }
    pthread_mutex_unlock(&slot->mutex);
    return is_wanted;
}

/* Writes down and hands over what was made; n: so many copies. */
static void reductions_submit(struct tw_record *record, uint32_t n)
{
    struct tw_engine *engine = record->engine;
    struct tw_job *jobs[TW_PLAN_CHUNK];
    size_t n_jobs = 0;
    record->n_copies = record->accepted = n;
    atomic_store_explicit(&record->n_planned, n, memory_order_release);
    atomic_store(&record->pending_sent, n);
    atomic_store(&record->pending_done, n);
    atomic_fetch_add(&record->refs, n);
    record_enter(record);
    if (engine->log != NULL) {
        struct state_out *writing = state_out_here();
        put_whole_event(writing, record, NULL, 0, n);
        record->durable_sequence = log_append(engine, STATE_EVENT, writing);
    }
    record_await_durable(record);
    for (uint32_t i = 0; i < n; i++) {
        change_push(&record->copies[i]);
        jobs[n_jobs++] = &record->copies[i].job;
        if (n_jobs == TW_PLAN_CHUNK || i + 1 == n) {
            tw_executor_submit(engine->executor, jobs, n_jobs);
            n_jobs = 0;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        copy_refused_step_back(record->copies[i].subscription->slot, record->copies[i].job.key);
}

static struct tw_record *reduce_legs(struct tw_master *master, struct tw_position *position,
                                     const struct tw_slot *slot, bool is_full,
                                     Tradewake__V1__CopyOrigin origin, const char *event_id,
                                     const struct tw_record *asked)
{
    uint32_t n = 0, made = 0;
    for (uint32_t i = 0; i < master->n_members; i++)
        n += (slot == NULL || master->members[i]->slot == slot) &&
             position_leg(position, master->members[i]->slot) != NULL;
    struct tw_record *record = n > 0 ? record_new(master, event_id, n) : NULL;
    if (record == NULL)
        return NULL;
    record->origin = origin;
    record->received_mono_ns = tw_mono_ns();
    record->received_wall_ns = tw_wall_ns();
    snprintf(record->subject_id, sizeof record->subject_id, "%s", position->id);
    for (uint32_t i = 0; i < master->n_members; i++) {
        const struct tw_slot *member = master->members[i]->slot;
        struct tw_leg *leg = slot == NULL || member == slot ? position_leg(position, member) : NULL;
        if (leg != NULL)
            made += reduce_one(record, made, master->members[i], leg, is_full, asked);
    }
    if (made > 0) {
        reductions_submit(record, made);
        return record;
    }
    record->n_copies = 0;
    tw_record_release(record);
    return NULL;
}

struct tw_record *sequencer_close_legs(struct tw_master *master, struct tw_position *position,
                                       const struct tw_slot *slot, Tradewake__V1__CopyOrigin origin,
                                       const char *event_id)
{
    return reduce_legs(master, position, slot, true, origin, event_id, NULL);
}

struct tw_record *sequencer_reduce_leg(struct tw_master *master, struct tw_position *position,
                                       const struct tw_slot *slot, const char *event_id)
{
    return reduce_legs(master, position, slot, false, ORIGIN(REPAIR), event_id, NULL);
}
