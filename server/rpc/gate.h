/* gate.h - between the wire and the methods: who calls, and may they, with these objects?
 *
 * Asked on the headers (who, and the method at all), with each message (its master, its follower), and by
 * the methods that find something by another id. Health is for everybody: probes carry no token. Every
 * refusal is a record of the audit and a log line, `access.refused`, with who, what and why; the caller hears only
 * that it may not.
 *
 * Without tw_gate_open() everybody may do everything. */
#ifndef TW_RPC_GATE_H
#define TW_RPC_GATE_H

#include <tradewake/access/access.h>
#include <tradewake/wire/server.h>

/* access: NULL = everybody may. Thread: main, before the server starts; it stays until after it stops. */
void tw_gate_open(struct tw_access *access);

/* For struct tw_wire_options. Thread: call. */
bool tw_gate_authorize(void *context, struct tw_call *call, struct tw_refusal *ret);
bool tw_gate_admit(void *context, struct tw_call *call, const ProtobufCMessage *request, struct tw_refusal *ret);
bool tw_gate_still(void *context, struct tw_call *call, const ProtobufCMessage *request, struct tw_refusal *ret);

/* May this call's caller see what belongs to them? What it may not see is not there, in the same words as
 * what is not. Thread: call. */
bool tw_gate_sees(const struct tw_call *call, const char *master_id, const char *follower_id);

/* The same for what a request found by its id: a no is a refusal, and told as one in the audit. Thread: call. */
bool tw_gate_finds(struct tw_call *call, const ProtobufCMessage *request, const char *master_id, const char *follower_id);

/* Whose call it is; "" = nobody is asked. Thread: call. */
const char *tw_gate_caller_name(const struct tw_call *call);

#endif
