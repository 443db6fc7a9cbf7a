#include "instruments.h"
#include "text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define D(whole, e8) ((tw_decimal)(whole)*TW_DECIMAL_ONE + (e8))
#define E5           D(0, 1000)

#define FX(name, tick, from, to)                                                                   \
    {                                                                                              \
        D(0, 1000000), D(0, 1000000), D(100, 0), D(100000, 0), tick, 0, 0, 0, from, to, name       \
    }
#define CFD(name, min, step, max, contract, tick, notional, stops, from, to)                       \
    {                                                                                              \
        min, step, max, contract, tick, notional, stops, 0, from, to, name                         \
    }

/* Typical retail values, and the awkward ones: a tick that is not a power of ten, units beside
 * lots, contracts of 1000, 10 and 0.5, a micro and a 4-digit name, volumes in cents of a unit, and
 * a fraction of a share. In the order of strcmp(): it is searched by halves. */
/* clang-format off */
static const struct tw_instrument builtin[] = {
    CFD("AAPL", D(1, 0), D(1, 0), D(10000, 0), D(1, 0), D(0, 1000000), 0, 0, "", ""),
    CFD("AAPL.frac", 1, 1, D(10000, 0), D(1, 0), D(0, 1000000), 0, 0, "", ""),
    FX("AUDUSD", E5, "AUD", "USD"),
    CFD("BTCUSD", D(0, 1000000), D(0, 1000000), D(10, 0), D(1, 0), D(0, 1000000), 0, 0, "BTC", "USD"),
    CFD("BTCUSDT", D(0, 100000), D(0, 100000), D(120, 0), D(1, 0), D(0, 10000000), D(100, 0), 0, "", ""),
    CFD("DE30", D(0, 10000000), D(0, 10000000), D(100, 0), D(1, 0), D(0, 50000000), 0, 0, "", ""),
    CFD("ES", D(1, 0), D(1, 0), D(500, 0), D(50, 0), D(0, 25000000), 0, 0, "", ""),
    CFD("ETHUSDT", D(0, 100000), D(0, 100000), D(2000, 0), D(1, 0), D(0, 1000000), D(20, 0), 0, "", ""),
    FX("EURJPY", D(0, 100000), "EUR", "JPY"),
    FX("EURUSD", E5, "EUR", "USD"),
    CFD("EURUSD.4d", D(0, 1000000), D(0, 1000000), D(100, 0), D(100000, 0), D(0, 10000), 0, 0, "", ""),
    CFD("EURUSD.cents", D(100000, 0), D(100000, 0), D(1000000000, 0), D(0, 1000000), E5, 0, 0, "", ""),
    CFD("EURUSD.s20", D(0, 1000000), D(0, 1000000), D(100, 0), D(100000, 0), E5, 0, D(0, 20000), "", ""),
    CFD("EURUSDm", D(0, 1000000), D(0, 1000000), D(100, 0), D(1000, 0), E5, 0, 0, "", ""),
    CFD("EUR_USD", D(1, 0), D(1, 0), D(100000000, 0), D(1, 0), E5, 0, 0, "", ""),
    FX("GBPUSD", E5, "GBP", "USD"),
    CFD("GER40", D(0, 10000000), D(0, 10000000), D(100, 0), D(1, 0), D(0, 50000000), 0, 0, "", ""),
    CFD("NAS100", D(0, 1000000), D(0, 1000000), D(100, 0), D(1, 0), D(0, 1000000), 0, D(1, 0), "", ""),
    CFD("NAS100.c2", D(1, 0), D(1, 0), D(50, 0), D(2, 0), D(1, 0), 0, D(100, 0), "", ""),
    CFD("US30", D(0, 1000000), D(0, 1000000), D(100, 0), D(1, 0), D(0, 1000000), 0, D(1, 0), "", ""),
    CFD("US30.c05", D(1, 0), D(1, 0), D(50, 0), D(0, 50000000), D(1, 0), 0, D(100, 0), "", ""),
    CFD("US30.c5", D(1, 0), D(1, 0), D(50, 0), D(5, 0), D(1, 0), 0, D(100, 0), "", ""),
    CFD("US500", D(0, 1000000), D(0, 1000000), D(100, 0), D(1, 0), D(0, 1000000), 0, D(1, 0), "", ""),
    CFD("US500.c10", D(1, 0), D(1, 0), D(50, 0), D(10, 0), D(0, 1000000), 0, D(1, 0), "", ""),
    FX("USDCAD", E5, "USD", "CAD"),
    FX("USDCHF", E5, "USD", "CHF"),
    FX("USDJPY", D(0, 100000), "USD", "JPY"),
    CFD("XAGUSD", D(0, 1000000), D(0, 1000000), D(50, 0), D(5000, 0), D(0, 100000), 0, 0, "XAG", "USD"),
    CFD("XAUUSD", D(0, 1000000), D(0, 1000000), D(50, 0), D(100, 0), D(0, 1000000), 0, D(0, 50000000), "XAU", "USD"),
    CFD("XAUUSD.micro", D(1, 0), D(1, 0), D(50, 0), D(10, 0), D(0, 1000000), 0, D(0, 50000000), "", ""),
};
/* clang-format on */

