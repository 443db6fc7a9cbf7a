/* peers.h - how many streams each peer has open. */
#ifndef WIRE_PEERS_H
#define WIRE_PEERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define PEERS_BUCKETS 256u

struct peer;

struct peers {
    pthread_mutex_t mutex;
    struct peer *buckets[PEERS_BUCKETS]; /* guarded by mutex */
};

void peers_init(struct peers *peers);
void peers_clear(struct peers *peers);

/* Counts one stream of the peer; false when it has max already (or memory is short).
 * Thread: any. */
bool peers_take(struct peers *peers, const char *name, uint32_t max);

/* One that was taken has ended. Thread: any. */
void peers_give(struct peers *peers, const char *name);

#endif
