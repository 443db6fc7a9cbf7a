#include "segment.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_STEP_BYTES    (1024u * 1024u)
#define IMAGE_BYTES_FIRST  (64u * 1024u)
#define NAME_DIGITS        8u
#define SEGMENT_NUMBER_MAX 99999999u

tw_status segment_io_error(struct tw_error *error, int result, const char *what, const char *path)
{
    switch (-result) {
    case ENOSPC:
    case EDQUOT:
        return tw_error_set(error, TW_IO,
                            "journal: %s %s: the disk is full (%s): make room and start again",
                            what, path, strerror(-result));
    case EROFS:
    case EACCES:
    case EPERM:
        return tw_error_set(
            error, TW_IO,
            "journal: %s %s: not allowed (%s): the directory must be on a writable disk "
            "and belong to the user that runs the server",
            what, path, strerror(-result));
    case ENOENT:
        return tw_error_set(error, TW_NOT_FOUND, "journal: %s %s: %s", what, path,
                            strerror(-result));
    default:
        return tw_error_set(error, TW_IO, "journal: %s %s: %s", what, path, strerror(-result));
    }
}

const char *found_words(enum found found)
{
    static const char *const words[] = {
        [FOUND_GOOD] = "a good record",
        [FOUND_ZEROS] = "nothing",
        [FOUND_HOLE] = "a hole: zeros where a record should be, and more behind them",
        [FOUND_HEADER] = "a record header that does not match its checksum",
        [FOUND_BYTES] = "a record whose bytes do not match their checksum",
        [FOUND_CUT] = "a record that goes on behind the end of the file",
        [FOUND_CHAIN] = "a record that does not follow the one before it",
        [FOUND_VERSION] = "a record of another version",
    };
    return words[found];
}

bool segment_path(const char *dir, uint32_t number, char ret_path[SEGMENT_PATH_BYTES])
{
    int n = snprintf(ret_path, SEGMENT_PATH_BYTES, "%s/%08u.log", dir, number);
    return n > 0 && (size_t)n < SEGMENT_PATH_BYTES;
}

