/* copy.h - what the files that carry a copy from its plan to its end share with each other, and with nobody else:
 * copy.c, copy_*.c, leg.c, net.c, net_again.c, announce.c, compare.c, resolve.c. Unless it says otherwise: under the slot's mutex. */
#ifndef TW_ENGINE_COPY_H
#define TW_ENGINE_COPY_H

#include "internal.h"

/* A call on its way. On the worker's stack for a blocking session, from the heap for the others. */
struct flight {
    struct tw_adapter_call call; /* first */
    struct tw_copy *copy;
    enum copy_phase phase;
    uint32_t number; /* of the order call: copy->calls when it was made */
    bool is_probe;   /* the one call that a broker whose calls do not come back may have */
};

static inline struct tw_slot *copy_slot(const struct tw_copy *copy)
{
    return copy->subscription->slot;
}

static inline bool copy_opens(const struct tw_copy *copy)
{
    return copy->op == TW_OP_OPEN || copy->op == TW_OP_PLACE;
}

static inline tw_decimal set_or(tw_decimal wanted, tw_decimal otherwise)
{
    return wanted == TW_DECIMAL_UNSET ? otherwise : wanted;
}

/* copy.c */
/* The copy is over. What its leg reserved and did not get is free again. */
void copy_conclude(struct tw_copy *copy, copy_state state, tw_reason reason);
/* The answer has come: it is taken up, and the job ends or waits. Takes the slot's mutex. */
void copy_land(struct flight *flight);
void copy_order_fill(const struct tw_copy *copy, struct tw_order *order);
void copy_order_asked(const struct tw_copy *copy, struct tw_order *order);
/* From here on a look-up is about the copy's own order. */
void copy_asked_for(struct tw_copy *copy);
/* It was taken out of its lane (withdrawn_for OPERATOR): it goes in again, as the last of its key. Without the mutex. */
void copy_give_back(struct tw_copy *copy);

/* announce.c: never under a lock. */
void record_count_down(struct tw_record *record, atomic_uint *pending);
void copy_put_sample(struct tw_copy *copy);

/* copy_gate.c */
enum gate { GATE_PASS, GATE_END, GATE_PARK, GATE_WAIT /* as before: nobody needs to be told */ };
enum gate gate_by_op(struct tw_copy *copy, struct tw_order *order, int64_t now_wall_ns);
/* The breaker's word, last of all: who is let through as the probe has to call. */
enum gate gate_breaker(struct tw_copy *copy, struct flight *flight);
enum gate gate_end(struct tw_copy *copy, copy_state state, tw_reason reason);
enum gate gate_park(struct tw_copy *copy, tw_reason reason);
/* What the follower's mode does not let through ends so. */
enum gate gate_mode(struct tw_copy *copy, copy_state state);
/* What every order that reduces waits for: mode and connection. */
enum gate gate_reduce(struct tw_copy *copy);
/* By what the leg holds, not by what the copy was planned for: that may have grown before its first call. */
bool copy_leaves_something(const struct tw_copy *copy);

/* copy_stops.c */
enum gate gate_modify(struct tw_copy *copy, struct tw_order *order);
/* Its stops did not come with the open: they are placed now. */
enum gate gate_protect(struct tw_copy *copy, struct tw_order *order);
/* The waiting order that a change was for is not there. True: once more. */
bool copy_modify_again(struct tw_copy *copy, struct tw_verdict *verdict);
/* A change that was refused is tried again, but nothing waits behind it. */
void copy_refused_wait(struct tw_copy *copy, struct tw_verdict *verdict);
void copy_refused_set(struct tw_copy *copy, bool is_refused);
/* It is parked: who waits behind it goes first, where that is its part. The caller holds its record, and no lock. */
void copy_let_by(struct tw_copy *copy);

