#include "journal_oracle.h"
#include "record.h"

#include <tradewake/base/log.h>

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#define SEGMENT_BYTES 16384u

static struct oracle oracle;

static void open_well(void)
{
    struct tw_error error = {0};

    cr_assert_eq(oracle_open(&oracle, &error), TW_OK, "%s", error.text);
}

static void setup(void)
{
    tw_log_level_set(TW_LOG_NONE);
    oracle_init(&oracle, 1, SEGMENT_BYTES);
    open_well();
}

static void teardown(void)
{
    oracle_clear(&oracle);
}

TestSuite(journal_append, .init = setup, .fini = teardown, .timeout = 30);

Test(journal_append, sequences_are_from_one_without_gaps_and_go_on_after_a_restart)
{
    cr_expect_eq(tw_journal_append(oracle.journal, 1, "a", 1), 1);
    cr_expect_eq(tw_journal_append(oracle.journal, 1, "b", 1), 2);
    cr_expect_eq(tw_journal_appended(oracle.journal), 2);

    oracle_close(&oracle);
    struct tw_journal_options options = {
        .dir = oracle.disk.dir, .syncs = true, .disk = &oracle.disk.calls};
    struct tw_error error = {0};
    cr_assert_eq(tw_journal_open(&options, &oracle.journal, &error), TW_OK, "%s", error.text);

    cr_expect_eq(tw_journal_append(oracle.journal, 1, "c", 1), 3);
}

Test(journal_append, nothing_is_durable_before_a_sync_and_all_of_it_after)
{
    oracle_append(&oracle, 100);
    oracle_append(&oracle, 100);
    cr_expect_eq(tw_journal_durable(oracle.journal), 0);

    cr_expect_eq(tw_journal_sync(oracle.journal), 2);
    cr_expect_eq(tw_journal_durable(oracle.journal), 2);
}

Test(journal_append, a_sync_with_nothing_new_does_not_trouble_the_disk)
{
    oracle_append(&oracle, 100);
    oracle_sync(&oracle);
    uint64_t syncs = oracle.disk.synced_count;

    oracle_sync(&oracle);

    cr_expect_eq(oracle.disk.synced_count, syncs);
}

Test(journal_append, an_append_is_one_write)
{
    oracle_append(&oracle, 100);
    oracle_sync(&oracle);
    uint64_t calls = oracle.disk.call_count;

    oracle_append(&oracle, 1000);

    cr_expect_eq(oracle.disk.call_count, calls + 1);
}

Test(journal_append, records_of_every_size_come_back)
{
    const size_t sizes[] = {
        0, 1, 7, 8, 9, SEGMENT_BYTES - 200, SEGMENT_BYTES, SEGMENT_BYTES + 1, 20000 - 1};

    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        oracle_append(&oracle, sizes[i]);
    oracle_sync(&oracle);
    oracle_close(&oracle);

    open_well();
    cr_expect_eq(oracle.replayed_last, sizeof(sizes) / sizeof(sizes[0]));
}

struct largest {
    const uint8_t *expected;
    unsigned seen;
};

static tw_status replay_largest(void *context, uint64_t sequence, uint16_t type,
                                const uint8_t *bytes, size_t size, struct tw_error *error)
{
    struct largest *largest = context;

    (void)sequence, (void)type, (void)error;
    cr_assert_eq(size, TW_JOURNAL_RECORD_BYTES_MAX);
    cr_assert(memcmp(bytes, largest->expected, size) == 0);
    largest->seen++;
    return TW_OK;
}

Test(journal_append, the_largest_record_comes_back)
{
    uint8_t *bytes = malloc(TW_JOURNAL_RECORD_BYTES_MAX);
    struct largest largest = {.expected = bytes};
    struct tw_error error = {0};
    cr_assert_not_null(bytes);
    for (size_t i = 0; i < TW_JOURNAL_RECORD_BYTES_MAX; i++)
        bytes[i] = (uint8_t)(i * 31 >> 3);

    (void)tw_journal_append(oracle.journal, 9, bytes, TW_JOURNAL_RECORD_BYTES_MAX);
    (void)tw_journal_append(oracle.journal, 9, bytes, TW_JOURNAL_RECORD_BYTES_MAX);
    oracle_close(&oracle);

    struct tw_journal_options options = {.dir = oracle.disk.dir,
                                         .segment_bytes = SEGMENT_BYTES,
                                         .syncs = true,
                                         .disk = &oracle.disk.calls,
                                         .replay = replay_largest,
                                         .replay_context = &largest};
    cr_expect_eq(tw_journal_open(&options, &oracle.journal, &error), TW_OK, "%s", error.text);
    cr_expect_eq(largest.seen, 2);
    free(bytes);
}

/* A client sends bytes that are a record as it stands in a log, but for the salt, which nobody
 * outside knows. With the record around them torn, they must not be taken for one that calls it
 * durable. */
