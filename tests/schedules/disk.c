/* disk.c - the journal's disk, in the world: what was written survives a kill, what was synced a power cut. */
#include "world.h"

#include <tradewake/journal/journal.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

enum { IS_DIRECTORY = -1, IS_FREE = -2 };

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static struct file *file_named(const char *name)
{
    for (int i = 0; i < FILES_MAX; i++)
        if (world->files[i].is_used && strcmp(world->files[i].name, name) == 0)
            return &world->files[i];
    return NULL;
}

static struct file *file_new(const char *name)
{
    for (int i = 0; i < FILES_MAX; i++) {
        struct file *file = &world->files[i];
        if (file->is_used)
            continue;
        memset(file->bytes, 0, file->touched);
        memset(file->durable, 0, file->touched);
        memset(file->is_dirty, 0, sizeof file->is_dirty);
        file->is_used = true;
        file->size = file->durable_size = file->touched = 0;
        snprintf(file->name, sizeof file->name, "%s", name);
        file->durable_name[0] = '\0';
        return file;
    }
    violation("the simulated disk has no room for another file");
}

static void files_drop_nameless(void)
{
    for (int i = 0; i < FILES_MAX; i++) {
        struct file *file = &world->files[i];
        bool is_open = false;
        for (int fd = 0; fd < FDS_MAX; fd++)
            is_open |= world->file_of_fd[fd] == i;
        if (file->name[0] == '\0' && file->durable_name[0] == '\0' && !is_open)
            file->is_used = false;
    }
}

static struct file *file_of(int fd)
{
    if (fd < 0 || fd >= FDS_MAX || world->file_of_fd[fd] < 0)
        violation("the journal uses a descriptor that is not open");
    return &world->files[world->file_of_fd[fd]];
}

static int call_open(void *context, const char *path, int flags, uint32_t mode)
{
    (void)context;
    (void)mode;
    crash_point();
    int8_t index = IS_DIRECTORY;
    if ((flags & O_DIRECTORY) == 0) {
        struct file *file = file_named(base_name(path));
        if (file == NULL && (flags & O_CREAT) == 0)
            return -ENOENT;
        if (file == NULL)
            file = file_new(base_name(path));
        index = (int8_t)(file - world->files);
    }
    for (int fd = 0; fd < FDS_MAX; fd++)
        if (world->file_of_fd[fd] == IS_FREE) {
            world->file_of_fd[fd] = index;
            crash_point();
            return fd;
        }
    return -EMFILE;
}

static int call_close(void *context, int fd)
{
    (void)context;
    world->file_of_fd[fd] = IS_FREE;
    files_drop_nameless();
    return 0;
}

static void persist(struct file *file, uint32_t sector)
{
    uint32_t at = sector * SECTOR_BYTES;
    memcpy(file->durable + at, file->bytes + at, SECTOR_BYTES);
    uint32_t end = at + SECTOR_BYTES < file->size ? at + SECTOR_BYTES : file->size;
    if (file->durable_size < end)
        file->durable_size = end;
}

static int64_t call_pwrite(void *context, int fd, const void *bytes, size_t size, int64_t offset)
{
    (void)context;
    struct file *file = file_of(fd);
    crash_point();
    uint32_t from = (uint32_t)offset, until = (uint32_t)offset + (uint32_t)size;
    if (until > FILE_BYTES_MAX)
        violation("a file of the journal has more than %d bytes", FILE_BYTES_MAX);
    for (uint32_t sector = from / SECTOR_BYTES; sector * SECTOR_BYTES < until; sector++) {
        if (file->is_dirty[sector] && chance(100)) /* the kernel wrote back what was there until now */
            persist(file, sector);
        file->is_dirty[sector] = true;
    }
    if (crash_is_next()) /* the process ends in the middle of it */
        size = draw(size + 1);
    until = from + (uint32_t)size;
    memcpy(file->bytes + from, bytes, size);
    file->size = file->size < until ? until : file->size;
    file->touched = file->touched < until ? until : file->touched;
    crash_point();
    return (int64_t)size;
}

static int64_t call_pread(void *context, int fd, void *bytes, size_t size, int64_t offset)
{
    (void)context;
    const struct file *file = file_of(fd);
    if (offset >= file->size)
        return 0;
    size_t left = file->size - (size_t)offset;
    size = size < left ? size : left;
    memcpy(bytes, file->bytes + offset, size);
    return (int64_t)size;
}

