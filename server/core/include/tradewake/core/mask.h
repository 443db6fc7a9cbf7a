/* mask.h - field masks: which fields of a message a caller wants to change (AIP-134). */
#ifndef TW_CORE_MASK_H
#define TW_CORE_MASK_H

#include <tradewake/wire/refusal.h>

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

struct tw_mask {
    char *const *paths; /* "risk.max_order_volume", or "*" for everything settable */
    size_t n_paths;
    const char *const *settable; /* names of top-level fields, NULL-terminated */
    const char *prefix;          /* of the message in the request, "follower." */
};

/* Takes the named fields of source over into target; both from the heap and of one type. What target
 * had before is in source afterwards, so that freeing both frees everything once. A path named twice,
 * or inside another one, is taken over once.
 * False: MASK_REQUIRED (no path), or INVALID_FIELD (a path that names nothing settable; an enum field
 * named whose value is its 0, which a mistyped name becomes in several languages); nothing has changed. */
bool tw_mask_apply(const struct tw_mask *mask, ProtobufCMessage *target, ProtobufCMessage *source,
                   struct tw_refusal *refusal);

#endif
