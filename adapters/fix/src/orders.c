#include "orders.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 512, EXECS_MAX = 4096 };

/* One ClOrdID, or one OrderID, and the order it leads to. */
struct fix_name {
    struct fix_name *next, *other; /* in its bucket; of the same order */
    struct fix_name **bucket;
    struct fix_order *order;
    char text[FIX_ID_BYTES];
};

struct fix_orders {
    struct fix_name *by_cl_ord_id[BUCKETS], *by_order_id[BUCKETS];
    struct fix_order *newest, *oldest;
    size_t n, remembered;
};

/* ---- Names. ---- */

static uint64_t hash_more(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return hash;
}

static uint64_t hash(const char *text)
{
    return hash_more(UINT64_C(14695981039346656037), text);
}

static struct fix_name **bucket(struct fix_name *const *table, const char *text)
{
    return (struct fix_name **)(uintptr_t)&table[hash(text) % BUCKETS];
}

static struct fix_order *name_find(struct fix_name *const *table, const char *text)
{
    const struct fix_name *name = text[0] != '\0' ? *bucket(table, text) : NULL;
    while (name != NULL && strcmp(name->text, text) != 0)
        name = name->next;
    return name != NULL ? name->order : NULL;
}

static bool name_add(struct fix_name **table, const char *text, struct fix_order *order)
{
    struct fix_name *name = calloc(1, sizeof *name);
    if (name == NULL)
        return false;
    memcpy(name->text, text, strnlen(text, FIX_ID_BYTES - 1));
    name->order = order;
    name->bucket = bucket(table, text);
    name->next = *name->bucket;
    *name->bucket = name;
    name->other = order->names;
    order->names = name;
    return true;
}

/* *at is the order's. */
static void name_free(struct fix_name **at)
{
    struct fix_name *name = *at, **in_bucket = name->bucket;
    while (*in_bucket != name)
        in_bucket = &(*in_bucket)->next;
    *in_bucket = name->next;
    *at = name->other;
    free(name);
}

static void name_remove(struct fix_name **table, const char *text, struct fix_order *order)
{
    struct fix_name **in = bucket(table, text), **at = &order->names;
    while (*at != NULL && ((*at)->bucket != in || strcmp((*at)->text, text) != 0))
        at = &(*at)->other;
    if (*at != NULL)
        name_free(at);
}

/* ---- The book. ---- */

struct fix_orders *fix_orders_new(size_t remembered)
{
    struct fix_orders *orders = calloc(1, sizeof *orders);
    if (orders != NULL)
        orders->remembered = remembered;
    return orders;
}

void fix_orders_free(struct fix_orders *orders)
{
    if (orders == NULL)
        return;
    while (orders->newest != NULL)
        fix_orders_remove(orders, orders->newest);
    free(orders);
}

struct fix_order *fix_orders_find(const struct fix_orders *orders, const char *cl_ord_id)
{
    return name_find(orders->by_cl_ord_id, cl_ord_id);
}

struct fix_order *fix_orders_find_order(const struct fix_orders *orders, const char *order_id)
{
    return name_find(orders->by_order_id, order_id);
}

struct fix_order *fix_orders_first(const struct fix_orders *orders)
{
    return orders->newest;
}

bool fix_order_is_over(const struct fix_order *order)
{
    return order->state >= FIX_FILLED;
}

static void unlink_order(struct fix_orders *orders, struct fix_order *order)
{
    *(order->newer != NULL ? &order->newer->older : &orders->newest) = order->older;
    *(order->older != NULL ? &order->older->newer : &orders->oldest) = order->newer;
    orders->n--;
}

void fix_orders_remove(struct fix_orders *orders, struct fix_order *order)
{
    unlink_order(orders, order);
    while (order->names != NULL) /* its own list: a new order that has an old one forgotten must not go through the book */
        name_free(&order->names);
    free(order->execs);
    free(order);
}

/* The oldest of those that are over and that nobody waits for. */
static void forget_one(struct fix_orders *orders)
{
    struct fix_order *order = orders->oldest;
    while (order != NULL && (!fix_order_is_over(order) || order->waiting > 0))
        order = order->newer;
    if (order != NULL)
        fix_orders_remove(orders, order);
}

static void set_text(char *to, size_t size, const char *from)
{
    size_t n = strnlen(from, size - 1);
    memcpy(to, from, n);
    to[n] = '\0';
}

