/* ahead.c - space before it is needed: an fdatasync that only writes data is one write, one that also
 * grows the file is two and a wait between them. */
#include "inside.h"

#include <errno.h>

static bool is_full_disk(int result)
{
    return result == -ENOSPC || result == -EDQUOT;
}

/* How far a segment should be zeros when `offset` of the current one is used: all of it at the half, so
 * that the work is spread over the appends that ask for it, and an idle log takes no space. */
static uint64_t zeros_wanted(const struct tw_journal *journal, uint64_t offset)
{
    uint64_t wanted = (2 * offset + AHEAD_STEP_BYTES - 1) / AHEAD_STEP_BYTES * AHEAD_STEP_BYTES;
    return wanted < journal->segment_bytes ? wanted : journal->segment_bytes;
}

/* One step of zeros in the current segment; *ret_more while there is more to do. */
static int current_step(struct tw_journal *journal, uint64_t wanted, bool *ret_more,
                        uint32_t *ret_segment)
{
    (void)pthread_mutex_lock(&journal->ahead_mutex);
    uint64_t from = journal->current_zeros;
    uint64_t to = from + AHEAD_STEP_BYTES < wanted ? from + AHEAD_STEP_BYTES : wanted;
    int result = 0;

    *ret_segment = journal->current.number;
    if (from < to)
        result = disk_write_zeros(journal->disk, journal->current.fd, from, to,
                                  &journal->current_zeros);
    *ret_more = result == 0 && journal->current_zeros < wanted;
    (void)pthread_mutex_unlock(&journal->ahead_mutex);
    return result;
}

/* Under ahead_mutex. */
static int next_open(struct tw_journal *journal)
{
    uint32_t number = journal->current.number + 1;
    int fd = journal_create_segment(journal, number);
    if (fd < 0)
        return fd;
    journal->next = (struct segment_file){.fd = fd, .number = number};
    journal->next_zeros = 0;
    return 0;
}

/* One step of zeros in the next segment, synced, so that beginning it has nothing old to write. */
static int next_step(struct tw_journal *journal, uint64_t wanted, bool *ret_more,
                     uint32_t *ret_segment)
{
    (void)pthread_mutex_lock(&journal->ahead_mutex);
    int result = journal->next.fd < 0 ? next_open(journal) : 0;
    uint64_t from = journal->next_zeros;
    uint64_t to = from + AHEAD_STEP_BYTES < wanted ? from + AHEAD_STEP_BYTES : wanted;

    *ret_segment = journal->current.number + 1;
    if (result == 0 && from < to) {
        result = disk_write_zeros(journal->disk, journal->next.fd, from, to, &journal->next_zeros);
        if (result == 0)
            result = journal_fdatasync(journal, journal->next.fd);
    }
    *ret_more = result == 0 && journal->next_zeros < wanted;
    (void)pthread_mutex_unlock(&journal->ahead_mutex);
    return result;
}

int journal_prepare(struct tw_journal *journal, uint32_t *ret_segment)
{
    uint64_t offset = atomic_load_explicit(&journal->offset, memory_order_relaxed);
    uint64_t wanted = zeros_wanted(journal, offset);
    uint64_t current_wanted = wanted < AHEAD_MIN_BYTES ? AHEAD_MIN_BYTES : wanted;
    bool more;
    int result;

    if (current_wanted > journal->segment_bytes)
        current_wanted = journal->segment_bytes;
    do {
        result = current_step(journal, current_wanted, &more, ret_segment);
    } while (more);
    if (result < 0)
        goto done;

    if (offset == SEGMENT_HEADER_BYTES)
        goto done; /* nothing in it yet */
    do {
        result = next_step(journal, wanted, &more, ret_segment);
    } while (more);

done:
    atomic_store_explicit(&journal->has_room, !is_full_disk(result), memory_order_relaxed);
    return is_full_disk(result) ? 0 : result;
}
