/* settings.h - every setting of the server, from one table.
 *
 * A setting is one row: its name as in the file, what it accepts, its default, its help. From the
 * row follow the flag ("executor.threads_max": --executor-threads-max), the variable
 * (TRADEWAKE_EXECUTOR_THREADS_MAX), the place in the YAML file (nested maps are the dotted name),
 * the help, and the reference that `tradewake config reference` prints.
 *
 *     flag  over  environment  over  file  over  default
 *
 * Where each value came from is remembered. Nothing is silently ignored: an unknown key, a key
 * given twice and a value that does not fit are problems, each with its place, all reported at
 * once. */
#ifndef TW_CONFIG_SETTINGS_H
#define TW_CONFIG_SETTINGS_H

#include <tradewake/config/value.h>

#include <tradewake/base/log.h>
#include <tradewake/base/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TW_SETTINGS_MAX 64u /* rows; the table is checked against it when it is compiled */

/* In the order of the words in the table. */
enum tw_log_format { TW_LOG_FORMAT_TEXT, TW_LOG_FORMAT_JSON };
enum tw_realtime { TW_REALTIME_AUTO /* where the system allows it */, TW_REALTIME_OFF };

enum tw_client_certificate { TW_CLIENT_CERTIFICATE_REQUIRED, TW_CLIENT_CERTIFICATE_OPTIONAL };
enum tw_journal_mode { TW_JOURNAL_ON, TW_JOURNAL_NOSYNC, TW_JOURNAL_OFF };

enum tw_origin_kind {
    TW_ORIGIN_DEFAULT,
    TW_ORIGIN_DEV, /* the default of `tradewake dev` */
    TW_ORIGIN_FILE,
    TW_ORIGIN_ENVIRONMENT,
    TW_ORIGIN_FLAG,
};

struct tw_origin {
    enum tw_origin_kind kind;
    uint32_t line, column; /* FILE; from 1 */
};

/* plugins: {NAME: {library: /path, in_process: true}}; of the file alone: what is loaded into the server is not for a flag. */
#define TW_PLUGINS_MAX        16u
#define TW_PLUGIN_NAME_BYTES  33u
struct tw_plugin_setting {
    char name[TW_PLUGIN_NAME_BYTES]; /* [a-z0-9_-], as in "plugin:NAME" */
    char library[TW_VALUE_TEXT_BYTES]; /* from the root */
    bool in_process;
    uint32_t line, column; /* in the file */
};

/* A bridge to brokers. */
#define TW_BRIDGE_SETTINGS_MAX 32u
#define TW_BRIDGE_SETTING_NAME_BYTES 65u
#define TW_BRIDGE_SETTING_TEXT_BYTES 256u
struct tw_bridge_setting {
    char name[TW_BRIDGE_SETTING_NAME_BYTES];
    char address[TW_BRIDGE_SETTING_TEXT_BYTES]; /* "unix:/run/bridge.sock", "host:port" */
    char ca[TW_BRIDGE_SETTING_TEXT_BYTES];      /* PEM file: who signs its certificate; "" = plain text */
    char certificate[TW_BRIDGE_SETTING_TEXT_BYTES], key[TW_BRIDGE_SETTING_TEXT_BYTES]; /* ours */
    char server_name[TW_BRIDGE_SETTING_TEXT_BYTES]; /* expected in its certificate; "" = the address' */
};

struct tw_settings {
    char listen[TW_VALUE_TEXT_BYTES];    /* "127.0.0.1:50051", "unix:/path" */
    char admin[TW_VALUE_TEXT_BYTES];     /* "127.0.0.1:9464"; "off" = no admin port */
    char state_dir[TW_VALUE_TEXT_BYTES]; /* "" = keep nothing (dev) */
    char tls_certificate[TW_VALUE_TEXT_BYTES]; /* "" = plain text */
    char tls_key[TW_VALUE_TEXT_BYTES];
    char tls_client_ca[TW_VALUE_TEXT_BYTES]; /* "" = clients' certificates are not asked for */
    enum tw_client_certificate tls_client_certificate;
    bool tls_insecure;
    char access_policy[TW_VALUE_TEXT_BYTES]; /* "" = nobody is asked */
    char access_token_keys[TW_VALUE_TEXT_BYTES];
    char access_audience[TW_VALUE_TEXT_BYTES];
    enum tw_journal_mode journal;
    enum tw_log_level log_level;
    enum tw_log_format log_format;
    uint32_t executor_threads; /* ready at start; 0 = what the fleet needs */
    uint32_t executor_threads_max;
    uint32_t executor_threads_lost_max; /* in calls that do not come back; then the breaker opens */
    uint32_t executor_threads_reserved; /* that run closes, cancels and tighter stops alone */
    uint32_t executor_groups; /* 0 = one per usable core */
    bool executor_pinned;
    enum tw_realtime executor_realtime;
    uint32_t rpc_threads; /* 0 = one per usable core, at most 4 */
    uint32_t copies_remembered;
    int64_t copies_backlog_bytes;
    int64_t memory_reserved_bytes; /* with less than this left, no opens; 0 = nobody looks */
    uint32_t events_remembered;
    int64_t events_kept_ns;
    uint32_t snapshot_segments;  /* 0 = never */
    int64_t retention_segment_bytes, retention_log_bytes;
    int64_t history_keep_ns;
    int64_t audit_keep_ns;
    uint32_t breaker_unknown_calls; /* in a row; 0 = any number */
    uint32_t gate_order_volume; /* lots; 0 = any, likewise below */
    uint32_t gate_order_notional, gate_orders_per_second, gate_orders_per_day;
    char bridges_text[TW_VALUE_TEXT_BYTES]; /* as given, or what a mapping comes to */
    bool bridges_mapped;                    /* the file has a mapping, and nothing overrides it */
    struct tw_bridge_setting bridges[TW_BRIDGE_SETTINGS_MAX];
    uint32_t n_bridges;
    char fix_sessions[TW_VALUE_TEXT_BYTES];      /* the file of FIX sessions; "" = none */
    char secrets_directory[TW_VALUE_TEXT_BYTES]; /* "" = where the system puts them */
    bool core_dumps;
    bool paper_control;
    int64_t metrics_warm_up_ns;
    uint32_t metrics_streams_per_peer;
    int64_t streams_hopeless_after_ns;
    uint32_t streams_watchers_max;
    int64_t drain_lame_duck_ns;
    int64_t drain_timeout_ns;
    uint32_t listener_connections_max;
    int64_t listener_dead_after_ns; /* 0 = never */
    bool reflection;

