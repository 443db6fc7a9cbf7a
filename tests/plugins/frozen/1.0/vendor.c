/* A vendor's library that knows one account and fills everything at one price: enough to try the template out. */
#include "vendor.h"

#include <stdlib.h>
#include <string.h>

enum { TRADES_MAX = 256 };
struct VendorSession {
    VendorTrade trades[TRADES_MAX];
    int n, last_ticket;
};

VendorSession *vendor_login(const char *server, int login, const char *password, int timeout_ms)
{
    (void)timeout_ms;
    return server[0] != '\0' && login > 0 && password[0] != '\0' ? calloc(1, sizeof(VendorSession)) : NULL;
}

void vendor_logout(VendorSession *session)
{
    free(session);
}

int vendor_account(VendorSession *session, double *balance, double *equity, double *free_margin)
{
    (void)session;
    *balance = *equity = *free_margin = 10000.0;
    return 0;
}

int vendor_trades(VendorSession *session, VendorTrade *trades, int room)
{
    for (int i = 0; i < session->n && i < room; i++)
        trades[i] = session->trades[i];
    return session->n;
}

int vendor_open(VendorSession *session, const char *symbol, int is_sell, double lots, double sl, double tp,
                const char *comment, int timeout_ms, int *ret_ticket, double *ret_price)
{
    (void)timeout_ms;
    if (session->n == TRADES_MAX)
        return 148;
    VendorTrade *trade = &session->trades[session->n++];
    *trade = (VendorTrade){.ticket = ++session->last_ticket, .is_sell = is_sell, .lots = lots, .open_price = 1.1,
                           .stop_loss = sl, .take_profit = tp};
    strncpy(trade->symbol, symbol, sizeof trade->symbol - 1);
    strncpy(trade->comment, comment, sizeof trade->comment - 1);
    *ret_ticket = trade->ticket;
    *ret_price = trade->open_price;
    return 0;
}

static VendorTrade *find(VendorSession *session, int ticket)
{
    for (int i = 0; i < session->n; i++)
        if (session->trades[i].ticket == ticket)
            return &session->trades[i];
    return NULL;
}

int vendor_close(VendorSession *session, int ticket, double lots, int timeout_ms, int *ret_rest, double *ret_price)
{
    (void)timeout_ms;
    VendorTrade *trade = find(session, ticket);
    *ret_rest = 0;
    if (trade == NULL)
        return 4108; /* not in any table: the template looks whether it is still there */
    *ret_price = 1.1;
    if (lots < trade->lots - 1e-9) {
        trade->lots -= lots;
        *ret_rest = trade->ticket = ++session->last_ticket; /* MetaTrader 4 gives the rest a new ticket */
    } else {
        *trade = session->trades[--session->n];
    }
    return 0;
}

int vendor_modify(VendorSession *session, int ticket, double sl, double tp, int timeout_ms)
{
    (void)timeout_ms;
    VendorTrade *trade = find(session, ticket);
    if (trade == NULL)
        return 4108;
    if (trade->stop_loss == sl && trade->take_profit == tp)
        return 1;
    trade->stop_loss = sl;
    trade->take_profit = tp;
    return 0;
}
