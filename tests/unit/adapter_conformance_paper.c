/* The paper broker keeps the promises of adapter.h: blocking, non-blocking, netting, with new
 * tickets. */
#include <tradewake/adapters/conformance.h>
#include <tradewake/adapters/paper.h>

#define COUNT(list)                                                                                \
    {                                                                                              \
        list, sizeof(list) / sizeof((list)[0])                                                     \
    }
#define QUOTES                                                                                     \
    {                                                                                              \
        "quotes", "{\"EURUSD\":\"1.10000/1.10020\"}"                                               \
    }

static const struct tw_adapter_setting blocking[] = {QUOTES, {"seed", "7"}};
static const struct tw_adapter_setting nonblocking[] = {QUOTES, {"nonblocking", "true"}};
static const struct tw_adapter_setting instant[] = {
    QUOTES, {"nonblocking", "true"}, {"latency", "zero"}, {"remainder", "new_ticket"}};
static const struct tw_adapter_setting netting[] = {QUOTES, {"account_mode", "netting"}};

static const struct tw_adapter_setting reply_lost[] = {{"faults", "open#1=timeout_executed"},
                                                       {"call_timeout", "200ms"}};
static const struct tw_adapter_setting call_lost[] = {{"faults", "open#1=timeout_lost"},
                                                      {"call_timeout", "200ms"}};
static const struct tw_adapter_setting answer_late[] = {{"latency", "constant:300ms"},
                                                        {"call_timeout", "200ms"}};
static const struct tw_adapter_setting refused[] = {{"faults", "open#1=no_money"}};
static const struct tw_adapter_setting connection_lost[] = {{"faults", "open#1=drop_reply"}};
static const struct tw_adapter_setting slow[] = {{"latency", "constant:100ms"}};

#define PAPER(base)                                                                                \
    {                                                                                              \
        .ops = &tw_adapter_paper, .settings = COUNT(base), .symbol = "EURUSD", .volume = "0.10",   \
        .part = "0.04", .stop_loss = "1.09000", .take_profit = "1.12000",                          \
        .limit_price = "1.00000", .reply_lost = COUNT(reply_lost), .call_lost = COUNT(call_lost),  \
        .answer_late = COUNT(answer_late), .refused = COUNT(refused),                              \
        .connection_lost = COUNT(connection_lost), .slow = COUNT(slow)                             \
    }

static const struct adapter_under_test paper = PAPER(blocking);
static const struct adapter_under_test paper_nonblocking = PAPER(nonblocking);
static const struct adapter_under_test paper_instant = PAPER(instant);
static const struct adapter_under_test paper_netting = PAPER(netting);

ADAPTER_CONFORMANCE_TESTS(paper, &paper)
ADAPTER_CONFORMANCE_TESTS(paper_nonblocking, &paper_nonblocking)
ADAPTER_CONFORMANCE_TESTS(paper_instant, &paper_instant)
ADAPTER_CONFORMANCE_TESTS(paper_netting, &paper_netting)
