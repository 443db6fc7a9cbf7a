/* plugin.c - a template: an MT4-style vendor library as a Tradewake plugin. Take it, rename it, fill it in.
 *
 *   gcc -shared -fPIC -fvisibility=hidden -I DIR_OF_tradewake_plugin.h -o mybroker.so plugin.c vendor.c
 *
 *   plugins: {mybroker: {library: /opt/mybroker.so, in_process: true}}      the server's configuration
 *   tradewake followers create F1 --adapter plugin:mybroker --set server=... --set login=... --set password=secret:f1
 *
 * What it must get right is in tradewake_plugin.h; the lines marked MONEY are where it goes wrong in practice. */
#include <tradewake_plugin.h>

#include "vendor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRADES_MAX = 1024 };

struct twp_session {
    VendorSession *vendor;
    const struct twp_host *host;
};

/* ---- Settings ---- */

static const char *const keys[] = {"server", "login", "password"};
enum { KEYS = sizeof keys / sizeof keys[0] };

static const char *setting(const struct twp_setting *settings, uint32_t n, const char *key)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(settings[i].key, key) == 0)
            return settings[i].value;
    return "";
}

/* Every key that is not ours is refused by its name: a mistyped one would go unnoticed. */
static int32_t check(const struct twp_setting *settings, uint32_t n, struct twp_words *words)
{
    for (uint32_t i = 0; i < n; i++) {
        int is_known = 0;
        for (int k = 0; k < KEYS; k++)
            is_known |= strcmp(keys[k], settings[i].key) == 0;
        if (is_known)
            continue;
        snprintf(words->key, sizeof words->key, "%s", settings[i].key);
        snprintf(words->text, sizeof words->text, "unknown; it knows server, login, password");
        return TWP_REJECTED;
    }
    return TWP_DONE;
}

/* ---- Numbers: doubles stay on the vendor's side ---- */

static double to_double(twp_decimal value)
{
    return (double)value / 1e8;
}

static twp_decimal to_decimal(double value)
{
    return (twp_decimal)(value * 1e8 + (value < 0 ? -0.5 : 0.5));
}

/* An absent stop is "leave it" in a change, and none in an open. */
static double stop_or(twp_decimal stop, double otherwise)
{
    return stop == TWP_UNSET ? otherwise : to_double(stop);
}

static int timeout_ms(const struct twp_session *session, int64_t deadline_mono_ns)
{
    int64_t left = deadline_mono_ns - session->host->mono_ns(session->host->ctx);
    return left < 1000000 ? 0 : (int)(left / 1000000);
}

/* ---- Sessions ---- */

static int32_t session_open(const struct twp_open *open, struct twp_session **ret, struct twp_words *words)
{
    struct twp_session *session = (struct twp_session *)calloc(1, sizeof *session);
    if (session == NULL)
        return TWP_RETRY_LATER;
    session->host = open->host;
    session->vendor = vendor_login(setting(open->settings, open->n_settings, "server"),
                                   atoi(setting(open->settings, open->n_settings, "login")),
                                   setting(open->settings, open->n_settings, "password"),
                                   timeout_ms(session, open->deadline_mono_ns));
    if (session->vendor == NULL) {
        snprintf(words->text, sizeof words->text, "the broker refused the login"); /* never the password */
        free(session);
        return TWP_RETRY_LATER;
    }
    *ret = session;
    return TWP_DONE;
}

static void session_close(struct twp_session *session)
{
    vendor_logout(session->vendor);
    free(session);
}

static int32_t account(struct twp_session *session, int64_t deadline_mono_ns, struct twp_account *ret)
{
    double balance, equity, free_margin;
    (void)deadline_mono_ns;
    if (vendor_account(session->vendor, &balance, &equity, &free_margin) != 0)
        return TWP_SESSION_LOST;
    ret->is_netting = 0;
    ret->balance = to_decimal(balance);
    ret->equity = to_decimal(equity);
    ret->free_margin = to_decimal(free_margin);
    snprintf(ret->currency, sizeof ret->currency, "USD");
    return TWP_DONE;
}

