/* remote.h - brokers behind a bridge: a process that serves tradewake.adapter.v1.BrokerAdapterService, in any
 * language. Sessions are non-blocking.
 *
 * A follower names a bridge (adapter remote:NAME), never an address: where bridges are is said by who runs the
 * server. tw_adapter_options.own points to a struct tw_remote_bridges. */
#ifndef TW_ADAPTERS_REMOTE_H
#define TW_ADAPTERS_REMOTE_H

#include <tradewake/adapters/adapter.h>

enum { TW_BRIDGES_MAX = 32, TW_BRIDGE_NAME_BYTES = 65 };

struct tw_remote_bridge {
    const char *name;    /* letters, digits, "-", "_", "." */
    const char *address; /* "unix:/run/bridge.sock", "host:port" */
    /* PEM files; ca "" = plain text. */
    const char *ca, *certificate, *key, *server_name;
};

/* Copied by open(). */
struct tw_remote_bridges {
    const struct tw_remote_bridge *list;
    size_t n;
};

extern const struct tw_adapter_ops tw_adapter_remote;

/* Nobody is called or told any more; what is out comes back AMBIGUOUS, on the reactor. For the end, before the
 * reactor is stopped. NULL is allowed. Thread: main. */
void tw_remote_quiet(void *adapter);

#endif
