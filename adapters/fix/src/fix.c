#include "fix.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/file.h>
#include <tradewake/base/log.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The adapter. ---- */

static tw_status tls_open(struct fix_adapter *adapter, struct tw_error *error)
{
    for (size_t i = 0; i < adapter->venues.n; i++) {
        const struct fix_venue *venue = &adapter->venues.list[i];
        const struct fix_link_tls_options options = {.ca = venue->ca, .certificate = venue->certificate, .key = venue->key};
        struct tw_error why = {{0}};
        tw_status status = venue->is_tls ? fix_link_tls_new(&options, &adapter->tls[i], &why) : TW_OK;
        if (status != TW_OK)
            return tw_error_set(error, status, "FIX session %s: %s", venue->name, why.text);
    }
    return TW_OK;
}

static tw_status venues_open(struct fix_adapter *adapter, const char *path, struct tw_error *error)
{
    char *text;
    size_t size;
    tw_status status = tw_file_read(path, FIX_FILE_BYTES_MAX, &text, &size, error);
    if (status != TW_OK)
        return status;
    status = strlen(text) == size ? fix_venues_read(text, path, &adapter->venues, error)
                                  : tw_error_set(error, TW_INVALID, "%s: it has a NUL in it", path);
    free(text);
    return status == TW_OK ? tls_open(adapter, error) : status;
}

static void fix_close(void *adapter_of)
{
    struct fix_adapter *adapter = adapter_of;
    if (adapter == NULL)
        return;
    tw_fix_quiet(adapter);
    for (size_t i = 0; i < adapter->venues.n; i++)
        fix_link_tls_free(adapter->tls[i]);
    fix_venues_clear(&adapter->venues);
    pthread_cond_destroy(&adapter->changed);
    pthread_mutex_destroy(&adapter->lock);
    free(adapter->state_dir);
    free(adapter->secrets_dir);
    free(adapter);
}

static char *copy_or_null(const char *text, bool *ok)
{
    char *copy = text != NULL ? strdup(text) : NULL;
    *ok = *ok && (text == NULL || copy != NULL);
    return copy;
}

