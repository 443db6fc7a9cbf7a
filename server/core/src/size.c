/* size.c - how large a copy is: one fraction by the sizing mode, rounded once, then held against
 * the smallest and the largest order allowed. */
#include "opening.h"

#include "exact.h"

#include <stdio.h>
#include <string.h>

/* A fraction for a note, cut to 1e-8. */
static tw_decimal cut(const struct exact *fraction)
{
    struct exact_value value;
    return exact_value(fraction, &value) ? value.whole : TW_DECIMAL_UNSET;
}

/* ---- Money in another currency ---- */

/* What one unit of a currency is worth in another, as a fraction. */
struct rate {
    uint64_t numerator, denominator;
    const struct tw_listing *listing; /* whose mid it is; NULL = the same currency */
    bool is_inverse;
};

static bool rate_of(const struct tw_listing *listing, bool is_inverse, struct rate *ret)
{
    if (listing == NULL || !is_known(listing->bid) || !is_known(listing->ask))
        return false;
    uint64_t twice_mid = (uint64_t)listing->bid + (uint64_t)listing->ask;
    uint64_t twice_one = 2 * (uint64_t)TW_DECIMAL_ONE;
    *ret = is_inverse ? (struct rate){twice_one, twice_mid, listing, true}
                      : (struct rate){twice_mid, twice_one, listing, false};
    return true;
}

static bool rate_of_name(const struct tw_follower_view *view, const char base[8], const char counter[8],
                         const char *suffix, bool is_inverse, struct rate *ret)
{
    struct tw_symbol name;
    tw_symbol_begin(&name);
    tw_symbol_add_short(&name, base);
    tw_symbol_add_short(&name, counter);
    tw_symbol_add(&name, suffix);
    return !name.is_too_long &&
           rate_of(tw_market_find_hashed(view->market, name.text, name.length, tw_symbol_hash(&name)), is_inverse, ret);
}

/* By a pair of the account's, as symbols are found: with the follower's suffix, else by its plain
 * name. False: no such quote. */
static bool rate_of_pair(const struct tw_follower_view *view, const char base[8], const char counter[8],
                         bool is_inverse, struct rate *ret)
{
    const char *suffix = view->follower->symbol_suffix;
    return (suffix[0] != '\0' && rate_of_name(view, base, counter, suffix, is_inverse, ret)) ||
           rate_of_name(view, base, counter, "", is_inverse, ret);
}

/* The exact mid of the account's pair, else one over the mid of the inverse. False: no such quote.
 */
static bool rate_find(const struct tw_follower_view *view, const char from[8], const char to[8],
                      struct rate *ret)
{
    if (strcmp(from, to) == 0) {
        *ret = (struct rate){1, 1, NULL, false};
        return true;
    }
    return rate_of_pair(view, from, to, false, ret) || rate_of_pair(view, to, from, true, ret);
}

enum { RATE_BYTES = TW_DECIMAL_TEXT_BYTES + TW_SYMBOL_BYTES + 8 };

/* " x 1.2 by EURUSD", or nothing for the same currency. */
static const char *rate_text(const struct rate *rate, char text[RATE_BYTES])
{
    text[0] = '\0';
    if (rate->listing != NULL) {
        tw_decimal mid = rate->listing->bid / 2 + rate->listing->ask / 2 +
                         (rate->listing->bid % 2 + rate->listing->ask % 2) / 2;
        snprintf(text, RATE_BYTES, " %s %s by %s", rate->is_inverse ? "/" : "x", TEXT(mid),
                 rate->listing->instrument.symbol);
    }
    return text;
}
#define RATE(rate) rate_text((rate), (char[RATE_BYTES]){0})

/* ---- The modes ---- */

static const struct tw_tier *tier_of(const struct tw_rules *rules, tw_decimal volume)
{
    for (uint32_t i = 0; i < rules->n_tiers; i++)
        if (rules->tiers[i].up_to == TW_DECIMAL_UNSET || volume <= rules->tiers[i].up_to)
            return &rules->tiers[i];
    return NULL;
}

