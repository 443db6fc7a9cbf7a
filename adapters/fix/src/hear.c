#include "hear.h"

#include <string.h>

/* ---- Values. ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool digits_read(const char *text, size_t n, int *ret)
{
    int number = 0;
    if (n == 0 || n > 9)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(text[i]))
            return false;
        number = number * 10 + (text[i] - '0');
    }
    *ret = number;
    return true;
}

/* ---- Fields. ---- */

struct reading {
    fix_value_fn *value;
    const void *message;
};

/* Whole, or not at all: an id that is cut would be another one. */
static void take_text(const struct reading *r, uint32_t tag, char *to, size_t size)
{
    size_t n = 0;
    const char *value = r->value(r->message, tag, &n);
    to[0] = '\0';
    if (value == NULL || n >= size || memchr(value, '\0', n) != NULL)
        return;
    memcpy(to, value, n);
    to[n] = '\0';
}

/* Words for people: cut where it must be, and without what a terminal would obey. */
static void take_words(const struct reading *r, uint32_t tag, char *to, size_t size)
{
    size_t n = 0;
    const char *value = r->value(r->message, tag, &n);
    if (value == NULL)
        n = 0;
    if (n >= size)
        n = size - 1;
    for (size_t i = 0; i < n; i++)
        to[i] = value[i] >= ' ' && value[i] <= '~' ? value[i] : '?';
    to[n] = '\0';
}

static char char_of(const struct reading *r, uint32_t tag)
{
    size_t n = 0;
    const char *value = r->value(r->message, tag, &n);
    return value != NULL && n == 1 ? value[0] : '\0';
}

static tw_decimal decimal_of(const struct reading *r, uint32_t tag)
{
    size_t n = 0;
    tw_decimal number;
    const char *value = r->value(r->message, tag, &n);
    return value != NULL && fix_decimal_read(value, n, &number) ? number : TW_DECIMAL_UNSET;
}

static int int_of(const struct reading *r, uint32_t tag)
{
    size_t n = 0;
    int number;
    const char *value = r->value(r->message, tag, &n);
    return value != NULL && digits_read(value, n, &number) ? number : FIX_NO_CODE;
}

static enum tw_side side_of(const struct reading *r)
{
    switch (char_of(r, 54)) {
    case '1':
        return TW_BUY;
    case '2':
    case '5': /* sell short */
        return TW_SELL;
    default:
        return TW_SIDE_NONE;
    }
}

static enum tw_order_type type_of(const struct reading *r)
{
    switch (char_of(r, 40)) {
    case '1':
        return TW_ORDER_MARKET;
    case '2':
        return TW_ORDER_LIMIT;
    case '3':
        return TW_ORDER_STOP;
    case '4':
        return TW_ORDER_STOP_LIMIT;
    default:
        return TW_ORDER_NONE;
    }
}

/* ---- Messages. ---- */

static void hear_order(const struct fix_profile *profile, const struct reading *r, struct fix_report *report)
{
    size_t n = 0;
    const char *expiry = r->value(r->message, 126, &n);
    int64_t expires = 0;
    report->exec_type = char_of(r, 150);
    report->ord_status = char_of(r, 39);
    report->is_duplicate = char_of(r, 43) == 'Y' || char_of(r, 97) == 'Y';
    take_text(r, 11, report->cl_ord_id, sizeof report->cl_ord_id);
    take_text(r, 41, report->orig_cl_ord_id, sizeof report->orig_cl_ord_id);
    take_text(r, 37, report->order_id, sizeof report->order_id);
    take_text(r, 17, report->exec_id, sizeof report->exec_id);
    take_text(r, 1, report->account, sizeof report->account);
    take_text(r, 55, report->symbol, sizeof report->symbol);
    take_text(r, 584, report->request_id, sizeof report->request_id);
    if (profile->position_tag != 0)
        take_text(r, profile->position_tag, report->position_id, sizeof report->position_id);
    if (profile->label_tag != 0)
        take_text(r, profile->label_tag, report->label, sizeof report->label);
    take_words(r, 58, report->text, sizeof report->text);
    report->side = side_of(r);
    report->type = type_of(r);
    report->quantity = decimal_of(r, 38);
    report->cum = decimal_of(r, 14);
    report->leaves = decimal_of(r, 151);
    report->average = decimal_of(r, 6);
    report->last_price = decimal_of(r, 31);
    report->price = decimal_of(r, 44);
    report->stop_price = decimal_of(r, 99);
    report->expires_wall_ns = expiry != NULL && fix_time_read(expiry, n, &expires) ? expires : 0;
    report->reject_reason = int_of(r, 103);
    report->restatement = int_of(r, 378);
    report->total = int_of(r, 911);
    report->is_last = char_of(r, 912) == 'Y';
}