static int32_t instruments(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list)
{
    struct twp_instrument one = {0};
    (void)session;
    (void)deadline_mono_ns;
    one.size = sizeof one; /* each item says how large it is */
    one.volume_min = one.volume_step = to_decimal(0.01);
    one.volume_max = to_decimal(100);
    one.contract_size = to_decimal(100000);
    one.tick_size = to_decimal(0.00001);
    snprintf(one.symbol, sizeof one.symbol, "EURUSD");
    return list->add(list->ctx, &one) == 0 ? TWP_DONE : TWP_AMBIGUOUS;
}

/* MONEY: a list that is not whole must not be TWP_DONE. What is missing in it counts as closed. */
static int32_t positions(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list)
{
    VendorTrade *trades = (VendorTrade *)malloc(TRADES_MAX * sizeof *trades);
    int n = trades != NULL ? vendor_trades(session->vendor, trades, TRADES_MAX) : -1;
    int32_t outcome = n < 0 ? TWP_SESSION_LOST : n > TRADES_MAX ? TWP_AMBIGUOUS : TWP_DONE;
    (void)deadline_mono_ns;
    for (int i = 0; i < n && outcome == TWP_DONE; i++) {
        struct twp_position one = {0};
        one.size = sizeof one;
        one.side = trades[i].is_sell ? TWP_SELL : TWP_BUY;
        one.volume = to_decimal(trades[i].lots);
        one.open_price = to_decimal(trades[i].open_price);
        one.stop_loss = to_decimal(trades[i].stop_loss);
        one.take_profit = to_decimal(trades[i].take_profit);
        snprintf(one.position_id, sizeof one.position_id, "%d", trades[i].ticket);
        snprintf(one.symbol, sizeof one.symbol, "%s", trades[i].symbol);
        snprintf(one.client_order_id, sizeof one.client_order_id, "%s", trades[i].comment);
        outcome = list->add(list->ctx, &one) == 0 ? TWP_DONE : TWP_AMBIGUOUS;
    }
    free(trades);
    return outcome;
}

static int32_t orders(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list)
{
    (void)session;
    (void)deadline_mono_ns;
    (void)list;
    return TWP_DONE; /* it places no pending orders, so there are none of ours */
}

/* ---- Orders ---- */

/* The ticket's trade as it is now; 0: there is none; -1: could not ask. */
static int trade_find(struct twp_session *session, int ticket, VendorTrade *ret)
{
    VendorTrade *trades = (VendorTrade *)malloc(TRADES_MAX * sizeof *trades);
    int n = trades != NULL ? vendor_trades(session->vendor, trades, TRADES_MAX) : -1, found = n < 0 || n > TRADES_MAX ? -1 : 0;
    for (int i = 0; i < n && found == 0; i++)
        if (trades[i].ticket == ticket) {
            *ret = trades[i];
            found = 1;
        }
    free(trades);
    return found;
}

/* MONEY: the vendor's number goes to the host as it is. Tradewake's table knows what it means, and that one
 * that is not listed may have been executed. Never make a success or a refusal of a number that you do not know. */
static int32_t by_code(struct twp_result *ret, int code)
{
    ret->vendor_code = code;
    ret->flags |= TWP_F_FROM_BROKER;
    return TWP_BY_CODE;
}

static int32_t place_open(struct twp_session *session, const struct twp_order *order, struct twp_result *ret)
{
    int ticket = 0;
    double price = 0;
    int code = vendor_open(session->vendor, order->symbol, order->side == TWP_SELL, to_double(order->volume),
                           stop_or(order->stop_loss, 0), stop_or(order->take_profit, 0), order->client_order_id,
                           timeout_ms(session, order->deadline_mono_ns), &ticket, &price);
    if (code != 0)
        return by_code(ret, code);
    ret->filled_volume = order->volume;
    ret->average_price = to_decimal(price);
    snprintf(ret->position_id, sizeof ret->position_id, "%d", ticket);
    return TWP_DONE;
}

