/* fuzz_journal.c
 * Targets:  tw_journal_open, tw_journal_walk: whatever stands in the files of a log
 * Property: what is replayed are records whose checksums hold, checked here by other code; opened
 * again, the log replays the same, and one more once it was appended; a log that is refused is not
 * changed.
 *
 * The input is the files themselves (odd first byte), or a log that is written well and then
 * patched, cut and zeroed: checksums are not to be guessed. */
#include "crc32c.h"
#include "record.h"

#include <tradewake/base/log.h>
#include <tradewake/journal/journal.h>
#include <tradewake/journal/walk.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES_MAX      4u
#define FILE_BYTES_MAX 16384u
#define SALT           0x5a17u

/* Not assert: the preset builds without. */
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* --- the files --------------------------------------------------------------------- */

struct file {
    uint8_t bytes[FILE_BYTES_MAX];
    size_t size;
};

static struct file files[FILES_MAX];
static uint32_t file_count;
static char dir[64];

static void path_of(uint32_t number, char ret_path[96])
{
    (void)snprintf(ret_path, 96, "%s/%08u.log", dir, number);
}

static void files_write(void)
{
    char path[96];

    for (uint32_t i = 0; i < file_count; i++) {
        path_of(i + 1, path);
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        MUST(fd >= 0);
        ssize_t n = write(fd, files[i].bytes, files[i].size);
        MUST(n == (ssize_t)files[i].size);
        (void)close(fd);
    }
    for (uint32_t i = file_count + 1; i <= FILES_MAX + 3; i++) {
        path_of(i, path);
        (void)unlink(path);
    }
}

static void files_must_be_unchanged(void)
{
    static uint8_t found[FILE_BYTES_MAX + 1];
    char path[96];

    for (uint32_t i = 0; i < file_count; i++) {
        path_of(i + 1, path);
        int fd = open(path, O_RDONLY);
        MUST(fd >= 0);
        ssize_t n = read(fd, found, sizeof(found));
        MUST(n == (ssize_t)files[i].size);
        MUST(memcmp(found, files[i].bytes, files[i].size) == 0);
        (void)close(fd);
    }
}

/* --- a log that is written well, and what then happens to it ----------------------- */

struct script {
    const uint8_t *at, *end;
    uint64_t sequence;
    uint32_t previous_crc;
};

static uint8_t take(struct script *script)
{
    return script->at < script->end ? *script->at++ : 0;
}

static size_t take_offset(struct script *script)
{
    size_t high = take(script);
    return (high << 8 | take(script)) % FILE_BYTES_MAX;
}

static void begin_segment(struct script *script)
{
    struct segment_header header = {.version = JOURNAL_VERSION,
                                    .segment = file_count + 1,
                                    .first_sequence = script->sequence + 1,
                                    .previous_crc = script->previous_crc,
                                    .salt = SALT};

    if (file_count == FILES_MAX)
        return;
    struct file *file = &files[file_count++];
    memset(file, 0, sizeof(*file));
    segment_header_write(&header, file->bytes);
    file->size = SEGMENT_HEADER_BYTES;
}

static void write_record(struct script *script)
{
    struct file *file = &files[file_count - 1];
    uint8_t bytes[256];
    uint8_t size = take(script);
    size_t total = record_total_bytes(size);
    if (file->size + total > FILE_BYTES_MAX)
        return;

    memset(bytes, take(script), sizeof(bytes));
    struct record record = {.sequence = script->sequence + 1,
                            .durable = script->sequence - take(script) % (script->sequence + 1),
                            .segment = file_count,
                            .size = size,
                            .previous_crc = script->previous_crc,
                            .type = size,
                            .version = JOURNAL_VERSION,
                            .bytes_crc = record_bytes_crc(SALT, bytes, size)};
    record_header_write(&record, SALT, file->bytes + file->size);
    memcpy(file->bytes + file->size + RECORD_HEADER_BYTES, bytes, size);
    file->size += total;
    script->sequence++;
    script->previous_crc = record.crc;
}

static void meddle(struct script *script, uint8_t how)
{
    struct file *file = &files[take(script) % file_count];
    size_t offset = take_offset(script);

    switch (how) {
    case 0:
        file->bytes[offset] ^= take(script);
        break;
    case 1:
        memset(file->bytes + offset, 0, FILE_BYTES_MAX - offset);
        file->size = offset < file->size ? offset : file->size;
        break;
    case 2: {
        size_t n = take_offset(script);
        memset(file->bytes + offset, 0, n < FILE_BYTES_MAX - offset ? n : FILE_BYTES_MAX - offset);
        break;
    }
    default: /* zeros behind it, as where space is prepared */
        file->size = offset > file->size ? offset : file->size;
    }
}

static void write_well_and_meddle(const uint8_t *data, size_t size)
{
    struct script script = {.at = data, .end = data + size};

    begin_segment(&script);
    while (script.at < script.end) {
        uint8_t step = take(&script) % 16;
        if (step < 8)
            write_record(&script);
        else if (step < 10)
            begin_segment(&script);
        else
            meddle(&script, step % 4);
    }
}