static bool size_multiplier(struct opening *o, struct exact *size)
{
    const struct tw_rules *rules = o->view->rules;
    o->rule = rules->n_tiers > 0 ? "tiers" : "multiplier";
    const struct tw_tier *tier = rules->n_tiers > 0 ? tier_of(rules, o->event->volume) : NULL;
    if (rules->n_tiers > 0 && tier == NULL)
        return skip(o, REASON(RISK_LIMIT), "%s is more than the last tier says anything about, %s",
                    TEXT(o->event->volume), TEXT(rules->tiers[rules->n_tiers - 1].up_to));
    tw_decimal multiplier = tier != NULL ? tier->multiplier : rules->multiplier;
    exact_set(size, o->event->volume);
    exact_mul(size, (uint64_t)multiplier);
    exact_div(size, (uint64_t)TW_DECIMAL_ONE);
    if (tier != NULL)
        note(o, "tiers", TEXT(o->event->volume), TEXT(cut(size)), "%s x %s, the tier %s %s",
             TEXT(o->event->volume), TEXT(multiplier),
             tier->up_to != TW_DECIMAL_UNSET ? "up to" : "without",
             tier->up_to != TW_DECIMAL_UNSET ? TEXT(tier->up_to) : "an end");
    else
        note(o, "multiplier", TEXT(o->event->volume), TEXT(cut(size)), "%s x %s",
             TEXT(o->event->volume), TEXT(multiplier));
    return true;
}

static bool size_fixed(struct opening *o, struct exact *size)
{
    exact_set(size, o->view->rules->fixed_volume);
    note(o, "fixed_volume", TEXT(o->event->volume), TEXT(o->view->rules->fixed_volume),
         "fixed, whatever the master's volume is");
    return true;
}

static bool money_is_missing(struct opening *o, const char *whose, const char *figure, tw_decimal money,
                             const char *currency)
{
    if (money == TW_DECIMAL_UNSET)
        return skip(o, REASON(MISSING_ACCOUNT), "the %s's %s is not known", whose, figure);
    return skip(o, REASON(MISSING_ACCOUNT), "the %s's %s is %s %s: nothing to reckon with", whose, figure, TEXT(money),
                currency[0] != '\0' ? currency : "of no currency");
}

/* Follower's money over the master's, in the follower's currency. */
static bool size_by_money(struct opening *o, const char *figure, tw_decimal mine,
                          tw_decimal masters, struct exact *size)
{
    const char *own = o->view->account->currency, *other = o->view->master_account->currency;
    o->rule = figure;
    if (!is_known(masters) || other[0] == '\0')
        return money_is_missing(o, "master", figure, masters, other);
    if (!is_known(mine) || own[0] == '\0')
        return money_is_missing(o, "follower", figure, mine, own);
    struct rate rate;
    if (!rate_find(o->view, other, own, &rate))
        return skip(o, REASON(MISSING_ACCOUNT),
                    "the follower's account quotes neither %s%s nor %s%s", other, own, own, other);
    tw_decimal before = o->view->trace != NULL ? cut(size) : 0;
    exact_mul(size, (uint64_t)mine);
    exact_div(size, (uint64_t)masters);
    exact_mul(size, rate.denominator);
    exact_div(size, rate.numerator);
    note(o, figure, TEXT(before), TEXT(cut(size)),
         rate.listing != NULL ? "%s x %s %s / (%s %s%s)" : "%s x %s %s / %s %s%s", TEXT(before),
         TEXT(mine), own, TEXT(masters), other, RATE(&rate));
    return true;
}

static bool has_master_account(struct opening *o, const char *figure)
{
    o->rule = figure;
    return o->view->master_account != NULL
               ? true
               : skip(o, REASON(MISSING_ACCOUNT),
                      "no event of the master has named its account yet");
}

static bool size_balance(struct opening *o, struct exact *size)
{
    return size_multiplier(o, size) && has_master_account(o, "balance") &&
           size_by_money(o, "balance", o->view->account->balance, o->view->master_account->balance,
                         size);
}

static bool size_equity(struct opening *o, struct exact *size)
{
    return size_multiplier(o, size) && has_master_account(o, "equity") &&
           size_by_money(o, "equity", o->view->account->equity, o->view->master_account->equity,
                         size);
}

static bool size_free_margin(struct opening *o, struct exact *size)
{
    return size_multiplier(o, size) && has_master_account(o, "free_margin") &&
           size_by_money(o, "free_margin", o->view->account->free_margin,
                         o->view->master_account->free_margin, size);
}

