#include <tradewake/config/settings.h>

#include "settings.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/limits.h>

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(member)    offsetof(struct tw_settings, member)
#define CONFIG_BYTES_MAX (256u * 1024u) /* a configuration of a person, not a data set */

/* clang-format off */
static const struct tw_setting table[] = {
    {"listen", {.type = TW_VALUE_ADDRESS}, "127.0.0.1:50051", NULL, FIELD(listen), false,
     "Where clients reach the service over gRPC."},
    {"admin", {.type = TW_VALUE_ADDRESS, .choices = "off"}, "127.0.0.1:9464", NULL, FIELD(admin), false,
     "Where /livez, /readyz and /metrics are served over HTTP; off: nowhere."},
    {"state_dir", {.type = TW_VALUE_PATH}, "/var/lib/tradewake", "", FIELD(state_dir), false,
     "The directory of everything that outlives a restart; one server per directory. Empty: nothing is kept."},
    {"tls.certificate", {.type = TW_VALUE_PATH}, "", NULL, FIELD(tls_certificate), false,
     "PEM file with the server's certificate and its chain; read again on SIGHUP, and when it changes."},
    {"tls.key", {.type = TW_VALUE_PATH}, "", NULL, FIELD(tls_key), false,
     "PEM file with the certificate's private key; read again with it."},
    {"tls.client_ca", {.type = TW_VALUE_PATH}, "", NULL, FIELD(tls_client_ca), false,
     "PEM file with who signs clients' certificates, read again likewise; empty: none is asked for."},
    {"tls.client_certificate", {.type = TW_VALUE_ENUM, .choices = "required|optional"}, "required", NULL,
     FIELD(tls_client_certificate), false, "Whether a client without a certificate is let in, with tls.client_ca."},
    {"tls.insecure", {.type = TW_VALUE_BOOL}, "false", "true", FIELD(tls_insecure), false,
     "Plain text also where others can read it: not only on loopback or a unix socket."},
    {"access.policy", {.type = TW_VALUE_PATH}, "", NULL, FIELD(access_policy), false,
     "YAML file with who may do what; read again on SIGHUP, and when it changes. Empty: whoever reaches the port may do everything."},
    {"access.token_keys", {.type = TW_VALUE_PATH}, "", NULL, FIELD(access_token_keys), false,
     "JWK set with the public Ed25519 keys of those who sign tokens; read again likewise. Empty: no token is good."},
    {"access.audience", {.type = TW_VALUE_TEXT}, "tradewake", NULL, FIELD(access_audience), false,
     "A token must be for this audience (aud)."},
    {"journal", {.type = TW_VALUE_ENUM, .choices = "on|nosync|off"}, "on", NULL, FIELD(journal), false,
     "How the journal is kept. For measuring only: nosync loses events at a power cut, off at every stop."},
    {"log.level", {.type = TW_VALUE_ENUM, .choices = "debug|info|warn|error|none"}, "info", NULL,
     FIELD(log_level), true, "Log lines below this level are left out."},
    {"log.format", {.type = TW_VALUE_ENUM, .choices = "text|json"}, "text", NULL, FIELD(log_format), true,
     "Log lines for people, or one JSON object each."},
    {"executor.threads", {.type = TW_VALUE_INT, .max = 65536}, "0", NULL, FIELD(executor_threads), false,
     "Threads that are ready before the first broker call; 0: what the fleet needs."},
    {"executor.threads_max", {.type = TW_VALUE_INT, .min = 1, .max = 65536}, "4096", NULL,
     FIELD(executor_threads_max), false,
     "Never more threads than this; a fleet that needs more is refused where it grows."},
    {"executor.threads_lost_max", {.type = TW_VALUE_INT, .min = 1, .max = 4096}, "64", NULL,
     FIELD(executor_threads_lost_max), false,
     "So many threads in calls that never came back are replaced; with so many lost, an adapter's breaker opens."},
    {"executor.threads_reserved", {.type = TW_VALUE_INT, .max = 4096}, "16", NULL, FIELD(executor_threads_reserved), false,
     "So many threads, an eighth of all at most, only make calls that reduce risk; they are ready beside those that the fleet needs."},
    {"executor.groups", {.type = TW_VALUE_INT, .max = TW_GROUPS_MAX}, "0", NULL, FIELD(executor_groups), false,
     "Groups of threads, each woken by a leader of its own; 0: one per usable core."},
    {"executor.pinned", {.type = TW_VALUE_BOOL}, "true", NULL, FIELD(executor_pinned), false,
     "Keep each group of threads on its own core."},
    {"executor.realtime", {.type = TW_VALUE_ENUM, .choices = "auto|off"}, "auto", NULL,
     FIELD(executor_realtime), false,
     "Give the leaders real-time priority where the system allows it."},
    {"rpc.threads", {.type = TW_VALUE_INT, .max = 64}, "0", NULL, FIELD(rpc_threads), false,
     "Threads that read events from the network; 0: one per usable core, at most 4."},
    {"copies.remembered", {.type = TW_VALUE_INT, .min = 1000, .max = 100000000}, "200000", NULL,
     FIELD(copies_remembered), false, "So many finished copies stay in memory for questions about them."},
    {"copies.backlog_bytes", {.type = TW_VALUE_SIZE, .min = INT64_C(1) << 20, .max = INT64_C(1) << 40}, "1GiB", NULL,
     FIELD(copies_backlog_bytes), false,
     "So much memory may wait for a slow disk; beyond it opens are refused, and beyond a quarter more everything else."},
    {"memory.reserved_bytes", {.type = TW_VALUE_SIZE, .max = INT64_C(1) << 40}, "64MiB", NULL, FIELD(memory_reserved_bytes), false,
     "While the machine, the container or RLIMIT_AS has less memory left than this, opens are refused and the rest is for closes. 0: nobody looks."},
    {"events.remembered", {.type = TW_VALUE_INT, .min = 1000, .max = 100000000}, "1000000", NULL,
     FIELD(events_remembered), false,
     "So many events are known again when they are repeated after their copies are forgotten; 56 bytes each."},
    {"events.kept", {.type = TW_VALUE_DURATION, .min = TW_NS_PER_S, .max = 87600 * INT64_C(3600) * TW_NS_PER_S},
     "168h", NULL, FIELD(events_kept_ns), false,
     "For how long; an event observed before what is known is refused as EVENT_TOO_OLD."},
    {"snapshot.segments", {.type = TW_VALUE_INT, .max = 10000}, "4", NULL, FIELD(snapshot_segments), false,
     "A snapshot of the state after so many full segments of the journal: a start reads little more. 0: never."},
    {"retention.segment_bytes", {.type = TW_VALUE_SIZE, .min = INT64_C(1) << 18, .max = INT64_C(1) << 28}, "64MiB", NULL,
     FIELD(retention_segment_bytes), false, "The journal is kept in segments of this size, and removed by whole ones."},
    {"retention.log_bytes", {.type = TW_VALUE_SIZE, .min = 0, .max = INT64_C(1) << 60}, "1GiB", NULL,
     FIELD(retention_log_bytes), false,
     "So much of the journal stays on the disk when a start does not need it any more."},
    {"history.keep", {.type = TW_VALUE_DURATION, .min = TW_NS_PER_S, .max = 87600 * INT64_C(3600) * TW_NS_PER_S},
     "9600h", NULL, FIELD(history_keep_ns), false,
     "So long copies that are over can be asked for; then they are deleted from history.db."},
    {"audit.keep", {.type = TW_VALUE_DURATION, .min = TW_NS_PER_S, .max = 87600 * INT64_C(3600) * TW_NS_PER_S},
     "9600h", NULL, FIELD(audit_keep_ns), false,
     "So long `tradewake audit` can tell who changed what, and who was refused; the same file."},
    {"breaker.unknown_calls", {.type = TW_VALUE_INT, .max = 1000000}, "10", NULL, FIELD(breaker_unknown_calls), false,
     "So many order calls of a follower in a row of which nobody knows what became open its breaker: opens are skipped until the broker answers a question. 0: never."},
    {"gate.order_volume", {.type = TW_VALUE_INT, .max = 1000000}, "0", NULL, FIELD(gate_order_volume), false,
     "The last gate: an order of more lots than this stops the follower's opens until RearmGate. 0: anything goes."},
    {"gate.order_notional", {.type = TW_VALUE_INT, .max = 4000000000}, "0", NULL, FIELD(gate_order_notional), false,
     "Likewise for volume x contract size x price, in the quote's currency; also when no price is known. 0: anything goes."},
    {"gate.orders_per_second", {.type = TW_VALUE_INT, .max = 1000000}, "0", NULL, FIELD(gate_orders_per_second), false,
     "Likewise for more than so many opens of one follower at once, and as many in each second to come. 0: anything goes."},
    {"gate.orders_per_day", {.type = TW_VALUE_INT, .max = 1000000000}, "0", NULL, FIELD(gate_orders_per_day), false,
     "Likewise for opens of one follower in a day, UTC; counted over restarts. 0: anything goes."},
    {"bridges", {.type = TW_VALUE_TEXT}, "", NULL, FIELD(bridges_text), false,
     "Bridges to brokers, for followers with adapter remote: NAME=ADDRESS, NAME=ADDRESS; in the file also a mapping, bridges: {NAME: {address, ca, certificate, key, server_name}}."},
    {"fix.sessions", {.type = TW_VALUE_PATH}, "", NULL, FIELD(fix_sessions), false,
     "A file with the FIX 4.4 sessions for followers with adapter fix:NAME, a section [NAME] each; adapters/fix/README.md says what stands in it."},
    {"secrets.directory", {.type = TW_VALUE_PATH}, "", NULL, FIELD(secrets_directory), false,
     "Where secret:NAME of an adapter's settings is the file NAME; empty: $CREDENTIALS_DIRECTORY (systemd), else /run/secrets."},
    {"core_dumps", {.type = TW_VALUE_BOOL}, "false", NULL, FIELD(core_dumps), false,
     "Leave core files when the server crashes, and let debuggers of its own user in: both see tokens and keys."},
    {"paper.control", {.type = TW_VALUE_BOOL}, "false", "true", FIELD(paper_control), false,
     "Serve PaperService: tests and drills may change what the built-in broker does."},
    {"metrics.warm_up", {.type = TW_VALUE_DURATION, .max = 3600 * TW_NS_PER_S}, "10s", "0",
     FIELD(metrics_warm_up_ns), false, "Samples taken so soon after the start are flagged as warm-up."},
    {"metrics.streams_per_peer", {.type = TW_VALUE_INT, .min = 1, .max = 4096}, "64", NULL,
     FIELD(metrics_streams_per_peer), false, "Streams that one client address may hold open at once."},
    {"streams.hopeless_after", {.type = TW_VALUE_DURATION, .min = 100 * TW_NS_PER_MS, .max = 3600 * TW_NS_PER_S}, "30s", NULL,
     FIELD(streams_hopeless_after_ns), true,
     "A stream whose reader has taken nothing for so long is ended (SUBSCRIBER_TOO_SLOW)."},
    {"streams.watchers_max", {.type = TW_VALUE_INT, .min = 1, .max = 16384}, "1024", NULL,
     FIELD(streams_watchers_max), true, "Streams of all clients that may watch copies at once; 256 KiB each."},
    {"drain.lame_duck", {.type = TW_VALUE_DURATION, .max = 60 * TW_NS_PER_S}, "2s", NULL,
     FIELD(drain_lame_duck_ns), true,
     "After SIGTERM: still serving for so long while readiness says no, so that balancers look away."},
    {"drain.timeout", {.type = TW_VALUE_DURATION, .min = TW_NS_PER_MS, .max = 600 * TW_NS_PER_S}, "9s", NULL,
     FIELD(drain_timeout_ns), true, "After SIGTERM: gone after so long in all; containers are given 10s."},
    {"listener.connections_max", {.type = TW_VALUE_INT, .min = 1, .max = 1000000}, "4096", NULL,
     FIELD(listener_connections_max), false,
     "Connections of clients at once, fewer where RLIMIT_NOFILE is small; one more is closed as soon as it is taken."},
    {"listener.dead_after", {.type = TW_VALUE_DURATION, .max = 3600 * TW_NS_PER_S}, "30s", NULL,
     FIELD(listener_dead_after_ns), true,
     "The server asks its own port: silent for 5s, it is not ready; for so long, it ends with exit code 1, to be started anew. 0: never."},
    {"reflection", {.type = TW_VALUE_BOOL}, "true", NULL, FIELD(reflection), false,
     "Tell clients that ask which services and messages there are."},
};
/* clang-format on */

