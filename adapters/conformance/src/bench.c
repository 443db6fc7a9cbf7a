#include "bench.h"

#include <tradewake/base/clock.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PATIENCE_S = 10 };

/* ---- The host. ---- */

static struct bench *hear(void *context)
{
    struct bench *bench = context;
    pthread_mutex_lock(&bench->lock);
    bench->told_after_close += bench->is_closed;
    return bench;
}

static void heard(struct bench *bench)
{
    pthread_cond_broadcast(&bench->news);
    pthread_mutex_unlock(&bench->lock);
}

static void on_connection(void *context, bool is_connected, const char *why)
{
    struct bench *bench = hear(context);
    (void)why;
    bench->is_connected = is_connected;
    bench->connections += is_connected;
    bench->losses += !is_connected;
    if (is_connected && bench->connections == 1) {
        bench->account_first = bench->account.currency[0] != '\0';
        bench->instruments_first = bench->instrument.volume_step > 0;
    }
    heard(bench);
}

static void on_instruments(void *context, const struct tw_instrument *instruments, size_t n)
{
    struct bench *bench = hear(context);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(instruments[i].symbol, bench->under_test->symbol) == 0)
            bench->instrument = instruments[i];
    }
    heard(bench);
}

static void on_quote(void *context, const char *symbol, tw_decimal bid, tw_decimal ask)
{
    (void)symbol;
    (void)bid;
    (void)ask;
    heard(hear(context));
}

static void on_account(void *context, const struct tw_account *account)
{
    struct bench *bench = hear(context);
    bench->account = *account;
    heard(bench);
}

static void on_position(void *context, const struct tw_held_position *position, tw_reason reason)
{
    (void)position;
    (void)reason;
    heard(hear(context));
}

static void on_order_gone(void *context, const char *order_id, const char *client_order_id,
                          const char *position_id)
{
    (void)order_id;
    (void)client_order_id;
    (void)position_id;
    heard(hear(context));
}

static void on_market_open(void *context)
{
    heard(hear(context));
}

/* ---- Life. ---- */

static size_t settings_merge(struct tw_adapter_setting *merged, size_t n,
                             struct conformance_settings more)
{
    for (size_t i = 0; i < more.n; i++) {
        size_t at = 0;
        while (at < n && strcmp(merged[at].key, more.list[i].key) != 0)
            at++;
        cr_assert_lt(at, BENCH_SETTINGS_MAX, "too many settings");
        merged[at] = more.list[i];
        n += at == n;
    }
    return n;
}

const char *bench_adapter(const struct adapter_under_test *under_test)
{
    return under_test->adapter != NULL ? under_test->adapter : under_test->ops->name;
}

void bench_session_open(struct bench *bench, struct conformance_settings more)
{
    struct tw_adapter_setting settings[BENCH_SETTINGS_MAX];
    size_t n = settings_merge(settings, 0, bench->under_test->settings);
    n = settings_merge(settings, n, more);
    struct tw_session_options options = {.follower_id = "conformance",
                                         .adapter = bench_adapter(bench->under_test),
                                         .settings = settings,
                                         .n_settings = n,
                                         .credentials_ref = "",
                                         .host = {.context = bench,
                                                  .on_connection = on_connection,
                                                  .on_instruments = on_instruments,
                                                  .on_quote = on_quote,
                                                  .on_account = on_account,
                                                  .on_position = on_position,
                                                  .on_order_gone = on_order_gone,
                                                  .on_market_open = on_market_open}};
    struct tw_error error = {{0}};
    char key[65] = "";
    const struct tw_adapter_ops *ops = bench->under_test->ops;
    bench->is_closed = false;
    cr_assert_eq(ops->check(bench->adapter, &options, key, &error), TW_OK, "check: %s: %s", key,
                 error.text);
    cr_assert_eq(ops->session_open(bench->adapter, &options, &bench->session, &error), TW_OK,
                 "session_open: %s", error.text);
    ops->capabilities(bench->session, &bench->can);
}

