/* session.h - one account behind a library: its sessions at the vendor, and the thread that keeps them.
 *
 *   worker --execute/lookup/snapshot--> takes a link --> the library, blocking --> gives it back
 *   keeper --opens links, tells the host, asks for quotes and events when nobody else calls--> the host
 *
 * A link is one session of the vendor's. With SESSION one call at a time is in it; with FREE up to calls_max. */
#ifndef PLUGIN_SESSION_H
#define PLUGIN_SESSION_H

#include "library.h"
#include "options.h"

struct session;

TW_MUST_CHECK tw_status session_open(struct library *library, const struct tw_session_options *options,
                                     const char *secrets_dir, struct session **ret, struct tw_error *error);
/* Waits for the keeper as long as one call may take, then leaves it behind. */
void session_close(struct session *session);
void session_capabilities(const struct session *session, struct tw_capabilities *ret);

void session_execute(struct session *session, struct tw_adapter_call *call);
void session_lookup(struct session *session, struct tw_adapter_call *call);
void session_snapshot(struct session *session, struct tw_adapter_call *call);

#endif
