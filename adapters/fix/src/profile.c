#include "profile.h"

#include <string.h>
#include <strings.h>

#define R(name) TRADEWAKE__V1__REASON__REASON_##name
#define ANY FIX_NO_CODE
#define RULES(list)                                                                                                    \
    {                                                                                                                  \
        list, sizeof(list) / sizeof((list)[0])                                                                         \
    }

/* A refusal that no row fits is still one: 39=8 says that nothing is executed. */
static const struct fix_rule generic_refused[] = {
    {6, NULL, TW_OUTCOME_AMBIGUOUS, R(BROKER_OTHER)}, /* duplicate: an earlier one arrived */
    {0, NULL, TW_OUTCOME_REJECTED, R(BROKER_OTHER)},
    {1, NULL, TW_OUTCOME_REJECTED, R(SYMBOL_NOT_FOUND)},
    {2, NULL, TW_OUTCOME_RETRY_LATER, R(MARKET_CLOSED)},
    {3, NULL, TW_OUTCOME_REJECTED, R(RISK_LIMIT)},
    {4, NULL, TW_OUTCOME_REJECTED, R(TOO_OLD)},
    {8, NULL, TW_OUTCOME_RETRY_NOW, R(TOO_OLD)},
    {11, NULL, TW_OUTCOME_REJECTED, R(BROKER_OTHER)},
    {13, NULL, TW_OUTCOME_REJECTED, R(INVALID_VOLUME)},
    {15, NULL, TW_OUTCOME_REJECTED, R(AUTH)},
    {18, NULL, TW_OUTCOME_REJECTED, R(INVALID_PRICE)},
    {ANY, NULL, TW_OUTCOME_REJECTED, R(BROKER_OTHER)},
};

/* Words of the venue where its codes do not tell. A position that is gone is what a close is after. */
static const struct fix_rule ctrader_refused[] = {
    {6, NULL, TW_OUTCOME_AMBIGUOUS, R(BROKER_OTHER)},
    {ANY, "POSITION_NOT_FOUND", TW_OUTCOME_NOT_FOUND, R(ALREADY_CLOSED)},
    {ANY, "POSITION_NOT_OPEN", TW_OUTCOME_NOT_FOUND, R(ALREADY_CLOSED)},
    {ANY, "POSITION_LOCKED", TW_OUTCOME_RETRY_LATER, R(BUSY)},
    {ANY, "NO_QUOTES", TW_OUTCOME_RETRY_LATER, R(REQUOTE)},
    {ANY, "NOT_ENOUGH_MONEY", TW_OUTCOME_REJECTED, R(NO_MONEY)},
    {ANY, "MARKET_CLOSED", TW_OUTCOME_REJECTED, R(MARKET_CLOSED)},
    {ANY, "TRADING_DISABLED", TW_OUTCOME_REJECTED, R(TRADE_DISABLED)},
    {ANY, "TRADING_BAD_VOLUME", TW_OUTCOME_REJECTED, R(INVALID_VOLUME)},
    {ANY, "TRADING_BAD_STOPS", TW_OUTCOME_REJECTED, R(INVALID_STOPS)},
    {ANY, "MAX_EXPOSURE_REACHED", TW_OUTCOME_REJECTED, R(RISK_LIMIT)},
    {ANY, "REQUEST_FREQUENCY_EXCEEDED", TW_OUTCOME_RETRY_LATER, R(RATE_LIMITED)},
    {1, NULL, TW_OUTCOME_REJECTED, R(SYMBOL_NOT_FOUND)},
    {2, NULL, TW_OUTCOME_RETRY_LATER, R(MARKET_CLOSED)},
    {3, NULL, TW_OUTCOME_REJECTED, R(RISK_LIMIT)},
    {8, NULL, TW_OUTCOME_RETRY_NOW, R(TOO_OLD)},
    {13, NULL, TW_OUTCOME_REJECTED, R(INVALID_VOLUME)},
    {ANY, NULL, TW_OUTCOME_REJECTED, R(BROKER_OTHER)},
};

