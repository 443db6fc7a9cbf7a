/* judge.c - what must be true, of the brokers' books and of what the master was told. */
#include "world.h"

#include <internal.h> /* of the engine */

#include <stdio.h>

/* One more than the open window of the default rules: the gate looks a moment before the call. */
#define OPEN_AGE_NS_MAX (60 * TW_NS_PER_S + 20 * TW_NS_PER_MS)

static struct intent *intent_of(const struct wire *wire)
{
    return &world->s.followers[wire->follower].intents[wire->event];
}

static bool is_of_open(const struct wire *wire)
{
    return wire->is_open && wire->order.op != TW_OP_MODIFY;
}

/* Whether what this event is to open is closed by what the server has been told. The position that became of an order
 * has a name of its own: until the trigger is there (a power cut took it, and the close was repeated before it), its
 * close says nothing of the order. */
static bool is_close_known(const struct wire *wire)
{
    const struct taken *taken = &world->s.taken[wire->position];
    return world->s.events[wire->event].kind == DO_PLACE ? taken->cancel || (taken->close && taken->trigger) : taken->close;
}

void judge_call(const struct wire *wire)
{
    if (!is_of_open(wire))
        return;
    if (wire->event < 0)
        violation("F%d: an order that opens comes from no event of the master", wire->follower);
    const struct script_event *event = &world->s.events[wire->event];
    struct intent *intent = intent_of(wire);
    if (intent->is_unresolved && intent->absences < 2)
        violation("F%d: event e%d: an open of unknown outcome is sent again after %u proofs of its absence",
                  wire->follower, wire->event, intent->absences);
    if (is_close_known(wire))
        violation("F%d: event e%d opens position %d, whose close has been taken", wire->follower, wire->event,
                  wire->position);
    if (world->s.now_ns - event->observed_ns > OPEN_AGE_NS_MAX)
        violation("F%d: event e%d is opened %lld ms after it happened", wire->follower, wire->event,
                  (long long)((world->s.now_ns - event->observed_ns) / TW_NS_PER_MS));
    intent->is_unresolved = true;
    intent->absences = 0;
    intent->settles_ns = wire->settles_ns;
}

void judge_answered(const struct wire *wire, const struct tw_ack *ack)
{
    world->totals.unknown += wire->kind == WIRE_EXECUTE && ack->outcome == TW_OUTCOME_AMBIGUOUS;
    if (!is_of_open(wire) || wire->event < 0)
        return;
    struct intent *intent = intent_of(wire);
    switch (ack->outcome) {
    case TW_OUTCOME_AMBIGUOUS:
    case TW_OUTCOME_ACCEPTED:
        break;
    case TW_OUTCOME_NOT_FOUND:
        if (wire->kind == WIRE_LOOKUP && world->s.now_ns > intent->settles_ns && intent->absences < 2)
            intent->absences++;
        break;
    default:
        intent->is_unresolved = false;
        break;
    }
}

/* Positions 0 and 1 are of one symbol, 2 and 3 of the other. */
static tw_decimal net_of(const struct follower *follower, int symbol)
{
    return follower->share[symbol * 2] + follower->share[symbol * 2 + 1];
}

static void opened(struct wire *wire, struct follower *follower, tw_decimal volume)
{
    struct intent *intent = intent_of(wire);
    intent->opened += volume;
    follower->opened[wire->position] += volume;
    if (intent->opened > world->s.events[wire->event].volume)
        violation("F%d: event e%d opened %lld steps, and the master %lld: an order was executed twice", wire->follower,
                  wire->event, (long long)(intent->opened / STEP),
                  (long long)(world->s.events[wire->event].volume / STEP));
}

void judge_executed(struct wire *wire)
{
    struct follower *follower = &world->s.followers[wire->follower];
    tw_decimal volume = wire->ack.filled_volume;
    if (volume == 0 || (wire->order.op != TW_OP_OPEN && wire->order.op != TW_OP_CLOSE))
        return;
    tw_decimal before = net_of(follower, wire->position / 2);
    follower->share[wire->position] += wire->order.side == TW_BUY ? volume : -volume;
    tw_decimal after = net_of(follower, wire->position / 2);
    if (wire->is_open)
        opened(wire, follower, volume);
    else if (wire->event >= 0)
        intent_of(wire)->closed += volume;
    /* An order that fills while the server looks elsewhere, or one whose log is lost, makes any reduction one that
     * may cross. */
    bool crosses = !follower->had_working && world->s.n_power_cuts == 0 && ((before > 0 && after < 0) || (before < 0 && after > 0) || before == 0);
    if (follower->caps.netting && wire->order.op == TW_OP_CLOSE && crosses)
        violation("F%d: a close crosses zero: %lld steps were there, %lld are", wire->follower,
                  (long long)(before / STEP), (long long)(after / STEP));
}

