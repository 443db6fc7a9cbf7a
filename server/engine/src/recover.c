/* recover.c - the state, read back from the journal; then what was on its way is asked for.
 *
 * Reading runs no rules: records hold states, and the latest of a thing wins. Things are found by their
 * numbers, in tables that live only as long as the reading. Afterwards every copy without an end gets
 * its job again. Whether its call was made is not known: the broker is asked first (a look-up), and only
 * proof that it has no such order lets it be sent again. */
#include "recover.h"

#include "snapshot.h"

#include <tradewake/base/crash_point.h>
#include <tradewake/base/log.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE_NUMBERS = 4096, NUMBERS_MAX_SHIFT = 36 };

void *numbered_find(const struct numbered *table, uint64_t number)
{
    uint64_t page = number / PAGE_NUMBERS;
    return page < table->n_pages && table->pages[page] != NULL ? table->pages[page][number % PAGE_NUMBERS]
                                                               : NULL;
}

static bool pages_grow(struct numbered *table, uint64_t page)
{
    uint64_t room = table->n_pages == 0 ? 16 : table->n_pages;
    while (room <= page)
        room *= 2;
    void ***pages = realloc(table->pages, room * sizeof *pages);
    if (pages == NULL)
        return false;
    memset(pages + table->n_pages, 0, (room - table->n_pages) * sizeof *pages);
    table->pages = pages;
    table->n_pages = room;
    return true;
}

bool numbered_keep(struct numbered *table, uint64_t number, void *item)
{
    uint64_t page = number / PAGE_NUMBERS;
    if (number >> NUMBERS_MAX_SHIFT != 0 || (page >= table->n_pages && !pages_grow(table, page)))
        return false;
    if (table->pages[page] == NULL) {
        table->pages[page] = calloc(PAGE_NUMBERS, sizeof *table->pages[page]);
        if (table->pages[page] == NULL)
            return false;
    }
    table->pages[page][number % PAGE_NUMBERS] = item;
    if (number > table->last)
        table->last = number;
    return true;
}

static void drop(struct numbered *table, uint64_t number)
{
    if (numbered_find(table, number) != NULL)
        table->pages[number / PAGE_NUMBERS][number % PAGE_NUMBERS] = NULL;
}

void *numbered_next(const struct numbered *table, uint64_t *number)
{
    for (uint64_t at = *number + 1; at / PAGE_NUMBERS < table->n_pages; at++) {
        void **page = table->pages[at / PAGE_NUMBERS];
        if (page == NULL) {
            at |= PAGE_NUMBERS - 1;
        } else if (page[at % PAGE_NUMBERS] != NULL) {
            *number = at;
            return page[at % PAGE_NUMBERS];
        }
    }
    return NULL;
}

/* The same, downwards; *number UINT64_MAX: from the last. */
static void *numbered_before(const struct numbered *table, uint64_t *number)
{
    uint64_t at = *number < table->last + 1 ? *number : table->last + 1;
    while (at-- > 0) {
        void **page = at / PAGE_NUMBERS < table->n_pages ? table->pages[at / PAGE_NUMBERS] : NULL;
        if (page == NULL) {
            at &= ~(uint64_t)(PAGE_NUMBERS - 1);
        } else if (page[at % PAGE_NUMBERS] != NULL) {
            *number = at;
            return page[at % PAGE_NUMBERS];
        }
    }
    return NULL;
}

void numbered_clear(struct numbered *table)
{
    for (uint64_t i = 0; i < table->n_pages; i++)
        free(table->pages[i]);
    free(table->pages);
    *table = (struct numbered){0};
}

/* ---- The fleet ---- */

static bool read_follower(struct recovery *r, struct state_in *in)
{
    struct tw_engine *engine = r->engine;
    uint32_t number = (uint32_t)state_get_u(in);
    size_t size;
    const uint8_t *packed = state_get_bytes(in, &size);
    Tradewake__V1__Follower *message = tradewake__v1__follower__unpack(NULL, size, packed);
    struct tw_follower_rules rules;
    struct tw_refusal refusal = {0};
    if (message == NULL || in->failed)
        return false;
    struct tw_slot *slot = numbered_find(&r->slots, number);
    bool ok = tw_follower_rules_read(message, "follower.", &rules, &refusal);
    if (!ok)
        tw_error_set(r->error, TW_INVALID, "follower \"%s\" of the journal is refused: %s",
                     message->follower_id, refusal.text);
    if (ok && slot == NULL) {
        slot = slot_new(engine, message, number);
        ok = slot != NULL && numbered_keep(&r->slots, number, slot);
        if (ok)
            HASH_ADD_STR(engine->slots, id, slot);
    } else if (ok) {
        tw_follower_rules_clear(&slot->rules);
        Tradewake__V1__Follower *before = slot->message;
        slot->message = (Tradewake__V1__Follower *)message_copy(&message->base, NULL);
        tradewake__v1__follower__free_unpacked(before, NULL);
        ok = slot->message != NULL;
    }
    tradewake__v1__follower__free_unpacked(message, NULL);
    if (!ok)
        return false;
    slot->rules = rules;
    slot->revision = state_get_u(in);
    slot->created_wall_ns = state_get_i(in);
    slot->updated_wall_ns = state_get_i(in);
    state_get_text(in, slot->request_id, sizeof slot->request_id);
    slot->is_deleted = state_get_u(in) != 0;
    return !in->failed;
}

