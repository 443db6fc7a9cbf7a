/* After a power cut: what the log has not, and the broker may have, when the upstream sends it once more. */
#include "engine_house.h"

#include <state.h>

#include <tradewake/base/log.h>

#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A life here ends as a process does, whose timers and threads' own buffers go with it: LeakSanitizer is told so. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:wake_at\nleak:out_room\n";
}

#define LOTS(hundredths) ((tw_decimal)(hundredths) * (TW_DECIMAL_ONE / 100))

static struct house house;
static char dir[64], journal_dir[80], paper_dir[80];
static int64_t before_the_cut_ns;

/* ---- A disk whose syncs can be held up ---- */

static atomic_bool is_held;

static int held_sync(void *context, int fd)
{
    const struct tw_journal_disk *real = tw_journal_disk_real();
    (void)context;
    while (atomic_load(&is_held))
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){0, TW_NS_PER_MS}, NULL);
    return real->fdatasync(real->context, fd);
}

static struct tw_journal_disk disk;

static void setup(void)
{
    tw_log_level_set(TW_LOG_NONE);
    (void)snprintf(dir, sizeof dir, "/tmp/tradewake-power-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    (void)snprintf(journal_dir, sizeof journal_dir, "%s/journal", dir);
    (void)snprintf(paper_dir, sizeof paper_dir, "%s/paper", dir);
    cr_assert_eq(mkdir(paper_dir, 0700), 0);
    house.paper_dir = paper_dir;
    disk = *tw_journal_disk_real();
    disk.fdatasync = held_sync;
}

static void teardown(void)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf --one-file-system %s", dir);
    cr_assert_eq(system(command), 0);
}

TestSuite(engine_power, .init = setup, .fini = teardown, .timeout = 60);

static void start(const char *boot_id)
{
    house_open(&house, (struct tw_engine_options){.journal_dir = journal_dir,
                                                  .journal_syncs = true,
                                                  .journal_segment_bytes = 65536,
                                                  .journal_disk = &disk,
                                                  .boot_id = boot_id,
                                                  .copies_remembered = 1000,
                                                  .events_remembered = 1000,
                                                  .events_kept_ns = 3600 * TW_NS_PER_S});
}

static struct tw_slot *slot(void)
{
    struct tw_slot *found = NULL;
    HASH_FIND_STR(house.engine->slots, "F", found);
    cr_assert_not_null(found);
    return found;
}

static struct tw_leg *leg(void)
{
    struct tw_position *position = NULL;
    HASH_FIND_STR(house.engine->masters->positions, "p1", position);
    if (position == NULL)
        HASH_FIND_STR(house.engine->masters->orders, "p1", position);
    cr_assert_not_null(position);
    return position_leg(position, slot());
}

/* One follower that holds 0.40. */
static void life_before_of(const char *const *config, const struct house_event *event)
{
    start("before");
    cr_assert(house_follower_with(&house, "F", config), "%s", house.reason);
    cr_assert(house_subscribe(&house, "M", "F", NULL), "%s", house.reason);
    struct tw_submitted open;
    cr_assert(house_submit(&house, event, &open), "%s", house.reason);
    cr_assert(house_settle(&house, 20 * TW_NS_PER_S));
    tw_record_release(open.record);
    cr_assert_eq(leg()->held, LOTS(40));
    before_the_cut_ns = tw_wall_ns();
}

static void moment(void)
{
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){0, TW_NS_PER_MS}, NULL);
}

/* Its copies wait for a look-up now and then: then nothing is queued, and it is not over. */
static void end_awaited(struct tw_record *record)
{
    while (tw_record_pending(record, TW_WAIT_DONE) > 0)
        moment();
}

static void life_before(const char *const *config)
{
    life_before_of(config, &(struct house_event){.kind = TW_EVENT_OPEN, .master_id = "M", .event_id = "e1",
                                                 .position_id = "p1", .volume = "0.40"});
}

static bool is_mended(struct tw_slot *of, const struct tw_leg *which)
{
    pthread_mutex_lock(&of->mutex);
    bool mended = which->is_mended;
    pthread_mutex_unlock(&of->mutex);
    return mended;
}

