/* reactor.h - the one thread of everything that waits without a thread.
 *
 * A libuv loop on a thread of its own. Non-blocking adapters live here, and the timers of retries
 * and look-ups: waiting needs no thread, only work does. */
#ifndef TW_EXECUTOR_REACTOR_H
#define TW_EXECUTOR_REACTOR_H

#include <tradewake/base/status.h>

#include <stdbool.h>
#include <stdint.h>

struct uv_loop_s;
struct tw_reactor;

/* name: of the thread, at most 15 characters. Thread: main. */
TW_MUST_CHECK tw_status tw_reactor_start(const char *name, struct tw_reactor **ret_reactor,
                                         struct tw_error *error);

/* Runs what was posted before the call, closes the loop, joins, frees. NULL is allowed. Timers that
 * are still set never fire. Thread: main. */
void tw_reactor_stop(struct tw_reactor *reactor);

/* One piece of work for the reactor; embedded in what it is about. */
struct tw_task {
    void (*run)(struct tw_task *task); /* Thread: reactor; may not block */
    struct tw_task *next;              /* the reactor's */
};

/* Owns: the reactor, until run(). Order among posts of one thread is kept. Thread: any. Blocks: no. */
void tw_reactor_post(struct tw_reactor *reactor, struct tw_task *task);

/* A point in time at which fire() is called; embedded in what it is about. */
struct tw_timer {
    void (*fire)(struct tw_timer *timer); /* Thread: reactor; may set the timer again */
    int64_t due_mono_ns;  /* the reactor's from here on */
    int64_t wanted_mono_ns;
    struct tw_task task;
    struct tw_reactor *reactor;
    struct tw_timer *child, *next, *previous;
    uint64_t order;
    uint32_t is_posted, is_set;
};

/* Sets the timer, or moves it. Early by nothing, late by at most a millisecond on an idle loop.
 * Thread: any (not two at once for one timer).  Blocks: no. */
void tw_timer_set(struct tw_reactor *reactor, struct tw_timer *timer, int64_t due_mono_ns);

/* Takes the timer back. True: fire() has not been and will not be called. Thread: reactor only. */
bool tw_timer_stop(struct tw_reactor *reactor, struct tw_timer *timer);

/* For non-blocking adapters with sockets of their own. Thread: reactor only. */
struct uv_loop_s *tw_reactor_loop(struct tw_reactor *reactor);

/* Whether the calling thread is the reactor's. */
bool tw_reactor_is_current(const struct tw_reactor *reactor);

#endif
