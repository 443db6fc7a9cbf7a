#include "account.h"
#include "broker.h"
#include "news.h"

#include <tradewake/adapters/paper.h>
#include <tradewake/base/clock.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The account, locked and up to date; NULL: there is none. One whose first session is just being
 * opened is not there yet: nothing of it may reach the ledger before its own first record. */
static struct account *enter_account(struct account *account)
{
    if (account == NULL)
        return NULL;
    pthread_mutex_lock(&account->lock);
    if (!account->is_settled) {
        pthread_mutex_unlock(&account->lock);
        return NULL;
    }
    account_house_keep(account);
    return account;
}

static tw_status no_such_account(const char *follower_id, struct tw_error *error)
{
    return tw_error_set(error, TW_NOT_FOUND, "there is no paper account \"%s\"", follower_id);
}

/* ---- The book. ---- */

static bool deals_copy(const struct book *book, struct tw_paper_book *ret)
{
    if (book->n_deals == 0)
        return true;
    ret->deals = calloc(book->n_deals, sizeof(*ret->deals));
    if (ret->deals == NULL)
        return false;
    ret->n_deals = book->n_deals;
    for (uint32_t i = 0; i < book->n_deals; i++) {
        const struct deal *deal = book_deal(book, i);
        struct tw_paper_deal *copy = &ret->deals[i];
        *copy = (struct tw_paper_deal){.side = deal->side,
                                       .volume = deal->volume,
                                       .price = deal->price,
                                       .at_wall_ns = deal->at_wall_ns};
        memcpy(copy->client_order_id, deal->client_order_id, sizeof(copy->client_order_id));
        memcpy(copy->symbol, deal->market->symbol, sizeof(copy->symbol));
        ticket_text(deal->position, copy->position_id);
    }
    return true;
}

/* The truth, not what a host is shown. */
static void comments_restore(const struct book *book, struct tw_snapshot *holds)
{
    for (size_t i = 0; i < holds->n_positions; i++)
        memcpy(holds->positions[i].client_order_id, book->positions[i]->client_order_id,
               sizeof(holds->positions[i].client_order_id));
    for (size_t i = 0; i < holds->n_orders; i++)
        memcpy(holds->orders[i].client_order_id, book->pendings[i]->client_order_id,
               sizeof(holds->orders[i].client_order_id));
}

tw_status tw_paper_book_read(void *adapter, const char *follower_id, struct tw_paper_book *ret)
{
    struct account *account = enter_account(account_find(adapter, follower_id));
    if (account == NULL)
        return TW_NOT_FOUND;

    struct tw_paper_book book = {0};
    tw_status status = broker_snapshot(account, tw_wall_ns(), &book.holds);
    if (status == TW_OK) {
        comments_restore(&account->book, &book.holds);
        status = deals_copy(&account->book, &book) ? TW_OK : TW_NO_MEMORY;
    }
    book.calls = account->book.line.calls;
    book.strip_comments = account->strip_comments;
    news_tell_and_unlock(account);
    if (status != TW_OK) {
        tw_paper_book_clear(&book);
        return status;
    }
    *ret = book;
    return TW_OK;
}

void tw_paper_book_clear(struct tw_paper_book *book)
{
    tw_snapshot_clear(&book->holds);
    free(book->deals);
    *book = (struct tw_paper_book){0};
}

/* ---- Configure. ---- */

static tw_status quotes_take(struct account *account, const struct tw_paper_change *change)
{
    tw_status status = TW_OK;
    for (size_t i = 0; status == TW_OK && i < change->n_quotes; i++) {
        struct quote quote = {.bid = change->quotes[i].bid, .ask = change->quotes[i].ask};
        strncpy(quote.symbol, change->quotes[i].symbol, sizeof(quote.symbol) - 1);
        status = account_quote(account, &quote);
    }
    return status;
}

static void keep_if_unset(tw_decimal *value, tw_decimal is_now)
{
    if (*value == TW_DECIMAL_UNSET)
        *value = is_now;
}

