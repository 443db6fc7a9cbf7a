#include "journal_tool.h"

#include <tradewake/base/clock.h>
#include <tradewake/engine/records.h>
#include <tradewake/journal/tool.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS (20 * TW_NS_PER_MS)

extern char **environ;

/* ---- The commands ---- */

/* Whatever else wants the processor or the disk comes first; but not for ever (SCHED_IDLE, the idle class of
 * disks): on a machine that is never idle the log would grow and grow. Whoever asked may be gone at any time. */
static void step_back(void)
{
    enum { WHO_PROCESS = 1, LOWEST = 2 << 13 | 7 }; /* of ioprio_set(2): best effort, the last of it */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpriority(PRIO_PROCESS, 0, 15);
    syscall(SYS_ioprio_set, WHO_PROCESS, 0, LOWEST);
}

static int make_snapshot(const struct tw_cli_journal *wanted)
{
    const struct tw_engine_snapshot_wanted snapshot = {
        .dir = wanted->dir,
        .until = wanted->until,
        .copies_remembered = wanted->copies_remembered,
        .events_remembered = wanted->events_remembered,
        .events_kept_ns = wanted->events_kept_ns,
    };
    struct tw_error error = {{0}};
    uint64_t bytes = 0;
    step_back();
    tw_status status = tw_engine_snapshot(&snapshot, &bytes, &error);
    if (status == TW_OK)
        printf("%s/%08" PRIu32 ".snapshot: %" PRIu64 " bytes\n", wanted->dir, wanted->until, bytes);
    else
        fprintf(stderr, "tradewake: %s\n", error.text);
    return status == TW_OK ? TW_EXIT_DONE : TW_EXIT_FAILED;
}

int tw_journal_command(const struct tw_cli_journal *wanted)
{
    const struct tw_journal_tool tool = {
        .dir = wanted->dir,
        .out = stdout,
        .err = stderr,
        .is_json = wanted->is_json,
        .type_name = tw_engine_record_name,
        .print = tw_engine_record_print,
        .from = wanted->from,
        .count = wanted->count,
        .follow = wanted->follow,
        .deadline_mono_ns = wanted->for_ns > 0 ? tw_mono_ns() + wanted->for_ns : 0,
    };
    switch (wanted->task) {
    case TW_CLI_JOURNAL_VERIFY:
        return tw_journal_verify(&tool);
    case TW_CLI_JOURNAL_DUMP:
        return tw_journal_dump(&tool);
    case TW_CLI_JOURNAL_TAIL:
        return tw_journal_tail(&tool);
    case TW_CLI_JOURNAL_SNAPSHOT:
        return make_snapshot(wanted);
    }
    return TW_EXIT_USAGE;
}

/* ---- In a process of its own ---- */

/* No file of the server's is its, nor what the server does with signals. 0 or an errno. */
static int start(char *const argv[], pid_t *ret_pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, usual;
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    sigemptyset(&none);
    sigfillset(&usual);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int failed = posix_spawn(ret_pid, "/proc/self/exe", &files, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    return failed;
}

/* Its end; false: it was ended because there is no time. */
static bool await(pid_t pid, bool (*should_stop)(void *stop), void *stop, int *ret_status)
{
    const struct timespec moment = {0, LOOK_NS};
    pid_t ended;
    while ((ended = waitpid(pid, ret_status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        if (should_stop(stop)) {
            kill(pid, SIGKILL);
            while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
                ;
            return false;
        }
        clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
    }
    return true;
}

tw_status tw_snapshot_in_process(void *context, const struct tw_engine_snapshot_wanted *wanted,
                                 bool (*should_stop)(void *stop), void *stop, struct tw_error *error)
{
    char dir[4096 + 8], until[32], copies[48], events[48], kept[48];
    char name[] = "tradewake", journal[] = "journal", snapshot[] = "snapshot";
    char *const argv[] = {name, journal, snapshot, dir, until, copies, events, kept, NULL};
    pid_t pid;
    int status = 0;
    (void)context;
    snprintf(dir, sizeof dir, "--dir=%s", wanted->dir);
    snprintf(until, sizeof until, "--until=%" PRIu32, wanted->until);
    snprintf(copies, sizeof copies, "--copies-remembered=%" PRIu32, wanted->copies_remembered);
    snprintf(events, sizeof events, "--events-remembered=%" PRIu32, wanted->events_remembered);
    snprintf(kept, sizeof kept, "--events-kept=%" PRId64 "ns", wanted->events_kept_ns);
    int failed = start(argv, &pid);
    if (failed != 0)
        return tw_error_set(error, TW_IO, "a process for the snapshot cannot be started: %s", strerror(failed));
    if (!await(pid, should_stop, stop, &status))
        return TW_CANCELLED;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return TW_OK;
    return tw_error_set(error, TW_IO, "the process that makes it ended with %s %d: see the line before this one",
                        WIFEXITED(status) ? "code" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}
