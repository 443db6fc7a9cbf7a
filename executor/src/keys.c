#include "keys.h"

#include <assert.h>

/* A one-to-one mix (splitmix64): different keys have different hashes, so that the walk below ends
 * before it runs out of bits. */
static uint64_t key_hash(uint64_t key)
{
    key ^= key >> 30;
    key *= UINT64_C(0xbf58476d1ce4e5b9);
    key ^= key >> 27;
    key *= UINT64_C(0x94d049bb133111eb);
    return key ^ key >> 31;
}

struct tw_job **keys_slot(struct keys *keys, uint64_t key)
{
    uint64_t hash = key_hash(key);
    struct tw_job **slot = &keys->roots[hash >> 60];
    for (hash <<= 4; *slot != NULL && (*slot)->key != key; hash <<= 1)
        slot = &(*slot)->child[hash >> 63];
    return slot;
}

void keys_insert(struct tw_job **slot, struct tw_job *job)
{
    assert(*slot == NULL);
    job->child[0] = job->child[1] = NULL;
    *slot = job;
}

void keys_replace(struct tw_job **slot, struct tw_job *job)
{
    assert((*slot)->key == job->key);
    job->child[0] = (*slot)->child[0];
    job->child[1] = (*slot)->child[1];
    *slot = job;
}

void keys_remove(struct tw_job **slot)
{
    struct tw_job *gone = *slot;
    struct tw_job **leaf_slot = slot;
    while ((*leaf_slot)->child[0] != NULL || (*leaf_slot)->child[1] != NULL)
        leaf_slot = &(*leaf_slot)->child[(*leaf_slot)->child[0] == NULL];

    /* Any leaf below may stand here: its hash begins with the way to this slot. */
    struct tw_job *leaf = *leaf_slot;
    *leaf_slot = NULL;
    if (leaf == gone)
        return;
    leaf->child[0] = gone->child[0];
    leaf->child[1] = gone->child[1];
    *slot = leaf;
}
