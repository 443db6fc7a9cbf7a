#include "snapshot_file.h"

#include "crc32c.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC "TWSNAPSH"

bool snapshot_path(const char *dir, uint32_t segment, char ret_path[SEGMENT_PATH_BYTES])
{
    int n = snprintf(ret_path, SEGMENT_PATH_BYTES, "%s/%08u.snapshot", dir, segment);
    return n > 0 && (size_t)n < SEGMENT_PATH_BYTES;
}

/* Every process has its own, so that two do not write into one file. */
bool snapshot_path_new(const char *dir, uint32_t segment, char ret_path[SEGMENT_PATH_BYTES])
{
    int n = snprintf(ret_path, SEGMENT_PATH_BYTES, "%s/%08u.snapshot.%ld", dir, segment, (long)getpid());
    return n > 0 && (size_t)n < SEGMENT_PATH_BYTES;
}

tw_status snapshot_list_read(const char *dir, struct segment_list *ret_list, struct tw_error *error)
{
    return numbered_list_read(dir, ".snapshot", ret_list, error);
}

void snapshot_leftovers_remove(const char *dir, const struct tw_journal_disk *disk)
{
    static const char mark[] = ".snapshot.";
    DIR *open_dir = directory_open(dir);
    struct dirent *entry;
    char path[SEGMENT_PATH_BYTES];

    while (open_dir != NULL && (entry = readdir(open_dir)) != NULL) {
        if (strlen(entry->d_name) < 8 || strncmp(entry->d_name + 8, mark, sizeof(mark) - 1) != 0)
            continue;
        int n = snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        if (n > 0 && (size_t)n < sizeof(path))
            (void)disk->unlink(disk->context, path);
    }
    if (open_dir != NULL)
        (void)closedir(open_dir);
}

/* ---- Numbers ---- */

