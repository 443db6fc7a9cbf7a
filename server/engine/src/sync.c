/* sync.c - a complete picture of what the master holds, against what has been copied.
 *
 * Every difference becomes the event that would have made it, with the snapshot's id, and is planned
 * like any other. What a later event touched, or is on its way, is left alone; marks win over absence. */
#include "state.h"

#include <tradewake/core/check.h>
#include <tradewake/core/digest.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STALE_SLACK_NS (2 * TW_NS_PER_S)
enum { SYNCS_REMEMBERED = 1024, COPIES_SHOWN_MAX = 1000 };

struct syncing {
    struct tw_master *master;
    const Tradewake__V1__SyncMasterRequest *request;
    int64_t received_mono_ns, received_wall_ns, taken_wall_ns;
    struct tw_event *positions, *orders; /* as read; in arena */
    struct sync counts;
    struct tw_arena *arena;
    Tradewake__V1__SyncMasterResponse *ret;
    bool has_memory;
};

/* ---- The request ---- */

static bool refuse_incomplete(const char *field, uint32_t said, size_t there, struct tw_refusal *refusal)
{
    return tw_refuse(refusal, REFUSAL(INCOMPLETE_SNAPSHOT), field,
                     "says %u, but %zu are there: a truncated snapshot never closes anything", said, there);
}

struct entry {
    const char *id;
    size_t index;
};

static int by_id(const void *a, const void *b)
{
    const struct entry *one = a, *other = b;
    int order = strcmp(one->id, other->id);
    return order != 0 ? order : (one->index > other->index) - (one->index < other->index);
}

/* Which of two says what is held? Nobody guesses. */
static bool check_once(struct entry *entries, size_t n, const char *list, const char *field, struct tw_refusal *refusal)
{
    char path[64];
    qsort(entries, n, sizeof *entries, by_id);
    for (size_t i = 1; i < n; i++)
        if (strcmp(entries[i].id, entries[i - 1].id) == 0) {
            snprintf(path, sizeof path, "%s[%zu].%s", list, entries[i].index, field);
            return tw_refuse(refusal, REFUSAL(INVALID_FIELD), path, "\"%s\" is there twice", entries[i].id);
        }
    return true;
}

static bool read_entries(struct syncing *s, struct tw_refusal *refusal)
{
    const Tradewake__V1__SyncMasterRequest *m = s->request;
    s->positions = tw_arena_zero(s->arena, (m->n_positions + 1) * sizeof *s->positions);
    s->orders = tw_arena_zero(s->arena, (m->n_orders + 1) * sizeof *s->orders);
    size_t n_most = m->n_positions > m->n_orders ? m->n_positions : m->n_orders;
    struct entry *entries = tw_arena_zero(s->arena, (n_most + 1) * sizeof *entries);
    if (s->positions == NULL || s->orders == NULL || entries == NULL)
        return tw_refuse(refusal, REFUSAL(TOO_LARGE), NULL, "the snapshot takes more memory than one may");
    char prefix[48];
    for (size_t i = 0; i < m->n_positions; i++) {
        snprintf(prefix, sizeof prefix, "positions[%zu].", i);
        if (!tw_event_read_position(m->positions[i], prefix, &s->positions[i], refusal))
            return false;
    }
    for (size_t i = 0; i < m->n_orders; i++) {
        snprintf(prefix, sizeof prefix, "orders[%zu].", i);
        if (!tw_event_read_order(m->orders[i], prefix, &s->orders[i], refusal))
            return false;
    }
    for (size_t i = 0; i < m->n_positions; i++)
        entries[i] = (struct entry){m->positions[i]->position_id, i};
    if (!check_once(entries, m->n_positions, "positions", "position_id", refusal))
        return false;
    for (size_t i = 0; i < m->n_orders; i++)
        entries[i] = (struct entry){m->orders[i]->order_id, i};
    return check_once(entries, m->n_orders, "orders", "order_id", refusal);
}

