/* refusal.h - one request we said no to, as every caller of the service sees it.
 *
 * On the wire: the gRPC status code of the reason, a status message that begins with the reason and
 * the field's path, and in grpc-status-details-bin exactly one google.rpc.ErrorInfo (reason without
 * prefix, domain "tradewake"), a BadRequest where one field is to blame, a RetryInfo where a retry
 * makes sense. The code follows from the reason by one table (errors.proto is its source). */
#ifndef TW_WIRE_REFUSAL_H
#define TW_WIRE_REFUSAL_H

#include <tradewake/base/status.h>

#include <tradewake/v1/errors.pb-c.h>

#include <stdbool.h>
#include <stdint.h>

#define TW_REFUSAL_FIELD_BYTES 128u
#define TW_REFUSAL_TEXT_BYTES 512u
#define TW_REFUSAL_FACTS_MAX 4u

/* ErrorInfo.metadata: numbers a program may want. */
struct tw_refusal_fact {
    char key[32];
    char value[64];
};

struct tw_refusal {
    Tradewake__V1__ErrorReason reason; /* UNSPECIFIED: not refused */
    char field[TW_REFUSAL_FIELD_BYTES]; /* "event.open.volume"; "" = no one field */
    char text[TW_REFUSAL_TEXT_BYTES];   /* what was found, what is expected; no secrets */
    int64_t retry_after_ns;             /* 0 = no RetryInfo */
    struct tw_refusal_fact facts[TW_REFUSAL_FACTS_MAX];
    uint32_t n_facts;
};

/* Fills *ret and returns false, so that a check that fails is one line. field: NULL or "" = none. */
bool tw_refuse(struct tw_refusal *ret, Tradewake__V1__ErrorReason reason, const char *field,
               const char *format, ...) TW_PRINTF(4, 5);

/* Adds one fact; the fifth is dropped. */
void tw_refusal_fact_add(struct tw_refusal *refusal, const char *key, const char *format, ...)
    TW_PRINTF(3, 4);

/* The google.rpc.Code of a reason (errors.proto); INTERNAL for an unknown one. */
int32_t tw_refusal_code(Tradewake__V1__ErrorReason reason);

/* "INVALID_FIELD"; static. */
const char *tw_refusal_name(Tradewake__V1__ErrorReason reason);

/* "INVALID_ARGUMENT"; static. "CODE_17" for what is not a code. */
const char *tw_grpc_code_name(int32_t code);

/* The status message: "INVALID_FIELD event.open.volume: ...". text: size bytes. */
void tw_refusal_message(const struct tw_refusal *refusal, char *text, size_t size);

#endif
