/* read.h - a whole log, read: where it ends, and what a bad place in it is. Changes nothing. */
#ifndef JOURNAL_READ_H
#define JOURNAL_READ_H

#include "segment.h"

enum verdict {
    VERDICT_WHOLE,
    VERDICT_TORN,    /* the end of a crash: was never durable */
    VERDICT_DAMAGE,  /* was durable once */
    VERDICT_VERSION, /* another one wrote it */
    VERDICT_MISSING, /* a number in the row has no file */
};

struct log_reading {
    /* Set by the caller. */
    const struct tw_journal_disk *disk;
    const char *dir;
    segment_record_fn *each; /* may be NULL */
    void *context;
    uint32_t from_segment; /* earlier ones are left out */
    bool
        is_live; /* somebody may be writing: a bad place is read again until it stays where it is */

    /* The rest is found. */
    struct segment_list list;
    uint32_t first; /* in the list: where reading begins */
    struct segment_image image;
    struct segment_chain chain;

    uint32_t current;      /* the last segment that is begun; 0: none is */
    uint64_t current_end;  /* where its records end */
    uint64_t current_size; /* of its file */
    uint32_t next;         /* the one after it, not begun; 0: there is none */
    uint64_t *ended_bytes; /* where the records end, of each segment before the current one */
    uint32_t ended_count;

    enum verdict verdict;
    const char *what;     /* stands at the bad place */
    uint32_t bad_segment; /* MISSING: the missing one */
    uint64_t bad_offset;
    uint32_t bad_version;
    uint32_t records_behind; /* valid ones behind the bad place, in its segment */
};

/* Reads everything, up to the first bad place. TW_OK whatever the verdict.
 * Fails: TW_NOT_FOUND, TW_IO, TW_NO_MEMORY, or what each() said.
 * Owns: *reading, with log_reading_clear(), also on failure. */
tw_status log_read(struct log_reading *reading, struct tw_error *error);
void log_reading_clear(struct log_reading *reading);

#endif
