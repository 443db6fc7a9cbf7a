/* engine.c - start and stop. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SWEEP_NS TW_NS_PER_S

static bool random_id(char ret[17])
{
    uint64_t bits;
    if (getrandom(&bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        return false;
    snprintf(ret, 17, "%016llx", (unsigned long long)bits);
    return true;
}

static void on_sweep(struct tw_timer *timer)
{
    struct tw_engine *engine = container_of(timer, struct tw_engine, sweep);
    fleet_sweep(engine);
    breakers_tell(engine);
    gates_sweep(engine);
    settle_all(engine);
    audit_tell(engine, false);
    if (!atomic_load(&engine->is_stopping))
        tw_timer_set(engine->reactor, timer, tw_mono_ns() + SWEEP_NS);
}

/* Empty, without threads. NULL: no memory. */
static struct tw_engine *engine_new(uint32_t copies_remembered, uint32_t events_remembered, int64_t events_kept_ns)
{
    struct tw_engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL)
        return NULL;
    engine->copies_remembered = copies_remembered;
    atomic_init(&engine->next_position, 1);
    atomic_init(&engine->next_leg, 1); /* 0 = no leg, and as a key: no order asked for */
    pthread_rwlock_init(&engine->fleet_lock, NULL);
    pthread_mutex_init(&engine->change_mutex, NULL);
    spares_init(&engine->spares);
    pthread_mutex_init(&engine->history.mutex, NULL);
    pthread_mutex_init(&engine->audit.mutex, NULL);
    pthread_mutex_init(&engine->journal.index_mutex, NULL);
    pthread_mutex_init(&engine->journal.feeds_mutex, NULL);
    engine->history.next_number = 1;
    engine->journal.batches = 1;
    atomic_init(&engine->journal.last_change_id, 1); /* never 0: that means "from now on" */
    if (forgotten_init(engine, events_remembered, events_kept_ns))
        return engine;
    tw_engine_stop(engine);
    return NULL;
}

struct tw_engine *engine_shadow_new(const struct tw_engine_snapshot_wanted *wanted)
{
    struct tw_engine *engine =
        engine_new(wanted->copies_remembered, wanted->events_remembered, wanted->events_kept_ns);
    if (engine != NULL)
        engine->is_shadow = true;
    return engine;
}

tw_status tw_engine_start(const struct tw_engine_options *options, struct tw_engine **ret_engine,
                          struct tw_error *error)
{
    struct tw_engine *engine = engine_new(options->copies_remembered, options->events_remembered, options->events_kept_ns);
    tw_status status = TW_OK;
    if (engine == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the engine");
    engine->executor = options->executor;
    engine->reactor = options->reactor;
    atomic_init(&engine->sampler, options->sampler);
    engine->adapters = options->adapters;
    engine->n_adapters = options->n_adapters;
    engine->breakers = calloc(options->n_adapters + 1, sizeof *engine->breakers);
    engine->gate_limits = options->gate_limits;
    engine->backlog_bytes_max = options->backlog_bytes_max;
    engine->unknown_calls_max = options->unknown_calls_max;
    engine->threads_lost_max =
        options->threads_lost_max != 0 ? options->threads_lost_max : TW_THREADS_LOST_MAX_DEFAULT;
    if (engine->breakers == NULL) {
        tw_engine_stop(engine);
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the engine");
    }
    if (!random_id(engine->instance_id) || !random_id(engine->journal_id)) {
        tw_engine_stop(engine);
        return tw_error_set(error, TW_IO, "the system has no random bytes to give");
    }
    engine->started_mono_ns = tw_mono_ns();
    engine->started_wall_ns = tw_wall_ns();
    if (options->journal_dir != NULL)
        status = recover(engine, options, error);
    if (status == TW_OK && engine->log != NULL && options->history_path != NULL)
        status = history_start(engine, options, error);
    if (status == TW_OK)
        status = changes_start(engine, error);
    if (status == TW_OK)
        status = snapshots_start(engine, options, error);
    if (status != TW_OK) {
        tw_engine_stop(engine);
        return status;
    }
    for (struct tw_master *master = engine->masters; master != NULL; master = master->hh.next)
        if (master->n_members > 0)
            master_events_expect(master, master->n_members);
    engine->sweep.fire = on_sweep;
    tw_timer_set(engine->reactor, &engine->sweep, tw_mono_ns() + SWEEP_NS);
    *ret_engine = engine;
    return TW_OK;
}

void tw_engine_quiesce(struct tw_engine *engine)
{
    atomic_store(&engine->is_stopping, true);
}

void tw_engine_quiet(struct tw_engine *engine)
{
    atomic_store(&engine->is_quiet, true);
}

void tw_engine_abandon(struct tw_engine *engine)
{
    if (engine == NULL)
        return;
    snapshots_stop(engine);
    changes_stop(engine);
    spares_stop(&engine->spares);
    tw_journal_close(engine->log);
}

void tw_engine_stop(struct tw_engine *engine)
{
    if (engine == NULL)
        return;
    snapshots_stop(engine);
    audit_tell(engine, true);
    changes_stop(engine);
    if (engine->log != NULL && atomic_load(&engine->is_quiet))
        recover_seal(engine);
    history_stop(engine);
    HASH_CLEAR(hh, engine->journal.index);
    struct tw_master *master, *next_master;
    HASH_ITER(hh, engine->masters, master, next_master)
    HASH_CLEAR(hh, master->records);
    for (struct tw_record *record = engine->history.oldest, *newer; record != NULL; record = newer) {
        newer = record->newer;
        tw_record_release(record);
    }
    fleet_clear(engine);
    while (engine->halts != NULL) {
        struct tw_active_halt *next = engine->halts->next;
        free(engine->halts->note);
        free(engine->halts);
        engine->halts = next;
    }
    while (engine->retired_subscriptions != NULL) {
        struct tw_subscription *next = engine->retired_subscriptions->retired;
        subscription_release(engine->retired_subscriptions);
        engine->retired_subscriptions = next;
    }
    forgotten_clear(engine);
    spares_clear(&engine->spares);
    free(engine->breakers);
    tw_journal_close(engine->log);
    pthread_mutex_destroy(&engine->journal.index_mutex);
    pthread_mutex_destroy(&engine->journal.feeds_mutex);
    pthread_mutex_destroy(&engine->history.mutex);
    pthread_mutex_destroy(&engine->audit.mutex);
    pthread_mutex_destroy(&engine->change_mutex);
    pthread_rwlock_destroy(&engine->fleet_lock);
    free(engine);
}

void tw_engine_sampler_set(struct tw_engine *engine, struct tw_sampler *sampler)
{
    atomic_store(&engine->sampler, sampler);
}

const char *tw_engine_instance_id(const struct tw_engine *engine)
{
    return engine->instance_id;
}

const char *tw_engine_journal_id(const struct tw_engine *engine)
{
    return engine->journal_id;
}
