/* event.h - what the master did, checked once at the door and plain from there on. */
#ifndef TW_CORE_EVENT_H
#define TW_CORE_EVENT_H

#include <tradewake/adapters/order.h>
#include <tradewake/wire/refusal.h>

#include <tradewake/v1/events.pb-c.h>

#include <stdbool.h>
#include <stdint.h>

enum tw_event_kind {
    TW_EVENT_OPEN,
    TW_EVENT_MODIFY,
    TW_EVENT_CLOSE,
    TW_EVENT_PLACE,
    TW_EVENT_MODIFY_ORDER,
    TW_EVENT_CANCEL,
    TW_EVENT_TRIGGER,
};

/* One event. Strings are never NULL ("" = absent) and point into the message it was read from.
 * Absent decimals are TW_DECIMAL_UNSET; a stop of 0 means none. */
struct tw_event {
    enum tw_event_kind kind;
    const char *event_id, *master_id;
    uint64_t sequence; /* 0 = not numbered */
    int64_t observed_wall_ns;

    const char *position_id;     /* what the event is about: the position, ... */
    const char *order_id;        /* ... or the pending order */
    const char *new_position_id; /* close: the remainder's ticket */
    const char *symbol;
    enum tw_side side;
    enum tw_order_type type;
    tw_decimal volume, remaining_volume;
    tw_decimal price, stop_price, stop_loss, take_profit;
    tw_decimal contract_size;
    int64_t magic;
    int64_t expires_wall_ns; /* 0 = none; modify_order: -1 = leave as it is, 0 = remove */
    bool increase;

    bool has_account;
    struct tw_account account; /* of the master, before this event */
};

/* Checks a message and reads it. now_wall_ns bounds observed_at.
 * False: *refusal says which field ("event.open.volume") and why; *ret is untouched.
 * Thread: any.  Pure. */
bool tw_event_read(const Tradewake__V1__TradeEvent *message, int64_t now_wall_ns,
                   struct tw_event *ret, struct tw_refusal *refusal);

/* One entry of a snapshot, as the event that would have made it; ids of event and master are left "".
 * prefix: "positions[3].". observed_wall_ns: opened_at, or 0. Otherwise as tw_event_read(). */
bool tw_event_read_position(const Tradewake__V1__OpenPosition *message, const char *prefix,
                            struct tw_event *ret, struct tw_refusal *refusal);
bool tw_event_read_order(const Tradewake__V1__PlaceOrder *message, const char *prefix,
                         struct tw_event *ret, struct tw_refusal *refusal);

/* An event that says nothing yet. */
void tw_event_clear(struct tw_event *event, enum tw_event_kind kind);

/* What decides whether a repeated event_id is the same event: SHA-256 over master and action as
 * read; observed_at, sequence and account are left out. */
#define TW_EVENT_HASH_BYTES 16u
void tw_event_hash(const struct tw_event *event, uint8_t ret[TW_EVENT_HASH_BYTES]);

/* The id that copies and marks carry: the position's, or the order's for pendings. */
const char *tw_event_subject_id(const struct tw_event *event);

/* "open", "close", ...; static. */
const char *tw_event_kind_word(enum tw_event_kind kind);

#endif
