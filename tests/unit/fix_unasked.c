/* What a venue does by itself, as the host hears it: a pending that fills, one that is cancelled, a position closed by hand. */
#include "fix_venue_process.h"

#include <tradewake/adapters/fix.h>
#include <tradewake/base/clock.h>

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct fix_venue_process venue;
static struct tw_reactor *reactor;
static void *adapter, *session;

/* What was heard. Guarded by lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static bool is_up;
static int n_gone, n_positions;
static char gone_id[65], gone_position[65];
static struct tw_held_position position;

static void heard(void)
{
    pthread_cond_broadcast(&news);
    pthread_mutex_unlock(&lock);
}

static void on_connection(void *context, bool is_connected, const char *why)
{
    (void)context, (void)why;
    pthread_mutex_lock(&lock);
    is_up = is_connected;
    heard();
}

static void on_instruments(void *context, const struct tw_instrument *instruments, size_t n)
{
    (void)context, (void)instruments, (void)n;
}

static void on_quote(void *context, const char *symbol, tw_decimal bid, tw_decimal ask)
{
    (void)context, (void)symbol, (void)bid, (void)ask;
}

static void on_account(void *context, const struct tw_account *account)
{
    (void)context, (void)account;
}

static void on_position(void *context, const struct tw_held_position *told, tw_reason reason)
{
    (void)context, (void)reason;
    pthread_mutex_lock(&lock);
    position = *told;
    n_positions++;
    heard();
}

static void on_order_gone(void *context, const char *order_id, const char *client_order_id, const char *position_id)
{
    (void)context, (void)order_id;
    pthread_mutex_lock(&lock);
    snprintf(gone_id, sizeof gone_id, "%s", client_order_id);
    snprintf(gone_position, sizeof gone_position, "%s", position_id);
    n_gone++;
    heard();
}

static void on_market_open(void *context)
{
    (void)context;
}

#define AWAIT(condition)                                                                                               \
    do {                                                                                                               \
        pthread_mutex_lock(&lock);                                                                                     \
        while (!(condition))                                                                                           \
            pthread_cond_wait(&news, &lock);                                                                           \
        pthread_mutex_unlock(&lock);                                                                                   \
    } while (0)

static void begin(void)
{
    static const char *const words[] = {"--mode", "hedging", "--session", "A-1", NULL};
    struct tw_error error = {{0}};
    cr_assert(fix_venue_start(&venue, FIX_ACCEPTOR, words));
    FILE *file = fopen(venue.sessions, "w");
    fprintf(file,
            "[v]\nprofile = ctrader\naddress = 127.0.0.1:%d\nsender = A-{account}\ntarget = VENUE\ncurrency = USD\n"
            "symbol EURUSD = 1 contract=100000 tick=0.00001 min=0.01 step=0.01 max=50\n",
            venue.port);
    fclose(file);
    const struct tw_fix_options own = {.sessions_path = venue.sessions};
    cr_assert_eq(tw_reactor_start("fix", &reactor, &error), TW_OK);
    const struct tw_adapter_options options = {.state_dir = venue.folder, .reactor = reactor, .own = &own};
    cr_assert_eq(tw_adapter_fix.open(&options, &adapter, &error), TW_OK, "%s", error.text);
    const struct tw_session_options follower = {.follower_id = "1",
                                                .adapter = "fix:v",
                                                .credentials_ref = "",
                                                .host = {.on_connection = on_connection,
                                                         .on_instruments = on_instruments,
                                                         .on_quote = on_quote,
                                                         .on_account = on_account,
                                                         .on_position = on_position,
                                                         .on_order_gone = on_order_gone,
                                                         .on_market_open = on_market_open}};
    cr_assert_eq(tw_adapter_fix.session_open(adapter, &follower, &session, &error), TW_OK, "%s", error.text);
    AWAIT(is_up);
}

static void end(void)
{
    tw_adapter_fix.session_close(session);
    tw_adapter_fix.close(adapter);
    tw_reactor_stop(reactor);
    fix_venue_end(&venue);
}

TestSuite(fix_unasked, .init = begin, .fini = end, .timeout = 30);

static void tell(const char *command)
{
    cr_assert_eq(write(venue.commands, command, strlen(command)), (ssize_t)strlen(command));
}

struct round {
    struct tw_adapter_call call;
    struct tw_task task;
    sem_t back;
    void (*start)(void *session, struct tw_adapter_call *call);
};

static void on_done(struct tw_adapter_call *call)
{
    sem_post(&((struct round *)(void *)call)->back);
}

static void on_task(struct tw_task *task)
{
    struct round *round = (struct round *)(void *)((char *)task - offsetof(struct round, task));
    round->start(session, &round->call);
}

static struct tw_ack call(void (*start)(void *session, struct tw_adapter_call *call), const struct tw_order *order,
                          struct tw_snapshot *snapshot)
{
    struct round round = {.start = start, .task = {.run = on_task}};
    round.call.order = *order;
    round.call.snapshot = snapshot;
    round.call.done = on_done;
    round.call.deadline_mono_ns = tw_mono_ns() + 20 * TW_NS_PER_S;
    sem_init(&round.back, 0, 0);
    tw_reactor_post(reactor, &round.task);
    while (sem_wait(&round.back) != 0) {
    }
    return round.call.ack;
}

static struct tw_ack execute(enum tw_order_op op, const char *id)
{
    struct tw_order order = {.op = op,
                             .side = TW_BUY,
                             .type = op == TW_OP_PLACE ? TW_ORDER_LIMIT : TW_ORDER_MARKET,
                             .symbol = "EURUSD",
                             .volume = TW_DECIMAL_ONE / 10,
                             .price = TW_DECIMAL_ONE,
                             .stop_price = TW_DECIMAL_UNSET,
                             .stop_loss = TW_DECIMAL_UNSET,
                             .take_profit = TW_DECIMAL_UNSET};
    snprintf(order.client_order_id, sizeof order.client_order_id, "%s", id);
    return call(tw_adapter_fix.execute, &order, NULL);
}

Test(fix_unasked, a_pending_that_fills_is_told_with_what_it_became)
{
    cr_assert_eq(execute(TW_OP_PLACE, "pending").outcome, TW_OUTCOME_DONE);

    tell("fill pending\n");
    AWAIT(n_gone == 1);

    cr_expect_str_eq(gone_id, "pending");
    cr_expect_str_neq(gone_position, "");
    AWAIT(n_positions == 1);
    cr_expect_eq(position.volume, TW_DECIMAL_ONE / 10);
    cr_expect_str_eq(position.position_id, gone_position);
}

Test(fix_unasked, a_pending_that_is_cancelled_by_the_venue_is_told)
{
    cr_assert_eq(execute(TW_OP_PLACE, "pending").outcome, TW_OUTCOME_DONE);

    tell("cancel pending\n");
    AWAIT(n_gone == 1);

    cr_expect_str_eq(gone_id, "pending");
    cr_expect_str_eq(gone_position, "");
}

Test(fix_unasked, a_position_that_was_closed_by_hand_is_told_when_it_is_read)
{
    struct tw_ack open = execute(TW_OP_OPEN, "open");
    struct tw_order nothing = {.op = TW_OP_OPEN};
    char command[100];
    cr_assert_eq(open.outcome, TW_OUTCOME_DONE);

    snprintf(command, sizeof command, "close %s\n", open.position_id);
    tell(command);
    for (size_t left = 1; left > 0;) { /* the venue reads its commands beside its sessions */
        struct tw_snapshot snapshot = {0};
        cr_assert_eq(call(tw_adapter_fix.snapshot, &nothing, &snapshot).outcome, TW_OUTCOME_DONE);
        left = snapshot.n_positions;
        tw_snapshot_clear(&snapshot);
    }

    AWAIT(n_positions == 1);
    cr_expect_eq(position.volume, 0);
    cr_expect_str_eq(position.position_id, open.position_id);
}

Test(fix_unasked, a_fill_that_the_venue_takes_back_is_told)
{
    struct tw_ack open = execute(TW_OP_OPEN, "open");
    cr_assert_eq(open.outcome, TW_OUTCOME_DONE);

    tell("bust open\n");
    AWAIT(n_positions == 1);

    cr_expect_eq(position.volume, 0);
    cr_expect_str_eq(position.position_id, open.position_id);
}
