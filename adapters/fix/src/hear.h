/* hear.h - application messages of the venue as plain values. Pure: no float, no locale, and what does not fit or is no
 * number is absent, never half of it. */
#ifndef FIX_HEAR_H
#define FIX_HEAR_H

#include "report.h"
#include "venues.h"

enum fix_heard_kind { FIX_HEARD_OTHER, FIX_HEARD_EXECUTION, FIX_HEARD_CANCEL_REJECT, FIX_HEARD_POSITION, FIX_HEARD_UNREAD };

struct fix_heard {
    enum fix_heard_kind kind;
    struct fix_report report;     /* UNREAD: text */
    uint64_t ref_seq;             /* 45 */
    char ref_id[FIX_ID_BYTES];    /* 379 */
    bool is_session_reject;       /* 3, not j */
    int code;                     /* 380 */
};

/* The value of the first field with this tag; NULL = absent. Points into the message. */
typedef const char *fix_value_fn(const void *message, uint32_t tag, size_t *ret_n);

void fix_hear(const struct fix_profile *profile, const char *msg_type, fix_value_fn *value, const void *message,
              struct fix_heard *ret);

/* A FIX number: "-", leading zeros and zeros behind the eighth decimal are allowed. False: it is none, or not exact. */
bool fix_decimal_read(const char *text, size_t n, tw_decimal *ret);
/* UTCTimestamp with 0 to 9 decimals of a second; :60 is the second after. False: it is none. */
bool fix_time_read(const char *text, size_t n, int64_t *ret_wall_ns);

#endif
