#include <tradewake/executor/reactor.h>

#include <tradewake/base/clock.h>

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <uv.h>

struct tw_reactor {
    /* Set by tw_reactor_start(), then read-only. */
    pthread_t thread;

    /* Posted, newest first. Any thread pushes, the reactor takes all at once. */
    _Atomic(struct tw_task *) posted;

    /* The reactor thread's alone (before it exists, tw_reactor_start()'s). */
    uv_loop_t loop;
    uv_async_t wake;
    uv_poll_t alarm;
    int alarm_file;        /* timerfd: uv timers count in milliseconds and are late by up to two */
    int64_t alarm_mono_ns; /* what it is set to; 0 = not set */
    struct tw_task *due, **last; /* taken and not run yet, oldest first */
    struct tw_timer *timers;     /* heap by due time, the earliest on top */
    uint64_t timers_set;         /* equal due times fire in the order in which they were set */
    struct tw_task stop;
};

/* ---- the heap: a pairing heap, linked through the timers, so that setting one cannot fail ----
 * child is a node's first child, next its next sibling, previous the sibling or parent before it.
 */

static bool is_before(const struct tw_timer *a, const struct tw_timer *b)
{
    return a->due_mono_ns != b->due_mono_ns ? a->due_mono_ns < b->due_mono_ns : a->order < b->order;
}

static struct tw_timer *heap_meld(struct tw_timer *a, struct tw_timer *b)
{
    if (a == NULL || b == NULL)
        return a != NULL ? a : b;
    if (is_before(b, a)) {
        struct tw_timer *earlier = b;
        b = a;
        a = earlier;
    }
    b->previous = a;
    b->next = a->child;
    if (b->next != NULL)
        b->next->previous = b;
    a->child = b;
    return a;
}

/* Melds siblings into one tree: in pairs from the left, then all pairs from the right. */
static struct tw_timer *heap_meld_row(struct tw_timer *first)
{
    struct tw_timer *pairs = NULL, *root = NULL;
    while (first != NULL) {
        struct tw_timer *a = first, *b = a->next;
        first = b != NULL ? b->next : NULL;
        a->next = a->previous = NULL;
        if (b != NULL)
            b->next = b->previous = NULL;
        a = heap_meld(a, b);
        a->next = pairs; /* a stack, newest pair on top */
        pairs = a;
    }
    while (pairs != NULL) {
        struct tw_timer *below = pairs->next;
        pairs->next = NULL;
        root = heap_meld(root, pairs);
        pairs = below;
    }
    return root;
}

static void heap_add(struct tw_reactor *reactor, struct tw_timer *timer)
{
    timer->child = timer->next = timer->previous = NULL;
    timer->order = reactor->timers_set++;
    timer->is_set = true;
    reactor->timers = heap_meld(reactor->timers, timer);
}

static void heap_remove(struct tw_reactor *reactor, struct tw_timer *timer)
{
    struct tw_timer *below = heap_meld_row(timer->child);
    timer->is_set = false;
    if (timer == reactor->timers) {
        reactor->timers = below;
        return;
    }
    if (timer->previous->child == timer)
        timer->previous->child = timer->next;
    else
        timer->previous->next = timer->next;
    if (timer->next != NULL)
        timer->next->previous = timer->previous;
    reactor->timers = heap_meld(reactor->timers, below);
}

/* ---- timers ---- */

/* The alarm is set when the earliest timer is earlier than it; an alarm that is too early only
 * looks and sets itself again, which is cheaper than moving it at every stop. */
static void alarm_update(struct tw_reactor *reactor)
{
    const struct tw_timer *earliest = reactor->timers;
    if (earliest == NULL ||
        (reactor->alarm_mono_ns != 0 && reactor->alarm_mono_ns <= earliest->due_mono_ns))
        return;
    int64_t due_ns = earliest->due_mono_ns > 0 ? earliest->due_mono_ns : 1; /* 0 would disarm it */
    const struct itimerspec at = {
        .it_value = {.tv_sec = due_ns / TW_NS_PER_S, .tv_nsec = due_ns % TW_NS_PER_S}};
    timerfd_settime(reactor->alarm_file, TFD_TIMER_ABSTIME, &at, NULL);
    reactor->alarm_mono_ns = due_ns;
}

