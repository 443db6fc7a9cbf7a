/* A change of stops that has to wait: what comes for its position goes first, and it is not forgotten. */
#include "engine_house.h"

#include <internal.h>

#include <tradewake/base/log.h>

#include <criterion/criterion.h>

#include <time.h>

#define LOTS(hundredths) ((tw_decimal)(hundredths) * (TW_DECIMAL_ONE / 100))

/* A wake-up that is not due yet when the engine stops goes with the process: LeakSanitizer is told so. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:wake_at\nleak:out_room\n";
}

static struct house house;

/* The price stands within the freeze distance of the stop that every open here comes with. */
static const char *const frozen[] = {
    "quotes", "{\"EURUSD\":\"1.10000/1.10000\"}", "instruments",
    "{\"EURUSD\":{\"min\":\"0.01\",\"step\":\"0.01\",\"max\":\"100\",\"contract\":\"100000\",\"tick\":\"0.00001\","
    "\"freeze\":\"0.001\"}}",
    NULL};

static struct tw_record *submit(const struct house_event *event)
{
    struct tw_submitted submitted;
    cr_assert(house_submit(&house, event, &submitted), "%s", house.reason);
    cr_assert_not_null(submitted.record);
    return submitted.record;
}

static void moment(void)
{
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){0, TW_NS_PER_MS}, NULL);
}

static void end_awaited(struct tw_record *record)
{
    while (tw_record_pending(record, TW_WAIT_DONE) > 0)
        moment();
}

static struct seen {
    copy_state state;
    tw_reason reason;
    tw_decimal held;
} look(struct tw_record *record)
{
    struct tw_copy *copy = &record->copies[0];
    struct tw_slot *slot = copy->subscription->slot;
    pthread_mutex_lock(&slot->mutex);
    struct seen seen = {(copy_state)copy->state, (tw_reason)copy->reason, slot->legs != NULL ? slot->legs->held : 0};
    pthread_mutex_unlock(&slot->mutex);
    return seen;
}

static struct tw_record *opened, *changed;

/* One position of 0.40, and a change of its stop that waits. */
static void setup(void)
{
    tw_log_level_set(TW_LOG_NONE);
    house_open(&house, (struct tw_engine_options){.copies_remembered = 1000, .events_remembered = 1000,
                                                  .events_kept_ns = 3600 * TW_NS_PER_S});
    cr_assert(house_follower_with(&house, "F", frozen), "%s", house.reason);
    cr_assert(house_subscribe(&house, "M", "F", NULL), "%s", house.reason);
    opened = submit(&(struct house_event){.kind = TW_EVENT_OPEN, .master_id = "M", .event_id = "open",
                                          .position_id = "p", .volume = "0.40", .price = "1.1", .stop_loss = "1.0995"});
    end_awaited(opened);
    changed = submit(&(struct house_event){.kind = TW_EVENT_MODIFY, .master_id = "M", .event_id = "change",
                                           .position_id = "p", .stop_loss = "1.0996"});
    while (look(changed).reason != REASON(INVALID_STOPS))
        moment();
}

static void teardown(void)
{
    tw_record_release(opened);
    tw_record_release(changed);
    house_close(&house, true);
}

TestSuite(engine_stops, .init = setup, .fini = teardown, .timeout = 30);

static struct tw_record *close_some(const char *event_id, const char *volume)
{
    struct tw_record *record = submit(&(struct house_event){.kind = TW_EVENT_CLOSE, .master_id = "M",
                                                            .event_id = event_id, .position_id = "p", .volume = volume});
    end_awaited(record);
    return record;
}

Test(engine_stops, a_partial_close_goes_before_a_change_that_waits_and_leaves_it_to_what_is_left)
{
    struct tw_record *part = close_some("part", "0.10");
    struct tw_record *again = close_some("again", "0.10");

    struct seen seen = look(changed);
    cr_expect_eq(seen.state, STATE(QUEUED), "%d", seen.state);
    cr_expect_eq(seen.reason, REASON(INVALID_STOPS), "%d", seen.reason);
    cr_expect_eq(seen.held, LOTS(20));
    tw_record_release(close_some("all", NULL));
    tw_record_release(part);
    tw_record_release(again);
}

Test(engine_stops, a_full_close_ends_a_change_that_waits)
{
    struct tw_record *all = close_some("all", NULL);

    struct seen seen = look(changed);
    cr_expect_eq(seen.state, STATE(CANCELLED), "%d", seen.state);
    cr_expect_eq(seen.reason, REASON(SUPERSEDED), "%d", seen.reason);
    tw_record_release(all);
}

Test(engine_stops, what_is_added_to_a_position_goes_before_a_change_that_waits)
{
    struct tw_record *more = submit(&(struct house_event){.kind = TW_EVENT_OPEN, .master_id = "M", .event_id = "more",
                                                          .position_id = "p", .volume = "0.20", .price = "1.1",
                                                          .increase = true});
    end_awaited(more);

    struct seen seen = look(changed); /* what was added has no stop that is near the price: it may be set now */
    cr_expect_neq(seen.state, STATE(CANCELLED));
    cr_expect_eq(seen.held, LOTS(60));
    tw_record_release(close_some("all", NULL));
    tw_record_release(more);
}
