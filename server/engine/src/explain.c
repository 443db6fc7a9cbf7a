/* explain.c - what an event would do at a follower, rule by rule: the planner's own code, with somebody
 * taking notes and nothing carried out. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

struct explaining {
    struct tw_master *master;
    const struct tw_event *event;
    struct tw_position *position; /* NULL = unknown to us */
    struct tw_subscription *subscription;
    struct tw_arena *arena;
    struct tw_trace trace;
    struct tw_plan plan;
    int64_t now_wall_ns;
};

static void TW_PRINTF(5, 6) step(struct explaining *x, const char *rule, const char *input,
                                 const char *output, const char *format, ...)
{
    if (x->trace.n_steps == TW_TRACE_STEPS_MAX)
        return;
    struct tw_trace_step *to = &x->trace.steps[x->trace.n_steps++];
    to->rule = rule;
    snprintf(to->input, sizeof to->input, "%s", input);
    snprintf(to->output, sizeof to->output, "%s", output);
    va_list values;
    va_start(values, format);
    vsnprintf(to->note, sizeof to->note, format, values);
    va_end(values);
}

static void ends(struct explaining *x, copy_state state, tw_reason reason, const char *note)
{
    x->plan.state = state;
    x->plan.reason = reason;
    const ProtobufCEnumValue *word =
        protobuf_c_enum_descriptor_get_value(&tradewake__v1__reason__descriptor, (int)reason);
    step(x, "outcome", "", word != NULL ? word->name + strlen("REASON_") : "", "%s", note);
}

#define TEXT(value) tw_decimal_text((value), (char[TW_DECIMAL_TEXT_BYTES]){0})

/* The leg that an open of this position adds to; NULL: it opens a new one. */
static const struct tw_leg *added_to(const struct explaining *x)
{
    const struct tw_leg *leg = x->position != NULL ? position_leg(x->position, x->subscription->slot) : NULL;
    return leg != NULL && !leg->is_closed ? leg : NULL;
}

static void explain_open(struct explaining *x)
{
    if (x->position != NULL && x->position->state == POSITION_MARK) {
        ends(x, STATE(SKIPPED), REASON(ALREADY_CLOSED), "its close or cancel came first");
        return;
    }
    struct tw_follower_view view;
    view_fill(x->master, x->subscription, &view);
    view_of_leg(&view, added_to(x));
    if (x->event->has_account)
        view.master_account = &x->event->account; /* SubmitEvent would note it first */
    view.trace = &x->trace;
    tw_plan_open(x->event, &view, x->now_wall_ns, &x->plan);
}

/* What the master holds after this close; UNSET = not known. */
static tw_decimal remaining_after(const struct explaining *x)
{
    const struct tw_event *event = x->event;
    if (event->remaining_volume != TW_DECIMAL_UNSET)
        return event->remaining_volume;
    if (event->volume == TW_DECIMAL_UNSET)
        return 0;
    if (x->position == NULL)
        return TW_DECIMAL_UNSET;
    return x->position->remaining > event->volume ? x->position->remaining - event->volume : 0;
}

static void explain_close(struct explaining *x, const struct tw_leg *leg)
{
    tw_decimal remaining = remaining_after(x);
    x->plan.action = remaining == 0 ? ACTION(CLOSE) : ACTION(PARTIAL_CLOSE);
    x->plan.side = tw_side_opposite(leg->side);
    x->plan.listing = leg->listing;
    if (leg->is_closed) {
        ends(x, leg->was_open ? STATE(DONE) : STATE(SKIPPED),
             leg->was_open ? REASON(ALREADY_CLOSED) : REASON(NO_COPY_TO_ACT_ON), "nothing is left of it");
        return;
    }
    const struct tw_close_input input = {
        .filled = leg->filled,
        .held = leg->held,
        .is_full = remaining == 0,
        .master_remaining = remaining < x->position->initial ? remaining : x->position->initial,
        .master_initial = x->position->initial,
        .volume_min = leg->listing->instrument.volume_min,
        .volume_step = leg->listing->instrument.volume_step,
    };
    struct tw_close_decision decision = tw_close_decide(&input);
    step(x, "master", TEXT(x->position->remaining), TEXT(remaining), "what the master holds, of %s in all",
         TEXT(x->position->initial));
    if (remaining != 0)
        step(x, "target", TEXT(leg->held), TEXT(leg->held - decision.volume),
             "%s filled x %s / %s, toward zero to a multiple of the step %s, at least %s", TEXT(leg->filled),
             TEXT(remaining), TEXT(x->position->initial), TEXT(input.volume_step), TEXT(input.volume_min));
    x->plan.volume = decision.volume;
    if (decision.volume == 0)
        ends(x, STATE(SKIPPED), decision.reason, "nothing is sent");
    else
        step(x, "order", "", TEXT(decision.volume), "is sent as %s",
             x->plan.side == TW_BUY ? "BUY" : "SELL");
}

