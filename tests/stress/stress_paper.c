/* stress_paper - what everybody does to one paper account at once adds up.
 *
 * Workers trade at a blocking account, the reactor at a non-blocking one, while others quote, cut
 * and mend the line, act by hand, read books and open and close sessions. In the end:
 *   - every execution that was answered DONE is a deal, and no deal is unaccounted for;
 *   - the host was never told anything by two threads at once, nor after its session was closed. */
#include <tradewake/adapters/paper.h>
#include <tradewake/base/clock.h>

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 8, ORDERS = 400, NONBLOCKING_ORDERS = 1000 };

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "FAILED %s:%d: %s: ", __FILE__, __LINE__, #condition);                 \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fprintf(stderr, "\n");                                                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* ---- The host: a plain counter, on purpose. Two tellers at once are a data race that TSan sees,
 * and a count that is wrong without it. ---- */

struct host {
    atomic_int inside;
    atomic_bool is_closed;
    uint64_t told; /* not atomic */
    atomic_uint_fast64_t told_too;
};

static void tell(void *context)
{
    struct host *host = context;
    CHECK(atomic_fetch_add(&host->inside, 1) == 0, "two threads inside the host");
    CHECK(!atomic_load(&host->is_closed), "told after the close");
    host->told++;
    atomic_fetch_add(&host->told_too, 1);
    sched_yield(); /* a second teller, if there is one, or a close that does not wait comes in here
                    */
    CHECK(!atomic_load(&host->is_closed), "still told after the close");
    atomic_fetch_sub(&host->inside, 1);
}

static void on_connection(void *context, bool is_connected, const char *why)
{
    (void)is_connected;
    (void)why;
    tell(context);
}

static void on_instruments(void *context, const struct tw_instrument *instruments, size_t n)
{
    (void)instruments;
    (void)n;
    tell(context);
}

static void on_quote(void *context, const char *symbol, tw_decimal bid, tw_decimal ask)
{
    (void)symbol;
    (void)bid;
    (void)ask;
    tell(context);
}

static void on_account(void *context, const struct tw_account *account)
{
    (void)account;
    tell(context);
}

static void on_position(void *context, const struct tw_held_position *position, tw_reason reason)
{
    (void)position;
    (void)reason;
    tell(context);
}

static void on_order_gone(void *context, const char *order_id, const char *client_order_id,
                          const char *position_id)
{
    (void)order_id;
    (void)client_order_id;
    (void)position_id;
    tell(context);
}

static void on_market_open(void *context)
{
    tell(context);
}

static void *session_open(void *adapter, const char *follower_id, const char *nonblocking,
                          struct host *host)
{
    const struct tw_adapter_setting settings[] = {
        {"latency", "constant:200us"},
        {"nonblocking", nonblocking},
        {"quotes", "{\"EURUSD\":\"1.10000/1.10010\"}"},
        {"faults", "open#p0.02=drop_reply,open#p0.05=busy,close#p0.05=requote"},
        {"call_timeout", "60s"},
    };
    struct tw_session_options options = {.follower_id = follower_id,
                                         .settings = settings,
                                         .n_settings = sizeof(settings) / sizeof(settings[0]),
                                         .credentials_ref = "",
                                         .host = {.context = host,
                                                  .on_connection = on_connection,
                                                  .on_instruments = on_instruments,
                                                  .on_quote = on_quote,
                                                  .on_account = on_account,
                                                  .on_position = on_position,
                                                  .on_order_gone = on_order_gone,
                                                  .on_market_open = on_market_open}};
    void *session;
    struct tw_error error = {{0}};
    atomic_store(&host->is_closed, false);
    CHECK(tw_adapter_paper.session_open(adapter, &options, &session, &error) == TW_OK, "%s",
          error.text);
    return session;
}

static struct tw_order open_of(unsigned worker, unsigned i)
{
    struct tw_order order = {.op = TW_OP_OPEN,
                             .side = TW_BUY,
                             .type = TW_ORDER_MARKET,
                             .volume = TW_DECIMAL_ONE / 10,
                             .price = TW_DECIMAL_UNSET,
                             .stop_price = TW_DECIMAL_UNSET,
                             .stop_loss = TW_DECIMAL_UNSET,
                             .take_profit = TW_DECIMAL_UNSET,
                             .symbol = "EURUSD"};
    snprintf(order.client_order_id, sizeof(order.client_order_id), "w%u-%u", worker, i);
    return order;
}

/* ---- Workers at the blocking account. ---- */

struct worker {
    pthread_t thread;
    void *session;
    unsigned number;
    uint64_t executed; /* answered DONE, or found by a look-up after an AMBIGUOUS answer */
};

