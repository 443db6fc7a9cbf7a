/* machine.c - executor, reactor and journal thread as one thread that takes one step at a time.
 *
 * The lanes are the real ones (executor/src/lane.c): who may start and who waits is theirs. Which of the
 * jobs that may run does, whether a timer or the journal comes first: the dice say. Stands in for
 * executor.c, crew.c, reactor.c and changes_thread.c, all of whose functions that the engine calls are
 * here, so that the linker takes none of those files. */
#include "world.h"

#include <internal.h> /* of the engine */
#include <lane.h>

#include <tradewake/executor/executor.h>

#include <stdlib.h>

static struct job_list runnable;
static struct tw_job *running;
static uint32_t n_submitted;
static bool is_stopped;
static struct tw_lane *lanes;
static struct tw_task *tasks;   /* posted, oldest first */
static struct tw_timer *timers; /* ascending by due time, then by when they were set */
static struct tw_engine *engine_with_changes;
static int64_t turn_ns = INT64_MAX; /* when the journal thread gets its turn */

struct tw_executor {
    char unused;
};
struct tw_reactor {
    char unused;
};

struct tw_executor *machine_executor(void)
{
    static struct tw_executor executor;
    return &executor;
}

struct tw_reactor *machine_reactor(void)
{
    static struct tw_reactor reactor;
    return &reactor;
}

uint32_t machine_jobs_submitted(void)
{
    return n_submitted;
}

struct tw_job *machine_job(void)
{
    return running;
}

/* ---- Executor ---- */

static void lane_go_on(struct tw_lane *lane)
{
    for (struct tw_job *job; (job = lane_admit_next(lane)) != NULL;) {
        job_state_set(job, JOB_QUEUED);
        job_list_append(&runnable, job);
    }
}

struct tw_lane *tw_lane_new(struct tw_executor *executor, uint32_t max_parallel, struct tw_reactor *reactor)
{
    (void)reactor;
    struct tw_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL)
        abort();
    lane->executor = executor;
    lane->max_parallel = max_parallel;
    pthread_mutex_init(&lane->lock, NULL);
    lane->next = lanes;
    if (lanes != NULL)
        lanes->previous = lane;
    lanes = lane;
    return lane;
}

void tw_lane_free(struct tw_lane *lane)
{
    if (lane == NULL)
        return;
    if (lane->previous != NULL)
        lane->previous->next = lane->next;
    else
        lanes = lane->next;
    if (lane->next != NULL)
        lane->next->previous = lane->previous;
    pthread_mutex_destroy(&lane->lock);
    free(lane);
}

void tw_lane_parallel_set(struct tw_lane *lane, uint32_t max_parallel)
{
    lane->max_parallel = max_parallel;
    lane_go_on(lane);
}

int64_t tw_lane_wait_ns(const struct tw_lane *lane, uint32_t tenant)
{
    (void)tenant;
    (void)lane;
    return 0; /* no thread is ever missing */
}

uint32_t tw_lane_jobs(const struct tw_lane *lane)
{
    return atomic_load_explicit(&lane->jobs, memory_order_relaxed);
}

void tw_executor_submit(struct tw_executor *executor, struct tw_job *const *jobs, size_t count)
{
    (void)executor;
    crash_point();
    for (size_t i = 0; i < count; i++) {
        struct tw_job *job = jobs[i];
        job->submitted_mono_ns = world->s.now_ns;
        job->threads_late = 0;
        job->threads_at_start = 1;
        job->queue_depth = 0;
        n_submitted++;
        if (is_stopped) {
            job->cancelled(job);
        } else if (lane_place(job->lane, job)) {
            job_state_set(job, JOB_QUEUED);
            job_list_append(&runnable, job);
        }
    }
    crash_point();
}

