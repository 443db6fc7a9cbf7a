/* stress_executor.c - submit, cancel, park, unpark, grow, prepare, lose calls and stop, all at
 * once.
 *
 * Promise: every submitted job comes back exactly once, jobs of one key never overlap and keep
 * their order, and a lane never runs more than its max_parallel.
 *
 * stress_executor [--seconds N] [--seed N]     Prints both sides of the account; exit code 1 when
 * they differ. Each round starts an executor, works on it from all sides for a third of a second,
 * and stops it in the middle of that. Jobs are from the heap and freed as soon as they are back, so
 * a sanitizer sees whoever touches one too long. */
#include <tradewake/base/clock.h>
#include <tradewake/base/limits.h>
#include <tradewake/executor/executor.h>
#include <tradewake/executor/reactor.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SUBMITTERS = 3,
    LANES = 10,
    LANES_ON_REACTOR = 4,  /* the first ones */
    LANES_THAT_CHANGE = 3, /* the last ones: their max_parallel moves, so it is not checked */
    KEYS = 6,              /* of a submitter in a lane; key 0 is one of them */
    OUT_MAX = 600,         /* of a submitter */
    BATCH_MAX = 64,
    PARKED_MAX = 64,
    ROUND_MS = 330,
};

struct key_watch {
    atomic_int inside;
    _Atomic uint64_t last; /* number of the job that began last */
};

struct lane_watch {
    struct tw_lane *lane;
    uint32_t max_parallel;
    atomic_uint inside;
    struct key_watch keys[SUBMITTERS][KEYS];
    uint64_t submitted[SUBMITTERS][KEYS]; /* the submitter's own */
};

struct stress_job {
    struct tw_job job;
    struct tw_timer timer;
    struct lane_watch *lane;
    struct key_watch *key; /* NULL: key 0 */
    uint64_t number;       /* of its key, in the order of submission */
    uint32_t dice;
    uint32_t parks; /* so many times still */
    int parked_at;  /* in parked[], -1 = not there */
    unsigned submitter;
    atomic_bool is_out;
};

static struct tw_executor *executor;
static struct tw_reactor *reactor;
static struct lane_watch lanes[LANES];
static atomic_bool leave;
static atomic_ulong submitted, done, cancelled, runs, parks, unparked, grown;
static atomic_ulong lost, returned, left_behind;
static atomic_ulong twice, overlapping, overtaking, over_parallel;
static atomic_uint out[SUBMITTERS];

/* Jobs that are parked or about to be. The lock keeps a job from being freed while it is unparked.
 */
static pthread_mutex_t parked_lock = PTHREAD_MUTEX_INITIALIZER;
static struct stress_job *parked[PARKED_MAX];

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* ---- parking ---- */

static bool parked_enter(struct stress_job *job)
{
    pthread_mutex_lock(&parked_lock);
    for (int i = 0; i < PARKED_MAX && job->parked_at < 0; i++)
        if (parked[i] == NULL) {
            parked[i] = job;
            job->parked_at = i;
        }
    pthread_mutex_unlock(&parked_lock);
    return job->parked_at >= 0;
}

static void parked_leave(struct stress_job *job)
{
    pthread_mutex_lock(&parked_lock);
    if (job->parked_at >= 0)
        parked[job->parked_at] = NULL;
    job->parked_at = -1;
    pthread_mutex_unlock(&parked_lock);
}

static void *unparker_main(void *arg)
{
    uint64_t state = *(uint64_t *)arg;
    while (!atomic_load(&leave)) {
        pthread_mutex_lock(&parked_lock);
        struct stress_job *job = parked[random_next(&state) % PARKED_MAX];
        if (job != NULL && tw_job_unpark(&job->job))
            atomic_fetch_add(&unparked, 1);
        pthread_mutex_unlock(&parked_lock);
        sched_yield();
    }
    return NULL;
}

/* ---- the jobs ---- */

static void come_back(struct stress_job *job, atomic_ulong *how)
{
    parked_leave(job);
    if (!atomic_exchange(&job->is_out, false))
        atomic_fetch_add(&twice, 1);
    atomic_fetch_add(how, 1);
    atomic_fetch_sub(&out[job->submitter], 1);
    free(job);
}

static void job_cancelled(struct tw_job *job)
{
    come_back((struct stress_job *)job, &cancelled);
}

