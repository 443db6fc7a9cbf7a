/* snapshot.c - a snapshot, made: read what it stands for, take its records, make it count. */
#include "base.h"
#include "crc32c.h"
#include "disk_faulty.h"
#include "inside.h"
#include "snapshot_file.h"

#include <tradewake/base/crash_point.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tw_snapshot {
    const struct tw_journal_disk *disk;
    char dir[SEGMENT_PATH_BYTES];
    char path_new[SEGMENT_PATH_BYTES];
    int fd;
    int result; /* the first -errno */
    uint32_t made_from; /* 0 = the log's beginning */
    struct snapshot_head head;
    uint8_t *bytes; /* not written yet */
    size_t size;
};

/* Everything up to the end of the segment, to the callbacks. */
static tw_status read_until(const struct tw_snapshot_options *options, struct tw_snapshot *snapshot,
                            struct tw_error *error)
{
    struct base base = {.disk = snapshot->disk, .dir = options->dir, .snapshot = options->snapshot,
                        .replay = options->replay, .context = options->context,
                        .before = options->until, .until = options->until};
    tw_status status = base_find(&base, error);
    if (status != TW_OK)
        return status;
    struct log_reading reading = {.disk = snapshot->disk, .dir = options->dir, .each = base_record,
                                  .context = &base, .from_segment = base.place.segment, .is_live = true};
    status = log_read(&reading, error);
    bool has_all = status == TW_ENDED || (status == TW_OK && reading.current > options->until);
    if (has_all)
        status = base_end(&base, &reading, error);
    if (status == TW_OK && (!has_all || base.last_segment != options->until))
        status = tw_error_set(error, TW_INVALID,
                              "journal: %s/%08" PRIu32 ".log is not a full segment of a log that is whole up "
                              "to its end%s%s",
                              options->dir, options->until, reading.what != NULL ? ": " : "",
                              reading.what != NULL ? reading.what : "");
    log_reading_clear(&reading);
    snapshot->made_from = base.place.segment;
    snapshot->head.place = (struct tw_snapshot_place){options->until, base.last, base.last_crc};
    return status;
}

static tw_status create(struct tw_snapshot *snapshot, struct tw_error *error)
{
    const struct tw_journal_disk *disk = snapshot->disk;

    if (!snapshot_path_new(snapshot->dir, snapshot->head.place.segment, snapshot->path_new))
        return tw_error_set(error, TW_INVALID, "journal: the path of %s is too long", snapshot->dir);
    snapshot_leftovers_remove(snapshot->dir, disk);
    snapshot->bytes = malloc(SNAPSHOT_STEP_BYTES);
    if (snapshot->bytes == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "journal: no memory for a snapshot");
    snapshot->fd = disk->open(disk->context, snapshot->path_new, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    return snapshot->fd >= 0 ? TW_OK
                             : segment_io_error(error, snapshot->fd, "cannot create", snapshot->path_new);
}

tw_status tw_snapshot_begin(const struct tw_snapshot_options *options, struct tw_snapshot **ret_snapshot,
                            struct tw_error *error)
{
    struct segment_list list = {0};
    tw_status status = snapshot_list_read(options->dir, &list, error);
    bool is_there = false;
    for (uint32_t i = 0; i < list.count; i++)
        is_there |= list.numbers[i] == options->until;
    segment_list_clear(&list);
    if (status != TW_OK)
        return status;
    if (is_there)
        return tw_error_set(error, TW_EXISTS, "journal: there is a snapshot for %08" PRIu32 ".log already",
                            options->until);
    struct tw_snapshot *snapshot = calloc(1, sizeof(*snapshot));
    if (snapshot == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "journal: no memory for a snapshot");
    snapshot->disk = options->disk != NULL ? options->disk : disk_default();
    snapshot->fd = -1;
    (void)snprintf(snapshot->dir, sizeof(snapshot->dir), "%s", options->dir);
    status = read_until(options, snapshot, error);
    if (status == TW_OK)
        status = create(snapshot, error);
    if (status != TW_OK)
        tw_snapshot_drop(snapshot);
    else
        *ret_snapshot = snapshot;
    return status;
}

static void flush(struct tw_snapshot *snapshot)
{
    if (snapshot->result == 0)
        snapshot->result = disk_write_all(snapshot->disk, snapshot->fd, snapshot->bytes, snapshot->size,
                                          SNAPSHOT_HEADER_BYTES + snapshot->head.size);
    snapshot->head.crc = crc32c(snapshot->head.crc, snapshot->bytes, snapshot->size);
    snapshot->head.size += snapshot->size;
    snapshot->size = 0;
}

static void put(struct tw_snapshot *snapshot, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        size_t room = SNAPSHOT_STEP_BYTES - snapshot->size, part = size < room ? size : room;
        memcpy(snapshot->bytes + snapshot->size, bytes, part);
        snapshot->size += part;
        bytes += part;
        size -= part;
        if (snapshot->size == SNAPSHOT_STEP_BYTES)
            flush(snapshot);
    }
}

