/* compose.h - orders and questions as the fields of FIX messages. Pure.
 *
 * A body is what stands between the header and the checksum: "11=T1...<SOH>55=1<SOH>". */
#ifndef FIX_COMPOSE_H
#define FIX_COMPOSE_H

#include "orders.h"
#include "venues.h"

enum { FIX_BODY_BYTES = 1024 };

struct fix_body {
    char text[FIX_BODY_BYTES];
    size_t n;
    bool is_full; /* something did not fit: not to be sent */
};

void fix_put(struct fix_body *body, uint32_t tag, const char *value);
void fix_put_char(struct fix_body *body, uint32_t tag, char value);
void fix_put_decimal(struct fix_body *body, uint32_t tag, tw_decimal value);
void fix_put_time(struct fix_body *body, uint32_t tag, int64_t wall_ns); /* UTCTimestamp with milliseconds */

/* What an order is sent with. */
struct fix_terms {
    const struct fix_profile *profile;
    const char *account; /* 1; "" = not sent */
    const char *symbol;  /* the venue's name */
    tw_decimal units;
    int64_t now_wall_ns;
};

/* NewOrderSingle (D), of OPEN, CLOSE and PLACE. order->position_id: what it closes. */
void fix_compose_new(const struct fix_terms *terms, const struct tw_order *order, struct fix_body *ret);
/* OrderCancelRequest (F). */
void fix_compose_cancel(const struct fix_terms *terms, const struct fix_order *target, const char *cl_ord_id,
                        struct fix_body *ret);
/* OrderCancelReplaceRequest (G): what change does not name stays as target has it. */
void fix_compose_replace(const struct fix_terms *terms, const struct fix_order *target, const struct tw_order *change,
                         struct fix_body *ret);
/* OrderStatusRequest (H). side: TW_SIDE_NONE = not known, and left out. */
void fix_compose_status(const struct fix_terms *terms, const char *cl_ord_id, const char *order_id, enum tw_side side,
                        struct fix_body *ret);
/* OrderMassStatusRequest (AF): all that work. */
void fix_compose_mass_status(const struct fix_terms *terms, const char *request_id, struct fix_body *ret);
/* RequestForPositions (AN): all. */
void fix_compose_positions(const struct fix_terms *terms, const char *request_id, struct fix_body *ret);

#endif
