/* paper_fixture.h - one paper account, its host, and short words for calls; for the unit tests. */
#ifndef PAPER_FIXTURE_H
#define PAPER_FIXTURE_H

#include <tradewake/adapters/paper.h>
#include <tradewake/base/clock.h>

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON(name) TRADEWAKE__V1__REASON__REASON_##name
#define UNSET        TW_DECIMAL_UNSET

/* What the host of a session was told. The adapter tells from any thread. */
struct heard {
    pthread_mutex_t lock;
    bool is_connected;
    int connections, losses, accounts, quotes, positions, orders_gone, market_opens;
    size_t n_instruments;
    bool account_before_connection, instruments_before_connection;
    struct tw_account account;
    struct tw_held_position position;
    tw_reason reason;
    char quote_symbol[TW_SYMBOL_BYTES];
    tw_decimal bid, ask;
    char gone_order[TW_BROKER_ID_BYTES], gone_client[TW_COPY_ID_BYTES];
    char gone_position[TW_BROKER_ID_BYTES];
};

struct desk {
    void *adapter, *session;
    struct heard heard;
    char follower_id[TW_ID_BYTES];
};

static inline void hear_connection(void *context, bool is_connected, const char *why)
{
    struct heard *heard = context;
    pthread_mutex_lock(&heard->lock);
    (void)why;
    heard->is_connected = is_connected;
    heard->connections += is_connected;
    heard->losses += !is_connected;
    if (is_connected && heard->connections == 1) {
        heard->account_before_connection = heard->accounts > 0;
        heard->instruments_before_connection = heard->n_instruments > 0;
    }
    pthread_mutex_unlock(&heard->lock);
}

static inline void hear_instruments(void *context, const struct tw_instrument *instruments,
                                    size_t n)
{
    struct heard *heard = context;
    (void)instruments;
    pthread_mutex_lock(&heard->lock);
    heard->n_instruments += n;
    pthread_mutex_unlock(&heard->lock);
}

static inline void hear_quote(void *context, const char *symbol, tw_decimal bid, tw_decimal ask)
{
    struct heard *heard = context;
    pthread_mutex_lock(&heard->lock);
    heard->quotes++;
    strncpy(heard->quote_symbol, symbol, sizeof(heard->quote_symbol) - 1);
    heard->bid = bid;
    heard->ask = ask;
    pthread_mutex_unlock(&heard->lock);
}

static inline void hear_account(void *context, const struct tw_account *account)
{
    struct heard *heard = context;
    pthread_mutex_lock(&heard->lock);
    heard->accounts++;
    heard->account = *account;
    pthread_mutex_unlock(&heard->lock);
}

static inline void hear_position(void *context, const struct tw_held_position *position,
                                 tw_reason reason)
{
    struct heard *heard = context;
    pthread_mutex_lock(&heard->lock);
    heard->positions++;
    heard->position = *position;
    heard->reason = reason;
    pthread_mutex_unlock(&heard->lock);
}

static inline void hear_order_gone(void *context, const char *order_id, const char *client_order_id,
                                   const char *position_id)
{
    struct heard *heard = context;
    pthread_mutex_lock(&heard->lock);
    heard->orders_gone++;
    snprintf(heard->gone_order, sizeof(heard->gone_order), "%s", order_id);
    snprintf(heard->gone_client, sizeof(heard->gone_client), "%s", client_order_id);
    snprintf(heard->gone_position, sizeof(heard->gone_position), "%s", position_id);
    pthread_mutex_unlock(&heard->lock);
}

static inline void hear_market_open(void *context)
{
    struct heard *heard = context;
    pthread_mutex_lock(&heard->lock);
    heard->market_opens++;
    pthread_mutex_unlock(&heard->lock);
}

static inline struct tw_session_host host_of(struct heard *heard)
{
    return (struct tw_session_host){.context = heard,
                                    .on_connection = hear_connection,
                                    .on_instruments = hear_instruments,
                                    .on_quote = hear_quote,
                                    .on_account = hear_account,
                                    .on_position = hear_position,
                                    .on_order_gone = hear_order_gone,
                                    .on_market_open = hear_market_open};
}

/* "latency=zero;faults=open#1=busy": settings are parted by semicolons, key and value by the first
 * =. */
static inline size_t settings_split(char *text, struct tw_adapter_setting *settings, size_t max)
{
    size_t n = 0;
    char *rest = text;
    for (char *part = strtok_r(text, ";", &rest); part != NULL && n < max;
         part = strtok_r(NULL, ";", &rest)) {
        char *value = strchr(part, '=');
        cr_assert_not_null(value, "a setting without a value: %s", part);
        *value = '\0';
        settings[n++] = (struct tw_adapter_setting){part, value + 1};
    }
    return n;
}

static inline tw_status desk_session(struct desk *desk, const char *settings_text,
                                     struct tw_error *error)
{
    char text[8192];
    struct tw_adapter_setting settings[24];
    snprintf(text, sizeof(text), "%s", settings_text);
    desk->heard = (struct heard){.lock = PTHREAD_MUTEX_INITIALIZER};
    struct tw_session_options options = {.follower_id = desk->follower_id,
                                         .settings = settings,
                                         .n_settings = settings_split(text, settings, 24),
                                         .credentials_ref = "",
                                         .host = host_of(&desk->heard)};
    return tw_adapter_paper.session_open(desk->adapter, &options, &desk->session, error);
}

