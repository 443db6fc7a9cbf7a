/* bridge_process.h - a bridge of client-examples/, started for a test, ended with it. */
#ifndef BRIDGE_PROCESS_H
#define BRIDGE_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

enum { BRIDGE_WORDS_MAX = 16 };

struct bridge_process {
    char folder[64]; /* under /tmp: a socket's path is short */
    char address[128];
    pid_t pid;
};

/* Runs `command` (ended by NULL) with --listen and --state, and `more` words, NULL = none; waits until it listens.
 * False: it did not. */
bool bridge_process_start(struct bridge_process *bridge, const char *const *command, const char *const *more);
/* The same address and state, after a kill. */
bool bridge_process_again(struct bridge_process *bridge, const char *const *command, const char *const *more);
void bridge_process_kill(struct bridge_process *bridge);
/* And its folder is gone. */
void bridge_process_end(struct bridge_process *bridge);

#endif
