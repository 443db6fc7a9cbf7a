/* findings.h - what is wrong with a server, in plain words: pure functions of its facts.
 *
 * One row per thing to look at (findings.c); a row says nothing, or one finding with its numbers
 * and what to do. Thread: any. */
#ifndef CLI_FINDINGS_H
#define CLI_FINDINGS_H

#include "facts.h"

#include <stddef.h>

enum finding_level { FINDING_NONE, FINDING_NOTE, FINDING_WARNING, FINDING_PROBLEM };

struct finding {
    enum finding_level level;
    const char *name; /* for programs: "threads_ready"; static */
    char what[320];
    char advice[320];
};

enum { FINDINGS_MAX = 32 };

/* The findings, worst first, else in the order of the table. Returns how many. */
size_t findings_of(const struct facts *facts, struct finding ret[FINDINGS_MAX]);

/* "note", "warning", "problem"; "nothing" for FINDING_NONE. */
const char *finding_level_word(enum finding_level level);

#endif
