/* executor_start.c - what is refused at the start, what start and prepare give, and that a start
 * that fails half-way leaves nothing behind. Linked with --wrap=calloc,--wrap=pthread_create. */
#include "executor_gate.h"

#include <tradewake/base/limits.h>

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

TestSuite(start, .timeout = 60);

/* ---- the nth call of calloc and pthread_create, counted together, fails ---- */

static unsigned calls_left; /* 0 = nothing fails */

static bool is_failing(void)
{
    return calls_left > 0 && --calls_left == 0;
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    return is_failing() ? NULL : __real_calloc(n, size);
}

int __real_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*main)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*main)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*main)(void *),
                          void *arg)
{
    return is_failing() ? EAGAIN : __real_pthread_create(id, attr, main, arg);
}

static unsigned threads_of_process(void)
{
    unsigned n = 0;
    DIR *tasks = opendir("/proc/self/task");
    while (readdir(tasks) != NULL)
        n++;
    closedir(tasks);
    return n - 2; /* . and .. */
}

/* A joined thread stays visible in /proc for a moment. */
static bool threads_fall_to(unsigned n)
{
    for (int i = 0; i < 10000 && threads_of_process() > n; i++)
        sched_yield();
    return threads_of_process() == n;
}

/* The scheduler's view of the calling thread: policy, nice value, slice. */
static void scheduling_of_caller(unsigned char attributes[48])
{
    memset(attributes, 0, 48);
    cr_assert_eq(syscall(SYS_sched_getattr, 0, attributes, 48, 0), 0);
}

Test(start, every_ready_thread_waits_when_start_returns)
{
    const struct tw_executor_options options = {.threads_ready = 200, .groups = 2, .pinned = true};
    struct tw_executor *executor = NULL;
    struct tw_error error = {0};
    unsigned before = threads_of_process();
    cpu_set_t cores_before, cores_after;
    unsigned char scheduling_before[48], scheduling_after[48];
    sched_getaffinity(0, sizeof cores_before, &cores_before);
    scheduling_of_caller(scheduling_before);

    cr_assert_eq(tw_executor_start(&options, &executor, &error), TW_OK, "%s", error.text);

    struct tw_executor_status status;
    tw_executor_status_get(executor, &status);
    cr_expect_eq(status.threads, 256, "%u: rounded up to a multiple of 128", status.threads);
    cr_expect_eq(status.threads_ready, 256);
    cr_expect_eq(status.threads_max, TW_THREADS_MAX_DEFAULT);
    cr_expect_eq(status.threads_created_late, 0);
    cr_expect_eq(status.groups, 2);
    cr_expect(status.pinned);
    cr_expect_not(status.realtime);
    cr_expect_eq(threads_of_process(), before + 256 + 2 + 1, "workers, leaders, spawner");
    sched_getaffinity(0, sizeof cores_after, &cores_after);
    cr_expect(CPU_EQUAL(&cores_before, &cores_after), "the caller's affinity mask has changed");
    scheduling_of_caller(scheduling_after);
    cr_expect_arr_eq(scheduling_before, scheduling_after, 48,
                     "the caller's scheduling has changed");

    tw_executor_stop(executor);
    cr_expect(threads_fall_to(before), "%u threads are left", threads_of_process() - before);
}

Test(start, rounding_never_asks_for_more_than_is_allowed)
{
    const struct tw_executor_options options = {.threads_ready = 3, .threads_max = 5};
    struct tw_executor *executor = NULL;
    cr_assert_eq(tw_executor_start(&options, &executor, NULL), TW_OK);
    struct tw_executor_status status;
    tw_executor_status_get(executor, &status);
    cr_expect_eq(status.threads, 5);
    cr_expect_eq(status.threads_max, 5);
    tw_executor_stop(executor);
}

Test(start, no_thread_at_all_is_a_size_too)
{
    const struct tw_executor_options options = {.threads_ready = 0};
    struct tw_executor *executor = NULL;
    cr_assert_eq(tw_executor_start(&options, &executor, NULL), TW_OK);
    tw_executor_stop(executor);
    tw_executor_stop(NULL);
}

