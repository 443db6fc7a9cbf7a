/* serve.c - the server put together, run, and taken apart again.
 *
 * Started from the inside out, so that the first call finds everything ready; stopped from the outside
 * in, so that nothing that is still called is gone:
 *   1 readiness falls, health says NOT_SERVING     4 GOAWAY, calls in progress end
 *   2 lame duck: everything is still served        5 what is at a broker comes back
 *   3 new calls are refused, streams are ended     6 threads, engine, sessions, adapters
 * A second signal, or drain.timeout, ends it at once. */
#include "serve.h"

#include "gate.h"
#include "health.h"
#include "journal_tool.h"
#include "listener.h"
#include "metric_lines.h"
#include "metrics_service.h"
#include "notify.h"
#include "paper_service.h"
#include "plugins.h"
#include "readers.h"
#include "reflection.h"
#include "services.h"

#include <tradewake/adapters/fix.h>
#include <tradewake/adapters/paper.h>
#include <tradewake/adapters/remote.h>
#include <tradewake/base/accept.h>
#include <tradewake/base/clock.h>
#include <tradewake/base/crash_point.h>
#include <tradewake/base/limits.h>
#include <tradewake/base/log.h>
#include <tradewake/engine/engine.h>
#include <tradewake/executor/executor.h>
#include <tradewake/executor/reactor.h>
#include <tradewake/telemetry/telemetry.h>
#include <tradewake/wire/server.h>

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <fcntl.h>
#include <unistd.h>

#define DEV_FOLLOWERS 30u
#define DEV_LATENCY "lognormal:130ms:0.30"
#define DEV_MASTER "M1"
#define CALLS_END_NS_MAX (3 * TW_NS_PER_S) /* a paper call answers within 2 s, or says that it cannot */

struct server {
    struct tw_settings *settings;
    const struct tw_cli_serving *serving;
    struct tw_executor *executor;
    struct tw_reactor *reactor;
    struct tw_telemetry *telemetry;
    _Atomic(struct tw_engine *) engine; /* telemetry asks before there is one */
    struct tw_wire_server *wire;
    struct tw_access *access; /* NULL = everybody may do everything */
    void *paper, *plugin, *remote, *fix; /* NULL = not open */
    struct tw_engine_adapter adapters[4];
    struct tw_plugin_entry plugin_entries[TW_PLUGINS_MAX];
    struct tw_plugins_own plugins_own;
    char paper_dir[512], fix_dir[512], journal_dir[512], history_path[512];
    int state_lock; /* file descriptor of the locked state directory; -1 = none */
    atomic_bool is_ready;
    bool is_memory_short; /* main's */
    struct listener listener;
};

static const struct tw_wire_method methods_all[] = {
    TW_SERVICE_METHODS, TW_METRICS_METHODS, TW_HEALTH_METHODS,
    TW_PAPER_METHODS, TW_REFLECTION_METHODS, {0},
};
static const struct tw_wire_method methods_paper[] = {
    TW_SERVICE_METHODS, TW_METRICS_METHODS, TW_HEALTH_METHODS, TW_PAPER_METHODS, {0},
};
static const struct tw_wire_method methods_reflection[] = {
    TW_SERVICE_METHODS, TW_METRICS_METHODS, TW_HEALTH_METHODS, TW_REFLECTION_METHODS, {0},
};
static const struct tw_wire_method methods_plain[] = {
    TW_SERVICE_METHODS, TW_METRICS_METHODS, TW_HEALTH_METHODS, {0},
};

static const struct tw_wire_method *methods_of(const struct tw_settings *settings)
{
    if (settings->paper_control)
        return settings->reflection ? methods_all : methods_paper;
    return settings->reflection ? methods_reflection : methods_plain;
}

/* ---- What telemetry asks ---- */

static void on_executor(void *context, struct tw_executor_status *ret_status, uint32_t *ret_needed)
{
    struct server *server = context;
    struct tw_engine *engine = atomic_load(&server->engine);
    *ret_status = (struct tw_executor_status){0};
    if (server->executor != NULL)
        tw_executor_status_get(server->executor, ret_status);
    *ret_needed = engine != NULL ? tw_engine_fleet_counts(engine).threads_needed : 0;
}

static void on_followers(void *context, uint32_t *ret_total, uint32_t *ret_connected)
{
    struct server *server = context;
    struct tw_engine *engine = atomic_load(&server->engine);
    struct tw_fleet_counts counts = {0};
    if (engine != NULL)
        counts = tw_engine_fleet_counts(engine);
    *ret_total = counts.followers;
    *ret_connected = counts.connected;
}