struct fix_order *fix_orders_add(struct fix_orders *orders, const char *id)
{
    if (id[0] == '\0' || strlen(id) >= FIX_ID_BYTES || fix_orders_find(orders, id) != NULL)
        return NULL;
    struct fix_order *order = calloc(1, sizeof *order);
    if (order == NULL || !name_add(orders->by_cl_ord_id, id, order)) {
        free(order);
        return NULL;
    }
    set_text(order->id, sizeof order->id, id);
    set_text(order->current_id, sizeof order->current_id, id);
    order->price = order->stop_price = order->quantity = TW_DECIMAL_UNSET;
    order->reject_reason = FIX_NO_CODE;
    order->older = orders->newest;
    *(orders->newest != NULL ? &orders->newest->newer : &orders->oldest) = order;
    orders->newest = order;
    if (++orders->n > orders->remembered)
        forget_one(orders);
    return order;
}

/* ---- A change that is out. ---- */

bool fix_order_change(struct fix_orders *orders, struct fix_order *order, enum fix_overlay overlay,
                      const char *change_id)
{
    if (order->change_id[0] != '\0' || change_id[0] == '\0' || strlen(change_id) >= FIX_ID_BYTES ||
        fix_orders_find(orders, change_id) != NULL || !name_add(orders->by_cl_ord_id, change_id, order))
        return false;
    set_text(order->change_id, sizeof order->change_id, change_id);
    order->overlay = overlay;
    order->is_change_cut = false;
    return true;
}

void fix_order_change_undo(struct fix_orders *orders, struct fix_order *order)
{
    if (order->change_id[0] != '\0')
        name_remove(orders->by_cl_ord_id, order->change_id, order);
    order->change_id[0] = '\0';
    order->overlay = FIX_OVERLAY_NONE;
}

void fix_order_change_give_up(struct fix_orders *orders, struct fix_order *order)
{
    if (order->change_id[0] != '\0')
        set_text(order->lost_id, sizeof order->lost_id, order->change_id);
    fix_order_change_undo(orders, order);
}

/* Answered: its ClOrdID goes on leading here, for the report that comes twice. */
static void change_end(struct fix_order *order, struct fix_change *change)
{
    change->overlay_was = order->overlay;
    change->is_change_answer = order->change_id[0] != '\0';
    order->change_id[0] = '\0';
    order->overlay = FIX_OVERLAY_NONE;
}

/* ---- ExecIDs. ---- */

/* True: it was not taken yet, and is now. A report without one is always new. */
static bool exec_take(struct fix_order *order, const char *exec_id)
{
    if (exec_id[0] == '\0' || strcmp(exec_id, "0") == 0)
        return true;
    uint64_t key = hash(exec_id);
    for (size_t i = 0; i < order->n_execs; i++)
        if (order->execs[i] == key)
            return false;
    if (order->n_execs == order->execs_room && order->execs_room < EXECS_MAX) {
        size_t room = order->execs_room > 0 ? order->execs_room * 2 : 4;
        uint64_t *execs = realloc(order->execs, room * sizeof *execs);
        if (execs == NULL)
            return true; /* the totals hold without it */
        order->execs = execs;
        order->execs_room = room;
    }
    if (order->n_execs < order->execs_room)
        order->execs[order->n_execs++] = key;
    return true;
}

/* ---- States. ---- */

/* By OrdStatus (39). Pending cancel and pending replace say nothing of the state below. */
static bool state_of(char ord_status, tw_decimal cum, enum fix_state *ret)
{
    switch (ord_status) {
    case 'A':
        *ret = FIX_PENDING_NEW;
        return true;
    case '0': /* new */
    case '5': /* replaced: works on */
    case '6': /* pending cancel */
    case 'E': /* pending replace */
    case '7': /* stopped: a price is guaranteed */
    case '9': /* suspended */
    case 'D': /* accepted for bidding */
        *ret = cum > 0 ? FIX_PARTIAL : FIX_NEW;
        return true;
    case '1':
        *ret = FIX_PARTIAL;
        return true;
    case '2':
    case 'B': /* calculated: done for the day, and reckoned */
        *ret = FIX_FILLED;
        return true;
    case '3':
        *ret = FIX_DONE_FOR_DAY;
        return true;
    case '4':
        *ret = FIX_CANCELLED;
        return true;
    case '8':
        *ret = FIX_REJECTED;
        return true;
    case 'C':
        *ret = FIX_EXPIRED;
        return true;
    default:
        return false;
    }
}

