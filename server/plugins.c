#include "plugins.h"

#include <tradewake/adapters/remote.h>
#include <tradewake/base/arena.h>
#include <tradewake/base/clock.h>
#include <tradewake/base/limits.h>
#include <tradewake/wire/client.h>

#include <tradewake/adapter/v1/broker_adapter.pb-c.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_CONFIG   "/tradewake.adapter.v1.BrokerAdapterService/CheckConfig"
#define CHECK_NS       (500 * TW_NS_PER_MS) /* the fleet stands meanwhile, and who halts waits */
#define CHECK_AGAIN_NS (5 * TW_NS_PER_S)    /* so long nobody asks again who was not answered */
#define GRACE_MS       1000u   /* after its deadline a call is lost, as in process */
#define TIMEOUT_MS_MAX 120000u /* the remote adapter's */

enum { SETTINGS_MAX = 32, KEY_BYTES = 80, ARENA_BYTES = 256 * 1024 };

struct plugin {
    const struct tw_plugin_entry *entry;
    size_t host; /* hosted: which */
    struct tw_wire_client *client; /* hosted: for questions about settings */
    atomic_llong ask_mono_ns;      /* hosted: not before */
};

struct plugins {
    struct plugin list[TW_PLUGIN_ENTRIES_MAX];
    size_t n;
    struct tw_plugin_list all;
    struct tw_plugin_entry local_entries[TW_PLUGIN_ENTRIES_MAX], hosted_entries[TW_PLUGIN_ENTRIES_MAX];
    struct tw_plugin_list local_list;
    size_t n_hosted;
    void *local, *remote;
    struct hosts *hosts;
};

struct seat {
    const struct tw_adapter_ops *ops; /* whose session it is */
    void *session;
    bool is_hosted;
    struct tw_capabilities can; /* hosted */
};

/* ---- Life ---- */

static void plugins_close(void *adapter)
{
    struct plugins *plugins = adapter;
    if (plugins == NULL)
        return;
    for (size_t i = 0; i < plugins->n; i++)
        tw_wire_client_close(plugins->list[i].client);
    tw_adapter_remote.close(plugins->remote);
    hosts_stop(plugins->hosts);
    tw_adapter_plugin.close(plugins->local);
    free(plugins);
}

static void list_divide(struct plugins *plugins, const struct tw_plugin_list *list)
{
    plugins->all = (struct tw_plugin_list){list->entries, list->n < TW_PLUGIN_ENTRIES_MAX ? list->n : TW_PLUGIN_ENTRIES_MAX};
    for (size_t i = 0; i < plugins->all.n; i++) {
        const struct tw_plugin_entry *entry = &list->entries[i];
        plugins->list[plugins->n++] = (struct plugin){.entry = entry, .host = plugins->n_hosted};
        if (entry->in_process)
            plugins->local_entries[plugins->local_list.n++] = *entry;
        else
            plugins->hosted_entries[plugins->n_hosted++] = *entry;
    }
    plugins->local_list.entries = plugins->local_entries;
}

static tw_status clients_open(struct plugins *plugins, struct tw_error *error)
{
    tw_status status = TW_OK;
    for (size_t i = 0; i < plugins->n && status == TW_OK; i++)
        if (!plugins->list[i].entry->in_process)
            status = tw_wire_client_open_plain(hosts_address(plugins->hosts, plugins->list[i].host), &plugins->list[i].client, error);
    return status;
}

