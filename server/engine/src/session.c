/* session.c - what a broker tells without being asked, taken into the follower's slot.
 *
 * Called on the adapter's threads: each takes the slot's lock for a few lines and never calls back. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

static void on_connection(void *context, bool is_connected, const char *why)
{
    struct tw_slot *slot = context;
    pthread_mutex_lock(&slot->mutex);
    bool changed = slot->is_connected != is_connected;
    slot->is_connected = is_connected;
    if (changed && is_connected)
        slot->connected_since_wall_ns = tw_wall_ns();
    snprintf(slot->connection_message, sizeof slot->connection_message, "%s",
             is_connected || why == NULL ? "" : why);
    if (changed) {
        if (is_connected)
            atomic_fetch_add_explicit(&slot->engine->n_connected, 1, memory_order_relaxed);
        else
            atomic_fetch_sub_explicit(&slot->engine->n_connected, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&slot->mutex);
    if (changed && is_connected) {
        copy_wake_parked(slot);
        reconcile_begin(slot);
    }
}

static void on_instruments(void *context, const struct tw_instrument *instruments, size_t n)
{
    struct tw_slot *slot = context;
    pthread_mutex_lock(&slot->mutex);
    bool kept = tw_market_tell(&slot->market, instruments, n, &slot->rules);
    pthread_mutex_unlock(&slot->mutex);
    (void)kept; /* without memory the symbol stays unknown: opens of it are skipped */
}

static void on_quote(void *context, const char *symbol, tw_decimal bid, tw_decimal ask)
{
    struct tw_slot *slot = context;
    pthread_mutex_lock(&slot->mutex);
    bool kept = tw_market_quote(&slot->market, symbol, bid, ask);
    pthread_mutex_unlock(&slot->mutex);
    (void)kept;
}

static void on_account(void *context, const struct tw_account *account)
{
    struct tw_slot *slot = context;
    pthread_mutex_lock(&slot->mutex);
    slot->account = *account;
    risk_look(slot, tw_wall_ns());
    pthread_mutex_unlock(&slot->mutex);
    slot_dirty_push(slot);
}

static struct tw_leg *leg_by_ticket(const struct tw_slot *slot, const char *ticket)
{
    for (struct tw_leg *leg = slot->legs; leg != NULL; leg = leg->next)
        if (leg_has_ticket(leg, ticket))
            return leg;
    return NULL;
}

/* A netting account's one position of a symbol is gone: so is every share of it. A change in size that
 * was not ours is nobody's share: the comparison with the broker shows it. */
static void net_position(struct tw_slot *slot, const struct tw_held_position *position, bool is_closed)
{
    for (struct tw_leg *leg = slot->legs, *next; leg != NULL; leg = next) {
        next = leg->next;
        if (strcmp(leg->listing->instrument.symbol, position->symbol) != 0 || leg->held <= 0)
            continue;
        if (position->volume == 0 && is_closed)
            leg_reduce(leg, 0);
        leg->stop_loss = position->stop_loss == TW_DECIMAL_UNSET ? 0 : position->stop_loss;
        leg->take_profit = position->take_profit == TW_DECIMAL_UNSET ? 0 : position->take_profit;
    }
}

static void hedged_position(struct tw_slot *slot, const struct tw_held_position *position)
{
    struct tw_leg *leg = position->position_id[0] != '\0' ? leg_by_ticket(slot, position->position_id)
                                                          : NULL;
    if (leg == NULL && position->from_position_id[0] != '\0') {
        leg = leg_by_ticket(slot, position->from_position_id);
        if (leg != NULL)
            leg_ticket_rename(leg, position->from_position_id, position->position_id);
    }
    if (leg == NULL || leg->is_pending)
        return;
    leg->stop_loss = position->stop_loss == TW_DECIMAL_UNSET ? 0 : position->stop_loss;
    leg->take_profit = position->take_profit == TW_DECIMAL_UNSET ? 0 : position->take_profit;
    tw_decimal held = leg->held;
    leg_ticket_reduce(leg, position->position_id, position->volume);
    leg->n_told += leg->held < held;
}

static void on_position(void *context, const struct tw_held_position *position, tw_reason reason)
{
    struct tw_slot *slot = context;
    pthread_mutex_lock(&slot->mutex);
    slot->answers++;
    if (slot->caps.netting)
        /* A pending of ours that fills against the position brings it to zero, too: that is no close. */
        net_position(slot, position, reason == REASON(ALREADY_CLOSED));
    else
        hedged_position(slot, position);
    pthread_mutex_unlock(&slot->mutex);
    slot_dirty_push(slot);
}

/* Filled: it is the position it became; or expired, or cancelled by a hand. */
static void on_order_gone(void *context, const char *order_id, const char *client_order_id,
                          const char *position_id)
{
    struct tw_slot *slot = context;
    pthread_mutex_lock(&slot->mutex);
    slot->answers++;
    struct tw_leg *leg = leg_by_ticket(slot, order_id);
    if (leg == NULL) /* it filled before its own answer was taken up */
        for (leg = slot->legs; leg != NULL; leg = leg->next)
            if (leg_is_of(leg, client_order_id))
                break;
    if (leg != NULL)
        leg_dirty(leg);
    if (leg != NULL && position_id[0] == '\0') {
        leg_close(leg);
    } else if (leg != NULL && leg->filled == 0) {
        leg_filled(leg, leg->placed, position_id);
    }
    pthread_mutex_unlock(&slot->mutex);
    slot_dirty_push(slot);
    settle_begin(slot);
}

static void on_market_open(void *context)
{
    copy_wake_parked(context);
}

void session_host_init(struct tw_slot *slot, struct tw_session_host *ret)
{
    *ret = (struct tw_session_host){
        .context = slot,
        .on_connection = on_connection,
        .on_instruments = on_instruments,
        .on_quote = on_quote,
        .on_account = on_account,
        .on_position = on_position,
        .on_order_gone = on_order_gone,
        .on_market_open = on_market_open,
    };
}