static bool read_follower_gone(struct recovery *r, struct state_in *in)
{
    struct tw_slot *slot = numbered_find(&r->slots, state_get_u(in));
    if (slot == NULL)
        return true;
    HASH_DEL(r->engine->slots, slot);
    slot->is_deleted = true;
    slot->retired_next = r->engine->retired; /* takes over the table's reference */
    r->engine->retired = slot;
    return true;
}

static bool read_subscription(struct recovery *r, struct state_in *in)
{
    char id[TW_ID_BYTES], master_id[TW_ID_BYTES];
    uint32_t number = (uint32_t)state_get_u(in);
    state_get_text(in, id, sizeof id);
    state_get_text(in, master_id, sizeof master_id);
    struct tw_slot *slot = numbered_find(&r->slots, state_get_u(in));
    bool has_rules = state_get_u(in) != 0;
    size_t size;
    const uint8_t *packed = state_get_bytes(in, &size);
    struct tw_subscription *subscription = numbered_find(&r->subscriptions, number);
    struct tw_master *master = master_find_or_add(r->engine, master_id);
    if (in->failed || slot == NULL || master == NULL)
        return false;
    Tradewake__V1__CopyRules *message =
        has_rules ? tradewake__v1__copy_rules__unpack(NULL, size, packed) : NULL;
    struct tw_rules rules;
    struct tw_refusal refusal = {0};
    if ((has_rules && message == NULL) ||
        !tw_rules_read(message, "subscription.rules.", &rules, &refusal)) {
        tw_error_set(r->error, TW_INVALID, "subscription \"%s\" of the journal is refused: %s", id,
                     refusal.text);
        return false;
    }
    if (subscription == NULL) {
        subscription = subscription_new(r->engine, master, slot, number, id);
        if (subscription == NULL || !numbered_keep(&r->subscriptions, number, subscription) ||
            !member_add(master, subscription))
            return false;
        HASH_ADD_STR(r->engine->subscriptions, id, subscription);
    } else {
        tw_rules_clear(&subscription->rules);
        if (subscription->message != NULL)
            tradewake__v1__copy_rules__free_unpacked(subscription->message, NULL);
    }
    subscription->message = message;
    subscription->rules = rules;
    subscription->revision = state_get_u(in);
    subscription->created_wall_ns = state_get_i(in);
    subscription->updated_wall_ns = state_get_i(in);
    state_get_text(in, subscription->request_id, sizeof subscription->request_id);
    subscription->is_leaving = state_get_u(in) != 0;
    return !in->failed;
}

static bool read_subscription_gone(struct recovery *r, struct state_in *in)
{
    struct tw_subscription *subscription = numbered_find(&r->subscriptions, state_get_u(in));
    if (subscription == NULL || subscription->is_gone)
        return true;
    member_remove(subscription->master, subscription);
    HASH_DEL(r->engine->subscriptions, subscription);
    subscription->retired = r->engine->retired_subscriptions; /* copies to come may name it */
    r->engine->retired_subscriptions = subscription;
    return true;
}

static bool read_halts(struct recovery *r, struct state_in *in)
{
    struct tw_engine *engine = r->engine;
    while (engine->halts != NULL) {
        struct tw_active_halt *next = engine->halts->next;
        free(engine->halts->note);
        free(engine->halts);
        engine->halts = next;
    }
    uint64_t n = state_get_u(in);
    struct tw_active_halt **at = &engine->halts;
    for (uint64_t i = 0; i < n && !in->failed; i++) {
        struct tw_active_halt *halt = calloc(1, sizeof *halt);
        char note[TW_NOTE_CHARS_MAX + 1];
        if (halt == NULL)
            return false;
        state_get_text(in, halt->follower_id, sizeof halt->follower_id);
        state_get_text(in, halt->master_id, sizeof halt->master_id);
        halt->everything = state_get_u(in) != 0;
        state_get_text(in, note, sizeof note);
        halt->note = strdup(note);
        halt->since_wall_ns = state_get_i(in);
        *at = halt;
        at = &halt->next;
        if (halt->note == NULL)
            return false;
    }
    bool says_by = in->at != in->end; /* else it is of a version that did not know */
    for (struct tw_active_halt *halt = engine->halts; halt != NULL && says_by; halt = halt->next)
        state_get_text(in, halt->by, sizeof halt->by);
    return !in->failed;
}

static bool read_risk(struct recovery *r, struct state_in *in)
{
    struct tw_slot *slot = numbered_find(&r->slots, state_get_u(in));
    return slot != NULL ? state_get_risk(in, slot) : true;
}

/* ---- Positions and legs ---- */

