/* audit.h - what the methods tell of changes, and the gate of refusals: into the journal (engine/audit.h). */
#ifndef TW_RPC_AUDIT_H
#define TW_RPC_AUDIT_H

#include <tradewake/wire/server.h>

/* One change. Fill in what there is before and after it; NULL = nothing. */
struct tw_audited {
    const ProtobufCMessage *request;
    const ProtobufCMessage *before, *after; /* of what is changed: a follower, a subscription, a halt */
    const struct tw_refusal *refusal;       /* NULL = it was made */
};

/* Returns when a change that was made is durable in the log. Thread: call. */
void tw_audit_change(struct tw_call *call, const struct tw_audited *audited);

/* who: "" = nobody that is known. why: what the caller is not told. Thread: call. */
void tw_audit_refused(struct tw_call *call, const char *who, const ProtobufCMessage *request, int32_t reason,
                      const char *why);

#endif
