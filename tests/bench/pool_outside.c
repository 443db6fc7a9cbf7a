/* pool_outside.c - pools of other languages, each a program that this one drives through two pipes.
 *
 * stdin: 'g' per burst. stdout: '+' once its threads are there; per burst the offsets from its beginning in ns: when
 * each close was taken up, then when each copy started (8 bytes each, the lowest first). A clock of its own is enough. */
#include "pool.h"

#include <tradewake/base/clock.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    pid_t pid;
    int to, from;
} outside;

static bool read_all(int file, void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = read(file, (char *)bytes + done, size - done);
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static _Noreturn void outside_exec(const int to[2], const int from[2], char *const *command)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    for (int file = 3; file < 256; file++)
        close(file);
    execvp(command[0], command);
    _exit(127);
}

/* program: NULL-terminated, with room for the numbers behind it. */
static bool outside_open(const struct pool_settings *settings, struct burst *burst, const char **program, size_t n)
{
    char numbers[5][24];
    snprintf(numbers[0], sizeof numbers[0], "%u", burst->closes);
    snprintf(numbers[1], sizeof numbers[1], "%u", burst->followers);
    snprintf(numbers[2], sizeof numbers[2], "%lld", (long long)burst->answer_ns);
    snprintf(numbers[3], sizeof numbers[3], "%lld", (long long)burst->work_ns);
    snprintf(numbers[4], sizeof numbers[4], "%u", settings->threads);
    for (int i = 0; i < 5; i++)
        program[n++] = numbers[i];
    program[n] = NULL;

    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
        return false;
    outside.pid = fork();
    if (outside.pid == 0)
        outside_exec(to, from, (char *const *)(uintptr_t)program);
    close(to[0]);
    close(from[1]);
    outside.to = to[1];
    outside.from = from[0];
    char byte = 0;
    bool is_good = outside.pid > 0 && read_all(outside.from, &byte, 1) && byte == '+';
    atomic_store(&burst->threads, settings->threads);
    burst->cpu_of = outside.pid;
    return is_good;
}

static void outside_submit(struct burst *burst)
{
    uint32_t copies = burst_copies(burst);
    size_t n = (size_t)burst->closes + copies;
    int64_t *told = calloc(n, sizeof *told);
    const char byte = 'g';
    if (told == NULL || write(outside.to, &byte, 1) != 1 || !read_all(outside.from, told, n * sizeof *told)) {
        fprintf(stderr, "the pool's program has died\n");
        exit(1);
    }
    for (uint32_t copy = 0; copy < copies; copy++)
        burst->copies[copy] = (struct copy_times){
            .event_mono_ns = burst->from_mono_ns + told[copy / burst->followers],
            .started_mono_ns = burst->from_mono_ns + told[burst->closes + copy],
            .threads_at_start = atomic_load(&burst->threads),
        };
    free(told);
    atomic_store(&burst->answered, copies);
}

static void outside_close(void)
{
    close(outside.to);
    close(outside.from);
    if (outside.pid > 0)
        waitpid(outside.pid, NULL, 0);
}

/* ---- Java ---- */

static bool java_is_there(void)
{
    return system("java -version >/dev/null 2>&1") == 0;
}

static bool java_open(const struct pool_settings *settings, struct burst *burst)
{
    const char *program[12] = {"java", "-Xss256k", BENCH_FOLDER "/outside/Burst.java"};
    return outside_open(settings, burst, program, 3);
}

const struct pool pool_java = {
    .name = "java",
    .about = "ThreadPoolExecutor, its threads prestarted",
    .missing = "not installed: there is no java",
    .is_there = java_is_there,
    .open = java_open,
    .submit = outside_submit,
    .close = outside_close,
};

/* ---- Tokio ---- */

/* build/tokio/release/burst, seen from build/PRESET/tradewake-bench. */
static const char *tokio_program(void)
{
    static char path[512];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
    if (length <= 0)
        return NULL;
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL)
        return NULL;
    strcpy(slash, "/../tokio/release/burst");
    return path;
}

static bool tokio_is_there(void)
{
    const char *program = tokio_program();
    return program != NULL && access(program, X_OK) == 0;
}

static bool tokio_open(const struct pool_settings *settings, struct burst *burst)
{
    const char *program[12] = {tokio_program()};
    return outside_open(settings, burst, program, 1);
}

const struct pool pool_tokio = {
    .name = "tokio",
    .about = "Tokio's blocking pool, its threads started",
    .missing = "not built: tests/bench/outside/build, with cargo",
    .is_there = tokio_is_there,
    .open = tokio_open,
    .submit = outside_submit,
    .close = outside_close,
};
