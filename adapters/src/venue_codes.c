#include <tradewake/adapters/venue_codes.h>

#define R(name) TRADEWAKE__V1__REASON__REASON_##name
#define AMBIGUOUS TW_OUTCOME_AMBIGUOUS
#define DONE TW_OUTCOME_DONE
#define LATER TW_OUTCOME_RETRY_LATER
#define NOW TW_OUTCOME_RETRY_NOW
#define REJECTED TW_OUTCOME_REJECTED
#define ALL TW_AT_ALL

/* clang-format off */

/* Error codes of the MetaTrader 4 trade server. */
static const struct tw_venue_code mt4[] = {
    {0, ALL, DONE, R(UNSPECIFIED), "no error"},
    {1, TW_AT_CHANGE, TW_OUTCOME_NO_CHANGE, R(NO_CHANGE), "no error, but the result is unknown: nothing was to be changed"},
    {1, ALL, AMBIGUOUS, R(BROKER_OTHER), "no error, but the result is unknown"},
    {2, ALL, AMBIGUOUS, R(BROKER_OTHER), "common error"},
    {3, ALL, REJECTED, R(BROKER_OTHER), "invalid trade parameters"},
    {4, ALL, LATER, R(BUSY), "trade server is busy"},
    {5, ALL, REJECTED, R(BROKER_OTHER), "old version of the terminal"},
    {6, ALL | TW_AT_UNSENT, LATER, R(NO_CONNECTION), "no connection with the trade server"},
    {6, ALL, AMBIGUOUS, R(NO_CONNECTION), "connection with the trade server lost in mid-request"},
    {7, ALL, REJECTED, R(AUTH), "not enough rights"},
    {8, ALL, LATER, R(RATE_LIMITED), "too frequent requests"},
    {9, ALL, AMBIGUOUS, R(BROKER_OTHER), "malfunctional trade operation"},
    {64, ALL, REJECTED, R(AUTH), "account disabled"},
    {65, ALL, REJECTED, R(AUTH), "invalid account"},
    {128, ALL, AMBIGUOUS, R(TIMEOUT), "trade timeout: it may still be executed"},
    {129, TW_AT_MARKET, NOW, R(INVALID_PRICE), "invalid price"},
    {129, ALL, REJECTED, R(INVALID_PRICE), "invalid price"},
    {130, ALL, REJECTED, R(INVALID_STOPS), "invalid stops"},
    {131, ALL, REJECTED, R(INVALID_VOLUME), "invalid trade volume"},
    {132, ALL, REJECTED, R(MARKET_CLOSED), "market is closed"},
    {133, ALL, REJECTED, R(TRADE_DISABLED), "trade is disabled"},
    {134, ALL, REJECTED, R(NO_MONEY), "not enough money"},
    {135, ALL, NOW, R(REQUOTE), "price changed"},
    {136, ALL, LATER, R(REQUOTE), "off quotes"},
    {137, ALL, LATER, R(BUSY), "broker is busy"},
    {138, ALL, NOW, R(REQUOTE), "requote"},
    {139, ALL, LATER, R(BUSY), "order is locked"},
    {140, ALL, REJECTED, R(TRADE_DISABLED), "long positions only allowed"},
    {141, ALL, LATER, R(RATE_LIMITED), "too many requests"},
    {142, ALL, AMBIGUOUS, R(BROKER_OTHER), "order is enqueued"},
    {143, ALL, AMBIGUOUS, R(BROKER_OTHER), "order was accepted by the dealer"},
    {144, ALL, AMBIGUOUS, R(BROKER_OTHER), "order was cancelled by the client"},
    {145, ALL, LATER, R(BUSY), "modification denied: too close to the market"},
    {146, ALL, LATER, R(BUSY), "trade context is busy"},
    {147, ALL, REJECTED, R(INVALID_EXPIRY), "expirations are denied by the broker"},
    {148, ALL, REJECTED, R(BROKER_OTHER), "too many open and pending orders"},
    {149, ALL, REJECTED, R(HEDGE_PROHIBITED), "hedging is prohibited"},
    {150, ALL, REJECTED, R(FIFO), "prohibited by the FIFO rule"},
};

