/* hosts.h - processes of their own for plugins: started with the server, started again when they end, ended with it.
 *
 *     main --start--> [hosts' thread] --spawn--> tradewake plugin-host --plugin X.so --listen unix:DIR/NAME
 *                          ^------ what it says: the ready line, log lines, a library's own words -----'
 *
 * A host that ends is started again after 100 ms, doubling to 2 s; what it had in its hands comes back AMBIGUOUS over the
 * connection that broke. What a library promises is fixed by its first ready line: one that says otherwise when it is
 * started again was replaced on the disk, and is kept down until the server is started anew. One that stands still as a whole
 * gives no sign of life: it is killed, and started again. */
#ifndef TW_HOSTS_H
#define TW_HOSTS_H

#include <tradewake/adapters/plugin.h>
#include <tradewake/base/log.h>

struct hosts;

struct hosts_options {
    const struct tw_plugin_entry *entries; /* stay; each gets a process */
    size_t n;
    const char *program;     /* this one: "/proc/self/exe" */
    const char *state_dir;   /* where the folder of sockets is made; NULL = a new one in $TMPDIR or /tmp */
    const char *secrets_dir; /* NULL = none */
    uint32_t threads_max, threads_lost_max;
    bool realtime, pinned, core_dumps;
};

/* When it returns, each of them is ready. Thread: main.  Blocks: as long as they take, at most 20 s.
 * Fails: TW_IO, TW_INVALID, TW_TIMEOUT with what the host said of its library; nothing is left running. */
TW_MUST_CHECK tw_status hosts_start(const struct hosts_options *options, struct hosts **ret_hosts, struct tw_error *error);

/* Ends them: at once, if need be. NULL is allowed. Thread: main.  Blocks: at most 2 s. */
void hosts_stop(struct hosts *hosts);

/* "unix:/run/...", what it said. Thread: any. */
const char *hosts_address(const struct hosts *hosts, size_t index);
const struct tw_plugin_about *hosts_about(const struct hosts *hosts, size_t index);

/* Whether it is worth a question: it is ready, and gave a sign of life just now. Thread: any. */
bool hosts_is_answering(const struct hosts *hosts, size_t index);

/* A host of the server's gives a sign of life each time its main thread turns: a byte to this file. */
enum { HOSTS_PULSE_FD = 3, HOSTS_PULSE_MS = 200 };

/* The ready line, both ways; `size` of a line is enough with HOSTS_LINE_BYTES. */
enum { HOSTS_LINE_BYTES = 512 };
void hosts_ready_line(const struct tw_plugin_about *about, char *line, size_t size);
bool hosts_ready_parse(const char *line, struct tw_plugin_about *ret);

#endif
