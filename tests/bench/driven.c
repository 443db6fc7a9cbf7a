#include "driven.h"

#include <tradewake/base/clock.h>

#include <google/protobuf/timestamp.pb-c.h>
#include <tradewake/v1/events.pb-c.h>
#include <tradewake/v1/followers.pb-c.h>
#include <tradewake/v1/metrics.pb-c.h>

#include <arpa/inet.h>
#include <assert.h>
#include <ftw.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FOLLOWERS "/tradewake.v1.FollowerService/"
#define METRICS "/tradewake.v1.MetricsService/"
#define ANSWER_BYTES_MAX ((size_t)64 << 20)
#define CALL_NS_MAX (30 * TW_NS_PER_S)
#define CONNECT_NS_MAX (60 * TW_NS_PER_S)

/* protobuf-c's text fields are not const; a request is only read. */
static char *text_of(const char *text)
{
    return (char *)(uintptr_t)text;
}

/* One call; words on stderr when it fails. */
static ProtobufCMessage *ask(struct driven *server, const char *path, const ProtobufCMessage *request,
                             struct tw_arena *arena)
{
    struct tw_error error = {0};
    ProtobufCMessage *response = NULL;
    if (tw_wire_client_call(server->client, path, request, tw_mono_ns() + CALL_NS_MAX, arena, &response, NULL,
                            &error) != TW_OK)
        fprintf(stderr, "%s: %s\n", path, error.text);
    return response;
}

/* ---- Start and stop ---- */

/* A port that nobody uses now; the server binds it a moment later. */
static int port_find(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = 0;
    if (bind(fd, (struct sockaddr *)&address, size) == 0 && getsockname(fd, (struct sockaddr *)&address, &size) == 0)
        port = ntohs(address.sin_port);
    close(fd);
    return port;
}

/* The program that was built beside this one. */
static bool program_find(char *path, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", path, size);
    char *slash = length > 0 && (size_t)length < size ? memrchr(path, '/', (size_t)length) : NULL;
    if (slash == NULL || (size_t)(slash - path) + sizeof "/tradewake" > size)
        return false;
    memcpy(slash, "/tradewake", sizeof "/tradewake");
    if (access(path, X_OK) == 0)
        return true;
    fprintf(stderr, "%s is not there: build the target tradewake\n", path);
    return false;
}

/* NULL: it is none. */
static const char *plugin_name(const char *adapter)
{
    static const char prefix[] = "plugin:";
    size_t length = sizeof prefix - 1;
    return strncmp(adapter, prefix, length) == 0 ? adapter + length : NULL;
}

enum { FIX_SESSIONS = 512 };

static bool is_fix(const char *adapter)
{
    return strcmp(adapter, "fix") == 0;
}

static _Noreturn void venue_exec(const char *program, int64_t answer_ns, int in, int out)
{
    char path[4096], delay[24], sessions[16];
    snprintf(path, sizeof path, "%.*s/fix_acceptor", (int)(strrchr(program, '/') - program), program);
    snprintf(delay, sizeof delay, "%lld", (long long)(answer_ns / TW_NS_PER_MS));
    snprintf(sessions, sizeof sessions, "%d", FIX_SESSIONS);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    execl(path, path, "--mode", "hedging", "--sessions", sessions, "--delay", delay, (char *)NULL);
    perror(path);
    _exit(127);
}

/* The venue, and the file that tells the server where it is. */
static bool venue_start(struct driven *server, const char *program, int64_t answer_ns)
{
    int in[2], out[2], port = 0;
    char path[320];
    snprintf(path, sizeof path, "%s/sessions.ini", server->dir);
    if (pipe(in) != 0 || pipe(out) != 0)
        return false;
    fflush(NULL);
    server->venue_pid = fork();
    if (server->venue_pid == 0) {
        close(in[1]);
        close(out[0]);
        venue_exec(program, answer_ns, in[0], out[1]);
    }
    close(in[0]);
    close(out[1]);
    server->venue_commands = in[1];
    fcntl(in[1], F_SETFD, FD_CLOEXEC);
    FILE *said = fdopen(out[0], "re"), *file = fopen(path, "we");
    bool is_ready = said != NULL && file != NULL && fscanf(said, "ready port=%d", &port) == 1;
    if (is_ready)
        fprintf(file,
                "[venue]\nprofile = ctrader\naddress = 127.0.0.1:%d\nsender = CLIENT{account}\ntarget = VENUE\n"
                "currency = USD\nsymbol EURUSD = 1 contract=100000 tick=0.00001 min=0.01 step=0.01 max=50 base=EUR quote=USD\n",
                port);
    else
        fprintf(stderr, "the FIX venue does not start: build the target fix_acceptor (libquickfix-dev)\n");
    if (said != NULL)
        fclose(said);
    return file != NULL && fclose(file) == 0 && is_ready;
}

