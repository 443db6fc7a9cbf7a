/* halt.c - the kill switch.
 *
 * A halt first sets its flag, then walks every follower in its scope: whoever has passed the gate before
 * is counted as in flight, whoever comes after sees the flag; what waits is withdrawn. When it answers,
 * no open can be sent in that scope any more. */
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Who a halt is about: NULL = any. */
struct scope {
    struct tw_slot *slot;     /* held */
    struct tw_master *master;
    bool everything;
};

static bool scope_find(struct tw_engine *engine, const char *follower_id, const char *master_id,
                       bool everything, struct scope *ret, struct tw_refusal *refusal)
{
    *ret = (struct scope){.everything = everything};
    if (everything && (follower_id[0] != '\0' || master_id[0] != '\0'))
        return tw_refuse(refusal, REFUSAL(INVALID_FIELD), "everything",
                         "does not go with follower_id or master_id");
    if (!everything && follower_id[0] == '\0' && master_id[0] == '\0')
        return tw_refuse(refusal, REFUSAL(SCOPE_REQUIRED), NULL,
                         "names nothing: set follower_id, master_id, both, or everything");
    if (master_id[0] != '\0') {
        ret->master = fleet_master_find(engine, master_id);
        if (ret->master == NULL)
            return tw_refuse(refusal, REFUSAL(NOT_FOUND), "master_id", "nobody follows \"%.64s\"",
                             master_id);
    }
    if (follower_id[0] != '\0') {
        ret->slot = fleet_slot_hold(engine, follower_id);
        if (ret->slot == NULL)
            return tw_refuse(refusal, REFUSAL(NOT_FOUND), "follower_id",
                             "there is no follower \"%.64s\"", follower_id);
    }
    return true;
}

static void scope_clear(struct scope *scope)
{
    if (scope->slot != NULL)
        slot_release(scope->slot);
}

static bool in_scope(const struct scope *scope, const struct tw_subscription *subscription)
{
    return (scope->slot == NULL || subscription->slot == scope->slot) &&
           (scope->master == NULL || subscription->master == scope->master);
}

/* The subscriptions in scope, each with a reference; from the heap. NULL: no memory. */
static struct tw_subscription **scope_list(struct tw_engine *engine, const struct scope *scope,
                                           size_t *ret_n)
{
    struct tw_subscription *subscription, *next;
    size_t n = 0;
    pthread_rwlock_rdlock(&engine->fleet_lock);
    struct tw_subscription **list = calloc(HASH_COUNT(engine->subscriptions) + 1, sizeof *list);
    HASH_ITER(hh, engine->subscriptions, subscription, next)
    if (list != NULL && in_scope(scope, subscription)) {
        subscription_hold(subscription);
        list[n++] = subscription;
    }
    pthread_rwlock_unlock(&engine->fleet_lock);
    *ret_n = n;
    return list;
}

static void flags_set(struct tw_engine *engine, const struct scope *scope, bool is_halted)
{
    if (scope->everything) {
        atomic_store_explicit(&engine->is_halted, is_halted, memory_order_release);
    } else if (scope->slot == NULL) {
        atomic_store_explicit(&scope->master->is_halted, is_halted, memory_order_release);
    } else if (scope->master == NULL) {
        atomic_store_explicit(&scope->slot->is_halted, is_halted, memory_order_release);
    } else {
        size_t n = 0;
        struct tw_subscription **pair = scope_list(engine, scope, &n);
        for (size_t i = 0; i < n; i++) {
            atomic_store_explicit(&pair[i]->is_halted, is_halted, memory_order_release);
            subscription_release(pair[i]);
        }
        free(pair);
    }
}

void halt_flags_set(struct tw_engine *engine, const struct tw_active_halt *halt)
{
    struct tw_refusal ignored;
    struct scope scope;
    if (scope_find(engine, halt->follower_id, halt->master_id, halt->everything, &scope, &ignored))
        flags_set(engine, &scope, true);
    scope_clear(&scope);
}

