/* journal_oracle.h - what a log must hold: everything that was durable, in order, byte for byte,
 * and nothing that was not appended. One oracle follows a log through all its lives. */
#ifndef JOURNAL_ORACLE_H
#define JOURNAL_ORACLE_H

#include "journal_disk.h"

#include <setjmp.h>

#define ORACLE_RECORDS_MAX 4096u

struct oracle {
    struct disk disk;
    struct tw_journal *journal; /* NULL while nobody has it open */
    uint64_t segment_bytes;
    uint64_t seeds[ORACLE_RECORDS_MAX]; /* of the record of this sequence, as last appended */
    uint64_t appended, durable;
    uint64_t kept_from; /* all up to here may have been forgotten */
    uint64_t replayed_first, replayed_last;
    char why[1024]; /* what the journal died of; empty: it lives */
    uint64_t seed;  /* to name in a message */
    bool may_die;   /* died is set; otherwise dying fails the test */
    sigjmp_buf died;
};

/* The journal's die(), which must find its oracle: one at a time. */
void oracle_init(struct oracle *oracle, uint64_t seed, uint64_t segment_bytes);
void oracle_clear(struct oracle *oracle);

/* Opens, and judges what is replayed. A status other than TW_OK is the caller's to judge. */
tw_status oracle_open(struct oracle *oracle, struct tw_error *error);
void oracle_close(struct oracle *oracle);

/* Each may end in died. size: as random when SIZE_MAX. */
void oracle_append(struct oracle *oracle, size_t size);
void oracle_sync(struct oracle *oracle);
void oracle_forget(struct oracle *oracle); /* rolls, and forgets everything before */

#endif
