/* venues.h - the file that says where FIX sessions are and how they are spoken to. Who runs the server writes it; a
 * follower only names a section of it, so that nobody who calls the API can send a password to an address of his.
 *
 *     [ctrader]
 *     profile  = ctrader
 *     address  = h51.p.ctrader.com:5212
 *     ca       = system
 *     sender   = live.broker.{account}
 *     target   = cServer
 *     username = {account}
 *     password = secret:ctrader-{account}
 *     currency = USD
 *     symbol EURUSD = 1 contract=100000 tick=0.00001 min=0.01 step=0.01 max=50 base=EUR quote=USD
 *
 * {account} is the follower's account: such a section is a session per follower. Without it all its followers share
 * one session, and their account goes into every order (1). */
#ifndef FIX_VENUES_H
#define FIX_VENUES_H

#include "profile.h"

#include <tradewake/adapters/adapter.h>

enum {
    FIX_VENUES_MAX = 64,
    FIX_NAME_BYTES = 65,
    FIX_PATH_BYTES = 256,
    FIX_SYMBOLS_MAX = 512,
    FIX_LINE_BYTES = 512,
    FIX_FILE_BYTES_MAX = 1 << 20,
};

struct fix_symbol {
    struct tw_instrument instrument; /* in lots, as everywhere */
    char venue_name[FIX_NAME_BYTES]; /* 55 */
};

/* Hours of a session: minutes of the week, Monday 00:00 UTC is 0. */
struct fix_hours {
    bool is_set, is_daily;
    int start_min, end_min; /* of the week; daily: of the day */
};

struct fix_venue {
    char name[FIX_NAME_BYTES];
    struct fix_profile profile; /* with what the section changes of it */
    char host[FIX_PATH_BYTES], port[8];
    bool is_tls;
    char ca[FIX_PATH_BYTES]; /* PEM file; "system" = what the system trusts; "" = plain text */
    char server_name[FIX_PATH_BYTES]; /* expected in the certificate, and sent as SNI; "" = the host */
    char certificate[FIX_PATH_BYTES], key[FIX_PATH_BYTES]; /* ours; "" = none */
    char sender[FIX_NAME_BYTES], target[FIX_NAME_BYTES];   /* 49, 56 */
    char sender_sub[FIX_NAME_BYTES], target_sub[FIX_NAME_BYTES]; /* 50, 57 */
    char username[FIX_NAME_BYTES]; /* 553 */
    char password[FIX_NAME_BYTES]; /* 554: the name of a secret; "" = none */
    uint32_t heartbeat_s;          /* 108 */
    uint32_t connect_ms;           /* TCP, TLS and Logon, each */
    struct fix_hours hours;
    int reset_min; /* of the day, UTC: both sides count from 1 anew; -1 = never by the clock */
    char currency[8]; /* of the account; "" = each follower says it */
    struct fix_symbol *symbols;
    size_t n_symbols;
    bool is_per_account; /* {account} is in it */
    int line;            /* of its section, for messages */
};

struct fix_venues {
    struct fix_venue *list;
    size_t n;
};

/* Fails: TW_INVALID; error names the line, the key, its tag and the rule. */
TW_MUST_CHECK tw_status fix_venues_read(const char *text, const char *path, struct fix_venues *ret,
                                        struct tw_error *error);
void fix_venues_clear(struct fix_venues *venues);

/* NULL = none. */
const struct fix_venue *fix_venues_find(const struct fix_venues *venues, const char *name);
const struct fix_symbol *fix_venue_symbol(const struct fix_venue *venue, const char *symbol);
const struct fix_symbol *fix_venue_symbol_by_venue_name(const struct fix_venue *venue, const char *venue_name);

/* template with {account} filled in. False: it does not fit. */
bool fix_fill_in(const char *pattern, const char *account, char *ret, size_t size);

/* Whether the session is to be up at this time. */
bool fix_hours_are_open(const struct fix_hours *hours, int64_t wall_ns);
/* The last time at or before wall_ns at which the clock says that both count from 1 anew; INT64_MIN = never. */
int64_t fix_last_reset_wall_ns(const struct fix_venue *venue, int64_t wall_ns);

/* Lots to the venue's units and back. False: it is not whole, or does not fit. */
bool fix_units_of(const struct fix_symbol *symbol, tw_decimal lots, tw_decimal *ret_units);
bool fix_lots_of(const struct fix_symbol *symbol, tw_decimal units, tw_decimal *ret_lots);

#endif
