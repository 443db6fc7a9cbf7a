#include "journal_disk.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t disk_random(struct disk *disk, uint64_t below)
{
    disk->random ^= disk->random << 13;
    disk->random ^= disk->random >> 7;
    disk->random ^= disk->random << 17;
    return disk->random % below;
}

/* --- files ------------------------------------------------------------------------- */

static void real_path(const struct disk *disk, const char *name, char ret_path[128])
{
    (void)snprintf(ret_path, 128, "%s/%s", disk->dir, name);
}

static struct disk_file *file_named(struct disk *disk, const char *name)
{
    for (uint32_t i = 0; i < disk->file_count; i++)
        if (disk->files[i]->is_named && strcmp(disk->files[i]->name, name) == 0)
            return disk->files[i];
    return NULL;
}

static void file_free(struct disk_file *file)
{
    free(file->bytes);
    free(file->durable);
    free(file->is_dirty);
    free(file);
}

static void file_grow(struct disk_file *file, size_t size)
{
    if (size <= file->capacity)
        return;
    size_t capacity = file->capacity ? file->capacity : 8192;
    while (capacity < size)
        capacity *= 2;
    file->bytes = realloc(file->bytes, capacity);
    file->durable = realloc(file->durable, capacity);
    file->is_dirty = realloc(file->is_dirty, capacity / DISK_SECTOR_BYTES * sizeof(bool));
    cr_assert(file->bytes != NULL && file->durable != NULL && file->is_dirty != NULL);
    memset(file->bytes + file->capacity, 0, capacity - file->capacity);
    memset(file->durable + file->capacity, 0, capacity - file->capacity);
    memset(file->is_dirty + file->capacity / DISK_SECTOR_BYTES, 0,
           (capacity - file->capacity) / DISK_SECTOR_BYTES * sizeof(bool));
    file->capacity = capacity;
}

static struct disk_file *file_new(struct disk *disk, const char *name)
{
    struct disk_file *file = malloc(sizeof(*file)); /* not calloc(): tests let the journal's fail */
    cr_assert_not_null(file);
    *file = (struct disk_file){0};
    (void)snprintf(file->name, sizeof(file->name), "%s", name);
    disk->files = realloc(disk->files, (disk->file_count + 1) * sizeof(struct disk_file *));
    cr_assert_not_null(disk->files);
    disk->files[disk->file_count++] = file;
    file_grow(file, 1);
    return file;
}

static void forget_unnamed(struct disk *disk)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < disk->file_count; i++) {
        struct disk_file *file = disk->files[i];
        if (file->is_named || file->was_named)
            disk->files[kept++] = file;
        else
            file_free(file);
    }
    disk->file_count = kept;
}

static size_t sectors(size_t size)
{
    return (size + DISK_SECTOR_BYTES - 1) / DISK_SECTOR_BYTES;
}

/* One sector reaches the disk; torn: only its first bytes do. */
static void sector_persist(struct disk_file *file, size_t sector, size_t bytes)
{
    size_t at = sector * DISK_SECTOR_BYTES;

    memcpy(file->durable + at, file->bytes + at, bytes);
    if (file->durable_size < at + bytes)
        file->durable_size = at + bytes < file->size ? at + bytes : file->size;
}

/* What the kernel does by itself now and then. */
static void write_back_some(struct disk *disk, struct disk_file *file)
{
    for (size_t i = 0; i < sectors(file->size); i++) {
        if (file->is_dirty[i] && disk_random(disk, 2) == 0) {
            sector_persist(file, i, DISK_SECTOR_BYTES);
            file->is_dirty[i] = false;
        }
    }
}

/* --- calls ------------------------------------------------------------------------- */

/* 0, or how this call fails. */
static int call_begin(struct disk *disk)
{
    uint64_t call = ++disk->call_count;

    if (disk->cut_at != 0 && call >= disk->cut_at)
        return -EIO;
    if (disk->fail_at == 0 || call < disk->fail_at)
        return 0;
    return call == disk->fail_at || call <= disk->fail_to ? -disk->fail_errno : 0;
}

static bool is_cut(const struct disk *disk)
{
    return disk->cut_at != 0 && disk->call_count >= disk->cut_at;
}

