/* compare.c - what we believe a follower holds, against what its broker says.
 *
 * The question goes through the follower's lane as a poll: it never takes the last slot of a follower
 * that has orders to send. */
#include "copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* OF_CALLER: CompareFollower. The others are our own, nobody waits for an answer: what we believe is mended. */
enum asks { OF_CALLER, ALL_IT_HOLDS, ONE_ORDER };

struct question {
    struct tw_job job; /* first */
    enum asks asks;
    struct tw_adapter_call call;
    struct tw_snapshot snapshot;
    uint64_t answers; /* of the slot when the broker was asked */
    struct tw_slot *slot; /* held */
    struct tw_comparison *comparison;
};

static char *print(struct tw_arena *arena, const char *text)
{
    return arena_print(arena, "%s", text);
}

static const struct tw_held_position *held_find(const struct tw_snapshot *snapshot, const char *ticket)
{
    for (size_t i = 0; i < snapshot->n_positions; i++)
        if (strcmp(snapshot->positions[i].position_id, ticket) == 0)
            return &snapshot->positions[i];
    return NULL;
}

static bool is_believed(const struct tw_slot *slot, const struct tw_held_position *position)
{
    for (const struct tw_leg *leg = slot->legs; leg != NULL; leg = leg->next)
        if ((slot->caps.netting && strcmp(leg->listing->instrument.symbol, position->symbol) == 0) ||
            leg_has_ticket(leg, position->position_id) ||
            (leg->jobs > 0 && leg_is_of(leg, position->client_order_id)))
            return true;
    return false;
}

static Tradewake__V1__Drift *drift_add(struct tw_arena *arena, Tradewake__V1__CompareFollowerResponse *ret,
                                       Tradewake__V1__DriftKind kind)
{
    Tradewake__V1__Drift *drift = tw_arena_take(arena, sizeof *drift);
    if (drift == NULL)
        return NULL;
    tradewake__v1__drift__init(drift);
    drift->kind = kind;
    ret->drifts[ret->n_drifts++] = drift;
    return drift;
}

static void leg_compare(const struct tw_leg *leg, const struct tw_snapshot *snapshot,
                        struct tw_arena *arena, Tradewake__V1__CompareFollowerResponse *ret)
{
    const struct tw_held_position *there = held_find(snapshot, leg->ticket);
    if (leg->older != NULL && there != NULL && there->volume == leg->ticket_held)
        return;
    if (leg->jobs > 0 || (there != NULL && there->volume == leg->held))
        return; /* on its way: not a difference yet */
    Tradewake__V1__Drift *drift =
        drift_add(arena, ret, there == NULL ? TRADEWAKE__V1__DRIFT_KIND__DRIFT_KIND_MISSING
                                            : TRADEWAKE__V1__DRIFT_KIND__DRIFT_KIND_VOLUME);
    if (drift == NULL)
        return;
    drift->symbol = print(arena, leg->listing->instrument.symbol);
    drift->master_position_id = print(arena, leg->position->id);
    drift->broker_position_id = print(arena, leg->ticket);
    drift->believed_volume = arena_decimal(arena, leg->held);
    drift->broker_volume = there != NULL ? arena_decimal(arena, there->volume) : print(arena, "0");
    drift->client_order_id = print(arena, leg->open_copy_id);
}

/* ---- Netting: one position for all shares of a symbol, so their sum is compared ---- */

static const struct tw_held_position *net_find(const struct tw_snapshot *snapshot, const char *symbol)
{
    for (size_t i = 0; i < snapshot->n_positions; i++)
        if (strcmp(snapshot->positions[i].symbol, symbol) == 0)
            return &snapshot->positions[i];
    return NULL;
}

static bool is_on_its_way(const struct tw_slot *slot, const struct tw_listing *listing)
{
    for (const struct tw_leg *leg = slot->legs; leg != NULL; leg = leg->next)
        if (leg->listing == listing && leg->jobs > 0)
            return true;
    return false;
}