static bool check_request(struct syncing *s, struct tw_refusal *refusal)
{
    const Tradewake__V1__SyncMasterRequest *m = s->request;
    const struct tw_check check = {"", refusal};
    if (!tw_check_id(&check, "snapshot_id", m->snapshot_id) ||
        !tw_check_id(&check, "master_id", m->master_id))
        return false;
    if (m->taken_at == NULL)
        return tw_check_fail(&check, "taken_at", "is missing: when was the snapshot taken?");
    if (!tw_check_timestamp(&check, "taken_at", m->taken_at, &s->taken_wall_ns))
        return false;
    if (s->taken_wall_ns > s->received_wall_ns + (int64_t)TW_CLOCK_AHEAD_MS_MAX * TW_NS_PER_MS)
        return tw_check_fail(&check, "taken_at", "is ahead of this server's clock");
    if (m->position_count != m->n_positions)
        return refuse_incomplete("position_count", m->position_count, m->n_positions, refusal);
    if (m->order_count != m->n_orders)
        return refuse_incomplete("order_count", m->order_count, m->n_orders, refusal);
    return read_entries(s, refusal);
}

static bool check_fresh(const struct syncing *s, struct tw_refusal *refusal)
{
    const struct tw_master *master = s->master;
    if (s->taken_wall_ns < master->observed_wall_ns - STALE_SLACK_NS)
        return tw_refuse(refusal, REFUSAL(STALE_SNAPSHOT), "taken_at",
                         "is older than an event that has been copied since");
    uint64_t seen = master->last_sequence;
    for (uint32_t i = 0; i < master->n_ahead; i++)
        seen = master->ahead[i] > seen ? master->ahead[i] : seen;
    if (s->request->sequence != 0 && s->request->sequence < seen)
        return tw_refuse(refusal, REFUSAL(STALE_SNAPSHOT), "sequence",
                         "is %llu, but %llu has been copied", (unsigned long long)s->request->sequence,
                         (unsigned long long)seen);
    return true;
}

static bool hash_request(const Tradewake__V1__SyncMasterRequest *m, uint8_t ret[TW_EVENT_HASH_BYTES])
{
    size_t size = tradewake__v1__sync_master_request__get_packed_size(m);
    uint8_t *packed = malloc(size + 1), digest[TW_SHA256_BYTES];
    if (packed == NULL)
        return false;
    tradewake__v1__sync_master_request__pack(m, packed);
    tw_sha256(packed, size, digest);
    memcpy(ret, digest, TW_EVENT_HASH_BYTES);
    free(packed);
    return true;
}

/* ---- One difference ---- */

static void show_copies(struct syncing *s, struct tw_record *record)
{
    for (uint32_t i = 0; i < record->n_copies; i++) {
        Tradewake__V1__CopySummary *summary =
            s->ret->n_copies < COPIES_SHOWN_MAX ? tw_copy_summary(&record->copies[i], s->arena) : NULL;
        if (summary != NULL)
            s->ret->copies[s->ret->n_copies++] = summary;
        else
            s->ret->copies_omitted++;
    }
}

/* Plans one event of the snapshot. How many copies were handed over. */
static uint32_t run(struct syncing *s, struct tw_event *event)
{
    struct tw_master *master = s->master;
    event->event_id = s->request->snapshot_id;
    event->master_id = master->id;
    struct tw_record *record = record_new(master, event->event_id, master->n_members);
    if (record == NULL) {
        s->has_memory = false;
        return 0;
    }
    record->origin = ORIGIN(SYNC);
    record->received_mono_ns = s->received_mono_ns;
    record->received_wall_ns = s->received_wall_ns;
    snprintf(record->subject_id, sizeof record->subject_id, "%s", tw_event_subject_id(event));
    snprintf(record->symbol, sizeof record->symbol, "%s", event->symbol);
    record->volume = event->volume > 0 ? event->volume : 0;
    if (!sequencer_run(master, event, record)) {
        s->has_memory = false;
        return 0;
    }
    uint32_t accepted = record->accepted;
    show_copies(s, record);
    tw_record_release(record);
    return accepted;
}

/* ---- Positions ---- */

/* By its id, else as what is left of it under another; which it is not where that one has been copied itself. */
static const struct tw_event *snapshot_position(const struct syncing *s, const char *id)
{
    for (size_t i = 0; i < s->request->n_positions; i++)
        if (strcmp(s->positions[i].position_id, id) == 0)
            return &s->positions[i];
    for (size_t i = 0; i < s->request->n_positions; i++) {
        const struct tw_position *named = position_find(s->master, s->positions[i].position_id);
        if (strcmp(s->request->positions[i]->from_position_id, id) == 0 &&
            (named == NULL || named->state != POSITION_OPEN))
            return &s->positions[i];
    }
    return NULL;
}

