#include "settings.h"

#include <tradewake/base/clock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALL_TIMEOUT_NS_DEFAULT (5 * TW_NS_PER_S)
#define CALL_TIMEOUT_NS_MAX     (120 * TW_NS_PER_S)

typedef tw_status setting_fn(struct fix_settings *settings, const char *value, struct tw_error *error);

static tw_status account_take(struct fix_settings *settings, const char *value, struct tw_error *error)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-";
    if (value[0] == '\0' || strlen(value) >= sizeof settings->account || value[strspn(value, letters)] != '\0' || value[0] == '.')
        return tw_error_set(error, TW_INVALID, "account (1) is \"%.64s\", expected 1 to %zu of A-Z a-z 0-9 . _ : -", value,
                            sizeof settings->account - 1);
    snprintf(settings->account, sizeof settings->account, "%s", value);
    return TW_OK;
}

static tw_status account_mode_take(struct fix_settings *settings, const char *value, struct tw_error *error)
{
    const struct fix_profile *profile = &settings->venue->profile;
    const char *is = profile->is_netting ? "netting" : "hedging";
    if (strcmp(value, is) != 0)
        return tw_error_set(error, TW_INVALID, "account_mode is \"%.40s\", expected %s: so are the accounts of %s", value, is,
                            profile->name);
    return TW_OK;
}

static tw_status call_timeout_take(struct fix_settings *settings, const char *value, struct tw_error *error)
{
    char *end;
    long long number = strtoll(value, &end, 10);
    int64_t unit = strcmp(end, "ms") == 0 ? TW_NS_PER_MS : strcmp(end, "s") == 0 ? TW_NS_PER_S : 0;
    bool is_number = value[0] >= '0' && value[0] <= '9' && end != value && unit > 0;
    if (!is_number || number <= 0 || number > CALL_TIMEOUT_NS_MAX / unit)
        return tw_error_set(error, TW_INVALID, "call_timeout is \"%.64s\", expected a time like 500ms or 5s, to 120s", value);
    settings->call_timeout_ns = number * unit;
    return TW_OK;
}

static tw_status currency_take(struct fix_settings *settings, const char *value, struct tw_error *error)
{
    if (value[0] == '\0' || strlen(value) >= sizeof settings->currency)
        return tw_error_set(error, TW_INVALID, "currency is \"%.40s\", expected 1 to %zu characters like USD", value,
                            sizeof settings->currency - 1);
    snprintf(settings->currency, sizeof settings->currency, "%s", value);
    return TW_OK;
}

static const struct {
    const char *key;
    setting_fn *take;
} keys[] = {
    {"account", account_take},
    {"account_mode", account_mode_take},
    {"call_timeout", call_timeout_take},
    {"currency", currency_take},
};

static tw_status setting_take(struct fix_settings *settings, const struct tw_adapter_setting *setting, struct tw_error *error)
{
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(keys[i].key, setting->key) == 0)
            return keys[i].take(settings, setting->value, error);
    return tw_error_set(error, TW_INVALID,
                        "an account at a FIX session has no setting \"%.64s\"; it knows account, account_mode, call_timeout, "
                        "currency; what the session itself is stands in the file of fix.sessions",
                        setting->key);
}

/* NAME of "fix:NAME". */
static const char *venue_name(const char *adapter)
{
    const char *colon = adapter != NULL ? strchr(adapter, ':') : NULL;
    return colon != NULL ? colon + 1 : "";
}

tw_status fix_settings_read(const struct fix_venues *venues, const struct tw_session_options *options,
                            struct fix_settings *ret, char ret_key[FIX_SETTING_KEY_BYTES], struct tw_error *error)
{
    const char *name = venue_name(options->adapter);
    *ret = (struct fix_settings){.venue = fix_venues_find(venues, name), .call_timeout_ns = CALL_TIMEOUT_NS_DEFAULT};
    ret_key[0] = '\0';
    if (ret->venue == NULL && name[0] == '\0')
        return tw_error_set(error, TW_INVALID, "the adapter is fix, expected fix:NAME with a section of the file of fix.sessions");
    if (ret->venue == NULL)
        return tw_error_set(error, TW_INVALID, "\"%.64s\" is no FIX session of this server (fix.sessions in its configuration)", name);
    snprintf(ret->currency, sizeof ret->currency, "%s", ret->venue->currency);
    for (size_t i = 0; i < options->n_settings; i++) {
        tw_status status = setting_take(ret, &options->settings[i], error);
        if (status != TW_OK) {
            snprintf(ret_key, FIX_SETTING_KEY_BYTES, "%.64s", options->settings[i].key);
            return status;
        }
    }
    if (ret->account[0] == '\0' && account_take(ret, options->follower_id, error) != TW_OK) {
        snprintf(ret_key, FIX_SETTING_KEY_BYTES, "account");
        return TW_INVALID;
    }
    if (ret->currency[0] != '\0')
        return TW_OK;
    snprintf(ret_key, FIX_SETTING_KEY_BYTES, "currency");
    return tw_error_set(error, TW_INVALID, "currency is missing: FIX 4.4 does not tell it, and neither does the session's section");
}

void fix_settings_capabilities(const struct fix_settings *settings, struct tw_capabilities *ret)
{
    const struct fix_profile *profile = &settings->venue->profile;
    *ret = (struct tw_capabilities){
        .blocking = false,
        .netting = profile->is_netting,
        .query_by_id = profile->asks_order,
        .not_found_is_final = profile->asks_order && profile->refuses_duplicates, /* else what comes late comes twice */
        .reduce_only = profile->is_netting && profile->asks_positions, /* the position is looked at first */
        .max_parallel = TW_PARALLEL_MAX,
        .call_timeout_ms = (uint32_t)(settings->call_timeout_ns / TW_NS_PER_MS),
        .settle_ms = profile->settle_ms,
    };
}