#define TABLE_ROWS (sizeof table / sizeof table[0])
static_assert(TABLE_ROWS <= TW_SETTINGS_MAX, "every row has its origin");
static_assert(sizeof(enum tw_log_level) == sizeof(int) &&
                  sizeof(enum tw_log_format) == sizeof(int) &&
                  sizeof(enum tw_realtime) == sizeof(int) &&
                  sizeof(enum tw_journal_mode) == sizeof(int) &&
                  sizeof(enum tw_client_certificate) == sizeof(int),
              "ENUM rows are stored as int");

/* Variables that are not settings: read by the client commands and `dev --dashboard`, or put there by Kubernetes for a
 * service that is called tradewake. */
static const char *const other_variables[] = {
    "TRADEWAKE_CONFIG",       "TRADEWAKE_SERVER",     "TRADEWAKE_SERVER_CA",  "TRADEWAKE_SERVER_NAME",
    "TRADEWAKE_CLIENT_CERTIFICATE", "TRADEWAKE_CLIENT_KEY", "TRADEWAKE_TOKEN_FILE", "TRADEWAKE_DASHBOARD",
};
static const char *const foreign_prefixes[] = {"TRADEWAKE_SERVICE_", "TRADEWAKE_PORT"};

const struct tw_setting *tw_settings_table(size_t *ret_n)
{
    *ret_n = TABLE_ROWS;
    return table;
}