/* What is not said stays as it is at this account. */
static struct tw_instrument instrument_merged(const struct account *account,
                                              const struct tw_instrument *change)
{
    const struct tw_instrument none = {0};
    const struct tw_instrument *now = instruments_find(&account->book.instruments, change->symbol);
    struct tw_instrument merged = *change;
    now = now != NULL ? now : &none;
    keep_if_unset(&merged.volume_min, now->volume_min);
    keep_if_unset(&merged.volume_step, now->volume_step);
    keep_if_unset(&merged.volume_max, now->volume_max);
    keep_if_unset(&merged.contract_size, now->contract_size);
    keep_if_unset(&merged.tick_size, now->tick_size);
    keep_if_unset(&merged.min_notional, now->min_notional);
    keep_if_unset(&merged.stops_distance, now->stops_distance);
    keep_if_unset(&merged.freeze_distance, now->freeze_distance);
    return merged;
}

static tw_status instruments_take(struct account *account, const struct tw_paper_change *change)
{
    tw_status status = TW_OK;
    for (size_t i = 0; status == TW_OK && i < change->n_instruments; i++) {
        struct tw_instrument merged = instrument_merged(account, &change->instruments[i]);
        status = account_instrument(account, &merged);
    }
    return status;
}

static tw_status instruments_check(struct account *account, const struct tw_paper_change *change,
                                   char *ret_field, struct tw_error *error)
{
    const struct instrument_fault *fault = NULL;
    size_t i = 0;
    if (enter_account(account) == NULL)
        return TW_NOT_FOUND;
    for (; fault == NULL && i < change->n_instruments; i++) {
        struct tw_instrument merged = instrument_merged(account, &change->instruments[i]);
        fault = instrument_check(&merged);
    }
    news_tell_and_unlock(account);
    if (fault == NULL)
        return TW_OK;
    snprintf(ret_field, TW_PAPER_FIELD_BYTES, "instruments[%zu].%s", i - 1, fault->field);
    return tw_error_set(error, TW_INVALID, "%s at %s: %s", change->instruments[i - 1].symbol,
                        account->follower_id, fault->words);
}

static tw_status state_take(struct account *account, const struct tw_paper_change *change,
                            struct tw_error *error)
{
    tw_status status = TW_OK;
    if (change->latency != NULL)
        status = account_latency_set(account, change->latency, error);
    if (status == TW_OK && change->faults != NULL)
        status = account_faults_set(account, change->faults, error);
    bool opens = change->market_open && account->is_market_closed;
    account->is_market_closed =
        change->market_closed || (account->is_market_closed && !change->market_open);
    account->strip_comments = account->strip_comments || change->strip_comments;
    if (opens)
        news_market_open(account);
    bool changed = change->latency != NULL || change->faults != NULL || change->market_closed ||
                   change->market_open || change->strip_comments;
    return status == TW_OK && changed ? account_state_keep(account) : status;
}

static void connection_take(struct account *account, enum tw_paper_connection connection)
{
    if (connection == TW_PAPER_CONNECTION_UP)
        account_connect(account);
    else if (connection == TW_PAPER_CONNECTION_DOWN)
        account_disconnect(account, "the broker is not reachable", true);
}

/* Fails: TW_NOT_FOUND, TW_IO, TW_NO_MEMORY. */
static tw_status configure_one(struct account *account, const struct tw_paper_change *change,
                               struct tw_error *error)
{
    if (enter_account(account) == NULL)
        return TW_NOT_FOUND;
    tw_status status = instruments_take(account, change);
    if (status == TW_OK)
        status = quotes_take(account, change);
    if (status == TW_OK)
        status = state_take(account, change, error);
    connection_take(account, change->connection);
    broker_match_all(account, tw_wall_ns());
    news_tell_and_unlock(account);
    if (status == TW_IO)
        return tw_error_set(error, TW_IO, "the ledger of %s cannot be written",
                            account->follower_id);
    return status;
}

static tw_status texts_check(const struct tw_paper_change *change, char *ret_field,
                             struct tw_error *error)
{
    struct latency latency;
    struct faults faults = {0};
    if (change->latency != NULL && latency_parse(change->latency, &latency, error) != TW_OK) {
        strcpy(ret_field, "latency");
        return TW_INVALID;
    }
    if (change->faults == NULL)
        return TW_OK;
    strcpy(ret_field, "faults");
    tw_status status = faults_parse(change->faults, &faults, error);
    faults_clear(&faults);
    return status;
}

/* Accounts are only ever added, at the end of the list: a pointer stays good without the lock. */
static struct account *account_first(struct paper *paper)
{
    pthread_mutex_lock(&paper->accounts_lock);
    struct account *account = paper->accounts;
    pthread_mutex_unlock(&paper->accounts_lock);
    return account;
}