static bool on_history(void *context, uint64_t *ret_behind, bool *ret_is_failing)
{
    struct server *server = context;
    struct tw_engine *engine = atomic_load(&server->engine);
    struct tw_history_status status = {0};
    bool is_there = engine != NULL && tw_engine_history_status(engine, &status);
    *ret_behind = status.behind;
    *ret_is_failing = status.is_failing;
    return is_there;
}

static uint64_t on_backlog(void *context)
{
    struct server *server = context;
    const struct tw_engine *engine = atomic_load(&server->engine);
    return engine != NULL ? tw_engine_backlog_bytes(engine) : 0;
}

static const char *on_breach(void *context, unsigned index, uint64_t *ret_count)
{
    struct server *server = context;
    struct tw_engine *engine = atomic_load(&server->engine);
    enum tw_breach breach = (enum tw_breach)(index + 1);
    if (engine == NULL || breach >= TW_BREACH_COUNT)
        return NULL;
    *ret_count = tw_engine_breaches(engine, breach);
    return tw_breach_word(breach);
}

static bool on_line(void *context, unsigned index, struct tw_metric_line *ret)
{
    struct server *server = context;
    return metric_line(atomic_load(&server->engine), index, ret);
}

static bool on_serving(void *context, char *why, size_t size)
{
    struct server *server = context;
    bool is_ready = atomic_load(&server->is_ready);
    if (!is_ready)
        snprintf(why, size, "starting or draining");
    return is_ready;
}

static bool on_listening(void *context, char *why, size_t size)
{
    struct server *server = context;
    bool is_answering = listener_is_answering(&server->listener);
    if (!is_answering)
        snprintf(why, size, "the own port takes no connection");
    return is_answering;
}

/* ---- Small things before anything runs ---- */

static void signals_block(sigset_t *ret_set)
{
    sigemptyset(ret_set);
    sigaddset(ret_set, SIGTERM);
    sigaddset(ret_set, SIGINT);
    sigaddset(ret_set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, ret_set, NULL); /* every thread to come inherits it */
    signal(SIGPIPE, SIG_IGN);
}

/* Keys and tokens are in memory while they are used: of that no file is made, and only root looks at it. */
static void memory_hide(const struct tw_settings *settings)
{
    if (!settings->core_dumps && prctl(PR_SET_DUMPABLE, 0) != 0)
        tw_log(TW_LOG_WARN, "limits.core_dumps", "why=\"%s\" do=\"set LimitCORE=0\"", strerror(errno));
}

/* One EMFILE would end the listener for good: take every descriptor the system gives. */
static void descriptors_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < 4096)
        tw_log(TW_LOG_WARN, "limits.files", "open_files=%llu wanted=4096 do=\"raise RLIMIT_NOFILE\"",
               (unsigned long long)limit.rlim_cur);
}

static tw_status directory_make(const char *path, struct tw_error *error)
{
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return tw_error_set(error, TW_IO, "state_dir %s cannot be made: %s", path, strerror(errno));
    return TW_OK;
}

/* One server per state directory: two would both write. */
static tw_status state_open(struct server *server, struct tw_error *error)
{
    const char *path = server->settings->state_dir;
    if (path[0] == '\0')
        return TW_OK;
    tw_status status = directory_make(path, error);
    if (status != TW_OK)
        return status;
    server->state_lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (server->state_lock < 0)
        return tw_error_set(error, TW_IO, "state_dir %s cannot be opened: %s", path, strerror(errno));
    if (flock(server->state_lock, LOCK_EX | LOCK_NB) != 0)
        return tw_error_set(error, TW_IO, "state_dir %s is in use by another server: give this one its own",
                            path);
    int length = snprintf(server->paper_dir, sizeof server->paper_dir, "%s/paper", path);
    if (length < 0 || (size_t)length >= sizeof server->paper_dir)
        return tw_error_set(error, TW_INVALID, "state_dir %s is too long", path);
    length = snprintf(server->journal_dir, sizeof server->journal_dir, "%s/journal", path);
    if (length < 0 || (size_t)length >= sizeof server->journal_dir)
        return tw_error_set(error, TW_INVALID, "state_dir %s is too long", path);
    length = snprintf(server->history_path, sizeof server->history_path, "%s/history.db", path);
    if (length < 0 || (size_t)length >= sizeof server->history_path)
        return tw_error_set(error, TW_INVALID, "state_dir %s is too long", path);
    length = snprintf(server->fix_dir, sizeof server->fix_dir, "%s/fix", path);
    if (length < 0 || (size_t)length >= sizeof server->fix_dir)
        return tw_error_set(error, TW_INVALID, "state_dir %s is too long", path);
    status = directory_make(server->paper_dir, error);
    return status == TW_OK && server->settings->fix_sessions[0] != '\0' ? directory_make(server->fix_dir, error) : status;
}

