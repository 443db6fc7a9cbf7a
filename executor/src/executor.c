#include <tradewake/executor/executor.h>

#include "crew.h"
#include "lane.h"
#include "machine.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/limits.h>
#include <tradewake/executor/reactor.h>

#include <assert.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>

enum {
    PORTS_MAX = 4,   /* reactors that one executor feeds */
    DRAIN_MAX = 256, /* jobs begun per turn of a reactor's loop, so that its timers get theirs */
    OWN_THREADS = TW_GROUPS_MAX + 1, /* leaders and spawner */
};

/* The way to one reactor: its jobs, and the task that is posted for them. */
struct port {
    /* Guarded by queue.lock. */
    struct crowd queue;
    pthread_cond_t quiet; /* not posted and nothing running */
    bool is_posted;       /* the task is on its way to the reactor, or at work there */
    uint32_t running;     /* run() was called, finish has not returned */

    /* Set by the first lane of the reactor, then read-only. */
    struct tw_reactor *reactor;
    struct crew *crew;
    struct tw_task task;
    uint32_t index; /* as tw_job.group says it */
};

struct tw_executor {
    struct crew crew;
    _Atomic bool
        stopping; /* written once, before every lane is visited; read under a lane's lock */
    pthread_mutex_t lanes_lock;
    struct tw_lane *lanes;        /* guarded by lanes_lock */
    struct port ports[PORTS_MAX]; /* entries: lanes_lock; then read-only */
    uint32_t n_ports;
};

/* ---- start ---- */

static size_t stack_bytes_of(const struct tw_executor_options *options)
{
    size_t wanted = options->stack_bytes != 0 ? options->stack_bytes : TW_WORKER_STACK_BYTES;
    return wanted > (size_t)PTHREAD_STACK_MIN ? wanted : (size_t)PTHREAD_STACK_MIN;
}

static uint32_t threads_max_of(const struct tw_executor_options *options)
{
    return options->threads_max != 0 ? options->threads_max : TW_THREADS_MAX_DEFAULT;
}

/* Workers that may exist when `existing` of them exist already. */
static uint32_t threads_allowed(uint32_t threads_max, size_t stack_bytes, uint32_t existing,
                                uint32_t own_threads, const char **ret_limit)
{
    struct machine_room room = machine_thread_room("", stack_bytes);
    uint64_t more = room.threads > own_threads ? room.threads - own_threads : 0;
    if (existing >= threads_max || more >= (uint64_t)threads_max - existing) {
        *ret_limit = "executor.threads_max";
        return threads_max;
    }
    *ret_limit = room.limit;
    return existing + (uint32_t)more;
}

uint32_t tw_executor_threads_allowed(const struct tw_executor_options *options,
                                     const char **ret_limit)
{
    return threads_allowed(threads_max_of(options), stack_bytes_of(options), 0, OWN_THREADS,
                           ret_limit);
}

uint64_t tw_executor_memory_left(void)
{
    return machine_memory_left("");
}

/* A multiple of TW_THREADS_ROUND, but the rounding never asks for more than there may be. */
static uint32_t threads_rounded(uint32_t threads, uint32_t allowed)
{
    uint64_t up = ((uint64_t)threads + TW_THREADS_ROUND - 1) / TW_THREADS_ROUND * TW_THREADS_ROUND;
    return up < allowed ? (uint32_t)up : allowed;
}

static tw_status crew_of(struct tw_executor *executor, const struct tw_executor_options *options,
                         uint32_t threads_max, struct tw_error *error)
{
    int usable[TW_GROUPS_MAX], cores[TW_GROUPS_MAX];
    uint32_t n = machine_cores("", usable, TW_GROUPS_MAX);
    uint32_t groups = options->groups != 0 ? options->groups : n;
    if (groups > TW_GROUPS_MAX)
        return tw_error_set(error, TW_INVALID, "groups is %u, expected 0..%u", groups,
                            TW_GROUPS_MAX);
    for (uint32_t g = 0; g < groups; g++)
        cores[g] = usable[g % n];
    const struct crew_options crew_options = {
        .groups = groups,
        .threads_max = threads_max,
        .lost_max = options->threads_lost_max != 0 ? options->threads_lost_max
                                                   : TW_THREADS_LOST_MAX_DEFAULT,
        .reserved = options->threads_reserved,
        .cores = cores,
        .pinned = options->pinned,
        .realtime = options->realtime,
        .stack_bytes = stack_bytes_of(options),
    };
    return crew_start(&executor->crew, &crew_options, error);
}

