#include "settings.h"
#include "text.h"

#include <tradewake/adapters/secret.h>
#include <tradewake/base/clock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef tw_status setting_fn(struct settings *settings, const char *value, struct tw_error *error);

static tw_status one_of_two(const char *key, const char *value, const char *no, const char *yes,
                            bool *ret, struct tw_error *error)
{
    if (strcmp(value, yes) != 0 && strcmp(value, no) != 0)
        return tw_error_set(error, TW_INVALID, "%s is \"%.64s\", expected %s or %s", key, value, no,
                            yes);
    *ret = strcmp(value, yes) == 0;
    return TW_OK;
}

static tw_status duration(const char *key, const char *value, int64_t *ret, struct tw_error *error)
{
    int64_t ns;
    if (!span_duration(span_of(value), &ns) || ns <= 0)
        return tw_error_set(error, TW_INVALID,
                            "%s is \"%.64s\", expected a time like 500ms or 2s, above 0", key,
                            value);
    *ret = ns;
    return TW_OK;
}

static tw_status read_account_mode(struct settings *settings, const char *value,
                                   struct tw_error *error)
{
    return one_of_two("account_mode", value, "hedging", "netting", &settings->is_netting, error);
}

static tw_status read_balance(struct settings *settings, const char *value, struct tw_error *error)
{
    tw_decimal balance;
    if (!tw_decimal_parse(value, &balance) || balance == TW_DECIMAL_UNSET || balance < 0)
        return tw_error_set(error, TW_INVALID,
                            "balance is \"%.64s\", expected a decimal, not below 0", value);
    settings->balance = balance;
    return TW_OK;
}

static tw_status read_currency(struct settings *settings, const char *value, struct tw_error *error)
{
    size_t size = strlen(value);
    for (size_t i = 0; i < size; i++) {
        if (!(value[i] >= 'A' && value[i] <= 'Z') && !(value[i] >= '0' && value[i] <= '9'))
            size = 0;
    }
    if (size < 3 || size >= sizeof(settings->currency))
        return tw_error_set(error, TW_INVALID,
                            "currency is \"%.64s\", expected 3 to 7 capital letters", value);
    memcpy(settings->currency, value, size + 1);
    return TW_OK;
}

static tw_status read_leverage(struct settings *settings, const char *value, struct tw_error *error)
{
    uint64_t leverage;
    if (!span_number(span_of(value), 100000, &leverage) || leverage == 0)
        return tw_error_set(error, TW_INVALID,
                            "leverage is \"%.64s\", expected a whole number from 1 to 100000",
                            value);
    settings->leverage = (uint32_t)leverage;
    return TW_OK;
}

static tw_status read_seed(struct settings *settings, const char *value, struct tw_error *error)
{
    settings->has_seed = true;
    if (!span_number(span_of(value), UINT64_MAX, &settings->seed))
        return tw_error_set(error, TW_INVALID, "seed is \"%.64s\", expected at most 18 digits",
                            value);
    return TW_OK;
}

static tw_status read_instruments(struct settings *settings, const char *value,
                                  struct tw_error *error)
{
    instruments_clear(&settings->instruments);
    settings->instruments_hash = text_hash(value);
    return instruments_parse(value, &settings->instruments, error);
}

/* What a real broker's login would need, so that the way of a secret can be tried out. */
static tw_status read_password(struct settings *settings, const char *value, struct tw_error *error)
{
    const char *name = tw_secret_name(value);
    if (name == NULL)
        return tw_error_set(error, TW_INVALID, "password is not secret:NAME");
    settings->password = name;
    return TW_OK;
}

static tw_status read_quotes(struct settings *settings, const char *value, struct tw_error *error)
{
    free(settings->quotes);
    settings->quotes = NULL;
    settings->quotes_hash = text_hash(value);
    return quotes_parse(value, &settings->quotes, &settings->n_quotes, error);
}

static tw_status read_latency(struct settings *settings, const char *value, struct tw_error *error)
{
    settings->latency_text = value;
    settings->latency_hash = text_hash(value);
    return latency_parse(value, &settings->latency, error);
}

static tw_status read_nonblocking(struct settings *settings, const char *value,
                                  struct tw_error *error)
{
    return one_of_two("nonblocking", value, "false", "true", &settings->nonblocking, error);
}

static tw_status read_call_timeout(struct settings *settings, const char *value,
                                   struct tw_error *error)
{
    return duration("call_timeout", value, &settings->call_timeout_ns, error);
}