void tw_job_finish(struct tw_job *job, enum tw_job_end end)
{
    struct tw_lane *lane = job->lane;
    crash_point();
    if (job_state_get(job) != JOB_RUNNING)
        violation("a job that does not run is finished");
    if (end == TW_JOB_PARK)
        lane_park(lane, job);
    else
        lane_finish(lane, job);
    lane_go_on(lane);
}

bool tw_job_unpark(struct tw_job *job)
{
    if (job_state_get(job) != JOB_PARKED || is_stopped)
        return false;
    lane_unpark(job->lane, job);
    lane_go_on(job->lane);
    return true;
}

static size_t lane_cancel(struct tw_lane *lane, bool (*match)(struct tw_job *job, void *context), void *context,
                          struct job_list *gone)
{
    size_t n = 0;
    for (struct tw_job *job = lane->first, *next; job != NULL; job = next) {
        next = job->next_in_lane;
        enum job_state state = job_state_get(job);
        if (state == JOB_RUNNING || !match(job, context))
            continue;
        if (state == JOB_QUEUED)
            job_list_remove(&runnable, job);
        lane_withdraw(lane, job);
        job_list_append(gone, job);
        n++;
    }
    lane_go_on(lane);
    return n;
}

static void cancelled_call(struct job_list *gone)
{
    for (struct tw_job *job; (job = job_list_take(gone)) != NULL;)
        job->cancelled(job);
}

size_t tw_lane_cancel(struct tw_lane *lane, bool (*match)(struct tw_job *job, void *context), void *context)
{
    struct job_list gone = {0};
    size_t n = lane_cancel(lane, match, context, &gone);
    cancelled_call(&gone);
    return n;
}

static bool match_all(struct tw_job *job, void *context)
{
    (void)job;
    (void)context;
    return true;
}

/* Of an earlier life in this process, which was stopped, there is nothing left but this. */
void machine_begin(void)
{
    is_stopped = false;
    timers = NULL;
    tasks = NULL;
    engine_with_changes = NULL;
    turn_ns = INT64_MAX;
}

void machine_stop(void)
{
    struct job_list gone = {0};
    is_stopped = true;
    for (struct tw_lane *lane = lanes; lane != NULL; lane = lane->next)
        (void)lane_cancel(lane, match_all, NULL, &gone);
    cancelled_call(&gone);
    timers = NULL;
}

uint64_t tw_executor_threads_late(const struct tw_executor *executor)
{
    (void)executor;
    return 0;
}

tw_status tw_executor_prepare(struct tw_executor *executor, uint32_t threads, struct tw_error *error)
{
    (void)executor;
    (void)threads;
    (void)error;
    return TW_OK;
}

uint32_t tw_executor_threads_allowed(const struct tw_executor_options *options, const char **ret_limit)
{
    (void)options;
    *ret_limit = "";
    return UINT32_MAX;
}

void tw_executor_status_get(struct tw_executor *executor, struct tw_executor_status *ret)
{
    (void)executor;
    *ret = (struct tw_executor_status){.threads = 1, .threads_max = UINT32_MAX};
}

/* A call of a blocking session comes back in time, or its worker would not be here. */
void tw_job_call_begin(struct tw_job *job, int64_t lost_mono_ns)
{
    (void)job;
    (void)lost_mono_ns;
}

bool tw_job_call_end(struct tw_job *job)
{
    (void)job;
    return true;
}

void tw_lane_lost_call_end(struct tw_lane *lane)
{
    (void)lane;
}

bool tw_lane_is_blocked(const struct tw_lane *lane)
{
    (void)lane;
    return false;
}

/* ---- Reactor ---- */

void tw_reactor_post(struct tw_reactor *reactor, struct tw_task *task)
{
    (void)reactor;
    struct tw_task **at = &tasks;
    while (*at != NULL)
        at = &(*at)->next;
    task->next = NULL;
    *at = task;
}

static void timer_remove(struct tw_timer *timer)
{
    struct tw_timer **at = &timers;
    while (*at != timer)
        at = &(*at)->next;
    *at = timer->next;
    timer->is_set = 0;
}

