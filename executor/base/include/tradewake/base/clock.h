/* clock.h - the two readings of time.
 *
 * Rules never call these: they take now_ns as an argument, one reading per event, so that everything
 * decided together agrees on the time. Only code at the edge asks the clock. */
#ifndef TW_BASE_CLOCK_H
#define TW_BASE_CLOCK_H

#include <stdint.h>

#define TW_NS_PER_US INT64_C(1000)
#define TW_NS_PER_MS INT64_C(1000000)
#define TW_NS_PER_S INT64_C(1000000000)

/* Nanoseconds on CLOCK_MONOTONIC: never goes backwards, meaningless after a restart of the machine.
 * Thread: any.  Blocks: no. */
int64_t tw_mono_ns(void);

/* Nanoseconds since 1970-01-01 UTC; may jump. Thread: any.  Blocks: no. */
int64_t tw_wall_ns(void);

/* RFC 3339 in UTC with milliseconds, "2026-11-30T09:48:36.123Z". text: TW_TIME_TEXT_BYTES. */
#define TW_TIME_TEXT_BYTES 32u
void tw_time_text(int64_t wall_ns, char text[TW_TIME_TEXT_BYTES]);

#endif
