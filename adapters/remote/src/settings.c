#include "settings.h"

#include <tradewake/base/clock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALL_TIMEOUT_NS_DEFAULT (5 * TW_NS_PER_S)
#define CALL_TIMEOUT_NS_MAX     (120 * TW_NS_PER_S)

static const char vendor_prefix[] = "vendor.";

typedef tw_status setting_fn(struct settings *settings, const char *value, struct tw_error *error);

static tw_status read_account(struct settings *settings, const char *value, struct tw_error *error)
{
    if (strlen(value) > 128)
        return tw_error_set(error, TW_INVALID, "account is longer than 128 characters");
    settings->account = value;
    return TW_OK;
}

static tw_status read_account_mode(struct settings *settings, const char *value, struct tw_error *error)
{
    if (strcmp(value, "hedging") != 0 && strcmp(value, "netting") != 0)
        return tw_error_set(error, TW_INVALID, "account_mode is \"%.64s\", expected hedging or netting", value);
    settings->is_netting = strcmp(value, "netting") == 0;
    return TW_OK;
}

static tw_status read_symbols(struct settings *settings, const char *value, struct tw_error *error)
{
    size_t n = 1;
    for (const char *at = strchr(value, ','); at != NULL; at = strchr(at + 1, ','))
        n++;
    if (n > SYMBOLS_MAX)
        return tw_error_set(error, TW_INVALID, "symbols names %zu, expected at most %d", n, SYMBOLS_MAX);
    settings->symbols = value;
    return TW_OK;
}

static tw_status read_call_timeout(struct settings *settings, const char *value, struct tw_error *error)
{
    char *end;
    long long number = strtoll(value, &end, 10);
    int64_t unit = strcmp(end, "ms") == 0 ? TW_NS_PER_MS : strcmp(end, "s") == 0 ? TW_NS_PER_S : 0;
    bool is_number = value[0] >= '0' && value[0] <= '9' && end != value && unit > 0;
    if (!is_number || number <= 0 || number > CALL_TIMEOUT_NS_MAX / unit)
        return tw_error_set(error, TW_INVALID, "call_timeout is \"%.64s\", expected a time like 500ms or 5s, to 120s",
                            value);
    settings->call_timeout_ns = number * unit;
    return TW_OK;
}

static const struct {
    const char *key;
    setting_fn *read;
} keys[] = {
    {"account", read_account},
    {"account_mode", read_account_mode},
    {"call_timeout", read_call_timeout},
    {"symbols", read_symbols},
};

static tw_status read_one(struct settings *settings, const struct tw_adapter_setting *setting, struct tw_error *error)
{
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(keys[i].key, setting->key) == 0)
            return keys[i].read(settings, setting->value, error);
    size_t prefix = sizeof vendor_prefix - 1;
    if (strncmp(setting->key, vendor_prefix, prefix) != 0 || setting->key[prefix] == '\0')
        return tw_error_set(error, TW_INVALID,
                            "an account at a bridge has no setting \"%.64s\"; it knows account, account_mode, "
                            "call_timeout, symbols, and what is the bridge's own as vendor.KEY",
                            setting->key);
    if (settings->n_vendor == VENDOR_SETTINGS_MAX)
        return tw_error_set(error, TW_INVALID, "more than %d settings of the bridge's own", VENDOR_SETTINGS_MAX);
    settings->vendor[settings->n_vendor++] = (struct tw_adapter_setting){setting->key + prefix, setting->value};
    return TW_OK;
}

/* NAME of "remote:NAME". */
static const char *bridge_of(const char *adapter)
{
    const char *colon = adapter != NULL ? strchr(adapter, ':') : NULL;
    return colon != NULL ? colon + 1 : "";
}

tw_status remote_settings_read(const struct tw_session_options *options, struct settings *ret,
                        char ret_key[SETTING_KEY_BYTES], struct tw_error *error)
{
    *ret = (struct settings){.bridge = bridge_of(options->adapter), .account = "", .symbols = "", .call_timeout_ns = CALL_TIMEOUT_NS_DEFAULT};
    for (size_t i = 0; i < options->n_settings; i++) {
        tw_status status = read_one(ret, &options->settings[i], error);
        if (status != TW_OK) {
            snprintf(ret_key, SETTING_KEY_BYTES, "%.64s", options->settings[i].key);
            return status;
        }
    }
    if (ret->bridge[0] != '\0')
        return TW_OK;
    return tw_error_set(error, TW_INVALID, "the adapter is remote, expected remote:NAME with the name of a bridge of this server");
}
