/* open.c - reads what is there, decides what a bad place is, and prepares to append. */
#include "inside.h"

#include <tradewake/base/log.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENT_BYTES_DEFAULT (64u * 1024u * 1024u)
#define SEGMENT_BYTES_MIN 4096u

/* What reading found out, for what comes after. */
struct opening {
    const struct tw_journal_options *options;
    struct tw_journal *journal;
    struct segment_list list;
    struct segment_image image;
    struct segment_chain chain;

    uint32_t current;      /* the last segment that is begun; 0: none is */
    uint64_t current_end;  /* where its records end */
    uint64_t current_size; /* of its file */
    bool current_is_torn;  /* what stands behind its end must go */
    uint32_t next;         /* the one after it, not begun; 0: there is none */
};

static void die_for_real(const char *why)
{
    tw_log(TW_LOG_ERROR, "journal.died", "why=\"%s\"", why);
    _exit(1);
}

static tw_status damage(struct opening *opening, uint32_t segment, uint64_t offset,
                        const char *what, struct tw_error *error)
{
    return tw_error_set(error, TW_INVALID,
                        "journal: damage in %s/%08" PRIu32 ".log at offset %" PRIu64 ", sequence %" PRIu64
                        ": %s. It was durable once, so this is not the end of a crash; nothing was "
                        "changed. Bring the file back from a copy, or move the directory away and "
                        "start with an empty one",
                        opening->options->dir, segment, offset, opening->chain.sequence_next, what);
}

static tw_status other_version(struct opening *opening, uint32_t segment, uint32_t version,
                               struct tw_error *error)
{
    return tw_error_set(error, TW_INVALID,
                        "journal: %s/%08" PRIu32 ".log is of version %" PRIu32 ", expected %u: it was written by "
                        "another tradewake; start that one, or give this one another state "
                        "directory",
                        opening->options->dir, segment, version, JOURNAL_VERSION);
}

/* --- directory ----------------------------------------------------------------------------------- */

static tw_status directory_make(const char *dir, struct tw_error *error)
{
    if (mkdir(dir, 0750) == 0 || errno == EEXIST)
        return TW_OK;
    return segment_io_error(error, -errno, "cannot make", dir);
}

/* The directory's own name is in its parent; also when the one who made it was stopped right after. */
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

/* --- reading ------------------------------------------------------------------------------------- */

static tw_status load(struct opening *opening, uint32_t number, struct tw_error *error)
{
    return segment_image_load(&opening->image, opening->journal->disk, opening->options->dir, number,
                              error);
}

static tw_status replay_record(void *context, const struct record *record, uint64_t offset,
                               const uint8_t *bytes, struct tw_error *error)
{
    const struct tw_journal_options *options = context;

    (void)offset;
    if (options->replay == NULL)
        return TW_OK;
    return options->replay(options->replay_context, record->sequence, record->type, bytes,
                           record->size, error);
}

/* A segment is begun only when all before it is durable: whatever stands in a later one makes a bad place
 * here damage. Fails: as such, or because a later one cannot be read. */
static tw_status expect_empty_after(struct opening *opening, uint32_t at, uint64_t offset,
                                    const char *what, struct tw_error *error)
{
    uint32_t segment = opening->list.numbers[at];

    for (uint32_t i = at + 1; i < opening->list.count; i++) {
        tw_status status = load(opening, opening->list.numbers[i], error);
        if (status != TW_OK)
            return status;
        if (!is_all_zero(opening->image.bytes, opening->image.size))
            return damage(opening, segment, offset, what, error);
    }
    return TW_OK;
}

/* A bad place: damage, or the torn end of a crash. TW_OK: torn. */
static tw_status judge_bad_place(struct opening *opening, uint32_t at, const struct segment_end *end,
                                 struct tw_error *error)
{
    uint32_t segment = opening->list.numbers[at];
    uint32_t behind;
    uint64_t claimed =
        segment_claims(&opening->image, opening->chain.salt, end->offset, &behind);
    const char *what = found_words(end->found);

    if (claimed >= opening->chain.sequence_next)
        return damage(opening, segment, end->offset, what, error);
    size_t size = opening->image.size;
    tw_status status = expect_empty_after(opening, at, end->offset, what, error);
    if (status != TW_OK)
        return status;

    tw_log(TW_LOG_WARN, "journal.cut",
           "segment=%08" PRIu32 " offset=%" PRIu64 " bytes=%" PRIu64 " last_sequence=%" PRIu64
           " valid_behind=%" PRIu32 " found=\"%s\" next=\"was never durable, is zeroed\"",
           segment, end->offset, (uint64_t)size - end->offset, opening->chain.sequence_next - 1, behind,
           what);
    return TW_OK;
}