tw_status tw_executor_start(const struct tw_executor_options *options,
                            struct tw_executor **ret_executor, struct tw_error *error)
{
    const char *limit;
    uint32_t allowed = tw_executor_threads_allowed(options, &limit);
    if (options->threads_ready > allowed)
        return tw_error_set(error, TW_LIMIT, "%u ready threads were asked for, %s allows %u",
                            options->threads_ready, limit, allowed);

    struct tw_executor *executor = NULL;
    if (posix_memalign((void **)&executor, CACHE_LINE, sizeof *executor) != 0)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the executor");
    *executor = (struct tw_executor){0};
    pthread_mutex_init(&executor->lanes_lock, NULL);

    tw_status status = crew_of(executor, options, allowed, error);
    if (status == TW_OK)
        status =
            crew_grow(&executor->crew, threads_rounded(options->threads_ready, allowed), error);
    if (status != TW_OK) {
        tw_executor_stop(executor);
        return status;
    }
    *ret_executor = executor;
    return TW_OK;
}

/* So many threads for jobs that are not urgent, and the reserve beside them. */
static uint32_t with_reserve(const struct crew *crew, uint32_t threads)
{
    return threads < UINT32_MAX - crew->reserved ? threads + crew->reserved : threads;
}

tw_status tw_executor_prepare(struct tw_executor *executor, uint32_t threads,
                              struct tw_error *error)
{
    struct crew *crew = &executor->crew;
    /* Those that are lost do not count, as far as they may be replaced. */
    uint32_t existing = atomic_load_explicit(&crew->threads, memory_order_relaxed) -
                        (crew_threads_ceiling(crew) - crew->threads_max);
    uint32_t wanted = with_reserve(crew, threads);
    if (wanted <= existing)
        return TW_OK;
    const char *limit;
    uint32_t allowed = threads_allowed(crew->threads_max, crew->stack_bytes, existing, 0, &limit);
    if (threads > allowed)
        return tw_error_set(error, TW_LIMIT, "%u ready threads were asked for, %s allows %u",
                            threads, limit, allowed);
    return crew_grow(crew, threads_rounded(wanted < allowed ? wanted : allowed, allowed), error);
}

void tw_executor_status_get(struct tw_executor *executor, struct tw_executor_status *ret)
{
    const struct crew *crew = &executor->crew;
    uint64_t load = atomic_load_explicit(&crew->load, memory_order_relaxed);
    *ret = (struct tw_executor_status){
        .threads = atomic_load_explicit(&crew->threads, memory_order_relaxed),
        .threads_ready = atomic_load_explicit(&crew->threads_ready, memory_order_relaxed),
        .threads_max = crew->threads_max,
        .threads_lost = atomic_load_explicit(&crew->lost, memory_order_relaxed),
        .threads_created_late = atomic_load_explicit(&crew->threads_late, memory_order_relaxed),
        .calls_in_flight = (uint32_t)load,
        .calls_queued = (uint32_t)(load >> 32),
        .peak_in_flight = atomic_load_explicit(&crew->peak_running, memory_order_relaxed),
        .calls_completed = atomic_load_explicit(&crew->completed, memory_order_relaxed),
        .groups = crew->n_groups,
        .pinned = crew->pinned,
        .realtime = crew->realtime,
    };
}

uint64_t tw_executor_threads_late(const struct tw_executor *executor)
{
    return atomic_load_explicit(&executor->crew.threads_late, memory_order_relaxed);
}

/* ---- lanes ---- */

/* Thread: reactor. */
static void port_drain(struct tw_task *task)
{
    struct port *port = (struct port *)((char *)task - offsetof(struct port, task));
    for (uint32_t begun = 0; begun < DRAIN_MAX; begun++) {
        pthread_mutex_lock(&port->queue.lock);
        struct tw_job *job = crowd_take(&port->queue);
        if (job == NULL) {
            port->is_posted = false;
            if (port->running == 0)
                pthread_cond_signal(&port->quiet);
            pthread_mutex_unlock(&port->queue.lock);
            return; /* the executor may be gone now */
        }
        port->running++;
        pthread_mutex_unlock(&port->queue.lock);
        crew_begin(port->crew);
        job->run(job);
    }
    tw_reactor_post(port->reactor, &port->task);
}