/* copy_answer.c */
struct tw_verdict copy_judge(struct tw_copy *copy, const struct flight *flight, int64_t now_mono_ns);
/* What the answer changes at the position. */
void copy_apply(struct tw_copy *copy, const struct flight *flight);
void copy_tell_keep(struct tw_copy *copy, const struct tw_ack *ack);
/* After a crash it is not known whether a cancel, or the close of what the order became, was called last. */
enum tw_order_op copy_op_answered(const struct flight *flight);

/* copy_next.c */
enum { CANCELS_LOST_MAX = 3 };
#define CANCEL_AGAIN_NS (100 * TW_NS_PER_MS)
#define ASK_AGAIN_NS_MAX (5 * TW_NS_PER_S)
/* What the verdict makes of the copy. */
void copy_follow(struct tw_copy *copy, const struct flight *flight, struct tw_verdict *verdict);
/* What became of the order that a cancel did not find. */
struct tw_verdict copy_open_asked(struct tw_copy *copy, const struct tw_ack *ack);
struct tw_verdict copy_ask_open_again(struct tw_copy *copy);
/* Not found once more. True: so often that it is gone. */
bool copy_absence_count(struct tw_copy *copy);

/* copy_wait.c */
/* Parks the job and sees to it that it is woken. The caller holds the record, and no lock. */
void copy_wait_for(struct tw_copy *copy, const struct tw_verdict *verdict);
/* The job is parked already. Takes the slot's mutex. */
void copy_wait_in_slot(struct tw_copy *copy);
void copy_parked_remove(struct tw_copy *copy);
/* Whether a crash would know of the id that the next order has. */
bool copy_id_is_written(const struct tw_copy *copy);

/* copy_lost.c: none of it under a lock */
/* A job's call does not come back. Thread: watch. */
void copy_lost(struct tw_job *job);
/* True: what a lost call brought is there, and the flight is one that has landed already. */
bool copy_late_take(struct tw_copy *copy, struct flight *flight);
/* A worker waits for the answer. False: it was lost. */
bool copy_call_and_wait(struct flight *flight, void (*call)(void *session, struct tw_adapter_call *call));

/* leg.c */
/* The leg's positions, newest first; NULL: it has no more. */
const char *leg_ticket_at(const struct tw_leg *leg, uint32_t n);
/* The leg is about to hold another position: the one it has now steps back. */
void leg_ticket_push(struct tw_leg *leg);
tw_decimal leg_ticket_holds(const struct tw_leg *leg, const char *ticket);
/* So much less is held under one of its tickets, which may have another name now. */
void leg_ticket_close(struct tw_leg *leg, const char *ticket, tw_decimal closed, const char *remainder);
/* One of its positions is not there any more; with the last one the leg is closed. */
void leg_ticket_gone(struct tw_leg *leg, const char *ticket);

/* net.c: the one position of a netting account */
struct net_stops {
    tw_decimal stop_loss, take_profit;
};
/* What brings it nearer to zero is a reduction, and no order crosses zero. */
void net_order(const struct tw_copy *copy, struct tw_order *order, enum tw_side side, tw_decimal volume);
/* What our shares add up to has changed. */
void net_changed(struct tw_slot *slot, const struct tw_listing *listing);
/* The stops of a share that has just filled are the position's. */
void net_stops_take(struct tw_leg *leg);
void net_stops_set(struct tw_slot *slot, const struct tw_listing *listing, tw_decimal stop_loss,
                   tw_decimal take_profit);
struct net_stops net_stops_of(const struct tw_slot *slot, const struct tw_listing *listing);
void net_stops_trade(struct tw_slot *slot, const struct tw_listing *listing, const struct flight *flight,
                     struct net_stops before);

/* net_again.c: an order that was only to reduce found nothing */
/* True: it goes on. */
bool copy_reduce_again(struct tw_copy *copy, struct tw_verdict *verdict);
struct tw_verdict copy_share_asked(struct tw_copy *copy, const struct flight *flight);
/* Another share of the symbol whose order waits at the broker: the first by number from this one on. */
struct tw_leg *net_waiting_share(const struct tw_copy *copy, uint64_t from);

#endif
