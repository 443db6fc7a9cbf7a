/* account.c - a follower: what the venue says is booked, told, and given to the calls that wait. Thread: reactor. */
#include "fix.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/log.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_NS (5 * TW_NS_PER_S) /* so long may the first picture take */
enum { START_TRIES = 3 };

struct fix_terms fix_account_terms(const struct fix_account *account, const char *venue_symbol)
{
    const struct fix_profile *profile = &account->venue->profile;
    return (struct fix_terms){.profile = profile,
                              .account = profile->is_one_account ? "" : account->settings.account,
                              .symbol = venue_symbol,
                              .units = TW_DECIMAL_UNSET,
                              .now_wall_ns = tw_wall_ns()};
}

void fix_account_free(struct fix_account *account)
{
    fix_picture_clear(&account->start);
    free(account->positions.list);
    free(account);
}

/* ---- Up and down. ---- */

void fix_account_tell(struct fix_account *account, bool is_up, const char *why)
{
    bool is_news = !account->was_told || is_up != account->is_told_up || (!is_up && strcmp(why, account->why) != 0);
    snprintf(account->why, sizeof account->why, "%s", why);
    if (!is_news)
        return;
    account->was_told = true;
    account->is_told_up = is_up;
    account->host.on_connection(account->host.context, is_up, account->why);
}

void fix_account_begin(struct fix_account *account)
{
    struct tw_account told = {.balance = TW_DECIMAL_UNSET, .equity = TW_DECIMAL_UNSET, .free_margin = TW_DECIMAL_UNSET};
    memcpy(told.currency, account->settings.currency, sizeof told.currency);
    account->host.on_account(account->host.context, &told);
    for (size_t i = 0; i < account->venue->n_symbols; i++)
        account->host.on_instruments(account->host.context, &account->venue->symbols[i].instrument, 1);
}

static void account_up(struct fix_account *account)
{
    account->is_starting = false;
    (void)tw_timer_stop(account->adapter->reactor, &account->start_timer);
    if (account->is_up) /* read again, after a gap */
        return;
    account->is_up = true; /* the host may call as soon as it hears of it */
    fix_account_tell(account, true, "");
    fix_calls_ask_working(account);
}

static void start_give_up(struct fix_account *account)
{
    static struct tw_log_pace pace;
    if (tw_log_paced(&pace, "fix.no_picture"))
        tw_log(TW_LOG_WARN, "fix.no_picture", "session=%s account=\"%s\" why=\"the venue does not list what it holds (AN, AF)\" "
               "do=\"positions = no, mass_status = no in its section, if it cannot\"",
               account->venue->name, account->settings.account);
    fix_picture_clear(&account->start);
    account_up(account);
}

static void on_start_limit(struct tw_timer *timer)
{
    struct fix_account *account = (struct fix_account *)(void *)((char *)timer - offsetof(struct fix_account, start_timer));
    if (account->is_starting)
        start_give_up(account);
}

static void start_begin(struct fix_account *account)
{
    const struct fix_profile *profile = &account->venue->profile;
    if (!profile->asks_positions && !profile->asks_all) {
        account_up(account);
        return;
    }
    account->is_starting = true;
    account->start.tries = 0;
    account->start_timer.fire = on_start_limit;
    tw_timer_set(account->adapter->reactor, &account->start_timer, tw_mono_ns() + START_NS);
    if (!fix_picture_ask(account, &account->start))
        start_give_up(account);
}

static void start_look(struct fix_account *account)
{
    struct fix_picture *picture = &account->start;
    if (picture->has_failed) {
        start_give_up(account);
        return;
    }
    if (!fix_picture_is_whole(picture))
        return;
    if (picture->fills_before != account->fills && picture->tries < START_TRIES) {
        if (!fix_picture_ask(account, picture))
            start_give_up(account);
        return;
    }
    if (picture->fills_before == account->fills)
        fix_picture_take(account, picture);
    fix_picture_clear(picture);
    account_up(account);
}

void fix_account_on_line(struct fix_account *account, bool is_up, const char *why)
{
    if (is_up) {
        if (!account->is_up && !account->is_starting)
            start_begin(account);
        return;
    }
    account->is_up = account->is_starting = false;
    (void)tw_timer_stop(account->adapter->reactor, &account->start_timer);
    fix_picture_clear(&account->start);
    account->has_orders = false; /* what is told while nobody listens is not known */
    account->is_stale = true;
    fix_calls_cut(account, why);
    fix_account_tell(account, false, why);
}

void fix_account_on_missed(struct fix_account *account)
{
    account->has_orders = false;
    account->is_stale = true;
    if (!account->is_up)
        return; /* it is read, and asked for, when it is */
    fix_calls_ask_working(account);
    if (!account->is_starting)
        start_begin(account);
}

/* ---- Who is meant. ---- */