/* The executor's way to this reactor, made at its first lane. Under lanes_lock. NULL: too many. */
static struct port *port_of(struct tw_executor *executor, struct tw_reactor *reactor)
{
    for (uint32_t p = 0; p < executor->n_ports; p++)
        if (executor->ports[p].reactor == reactor)
            return &executor->ports[p];
    if (executor->n_ports == PORTS_MAX)
        return NULL;
    struct port *port = &executor->ports[executor->n_ports];
    *port = (struct port){.reactor = reactor, .crew = &executor->crew, .task.run = port_drain};
    port->index = QUEUE_PORTS + executor->n_ports++;
    crowd_init(&port->queue);
    pthread_cond_init(&port->quiet, NULL);
    return port;
}

struct tw_lane *tw_lane_new(struct tw_executor *executor, uint32_t max_parallel,
                            struct tw_reactor *reactor)
{
    assert(max_parallel >= 1);
    struct tw_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL)
        return NULL;
    lane->executor = executor;
    lane->max_parallel = max_parallel;
    pthread_mutex_init(&lane->lock, NULL);

    pthread_mutex_lock(&executor->lanes_lock);
    lane->port = reactor == NULL ? NULL : port_of(executor, reactor);
    bool has_way = reactor == NULL || lane->port != NULL;
    if (has_way) {
        lane->next = executor->lanes;
        if (lane->next != NULL)
            lane->next->previous = lane;
        executor->lanes = lane;
    }
    pthread_mutex_unlock(&executor->lanes_lock);
    if (has_way)
        return lane;
    pthread_mutex_destroy(&lane->lock);
    free(lane);
    return NULL;
}

void tw_lane_free(struct tw_lane *lane)
{
    if (lane == NULL)
        return;
    /* Whoever brought the last job back may still stand in front of its unlock. */
    pthread_mutex_lock(&lane->lock);
    assert(lane->first == NULL);
    pthread_mutex_unlock(&lane->lock);

    struct tw_executor *executor = lane->executor;
    if (executor != NULL) {
        pthread_mutex_lock(&executor->lanes_lock);
        if (lane->previous != NULL)
            lane->previous->next = lane->next;
        else
            executor->lanes = lane->next;
        if (lane->next != NULL)
            lane->next->previous = lane->previous;
        pthread_mutex_unlock(&executor->lanes_lock);
    }
    pthread_mutex_destroy(&lane->lock);
    free(lane);
}

/* Of the crowd, before a job of the class NORMAL. */
static uint32_t crowd_ahead(const struct crowd *crowd, uint32_t tenant)
{
    return fair_count(&crowd->of_class[TW_JOB_URGENT]) + fair_ahead(&crowd->of_class[TW_JOB_NORMAL], tenant);
}

int64_t tw_lane_wait_ns(const struct tw_lane *lane, uint32_t tenant)
{
    const struct tw_executor *executor = lane->executor;
    const struct crowd *crowd = lane->port != NULL ? &lane->port->queue : &executor->crew.overflow;
    uint32_t in_lane = atomic_load_explicit(&lane->waiting, memory_order_relaxed);
    uint32_t in_crowd = crowd_ahead(crowd, tenant);
    if (in_lane == 0 && in_crowd == 0)
        return 0;
    int64_t now_ns = tw_mono_ns();
    return pace_wait_ns(&lane->pace, in_lane, now_ns) + pace_wait_ns(&crowd->pace, in_crowd, now_ns);
}

uint32_t tw_lane_jobs(const struct tw_lane *lane)
{
    return atomic_load_explicit(&lane->jobs, memory_order_acquire);
}

/* ---- admitted jobs go to their threads ---- */

/* True: the task has to be posted. */
static bool port_put(struct port *port, struct batch *batch)
{
    pthread_mutex_lock(&port->queue.lock);
    crowd_put(&port->queue, port->index, batch);
    bool has_to_post = !port->is_posted;
    port->is_posted = true;
    pthread_mutex_unlock(&port->queue.lock);
    return has_to_post;
}

/* What is left to do once the lane's lock is off. */
struct calls {
    struct wakes wakes;
    bool has_wakes;
    bool posts[PORTS_MAX]; /* the port's task has to be posted */
};

