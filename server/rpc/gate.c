#include "gate.h"

#include "audit.h"
#include "fields.h"
#include "trace.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/log.h>

#include <stdio.h>
#include <string.h>

#define REFUSAL(name) TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_##name

static struct tw_access *access_in_use; /* set before the server starts */

void tw_gate_open(struct tw_access *access)
{
    access_in_use = access;
}

/* ---- What is written down of a refusal ---- */

static struct tw_log_pace pace;

/* " trace=ID" of the call, or "". */
static const char *trace_words(const struct tw_call *call, char text[8 + TW_TRACE_ID_BYTES])
{
    struct tw_trace_context trace;
    text[0] = '\0';
    if (tw_trace_context_read(tw_call_metadata(call, "traceparent"), &trace))
        snprintf(text, 8 + TW_TRACE_ID_BYTES, " trace=%s", trace.id);
    return text;
}

static bool refuse_stranger(struct tw_call *call, const ProtobufCMessage *request, const char *why, struct tw_refusal *ret)
{
    tw_audit_refused(call, "", request, REFUSAL(UNAUTHENTICATED), why);
    char trace[8 + TW_TRACE_ID_BYTES];
    if (tw_log_paced(&pace, "access.refused"))
        tw_log(TW_LOG_WARN, "access.refused", "who=unknown method=%s peer=%s why=\"%s\"%s", tw_call_path(call),
               tw_call_peer(call), why, trace_words(call, trace));
    return tw_refuse(ret, REFUSAL(UNAUTHENTICATED), NULL, "who calls is not known here: a valid token or certificate is needed");
}

static bool refuse_known(struct tw_call *call, const struct tw_identity *caller, const ProtobufCMessage *request,
                         const struct tw_access_objects *objects, struct tw_refusal *ret)
{
    tw_audit_refused(call, tw_identity_name(caller), request, REFUSAL(PERMISSION_DENIED), "no right");
    char trace[8 + TW_TRACE_ID_BYTES];
    if (tw_log_paced(&pace, "access.refused"))
        tw_log(TW_LOG_WARN, "access.refused", "who=%s method=%s peer=%s master=%s follower=%s why=\"no right\"%s",
               tw_identity_name(caller), tw_call_path(call), tw_call_peer(call), objects->master_id, objects->follower_id,
               trace_words(call, trace));
    return tw_refuse(ret, REFUSAL(PERMISSION_DENIED), NULL, "this caller may not do that, or not with this master or follower");
}

/* ---- Who ---- */

static bool is_for_everybody(const struct tw_call *call)
{
    static const char health[] = "/grpc.health.v1.Health/";
    return strncmp(tw_call_path(call), health, sizeof health - 1) == 0;
}

static const struct tw_identity *identify(struct tw_call *call, const char **ret_why)
{
    struct tw_presented presented = {.authorization = tw_call_metadata(call, "authorization")};
    presented.names = tw_call_certificate_names(call, &presented.n_names);
    presented.has_certificate =
        presented.authorization != NULL && tw_call_certificate_sha256(call, presented.certificate_sha256);
    return tw_access_identify(access_in_use, &presented, tw_wall_ns(), ret_why);
}

bool tw_gate_authorize(void *context, struct tw_call *call, struct tw_refusal *ret)
{
    static const struct tw_access_objects none = {"", ""};
    const char *why;
    (void)context;
    if (access_in_use == NULL || is_for_everybody(call))
        return true;
    const struct tw_identity *caller = identify(call, &why);
    if (caller == NULL)
        return refuse_stranger(call, NULL, why, ret);
    tw_call_caller_set(call, caller);
    return tw_access_may_call(caller, tw_call_path(call)) || refuse_known(call, caller, NULL, &none, ret);
}

/* ---- With what ---- */

/* A request names its objects itself, or its event or filter does. */
static const char *object_in(const ProtobufCMessage *request, const char *name)
{
    static const char *const inner[] = {"event", "filter"};
    const char *text = tw_field_text(request, name);
    for (size_t i = 0; text[0] == '\0' && i < sizeof inner / sizeof inner[0]; i++)
        text = tw_field_text(tw_field_message(request, inner[i]), name);
    return text;
}

/* anew: who was known may have become a stranger. */
static bool may(struct tw_call *call, const ProtobufCMessage *request, bool anew, struct tw_refusal *ret)
{
    const char *why;
    if (access_in_use == NULL || is_for_everybody(call))
        return true;
    const struct tw_access_objects objects = {object_in(request, "master_id"), object_in(request, "follower_id")};
    const struct tw_identity *caller = anew ? identify(call, &why) : tw_call_caller(call);
    if (caller == NULL)
        return refuse_stranger(call, request, why, ret);
    tw_call_caller_set(call, caller);
    return tw_access_may(caller, tw_call_path(call), &objects) || refuse_known(call, caller, request, &objects, ret);
}

/* A stream outlives a token and a policy: each message of one that sends is asked about anew. */
bool tw_gate_admit(void *context, struct tw_call *call, const ProtobufCMessage *request, struct tw_refusal *ret)
{
    (void)context;
    return may(call, request, tw_call_streams_requests(call), ret);
}

/* To one that watches nothing comes in: it is asked about now and then. */
bool tw_gate_still(void *context, struct tw_call *call, const ProtobufCMessage *request, struct tw_refusal *ret)
{
    (void)context;
    return may(call, request, true, ret);
}

bool tw_gate_sees(const struct tw_call *call, const char *master_id, const char *follower_id)
{
    return access_in_use == NULL || tw_access_sees(tw_call_caller(call), master_id, follower_id);
}

bool tw_gate_finds(struct tw_call *call, const ProtobufCMessage *request, const char *master_id, const char *follower_id)
{
    if (tw_gate_sees(call, master_id, follower_id))
        return true;
    tw_audit_refused(call, tw_gate_caller_name(call), request, REFUSAL(NOT_FOUND), "no right to what it found");
    return false;
}

const char *tw_gate_caller_name(const struct tw_call *call)
{
    const struct tw_identity *caller = access_in_use != NULL ? tw_call_caller(call) : NULL;
    return caller != NULL ? tw_identity_name(caller) : "";
}