/* ---- The server ---- */

static struct tw_record *record_of(struct tw_engine *engine, uint32_t event)
{
    char id[16];
    snprintf(id, sizeof id, "e%u", event);
    return tw_engine_record_find(engine, MASTER, id);
}

void judge_restart(struct tw_engine *engine)
{
    for (uint32_t i = 0; i < world->s.n_events; i++) {
        if (!world->s.events[i].is_acked)
            continue;
        struct tw_record *record = record_of(engine, i);
        if (record == NULL)
            violation("event e%u was acknowledged and is lost", i);
        if (record->accepted + record->skipped != world->s.n_followers || record->n_copies != world->s.n_followers)
            violation("event e%u: %u accepted and %u skipped, of %u subscribed", i, record->accepted, record->skipped,
                      world->s.n_followers);
        tw_record_release(record);
    }
}

bool is_settled(struct tw_engine *engine)
{
    if (broker_calls_out() > 0 || changes_pending(engine))
        return false;
    for (struct tw_record *record = engine->history.oldest; record != NULL; record = record->newer)
        for (uint32_t i = 0; i < record->n_copies; i++)
            if (!copy_is_over(&record->copies[i]))
                return false;
    return true;
}

void judge_unsettled(struct tw_engine *engine)
{
    for (struct tw_record *record = engine->history.oldest; record != NULL; record = record->newer)
        for (uint32_t i = 0; i < record->n_copies; i++) {
            const struct tw_copy *copy = &record->copies[i];
            if (!copy_is_over(copy))
                violation("%s: the copy of %s (%s) never ends: state %u, reason %u, calls %u, last op %u",
                          copy->subscription->slot->id, record->event_id, copy_action_word(copy->action), copy->state,
                          copy->reason, copy->calls, copy->last_op);
        }
    violation("it does not come to rest: %u calls are out", broker_calls_out());
}

/* What the master has left of a position, and whether it is so clear that volumes can be foretold. */
struct book {
    bool is_closed, is_placed, is_increased;
    tw_decimal initial, remaining;
};

static struct book book_of(uint32_t position)
{
    struct book book = {0};
    for (uint32_t i = 0; i < world->s.n_events; i++) {
        const struct script_event *event = &world->s.events[i];
        if (event->position != position)
            continue;
        switch (event->kind) {
        case DO_INCREASE:
            book.is_increased = true;
            /* fall through */
        case DO_OPEN:
            book.initial += event->volume;
            book.remaining += event->volume;
            break;
        case DO_PLACE:
            book.is_placed = true;
            book.initial = book.remaining = event->volume;
            break;
        case DO_PARTIAL:
            book.remaining -= event->volume;
            break;
        case DO_CLOSE:
        case DO_CANCEL:
            book.is_closed = true;
            break;
        case DO_MODIFY:
        case DO_MODIFY_ORDER:
        case DO_TRIGGER:
            break;
        }
    }
    return book;
}

static tw_decimal magnitude(tw_decimal value)
{
    return value < 0 ? -value : value;
}

/* How much of it should be open; false: that cannot be foretold. */
static bool target_of(const struct follower *follower, uint32_t position, tw_decimal *ret)
{
    struct book book = book_of(position);
    tw_decimal volume = follower->opened[position];
    *ret = 0;
    if (book.is_closed || volume == 0)
        return true;
    if (!world->s.is_serial || (book.is_placed && book.is_increased) || follower->was_closed_by_hand[position] ||
        (book.is_increased && volume != book.initial))
        return false;
    __extension__ typedef __int128 wide;
    *ret = (tw_decimal)((wide)volume * book.remaining / book.initial) / STEP * STEP;
    if (*ret < STEP)
        *ret = STEP;
    return true;
}

static void judge_hedged(uint32_t number, uint32_t position)
{
    const struct follower *follower = &world->s.followers[number];
    tw_decimal share = magnitude(follower->share[position]), target;
    if (!target_of(follower, position, &target) || share == target)
        return;
    if (target == 0)
        violation("F%u: the master has closed position %u, and %lld steps of it are open: a close was lost", number,
                  position, (long long)(share / STEP));
    violation("F%u: position %u: %lld steps are open, %lld should be (opened %lld)", number, position,
              (long long)(share / STEP), (long long)(target / STEP), (long long)(follower->opened[position] / STEP));
}

