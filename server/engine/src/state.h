/* state.h - what is written to the journal and read back from it: one record's writer and reader stand
 * side by side in state.c.
 *
 * Records hold states, not steps: reading them again decides nothing anew, and the latest of a thing
 * wins. Numbers name things: slots, subscriptions, positions, legs and records, each counted from 1 and
 * never used again. Integers are varints, signed ones zigzag (protobuf's encoding); texts have their
 * length before them. */
#ifndef TW_ENGINE_STATE_H
#define TW_ENGINE_STATE_H

#include "internal.h"

/* Never renumber: old logs are read by their numbers. */
enum state_type {
    STATE_BOOT = 1,          /* boot id of the machine, instance, wall time */
    STATE_SEAL = 2,          /* a clean stop: nothing was at a broker */
    STATE_FOLLOWER = 3,      /* a follower as set */
    STATE_FOLLOWER_GONE = 4,
    STATE_SUBSCRIPTION = 5,
    STATE_SUBSCRIPTION_GONE = 6,
    STATE_HALTS = 7,         /* all active halts */
    STATE_RISK = 8,          /* a follower's stop-out and baselines */
    STATE_EVENT = 9,         /* an event, and its master after it */
    STATE_POSITION = 10,     /* a position or order of a master */
    STATE_PLAN = 11,         /* a chunk of copies as planned, with their legs */
    STATE_OUTCOME = 12,      /* copies as they are now, with their legs */
    STATE_LEG = 13,          /* a leg that changed without a copy */
    STATE_SYNC = 14,         /* a snapshot taken up */
    STATE_AUDIT = TW_AUDIT_RECORD_TYPE, /* a change, or a refusal: of nobody's state, kept in the history */
};

/* Bytes being written; grows. Zero it once, reuse it, state_out_clear() at the end. */
struct state_out {
    uint8_t *bytes;
    size_t size, room;
};
void state_out_clear(struct state_out *out);

/* This thread's, empty, as large as what it has held before; freed when the thread ends. Thread: any. */
struct state_out *state_out_here(void);

void state_put_u(struct state_out *out, uint64_t value);
void state_put_i(struct state_out *out, int64_t value);
void state_put_text(struct state_out *out, const char *text);
void state_put_bytes(struct state_out *out, const void *bytes, size_t size);
void state_put_raw(struct state_out *out, const void *bytes, size_t size); /* without its length */

/* What is written down is put together under the slot's mutex and appended after it: of two records that say
 * something of a thing, the later need not be the newer. So each writing has a stamp, and a reader leaves out what
 * is not newer than what it has. Before every state_put_copy() or state_put_leg() of a thing that lives, under the
 * slot's mutex. */
void state_stamp(struct tw_copy *copy, struct tw_leg *leg /* NULL = none */);
void state_put_copy(struct state_out *out, const struct tw_copy *copy);
/* With the copies that changed it and are not written yet: their number, then each as record number and
 * copy. Under the slot's mutex. */
void state_put_leg(struct state_out *out, const struct tw_leg *leg);
void state_put_position(struct state_out *out, const struct tw_position *position);
void state_put_event(struct state_out *out, const struct tw_record *record);
void state_put_follower(struct state_out *out, const struct tw_slot *slot);
void state_put_subscription(struct state_out *out, const struct tw_subscription *subscription);
void state_put_halts(struct state_out *out, const struct tw_engine *engine);
void state_put_risk(struct state_out *out, const struct tw_slot *slot);
void state_put_master(struct state_out *out, const struct tw_master *master); /* without its id */
void state_put_sync(struct state_out *out, const struct tw_master *master, const struct sync *sync);

/* Bytes being read. A read past the end sets `failed` and gives 0 or "". */
struct state_in {
    const uint8_t *at, *end;
    bool failed;
};

uint64_t state_get_u(struct state_in *in);
int64_t state_get_i(struct state_in *in);
void state_get_text(struct state_in *in, char *ret, size_t size);
const uint8_t *state_get_bytes(struct state_in *in, size_t *ret_size); /* points into the record */

/* The names a copy, leg or position goes by; read before the thing itself is known. */
struct copy_names {
    uint32_t index;
    uint32_t slot_number, subscription_number;
    uint64_t leg_number; /* 0 = none */
    uint32_t stamp;
};
struct leg_names {
    uint64_t number, position_number;
    uint32_t slot_number, stamp;
    char symbol[TW_SYMBOL_BYTES];
};

/* A copy's texts; told points into the record, told_size 0 = none. */
struct copy_texts {
    char symbol[TW_SYMBOL_BYTES];
    const char *told;
    size_t told_size;
};

struct copy_names state_get_copy_names(struct state_in *in);
/* Everything but its texts, without looking at its follower. */
struct copy_texts state_get_copy_values(struct state_in *in, struct tw_copy *copy);
void state_get_copy(struct state_in *in, struct tw_copy *copy);
struct leg_names state_get_leg_names(struct state_in *in);
void state_get_leg(struct state_in *in, struct tw_leg *leg); /* without those copies */
/* The master's id is in ret_master_id. pending: allocated when there is one. */
struct position_names {
    uint64_t number;
    char master_id[TW_ID_BYTES];
};
struct position_names state_get_position_names(struct state_in *in);
bool state_get_position(struct state_in *in, struct tw_position *position, bool *ret_is_hashed,
                  bool *ret_is_order);
/* The event's own part into record (allocated for n_copies by the caller: read the head first). */
struct event_head {
    uint64_t number;
    uint32_t n_copies;
    char master_id[TW_ID_BYTES], event_id[TW_ID_BYTES];
};
struct event_head state_get_event_head(struct state_in *in);
bool state_get_event(struct state_in *in, struct tw_record *record);
bool state_get_risk(struct state_in *in, struct tw_slot *slot);
bool state_get_master(struct state_in *in, struct tw_master *master);

#endif
