#include "table.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_SLOTS_MIN 16u

/* FNV-1a, with its high bits brought down: the slot is taken from the low ones. */
uint64_t table_hash(const uint8_t *key, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ key[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 29;
}

/* The slot of the key, or the free one where it belongs. */
static uint32_t slot_of(const struct table *table, uint64_t hash, const uint8_t *key, uint32_t size)
{
    uint32_t at = (uint32_t)hash & (table->capacity - 1u);
    const struct table_entry *entry;

    while ((entry = table->slots[at]) != NULL &&
           (entry->hash != hash || entry->key_size != size || memcmp(entry->key, key, size) != 0))
        at = (at + 1u) & (table->capacity - 1u);
    return at;
}

struct table_entry *table_find(const struct table *table, uint64_t hash, const uint8_t *key,
                               uint32_t size)
{
    return table->capacity == 0 ? NULL : table->slots[slot_of(table, hash, key, size)];
}

static bool grow(struct table *table)
{
    struct table wider = {.capacity = table->capacity == 0 ? TABLE_SLOTS_MIN : table->capacity * 2u,
                          .count = table->count};
    wider.slots = calloc(wider.capacity, sizeof(struct table_entry *));
    if (wider.slots == NULL)
        return false;

    for (uint32_t i = 0; i < table->capacity; i++) {
        struct table_entry *entry = table->slots[i];
        if (entry != NULL)
            wider.slots[slot_of(&wider, entry->hash, entry->key, entry->key_size)] = entry;
    }
    free(table->slots);
    *table = wider;
    return true;
}

bool table_insert(struct table *table, struct table_entry *entry)
{
    if (table->count >= table->capacity / 4u * 3u && !grow(table))
        return false;
    table->slots[slot_of(table, entry->hash, entry->key, entry->key_size)] = entry;
    table->count++;
    return true;
}

void table_clear(struct table *table)
{
    free(table->slots);
    *table = (struct table){0};
}