static int32_t close_position(struct twp_session *session, const struct twp_order *order, struct twp_result *ret)
{
    VendorTrade trade = {0};
    int ticket = atoi(order->position_id), rest = 0, found = trade_find(session, ticket, &trade);
    double price = 0;
    if (found == 0)
        return TWP_NOT_FOUND;
    if (found < 0) {
        ret->flags |= TWP_F_NOT_SENT; /* nothing has been asked of the broker yet */
        return TWP_SESSION_LOST;
    }
    double lots = order->volume == TWP_UNSET ? trade.lots : to_double(order->volume);
    int code = vendor_close(session->vendor, ticket, lots, timeout_ms(session, order->deadline_mono_ns), &rest, &price);
    if (code != 0)
        return by_code(ret, code);
    ret->filled_volume = to_decimal(lots);
    ret->average_price = to_decimal(price);
    ret->remaining_volume = to_decimal(trade.lots) - to_decimal(lots);
    if (rest != 0) /* MONEY: without its new ticket the rest cannot be closed */
        snprintf(ret->remainder_position_id, sizeof ret->remainder_position_id, "%d", rest);
    return TWP_DONE;
}

static int32_t modify(struct twp_session *session, const struct twp_order *order, struct twp_result *ret)
{
    VendorTrade trade = {0};
    int ticket = atoi(order->position_id), found = trade_find(session, ticket, &trade);
    if (found == 0)
        return TWP_NOT_FOUND;
    if (found < 0) {
        ret->flags |= TWP_F_NOT_SENT;
        return TWP_SESSION_LOST;
    }
    return by_code(ret, vendor_modify(session->vendor, ticket, stop_or(order->stop_loss, trade.stop_loss),
                                      stop_or(order->take_profit, trade.take_profit),
                                      timeout_ms(session, order->deadline_mono_ns)));
}

/* MONEY: once to the broker, whatever it says. */
static int32_t execute(struct twp_session *session, const struct twp_order *order, struct twp_result *ret)
{
    switch (order->op) {
    case TWP_OP_OPEN:
        return place_open(session, order, ret);
    case TWP_OP_CLOSE:
        return close_position(session, order, ret);
    case TWP_OP_MODIFY:
        return modify(session, order, ret);
    default:
        return TWP_UNSUPPORTED;
    }
}

/* By the comment, among what is open: that an order is not found there proves nothing (TWP_ID_TAG). */
static int32_t lookup(struct twp_session *session, const struct twp_order *order, struct twp_result *ret)
{
    VendorTrade *trades = (VendorTrade *)malloc(TRADES_MAX * sizeof *trades);
    int n = trades != NULL ? vendor_trades(session->vendor, trades, TRADES_MAX) : -1;
    int32_t outcome = n < 0 ? TWP_SESSION_LOST : n > TRADES_MAX ? TWP_AMBIGUOUS : TWP_NOT_FOUND;
    for (int i = 0; i < n && outcome == TWP_NOT_FOUND; i++)
        if (strcmp(trades[i].comment, order->client_order_id) == 0) {
            outcome = TWP_DONE;
            ret->filled_volume = to_decimal(trades[i].lots);
            ret->average_price = to_decimal(trades[i].open_price);
            snprintf(ret->position_id, sizeof ret->position_id, "%d", trades[i].ticket);
        }
    free(trades);
    return outcome;
}

/* ---- The one exported function ---- */

const struct twp_plugin *tradewake_plugin_v1(uint32_t host_abi)
{
    static struct twp_caps caps;
    static struct twp_api api;
    static const struct twp_plugin plugin = {TWP_PLUGIN_SIZES, "template", "1.0", &caps, &api};
    caps.size = sizeof caps;
    caps.thread_model = TWP_THREADS_SESSION;
    caps.can = TWP_CAN_HEDGING | TWP_CAN_LOOKUP;
    caps.id_strength = TWP_ID_TAG;
    caps.code_table = TWP_CODES_MT4;
    caps.settle_ms = 60000;
    api.size = sizeof api;
    api.check = check;
    api.session_open = session_open;
    api.session_close = session_close;
    api.account = account;
    api.instruments = instruments;
    api.positions = positions;
    api.orders = orders;
    api.execute = execute;
    api.lookup = lookup;
    return host_abi >> 16 == TWP_ABI_MAJOR ? &plugin : NULL;
}
