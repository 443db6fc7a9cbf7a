/* executor_reactor.c - posts keep their order, timers fire when they are due: not before, not after
 * a stop, in order. */
#include "executor_gate.h"

#include <tradewake/base/clock.h>
#include <tradewake/executor/reactor.h>

#include <criterion/criterion.h>
#include <stdlib.h>
#include <time.h>
#include <uv.h>

TestSuite(reactor, .timeout = 20);

static struct tw_reactor *reactor;
static struct record fired = RECORD_EMPTY;

static void start(void)
{
    struct tw_error error = {0};
    cr_assert_eq(tw_reactor_start("test", &reactor, &error), TW_OK, "%s", error.text);
}

static void stop(void)
{
    tw_reactor_stop(reactor);
}

struct step {
    struct tw_task task;
    void (*work)(void *context);
    void *context;
    struct gate *done;
};

static void step_run(struct tw_task *task)
{
    struct step *step = (struct step *)task;
    step->work(step->context);
    gate_enter(step->done);
}

/* Does the work on the reactor and waits for it. */
static void on_reactor(void (*work)(void *context), void *context)
{
    struct gate done = GATE_CLOSED;
    struct step step = {{.run = step_run}, work, context, &done};
    gate_let(&done, 1);
    tw_reactor_post(reactor, &step.task);
    pthread_mutex_lock(&done.lock);
    while (done.entered == 0 || done.inside != 0 || done.allowed != 0)
        pthread_cond_wait(&done.changed, &done.lock);
    pthread_mutex_unlock(&done.lock);
}

struct bell {
    struct tw_timer timer;
    const char *name;
    int64_t fired_mono_ns;
};

static void bell_fire(struct tw_timer *timer)
{
    struct bell *bell = (struct bell *)timer;
    bell->fired_mono_ns = tw_mono_ns();
    record_add(&fired, bell->name);
}

#define BELL(name_)                                                                                \
    {                                                                                              \
        .timer = {.fire = bell_fire}, .name = (name_)                                              \
    }

struct five {
    struct bell bells[5];
    int64_t due_ns[5];
};

static void set_five(void *context)
{
    static const int64_t after_ms[5] = {30, 10, 20, 10, 0};
    struct five *five = context;
    int64_t now_ns = tw_mono_ns();
    for (int i = 0; i < 5; i++) {
        five->due_ns[i] = now_ns + after_ms[i] * TW_NS_PER_MS;
        tw_timer_set(reactor, &five->bells[i].timer, five->due_ns[i]);
    }
}

/* Set on the reactor's own thread: from another one, a pause of that thread lets the first fire
 * before the last is set. */
Test(reactor, timers_fire_in_the_order_of_their_times_and_never_early, .init = start, .fini = stop)
{
    struct five five = {.bells = {BELL("a"), BELL("b"), BELL("c"), BELL("d"), BELL("e")}};
    on_reactor(set_five, &five);
    record_await(&fired, 5);

    cr_expect_str_eq(fired.text, "e b d c a");
    for (int i = 0; i < 5; i++)
        cr_expect_geq(five.bells[i].fired_mono_ns, five.due_ns[i], "%s was early",
                      five.bells[i].name);
}

Test(reactor, a_time_in_the_past_fires_at_once, .init = start, .fini = stop)
{
    struct bell never = BELL("0"), past = BELL("past");
    tw_timer_set(reactor, &never.timer, 0);
    tw_timer_set(reactor, &past.timer, 1);
    record_await(&fired, 2);
    cr_expect_str_eq(fired.text, "0 past");
}

static void later_to_earlier(void *context)
{
    struct bell *bells = context;
    int64_t now_ns = tw_mono_ns();
    tw_timer_set(reactor, &bells[0].timer, now_ns + 3600 * TW_NS_PER_S);
    tw_timer_set(reactor, &bells[1].timer, now_ns + 20 * TW_NS_PER_MS);
    tw_timer_set(reactor, &bells[2].timer, now_ns + 5 * TW_NS_PER_MS);
    tw_timer_set(reactor, &bells[0].timer, now_ns + 10 * TW_NS_PER_MS); /* from an hour to 10 ms */
    tw_timer_set(reactor, &bells[2].timer, now_ns + 30 * TW_NS_PER_MS); /* from first to last */
}