static struct tw_ack call_it(void *session, const struct tw_order *order, bool is_lookup)
{
    struct tw_adapter_call call = {.order = *order, .deadline_mono_ns = INT64_MAX};
    (is_lookup ? tw_adapter_paper.lookup : tw_adapter_paper.execute)(session, &call);
    return call.ack;
}

/* Sends until it is executed once; an unknown outcome is asked for, never sent again blindly. */
static struct tw_ack carry_out(struct worker *worker, const struct tw_order *order)
{
    struct tw_ack ack = call_it(worker->session, order, false);
    while (ack.outcome != TW_OUTCOME_DONE && ack.outcome != TW_OUTCOME_NOT_FOUND) {
        if (ack.outcome == TW_OUTCOME_AMBIGUOUS) {
            ack = call_it(worker->session, order, true);
            if (ack.outcome == TW_OUTCOME_NOT_FOUND)
                ack = call_it(worker->session, order, false);
        } else {
            ack = call_it(worker->session, order, false);
        }
    }
    worker->executed += ack.outcome == TW_OUTCOME_DONE;
    return ack;
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    for (unsigned i = 0; i < ORDERS; i++) {
        struct tw_order order = open_of(worker->number, i);
        struct tw_ack ack = carry_out(worker, &order);
        order.op = TW_OP_CLOSE;
        order.side = TW_SELL;
        order.volume = TW_DECIMAL_UNSET;
        order.client_order_id[0] = 'c';
        memcpy(order.position_id, ack.position_id, sizeof(order.position_id));
        if (i % 4 != 0)
            (void)carry_out(worker, &order);
    }
    return NULL;
}

/* ---- The non-blocking account, on the reactor. ---- */

struct crowd {
    struct tw_task task;
    struct tw_adapter_call call;
    struct tw_reactor *reactor;
    void *session;
    unsigned ended;
    uint64_t executed, lost;
    sem_t done;
};

static void crowd_done(struct tw_adapter_call *call)
{
    struct crowd *crowd = (struct crowd *)(void *)((char *)call - offsetof(struct crowd, call));
    crowd->executed += call->ack.outcome == TW_OUTCOME_DONE;
    crowd->lost += call->ack.outcome == TW_OUTCOME_AMBIGUOUS;
    crowd->ended = (unsigned)(crowd->executed + crowd->lost);
    if (crowd->ended == NONBLOCKING_ORDERS)
        sem_post(&crowd->done);
    else
        tw_reactor_post(crowd->reactor, &crowd->task); /* also what is refused is tried again */
}

static void crowd_next(struct tw_task *task)
{
    struct crowd *crowd = (struct crowd *)(void *)((char *)task - offsetof(struct crowd, task));
    crowd->call = (struct tw_adapter_call){
        .order = open_of(99, crowd->ended), .deadline_mono_ns = INT64_MAX, .done = crowd_done};
    tw_adapter_paper.execute(crowd->session, &crowd->call);
}

/* ---- Everybody else. ---- */

struct meddler {
    pthread_t thread;
    void *adapter;
    atomic_bool is_over, quotes_are_over;
    uint64_t hand_deals;
    struct host coming_and_going;
};

static void configure(void *adapter, const char *follower_id, struct tw_paper_change change)
{
    char field[TW_PAPER_FIELD_BYTES];
    struct tw_error error = {{0}};
    CHECK(tw_paper_configure(adapter, follower_id, &change, field, &error) == TW_OK, "%s",
          error.text);
}

static void act_by_hand(struct meddler *meddler)
{
    struct tw_order order = open_of(0, 0);
    char id[TW_BROKER_ID_BYTES];
    tw_reason reason;
    CHECK(tw_paper_act(meddler->adapter, "BLOCKING", &order, id, &reason, NULL) == TW_OK, "open");
    order.op = TW_OP_CLOSE;
    order.volume = TW_DECIMAL_UNSET;
    memcpy(order.position_id, id, sizeof(order.position_id));
    CHECK(tw_paper_act(meddler->adapter, "BLOCKING", &order, id, &reason, NULL) == TW_OK, "close");
    meddler->hand_deals += 2;
}

/* Until the quoter is telling this host something: the moment to close its session. */
static void await_telling(struct host *host)
{
    uint64_t told = atomic_load(&host->told_too);
    while (atomic_load(&host->told_too) == told)
        sched_yield();
}

