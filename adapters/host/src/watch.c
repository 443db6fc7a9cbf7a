/* watch.c - what a session tells its host, written to whoever watches the account.
 *
 * What is a state (account, quotes, connection) is written as it is when the wire takes it; what happens (a position, an order) waits in
 * a short row, and where that is too short, the watcher is told to take a picture. */
#include "host.h"
#include "translate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef Tradewake__Adapter__V1__WatchAccountResponse update;

/* ---- What the session tells. Thread: any, also while a call of the host is in it. ---- */

static void told(struct guest *guest)
{
    if (guest->watcher != NULL)
        tw_call_post(guest->watcher);
}

static void on_connection(void *context, bool is_connected, const char *why)
{
    struct guest *guest = context;
    pthread_mutex_lock(&guest->lock);
    guest->is_loss_news |= guest->is_connected && !is_connected;
    guest->is_return_news = is_connected && (guest->is_return_news || !guest->is_connected);
    guest->is_connected = is_connected;
    guest->was_told = true;
    snprintf(guest->why, sizeof guest->why, "%s", why != NULL ? why : "");
    guest_openings_post(guest);
    told(guest);
    pthread_mutex_unlock(&guest->lock);
}

static struct listing *listing_of(struct guest *guest, const char *symbol)
{
    for (size_t i = 0; i < guest->n_listings; i++)
        if (strcmp(guest->listings[i].instrument.symbol, symbol) == 0)
            return &guest->listings[i];
    return NULL;
}

static bool is_equal(const struct tw_instrument *a, const struct tw_instrument *b)
{
    return a->volume_min == b->volume_min && a->volume_step == b->volume_step && a->volume_max == b->volume_max &&
           a->contract_size == b->contract_size && a->tick_size == b->tick_size && a->min_notional == b->min_notional &&
           a->stops_distance == b->stops_distance && a->freeze_distance == b->freeze_distance &&
           strcmp(a->base_currency, b->base_currency) == 0 && strcmp(a->profit_currency, b->profit_currency) == 0;
}

/* One that is new, or has changed, is told by opening the session again: the watcher is sent away. */
static void on_instruments(void *context, const struct tw_instrument *instruments, size_t n)
{
    struct guest *guest = context;
    pthread_mutex_lock(&guest->lock);
    struct listing *listings = realloc(guest->listings, (guest->n_listings + n + 1) * sizeof *listings);
    if (listings != NULL)
        guest->listings = listings;
    for (size_t i = 0; listings != NULL && i < n; i++) {
        struct listing *listing = listing_of(guest, instruments[i].symbol);
        bool is_known = listing != NULL && is_equal(&listing->instrument, &instruments[i]);
        if (listing == NULL) {
            listing = &listings[guest->n_listings++];
            *listing = (struct listing){.bid = TW_DECIMAL_UNSET, .ask = TW_DECIMAL_UNSET};
        }
        listing->instrument = instruments[i];
        guest->is_other_market |= !is_known;
    }
    told(guest);
    pthread_mutex_unlock(&guest->lock);
}

static void on_quote(void *context, const char *symbol, tw_decimal bid, tw_decimal ask)
{
    struct guest *guest = context;
    pthread_mutex_lock(&guest->lock);
    struct listing *listing = listing_of(guest, symbol);
    bool is_news = listing != NULL && (listing->bid != bid || listing->ask != ask);
    if (is_news) {
        listing->bid = bid;
        listing->ask = ask;
        listing->is_news = guest->is_quote_news = true;
        told(guest);
    }
    pthread_mutex_unlock(&guest->lock);
}

static void on_account(void *context, const struct tw_account *account)
{
    struct guest *guest = context;
    pthread_mutex_lock(&guest->lock);
    guest->account = *account;
    guest->is_account_news = true;
    told(guest);
    pthread_mutex_unlock(&guest->lock);
}

static void happened(struct guest *guest, const struct happening *happening)
{
    pthread_mutex_lock(&guest->lock);
    if (guest->happenings == NULL)
        guest->happenings = calloc(HAPPENINGS_MAX, sizeof *guest->happenings);
    if (guest->happenings == NULL || guest->n_happenings == HAPPENINGS_MAX) {
        guest->wants_picture = true;
    } else {
        guest->happenings[(guest->first_happening + guest->n_happenings) % HAPPENINGS_MAX] = *happening;
        guest->n_happenings++;
    }
    told(guest);
    pthread_mutex_unlock(&guest->lock);
}

static void on_position(void *context, const struct tw_held_position *position, tw_reason reason)
{
    happened(context, &(struct happening){.kind = HAPPENED_POSITION, .reason = reason, .position = *position});
}

