/* disk_faulty.c - the disk of test builds: slow, failing or short when told to, and at a power cut it
 * forgets what was not synced, sector by sector and name by name.
 *
 *   TW_FAULT_SYNC_DELAY_MS=N     every fdatasync takes so much longer
 *   TW_FAULT_SYNC_EIO=N          the N-th fdatasync fails
 *   TW_FAULT_WRITE_ENOSPC=N      the N-th write of a record finds the disk full
 *   TW_FAULT_WRITE_SHORT=1       writes take pieces
 *
 * For a power cut (TW_CRASH_POWER) it keeps what stood in each sector before the first write since its
 * last sync. The end puts a random part of that back, in a random order, cuts files that have grown,
 * and takes back names that no sync of the directory has passed. */
#include "disk_faulty.h"

#include "record.h"

#include <tradewake/base/crash_point.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SECTOR_BYTES = 512, FDS_MAX = 65536, PATH_BYTES = 4200 };

/* A sector as it was; generation: of the syncs of its file. */
struct before {
    uint64_t sector;
    uint32_t generation;
    uint8_t bytes[SECTOR_BYTES];
};

struct file {
    struct file *next;
    char path[PATH_BYTES];
    bool is_name_durable;
    uint64_t size, durable_size;
    uint32_t generation;  /* of what is written now */
    uint32_t *written;    /* per sector: the generation of its last image */
    uint64_t n_written;
    struct before *befores;
    uint32_t n_befores, befores_room;
};

/* A name taken away, or given another file, that no sync of the directory has passed. */
struct name_change {
    struct name_change *next; /* older */
    char from[PATH_BYTES], to[PATH_BYTES]; /* to "": it was unlinked */
    bool has_gone;                         /* to.gone is what stood there before */
};

/* Set when the disk is asked for, read-only afterwards. */
static const struct tw_journal_disk *real;
static bool remembers; /* for a power cut */
static bool is_short;
static int64_t delay_ns;

static atomic_llong syncs_left, writes_left; /* until the one that fails */

/* Guards everything below. Who cuts the power takes it and keeps it. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct file *files;
static struct file *file_of_fd[FDS_MAX];
static struct name_change *name_changes; /* newest first */
static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

/* A test that cannot remember must not pass for one that found nothing. */
static void *must(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

/* ---- What was there before ---- */

static struct file *file_of(const char *path, bool is_new)
{
    struct file *file = files;
    while (file != NULL && strcmp(file->path, path) != 0)
        file = file->next;
    if (file != NULL)
        return file;
    struct stat found = {0};
    file = must(calloc(1, sizeof *file));
    (void)snprintf(file->path, sizeof file->path, "%s", path);
    file->is_name_durable = !is_new;
    file->generation = 1;
    if (stat(path, &found) == 0)
        file->size = file->durable_size = (uint64_t)found.st_size;
    file->next = files;
    files = file;
    return file;
}

static void sector_remember(struct file *file, int fd, uint64_t sector)
{
    if (sector >= file->n_written) {
        uint64_t n = sector * 2 + 1024;
        file->written = must(realloc(file->written, n * sizeof *file->written));
        memset(file->written + file->n_written, 0, (n - file->n_written) * sizeof *file->written);
        file->n_written = n;
    }
    if (file->written[sector] == file->generation)
        return;
    file->written[sector] = file->generation;
    if (file->n_befores == file->befores_room) {
        file->befores_room = file->befores_room * 2 + 64;
        file->befores = must(realloc(file->befores, file->befores_room * sizeof *file->befores));
    }
    struct before *before = &file->befores[file->n_befores++];
    *before = (struct before){.sector = sector, .generation = file->generation};
    if (pread(fd, before->bytes, SECTOR_BYTES, (off_t)(sector * SECTOR_BYTES)) < 0)
        abort();
}

static void sectors_remember(struct file *file, int fd, uint64_t from, uint64_t size)
{
    for (uint64_t sector = from / SECTOR_BYTES; sector <= (from + size - 1) / SECTOR_BYTES; sector++)
        sector_remember(file, fd, sector);
    if (file->size < from + size)
        file->size = from + size;
}

static void generations_forget(struct file *file, uint32_t until, uint64_t size)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < file->n_befores; i++)
        if (file->befores[i].generation > until)
            file->befores[kept++] = file->befores[i];
    file->n_befores = kept;
    if (file->durable_size < size)
        file->durable_size = size;
}

/* ---- The power cut ---- */

enum keeps { KEEPS_NOTHING, KEEPS_SOME, KEEPS_ALL_BUT_ONE, KEEPS_COUNT };

static bool is_lost(enum keeps keeps, uint32_t place, uint32_t lost)
{
    return keeps == KEEPS_NOTHING || (keeps == KEEPS_SOME && draw(2) == 0) ||
           (keeps == KEEPS_ALL_BUT_ONE && place == lost);
}