static struct account *account_after(struct account *account)
{
    pthread_mutex_lock(&account->paper->accounts_lock);
    struct account *next = account->hh.next;
    pthread_mutex_unlock(&account->paper->accounts_lock);
    return next;
}

typedef tw_status visit_fn(struct account *account, const struct tw_paper_change *change,
                           char *ret_field, struct tw_error *error);

static tw_status visit_configure(struct account *account, const struct tw_paper_change *change,
                                 char *ret_field, struct tw_error *error)
{
    (void)ret_field;
    return configure_one(account, change, error);
}

static tw_status visit_every(struct paper *paper, visit_fn *visit,
                             const struct tw_paper_change *change, char *ret_field,
                             struct tw_error *error)
{
    tw_status status = TW_OK;
    for (struct account *account = account_first(paper); account != NULL && status == TW_OK;
         account = account_after(account)) {
        status = visit(account, change, ret_field, error);
        if (status == TW_NOT_FOUND)
            status = TW_OK; /* not there yet */
    }
    return status;
}

tw_status tw_paper_configure(void *adapter, const char *follower_id,
                             const struct tw_paper_change *change,
                             char ret_field[TW_PAPER_FIELD_BYTES], struct tw_error *error)
{
    ret_field[0] = '\0';
    tw_status status = texts_check(change, ret_field, error);
    if (status != TW_OK)
        return status;
    if (follower_id[0] == '\0') { /* every check first, so that a mistake changes no account */
        status = visit_every(adapter, instruments_check, change, ret_field, error);
        return status == TW_OK ? visit_every(adapter, visit_configure, change, ret_field, error)
                               : status;
    }
    struct account *account = account_find(adapter, follower_id);
    status = instruments_check(account, change, ret_field, error);
    if (status == TW_OK)
        status = configure_one(account, change, error);
    return status == TW_NOT_FOUND ? no_such_account(follower_id, error) : status;
}

/* ---- By hand. ---- */

/* On a netting account a close names the symbol and a side; a hand names the ticket it sees. */
static void close_complete(const struct account *account, struct tw_order *order)
{
    const struct position *position =
        book_position(&account->book, ticket_parse(order->position_id));
    order->symbol[0] = '\0';
    if (position == NULL)
        return;
    memcpy(order->symbol, position->market->symbol, sizeof(order->symbol));
    order->side = tw_side_opposite(position->side);
}

tw_status tw_paper_act(void *adapter, const char *follower_id, const struct tw_order *order,
                       char ret_id[TW_BROKER_ID_BYTES], tw_reason *ret_reason,
                       struct tw_error *error)
{
    *ret_reason = TRADEWAKE__V1__REASON__REASON_UNSPECIFIED;
    struct account *account = enter_account(account_find(adapter, follower_id));
    if (account == NULL)
        return no_such_account(follower_id, error);

    struct tw_order by_hand = *order;
    struct tw_ack ack;
    by_hand.client_order_id[0] = '\0';
    if (by_hand.op == TW_OP_CLOSE)
        close_complete(account, &by_hand);
    broker_hand(account, &by_hand, tw_wall_ns(), &ack);
    news_tell_and_unlock(account);

    *ret_reason = ack.reason;
    switch (ack.outcome) {
    case TW_OUTCOME_DONE:
        memcpy(ret_id, ack.position_id[0] != '\0' ? ack.position_id : ack.order_id,
               TW_BROKER_ID_BYTES);
        return TW_OK;
    case TW_OUTCOME_NOT_FOUND:
        return tw_error_set(error, TW_NOT_FOUND, "%s", ack.broker_message);
    case TW_OUTCOME_RETRY_LATER:
        return tw_error_set(error, TW_BUSY, "%s", ack.broker_message);
    default:
        return tw_error_set(error, TW_REFUSED, "the broker says: %s", ack.broker_message);
    }
}

tw_status tw_paper_deposit(void *adapter, const char *follower_id, tw_decimal amount)
{
    struct account *account = enter_account(account_find(adapter, follower_id));
    if (account == NULL)
        return TW_NOT_FOUND;
    tw_status status = broker_deposit(account, amount);
    news_tell_and_unlock(account);
    return status;
}