static void timer_put(struct tw_reactor *reactor, struct tw_timer *timer, int64_t due_mono_ns)
{
    if (timer->is_set)
        heap_remove(reactor, timer);
    timer->due_mono_ns = due_mono_ns;
    heap_add(reactor, timer);
    alarm_update(reactor);
}

/* Fires what was due when the turn began; what is set meanwhile waits for the next. */
static void timers_fire(struct tw_reactor *reactor)
{
    const int64_t now_ns = tw_mono_ns();
    const uint64_t set_before = reactor->timers_set;
    while (reactor->timers != NULL && reactor->timers->due_mono_ns <= now_ns &&
           reactor->timers->order < set_before) {
        struct tw_timer *timer = reactor->timers;
        heap_remove(reactor, timer);
        timer->fire(timer);
    }
}

static void on_alarm(uv_poll_t *alarm, int status, int events)
{
    struct tw_reactor *reactor = alarm->data;
    uint64_t expired;
    (void)status;
    (void)events;
    if (read(reactor->alarm_file, &expired, sizeof expired) != sizeof expired)
        return; /* moved to later meanwhile */
    reactor->alarm_mono_ns = 0;
    timers_fire(reactor);
    alarm_update(reactor);
}

/* ---- tasks ---- */

void tw_reactor_post(struct tw_reactor *reactor, struct tw_task *task)
{
    /* Release: pairs with the acquire in tasks_take(). */
    struct tw_task *newest = atomic_load_explicit(&reactor->posted, memory_order_relaxed);
    do
        task->next = newest;
    while (!atomic_compare_exchange_weak_explicit(&reactor->posted, &newest, task,
                                                  memory_order_release, memory_order_relaxed));
    /* Whoever found it empty wakes; the reactor takes all that came since with it. The task may be
     * gone already, and the reactor with it only after a stop that this post has come before. */
    if (newest == NULL)
        uv_async_send(&reactor->wake);
}

/* Moves what is posted behind what is due, oldest first. */
static void tasks_take(struct tw_reactor *reactor)
{
    struct tw_task *newest = atomic_exchange_explicit(&reactor->posted, NULL, memory_order_acquire);
    struct tw_task *oldest = NULL, *end = newest;
    while (newest != NULL) {
        struct tw_task *older = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = older;
    }
    if (oldest == NULL)
        return;
    *reactor->last = oldest;
    reactor->last = &end->next;
}

static struct tw_task *task_next(struct tw_reactor *reactor)
{
    struct tw_task *task = reactor->due;
    if (task == NULL)
        return NULL;
    reactor->due = task->next;
    if (reactor->due == NULL)
        reactor->last = &reactor->due;
    return task;
}

static void task_unlink(struct tw_reactor *reactor, const struct tw_task *task)
{
    struct tw_task **at = &reactor->due;
    while (*at != task)
        at = &(*at)->next;
    *at = task->next;
    if (*at == NULL)
        reactor->last = at;
}

static void on_wake(uv_async_t *wake)
{
    struct tw_reactor *reactor = wake->data;
    tasks_take(reactor);
    for (struct tw_task *task; (task = task_next(reactor)) != NULL;)
        task->run(task);
}

/* ---- timers and tasks ---- */

/* Thread: reactor. A timer was set by another thread. */
static void timer_posted(struct tw_task *task)
{
    struct tw_timer *timer = (struct tw_timer *)((char *)task - offsetof(struct tw_timer, task));
    struct tw_reactor *reactor =
        timer->reactor; /* once the flag has fallen it is the next setter's */
    /* The flag falls before the time is read: a set that comes in between posts anew. */
    __atomic_store_n(&timer->is_posted, 0, __ATOMIC_SEQ_CST);
    timer_put(reactor, timer, __atomic_load_n(&timer->wanted_mono_ns, __ATOMIC_SEQ_CST));
}

/* Takes back what another thread has set and the reactor has not seen yet. */
static bool timer_unpost(struct tw_reactor *reactor, struct tw_timer *timer)
{
    if (!__atomic_load_n(&timer->is_posted, __ATOMIC_SEQ_CST))
        return false;
    tasks_take(reactor);
    task_unlink(reactor, &timer->task);
    __atomic_store_n(&timer->is_posted, 0, __ATOMIC_SEQ_CST);
    return true;
}