static void on_order_gone(void *context, const char *order_id, const char *client_order_id, const char *position_id)
{
    struct happening happening = {.kind = HAPPENED_ORDER_GONE};
    snprintf(happening.order_id, sizeof happening.order_id, "%s", order_id);
    snprintf(happening.client_order_id, sizeof happening.client_order_id, "%s", client_order_id);
    snprintf(happening.position_id, sizeof happening.position_id, "%s", position_id);
    happened(context, &happening);
}

static void on_market_open(void *context)
{
    happened(context, &(struct happening){.kind = HAPPENED_MARKET_OPEN});
}

void session_host_fill(struct guest *guest, struct tw_session_host *ret)
{
    *ret = (struct tw_session_host){
        .context = guest,
        .on_connection = on_connection,
        .on_instruments = on_instruments,
        .on_quote = on_quote,
        .on_account = on_account,
        .on_position = on_position,
        .on_order_gone = on_order_gone,
        .on_market_open = on_market_open,
    };
}

/* ---- One message. ---- */

/* All that a message may point to. */
struct message {
    update update;
    Google__Protobuf__Timestamp at;
    Tradewake__Adapter__V1__SnapshotRequired required;
    Tradewake__Adapter__V1__AccountHeartbeat heartbeat;
    Tradewake__Adapter__V1__OrderUpdate order;
    Tradewake__Adapter__V1__PositionUpdate position;
    Tradewake__Adapter__V1__ConnectionUpdate connection;
    Tradewake__Adapter__V1__QuoteUpdate quote;
    Tradewake__Adapter__V1__MarketOpened market;
    Tradewake__Adapter__V1__ExecuteResponse state;
    struct account_message account;
    struct position_message held;
    struct happening happening;
    char epoch[TOKEN_BYTES], why[WHY_BYTES], symbol[TW_SYMBOL_BYTES], numbers[2][TW_DECIMAL_TEXT_BYTES];
};

#define PAYLOAD(name) TRADEWAKE__ADAPTER__V1__WATCH_ACCOUNT_RESPONSE__PAYLOAD_##name

static void happening_fill(struct message *message)
{
    const struct happening *happening = &message->happening;
    switch (happening->kind) {
    case HAPPENED_POSITION:
        tradewake__adapter__v1__position_update__init(&message->position);
        host_position_fill(&happening->position, &message->held);
        message->position.position = &message->held.position;
        message->position.closed = happening->position.volume == 0;
        message->update.payload_case = PAYLOAD(POSITION);
        message->update.position = &message->position;
        break;
    case HAPPENED_ORDER_GONE:
        tradewake__adapter__v1__order_update__init(&message->order);
        tradewake__adapter__v1__execute_response__init(&message->state);
        message->state.order_id = message->happening.order_id;
        message->state.position_id = message->happening.position_id;
        /* How much, the position says; here it is whether. */
        message->state.filled_volume = (char *)(uintptr_t)(happening->position_id[0] != '\0' ? "0.00000001" : "0");
        message->order.client_order_id = message->happening.client_order_id;
        message->order.state = &message->state;
        message->order.terminal = true;
        message->update.payload_case = PAYLOAD(ORDER);
        message->update.order = &message->order;
        break;
    case HAPPENED_MARKET_OPEN:
        tradewake__adapter__v1__market_opened__init(&message->market);
        message->update.payload_case = PAYLOAD(MARKET_OPENED);
        message->update.market_opened = &message->market;
        break;
    }
}

static void required_fill(struct guest *guest, struct message *message)
{
    tradewake__adapter__v1__snapshot_required__init(&message->required);
    message->required.epoch = message->epoch;
    message->required.why = (char *)(uintptr_t)"what came before is not kept";
    message->update.payload_case = PAYLOAD(SNAPSHOT_REQUIRED);
    message->update.snapshot_required = &message->required;
    guest->n_happenings = 0; /* a picture tells of it */
}

static void connection_fill(const struct guest *guest, bool is_connected, struct message *message)
{
    tradewake__adapter__v1__connection_update__init(&message->connection);
    memcpy(message->why, guest->why, sizeof message->why);
    message->connection.connected = is_connected;
    message->connection.why = message->why;
    message->update.payload_case = PAYLOAD(CONNECTION);
    message->update.connection = &message->connection;
}

/* False: no quote is news. */
static bool quote_fill(struct guest *guest, struct message *message)
{
    size_t i = 0;
    while (i < guest->n_listings && !guest->listings[i].is_news)
        i++;
    guest->is_quote_news = i < guest->n_listings;
    if (!guest->is_quote_news)
        return false;
    struct listing *listing = &guest->listings[i];
    listing->is_news = false;
    tradewake__adapter__v1__quote_update__init(&message->quote);
    memcpy(message->symbol, listing->instrument.symbol, sizeof message->symbol);
    message->quote.symbol = message->symbol;
    message->quote.bid = tw_decimal_text(listing->bid, message->numbers[0]);
    message->quote.ask = tw_decimal_text(listing->ask, message->numbers[1]);
    message->update.payload_case = PAYLOAD(QUOTE);
    message->update.quote = &message->quote;
    return true;
}