void tw_timer_set(struct tw_reactor *reactor, struct tw_timer *timer, int64_t due_mono_ns)
{
    if (timer->is_set)
        timer_remove(timer);
    struct tw_timer **at = &timers;
    while (*at != NULL && (*at)->due_mono_ns <= due_mono_ns)
        at = &(*at)->next;
    timer->reactor = reactor;
    timer->due_mono_ns = due_mono_ns;
    timer->next = *at;
    timer->is_set = 1;
    *at = timer;
}

bool tw_timer_stop(struct tw_reactor *reactor, struct tw_timer *timer)
{
    (void)reactor;
    bool was_set = timer->is_set != 0;
    if (was_set)
        timer_remove(timer);
    return was_set;
}

/* ---- The journal thread ---- */

void changes_wake(struct tw_engine *engine, bool is_urgent)
{
    (void)engine;
    int64_t longest_ns = is_urgent ? 5 * TW_NS_PER_MS : 50 * TW_NS_PER_MS;
    int64_t at_ns = world->s.now_ns + (chance(100) ? draw_ns(TW_NS_PER_MS, 2 * TW_NS_PER_S) : draw_ns(1, longest_ns));
    turn_ns = at_ns < turn_ns ? at_ns : turn_ns;
}

void log_await(struct tw_engine *engine, uint64_t sequence)
{
    while (!is_durable_until(engine, sequence))
        changes_turn(engine);
}

bool tw_engine_catch_up(struct tw_engine *engine)
{
    while (changes_pending(engine))
        changes_turn(engine);
    return true;
}

tw_status changes_start(struct tw_engine *engine, struct tw_error *error)
{
    (void)error;
    engine_with_changes = engine;
    engine->journal.is_started = true;
    return TW_OK;
}

void changes_stop(struct tw_engine *engine)
{
    if (engine->journal.is_started)
        (void)tw_engine_catch_up(engine);
}

/* ---- A step ---- */

static void job_run(void)
{
    struct tw_job *job = runnable.first;
    for (uint64_t skip = draw(runnable.count); skip > 0; skip--)
        job = job->next;
    job_list_remove(&runnable, job);
    job_state_set(job, JOB_RUNNING);
    running = job;
    job->run(job);
    running = NULL;
}

static void task_run(void)
{
    struct tw_task *task = tasks;
    tasks = task->next;
    task->run(task);
}

static void timer_fire(void)
{
    struct tw_timer *timer = timers;
    timers = timer->next;
    timer->is_set = 0;
    timer->fire(timer);
}

static void sooner(int64_t *ret_next_ns, int64_t at_ns)
{
    *ret_next_ns = at_ns < *ret_next_ns ? at_ns : *ret_next_ns;
}

bool machine_step(int64_t *ret_next_ns)
{
    bool has_changes = engine_with_changes != NULL && changes_pending(engine_with_changes);
    if (!has_changes)
        turn_ns = INT64_MAX;
    else if (turn_ns == INT64_MAX)
        turn_ns = world->s.now_ns + TW_NS_PER_MS;
    bool may_run = runnable.count > 0, may_fire = timers != NULL && timers->due_mono_ns <= world->s.now_ns,
         may_turn = turn_ns <= world->s.now_ns;
    uint64_t n = (uint64_t)may_run * 2 + may_fire + may_turn + (tasks != NULL);
    if (n == 0) {
        sooner(ret_next_ns, turn_ns);
        if (timers != NULL)
            sooner(ret_next_ns, timers->due_mono_ns);
        return false;
    }
    uint64_t which = draw(n);
    if (may_run && which < 2) {
        job_run();
    } else if (tasks != NULL && which == n - 1) {
        task_run();
    } else if (may_fire && which == (uint64_t)may_run * 2) {
        timer_fire();
    } else {
        turn_ns = INT64_MAX;
        changes_turn(engine_with_changes);
    }
    return true;
}