/* The oldest segment has no header. A first start that was cut short leaves zeros, or part of the header
 * and zeros; anything else was a log. */
static tw_status judge_oldest(struct opening *opening, const struct segment_end *end,
                              struct tw_error *error)
{
    uint32_t number = opening->list.numbers[0];
    const struct segment_image *image = &opening->image;
    bool is_empty = image->size <= SEGMENT_HEADER_BYTES ||
                    is_all_zero(image->bytes + SEGMENT_HEADER_BYTES,
                                image->size - SEGMENT_HEADER_BYTES);

    if (number != 1 || !is_empty || end->found == FOUND_CHAIN)
        return damage(opening, number, 0, found_words(end->found), error);
    opening->next = number;
    return expect_empty_after(opening, 0, 0, found_words(end->found), error);
}

/* One segment; *ret_is_last when nothing behind it matters. */
static tw_status read_segment(struct opening *opening, uint32_t at, bool *ret_is_last,
                              struct tw_error *error)
{
    uint32_t number = opening->list.numbers[at];
    struct segment_end end;

    tw_status status = load(opening, number, error);
    if (status != TW_OK)
        return status;
    size_t size = opening->image.size;
    status = segment_read(&opening->image, &opening->chain, replay_record,
                          (void *)(uintptr_t)opening->options, &end, error);
    if (status != TW_OK)
        return status;
    if (end.found == FOUND_VERSION)
        return other_version(opening, number, end.version, error);

    if (!end.is_begun) {
        *ret_is_last = true;
        if (at == 0)
            return judge_oldest(opening, &end, error);
        if (end.found == FOUND_CHAIN)
            return damage(opening, number, 0, "a segment that does not follow the one before it",
                          error);
        opening->next = number;
        if (end.found == FOUND_ZEROS)
            return expect_empty_after(opening, at, 0, "a segment that was never begun", error);
        return judge_bad_place(opening, at, &end, error);
    }

    opening->current = number;
    opening->current_end = end.offset;
    opening->current_size = size;
    opening->current_is_torn = end.found != FOUND_ZEROS;
    if (!opening->current_is_torn)
        return TW_OK;
    *ret_is_last = true;
    if (at + 1 < opening->list.count)
        opening->next = opening->list.numbers[at + 1];
    return judge_bad_place(opening, at, &end, error);
}

static tw_status read_all(struct opening *opening, struct tw_error *error)
{
    tw_status status = segment_list_read(opening->options->dir, &opening->list, error);
    if (status != TW_OK)
        return status;
    uint32_t missing = segment_list_missing(&opening->list);
    if (missing != 0)
        return tw_error_set(error, TW_INVALID,
                            "journal: %s/%08" PRIu32 ".log is missing, and later ones are there; nothing was "
                            "changed. Bring the file back from a copy, or move the directory away "
                            "and start with an empty one",
                            opening->options->dir, missing);

    bool is_last = false;
    for (uint32_t i = 0; i < opening->list.count && !is_last; i++) {
        status = read_segment(opening, i, &is_last, error);
        if (status != TW_OK)
            return status;
        if (opening->current != 0 && opening->current != opening->list.numbers[i])
            continue;
        /* Which of the segments before the current one end where is asked for by tw_journal_size(). */
        if (i + 1 < opening->list.count && !is_last && opening->current != 0 &&
            !journal_note_ended(opening->journal, opening->current_end))
            return tw_error_set(error, TW_NO_MEMORY, "journal: no memory for the list of segments");
    }
    /* The last begun one is not ended. */
    struct tw_journal *journal = opening->journal;
    uint32_t begun = opening->current == 0 ? 0 : opening->current - opening->list.numbers[0];
    while (journal->ended_count > begun)
        journal->bytes_total -= journal->ended_bytes[--journal->ended_count];
    return TW_OK;
}

/* --- making it whole ----------------------------------------------------------------------------- */

static tw_status open_to_write(struct opening *opening, uint32_t number, int *ret_fd,
                               struct tw_error *error)
{
    const struct tw_journal_disk *disk = opening->journal->disk;
    char path[SEGMENT_PATH_BYTES];

