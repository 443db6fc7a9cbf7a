/* watch.c - what happens at the broker, as the bridge tells it. */
#include "remote.h"
#include "translate.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/log.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A bridge that says nothing for so many heartbeats is not there. */
enum { HEARTBEATS_MISSED = 3 };

typedef const Tradewake__Adapter__V1__WatchAccountResponse update;

/* ---- Pending orders. ---- */

void remote_working_clear(struct session *session)
{
    while (session->working != NULL) {
        struct working *working = session->working;
        session->working = working->next;
        free(working);
    }
}

static struct working *working_take(struct session *session, const char *order_id)
{
    struct working **at = &session->working;
    while (*at != NULL && strcmp((*at)->order_id, order_id) != 0)
        at = &(*at)->next;
    struct working *working = *at;
    if (working != NULL)
        *at = working->next;
    return working;
}

void remote_working_add(struct session *session, const char *order_id, const char *client_order_id)
{
    free(working_take(session, order_id));
    struct working *working = calloc(1, sizeof *working);
    if (working == NULL)
        return; /* its end is not told then; the host's own reading of the account shows it */
    snprintf(working->order_id, sizeof working->order_id, "%s", order_id);
    snprintf(working->client_order_id, sizeof working->client_order_id, "%s", client_order_id);
    working->next = session->working;
    session->working = working;
}

/* ---- Positions, as they were last told. ---- */

void remote_known_clear(struct session *session)
{
    while (session->known != NULL) {
        struct known *known = session->known;
        session->known = known->next;
        free(known);
    }
}

static void position_tell(struct session *session, const struct tw_held_position *position, bool is_closed)
{
    if (!remote_tell_begin(session))
        return;
    session->host.on_position(session->host.context, position, is_closed ? REASON(ALREADY_CLOSED) : REASON(UNSPECIFIED));
    remote_tell_end(session);
}

static const char *position_key(const struct tw_held_position *position)
{
    return position->position_id[0] != '\0' ? position->position_id : position->symbol;
}

static struct known **known_find(struct session *session, const struct tw_held_position *position)
{
    struct known **at = &session->known;
    while (*at != NULL && strcmp(position_key(&(*at)->position), position_key(position)) != 0)
        at = &(*at)->next;
    return at;
}

/* Keeps it. Returns whether it is another than before. */
static bool known_keep(struct session *session, const struct tw_held_position *position)
{
    struct known **at = known_find(session, position), *known = *at;
    bool is_other = known == NULL || known->position.volume != position->volume ||
                    known->position.stop_loss != position->stop_loss ||
                    known->position.take_profit != position->take_profit;
    if (position->volume == 0) {
        if (known != NULL)
            *at = known->next;
        free(known);
        return true;
    }
    if (known == NULL) {
        known = calloc(1, sizeof *known);
        if (known == NULL)
            return true;
        *at = known;
    }
    known->position = *position;
    known->is_there = true;
    return is_other;
}

/* A picture after a gap: what changed meanwhile is told. The first picture changes nothing. */
static void picture_tell(struct session *session, const struct tw_snapshot *snapshot, bool is_first)
{
    for (struct known *known = session->known; known != NULL; known = known->next)
        known->is_there = false;
    for (size_t i = 0; i < snapshot->n_positions; i++)
        if (known_keep(session, &snapshot->positions[i]) && !is_first)
            position_tell(session, &snapshot->positions[i], false);
    for (struct known **at = &session->known; *at != NULL;) {
        struct known *known = *at;
        if (known->is_there) {
            at = &known->next;
            continue;
        }
        *at = known->next;
        known->position.volume = 0;
        if (!is_first)
            position_tell(session, &known->position, true);
        free(known);
    }
}

static void on_picture(struct session *session, uint32_t index, const ProtobufCMessage *message)
{
    const Tradewake__Adapter__V1__SnapshotResponse *response = (const void *)message;
    struct tw_snapshot snapshot;
    bool is_first = !session->is_told_up;
    (void)index;
    if (strcmp(response->epoch, session->epoch) != 0 || !remote_snapshot_from_response(response, tw_wall_ns(), &snapshot)) {
        remote_session_fail(session, strcmp(response->epoch, session->epoch) != 0 ? "the snapshot is of another epoch"
                                                                           : "the snapshot is not whole");
        return;
    }
    session->count.last = response->sequence;
    session->account = snapshot.account;
    session->has_account = true;
    pthread_mutex_lock(&session->remote->lock);
    remote_working_clear(session);
    for (size_t i = 0; i < snapshot.n_orders; i++)
        remote_working_add(session, snapshot.orders[i].order_id, snapshot.orders[i].client_order_id);
    pthread_mutex_unlock(&session->remote->lock);
    picture_tell(session, &snapshot, is_first);
    tw_snapshot_clear(&snapshot);
    session->heard_mono_ns = tw_mono_ns();
    session->is_at_broker = true; /* as far as it is known: who is not has no picture */
    pthread_mutex_lock(&session->remote->lock);
    struct tw_wire_pending *stream = session->stream;
    pthread_mutex_unlock(&session->remote->lock);
    remote_session_up(session);
    if (stream != NULL)
        tw_wire_watch_read_on(stream); /* it is there until its end is heard, on this thread */
}

