#include <tradewake/core/last_gate.h>

#include <tradewake/base/clock.h>

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define DAY_NS   (INT64_C(86400) * TW_NS_PER_S)
#define GRACE_NS TW_NS_PER_S /* between two looks at the same clock */

const char *tw_breach_word(enum tw_breach breach)
{
    static const char *const words[TW_BREACH_COUNT] = {
        [TW_BREACH_NONE] = "none",
#define WORD(name, number, word, meaning) [number] = word,
        TW_BREACH_MAP(WORD)
#undef WORD
    };
    return (unsigned)breach < TW_BREACH_COUNT ? words[breach] : "unknown";
}

uint64_t tw_gate_id(const char client_order_id[TW_COPY_ID_BYTES])
{
    uint64_t first, second; /* of the 18 characters behind "T1": all but two */
    memcpy(&first, client_order_id + 2, sizeof first);
    memcpy(&second, client_order_id + 12, sizeof second);
    return (first ^ second * UINT64_C(0x9e3779b97f4a7c15)) | UINT64_C(1) << 63;
}

static size_t id_place(uint64_t id)
{
    return (size_t)(id * UINT64_C(0xd6e8feb86659fd93) >> 58);
}
static_assert(TW_GATE_IDS == 1 << (64 - 58), "six bits are a place");

static bool is_too_much_money(const struct tw_gate_limits *limits, const struct tw_gate_order *order)
{
    tw_decimal money;
    if (limits->order_notional == 0)
        return false;
    return order->price == TW_DECIMAL_UNSET || order->price <= 0 || order->contract_size <= 0 ||
           !tw_decimal_mul(order->volume, order->contract_size, &money) || !tw_decimal_mul(money, order->price, &money) ||
           money > limits->order_notional;
}

static int64_t order_ns(const struct tw_gate_limits *limits)
{
    return TW_NS_PER_S / limits->orders_per_second;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool is_too_fast(const struct tw_last_gate *gate, const struct tw_gate_limits *limits, int64_t now_mono_ns)
{
    return limits->orders_per_second != 0 &&
           later(gate->due_mono_ns, now_mono_ns) + order_ns(limits) > now_mono_ns + TW_NS_PER_S;
}

static uint32_t out_today(const struct tw_last_gate *gate, int64_t now_wall_ns)
{
    return gate->day == now_wall_ns / DAY_NS ? gate->day_out : 0;
}

void tw_last_gate_plan(struct tw_last_gate *gate)
{
    gate->planned++;
}

enum tw_breach tw_last_gate_ask(const struct tw_last_gate *gate, const struct tw_gate_limits *limits,
                                const struct tw_gate_order *order)
{
    if (gate->tripped != TW_BREACH_NONE)
        return gate->tripped;
    if (order->volume > order->planned || (!order->is_counted && gate->out >= gate->planned))
        return TW_BREACH_PLANNED;
    if (order->now_wall_ns - GRACE_NS > order->window_end_wall_ns)
        return TW_BREACH_STALE;
    if (order->is_first && gate->ids[id_place(order->id)] == order->id)
        return TW_BREACH_DUPLICATE;
    if (limits->order_volume != 0 && order->volume > limits->order_volume)
        return TW_BREACH_VOLUME;
    if (is_too_much_money(limits, order))
        return TW_BREACH_NOTIONAL;
    if (is_too_fast(gate, limits, order->now_mono_ns))
        return TW_BREACH_RATE;
    if (limits->orders_per_day != 0 && out_today(gate, order->now_wall_ns) >= limits->orders_per_day)
        return TW_BREACH_DAY;
    return TW_BREACH_NONE;
}

void tw_last_gate_count(struct tw_last_gate *gate, const struct tw_gate_limits *limits, const struct tw_gate_order *order)
{
    gate->ids[id_place(order->id)] = order->id;
    gate->out += !order->is_counted;
    if (limits->orders_per_second != 0)
        gate->due_mono_ns = later(gate->due_mono_ns, order->now_mono_ns) + order_ns(limits);
    gate->day_out = out_today(gate, order->now_wall_ns) + 1;
    gate->day = order->now_wall_ns / DAY_NS;
}

void tw_last_gate_trip(struct tw_last_gate *gate, enum tw_breach breach, int64_t now_wall_ns)
{
    gate->tripped = breach;
    gate->tripped_wall_ns = now_wall_ns;
}

void tw_last_gate_rearm(struct tw_last_gate *gate)
{
    gate->tripped = TW_BREACH_NONE;
    gate->tripped_wall_ns = 0;
    gate->due_mono_ns = 0;
    gate->day_out = 0;
    gate->planned = gate->planned > gate->out ? gate->planned : gate->out;
}