static void begin(struct stress_job *job)
{
    atomic_fetch_add(&runs, 1);
    if (atomic_fetch_add(&job->lane->inside, 1) >= job->lane->max_parallel)
        atomic_fetch_add(&over_parallel, 1);
    if (job->key == NULL)
        return;
    if (atomic_fetch_add(&job->key->inside, 1) != 0)
        atomic_fetch_add(&overlapping, 1);
    if (atomic_exchange(&job->key->last, job->number) > job->number)
        atomic_fetch_add(&overtaking, 1);
}

static void end(struct stress_job *job)
{
    if (job->key != NULL)
        atomic_fetch_sub(&job->key->inside, 1);
    atomic_fetch_sub(&job->lane->inside, 1);
    if (job->parks > 0 && parked_enter(job)) {
        job->parks--;
        atomic_fetch_add(&parks, 1);
        tw_job_finish(&job->job, TW_JOB_PARK); /* may run again, or be gone, from here on */
        return;
    }
    parked_leave(job);
    tw_job_finish(&job->job, TW_JOB_DONE);
    come_back(job, &done);
}

static void timer_fire(struct tw_timer *timer)
{
    end((struct stress_job *)((char *)timer - offsetof(struct stress_job, timer)));
}

static void run_on_reactor(struct tw_job *tw_job)
{
    struct stress_job *job = (struct stress_job *)tw_job;
    begin(job);
    if (job->dice % 2 == 0)
        tw_timer_set(reactor, &job->timer, tw_mono_ns() + job->dice % 1000 * TW_NS_PER_US);
    else
        end(job);
}

/* Some of them are lost first, some come back first, many do both at the same moment. */
static void call_that_hangs(struct stress_job *job)
{
    struct tw_lane *lane = job->job.lane;
    const struct timespec length = {.tv_nsec = job->dice / 512 % 60 * TW_NS_PER_MS};
    tw_job_call_begin(&job->job, tw_mono_ns() + TW_NS_PER_MS); /* it may be gone from here on */
    nanosleep(&length, NULL);
    if (tw_job_call_end(&job->job)) {
        end(job);
        return;
    }
    atomic_fetch_add(&returned, 1);
    tw_lane_lost_call_end(lane);
}

/* Thread: watch. */
static void job_lost(struct tw_job *job)
{
    atomic_fetch_add(&lost, 1);
    end((struct stress_job *)job);
}

static void run_on_worker(struct tw_job *tw_job)
{
    struct stress_job *job = (struct stress_job *)tw_job;
    begin(job);
    if (job->dice % 512 == 2) {
        call_that_hangs(job);
        return;
    }
    if (job->dice % 4 == 0)
        nanosleep(&(struct timespec){.tv_nsec = job->dice % 300000}, NULL);
    else if (job->dice % 4 == 1)
        sched_yield();
    end(job);
}

/* Thread: the submitter. Keys belong to one submitter each, so that their order is known. */
static struct stress_job *job_new(unsigned submitter, uint64_t dice)
{
    struct lane_watch *lane = &lanes[dice % LANES];
    unsigned key = (unsigned)(dice >> 8) % KEYS;
    struct stress_job *job = calloc(1, sizeof *job);
    if (job == NULL)
        abort();
    job->job.run = lane < &lanes[LANES_ON_REACTOR] ? run_on_reactor : run_on_worker;
    job->job.cancelled = job_cancelled;
    job->job.lost = job_lost;
    job->job.lane = lane->lane;
    job->job.key = key == 0 ? 0 : submitter * 1000 + key;
    job->job.job_class = (enum tw_job_class)((dice >> 16) % 3);
    job->timer.fire = timer_fire;
    job->lane = lane;
    job->key = key == 0 ? NULL : &lane->keys[submitter][key];
    job->number = ++lane->submitted[submitter][key];
    job->dice = (uint32_t)(dice >> 32);
    job->parks = dice >> 20 & 7 ? 0 : 1 + (dice >> 24 & 1);
    job->parked_at = -1;
    job->submitter = submitter;
    atomic_store(&job->is_out, true);
    return job;
}

/* ---- from all sides ---- */

struct side {
    pthread_t thread;
    uint64_t seed;
    unsigned submitter;
};

static void *submitter_main(void *arg)
{
    const struct side *side = arg;
    uint64_t state = side->seed;
    while (!atomic_load(&leave)) {
        if (atomic_load(&out[side->submitter]) > OUT_MAX) {
            sched_yield();
            continue;
        }
        struct tw_job *batch[BATCH_MAX];
        size_t n = 1 + random_next(&state) % BATCH_MAX;
        for (size_t i = 0; i < n; i++)
            batch[i] = &job_new(side->submitter, random_next(&state))->job;
        atomic_fetch_add(&out[side->submitter], (unsigned)n);
        atomic_fetch_add(&submitted, n);
        tw_executor_submit(executor, batch, n);
    }
    return NULL;
}

