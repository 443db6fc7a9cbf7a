#include "remote.h"
#include "translate.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/log.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* So long a start waits for its bridges: what they can do is better known before the first session. */
#define FIRST_ANSWER_S 2

/* ---- The adapter. ---- */

/* While it is looked at nobody frees it; remote_session_back() lets it go. Under lock. */
static struct session *session_hold(struct session *session)
{
    if (session != NULL)
        session->n_out++;
    return session;
}

static void on_tick(void *context)
{
    struct remote *remote = context;
    int64_t now = tw_mono_ns();
    pthread_mutex_lock(&remote->lock);
    size_t n_bridges = remote->n_bridges;
    pthread_mutex_unlock(&remote->lock);
    for (size_t i = 0; i < n_bridges; i++)
        remote_bridge_tick(&remote->bridges[i], now);
    pthread_mutex_lock(&remote->lock);
    struct session *session = session_hold(remote->sessions);
    while (session != NULL) {
        pthread_mutex_unlock(&remote->lock);
        if (!session->is_closing)
            remote_session_tick(session, now);
        pthread_mutex_lock(&remote->lock);
        /* What was closed meanwhile has no place in the list: the rest is looked at in the next tick. */
        struct session *next = session->is_closing ? NULL : session_hold(session->next);
        pthread_mutex_unlock(&remote->lock);
        remote_session_back(session);
        pthread_mutex_lock(&remote->lock);
        session = next;
    }
    pthread_mutex_unlock(&remote->lock);
}

static bool is_every_bridge_tried(const struct remote *remote)
{
    for (size_t i = 0; i < remote->n_bridges; i++)
        if (!remote->bridges[i].was_tried)
            return false;
    return true;
}

static void bridges_await(struct remote *remote)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += FIRST_ANSWER_S;
    pthread_mutex_lock(&remote->lock);
    while (!is_every_bridge_tried(remote) &&
           pthread_cond_clockwait(&remote->changed, &remote->lock, CLOCK_MONOTONIC, &until) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&remote->lock);
}

static tw_status bridge_open(struct remote *remote, const struct tw_remote_bridge *wanted, struct bridge *bridge,
                             struct tw_error *error)
{
    const struct tw_wire_client_tls tls = {
        .ca = wanted->ca,
        .certificate = wanted->certificate != NULL ? wanted->certificate : "",
        .key = wanted->key != NULL ? wanted->key : "",
        .server_name = wanted->server_name != NULL ? wanted->server_name : "",
    };
    const struct tw_wire_client_options options = {
        .address = wanted->address,
        .tls = wanted->ca != NULL && wanted->ca[0] != '\0' ? &tls : NULL,
    };
    struct tw_error why = {{0}};
    bridge->remote = remote;
    snprintf(bridge->name, sizeof bridge->name, "%s", wanted->name);
    tw_status status = tw_wire_channel_open(remote->line, &options, &bridge->channel, &why);
    if (status != TW_OK)
        return tw_error_set(error, status, "bridge %s: %s", wanted->name, why.text);
    pthread_mutex_lock(&remote->lock);
    remote->n_bridges++;
    pthread_mutex_unlock(&remote->lock);
    return TW_OK;
}

void tw_remote_quiet(void *adapter)
{
    struct remote *remote = adapter;
    if (remote == NULL)
        return;
    tw_wire_line_stop(remote->line);
    remote->line = NULL;
}

static void remote_close(void *adapter)
{
    struct remote *remote = adapter;
    if (remote == NULL)
        return;
    tw_remote_quiet(remote);
    for (size_t i = 0; i < remote->n_bridges; i++) {
        tw_wire_channel_close(remote->bridges[i].channel);
        if (remote->bridges[i].can != NULL)
            tradewake__adapter__v1__get_capabilities_response__free_unpacked(remote->bridges[i].can, NULL);
    }
    pthread_cond_destroy(&remote->changed);
    pthread_mutex_destroy(&remote->lock);
    free(remote->bridges);
    free(remote);
}

