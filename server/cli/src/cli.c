#include <tradewake/cli/cli.h>

#include "command.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COMMAND_BYTES_MAX ((size_t)1 << 30) /* of messages, as long as a command runs */

static int run(const struct tw_cli_host *host, const struct args *args)
{
    struct session session = {
        .host = host, .command = args->command, .args = *args, .environment = environ};
    bool is_terminal = isatty(STDOUT_FILENO) != 0;
    session.is_json = (args->command->shared & TAKES_OUTPUT) != 0 && args_number(args, "-o") == 1;
    session.json = (struct tw_json){
        .out = stdout, .is_pretty = is_terminal && (args->command->shared & TAKES_STREAM) == 0};
    tw_arena_init(&session.arena, COMMAND_BYTES_MAX);

    int code = args->command->run(&session);

    if (session.client != NULL)
        tw_wire_client_close(session.client);
    tw_arena_clear(&session.arena);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("tradewake: cannot write to standard output\n", stderr);
        return code == TW_EXIT_DONE ? TW_EXIT_FAILED : code;
    }
    return code;
}

int tw_cli_run(const struct tw_cli_host *host, int argc, char **argv)
{
    static struct args args;
    bool asks_version =
        argc == 2 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0);
    if (asks_version) {
        printf("tradewake %s\n", host->version);
        return TW_EXIT_DONE;
    }
    if (!args_read(argc - 1, argv + 1, &args))
        return TW_EXIT_USAGE;
    if (args.wants_help && args.command != NULL) {
        help_command(stdout, args.command);
        return TW_EXIT_DONE;
    }
    if (args.group != NULL) {
        help_group(stdout, args.group);
        return TW_EXIT_DONE;
    }
    if (args.command == NULL) {
        bool was_asked = argc > 1; /* a bare `tradewake` is a mistake, if a common one */
        help_overview(was_asked ? stdout : stderr, host->version);
        return was_asked ? TW_EXIT_DONE : TW_EXIT_USAGE;
    }
    return run(host, &args);
}
