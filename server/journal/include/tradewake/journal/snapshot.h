/* snapshot.h - what the first segments of a log come to, in a file of its own, so that a start need not
 * read them and they can be forgotten.
 *
 * DIR/00000012.snapshot stands at the end of DIR/00000012.log. It holds records of the owner's making,
 * in the owner's order; one checksum is over all of them, and nothing is handed out before it is right.
 * It names the last record that it covers by sequence and checksum: a log that is not its own, or has
 * been changed, is refused.
 *
 * Written under a temporary name, synced, renamed, its directory synced: after a power cut it is there
 * whole, or not at all. A failure leaves the log as it is, and no snapshot.
 *
 * What is made of sealed segments is the same whoever makes it, and when: two processes at once do no
 * harm. */
#ifndef TW_JOURNAL_SNAPSHOT_H
#define TW_JOURNAL_SNAPSHOT_H

#include <tradewake/journal/journal.h>

/* What it stands for. */
struct tw_snapshot_place {
    uint32_t segment;  /* all of this one and those before it; 0 = none: the beginning */
    uint64_t sequence; /* of the last record in it */
    uint32_t crc;      /* of that record */
};

/* ---- Making one ---- */

struct tw_snapshot_options {
    const char *dir;
    const struct tw_journal_disk *disk; /* NULL = the real one */
    uint32_t until;                     /* the segment at whose end it is to stand: sealed */
    /* The newest snapshot before it that is whole, record by record; then what the segments after that
     * one hold. */
    tw_journal_replay_fn *snapshot, *replay;
    void *context;
};

struct tw_snapshot;

/* Reads up to the end of the segment. Thread: any, also beside a server.  Blocks: as long as reading takes.
 * Fails: TW_EXISTS (there is one for this segment), TW_INVALID (damage, or the log's beginning is gone
 *        and no snapshot stands for it), TW_NOT_FOUND, TW_IO, TW_NO_MEMORY, or what the callbacks said.
 * Owns: *ret_snapshot, with tw_snapshot_finish() or tw_snapshot_drop(). */
TW_MUST_CHECK tw_status tw_snapshot_begin(const struct tw_snapshot_options *options,
                                          struct tw_snapshot **ret_snapshot, struct tw_error *error);

/* One record of it; a failure is told by tw_snapshot_finish(). */
void tw_snapshot_put(struct tw_snapshot *snapshot, uint16_t type, const void *bytes, size_t size);

/* Makes it count, then removes those before the one that it was made from: that one stays, should this
 * one not be readable one day. Frees it. Fails: TW_IO; no snapshot is there then. */
TW_MUST_CHECK tw_status tw_snapshot_finish(struct tw_snapshot *snapshot, uint64_t *ret_bytes,
                                           struct tw_error *error);
void tw_snapshot_drop(struct tw_snapshot *snapshot); /* NULL is allowed */

/* ---- Reading one ---- */

/* Hands its records to each(), with the sequence at which it stands. Another status ends it.
 * Fails: TW_NOT_FOUND, TW_INVALID (not whole: error says how), TW_IO, TW_NO_MEMORY. */
TW_MUST_CHECK tw_status tw_snapshot_read(const char *dir, const struct tw_journal_disk *disk,
                                         uint32_t segment, tw_journal_replay_fn *each, void *context,
                                         struct tw_snapshot_place *ret_place, struct tw_error *error);

/* The numbers of the two newest, newest first; 0 = there is none. Fails: TW_NOT_FOUND, TW_IO. */
TW_MUST_CHECK tw_status tw_snapshot_newest(const char *dir, uint32_t ret_segments[2],
                                           struct tw_error *error);

#endif
