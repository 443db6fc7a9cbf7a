/* pool_floor.c - what the kernel alone needs, and the executor.
 *
 * floor: a group of sleeping threads per core and a leader per core; a burst changes a word and
 * wakes, every thread takes a number. No queue, no job, no lock. wake: the same without leaders,
 * the submitter wakes everybody itself, its own core's first; for one copy this is the bare futex
 * wake. */
#include "bench.h"
#include "pool.h"

#include <tradewake/executor/executor.h>

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { GROUPS_MAX = 64, FLOOR_STACK_BYTES = 64 * 1024 };

struct floor_group {
    _Alignas(64) atomic_int epoch;
    _Alignas(64) atomic_int next;
    _Alignas(64) atomic_int end;
    _Alignas(64) atomic_int call;
    size_t core;
    int first; /* its copies begin here */
};

static struct floor_group groups[GROUPS_MAX];
static uint32_t n_groups;
static struct burst *floor_burst;

static void futex(atomic_int *word, int operation, int value)
{
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void pin(size_t core)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static int number_take(struct floor_group *group)
{
    for (;;) {
        int number = atomic_load(&group->next);
        if (number < atomic_load(&group->end)) {
            if (atomic_compare_exchange_weak(&group->next, &number, number + 1))
                return number;
            continue;
        }
        int epoch = atomic_load(&group->epoch);
        if (atomic_load(&group->next) >= atomic_load(&group->end))
            futex(&group->epoch, FUTEX_WAIT, epoch);
    }
}

static void *floor_worker(void *arg)
{
    struct floor_group *group = arg;
    pin(group->core);
    for (;;) {
        int number = number_take(group);
        copy_run(floor_burst, (uint32_t)(group->first + number));
    }
    return NULL;
}

static void group_wake(struct floor_group *group)
{
    atomic_fetch_add(&group->epoch, 1);
    futex(&group->epoch, FUTEX_WAKE, atomic_load(&group->end));
}

static void *floor_leader(void *arg)
{
    struct floor_group *group = arg;
    pin(group->core);
    for (int seen = 0;;) {
        int call;
        while ((call = atomic_load(&group->call)) == seen)
            futex(&group->call, FUTEX_WAIT, seen);
        seen = call;
        group_wake(group);
    }
    return NULL;
}

static bool floor_open(const struct pool_settings *settings, struct burst *burst)
{
    cpu_set_t usable;
    pthread_attr_t attributes;
    pthread_t id;
    floor_burst = burst;
    sched_getaffinity(0, sizeof usable, &usable);
    for (size_t core = 0; core < CPU_SETSIZE && n_groups < GROUPS_MAX; core++)
        if (CPU_ISSET(core, &usable))
            groups[n_groups++].core = core;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, FLOOR_STACK_BYTES);
    int failed = 0;
    for (uint32_t i = 0; i < settings->threads && failed == 0; i++)
        failed = pthread_create(&id, &attributes, floor_worker, &groups[i % n_groups]);
    for (uint32_t g = 0; g < n_groups && failed == 0; g++)
        failed = pthread_create(&id, &attributes, floor_leader, &groups[g]);
    pthread_attr_destroy(&attributes);
    atomic_store(&burst->threads, settings->threads);
    if (failed != 0)
        fprintf(stderr, "a thread could not be created: %s\n", strerror(failed));
    return failed == 0;
}

/* The shares, with nobody awake; then the wakes are all that is left. What cannot be shared evenly goes to `begin`
 * and those after it. */
static void floor_share(struct burst *burst, uint32_t begin)
{
    uint32_t copies = burst_copies(burst);
    int first = 0;
    for (uint32_t g = 0; g < n_groups; g++) {
        int share = (int)(copies / n_groups + ((g + n_groups - begin) % n_groups < copies % n_groups));
        groups[g].first = first;
        first += share;
        atomic_store(&groups[g].end, 0);
        atomic_store(&groups[g].next, 0);
        atomic_store(&groups[g].end, share);
    }
}

/* The floor knows no events: all of them are begun, then everybody is woken. */
static void events_begin(struct burst *burst)
{
    for (uint32_t close = 0; close < burst->closes; close++)
        event_begin(burst, close);
}

static void floor_submit(struct burst *burst)
{
    events_begin(burst);
    floor_share(burst, 0);
    for (uint32_t g = 0; g < n_groups; g++) {
        if (atomic_load(&groups[g].end) == 0)
            continue;
        atomic_fetch_add(&groups[g].call, 1);
        futex(&groups[g].call, FUTEX_WAKE, 1);
    }
}

