#include "hosts.h"

#include <tradewake/base/clock.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS          100 /* a process that ends says so by its pipe; one whose pipe somebody else holds is looked at */
#define AGAIN_NS_MIN     (100 * TW_NS_PER_MS)
#define AGAIN_NS_MAX     (2 * TW_NS_PER_S)
#define STEADY_NS        (10 * TW_NS_PER_S) /* one that lived so long has not failed to start */
#define READY_NS         (20 * TW_NS_PER_S) /* a library that is not loaded by then hangs */
#define SILENT_NS        (10 * TW_NS_PER_S) /* fifty times what is usual: a busy machine is no reason */
#define ANSWERING_NS     (2 * TW_NS_PER_S) /* after so long a question is not worth its wait */
#define END_NS           (2 * TW_NS_PER_S)

/* Of a host's output at a look, in lines' lengths: all that a pipe holds. Its log lines a second: all that a library may say. */
enum { READS_MAX = 32, LOG_LINES_PER_S = 256 };
enum { PIPE_LINE_BYTES = 2048, WHY_BYTES = 512, PATH_BYTES = 128 };
enum state { STATE_DOWN, STATE_STARTING, STATE_READY, STATE_BARRED };

struct host {
    /* Set by the start, read-only afterwards: any thread. */
    const struct tw_plugin_entry *entry;
    char address[PATH_BYTES];

    /* Guarded by hosts.lock while the start waits, the thread's alone afterwards. */
    enum state state;
    struct tw_plugin_about about;
    bool was_ready, has_failed; /* once; the first time */
    char why[WHY_BYTES];        /* the last that it said of itself before it ended */

    /* The thread's. */
    pid_t pid; /* 0 = none */
    int pipe, pulse; /* -1 = none */
    int64_t looked_mono_ns, silent_ns; /* since a sign of life; while it starts, since it was started */
    int64_t due_mono_ns, again_ns, ready_mono_ns;
    char line[PIPE_LINE_BYTES];
    size_t used;
    struct tw_log_pace said_pace, log_pace;

    atomic_bool is_answering; /* written by the thread */
};

struct hosts {
    struct hosts_options options;
    char dir[PATH_BYTES];
    bool is_dir_ours; /* made by us, to be removed */
    pthread_t thread;
    bool is_started;
    int wake; /* eventfd */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_stopping; /* under lock */
    size_t n;
    struct host list[];
};

/* ---- What a host says of itself ---- */

void hosts_ready_line(const struct tw_plugin_about *about, char *line, size_t size)
{
    snprintf(line, size,
             "tradewake-host 1 threads=%s hedging=%d netting=%d lookup=%d reduce_only=%d id=%u calls=%u sessions=%u timeout_ms=%u "
             "settle_ms=%u",
             about->threads, about->hedging, about->netting, about->lookup, about->reduce_only, about->id_strength,
             about->calls_max, about->sessions_max, about->call_timeout_ms, about->settle_ms);
}

bool hosts_ready_parse(const char *line, struct tw_plugin_about *ret)
{
    int hedging, netting, lookup, reduce_only, end = 0;
    *ret = (struct tw_plugin_about){0};
    int n = sscanf(line,
                   "tradewake-host 1 threads=%15s hedging=%d netting=%d lookup=%d reduce_only=%d id=%u calls=%u sessions=%u "
                   "timeout_ms=%u settle_ms=%u%n",
                   ret->threads, &hedging, &netting, &lookup, &reduce_only, &ret->id_strength, &ret->calls_max,
                   &ret->sessions_max, &ret->call_timeout_ms, &ret->settle_ms, &end);
    if (n != 10 || line[end] != '\0')
        return false;
    ret->hedging = hedging != 0;
    ret->netting = netting != 0;
    ret->lookup = lookup != 0;
    ret->reduce_only = reduce_only != 0;
    return true;
}

static bool is_same(const struct tw_plugin_about *a, const struct tw_plugin_about *b)
{
    char first[HOSTS_LINE_BYTES], second[HOSTS_LINE_BYTES];
    hosts_ready_line(a, first, sizeof first);
    hosts_ready_line(b, second, sizeof second);
    return strcmp(first, second) == 0;
}