/* What is more than ours on our side is a hand's; what is less, or on the other side, is a difference. */
static Tradewake__V1__DriftKind net_kind(tw_decimal believed, tw_decimal there, bool is_ours)
{
    if (there == 0)
        return TRADEWAKE__V1__DRIFT_KIND__DRIFT_KIND_MISSING;
    if (believed == 0)
        return is_ours ? TRADEWAKE__V1__DRIFT_KIND__DRIFT_KIND_EXTRA
                       : TRADEWAKE__V1__DRIFT_KIND__DRIFT_KIND_FOREIGN;
    bool is_more = believed > 0 ? there > believed : there < believed;
    return is_more ? TRADEWAKE__V1__DRIFT_KIND__DRIFT_KIND_FOREIGN
                   : TRADEWAKE__V1__DRIFT_KIND__DRIFT_KIND_VOLUME;
}

static tw_decimal signed_volume(const struct tw_held_position *position)
{
    if (position == NULL)
        return 0;
    return position->side == TW_BUY ? position->volume : -position->volume;
}

static void net_compare(const struct tw_slot *slot, const struct tw_leg *leg, const struct tw_snapshot *snapshot,
                        struct tw_arena *arena, Tradewake__V1__CompareFollowerResponse *ret)
{
    const struct tw_held_position *position = net_find(snapshot, leg->listing->instrument.symbol);
    tw_decimal believed = slot_net(slot, leg->listing), there = signed_volume(position);
    if (believed == there || is_on_its_way(slot, leg->listing))
        return;
    bool is_ours = position != NULL && position->client_order_id[0] != '\0';
    Tradewake__V1__Drift *drift = drift_add(arena, ret, net_kind(believed, there, is_ours));
    if (drift == NULL)
        return;
    bool is_short = believed < 0 || (believed == 0 && there < 0); /* volumes are of this side */
    drift->symbol = print(arena, leg->listing->instrument.symbol);
    drift->believed_volume = arena_decimal(arena, is_short ? -believed : believed);
    drift->broker_volume = arena_decimal(arena, is_short ? -there : there);
    if (position != NULL) {
        drift->broker_position_id = print(arena, position->position_id);
        drift->client_order_id = print(arena, position->client_order_id);
    }
}

/* The first of the symbol's legs that holds something speaks for all. */
static bool speaks_for_symbol(const struct tw_slot *slot, const struct tw_leg *leg)
{
    const struct tw_leg *first = slot->legs;
    while (first->listing != leg->listing || !first->was_open)
        first = first->next;
    return first == leg;
}

static void position_compare(const struct tw_slot *slot, const struct tw_held_position *there,
                             struct tw_arena *arena, Tradewake__V1__CompareFollowerResponse *ret)
{
    if (is_believed(slot, there))
        return;
    bool is_ours = there->client_order_id[0] != '\0';
    Tradewake__V1__Drift *drift =
        drift_add(arena, ret, is_ours ? TRADEWAKE__V1__DRIFT_KIND__DRIFT_KIND_EXTRA
                                      : TRADEWAKE__V1__DRIFT_KIND__DRIFT_KIND_FOREIGN);
    if (drift == NULL)
        return;
    drift->symbol = print(arena, there->symbol);
    drift->broker_position_id = print(arena, there->position_id);
    drift->broker_volume = arena_decimal(arena, there->volume);
    drift->client_order_id = print(arena, there->client_order_id);
}

static void held_add(const struct tw_leg *leg, struct tw_arena *arena,
                     Tradewake__V1__CompareFollowerResponse *ret)
{
    Tradewake__V1__HeldPosition *held = tw_arena_take(arena, sizeof *held);
    size_t n_tickets = 1;
    for (const struct older_ticket *older = leg->older; older != NULL; older = older->next)
        n_tickets++;
    char **tickets = tw_arena_zero(arena, n_tickets * sizeof *tickets);
    if (held == NULL || tickets == NULL)
        return;
    tradewake__v1__held_position__init(held);
    held->master_id = print(arena, leg->position->master->id);
    held->master_position_id = print(arena, leg->position->id);
    held->symbol = print(arena, leg->listing->instrument.symbol);
    held->side = (Tradewake__V1__Side)leg->side;
    held->volume = arena_decimal(arena, leg->held);
    held->open_price = leg->open_price > 0 ? arena_decimal(arena, leg->open_price) : held->open_price;
    held->copy_id = print(arena, leg->open_copy_id);
    tickets[0] = print(arena, leg->ticket);
    held->broker_position_ids = tickets;
    held->n_broker_position_ids = 1;
    for (const struct older_ticket *older = leg->older; older != NULL; older = older->next)
        tickets[held->n_broker_position_ids++] = print(arena, older->id);
    ret->positions[ret->n_positions++] = held;
}

