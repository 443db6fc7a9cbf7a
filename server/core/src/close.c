/* close.c - what a reduction comes to, and what a netting account is sent for it. */
#include <tradewake/core/plan.h>

#include <assert.h>

#define REASON(name) TRADEWAKE__V1__REASON__REASON_##name

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
    tw_decimal smallest =
        tw_decimal_round(input->volume_min > 0 ? input->volume_min : step, step, TW_ROUND_UP);
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

/* ---- Netting ---- */

struct tw_net_order tw_net_decide(tw_decimal net, enum tw_side side, tw_decimal volume)
{
    bool is_opposite = side == TW_BUY ? net < 0 : net > 0;
    tw_decimal there = net < 0 ? -net : net;
    if (!is_opposite)
        return (struct tw_net_order){false, volume};
    return (struct tw_net_order){true, volume < there ? volume : there};
}
