/* A library that lies, in process: the order was executed each time, whatever it says, so it must not be believed; and what
 * it changes in our process is changed back. */
#include <tradewake/adapters/plugin.h>
#include <tradewake/base/clock.h>

#include <criterion/criterion.h>
#include <locale.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct tw_plugin_entry entries[] = {{"evil", TW_PLUGINS "/evil.so", true},
                                                 {"session", TW_PLUGINS "/evil_session.so", true}};
static const struct tw_plugin_list list = {entries, 2};

struct desk {
    void *adapter, *session;
    sem_t connected;
};

static void on_connection(void *context, bool is_connected, const char *why)
{
    struct desk *desk = context;
    (void)why;
    if (is_connected)
        sem_post(&desk->connected);
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

static void desk_open_at(struct desk *desk, const char *adapter, const char *does)
{
    const struct tw_adapter_setting setting = {"does", does};
    const struct tw_adapter_options adapter_options = {.own = &list};
    struct tw_error error = {{0}};
    *desk = (struct desk){0};
    sem_init(&desk->connected, 0, 0);
    const struct tw_session_options options = {
        .follower_id = "F1", .adapter = adapter, .settings = &setting, .n_settings = 1, .credentials_ref = "",
        .host = {.context = desk, .on_connection = on_connection, .on_instruments = on_instruments,
                 .on_quote = on_quote, .on_account = on_account}};
    cr_assert_eq(tw_adapter_plugin.open(&adapter_options, &desk->adapter, &error), TW_OK, "%s", error.text);
    cr_assert_eq(tw_adapter_plugin.session_open(desk->adapter, &options, &desk->session, &error), TW_OK, "%s",
                 error.text);
    while (sem_wait(&desk->connected) != 0) {
    }
}

static void desk_open(struct desk *desk, const char *does)
{
    desk_open_at(desk, "plugin:evil", does);
}

static void desk_close(struct desk *desk)
{
    tw_adapter_plugin.session_close(desk->session);
    tw_adapter_plugin.close(desk->adapter);
}

static struct tw_adapter_call open_call(void)
{
    struct tw_adapter_call call = {.order = {.op = TW_OP_OPEN, .side = TW_BUY, .type = TW_ORDER_MARKET,
                                             .client_order_id = "A1", .symbol = "EURUSD",
                                             .volume = TW_DECIMAL_ONE / 10, .price = TW_DECIMAL_UNSET,
                                             .stop_price = TW_DECIMAL_UNSET, .stop_loss = TW_DECIMAL_UNSET,
                                             .take_profit = TW_DECIMAL_UNSET},
                                   .deadline_mono_ns = tw_mono_ns() + 10 * TW_NS_PER_S};
    return call;
}

static bool snapshot_take(struct desk *desk, struct tw_snapshot *ret)
{
    struct tw_adapter_call call = {.snapshot = ret, .deadline_mono_ns = tw_mono_ns() + 10 * TW_NS_PER_S};
    *ret = (struct tw_snapshot){0};
    tw_adapter_plugin.snapshot(desk->session, &call);
    cr_expect_eq(ret->complete, call.ack.outcome == TW_OUTCOME_DONE);
    return ret->complete;
}

static void expect_doubt(const char *does)
{
    struct desk desk;
    struct tw_adapter_call call = open_call();
    struct tw_snapshot snapshot;
    desk_open(&desk, does);

    tw_adapter_plugin.execute(desk.session, &call);

    cr_expect_eq(call.ack.outcome, TW_OUTCOME_AMBIGUOUS, "%s: outcome %d", does, call.ack.outcome);
    cr_expect_eq(call.ack.filled_volume, 0, "%s", does);
    cr_expect_str_eq(call.ack.position_id, "", "%s", does);
    cr_expect_not(call.ack.not_sent, "%s", does);
    cr_expect_str_neq(call.ack.broker_message, "", "%s", does);
    cr_assert(snapshot_take(&desk, &snapshot), "%s", does);
    cr_expect_eq(snapshot.n_positions, 1, "%s: it was executed", does);
    tw_snapshot_clear(&snapshot);

    struct tw_adapter_call lookup = open_call(); /* and asked, it says so */
    tw_adapter_plugin.lookup(desk.session, &lookup);
    cr_expect_eq(lookup.ack.outcome, TW_OUTCOME_DONE, "%s: look-up %d", does, lookup.ack.outcome);
    desk_close(&desk);
}

#define DOUBT(does) \
    Test(plugin_lies, an_answer_is_in_doubt_##does, .timeout = 20) { expect_doubt(#does); }
DOUBT(size)
DOUBT(code)
DOUBT(text)
DOUBT(below_zero)
DOUBT(more)
DOUBT(done_not_sent)
DOUBT(refused_filled)
DOUBT(nothing_filled)
DOUBT(no_position)
DOUBT(overrun)

static void expect_done(const char *does)
{
    struct desk desk;
    struct tw_adapter_call call = open_call();
    desk_open(&desk, does);
    tw_adapter_plugin.execute(desk.session, &call);
    cr_expect_eq(call.ack.outcome, TW_OUTCOME_DONE, "%s: outcome %d %s", does, call.ack.outcome, call.ack.broker_message);
    desk_close(&desk);
}

Test(plugin_lies, the_locale_is_as_it_was, .timeout = 20)
{
    char before[256];
    snprintf(before, sizeof before, "%s", setlocale(LC_ALL, NULL));
    expect_done("setlocale");
    cr_expect_str_eq(setlocale(LC_ALL, NULL), before);
}

Test(plugin_lies, the_signal_mask_of_our_thread_is_as_it_was, .timeout = 20)
{
    sigset_t wanted, now;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &wanted, NULL);
    expect_done("mask");
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    cr_expect_eq(sigismember(&now, SIGTERM), 1);
}

static void expect_no_snapshot(const char *does)
{
    struct desk desk;
    struct tw_adapter_call call = open_call();
    struct tw_snapshot snapshot;
    desk_open(&desk, does);
    tw_adapter_plugin.execute(desk.session, &call);
    cr_expect_not(snapshot_take(&desk, &snapshot), "%s", does);
    cr_expect_eq(snapshot.n_positions, 0, "what is not whole is nothing");
    desk_close(&desk);
}

Test(plugin_lies, a_list_with_an_item_that_is_none_is_no_snapshot, .timeout = 20)
{
    expect_no_snapshot("list");
}

Test(plugin_lies, a_list_that_was_cut_is_no_snapshot, .timeout = 20)
{
    expect_no_snapshot("cut");
}

/* ---- Calls that do not come back ---- */

static void *execute_main(void *arg)
{
    struct desk *desk = arg;
    static struct tw_adapter_call call;
    call = open_call();
    tw_adapter_plugin.execute(desk->session, &call);
    return &call;
}

Test(plugin_lies, other_calls_go_on_while_one_hangs, .timeout = 20)
{
    static struct desk desk;
    struct tw_snapshot snapshot = {0};
    pthread_t hanging;
    desk_open(&desk, "hang");
    cr_assert_eq(pthread_create(&hanging, NULL, execute_main, &desk), 0);
    while (!snapshot_take(&desk, &snapshot) || snapshot.n_positions == 0) /* it was executed, and stays inside */
        tw_snapshot_clear(&snapshot);
    tw_snapshot_clear(&snapshot);

    struct tw_adapter_call second = open_call();
    strcpy(second.order.client_order_id, "A2");
    tw_adapter_plugin.execute(desk.session, &second);
    cr_expect_eq(second.ack.outcome, TW_OUTCOME_DONE);
    /* The host never closes a session that a call is in; the process ends with it. */
}

Test(plugin_lies, a_session_that_does_not_come_back_has_another_in_its_place, .timeout = 30)
{
    static struct desk desk;
    struct tw_snapshot snapshot = {0};
    pthread_t hanging;
    desk_open_at(&desk, "plugin:session", "hang");
    cr_assert_eq(pthread_create(&hanging, NULL, execute_main, &desk), 0);
    while (sem_wait(&desk.connected) != 0) { /* lost, and made again */
    }

    cr_assert(snapshot_take(&desk, &snapshot));
    cr_expect_eq(snapshot.n_positions, 1, "it was executed");
    tw_snapshot_clear(&snapshot);
    struct tw_adapter_call second = open_call();
    strcpy(second.order.client_order_id, "A2");
    tw_adapter_plugin.execute(desk.session, &second);
    cr_expect_eq(second.ack.outcome, TW_OUTCOME_DONE);
    /* As above: the process ends with it. */
}

Test(plugin_lies, an_answer_that_comes_late_is_still_the_truth, .timeout = 20)
{
    expect_done("late"); /* whether it is in time is for the executor to say: the thread was lost long ago */
}
