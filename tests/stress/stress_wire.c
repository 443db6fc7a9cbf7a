/* stress_wire.c
 * Promise: whatever posts, timers, deadlines, cancels and a stop do to each other, every call that
 *          reached its method is finished exactly once, no post is lost, no timer is early, and
 * what was written before a post is seen by the on_post() that follows it.
 *
 * The carrier is grpc.health.v1: Check's name says what the handler does, Watch is written to by
 * posts of a ticking thread. */
#include <tradewake/base/arena.h>
#include <tradewake/base/clock.h>
#include <tradewake/wire/client.h>
#include <tradewake/wire/server.h>

#include <grpc/health/v1/health.pb-c.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CALLERS = 4,
    WATCHERS = 2,
    POSTERS = 3,
    CALLS_PER_CALLER = 1500,
    POSTS_MANY = 20,
    ROUNDS = 3
};
enum { WORKS_MAX = 4096 };

#define CHECK "/grpc.health.v1.Health/Check"
#define WATCH "/grpc.health.v1.Health/Watch"

static atomic_int requests, finished, answered, timed_out, unreachable, broken, early_timers,
    unseen;
static atomic_bool is_over;

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

/* ---- Work that another thread does for a call. Two owners: the call and the poster. ---- */

struct work {
    struct tw_call *call;
    atomic_int owners;
    atomic_bool is_done; /* many posts only */
    bool posts_once;
    int payload;         /* plain: published by the post alone */
    int64_t due_mono_ns; /* timers */
};

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct work *works[WORKS_MAX];
    uint32_t n_works;
} box = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void work_drop(struct work *work)
{
    if (atomic_fetch_sub(&work->owners, 1) == 1)
        free(work);
}

static void box_put(struct work *work)
{
    pthread_mutex_lock(&box.mutex);
    if (box.n_works == WORKS_MAX)
        fail("too many calls at once");
    box.works[box.n_works++] = work;
    pthread_cond_signal(&box.changed);
    pthread_mutex_unlock(&box.mutex);
}

static struct work *box_take(void)
{
    pthread_mutex_lock(&box.mutex);
    while (box.n_works == 0 && !atomic_load(&is_over))
        pthread_cond_wait(&box.changed, &box.mutex);
    struct work *work = box.n_works == 0 ? NULL : box.works[--box.n_works];
    pthread_mutex_unlock(&box.mutex);
    return work;
}

static void *poster_main(void *arg)
{
    (void)arg;
    for (struct work *work; (work = box_take()) != NULL;) {
        if (work->posts_once) {
            work->payload = 1;
            tw_call_post(work->call);
        } else {
            for (int i = 0; i < POSTS_MANY; i++)
                tw_call_post(work->call);
            atomic_store(&work->is_done, true);
            tw_call_post(work->call);
        }
        tw_call_unref(work->call);
        work_drop(work);
    }
    return NULL;
}

/* ---- Check. ---- */

static void answer(struct tw_call *call)
{
    Grpc__Health__V1__HealthCheckResponse response;
    grpc__health__v1__health_check_response__init(&response);
    tw_call_answer(call, &response.base);
}

static void check_on_request(struct tw_call *call, const ProtobufCMessage *request,
                             const struct tw_refusal *invalid)
{
    (void)invalid;
    const char *mode = ((const Grpc__Health__V1__HealthCheckRequest *)request)->service;
    struct work *work = calloc(1, sizeof *work);
    if (work == NULL)
        fail("no memory");
    atomic_fetch_add(&requests, 1);
    atomic_init(&work->owners, 1);
    tw_call_data_set(call, work);
    if (strcmp(mode, "now") == 0) {
        answer(call);
    } else if (strcmp(mode, "timer") == 0) {
        tw_call_timer_set(call, tw_mono_ns() + 50 * TW_NS_PER_MS);
        tw_call_timer_set(call, INT64_MAX);
        work->due_mono_ns = tw_mono_ns() + tw_mono_ns() % (3 * TW_NS_PER_MS);
        tw_call_timer_set(call, work->due_mono_ns);
    } else {
        work->posts_once = strcmp(mode, "once") == 0;
        work->call = tw_call_ref(call);
        atomic_store(&work->owners, 2);
        box_put(work);
    }
}

static void check_on_post(struct tw_call *call)
{
    struct work *work = tw_call_data(call);
    if (work->posts_once && work->payload != 1)
        atomic_fetch_add(&unseen, 1);
    if (work->posts_once || atomic_load(&work->is_done)) {
        answer(call);
        return;
    }
    /* A handler takes its time after it has looked: a post in here must bring it back. */
    int64_t until_ns = tw_mono_ns() + 20 * TW_NS_PER_US;
    while (tw_mono_ns() < until_ns)
        continue;
}

