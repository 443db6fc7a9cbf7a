/* plugin.h - vendor libraries as brokers: "plugin:NAME" is a library that the server's configuration names.
 *
 * A caller of the API never names a path: what is loaded is what the operator allowed, at the start and for good. */
#ifndef TW_ADAPTERS_PLUGIN_H
#define TW_ADAPTERS_PLUGIN_H

#include <tradewake/adapters/adapter.h>

struct tw_plugin_entry {
    const char *name;    /* as in "plugin:NAME" */
    const char *library; /* a path */
    bool in_process;     /* in the server itself: a crash of the library is one of the server */
};

/* tw_adapter_options.own. "plugin" alone is the only entry there is. */
struct tw_plugin_list {
    const struct tw_plugin_entry *entries;
    size_t n;
};

extern const struct tw_adapter_ops tw_adapter_plugin;

#endif
