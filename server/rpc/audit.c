#include "audit.h"

#include "fields.h"
#include "gate.h"
#include "services.h"

#include <tradewake/base/clock.h>
#include <tradewake/engine/audit.h>

#include <stdlib.h>
#include <string.h>

/* Packed into the heap. No memory: it is told without. */
static struct tw_audit_message packed(const ProtobufCMessage *message)
{
    if (message == NULL)
        return (struct tw_audit_message){0};
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(size + 1);
    if (bytes == NULL)
        return (struct tw_audit_message){0};
    protobuf_c_message_pack(message, bytes);
    return (struct tw_audit_message){message->descriptor->name, bytes, size};
}

/* The first of these messages, or of what they hold, that names the field. */
static const char *named(const char *field, const struct tw_audited *audited)
{
    const ProtobufCMessage *const messages[] = {audited->request, audited->after, audited->before};
    const char *text = "";
    for (size_t i = 0; i < sizeof messages / sizeof messages[0] && text[0] == '\0'; i++)
        if (messages[i] != NULL)
            text = tw_field_text_anywhere(messages[i], field);
    return text;
}

static struct tw_audit audit_of(struct tw_call *call, const struct tw_audited *audited)
{
    const char *subscription_id = named("subscription_id", audited);
    return (struct tw_audit){
        .at_wall_ns = tw_wall_ns(),
        .who = tw_gate_caller_name(call),
        .peer = tw_call_peer(call),
        .method = tw_call_path(call),
        .master_id = named("master_id", audited),
        .follower_id = named("follower_id", audited),
        .object_id = subscription_id[0] != '\0' ? subscription_id : named("copy_id", audited),
        .result = audited->refusal != NULL ? (int32_t)audited->refusal->reason : 0,
        .why = audited->refusal != NULL ? audited->refusal->text : "",
    };
}

void tw_audit_change(struct tw_call *call, const struct tw_audited *audited)
{
    struct tw_audit audit = audit_of(call, audited);
    struct tw_audit_message *const messages[] = {&audit.request, &audit.before, &audit.after};
    const ProtobufCMessage *const from[] = {audited->request, audited->before, audited->after};
    /* What was refused is not written down: it may be a secret, and be refused because it is one. */
    for (size_t i = 0; i < sizeof from / sizeof from[0] && audited->refusal == NULL; i++)
        *messages[i] = packed(from[i]);
    if (audited->refusal == NULL)
        tw_engine_audit_change(tw_services_engine(), &audit);
    else /* costs who sends it nothing, so it is paced as such */
        tw_engine_audit_refusal(tw_services_engine(), &audit, audit.who[0] == '\0');
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++)
        free((void *)(uintptr_t)messages[i]->bytes);
}

void tw_audit_refused(struct tw_call *call, const char *who, const ProtobufCMessage *request, int32_t reason,
                      const char *why)
{
    const struct tw_audited audited = {.request = request};
    struct tw_audit audit = audit_of(call, &audited);
    audit.who = who;
    audit.result = reason;
    audit.why = why;
    tw_engine_audit_refusal(tw_services_engine(), &audit, who[0] == '\0');
}