static void order_add(const struct tw_leg *leg, struct tw_arena *arena,
                      Tradewake__V1__CompareFollowerResponse *ret)
{
    Tradewake__V1__HeldOrder *held = tw_arena_take(arena, sizeof *held);
    if (held == NULL)
        return;
    tradewake__v1__held_order__init(held);
    held->master_id = print(arena, leg->position->master->id);
    held->master_order_id = print(arena, leg->position->id);
    held->symbol = print(arena, leg->listing->instrument.symbol);
    held->side = (Tradewake__V1__Side)leg->side;
    held->type = (Tradewake__V1__OrderType)leg->order_type;
    held->volume = arena_decimal(arena, leg->wanted);
    held->broker_order_id = print(arena, leg->ticket);
    held->copy_id = print(arena, leg->open_copy_id);
    ret->orders[ret->n_orders++] = held;
}

/* Under the slot's mutex. A position's ticket may be renamed by its master meanwhile; the id shown is
 * then the old or the new one. */
static bool compare(struct tw_slot *slot, const struct tw_snapshot *snapshot, struct tw_arena *arena,
                    Tradewake__V1__CompareFollowerResponse *ret)
{
    size_t n_legs = 0;
    for (const struct tw_leg *leg = slot->legs; leg != NULL; leg = leg->next)
        n_legs++;
    ret->drifts = tw_arena_zero(arena, (n_legs + snapshot->n_positions + 1) * sizeof *ret->drifts);
    ret->positions = tw_arena_zero(arena, (n_legs + 1) * sizeof *ret->positions);
    ret->orders = tw_arena_zero(arena, (n_legs + 1) * sizeof *ret->orders);
    if (ret->drifts == NULL || ret->positions == NULL || ret->orders == NULL)
        return false;
    for (const struct tw_leg *leg = slot->legs; leg != NULL; leg = leg->next) {
        if (leg->held > 0)
            held_add(leg, arena, ret);
        else if (leg->is_pending)
            order_add(leg, arena, ret);
        if (leg->was_open && !slot->caps.netting)
            leg_compare(leg, snapshot, arena, ret);
        else if (leg->was_open && speaks_for_symbol(slot, leg))
            net_compare(slot, leg, snapshot, arena, ret);
    }
    for (size_t i = 0; i < snapshot->n_positions; i++)
        position_compare(slot, &snapshot->positions[i], arena, ret);
    ret->broker_as_of = arena_time(arena, snapshot->as_of_wall_ns);
    uint32_t drifts = 0; /* what is not ours is no drift of ours */
    for (size_t i = 0; i < ret->n_drifts; i++)
        drifts += ret->drifts[i]->kind != TRADEWAKE__V1__DRIFT_KIND__DRIFT_KIND_FOREIGN;
    slot->drifts = drifts;
    return true;
}

static void question_free(struct question *question)
{
    tw_snapshot_clear(&question->snapshot);
    slot_release(question->slot);
    free(question);
}

static void question_end(struct question *question)
{
    struct tw_comparison *comparison = question->comparison;
    question_free(question);
    if (comparison != NULL)
        comparison->done(comparison);
}

/* ---- Mending what we believe: one complete read is proof ---- */

static const struct tw_held_order *order_there(const struct tw_snapshot *snapshot, const char *ticket)
{
    for (size_t i = 0; i < snapshot->n_orders; i++)
        if (strcmp(snapshot->orders[i].order_id, ticket) == 0)
            return &snapshot->orders[i];
    return NULL;
}

static const struct tw_held_position *position_of_leg(const struct tw_snapshot *snapshot, const struct tw_leg *leg)
{
    for (size_t i = 0; i < snapshot->n_positions; i++)
        if (leg_is_of(leg, snapshot->positions[i].client_order_id))
            return &snapshot->positions[i];
    return NULL;
}

