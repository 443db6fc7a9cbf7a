/* A library in a process of its own keeps the promises of adapter.h: all four thread models, several sessions, netting. */
#include "adapter_conformance_plugin.h"
#include "plugins.h"

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

#define HOSTED(its, base, ...) PLUGIN_UNDER_TEST(base, .ops = &tw_adapter_plugins, .own = &its, .adapter = "plugin", __VA_ARGS__)

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
