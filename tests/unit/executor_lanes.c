/* executor_lanes.c - who may start, in which order: keys, slots, classes, parking, withdrawing. */
#include "executor_gate.h"

#include <tradewake/base/clock.h>

#include <criterion/criterion.h>

TestSuite(lanes, .timeout = 20);

static struct tw_executor *executor;
static struct gate gate = GATE_CLOSED;
static struct record started = RECORD_EMPTY, ended = RECORD_EMPTY;

static void start(void)
{
    const struct tw_executor_options options = {
        .threads_ready = 8, .threads_max = 8, .pinned = true};
    struct tw_error error = {0};
    cr_assert_eq(tw_executor_start(&options, &executor, &error), TW_OK, "%s", error.text);
}

static void stop(void)
{
    tw_executor_stop(executor);
}

static void submit_all(struct trial *trials, size_t n)
{
    struct tw_job *jobs[64];
    cr_assert_leq(n, sizeof jobs / sizeof jobs[0]);
    for (size_t i = 0; i < n; i++)
        jobs[i] = &trials[i].job;
    tw_executor_submit(executor, jobs, n);
}

#define SUBMIT_ALL(trials) submit_all(trials, sizeof(trials) / sizeof((trials)[0]))
#define WITH               .gate = &gate, .started = &started, .ended = &ended

Test(lanes, jobs_of_one_key_run_one_at_a_time_and_in_order, .init = start, .fini = stop)
{
    struct tw_lane *lane = tw_lane_new(executor, 8, NULL);
    struct trial trials[] = {
        TRIAL(lane, 7, TW_JOB_NORMAL, "a", WITH),
        TRIAL(lane, 7, TW_JOB_URGENT, "b", WITH),
        TRIAL(lane, 7, TW_JOB_POLL, "c", WITH),
        TRIAL(lane, 9, TW_JOB_NORMAL, "x", WITH),
    };
    SUBMIT_ALL(trials);
    gate_await(&gate, 2); /* "a" and "x" stand in run() */
    cr_expect_eq(tw_lane_jobs(lane), 4);
    struct tw_executor_status status;
    tw_executor_status_get(executor, &status);
    cr_expect_eq(status.calls_in_flight, 2);
    cr_expect_eq(status.calls_queued, 2);

    gate_let(&gate, 4);
    record_await(&ended, 4);

    cr_expect_lt(strchr(started.text, 'a'), strchr(started.text, 'b'), "%s", started.text);
    cr_expect_lt(strchr(started.text, 'b'), strchr(started.text, 'c'), "%s", started.text);
    tw_executor_status_get(executor, &status);
    cr_expect_eq(status.peak_in_flight, 2, "a key's jobs overlapped: %u ran",
                 status.peak_in_flight);
    cr_expect_eq(status.calls_completed, 4);
    cr_expect_eq(tw_lane_jobs(lane), 0);
    tw_lane_free(lane);
}

Test(lanes, key_zero_asks_for_no_order, .init = start, .fini = stop)
{
    struct tw_lane *lane = tw_lane_new(executor, 3, NULL);
    struct trial trials[] = {
        TRIAL(lane, 0, TW_JOB_NORMAL, "a", WITH),
        TRIAL(lane, 0, TW_JOB_NORMAL, "b", WITH),
        TRIAL(lane, 0, TW_JOB_NORMAL, "c", WITH),
    };
    SUBMIT_ALL(trials);
    gate_await(&gate, 3); /* all three at once */
    gate_let(&gate, 3);
    record_await(&ended, 3);
    tw_lane_free(lane);
}

Test(lanes, at_most_max_parallel_jobs_of_a_lane_run_and_the_rest_is_held, .init = start,
     .fini = stop)
{
    struct tw_lane *lane = tw_lane_new(executor, 2, NULL), *other = tw_lane_new(executor, 2, NULL);
    struct trial trials[] = {
        TRIAL(lane, 1, TW_JOB_NORMAL, "a", WITH),  TRIAL(lane, 2, TW_JOB_NORMAL, "b", WITH),
        TRIAL(lane, 3, TW_JOB_NORMAL, "c", WITH),  TRIAL(lane, 4, TW_JOB_NORMAL, "d", WITH),
        TRIAL(other, 1, TW_JOB_NORMAL, "o", WITH),
    };
    int64_t before_ns = tw_mono_ns();
    SUBMIT_ALL(trials);
    gate_await(&gate, 3); /* a, b and the other lane's */
    cr_expect_eq(trials[0].job.held_ns, 0);

    gate_let(&gate, 5);
    record_await(&ended, 5);

    struct tw_executor_status status;
    tw_executor_status_get(executor, &status);
    cr_expect_eq(status.peak_in_flight, 3);
    cr_expect_gt(trials[3].job.held_ns, 0);
    cr_expect_leq(trials[3].job.held_ns, tw_mono_ns() - before_ns);
    tw_lane_free(lane);
    tw_lane_free(other);
}