static const struct tw_event *snapshot_order(const struct syncing *s, const char *id)
{
    for (size_t i = 0; i < s->request->n_orders; i++)
        if (strcmp(s->orders[i].order_id, id) == 0)
            return &s->orders[i];
    return NULL;
}

static bool any_leg(struct tw_position *position, bool (*is_so)(const struct tw_leg *leg))
{
    for (struct tw_leg_block *block = position->blocks; block != NULL; block = block->next)
        for (uint32_t i = 0; i < block->n_legs; i++) {
            struct tw_slot *slot = block->legs[i].slot;
            pthread_mutex_lock(&slot->mutex);
            bool found = is_so(&block->legs[i]);
            pthread_mutex_unlock(&slot->mutex);
            if (found)
                return true;
        }
    return false;
}

static bool leg_is_open(const struct tw_leg *leg)
{
    return !leg->is_closed;
}

static bool leg_is_on_its_way(const struct tw_leg *leg)
{
    return leg->jobs > 0;
}

static bool holds_anything(struct tw_position *position)
{
    return any_leg(position, leg_is_open);
}

static bool is_left_alone(const struct syncing *s, struct tw_position *position)
{
    return position->observed_wall_ns > s->taken_wall_ns || any_leg(position, leg_is_on_its_way);
}

static void close_position(struct syncing *s, struct tw_position *position)
{
    struct tw_event event;
    tw_event_clear(&event, TW_EVENT_CLOSE);
    event.position_id = arena_print(s->arena, "%s", position->id);
    event.observed_wall_ns = s->taken_wall_ns;
    bool counts = holds_anything(position);
    if (!s->request->dry_run)
        run(s, &event);
    s->counts.closes += counts;
}

static void reduce_position(struct syncing *s, struct tw_position *position, const struct tw_event *now)
{
    struct tw_event event;
    bool is_smaller = now->volume < position->remaining;
    bool is_renamed = strcmp(now->position_id, position->id) != 0;
    if (!is_smaller && !is_renamed) {
        s->counts.unchanged++;
        return;
    }
    tw_event_clear(&event, TW_EVENT_CLOSE);
    event.position_id = arena_print(s->arena, "%s", position->id);
    event.new_position_id = is_renamed ? now->position_id : "";
    event.remaining_volume = now->volume;
    event.observed_wall_ns = s->taken_wall_ns;
    if (!s->request->dry_run)
        run(s, &event);
    if (is_smaller)
        s->counts.reductions++;
    else
        s->counts.unchanged++;
}

/* Whether any follower would be sent an open; nothing is done. */
static bool would_open(const struct syncing *s, const struct tw_event *event)
{
    struct tw_master *master = s->master;
    bool found = false;
    for (uint32_t i = 0; i < master->n_members && !found; i++) {
        struct tw_slot *slot = master->members[i]->slot;
        struct tw_follower_view view;
        struct tw_plan plan;
        pthread_mutex_lock(&slot->mutex);
        view_fill(master, master->members[i], &view);
        tw_plan_open(event, &view, s->received_wall_ns, &plan);
        pthread_mutex_unlock(&slot->mutex);
        found = plan.state == STATE(QUEUED);
    }
    return found;
}

static void open_position(struct syncing *s, struct tw_event *event)
{
    if (event->observed_wall_ns == 0)
        event->observed_wall_ns = s->received_wall_ns;
    s->counts.opens += s->request->dry_run ? would_open(s, event) : run(s, event) > 0;
}

/* What was closed at a follower by hand is opened again where the rules say so. */
static void reopen_position(struct syncing *s, struct tw_position *position, struct tw_event *event)
{
    event->event_id = s->request->snapshot_id;
    event->master_id = s->master->id;
    event->observed_wall_ns = event->observed_wall_ns != 0 ? event->observed_wall_ns
                                                           : position->opened_wall_ns;
    struct tw_record *record = s->request->dry_run ? NULL : sequencer_reopen(position, event);
    if (record == NULL)
        return;
    s->counts.opens += record->accepted > 0;
    show_copies(s, record);
    tw_record_release(record);
}

