/* copy_id.h - the published name of a copy, and of every order sent for it.
 *
 * "T1" and the first 90 bits of SHA-256, in base32 (RFC 4648, section 6), over: master_id, event_id,
 * follower_id, master_position_id as the event names it (or the order id), the CopyAction without
 * its prefix ("OPEN"), leg and attempt in decimal, each followed by a 0x0A byte. The same inputs give
 * the same id on every machine and after every restart; a copy's own has leg 0 and attempt 0. */
#ifndef TW_CORE_COPY_ID_H
#define TW_CORE_COPY_ID_H

#include <tradewake/base/limits.h>

#include <stdint.h>

struct tw_copy_id_input {
    const char *master_id, *event_id, *follower_id, *subject_id;
    const char *action; /* "OPEN" */
    uint32_t leg, attempt;
};

/* Thread: any; a third of a microsecond: workers do this, the rpc thread does not. */
void tw_copy_id(const struct tw_copy_id_input *input, char ret[TW_COPY_ID_BYTES]);

#endif