/* The next one, in its order. False: there is none. Under guest->lock. */
static bool message_next(struct guest *guest, struct message *message)
{
    if (guest->wants_picture) {
        guest->wants_picture = false;
        required_fill(guest, message);
    } else if (guest->n_happenings > 0) {
        message->happening = guest->happenings[guest->first_happening];
        guest->first_happening = (guest->first_happening + 1) % HAPPENINGS_MAX;
        guest->n_happenings--;
        happening_fill(message);
    } else if (guest->is_loss_news) {
        guest->is_loss_news = false;
        connection_fill(guest, false, message);
    } else if (guest->is_return_news) {
        guest->is_return_news = false;
        connection_fill(guest, true, message);
    } else if (guest->is_account_news) {
        guest->is_account_news = false;
        host_account_fill(&guest->account, &message->account);
        message->update.payload_case = PAYLOAD(ACCOUNT);
        message->update.account = &message->account.state;
    } else if (guest->is_beat_due) {
        guest->is_beat_due = false;
        tradewake__adapter__v1__account_heartbeat__init(&message->heartbeat);
        message->heartbeat.last_sequence = guest->sequence;
        message->update.payload_case = PAYLOAD(HEARTBEAT);
        message->update.heartbeat = &message->heartbeat;
        return true; /* not counted */
    } else if (!guest->is_quote_news || !quote_fill(guest, message)) {
        return false;
    }
    message->update.sequence = message->update.payload_case == PAYLOAD(SNAPSHOT_REQUIRED) ? 0 : ++guest->sequence;
    return true;
}

/* ---- Thread: call. ---- */

enum next { NEXT_NOTHING, NEXT_MESSAGE, NEXT_END };

static enum next next_take(struct guest *guest, struct tw_call *call, struct message *message)
{
    enum next next = NEXT_END; /* another watches */
    guest_id_text(guest, message->epoch);
    pthread_mutex_lock(&guest->lock);
    if (guest->watcher == call && !guest->is_other_market)
        next = message_next(guest, message) ? NEXT_MESSAGE : NEXT_NOTHING;
    pthread_mutex_unlock(&guest->lock);
    return next;
}

void on_watch_news(struct tw_call *call)
{
    struct guest *guest = tw_call_data(call);
    while (guest != NULL && tw_call_is_writable(call)) {
        struct message message;
        tradewake__adapter__v1__watch_account_response__init(&message.update);
        enum next next = next_take(guest, call, &message);
        if (next == NEXT_NOTHING)
            return;
        if (next == NEXT_END) {
            tw_call_end(call);
            return;
        }
        host_timestamp_fill(tw_wall_ns(), &message.at);
        message.update.at = &message.at;
        tw_call_write(call, &message.update.base, false);
    }
}

void on_watch_timer(struct tw_call *call)
{
    struct guest *guest = tw_call_data(call);
    if (guest == NULL)
        return;
    pthread_mutex_lock(&guest->lock);
    guest->is_beat_due |= guest->watcher == call;
    pthread_mutex_unlock(&guest->lock);
    tw_call_timer_set(call, tw_mono_ns() + HEARTBEAT_NS);
    on_watch_news(call);
}

void on_watch(struct tw_call *call, const ProtobufCMessage *request, const struct tw_refusal *invalid)
{
    const Tradewake__Adapter__V1__WatchAccountRequest *wanted = (const void *)request;
    struct guest *guest = guest_of(host_here, wanted->session_id);
    (void)invalid;
    if (guest == NULL) {
        struct tw_refusal refusal;
        tw_refuse(&refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_NOT_FOUND, NULL, "no such session: OpenSession first");
        tw_call_refuse(call, &refusal);
        return;
    }
    tw_call_data_set(call, guest);
    (void)tw_call_ref(call);
    pthread_mutex_lock(&guest->lock);
    if (guest->watcher != NULL)
        tw_call_post(guest->watcher); /* it sees that it is another's turn */
    guest->watcher = call;
    guest->wants_picture = true;
    guest->is_other_market = false; /* it has just asked for all of it */
    pthread_mutex_unlock(&guest->lock);
    tw_call_timer_set(call, tw_mono_ns() + HEARTBEAT_NS);
    on_watch_news(call);
}

void on_watch_finished(struct tw_call *call, bool cancelled)
{
    struct guest *guest = tw_call_data(call);
    (void)cancelled;
    if (guest == NULL)
        return;
    tw_call_data_set(call, NULL);
    pthread_mutex_lock(&guest->lock);
    if (guest->watcher == call)
        guest->watcher = NULL;
    pthread_mutex_unlock(&guest->lock);
    tw_call_unref(call);
    guest_drop(guest);
}