void bench_session_close(struct bench *bench)
{
    bench->under_test->ops->session_close(bench->session);
    bench->session = NULL;
    pthread_mutex_lock(&bench->lock);
    bench->is_closed = true;
    bench->connections = bench->losses = 0;
    pthread_mutex_unlock(&bench->lock);
}

void bench_start(struct bench *bench, const struct adapter_under_test *under_test,
                 struct conformance_settings more)
{
    struct tw_error error = {{0}};
    *bench = (struct bench){.under_test = under_test,
                            .lock = PTHREAD_MUTEX_INITIALIZER,
                            .news = PTHREAD_COND_INITIALIZER};
    cr_assert_eq(tw_reactor_start("conformance", &bench->reactor, &error), TW_OK, "%s", error.text);
    struct tw_adapter_options options = {.reactor = bench->reactor, .own = under_test->own};
    cr_assert_eq(under_test->ops->open(&options, &bench->adapter, &error), TW_OK, "open: %s",
                 error.text);
    bench_session_open(bench, more);
    bench_await_connections(bench, 1);
}

void bench_stop(struct bench *bench)
{
    if (bench->session != NULL)
        bench_session_close(bench);
    bench->under_test->ops->close(bench->adapter);
    tw_reactor_stop(bench->reactor);
}

void bench_await_connections(struct bench *bench, int connections)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    int status = 0;
    pthread_mutex_lock(&bench->lock);
    while (bench->connections < connections && status == 0)
        status = pthread_cond_timedwait(&bench->news, &bench->lock, &until);
    pthread_mutex_unlock(&bench->lock);
    cr_assert_eq(status, 0, "not connected within %d s", PATIENCE_S);
}

/* ---- Calls. ---- */

static void round_done(struct tw_adapter_call *call)
{
    struct round *round = (struct round *)(void *)((char *)call - offsetof(struct round, call));
    round->times++;
    sem_post(&round->back);
}

static void round_on_reactor(struct tw_task *task)
{
    struct round *round = (struct round *)(void *)((char *)task - offsetof(struct round, task));
    round->start(round->bench->session, &round->call);
}

static void round_go(struct round *round)
{
    sem_init(&round->back, 0, 0);
    round->times = 0;
    if (round->bench->can.blocking) {
        round->call.done = NULL; /* calling it would be a mistake, and is one here */
        round->start(round->bench->session, &round->call);
        round->times = 1;
        sem_post(&round->back);
        return;
    }
    round->call.done = round_done;
    round->task.run = round_on_reactor;
    tw_reactor_post(round->bench->reactor, &round->task);
}

void round_await(struct round *round)
{
    while (sem_wait(&round->back) != 0) {
    }
    cr_assert_eq(round->times, 1, "done() was called %d times", round->times);
    sem_destroy(&round->back);
}

void round_start(struct round *round, struct bench *bench, const struct tw_order *order)
{
    *round = (struct round){.bench = bench, .start = bench->under_test->ops->execute};
    round->call.order = *order;
    round->call.deadline_mono_ns = tw_mono_ns() + PATIENCE_S * TW_NS_PER_S;
    round_go(round);
}

struct tw_ack bench_execute_by(struct bench *bench, const struct tw_order *order,
                               int64_t deadline_mono_ns)
{
    struct round round = {.bench = bench, .start = bench->under_test->ops->execute};
    round.call.order = *order;
    round.call.deadline_mono_ns = deadline_mono_ns;
    round_go(&round);
    round_await(&round);
    return round.call.ack;
}

struct tw_ack bench_execute(struct bench *bench, const struct tw_order *order)
{
    return bench_execute_by(bench, order, tw_mono_ns() + PATIENCE_S * TW_NS_PER_S);
}

struct tw_ack bench_lookup(struct bench *bench, const char *client_order_id)
{
    struct round round = {.bench = bench, .start = bench->under_test->ops->lookup};
    round.call.order = bench_open(bench, client_order_id);
    round.call.deadline_mono_ns = tw_mono_ns() + PATIENCE_S * TW_NS_PER_S;
    round_go(&round);
    round_await(&round);
    return round.call.ack;
}

