#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct memo **bucket_of(const struct memory *memory, const char *client_order_id)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (const char *at = client_order_id; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    return (struct memo **)(uintptr_t)&memory->buckets[(hash ^ hash >> 16) % MEMORY_BUCKETS];
}

struct memo *memory_find(const struct memory *memory, const char *client_order_id, uint32_t attempt)
{
    struct memo *memo = *bucket_of(memory, client_order_id);
    while (memo != NULL && (memo->attempt != attempt || strcmp(memo->client_order_id, client_order_id) != 0))
        memo = memo->next_in_bucket;
    return memo;
}

struct memo *memory_find_latest(const struct memory *memory, const char *client_order_id)
{
    struct memo *latest = NULL;
    for (struct memo *memo = *bucket_of(memory, client_order_id); memo != NULL; memo = memo->next_in_bucket)
        if (strcmp(memo->client_order_id, client_order_id) == 0 && (latest == NULL || memo->attempt > latest->attempt))
            latest = memo;
    return latest;
}

bool memory_is_out(const struct memory *memory, const char *client_order_id)
{
    const struct memo *memo = *bucket_of(memory, client_order_id);
    while (memo != NULL && (!memo->is_out || strcmp(memo->client_order_id, client_order_id) != 0))
        memo = memo->next_in_bucket;
    return memo != NULL;
}

bool memory_is_overdue(const struct memory *memory, int64_t now_mono_ns, int64_t beyond_ns)
{
    const struct memo *memo = memory->oldest;
    while (memo != NULL && (!memo->is_out || now_mono_ns - memo->limit_mono_ns <= beyond_ns))
        memo = memo->next_in_time;
    return memo != NULL;
}

void memory_remove(struct memory *memory, struct memo *memo)
{
    struct memo **at = bucket_of(memory, memo->client_order_id), *before = NULL;
    while (*at != memo)
        at = &(*at)->next_in_bucket;
    *at = memo->next_in_bucket;
    for (at = &memory->oldest; *at != memo; at = &(*at)->next_in_time)
        before = *at;
    *at = memo->next_in_time;
    if (memory->newest == memo)
        memory->newest = before;
    memory->n--;
    free(memo);
}

struct memo *memory_begin(struct memory *memory, const struct tw_order *order, int64_t limit_mono_ns)
{
    struct memo *memo = calloc(1, sizeof *memo);
    if (memo == NULL)
        return NULL;
    struct memo *over = memory->n >= MEMORY_MAX ? memory->oldest : NULL;
    while (over != NULL && over->is_out)
        over = over->next_in_time;
    if (over != NULL)
        memory_remove(memory, over);
    memcpy(memo->client_order_id, order->client_order_id, sizeof memo->client_order_id);
    memo->attempt = order->attempt;
    memo->op = order->op;
    memo->is_out = true;
    memo->limit_mono_ns = limit_mono_ns;
    struct memo **bucket = bucket_of(memory, memo->client_order_id);
    memo->next_in_bucket = *bucket;
    *bucket = memo;
    if (memory->newest != NULL)
        memory->newest->next_in_time = memo;
    else
        memory->oldest = memo;
    memory->newest = memo;
    memory->n++;
    return memo;
}

void memory_clear(struct memory *memory)
{
    while (memory->oldest != NULL)
        memory_remove(memory, memory->oldest);
}
