/* The last gate: what it lets through, what trips it, and what it costs. */
#include <tradewake/base/clock.h>
#include <tradewake/core/last_gate.h>

#include <criterion/criterion.h>
#include <stdio.h>

#define LOT TW_DECIMAL_ONE
#define NOW_NS (INT64_C(20000) * 86400 * TW_NS_PER_S) /* a midnight, UTC */

/* n tells one order from another. */
static struct tw_gate_order order(unsigned n)
{
    char id[TW_COPY_ID_BYTES];
    snprintf(id, sizeof id, "T1%018u", n);
    return (struct tw_gate_order){
        .id = tw_gate_id(id), .is_first = true, .volume = LOT, .planned = LOT, .contract_size = 100000 * LOT,
        .price = 11 * LOT / 10, .window_end_wall_ns = NOW_NS + TW_NS_PER_S, .now_mono_ns = TW_NS_PER_S, .now_wall_ns = NOW_NS,
    };
}

static const struct {
    char name[48];
    enum tw_breach expected;
    struct tw_gate_limits limits;
    struct tw_gate_order order; /* what is other than in order(); 0 = the same */
} rows[] = {
    {"without limits", TW_BREACH_NONE, {0}, {0}},
    {"at the limit of volume", TW_BREACH_NONE, {.order_volume = LOT}, {0}},
    {"above it", TW_BREACH_VOLUME, {.order_volume = LOT - 1}, {0}},
    {"at the limit of money", TW_BREACH_NONE, {.order_notional = 110000 * LOT}, {0}},
    {"above it", TW_BREACH_NOTIONAL, {.order_notional = 110000 * LOT - 1}, {0}},
    {"nobody knows a price", TW_BREACH_NOTIONAL, {.order_notional = INT64_MAX}, {.price = TW_DECIMAL_UNSET}},
    {"nobody knows the contract", TW_BREACH_NOTIONAL, {.order_notional = INT64_MAX}, {.contract_size = -1}},
    {"more money than there are numbers", TW_BREACH_NOTIONAL, {.order_notional = INT64_MAX}, {.contract_size = INT64_MAX}},
    {"without a limit no price is needed", TW_BREACH_NONE, {0}, {.price = TW_DECIMAL_UNSET}},
    {"larger than planned", TW_BREACH_PLANNED, {0}, {.planned = LOT - 1}},
    {"its window ended just now", TW_BREACH_NONE, {0}, {.window_end_wall_ns = NOW_NS - TW_NS_PER_S}},
    {"its window is over", TW_BREACH_STALE, {0}, {.window_end_wall_ns = NOW_NS - TW_NS_PER_S - 1}},
};

Test(core_last_gate, every_limit_from_both_sides)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tw_last_gate gate = {0};
        struct tw_gate_order asked = order(1);
        const struct tw_gate_order *other = &rows[i].order;
        asked.planned = other->planned != 0 ? other->planned : asked.planned;
        asked.price = other->price != 0 ? other->price : asked.price;
        asked.contract_size = other->contract_size != 0 ? other->contract_size : asked.contract_size;
        asked.window_end_wall_ns = other->window_end_wall_ns != 0 ? other->window_end_wall_ns : asked.window_end_wall_ns;
        tw_last_gate_plan(&gate);

        cr_expect_eq(tw_last_gate_ask(&gate, &rows[i].limits, &asked), rows[i].expected, "%s: %s", rows[i].name,
                     tw_breach_word(tw_last_gate_ask(&gate, &rows[i].limits, &asked)));
    }
}

Test(core_last_gate, an_order_that_was_not_planned_is_none)
{
    struct tw_last_gate gate = {0};
    const struct tw_gate_limits none = {0};
    struct tw_gate_order first = order(1), second = order(2);

    tw_last_gate_plan(&gate);
    cr_expect_eq(tw_last_gate_ask(&gate, &none, &first), TW_BREACH_NONE);
    tw_last_gate_count(&gate, &none, &first);
    cr_expect_eq(tw_last_gate_ask(&gate, &none, &second), TW_BREACH_PLANNED);

    first.is_first = false; /* the same order again: it is out already */
    first.is_counted = true;
    cr_expect_eq(tw_last_gate_ask(&gate, &none, &first), TW_BREACH_NONE);
}

