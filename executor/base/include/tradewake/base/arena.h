/* arena.h - memory that is given back all at once.
 *
 * A block and a cursor. It does not grow past its cap: the next request after that gets NULL, so a
 * hostile message costs its cap and no more. Used for what lives exactly as long as one call. */
#ifndef TW_BASE_ARENA_H
#define TW_BASE_ARENA_H

#include <stddef.h>

struct tw_arena_block;

struct tw_arena {
    struct tw_arena_block *blocks; /* newest first; each from the heap */
    size_t used_bytes;             /* over all blocks */
    size_t cap_bytes;
};

/* Thread: one at a time. Owns nothing until the first tw_arena_take(). */
void tw_arena_init(struct tw_arena *arena, size_t cap_bytes);

/* size bytes, 16-aligned, not zeroed. NULL when the cap or the memory is used up.
 * Owns: the arena; valid until reset or clear. */
void *tw_arena_take(struct tw_arena *arena, size_t size);

/* As tw_arena_take(), zeroed. */
void *tw_arena_zero(struct tw_arena *arena, size_t size);

/* A NUL-terminated copy of size bytes. */
char *tw_arena_text(struct tw_arena *arena, const char *text, size_t size);

/* Everything taken is gone; the newest block is kept for the next round. */
void tw_arena_reset(struct tw_arena *arena);

/* Everything is gone, the blocks too. {0} and a cleared arena are allowed. */
void tw_arena_clear(struct tw_arena *arena);

#endif
