/* FIX sessions keep the promises of adapter.h against a venue on an engine that is not ours, a process per test: hedged
 * positions with a session per account, and a netting venue with one session for many. */
#include "fix_venue_process.h"

#include <tradewake/adapters/conformance.h>
#include <tradewake/adapters/fix.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(list)                                                                                                    \
    {                                                                                                                  \
        list, sizeof(list) / sizeof((list)[0])                                                                         \
    }

static struct fix_venue_process *running; /* one per test, and each test is a process */

/* What the venue does with the orders of an account. */
#define RULES(prefix)                                                                                                  \
    "--rule", prefix "silent:silent,first", "--rule", prefix "lost:lost,first", "--rule", prefix "late:delay=600",       \
        "--rule", prefix "refused:reject=3,text=NOT_ENOUGH_MONEY,first", "--rule", prefix "cut:cut=after,first",         \
        "--rule", prefix "slow:delay=100"

static const char *const hedging_words[] = {"--mode", "hedging", "--session", "A-plain", "--session", "A-silent", "--session",
                                            "A-lost", "--session", "A-late", "--session", "A-refused", "--session", "A-cut",
                                            "--session", "A-slow", RULES("A-"), NULL};
static const char *const netting_words[] = {"--mode", "netting", "--session", "SHARED", RULES(""), NULL};

static const char hedging_file[] = "[venue]\n"
                                   "profile = ctrader\n"
                                   "address = 127.0.0.1:%d\n"
                                   "sender = A-{account}\n"
                                   "target = VENUE\n"
                                   "settle_ms = 0\n"
                                   "currency = USD\n"
                                   "symbol EURUSD = 1 contract=100000 tick=0.00001 min=0.01 step=0.01 max=50 base=EUR quote=USD\n";
static const char netting_file[] = "[venue]\n"
                                   "profile = generic44\n"
                                   "address = 127.0.0.1:%d\n"
                                   "sender = SHARED\n"
                                   "target = VENUE\n"
                                   "positions = yes\n"
                                   "mass_status = yes\n"
                                   "settle_ms = 0\n"
                                   "currency = USD\n"
                                   "symbol EURUSD = EUR/USD contract=100000 tick=0.00001 min=0.01 step=0.01 max=50\n";

static void venue_close(void *adapter)
{
    tw_adapter_fix.close(adapter);
    if (running != NULL)
        fix_venue_end(running);
    free(running);
    running = NULL;
}

static tw_status venue_open(const struct tw_adapter_options *options, void **ret_adapter, struct tw_error *error)
{
    bool is_hedging = strcmp(options->own, "hedging") == 0;
    running = calloc(1, sizeof *running);
    if (running == NULL || !fix_venue_start(running, FIX_ACCEPTOR, is_hedging ? hedging_words : netting_words))
        return tw_error_set(error, TW_IO, "the venue does not start");
    FILE *file = fopen(running->sessions, "w");
    if (file == NULL)
        return tw_error_set(error, TW_IO, "no file of sessions");
    if (is_hedging)
        fprintf(file, hedging_file, running->port);
    else
        fprintf(file, netting_file, running->port);
    fclose(file);
    const struct tw_fix_options own = {.sessions_path = running->sessions};
    struct tw_adapter_options changed = *options;
    changed.own = &own;
    changed.state_dir = running->folder;
    return tw_adapter_fix.open(&changed, ret_adapter, error);
}

static struct tw_adapter_ops ops;

__attribute__((constructor)) static void ops_make(void)
{
    ops = tw_adapter_fix;
    ops.open = venue_open;
    ops.close = venue_close;
}

static const struct tw_adapter_setting plain[] = {{"account", "plain"}};
static const struct tw_adapter_setting reply_lost[] = {{"account", "silent"}, {"call_timeout", "300ms"}};
static const struct tw_adapter_setting call_lost[] = {{"account", "lost"}, {"call_timeout", "300ms"}};
static const struct tw_adapter_setting answer_late[] = {{"account", "late"}, {"call_timeout", "300ms"}};
static const struct tw_adapter_setting refused[] = {{"account", "refused"}};
static const struct tw_adapter_setting connection_lost[] = {{"account", "cut"}};
static const struct tw_adapter_setting slow[] = {{"account", "slow"}};

#define FIX(mode)                                                                                                      \
    {                                                                                                                  \
        .ops = &ops, .adapter = "fix:venue", .own = mode, .settings = COUNT(plain), .symbol = "EURUSD",                \
        .volume = "0.10", .part = "0.04", .stop_loss = "1.09000", .take_profit = "1.12000", .limit_price = "1.00000",  \
        .reply_lost = COUNT(reply_lost), .call_lost = COUNT(call_lost), .answer_late = COUNT(answer_late),             \
        .refused = COUNT(refused), .connection_lost = COUNT(connection_lost), .slow = COUNT(slow)                      \
    }

static const struct adapter_under_test hedging = FIX("hedging"), netting = FIX("netting");
ADAPTER_CONFORMANCE_TESTS(fix_hedging, &hedging)
ADAPTER_CONFORMANCE_TESTS(fix_netting, &netting)
