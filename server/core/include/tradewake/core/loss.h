/* loss.h - loss limits: what an account has lost since a period began, and which limit counts when several are
 * reached. Pure: no clock; money as the broker told it. */
#ifndef TW_CORE_LOSS_H
#define TW_CORE_LOSS_H

#include <tradewake/core/rules.h>

/* The calendar period, in UTC, that now is in; weeks begin on Monday. until 0: for ever. */
struct tw_period {
    int64_t from_wall_ns, until_wall_ns;
};
struct tw_period tw_period_of(Tradewake__V1__RiskPeriod period, int64_t now_wall_ns);

/* Whether the limit is reached. balance, equity: when its period began. *ret_lost: by how much the account has
 * fallen; set when something can be said at all. */
bool tw_loss_reaches(const struct tw_loss_limit *limit, tw_decimal balance, tw_decimal equity,
                     const struct tw_account *account, tw_decimal *ret_lost);

/* Several may be reached: one that closes counts more than one that only stops opening, and of two alike the one that
 * lasts longer. Whether the next takes the place of the one that counts (NULL: none). */
bool tw_loss_outweighs(const struct tw_loss_limit *now, int64_t now_until_wall_ns, const struct tw_loss_limit *next,
                       int64_t next_until_wall_ns);

#endif