static struct fix_account *account_of(struct fix_line *line, const struct fix_report *report, struct fix_order *order)
{
    struct fix_account *first = fix_line_accounts(line);
    if (order != NULL && order->owner != NULL)
        return order->owner;
    struct fix_account *account = first;
    while (account != NULL && (report->account[0] == '\0' || strcmp(account->settings.account, report->account) != 0))
        account = account->next;
    bool is_named = report->account[0] != '\0' && first != NULL && !first->venue->profile.is_one_account;
    if (account == NULL && first != NULL && first->next == NULL && !is_named)
        account = first; /* the only one */
    if (account == NULL && report->request_id[0] != '\0') /* of a question, which only one has asked */
        for (account = first; account != NULL; account = account->next)
            if (strcmp(account->start.orders_id, report->request_id) == 0)
                break;
    if (account == NULL && report->account[0] == '\0') /* after a start nobody knows whose an order was but who asks for it */
        for (account = first; account != NULL; account = account->next)
            if (fix_calls_ask_for(account, report->cl_ord_id))
                break;
    if (order != NULL)
        order->owner = account;
    return account;
}

/* ---- Executions. ---- */

static void log_oddity(const struct fix_account *account, const struct fix_report *report, enum fix_oddity oddity)
{
    static const char *const words[] = {
        [FIX_ODD_NONE] = "",
        [FIX_ODD_UNKNOWN_STATE] = "an OrdStatus (39) that 4.4 does not have",
        [FIX_ODD_CUM_BACK] = "CumQty (14) went back without a correction or a bust: not taken",
        [FIX_ODD_CUM_OVER] = "CumQty (14) above OrderQty (38): taken",
        [FIX_ODD_NO_TOTALS] = "a fill without CumQty (14): not booked, the order is to be asked for",
    };
    static struct tw_log_pace pace;
    if (oddity != FIX_ODD_NONE && tw_log_paced(&pace, "fix.odd"))
        tw_log(TW_LOG_WARN, "fix.odd", "session=%s account=\"%s\" order=\"%s\" exec=\"%s\" what=\"%s\"", account->venue->name,
               account->settings.account, report->cl_ord_id, report->exec_id, words[oddity]);
}

/* A fill that no call of ours waits for, of an order that the host does not take for a call's. */
static bool is_news(const struct fix_order *order, const struct fix_change *change)
{
    bool is_pending = order->op == TW_OP_PLACE && order->type != TW_ORDER_MARKET;
    return order->waiting == 0 && (!order->is_ours || is_pending || change->is_correction);
}

/* An execution as it happens, and the whole of it: what a status tells, what comes twice, and what is heard of an order
 * for the first time may lie before the picture of the account, and is in it then. */
static bool is_live(const struct fix_report *report, const struct fix_change *change)
{
    bool is_execution = report->exec_type != 'I' && report->exec_type != 'D';
    return is_execution && !report->is_duplicate && !change->is_adopted;
}

static void book(struct fix_account *account, const struct fix_report *report, struct fix_order *order,
                 const struct fix_change *change)
{
    struct fix_position gone;
    struct tw_held_position held;
    if (change->booked == 0)
        return;
    account->fills++;
    if (!account->has_picture)
        return; /* the first picture has it */
    if (!is_live(report, change)) {
        account->is_stale = true;
        if (account->is_up && !account->is_starting)
            start_begin(account);
        return;
    }
    struct fix_position *position =
        fix_position_book(&account->positions, order, account->venue->profile.is_netting, change->booked, &gone);
    const struct fix_position *told = position != NULL ? position : &gone;
    if (!account->is_up || !is_news(order, change) || told->id[0] == '\0' || !fix_position_held(account, told, &held))
        return;
    account->host.on_position(account->host.context, &held, position == NULL ? REASON(ALREADY_CLOSED) : REASON(UNSPECIFIED));
}

static void tell_gone(struct fix_account *account, struct fix_order *order)
{
    const struct fix_profile *profile = &account->venue->profile;
    const struct fix_symbol *symbol = fix_venue_symbol_by_venue_name(account->venue, order->symbol);
    const char *position = order->cum == 0 ? "" : profile->is_netting ? (symbol != NULL ? symbol->instrument.symbol : "") : order->position_id;
    /* A part of it, or who knows how much: the host would take it for the whole. It asks when it is to close. */
    bool is_part = order->cum > 0 && (order->quantity == TW_DECIMAL_UNSET ? order->state != FIX_FILLED : order->cum < order->quantity);
    bool is_unread = order->has_unread_fill || (order->state == FIX_FILLED && order->cum == 0);
    bool is_said = !is_part && !is_unread && (order->cum == 0 || position[0] != '\0');
    if (!order->is_told_working || !account->is_up || !is_said)
        return;
    order->is_told_working = false;
    account->host.on_order_gone(account->host.context, profile->asks_all ? order->order_id : order->id, order->id, position);
}

