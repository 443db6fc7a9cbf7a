/* disk_faulty.h - which disk a journal has when nobody names one: the real one; in test builds one that
 * fails when told to, see disk_faulty.c. */
#ifndef JOURNAL_DISK_FAULTY_H
#define JOURNAL_DISK_FAULTY_H

#include <tradewake/journal/journal.h>

#ifdef TW_CRASH_POINTS
const struct tw_journal_disk *disk_faulty(void);
#define disk_default() disk_faulty()
#else
#define disk_default() tw_journal_disk_real()
#endif
#endif