/* What is open in the table, in arena: what closes one of them may forget others that are closed, and with
 * them whatever comes next in the table. */
static struct tw_position **open_ones(struct syncing *s, struct tw_position *table, size_t *ret_n)
{
    struct tw_position *position, *next;
    struct tw_position **list = tw_arena_zero(s->arena, (HASH_COUNT(table) + 1) * sizeof(struct tw_position *));
    s->has_memory &= list != NULL;
    *ret_n = 0;
    if (list == NULL)
        return NULL;
    HASH_ITER(hh, table, position, next)
    if (position->state == POSITION_OPEN)
        list[(*ret_n)++] = position;
    return list;
}

/* It is held the other way round than it was copied: what was copied is closed, and what is held is new. */
static bool is_turned(const struct tw_position *position, const struct tw_event *now)
{
    enum tw_side side;
    return position_side(position, &side) && side != now->side;
}

static void compare_positions(struct syncing *s)
{
    size_t n_open;
    struct tw_position **open = open_ones(s, s->master->positions, &n_open), *position;
    for (size_t i = 0; i < n_open; i++) {
        position = open[i];
        const struct tw_event *now = snapshot_position(s, position->id);
        if (is_left_alone(s, position))
            s->counts.unchanged++;
        else if (now == NULL || is_turned(position, now))
            close_position(s, position);
        else
            reduce_position(s, position, now);
    }
    for (size_t i = 0; i < s->request->n_positions; i++) {
        position = position_find(s->master, s->positions[i].position_id);
        if (position == NULL)
            open_position(s, &s->positions[i]);
        else if (position->state == POSITION_CLOSED && position->observed_wall_ns <= s->taken_wall_ns)
            open_position(s, &s->positions[i]); /* the id is used again */
        else if (position->state == POSITION_OPEN && !is_left_alone(s, position) && is_turned(position, &s->positions[i]))
            open_position(s, &s->positions[i]); /* a dry run, which has not closed it */
        else if (position->state == POSITION_OPEN && !is_left_alone(s, position))
            reopen_position(s, position, &s->positions[i]);
        else if (position->state != POSITION_OPEN)
            s->counts.unchanged++;
    }
}

/* ---- Orders ---- */

static bool order_differs(const struct pending *known, const struct tw_event *now)
{
    return known->price != now->price || known->stop_price != now->stop_price ||
           known->stop_loss != now->stop_loss || known->take_profit != now->take_profit ||
           known->expires_wall_ns != now->expires_wall_ns;
}

/* What no change makes of an order: its id is used again. */
static bool is_another(const struct pending *known, const struct tw_event *now)
{
    return known != NULL && (known->side != now->side || known->type != now->type || strcmp(known->symbol, now->symbol) != 0);
}

static void compare_order(struct syncing *s, struct tw_position *order, const struct tw_event *now)
{
    struct tw_event event;
    if (now == NULL || is_another(order->pending, now)) {
        tw_event_clear(&event, TW_EVENT_CANCEL);
        s->counts.cancels += holds_anything(order);
    } else if (order->pending != NULL && order_differs(order->pending, now)) {
        event = *now;
        event.kind = TW_EVENT_MODIFY_ORDER;
        s->counts.unchanged++;
    } else {
        s->counts.unchanged++;
        return;
    }
    event.order_id = arena_print(s->arena, "%s", order->id);
    event.observed_wall_ns = s->taken_wall_ns;
    if (!s->request->dry_run)
        run(s, &event);
}

static void compare_orders(struct syncing *s)
{
    size_t n_open;
    struct tw_position **open = open_ones(s, s->master->orders, &n_open), *order;
    for (size_t i = 0; i < n_open; i++) {
        order = open[i];
        if (is_left_alone(s, order))
            s->counts.unchanged++;
        else
            compare_order(s, order, snapshot_order(s, order->id));
    }
    for (size_t i = 0; i < s->request->n_orders; i++) {
        order = order_find(s->master, s->orders[i].order_id);
        bool is_new = order == NULL ||
                      (order->state == POSITION_CLOSED && order->observed_wall_ns <= s->taken_wall_ns);
        if (is_new)
            open_position(s, &s->orders[i]);
        else if (order->state != POSITION_OPEN)
            s->counts.unchanged++;
    }
}

/* ---- The call ---- */

