/* tool.h - what `tradewake journal verify|dump|tail` do. They change nothing and may run beside a
 * server.
 *
 * Each returns the exit code: 0 done, 1 failed, which for verify includes damage and for dump and
 * tail that they had to stop at some. */
#ifndef TW_JOURNAL_TOOL_H
#define TW_JOURNAL_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Writes what a record's bytes mean, on one line without its end; in JSON a value. False: not
 * known. */
typedef bool tw_journal_print_fn(FILE *out, uint16_t type, const uint8_t *bytes, size_t size,
                                 bool is_json);

struct tw_journal_tool {
    const char *dir;
    FILE *out, *err;
    bool is_json;                            /* one object per line */
    const char *(*type_name)(uint16_t type); /* NULL, or NULL from it: the number */
    tw_journal_print_fn *print;              /* NULL, or false from it: the first bytes, in hex */

    uint64_t from;            /* dump: the first sequence; 0 = the oldest there is */
    uint64_t count;           /* dump: at most so many, 0 = all. tail: so many of the last */
    bool follow;              /* tail: go on with what is appended */
    int64_t deadline_mono_ns; /* tail, follow: until then; 0 = for ever */
};

/* Reads everything: a line per segment and per snapshot, then the verdict on the log. A torn end is said, and is no
 * failure; a snapshot that no start could go by is one. */
int tw_journal_verify(const struct tw_journal_tool *tool);

/* One line per record. */
int tw_journal_dump(const struct tw_journal_tool *tool);
int tw_journal_tail(const struct tw_journal_tool *tool);

#endif
