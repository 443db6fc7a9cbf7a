#include "bridge_process.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void run(const struct bridge_process *bridge, const char *const *command, const char *const *more,
                          int output)
{
    const char *words[2 * BRIDGE_WORDS_MAX];
    char state[128];
    size_t n = 0;
    snprintf(state, sizeof state, "%s/state", bridge->folder);
    for (; *command != NULL; command++)
        words[n++] = *command;
    words[n++] = "--listen";
    words[n++] = bridge->address;
    words[n++] = "--state";
    words[n++] = state;
    for (; more != NULL && *more != NULL; more++)
        words[n++] = *more;
    words[n] = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(output, STDOUT_FILENO);
    execv(words[0], (char *const *)(uintptr_t)words);
    _exit(127);
}

bool bridge_process_again(struct bridge_process *bridge, const char *const *command, const char *const *more)
{
    int out[2];
    char said[256] = "";
    size_t used = 0;
    if (pipe(out) != 0)
        return false;
    bridge->pid = fork();
    if (bridge->pid == 0)
        run(bridge, command, more, out[1]);
    close(out[1]);
    while (bridge->pid > 0 && used + 1 < sizeof said && strchr(said, '\n') == NULL) {
        ssize_t got = read(out[0], said + used, sizeof said - 1 - used);
        if (got == 0 || (got < 0 && errno != EINTR))
            break;
        used += got > 0 ? (size_t)got : 0;
    }
    close(out[0]);
    return strncmp(said, "listening on ", 13) == 0;
}

bool bridge_process_start(struct bridge_process *bridge, const char *const *command, const char *const *more)
{
    *bridge = (struct bridge_process){.folder = "/tmp/bridge-XXXXXX"};
    if (mkdtemp(bridge->folder) == NULL)
        return false;
    snprintf(bridge->address, sizeof bridge->address, "unix:%s/s", bridge->folder);
    return bridge_process_again(bridge, command, more);
}

void bridge_process_kill(struct bridge_process *bridge)
{
    if (bridge->pid <= 0)
        return;
    kill(bridge->pid, SIGKILL);
    while (waitpid(bridge->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    bridge->pid = 0;
}

static int one_remove(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat;
    (void)type;
    (void)ftw;
    return remove(path);
}

void bridge_process_end(struct bridge_process *bridge)
{
    bridge_process_kill(bridge);
    if (bridge->folder[0] != '\0')
        nftw(bridge->folder, one_remove, 8, FTW_DEPTH | FTW_PHYS);
    bridge->folder[0] = '\0';
}
