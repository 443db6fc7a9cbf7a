/* risk.c - loss limits: the account against what it was when the period began.
 *
 * The account is looked at whenever the broker tells of it, off the hot path; an open only reads the
 * flag. */
#include "internal.h"

#include <tradewake/core/loss.h>

#include <string.h>

#define PERIOD(name) TRADEWAKE__V1__RISK_PERIOD__RISK_PERIOD_##name

static void baselines_follow(struct tw_slot *slot, int64_t now_wall_ns)
{
    if (slot->account.balance == TW_DECIMAL_UNSET || slot->account.equity == TW_DECIMAL_UNSET)
        return;
    for (int period = PERIOD(DAY); period <= PERIOD(LIFETIME); period++) {
        struct baseline *baseline = &slot->baselines[period];
        int64_t from_ns = tw_period_of((Tradewake__V1__RiskPeriod)period, now_wall_ns).from_wall_ns;
        if (baseline->from_wall_ns == 0 || (baseline->from_wall_ns < from_ns && period != PERIOD(LIFETIME)))
        {
            *baseline = (struct baseline){now_wall_ns, slot->account.balance, slot->account.equity};
            slot->is_risk_dirty = true;
        }
    }
}

/* What counts now; NULL: none. */
static const struct tw_loss_limit *limit_in_force(const struct tw_slot *slot)
{
    const struct tw_follower_rules *rules = &slot->rules;
    return slot->stop_out.is_out && slot->stop_out.limit < rules->n_loss_limits
               ? &rules->loss_limits[slot->stop_out.limit]
               : NULL;
}

static void limits_look(struct tw_slot *slot, int64_t now_wall_ns)
{
    baselines_follow(slot, now_wall_ns);
    for (uint32_t i = 0; i < slot->rules.n_loss_limits; i++) {
        const struct tw_loss_limit *limit = &slot->rules.loss_limits[i], *before = limit_in_force(slot);
        const struct baseline *baseline = &slot->baselines[limit->period];
        int64_t until_wall_ns = tw_period_of(limit->period, now_wall_ns).until_wall_ns;
        tw_decimal lost;
        if (!tw_loss_reaches(limit, baseline->balance, baseline->equity, &slot->account, &lost) ||
            !tw_loss_outweighs(before, slot->stop_out.until_wall_ns, limit, until_wall_ns))
            continue;
        slot->wants_close_all |= limit->close_positions && (before == NULL || !before->close_positions);
        slot->stop_out.is_out = slot->is_risk_dirty = true;
        slot->stop_out.limit = i;
        slot->stop_out.measured = lost;
        slot->stop_out.since_wall_ns = now_wall_ns;
        slot->stop_out.until_wall_ns = until_wall_ns;
    }
}

/* Its period is over. True: it was. */
static bool stop_out_ends(struct tw_slot *slot, int64_t now_wall_ns)
{
    if (!slot->stop_out.is_out || slot->stop_out.until_wall_ns == 0 || now_wall_ns < slot->stop_out.until_wall_ns)
        return false;
    slot->stop_out.is_out = false;
    slot->is_risk_dirty = true;
    return true;
}

void risk_expire(struct tw_slot *slot, int64_t now_wall_ns)
{
    if (stop_out_ends(slot, now_wall_ns))
        limits_look(slot, now_wall_ns); /* another limit may be reached still, of a longer period */
}

void risk_look(struct tw_slot *slot, int64_t now_wall_ns)
{
    (void)stop_out_ends(slot, now_wall_ns);
    limits_look(slot, now_wall_ns);
}

void risk_reset(struct tw_slot *slot, int64_t now_wall_ns)
{
    memset(&slot->stop_out, 0, sizeof slot->stop_out);
    memset(slot->baselines, 0, sizeof slot->baselines);
    slot->wants_close_all = false;
    slot->is_risk_dirty = true;
    baselines_follow(slot, now_wall_ns);
}
