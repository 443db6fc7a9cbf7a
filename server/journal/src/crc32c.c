#include "crc32c.h"

#include <pthread.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#define POLYNOMIAL_REVERSED 0x82f63b78u

/* Eight tables: entry [k][b] is what byte b does k bytes further on, so that eight bytes are taken
 * at once ("slicing by 8"). */
static uint32_t table[8][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void table_fill(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1u) ? POLYNOMIAL_REVERSED : 0u);
        table[0][byte] = crc;
    }
    for (uint32_t byte = 0; byte < 256; byte++)
        for (int slice = 1; slice < 8; slice++)
            table[slice][byte] =
                (table[slice - 1][byte] >> 8) ^ table[0][table[slice - 1][byte] & 0xffu];
}

uint32_t crc32c_table(uint32_t crc, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;

    (void)pthread_once(&table_once, table_fill);
    crc = ~crc;
    for (; size >= 8; at += 8, size -= 8) {
        uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
                              (uint32_t)at[3] << 24);
        crc = table[7][low & 0xffu] ^ table[6][(low >> 8) & 0xffu] ^ table[5][(low >> 16) & 0xffu] ^
              table[4][low >> 24] ^ table[3][at[4]] ^ table[2][at[5]] ^ table[1][at[6]] ^
              table[0][at[7]];
    }
    for (; size > 0; at++, size--)
        crc = (crc >> 8) ^ table[0][(crc ^ *at) & 0xffu];
    return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const void *bytes,
                                                               size_t size)
{
    const uint8_t *at = bytes;
    uint64_t wide = ~crc;

    for (; size >= 8; at += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof(word));
        wide = _mm_crc32_u64(wide, word);
    }
    uint32_t narrow = (uint32_t)wide;
    for (; size > 0; at++, size--)
        narrow = _mm_crc32_u8(narrow, *at);
    return ~narrow;
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t size)
{
    if (__builtin_cpu_supports("sse4.2"))
        return crc32c_sse42(crc, bytes, size);
    return crc32c_table(crc, bytes, size);
}
#else
uint32_t crc32c(uint32_t crc, const void *bytes, size_t size)
{
    return crc32c_table(crc, bytes, size);
}
#endif
