/* fleet.c - followers, subscriptions and masters: who follows whom, and by which rules.
 *
 * Changes come one at a time (change_mutex); readers see the tables under fleet_lock. */
#include "state.h"

#include <tradewake/base/log.h>

#include <tradewake/adapters/secret.h>
#include <tradewake/core/check.h>
#include <tradewake/core/mask.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const follower_settable[] = {
    "display_name", "mode", "adapter_config", "credentials_ref", "max_parallel", "symbol_map",
    "symbol_suffix", "risk", "instruments", NULL,
};
static const char *const subscription_settable[] = {"rules", NULL};

static bool no_memory(struct tw_refusal *refusal)
{
    tw_refuse(refusal, REFUSAL(OVERLOADED), NULL, "no memory");
    refusal->retry_after_ns = TW_NS_PER_S;
    return false;
}

/* ---- What is written down: under change_mutex, and durable before it is answered ---- */

static void follower_write(struct tw_slot *slot)
{
    struct state_out out = {0};
    if (slot->engine->log == NULL)
        return;
    state_put_follower(&out, slot);
    log_await(slot->engine, log_append(slot->engine, STATE_FOLLOWER, &out));
    state_out_clear(&out);
}

/* 0: nothing is written down. */
static uint64_t subscription_append(struct tw_subscription *subscription)
{
    struct tw_engine *engine = subscription->slot->engine;
    struct state_out out = {0};
    if (engine->log == NULL)
        return 0;
    state_put_subscription(&out, subscription);
    uint64_t sequence = log_append(engine, STATE_SUBSCRIPTION, &out);
    state_out_clear(&out);
    return sequence;
}

/* Never under a master's mutex, which the journal thread takes to forget. */
static void subscription_write(struct tw_subscription *subscription)
{
    log_await(subscription->slot->engine, subscription_append(subscription));
}

/* Not awaited here, under a master's mutex: see end_await(). */
static void number_write(struct tw_engine *engine, uint16_t type, uint64_t number)
{
    struct state_out out = {0};
    if (engine->log == NULL)
        return;
    state_put_u(&out, number);
    log_append(engine, type, &out);
    state_out_clear(&out);
}

/* Whoever is told that something ended does not find it again after a power loss. */
static void end_await(struct tw_engine *engine, bool has_ended)
{
    if (has_ended && engine->log != NULL)
        log_await(engine, tw_journal_appended(engine->log));
}

/* ---- References ---- */

void slot_hold(struct tw_slot *slot)
{
    atomic_fetch_add_explicit(&slot->refs, 1, memory_order_relaxed);
}

/* The broker's side of a follower: ended when no job of it is left. Its lane stays as long as the follower does: a
 * timer that was to wake a job, and comes when that job has long ended, still asks it. */
static void slot_disconnect(struct tw_slot *slot)
{
    if (slot->session != NULL)
        slot->ops->session_close(slot->session);
    if (slot->is_connected) /* nobody tells any more: the session is closed */
        atomic_fetch_sub_explicit(&slot->engine->n_connected, 1, memory_order_relaxed);
    slot->is_connected = slot->is_started = false;
    slot->session = NULL;
}