bool recovery_position(struct recovery *r, struct state_in *in, struct tw_position **ret)
{
    struct position_names names = state_get_position_names(in);
    struct tw_master *master = master_find_or_add(r->engine, names.master_id);
    struct tw_position *position = numbered_find(&r->positions, names.number);
    if (in->failed || master == NULL)
        return false;
    if (position == NULL) {
        position = calloc(1, sizeof *position);
        if (position == NULL || !numbered_keep(&r->positions, names.number, position))
            return false;
        position->number = names.number;
        position->master = master;
        r->positions_read++;
    } else {
        position_unhash(position);
    }
    bool is_hashed = false, is_order = false;
    if (!state_get_position(in, position, &is_hashed, &is_order))
        return false;
    position->is_order = is_order;
    if (is_hashed)
        position_hash(position, is_order);
    *ret = position;
    return !in->failed;
}

static bool read_position(struct recovery *r, struct state_in *in)
{
    struct tw_position *position;
    return recovery_position(r, in, &position);
}

struct tw_leg *recovery_leg(struct recovery *r, struct state_in *in, struct tw_leg_block **block,
                            uint32_t n_legs_max)
{
    struct leg_names names = state_get_leg_names(in);
    struct tw_leg *leg = numbered_find(&r->legs, names.number);
    struct tw_position *position = numbered_find(&r->positions, names.position_number);
    struct tw_slot *slot = numbered_find(&r->slots, names.slot_number);
    struct tw_leg ignored = {0};
    if (in->failed)
        return NULL;
    if (leg == NULL && position != NULL && slot != NULL && block != NULL) {
        if (*block == NULL)
            *block = leg_block_new(position, n_legs_max);
        if (*block == NULL)
            return NULL;
        leg = &(*block)->legs[(*block)->n_legs];
        leg->listing = tw_market_find_or_add(&slot->market, names.symbol);
        if (leg->listing == NULL || !numbered_keep(&r->legs, names.number, leg))
            return NULL;
        (*block)->n_legs++;
        leg->number = names.number;
        leg->position = position;
        leg->slot = slot;
        slot_hold(slot);
    }
    bool is_newer = leg != NULL && names.stamp > leg->stamp;
    state_get_leg(in, is_newer ? leg : &ignored); /* of what has been forgotten, too: only read past */
    leg_tickets_clear(&ignored);
    if (is_newer)
        leg->stamp = names.stamp;
    uint64_t n_applied = state_get_u(in);
    for (uint64_t i = 0; i < n_applied && !in->failed; i++) {
        struct tw_copy *copy = NULL;
        struct tw_record *record = numbered_find(&r->records, state_get_u(in));
        in->failed |= !recovery_copy(r, in, record, &copy);
        if (copy != NULL)
            copy->change_id = 0; /* a change that nobody has heard of, unless its own record comes */
    }
    return leg;
}

static bool read_legs(struct recovery *r, struct state_in *in)
{
    uint64_t n = state_get_u(in);
    for (uint64_t i = 0; i < n && !in->failed; i++)
        (void)recovery_leg(r, in, NULL, 0);
    return !in->failed;
}

/* ---- Events and copies ---- */

/* One copy, without its leg. record NULL: of what has been forgotten; only read past, as what is not newer than
 * what is known. *ret_copy: NULL then. */
bool recovery_copy(struct recovery *r, struct state_in *in, struct tw_record *record,
                   struct tw_copy **ret_copy)
{
    static struct tw_record forgotten;
    struct copy_names names = state_get_copy_names(in);
    struct tw_subscription *subscription =
        record != NULL ? numbered_find(&r->subscriptions, names.subscription_number) : &r->nobodys;
    r->nobodys.slot = &r->nobody;
    if (in->failed || subscription == NULL || (record != NULL && names.index >= record->n_copies))
        return false;
    struct tw_copy scratch = {.subscription = subscription, .record = &forgotten};
    struct tw_copy *copy = record != NULL ? &record->copies[names.index] : &scratch;
    if (record != NULL && copy->subscription == NULL)
        copy_init(copy, record, subscription);
    bool is_newer = record != NULL && names.stamp > copy->stamp;
    state_get_copy(in, is_newer ? copy : &scratch);
    free(scratch.told);
    *ret_copy = NULL;
    if (is_newer) {
        copy->stamp = names.stamp;
        /* One that has ended has none: the leg may go before it. */
        copy->leg = !copy_is_over(copy) ? numbered_find(&r->legs, names.leg_number) : NULL;
        copy->leg_number = names.leg_number != 0 ? names.leg_number : copy->leg_number;
        *ret_copy = copy;
    }
    return !in->failed;
}

static bool copy_read(struct recovery *r, struct state_in *in, struct tw_record *record,
                      struct tw_leg_block **block)
{
    struct tw_copy *copy;
    if (!recovery_copy(r, in, record, &copy))
        return false;
    bool has_leg = state_get_u(in) != 0;
    struct tw_leg *leg = has_leg ? recovery_leg(r, in, block, record != NULL ? record->n_copies : 0) : NULL;
    if (copy != NULL)
        copy->leg = !copy_is_over(copy) ? leg : NULL;
    if (copy != NULL && leg != NULL)
        copy->leg_number = leg->number;
    return !in->failed;
}