static void check_on_timer(struct tw_call *call)
{
    const struct work *work = tw_call_data(call);
    if (tw_mono_ns() < work->due_mono_ns)
        atomic_fetch_add(&early_timers, 1);
    answer(call);
}

static void check_on_finished(struct tw_call *call, bool cancelled)
{
    (void)cancelled;
    atomic_fetch_add(&finished, 1);
    work_drop(tw_call_data(call));
    tw_call_data_set(call, NULL); /* a second on_finished() would crash here */
}

/* ---- Watch. ---- */

struct watcher {
    struct watcher *next, **link;
    struct tw_call *call;
};
static struct watcher *watchers;
static pthread_mutex_t watchers_mutex = PTHREAD_MUTEX_INITIALIZER;

static void watch_on_request(struct tw_call *call, const ProtobufCMessage *request,
                             const struct tw_refusal *invalid)
{
    (void)request;
    (void)invalid;
    struct watcher *watcher = calloc(1, sizeof *watcher);
    if (watcher == NULL)
        fail("no memory");
    atomic_fetch_add(&requests, 1);
    watcher->call = tw_call_ref(call);
    tw_call_data_set(call, watcher);
    pthread_mutex_lock(&watchers_mutex);
    watcher->next = watchers;
    watcher->link = &watchers;
    if (watchers != NULL)
        watchers->link = &watcher->next;
    watchers = watcher;
    pthread_mutex_unlock(&watchers_mutex);
}

static void watch_on_post(struct tw_call *call)
{
    Grpc__Health__V1__HealthCheckResponse response;
    grpc__health__v1__health_check_response__init(&response);
    if (tw_call_is_writable(call) && !tw_call_write(call, &response.base, false))
        fail("writable, and yet not");
}

static void watch_on_finished(struct tw_call *call, bool cancelled)
{
    (void)cancelled;
    struct watcher *watcher = tw_call_data(call);
    pthread_mutex_lock(&watchers_mutex);
    *watcher->link = watcher->next;
    if (watcher->next != NULL)
        watcher->next->link = watcher->link;
    pthread_mutex_unlock(&watchers_mutex);
    atomic_fetch_add(&finished, 1);
    tw_call_unref(watcher->call);
    free(watcher);
}

static void *ticker_main(void *arg)
{
    (void)arg;
    while (!atomic_load(&is_over)) {
        pthread_mutex_lock(&watchers_mutex);
        for (struct watcher *watcher = watchers; watcher != NULL; watcher = watcher->next)
            tw_call_post(watcher->call);
        pthread_mutex_unlock(&watchers_mutex);
        usleep(100);
    }
    return NULL;
}

static const struct tw_wire_method methods[] = {
    {.path = CHECK,
     .on_request = check_on_request,
     .on_post = check_on_post,
     .on_timer = check_on_timer,
     .on_finished = check_on_finished},
    {.path = WATCH,
     .watches = true,
     .on_request = watch_on_request,
     .on_post = watch_on_post,
     .on_finished = watch_on_finished},
    {.path = NULL},
};

/* ---- Clients. ---- */

struct caller {
    pthread_t thread;
    const char *address;
    unsigned seed;
    int calls;
};

static void tally(tw_status status, bool is_short, const struct tw_error *error)
{
    if (status == TW_OK)
        atomic_fetch_add(&answered, 1);
    else if (status == TW_TIMEOUT && is_short)
        atomic_fetch_add(&timed_out, 1);
    else if (status == TW_UNREACHABLE || status == TW_REFUSED)
        atomic_fetch_add(&unreachable, 1);
    else {
        fprintf(stderr, "%s\n", error->text);
        atomic_fetch_add(&broken, 1);
    }
}

static void *caller_main(void *arg)
{
    static const char *const modes[] = {"now", "once", "many", "timer"};
    struct caller *caller = arg;
    struct tw_wire_client *client;
    struct tw_error error = {0};
    struct tw_arena arena;
    struct tw_wire_answer ending;
    if (tw_wire_client_open_plain(caller->address, &client, &error) != TW_OK)
        fail(error.text);
    tw_arena_init(&arena, 1u << 20);
    for (int i = 0; i < caller->calls; i++) {
        Grpc__Health__V1__HealthCheckRequest request;
        grpc__health__v1__health_check_request__init(&request);
        request.service = (char *)(uintptr_t)modes[rand_r(&caller->seed) % 4];
        bool is_short = rand_r(&caller->seed) % 4 == 0;
        int64_t ms = is_short ? 1 + rand_r(&caller->seed) % 3 : 20000;
        ProtobufCMessage *response;
        tw_status status =
            tw_wire_client_call(client, CHECK, &request.base, tw_mono_ns() + ms * TW_NS_PER_MS,
                                &arena, &response, &ending, &error);
        tally(status, is_short, &error);
        tw_arena_reset(&arena);
    }
    tw_arena_clear(&arena);
    tw_wire_client_close(client);
    return NULL;
}