static void file_cut(struct file *file, enum keeps keeps)
{
    int fd = open(file->path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return; /* removed since */
    uint32_t lost = file->n_befores > 0 ? (uint32_t)draw(file->n_befores) : 0;
    for (uint32_t i = file->n_befores; i-- > 0;) { /* newest first: the oldest image wins */
        const struct before *before = &file->befores[i];
        bool is_torn = keeps == KEEPS_SOME && draw(8) == 0;
        size_t size = is_torn ? (size_t)draw(SECTOR_BYTES) : SECTOR_BYTES;
        if (is_lost(keeps, i, lost) &&
            pwrite(fd, before->bytes, size, (off_t)(before->sector * SECTOR_BYTES)) < 0)
            abort();
    }
    bool loses_size = keeps == KEEPS_NOTHING || (keeps == KEEPS_SOME && draw(2) == 0);
    uint64_t size = loses_size ? file->durable_size : file->size;
    if (ftruncate(fd, (off_t)size) != 0)
        abort();
    (void)close(fd);
    if (!file->is_name_durable && loses_size)
        (void)unlink(file->path);
}

static void gone_path(const char *path, char ret[PATH_BYTES + 8])
{
    (void)snprintf(ret, PATH_BYTES + 8, "%s.gone", path);
}

static void names_cut(enum keeps keeps)
{
    bool loses = keeps == KEEPS_NOTHING || (keeps == KEEPS_SOME && draw(2) == 0);
    for (const struct name_change *change = name_changes; change != NULL; change = change->next) {
        const char *stood_at = change->to[0] != '\0' ? change->to : change->from;
        char gone[PATH_BYTES + 8];
        gone_path(stood_at, gone);
        if (loses && change->to[0] != '\0')
            (void)rename(change->to, change->from);
        if (loses && change->has_gone)
            (void)rename(gone, stood_at);
        else if (change->has_gone)
            (void)unlink(gone);
    }
}

/* Nobody writes any more: the mutex is kept. */
static void power_cut(uint64_t seed)
{
    (void)pthread_mutex_lock(&mutex);
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    enum keeps keeps = (enum keeps)draw(KEEPS_COUNT);
    for (struct file *file = files; file != NULL; file = file->next)
        file_cut(file, keeps);
    names_cut(keeps);
}

/* ---- The calls ---- */

static int faulty_open(void *context, const char *path, int flags, uint32_t mode)
{
    (void)pthread_mutex_lock(&mutex);
    bool is_new = access(path, F_OK) != 0;
    int fd = real->open(context, path, flags, mode);
    bool is_file = fd >= 0 && fd < FDS_MAX && (flags & O_DIRECTORY) == 0;
    if (is_file && remembers)
        file_of_fd[fd] = file_of(path, is_new);
    (void)pthread_mutex_unlock(&mutex);
    tw_crash_point_if(is_file && is_new, "journal.segment_created");
    return fd;
}

static int faulty_close(void *context, int fd)
{
    (void)pthread_mutex_lock(&mutex);
    if (fd >= 0 && fd < FDS_MAX)
        file_of_fd[fd] = NULL;
    int result = real->close(context, fd);
    (void)pthread_mutex_unlock(&mutex);
    return result;
}

static int64_t write_under(void *context, int fd, const void *bytes, size_t size, int64_t offset)
{
    struct file *file = fd < FDS_MAX ? file_of_fd[fd] : NULL;
    if (file != NULL && size > 0)
        sectors_remember(file, fd, (uint64_t)offset, size);
    return real->pwrite(context, fd, bytes, size, offset);
}

static bool is_record(const void *bytes, size_t size)
{
    return size >= RECORD_HEADER_BYTES && memcmp(bytes, "TWJL", 4) == 0;
}

/* Dies with a part of the record written. */
static void die_in_the_middle(void *context, int fd, const void *bytes, size_t size, int64_t offset)
{
    TW_CRASH_POINT("journal.mid_write");
    if (!tw_crash_is_due(&crash_point_here))
        return;
    (void)pthread_mutex_lock(&mutex);
    random_state = (uint64_t)clock() * UINT64_C(0x9e3779b97f4a7c15) | 1;
    (void)write_under(context, fd, bytes, (size_t)draw(size), offset);
    (void)pthread_mutex_unlock(&mutex);
    tw_crash(&crash_point_here);
}

static int64_t faulty_pwrite(void *context, int fd, const void *bytes, size_t size, int64_t offset)
{
    if (is_record(bytes, size)) {
        die_in_the_middle(context, fd, bytes, size, offset);
        if (atomic_fetch_sub(&writes_left, 1) == 1)
            return -ENOSPC;
    }
    if (is_short && size > 1)
        size = size / 2;
    (void)pthread_mutex_lock(&mutex);
    int64_t n = write_under(context, fd, bytes, size, offset);
    (void)pthread_mutex_unlock(&mutex);
    return n;
}

static int64_t faulty_pread(void *context, int fd, void *bytes, size_t size, int64_t offset)
{
    return real->pread(context, fd, bytes, size, offset);
}

static int faulty_fdatasync(void *context, int fd)
{
    (void)pthread_mutex_lock(&mutex);
    struct file *file = fd < FDS_MAX ? file_of_fd[fd] : NULL;
    uint32_t generation = file != NULL ? file->generation++ : 0;
    uint64_t size = file != NULL ? file->size : 0;
    (void)pthread_mutex_unlock(&mutex);

    tw_crash_point("journal.syncing");
    if (atomic_fetch_sub(&syncs_left, 1) == 1)
        return -EIO;
    if (delay_ns > 0) {
        const struct timespec delay = {delay_ns / 1000000000, delay_ns % 1000000000};
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &delay, NULL);
    }
    int result = remembers ? 0 : real->fdatasync(context, fd); /* this disk is as durable as it says */
    (void)pthread_mutex_lock(&mutex);
    if (file != NULL && result == 0)
        generations_forget(file, generation, size);
    (void)pthread_mutex_unlock(&mutex);
    return result;
}

