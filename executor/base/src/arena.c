#include <tradewake/base/arena.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 16, BLOCK_BYTES_MIN = 4096 };

struct tw_arena_block {
    struct tw_arena_block *older;
    size_t size, used;
    _Alignas(ALIGNMENT) unsigned char bytes[];
};

void tw_arena_init(struct tw_arena *arena, size_t cap_bytes)
{
    *arena = (struct tw_arena){.cap_bytes = cap_bytes};
}

static struct tw_arena_block *block_add(struct tw_arena *arena, size_t size)
{
    size_t block_size = size > BLOCK_BYTES_MIN ? size : BLOCK_BYTES_MIN;
    struct tw_arena_block *block = malloc(sizeof *block + block_size);
    if (block == NULL)
        return NULL;
    block->older = arena->blocks;
    block->size = block_size;
    block->used = 0;
    arena->blocks = block;
    return block;
}

void *tw_arena_take(struct tw_arena *arena, size_t size)
{
    if (size > SIZE_MAX - ALIGNMENT)
        return NULL;
    size_t rounded = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (rounded > arena->cap_bytes - arena->used_bytes)
        return NULL;

    struct tw_arena_block *block = arena->blocks;
    if (block == NULL || block->size - block->used < rounded)
        block = block_add(arena, rounded);
    if (block == NULL)
        return NULL;

    void *taken = block->bytes + block->used;
    block->used += rounded;
    arena->used_bytes += rounded;
    return taken;
}

void *tw_arena_zero(struct tw_arena *arena, size_t size)
{
    void *taken = tw_arena_take(arena, size);
    return taken == NULL ? NULL : memset(taken, 0, size);
}

char *tw_arena_text(struct tw_arena *arena, const char *text, size_t size)
{
    char *copy = tw_arena_take(arena, size + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, text, size);
    copy[size] = '\0';
    return copy;
}

static void blocks_free(struct tw_arena_block *block)
{
    while (block != NULL) {
        struct tw_arena_block *older = block->older;
        free(block);
        block = older;
    }
}

void tw_arena_reset(struct tw_arena *arena)
{
    if (arena->blocks != NULL) {
        blocks_free(arena->blocks->older);
        arena->blocks->older = NULL;
        arena->blocks->used = 0;
    }
    arena->used_bytes = 0;
}

void tw_arena_clear(struct tw_arena *arena)
{
    blocks_free(arena->blocks);
    *arena = (struct tw_arena){.cap_bytes = arena->cap_bytes};
}