/* An order that is gone filled, when the position that carries its id is there; else it was cancelled. */
static void mend_order(struct tw_leg *leg, const struct tw_snapshot *snapshot)
{
    if (order_there(snapshot, leg->ticket) != NULL)
        return;
    if (leg->slot->caps.netting)
        return; /* what it became has no id: it is asked for, orders_ask() */
    const struct tw_held_position *became = position_of_leg(snapshot, leg);
    leg_dirty(leg);
    if (became == NULL) {
        leg_close(leg);
        return;
    }
    leg_filled(leg, became->volume, became->position_id);
}

/* Under this ticket, or under the one that the rest of it was given while nobody listened. */
static const struct tw_held_position *held_find_rest(const struct tw_snapshot *snapshot, const char *ticket)
{
    const struct tw_held_position *there = held_find(snapshot, ticket);
    for (size_t i = 0; i < snapshot->n_positions && there == NULL && ticket[0] != '\0'; i++)
        if (strcmp(snapshot->positions[i].from_position_id, ticket) == 0)
            there = &snapshot->positions[i];
    return there;
}

static void mend_position(struct tw_leg *leg, const struct tw_snapshot *snapshot)
{
    for (struct older_ticket *older = leg->older, *next; older != NULL; older = next) {
        next = older->next;
        const struct tw_held_position *other = held_find_rest(snapshot, older->id);
        if (other != NULL)
            leg_ticket_rename(leg, older->id, other->position_id);
        leg_ticket_reduce(leg, older->id, other != NULL ? other->volume : 0);
    }
    const struct tw_held_position *there = held_find_rest(snapshot, leg->ticket);
    if (there == NULL && leg->older == NULL)
        there = position_of_leg(snapshot, leg); /* renumbered while nobody listened */
    if (there == NULL) {
        leg_ticket_reduce(leg, leg->ticket, 0);
        return;
    }
    if (strcmp(leg->ticket, there->position_id) != 0) {
        leg_dirty(leg);
        memcpy(leg->ticket, there->position_id, sizeof leg->ticket);
    }
    leg_ticket_reduce(leg, leg->ticket, there->volume);
}

/* The one position is not there, and no order of ours that is gone as well can have taken it. (One that has is asked for
 * first; then the next comparison sees.) */
static bool is_net_gone(const struct tw_slot *slot, const struct tw_listing *listing, const struct tw_snapshot *snapshot)
{
    if (slot_net(slot, listing) == 0 || net_find(snapshot, listing->instrument.symbol) != NULL)
        return false;
    for (const struct tw_leg *leg = slot->legs; leg != NULL; leg = leg->next)
        if (leg->listing == listing && leg->is_pending && order_there(snapshot, leg->ticket) == NULL)
            return false;
    return true;
}

/* Under the slot's mutex. What is on its way is left to its answer. */
static void mend(struct tw_slot *slot, const struct tw_snapshot *snapshot)
{
    for (struct tw_leg *leg = slot->legs, *next; leg != NULL; leg = next) {
        next = leg->next;
        if (leg->jobs > 0)
            continue;
        leg->is_mended = !slot->caps.netting;
        if (leg->is_pending)
            mend_order(leg, snapshot);
        else if (leg->held > 0 && !slot->caps.netting)
            mend_position(leg, snapshot);
        else if (leg->held > 0 && !may_miss_events(slot->engine, tw_wall_ns()) &&
                 is_net_gone(slot, leg->listing, snapshot))
            leg_reduce(leg, 0);
    }
}

static bool has_jobs(const struct tw_slot *slot)
{
    for (const struct tw_leg *leg = slot->legs; leg != NULL; leg = leg->next)
        if (leg->jobs > 0)
            return true;
    return false;
}

/* A position that carries our id, of a leg that we believe never came to be, or was closed: the broker has it all
 * the same. It is taken for what it is, or closed when the master has closed it meanwhile. */
static void leg_adopt(struct tw_leg *leg, const struct tw_held_position *there)
{
    leg_reopen(leg, there->volume);
    leg->is_pending = false;
    leg->was_open = true;
    leg->is_close_planned = false;
    leg->held = leg->ticket_held = there->volume;
    leg->filled = leg->filled < there->volume ? there->volume : leg->filled;
    leg->open_price = there->open_price;
    leg->stop_loss = there->stop_loss == TW_DECIMAL_UNSET ? 0 : there->stop_loss;
    leg->take_profit = there->take_profit == TW_DECIMAL_UNSET ? 0 : there->take_profit;
    memcpy(leg->ticket, there->position_id, sizeof leg->ticket);
    leg_unsettle(leg);
    leg_dirty(leg);
}