static bool plan_read(struct recovery *r, struct state_in *in)
{
    struct tw_record *record = numbered_find(&r->records, state_get_u(in));
    struct tw_leg_block *block = NULL;
    uint64_t n = state_get_u(in);
    for (uint64_t i = 0; i < n; i++)
        if (record == NULL || !copy_read(r, in, record, &block))
            return false;
    return !in->failed;
}

/* Over, and told as such: what has no change_id yet gets one at the start. */
static bool is_over(const struct tw_record *record)
{
    for (uint32_t i = 0; i < record->n_copies; i++)
        if (record->copies[i].subscription != NULL &&
            (!copy_is_over(&record->copies[i]) || record->copies[i].change_id == 0))
            return false;
    return true;
}

/* As much is remembered as when it was live, so that a long log does not need more memory. */
static void forget_oldest(struct recovery *r)
{
    struct tw_engine *engine = r->engine;
    while (engine->history.n_copies > engine->copies_remembered) {
        struct tw_record *oldest = engine->history.oldest;
        if (oldest == NULL || oldest == engine->history.newest || !is_over(oldest))
            return;
        drop(&r->records, oldest->number);
        history_unlink(engine, oldest);
        oldest->accepted = oldest->skipped = 0;
        for (uint32_t i = 0; i < oldest->n_copies; i++) {
            const struct tw_copy *copy = &oldest->copies[i];
            oldest->skipped += copy->subscription != NULL && copy->is_skipped;
            oldest->accepted += copy->subscription != NULL && !copy->is_skipped;
        }
        if (oldest->hh.tbl != NULL) /* a twin of one that is remembered is in no table */
            HASH_DEL(oldest->master->records, oldest);
        forgotten_add(engine, oldest);
        record_copies_trim(oldest);
        tw_record_release(oldest);
    }
}

static uint32_t legs_count(const struct tw_position *position)
{
    uint32_t n = 1;
    for (const struct tw_leg_block *block = position->blocks; block != NULL; block = block->next)
        n += block->n_legs;
    return n;
}

static bool has_open_leg(const struct tw_position *position)
{
    for (const struct tw_leg_block *block = position->blocks; block != NULL; block = block->next)
        for (uint32_t i = 0; i < block->n_legs; i++)
            if (!block->legs[i].is_closed)
                return true;
    return false;
}

static void position_drop(struct recovery *r, struct tw_position *position)
{
    for (const struct tw_leg_block *block = position->blocks; block != NULL; block = block->next)
        for (uint32_t i = 0; i < block->n_legs; i++)
            drop(&r->legs, block->legs[i].number);
    drop(&r->positions, position->number);
    position_unhash(position);
    position_free(position);
}

/* Of what the master has closed, as many legs are remembered as copies are, the newest by number; more
 * only if something of it is open. The same, whenever it is done. */
static void positions_forget(struct recovery *r)
{
    uint64_t legs = 0, number = UINT64_MAX;
    struct tw_position *position;
    for (struct tw_record *record = r->engine->history.oldest; record != NULL; record = record->newer)
        for (uint32_t i = 0; i < record->n_copies; i++)
            if (record->copies[i].leg != NULL)
                record->copies[i].leg->position->is_remembered = true; /* a copy works on it */
    while ((position = numbered_before(&r->positions, &number)) != NULL) {
        bool is_needed = position->is_remembered || position->state == POSITION_OPEN;
        position->is_remembered = false;
        if (is_needed)
            continue;
        legs += legs_count(position);
        if (legs > r->engine->copies_remembered && !has_open_leg(position))
            position_drop(r, position);
    }
    r->positions_read = 0;
}

enum { POSITIONS_LOOK = 65536 };

struct tw_record *recovery_event(struct recovery *r, struct state_in *in)
{
    struct event_head head = state_get_event_head(in);
    struct tw_master *master = master_find_or_add(r->engine, head.master_id);
    if (in->failed || master == NULL || head.n_copies > TW_FOLLOWERS_PER_MASTER_MAX)
        return NULL;
    struct tw_record *record = record_new(master, head.event_id, head.n_copies);
    if (record == NULL || !state_get_event(in, record) || !numbered_keep(&r->records, head.number, record))
        return NULL;
    record->number = head.number;
    history_link(r->engine, record); /* takes over the reference */
    if (record->origin == ORIGIN(EVENT)) {
        struct tw_record *twin = NULL;
        HASH_FIND_STR(master->records, head.event_id, twin);
        if (twin == NULL)
            HASH_ADD_STR(master->records, event_id, record);
    }
    return record;
}

static bool read_event(struct recovery *r, struct state_in *in)
{
    if (recovery_event(r, in) == NULL)
        return false;
    uint64_t n_positions = state_get_u(in);
    for (uint64_t i = 0; i < n_positions; i++)
        if (!read_position(r, in))
            return false;
    r->events++;
    forget_oldest(r);
    if (r->positions_read >= POSITIONS_LOOK)
        positions_forget(r);
    return plan_read(r, in);
}

