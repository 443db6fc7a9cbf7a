/* cli.h - the commands of the tradewake program.
 *
 * Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 nobody answers. What a command has to
 * say goes to standard output, what went wrong to standard error. */
#ifndef TW_CLI_CLI_H
#define TW_CLI_CLI_H

#include <tradewake/config/settings.h>

#include <stdbool.h>

enum tw_exit { TW_EXIT_DONE = 0, TW_EXIT_FAILED = 1, TW_EXIT_USAGE = 2, TW_EXIT_UNREACHABLE = 3 };

/* What the program brings along: the serving side, so that the commands do not depend on it. */
struct tw_cli_host {
    const char *version;
    int (*serve)(const struct tw_settings *settings, bool is_dev);
};

/* Runs the command that argv names and returns the exit code.
 * Thread: main.  Blocks: as long as the command. */
int tw_cli_run(const struct tw_cli_host *host, int argc, char **argv);

#endif