Test(reactor, a_timer_that_is_set_again_moves, .init = start, .fini = stop)
{
    struct bell bells[] = {BELL("a"), BELL("b"), BELL("c")};
    on_reactor(later_to_earlier, bells);
    record_await(&fired, 3);
    cr_expect_str_eq(fired.text, "a b c");
}

static void set_then_stop(void *context)
{
    struct bell *bells = context;
    int64_t now_ns = tw_mono_ns();
    cr_expect_not(tw_timer_stop(reactor, &bells[0].timer), "it was never set");
    for (int i = 0; i < 3; i++)
        tw_timer_set(reactor, &bells[i].timer, now_ns + (5 + i) * TW_NS_PER_MS);
    cr_expect(tw_timer_stop(reactor, &bells[0].timer));
    cr_expect_not(tw_timer_stop(reactor, &bells[0].timer), "it is stopped already");
    cr_expect(tw_timer_stop(reactor, &bells[1].timer));
}

Test(reactor, a_stopped_timer_does_not_fire, .init = start, .fini = stop)
{
    struct bell bells[] = {BELL("a"), BELL("b"), BELL("c")};
    on_reactor(set_then_stop, bells);
    record_await(&fired, 1);
    cr_expect_str_eq(fired.text, "c"); /* a and b were due before it */
}

static void *set_bell(void *bell)
{
    tw_timer_set(reactor, &((struct bell *)bell)->timer, 1);
    return NULL;
}

/* Another thread sets the timer while the reactor is busy, and the reactor stops it before it has
 * seen that. */
static void stop_what_is_on_its_way(void *bell)
{
    pthread_t other;
    pthread_create(&other, NULL, set_bell, bell);
    pthread_join(other, NULL);
    cr_expect(tw_timer_stop(reactor, &((struct bell *)bell)->timer));
    ((struct bell *)bell)->timer.fire = NULL; /* a fire from here on would be the end */
}

Test(reactor, a_timer_set_by_another_thread_can_be_stopped_before_the_reactor_has_seen_it,
     .init = start, .fini = stop)
{
    struct bell bell = BELL("a"), after = BELL("after");
    on_reactor(stop_what_is_on_its_way, &bell);
    tw_timer_set(reactor, &after.timer, tw_mono_ns() + 2 * TW_NS_PER_MS);
    record_await(&fired, 1);
    cr_expect_str_eq(fired.text, "after");
}

static void set_here_too(void *bell)
{
    pthread_t other;
    pthread_create(&other, NULL, set_bell, bell);
    pthread_join(other, NULL);
    tw_timer_set(reactor, &((struct bell *)bell)->timer, tw_mono_ns() + 3600 * TW_NS_PER_S);
}

static void stop_bell(void *bell)
{
    cr_expect(tw_timer_stop(reactor, &((struct bell *)bell)->timer));
}

Test(reactor, the_last_set_counts_also_before_the_reactor_has_seen_the_one_before, .init = start,
     .fini = stop)
{
    struct bell bell = BELL("a"), after = BELL("after");
    on_reactor(set_here_too, &bell); /* an hour from now, on top of "at once" */
    tw_timer_set(reactor, &after.timer, tw_mono_ns() + 2 * TW_NS_PER_MS);
    record_await(&fired, 1);
    cr_expect_str_eq(fired.text, "after");
    on_reactor(stop_bell, &bell);
}

struct pulse {
    struct bell bell;
    int left;
};

static void pulse_fire(struct tw_timer *timer)
{
    struct pulse *pulse = (struct pulse *)timer;
    if (pulse->left-- > 0)
        tw_timer_set(reactor, timer, tw_mono_ns());
    record_add(&fired, ".");
}

Test(reactor, fire_may_set_its_timer_again, .init = start, .fini = stop)
{
    struct pulse pulse = {.bell.timer.fire = pulse_fire, .left = 99};
    tw_timer_set(reactor, &pulse.bell.timer, 1);
    record_await(&fired, 100);
    cr_expect_eq(fired.n, 100);
}

enum { MANY = 5000 };
static int64_t last_due_ns;
static unsigned n_fired, n_wrong;
static struct gate all_fired = GATE_CLOSED;