static int call_open(void *context, const char *path, int flags, uint32_t mode)
{
    struct disk *disk = context;
    int failure = call_begin(disk);
    if (failure < 0)
        return failure;
    const char *name = strrchr(path, '/') + 1;
    bool is_file = strlen(path) > strlen(disk->dir);
    struct disk_file *file = is_file ? file_named(disk, name) : NULL;

    int fd = open(path, flags, (mode_t)mode);
    if (fd < 0)
        return -errno;
    cr_assert_lt(fd, DISK_FDS_MAX);
    if (is_file && file == NULL) {
        file = file_new(disk, name);
        file->is_named = true;
    }
    disk->file_of_fd[fd] = file;
    return fd;
}

static int call_close(void *context, int fd)
{
    struct disk *disk = context;

    disk->file_of_fd[fd] = NULL;
    return close(fd) != 0 ? -errno : 0;
}

static void file_write(struct disk_file *file, const void *bytes, size_t size, size_t offset)
{
    if (size == 0)
        return;
    file_grow(file, offset + size);
    memcpy(file->bytes + offset, bytes, size);
    if (file->size < offset + size)
        file->size = offset + size;
    for (size_t i = offset / DISK_SECTOR_BYTES; i < sectors(offset + size); i++)
        file->is_dirty[i] = true;
}

static int64_t call_pwrite(void *context, int fd, const void *bytes, size_t size, int64_t offset)
{
    struct disk *disk = context;
    struct disk_file *file = disk->file_of_fd[fd];
    size_t at = (size_t)offset;
    int failure = call_begin(disk);

    cr_assert_not_null(file);
    if (failure < 0) {
        if (!is_cut(disk) && failure != -ENOSPC)
            file_write(file, bytes, (size_t)disk_random(disk, size + 1), at);
        return failure;
    }
    if (disk->is_short && size > 1)
        size = 1 + (size_t)disk_random(disk, size);
    size_t growth = at + size > file->size ? at + size - file->size : 0;
    if (growth > disk->room_bytes && !disk->is_full_late) {
        size -= growth - (size_t)disk->room_bytes;
        growth = (size_t)disk->room_bytes;
        if (at + size <= at)
            return -ENOSPC;
    }
    disk->room_bytes -= growth < disk->room_bytes ? growth : disk->room_bytes;
    file_write(file, bytes, size, at);
    if (disk_random(disk, 8) == 0)
        write_back_some(disk, file);
    return (int64_t)size;
}

static int64_t call_pread(void *context, int fd, void *bytes, size_t size, int64_t offset)
{
    struct disk *disk = context;
    struct disk_file *file = disk->file_of_fd[fd];
    size_t at = (size_t)offset;
    int failure = call_begin(disk);

    if (failure < 0)
        return failure;
    cr_assert_not_null(file);
    if (at >= file->size)
        return 0;
    if (size > file->size - at)
        size = file->size - at;
    if (disk->is_short && size > 1)
        size = 1 + (size_t)disk_random(disk, size);
    memcpy(bytes, file->bytes + at, size);
    return (int64_t)size;
}

/* After a failure the kernel calls the pages clean, whether the disk got them or not. */
static int call_fdatasync(void *context, int fd)
{
    struct disk *disk = context;
    struct disk_file *file = disk->file_of_fd[fd];
    int failure = call_begin(disk);

    cr_assert_not_null(file);
    if (is_cut(disk))
        return failure;
    if (failure == 0 && disk->is_full_late && disk->room_bytes == 0 &&
        file->size > file->durable_size)
        failure = -ENOSPC;
    for (size_t i = 0; i < sectors(file->size); i++) {
        if (file->is_dirty[i] && (failure == 0 || disk_random(disk, 2) == 0))
            sector_persist(file, i, DISK_SECTOR_BYTES);
        file->is_dirty[i] = false;
    }
    if (failure == 0)
        file->durable_size = file->size;
    disk->synced_count++;
    return failure;
}

