#include "details.h"

#include "message.h"
#include "text.h"

#include <tradewake/base/clock.h>

#include <google/protobuf/any.pb-c.h>
#include <google/protobuf/duration.pb-c.h>
#include <google/rpc/error_details.pb-c.h>
#include <google/rpc/status.pb-c.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DOMAIN      "tradewake"
#define TYPE_PREFIX "type.googleapis.com/"

enum { DETAILS_MAX = 3, RETRY_SECONDS_MAX = 86400 };

/* The words travel twice (message and BadRequest), the field too; 512 bytes cover tags, lengths,
 * type names and the reason. */
static_assert(2 * WIRE_MESSAGE_BYTES + TW_REFUSAL_FIELD_BYTES + TW_REFUSAL_TEXT_BYTES +
                      TW_REFUSAL_FACTS_MAX * sizeof(struct tw_refusal_fact) + 512 <=
                  TW_ERROR_DETAILS_BYTES_MAX,
              "the longest refusal fits the details");

/* The details of one refusal while they are packed: each needs its bytes until the end. */
struct packing {
    Google__Protobuf__Any any[DETAILS_MAX];
    Google__Protobuf__Any *list[DETAILS_MAX];
    size_t n_details;
    uint8_t bytes[TW_ERROR_DETAILS_BYTES_MAX];
    size_t used;
};

static void detail_add(struct packing *packing, const char *type_url,
                       const ProtobufCMessage *detail)
{
    size_t size = protobuf_c_message_get_packed_size(detail);
    assert(packing->n_details < DETAILS_MAX);
    assert(size <= sizeof packing->bytes - packing->used);

    Google__Protobuf__Any *any = &packing->any[packing->n_details];
    google__protobuf__any__init(any);
    any->type_url = (char *)(uintptr_t)type_url; /* only read by pack */
    any->value.data = packing->bytes + packing->used;
    any->value.len = protobuf_c_message_pack(detail, any->value.data);
    packing->list[packing->n_details++] = any;
    packing->used += size;
}

/* protobuf-c declares every string as char *; pack only reads them. */
static char *borrowed(const char *text)
{
    return (char *)(uintptr_t)text;
}

static void error_info_add(struct packing *packing, const struct tw_refusal *refusal)
{
    Google__Rpc__ErrorInfo__MetadataEntry entries[TW_REFUSAL_FACTS_MAX];
    Google__Rpc__ErrorInfo__MetadataEntry *list[TW_REFUSAL_FACTS_MAX];
    for (uint32_t i = 0; i < refusal->n_facts; i++) {
        google__rpc__error_info__metadata_entry__init(&entries[i]);
        entries[i].key = borrowed(refusal->facts[i].key);
        entries[i].value = borrowed(refusal->facts[i].value);
        list[i] = &entries[i];
    }

    Google__Rpc__ErrorInfo info;
    google__rpc__error_info__init(&info);
    info.reason = borrowed(tw_refusal_name(refusal->reason));
    info.domain = borrowed(DOMAIN);
    info.metadata = list;
    info.n_metadata = refusal->n_facts;
    detail_add(packing, TYPE_PREFIX "google.rpc.ErrorInfo", &info.base);
}

static void bad_request_add(struct packing *packing, const struct tw_refusal *refusal)
{
    Google__Rpc__BadRequest__FieldViolation violation;
    google__rpc__bad_request__field_violation__init(&violation);
    violation.field = borrowed(refusal->field);
    violation.description = borrowed(refusal->text);

    Google__Rpc__BadRequest bad_request;
    google__rpc__bad_request__init(&bad_request);
    bad_request.field_violations = (Google__Rpc__BadRequest__FieldViolation *[]){&violation};
    bad_request.n_field_violations = 1;
    detail_add(packing, TYPE_PREFIX "google.rpc.BadRequest", &bad_request.base);
}

static void retry_info_add(struct packing *packing, const struct tw_refusal *refusal)
{
    Google__Protobuf__Duration delay;
    google__protobuf__duration__init(&delay);
    delay.seconds = refusal->retry_after_ns / TW_NS_PER_S;
    delay.nanos = (int32_t)(refusal->retry_after_ns % TW_NS_PER_S);

    Google__Rpc__RetryInfo retry;
    google__rpc__retry_info__init(&retry);
    retry.retry_delay = &delay;
    detail_add(packing, TYPE_PREFIX "google.rpc.RetryInfo", &retry.base);
}

