/* bench.h - one adapter, one session, a reactor and a host that writes down what it hears. */
#ifndef CONFORMANCE_BENCH_H
#define CONFORMANCE_BENCH_H

#include <tradewake/adapters/conformance.h>

#include <pthread.h>
#include <semaphore.h>

enum { BENCH_SETTINGS_MAX = 32 };

struct bench {
    const struct adapter_under_test *under_test;
    struct tw_reactor *reactor;
    void *adapter, *session;
    struct tw_capabilities can;

    pthread_mutex_t lock; /* guards what follows: the host's side */
    pthread_cond_t news;
    bool is_connected, is_closed;
    int connections, losses, told_after_close;
    bool account_first, instruments_first;
    struct tw_account account;
    struct tw_instrument instrument; /* of the symbol under test */
};

/* A call that is out, and comes back. */
struct round {
    struct tw_adapter_call call;
    struct bench *bench;
    void (*start)(void *session, struct tw_adapter_call *call);
    struct tw_task task;
    sem_t back;
    int times; /* that done() was called */
};

void bench_start(struct bench *bench, const struct adapter_under_test *under_test,
                 struct conformance_settings more);
void bench_stop(struct bench *bench);
const char *bench_adapter(const struct adapter_under_test *under_test);
void bench_session_open(struct bench *bench, struct conformance_settings more);
void bench_session_close(struct bench *bench);
/* Waits until the host has heard so many connections; fails the test after ten seconds. */
void bench_await_connections(struct bench *bench, int connections);

/* Sends a call the way the executor would, and waits for its answer. */
struct tw_ack bench_execute(struct bench *bench, const struct tw_order *order);
struct tw_ack bench_execute_by(struct bench *bench, const struct tw_order *order,
                               int64_t deadline_mono_ns);
struct tw_ack bench_lookup(struct bench *bench, const char *client_order_id);
/* Asks again as long as it could not be asked: a call may still be held by the broker. */
struct tw_ack bench_lookup_known(struct bench *bench, const char *client_order_id);
/* Fails the test unless it is complete. The caller clears it. */
struct tw_snapshot bench_snapshot(struct bench *bench);

/* The two halves, for calls side by side. */
void round_start(struct round *round, struct bench *bench, const struct tw_order *order);
void round_await(struct round *round);

/* Orders of the symbol under test. side: of a close, the order's. */
struct tw_order bench_open(const struct bench *bench, const char *client_order_id);
struct tw_order bench_close(const struct bench *bench, const char *client_order_id,
                            const char *position_id, tw_decimal volume);
struct tw_order bench_modify(const struct bench *bench, const char *client_order_id,
                             const char *position_id);
struct tw_order bench_place(const struct bench *bench, const char *client_order_id);
struct tw_order bench_cancel(const char *client_order_id, const char *order_id);

tw_decimal bench_decimal(const char *text);

#endif
