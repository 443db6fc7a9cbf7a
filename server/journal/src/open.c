/* open.c - reads what is there, decides what a bad place is, and prepares to append. */
#include "base.h"
#include "disk_faulty.h"
#include "inside.h"
#include "read.h"

#include <tradewake/base/crash_point.h>
#include <tradewake/base/log.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENT_BYTES_DEFAULT (64u * 1024u * 1024u)
#define SEGMENT_BYTES_MIN     4096u
#define FRAME_BYTES           (TW_JOURNAL_RECORD_BYTES_MAX + RECORD_HEADER_BYTES + RECORD_ALIGN)

struct opening {
    const struct tw_journal_options *options;
    struct tw_journal *journal;
    struct log_reading reading;
    struct base base; /* with snapshots */
};

static void die_for_real(const char *why)
{
    tw_log(TW_LOG_ERROR, "journal.died", "why=\"%s\"", why);
    _exit(1);
}

/* --- directory --------------------------------------------------------------------- */

static tw_status directory_make(const char *dir, struct tw_error *error)
{
    if (mkdir(dir, 0750) == 0 || errno == EEXIST)
        return TW_OK;
    (void)segment_io_error(error, -errno, "cannot make", dir);
    return TW_IO;
}

/* The directory's own name is in its parent; also when the one who made it was stopped right after.
 */
static int parent_sync(const struct tw_journal *journal)
{
    char parent[SEGMENT_PATH_BYTES];
    size_t length = strlen(journal->dir);

    memcpy(parent, journal->dir, length + 1);
    while (length > 1 && parent[length - 1] == '/')
        parent[--length] = '\0';
    char *slash = strrchr(parent, '/');
    if (slash == NULL)
        (void)strcpy(parent, ".");
    else
        slash[slash == parent ? 1 : 0] = '\0';
    return journal->syncs ? journal->disk->sync_directory(journal->disk->context, parent) : 0;
}