static tw_status fix_open(const struct tw_adapter_options *options, void **ret_adapter, struct tw_error *error)
{
    const struct tw_fix_options *own = options->own;
    struct fix_adapter *adapter = calloc(1, sizeof *adapter);
    if (adapter == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the FIX sessions");
    bool ok = true;
    adapter->reactor = options->reactor;
    adapter->dice = (uint64_t)tw_wall_ns() | 1u;
    /* Ids of questions differ from those of an earlier life. */
    adapter->n_requests = (uint64_t)tw_wall_ns() / (uint64_t)TW_NS_PER_US;
    adapter->state_dir = copy_or_null(options->state_dir, &ok);
    adapter->secrets_dir = copy_or_null(options->secrets_dir, &ok);
    pthread_mutex_init(&adapter->lock, NULL);
    pthread_cond_init(&adapter->changed, NULL);
    tw_status status = ok ? TW_OK : tw_error_set(error, TW_NO_MEMORY, "no memory for the FIX sessions");
    if (status == TW_OK && own != NULL && own->sessions_path != NULL && own->sessions_path[0] != '\0')
        status = venues_open(adapter, own->sessions_path, error);
    if (status != TW_OK) {
        fix_close(adapter);
        return status;
    }
    *ret_adapter = adapter;
    return TW_OK;
}

/* ---- Over to the reactor, and back. ---- */

struct errand {
    struct tw_task task;
    struct fix_adapter *adapter;
    struct fix_account *account;
    bool is_done; /* guarded by the adapter's lock */
};

static void errand_done(struct errand *errand)
{
    struct fix_adapter *adapter = errand->adapter;
    pthread_mutex_lock(&adapter->lock);
    errand->is_done = true;
    pthread_cond_broadcast(&adapter->changed);
    pthread_mutex_unlock(&adapter->lock);
}

/* Thread: not the reactor. False: the reactor is not to be used any more. */
static bool errand_run(struct fix_adapter *adapter, struct errand *errand)
{
    pthread_mutex_lock(&adapter->lock);
    bool runs = !adapter->is_quiet;
    if (runs)
        tw_reactor_post(adapter->reactor, &errand->task);
    while (runs && !errand->is_done)
        pthread_cond_wait(&adapter->changed, &adapter->lock);
    pthread_mutex_unlock(&adapter->lock);
    return runs;
}

static void on_quiet(struct tw_task *task)
{
    struct errand *errand = (struct errand *)(void *)task;
    fix_lines_close(errand->adapter);
    errand_done(errand);
}

void tw_fix_quiet(void *adapter_of)
{
    struct fix_adapter *adapter = adapter_of;
    struct errand errand = {.task = {.run = on_quiet}, .adapter = adapter};
    if (adapter == NULL || adapter->reactor == NULL)
        return;
    if (!errand_run(adapter, &errand))
        return;
    pthread_mutex_lock(&adapter->lock);
    adapter->is_quiet = true;
    pthread_mutex_unlock(&adapter->lock);
}

/* ---- Sessions. ---- */

static tw_status fix_check(void *adapter_of, const struct tw_session_options *options, char *ret_key, struct tw_error *error)
{
    struct fix_adapter *adapter = adapter_of;
    struct fix_settings settings;
    char key[FIX_SETTING_KEY_BYTES] = "";
    tw_status status = fix_settings_read(&adapter->venues, options, &settings, key, error);
    if (status != TW_OK && key[0] != '\0')
        snprintf(ret_key, FIX_SETTING_KEY_BYTES, "%s", key);
    return status;
}

static void on_attach(struct tw_task *task)
{
    struct fix_account *account = (struct fix_account *)(void *)((char *)task - offsetof(struct fix_account, attach));
    char why[WHY_BYTES] = "";
    fix_account_begin(account);
    account->line = fix_line_attach(account->adapter, account, why);
    if (account->line == NULL)
        fix_account_tell(account, false, why);
}

static tw_status fix_session_open(void *adapter_of, const struct tw_session_options *options, void **ret_session,
                                  struct tw_error *error)
{
    struct fix_adapter *adapter = adapter_of;
    char key[FIX_SETTING_KEY_BYTES];
    struct fix_settings settings;
    tw_status status = fix_settings_read(&adapter->venues, options, &settings, key, error);
    if (status != TW_OK)
        return status;
    struct fix_account *account = calloc(1, sizeof *account);
    if (account == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the session");
    account->adapter = adapter;
    account->settings = settings;
    account->venue = settings.venue;
    account->host = options->host;
    account->attach.run = on_attach;
    fix_settings_capabilities(&settings, &account->can);
    *ret_session = account;
    tw_reactor_post(adapter->reactor, &account->attach);
    return TW_OK;
}

static void account_leave(struct fix_account *account)
{
    if (account->line != NULL)
        fix_line_detach(account->line, account);
    account->line = NULL;
}

static void on_detach(struct tw_task *task)
{
    struct errand *errand = (struct errand *)(void *)task;
    account_leave(errand->account);
    errand_done(errand);
}

static void fix_session_close(void *session)
{
    struct fix_account *account = session;
    if (account == NULL)
        return;
    struct fix_adapter *adapter = account->adapter;
    struct errand errand = {.task = {.run = on_detach}, .adapter = adapter, .account = account};
    if (tw_reactor_is_current(adapter->reactor))
        account_leave(account);
    else
        (void)errand_run(adapter, &errand);
    fix_account_free(account);
}

static void fix_capabilities(void *session, struct tw_capabilities *ret)
{
    const struct fix_account *account = session;
    *ret = account->can;
}

const struct tw_adapter_ops tw_adapter_fix = {
    .abi_major = TW_ADAPTER_ABI_MAJOR,
    .struct_size = sizeof(struct tw_adapter_ops),
    .name = "fix",
    .open = fix_open,
    .close = fix_close,
    .check = fix_check,
    .session_open = fix_session_open,
    .session_close = fix_session_close,
    .capabilities = fix_capabilities,
    .execute = fix_execute,
    .lookup = fix_lookup,
    .snapshot = fix_snapshot,
};
