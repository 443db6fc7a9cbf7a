/* snapshot_file.h - a snapshot's file, byte for byte.
 *
 *     header (64 bytes) | record | record | ...      record = type 2 | 0 2 | size 4 | the bytes
 *     header = magic "TWSNAPSH" 8 | version 4 | segment 4 | sequence 8 | crc of that record 4 | 0 4
 *              | bytes behind the header 8 | records 8 | crc of those bytes 4 | 0 8 | crc of this header 4 */
#ifndef JOURNAL_SNAPSHOT_FILE_H
#define JOURNAL_SNAPSHOT_FILE_H

#include "segment.h"

#include <tradewake/journal/snapshot.h>

#define SNAPSHOT_VERSION      1u
#define SNAPSHOT_HEADER_BYTES 64u
#define SNAPSHOT_FRAME_BYTES  8u
#define SNAPSHOT_STEP_BYTES   (256u * 1024u)

struct snapshot_head {
    uint32_t version;
    struct tw_snapshot_place place;
    uint64_t size, records; /* of what is behind the header */
    uint32_t crc;
};

void snapshot_head_write(const struct snapshot_head *head, uint8_t out[SNAPSHOT_HEADER_BYTES]);
void snapshot_put32(uint8_t *at, uint32_t value); /* little-endian */

/* DIR/00000012.snapshot, and how it is called while it is written. False when it is too long. */
bool snapshot_path(const char *dir, uint32_t segment, char ret_path[SEGMENT_PATH_BYTES]);
bool snapshot_path_new(const char *dir, uint32_t segment, char ret_path[SEGMENT_PATH_BYTES]);

/* The numbers of the snapshots, ascending. As segment_list_read(). */
tw_status snapshot_list_read(const char *dir, struct segment_list *ret_list, struct tw_error *error);

/* What a writer that was stopped has left. A failure is nobody's trouble. */
void snapshot_leftovers_remove(const char *dir, const struct tw_journal_disk *disk);

#endif