static void life_after(void)
{
    house_close(&house, false);
    start("after");
    cr_assert_neq(house.engine->power_lost_wall_ns, 0);
    while (!is_mended(slot(), leg())) /* its broker has been asked for everything */
        moment();
}

static tw_decimal held_there(void)
{
    struct tw_snapshot snapshot = {0};
    struct tw_adapter_call call = {.deadline_mono_ns = tw_mono_ns() + TW_NS_PER_S, .snapshot = &snapshot};
    slot()->ops->snapshot(slot()->session, &call);
    cr_assert_eq(call.ack.outcome, TW_OUTCOME_DONE);
    tw_decimal volume = 0;
    for (size_t i = 0; i < snapshot.n_positions; i++)
        volume += snapshot.positions[i].volume;
    tw_snapshot_clear(&snapshot);
    return volume;
}

/* An event whose answer the run before had not given. Returns what the copy filled. */
static tw_decimal comes_again(struct house_event event)
{
    struct tw_submitted close;
    event.master_id = "M";
    event.event_id = "e2";
    event.observed_wall_ns = before_the_cut_ns;
    cr_assert(house_submit(&house, &event, &close), "%s", house.reason);
    end_awaited(close.record);
    tw_decimal filled = close.record->copies[0].filled;
    tw_record_release(close.record);
    return filled;
}

/* volume NULL = of all. */
static tw_decimal close_comes_again(const char *volume)
{
    return comes_again((struct house_event){.kind = TW_EVENT_CLOSE, .position_id = "p1", .volume = volume});
}

/* An order that the run before sent, and the log knows nothing of. */
static void broker_traded(enum tw_side side, const char *event_id, const char *position_id, const char *action,
                          tw_decimal volume)
{
    struct tw_adapter_call call = {
        .deadline_mono_ns = tw_mono_ns() + TW_NS_PER_S,
        .order = {.op = side == TW_SELL ? TW_OP_CLOSE : TW_OP_OPEN, .side = side, .type = TW_ORDER_MARKET,
                  .symbol = "EURUSD", .reduce_only = side == TW_SELL}};
    const struct tw_copy_id_input input = {
        .master_id = "M", .event_id = event_id, .follower_id = "F", .subject_id = position_id, .action = action};
    tw_copy_id(&input, call.order.client_order_id);
    memcpy(call.order.position_id, leg()->ticket, sizeof call.order.position_id);
    call.order.volume = volume;
    call.order.price = call.order.stop_price = TW_DECIMAL_UNSET;
    call.order.stop_loss = call.order.take_profit = TW_DECIMAL_UNSET;
    slot()->ops->execute(slot()->session, &call);
    cr_assert_eq(call.ack.outcome, TW_OUTCOME_DONE);
}

static void broker_sold(const char *event_id, const char *position_id, const char *action, tw_decimal volume)
{
    broker_traded(TW_SELL, event_id, position_id, action, volume);
}

static void broker_closed(const char *action, tw_decimal volume)
{
    broker_sold("e2", "p1", action, volume);
}

#define QUICK "latency", "constant:1ms", "call_timeout", "100ms", "settle", "20ms"

static const char *const plain[] = {QUICK, NULL};
static const char *const netting[] = {QUICK, "account_mode", "netting", NULL};
static const char *const new_tickets[] = {QUICK, "remainder", "new_ticket", NULL};
static const char *const first_close_is_lost[] = {QUICK, "faults", "close#1=timeout_executed", NULL};

Test(engine_power, a_part_that_was_never_sent_is_counted_once_when_its_answer_is_lost)
{
    life_before(first_close_is_lost);
    life_after();
    cr_expect_eq(close_comes_again("0.30"), LOTS(30));
    cr_expect_eq(held_there(), LOTS(10));
    cr_expect_eq(leg()->held, LOTS(10));
    house_close(&house, true);
}

