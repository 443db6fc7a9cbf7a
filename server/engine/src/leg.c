/* leg.c - a follower's share of a master's position: what it holds, under which tickets, until nothing is left of it.
 *
 * All of it under the slot's mutex. */
#include "copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void leg_close(struct tw_leg *leg)
{
    if (leg->is_closed)
        return;
    struct tw_slot *slot = leg->slot;
    leg->is_closed = true;
    leg->listing->open_volume -= leg->wanted > leg->held ? leg->wanted : leg->held;
    leg->wanted = leg->held = 0;
    slot->open_positions--;
    atomic_fetch_sub_explicit(&leg->position->busy, 1, memory_order_release); /* who closes it holds it in another way */
    if (leg->previous != NULL)
        leg->previous->next = leg->next;
    else
        slot->legs = leg->next;
    if (leg->next != NULL)
        leg->next->previous = leg->previous;
}

void leg_reopen(struct tw_leg *leg, tw_decimal volume)
{
    struct tw_slot *slot = leg->slot;
    leg->is_closed = false;
    leg->wanted = volume;
    leg->listing->open_volume += volume;
    leg->previous = NULL;
    leg->next = slot->legs;
    if (slot->legs != NULL)
        slot->legs->previous = leg;
    slot->legs = leg;
    slot->open_positions++;
    atomic_fetch_add_explicit(&leg->position->busy, 1, memory_order_relaxed);
}

bool leg_has_ticket(const struct tw_leg *leg, const char *ticket)
{
    if (strcmp(leg->ticket, ticket) == 0)
        return true;
    for (const struct older_ticket *older = leg->older; older != NULL; older = older->next)
        if (strcmp(older->id, ticket) == 0)
            return true;
    return false;
}

bool leg_is_of(const struct tw_leg *leg, const char *client_order_id)
{
    return client_order_id[0] != '\0' && (strcmp(leg->open_order_id, client_order_id) == 0 ||
                                          strcmp(leg->open_copy_id, client_order_id) == 0);
}

void leg_filled(struct tw_leg *leg, tw_decimal volume, const char *position_id)
{
    leg->is_pending = false;
    leg->was_open = true;
    leg->filled = leg->held = leg->ticket_held = volume;
    snprintf(leg->ticket, sizeof leg->ticket, "%s", position_id);
    leg_unsettle(leg);
    if (leg->slot->caps.netting) {
        net_stops_take(leg);
        net_changed(leg->slot, leg->listing);
    }
}

struct tw_leg *leg_of_order(const struct tw_slot *slot, const char *client_order_id)
{
    struct tw_leg *leg = slot->legs;
    while (leg != NULL && (!leg->is_pending || strcmp(leg->open_order_id, client_order_id) != 0))
        leg = leg->next;
    return leg;
}

bool leg_order_asked(struct tw_leg *leg, const struct tw_ack *ack)
{
    switch (ack->outcome) {
    case TW_OUTCOME_ACCEPTED:
        return true;
    case TW_OUTCOME_DONE:
    case TW_OUTCOME_PARTIAL:
    case TW_OUTCOME_REJECTED:
        break;
    default:
        return false;
    }
    leg_dirty(leg);
    if (ack->filled_volume > 0)
        leg_filled(leg, ack->filled_volume, ack->position_id);
    else
        leg_close(leg); /* a hand, or the broker, has cancelled it */
    return true;
}

void leg_tickets_clear(struct tw_leg *leg)
{
    while (leg->older != NULL) {
        struct older_ticket *next = leg->older->next;
        free(leg->older);
        leg->older = next;
    }
}

/* The leg is about to hold another position: the one it has now steps back. */
void leg_ticket_push(struct tw_leg *leg)
{
    struct older_ticket *older = malloc(sizeof *older);
    if (older == NULL) /* a position that nobody would close must not come to be */
        abort();
    memcpy(older->id, leg->ticket, sizeof older->id);
    older->held = leg->ticket_held;
    older->next = leg->older;
    leg->older = older;
    leg->ticket_held = 0;
}

/* Nothing is left under the ticket: the one before it comes forward. */
static void leg_ticket_pop(struct tw_leg *leg)
{
    struct older_ticket *older = leg->older;
    leg->ticket_held = 0;
    if (older == NULL)
        return;
    memcpy(leg->ticket, older->id, sizeof leg->ticket);
    leg->ticket_held = older->held;
    leg->older = older->next;
    free(older);
}