struct instruments instruments_builtin(void)
{
    return (struct instruments){builtin, sizeof(builtin) / sizeof(builtin[0]), NULL};
}

/* The first entry that is not before symbol. */
static size_t place_of(const struct instruments *table, const char *symbol)
{
    size_t low = 0, high = table->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(table->list[middle].symbol, symbol) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct tw_instrument *instruments_find(const struct instruments *table, const char *symbol)
{
    size_t at = place_of(table, symbol);
    return at < table->n && strcmp(table->list[at].symbol, symbol) == 0 ? &table->list[at] : NULL;
}

tw_status instruments_put(struct instruments *table, const struct tw_instrument *instrument)
{
    size_t at = place_of(table, instrument->symbol);
    bool is_new = at == table->n || strcmp(table->list[at].symbol, instrument->symbol) != 0;
    if (table->own == NULL || is_new) {
        struct tw_instrument *grown = realloc(table->own, (table->n + 1) * sizeof(*grown));
        if (grown == NULL)
            return TW_NO_MEMORY;
        if (table->own == NULL && table->n > 0)
            memcpy(grown, table->list, table->n * sizeof(*grown));
        table->list = table->own = grown;
    }
    if (is_new) {
        memmove(&table->own[at + 1], &table->own[at], (table->n - at) * sizeof(*table->own));
        table->n++;
    }
    table->own[at] = *instrument;
    instrument_currencies(&table->own[at]);
    return TW_OK;
}

void instruments_clear(struct instruments *table)
{
    free(table->own);
    *table = (struct instruments){0};
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

void instrument_currencies(struct tw_instrument *instrument)
{
    memset(instrument->base_currency, 0, sizeof(instrument->base_currency));
    memset(instrument->profit_currency, 0, sizeof(instrument->profit_currency));
    if (strlen(instrument->symbol) != 6)
        return;
    for (int i = 0; i < 6; i++) {
        if (!is_letter(instrument->symbol[i]))
            return;
    }
    memcpy(instrument->base_currency, instrument->symbol, 3);
    memcpy(instrument->profit_currency, instrument->symbol + 3, 3);
}

const struct instrument_fault *instrument_check(const struct tw_instrument *instrument)
{
    static const struct instrument_fault no_min = {"min_volume", "expected above 0"},
                                         no_step = {"volume_step", "expected above 0"},
                                         no_max = {"max_volume", "expected at least min_volume"},
                                         no_contract = {"contract_size", "expected above 0"},
                                         no_tick = {"tick_size", "expected above 0"},
                                         no_notional = {"min_notional", "expected 0 or more"},
                                         no_stops = {"stops_distance", "expected 0 or more"},
                                         no_freeze = {"freeze_distance", "expected 0 or more"};
    return instrument->volume_min <= 0                       ? &no_min
           : instrument->volume_step <= 0                    ? &no_step
           : instrument->volume_max < instrument->volume_min ? &no_max
           : instrument->contract_size <= 0                  ? &no_contract
           : instrument->tick_size <= 0                      ? &no_tick
           : instrument->min_notional < 0                    ? &no_notional
           : instrument->stops_distance < 0                  ? &no_stops
           : instrument->freeze_distance < 0                 ? &no_freeze
                                                             : NULL;
}

/* A decimal as text, or a whole number; a fraction as a JSON number has lost digits already. */
static bool json_decimal(const json_t *value, tw_decimal *ret)
{
    if (json_is_string(value)) {
        tw_decimal parsed;
        if (!tw_decimal_parse(json_string_value(value), &parsed) || parsed == TW_DECIMAL_UNSET)
            return false;
        *ret = parsed;
        return true;
    }
    json_int_t whole = json_integer_value(value);
    if (!json_is_integer(value) || whole < -9999999999 || whole > 9999999999)
        return false;
    *ret = whole * TW_DECIMAL_ONE;
    return true;
}

static const struct {
    const char *key;
    size_t offset;
    bool required;
} instrument_keys[] = {
    {"min", offsetof(struct tw_instrument, volume_min), true},
    {"step", offsetof(struct tw_instrument, volume_step), true},
    {"max", offsetof(struct tw_instrument, volume_max), true},
    {"contract", offsetof(struct tw_instrument, contract_size), true},
    {"tick", offsetof(struct tw_instrument, tick_size), true},
    {"min_notional", offsetof(struct tw_instrument, min_notional), false},
    {"stops", offsetof(struct tw_instrument, stops_distance), false},
    {"freeze", offsetof(struct tw_instrument, freeze_distance), false},
};
enum { INSTRUMENT_KEYS = sizeof(instrument_keys) / sizeof(instrument_keys[0]) };

static bool is_symbol(const char *text)
{
    size_t size = strlen(text);
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return false;
    }
    return size > 0 && size <= TW_SYMBOL_CHARS_MAX;
}

static tw_status instrument_read(const char *symbol, const json_t *object,
                                 struct tw_instrument *ret, struct tw_error *error)
{
    struct tw_instrument instrument = {0};
    size_t known = 0;
    if (!is_symbol(symbol) || !json_is_object(object))
        return tw_error_set(error, TW_INVALID, "instruments: \"%.64s\" is not SYMBOL: {...}",
                            symbol);
    memcpy(instrument.symbol, symbol, strlen(symbol));
    for (int i = 0; i < INSTRUMENT_KEYS; i++) {
        const json_t *value = json_object_get(object, instrument_keys[i].key);
        if (value == NULL && !instrument_keys[i].required)
            continue;
        void *field = (char *)&instrument + instrument_keys[i].offset;
        if (value == NULL || !json_decimal(value, field))
            return tw_error_set(error, TW_INVALID,
                                "instruments: %s.%s is %s, expected a decimal as text", symbol,
                                instrument_keys[i].key, value == NULL ? "missing" : "not one");
        known++;
    }
    if (known != json_object_size(object))
        return tw_error_set(
            error, TW_INVALID,
            "instruments: %s has an unknown key, known are min, step, max, contract, "
            "tick, min_notional, stops, freeze",
            symbol);
    const struct instrument_fault *wrong = instrument_check(&instrument);
    if (wrong != NULL)
        return tw_error_set(error, TW_INVALID, "instruments: %s %s: %s", symbol, wrong->field,
                            wrong->words);
    *ret = instrument;
    return TW_OK;
}

static tw_status object_load(const char *what, const char *text, json_t **ret,
                             struct tw_error *error)
{
    json_error_t where;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    if (root == NULL)
        return tw_error_set(error, TW_INVALID, "%s is not JSON: %s at %d:%d", what, where.text,
                            where.line, where.column);
    if (!json_is_object(root)) {
        json_decref(root);
        return tw_error_set(error, TW_INVALID, "%s is not a JSON object of symbols", what);
    }
    *ret = root;
    return TW_OK;
}

tw_status instruments_parse(const char *json, struct instruments *ret, struct tw_error *error)
{
    struct instruments table = {0};
    json_t *root;
    tw_status status = object_load("instruments", json, &root, error);
    if (status != TW_OK)
        return status;

    const char *symbol;
    json_t *value;
    json_object_foreach(root, symbol, value)
    {
        struct tw_instrument instrument;
        status = instrument_read(symbol, value, &instrument, error);
        if (status == TW_OK && instruments_put(&table, &instrument) != TW_OK)
            status = tw_error_set(error, TW_NO_MEMORY, "no memory for the instruments");
        if (status != TW_OK)
            goto done;
    }
    if (table.n == 0) {
        status = tw_error_set(error, TW_INVALID, "instruments names no symbol");
        goto done;
    }
    *ret = table;
    table = (struct instruments){0};

done:
    instruments_clear(&table);
    json_decref(root);
    return status;
}

bool quote_sides_parse(const char *text, tw_decimal *ret_bid, tw_decimal *ret_ask)
{
    struct span rest = span_of(text), sides[2] = {{0}}, more;
    char words[2][TW_DECIMAL_TEXT_BYTES];
    tw_decimal prices[2];
    if (!span_split(&rest, '/', &sides[0]) || !span_split(&rest, '/', &sides[1]) ||
        span_split(&rest, '/', &more))
        return false;
    for (int i = 0; i < 2; i++) {
        if (!span_copy(sides[i], words[i], sizeof(words[i])) ||
            !tw_decimal_parse(words[i], &prices[i]) || prices[i] <= 0)
            return false;
    }
    if (prices[0] > prices[1])
        return false;
    *ret_bid = prices[0];
    *ret_ask = prices[1];
    return true;
}

tw_status quotes_parse(const char *json, struct quote **ret_quotes, size_t *ret_n,
                       struct tw_error *error)
{
    struct quote *quotes = NULL;
    size_t n = 0;
    json_t *root;
    tw_status status = object_load("quotes", json, &root, error);
    if (status != TW_OK)
        return status;

    quotes = calloc(json_object_size(root) + 1, sizeof(*quotes));
    if (quotes == NULL) {
        status = tw_error_set(error, TW_NO_MEMORY, "no memory for the quotes");
        goto done;
    }
    const char *symbol;
    json_t *value;
    json_object_foreach(root, symbol, value)
    {
        if (!is_symbol(symbol) ||
            !span_copy(span_of(symbol), quotes[n].symbol, sizeof(quotes[n].symbol)) ||
            !json_is_string(value) ||
            !quote_sides_parse(json_string_value(value), &quotes[n].bid, &quotes[n].ask)) {
            status = tw_error_set(
                error, TW_INVALID,
                "quotes: %.64s is not \"BID/ASK\", both above 0, bid not above ask", symbol);
            goto done;
        }
        n++;
    }
    *ret_quotes = quotes;
    *ret_n = n;
    quotes = NULL;

done:
    free(quotes);
    json_decref(root);
    return status;
}