static void take_as_files(const uint8_t *data, size_t size)
{
    while (size > 0 && file_count < FILES_MAX) {
        struct file *file = &files[file_count++];
        size_t n = size < 512 ? size : 512;
        memset(file, 0, sizeof(*file));
        memcpy(file->bytes, data, n);
        file->size = n;
        data += n;
        size -= n;
    }
}

/* --- what is replayed -------------------------------------------------------------- */

struct heard {
    uint64_t count, first;
    uint32_t crc; /* over all of it */
};

static uint64_t le(const uint8_t *in, unsigned bytes)
{
    uint64_t value = 0;

    while (bytes-- > 0)
        value = value << 8 | in[bytes];
    return value;
}

/* Finds the record among the files as they were given, by its sequence; its checksums must hold.
 * Written against the layout, not with the reader's code. */
static void must_be_good(uint64_t sequence, uint16_t type, const uint8_t *bytes, size_t size)
{
    for (uint32_t i = 0; i < file_count; i++) {
        const uint8_t *file = files[i].bytes;
        uint32_t salt = (uint32_t)le(file + 28, 4);
        for (size_t at = 64; at + 48 + size <= files[i].size; at += 8) {
            const uint8_t *header = file + at;
            if (memcmp(header, "TWJL", 4) == 0 && le(header + 16, 8) == sequence &&
                le(header + 6, 2) == type && le(header + 12, 4) == size &&
                crc32c_table(salt, header, 44) == le(header + 44, 4) &&
                crc32c_table(salt, header + 48, size) == le(header + 36, 4) &&
                memcmp(header + 48, bytes, size) == 0)
                return;
        }
    }
    MUST(false); /* a record was replayed that is not there */
}

static tw_status hear(void *context, uint64_t sequence, uint16_t type, const uint8_t *bytes,
                      size_t size, struct tw_error *error)
{
    struct heard *heard = context;

    (void)error;
    if (heard->count++ == 0)
        heard->first = sequence;
    MUST(sequence == heard->first + heard->count - 1);
    heard->crc = crc32c(heard->crc, &sequence, sizeof(sequence));
    heard->crc = crc32c(heard->crc, &type, sizeof(type));
    heard->crc = crc32c(heard->crc, bytes, size);
    return TW_OK;
}

static tw_status hear_first(void *context, uint64_t sequence, uint16_t type, const uint8_t *bytes,
                            size_t size, struct tw_error *error)
{
    must_be_good(sequence, type, bytes, size);
    return hear(context, sequence, type, bytes, size, error);
}

static tw_status hear_walk(void *context, const struct tw_journal_entry *entry)
{
    if (entry->problem != TW_JOURNAL_PROBLEM_NONE)
        return TW_OK;
    return hear(context, entry->sequence, entry->type, entry->bytes, entry->size, NULL);
}

static void die(const char *why)
{
    (void)fprintf(stderr, "%s\n", why);
    abort();
}

static tw_status open_log(tw_journal_replay_fn *replay, struct heard *heard,
                          struct tw_journal **ret_journal)
{
    struct tw_journal_options options = {
        .dir = dir, .segment_bytes = 4096, .replay = replay, .replay_context = heard, .die = die};
    struct tw_error error = {0};

    *heard = (struct heard){0};
    tw_status status = tw_journal_open(&options, ret_journal, &error);
    MUST(status == TW_OK || error.text[0] != '\0');
    return status;
}

static void remove_all(void)
{
    file_count = 0;
    files_write();
    (void)rmdir(dir);
}

static void make_dir(void)
{
    const char *shm = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

    (void)snprintf(dir, sizeof(dir), "%s/tradewake-fuzz-XXXXXX", shm);
    if (mkdtemp(dir) == NULL)
        abort();
    (void)atexit(remove_all);
    tw_log_level_set(TW_LOG_NONE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct heard walked, first, second, third;
    struct tw_journal *journal;
    struct tw_error error = {0};
    if (size == 0)
        return 0;
    if (dir[0] == '\0')
        make_dir();

    file_count = 0;
    if (data[0] & 1)
        take_as_files(data + 1, size - 1);
    else
        write_well_and_meddle(data + 1, size - 1);
    files_write();

    walked = (struct heard){0};
    tw_status walk_status = tw_journal_walk(dir, 0, hear_walk, &walked, &error);
    MUST(walk_status == TW_OK || (walk_status == TW_NOT_FOUND && file_count == 0));
    files_must_be_unchanged();

    tw_status status = open_log(hear_first, &first, &journal);
    MUST(first.count == walked.count && first.crc == walked.crc);
    if (status != TW_OK) {
        MUST(status == TW_INVALID);
        files_must_be_unchanged();
        return 0;
    }
    uint64_t appended = tw_journal_appended(journal);
    tw_journal_close(journal);

    MUST(open_log(hear, &second, &journal) == TW_OK);
    MUST(second.count == first.count && second.crc == first.crc);
    MUST(tw_journal_append(journal, 7, "one more", 8) == appended + 1);
    tw_journal_close(journal);

    MUST(open_log(hear, &third, &journal) == TW_OK);
    MUST(third.count == first.count + 1);
    MUST(tw_journal_appended(journal) == appended + 1);
    tw_journal_close(journal);
    return 0;
}
