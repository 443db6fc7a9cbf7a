#include "text.h"

#include <tradewake/wire/refusal.h>

#include <grpc/status.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define REASON(name) TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_##name

/* The comments of errors.proto as a table. A reason without a row is INTERNAL. */
static const unsigned char code_of_reason[] = {
    [REASON(INVALID_FIELD)] = GRPC_STATUS_INVALID_ARGUMENT,
    [REASON(SCOPE_REQUIRED)] = GRPC_STATUS_INVALID_ARGUMENT,
    [REASON(MASK_REQUIRED)] = GRPC_STATUS_INVALID_ARGUMENT,
    [REASON(INCOMPLETE_SNAPSHOT)] = GRPC_STATUS_INVALID_ARGUMENT,
    [REASON(UNDECODABLE)] = GRPC_STATUS_INVALID_ARGUMENT,
    [REASON(EVENT_ID_REUSED)] = GRPC_STATUS_ALREADY_EXISTS,
    [REASON(ALREADY_EXISTS)] = GRPC_STATUS_ALREADY_EXISTS,
    [REASON(NOT_FOUND)] = GRPC_STATUS_NOT_FOUND,
    [REASON(MASTER_NOT_FOUND)] = GRPC_STATUS_NOT_FOUND,
    [REASON(POSITION_EXISTS)] = GRPC_STATUS_FAILED_PRECONDITION,
    [REASON(STALE_SNAPSHOT)] = GRPC_STATUS_FAILED_PRECONDITION,
    [REASON(FOLLOW_CYCLE)] = GRPC_STATUS_FAILED_PRECONDITION,
    [REASON(HAS_OPEN_COPIES)] = GRPC_STATUS_FAILED_PRECONDITION,
    [REASON(EXECUTOR_CAPACITY)] = GRPC_STATUS_FAILED_PRECONDITION,
    [REASON(RESUME_OTHER_JOURNAL)] = GRPC_STATUS_FAILED_PRECONDITION,
    [REASON(RESUME_TOO_OLD)] = GRPC_STATUS_OUT_OF_RANGE,
    [REASON(EVENT_TOO_OLD)] = GRPC_STATUS_FAILED_PRECONDITION,
    [REASON(COPY_NOT_UNKNOWN)] = GRPC_STATUS_FAILED_PRECONDITION,
    [REASON(ETAG_MISMATCH)] = GRPC_STATUS_ABORTED,
    [REASON(UNAUTHENTICATED)] = GRPC_STATUS_UNAUTHENTICATED,
    [REASON(PERMISSION_DENIED)] = GRPC_STATUS_PERMISSION_DENIED,
    [REASON(OVERLOADED)] = GRPC_STATUS_RESOURCE_EXHAUSTED,
    [REASON(TOO_MANY_STREAMS)] = GRPC_STATUS_RESOURCE_EXHAUSTED,
    [REASON(SUBSCRIBER_TOO_SLOW)] = GRPC_STATUS_RESOURCE_EXHAUSTED,
    [REASON(TOO_LARGE)] = GRPC_STATUS_RESOURCE_EXHAUSTED,
    [REASON(SHUTTING_DOWN)] = GRPC_STATUS_UNAVAILABLE,
    [REASON(HISTORY_BEHIND)] = GRPC_STATUS_UNAVAILABLE,
    [REASON(BROKER_UNAVAILABLE)] = GRPC_STATUS_UNAVAILABLE,
    [REASON(INTERNAL)] = GRPC_STATUS_INTERNAL,
    [REASON(UNIMPLEMENTED)] = GRPC_STATUS_UNIMPLEMENTED,
};

static const char *const code_names[] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

int32_t tw_refusal_code(Tradewake__V1__ErrorReason reason)
{
    size_t row = (size_t)reason;
    if (row >= sizeof code_of_reason || code_of_reason[row] == GRPC_STATUS_OK)
        return GRPC_STATUS_INTERNAL;
    return code_of_reason[row];
}

const char *tw_refusal_name(Tradewake__V1__ErrorReason reason)
{
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(&tradewake__v1__error_reason__descriptor, (int)reason);
    return value == NULL ? "UNKNOWN" : value->name + strlen("ERROR_REASON_");
}

const char *tw_grpc_code_name(int32_t code)
{
    static _Thread_local char other[24];
    if (code >= 0 && (size_t)code < sizeof code_names / sizeof code_names[0])
        return code_names[code];
    snprintf(other, sizeof other, "CODE_%d", code);
    return other;
}

bool tw_refuse(struct tw_refusal *ret, Tradewake__V1__ErrorReason reason, const char *field,
               const char *format, ...)
{
    *ret = (struct tw_refusal){.reason = reason};
    if (field != NULL)
        snprintf(ret->field, sizeof ret->field, "%s", field);

    va_list values;
    va_start(values, format);
    vsnprintf(ret->text, sizeof ret->text, format, values);
    va_end(values);

    /* Both may hold what the caller sent, and may have been cut inside a character. */
    wire_text_clean(ret->field);
    wire_text_clean(ret->text);
    return false;
}

void tw_refusal_fact_add(struct tw_refusal *refusal, const char *key, const char *format, ...)
{
    if (refusal->n_facts == TW_REFUSAL_FACTS_MAX)
        return;
    struct tw_refusal_fact *fact = &refusal->facts[refusal->n_facts++];
    snprintf(fact->key, sizeof fact->key, "%s", key);

    va_list values;
    va_start(values, format);
    vsnprintf(fact->value, sizeof fact->value, format, values);
    va_end(values);
    wire_text_clean(fact->key);
    wire_text_clean(fact->value);
}

void tw_refusal_message(const struct tw_refusal *refusal, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s: %s", tw_refusal_name(refusal->reason),
             refusal->field[0] == '\0' ? "" : " ", refusal->field, refusal->text);
    wire_text_clean(text);
}
