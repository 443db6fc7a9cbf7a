/* A disk that does not keep up: what waits for it is bounded, opens first. */
#include "engine_house.h"

#include <internal.h>

#include <tradewake/base/log.h>

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BACKLOG_MAX = 256 * 1024, EVENTS_MAX = 1000 };

static struct house house;
static char dir[64];
static atomic_bool is_held, is_waiting;
static uint32_t next_event;

static void moment(void)
{
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){0, TW_NS_PER_MS}, NULL);
}

/* As slow as the test wants it. */
static int held_sync(void *context, int fd)
{
    const struct tw_journal_disk *real = tw_journal_disk_real();
    (void)context;
    for (; atomic_load(&is_held); moment())
        atomic_store(&is_waiting, true);
    return real->fdatasync(real->context, fd);
}

static struct tw_journal_disk disk;

static void setup(void)
{
    tw_log_level_set(TW_LOG_NONE);
    (void)snprintf(dir, sizeof dir, "/tmp/tradewake-backlog-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    disk = *tw_journal_disk_real();
    disk.fdatasync = held_sync;
    house_open(&house, (struct tw_engine_options){.journal_dir = dir,
                                                  .journal_syncs = true,
                                                  .journal_disk = &disk,
                                                  .copies_remembered = 1000,
                                                  .backlog_bytes_max = BACKLOG_MAX,
                                                  .events_remembered = 1000,
                                                  .events_kept_ns = 3600 * TW_NS_PER_S});
    cr_assert(house_follower(&house, "F", "constant:0"), "%s", house.reason);
    cr_assert(house_subscribe(&house, "M", "F", NULL), "%s", house.reason);
}

static void teardown(void)
{
    char command[128];
    atomic_store(&is_held, false);
    house_close(&house, true);
    (void)snprintf(command, sizeof command, "rm -rf --one-file-system %s", dir);
    cr_assert_eq(system(command), 0);
}

TestSuite(engine_backlog, .init = setup, .fini = teardown, .timeout = 60);

/* An open or close of a new position; true: it is taken. */
static bool taken(enum tw_event_kind kind)
{
    char event_id[32], position_id[32];
    struct tw_submitted submitted;
    (void)snprintf(event_id, sizeof event_id, "e%u", next_event);
    (void)snprintf(position_id, sizeof position_id, "p%u", next_event++);
    const struct house_event event = {.kind = kind, .master_id = "M", .event_id = event_id,
                                      .position_id = position_id,
                                      .volume = kind == TW_EVENT_OPEN ? "0.10" : NULL};
    bool ok = house_submit(&house, &event, &submitted);
    if (ok)
        tw_record_release(submitted.record);
    return ok;
}

static uint32_t taken_until_refused(enum tw_event_kind kind)
{
    uint32_t n = 0;
    while (n < EVENTS_MAX && taken(kind))
        n++;
    cr_assert_lt(n, EVENTS_MAX, "there is no bound");
    return n;
}

Test(engine_backlog, opens_stop_first_and_closes_have_a_quarter_more)
{
    cr_expect(taken(TW_EVENT_OPEN));
    cr_assert(house_settle(&house, 20 * TW_NS_PER_S));
    cr_expect_eq(tw_engine_backlog_bytes(house.engine), 0);

    atomic_store(&is_held, true);
    cr_expect_gt(taken_until_refused(TW_EVENT_OPEN), 10u);
    cr_expect(strstr(house.reason, "wait for the disk") != NULL, "%s", house.reason);
    uint64_t full = tw_engine_backlog_bytes(house.engine);
    cr_expect_gt(full, BACKLOG_MAX);
    cr_expect(!taken(TW_EVENT_OPEN));
    cr_expect(taken(TW_EVENT_CLOSE));
    cr_expect(!taken(TW_EVENT_OPEN));
    cr_expect_gt(taken_until_refused(TW_EVENT_CLOSE), 10u);
    cr_expect(!taken(TW_EVENT_CLOSE));
    cr_expect_lt(tw_engine_backlog_bytes(house.engine), BACKLOG_MAX / 4 * 5 + 64 * 1024);

    atomic_store(&is_held, false);
    while (tw_engine_backlog_bytes(house.engine) > 0)
        moment();
    cr_expect(taken(TW_EVENT_OPEN), "%s", house.reason);
    cr_assert(house_settle(&house, 20 * TW_NS_PER_S));
}

Test(engine_backlog, what_is_refused_is_not_in_the_log)
{
    atomic_store(&is_held, true);
    (void)taken_until_refused(TW_EVENT_OPEN);
    while (!atomic_load(&is_waiting)) /* then the journal's own thread writes nothing more */
        moment();
    uint64_t appended = tw_journal_appended(house.engine->log);
    uint32_t refused = next_event - 1;
    for (int i = 0; i < 5; i++)
        cr_expect(!taken(TW_EVENT_OPEN));
    cr_expect_eq(tw_journal_appended(house.engine->log), appended);

    atomic_store(&is_held, false);
    while (tw_engine_backlog_bytes(house.engine) > 0)
        moment();
    next_event = refused; /* the same id: it was never taken */
    cr_expect(taken(TW_EVENT_OPEN), "%s", house.reason);
    cr_assert(house_settle(&house, 20 * TW_NS_PER_S));
}
