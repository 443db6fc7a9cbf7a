/* What a log looks like when it is opened, and what is said of it. */
#include "journal_oracle.h"
#include "record.h"

#include <tradewake/base/log.h>

#include <criterion/criterion.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENT_BYTES 8192u

static struct oracle oracle;
static struct tw_error error;

static void setup(void)
{
    tw_log_level_set(TW_LOG_NONE);
    oracle_init(&oracle, 1, SEGMENT_BYTES);
    error = (struct tw_error){0};
}

static void teardown(void)
{
    oracle_clear(&oracle);
}

static void open_well(void)
{
    cr_assert_eq(oracle_open(&oracle, &error), TW_OK, "%s", error.text);
}

static void append_all(const size_t *sizes, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        oracle_append(&oracle, sizes[i]);
}

/* Records of 200 bytes: 248 in all, from offset 64 on. Each second one is synced, so that the next
 * one says so. */
#define RECORD_BYTES 248u
static void log_of(unsigned records)
{
    open_well();
    for (unsigned i = 0; i < records; i++) {
        oracle_append(&oracle, 200);
        if (i % 2 == 1)
            oracle_sync(&oracle);
    }
    oracle_sync(&oracle);
    oracle_close(&oracle);
}

static uint64_t offset_of(unsigned record) /* from 1 */
{
    return SEGMENT_HEADER_BYTES + (uint64_t)(record - 1) * RECORD_BYTES;
}

/* The whole directory stays as it is: nothing made worse. */
static void refused(tw_status status, const char *const *words)
{
    struct disk_file *file = disk_segment(&oracle.disk, 1);
    size_t size = file != NULL ? file->size : 0;
    uint8_t *before = malloc(size + 1);
    cr_assert_not_null(before);
    if (file != NULL)
        memcpy(before, file->bytes, size);

    cr_assert_eq(oracle_open(&oracle, &error), status, "%s", error.text);
    for (; *words != NULL; words++)
        cr_expect_not_null(strstr(error.text, *words), "\"%s\" is not in: %s", *words, error.text);
    if (file != NULL) {
        cr_expect_eq(file->size, size);
        cr_expect_arr_eq(file->bytes, before, size);
    }
    free(before);
}
#define REFUSED(status, ...) refused(status, (const char *const[]){__VA_ARGS__, NULL})

TestSuite(journal_open, .init = setup, .fini = teardown, .timeout = 30);

Test(journal_open, an_empty_directory_is_the_beginning_of_a_log)
{
    open_well();

    cr_expect_eq(tw_journal_appended(oracle.journal), 0);
    cr_expect_eq(tw_journal_durable(oracle.journal), 0);
    cr_expect(tw_journal_has_room(oracle.journal));
    oracle_append(&oracle, 10);
    oracle_sync(&oracle);
    oracle_close(&oracle);
    open_well();
    cr_expect_eq(oracle.replayed_last, 1);
}

Test(journal_open, a_directory_that_is_missing_is_made)
{
    char dir[96];
    (void)snprintf(dir, sizeof(dir), "%s/new", oracle.disk.dir);
    struct tw_journal_options options = {.dir = dir, .syncs = true};
    struct tw_journal *journal;

    cr_assert_eq(tw_journal_open(&options, &journal, &error), TW_OK, "%s", error.text);
    tw_journal_close(journal);

    char path[128];
    (void)snprintf(path, sizeof(path), "%s/00000001.log", dir);
    cr_expect_eq(unlink(path), 0);
    cr_expect_eq(rmdir(dir), 0);
}

Test(journal_open, a_second_opening_is_refused_while_the_first_has_it)
{
    open_well();
    struct tw_journal_options options = {.dir = oracle.disk.dir, .syncs = true};
    struct tw_journal *second = NULL;

    cr_expect_eq(tw_journal_open(&options, &second, &error), TW_EXISTS);
    cr_expect_not_null(strstr(error.text, "another process has"), "%s", error.text);
    cr_expect_null(second);

    oracle_close(&oracle);
    open_well();
}

Test(journal_open, a_full_disk_says_so)
{
    oracle.disk.room_bytes = 0;

    REFUSED(TW_IO, "the disk is full", "make room");
}

Test(journal_open, a_read_only_directory_says_so)
{
    log_of(3);
    for (int at = 1; at <= 20; at++) { /* whichever call meets it */
        disk_heal(&oracle.disk);
        oracle.disk.fail_at = (uint64_t)at;
        oracle.disk.fail_errno = EROFS;
        if (oracle_open(&oracle, &error) == TW_OK) {
            oracle_close(&oracle);
            cr_assert_gt(at, 5, "nothing was called");
            return;
        }
        cr_expect_not_null(strstr(error.text, "must be on a writable disk"), "%d: %s", at,
                           error.text);
    }
    cr_assert_fail("never opened");
}

