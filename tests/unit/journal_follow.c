/* A log read behind its writer: server/journal/src/follow.c. */
#include <tradewake/journal/follow.h>
#include <tradewake/journal/journal.h>

#include <tradewake/base/log.h>

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEGMENT = 4096 };

static char dir[64];
static struct tw_journal *journal;
static struct tw_journal_follow *follow;
static struct tw_error error;

static void setup(void)
{
    tw_log_level_set(TW_LOG_NONE);
    (void)strcpy(dir, "/tmp/tradewake-follow-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    const struct tw_journal_options options = {.dir = dir, .segment_bytes = SEGMENT, .syncs = true};
    cr_assert_eq(tw_journal_open(&options, &journal, &error), TW_OK, "%s", error.text);
}

static void teardown(void)
{
    char command[128];
    tw_journal_follow_close(follow);
    tw_journal_close(journal);
    snprintf(command, sizeof command, "rm -rf --one-file-system %s", dir);
    cr_expect_eq(system(command), 0);
}

TestSuite(journal_follow, .init = setup, .fini = teardown, .timeout = 60);

static void append(unsigned from, unsigned until)
{
    for (unsigned i = from; i <= until; i++) {
        char text[256];
        int n = snprintf(text, sizeof text, "record %u %.*s", i, (int)(i % 200), "................................");
        (void)tw_journal_append(journal, (uint16_t)i, text, (size_t)n);
    }
    (void)tw_journal_sync(journal);
}

static uint64_t expected;

static tw_status on_record(void *context, const struct tw_journal_seen *seen, struct tw_error *ignored)
{
    char text[32];
    (void)context, (void)ignored;
    int n = snprintf(text, sizeof text, "record %llu ", (unsigned long long)expected);
    cr_assert_eq(seen->sequence, expected);
    cr_assert_eq(seen->type, (uint16_t)expected);
    cr_assert(seen->size >= (size_t)n && memcmp(seen->bytes, text, (size_t)n) == 0);
    expected++;
    return TW_OK;
}

static void open_after(uint64_t after, uint64_t next_wanted)
{
    uint64_t next = 0;
    cr_assert_eq(tw_journal_follow_open(dir, after, &follow, &next, &error), TW_OK, "%s", error.text);
    cr_assert_eq(next, next_wanted);
    expected = next;
}

static void read_until(uint64_t until)
{
    cr_assert_eq(tw_journal_follow_read(follow, until, on_record, NULL, &error), TW_OK, "%s", error.text);
    cr_assert_eq(expected, until + 1);
}

Test(journal_follow, every_record_once_over_many_segments)
{
    append(1, 500);
    open_after(0, 1);

    read_until(500);
}

Test(journal_follow, it_goes_on_where_it_was_while_the_log_grows)
{
    append(1, 1);
    open_after(0, 1);
    for (unsigned i = 1; i < 300; i += 7) {
        append(i + 1, i + 7);
        read_until(i + 3); /* not all that there is */
        read_until(i + 7);
    }
}

Test(journal_follow, it_begins_behind_a_sequence)
{
    append(1, 300);
    for (uint64_t after = 0; after <= 300; after += 50) {
        open_after(after, after + 1);
        read_until(300);
        tw_journal_follow_close(follow);
        follow = NULL;
    }
}

Test(journal_follow, what_is_gone_is_said)
{
    append(1, 200);
    uint32_t segment = tw_journal_roll(journal);
    append(201, 250);
    tw_journal_forget_before(journal, segment);

    open_after(10, 201);
    read_until(250);
}

Test(journal_follow, a_segment_that_goes_while_it_is_waited_for_is_not_found)
{
    append(1, 10);
    open_after(0, 1);
    read_until(5);
    append(11, 200);
    uint32_t segment = tw_journal_roll(journal);
    append(201, 210);
    tw_journal_forget_before(journal, segment);

    /* What it has open it still reads; then the next segment is not there, and it is told so again and again. */
    cr_assert_neq(tw_journal_follow_read(follow, 210, on_record, NULL, &error), TW_OK);
    cr_assert_eq(tw_journal_follow_read(follow, 210, on_record, NULL, &error), TW_NOT_FOUND);
    cr_expect_lt(expected, 200u);
}

static tw_status on_large(void *context, const struct tw_journal_seen *seen, struct tw_error *ignored)
{
    size_t *total = context;
    (void)ignored;
    for (size_t i = 0; i < seen->size; i++)
        cr_assert_eq(seen->bytes[i], (uint8_t)seen->sequence);
    *total += seen->size;
    return TW_OK;
}

Test(journal_follow, records_larger_than_its_window_and_than_a_segment)
{
    static uint8_t bytes[3u << 20];
    size_t total = 0, appended = 0;
    uint64_t last = 0;
    for (unsigned i = 1; i <= 20; i++) {
        size_t size = i % 3 == 0 ? sizeof bytes : i * 1000;
        memset(bytes, (int)i, size);
        last = tw_journal_append(journal, 1, bytes, size);
        appended += size;
    }
    (void)tw_journal_sync(journal);
    uint64_t next;
    cr_assert_eq(tw_journal_follow_open(dir, 0, &follow, &next, &error), TW_OK);

    cr_assert_eq(tw_journal_follow_read(follow, last, on_large, &total, &error), TW_OK, "%s", error.text);
    cr_expect_eq(total, appended);
}

static tw_status on_third(void *context, const struct tw_journal_seen *seen, struct tw_error *ignored)
{
    bool *has_failed = context;
    if (seen->sequence == 3 && !*has_failed) {
        *has_failed = true;
        return TW_BUSY;
    }
    return on_record(NULL, seen, ignored);
}

Test(journal_follow, a_record_whose_reader_failed_comes_again)
{
    bool has_failed = false;
    append(1, 5);
    open_after(0, 1);

    cr_expect_eq(tw_journal_follow_read(follow, 5, on_third, &has_failed, &error), TW_BUSY);
    cr_expect_eq(tw_journal_follow_read(follow, 5, on_third, &has_failed, &error), TW_OK);
    cr_expect_eq(expected, 6u);
}

/* ---- What is not as it should be: said with its place, and again each time it is asked for ---- */

static void path_of(unsigned segment, char ret[96])
{
    snprintf(ret, 96, "%s/%08u.log", dir, segment);
}

static void overwrite(unsigned segment, long offset, const void *bytes, size_t size)
{
    char path[96];
    path_of(segment, path);
    FILE *file = fopen(path, "r+b");
    cr_assert_not_null(file, "%s", path);
    cr_assert_eq(fseek(file, offset, SEEK_SET), 0);
    cr_assert_eq(fwrite(bytes, 1, size, file), size);
    cr_assert_eq(fclose(file), 0);
}

static tw_status reopen(void)
{
    uint64_t next;
    tw_journal_follow_close(follow);
    follow = NULL;
    return tw_journal_follow_open(dir, 0, &follow, &next, &error);
}

static void expect_damage(const char *words)
{
    cr_expect_eq(tw_journal_follow_read(follow, 300, on_record, NULL, &error), TW_INVALID, "%s", error.text);
    cr_expect_not_null(strstr(error.text, words), "%s", error.text);
    cr_expect_eq(tw_journal_follow_read(follow, 300, on_record, NULL, &error), TW_INVALID, "%s", error.text);
}

Test(journal_follow, where_there_is_no_log_it_is_said)
{
    char empty[96], missing[96];
    struct tw_journal_follow *none;
    uint64_t next;
    snprintf(empty, sizeof empty, "%s/empty", dir);
    snprintf(missing, sizeof missing, "%s/missing", dir);
    cr_assert_eq(mkdir(empty, 0700), 0);

    cr_expect_eq(tw_journal_follow_open(empty, 0, &none, &next, &error), TW_NOT_FOUND);
    cr_expect_not_null(strstr(error.text, "there is no log in"), "%s", error.text);
    cr_expect_neq(tw_journal_follow_open(missing, 0, &none, &next, &error), TW_OK);
}

Test(journal_follow, a_path_that_is_too_long_is_refused)
{
    char path[5000];
    struct tw_journal_follow *none;
    uint64_t next;
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';

    cr_expect_eq(tw_journal_follow_open(path, 0, &none, &next, &error), TW_INVALID);
}

Test(journal_follow, a_damaged_header_is_named)
{
    append(1, 300);
    overwrite(1, 20, "\x7f", 1);
    cr_expect_eq(reopen(), TW_INVALID);
    cr_expect_not_null(strstr(error.text, "00000001.log"), "%s", error.text);
}

Test(journal_follow, a_segment_under_another_number_is_refused)
{
    char from[96], to[96], command[256];
    append(1, 300);
    open_after(0, 1);
    path_of(2, from);
    path_of(3, to);
    snprintf(command, sizeof command, "cp %s %s", from, to);
    cr_assert_eq(system(command), 0);
    expect_damage("segment 2 at");
    cr_expect_not_null(strstr(error.text, "00000003.log: "), "%s", error.text);
    cr_expect_null(strstr(error.text, "good"), "%s", error.text);
}

Test(journal_follow, a_record_whose_bytes_changed_is_damage_with_its_place)
{
    append(1, 300);
    open_after(0, 1);
    overwrite(2, 64 + 48 + 3, "\x7f", 1); /* the first record of the second segment */
    expect_damage("segment 2 at 64");
}

static uint8_t byte_at(unsigned segment, long offset)
{
    char path[96];
    uint8_t byte = 0;
    path_of(segment, path);
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    cr_assert_eq(fseek(file, offset, SEEK_SET), 0);
    cr_assert_eq(fread(&byte, 1, 1, file), 1);
    (void)fclose(file);
    return byte;
}

Test(journal_follow, what_was_damaged_and_is_mended_is_read_on_from_where_it_was)
{
    append(1, 300);
    open_after(0, 1);
    const uint8_t good = byte_at(2, 2000), bad = (uint8_t)(good ^ 0x40);
    overwrite(2, 2000, &bad, 1); /* in the middle of the segment */
    expect_damage("segment 2 at");
    const uint64_t reached = expected;
    overwrite(2, 2000, &good, 1);
    read_until(300); /* each once: on_record() counts */
    cr_expect(reached > 20 && reached < 100, "%lu", (unsigned long)reached);
}

Test(journal_follow, a_record_of_another_place_is_damage)
{
    uint8_t record[48 + 16];
    char path[96];
    append(1, 300);
    open_after(0, 1);
    path_of(1, path);
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file);
    cr_assert_eq(fseek(file, 64, SEEK_SET), 0);
    cr_assert_eq(fread(record, 1, sizeof record, file), sizeof record);
    (void)fclose(file);
    overwrite(2, 64, record, sizeof record); /* whole, with its checksums, and not the one that follows */
    expect_damage("segment 2 at 64");
}

Test(journal_follow, a_segment_that_cannot_be_read_is_a_failure_and_no_damage)
{
    char path[96], away[96];
    append(1, 300);
    open_after(0, 1);
    path_of(2, path);
    snprintf(away, sizeof away, "%s/away", dir);
    cr_assert_eq(rename(path, away), 0);
    cr_assert_eq(mkdir(path, 0700), 0);
    for (int i = 0; i < 2; i++)
        cr_expect_eq(tw_journal_follow_read(follow, 300, on_record, NULL, &error), TW_IO, "%s", error.text);
    cr_expect_lt(expected, 100u);

    cr_assert_eq(rmdir(path), 0);
    cr_assert_eq(rename(away, path), 0);
    read_until(300); /* as if nothing had been */
}
