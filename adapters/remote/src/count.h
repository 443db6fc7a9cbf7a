/* count.h - is an update the next one? Pure.
 *
 * A bridge counts its updates, +1 each within one epoch; what it says about itself may be left out of the count (0).
 * A heartbeat names the last number, so that also a lost last update is missed. */
#ifndef REMOTE_COUNT_H
#define REMOTE_COUNT_H

#include <stdbool.h>
#include <stdint.h>

enum count_verdict {
    COUNT_NEXT, /* take it up */
    COUNT_OLD,  /* the picture has it already */
    COUNT_GAP,  /* something is missing: a picture is needed */
};

struct count {
    uint64_t last;
};

static inline enum count_verdict count_update(struct count *count, uint64_t sequence, bool is_counted)
{
    if (sequence == 0)
        return is_counted ? COUNT_GAP : COUNT_NEXT;
    if (sequence <= count->last)
        return COUNT_OLD;
    if (sequence != count->last + 1)
        return COUNT_GAP;
    count->last = sequence;
    return COUNT_NEXT;
}

static inline enum count_verdict count_heartbeat(const struct count *count, uint64_t last_sequence)
{
    return last_sequence > count->last ? COUNT_GAP : COUNT_NEXT;
}

#endif