Test(journal_open, a_log_that_belongs_to_somebody_else_says_so)
{
    char dir[96], path[128];
    (void)snprintf(dir, sizeof(dir), "%s/other", oracle.disk.dir);
    (void)snprintf(path, sizeof(path), "%s/00000001.log", dir);
    struct tw_journal_options options = {.dir = dir, .syncs = true};
    struct tw_journal *journal;
    if (geteuid() == 0)
        cr_skip_test("the superuser may write anywhere");
    cr_assert_eq(tw_journal_open(&options, &journal, &error), TW_OK, "%s", error.text);
    tw_journal_close(journal);

    cr_assert_eq(chmod(path, 0440), 0);
    cr_expect_eq(tw_journal_open(&options, &journal, &error), TW_IO);
    cr_expect_not_null(strstr(error.text, "not allowed"), "%s", error.text);

    cr_expect_eq(unlink(path), 0);
    cr_assert_eq(chmod(dir, 0550), 0);
    cr_expect_eq(tw_journal_open(&options, &journal, &error), TW_IO);
    cr_expect_not_null(strstr(error.text, "not allowed"), "%s", error.text);
    cr_expect_eq(rmdir(dir), 0);
}

Test(journal_open, a_flipped_byte_in_what_was_durable_is_damage)
{
    log_of(10);
    struct disk_file *file = disk_segment(&oracle.disk, 1);
    uint8_t flipped = file->bytes[offset_of(4) + 100] ^ 1;

    disk_tamper(file, offset_of(4) + 100, &flipped, 1);

    REFUSED(TW_INVALID, "damage in", "00000001.log", "offset 808,",
            "sequence 4:", "bytes do not match their checksum", "Nothing was changed");
}

Test(journal_open, a_flipped_byte_in_a_header_is_damage)
{
    log_of(10);
    struct disk_file *file = disk_segment(&oracle.disk, 1);
    uint8_t flipped =
        file->bytes[offset_of(4) + 12] ^ 1; /* its size: the next one is not where it says */

    disk_tamper(file, offset_of(4) + 12, &flipped, 1);

    REFUSED(TW_INVALID, "damage in", "sequence 4:", "header that does not match its checksum");
}

Test(journal_open, every_flipped_bit_is_damage_or_is_the_end)
{
    log_of(6);
    struct disk_file *file = disk_segment(&oracle.disk, 1);

    for (size_t at = 0; at < offset_of(7); at += 7) {
        uint8_t was = file->bytes[at];
        uint8_t flipped = was ^ 0x10;
        disk_tamper(file, at, &flipped, 1);
        /* The last claim is of record 5, that 4 are durable: behind them it is the end of a crash.
         */
        oracle.durable = 4;
        oracle.appended = 6;
        tw_status status = oracle_open(&oracle, &error);
        cr_expect_eq(status, at < offset_of(5) ? TW_INVALID : TW_OK, "%zu: %s", at, error.text);
        if (status == TW_OK)
            break;
        disk_tamper(file, at, &was, 1);
    }
}

Test(journal_open, a_hole_with_records_behind_it_that_call_it_durable_is_damage)
{
    log_of(10);
    uint8_t zeros[RECORD_BYTES] = {0};

    disk_tamper(disk_segment(&oracle.disk, 1), offset_of(4), zeros, sizeof(zeros));

    REFUSED(TW_INVALID, "damage in", "sequence 4:", "a hole");
}

Test(journal_open, a_hole_with_valid_records_behind_it_that_were_never_durable_is_cut)
{
    open_well();
    const size_t sizes[] = {200, 200, 200, 200, 200, 200};
    append_all(sizes, 2);
    oracle_sync(&oracle);
    append_all(sizes, 4); /* 3 to 6, which say that 2 are durable */
    oracle_close(&oracle);
    uint8_t zeros[RECORD_BYTES] = {0};
    struct disk_file *file = disk_segment(&oracle.disk, 1);
    disk_tamper(file, offset_of(3), zeros, sizeof(zeros));

    open_well();

    cr_expect_eq(oracle.replayed_last, 2);
    for (size_t i = offset_of(3); i < file->size; i++)
        cr_assert_eq(file->bytes[i], 0, "byte %zu was not zeroed", i);
}

