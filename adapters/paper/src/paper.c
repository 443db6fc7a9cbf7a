#include "account.h"
#include "flight.h"
#include "ledger.h"
#include "news.h"
#include "settings.h"

#include <tradewake/adapters/paper.h>
#include <tradewake/base/clock.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PARALLEL_MAX = 32 };

/* ---- The adapter. ---- */

static void paper_close(void *adapter);

static tw_status paper_open(const struct tw_adapter_options *options, void **ret_adapter,
                            struct tw_error *error)
{
    struct paper *paper = calloc(1, sizeof(*paper));
    if (paper == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the paper broker");
    paper->reactor = options->reactor;
    paper->secrets_dir = options->secrets_dir;
    pthread_mutex_init(&paper->accounts_lock, NULL);
    if (options->state_dir != NULL) {
        tw_status status = ledger_open(options->state_dir, paper, &paper->ledger, error);
        if (status != TW_OK) {
            paper_close(paper);
            return status;
        }
    }
    *ret_adapter = paper;
    return TW_OK;
}

/* Timers can only be stopped where they fire. */
struct stop {
    struct tw_task task;
    struct paper *paper;
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool is_done;
};

static void timers_stop(struct tw_task *task)
{
    struct stop *stop = (struct stop *)(void *)((char *)task - offsetof(struct stop, task));
    for (struct account *account = stop->paper->accounts; account != NULL;
         account = account->hh.next) {
        pthread_mutex_lock(&account->lock);
        if (account->timer_due_mono_ns != INT64_MAX)
            (void)tw_timer_stop(stop->paper->reactor, &account->timer);
        account->timer_due_mono_ns = INT64_MAX;
        pthread_mutex_unlock(&account->lock);
    }
    pthread_mutex_lock(&stop->lock);
    stop->is_done = true;
    pthread_cond_signal(&stop->done);
    pthread_mutex_unlock(&stop->lock);
}

static bool has_timers(const struct paper *paper)
{
    for (const struct account *account = paper->accounts; account != NULL;
         account = account->hh.next) {
        if (account->was_timer_set)
            return true;
    }
    return false;
}

/* After it no timer of an account fires, and none is firing. */
static void timers_end(struct paper *paper)
{
    if (!has_timers(paper))
        return;
    struct stop stop = {.task = {.run = timers_stop}, .paper = paper};
    pthread_mutex_init(&stop.lock, NULL);
    pthread_cond_init(&stop.done, NULL);
    tw_reactor_post(paper->reactor, &stop.task);
    pthread_mutex_lock(&stop.lock);
    while (!stop.is_done)
        pthread_cond_wait(&stop.done, &stop.lock);
    pthread_mutex_unlock(&stop.lock);
    pthread_cond_destroy(&stop.done);
    pthread_mutex_destroy(&stop.lock);
}

static void paper_close(void *adapter)
{
    struct paper *paper = adapter;
    if (paper == NULL)
        return;
    timers_end(paper);
    ledger_close(paper->ledger);
    flight_spares_free(paper);
    struct account *account, *next;
    HASH_ITER(hh, paper->accounts, account, next)
    {
        HASH_DEL(paper->accounts, account);
        account_free(account);
    }
    pthread_mutex_destroy(&paper->accounts_lock);
    free(paper);
}

/* ---- Sessions. ---- */

static tw_status paper_check(void *adapter, const struct tw_session_options *options, char *ret_key,
                             struct tw_error *error)
{
    const struct paper *paper = adapter;
    struct settings settings;
    tw_status status = settings_read(options, &settings, ret_key, error);
    if (status == TW_OK && settings.nonblocking && paper != NULL && paper->reactor == NULL) {
        strcpy(ret_key, "nonblocking");
        status = tw_error_set(error, TW_INVALID, "nonblocking is true, but there is no reactor");
    }
    settings_clear(&settings);
    return status;
}

static void capabilities_from(const struct settings *settings, struct tw_capabilities *ret)
{
    *ret = (struct tw_capabilities){
        .blocking = !settings->nonblocking,
        .netting = settings->is_netting,
        .query_by_id = true,
        .not_found_is_final = true,
        .reduce_only = true,
        .max_parallel = PARALLEL_MAX,
        .call_timeout_ms =
            (uint32_t)((settings->call_timeout_ns + TW_NS_PER_MS - 1) / TW_NS_PER_MS),
        .settle_ms = (uint32_t)((settings->settle_ns + TW_NS_PER_MS - 1) / TW_NS_PER_MS),
    };
}

static tw_status account_obtain(struct paper *paper, const char *follower_id,
                                struct account **ret_account, struct tw_error *error)
{
    *ret_account = account_find(paper, follower_id);
    if (*ret_account == NULL && account_make(paper, follower_id, ret_account) != TW_OK)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the account %s", follower_id);
    return TW_OK;
}

/* Puts the session in place, and has it told everything. */
static tw_status session_attach(struct session *session, struct settings *settings,
                                struct tw_error *error)
{
    struct account *account = session->account;
    pthread_mutex_lock(&account->lock);
    tw_status status =
        account->session != NULL
            ? tw_error_set(error, TW_EXISTS, "%s has a session already", account->follower_id)
            : account_settle(account, settings, error);
    if (status == TW_OK) {
        account->session = session;
        account_house_keep(account);
        account_begin(account);
    }
    news_tell_and_unlock(account);
    return status;
}

static tw_status paper_session_open(void *adapter, const struct tw_session_options *options,
                                    void **ret_session, struct tw_error *error)
{
    struct paper *paper = adapter;
    struct settings settings;
    char key[SETTING_KEY_BYTES];
    struct session *session = calloc(1, sizeof(*session));
    tw_status status = settings_read(options, &settings, key, error);
    if (status == TW_OK && settings.nonblocking && paper->reactor == NULL)
        status = tw_error_set(error, TW_INVALID, "nonblocking is true, but there is no reactor");
    if (status == TW_OK && session == NULL)
        status = tw_error_set(error, TW_NO_MEMORY, "no memory for the session");
    if (status != TW_OK)
        goto fail;

    session->host = options->host;
    capabilities_from(&settings, &session->capabilities);
    status = account_obtain(paper, options->follower_id, &session->account, error);
    if (status == TW_OK)
        status = session_attach(session, &settings, error);
    if (status != TW_OK)
        goto fail;
    settings_clear(&settings);
    *ret_session = session;
    return TW_OK;

fail:
    settings_clear(&settings);
    free(session);
    return status;
}

static void paper_session_close(void *session_of)
{
    struct session *session = session_of;
    if (session == NULL)
        return;
    news_end(session->account);
    free(session);
}

static void paper_capabilities(void *session_of, struct tw_capabilities *ret)
{
    const struct session *session = session_of;
    *ret = session->capabilities;
}

/* ---- Calls. ---- */

static void paper_execute(void *session, struct tw_adapter_call *call)
{
    flight_start(session, call, FLIGHT_EXECUTE);
}

static void paper_lookup(void *session, struct tw_adapter_call *call)
{
    flight_start(session, call, FLIGHT_LOOKUP);
}

static void paper_snapshot(void *session, struct tw_adapter_call *call)
{
    flight_start(session, call, FLIGHT_SNAPSHOT);
}

const struct tw_adapter_ops tw_adapter_paper = {
    .abi_major = TW_ADAPTER_ABI_MAJOR,
    .struct_size = sizeof(struct tw_adapter_ops),
    .name = "paper",
    .open = paper_open,
    .close = paper_close,
    .check = paper_check,
    .session_open = paper_session_open,
    .session_close = paper_session_close,
    .capabilities = paper_capabilities,
    .execute = paper_execute,
    .lookup = paper_lookup,
    .snapshot = paper_snapshot,
};
