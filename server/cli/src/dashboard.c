#include "dashboard.h"

#include <tradewake/base/log.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where it stands, seen from the program: in the build tree, and where it was installed. */
static const char *const beside[] = {"../../client-examples/dashboard", "../share/tradewake/client-examples/dashboard"};

static bool is_there(const char *folder, const char *file)
{
    char path[DASHBOARD_PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return access(path, R_OK) == 0;
}

/* The folder of this program; false: the system does not say. */
static bool own_folder(char *path, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    if (length <= 0)
        return false;
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    return true;
}

static tw_status folder_find(struct dashboard *dashboard, struct tw_error *error)
{
    const char *named = getenv("TRADEWAKE_DASHBOARD");
    char own[DASHBOARD_PATH_BYTES - 64];
    if (named != NULL && named[0] != '\0') {
        snprintf(dashboard->folder, sizeof dashboard->folder, "%s", named);
        return is_there(named, "dashboard.mjs") ? TW_OK
                                                : tw_error_set(error, TW_INVALID, "TRADEWAKE_DASHBOARD is %.200s, and there is no "
                                                               "dashboard.mjs in it; expected the folder client-examples/dashboard", named);
    }
    for (size_t i = 0; own_folder(own, sizeof own) && i < sizeof beside / sizeof beside[0]; i++) {
        snprintf(dashboard->folder, sizeof dashboard->folder, "%s/%s", own, beside[i]);
        char *plain = realpath(dashboard->folder, NULL);
        bool is_found = plain != NULL && is_there(plain, "dashboard.mjs");
        if (is_found)
            snprintf(dashboard->folder, sizeof dashboard->folder, "%s", plain);
        free(plain);
        if (is_found)
            return TW_OK;
    }
    return tw_error_set(error, TW_INVALID, "the page's files are not beside this program; name the folder client-examples/dashboard "
                        "of the repository with TRADEWAKE_DASHBOARD");
}

static bool is_in_path(const char *program)
{
    const char *at = getenv("PATH");
    char path[DASHBOARD_PATH_BYTES];
    while (at != NULL && *at != '\0') {
        size_t size = strcspn(at, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)size, at, program);
        if (size > 0 && access(path, X_OK) == 0)
            return true;
        at += size + (at[size] == ':');
    }
    return false;
}

tw_status dashboard_find(struct dashboard *dashboard, struct tw_error *error)
{
    tw_status status = folder_find(dashboard, error);
    if (status != TW_OK)
        return status;
    if (!is_in_path("node"))
        return tw_error_set(error, TW_INVALID, "Node is not here (no \"node\" in PATH), and the page's bridge is a Node program; install "
                            "Node 18.20 or later: apt-get install nodejs npm");
    if (!is_there(dashboard->folder, "node_modules/@grpc/grpc-js/package.json") ||
        !is_there(dashboard->folder, "node_modules/uplot/package.json"))
        return tw_error_set(error, TW_INVALID, "the bridge's packages are not here; once: (cd %.256s && npm ci --omit=dev "
                            "--ignore-scripts)", dashboard->folder);
    return TW_OK;
}

/* In the child, between fork and exec: calls that are allowed there, and nothing else. */
_Noreturn static void become(char *const *arguments, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(1);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGALRM, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    close_range(3, ~0u, 0); /* nothing of the server's is the bridge's */
    execvp(arguments[0], arguments);
    static const char failed[] = "tradewake dev: node cannot be started\n";
    ssize_t written = write(STDERR_FILENO, failed, sizeof failed - 1);
    (void)written;
    _exit(1);
}

void dashboard_start(void *context, const char *listen, const char *admin)
{
    struct dashboard *dashboard = context;
    char script[DASHBOARD_PATH_BYTES + 64], server[512], page[512], counts[512];
    snprintf(script, sizeof script, "%s/dashboard.mjs", dashboard->folder);
    snprintf(server, sizeof server, "--server=%s", listen);
    snprintf(page, sizeof page, "--listen=%s", dashboard->listen);
    snprintf(counts, sizeof counts, "--admin=%s", admin);
    char *const arguments[] = {(char[]){"node"}, script, server, page, counts, NULL};
    pid_t parent = getpid(), process = fork();
    if (process == 0)
        become(arguments, parent);
    if (process < 0) {
        tw_log(TW_LOG_ERROR, "dashboard.not_started", "why=\"%s\"", strerror(errno));
        return;
    }
    dashboard->process = process;
    tw_log(TW_LOG_INFO, "dashboard.started", "process=%d folder=%s listen=%s", (int)process, dashboard->folder, dashboard->listen);
}

void dashboard_look(void *context)
{
    struct dashboard *dashboard = context;
    int how = 0;
    if (dashboard->process == 0 || waitpid(dashboard->process, &how, WNOHANG) != dashboard->process)
        return;
    dashboard->process = 0;
    tw_log(TW_LOG_ERROR, "dashboard.ended", "code=%d server=goes_on do=\"another place: --dashboard-listen 127.0.0.1:0\"",
           WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how));
}

void dashboard_end(void *context)
{
    struct dashboard *dashboard = context;
    if (dashboard->process == 0)
        return;
    kill(dashboard->process, SIGTERM); /* at its own first signal it ends by itself; it answers to nobody but us */
    while (waitpid(dashboard->process, NULL, 0) < 0 && errno == EINTR)
        ;
    dashboard->process = 0;
}