static char *name_text(const struct tw_setting *setting, const char *prefix, bool is_upper,
                       char *text)
{
    size_t used = (size_t)snprintf(text, TW_SETTING_NAME_BYTES, "%s%s", prefix, setting->name);
    assert(used < TW_SETTING_NAME_BYTES);
    for (size_t i = strlen(prefix); i < used; i++) {
        if (text[i] == '.' || text[i] == '_')
            text[i] = is_upper ? '_' : '-';
        else if (is_upper && text[i] >= 'a' && text[i] <= 'z')
            text[i] = (char)(text[i] - 'a' + 'A');
    }
    return text;
}

char *tw_setting_flag(const struct tw_setting *setting, char text[TW_SETTING_NAME_BYTES])
{
    return name_text(setting, "--", false, text);
}

char *tw_setting_variable(const struct tw_setting *setting, char text[TW_SETTING_NAME_BYTES])
{
    return name_text(setting, "TRADEWAKE_", true, text);
}

const struct tw_setting *tw_setting_find(const char *name)
{
    for (size_t i = 0; i < TABLE_ROWS; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

void report_add(struct tw_config_report *report, bool is_warning, const char *format, ...)
{
    if (report->n < TW_CONFIG_PROBLEMS_MAX) {
        struct tw_config_problem *problem = &report->problems[report->n];
        problem->is_warning = is_warning;
        va_list values;
        va_start(values, format);
        vsnprintf(problem->text, sizeof problem->text, format, values);
        va_end(values);
    }
    report->n++;
    report->n_errors += !is_warning;
}

static void *field_of(struct tw_settings *settings, const struct tw_setting *setting)
{
    return (char *)settings + setting->offset;
}

static const void *field_read(const struct tw_settings *settings, const struct tw_setting *setting)
{
    return (const char *)settings + setting->offset;
}

static void field_store(void *field, enum tw_value_type type, const char *text, int64_t number)
{
    switch (type) {
    case TW_VALUE_TEXT:
    case TW_VALUE_ADDRESS:
    case TW_VALUE_PATH:
        memcpy(field, text, strlen(text) + 1); /* the rule bounds it */
        break;
    case TW_VALUE_BOOL:
        *(bool *)field = number != 0;
        break;
    case TW_VALUE_INT:
        *(uint32_t *)field = (uint32_t)number; /* every INT row is bounded below 2^32 */
        break;
    case TW_VALUE_DURATION:
    case TW_VALUE_SIZE:
        *(int64_t *)field = number;
        break;
    case TW_VALUE_ENUM:
        *(int *)field = (int)number;
        break;
    }
}

bool setting_set(struct tw_settings *settings, const struct tw_setting *setting, const char *text,
                 struct tw_origin origin, struct tw_error *error)
{
    int64_t number = 0;
    if (tw_value_parse(&setting->rule, text, &number, error) != TW_OK)
        return false;
    field_store(field_of(settings, setting), setting->rule.type, text, number);
    settings->origins[setting - table] = origin;
    return true;
}

const struct tw_origin *setting_origin(const struct tw_settings *settings,
                                       const struct tw_setting *setting)
{
    return &settings->origins[setting - table];
}

/* The word at index of "a|b|c". */
static void choice_text(const char *choices, int index, char *text, size_t size)
{
    for (; index > 0; index--)
        choices = strchr(choices, '|') + 1;
    snprintf(text, size, "%.*s", (int)strcspn(choices, "|"), choices);
}

char *tw_setting_text(const struct tw_settings *settings, const struct tw_setting *setting,
                      char text[TW_VALUE_TEXT_BYTES])
{
    const void *field = field_read(settings, setting);
    switch (setting->rule.type) {
    case TW_VALUE_TEXT:
    case TW_VALUE_ADDRESS:
    case TW_VALUE_PATH:
        snprintf(text, TW_VALUE_TEXT_BYTES, "%s", (const char *)field);
        break;
    case TW_VALUE_BOOL:
        snprintf(text, TW_VALUE_TEXT_BYTES, "%s", *(const bool *)field ? "true" : "false");
        break;
    case TW_VALUE_INT:
        snprintf(text, TW_VALUE_TEXT_BYTES, "%" PRIu32, *(const uint32_t *)field);
        break;
    case TW_VALUE_DURATION:
        tw_value_duration_text(*(const int64_t *)field, text, TW_VALUE_TEXT_BYTES);
        break;
    case TW_VALUE_SIZE:
        tw_value_size_text(*(const int64_t *)field, text, TW_VALUE_TEXT_BYTES);
        break;
    case TW_VALUE_ENUM:
        choice_text(setting->rule.choices, *(const int *)field, text, TW_VALUE_TEXT_BYTES);
        break;
    }
    return text;
}

char *tw_setting_origin_text(const struct tw_settings *settings, const struct tw_setting *setting,
                             char *text, size_t size)
{
    const struct tw_origin *origin = setting_origin(settings, setting);
    char name[TW_SETTING_NAME_BYTES];
    switch (origin->kind) {
    case TW_ORIGIN_DEFAULT:
        snprintf(text, size, "default");
        break;
    case TW_ORIGIN_DEV:
        snprintf(text, size, "default of dev");
        break;
    case TW_ORIGIN_FILE:
        snprintf(text, size, "file %s:%" PRIu32 ":%" PRIu32, settings->config_path, origin->line,
                 origin->column);
        break;
    case TW_ORIGIN_ENVIRONMENT:
        snprintf(text, size, "environment %s", tw_setting_variable(setting, name));
        break;
    case TW_ORIGIN_FLAG:
        snprintf(text, size, "flag %s", tw_setting_flag(setting, name));
        break;
    }
    return text;
}

void tw_settings_defaults(bool is_dev, struct tw_settings *ret)
{
    *ret = (struct tw_settings){0};
    for (size_t i = 0; i < TABLE_ROWS; i++) {
        bool is_dev_text = is_dev && table[i].dev_text != NULL;
        bool good = setting_set(
            ret, &table[i], is_dev_text ? table[i].dev_text : table[i].default_text,
            (struct tw_origin){.kind = is_dev_text ? TW_ORIGIN_DEV : TW_ORIGIN_DEFAULT}, NULL);
        assert(good);
        (void)good;
    }
}

static void apply_file(const char *path, struct tw_settings *settings,
                       struct tw_config_report *report)
{
    char *text = NULL;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        report_add(report, false,
                   "%s: cannot read the configuration: %s; give another --config, or none", path,
                   strerror(errno));
        return;
    }
    text = malloc(CONFIG_BYTES_MAX + 1);
    if (text == NULL) {
        report_add(report, false, "%s: no memory to read the configuration", path);
        goto done;
    }
    size_t size = fread(text, 1, CONFIG_BYTES_MAX + 1, file);
    if (ferror(file))
        report_add(report, false, "%s: cannot read the configuration: %s; is it a file?", path,
                   strerror(errno));
    else if (size > CONFIG_BYTES_MAX)
        report_add(report, false, "%s: larger than %u KiB, expected a configuration file", path,
                   CONFIG_BYTES_MAX / 1024);
    else
        tw_settings_apply_yaml(path, text, size, settings, report);

done:
    free(text);
    fclose(file);
}

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_other_variable(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof other_variables / sizeof other_variables[0]; i++)
        if (strlen(other_variables[i]) == size && memcmp(other_variables[i], name, size) == 0)
            return true;
    for (size_t i = 0; i < sizeof foreign_prefixes / sizeof foreign_prefixes[0]; i++)
        if (starts_with(name, foreign_prefixes[i]))
            return true;
    return false;
}

