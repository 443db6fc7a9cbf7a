/* snapshot.c - a snapshot of the state, made from sealed segments of the journal alone: they are read back
 * into an engine that has no threads, no brokers and no lock that anybody waits for, and what that engine
 * remembers is written down.
 *
 * Order: what names something comes after what it names. Things that are gone are there as long as a copy
 * or a leg that is remembered names them. */
#include "snapshot.h"

#include <tradewake/journal/snapshot.h>

#include <stdlib.h>
#include <string.h>

struct writing {
    struct recovery *r;
    struct state_out out;
    snapshot_put_fn *put;
    void *context;
    struct numbered slots, subscriptions; /* that are named */
};

static void put_out(struct writing *w, uint16_t type)
{
    w->put(w->context, type, w->out.bytes, w->out.size);
    w->out.size = 0;
}

/* ---- The fleet ---- */

static void need(struct numbered *table, uint64_t number, void *item)
{
    if (!numbered_keep(table, number, item)) /* what would be missing in a snapshot must not be */
        abort();
}

static void find_named(struct writing *w)
{
    struct recovery *r = w->r;
    struct tw_subscription *subscription;
    struct tw_leg *leg;
    for (struct tw_record *record = r->engine->history.oldest; record != NULL; record = record->newer)
        for (uint32_t i = 0; i < record->n_copies; i++)
            if ((subscription = record->copies[i].subscription) != NULL)
                need(&w->subscriptions, subscription->number, subscription);
    for (uint64_t i = 0; (subscription = numbered_next(&r->subscriptions, &i)) != NULL;)
        if (!subscription->is_gone)
            need(&w->subscriptions, i, subscription);
    for (uint64_t i = 0; (subscription = numbered_next(&w->subscriptions, &i)) != NULL;)
        need(&w->slots, subscription->slot->number, subscription->slot);
    for (uint64_t i = 0; (leg = numbered_next(&r->legs, &i)) != NULL;)
        need(&w->slots, leg->slot->number, leg->slot);
    struct tw_slot *slot, *next;
    HASH_ITER(hh, r->engine->slots, slot, next)
    need(&w->slots, slot->number, slot);
}

static bool is_there(const struct tw_engine *engine, const struct tw_slot *slot)
{
    struct tw_slot *found = NULL;
    HASH_FIND_STR(engine->slots, slot->id, found);
    return found == slot;
}

static void put_slots(struct writing *w)
{
    struct tw_slot *slot;
    for (uint64_t i = 0; (slot = numbered_next(&w->slots, &i)) != NULL;) {
        bool is_gone = !is_there(w->r->engine, slot);
        state_put_follower(&w->out, slot);
        put_out(w, STATE_FOLLOWER);
        state_put_risk(&w->out, slot);
        put_out(w, STATE_RISK);
        if (!is_gone)
            continue;
        state_put_u(&w->out, slot->number);
        put_out(w, STATE_FOLLOWER_GONE);
    }
}

static void put_subscriptions(struct writing *w)
{
    struct tw_subscription *subscription;
    for (uint64_t i = 0; (subscription = numbered_next(&w->subscriptions, &i)) != NULL;) {
        state_put_subscription(&w->out, subscription);
        put_out(w, STATE_SUBSCRIPTION);
        if (!subscription->is_gone)
            continue;
        state_put_u(&w->out, subscription->number);
        put_out(w, STATE_SUBSCRIPTION_GONE);
    }
}

static void put_syncs(struct writing *w, const struct tw_master *master, const struct sync *sync)
{
    if (sync == NULL)
        return;
    put_syncs(w, master, sync->next); /* oldest first; there are a few */
    state_put_sync(&w->out, master, sync);
    put_out(w, STATE_SYNC);
}

static void put_masters(struct writing *w)
{
    struct tw_master *master, *next;
    HASH_ITER(hh, w->r->engine->masters, master, next)
    {
        state_put_text(&w->out, master->id);
        state_put_master(&w->out, master);
        put_out(w, SNAPSHOT_MASTER);
        put_syncs(w, master, master->syncs);
    }
}

