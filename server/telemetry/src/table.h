/* table.h - finds a thing by the bytes of its key. Open addressing, grows by doubling, never
 * forgets one entry alone. The entry is embedded in the thing. Thread: the owner's. */
#ifndef TELEMETRY_TABLE_H
#define TELEMETRY_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table_entry {
    uint64_t hash;
    const uint8_t *key; /* stays with the thing */
    uint32_t key_size;
};

struct table {
    struct table_entry **slots;
    uint32_t capacity; /* a power of two, or 0 */
    uint32_t count;
};

uint64_t table_hash(const uint8_t *key, size_t size);

/* NULL = there is none. hash: of the key. */
struct table_entry *table_find(const struct table *table, uint64_t hash, const uint8_t *key,
                               uint32_t size);

/* entry: filled in, its key not in the table yet. False without memory. */
bool table_insert(struct table *table, struct table_entry *entry);

/* Frees the table, not the things. {0} is allowed. */
void table_clear(struct table *table);

#endif
