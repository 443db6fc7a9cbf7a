/* More opens than a broker takes: what would come too late is refused before anything of it is written; closes are not. */
#include "engine_house.h"

#include <internal.h>

#include <tradewake/base/log.h>

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static struct house house;
static char dir[64];
static uint32_t next_event;

static void setup(void)
{
    tw_log_level_set(TW_LOG_NONE);
    (void)snprintf(dir, sizeof dir, "/tmp/tradewake-load-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    house_open(&house, (struct tw_engine_options){.journal_dir = dir,
                                                  .journal_syncs = true,
                                                  .copies_remembered = 1000,
                                                  .events_remembered = 1000,
                                                  .events_kept_ns = 3600 * TW_NS_PER_S});
    cr_assert(house_follower(&house, "slow", "constant:500ms"), "%s", house.reason); /* two at once */
    cr_assert(house_subscribe(&house, "M", "slow", NULL), "%s", house.reason);
}

static void teardown(void)
{
    char command[128];
    house_close(&house, false);
    (void)snprintf(command, sizeof command, "rm -rf --one-file-system %s", dir);
    cr_assert_eq(system(command), 0);
}

TestSuite(engine_load, .init = setup, .fini = teardown, .timeout = 60);

/* An event of a position of its own, seen at the master so long ago. */
static bool taken(enum tw_event_kind kind, int64_t age_ns, struct tw_record_counts *ret)
{
    char event_id[32], position_id[32];
    struct tw_submitted submitted;
    (void)snprintf(event_id, sizeof event_id, "e%u", next_event);
    (void)snprintf(position_id, sizeof position_id, "p%u", next_event++);
    const struct house_event event = {.kind = kind, .master_id = "M", .event_id = event_id, .position_id = position_id,
                                      .volume = kind == TW_EVENT_OPEN ? "0.10" : NULL,
                                      .observed_wall_ns = tw_wall_ns() - age_ns};
    bool ok = house_submit(&house, &event, &submitted);
    if (!ok)
        return false;
    *ret = tw_record_counts_get(submitted.record);
    tw_record_release(submitted.record);
    return true;
}

static void moment(void)
{
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){0, TW_NS_PER_MS}, NULL);
}

/* A queue that takes longer than what this open has left of its window. */
#define NEARLY_TOO_OLD (60 * TW_NS_PER_S - 50 * TW_NS_PER_MS)

static void queue_build(void)
{
    struct tw_record_counts counts;
    for (int i = 0; i < 20; i++)
        cr_assert(taken(TW_EVENT_OPEN, 0, &counts), "%s", house.reason);
    while (taken(TW_EVENT_OPEN, NEARLY_TOO_OLD, &counts))
        moment(); /* nobody has seen yet that it is slow */
}

Test(engine_load, what_would_come_too_late_is_refused_and_closes_are_taken)
{
    struct tw_record_counts counts;
    queue_build();
    cr_expect_eq(strncmp(house.reason, "what waits before it takes longer", 33), 0, "%s", house.reason);
    uint64_t refused = tw_engine_refused(house.engine, TW_LOAD_QUEUE);
    cr_expect_geq(refused, 1);

    cr_expect(taken(TW_EVENT_CLOSE, NEARLY_TOO_OLD, &counts), "%s", house.reason);
    cr_expect(taken(TW_EVENT_OPEN, 0, &counts), "an open with all of its window before it: %s", house.reason);
    cr_expect(taken(TW_EVENT_OPEN, 61 * TW_NS_PER_S, &counts), "one that is too old says so itself: %s", house.reason);
    cr_expect_eq(counts.skipped, 1);
    cr_expect_eq(tw_engine_refused(house.engine, TW_LOAD_QUEUE), refused);
}

Test(engine_load, of_what_is_refused_nothing_is_written)
{
    struct tw_record_counts counts;
    queue_build();
    uint32_t refused = next_event - 1;
    char event_id[32];
    (void)snprintf(event_id, sizeof event_id, "e%u", refused);
    cr_expect_null(tw_engine_record_find(house.engine, "M", event_id));
    next_event = refused; /* the same id, with time before it: it was never taken */
    cr_expect(taken(TW_EVENT_OPEN, 0, &counts), "%s", house.reason);
    cr_expect_eq(counts.accepted, 1);
}

Test(engine_load, where_one_follower_may_be_in_time_the_others_are_told_apart)
{
    struct tw_record_counts counts;
    queue_build();
    cr_assert(house_follower(&house, "fast", "constant:0"), "%s", house.reason);
    cr_assert(house_subscribe(&house, "M", "fast", NULL), "%s", house.reason);
    do /* until the look at the queue comes within the 50 ms */
        cr_assert(taken(TW_EVENT_OPEN, NEARLY_TOO_OLD, &counts), "%s", house.reason);
    while (counts.skipped != 1);
    cr_expect_eq(counts.accepted, 1);
    char event_id[32];
    (void)snprintf(event_id, sizeof event_id, "e%u", next_event - 1);
    struct tw_record *record = tw_engine_record_find(house.engine, "M", event_id);
    cr_assert_not_null(record);
    bool has_said = false;
    for (size_t i = 0; i < tw_record_copy_count(record); i++) {
        Tradewake__V1__CopyState state;
        tw_reason reason;
        tw_copy_state(tw_record_copy(record, i), &state, &reason);
        has_said |= state == STATE(SKIPPED) && reason == REASON(QUEUE_FULL);
    }
    cr_expect(has_said);
    tw_record_release(record);
}
