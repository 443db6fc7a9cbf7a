/* plugins.h - the adapter "plugin": each library either in this process, or, as it is unless somebody says otherwise, in one of
 * its own, which is spoken to over the remote adapter.
 *
 *     engine --> tw_adapter_plugins --in_process--> tw_adapter_plugin (adapters/plugin), blocking
 *                                   \--hosted-----> tw_adapter_remote --unix socket--> tradewake plugin-host
 *
 * A follower notices nothing of it but what it costs: the settings are the same, so are the promises. */
#ifndef TW_PLUGINS_H
#define TW_PLUGINS_H

#include "hosts.h"

#include <tradewake/adapters/adapter.h>

/* tw_adapter_options.own. The texts and entries stay. */
struct tw_plugins_own {
    struct tw_plugin_list list;
    struct hosts_options hosts; /* entries and secrets_dir are filled in from the rest */
};

extern const struct tw_adapter_ops tw_adapter_plugins;

/* Of those in processes of their own: nobody is called or told any more, what is out comes back AMBIGUOUS, on the reactor. Before
 * the reactor is stopped. NULL is allowed. Thread: main. */
void tw_plugins_quiet(void *adapter);

#endif