static void host_ready(struct hosts *hosts, struct host *host, const struct tw_plugin_about *about)
{
    bool is_other = host->was_ready && !is_same(&host->about, about);
    pthread_mutex_lock(&hosts->lock);
    host->state = is_other ? STATE_BARRED : STATE_READY;
    if (!host->was_ready) /* its first word stands, and is read without a lock */
        host->about = *about;
    host->was_ready = true;
    pthread_cond_broadcast(&hosts->changed);
    pthread_mutex_unlock(&hosts->lock);
    host->ready_mono_ns = tw_mono_ns();
    host->silent_ns = 0;
    atomic_store(&host->is_answering, !is_other);
    if (is_other) {
        tw_log(TW_LOG_ERROR, "host.changed",
               "plugin=%s why=\"the library says something else of itself than before\" next=\"it stays down\" do=\"start the server anew\"",
               host->entry->name);
        kill(host->pid, SIGKILL);
        return;
    }
    tw_log(TW_LOG_INFO, "host.ready", "plugin=%s pid=%ld threads=%s", host->entry->name, (long)host->pid, about->threads);
}

/* "2026-11-30T09:48:36.123Z W event words": a line of a log like ours. NULL: it is none. */
static const char *log_line_parse(const char *line, enum tw_log_level *ret_level, char ret_event[64])
{
    static const char letters[] = "DIWE";
    int end = 0;
    char time[32], letter;
    if (sscanf(line, "%31s %c %63[a-z_.] %n", time, &letter, ret_event, &end) != 3 || end == 0)
        return NULL;
    const char *found = strchr(letters, letter);
    if (found == NULL || strchr(ret_event, '.') == NULL || strlen(time) < 20 || time[10] != 'T')
        return NULL;
    *ret_level = (enum tw_log_level)(found - letters);
    return line + end;
}

/* Where it is to stand in quotes, plain text without any; else it stays one line, and moves no cursor. */
static void printable(char *text, bool is_quoted)
{
    for (char *at = text; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f || (is_quoted && (unsigned char)*at >= 0x80))
            *at = '?';
        else if (is_quoted && *at == '"')
            *at = '\'';
}

static void line_take(struct hosts *hosts, struct host *host, char *line)
{
    struct tw_plugin_about about;
    enum tw_log_level level;
    char event[64];
    if (line[0] == '\0')
        return;
    if (host->state == STATE_STARTING && hosts_ready_parse(line, &about)) {
        host_ready(hosts, host, &about);
        return;
    }
    const char *words = log_line_parse(line, &level, event);
    printable(line, words == NULL);
    if (words == NULL || level == TW_LOG_ERROR)
        snprintf(host->why, sizeof host->why, "%.*s", WHY_BYTES - 1, words != NULL ? words : line);
    if (words != NULL && tw_log_paced_at(&host->log_pace, "plugin.log", LOG_LINES_PER_S))
        tw_log(level, event, "%s", words);
    else if (words == NULL && tw_log_paced(&host->said_pace, "plugin.said"))
        tw_log(TW_LOG_INFO, "plugin.said", "adapter=plugin:%s text=\"%.500s\"", host->entry->name, line);
}

static void pipe_close(int *pipe)
{
    if (*pipe >= 0)
        close(*pipe);
    *pipe = -1;
}

/* No text ends before its line. */
static void zeroes_fill(char *text, size_t size)
{
    for (char *zero = memchr(text, '\0', size); zero != NULL; zero = memchr(zero, '\0', size - (size_t)(zero - text)))
        *zero = '?';
}

/* Whole lines; one that is too long is taken in pieces. What is left after so much waits for the next look: others have something
 * to say, too. */
static void pipe_read(struct hosts *hosts, struct host *host)
{
    for (int i = 0; i < READS_MAX; i++) {
        ssize_t got = read(host->pipe, host->line + host->used, sizeof host->line - 1 - host->used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0) /* nobody holds the other end any more */
            pipe_close(&host->pipe);
        if (got <= 0)
            return;
        zeroes_fill(host->line + host->used, (size_t)got);
        host->used += (size_t)got;
        host->line[host->used] = '\0';
        char *at = host->line;
        for (char *end = strchr(at, '\n'); end != NULL; end = strchr(at, '\n')) {
            *end = '\0';
            line_take(hosts, host, at);
            at = end + 1;
        }
        if (at == host->line && host->used == sizeof host->line - 1) {
            line_take(hosts, host, at);
            at += host->used;
        }
        host->used -= (size_t)(at - host->line);
        memmove(host->line, at, host->used + 1);
    }
}