/* A netting account shows only what is left of all together. */
static void judge_net(uint32_t number, int symbol)
{
    const struct follower *follower = &world->s.followers[number];
    tw_decimal net = net_of(follower, symbol), long_target, short_target;
    if (!target_of(follower, (uint32_t)symbol * 2, &long_target) ||
        !target_of(follower, (uint32_t)symbol * 2 + 1, &short_target) || net == long_target - short_target)
        return;
    if (long_target == 0 && short_target == 0)
        violation("F%u: the master has closed positions %d and %d, and %lld steps are open: a close was lost", number,
                  symbol * 2, symbol * 2 + 1, (long long)(net / STEP));
    violation("F%u: positions %d and %d: %lld steps are open, %lld should be", number, symbol * 2, symbol * 2 + 1,
              (long long)(net / STEP), (long long)((long_target - short_target) / STEP));
}

static void judge_book(uint32_t number)
{
    const struct follower *follower = &world->s.followers[number];
    for (uint32_t p = 0; !follower->caps.netting && p < POSITIONS_MAX; p++)
        judge_hedged(number, p);
    for (int symbol = 0; follower->caps.netting && symbol < POSITIONS_MAX / 2; symbol++)
        judge_net(number, symbol);
    for (int i = 0; i < WORKING_MAX; i++)
        if (follower->working[i].is_used && book_of((uint32_t)follower->working[i].position).is_closed)
            violation("F%u: the master has nothing of position %d left, and order %u of it still waits", number,
                      follower->working[i].position, follower->working[i].ticket);
}

/* What the server believes of its legs, against the book. */
static void judge_belief(struct tw_engine *engine)
{
    tw_decimal believed[FOLLOWERS_MAX][POSITIONS_MAX] = {{0}};
    struct tw_slot *slot, *next;
    HASH_ITER(hh, engine->slots, slot, next)
    {
        for (const struct tw_leg *leg = slot->legs; leg != NULL; leg = leg->next) {
            tw_decimal *sum = &believed[slot->id[1] - '0'][leg->position->id[1] - '0'];
            *sum += leg->side == TW_BUY ? leg->held : -leg->held;
        }
    }
    for (uint32_t f = 0; f < world->s.n_followers; f++) {
        const struct follower *follower = &world->s.followers[f];
        /* At a netting account an order whose filling nobody has told of is asked for when it is cancelled or closed;
         * until then the one position is not what the shares add up to. */
        bool is_unseen = false;
        for (int s = 0; s < POSITIONS_MAX / 2; s++)
            if (believed[f][s * 2] + believed[f][s * 2 + 1] != net_of(follower, s) && !is_unseen)
                violation("F%u: symbol %d: the server believes in %lld steps, the broker has %lld", f, s,
                          (long long)((believed[f][s * 2] + believed[f][s * 2 + 1]) / STEP),
                          (long long)(net_of(follower, s) / STEP));
        for (uint32_t p = 0; p < POSITIONS_MAX && !follower->caps.netting; p++)
            if (believed[f][p] != follower->share[p])
                violation("F%u: position %u: the server believes in %lld steps, the broker has %lld", f, p,
                          (long long)(believed[f][p] / STEP), (long long)(follower->share[p] / STEP));
    }
}

static void judge_copy(const struct tw_copy *copy, uint32_t event)
{
    uint32_t number = (uint32_t)(copy->subscription->slot->id[1] - '0');
    const struct intent *intent = &world->s.followers[number].intents[event];
    tw_decimal there = copy->op == TW_OP_OPEN ? intent->opened : intent->closed;
    bool is_trade = copy->op == TW_OP_OPEN || copy->op == TW_OP_CLOSE || copy->op == TW_OP_CANCEL;
    if (!is_trade || (copy->is_skipped && there == 0))
        return;
    if (copy->op != TW_OP_OPEN && world->s.n_power_cuts > 0 && copy->filled < there)
        return; /* all of a position can be closed twice: the power cut took the log of the first time */
    if (world->is_forgetful && copy->filled < there)
        return; /* what was forgotten cannot be told: what is there was taken up, or is gone */
    if (copy->filled != there)
        violation("F%u: the copy of e%u (%s) says that %lld steps were filled, the broker did %lld; state %u, reason %u",
                  number, event, copy_action_word(copy->action), (long long)(copy->filled / STEP),
                  (long long)(there / STEP), copy->state, copy->reason);
}

void judge_end(struct tw_engine *engine)
{
    judge_restart(engine);
    for (uint32_t f = 0; f < world->s.n_followers; f++)
        judge_book(f);
    judge_belief(engine);
    for (uint32_t i = 0; i < world->s.n_events; i++) {
        struct tw_record *record = record_of(engine, i);
        for (uint32_t c = 0; c < record->n_copies; c++)
            judge_copy(&record->copies[c], i);
        tw_record_release(record);
    }
}
