/* audit_tool.h - `tradewake audit`: who changed what, and who was refused, read from a state directory. */
#ifndef TW_AUDIT_TOOL_H
#define TW_AUDIT_TOOL_H

#include <tradewake/cli/cli.h>

/* Works beside the server, and without one. Returns the exit code. */
int tw_audit_command(const struct tw_cli_audit *wanted);

#endif