static bool size_contract(struct opening *o, struct exact *size)
{
    tw_decimal mine = o->plan->listing->instrument.contract_size, masters = o->event->contract_size;
    o->rule = "contract_size";
    if (!is_known(masters) || !is_known(mine))
        return skip(o, REASON(MISSING_SPEC), "the contract size of the %s is not known",
                    is_known(mine) ? "master" : "follower");
    if (!size_multiplier(o, size))
        return false;
    tw_decimal before = o->view->trace != NULL ? cut(size) : 0;
    exact_mul(size, (uint64_t)masters);
    exact_div(size, (uint64_t)mine);
    note(o, "contract_size", TEXT(before), TEXT(cut(size)), "%s x %s / %s: the same notional",
         TEXT(before), TEXT(masters), TEXT(mine));
    return true;
}

static tw_decimal entry_price(const struct opening *o)
{
    if (opening_is_pending(o))
        return o->plan->price;
    tw_decimal quoted = tw_listing_price(o->plan->listing, o->plan->side);
    return is_known(quoted) ? quoted : o->event->price;
}

/* What that price is. */
static const char *entry_word(const struct opening *o)
{
    if (opening_is_pending(o) || !is_known(tw_listing_price(o->plan->listing, o->plan->side)))
        return "price";
    return o->plan->side == TW_BUY ? "ask" : "bid";
}

/* What the risk mode needs to know. False: why not. */
static bool risk_is_known(struct opening *o, tw_decimal entry, tw_decimal stop)
{
    o->rule = "risk_fraction";
    if (o->view->rules->ignore_stop_loss)
        return skip(o, REASON(NO_STOP_LOSS),
                    "the stop loss is ignored here, and the risk is up to it");
    if (!is_known(stop))
        return skip(o, REASON(NO_STOP_LOSS), "the risk is up to the stop loss, and there is none");
    if (!is_known(entry))
        return skip(o, REASON(MISSING_SPEC),
                    "neither a quote nor the event's price tells the entry");
    if (!is_known(o->plan->listing->instrument.contract_size))
        return skip(o, REASON(MISSING_SPEC), "the contract size of the follower is not known");
    if (!is_known(o->view->account->balance))
        return skip(o, REASON(MISSING_ACCOUNT), "the follower's balance is not known");
    if (entry == stop)
        return skip(o, REASON(NO_STOP_LOSS),
                    "the stop loss is at the entry, %s: no distance to risk", TEXT(entry));
    return true;
}

/* balance x fraction / (|entry - stop| x contract x what the profit currency is worth). */
static bool size_risk(struct opening *o, struct exact *size)
{
    const struct tw_rules *rules = o->view->rules;
    const struct tw_instrument *instrument = &o->plan->listing->instrument;
    const struct tw_account *account = o->view->account;
    tw_decimal stop = rules->reverse ? o->event->take_profit : o->event->stop_loss;
    tw_decimal entry = entry_price(o);
    if (!risk_is_known(o, entry, stop))
        return false;
    const char *profit =
        instrument->profit_currency[0] != '\0' ? instrument->profit_currency : account->currency;
    struct rate rate;
    if (!rate_find(o->view, profit, account->currency, &rate))
        return skip(o, REASON(MISSING_ACCOUNT),
                    "the follower's account quotes neither %s%s nor %s%s", profit,
                    account->currency, account->currency, profit);
    exact_set(size, account->balance);
    exact_mul(size, (uint64_t)rules->risk_fraction);
    exact_div(size, (uint64_t)(entry > stop ? entry - stop : stop - entry));
    exact_mul(size, (uint64_t)TW_DECIMAL_ONE);
    exact_div(size, (uint64_t)instrument->contract_size);
    exact_mul(size, rate.denominator);
    exact_div(size, rate.numerator);
    note(o, "risk_fraction", TEXT(account->balance), TEXT(cut(size)),
         "%s %s x %s / (|%s %s - stop %s| x contract %s%s)", TEXT(account->balance), account->currency,
         TEXT(rules->risk_fraction), entry_word(o), TEXT(entry), TEXT(stop), TEXT(instrument->contract_size),
         RATE(&rate));
    return true;
}

typedef bool sizing_fn(struct opening *o, struct exact *size);

