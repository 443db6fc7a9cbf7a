/* executor_fair.c - jobs that wait for a thread: each tenant its turn; how long who comes now would wait. */
#include "executor_gate.h"

#include "fair.h"
#include "pace.h"

#include <tradewake/base/clock.h>

#include <criterion/criterion.h>

TestSuite(fair, .timeout = 20);

static struct gate gate = GATE_CLOSED;
static struct record started = RECORD_EMPTY, ended = RECORD_EMPTY;

static struct tw_executor *one_thread(void)
{
    const struct tw_executor_options options = {.threads_ready = 1, .threads_max = 1, .groups = 1};
    struct tw_executor *executor = NULL;
    struct tw_error error = {0};
    cr_assert_eq(tw_executor_start(&options, &executor, &error), TW_OK, "%s", error.text);
    return executor;
}

enum { CROWD = 60, FEW = 3 };

static struct trial trials[1 + CROWD + FEW];

static void trial_set(struct trial *trial, struct tw_lane *lane, uint32_t tenant, const char *name)
{
    *trial = (struct trial)TRIAL(lane, 0, TW_JOB_NORMAL, name, .started = &started, .ended = &ended);
    trial->job.tenant = tenant;
}

Test(fair, a_crowd_does_not_stand_in_front_of_a_few)
{
    struct tw_executor *executor = one_thread();
    struct tw_lane *busy = tw_lane_new(executor, 64, NULL), *lane = tw_lane_new(executor, 64, NULL),
                   *other = tw_lane_new(executor, 64, NULL);
    struct tw_job *jobs[CROWD + FEW];
    trial_set(&trials[0], busy, 0, "first");
    trials[0].gate = &gate;
    trial_submit(executor, &trials[0]);
    gate_await(&gate, 1); /* the one thread is taken: all else waits */
    for (size_t i = 0; i < CROWD + FEW; i++) {
        bool is_few = i >= CROWD;
        trial_set(&trials[1 + i], is_few ? other : lane, is_few ? 2 : 1, is_few ? "few" : "crowd");
        jobs[i] = &trials[1 + i].job;
    }
    tw_executor_submit(executor, jobs, CROWD + FEW);
    gate_let(&gate, 1);
    record_await(&ended, 1 + CROWD + FEW);
    cr_expect_eq(strncmp(started.text, "first crowd few crowd few crowd few crowd crowd", 47), 0, "%s", started.text);
    tw_executor_stop(executor);
    tw_lane_free(busy);
    tw_lane_free(lane);
    tw_lane_free(other);
}

Test(fair, each_tenant_in_turn_and_each_in_its_own_order)
{
    static struct fair_list list;
    struct tw_job jobs[9] = {0};
    static const uint32_t tenants[9] = {5, 5, 5, 63, 63, 0, 5, 64, 7}; /* 64 shares the row of 0 */
    static const size_t expected[9] = {5, 0, 8, 3, 7, 1, 4, 2, 6};
    for (size_t i = 0; i < 9; i++) {
        jobs[i].tenant = tenants[i];
        fair_append(&list, &jobs[i]);
    }
    for (size_t i = 0; i < 9; i++)
        cr_expect_eq(fair_take(&list), &jobs[expected[i]], "taken as number %zu", i);
    cr_expect_eq(fair_take(&list), NULL);
    fair_append(&list, &jobs[0]);
    fair_remove(&list, &jobs[0]);
    cr_expect_eq(list.taken, 0);
    cr_expect_eq(fair_take(&list), NULL);
}

Test(fair, the_wait_follows_from_how_fast_those_before_were_taken)
{
    struct pace pace = {0};
    int64_t now_ns = TW_NS_PER_S;
    cr_expect_eq(pace_wait_ns(&pace, 0, now_ns), 0);
    pace_begin(&pace, now_ns);
    cr_expect_eq(pace_wait_ns(&pace, 10, now_ns), 0, "nobody knows yet");
    for (uint32_t left = 1000; left > 900; left--)
        pace_taken(&pace, now_ns += 5 * TW_NS_PER_MS, left - 1);
    cr_expect_eq(pace_wait_ns(&pace, 900, now_ns), 4500 * TW_NS_PER_MS);
    for (uint32_t left = 900; left > 400; left--) /* it has become slower: a while later it is known */
        pace_taken(&pace, now_ns += 50 * TW_NS_PER_MS, left - 1);
    int64_t wait_ns = pace_wait_ns(&pace, 400, now_ns);
    cr_expect(wait_ns > 19 * TW_NS_PER_S && wait_ns <= 20 * TW_NS_PER_S, "%lld", (long long)wait_ns);
    cr_expect_eq(pace_wait_ns(&pace, 1, now_ns + 60 * TW_NS_PER_S), 60 * TW_NS_PER_S, "it stands still");
}

