/* serve, dev, check, config: what works on settings instead of a server. */
#include "command.h"
#include "dashboard.h"

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

static struct tw_settings_sources sources_of(struct session *session, bool is_dev)
{
    return (struct tw_settings_sources){
        .is_dev = is_dev,
        .config_path = args_text(&session->args, "--config"),
        .environment = session->environment,
        .flags = session->args.settings,
        .n_flags = session->args.n_settings,
    };
}

static tw_status load(struct session *session, bool is_dev, struct tw_settings *ret)
{
    static struct tw_config_report report; /* 16 KiB: too much for a stack that may be small */
    const struct tw_settings_sources sources = sources_of(session, is_dev);
    tw_status status = tw_settings_load(&sources, ret, &report);
    print_problems(&report);
    return status;
}

/* What is read again on SIGHUP must be found from wherever the process stands then: it stands where it stood. */
int run_serve(struct session *session)
{
    static struct tw_settings settings;
    const struct tw_settings_sources sources = sources_of(session, false);
    if (load(session, false, &settings) != TW_OK)
        return TW_EXIT_USAGE;
    return session->host->serve(&(struct tw_cli_serving){.settings = &settings, .sources = &sources});
}

/* The bridge shows no certificate and has no token. */
static bool is_for_the_page(const struct tw_settings *settings)
{
    return settings->tls_certificate[0] == '\0' && settings->access_policy[0] == '\0';
}

int run_dev(struct session *session)
{
    static struct tw_settings settings;
    static struct dashboard dashboard;
    struct tw_error error = {{0}};
    const struct tw_settings_sources sources = sources_of(session, true);
    struct tw_cli_serving serving = {.settings = &settings, .sources = &sources, .is_dev = true};
    if (!args_has(&session->args, "--dashboard") && args_has(&session->args, "--dashboard-listen"))
        return usage_error(session->command, "--dashboard-listen goes with --dashboard");
    if (load(session, true, &settings) != TW_OK)
        return TW_EXIT_USAGE;
    if (!args_has(&session->args, "--dashboard"))
        return session->host->serve(&serving);

    if (!is_for_the_page(&settings))
        return usage_error(session->command, "--dashboard calls in plain text and without a token: not with tls.certificate or access.policy");
    dashboard.listen = args_text(&session->args, "--dashboard-listen");
    if (dashboard_find(&dashboard, &error) != TW_OK)
        return session_error(session, "--dashboard: %s", error.text);
    serving.context = &dashboard;
    serving.on_listening = dashboard_start;
    serving.on_second = dashboard_look;
    serving.on_end = dashboard_end;
    return session->host->serve(&serving);
}

static void json_check(struct tw_json *json, const struct tw_settings *settings, const struct tw_config_report *report, size_t given)
{
    uint32_t kept = report->n < TW_CONFIG_PROBLEMS_MAX ? report->n : TW_CONFIG_PROBLEMS_MAX;
    tw_json_object(json);
    tw_json_key(json, "file");
    tw_json_text(json, settings->config_path);
    tw_json_key(json, "verdict");
    tw_json_text(json, report->n_errors == 0 ? "good" : "bad");
    tw_json_key(json, "given");
    tw_json_number(json, (int64_t)given);
    tw_json_key(json, "problems");
    tw_json_array(json);
    for (uint32_t i = 0; i < kept; i++) {
        tw_json_object(json);
        tw_json_key(json, "level");
        tw_json_text(json, report->problems[i].is_warning ? "warning" : "error");
        tw_json_key(json, "what");
        tw_json_text(json, report->problems[i].text);
        tw_json_end(json, false);
    }
    tw_json_end(json, true);
    tw_json_end(json, false);
}

int run_check(struct session *session)
{
    static struct tw_settings settings;
    static struct tw_config_report report; /* 16 KiB: too much for a stack that may be small */
    const struct tw_settings_sources sources = sources_of(session, false);
    tw_status status = tw_settings_load(&sources, &settings, &report);
    size_t n, given = 0;
    tw_settings_table(&n);
    for (size_t i = 0; i < n; i++)
        given += settings.origins[i].kind != TW_ORIGIN_DEFAULT;
    if (session->is_json)
        json_check(&session->json, &settings, &report, given);
    else
        print_problems(&report);
    if (status == TW_OK && !session->is_json)
        printf("%s: good, %zu of %zu settings given\n",
               settings.config_path[0] != '\0' ? settings.config_path : "no file", given, n);
    return status == TW_OK ? TW_EXIT_DONE : TW_EXIT_USAGE;
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
           "#     # true: in the server itself, not in a process of its own; a crash of the library is then one of the server.\n"
           "#     in_process: false\n");
    return TW_EXIT_DONE;
}