static bool read_outcome(struct recovery *r, struct state_in *in, uint64_t sequence)
{
    uint64_t n = state_get_u(in);
    for (uint64_t i = 0; i < n; i++) {
        struct tw_record *record = numbered_find(&r->records, state_get_u(in));
        struct state_in ahead = *in;
        const struct copy_names names = state_get_copy_names(&ahead);
        if (!copy_read(r, in, record, NULL))
            return false;
        if (record != NULL && record->copies[names.index].stamp == names.stamp)
            record->copies[names.index].change_id = sequence * BATCH_PLACES + i;
        else if (record == NULL)
            atomic_store(&r->engine->journal.forgotten_change_id, sequence * BATCH_PLACES + i);
        r->outcomes++;
    }
    atomic_store(&r->engine->journal.last_change_id, sequence * 65536 + BATCH_PLACES - 1);
    return !in->failed;
}

static bool read_sync(struct recovery *r, struct state_in *in)
{
    char master_id[TW_ID_BYTES];
    struct sync sync = {0};
    state_get_text(in, master_id, sizeof master_id);
    state_get_text(in, sync.id, sizeof sync.id);
    size_t size;
    const uint8_t *hash = state_get_bytes(in, &size);
    if (size != sizeof sync.hash)
        return false;
    memcpy(sync.hash, hash, size);
    sync.closes = (uint32_t)state_get_u(in);
    sync.reductions = (uint32_t)state_get_u(in);
    sync.opens = (uint32_t)state_get_u(in);
    sync.cancels = (uint32_t)state_get_u(in);
    sync.unchanged = (uint32_t)state_get_u(in);
    struct tw_master *master = master_find_or_add(r->engine, master_id);
    if (in->failed || master == NULL)
        return false;
    sync_remember(master, &sync);
    return true;
}

static bool read_boot(struct recovery *r, struct state_in *in)
{
    char boot_id[sizeof r->boot_id], instance_id[sizeof r->engine->instance_id];
    state_get_text(in, boot_id, sizeof boot_id);
    state_get_text(in, r->engine->journal_id, sizeof r->engine->journal_id);
    state_get_text(in, instance_id, sizeof instance_id);
    int64_t started_wall_ns = state_get_i(in);
    if (r->boot_id[0] != '\0' && !r->was_sealed && strcmp(boot_id, r->boot_id) != 0)
        r->engine->power_lost_wall_ns = started_wall_ns;
    memcpy(r->boot_id, boot_id, sizeof boot_id);
    return !in->failed;
}

static bool read_by_type(struct recovery *r, uint16_t type, struct state_in *in, uint64_t sequence)
{
    switch ((enum state_type)type) {
    case STATE_BOOT:
        return read_boot(r, in);
    case STATE_SEAL:
        return true;
    case STATE_FOLLOWER:
        return read_follower(r, in);
    case STATE_FOLLOWER_GONE:
        return read_follower_gone(r, in);
    case STATE_SUBSCRIPTION:
        return read_subscription(r, in);
    case STATE_SUBSCRIPTION_GONE:
        return read_subscription_gone(r, in);
    case STATE_HALTS:
        return read_halts(r, in);
    case STATE_RISK:
        return read_risk(r, in);
    case STATE_EVENT:
        return read_event(r, in);
    case STATE_POSITION:
        return read_position(r, in);
    case STATE_PLAN:
        return plan_read(r, in);
    case STATE_OUTCOME:
        return read_outcome(r, in, sequence);
    case STATE_LEG:
        return read_legs(r, in);
    case STATE_SYNC:
        return read_sync(r, in);
    case STATE_AUDIT: /* it is told, nothing more */
        return true;
    }
    return false; /* of a later version */
}

tw_status recovery_record(void *context, uint64_t sequence, uint16_t type, const uint8_t *bytes, size_t size,
                          struct tw_error *error)
{
    struct recovery *r = context;
    struct state_in in = {bytes, bytes + size, false};
    bool is_of_snapshot = type >= SNAPSHOT_REST;
    if (!is_of_snapshot) {
        r->was_sealed = r->is_sealed;
        r->is_sealed = type == STATE_SEAL;
    }
    tw_crash_point("recover.replaying");
    if (is_of_snapshot ? snapshot_record_read(r, type, &in) : read_by_type(r, type, &in, sequence))
        return TW_OK;
    if (error->text[0] == '\0')
        tw_error_set(error, TW_INVALID,
                     "journal record %llu (type %u, %zu bytes) cannot be understood: it was written by "
                     "another version; start that one, or move the state directory away",
                     (unsigned long long)sequence, type, size);
    return TW_INVALID;
}

/* ---- After reading: counts and lists that are not written ---- */

static void legs_link(struct recovery *r)
{
    struct tw_leg *leg;
    for (uint64_t i = 0; (leg = numbered_next(&r->legs, &i)) != NULL;) {
        if (leg->is_closed)
            continue;
        struct tw_slot *slot = leg->slot;
        leg->next = slot->legs;
        if (slot->legs != NULL)
            slot->legs->previous = leg;
        slot->legs = leg;
        slot->open_positions++;
        atomic_fetch_add_explicit(&leg->position->busy, 1, memory_order_relaxed);
        leg->listing->open_volume += leg->wanted;
        if (leg->held > 0 && !leg->is_close_planned && leg->is_from_order)
            leg_unsettle(leg);
    }
    atomic_store(&r->engine->next_leg, r->given.leg + 1);
}