static void ordered_fire(struct tw_timer *timer)
{
    n_wrong += timer->due_mono_ns < last_due_ns || tw_mono_ns() < timer->due_mono_ns;
    last_due_ns = timer->due_mono_ns;
    if (++n_fired == MANY / 2)
        gate_enter(&all_fired);
}

/* Sets, moves and stops at random; the half that is left fires in order. */
static void many_at_random(void *context)
{
    struct tw_timer *timers = context;
    uint64_t state = 20261130;
    int64_t now_ns = tw_mono_ns();
    for (int change = 0; change < 5 * MANY; change++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        struct tw_timer *timer = &timers[(state >> 33) % MANY];
        if (state >> 63)
            tw_timer_stop(reactor, timer);
        else
            tw_timer_set(reactor, timer, now_ns + (int64_t)(state >> 20) % (100 * TW_NS_PER_MS));
    }
    for (int i = 0; i < MANY; i++) {
        tw_timer_stop(reactor, &timers[i]);
        if (i % 2 == 0)
            tw_timer_set(reactor, &timers[i], now_ns + (i * 7919) % MANY * 10 * TW_NS_PER_US);
    }
}

Test(reactor, thousands_of_timers_set_moved_and_stopped_keep_their_order, .init = start,
     .fini = stop)
{
    struct tw_timer *timers = calloc(MANY, sizeof *timers);
    for (int i = 0; i < MANY; i++)
        timers[i].fire = ordered_fire;
    gate_let(&all_fired, 1);
    on_reactor(many_at_random, timers);
    gate_await(&all_fired, 1);
    cr_expect_eq(n_wrong, 0);
    free(timers);
}

struct letter {
    struct tw_task task;
    unsigned from, number;
};

enum { SENDERS = 4, LETTERS = 20000 };
static unsigned next_of[SENDERS], out_of_order;
static struct gate letters_read = GATE_CLOSED;

static void letter_run(struct tw_task *task)
{
    struct letter *letter = (struct letter *)task;
    out_of_order += letter->number != next_of[letter->from]++;
    if (letter->number == LETTERS - 1)
        gate_enter(&letters_read);
}

static void *sender_main(void *arg)
{
    struct letter *letters = arg;
    for (unsigned i = 0; i < LETTERS; i++)
        tw_reactor_post(reactor, &letters[i].task);
    return NULL;
}

Test(reactor, posts_of_one_thread_keep_their_order_and_none_is_lost, .init = start, .fini = stop)
{
    static struct letter letters[SENDERS][LETTERS];
    pthread_t senders[SENDERS];
    gate_let(&letters_read, SENDERS);
    for (unsigned s = 0; s < SENDERS; s++) {
        for (unsigned i = 0; i < LETTERS; i++)
            letters[s][i] = (struct letter){.task.run = letter_run, .from = s, .number = i};
        pthread_create(&senders[s], NULL, sender_main, letters[s]);
    }
    gate_await(&letters_read, SENDERS);
    for (unsigned s = 0; s < SENDERS; s++)
        pthread_join(senders[s], NULL);
    cr_expect_eq(out_of_order, 0);
}

static void note(struct tw_task *task)
{
    (void)task;
    record_add(&fired, "posted");
}

Test(reactor, stop_runs_what_was_posted_and_no_timer_fires_after_it)
{
    start();
    static struct bell bell = BELL("bell");
    struct tw_task tasks[3] = {{.run = note}, {.run = note}, {.run = note}};
    tw_timer_set(reactor, &bell.timer, tw_mono_ns() + 3600 * TW_NS_PER_S);
    for (int i = 0; i < 3; i++)
        tw_reactor_post(reactor, &tasks[i]);
    tw_reactor_stop(reactor);
    cr_expect_str_eq(fired.text, "posted posted posted");
    tw_reactor_stop(NULL);
}

static void look(void *context)
{
    uv_loop_t **loop = context;
    *loop = tw_reactor_loop(reactor);
    cr_expect(tw_reactor_is_current(reactor));
}

Test(reactor, the_loop_is_there_for_sockets_of_adapters, .init = start, .fini = stop)
{
    uv_loop_t *loop = NULL;
    on_reactor(look, &loop);
    cr_expect_not_null(loop);
    cr_expect_not(tw_reactor_is_current(reactor));
}
