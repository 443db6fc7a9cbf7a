/* A library behind the plugin adapter, in process, keeps the promises of adapter.h: any number of calls at once, one at a
 * time, several sessions of one at a time, netting. */
#include "adapter_conformance_plugin.h"

#include <tradewake/adapters/plugin.h>

static const struct tw_plugin_entry entries[] = {{"good", TW_PLUGINS "/good.so", true},
                                                 {"session", TW_PLUGINS "/good_session.so", true}};
static const struct tw_plugin_list list = {entries, sizeof entries / sizeof entries[0]};

#define PLUGIN(name, base, ...) PLUGIN_UNDER_TEST(base, .ops = &tw_adapter_plugin, .own = &list, .adapter = "plugin:" name, __VA_ARGS__)

static const struct adapter_under_test plugin_free = PLUGIN("good", plain, .connection_lost = COUNT(connection_lost));
static const struct adapter_under_test plugin_session = PLUGIN("session", plain, .connection_lost = COUNT(connection_lost));
/* With two of three sessions left, the account is still connected. */
static const struct adapter_under_test plugin_sessions = PLUGIN("session", three, .connection_lost = {NULL, 0});
static const struct adapter_under_test plugin_netting = PLUGIN("good", netting, .connection_lost = COUNT(connection_lost));

ADAPTER_CONFORMANCE_TESTS(plugin, &plugin_free)
ADAPTER_CONFORMANCE_TESTS(plugin_session, &plugin_session)
ADAPTER_CONFORMANCE_TESTS(plugin_sessions, &plugin_sessions)
ADAPTER_CONFORMANCE_TESTS(plugin_netting, &plugin_netting)
