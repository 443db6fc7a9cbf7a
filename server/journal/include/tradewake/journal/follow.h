/* follow.h - a log, read behind its writer: by a thread of the same process that remembers how far it has
 * come and goes on from there.
 *
 * Takes no lock of the journal's and changes nothing: it reads the files, up to a sequence that the caller
 * knows to be durable. */
#ifndef TW_JOURNAL_FOLLOW_H
#define TW_JOURNAL_FOLLOW_H

#include <tradewake/base/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tw_journal_follow;

struct tw_journal_seen {
    uint64_t sequence;
    uint16_t type;
    uint32_t crc;         /* of header and bytes: the same record again has the same */
    const uint8_t *bytes; /* valid until the callback returns */
    size_t size;
};

/* Another status than TW_OK ends the reading with it; the record counts as not read. */
typedef tw_status tw_journal_follow_fn(void *context, const struct tw_journal_seen *seen, struct tw_error *error);

/* The next record is the one behind `after` (0: the first). Where the log begins later than that, with
 * the first there is; *ret_next says which.
 * Fails: TW_NOT_FOUND (no segment that is begun), TW_IO, TW_NO_MEMORY, TW_INVALID. */
TW_MUST_CHECK tw_status tw_journal_follow_open(const char *dir, uint64_t after, struct tw_journal_follow **ret_follow,
                                               uint64_t *ret_next, struct tw_error *error);

/* NULL is allowed. */
void tw_journal_follow_close(struct tw_journal_follow *follow);

/* Every record up to `until`, in order; until: at most what is durable.
 * Fails: TW_INVALID (what should be there is not: damage), TW_NOT_FOUND (its segment has been removed),
 * TW_IO, TW_NO_MEMORY, or what each() said. Read again after a failure, or open anew. */
TW_MUST_CHECK tw_status tw_journal_follow_read(struct tw_journal_follow *follow, uint64_t until,
                                               tw_journal_follow_fn *each, void *context, struct tw_error *error);

#endif
