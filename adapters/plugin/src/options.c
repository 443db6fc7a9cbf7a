#include "options.h"

#include "../tradewake_plugin.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/limits.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef tw_status option_fn(const struct library *library, const char *value, struct options *options,
                            struct tw_error *error);

/* "250ms", "2s". */
static tw_status duration(const char *key, const char *value, int64_t *ret, struct tw_error *error)
{
    enum { DIGITS_MAX = 7, SECONDS_MAX = 600 };
    size_t digits = strspn(value, "0123456789");
    int64_t number = 0;
    for (size_t i = 0; i < digits && digits <= DIGITS_MAX; i++)
        number = number * 10 + (value[i] - '0');
    int64_t unit = strcmp(value + digits, "ms") == 0 ? TW_NS_PER_MS : strcmp(value + digits, "s") == 0 ? TW_NS_PER_S : 0;
    if (number == 0 || unit == 0 || number > SECONDS_MAX * TW_NS_PER_S / unit)
        return tw_error_set(error, TW_INVALID, "%s is \"%.64s\", expected a time like 500ms or 2s, above 0, at most %ds", key,
                            value, SECONDS_MAX);
    *ret = number * unit;
    return TW_OK;
}

static tw_status read_account_mode(const struct library *library, const char *value, struct options *options,
                                   struct tw_error *error)
{
    bool is_netting = strcmp(value, "netting") == 0;
    if (!is_netting && strcmp(value, "hedging") != 0)
        return tw_error_set(error, TW_INVALID, "account_mode is \"%.64s\", expected hedging or netting", value);
    if ((library->caps.can & (is_netting ? TWP_CAN_NETTING : TWP_CAN_HEDGING)) == 0)
        return tw_error_set(error, TW_INVALID, "account_mode is %s, which plugin %s has not", value, library->name);
    options->is_netting = is_netting;
    return TW_OK;
}

static tw_status read_call_timeout(const struct library *library, const char *value, struct options *options,
                                   struct tw_error *error)
{
    (void)library;
    return duration("call_timeout", value, &options->call_timeout_ns, error);
}

static tw_status read_settle(const struct library *library, const char *value, struct options *options,
                             struct tw_error *error)
{
    (void)library;
    return duration("settle", value, &options->settle_ns, error);
}

static tw_status read_sessions(const struct library *library, const char *value, struct options *options,
                               struct tw_error *error)
{
    uint32_t number = 0;
    if (strlen(value) <= 2 && strspn(value, "0123456789") == strlen(value))
        for (const char *digit = value; *digit != '\0'; digit++)
            number = number * 10 + (uint32_t)(*digit - '0');
    if (number == 0 || number > library->caps.sessions_max)
        return tw_error_set(error, TW_INVALID, "sessions is \"%.64s\", expected 1 to %u, what plugin %s allows for one account",
                            value, library->caps.sessions_max, library->name);
    options->n_links = number;
    return TW_OK;
}

static const struct {
    const char *key;
    option_fn *read;
} keys[] = {
    {"account_mode", read_account_mode},
    {"call_timeout", read_call_timeout},
    {"sessions", read_sessions},
    {"settle", read_settle},
};

/* NULL = it is the library's. */
static option_fn *reader_of(const char *key)
{
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(keys[i].key, key) == 0)
            return keys[i].read;
    return NULL;
}

static tw_status setting_keep(struct options *options, const struct tw_adapter_setting *setting, struct tw_error *error)
{
    struct twp_setting *kept = &options->settings[options->n_settings++];
    kept->key = strdup(setting->key);
    kept->value = strdup(setting->value);
    return kept->key != NULL && kept->value != NULL ? TW_OK : tw_error_set(error, TW_NO_MEMORY, "no memory");
}

/* What the library says of its own. */
static tw_status library_asked(struct library *library, const struct options *options, char *ret_key,
                               struct tw_error *error)
{
    if (options->n_settings == 0)
        return TW_OK;
    if (library->api.check == NULL) {
        snprintf(ret_key, 65, "%.64s", options->settings[0].key);
        return tw_error_set(error, TW_INVALID,
                            "plugin %s has no settings of its own; ours are account_mode, call_timeout, sessions, settle",
                            library->name);
    }
    struct twp_words words = {.size = sizeof words};
    struct border border;
    border_enter(&border);
    int32_t outcome = library->api.check(options->settings, options->n_settings, &words);
    border_leave(library, &border);
    if (outcome == TWP_DONE)
        return TW_OK;
    words.key[sizeof words.key - 1] = words.text[sizeof words.text - 1] = '\0';
    snprintf(ret_key, 65, "%s", words.key);
    return tw_error_set(error, TW_INVALID, "plugin %s: %s", library->name,
                        words.text[0] != '\0' ? words.text : "it refuses these settings, without a word");
}

tw_status options_read(struct library *library, const struct tw_session_options *from, struct options *ret, char *ret_key,
                       struct tw_error *error)
{
    *ret = (struct options){
        .is_netting = (library->caps.can & TWP_CAN_HEDGING) == 0,
        .n_links = 1,
        .call_timeout_ns = library->caps.call_timeout_ms * TW_NS_PER_MS,
        .settle_ns = library->caps.settle_ms * TW_NS_PER_MS,
        .settings = calloc(from->n_settings + 1, sizeof *ret->settings),
        .credentials_ref = strdup(from->credentials_ref != NULL ? from->credentials_ref : ""),
    };
    snprintf(ret->follower_id, sizeof ret->follower_id, "%s", from->follower_id);
    if (ret->settings == NULL || ret->credentials_ref == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for a session of plugin %s", library->name);
    for (size_t i = 0; i < from->n_settings; i++) {
        option_fn *read = reader_of(from->settings[i].key);
        tw_status status = read != NULL ? read(library, from->settings[i].value, ret, error)
                                        : setting_keep(ret, &from->settings[i], error);
        if (status != TW_OK) {
            snprintf(ret_key, 65, "%.64s", from->settings[i].key);
            return status;
        }
    }
    return library_asked(library, ret, ret_key, error);
}

void options_clear(struct options *options)
{
    for (uint32_t i = 0; options->settings != NULL && i < options->n_settings; i++) {
        free((void *)(uintptr_t)options->settings[i].key);
        free((void *)(uintptr_t)options->settings[i].value);
    }
    free(options->settings);
    free(options->credentials_ref);
    *options = (struct options){0};
}
