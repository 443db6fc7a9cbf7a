/* Snapshots of a log: a start reads the newest that is whole and what follows it, and comes to the same as
 * from the whole log; also after a power cut at any call while one is made, or segments are removed. */
#include "journal_disk.h"

#include "crc32c.h"
#include "snapshot_file.h"

#include <tradewake/base/log.h>
#include <tradewake/journal/snapshot.h>

#include <criterion/criterion.h>

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENT_BYTES 4096u
#define RECORDS_MAX   20000u

/* What a log comes to here: how many records, and all of their bytes in their order. */
struct state {
    uint64_t records, digest;
};

static struct disk *disk;
static struct tw_journal *journal;
static struct state expected[RECORDS_MAX]; /* after the record of this sequence */
static struct state state;                 /* as read back */
static uint64_t appended, durable, seed;
static uint64_t replayed; /* records of the log that were handed out */
static uint32_t keep;     /* as the engine does: behind the older of two snapshots */
static sigjmp_buf died;
static bool may_die;

static void setup(void)
{
    tw_log_level_set(getenv("SNAPSHOT_SEED") != NULL ? TW_LOG_INFO : TW_LOG_NONE);
    disk = malloc(sizeof(*disk));
    cr_assert_not_null(disk);
}

static void teardown(void)
{
    free(disk);
}

TestSuite(journal_snapshot, .init = setup, .fini = teardown, .timeout = 120);

static void die(const char *why)
{
    cr_assert(may_die, "seed %" PRIu64 ": %s", seed, why);
    siglongjmp(died, 1);
}

static struct state after(struct state before, const uint8_t *bytes, size_t size)
{
    struct state now = {before.records + 1, before.digest * UINT64_C(0x100000001b3) ^ size};
    for (size_t i = 0; i < size; i++)
        now.digest = (now.digest ^ bytes[i]) * UINT64_C(0x100000001b3);
    return now;
}

static tw_status on_record(void *context, uint64_t sequence, uint16_t type, const uint8_t *bytes, size_t size,
                           struct tw_error *error)
{
    struct state *into = context;
    (void)error;
    if (type == 9) { /* of a snapshot */
        cr_assert_eq(size, sizeof(*into));
        memcpy(into, bytes, size);
        cr_assert_eq(into->records, sequence);
        return TW_OK;
    }
    replayed++;
    *into = after(*into, bytes, size);
    cr_assert_eq(into->records, sequence, "seed %" PRIu64 ": %" PRIu64 " comes as %" PRIu64, seed, sequence,
                 into->records);
    return TW_OK;
}

static tw_status start(struct tw_error *error)
{
    const struct tw_journal_options options = {.dir = disk->dir,
                                               .segment_bytes = SEGMENT_BYTES,
                                               .syncs = true,
                                               .disk = &disk->calls,
                                               .snapshot = on_record,
                                               .replay = on_record,
                                               .replay_context = &state,
                                               .die = die};
    state = (struct state){0};
    replayed = 0;
    return tw_journal_open(&options, &journal, error);
}

static void begin(uint64_t with_seed)
{
    struct tw_error error = {0};
    seed = with_seed;
    may_die = false;
    appended = durable = 0;
    keep = 0;
    disk_init(disk, with_seed);
    cr_assert_eq(start(&error), TW_OK, "%s", error.text);
}

static void end(void)
{
    tw_journal_close(journal);
    journal = NULL;
    disk_clear(disk);
}

/* What is there now is what was appended, and no less than what was durable. */
static void judge(void)
{
    uint64_t last = tw_journal_appended(journal);
    cr_assert(last >= durable && last <= appended, "seed %" PRIu64 ": %" PRIu64 " of %" PRIu64 "..%" PRIu64, seed,
              last, durable, appended);
    cr_assert_eq(state.records, last, "seed %" PRIu64, seed);
    cr_assert(last == 0 || memcmp(&state, &expected[last], sizeof(state)) == 0,
              "seed %" PRIu64 ": another state at %" PRIu64, seed, last);
    appended = durable = last;
}

static void again(void)
{
    struct tw_error error = {0};
    tw_journal_close(journal);
    journal = NULL;
    cr_assert_eq(start(&error), TW_OK, "seed %" PRIu64 ": %s", seed, error.text);
    judge();
}

