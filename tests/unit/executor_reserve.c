/* executor_reserve.c - threads that are kept for what reduces risk, where threads are short. */
#include "executor_gate.h"

#include <criterion/criterion.h>

TestSuite(reserve, .timeout = 20);

enum { THREADS = 16, RESERVED = 2, OPENS = 20, CLOSES = RESERVED };

static struct gate gate = GATE_CLOSED;
static struct record started = RECORD_EMPTY, ended = RECORD_EMPTY;
static struct trial opens[OPENS], closes[CLOSES];
static struct tw_lane *lane;

static struct tw_executor *executor_with(uint32_t ready, uint32_t max)
{
    const struct tw_executor_options options = {
        .threads_ready = ready, .threads_max = max, .groups = 2, .threads_reserved = RESERVED};
    struct tw_executor *executor = NULL;
    struct tw_error error = {0};
    cr_assert_eq(tw_executor_start(&options, &executor, &error), TW_OK, "%s", error.text);
    lane = tw_lane_new(executor, 64, NULL);
    return executor;
}

static void trials_submit(struct tw_executor *executor, struct trial *trials, size_t n, enum tw_job_class job_class,
                          const char *name)
{
    struct tw_job *jobs[OPENS];
    for (size_t i = 0; i < n; i++) {
        trials[i] = (struct trial)TRIAL(lane, 0, job_class, name, .gate = &gate, .started = &started, .ended = &ended);
        jobs[i] = &trials[i].job;
    }
    tw_executor_submit(executor, jobs, n);
}

static unsigned times(const char *text, const char *word)
{
    unsigned n = 0;
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word))
        n++;
    return n;
}

/* Opens take all the threads that they may, closes the rest: then every thread stands at the gate. */
static void crowd_and_closes(struct tw_executor *executor, enum tw_job_class crowd)
{
    trials_submit(executor, opens, OPENS, crowd, "open");
    gate_await(&gate, THREADS - RESERVED);
    trials_submit(executor, closes, CLOSES, TW_JOB_URGENT, "close");
    gate_await(&gate, THREADS);
    cr_expect_eq(times(started.text, "close"), RESERVED, "%s", started.text);
    cr_expect_eq(times(started.text, "open"), THREADS - RESERVED, "%s", started.text);
    gate_let(&gate, OPENS + CLOSES);
    record_await(&ended, OPENS + CLOSES);
}

static void end(struct tw_executor *executor)
{
    tw_executor_stop(executor);
    tw_lane_free(lane);
}

Test(reserve, closes_start_at_once_where_opens_have_all_the_threads_that_they_may)
{
    struct tw_executor *executor = executor_with(THREADS, THREADS);
    crowd_and_closes(executor, TW_JOB_NORMAL);
    end(executor);
}

Test(reserve, polls_leave_it_to_closes_too)
{
    struct tw_executor *executor = executor_with(THREADS, THREADS);
    crowd_and_closes(executor, TW_JOB_POLL);
    end(executor);
}

Test(reserve, late_threads_are_made_and_the_last_of_them_are_kept)
{
    struct tw_executor *executor = executor_with(THREADS / 2, THREADS);
    crowd_and_closes(executor, TW_JOB_NORMAL);
    struct tw_executor_status status;
    tw_executor_status_get(executor, &status);
    cr_expect_eq(status.threads, THREADS);
    end(executor);
}

static bool anything(struct tw_job *job, void *context)
{
    (void)job;
    (void)context;
    return true;
}

/* Whatever is withdrawn, on its way to a thread or not, none is taken for held for ever, and none given twice. */
Test(reserve, what_is_withdrawn_leaves_its_thread_to_the_next)
{
    static struct record ended_before = RECORD_EMPTY;
    struct tw_executor *executor = executor_with(THREADS, THREADS);
    struct tw_job *jobs[OPENS];
    for (unsigned round = 0; round < 200; round++) {
        ended_before.text[0] = '\0';
        for (size_t i = 0; i < OPENS; i++) {
            opens[i] = (struct trial)TRIAL(lane, 0, TW_JOB_NORMAL, "x", .ended = &ended_before);
            jobs[i] = &opens[i].job;
        }
        tw_executor_submit(executor, jobs, OPENS);
        tw_lane_cancel(lane, anything, NULL);
        record_await(&ended_before, (round + 1) * OPENS);
    }
    crowd_and_closes(executor, TW_JOB_NORMAL);
    end(executor);
}

Test(reserve, it_is_ready_beside_what_a_fleet_needs)
{
    struct tw_executor *executor = executor_with(THREADS, 300);
    struct tw_error error = {0};
    struct tw_executor_status status;
    cr_expect_eq(tw_executor_prepare(executor, 128, &error), TW_OK, "%s", error.text);
    tw_executor_status_get(executor, &status);
    cr_expect_eq(status.threads_ready, 256, "128 and the reserve, rounded up: %u", status.threads_ready);
    cr_expect_eq(tw_executor_prepare(executor, 300, &error), TW_OK, "%s", error.text);
    tw_executor_status_get(executor, &status);
    cr_expect_eq(status.threads_ready, 300, "%u", status.threads_ready);
    end(executor);
}
