/* recover.h - the journal's records read back into an engine: by a start (recover.c), and by whoever makes
 * a snapshot of them (snapshot.c). */
#ifndef TW_ENGINE_RECOVER_H
#define TW_ENGINE_RECOVER_H

#include "state.h"

/* A table by number, for numbers that rise: old ones leave whole pages empty. Zeroed = empty. */
struct numbered {
    void ***pages;
    uint64_t n_pages, last;
};

/* An event whose planning the crash cut short. */
struct cut_record {
    struct cut_record *next;
    struct tw_record *record;
    uint32_t n_wanted;
};

struct recovery {
    struct tw_engine *engine;
    struct numbered slots, subscriptions, positions, legs, records;
    struct { /* the highest that were ever given, also of what is forgotten */
        uint64_t slot, subscription, position, leg, record;
    } given;
    uint64_t events, outcomes;
    struct cut_record *cut;
    uint32_t positions_read; /* since the last look for those to forget */
    bool is_sealed, was_sealed; /* the last thing the log says, or the one before it, is a clean stop */
    char boot_id[40];     /* of the machine, when the log was last opened */
    struct tw_error *error;
    /* What belongs to nobody who is remembered is read into these, and past. */
    struct tw_slot nobody;
    struct tw_subscription nobodys;
};

bool numbered_keep(struct numbered *table, uint64_t number, void *item); /* false: no memory */
void *numbered_find(const struct numbered *table, uint64_t number);
void numbered_clear(struct numbered *table);
/* The next after *number (0: the first), which becomes its number; NULL: there is none. */
void *numbered_next(const struct numbered *table, uint64_t *number);

/* A record of the log, or of a snapshot. context: the recovery. Thread: main, or who makes a snapshot. */
tw_status recovery_record(void *context, uint64_t sequence, uint16_t type, const uint8_t *bytes, size_t size,
                          struct tw_error *error);

/* After the last record: what is not remembered any more is gone, and `given` is right. */
void recovery_settle(struct recovery *r);
void recovery_clear(struct recovery *r); /* the tables, not the engine */

/* One of each for a start (recover.c) and for a snapshot's records (snapshot.c). */
bool recovery_position(struct recovery *r, struct state_in *in, struct tw_position **ret);
struct tw_leg *recovery_leg(struct recovery *r, struct state_in *in, struct tw_leg_block **block,
                            uint32_t n_legs_max);
struct tw_record *recovery_event(struct recovery *r, struct state_in *in);
bool recovery_copy(struct recovery *r, struct state_in *in, struct tw_record *record,
                   struct tw_copy **ret_copy);

#endif
