/* crc32c.h - CRC-32C (Castagnoli), the checksum of iSCSI, ext4 and RFC 3720. */
#ifndef JOURNAL_CRC32C_H
#define JOURNAL_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of `size` bytes that follow bytes of checksum `crc` (0: nothing before). Thread:
 * any. About 0.1 ns a byte with the processor's instruction, 1 ns without. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t size);

/* The same by table, on every processor; for tests. */
uint32_t crc32c_table(uint32_t crc, const void *bytes, size_t size);

#endif
