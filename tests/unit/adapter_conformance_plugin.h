/* adapter_conformance_plugin.h - the simulated library (tests/plugins/sim.h) under test, wherever it runs. */
#ifndef ADAPTER_CONFORMANCE_PLUGIN_H
#define ADAPTER_CONFORMANCE_PLUGIN_H

#include <tradewake/adapters/conformance.h>

#define COUNT(list)                                                                                \
    {                                                                                              \
        list, sizeof(list) / sizeof((list)[0])                                                     \
    }

static const struct tw_adapter_setting plain[] = {{"call_timeout", "2s"}};
static const struct tw_adapter_setting three[] = {{"sessions", "3"}};
static const struct tw_adapter_setting netting[] = {{"account_mode", "netting"}};

static const struct tw_adapter_setting reply_lost[] = {{"first_open", "reply_lost"}, {"call_timeout", "200ms"}};
static const struct tw_adapter_setting call_lost[] = {{"first_open", "call_lost"}, {"call_timeout", "200ms"}};
static const struct tw_adapter_setting answer_late[] = {{"latency", "300ms"}, {"call_timeout", "200ms"}};
static const struct tw_adapter_setting refused[] = {{"first_open", "refused"}};
static const struct tw_adapter_setting connection_lost[] = {{"first_open", "hang_up"}};
static const struct tw_adapter_setting slow[] = {{"latency", "100ms"}};

/* base: the settings of an account; the rest says which adapter's. */
#define PLUGIN_UNDER_TEST(base, ...)                                                               \
    {                                                                                              \
        .settings = COUNT(base), .symbol = "EURUSD", .volume = "0.10", .part = "0.04",             \
        .stop_loss = "1.09000", .take_profit = "1.12000", .limit_price = "1.00000",                \
        .reply_lost = COUNT(reply_lost), .call_lost = COUNT(call_lost),                            \
        .answer_late = COUNT(answer_late), .refused = COUNT(refused), .slow = COUNT(slow),         \
        __VA_ARGS__                                                                                \
    }

#endif
