#include "fix_venue_process.h"

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

enum { WORDS_MAX = 48 };

static _Noreturn void run(const struct fix_venue_process *venue, const char *program, const char *const *more, int in, int out)
{
    const char *words[WORDS_MAX] = {program, "--ledger", venue->ledger};
    size_t n = 3;
    for (; *more != NULL && n + 1 < WORDS_MAX; more++)
        words[n++] = *more;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    execv(program, (char *const *)(uintptr_t)words);
    _exit(127);
}

bool fix_venue_start(struct fix_venue_process *venue, const char *program, const char *const *words)
{
    int in[2], out[2];
    char said[128] = "";
    size_t used = 0;
    *venue = (struct fix_venue_process){.folder = "/tmp/fix-venue-XXXXXX"};
    if (mkdtemp(venue->folder) == NULL || pipe(in) != 0 || pipe(out) != 0)
        return false;
    snprintf(venue->ledger, sizeof venue->ledger, "%s/ledger", venue->folder);
    snprintf(venue->sessions, sizeof venue->sessions, "%s/sessions.ini", venue->folder);
    venue->pid = fork();
    if (venue->pid == 0) {
        close(in[1]);
        close(out[0]);
        run(venue, program, words, in[0], out[1]);
    }
    close(in[0]);
    close(out[1]);
    venue->commands = in[1];
    while (venue->pid > 0 && used + 1 < sizeof said && strchr(said, '\n') == NULL) {
        ssize_t got = read(out[0], said + used, sizeof said - 1 - used);
        if (got == 0 || (got < 0 && errno != EINTR))
            break;
        used += got > 0 ? (size_t)got : 0;
    }
    close(out[0]);
    return sscanf(said, "ready port=%d", &venue->port) == 1;
}

static int one_remove(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat;
    (void)type;
    (void)ftw;
    return remove(path);
}

void fix_venue_end(struct fix_venue_process *venue)
{
    if (venue->pid > 0) {
        kill(venue->pid, SIGKILL);
        while (waitpid(venue->pid, NULL, 0) < 0 && errno == EINTR) {
        }
        close(venue->commands);
    }
    nftw(venue->folder, one_remove, 8, FTW_DEPTH | FTW_PHYS);
    *venue = (struct fix_venue_process){.pid = 0};
}
