#include "compose.h"

#include <tradewake/base/clock.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- Fields. ---- */

void fix_put(struct fix_body *body, uint32_t tag, const char *value)
{
    size_t room = sizeof body->text - body->n;
    /* A separator inside a value would be a field of its own. */
    if (value[0] == '\0' || strchr(value, '\001') != NULL) {
        body->is_full = true;
        return;
    }
    int n = snprintf(body->text + body->n, room, "%u=%s\001", tag, value);
    if (n < 0 || (size_t)n >= room)
        body->is_full = true;
    else
        body->n += (size_t)n;
}

void fix_put_char(struct fix_body *body, uint32_t tag, char value)
{
    const char text[2] = {value, '\0'};
    fix_put(body, tag, text);
}

void fix_put_decimal(struct fix_body *body, uint32_t tag, tw_decimal value)
{
    char text[TW_DECIMAL_TEXT_BYTES];
    fix_put(body, tag, tw_decimal_text(value, text));
}

void fix_put_time(struct fix_body *body, uint32_t tag, int64_t wall_ns)
{
    char text[32];
    struct tm utc;
    time_t seconds = (time_t)(wall_ns / TW_NS_PER_S);
    gmtime_r(&seconds, &utc);
    size_t n = strftime(text, sizeof text, "%Y%m%d-%H:%M:%S", &utc);
    snprintf(text + n, sizeof text - n, ".%03u", (unsigned)(wall_ns % TW_NS_PER_S / TW_NS_PER_MS) % 1000u);
    fix_put(body, tag, text);
}

static void put_side(struct fix_body *body, enum tw_side side)
{
    fix_put_char(body, 54, side == TW_SELL ? '2' : '1');
}

static char type_of(enum tw_order_type type)
{
    static const char types[] = {[TW_ORDER_NONE] = '1', [TW_ORDER_MARKET] = '1', [TW_ORDER_LIMIT] = '2', [TW_ORDER_STOP] = '3',
                                 [TW_ORDER_STOP_LIMIT] = '4'};
    return types[type];
}

static bool has_price(enum tw_order_type type)
{
    return type == TW_ORDER_LIMIT || type == TW_ORDER_STOP_LIMIT;
}

static bool has_stop_price(enum tw_order_type type)
{
    return type == TW_ORDER_STOP || type == TW_ORDER_STOP_LIMIT;
}

/* In a stop order the core's price is the trigger, if it names no stop price of its own. */
static tw_decimal trigger_of(const struct tw_order *order)
{
    return order->stop_price != TW_DECIMAL_UNSET ? order->stop_price : order->price;
}

static void put_expiry(struct fix_body *body, const struct fix_profile *profile, int64_t expires_wall_ns)
{
    if (expires_wall_ns > 0) {
        fix_put_char(body, 59, '6'); /* good till date */
        fix_put_time(body, 126, expires_wall_ns);
    } else if (profile->pending_tif != '\0') {
        fix_put_char(body, 59, profile->pending_tif);
    }
}

/* ---- Messages. ---- */

void fix_compose_new(const struct fix_terms *terms, const struct tw_order *order, struct fix_body *ret)
{
    const struct fix_profile *profile = terms->profile;
    bool is_pending = order->op == TW_OP_PLACE;
    enum tw_order_type type = is_pending ? order->type : TW_ORDER_MARKET;
    *ret = (struct fix_body){.n = 0};
    fix_put(ret, 11, order->client_order_id);
    if (terms->account[0] != '\0')
        fix_put(ret, 1, terms->account);
    if (profile->wants_handl_inst)
        fix_put_char(ret, 21, '1');
    fix_put(ret, 55, terms->symbol);
    put_side(ret, order->side);
    fix_put_time(ret, 60, terms->now_wall_ns);
    fix_put_decimal(ret, 38, terms->units);
    fix_put_char(ret, 40, type_of(type));
    if (has_price(type))
        fix_put_decimal(ret, 44, order->price);
    if (has_stop_price(type))
        fix_put_decimal(ret, 99, trigger_of(order));
    if (is_pending)
        put_expiry(ret, profile, order->expires_wall_ns);
    else if (profile->market_tif != '\0')
        fix_put_char(ret, 59, profile->market_tif);
    if (profile->position_tag != 0 && order->op == TW_OP_CLOSE)
        fix_put(ret, profile->position_tag, order->position_id);
    if (profile->label_tag != 0)
        fix_put(ret, profile->label_tag, order->client_order_id);
}

