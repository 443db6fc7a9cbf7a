/* report.h - what the venue said of an order, as plain values: an ExecutionReport (8), an OrderCancelReject (9), a
 * PositionReport (AP). Quantities are the venue's units. Absent numbers are TW_DECIMAL_UNSET, absent text "". */
#ifndef FIX_REPORT_H
#define FIX_REPORT_H

#include <tradewake/adapters/order.h>

enum { FIX_ID_BYTES = TW_BROKER_ID_BYTES, FIX_NO_CODE = -1 };

struct fix_report {
    char exec_type;  /* 150; of an OrderCancelReject 0 */
    char ord_status; /* 39 */
    bool is_duplicate; /* 43=Y or 97=Y: it may have been seen */
    char cl_ord_id[FIX_ID_BYTES];      /* 11 */
    char orig_cl_ord_id[FIX_ID_BYTES]; /* 41 */
    char order_id[FIX_ID_BYTES];       /* 37; "NONE" and "0" are none */
    char exec_id[FIX_ID_BYTES];        /* 17 */
    char account[FIX_ID_BYTES];        /* 1 */
    char symbol[TW_SYMBOL_BYTES];      /* 55 */
    char position_id[FIX_ID_BYTES];    /* 721, where the profile has it */
    char label[FIX_ID_BYTES];          /* 494, where the profile has it */
    char request_id[FIX_ID_BYTES];     /* 584, 790 or 710: what it answers */
    char text[TW_BROKER_TEXT_BYTES];   /* 58 */
    enum tw_side side;                 /* 54 */
    enum tw_order_type type;           /* 40 */
    tw_decimal quantity, cum, leaves;  /* 38, 14, 151 */
    tw_decimal average, last_price;    /* 6, 31 */
    tw_decimal price, stop_price;      /* 44, 99 */
    int64_t expires_wall_ns;           /* 126; 0 = none */
    int reject_reason;                 /* 103, of an OrderCancelReject 102; FIX_NO_CODE = absent */
    int restatement;                   /* 378 */
    int total;                         /* 911, 727: so many answer the request; FIX_NO_CODE = absent */
    int result;                        /* 728 */
    bool is_last;                      /* 912=Y */
};

#endif
