#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plugins {
    const char *secrets_dir;
    struct tw_plugin_list list;
    struct library *libraries[]; /* one for each of the list */
};

static void plugins_close(void *adapter)
{
    free(adapter); /* the libraries stay */
}

static tw_status load_all(struct plugins *plugins, struct tw_error *error)
{
    tw_status status = TW_OK;
    for (size_t i = 0; i < plugins->list.n && status == TW_OK; i++)
        status = library_load(&plugins->list.entries[i], &plugins->libraries[i], error);
    return status;
}

static tw_status plugins_open(const struct tw_adapter_options *options, void **ret_adapter, struct tw_error *error)
{
    static const struct tw_plugin_list none = {0};
    const struct tw_plugin_list *list = options->own != NULL ? options->own : &none;
    struct plugins *plugins = calloc(1, sizeof *plugins + list->n * sizeof plugins->libraries[0]);
    if (plugins == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for plugins");
    plugins->secrets_dir = options->secrets_dir;
    plugins->list = *list;
    tw_status status = load_all(plugins, error);
    if (status != TW_OK) {
        plugins_close(plugins);
        return status;
    }
    *ret_adapter = plugins;
    return TW_OK;
}

tw_status tw_plugin_find(const struct tw_plugin_list *list, const char *adapter, size_t *ret_index, struct tw_error *error)
{
    const char *colon = strchr(adapter, ':');
    char known[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < list->n; i++) {
        if (colon != NULL ? strcmp(list->entries[i].name, colon + 1) == 0 : list->n == 1) {
            *ret_index = i;
            return TW_OK;
        }
        if (used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", list->entries[i].name);
    }
    if (list->n == 0)
        return tw_error_set(error, TW_INVALID, "adapter is \"%.80s\", but the server's configuration names no plugins", adapter);
    return tw_error_set(error, TW_INVALID, "adapter is \"%.80s\", expected plugin: and one of %s", adapter, known);
}

static tw_status library_find(const struct plugins *plugins, const char *adapter, struct library **ret, struct tw_error *error)
{
    size_t index;
    tw_status status = tw_plugin_find(&plugins->list, adapter, &index, error);
    if (status == TW_OK)
        *ret = plugins->libraries[index];
    return status;
}

static tw_status plugins_check(void *adapter, const struct tw_session_options *options, char *ret_key,
                               struct tw_error *error)
{
    struct library *library;
    struct options read = {0};
    tw_status status = library_find(adapter, options->adapter, &library, error);
    if (status == TW_OK)
        status = options_read(library, options, &read, ret_key, error);
    options_clear(&read);
    return status;
}

static tw_status plugins_session_open(void *adapter, const struct tw_session_options *options, void **ret_session,
                                      struct tw_error *error)
{
    const struct plugins *plugins = adapter;
    struct library *library;
    struct session *session;
    tw_status status = library_find(plugins, options->adapter, &library, error);
    if (status == TW_OK)
        status = session_open(library, options, plugins->secrets_dir, &session, error);
    if (status == TW_OK)
        *ret_session = session;
    return status;
}

static void plugins_session_close(void *session)
{
    session_close(session);
}

static void plugins_capabilities(void *session, struct tw_capabilities *ret)
{
    session_capabilities(session, ret);
}

bool tw_plugin_about(void *adapter, const char *name, struct tw_plugin_about *ret)
{
    static const char *const models[] = {[TWP_THREADS_GLOBAL] = "GLOBAL",
                                         [TWP_THREADS_SESSION] = "SESSION",
                                         [TWP_THREADS_AFFINE] = "AFFINE",
                                         [TWP_THREADS_FREE] = "FREE"};
    const struct plugins *plugins = adapter;
    const struct library *library = NULL;
    for (size_t i = 0; i < plugins->list.n && library == NULL; i++)
        if (strcmp(plugins->list.entries[i].name, name) == 0)
            library = plugins->libraries[i];
    if (library == NULL)
        return false;
    *ret = (struct tw_plugin_about){
        .hedging = (library->caps.can & TWP_CAN_HEDGING) != 0,
        .netting = (library->caps.can & TWP_CAN_NETTING) != 0,
        .lookup = (library->caps.can & TWP_CAN_LOOKUP) != 0,
        .reduce_only = (library->caps.can & TWP_CAN_REDUCE_ONLY) != 0,
        .id_strength = (uint32_t)library->caps.id_strength,
        .calls_max = library->caps.calls_max,
        .sessions_max = library->caps.sessions_max,
        .call_timeout_ms = library->caps.call_timeout_ms,
        .settle_ms = library->caps.settle_ms,
    };
    snprintf(ret->threads, sizeof ret->threads, "%s", models[library->caps.thread_model]);
    return true;
}

bool tw_plugin_is_stuck(void *adapter)
{
    const struct plugins *plugins = adapter;
    for (size_t i = 0; i < plugins->list.n; i++)
        if (library_is_stuck(plugins->libraries[i]))
            return true;
    return false;
}

static void plugins_execute(void *session, struct tw_adapter_call *call)
{
    session_execute(session, call);
}

static void plugins_lookup(void *session, struct tw_adapter_call *call)
{
    session_lookup(session, call);
}

static void plugins_snapshot(void *session, struct tw_adapter_call *call)
{
    session_snapshot(session, call);
}

const struct tw_adapter_ops tw_adapter_plugin = {
    .abi_major = TW_ADAPTER_ABI_MAJOR,
    .struct_size = sizeof(struct tw_adapter_ops),
    .name = "plugin",
    .open = plugins_open,
    .close = plugins_close,
    .check = plugins_check,
    .session_open = plugins_session_open,
    .session_close = plugins_session_close,
    .capabilities = plugins_capabilities,
    .execute = plugins_execute,
    .lookup = plugins_lookup,
    .snapshot = plugins_snapshot,
};
