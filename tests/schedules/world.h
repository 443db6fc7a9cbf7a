/* world.h - what outlives the server: time, dice, the disk, the brokers' books, the master and its script.
 *
 * One world per process of the runner, in memory that is shared with the children in which the server
 * lives. A crash is the end of a child: whatever is not in here is gone, as with kill -9. Then the next
 * child starts the server again and goes on with the schedule.
 *
 * Everything is drawn from one generator that stands in here, in the order of what happens, and nothing
 * asks the machine for time, threads or bytes: a seed is a schedule, whatever happens in it. */
#ifndef SCHEDULES_WORLD_H
#define SCHEDULES_WORLD_H

#include <tradewake/adapters/adapter.h>
#include <tradewake/base/clock.h>
#include <tradewake/base/decimal.h>

#include <stdbool.h>
#include <stdint.h>

#define LOT INT64_C(100000000)        /* 1 as a decimal */
#define STEP (LOT / 100)              /* of volumes, and the smallest */
#define WALL_BASE_NS INT64_C(1796000000000000000)
#define MASTER "M"

enum {
    FOLLOWERS_MAX = 4, POSITIONS_MAX = 4, EVENTS_MAX = 16,
    HELD_MAX = 64, WORKING_MAX = 16, ANSWERS_MAX = 192, WIRES_MAX = 64, NEWS_MAX = 96,
    FILES_MAX = 24, FILE_BYTES_MAX = 96 * 1024, SECTOR_BYTES = 512, NAME_BYTES = 24,
    FDS_MAX = 32,
};

/* ---- The disk ---- */

struct file {
    bool is_used;
    char name[NAME_BYTES], durable_name[NAME_BYTES]; /* "" = none */
    uint32_t size, durable_size, touched; /* touched: bytes that are not zero from an earlier schedule */
    uint8_t bytes[FILE_BYTES_MAX], durable[FILE_BYTES_MAX];
    bool is_dirty[FILE_BYTES_MAX / SECTOR_BYTES];
};

/* ---- A broker, and what of it is on its way ---- */

/* A position; at a netting account there is one per symbol. */
struct held {
    bool is_used;
    uint32_t ticket, from_ticket;
    uint8_t symbol;
    enum tw_side side;
    tw_decimal volume, stop_loss, take_profit;
    int8_t position; /* of the master, by whose order it came to be; hedging */
    char id[TW_COPY_ID_BYTES];
};

struct working {
    bool is_used;
    uint32_t ticket;
    uint8_t symbol;
    enum tw_side side;
    enum tw_order_type type;
    tw_decimal volume, price, stop_loss, take_profit;
    int8_t position, event;
    char id[TW_COPY_ID_BYTES];
};

/* What a look-up finds. */
struct answer {
    char id[TW_COPY_ID_BYTES];
    int64_t visible_ns;
    uint32_t working; /* ticket of the order, for a place; 0 = none */
    struct tw_ack ack;
};

/* What the judge knows of one event at one follower. */
struct intent {
    tw_decimal opened, closed;  /* executed, by orders of this event */
    bool is_unresolved;         /* an open was sent, and no answer has said what became of it */
    uint8_t absences;           /* look-ups since that proved it absent */
    int64_t settles_ns;         /* when "not found" begins to prove something */
};

struct follower {
    struct tw_capabilities caps;
    bool renumbers, is_up, had_working, was_closed_by_hand[POSITIONS_MAX];
    uint32_t next_ticket;
    struct held held[HELD_MAX];
    struct working working[WORKING_MAX];
    struct answer answers[ANSWERS_MAX];
    uint32_t n_answers, mutations;
    struct intent intents[EVENTS_MAX];
    tw_decimal opened[POSITIONS_MAX]; /* by orders of the master's position, without sign */
    tw_decimal share[POSITIONS_MAX];  /* what is there because of it; below 0 = short */
};

enum wire_kind { WIRE_EXECUTE, WIRE_LOOKUP, WIRE_SNAPSHOT };

/* One call of the server's, between it and the broker. It goes on when the server is gone. */
struct wire {
    bool is_used, is_delivered, is_reply_lost;
    bool is_shot; /* a snapshot of the moment when it arrived: world->shots */
    enum wire_kind kind;
    uint8_t follower;
    int8_t event, position;
    bool is_open; /* it would make something */
    struct tw_order order;
    struct tw_adapter_call *call; /* NULL: the life that made it is over, or it has its answer */
    int64_t arrives_ns, answers_ns, deadline_ns, settles_ns;
    struct tw_ack ack;
};

/* A book as it was when somebody asked for it. */
struct shot {
    struct held held[HELD_MAX];
    struct working working[WORKING_MAX];
};

enum news_kind { NEWS_UP, NEWS_DOWN, NEWS_TELL_UP, NEWS_POSITION, NEWS_ORDER_GONE, NEWS_FILL, NEWS_HAND };

struct news {
    bool is_used;
    enum news_kind kind;
    uint8_t follower;
    int64_t at_ns;
    uint32_t ticket; /* of the order, or of the position */
    char id[TW_COPY_ID_BYTES];
    char position_id[TW_BROKER_ID_BYTES];
    struct tw_held_position held;
    tw_reason reason;
};

/* ---- The master ---- */

enum script_kind { DO_OPEN, DO_INCREASE, DO_MODIFY, DO_PARTIAL, DO_CLOSE, DO_PLACE, DO_MODIFY_ORDER, DO_CANCEL, DO_TRIGGER };

