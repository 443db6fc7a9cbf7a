/* hand.h - one thread that makes all calls of one session at the vendor: AFFINE libraries ask for it.
 *
 *     caller --hand_do(run)--> the hand's thread: run() --> back to the caller
 *
 * A hand does one thing at a time; who asks for two at once has made a mistake. Where the call never comes back, neither
 * does hand_do(). */
#ifndef PLUGIN_HAND_H
#define PLUGIN_HAND_H

#include <tradewake/base/status.h>

#include <stddef.h>

struct hand;
typedef void hand_fn(void *context);

/* NULL: no memory, or no thread. */
struct hand *hand_start(size_t stack_bytes);
/* NULL: run() is called here and now, on the caller's own thread. Blocks: as long as run(). */
void hand_do(struct hand *hand, hand_fn *run, void *context);
/* Nothing is being done. NULL is allowed. */
void hand_end(struct hand *hand);

#endif