/* 0 for a name of another kind. */
static uint32_t number_of_name(const char *name, const char *suffix)
{
    uint32_t number = 0;

    for (unsigned i = 0; i < NAME_DIGITS; i++) {
        if (!isdigit((unsigned char)name[i]))
            return 0;
        number = number * 10 + (uint32_t)(name[i] - '0');
    }
    return strcmp(name + NAME_DIGITS, suffix) == 0 ? number : 0;
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

tw_status segment_list_read(const char *dir, struct segment_list *ret_list, struct tw_error *error)
{
    return numbered_list_read(dir, ".log", ret_list, error);
}

tw_status numbered_list_read(const char *dir, const char *suffix, struct segment_list *ret_list,
                             struct tw_error *error)
{
    struct segment_list list = {0};
    uint32_t capacity = 0;
    DIR *open_dir = directory_open(dir);
    if (open_dir == NULL)
        return segment_io_error(error, -errno, "cannot list", dir);

    tw_status status = TW_OK;
    struct dirent *entry;
    while (errno = 0, (entry = readdir(open_dir)) != NULL) {
        uint32_t number = number_of_name(entry->d_name, suffix);
        if (number == 0)
            continue;
        if (list.count == capacity) {
            capacity = capacity ? capacity * 2 : 64;
            uint32_t *grown = realloc(list.numbers, capacity * sizeof(*grown));
            if (grown == NULL) {
                status = tw_error_set(error, TW_NO_MEMORY, "journal: no memory for %u segments",
                                      capacity);
                goto done;
            }
            list.numbers = grown;
        }
        list.numbers[list.count++] = number;
    }
    if (errno != 0) {
        status = segment_io_error(error, -errno, "cannot list", dir);
        goto done;
    }
    if (list.count > 0)
        qsort(list.numbers, list.count, sizeof(*list.numbers), compare_numbers);
    *ret_list = list;
    list = (struct segment_list){0};

done:
    (void)closedir(open_dir);
    segment_list_clear(&list);
    return status;
}

void segment_list_clear(struct segment_list *list)
{
    free(list->numbers);
    *list = (struct segment_list){0};
}

uint32_t segment_list_missing(const struct segment_list *list)
{
    for (uint32_t i = 1; i < list->count; i++)
        if (list->numbers[i] != list->numbers[i - 1] + 1)
            return list->numbers[i - 1] + 1;
    return 0;
}

static bool image_grow(struct segment_image *image)
{
    size_t capacity = image->capacity ? image->capacity * 2 : IMAGE_BYTES_FIRST;
    uint8_t *grown = realloc(image->bytes, capacity);
    if (grown == NULL)
        return false;
    image->bytes = grown;
    image->capacity = capacity;
    return true;
}

/* Up to the end of the file, in whatever pieces the disk gives. */
static tw_status image_read(struct segment_image *image, const struct tw_journal_disk *disk, int fd,
                            const char *path, struct tw_error *error)
{
    for (;;) {
        if (image->size == image->capacity && !image_grow(image))
            return tw_error_set(error, TW_NO_MEMORY, "journal: no memory to read %s", path);
        if (image->size > SEGMENT_BYTES_MAX)
            return tw_error_set(error, TW_INVALID, "journal: %s is larger than any segment", path);

        size_t room = image->capacity - image->size;
        int64_t n =
            disk->pread(disk->context, fd, image->bytes + image->size,
                        room < READ_STEP_BYTES ? room : READ_STEP_BYTES, (int64_t)image->size);
        if (n == -EINTR)
            continue;
        if (n < 0)
            return segment_io_error(error, (int)n, "cannot read", path);
        if (n == 0)
            return TW_OK;
        image->size += (size_t)n;
    }
}

tw_status segment_image_load(struct segment_image *image, const struct tw_journal_disk *disk,
                             const char *dir, uint32_t number, struct tw_error *error)
{
    char path[SEGMENT_PATH_BYTES];
    if (!segment_path(dir, number, path))
        return tw_error_set(error, TW_INVALID, "journal: the path of %s is too long", dir);

    int fd = disk->open(disk->context, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return segment_io_error(error, fd, "cannot open", path);
    image->size = 0;
    image->number = number;
    tw_status status = image_read(image, disk, fd, path, error);
    (void)disk->close(disk->context, fd);
    return status;
}

void segment_image_clear(struct segment_image *image)
{
    free(image->bytes);
    *image = (struct segment_image){0};
}

/* The header of the oldest segment says where the log begins; every later one is known beforehand.
 */
static enum found header_follow(const struct segment_image *image, struct segment_chain *chain,
                                struct segment_end *end)
{
    struct segment_header header = {0};
    enum found found = segment_header_read(image->bytes, image->size, &header);

    end->version = header.version;
    if (found != FOUND_GOOD)
        return found;
    if (header.segment != image->number || header.first_sequence == 0)
        return FOUND_CHAIN;
    if (chain->is_known &&
        (header.salt != chain->salt || header.first_sequence != chain->sequence_next ||
         header.previous_crc != chain->previous_crc))
        return FOUND_CHAIN;

    chain->is_known = true;
    chain->salt = header.salt;
    chain->sequence_next = header.first_sequence;
    chain->previous_crc = header.previous_crc;
    if (chain->claimed < header.first_sequence - 1)
        chain->claimed = header.first_sequence - 1;
    return FOUND_GOOD;
}

static bool record_follows(const struct record *record, const struct segment_chain *chain,
                           uint32_t segment)
{
    return record->segment == segment && record->sequence == chain->sequence_next &&
           record->previous_crc == chain->previous_crc;
}

tw_status segment_read(const struct segment_image *image, struct segment_chain *chain,
                       const struct segment_read_options *options, struct segment_end *ret_end,
                       struct tw_error *error)
{
    *ret_end = (struct segment_end){.offset = options->from, .is_begun = options->from > 0};
    if (!ret_end->is_begun) {
        ret_end->found = header_follow(image, chain, ret_end);
        if (ret_end->found != FOUND_GOOD)
            return TW_OK;
        ret_end->is_begun = true;
        ret_end->offset = SEGMENT_HEADER_BYTES;
    }

    for (;;) {
        struct record record = {0};
        const uint8_t *at = image->bytes + ret_end->offset;
        ret_end->found =
            record_read(at, image->size - (size_t)ret_end->offset, chain->salt, &record);
        ret_end->version = record.version;
        if (ret_end->found == FOUND_GOOD && !record_follows(&record, chain, image->number))
            ret_end->found = FOUND_CHAIN;
        if (ret_end->found != FOUND_GOOD)
            return TW_OK;

        if (options->each != NULL) {
            tw_status status = options->each(options->context, &record, ret_end->offset,
                                             at + RECORD_HEADER_BYTES, error);
            if (status != TW_OK)
                return status;
        }
        ret_end->offset += record_total_bytes(record.size);
        chain->sequence_next = record.sequence + 1;
        chain->previous_crc = record.crc;
        if (chain->claimed < record.durable)
            chain->claimed = record.durable;
    }
}

uint64_t segment_claims(const struct segment_image *image, uint32_t salt, uint64_t offset,
                        uint32_t *ret_records)
{
    uint64_t claimed = 0;

    *ret_records = 0;
    while (offset + RECORD_HEADER_BYTES <= image->size) {
        struct record record = {0};
        if (is_all_zero(image->bytes + offset, RECORD_ALIGN)) { /* a hole is long: word by word */
            offset += RECORD_ALIGN;
            continue;
        }
        enum found found =
            record_read(image->bytes + offset, image->size - (size_t)offset, salt, &record);
        if (found != FOUND_GOOD || record.segment != image->number) {
            offset += RECORD_ALIGN;
            continue;
        }
        if (claimed < record.durable)
            claimed = record.durable;
        ++*ret_records;
        offset += record_total_bytes(record.size);
    }
    return claimed;
}
