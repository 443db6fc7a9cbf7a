/* A library in a process of its own keeps the promises of adapter.h: all four thread models, several sessions, netting. */
#include "plugins.h"

#include <tradewake/adapters/conformance.h>

#define COUNT(list)                                                                                \
    {                                                                                              \
        list, sizeof(list) / sizeof((list)[0])                                                     \
    }

static const struct tw_plugin_entry entries[] = {
    {"good", TW_PLUGINS "/good.so", false},
    {"session", TW_PLUGINS "/good_session.so", false},
    {"affine", TW_PLUGINS "/good_affine.so", false},
    {"global", TW_PLUGINS "/good_global.so", false},
};

/* Each test is a process: it starts the one library that it is about. */
#define OWN(index)                                                                                 \
    {                                                                                              \
        .list = {&entries[index], 1}, .hosts = {.program = TW_PROGRAM}                             \
    }
static const struct tw_plugins_own own_good = OWN(0), own_session = OWN(1), own_affine = OWN(2), own_global = OWN(3);

static const struct tw_adapter_setting plain[] = {{"call_timeout", "2s"}};
static const struct tw_adapter_setting three[] = {{"sessions", "3"}};
static const struct tw_adapter_setting netting[] = {{"account_mode", "netting"}};

static const struct tw_adapter_setting reply_lost[] = {{"first_open", "reply_lost"}, {"call_timeout", "200ms"}};
static const struct tw_adapter_setting call_lost[] = {{"first_open", "call_lost"}, {"call_timeout", "200ms"}};
static const struct tw_adapter_setting answer_late[] = {{"latency", "300ms"}, {"call_timeout", "200ms"}};
static const struct tw_adapter_setting refused[] = {{"first_open", "refused"}};
static const struct tw_adapter_setting connection_lost[] = {{"first_open", "hang_up"}};
static const struct tw_adapter_setting slow[] = {{"latency", "100ms"}};

#define HOSTED(its, base, ...)                                                                     \
    {                                                                                              \
        .ops = &tw_adapter_plugins, .own = &its, .adapter = "plugin", .settings = COUNT(base),     \
        .symbol = "EURUSD", .volume = "0.10", .part = "0.04", .stop_loss = "1.09000",              \
        .take_profit = "1.12000", .limit_price = "1.00000", .reply_lost = COUNT(reply_lost),       \
        .call_lost = COUNT(call_lost), .answer_late = COUNT(answer_late), .refused = COUNT(refused), \
        .slow = COUNT(slow), __VA_ARGS__                                                           \
    }

static const struct adapter_under_test hosted_free = HOSTED(own_good, plain, .connection_lost = COUNT(connection_lost));
static const struct adapter_under_test hosted_session = HOSTED(own_session, plain, .connection_lost = COUNT(connection_lost));
static const struct adapter_under_test hosted_affine = HOSTED(own_affine, plain, .connection_lost = COUNT(connection_lost));
static const struct adapter_under_test hosted_global = HOSTED(own_global, plain, .connection_lost = COUNT(connection_lost));
/* With two of three sessions left, the account is still connected. */
static const struct adapter_under_test hosted_sessions = HOSTED(own_session, three, .connection_lost = {NULL, 0});
static const struct adapter_under_test hosted_netting = HOSTED(own_good, netting, .connection_lost = COUNT(connection_lost));

ADAPTER_CONFORMANCE_TESTS(hosted, &hosted_free)
ADAPTER_CONFORMANCE_TESTS(hosted_session, &hosted_session)
ADAPTER_CONFORMANCE_TESTS(hosted_affine, &hosted_affine)
ADAPTER_CONFORMANCE_TESTS(hosted_global, &hosted_global)
ADAPTER_CONFORMANCE_TESTS(hosted_sessions, &hosted_sessions)
ADAPTER_CONFORMANCE_TESTS(hosted_netting, &hosted_netting)
