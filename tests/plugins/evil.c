/* A plugin that breaks the contract: the simulated broker executes as it should, and then this one lies about the first open
 * of a session, or worse. Setting does,
 * of whichever session has it first:
 *   size, code, text, below_zero, more   the answer's declared size, its outcome, its ids, its numbers are rubbish
 *   done_not_sent, refused_filled, nothing_filled, no_position   it contradicts itself
 *   overrun       writes past the end of its answer, by as much as it declares to be its size
 *   setlocale, mask   changes what is the process's
 *   list          a position of a size that there is not; cut: a list that stops in the middle, and says so
 *   hang, late    comes back never; after nine tenths of a second, whatever the deadline is
 *   deaf          after the first order a question for quotes comes back never, once in a ledger
 *   shout         writes to its standard output without a pause, also what looks like lines of a log
 *   abort, crash, exit, kill   of course: after the order was carried out; early: before it was, once in a ledger */
#define _GNU_SOURCE
#include "sim.h"

#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const int64_t sim_latency_ns = 1000000;
const int sim_keeps_deadlines = 0;
const int sim_is_one_at_a_time = PLUGIN_THREADS != TWP_THREADS_FREE;

static atomic_int is_told, has_opened;
static char does[32], ledger[256];

static int is(const char *what)
{
    return strcmp(does, what) == 0;
}

static int32_t evil_check(const struct twp_setting *settings, uint32_t n, struct twp_words *words)
{
    (void)settings;
    (void)n;
    (void)words;
    return TWP_DONE;
}

static void *shout(void *arg)
{
    static const char words[] = "louder\n2026-12-01T00:00:00.000Z W fake.line words=\"\033[2J\"\n\0";
    while (write(STDOUT_FILENO, words, sizeof words) > 0) {
    }
    return arg;
}

static void shout_begin(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, shout, NULL) == 0)
        pthread_detach(thread);
}

static int32_t evil_session_open(const struct twp_open *open, struct twp_session **ret, struct twp_words *words)
{
    if (sim_setting(open, "does")[0] != '\0' && atomic_exchange(&is_told, 1) == 0) {
        strncpy(does, sim_setting(open, "does"), sizeof does - 1);
        strncpy(ledger, sim_setting(open, "ledger"), sizeof ledger - 1);
        if (is("shout"))
            shout_begin();
    }
    return sim_session_open(open, ret, words);
}

static _Noreturn void hang(void)
{
    for (;;)
        sim_sleep_until(sim_mono_ns() + INT64_C(3600000000000));
}

static int32_t lie(int32_t outcome, struct twp_result *ret)
{
    if (is("size"))
        ret->size = 0xdeadbeef;
    if (is("code"))
        return 77;
    if (is("text"))
        memset(ret->position_id, 'x', sizeof ret->position_id);
    if (is("below_zero"))
        ret->filled_volume = -1;
    if (is("more"))
        ret->filled_volume *= 10;
    if (is("done_not_sent"))
        ret->flags |= TWP_F_NOT_SENT;
    if (is("refused_filled"))
        return TWP_REJECTED;
    if (is("nothing_filled"))
        ret->filled_volume = 0;
    if (is("no_position"))
        ret->position_id[0] = '\0';
    if (is("overrun")) {
        uint32_t declared = 4 * ret->size;
        memset((char *)ret + ret->size, 0x5a, declared - ret->size);
    }
    if (is("setlocale"))
        setlocale(LC_ALL, "C.UTF-8");
    if (is("mask")) {
        sigset_t none;
        sigemptyset(&none);
        pthread_sigmask(SIG_SETMASK, &none, NULL);
    }
    if (is("late"))
        sim_sleep_until(sim_mono_ns() + INT64_C(900000000));
    return outcome;
}

/* Who does it in every process reaches no order. */
static int is_first_in_ledger(void)
{
    char path[300];
    snprintf(path, sizeof path, "%s/.done", ledger);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return file >= 0;
}

static int32_t evil_execute(struct twp_session *session, const struct twp_order *order, struct twp_result *ret)
{
    if (order->op != TWP_OP_OPEN || atomic_exchange(&has_opened, 1) != 0)
        return sim_execute(session, order, ret);
    if (is("early") && is_first_in_ledger())
        abort();
    int32_t outcome = sim_execute(session, order, ret);
    if (is("abort"))
        abort();
    if (is("crash"))
        *(volatile int *)(uintptr_t)strtoul("16", NULL, 10) = 1; /* where the compiler does not see it coming */
    if (is("exit"))
        exit(0);
    if (is("kill"))
        raise(SIGKILL);
    if (is("hang"))
        hang();
    return lie(outcome, ret);
}

static int32_t evil_quotes(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list)
{
    if (is("deaf") && has_opened && is_first_in_ledger())
        hang();
    return sim_quotes(session, deadline_mono_ns, list);
}

struct passing {
    const struct twp_list *to;
    int n;
};

static int32_t pass(void *ctx, const void *item)
{
    struct passing *passing = ctx;
    struct twp_position position = *(const struct twp_position *)item;
    if (is("list"))
        position.size = 8;
    return passing->to->add(passing->to->ctx, &position);
}

static int32_t evil_positions(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list)
{
    struct passing passing = {.to = list};
    const struct twp_list own = {.size = sizeof own, .ctx = &passing, .add = pass};
    int32_t outcome = sim_positions(session, deadline_mono_ns, &own);
    return is("list") ? TWP_DONE : is("cut") ? TWP_PARTIAL : outcome;
}

static const struct twp_caps caps = {
    .size = sizeof caps,
    .thread_model = PLUGIN_THREADS,
    .can = TWP_CAN_HEDGING | TWP_CAN_LOOKUP,
    .id_strength = TWP_ID_JOURNAL,
    .call_timeout_ms = 500,
    .settle_ms = 500,
};
static const struct twp_api api = {
    .size = sizeof api,
    .check = evil_check,
    .session_open = evil_session_open,
    .session_close = sim_session_close,
    .account = sim_account,
    .instruments = sim_instruments,
    .quotes = evil_quotes,
    .positions = evil_positions,
    .orders = sim_orders,
    .execute = evil_execute,
    .lookup = sim_lookup,
};
static const struct twp_plugin plugin = {TWP_PLUGIN_SIZES, "evil", "6.6.6", &caps, &api};

const struct twp_plugin *tradewake_plugin_v1(uint32_t host_abi)
{
    (void)host_abi;
    return &plugin;
}