/* Nothing is read from the stream before the picture is there. */
static void picture_ask(struct session *session)
{
    Tradewake__Adapter__V1__SnapshotRequest request;
    tradewake__adapter__v1__snapshot_request__init(&request);
    request.session_id = session->session_id;
    session->phase = PHASE_SNAPSHOT;
    remote_session_ask(session, METHOD("Snapshot"), &request.base, 0, on_picture);
}

/* ---- One update. ---- */

static void take_order(struct session *session, update *message)
{
    const Tradewake__Adapter__V1__OrderUpdate *order = message->order;
    if (!order->terminal || order->state == NULL)
        return;
    pthread_mutex_lock(&session->remote->lock);
    struct working *working = working_take(session, order->state->order_id);
    pthread_mutex_unlock(&session->remote->lock);
    if (working == NULL)
        return; /* an order of a call: its answer or a look-up tells what became of it */
    tw_decimal filled;
    bool has_filled = !tw_decimal_parse(order->state->filled_volume, &filled) || filled > 0;
    bool is_told = has_filled == (order->state->position_id[0] != '\0');
    if (is_told && remote_tell_begin(session)) {
        session->host.on_order_gone(session->host.context, working->order_id, working->client_order_id,
                                    order->state->position_id);
        remote_tell_end(session);
    }
    free(working);
}

static void take_position(struct session *session, update *message)
{
    struct tw_held_position position;
    const Tradewake__Adapter__V1__PositionUpdate *told = message->position;
    if (told->position == NULL || !remote_position_from_message(told->position, &position))
        return;
    if (told->closed)
        position.volume = 0;
    else if (position.volume == 0)
        return; /* neither closed nor anything: the host's own reading shows what it is */
    (void)known_keep(session, &position);
    position_tell(session, &position, told->closed);
}

static void take_connection(struct session *session, update *message)
{
    bool is_at_broker = message->connection->connected;
    if (is_at_broker == session->is_at_broker)
        return;
    session->is_at_broker = is_at_broker;
    pthread_mutex_lock(&session->remote->lock);
    session->is_up = is_at_broker;
    pthread_mutex_unlock(&session->remote->lock);
    if (!remote_tell_begin(session))
        return;
    session->is_told_up = is_at_broker;
    session->host.on_connection(session->host.context, is_at_broker, is_at_broker ? "" : message->connection->why);
    remote_tell_end(session);
}

static void take_quote(struct session *session, update *message)
{
    const Tradewake__Adapter__V1__QuoteUpdate *quote = message->quote;
    tw_decimal bid, ask;
    bool is_quote = tw_decimal_parse(quote->bid, &bid) && tw_decimal_parse(quote->ask, &ask) &&
                    bid != TW_DECIMAL_UNSET && ask != TW_DECIMAL_UNSET && bid > 0 && ask >= bid;
    if (!is_quote || strlen(quote->symbol) >= TW_SYMBOL_BYTES || !remote_tell_begin(session))
        return;
    session->host.on_quote(session->host.context, quote->symbol, bid, ask);
    remote_tell_end(session);
}

static void take_account(struct session *session, update *message)
{
    struct tw_account account;
    if (!remote_account_from_message(message->account, &account) || !remote_tell_begin(session))
        return;
    session->host.on_account(session->host.context, &account);
    remote_tell_end(session);
}

static void take_market(struct session *session, update *message)
{
    (void)message;
    if (!remote_tell_begin(session))
        return;
    session->host.on_market_open(session->host.context);
    remote_tell_end(session);
}

#define PAYLOAD(name) TRADEWAKE__ADAPTER__V1__WATCH_ACCOUNT_RESPONSE__PAYLOAD_##name

static void (*const takes[])(struct session *session, update *message) = {
    [PAYLOAD(ORDER)] = take_order, [PAYLOAD(POSITION)] = take_position, [PAYLOAD(CONNECTION)] = take_connection,
    [PAYLOAD(QUOTE)] = take_quote, [PAYLOAD(ACCOUNT)] = take_account,   [PAYLOAD(MARKET_OPENED)] = take_market,
};