static bool read_master(struct recovery *r, struct state_in *in)
{
    char id[TW_ID_BYTES];
    state_get_text(in, id, sizeof id);
    struct tw_master *master = master_find_or_add(r->engine, id);
    return master != NULL && state_get_master(in, master) && !in->failed;
}

/* ---- Positions ---- */

static void put_blocks(struct writing *w, const struct tw_leg_block *block)
{
    if (block == NULL)
        return;
    put_blocks(w, block->next); /* the newest comes first in the list, and is made last */
    state_put_u(&w->out, block->n_legs);
    for (uint32_t i = 0; i < block->n_legs; i++)
        state_put_leg(&w->out, &block->legs[i]);
}

static void put_positions(struct writing *w)
{
    const struct tw_position *position;
    for (uint64_t i = 0; (position = numbered_next(&w->r->positions, &i)) != NULL;) {
        uint32_t n = 0;
        for (const struct tw_leg_block *block = position->blocks; block != NULL; block = block->next)
            n++;
        state_put_position(&w->out, position);
        state_put_u(&w->out, n);
        put_blocks(w, position->blocks);
        put_out(w, SNAPSHOT_POSITION);
    }
}

static bool read_position(struct recovery *r, struct state_in *in)
{
    struct tw_position *position;
    if (!recovery_position(r, in, &position))
        return false;
    uint64_t n_blocks = state_get_u(in);
    for (uint64_t i = 0; i < n_blocks && !in->failed; i++) {
        uint64_t n_legs = state_get_u(in);
        struct tw_leg_block *block = n_legs <= TW_FOLLOWERS_PER_MASTER_MAX
                                         ? leg_block_new(position, (uint32_t)n_legs)
                                         : NULL;
        if (block == NULL)
            return false;
        for (uint64_t j = 0; j < n_legs; j++)
            if (recovery_leg(r, in, &block, (uint32_t)n_legs) == NULL)
                return false;
    }
    return !in->failed;
}

/* ---- Events ---- */

static void put_event(struct writing *w, const struct tw_record *record)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < record->n_copies; i++)
        n += record->copies[i].subscription != NULL;
    state_put_event(&w->out, record);
    state_put_u(&w->out, n); /* fewer than the event has: the rest is planned in a later segment */
    for (uint32_t i = 0; i < record->n_copies; i++) {
        const struct tw_copy *copy = &record->copies[i];
        if (copy->subscription == NULL)
            continue;
        state_put_copy(&w->out, copy);
        state_put_u(&w->out, copy->change_id);
    }
    put_out(w, SNAPSHOT_EVENT);
}

static bool read_event(struct recovery *r, struct state_in *in)
{
    struct tw_record *record = recovery_event(r, in);
    uint64_t n = record != NULL ? state_get_u(in) : 0;
    for (uint64_t i = 0; i < n && !in->failed; i++) {
        struct tw_copy *copy;
        if (!recovery_copy(r, in, record, &copy) || copy == NULL)
            return false;
        copy->change_id = state_get_u(in);
    }
    return record != NULL && !in->failed;
}

enum { FORGOTTEN_AT_ONCE = 4096 };

static void put_forgotten(struct writing *w)
{
    for (uint32_t from = 0, n = 1; n > 0; from += n) {
        n = forgotten_write(w->r->engine, from, FORGOTTEN_AT_ONCE, &w->out);
        put_out(w, SNAPSHOT_FORGOTTEN);
    }
}

/* ---- The rest ---- */

static void put_boot(struct writing *w)
{
    state_put_text(&w->out, w->r->boot_id);
    state_put_text(&w->out, w->r->engine->journal_id);
    state_put_text(&w->out, ""); /* of that run nothing else is asked */
    state_put_i(&w->out, 0);
    put_out(w, STATE_BOOT);
}

