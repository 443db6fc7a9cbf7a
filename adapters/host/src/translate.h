/* translate.h - messages of the bridge's protocol, and orders and answers of adapter.h. Pure functions.
 *
 * The other direction of adapters/remote. */
#ifndef HOST_TRANSLATE_H
#define HOST_TRANSLATE_H

#include <tradewake/adapters/adapter.h>

#include <tradewake/adapter/v1/broker_adapter.pb-c.h>

/* False: a text is too long, a number is none, or there is no operation; it is not to be sent. */
bool host_order_from_request(const Tradewake__Adapter__V1__ExecuteRequest *request, bool is_netting, struct tw_order *ret);
/* Of its deadline; INT64_MAX = none. */
int64_t host_deadline_mono_ns(const Tradewake__Adapter__V1__ExecuteRequest *request, int64_t now_wall_ns, int64_t now_mono_ns);

/* An ExecuteResponse and all it points to; the texts of ack are pointed to, too. */
struct answer_message {
    Tradewake__Adapter__V1__ExecuteResponse response;
    Tradewake__Adapter__V1__Status status;
    Google__Protobuf__Duration retry_after;
    char numbers[3][TW_DECIMAL_TEXT_BYTES];
};
/* order NULL: the answer to a look-up. */
void host_answer_fill(const struct tw_ack *ack, const struct tw_order *order, bool is_netting, struct answer_message *ret);

struct account_message {
    Tradewake__V1__AccountState state;
    char numbers[3][TW_DECIMAL_TEXT_BYTES];
};
void host_account_fill(const struct tw_account *account, struct account_message *ret);

struct position_message {
    Tradewake__Adapter__V1__Position position;
    char numbers[4][TW_DECIMAL_TEXT_BYTES];
};
void host_position_fill(const struct tw_held_position *position, struct position_message *ret);

struct working_message {
    Tradewake__Adapter__V1__WorkingOrder order;
    Google__Protobuf__Timestamp expires_at;
    char numbers[5][TW_DECIMAL_TEXT_BYTES];
};
void host_working_fill(const struct tw_held_order *order, struct working_message *ret);

struct instrument_message {
    Tradewake__Adapter__V1__GetInstrumentResponse response;
    Tradewake__Adapter__V1__Status status;
    char numbers[10][TW_DECIMAL_TEXT_BYTES];
};
void host_instrument_fill(const struct tw_instrument *instrument, tw_decimal bid, tw_decimal ask, struct instrument_message *ret);

void host_timestamp_fill(int64_t wall_ns, Google__Protobuf__Timestamp *ret);

#endif
