#include "account.h"
#include "broker.h"
#include "ledger.h"
#include "news.h"
#include "text.h"

#include <tradewake/adapters/secret.h>
#include <tradewake/base/clock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECONNECT_NS (100 * TW_NS_PER_MS)

static void timer_fired(struct tw_timer *timer)
{
    struct account *account =
        (struct account *)(void *)((char *)timer - offsetof(struct account, timer));
    pthread_mutex_lock(&account->lock);
    account->timer_due_mono_ns = INT64_MAX;
    account_house_keep(account);
    news_tell_and_unlock(account);
}

struct account *account_find(struct paper *paper, const char *follower_id)
{
    struct account *account;
    pthread_mutex_lock(&paper->accounts_lock);
    HASH_FIND_STR(paper->accounts, follower_id, account);
    pthread_mutex_unlock(&paper->accounts_lock);
    return account;
}

tw_status account_make(struct paper *paper, const char *follower_id, struct account **ret_account)
{
    struct account *account = calloc(1, sizeof(*account));
    if (account == NULL)
        return TW_NO_MEMORY;
    account->paper = paper;
    strncpy(account->follower_id, follower_id, sizeof(account->follower_id) - 1);
    account->faults_text = strdup("");
    account->latency_text = strdup("");
    account->is_connected = true;
    account->news_last = &account->news;
    account->timer = (struct tw_timer){.fire = timer_fired};
    account->timer_due_mono_ns = INT64_MAX;
    account->book.line.next_ticket = 1001;
    pthread_mutex_init(&account->lock, NULL);
    pthread_cond_init(&account->told, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&account->let_go, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (account->faults_text == NULL || account->latency_text == NULL) {
        account_free(account);
        return TW_NO_MEMORY;
    }

    pthread_mutex_lock(&paper->accounts_lock);
    account->number = paper->n_accounts++;
    HASH_ADD_STR(paper->accounts, follower_id, account);
    pthread_mutex_unlock(&paper->accounts_lock);
    *ret_account = account;
    return TW_OK;
}

void account_free(struct account *account)
{
    faults_clear(&account->faults);
    free(account->faults_text);
    free(account->latency_text);
    book_clear(&account->book);
    pthread_cond_destroy(&account->told);
    pthread_cond_destroy(&account->let_go);
    pthread_mutex_destroy(&account->lock);
    free(account);
}

/* ---- Settings and what Configure changes. ---- */

static bool text_replace(char **text, const char *by)
{
    char *copy = strdup(by);
    if (copy == NULL)
        return false;
    free(*text);
    *text = copy;
    return true;
}

tw_status account_faults_set(struct account *account, const char *text, struct tw_error *error)
{
    tw_status status = account_faults_restore(account, text, error);
    if (status == TW_OK)
        memset(account->book.line.counts, 0, sizeof(account->book.line.counts));
    return status;
}

tw_status account_faults_restore(struct account *account, const char *text, struct tw_error *error)
{
    struct faults faults;
    tw_status status = faults_parse(text, &faults, error);
    if (status != TW_OK)
        return status;
    if (!text_replace(&account->faults_text, text)) {
        faults_clear(&faults);
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the faults");
    }
    faults_clear(&account->faults);
    account->faults = faults;
    account->faults_set++;
    pthread_cond_broadcast(&account->let_go);
    return TW_OK;
}

tw_status account_latency_set(struct account *account, const char *text, struct tw_error *error)
{
    struct latency latency;
    tw_status status = latency_parse(text, &latency, error);
    if (status != TW_OK)
        return status;
    if (!text_replace(&account->latency_text, text))
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the latency");
    account->latency = latency;
    return TW_OK;
}

tw_status account_quote(struct account *account, const struct quote *quote)
{
    struct market *market = book_market_make(&account->book, quote->symbol);
    if (market == NULL)
        return TW_NO_MEMORY;
    tw_status status = ledger_keep_quote(account->paper->ledger, account, quote);
    if (status != TW_OK)
        return status;
    book_quote(&account->book, market, quote->bid, quote->ask);
    news_quote(account, market);
    return TW_OK;
}

tw_status account_instrument(struct account *account, const struct tw_instrument *instrument)
{
    tw_status status = book_instrument_put(&account->book, instrument);
    if (status == TW_OK)
        status = ledger_keep_instrument(account->paper->ledger, account, instrument);
    if (status == TW_OK)
        news_instrument(account, instrument);
    return status;
}

tw_status account_state_keep(struct account *account)
{
    struct entry entry;
    account_entry(account, &entry); /* new faults have new counters */
    tw_status status = account_commit(account, &entry);
    return status == TW_OK ? ledger_keep_state(account->paper->ledger, account) : status;
}

static bool holds_something(const struct account *account)
{
    return account->book.n_positions > 0 || account->book.n_pendings > 0;
}

/* What may not change under open positions. */
static tw_status identity_settle(struct account *account, const struct settings *settings,
                                 struct tw_error *error)
{
    if (holds_something(account) && account->is_netting != settings->is_netting)
        return tw_error_set(
            error, TW_INVALID,
            "account_mode of %s cannot change: it holds %u positions and %u orders as %s",
            account->follower_id, account->book.n_positions, account->book.n_pendings,
            account->is_netting ? "netting" : "hedging");
    if (holds_something(account) && strcmp(account->book.currency, settings->currency) != 0)
        return tw_error_set(error, TW_INVALID,
                            "currency of %s cannot change: it holds positions or orders in %s",
                            account->follower_id, account->book.currency);
    account->is_netting = settings->is_netting;
    account->remainder_new_ticket = settings->remainder_new_ticket;
    account->banned = settings->banned;
    account->call_timeout_ns = settings->call_timeout_ns;
    account->book.leverage = settings->leverage;
    memcpy(account->book.currency, settings->currency, sizeof(account->book.currency));
    return TW_OK;
}

/* The texts that Configure may have overruled since: only another text than last time counts. */
static tw_status texts_settle(struct account *account, struct settings *settings, bool is_new,
                              struct tw_error *error)
{
    tw_status status = TW_OK;
    if (is_new || settings->latency_hash != account->latency_hash)
        status = account_latency_set(account, settings->latency_text, error);
    if (status == TW_OK && (is_new || settings->faults_hash != account->faults_hash))
        status = account_faults_set(account, settings->faults_text, error);
    if (status != TW_OK)
        return status;

    bool new_instruments = is_new || settings->instruments_hash != account->instruments_hash;
    bool new_quotes = settings->quotes_hash != account->quotes_hash;
    account->latency_hash = settings->latency_hash;
    account->faults_hash = settings->faults_hash;
    account->instruments_hash = settings->instruments_hash;
    account->quotes_hash = settings->quotes_hash;
    if (new_instruments) {
        book_instruments_set(&account->book, &settings->instruments);
        status = ledger_keep_instruments(account->paper->ledger, account);
    }
    for (size_t i = 0; new_quotes && status == TW_OK && i < settings->n_quotes; i++)
        status = account_quote(account, &settings->quotes[i]);
    return status;
}

static tw_status everything_settle(struct account *account, struct settings *settings,
                                   struct tw_error *error)
{
    bool is_new = !account->is_settled;
    if (is_new)
        account->book.line.balance = settings->balance;
    tw_status status = ledger_keep_account(account->paper->ledger, account);
    if (status == TW_OK)
        status = texts_settle(account, settings, is_new, error);
    if (status == TW_OK)
        status = account_state_keep(account); /* last: it says that the rest is complete */
    return status;
}

tw_status account_settle(struct account *account, struct settings *settings, struct tw_error *error)
{
    tw_status status = identity_settle(account, settings, error);
    if (status != TW_OK)
        return status;
    account->prng = settings->seed ^ (account->book.line.calls << 32);
    snprintf(account->password, sizeof account->password, "%s", settings->password);
    status = everything_settle(account, settings, error);
    account->is_settled = account->is_settled || status == TW_OK;
    if (status == TW_IO)
        return tw_error_set(error, TW_IO, "the ledger of the paper broker cannot be written");
    if (status == TW_NO_MEMORY)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the account");
    return status;
}

/* ---- Entries. ---- */

void account_entry(const struct account *account, struct entry *ret)
{
    /* Not the whole struct: what has_... and n_positions say is not there is not read either. */
    ret->line = account->book.line;
    ret->n_positions = 0;
    ret->has_pending = ret->has_deal = ret->has_answer = false;
}

tw_status account_commit(struct account *account, const struct entry *entry)
{
    tw_status status = book_reserve(&account->book);
    if (status == TW_OK)
        status = ledger_keep_entry(account->paper->ledger, account, entry);
    if (status != TW_OK)
        return status;
    bool money_moved = entry->n_positions > 0 || entry->line.balance != account->book.line.balance;
    book_apply(&account->book, entry);
    if (money_moved)
        news_account(account);
    if (entry->has_pending && entry->pending.volume > 0 && entry->pending.expires_wall_ns != 0)
        account_house_keep(account);
    return TW_OK;
}

/* ---- The connection. ---- */

void account_disconnect(struct account *account, const char *why, bool is_cut)
{
    account->is_cut = account->is_cut || is_cut;
    if (!account->is_connected)
        return;
    account->is_connected = false;
    account->connection++;
    news_connection(account, false, why);
    if (!account->is_cut) {
        account->reconnect_mono_ns = tw_mono_ns() + RECONNECT_NS;
        account_house_keep(account);
    }
}

/* The broker takes any password, but wants one. False: why. */
static bool account_log_in(const struct account *account, struct tw_error *why)
{
    struct tw_secret password = {0};
    const char *directory = account->paper->secrets_dir;
    if (account->password[0] == '\0')
        return true;
    tw_status status = directory == NULL ? tw_error_set(why, TW_NOT_FOUND, "there is no secrets.directory")
                                         : tw_secret_read(directory, account->password, &password, why);
    tw_secret_wipe(&password);
    return status == TW_OK;
}

static void try_again(struct account *account)
{
    account->reconnect_mono_ns = tw_mono_ns() + RECONNECT_NS;
    account_house_keep(account);
}

void account_begin(struct account *account)
{
    struct tw_error why = {{0}};
    if (account->is_connected && account_log_in(account, &why)) {
        news_connection(account, true, "");
    } else if (account->is_connected) {
        account->is_connected = false;
        snprintf(account->log_in_failed, sizeof account->log_in_failed, "%.*s", (int)sizeof account->log_in_failed - 1, why.text);
        news_connection(account, false, account->log_in_failed);
        try_again(account);
    }
}

void account_connect(struct account *account)
{
    struct tw_error why = {{0}};
    account->is_cut = false;
    account->reconnect_mono_ns = 0;
    if (account->is_connected)
        return;
    if (!account_log_in(account, &why)) {
        try_again(account);
        return;
    }
    account->is_connected = true;
    news_connection(account, true, "");
}

void account_house_keep(struct account *account)
{
    int64_t now_mono_ns = tw_mono_ns(), now_wall_ns = tw_wall_ns();
    if (account->reconnect_mono_ns != 0 && account->reconnect_mono_ns <= now_mono_ns &&
        !account->is_cut)
        account_connect(account);

    int64_t expiry_wall_ns = broker_expire(account, now_wall_ns);
    int64_t due = INT64_MAX;
    if (expiry_wall_ns != INT64_MAX)
        due = now_mono_ns + (expiry_wall_ns - now_wall_ns);
    if (account->reconnect_mono_ns != 0 && account->reconnect_mono_ns < due)
        due = account->reconnect_mono_ns;
    if (due >= account->timer_due_mono_ns || account->paper->reactor == NULL)
        return; /* an earlier one is set: it will look again */
    account->timer_due_mono_ns = due;
    account->was_timer_set = true;
    tw_timer_set(account->paper->reactor, &account->timer, due);
}