static void put_rest(struct writing *w)
{
    const struct recovery *r = w->r;
    state_put_u(&w->out, r->given.slot);
    state_put_u(&w->out, r->given.subscription);
    state_put_u(&w->out, r->given.position);
    state_put_u(&w->out, r->given.leg);
    state_put_u(&w->out, r->given.record);
    state_put_i(&w->out, r->engine->forgotten.horizon_wall_ns);
    state_put_u(&w->out, atomic_load(&r->engine->journal.forgotten_change_id));
    state_put_i(&w->out, r->engine->power_lost_wall_ns);
    state_put_u(&w->out, r->is_sealed);
    put_out(w, SNAPSHOT_REST);
}

static bool read_rest(struct recovery *r, struct state_in *in)
{
    r->given.slot = state_get_u(in);
    r->given.subscription = state_get_u(in);
    r->given.position = state_get_u(in);
    r->given.leg = state_get_u(in);
    r->given.record = state_get_u(in);
    int64_t horizon_wall_ns = state_get_i(in);
    if (r->engine->forgotten.horizon_wall_ns < horizon_wall_ns)
        r->engine->forgotten.horizon_wall_ns = horizon_wall_ns;
    atomic_store(&r->engine->journal.forgotten_change_id, state_get_u(in));
    r->engine->power_lost_wall_ns = state_get_i(in);
    r->is_sealed = state_get_u(in) != 0;
    return !in->failed;
}

void snapshot_write(struct recovery *r, snapshot_put_fn *put, void *context)
{
    struct writing w = {.r = r, .put = put, .context = context};
    find_named(&w);
    put_boot(&w);
    put_slots(&w);
    put_masters(&w);
    put_subscriptions(&w);
    state_put_halts(&w.out, r->engine);
    put_out(&w, STATE_HALTS);
    put_positions(&w);
    put_forgotten(&w);
    for (const struct tw_record *record = r->engine->history.oldest; record != NULL; record = record->newer)
        put_event(&w, record);
    put_rest(&w);
    numbered_clear(&w.slots);
    numbered_clear(&w.subscriptions);
    state_out_clear(&w.out);
}

bool snapshot_record_read(struct recovery *r, uint16_t type, struct state_in *in)
{
    switch ((enum snapshot_type)type) {
    case SNAPSHOT_MASTER:
        return read_master(r, in);
    case SNAPSHOT_POSITION:
        return read_position(r, in);
    case SNAPSHOT_FORGOTTEN:
        return forgotten_read(r->engine, in);
    case SNAPSHOT_EVENT:
        return read_event(r, in);
    case SNAPSHOT_REST:
        return read_rest(r, in);
    }
    return false; /* of a later version */
}

/* ---- From a log to its snapshot ---- */

static void to_file(void *context, uint16_t type, const void *bytes, size_t size)
{
    tw_snapshot_put(context, type, bytes, size);
}

static void shadow_free(struct tw_engine *engine, struct recovery *r)
{
    struct tw_position *position;
    for (uint64_t i = 0; (position = numbered_next(&r->positions, &i)) != NULL;) {
        position_unhash(position);
        position_free(position);
    }
    recovery_clear(r);
    tw_engine_stop(engine);
}

tw_status tw_engine_snapshot(const struct tw_engine_snapshot_wanted *wanted, uint64_t *ret_bytes,
                             struct tw_error *error)
{
    struct tw_engine *engine = engine_shadow_new(wanted);
    struct recovery r = {.engine = engine, .error = error};
    const struct tw_snapshot_options options = {.dir = wanted->dir, .disk = wanted->disk, .until = wanted->until,
                                                .snapshot = recovery_record, .replay = recovery_record,
                                                .context = &r};
    struct tw_snapshot *snapshot = NULL;
    if (engine == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for a snapshot");
    tw_status status = tw_snapshot_begin(&options, &snapshot, error);
    if (status == TW_OK) {
        recovery_settle(&r);
        snapshot_write(&r, to_file, snapshot);
        status = tw_snapshot_finish(snapshot, ret_bytes, error);
    }
    shadow_free(engine, &r);
    return status;
}