/* What the server is told of plugins; an empty file where there is none. */
static bool config_write(const char *path, const char *program, const char *adapter, bool is_hosted)
{
    FILE *config = fopen(path, "we");
    const char *name = plugin_name(adapter);
    if (config != NULL && name != NULL)
        fprintf(config, "plugins: {%s: {library: %.*s/plugins/%s.so, in_process: %s}}\n", name,
                (int)(strrchr(program, '/') - program), program, name, is_hosted ? "false" : "true");
    if (config != NULL && is_fix(adapter))
        fprintf(config, "fix: {sessions: %.*s/sessions.ini}\n", (int)(strrchr(path, '/') - path), path);
    if (config != NULL && fclose(config) == 0)
        return true;
    perror(path);
    return false;
}

static _Noreturn void server_exec(const struct driven *server, const char *program, bool realtime, const char *adapter, bool is_hosted)
{
    char state[320], log[320], config[320];
    snprintf(state, sizeof state, "%s/state", server->dir);
    snprintf(log, sizeof log, "%s/log", server->dir);
    snprintf(config, sizeof config, "%s/config.yaml", server->dir);
    if (!config_write(config, program, adapter, is_hosted))
        _exit(127);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    execl(program, program, "serve", "--state-dir", state, "--listen", server->address, "--admin", "off",
          "--paper-control", "true", "--metrics-warm-up", "0", "--drain-lame-duck", "0", "--log-level", "warn",
          "--executor-realtime", realtime ? "auto" : "off", "--config", config, (char *)NULL);
    perror(program);
    _exit(127);
}

static void log_show(const struct driven *server)
{
    char path[320], line[512];
    snprintf(path, sizeof path, "%s/log", server->dir);
    FILE *log = fopen(path, "r");
    fprintf(stderr, "the server does not answer; its log says:\n");
    while (log != NULL && fgets(line, sizeof line, log) != NULL)
        fputs(line, stderr);
    if (log != NULL)
        fclose(log);
}

static bool answers_wait(struct driven *server)
{
    const Tradewake__V1__GetExecutorStatusRequest request = TRADEWAKE__V1__GET_EXECUTOR_STATUS_REQUEST__INIT;
    tw_status status = TW_UNREACHABLE;
    for (int64_t until_ns = tw_mono_ns() + CONNECT_NS_MAX; status != TW_OK && tw_mono_ns() < until_ns;) {
        struct tw_arena arena;
        ProtobufCMessage *response;
        tw_arena_init(&arena, ANSWER_BYTES_MAX);
        status = tw_wire_client_call(server->client, METRICS "GetExecutorStatus", &request.base,
                                     tw_mono_ns() + TW_NS_PER_S, &arena, &response, NULL, NULL);
        tw_arena_clear(&arena);
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
            server->pid = 0;
            break;
        }
        if (status != TW_OK)
            usleep(50000);
    }
    if (status != TW_OK)
        log_show(server);
    return status == TW_OK;
}

bool driven_start(bool realtime, struct driven *ret)
{
    return driven_start_with(realtime, "paper", false, 0, ret);
}