Test(journal_append, bytes_that_look_like_a_record_are_none)
{
    oracle_append(&oracle, 200);
    oracle_sync(&oracle);
    struct record fake = {.sequence = 3, .durable = 2, .segment = 1, .version = JOURNAL_VERSION};
    uint8_t bytes[RECORD_HEADER_BYTES];
    record_header_write(&fake, 0, bytes);
    (void)tw_journal_append(oracle.journal, 1, bytes, sizeof(bytes));
    oracle_close(&oracle);
    uint8_t zeros[RECORD_HEADER_BYTES] = {0};
    disk_tamper(disk_segment(&oracle.disk, 1), SEGMENT_HEADER_BYTES + 248, zeros, sizeof(zeros));

    open_well(); /* not: damage */

    cr_expect_eq(oracle.replayed_last, 1);
}

Test(journal_append, a_roll_begins_a_segment_and_a_second_one_finds_it_begun)
{
    oracle_append(&oracle, 100);

    cr_expect_eq(tw_journal_roll(oracle.journal), 2);
    cr_expect_eq(tw_journal_roll(oracle.journal), 2);
    cr_expect_eq(tw_journal_durable(oracle.journal), 1); /* what is left behind is durable */
    oracle_append(&oracle, 100);
    cr_expect_eq(tw_journal_roll(oracle.journal), 3);
}

Test(journal_append, what_was_forgotten_is_gone_and_the_rest_is_counted)
{
    uint32_t segments;
    uint64_t bytes;

    for (int i = 0; i < 3; i++) {
        oracle_append(&oracle, 200);
        (void)tw_journal_roll(oracle.journal);
    }
    oracle_append(&oracle, 200);
    tw_journal_size(oracle.journal, &segments, &bytes);
    cr_expect_eq(segments, 4);
    cr_expect_eq(bytes, 4 * (64 + 248));

    tw_journal_forget_before(oracle.journal, 3);
    oracle.kept_from = 2;

    tw_journal_size(oracle.journal, &segments, &bytes);
    cr_expect_eq(segments, 2);
    cr_expect_eq(bytes, 2 * (64 + 248));
    cr_expect_null(disk_segment(&oracle.disk, 2));
    oracle_close(&oracle);
    open_well();
    cr_expect_eq(oracle.replayed_first, 3);
    tw_journal_size(oracle.journal, &segments, &bytes);
    cr_expect_eq(segments, 2);
    cr_expect_eq(bytes, 2 * (64 + 248));
}

Test(journal_append, forgetting_never_takes_the_segment_in_use)
{
    oracle_append(&oracle, 200);

    tw_journal_forget_before(oracle.journal, 99);

    cr_expect_not_null(disk_segment(&oracle.disk, 1));
    oracle_append(&oracle, 200);
    oracle_sync(&oracle);
}

Test(journal_append, a_log_of_which_everything_was_forgotten_still_counts_on)
{
    oracle_append(&oracle, 200);
    oracle_append(&oracle, 200);
    oracle_forget(&oracle);
    oracle_close(&oracle);
    disk_power_cut(&oracle.disk, DISK_KEEPS_NOTHING);

    open_well();

    cr_expect_eq(oracle.replayed_first, 0);
    cr_expect_eq(tw_journal_durable(oracle.journal), 2);
    oracle_append(&oracle, 200); /* is 3 */
}

/* Whoever fills a segment must wait for the disk; so it is ended early, when nothing waits for it
 * anyway. */
Test(journal_append, a_nearly_full_segment_ends_when_all_of_it_is_durable)
{
    while (oracle.appended < 62) /* 62 * 248 is more than 15/16 of it */
        oracle_append(&oracle, 200);
    cr_expect_null(disk_segment(&oracle.disk, 3));

    oracle_sync(&oracle);

    uint64_t syncs = oracle.disk.synced_count;
    uint64_t calls = oracle.disk.call_count;
    for (int i = 0; i < 5; i++)
        oracle_append(&oracle, 200);
    cr_expect_eq(oracle.disk.synced_count, syncs);
    cr_expect_eq(oracle.disk.call_count, calls + 5);
    cr_expect_eq(tw_journal_roll(oracle.journal), 3);
}

Test(journal_append, without_syncs_all_is_durable_at_once_and_the_disk_is_never_asked)
{
    oracle_close(&oracle);
    struct tw_journal_options options = {.dir = oracle.disk.dir,
                                         .segment_bytes = SEGMENT_BYTES,
                                         .syncs = false,
                                         .disk = &oracle.disk.calls};
    struct tw_error error = {0};
    uint64_t syncs = oracle.disk.synced_count;

    cr_assert_eq(tw_journal_open(&options, &oracle.journal, &error), TW_OK, "%s", error.text);
    for (int i = 0; i < 200; i++)
        oracle_append(&oracle, 200);

    cr_expect_eq(tw_journal_durable(oracle.journal), 200);
    cr_expect_eq(tw_journal_sync(oracle.journal), 200);
    cr_expect_eq(oracle.disk.synced_count, syncs);
    oracle_close(&oracle);
    open_well();
    cr_expect_eq(oracle.replayed_last, 200);
}

/* A step of zeros costs a sync of its own, so there is one for many records. */
Test(journal_append, space_ahead_is_prepared_in_steps_not_with_every_sync)
{
    uint64_t syncs = oracle.disk.synced_count;

    for (int i = 0; i < 20; i++) {
        oracle_append(&oracle, 8);
        oracle_sync(&oracle);
    }

    cr_expect_leq(oracle.disk.synced_count - syncs, 20 + 4, "%d syncs for 20",
                  (int)(oracle.disk.synced_count - syncs));
}