static void append(void)
{
    uint8_t bytes[400];
    size_t size = (size_t)disk_random(disk, sizeof(bytes));
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)disk_random(disk, 256);
    cr_assert_lt(appended + 1, RECORDS_MAX);
    expected[appended + 1] = after(appended > 0 ? expected[appended] : (struct state){0}, bytes, size);
    appended++; /* it may come back even if append does not */
    cr_assert_eq(tw_journal_append(journal, 3, bytes, size), appended);
    if (durable < tw_journal_durable(journal))
        durable = tw_journal_durable(journal);
}

static void sync_log(void)
{
    durable = tw_journal_sync(journal);
}

static void fill_segments(uint32_t n)
{
    uint32_t until = tw_journal_segment(journal) + n;
    while (tw_journal_segment(journal) < until) {
        append();
        if (appended % 8 == 0)
            sync_log();
    }
}

/* As the engine: a snapshot of what is sealed. */
static tw_status make(struct tw_error *error)
{
    struct state from = {0};
    struct tw_snapshot *snapshot;
    const struct tw_snapshot_options options = {.dir = disk->dir,
                                                .disk = &disk->calls,
                                                .until = tw_journal_segment(journal) - 1,
                                                .snapshot = on_record,
                                                .replay = on_record,
                                                .context = &from};
    uint64_t bytes;
    uint32_t newest[2];
    if (options.until == 0)
        return TW_NOT_FOUND;
    tw_status status = tw_snapshot_begin(&options, &snapshot, error);
    if (status == TW_OK) {
        tw_snapshot_put(snapshot, 9, &from, sizeof(from));
        status = tw_snapshot_finish(snapshot, &bytes, error);
    }
    if (status == TW_OK && tw_snapshot_newest(disk->dir, newest, error) == TW_OK)
        keep = newest[1];
    return status;
}

static void forget(void)
{
    tw_journal_forget_before(journal, keep);
}

static bool exists(uint32_t snapshot)
{
    return disk_snapshot(disk, snapshot) != NULL;
}

static void make_well(void)
{
    struct tw_error error = {0};
    cr_assert_eq(make(&error), TW_OK, "%s", error.text);
}

Test(journal_snapshot, a_start_reads_the_newest_and_what_follows_it)
{
    begin(1);
    fill_segments(4);
    make_well();
    append();
    sync_log();
    uint32_t sealed = tw_journal_segment(journal) - 1;
    uint64_t since = appended + 1 - tw_journal_segment_first(journal, sealed + 1);

    again();

    cr_expect_eq(tw_journal_snapshot(journal), sealed);
    cr_expect_eq(replayed, since);
    end();
}

Test(journal_snapshot, two_stay_and_the_log_behind_the_older_one)
{
    uint32_t segments;
    uint64_t bytes;
    begin(2);
    for (int i = 0; i < 5; i++) {
        fill_segments(3);
        make_well();
        forget();
        again();
    }
    uint32_t newest[2];
    struct tw_error error = {0};
    cr_assert_eq(tw_snapshot_newest(disk->dir, newest, &error), TW_OK);
    cr_expect_eq(newest[0], tw_journal_segment(journal) - 1);
    cr_expect_eq(newest[1], newest[0] - 3);
    cr_expect(!exists(newest[1] - 3));
    cr_expect_not_null(disk_segment(disk, newest[1]));
    cr_expect_null(disk_segment(disk, newest[1] - 1));
    tw_journal_size(journal, &segments, &bytes);
    cr_expect_eq(segments, 5);
    end();
}

Test(journal_snapshot, no_more_is_removed_than_the_bytes_ask_for)
{
    begin(3);
    fill_segments(6);
    uint32_t segments;
    uint64_t bytes;
    tw_journal_size(journal, &segments, &bytes);
    cr_expect_eq(tw_journal_oldest_for(journal, UINT64_MAX), 1);
    cr_expect_eq(tw_journal_oldest_for(journal, 0), 7);
    uint32_t half = tw_journal_oldest_for(journal, bytes / 2);
    cr_expect(half > 2 && half < 6, "%u", half);
    end();
}

static void tamper(struct disk_file *file, size_t offset)
{
    uint8_t byte;
    cr_assert_not_null(file);
    byte = (uint8_t)(file->bytes[offset] ^ 0x10);
    disk_tamper(file, offset, &byte, 1);
}

