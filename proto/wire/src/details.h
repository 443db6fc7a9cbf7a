/* details.h - a refusal as the google.rpc.Status in grpc-status-details-bin, and back. */
#ifndef WIRE_DETAILS_H
#define WIRE_DETAILS_H

#include <tradewake/base/limits.h>
#include <tradewake/wire/refusal.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The status message: a reason's name, a field, a text, and what stands between them. */
#define WIRE_MESSAGE_BYTES (TW_REFUSAL_FIELD_BYTES + TW_REFUSAL_TEXT_BYTES + 64u)

/* Packs it; returns the size. message: as tw_refusal_message() made it. Thread: any. */
size_t wire_details_pack(const struct tw_refusal *refusal, const char *message,
                         uint8_t out[TW_ERROR_DETAILS_BYTES_MAX]);

/* Reads one. False, with *ret untouched, when it holds no ErrorInfo of ours. Thread: any. */
bool wire_details_unpack(const uint8_t *bytes, size_t size, struct tw_refusal *ret);

#endif
