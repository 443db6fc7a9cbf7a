/* ahead.c - space before it is needed. An fdatasync that only writes data is one write; one that
 * also grows the file is two and a wait between them. And what is zeros on the disk is there when
 * it is full. */
#include "inside.h"

#include <tradewake/base/crash_point.h>

#include <errno.h>

static bool is_full_disk(int result)
{
    return result == -ENOSPC || result == -EDQUOT;
}

uint64_t journal_reserve_bytes(const struct tw_journal *journal)
{
    return journal->segment_bytes / 4;
}

/* So many zeros at once: a step holds up who begins a segment. */
static uint64_t step_bytes(const struct tw_journal *journal)
{
    uint64_t step = journal->segment_bytes / 16;
    return step < AHEAD_STEP_BYTES ? step : AHEAD_STEP_BYTES;
}

static uint64_t round_up(uint64_t value, uint64_t step)
{
    return (value + step - 1) / step * step;
}

/* A file is zeros up to twice of what is used of the current one: whole when that is half full. The
 * work is spread over the appends that ask for it, and an idle log takes little space. Both of
 * these move in whole steps: every change costs a sync of its own. */
static uint64_t zeros_wanted(const struct tw_journal *journal, uint64_t offset)
{
    uint64_t wanted = round_up(2 * offset, step_bytes(journal));
    return wanted < journal->segment_bytes ? wanted : journal->segment_bytes;
}

static uint64_t current_zeros_wanted(const struct tw_journal *journal, uint64_t offset)
{
    uint64_t wanted = zeros_wanted(journal, offset);
    uint64_t reserve = round_up(offset, step_bytes(journal)) + journal_reserve_bytes(journal);

    if (reserve > journal->segment_bytes)
        reserve = journal->segment_bytes;
    return wanted > reserve ? wanted : reserve;
}

/* Zeros of the current segment, up to `wanted`. */
static int fill_current(struct tw_journal *journal, uint64_t wanted, bool *ret_is_changed)
{
    uint64_t step = step_bytes(journal);
    int result = 0;

    *ret_is_changed = false;
    for (bool more = true; more && result == 0;) {
        (void)pthread_mutex_lock(&journal->ahead_mutex);
        uint64_t from = atomic_load_explicit(&journal->current_zeros, memory_order_relaxed);
        uint64_t to = from + step < wanted ? from + step : wanted;
        more = from < to;
        if (more) {
            uint64_t done;
            result = disk_write_zeros(journal->disk, journal->current.fd, from, to, &done);
            atomic_store_explicit(&journal->current_zeros, done, memory_order_relaxed);
            *ret_is_changed = true;
        }
        (void)pthread_mutex_unlock(&journal->ahead_mutex);
    }
    return result;
}

static int sync_current(struct tw_journal *journal)
{
    (void)pthread_mutex_lock(&journal->sync_mutex);
    int result = journal_sync_current(journal);
    (void)pthread_mutex_unlock(&journal->sync_mutex);
    return result;
}

/* The next segment's file, created without a mutex: creating waits for the disk. Who begins a
 * segment in that time creates the same file. */
static int open_next(struct tw_journal *journal)
{
    (void)pthread_mutex_lock(&journal->ahead_mutex);
    bool is_there = journal->next.fd >= 0;
    uint32_t number = journal->current.number + 1;
    (void)pthread_mutex_unlock(&journal->ahead_mutex);
    if (is_there)
        return 0;

    int fd = journal_create_segment(journal, number);
    if (fd < 0)
        return fd;
    (void)pthread_mutex_lock(&journal->sync_mutex);
    (void)pthread_mutex_lock(&journal->ahead_mutex);
    bool is_late = journal->current.number + 1 != number;
    if (!is_late) {
        journal->next = (struct segment_file){.fd = fd, .number = number};
        journal->next_zeros = 0;
    }
    (void)pthread_mutex_unlock(&journal->ahead_mutex);
    (void)pthread_mutex_unlock(&journal->sync_mutex);
    if (is_late)
        (void)journal->disk->close(journal->disk->context, fd);
    return 0;
}

/* Under sync_mutex. A disk that finds out only in a sync that it is full leaves a file of which
 * nothing is known: it must not become a segment. */
