#include "record.h"

#include "crc32c.h"

#include <tradewake/journal/journal.h>

#include <string.h>

#define RECORD_MAGIC 0x4c4a5754u /* "TWJL" */

static const char segment_magic[8] = "TWJOURNL";

/* Offsets in a segment header. */
enum {
    SEGMENT_VERSION = 8,
    SEGMENT_NUMBER = 12,
    SEGMENT_FIRST = 16,
    SEGMENT_PREVIOUS = 24,
    SEGMENT_SALT = 28,
    SEGMENT_CRC = 60
};

/* Offsets in a record header. */
enum {
    RECORD_MAGIC_AT = 0,
    RECORD_VERSION = 4,
    RECORD_TYPE = 6,
    RECORD_SEGMENT = 8,
    RECORD_SIZE = 12,
    RECORD_SEQUENCE = 16,
    RECORD_DURABLE = 24,
    RECORD_PREVIOUS = 32,
    RECORD_BYTES_CRC = 36,
    RECORD_LIFE = 40,
    RECORD_CRC = 44
};

static void put(uint8_t *out, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *in, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)in[i] << (8 * i);
    return value;
}

bool is_all_zero(const uint8_t *bytes, size_t size)
{
    /* Comparing the bytes with themselves, one further on, is the fastest loop there is. */
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

size_t record_total_bytes(size_t size)
{
    return (RECORD_HEADER_BYTES + size + RECORD_ALIGN - 1) / RECORD_ALIGN * RECORD_ALIGN;
}

void segment_header_write(const struct segment_header *header, uint8_t out[SEGMENT_HEADER_BYTES])
{
    memset(out, 0, SEGMENT_HEADER_BYTES);
    memcpy(out, segment_magic, sizeof(segment_magic));
    put(out + SEGMENT_VERSION, header->version, 4);
    put(out + SEGMENT_NUMBER, header->segment, 4);
    put(out + SEGMENT_FIRST, header->first_sequence, 8);
    put(out + SEGMENT_PREVIOUS, header->previous_crc, 4);
    put(out + SEGMENT_SALT, header->salt, 4);
    put(out + SEGMENT_CRC, crc32c(0, out, SEGMENT_CRC), 4);
}

enum found segment_header_read(const uint8_t *bytes, size_t size, struct segment_header *ret_header)
{
    if (is_all_zero(bytes, size))
        return FOUND_ZEROS;
    if (size < SEGMENT_HEADER_BYTES)
        return FOUND_CUT;
    if (is_all_zero(bytes, SEGMENT_HEADER_BYTES))
        return FOUND_HOLE;
    if (memcmp(bytes, segment_magic, sizeof(segment_magic)) != 0 ||
        get(bytes + SEGMENT_CRC, 4) != crc32c(0, bytes, SEGMENT_CRC))
        return FOUND_HEADER;

    *ret_header = (struct segment_header){
        .version = (uint32_t)get(bytes + SEGMENT_VERSION, 4),
        .segment = (uint32_t)get(bytes + SEGMENT_NUMBER, 4),
        .first_sequence = get(bytes + SEGMENT_FIRST, 8),
        .previous_crc = (uint32_t)get(bytes + SEGMENT_PREVIOUS, 4),
        .salt = (uint32_t)get(bytes + SEGMENT_SALT, 4),
    };
    return ret_header->version == JOURNAL_VERSION ? FOUND_GOOD : FOUND_VERSION;
}

uint32_t record_bytes_crc(uint32_t salt, const void *bytes, size_t size)
{
    return crc32c(salt, bytes, size);
}

void record_header_write(struct record *record, uint32_t salt, uint8_t out[RECORD_HEADER_BYTES])
{
    put(out + RECORD_MAGIC_AT, RECORD_MAGIC, 4);
    put(out + RECORD_VERSION, record->version, 2);
    put(out + RECORD_TYPE, record->type, 2);
    put(out + RECORD_SEGMENT, record->segment, 4);
    put(out + RECORD_SIZE, record->size, 4);
    put(out + RECORD_SEQUENCE, record->sequence, 8);
    put(out + RECORD_DURABLE, record->durable, 8);
    put(out + RECORD_PREVIOUS, record->previous_crc, 4);
    put(out + RECORD_BYTES_CRC, record->bytes_crc, 4);
    put(out + RECORD_LIFE, record->life, 4);
    record->crc = crc32c(salt, out, RECORD_CRC);
    put(out + RECORD_CRC, record->crc, 4);
}

/* The header alone: cheap, so that looking for records behind a bad one costs a few comparisons a
 * place, whatever stands there. */
static bool header_read(const uint8_t *bytes, uint32_t salt, struct record *ret_record)
{
    if (get(bytes + RECORD_MAGIC_AT, 4) != RECORD_MAGIC ||
        get(bytes + RECORD_CRC, 4) != crc32c(salt, bytes, RECORD_CRC))
        return false;

    *ret_record = (struct record){
        .sequence = get(bytes + RECORD_SEQUENCE, 8),
        .durable = get(bytes + RECORD_DURABLE, 8),
        .segment = (uint32_t)get(bytes + RECORD_SEGMENT, 4),
        .size = (uint32_t)get(bytes + RECORD_SIZE, 4),
        .previous_crc = (uint32_t)get(bytes + RECORD_PREVIOUS, 4),
        .bytes_crc = (uint32_t)get(bytes + RECORD_BYTES_CRC, 4),
        .life = (uint32_t)get(bytes + RECORD_LIFE, 4),
        .crc = (uint32_t)get(bytes + RECORD_CRC, 4),
        .type = (uint16_t)get(bytes + RECORD_TYPE, 2),
        .version = (uint16_t)get(bytes + RECORD_VERSION, 2),
    };
    return ret_record->size <= TW_JOURNAL_RECORD_BYTES_MAX &&
           ret_record->durable < ret_record->sequence;
}

enum found record_read(const uint8_t *bytes, size_t size, uint32_t salt, struct record *ret_record)
{
    if (is_all_zero(bytes, size < RECORD_HEADER_BYTES ? size : RECORD_HEADER_BYTES))
        return is_all_zero(bytes, size) ? FOUND_ZEROS : FOUND_HOLE;
    if (size < RECORD_HEADER_BYTES)
        return FOUND_CUT;
    if (!header_read(bytes, salt, ret_record))
        return FOUND_HEADER;
    if (ret_record->version != JOURNAL_VERSION)
        return FOUND_VERSION;

    size_t total = record_total_bytes(ret_record->size);
    size_t used = RECORD_HEADER_BYTES + ret_record->size;
    if (total > size)
        return FOUND_CUT;
    if (record_bytes_crc(salt, bytes + RECORD_HEADER_BYTES, ret_record->size) !=
            ret_record->bytes_crc ||
        !is_all_zero(bytes + used, total - used))
        return FOUND_BYTES;
    return FOUND_GOOD;
}
