/* One thing goes wrong, at each call in turn: the process ends with a line that says what to do, or
 * opening says it; and the next start has everything that was durable. */
#include "journal_oracle.h"

#include <tradewake/base/log.h>

#include <criterion/criterion.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENT_BYTES 8192u

static struct oracle *oracle; /* outlives a longjmp */

static void setup(void)
{
    tw_log_level_set(TW_LOG_NONE);
    oracle = malloc(sizeof(*oracle));
    cr_assert_not_null(oracle);
}

static void teardown(void)
{
    free(oracle);
}

TestSuite(journal_faults, .init = setup, .fini = teardown, .timeout = 120);

/* Goes through everything: opening, the first segment, several more, a roll, forgetting. */
static void do_everything(void)
{
    for (int i = 0; i < 40; i++) {
        oracle_append(oracle, 300);
        if (i % 5 == 4)
            oracle_sync(oracle);
    }
    oracle_append(oracle, 10000); /* larger than a segment */
    oracle_append(oracle, 0);
    oracle_sync(oracle);
    oracle_forget(oracle);
    oracle_append(oracle, 300);
    oracle_sync(oracle);
}

/* The log goes on in whatever state it is: into the next segment, and durable there. */
static void go_on(void)
{
    struct tw_error error = {0};

    disk_heal(&oracle->disk);
    cr_assert_eq(oracle_open(oracle, &error), TW_OK, "%s", error.text);
    oracle_append(oracle, 100);
    (void)tw_journal_roll(oracle->journal);
    oracle_append(oracle, 100);
    oracle_sync(oracle);
    oracle_close(oracle);
}

struct trouble {
    const char *name;
    int failure;
    bool is_power_cut; /* after it; else only the process is gone */
    bool is_for_good;  /* all later calls fail as well */
};

/* True when the call was reached. */
static bool everything_with(const struct trouble *trouble, uint64_t call)
{
    struct tw_error error = {0};
    struct disk *disk = &oracle->disk;

    oracle_init(oracle, call, SEGMENT_BYTES);
    oracle->may_die = true;
    disk->fail_at = call;
    disk->fail_to = trouble->is_for_good ? UINT64_MAX : 0;
    disk->fail_errno = trouble->failure;
    tw_status status = oracle_open(oracle, &error);
    if (status != TW_OK) {
        cr_expect_eq(status, TW_IO, "call %lu: %s", (unsigned long)call, error.text);
        cr_expect_neq(error.text[0], '\0', "call %lu did not explain itself", (unsigned long)call);
    } else if (sigsetjmp(oracle->died, 0) == 0) {
        do_everything();
    } else {
        cr_expect_not_null(strstr(oracle->why, "start again"), "call %lu: %s", (unsigned long)call,
                           oracle->why);
        cr_expect_not_null(strstr(oracle->why, strerror(trouble->failure)), "call %lu: %s",
                           (unsigned long)call, oracle->why);
    }
    bool is_reached = disk->call_count >= call;

    oracle->may_die = false;
    oracle_close(oracle);
    if (trouble->is_power_cut)
        disk_power_cut(disk, DISK_KEEPS_SOME);
    go_on();
    disk_power_cut(disk, DISK_KEEPS_NOTHING);
    go_on();
    oracle_clear(oracle);
    return is_reached;
}

static void each_call(const struct trouble *trouble)
{
    uint64_t call = 0;

    while (everything_with(trouble, ++call))
        continue;
    cr_expect_gt(call, 60, "%s: only %lu calls", trouble->name, (unsigned long)call);
}

Test(journal_faults, an_io_error_at_each_call_ends_the_process_and_loses_nothing)
{
    each_call(&(struct trouble){.name = "EIO", .failure = EIO});
}

Test(journal_faults, nor_does_a_power_cut_right_after_it)
{
    each_call(&(struct trouble){.name = "EIO, power cut", .failure = EIO, .is_power_cut = true});
}

Test(journal_faults, nor_a_disk_that_is_gone_from_one_call_on)
{
    each_call(&(struct trouble){.name = "EIO for good", .failure = EIO, .is_for_good = true});
}

Test(journal_faults, a_full_disk_from_each_call_on_loses_nothing)
{
    each_call(&(struct trouble){.name = "ENOSPC", .failure = ENOSPC, .is_for_good = true});
}

Test(journal_faults, a_full_disk_at_one_call_loses_nothing)
{
    each_call(&(struct trouble){.name = "ENOSPC once", .failure = ENOSPC});
}

/* Apart, so that no variable of the caller's lives across the jump. */
static void do_everything_or_die(void)
{
    if (sigsetjmp(oracle->died, 0) == 0)
        do_everything();
}

Test(journal_faults, a_power_cut_at_each_call_loses_nothing)
{
    for (int keeps = 0; keeps < DISK_KEEPS_COUNT; keeps++) {
        bool is_reached = true;
        for (uint64_t call = 1; is_reached; call++) {
            struct tw_error error = {0};
            oracle_init(oracle, call, SEGMENT_BYTES);
            oracle->may_die = true;
            oracle->disk.cut_at = call;
            if (oracle_open(oracle, &error) == TW_OK)
                do_everything_or_die();
            is_reached = oracle->disk.call_count >= oracle->disk.cut_at;
            oracle->may_die = false;
            oracle_close(oracle);
            disk_power_cut(&oracle->disk, (enum disk_keeps)keeps);
            go_on();
            oracle_clear(oracle);
        }
    }
}

