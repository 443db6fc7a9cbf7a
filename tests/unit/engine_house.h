/* engine_house.h - an engine with the built-in broker, without a server around it: events go in by a call. */
#ifndef ENGINE_HOUSE_H
#define ENGINE_HOUSE_H

#include <tradewake/engine/engine.h>

struct house { /* zeroed before it is first opened */
    const char *paper_dir; /* the built-in broker's ledger, set before opening; NULL = it forgets */
    struct tw_executor *executor;
    struct tw_reactor *reactor;
    void *paper;
    struct tw_engine_adapter adapters[1];
    struct tw_engine *engine;
    struct tw_arena arena; /* for answers; cleared with each call */
    char reason[64];       /* of the last refusal: its words */
};

/* options: executor, reactor and adapters are set here. Ends the program when it cannot. */
void house_open(struct house *house, struct tw_engine_options options);
/* False: it cannot be started; error says why. */
bool house_try(struct house *house, struct tw_engine_options options, struct tw_error *error);
/* A clean stop, or as if the process had been killed: nothing more is written. */
void house_close(struct house *house, bool is_clean);

bool house_follower(struct house *house, const char *follower_id, const char *latency);
/* config: keys and values of the broker's settings in turn, ended by NULL. */
bool house_follower_with(struct house *house, const char *follower_id, const char *const *config);
/* ret_id: 65 bytes, or NULL. */
bool house_subscribe(struct house *house, const char *master_id, const char *follower_id, char *ret_id);

/* One event; fields that are NULL are left out. */
struct house_event {
    enum tw_event_kind kind;
    const char *master_id, *event_id;
    const char *position_id, *order_id; /* trigger: both */
    const char *new_position_id, *volume, *price, *stop_loss;
    int64_t observed_wall_ns; /* 0 = now */
    uint64_t sequence;
    bool increase, is_sell; /* of EURUSD; else it is bought */
};

/* False: refused. *ret: its record is the caller's to release, when it has one. */
bool house_submit(struct house *house, const struct house_event *event, struct tw_submitted *ret);

/* Every copy of every event has ended, and is written. False: not in so long (0 = for ever). */
bool house_settle(struct house *house, int64_t wait_ns);

#endif
