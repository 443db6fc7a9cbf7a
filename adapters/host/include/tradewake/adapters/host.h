/* host.h - an adapter's blocking sessions, served to another process as tradewake.adapter.v1.BrokerAdapterService.
 *
 *     their remote adapter --gRPC, unix socket--> host --worker--> ops->execute(), blocking
 *                          <---- updates, numbered ---- what the session tells its host
 *
 * The other half of adapters/remote, for libraries that had better have a process of their own. An account is a guest:
 * the adapter's session, and who listens to it. One caller is meant: the server that started the process.
 *
 * What it holds to: an order is given to the adapter once; a repeat of (account, client_order_id, attempt) is answered
 * from memory, or is AMBIGUOUS. That memory ends with the process, as the caller never repeats. */
#ifndef TW_ADAPTERS_HOST_H
#define TW_ADAPTERS_HOST_H

#include <tradewake/adapters/adapter.h>

/* What GetCapabilities says. */
struct tw_host_about {
    const char *name, *version; /* stay */
    bool hedging, netting, reduce_only;
    uint32_t id_strength; /* 0 none, 1 tag, 2 journal, 3 broker */
    uint32_t max_parallel, settle_ms;
};

struct tw_host_options {
    const char *listen; /* "unix:/run/x.sock" */
    /* The adapter, open. Its session_open() and session_close() may be called on several threads at once. */
    const struct tw_adapter_ops *ops;
    void *adapter;
    const char *adapter_name; /* of tw_session_options; stays */
    struct tw_host_about about;
    uint32_t threads_max, threads_lost_max; /* 0 = the executor's own defaults */
    bool realtime, pinned;
};

struct tw_host;

/* One in a process. Thread: main.  Fails: as the executor and the wire server. */
TW_MUST_CHECK tw_status tw_host_start(const struct tw_host_options *options, struct tw_host **ret_host,
                                      struct tw_error *error);

/* Calls do not come back, and what is left of it is not worth keeping: NULL, or why. Then the process had better end and
 * begin anew. Thread: main. */
const char *tw_host_is_worn(struct tw_host *host);

/* Answers nobody any more, closes every session. Returns how many calls are lost: then whatever they use has to stay as it
 * is, and the process has to end. NULL is allowed. Thread: main. */
uint32_t tw_host_stop(struct tw_host *host);

#endif
