/* segment.h - one segment file, read: its image in memory, its records in order, and what stands
 * behind a bad one. Decides nothing and changes nothing. */
#ifndef JOURNAL_SEGMENT_H
#define JOURNAL_SEGMENT_H

#include "record.h"

#include <tradewake/base/status.h>
#include <tradewake/journal/journal.h>

#include <dirent.h>

#define SEGMENT_PATH_BYTES 4096u
#define SEGMENT_BYTES_MAX  (1024u * 1024u * 1024u)

/* The numbers of the segment files in a directory, ascending. Heap. */
struct segment_list {
    uint32_t *numbers;
    uint32_t count;
};

/* Fails: TW_NOT_FOUND, TW_IO, TW_NO_MEMORY. Owns: *ret_list, with segment_list_clear(). */
tw_status segment_list_read(const char *dir, struct segment_list *ret_list, struct tw_error *error);
/* The same for any files that are called 00000012SUFFIX. */
tw_status numbered_list_read(const char *dir, const char *suffix, struct segment_list *ret_list,
                             struct tw_error *error);
/* As opendir(). */
DIR *directory_open(const char *dir);
void segment_list_clear(struct segment_list *list);

/* The first number that is missing in the row; 0 when none is. */
uint32_t segment_list_missing(const struct segment_list *list);

/* DIR/00000001.log. False when it is too long. */
bool segment_path(const char *dir, uint32_t number, char ret_path[SEGMENT_PATH_BYTES]);

/* A whole file in memory; the memory is used again for the next one. {0} is an empty one. */
struct segment_image {
    uint8_t *bytes;
    size_t size, capacity;
    uint32_t number;
};

/* Fails: TW_NOT_FOUND, TW_IO, TW_NO_MEMORY, TW_INVALID (larger than any segment). */
tw_status segment_image_load(struct segment_image *image, const struct tw_journal_disk *disk,
                             const char *dir, uint32_t number, struct tw_error *error);
void segment_image_clear(struct segment_image *image);

/* Where a log has got to: what the next record must say. */
struct segment_chain {
    uint64_t sequence_next;
    uint64_t claimed; /* the highest durable sequence that a record or header has named */
    uint32_t previous_crc;
    uint32_t salt;
    bool is_known; /* false before the first header */
};

/* Called for each good record. Another status than TW_OK ends the reading. */
typedef tw_status segment_record_fn(void *context, const struct record *record, uint64_t offset,
                                    const uint8_t *bytes, struct tw_error *error);

struct segment_read_options {
    segment_record_fn *each; /* may be NULL */
    void *context;
    uint64_t from; /* 0: from the header on; else behind a record that *chain has got to */
};

struct segment_end {
    enum found found; /* ZEROS: all of it is good */
    bool is_begun;    /* has its own good header */
    uint64_t offset;  /* behind the last good record: where the bad one, or the zeros, begin */
    uint32_t version; /* for FOUND_VERSION */
};

/* Reads header and records, moves *chain along. Returns what each() said. */
tw_status segment_read(const struct segment_image *image, struct segment_chain *chain,
                       const struct segment_read_options *options, struct segment_end *ret_end,
                       struct tw_error *error);

/* The highest durable sequence that a valid record at or behind `offset` names; 0: there is none.
 * *ret_records: how many valid ones there are. */
uint64_t segment_claims(const struct segment_image *image, uint32_t salt, uint64_t offset,
                        uint32_t *ret_records);

/* For people: "zeros where a record should be, and more behind them". Static. */
const char *found_words(enum found found);

/* Fails with the words for -errno at a path: a full disk and a read-only one have their own.
 * TW_NOT_FOUND for ENOENT, else TW_IO. */
tw_status segment_io_error(struct tw_error *error, int result, const char *what, const char *path);

#endif