/* TRADE_RETCODE_* of MetaTrader 5. */
static const struct tw_venue_code mt5[] = {
    {10004, ALL, NOW, R(REQUOTE), "requote"},
    {10006, ALL, REJECTED, R(BROKER_OTHER), "request rejected"},
    {10007, ALL, REJECTED, R(BROKER_OTHER), "request cancelled by the trader"},
    {10008, TW_AT_PLACE, DONE, R(UNSPECIFIED), "order placed"},
    {10008, ALL, TW_OUTCOME_ACCEPTED, R(UNSPECIFIED), "order placed: what becomes of it is not known yet"},
    {10009, ALL, DONE, R(UNSPECIFIED), "request completed"},
    {10010, TW_AT_MARKET, TW_OUTCOME_PARTIAL, R(BROKER_OTHER), "only part of the request was completed"},
    {10010, ALL, AMBIGUOUS, R(BROKER_OTHER), "only part of the request was completed"},
    {10011, ALL, AMBIGUOUS, R(BROKER_OTHER), "request processing error"},
    {10012, ALL, AMBIGUOUS, R(TIMEOUT), "request cancelled by timeout"},
    {10013, ALL, REJECTED, R(BROKER_OTHER), "invalid request"},
    {10014, ALL, REJECTED, R(INVALID_VOLUME), "invalid volume"},
    {10015, TW_AT_MARKET, NOW, R(INVALID_PRICE), "invalid price"},
    {10015, ALL, REJECTED, R(INVALID_PRICE), "invalid price"},
    {10016, ALL, REJECTED, R(INVALID_STOPS), "invalid stops"},
    {10017, ALL, REJECTED, R(TRADE_DISABLED), "trade is disabled"},
    {10018, ALL, REJECTED, R(MARKET_CLOSED), "market is closed"},
    {10019, ALL, REJECTED, R(NO_MONEY), "not enough money"},
    {10020, ALL, NOW, R(REQUOTE), "prices changed"},
    {10021, ALL, LATER, R(REQUOTE), "no quotes to process the request"},
    {10022, ALL, REJECTED, R(INVALID_EXPIRY), "invalid expiration"},
    {10023, ALL, AMBIGUOUS, R(BROKER_OTHER), "order state changed"},
    {10024, ALL, LATER, R(RATE_LIMITED), "too frequent requests"},
    {10025, ALL, TW_OUTCOME_NO_CHANGE, R(NO_CHANGE), "no changes in the request"},
    {10026, ALL, REJECTED, R(TRADE_DISABLED), "autotrading disabled by the server"},
    {10027, ALL, REJECTED, R(TRADE_DISABLED), "autotrading disabled by the client terminal"},
    {10028, ALL, LATER, R(BUSY), "request locked for processing"},
    {10029, ALL, LATER, R(BUSY), "order or position frozen"},
    {10030, ALL, REJECTED, R(BROKER_OTHER), "invalid order filling type"},
    {10031, ALL | TW_AT_UNSENT, LATER, R(NO_CONNECTION), "no connection with the trade server"},
    {10031, ALL, AMBIGUOUS, R(NO_CONNECTION), "connection with the trade server lost in mid-request"},
    {10032, ALL, REJECTED, R(TRADE_DISABLED), "allowed for live accounts only"},
    {10033, ALL, REJECTED, R(BROKER_OTHER), "limit of pending orders reached"},
    {10034, ALL, REJECTED, R(INVALID_VOLUME), "limit of volume for this symbol reached"},
    {10035, ALL, REJECTED, R(BROKER_OTHER), "incorrect or prohibited order type"},
    {10036, ALL, TW_OUTCOME_NOT_FOUND, R(ALREADY_CLOSED), "position is already closed"},
    {10038, ALL, REJECTED, R(INVALID_VOLUME), "close volume exceeds the position's"},
    {10039, ALL, AMBIGUOUS, R(BROKER_OTHER), "a close order exists for this position"},
    {10040, ALL, REJECTED, R(BROKER_OTHER), "limit of open positions reached"},
    {10041, ALL, REJECTED, R(BROKER_OTHER), "activation of the pending order rejected, order cancelled"},
    {10042, ALL, REJECTED, R(TRADE_DISABLED), "only long positions are allowed"},
    {10043, ALL, REJECTED, R(TRADE_DISABLED), "only short positions are allowed"},
    {10044, ALL, REJECTED, R(TRADE_DISABLED), "only closing is allowed"},
    {10045, ALL, REJECTED, R(FIFO), "closing is allowed by the FIFO rule only"},
    {10046, ALL, REJECTED, R(HEDGE_PROHIBITED), "opposite positions are prohibited"},
};
/* clang-format on */

#define LIST(rows) {rows, sizeof(rows) / sizeof((rows)[0])}

static const struct {
    const struct tw_venue_code *rows;
    size_t n;
} venues[TW_VENUE_COUNT] = {[TW_VENUE_MT4] = LIST(mt4), [TW_VENUE_MT5] = LIST(mt5)};

const struct tw_venue_code *tw_venue_codes(enum tw_venue venue, size_t *ret_n)
{
    bool is_known = venue > TW_VENUE_NONE && venue < TW_VENUE_COUNT;
    *ret_n = is_known ? venues[venue].n : 0;
    return is_known ? venues[venue].rows : NULL;
}

const struct tw_venue_code *tw_venue_code_find(enum tw_venue venue, int32_t code, enum tw_order_op op, bool not_sent)
{
    size_t n;
    const struct tw_venue_code *rows = tw_venue_codes(venue, &n);
    for (size_t i = 0; i < n; i++) {
        bool is_for_unsent = (rows[i].where & TW_AT_UNSENT) != 0;
        if (rows[i].code == code && (rows[i].where & (1u << op)) != 0 && (!is_for_unsent || not_sent))
            return &rows[i];
    }
    return NULL;
}