struct tw_ack bench_lookup_known(struct bench *bench, const char *client_order_id)
{
    int64_t until = tw_mono_ns() + PATIENCE_S * TW_NS_PER_S;
    struct tw_ack ack = bench_lookup(bench, client_order_id);
    while (ack.outcome == TW_OUTCOME_AMBIGUOUS && tw_mono_ns() < until) {
        const struct timespec moment = {0, 20 * TW_NS_PER_MS};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
        ack = bench_lookup(bench, client_order_id);
    }
    return ack;
}

struct tw_snapshot bench_snapshot(struct bench *bench)
{
    struct tw_snapshot snapshot = {0};
    struct round round = {.bench = bench, .start = bench->under_test->ops->snapshot};
    round.call.snapshot = &snapshot;
    round.call.deadline_mono_ns = tw_mono_ns() + PATIENCE_S * TW_NS_PER_S;
    round_go(&round);
    round_await(&round);
    cr_assert_eq(round.call.ack.outcome, TW_OUTCOME_DONE, "snapshot: outcome %d",
                 round.call.ack.outcome);
    cr_assert(snapshot.complete, "a snapshot that is DONE is complete");
    return snapshot;
}

/* ---- Orders. ---- */

tw_decimal bench_decimal(const char *text)
{
    tw_decimal value;
    cr_assert(tw_decimal_parse(text, &value) && value != TW_DECIMAL_UNSET, "\"%s\" is no number",
              text);
    return value;
}

static struct tw_order blank(const char *client_order_id)
{
    struct tw_order order = {.volume = TW_DECIMAL_UNSET,
                             .price = TW_DECIMAL_UNSET,
                             .stop_price = TW_DECIMAL_UNSET,
                             .stop_loss = TW_DECIMAL_UNSET,
                             .take_profit = TW_DECIMAL_UNSET};
    snprintf(order.client_order_id, sizeof(order.client_order_id), "%s", client_order_id);
    return order;
}

struct tw_order bench_open(const struct bench *bench, const char *client_order_id)
{
    struct tw_order order = blank(client_order_id);
    order.op = TW_OP_OPEN;
    order.side = TW_BUY;
    order.type = TW_ORDER_MARKET;
    order.volume = bench_decimal(bench->under_test->volume);
    snprintf(order.symbol, sizeof(order.symbol), "%s", bench->under_test->symbol);
    return order;
}

struct tw_order bench_close(const struct bench *bench, const char *client_order_id,
                            const char *position_id, tw_decimal volume)
{
    struct tw_order order = bench_open(bench, client_order_id);
    order.op = TW_OP_CLOSE;
    order.side = TW_SELL;
    order.volume = volume;
    order.reduce_only = true;
    snprintf(order.position_id, sizeof(order.position_id), "%s", position_id);
    return order;
}

struct tw_order bench_modify(const struct bench *bench, const char *client_order_id,
                             const char *position_id)
{
    struct tw_order order = bench_close(bench, client_order_id, position_id, TW_DECIMAL_UNSET);
    order.op = TW_OP_MODIFY;
    order.side = TW_BUY;
    order.reduce_only = false;
    order.stop_loss = bench_decimal(bench->under_test->stop_loss);
    order.take_profit = bench_decimal(bench->under_test->take_profit);
    return order;
}

struct tw_order bench_place(const struct bench *bench, const char *client_order_id)
{
    struct tw_order order = bench_open(bench, client_order_id);
    order.op = TW_OP_PLACE;
    order.type = TW_ORDER_LIMIT;
    order.price = bench_decimal(bench->under_test->limit_price);
    return order;
}

struct tw_order bench_cancel(const char *client_order_id, const char *order_id)
{
    struct tw_order order = blank(client_order_id);
    order.op = TW_OP_CANCEL;
    snprintf(order.order_id, sizeof(order.order_id), "%s", order_id);
    return order;
}
