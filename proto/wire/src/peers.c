#include "peers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct peer {
    struct peer *next;
    uint32_t streams;
    char name[];
};

void peers_init(struct peers *peers)
{
    *peers = (struct peers){.mutex = PTHREAD_MUTEX_INITIALIZER};
}

void peers_clear(struct peers *peers)
{
    for (uint32_t i = 0; i < PEERS_BUCKETS; i++)
        while (peers->buckets[i] != NULL) {
            struct peer *peer = peers->buckets[i];
            peers->buckets[i] = peer->next;
            free(peer);
        }
    pthread_mutex_destroy(&peers->mutex);
}

/* Where the pointer to the peer is, or would be. Called with the mutex held. */
static struct peer **find(struct peers *peers, const char *name)
{
    uint32_t hash = 2166136261u;
    for (const char *at = name; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    struct peer **link = &peers->buckets[hash % PEERS_BUCKETS];
    while (*link != NULL && strcmp((*link)->name, name) != 0)
        link = &(*link)->next;
    return link;
}

bool peers_take(struct peers *peers, const char *name, uint32_t max)
{
    pthread_mutex_lock(&peers->mutex);
    struct peer **link = find(peers, name);
    if (*link == NULL) {
        size_t size = strlen(name) + 1;
        *link = calloc(1, sizeof **link + size);
        if (*link != NULL)
            memcpy((*link)->name, name, size);
    }
    bool is_taken = *link != NULL && (*link)->streams < max;
    if (is_taken)
        (*link)->streams++;
    pthread_mutex_unlock(&peers->mutex);
    return is_taken;
}

void peers_give(struct peers *peers, const char *name)
{
    pthread_mutex_lock(&peers->mutex);
    struct peer **link = find(peers, name);
    struct peer *peer = *link;
    assert(peer != NULL); /* it was taken */
    if (peer != NULL && --peer->streams == 0) {
        *link = peer->next;
        free(peer);
    }
    pthread_mutex_unlock(&peers->mutex);
}
