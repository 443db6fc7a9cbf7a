/* What is known of events whose copies are forgotten: server/engine/src/forgotten.c. */
#include <internal.h>

#include <tradewake/base/clock.h>

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 1000000, MORE = 60000 };

static struct tw_engine *engine;
static struct tw_master *master;
static struct tw_record *record;

static void open_engine(void)
{
    engine = calloc(1, sizeof *engine);
    master = calloc(1, sizeof *master);
    record = calloc(1, sizeof *record);
    cr_assert(engine != NULL && master != NULL && record != NULL && forgotten_init(engine, KEPT, 7 * 24 * 3600 * TW_NS_PER_S));
    snprintf(master->id, sizeof master->id, "M1");
    record->master = master;
    record->origin = TRADEWAKE__V1__COPY_ORIGIN__COPY_ORIGIN_EVENT;
}

static void close_engine(void)
{
    forgotten_clear(engine);
    free(record);
    free(master);
    free(engine);
}

static void hash_of(uint32_t number, uint8_t ret[TW_EVENT_HASH_BYTES])
{
    memset(ret, 0, TW_EVENT_HASH_BYTES);
    memcpy(ret, &number, sizeof number);
}

static void forget(uint32_t number, int64_t received_wall_ns)
{
    snprintf(record->event_id, sizeof record->event_id, "e%u", number);
    hash_of(number, record->hash);
    record->received_wall_ns = received_wall_ns;
    record->accepted = number;
    forgotten_add(engine, record);
}

enum found { NEW, DUPLICATE, REUSED, TOO_OLD };

static enum found find(uint32_t number, uint32_t content, int64_t observed_wall_ns)
{
    char event_id[TW_ID_BYTES];
    struct tw_submitted submitted;
    struct tw_refusal refusal = {0};
    uint8_t hash[TW_EVENT_HASH_BYTES];
    snprintf(event_id, sizeof event_id, "e%u", number);
    const struct tw_event event = {.master_id = "M1", .event_id = event_id, .observed_wall_ns = observed_wall_ns};
    hash_of(content, hash);
    if (forgotten_find(engine, &event, hash, &submitted, &refusal)) {
        cr_assert(!submitted.is_duplicate || submitted.forgotten_accepted == number);
        return submitted.is_duplicate ? DUPLICATE : NEW;
    }
    return refusal.reason == TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_EVENT_TOO_OLD ? TOO_OLD : REUSED;
}

Test(engine_forgotten, a_repeat_is_known_and_its_id_is_not_for_another, .init = open_engine, .fini = close_engine)
{
    int64_t now_ns = tw_wall_ns();
    forget(7, now_ns);
    cr_expect_eq(find(7, 7, now_ns), DUPLICATE);
    cr_expect_eq(find(7, 8, now_ns), REUSED);
    cr_expect_eq(find(8, 8, now_ns - TW_NS_PER_S * 3600), NEW, "nothing was dropped yet: no horizon");
    snprintf(master->id, sizeof master->id, "M2");
    forget(9, now_ns);
    cr_expect_eq(find(9, 9, now_ns), NEW, "it is of another master");
}

Test(engine_forgotten, beyond_a_million_the_oldest_go_and_become_too_old, .init = open_engine, .fini = close_engine)
{
    int64_t start_ns = tw_wall_ns() - 3600 * TW_NS_PER_S;
    for (uint32_t i = 0; i < KEPT + MORE; i++)
        forget(i, start_ns + i);
    for (uint32_t i = 0; i < MORE; i += 97)
        cr_assert_eq(find(i, i, start_ns + i), TOO_OLD, "event %u", i);
    for (uint32_t i = MORE; i < KEPT + MORE; i += 97)
        cr_assert_eq(find(i, i, start_ns + i), DUPLICATE, "event %u", i);
    cr_expect_eq(find(KEPT + MORE, KEPT + MORE, tw_wall_ns()), NEW);
    cr_expect_eq(find(KEPT + MORE, KEPT + MORE, start_ns + MORE - 1), TOO_OLD, "observed at the horizon");
}

Test(engine_forgotten, after_seven_days_one_goes, .init = open_engine, .fini = close_engine)
{
    int64_t day_ns = 24 * 3600 * TW_NS_PER_S, now_ns = tw_wall_ns();
    forget(1, now_ns - 8 * day_ns);
    forget(2, now_ns - 6 * day_ns);
    forget(3, now_ns);
    cr_expect_eq(find(1, 1, now_ns - 8 * day_ns), TOO_OLD);
    cr_expect_eq(find(2, 2, now_ns - 6 * day_ns), DUPLICATE);
    cr_expect_eq(find(3, 3, now_ns), DUPLICATE);
}