static void positions_count(struct recovery *r)
{
    struct tw_position *position;
    for (uint64_t i = 0; (position = numbered_next(&r->positions, &i)) != NULL;) {
        if (position->state == POSITION_OPEN) {
            position->master->open_positions += !position->is_order;
            continue;
        }
        position_remember(position);
    }
    atomic_store(&r->engine->next_position, r->given.position + 1);
}

/* A follower that the last crash left without a plan: it is planned for once its session is there. */
static bool copies_trim(struct recovery *r, struct tw_record *record)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < record->n_copies; i++)
        n += record->copies[i].subscription != NULL;
    if (n < record->n_copies) {
        struct cut_record *cut = malloc(sizeof *cut);
        if (cut == NULL)
            return false;
        *cut = (struct cut_record){r->cut, record, record->n_copies};
        r->cut = cut;
    }
    atomic_store_explicit(&record->n_planned, n, memory_order_relaxed);
    record->n_copies = n; /* plans are written from the first on: what is missing is at the end */
    return true;
}

static void record_count(struct tw_record *record)
{
    uint32_t sent = 0, done = 0;
    record->accepted = record->skipped = 0;
    for (uint32_t i = 0; i < record->n_copies; i++) {
        struct tw_copy *copy = &record->copies[i];
        bool is_terminal = copy_is_over(copy);
        record->skipped += copy->is_skipped;
        record->accepted += !copy->is_skipped;
        copy->is_sent_counted = is_terminal || copy->calls > 0;
        copy->is_done_counted = is_terminal;
        sent += !copy->is_sent_counted;
        done += !is_terminal;
        if (is_terminal)
            copy->leg = NULL;
    }
    atomic_store(&record->pending_sent, sent);
    atomic_store(&record->pending_done, done);
    atomic_store(&record->is_durable, true);
    record->received_mono_ns = tw_mono_ns() - (tw_wall_ns() - record->received_wall_ns);
}

static bool records_count(struct recovery *r, uint32_t *ret_open)
{
    struct tw_engine *engine = r->engine;
    uint32_t open = 0;
    for (struct tw_record *record = engine->history.oldest; record != NULL; record = record->newer) {
        if (!copies_trim(r, record))
            return false;
        record_count(record);
        for (uint32_t i = 0; i < record->n_copies; i++) {
            struct tw_copy *copy = &record->copies[i];
            copy_id_make(copy, copy->id);
            copy->has_id = true;
            index_add(engine, copy);
            open += !copy_is_over(copy);
        }
    }
    *ret_open = open;
    return true;
}

/* What the log, or a snapshot, does not bring back has been forgotten. */
static void past_find(struct tw_engine *engine)
{
    uint64_t expected = engine->history.next_number - 1;
    const struct tw_record *record = engine->history.newest;
    for (; record != NULL && record->number == expected; record = record->older)
        expected--;
    atomic_store(&engine->history.forgotten_number, expected);
    if (expected > 0 && atomic_load(&engine->journal.forgotten_change_id) == 0)
        atomic_store(&engine->journal.forgotten_change_id, atomic_load(&engine->journal.last_change_id));
}

/* ---- What was on its way ---- */

/* Keys are not written: they name what lives in memory, and the account's kind is known only now. What
 * comes later for a position must wait behind what is asked for. */
static void legs_key(struct recovery *r)
{
    struct tw_leg *leg;
    for (uint64_t i = 0; (leg = numbered_next(&r->legs, &i)) != NULL;)
        leg->key = leg_key(leg);
}

/* Planned, and perhaps over, before the crash, but not written as such: whoever follows the changes hears of it
 * now. */
static void copies_tell(struct tw_engine *engine)
{
    for (struct tw_record *record = engine->history.oldest; record != NULL; record = record->newer)
        for (uint32_t i = 0; i < record->n_copies; i++) {
            struct tw_copy *copy = &record->copies[i];
            pthread_mutex_lock(&copy->subscription->slot->mutex);
            bool is_untold = copy->change_id == 0 && change_mark(copy);
            pthread_mutex_unlock(&copy->subscription->slot->mutex);
            if (is_untold)
                change_push(copy);
        }
}

/* The call, if one was made, died with its process; the broker may still be at it until the time-out. */
static void copy_resume(struct tw_engine *engine, struct tw_copy *copy, bool asks)
{
    struct tw_slot *slot = copy->subscription->slot;
    struct tw_leg *leg = copy->leg;
    copy->written_leg = copy->order_leg; /* it was read from there */
    copy->written_attempt = copy->id_attempt;
    copy->job.lane = slot->lane;
    copy->job.key = leg->key;
    copy->job.job_class = copy->reduces_risk ? TW_JOB_URGENT : TW_JOB_NORMAL;
    leg->jobs++;
    if (copy->calls == 0 && (copy->op == TW_OP_OPEN || copy->op == TW_OP_PLACE))
        tw_last_gate_plan(&slot->gate);
    if (copy->op == TW_OP_CLOSE && copy->master_remaining <= leg->position->remaining)
        leg->is_unsettled = false; /* it is being reduced so far */
    atomic_fetch_add(&leg->position->busy, 1);
    tw_record_hold(copy->record);
    if (copy->state == STATE(SENT) || copy->state == STATE(UNKNOWN) || asks) {
        copy_ask_first(copy); /* a call may have been made after the last thing that was written */
        sequencer_ask_again(copy);
    }
    copy->is_change_queued = true; /* taken up when the journal thread starts */
    change_push(copy);
    atomic_store(&copy->may_be_withdrawn, copy->state == STATE(QUEUED));
    struct tw_job *job = &copy->job;
    tw_executor_submit(engine->executor, &job, 1);
}

