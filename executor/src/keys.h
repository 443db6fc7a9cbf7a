/* keys.h - which job has a key now: a tree whose nodes are the jobs themselves.
 *
 * A lane may hold a hundred thousand keys or none, and a submit allocates nothing; so there is no
 * table to size. The way to a key is its hash, bit by bit, from one of 16 roots: about two steps
 * for the 32 jobs that a lane usually runs, about 14 for 100 000. */
#ifndef TW_EXECUTOR_KEYS_H
#define TW_EXECUTOR_KEYS_H

#include <tradewake/executor/executor.h>

enum { KEY_ROOTS = 16 };

struct keys {
    struct tw_job *roots[KEY_ROOTS];
};

/* Where the owner of `key` hangs, or, when the slot holds NULL, where it would. The slot is good
 * until the next change. */
struct tw_job **keys_slot(struct keys *keys, uint64_t key);

/* Hangs job into an empty slot. */
void keys_insert(struct tw_job **slot, struct tw_job *job);

/* Puts another job of the same key in the owner's place. */
void keys_replace(struct tw_job **slot, struct tw_job *job);

/* Takes the owner out. */
void keys_remove(struct tw_job **slot);

#endif