/* ---- Start ---- */

static tw_status executor_open(struct server *server, struct tw_error *error)
{
    const struct tw_settings *settings = server->settings;
    uint32_t few = settings->executor_threads_max < TW_THREADS_ROUND ? settings->executor_threads_max : TW_THREADS_ROUND;
    const struct tw_executor_options options = {
        .threads_ready = settings->executor_threads > 0 ? settings->executor_threads : few,
        .threads_max = settings->executor_threads_max,
        .threads_lost_max = settings->executor_threads_lost_max,
        .threads_reserved = settings->executor_threads_reserved,
        .groups = settings->executor_groups,
        .pinned = settings->executor_pinned,
        .realtime = settings->executor_realtime == TW_REALTIME_AUTO,
    };
    tw_status status = tw_reactor_start("reactor", &server->reactor, error);
    return status != TW_OK ? status : tw_executor_start(&options, &server->executor, error);
}

static const char *secrets_dir(const struct tw_settings *settings)
{
    const char *systemd = getenv("CREDENTIALS_DIRECTORY");
    if (settings->secrets_directory[0] != '\0')
        return settings->secrets_directory;
    return systemd != NULL && systemd[0] != '\0' ? systemd : "/run/secrets";
}

static void plugins_list(struct server *server)
{
    const struct tw_settings *settings = server->settings;
    for (uint32_t i = 0; i < settings->n_plugins; i++)
        server->plugin_entries[i] = (struct tw_plugin_entry){
            .name = settings->plugins[i].name,
            .library = settings->plugins[i].library,
            .in_process = settings->plugins[i].in_process,
        };
    server->plugins_own = (struct tw_plugins_own){
        .list = {server->plugin_entries, settings->n_plugins},
        .hosts = {.program = "/proc/self/exe",
                  .state_dir = settings->state_dir[0] != '\0' ? settings->state_dir : NULL,
                  .threads_max = settings->executor_threads_max,
                  .threads_lost_max = settings->executor_threads_lost_max,
                  .realtime = settings->executor_realtime == TW_REALTIME_AUTO,
                  .pinned = settings->executor_pinned,
                  .core_dumps = settings->core_dumps},
    };
}

static tw_status remote_open(struct server *server, struct tw_error *error)
{
    const struct tw_settings *settings = server->settings;
    struct tw_remote_bridge bridges[TW_BRIDGE_SETTINGS_MAX];
    for (uint32_t i = 0; i < settings->n_bridges; i++) {
        const struct tw_bridge_setting *bridge = &settings->bridges[i];
        bridges[i] = (struct tw_remote_bridge){bridge->name, bridge->address, bridge->ca, bridge->certificate, bridge->key,
                                               bridge->server_name};
    }
    const struct tw_remote_bridges list = {bridges, settings->n_bridges};
    const struct tw_adapter_options options = {.reactor = server->reactor, .own = &list};
    tw_status status = tw_adapter_remote.open(&options, &server->remote, error);
    server->adapters[2] = (struct tw_engine_adapter){&tw_adapter_remote, server->remote};
    return status;
}

static tw_status fix_open(struct server *server, struct tw_error *error)
{
    const struct tw_fix_options own = {.sessions_path = server->settings->fix_sessions};
    const struct tw_adapter_options options = {
        .state_dir = server->fix_dir[0] != '\0' ? server->fix_dir : NULL,
        .reactor = server->reactor,
        .secrets_dir = secrets_dir(server->settings),
        .own = &own,
    };
    tw_status status = tw_adapter_fix.open(&options, &server->fix, error);
    server->adapters[3] = (struct tw_engine_adapter){&tw_adapter_fix, server->fix};
    return status;
}

static tw_status adapters_open(struct server *server, struct tw_error *error)
{
    struct tw_adapter_options options = {
        .state_dir = server->paper_dir[0] != '\0' ? server->paper_dir : NULL,
        .reactor = server->reactor,
        .secrets_dir = secrets_dir(server->settings),
    };
    tw_status status = tw_adapter_paper.open(&options, &server->paper, error);
    server->adapters[0] = (struct tw_engine_adapter){&tw_adapter_paper, server->paper};
    plugins_list(server);
    options.state_dir = NULL;
    options.own = &server->plugins_own;
    if (status == TW_OK)
        status = tw_adapter_plugins.open(&options, &server->plugin, error);
    server->adapters[1] = (struct tw_engine_adapter){&tw_adapter_plugins, server->plugin};
    if (status == TW_OK)
        status = remote_open(server, error);
    return status == TW_OK ? fix_open(server, error) : status;
}