void slot_release(struct tw_slot *slot)
{
    if (atomic_fetch_sub_explicit(&slot->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (slot->fuse.is_blown)
        atomic_fetch_sub_explicit(&slot->engine->fuses_blown, 1, memory_order_relaxed);
    slot_disconnect(slot);
    tw_lane_free(slot->lane);
    tw_market_clear(&slot->market);
    free(slot->opens_mono_ns);
    tw_follower_rules_clear(&slot->rules);
    if (slot->message != NULL)
        tradewake__v1__follower__free_unpacked(slot->message, NULL);
    pthread_mutex_destroy(&slot->mutex);
    free(slot);
}

void subscription_hold(struct tw_subscription *subscription)
{
    atomic_fetch_add_explicit(&subscription->refs, 1, memory_order_relaxed);
}

void subscription_release(struct tw_subscription *subscription)
{
    if (atomic_fetch_sub_explicit(&subscription->refs, 1, memory_order_acq_rel) != 1)
        return;
    tw_rules_clear(&subscription->rules);
    if (subscription->message != NULL)
        tradewake__v1__copy_rules__free_unpacked(subscription->message, NULL);
    slot_release(subscription->slot);
    free(subscription);
}

bool subscription_is_halted(const struct tw_subscription *subscription)
{
    return atomic_load_explicit(&subscription->is_halted, memory_order_acquire) ||
           atomic_load_explicit(&subscription->slot->is_halted, memory_order_acquire) ||
           atomic_load_explicit(&subscription->master->is_halted, memory_order_acquire) ||
           atomic_load_explicit(&subscription->master->engine->is_halted, memory_order_acquire);
}

/* ---- Finding ---- */

struct tw_master *fleet_master_find(struct tw_engine *engine, const char *master_id)
{
    struct tw_master *master = NULL;
    pthread_rwlock_rdlock(&engine->fleet_lock);
    HASH_FIND_STR(engine->masters, master_id, master);
    pthread_rwlock_unlock(&engine->fleet_lock);
    return master; /* masters stay until the engine stops */
}

struct tw_slot *fleet_slot_hold(struct tw_engine *engine, const char *follower_id)
{
    struct tw_slot *slot = NULL;
    pthread_rwlock_rdlock(&engine->fleet_lock);
    HASH_FIND_STR(engine->slots, follower_id, slot);
    if (slot != NULL)
        slot_hold(slot);
    pthread_rwlock_unlock(&engine->fleet_lock);
    return slot;
}

static struct tw_subscription *subscription_find_hold(struct tw_engine *engine, const char *id)
{
    struct tw_subscription *subscription = NULL;
    pthread_rwlock_rdlock(&engine->fleet_lock);
    HASH_FIND_STR(engine->subscriptions, id, subscription);
    if (subscription != NULL)
        subscription_hold(subscription);
    pthread_rwlock_unlock(&engine->fleet_lock);
    return subscription;
}

struct tw_master *master_find_or_add(struct tw_engine *engine, const char *id)
{
    struct tw_master *master = fleet_master_find(engine, id);
    if (master != NULL)
        return master;
    master = calloc(1, sizeof *master);
    if (master == NULL)
        return NULL;
    snprintf(master->id, sizeof master->id, "%s", id);
    master->engine = engine;
    pthread_mutex_init(&master->mutex, NULL);
    pthread_rwlock_wrlock(&engine->fleet_lock);
    master->tenant = HASH_COUNT(engine->masters);
    HASH_ADD_STR(engine->masters, id, master);
    pthread_rwlock_unlock(&engine->fleet_lock);
    return master;
}

/* ---- Members of a master: under its mutex ---- */

bool member_add(struct tw_master *master, struct tw_subscription *subscription)
{
    if (master->n_members == master->members_room) {
        uint32_t room = master->members_room == 0 ? 16 : master->members_room * 2;
        struct tw_subscription **members = realloc(master->members, room * sizeof *members);
        if (members == NULL)
            return false;
        master->members = members;
        master->members_room = room;
    }
    uint32_t at = master->n_members++;
    for (; at > 0 && master->members[at - 1]->slot->number > subscription->slot->number; at--)
        master->members[at] = master->members[at - 1];
    master->members[at] = subscription;
    subscription_hold(subscription);
    return true;
}

void member_remove(struct tw_master *master, struct tw_subscription *subscription)
{
    for (uint32_t i = 0; i < master->n_members; i++) {
        if (master->members[i] != subscription)
            continue;
        memmove(&master->members[i], &master->members[i + 1],
                (master->n_members - i - 1) * sizeof master->members[0]);
        master->n_members--;
        subscription->is_gone = true;
        subscription_release(subscription);
        return;
    }
}

static uint32_t slot_legs_of(struct tw_slot *slot, const struct tw_master *master)
{
    uint32_t n = 0;
    pthread_mutex_lock(&slot->mutex);
    for (const struct tw_leg *leg = slot->legs; leg != NULL; leg = leg->next)
        n += leg->position->master == master;
    pthread_mutex_unlock(&slot->mutex);
    return n;
}

static void subscription_drop(struct tw_subscription *subscription)
{
    struct tw_engine *engine = subscription->master->engine;
    number_write(engine, STATE_SUBSCRIPTION_GONE, subscription->number);
    member_remove(subscription->master, subscription);
    pthread_rwlock_wrlock(&engine->fleet_lock);
    HASH_DEL(engine->subscriptions, subscription);
    pthread_rwlock_unlock(&engine->fleet_lock);
    subscription_release(subscription); /* the table's */
}

void master_prune(struct tw_master *master)
{
    for (uint32_t i = master->n_members; i > 0; i--) {
        struct tw_subscription *member = master->members[i - 1];
        if (member->is_leaving && slot_legs_of(member->slot, master) == 0)
            subscription_drop(member);
    }
}

/* ---- Followers ---- */

static const struct tw_engine_adapter *adapter_find(const struct tw_engine *engine, const char *name)
{
    size_t length = strcspn(name, ":");
    for (size_t i = 0; i < engine->n_adapters; i++)
        if (strlen(engine->adapters[i].ops->name) == length &&
            strncmp(engine->adapters[i].ops->name, name, length) == 0)
            return &engine->adapters[i];
    return NULL;
}

static bool session_options_fill(const Tradewake__V1__Follower *m, struct tw_adapter_setting **ret_settings,
                                 struct tw_session_options *ret)
{
    struct tw_adapter_setting *settings = calloc(m->n_adapter_config + 1, sizeof *settings);
    if (settings == NULL)
        return false;
    for (size_t i = 0; i < m->n_adapter_config; i++)
        settings[i] = (struct tw_adapter_setting){m->adapter_config[i]->key, m->adapter_config[i]->value};
    *ret = (struct tw_session_options){
        .follower_id = m->follower_id,
        .adapter = m->adapter,
        .settings = settings,
        .n_settings = m->n_adapter_config,
        .credentials_ref = m->credentials_ref,
    };
    *ret_settings = settings;
    return true;
}

/* Of what callers may see, nothing is secret. */
static bool has_no_secrets(const Tradewake__V1__Follower *m, struct tw_refusal *refusal)
{
    for (size_t i = 0; i < m->n_adapter_config; i++) {
        const char *why = tw_secret_in_the_open(m->adapter_config[i]->key, m->adapter_config[i]->value);
        char field[TW_REFUSAL_FIELD_BYTES];
        if (why == NULL)
            continue;
        snprintf(field, sizeof field, "follower.adapter_config[\"%.64s\"]", m->adapter_config[i]->key);
        return tw_refuse(refusal, REFUSAL(INVALID_FIELD), field, "%s", why);
    }
    return true;
}

static bool adapter_check(const struct tw_engine_adapter *adapter, const Tradewake__V1__Follower *m,
                          struct tw_refusal *refusal)
{
    struct tw_adapter_setting *settings;
    struct tw_session_options options;
    struct tw_error error = {{0}};
    char key[65] = "";
    if (!has_no_secrets(m, refusal))
        return false;
    if (!session_options_fill(m, &settings, &options))
        return no_memory(refusal);
    tw_status status = adapter->ops->check(adapter->adapter, &options, key, &error);
    free(settings);
    if (status == TW_OK)
        return true;
    char field[TW_REFUSAL_FIELD_BYTES];
    if (key[0] != '\0')
        snprintf(field, sizeof field, "follower.adapter_config[\"%s\"]", key);
    else
        snprintf(field, sizeof field, "follower.adapter_config");
    return tw_refuse(refusal, REFUSAL(INVALID_FIELD), field, "%s", error.text);
}

static uint32_t parallel_of(const struct tw_slot *slot, const struct tw_follower_rules *rules)
{
    uint32_t parallel = rules->max_parallel > 0 ? rules->max_parallel : slot->caps.max_parallel;
    return parallel > 0 ? parallel : 1; /* nobody knows while its session could not be opened */
}

static bool refuse_capacity(struct tw_engine *engine, uint32_t needed, const struct tw_error *error,
                            struct tw_refusal *refusal)
{
    struct tw_executor_status status;
    tw_executor_status_get(engine->executor, &status);
    tw_refuse(refusal, REFUSAL(EXECUTOR_CAPACITY), "follower.max_parallel", "%s", error->text);
    tw_refusal_fact_add(refusal, "threads_needed", "%u", needed);
    tw_refusal_fact_add(refusal, "threads_max", "%u", status.threads_max);
    return false;
}

/* A start refuses nobody whose positions may be open: the fleet has the threads that there may be, and its calls wait for
 * them. Loudly. */
static bool capacity_short(struct tw_engine *engine, const struct tw_slot *slot, uint32_t needed, const struct tw_error *error)
{
    struct tw_executor_status status;
    struct tw_error ignored = {{0}};
    tw_executor_status_get(engine->executor, &status);
    tw_log(TW_LOG_ERROR, "executor.short", "follower=%s threads_needed=%u threads_max=%u why=\"%s\" calls=wait do=\"executor.threads_max\"",
           slot->id, needed, status.threads_max, error->text);
    if (tw_executor_prepare(engine->executor, status.threads_max, &ignored) != TW_OK)
        tw_log(TW_LOG_ERROR, "executor.short", "why=\"%s\"", ignored.text);
    engine->threads_needed = needed;
    return true;
}

/* Sees to it that every blocking follower's calls have a thread that is ready. */
static bool capacity_change(struct tw_engine *engine, const struct tw_slot *slot, uint32_t before,
                            uint32_t after, struct tw_refusal *refusal)
{
    if (!slot->caps.blocking)
        return true;
    uint32_t needed = engine->threads_needed - before + after;
    struct tw_error error = {{0}};
    if (after > before && tw_executor_prepare(engine->executor, needed, &error) != TW_OK)
        return atomic_load_explicit(&engine->is_recovering, memory_order_relaxed)
                   ? capacity_short(engine, slot, needed, &error)
                   : refuse_capacity(engine, needed, &error, refusal);
    engine->threads_needed = needed;
    return true;
}

struct tw_slot *slot_new(struct tw_engine *engine, const Tradewake__V1__Follower *message, uint32_t number)
{
    const struct tw_engine_adapter *adapter = adapter_find(engine, message->adapter);
    struct tw_slot *slot = adapter != NULL || engine->is_shadow ? calloc(1, sizeof *slot) : NULL;
    if (slot == NULL)
        return NULL;
    slot->engine = engine;
    slot->ops = adapter != NULL ? adapter->ops : NULL;
    slot->breaker = adapter != NULL ? &engine->breakers[adapter - engine->adapters] : NULL;
    slot->number = number;
    snprintf(slot->id, sizeof slot->id, "%s", message->follower_id);
    atomic_init(&slot->refs, 1);
    pthread_mutex_init(&slot->mutex, NULL);
    atomic_init(&slot->is_halted, halt_covers(engine, slot->id, ""));
    slot->account = (struct tw_account){.balance = TW_DECIMAL_UNSET, .equity = TW_DECIMAL_UNSET,
                                        .free_margin = TW_DECIMAL_UNSET};
    slot->revision = 1;
    slot->created_wall_ns = slot->updated_wall_ns = tw_wall_ns();
    slot->message = (Tradewake__V1__Follower *)message_copy(&message->base, NULL);
    if (slot->message == NULL) {
        slot_release(slot);
        return NULL;
    }
    return slot;
}

bool slot_start(struct tw_slot *slot, struct tw_refusal *refusal)
{
    struct tw_engine *engine = slot->engine;
    const struct tw_engine_adapter *adapter = adapter_find(engine, slot->message->adapter);
    struct tw_adapter_setting *settings;
    struct tw_session_options options;
    struct tw_error error = {{0}};
    if (!session_options_fill(slot->message, &settings, &options))
        return no_memory(refusal);
    session_host_init(slot, &options.host);
    tw_status status = adapter->ops->session_open(adapter->adapter, &options, &slot->session, &error);
    free(settings);
    if (status == TW_IO || status == TW_NO_MEMORY) { /* a full disk: it may have room again */
        tw_refuse(refusal, REFUSAL(OVERLOADED), NULL, "%s", error.text);
        refusal->retry_after_ns = TW_NS_PER_S;
        return false;
    }
    if (status != TW_OK)
        return tw_refuse(refusal, status == TW_INVALID ? REFUSAL(INVALID_FIELD) : REFUSAL(INTERNAL),
                         "follower.adapter_config", "%s", error.text);
    adapter->ops->capabilities(slot->session, &slot->caps);
    uint32_t parallel = parallel_of(slot, &slot->rules);
    if (!capacity_change(engine, slot, 0, parallel, refusal))
        return false;
    slot->lane = tw_lane_new(engine->executor, parallel, slot->caps.blocking ? NULL : engine->reactor);
    pthread_mutex_lock(&slot->mutex);
    slot->is_started = slot->lane != NULL;
    pthread_mutex_unlock(&slot->mutex);
    return slot->lane != NULL ? true : no_memory(refusal);
}

static bool follower_check(struct tw_engine *engine, const Tradewake__V1__Follower *wanted,
                           const struct tw_engine_adapter **ret_adapter, struct tw_refusal *refusal)
{
    const struct tw_check check = {"follower.", refusal};
    if (!tw_check_id(&check, "follower_id", wanted->follower_id))
        return false;
    *ret_adapter = adapter_find(engine, wanted->adapter);
    if (*ret_adapter == NULL)
        return tw_check_fail(&check, "adapter", "\"%.64s\" is no adapter of this server",
                             wanted->adapter);
    return adapter_check(*ret_adapter, wanted, refusal);
}

static Tradewake__V1__Follower *follower_message(struct tw_slot *slot, struct tw_arena *arena);

static bool follower_answer(struct tw_slot *slot, struct tw_arena *arena, Tradewake__V1__Follower **ret,
                            struct tw_refusal *refusal)
{
    *ret = follower_message(slot, arena);
    return *ret != NULL ? true : no_memory(refusal);
}

/* Sessions of what is retired are closed when no job is left. Under change_mutex. */
static void retired_free(struct tw_engine *engine)
{
    struct tw_slot *slot, *idle = NULL;
    pthread_rwlock_wrlock(&engine->fleet_lock);
    for (struct tw_slot **at = &engine->retired; *at != NULL;) {
        slot = *at;
        if (slot->lane != NULL && tw_lane_jobs(slot->lane) > 0) {
            at = &slot->retired_next;
            continue;
        }
        *at = slot->retired_next;
        slot->retired_next = idle;
        idle = slot;
    }
    pthread_rwlock_unlock(&engine->fleet_lock);
    while (idle != NULL) {
        slot = idle;
        idle = slot->retired_next;
        slot_disconnect(slot);
        slot_release(slot);
    }
}

static bool retired_has(const struct tw_engine *engine, const char *follower_id)
{
    for (const struct tw_slot *slot = engine->retired; slot != NULL; slot = slot->retired_next)
        if (strcmp(slot->id, follower_id) == 0)
            return true;
    return false;
}

static bool follower_add(struct tw_engine *engine, const Tradewake__V1__Follower *wanted,
                         const char *request_id, struct tw_arena *arena, Tradewake__V1__Follower **ret,
                         struct tw_refusal *refusal)
{
    const struct tw_engine_adapter *adapter = NULL;
    struct tw_slot *known = fleet_slot_hold(engine, wanted->follower_id);
    if (known != NULL) {
        bool is_repeat = request_id[0] != '\0' && strcmp(known->request_id, request_id) == 0;
        bool ok = is_repeat ? follower_answer(known, arena, ret, refusal)
                            : tw_refuse(refusal, REFUSAL(ALREADY_EXISTS), "follower.follower_id",
                                        "\"%s\" is there already", known->id);
        slot_release(known);
        return ok;
    }
    if (atomic_load(&engine->n_followers) >= TW_FOLLOWERS_MAX)
        return tw_refuse(refusal, REFUSAL(EXECUTOR_CAPACITY), NULL, "%u followers are the most",
                         TW_FOLLOWERS_MAX);
    if (!follower_check(engine, wanted, &adapter, refusal) || !engine_check_room(engine, refusal))
        return false;
    retired_free(engine);
    if (retired_has(engine, wanted->follower_id)) {
        tw_refuse(refusal, REFUSAL(BROKER_UNAVAILABLE), "follower.follower_id",
                  "orders of the \"%s\" that was deleted are on their way still", wanted->follower_id);
        refusal->retry_after_ns = TW_NS_PER_S;
        return false;
    }
    struct tw_slot *slot = slot_new(engine, wanted, engine->next_slot_number + 1);
    if (slot == NULL)
        return no_memory(refusal);
    engine->next_slot_number++;
    snprintf(slot->request_id, sizeof slot->request_id, "%s", request_id);
    if (!tw_follower_rules_read(wanted, "follower.", &slot->rules, refusal) ||
        !slot_start(slot, refusal)) {
        slot_release(slot);
        return false;
    }
    follower_write(slot);
    atomic_fetch_add(&engine->n_followers, 1);
    pthread_rwlock_wrlock(&engine->fleet_lock);
    HASH_ADD_STR(engine->slots, id, slot);
    pthread_rwlock_unlock(&engine->fleet_lock);
    return follower_answer(slot, arena, ret, refusal);
}

static bool request_id_check(const char *request_id, struct tw_refusal *refusal)
{
    const struct tw_check check = {"", refusal};
    return tw_check_text(&check, "request_id", request_id, 0, TW_ID_CHARS_MAX);
}

bool tw_engine_follower_create(struct tw_engine *engine, const Tradewake__V1__Follower *wanted,
                               const char *request_id, struct tw_arena *arena,
                               Tradewake__V1__Follower **ret, struct tw_refusal *refusal)
{
    const struct tw_check check = {"follower.", refusal};
    if (wanted == NULL)
        return tw_refuse(refusal, REFUSAL(INVALID_FIELD), "follower", "is missing");
    if (!request_id_check(request_id, refusal) ||
        !tw_check_id(&check, "follower_id", wanted->follower_id))
        return false;
    pthread_mutex_lock(&engine->change_mutex);
    bool ok = follower_add(engine, wanted, request_id, arena, ret, refusal);
    pthread_mutex_unlock(&engine->change_mutex);
    return ok;
}

static void etag_text(int64_t created_wall_ns, uint64_t revision, char ret[40])
{
    snprintf(ret, 40, "%llx-%llu", (unsigned long long)created_wall_ns, (unsigned long long)revision);
}

static tw_reason blocked_by(const struct tw_slot *slot)
{
    if (atomic_load(&slot->is_halted) || atomic_load(&slot->engine->is_halted))
        return REASON(HALTED);
    switch (slot->rules.mode) {
    case TW_MODE_PAUSED:
        return REASON(FOLLOWER_PAUSED);
    case TW_MODE_CLOSE_ONLY:
        return REASON(CLOSE_ONLY);
    case TW_MODE_MONITOR:
        return REASON(MONITORED);
    case TW_MODE_ACTIVE:
        break;
    }
    if (slot->stop_out.is_out)
        return REASON(RISK_LIMIT);
    if (slot->gate.tripped != TW_BREACH_NONE)
        return REASON(GATE_TRIPPED);
    if (breaker_blocks(slot))
        return REASON(BREAKER_OPEN);
    return slot->is_connected ? REASON(UNSPECIFIED) : REASON(NO_CONNECTION);
}

static Tradewake__V1__AccountState *account_message(const struct tw_account *account,
                                                    struct tw_arena *arena)
{
    Tradewake__V1__AccountState *m = tw_arena_take(arena, sizeof *m);
    if (m == NULL)
        return NULL;
    tradewake__v1__account_state__init(m);
    m->currency = arena_print(arena, "%s", account->currency);
    m->balance = arena_decimal(arena, account->balance);
    m->equity = arena_decimal(arena, account->equity);
    m->free_margin = arena_decimal(arena, account->free_margin);
    m->leverage = account->leverage;
    return m;
}

static Tradewake__V1__StopOut *stop_out_message(const struct tw_slot *slot, struct tw_arena *arena)
{
    if (!slot->stop_out.is_out)
        return NULL;
    Tradewake__V1__StopOut *m = tw_arena_take(arena, sizeof *m);
    if (m == NULL)
        return NULL;
    tradewake__v1__stop_out__init(m);
    const Tradewake__V1__RiskLimits *risk = slot->message->risk;
    if (risk != NULL && slot->stop_out.limit < risk->n_loss_limits)
        m->limit = (Tradewake__V1__RiskLimit *)message_copy(
            &risk->loss_limits[slot->stop_out.limit]->base, arena);
    m->measured = arena_decimal(arena, slot->stop_out.measured);
    m->since = arena_time(arena, slot->stop_out.since_wall_ns);
    m->until = slot->stop_out.until_wall_ns != 0 ? arena_time(arena, slot->stop_out.until_wall_ns) : NULL;
    return m;
}

static Tradewake__V1__Follower *follower_message(struct tw_slot *slot, struct tw_arena *arena)
{
    char etag[40];
    pthread_mutex_lock(&slot->mutex);
    Tradewake__V1__Follower *m =
        (Tradewake__V1__Follower *)message_copy(&slot->message->base, arena);
    if (m != NULL) {
        etag_text(slot->created_wall_ns, slot->revision, etag);
        m->etag = arena_print(arena, "%s", etag);
        m->created_at = arena_time(arena, slot->created_wall_ns);
        m->updated_at = arena_time(arena, slot->updated_wall_ns);
        m->account = account_message(&slot->account, arena);
        m->connected = slot->is_connected;
        m->connected_since = slot->is_connected ? arena_time(arena, slot->connected_since_wall_ns) : NULL;
        m->connection_message = arena_print(arena, "%s", slot->connection_message);
        m->halted = atomic_load(&slot->is_halted) || atomic_load(&slot->engine->is_halted);
        m->gate_tripped = slot->gate.tripped != TW_BREACH_NONE;
        m->blocked_by = blocked_by(slot);
        m->drift_count = slot->drifts;
        m->open_positions = slot->open_positions;
        m->stop_out = stop_out_message(slot, arena);
        if (m->mode == 0)
            m->mode = TRADEWAKE__V1__FOLLOWER_MODE__FOLLOWER_MODE_ACTIVE;
    }
    pthread_mutex_unlock(&slot->mutex);
    return m;
}

static bool refuse_follower(const char *field, const char *id, struct tw_refusal *refusal)
{
    return tw_refuse(refusal, REFUSAL(NOT_FOUND), field, "there is no follower \"%.64s\"", id);
}

bool tw_engine_follower_get(struct tw_engine *engine, const char *follower_id, struct tw_arena *arena,
                            Tradewake__V1__Follower **ret, struct tw_refusal *refusal)
{
    struct tw_slot *slot = fleet_slot_hold(engine, follower_id);
    if (slot == NULL)
        return refuse_follower("follower_id", follower_id, refusal);
    bool ok = follower_answer(slot, arena, ret, refusal);
    slot_release(slot);
    return ok;
}

bool tw_engine_gate_rearm(struct tw_engine *engine, const char *follower_id, struct tw_arena *arena,
                          Tradewake__V1__Follower **ret, struct tw_refusal *refusal)
{
    struct tw_slot *slot = fleet_slot_hold(engine, follower_id);
    if (slot == NULL)
        return refuse_follower("follower_id", follower_id, refusal);
    pthread_mutex_lock(&slot->mutex);
    tw_last_gate_rearm(&slot->gate);
    slot->is_risk_dirty = true;
    pthread_mutex_unlock(&slot->mutex);
    slot_dirty_push(slot);
    bool ok = follower_answer(slot, arena, ret, refusal);
    slot_release(slot);
    return ok;
}

bool tw_engine_stop_out_reset(struct tw_engine *engine, const char *follower_id, struct tw_arena *arena,
                              Tradewake__V1__Follower **ret, struct tw_refusal *refusal)
{
    struct tw_slot *slot = fleet_slot_hold(engine, follower_id);
    if (slot == NULL)
        return refuse_follower("follower_id", follower_id, refusal);
    pthread_mutex_lock(&slot->mutex);
    risk_reset(slot, tw_wall_ns());
    pthread_mutex_unlock(&slot->mutex);
    slot_dirty_push(slot);
    bool ok = follower_answer(slot, arena, ret, refusal);
    slot_release(slot);
    return ok;
}

static bool same_config(const Tradewake__V1__Follower *a, const Tradewake__V1__Follower *b)
{
    if (strcmp(a->adapter, b->adapter) != 0 || strcmp(a->credentials_ref, b->credentials_ref) != 0 ||
        a->n_adapter_config != b->n_adapter_config)
        return false;
    for (size_t i = 0; i < a->n_adapter_config; i++) {
        bool found = false;
        for (size_t k = 0; k < b->n_adapter_config && !found; k++)
            found = strcmp(a->adapter_config[i]->key, b->adapter_config[k]->key) == 0 &&
                    strcmp(a->adapter_config[i]->value, b->adapter_config[k]->value) == 0;
        if (!found)
            return false;
    }
    return true;
}

static bool follower_merge(struct tw_slot *slot, const Tradewake__V1__Follower *wanted,
                           char *const *paths, size_t n_paths, Tradewake__V1__Follower **ret_merged,
                           struct tw_follower_rules *ret_rules, struct tw_refusal *refusal)
{
    /* Only change_mutex's holder writes the message, so it may be read without the slot's lock. */
    Tradewake__V1__Follower *merged = (Tradewake__V1__Follower *)message_copy(&slot->message->base, NULL);
    Tradewake__V1__Follower *source = (Tradewake__V1__Follower *)message_copy(&wanted->base, NULL);
    const struct tw_mask mask = {paths, n_paths, follower_settable, "follower."};
    bool ok = merged != NULL && source != NULL ? true : no_memory(refusal);
    ok = ok && tw_mask_apply(&mask, &merged->base, &source->base, refusal);
    if (ok && !same_config(merged, slot->message))
        ok = tw_refuse(refusal, REFUSAL(INVALID_FIELD), "follower.adapter_config",
                       "cannot change while the follower exists: its session is open");
    ok = ok && tw_follower_rules_read(merged, "follower.", ret_rules, refusal);
    if (source != NULL)
        tradewake__v1__follower__free_unpacked(source, NULL);
    if (ok)
        *ret_merged = merged;
    else if (merged != NULL)
        tradewake__v1__follower__free_unpacked(merged, NULL);
    return ok;
}

static bool follower_change(struct tw_slot *slot, const Tradewake__V1__Follower *wanted,
                            char *const *paths, size_t n_paths, struct tw_refusal *refusal)
{
    char etag[40];
    etag_text(slot->created_wall_ns, slot->revision, etag);
    if (wanted->etag[0] != '\0' && strcmp(wanted->etag, etag) != 0)
        return tw_refuse(refusal, REFUSAL(ETAG_MISMATCH), "follower.etag",
                         "somebody changed it meanwhile: read it again");
    Tradewake__V1__Follower *merged = NULL, *before;
    struct tw_follower_rules rules, rules_before;
    if (!follower_merge(slot, wanted, paths, n_paths, &merged, &rules, refusal))
        return false;
    if (!capacity_change(slot->engine, slot, parallel_of(slot, &slot->rules), parallel_of(slot, &rules),
                         refusal)) {
        tradewake__v1__follower__free_unpacked(merged, NULL);
        tw_follower_rules_clear(&rules);
        return false;
    }
    pthread_mutex_lock(&slot->mutex);
    before = slot->message;
    rules_before = slot->rules;
    slot->message = merged;
    slot->rules = rules;
    slot->revision++;
    slot->updated_wall_ns = tw_wall_ns();
    tw_market_correct(&slot->market, &slot->rules);
    slot->stop_out.is_out = slot->stop_out.is_out && slot->stop_out.limit < slot->rules.n_loss_limits;
    risk_look(slot, slot->updated_wall_ns);
    pthread_mutex_unlock(&slot->mutex);
    tradewake__v1__follower__free_unpacked(before, NULL);
    tw_follower_rules_clear(&rules_before);
    follower_write(slot);
    tw_lane_parallel_set(slot->lane, parallel_of(slot, &slot->rules));
    copy_wake_parked(slot);
    slot_dirty_push(slot);
    return true;
}

bool tw_engine_follower_update(struct tw_engine *engine, const Tradewake__V1__Follower *wanted,
                               char *const *paths, size_t n_paths, struct tw_arena *arena,
                               Tradewake__V1__Follower **ret, struct tw_refusal *refusal)
{
    if (wanted == NULL)
        return tw_refuse(refusal, REFUSAL(INVALID_FIELD), "follower", "is missing");
    pthread_mutex_lock(&engine->change_mutex);
    struct tw_slot *slot = fleet_slot_hold(engine, wanted->follower_id);
    bool ok = slot != NULL ? follower_change(slot, wanted, paths, n_paths, refusal)
                           : refuse_follower("follower.follower_id", wanted->follower_id, refusal);
    pthread_mutex_unlock(&engine->change_mutex);
    ok = ok && follower_answer(slot, arena, ret, refusal);
    if (slot != NULL)
        slot_release(slot);
    return ok;
}

/* ---- Leaving ---- */

static bool withdraw_match(struct tw_job *job, void *context)
{
    struct tw_copy *copy = copy_of_job(job);
    if (copy == NULL || (context != NULL && copy->record->master != context))
        return false;
    if (!atomic_load_explicit(&copy->may_be_withdrawn, memory_order_acquire))
        return false;
    atomic_store_explicit(&copy->withdrawn_for, REASON(WITHDRAWN), memory_order_release);
    return true;
}

/* Leaves what is open to its owner: no leg of this master at this follower is ours any more. */
static void legs_let_go(struct tw_slot *slot, struct tw_master *master)
{
    pthread_mutex_lock(&slot->mutex);
    for (struct tw_leg *leg = slot->legs, *next; leg != NULL; leg = next) {
        next = leg->next;
        if (leg->position->master != master)
            continue;
        leg->is_close_planned = leg->is_let_go = true;
        leg_dirty(leg);
        leg_close(leg);
    }
    pthread_mutex_unlock(&slot->mutex);
    slot_dirty_push(slot);
    if (slot->lane != NULL)
        (void)tw_lane_cancel(slot->lane, withdraw_match, master);
}

static uint32_t table_close_legs(struct tw_master *master, struct tw_position *table,
                                 const struct tw_slot *slot, Tradewake__V1__CopyOrigin origin,
                                 const char *event_id)
{
    uint32_t closing = 0;
    struct tw_position *position, *next;
    HASH_ITER(hh, table, position, next)
    {
        struct tw_record *record = sequencer_close_legs(master, position, slot, origin, event_id);
        if (record == NULL)
            continue;
        closing += record->accepted;
        tw_record_release(record);
    }
    return closing;
}

uint32_t master_close_legs(struct tw_master *master, const struct tw_slot *slot,
                           Tradewake__V1__CopyOrigin origin, const char *event_id)
{
    return table_close_legs(master, master->positions, slot, origin, event_id) +
           table_close_legs(master, master->orders, slot, origin, event_id);
}

void fleet_event_id(struct tw_engine *engine, const char *kind, char ret[TW_ID_BYTES])
{
    uint64_t number = atomic_fetch_add_explicit(&engine->next_internal, 1, memory_order_relaxed);
    snprintf(ret, TW_ID_BYTES, "~%s/%s-%llu", kind, engine->instance_id, (unsigned long long)number);
}

/* Ends one subscription as on_open says. Under change_mutex and the master's mutex. */
static bool subscription_end(struct tw_subscription *subscription, Tradewake__V1__OnOpen on_open,
                             uint32_t *ret_closing, struct tw_refusal *refusal)
{
    struct tw_master *master = subscription->master;
    struct tw_slot *slot = subscription->slot;
    uint32_t open = slot_legs_of(slot, master);
    if (on_open == TRADEWAKE__V1__ON_OPEN__ON_OPEN_UNSPECIFIED && subscription->rules.close_on_unsubscribe)
        on_open = TRADEWAKE__V1__ON_OPEN__ON_OPEN_CLOSE;
    if (open == 0) {
        subscription_drop(subscription);
        return true;
    }
    char event_id[TW_ID_BYTES];
    switch (on_open) {
    case TRADEWAKE__V1__ON_OPEN__ON_OPEN_CLOSE:
        fleet_event_id(master->engine, "unsub", event_id);
        *ret_closing += master_close_legs(master, slot, ORIGIN(UNSUBSCRIBE), event_id);
        subscription_drop(subscription);
        return true;
    case TRADEWAKE__V1__ON_OPEN__ON_OPEN_LEAVE:
        legs_let_go(slot, master);
        subscription_drop(subscription);
        return true;
    case TRADEWAKE__V1__ON_OPEN__ON_OPEN_FOLLOW_OUT:
        subscription->is_leaving = true;
        (void)subscription_append(subscription); /* end_await() waits for it */
        return true;
    default:
        return tw_refuse(refusal, REFUSAL(HAS_OPEN_COPIES), "on_open",
                         "%u copies of \"%s\" are open at \"%s\": say what to do with them", open,
                         master->id, slot->id);
    }
}

static bool on_open_check(Tradewake__V1__OnOpen on_open, struct tw_refusal *refusal)
{
    const struct tw_check check = {"", refusal};
    return tw_check_enum_or_default(&check, "on_open", (int)on_open, &tradewake__v1__on_open__descriptor);
}

/* The subscriptions of a follower, each with a reference; from the heap. */
static struct tw_subscription **subscriptions_of(struct tw_engine *engine, const struct tw_slot *slot,
                                                 size_t *ret_n)
{
    struct tw_subscription *subscription, *next;
    size_t n = 0;
    pthread_rwlock_rdlock(&engine->fleet_lock);
    struct tw_subscription **list = calloc(HASH_COUNT(engine->subscriptions) + 1, sizeof *list);
    HASH_ITER(hh, engine->subscriptions, subscription, next)
    {
        if (list == NULL || subscription->slot != slot)
            continue;
        subscription_hold(subscription);
        list[n++] = subscription;
    }
    pthread_rwlock_unlock(&engine->fleet_lock);
    *ret_n = n;
    return list;
}

static void slot_retire(struct tw_slot *slot)
{
    struct tw_engine *engine = slot->engine;
    number_write(engine, STATE_FOLLOWER_GONE, slot->number);
    pthread_mutex_lock(&slot->mutex);
    slot->is_deleted = true;
    pthread_mutex_unlock(&slot->mutex);
    pthread_rwlock_wrlock(&engine->fleet_lock);
    HASH_DEL(engine->slots, slot);
    slot->retired_next = engine->retired; /* takes over the table's reference */
    engine->retired = slot;
    pthread_rwlock_unlock(&engine->fleet_lock);
    atomic_fetch_sub(&engine->n_followers, 1);
    if (slot->caps.blocking)
        engine->threads_needed -= parallel_of(slot, &slot->rules);
}

/* Under change_mutex. */
static bool follower_remove(struct tw_slot *slot, Tradewake__V1__OnOpen on_open, uint32_t *ret_closing,
                            struct tw_refusal *refusal)
{
    size_t n = 0;
    struct tw_subscription **list = subscriptions_of(slot->engine, slot, &n);
    bool ok = list != NULL ? true : no_memory(refusal), follows_out = false;
    /* With nothing said about open copies, none may be open anywhere before anything is ended. */
    for (size_t i = 0; ok && on_open == 0 && i < n; i++)
        if (!list[i]->rules.close_on_unsubscribe && slot_legs_of(slot, list[i]->master) > 0)
            ok = tw_refuse(refusal, REFUSAL(HAS_OPEN_COPIES), "on_open",
                           "copies of \"%s\" are open at \"%s\": say what to do with them",
                           list[i]->master->id, slot->id);
    for (size_t i = 0; i < n; i++) {
        pthread_mutex_lock(&list[i]->master->mutex);
        if (ok && !list[i]->is_gone)
            ok = subscription_end(list[i], on_open, ret_closing, refusal);
        follows_out |= list[i]->is_leaving && !list[i]->is_gone;
        pthread_mutex_unlock(&list[i]->master->mutex);
        subscription_release(list[i]);
    }
    free(list);
    if (!ok)
        return false;
    if (follows_out) {
        pthread_mutex_lock(&slot->mutex);
        slot->is_deleted = true; /* and retired when it holds nothing: fleet_sweep() */
        pthread_mutex_unlock(&slot->mutex);
        follower_write(slot);
    } else {
        slot_retire(slot);
    }
    return true;
}

bool tw_engine_follower_delete(struct tw_engine *engine, const char *follower_id,
                               Tradewake__V1__OnOpen on_open, uint32_t *ret_closing,
                               struct tw_refusal *refusal)
{
    *ret_closing = 0;
    if (!on_open_check(on_open, refusal))
        return false;
    pthread_mutex_lock(&engine->change_mutex);
    struct tw_slot *slot = fleet_slot_hold(engine, follower_id);
    bool ok = slot != NULL ? follower_remove(slot, on_open, ret_closing, refusal)
                           : refuse_follower("follower_id", follower_id, refusal);
    if (slot != NULL)
        slot_release(slot);
    pthread_mutex_unlock(&engine->change_mutex);
    end_await(engine, ok);
    return ok;
}

/* A stop-out that closes: everything this follower copied, of every master. Under change_mutex. */
static void close_stopped_out(struct tw_slot *slot)
{
    size_t n = 0;
    char event_id[TW_ID_BYTES];
    struct tw_subscription **list = subscriptions_of(slot->engine, slot, &n);
    fleet_event_id(slot->engine, "stopout", event_id);
    for (size_t i = 0; i < n; i++) {
        pthread_mutex_lock(&list[i]->master->mutex);
        (void)master_close_legs(list[i]->master, slot, ORIGIN(STOP_OUT), event_id);
        pthread_mutex_unlock(&list[i]->master->mutex);
        subscription_release(list[i]);
    }
    free(list);
}

/* The followers whose stop-out closes and has not closed yet, each with a reference; from the heap. */
static struct tw_slot **stopped_out(struct tw_engine *engine, size_t *ret_n)
{
    struct tw_slot *slot, *next;
    size_t n = 0;
    pthread_rwlock_rdlock(&engine->fleet_lock);
    struct tw_slot **list = calloc(HASH_COUNT(engine->slots) + 1, sizeof *list);
    HASH_ITER(hh, engine->slots, slot, next)
    {
        pthread_mutex_lock(&slot->mutex);
        bool wants = list != NULL && slot->wants_close_all;
        if (wants)
            slot->wants_close_all = false;
        pthread_mutex_unlock(&slot->mutex);
        if (!wants)
            continue;
        slot_hold(slot);
        list[n++] = slot;
    }
    pthread_rwlock_unlock(&engine->fleet_lock);
    *ret_n = n;
    return list;
}

/* In the log, for the close of a follower's share: its part of the event, its plan and its outcomes are some 700 bytes. */
#define LOG_BYTES_PER_CLOSE 2048u

/* While the disk is not full yet there has to be room in the log to close all that is open; a quarter more, because this is
 * said once in a second. */
static void log_reserve_set(struct tw_engine *engine, uint64_t open_shares)
{
    if (engine->log != NULL)
        tw_journal_reserve_set(engine->log, (open_shares + open_shares / 4) * LOG_BYTES_PER_CLOSE);
}

#define COMPARE_EVERY_NS (60 * TW_NS_PER_S)
enum { COMPARES_AT_ONCE = 64 };

/* Asks the brokers that have not been asked for a minute; a few at a time. On the way, counts what is open. */
static void compare_some(struct tw_engine *engine)
{
    struct tw_slot *due[COMPARES_AT_ONCE], *slot, *next;
    int64_t now_ns = tw_mono_ns(), before_ns = now_ns - COMPARE_EVERY_NS;
    size_t n = 0;
    uint64_t open_shares = 0;
    pthread_rwlock_rdlock(&engine->fleet_lock);
    HASH_ITER(hh, engine->slots, slot, next)
    {
        pthread_mutex_lock(&slot->mutex);
        bool is_due = n < COMPARES_AT_ONCE && slot->is_connected &&
                      (slot->compared_mono_ns < before_ns || fuse_asks(slot, now_ns));
        const char *news = fuse_news(slot);
        open_shares += slot->open_positions;
        pthread_mutex_unlock(&slot->mutex);
        if (news != NULL)
            tw_log(TW_LOG_WARN, "breaker.session", "follower=%s breaker=%s closes=go_on", slot->id, news);
        if (!is_due)
            continue;
        slot_hold(slot);
        due[n++] = slot;
    }
    pthread_rwlock_unlock(&engine->fleet_lock);
    log_reserve_set(engine, open_shares);
    for (size_t i = 0; i < n; i++) {
        reconcile_begin(due[i]);
        slot_release(due[i]);
    }
}

/* What was deleted and followed out is retired; sessions of what is retired are closed when no job is
 * left. Called now and then by the reactor. */
void fleet_sweep(struct tw_engine *engine)
{
    pthread_mutex_lock(&engine->change_mutex);
    size_t n_out = 0;
    struct tw_slot **out = stopped_out(engine, &n_out);
    for (size_t i = 0; i < n_out; i++) {
        close_stopped_out(out[i]);
        slot_release(out[i]);
    }
    free(out);
    struct tw_slot *slot, *next;
    struct tw_slot *followed_out = NULL;
    pthread_rwlock_rdlock(&engine->fleet_lock);
    HASH_ITER(hh, engine->slots, slot, next)
    {
        if (!slot->is_deleted) /* written under change_mutex only */
            continue;
        pthread_mutex_lock(&slot->mutex);
        bool is_empty = slot->legs == NULL;
        pthread_mutex_unlock(&slot->mutex);
        if (is_empty && followed_out == NULL)
            followed_out = slot;
    }
    pthread_rwlock_unlock(&engine->fleet_lock);
    struct tw_refusal ignored;
    uint32_t closing = 0;
    if (followed_out != NULL)
        (void)follower_remove(followed_out, TRADEWAKE__V1__ON_OPEN__ON_OPEN_LEAVE, &closing, &ignored);
    retired_free(engine);
    compare_some(engine);
    pthread_mutex_unlock(&engine->change_mutex);
}

/* ---- Lists: ids in ascending order ---- */

static int by_slot_id(const void *a, const void *b)
{
    return strcmp((*(struct tw_slot *const *)a)->id, (*(struct tw_slot *const *)b)->id);
}

size_t tw_engine_followers_list(struct tw_engine *engine, const char *after, const char *master_id,
                                bool only_blocked, struct tw_arena *arena,
                                Tradewake__V1__Follower **ret, size_t n_max)
{
    size_t n_found = 0, n = 0;
    struct tw_slot *slot, *next;
    struct tw_subscription *subscription, *next_subscription;
    pthread_rwlock_rdlock(&engine->fleet_lock);
    size_t room = master_id[0] == '\0' ? HASH_COUNT(engine->slots) : HASH_COUNT(engine->subscriptions);
    struct tw_slot **found = calloc(room + 1, sizeof *found);
    if (found != NULL && master_id[0] == '\0') {
        HASH_ITER(hh, engine->slots, slot, next)
        if (strcmp(slot->id, after) > 0)
            found[n_found++] = slot;
    } else if (found != NULL) {
        HASH_ITER(hh, engine->subscriptions, subscription, next_subscription)
        if (strcmp(subscription->master->id, master_id) == 0 &&
            strcmp(subscription->slot->id, after) > 0)
            found[n_found++] = subscription->slot;
    }
    for (size_t i = 0; i < n_found; i++)
        slot_hold(found[i]);
    pthread_rwlock_unlock(&engine->fleet_lock);

    if (found != NULL)
        qsort(found, n_found, sizeof(struct tw_slot *), by_slot_id);
    for (size_t i = 0; i < n_found; i++) {
        if (n < n_max) {
            Tradewake__V1__Follower *m = follower_message(found[i], arena);
            if (m != NULL && (!only_blocked || m->blocked_by != REASON(UNSPECIFIED)))
                ret[n++] = m;
        }
        slot_release(found[i]);
    }
    free(found);
    return n;
}

static int by_master_id(const void *a, const void *b)
{
    return strcmp((*(struct tw_master *const *)a)->id, (*(struct tw_master *const *)b)->id);
}

size_t tw_engine_masters_list(struct tw_engine *engine, const char *after, struct tw_arena *arena,
                              const char **ret_ids, size_t n_max)
{
    size_t n_found = 0, n = 0;
    struct tw_master *master, *next;
    pthread_rwlock_rdlock(&engine->fleet_lock);
    struct tw_master **found = calloc(HASH_COUNT(engine->masters) + 1, sizeof *found);
    HASH_ITER(hh, engine->masters, master, next)
    if (found != NULL && strcmp(master->id, after) > 0)
        found[n_found++] = master; /* masters stay */
    pthread_rwlock_unlock(&engine->fleet_lock);
    if (found != NULL)
        qsort(found, n_found, sizeof(struct tw_master *), by_master_id);
    for (size_t i = 0; i < n_found && n < n_max; i++) {
        pthread_mutex_lock(&found[i]->mutex);
        master_prune(found[i]);
        bool is_followed = found[i]->n_members > 0;
        pthread_mutex_unlock(&found[i]->mutex);
        if (is_followed)
            ret_ids[n++] = arena_print(arena, "%s", found[i]->id);
    }
    free(found);
    return n;
}

bool tw_engine_master_get(struct tw_engine *engine, const char *master_id, struct tw_arena *arena,
                          Tradewake__V1__Master *ret, struct tw_refusal *refusal)
{
    struct tw_master *master = fleet_master_find(engine, master_id);
    tradewake__v1__master__init(ret);
    if (master != NULL) {
        pthread_mutex_lock(&master->mutex);
        master_prune(master);
        ret->master_id = master->id;
        ret->followers = master->n_members;
        ret->last_sequence = master->last_sequence;
        ret->last_event_id = arena_print(arena, "%s", master->last_event_id);
        ret->last_received_at = master->last_received_wall_ns != 0
                                    ? arena_time(arena, master->last_received_wall_ns)
                                    : NULL;
        ret->halted = atomic_load(&master->is_halted) || atomic_load(&engine->is_halted);
        ret->open_positions = master->open_positions;
        ret->account = master->has_account ? account_message(&master->account, arena) : NULL;
        pthread_mutex_unlock(&master->mutex);
    }
    if (master == NULL || ret->followers == 0)
        return tw_refuse(refusal, REFUSAL(MASTER_NOT_FOUND), "master_id", "nobody follows \"%.64s\"",
                         master_id);
    return true;
}

/* ---- Subscriptions ---- */

static Tradewake__V1__Subscription *subscription_message(struct tw_subscription *subscription,
                                                         struct tw_arena *arena)
{
    Tradewake__V1__Subscription *m = tw_arena_take(arena, sizeof *m);
    if (m == NULL)
        return NULL;
    tradewake__v1__subscription__init(m);
    char etag[40];
    m->subscription_id = subscription->id;
    m->master_id = subscription->master->id;
    m->follower_id = arena_print(arena, "%s", subscription->slot->id);
    pthread_mutex_lock(&subscription->master->mutex);
    if (subscription->message != NULL)
        m->rules = (Tradewake__V1__CopyRules *)message_copy(&subscription->message->base, arena);
    etag_text(subscription->created_wall_ns, subscription->revision, etag);
    m->updated_at = arena_time(arena, subscription->updated_wall_ns);
    pthread_mutex_unlock(&subscription->master->mutex);
    m->created_at = arena_time(arena, subscription->created_wall_ns);
    m->etag = arena_print(arena, "%s", etag);
    m->subscription_id = arena_print(arena, "%s", subscription->id);
    return m;
}

static bool subscription_answer(struct tw_subscription *subscription, struct tw_arena *arena,
                                Tradewake__V1__Subscription **ret, struct tw_refusal *refusal)
{
    *ret = subscription_message(subscription, arena);
    return *ret != NULL ? true : no_memory(refusal);
}

/* The followers of a master that are not in the list yet are added to it, each with a reference.
 * False: no memory. */
static bool add_followers(struct tw_master *master, struct tw_slot ***list, size_t *n)
{
    bool ok = true;
    pthread_mutex_lock(&master->mutex);
    for (uint32_t i = 0; i < master->n_members && ok; i++) {
        struct tw_slot *slot = master->members[i]->slot;
        bool is_known = false;
        for (size_t k = 0; k < *n && !is_known; k++)
            is_known = (*list)[k] == slot;
        if (is_known)
            continue;
        struct tw_slot **grown = realloc(*list, (*n + 1) * sizeof *grown);
        ok = grown != NULL;
        if (!ok)
            break;
        *list = grown;
        slot_hold(slot);
        grown[(*n)++] = slot;
    }
    pthread_mutex_unlock(&master->mutex);
    return ok;
}

/* Whether what `follower` does as a master reaches `master_id`, over any number of followers that are
 * masters themselves: then following master_id would be a circle. */
static bool is_circle(struct tw_engine *engine, struct tw_slot *follower, const char *master_id)
{
    struct tw_slot **reached = malloc(sizeof(struct tw_slot *));
    if (reached == NULL)
        return true; /* better refused than endless */
    size_t n = 1;
    reached[0] = follower;
    slot_hold(follower);
    bool found = false;
    for (size_t i = 0; i < n && !found; i++) {
        found = strcmp(reached[i]->id, master_id) == 0;
        struct tw_master *as_master = found ? NULL : fleet_master_find(engine, reached[i]->id);
        if (as_master != NULL && !add_followers(as_master, &reached, &n))
            found = true;
    }
    for (size_t i = 0; i < n; i++)
        slot_release(reached[i]);
    free(reached);
    return found;
}

static struct tw_subscription *member_find(const struct tw_master *master, const struct tw_slot *slot)
{
    for (uint32_t i = 0; i < master->n_members; i++)
        if (master->members[i]->slot == slot)
            return master->members[i];
    return NULL;
}

struct tw_subscription *subscription_new(struct tw_engine *engine, struct tw_master *master,
                                         struct tw_slot *slot, uint32_t number, const char *id)
{
    struct tw_subscription *subscription = calloc(1, sizeof *subscription);
    if (subscription == NULL)
        return NULL;
    subscription->number = number;
    snprintf(subscription->id, sizeof subscription->id, "%s", id);
    subscription->master = master;
    subscription->slot = slot;
    slot_hold(slot);
    atomic_init(&subscription->refs, 1);
    atomic_init(&subscription->is_halted, halt_covers(engine, slot->id, master->id));
    subscription->revision = 1;
    subscription->created_wall_ns = subscription->updated_wall_ns = tw_wall_ns();
    return subscription;
}

static void subscription_enter(struct tw_engine *engine, struct tw_subscription *subscription)
{
    pthread_rwlock_wrlock(&engine->fleet_lock);
    HASH_ADD_STR(engine->subscriptions, id, subscription);
    pthread_rwlock_unlock(&engine->fleet_lock);
}

static bool subscription_known(struct tw_subscription *known, const char *request_id,
                               struct tw_arena *arena, Tradewake__V1__Subscription **ret,
                               struct tw_refusal *refusal)
{
    if (request_id[0] != '\0' && strcmp(known->request_id, request_id) == 0)
        return subscription_answer(known, arena, ret, refusal);
    tw_refuse(refusal, REFUSAL(ALREADY_EXISTS), "subscription.follower_id",
              "\"%s\" follows \"%s\" already", known->slot->id, known->master->id);
    tw_refusal_fact_add(refusal, "subscription_id", "%s", known->id);
    return false;
}

static bool subscription_add(struct tw_engine *engine, const Tradewake__V1__Subscription *wanted,
                             struct tw_slot *slot, const char *request_id, struct tw_arena *arena,
                             Tradewake__V1__Subscription **ret, struct tw_refusal *refusal)
{
    struct tw_master *master = master_find_or_add(engine, wanted->master_id);
    if (master == NULL)
        return no_memory(refusal);
    pthread_mutex_lock(&master->mutex);
    master_prune(master);
    struct tw_subscription *known = member_find(master, slot);
    uint32_t n_members = master->n_members;
    pthread_mutex_unlock(&master->mutex);
    if (known != NULL)
        return subscription_known(known, request_id, arena, ret, refusal);
    if (n_members >= TW_FOLLOWERS_PER_MASTER_MAX)
        return tw_refuse(refusal, REFUSAL(EXECUTOR_CAPACITY), "subscription.master_id",
                         "\"%s\" has %u followers, and may not have more", master->id, n_members);
    if (is_circle(engine, slot, master->id))
        return tw_refuse(refusal, REFUSAL(FOLLOW_CYCLE), "subscription.follower_id",
                         "\"%s\" would follow itself through \"%s\"", slot->id, master->id);

    char id[TW_ID_BYTES];
    uint32_t number = ++engine->next_subscription;
    snprintf(id, sizeof id, "s%s-%u", engine->journal_id + 8, number);
    struct tw_subscription *subscription = subscription_new(engine, master, slot, number, id);
    if (subscription == NULL)
        return no_memory(refusal);
    snprintf(subscription->request_id, sizeof subscription->request_id, "%s", request_id);
    if (wanted->rules != NULL)
        subscription->message = (Tradewake__V1__CopyRules *)message_copy(&wanted->rules->base, NULL);
    bool ok = tw_rules_read(wanted->rules, "subscription.rules.", &subscription->rules, refusal);
    pthread_mutex_lock(&master->mutex);
    ok = ok && (member_add(master, subscription) || no_memory(refusal));
    pthread_mutex_unlock(&master->mutex);
    if (!ok) {
        subscription_release(subscription);
        return false;
    }
    master_events_expect(master, n_members + 1);
    subscription_write(subscription);
    subscription_enter(engine, subscription); /* takes over the first reference */
    return subscription_answer(subscription, arena, ret, refusal);
}

bool tw_engine_subscription_create(struct tw_engine *engine, const Tradewake__V1__Subscription *wanted,
                                   const char *request_id, struct tw_arena *arena,
                                   Tradewake__V1__Subscription **ret, struct tw_refusal *refusal)
{
    const struct tw_check check = {"subscription.", refusal};
    if (wanted == NULL)
        return tw_refuse(refusal, REFUSAL(INVALID_FIELD), "subscription", "is missing");
    if (!request_id_check(request_id, refusal) || !tw_check_id(&check, "master_id", wanted->master_id) ||
        !tw_check_id(&check, "follower_id", wanted->follower_id))
        return false;
    if (wanted->subscription_id[0] != '\0')
        return tw_check_fail(&check, "subscription_id", "is made by the service: leave it empty");
    pthread_mutex_lock(&engine->change_mutex);
    struct tw_slot *slot = fleet_slot_hold(engine, wanted->follower_id);
    bool ok = slot != NULL && !slot->is_deleted
                  ? subscription_add(engine, wanted, slot, request_id, arena, ret, refusal)
                  : refuse_follower("subscription.follower_id", wanted->follower_id, refusal);
    if (slot != NULL)
        slot_release(slot);
    pthread_mutex_unlock(&engine->change_mutex);
    return ok;
}

static bool refuse_subscription(const char *field, const char *id, struct tw_refusal *refusal)
{
    return tw_refuse(refusal, REFUSAL(NOT_FOUND), field, "there is no subscription \"%.64s\"", id);
}

bool tw_engine_subscription_get(struct tw_engine *engine, const char *subscription_id,
                                struct tw_arena *arena, Tradewake__V1__Subscription **ret,
                                struct tw_refusal *refusal)
{
    struct tw_subscription *subscription = subscription_find_hold(engine, subscription_id);
    if (subscription == NULL)
        return refuse_subscription("subscription_id", subscription_id, refusal);
    bool ok = subscription_answer(subscription, arena, ret, refusal);
    subscription_release(subscription);
    return ok;
}

/* The subscription as the mask's caller sees it: a message with rules in it. */
static Tradewake__V1__Subscription *subscription_shell(const Tradewake__V1__CopyRules *rules)
{
    Tradewake__V1__Subscription shell;
    tradewake__v1__subscription__init(&shell);
    Tradewake__V1__Subscription *copy =
        (Tradewake__V1__Subscription *)message_copy(&shell.base, NULL);
    if (copy != NULL && rules != NULL)
        copy->rules = (Tradewake__V1__CopyRules *)message_copy(&rules->base, NULL);
    return copy;
}

static bool subscription_change(struct tw_subscription *subscription,
                                const Tradewake__V1__Subscription *wanted, char *const *paths,
                                size_t n_paths, struct tw_refusal *refusal)
{
    char etag[40];
    etag_text(subscription->created_wall_ns, subscription->revision, etag);
    if (wanted->etag[0] != '\0' && strcmp(wanted->etag, etag) != 0)
        return tw_refuse(refusal, REFUSAL(ETAG_MISMATCH), "subscription.etag",
                         "somebody changed it meanwhile: read it again");
    Tradewake__V1__Subscription *merged = subscription_shell(subscription->message);
    Tradewake__V1__Subscription *source = subscription_shell(wanted->rules);
    const struct tw_mask mask = {paths, n_paths, subscription_settable, "subscription."};
    struct tw_rules rules;
    bool ok = merged != NULL && source != NULL ? true : no_memory(refusal);
    ok = ok && tw_mask_apply(&mask, &merged->base, &source->base, refusal) &&
         tw_rules_read(merged->rules, "subscription.rules.", &rules, refusal);
    if (ok) {
        struct tw_rules rules_before;
        pthread_mutex_lock(&subscription->master->mutex);
        Tradewake__V1__CopyRules *before = subscription->message;
        rules_before = subscription->rules;
        subscription->message = merged->rules;
        subscription->rules = rules;
        subscription->revision++;
        subscription->updated_wall_ns = tw_wall_ns();
        pthread_mutex_unlock(&subscription->master->mutex);
        merged->rules = before; /* freed with it */
        tw_rules_clear(&rules_before);
        subscription_write(subscription);
    }
    if (merged != NULL)
        tradewake__v1__subscription__free_unpacked(merged, NULL);
    if (source != NULL)
        tradewake__v1__subscription__free_unpacked(source, NULL);
    return ok;
}

bool tw_engine_subscription_update(struct tw_engine *engine, const Tradewake__V1__Subscription *wanted,
                                   char *const *paths, size_t n_paths, struct tw_arena *arena,
                                   Tradewake__V1__Subscription **ret, struct tw_refusal *refusal)
{
    if (wanted == NULL)
        return tw_refuse(refusal, REFUSAL(INVALID_FIELD), "subscription", "is missing");
    pthread_mutex_lock(&engine->change_mutex);
    struct tw_subscription *subscription = subscription_find_hold(engine, wanted->subscription_id);
    bool ok = subscription != NULL
                  ? subscription_change(subscription, wanted, paths, n_paths, refusal)
                  : refuse_subscription("subscription.subscription_id", wanted->subscription_id, refusal);
    pthread_mutex_unlock(&engine->change_mutex);
    ok = ok && subscription_answer(subscription, arena, ret, refusal);
    if (subscription != NULL)
        subscription_release(subscription);
    return ok;
}

bool tw_engine_subscription_delete(struct tw_engine *engine, const char *subscription_id,
                                   Tradewake__V1__OnOpen on_open, uint32_t *ret_closing,
                                   struct tw_refusal *refusal)
{
    *ret_closing = 0;
    if (!on_open_check(on_open, refusal))
        return false;
    pthread_mutex_lock(&engine->change_mutex);
    struct tw_subscription *subscription = subscription_find_hold(engine, subscription_id);
    bool ok = subscription != NULL ? true
                                   : refuse_subscription("subscription_id", subscription_id, refusal);
    if (ok) {
        pthread_mutex_lock(&subscription->master->mutex);
        ok = subscription_end(subscription, on_open, ret_closing, refusal);
        pthread_mutex_unlock(&subscription->master->mutex);
        subscription_release(subscription);
    }
    pthread_mutex_unlock(&engine->change_mutex);
    end_await(engine, ok);
    return ok;
}

static int by_subscription_id(const void *a, const void *b)
{
    return strcmp((*(struct tw_subscription *const *)a)->id, (*(struct tw_subscription *const *)b)->id);
}

size_t tw_engine_subscriptions_list(struct tw_engine *engine, const char *after, const char *master_id,
                                    const char *follower_id, struct tw_arena *arena,
                                    Tradewake__V1__Subscription **ret, size_t n_max)
{
    size_t n_found = 0, n = 0;
    struct tw_subscription *subscription, *next;
    pthread_rwlock_rdlock(&engine->fleet_lock);
    struct tw_subscription **found = calloc(HASH_COUNT(engine->subscriptions) + 1, sizeof *found);
    HASH_ITER(hh, engine->subscriptions, subscription, next)
    {
        if (found == NULL || strcmp(subscription->id, after) <= 0 ||
            (master_id[0] != '\0' && strcmp(subscription->master->id, master_id) != 0) ||
            (follower_id[0] != '\0' && strcmp(subscription->slot->id, follower_id) != 0))
            continue;
        subscription_hold(subscription);
        found[n_found++] = subscription;
    }
    pthread_rwlock_unlock(&engine->fleet_lock);
    if (found != NULL)
        qsort(found, n_found, sizeof(struct tw_subscription *), by_subscription_id);
    for (size_t i = 0; i < n_found; i++) {
        Tradewake__V1__Subscription *m = n < n_max ? subscription_message(found[i], arena) : NULL;
        if (m != NULL)
            ret[n++] = m;
        subscription_release(found[i]);
    }
    free(found);
    return n;
}

/* ---- The end ---- */

void fleet_clear(struct tw_engine *engine)
{
    struct tw_master *master, *next_master;
    struct tw_subscription *subscription, *next_subscription;
    struct tw_slot *slot, *next_slot;
    HASH_ITER(hh, engine->masters, master, next_master)
    {
        struct tw_position *position, *next_position;
        while (master->n_members > 0)
            member_remove(master, master->members[master->n_members - 1]);
        for (position = master->closed_oldest; position != NULL; position = next_position) {
            next_position = position->closed_next;
            if (position->is_hashed && position->is_order)
                HASH_DEL(master->orders, position);
            else if (position->is_hashed)
                HASH_DEL(master->positions, position);
            position_free(position);
        }
        HASH_ITER(hh, master->positions, position, next_position)
        {
            HASH_DEL(master->positions, position);
            position_free(position);
        }
        HASH_ITER(hh, master->orders, position, next_position)
        {
            HASH_DEL(master->orders, position);
            position_free(position);
        }
        HASH_DEL(engine->masters, master);
        pthread_mutex_destroy(&master->mutex);
        syncs_clear(master);
        free(master->members);
        free(master->ahead);
        free(master);
    }
    HASH_ITER(hh, engine->subscriptions, subscription, next_subscription)
    {
        HASH_DEL(engine->subscriptions, subscription);
        subscription_release(subscription);
    }
    HASH_ITER(hh, engine->slots, slot, next_slot)
    {
        HASH_DEL(engine->slots, slot);
        slot_release(slot);
    }
    while (engine->retired != NULL) {
        slot = engine->retired;
        engine->retired = slot->retired_next;
        slot_release(slot);
    }
}

struct tw_fleet_counts tw_engine_fleet_counts(struct tw_engine *engine)
{
    return (struct tw_fleet_counts){
        .followers = atomic_load(&engine->n_followers),
        .connected = atomic_load(&engine->n_connected),
        .threads_needed = engine->threads_needed,
    };
}