size_t wire_details_pack(const struct tw_refusal *refusal, const char *message,
                         uint8_t out[TW_ERROR_DETAILS_BYTES_MAX])
{
    struct packing packing;
    packing.n_details = 0;
    packing.used = 0;
    error_info_add(&packing, refusal);
    if (refusal->field[0] != '\0')
        bad_request_add(&packing, refusal);
    if (refusal->retry_after_ns > 0)
        retry_info_add(&packing, refusal);

    Google__Rpc__Status status;
    google__rpc__status__init(&status);
    status.code = tw_refusal_code(refusal->reason);
    status.message = borrowed(message);
    status.details = packing.list;
    status.n_details = packing.n_details;
    assert(google__rpc__status__get_packed_size(&status) <= TW_ERROR_DETAILS_BYTES_MAX);
    return google__rpc__status__pack(&status, out);
}

/* ---- And back. ---- */

static Tradewake__V1__ErrorReason reason_by_name(const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "ERROR_REASON_%s", name);
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value_by_name(
        &tradewake__v1__error_reason__descriptor, full);
    return value == NULL ? TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_INTERNAL /* a newer server's */
                         : (Tradewake__V1__ErrorReason)value->value;
}

static bool error_info_read(const Google__Rpc__ErrorInfo *info, struct tw_refusal *ret)
{
    if (strcmp(info->domain, DOMAIN) != 0)
        return false;
    ret->reason = reason_by_name(info->reason);
    for (size_t i = 0; i < info->n_metadata; i++)
        tw_refusal_fact_add(ret, info->metadata[i]->key, "%s", info->metadata[i]->value);
    return true;
}

static void bad_request_read(const Google__Rpc__BadRequest *bad_request, struct tw_refusal *ret)
{
    if (bad_request->n_field_violations == 0)
        return;
    snprintf(ret->field, sizeof ret->field, "%s", bad_request->field_violations[0]->field);
    wire_text_clean(ret->field);
}

static void retry_info_read(const Google__Rpc__RetryInfo *retry, struct tw_refusal *ret)
{
    const Google__Protobuf__Duration *delay = retry->retry_delay;
    if (delay == NULL || delay->seconds < 0 || delay->seconds > RETRY_SECONDS_MAX ||
        delay->nanos < 0 || delay->nanos >= TW_NS_PER_S)
        return; /* no delay that makes sense */
    ret->retry_after_ns = delay->seconds * TW_NS_PER_S + delay->nanos;
}

/* The text behind "REASON field: ", which the message begins with. */
static void text_read(const char *message, struct tw_refusal *ret)
{
    char prefix[WIRE_MESSAGE_BYTES];
    struct tw_refusal head = *ret;
    head.text[0] = '\0';
    tw_refusal_message(&head, prefix, sizeof prefix);
    size_t length = strlen(prefix);
    const char *text = strncmp(message, prefix, length) == 0 ? message + length : message;
    snprintf(ret->text, sizeof ret->text, "%s", text);
    wire_text_clean(ret->text);
}

static ProtobufCMessage *detail_unpack(const Google__Protobuf__Any *any, const char *type_url,
                                       const ProtobufCMessageDescriptor *type,
                                       struct tw_arena *arena)
{
    if (strcmp(any->type_url, type_url) != 0)
        return NULL;
    bool is_too_large;
    return wire_unpack(type, any->value.data, any->value.len, arena, SIZE_MAX, &is_too_large);
}

static bool detail_read(const Google__Protobuf__Any *any, struct tw_arena *arena,
                        struct tw_refusal *ret)
{
    ProtobufCMessage *detail;
    detail = detail_unpack(any, TYPE_PREFIX "google.rpc.ErrorInfo",
                           &google__rpc__error_info__descriptor, arena);
    if (detail != NULL)
        return error_info_read((const Google__Rpc__ErrorInfo *)detail, ret);

    detail = detail_unpack(any, TYPE_PREFIX "google.rpc.BadRequest",
                           &google__rpc__bad_request__descriptor, arena);
    if (detail != NULL)
        bad_request_read((const Google__Rpc__BadRequest *)detail, ret);

    detail = detail_unpack(any, TYPE_PREFIX "google.rpc.RetryInfo",
                           &google__rpc__retry_info__descriptor, arena);
    if (detail != NULL)
        retry_info_read((const Google__Rpc__RetryInfo *)detail, ret);
    return false;
}

bool wire_details_unpack(const uint8_t *bytes, size_t size, struct tw_refusal *ret)
{
    struct tw_arena arena;
    tw_arena_init(&arena, 256 * 1024);
    bool is_too_large, is_ours = false;
    struct tw_refusal refusal = {0};
    const Google__Rpc__Status *status = (const Google__Rpc__Status *)wire_unpack(
        &google__rpc__status__descriptor, bytes, size, &arena, SIZE_MAX, &is_too_large);
    if (status != NULL) {
        for (size_t i = 0; i < status->n_details; i++)
            is_ours = detail_read(status->details[i], &arena, &refusal) || is_ours;
        text_read(status->message, &refusal);
    }

    tw_arena_clear(&arena);
    if (is_ours)
        *ret = refusal;
    return is_ours;
}