static int call_sync_directory(void *context, const char *path)
{
    struct disk *disk = context;
    int failure = call_begin(disk);
    if (failure < 0)
        return failure;
    if (strcmp(path, disk->dir) != 0)
        return 0; /* the parent's names are none of ours */
    for (uint32_t i = 0; i < disk->file_count; i++)
        disk->files[i]->was_named = disk->files[i]->is_named;
    forget_unnamed(disk);
    return 0;
}

/* The new name is a file of its own with the same bytes, so that after a power cut either is there, both,
 * or neither: no less than a file system may do. */
static int call_rename(void *context, const char *from, const char *to)
{
    struct disk *disk = context;
    int failure = call_begin(disk);
    if (failure < 0)
        return failure;
    struct disk_file *old = file_named(disk, strrchr(from, '/') + 1);
    struct disk_file *gone = file_named(disk, strrchr(to, '/') + 1);
    if (old == NULL)
        return -ENOENT;
    if (gone != NULL)
        gone->is_named = false;
    struct disk_file *file = file_new(disk, strrchr(to, '/') + 1);
    file_grow(file, old->size);
    memcpy(file->bytes, old->bytes, old->size);
    memcpy(file->durable, old->durable, old->size);
    memcpy(file->is_dirty, old->is_dirty, sectors(old->size) * sizeof(bool));
    file->size = old->size;
    file->durable_size = old->durable_size;
    file->is_named = true;
    old->is_named = false;
    return rename(from, to) != 0 ? -errno : 0;
}

static int call_unlink(void *context, const char *path)
{
    struct disk *disk = context;
    int failure = call_begin(disk);
    if (failure < 0)
        return failure;
    struct disk_file *file = file_named(disk, strrchr(path, '/') + 1);
    if (file == NULL)
        return -ENOENT;
    file->is_named = false;
    return unlink(path) != 0 ? -errno : 0;
}

static int64_t call_free_bytes(void *context, const char *path)
{
    const struct disk *disk = context;
    (void)path;
    return disk->room_bytes < INT64_MAX ? (int64_t)disk->room_bytes : INT64_MAX;
}

/* --- the disk ---------------------------------------------------------------------- */

void disk_init(struct disk *disk, uint64_t seed)
{
    *disk = (struct disk){.random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1,
                          .room_bytes = UINT64_MAX,
                          .dir = "/tmp/tradewake-journal-XXXXXX"};
    disk->calls = (struct tw_journal_disk){.context = disk,
                                           .open = call_open,
                                           .close = call_close,
                                           .pwrite = call_pwrite,
                                           .pread = call_pread,
                                           .fdatasync = call_fdatasync,
                                           .sync_directory = call_sync_directory,
                                           .rename = call_rename,
                                           .unlink = call_unlink,
                                           .free_bytes = call_free_bytes};
    cr_assert_not_null(mkdtemp(disk->dir));
}

void disk_clear(struct disk *disk)
{
    for (uint32_t i = 0; i < disk->file_count; i++) {
        char path[128];
        real_path(disk, disk->files[i]->name, path);
        (void)unlink(path);
        file_free(disk->files[i]);
    }
    free(disk->files);
    (void)rmdir(disk->dir);
}

void disk_heal(struct disk *disk)
{
    disk->call_count = disk->fail_at = disk->fail_to = disk->cut_at = 0;
    disk->is_short = disk->is_full_late = false;
    disk->room_bytes = UINT64_MAX;
}

static void file_power_cut(struct disk *disk, struct disk_file *file, enum disk_keeps keeps,
                           size_t lost_sector)
{
    size_t size = file->size;
    bool keeps_size =
        keeps == DISK_KEEPS_ALL_BUT_ONE || (keeps == DISK_KEEPS_SOME && disk_random(disk, 2) == 0);

    for (size_t i = 0; i < sectors(size); i++) {
        bool is_kept = keeps == DISK_KEEPS_ALL_BUT_ONE
                           ? i != lost_sector
                           : keeps == DISK_KEEPS_SOME && disk_random(disk, 2) == 0;
        bool is_torn = keeps == DISK_KEEPS_SOME && disk_random(disk, 8) == 0;
        if (file->is_dirty[i] && is_kept)
            sector_persist(file, i,
                           is_torn ? (size_t)disk_random(disk, DISK_SECTOR_BYTES)
                                   : DISK_SECTOR_BYTES);
        file->is_dirty[i] = false;
    }
    if (keeps_size && file->durable_size < size)
        file->durable_size = size;
    memcpy(file->bytes, file->durable, file->capacity);
    file->size = file->durable_size;
    /* Behind its end a file is zeros when it grows again. */
    memset(file->bytes + file->size, 0, file->capacity - file->size);
    memset(file->durable + file->size, 0, file->capacity - file->size);
}

