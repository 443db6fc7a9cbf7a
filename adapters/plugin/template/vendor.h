/* vendor.h - stands for your broker's own library: blocking calls, doubles, a number for every failure. The template
 * builds without one; put the vendor's header in the place of this file, and take vendor.c out. */
#ifndef VENDOR_H
#define VENDOR_H

typedef struct VendorSession VendorSession;

typedef struct {
    int ticket, is_sell;
    char symbol[16], comment[32];
    double lots, open_price, stop_loss, take_profit;
} VendorTrade;

VendorSession *vendor_login(const char *server, int login, const char *password, int timeout_ms);
void vendor_logout(VendorSession *session);
int vendor_account(VendorSession *session, double *balance, double *equity, double *free_margin);
int vendor_trades(VendorSession *session, VendorTrade *trades, int room); /* how many there are; -1 = no connection */
/* Return the platform's error number; 0 = done. */
int vendor_open(VendorSession *session, const char *symbol, int is_sell, double lots, double sl, double tp,
                const char *comment, int timeout_ms, int *ret_ticket, double *ret_price);
int vendor_close(VendorSession *session, int ticket, double lots, int timeout_ms, int *ret_rest, double *ret_price);
int vendor_modify(VendorSession *session, int ticket, double sl, double tp, int timeout_ms);

#endif
