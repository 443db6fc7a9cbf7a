/* memory.h - which orders a guest's adapter was given, and what it answered: so that none is given twice. */
#ifndef HOST_MEMORY_H
#define HOST_MEMORY_H

#include <tradewake/adapters/order.h>

enum { MEMORY_BUCKETS = 256, MEMORY_MAX = 2048 };

struct memo {
    struct memo *next_in_bucket; /* newest first */
    struct memo *next_in_time;
    char client_order_id[TW_COPY_ID_BYTES];
    uint32_t attempt;
    enum tw_order_op op;
    bool is_out;              /* the adapter has not answered */
    int64_t limit_mono_ns;    /* then it is late: who asked has been told so, and the adapter may still carry it out */
    struct tw_ack ack;
};

/* The oldest that are over are forgotten. The caller guards it. */
struct memory {
    struct memo *buckets[MEMORY_BUCKETS];
    struct memo *oldest, *newest;
    size_t n;
};

struct memo *memory_find(const struct memory *memory, const char *client_order_id, uint32_t attempt);
/* Of the id, whichever attempt: the latest. */
struct memo *memory_find_latest(const struct memory *memory, const char *client_order_id);
/* Of the id, whichever attempt: the adapter has one, and has not answered. */
bool memory_is_out(const struct memory *memory, const char *client_order_id);
/* An order has been out for so long beyond its time. Walks all there are. */
bool memory_is_overdue(const struct memory *memory, int64_t now_mono_ns, int64_t beyond_ns);
/* NULL: no memory. */
struct memo *memory_begin(struct memory *memory, const struct tw_order *order, int64_t limit_mono_ns);
void memory_remove(struct memory *memory, struct memo *memo);
void memory_clear(struct memory *memory);

#endif
