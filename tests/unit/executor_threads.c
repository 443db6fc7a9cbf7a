/* executor_threads.c - threads against calls: late ones, the cap, nobody waits while one is idle,
 * and how an executor stops. */
#include "executor_gate.h"

#include <tradewake/base/clock.h>
#include <tradewake/executor/reactor.h>

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(threads, .timeout = 30);

static struct tw_executor *executor;
static struct gate gate = GATE_CLOSED;
static struct record started = RECORD_EMPTY, ended = RECORD_EMPTY;

static void start(uint32_t ready, uint32_t max, uint32_t groups)
{
    const struct tw_executor_options options = {
        .threads_ready = ready, .threads_max = max, .groups = groups, .pinned = true};
    struct tw_error error = {0};
    cr_assert_eq(tw_executor_start(&options, &executor, &error), TW_OK, "%s", error.text);
}

static struct tw_executor_status status_now(void)
{
    struct tw_executor_status status;
    tw_executor_status_get(executor, &status);
    return status;
}

static struct trial *trials_new(struct tw_lane *lane, size_t n, struct gate *at,
                                struct record *done)
{
    struct trial *trials = calloc(n, sizeof *trials);
    for (size_t i = 0; i < n; i++)
        trials[i] = (struct trial)TRIAL(lane, 0, TW_JOB_NORMAL, ".", .gate = at, .ended = done);
    return trials;
}

static void submit_in_one(struct trial *trials, size_t n)
{
    struct tw_job **jobs = calloc(n, sizeof *jobs);
    for (size_t i = 0; i < n; i++)
        jobs[i] = &trials[i].job;
    tw_executor_submit(executor, jobs, n);
    free(jobs);
}

Test(threads, ready_ones_take_a_burst_and_none_is_created)
{
    start(128, 0, 2);
    struct tw_lane *lane = tw_lane_new(executor, 64, NULL),
                   *other = tw_lane_new(executor, 64, NULL);
    struct trial *a = trials_new(lane, 64, &gate, &ended),
                 *b = trials_new(other, 64, &gate, &ended);

    submit_in_one(a, 64);
    submit_in_one(b, 64);
    gate_await(&gate, 128);

    struct tw_executor_status status = status_now();
    cr_expect_eq(status.threads, 128);
    cr_expect_eq(status.calls_in_flight, 128);
    cr_expect_eq(status.peak_in_flight, 128);
    cr_expect_eq(status.threads_created_late, 0);
    cr_expect_eq(a[0].job.threads_at_start, 128);
    cr_expect_eq(a[0].job.queue_depth, 0);
    gate_let(&gate, 128);
    record_await(&ended, 128);
    tw_lane_free(lane);
    tw_lane_free(other);
    free(a);
    free(b);
    tw_executor_stop(executor);
}

Test(threads, missing_ones_are_created_late_and_counted_never_more_than_needed)
{
    start(0, 100, 2);
    struct tw_lane *lane = tw_lane_new(executor, 64, NULL);
    struct trial *trials = trials_new(lane, 20, &gate, &ended);
    cr_expect_eq(status_now().threads, 0);

    submit_in_one(trials, 20);
    gate_await(&gate, 20); /* every call runs at once */

    cr_expect_eq(status_now().threads, 20);
    cr_expect_eq(status_now().threads_created_late, 20);
    cr_expect_eq(tw_executor_threads_late(executor), 20);
    cr_expect_eq(status_now().threads_ready, 0);
    cr_expect_eq(trials[0].job.threads_late, 0);
    cr_expect_eq(trials[0].job.threads_at_start, 0);

    struct trial *more = trials_new(lane, 1, &gate, &ended);
    submit_in_one(more, 1);
    gate_await(&gate, 21);
    cr_expect_eq(more->job.threads_late, 20);
    cr_expect_eq(more->job.threads_at_start, 20);
    gate_let(&gate, 21);
    record_await(&ended, 21);
    cr_expect_eq(status_now().threads, 21);
    tw_lane_free(lane);
    free(trials);
    free(more);
    tw_executor_stop(executor);
}