Test(engine_power, a_part_that_was_sent_is_not_sent_again)
{
    life_before(plain);
    broker_closed("PARTIAL_CLOSE", LOTS(30));
    life_after();
    (void)close_comes_again("0.30");
    cr_expect_eq(held_there(), LOTS(10));
    cr_expect_eq(leg()->held, LOTS(10));
    house_close(&house, true);
}

/* The order was on its way when the power went, and arrives after the broker was asked what it holds. */
Test(engine_power, a_part_that_arrives_after_the_comparison_is_not_sent_again)
{
    life_before(new_tickets);
    life_after();
    broker_closed("PARTIAL_CLOSE", LOTS(30));
    cr_expect_eq(close_comes_again("0.30"), LOTS(30));
    cr_expect_eq(held_there(), LOTS(10));
    cr_expect_eq(leg()->held, LOTS(10));
    house_close(&house, true);
}

Test(engine_power, a_close_that_was_carried_out_in_part_goes_on_under_another_id)
{
    life_before(plain);
    broker_closed("CLOSE", LOTS(10));
    life_after();
    cr_expect_eq(close_comes_again(NULL), LOTS(40));
    cr_expect_eq(held_there(), 0);
    house_close(&house, true);
}

/* An order that filled at once, whose cancel closes what it became. */
Test(engine_power, a_cancel_that_closed_in_part_goes_on_under_another_id)
{
    static const char *const beyond[] = {QUICK, "quotes", "{\"EURUSD\":\"1.1/1.1001\"}", NULL};
    life_before_of(beyond, &(struct house_event){.kind = TW_EVENT_PLACE, .master_id = "M", .event_id = "e1",
                                                 .order_id = "p1", .volume = "0.40", .price = "1.2"});
    broker_closed("CANCEL", LOTS(10));
    life_after();
    cr_expect_eq(comes_again((struct house_event){.kind = TW_EVENT_CANCEL, .order_id = "p1"}), LOTS(40));
    cr_expect_eq(held_there(), 0);
    house_close(&house, true);
}

/* It was increased, and the rest of the second order's position has another ticket, of which nobody was told. */
Test(engine_power, the_rest_of_one_of_two_tickets_is_found_under_its_new_one)
{
    life_before(new_tickets);
    struct tw_submitted increase;
    cr_assert(house_submit(&house,
                           &(struct house_event){.kind = TW_EVENT_OPEN, .master_id = "M", .event_id = "e1b",
                                                 .position_id = "p1", .volume = "0.30", .increase = true},
                           &increase));
    end_awaited(increase.record);
    tw_record_release(increase.record);
    cr_assert(house_settle(&house, 20 * TW_NS_PER_S));
    before_the_cut_ns = tw_wall_ns();
    broker_closed("PARTIAL_CLOSE", LOTS(20)); /* of the newer one */
    life_after();
    cr_expect_eq(leg()->held, LOTS(50));
    (void)close_comes_again("0.20");
    cr_expect_eq(held_there(), LOTS(50));
    cr_assert(house_settle(&house, 20 * TW_NS_PER_S));
    struct tw_submitted close;
    cr_assert(house_submit(&house,
                           &(struct house_event){.kind = TW_EVENT_CLOSE, .master_id = "M", .event_id = "e3",
                                                 .position_id = "p1"},
                           &close));
    end_awaited(close.record);
    tw_record_release(close.record);
    cr_expect_eq(held_there(), 0);
    house_close(&house, true);
}

/* ---- A plan that comes between an outcome's writing down and its place in the log ---- */

static const struct house_event *comes_between; /* submitted when the next outcome is about to be appended ... */
static atomic_bool is_cut;                      /* ... which the power takes, with all that would come after it */
static uint64_t last_kept;
static struct tw_record *came_between;