static tw_status directory_lock(struct tw_journal *journal, struct tw_error *error)
{
    int fd = journal->disk->open(journal->disk->context, journal->dir,
                                 O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return segment_io_error(error, fd, "cannot open", journal->dir);
    journal->dir_fd = fd;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return TW_OK;
    if (errno == EWOULDBLOCK)
        return tw_error_set(error, TW_EXISTS,
                            "journal: another process has %s: one server per state directory; stop "
                            "the other one, or give this one a directory of its own",
                            journal->dir);
    return segment_io_error(error, -errno, "cannot lock", journal->dir);
}

/* --- reading ----------------------------------------------------------------------- */

static tw_status replay_record(void *context, const struct record *record, uint64_t offset,
                               const uint8_t *bytes, struct tw_error *error)
{
    const struct tw_journal_options *options = context;

    (void)offset;
    return options->replay(options->replay_context, record->sequence, record->type, bytes,
                           record->size, error);
}

static void log_cut(const struct log_reading *reading)
{
    tw_log(TW_LOG_WARN, "journal.cut",
           "segment=%08" PRIu32 " offset=%" PRIu64 " last_sequence=%" PRIu64
           " valid_behind=%" PRIu32 " found=\"%s\" next=\"it was never durable: zeroed\"",
           reading->bad_segment, reading->bad_offset, reading->chain.sequence_next - 1,
           reading->records_behind, reading->what);
}

/* The newest snapshot, and what follows it; without snapshots, the whole log. */
static tw_status read_all(struct opening *opening, struct tw_error *error)
{
    const struct tw_journal_options *options = opening->options;
    struct tw_journal *journal = opening->journal;
    struct log_reading *reading = &opening->reading;

    *reading = (struct log_reading){.disk = journal->disk,
                                    .dir = journal->dir,
                                    .each = options->replay ? replay_record : NULL,
                                    .context = (void *)(uintptr_t)options};
    if (options->snapshot == NULL)
        return log_read(reading, error);
    opening->base = (struct base){.disk = journal->disk,
                                  .dir = journal->dir,
                                  .snapshot = options->snapshot,
                                  .replay = options->replay,
                                  .context = options->replay_context};
    tw_status status = base_find(&opening->base, error);
    if (status != TW_OK)
        return status;
    journal->snapshot = opening->base.place.segment;
    reading->each = base_record;
    reading->context = &opening->base;
    reading->from_segment = journal->snapshot;
    status = log_read(reading, error);
    if (status == TW_OK && (reading->verdict == VERDICT_WHOLE || reading->verdict == VERDICT_TORN))
        status = base_end(&opening->base, reading, error);
    return status;
}

/* What the verdict means for who wants to write. */
static tw_status act_on_verdict(const struct log_reading *reading, struct tw_error *error)
{
    switch (reading->verdict) {
    case VERDICT_WHOLE:
        return TW_OK;
    case VERDICT_TORN:
        log_cut(reading);
        return TW_OK;
    case VERDICT_DAMAGE:
        return tw_error_set(
            error, TW_INVALID,
            "journal: damage in %s/%08" PRIu32 ".log at offset %" PRIu64 ", sequence %" PRIu64
            ": %s. It was durable once, so it is not the torn end "
            "of a crash. Nothing was changed: bring the file back from a copy, or move "
            "the directory away and start with an empty one",
            reading->dir, reading->bad_segment, reading->bad_offset, reading->chain.sequence_next,
            reading->what);
    case VERDICT_VERSION:
        return tw_error_set(error, TW_INVALID,
                            "journal: %s/%08" PRIu32 ".log at offset %" PRIu64
                            " is of version %" PRIu32
                            ", expected %u. Nothing was changed: start the tradewake "
                            "that wrote it, or give this one another state directory",
                            reading->dir, reading->bad_segment, reading->bad_offset,
                            reading->bad_version, JOURNAL_VERSION);
    case VERDICT_MISSING:
        return tw_error_set(error, TW_INVALID,
                            "journal: %s/%08" PRIu32
                            ".log is missing, earlier and later ones are there. "
                            "Nothing was changed: bring the file back from a copy, or move the "
                            "directory away and start with an empty one",
                            reading->dir, reading->bad_segment);
    }
    return TW_INVALID;
}

/* --- making it whole --------------------------------------------------------------- */

static tw_status load(struct opening *opening, uint32_t number, struct tw_error *error)
{
    return segment_image_load(&opening->reading.image, opening->journal->disk,
                              opening->journal->dir, number, error);
}

static tw_status open_to_write(struct opening *opening, uint32_t number, int *ret_fd,
                               struct tw_error *error)
{
    const struct tw_journal_disk *disk = opening->journal->disk;
    char path[SEGMENT_PATH_BYTES];

    (void)segment_path(opening->journal->dir, number, path); /* it was read by this path */
    int fd = disk->open(disk->context, path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        return segment_io_error(error, fd, "cannot open for writing", path);
    *ret_fd = fd;
    return TW_OK;
}

/* Everything that no later record calls durable is written once more: after a failed sync the page
 * cache may hold as clean what the disk never got, and a sync alone would then say that all is
 * well. */
static int rewrite_unclaimed(struct opening *opening, int fd)
{
    const struct log_reading *reading = &opening->reading;
    const struct segment_image *image = &reading->image;
    uint64_t offset = SEGMENT_HEADER_BYTES;
    uint64_t from = 0;
    struct record record;

    while (offset < reading->current_end) {
        if (record_read(image->bytes + offset, image->size - (size_t)offset, reading->chain.salt,
                        &record) != FOUND_GOOD)
            return -EIO; /* it was good a moment ago */
        if (record.sequence > reading->chain.claimed)
            break;
        offset += record_total_bytes(record.size);
        from = offset;
    }
    return disk_write_all(opening->journal->disk, fd, image->bytes + from,
                          (size_t)(reading->current_end - from), from);
}

static tw_status mend_current(struct opening *opening, struct tw_error *error)
{
    struct tw_journal *journal = opening->journal;
    const struct log_reading *reading = &opening->reading;

    tw_status status = open_to_write(opening, reading->current, &journal->current.fd, error);
    if (status != TW_OK)
        return status;
    journal->current.number = reading->current;
    status = load(opening, reading->current, error);
    if (status != TW_OK)
        return status;

    int result = rewrite_unclaimed(opening, journal->current.fd);
    uint64_t done;
    if (result == 0 && reading->verdict == VERDICT_TORN && reading->bad_segment == reading->current)
        result = disk_write_zeros(journal->disk, journal->current.fd, reading->current_end,
                                  reading->current_size, &done);
    if (result == 0)
        result = journal_fdatasync(journal, journal->current.fd);
    if (result < 0)
        return segment_io_error(error, result, "cannot mend the end of the log in", journal->dir);
    atomic_store(&journal->current_zeros, reading->current_size);
    atomic_store(&journal->offset, reading->current_end);
    return TW_OK;
}

static tw_status mend_next(struct opening *opening, struct tw_error *error)
{
    struct tw_journal *journal = opening->journal;
    const struct log_reading *reading = &opening->reading;
    if (reading->next == 0)
        return TW_OK;

    tw_status status = open_to_write(opening, reading->next, &journal->next.fd, error);
    if (status != TW_OK)
        return status;
    journal->next.number = reading->next;
    status = load(opening, reading->next, error);
    if (status != TW_OK)
        return status;
    journal->next_zeros = reading->image.size;
    if (is_all_zero(reading->image.bytes, reading->image.size))
        return TW_OK;

    uint64_t done;
    int result = disk_write_zeros(journal->disk, journal->next.fd, 0, reading->image.size, &done);
    if (result == 0)
        result = journal_fdatasync(journal, journal->next.fd);
    return result < 0
               ? segment_io_error(error, result, "cannot zero the next segment in", journal->dir)
               : TW_OK;
}

/* No segment is begun: the log begins here. Its header is durable before anything is appended. */
static tw_status begin_log(struct opening *opening, struct tw_error *error)
{
    struct tw_journal *journal = opening->journal;
    int result;

    if (getrandom(&journal->salt, sizeof(journal->salt), 0) != (ssize_t)sizeof(journal->salt))
        return segment_io_error(error, -errno, "cannot get random bytes for", journal->dir);
    if (journal->next.fd >= 0) {
        journal->current = journal->next;
        atomic_store(&journal->current_zeros, journal->next_zeros);
        journal->next = (struct segment_file){.fd = -1};
        journal->next_zeros = 0;
    } else {
        result = journal_create_segment(journal, 1);
        if (result < 0)
            return segment_io_error(error, result, "cannot create a segment in", journal->dir);
        journal->current = (struct segment_file){.fd = result, .number = 1};
    }
    result = journal_write_header(journal, journal->current.fd, 1, 1, 0);
    if (result == 0)
        result = journal_fdatasync(journal, journal->current.fd);
    if (result == 0)
        result = parent_sync(journal);
    if (result < 0)
        return segment_io_error(error, result, "cannot begin the log in", journal->dir);
    if (atomic_load(&journal->current_zeros) < SEGMENT_HEADER_BYTES)
        atomic_store(&journal->current_zeros, SEGMENT_HEADER_BYTES);
    atomic_store(&journal->offset, SEGMENT_HEADER_BYTES);
    return TW_OK;
}

static void journal_take_ended(struct tw_journal *journal, struct log_reading *reading)
{
    journal->ended_bytes = reading->ended_bytes;
    journal->ended_count = reading->ended_count;
    journal->ended_capacity = reading->ended_bytes == NULL ? 0 : reading->list.count;
    reading->ended_bytes = NULL;
    for (uint32_t i = 0; i < journal->ended_count; i++)
        journal->bytes_total += journal->ended_bytes[i];
}

static tw_status make_whole(struct opening *opening, struct tw_error *error)
{
    struct tw_journal *journal = opening->journal;
    struct log_reading *reading = &opening->reading;
    uint64_t last = reading->chain.sequence_next - 1;

    journal->salt = reading->chain.salt;
    journal->previous_crc = reading->chain.previous_crc;
    journal->oldest = reading->list.count > 0 ? reading->list.numbers[0] : 1;
    journal_take_ended(journal, reading);
    atomic_store(&journal->appended, last);
    if (getrandom(&journal->life, sizeof(journal->life), 0) != (ssize_t)sizeof(journal->life))
        return segment_io_error(error, -errno, "cannot get random bytes for", journal->dir);

    tw_status status = mend_next(opening, error);
    if (status != TW_OK)
        return status;
    status = reading->current == 0 ? begin_log(opening, error) : mend_current(opening, error);
    if (status != TW_OK)
        return status;

    /* A process that was killed may have created a segment and not have got to this. */
    int result =
        journal->syncs ? journal->disk->sync_directory(journal->disk->context, journal->dir) : 0;
    if (result == 0) {
        uint32_t segment;
        atomic_store(&journal->durable, last);
        result = journal_prepare(journal, &segment);
    }
    return result < 0 ? segment_io_error(error, result, "cannot prepare", journal->dir) : TW_OK;
}

/* --- the two ends ------------------------------------------------------------------ */

/* Not from the heap: most of it is never touched, and should then not be there. */
static uint8_t *frame_map(void)
{
    void *frame =
        mmap(NULL, FRAME_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return frame != MAP_FAILED ? frame : NULL;
}

static tw_status journal_new(const struct tw_journal_options *options,
                             struct tw_journal **ret_journal, struct tw_error *error)
{
    uint64_t segment_bytes =
        (uint64_t)tw_fault_number("SEGMENT_BYTES", options->segment_bytes ? (int64_t)options->segment_bytes
                                                                         : SEGMENT_BYTES_DEFAULT);
    if (segment_bytes < SEGMENT_BYTES_MIN || segment_bytes > SEGMENT_BYTES_MAX / 2)
        return tw_error_set(error, TW_INVALID,
                            "journal: segment_bytes is %" PRIu64 ", expected %u..%u", segment_bytes,
                            SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX / 2);
    char longest[SEGMENT_PATH_BYTES];
    if (!segment_path(options->dir, 1, longest))
        return tw_error_set(error, TW_INVALID, "journal: the path of the directory is too long");

    struct tw_journal *journal = calloc(1, sizeof(*journal));
    if (journal == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "journal: no memory");
    *journal = (struct tw_journal){
        .disk = options->disk ? options->disk : disk_default(),
        .die = options->die ? options->die : die_for_real,
        .segment_bytes = segment_bytes,
        .syncs = options->syncs,
        .dir_fd = -1,
        .current = {.fd = -1},
        .next = {.fd = -1},
    };
    (void)strcpy(journal->dir, options->dir); /* segment_path() fitted */
    (void)pthread_mutex_init(&journal->mutex, NULL);
    (void)pthread_mutex_init(&journal->sync_mutex, NULL);
    (void)pthread_mutex_init(&journal->ahead_mutex, NULL);
    journal->frame = frame_map();
    if (journal->frame == NULL) {
        tw_journal_close(journal);
        return tw_error_set(error, TW_NO_MEMORY, "journal: no memory for the largest record");
    }
    *ret_journal = journal;
    return TW_OK;
}

tw_status tw_journal_open(const struct tw_journal_options *options, struct tw_journal **ret_journal,
                          struct tw_error *error)
{
    struct opening opening = {.options = options};

    tw_status status = journal_new(options, &opening.journal, error);
    if (status != TW_OK)
        return status;
    status = directory_make(options->dir, error);
    if (status == TW_OK)
        status = directory_lock(opening.journal, error);
    if (status != TW_OK)
        goto done;
    status = read_all(&opening, error);
    if (status == TW_OK)
        status = act_on_verdict(&opening.reading, error);
    if (status == TW_OK)
        status = make_whole(&opening, error);

done:
    log_reading_clear(&opening.reading);
    if (status != TW_OK)
        tw_journal_close(opening.journal);
    else
        *ret_journal = opening.journal;
    return status;
}

void tw_journal_close(struct tw_journal *journal)
{
    if (journal == NULL)
        return;
    const int fds[] = {journal->current.fd, journal->next.fd, journal->dir_fd};
    for (unsigned i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            (void)journal->disk->close(journal->disk->context, fds[i]);
    (void)pthread_mutex_destroy(&journal->mutex);
    (void)pthread_mutex_destroy(&journal->sync_mutex);
    (void)pthread_mutex_destroy(&journal->ahead_mutex);
    free(journal->ended_bytes);
    if (journal->frame != NULL)
        (void)munmap(journal->frame, FRAME_BYTES);
    free(journal);
}
