/* inside.h - the journal's own fields, grouped by who may write them. */
#ifndef JOURNAL_INSIDE_H
#define JOURNAL_INSIDE_H

#include "segment.h"

#include <tradewake/journal/journal.h>

#include <pthread.h>
#include <stdatomic.h>

#define AHEAD_STEP_BYTES  (256u * 1024u)
#define FRAME_STACK_BYTES (32u * 1024u)

/* A file that is written to: the segment in use, or the next one. */
struct segment_file {
    int fd; /* -1: none */
    uint32_t number;
};

struct tw_journal {
    /* Set by tw_journal_open(), read-only afterwards: any thread. */
    const struct tw_journal_disk *disk;
    void (*die)(const char *why);
    char dir[SEGMENT_PATH_BYTES];
    uint64_t segment_bytes;
    uint32_t salt, life;
    bool syncs;
    int dir_fd;        /* holds the flock */
    uint32_t snapshot; /* that was read at the start; 0: none */

    /* Three mutexes, in this order: who appends holds the first, and all three to begin a segment;
     * the journal thread takes one of the other two at a time. mutex        the head of the log
     *   sync_mutex   every fdatasync of a segment. One at a time: the kernel tells a failure to one
     * caller only, so two at once could let the wrong one believe that all is well ahead_mutex  one
     * step of zeros; never held while waiting for the disk */
    pthread_mutex_t mutex, sync_mutex, ahead_mutex;

    /* Guarded by mutex. */
    uint32_t previous_crc;
    uint32_t oldest;       /* number of the oldest segment */
    uint64_t *ended_bytes; /* of the segments oldest..current - 1: where their records end */
    uint32_t ended_count, ended_capacity;
    uint64_t bytes_total; /* over the ended ones */
    uint8_t *frame;       /* a record too large for the caller's stack */

    /* Written under all three, so that any one is enough to read it. */
    struct segment_file current;

    /* Written under sync_mutex and ahead_mutex; next_zeros under the latter. */
    struct segment_file next;
    uint64_t next_zeros;

    /* The current segment is written, or zeros, up to here, and no zeros are written before it.
     * Written under ahead_mutex; who appends reads it without. Only grows while the segment is
     * current. */
    _Atomic uint64_t current_zeros;

    /* Written under mutex, read by any thread. */
    _Atomic uint64_t offset; /* in the current segment: where the next record goes */
    _Atomic uint64_t
        appended; /* released after the write, so that who sees it sees the bytes there */

    _Atomic uint64_t durable; /* written under sync_mutex; without syncs under mutex */

    _Atomic bool has_room; /* the journal thread's word */
    _Atomic uint64_t reserve_bytes; /* the engine's: for what may not be refused */
};

/* Ends the process: *what failed with -errno at the segment. Does not come back. */
_Noreturn void journal_die(struct tw_journal *journal, int result, const char *what,
                           uint32_t segment);

/* All of it, in whatever pieces the disk takes; 0 or -errno. */
int disk_write_all(const struct tw_journal_disk *disk, int fd, const void *bytes, size_t size,
                   uint64_t offset);

/* Zeros over [from, to); *ret_done tells how far it came. 0 or -errno. */
int disk_write_zeros(const struct tw_journal_disk *disk, int fd, uint64_t from, uint64_t to,
                     uint64_t *ret_done);

/* fdatasync, unless the journal was told not to. 0 or -errno. */
int journal_fdatasync(const struct tw_journal *journal, int fd);

/* Makes everything appended so far durable. Under sync_mutex. 0 or -errno. */
int journal_sync_current(struct tw_journal *journal);

/* How much of the current segment is on the disk as zeros before anybody needs it: with the disk
 * full, this is what closes and outcomes are written to. */
uint64_t journal_reserve_bytes(const struct tw_journal *journal);

/* Writes zeros ahead, in steps, as far as what has been appended asks for. A full disk is no
 * failure: it is remembered in has_room. 0 or -errno; *ret_segment: where. Thread: journal, main in
 * open. */
int journal_prepare(struct tw_journal *journal, uint32_t *ret_segment);

/* Creates the file of a segment and makes its name durable. The fd, or -errno. */
int journal_create_segment(const struct tw_journal *journal, uint32_t number);

/* Writes the header that begins a segment. 0 or -errno. */
int journal_write_header(const struct tw_journal *journal, int fd, uint32_t number,
                         uint64_t first_sequence, uint32_t previous_crc);

/* Remembers where the current segment's records end; before another one is current. False: no
 * memory. */
bool journal_note_ended(struct tw_journal *journal, uint64_t bytes);

#endif
