/* The sample bridges keep the promises of adapter.h, through the remote adapter: a process each, over a unix socket. */
#include "bridge_process.h"

#include <tradewake/adapters/conformance.h>
#include <tradewake/adapters/remote.h>

#include <stdio.h>
#include <stdlib.h>

#define COUNT(list)                                                                                                    \
    {                                                                                                                  \
        list, sizeof(list) / sizeof((list)[0])                                                                         \
    }

/* The adapter under test comes with its bridge. */
struct with_bridge {
    struct bridge_process process;
    void *adapter;
};

static struct with_bridge *running; /* one per test, and each test is a process */

static void bridge_close(void *adapter)
{
    tw_adapter_remote.close(adapter);
    if (running != NULL)
        bridge_process_end(&running->process);
    free(running);
    running = NULL;
}

static tw_status bridge_open(const struct tw_adapter_options *options, void **ret_adapter, struct tw_error *error)
{
    running = calloc(1, sizeof *running);
    if (running == NULL || !bridge_process_start(&running->process, options->own, NULL))
        return tw_error_set(error, TW_IO, "the bridge does not start");
    const struct tw_remote_bridge bridge = {.name = "sample", .address = running->process.address};
    const struct tw_remote_bridges bridges = {&bridge, 1};
    struct tw_adapter_options own = *options;
    own.own = &bridges;
    return tw_adapter_remote.open(&own, ret_adapter, error);
}

static struct tw_adapter_ops ops;

__attribute__((constructor)) static void ops_make(void)
{
    ops = tw_adapter_remote;
    ops.open = bridge_open;
    ops.close = bridge_close;
}

static const struct tw_adapter_setting plain[] = {{"account", "7001"}};
static const struct tw_adapter_setting reply_lost[] = {{"vendor.faults", "open#1=no_answer"}, {"call_timeout", "200ms"}};
static const struct tw_adapter_setting call_lost[] = {{"vendor.faults", "open#1=lost"}, {"call_timeout", "200ms"}};
static const struct tw_adapter_setting answer_late[] = {{"vendor.latency", "600"}, {"call_timeout", "200ms"}};
static const struct tw_adapter_setting refused[] = {{"vendor.faults", "open#1=no_money"}};
static const struct tw_adapter_setting connection_lost[] = {{"vendor.faults", "open#1=line"}};
static const struct tw_adapter_setting slow[] = {{"vendor.latency", "100"}};

#define REMOTE(command)                                                                                                \
    {                                                                                                                  \
        .ops = &ops, .adapter = "remote:sample", .own = command, .settings = COUNT(plain), .symbol = "EURUSD", .volume = "0.10", .part = "0.04",   \
        .stop_loss = "1.09000", .take_profit = "1.12000", .limit_price = "1.00000", .reply_lost = COUNT(reply_lost),   \
        .call_lost = COUNT(call_lost), .answer_late = COUNT(answer_late), .refused = COUNT(refused),                   \
        .connection_lost = COUNT(connection_lost), .slow = COUNT(slow)                                                 \
    }

static const char *const python_command[] = {"/usr/bin/python3", BRIDGES_FOLDER "/bridge-python/bridge.py", NULL};
static const struct adapter_under_test python = REMOTE(python_command);
ADAPTER_CONFORMANCE_TESTS(remote_python, &python)

#ifdef BRIDGE_NODE
static const char *const node_command[] = {BRIDGE_NODE, BRIDGES_FOLDER "/bridge-node/bridge.mjs", NULL};
static const struct adapter_under_test node = REMOTE(node_command);
ADAPTER_CONFORMANCE_TESTS(remote_node, &node)
#endif