static bool match_some(struct tw_job *job, void *context)
{
    return ((const struct stress_job *)job)->dice % 5 <= *(const uint32_t *)context;
}

static void *canceller_main(void *arg)
{
    uint64_t state = *(uint64_t *)arg;
    while (!atomic_load(&leave)) {
        uint32_t rest = (uint32_t)(random_next(&state) % 5);
        tw_lane_cancel(lanes[random_next(&state) % LANES].lane, match_some, &rest);
        sched_yield();
    }
    return NULL;
}

static void *grower_main(void *arg)
{
    uint64_t state = *(uint64_t *)arg;
    while (!atomic_load(&leave)) {
        if (tw_executor_prepare(executor, 1 + (uint32_t)(random_next(&state) % 48), NULL) == TW_OK)
            atomic_fetch_add(&grown, 1);
        struct tw_lane *lane = lanes[LANES - 1 - random_next(&state) % LANES_THAT_CHANGE].lane;
        tw_lane_parallel_set(lane, 1 + (uint32_t)(random_next(&state) % TW_PARALLEL_MAX));
        struct tw_executor_status status;
        tw_executor_status_get(executor, &status);
        nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
    }
    return NULL;
}

/* ---- a round ---- */

/* Keeps the executor from being gone while the sides still call it. */
struct keeper {
    struct tw_job job;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_in, may_end;
};

static void keeper_run(struct tw_job *job)
{
    struct keeper *keeper = (struct keeper *)job;
    pthread_mutex_lock(&keeper->lock);
    keeper->is_in = true;
    pthread_cond_broadcast(&keeper->changed);
    while (!keeper->may_end)
        pthread_cond_wait(&keeper->changed, &keeper->lock);
    pthread_mutex_unlock(&keeper->lock);
    tw_job_finish(job, TW_JOB_DONE);
}

static void *stop_main(void *arg)
{
    atomic_fetch_add(&left_behind, tw_executor_stop(arg));
    return NULL;
}

static void lanes_make(struct lane_watch *all, uint64_t *state)
{
    for (int i = 0; i < LANES; i++) {
        all[i] = (struct lane_watch){.max_parallel = 1 + (uint32_t)(random_next(state) % 8)};
        all[i].lane =
            tw_lane_new(executor, all[i].max_parallel, i < LANES_ON_REACTOR ? reactor : NULL);
        if (all[i].lane == NULL)
            abort();
        if (i >= LANES - LANES_THAT_CHANGE)
            all[i].max_parallel = UINT32_MAX;
    }
}

static void round_run(uint64_t *state)
{
    struct tw_error error = {0};
    /* Few threads: late ones, the cap, the overflow. Many: portions of wakes, and stealing. */
    bool is_large = random_next(state) % 2 == 0;
    const struct tw_executor_options options = {.threads_ready = is_large ? 200 : 4,
                                                .threads_max = is_large ? 256 : 64,
                                                .threads_reserved = (uint32_t)(random_next(state) % 3) * 4,
                                                .groups = 1 + (uint32_t)(random_next(state) % 3),
                                                .pinned = random_next(state) % 2 == 0};
    if (tw_executor_start(&options, &executor, &error) != TW_OK ||
        tw_reactor_start("stress", &reactor, &error) != TW_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    atomic_store(&leave, false);
    lanes_make(lanes, state);
    struct tw_lane *keepers = tw_lane_new(executor, 1, NULL);
    struct keeper keeper = {.job = {.run = keeper_run, .lane = keepers},
                            .lock = PTHREAD_MUTEX_INITIALIZER,
                            .changed = PTHREAD_COND_INITIALIZER};
    struct tw_job *keeper_job = &keeper.job;
    tw_executor_submit(executor, &keeper_job, 1);
    pthread_mutex_lock(&keeper.lock);
    while (!keeper.is_in)
        pthread_cond_wait(&keeper.changed, &keeper.lock);
    pthread_mutex_unlock(&keeper.lock);

    void *(*const mains[])(void *) = {submitter_main, submitter_main, submitter_main,
                                      canceller_main, unparker_main,  grower_main};
    enum { SIDES = sizeof mains / sizeof mains[0] };
    struct side sides[SIDES];
    for (unsigned i = 0; i < SIDES; i++) {
        sides[i] = (struct side){.seed = random_next(state), .submitter = i};
        void *arg = i < SUBMITTERS ? (void *)&sides[i] : (void *)&sides[i].seed;
        pthread_create(&sides[i].thread, NULL, mains[i], arg);
    }
    nanosleep(&(struct timespec){.tv_nsec = ROUND_MS * 1000000L}, NULL);

    pthread_t stopper;
    pthread_create(&stopper, NULL, stop_main, executor);
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL); /* they go on while it stops */
    atomic_store(&leave, true);
    for (unsigned i = 0; i < SIDES; i++)
        pthread_join(sides[i].thread, NULL);
    pthread_mutex_lock(&keeper.lock);
    keeper.may_end = true;
    pthread_cond_broadcast(&keeper.changed);
    pthread_mutex_unlock(&keeper.lock);
    pthread_join(stopper, NULL);

    tw_reactor_stop(reactor);
    tw_lane_free(keepers);
    for (int i = 0; i < LANES; i++)
        if (tw_lane_jobs(lanes[i].lane) == 0) /* else its lost calls may come back to it */
            tw_lane_free(lanes[i].lane);
}