Test(journal_snapshot, a_damaged_one_gives_way_to_the_one_before_it)
{
    for (size_t offset = 0; offset < 88; offset += 3) { /* all of it is 88 bytes */
        begin(4);
        for (int i = 0; i < 3; i++) {
            fill_segments(2);
            make_well();
            forget();
        }
        uint32_t newest = tw_journal_segment(journal) - 1;
        tamper(disk_snapshot(disk, newest), offset);
        again();
        cr_expect_eq(tw_journal_snapshot(journal), newest - 2, "byte %zu", offset);

        fill_segments(2);
        make_well(); /* from the older one; the damaged one goes, the older one stays */
        forget();
        cr_expect(!exists(newest) && exists(newest - 2));
        again();
        cr_expect_eq(tw_journal_snapshot(journal), newest + 2);
        end();
    }
}

Test(journal_snapshot, without_any_the_log_is_enough_while_it_is_whole)
{
    begin(5);
    fill_segments(3);
    make_well();
    tamper(disk_snapshot(disk, 3), 70);
    again();
    cr_expect_eq(tw_journal_snapshot(journal), 0);
    cr_expect_eq(replayed, appended);
    end();
}

Test(journal_snapshot, without_any_a_log_whose_beginning_is_gone_is_refused)
{
    struct tw_error error = {0};
    begin(6);
    for (int i = 0; i < 3; i++) {
        fill_segments(2);
        make_well();
        forget();
    }
    tamper(disk_snapshot(disk, 6), 70);
    tamper(disk_snapshot(disk, 4), 70);
    tw_journal_close(journal);
    journal = NULL;
    cr_expect_eq(start(&error), TW_INVALID);
    cr_expect_not_null(strstr(error.text, "no snapshot stands before it"), "%s", error.text);
    cr_expect_not_null(strstr(error.text, "00000006.snapshot is damaged"), "%s", error.text);
    disk_clear(disk);
}

Test(journal_snapshot, one_of_another_log_is_refused)
{
    struct tw_error error = {0};
    begin(7);
    fill_segments(3);
    make_well();
    struct disk_file *file = disk_snapshot(disk, 3);
    uint8_t *bytes = malloc(file->size);
    size_t size = file->size;
    memcpy(bytes, file->bytes, size);
    end();
    begin(8);
    fill_segments(3);
    make_well();
    disk_tamper(disk_snapshot(disk, 3), 0, bytes, size);
    free(bytes);
    tw_journal_close(journal);
    journal = NULL;
    cr_expect_eq(start(&error), TW_INVALID);
    cr_expect_not_null(strstr(error.text, "of another log"), "%s", error.text);
    disk_clear(disk);
}

/* ---- One file, read by itself ---- */

static tw_status nothing(void *context, uint64_t sequence, uint16_t type, const uint8_t *bytes, size_t size, struct tw_error *error)
{
    (void)sequence, (void)type, (void)bytes, (void)size, (void)error;
    ++*(unsigned *)context;
    return TW_OK;
}

static tw_status read_one(uint32_t segment, struct tw_error *error)
{
    struct tw_snapshot_place place;
    unsigned records = 0;
    return tw_snapshot_read(disk->dir, &disk->calls, segment, nothing, &records, &place, error);
}

static void expect_refused(uint32_t segment, tw_status status, const char *words)
{
    struct tw_error error = {0};
    cr_expect_eq(read_one(segment, &error), status, "%s: %s", words, error.text);
    cr_expect_not_null(strstr(error.text, words), "%s", error.text);
}

static void head_put(struct disk_file *file, const struct snapshot_head *head)
{
    uint8_t bytes[SNAPSHOT_HEADER_BYTES];
    snapshot_head_write(head, bytes);
    snapshot_put32(bytes + 8, head->version); /* a writer knows its own alone */
    snapshot_put32(bytes + 60, crc32c(0, bytes, 60));
    disk_tamper(file, 0, bytes, sizeof bytes);
}

static uint64_t number_at(const struct disk_file *file, size_t offset, unsigned n)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < n; i++)
        value |= (uint64_t)file->bytes[offset + i] << (8 * i);
    return value;
}

