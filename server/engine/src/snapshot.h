/* snapshot.h - the state as records of a snapshot, written from a recovery and read back into one. */
#ifndef TW_ENGINE_SNAPSHOT_H
#define TW_ENGINE_SNAPSHOT_H

#include "recover.h"

/* Only in snapshots, beside the types of the log. Never renumber. */
enum snapshot_type {
    SNAPSHOT_REST = 101,      /* what the records before it do not tell; comes last */
    SNAPSHOT_MASTER = 102,
    SNAPSHOT_POSITION = 103,  /* with its legs, block by block */
    SNAPSHOT_FORGOTTEN = 104, /* a part of what is known of forgotten events */
    SNAPSHOT_EVENT = 105,     /* with its copies and their change ids */
};

typedef void snapshot_put_fn(void *context, uint16_t type, const void *bytes, size_t size);

/* Everything that is remembered, in an order in which it can be read back. */
void snapshot_write(struct recovery *r, snapshot_put_fn *put, void *context);

/* False: not understood. */
bool snapshot_record_read(struct recovery *r, uint16_t type, struct state_in *in);

#endif