    struct tw_plugin_setting plugins[TW_PLUGINS_MAX];
    uint32_t n_plugins;

    char config_path[TW_VALUE_TEXT_BYTES];     /* the file that was read; "" = none */
    struct tw_origin origins[TW_SETTINGS_MAX]; /* by row of the table */
};

/* One row. */
struct tw_setting {
    const char *name; /* "executor.threads_max" */
    struct tw_value_rule rule;
    const char *default_text;
    const char *dev_text; /* default under `tradewake dev`; NULL = the same */
    size_t offset;        /* in struct tw_settings; the field's type follows from rule.type */
    bool reloadable;      /* takes effect without a restart */
    const char *help;     /* one sentence */
};

/* Whether nobody but this machine can reach the address: loopback, or a unix socket. A name other than
 * localhost may be anybody's. Thread: any. */
bool tw_settings_is_local(const char *listen);

/* The table. Static. Thread: any. */
const struct tw_setting *tw_settings_table(size_t *ret_n);

/* "--executor-threads-max", "TRADEWAKE_EXECUTOR_THREADS_MAX". Return text. */
#define TW_SETTING_NAME_BYTES 64u
char *tw_setting_flag(const struct tw_setting *setting, char text[TW_SETTING_NAME_BYTES]);
char *tw_setting_variable(const struct tw_setting *setting, char text[TW_SETTING_NAME_BYTES]);

/* The row of that name; NULL = there is none. */
const struct tw_setting *tw_setting_find(const char *name);

/* The value of a row as one would write it. Returns text. */
char *tw_setting_text(const struct tw_settings *settings, const struct tw_setting *setting,
                      char text[TW_VALUE_TEXT_BYTES]);

/* "flag --listen", "file tradewake.yaml:3:9", "default". Returns text. */
char *tw_setting_origin_text(const struct tw_settings *settings, const struct tw_setting *setting,
                             char *text, size_t size);

/* What is wrong, each with its place. At most so many are kept; n counts all. */
#define TW_CONFIG_PROBLEMS_MAX 32u
struct tw_config_problem {
    bool is_warning;                /* the settings are good, but somebody should look */
    char text[TW_ERROR_TEXT_BYTES]; /* "FILE:3:9: log.level: found ..., expected ..." */
};
struct tw_config_report {
    uint32_t n, n_errors;
    struct tw_config_problem problems[TW_CONFIG_PROBLEMS_MAX];
};

struct tw_setting_flag {
    const char *name; /* of the setting */
    const char *text;
};

struct tw_settings_sources {
    bool is_dev;
    const char *config_path;  /* NULL = no file */
    char *const *environment; /* "NAME=value", ended by NULL; NULL = none */
    const struct tw_setting_flag *flags;
    size_t n_flags;
};

/* Reads all sources, checks every value and what must hold between them.
 * Thread: main.  Blocks: reads the file.
 * Fails: TW_INVALID, with every problem in *report; *ret is then not to be used. Warnings may be in
 *        *report on TW_OK too. */
TW_MUST_CHECK tw_status tw_settings_load(const struct tw_settings_sources *sources,
                                         struct tw_settings *ret, struct tw_config_report *report);

/* What a configuration that was read again changes in one that is in use: each difference is told, and what takes
 * effect without a restart is taken over into *live. Who uses such a setting reads it again. Thread: main.  Blocks: no. */
typedef void tw_setting_told(void *context, const char *name, const char *before, const char *now, bool is_taken);
void tw_settings_take_over(struct tw_settings *live, const struct tw_settings *fresh, tw_setting_told *told, void *context);

/* The defaults alone. */
void tw_settings_defaults(bool is_dev, struct tw_settings *ret);

/* The file's part of it, from memory: what the text sets is changed in *settings, what is wrong
 * added to *report. name: for messages. Thread: any.  Blocks: no. */
void tw_settings_apply_yaml(const char *name, const char *text, size_t size,
                            struct tw_settings *settings, struct tw_config_report *report);

#endif
