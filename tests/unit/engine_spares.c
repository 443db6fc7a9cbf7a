/* engine_spares.c - blocks that are ready before they are needed: zeroed, ordinary, bounded. */
#include "spares.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static struct spares spares;

static void start(void)
{
    spares_init(&spares);
}

static void stop(void)
{
    spares_clear(&spares);
}

static uint32_t ready_of(size_t size, uint32_t *ret_wanted)
{
    uint32_t n_ready = 0;
    *ret_wanted = 0;
    pthread_mutex_lock(&spares.mutex);
    for (uint32_t i = 0; i < SPARE_CLASSES; i++)
        if (spares.classes[i].size >= size && spares.classes[i].size < size + size / 8 + 512) {
            n_ready = spares.classes[i].n_ready;
            *ret_wanted = spares.classes[i].n_wanted;
        }
    pthread_mutex_unlock(&spares.mutex);
    return n_ready;
}

static uint32_t ready_await(size_t size)
{
    uint32_t wanted;
    while (ready_of(size, &wanted) < wanted || wanted == 0)
        sched_yield();
    return wanted;
}

static bool is_zero(const unsigned char *block, size_t size)
{
    return block[0] == 0 && memcmp(block, block + 1, size - 1) == 0;
}

Test(spares, without_being_expected_a_block_is_the_heap_s, .init = start, .fini = stop)
{
    static const size_t sizes[] = {1, 700, 4095, 4096, 21000, 7 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *block = spares_take(&spares, sizes[i]);
        cr_assert_not_null(block);
        cr_expect(is_zero(block, sizes[i]));
        memset(block, 0xa5, sizes[i]);
        free(block);
    }
    cr_expect_not(spares.is_started);
}

Test(spares, small_ones_need_no_thread, .init = start, .fini = stop)
{
    spares_expect(&spares, 4095);
    cr_expect_not(spares.is_started);
}

/* More than are ready, so that some come from the heap; written to, freed, and made ready again. Expected anew
 * in each round: the thread may have filled up in the midst of the taking, and more than half is enough for it. */
Test(spares, every_block_is_zeroed_and_its_taker_s, .init = start, .fini = stop)
{
    enum { SIZE = 21000, TAKEN = 200, ROUNDS = 5 };
    static unsigned char *taken[TAKEN];
    for (int round = 0; round < ROUNDS; round++) {
        spares_expect(&spares, SIZE);
        uint32_t wanted = ready_await(SIZE);
        cr_expect(wanted > 100 && wanted < TAKEN, "%u", wanted);
        for (int i = 0; i < TAKEN; i++) {
            taken[i] = spares_take(&spares, SIZE);
            cr_assert_not_null(taken[i]);
            cr_expect(is_zero(taken[i], SIZE), "block %d of round %d", i, round);
            memset(taken[i], 0xa5, SIZE);
        }
        for (int i = 0; i < TAKEN; i++)
            free(taken[i]);
    }
}

Test(spares, a_growing_fleet_leaves_nothing_behind_for_each_size, .init = start, .fini = stop)
{
    for (size_t followers = 1; followers <= 10000; followers++)
        spares_expect(&spares, 700 * followers);
    size_t held = 0;
    pthread_mutex_lock(&spares.mutex);
    for (uint32_t i = 0; i < SPARE_CLASSES; i++)
        held += spares.classes[i].size * spares.classes[i].n_wanted;
    pthread_mutex_unlock(&spares.mutex);
    cr_expect_lt(held, (size_t)100 << 20);
    uint32_t wanted = ready_await(700 * 10000);
    cr_expect_eq(wanted, 2, "of the largest, two");
}

Test(spares, after_a_stop_what_is_ready_may_still_be_taken, .init = start, .fini = stop)
{
    spares_expect(&spares, 50000);
    uint32_t wanted = ready_await(50000), left;
    spares_stop(&spares);
    free(spares_take(&spares, 50000));
    cr_expect_eq(ready_of(50000, &left), wanted - 1);
    spares_expect(&spares, 90000);
    unsigned char *block = spares_take(&spares, 90000);
    cr_expect(is_zero(block, 90000));
    free(block);
}

static void *take_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2000; i++) {
        size_t size = (size_t)(4096 + i % 7 * 9000);
        if (i % 50 == 0)
            spares_expect(&spares, size);
        unsigned char *block = spares_take(&spares, size);
        bool is_good = is_zero(block, size);
        memset(block, 0xa5, size);
        free(block);
        if (!is_good)
            return "a block was not zeroed";
    }
    return NULL;
}

Test(spares, several_threads_take_at_once, .init = start, .fini = stop)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, take_many, NULL), 0);
    for (int i = 0; i < 4; i++) {
        void *why = NULL;
        pthread_join(threads[i], &why);
        cr_expect_null(why, "%s", (const char *)why);
    }
}
