/* readers.h - readers of streams that are hopeless, and how many may watch copies.
 *
 * A stream has one write out. A reader that has not let it pass for `hopeless_after_ns` is not slow, it is gone or
 * stuck: its stream is ended with SUBSCRIBER_TOO_SLOW, and what was kept for it is given back. Whoever wants
 * to go on calls again: watchers with resume_after, upstreams by sending again what had no answer. */
#ifndef TW_RPC_READERS_H
#define TW_RPC_READERS_H

#include <tradewake/base/clock.h>
#include <tradewake/wire/server.h>

#include <stdbool.h>
#include <stdint.h>

#define TW_READERS_HOPELESS_NS (30 * TW_NS_PER_S)
#define TW_WATCHERS_MAX_DEFAULT 1024u /* a queue of 256 KiB each */

/* Before the first call, and again at any time; without it the two above hold. Thread: main. */
void tw_readers_limits_set(int64_t hopeless_after_ns, uint32_t watchers_max);

/* When the write that is out will have been out for too long; INT64_MAX: none is out. Thread: call. */
int64_t tw_reader_due_mono_ns(const struct tw_call *call);

/* Ends the stream if it is hopeless by now; true: nothing may follow. Thread: call. */
bool tw_reader_evict(struct tw_call *call, int64_t now_mono_ns);

/* One more stream that watches copies; false, with *refusal, when there are as many as there may be. Give each back.
 * Thread: any. */
bool tw_watcher_take(struct tw_refusal *refusal);
void tw_watcher_give(void);

/* Streams that watch copies now, and streams that were ended because nobody read them. Thread: any. */
uint32_t tw_watchers_count(void);
uint64_t tw_readers_evicted(void);

#endif