static struct tw_gate_limits gate_limits(const struct tw_settings *settings)
{
    return (struct tw_gate_limits){
        .order_volume = (tw_decimal)settings->gate_order_volume * TW_DECIMAL_ONE,
        .order_notional = (tw_decimal)settings->gate_order_notional * TW_DECIMAL_ONE,
        .orders_per_second = settings->gate_orders_per_second,
        .orders_per_day = settings->gate_orders_per_day,
    };
}

static tw_status engine_open(struct server *server, struct tw_error *error)
{
    static const struct tw_health_check ready_checks[] = {{"serving", on_serving}, {"listener", on_listening}, {0}};
    const struct tw_settings *settings = server->settings;
    bool is_journaled = server->journal_dir[0] != '\0' && settings->journal != TW_JOURNAL_OFF;
    const struct tw_engine_options engine_options = {
        .executor = server->executor,
        .reactor = server->reactor,
        .adapters = server->adapters,
        .n_adapters = sizeof server->adapters / sizeof server->adapters[0],
        .gate_limits = gate_limits(settings),
        .copies_remembered = settings->copies_remembered,
        .backlog_bytes_max = (uint64_t)settings->copies_backlog_bytes,
        .threads_lost_max = settings->executor_threads_lost_max,
        .unknown_calls_max = settings->breaker_unknown_calls,
        .events_remembered = settings->events_remembered,
        .events_kept_ns = settings->events_kept_ns,
        .journal_dir = is_journaled ? server->journal_dir : NULL,
        .journal_syncs = settings->journal == TW_JOURNAL_ON,
        .journal_segment_bytes = (uint64_t)settings->retention_segment_bytes,
        .snapshot_segments = settings->snapshot_segments,
        .log_bytes = (uint64_t)settings->retention_log_bytes,
        .snapshot = tw_fault("SNAPSHOTS_HERE") != NULL ? NULL : tw_snapshot_in_process,
        .history_path = is_journaled ? server->history_path : NULL,
        .history_keep_ns = settings->history_keep_ns,
        .audit_keep_ns = settings->audit_keep_ns,
    };
    struct tw_engine *engine = NULL;
    tw_status status = tw_engine_start(&engine_options, &engine, error);
    if (status != TW_OK)
        return status;
    atomic_store(&server->engine, engine);

    const struct tw_telemetry_options telemetry_options = {
        .instance_id = tw_engine_instance_id(engine),
        .version = TW_VERSION,
        .admin_listen = strcmp(settings->admin, "off") == 0 ? "" : settings->admin,
        .warm_up_ms = (uint32_t)(settings->metrics_warm_up_ns / TW_NS_PER_MS),
        .subjects = *tw_engine_subject_ops(),
        .callbacks = {.context = server, .executor = on_executor, .followers = on_followers,
                      .history = on_history, .backlog = on_backlog, .breach = on_breach, .line = on_line, .ready = ready_checks},
    };
    status = tw_telemetry_start(&telemetry_options, &server->telemetry, error);
    if (status == TW_OK)
        tw_engine_sampler_set(engine, tw_telemetry_sampler(server->telemetry));
    return status;
}

/* The state of an earlier run has it already: as good. */
static bool is_there(bool made, struct tw_refusal *refusal)
{
    if (!made && refusal->reason == TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_ALREADY_EXISTS) {
        *refusal = (struct tw_refusal){0};
        return true;
    }
    return made;
}

static bool dev_follower(struct tw_engine *engine, unsigned number, struct tw_arena *arena,
                         struct tw_refusal *refusal)
{
    char id[16], name[32];
    Tradewake__V1__Follower follower, *made;
    Tradewake__V1__Follower__AdapterConfigEntry latency, *config[] = {&latency};
    Tradewake__V1__Subscription subscription, *subscribed;
    tradewake__v1__follower__init(&follower);
    tradewake__v1__follower__adapter_config_entry__init(&latency);
    tradewake__v1__subscription__init(&subscription);
    snprintf(id, sizeof id, "F%02u", number);
    snprintf(name, sizeof name, "Demo account %u", number);
    latency.key = (char *)(uintptr_t)"latency";
    latency.value = (char *)(uintptr_t)DEV_LATENCY;
    follower.follower_id = id;
    follower.display_name = name;
    follower.adapter = (char *)(uintptr_t)"paper";
    follower.adapter_config = config;
    follower.n_adapter_config = 1;
    subscription.master_id = (char *)(uintptr_t)DEV_MASTER;
    subscription.follower_id = id;
    return is_there(tw_engine_follower_create(engine, &follower, "", arena, &made, refusal), refusal) &&
           is_there(tw_engine_subscription_create(engine, &subscription, "", arena, &subscribed, refusal),
                    refusal);
}