static void copies_resume(struct tw_engine *engine, bool asks)
{
    for (struct tw_record *record = engine->history.oldest; record != NULL; record = record->newer)
        for (uint32_t i = 0; i < record->n_copies; i++)
            if (!copy_is_over(&record->copies[i]) && record->copies[i].leg != NULL &&
                record->copies[i].subscription->slot->lane != NULL)
                copy_resume(engine, &record->copies[i], asks);
}

/* A follower whose session cannot be opened is there all the same: without a connection its opens are skipped and its closes
 * wait, in a lane of its own. */
static void start_one(struct tw_engine *engine, struct tw_slot *slot)
{
    struct tw_refusal refusal = {0};
    if (slot_start(slot, &refusal))
        return;
    tw_log(TW_LOG_ERROR, "follower.not_started", "follower=%s why=\"%s\" closes=wait do=\"mend it, and start anew\"", slot->id, refusal.text);
    if (slot->lane == NULL)
        slot->lane = tw_lane_new(engine->executor, 1, engine->reactor);
    if (slot->lane == NULL) /* its events would have no place to go */
        abort();
}

static void slots_start(struct tw_engine *engine)
{
    struct tw_slot *slot, *next;
    HASH_ITER(hh, engine->slots, slot, next)
    {
        start_one(engine, slot);
        atomic_fetch_add(&engine->n_followers, 1);
    }
}

/* What was on its way is in the lanes: now a broker's word may mend what is believed of the rest. */
static void slots_compare(struct tw_engine *engine)
{
    struct tw_slot *slot, *next;
    HASH_ITER(hh, engine->slots, slot, next)
    {
        pthread_mutex_lock(&slot->mutex);
        bool is_connected = slot->is_connected;
        pthread_mutex_unlock(&slot->mutex);
        if (is_connected)
            reconcile_begin(slot);
        settle_begin(slot);
    }
}

/* Deleted, but something of it is still on its way. */
static void retired_start(struct tw_engine *engine)
{
    for (struct tw_record *record = engine->history.oldest; record != NULL; record = record->newer)
        for (uint32_t i = 0; engine->retired != NULL && i < record->n_copies; i++) {
            struct tw_slot *slot = record->copies[i].subscription->slot;
            if (slot->is_deleted && slot->session == NULL && slot->lane == NULL && !copy_is_over(&record->copies[i]))
                start_one(engine, slot);
        }
}

/* A crash between two chunks of an event's plan: it is planned to its end, by today's state and time, so
 * that an open which came too late is EXPIRED. Nothing of it was sent for those followers; after a power
 * loss it may have been, and an open is asked for first. What the service made itself has no event, and
 * is left as it is. */
static void plans_complete(struct recovery *r)
{
    while (r->cut != NULL) {
        struct cut_record *cut = r->cut;
        struct tw_record *record = cut->record;
        uint32_t missing = cut->n_wanted - record->n_copies;
        bool ok = false;
        r->cut = cut->next;
        if (record->packed != NULL) {
            pthread_mutex_lock(&record->master->mutex);
            ok = sequencer_complete(record, cut->n_wanted);
            pthread_mutex_unlock(&record->master->mutex);
        }
        tw_crash_point("recover.completing");
        tw_log(TW_LOG_WARN, ok ? "recovery.planned" : "recovery.unplanned",
               "master=%s event=%s copies=%u next=\"%s\"", record->master->id, record->event_id, missing,
               ok ? "they go on" : "send a snapshot");
        free(cut);
    }
}

static bool has_unclosed_leg(const struct tw_position *position)
{
    for (const struct tw_leg_block *block = position->blocks; block != NULL; block = block->next)
        for (uint32_t i = 0; i < block->n_legs; i++)
            if (!block->legs[i].is_closed && !block->legs[i].is_close_planned)
                return true;
    return false;
}

/* What the master does not hold any more, and a close that could not be planned to its end left open. */
static void closes_complete(struct recovery *r)
{
    char event_id[TW_ID_BYTES];
    fleet_event_id(r->engine, "repair", event_id);
    struct tw_position *position;
    for (uint64_t i = 0; (position = numbered_next(&r->positions, &i)) != NULL;) {
        if (position->state != POSITION_CLOSED || !has_unclosed_leg(position))
            continue;
        pthread_mutex_lock(&position->master->mutex);
        struct tw_record *record =
            sequencer_close_legs(position->master, position, NULL, ORIGIN(REPAIR), event_id);
        pthread_mutex_unlock(&position->master->mutex);
        if (record == NULL)
            continue;
        tw_log(TW_LOG_WARN, "recovery.closing", "master=%s position=%s copies=%u event=%s",
               position->master->id, position->id, record->accepted, event_id);
        tw_record_release(record);
    }
}