static bool is_refused(const struct tw_copy *copy)
{
    switch ((copy_state)copy->state) {
    case STATE(REJECTED):
    case STATE(SKIPPED):
    case STATE(EXPIRED):
    case STATE(CANCELLED):
        return true;
    default:
        return false;
    }
}

static struct tw_master *master_after(struct tw_engine *engine, const struct tw_master *master)
{
    pthread_rwlock_rdlock(&engine->fleet_lock);
    struct tw_master *next = master != NULL ? master->hh.next : engine->masters; /* they stay as long as the engine */
    pthread_rwlock_unlock(&engine->fleet_lock);
    return next;
}

static struct tw_leg *leg_in(struct tw_position *table, const struct tw_slot *slot, const char *client_order_id)
{
    for (struct tw_position *position = table; position != NULL; position = position->hh.next) {
        struct tw_leg *leg = position_leg(position, slot);
        if (leg != NULL && leg_is_of(leg, client_order_id))
            return leg;
    }
    return NULL;
}

/* The leg whose order has this id. Its master is locked then, and the slot. */
static struct tw_leg *leg_lock(struct tw_slot *slot, const char *client_order_id)
{
    for (struct tw_master *master = NULL; (master = master_after(slot->engine, master)) != NULL;) {
        pthread_mutex_lock(&master->mutex);
        pthread_mutex_lock(&slot->mutex);
        struct tw_leg *leg = leg_in(master->positions, slot, client_order_id);
        if (leg == NULL)
            leg = leg_in(master->orders, slot, client_order_id);
        if (leg != NULL)
            return leg;
        pthread_mutex_unlock(&slot->mutex);
        pthread_mutex_unlock(&master->mutex);
    }
    return NULL;
}

/* What an order that added to it opened is one more of its positions. */
static void leg_adopt_more(struct tw_leg *leg, const struct tw_held_position *there)
{
    if (leg->is_closed) {
        leg_adopt(leg, there);
        return;
    }
    leg_ticket_push(leg);
    memcpy(leg->ticket, there->position_id, sizeof leg->ticket);
    leg->ticket_held = there->volume;
    leg->held += there->volume;
    leg->filled += there->volume;
    leg->wanted += there->volume;
    leg->listing->open_volume += there->volume;
    leg->stop_loss = there->stop_loss == TW_DECIMAL_UNSET ? 0 : there->stop_loss;
    leg->take_profit = there->take_profit == TW_DECIMAL_UNSET ? 0 : there->take_profit;
    leg_unsettle(leg);
    leg_dirty(leg);
}

/* What was refused, as far as we knew, has been done. Under the slot's mutex. */
static bool copy_adopt(struct tw_copy *copy, const struct tw_held_position *there)
{
    if (!is_refused(copy))
        return false;
    copy->state = STATE(DONE);
    copy->reason = REASON(UNSPECIFIED);
    copy->filled = there->volume;
    copy->average_price = there->open_price;
    copy->updated_wall_ns = tw_wall_ns();
    return true;
}

static void close_again(struct tw_master *master, struct tw_position *position, const struct tw_slot *slot)
{
    char event_id[TW_ID_BYTES];
    fleet_event_id(slot->engine, "repair", event_id);
    struct tw_record *repair = sequencer_close_legs(master, position, slot, ORIGIN(REPAIR), event_id);
    if (repair != NULL)
        tw_record_release(repair);
}

/* The leg that a copy was of; its position may have another name by now, and is known by that of the event after a start. */
static struct tw_leg *leg_of_copy(struct tw_master *master, const struct tw_copy *copy, const char *position_id)
{
    const struct tw_slot *slot = copy->subscription->slot;
    struct tw_position *position = position_find(master, position_id);
    struct tw_leg *leg = position != NULL ? position_leg(position, slot) : NULL;
    if (copy->leg_number == 0 || (leg != NULL && leg->number == copy->leg_number))
        return leg;
    for (position = master->positions; position != NULL; position = position->hh.next) {
        leg = position_leg(position, slot);
        if (leg != NULL && leg->number == copy->leg_number)
            return leg;
    }
    return NULL;
}

