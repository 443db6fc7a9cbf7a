/* plugin-host: one vendor library in a process of its own. */
#include "command.h"

#include <stdio.h>
#include <string.h>

/* NAME of "/opt/NAME.so". */
static void name_of(const char *library, char *ret, size_t size)
{
    const char *slash = strrchr(library, '/'), *name = slash != NULL ? slash + 1 : library;
    snprintf(ret, size, "%.*s", (int)strcspn(name, "."), name);
}

int run_plugin_host(struct session *session)
{
    const struct args *args = &session->args;
    const char *name = args_text(args, "--name"), *secrets = args_text(args, "--secrets"), *leaders = args_text(args, "--leaders");
    char made[33];
    struct tw_cli_plugin_host wanted = {
        .library = args_text(args, "--plugin"),
        .listen = args_text(args, "--listen"),
        .secrets = secrets != NULL ? secrets : "",
        .parent = (uint32_t)args_number(args, "--parent"),
        .threads_max = (uint32_t)args_number(args, "--threads-max"),
        .threads_lost_max = (uint32_t)args_number(args, "--threads-lost-max"),
        .realtime = strstr(leaders, "realtime") != NULL,
        .pinned = strstr(leaders, "pinned") != NULL,
        .core_dumps = strstr(leaders, "core-dumps") != NULL,
    };
    name_of(wanted.library, made, sizeof made);
    wanted.name = name != NULL ? name : made;
    if (!tw_log_level_parse(args_text(args, "--log-level"), &wanted.log_level)) {
        fprintf(stderr, "tradewake: --log-level is \"%s\", expected debug, info, warn, error or none\n", args_text(args, "--log-level"));
        return TW_EXIT_USAGE;
    }
    return session->host->plugin_host(&wanted);
}