uint64_t __real_tw_journal_append(struct tw_journal *journal, uint16_t type, const void *bytes, size_t size);
uint64_t __wrap_tw_journal_append(struct tw_journal *journal, uint16_t type, const void *bytes, size_t size);
uint64_t __wrap_tw_journal_append(struct tw_journal *journal, uint16_t type, const void *bytes, size_t size)
{
    if (type == STATE_OUTCOME && comes_between != NULL) {
        const struct house_event *event = comes_between;
        struct tw_submitted submitted;
        comes_between = NULL;
        cr_assert(house_submit(&house, event, &submitted), "%s", house.reason);
        came_between = submitted.record;
        last_kept = tw_journal_appended(journal);
        atomic_store(&is_cut, true);
    }
    return atomic_load(&is_cut) ? last_kept : __real_tw_journal_append(journal, type, bytes, size);
}

/* What the event did is at the broker; its outcome is not in the log, but the plan of the change is. */
static void outcome_lost(const struct house_event *event)
{
    static const struct house_event change = {.kind = TW_EVENT_MODIFY, .master_id = "M", .event_id = "e9",
                                              .position_id = "p1", .stop_loss = "1.0"};
    struct tw_submitted submitted;
    comes_between = &change;
    cr_assert(house_submit(&house, event, &submitted), "%s", house.reason);
    while (!atomic_load(&is_cut))
        moment();
    end_awaited(submitted.record);
    end_awaited(came_between);
    tw_record_release(submitted.record);
    tw_record_release(came_between);
    house_close(&house, false);
    atomic_store(&is_cut, false);
    start("after");
    cr_assert(house_settle(&house, 20 * TW_NS_PER_S));
}

Test(engine_power, an_open_whose_outcome_a_plan_overtook_is_counted_once)
{
    start("before");
    cr_assert(house_follower_with(&house, "F", netting), "%s", house.reason);
    cr_assert(house_subscribe(&house, "M", "F", NULL), "%s", house.reason);
    outcome_lost(&(struct house_event){.kind = TW_EVENT_OPEN, .master_id = "M", .event_id = "e1", .position_id = "p1",
                                       .volume = "0.40"});
    cr_expect_eq(held_there(), LOTS(40));
    cr_expect_eq(leg()->held, LOTS(40));
    house_close(&house, true);
}

/* ---- A netting account's one position ---- */

Test(engine_power, a_part_whose_outcome_a_plan_overtook_is_counted_once)
{
    life_before(netting);
    outcome_lost(&(struct house_event){.kind = TW_EVENT_CLOSE, .master_id = "M", .event_id = "e2", .position_id = "p1",
                                       .volume = "0.30"});
    cr_expect_eq(held_there(), LOTS(10));
    cr_expect_eq(leg()->held, LOTS(10));
    house_close(&house, true);
}

/* The open of a short position had closed the long one for its own, when the power went. Its event is sent again only
 * after the close of the long one, which is new and finds nothing. */
Test(engine_power, a_share_that_an_unknown_order_closed_is_closed_when_that_order_is_known)
{
    life_before(netting);
    broker_sold("e3", "p2", "OPEN", LOTS(40));
    house_close(&house, false);
    start("after");

    struct tw_submitted close, open;
    cr_assert(house_submit(&house,
                           &(struct house_event){.kind = TW_EVENT_CLOSE, .master_id = "M", .event_id = "e2",
                                                 .position_id = "p1"},
                           &close));
    end_awaited(close.record);
    cr_expect_eq(close.record->copies[0].filled, 0);
    tw_record_release(close.record);
    cr_assert(house_submit(&house,
                           &(struct house_event){.kind = TW_EVENT_OPEN, .master_id = "M", .event_id = "e3",
                                                 .position_id = "p2", .volume = "0.60", .is_sell = true,
                                                 .observed_wall_ns = before_the_cut_ns},
                           &open));
    end_awaited(open.record);
    cr_expect_eq(open.record->copies[0].filled, LOTS(60));
    tw_record_release(open.record);
    while (held_there() != LOTS(60)) /* 0.20 short until the long share, too, has been closed */
        moment();
    cr_assert(house_settle(&house, 20 * TW_NS_PER_S));
    cr_expect(leg()->is_closed);
    house_close(&house, true);
}

static uint32_t open_positions(void)
{
    pthread_mutex_lock(&slot()->mutex);
    uint32_t n = slot()->open_positions;
    pthread_mutex_unlock(&slot()->mutex);
    return n;
}

