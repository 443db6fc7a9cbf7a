/* journal_tool.h - the journal commands, and a snapshot made in a process of its own. */
#ifndef TW_JOURNAL_COMMANDS_H
#define TW_JOURNAL_COMMANDS_H

#include <tradewake/cli/cli.h>
#include <tradewake/engine/engine.h>

/* Thread: main. Returns the exit code. */
int tw_journal_command(const struct tw_cli_journal *wanted);

/* A tw_engine_snapshot_fn: runs this program as `journal snapshot`, behind everything else on the machine,
 * and waits for its end. The server's memory and threads have no part in it. */
tw_status tw_snapshot_in_process(void *context, const struct tw_engine_snapshot_wanted *wanted,
                                 bool (*should_stop)(void *stop), void *stop, struct tw_error *error);

#endif
