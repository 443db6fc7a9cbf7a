#include "inside.h"

#include <tradewake/base/crash_point.h>
#include <tradewake/base/log.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- what every part uses ---------------------------------------------------------- */

_Noreturn void journal_die(struct tw_journal *journal, int result, const char *what,
                           uint32_t segment)
{
    bool is_full = result == -ENOSPC || result == -EDQUOT;
    char why[SEGMENT_PATH_BYTES + 512];

    (void)snprintf(
        why, sizeof(why),
        "journal: %s %s/%08" PRIu32 ".log failed: %s; what of it is on the disk is not known, so "
        "nothing more is written: %s, then start again: the log is read back and everything "
        "without an outcome is asked for first",
        what, journal->dir, segment, strerror(-result),
        is_full ? "make room on the disk" : "check the disk");
    journal->die(why);
    abort(); /* die() may leave with longjmp, but it may not return */
}

int disk_write_all(const struct tw_journal_disk *disk, int fd, const void *bytes, size_t size,
                   uint64_t offset)
{
    const uint8_t *at = bytes;

    while (size > 0) {
        int64_t n = disk->pwrite(disk->context, fd, at, size, (int64_t)offset);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            return n == 0 ? -EIO : (int)n;
        at += n;
        size -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

int disk_write_zeros(const struct tw_journal_disk *disk, int fd, uint64_t from, uint64_t to,
                     uint64_t *ret_done)
{
    static const uint8_t zeros[AHEAD_STEP_BYTES];
    int result = 0;

    while (from < to) {
        size_t size = to - from < sizeof(zeros) ? (size_t)(to - from) : sizeof(zeros);
        int64_t n = disk->pwrite(disk->context, fd, zeros, size, (int64_t)from);
        if (n == -EINTR)
            continue;
        if (n <= 0) {
            result = n == 0 ? -EIO : (int)n;
            break;
        }
        from += (uint64_t)n;
    }
    *ret_done = from;
    return result;
}

int journal_fdatasync(const struct tw_journal *journal, int fd)
{
    return journal->syncs ? journal->disk->fdatasync(journal->disk->context, fd) : 0;
}

int journal_create_segment(const struct tw_journal *journal, uint32_t number)
{
    const struct tw_journal_disk *disk = journal->disk;
    char path[SEGMENT_PATH_BYTES];
    if (!segment_path(journal->dir, number, path))
        return -ENAMETOOLONG;

    int fd = disk->open(disk->context, path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (fd < 0)
        return fd;
    int result = journal->syncs ? disk->sync_directory(disk->context, journal->dir) : 0;
    if (result < 0) {
        (void)disk->close(disk->context, fd);
        return result;
    }
    tw_crash_point("journal.segment_named");
    return fd;
}

int journal_write_header(const struct tw_journal *journal, int fd, uint32_t number,
                         uint64_t first_sequence, uint32_t previous_crc)
{
    struct segment_header header = {.version = JOURNAL_VERSION,
                                    .segment = number,
                                    .first_sequence = first_sequence,
                                    .previous_crc = previous_crc,
                                    .salt = journal->salt};
    uint8_t bytes[SEGMENT_HEADER_BYTES];

    segment_header_write(&header, bytes);
    return disk_write_all(journal->disk, fd, bytes, sizeof(bytes), 0);
}

bool journal_note_ended(struct tw_journal *journal, uint64_t bytes)
{
    if (journal->ended_count == journal->ended_capacity) {
        uint32_t capacity = journal->ended_capacity ? journal->ended_capacity * 2 : 256;
        uint64_t *grown = realloc(journal->ended_bytes, capacity * sizeof(*grown));
        if (grown == NULL)
            return false;
        journal->ended_bytes = grown;
        journal->ended_capacity = capacity;
    }
    journal->ended_bytes[journal->ended_count++] = bytes;
    journal->bytes_total += bytes;
    return true;
}

/* --- append ------------------------------------------------------------------------ */

int journal_sync_current(struct tw_journal *journal)
{
    /* What is appended is in the current segment, or in one that was durable before this one began.
     */
    uint64_t appended = atomic_load_explicit(&journal->appended, memory_order_acquire);
    int result = journal_fdatasync(journal, journal->current.fd);

    if (result == 0 && journal->syncs)
        atomic_store_explicit(&journal->durable, appended, memory_order_release);
    return result;
}

/* Under sync_mutex. */
static void sync_or_die(struct tw_journal *journal)
{
    int result = journal_sync_current(journal);

    if (result < 0)
        journal_die(journal, result, "fdatasync of", journal->current.number);
}

static bool is_all_durable(const struct tw_journal *journal)
{
    return tw_journal_durable(journal) == tw_journal_appended(journal);
}

/* Under all three. The next segment is the current one; it is created here if nobody has prepared
 * it. */
static void next_take(struct tw_journal *journal)
{
    uint32_t number = journal->current.number + 1;
    uint64_t zeros = journal->next_zeros;

    if (journal->next.fd < 0) {
        int fd = journal_create_segment(journal, number);
        if (fd < 0)
            journal_die(journal, fd, "creating", number);
        journal->next = (struct segment_file){.fd = fd, .number = number};
        zeros = 0;
    }
    assert(journal->next.number == number);
    journal->current = journal->next;
    journal->next = (struct segment_file){.fd = -1};
    journal->next_zeros = 0;
    atomic_store_explicit(&journal->current_zeros,
                          zeros < SEGMENT_HEADER_BYTES ? SEGMENT_HEADER_BYTES : zeros,
                          memory_order_relaxed);
}

/* Under mutex. All of a segment is durable before the next one is begun: that is why a header, or a
 * record in a later segment, says of every earlier one that it must be whole. */
static void begin_next(struct tw_journal *journal)
{
    (void)pthread_mutex_lock(&journal->sync_mutex);
    if (!is_all_durable(journal))
        sync_or_die(journal);
    tw_crash_point("journal.segment_ended");
    (void)pthread_mutex_lock(&journal->ahead_mutex); /* waits for one step of zeros at most */

    struct segment_file ended = journal->current;
    uint64_t first = atomic_load_explicit(&journal->appended, memory_order_relaxed) + 1;
    if (!journal_note_ended(journal, atomic_load_explicit(&journal->offset, memory_order_relaxed)))
        journal_die(journal, -ENOMEM, "ending", ended.number);
    next_take(journal);
    int result = journal_write_header(journal, journal->current.fd, journal->current.number, first,
                                      journal->previous_crc);
    if (result < 0)
        journal_die(journal, result, "writing the header of", journal->current.number);
    tw_crash_point("journal.segment_begun");
    atomic_store_explicit(&journal->offset, SEGMENT_HEADER_BYTES, memory_order_relaxed);

    (void)pthread_mutex_unlock(&journal->ahead_mutex);
    (void)pthread_mutex_unlock(&journal->sync_mutex);
    (void)journal->disk->close(journal->disk->context, ended.fd);
}

/* Under mutex. A record that reaches beyond the zeros moves their end first, and waits for a step
 * of zeros that is being written: otherwise the step could land on the record. */
static void claim_space(struct tw_journal *journal, uint64_t end)
{
    if (end <= atomic_load_explicit(&journal->current_zeros, memory_order_relaxed))
        return;
    (void)pthread_mutex_lock(&journal->ahead_mutex);
    if (end > atomic_load_explicit(&journal->current_zeros, memory_order_relaxed))
        atomic_store_explicit(&journal->current_zeros, end, memory_order_relaxed);
    (void)pthread_mutex_unlock(&journal->ahead_mutex);
}

/* Under mutex. frame: header space, then the bytes and their padding. Returns the sequence. */
static uint64_t append_frame(struct tw_journal *journal, struct record *record, uint8_t *frame)
{
    size_t total = record_total_bytes(record->size);
    uint64_t offset = atomic_load_explicit(&journal->offset, memory_order_relaxed);

    if (offset > SEGMENT_HEADER_BYTES && offset + total > journal->segment_bytes) {
        begin_next(journal);
        offset = SEGMENT_HEADER_BYTES;
    }
    record->sequence = atomic_load_explicit(&journal->appended, memory_order_relaxed) + 1;
    record->durable =
        journal->syncs ? atomic_load_explicit(&journal->durable, memory_order_relaxed) : 0;
    record->segment = journal->current.number;
    record->previous_crc = journal->previous_crc;
    record->life = journal->life;
    record_header_write(record, journal->salt, frame);

    claim_space(journal, offset + total);
    int result = disk_write_all(journal->disk, journal->current.fd, frame, total, offset);
    if (result < 0)
        journal_die(journal, result, "writing to", journal->current.number);

    journal->previous_crc = record->crc;
    atomic_store_explicit(&journal->offset, offset + total, memory_order_relaxed);
    atomic_store_explicit(&journal->appended, record->sequence, memory_order_release);
    if (!journal->syncs)
        atomic_store_explicit(&journal->durable, record->sequence, memory_order_release);
    return record->sequence;
}

static void frame_fill(uint8_t *frame, const void *bytes, size_t size)
{
    size_t used = RECORD_HEADER_BYTES + size;

    if (size > 0)
        memcpy(frame + RECORD_HEADER_BYTES, bytes, size);
    memset(frame + used, 0, record_total_bytes(size) - used);
}

uint64_t tw_journal_append(struct tw_journal *journal, uint16_t type, const void *bytes,
                           size_t size)
{
    assert(size <= TW_JOURNAL_RECORD_BYTES_MAX);
    uint8_t stack[FRAME_STACK_BYTES];
    bool is_small = record_total_bytes(size) <= sizeof(stack);
    struct record record = {.size = (uint32_t)size,
                            .type = type,
                            .version = JOURNAL_VERSION,
                            .bytes_crc = record_bytes_crc(journal->salt, bytes, size)};

    if (is_small)
        frame_fill(stack, bytes, size);
    (void)pthread_mutex_lock(&journal->mutex);
    if (!is_small)
        frame_fill(journal->frame, bytes, size);
    uint64_t sequence = append_frame(journal, &record, is_small ? stack : journal->frame);
    (void)pthread_mutex_unlock(&journal->mutex);
    return sequence;
}

uint32_t tw_journal_roll(struct tw_journal *journal)
{
    (void)pthread_mutex_lock(&journal->mutex);
    if (atomic_load_explicit(&journal->offset, memory_order_relaxed) > SEGMENT_HEADER_BYTES)
        begin_next(journal);
    uint32_t number = journal->current.number;
    (void)pthread_mutex_unlock(&journal->mutex);
    return number;
}

uint64_t tw_journal_appended(const struct tw_journal *journal)
{
    return atomic_load_explicit(&journal->appended, memory_order_acquire);
}

uint64_t tw_journal_durable(const struct tw_journal *journal)
{
    return atomic_load_explicit(&journal->durable, memory_order_acquire);
}

void tw_journal_reserve_set(struct tw_journal *journal, uint64_t bytes)
{
    atomic_store_explicit(&journal->reserve_bytes, bytes, memory_order_relaxed);
}

bool tw_journal_has_room(const struct tw_journal *journal)
{
    return atomic_load_explicit(&journal->has_room, memory_order_relaxed);
}

/* --- the journal thread ------------------------------------------------------------ */

/* A segment that is nearly full ends when nothing in it waits for the disk: whoever would have
 * filled it would have to wait for a sync. */
static void end_early(struct tw_journal *journal)
{
    if (!tw_journal_has_room(journal))
        return; /* what is left of it is the reserve */
    (void)pthread_mutex_lock(&journal->mutex);
    if (atomic_load_explicit(&journal->offset, memory_order_relaxed) >=
            journal->segment_bytes - journal->segment_bytes / 16 &&
        is_all_durable(journal))
        begin_next(journal);
    (void)pthread_mutex_unlock(&journal->mutex);
}

uint64_t tw_journal_sync(struct tw_journal *journal)
{
    (void)pthread_mutex_lock(&journal->sync_mutex);
    if (!is_all_durable(journal))
        sync_or_die(journal);
    (void)pthread_mutex_unlock(&journal->sync_mutex);
    uint64_t durable = tw_journal_durable(journal);

    end_early(journal);
    uint32_t segment = 0;
    int result = journal_prepare(journal, &segment);
    if (result < 0)
        journal_die(journal, result, "preparing", segment);
    return durable;
}

/* The oldest segment, when it is one that may go; else 0. */
static uint32_t next_to_forget(struct tw_journal *journal, uint32_t before)
{
    (void)pthread_mutex_lock(&journal->mutex);
    uint32_t oldest = journal->oldest;
    bool may_go = oldest < before && oldest < journal->current.number;
    (void)pthread_mutex_unlock(&journal->mutex);
    return may_go ? oldest : 0;
}

void tw_journal_forget_before(struct tw_journal *journal, uint32_t segment)
{
    uint32_t oldest = next_to_forget(journal, segment);
    if (oldest == 0)
        return;

    /* The header of the oldest segment that is left is all that says where the log begins. */
    (void)pthread_mutex_lock(&journal->sync_mutex);
    sync_or_die(journal);
    (void)pthread_mutex_unlock(&journal->sync_mutex);

    for (; oldest != 0; oldest = next_to_forget(journal, segment)) {
        char path[SEGMENT_PATH_BYTES];
        (void)segment_path(journal->dir, oldest, path); /* as long as it was when it was made */
        int result = journal->disk->unlink(journal->disk->context, path);
        tw_crash_point("journal.segment_removed");
        /* One by one, so that no power cut leaves a later one gone and an earlier one there. */
        if (result == 0 && journal->syncs)
            result = journal->disk->sync_directory(journal->disk->context, journal->dir);
        if (result < 0)
            journal_die(journal, result, "removing", oldest);

        (void)pthread_mutex_lock(&journal->mutex);
        journal->oldest++;
        journal->bytes_total -= journal->ended_bytes[0];
        journal->ended_count--;
        memmove(journal->ended_bytes, journal->ended_bytes + 1,
                journal->ended_count * sizeof(journal->ended_bytes[0]));
        (void)pthread_mutex_unlock(&journal->mutex);
    }
}

uint32_t tw_journal_segment(const struct tw_journal *journal)
{
    pthread_mutex_t *mutex = (pthread_mutex_t *)(uintptr_t)&journal->mutex; /* as below */

    (void)pthread_mutex_lock(mutex);
    uint32_t number = journal->current.number;
    (void)pthread_mutex_unlock(mutex);
    return number;
}

uint32_t tw_journal_snapshot(const struct tw_journal *journal)
{
    return journal->snapshot;
}

uint64_t tw_journal_segment_first(const struct tw_journal *journal, uint32_t segment)
{
    char path[SEGMENT_PATH_BYTES];
    uint8_t bytes[SEGMENT_HEADER_BYTES];
    struct segment_header header;
    if (!segment_path(journal->dir, segment, path))
        return 0;
    int fd = journal->disk->open(journal->disk->context, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    int64_t n = journal->disk->pread(journal->disk->context, fd, bytes, sizeof(bytes), 0);
    (void)journal->disk->close(journal->disk->context, fd);
    return n == (int64_t)sizeof(bytes) && segment_header_read(bytes, sizeof(bytes), &header) == FOUND_GOOD
               ? header.first_sequence
               : 0;
}

uint32_t tw_journal_oldest_for(const struct tw_journal *journal, uint64_t bytes)
{
    pthread_mutex_t *mutex = (pthread_mutex_t *)(uintptr_t)&journal->mutex; /* as below */

    (void)pthread_mutex_lock(mutex);
    uint64_t total = journal->bytes_total;
    uint32_t number = journal->oldest;
    for (uint32_t i = 0; i < journal->ended_count && total > bytes; i++, number++)
        total -= journal->ended_bytes[i];
    (void)pthread_mutex_unlock(mutex);
    return number;
}

void tw_journal_size(const struct tw_journal *journal, uint32_t *ret_segments, uint64_t *ret_bytes)
{
    /* The mutex is the one thing in there that a reader changes. */
    pthread_mutex_t *mutex = (pthread_mutex_t *)(uintptr_t)&journal->mutex;

    (void)pthread_mutex_lock(mutex);
    *ret_segments = journal->ended_count + 1;
    *ret_bytes =
        journal->bytes_total + atomic_load_explicit(&journal->offset, memory_order_relaxed);
    (void)pthread_mutex_unlock(mutex);
}
