/* A library behind the plugin adapter, in process, keeps the promises of adapter.h: any number of calls at once, one at a
 * time, several sessions of one at a time, netting. */
#include <tradewake/adapters/conformance.h>
#include <tradewake/adapters/plugin.h>

#define COUNT(list)                                                                                \
    {                                                                                              \
        list, sizeof(list) / sizeof((list)[0])                                                     \
    }

static const struct tw_plugin_entry entries[] = {{"good", TW_PLUGINS "/good.so", true},
                                                 {"session", TW_PLUGINS "/good_session.so", true}};
static const struct tw_plugin_list list = {entries, sizeof entries / sizeof entries[0]};

static const struct tw_adapter_setting plain[] = {{"call_timeout", "2s"}};
static const struct tw_adapter_setting three[] = {{"sessions", "3"}};
static const struct tw_adapter_setting netting[] = {{"account_mode", "netting"}};

static const struct tw_adapter_setting reply_lost[] = {{"first_open", "reply_lost"}, {"call_timeout", "200ms"}};
static const struct tw_adapter_setting call_lost[] = {{"first_open", "call_lost"}, {"call_timeout", "200ms"}};
static const struct tw_adapter_setting answer_late[] = {{"latency", "300ms"}, {"call_timeout", "200ms"}};
static const struct tw_adapter_setting refused[] = {{"first_open", "refused"}};
static const struct tw_adapter_setting connection_lost[] = {{"first_open", "hang_up"}};
static const struct tw_adapter_setting slow[] = {{"latency", "100ms"}};

#define PLUGIN(name, base, ...)                                                                    \
    {                                                                                              \
        .ops = &tw_adapter_plugin, .own = &list, .adapter = "plugin:" name, .settings = COUNT(base), \
        .symbol = "EURUSD", .volume = "0.10", .part = "0.04", .stop_loss = "1.09000",              \
        .take_profit = "1.12000", .limit_price = "1.00000", .reply_lost = COUNT(reply_lost),       \
        .call_lost = COUNT(call_lost), .answer_late = COUNT(answer_late), .refused = COUNT(refused), \
        .slow = COUNT(slow), __VA_ARGS__                                                           \
    }

static const struct adapter_under_test plugin_free = PLUGIN("good", plain, .connection_lost = COUNT(connection_lost));
static const struct adapter_under_test plugin_session = PLUGIN("session", plain, .connection_lost = COUNT(connection_lost));
/* With two of three sessions left, the account is still connected. */
static const struct adapter_under_test plugin_sessions = PLUGIN("session", three, .connection_lost = {NULL, 0});
static const struct adapter_under_test plugin_netting = PLUGIN("good", netting, .connection_lost = COUNT(connection_lost));

ADAPTER_CONFORMANCE_TESTS(plugin, &plugin_free)
ADAPTER_CONFORMANCE_TESTS(plugin_session, &plugin_session)
ADAPTER_CONFORMANCE_TESTS(plugin_sessions, &plugin_sessions)
ADAPTER_CONFORMANCE_TESTS(plugin_netting, &plugin_netting)