static void *watcher_main(void *arg)
{
    struct caller *caller = arg;
    struct tw_wire_client *client;
    struct tw_error error = {0};
    struct tw_arena arena;
    struct tw_wire_answer ending;
    if (tw_wire_client_open_plain(caller->address, &client, &error) != TW_OK)
        fail(error.text);
    tw_arena_init(&arena, 1u << 20);
    for (int i = 0; i < caller->calls / 10; i++) {
        Grpc__Health__V1__HealthCheckRequest request;
        grpc__health__v1__health_check_request__init(&request);
        struct tw_wire_stream *stream;
        ProtobufCMessage *message;
        if (tw_wire_stream_open(client, WATCH, &request.base, INT64_MAX, &stream, &error) != TW_OK)
            fail(error.text);
        for (int left = rand_r(&caller->seed) % 5; left > 0; left--)
            if (tw_wire_stream_read(stream, tw_mono_ns() + 50 * TW_NS_PER_MS, &arena, &message,
                                    &ending, &error) != TW_OK)
                break;
        tw_wire_stream_close(stream); /* mostly a cancel in the middle of writes */
        tw_arena_reset(&arena);
    }
    tw_arena_clear(&arena);
    tw_wire_client_close(client);
    return NULL;
}

static void round_run(int round)
{
    struct tw_wire_server *server;
    struct tw_error error = {0};
    struct tw_wire_options options = {.listen = "127.0.0.1:0", .rpc_threads = 2};
    if (tw_wire_server_start(&options, methods, &server, &error) != TW_OK)
        fail(error.text);
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", tw_wire_server_port(server));

    struct caller callers[CALLERS + WATCHERS];
    bool stops_early = round > 0; /* from the second round on, while calls are in the air */
    for (int i = 0; i < CALLERS + WATCHERS; i++) {
        callers[i] = (struct caller){.address = address,
                                     .seed = (unsigned)(round * 100 + i),
                                     .calls = CALLS_PER_CALLER / (stops_early ? 4 : 1)};
        if (pthread_create(&callers[i].thread, NULL, i < CALLERS ? caller_main : watcher_main,
                           &callers[i]) != 0)
            fail("no thread");
    }
    int before = atomic_load(&requests);
    while (stops_early && atomic_load(&requests) < before + 200)
        usleep(500);
    if (stops_early)
        tw_wire_server_stop(server, 20);
    for (int i = 0; i < CALLERS + WATCHERS; i++)
        pthread_join(callers[i].thread, NULL);
    if (!stops_early)
        tw_wire_server_stop(server, 2000);
}

int main(void)
{
    pthread_t posters[POSTERS], ticker;
    for (int i = 0; i < POSTERS; i++)
        if (pthread_create(&posters[i], NULL, poster_main, NULL) != 0)
            fail("no thread");
    if (pthread_create(&ticker, NULL, ticker_main, NULL) != 0)
        fail("no thread");

    for (int round = 0; round < ROUNDS; round++) {
        round_run(round);
        if (round == 0 && atomic_load(&unreachable) > 0)
            fail("refused without a stop");
    }

    pthread_mutex_lock(&box.mutex);
    atomic_store(&is_over, true);
    pthread_cond_broadcast(&box.changed);
    pthread_mutex_unlock(&box.mutex);
    for (int i = 0; i < POSTERS; i++)
        pthread_join(posters[i], NULL);
    pthread_join(ticker, NULL);

    printf("requests %d, finished %d; answered %d, past a short deadline %d, refused by stops %d\n",
           atomic_load(&requests), atomic_load(&finished), atomic_load(&answered),
           atomic_load(&timed_out), atomic_load(&unreachable));
    printf("broken %d, early timers %d, unseen payloads %d\n", atomic_load(&broken),
           atomic_load(&early_timers), atomic_load(&unseen));
    return atomic_load(&requests) == atomic_load(&finished) && atomic_load(&broken) == 0 &&
                   atomic_load(&early_timers) == 0 && atomic_load(&unseen) == 0
               ? 0
               : 1;
}
