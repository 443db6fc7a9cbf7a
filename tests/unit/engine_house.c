#include "engine_house.h"

#include <tradewake/adapters/paper.h>
#include <tradewake/base/clock.h>

#include <google/protobuf/timestamp.pb-c.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void require(bool ok, const char *what, const char *why)
{
    if (ok)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

bool house_try(struct house *house, struct tw_engine_options options, struct tw_error *error)
{
    const struct tw_executor_options executor = {.threads_ready = 128, .threads_max = 1024};
    *house = (struct house){.paper_dir = house->paper_dir};
    tw_arena_init(&house->arena, 16 * 1024 * 1024);
    require(tw_reactor_start("reactor", &house->reactor, error) == TW_OK, "reactor", error->text);
    require(tw_executor_start(&executor, &house->executor, error) == TW_OK, "executor", error->text);
    const struct tw_adapter_options adapter = {.reactor = house->reactor, .state_dir = house->paper_dir};
    require(tw_adapter_paper.open(&adapter, &house->paper, error) == TW_OK, "paper", error->text);
    house->adapters[0] = (struct tw_engine_adapter){&tw_adapter_paper, house->paper};
    options.executor = house->executor;
    options.reactor = house->reactor;
    options.adapters = house->adapters;
    options.n_adapters = 1;
    if (tw_engine_start(&options, &house->engine, error) == TW_OK)
        return true;
    house_close(house, false);
    return false;
}

void house_open(struct house *house, struct tw_engine_options options)
{
    struct tw_error error = {{0}};
    require(house_try(house, options, &error), "engine", error.text);
}

void house_close(struct house *house, bool is_clean)
{
    if (house->engine != NULL)
        tw_engine_quiesce(house->engine);
    if (house->engine != NULL && is_clean)
        tw_engine_quiet(house->engine);
    tw_reactor_stop(house->reactor);
    tw_executor_stop(house->executor);
    tw_engine_stop(house->engine);
    tw_adapter_paper.close(house->paper);
    tw_arena_clear(&house->arena);
    *house = (struct house){.paper_dir = house->paper_dir};
}

static char *text(const char *value)
{
    return (char *)(uintptr_t)(value != NULL ? value : "");
}

static bool told(struct house *house, bool ok, const struct tw_refusal *refusal)
{
    (void)snprintf(house->reason, sizeof house->reason, "%.63s", ok ? "" : refusal->text);
    return ok;
}

static void arena_renew(struct house *house)
{
    tw_arena_clear(&house->arena);
    tw_arena_init(&house->arena, 16 * 1024 * 1024);
}

enum { CONFIG_MAX = 8 };

bool house_follower_with(struct house *house, const char *follower_id, const char *const *config)
{
    struct tw_refusal refusal = {0};
    Tradewake__V1__Follower follower, *made;
    Tradewake__V1__Follower__AdapterConfigEntry entries[CONFIG_MAX], *list[CONFIG_MAX];
    size_t n = 0;
    for (; n < CONFIG_MAX && config[2 * n] != NULL; n++) {
        tradewake__v1__follower__adapter_config_entry__init(&entries[n]);
        entries[n].key = text(config[2 * n]);
        entries[n].value = text(config[2 * n + 1]);
        list[n] = &entries[n];
    }
    tradewake__v1__follower__init(&follower);
    follower.follower_id = text(follower_id);
    follower.max_parallel = 2;
    follower.adapter = text("paper");
    follower.adapter_config = list;
    follower.n_adapter_config = n;
    arena_renew(house);
    return told(house, tw_engine_follower_create(house->engine, &follower, "", &house->arena, &made, &refusal),
                &refusal);
}

bool house_follower(struct house *house, const char *follower_id, const char *latency)
{
    const char *const config[] = {"latency", latency, NULL};
    return house_follower_with(house, follower_id, config);
}

bool house_subscribe(struct house *house, const char *master_id, const char *follower_id, char *ret_id)
{
    struct tw_refusal refusal = {0};
    Tradewake__V1__Subscription subscription, *made;
    tradewake__v1__subscription__init(&subscription);
    subscription.master_id = text(master_id);
    subscription.follower_id = text(follower_id);
    arena_renew(house);
    bool ok = tw_engine_subscription_create(house->engine, &subscription, "", &house->arena, &made, &refusal);
    if (ok && ret_id != NULL)
        (void)snprintf(ret_id, 65, "%s", made->subscription_id);
    return told(house, ok, &refusal);
}

struct message {
    Tradewake__V1__TradeEvent event;
    Google__Protobuf__Timestamp at;
    Tradewake__V1__OpenPosition open;
    Tradewake__V1__ModifyPosition modify;
    Tradewake__V1__ClosePosition close;
    Tradewake__V1__PlaceOrder place;
    Tradewake__V1__ModifyOrder modify_order;
    Tradewake__V1__CancelOrder cancel;
    Tradewake__V1__TriggerOrder trigger;
};

#define ACTION_IS(name) TRADEWAKE__V1__TRADE_EVENT__ACTION_##name

static void fill_action(struct message *m, const struct house_event *e)
{
    switch (e->kind) {
    case TW_EVENT_OPEN:
        tradewake__v1__open_position__init(&m->open);
        m->open.position_id = text(e->position_id);
        m->open.symbol = text("EURUSD");
        m->open.side = e->is_sell ? TRADEWAKE__V1__SIDE__SIDE_SELL : TRADEWAKE__V1__SIDE__SIDE_BUY;
        m->open.volume = text(e->volume);
        m->open.stop_loss = text(e->stop_loss);
        m->open.increase = e->increase;
        m->event.open = &m->open;
        m->event.action_case = ACTION_IS(OPEN);
        break;
    case TW_EVENT_MODIFY:
        tradewake__v1__modify_position__init(&m->modify);
        m->modify.position_id = text(e->position_id);
        m->modify.stop_loss = text(e->stop_loss);
        m->event.modify = &m->modify;
        m->event.action_case = ACTION_IS(MODIFY);
        break;
    case TW_EVENT_CLOSE:
        tradewake__v1__close_position__init(&m->close);
        m->close.position_id = text(e->position_id);
        m->close.volume = text(e->volume);
        m->close.new_position_id = text(e->new_position_id);
        m->event.close = &m->close;
        m->event.action_case = ACTION_IS(CLOSE);
        break;
    case TW_EVENT_PLACE:
        tradewake__v1__place_order__init(&m->place);
        m->place.order_id = text(e->order_id);
        m->place.symbol = text("EURUSD");
        m->place.side = e->is_sell ? TRADEWAKE__V1__SIDE__SIDE_SELL : TRADEWAKE__V1__SIDE__SIDE_BUY;
        m->place.type = TRADEWAKE__V1__ORDER_TYPE__ORDER_TYPE_LIMIT;
        m->place.volume = text(e->volume);
        m->place.price = text(e->price);
        m->event.place = &m->place;
        m->event.action_case = ACTION_IS(PLACE);
        break;
    case TW_EVENT_MODIFY_ORDER:
        tradewake__v1__modify_order__init(&m->modify_order);
        m->modify_order.order_id = text(e->order_id);
        m->modify_order.price = text(e->price);
        m->event.modify_order = &m->modify_order;
        m->event.action_case = ACTION_IS(MODIFY_ORDER);
        break;
    case TW_EVENT_CANCEL:
        tradewake__v1__cancel_order__init(&m->cancel);
        m->cancel.order_id = text(e->order_id);
        m->event.cancel = &m->cancel;
        m->event.action_case = ACTION_IS(CANCEL);
        break;
    case TW_EVENT_TRIGGER:
        tradewake__v1__trigger_order__init(&m->trigger);
        m->trigger.order_id = text(e->order_id);
        m->trigger.position_id = text(e->position_id);
        m->event.trigger = &m->trigger;
        m->event.action_case = ACTION_IS(TRIGGER);
        break;
    }
}

bool house_submit(struct house *house, const struct house_event *event, struct tw_submitted *ret)
{
    struct message message;
    struct tw_refusal refusal = {0};
    struct tw_event read;
    int64_t now_wall_ns = tw_wall_ns();
    int64_t observed_ns = event->observed_wall_ns != 0 ? event->observed_wall_ns : now_wall_ns;
    tradewake__v1__trade_event__init(&message.event);
    google__protobuf__timestamp__init(&message.at);
    message.at.seconds = observed_ns / TW_NS_PER_S;
    message.at.nanos = (int32_t)(observed_ns % TW_NS_PER_S);
    message.event.event_id = text(event->event_id);
    message.event.master_id = text(event->master_id);
    message.event.sequence = event->sequence;
    message.event.observed_at = &message.at;
    fill_action(&message, event);
    *ret = (struct tw_submitted){0};
    if (!tw_event_read(&message.event, now_wall_ns, &read, &refusal))
        return told(house, false, &refusal);
    const struct tw_submission submission = {.event = &read,
                                             .message = &message.event,
                                             .received_mono_ns = tw_mono_ns(),
                                             .received_wall_ns = now_wall_ns,
                                             .trace_id = ""};
    return told(house, tw_engine_submit(house->engine, &submission, ret, &refusal), &refusal);
}

bool house_settle(struct house *house, int64_t wait_ns)
{
    int64_t until_ns = tw_mono_ns() + wait_ns;
    const struct timespec moment = {0, 2 * TW_NS_PER_MS};
    struct tw_executor_status status;
    unsigned quiet = 0;
    while (quiet < 3) { /* a copy is between two counts for a moment */
        tw_executor_status_get(house->executor, &status);
        bool is_quiet = status.calls_in_flight == 0 && status.calls_queued == 0;
        quiet = is_quiet && tw_engine_catch_up(house->engine) ? quiet + 1 : 0;
        if (wait_ns != 0 && tw_mono_ns() > until_ns)
            return false;
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
    }
    return true;
}