/* ---- Processes ---- */

/* No file of the server's is its, nor what the server does with signals. 0 or an errno. */
static int process_spawn(const char *program, char *const argv[], int output, int pulse, pid_t *ret_pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, usual;
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&files, pulse, HOSTS_PULSE_FD);
    posix_spawn_file_actions_addclosefrom_np(&files, HOSTS_PULSE_FD + 1);
    sigemptyset(&none);
    sigfillset(&usual);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int failed = posix_spawn(ret_pid, program, &files, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    return failed;
}

/* With its output and its pulse to be read here. 0 or an errno. */
static int process_start(const struct hosts *hosts, struct host *host, char *const argv[])
{
    int output[2], pulse[2] = {-1, -1};
    if (pipe2(output, O_CLOEXEC) != 0)
        return errno;
    int failed = pipe2(pulse, O_CLOEXEC | O_NONBLOCK) == 0 ? 0 : errno;
    if (failed == 0)
        failed = process_spawn(hosts->options.program, argv, output[1], pulse[1], &host->pid);
    pipe_close(&output[1]);
    pipe_close(&pulse[1]);
    if (failed != 0) {
        pipe_close(&output[0]);
        pipe_close(&pulse[0]);
        return failed;
    }
    pipe_close(&host->pipe); /* somebody that the last one left behind may hold its other end */
    pipe_close(&host->pulse);
    host->pipe = output[0];
    host->pulse = pulse[0];
    (void)fcntl(host->pipe, F_SETFL, O_NONBLOCK);
    return 0;
}

static void host_put_off(struct host *host)
{
    host->due_mono_ns = tw_mono_ns() + host->again_ns;
    host->again_ns = 2 * host->again_ns < AGAIN_NS_MAX ? 2 * host->again_ns : AGAIN_NS_MAX;
}

static void host_failed(struct hosts *hosts, struct host *host, const char *why)
{
    pthread_mutex_lock(&hosts->lock);
    if (!host->was_ready && why != host->why)
        snprintf(host->why, sizeof host->why, "%.*s", WHY_BYTES - 1, why);
    host->has_failed = !host->was_ready;
    pthread_cond_broadcast(&hosts->changed);
    pthread_mutex_unlock(&hosts->lock);
}

static void host_spawn(struct hosts *hosts, struct host *host)
{
    enum { WORD_BYTES = 600 };
    static const char *const levels[] = {"debug", "info", "warn", "error", "none"};
    const struct hosts_options *options = &hosts->options;
    char words[11][WORD_BYTES];
    snprintf(words[0], WORD_BYTES, "tradewake");
    snprintf(words[1], WORD_BYTES, "plugin-host");
    snprintf(words[2], WORD_BYTES, "--plugin=%s", host->entry->library);
    snprintf(words[3], WORD_BYTES, "--name=%s", host->entry->name);
    snprintf(words[4], WORD_BYTES, "--listen=%s", host->address);
    snprintf(words[5], WORD_BYTES, "--parent=%ld", (long)getpid());
    snprintf(words[6], WORD_BYTES, "--threads-max=%u", options->threads_max);
    snprintf(words[7], WORD_BYTES, "--threads-lost-max=%u", options->threads_lost_max);
    snprintf(words[8], WORD_BYTES, "--log-level=%s", levels[tw_log_level_get()]);
    snprintf(words[9], WORD_BYTES, "--leaders=%s%s%s", options->realtime ? "realtime" : "ordinary", options->pinned ? ",pinned" : "",
             options->core_dumps ? ",core-dumps" : "");
    snprintf(words[10], WORD_BYTES, "--secrets=%s", options->secrets_dir != NULL ? options->secrets_dir : "");
    char *argv[] = {words[0], words[1], words[2], words[3], words[4], words[5], words[6], words[7], words[8], words[9], words[10], NULL};
    if (options->secrets_dir == NULL || options->secrets_dir[0] == '\0')
        argv[10] = NULL;
    int failed = process_start(hosts, host, argv);
    if (failed != 0) {
        host->pid = 0;
        tw_log(TW_LOG_ERROR, "host.not_started", "plugin=%s why=\"%s\"", host->entry->name, strerror(failed));
        host_failed(hosts, host, strerror(failed));
        host_put_off(host);
        return;
    }
    host->used = 0;
    host->state = STATE_STARTING;
    host->silent_ns = 0;
    host->looked_mono_ns = tw_mono_ns();
    host->why[0] = '\0';
}