static sizing_fn *const sizing_by_mode[] = {
    [TW_SIZE_MULTIPLIER] = size_multiplier,
    [TW_SIZE_FIXED] = size_fixed,
    [TW_SIZE_BALANCE] = size_balance,
    [TW_SIZE_EQUITY] = size_equity,
    [TW_SIZE_FREE_MARGIN] = size_free_margin,
    [TW_SIZE_CONTRACT] = size_contract,
    [TW_SIZE_RISK] = size_risk,
};

/* ---- The smallest and the largest order ---- */

static tw_decimal larger_of(tw_decimal a, tw_decimal b)
{
    return a > b ? a : b; /* UNSET is below everything */
}

static void bounds_set(struct opening *o)
{
    const struct tw_rules *rules = o->view->rules;
    const struct tw_instrument *instrument = &o->plan->listing->instrument;
    tw_decimal maximum = instrument->volume_max > 0 ? instrument->volume_max : INT64_MAX;
    if (rules->max_volume != TW_DECIMAL_UNSET && rules->max_volume < maximum)
        maximum = rules->max_volume;
    o->minimum = larger_of(rules->min_volume, instrument->volume_min);
    o->maximum = tw_decimal_round(maximum, instrument->volume_step, TW_ROUND_DOWN);
}

/* What a volume is worth at this price, in the instrument's profit currency. */
static struct exact notional_of(const struct tw_instrument *instrument, tw_decimal volume,
                                tw_decimal price)
{
    struct exact notional;
    exact_set(&notional, volume);
    exact_mul(&notional, (uint64_t)instrument->contract_size);
    exact_div(&notional, (uint64_t)TW_DECIMAL_ONE);
    exact_mul(&notional, (uint64_t)price);
    exact_div(&notional, (uint64_t)TW_DECIMAL_ONE);
    return notional;
}

/* The smallest multiple of the step that meets the minimum and the minimum notional; 0: none does,
 * or nobody can tell. */
static tw_decimal smallest_allowed(const struct opening *o)
{
    const struct tw_instrument *instrument = &o->plan->listing->instrument;
    tw_decimal volume = tw_decimal_round(o->minimum, instrument->volume_step, TW_ROUND_UP);
    tw_decimal by_notional, price = entry_price(o);
    if (instrument->min_notional <= 0)
        return volume;
    if (!is_known(price) || !is_known(instrument->contract_size))
        return 0;
    struct exact needed;
    exact_set(&needed, instrument->min_notional);
    exact_mul(&needed, (uint64_t)TW_DECIMAL_ONE);
    exact_div(&needed, (uint64_t)instrument->contract_size);
    exact_mul(&needed, (uint64_t)TW_DECIMAL_ONE);
    exact_div(&needed, (uint64_t)price);
    struct exact_value value;
    if (!exact_value(&needed, &value) ||
        !exact_round(&value, instrument->volume_step, TW_ROUND_UP, &by_notional))
        return 0;
    return larger_of(volume, by_notional);
}

/* Whether an order of `forced` risks more than max_risk_coefficient times what was wanted. */
static bool risks_too_much(const struct opening *o, const struct exact *wanted, tw_decimal forced)
{
    tw_decimal coefficient = o->view->rules->max_risk_coefficient;
    if (coefficient == TW_DECIMAL_UNSET)
        return false;
    struct exact most = *wanted;
    exact_mul(&most, (uint64_t)coefficient);
    exact_div(&most, (uint64_t)TW_DECIMAL_ONE);
    return !exact_reaches(&most, forced, false);
}

/* Raises to the smallest order allowed, where the rules say so. why: else the reason, and what is
 * too small, in words (formatted only for a trace). */
static bool force_minimum(struct opening *o, const struct exact *wanted, tw_reason why)
{
    const struct tw_rules *rules = o->view->rules;
    if (!rules->force_min)
        return opening_end(o, STATE(SKIPPED), why); /* explained already */
    tw_decimal forced = smallest_allowed(o);
    if (forced == 0)
        return skip(o, why, "nobody can tell the smallest order allowed");
    if (forced > o->maximum)
        return skip(o, why, "the smallest order allowed, %s, is above the largest, %s",
                    TEXT(forced), TEXT(o->maximum));
    if (risks_too_much(o, wanted, forced)) {
        o->rule = "max_risk_coefficient";
        return skip(o, REASON(BELOW_MIN),
                    "%s, the smallest order, is more than %s times the wanted %s", TEXT(forced),
                    TEXT(rules->max_risk_coefficient), TEXT(o->plan->wanted));
    }
    note(o, "force_min", TEXT(o->plan->volume), TEXT(forced),
         "raised to the smallest order allowed");
    o->plan->volume = forced;
    opening_remark(o, REASON(FORCED_MIN));
    return true;
}

