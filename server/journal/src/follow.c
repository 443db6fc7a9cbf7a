#include <tradewake/journal/follow.h>

#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_BYTES (1024u * 1024u)

struct tw_journal_follow {
    const struct tw_journal_disk *disk;
    char dir[SEGMENT_PATH_BYTES];

    int fd; /* of the segment being read; -1: none is open */
    uint32_t number, salt;
    uint64_t next;   /* sequence of the record at `offset` */
    uint64_t offset; /* in the segment */

    /* A part of the segment in memory; a window, because the rest is often not written yet. */
    uint8_t *window;
    size_t window_room, window_size;
    uint64_t window_offset;
};

static void segment_close(struct tw_journal_follow *follow)
{
    if (follow->fd >= 0)
        (void)follow->disk->close(follow->disk->context, follow->fd);
    follow->fd = -1;
    follow->window_size = 0;
}

static tw_status read_at(const struct tw_journal_follow *follow, void *bytes, size_t size, uint64_t offset,
                         size_t *ret_size, struct tw_error *error)
{
    size_t have = 0;
    while (have < size) {
        int64_t n = follow->disk->pread(follow->disk->context, follow->fd, (uint8_t *)bytes + have, size - have,
                                        (int64_t)(offset + have));
        if (n == -EINTR)
            continue;
        if (n < 0)
            return segment_io_error(error, (int)n, "cannot read the log in", follow->dir);
        if (n == 0)
            break;
        have += (size_t)n;
    }
    *ret_size = have;
    return TW_OK;
}