static void explain_modify(struct explaining *x, const struct tw_leg *leg)
{
    const struct tw_stops_input input = {
        .stop_loss = x->event->stop_loss,
        .take_profit = x->event->take_profit,
        .is_reversed = leg->is_reversed,
        .ignores_stop_loss = leg->ignores_stop_loss,
        .ignores_take_profit = leg->ignores_take_profit,
        .side = leg->side,
        .listing = leg->listing,
        .pending_price = TW_DECIMAL_UNSET,
    };
    tw_stops_decide(&input, &x->plan.stop_loss, &x->plan.take_profit);
    x->plan.side = leg->side;
    x->plan.listing = leg->listing;
    step(x, "stop_loss", TEXT(leg->stop_loss), TEXT(x->plan.stop_loss), "what it is, what it becomes");
    step(x, "take_profit", TEXT(leg->take_profit), TEXT(x->plan.take_profit),
         "what it is, what it becomes");
    bool same = (x->plan.stop_loss == TW_DECIMAL_UNSET || x->plan.stop_loss == leg->stop_loss) &&
                (x->plan.take_profit == TW_DECIMAL_UNSET || x->plan.take_profit == leg->take_profit);
    if (leg->is_closed)
        ends(x, STATE(SKIPPED), REASON(ALREADY_CLOSED), "nothing is left of it");
    else if (same)
        ends(x, STATE(SKIPPED), REASON(NO_CHANGE), "it is so already");
}

static void explain_follow_up(struct explaining *x)
{
    static const copy_action actions[] = {
        [TW_EVENT_MODIFY] = ACTION(MODIFY), [TW_EVENT_CLOSE] = ACTION(CLOSE),
        [TW_EVENT_MODIFY_ORDER] = ACTION(MODIFY_ORDER), [TW_EVENT_CANCEL] = ACTION(CANCEL),
        [TW_EVENT_TRIGGER] = ACTION(LINK),
    };
    struct tw_leg *leg = x->position != NULL ? position_leg(x->position, x->subscription->slot) : NULL;
    x->plan.action = actions[x->event->kind];
    x->plan.state = STATE(QUEUED);
    if (leg == NULL) {
        ends(x, STATE(SKIPPED), REASON(NO_COPY_TO_ACT_ON), "this follower never copied it");
        return;
    }
    x->plan.volume = leg->held;
    x->plan.side = leg->side;
    x->plan.listing = leg->listing;
    switch (x->event->kind) {
    case TW_EVENT_CLOSE:
        explain_close(x, leg);
        break;
    case TW_EVENT_MODIFY:
        explain_modify(x, leg);
        break;
    case TW_EVENT_TRIGGER:
        ends(x, STATE(DONE), REASON(UNSPECIFIED), "the follower's own order fills by itself: only linked");
        break;
    default:
        step(x, "order", "", leg->ticket, "the follower's order is changed or cancelled");
        break;
    }
}

static Tradewake__V1__CopySummary *outcome_message(const struct explaining *x)
{
    Tradewake__V1__CopySummary *m = tw_arena_take(x->arena, sizeof *m);
    if (m == NULL)
        return NULL;
    const struct tw_slot *slot = x->subscription->slot;
    const struct tw_copy_id_input input = {
        .master_id = x->master->id, .event_id = x->event->event_id, .follower_id = slot->id,
        .subject_id = tw_event_subject_id(x->event), .action = copy_action_word(x->plan.action)};
    char id[TW_COPY_ID_BYTES];
    tw_copy_id(&input, id);
    tradewake__v1__copy_summary__init(m);
    m->copy_id = arena_print(x->arena, "%s", id);
    m->follower_id = arena_print(x->arena, "%s", slot->id);
    m->action = x->plan.action;
    m->state = x->plan.state;
    m->reason = x->plan.reason == REASON(UNSPECIFIED) && x->plan.n_remarks > 0 ? x->plan.remarks[0]
                                                                               : x->plan.reason;
    m->symbol = arena_print(x->arena, "%s", x->plan.listing != NULL ? x->plan.listing->instrument.symbol
                                                                    : x->event->symbol);
    m->side = (Tradewake__V1__Side)x->plan.side;
    m->volume = x->plan.volume > 0 ? arena_decimal(x->arena, x->plan.volume) : m->volume;
    m->master_position_id = arena_print(x->arena, "%s", tw_event_subject_id(x->event));
    return m;
}

