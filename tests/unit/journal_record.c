#include "record.h"

#include <tradewake/journal/journal.h>

#include <criterion/criterion.h>

#include <string.h>

#define SALT 0x12345678u

/* A record of 13 bytes: 64 in all. */
static size_t write_one(uint8_t out[64])
{
    static const char bytes[13] = "what happened";
    struct record record = {.sequence = 7,
                            .durable = 5,
                            .segment = 3,
                            .size = sizeof(bytes),
                            .previous_crc = 0xabcdef01u,
                            .life = 0x55aa55aau,
                            .type = 42,
                            .version = JOURNAL_VERSION,
                            .bytes_crc = record_bytes_crc(SALT, bytes, sizeof(bytes))};

    memset(out, 0, 64);
    record_header_write(&record, SALT, out);
    memcpy(out + RECORD_HEADER_BYTES, bytes, sizeof(bytes));
    return record_total_bytes(sizeof(bytes));
}

Test(journal_record, a_record_that_was_written_is_read_as_it_was)
{
    uint8_t bytes[64];
    struct record record;

    cr_assert_eq(write_one(bytes), 64);

    cr_assert_eq(record_read(bytes, 64, SALT, &record), FOUND_GOOD);
    cr_expect_eq(record.sequence, 7);
    cr_expect_eq(record.durable, 5);
    cr_expect_eq(record.segment, 3);
    cr_expect_eq(record.size, 13);
    cr_expect_eq(record.previous_crc, 0xabcdef01u);
    cr_expect_eq(record.life, 0x55aa55aau);
    cr_expect_eq(record.type, 42);
}

/* Somebody's log must be readable by the next version: these bytes stand for ever. */
Test(journal_record, the_layout_is_what_it_was)
{
    static const uint8_t header[RECORD_HEADER_BYTES - 12] = {
        0x54, 0x57, 0x4a, 0x4c, 0x01, 0x00, 0x2a, 0x00, 0x03, 0x00, 0x00, 0x00,
        0x0d, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0xef, 0xcd, 0xab};
    static const uint8_t segment[SEGMENT_HEADER_BYTES - 4] = {
        'T', 'W', 'J', 'O', 'U', 'R', 'N', 'L', 1, 0, 0, 0, 9,    0,    0,    0,
        1,   2,   0,   0,   0,   0,   0,   0,   4, 0, 0, 0, 0x78, 0x56, 0x34, 0x12};
    struct segment_header begun = {.version = JOURNAL_VERSION,
                                   .segment = 9,
                                   .first_sequence = 513,
                                   .previous_crc = 4,
                                   .salt = SALT};
    uint8_t bytes[64];

    (void)write_one(bytes);
    cr_expect_arr_eq(bytes, header, sizeof(header));
    segment_header_write(&begun, bytes);
    cr_expect_arr_eq(bytes, segment, sizeof(segment));
}

Test(journal_record, no_flipped_bit_goes_unseen)
{
    uint8_t bytes[64];
    struct record record;

    for (size_t bit = 0; bit < 64 * 8; bit++) {
        (void)write_one(bytes);
        bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        cr_assert_neq(record_read(bytes, 64, SALT, &record), FOUND_GOOD, "bit %zu", bit);
    }
}

Test(journal_record, a_record_of_another_log_is_none_of_ours)
{
    uint8_t bytes[64];
    struct record record;

    (void)write_one(bytes);

    cr_expect_eq(record_read(bytes, 64, SALT + 1, &record), FOUND_HEADER);
}

Test(journal_record, what_is_found_has_a_name)
{
    uint8_t bytes[256] = {0};
    struct record record;

    cr_expect_eq(record_read(bytes, 256, SALT, &record), FOUND_ZEROS);
    cr_expect_eq(record_read(bytes, 0, SALT, &record), FOUND_ZEROS);
    bytes[200] = 1;
    cr_expect_eq(record_read(bytes, 256, SALT, &record), FOUND_HOLE);
    (void)write_one(bytes);
    for (size_t size = 1; size < 64; size++)
        cr_expect_eq(record_read(bytes, size, SALT, &record), FOUND_CUT, "%zu", size);
    bytes[50] ^= 1;
    cr_expect_eq(record_read(bytes, 64, SALT, &record), FOUND_BYTES);
}

Test(journal_record, impossible_numbers_are_refused_whatever_their_checksum)
{
    static const struct record impossible[] = {
        {.sequence = 7, .durable = 7, .version = JOURNAL_VERSION},
        {.sequence = 0, .durable = 0, .version = JOURNAL_VERSION},
        {.sequence = 7, .size = TW_JOURNAL_RECORD_BYTES_MAX + 1, .version = JOURNAL_VERSION},
    };
    uint8_t bytes[64];

    for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); i++) {
        struct record record = impossible[i];
        memset(bytes, 0, sizeof(bytes));
        record_header_write(&record, SALT, bytes);
        cr_expect_eq(record_read(bytes, sizeof(bytes), SALT, &record), FOUND_HEADER, "row %zu", i);
    }
}