static void pictures_on_order(struct fix_account *account, const struct fix_report *report, struct fix_order *order)
{
    if (fix_picture_on_order(account, &account->start, report, order)) {
        start_look(account);
        return;
    }
    for (struct fix_flight *flight = account->flights; flight != NULL; flight = flight->next)
        if (fix_picture_on_order(account, &flight->picture, report, order)) {
            fix_calls_on_picture(account, flight);
            return;
        }
}

void fix_accounts_on_execution(struct fix_line *line, const struct fix_report *report)
{
    struct fix_orders *orders = fix_line_orders(line);
    struct fix_change change;
    struct fix_order *known = fix_orders_find(orders, report->cl_ord_id);
    struct fix_account *account = known != NULL ? account_of(line, report, known) : NULL;
    if (known != NULL && account != NULL && fix_calls_on_duplicate(account, known, report))
        return;
    if (!fix_orders_report(orders, report, &change)) {
        tw_log(TW_LOG_ERROR, "fix.no_memory", "order=\"%s\" what=\"an execution is not followed\"", report->cl_ord_id);
        return;
    }
    account = account_of(line, report, change.order);
    if (account == NULL)
        return; /* of an account that nobody follows here */
    if (change.order != NULL) {
        log_oddity(account, report, change.oddity);
        if (change.is_correction && change.booked != 0)
            tw_log(TW_LOG_WARN, "fix.corrected", "session=%s account=\"%s\" order=\"%s\" exec=\"%s\" by=%s", account->venue->name,
                   account->settings.account, change.order->id, report->exec_id, report->exec_type == 'H' ? "bust" : "correction");
        book(account, report, change.order, &change);
        if (report->request_id[0] != '\0' && change.order->type != TW_ORDER_MARKET && !fix_order_is_over(change.order))
            change.order->is_told_working = true; /* the host reads it in the snapshot */
    }
    /* First the calls: a cancel that is answered tells it itself. */
    fix_calls_on_report(account, report, &change);
    if (change.order != NULL && fix_order_is_over(change.order))
        tell_gone(account, change.order);
    if (report->request_id[0] != '\0')
        pictures_on_order(account, report, fix_report_is_unknown_order(report) ? NULL : change.order);
}

void fix_accounts_on_cancel_reject(struct fix_line *line, const struct fix_report *report)
{
    struct fix_change change;
    fix_orders_cancel_reject(fix_line_orders(line), report, &change);
    if (change.order == NULL)
        return;
    struct fix_account *account = account_of(line, report, change.order);
    if (account == NULL)
        return;
    log_oddity(account, report, change.oddity);
    fix_calls_on_report(account, report, &change);
    if (fix_order_is_over(change.order))
        tell_gone(account, change.order);
}

void fix_accounts_on_position(struct fix_line *line, const struct fix_report *report)
{
    for (struct fix_account *account = fix_line_accounts(line); account != NULL; account = account->next) {
        if (fix_picture_on_position(account, &account->start, report)) {
            start_look(account);
            return;
        }
        for (struct fix_flight *flight = account->flights; flight != NULL; flight = flight->next)
            if (fix_picture_on_position(account, &flight->picture, report)) {
                fix_calls_on_picture(account, flight);
                return;
            }
    }
}

/* ---- What the venue has not taken. ---- */

static bool unread_picture(struct fix_account *account, const char *id, bool is_empty)
{
    if (fix_picture_on_unread(&account->start, id, is_empty)) {
        start_look(account);
        return true;
    }
    for (struct fix_flight *flight = account->flights; flight != NULL; flight = flight->next)
        if (fix_picture_on_unread(&flight->picture, id, is_empty)) {
            fix_calls_on_picture(account, flight);
            return true;
        }
    return false;
}

/* 45 names the message; an id alone (379) is taken where it does not: another message may carry the same one. */
static bool is_refused(const struct fix_flight *flight, uint64_t seq, const char *id)
{
    if (seq != 0)
        return flight->seq == seq;
    return id[0] != '\0' && strcmp(flight->call->order.client_order_id, id) == 0;
}

void fix_accounts_on_unread(struct fix_line *line, uint64_t seq, const char *id, bool is_session_reject, int code, const char *text)
{
    for (struct fix_account *account = fix_line_accounts(line); account != NULL; account = account->next) {
        const struct fix_rule *rule = fix_rule_find(&account->venue->profile.unread, code, text);
        bool is_empty = !is_session_reject && rule != NULL && rule->outcome == TW_OUTCOME_NOT_FOUND;
        if (unread_picture(account, id, is_empty))
            return;
        for (struct fix_flight *flight = account->flights; flight != NULL; flight = flight->next)
            if (is_refused(flight, seq, id)) {
                fix_calls_on_unread(flight, is_session_reject, code, text);
                return;
            }
    }
}