static void sync_write(struct tw_master *master, const struct sync *sync)
{
    struct state_out out = {0};
    if (master->engine->log == NULL)
        return;
    state_put_sync(&out, master, sync);
    log_append(master->engine, STATE_SYNC, &out);
    state_out_clear(&out);
}

void sync_remember(struct tw_master *master, const struct sync *counts)
{
    struct sync *sync = malloc(sizeof *sync);
    if (sync == NULL)
        return; /* a repeat would compare again, and find nothing to do */
    *sync = *counts;
    sync->next = master->syncs;
    master->syncs = sync;
    if (++master->n_syncs <= SYNCS_REMEMBERED)
        return;
    struct sync *last = master->syncs;
    while (last->next->next != NULL)
        last = last->next;
    free(last->next);
    last->next = NULL;
    master->n_syncs--;
}

void syncs_clear(struct tw_master *master)
{
    while (master->syncs != NULL) {
        struct sync *next = master->syncs->next;
        free(master->syncs);
        master->syncs = next;
    }
}

static void answer(const struct syncing *s, const struct sync *counts, bool is_duplicate)
{
    s->ret->duplicate = is_duplicate;
    s->ret->closes = counts->closes;
    s->ret->reductions = counts->reductions;
    s->ret->opens = counts->opens;
    s->ret->cancels = counts->cancels;
    s->ret->unchanged = counts->unchanged;
}

static bool sync_locked(struct syncing *s, struct tw_refusal *refusal)
{
    struct tw_master *master = s->master;
    for (const struct sync *known = master->syncs; known != NULL; known = known->next) {
        if (strcmp(known->id, s->counts.id) != 0)
            continue;
        if (memcmp(known->hash, s->counts.hash, sizeof known->hash) != 0)
            return tw_refuse(refusal, REFUSAL(EVENT_ID_REUSED), "snapshot_id",
                             "\"%s\" was another snapshot of \"%s\"", known->id, master->id);
        answer(s, known, true);
        return true;
    }
    master_prune(master);
    if (master->n_members == 0)
        return tw_refuse(refusal, REFUSAL(MASTER_NOT_FOUND), "master_id", "nobody follows \"%s\"",
                         master->id);
    if (!check_fresh(s, refusal))
        return false;
    compare_positions(s);
    compare_orders(s);
    answer(s, &s->counts, false);
    if (!s->request->dry_run) {
        sync_write(master, &s->counts);
        sync_remember(master, &s->counts);
    }
    return s->has_memory ? true
                         : tw_refuse(refusal, REFUSAL(OVERLOADED), NULL,
                                     "no memory for all of it: send the snapshot again under a new id");
}

bool tw_engine_sync(struct tw_engine *engine, const Tradewake__V1__SyncMasterRequest *request,
                    int64_t received_mono_ns, int64_t received_wall_ns, struct tw_arena *arena,
                    Tradewake__V1__SyncMasterResponse *ret, struct tw_refusal *refusal)
{
    struct syncing s = {
        .request = request,
        .received_mono_ns = received_mono_ns,
        .received_wall_ns = received_wall_ns,
        .arena = arena,
        .ret = ret,
        .has_memory = true,
    };
    tradewake__v1__sync_master_response__init(ret);
    ret->snapshot_id = request->snapshot_id;
    ret->copies = tw_arena_zero(arena, COPIES_SHOWN_MAX * sizeof *ret->copies);
    if (!check_request(&s, refusal))
        return false;
    snprintf(s.counts.id, sizeof s.counts.id, "%s", request->snapshot_id);
    if (ret->copies == NULL || !hash_request(request, s.counts.hash))
        return tw_refuse(refusal, REFUSAL(TOO_LARGE), NULL, "the snapshot takes more memory than one may");
    s.master = fleet_master_find(engine, request->master_id);
    if (s.master == NULL)
        return tw_refuse(refusal, REFUSAL(MASTER_NOT_FOUND), "master_id", "nobody follows \"%s\"",
                         request->master_id);
    pthread_mutex_lock(&s.master->mutex);
    bool ok = sync_locked(&s, refusal);
    pthread_mutex_unlock(&s.master->mutex);
    if (ok && engine->log != NULL)
        log_await(engine, tw_journal_appended(engine->log));
    return ok;
}
