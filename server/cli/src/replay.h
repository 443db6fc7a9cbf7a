/* replay.h - the parts of `tradewake replay`; private.
 *
 *   history --replay_event.c--> requests --replay_send.c, sender thread--> the stream
 *                               answers  <--                 main thread <--
 *
 * One stream, so that the order of the file is the order of the master. An event is written only
 * when the one before it on the same position has been answered: an event that has to be sent again
 * (the server was busy) is then never overtaken by what depends on it. Unless it floods, it also
 * waits until the orders of that one have been sent: so fast is as fast as the followers can take
 * them. */
#ifndef CLI_REPLAY_H
#define CLI_REPLAY_H

#include "command.h"

#include <tradewake/cli/history.h>
#include <tradewake/v1/events.pb-c.h>

#include <google/protobuf/timestamp.pb-c.h>

#define REPLAY_HASH_CHARS    12u /* of the content's SHA-256, in ids */
#define REPLAY_RUN_CHARS_MAX 16u

/* Names of what one file becomes on the server. */
struct replay_names {
    const char *master_id;
    char prefix[48]; /* of every event id: "rp-3fa9c1b2d4e5-" */
    char suffix[24]; /* of positions and orders: ".RUN", or "" */
    char space[24];  /* before row numbers, which say nothing by themselves: "3fa9c1b2d4e5." */
};

/* run: NULL = none. False: run is no id (the words are printed by the caller). */
bool replay_names_init(struct replay_names *names, const char *master_id, const char *run,
                       const uint8_t *bytes, size_t size);

/* "rp-3fa9c1b2d4e5-189-open": the same for the same row of the same content. */
void replay_event_id(const struct replay_names *names, const struct tw_history_event *event,
                     char text[TW_ID_BYTES]);

/* One event as it goes on the wire. Its strings lie in it: not to be copied or moved. */
struct replay_request {
    Tradewake__V1__StreamEventsRequest request;
    Tradewake__V1__TradeEvent event;
    Google__Protobuf__Timestamp observed_at;
    Tradewake__V1__OpenPosition open;
    Tradewake__V1__ClosePosition close;
    Tradewake__V1__PlaceOrder place;
    Tradewake__V1__CancelOrder cancel;
    char event_id[TW_ID_BYTES], subject[TW_ID_BYTES], remainder[TW_ID_BYTES];
    char volume[TW_DECIMAL_TEXT_BYTES], remaining[TW_DECIMAL_TEXT_BYTES],
        price[TW_DECIMAL_TEXT_BYTES];
    char stop_loss[TW_DECIMAL_TEXT_BYTES], take_profit[TW_DECIMAL_TEXT_BYTES];
    char symbol[TW_SYMBOL_BYTES], master_id[TW_ID_BYTES];
};
void replay_request_init(struct replay_request *request, const struct replay_names *names,
                         const struct tw_history_event *event, int64_t observed_wall_ns);

/* ---- Sending ---- */

enum { REPLAY_REFUSALS_KEPT = 10 };

struct replay_refusal {
    char event_id[TW_ID_BYTES];
    char reason[64], field[TW_REFUSAL_FIELD_BYTES], text[256];
};

struct replay_result {
    uint32_t answered, duplicates, refused, mismatched, resent;
    uint64_t accepted, skipped;
    struct replay_refusal refusals[REPLAY_REFUSALS_KEPT]; /* the first */
    char mismatches[REPLAY_REFUSALS_KEPT][128];
    int64_t first_received_s; /* the server's clock at the first answer; 0 = none */
};

struct replay_sending {
    struct session *session;
    const struct tw_history *history;
    const struct replay_names *names;
    const int64_t *due_ns; /* by event, from the start; NULL = at once */
    uint32_t subscribed;   /* accepted + skipped of every event */
    bool floods; /* does not wait until the orders before it on a position have been sent */
    bool shows_progress;
};

/* Sends everything and reads every answer. Returns an exit code; failures of the stream were
 * printed. */
int replay_send(const struct replay_sending *sending, struct replay_result *ret);

#endif