/* A variable with our prefix that names no setting is only warned of: others may set it. */
static void warn_of_variable(const char *entry, size_t size, struct tw_config_report *report)
{
    char name[TW_SETTING_NAME_BYTES], names[TABLE_ROWS][TW_SETTING_NAME_BYTES];
    const char *words[TABLE_ROWS];
    for (size_t i = 0; i < TABLE_ROWS; i++)
        words[i] = tw_setting_variable(&table[i], names[i]);
    snprintf(name, sizeof name, "%.*s", (int)size, entry);
    const char *near = tw_value_suggest(name, words, TABLE_ROWS);
    report_add(report, true, "environment: %s is not a setting%s%s%s", name,
               near != NULL ? "; did you mean " : "", near != NULL ? near : "",
               near != NULL ? "?" : "");
}

static void apply_variable(const char *entry, struct tw_settings *settings,
                           struct tw_config_report *report)
{
    const char *equals = strchr(entry, '=');
    if (!starts_with(entry, "TRADEWAKE_") || equals == NULL)
        return;
    size_t size = (size_t)(equals - entry);
    for (size_t i = 0; i < TABLE_ROWS; i++) {
        char name[TW_SETTING_NAME_BYTES];
        struct tw_error error;
        tw_setting_variable(&table[i], name);
        if (strlen(name) != size || memcmp(name, entry, size) != 0)
            continue;
        if (!setting_set(settings, &table[i], equals + 1,
                         (struct tw_origin){.kind = TW_ORIGIN_ENVIRONMENT}, &error))
            report_add(report, false, "environment %s: %s", name, error.text);
        return;
    }
    if (!is_other_variable(entry, size))
        warn_of_variable(entry, size, report);
}