/* ---- one worker that is always just about to sleep ---- */

struct ball {
    struct tw_job job;
    atomic_uint back;
};

static void ball_run(struct tw_job *job)
{
    struct ball *ball = (struct ball *)job;
    tw_job_finish(job, TW_JOB_DONE);
    atomic_fetch_add(&ball->back, 1);
}

/* The next job comes while the worker goes from its last one to sleep: a wake that is lost between
 * the two ends as a standstill. A pause of random length moves the moment about. */
static unsigned long play_ball(uint64_t *state)
{
    const struct tw_executor_options options = {.threads_ready = 1, .threads_max = 1};
    struct tw_error error = {0};
    if (tw_executor_start(&options, &executor, &error) != TW_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    struct tw_lane *lane = tw_lane_new(executor, 1, NULL);
    struct ball ball = {.job = {.run = ball_run, .lane = lane}};
    struct tw_job *job = &ball.job;
    unsigned played = 0;
    for (int64_t end_ns = tw_mono_ns() + ROUND_MS * TW_NS_PER_MS; tw_mono_ns() < end_ns;) {
        tw_executor_submit(executor, &job, 1);
        played++;
        while (atomic_load(&ball.back) != played)
            continue;
        for (volatile unsigned pause = (unsigned)(random_next(state) % 2000); pause > 0; pause--)
            continue;
    }
    tw_executor_stop(executor);
    tw_lane_free(lane);
    return played;
}

static uint64_t number_option(int argc, char **argv, const char *name, uint64_t otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return strtoull(argv[i + 1], NULL, 10);
    return otherwise;
}

int main(int argc, char **argv)
{
    uint64_t seconds = number_option(argc, argv, "--seconds", 5);
    uint64_t seed = number_option(argc, argv, "--seed", (uint64_t)tw_mono_ns() | 1), state = seed;
    int64_t end_ns = tw_mono_ns() + (int64_t)seconds * TW_NS_PER_S;
    unsigned rounds = 0;
    unsigned long played = 0;
    printf("seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    alarm((unsigned)seconds + 60); /* a standstill ends as a failure */
    for (; tw_mono_ns() < end_ns; rounds++) {
        played += play_ball(&state);
        round_run(&state);
    }

    unsigned long back = atomic_load(&done) + atomic_load(&cancelled);
    unsigned long broken = atomic_load(&twice) + atomic_load(&overlapping) +
                           atomic_load(&overtaking) + atomic_load(&over_parallel);
    printf("rounds %u: submitted %lu, came back %lu (done %lu, cancelled %lu)\n"
           "runs %lu, parks %lu, unparked %lu, grown %lu\n"
           "calls lost %lu, of them back %lu, left at a stop %lu\n"
           "handed to a worker about to sleep %lu\n"
           "twice back %lu, overlapping %lu, overtaking %lu, over max_parallel %lu\n",
           rounds, atomic_load(&submitted), back, atomic_load(&done), atomic_load(&cancelled),
           atomic_load(&runs), atomic_load(&parks), atomic_load(&unparked), atomic_load(&grown),
           atomic_load(&lost), atomic_load(&returned), atomic_load(&left_behind), played,
           atomic_load(&twice), atomic_load(&overlapping), atomic_load(&overtaking),
           atomic_load(&over_parallel));
    bool is_every_call_told =
        atomic_load(&lost) == atomic_load(&returned) + atomic_load(&left_behind);
    return atomic_load(&submitted) == back && broken == 0 && is_every_call_told ? 0 : 1;
}
