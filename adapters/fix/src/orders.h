/* orders.h - what became of each order: the state machine of FIX 4.4 appendix D, as a pure function of reports.
 *
 *                    .-> REJECTED
 *     SENT -> PENDING_NEW -> NEW -> PARTIAL -> FILLED | CANCELLED | EXPIRED | DONE_FOR_DAY
 *       '-------------------^ a fill may come without an acknowledgement
 *
 * A cancel or a replace that is on its way lies over the state and changes nothing of it: refused, and the order is
 * as it was. Three rules cost money when they are broken, and hold whatever the venue sends:
 *   - totals come from CumQty (14), never from adding LastQty (32) up: a report that comes twice changes nothing;
 *   - what is filled never falls, unless the venue says that it corrects (150=G) or busts (150=H) a fill, and each such
 *     word is taken once, by its ExecID (17);
 *   - what is over stays over: only a correction, a bust or a restatement changes it - but a fill that comes late
 *     is booked all the same.
 *
 * Pure: no clock, no I/O, no codec. Thread: one. */
#ifndef FIX_ORDERS_H
#define FIX_ORDERS_H

#include "report.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fix_state {
    FIX_SENT, /* nothing has been heard of it */
    FIX_PENDING_NEW,
    FIX_NEW,
    FIX_PARTIAL,
    FIX_FILLED,
    FIX_CANCELLED,
    FIX_REJECTED,
    FIX_EXPIRED,
    FIX_DONE_FOR_DAY,
    FIX_STATE_COUNT
};

enum fix_overlay { FIX_OVERLAY_NONE, FIX_OVERLAY_CANCEL, FIX_OVERLAY_REPLACE };

struct fix_order {
    char id[FIX_ID_BYTES];         /* ours: the first ClOrdID, under which everybody knows it */
    char current_id[FIX_ID_BYTES]; /* the last ClOrdID that the venue has accepted: 41 of a change */
    char change_id[FIX_ID_BYTES];  /* the ClOrdID of the cancel or replace that is out; "" = none */
    char lost_id[FIX_ID_BYTES];    /* of the last one that was given up without an answer */
    char order_id[FIX_ID_BYTES];   /* the venue's; "" = not said yet */
    char position_id[FIX_ID_BYTES];
    char symbol[TW_SYMBOL_BYTES]; /* the venue's name */
    enum tw_side side;
    enum tw_order_type type;
    enum tw_order_op op; /* OPEN, CLOSE, PLACE; of an adopted one PLACE */
    enum fix_state state;
    enum fix_overlay overlay;
    bool is_ours;     /* sent by this adapter, in this life or an earlier one */
    bool is_absent;   /* the venue has said that it knows no such order */
    bool is_known_there;  /* it has refused another one as this one's duplicate: it has it, whatever it says */
    bool has_unread_fill; /* a fill, or an end that is no refusal, without a CumQty, and no total since */
    bool is_change_cut;   /* the connection over which the change went is gone; the caller's */
    bool names_position; /* it was sent for a position that was there */
    uint32_t attempt;
    tw_decimal quantity, cum, leaves, average;
    tw_decimal price, stop_price; /* of a pending */
    int64_t expires_wall_ns;
    int reject_reason;
    char text[TW_BROKER_TEXT_BYTES];
    void *owner;      /* whose it is; the caller's */
    unsigned waiting; /* calls that wait for it: not forgotten meanwhile; the caller's */
    uint64_t listed;  /* the last list of working orders that it stood in; the caller's */
    bool is_told_working; /* the host knows that it works; the caller's */

    /* The book's. */
    struct fix_name *names; /* that lead to it */
    uint64_t *execs; /* ExecIDs that were taken, hashed */
    size_t n_execs, execs_room;
    struct fix_order *newer, *older;
};

struct fix_orders;

/* remembered: so many that are over are kept, to be asked for. NULL: no memory. */
struct fix_orders *fix_orders_new(size_t remembered);
void fix_orders_free(struct fix_orders *orders); /* NULL is allowed */

/* A new one that is about to be sent, in SENT. NULL: no memory, or the id is taken. */
struct fix_order *fix_orders_add(struct fix_orders *orders, const char *id);
/* By any ClOrdID of its chain; by the venue's id. */
struct fix_order *fix_orders_find(const struct fix_orders *orders, const char *cl_ord_id);
struct fix_order *fix_orders_find_order(const struct fix_orders *orders, const char *order_id);
void fix_orders_remove(struct fix_orders *orders, struct fix_order *order);

/* A change of it goes out under this ClOrdID. False: no memory, or one is out already, or the id is taken. */
bool fix_order_change(struct fix_orders *orders, struct fix_order *order, enum fix_overlay overlay,
                      const char *change_id);
/* It never left, or the venue's session has refused it. */
void fix_order_change_undo(struct fix_orders *orders, struct fix_order *order);
/* Nobody waits for it any more: another may go out. Should it be answered after all, the order is as that says. */
void fix_order_change_give_up(struct fix_orders *orders, struct fix_order *order);

bool fix_order_is_over(const struct fix_order *order);

/* What a report is not as it should be. Counted, told in the log, and never a reason to lose a fill. */
enum fix_oddity {
    FIX_ODD_NONE,
    FIX_ODD_UNKNOWN_STATE, /* an OrdStatus that 4.4 does not have */
    FIX_ODD_CUM_BACK,      /* CumQty fell, and nothing was corrected */
    FIX_ODD_CUM_OVER,      /* CumQty above what was ordered */
    FIX_ODD_NO_TOTALS,     /* a fill without a CumQty */
};

struct fix_change {
    struct fix_order *order; /* NULL = it says that there is no such order */
    tw_decimal booked;       /* what it adds to what is filled; below 0 of a correction or bust */
    bool is_adopted;         /* nobody asked for it: it is known from now on */
    bool is_over;            /* with this report */
    bool is_unsolicited;     /* cancelled or changed without being asked */
    bool is_correction;      /* 150=G or H */
    bool is_change_answer;   /* the cancel or replace that was out is answered */
    bool change_refused;
    enum fix_overlay overlay_was;
    enum fix_oddity oddity;
};

/* Takes an ExecutionReport. False: no memory, nothing changed. */
bool fix_orders_report(struct fix_orders *orders, const struct fix_report *report, struct fix_change *ret);
/* Takes an OrderCancelReject: the state is what 39 says, and nothing is booked. */
void fix_orders_cancel_reject(struct fix_orders *orders, const struct fix_report *report, struct fix_change *ret);

/* A report that says that the venue knows no such order (the answer to a question). */
bool fix_report_is_unknown_order(const struct fix_report *report);

/* All, the newest first. */
struct fix_order *fix_orders_first(const struct fix_orders *orders);

#endif