void snapshot_put32(uint8_t *at, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static void put64(uint8_t *at, uint64_t value)
{
    snapshot_put32(at, (uint32_t)value);
    snapshot_put32(at + 4, (uint32_t)(value >> 32));
}

static uint32_t get32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint64_t get64(const uint8_t *at)
{
    return (uint64_t)get32(at) | (uint64_t)get32(at + 4) << 32;
}

void snapshot_head_write(const struct snapshot_head *head, uint8_t out[SNAPSHOT_HEADER_BYTES])
{
    memset(out, 0, SNAPSHOT_HEADER_BYTES);
    memcpy(out, MAGIC, 8);
    snapshot_put32(out + 8, SNAPSHOT_VERSION);
    snapshot_put32(out + 12, head->place.segment);
    put64(out + 16, head->place.sequence);
    snapshot_put32(out + 24, head->place.crc);
    put64(out + 32, head->size);
    put64(out + 40, head->records);
    snapshot_put32(out + 48, head->crc);
    snapshot_put32(out + 60, crc32c(0, out, 60));
}

static bool head_read(const uint8_t bytes[SNAPSHOT_HEADER_BYTES], struct snapshot_head *ret)
{
    *ret = (struct snapshot_head){
        .version = get32(bytes + 8),
        .place = {.segment = get32(bytes + 12), .sequence = get64(bytes + 16), .crc = get32(bytes + 24)},
        .size = get64(bytes + 32),
        .records = get64(bytes + 40),
        .crc = get32(bytes + 48),
    };
    return memcmp(bytes, MAGIC, 8) == 0 && get32(bytes + 60) == crc32c(0, bytes, 60);
}

/* ---- Reading ---- */

struct reader {
    const struct tw_journal_disk *disk;
    const char *path;
    int fd;
    uint8_t *bytes;         /* of the file from `offset` on */
    size_t size, at, room;  /* there are so many; handed out; there is room for */
    uint64_t offset;
};

/* The next `size` bytes; NULL: the file ends before, or *ret_status says what failed. */
static const uint8_t *reader_take(struct reader *reader, size_t size, tw_status *ret_status,
                                  struct tw_error *error)
{
    if (reader->at > 0 && (reader->at + size > reader->room || reader->at == reader->size)) {
        memmove(reader->bytes, reader->bytes + reader->at, reader->size - reader->at);
        reader->offset += reader->at;
        reader->size -= reader->at;
        reader->at = 0;
    }
    if (size > reader->room) {
        uint8_t *grown = realloc(reader->bytes, size + SNAPSHOT_STEP_BYTES);
        if (grown == NULL) {
            *ret_status = tw_error_set(error, TW_NO_MEMORY, "journal: no memory to read %s", reader->path);
            return NULL;
        }
        reader->bytes = grown;
        reader->room = size + SNAPSHOT_STEP_BYTES;
    }
    while (reader->size - reader->at < size) {
        int64_t n = reader->disk->pread(reader->disk->context, reader->fd, reader->bytes + reader->size,
                                        reader->room - reader->size, (int64_t)(reader->offset + reader->size));
        if (n == -EINTR)
            continue;
        if (n < 0)
            *ret_status = segment_io_error(error, (int)n, "cannot read", reader->path);
        if (n <= 0)
            return NULL;
        reader->size += (size_t)n;
    }
    const uint8_t *taken = reader->bytes + reader->at;
    reader->at += size;
    return taken;
}

static tw_status not_whole(struct tw_error *error, const char *path, const char *how)
{
    return tw_error_set(error, TW_INVALID, "%s is damaged: %s", path, how);
}

static tw_status check_head(struct reader *reader, uint32_t segment, struct snapshot_head *ret,
                            struct tw_error *error)
{
    tw_status status = TW_OK;
    const uint8_t *bytes = reader_take(reader, SNAPSHOT_HEADER_BYTES, &status, error);
    if (bytes == NULL)
        return status != TW_OK ? status : not_whole(error, reader->path, "it ends in its header");
    if (!head_read(bytes, ret))
        return not_whole(error, reader->path, "a header that does not match its checksum");
    if (ret->version != SNAPSHOT_VERSION)
        return tw_error_set(error, TW_INVALID, "%s is of version %" PRIu32 ", expected %u", reader->path,
                            ret->version, SNAPSHOT_VERSION);
    if (ret->place.segment != segment || ret->place.sequence == 0)
        return not_whole(error, reader->path, "it is called as another one");
    return TW_OK;
}

/* Every byte, before any of it is believed. */
static tw_status check_body(struct reader *reader, const struct snapshot_head *head, struct tw_error *error)
{
    uint32_t crc = 0;
    tw_status status = TW_OK;

    for (uint64_t left = head->size; left > 0;) {
        size_t size = left < SNAPSHOT_STEP_BYTES ? (size_t)left : SNAPSHOT_STEP_BYTES;
        const uint8_t *bytes = reader_take(reader, size, &status, error);
        if (bytes == NULL)
            return status != TW_OK ? status : not_whole(error, reader->path, "it ends too early");
        crc = crc32c(crc, bytes, size);
        left -= size;
    }
    return crc == head->crc ? TW_OK : not_whole(error, reader->path, "its bytes do not match their checksum");
}

static tw_status hand_out(struct reader *reader, const struct snapshot_head *head, tw_journal_replay_fn *each,
                          void *context, struct tw_error *error)
{
    tw_status status = TW_OK;

    reader->offset = SNAPSHOT_HEADER_BYTES;
    reader->size = reader->at = 0;
    for (uint64_t i = 0; i < head->records && status == TW_OK; i++) {
        const uint8_t *bytes = reader_take(reader, SNAPSHOT_FRAME_BYTES, &status, error);
        uint32_t size = bytes != NULL ? get32(bytes + 4) : 0;
        uint16_t type = bytes != NULL ? (uint16_t)get32(bytes) : 0;
        if (bytes != NULL)
            bytes = reader_take(reader, size, &status, error);
        if (bytes == NULL)
            return status != TW_OK ? status
                                   : tw_error_set(error, TW_IO, "journal: %s has changed while it was read",
                                                  reader->path);
        status = each(context, head->place.sequence, type, bytes, size, error);
    }
    return status;
}

tw_status tw_snapshot_read(const char *dir, const struct tw_journal_disk *disk, uint32_t segment,
                           tw_journal_replay_fn *each, void *context,
                           struct tw_snapshot_place *ret_place, struct tw_error *error)
{
    char path[SEGMENT_PATH_BYTES];
    struct snapshot_head head = {0};
    if (!snapshot_path(dir, segment, path))
        return tw_error_set(error, TW_INVALID, "journal: the path of %s is too long", dir);
    struct reader reader = {.disk = disk != NULL ? disk : tw_journal_disk_real(), .path = path};

    reader.fd = reader.disk->open(reader.disk->context, path, O_RDONLY | O_CLOEXEC, 0);
    if (reader.fd < 0)
        return segment_io_error(error, reader.fd, "cannot open", path);
    tw_status status = check_head(&reader, segment, &head, error);
    if (status == TW_OK)
        status = check_body(&reader, &head, error);
    if (status == TW_OK) {
        *ret_place = head.place;
        status = hand_out(&reader, &head, each, context, error);
    }
    free(reader.bytes);
    (void)reader.disk->close(reader.disk->context, reader.fd);
    return status;
}

tw_status tw_snapshot_newest(const char *dir, uint32_t ret_segments[2], struct tw_error *error)
{
    struct segment_list list = {0};
    tw_status status = snapshot_list_read(dir, &list, error);

    ret_segments[0] = list.count > 0 ? list.numbers[list.count - 1] : 0;
    ret_segments[1] = list.count > 1 ? list.numbers[list.count - 2] : 0;
    segment_list_clear(&list);
    return status;
}
