/* plugin.h - vendor libraries as brokers: "plugin:NAME" is a library that the server's configuration names.
 *
 * A caller of the API never names a path: what is loaded is what the operator allowed, at the start and for good. */
#ifndef TW_ADAPTERS_PLUGIN_H
#define TW_ADAPTERS_PLUGIN_H

#include <tradewake/adapters/adapter.h>

enum { TW_PLUGIN_ENTRIES_MAX = 16, TW_PLUGIN_ENTRY_NAME_MAX = 32 };

struct tw_plugin_entry {
    const char *name;    /* as in "plugin:NAME" */
    const char *library; /* a path */
    bool in_process;     /* in the server itself: a crash of the library is one of the server, and only FREE and SESSION are
                          * taken. False: in a process of its own, which takes all four thread models */
};

/* tw_adapter_options.own. The entries and their texts stay. */
struct tw_plugin_list {
    const struct tw_plugin_entry *entries;
    size_t n;
};

/* What a library says of itself, with our defaults in the place of 0. */
struct tw_plugin_about {
    char threads[16]; /* "FREE" */
    bool hedging, netting, lookup, reduce_only;
    uint32_t id_strength; /* as in the header: 0 none, 1 tag, 2 journal, 3 broker */
    uint32_t calls_max;   /* at once in one session at the vendor */
    uint32_t sessions_max; /* there for one account */
    uint32_t call_timeout_ms, settle_ms;
};

extern const struct tw_adapter_ops tw_adapter_plugin;

/* Which one a follower's adapter says: "plugin:NAME", or "plugin" where there is one only. Thread: any.
 * Fails: TW_INVALID with the names that there are. */
TW_MUST_CHECK tw_status tw_plugin_find(const struct tw_plugin_list *list, const char *adapter, size_t *ret_index,
                                       struct tw_error *error);

/* Thread: any. False: there is no such plugin. */
bool tw_plugin_about(void *adapter, const char *name, struct tw_plugin_about *ret);

/* A library that takes one call at a time, in all or of an account, is in one that does not come back, and that nothing takes
 * the place of: orders wait for it for ever. Thread: any. */
bool tw_plugin_is_stuck(void *adapter);

#endif