Test(lanes, what_reduces_risk_goes_first_then_first_in_first_out, .init = start, .fini = stop)
{
    struct tw_lane *lane = tw_lane_new(executor, 1, NULL);
    struct trial trials[] = {
        TRIAL(lane, 1, TW_JOB_NORMAL, "first", WITH), TRIAL(lane, 2, TW_JOB_POLL, "poll", WITH),
        TRIAL(lane, 3, TW_JOB_NORMAL, "n1", WITH),    TRIAL(lane, 4, TW_JOB_NORMAL, "n2", WITH),
        TRIAL(lane, 5, TW_JOB_URGENT, "u1", WITH),    TRIAL(lane, 6, TW_JOB_URGENT, "u2", WITH),
    };
    SUBMIT_ALL(trials);
    gate_let(&gate, 6);
    record_await(&ended, 6);

    cr_expect_str_eq(started.text, "first u1 u2 n1 n2 poll");
    tw_lane_free(lane);
}

Test(lanes, polls_wait_for_work_and_leave_the_last_slot_free, .init = start, .fini = stop)
{
    struct tw_lane *lane = tw_lane_new(executor, 3, NULL);
    struct gate polls = GATE_CLOSED;
    struct trial work = TRIAL(lane, 1, TW_JOB_NORMAL, "work", WITH);
    struct trial more = TRIAL(lane, 2, TW_JOB_NORMAL, "more", WITH);
    struct trial reads[] = {
        TRIAL(lane, 0, TW_JOB_POLL, "p1", .gate = &polls, .started = &started, .ended = &ended),
        TRIAL(lane, 0, TW_JOB_POLL, "p2", .gate = &polls, .started = &started, .ended = &ended),
        TRIAL(lane, 0, TW_JOB_POLL, "p3", .gate = &polls, .started = &started, .ended = &ended),
    };
    trial_submit(executor, &work);
    gate_await(&gate, 1);
    SUBMIT_ALL(reads);
    gate_let(&gate, 1);
    gate_await(&polls, 2); /* two of three slots */
    cr_expect_gt(reads[0].job.held_ns, 0, "a poll was admitted beside work");
    cr_expect_gt(reads[1].job.held_ns, 0, "a poll was admitted beside work");
    trial_submit(executor, &more);
    gate_await(&gate, 2); /* the last slot is there for work */
    gate_let(&polls, 1);
    record_await(&ended, 2);
    cr_expect_eq(gate_entered(&polls), 2, "a poll runs beside work");
    gate_let(&gate, 1);
    gate_let(&polls, 2);
    record_await(&ended, 5);
    cr_expect_not_null(strstr(started.text, "more p3"), "%s", started.text);
    tw_lane_free(lane);
}

Test(lanes, a_lane_of_one_slot_polls_when_it_is_idle, .init = start, .fini = stop)
{
    struct tw_lane *lane = tw_lane_new(executor, 1, NULL);
    struct trial poll = TRIAL(lane, 0, TW_JOB_POLL, "poll", .ended = &ended);
    trial_submit(executor, &poll);
    record_await(&ended, 1);
    tw_lane_free(lane);
}

Test(lanes, a_parked_job_frees_its_slot_and_keeps_its_key, .init = start, .fini = stop)
{
    struct tw_lane *lane = tw_lane_new(executor, 1, NULL);
    struct trial parks = TRIAL(lane, 1, TW_JOB_NORMAL, "parks", .started = &started,
                               .ended = &ended, .ends = {TW_JOB_PARK});
    struct trial same = TRIAL(lane, 1, TW_JOB_URGENT, "same", .started = &started, .ended = &ended);
    struct trial other =
        TRIAL(lane, 2, TW_JOB_NORMAL, "other", .started = &started, .ended = &ended);
    struct trial poll = TRIAL(lane, 0, TW_JOB_POLL, "poll", .started = &started, .ended = &ended);
    trial_submit(executor, &parks);
    record_await(&ended, 1);
    trial_submit(executor, &same);
    trial_submit(executor, &other);
    record_await(&ended, 2);
    trial_submit(executor, &poll); /* may be what the parked job waits for */
    record_await(&ended, 3);
    cr_expect_str_eq(started.text, "parks other poll");
    cr_expect_eq(tw_lane_jobs(lane), 2);
    struct tw_executor_status status;
    tw_executor_status_get(executor, &status);
    cr_expect_eq(status.calls_queued, 1, "only \"same\" waits to be started: %u",
                 status.calls_queued);
    cr_expect_eq(status.calls_in_flight, 0);

    cr_expect(tw_job_unpark(&parks.job));
    record_await(&ended, 5);

    cr_expect_str_eq(started.text, "parks other poll parks same");
    cr_expect_gt(parks.job.held_ns, 0, "the time parked is held time");
    tw_executor_status_get(executor, &status);
    cr_expect_eq(status.calls_queued, 0);
    tw_lane_free(lane);
}

