/* serve.h - the serving side of the program, from its settings to its end.
 *
 * Thread: main.  Blocks: until SIGTERM or SIGINT, or a failure at start.
 * Returns the exit code: 0 after a graceful stop, 1 when it could not start or had to end; why is
 * then one line in the log: what, where, and what to do. */
#ifndef TW_SERVE_H
#define TW_SERVE_H

#include <tradewake/cli/cli.h>

int tw_serve(const struct tw_cli_serving *serving);

#endif