Test(core_last_gate, an_id_goes_out_for_one_order)
{
    struct tw_last_gate gate = {0};
    const struct tw_gate_limits none = {0};
    struct tw_gate_order first = order(1);

    tw_last_gate_plan(&gate);
    tw_last_gate_plan(&gate);
    tw_last_gate_count(&gate, &none, &first);
    cr_expect_eq(tw_last_gate_ask(&gate, &none, &first), TW_BREACH_DUPLICATE);
}

Test(core_last_gate, a_thousand_ids_are_no_duplicates)
{
    struct tw_last_gate gate = {0};
    const struct tw_gate_limits none = {0};

    for (unsigned i = 0; i < 1000; i++) {
        struct tw_gate_order next = order(i);
        tw_last_gate_plan(&gate);
        cr_assert_eq(tw_last_gate_ask(&gate, &none, &next), TW_BREACH_NONE, "%u", i);
        tw_last_gate_count(&gate, &none, &next);
    }
}

/* How many of n orders, one each step_ns, it lets through before it says something else. */
static unsigned passed(struct tw_last_gate *gate, const struct tw_gate_limits *limits, unsigned n, int64_t step_ns,
                       enum tw_breach *ret_breach)
{
    for (unsigned i = 0; i < n; i++) {
        struct tw_gate_order next = order(i);
        next.now_mono_ns += i * step_ns;
        next.now_wall_ns += i * step_ns;
        next.window_end_wall_ns = INT64_MAX;
        tw_last_gate_plan(gate);
        *ret_breach = tw_last_gate_ask(gate, limits, &next);
        if (*ret_breach != TW_BREACH_NONE)
            return i;
        tw_last_gate_count(gate, limits, &next);
    }
    return n;
}

Test(core_last_gate, so_many_in_a_second)
{
    const struct tw_gate_limits limits = {.orders_per_second = 10};
    struct tw_last_gate at_once = {0}, steady = {0};
    enum tw_breach breach;

    cr_expect_eq(passed(&at_once, &limits, 100, 0, &breach), 10u);
    cr_expect_eq(breach, TW_BREACH_RATE);
    cr_expect_eq(passed(&steady, &limits, 1000, TW_NS_PER_S / 10, &breach), 1000u, "ten a second, for ever");
}

Test(core_last_gate, so_many_in_a_day_and_the_next_day_again)
{
    const struct tw_gate_limits limits = {.orders_per_day = 24};
    struct tw_last_gate hourly = {0}, faster = {0};
    enum tw_breach breach;

    cr_expect_eq(passed(&hourly, &limits, 1000, 3600 * TW_NS_PER_S, &breach), 1000u);
    cr_expect_eq(passed(&faster, &limits, 1000, 3599 * TW_NS_PER_S, &breach), 24u);
    cr_expect_eq(breach, TW_BREACH_DAY);
}

Test(core_last_gate, once_tripped_nothing_passes_until_it_is_armed_again)
{
    const struct tw_gate_limits limits = {.orders_per_day = 1};
    struct tw_last_gate gate = {0};
    struct tw_gate_order first = order(1), second = order(2);
    tw_last_gate_plan(&gate);
    tw_last_gate_plan(&gate);
    tw_last_gate_count(&gate, &limits, &first);

    tw_last_gate_trip(&gate, tw_last_gate_ask(&gate, &limits, &second), NOW_NS);
    second.now_wall_ns += INT64_C(10) * 86400 * TW_NS_PER_S; /* also another day */
    second.window_end_wall_ns = INT64_MAX;
    cr_expect_eq(tw_last_gate_ask(&gate, &limits, &second), TW_BREACH_DAY);

    tw_last_gate_rearm(&gate);
    cr_expect_eq(tw_last_gate_ask(&gate, &limits, &second), TW_BREACH_NONE);
}
