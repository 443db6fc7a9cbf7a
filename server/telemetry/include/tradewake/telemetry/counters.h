/* counters.h - how many copies ended how.
 *
 * One table of atomics for the process, read by the admin port. Adding is one instruction; no
 * account ids, because they would become labels without bound. */
#ifndef TW_TELEMETRY_COUNTERS_H
#define TW_TELEMETRY_COUNTERS_H

#include <stdint.h>

/* As many as tradewake.v1 has numbers for; asserted against the descriptors by a test. */
#define TW_COPY_STATES  10u
#define TW_COPY_REASONS 80u

/* Counts one copy that reached this state for this reason: once when it is decided without a call,
 * once when its outcome is known. state, reason: tradewake.v1.CopyState and Reason; numbers that the
 * contract does not know are counted as UNSPECIFIED.
 * Thread: any.  Blocks: no. */
void tw_copy_counters_add(int32_t state, int32_t reason);

/* Thread: any. */
uint64_t tw_copy_counters_get(int32_t state, int32_t reason);

#endif
