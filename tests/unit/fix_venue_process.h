/* fix_venue_process.h - the venue of tests/fix/, started for a test, ended with it. */
#ifndef FIX_VENUE_PROCESS_H
#define FIX_VENUE_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

struct fix_venue_process {
    char folder[64];
    char ledger[128], sessions[128]; /* files in it; the second is for who writes it */
    int port, commands; /* commands: its stdin */
    pid_t pid;
};

/* words: of its command line, ended by NULL. False: it did not start. */
bool fix_venue_start(struct fix_venue_process *venue, const char *program, const char *const *words);
/* And its folder is gone. */
void fix_venue_end(struct fix_venue_process *venue);

#endif