static void hand_over(struct tw_executor *executor, struct port *port, struct batch *batch,
                      struct calls *calls)
{
    if (batch->count == 0)
        return;
    if (port == NULL) {
        crew_put(&executor->crew, batch, &calls->wakes);
        calls->has_wakes = true;
    } else if (port_put(port, batch)) {
        calls->posts[port->index - QUEUE_PORTS] = true;
    }
}

static void make_calls(struct tw_executor *executor, const struct calls *calls)
{
    if (calls->has_wakes)
        crew_wake(&executor->crew, &calls->wakes);
    for (uint32_t p = 0; p < PORTS_MAX; p++)
        if (calls->posts[p])
            tw_reactor_post(executor->ports[p].reactor, &executor->ports[p].task);
}

/* Everything of the lane that may start now goes to its threads. Under the lane's lock, so that no
 * job is between lane and queue when the lock is off. */
static void lane_go_on(struct tw_lane *lane, struct calls *calls)
{
    struct batch batch = {0};
    for (struct tw_job *job; (job = lane_admit_next(lane)) != NULL;)
        batch_add(&batch, job);
    if (batch.count > 0 && lane->port == NULL && crew_is_worker(&lane->executor->crew))
        crew_returning(&lane->executor->crew);
    hand_over(lane->executor, lane->port, &batch, calls);
}

void tw_lane_parallel_set(struct tw_lane *lane, uint32_t max_parallel)
{
    assert(max_parallel >= 1);
    struct calls calls = {0};
    pthread_mutex_lock(&lane->lock);
    lane->max_parallel = max_parallel;
    lane_go_on(lane, &calls);
    pthread_mutex_unlock(&lane->lock);
    make_calls(lane->executor, &calls);
}

static void cancelled_call(struct job_list *list)
{
    for (struct tw_job *job; (job = job_list_take(list)) != NULL;)
        job->cancelled(job);
}

/* What a submit has found out and sorted so far. */
struct submit {
    int64_t now_ns;
    uint64_t threads_late;
    uint32_t threads, queued;
    struct batch for_workers, for_ports[PORTS_MAX];
    struct job_list refused;
};

static struct submit submit_begin(const struct crew *crew)
{
    return (struct submit){
        .now_ns = tw_mono_ns(),
        .threads_late = atomic_load_explicit(&crew->threads_late, memory_order_relaxed),
        .threads = atomic_load_explicit(&crew->threads, memory_order_relaxed),
        .queued = crew_queued(crew),
    };
}

/* Under the lane's lock. An admitted job is in nobody's hands but this thread's until hand_over().
 */
static void submit_one(struct submit *submit, struct tw_lane *lane, struct tw_job *job)
{
    job->submitted_mono_ns = submit->now_ns;
    job->threads_late = submit->threads_late;
    job->threads_at_start = submit->threads;
    job->queue_depth = submit->queued;
    if (atomic_load_explicit(&lane->executor->stopping, memory_order_relaxed)) {
        job_list_append(&submit->refused, job);
        return;
    }
    if (!lane_place(lane, job))
        return;
    if (lane->port == NULL)
        batch_add(&submit->for_workers, job);
    else
        batch_add(&submit->for_ports[lane->port->index - QUEUE_PORTS], job);
}

void tw_executor_submit(struct tw_executor *executor, struct tw_job *const *jobs, size_t count)
{
    struct crew *crew = &executor->crew;
    struct submit submit = submit_begin(crew);
    atomic_fetch_add_explicit(&crew->load, count * LOAD_WAITING, memory_order_relaxed);

    for (size_t i = 0; i < count;) {
        struct tw_lane *lane = jobs[i]->lane;
        pthread_mutex_lock(&lane->lock);
        for (; i < count && jobs[i]->lane == lane; i++)
            submit_one(&submit, lane, jobs[i]);
        pthread_mutex_unlock(&lane->lock);
    }

    struct calls calls = {0};
    hand_over(executor, NULL, &submit.for_workers, &calls);
    for (uint32_t p = 0; p < PORTS_MAX; p++)
        hand_over(executor, &executor->ports[p], &submit.for_ports[p], &calls);
    make_calls(executor, &calls);

    if (submit.refused.count > 0) {
        atomic_fetch_sub_explicit(&crew->load, submit.refused.count * LOAD_WAITING,
                                  memory_order_relaxed);
        cancelled_call(&submit.refused);
    }
}

