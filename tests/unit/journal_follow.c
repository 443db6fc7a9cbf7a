/* A log read behind its writer: server/journal/src/follow.c. */
#include <tradewake/journal/follow.h>
#include <tradewake/journal/journal.h>

#include <tradewake/base/log.h>

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
