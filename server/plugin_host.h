/* plugin_host.h - `tradewake plugin-host`: one library in a process of its own, served to the server that started it.
 *
 * Ends with code 0 when it is told to, 1 when it could not start, 3 when calls do not come back and it had better begin anew; at
 * once when the process that started it is gone. */
#ifndef TW_PLUGIN_HOST_H
#define TW_PLUGIN_HOST_H

#include <tradewake/cli/cli.h>

int tw_plugin_host_command(const struct tw_cli_plugin_host *wanted);

#endif
