/* hear.h - application messages of the venue as plain values. Pure: no float, no locale, and what does not fit or is no
 * number is absent, never half of it. */
#ifndef FIX_HEAR_H
#define FIX_HEAR_H

#include "report.h"
#include "venues.h"

#include <tradewake/fix/codec.h>

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

#endif
