#include "segment.h"

#include <tradewake/journal/journal.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int disk_open(void *context, const char *path, int flags, uint32_t mode)
{
    (void)context;
    int fd = open(path, flags, (mode_t)mode);
    return fd < 0 ? -errno : fd;
}

static int disk_close(void *context, int fd)
{
    (void)context;
    return close(fd) != 0 ? -errno : 0;
}

static int64_t disk_pwrite(void *context, int fd, const void *bytes, size_t size, int64_t offset)
{
    (void)context;
    ssize_t n = pwrite(fd, bytes, size, offset);
    return n < 0 ? -errno : n;
}

static int64_t disk_pread(void *context, int fd, void *bytes, size_t size, int64_t offset)
{
    (void)context;
    ssize_t n = pread(fd, bytes, size, offset);
    return n < 0 ? -errno : n;
}

static int disk_fdatasync(void *context, int fd)
{
    (void)context;
    return fdatasync(fd) != 0 ? -errno : 0;
}

static int disk_sync_directory(void *context, const char *path)
{
    (void)context;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int result = fsync(fd) != 0 ? -errno : 0;
    (void)close(fd);
    return result;
}

static int disk_rename(void *context, const char *from, const char *to)
{
    (void)context;
    return rename(from, to) != 0 ? -errno : 0;
}

static int disk_unlink(void *context, const char *path)
{
    (void)context;
    return unlink(path) != 0 ? -errno : 0;
}

static int64_t disk_free_bytes(void *context, const char *path)
{
    (void)context;
    struct statvfs about;
    if (statvfs(path, &about) != 0)
        return -errno;
    uint64_t bytes;
    if (__builtin_mul_overflow((uint64_t)about.f_bavail, (uint64_t)about.f_frsize, &bytes) || bytes > INT64_MAX)
        return INT64_MAX;
    return (int64_t)bytes;
}

const struct tw_journal_disk *tw_journal_disk_real(void)
{
    static const struct tw_journal_disk real = {
        .open = disk_open,
        .close = disk_close,
        .pwrite = disk_pwrite,
        .pread = disk_pread,
        .fdatasync = disk_fdatasync,
        .sync_directory = disk_sync_directory,
        .rename = disk_rename,
        .unlink = disk_unlink,
        .free_bytes = disk_free_bytes,
    };
    return &real;
}

/* In two steps, because ThreadSanitizer sees the closing of a directory but only this way its opening. */
DIR *directory_open(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *opened = fd >= 0 ? fdopendir(fd) : NULL;

    if (opened == NULL && fd >= 0) {
        int failed = errno;
        (void)close(fd);
        errno = failed;
    }
    return opened;
}