Test(journal_faults, reads_and_writes_in_pieces_change_nothing)
{
    for (uint64_t seed = 1; seed < 50; seed++) {
        struct tw_error error = {0};
        oracle_init(oracle, seed, SEGMENT_BYTES);
        oracle->disk.is_short = true;
        cr_assert_eq(oracle_open(oracle, &error), TW_OK, "%s", error.text);
        do_everything();
        oracle_close(oracle);
        go_on();
        oracle_clear(oracle);
    }
}

/* --- a full disk ------------------------------------------------------------------- */

static void open_on_a_full_disk_of(uint64_t room_bytes)
{
    struct tw_error error = {0};

    oracle_init(oracle, 1, 64 * 1024);
    oracle->disk.room_bytes = room_bytes;
    cr_assert_eq(oracle_open(oracle, &error), TW_OK, "%s", error.text);
}

static void fill_until_there_is_no_room(void)
{
    while (tw_journal_has_room(oracle->journal)) {
        oracle_append(oracle, 200);
        oracle_sync(oracle);
    }
}

Test(journal_faults, a_full_disk_leaves_a_reserve_for_what_is_not_an_open)
{
    for (uint64_t room = 20 * 1024; room < 150 * 1024; room += 7000) {
        open_on_a_full_disk_of(room);
        fill_until_there_is_no_room();

        for (int i = 0; i < 64 * 1024 / 4 / 248 - 2; i++) {
            oracle_append(oracle, 200);
            oracle_sync(oracle);
        }
        cr_expect_not(tw_journal_has_room(oracle->journal), "%lu", (unsigned long)room);
        oracle_clear(oracle);
    }
}

/* What a quarter of a segment does not hold is asked of the file system, together with what is prepared. */
Test(journal_faults, what_may_not_be_refused_has_its_room_before_the_disk_is_full)
{
    enum { RESERVE = 200 * 1024 };
    open_on_a_full_disk_of(1024 * 1024);
    oracle_append(oracle, 200);
    oracle_sync(oracle);
    tw_journal_reserve_set(oracle->journal, RESERVE);
    oracle_sync(oracle);
    cr_expect(tw_journal_has_room(oracle->journal));
    fill_until_there_is_no_room();
    cr_expect_gt(oracle->disk.room_bytes, RESERVE - 2 * 64 * 1024, "%lu", (unsigned long)oracle->disk.room_bytes);
    for (int i = 0; i < RESERVE / 248 - 1; i++) { /* all of it, beside the headers of segments */
        oracle_append(oracle, 200);
        oracle_sync(oracle);
    }

    tw_journal_reserve_set(oracle->journal, 0);
    oracle->disk.room_bytes = UINT64_MAX;
    oracle_sync(oracle);
    cr_expect(tw_journal_has_room(oracle->journal));
    oracle_close(oracle);
    go_on();
    oracle_clear(oracle);
}

Test(journal_faults, when_the_disk_has_room_again_so_has_the_log)
{
    open_on_a_full_disk_of(100 * 1024);
    fill_until_there_is_no_room();

    oracle->disk.room_bytes = UINT64_MAX;
    oracle_sync(oracle); /* nothing new: it only looks again */

    cr_expect(tw_journal_has_room(oracle->journal));
    for (int i = 0; i < 1000; i++)
        oracle_append(oracle, 200);
    oracle_sync(oracle);
    oracle_close(oracle);
    go_on();
    oracle_clear(oracle);
}

Test(journal_faults, a_disk_that_tells_only_in_a_sync_that_it_is_full_leaves_no_half_segment)
{
    open_on_a_full_disk_of(UINT64_MAX);
    for (int i = 0; i < 300; i++) { /* into the second segment, which is whole on the disk */
        oracle_append(oracle, 200);
        oracle_sync(oracle);
    }
    cr_assert_not_null(disk_segment(&oracle->disk, 3));
    for (int i = 0; i < 40; i++)
        oracle_append(oracle, 200);
    oracle->disk.room_bytes = 0;
    oracle->disk.is_full_late = true;

    oracle_sync(oracle);

    cr_expect_not(tw_journal_has_room(oracle->journal));
    cr_expect_null(disk_segment(&oracle->disk, 3));
    disk_heal(&oracle->disk);
    oracle_sync(oracle);
    cr_expect(tw_journal_has_room(oracle->journal));
    oracle_close(oracle);
    go_on();
    oracle_clear(oracle);
}

Test(journal_faults, when_the_reserve_is_used_up_the_process_ends_and_says_make_room)
{
    open_on_a_full_disk_of(80 * 1024);
    oracle->may_die = true;
    if (sigsetjmp(oracle->died, 0) == 0)
        for (int i = 0; i < 2000; i++) {
            oracle_append(oracle, 200);
            oracle_sync(oracle);
        }

    cr_expect_not_null(strstr(oracle->why, "No space left on device"), "%s", oracle->why);
    cr_expect_not_null(strstr(oracle->why, "make room on the disk"), "%s", oracle->why);
    oracle->may_die = false;
    oracle_close(oracle);
    go_on();
    oracle_clear(oracle);
}