static Tradewake__V1__Explanation *explanation_message(const struct explaining *x)
{
    Tradewake__V1__Explanation *m = tw_arena_take(x->arena, sizeof *m);
    Tradewake__V1__RuleStep **steps = tw_arena_zero(x->arena, (x->trace.n_steps + 1) * sizeof *steps);
    if (m == NULL || steps == NULL)
        return NULL;
    tradewake__v1__explanation__init(m);
    m->follower_id = arena_print(x->arena, "%s", x->subscription->slot->id);
    m->subscription_id = arena_print(x->arena, "%s", x->subscription->id);
    m->steps = steps;
    for (uint32_t i = 0; i < x->trace.n_steps; i++) {
        Tradewake__V1__RuleStep *to = tw_arena_take(x->arena, sizeof *to);
        if (to == NULL)
            return NULL;
        tradewake__v1__rule_step__init(to);
        to->rule = arena_print(x->arena, "%s", x->trace.steps[i].rule);
        to->input = arena_print(x->arena, "%s", x->trace.steps[i].input);
        to->output = arena_print(x->arena, "%s", x->trace.steps[i].output);
        to->note = arena_print(x->arena, "%s", x->trace.steps[i].note);
        m->steps[m->n_steps++] = to;
    }
    m->outcome = outcome_message(x);
    return m->outcome != NULL ? m : NULL;
}

static Tradewake__V1__Explanation *explain_one(struct explaining *x)
{
    struct tw_slot *slot = x->subscription->slot;
    x->trace.n_steps = 0;
    x->plan = (struct tw_plan){.volume = TW_DECIMAL_UNSET};
    bool opens = x->event->kind == TW_EVENT_OPEN || x->event->kind == TW_EVENT_PLACE;
    pthread_mutex_lock(&slot->mutex);
    if (opens)
        explain_open(x);
    else
        explain_follow_up(x);
    pthread_mutex_unlock(&slot->mutex);
    return explanation_message(x);
}

bool tw_engine_explain(struct tw_engine *engine, const struct tw_event *event, const char *follower_id,
                       const char *after, struct tw_arena *arena, Tradewake__V1__Explanation **ret,
                       size_t n_max, size_t *ret_n, struct tw_refusal *refusal)
{
    static _Thread_local struct explaining x; /* 12 KiB of notes */
    struct tw_master *master = fleet_master_find(engine, event->master_id);
    *ret_n = 0;
    if (master == NULL)
        return tw_refuse(refusal, REFUSAL(MASTER_NOT_FOUND), "event.master_id",
                         "nobody follows \"%s\"", event->master_id);
    x.master = master;
    x.event = event;
    x.arena = arena;
    x.now_wall_ns = tw_wall_ns();
    pthread_mutex_lock(&master->mutex);
    master_prune(master);
    bool is_of_order = event->kind == TW_EVENT_PLACE || event->kind == TW_EVENT_MODIFY_ORDER ||
                       event->kind == TW_EVENT_CANCEL || event->kind == TW_EVENT_TRIGGER;
    x.position = is_of_order ? order_find(master, event->order_id) : position_find(master, event->position_id);
    bool is_after = after[0] == '\0', found = false, ok = true;
    for (uint32_t i = 0; i < master->n_members && *ret_n < n_max && ok; i++) {
        x.subscription = master->members[i];
        const char *id = x.subscription->slot->id;
        bool is_wanted = follower_id[0] == '\0' ? is_after : strcmp(id, follower_id) == 0;
        is_after |= strcmp(id, after) == 0;
        if (!is_wanted)
            continue;
        found = true;
        Tradewake__V1__Explanation *m = explain_one(&x);
        ok = m != NULL ? true
                       : tw_refuse(refusal, REFUSAL(TOO_LARGE), NULL, "the answer takes too much memory");
        if (ok)
            ret[(*ret_n)++] = m;
    }
    bool has_members = master->n_members > 0;
    pthread_mutex_unlock(&master->mutex);
    if (!has_members)
        return tw_refuse(refusal, REFUSAL(MASTER_NOT_FOUND), "event.master_id", "nobody follows \"%s\"",
                         event->master_id);
    if (ok && !found && follower_id[0] != '\0')
        return tw_refuse(refusal, REFUSAL(NOT_FOUND), "follower_id", "\"%.64s\" does not follow \"%s\"",
                         follower_id, event->master_id);
    return ok;
}