Test(start, more_than_the_maximum_is_refused_with_both_numbers_and_the_limit)
{
    const struct tw_executor_options options = {.threads_ready = 1024, .threads_max = 1000};
    struct tw_executor *executor = NULL;
    struct tw_error error = {0};

    cr_expect_eq(tw_executor_start(&options, &executor, &error), TW_LIMIT);

    cr_expect_null(executor);
    cr_expect_not_null(strstr(error.text, "1024"), "%s", error.text);
    cr_expect_not_null(strstr(error.text, "1000"), "%s", error.text);
    cr_expect_not_null(strstr(error.text, "executor.threads_max"), "%s", error.text);
}

Test(start, more_groups_than_there_may_be_are_refused)
{
    const struct tw_executor_options options = {.threads_ready = 1, .groups = TW_GROUPS_MAX + 1};
    struct tw_executor *executor = NULL;
    struct tw_error error = {0};
    cr_expect_eq(tw_executor_start(&options, &executor, &error), TW_INVALID);
    cr_expect_not_null(strstr(error.text, "expected 0..8"), "%s", error.text);
}

Test(start, whatever_fails_nothing_is_left_and_the_words_say_what)
{
    const struct tw_executor_options options = {.threads_ready = 6, .threads_max = 6, .groups = 2};
    struct tw_executor *executor = NULL;
    struct tw_error error;
    unsigned before = threads_of_process(), n = 0;
    tw_status status;
    do {
        error = (struct tw_error){0};
        calls_left = ++n;
        status = tw_executor_start(&options, &executor, &error);
        calls_left = 0;
        if (status != TW_OK) {
            cr_expect_neq(error.text[0], '\0', "failure %u did not explain itself", n);
            cr_expect(threads_fall_to(before), "failure %u left threads", n);
        }
        cr_assert_lt(n, 100);
    } while (status != TW_OK);

    cr_expect_gt(n, 1 + 1 + 2 + 6, "workers' memory, spawner, leaders and workers: only %u failed",
                 n - 1);
    tw_executor_stop(executor);
}

Test(start, prepare_adds_ready_threads_and_refuses_more_than_the_maximum)
{
    const struct tw_executor_options options = {
        .threads_ready = 2, .threads_max = 300, .groups = 2};
    struct tw_executor *executor = NULL;
    struct tw_error error = {0};
    cr_assert_eq(tw_executor_start(&options, &executor, &error), TW_OK, "%s", error.text);
    struct tw_executor_status status;
    tw_executor_status_get(executor, &status);
    cr_expect_eq(status.threads, 128);

    cr_expect_eq(tw_executor_prepare(executor, 100, &error), TW_OK);
    tw_executor_status_get(executor, &status);
    cr_expect_eq(status.threads, 128, "fewer than there are changes nothing");
    cr_expect_eq(tw_executor_prepare(executor, 129, &error), TW_OK);
    tw_executor_status_get(executor, &status);
    cr_expect_eq(status.threads, 256);
    cr_expect_eq(status.threads_ready, 256);
    cr_expect_eq(status.threads_created_late, 0);

    cr_expect_eq(tw_executor_prepare(executor, 301, &error), TW_LIMIT);
    cr_expect_not_null(strstr(error.text, "301"), "%s", error.text);
    cr_expect_not_null(strstr(error.text, "300"), "%s", error.text);

    calls_left = 10;
    cr_expect_eq(tw_executor_prepare(executor, 300, &error), TW_LIMIT);
    calls_left = 0;
    tw_executor_status_get(executor, &status);
    cr_expect_eq(status.threads, 265, "what had been created stays: %u", status.threads);
    cr_expect_not_null(strstr(error.text, "265"), "%s", error.text);
    cr_expect_eq(tw_executor_prepare(executor, 300, &error), TW_OK);
    tw_executor_status_get(executor, &status);
    cr_expect_eq(status.threads, 300);
    tw_executor_stop(executor);
}

Test(start, real_time_leaders_are_used_where_the_system_allows_them)
{
    bool is_allowed =
        sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1}) == 0;
    if (is_allowed)
        sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
    const struct tw_executor_options options = {
        .threads_ready = 1, .threads_max = 1, .realtime = true};
    struct tw_executor *executor = NULL;

    cr_assert_eq(tw_executor_start(&options, &executor, NULL), TW_OK);
    struct tw_executor_status status;
    tw_executor_status_get(executor, &status);
    cr_expect_eq(status.realtime, is_allowed);
    tw_executor_stop(executor);
}
