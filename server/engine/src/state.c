#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Bytes ---- */

void state_out_clear(struct state_out *out)
{
    free(out->bytes);
    *out = (struct state_out){0};
}

static pthread_key_t here;
static pthread_once_t here_made = PTHREAD_ONCE_INIT;

static void here_free(void *out)
{
    state_out_clear(out);
    free(out);
}

static void here_make(void)
{
    if (pthread_key_create(&here, here_free) != 0)
        abort();
}

struct state_out *state_out_here(void)
{
    pthread_once(&here_made, here_make);
    struct state_out *out = pthread_getspecific(here);
    if (out == NULL) {
        out = calloc(1, sizeof *out);
        if (out == NULL || pthread_setspecific(here, out) != 0) /* what cannot be written down must not happen */
            abort();
    }
    out->size = 0;
    return out;
}

static uint8_t *out_room(struct state_out *out, size_t size)
{
    if (out->room - out->size < size) {
        size_t room = out->room == 0 ? 4096 : out->room;
        while (room - out->size < size)
            room *= 2;
        uint8_t *bytes = realloc(out->bytes, room);
        if (bytes == NULL) /* what cannot be written down must not happen */
            abort();
        out->bytes = bytes;
        out->room = room;
    }
    return out->bytes + out->size;
}

enum { VARINT_BYTES_MAX = 10 };

/* Returns what is behind it. Small numbers, and the absent decimal (all bits set, as zigzag), are most of
 * what is written for a copy while its order waits. */
static inline uint8_t *varint_put(uint8_t *at, uint64_t value)
{
    if (value < 0x80) {
        *at = (uint8_t)value;
        return at + 1;
    }
    if (value == UINT64_MAX) {
        static const uint8_t all_set[VARINT_BYTES_MAX] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 1};
        memcpy(at, all_set, sizeof all_set);
        return at + sizeof all_set;
    }
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

static inline uint64_t zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

void state_put_u(struct state_out *out, uint64_t value)
{
    uint8_t *at = out_room(out, VARINT_BYTES_MAX);
    out->size = (size_t)(varint_put(at, value) - out->bytes);
}

void state_put_i(struct state_out *out, int64_t value)
{
    state_put_u(out, zigzag(value));
}

void state_put_bytes(struct state_out *out, const void *bytes, size_t size)
{
    state_put_u(out, size);
    if (size == 0)
        return;
    memcpy(out_room(out, size), bytes, size);
    out->size += size;
}

void state_put_raw(struct state_out *out, const void *bytes, size_t size)
{
    if (size == 0)
        return;
    memcpy(out_room(out, size), bytes, size);
    out->size += size;
}

void state_put_text(struct state_out *out, const char *text)
{
    state_put_bytes(out, text, strlen(text));
}

uint64_t state_get_u(struct state_in *in)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (in->at == in->end)
            break;
        uint8_t byte = *in->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    in->failed = true;
    in->at = in->end;
    return 0;
}