struct script_event {
    enum script_kind kind;
    uint8_t position;
    bool renames; /* a partial close that gives the rest a new ticket */
    bool is_with_last; /* it happens together with the event before */
    tw_decimal volume, price;
    int64_t gap_ns;      /* after the one before */
    int64_t due_ns;      /* when it is sent, or sent again; INT64_MAX = not now */
    int64_t observed_ns; /* mono, when it was sent first; 0 = never */
    uint32_t accepted;   /* its place among those that the server has taken; 0 = not yet */
    bool is_acked;
    uint8_t repeats; /* so many more times although it has its answer */
};

/* What the server has been told of a position, and still knows. */
struct taken {
    bool close /* by whatever ends it */, cancel, trigger;
};

enum crash_kind { CRASH_KILL, CRASH_POWER, CRASH_CLEAN };
struct crash {
    enum crash_kind kind;
    enum { CRASH_AFTER_POINTS, CRASH_AFTER_EVENT, CRASH_IN_START } when;
    uint32_t points, events;
};
enum { CRASHES_MAX = 4 };

/* How bad it is, in 1000ths. */
struct weather {
    uint32_t request_lost, reply_lost, late, busy, moved, refused, partial, early_answer, incomplete, hidden;
};

enum phase { PHASE_STORM, PHASE_CALM, PHASE_AFTER /* everything was judged; a start must change nothing */, PHASE_OVER };

struct totals {
    uint64_t schedules, lives, kills, power_cuts, clean_stops, events, duplicates, calls, executed, lookups, unknown,
        points, steps, hands, fills;
};

struct world {
    /* Of the runner. */
    uint64_t seed, last_seed, stride; /* schedules still to come, this one included */
    bool is_everything; /* also what is known to go wrong */
    bool is_forgetful;  /* hedging brokers forget an order some seconds after it was over: an outage may be longer */
    bool is_pairs;      /* partial closes come two at a time, of one ticket */
    bool is_traced, is_running; /* a schedule has begun and not ended */
    uint32_t broken;            /* enum broken */
    struct totals totals;

    /* Of the schedule: zeroed before it, but for the files' bytes. */
    struct {
        uint64_t random;
        int64_t now_ns;
        enum phase phase;
        int64_t calm_ns, after_ns;
        uint32_t life, boot;
        uint64_t points, crash_point; /* of this life; 0 = none is near */
        uint32_t n_crashes, next_crash, life_events;
        struct crash crashes[CRASHES_MAX];
        bool is_stopping, is_set_up;
        struct weather weather;
        uint32_t n_followers, n_positions, n_events, accepted, n_power_cuts;
        bool is_serial, is_orderly; /* what is sent again after a restart comes in its order */
        uint32_t segment_bytes;
        uint64_t steps;
        struct follower followers[FOLLOWERS_MAX];
        struct script_event events[EVENTS_MAX];
        struct taken taken[POSITIONS_MAX];
        struct wire wires[WIRES_MAX];
        struct news news[NEWS_MAX];
        uint32_t mutations_when_judged;
    } s;

    struct shot shots[WIRES_MAX];
    struct file files[FILES_MAX];
    int8_t file_of_fd[FDS_MAX]; /* index, -1 = the directory, -2 = free */
};

extern struct world *world;

/* What ends a child. */
enum { END_ALL = 0, END_VIOLATION = 1, END_LIFE = 100 };

/* ---- Dice ---- */

uint64_t draw(uint64_t below);
bool chance(uint32_t in_1000);
/* Between a and b, small ones as likely as large ones. */
int64_t draw_ns(int64_t from_ns, int64_t until_ns);

/* ---- Time and ends ---- */

/* A place where the machine, or the process, may end. */
void crash_point(void);
bool crash_is_next(void); /* the next such place is the end */
void crash_arm(void); /* at the start of a life */
_Noreturn void life_end(void);

void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A promise is broken: says so with the seed, and ends everything. */
_Noreturn void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- disk.c ---- */

const struct tw_journal_disk *disk_ops(void);
void disk_begin(void);     /* an empty one */
void disk_cut_power(void); /* what was not synced is lost, or is there, in any order */
void disk_forget_fds(void);

/* ---- machine.c: executor and reactor, and the turns of the journal ---- */

struct tw_executor *machine_executor(void);
struct tw_reactor *machine_reactor(void);
bool machine_step(int64_t *ret_next_ns); /* true: something was done */
void machine_begin(void);
void machine_stop(void);
uint32_t machine_jobs_submitted(void);
struct tw_job *machine_job(void); /* whose run() it is */

/* ---- broker.c ---- */

extern const struct tw_adapter_ops broker_ops;
bool broker_step(int64_t *ret_next_ns);
void broker_life_ends(void);
void broker_calm(void);
uint32_t broker_calls_out(void);
uint32_t broker_mutations(void);
void news_add(const struct news *news);

/* ---- judge.c ---- */

struct tw_engine;
void judge_call(const struct wire *wire);             /* an order is about to leave the server */
void judge_executed(struct wire *wire);               /* the broker did it: wire->ack says what */
void judge_answered(const struct wire *wire, const struct tw_ack *ack);
void judge_restart(struct tw_engine *engine);         /* what was acknowledged is there */
void judge_end(struct tw_engine *engine);             /* all has settled */
bool is_settled(struct tw_engine *engine);
void judge_unsettled(struct tw_engine *engine);

/* ---- master.c ---- */

void script_write(void);
void master_life_begins(void);
void master_power_cut(void);
bool master_step(struct tw_engine *engine, int64_t *ret_next_ns);
bool master_is_done(void);

/* ---- broken.c ---- */

enum broken { BROKEN_NOTHING, BROKEN_BLIND_RESEND, BROKEN_EARLY_ANSWER, BROKEN_DROPPED_CLOSE, N_BROKEN };
extern const char *const broken_words[N_BROKEN];

#endif
