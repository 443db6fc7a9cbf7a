/* bridges.c - where the bridges to brokers are: one text, or a mapping in the file. */
#include "settings.h"

#include <stdio.h>
#include <string.h>

static bool is_name(const char *name, size_t length)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    return length > 0 && length < TW_BRIDGE_SETTING_NAME_BYTES && strspn(name, letters) >= length;
}

struct tw_bridge_setting *settings_bridge_add(struct tw_settings *settings, const char *name, size_t length,
                                     struct tw_error *error)
{
    if (!is_name(name, length)) {
        (void)tw_error_set(error, TW_INVALID, "found \"%.*s\" as a bridge's name, expected 1 to %u of A-Z a-z 0-9 . _ -",
                           (int)(length > 80 ? 80 : length), name, TW_BRIDGE_SETTING_NAME_BYTES - 1);
        return NULL;
    }
    for (uint32_t i = 0; i < settings->n_bridges; i++) {
        if (strlen(settings->bridges[i].name) == length && memcmp(settings->bridges[i].name, name, length) == 0) {
            (void)tw_error_set(error, TW_INVALID, "bridge %.*s is given twice; keep one", (int)length, name);
            return NULL;
        }
    }
    if (settings->n_bridges == TW_BRIDGE_SETTINGS_MAX) {
        (void)tw_error_set(error, TW_INVALID, "found more than %u bridges", TW_BRIDGE_SETTINGS_MAX);
        return NULL;
    }
    struct tw_bridge_setting *bridge = &settings->bridges[settings->n_bridges++];
    *bridge = (struct tw_bridge_setting){0};
    memcpy(bridge->name, name, length);
    return bridge;
}

tw_status settings_bridge_field_set(struct tw_bridge_setting *bridge, const char *field, const char *text, struct tw_error *error)
{
    static const struct tw_value_rule address = {.type = TW_VALUE_ADDRESS}, path = {.type = TW_VALUE_PATH},
                                      words = {.type = TW_VALUE_TEXT};
    const struct {
        const char *name;
        const struct tw_value_rule *rule;
        char *value;
    } fields[] = {
        {"address", &address, bridge->address},       {"ca", &path, bridge->ca},   {"certificate", &path, bridge->certificate},
        {"key", &path, bridge->key}, {"server_name", &words, bridge->server_name},
    };
    int64_t number;
    size_t i = 0, n = sizeof fields / sizeof fields[0];
    while (i < n && strcmp(fields[i].name, field) != 0)
        i++;
    if (i == n)
        return tw_error_set(error, TW_INVALID,
                            "unknown setting \"%.80s\" of a bridge; it knows address, ca, certificate, key, server_name",
                            field);
    tw_status status = tw_value_parse(fields[i].rule, text, &number, error);
    if (status == TW_OK && strlen(text) >= TW_BRIDGE_SETTING_TEXT_BYTES)
        status = tw_error_set(error, TW_INVALID, "found more than %u characters", TW_BRIDGE_SETTING_TEXT_BYTES - 1);
    if (status == TW_OK)
        snprintf(fields[i].value, TW_BRIDGE_SETTING_TEXT_BYTES, "%s", text);
    return status;
}

tw_status settings_bridge_check(const struct tw_bridge_setting *bridge, struct tw_error *error)
{
    if (bridge->address[0] == '\0')
        return tw_error_set(error, TW_INVALID, "address is missing; expected HOST:PORT or unix:PATH");
    if ((bridge->certificate[0] == '\0') != (bridge->key[0] == '\0'))
        return tw_error_set(error, TW_INVALID, "certificate and key go together");
    if (bridge->ca[0] == '\0' && (bridge->key[0] != '\0' || bridge->server_name[0] != '\0'))
        return tw_error_set(error, TW_INVALID, "ca is missing: without it the bridge is spoken to in plain text");
    if (bridge->ca[0] == '\0' && !tw_settings_is_local(bridge->address))
        return tw_error_set(error, TW_INVALID,
                            "found %.200s without ca, expected TLS where others can read: orders and accounts are in it",
                            bridge->address);
    return TW_OK;
}

/* "NAME=ADDRESS, NAME=ADDRESS". */
tw_status settings_bridges_parse(struct tw_settings *settings, struct tw_error *error)
{
    settings->n_bridges = 0;
    for (const char *at = settings->bridges_text; *at != '\0';) {
        at += strspn(at, " ");
        size_t length = strcspn(at, ","), name = strcspn(at, "=");
        char address[TW_VALUE_TEXT_BYTES];
        if (name >= length)
            return tw_error_set(error, TW_INVALID, "found \"%.*s\", expected NAME=ADDRESS", (int)length, at);
        snprintf(address, sizeof address, "%.*s", (int)(length - name - 1), at + name + 1);
        address[strcspn(address, " ")] = '\0';
        struct tw_bridge_setting *bridge = settings_bridge_add(settings, at, name, error);
        if (bridge == NULL)
            return TW_INVALID;
        tw_status status = settings_bridge_field_set(bridge, "address", address, error);
        if (status == TW_OK)
            status = settings_bridge_check(bridge, error);
        if (status != TW_OK)
            return status;
        at += length + (at[length] == ',');
    }
    return TW_OK;
}

void settings_bridges_show(struct tw_settings *settings)
{
    size_t used = 0;
    settings->bridges_text[0] = '\0';
    for (uint32_t i = 0; i < settings->n_bridges && used < sizeof settings->bridges_text; i++)
        used += (size_t)snprintf(settings->bridges_text + used, sizeof settings->bridges_text - used, "%s%s=%s",
                                 used > 0 ? ", " : "", settings->bridges[i].name, settings->bridges[i].address);
}
