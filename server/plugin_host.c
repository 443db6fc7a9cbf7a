#include "plugin_host.h"

#include "hosts.h"

#include <tradewake/adapters/host.h>
#include <tradewake/base/clock.h>
#include <tradewake/base/log.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS (HOSTS_PULSE_MS * TW_NS_PER_MS)
enum { EXIT_WORN = 3 };

/* Told by the kernel when whoever started it is gone; who had gone before that could be asked for is seen by who is the parent
 * now. */
static bool has_parent(const struct tw_cli_plugin_host *wanted)
{
    return wanted->parent == 0 || getppid() == (pid_t)wanted->parent;
}

static void process_prepare(const struct tw_cli_plugin_host *wanted, sigset_t *ret_signals)
{
    struct rlimit files;
    if (wanted->parent != 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(ret_signals);
    sigaddset(ret_signals, SIGTERM);
    if (wanted->parent == 0)
        sigaddset(ret_signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, ret_signals, NULL); /* every thread to come inherits it */
    signal(SIGPIPE, SIG_IGN);
    if (wanted->parent != 0) { /* what is meant for the server, and reaches its group: it ends its hosts itself, as the last */
        signal(SIGHUP, SIG_IGN);
        signal(SIGINT, SIG_IGN);
    }
    if (wanted->parent != 0)
        (void)fcntl(HOSTS_PULSE_FD, F_SETFD, FD_CLOEXEC); /* not for what the library starts */
    umask(0077); /* who can open the socket can trade */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    if (!wanted->core_dumps)
        prctl(PR_SET_DUMPABLE, 0); /* passwords are in memory while they are used */
}

static tw_status host_open(const struct tw_cli_plugin_host *wanted, const char *adapter_name, void *plugin, struct tw_host **ret,
                           struct tw_plugin_about *ret_about, struct tw_error *error)
{
    if (!tw_plugin_about(plugin, wanted->name, ret_about))
        return tw_error_set(error, TW_INVALID, "there is no plugin %s", wanted->name);
    const struct tw_host_options options = {
        .listen = wanted->listen,
        .ops = &tw_adapter_plugin,
        .adapter = plugin,
        .adapter_name = adapter_name,
        .about = {.name = adapter_name,
                  .version = TW_VERSION,
                  .hedging = ret_about->hedging,
                  .netting = ret_about->netting,
                  .reduce_only = ret_about->reduce_only,
                  .id_strength = ret_about->lookup ? ret_about->id_strength : 0,
                  .max_parallel = ret_about->calls_max,
                  .settle_ms = ret_about->settle_ms},
        .threads_max = wanted->threads_max,
        .threads_lost_max = wanted->threads_lost_max,
        .realtime = wanted->realtime,
        .pinned = wanted->pinned,
    };
    return tw_host_start(&options, ret, error);
}

/* A sign of life, to whoever started it. */
static void pulse(const struct tw_cli_plugin_host *wanted)
{
    ssize_t written = wanted->parent != 0 ? write(HOSTS_PULSE_FD, "", 1) : 0;
    (void)written; /* it does not block, and where it does not fit there are enough of them */
}

/* Until it is told to end: 0; worn out: 3, and nothing of it is worth taking apart. */
static int run(const struct tw_cli_plugin_host *wanted, struct tw_host *host, void *plugin, const sigset_t *signals)
{
    static const struct timespec look_again = {0, LOOK_NS};
    for (;;) {
        pulse(wanted);
        int number = sigtimedwait(signals, NULL, &look_again);
        if (number > 0)
            return 0;
        if (!has_parent(wanted))
            _exit(EXIT_WORN); /* nobody is left to serve, or to tell */
        const char *why = tw_plugin_is_stuck(plugin) ? "orders wait for a call that does not come back: the library takes one at a time"
                                                     : tw_host_is_worn(host);
        if (why == NULL)
            continue;
        tw_log(TW_LOG_ERROR, "host.worn", "adapter=plugin:%s why=\"%s\" next=end", wanted->name, why);
        return EXIT_WORN;
    }
}

int tw_plugin_host_command(const struct tw_cli_plugin_host *wanted)
{
    const struct tw_plugin_entry entry = {.name = wanted->name, .library = wanted->library, .in_process = false};
    const struct tw_plugin_list list = {&entry, 1};
    const struct tw_adapter_options options = {.own = &list, .secrets_dir = wanted->secrets[0] != '\0' ? wanted->secrets : NULL};
    struct tw_plugin_about about;
    struct tw_error error = {{0}};
    struct tw_host *host = NULL;
    void *plugin = NULL;
    sigset_t signals;
    char adapter_name[80], line[HOSTS_LINE_BYTES];
    tw_log_level_set(wanted->log_level);
    process_prepare(wanted, &signals);
    if (!has_parent(wanted))
        return 1;
    snprintf(adapter_name, sizeof adapter_name, "plugin:%s", wanted->name);
    tw_status status = tw_adapter_plugin.open(&options, &plugin, &error);
    if (status == TW_OK)
        status = host_open(wanted, adapter_name, plugin, &host, &about, &error);
    if (status != TW_OK) {
        tw_log(TW_LOG_ERROR, "host.start_failed", "%s", error.text);
        return 1;
    }
    hosts_ready_line(&about, line, sizeof line);
    printf("%s\n", line);
    fflush(stdout);
    int code = run(wanted, host, plugin, &signals);
    if (code != 0 || tw_host_stop(host) > 0)
        _exit(code); /* calls are out that use all of it */
    tw_adapter_plugin.close(plugin);
    return 0;
}