static bool meets_minimum(struct opening *o, const struct exact *wanted)
{
    o->rule = "min_volume";
    if (o->plan->volume >= o->minimum && o->plan->volume > 0)
        return true;
    explain(o, "%s is below the smallest order, %s", TEXT(o->plan->volume), TEXT(o->minimum));
    return force_minimum(o, wanted, REASON(BELOW_MIN));
}

static bool meets_maximum(struct opening *o)
{
    o->rule = "max_volume";
    tw_decimal before = o->plan->volume;
    if (before <= o->maximum)
        return true;
    o->plan->volume = o->maximum;
    if (o->plan->volume < o->minimum || o->plan->volume == 0)
        return skip(o, REASON(BELOW_MIN),
                    "the largest order allowed, %s, is below the smallest, %s", TEXT(o->maximum),
                    TEXT(o->minimum));
    opening_remark(o, REASON(CLAMPED_MAX));
    const tw_decimal broker_max = o->plan->listing->instrument.volume_max, rules_max = o->view->rules->max_volume;
    bool is_by_rules = rules_max != TW_DECIMAL_UNSET && (broker_max <= 0 || rules_max < broker_max);
    note(o, "max_volume", TEXT(before), TEXT(o->plan->volume), "clamped to %s, the largest order of the %s",
         TEXT(o->maximum), is_by_rules ? "rules" : "broker");
    return true;
}

static bool meets_notional(struct opening *o, const struct exact *wanted)
{
    o->rule = "min_notional";
    const struct tw_instrument *instrument = &o->plan->listing->instrument;
    if (instrument->min_notional <= 0)
        return true;
    tw_decimal price = entry_price(o);
    if (!is_known(price) || !is_known(instrument->contract_size))
        return skip(o, REASON(MISSING_SPEC), "a minimum notional needs a %s",
                    is_known(price) ? "contract size" : "price");
    struct exact notional = notional_of(instrument, o->plan->volume, price);
    bool reaches = exact_reaches(&notional, instrument->min_notional, true);
    explain(o, "%s x %s x %s is %s, %s the minimum notional %s", TEXT(o->plan->volume),
            TEXT(instrument->contract_size), TEXT(price), TEXT(cut(&notional)),
            reaches ? "which reaches" : "below", TEXT(instrument->min_notional));
    if (!reaches)
        return force_minimum(o, wanted, REASON(BELOW_MIN_NOTIONAL));
    note(o, "min_notional", TEXT(o->plan->volume), TEXT(o->plan->volume), "%s", o->why);
    return true;
}

bool rule_size(struct opening *o)
{
    const struct tw_rules *rules = o->view->rules;
    const struct tw_instrument *instrument = &o->plan->listing->instrument;
    struct exact wanted;
    struct exact_value value;
    if (!sizing_by_mode[rules->sizing](o, &wanted))
        return false;
    if (!is_known(instrument->volume_step) || instrument->volume_min == TW_DECIMAL_UNSET)
        return skip(o, REASON(MISSING_SPEC), "the volume step of %s is not known",
                    instrument->symbol);
    if (!exact_value(&wanted, &value) ||
        !exact_round(&value, instrument->volume_step, rules->rounding, &o->plan->volume))
        return skip(o, REASON(INTERNAL), "the volume does not fit any number we reckon with");

    bounds_set(o);
    o->plan->sizing = rules->sizing;
    o->plan->wanted = value.whole;
    note(o, "rounding", TEXT(o->plan->wanted), TEXT(o->plan->volume), "%s %s the step %s",
         TEXT(o->plan->wanted),
         o->plan->volume == o->plan->wanted    ? "is a multiple of"
         : rules->rounding == TW_ROUND_NEAREST ? "to the nearest multiple of"
                                               : "toward zero to a multiple of",
         TEXT(instrument->volume_step));
    return meets_minimum(o, &wanted) && meets_maximum(o) && meets_notional(o, &wanted);
}