static int call_fdatasync(void *context, int fd)
{
    (void)context;
    struct file *file = file_of(fd);
    crash_point();
    world->s.now_ns += draw_ns(20 * TW_NS_PER_US, 2 * TW_NS_PER_MS);
    for (uint32_t sector = 0; sector * SECTOR_BYTES < file->size; sector++)
        if (file->is_dirty[sector]) {
            persist(file, sector);
            file->is_dirty[sector] = false;
        }
    file->durable_size = file->size;
    crash_point();
    return 0;
}

static int call_sync_directory(void *context, const char *path)
{
    (void)context;
    (void)path;
    crash_point();
    for (int i = 0; i < FILES_MAX; i++)
        if (world->files[i].is_used)
            memcpy(world->files[i].durable_name, world->files[i].name, NAME_BYTES);
    files_drop_nameless();
    crash_point();
    return 0;
}

static int call_rename(void *context, const char *from, const char *to)
{
    (void)context;
    crash_point();
    struct file *file = file_named(base_name(from)), *replaced = file_named(base_name(to));
    if (file == NULL)
        return -ENOENT;
    if (replaced != NULL && replaced != file)
        replaced->name[0] = '\0';
    snprintf(file->name, sizeof file->name, "%s", base_name(to));
    crash_point();
    return 0;
}

static int call_unlink(void *context, const char *path)
{
    (void)context;
    crash_point();
    struct file *file = file_named(base_name(path));
    if (file == NULL)
        return -ENOENT;
    file->name[0] = '\0';
    files_drop_nameless();
    crash_point();
    return 0;
}

const struct tw_journal_disk *disk_ops(void)
{
    static const struct tw_journal_disk ops = {
        .open = call_open, .close = call_close, .pwrite = call_pwrite, .pread = call_pread,
        .fdatasync = call_fdatasync, .sync_directory = call_sync_directory,
        .rename = call_rename, .unlink = call_unlink,
    };
    return &ops;
}

void disk_forget_fds(void)
{
    memset(world->file_of_fd, IS_FREE, sizeof world->file_of_fd);
    files_drop_nameless();
}

void disk_begin(void)
{
    for (int i = 0; i < FILES_MAX; i++) {
        struct file *file = &world->files[i];
        file->is_used = false;
        file->name[0] = file->durable_name[0] = '\0';
    }
    disk_forget_fds();
}

/* Of two that would have one name, the one that had it last has it. */
static void name_settle(int i)
{
    struct file *file = &world->files[i];
    if (strcmp(file->name, file->durable_name) != 0 && chance(500))
        memcpy(file->name, file->durable_name, NAME_BYTES);
    for (int other = 0; other < FILES_MAX; other++)
        if (other != i && world->files[other].is_used && file->name[0] != '\0' &&
            strcmp(world->files[other].name, file->name) == 0)
            file->name[0] = '\0';
}

void disk_cut_power(void)
{
    uint32_t survives = (uint32_t)draw(3) * 500; /* nothing, half, all of it */
    for (int i = 0; i < FILES_MAX; i++) {
        struct file *file = &world->files[i];
        if (!file->is_used)
            continue;
        for (uint32_t sector = 0; sector * SECTOR_BYTES < file->size; sector++)
            if (file->is_dirty[sector] && chance(survives))
                persist(file, sector);
        memcpy(file->bytes, file->durable, file->touched);
        file->size = file->durable_size;
        memset(file->is_dirty, 0, sizeof file->is_dirty);
        name_settle(i);
        memcpy(file->durable_name, file->name, NAME_BYTES);
    }
    disk_forget_fds();
}

/* ---- The directory itself: the journal asks the system for it, and is given the world's ---- */

int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_flock(int fd, int operation);
DIR *__wrap_directory_open(const char *path);
struct dirent *__wrap_readdir(DIR *dir);
int __wrap_closedir(DIR *dir);

int __wrap_mkdir(const char *path, mode_t mode)
{
    (void)path;
    (void)mode;
    errno = EEXIST;
    return -1;
}

int __wrap_flock(int fd, int operation)
{
    (void)fd;
    (void)operation;
    return 0;
}

static struct listing {
    int next;
    struct dirent entry;
} listing;

DIR *__wrap_directory_open(const char *path)
{
    (void)path;
    listing.next = 0;
    return (DIR *)&listing;
}

struct dirent *__wrap_readdir(DIR *dir)
{
    (void)dir;
    while (listing.next < FILES_MAX) {
        const struct file *file = &world->files[listing.next++];
        if (!file->is_used || file->name[0] == '\0')
            continue;
        snprintf(listing.entry.d_name, sizeof listing.entry.d_name, "%s", file->name);
        return &listing.entry;
    }
    errno = 0;
    return NULL;
}

int __wrap_closedir(DIR *dir)
{
    (void)dir;
    return 0;
}
