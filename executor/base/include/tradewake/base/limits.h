/* limits.h - how much of everything, and why.
 *
 * Every bound of the service stands here with its unit in the name. Raising one is a decision: the
 * relations between them are asserted below. */
#ifndef TW_BASE_LIMITS_H
#define TW_BASE_LIMITS_H

#include <assert.h>

/* Text. */
#define TW_ID_CHARS_MAX 64u     /* master, follower, event, position, order ids: [A-Za-z0-9._:-] */
#define TW_ID_BYTES (TW_ID_CHARS_MAX + 1u)
#define TW_SYMBOL_CHARS_MAX 64u /* bytes of UTF-8 */
#define TW_SYMBOL_BYTES (TW_SYMBOL_CHARS_MAX + 1u)
#define TW_COPY_ID_CHARS 20u    /* fits ClOrdID and every broker's client id we know of */
#define TW_COPY_ID_BYTES (TW_COPY_ID_CHARS + 1u)
#define TW_COMMENT_CHARS_MAX 256u
#define TW_NOTE_CHARS_MAX 1024u /* halts, resolutions: a paragraph for people */
#define TW_BROKER_ID_BYTES 65u  /* a broker's ticket as text */
#define TW_BROKER_TEXT_BYTES 96u /* a broker's message, cut */

/* Messages. protobuf-c unpacks to 32 to 60 times the size of a hostile message: see notes on the
 * arena cap in proto/wire. */
#define TW_EVENT_BYTES_MAX (64u * 1024u)
#define TW_REQUEST_BYTES_MAX (256u * 1024u)
#define TW_ANSWER_BYTES_MAX (4u * 1024u * 1024u) /* the default limit of every client */
#define TW_METADATA_BYTES_MAX (8u * 1024u)
#define TW_ERROR_DETAILS_BYTES_MAX 4096u /* trailers must stay below the 8 KiB clients accept */

/* Fleet. */
#define TW_FOLLOWERS_PER_MASTER_MAX 10000u /* the answer with every copy stays under 4 MiB */
#define TW_FOLLOWERS_MAX 100000u
#define TW_PARALLEL_MAX 64u      /* max_parallel of one follower */
#ifdef TW_CRASH_POINTS
#define TW_PLAN_CHUNK 4u         /* small fleets have several chunks too */
#else
#define TW_PLAN_CHUNK 256u       /* followers planned, written and submitted at once */
#endif

/* Streams. */
#define TW_STREAMS_PER_PEER_MAX 64u
#define TW_STREAM_UNANSWERED_MAX 1024u /* StreamEvents stops reading here */
#define TW_STREAM_QUEUE_ENTRIES 16384u /* of samples and of changes, per watcher; power of two */

/* Executor. */
#define TW_THREADS_MAX_DEFAULT 4096u
#define TW_THREADS_LOST_MAX_DEFAULT 64u /* calls that never come back and are replaced: a broker that hangs is not fed for ever */
#define TW_THREADS_ROUND 128u          /* ready threads are rounded up to a multiple of it */
#define TW_WORKER_STACK_BYTES (256u * 1024u) /* resident cost is that of 64 KiB; vendor code needs it */
#define TW_GROUPS_MAX 8u

/* Telemetry. */
#define TW_SAMPLE_RING_ENTRIES 16384u /* per core; a burst of 10 000 copies loses none */
#define TW_SUMMARY_GROUPS_MAX 64u

/* Time. */
#define TW_WAIT_MS_DEFAULT 30000u      /* wait_for without a deadline */
#define TW_WAIT_MARGIN_MS 50u          /* answered so long before the caller's deadline */
#define TW_CLOCK_AHEAD_MS_MAX 5000u    /* observed_at further ahead of our clock is refused */
#define TW_OPEN_WINDOW_MS_DEFAULT 60000u
#define TW_CALLS_PER_OPEN_MAX 5u       /* order calls of one open before it is REJECTED */

static_assert((TW_STREAM_QUEUE_ENTRIES & (TW_STREAM_QUEUE_ENTRIES - 1)) == 0, "a power of two");
static_assert((TW_SAMPLE_RING_ENTRIES & (TW_SAMPLE_RING_ENTRIES - 1)) == 0, "a power of two");
static_assert(TW_SAMPLE_RING_ENTRIES > TW_FOLLOWERS_PER_MASTER_MAX,
              "one event at every follower fits the ring of one core");
static_assert(TW_EVENT_BYTES_MAX <= TW_REQUEST_BYTES_MAX, "an event is a request");
static_assert(TW_ANSWER_BYTES_MAX / TW_FOLLOWERS_PER_MASTER_MAX >= 400u,
              "a CopySummary with longest ids fits");
#endif