/* A name that was made or removed since the directory was synced is there or not. */
static void names_power_cut(struct disk *disk, enum disk_keeps keeps)
{
    for (uint32_t i = 0; i < disk->file_count; i++) {
        struct disk_file *file = disk->files[i];
        bool takes_new = keeps == DISK_KEEPS_ALL_BUT_ONE ||
                         (keeps == DISK_KEEPS_SOME && disk_random(disk, 2) == 0);
        bool is_named = takes_new ? file->is_named : file->was_named;
        char path[128];

        for (uint32_t k = 0; k < i; k++) /* removed and made again: one of the two */
            if (disk->files[k]->is_named && strcmp(disk->files[k]->name, file->name) == 0)
                is_named = false;
        real_path(disk, file->name, path);
        if (is_named) {
            int fd = open(path, O_RDWR | O_CREAT, 0640);
            cr_assert_geq(fd, 0);
            (void)close(fd);
        }
        file->is_named = file->was_named = is_named;
    }
    for (uint32_t i = 0; i < disk->file_count; i++) {
        char path[128];
        real_path(disk, disk->files[i]->name, path);
        if (file_named(disk, disk->files[i]->name) == NULL)
            (void)unlink(path);
    }
    forget_unnamed(disk);
}

static size_t dirty_count(const struct disk_file *file)
{
    size_t count = 0;

    for (size_t i = 0; i < sectors(file->size); i++)
        count += file->is_dirty[i];
    return count;
}

void disk_power_cut(struct disk *disk, enum disk_keeps keeps)
{
    size_t dirty = 0;

    disk_heal(disk);
    for (uint32_t i = 0; i < disk->file_count; i++)
        dirty += dirty_count(disk->files[i]);
    size_t lost = dirty > 0 ? (size_t)disk_random(disk, dirty) : 0; /* which of the dirty ones */

    for (uint32_t i = 0; i < disk->file_count; i++) {
        struct disk_file *file = disk->files[i];
        size_t own = dirty_count(file);
        size_t lost_sector = SIZE_MAX;
        if (lost < own) {
            lost_sector = 0;
            for (size_t seen = 0;; lost_sector++)
                if (file->is_dirty[lost_sector] && seen++ == lost)
                    break;
        }
        lost -= own; /* wraps once it is found: larger than any count */
        file_power_cut(disk, file, keeps, lost_sector);
    }
    names_power_cut(disk, keeps);
}

struct disk_file *disk_segment(struct disk *disk, uint32_t number)
{
    char name[32];

    (void)snprintf(name, sizeof(name), "%08u.log", number);
    return file_named(disk, name);
}

struct disk_file *disk_snapshot(struct disk *disk, uint32_t number)
{
    char name[32];

    (void)snprintf(name, sizeof(name), "%08u.snapshot", number);
    return file_named(disk, name);
}

void disk_tamper(struct disk_file *file, size_t offset, const void *bytes, size_t size)
{
    file_write(file, bytes, size, offset);
    memcpy(file->durable, file->bytes, file->capacity);
    file->durable_size = file->size;
    memset(file->is_dirty, 0, file->capacity / DISK_SECTOR_BYTES * sizeof(bool));
}

void disk_truncate(struct disk_file *file, size_t size)
{
    memset(file->bytes + size, 0, file->capacity - size);
    file->size = size;
    disk_tamper(file, 0, NULL, 0);
}

void disk_remove(struct disk *disk, uint32_t number)
{
    struct disk_file *file = disk_segment(disk, number);
    char path[128];

    cr_assert_not_null(file);
    real_path(disk, file->name, path);
    (void)unlink(path);
    file->is_named = file->was_named = false;
    forget_unnamed(disk);
}
