/* dashboard.h - the page of client-examples/dashboard, beside `tradewake dev --dashboard`.
 *
 * Its bridge is a Node program and a process of its own: started when the server listens, told to end when the server
 * is, and gone with it where the server is killed. What it needs is looked for before the server starts, so that
 * nobody has to read a log for it.
 *
 * Thread: main for everything here. */
#ifndef CLI_DASHBOARD_H
#define CLI_DASHBOARD_H

#include <tradewake/base/status.h>

#include <stdbool.h>
#include <sys/types.h>

enum { DASHBOARD_PATH_BYTES = 4096 };

struct dashboard {
    char folder[DASHBOARD_PATH_BYTES]; /* with dashboard.mjs and its packages */
    const char *listen;                /* "127.0.0.1:8090"; borrowed */
    pid_t process;                     /* 0 = none runs */
};

/* Finds Node, the folder (TRADEWAKE_DASHBOARD, else beside this program) and the bridge's packages.
 * Fails: TW_INVALID, with what is missing and the command that brings it. */
TW_MUST_CHECK tw_status dashboard_find(struct dashboard *dashboard, struct tw_error *error);

/* For struct tw_cli_serving; context: the dashboard. What fails is one line in the log: the server goes on. */
void dashboard_start(void *context, const char *listen, const char *admin);
void dashboard_look(void *context); /* tells when it has ended by itself */
void dashboard_end(void *context);

#endif