bool driven_start_with(bool realtime, const char *adapter, bool is_hosted, int64_t answer_ns, struct driven *ret)
{
    char program[4096];
    const char *tmp = getenv("TMPDIR");
    *ret = (struct driven){0};
    snprintf(ret->dir, sizeof ret->dir, "%s/tradewake-bench-XXXXXX", tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp");
    if (!program_find(program, sizeof program))
        return false;
    if (mkdtemp(ret->dir) == NULL) {
        perror(ret->dir);
        ret->dir[0] = '\0';
        return false;
    }
    if (is_fix(adapter) && !venue_start(ret, program, answer_ns))
        return false;
    snprintf(ret->address, sizeof ret->address, "127.0.0.1:%d", port_find());
    fflush(NULL);
    ret->pid = fork();
    if (ret->pid == 0)
        server_exec(ret, program, realtime, adapter, is_hosted);
    struct tw_error error = {0};
    if (tw_wire_client_open_plain(ret->address, &ret->client, &error) != TW_OK) {
        fprintf(stderr, "%s\n", error.text);
        return false;
    }
    return answers_wait(ret);
}

static int entry_remove(const char *path, const struct stat *about, int type, struct FTW *where)
{
    (void)about;
    (void)type;
    (void)where;
    return remove(path);
}

void driven_stop(struct driven *server)
{
    enum { FILES_OPEN_MAX = 16 };
    tw_wire_client_close(server->client);
    if (server->pid > 0) {
        kill(server->pid, SIGTERM);
        waitpid(server->pid, NULL, 0);
    }
    if (server->venue_pid > 0) {
        close(server->venue_commands);
        waitpid(server->venue_pid, NULL, 0);
    }
    if (server->dir[0] != '\0')
        nftw(server->dir, entry_remove, FILES_OPEN_MAX, FTW_DEPTH | FTW_PHYS);
    *server = (struct driven){0};
}

/* ---- The fleet ---- */

enum { CREATED_AT_ONCE = 32 };

struct creation {
    const struct driven_fleet *fleet;
    uint32_t n;
};

static size_t follower_pack(void *context, uint32_t slot, uint8_t bytes[LOAD_MESSAGE_BYTES])
{
    struct creation *creation = context;
    char id[16], account[16];
    bool is_at_venue = is_fix(creation->fleet->adapter);
    (void)slot;
    snprintf(id, sizeof id, "F%u", ++creation->n);
    snprintf(account, sizeof account, "%u", creation->n);
    Tradewake__V1__Follower__AdapterConfigEntry entries[2] = {
        TRADEWAKE__V1__FOLLOWER__ADAPTER_CONFIG_ENTRY__INIT, TRADEWAKE__V1__FOLLOWER__ADAPTER_CONFIG_ENTRY__INIT};
    Tradewake__V1__Follower__AdapterConfigEntry *config[2] = {&entries[0], &entries[1]};
    bool is_plugin = plugin_name(creation->fleet->adapter) != NULL;
    entries[0].key = text_of(is_plugin ? "stamps" : "latency");
    entries[0].value = text_of(!is_plugin ? creation->fleet->latency : creation->fleet->stamps != NULL ? creation->fleet->stamps : "");
    entries[1].key = text_of("nonblocking");
    entries[1].value = text_of(creation->fleet->is_blocking ? "false" : "true");
    if (is_at_venue) {
        entries[0].key = text_of("account");
        entries[0].value = account;
    }
    Tradewake__V1__Follower follower = TRADEWAKE__V1__FOLLOWER__INIT;
    follower.follower_id = id;
    follower.adapter = text_of(is_at_venue ? "fix:venue" : creation->fleet->adapter);
    follower.max_parallel = creation->fleet->max_parallel;
    follower.n_adapter_config = is_at_venue ? 1 : !is_plugin ? 2 : creation->fleet->stamps != NULL ? 1 : 0;
    follower.adapter_config = config;
    Tradewake__V1__CreateFollowerRequest request = TRADEWAKE__V1__CREATE_FOLLOWER_REQUEST__INIT;
    request.follower = &follower;
    assert(protobuf_c_message_get_packed_size(&request.base) <= LOAD_MESSAGE_BYTES);
    return protobuf_c_message_pack(&request.base, bytes);
}

static size_t subscription_pack(void *context, uint32_t slot, uint8_t bytes[LOAD_MESSAGE_BYTES])
{
    struct creation *creation = context;
    char id[16];
    (void)slot;
    snprintf(id, sizeof id, "F%u", ++creation->n);
    Tradewake__V1__Subscription subscription = TRADEWAKE__V1__SUBSCRIPTION__INIT;
    subscription.master_id = text_of("M1");
    subscription.follower_id = id;
    Tradewake__V1__CreateSubscriptionRequest request = TRADEWAKE__V1__CREATE_SUBSCRIPTION_REQUEST__INIT;
    request.subscription = &subscription;
    return protobuf_c_message_pack(&request.base, bytes);
}

static bool create_all(struct driven *server, const char *path, const struct driven_fleet *fleet,
                       size_t (*pack)(void *, uint32_t, uint8_t *))
{
    struct creation creation = {.fleet = fleet};
    const struct load_work work = {
        .count = fleet->followers, .outstanding = CREATED_AT_ONCE, .make = pack, .context = &creation};
    struct load *load = load_open(server->address, path, LOAD_UNARY);
    bool is_good = load != NULL && load_run(load, &work);
    load_close(load);
    return is_good;
}

/* How many followers an open would be sent to now; -1 when the question failed. */
static int64_t connected_count(struct driven *server)
{
    enum { PAGE = 1000 };
    char token[256] = "";
    int64_t connected = 0;
    do {
        struct tw_arena arena;
        tw_arena_init(&arena, ANSWER_BYTES_MAX);
        Tradewake__V1__ListFollowersRequest request = TRADEWAKE__V1__LIST_FOLLOWERS_REQUEST__INIT;
        request.page_size = PAGE;
        request.page_token = token;
        const Tradewake__V1__ListFollowersResponse *response =
            (const void *)ask(server, FOLLOWERS "ListFollowers", &request.base, &arena);
        for (size_t i = 0; response != NULL && i < response->n_followers; i++)
            connected += response->followers[i]->connected &&
                         response->followers[i]->blocked_by == TRADEWAKE__V1__REASON__REASON_UNSPECIFIED;
        snprintf(token, sizeof token, "%s", response != NULL ? response->next_page_token : "");
        connected = response != NULL ? connected : -1;
        tw_arena_clear(&arena);
    } while (connected >= 0 && token[0] != '\0');
    return connected;
}

bool driven_fleet(struct driven *server, const struct driven_fleet *fleet)
{
    if (!create_all(server, FOLLOWERS "CreateFollower", fleet, follower_pack) ||
        !create_all(server, FOLLOWERS "CreateSubscription", fleet, subscription_pack))
        return false;
    int64_t connected = 0;
    for (int64_t until_ns = tw_mono_ns() + CONNECT_NS_MAX; tw_mono_ns() < until_ns;) {
        connected = connected_count(server);
        if (connected < 0 || connected == fleet->followers)
            return connected > 0;
        usleep(100000);
    }
    fprintf(stderr, "%lld of %u followers are connected after %d s\n", (long long)connected, fleet->followers,
            (int)(CONNECT_NS_MAX / TW_NS_PER_S));
    return false;
}

/* ---- Events ---- */

size_t driven_event_pack(const struct driven_event *about, uint8_t bytes[LOAD_MESSAGE_BYTES])
{
    Google__Protobuf__Timestamp observed_at = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    Tradewake__V1__OpenPosition open = TRADEWAKE__V1__OPEN_POSITION__INIT;
    Tradewake__V1__ClosePosition close_ = TRADEWAKE__V1__CLOSE_POSITION__INIT;
    Tradewake__V1__TradeEvent event = TRADEWAKE__V1__TRADE_EVENT__INIT;
    observed_at.seconds = about->observed_wall_ns / TW_NS_PER_S;
    observed_at.nanos = (int32_t)(about->observed_wall_ns % TW_NS_PER_S);
    event.event_id = text_of(about->id);
    event.master_id = text_of("M1");
    event.observed_at = &observed_at;
    open.position_id = close_.position_id = text_of(about->position_id);
    open.symbol = text_of("EURUSD");
    open.side = TRADEWAKE__V1__SIDE__SIDE_BUY;
    open.volume = text_of("0.10");
    open.price = text_of("1.10000");
    if (about->is_close) {
        event.action_case = TRADEWAKE__V1__TRADE_EVENT__ACTION_CLOSE;
        event.close = &close_;
    } else {
        event.action_case = TRADEWAKE__V1__TRADE_EVENT__ACTION_OPEN;
        event.open = &open;
    }
    if (about->is_streamed) {
        Tradewake__V1__StreamEventsRequest request = TRADEWAKE__V1__STREAM_EVENTS_REQUEST__INIT;
        request.event = &event;
        return protobuf_c_message_pack(&request.base, bytes);
    }
    Tradewake__V1__SubmitEventRequest request = TRADEWAKE__V1__SUBMIT_EVENT_REQUEST__INIT;
    request.event = &event;
    request.view = TRADEWAKE__V1__COPY_VIEW__COPY_VIEW_COUNTS;
    request.wait_for = about->waits_until_done ? TRADEWAKE__V1__WAIT_FOR__WAIT_FOR_DONE
                                               : TRADEWAKE__V1__WAIT_FOR__WAIT_FOR_ACCEPTED;
    return protobuf_c_message_pack(&request.base, bytes);
}

/* ---- Questions ---- */

bool driven_realtime(struct driven *server, bool *ret)
{
    struct tw_arena arena;
    tw_arena_init(&arena, ANSWER_BYTES_MAX);
    const Tradewake__V1__GetExecutorStatusRequest request = TRADEWAKE__V1__GET_EXECUTOR_STATUS_REQUEST__INIT;
    const Tradewake__V1__ExecutorStatus *status =
        (const void *)ask(server, METRICS "GetExecutorStatus", &request.base, &arena);
    if (status != NULL)
        *ret = status->realtime;
    tw_arena_clear(&arena);
    return status != NULL;
}

static struct driven_histogram histogram_keep(const Tradewake__V1__Histogram *from)
{
    struct driven_histogram ret = {.count = from->count, .n = from->n_bucket_upper_ns};
    ret.upper_ns = calloc(2 * ret.n + 1, sizeof *ret.upper_ns);
    ret.counts = ret.upper_ns + ret.n;
    for (size_t i = 0; i < ret.n; i++) {
        ret.upper_ns[i] = from->bucket_upper_ns[i];
        ret.counts[i] = from->bucket_count[i];
    }
    return ret;
}

bool driven_summary_get(struct driven *server, struct driven_summary *ret)
{
    struct tw_arena arena;
    tw_arena_init(&arena, ANSWER_BYTES_MAX);
    const Tradewake__V1__GetOwnTimeSummaryRequest request = TRADEWAKE__V1__GET_OWN_TIME_SUMMARY_REQUEST__INIT;
    const Tradewake__V1__OwnTimeSummary *summary =
        (const void *)ask(server, METRICS "GetOwnTimeSummary", &request.base, &arena);
    *ret = (struct driven_summary){0};
    if (summary != NULL) {
        ret->samples_lost = summary->samples_lost;
        if (summary->n_groups > 0) {
            ret->held = summary->groups[0]->held;
            ret->own = histogram_keep(summary->groups[0]->own_time);
            ret->path = histogram_keep(summary->groups[0]->path_time);
        }
    }
    tw_arena_clear(&arena);
    return summary != NULL;
}

void driven_summary_clear(struct driven_summary *summary)
{
    free(summary->own.upper_ns);
    free(summary->path.upper_ns);
    *summary = (struct driven_summary){0};
}

static uint64_t count_at(const struct driven_histogram *histogram, uint64_t upper_ns, size_t *from)
{
    while (*from < histogram->n && histogram->upper_ns[*from] < upper_ns)
        (*from)++;
    return *from < histogram->n && histogram->upper_ns[*from] == upper_ns ? histogram->counts[*from] : 0;
}

struct times driven_times_between(const struct driven_histogram *before, const struct driven_histogram *after)
{
    struct times times = {0};
    uint64_t all = after->count - before->count, seen = 0;
    size_t at = 0;
    for (size_t i = 0; i < after->n; i++) {
        uint64_t here = after->counts[i] - count_at(before, after->upper_ns[i], &at);
        double ms = (double)after->upper_ns[i] / 1e6;
        if (here == 0)
            continue;
        uint64_t upto = seen + here;
        times.p50 = seen <= all * 500 / 1000 ? ms : times.p50;
        times.p95 = seen <= all * 950 / 1000 ? ms : times.p95;
        times.p99 = seen <= all * 990 / 1000 ? ms : times.p99;
        times.max = ms;
        seen = upto;
    }
    return times;
}

double process_cpu_us(pid_t pid)
{
    clockid_t clock;
    struct timespec used = {0};
    if (clock_getcpuclockid(pid, &clock) == 0)
        clock_gettime(clock, &used);
    return (double)used.tv_sec * 1e6 + (double)used.tv_nsec / 1e3;
}