static void host_ended(struct hosts *hosts, struct host *host, int status)
{
    char how[64];
    snprintf(how, sizeof how, "%s=%d", WIFEXITED(status) ? "code" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    if (host->pipe >= 0)
        pipe_read(hosts, host); /* its last words */
    host->pid = 0;
    atomic_store(&host->is_answering, false);
    if (host->state == STATE_BARRED)
        return;
    bool was_steady = host->state == STATE_READY && tw_mono_ns() - host->ready_mono_ns > STEADY_NS;
    host->state = STATE_DOWN;
    host->again_ns = was_steady ? AGAIN_NS_MIN : host->again_ns;
    if (!host->was_ready) {
        char why[WHY_BYTES + 160];
        snprintf(why, sizeof why, "%s%sit ended with %s before it was ready", host->why, host->why[0] != '\0' ? ": " : "", how);
        host_failed(hosts, host, host->why[0] != '\0' && WIFEXITED(status) ? host->why : why);
        host->due_mono_ns = INT64_MAX;
        return;
    }
    tw_log(TW_LOG_ERROR, "host.ended", "plugin=%s %s next=start_again in_ms=%lld", host->entry->name, how,
           (long long)(host->again_ns / TW_NS_PER_MS));
    host_put_off(host);
}

/* Silence is counted look by look: what stood still together with us is not held against it. */
static void host_listen(struct host *host)
{
    const int64_t look_ns = 2 * LOOK_MS * TW_NS_PER_MS;
    char beats[256];
    int64_t now_ns = tw_mono_ns(), since_ns = now_ns - host->looked_mono_ns;
    host->looked_mono_ns = now_ns;
    host->silent_ns += since_ns < look_ns ? since_ns : look_ns;
    if (read(host->pulse, beats, sizeof beats) > 0 && host->state == STATE_READY)
        host->silent_ns = 0;
    atomic_store(&host->is_answering, host->state == STATE_READY && host->silent_ns < ANSWERING_NS);
    if (!host->was_ready || host->silent_ns < (host->state == STATE_STARTING ? READY_NS : SILENT_NS))
        return; /* of the first start somebody waits, and says what is wrong */
    tw_log(TW_LOG_ERROR, "host.silent", "plugin=%s pid=%ld why=\"%s\" silent_ms=%lld next=kill", host->entry->name, (long)host->pid,
           host->state == STATE_STARTING ? "it does not say that it is ready" : "no sign of life",
           (long long)(host->silent_ns / TW_NS_PER_MS));
    host->silent_ns = 0;
    kill(host->pid, SIGKILL);
}

static void host_look(struct hosts *hosts, struct host *host)
{
    int status;
    if (host->pid > 0) {
        pid_t ended = waitpid(host->pid, &status, WNOHANG);
        if (ended == host->pid)
            host_ended(hosts, host, status);
        else
            host_listen(host);
    }
    if (host->pid == 0 && host->state != STATE_BARRED && tw_mono_ns() >= host->due_mono_ns)
        host_spawn(hosts, host);
}

/* ---- The thread ---- */

static bool is_stopping(struct hosts *hosts)
{
    pthread_mutex_lock(&hosts->lock);
    bool is_stopping = hosts->is_stopping;
    pthread_mutex_unlock(&hosts->lock);
    return is_stopping;
}

static void hosts_wait(struct hosts *hosts)
{
    struct pollfd files[TW_PLUGIN_ENTRIES_MAX + 1];
    files[0] = (struct pollfd){.fd = hosts->wake, .events = POLLIN};
    for (size_t i = 0; i < hosts->n; i++)
        files[i + 1] = (struct pollfd){.fd = hosts->list[i].pipe, .events = POLLIN};
    (void)poll(files, hosts->n + 1, LOOK_MS);
    for (size_t i = 0; i < hosts->n; i++)
        if (hosts->list[i].pipe >= 0)
            pipe_read(hosts, &hosts->list[i]);
}

static size_t running(const struct hosts *hosts)
{
    size_t n = 0;
    for (size_t i = 0; i < hosts->n; i++)
        n += hosts->list[i].pid > 0;
    return n;
}

static void hosts_signal(const struct hosts *hosts, int number)
{
    for (size_t i = 0; i < hosts->n; i++)
        if (hosts->list[i].pid > 0)
            kill(hosts->list[i].pid, number);
}

/* Those that do not end when they are asked to have nothing left that is worth waiting for. */
static void hosts_end(struct hosts *hosts)
{
    const struct timespec moment = {0, 5 * TW_NS_PER_MS};
    int64_t until = tw_mono_ns() + END_NS;
    bool is_killed = false;
    hosts_signal(hosts, SIGTERM);
    while (running(hosts) > 0) {
        for (size_t i = 0; i < hosts->n; i++)
            if (hosts->list[i].pid > 0 && waitpid(hosts->list[i].pid, NULL, WNOHANG) == hosts->list[i].pid)
                hosts->list[i].pid = 0;
        if (!is_killed && tw_mono_ns() >= until) {
            hosts_signal(hosts, SIGKILL);
            is_killed = true;
        }
        if (running(hosts) > 0)
            clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
    }
}

/* The processes are told of the end of the thread that started them: it lives until the last of them has ended. */
static void *hosts_main(void *arg)
{
    struct hosts *hosts = arg;
    while (!is_stopping(hosts)) {
        for (size_t i = 0; i < hosts->n; i++)
            host_look(hosts, &hosts->list[i]);
        hosts_wait(hosts);
    }
    hosts_end(hosts);
    return NULL;
}

/* ---- Life ---- */

/* Nobody else looks into it: who can open a socket there can trade. */
static tw_status dir_make(struct hosts *hosts, struct tw_error *error)
{
    const char *state = hosts->options.state_dir, *tmp = getenv("TMPDIR");
    size_t longest = sizeof((struct sockaddr_un *)NULL)->sun_path - TW_PLUGIN_ENTRY_NAME_MAX - 2;
    int length = state != NULL ? snprintf(hosts->dir, sizeof hosts->dir, "%s/hosts", state) : 0;
    if (length > 0 && (size_t)length < longest) {
        if (mkdir(hosts->dir, 0700) != 0 && errno != EEXIST)
            return tw_error_set(error, TW_IO, "%s cannot be made: %s", hosts->dir, strerror(errno));
        return chmod(hosts->dir, 0700) == 0 ? TW_OK
                                            : tw_error_set(error, TW_IO, "%s cannot be made private: %s", hosts->dir, strerror(errno));
    }
    snprintf(hosts->dir, sizeof hosts->dir, "%.64s/tradewake-XXXXXX", tmp != NULL && tmp[0] == '/' && strlen(tmp) < 64 ? tmp : "/tmp");
    hosts->is_dir_ours = mkdtemp(hosts->dir) != NULL;
    return hosts->is_dir_ours ? TW_OK : tw_error_set(error, TW_IO, "%s cannot be made: %s", hosts->dir, strerror(errno));
}

/* Under lock. */
static const struct host *first_not_ready(const struct hosts *hosts)
{
    for (size_t i = 0; i < hosts->n; i++)
        if (!hosts->list[i].was_ready)
            return &hosts->list[i];
    return NULL;
}

static tw_status ready_await(struct hosts *hosts, struct tw_error *error)
{
    int64_t until_ns = tw_mono_ns() + READY_NS;
    const struct timespec until = {until_ns / TW_NS_PER_S, until_ns % TW_NS_PER_S};
    pthread_mutex_lock(&hosts->lock);
    const struct host *host = first_not_ready(hosts);
    for (int status = 0; host != NULL && !host->has_failed && status == 0; host = first_not_ready(hosts))
        status = pthread_cond_clockwait(&hosts->changed, &hosts->lock, CLOCK_MONOTONIC, &until);
    char why[WHY_BYTES] = "it does not say that it is ready";
    bool has_failed = host != NULL && host->has_failed;
    if (has_failed)
        memcpy(why, host->why, sizeof why);
    pthread_mutex_unlock(&hosts->lock);
    if (host == NULL)
        return TW_OK;
    return tw_error_set(error, has_failed ? TW_INVALID : TW_TIMEOUT, "plugin %s, %s, in a process of its own: %s", host->entry->name,
                        host->entry->library, why);
}

static tw_status addresses_make(struct hosts *hosts, struct tw_error *error)
{
    for (size_t i = 0; i < hosts->n; i++) {
        struct host *host = &hosts->list[i];
        int length = snprintf(host->address, sizeof host->address, "unix:%s/%s", hosts->dir, host->entry->name);
        if (length < 0 || (size_t)length >= sizeof host->address)
            return tw_error_set(error, TW_INVALID, "no room for the socket of plugin %s", host->entry->name);
    }
    return TW_OK;
}

tw_status hosts_start(const struct hosts_options *options, struct hosts **ret_hosts, struct tw_error *error)
{
    struct hosts *hosts = calloc(1, sizeof *hosts + options->n * sizeof hosts->list[0]);
    if (hosts == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the plugins' processes");
    hosts->options = *options;
    hosts->n = options->n < TW_PLUGIN_ENTRIES_MAX ? options->n : TW_PLUGIN_ENTRIES_MAX;
    for (size_t i = 0; i < hosts->n; i++) {
        hosts->list[i].entry = &options->entries[i];
        hosts->list[i].pipe = hosts->list[i].pulse = -1;
        hosts->list[i].again_ns = AGAIN_NS_MIN;
    }
    pthread_mutex_init(&hosts->lock, NULL);
    pthread_cond_init(&hosts->changed, NULL);
    hosts->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    tw_status status = dir_make(hosts, error);
    if (status == TW_OK)
        status = addresses_make(hosts, error);
    if (status == TW_OK) {
        hosts->is_started = hosts->wake >= 0 && pthread_create(&hosts->thread, NULL, hosts_main, hosts) == 0;
        status = hosts->is_started ? ready_await(hosts, error)
                                   : tw_error_set(error, TW_NO_MEMORY, "no thread for the plugins' processes");
    }
    if (status != TW_OK) {
        hosts_stop(hosts);
        return status;
    }
    *ret_hosts = hosts;
    return TW_OK;
}

void hosts_stop(struct hosts *hosts)
{
    if (hosts == NULL)
        return;
    if (hosts->is_started) {
        const uint64_t one = 1;
        pthread_mutex_lock(&hosts->lock);
        hosts->is_stopping = true;
        pthread_mutex_unlock(&hosts->lock);
        ssize_t written = write(hosts->wake, &one, sizeof one);
        (void)written; /* it looks every tenth of a second anyway */
        pthread_join(hosts->thread, NULL);
    }
    for (size_t i = 0; i < hosts->n; i++) {
        pipe_close(&hosts->list[i].pipe);
        pipe_close(&hosts->list[i].pulse);
        if (hosts->list[i].address[0] != '\0')
            unlink(hosts->list[i].address + strlen("unix:"));
    }
    if (hosts->is_dir_ours)
        rmdir(hosts->dir);
    if (hosts->wake >= 0)
        close(hosts->wake);
    pthread_cond_destroy(&hosts->changed);
    pthread_mutex_destroy(&hosts->lock);
    free(hosts);
}

const char *hosts_address(const struct hosts *hosts, size_t index)
{
    return hosts->list[index].address;
}

const struct tw_plugin_about *hosts_about(const struct hosts *hosts, size_t index)
{
    return &hosts->list[index].about; /* its first word stands */
}

bool hosts_is_answering(const struct hosts *hosts, size_t index)
{
    return atomic_load(&hosts->list[index].is_answering);
}
