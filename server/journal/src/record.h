/* record.h - what stands in a segment, byte for byte, and how it is judged.
 *
 *     segment header (64 bytes) | record | record | ... | zeros
 *     record = header (48 bytes) | bytes | zeros up to a multiple of 8
 *
 * All numbers little-endian. A segment of zeros is prepared but not begun; its header is written
 * when it is begun. `salt` is a random number per log and the beginning of every record's
 * checksums, so that bytes which somebody hands in cannot pass for a record of this log. */
#ifndef JOURNAL_RECORD_H
#define JOURNAL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOURNAL_VERSION      1u
#define SEGMENT_HEADER_BYTES 64u
#define RECORD_HEADER_BYTES  48u
#define RECORD_ALIGN         8u

struct segment_header {
    uint32_t version;
    uint32_t segment;
    uint64_t first_sequence; /* all before it was durable when this was written */
    uint32_t previous_crc;   /* of the record before first_sequence; 0 when there is none */
    uint32_t salt;
};

struct record {
    uint64_t sequence;
    uint64_t durable; /* the durable sequence when it was written; below sequence */
    uint32_t segment;
    uint32_t size; /* of its bytes */
    uint32_t previous_crc;
    uint32_t bytes_crc;
    uint32_t
        life; /* random, one per opening: what an earlier one wrote behind a cut cannot follow */
    uint32_t crc; /* of the header, bytes_crc included: the crc of all of it */
    uint16_t type, version;
};

/* What is found at a place. */
enum found {
    FOUND_GOOD,
    FOUND_ZEROS,   /* nothing but zeros up to the end */
    FOUND_HOLE,    /* zeros here, but not up to the end */
    FOUND_HEADER,  /* a header that does not match its checksum */
    FOUND_BYTES,   /* a good header, bytes that do not match theirs */
    FOUND_CUT,     /* a good header, and the file ends before its bytes do */
    FOUND_CHAIN,   /* a good record that does not follow the one before it */
    FOUND_VERSION, /* good, but of another version */
};

size_t record_total_bytes(size_t size);

void segment_header_write(const struct segment_header *header, uint8_t out[SEGMENT_HEADER_BYTES]);
enum found segment_header_read(const uint8_t *bytes, size_t size,
                               struct segment_header *ret_header);

/* The crc of a record's bytes; what an append computes before it has the lock. */
uint32_t record_bytes_crc(uint32_t salt, const void *bytes, size_t size);

/* Writes the header; record->crc is computed and set. */
void record_header_write(struct record *record, uint32_t salt, uint8_t out[RECORD_HEADER_BYTES]);

/* Judges what begins at `bytes`, `size` bytes before the end of the file. FOUND_CHAIN is not for
 * here to find. *ret_record is set for GOOD, BYTES, CUT, VERSION. */
enum found record_read(const uint8_t *bytes, size_t size, uint32_t salt, struct record *ret_record);

bool is_all_zero(const uint8_t *bytes, size_t size);

#endif