static inline void desk_open_with(struct desk *desk, const char *settings, const char *state_dir,
                                  struct tw_reactor *reactor)
{
    struct tw_error error = {{0}};
    struct tw_adapter_options options = {.state_dir = state_dir, .reactor = reactor};
    *desk = (struct desk){.follower_id = "F1"};
    cr_assert_eq(tw_adapter_paper.open(&options, &desk->adapter, &error), TW_OK, "%s", error.text);
    cr_assert_eq(desk_session(desk, settings, &error), TW_OK, "%s", error.text);
}

static inline void desk_open(struct desk *desk, const char *settings)
{
    desk_open_with(desk, settings, NULL, NULL);
}

static inline void desk_close(struct desk *desk)
{
    tw_adapter_paper.session_close(desk->session);
    tw_adapter_paper.close(desk->adapter);
}

static inline tw_decimal D(const char *text)
{
    tw_decimal value;
    cr_assert(tw_decimal_parse(text, &value), "not a decimal: %s", text);
    return value;
}

/* An order with everything left out. */
static inline struct tw_order order_of(enum tw_order_op op, const char *client_order_id)
{
    struct tw_order order = {.op = op,
                             .volume = UNSET,
                             .price = UNSET,
                             .stop_price = UNSET,
                             .stop_loss = UNSET,
                             .take_profit = UNSET};
    snprintf(order.client_order_id, sizeof(order.client_order_id), "%s", client_order_id);
    return order;
}

static inline struct tw_order open_of(const char *id, const char *symbol, enum tw_side side,
                                      const char *volume)
{
    struct tw_order order = order_of(TW_OP_OPEN, id);
    order.side = side;
    order.type = TW_ORDER_MARKET;
    order.volume = D(volume);
    snprintf(order.symbol, sizeof(order.symbol), "%s", symbol);
    return order;
}

static inline struct tw_order close_of(const char *id, const char *position_id, const char *volume)
{
    struct tw_order order = order_of(TW_OP_CLOSE, id);
    order.volume = D(volume);
    snprintf(order.position_id, sizeof(order.position_id), "%s", position_id);
    return order;
}

static inline struct tw_order modify_of(const char *id, const char *position_id,
                                        const char *stop_loss, const char *take_profit)
{
    struct tw_order order = order_of(TW_OP_MODIFY, id);
    order.stop_loss = D(stop_loss);
    order.take_profit = D(take_profit);
    snprintf(order.position_id, sizeof(order.position_id), "%s", position_id);
    return order;
}

static inline struct tw_order place_of(const char *id, const char *symbol, enum tw_side side,
                                       enum tw_order_type type, const char *volume,
                                       const char *price)
{
    struct tw_order order = open_of(id, symbol, side, volume);
    order.op = TW_OP_PLACE;
    order.type = type;
    order.price = D(price);
    return order;
}

/* Blocking sessions only. */
static inline struct tw_ack desk_execute(struct desk *desk, const struct tw_order *order)
{
    struct tw_adapter_call call = {.order = *order,
                                   .deadline_mono_ns = tw_mono_ns() + 10 * TW_NS_PER_S};
    tw_adapter_paper.execute(desk->session, &call);
    return call.ack;
}

static inline struct tw_ack desk_lookup(struct desk *desk, const char *client_order_id)
{
    struct tw_adapter_call call = {.order = order_of(TW_OP_OPEN, client_order_id),
                                   .deadline_mono_ns = tw_mono_ns() + 10 * TW_NS_PER_S};
    tw_adapter_paper.lookup(desk->session, &call);
    return call.ack;
}

static inline struct tw_ack desk_open_position(struct desk *desk, const char *id,
                                               const char *symbol, enum tw_side side,
                                               const char *volume)
{
    struct tw_order order = open_of(id, symbol, side, volume);
    return desk_execute(desk, &order);
}

static inline struct tw_ack desk_close_position(struct desk *desk, const char *id,
                                                const char *position_id, const char *volume)
{
    struct tw_order order = close_of(id, position_id, volume);
    return desk_execute(desk, &order);
}

static inline struct tw_paper_book desk_book(struct desk *desk)
{
    struct tw_paper_book book;
    cr_assert_eq(tw_paper_book_read(desk->adapter, desk->follower_id, &book), TW_OK);
    return book;
}

static inline void desk_change(struct desk *desk, struct tw_paper_change change)
{
    struct tw_error error = {{0}};
    char field[TW_PAPER_FIELD_BYTES];
    cr_assert_eq(tw_paper_configure(desk->adapter, desk->follower_id, &change, field, &error),
                 TW_OK, "%s", error.text);
}

static inline void desk_quote(struct desk *desk, const char *symbol, const char *bid,
                              const char *ask)
{
    struct tw_paper_quote quote = {symbol, D(bid), D(ask)};
    desk_change(desk, (struct tw_paper_change){.quotes = &quote, .n_quotes = 1});
}

static inline void assert_decimal(tw_decimal got, const char *expected, const char *what)
{
    char text[TW_DECIMAL_TEXT_BYTES];
    cr_assert_eq(got, D(expected), "%s is %s, expected %s", what, tw_decimal_text(got, text),
                 expected);
}

#endif