Test(journal_open, the_rest_is_zeroed_on_the_disk_before_anything_is_appended)
{
    open_well();
    oracle_append(&oracle, 200);
    oracle_sync(&oracle);
    for (int i = 0; i < 4; i++)
        oracle_append(&oracle, 200);
    oracle_close(&oracle);
    struct disk_file *file = disk_segment(&oracle.disk, 1);
    uint8_t zeros[RECORD_BYTES] = {0};
    disk_tamper(file, offset_of(2), zeros, sizeof(zeros));

    open_well();
    oracle_close(&oracle);
    disk_power_cut(&oracle.disk, DISK_KEEPS_NOTHING);

    for (size_t i = offset_of(2); i < file->size; i++)
        cr_assert_eq(file->bytes[i], 0, "byte %zu came back", i);
}

/* The one before it is written again, byte for byte what it was, and what once followed it is still
 * there: only that it is of another life tells that it does not follow. */
Test(journal_open, a_stale_record_does_not_come_back_even_behind_the_same_bytes)
{
    open_well();
    oracle_append(&oracle, 200);
    oracle_sync(&oracle);
    oracle_append(&oracle, 200);
    uint64_t seed = oracle.seeds[2];
    oracle_append(&oracle, 200);
    oracle_close(&oracle);
    struct disk_file *file = disk_segment(&oracle.disk, 1);
    uint8_t stale[RECORD_BYTES], first[RECORD_BYTES];
    memcpy(first, file->bytes + offset_of(2), sizeof(first));
    memcpy(stale, file->bytes + offset_of(3), sizeof(stale));
    disk_truncate(file, offset_of(2));

    open_well();
    uint8_t again[200];
    memcpy(again, first + RECORD_HEADER_BYTES, sizeof(again));
    cr_assert_eq(tw_journal_append(oracle.journal, (uint16_t)(seed >> 48), again, sizeof(again)),
                 2);
    oracle.appended = 2;
    oracle_sync(&oracle);
    oracle_close(&oracle);
    disk_tamper(file, offset_of(3), stale, sizeof(stale));

    open_well();
    cr_expect_eq(oracle.replayed_last, 2);
}

Test(journal_open, a_cut_tail_is_cut_and_the_log_goes_on)
{
    open_well();
    oracle_append(&oracle, 200);
    oracle_sync(&oracle);
    oracle_append(&oracle, 200);
    oracle_close(&oracle);

    for (size_t size = offset_of(3); size-- > offset_of(2);) {
        disk_truncate(disk_segment(&oracle.disk, 1), size);
        open_well();
        cr_expect_eq(oracle.replayed_last, 1, "cut to %zu bytes", size);
        oracle_append(&oracle, 200);
        oracle_close(&oracle);
    }
    oracle.durable = 2; /* the last one is whole */
    open_well();
}

Test(journal_open, a_log_of_another_version_is_refused_by_its_number)
{
    log_of(3);
    struct disk_file *file = disk_segment(&oracle.disk, 1);
    struct segment_header header;
    uint8_t bytes[SEGMENT_HEADER_BYTES];
    cr_assert_eq(segment_header_read(file->bytes, file->size, &header), FOUND_GOOD);
    header.version = 7;
    segment_header_write(&header, bytes);

    disk_tamper(file, 0, bytes, sizeof(bytes));

    REFUSED(TW_INVALID, "00000001.log", "is of version 7, expected 1", "Nothing was changed");
}

Test(journal_open, a_record_of_another_version_is_refused_by_its_number)
{
    log_of(3);
    struct disk_file *file = disk_segment(&oracle.disk, 1);
    struct segment_header header;
    struct record record;
    cr_assert_eq(segment_header_read(file->bytes, file->size, &header), FOUND_GOOD);
    cr_assert_eq(record_read(file->bytes + offset_of(3), RECORD_BYTES, header.salt, &record),
                 FOUND_GOOD);
    uint8_t bytes[RECORD_HEADER_BYTES];
    record.version = 2;
    record_header_write(&record, header.salt, bytes);

    disk_tamper(file, offset_of(3), bytes, sizeof(bytes));

    REFUSED(TW_INVALID, "offset 560", "is of version 2, expected 1");
}

/* Several segments; numbers of records do not matter. */
static void log_of_segments(uint32_t segments)
{
    open_well();
    for (uint32_t i = 1; i < segments; i++) {
        oracle_append(&oracle, 200);
        oracle_append(&oracle, 300);
        (void)tw_journal_roll(oracle.journal);
    }
    oracle_append(&oracle, 200);
    oracle_sync(&oracle);
    oracle_close(&oracle);
}

Test(journal_open, a_missing_segment_is_named)
{
    log_of_segments(5);
    disk_remove(&oracle.disk, 3);

    REFUSED(TW_INVALID, "00000003.log is missing", "Nothing was changed");
}

