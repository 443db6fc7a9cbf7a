/* base_arena.c - memory that is given back all at once, and its cap. */
#include <tradewake/base/arena.h>

#include <criterion/criterion.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bool refuses; /* malloc */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return refuses ? NULL : __real_malloc(size);
}

Test(arena, what_is_taken_is_aligned_apart_and_counted)
{
    struct tw_arena arena;
    tw_arena_init(&arena, 100000);
    unsigned char *pieces[100];
    for (size_t i = 0; i < 100; i++) {
        pieces[i] = tw_arena_take(&arena, 1 + i * 7);
        cr_assert_not_null(pieces[i]);
        cr_expect_eq((uintptr_t)pieces[i] % 16, 0);
        memset(pieces[i], (int)i, 1 + i * 7);
    }
    for (size_t i = 0; i < 100; i++)
        cr_expect(pieces[i][0] == i && pieces[i][i * 7] == i, "piece %zu was written over", i);
    cr_expect_eq(arena.used_bytes % 16, 0);
    tw_arena_clear(&arena);
}

Test(arena, the_cap_is_the_cap)
{
    struct tw_arena arena;
    tw_arena_init(&arena, 64);
    cr_expect_not_null(tw_arena_take(&arena, 48));
    cr_expect_null(tw_arena_take(&arena, 17));
    cr_expect_not_null(tw_arena_take(&arena, 16), "a refusal takes nothing");
    cr_expect_null(tw_arena_take(&arena, 1));
    cr_expect_null(tw_arena_take(&arena, SIZE_MAX));
    tw_arena_clear(&arena);
}

Test(arena, zeroed_memory_is_zero_also_the_second_time)
{
    struct tw_arena arena;
    tw_arena_init(&arena, 4096);
    memset(tw_arena_take(&arena, 512), 0xff, 512);
    tw_arena_reset(&arena);
    const unsigned char *bytes = tw_arena_zero(&arena, 512);
    for (size_t i = 0; i < 512; i++)
        cr_assert_eq(bytes[i], 0);
    tw_arena_clear(&arena);
}

Test(arena, text_is_copied_and_ended)
{
    struct tw_arena arena;
    tw_arena_init(&arena, 4096);
    cr_expect_str_eq(tw_arena_text(&arena, "abcdef", 3), "abc");
    cr_expect_str_eq(tw_arena_text(&arena, "", 0), "");
    cr_expect_null(tw_arena_text(&arena, "x", 5000));
    tw_arena_clear(&arena);
}

Test(arena, a_reset_gives_everything_back_and_keeps_the_newest_block)
{
    struct tw_arena arena;
    tw_arena_init(&arena, 40000);
    for (int i = 0; i < 4; i++)
        cr_expect_not_null(tw_arena_take(&arena, 10000 - 16));
    tw_arena_reset(&arena);
    cr_expect_eq(arena.used_bytes, 0);
    refuses = true;
    cr_expect_not_null(tw_arena_take(&arena, 5000), "the kept block is used");
    cr_expect_null(tw_arena_take(&arena, 20000), "without memory there is none");
    refuses = false;
    cr_expect_not_null(tw_arena_take(&arena, 20000));
    tw_arena_clear(&arena);
    cr_expect_null(arena.blocks);
    tw_arena_clear(&arena);
    struct tw_arena nothing = {0};
    tw_arena_clear(&nothing);
}