/* The close of e4 first, then e3, the open that it closes. */
static void close_and_open_come_again(void)
{
    house_close(&house, false);
    start("after");

    static struct house_event again[] = {
        {.kind = TW_EVENT_CLOSE, .master_id = "M", .event_id = "e4", .position_id = "p2"},
        {.kind = TW_EVENT_OPEN, .master_id = "M", .event_id = "e3", .position_id = "p2", .volume = "0.30"},
    };
    for (size_t i = 0; i < sizeof again / sizeof again[0]; i++) {
        struct tw_submitted submitted;
        again[i].observed_wall_ns = before_the_cut_ns;
        cr_assert(house_submit(&house, &again[i], &submitted), "%s", house.reason);
        end_awaited(submitted.record);
        tw_record_release(submitted.record);
    }
    while (open_positions() > 1) /* until what the open is found to have done has been closed, in one way or the other */
        moment();
    cr_assert(house_settle(&house, 20 * TW_NS_PER_S));
}

/* Both are sent again, the close before its open: what the open had bought is sold already, and nothing more is to be sold
 * of the other share. */
Test(engine_power, a_close_that_comes_before_its_open_and_was_carried_out_is_not_carried_out_again)
{
    life_before(netting);
    broker_traded(TW_BUY, "e3", "p2", "OPEN", LOTS(30));
    broker_sold("e4", "p2", "CLOSE", LOTS(30));
    close_and_open_come_again();
    cr_expect_eq(held_there(), LOTS(40));
    cr_expect_eq(leg()->held, LOTS(40));
    house_close(&house, true);
}

/* The close had not been carried out: it is now, when nothing is found of it. */
Test(engine_power, a_close_that_comes_before_its_open_and_was_not_carried_out_is)
{
    life_before(netting);
    broker_traded(TW_BUY, "e3", "p2", "OPEN", LOTS(30));
    close_and_open_come_again();
    cr_expect_eq(held_there(), LOTS(40));
    house_close(&house, true);
}

/* ---- What the service does by itself comes under no id that anybody would send again ---- */

static bool waits_for_journal(struct tw_copy *copy)
{
    pthread_mutex_lock(&slot()->mutex);
    bool waits = copy->waits_for_journal;
    pthread_mutex_unlock(&slot()->mutex);
    return waits;
}

Test(engine_power, a_repair_is_sent_once_it_is_durable)
{
    life_before(plain);
    struct tw_position *position = leg()->position;
    atomic_store(&is_held, true);
    pthread_mutex_lock(&position->master->mutex);
    struct tw_record *record = sequencer_close_legs(position->master, position, NULL, ORIGIN(REPAIR), "~repair/1");
    pthread_mutex_unlock(&position->master->mutex);
    cr_assert_not_null(record);
    while (!waits_for_journal(&record->copies[0]))
        moment();
    cr_expect_eq(held_there(), LOTS(40));
    atomic_store(&is_held, false);
    end_awaited(record);
    cr_expect_eq(record->copies[0].state, STATE(DONE));
    cr_expect_eq(held_there(), 0);
    tw_record_release(record);
    house_close(&house, true);
}

/* ---- What may have been sent is told ---- */

Test(engine_power, a_further_order_that_is_asked_for_first_is_among_the_ids_sent)
{
    start("before");
    cr_assert(house_follower_with(&house, "F", plain), "%s", house.reason);
    struct tw_subscription subscription = {.slot = slot()};
    struct tw_record record = {.engine = house.engine};
    struct tw_copy copy = {.record = &record, .subscription = &subscription, .op = TW_OP_OPEN, .calls = 1,
                           .last_op = TW_OP_CLOSE, .order_leg = 1, .leg_ids = {1, 0}};
    copy_ask_first(&copy);
    cr_expect_eq(copy.leg_ids[1], 1); /* its call may have come between what was written and the end */
    cr_expect_eq(copy.leg_ids[0], 1);
    cr_expect_eq(copy.last_op, TW_OP_CLOSE);
    house_close(&house, true);
}