static int drop_next(struct tw_journal *journal)
{
    char path[SEGMENT_PATH_BYTES];

    (void)pthread_mutex_lock(&journal->ahead_mutex);
    struct segment_file next = journal->next;
    journal->next = (struct segment_file){.fd = -1};
    (void)pthread_mutex_unlock(&journal->ahead_mutex);
    (void)journal->disk->close(journal->disk->context, next.fd);
    (void)segment_path(journal->dir, next.number, path);
    return journal->disk->unlink(journal->disk->context, path);
}

/* Nothing to do when it has been begun meanwhile: then it is synced as the current one. */
static int sync_next(struct tw_journal *journal)
{
    int result = 0;

    (void)pthread_mutex_lock(&journal->sync_mutex);
    if (journal->next.fd >= 0)
        result = journal_fdatasync(journal, journal->next.fd);
    if (is_full_disk(result)) {
        int dropped = drop_next(journal);
        result = dropped < 0 ? dropped : result;
    }
    (void)pthread_mutex_unlock(&journal->sync_mutex);
    return result;
}

/* Zeros of the next segment, up to `wanted`; each step is synced, so that beginning it finds
 * nothing old to write. */
static int fill_next(struct tw_journal *journal, uint64_t wanted)
{
    uint64_t step = step_bytes(journal);
    int result = open_next(journal);

    for (bool more = true; more && result == 0;) {
        (void)pthread_mutex_lock(&journal->ahead_mutex);
        uint64_t from = journal->next_zeros;
        uint64_t to = from + step < wanted ? from + step : wanted;
        more = journal->next.fd >= 0 && from < to; /* it may have been begun meanwhile */
        if (more)
            result =
                disk_write_zeros(journal->disk, journal->next.fd, from, to, &journal->next_zeros);
        (void)pthread_mutex_unlock(&journal->ahead_mutex);
        tw_crash_point_if(more, "journal.segment_zeros");
        if (more && result == 0)
            result = sync_next(journal);
    }
    return result;
}

/* Zeros that nothing is written to yet, in this segment and the next. */
static uint64_t prepared_bytes(struct tw_journal *journal)
{
    uint64_t offset = atomic_load_explicit(&journal->offset, memory_order_relaxed);
    (void)pthread_mutex_lock(&journal->ahead_mutex);
    uint64_t zeros = atomic_load_explicit(&journal->current_zeros, memory_order_relaxed);
    uint64_t next = journal->next.fd >= 0 ? journal->next_zeros : 0;
    (void)pthread_mutex_unlock(&journal->ahead_mutex);
    return next + (zeros > offset ? zeros - offset : 0);
}

/* Whether what may not be refused would find its place. Where the file system does not say what it has, yes. */
static bool has_reserve(struct tw_journal *journal)
{
    const struct tw_journal_disk *disk = journal->disk;
    uint64_t wanted = atomic_load_explicit(&journal->reserve_bytes, memory_order_relaxed);
    if (wanted <= journal_reserve_bytes(journal) || disk->free_bytes == NULL)
        return true;
    int64_t left = disk->free_bytes(disk->context, journal->dir);
    return left < 0 || (uint64_t)left + prepared_bytes(journal) >= wanted;
}

int journal_prepare(struct tw_journal *journal, uint32_t *ret_segment)
{
    (void)pthread_mutex_lock(&journal->ahead_mutex);
    uint32_t number = journal->current.number;
    (void)pthread_mutex_unlock(&journal->ahead_mutex);
    uint64_t offset = atomic_load_explicit(&journal->offset, memory_order_relaxed);

    *ret_segment = number;
    bool is_changed;
    int result = fill_current(journal, current_zeros_wanted(journal, offset), &is_changed);
    if (result == 0 && is_changed) { /* so that the next sync of records is short */
        result = sync_current(journal);
        if (result < 0)
            return result; /* whatever it is, records are in there */
    }
    if (result == 0 && offset > SEGMENT_HEADER_BYTES) {
        *ret_segment = number + 1;
        result = fill_next(journal, zeros_wanted(journal, offset));
    }
    atomic_store_explicit(&journal->has_room, !is_full_disk(result) && has_reserve(journal), memory_order_relaxed);
    return is_full_disk(result) ? 0 : result;
}