static tw_status dev_fleet(struct server *server, struct tw_error *error)
{
    struct tw_arena arena;
    struct tw_refusal refusal = {0};
    tw_arena_init(&arena, 16 * 1024 * 1024);
    bool ok = true;
    for (unsigned i = 1; i <= DEV_FOLLOWERS && ok; i++)
        ok = dev_follower(atomic_load(&server->engine), i, &arena, &refusal);
    tw_arena_clear(&arena);
    return ok ? TW_OK : tw_error_set(error, TW_LIMIT, "the demo fleet cannot be made: %s", refusal.text);
}

static tw_status access_open(struct server *server, struct tw_error *error)
{
    const struct tw_access_options options = {
        .policy_path = server->settings->access_policy,
        .keys_path = server->settings->access_token_keys,
        .audience = server->settings->access_audience,
    };
    tw_status status = TW_OK;
    if (options.policy_path[0] != '\0')
        status = tw_access_open(&options, &server->access, error);
    tw_gate_open(server->access);
    return status;
}

static tw_status wire_open(struct server *server, struct tw_error *error)
{
    static const char *const names[] = {
        "", "liveness", "readiness", "tradewake.v1.EventService", "tradewake.v1.CopyService",
        "tradewake.v1.FollowerService", "tradewake.v1.MetricsService",
    };
    const struct tw_settings *settings = server->settings;
    const struct tw_wire_method *methods = methods_of(settings);
    const struct tw_wire_server_tls tls = {
        .certificate = settings->tls_certificate,
        .key = settings->tls_key,
        .client_ca = settings->tls_client_ca,
        .wants_certificate = settings->tls_client_certificate == TW_CLIENT_CERTIFICATE_REQUIRED,
    };
    const struct tw_wire_options options = {
        .listen = settings->listen,
        .authorize = tw_gate_authorize,
        .admit = tw_gate_admit,
        .still = tw_gate_still,
        .tls = tls.certificate[0] != '\0' ? &tls : NULL,
        .rpc_threads = settings->rpc_threads,
        .streams_per_peer_max = settings->metrics_streams_per_peer,
    };
    tw_services_engine_set(atomic_load(&server->engine));
    tw_metrics_service_open(server->telemetry);
    tw_readers_limits_set(settings->streams_hopeless_after_ns, settings->streams_watchers_max);
    tw_paper_service_adapter_set(server->paper);
    tw_reflection_methods_set(methods);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        tw_health_set(names[i], true);
    if (settings->paper_control)
        tw_health_set("tradewake.paper.v1.PaperService", true);
    uint32_t allowed = tw_accept_bound(settings->listener_connections_max);
    if (allowed < settings->listener_connections_max)
        tw_log(TW_LOG_WARN, "limits.connections", "allowed=%u wanted=%u do=\"raise RLIMIT_NOFILE\"", allowed,
               settings->listener_connections_max);
    return tw_wire_server_start(&options, methods, &server->wire, error);
}

static void log_start(const struct server *server)
{
    const struct tw_settings *settings = server->settings;
    struct tw_executor_status status;
    tw_executor_status_get(server->executor, &status);
    tw_log(TW_LOG_INFO, "executor.ready",
           "threads=%u threads_max=%u threads_needed=%u threads_reserved=%u groups=%u pinned=%s realtime=%s",
           status.threads, status.threads_max,
           tw_engine_fleet_counts(atomic_load(&server->engine)).threads_needed, settings->executor_threads_reserved, status.groups,
           status.pinned ? "yes" : "no", status.realtime ? "yes" : "no");
    if (settings->executor_realtime == TW_REALTIME_AUTO && !status.realtime)
        tw_log(TW_LOG_INFO, "executor.realtime",
               "refused_by=system do=\"RLIMIT_RTPRIO or CAP_SYS_NICE, for flatter own times\"");
    if (settings->state_dir[0] == '\0')
        tw_log(TW_LOG_WARN, "state.none", "keeps=nothing do=\"give --state-dir\"");
    else if (settings->journal != TW_JOURNAL_ON)
        tw_log(TW_LOG_WARN, "journal.unsafe", "journal=%s loses=%s do=\"for measuring only: never with real orders\"",
               settings->journal == TW_JOURNAL_OFF ? "off" : "nosync",
               settings->journal == TW_JOURNAL_OFF ? "everything, at every stop" : "events, at a power cut");
    if (settings->tls_certificate[0] == '\0' && !tw_settings_is_local(settings->listen))
        tw_log(TW_LOG_WARN, "listen.plain_text", "listen=%s do=\"tls.certificate and tls.key: others can read and send\"",
               settings->listen);
    char listen[TW_VALUE_TEXT_BYTES + 16];
    const char *colon = strrchr(settings->listen, ':');
    if (strncmp(settings->listen, "unix:", 5) == 0 || colon == NULL)
        snprintf(listen, sizeof listen, "%s", settings->listen);
    else
        snprintf(listen, sizeof listen, "%.*s:%d", (int)(colon - settings->listen), settings->listen,
                 tw_wire_server_port(server->wire));
    char admin[TW_VALUE_TEXT_BYTES + 16] = "";
    int admin_port = tw_telemetry_admin_port(server->telemetry);
    const char *admin_colon = strrchr(settings->admin, ':');
    if (admin_port != 0 && admin_colon != NULL)
        snprintf(admin, sizeof admin, "%.*s:%d", (int)(admin_colon - settings->admin), settings->admin, admin_port);
    tw_log(TW_LOG_INFO, "server.listening", "listen=%s admin=%s", listen, admin[0] != '\0' ? admin : "off");
    if (server->serving->on_listening != NULL)
        server->serving->on_listening(server->serving->context, listen, admin);
}

