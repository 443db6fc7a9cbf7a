#include "spares.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Smaller ones are on pages that are there already. */
#define SPARE_BYTES_MIN ((size_t)4096)

/* Of each class. Two of the largest: the records of 10 000 followers are 7 MiB each. */
#define SPARE_CLASS_BYTES ((size_t)4 << 20)
enum { SPARES_MIN = 2, STEPS = 8, PAGE_BYTES = 4096 };

static size_t class_size(size_t size)
{
    size_t step = SPARE_BYTES_MIN / STEPS;
    while (step * 2 * STEPS <= size)
        step *= 2;
    return (size + step - 1) / step * step;
}

static struct spare_class *class_find(struct spares *spares, size_t size)
{
    for (uint32_t i = 0; i < SPARE_CLASSES; i++)
        if (spares->classes[i].size == size)
            return &spares->classes[i];
    return NULL;
}

/* ---- The thread ---- */

static struct spare_class *class_wanting(struct spares *spares)
{
    for (uint32_t i = 0; i < SPARE_CLASSES; i++)
        if (spares->classes[i].n_ready < spares->classes[i].n_wanted)
            return &spares->classes[i];
    return NULL;
}

/* Zeroed memory that is fresh from the system is not there yet: a write to each page brings it. (As
 * malloc() and memset() the compiler makes a calloc() of it, which leaves them.) */
static void *made(size_t size)
{
    char *block = calloc(1, size);
    if (block == NULL)
        return NULL;
    for (size_t at = 0; at < size; at += PAGE_BYTES)
        *(volatile char *)(block + at) = 0;
    *(volatile char *)(block + size - 1) = 0;
    return block;
}

/* Under the mutex; gives it back meanwhile. False: no memory. */
static bool make_one(struct spares *spares, size_t size)
{
    pthread_mutex_unlock(&spares->mutex);
    void *block = made(size);
    pthread_mutex_lock(&spares->mutex);
    struct spare_class *class = class_find(spares, size);
    if (block != NULL && class != NULL && class->n_ready < class->n_wanted) {
        class->ready[class->n_ready++] = block;
        return true;
    }
    free(block); /* others are expected by now */
    return block != NULL;
}

static void *spares_main(void *arg)
{
    struct spares *spares = arg;
    prctl(PR_SET_NAME, "spares");
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 5); /* the burst goes first */
    pthread_mutex_lock(&spares->mutex);
    while (!spares->is_stopping) {
        const struct spare_class *class = class_wanting(spares);
        if (class != NULL && make_one(spares, class->size))
            continue;
        spares->is_asleep = true;
        while (spares->is_asleep && !spares->is_stopping)
            pthread_cond_wait(&spares->work, &spares->mutex);
    }
    pthread_mutex_unlock(&spares->mutex);
    return NULL;
}

/* Under the mutex. */
static void wake(struct spares *spares)
{
    if (!spares->is_asleep)
        return;
    spares->is_asleep = false;
    pthread_cond_signal(&spares->work);
}

/* ---- For everybody ---- */

void spares_init(struct spares *spares)
{
    *spares = (struct spares){0};
    pthread_mutex_init(&spares->mutex, NULL);
    pthread_cond_init(&spares->work, NULL);
}

static void class_clear(struct spare_class *class)
{
    for (uint32_t i = 0; i < class->n_ready; i++)
        free(class->ready[i]);
    class->n_ready = 0;
}

void spares_stop(struct spares *spares)
{
    pthread_mutex_lock(&spares->mutex);
    bool is_running = spares->is_started && !spares->is_stopping;
    spares->is_stopping = true;
    pthread_cond_signal(&spares->work);
    pthread_mutex_unlock(&spares->mutex);
    if (is_running)
        pthread_join(spares->thread, NULL);
}

void spares_clear(struct spares *spares)
{
    spares_stop(spares);
    for (uint32_t i = 0; i < SPARE_CLASSES; i++)
        class_clear(&spares->classes[i]);
    pthread_cond_destroy(&spares->work);
    pthread_mutex_destroy(&spares->mutex);
}

/* The class that was expected longest ago makes room. Under the mutex; *ret_old is to be cleared
 * outside. */
static struct spare_class *class_start(struct spares *spares, size_t size,
                                       struct spare_class *ret_old)
{
    struct spare_class *oldest = &spares->classes[0];
    for (uint32_t i = 1; i < SPARE_CLASSES; i++)
        if (spares->classes[i].expected < oldest->expected)
            oldest = &spares->classes[i];
    *ret_old = *oldest;
    size_t wanted = SPARE_CLASS_BYTES / size;
    *oldest = (struct spare_class){.size = size};
    oldest->n_wanted = wanted < SPARES_MIN   ? SPARES_MIN
                       : wanted > SPARES_MAX ? SPARES_MAX
                                             : (uint32_t)wanted;
    return oldest;
}

void spares_expect(struct spares *spares, size_t size)
{
    if (size < SPARE_BYTES_MIN)
        return;
    struct spare_class old = {0};
    size = class_size(size);
    pthread_mutex_lock(&spares->mutex);
    struct spare_class *class = class_find(spares, size);
    if (class == NULL)
        class = class_start(spares, size, &old);
    class->expected = ++spares->n_expected;
    if (!spares->is_started && !spares->is_stopping)
        spares->is_started = pthread_create(&spares->thread, NULL, spares_main, spares) == 0;
    wake(spares);
    pthread_mutex_unlock(&spares->mutex);
    class_clear(&old);
}

void *spares_take(struct spares *spares, size_t size)
{
    void *block = NULL;
    if (size < SPARE_BYTES_MIN)
        return calloc(1, size);
    size = class_size(size);
    pthread_mutex_lock(&spares->mutex);
    struct spare_class *class = class_find(spares, size);
    if (class != NULL && class->n_ready > 0)
        block = class->ready[--class->n_ready];
    if (class != NULL && class->n_ready <= class->n_wanted / 2)
        wake(spares);
    pthread_mutex_unlock(&spares->mutex);
    return block != NULL ? block : calloc(1, size);
}