/* TW_ENDED: it is not begun. */
static tw_status segment_open(struct tw_journal_follow *follow, uint32_t number, struct segment_header *ret_header,
                              struct tw_error *error)
{
    char path[SEGMENT_PATH_BYTES];
    uint8_t bytes[SEGMENT_HEADER_BYTES];
    size_t size = 0;
    segment_close(follow);
    if (!segment_path(follow->dir, number, path))
        return tw_error_set(error, TW_INVALID, "journal: the path of %s is too long", follow->dir);
    int fd = follow->disk->open(follow->disk->context, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return segment_io_error(error, fd, "cannot open", path);
    follow->fd = fd;
    tw_status status = read_at(follow, bytes, sizeof bytes, 0, &size, error);
    if (status != TW_OK)
        return status;
    enum found found = segment_header_read(bytes, size, ret_header);
    if (found == FOUND_ZEROS || size < sizeof bytes)
        return TW_ENDED;
    if (found != FOUND_GOOD || ret_header->segment != number)
        return tw_error_set(error, TW_INVALID, "journal: %s: %s", path, found_words(found != FOUND_GOOD ? found : FOUND_CHAIN));
    follow->number = number;
    follow->salt = ret_header->salt;
    follow->offset = SEGMENT_HEADER_BYTES;
    return TW_OK;
}

/* The newest segment that begins at or before `wanted`; the oldest where none does. */
static tw_status segment_seek(struct tw_journal_follow *follow, uint64_t wanted, struct tw_error *error)
{
    struct segment_list list = {0};
    struct segment_header header = {0};
    bool is_any = false;
    tw_status status = segment_list_read(follow->dir, &list, error);
    for (uint32_t i = list.count; status == TW_OK && i-- > 0;) {
        tw_status opened = segment_open(follow, list.numbers[i], &header, error);
        if (opened == TW_ENDED)
            continue;
        if (opened == TW_NOT_FOUND && is_any) { /* removed since it was listed: the one before it is the oldest */
            status = segment_open(follow, list.numbers[i + 1], &header, error);
            break;
        }
        status = opened;
        is_any = true;
        if (header.first_sequence <= wanted)
            break;
    }
    segment_list_clear(&list);
    if (status != TW_OK)
        return status;
    if (!is_any)
        return tw_error_set(error, TW_NOT_FOUND, "journal: there is no log in %s", follow->dir);
    follow->next = header.first_sequence;
    return TW_OK;
}

/* At least the record at `offset` whole, as far as the file goes. */
static tw_status window_move(struct tw_journal_follow *follow, size_t size_min, struct tw_error *error)
{
    size_t room = size_min > WINDOW_BYTES ? size_min : WINDOW_BYTES;
    if (room > follow->window_room) {
        uint8_t *grown = realloc(follow->window, room);
        if (grown == NULL)
            return tw_error_set(error, TW_NO_MEMORY, "journal: no memory to read a record of %zu bytes", size_min);
        follow->window = grown;
        follow->window_room = room;
    }
    follow->window_offset = follow->offset;
    return read_at(follow, follow->window, room, follow->offset, &follow->window_size, error);
}

static enum found window_read(const struct tw_journal_follow *follow, struct record *ret_record)
{
    uint64_t skip = follow->offset - follow->window_offset;
    if (follow->window_size < skip)
        return FOUND_CUT;
    return record_read(follow->window + skip, follow->window_size - (size_t)skip, follow->salt, ret_record);
}

/* The record at `offset`; FOUND_ZEROS or FOUND_CUT where the segment's records end. */
static tw_status record_here(struct tw_journal_follow *follow, struct record *ret_record, enum found *ret_found,
                             struct tw_error *error)
{
    *ret_record = (struct record){0};
    *ret_found = window_read(follow, ret_record);
    if (*ret_found == FOUND_GOOD)
        return TW_OK;
    /* Old bytes, or too few: once more with what is there now. */
    tw_status status = window_move(follow, RECORD_HEADER_BYTES, error);
    if (status != TW_OK)
        return status;
    *ret_found = window_read(follow, ret_record);
    size_t total = record_total_bytes(ret_record->size);
    if (*ret_found == FOUND_CUT && follow->window_size >= RECORD_HEADER_BYTES && total > follow->window_size &&
        ret_record->size <= TW_JOURNAL_RECORD_BYTES_MAX) {
        status = window_move(follow, total, error);
        if (status == TW_OK)
            *ret_found = window_read(follow, ret_record);
    }
    return status;
}

static tw_status damage(const struct tw_journal_follow *follow, const char *what, struct tw_error *error)
{
    return tw_error_set(error, TW_INVALID, "journal: %s, segment %u at %llu, sequence %llu: %s", follow->dir,
                        follow->number, (unsigned long long)follow->offset, (unsigned long long)follow->next, what);
}

/* Calls each() with the next record, if that is wanted yet, and moves behind it. */
static tw_status step(struct tw_journal_follow *follow, tw_journal_follow_fn *each, void *context,
                      struct tw_error *error)
{
    struct record record;
    enum found found;
    tw_status status = record_here(follow, &record, &found, error);
    if (status != TW_OK)
        return status;
    if (found != FOUND_GOOD) { /* the rest is in the next one */
        struct segment_header header;
        uint32_t before = follow->number;
        uint64_t offset = follow->offset;
        status = segment_open(follow, before + 1, &header, error);
        if (status == TW_OK && header.first_sequence == follow->next)
            return TW_OK;
        follow->number = before;
        follow->offset = offset;
        segment_close(follow);
        if (status == TW_IO || status == TW_NO_MEMORY)
            return status;
        return damage(follow, found_words(found), error);
    }
    if (record.sequence != follow->next || record.segment != follow->number)
        return damage(follow, found_words(FOUND_CHAIN), error);
    if (each != NULL) {
        const struct tw_journal_seen seen = {
            .sequence = record.sequence,
            .type = record.type,
            .crc = record.crc,
            .bytes = follow->window + (follow->offset - follow->window_offset) + RECORD_HEADER_BYTES,
            .size = record.size};
        status = each(context, &seen, error);
        if (status != TW_OK)
            return status;
    }
    follow->offset += record_total_bytes(record.size);
    follow->next++;
    return TW_OK;
}

tw_status tw_journal_follow_read(struct tw_journal_follow *follow, uint64_t until, tw_journal_follow_fn *each,
                                 void *context, struct tw_error *error)
{
    tw_status status = TW_OK;
    if (follow->fd < 0) { /* after a failure */
        uint64_t next = follow->next;
        status = segment_seek(follow, next, error);
        if (status == TW_OK && follow->next > next)
            status = tw_error_set(error, TW_NOT_FOUND, "journal: %s begins at %llu, wanted %llu", follow->dir,
                                  (unsigned long long)follow->next, (unsigned long long)next);
        while (status == TW_OK && follow->next < next)
            status = step(follow, NULL, NULL, error);
        if (status != TW_OK) {
            segment_close(follow);
            follow->next = next;
            return status;
        }
    }
    while (status == TW_OK && follow->next <= until)
        status = step(follow, each, context, error);
    return status;
}

tw_status tw_journal_follow_open(const char *dir, uint64_t after, struct tw_journal_follow **ret_follow,
                                 uint64_t *ret_next, struct tw_error *error)
{
    struct tw_journal_follow *follow = calloc(1, sizeof *follow);
    if (follow == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "journal: no memory to follow %s", dir);
    follow->fd = -1;
    follow->disk = tw_journal_disk_real();
    tw_status status = TW_OK;
    if (strlen(dir) >= sizeof follow->dir)
        status = tw_error_set(error, TW_INVALID, "journal: the path of %s is too long", dir);
    else
        memcpy(follow->dir, dir, strlen(dir) + 1);
    if (status == TW_OK)
        status = segment_seek(follow, after + 1, error);
    while (status == TW_OK && follow->next <= after)
        status = step(follow, NULL, NULL, error);
    if (status != TW_OK) {
        tw_journal_follow_close(follow);
        return status;
    }
    *ret_next = follow->next;
    *ret_follow = follow;
    return TW_OK;
}

void tw_journal_follow_close(struct tw_journal_follow *follow)
{
    if (follow == NULL)
        return;
    segment_close(follow);
    free(follow->window);
    free(follow);
}