static void put_target(const struct fix_terms *terms, const struct fix_order *target, const char *cl_ord_id,
                       struct fix_body *ret)
{
    const struct fix_profile *profile = terms->profile;
    *ret = (struct fix_body){.n = 0};
    fix_put(ret, 11, cl_ord_id);
    fix_put(ret, 41, target->current_id);
    if (profile->wants_order_id && target->order_id[0] != '\0')
        fix_put(ret, 37, target->order_id);
    if (terms->account[0] != '\0')
        fix_put(ret, 1, terms->account);
    fix_put(ret, 55, target->symbol);
    put_side(ret, target->side);
    fix_put_time(ret, 60, terms->now_wall_ns);
}

void fix_compose_cancel(const struct fix_terms *terms, const struct fix_order *target, const char *cl_ord_id,
                        struct fix_body *ret)
{
    put_target(terms, target, cl_ord_id, ret);
    if (target->quantity != TW_DECIMAL_UNSET)
        fix_put_decimal(ret, 38, target->quantity);
}

static tw_decimal named_or(tw_decimal wanted, tw_decimal otherwise)
{
    return wanted != TW_DECIMAL_UNSET ? wanted : otherwise;
}

void fix_compose_replace(const struct fix_terms *terms, const struct fix_order *target, const struct tw_order *change,
                         struct fix_body *ret)
{
    put_target(terms, target, change->client_order_id, ret);
    if (terms->profile->wants_handl_inst)
        fix_put_char(ret, 21, '1');
    if (target->quantity != TW_DECIMAL_UNSET)
        fix_put_decimal(ret, 38, target->quantity);
    fix_put_char(ret, 40, type_of(target->type));
    if (has_price(target->type))
        fix_put_decimal(ret, 44, named_or(change->price, target->price));
    if (has_stop_price(target->type))
        fix_put_decimal(ret, 99,
                        named_or(target->type == TW_ORDER_STOP ? trigger_of(change) : change->stop_price, target->stop_price));
    put_expiry(ret, terms->profile, change->expires_wall_ns == -1 ? target->expires_wall_ns : change->expires_wall_ns);
}

void fix_compose_status(const struct fix_terms *terms, const char *cl_ord_id, const char *order_id, enum tw_side side,
                        struct fix_body *ret)
{
    *ret = (struct fix_body){.n = 0};
    fix_put(ret, 11, cl_ord_id);
    if (order_id[0] != '\0')
        fix_put(ret, 37, order_id);
    if (terms->account[0] != '\0')
        fix_put(ret, 1, terms->account);
    fix_put(ret, 55, terms->symbol);
    if (terms->profile->wants_side && side != TW_SIDE_NONE)
        put_side(ret, side);
}

void fix_compose_mass_status(const struct fix_terms *terms, const char *request_id, struct fix_body *ret)
{
    *ret = (struct fix_body){.n = 0};
    fix_put(ret, 584, request_id);
    fix_put_char(ret, 585, '7');
    if (terms->account[0] != '\0')
        fix_put(ret, 1, terms->account);
}

void fix_compose_positions(const struct fix_terms *terms, const char *request_id, struct fix_body *ret)
{
    *ret = (struct fix_body){.n = 0};
    fix_put(ret, 710, request_id);
    if (terms->account[0] == '\0')
        return;
    /* What 4.4 asks for beside it, where positions are not one account's. */
    fix_put_char(ret, 724, '0');
    fix_put(ret, 1, terms->account);
    fix_put_char(ret, 581, '1');
    char day[32];
    time_t seconds = (time_t)(terms->now_wall_ns / TW_NS_PER_S);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    strftime(day, sizeof day, "%Y%m%d", &utc);
    fix_put(ret, 715, day);
    fix_put_time(ret, 60, terms->now_wall_ns);
}
