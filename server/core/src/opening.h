/* opening.h - what the rules of one opening share, and how they say what they found.
 *
 * Notes are for people: they are formatted only when somebody asks (view->trace), so a plan that is
 * carried out costs none of it. */
#ifndef TW_CORE_OPENING_H
#define TW_CORE_OPENING_H

#include <tradewake/core/plan.h>

#include <assert.h>

#define STATE(name)  TRADEWAKE__V1__COPY_STATE__COPY_STATE_##name
#define REASON(name) TRADEWAKE__V1__REASON__REASON_##name
#define ACTION(name) TRADEWAKE__V1__COPY_ACTION__COPY_ACTION_##name

enum { WHY_BYTES = sizeof((struct tw_trace_step *)0)->note };

struct opening {
    const struct tw_event *event;
    const struct tw_follower_view *view;
    int64_t now_wall_ns;
    uint64_t symbol_head, symbol_tail; /* of the event's symbol */
    struct tw_plan *plan;
    tw_decimal minimum, maximum; /* of the order's volume: what instrument and rules allow */
    const char *rule;            /* that is being asked, by the name that explanations have */
    char why[WHY_BYTES];         /* its no, in words */
};

/* Notes one step. input, output: may be "". */
void opening_note(struct opening *opening, const char *rule, const char *input, const char *output,
                  const char *format, ...) TW_PRINTF(5, 6);

/* Why the rule that is asked says no. */
void opening_explain(struct opening *opening, const char *format, ...) TW_PRINTF(2, 3);

#define note(o, ...)                                                                               \
    do {                                                                                           \
        if ((o)->view->trace != NULL)                                                              \
            opening_note(o, __VA_ARGS__);                                                          \
    } while (0)

static inline bool opening_end(struct opening *o, Tradewake__V1__CopyState state, tw_reason reason)
{
    o->plan->state = state;
    o->plan->reason = reason;
    return false;
}

#define explain(o, ...) ((o)->view->trace != NULL ? opening_explain(o, __VA_ARGS__) : (void)0)

/* A rule's no: the reason for programs, and the figures it looked at for people. False. */
#define end_with(o, state, reason, ...) (explain(o, __VA_ARGS__), opening_end(o, state, reason))
#define skip(o, reason, ...)            end_with(o, STATE(SKIPPED), reason, __VA_ARGS__)

/* A decimal for a note; a few at once. */
#define TEXT(value) tw_decimal_text((value), (char[TW_DECIMAL_TEXT_BYTES]){0})

static inline bool opening_is_pending(const struct opening *o)
{
    return o->event->type != TW_ORDER_MARKET;
}

/* A figure that can be reckoned with. */
static inline bool is_known(tw_decimal figure)
{
    return figure != TW_DECIMAL_UNSET && figure > 0;
}

static inline const char *side_word(enum tw_side side)
{
    return side == TW_BUY ? "BUY" : "SELL";
}

static inline void opening_remark(struct opening *o, tw_reason reason)
{
    assert(o->plan->n_remarks < TW_REMARKS_MAX);
    o->plan->remarks[o->plan->n_remarks++] = reason;
}

/* size.c: sets the plan's volume. The rule after everything that says what is traded, and at what
 * price. */
bool rule_size(struct opening *opening);

#endif