/* A follower or subscription that is made anew: what was halted under its ids is halted still. master_id
 * "": of the follower alone. Under change_mutex. */
bool halt_covers(const struct tw_engine *engine, const char *follower_id, const char *master_id)
{
    for (const struct tw_active_halt *halt = engine->halts; halt != NULL; halt = halt->next)
        if (!halt->everything && strcmp(halt->follower_id, follower_id) == 0 &&
            strcmp(halt->master_id, master_id) == 0)
            return true;
    return false;
}

/* Durable before it is answered. */
static void halts_write(struct tw_engine *engine)
{
    struct state_out out = {0};
    if (engine->log == NULL)
        return;
    state_put_halts(&out, engine);
    log_await(engine, log_append(engine, STATE_HALTS, &out));
    state_out_clear(&out);
}

/* Opens of this subscription that wait. */
static bool halts_job(struct tw_job *job, void *context)
{
    struct tw_copy *copy = copy_of_job(job);
    if (copy == NULL || copy->subscription != context || job->job_class != TW_JOB_NORMAL ||
        !atomic_load_explicit(&copy->may_be_withdrawn, memory_order_acquire))
        return false;
    atomic_store_explicit(&copy->withdrawn_for, REASON(HALTED), memory_order_release);
    return true;
}

static void withdraw(struct tw_subscription **list, size_t n, Tradewake__V1__HaltResponse *ret)
{
    for (size_t i = 0; i < n; i++)
        ret->cancelled += list[i]->slot->lane == NULL ? 0 : (uint32_t)tw_lane_cancel(list[i]->slot->lane, halts_job, list[i]);
    for (size_t i = 0; i < n; i++) {
        pthread_mutex_lock(&list[i]->slot->mutex);
        ret->in_flight += list[i]->calls_out;
        pthread_mutex_unlock(&list[i]->slot->mutex);
    }
}

static bool master_is_new(struct tw_subscription *const *list, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (list[k]->master == list[i]->master)
            return false;
    return true;
}

static uint32_t close_all(struct tw_engine *engine, const struct scope *scope,
                          struct tw_subscription **list, size_t n, const char *event_id)
{
    (void)engine;
    uint32_t closing = 0;
    for (size_t i = 0; i < n; i++) {
        if (!master_is_new(list, i))
            continue;
        struct tw_master *master = list[i]->master;
        pthread_mutex_lock(&master->mutex);
        closing += master_close_legs(master, scope->slot, ORIGIN(HALT), event_id);
        pthread_mutex_unlock(&master->mutex);
    }
    return closing;
}

static bool same_scope(const struct tw_active_halt *halt, const char *follower_id, const char *master_id,
                       bool everything)
{
    return halt->everything == everything && strcmp(halt->follower_id, follower_id) == 0 &&
           strcmp(halt->master_id, master_id) == 0;
}

/* Remembers the halt, or takes its new note. Under change_mutex. */
static bool halt_note(struct tw_engine *engine, const Tradewake__V1__HaltRequest *request, const char *by)
{
    char *note = strdup(request->note);
    struct tw_active_halt *halt;
    if (note == NULL)
        return false;
    for (halt = engine->halts; halt != NULL; halt = halt->next)
        if (same_scope(halt, request->follower_id, request->master_id, request->everything)) {
            free(halt->note);
            halt->note = note;
            snprintf(halt->by, sizeof halt->by, "%s", by);
            return true;
        }
    halt = calloc(1, sizeof *halt);
    if (halt == NULL) {
        free(note);
        return false;
    }
    memcpy(halt->follower_id, request->follower_id, strlen(request->follower_id) + 1);
    memcpy(halt->master_id, request->master_id, strlen(request->master_id) + 1);
    halt->everything = request->everything;
    halt->note = note;
    snprintf(halt->by, sizeof halt->by, "%s", by);
    halt->since_wall_ns = tw_wall_ns();
    halt->next = engine->halts;
    engine->halts = halt;
    return true;
}