/* ---- Stop ---- */

/* What is at a broker comes back with an answer; its outcome is taken up before the end. */
static void calls_await(struct server *server)
{
    struct tw_executor_status status;
    int64_t until_ns = tw_mono_ns() + CALLS_END_NS_MAX;
    do {
        tw_executor_status_get(server->executor, &status);
        const struct timespec moment = {0, 5 * TW_NS_PER_MS};
        if (status.calls_in_flight > 0)
            clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
    } while (status.calls_in_flight > 0 && tw_mono_ns() < until_ns);
    struct tw_engine *engine = atomic_load(&server->engine);
    if (status.calls_in_flight == 0 && status.threads_lost == 0 && engine != NULL)
        tw_engine_quiet(engine);
    if (status.calls_queued > 0 || status.calls_in_flight > 0 || status.threads_lost > 0)
        tw_log(TW_LOG_WARN, "server.left", "calls_queued=%u calls_in_flight=%u threads_lost=%u",
               status.calls_queued, status.calls_in_flight, status.threads_lost);
}

/* Calls are out that may come back at any moment, to anything that they were given. The log is closed, all
 * else ends with the process. */
_Noreturn static void server_abandon(struct server *server)
{
    tw_telemetry_stop(server->telemetry);
    tw_engine_abandon(atomic_load(&server->engine));
    tw_log(TW_LOG_INFO, "server.stopped", "lost_calls=left");
    fflush(NULL);
    _exit(0);
}

/* Copes with whatever has not been started. */
static void server_close(struct server *server)
{
    tw_wire_server_stop(server->wire, 2000);
    tw_telemetry_admin_close(server->telemetry);
    tw_metrics_service_close();
    struct tw_engine *engine = atomic_load(&server->engine);
    if (engine != NULL)
        tw_engine_quiesce(engine);
    if (server->executor != NULL)
        calls_await(server);
    tw_remote_quiet(server->remote); /* it calls and tells on a thread of its own */
    tw_plugins_quiet(server->plugin);
    tw_fix_quiet(server->fix);       /* its sockets are the reactor's */
    tw_reactor_stop(server->reactor);
    if (tw_executor_stop(server->executor) > 0)
        server_abandon(server);
    server->executor = NULL;
    tw_telemetry_stop(server->telemetry);
    tw_engine_stop(engine);
    if (server->paper != NULL)
        tw_adapter_paper.close(server->paper);
    tw_adapter_plugins.close(server->plugin);
    tw_adapter_remote.close(server->remote);
    tw_adapter_fix.close(server->fix);
    tw_health_clear();
    tw_access_close(server->access);
    if (server->state_lock >= 0)
        close(server->state_lock);
}

static void drain(struct server *server, const sigset_t *signals)
{
    const struct tw_settings *settings = server->settings;
    int64_t duck_ns = settings->drain_lame_duck_ns;
    tw_log(TW_LOG_INFO, "server.draining", "lame_duck_ms=%lld", (long long)(duck_ns / TW_NS_PER_MS));
    alarm((unsigned)((settings->drain_timeout_ns + TW_NS_PER_S - 1) / TW_NS_PER_S)); /* the last resort */
    atomic_store(&server->is_ready, false);
    tw_health_drain();
    const struct timespec duck = {duck_ns / TW_NS_PER_S, duck_ns % TW_NS_PER_S};
    (void)sigtimedwait(signals, NULL, &duck); /* a second signal ends the wait */
    tw_wire_server_drain(server->wire);
    tw_wire_server_end_streams(server->wire);
}

