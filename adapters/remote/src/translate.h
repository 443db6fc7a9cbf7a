/* translate.h - orders and answers of adapter.h, and the messages of the bridge's protocol. Pure functions.
 *
 * What a bridge says is not trusted to make sense: what is not certain becomes AMBIGUOUS, never a guess. */
#ifndef REMOTE_TRANSLATE_H
#define REMOTE_TRANSLATE_H

#include <tradewake/adapters/adapter.h>

#include <tradewake/adapter/v1/broker_adapter.pb-c.h>

/* An ExecuteRequest and all it points to. The texts of order and session_id are pointed to, too. */
struct execute_message {
    Tradewake__Adapter__V1__ExecuteRequest request;
    Tradewake__Adapter__V1__Open open;
    Tradewake__Adapter__V1__Close close;
    Tradewake__Adapter__V1__Modify modify;
    Tradewake__Adapter__V1__Cancel cancel;
    Google__Protobuf__Timestamp deadline, expires_at;
    char numbers[5][TW_DECIMAL_TEXT_BYTES];
    char comment[TW_COPY_ID_BYTES];
};

void remote_execute_message_fill(const struct tw_order *order, const char *session_id, int64_t deadline_wall_ns,
                          uint32_t comment_max, struct execute_message *ret);

/* order: what was asked. response NULL is AMBIGUOUS. */
void remote_ack_from_response(const struct tw_order *order, const Tradewake__Adapter__V1__ExecuteResponse *response,
                       struct tw_ack *ret);
void remote_ack_from_lookup(const Tradewake__Adapter__V1__LookupResponse *response, struct tw_ack *ret);

/* False: the answer is no complete picture, and *ret is empty. now_wall_ns: taken where it names no time. */
bool remote_snapshot_from_response(const Tradewake__Adapter__V1__SnapshotResponse *response, int64_t now_wall_ns,
                            struct tw_snapshot *ret);

bool remote_position_from_message(const Tradewake__Adapter__V1__Position *message, struct tw_held_position *ret);
bool remote_account_from_message(const Tradewake__V1__AccountState *message, struct tw_account *ret);
/* bid and ask: UNSET where there are none. */
bool remote_instrument_from_response(const char *symbol, const Tradewake__Adapter__V1__GetInstrumentResponse *response,
                              struct tw_instrument *ret, tw_decimal *ret_bid, tw_decimal *ret_ask);

/* What a bridge can do, as a session's promise. NULL: it has not answered yet, and nothing is promised. */
void remote_capabilities_from_response(const Tradewake__Adapter__V1__GetCapabilitiesResponse *response, bool is_netting,
                                int64_t call_timeout_ns, struct tw_capabilities *ret);

/* Nanoseconds; 0 for NULL, and never less. */
int64_t remote_duration_ns(const Google__Protobuf__Duration *duration);

#endif