Test(threads, the_next_job_of_a_lane_needs_no_new_thread)
{
    start(2, 2, 2);
    tw_executor_stop(executor);
    start(0, 64, 2);
    struct tw_lane *lane = tw_lane_new(executor, 1, NULL);
    struct trial *trials = trials_new(lane, 1000, NULL, &ended);
    submit_in_one(trials, 1000);
    record_await(&ended, 1000);

    cr_expect_leq(status_now().threads, 2, "%u threads for one call at a time",
                  status_now().threads);
    cr_expect_eq(status_now().peak_in_flight, 1);
    tw_lane_free(lane);
    free(trials);
    tw_executor_stop(executor);
}

Test(threads, past_the_cap_jobs_wait_first_in_first_out_urgent_first_polls_last)
{
    start(2, 2, 2);
    struct tw_lane *lanes[8];
    for (int i = 0; i < 8; i++)
        lanes[i] = tw_lane_new(executor, 4, NULL);
    struct trial *plugs = trials_new(lanes[0], 2, &gate, NULL);
    submit_in_one(plugs, 2);
    gate_await(&gate, 2);
    struct trial trials[] = {
        TRIAL(lanes[1], 1, TW_JOB_POLL, "p", .started = &started, .ended = &ended),
        TRIAL(lanes[2], 1, TW_JOB_NORMAL, "n1", .started = &started, .ended = &ended),
        TRIAL(lanes[3], 1, TW_JOB_NORMAL, "n2", .started = &started, .ended = &ended),
        TRIAL(lanes[4], 1, TW_JOB_URGENT, "u1", .started = &started, .ended = &ended),
        TRIAL(lanes[5], 1, TW_JOB_NORMAL, "n3", .started = &started, .ended = &ended),
        TRIAL(lanes[6], 1, TW_JOB_URGENT, "u2", .started = &started, .ended = &ended),
    };
    for (size_t i = 0; i < 6; i++)
        trial_submit(executor, &trials[i]);
    cr_expect_eq(trials[5].job.queue_depth, 5);
    cr_expect_eq(status_now().calls_queued, 6);

    gate_let(&gate, 1); /* one thread works all six off */
    record_await(&ended, 6);

    cr_expect_str_eq(started.text, "u1 u2 n1 n2 n3 p");
    cr_expect_eq(status_now().threads, 2);
    cr_expect_eq(status_now().threads_created_late, 0);
    gate_let(&gate, 1);
    tw_executor_stop(executor);
    for (int i = 0; i < 8; i++)
        tw_lane_free(lanes[i]);
    free(plugs);
}

/* Each round leaves another number of idle workers, unevenly over the groups; whatever is submitted
 * up to that number has to run at once. */
Test(threads, no_job_waits_while_any_worker_of_any_group_is_idle)
{
    enum { THREADS = 12, ROUNDS = 300 };
    start(THREADS, THREADS, 4);
    struct tw_lane *lane = tw_lane_new(executor, THREADS, NULL);
    unsigned entered = 0, done = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned busy = round % THREADS;
        struct trial *first = trials_new(lane, THREADS, &gate, &ended);
        submit_in_one(first, busy);
        gate_await(&gate, entered += busy);
        for (unsigned i = busy; i < THREADS; i++)
            trial_submit(executor, &first[i]);
        gate_await(&gate, entered += THREADS - busy);

        gate_let(&gate, THREADS);
        record_await(&ended, done += THREADS);
        free(first);
        ended.text[0] = '\0';
    }
    cr_expect_eq(status_now().threads_created_late, 0);
    tw_lane_free(lane);
    tw_executor_stop(executor);
}

static _Atomic unsigned in_flight_seen;

static void run_and_look(struct tw_job *job)
{
    struct trial *trial = (struct trial *)job;
    tw_job_finish(job, TW_JOB_DONE);
    in_flight_seen = status_now().calls_in_flight; /* what whoever continues sees */
    record_add(&ended, trial->name);
}

Test(threads, the_in_flight_count_has_fallen_before_the_end_is_told)
{
    start(1, 1, 1);
    struct tw_lane *lane = tw_lane_new(executor, 1, NULL);
    struct trial trial = TRIAL(lane, 1, TW_JOB_NORMAL, "a");
    trial.job.run = run_and_look;
    in_flight_seen = 99;
    trial_submit(executor, &trial);
    record_await(&ended, 1);
    cr_expect_eq(in_flight_seen, 0);
    tw_lane_free(lane);
    tw_executor_stop(executor);
}

