/* cli.h - the commands of the tradewake program.
 *
 * Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 nobody answers. What a command has to
 * say goes to standard output, what went wrong to standard error. */
#ifndef TW_CLI_CLI_H
#define TW_CLI_CLI_H

#include <tradewake/config/settings.h>

#include <stdbool.h>

enum tw_exit { TW_EXIT_DONE = 0, TW_EXIT_FAILED = 1, TW_EXIT_USAGE = 2, TW_EXIT_UNREACHABLE = 3 };

/* What is asked of a journal, beside a server or without one. */
enum tw_cli_journal_task { TW_CLI_JOURNAL_VERIFY, TW_CLI_JOURNAL_DUMP, TW_CLI_JOURNAL_TAIL, TW_CLI_JOURNAL_SNAPSHOT };
struct tw_cli_journal {
    enum tw_cli_journal_task task;
    const char *dir;
    bool is_json;
    uint64_t from, count; /* dump, tail; 0 = from the beginning, all */
    bool follow;          /* tail */
    int64_t for_ns;       /* tail; 0 = for ever */
    uint32_t until;       /* snapshot: at the end of this segment */
    uint32_t copies_remembered, events_remembered; /* snapshot: as the server's settings */
    int64_t events_kept_ns;
};

/* What is asked of the audit in a state directory. Texts are never NULL; "" = any. */
struct tw_cli_audit {
    const char *state_dir;
    const char *who;    /* an identity; "-" = nobody that is known */
    const char *method; /* "Halt", or "tradewake.v1.FollowerService/Halt" */
    const char *follower_id;
    int64_t from_wall_ns; /* 0 = all */
    bool refused;         /* nothing else */
    bool is_json;
};

/* A bridge to be tried out. Texts are never NULL. */
struct tw_cli_adapter_check {
    const char *address, *account, *credentials_ref;
    const char *symbol, *volume, *part; /* what is opened, and what of it is closed first */
};

/* What is to be served. Everything stays until serve() returns; callbacks on its thread, NULL = nobody listens. */
struct tw_cli_serving {
    struct tw_settings *settings; /* the server's own from here on: some change when `sources` are read again */
    const struct tw_settings_sources *sources; /* read again on SIGHUP; NULL = never */
    bool is_dev; /* with a paper broker and a demo fleet, so that there is nothing to configure */
    void *context;
    void (*on_listening)(void *context, const char *listen, const char *admin); /* as they came out; admin "" = off */
    void (*on_second)(void *context);
    void (*on_end)(void *context); /* it was told to stop; not called when it could not start */
};

/* A library that is to have a process of its own. Texts are never NULL. */
struct tw_cli_plugin_host {
    const char *library, *name, *listen;
    const char *secrets;  /* where "secret:NAME" is a file; "" = nowhere */
    uint32_t parent;      /* the process with which it ends; 0 = none */
    uint32_t threads_max, threads_lost_max; /* 0 = the executor's own */
    bool realtime, pinned, core_dumps;
    enum tw_log_level log_level;
};

/* What the program brings along: the serving side, so that the commands do not depend on it. */
struct tw_cli_host {
    const char *version;
    int (*serve)(const struct tw_cli_serving *serving);
    int (*journal)(const struct tw_cli_journal *wanted); /* returns the exit code */
    int (*audit)(const struct tw_cli_audit *wanted);     /* likewise */
    int (*fix_log)(const char *path, bool is_json);
    int (*adapter_check)(const struct tw_cli_adapter_check *wanted);
    int (*plugin_host)(const struct tw_cli_plugin_host *wanted);
};

/* Runs the command that argv names and returns the exit code.
 * Thread: main.  Blocks: as long as the command. */
int tw_cli_run(const struct tw_cli_host *host, int argc, char **argv);

#endif
