/* record.h - a ledger record as bytes: the writer and the reader of each field side by side.
 *
 *     magic 4 | size of the body 4 | crc32c 4 | account 4 | type 1 | body
 *
 * The checksum covers account, type and body. Numbers in the body are varints (signed ones
 * zigzagged), texts a varint length and the bytes. A reader that runs out of bytes, or meets what
 * cannot be, says so once, at the end: .is_bad. Pure. Thread: any. */
#ifndef PAPER_RECORD_H
#define PAPER_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_MAGIC          UINT32_C(0x4c505754) /* "TWPL" */
#define RECORD_HEAD_BYTES     17u
#define RECORD_BODY_BYTES_MAX (4u * 1024u * 1024u)

struct record_writer {
    uint8_t *bytes;
    size_t n, cap;
    bool is_full; /* something did not fit */
};

struct record_reader {
    const uint8_t *at, *end;
    bool is_bad;
};

struct record {
    uint32_t account;
    uint8_t type;
    struct record_reader body;
};

/* Leaves room for the head. bytes: the caller's. */
void record_begin(struct record_writer *writer, void *bytes, size_t cap);
/* Fills in the head. False when the body did not fit. */
bool record_end(struct record_writer *writer, uint32_t account, uint8_t type);

/* The record at *at, and *at moved behind it. False, with nothing changed: the bytes up to end do
 * not begin with a whole, undamaged record. */
bool record_next(const uint8_t **at, const uint8_t *end, struct record *ret);

void put_number(struct record_writer *writer, uint64_t value);
uint64_t get_number(struct record_reader *reader);
void put_signed(struct record_writer *writer, int64_t value);
int64_t get_signed(struct record_reader *reader);
void put_text(struct record_writer *writer, const char *text);
/* NUL-terminated into text; bad when it does not fit size_bytes. */
void get_text(struct record_reader *reader, char *text, size_t size_bytes);

#endif