void tw_snapshot_put(struct tw_snapshot *snapshot, uint16_t type, const void *bytes, size_t size)
{
    uint8_t head[SNAPSHOT_FRAME_BYTES];
    snapshot_put32(head, type);
    snapshot_put32(head + 4, (uint32_t)size);
    put(snapshot, head, sizeof(head));
    put(snapshot, bytes, size);
    snapshot->head.records++;
}

/* The one it was made from stays, and whatever is newer; what lies between is older than this one and
 * could not be read, or was not needed. */
static void remove_older(const struct tw_snapshot *snapshot)
{
    struct segment_list list = {0};
    char path[SEGMENT_PATH_BYTES];
    if (snapshot_list_read(snapshot->dir, &list, NULL) != TW_OK)
        return;
    for (uint32_t i = 0; i < list.count; i++)
        if (list.numbers[i] < snapshot->head.place.segment && list.numbers[i] != snapshot->made_from &&
            snapshot_path(snapshot->dir, list.numbers[i], path))
            (void)snapshot->disk->unlink(snapshot->disk->context, path);
    segment_list_clear(&list);
}

tw_status tw_snapshot_finish(struct tw_snapshot *snapshot, uint64_t *ret_bytes, struct tw_error *error)
{
    const struct tw_journal_disk *disk = snapshot->disk;
    uint8_t head[SNAPSHOT_HEADER_BYTES];
    char path[SEGMENT_PATH_BYTES];

    flush(snapshot);
    tw_crash_point("journal.snapshot_half_written");
    snapshot_head_write(&snapshot->head, head);
    (void)snapshot_path(snapshot->dir, snapshot->head.place.segment, path); /* shorter than the new one's */
    if (snapshot->result == 0)
        snapshot->result = disk_write_all(disk, snapshot->fd, head, sizeof(head), 0);
    if (snapshot->result == 0)
        snapshot->result = disk->fdatasync(disk->context, snapshot->fd);
    tw_crash_point("journal.snapshot_synced");
    if (snapshot->result == 0)
        snapshot->result = disk->rename(disk->context, snapshot->path_new, path);
    if (snapshot->result == 0) {
        snapshot->path_new[0] = '\0';
        tw_crash_point("journal.snapshot_renamed");
        snapshot->result = disk->sync_directory(disk->context, snapshot->dir);
    }
    tw_status status = snapshot->result == 0
                           ? TW_OK
                           : segment_io_error(error, snapshot->result, "cannot write", path);
    if (status == TW_OK) {
        *ret_bytes = SNAPSHOT_HEADER_BYTES + snapshot->head.size;
        remove_older(snapshot);
    } else if (snapshot->path_new[0] == '\0') {
        (void)disk->unlink(disk->context, path); /* its name may be lost: it must not be counted on */
    }
    tw_snapshot_drop(snapshot);
    return status == TW_NOT_FOUND ? TW_IO : status;
}

void tw_snapshot_drop(struct tw_snapshot *snapshot)
{
    if (snapshot == NULL)
        return;
    if (snapshot->fd >= 0) {
        (void)snapshot->disk->close(snapshot->disk->context, snapshot->fd);
        if (snapshot->path_new[0] != '\0')
            (void)snapshot->disk->unlink(snapshot->disk->context, snapshot->path_new);
    }
    free(snapshot->bytes);
    free(snapshot);
}