/* ---- stop ---- */

static void *stop_main(void *arg)
{
    tw_executor_stop(arg);
    return NULL;
}

Test(threads, stop_cancels_what_waits_and_lets_what_runs_finish)
{
    start(2, 2, 2);
    struct tw_lane *lane = tw_lane_new(executor, 2, NULL), *other = tw_lane_new(executor, 2, NULL);
    struct trial parked =
        TRIAL(lane, 9, TW_JOB_NORMAL, "parked", .ended = &ended, .ends = {TW_JOB_PARK});
    trial_submit(executor, &parked);
    record_await(&ended, 1);
    struct trial runs = TRIAL(lane, 1, TW_JOB_NORMAL, "runs", .gate = &gate, .ended = &ended);
    struct gate parks_gate = GATE_CLOSED;
    struct trial parks = TRIAL(lane, 2, TW_JOB_NORMAL, "parks", .gate = &parks_gate,
                               .ended = &ended, .ends = {TW_JOB_PARK});
    struct trial held = TRIAL(lane, 1, TW_JOB_NORMAL, "held", .ended = &ended);
    struct trial queued = TRIAL(other, 1, TW_JOB_NORMAL, "queued", .ended = &ended);
    struct trial late = TRIAL(other, 2, TW_JOB_NORMAL, "late", .ended = &ended);
    trial_submit(executor, &runs);
    trial_submit(executor, &parks);
    gate_await(&gate, 1);
    gate_await(&parks_gate, 1);
    trial_submit(executor, &held);
    trial_submit(executor, &queued);

    pthread_t stopper;
    pthread_create(&stopper, NULL, stop_main, executor);
    record_await(&ended, 4); /* parked, held and queued are back; two run */
    trial_submit(executor, &late);
    record_await(&ended, 5);
    gate_let(&parks_gate, 1);
    record_await(&ended, 6);
    cr_expect_not(tw_job_unpark(&parks.job), "after stop began nothing starts");
    gate_let(&gate, 1);
    pthread_join(stopper, NULL);

    cr_expect_eq(ended.n, 8, "%s", ended.text);
    cr_expect_not_null(strstr(ended.text, "-parked"), "%s", ended.text);
    cr_expect_not_null(strstr(ended.text, "-held"), "%s", ended.text);
    cr_expect_not_null(strstr(ended.text, "-queued"), "%s", ended.text);
    cr_expect_not_null(strstr(ended.text, "-late"), "%s", ended.text);
    cr_expect_not_null(strstr(ended.text, "-parks"), "a job parked after stop began: %s",
                       ended.text);
    cr_expect_eq(tw_lane_jobs(lane), 0);
    tw_lane_free(lane); /* also after the executor is gone */
    tw_lane_free(other);
}

static bool match_any(struct tw_job *job, void *context)
{
    (void)job;
    (void)context;
    return true;
}

struct big_batch {
    struct tw_job **jobs;
    size_t n;
};

static void *batch_submit_main(void *arg)
{
    const struct big_batch *batch = arg;
    tw_executor_submit(executor, batch->jobs, batch->n);
    return NULL;
}

/* While submit passes over a large batch, its first job is admitted and in no queue yet. */
Test(threads, a_job_in_the_middle_of_its_submit_is_cancelled_too)
{
    enum { N = 200000 };
    start(1, 1, 1);
    struct tw_lane *plug_lane = tw_lane_new(executor, 1, NULL),
                   *lane = tw_lane_new(executor, 1, NULL),
                   *crowd_lane = tw_lane_new(executor, 1, NULL);
    struct trial *plug = trials_new(plug_lane, 1, &gate, NULL),
                 *crowd = trials_new(crowd_lane, N, NULL, NULL);
    struct trial first = TRIAL(lane, 1, TW_JOB_NORMAL, "first", .ended = &ended);
    submit_in_one(plug, 1);
    gate_await(&gate, 1);
    struct big_batch batch = {.jobs = calloc(N + 1, sizeof *batch.jobs), .n = N + 1};
    batch.jobs[0] = &first.job;
    for (size_t i = 0; i < N; i++)
        batch.jobs[i + 1] = &crowd[i].job;

    pthread_t submitter;
    pthread_create(&submitter, NULL, batch_submit_main, &batch);
    while (tw_lane_jobs(lane) == 0)
        continue;
    cr_expect_eq(tw_lane_cancel(lane, match_any, NULL), 1);
    cr_expect_str_eq(ended.text, "-first");
    pthread_join(submitter, NULL);
    cr_expect_eq(tw_lane_cancel(crowd_lane, match_any, NULL), N);
    gate_let(&gate, 1);
    tw_executor_stop(executor);
    tw_lane_free(lane);
    tw_lane_free(plug_lane);
    tw_lane_free(crowd_lane);
    free(batch.jobs);
    free(plug);
    free(crowd);
}