static void apply_flag(const struct tw_setting_flag *flag, struct tw_settings *settings,
                       struct tw_config_report *report)
{
    const struct tw_setting *setting = tw_setting_find(flag->name);
    assert(setting != NULL);
    char name[TW_SETTING_NAME_BYTES];
    struct tw_error error;
    if (!setting_set(settings, setting, flag->text, (struct tw_origin){.kind = TW_ORIGIN_FLAG},
                     &error))
        report_add(report, false, "flag %s: %s", tw_setting_flag(setting, name), error.text);
}

/* ---- What must hold between settings; each message names both values and where the first came from ---- */

static const char *origin_of(const struct tw_settings *settings, const char *name,
                             char text[TW_VALUE_TEXT_BYTES + 64])
{
    return tw_setting_origin_text(settings, tw_setting_find(name), text, TW_VALUE_TEXT_BYTES + 64);
}

static void check_threads(const struct tw_settings *settings, struct tw_config_report *report)
{
    char origin[TW_VALUE_TEXT_BYTES + 64];
    if (settings->executor_threads > settings->executor_threads_max)
        report_add(report, false,
                   "executor.threads is %" PRIu32
                   " (%s), expected at most executor.threads_max, which is %" PRIu32
                   "; lower the first or raise the second",
                   settings->executor_threads, origin_of(settings, "executor.threads", origin),
                   settings->executor_threads_max);
}