Test(lanes, unpark_of_a_job_that_is_not_parked_says_so_and_does_nothing, .init = start,
     .fini = stop)
{
    struct tw_lane *lane = tw_lane_new(executor, 1, NULL);
    struct trial runs = TRIAL(lane, 1, TW_JOB_NORMAL, "runs", WITH);
    struct trial waits = TRIAL(lane, 1, TW_JOB_NORMAL, "waits", WITH);
    trial_submit(executor, &runs);
    trial_submit(executor, &waits);
    gate_await(&gate, 1);

    cr_expect_not(tw_job_unpark(&runs.job));
    cr_expect_not(tw_job_unpark(&waits.job));
    gate_let(&gate, 2);
    record_await(&ended, 2);
    cr_expect_not(tw_job_unpark(&runs.job));
    cr_expect_str_eq(started.text, "runs waits");
    tw_lane_free(lane);
}

Test(lanes, more_slots_take_effect_at_once, .init = start, .fini = stop)
{
    struct tw_lane *lane = tw_lane_new(executor, 1, NULL);
    struct trial trials[] = {
        TRIAL(lane, 1, TW_JOB_NORMAL, "a", WITH),
        TRIAL(lane, 2, TW_JOB_NORMAL, "b", WITH),
        TRIAL(lane, 3, TW_JOB_NORMAL, "c", WITH),
    };
    SUBMIT_ALL(trials);
    gate_await(&gate, 1);

    tw_lane_parallel_set(lane, 3);
    gate_await(&gate, 3);
    tw_lane_parallel_set(lane, 1); /* what runs goes on */
    gate_let(&gate, 3);
    record_await(&ended, 3);
    tw_lane_free(lane);
}

static bool match_marked(struct tw_job *job, void *context)
{
    return strchr(context, ((const struct trial *)job)->name[0]) != NULL;
}

Test(lanes, cancel_withdraws_what_is_held_ready_queued_or_parked_and_lets_run_what_runs,
     .init = start, .fini = stop)
{
    struct tw_lane *filler = tw_lane_new(executor, 8, NULL), *lane = tw_lane_new(executor, 4, NULL);
    struct gate hold = GATE_CLOSED;
    struct trial parked =
        TRIAL(lane, 1, TW_JOB_NORMAL, "p", .ended = &ended, .ends = {TW_JOB_PARK});
    trial_submit(executor, &parked);
    record_await(&ended, 1);
    struct trial runs = TRIAL(lane, 2, TW_JOB_NORMAL, "r", .gate = &hold, .ended = &ended);
    trial_submit(executor, &runs);
    gate_await(&hold, 1);
    struct trial fill[7]; /* with "r": every thread stands at a gate */
    for (int i = 0; i < 7; i++) {
        fill[i] =
            (struct trial)TRIAL(filler, 0, TW_JOB_NORMAL, "f", .gate = &hold, .ended = &ended);
        trial_submit(executor, &fill[i]);
    }
    gate_await(&hold, 8);
    struct trial trials[] = {
        TRIAL(lane, 3, TW_JOB_NORMAL, "q", .ended = &ended), /* admitted, no thread */
        TRIAL(lane, 3, TW_JOB_NORMAL, "h", .ended = &ended), /* behind q's key */
        TRIAL(lane, 4, TW_JOB_NORMAL, "k", .ended = &ended), /* admitted, stays */
        TRIAL(lane, 5, TW_JOB_NORMAL, "l", .ended = &ended), /* admitted, stays */
        TRIAL(lane, 6, TW_JOB_NORMAL, "w", .ended = &ended), /* no slot left */
        TRIAL(lane, 1, TW_JOB_NORMAL, "b",
              .ended = &ended), /* behind the parked one's key, stays */
    };
    SUBMIT_ALL(trials);
    struct tw_executor_status status;
    tw_executor_status_get(executor, &status);
    cr_expect_eq(status.calls_queued, 6);

    size_t n = tw_lane_cancel(lane, match_marked, "pqhwr");

    cr_expect_eq(n, 4);
    cr_expect_str_eq(ended.text, "p -p -q -h -w", "%s", ended.text);
    tw_executor_status_get(executor, &status);
    cr_expect_eq(status.calls_queued, 3);
    cr_expect_eq(tw_lane_jobs(lane), 4);
    gate_let(&hold, 8);
    record_await(&ended, 5 + 4 + 7); /* r, k, l and b, whose key is free now; and the fillers */
    tw_lane_free(lane);
    tw_lane_free(filler);
}

