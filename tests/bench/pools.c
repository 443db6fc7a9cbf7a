/* pools.c - the ordinary ways: one queue with a condition variable, the same growing on demand, a
 * thread per call, libuv's pool. */
#include "pool.h"

#include <tradewake/base/clock.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

enum { STACK_BYTES = 256 * 1024, GROWING_READY = 64 };

void copy_run(struct burst *burst, uint32_t copy)
{
    struct copy_times *times = &burst->copies[copy];
    times->started_mono_ns = tw_mono_ns();
    times->threads_at_start = atomic_load_explicit(&burst->threads, memory_order_relaxed);
    struct timespec answer = {burst->answer_ns / TW_NS_PER_S, burst->answer_ns % TW_NS_PER_S};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &answer, NULL);
    atomic_fetch_add(&burst->answered, 1);
}

void event_begin(struct burst *burst, uint32_t close)
{
    int64_t now_ns = tw_mono_ns(), until_ns = now_ns + burst->work_ns;
    for (uint32_t i = 0; i < burst->followers; i++)
        burst->copies[close * burst->followers + i].event_mono_ns = now_ns;
    while (burst->work_ns > 0 && tw_mono_ns() < until_ns)
        continue;
}

static bool thread_make(void *(*main)(void *), void *arg)
{
    pthread_attr_t attributes;
    pthread_t id;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int failed = pthread_create(&id, &attributes, main, arg);
    pthread_attr_destroy(&attributes);
    if (failed != 0)
        fprintf(stderr, "a thread could not be created: %s\n", strerror(failed));
    return failed == 0;
}

/* ---- condvar: one queue, one mutex, one condition variable; growing: the same from 64 threads
 * ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t not_empty;
    uint32_t next, end; /* copies [next, end) wait */
    uint32_t idle, threads, threads_max;
    struct burst *burst;
    bool quit;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .not_empty = PTHREAD_COND_INITIALIZER};

static void *queue_worker(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&queue.lock);
    for (;;) {
        while (queue.next == queue.end && !queue.quit) {
            queue.idle++;
            pthread_cond_wait(&queue.not_empty, &queue.lock);
            queue.idle--;
        }
        if (queue.quit)
            break;
        uint32_t copy = queue.next++;
        pthread_mutex_unlock(&queue.lock);
        copy_run(queue.burst, copy);
        pthread_mutex_lock(&queue.lock);
    }
    queue.threads--;
    pthread_cond_signal(&queue.not_empty);
    pthread_mutex_unlock(&queue.lock);
    return NULL;
}

static bool queue_grow(uint32_t threads)
{
    for (; queue.threads < threads; queue.threads++)
        if (!thread_make(queue_worker, NULL))
            return false;
    atomic_store(&queue.burst->threads, queue.threads);
    return true;
}

static bool queue_open(struct burst *burst, uint32_t ready, uint32_t max)
{
    queue.burst = burst;
    queue.threads_max = max;
    queue.next = queue.end = 0;
    queue.quit = false;
    pthread_mutex_lock(&queue.lock);
    bool is_open = queue_grow(ready);
    pthread_mutex_unlock(&queue.lock);
    return is_open;
}

static bool condvar_open(const struct pool_settings *settings, struct burst *burst)
{
    return queue_open(burst, settings->threads, settings->threads);
}

static bool growing_open(const struct pool_settings *settings, struct burst *burst)
{
    return queue_open(burst, GROWING_READY, settings->threads);
}

static void queue_submit(struct burst *burst)
{
    queue.next = queue.end = 0;
    for (uint32_t close = 0; close < burst->closes; close++) {
        event_begin(burst, close);
        for (uint32_t i = 0; i < burst->followers; i++) {
            pthread_mutex_lock(&queue.lock);
            queue.end++;
            /* On demand: a thread more whenever nobody is free for what waits. */
            if (queue.end - queue.next > queue.idle && queue.threads < queue.threads_max)
                queue_grow(queue.threads + 1);
            pthread_mutex_unlock(&queue.lock);
            pthread_cond_signal(&queue.not_empty);
        }
    }
}