void leg_ticket_rename(struct tw_leg *leg, const char *from, const char *to)
{
    char *ticket = leg->ticket;
    for (struct older_ticket *older = leg->older; older != NULL && strcmp(ticket, from) != 0; older = older->next)
        ticket = older->id;
    if (strcmp(ticket, from) != 0 || strcmp(from, to) == 0)
        return;
    leg_dirty(leg);
    snprintf(ticket, TW_BROKER_ID_BYTES, "%s", to); /* from may be this very text: not used any more */
}

void leg_ticket_reduce(struct tw_leg *leg, const char *ticket, tw_decimal volume)
{
    if (strcmp(leg->ticket, ticket) == 0) {
        tw_decimal less = leg->ticket_held - volume;
        if (less <= 0)
            return;
        leg->ticket_held = volume;
        leg_reduce(leg, leg->held - less);
        if (volume <= 0 && !leg->is_closed)
            leg_ticket_pop(leg);
        return;
    }
    for (struct older_ticket **at = &leg->older; *at != NULL; at = &(*at)->next) {
        struct older_ticket *older = *at;
        if (strcmp(older->id, ticket) != 0 || older->held <= volume)
            continue;
        tw_decimal less = older->held - volume;
        older->held = volume;
        if (volume <= 0) {
            *at = older->next;
            free(older);
        }
        leg_reduce(leg, leg->held - less);
        return;
    }
}

void leg_reduce(struct tw_leg *leg, tw_decimal volume)
{
    if (leg->is_closed || volume >= leg->held)
        return;
    leg_dirty(leg);
    tw_decimal less = leg->held - volume;
    leg->held = volume;
    leg->wanted -= less < leg->wanted ? less : leg->wanted;
    leg->listing->open_volume -= less;
    if (volume <= 0)
        leg_close(leg);
}

/* So much less is held under one of its tickets, which may have another name now. */
void leg_ticket_close(struct tw_leg *leg, const char *ticket, tw_decimal closed, const char *remainder)
{
    for (struct older_ticket **at = &leg->older; *at != NULL; at = &(*at)->next) {
        struct older_ticket *older = *at;
        if (strcmp(older->id, ticket) != 0)
            continue;
        older->held -= closed < older->held ? closed : older->held;
        if (remainder[0] != '\0')
            memcpy(older->id, remainder, sizeof older->id);
        if (older->held == 0) {
            *at = older->next;
            free(older);
        }
        return;
    }
    if (remainder[0] != '\0')
        memcpy(leg->ticket, remainder, sizeof leg->ticket);
    leg->ticket_held -= closed < leg->ticket_held ? closed : leg->ticket_held;
    if (leg->ticket_held == 0 && leg->held > 0)
        leg_ticket_pop(leg);
}

tw_decimal leg_ticket_holds(const struct tw_leg *leg, const char *ticket)
{
    if (strcmp(leg->ticket, ticket) == 0)
        return leg->ticket_held;
    for (const struct older_ticket *older = leg->older; older != NULL; older = older->next)
        if (strcmp(older->id, ticket) == 0)
            return older->held;
    return 0;
}

/* One of its positions is not there any more; with the last one the leg is closed. */
void leg_ticket_gone(struct tw_leg *leg, const char *ticket)
{
    if (leg->older == NULL || ticket[0] == '\0')
        leg_close(leg);
    else
        leg_ticket_reduce(leg, ticket, 0);
}

/* The leg's positions, newest first; NULL: it has no more. */
const char *leg_ticket_at(const struct tw_leg *leg, uint32_t n)
{
    const struct older_ticket *older = leg->older;
    if (n == 0)
        return leg->ticket;
    for (uint32_t i = 1; older != NULL && i < n; i++)
        older = older->next;
    return older != NULL ? older->id : NULL;
}

/* A leg is never written without the copies that made it what it is: else their answers would be taken
 * up a second time after a crash. */
void applied_note(struct tw_copy *copy)
{
    copy->is_applied_anew = true;
    if (copy->is_applied)
        return;
    copy->is_applied = true;
    copy->next_applied = copy->leg->applied;
    copy->leg->applied = copy;
}

void applied_forget(struct tw_copy *copy)
{
    if (!copy->is_applied)
        return;
    copy->is_applied = false;
    struct tw_copy **at = &copy->leg->applied;
    while (*at != copy)
        at = &(*at)->next_applied;
    *at = copy->next_applied;
}
