/* executor_keys.c - the tree of busy keys against a plain table, over random changes. */
#include "keys.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 2000, CHANGES = 200000 };

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

Test(keys, the_tree_holds_what_a_plain_table_holds)
{
    uint64_t seed = 20261130, state = seed;
    struct keys keys = {0};
    struct tw_job *jobs = calloc(2 * KEYS, sizeof *jobs); /* two of each key, in turns */
    struct tw_job *owner[KEYS] = {0};
    for (uint64_t i = 0; i < 2 * KEYS; i++)
        jobs[i].key = i % KEYS + 1;

    for (int change = 0; change < CHANGES; change++) {
        uint64_t k = random_next(&state) % KEYS;
        struct tw_job **slot = keys_slot(&keys, k + 1);
        cr_assert_eq(*slot, owner[k], "key %lu, change %d, seed %lu", k + 1, change, seed);
        if (*slot == NULL) {
            owner[k] = &jobs[k];
            keys_insert(slot, owner[k]);
        } else if (random_next(&state) % 2 == 0) {
            owner[k] = owner[k] == &jobs[k] ? &jobs[k + KEYS] : &jobs[k];
            keys_replace(slot, owner[k]);
        } else {
            owner[k] = NULL;
            keys_remove(slot);
        }
    }
    for (uint64_t k = 0; k < KEYS; k++) {
        struct tw_job **slot = keys_slot(&keys, k + 1);
        cr_assert_eq(*slot, owner[k], "key %lu at the end, seed %lu", k + 1, seed);
        if (*slot != NULL)
            keys_remove(slot);
    }
    for (int root = 0; root < KEY_ROOTS; root++)
        cr_assert_null(keys.roots[root]);
    free(jobs);
}

static unsigned depth_below(const struct tw_job *job)
{
    if (job == NULL)
        return 0;
    unsigned left = depth_below(job->child[0]), right = depth_below(job->child[1]);
    return 1 + (left > right ? left : right);
}

Test(keys, a_hundred_thousand_keys_in_a_row_are_not_deep)
{
    enum { N = 100000 };
    struct keys keys = {0};
    struct tw_job *jobs = calloc(N, sizeof *jobs);
    for (uint64_t i = 0; i < N; i++) {
        jobs[i].key = i + 1;
        keys_insert(keys_slot(&keys, i + 1), &jobs[i]);
    }
    for (int root = 0; root < KEY_ROOTS; root++)
        cr_expect_leq(depth_below(keys.roots[root]), 40);
    free(jobs);
}
