/* fix_log_tool.h - tradewake fix log: what a FIX session said and heard. */
#ifndef SERVER_FIX_LOG_TOOL_H
#define SERVER_FIX_LOG_TOOL_H

#include <stdbool.h>

/* Returns the exit code. Thread: main. */
int tw_fix_log_command(const char *path, bool is_json);

#endif