static void state_set(struct fix_order *order, const struct fix_report *report, bool may_go_back,
                      struct fix_change *change)
{
    enum fix_state state;
    if (report->ord_status == '\0')
        return;
    if (!state_of(report->ord_status, order->cum, &state)) {
        change->oddity = FIX_ODD_UNKNOWN_STATE;
        return;
    }
    bool was_over = fix_order_is_over(order);
    /* An acknowledgement that a fill has overtaken, and whatever comes after the end. */
    if (!may_go_back && (was_over || state < order->state))
        return;
    order->state = state;
    change->is_over = !was_over && fix_order_is_over(order);
}

/* ---- Totals. ---- */

static void totals_take(struct fix_order *order, const struct fix_report *report, bool is_fresh,
                        struct fix_change *change)
{
    bool is_fill = report->exec_type == 'F' || report->exec_type == '1' || report->exec_type == '2';
    bool may_have_filled = is_fill || (report->ord_status != '\0' && strchr("12B34C", report->ord_status) != NULL);
    if (report->quantity != TW_DECIMAL_UNSET && report->quantity > 0)
        order->quantity = report->quantity;
    if (report->cum == TW_DECIMAL_UNSET) {
        order->has_unread_fill = order->has_unread_fill || may_have_filled;
        if (is_fill)
            change->oddity = FIX_ODD_NO_TOTALS;
        return;
    }
    /* What is replayed with less may be from before it. */
    if (report->exec_type == 'I' || report->cum > order->cum)
        order->has_unread_fill = false;
    bool is_change = change->is_correction ? is_fresh && report->cum != order->cum : report->cum > order->cum;
    if (report->cum < order->cum && !change->is_correction && is_fresh)
        change->oddity = FIX_ODD_CUM_BACK;
    if (order->quantity != TW_DECIMAL_UNSET && report->cum > order->quantity)
        change->oddity = FIX_ODD_CUM_OVER;
    if (!is_change)
        return;
    change->booked = report->cum - order->cum;
    order->cum = report->cum;
    if (report->average != TW_DECIMAL_UNSET && report->average > 0)
        order->average = report->average;
    else if (report->last_price != TW_DECIMAL_UNSET && report->last_price > 0 && order->average == 0)
        order->average = report->last_price;
    order->leaves = report->leaves != TW_DECIMAL_UNSET ? report->leaves : order->leaves;
}

/* ---- Reports. ---- */

static bool is_none(const char *order_id)
{
    return order_id[0] == '\0' || strcmp(order_id, "NONE") == 0 || strcmp(order_id, "0") == 0 ||
           strcmp(order_id, "UNKNOWN") == 0;
}

bool fix_report_is_unknown_order(const struct fix_report *report)
{
    enum { UNKNOWN_ORDER = 5 };
    bool is_answer = report->exec_type == 'I' || report->exec_type == '8';
    return is_answer && report->ord_status == '8' && (report->cum == 0 || report->cum == TW_DECIMAL_UNSET) &&
           report->reject_reason == UNKNOWN_ORDER;
}

static struct fix_order *order_of(struct fix_orders *orders, const struct fix_report *report)
{
    struct fix_order *order = fix_orders_find(orders, report->cl_ord_id);
    if (order == NULL)
        order = fix_orders_find(orders, report->orig_cl_ord_id);
    if (order == NULL && !is_none(report->order_id))
        order = fix_orders_find_order(orders, report->order_id);
    return order;
}

/* One that nobody here has sent, or that an earlier life has. */
static struct fix_order *adopt(struct fix_orders *orders, const struct fix_report *report)
{
    const char *id = report->orig_cl_ord_id[0] != '\0' ? report->orig_cl_ord_id : report->cl_ord_id;
    struct fix_order *order = fix_orders_add(orders, id[0] != '\0' ? id : report->order_id);
    if (order == NULL)
        return NULL;
    order->op = TW_OP_PLACE;
    order->side = report->side;
    order->type = report->type;
    return order;
}

static void keep_names(struct fix_orders *orders, struct fix_order *order, const struct fix_report *report)
{
    if (!is_none(report->order_id) && strcmp(order->order_id, report->order_id) != 0) {
        /* A replace may give it another one; the old one goes on leading here. */
        if (fix_orders_find_order(orders, report->order_id) == NULL)
            (void)name_add(orders->by_order_id, report->order_id, order);
        set_text(order->order_id, sizeof order->order_id, report->order_id);
    }
    if (report->position_id[0] != '\0')
        set_text(order->position_id, sizeof order->position_id, report->position_id);
    if (order->symbol[0] == '\0')
        set_text(order->symbol, sizeof order->symbol, report->symbol);
    if (order->side == TW_SIDE_NONE)
        order->side = report->side;
    if (order->type == TW_ORDER_NONE)
        order->type = report->type;
}