static void on_alarm(int number)
{
    (void)number;
    static const char line[] = "server.drain_timeout: ended with work left\n";
    ssize_t written = write(STDERR_FILENO, line, sizeof line - 1);
    (void)written;
    _exit(0);
}

static tw_status server_open(struct server *server, struct tw_error *error)
{
    tw_status status = state_open(server, error);
    if (status == TW_OK)
        status = executor_open(server, error);
    if (status == TW_OK)
        status = adapters_open(server, error);
    if (status == TW_OK)
        status = engine_open(server, error);
    if (status == TW_OK && server->serving->is_dev)
        status = dev_fleet(server, error);
    if (status == TW_OK)
        status = access_open(server, error);
    if (status == TW_OK)
        status = wire_open(server, error);
    return status;
}

/* ---- While it runs ---- */

/* What tells a file from the one that was there before, also where a link was turned to another. */
struct stamp {
    ino_t inode;
    off_t size;
    struct timespec changed;
};
enum { STAMPED_FILES = 5 };

static void stamps_take(const struct tw_settings *settings, struct stamp ret[STAMPED_FILES])
{
    const char *const paths[STAMPED_FILES] = {settings->tls_certificate, settings->tls_key, settings->tls_client_ca,
                                              settings->access_policy, settings->access_token_keys};
    struct stat found;
    memset(ret, 0, STAMPED_FILES * sizeof *ret);
    for (size_t i = 0; i < STAMPED_FILES; i++)
        if (paths[i][0] != '\0' && stat(paths[i], &found) == 0) {
            ret[i].inode = found.st_ino;
            ret[i].size = found.st_size;
            ret[i].changed = found.st_mtim;
        }
}

static void log_settings_apply(const struct tw_settings *settings)
{
    tw_log_level_set(settings->log_level);
    tw_log_json_set(settings->log_format == TW_LOG_FORMAT_JSON);
}

static void setting_told(void *context, const char *name, const char *before, const char *now, bool is_taken)
{
    (void)context;
    if (is_taken)
        tw_log(TW_LOG_INFO, "config.changed", "setting=%s before=\"%s\" now=\"%s\"", name, before, now);
    else
        tw_log(TW_LOG_WARN, "config.waits", "setting=%s before=\"%s\" file=\"%s\" do=\"takes effect with a restart\"", name, before, now);
}

/* A configuration with anything wrong in it changes nothing at all. */
static void config_reload(struct server *server)
{
    static struct tw_settings fresh;
    static struct tw_config_report report; /* both too large for a stack that may be small */
    if (server->serving->sources == NULL)
        return;
    tw_status status = tw_settings_load(server->serving->sources, &fresh, &report);
    uint32_t kept = report.n < TW_CONFIG_PROBLEMS_MAX ? report.n : TW_CONFIG_PROBLEMS_MAX;
    for (uint32_t i = 0; i < kept; i++)
        tw_log(report.problems[i].is_warning ? TW_LOG_WARN : TW_LOG_ERROR,
               report.problems[i].is_warning ? "config.warning" : "config.refused", "keeps=the_one_before why=\"%s\"",
               report.problems[i].text);
    if (status != TW_OK)
        return;
    tw_settings_take_over(server->settings, &fresh, setting_told, NULL);
    tw_readers_limits_set(server->settings->streams_hopeless_after_ns, server->settings->streams_watchers_max);
    log_settings_apply(server->settings); /* also what PUT /loglevel has changed */
    tw_log(TW_LOG_INFO, "config.reloaded", "file=%s", fresh.config_path[0] != '\0' ? fresh.config_path : "none");
}

static void reload(struct server *server)
{
    struct tw_error error = {{0}}, access_error = {{0}};
    tw_status status = tw_wire_server_tls_reload(server->wire, &error);
    tw_status access_status = server->access != NULL ? tw_access_reload(server->access, &access_error) : TW_OK;
    if (access_status != TW_OK)
        tw_log(TW_LOG_ERROR, "server.reload_failed", "keeps=the_one_before why=\"%s\"", access_error.text);
    if (status == TW_OK && access_status == TW_OK)
        tw_log(TW_LOG_INFO, "server.reloaded", "certificate=%s policy=%s",
               server->settings->tls_certificate[0] != '\0' ? server->settings->tls_certificate : "none",
               server->access != NULL ? server->settings->access_policy : "none");
    else if (status != TW_OK)
        tw_log(TW_LOG_ERROR, "server.reload_failed", "keeps=the_one_before why=\"%s\"", error.text);
}

struct turned_away {
    uint64_t count;  /* as it was told last */
    int64_t mono_ns; /* when */
};

