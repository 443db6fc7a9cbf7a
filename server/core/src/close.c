/* close.c - what a reduction comes to, and what a netting account is sent for it. */
#include <tradewake/core/plan.h>

#include <assert.h>

#define REASON(name) TRADEWAKE__V1__REASON__REASON_##name

/* A minimum that is no multiple of the step is the next one. */
static tw_decimal smallest_of(tw_decimal volume_min, tw_decimal step)
{
    return tw_decimal_round(volume_min > 0 ? volume_min : step, step, TW_ROUND_UP);
}

/* What one order may be of it. What is left for the next is not so little that no order can be of
 * it. */
static tw_decimal part_of(tw_decimal volume, tw_decimal largest, tw_decimal smallest,
                          tw_decimal step)
{
    if (largest <= 0 || volume <= largest)
        return volume;
    tw_decimal part = tw_decimal_round(largest, step, TW_ROUND_DOWN);
    tw_decimal room = part - smallest;
    if (volume - part < smallest && room >= smallest)
        part = tw_decimal_round(room, step, TW_ROUND_DOWN);
    return part > 0 ? part : volume; /* no order can be that small: let the broker say so */
}

struct tw_close_decision tw_close_decide(const struct tw_close_input *input)
{
    if (input->held <= 0)
        return (struct tw_close_decision){0, REASON(ALREADY_CLOSED)};

    /* An instrument that has not been told yet: to the last digit, rather than all of it. */
    tw_decimal step = input->volume_step > 0 ? input->volume_step : 1;
    tw_decimal smallest = smallest_of(input->volume_min, step);
    if (input->is_full)
        return (struct tw_close_decision){part_of(input->held, input->volume_max, smallest, step),
                                          REASON(UNSPECIFIED)};

    tw_decimal target = 0;
    tw_reason note = REASON(UNSPECIFIED);
    if (input->master_initial > 0) {
        bool fits = tw_decimal_scale(input->filled, input->master_remaining, input->master_initial,
                                     step, TW_ROUND_DOWN, &target);
        assert(fits); /* remaining is at most initial */
        (void)fits;
    }
    if (target < smallest) {
        target = smallest;
        note = REASON(KEPT_MIN);
    }
    if (input->held <= target)
        return (struct tw_close_decision){0, note != 0 ? note : REASON(NO_CHANGE)};
    /* What is held may be of an older step; what is sent is of today's. */
    tw_decimal volume = tw_decimal_round(input->held - target, step, TW_ROUND_DOWN);
    if (volume < smallest)
        return (struct tw_close_decision){0, REASON(BELOW_MIN)};
    return (struct tw_close_decision){part_of(volume, input->volume_max, smallest, step), note};
}

/* ---- Several positions of one copy ---- */

tw_decimal tw_order_part(tw_decimal volume, tw_decimal volume_max, tw_decimal volume_min, tw_decimal volume_step)
{
    tw_decimal step = volume_step > 0 ? volume_step : 1;
    return part_of(volume, volume_max, smallest_of(volume_min, step), step);
}

enum use { LEFT_ALONE, WHOLE, IN_PART };

/* One way to do it: what is made of each position, and the least and the most that takes. */
struct cut {
    enum use uses[TW_TICKETS_CUT_MAX];
    tw_decimal least, most;
    uint32_t parts;
};

struct cutting {
    const tw_decimal *held;
    uint32_t n;
    tw_decimal volume, smallest, step;
    uint32_t parts_max; /* so many positions are left with something */
    struct cut best;
    tw_decimal best_volume;
};

/* How much of the wanted volume a way takes; 0: it takes too much. */
static tw_decimal cut_takes(const struct cutting *c, const struct cut *cut)
{
    if (cut->least > c->volume)
        return 0;
    tw_decimal most = cut->most < c->volume ? cut->most : c->volume;
    return cut->least + tw_decimal_round(most - cut->least, c->step, TW_ROUND_DOWN);
}

/* All ways from here on, the newest positions whole first; the first that takes everything ends it. */
static void cut_try(struct cutting *c, const struct cut *so_far, uint32_t at)
{
    if (so_far->least > c->volume || c->best_volume == c->volume)
        return;
    if (at == c->n) {
        tw_decimal takes = cut_takes(c, so_far);
        if (takes > c->best_volume) {
            c->best_volume = takes;
            c->best = *so_far;
        }
        return;
    }
    tw_decimal held = c->held[at];
    struct cut next = *so_far;
    next.uses[at] = WHOLE;
    next.least += held;
    next.most += held;
    if (held > 0)
        cut_try(c, &next, at + 1);
    if (held >= 2 * c->smallest && so_far->parts < c->parts_max) {
        next.uses[at] = IN_PART;
        next.parts++;
        next.least = so_far->least + c->smallest;
        next.most = so_far->most + tw_decimal_round(held - c->smallest, c->step, TW_ROUND_DOWN);
        cut_try(c, &next, at + 1);
    }
    next = *so_far;
    next.uses[at] = LEFT_ALONE;
    cut_try(c, &next, at + 1);
}

struct tw_ticket_order tw_tickets_decide(const tw_decimal *held, uint32_t n, tw_decimal volume,
                                         tw_decimal volume_min, tw_decimal volume_step)
{
    tw_decimal step = volume_step > 0 ? volume_step : 1;
    struct cutting c = {.held = held, .volume = volume, .smallest = smallest_of(volume_min, step), .step = step};
    c.n = n < TW_TICKETS_CUT_MAX ? n : TW_TICKETS_CUT_MAX;
    const struct cut nothing = {.least = 0};
    for (; c.parts_max <= c.n && c.best_volume < volume; c.parts_max++)
        cut_try(&c, &nothing, 0);
    if (c.best_volume == 0)
        return (struct tw_ticket_order){0, 0};
    uint32_t first = 0;
    while (c.best.uses[first] == LEFT_ALONE)
        first++;
    if (c.best.uses[first] == WHOLE)
        return (struct tw_ticket_order){first, held[first]};
    tw_decimal most = tw_decimal_round(held[first] - c.smallest, step, TW_ROUND_DOWN);
    tw_decimal wanted = c.smallest + (c.best_volume - c.best.least);
    return (struct tw_ticket_order){first, wanted < most ? wanted : most};
}

/* ---- Netting ---- */

struct tw_net_order tw_net_decide(tw_decimal net, enum tw_side side, tw_decimal volume)
{
    bool is_opposite = side == TW_BUY ? net < 0 : net > 0;
    tw_decimal there = net < 0 ? -net : net;
    if (!is_opposite)
        return (struct tw_net_order){false, volume};
    return (struct tw_net_order){true, volume < there ? volume : there};
}