/* The first message. Returns whether the next one may be read. */
static bool first_take(struct session *session, update *message)
{
    bool is_resumed = message->payload_case == PAYLOAD(RESUMED) && strcmp(message->resumed->epoch, session->epoch) == 0;
    if (is_resumed && session->count.last > 0) {
        (void)count_update(&session->count, message->sequence, false);
        remote_session_up(session);
        return true;
    }
    const char *epoch = message->payload_case == PAYLOAD(SNAPSHOT_REQUIRED) ? message->snapshot_required->epoch
                        : is_resumed                                        ? session->epoch
                                                                            : "";
    if (epoch[0] == '\0' || strlen(epoch) >= TOKEN_BYTES) {
        remote_session_fail(session, "the updates begin neither with Resumed nor with SnapshotRequired");
        return true;
    }
    if (epoch != session->epoch)
        snprintf(session->epoch, sizeof session->epoch, "%s", epoch);
    picture_ask(session);
    return false;
}

static bool gap(struct session *session, update *message)
{
    static struct tw_log_pace pace;
    if (tw_log_paced(&pace, "bridge.gap"))
        tw_log(TW_LOG_WARN, "bridge.gap", "bridge=%s account=\"%s\" last=%llu came=%llu do=\"taking a snapshot\"",
               session->bridge->name, session->account_key, (unsigned long long)session->count.last,
               (unsigned long long)message->sequence);
    picture_ask(session);
    return false;
}

static bool next_take(struct session *session, update *message)
{
    unsigned payload = (unsigned)message->payload_case;
    if (message->payload_case == PAYLOAD(SNAPSHOT_REQUIRED)) {
        return first_take(session, message);
    }
    bool is_counted = message->payload_case != PAYLOAD(HEARTBEAT) && message->payload_case != PAYLOAD(RESUMED);
    enum count_verdict verdict = count_update(&session->count, message->sequence, is_counted);
    if (verdict == COUNT_NEXT && message->payload_case == PAYLOAD(HEARTBEAT))
        verdict = count_heartbeat(&session->count, message->heartbeat->last_sequence);
    if (verdict == COUNT_GAP)
        return gap(session, message);
    if (verdict == COUNT_NEXT && payload < sizeof takes / sizeof takes[0] && takes[payload] != NULL)
        takes[payload](session, message);
    return true;
}

static bool on_message(void *context, const ProtobufCMessage *message)
{
    struct question *question = context;
    struct session *session = question->session;
    update *told = (update *)(const void *)message;
    if (session->is_closing || session->life != question->life)
        return true; /* cancelled already: it ends */
    session->heard_mono_ns = tw_mono_ns();
    return session->phase == PHASE_WATCHING ? first_take(session, told) : next_take(session, told);
}

static void on_end(void *context, const struct tw_wire_answer *answer)
{
    struct question *question = context;
    struct session *session = question->session;
    pthread_mutex_lock(&session->remote->lock);
    bool is_mine = session->life == question->life, is_wanted = is_mine && !session->is_closing;
    if (is_mine) /* who is closing it must not cancel what has ended */
        session->stream = NULL;
    pthread_mutex_unlock(&session->remote->lock);
    if (is_wanted)
        remote_session_cut(session, answer);
    free(question);
    remote_session_back(session);
}

/* ---- The stream. ---- */

void remote_watch_begin(struct session *session)
{
    static const struct tw_wire_watch watch = {on_message, on_end};
    struct remote *remote = session->remote;
    struct tw_error error = {{"no memory for the updates"}};
    Tradewake__Adapter__V1__WatchAccountRequest request;
    tradewake__adapter__v1__watch_account_request__init(&request);
    request.session_id = session->session_id;
    request.epoch = session->count.last > 0 ? session->epoch : (char *)(uintptr_t)"";
    request.resume_after = session->count.last;
    session->heard_mono_ns = tw_mono_ns();
    struct question *question = malloc(sizeof *question);
    tw_status status = TW_NO_MEMORY;
    pthread_mutex_lock(&remote->lock);
    if (question != NULL && !session->is_closing) {
        *question = (struct question){session, session->life, 0, NULL};
        status = tw_wire_watch_begin(session->bridge->channel, METHOD("WatchAccount"), &request.base, &watch, question,
                                     &session->stream, &error);
        session->n_out += status == TW_OK;
    }
    pthread_mutex_unlock(&remote->lock);
    if (status == TW_OK)
        return;
    free(question);
    remote_session_fail(session, error.text);
}

void remote_watch_check(struct session *session, int64_t now_mono_ns)
{
    bool is_listening = session->phase == PHASE_WATCHING || session->phase == PHASE_UP;
    if (!is_listening || session->bridge->can == NULL)
        return;
    int64_t patience = ASK_NS;
    if (session->phase == PHASE_UP) {
        int64_t heartbeat = remote_duration_ns(session->bridge->can->heartbeat);
        if (heartbeat == 0 || heartbeat > INT64_MAX / 8)
            return;
        patience = HEARTBEATS_MISSED * heartbeat + TW_NS_PER_S;
    }
    if (now_mono_ns - session->heard_mono_ns > patience)
        remote_session_fail(session, "the bridge says nothing any more");
}