/* The id is that of a copy which added to a leg, or was to: of a leg's own orders only those that opened it are kept. */
static void adopt_more(struct tw_slot *slot, const struct tw_held_position *there, uint64_t answers)
{
    struct tw_record *record = NULL;
    struct tw_copy *copy = tw_engine_copy_find(slot->engine, there->client_order_id, &record);
    if (copy == NULL)
        return;
    struct tw_master *master = record->master;
    pthread_mutex_lock(&master->mutex);
    pthread_mutex_lock(&slot->mutex);
    struct tw_leg *leg = copy->subscription->slot == slot ? leg_of_copy(master, copy, record->subject_id) : NULL;
    bool is_adopted = leg != NULL && copy->op == TW_OP_OPEN && !leg->is_let_go &&
                      leg->jobs == 0 && slot->answers == answers && copy_adopt(copy, there);
    if (is_adopted)
        leg_adopt_more(leg, there);
    pthread_mutex_unlock(&slot->mutex);
    if (is_adopted && leg->position->state != POSITION_OPEN)
        close_again(master, leg->position, slot);
    pthread_mutex_unlock(&master->mutex);
    if (is_adopted)
        copy_announce(copy);
    tw_record_release(record);
}

static void adopt(struct tw_slot *slot, const struct tw_held_position *there, uint64_t answers)
{
    struct tw_leg *leg = leg_lock(slot, there->client_order_id);
    bool is_open = leg != NULL && !leg->is_closed; /* by what was added to it: its first order is one more */
    if (is_open) {
        pthread_mutex_unlock(&slot->mutex);
        pthread_mutex_unlock(&leg->position->master->mutex);
    }
    if (leg == NULL || is_open) {
        adopt_more(slot, there, answers);
        return;
    }
    struct tw_position *position = leg->position;
    struct tw_master *master = position->master;
    struct tw_record *record = NULL;
    bool is_adopted = leg->is_closed && !leg->is_let_go && leg->jobs == 0 && slot->answers == answers;
    struct tw_copy *copy = is_adopted ? tw_engine_copy_find(slot->engine, leg->open_copy_id, &record) : NULL;
    if (is_adopted)
        leg_adopt(leg, there);
    bool has_changed = copy != NULL && copy->subscription->slot == slot && copy_adopt(copy, there);
    pthread_mutex_unlock(&slot->mutex);
    if (is_adopted && position->state != POSITION_OPEN)
        close_again(master, position, slot);
    pthread_mutex_unlock(&master->mutex);
    if (has_changed)
        copy_announce(copy);
    if (record != NULL)
        tw_record_release(record);
}

/* Positions with an id of ours that no leg accounts for. answers: what the slot had taken up when its broker was
 * asked: what has changed since is not known to the snapshot. */
static void adopt_all(struct tw_slot *slot, const struct tw_snapshot *snapshot, uint64_t answers)
{
    for (size_t i = 0; i < snapshot->n_positions; i++) {
        const struct tw_held_position *there = &snapshot->positions[i];
        if (there->client_order_id[0] == '\0')
            continue;
        pthread_mutex_lock(&slot->mutex);
        bool known = is_believed(slot, there);
        pthread_mutex_unlock(&slot->mutex);
        if (!known)
            adopt(slot, there, answers);
    }
}

static struct question *question_new(struct tw_slot *slot, enum asks asks)
{
    struct question *question = calloc(1, sizeof *question);
    if (question == NULL)
        return NULL;
    slot_hold(slot);
    question->slot = slot;
    question->asks = asks;
    return question;
}

static void ask(struct question *question);

/* The first leg by number, from this one on, whose order is not there any more. */
static struct tw_leg *order_gone(const struct tw_slot *slot, const struct tw_snapshot *snapshot, uint64_t from)
{
    struct tw_leg *first = NULL;
    for (struct tw_leg *leg = slot->legs; leg != NULL; leg = leg->next)
        if (leg->is_pending && leg->jobs == 0 && leg->number >= from && (first == NULL || leg->number < first->number) &&
            order_there(snapshot, leg->ticket) == NULL)
            first = leg;
    return first;
}