static void port_leave(struct port *port)
{
    pthread_mutex_lock(&port->queue.lock);
    port->running--;
    if (port->running == 0 && !port->is_posted)
        pthread_cond_signal(&port->quiet);
    pthread_mutex_unlock(&port->queue.lock);
}

void tw_job_finish(struct tw_job *job, enum tw_job_end end)
{
    struct tw_lane *lane = job->lane;
    struct tw_executor *executor = lane->executor;
    struct port *port = lane->port;
    struct calls calls = {0};
    assert(job_state_get(job) == (crew_is_watch() ? JOB_LOST : JOB_RUNNING));
    assert(port != NULL || crew_is_worker(&executor->crew) || crew_is_watch());
    crew_end(&executor->crew); /* before the next of the lane can begin, so that the peak is true */
    if (port == NULL && job->job_class != TW_JOB_URGENT)
        crew_ordinary_end(&executor->crew, 1);

    pthread_mutex_lock(&lane->lock);
    if (end == TW_JOB_PARK)
        lane_park(lane, job);
    else
        lane_finish(lane, job);
    lane_go_on(lane, &calls);
    pthread_mutex_unlock(&lane->lock); /* the job's owner may free job and lane from here on */

    make_calls(executor, &calls);
    if (crew_is_watch()) /* no worker of the job comes to look what may start in its place */
        crew_look(&executor->crew);
    if (port != NULL)
        port_leave(port);
}

void tw_lane_lost_call_end(struct tw_lane *lane)
{
    struct tw_executor *executor = lane->executor;
    struct calls calls = {0};
    assert(crew_is_worker(&executor->crew));
    atomic_fetch_sub(&executor->crew.lost, 1);
    pthread_mutex_lock(&lane->lock);
    lane_lost_end(lane);
    lane_go_on(lane, &calls);
    pthread_mutex_unlock(&lane->lock); /* the lane's owner may free it from here on */
    make_calls(executor, &calls);
}

bool tw_lane_is_blocked(const struct tw_lane *lane)
{
    return atomic_load_explicit(&lane->is_blocked, memory_order_relaxed);
}

bool tw_job_unpark(struct tw_job *job)
{
    struct tw_lane *lane = job->lane;
    struct tw_executor *executor = lane->executor;
    struct calls calls = {0};
    pthread_mutex_lock(&lane->lock);
    bool is_parked = job_state_get(job) == JOB_PARKED &&
                     !atomic_load_explicit(&executor->stopping, memory_order_relaxed);
    if (is_parked) {
        atomic_fetch_add_explicit(&executor->crew.load, LOAD_WAITING, memory_order_relaxed);
        lane_unpark(lane, job);
        lane_go_on(lane, &calls);
    }
    pthread_mutex_unlock(&lane->lock);
    make_calls(executor, &calls);
    return is_parked;
}

/* ---- cancel ---- */

typedef bool match_fn(struct tw_job *job, void *context);

/* Where an admitted job stands. */
struct place {
    pthread_mutex_t *lock;
    struct queue *queue; /* of a group, or NULL */
    struct crowd *crowd;
};

static struct place place_of(struct tw_executor *executor, const struct tw_job *job)
{
    uint32_t group = job_group_get(job);
    struct place place = {0};
    if (group < QUEUE_OVERFLOW)
        place.queue = &executor->crew.groups[group].queue;
    else
        place.crowd = group == QUEUE_OVERFLOW ? &executor->crew.overflow : &executor->ports[group - QUEUE_PORTS].queue;
    place.lock = place.queue != NULL ? &place.queue->lock : &place.crowd->lock;
    return place;
}

/* The locked queue of a job that was QUEUED a moment ago: the job may have moved to another one
 * while this thread waited for the lock. */
static struct place place_lock(struct tw_executor *executor, const struct tw_job *job)
{
    for (;;) {
        struct place place = place_of(executor, job);
        pthread_mutex_lock(place.lock);
        if (place.lock == place_of(executor, job).lock)
            return place;
        pthread_mutex_unlock(place.lock);
    }
}

/* A job in a queue may be taken by a worker at any moment; under the queue's lock it stays, so
 * match sees a job that nobody runs. */
