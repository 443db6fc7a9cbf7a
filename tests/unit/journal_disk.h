/* journal_disk.h - a disk for tests: it fails when told to, takes writes in pieces, gets full, and
 * at a power cut forgets what was not synced, sector by sector and name by name.
 *
 * Names are real files in a directory of its own, so that they can be listed and locked; what is in
 * them is kept in memory, twice: as the process sees it (the page cache) and as it is on the disk.
 */
#ifndef JOURNAL_DISK_H
#define JOURNAL_DISK_H

#include <tradewake/journal/journal.h>

#define DISK_SECTOR_BYTES 512u
#define DISK_FDS_MAX      1024

struct disk_file {
    char name[32];
    bool is_named, was_named; /* in the directory; in the directory as it is on the disk */
    uint8_t *bytes, *durable; /* capacity each */
    bool *is_dirty;           /* per sector: written, not yet on the disk */
    size_t size, durable_size, capacity;
};

struct disk {
    struct tw_journal_disk calls; /* context is the disk */
    char dir[64];
    struct disk_file **files;
    uint32_t file_count;
    struct disk_file *file_of_fd[DISK_FDS_MAX];
    uint64_t random; /* xorshift */

    /* Plans; 0 in *_at: never. */
    uint64_t call_count;
    uint64_t fail_at; /* this call fails with fail_errno, having done a part */
    uint64_t fail_to; /* and all up to this one; 0: only it */
    int fail_errno;
    uint64_t cut_at;       /* from this call on the power is gone: nothing has an effect */
    uint64_t room_bytes;   /* files may grow by so much */
    bool is_short;         /* reads and writes take pieces */
    bool is_full_late;     /* a full disk is only told by fdatasync */
    uint64_t synced_count; /* fdatasync calls that did something */
};

/* Makes its directory. */
void disk_init(struct disk *disk, uint64_t seed);
void disk_clear(struct disk *disk);

/* 0..below-1. */
uint64_t disk_random(struct disk *disk, uint64_t below);

/* No plans any more; everything works. */
void disk_heal(struct disk *disk);

enum disk_keeps {
    DISK_KEEPS_SOME,        /* each unsynced sector or not, some torn */
    DISK_KEEPS_NOTHING,     /* that was not synced */
    DISK_KEEPS_ALL_BUT_ONE, /* one unsynced sector is lost */
    DISK_KEEPS_COUNT
};

/* The machine is off and on again. The process must have closed its files. */
void disk_power_cut(struct disk *disk, enum disk_keeps keeps);

/* A segment's file, as the process would see it; NULL when there is none. */
struct disk_file *disk_segment(struct disk *disk, uint32_t number);

struct disk_file *disk_snapshot(struct disk *disk, uint32_t number); /* likewise */

/* Puts bytes there as if they had always been there. */
void disk_tamper(struct disk_file *file, size_t offset, const void *bytes, size_t size);
void disk_truncate(struct disk_file *file, size_t size);
void disk_remove(struct disk *disk, uint32_t number);

#endif