static void *meddler_main(void *arg)
{
    struct meddler *meddler = arg;
    for (unsigned round = 0; !atomic_load(&meddler->is_over); round++) {
        tw_decimal bid = 110000000 + (tw_decimal)(round % 100) * 1000;
        struct tw_paper_quote quote = {"EURUSD", bid, bid + 1000};
        struct tw_paper_book book;
        configure(meddler->adapter, "", (struct tw_paper_change){.quotes = &quote, .n_quotes = 1});
        act_by_hand(meddler);
        if (round % 20 == 0) {
            configure(meddler->adapter, "BLOCKING",
                      (struct tw_paper_change){.connection = TW_PAPER_CONNECTION_DOWN});
            configure(meddler->adapter, "BLOCKING",
                      (struct tw_paper_change){.connection = TW_PAPER_CONNECTION_UP});
        }
        CHECK(tw_paper_book_read(meddler->adapter, "BLOCKING", &book) == TW_OK, "book");
        tw_paper_book_clear(&book);
        void *session =
            session_open(meddler->adapter, "COMING", "false", &meddler->coming_and_going);
        await_telling(&meddler->coming_and_going);
        tw_adapter_paper.session_close(session);
        atomic_store(&meddler->coming_and_going.is_closed, true);
    }
    return NULL;
}

/* Quotes for every account, without end: also while one is being closed. */
static void *quoter_main(void *arg)
{
    struct meddler *meddler = arg;
    for (unsigned round = 0; !atomic_load(&meddler->quotes_are_over); round++) {
        tw_decimal bid = 130000000 + (tw_decimal)(round % 100) * 1000;
        struct tw_paper_quote quotes[] = {{"GBPUSD", bid, bid + 1000}, {"USDJPY", bid, bid}};
        configure(meddler->adapter, "", (struct tw_paper_change){.quotes = quotes, .n_quotes = 2});
    }
    return NULL;
}

static uint64_t deals_of(void *adapter, const char *follower_id)
{
    struct tw_paper_book book;
    CHECK(tw_paper_book_read(adapter, follower_id, &book) == TW_OK, "%s", follower_id);
    uint64_t n = book.n_deals;
    tw_paper_book_clear(&book);
    return n;
}

int main(void)
{
    static struct host blocking_host, nonblocking_host;
    static struct worker workers[WORKERS];
    static struct crowd crowd;
    static struct meddler meddler;
    struct tw_reactor *reactor;
    pthread_t quoter;
    void *adapter;
    CHECK(tw_reactor_start("paper", &reactor, NULL) == TW_OK, "reactor");
    struct tw_adapter_options options = {.reactor = reactor};
    CHECK(tw_adapter_paper.open(&options, &adapter, NULL) == TW_OK, "open");
    void *blocking = session_open(adapter, "BLOCKING", "false", &blocking_host);
    crowd.session = session_open(adapter, "NONBLOCKING", "true", &nonblocking_host);

    /* Sessions are opened by one thread at a time: one meddler, and main has opened the others. */
    meddler.adapter = adapter;
    pthread_create(&meddler.thread, NULL, meddler_main, &meddler);
    pthread_create(&quoter, NULL, quoter_main, &meddler);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i].session = blocking;
        workers[i].number = i;
        pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]);
    }
    sem_init(&crowd.done, 0, 0);
    crowd.reactor = reactor;
    crowd.task.run = crowd_next;
    tw_reactor_post(reactor, &crowd.task);

    uint64_t executed = 0;
    for (unsigned i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        executed += workers[i].executed;
    }
    while (sem_wait(&crowd.done) != 0) {
    }
    atomic_store(&meddler.is_over, true);
    pthread_join(meddler.thread, NULL); /* it waits for quotes, so the quoter goes last */
    atomic_store(&meddler.quotes_are_over, true);
    pthread_join(quoter, NULL);
    executed += meddler.hand_deals;
    tw_adapter_paper.session_close(blocking);
    tw_adapter_paper.session_close(crowd.session);

    uint64_t deals = deals_of(adapter, "BLOCKING"), crowd_deals = deals_of(adapter, "NONBLOCKING");
    printf(
        "blocking: %llu executed, %llu deals; non-blocking: %llu executed, %llu lost, %llu deals\n",
        (unsigned long long)executed, (unsigned long long)deals, (unsigned long long)crowd.executed,
        (unsigned long long)crowd.lost, (unsigned long long)crowd_deals);
    printf("told %llu, told too %llu\n", (unsigned long long)blocking_host.told,
           (unsigned long long)blocking_host.told_too);
    CHECK(executed == deals, "executions and deals differ");
    CHECK(crowd_deals == NONBLOCKING_ORDERS, "what a dropped line lost was executed, once");
    CHECK(blocking_host.told == blocking_host.told_too, "two tellers at once");
    tw_adapter_paper.close(adapter);
    tw_reactor_stop(reactor);
    return 0;
}