Test(journal_snapshot, a_file_that_is_not_whole_says_how)
{
    struct tw_error error = {0};
    begin(11);
    fill_segments(3);
    make_well();
    struct disk_file *file = disk_snapshot(disk, 3);
    cr_assert_eq(read_one(3, &error), TW_OK, "%s", error.text);
    const struct snapshot_head good = {.version = SNAPSHOT_VERSION,
                                       .place = {3, number_at(file, 16, 8), (uint32_t)number_at(file, 24, 4)},
                                       .size = number_at(file, 32, 8),
                                       .records = number_at(file, 40, 8),
                                       .crc = (uint32_t)number_at(file, 48, 4)};
    struct snapshot_head head = good;
    head.version = SNAPSHOT_VERSION + 7;
    head_put(file, &head);
    expect_refused(3, TW_INVALID, "of version 8, expected 1");
    head = good;
    head.place.segment = 2;
    head_put(file, &head);
    expect_refused(3, TW_INVALID, "called as another one");
    head = good;
    head.place.sequence = 0;
    head_put(file, &head);
    expect_refused(3, TW_INVALID, "called as another one");
    head = good;
    head.size++;
    head_put(file, &head);
    expect_refused(3, TW_INVALID, "it ends too early");
    head = good;
    head.records++; /* all bytes are right, and one record is missing: the file was exchanged between the two readings */
    head_put(file, &head);
    expect_refused(3, TW_IO, "has changed while it was read");
    head_put(file, &good);
    tamper(file, SNAPSHOT_HEADER_BYTES);
    expect_refused(3, TW_INVALID, "do not match their checksum");
    tamper(file, SNAPSHOT_HEADER_BYTES);
    cr_expect_eq(read_one(3, &error), TW_OK, "%s", error.text);
    disk_truncate(file, SNAPSHOT_HEADER_BYTES - 1);
    expect_refused(3, TW_INVALID, "it ends in its header");
    cr_expect_eq(read_one(4, &error), TW_NOT_FOUND);
    end();
}

Test(journal_snapshot, a_failure_at_any_call_of_reading_one_is_told)
{
    struct tw_error error = {0};
    begin(12);
    fill_segments(3);
    make_well();
    unsigned failures = 0;
    for (uint64_t n = 1;; n++) {
        disk->fail_at = disk->call_count + n;
        disk->fail_errno = EIO;
        tw_status status = read_one(3, &error);
        disk_heal(disk);
        if (status == TW_OK)
            break; /* the failing call was the closing, or none */
        cr_expect_eq(status, TW_IO, "call %lu: %s", (unsigned long)n, error.text);
        failures++;
    }
    cr_expect_geq(failures, 3, "opening, header, body: %u", failures);
    disk->is_short = true; /* and in pieces, interrupted or not */
    cr_expect_eq(read_one(3, &error), TW_OK, "%s", error.text);
    end();
}

Test(journal_snapshot, a_directory_whose_name_is_too_long_has_none)
{
    static char path[SEGMENT_PATH_BYTES + 8];
    struct tw_error error = {0};
    struct tw_snapshot_place place;
    unsigned records = 0;
    memset(path, 'x', sizeof path - 1);
    cr_expect_eq(tw_snapshot_read(path, NULL, 1, nothing, &records, &place, &error), TW_INVALID);
    char out[SEGMENT_PATH_BYTES];
    cr_expect_not(snapshot_path_new(path, 1, out));
}

static unsigned fails_at; /* the call of calloc() that fails; 0 = none does */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    return fails_at > 0 && --fails_at == 0 ? NULL : __real_calloc(n, size);
}

Test(journal_snapshot, a_start_without_memory_says_so_and_the_next_one_is_whole)
{
    struct tw_error error = {0};
    begin(13);
    fill_segments(3);
    make_well();
    fill_segments(3);
    tw_journal_close(journal);
    journal = NULL;
    unsigned failures = 0;
    for (unsigned n = 1; journal == NULL; n++) {
        error.text[0] = '\0';
        fails_at = n;
        tw_status status = start(&error);
        fails_at = 0;
        if (status == TW_OK)
            break;
        cr_expect_eq(status, TW_NO_MEMORY, "call %u: %s", n, error.text);
        cr_expect_neq(error.text[0], '\0', "call %u", n);
        failures++;
    }
    cr_expect_geq(failures, 2, "%u", failures);
    tw_journal_close(journal);
    journal = NULL;
    cr_expect_eq(start(&error), TW_OK, "%s", error.text);
    end();
}