Test(fair, a_few_do_not_wait_for_a_crowd_and_are_not_told_so)
{
    static struct fair_list list;
    static struct tw_job jobs[1000 + 3];
    for (size_t i = 0; i < 1000; i++) {
        jobs[i].tenant = 1;
        fair_append(&list, &jobs[i]);
    }
    cr_expect_eq(fair_ahead(&list, 1), 1000);
    for (uint32_t n = 0; n < 3; n++) {
        cr_expect_eq(fair_ahead(&list, 2), 2 * n + 1, "its own %u, and a turn of the crowd before each", n);
        jobs[1000 + n].tenant = 2;
        fair_append(&list, &jobs[1000 + n]);
    }
    cr_expect_eq(fair_ahead(&list, 1), 1003);
    cr_expect_eq(fair_ahead(&list, 3), 2);
}

Test(fair, what_only_passes_through_says_nothing_of_the_pace)
{
    struct pace pace = {0};
    int64_t now_ns = TW_NS_PER_S;
    pace_begin(&pace, now_ns);
    for (uint32_t left = 64; left > 0; left--)
        pace_taken(&pace, now_ns += TW_NS_PER_MS, left - 1);
    for (int i = 0; i < 900; i++) {
        pace_begin(&pace, now_ns += 10 * TW_NS_PER_MS);
        pace_taken(&pace, now_ns += 100, 0);
    }
    cr_expect_eq(pace_wait_ns(&pace, 10, now_ns), 10 * TW_NS_PER_MS);
}

Test(fair, a_pace_of_before_a_pause_is_forgotten)
{
    struct pace pace = {0};
    int64_t now_ns = TW_NS_PER_S;
    pace_begin(&pace, now_ns);
    for (uint32_t left = 8; left > 0; left--)
        pace_taken(&pace, now_ns += TW_NS_PER_S, left - 1);
    pace_begin(&pace, now_ns += 9 * TW_NS_PER_S);
    cr_expect_eq(pace_wait_ns(&pace, 8, now_ns), 8 * TW_NS_PER_S, "still known");
    pace_end(&pace);
    pace_begin(&pace, now_ns += 2 * TW_NS_PER_S);
    cr_expect_eq(pace_wait_ns(&pace, 8, now_ns), 0, "nobody knows any more");
    pace_taken(&pace, now_ns += TW_NS_PER_MS, 7);
    cr_expect_eq(pace_wait_ns(&pace, 7, now_ns), 7 * TW_NS_PER_MS, "measured anew");
}

Test(fair, a_lane_tells_how_long_it_would_take)
{
    struct tw_executor *executor = one_thread();
    struct tw_lane *lane = tw_lane_new(executor, 1, NULL);
    static struct trial held[3];
    cr_expect_eq(tw_lane_wait_ns(lane, 0), 0);
    for (size_t i = 0; i < 3; i++) {
        trial_set(&held[i], lane, 0, "held");
        held[i].gate = &gate;
        trial_submit(executor, &held[i]);
    }
    gate_await(&gate, 1);
    int64_t from_ns = tw_mono_ns();
    while (tw_mono_ns() < from_ns + TW_NS_PER_MS)
        ;
    cr_expect_geq(tw_lane_wait_ns(lane, 0), TW_NS_PER_MS, "two wait, and nothing moves");
    gate_let(&gate, 3);
    record_await(&ended, 3);
    cr_expect_eq(tw_lane_wait_ns(lane, 0), 0);
    tw_executor_stop(executor);
    tw_lane_free(lane);
}