static void queue_close(void)
{
    pthread_mutex_lock(&queue.lock);
    queue.quit = true;
    pthread_cond_broadcast(&queue.not_empty);
    while (queue.threads > 0)
        pthread_cond_wait(&queue.not_empty, &queue.lock);
    pthread_mutex_unlock(&queue.lock);
}

const struct pool pool_condvar = {
    .name = "condvar",
    .about = "one queue, mutex and condition variable",
    .open = condvar_open,
    .submit = queue_submit,
    .close = queue_close,
};
const struct pool pool_growing = {
    .name = "growing",
    .about = "the same, 64 threads ready and the rest created on demand",
    .is_new_each_round = true,
    .open = growing_open,
    .submit = queue_submit,
    .close = queue_close,
};

/* ---- a thread per call ---- */

static struct burst *per_call_burst;

static bool per_call_open(const struct pool_settings *settings, struct burst *burst)
{
    (void)settings;
    per_call_burst = burst;
    return true;
}

static void *per_call_main(void *copy)
{
    copy_run(per_call_burst, (uint32_t)(uintptr_t)copy);
    atomic_fetch_sub(&per_call_burst->threads, 1);
    return NULL;
}

static void per_call_submit(struct burst *burst)
{
    for (uint32_t copy = 0; copy < burst_copies(burst); copy++) {
        if (copy % burst->followers == 0)
            event_begin(burst, copy / burst->followers);
        atomic_fetch_add(&burst->threads, 1);
        if (!thread_make(per_call_main, (void *)(uintptr_t)copy))
            exit(1);
    }
}

static void per_call_close(void)
{
    while (atomic_load(&per_call_burst->threads) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

const struct pool pool_thread_per_call = {
    .name = "thread-per-call",
    .about = "pthread_create for every call",
    .open = per_call_open,
    .submit = per_call_submit,
    .close = per_call_close,
};

/* ---- libuv ---- */

static struct {
    uv_loop_t loop;
    uv_work_t *works; /* one per copy; data = its number */
    struct burst *burst;
} uv;

static void uv_copy(uv_work_t *work)
{
    copy_run(uv.burst, (uint32_t)(uintptr_t)work->data);
}

static void uv_done(uv_work_t *work, int status)
{
    (void)work;
    (void)status;
}

static bool uv_open(const struct pool_settings *settings, struct burst *burst)
{
    char threads[16];
    uint32_t most = settings->threads < 1024 ? settings->threads : 1024; /* libuv's own limit */
    snprintf(threads, sizeof threads, "%u", most);
    setenv("UV_THREADPOOL_SIZE", threads, 1);
    uv.burst = burst;
    uv.works = calloc(burst_copies(burst), sizeof *uv.works);
    atomic_store(&burst->threads, most);
    return uv.works != NULL && uv_loop_init(&uv.loop) == 0;
}

static void uv_submit(struct burst *burst)
{
    uv_run(&uv.loop, UV_RUN_NOWAIT); /* of the round before */
    for (uint32_t copy = 0; copy < burst_copies(burst); copy++) {
        if (copy % burst->followers == 0)
            event_begin(burst, copy / burst->followers);
        uv.works[copy].data = (void *)(uintptr_t)copy;
        uv_queue_work(&uv.loop, &uv.works[copy], uv_copy, uv_done);
    }
}

static void uv_close_pool(void)
{
    uv_run(&uv.loop, UV_RUN_DEFAULT);
    uv_loop_close(&uv.loop);
    free(uv.works);
}

const struct pool pool_libuv = {
    .name = "libuv",
    .about = "uv_queue_work with UV_THREADPOOL_SIZE",
    .open = uv_open,
    .submit = uv_submit,
    .close = uv_close_pool,
};