static tw_status read_settle(struct settings *settings, const char *value, struct tw_error *error)
{
    return duration("settle", value, &settings->settle_ns, error);
}

static tw_status read_faults(struct settings *settings, const char *value, struct tw_error *error)
{
    faults_clear(&settings->faults);
    settings->faults_text = value;
    settings->faults_hash = text_hash(value);
    return faults_parse(value, &settings->faults, error);
}

static tw_status read_remainder(struct settings *settings, const char *value,
                                struct tw_error *error)
{
    return one_of_two("remainder", value, "same_ticket", "new_ticket",
                      &settings->remainder_new_ticket, error);
}

static tw_status read_banned(struct settings *settings, const char *value, struct tw_error *error)
{
    static const struct {
        const char *word;
        uint32_t bit;
    } words[] = {{"login", BANNED_LOGIN}, {"trading", BANNED_TRADING}, {"opening", BANNED_OPENING},
                 {"hedging", BANNED_HEDGING}, {"out_of_fifo", BANNED_OUT_OF_FIFO}};
    struct span rest = span_of(value), part;
    settings->banned = 0;
    while (span_split(&rest, ',', &part)) {
        size_t i = 0;
        while (i < sizeof(words) / sizeof(words[0]) && !span_is(part, words[i].word))
            i++;
        if (i == sizeof(words) / sizeof(words[0]))
            return tw_error_set(error, TW_INVALID,
                                "banned is \"%.64s\", expected some of login, trading, opening, hedging, "
                                "out_of_fifo, with commas between",
                                value);
        settings->banned |= words[i].bit;
    }
    return TW_OK;
}

static const struct {
    const char *key;
    setting_fn *read;
} keys[] = {
    {"account_mode", read_account_mode},
    {"balance", read_balance},
    {"banned", read_banned},
    {"call_timeout", read_call_timeout},
    {"currency", read_currency},
    {"faults", read_faults},
    {"instruments", read_instruments},
    {"latency", read_latency},
    {"leverage", read_leverage},
    {"nonblocking", read_nonblocking},
    {"password", read_password},
    {"quotes", read_quotes},
    {"remainder", read_remainder},
    {"seed", read_seed},
    {"settle", read_settle},
};
enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

static tw_status unknown_key(const char *key, struct tw_error *error)
{
    char known[256];
    size_t used = 0;
    for (int i = 0; i < KEYS; i++) {
        int more =
            snprintf(known + used, sizeof(known) - used, "%s%s", i == 0 ? "" : ", ", keys[i].key);
        used += (size_t)more;
    }
    return tw_error_set(error, TW_INVALID, "a paper account has no setting \"%.64s\"; it knows %s",
                        key, known);
}

static tw_status read_one(struct settings *settings, const struct tw_adapter_setting *setting,
                          struct tw_error *error)
{
    for (int i = 0; i < KEYS; i++) {
        if (strcmp(keys[i].key, setting->key) == 0)
            return keys[i].read(settings, setting->value, error);
    }
    return unknown_key(setting->key, error);
}

tw_status settings_read(const struct tw_session_options *options, struct settings *ret,
                        char ret_key[SETTING_KEY_BYTES], struct tw_error *error)
{
    *ret = (struct settings){
        .balance = 10000 * TW_DECIMAL_ONE,
        .currency = "USD",
        .call_timeout_ns = 2 * TW_NS_PER_S,
        .settle_ns = TW_NS_PER_S,
        .latency = {.model = LATENCY_CONSTANT, .base_ns = TW_NS_PER_MS},
        .password = "",
        .faults_text = "",
        .latency_text = "constant:1ms",
    };
    for (size_t i = 0; i < options->n_settings; i++) {
        tw_status status = read_one(ret, &options->settings[i], error);
        if (status != TW_OK) {
            snprintf(ret_key, SETTING_KEY_BYTES, "%.64s", options->settings[i].key);
            return status;
        }
    }
    if (!ret->has_seed)
        ret->seed =
            text_hash(options->follower_id); /* the same every time, another for each account */
    if (ret->instruments.list == NULL)
        ret->instruments = instruments_builtin();
    return TW_OK;
}

void settings_clear(struct settings *settings)
{
    free(settings->quotes);
    settings->quotes = NULL;
    faults_clear(&settings->faults);
    instruments_clear(&settings->instruments);
}
