/* fix.h - brokers and venues that speak FIX 4.4. Sessions are non-blocking: a call holds no thread.
 *
 * A follower names a section of the file of sessions (adapter fix:NAME), never an address: where venues are is said by
 * who runs the server. tw_adapter_options.own points to a struct tw_fix_options. */
#ifndef TW_ADAPTERS_FIX_H
#define TW_ADAPTERS_FIX_H

#include <tradewake/adapters/adapter.h>

/* Copied by open(). */
struct tw_fix_options {
    const char *sessions_path; /* the file; "" = there are no FIX sessions */
};

extern const struct tw_adapter_ops tw_adapter_fix;

/* Logs out everywhere, briefly; nobody is called or told any more, what is out comes back AMBIGUOUS, on the reactor.
 * For the end, before the reactor is stopped. NULL is allowed. Thread: main. */
void tw_fix_quiet(void *adapter);

#endif
