#include "crc32c.h"

#include <criterion/criterion.h>

#include <string.h>

struct vector {
    const char *name;
    uint8_t bytes[48];
    size_t size;
    uint32_t crc;
};

/* RFC 3720, B.4; the check value of the catalogue last. */
static const struct vector vectors[] = {
    {"32 bytes of zeros", {0}, 32, 0x8a9136aau},
    {"an iSCSI SCSI Read (10) PDU",
     {0x01, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
      0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18, 0x28, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00},
     48,
     0xd9963a56u},
    {"123456789", "123456789", 9, 0xe3069283u},
    {"nothing", {0}, 0, 0},
};

typedef uint32_t crc_fn(uint32_t, const void *, size_t);
static crc_fn *const ways[] = {crc32c, crc32c_table};

static void expect(const char *name, const uint8_t *bytes, size_t size, uint32_t crc)
{
    for (unsigned way = 0; way < 2; way++)
        cr_expect_eq(ways[way](0, bytes, size), crc, "%s, way %u: %08x", name, way,
                     ways[way](0, bytes, size));
}

Test(journal_crc32c, both_ways_give_the_values_of_rfc_3720)
{
    uint8_t ones[32], up[32], down[32];

    memset(ones, 0xff, sizeof(ones));
    for (uint8_t i = 0; i < 32; i++) {
        up[i] = i;
        down[i] = (uint8_t)(31 - i);
    }

    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
        expect(vectors[i].name, vectors[i].bytes, vectors[i].size, vectors[i].crc);
    expect("32 bytes of ones", ones, 32, 0x62a8ab43u);
    expect("32 bytes counting up", up, 32, 0x46dd794eu);
    expect("32 bytes counting down", down, 32, 0x113fdb5cu);
}

Test(journal_crc32c, both_ways_agree_at_every_length_and_alignment_and_in_pieces)
{
    static uint8_t bytes[600];
    uint64_t state = 1;

    for (size_t i = 0; i < sizeof(bytes); i++) {
        state = state * UINT64_C(6364136223846793005) + 1;
        bytes[i] = (uint8_t)(state >> 56);
    }

    for (size_t at = 0; at < 9; at++) {
        for (size_t size = 0; size < 300; size++) {
            uint32_t whole = crc32c(0, bytes + at, size);
            size_t first = size / 3;
            uint32_t pieces =
                crc32c(crc32c(0, bytes + at, first), bytes + at + first, size - first);
            cr_assert_eq(whole, crc32c_table(0, bytes + at, size), "at %zu, %zu bytes", at, size);
            cr_assert_eq(whole, pieces, "at %zu, %zu bytes, in pieces", at, size);
        }
    }
}
