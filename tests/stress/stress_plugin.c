/* stress_plugin - what many workers do through sessions that are lost all the time adds up.
 *
 * Each opens and closes positions at one account whose library loses a session at every 40th call, before or after it was
 * executed. What is AMBIGUOUS is asked for until it is known; what was not sent is sent. In the end:
 *   - every open that was executed was closed, once, and the account holds nothing;
 *   - the host was never told anything by two threads at once, nor after its session was closed. */
#include <tradewake/adapters/plugin.h>
#include <tradewake/base/clock.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORKERS = 12, POSITIONS = 60 };

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "FAILED %s:%d: %s: ", __FILE__, __LINE__, #condition);                 \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fprintf(stderr, "\n");                                                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* A plain counter, on purpose: two tellers at once are a race that TSan sees. */
struct host {
    atomic_int inside;
    atomic_bool is_closed;
    unsigned told, losses;
};

static void tell(void *context)
{
    struct host *host = context;
    CHECK(atomic_fetch_add(&host->inside, 1) == 0, "two threads inside the host");
    CHECK(!atomic_load(&host->is_closed), "told after the close");
    host->told++;
    atomic_fetch_sub(&host->inside, 1);
}

static void on_connection(void *context, bool is_connected, const char *why)
{
    struct host *host = context;
    (void)why;
    host->losses += !is_connected;
    tell(context);
}
static void on_instruments(void *context, const struct tw_instrument *instruments, size_t n)
{
    (void)instruments, (void)n;
    tell(context);
}
static void on_quote(void *context, const char *symbol, tw_decimal bid, tw_decimal ask)
{
    (void)symbol, (void)bid, (void)ask;
    tell(context);
}
static void on_account(void *context, const struct tw_account *account)
{
    (void)account;
    tell(context);
}

static void *session;
static atomic_uint opened, closed, never, asked;

static void moment(void)
{
    const struct timespec pause = {0, TW_NS_PER_MS / 2};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

static struct tw_adapter_call call_of(const struct tw_order *order)
{
    return (struct tw_adapter_call){.order = *order, .deadline_mono_ns = tw_mono_ns() + 2 * TW_NS_PER_S};
}

/* The order's one outcome: DONE, or NOT_FOUND when it was not executed. */
static struct tw_ack settled(const struct tw_order *order)
{
    struct tw_adapter_call call = call_of(order);
    tw_adapter_plugin.execute(session, &call);
    while (call.ack.outcome == TW_OUTCOME_RETRY_LATER) {
        CHECK(call.ack.not_sent, "nothing else is refused here: %s", call.ack.broker_message);
        moment();
        call = call_of(order);
        tw_adapter_plugin.execute(session, &call);
    }
    while (call.ack.outcome == TW_OUTCOME_AMBIGUOUS) {
        atomic_fetch_add(&asked, 1);
        moment();
        call = call_of(order);
        tw_adapter_plugin.lookup(session, &call);
    }
    CHECK(call.ack.outcome == TW_OUTCOME_DONE || call.ack.outcome == TW_OUTCOME_NOT_FOUND, "outcome %d: %s",
          call.ack.outcome, call.ack.broker_message);
    return call.ack;
}

static struct tw_order order_of(enum tw_order_op op, enum tw_side side, unsigned worker, unsigned number, unsigned turn)
{
    struct tw_order order = {.op = op, .side = side, .type = TW_ORDER_MARKET, .symbol = "EURUSD",
                             .volume = TW_DECIMAL_ONE / 10, .price = TW_DECIMAL_UNSET, .stop_price = TW_DECIMAL_UNSET,
                             .stop_loss = TW_DECIMAL_UNSET, .take_profit = TW_DECIMAL_UNSET};
    snprintf(order.client_order_id, sizeof order.client_order_id, "%c%u-%u-%u", op == TW_OP_OPEN ? 'O' : 'C', worker,
             number, turn);
    return order;
}

static void *work(void *arg)
{
    unsigned worker = (unsigned)(uintptr_t)arg;
    for (unsigned i = 0; i < POSITIONS; i++) {
        struct tw_order open = order_of(TW_OP_OPEN, TW_BUY, worker, i, 0);
        struct tw_ack ack = settled(&open);
        if (ack.outcome == TW_OUTCOME_NOT_FOUND) {
            atomic_fetch_add(&never, 1);
            continue;
        }
        atomic_fetch_add(&opened, 1);
        for (unsigned turn = 0;; turn++) { /* a close that was lost on its way is sent again under another id */
            struct tw_order close = order_of(TW_OP_CLOSE, TW_SELL, worker, i, turn);
            memcpy(close.position_id, ack.position_id, sizeof close.position_id);
            if (settled(&close).outcome == TW_OUTCOME_DONE)
                break;
        }
        atomic_fetch_add(&closed, 1);
    }
    return NULL;
}

static size_t held(void)
{
    struct tw_snapshot snapshot;
    struct tw_adapter_call call;
    do {
        snapshot = (struct tw_snapshot){0};
        call = (struct tw_adapter_call){.snapshot = &snapshot, .deadline_mono_ns = tw_mono_ns() + 2 * TW_NS_PER_S};
        tw_adapter_plugin.snapshot(session, &call);
        if (!snapshot.complete)
            moment();
    } while (!snapshot.complete);
    size_t n = snapshot.n_positions;
    tw_snapshot_clear(&snapshot);
    return n;
}

static void round_of(const char *adapter, void *plugins, const struct tw_adapter_setting *settings, size_t n_settings)
{
    struct host host = {0};
    struct tw_error error = {{0}};
    pthread_t threads[WORKERS];
    const struct tw_session_options options = {
        .follower_id = adapter, .adapter = adapter, .settings = settings, .n_settings = n_settings,
        .credentials_ref = "",
        .host = {.context = &host, .on_connection = on_connection, .on_instruments = on_instruments, .on_quote = on_quote,
                 .on_account = on_account}};
    opened = closed = never = asked = 0;
    CHECK(tw_adapter_plugin.session_open(plugins, &options, &session, &error) == TW_OK, "%s", error.text);
    for (uintptr_t i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "no thread");
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    size_t left = held();
    tw_adapter_plugin.session_close(session);
    atomic_store(&host.is_closed, true);
    printf("%s: %u opened, %u closed, %u never executed, asked %u times, %u losses told, %zu positions left\n", adapter,
           opened, closed, never, asked, host.losses, left);
    CHECK(opened == closed && opened + never == WORKERS * POSITIONS && left == 0, "it does not add up");
    CHECK(asked > 0, "nothing was lost: this proves nothing");
}

int main(void)
{
    static const struct tw_plugin_entry entries[] = {{"good", TW_PLUGINS "/good.so", true},
                                                     {"session", TW_PLUGINS "/good_session.so", true}};
    static const struct tw_plugin_list list = {entries, 2};
    static const struct tw_adapter_setting settings[] = {{"drop_every", "40"}, {"sessions", "3"}};
    const struct tw_adapter_options options = {.own = &list};
    struct tw_error error = {{0}};
    void *plugins;
    CHECK(tw_adapter_plugin.open(&options, &plugins, &error) == TW_OK, "%s", error.text);
    round_of("plugin:good", plugins, settings, 1);
    round_of("plugin:session", plugins, settings, 2);
    tw_adapter_plugin.close(plugins);
    return 0;
}