static void check_drain(const struct tw_settings *settings, struct tw_config_report *report)
{
    char origin[TW_VALUE_TEXT_BYTES + 64], duck[32], timeout[32];
    if (settings->drain_lame_duck_ns >= settings->drain_timeout_ns)
        report_add(report, false, "drain.lame_duck is %s (%s), expected less than drain.timeout, which is %s",
                   tw_value_duration_text(settings->drain_lame_duck_ns, duck, sizeof duck),
                   origin_of(settings, "drain.lame_duck", origin),
                   tw_value_duration_text(settings->drain_timeout_ns, timeout, sizeof timeout));
}

/* Port 0 is any free one: never the same twice. */
static void check_addresses(const struct tw_settings *settings, struct tw_config_report *report)
{
    char origin[TW_VALUE_TEXT_BYTES + 64];
    const char *port = strrchr(settings->listen, ':');
    bool is_any_port = port != NULL && strcmp(port, ":0") == 0;
    if (!is_any_port && strcmp(settings->listen, settings->admin) == 0)
        report_add(report, false, "admin is %s (%s), expected another address than listen", settings->admin,
                   origin_of(settings, "admin", origin));
}

bool tw_settings_is_local(const char *listen)
{
    char host[TW_VALUE_TEXT_BYTES];
    struct in_addr address;
    const char *colon = strrchr(listen, ':');
    if (starts_with(listen, "unix:"))
        return true;
    snprintf(host, sizeof host, "%.*s", colon != NULL ? (int)(colon - listen) : 0, listen);
    if (inet_pton(AF_INET, host, &address) == 1)
        return ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET;
    return strcmp(host, "[::1]") == 0 || strcmp(host, "localhost") == 0;
}