static bool queued_job_withdraw(struct tw_executor *executor, struct tw_job *job, match_fn *match,
                                void *context)
{
    struct place place = place_lock(executor, job);
    bool is_ours = job_state_get(job) == JOB_QUEUED && match(job, context);
    if (is_ours && place.queue != NULL) {
        queue_remove(place.queue, job);
        if (job->job_class != TW_JOB_URGENT)
            crew_ordinary_end(&executor->crew, 1);
    } else if (is_ours)
        crowd_remove(place.crowd, job);
    pthread_mutex_unlock(place.lock);
    return is_ours;
}

/* One pass. True: some jobs were between lane and queue, and have to be looked at again. */
static bool cancel_pass(struct tw_lane *lane, match_fn *match, void *context, struct job_list *gone)
{
    struct tw_executor *executor = lane->executor;
    struct calls calls = {0};
    bool has_transit = false;
    uint32_t waited = 0;
    pthread_mutex_lock(&lane->lock);
    for (struct tw_job *job = lane->first, *next; job != NULL; job = next) {
        next = job->next_in_lane;
        enum job_state state = job_state_get(job);
        has_transit |= state == JOB_TRANSIT;
        if (state == JOB_TRANSIT || state == JOB_RUNNING || state == JOB_LOST)
            continue;
        if (state == JOB_QUEUED ? !queued_job_withdraw(executor, job, match, context)
                                : !match(job, context))
            continue;
        lane_withdraw(lane, job);
        job_list_append(gone, job);
        waited += state != JOB_PARKED;
    }
    atomic_fetch_sub_explicit(&executor->crew.load, waited * LOAD_WAITING, memory_order_relaxed);
    lane_go_on(lane, &calls);
    pthread_mutex_unlock(&lane->lock);
    make_calls(executor, &calls);
    return has_transit;
}

size_t tw_lane_cancel(struct tw_lane *lane, match_fn *match, void *context)
{
    struct tw_executor *executor = lane->executor;
    size_t n = 0;
    bool has_transit = true;
    while (has_transit) {
        struct job_list gone = {0};
        has_transit = cancel_pass(lane, match, context, &gone);
        n += gone.count;
        cancelled_call(&gone);
        /* A thread inside submit holds those jobs for some microseconds, waiting for nothing. */
        if (has_transit)
            sched_yield();
    }
    crew_look(&executor->crew); /* what was withdrawn from a group's queue had a worker */
    return n;
}

/* ---- stop ---- */

static bool match_all(struct tw_job *job, void *context)
{
    (void)job;
    (void)context;
    return true;
}

/* Cancels all that waits in any lane. Lanes may be freed by what cancelled() does, so none is
 * touched after it. */
static void lanes_cancel(struct tw_executor *executor)
{
    for (bool has_transit = true; has_transit;) {
        struct job_list gone = {0};
        has_transit = false;
        pthread_mutex_lock(&executor->lanes_lock);
        for (struct tw_lane *lane = executor->lanes; lane != NULL; lane = lane->next)
            has_transit |= cancel_pass(lane, match_all, NULL, &gone);
        pthread_mutex_unlock(&executor->lanes_lock);
        cancelled_call(&gone);
        if (has_transit)
            sched_yield();
    }
}

static void port_close(struct port *port)
{
    pthread_mutex_lock(&port->queue.lock);
    while (port->is_posted || port->running > 0)
        pthread_cond_wait(&port->quiet, &port->queue.lock);
    pthread_mutex_unlock(&port->queue.lock);
    pthread_cond_destroy(&port->quiet);
    crowd_clear(&port->queue);
}

uint32_t tw_executor_stop(struct tw_executor *executor)
{
    if (executor == NULL)
        return 0;
    atomic_store(&executor->stopping, true);
    lanes_cancel(executor);
    for (uint32_t p = 0; p < executor->n_ports; p++)
        port_close(&executor->ports[p]);
    uint32_t left = crew_stop(&executor->crew);
    lanes_cancel(executor); /* what was parked since */

    pthread_mutex_lock(&executor->lanes_lock);
    for (struct tw_lane *lane = executor->lanes; lane != NULL; lane = lane->next)
        lane->executor = NULL;
    pthread_mutex_unlock(&executor->lanes_lock);
    if (left > 0)
        return left; /* those threads may still come back to what is in there */
    pthread_mutex_destroy(&executor->lanes_lock);
    free(executor);
    return 0;
}