Test(journal_open, a_segment_that_ends_too_early_is_damage_because_a_later_one_was_begun)
{
    log_of_segments(3);
    disk_truncate(disk_segment(&oracle.disk, 2), SEGMENT_HEADER_BYTES + RECORD_BYTES);

    REFUSED(TW_INVALID, "damage in", "00000003.log at offset 0", "does not follow");
}

Test(journal_open, a_bad_last_record_of_a_segment_is_damage_because_a_later_one_was_begun)
{
    log_of_segments(3);
    uint8_t other = 0xee;
    disk_tamper(disk_segment(&oracle.disk, 2), SEGMENT_HEADER_BYTES + RECORD_BYTES + 60, &other, 1);

    REFUSED(TW_INVALID, "damage in", "00000002.log at offset 312", "sequence 4:");
}

Test(journal_open, segments_that_changed_places_are_damage)
{
    log_of_segments(3);
    struct disk_file *second = disk_segment(&oracle.disk, 2);
    struct disk_file *third = disk_segment(&oracle.disk, 3);
    uint8_t bytes[SEGMENT_BYTES];
    memcpy(bytes, second->bytes, sizeof(bytes));
    disk_tamper(second, 0, third->bytes, third->size);
    disk_tamper(third, 0, bytes, sizeof(bytes));

    REFUSED(TW_INVALID, "damage in", "00000002.log at offset 0", "does not follow");
}

Test(journal_open, the_oldest_segment_without_its_header_is_damage)
{
    log_of_segments(3);
    uint8_t zeros[SEGMENT_HEADER_BYTES] = {0};
    disk_tamper(disk_segment(&oracle.disk, 1), 0, zeros, sizeof(zeros));

    REFUSED(TW_INVALID, "damage in", "00000001.log at offset 0", "without its header");
}

/* The next segment's file is there already, all zeros: it was made when the first was begun. */
Test(journal_open, an_oldest_segment_that_lost_all_its_bytes_is_damage)
{
    log_of(3);
    cr_assert_not_null(disk_segment(&oracle.disk, 2));
    disk_truncate(disk_segment(&oracle.disk, 1), 0);

    REFUSED(TW_INVALID, "damage in", "00000001.log at offset 0", "without its header");
}

Test(journal_open, a_first_start_that_was_cut_short_is_begun_again)
{
    open_well();
    oracle_close(&oracle);
    struct disk_file *file = disk_segment(&oracle.disk, 1);
    uint8_t zeros[SEGMENT_HEADER_BYTES] = {0};

    for (size_t kept = 0; kept < SEGMENT_HEADER_BYTES; kept += 9) {
        disk_tamper(file, kept, zeros, SEGMENT_HEADER_BYTES - kept);
        open_well();
        cr_expect_eq(tw_journal_appended(oracle.journal), 0);
        oracle_close(&oracle);
    }
}

static tw_status say_no(void *context, uint64_t sequence, uint16_t type, const uint8_t *bytes,
                        size_t size, struct tw_error *why)
{
    (void)context, (void)type, (void)bytes, (void)size;
    return sequence < 2 ? TW_OK : tw_error_set(why, TW_LIMIT, "no more than one");
}

Test(journal_open, a_replay_that_says_no_ends_the_opening_with_its_words)
{
    log_of(3);
    struct tw_journal_options options = {
        .dir = oracle.disk.dir, .syncs = true, .disk = &oracle.disk.calls, .replay = say_no};
    struct tw_journal *journal = NULL;

    cr_expect_eq(tw_journal_open(&options, &journal, &error), TW_LIMIT);
    cr_expect_str_eq(error.text, "no more than one");
    cr_expect_null(journal);
    open_well();
}

Test(journal_open, a_segment_size_that_cannot_be_is_refused_with_both_numbers)
{
    struct tw_journal_options options = {.dir = oracle.disk.dir, .segment_bytes = 100};
    struct tw_journal *journal = NULL;

    cr_expect_eq(tw_journal_open(&options, &journal, &error), TW_INVALID);
    cr_expect_not_null(strstr(error.text, "segment_bytes is 100, expected 4096.."), "%s",
                       error.text);
    cr_expect_null(journal);
}

/* Who created it was killed before he had synced the directory. */
Test(journal_open, a_name_that_only_the_page_cache_knows_is_on_the_disk_before_it_is_used)
{
    log_of_segments(3);
    struct disk_file *next = disk_segment(&oracle.disk, 4);
    cr_assert_not_null(next);
    next->was_named = false;

    open_well();

    cr_expect(next->was_named);
}
