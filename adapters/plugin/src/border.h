/* border.h - our orders and answers in the plugin's structs, and back: nothing that comes back is believed unseen.
 *
 * Pure: no clock, no lock, no call into a library. */
#ifndef PLUGIN_BORDER_H
#define PLUGIN_BORDER_H

#include "../tradewake_plugin.h"

#include <tradewake/adapters/order.h>

/* Sizes of 1.0, of which nothing is ever taken away: what a library has and fills in at least. */
enum {
    PLUGIN_BYTES_FIRST = 88,
    API_BYTES_FIRST = 96,
    CAPS_BYTES_FIRST = 40,
    ORDER_BYTES_FIRST = 312,
    OPEN_BYTES_FIRST = 56,
    RESULT_BYTES_FIRST = 368,
    ACCOUNT_BYTES_FIRST = 48,
    INSTRUMENT_BYTES_FIRST = 152,
    QUOTE_BYTES_FIRST = 88,
    POSITION_BYTES_FIRST = 272,
    PENDING_BYTES_FIRST = 232,
    EVENT_BYTES_FIRST = 192,
};

/* False: a text of it does not fit there; it cannot be sent. */
bool border_order(const struct tw_order *order, int64_t deadline_mono_ns, struct twp_order *ret);

/* What a call returned, and what it filled in. is_hedging: an open says which position it made. Returns NULL, or what
 * contradicts itself; then *ret is AMBIGUOUS. */
const char *border_answer(int32_t outcome, const struct twp_result *result, const struct tw_order *order, bool is_hedging,
                          int32_t code_table, struct tw_ack *ret);
/* The same of a look-up, where AMBIGUOUS means that it could not be asked. */
const char *border_found(int32_t outcome, const struct twp_result *result, int32_t code_table, struct tw_ack *ret);

/* Items of lists, of any version from 1.0 on. False: it is none. */
bool border_account(const struct twp_account *from, struct tw_account *ret);
bool border_instrument(const void *item, struct tw_instrument *ret);
bool border_quote(const void *item, struct twp_quote *ret);
bool border_position(const void *item, bool may_be_gone, struct tw_held_position *ret);
bool border_pending(const void *item, struct tw_held_order *ret);
bool border_event(const void *item, struct twp_event *ret); /* position stays the library's */

tw_reason border_reason(int32_t reason);

#endif