static bool is_in(const char *path, const char *dir)
{
    size_t length = strlen(dir);
    return strncmp(path, dir, length) == 0 && path[length] == '/' && strchr(path + length + 1, '/') == NULL;
}

static int faulty_sync_directory(void *context, const char *path)
{
    (void)pthread_mutex_lock(&mutex);
    for (struct file *file = files; file != NULL; file = file->next)
        file->is_name_durable |= is_in(file->path, path);
    for (struct name_change **at = &name_changes; *at != NULL;) {
        struct name_change *change = *at;
        if (!is_in(change->from, path)) {
            at = &change->next;
            continue;
        }
        char gone[PATH_BYTES + 8];
        gone_path(change->to[0] != '\0' ? change->to : change->from, gone);
        if (change->has_gone)
            (void)unlink(gone);
        *at = change->next;
        free(change);
    }
    (void)pthread_mutex_unlock(&mutex);
    return real->sync_directory(context, path);
}

static void name_change_add(const char *from, const char *to)
{
    const char *stood_at = to[0] != '\0' ? to : from;
    char gone[PATH_BYTES + 8];
    struct name_change *change = must(calloc(1, sizeof *change));
    (void)snprintf(change->from, sizeof change->from, "%s", from);
    (void)snprintf(change->to, sizeof change->to, "%s", to);
    gone_path(stood_at, gone);
    change->has_gone = rename(stood_at, gone) == 0;
    change->next = name_changes;
    name_changes = change;
}

static int faulty_rename(void *context, const char *from, const char *to)
{
    (void)pthread_mutex_lock(&mutex);
    for (struct file **at = &files; *at != NULL && remembers; at = &(*at)->next)
        if (strcmp((*at)->path, to) == 0) { /* what stood there is nobody's file any more */
            (*at)->path[0] = '\0';
            break;
        }
    if (remembers)
        name_change_add(from, to);
    int result = real->rename(context, from, to);
    for (struct file *file = files; file != NULL; file = file->next)
        if (strcmp(file->path, from) == 0)
            (void)snprintf(file->path, sizeof file->path, "%s", to);
    (void)pthread_mutex_unlock(&mutex);
    return result;
}

static int faulty_unlink(void *context, const char *path)
{
    if (!remembers)
        return real->unlink(context, path);
    (void)pthread_mutex_lock(&mutex);
    int result = access(path, F_OK) == 0 ? 0 : -ENOENT;
    if (result == 0)
        name_change_add(path, "");
    for (struct file *file = files; file != NULL; file = file->next)
        if (strcmp(file->path, path) == 0)
            file->path[0] = '\0';
    (void)pthread_mutex_unlock(&mutex);
    return result;
}

const struct tw_journal_disk *disk_faulty(void)
{
    static const struct tw_journal_disk faulty = {
        .open = faulty_open,
        .close = faulty_close,
        .pwrite = faulty_pwrite,
        .pread = faulty_pread,
        .fdatasync = faulty_fdatasync,
        .sync_directory = faulty_sync_directory,
        .rename = faulty_rename,
        .unlink = faulty_unlink,
    };
    if (real != NULL)
        return &faulty;
    real = tw_journal_disk_real();
    remembers = getenv("TW_CRASH_POWER") != NULL;
    is_short = tw_fault("WRITE_SHORT") != NULL;
    delay_ns = tw_fault_number("SYNC_DELAY_MS", 0) * 1000000;
    atomic_store(&syncs_left, tw_fault_number("SYNC_EIO", -1));
    atomic_store(&writes_left, tw_fault_number("WRITE_ENOSPC", -1));
    tw_crash_power_set(power_cut);
    return &faulty;
}