Test(journal_snapshot, the_segment_in_use_has_none)
{
    struct tw_error error = {0};
    struct tw_snapshot *snapshot;
    struct state from = {0};
    begin(9);
    fill_segments(2);
    const struct tw_snapshot_options options = {.dir = disk->dir,
                                                .disk = &disk->calls,
                                                .until = tw_journal_segment(journal),
                                                .snapshot = on_record,
                                                .replay = on_record,
                                                .context = &from};
    append();
    sync_log();
    cr_expect_eq(tw_snapshot_begin(&options, &snapshot, &error), TW_INVALID);
    end();
}

/* ---- Power cuts ---- */

/* One life; true: it came to its end. */
static bool live(void)
{
    struct tw_error error = {0};
    may_die = true;
    if (sigsetjmp(died, 0) != 0)
        return false;
    for (int i = 0; i < 3; i++) {
        fill_segments(2);
        (void)make(&error);
        forget();
    }
    return disk->cut_at == 0 || disk->call_count < disk->cut_at;
}

Test(journal_snapshot, a_power_cut_at_any_call_loses_nothing)
{
    bool is_whole = false;
    uint64_t call = 0;
    for (; !is_whole; call++) {
        begin(1000 + call);
        uint64_t before = disk->call_count;
        disk->cut_at = before + 1 + call;
        is_whole = live();
        may_die = false;
        tw_journal_close(journal);
        journal = NULL;
        struct tw_error error = {0};
        disk_power_cut(disk, (enum disk_keeps)(call % DISK_KEEPS_COUNT));
        cr_assert_eq(start(&error), TW_OK, "call %" PRIu64 ": %s", call, error.text);
        judge();
        fill_segments(2);
        make_well();
        forget();
        again();
        end();
    }
    cr_expect_gt(call, 150, "only %" PRIu64 " calls", call);
}

/* A call that fails: no snapshot, and the log goes on; or the process ends with its words. */
Test(journal_snapshot, a_failure_at_any_call_loses_nothing)
{
    static const int failures[] = {5 /* EIO */, 28 /* ENOSPC */};
    uint64_t call = 0;
    for (bool is_reached = true; is_reached; call++) {
        struct tw_error error = {0};
        begin(2000 + call);
        disk->fail_at = disk->call_count + 1 + call;
        disk->fail_errno = failures[call % 2];
        (void)live();
        may_die = false;
        is_reached = disk->call_count >= disk->fail_at;
        disk_heal(disk);
        tw_journal_close(journal);
        journal = NULL;
        cr_assert_eq(start(&error), TW_OK, "call %" PRIu64 ": %s", call, error.text);
        judge();
        end();
    }
}

static void random_step(uint64_t *snapshots)
{
    struct tw_error error = {0};
    uint64_t what = disk_random(disk, 40);
    if (what == 0)
        *snapshots += make(&error) == TW_OK;
    else if (what == 1)
        forget();
    else if (what < 8)
        sync_log();
    else
        append();
}

static void random_life(uint64_t *snapshots)
{
    struct tw_error error = {0};
    if (disk_random(disk, 2) == 0)
        disk->cut_at = disk->call_count + 1 + disk_random(disk, 400);
    may_die = true;
    if (sigsetjmp(died, 0) == 0)
        for (uint64_t left = disk_random(disk, 120); left > 0; left--)
            random_step(snapshots);
    may_die = false;
    bool is_cut = disk->cut_at != 0;
    tw_journal_close(journal);
    journal = NULL;
    if (is_cut)
        disk_power_cut(disk, (enum disk_keeps)disk_random(disk, DISK_KEEPS_COUNT));
    cr_assert_eq(start(&error), TW_OK, "seed %" PRIu64 ": %s", seed, error.text);
    judge();
}

/* Random lives, one after the other, each ended by a power cut at any call or none. */
Test(journal_snapshot, lives)
{
    const char *one = getenv("SNAPSHOT_SEED"); /* to look at one that failed */
    uint64_t first = one != NULL ? strtoull(one, NULL, 10) : 10001, last = one != NULL ? first : first + 299;
    uint64_t snapshots = 0;
    for (uint64_t at = first; at <= last; at++) {
        begin(at);
        for (int life = 0; life < 5; life++)
            random_life(&snapshots);
        end();
    }
    cr_expect(one != NULL || snapshots > 100, "only %" PRIu64, snapshots);
}
