#include "fix_log_tool.h"

#include <tradewake/cli/cli.h>
#include <tradewake/fix/store.h>

#include <stdio.h>

static void tell_line(void *context, const struct fix_log_entry *entry)
{
    (void)context;
    fix_log_print(stdout, entry);
}

static void tell_json(void *context, const struct fix_log_entry *entry)
{
    (void)context;
    fix_log_json(stdout, entry);
}

int tw_fix_log_command(const char *path, bool is_json)
{
    struct tw_error error = {{0}};
    tw_status status = fix_log_read(path, is_json ? tell_json : tell_line, NULL, &error);
    fflush(stdout);
    if (status != TW_OK)
        fprintf(stderr, "tradewake: %s\n", error.text);
    return status == TW_OK ? TW_EXIT_DONE : TW_EXIT_FAILED;
}