Test(lanes, a_withdrawn_owner_leaves_its_key_to_the_next, .init = start, .fini = stop)
{
    struct tw_lane *lane = tw_lane_new(executor, 1, NULL);
    struct trial trials[] = {
        TRIAL(lane, 1, TW_JOB_NORMAL, "r", WITH), TRIAL(lane, 2, TW_JOB_NORMAL, "a", WITH),
        TRIAL(lane, 2, TW_JOB_NORMAL, "b", WITH), TRIAL(lane, 2, TW_JOB_NORMAL, "c", WITH),
        TRIAL(lane, 2, TW_JOB_NORMAL, "d", WITH),
    };
    SUBMIT_ALL(trials);
    gate_await(&gate, 1);

    cr_expect_eq(tw_lane_cancel(lane, match_marked, "ac"),
                 2); /* the owner, and one in the middle */
    struct trial last = TRIAL(lane, 2, TW_JOB_NORMAL, "e", WITH);
    trial_submit(executor, &last);
    gate_let(&gate, 4);
    record_await(&ended, 2 + 4);
    cr_expect_str_eq(started.text, "r b d e");
    tw_lane_free(lane);
}

struct relay {
    struct trial trial;
    struct trial *next; /* submitted from inside run(), before or after finish */
    bool is_early;
};

static void relay_run(struct tw_job *job)
{
    const struct relay relay = *(struct relay *)job; /* gone after finish */
    if (relay.is_early)
        trial_submit(executor, relay.next);
    record_add(&started, relay.trial.name);
    tw_job_finish(job, TW_JOB_DONE);
    if (!relay.is_early)
        trial_submit(executor, relay.next);
}

Test(lanes, a_job_may_submit_others_and_itself_from_inside_run, .init = start, .fini = stop)
{
    struct tw_lane *lane = tw_lane_new(executor, 1, NULL);
    struct trial last = TRIAL(lane, 1, TW_JOB_NORMAL, "last", .started = &started, .ended = &ended);
    struct relay second = {TRIAL(lane, 1, TW_JOB_NORMAL, "second"), .next = &last,
                           .is_early = true};
    struct relay first = {TRIAL(lane, 1, TW_JOB_NORMAL, "first"), .next = &second.trial};
    first.trial.job.run = second.trial.job.run = relay_run;

    trial_submit(executor, &first.trial);
    record_await(&ended, 1);
    cr_expect_str_eq(started.text, "first second last");

    trial_submit(executor, &last); /* a job that is back may be submitted anew */
    record_await(&ended, 2);
    tw_lane_free(lane);
}

Test(lanes, a_hundred_thousand_waiting_jobs_are_no_burden, .init = start, .fini = stop)
{
    enum { N = 100000 };
    struct tw_lane *lane = tw_lane_new(executor, 1, NULL);
    struct trial plug = TRIAL(lane, 1, TW_JOB_NORMAL, "plug", .gate = &gate, .ended = &ended);
    trial_submit(executor, &plug);
    gate_await(&gate, 1);
    struct trial *trials = calloc(N, sizeof *trials);
    struct tw_job **jobs = calloc(N, sizeof *jobs);
    for (unsigned i = 0; i < N; i++) {
        trials[i] = (struct trial)TRIAL(lane, 2 + i / 2, TW_JOB_NORMAL, "w");
        jobs[i] = &trials[i].job;
    }

    tw_executor_submit(executor, jobs, N);
    cr_expect_eq(tw_lane_jobs(lane), N + 1);
    cr_expect_eq(tw_lane_cancel(lane, match_marked, "w"),
                 N); /* each also leaves its key to another */
    gate_let(&gate, 1);
    record_await(&ended, 1);
    cr_expect_eq(tw_lane_jobs(lane), 0);
    free(jobs);
    free(trials);
    tw_lane_free(lane);
}
