/* profile.h - what a venue's FIX 4.4 is like: data, not code. One more venue is one more row. */
#ifndef FIX_PROFILE_H
#define FIX_PROFILE_H

#include "report.h"

#include <stdbool.h>
#include <stdint.h>

/* What a refusal leads to. The first row that fits counts. */
struct fix_rule {
    int code;         /* 103, 102 or 380; FIX_NO_CODE = any */
    const char *text; /* part of 58, letters' size does not matter; NULL = any */
    enum tw_outcome outcome; /* AMBIGUOUS: nothing is certain, the order is asked for */
    tw_reason reason;
};

struct fix_rules {
    const struct fix_rule *list;
    size_t n;
};

struct fix_profile {
    const char *name;
    bool is_netting;       /* positions are netted by the venue; false: they have ids */
    bool is_one_account;   /* a session carries one account, and 1 is not sent */
    uint16_t position_tag; /* names the position to close; 0 = there is none */
    uint16_t label_tag;    /* comes back with every report, takes our ClOrdID; 0 = none */
    bool wants_handl_inst; /* 21=1 */
    bool wants_order_id;   /* 37 in a cancel and a replace */
    bool wants_side;       /* 54 in F, G and H */
    bool asks_order;       /* H finds an order by its ClOrdID, also one that is over */
    bool asks_all;         /* AF with 585=7 lists those that work */
    bool asks_positions;   /* AN lists positions */
    bool refuses_duplicates; /* a ClOrdID that was used is refused (103=6) */
    char market_tif, pending_tif; /* 59; 0 = not sent */
    bool takes_user_tags;  /* session messages may have tags that 4.4 does not know */
    bool resets_at_logon;  /* 141=Y, and both count from 1 */
    const char *sender_sub, *target_sub; /* unless the session says otherwise */
    uint32_t settle_ms;    /* so long an order may be on its way inside the venue */
    uint32_t calls_per_second; /* the venue's own limit, for the record; 0 = not known */
    struct fix_rules refused;        /* of an order: 8 with 39=8 */
    struct fix_rules cancel_refused; /* of a cancel or replace: 9 */
    struct fix_rules unread;         /* of any application message: j */
};

/* NULL = there is none of that name. Static. */
const struct fix_profile *fix_profile_find(const char *name);
/* "generic44, ctrader". Static. */
const char *fix_profile_names(void);

/* The rule that fits; NULL = none. */
const struct fix_rule *fix_rule_find(const struct fix_rules *rules, int code, const char *text);

#endif