/* Once in ten seconds at most: a flood is no reason to write one. */
static void turned_away_tell(struct turned_away *told)
{
    uint64_t count = tw_accept_turned_away();
    int64_t now_mono_ns = tw_mono_ns();
    if (count == told->count || (told->count > 0 && now_mono_ns - told->mono_ns < 10 * TW_NS_PER_S))
        return;
    tw_log(TW_LOG_WARN, "listener.full", "turned_away=%llu do=\"listener.connections_max, or docker/haproxy.cfg in front\"",
           (unsigned long long)(count - told->count));
    *told = (struct turned_away){count, now_mono_ns};
}

/* It takes no more connections and never will: who supervises the process starts it anew. */
static bool is_listener_dead(struct server *server)
{
    int64_t dead_after_ns = server->settings->listener_dead_after_ns, silent_ns = listener_look(&server->listener, tw_mono_ns());
    if (dead_after_ns == 0 || silent_ns < dead_after_ns)
        return false;
    tw_log(TW_LOG_ERROR, "listener.dead", "silent_ms=%lld ends=yes do=\"start it anew; more file descriptors "
           "(RLIMIT_NOFILE), or docker/haproxy.cfg in front\"", (long long)(silent_ns / TW_NS_PER_MS));
    return true;
}

/* Opens end while closes still have memory. It ends with a quarter more: not each second anew. */
static void memory_look(struct server *server)
{
    uint64_t reserved = (uint64_t)server->settings->memory_reserved_bytes;
    uint64_t left = reserved > 0 ? tw_executor_memory_left() : UINT64_MAX;
    bool is_short = left < (server->is_memory_short ? reserved + reserved / 4 : reserved);
    if (is_short == server->is_memory_short)
        return;
    server->is_memory_short = is_short;
    tw_engine_memory_short_set(atomic_load(&server->engine), is_short);
    if (is_short)
        tw_log(TW_LOG_WARN, "memory.short", "left_mib=%llu reserved_mib=%llu opens=refused closes=go_on",
               (unsigned long long)(left >> 20), (unsigned long long)(reserved >> 20));
    else
        tw_log(TW_LOG_INFO, "memory.enough", "left_mib=%llu opens=taken", (unsigned long long)(left >> 20));
}

/* Until a signal to stop, which it returns, or 0: the listener is dead. Files that were replaced are read again by themselves:
 * whoever renews them need not know how to tell. Where the new key comes after the new certificate, the pair
 * that does not fit is refused, and read again when its other half is there. */
static int run(struct server *server, const sigset_t *signals)
{
    static const struct timespec look_again = {1, 0};
    struct stamp known[STAMPED_FILES], now[STAMPED_FILES];
    struct turned_away told = {0};
    bool is_watched = getenv("WATCHDOG_USEC") != NULL;
    stamps_take(server->settings, known);
    for (;;) {
        int number = sigtimedwait(signals, NULL, &look_again);
        if (number == SIGTERM || number == SIGINT)
            return number;
        turned_away_tell(&told);
        memory_look(server);
        if (is_listener_dead(server))
            return 0;
        stamps_take(server->settings, now);
        if (number == SIGHUP)
            config_reload(server);
        if (number == SIGHUP || memcmp(known, now, sizeof now) != 0)
            reload(server);
        memcpy(known, now, sizeof now);
        if (is_watched)
            tw_notify(TW_NOTIFY_ALIVE);
        if (server->serving->on_second != NULL)
            server->serving->on_second(server->serving->context);
        if (server->access != NULL)
            tw_wire_server_look_again(server->wire);
    }
}

int tw_serve(const struct tw_cli_serving *serving)
{
    struct tw_settings *settings = serving->settings;
    struct server server = {.settings = settings, .serving = serving, .state_lock = -1, .listener = {.spare = -1, .question = -1, .is_answering = true}};
    struct tw_error error = {{0}};
    sigset_t signals;
    log_settings_apply(settings);
    signals_block(&signals);
    signal(SIGALRM, on_alarm);
    descriptors_raise();
    memory_hide(settings);

    if (server_open(&server, &error) != TW_OK) {
        tw_log(TW_LOG_ERROR, "server.start_failed", "%s", error.text);
        server_close(&server);
        return 1;
    }
    listener_init(&server.listener, settings->listen, tw_wire_server_port(server.wire), settings->tls_certificate[0] != '\0');
    atomic_store(&server.is_ready, true);
    log_start(&server);
    tw_notify("READY=1");
    int number = run(&server, &signals); /* 0: the listener is dead */
    tw_notify("STOPPING=1");
    if (serving->on_end != NULL)
        serving->on_end(serving->context);
    drain(&server, &signals);
    listener_clear(&server.listener);
    server_close(&server);
    tw_log(TW_LOG_INFO, "server.stopped", "signal=%d", number);
    return number == 0;
}