/* The group of the core that this thread is on: a wake there needs no interrupt to another. */
static uint32_t group_here(void)
{
    int core = sched_getcpu();
    for (uint32_t g = 0; g < n_groups; g++)
        if ((int)groups[g].core == core)
            return g;
    return 0;
}

static void wake_submit(struct burst *burst)
{
    events_begin(burst);
    floor_share(burst, group_here());
    for (uint32_t g = 0; g < n_groups; g++)
        if (atomic_load(&groups[g].end) > 0)
            group_wake(&groups[g]);
}

static void floor_close(void)
{
    _exit(0); /* its threads know no end */
}

const struct pool pool_floor = {
    .name = "floor",
    .about = "the kernel's wakes alone, a leader per core",
    .open = floor_open,
    .submit = floor_submit,
    .close = floor_close,
};
const struct pool pool_wake = {
    .name = "wake",
    .about = "the kernel's wakes alone, by the submitter",
    .open = floor_open,
    .submit = wake_submit,
    .close = floor_close,
};

/* ---- the executor ---- */

enum { LANE_PARALLEL = 64 };

struct bench_job {
    struct tw_job job;
    uint32_t copy;
};

static struct {
    struct tw_executor *executor;
    struct tw_lane **lanes; /* of each follower; one for every 64 closes, as many as run at once */
    uint32_t n_lanes;
    struct bench_job *jobs;
    struct tw_job **batch; /* of an event */
    struct burst *burst;
} ours;

static void job_run(struct tw_job *job)
{
    uint32_t copy = ((const struct bench_job *)job)->copy;
    struct copy_times *times = &ours.burst->copies[copy];
    uint32_t created = (uint32_t)(tw_executor_threads_late(ours.executor) - job->threads_late);
    uint32_t at_start = job->threads_at_start + created;
    copy_run(ours.burst, copy);
    times->threads_at_start = at_start;
    tw_job_finish(job, TW_JOB_DONE);
}

static bool ours_open(const struct pool_settings *settings, struct burst *burst)
{
    struct tw_error error = {0};
    const struct tw_executor_options options = {.threads_ready = settings->threads,
                                                .realtime = settings->realtime,
                                                .pinned = settings->pinned};
    if (tw_executor_start(&options, &ours.executor, &error) != TW_OK) {
        fprintf(stderr, "%s\n", error.text);
        return false;
    }
    ours.burst = burst;
    ours.n_lanes = burst->followers * ((burst->closes + LANE_PARALLEL - 1) / LANE_PARALLEL);
    ours.lanes = calloc(ours.n_lanes, sizeof *ours.lanes);
    ours.jobs = calloc(burst_copies(burst), sizeof *ours.jobs);
    ours.batch = calloc(burst->followers, sizeof *ours.batch);
    for (uint32_t i = 0; i < ours.n_lanes; i++)
        ours.lanes[i] = tw_lane_new(ours.executor, LANE_PARALLEL, NULL);
    for (uint32_t copy = 0; copy < burst_copies(burst); copy++) {
        uint32_t close = copy / burst->followers, follower = copy % burst->followers;
        ours.jobs[copy] = (struct bench_job){
            .copy = copy,
            .job = {.run = job_run,
                    .cancelled = bench_job_cancelled,
                    .lane = ours.lanes[close / LANE_PARALLEL * burst->followers + follower],
                    .key = 1 + close,
                    .job_class = TW_JOB_URGENT}};
    }
    struct tw_executor_status status;
    tw_executor_status_get(ours.executor, &status);
    atomic_store(&burst->threads, status.threads);
    return true;
}

static void ours_submit(struct burst *burst)
{
    for (uint32_t close = 0; close < burst->closes; close++) {
        event_begin(burst, close);
        for (uint32_t f = 0; f < burst->followers; f++)
            ours.batch[f] = &ours.jobs[close * burst->followers + f].job;
        tw_executor_submit(ours.executor, ours.batch, burst->followers);
    }
}

static void ours_close(void)
{
    tw_executor_stop(ours.executor);
    for (uint32_t i = 0; i < ours.n_lanes; i++)
        tw_lane_free(ours.lanes[i]);
    free(ours.lanes);
    free(ours.jobs);
    free(ours.batch);
}

const struct pool pool_tradewake = {
    .name = "tradewake",
    .about = "the executor: lanes, groups, leaders",
    .open = ours_open,
    .submit = ours_submit,
    .close = ours_close,
};
