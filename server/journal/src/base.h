/* base.h - from where a log is read: the newest snapshot that is whole and belongs to it, then what
 * follows that one. */
#ifndef JOURNAL_BASE_H
#define JOURNAL_BASE_H

#include "read.h"

#include <tradewake/journal/snapshot.h>

struct base {
    /* Set by the caller. */
    const struct tw_journal_disk *disk;
    const char *dir;
    tw_journal_replay_fn *snapshot, *replay; /* as in tw_snapshot_options */
    void *context;
    uint32_t before; /* only snapshots before this segment; 0: any */
    uint32_t until;  /* records of later segments end the reading with TW_ENDED; 0: none do */

    /* The rest is found. */
    struct tw_snapshot_place place;
    bool is_ours; /* the record that it stands at has been met */
    uint64_t last;
    uint32_t last_crc, last_segment;
    char why[TW_ERROR_TEXT_BYTES]; /* of the newest that was passed over; empty: none was */
};

/* Chooses, and hands out what is in the snapshot; base->place.segment 0: there is none. */
tw_status base_find(struct base *base, struct tw_error *error);

/* A segment_record_fn: passes over what the snapshot stands for. */
tw_status base_record(void *context, const struct record *record, uint64_t offset,
                      const uint8_t *bytes, struct tw_error *error);

/* After reading: whether snapshot and log meet. */
tw_status base_end(const struct base *base, const struct log_reading *reading,
                   struct tw_error *error);

#endif