static void check_tls(const struct tw_settings *settings, struct tw_config_report *report)
{
    char origin[TW_VALUE_TEXT_BYTES + 64];
    bool has_certificate = settings->tls_certificate[0] != '\0', has_key = settings->tls_key[0] != '\0';
    if (has_certificate != has_key)
        report_add(report, false, "tls.%s is set (%s), expected tls.%s beside it", has_key ? "key" : "certificate",
                   origin_of(settings, has_key ? "tls.key" : "tls.certificate", origin),
                   has_key ? "certificate" : "key");
    else if (!has_certificate && settings->tls_client_ca[0] != '\0')
        report_add(report, false, "tls.client_ca is set (%s), expected tls.certificate and tls.key beside it",
                   origin_of(settings, "tls.client_ca", origin));
    else if (!has_certificate && !settings->tls_insecure && !tw_settings_is_local(settings->listen))
        report_add(report, false,
                   "listen is %s (%s): others could read and send orders there; set tls.certificate and tls.key, "
                   "listen on 127.0.0.1, or say tls.insecure: true",
                   settings->listen, origin_of(settings, "listen", origin));
}

static void check_access(const struct tw_settings *settings, struct tw_config_report *report)
{
    char origin[TW_VALUE_TEXT_BYTES + 64];
    if (settings->access_token_keys[0] != '\0' && settings->access_policy[0] == '\0')
        report_add(report, false, "access.token_keys is set (%s), expected access.policy beside it",
                   origin_of(settings, "access.token_keys", origin));
}