int64_t state_get_i(struct state_in *in)
{
    uint64_t value = state_get_u(in);
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

const uint8_t *state_get_bytes(struct state_in *in, size_t *ret_size)
{
    uint64_t size = state_get_u(in);
    if (size > (uint64_t)(in->end - in->at)) {
        in->failed = true;
        in->at = in->end;
        size = 0;
    }
    const uint8_t *bytes = in->at;
    in->at += size;
    *ret_size = (size_t)size;
    return bytes;
}

void state_get_text(struct state_in *in, char *ret, size_t size)
{
    size_t length;
    const uint8_t *bytes = state_get_bytes(in, &length);
    if (length >= size) {
        in->failed = true;
        length = 0;
    }
    memcpy(ret, bytes, length);
    ret[length] = '\0';
}

/* ---- Fields: one list each, written and read in its order. Append only. ---- */

#define COPY_FIELDS(U, I)                                                                            \
    U(op) U(side) U(type) U(action) U(state) U(reason) U(sizing)                                     \
    I(volume) I(price) I(stop_price) I(stop_loss) I(take_profit) I(filled) I(average_price)          \
    I(wanted) I(expires_wall_ns) I(updated_wall_ns) I(window_end_wall_ns)                            \
    I(master_remaining) I(master_initial) I(broker_code)                                             \
    U(planned_ns) U(journaled_ns) U(started_ns) U(called_ns) U(answered_ns) U(held_ns)               \
    U(threads_at_start) U(threads_created) U(queue_depth)                                            \
    U(calls) U(adapter_attempt) U(id_attempt) U(order_leg) U(leg_ids[0]) U(leg_ids[1]) U(last_op)    \
    U(tickets_done) U(is_full_close) U(reduces_risk) U(is_skipped) U(is_protecting)                                  \
    U(n_remarks) U(remarks[0]) U(remarks[1]) U(remarks[2]) U(remarks[3]) U(is_counted)

#define LEG_FIELDS(U, I)                                                                             \
    U(side) U(order_type) U(is_from_order) U(is_reversed) U(ignores_stop_loss)                       \
    U(ignores_take_profit) U(is_pending) U(is_closed) U(was_open) U(is_close_planned)                \
    I(wanted) I(filled) I(held) I(open_price) I(stop_loss) I(take_profit) I(ticket_held)  \
    I(order_price) I(placed) U(is_let_go) I(own_stop_loss) I(own_take_profit)

#define POSITION_FIELDS(U, I)                                                                        \
    U(state) I(initial) I(remaining) I(observed_wall_ns) I(opened_wall_ns)

#define PENDING_FIELDS(U, I)                                                                         \
    U(side) U(type) I(price) I(stop_price) I(stop_loss) I(take_profit) I(contract_size) I(magic)     \
    I(expires_wall_ns)

#define COUNT(name) +1
#define FIELDS_PUT(FIELDS)                                                                           \
    do {                                                                                             \
        uint8_t *at = out_room(out, (FIELDS(COUNT, COUNT)) * VARINT_BYTES_MAX);                      \
        FIELDS(PUT_U, PUT_I)                                                                         \
        out->size = (size_t)(at - out->bytes);                                                       \
    } while (0)
#define PUT_U(name) at = varint_put(at, (uint64_t)thing->name);
#define PUT_I(name) at = varint_put(at, zigzag((int64_t)thing->name));
#define GET_U(name) thing->name = (__typeof__(thing->name))state_get_u(in);
#define GET_I(name) thing->name = (__typeof__(thing->name))state_get_i(in);

/* ---- Copies ---- */

static size_t told_size(const char *told)
{
    size_t size = 0;
    for (int part = 0; part < 3; part++)
        size += strlen(told + size) + 1;
    return size;
}

void state_stamp(struct tw_copy *copy, struct tw_leg *leg)
{
    if (copy != NULL)
        copy->stamp++;
    if (leg == NULL)
        return;
    leg->stamp++;
    /* What has not changed since it was written down keeps its stamp: its own record, which is on its way into the log,
     * says under which id the change is told. */
    for (struct tw_copy *applied = leg->applied; applied != NULL; applied = applied->next_applied)
        applied->stamp += applied->is_applied_anew;
}

void state_put_copy(struct state_out *out, const struct tw_copy *thing)
{
    state_put_u(out, (uint64_t)(thing - thing->record->copies));
    state_put_u(out, thing->subscription->slot->number);
    state_put_u(out, thing->subscription->number);
    state_put_u(out, thing->leg != NULL ? thing->leg->number : 0);
    state_put_u(out, thing->stamp);
    FIELDS_PUT(COPY_FIELDS);
    state_put_text(out, thing->listing != NULL ? thing->listing->told.symbol : "");
    state_put_bytes(out, thing->told, thing->told != NULL ? told_size(thing->told) : 0);
}

struct copy_names state_get_copy_names(struct state_in *in)
{
    struct copy_names names;
    names.index = (uint32_t)state_get_u(in);
    names.slot_number = (uint32_t)state_get_u(in);
    names.subscription_number = (uint32_t)state_get_u(in);
    names.leg_number = state_get_u(in);
    names.stamp = (uint32_t)state_get_u(in);
    return names;
}

struct copy_texts state_get_copy_values(struct state_in *in, struct tw_copy *thing)
{
    struct copy_texts texts = {.told = NULL};
    COPY_FIELDS(GET_U, GET_I)
    state_get_text(in, texts.symbol, sizeof texts.symbol);
    texts.told = (const char *)state_get_bytes(in, &texts.told_size);
    if (thing->n_remarks > TW_REMARKS_MAX || (texts.told_size > 0 && texts.told[texts.told_size - 1] != '\0'))
        in->failed = true;
    return texts;
}

void state_get_copy(struct state_in *in, struct tw_copy *thing)
{
    const struct copy_texts texts = state_get_copy_values(in, thing);
    struct tw_market *market = &thing->subscription->slot->market;
    thing->listing = texts.symbol[0] != '\0' ? tw_market_find_or_add(market, texts.symbol) : NULL;
    thing->symbol = thing->listing != NULL ? thing->listing->instrument.symbol : thing->record->symbol;
    free(thing->told);
    thing->told = texts.told_size > 0 ? malloc(texts.told_size) : NULL;
    if (thing->told != NULL)
        memcpy(thing->told, texts.told, texts.told_size);
}

/* ---- Legs ---- */

void state_put_leg(struct state_out *out, const struct tw_leg *thing)
{
    state_put_u(out, thing->number);
    state_put_u(out, thing->position->number);
    state_put_u(out, thing->slot->number);
    state_put_u(out, thing->stamp);
    state_put_text(out, thing->listing->told.symbol);
    FIELDS_PUT(LEG_FIELDS);
    state_put_text(out, thing->ticket);
    state_put_text(out, thing->open_copy_id);
    state_put_text(out, thing->open_order_id);
    uint32_t n_older = 0;
    for (const struct older_ticket *older = thing->older; older != NULL; older = older->next)
        n_older++;
    state_put_u(out, n_older);
    for (const struct older_ticket *older = thing->older; older != NULL; older = older->next) {
        state_put_text(out, older->id);
        state_put_i(out, older->held);
    }
    uint32_t n_applied = 0;
    for (const struct tw_copy *copy = thing->applied; copy != NULL; copy = copy->next_applied)
        n_applied++;
    state_put_u(out, n_applied);
    for (const struct tw_copy *copy = thing->applied; copy != NULL; copy = copy->next_applied) {
        state_put_u(out, copy->record->number);
        state_put_copy(out, copy);
    }
}

struct leg_names state_get_leg_names(struct state_in *in)
{
    struct leg_names names;
    names.number = state_get_u(in);
    names.position_number = state_get_u(in);
    names.slot_number = (uint32_t)state_get_u(in);
    names.stamp = (uint32_t)state_get_u(in);
    state_get_text(in, names.symbol, sizeof names.symbol);
    return names;
}

void state_get_leg(struct state_in *in, struct tw_leg *thing)
{
    LEG_FIELDS(GET_U, GET_I)
    state_get_text(in, thing->ticket, sizeof thing->ticket);
    state_get_text(in, thing->open_copy_id, sizeof thing->open_copy_id);
    state_get_text(in, thing->open_order_id, sizeof thing->open_order_id);
    leg_tickets_clear(thing);
    struct older_ticket **at = &thing->older;
    uint64_t n_older = state_get_u(in);
    for (uint64_t i = 0; i < n_older && !in->failed; i++) {
        struct older_ticket *older = calloc(1, sizeof *older);
        if (older == NULL) {
            in->failed = true;
            return;
        }
        state_get_text(in, older->id, sizeof older->id);
        older->held = state_get_i(in);
        *at = older;
        at = &older->next;
    }
}

/* ---- Positions ---- */

static void put_pending(struct state_out *out, const struct pending *thing)
{
    state_put_text(out, thing->symbol);
    FIELDS_PUT(PENDING_FIELDS);
}

void state_put_position(struct state_out *out, const struct tw_position *thing)
{
    state_put_u(out, thing->number);
    state_put_text(out, thing->master->id);
    state_put_text(out, thing->id);
    state_put_u(out, thing->is_hashed);
    state_put_u(out, thing->is_order);
    FIELDS_PUT(POSITION_FIELDS);
    state_put_u(out, thing->pending != NULL);
    if (thing->pending == NULL)
        return;
    put_pending(out, thing->pending);
}

struct position_names state_get_position_names(struct state_in *in)
{
    struct position_names names;
    names.number = state_get_u(in);
    state_get_text(in, names.master_id, sizeof names.master_id);
    return names;
}

static bool get_pending(struct state_in *in, struct tw_position *position)
{
    if (position->pending == NULL)
        position->pending = calloc(1, sizeof *position->pending);
    struct pending *thing = position->pending;
    if (thing == NULL)
        return false;
    state_get_text(in, thing->symbol, sizeof thing->symbol);
    PENDING_FIELDS(GET_U, GET_I)
    return true;
}

bool state_get_position(struct state_in *in, struct tw_position *thing, bool *ret_is_hashed,
                  bool *ret_is_order)
{
    state_get_text(in, thing->id, sizeof thing->id);
    *ret_is_hashed = state_get_u(in) != 0;
    *ret_is_order = state_get_u(in) != 0;
    POSITION_FIELDS(GET_U, GET_I)
    return state_get_u(in) != 0 ? get_pending(in, thing) : true;
}

/* ---- Events ---- */

static void put_account(struct state_out *out, const struct tw_account *account)
{
    state_put_text(out, account->currency);
    state_put_i(out, account->balance);
    state_put_i(out, account->equity);
    state_put_i(out, account->free_margin);
    state_put_u(out, account->leverage);
}

static void get_account(struct state_in *in, struct tw_account *account)
{
    state_get_text(in, account->currency, sizeof account->currency);
    account->balance = state_get_i(in);
    account->equity = state_get_i(in);
    account->free_margin = state_get_i(in);
    account->leverage = (uint32_t)state_get_u(in);
}

void state_put_master(struct state_out *out, const struct tw_master *master)
{
    state_put_u(out, master->last_sequence);
    state_put_u(out, master->n_ahead);
    for (uint32_t i = 0; i < master->n_ahead; i++)
        state_put_u(out, master->ahead[i]);
    state_put_text(out, master->last_event_id);
    state_put_i(out, master->last_received_wall_ns);
    state_put_i(out, master->observed_wall_ns);
    state_put_u(out, master->has_account);
    put_account(out, &master->account);
}

bool state_get_master(struct state_in *in, struct tw_master *master)
{
    master->last_sequence = state_get_u(in);
    uint64_t n_ahead = state_get_u(in);
    if (n_ahead > SEQUENCES_AHEAD_MAX)
        return false;
    if (n_ahead > 0 && master->ahead == NULL) {
        master->ahead = calloc(SEQUENCES_AHEAD_MAX, sizeof *master->ahead);
        if (master->ahead == NULL)
            return false;
    }
    master->n_ahead = (uint32_t)n_ahead;
    for (uint32_t i = 0; i < master->n_ahead; i++)
        master->ahead[i] = state_get_u(in);
    state_get_text(in, master->last_event_id, sizeof master->last_event_id);
    master->last_received_wall_ns = state_get_i(in);
    master->observed_wall_ns = state_get_i(in);
    master->has_account = state_get_u(in) != 0;
    get_account(in, &master->account);
    return true;
}

void state_put_event(struct state_out *out, const struct tw_record *record)
{
    state_put_u(out, record->number);
    state_put_u(out, record->n_copies);
    state_put_text(out, record->master->id);
    state_put_text(out, record->event_id);
    state_put_u(out, record->origin);
    state_put_i(out, record->received_wall_ns);
    state_put_u(out, record->upstream_ns);
    state_put_bytes(out, record->hash, sizeof record->hash);
    state_put_text(out, record->subject_id);
    state_put_text(out, record->symbol);
    state_put_text(out, record->trace_id);
    state_put_u(out, record->sequence_gap);
    state_put_u(out, record->expected_sequence);
    state_put_bytes(out, record->packed, record->packed != NULL ? record->packed_bytes : 0);
    state_put_i(out, record->volume);
    state_put_master(out, record->master);
}

struct event_head state_get_event_head(struct state_in *in)
{
    struct event_head head;
    head.number = state_get_u(in);
    head.n_copies = (uint32_t)state_get_u(in);
    state_get_text(in, head.master_id, sizeof head.master_id);
    state_get_text(in, head.event_id, sizeof head.event_id);
    return head;
}

bool state_get_event(struct state_in *in, struct tw_record *record)
{
    record->origin = (Tradewake__V1__CopyOrigin)state_get_u(in);
    record->received_wall_ns = state_get_i(in);
    record->upstream_ns = state_get_u(in);
    size_t size;
    const uint8_t *hash = state_get_bytes(in, &size);
    if (size != sizeof record->hash)
        return false;
    memcpy(record->hash, hash, size);
    state_get_text(in, record->subject_id, sizeof record->subject_id);
    state_get_text(in, record->symbol, sizeof record->symbol);
    state_get_text(in, record->trace_id, sizeof record->trace_id);
    record->sequence_gap = state_get_u(in) != 0;
    record->expected_sequence = state_get_u(in);
    const uint8_t *packed = state_get_bytes(in, &size);
    if (size > 0) {
        record->packed = malloc(size);
        if (record->packed == NULL)
            return false;
        memcpy(record->packed, packed, size);
        record->packed_bytes = size;
    }
    record->volume = state_get_i(in);
    return state_get_master(in, record->master);
}

void state_put_sync(struct state_out *out, const struct tw_master *master, const struct sync *sync)
{
    state_put_text(out, master->id);
    state_put_text(out, sync->id);
    state_put_bytes(out, sync->hash, sizeof sync->hash);
    state_put_u(out, sync->closes);
    state_put_u(out, sync->reductions);
    state_put_u(out, sync->opens);
    state_put_u(out, sync->cancels);
    state_put_u(out, sync->unchanged);
}

/* ---- The fleet ---- */

static void put_message(struct state_out *out, const ProtobufCMessage *message)
{
    size_t size = message != NULL ? protobuf_c_message_get_packed_size(message) : 0;
    state_put_u(out, size);
    if (size == 0)
        return;
    protobuf_c_message_pack(message, out_room(out, size));
    out->size += size;
}

void state_put_follower(struct state_out *out, const struct tw_slot *slot)
{
    state_put_u(out, slot->number);
    put_message(out, &slot->message->base);
    state_put_u(out, slot->revision);
    state_put_i(out, slot->created_wall_ns);
    state_put_i(out, slot->updated_wall_ns);
    state_put_text(out, slot->request_id);
    state_put_u(out, slot->is_deleted);
}

void state_put_subscription(struct state_out *out, const struct tw_subscription *subscription)
{
    state_put_u(out, subscription->number);
    state_put_text(out, subscription->id);
    state_put_text(out, subscription->master->id);
    state_put_u(out, subscription->slot->number);
    state_put_u(out, subscription->message != NULL);
    put_message(out, subscription->message != NULL ? &subscription->message->base : NULL);
    state_put_u(out, subscription->revision);
    state_put_i(out, subscription->created_wall_ns);
    state_put_i(out, subscription->updated_wall_ns);
    state_put_text(out, subscription->request_id);
    state_put_u(out, subscription->is_leaving);
}

void state_put_halts(struct state_out *out, const struct tw_engine *engine)
{
    uint32_t n = 0;
    for (const struct tw_active_halt *halt = engine->halts; halt != NULL; halt = halt->next)
        n++;
    state_put_u(out, n);
    for (const struct tw_active_halt *halt = engine->halts; halt != NULL; halt = halt->next) {
        state_put_text(out, halt->follower_id);
        state_put_text(out, halt->master_id);
        state_put_u(out, halt->everything);
        state_put_text(out, halt->note);
        state_put_i(out, halt->since_wall_ns);
    }
    for (const struct tw_active_halt *halt = engine->halts; halt != NULL; halt = halt->next)
        state_put_text(out, halt->by);
}

enum { BASELINES = 5 };

void state_put_risk(struct state_out *out, const struct tw_slot *slot)
{
    state_put_u(out, slot->number);
    state_put_u(out, slot->stop_out.is_out);
    state_put_u(out, slot->stop_out.limit);
    state_put_i(out, slot->stop_out.measured);
    state_put_i(out, slot->stop_out.since_wall_ns);
    state_put_i(out, slot->stop_out.until_wall_ns);
    state_put_u(out, slot->wants_close_all);
    for (int i = 0; i < BASELINES; i++) {
        state_put_i(out, slot->baselines[i].from_wall_ns);
        state_put_i(out, slot->baselines[i].balance);
        state_put_i(out, slot->baselines[i].equity);
    }
    state_put_u(out, slot->gate.tripped);
    state_put_i(out, slot->gate.tripped_wall_ns);
    state_put_i(out, slot->gate.day);
    state_put_u(out, slot->gate.day_out);
}

bool state_get_risk(struct state_in *in, struct tw_slot *slot)
{
    slot->stop_out.is_out = state_get_u(in) != 0;
    slot->stop_out.limit = (uint32_t)state_get_u(in);
    slot->stop_out.measured = state_get_i(in);
    slot->stop_out.since_wall_ns = state_get_i(in);
    slot->stop_out.until_wall_ns = state_get_i(in);
    slot->wants_close_all = state_get_u(in) != 0;
    for (int i = 0; i < BASELINES; i++) {
        slot->baselines[i].from_wall_ns = state_get_i(in);
        slot->baselines[i].balance = state_get_i(in);
        slot->baselines[i].equity = state_get_i(in);
    }
    if (in->at == in->end) /* of a version without a gate */
        return !in->failed;
    slot->gate.tripped = (enum tw_breach)state_get_u(in);
    slot->gate.tripped_wall_ns = state_get_i(in);
    slot->gate.day = state_get_i(in);
    slot->gate.day_out = (uint32_t)state_get_u(in);
    return !in->failed && (unsigned)slot->gate.tripped < TW_BREACH_COUNT;
}