    (void)segment_path(opening->options->dir, number, path); /* it was read by this path */
    int fd = disk->open(disk->context, path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        return segment_io_error(error, fd, "cannot open for writing", path);
    *ret_fd = fd;
    return TW_OK;
}

/* Everything that no later record calls durable is written once more: after a failed sync the page cache
 * may hold as clean what the disk never got, and a sync alone would then say that all is well. */
static int rewrite_unclaimed(struct opening *opening, int fd)
{
    const struct segment_image *image = &opening->image;
    uint64_t offset = SEGMENT_HEADER_BYTES;
    uint64_t from = 0;
    struct record record;

    while (offset < opening->current_end) {
        if (record_read(image->bytes + offset, image->size - (size_t)offset, opening->chain.salt,
                        &record) != FOUND_GOOD)
            return -EIO; /* it was good a moment ago */
        if (record.sequence > opening->chain.claimed)
            break;
        offset += record_total_bytes(record.size);
        from = offset;
    }
    return disk_write_all(opening->journal->disk, fd, image->bytes + from,
                          (size_t)(opening->current_end - from), from);
}

static tw_status mend_current(struct opening *opening, struct tw_error *error)
{
    struct tw_journal *journal = opening->journal;

    tw_status status = open_to_write(opening, opening->current, &journal->current.fd, error);
    if (status != TW_OK)
        return status;
    journal->current.number = opening->current;
    status = load(opening, opening->current, error);
    if (status != TW_OK)
        return status;

    uint64_t done;
    int result = 0;
    if (opening->current_is_torn)
        result = disk_write_zeros(journal->disk, journal->current.fd, opening->current_end,
                                  opening->current_size, &done);
    if (result == 0)
        result = rewrite_unclaimed(opening, journal->current.fd);
    if (result == 0)
        result = journal_fdatasync(journal, journal->current.fd);
    if (result < 0)
        return segment_io_error(error, result, "cannot mend the end of the log in", journal->dir);
    atomic_store(&journal->current_zeros, opening->current_size);
    atomic_store(&journal->offset, opening->current_end);
    return TW_OK;
}

static tw_status mend_next(struct opening *opening, struct tw_error *error)
{
    struct tw_journal *journal = opening->journal;
    if (opening->next == 0)
        return TW_OK;

    tw_status status = open_to_write(opening, opening->next, &journal->next.fd, error);
    if (status != TW_OK)
        return status;
    journal->next.number = opening->next;
    status = load(opening, opening->next, error);
    if (status != TW_OK)
        return status;
    journal->next_zeros = opening->image.size;
    if (is_all_zero(opening->image.bytes, opening->image.size))
        return TW_OK;

    uint64_t done;
    int result = disk_write_zeros(journal->disk, journal->next.fd, 0, opening->image.size, &done);
    if (result == 0)
        result = journal_fdatasync(journal, journal->next.fd);
    return result < 0 ? segment_io_error(error, result, "cannot zero the next segment in",
                                         journal->dir)
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

static tw_status make_whole(struct opening *opening, struct tw_error *error)
{
    struct tw_journal *journal = opening->journal;

    journal->salt = opening->chain.salt;
    journal->previous_crc = opening->chain.previous_crc;
    tw_status status = mend_next(opening, error);
    if (status != TW_OK)
        return status;
    status = opening->current == 0 ? begin_log(opening, error) : mend_current(opening, error);
    if (status != TW_OK)
        return status;

    uint64_t last = opening->chain.sequence_next - 1;
    journal->oldest = opening->list.count > 0 ? opening->list.numbers[0] : 1;
    atomic_store(&journal->appended, last);
    atomic_store(&journal->durable, last);

    /* A process that was killed may have created a segment and not have got to this. */
    int result =
        journal->syncs ? journal->disk->sync_directory(journal->disk->context, journal->dir) : 0;
    uint32_t segment;
    if (result == 0)
        result = journal_prepare(journal, &segment);
    if (result < 0)
        return segment_io_error(error, result, "cannot prepare", journal->dir);
    return TW_OK;
}

/* --- the two ends -------------------------------------------------------------------------------- */

static tw_status journal_new(const struct tw_journal_options *options, struct tw_journal **ret_journal,
                             struct tw_error *error)
{
    uint64_t segment_bytes = options->segment_bytes ? options->segment_bytes : SEGMENT_BYTES_DEFAULT;
    if (segment_bytes < SEGMENT_BYTES_MIN || segment_bytes > SEGMENT_BYTES_MAX / 2)
        return tw_error_set(error, TW_INVALID, "journal: segment_bytes is %" PRIu64 ", expected %u..%u",
                            segment_bytes, SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX / 2);
    char longest[SEGMENT_PATH_BYTES];
    if (!segment_path(options->dir, 1, longest))
        return tw_error_set(error, TW_INVALID, "journal: the path of the directory is too long");

    struct tw_journal *journal = calloc(1, sizeof(*journal));
    if (journal == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "journal: no memory");
    *journal = (struct tw_journal){
        .disk = options->disk ? options->disk : tw_journal_disk_real(),
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
    journal->frame = malloc(record_total_bytes(TW_JOURNAL_RECORD_BYTES_MAX));
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
    opening.chain.sequence_next = 1;
    status = read_all(&opening, error);
    if (status == TW_OK)
        status = make_whole(&opening, error);

done:
    segment_list_clear(&opening.list);
    segment_image_clear(&opening.image);
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
    free(journal->frame);
    free(journal);
}