/* A netting account's orders that are gone, of which nobody has told: the broker is asked what became of each. */
static void orders_ask(struct tw_slot *slot, const struct tw_snapshot *snapshot)
{
    for (uint64_t from = 1; from != 0;) {
        struct question *question = question_new(slot, ONE_ORDER);
        if (question == NULL)
            return; /* the next comparison asks */
        struct tw_order *order = &question->call.order;
        pthread_mutex_lock(&slot->mutex);
        const struct tw_leg *leg = order_gone(slot, snapshot, from);
        from = leg != NULL ? leg->number + 1 : 0;
        if (leg != NULL) {
            order->op = TW_OP_PLACE;
            memcpy(order->client_order_id, leg->open_order_id, sizeof order->client_order_id);
            memcpy(order->symbol, leg->listing->instrument.symbol, sizeof order->symbol);
        }
        pthread_mutex_unlock(&slot->mutex);
        if (leg != NULL)
            ask(question);
        else
            question_free(question);
    }
}

/* What became of it, whenever that was: said of this very order. */
static void order_answer(struct question *question)
{
    struct tw_slot *slot = question->slot;
    pthread_mutex_lock(&slot->mutex);
    struct tw_leg *leg = leg_of_order(slot, question->call.order.client_order_id);
    if (leg != NULL && leg->jobs == 0) /* else it is left to them */
        (void)leg_order_asked(leg, &question->call.ack);
    pthread_mutex_unlock(&slot->mutex);
    slot_dirty_push(slot);
    settle_begin(slot);
    tw_job_finish(&question->job, TW_JOB_DONE);
    question_end(question);
}

static void mend_answer(struct question *question)
{
    struct tw_slot *slot = question->slot;
    bool is_complete = question->call.ack.outcome == TW_OUTCOME_DONE && question->snapshot.complete;
    pthread_mutex_lock(&slot->mutex);
    bool is_again = slot->compares_again;
    slot->is_comparing = slot->compares_again = false;
    fuse_on_query(slot, is_complete);
    /* A read that began before an answer was taken up says nothing about what the answer changed: the sweep asks
     * again. */
    bool is_outdated = slot->answers != question->answers || (slot->caps.netting && has_jobs(slot));
    if (!is_complete || !is_outdated)
        slot->compared_mono_ns = tw_mono_ns();
    if (is_complete && !is_outdated)
        mend(slot, &question->snapshot);
    pthread_mutex_unlock(&slot->mutex);
    if (is_complete && !is_outdated && slot->caps.netting)
        orders_ask(slot, &question->snapshot);
    else if (is_complete && !is_outdated)
        adopt_all(slot, &question->snapshot, question->answers);
    slot_dirty_push(slot);
    settle_begin(slot);
    tw_job_finish(&question->job, TW_JOB_DONE);
    if (is_again)
        reconcile_begin(slot);
    question_end(question);
}

static void refuse_unreached(struct question *question)
{
    struct tw_comparison *comparison = question->comparison;
    tw_refuse(&comparison->refusal, REFUSAL(BROKER_UNAVAILABLE), "follower_id",
              "the broker of \"%s\" cannot be asked now", question->slot->id);
    comparison->refusal.retry_after_ns = TW_NS_PER_S;
}

static void answer(struct question *question)
{
    struct tw_comparison *comparison = question->comparison;
    if (question->asks != OF_CALLER) {
        (question->asks == ONE_ORDER ? order_answer : mend_answer)(question);
        return;
    }
    struct tw_slot *slot = question->slot;
    if (question->call.ack.outcome == TW_OUTCOME_DONE && question->snapshot.complete) {
        pthread_mutex_lock(&slot->mutex);
        bool ok = compare(slot, &question->snapshot, comparison->arena, comparison->ret);
        pthread_mutex_unlock(&slot->mutex);
        if (!ok)
            tw_refuse(&comparison->refusal, REFUSAL(OVERLOADED), NULL, "no memory for the answer");
    } else {
        refuse_unreached(question);
    }
    tw_job_finish(&question->job, TW_JOB_DONE);
    question_end(question);
}

static void on_done(struct tw_adapter_call *call)
{
    answer(container_of(call, struct question, call));
}

