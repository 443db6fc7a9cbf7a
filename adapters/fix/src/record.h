/* record.h - the records of a session's file.
 *
 *     "TWFIX 1\n"  ( n:4  sum:4  kind:1  wall_ns:8  payload:n )*      little-endian
 *
 * sum: CRC-32C over kind, wall_ns and payload. */
#ifndef FIX_RECORD_H
#define FIX_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAGIC_BYTES = 8, RECORD_HEAD_BYTES = 17, RECORD_PAYLOAD_MAX = 1 << 20, BOOT_ID_BYTES = 40 };

#define FIX_RECORD_MAGIC "TWFIX 1\n"

enum record_kind {
    RECORD_NUMBERS = 1, /* next_out:8 next_in:8 since:8 reserved:8 boot_id:40; the only kind that is synced */
    RECORD_OUT = 2,     /* seq:8 message; seq 0: it uses no number */
    RECORD_IN = 3,      /* message */
    RECORD_EXPECT = 4,  /* next_in:8 */
    RECORD_NOTE = 5,    /* words */
};

enum { NUMBERS_BYTES = 32 + BOOT_ID_BYTES };

struct record {
    enum record_kind kind;
    int64_t wall_ns;
    const char *payload;
    size_t n;
};

/* The head of a record; its payload goes behind it. */
void fix_record_head(char head[RECORD_HEAD_BYTES], const struct record *record);
/* The record at *at; moves *at behind it. False: there is no whole one. */
bool fix_record_next(const char *bytes, size_t n, size_t *at, struct record *ret);

void put_u64(char *to, uint64_t value);
uint64_t get_u64(const char *from);

#endif