void tw_timer_set(struct tw_reactor *reactor, struct tw_timer *timer, int64_t due_mono_ns)
{
    if (tw_reactor_is_current(reactor)) {
        timer_unpost(reactor, timer);
        timer_put(reactor, timer, due_mono_ns);
        return;
    }
    /* The time is written before the flag is looked at; see timer_posted(). */
    __atomic_store_n(&timer->wanted_mono_ns, due_mono_ns, __ATOMIC_SEQ_CST);
    if (__atomic_exchange_n(&timer->is_posted, 1, __ATOMIC_SEQ_CST))
        return;
    timer->reactor = reactor;
    timer->task.run = timer_posted;
    tw_reactor_post(reactor, &timer->task);
}

bool tw_timer_stop(struct tw_reactor *reactor, struct tw_timer *timer)
{
    assert(tw_reactor_is_current(reactor));
    bool was_posted = timer_unpost(reactor, timer);
    bool was_set = timer->is_set;
    if (was_set)
        heap_remove(reactor, timer);
    return was_set || was_posted;
}

/* ---- life ---- */

static _Thread_local const struct tw_reactor *current;

struct uv_loop_s *tw_reactor_loop(struct tw_reactor *reactor)
{
    assert(tw_reactor_is_current(reactor));
    return &reactor->loop;
}

bool tw_reactor_is_current(const struct tw_reactor *reactor)
{
    return current == reactor;
}

static void *reactor_main(void *arg)
{
    struct tw_reactor *reactor = arg;
    current = reactor;
    uv_run(&reactor->loop, UV_RUN_DEFAULT);
    return NULL;
}

static void handle_close(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* Signals are for other threads. */
static int thread_make(struct tw_reactor *reactor)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&reactor->thread, NULL, reactor_main, reactor);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

/* Ours and those an adapter has left open. The loop ends when they are closed. */
static void on_stop(struct tw_task *task)
{
    struct tw_reactor *reactor =
        (struct tw_reactor *)((char *)task - offsetof(struct tw_reactor, stop));
    uv_walk(&reactor->loop, handle_close, NULL);
}

/* Copes with whatever has not been opened yet. No thread runs the loop. */
static void reactor_free(struct tw_reactor *reactor)
{
    uv_walk(&reactor->loop, handle_close, NULL);
    uv_run(&reactor->loop, UV_RUN_DEFAULT);
    int failed = uv_loop_close(&reactor->loop);
    assert(failed == 0);
    (void)failed;
    if (reactor->alarm_file >= 0)
        close(reactor->alarm_file);
    free(reactor);
}

static int handles_open(struct tw_reactor *reactor)
{
    int failed = uv_async_init(&reactor->loop, &reactor->wake, on_wake);
    if (failed != 0)
        return failed;
    reactor->wake.data = reactor;

    reactor->alarm_file = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (reactor->alarm_file < 0)
        return UV_EMFILE;
    failed = uv_poll_init(&reactor->loop, &reactor->alarm, reactor->alarm_file);
    if (failed != 0)
        return failed;
    reactor->alarm.data = reactor;
    return uv_poll_start(&reactor->alarm, UV_READABLE, on_alarm);
}

tw_status tw_reactor_start(const char *name, struct tw_reactor **ret_reactor,
                           struct tw_error *error)
{
    struct tw_reactor *reactor = calloc(1, sizeof *reactor);
    if (reactor == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the reactor %s", name);
    reactor->alarm_file = -1;
    reactor->last = &reactor->due;
    reactor->stop.run = on_stop;
    int failed = uv_loop_init(&reactor->loop);
    if (failed != 0) {
        free(reactor);
        return tw_error_set(error, TW_IO, "the reactor %s has no loop: %s", name,
                            uv_strerror(failed));
    }

    failed = handles_open(reactor);
    if (failed == 0)
        failed = -thread_make(reactor);
    if (failed != 0) {
        reactor_free(reactor);
        return tw_error_set(error, TW_LIMIT, "the reactor %s could not be started: %s", name,
                            uv_strerror(failed));
    }
    pthread_setname_np(reactor->thread, name);
    *ret_reactor = reactor;
    return TW_OK;
}

void tw_reactor_stop(struct tw_reactor *reactor)
{
    if (reactor == NULL)
        return;
    tw_reactor_post(reactor, &reactor->stop);
    pthread_join(reactor->thread, NULL);
    reactor_free(reactor);
}
