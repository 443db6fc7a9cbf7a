/* serve, dev, check, config: what works on settings instead of a server. */
#include "command.h"

#include <stdio.h>
#include <string.h>

static void print_problems(const struct tw_config_report *report)
{
    uint32_t kept = report->n < TW_CONFIG_PROBLEMS_MAX ? report->n : TW_CONFIG_PROBLEMS_MAX;
    for (uint32_t i = 0; i < kept; i++)
        fprintf(stderr, "tradewake: %s%s\n", report->problems[i].is_warning ? "warning: " : "",
                report->problems[i].text);
    if (report->n > kept)
        fprintf(stderr, "tradewake: and %u more\n", report->n - kept);
}

static tw_status load(struct session *session, bool is_dev, struct tw_settings *ret)
{
    static struct tw_config_report report; /* 16 KiB: too much for a stack that may be small */
    const struct tw_settings_sources sources = {
        .is_dev = is_dev,
        .config_path = args_text(&session->args, "--config"),
        .environment = session->environment,
        .flags = session->args.settings,
        .n_flags = session->args.n_settings,
    };
    tw_status status = tw_settings_load(&sources, ret, &report);
    print_problems(&report);
    return status;
}

static int serve(struct session *session, bool is_dev)
{
    static struct tw_settings settings;
    if (load(session, is_dev, &settings) != TW_OK)
        return TW_EXIT_USAGE;
    return session->host->serve(&settings, is_dev);
}

int run_serve(struct session *session)
{
    return serve(session, false);
}

int run_dev(struct session *session)
{
    return serve(session, true);
}

int run_check(struct session *session)
{
    static struct tw_settings settings;
    if (load(session, false, &settings) != TW_OK)
        return TW_EXIT_USAGE;
    size_t n, given = 0;
    tw_settings_table(&n);
    for (size_t i = 0; i < n; i++)
        given += settings.origins[i].kind != TW_ORIGIN_DEFAULT;
    printf("%s: good, %zu of %zu settings given\n",
           settings.config_path[0] != '\0' ? settings.config_path : "no file", given, n);
    return TW_EXIT_DONE;
}

static void show_setting(struct session *session, const struct tw_settings *settings,
                         const struct tw_setting *setting, struct table *table)
{
    char value[TW_VALUE_TEXT_BYTES], origin[TW_VALUE_TEXT_BYTES + 64];
    tw_setting_text(settings, setting, value);
    tw_setting_origin_text(settings, setting, origin, sizeof origin);
    if (!session->is_json) {
        table_add_texts(
            table, (const char *const[]){setting->name, value[0] != '\0' ? value : "-", origin});
        return;
    }
    tw_json_object(&session->json);
    tw_json_key(&session->json, "name");
    tw_json_text(&session->json, setting->name);
    tw_json_key(&session->json, "value");
    tw_json_text(&session->json, value);
    tw_json_key(&session->json, "origin");
    tw_json_text(&session->json, origin);
    tw_json_end(&session->json, false);
}

/* They are of the file, always. */
static void show_plugin(struct session *session, const struct tw_settings *settings, const struct tw_plugin_setting *plugin,
                        struct table *table)
{
    char name[64], value[TW_VALUE_TEXT_BYTES + 16], origin[TW_VALUE_TEXT_BYTES + 64];
    snprintf(name, sizeof name, "plugins.%s", plugin->name);
    snprintf(value, sizeof value, "%s%s", plugin->library, plugin->in_process ? ", in process" : "");
    snprintf(origin, sizeof origin, "file %s:%u:%u", settings->config_path, plugin->line, plugin->column);
    if (!session->is_json) {
        table_add_texts(table, (const char *const[]){name, value, origin});
        return;
    }
    tw_json_object(&session->json);
    tw_json_key(&session->json, "name");
    tw_json_text(&session->json, name);
    tw_json_key(&session->json, "value");
    tw_json_text(&session->json, value);
    tw_json_key(&session->json, "origin");
    tw_json_text(&session->json, origin);
    tw_json_end(&session->json, false);
}

int run_config_show(struct session *session)
{
    static const struct column columns[] = {
        {"SETTING", NULL, TW_FIELD_PLAIN},
        {"VALUE", NULL, TW_FIELD_PLAIN},
        {"FROM", NULL, TW_FIELD_PLAIN},
        {0},
    };
    static struct tw_settings settings;
    if (load(session, args_has(&session->args, "--dev"), &settings) != TW_OK)
        return TW_EXIT_USAGE;

    size_t n;
    const struct tw_setting *rows = tw_settings_table(&n);
    struct table *table = table_new(columns);
    bool shows_all = args_has(&session->args, "--effective");
    if (session->is_json) {
        tw_json_object(&session->json);
        tw_json_key(&session->json, "settings");
        tw_json_array(&session->json);
    }
    for (size_t i = 0; i < n; i++)
        if (shows_all || settings.origins[i].kind != TW_ORIGIN_DEFAULT)
            show_setting(session, &settings, &rows[i], table);
    for (uint32_t i = 0; i < settings.n_plugins; i++)
        show_plugin(session, &settings, &settings.plugins[i], table);
    if (session->is_json) {
        tw_json_end(&session->json, true);
        tw_json_end(&session->json, false);
    } else {
        table_print(table, stdout);
    }
    table_free(table);
    return TW_EXIT_DONE;
}

/* A configuration file that gives every setting its default, with what it means above it. */
int run_config_reference(struct session *session)
{
    size_t n;
    const struct tw_setting *rows = tw_settings_table(&n);
    char section[TW_SETTING_NAME_BYTES] = "", expected[256], variable[TW_SETTING_NAME_BYTES],
         flag[TW_SETTING_NAME_BYTES];
    printf("# tradewake %s: every setting, with its default. A flag wins over the variable, that "
           "over this file.\n",
           session->host->version);
    for (size_t i = 0; i < n; i++) {
        const char *dot = strchr(rows[i].name, '.');
        size_t size = dot != NULL ? (size_t)(dot - rows[i].name) : 0;
        bool is_new_section =
            size > 0 && (strlen(section) != size || memcmp(section, rows[i].name, size) != 0);
        if (is_new_section || size == 0)
            putchar('\n');
        if (is_new_section) {
            snprintf(section, sizeof section, "%.*s", (int)size, rows[i].name);
            printf("%s:\n", section);
        }
        const char *indent = dot != NULL ? "  " : "", *value = rows[i].default_text;
        printf("%s# %s\n%s# %s; %s, %s%s\n%s%s: %s\n", indent, rows[i].help, indent,
               tw_value_expected(&rows[i].rule, expected, sizeof expected),
               tw_setting_flag(&rows[i], flag), tw_setting_variable(&rows[i], variable),
               rows[i].reloadable ? "; takes effect without a restart" : "", indent,
               dot != NULL ? dot + 1 : rows[i].name, value[0] != '\0' ? value : "\"\"");
    }
    printf("\n# Libraries of brokers that followers may be created with, as adapter plugin:NAME; in this file only.\n"
           "# plugins:\n#   NAME:\n#     library: /opt/broker.so\n"
           "#     # In the server itself: a crash of the library is one of the server.\n#     in_process: true\n");
    return TW_EXIT_DONE;
}
