#include <tradewake/fix/store.h>

#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 512, FILE_BYTES_MAX = 1 << 28 };

struct fix_store {
    char path[PATH_BYTES], boot_id[BOOT_ID_BYTES];
    size_t bytes_max;
    bool syncs_each;
    int fd;
    size_t end; /* of the file; what is behind it is not ours */
    bool is_broken;
    struct fix_store_numbers numbers;
    uint64_t reserved; /* numbers below it may be used; it is on the disk */
    char *buffer;      /* a record that is written */
    size_t buffer_bytes;
};

/* ---- The file. ---- */

static tw_status failed(const struct fix_store *store, const char *what, struct tw_error *error)
{
    return tw_error_set(error, TW_IO, "%s: %s: %s", store->path, what, strerror(errno));
}

static bool write_whole(int fd, const char *bytes, size_t n, size_t at)
{
    while (n > 0) {
        ssize_t done = pwrite(fd, bytes, n, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        bytes += done;
        n -= (size_t)done;
        at += (size_t)done;
    }
    return true;
}

static bool buffer_grow(struct fix_store *store, size_t n)
{
    if (n <= store->buffer_bytes)
        return true;
    char *grown = realloc(store->buffer, n * 2);
    if (grown == NULL)
        return false;
    store->buffer = grown;
    store->buffer_bytes = n * 2;
    return true;
}

/* One record with one write(), so that a kill leaves all of it or a part at the end. payload: in two pieces. */
static tw_status append(struct fix_store *store, enum record_kind kind, int64_t wall_ns, const char *first, size_t first_n,
                        const char *second, size_t second_n, struct tw_error *error)
{
    size_t n = first_n + second_n;
    if (store->is_broken)
        return tw_error_set(error, TW_IO, "%s: an earlier write failed", store->path);
    if (n > RECORD_PAYLOAD_MAX)
        return tw_error_set(error, TW_INVALID, "%s: a record of %zu bytes, expected at most %d", store->path, n, RECORD_PAYLOAD_MAX);
    if (!buffer_grow(store, RECORD_HEAD_BYTES + n))
        return tw_error_set(error, TW_NO_MEMORY, "%s: no memory for a record of %zu bytes", store->path, n);
    char *payload = store->buffer + RECORD_HEAD_BYTES;
    if (first_n > 0)
        memcpy(payload, first, first_n);
    if (second_n > 0)
        memcpy(payload + first_n, second, second_n);
    fix_record_head(store->buffer, &(struct record){.kind = kind, .wall_ns = wall_ns, .payload = payload, .n = n});
    if (!write_whole(store->fd, store->buffer, RECORD_HEAD_BYTES + n, store->end)) {
        tw_status status = failed(store, "write", error);
        store->is_broken = true;
        (void)!ftruncate(store->fd, (off_t)store->end);
        return status;
    }
    store->end += RECORD_HEAD_BYTES + n;
    return TW_OK;
}

static tw_status sync_now(struct fix_store *store, struct tw_error *error)
{
    if (fdatasync(store->fd) == 0)
        return TW_OK;
    store->is_broken = true; /* what is on the disk is not known any more */
    return failed(store, "fdatasync", error);
}

static void numbers_payload(const struct fix_store *store, uint64_t reserved, char payload[NUMBERS_BYTES])
{
    put_u64(payload, store->numbers.next_out);
    put_u64(payload + 8, store->numbers.next_in);
    put_u64(payload + 16, (uint64_t)store->numbers.since_wall_ns);
    put_u64(payload + 24, reserved);
    memset(payload + 32, 0, BOOT_ID_BYTES);
    memcpy(payload + 32, store->boot_id, strlen(store->boot_id));
}

/* On the disk when it returns. */
static tw_status numbers_write(struct fix_store *store, uint64_t reserved, int64_t now_wall_ns, struct tw_error *error)
{
    char payload[NUMBERS_BYTES];
    numbers_payload(store, reserved, payload);
    tw_status status = append(store, RECORD_NUMBERS, now_wall_ns, payload, sizeof payload, NULL, 0, error);
    if (status == TW_OK)
        status = sync_now(store, error);
    if (status == TW_OK)
        store->reserved = reserved;
    return status;
}

static tw_status reserve(struct fix_store *store, int64_t now_wall_ns, struct tw_error *error)
{
    return numbers_write(store, store->numbers.next_out + FIX_STORE_RESERVE, now_wall_ns, error);
}

static tw_status directory_sync(const struct fix_store *store, struct tw_error *error)
{
    char path[PATH_BYTES];
    memcpy(path, store->path, sizeof path);
    char *slash = strrchr(path, '/');
    if (slash != NULL)
        slash[slash == path ? 1 : 0] = '\0';
    int fd = open(slash != NULL ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool done = fd >= 0 && fsync(fd) == 0;
    tw_status status = done ? TW_OK : failed(store, "its directory", error);
    if (fd >= 0)
        close(fd);
    return status;
}

/* ---- Opening. ---- */

/* Without it nobody could tell a kill from a power cut: which numbers were used would not be known. */
static tw_status boot_id_read(struct fix_store *store, struct tw_error *error)
{
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, store->boot_id, BOOT_ID_BYTES - 1) : -1;
    const char *why = n < 0 ? strerror(errno) : "it is empty";
    if (fd >= 0)
        close(fd);
    store->boot_id[n > 0 ? n : 0] = '\0';
    store->boot_id[strcspn(store->boot_id, "\n")] = '\0';
    return store->boot_id[0] != '\0' ? TW_OK : tw_error_set(error, TW_IO, "%s: it needs %s: %s", store->path, path, why);
}

/* Locked, and still the file of that name: another process may just have put it aside. */
static tw_status file_lock(struct fix_store *store, struct tw_error *error)
{
    for (;;) {
        struct stat opened, named;
        store->fd = open(store->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (store->fd < 0)
            return failed(store, "open", error);
        if (flock(store->fd, LOCK_EX | LOCK_NB) != 0)
            return errno == EWOULDBLOCK ? tw_error_set(error, TW_EXISTS, "%s: another process has this FIX session", store->path)
                                        : failed(store, "lock", error);
        if (fstat(store->fd, &opened) == 0 && stat(store->path, &named) == 0 && opened.st_ino == named.st_ino)
            return TW_OK;
        close(store->fd);
        store->fd = -1;
    }
}

static tw_status file_read(const struct fix_store *store, char **ret, size_t *ret_n, struct tw_error *error)
{
    struct stat file;
    if (fstat(store->fd, &file) != 0)
        return failed(store, "stat", error);
    if (file.st_size > FILE_BYTES_MAX)
        return tw_error_set(error, TW_INVALID, "%s has %lld bytes, expected at most %d", store->path, (long long)file.st_size, FILE_BYTES_MAX);
    size_t size = (size_t)file.st_size, n = 0;
    char *bytes = malloc(size + 1);
    if (bytes == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "%s: no memory for %zu bytes", store->path, size);
    while (n < size) {
        ssize_t done = pread(store->fd, bytes + n, size - n, (off_t)n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            break;
        n += (size_t)done;
    }
    if (n < size) {
        free(bytes);
        return failed(store, "read", error);
    }
    *ret = bytes;
    *ret_n = size;
    return TW_OK;
}

/* What the records come to. ret_boot_id: of the boot in which numbers were written last. */
static void numbers_take(struct fix_store *store, const struct record *record, char ret_boot_id[BOOT_ID_BYTES])
{
    uint64_t number = record->kind == RECORD_NOTE || record->kind == RECORD_IN ? 0 : get_u64(record->payload);
    if (record->kind == RECORD_NUMBERS) {
        store->numbers = (struct fix_store_numbers){.next_out = number,
                                                    .next_in = get_u64(record->payload + 8),
                                                    .since_wall_ns = (int64_t)get_u64(record->payload + 16)};
        store->reserved = get_u64(record->payload + 24);
        memcpy(ret_boot_id, record->payload + 32, BOOT_ID_BYTES - 1);
        ret_boot_id[BOOT_ID_BYTES - 1] = '\0';
    } else if (record->kind == RECORD_OUT && number >= store->numbers.next_out) {
        store->numbers.next_out = number + 1;
    } else if (record->kind == RECORD_EXPECT) {
        store->numbers.next_in = number;
    }
}

/* Whether something that cannot have been lost stands behind a place that cannot be read: then that is no torn end. After
 * another boot only what was synced cannot have been lost. */
static bool is_damaged(const char *bytes, size_t n, size_t bad, bool same_boot)
{
    struct record record;
    for (size_t at = bad + 1; at + RECORD_HEAD_BYTES <= n; at++) {
        size_t next = at;
        if (fix_record_next(bytes, n, &next, &record) && (same_boot || record.kind == RECORD_NUMBERS))
            return true;
    }
    return false;
}

static tw_status file_begin(struct fix_store *store, int64_t now_wall_ns, struct tw_error *error)
{
    store->numbers = (struct fix_store_numbers){.next_out = 1, .next_in = 1, .since_wall_ns = now_wall_ns};
    if (ftruncate(store->fd, 0) != 0 || !write_whole(store->fd, FIX_RECORD_MAGIC, MAGIC_BYTES, 0))
        return failed(store, "write", error);
    store->end = MAGIC_BYTES;
    tw_status status = reserve(store, now_wall_ns, error);
    return status == TW_OK ? directory_sync(store, error) : status;
}

static tw_status file_take(struct fix_store *store, const char *bytes, size_t n, int64_t now_wall_ns, struct tw_error *error)
{
    char boot_id[BOOT_ID_BYTES] = "";
    struct record record;
    size_t at = MAGIC_BYTES;
    if (memcmp(bytes, FIX_RECORD_MAGIC, n < MAGIC_BYTES ? n : MAGIC_BYTES) != 0)
        return tw_error_set(error, TW_INVALID, "%s is no file of a FIX session", store->path);
    while (at < n && fix_record_next(bytes, n, &at, &record))
        numbers_take(store, &record, boot_id);
    if (store->reserved == 0) /* begun, and not even its first record was on the disk: nothing was sent */
        return n > MAGIC_BYTES && is_damaged(bytes, n, MAGIC_BYTES, false)
                   ? tw_error_set(error, TW_INVALID, "%s is damaged at byte %d: its numbers are not to be trusted", store->path, MAGIC_BYTES)
                   : file_begin(store, now_wall_ns, error);
    bool same_boot = strcmp(boot_id, store->boot_id) == 0;
    if (at < n && is_damaged(bytes, n, at, same_boot))
        return tw_error_set(error, TW_INVALID, "%s is damaged at byte %zu: its numbers are not to be trusted", store->path, at);
    if (!same_boot && store->numbers.next_out < store->reserved)
        store->numbers.next_out = store->reserved; /* a power cut may have taken records of numbers that were used */
    store->end = at;
    if (at < n && ftruncate(store->fd, (off_t)at) != 0)
        return failed(store, "cut off its torn end", error);
    return reserve(store, now_wall_ns, error);
}

static tw_status store_open(struct fix_store *store, const struct fix_store_options *options, int64_t now_wall_ns,
                            struct tw_error *error)
{
    char aside[PATH_BYTES + 8], *bytes = NULL;
    size_t n = 0;
    if (strlen(options->path) + 8 >= sizeof store->path)
        return tw_error_set(error, TW_INVALID, "path %.200s is too long", options->path);
    strcpy(store->path, options->path);
    store->bytes_max = options->bytes_max != 0 ? options->bytes_max : FIX_STORE_BYTES_MAX_DEFAULT;
    store->syncs_each = options->syncs_each;
    if (options->boot_id != NULL)
        snprintf(store->boot_id, sizeof store->boot_id, "%s", options->boot_id);
    tw_status status = options->boot_id != NULL ? TW_OK : boot_id_read(store, error);
    if (status == TW_OK)
        status = file_lock(store, error);
    if (status != TW_OK)
        return status;
    snprintf(aside, sizeof aside, "%s.new", store->path);
    (void)unlink(aside); /* of a compaction that did not end */
    status = file_read(store, &bytes, &n, error);
    if (status == TW_OK && n == 0)
        status = file_begin(store, now_wall_ns, error);
    else if (status == TW_OK)
        status = file_take(store, bytes, n, now_wall_ns, error);
    free(bytes);
    return status;
}

tw_status fix_store_open(const struct fix_store_options *options, int64_t now_wall_ns, struct fix_store **ret,
                         struct tw_error *error)
{
    struct fix_store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for a FIX session's file");
    store->fd = -1;
    tw_status status = store_open(store, options, now_wall_ns, error);
    if (status == TW_OK) {
        *ret = store;
        return TW_OK;
    }
    store->is_broken = true; /* leaves the file as it is */
    fix_store_close(store);
    return status;
}

void fix_store_close(struct fix_store *store)
{
    if (store == NULL)
        return;
    if (!store->is_broken)
        (void)numbers_write(store, store->numbers.next_out, 0, NULL);
    if (store->fd >= 0)
        close(store->fd);
    free(store->buffer);
    free(store);
}

struct fix_store_numbers fix_store_numbers(const struct fix_store *store)
{
    return store->numbers;
}

/* ---- What is written. ---- */

static tw_status message_write(struct fix_store *store, enum record_kind kind, int64_t now_wall_ns, const char *first,
                               size_t first_n, const char *bytes, size_t n, struct tw_error *error)
{
    /* A mask can be longer than what it hides: "***" for a letter. */
    size_t room = n * 2 + 16;
    char *masked = malloc(room);
    if (masked == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "%s: no memory for a message", store->path);
    size_t length = fix_mask(bytes, n, masked, room);
    if (length > RECORD_PAYLOAD_MAX - 8)
        length = RECORD_PAYLOAD_MAX - 8;
    tw_status status = append(store, kind, now_wall_ns, first, first_n, masked, length, error);
    free(masked);
    return status;
}

tw_status fix_store_out(struct fix_store *store, uint64_t seq, int64_t now_wall_ns, const char *bytes, size_t n,
                        struct tw_error *error)
{
    char number[8];
    tw_status status = TW_OK;
    if (seq != 0 && seq < store->numbers.next_out)
        return tw_error_set(error, TW_INVALID, "%s: number %llu (34) has been used", store->path, (unsigned long long)seq);
    if (seq >= store->reserved)
        status = numbers_write(store, seq + FIX_STORE_RESERVE, now_wall_ns, error);
    put_u64(number, seq);
    if (status == TW_OK)
        status = message_write(store, RECORD_OUT, now_wall_ns, number, sizeof number, bytes, n, error);
    if (status == TW_OK && store->syncs_each)
        status = sync_now(store, error);
    if (status == TW_OK && seq != 0)
        store->numbers.next_out = seq + 1;
    return status;
}

tw_status fix_store_in(struct fix_store *store, int64_t now_wall_ns, const char *bytes, size_t n, struct tw_error *error)
{
    return message_write(store, RECORD_IN, now_wall_ns, NULL, 0, bytes, n, error);
}

tw_status fix_store_expect(struct fix_store *store, uint64_t next_in, struct tw_error *error)
{
    char number[8];
    put_u64(number, next_in);
    tw_status status = append(store, RECORD_EXPECT, 0, number, sizeof number, NULL, 0, error);
    if (status == TW_OK)
        store->numbers.next_in = next_in;
    return status;
}

tw_status fix_store_note(struct fix_store *store, int64_t now_wall_ns, const char *text, struct tw_error *error)
{
    return append(store, RECORD_NOTE, now_wall_ns, text, strlen(text), NULL, 0, error);
}

tw_status fix_store_renumber(struct fix_store *store, uint64_t next_out, uint64_t next_in, int64_t now_wall_ns,
                             struct tw_error *error)
{
    struct fix_store_numbers before = store->numbers;
    store->numbers = (struct fix_store_numbers){.next_out = next_out, .next_in = next_in, .since_wall_ns = now_wall_ns};
    tw_status status = reserve(store, now_wall_ns, error);
    if (status != TW_OK)
        store->numbers = before;
    return status;
}

/* ---- Compaction. ---- */

/* A new file with the numbers takes the name; the old one keeps one beside it. At every step the name is that of a whole
 * file with the right numbers. */
static tw_status compact(struct fix_store *store, int64_t now_wall_ns, struct tw_error *error)
{
    char next[PATH_BYTES + 8], old[PATH_BYTES + 8];
    snprintf(next, sizeof next, "%s.new", store->path);
    snprintf(old, sizeof old, "%s.old", store->path);
    int fd = open(next, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return failed(store, "begin anew", error);
    int old_fd = store->fd;
    size_t old_end = store->end;
    store->fd = fd;
    store->end = MAGIC_BYTES;
    tw_status status = flock(fd, LOCK_EX | LOCK_NB) == 0 && write_whole(fd, FIX_RECORD_MAGIC, MAGIC_BYTES, 0)
                           ? reserve(store, now_wall_ns, error)
                           : failed(store, "begin anew", error);
    if (status == TW_OK) {
        (void)unlink(old);
        /* Yesterday's log is worth no failure. */
        bool is_kept = link(store->path, old) == 0;
        (void)is_kept;
        if (rename(next, store->path) != 0)
            status = failed(store, "begin anew", error);
    }
    if (status != TW_OK) {
        (void)unlink(next);
        close(fd);
        store->fd = old_fd;
        store->end = old_end;
        return status;
    }
    close(old_fd);
    return directory_sync(store, error);
}

tw_status fix_store_tick(struct fix_store *store, int64_t now_wall_ns, struct tw_error *error)
{
    if (store->is_broken)
        return tw_error_set(error, TW_IO, "%s: an earlier write failed", store->path);
    if (store->end > store->bytes_max)
        return compact(store, now_wall_ns, error);
    if (store->reserved - store->numbers.next_out > FIX_STORE_RESERVE / 2)
        return TW_OK;
    return reserve(store, now_wall_ns, error);
}