static void boot_id_read(char ret[40])
{
    const char *instead = tw_fault("BOOT_ID");
    if (instead != NULL) {
        snprintf(ret, 40, "%.36s", instead);
        return;
    }
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, ret, 36) : -1;
    ret[size > 0 ? size : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

static void boot_write(struct tw_engine *engine, const char *boot_id)
{
    struct state_out out = {0};
    state_put_text(&out, boot_id);
    state_put_text(&out, engine->journal_id);
    state_put_text(&out, engine->instance_id);
    state_put_i(&out, engine->started_wall_ns);
    log_append(engine, STATE_BOOT, &out);
    state_out_clear(&out);
}

void recover_seal(struct tw_engine *engine)
{
    if (engine->log == NULL)
        return;
    struct state_out out = {0};
    state_put_i(&out, tw_wall_ns());
    log_append(engine, STATE_SEAL, &out);
    state_out_clear(&out);
    (void)tw_journal_sync(engine->log);
}

void recovery_settle(struct recovery *r)
{
    const struct tw_engine *engine = r->engine;
    uint64_t *const given[] = {&r->given.slot, &r->given.subscription, &r->given.position, &r->given.leg,
                               &r->given.record};
    const struct numbered *const tables[] = {&r->slots, &r->subscriptions, &r->positions, &r->legs, &r->records};
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        if (*given[i] < tables[i]->last)
            *given[i] = tables[i]->last;
    if (engine->history.newest != NULL)
        forget_oldest(r);
    positions_forget(r);
}

void recovery_clear(struct recovery *r)
{
    struct numbered *const tables[] = {&r->slots, &r->subscriptions, &r->positions, &r->legs, &r->records};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        numbered_clear(tables[i]);
    tw_market_clear(&r->nobody.market);
}

tw_status recover(struct tw_engine *engine, const struct tw_engine_options *wanted, struct tw_error *error)
{
    struct recovery r = {.engine = engine, .error = error};
    char boot_id[40];
    const struct tw_journal_options options = {
        .dir = wanted->journal_dir, .segment_bytes = wanted->journal_segment_bytes,
        .syncs = wanted->journal_syncs, .disk = wanted->journal_disk, .snapshot = recovery_record,
        .replay = recovery_record, .replay_context = &r};
    int64_t from_ns = tw_mono_ns();
    if (wanted->boot_id != NULL)
        snprintf(boot_id, sizeof boot_id, "%s", wanted->boot_id);
    else
        boot_id_read(boot_id);
    tw_status status = tw_journal_open(&options, &engine->log, error);
    recovery_settle(&r);
    if (status != TW_OK) {
        recovery_clear(&r);
        return status;
    }
    bool is_fresh = tw_journal_appended(engine->log) == 0;
    if (!is_fresh && !r.is_sealed && strcmp(boot_id, r.boot_id) != 0)
        engine->power_lost_wall_ns = engine->started_wall_ns;
    engine->next_subscription = (uint32_t)r.given.subscription;
    engine->next_slot_number = (uint32_t)r.given.slot;
    engine->history.next_number = r.given.record + 1;
    legs_link(&r);
    positions_count(&r);
    uint32_t open = 0;
    if (!records_count(&r, &open)) {
        recovery_clear(&r);
        return tw_error_set(error, TW_NO_MEMORY, "no memory for what the journal holds");
    }
    for (const struct tw_active_halt *halt = engine->halts; halt != NULL; halt = halt->next)
        halt_flags_set(engine, halt);
    tw_crash_point("recover.replayed");
    boot_write(engine, boot_id);
    (void)tw_journal_sync(engine->log); /* what is sent from here on was not sent by the run before */
    tw_crash_point("recover.booted");
    atomic_store(&engine->journal.last_change_id, tw_journal_appended(engine->log) * 65536);
    past_find(engine);
    atomic_store(&engine->is_recovering, true); /* from here on sessions tell things, on threads of theirs */
    slots_start(engine);
    retired_start(engine);
    legs_key(&r);
    copies_resume(engine, !r.is_sealed);
    copies_tell(engine);
    plans_complete(&r);
    closes_complete(&r);
    atomic_store(&engine->is_recovering, false);
    slots_compare(engine);
    recovery_clear(&r);
    tw_log(TW_LOG_INFO, "journal.read",
           "snapshot=%08u events=%llu outcomes=%llu copies_open=%u clean_stop=%s ms=%lld",
           tw_journal_snapshot(engine->log), (unsigned long long)r.events, (unsigned long long)r.outcomes, open,
           is_fresh ? "first_start" : r.is_sealed ? "yes" : "no",
           (long long)((tw_mono_ns() - from_ns) / TW_NS_PER_MS));
    return TW_OK;
}
