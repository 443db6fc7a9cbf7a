/* Random lives of a log: appends, syncs, rolls, and an end by close, kill, a failed call or a power
 * cut at any call, also in the middle of opening. Whatever was durable must be there in the next
 * life. */
#include "journal_oracle.h"

#include <tradewake/base/log.h>

#include <criterion/criterion.h>

#include <inttypes.h>
#include <stdlib.h>

#define SCHEDULES 1500u
#define LIVES     5u
#define STEPS_MAX 60u

static struct oracle *oracle; /* outlives a longjmp */

static void plan_trouble(struct disk *disk)
{
    disk_heal(disk);
    disk->is_short = disk_random(disk, 2) == 0;
    switch (disk_random(disk, 3)) {
    case 0:
        disk->cut_at = 1 + disk_random(disk, 120);
        break;
    case 1:
        disk->fail_at = 1 + disk_random(disk, 120);
        disk->fail_errno = 5; /* EIO */
        break;
    default:
        break;
    }
}

static void random_step(void)
{
    switch (disk_random(&oracle->disk, 16)) {
    case 0:
        (void)tw_journal_roll(oracle->journal);
        oracle->durable = tw_journal_durable(oracle->journal);
        break;
    case 1:
        oracle_forget(oracle);
        break;
    case 2:
    case 3:
    case 4:
        oracle_sync(oracle);
        break;
    default:
        oracle_append(oracle, SIZE_MAX);
    }
}

static void one_life(void)
{
    struct tw_error error = {0};

    plan_trouble(&oracle->disk);
    tw_status status = oracle_open(oracle, &error);
    if (status != TW_OK) {
        cr_assert_eq(status, TW_IO, "seed %" PRIu64 ": %s", oracle->seed, error.text);
        cr_assert(oracle->disk.cut_at != 0 || oracle->disk.fail_at != 0, "seed %" PRIu64 ": %s",
                  oracle->seed, error.text);
    } else if (sigsetjmp(oracle->died, 0) == 0) {
        for (uint64_t left = disk_random(&oracle->disk, STEPS_MAX); left > 0; left--)
            random_step();
    } else {
        cr_assert(oracle->disk.cut_at != 0 || oracle->disk.fail_at != 0, "seed %" PRIu64 ": %s",
                  oracle->seed, oracle->why);
    }
    oracle_close(oracle);
    bool is_power_cut = oracle->disk.cut_at != 0 || disk_random(&oracle->disk, 3) == 0;
    if (is_power_cut)
        disk_power_cut(&oracle->disk,
                       (enum disk_keeps)disk_random(&oracle->disk, DISK_KEEPS_COUNT));
}

Test(journal_cuts, what_was_durable_is_there_after_any_end, .timeout = 300)
{
    const char *one = getenv("JOURNAL_SEED"); /* to look at one that failed */
    uint64_t first = one != NULL ? strtoull(one, NULL, 10) : 1;
    uint64_t last = one != NULL ? first : SCHEDULES;
    uint64_t records = 0;

    tw_log_level_set(one != NULL ? TW_LOG_INFO : TW_LOG_NONE);
    oracle = malloc(sizeof(*oracle));
    cr_assert_not_null(oracle);
    for (uint64_t seed = first; seed <= last; seed++) {
        struct tw_error error = {0};
        oracle_init(oracle, seed, 8192);
        oracle->may_die = true;
        for (uint32_t life = 0; life < LIVES; life++)
            one_life();
        disk_heal(&oracle->disk);
        oracle->may_die = false;
        cr_assert_eq(oracle_open(oracle, &error), TW_OK, "seed %" PRIu64 ": %s", seed, error.text);
        records += oracle->durable;
        oracle_clear(oracle);
    }
    free(oracle);
    cr_assert(one != NULL || records > SCHEDULES, "the schedules did nothing: %" PRIu64, records);
}
