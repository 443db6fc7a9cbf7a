/* spares.h - blocks of memory that are there before an event needs them.
 *
 * A record with its copies, and the legs of an open, are 20 KiB and more for thirty followers.
 * Taken fresh from the heap they cost the thread that plans an event a page fault per 4 KiB, and
 * the zeroing, which was a fifth of what an event cost it. A thread of its own keeps some of the
 * sizes that are expected ready: allocated, touched and zeroed. They are ordinary blocks of the
 * heap: whoever took one gives it to free().
 *
 * Sizes are rounded up to classes an eighth apart, so that a growing fleet does not leave one
 * behind for each follower; the classes expected last are the ones that are kept ready. */
#ifndef TW_ENGINE_SPARES_H
#define TW_ENGINE_SPARES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SPARE_CLASSES = 6, SPARES_MAX = 128 };

struct spare_class {
    size_t size; /* 0 = unused */
    uint32_t n_ready, n_wanted;
    uint64_t expected; /* when last, counted */
    void *ready[SPARES_MAX];
};

struct spares {
    pthread_mutex_t
        mutex; /* guards all that follows; never held while memory is made or given back */
    pthread_cond_t work;
    pthread_t thread;
    bool is_started, is_stopping, is_asleep;
    uint64_t n_expected;
    struct spare_class classes[SPARE_CLASSES];
};

/* Thread: the owner's. */
void spares_init(struct spares *spares);

/* Nothing more is made ready; what is may still be taken. Blocks: until the thread is back. */
void spares_stop(struct spares *spares);

/* Stopped, too. What is ready is freed; blocks that were taken are whoever's took them. */
void spares_clear(struct spares *spares);

/* Blocks of this size will be taken: from now on some are kept ready. The first such call starts
 * the thread; without it (or without memory) blocks come from the heap when they are taken. Thread:
 * any. Blocks: no. */
void spares_expect(struct spares *spares, size_t size);

/* size bytes or more, zeroed. NULL: no memory.
 * Thread: any. Blocks: no. Owns: the caller, until free(). */
void *spares_take(struct spares *spares, size_t size);

#endif
