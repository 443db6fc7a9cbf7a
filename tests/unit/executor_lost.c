/* executor_lost.c - calls that do not come back in time: counted, replaced, their lane wedged, and
 * what happens when they come back at last. */
#include "executor_gate.h"

#include <tradewake/base/clock.h>

#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>

TestSuite(lost, .timeout = 30);

/* A call that stands at its gate; what is lost says "?name", what came late "+name". */
struct call {
    struct tw_job job;
    const char *name;
    struct gate *gate; /* NULL: it comes back at once */
    struct record *record;
    int64_t lost_after_ns; /* 0 = far from now */
    enum tw_job_end end_when_lost;
};

static struct tw_executor *executor;
static struct gate gate = GATE_CLOSED;
static struct record seen = RECORD_EMPTY;

static void call_note(const struct call *call, const char *sign)
{
    char text[32];
    snprintf(text, sizeof text, "%s%s", sign, call->name);
    record_add(call->record, text);
}

static void call_run(struct tw_job *job)
{
    struct call *call = (struct call *)job;
    struct tw_lane *lane = job->lane;
    bool is_look_up = call->lost_after_ns < 0; /* it was lost before */
    int64_t after_ns =
        call->lost_after_ns != 0 && !is_look_up ? call->lost_after_ns : 3600 * TW_NS_PER_S;
    tw_job_call_begin(job, tw_mono_ns() + after_ns);
    if (call->gate != NULL && !is_look_up)
        gate_enter(call->gate);
    if (!tw_job_call_end(job)) {
        call_note(call, "+");
        tw_lane_lost_call_end(lane);
        return;
    }
    call_note(call, ""); /* first, so that the order is that of the runs */
    tw_job_finish(job, TW_JOB_DONE);
}

static void call_lost(struct tw_job *job)
{
    struct call *call = (struct call *)job;
    call->lost_after_ns = -1;
    enum tw_job_end end = call->end_when_lost;
    tw_job_finish(job, end);
    call_note(call, "?");
}

static void call_cancelled(struct tw_job *job)
{
    call_note((struct call *)job, "-");
}

#define CALL(lane_, key_, name_, ...)                                                              \
    {                                                                                              \
        .job = {.run = call_run,                                                                   \
                .cancelled = call_cancelled,                                                       \
                .lost = call_lost,                                                                 \
                .lane = (lane_),                                                                   \
                .key = (key_),                                                                     \
                .job_class = TW_JOB_NORMAL},                                                       \
        .name = (name_), .record = &seen, __VA_ARGS__                                              \
    }

static void start(uint32_t ready, uint32_t max, uint32_t lost_max)
{
    const struct tw_executor_options options = {.threads_ready = ready,
                                                .threads_max = max,
                                                .groups = 2,
                                                .pinned = true,
                                                .threads_lost_max = lost_max};
    struct tw_error error = {0};
    cr_assert_eq(tw_executor_start(&options, &executor, &error), TW_OK, "%s", error.text);
}

static void submit(struct call *call)
{
    struct tw_job *job = &call->job;
    tw_executor_submit(executor, &job, 1);
}

static struct tw_executor_status status_now(void)
{
    struct tw_executor_status status;
    tw_executor_status_get(executor, &status);
    return status;
}

static void threads_await(uint32_t threads)
{
    while (status_now().threads < threads)
        sched_yield();
}

static void lost_await(uint32_t lost)
{
    while (status_now().threads_lost != lost)
        sched_yield();
}

static void lane_end(struct tw_lane *lane)
{
    while (tw_lane_jobs(lane) > 0)
        sched_yield();
    tw_lane_free(lane);
}

Test(lost, a_call_past_its_time_is_lost_its_thread_replaced_and_works_again_when_it_is_back)
{
    start(4, 4, 2);
    struct tw_lane *lane = tw_lane_new(executor, 8, NULL);
    struct call hangs =
        CALL(lane, 1, "a", .gate = &gate, .lost_after_ns = 1, .end_when_lost = TW_JOB_PARK);

    submit(&hangs);
    record_await(&seen, 1);
    cr_expect_str_eq(seen.text, "?a");
    threads_await(5);
    struct tw_executor_status status = status_now();
    cr_expect_eq(status.threads_lost, 1);
    cr_expect_eq(status.calls_in_flight, 0);
    cr_expect_eq(status.threads_created_late, 0, "nobody waited for it");
    cr_expect_eq(tw_lane_jobs(lane), 2, "the job that is parked and the call that is out");

    gate_let(&gate, 1);
    record_await(&seen, 2);
    cr_expect_str_eq(seen.text, "?a +a");
    lost_await(0);
    cr_expect(tw_job_unpark(&hangs.job));
    record_await(&seen, 3);
    cr_expect_str_eq(seen.text, "?a +a a");

    /* All five are there to work. */
    struct call together[5];
    for (int i = 0; i < 5; i++)
        together[i] = (struct call)CALL(lane, 0, "t", .gate = &gate);
    for (int i = 0; i < 5; i++)
        submit(&together[i]);
    gate_await(&gate, 1 + 5);
    gate_let(&gate, 5);
    record_await(&seen, 8);
    lane_end(lane);
    cr_expect_eq(tw_executor_stop(executor), 0);
}

