/* What a snapshot and the log behind it come to is what the whole log comes to: random masters, followers,
 * halts, deletions and restarts; then the state of every recovery, field by field. */
#include "engine_house.h"

#include <snapshot.h>

#include <tradewake/base/clock.h>
#include <tradewake/base/log.h>
#include <tradewake/journal/snapshot.h>
#include <tradewake/journal/walk.h>

#include <criterion/criterion.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SEGMENT_BYTES 16384u
#define REMEMBERED    60u /* copies */
#define EVENTS_REMEMBERED 10000u
#define KEPT_NS       (3600 * TW_NS_PER_S)

static uint64_t random_state, seed;
static char dir[64];

static uint64_t random_below(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

static void shell(const char *command)
{
    cr_assert_eq(system(command), 0, "%s", command);
}

/* Removes what is in a directory (NULL: the copies of ours), and then copies ours there (NULL: not). */
static void renew(const char *what, const char *copied)
{
    char command[512];
    (void)snprintf(command, sizeof command, "rm -rf --one-file-system %s %s-*%s%s%s%s", what, dir,
                   copied != NULL ? " && cp -r " : "", copied != NULL ? dir : "", copied != NULL ? " " : "",
                   copied != NULL ? copied : "");
    shell(command);
}

static void setup(void)
{
    tw_log_level_set(TW_LOG_NONE);
    (void)snprintf(dir, sizeof dir, "/tmp/tradewake-snapshot-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
}

static void teardown(void)
{
    renew(dir, NULL);
}

TestSuite(engine_snapshot, .init = setup, .fini = teardown, .timeout = 240);

static struct tw_engine_options options_here(const char *journal_dir)
{
    return (struct tw_engine_options){.journal_dir = journal_dir,
                                      .journal_syncs = false, /* nothing is cut here */
                                      .journal_segment_bytes = SEGMENT_BYTES,
                                      .copies_remembered = REMEMBERED,
                                      .events_remembered = EVENTS_REMEMBERED,
                                      .events_kept_ns = KEPT_NS};
}

static struct tw_engine_snapshot_wanted wanted_of(const char *in, uint32_t until)
{
    return (struct tw_engine_snapshot_wanted){.dir = in, .until = until, .copies_remembered = REMEMBERED,
                                              .events_remembered = EVENTS_REMEMBERED, .events_kept_ns = KEPT_NS};
}

/* How far the history has got. */
static atomic_uint_fast64_t taken = UINT64_MAX;
uint64_t __wrap_history_taken(const struct tw_engine *engine);
uint64_t __wrap_history_taken(const struct tw_engine *engine)
{
    (void)engine;
    return taken;
}

/* ---- A state, as text ---- */

struct dump {
    FILE *out;
    struct state_out bytes;
};

static void flush(struct dump *d)
{
    for (size_t i = 0; i < d->bytes.size; i++)
        (void)fprintf(d->out, "%02x", d->bytes.bytes[i]);
    (void)fputc('\n', d->out);
    d->bytes.size = 0;
}

static void dump_slot(struct dump *d, const struct tw_slot *slot)
{
    (void)fprintf(d->out, "slot %u %s deleted %d ", slot->number, slot->id, slot->is_deleted);
    state_put_follower(&d->bytes, slot);
    state_put_risk(&d->bytes, slot);
    flush(d);
}

static void dump_subscription(struct dump *d, const struct tw_subscription *subscription)
{
    (void)fprintf(d->out, "subscription %u gone %d leaving %d ", subscription->number, subscription->is_gone,
                  subscription->is_leaving);
    state_put_subscription(&d->bytes, subscription);
    flush(d);
}

static void dump_position(struct dump *d, const struct tw_position *position)
{
    struct tw_position *found = NULL;
    if (position->is_order)
        HASH_FIND_STR(position->master->orders, position->id, found);
    else
        HASH_FIND_STR(position->master->positions, position->id, found);
    (void)fprintf(d->out, "position %" PRIu64 " found %d ", position->number, found == position);
    state_put_position(&d->bytes, position);
    flush(d);
    for (const struct tw_leg_block *block = position->blocks; block != NULL; block = block->next) {
        (void)fprintf(d->out, "block\n");
        for (uint32_t i = 0; i < block->n_legs; i++) {
            state_put_leg(&d->bytes, &block->legs[i]);
            flush(d);
        }
    }
}

/* What is closed is remembered as far as memory goes, and no two starts need agree on where exactly that ends:
 * of those the newest, half as much as is remembered. */
static void dump_positions(struct dump *d, const struct recovery *r)
{
    uint64_t legs = 0;
    for (uint64_t i = r->given.position; i > 0; i--) {
        const struct tw_position *position = numbered_find(&r->positions, i);
        if (position == NULL)
            continue;
        bool is_closed = position->state != POSITION_OPEN;
        for (const struct tw_leg_block *block = position->blocks; block != NULL; block = block->next)
            legs += is_closed ? block->n_legs : 0;
        legs += is_closed;
        if (!is_closed || legs <= REMEMBERED / 2)
            dump_position(d, position);
    }
}

static void dump_master(struct dump *d, const struct tw_master *master)
{
    (void)fprintf(d->out, "master %s syncs %u ", master->id, master->n_syncs);
    state_put_master(&d->bytes, master);
    for (const struct sync *sync = master->syncs; sync != NULL; sync = sync->next)
        state_put_sync(&d->bytes, master, sync);
    flush(d);
    for (uint32_t i = 0; i < master->n_members; i++)
        (void)fprintf(d->out, "member %u\n", master->members[i]->number);
}

static void dump_record(struct dump *d, const struct tw_record *record)
{
    struct tw_record *found = NULL;
    HASH_FIND_STR(record->master->records, record->event_id, found);
    (void)fprintf(d->out, "event %" PRIu64 " found %d ", record->number, found == record);
    state_put_event(&d->bytes, record);
    flush(d);
    for (uint32_t i = 0; i < record->n_copies; i++) {
        const struct tw_copy *copy = &record->copies[i];
        if (copy->subscription == NULL)
            continue;
        (void)fprintf(d->out, "copy %" PRIu64 " leg %" PRIu64 " of %u at %u ", copy->change_id,
                      copy->leg != NULL ? copy->leg->number : 0, copy->subscription->number,
                      copy->subscription->slot->number);
        state_put_copy(&d->bytes, copy);
        flush(d);
        dump_subscription(d, copy->subscription);
        dump_slot(d, copy->subscription->slot);
    }
}

static int by_id(const struct tw_master *a, const struct tw_master *b)
{
    return strcmp(a->id, b->id);
}

static char *dump_state(struct recovery *r)
{
    char *text = NULL;
    size_t size;
    struct dump d = {.out = open_memstream(&text, &size)};
    struct tw_engine *engine = r->engine;
    for (uint64_t i = 1; i <= r->given.slot; i++) {
        struct tw_slot *slot = numbered_find(&r->slots, i), *found = NULL;
        if (slot != NULL)
            HASH_FIND_STR(engine->slots, slot->id, found);
        if (slot != NULL && slot == found)
            dump_slot(&d, slot);
    }
    for (uint64_t i = 1; i <= r->given.subscription; i++) {
        struct tw_subscription *subscription = numbered_find(&r->subscriptions, i);
        if (subscription != NULL && !subscription->is_gone)
            dump_subscription(&d, subscription);
    }
    struct tw_master *master, *next;
    HASH_SRT(hh, engine->masters, by_id);
    HASH_ITER(hh, engine->masters, master, next)
    dump_master(&d, master);
    dump_positions(&d, r);
    for (const struct tw_record *record = engine->history.oldest; record != NULL; record = record->newer)
        dump_record(&d, record);
    state_put_halts(&d.bytes, engine);
    flush(&d);
    for (uint32_t from = 0, n = 1; n > 0; from += n) {
        n = forgotten_write(engine, from, 100, &d.bytes);
        flush(&d);
    }
    (void)fprintf(d.out, "given %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", r->given.slot,
                  r->given.subscription, r->given.position, r->given.leg, r->given.record);
    (void)fprintf(d.out, "power lost %" PRId64 "\n", engine->power_lost_wall_ns);
    (void)fprintf(d.out, "horizon %" PRId64 " forgotten change %" PRIu64 " sealed %d boot %s journal %s\n",
                  engine->forgotten.horizon_wall_ns, (uint64_t)engine->journal.forgotten_change_id,
                  r->is_sealed, r->boot_id, engine->journal_id);
    (void)fclose(d.out);
    state_out_clear(&d.bytes);
    return text;
}

/* Reads a log, with its snapshots or without, and says what it comes to. */
static char *read_log(const char *from, bool with_snapshots, uint32_t expected_snapshot)
{
    struct tw_error error = {{0}};
    const struct tw_engine_snapshot_wanted wanted = wanted_of(from, 0);
    struct recovery r = {.engine = engine_shadow_new(&wanted), .error = &error};
    struct tw_journal *journal;
    const struct tw_journal_options options = {.dir = from, .segment_bytes = SEGMENT_BYTES,
                                               .snapshot = with_snapshots ? recovery_record : NULL,
                                               .replay = recovery_record, .replay_context = &r};
    cr_assert_eq(tw_journal_open(&options, &journal, &error), TW_OK, "seed %" PRIu64 ": %s", seed, error.text);
    cr_assert_eq(tw_journal_snapshot(journal), expected_snapshot);
    tw_journal_close(journal);
    recovery_settle(&r);
    char *text = dump_state(&r);
    struct tw_position *position;
    for (uint64_t i = 0; (position = numbered_next(&r.positions, &i)) != NULL;) {
        position_unhash(position);
        position_free(position);
    }
    recovery_clear(&r);
    tw_engine_stop(r.engine);
    return text;
}

static void expect_same(const char *whole, const char *other, uint32_t until)
{
    if (strcmp(whole, other) == 0)
        return;
    const char *a = whole, *b = other;
    for (const char *p = whole, *q = other; *p == *q; p++, q++)
        if (*p == '\n') {
            a = p + 1;
            b = q + 1;
        }
    cr_assert_fail("seed %" PRIu64 ", snapshot %u:\nwhole log %.*s\nsnapshot  %.*s", seed, until,
                   (int)strcspn(a, "\n"), a, (int)strcspn(b, "\n"), b);
}

/* ---- A random log ---- */

#define SETTLE_NS (100 * TW_NS_PER_MS) /* what is asked for after a crash takes longer, and may */

enum { MASTERS = 2, FOLLOWERS = 4, TICKETS = 24 };

static struct house house;
static uint64_t event_number;

static void random_event(void)
{
    static const char *const volumes[] = {"0.10", "0.30", "1.00", "0.02"};
    char master[8], id[32], position[8], order[8], other[8];
    struct tw_submitted submitted;
    (void)snprintf(master, sizeof master, "M%u", (unsigned)random_below(MASTERS));
    (void)snprintf(id, sizeof id, "e%" PRIu64, random_below(12) == 0 && event_number > 5
                                                   ? event_number - random_below(5) : ++event_number);
    (void)snprintf(position, sizeof position, "p%u", (unsigned)random_below(TICKETS));
    (void)snprintf(other, sizeof other, "p%u", (unsigned)random_below(TICKETS));
    (void)snprintf(order, sizeof order, "o%u", (unsigned)random_below(TICKETS));
    struct house_event event = {.master_id = master, .event_id = id, .position_id = position, .order_id = order,
                                .volume = volumes[random_below(4)],
                                .sequence = random_below(3) == 0 ? 0 : event_number + random_below(2)};
    switch (random_below(12)) {
    case 0: case 1: case 2: case 3:
        event.kind = TW_EVENT_OPEN;
        event.increase = random_below(5) == 0;
        event.stop_loss = random_below(3) == 0 ? "1.0" : NULL;
        break;
    case 4: case 5: case 6:
        event.kind = TW_EVENT_CLOSE;
        if (random_below(2) == 0)
            event.volume = NULL;
        else if (random_below(3) == 0)
            event.new_position_id = other;
        break;
    case 7:
        event.kind = TW_EVENT_MODIFY;
        event.stop_loss = "1.01";
        break;
    case 8: case 9:
        event.kind = TW_EVENT_PLACE;
        event.price = "1.0";
        break;
    case 10:
        event.kind = random_below(2) == 0 ? TW_EVENT_CANCEL : TW_EVENT_MODIFY_ORDER;
        event.price = "1.02";
        break;
    default:
        event.kind = TW_EVENT_TRIGGER;
    }
    if (house_submit(&house, &event, &submitted) && submitted.record != NULL)
        tw_record_release(submitted.record);
}

static void random_follower(void)
{
    static char subscriptions[MASTERS][FOLLOWERS][65];
    char follower[8], master[8];
    struct tw_refusal refusal = {0};
    uint32_t closing, m = (uint32_t)random_below(MASTERS), f = (uint32_t)random_below(FOLLOWERS);
    (void)snprintf(follower, sizeof follower, "F%u", f);
    (void)snprintf(master, sizeof master, "M%u", m);
    const Tradewake__V1__OnOpen on_open = (Tradewake__V1__OnOpen)(1 + random_below(3));
    switch (random_below(6)) {
    case 0:
        (void)tw_engine_follower_delete(house.engine, follower, on_open, &closing, &refusal);
        break;
    case 1:
        (void)tw_engine_subscription_delete(house.engine, subscriptions[m][f], on_open, &closing, &refusal);
        break;
    default:
        (void)house_follower(&house, follower, random_below(3) == 0 ? "constant:3ms" : "constant:1ms");
        (void)house_subscribe(&house, master, follower, subscriptions[m][f]);
    }
}

static void random_halt(void)
{
    char follower[8];
    struct tw_refusal refusal = {0};
    struct tw_arena arena;
    (void)snprintf(follower, sizeof follower, "F%u", (unsigned)random_below(FOLLOWERS));
    Tradewake__V1__HaltRequest halt;
    Tradewake__V1__HaltResponse answer;
    Tradewake__V1__ResumeRequest resume;
    tradewake__v1__halt_request__init(&halt);
    tradewake__v1__resume_request__init(&resume);
    halt.follower_id = resume.follower_id = follower;
    halt.close_positions = random_below(2) == 0;
    tw_arena_init(&arena, 1024 * 1024);
    if (random_below(2) == 0)
        (void)tw_engine_halt(house.engine, &halt, "somebody", &arena, &answer, &refusal);
    else
        (void)tw_engine_resume(house.engine, &resume, &refusal);
    tw_arena_clear(&arena);
}

static void random_sync(void)
{
    char master[8], id[24];
    struct tw_refusal refusal = {0};
    struct tw_arena arena;
    Tradewake__V1__SyncMasterRequest request;
    Tradewake__V1__SyncMasterResponse answer;
    Google__Protobuf__Timestamp now;
    tradewake__v1__sync_master_request__init(&request);
    google__protobuf__timestamp__init(&now);
    now.seconds = tw_wall_ns() / TW_NS_PER_S;
    (void)snprintf(master, sizeof master, "M%u", (unsigned)random_below(MASTERS));
    (void)snprintf(id, sizeof id, "s%" PRIu64, event_number);
    request.master_id = master;
    request.snapshot_id = id;
    request.taken_at = &now;
    tw_arena_init(&arena, 4 * 1024 * 1024);
    (void)tw_engine_sync(house.engine, &request, tw_mono_ns(), tw_wall_ns(), &arena, &answer, &refusal);
    tw_arena_clear(&arena);
}

/* A process of its own, that ends well or in the middle of everything. */
static void random_life(unsigned steps)
{
    house_open(&house, options_here(dir));
    for (unsigned i = 0; i < steps; i++)
        switch (random_below(40)) {
        case 0:
            random_halt();
            break;
        case 1:
            random_sync();
            break;
        case 2: case 3: case 4:
            random_follower();
            break;
        case 5: case 6:
            (void)house_settle(&house, SETTLE_NS);
            break;
        default:
            random_event();
        }
    if (random_below(2) == 0)
        (void)house_settle(&house, SETTLE_NS);
    if (random_below(2) == 0)
        house_close(&house, random_below(2) == 0);
    _exit(0);
}

static void random_log(uint64_t with_seed)
{
    seed = with_seed;
    random_state = with_seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    event_number = 0;
    renew(dir, NULL);
    for (unsigned lives = 1 + (unsigned)random_below(3); lives > 0; lives--) {
        unsigned steps = 100 + (unsigned)random_below(200);
        int status;
        (void)random_below(2);
        pid_t child = fork();
        if (child == 0)
            random_life(steps);
        cr_assert(child > 0 && waitpid(child, &status, 0) == child && status == 0, "seed %" PRIu64, seed);
        event_number += steps;
    }
}

static uint32_t sealed_segments(void)
{
    uint32_t oldest, newest;
    struct tw_error error = {{0}};
    char path[128];
    cr_assert_eq(tw_journal_span(dir, &oldest, &newest, &error), TW_OK, "%s", error.text);
    for (; newest > 1; newest--) { /* the last ones may be prepared and not begun */
        uint8_t first = 0;
        (void)snprintf(path, sizeof path, "%s/%08u.log", dir, newest);
        FILE *file = fopen(path, "rb");
        bool is_begun = file != NULL && fread(&first, 1, 1, file) == 1 && first != 0;
        if (file != NULL)
            (void)fclose(file);
        if (is_begun)
            break;
    }
    return newest - 1;
}

static void make(const char *in, uint32_t until)
{
    struct tw_error error = {{0}};
    uint64_t bytes;
    const struct tw_engine_snapshot_wanted wanted = wanted_of(in, until);
    cr_assert_eq(tw_engine_snapshot(&wanted, &bytes, &error), TW_OK, "seed %" PRIu64 ": %s", seed,
                 error.text);
}

static uint64_t logs(void)
{
    const char *more = getenv("SNAPSHOT_LOGS");
    return more != NULL ? strtoull(more, NULL, 10) : 3;
}

static uint64_t first_seed(void)
{
    const char *one = getenv("SNAPSHOT_SEED");
    return one != NULL ? strtoull(one, NULL, 10) : 1;
}

Test(engine_snapshot, a_snapshot_and_the_rest_come_to_what_the_whole_log_comes_to)
{
    uint64_t compared = 0;
    for (uint64_t at = first_seed(); at < first_seed() + logs(); at++) {
        random_log(at);
        char *whole = read_log(dir, false, 0);
        uint32_t sealed = sealed_segments();
        char copied[96];
        (void)snprintf(copied, sizeof copied, "%s-copied", dir);
        uint32_t step = 1 + sealed / 5; /* each of them says the same */
        for (uint32_t until = 1 + (uint32_t)random_below(step); until <= sealed; until += step, compared++) {
            renew(copied, copied);
            make(copied, until);
            char *some = read_log(copied, true, until);
            expect_same(whole, some, until);
            free(some);
        }
        free(whole);
    }
    cr_expect_gt(compared, 8, "the logs are too short: %" PRIu64, compared);
}

/* Each from the one before it, with the segments behind the older one only, as the server keeps them. */
Test(engine_snapshot, snapshots_of_snapshots_lose_nothing)
{
    for (uint64_t at = first_seed() + 100; at < first_seed() + 100 + logs(); at++) {
        random_log(at);
        char *whole = read_log(dir, false, 0);
        uint32_t sealed = sealed_segments(), oldest = 1, last = 0;
        char path[128];
        for (uint32_t until = 1; until <= sealed; last = until, until += 1 + (uint32_t)random_below(3)) {
            make(dir, until);
            for (; oldest < last; oldest++) {
                (void)snprintf(path, sizeof path, "%s/%08u.log", dir, oldest);
                cr_assert_eq(unlink(path), 0);
            }
        }
        char *some = read_log(dir, true, last);
        expect_same(whole, some, last);
        free(some);
        free(whole);
    }
}

/* More than a chunk, so that the legs of a position lie in two blocks. */
Test(engine_snapshot, a_position_of_many_followers_is_whole)
{
    enum { MANY = 300 };
    struct tw_submitted submitted;
    house_open(&house, options_here(dir));
    for (unsigned i = 0; i < MANY; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "F%u", i);
        cr_assert(house_follower(&house, id, "constant:1ms") && house_subscribe(&house, "M1", id, NULL), "%s",
                  house.reason);
    }
    for (unsigned i = 0; i < 2; i++) {
        const struct house_event event = {.kind = i == 0 ? TW_EVENT_OPEN : TW_EVENT_CLOSE, .master_id = "M1",
                                          .event_id = i == 0 ? "open" : "close", .position_id = "p1",
                                          .volume = i == 0 ? "1.00" : "0.40"};
        cr_assert(house_submit(&house, &event, &submitted), "%s", house.reason);
        tw_record_release(submitted.record);
        (void)house_settle(&house, 0);
    }
    house_close(&house, true);
    char *whole = read_log(dir, false, 0);
    make(dir, sealed_segments());
    char *some = read_log(dir, true, sealed_segments());
    expect_same(whole, some, sealed_segments());
    free(whole);
    free(some);
}

/* ---- The engine, with its own thread ---- */

static uint32_t directory_count(const char *suffix)
{
    char command[256];
    unsigned n = 0;
    (void)snprintf(command, sizeof command, "ls %s | grep -c '%s$'", dir, suffix);
    FILE *ls = popen(command, "r");
    cr_assert(ls != NULL && fscanf(ls, "%u", &n) == 1);
    (void)pclose(ls);
    return n;
}

static void submit(uint64_t number, bool closes, struct tw_submitted *ret)
{
    char id[32], position[32];
    (void)snprintf(id, sizeof id, "e%" PRIu64 "%c", number, closes ? 'c' : 'o');
    (void)snprintf(position, sizeof position, "p%" PRIu64, number);
    const struct house_event event = {.kind = closes ? TW_EVENT_CLOSE : TW_EVENT_OPEN, .master_id = "M1",
                                      .event_id = id, .position_id = position,
                                      .volume = closes ? NULL : "0.10"};
    cr_assert(house_submit(&house, &event, ret), "%s: %s", id, house.reason);
}

static void open_and_close(uint64_t from, uint64_t until)
{
    struct tw_submitted submitted;
    for (uint64_t i = from; i < until; i++) {
        submit(i, false, &submitted);
        tw_record_release(submitted.record);
        submit(i, true, &submitted);
        tw_record_release(submitted.record);
    }
    (void)house_settle(&house, 0);
}

static void await_snapshot(uint32_t at_least)
{
    uint32_t newest[2] = {0};
    struct tw_error error = {{0}};
    const struct timespec moment = {0, 10 * TW_NS_PER_MS};
    while (newest[0] < at_least) {
        cr_assert_eq(tw_snapshot_newest(dir, newest, &error), TW_OK);
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
    }
}

Test(engine_snapshot, a_long_log_is_short_on_the_disk_and_answers_as_before)
{
    enum { EVENTS = 240 };
    struct tw_engine_options options = options_here(dir);
    options.snapshot_segments = 3;
    struct tw_submitted submitted;
    for (uint32_t life = 0; life < 3; life++) {
        house_open(&house, options);
        if (life == 0)
            cr_assert(house_follower(&house, "F1", "constant:1ms") && house_subscribe(&house, "M1", "F1", NULL),
                  "%s", house.reason);
        for (uint32_t part = 0; part < 3; part++) { /* the last two snapshots are not far from each other */
            open_and_close(life * EVENTS + part * EVENTS / 3, life * EVENTS + (part + 1) * EVENTS / 3);
            if (life == 2)
                await_snapshot(sealed_segments() - 2);
        }
        house_close(&house, life != 1);
    }
    cr_expect_leq(directory_count(".log"), 14, "%u segments", directory_count(".log"));
    cr_expect_eq(directory_count(".snapshot"), 2);

    house_open(&house, options);
    for (uint64_t i = 0; i < 3 * EVENTS; i += 7) {
        submit(i, i % 2 == 0, &submitted);
        cr_expect(submitted.is_duplicate, "event %" PRIu64, i);
        if (submitted.record != NULL)
            tw_record_release(submitted.record);
        else
            cr_expect_eq(submitted.forgotten_accepted, 1, "event %" PRIu64, i);
    }
    house_close(&house, true);
}

Test(engine_snapshot, what_somebody_still_reads_is_not_removed)
{
    struct tw_engine_options options = options_here(dir);
    options.snapshot_segments = 2;
    house_open(&house, options);
    taken = 0;
    cr_assert(house_follower(&house, "F1", "constant:1ms") && house_subscribe(&house, "M1", "F1", NULL),
                  "%s", house.reason);
    open_and_close(0, 300);
    await_snapshot(sealed_segments() - 1);
    open_and_close(300, 400);
    await_snapshot(sealed_segments() - 1);
    char path[128];
    (void)snprintf(path, sizeof path, "%s/00000001.log", dir);
    cr_expect_eq(access(path, F_OK), 0);
    taken = UINT64_MAX;
    const struct timespec moment = {0, 10 * TW_NS_PER_MS};
    while (access(path, F_OK) == 0) /* gone at the next look */
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
    house_close(&house, true);
}