/* Too late, unknown, duplicate and what is not listed: the order itself is asked for. */
static const struct fix_rule generic_cancel_refused[] = {
    {0, NULL, TW_OUTCOME_AMBIGUOUS, R(BROKER_OTHER)},
    {1, NULL, TW_OUTCOME_AMBIGUOUS, R(BROKER_OTHER)},
    {2, NULL, TW_OUTCOME_REJECTED, R(BROKER_OTHER)},
    {3, NULL, TW_OUTCOME_RETRY_LATER, R(BUSY)}, /* a change is under way already */
    {6, NULL, TW_OUTCOME_AMBIGUOUS, R(BROKER_OTHER)},
};

static const struct fix_rule generic_unread[] = {
    {ANY, "ORDER_NOT_FOUND", TW_OUTCOME_NOT_FOUND, R(ALREADY_CLOSED)},
    {1, NULL, TW_OUTCOME_REJECTED, R(BROKER_OTHER)},
    {2, NULL, TW_OUTCOME_REJECTED, R(SYMBOL_NOT_FOUND)},
    {3, NULL, TW_OUTCOME_UNSUPPORTED, R(BROKER_OTHER)},
    {4, NULL, TW_OUTCOME_RETRY_LATER, R(BUSY)},
    {5, NULL, TW_OUTCOME_REJECTED, R(BROKER_OTHER)},
    {6, NULL, TW_OUTCOME_REJECTED, R(AUTH)},
};

static const struct fix_rule ctrader_unread[] = {
    {ANY, "POSITION_NOT_FOUND", TW_OUTCOME_NOT_FOUND, R(ALREADY_CLOSED)},
    {ANY, "ORDER_NOT_FOUND", TW_OUTCOME_NOT_FOUND, R(ALREADY_CLOSED)},
    {ANY, "REQUEST_FREQUENCY_EXCEEDED", TW_OUTCOME_RETRY_LATER, R(RATE_LIMITED)},
    {4, NULL, TW_OUTCOME_RETRY_LATER, R(BUSY)},
    {1, NULL, TW_OUTCOME_REJECTED, R(BROKER_OTHER)},
    {2, NULL, TW_OUTCOME_REJECTED, R(SYMBOL_NOT_FOUND)},
    {3, NULL, TW_OUTCOME_UNSUPPORTED, R(BROKER_OTHER)},
    {5, NULL, TW_OUTCOME_REJECTED, R(BROKER_OTHER)},
    {6, NULL, TW_OUTCOME_REJECTED, R(AUTH)},
};

static const struct fix_profile profiles[] = {
    {.name = "generic44",
     .is_netting = true,
     .wants_handl_inst = true,
     .wants_side = true,
     .asks_order = true,
     .refuses_duplicates = true,
     .market_tif = '3',
     .pending_tif = '1',
     .sender_sub = "",
     .target_sub = "",
     .settle_ms = 2000,
     .refused = RULES(generic_refused),
     .cancel_refused = RULES(generic_cancel_refused),
     .unread = RULES(generic_unread)},
    {.name = "ctrader",
     .is_one_account = true,
     .position_tag = 721,
     .label_tag = 494,
     .wants_order_id = true,
     .wants_side = true,
     .asks_order = true,
     .asks_all = true,
     .asks_positions = true,
     .refuses_duplicates = true,
     .market_tif = '3',
     .pending_tif = '1',
     .takes_user_tags = true,
     .resets_at_logon = true,
     .sender_sub = "TRADE",
     .target_sub = "TRADE",
     .settle_ms = 2000,
     .calls_per_second = 50,
     .refused = RULES(ctrader_refused),
     .cancel_refused = RULES(generic_cancel_refused),
     .unread = RULES(ctrader_unread)},
};

const struct fix_profile *fix_profile_find(const char *name)
{
    for (size_t i = 0; i < sizeof profiles / sizeof profiles[0]; i++)
        if (strcmp(profiles[i].name, name) == 0)
            return &profiles[i];
    return NULL;
}

const char *fix_profile_names(void)
{
    return "generic44, ctrader";
}

const struct fix_rule *fix_rule_find(const struct fix_rules *rules, int code, const char *text)
{
    for (size_t i = 0; i < rules->n; i++) {
        const struct fix_rule *rule = &rules->list[i];
        if ((rule->code == ANY || rule->code == code) && (rule->text == NULL || strcasestr(text, rule->text) != NULL))
            return rule;
    }
    return NULL;
}