Test(lost, the_key_stays_with_the_lost_job_and_others_go_one_by_one_until_something_comes_back)
{
    start(8, 8, 4);
    struct gate held = GATE_CLOSED, probing = GATE_CLOSED;
    struct tw_lane *lane = tw_lane_new(executor, 8, NULL);
    struct call hangs =
        CALL(lane, 1, "a", .gate = &held, .lost_after_ns = 1, .end_when_lost = TW_JOB_PARK);
    struct call closes = CALL(lane, 1, "close");
    struct call b = CALL(lane, 2, "b", .gate = &probing), c = CALL(lane, 3, "c", .gate = &probing);

    submit(&hangs);
    record_await(&seen, 1);
    submit(&closes);
    submit(&b);
    submit(&c);
    gate_await(&probing, 1);
    cr_expect_eq(status_now().calls_queued, 2, "the close behind its key, c behind the probe");
    gate_let(&probing, 1);
    gate_await(&probing, 2);
    gate_let(&probing, 1);
    record_await(&seen, 3);
    cr_expect_str_eq(seen.text, "?a b c");
    cr_expect(tw_job_unpark(&hangs.job));
    record_await(&seen, 5);
    cr_expect_str_eq(seen.text, "?a b c a close");

    gate_let(&held, 1);
    record_await(&seen, 6);
    lost_await(0);
    lane_end(lane);
    cr_expect_eq(tw_executor_stop(executor), 0);
}

Test(lost, when_the_probe_is_lost_too_nothing_starts_until_a_call_is_back)
{
    start(8, 8, 4);
    struct tw_lane *lane = tw_lane_new(executor, 8, NULL), *other = tw_lane_new(executor, 8, NULL);
    struct call first = CALL(lane, 1, "a", .gate = &gate, .lost_after_ns = 1);
    struct call probe = CALL(lane, 2, "b", .gate = &gate, .lost_after_ns = 1);
    struct call waits = CALL(lane, 3, "c"), elsewhere = CALL(other, 3, "o");

    submit(&first);
    record_await(&seen, 1);
    cr_expect_not(tw_lane_is_blocked(lane));
    submit(&probe);
    record_await(&seen, 2);
    cr_expect(tw_lane_is_blocked(lane));
    submit(&waits);
    submit(&elsewhere);
    record_await(&seen, 3);
    cr_expect_str_eq(seen.text, "?a ?b o", "another lane does not mind");
    cr_expect_eq(status_now().calls_queued, 1);

    gate_let(&gate, 1); /* one of the two */
    record_await(&seen, 5);
    cr_expect_not(tw_lane_is_blocked(lane));
    cr_expect(strstr(seen.text, " c") != NULL, "%s", seen.text);
    gate_let(&gate, 1);
    lost_await(0);
    lane_end(lane);
    lane_end(other);
    cr_expect_eq(tw_executor_stop(executor), 0);
}

Test(lost, no_more_are_replaced_than_the_cap_says)
{
    enum { LOST = 5, CAP = 2 };
    start(8, 8, CAP);
    struct tw_lane *lanes[LOST];
    struct call calls[LOST];
    for (int i = 0; i < LOST; i++) {
        lanes[i] = tw_lane_new(executor, 1, NULL);
        calls[i] = (struct call)CALL(lanes[i], 1, "x", .gate = &gate, .lost_after_ns = 1);
        submit(&calls[i]);
    }
    record_await(&seen, LOST);
    threads_await(8 + CAP);
    cr_expect_eq(status_now().threads_lost, LOST);
    gate_let(&gate, LOST);
    record_await(&seen, 2 * LOST);
    lost_await(0);
    cr_expect_eq(status_now().threads, 8 + CAP);
    for (int i = 0; i < LOST; i++)
        lane_end(lanes[i]);
    cr_expect_eq(tw_executor_stop(executor), 0);
}

Test(lost, a_fleet_that_grows_has_its_threads_beside_the_lost_ones)
{
    start(128, 512, 8);
    struct tw_lane *lane = tw_lane_new(executor, 1, NULL);
    struct call hangs = CALL(lane, 1, "a", .gate = &gate, .lost_after_ns = 1);
    submit(&hangs);
    record_await(&seen, 1);
    threads_await(129);
    struct tw_error error = {0};
    cr_expect_eq(tw_executor_prepare(executor, 256, &error), TW_OK, "%s", error.text);
    cr_expect_eq(status_now().threads, 257);
    gate_let(&gate, 1);
    lost_await(0);
    lane_end(lane);
    cr_expect_eq(tw_executor_stop(executor), 0);
}

Test(lost, a_stop_does_not_wait_for_what_is_lost_and_nothing_of_it_goes_on)
{
    start(4, 4, 2);
    struct tw_lane *lane = tw_lane_new(executor, 8, NULL);
    struct call hangs =
        CALL(lane, 1, "a", .gate = &gate, .lost_after_ns = 1, .end_when_lost = TW_JOB_PARK);
    struct call closes = CALL(lane, 1, "close");
    submit(&hangs);
    record_await(&seen, 1);
    submit(&closes);
    cr_expect_eq(tw_executor_stop(executor), 1);
    cr_expect_str_eq(seen.text, "?a -a -close");
    gate_let(&gate, 1); /* it comes back, to nobody */
    for (bool is_inside = true; is_inside; sched_yield()) {
        pthread_mutex_lock(&gate.lock);
        is_inside = gate.inside > 0;
        pthread_mutex_unlock(&gate.lock);
    }
    cr_expect_str_eq(seen.text, "?a -a -close");
}

Test(lost, a_call_that_becomes_lost_while_the_executor_stops_does_not_hold_it)
{
    start(4, 4, 2);
    struct tw_lane *lane = tw_lane_new(executor, 8, NULL);
    struct call hangs = CALL(lane, 1, "a", .gate = &gate, .lost_after_ns = 200 * TW_NS_PER_MS);
    submit(&hangs);
    gate_await(&gate, 1);
    cr_expect_eq(tw_executor_stop(executor), 1);
    cr_expect_str_eq(seen.text, "?a");
}