/* There is a number, and it cannot be taken as it is. */
static bool is_unreadable(const struct reading *r, uint32_t tag)
{
    size_t n = 0;
    return r->value(r->message, tag, &n) != NULL && decimal_of(r, tag) == TW_DECIMAL_UNSET;
}

/* Both sides at once are netted: what is left of them is what there is. Unset: not told, or not to be read. */
static tw_decimal units_of(const struct reading *r, tw_decimal bought, tw_decimal sold)
{
    int groups = int_of(r, 702); /* the values of one group alone are read */
    bool is_told = (bought != TW_DECIMAL_UNSET || sold != TW_DECIMAL_UNSET) && (groups == FIX_NO_CODE || groups <= 1);
    if (!is_told || is_unreadable(r, 704) || is_unreadable(r, 705))
        return TW_DECIMAL_UNSET;
    tw_decimal more = bought == TW_DECIMAL_UNSET ? 0 : bought, less = sold == TW_DECIMAL_UNSET ? 0 : sold;
    return more > less ? more - less : less - more;
}

static void hear_position(const struct fix_profile *profile, const struct reading *r, bool is_acknowledgement,
                          struct fix_report *report)
{
    tw_decimal bought = decimal_of(r, 704), sold = decimal_of(r, 705);
    bool is_long = bought != TW_DECIMAL_UNSET && bought > 0, is_short = sold != TW_DECIMAL_UNSET && sold > 0;
    report->exec_type = is_acknowledgement ? 'O' : '\0';
    take_text(r, 710, report->request_id, sizeof report->request_id);
    take_text(r, 721, report->position_id, sizeof report->position_id);
    take_text(r, 1, report->account, sizeof report->account);
    take_text(r, 55, report->symbol, sizeof report->symbol);
    if (profile->label_tag != 0)
        take_text(r, profile->label_tag, report->label, sizeof report->label);
    take_words(r, 58, report->text, sizeof report->text);
    report->side = is_short && (!is_long || sold > bought) ? TW_SELL : TW_BUY;
    report->quantity = units_of(r, bought, sold);
    report->average = decimal_of(r, 730);
    report->total = int_of(r, 727);
    report->result = int_of(r, 728);
}

static void hear_refusal(const struct reading *r, struct fix_heard *heard)
{
    int seq = int_of(r, 45);
    heard->ref_seq = seq > 0 ? (uint64_t)seq : 0;
    take_text(r, 379, heard->ref_id, sizeof heard->ref_id);
    take_words(r, 58, heard->report.text, sizeof heard->report.text);
    heard->code = heard->is_session_reject ? FIX_NO_CODE : int_of(r, 380);
}

void fix_hear(const struct fix_profile *profile, const char *msg_type, fix_value_fn *value, const void *message,
              struct fix_heard *ret)
{
    const struct reading r = {value, message};
    memset(ret, 0, sizeof *ret);
    ret->report.quantity = ret->report.cum = ret->report.leaves = ret->report.average = TW_DECIMAL_UNSET;
    ret->report.last_price = ret->report.price = ret->report.stop_price = TW_DECIMAL_UNSET;
    ret->report.reject_reason = ret->report.restatement = ret->report.total = ret->report.result = FIX_NO_CODE;
    if (strcmp(msg_type, "8") == 0) {
        ret->kind = FIX_HEARD_EXECUTION;
        hear_order(profile, &r, &ret->report);
    } else if (strcmp(msg_type, "9") == 0) {
        ret->kind = FIX_HEARD_CANCEL_REJECT;
        hear_order(profile, &r, &ret->report);
        ret->report.exec_type = '\0';
        ret->report.reject_reason = int_of(&r, 102);
    } else if (strcmp(msg_type, "AP") == 0 || strcmp(msg_type, "AO") == 0) {
        ret->kind = FIX_HEARD_POSITION;
        hear_position(profile, &r, msg_type[1] == 'O', &ret->report);
    } else if (strcmp(msg_type, "j") == 0 || strcmp(msg_type, "3") == 0) {
        ret->kind = FIX_HEARD_UNREAD;
        ret->is_session_reject = msg_type[0] == '3';
        hear_refusal(&r, ret);
    }
}