static tw_status remote_open(const struct tw_adapter_options *options, void **ret_adapter, struct tw_error *error)
{
    const struct tw_remote_bridges *bridges = options->own;
    size_t n = bridges != NULL ? bridges->n : 0;
    struct remote *remote = calloc(1, sizeof *remote);
    if (remote == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the bridges");
    remote->reactor = options->reactor;
    remote->dice = (uint64_t)tw_wall_ns() | 1u;
    pthread_mutex_init(&remote->lock, NULL);
    pthread_cond_init(&remote->changed, NULL);
    remote->bridges = calloc(n + 1, sizeof *remote->bridges);
    tw_status status = TW_OK;
    if (remote->bridges == NULL)
        status = tw_error_set(error, TW_NO_MEMORY, "no memory for the bridges");
    const struct tw_wire_line_options line = {
        .name = "remote", .on_tick = on_tick, .tick_ns = TICK_NS, .context = remote};
    if (status == TW_OK && n > 0)
        status = tw_wire_line_start(&line, &remote->line, error);
    for (size_t i = 0; status == TW_OK && i < n; i++)
        status = bridge_open(remote, &bridges->list[i], &remote->bridges[i], error);
    if (status != TW_OK) {
        remote_close(remote);
        return status;
    }
    if (n > 0)
        bridges_await(remote);
    *ret_adapter = remote;
    return TW_OK;
}

/* ---- Sessions. ---- */

static struct bridge *bridge_find(struct remote *remote, const char *name)
{
    for (size_t i = 0; i < remote->n_bridges; i++)
        if (strcmp(remote->bridges[i].name, name) == 0)
            return &remote->bridges[i];
    return NULL;
}

static tw_status remote_check(void *adapter, const struct tw_session_options *options, char *ret_key,
                              struct tw_error *error)
{
    struct settings settings;
    tw_status status = remote_settings_read(options, &settings, ret_key, error);
    if (status != TW_OK || bridge_find(adapter, settings.bridge) != NULL)
        return status;
    return tw_error_set(error, TW_INVALID, "\"%.64s\" is no bridge of this server (bridges in its configuration)",
                        settings.bridge);
}

static bool config_copy(struct session *session, const struct settings *settings)
{
    session->config = calloc(settings->n_vendor + 1, sizeof *session->config);
    session->config_list = calloc(settings->n_vendor + 1, sizeof *session->config_list);
    if (session->config == NULL || session->config_list == NULL)
        return false;
    for (size_t i = 0; i < settings->n_vendor; i++) {
        tradewake__adapter__v1__open_session_request__config_entry__init(&session->config[i]);
        session->config[i].key = strdup(settings->vendor[i].key);
        session->config[i].value = strdup(settings->vendor[i].value);
        session->config_list[i] = &session->config[i];
        session->n_config = i + 1;
        if (session->config[i].key == NULL || session->config[i].value == NULL)
            return false;
    }
    return true;
}

static tw_status session_fill(struct session *session, const struct tw_session_options *options,
                              const struct settings *settings, struct tw_error *error)
{
    session->host = options->host;
    session->call_timeout_ns = settings->call_timeout_ns;
    session->wants_symbols = settings->symbols[0] == '\0';
    session->symbols = strdup(settings->symbols);
    session->account_key = strdup(settings->account[0] != '\0' ? settings->account : options->follower_id);
    session->credentials_ref = strdup(options->credentials_ref);
    if (session->symbols == NULL || session->account_key == NULL || session->credentials_ref == NULL ||
        !config_copy(session, settings))
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the session");
    return TW_OK;
}

/* What the bridge has said so far is what the session promises; nothing, and it promises the least. */
static void session_begin(struct session *session, const struct settings *settings)
{
    struct remote *remote = session->remote;
    pthread_mutex_lock(&remote->lock);
    const struct bridge *bridge = session->bridge;
    remote_capabilities_from_response(bridge->can, settings->is_netting, settings->call_timeout_ns, &session->can);
    session->next = remote->sessions;
    if (session->next != NULL)
        session->next->previous = session;
    remote->sessions = session;
    bool is_known = bridge->is_known;
    pthread_mutex_unlock(&remote->lock);
    if (!is_known)
        tw_log(TW_LOG_WARN, "bridge.unknown",
               "bridge=%s account=\"%s\" takes=\"one call at a time, 60 s until not found is proof\" "
               "do=\"start the bridge first, or create the follower anew\"",
               session->bridge->name, session->account_key);
}

static tw_status remote_session_open(void *adapter, const struct tw_session_options *options, void **ret_session,
                                     struct tw_error *error)
{
    struct remote *remote = adapter;
    struct settings settings;
    char key[SETTING_KEY_BYTES];
    tw_status status = remote_settings_read(options, &settings, key, error);
    if (status != TW_OK)
        return status;
    struct session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the session");
    session->remote = remote;
    session->bridge = bridge_find(remote, settings.bridge);
    status = session->bridge != NULL ? session_fill(session, options, &settings, error)
                                     : tw_error_set(error, TW_INVALID, "\"%.64s\" is no bridge of this server",
                                                    settings.bridge);
    if (status != TW_OK) {
        remote_session_free(session);
        return status;
    }
    session_begin(session, &settings);
    *ret_session = session;
    return TW_OK;
}

static void on_closed(void *context, const struct tw_wire_answer *answer, const ProtobufCMessage *response)
{
    (void)answer;
    (void)response;
    remote_session_back(context);
}

/* The bridge hears of it, if it is there; nobody waits for it. Under lock. */
static void session_say_goodbye(struct session *session)
{
    struct tw_error error = {{0}};
    Tradewake__Adapter__V1__CloseSessionRequest request;
    tradewake__adapter__v1__close_session_request__init(&request);
    request.session_id = session->session_id;
    if (session->session_id[0] == '\0' || !session->bridge->is_proven)
        return;
    if (tw_wire_call_begin(session->bridge->channel, METHOD("CloseSession"), &request.base, tw_mono_ns() + TW_NS_PER_S,
                           on_closed, session, NULL, &error) == TW_OK)
        session->n_out++;
}

static void remote_session_close(void *session_of)
{
    struct session *session = session_of;
    if (session == NULL)
        return;
    struct remote *remote = session->remote;
    bool is_quiet = remote->line == NULL, is_line = !is_quiet && tw_wire_line_is_current(remote->line);
    pthread_mutex_lock(&remote->lock);
    session->is_closing = true;
    session->n_out++; /* this one: while it waits, whoever comes back is not the last */
    while (remote->telling == session && !is_line)
        pthread_cond_wait(&remote->changed, &remote->lock);
    if (session->previous != NULL)
        session->previous->next = session->next;
    else
        remote->sessions = session->next;
    if (session->next != NULL)
        session->next->previous = session->previous;
    if (session->stream != NULL)
        tw_wire_pending_cancel(session->stream);
    if (!is_quiet)
        session_say_goodbye(session);
    bool is_last = --session->n_out == 0;
    pthread_mutex_unlock(&remote->lock);
    if (is_last)
        remote_session_free(session);
}

static void remote_capabilities(void *session_of, struct tw_capabilities *ret)
{
    const struct session *session = session_of;
    *ret = session->can;
}

const struct tw_adapter_ops tw_adapter_remote = {
    .abi_major = TW_ADAPTER_ABI_MAJOR,
    .struct_size = sizeof(struct tw_adapter_ops),
    .name = "remote",
    .open = remote_open,
    .close = remote_close,
    .check = remote_check,
    .session_open = remote_session_open,
    .session_close = remote_session_close,
    .capabilities = remote_capabilities,
    .execute = remote_execute,
    .lookup = remote_lookup,
    .snapshot = remote_snapshot,
};