static tw_status hosts_open(struct plugins *plugins, const struct tw_adapter_options *options, struct tw_error *error)
{
    const struct tw_plugins_own *own = options->own;
    struct hosts_options wanted = own->hosts;
    struct tw_remote_bridge bridges[TW_PLUGIN_ENTRIES_MAX];
    wanted.entries = plugins->hosted_entries;
    wanted.n = plugins->n_hosted;
    wanted.secrets_dir = options->secrets_dir;
    tw_status status = hosts_start(&wanted, &plugins->hosts, error);
    if (status != TW_OK)
        return status;
    for (size_t i = 0; i < plugins->n_hosted; i++)
        bridges[i] = (struct tw_remote_bridge){.name = plugins->hosted_entries[i].name, .address = hosts_address(plugins->hosts, i)};
    const struct tw_remote_bridges list = {bridges, plugins->n_hosted};
    const struct tw_adapter_options remote = {.reactor = options->reactor, .own = &list};
    status = tw_adapter_remote.open(&remote, &plugins->remote, error);
    return status == TW_OK ? clients_open(plugins, error) : status;
}

static tw_status plugins_open(const struct tw_adapter_options *options, void **ret_adapter, struct tw_error *error)
{
    const struct tw_plugins_own *own = options->own;
    struct plugins *plugins = calloc(1, sizeof *plugins);
    if (plugins == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for plugins");
    list_divide(plugins, &own->list);
    struct tw_adapter_options local = *options;
    local.own = &plugins->local_list;
    tw_status status = tw_adapter_plugin.open(&local, &plugins->local, error);
    if (status == TW_OK && plugins->n_hosted > 0)
        status = hosts_open(plugins, options, error);
    if (status != TW_OK) {
        plugins_close(plugins);
        return status;
    }
    *ret_adapter = plugins;
    return TW_OK;
}

void tw_plugins_quiet(void *adapter)
{
    struct plugins *plugins = adapter;
    if (plugins != NULL)
        tw_remote_quiet(plugins->remote);
}

/* ---- Which, and how ---- */

static tw_status plugin_find(struct plugins *plugins, const char *adapter, struct plugin **ret, struct tw_error *error)
{
    size_t index;
    tw_status status = tw_plugin_find(&plugins->all, adapter, &index, error);
    if (status == TW_OK)
        *ret = &plugins->list[index];
    return status;
}

/* "250ms", "2s" in ms; `otherwise` for what is no time: whoever checks it says so. */
static uint32_t milliseconds(const char *value, uint32_t otherwise)
{
    char *end;
    unsigned long number = strtoul(value, &end, 10);
    unsigned long unit = strcmp(end, "ms") == 0 ? 1 : strcmp(end, "s") == 0 ? 1000 : 0;
    bool is_time = value[0] >= '0' && value[0] <= '9' && unit > 0 && number > 0 && number <= 600000 / unit;
    return is_time ? (uint32_t)(number * unit) : otherwise;
}

/* A follower's options as the remote adapter takes them, and what its session then promises. Points into the options. */
struct hosted {
    char adapter[64];
    char call_timeout[32];
    struct tw_adapter_setting settings[SETTINGS_MAX + 2];
    char keys[SETTINGS_MAX][KEY_BYTES];
    struct tw_session_options options;
    struct tw_capabilities can;
};

static tw_status hosted_fill(const struct plugins *plugins, const struct plugin *plugin, const struct tw_session_options *from,
                             struct hosted *ret, struct tw_error *error)
{
    const struct tw_plugin_about *about = hosts_about(plugins->hosts, plugin->host);
    uint32_t timeout_ms = about->call_timeout_ms, settle_ms = about->settle_ms, sessions = 1;
    const char *mode = about->hedging ? "hedging" : "netting";
    size_t n = 0;
    if (from->n_settings > SETTINGS_MAX)
        return tw_error_set(error, TW_INVALID, "found %zu settings, expected at most %d", from->n_settings, SETTINGS_MAX);
    for (size_t i = 0; i < from->n_settings; i++) {
        const char *key = from->settings[i].key, *value = from->settings[i].value;
        if (strcmp(key, "account_mode") == 0)
            mode = value;
        else if (strcmp(key, "call_timeout") == 0)
            timeout_ms = milliseconds(value, timeout_ms);
        else if (strcmp(key, "settle") == 0)
            settle_ms = milliseconds(value, settle_ms);
        else if (strcmp(key, "sessions") == 0)
            sessions = (uint32_t)strtoul(value, NULL, 10);
        snprintf(ret->keys[n], KEY_BYTES, "vendor.%.70s", key);
        ret->settings[n] = (struct tw_adapter_setting){ret->keys[n], value};
        n++;
    }
    uint32_t wait_ms = timeout_ms + GRACE_MS < TIMEOUT_MS_MAX ? timeout_ms + GRACE_MS : TIMEOUT_MS_MAX;
    uint64_t parallel = (uint64_t)about->calls_max * (sessions > 0 && sessions <= about->sessions_max ? sessions : 1);
    bool finds = about->lookup && about->id_strength >= 1;
    snprintf(ret->adapter, sizeof ret->adapter, "remote:%s", plugin->entry->name);
    snprintf(ret->call_timeout, sizeof ret->call_timeout, "%ums", wait_ms);
    ret->settings[n++] = (struct tw_adapter_setting){"account_mode", mode};
    ret->settings[n++] = (struct tw_adapter_setting){"call_timeout", ret->call_timeout};
    ret->options = *from;
    ret->options.adapter = ret->adapter;
    ret->options.settings = ret->settings;
    ret->options.n_settings = n;
    ret->can = (struct tw_capabilities){
        .netting = strcmp(mode, "netting") == 0,
        .query_by_id = finds,
        .not_found_is_final = finds && about->id_strength >= 2,
        .reduce_only = about->reduce_only,
        .max_parallel = parallel < TW_PARALLEL_MAX ? (uint32_t)parallel : TW_PARALLEL_MAX,
        .call_timeout_ms = timeout_ms,
        .settle_ms = settle_ms + GRACE_MS, /* what came to the library late may leave it that much after the deadline known here */
    };
    return TW_OK;
}

static struct tw_session_options local_options(const struct plugin *plugin, const struct tw_session_options *from, char adapter[64])
{
    struct tw_session_options options = *from;
    snprintf(adapter, 64, "plugin:%s", plugin->entry->name);
    options.adapter = adapter;
    return options;
}

/* ---- Settings ---- */

/* The library says whether it can take them; where nobody answers, they are taken, and the account says why it stays away. */
static tw_status hosted_check(struct plugin *plugin, const struct tw_session_options *options, char *ret_key,
                              struct tw_error *error)
{
    Tradewake__Adapter__V1__CheckConfigRequest request;
    Tradewake__Adapter__V1__CheckConfigRequest__ConfigEntry entries[SETTINGS_MAX], *list[SETTINGS_MAX];
    ProtobufCMessage *response = NULL;
    struct tw_error unheard = {{0}};
    struct tw_arena arena;
    tradewake__adapter__v1__check_config_request__init(&request);
    for (size_t i = 0; i < options->n_settings; i++) {
        tradewake__adapter__v1__check_config_request__config_entry__init(&entries[i]);
        entries[i].key = (char *)(uintptr_t)options->settings[i].key;
        entries[i].value = (char *)(uintptr_t)options->settings[i].value;
        list[i] = &entries[i];
    }
    request.config = list;
    request.n_config = options->n_settings;
    request.credentials_ref = (char *)(uintptr_t)(options->credentials_ref != NULL ? options->credentials_ref : "");
    tw_arena_init(&arena, ARENA_BYTES);
    tw_status status = tw_wire_client_call(plugin->client, CHECK_CONFIG, &request.base, tw_mono_ns() + CHECK_NS, &arena, &response,
                                           NULL, &unheard);
    const Tradewake__Adapter__V1__CheckConfigResponse *answer = (const void *)response;
    if (status == TW_TIMEOUT)
        atomic_store(&plugin->ask_mono_ns, tw_mono_ns() + CHECK_AGAIN_NS);
    bool is_wrong = status == TW_OK && answer->verdict == TRADEWAKE__ADAPTER__V1__CONFIG_VERDICT__CONFIG_VERDICT_WRONG;
    if (is_wrong) {
        snprintf(ret_key, 65, "%.64s", answer->key);
        status = tw_error_set(error, TW_INVALID, "%s", answer->words);
    }
    tw_arena_clear(&arena);
    return is_wrong ? status : TW_OK;
}

static tw_status plugins_check(void *adapter, const struct tw_session_options *options, char *ret_key, struct tw_error *error)
{
    struct plugins *plugins = adapter;
    struct plugin *plugin;
    struct hosted hosted;
    char name[64];
    tw_status status = plugin_find(plugins, options->adapter, &plugin, error);
    if (status != TW_OK)
        return status;
    if (plugin->entry->in_process) {
        struct tw_session_options local = local_options(plugin, options, name);
        return tw_adapter_plugin.check(plugins->local, &local, ret_key, error);
    }
    status = hosted_fill(plugins, plugin, options, &hosted, error);
    bool is_asked = hosts_is_answering(plugins->hosts, plugin->host) && tw_mono_ns() >= atomic_load(&plugin->ask_mono_ns);
    return status == TW_OK && is_asked ? hosted_check(plugin, options, ret_key, error) : status;
}

/* ---- Sessions ---- */

static tw_status hosted_open(const struct plugins *plugins, const struct plugin *plugin, const struct tw_session_options *options,
                             struct seat *seat, struct tw_error *error)
{
    struct hosted hosted;
    tw_status status = hosted_fill(plugins, plugin, options, &hosted, error);
    if (status != TW_OK)
        return status;
    seat->ops = &tw_adapter_remote;
    seat->is_hosted = true;
    seat->can = hosted.can;
    return tw_adapter_remote.session_open(plugins->remote, &hosted.options, &seat->session, error);
}

static tw_status plugins_session_open(void *adapter, const struct tw_session_options *options, void **ret_session,
                                      struct tw_error *error)
{
    struct plugins *plugins = adapter;
    struct plugin *plugin;
    char name[64];
    tw_status status = plugin_find(plugins, options->adapter, &plugin, error);
    if (status != TW_OK)
        return status;
    struct seat *seat = calloc(1, sizeof *seat);
    if (seat == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for a session of plugin %s", plugin->entry->name);
    if (plugin->entry->in_process) {
        struct tw_session_options local = local_options(plugin, options, name);
        seat->ops = &tw_adapter_plugin;
        status = tw_adapter_plugin.session_open(plugins->local, &local, &seat->session, error);
    } else {
        status = hosted_open(plugins, plugin, options, seat, error);
    }
    if (status != TW_OK) {
        free(seat);
        return status;
    }
    *ret_session = seat;
    return TW_OK;
}

static void plugins_session_close(void *session)
{
    struct seat *seat = session;
    if (seat == NULL)
        return;
    seat->ops->session_close(seat->session);
    free(seat);
}

static void plugins_capabilities(void *session, struct tw_capabilities *ret)
{
    const struct seat *seat = session;
    if (seat->is_hosted)
        *ret = seat->can;
    else
        seat->ops->capabilities(seat->session, ret);
}

/* The library has until the deadline; its answer, to come back over the wire, a second more, as an answer in process has. */
static void grace_add(const struct seat *seat, struct tw_adapter_call *call)
{
    if (seat->is_hosted && tw_mono_ns() < call->deadline_mono_ns)
        call->deadline_mono_ns += GRACE_MS * TW_NS_PER_MS;
}

static void plugins_execute(void *session, struct tw_adapter_call *call)
{
    const struct seat *seat = session;
    grace_add(seat, call);
    seat->ops->execute(seat->session, call);
}

static void plugins_lookup(void *session, struct tw_adapter_call *call)
{
    const struct seat *seat = session;
    grace_add(seat, call);
    seat->ops->lookup(seat->session, call);
}

static void plugins_snapshot(void *session, struct tw_adapter_call *call)
{
    const struct seat *seat = session;
    grace_add(seat, call);
    seat->ops->snapshot(seat->session, call);
}

const struct tw_adapter_ops tw_adapter_plugins = {
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