static void keep_terms(struct fix_order *order, const struct fix_report *report)
{
    if (report->price != TW_DECIMAL_UNSET)
        order->price = report->price;
    if (report->stop_price != TW_DECIMAL_UNSET)
        order->stop_price = report->stop_price;
    if (report->expires_wall_ns != 0)
        order->expires_wall_ns = report->expires_wall_ns;
    if (report->text[0] != '\0')
        set_text(order->text, sizeof order->text, report->text);
}

/* Does the report answer the change that is out? */
static void overlay_take(struct fix_orders *orders, struct fix_order *order, const struct fix_report *report,
                         struct fix_change *change)
{
    /* The late answer of a change that was given up answers none that is out now. */
    bool is_of_lost = order->lost_id[0] != '\0' && strcmp(report->cl_ord_id, order->lost_id) == 0 &&
                      strcmp(order->change_id, order->lost_id) != 0;
    /* A status that names it by the replace: that has been accepted, and the word of it is lost. */
    bool is_shown = report->exec_type == 'I' && order->overlay == FIX_OVERLAY_REPLACE && report->cl_ord_id[0] != '\0' &&
                    strcmp(report->cl_ord_id, order->change_id) == 0 && report->ord_status != 'E' && report->ord_status != '6';
    bool is_replaced = report->exec_type == '5' || is_shown;
    bool is_cancelled = report->exec_type == '4' || report->ord_status == '4';
    change->overlay_was = order->overlay;
    if (is_replaced) {
        change->is_unsolicited = order->overlay != FIX_OVERLAY_REPLACE;
        if (report->cl_ord_id[0] != '\0') {
            if (fix_orders_find(orders, report->cl_ord_id) == NULL)
                (void)name_add(orders->by_cl_ord_id, report->cl_ord_id, order);
            set_text(order->current_id, sizeof order->current_id, report->cl_ord_id);
        }
        if (order->overlay == FIX_OVERLAY_REPLACE && !is_of_lost)
            change_end(order, change);
    } else if (is_cancelled && change->is_over) {
        change->is_unsolicited = order->overlay != FIX_OVERLAY_CANCEL;
        if (order->overlay == FIX_OVERLAY_CANCEL)
            change_end(order, change);
    }
}

bool fix_orders_report(struct fix_orders *orders, const struct fix_report *report, struct fix_change *ret)
{
    *ret = (struct fix_change){0};
    struct fix_order *order = order_of(orders, report);
    if (fix_report_is_unknown_order(report)) {
        /* Of one that has been heard of before this says nothing. */
        if (order != NULL && order->state == FIX_SENT && !order->is_known_there)
            order->is_absent = true;
        ret->order = order;
        return true;
    }
    if (order == NULL) {
        if (is_none(report->order_id))
            return true; /* the refusal of what nobody here has sent */
        order = adopt(orders, report);
        if (order == NULL)
            return false;
        ret->is_adopted = true;
    }
    ret->order = order;
    ret->is_correction = report->exec_type == 'G' || report->exec_type == 'H';
    order->is_absent = false;
    /* A status is no execution: its ExecID, if any, is that of the last one. */
    bool is_fresh = report->exec_type == 'I' || exec_take(order, report->exec_id);
    keep_names(orders, order, report);
    totals_take(order, report, is_fresh, ret);
    bool is_restated = report->exec_type == 'D' && !fix_order_is_over(order);
    state_set(order, report, (ret->is_correction && is_fresh) || is_restated, ret);
    if (order->state == FIX_REJECTED)
        order->reject_reason = report->reject_reason;
    keep_terms(order, report);
    overlay_take(orders, order, report, ret);
    if (fix_order_is_over(order))
        order->leaves = 0;
    return true;
}

void fix_orders_cancel_reject(struct fix_orders *orders, const struct fix_report *report, struct fix_change *ret)
{
    *ret = (struct fix_change){0};
    struct fix_order *order = order_of(orders, report);
    ret->order = order;
    if (order == NULL)
        return;
    bool is_answer = order->change_id[0] != '\0' && strcmp(order->change_id, report->cl_ord_id) == 0;
    if (is_answer)
        change_end(order, ret);
    ret->change_refused = is_answer;
    /* 39=8 is what a venue writes that has no such order: of ours it says nothing. */
    if (report->ord_status != '8')
        state_set(order, report, false, ret);
    if (report->text[0] != '\0')
        set_text(order->text, sizeof order->text, report->text);
}
