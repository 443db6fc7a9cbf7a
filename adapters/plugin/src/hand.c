#include "hand.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct hand {
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows; not held in run() */
    pthread_cond_t wanted, done;
    hand_fn *run; /* NULL = nothing to do */
    void *context;
    bool is_ending;
};

static void *hand_main(void *arg)
{
    struct hand *hand = arg;
    pthread_mutex_lock(&hand->lock);
    for (;;) {
        while (hand->run == NULL && !hand->is_ending)
            pthread_cond_wait(&hand->wanted, &hand->lock);
        if (hand->run == NULL)
            break;
        pthread_mutex_unlock(&hand->lock);
        hand->run(hand->context); /* set before it was wanted, and left alone until it is done */
        pthread_mutex_lock(&hand->lock);
        hand->run = NULL;
        pthread_cond_signal(&hand->done);
    }
    pthread_mutex_unlock(&hand->lock);
    return NULL;
}

static void hand_free(struct hand *hand)
{
    pthread_mutex_destroy(&hand->lock);
    pthread_cond_destroy(&hand->wanted);
    pthread_cond_destroy(&hand->done);
    free(hand);
}

struct hand *hand_start(size_t stack_bytes)
{
    pthread_attr_t attributes;
    struct hand *hand = calloc(1, sizeof *hand);
    if (hand == NULL)
        return NULL;
    pthread_mutex_init(&hand->lock, NULL);
    pthread_cond_init(&hand->wanted, NULL);
    pthread_cond_init(&hand->done, NULL);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    int status = pthread_create(&hand->thread, &attributes, hand_main, hand);
    pthread_attr_destroy(&attributes);
    if (status == 0)
        return hand;
    hand_free(hand);
    return NULL;
}

void hand_do(struct hand *hand, hand_fn *run, void *context)
{
    if (hand == NULL) {
        run(context);
        return;
    }
    pthread_mutex_lock(&hand->lock);
    assert(hand->run == NULL);
    hand->run = run;
    hand->context = context;
    pthread_cond_signal(&hand->wanted);
    while (hand->run != NULL)
        pthread_cond_wait(&hand->done, &hand->lock);
    pthread_mutex_unlock(&hand->lock);
}

void hand_end(struct hand *hand)
{
    if (hand == NULL)
        return;
    pthread_mutex_lock(&hand->lock);
    hand->is_ending = true;
    pthread_cond_signal(&hand->wanted);
    pthread_mutex_unlock(&hand->lock);
    pthread_join(hand->thread, NULL);
    hand_free(hand);
}