/* A lost question is answered by nobody: what it read is too old by now. */
static void lost_end(struct question *question)
{
    struct tw_slot *slot = question->slot;
    if (question->asks == ALL_IT_HOLDS) {
        pthread_mutex_lock(&slot->mutex);
        slot->is_comparing = false;
        pthread_mutex_unlock(&slot->mutex);
    }
    breaker_lost_back(slot);
    tw_lane_lost_call_end(slot->lane);
    question_free(question);
}

static void call(struct question *question)
{
    struct tw_slot *slot = question->slot;
    (question->asks == ONE_ORDER ? slot->ops->lookup : slot->ops->snapshot)(slot->session, &question->call);
}

/* False: it was lost. */
static bool ask_and_wait(struct question *question)
{
    struct tw_slot *slot = question->slot;
    bool is_probe;
    if (!breaker_admits(slot, &is_probe))
        return true; /* unasked: as if it could not be reached */
    tw_job_call_begin(&question->job, question->call.deadline_mono_ns + CALL_LOST_AFTER_NS);
    call(question);
    if (!tw_job_call_end(&question->job)) {
        lost_end(question);
        return false;
    }
    if (is_probe)
        breaker_probe_back(slot);
    return true;
}

static void run(struct tw_job *job)
{
    struct question *question = (struct question *)job;
    struct tw_slot *slot = question->slot;
    pthread_mutex_lock(&slot->mutex);
    question->answers = slot->answers;
    pthread_mutex_unlock(&slot->mutex);
    question->call.deadline_mono_ns = tw_mono_ns() + (int64_t)slot->caps.call_timeout_ms * TW_NS_PER_MS;
    if (!slot->caps.blocking)
        call(question);
    else if (ask_and_wait(question))
        answer(question);
}

/* The broker has not answered, and its thread is still in there: the question stays for it, and so does
 * the mark that one is asked. Thread: watch. */
static void lost(struct tw_job *job)
{
    struct question *question = (struct question *)job;
    struct tw_comparison *comparison = question->comparison;
    breaker_lost(question->slot);
    if (comparison != NULL)
        refuse_unreached(question);
    tw_job_finish(job, TW_JOB_DONE);
    if (comparison != NULL)
        comparison->done(comparison);
}

static void cancelled(struct tw_job *job)
{
    struct question *question = (struct question *)job;
    if (question->asks == OF_CALLER)
        tw_refuse(&question->comparison->refusal, REFUSAL(SHUTTING_DOWN), NULL, "the server is stopping");
    question_end(question);
}

static void ask(struct question *question)
{
    struct tw_slot *slot = question->slot;
    question->call.snapshot = &question->snapshot;
    question->call.done = on_done;
    question->job.run = run;
    question->job.cancelled = cancelled;
    question->job.lost = lost;
    question->job.lane = slot->lane;
    question->job.job_class = TW_JOB_POLL;
    struct tw_job *job = &question->job;
    tw_executor_submit(slot->engine->executor, &job, 1);
}

void reconcile_begin(struct tw_slot *slot)
{
    if (atomic_load_explicit(&slot->engine->is_recovering, memory_order_acquire))
        return; /* its end asks */
    pthread_mutex_lock(&slot->mutex);
    bool is_wanted = !slot->is_comparing && slot->lane != NULL && slot->is_started;
    slot->compares_again |= slot->is_comparing;
    slot->is_comparing |= is_wanted;
    pthread_mutex_unlock(&slot->mutex);
    if (!is_wanted)
        return;
    struct question *question = question_new(slot, ALL_IT_HOLDS);
    if (question == NULL) { /* the sweep asks again */
        pthread_mutex_lock(&slot->mutex);
        slot->is_comparing = false;
        pthread_mutex_unlock(&slot->mutex);
        return;
    }
    ask(question);
}

bool tw_engine_follower_compare(struct tw_engine *engine, const char *follower_id,
                                struct tw_comparison *comparison)
{
    struct tw_slot *slot = fleet_slot_hold(engine, follower_id);
    if (slot == NULL)
        return tw_refuse(&comparison->refusal, REFUSAL(NOT_FOUND), "follower_id",
                         "there is no follower \"%.64s\"", follower_id);
    struct question *question = question_new(slot, OF_CALLER);
    slot_release(slot);
    if (question == NULL)
        return tw_refuse(&comparison->refusal, REFUSAL(OVERLOADED), NULL, "no memory");
    question->comparison = comparison;
    ask(question);
    return true;
}
