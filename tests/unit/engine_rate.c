/* An order rate, on a clock that stands still: nothing here depends on how fast the machine is. */
#include "engine_house.h"

#include <internal.h>

#include <tradewake/base/log.h>

#include <criterion/criterion.h>

#include <time.h>

static atomic_int_fast64_t stands_at_mono_ns; /* 0 = it runs */
static atomic_int_fast64_t wall_ahead_ns;

int64_t __real_tw_mono_ns(void);
int64_t __wrap_tw_mono_ns(void);
int64_t __wrap_tw_mono_ns(void)
{
    int64_t at_ns = atomic_load(&stands_at_mono_ns);
    return at_ns != 0 ? at_ns : __real_tw_mono_ns();
}

int64_t __real_tw_wall_ns(void);
int64_t __wrap_tw_wall_ns(void);
int64_t __wrap_tw_wall_ns(void)
{
    return __real_tw_wall_ns() + atomic_load(&wall_ahead_ns);
}

/* A wake-up that is not due yet when the engine stops goes with the process: LeakSanitizer is told so. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:wake_at\nleak:out_room\n";
}

static struct house house;

static void setup(void)
{
    tw_log_level_set(TW_LOG_NONE);
    house_open(&house, (struct tw_engine_options){.copies_remembered = 1000, .events_remembered = 1000,
                                                  .events_kept_ns = 3600 * TW_NS_PER_S});
    cr_assert(house_follower(&house, "F", "constant:0"), "%s", house.reason);
    cr_assert(house_subscribe(&house, "M", "F", NULL), "%s", house.reason);
    house.engine->slots->rules.max_orders_per_second = 1;
}

static void teardown(void)
{
    atomic_store(&stands_at_mono_ns, 0);
    house_close(&house, true);
}

TestSuite(engine_rate, .init = setup, .fini = teardown, .timeout = 30);

static struct tw_record *opened(const char *event_id, const char *position_id)
{
    struct tw_submitted submitted;
    cr_assert(house_submit(&house,
                           &(struct house_event){.kind = TW_EVENT_OPEN, .master_id = "M", .event_id = event_id,
                                                 .position_id = position_id, .volume = "0.10"},
                           &submitted),
              "%s", house.reason);
    return submitted.record;
}

static struct seen {
    copy_state state;
    tw_reason reason;
    uint32_t calls;
} look(struct tw_record *record)
{
    struct tw_copy *copy = &record->copies[0];
    struct tw_slot *slot = copy->subscription->slot;
    pthread_mutex_lock(&slot->mutex);
    struct seen seen = {(copy_state)copy->state, (tw_reason)copy->reason, copy->calls};
    pthread_mutex_unlock(&slot->mutex);
    return seen;
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

Test(engine_rate, an_order_rate_that_outlasts_the_window_is_the_reason)
{
    atomic_store(&stands_at_mono_ns, __real_tw_mono_ns());
    struct tw_record *first = opened("e1", "p1");
    end_awaited(first);
    struct tw_record *second = opened("e2", "p2");
    while (look(second).reason != REASON(ORDER_RATE))
        moment();
    cr_expect_eq(look(second).state, STATE(QUEUED));

    atomic_store(&wall_ahead_ns, 61 * TW_NS_PER_S); /* its window is over; the second of the first one is not */
    copy_wake_parked(house.engine->slots);        /* by the clock it would be woken when that second is over */
    end_awaited(second);
    struct seen seen = look(second);
    cr_expect_eq(look(first).state, STATE(DONE));
    cr_expect_eq(seen.state, STATE(EXPIRED), "%d", seen.state);
    cr_expect_eq(seen.reason, REASON(ORDER_RATE), "%d", seen.reason);
    cr_expect_eq(seen.calls, 0u);
    tw_record_release(first);
    tw_record_release(second);
}

Test(engine_rate, what_the_order_rate_held_back_goes_when_its_second_is_over)
{
    int64_t from_ns = __real_tw_mono_ns();
    atomic_store(&stands_at_mono_ns, from_ns);
    struct tw_record *first = opened("e1", "p1");
    end_awaited(first);
    struct tw_record *second = opened("e2", "p2");
    while (look(second).reason != REASON(ORDER_RATE))
        moment();

    atomic_store(&stands_at_mono_ns, from_ns + TW_NS_PER_S);
    end_awaited(second);
    cr_expect_eq(look(second).state, STATE(DONE));
    tw_record_release(first);
    tw_record_release(second);
}