static void check_bridges(struct tw_settings *settings, struct tw_config_report *report)
{
    struct tw_error error = {{0}};
    char origin[TW_VALUE_TEXT_BYTES + 64];
    bool is_mapped = settings->bridges_mapped && settings->origins[tw_setting_find("bridges") - table].kind == TW_ORIGIN_FILE;
    if (!is_mapped && settings_bridges_parse(settings, &error) != TW_OK)
        report_add(report, false, "bridges (%s): %s", origin_of(settings, "bridges", origin), error.text);
}

static void check_relations(const struct tw_settings *settings, struct tw_config_report *report)
{
    check_threads(settings, report);
    check_drain(settings, report);
    check_addresses(settings, report);
    check_tls(settings, report);
    check_access(settings, report);
}

tw_status tw_settings_load(const struct tw_settings_sources *sources, struct tw_settings *ret,
                           struct tw_config_report *report)
{
    *report = (struct tw_config_report){0};
    tw_settings_defaults(sources->is_dev, ret);
    if (sources->config_path != NULL) {
        snprintf(ret->config_path, sizeof ret->config_path, "%s", sources->config_path);
        apply_file(sources->config_path, ret, report);
    }
    for (char *const *entry = sources->environment; entry != NULL && *entry != NULL; entry++)
        apply_variable(*entry, ret, report);
    for (size_t i = 0; i < sources->n_flags; i++)
        apply_flag(&sources->flags[i], ret, report);
    if (report->n_errors == 0)
        check_relations(ret, report);
    if (report->n_errors == 0)
        check_bridges(ret, report);
    return report->n_errors == 0 ? TW_OK : TW_INVALID;
}

/* ---- Taken up while the server runs ---- */

static bool is_same_list(const struct tw_settings *a, const struct tw_settings *b, bool is_bridges)
{
    if (is_bridges ? a->n_bridges != b->n_bridges : a->n_plugins != b->n_plugins)
        return false;
    for (uint32_t i = 0; is_bridges && i < a->n_bridges; i++) {
        const struct tw_bridge_setting *one = &a->bridges[i], *other = &b->bridges[i];
        if (strcmp(one->name, other->name) != 0 || strcmp(one->address, other->address) != 0 || strcmp(one->ca, other->ca) != 0 ||
            strcmp(one->certificate, other->certificate) != 0 || strcmp(one->key, other->key) != 0 ||
            strcmp(one->server_name, other->server_name) != 0)
            return false;
    }
    for (uint32_t i = 0; !is_bridges && i < a->n_plugins; i++) {
        const struct tw_plugin_setting *one = &a->plugins[i], *other = &b->plugins[i];
        if (strcmp(one->name, other->name) != 0 || strcmp(one->library, other->library) != 0 ||
            one->in_process != other->in_process)
            return false;
    }
    return true;
}

void tw_settings_take_over(struct tw_settings *live, const struct tw_settings *fresh, tw_setting_told *told, void *context)
{
    char before[TW_VALUE_TEXT_BYTES], now[TW_VALUE_TEXT_BYTES];
    for (size_t i = 0; i < TABLE_ROWS; i++) {
        const struct tw_setting *row = &table[i];
        bool is_same = strcmp(tw_setting_text(live, row, before), tw_setting_text(fresh, row, now)) == 0;
        if (is_same && (row->offset != FIELD(bridges_text) || is_same_list(live, fresh, true)))
            continue;
        if (row->reloadable) {
            struct tw_error error;
            bool is_good = setting_set(live, row, now, fresh->origins[i], &error);
            assert(is_good); /* it is what a good file came to */
            (void)is_good;
        }
        told(context, row->name, before, now, row->reloadable);
    }
    if (!is_same_list(live, fresh, false))
        told(context, "plugins", "-", "-", false);
}
