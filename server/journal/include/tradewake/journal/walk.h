/* walk.h - a log, read from outside: for tools, also beside the server that writes it.
 *
 * Takes no lock and changes nothing. What it calls a torn end is, beside a server, perhaps only
 * what is being written at that moment, although it looks again before it says so. */
#ifndef TW_JOURNAL_WALK_H
#define TW_JOURNAL_WALK_H

#include <tradewake/base/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tw_journal_problem {
    TW_JOURNAL_PROBLEM_NONE,    /* a good record */
    TW_JOURNAL_PROBLEM_TORN,    /* the end of a crash, never durable: the next start cuts it */
    TW_JOURNAL_PROBLEM_DAMAGE,  /* was durable once: no server starts on it */
    TW_JOURNAL_PROBLEM_VERSION, /* another version wrote it */
    TW_JOURNAL_PROBLEM_MISSING, /* there is no file of this number */
};

struct tw_journal_entry {
    enum tw_journal_problem problem;
    const char *words; /* what stands there, when it is a problem; static */
    uint32_t segment;
    uint64_t offset;
    uint64_t sequence; /* of a problem: the one that should stand there */
    uint64_t durable;  /* the durable sequence when it was written */
    uint32_t crc;      /* of the record; a snapshot names the last one that it covers by it */
    uint16_t type;
    const uint8_t *bytes; /* valid until the callback returns */
    size_t size;
};

/* Called for each record in order, and once for the problem behind which nothing is read.
 * Another status than TW_OK ends the walk with it. */
typedef tw_status tw_journal_walk_fn(void *context, const struct tw_journal_entry *entry);

/* from_segment: records of earlier ones are left out; 0 = from the oldest on.
 * Thread: any.  Blocks: as long as reading takes.
 * Fails: TW_NOT_FOUND (no segment at all, or one was removed under it), TW_IO, TW_NO_MEMORY, or
 * what each() said. A problem in the log is no failure. */
TW_MUST_CHECK tw_status tw_journal_walk(const char *dir, uint32_t from_segment,
                                        tw_journal_walk_fn *each, void *context,
                                        struct tw_error *error);

/* The numbers of the oldest and newest segment file. Fails: TW_NOT_FOUND, TW_IO, TW_NO_MEMORY. */
TW_MUST_CHECK tw_status tw_journal_span(const char *dir, uint32_t *ret_oldest, uint32_t *ret_newest,
                                        struct tw_error *error);

#endif