/* ---- a reactor's lane ---- */

static struct tw_reactor *reactor;

static void run_on_reactor(struct tw_job *job)
{
    struct trial *trial = (struct trial *)job;
    cr_assert(tw_reactor_is_current(reactor));
    record_add(&started, trial->name);
    if (trial->gate == NULL) /* with one, somebody finishes it later */
        trial_run(job);
}

struct finisher {
    struct tw_task task;
    struct trial *trial;
};

static void finisher_run(struct tw_task *task)
{
    trial_run(&((struct finisher *)task)->trial->job);
}

Test(threads, a_reactor_lane_runs_on_its_reactor_and_needs_no_worker)
{
    start(0, 8, 2);
    cr_assert_eq(tw_reactor_start("test", &reactor, NULL), TW_OK);
    struct tw_lane *lane = tw_lane_new(executor, 2, reactor);
    struct trial trials[] = {
        TRIAL(lane, 1, TW_JOB_NORMAL, "a", .gate = &gate, .ended = &ended),
        TRIAL(lane, 1, TW_JOB_NORMAL, "b", .ended = &ended),
        TRIAL(lane, 2, TW_JOB_NORMAL, "c", .ended = &ended),
        TRIAL(lane, 3, TW_JOB_NORMAL, "d", .ended = &ended),
        TRIAL(lane, 4, TW_JOB_URGENT, "e", .ended = &ended),
    };
    struct tw_job *jobs[5];
    for (int i = 0; i < 5; i++) {
        trials[i].job.run = run_on_reactor;
        jobs[i] = &trials[i].job;
    }
    tw_executor_submit(executor, jobs, 5);
    record_await(&ended, 3);
    cr_expect_str_eq(started.text, "a c e d", "two at once, one of a key, urgent first: %s",
                     started.text);
    cr_expect_eq(status_now().calls_in_flight, 1);
    cr_expect_eq(status_now().threads, 0);

    struct finisher finisher = {.task.run = finisher_run, .trial = &trials[0]};
    trials[0].gate = NULL;
    tw_reactor_post(reactor, &finisher.task);
    record_await(&ended, 5);
    cr_expect_str_eq(started.text, "a c e d b");
    tw_executor_stop(executor);
    tw_lane_free(lane);
    tw_reactor_stop(reactor);
}

Test(threads, a_job_that_waits_for_a_busy_reactor_is_cancelled_at_once)
{
    start(0, 8, 2);
    cr_assert_eq(tw_reactor_start("test", &reactor, NULL), TW_OK);
    struct tw_lane *lane = tw_lane_new(executor, 8, reactor),
                   *plug = tw_lane_new(executor, 1, reactor);
    struct trial blocks = TRIAL(plug, 1, TW_JOB_NORMAL, "blocks", .gate = &gate, .ended = &ended);
    struct trial waits = TRIAL(lane, 1, TW_JOB_NORMAL, "waits", .ended = &ended);
    trial_submit(executor, &blocks);
    gate_await(&gate, 1);
    trial_submit(executor, &waits);

    pthread_t stopper;
    pthread_create(&stopper, NULL, stop_main, executor);
    record_await(&ended, 1);
    cr_expect_str_eq(ended.text, "-waits");
    gate_let(&gate, 1);
    pthread_join(stopper, NULL);
    cr_expect_str_eq(ended.text, "-waits blocks");
    tw_lane_free(lane);
    tw_lane_free(plug);
    tw_reactor_stop(reactor);
}