static bool halt_apply(struct tw_engine *engine, const struct scope *scope,
                       const Tradewake__V1__HaltRequest *request, const char *by, struct tw_arena *arena,
                       Tradewake__V1__HaltResponse *ret, struct tw_refusal *refusal)
{
    size_t n = 0;
    flags_set(engine, scope, true); /* first of all, also when memory runs out below */
    struct tw_subscription **list = scope_list(engine, scope, &n);
    bool ok = list != NULL && halt_note(engine, request, by);
    withdraw(list, n, ret);
    halts_write(engine);
    if (request->close_positions) {
        char event_id[TW_ID_BYTES];
        fleet_event_id(engine, "halt", event_id);
        ret->closing = close_all(engine, scope, list, n, event_id);
        ret->event_id = arena_print(arena, "%s", event_id);
    }
    for (size_t i = 0; i < n; i++)
        subscription_release(list[i]);
    free(list);
    return ok ? true : tw_refuse(refusal, REFUSAL(INTERNAL), NULL,
                                 "halted, but without memory to remember or withdraw everything");
}

bool tw_engine_halt(struct tw_engine *engine, const Tradewake__V1__HaltRequest *request, const char *by,
                    struct tw_arena *arena, Tradewake__V1__HaltResponse *ret,
                    struct tw_refusal *refusal)
{
    tradewake__v1__halt_response__init(ret);
    if (strlen(request->note) > TW_NOTE_CHARS_MAX)
        return tw_refuse(refusal, REFUSAL(INVALID_FIELD), "note", "has more than %u bytes",
                         TW_NOTE_CHARS_MAX);
    struct scope scope;
    pthread_mutex_lock(&engine->change_mutex);
    bool ok = scope_find(engine, request->follower_id, request->master_id, request->everything, &scope,
                         refusal) &&
              halt_apply(engine, &scope, request, by, arena, ret, refusal);
    scope_clear(&scope);
    pthread_mutex_unlock(&engine->change_mutex);
    return ok;
}

bool tw_engine_resume(struct tw_engine *engine, const Tradewake__V1__ResumeRequest *request,
                      struct tw_refusal *refusal)
{
    struct scope scope;
    pthread_mutex_lock(&engine->change_mutex);
    bool ok = scope_find(engine, request->follower_id, request->master_id, request->everything, &scope,
                         refusal);
    if (ok) {
        flags_set(engine, &scope, false);
        for (struct tw_active_halt **at = &engine->halts; *at != NULL; at = &(*at)->next)
            if (same_scope(*at, request->follower_id, request->master_id, request->everything)) {
                struct tw_active_halt *lifted = *at;
                *at = lifted->next;
                free(lifted->note);
                free(lifted);
                break;
            }
        halts_write(engine);
    }
    scope_clear(&scope);
    pthread_mutex_unlock(&engine->change_mutex);
    return ok;
}

size_t tw_engine_halts_list(struct tw_engine *engine, struct tw_arena *arena,
                            Tradewake__V1__ActiveHalt **ret, size_t n_max)
{
    size_t n = 0;
    pthread_mutex_lock(&engine->change_mutex);
    for (const struct tw_active_halt *halt = engine->halts; halt != NULL && n < n_max; halt = halt->next) {
        Tradewake__V1__ActiveHalt *m = tw_arena_take(arena, sizeof *m);
        if (m == NULL)
            break;
        tradewake__v1__active_halt__init(m);
        m->follower_id = arena_print(arena, "%s", halt->follower_id);
        m->master_id = arena_print(arena, "%s", halt->master_id);
        m->everything = halt->everything;
        m->note = arena_print(arena, "%s", halt->note);
        m->by = arena_print(arena, "%s", halt->by);
        m->since = arena_time(arena, halt->since_wall_ns);
        ret[n++] = m;
    }
    pthread_mutex_unlock(&engine->change_mutex);
    return n;
}
