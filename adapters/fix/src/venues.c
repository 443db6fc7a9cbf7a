#include "venues.h"

#include <tradewake/adapters/secret.h>
#include <tradewake/base/clock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Values. ---- */

static tw_status text_take(char *to, size_t size, const char *value, const char *what, struct tw_error *error)
{
    if (value[0] == '\0')
        return tw_error_set(error, TW_INVALID, "%s is empty", what);
    if (strlen(value) >= size)
        return tw_error_set(error, TW_INVALID, "%s is longer than %zu characters", what, size - 1);
    snprintf(to, size, "%s", value);
    return TW_OK;
}

static bool number_read(const char *text, uint32_t max, uint32_t *ret)
{
    uint32_t number = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && number <= max; at++)
        number = number * 10 + (uint32_t)(*at - '0');
    if (at == text || *at != '\0' || number > max)
        return false;
    *ret = number;
    return true;
}

static tw_status number_take(uint32_t *to, uint32_t min, uint32_t max, const char *value, const char *what,
                             struct tw_error *error)
{
    uint32_t number;
    if (!number_read(value, max, &number) || number < min)
        return tw_error_set(error, TW_INVALID, "%s is \"%.40s\", expected %u to %u", what, value, min, max);
    *to = number;
    return TW_OK;
}

static tw_status choice_take(bool *to, const char *value, const char *what, struct tw_error *error)
{
    bool is_yes = strcmp(value, "yes") == 0;
    if (!is_yes && strcmp(value, "no") != 0)
        return tw_error_set(error, TW_INVALID, "%s is \"%.40s\", expected yes or no", what, value);
    *to = is_yes;
    return TW_OK;
}

/* "HH:MM" to minutes; -1 = it is none. */
static int clock_read(const char *text)
{
    bool is_one = strlen(text) == 5 && text[2] == ':' && strspn(text, "0123456789:") == 5;
    int hour = is_one ? (text[0] - '0') * 10 + text[1] - '0' : 24;
    int minute = is_one ? (text[3] - '0') * 10 + text[4] - '0' : 60;
    return hour < 24 && minute < 60 ? hour * 60 + minute : -1;
}

static int day_read(const char *text)
{
    static const char *const days[] = {"mon", "tue", "wed", "thu", "fri", "sat", "sun"};
    for (int i = 0; i < 7; i++)
        if (strcmp(days[i], text) == 0)
            return i;
    return -1;
}

/* ---- Keys: what stands in a section, and which field of a message it becomes. ---- */

typedef tw_status key_fn(struct fix_venue *venue, const char *value, struct tw_error *error);

static tw_status take_profile(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    const struct fix_profile *profile = fix_profile_find(value);
    if (profile == NULL)
        return tw_error_set(error, TW_INVALID, "profile is \"%.40s\", expected one of %s", value, fix_profile_names());
    if (venue->profile.name != NULL)
        return tw_error_set(error, TW_INVALID, "profile is given twice, or after what changes it; keep one, first");
    venue->profile = *profile;
    snprintf(venue->sender_sub, sizeof venue->sender_sub, "%s", profile->sender_sub);
    snprintf(venue->target_sub, sizeof venue->target_sub, "%s", profile->target_sub);
    return TW_OK;
}

static tw_status take_address(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    const char *colon = strrchr(value, ':');
    uint32_t port;
    if (colon == NULL || colon == value || !number_read(colon + 1, 65535, &port) || port == 0)
        return tw_error_set(error, TW_INVALID, "address is \"%.80s\", expected HOST:PORT", value);
    size_t length = (size_t)(colon - value);
    bool is_bracketed = value[0] == '[' && colon[-1] == ']';
    if (length >= sizeof venue->host)
        return tw_error_set(error, TW_INVALID, "address is longer than %zu characters", sizeof venue->host - 1);
    snprintf(venue->host, sizeof venue->host, "%.*s", (int)(is_bracketed ? length - 2 : length),
             value + (is_bracketed ? 1 : 0));
    snprintf(venue->port, sizeof venue->port, "%u", port);
    return TW_OK;
}

static tw_status take_ca(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    venue->is_tls = true;
    return text_take(venue->ca, sizeof venue->ca, value, "ca", error);
}

static tw_status take_server_name(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    return text_take(venue->server_name, sizeof venue->server_name, value, "server_name", error);
}

static tw_status take_certificate(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    return text_take(venue->certificate, sizeof venue->certificate, value, "certificate", error);
}

static tw_status take_key(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    return text_take(venue->key, sizeof venue->key, value, "key", error);
}

static tw_status take_sender(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    return text_take(venue->sender, sizeof venue->sender, value, "sender (49 SenderCompID)", error);
}

static tw_status take_target(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    return text_take(venue->target, sizeof venue->target, value, "target (56 TargetCompID)", error);
}

static tw_status take_sender_sub(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    return text_take(venue->sender_sub, sizeof venue->sender_sub, value, "sender_sub (50 SenderSubID)", error);
}

static tw_status take_target_sub(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    return text_take(venue->target_sub, sizeof venue->target_sub, value, "target_sub (57 TargetSubID)", error);
}

static tw_status take_username(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    return text_take(venue->username, sizeof venue->username, value, "username (553)", error);
}

static tw_status take_password(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    char sample[FIX_NAME_BYTES + sizeof TW_SECRET_PREFIX];
    bool is_one = fix_fill_in(value, "x", sample, sizeof sample) && tw_secret_name(sample) != NULL;
    if (!is_one)
        return tw_error_set(error, TW_INVALID,
                            "password (554) is not kept here: expected secret:NAME, a file in secrets.directory");
    return text_take(venue->password, sizeof venue->password, value + strlen(TW_SECRET_PREFIX), "password (554)",
                     error);
}

static tw_status take_heartbeat(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    return number_take(&venue->heartbeat_s, 1, 3600, value,
                       "heartbeat (108 HeartBtInt; 0 would not show that a connection is dead)", error);
}

static tw_status take_connect(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    return number_take(&venue->connect_ms, 100, 120000, value, "connect_ms", error);
}

static tw_status take_currency(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    return text_take(venue->currency, sizeof venue->currency, value, "currency", error);
}

static tw_status take_order_status(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    return choice_take(&venue->profile.asks_order, value, "order_status (35=H)", error);
}

static tw_status take_mass_status(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    return choice_take(&venue->profile.asks_all, value, "mass_status (35=AF)", error);
}

static tw_status take_positions(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    return choice_take(&venue->profile.asks_positions, value, "positions (35=AN)", error);
}

static tw_status take_unique_ids(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    return choice_take(&venue->profile.refuses_duplicates, value, "unique_ids (103=6)", error);
}

static tw_status take_settle(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    return number_take(&venue->profile.settle_ms, 0, 600000, value, "settle_ms", error);
}

static tw_status take_reset(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    int minute = clock_read(value);
    venue->profile.resets_at_logon = strcmp(value, "logon") == 0;
    venue->reset_min = minute;
    if (minute < 0 && !venue->profile.resets_at_logon && strcmp(value, "never") != 0)
        return tw_error_set(error, TW_INVALID, "reset (141 ResetSeqNumFlag) is \"%.40s\", expected logon, never or HH:MM in UTC",
                            value);
    return TW_OK;
}

/* "22:05-21:55" every day, or "sun 22:05 - fri 21:55" in the week; UTC. */
static tw_status take_hours(struct fix_venue *venue, const char *value, struct tw_error *error)
{
    char text[32], *end, *from = text;
    snprintf(text, sizeof text, "%s", value);
    struct fix_hours hours = {.is_set = true};
    bool is_one = strlen(value) < sizeof text && (end = strchr(text, '-')) != NULL;
    if (is_one) {
        *end++ = '\0';
        end += strspn(end, " ");
        from[strcspn(from, " ") == 3 ? 9 : 5] = '\0';
        hours.is_daily = strlen(from) == 5;
        if (!hours.is_daily && strlen(from) == 9 && strlen(end) == 9) {
            from[3] = end[3] = '\0';
            int first = day_read(from), last = day_read(end), opens = clock_read(from + 4), closes = clock_read(end + 4);
            is_one = first >= 0 && last >= 0 && opens >= 0 && closes >= 0;
            hours.start_min = first * 1440 + opens;
            hours.end_min = last * 1440 + closes;
        } else {
            hours.start_min = clock_read(from);
            hours.end_min = clock_read(end);
            is_one = hours.is_daily && hours.start_min >= 0 && hours.end_min >= 0;
        }
        is_one = is_one && hours.start_min != hours.end_min;
    }
    if (!is_one)
        return tw_error_set(error, TW_INVALID,
                            "hours is \"%.40s\", expected 22:05-21:55 or sun 22:05 - fri 21:55, in UTC", value);
    venue->hours = hours;
    return TW_OK;
}

static const struct {
    const char *key;
    key_fn *take;
} keys[] = {
    {"profile", take_profile},         {"address", take_address},         {"ca", take_ca},
    {"server_name", take_server_name}, {"certificate", take_certificate}, {"key", take_key},
    {"sender", take_sender},           {"target", take_target},           {"sender_sub", take_sender_sub},
    {"target_sub", take_target_sub},   {"username", take_username},       {"password", take_password},
    {"heartbeat", take_heartbeat},     {"connect_ms", take_connect},      {"currency", take_currency},
    {"order_status", take_order_status}, {"mass_status", take_mass_status}, {"positions", take_positions},
    {"unique_ids", take_unique_ids},   {"settle_ms", take_settle},        {"reset", take_reset},
    {"hours", take_hours},
};

/* ---- Symbols: "symbol NAME = VENUE_NAME contract=100000 tick=0.00001 min=0.01 step=0.01 max=50 ..." ---- */

static bool symbol_field(struct fix_symbol *symbol, const char *field, const char *value, struct tw_error *error)
{
    struct tw_instrument *i = &symbol->instrument;
    const struct {
        const char *name;
        tw_decimal *number;
    } numbers[] = {
        {"contract", &i->contract_size}, {"tick", &i->tick_size},     {"min", &i->volume_min},
        {"step", &i->volume_step},       {"max", &i->volume_max},     {"min_notional", &i->min_notional},
    };
    for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
        tw_decimal number;
        if (strcmp(numbers[k].name, field) != 0)
            continue;
        if (!tw_decimal_parse(value, &number) || number == TW_DECIMAL_UNSET || number <= 0) {
            (void)tw_error_set(error, TW_INVALID, "%s is \"%.40s\", expected a number above 0", field, value);
            return false;
        }
        *numbers[k].number = number;
        return true;
    }
    char *text = strcmp(field, "base") == 0 ? i->base_currency : strcmp(field, "quote") == 0 ? i->profit_currency : NULL;
    if (text != NULL && strlen(value) < sizeof i->base_currency) {
        snprintf(text, sizeof i->base_currency, "%s", value);
        return true;
    }
    (void)tw_error_set(error, TW_INVALID,
                       "found \"%.40s\" of a symbol, expected contract, tick, min, step, max, min_notional, base, quote",
                       field);
    return false;
}

static tw_status symbol_check(const struct fix_symbol *symbol, struct tw_error *error)
{
    const struct tw_instrument *i = &symbol->instrument;
    tw_decimal units;
    if (i->contract_size <= 0 || i->tick_size <= 0 || i->volume_min <= 0 || i->volume_step <= 0 || i->volume_max <= 0)
        return tw_error_set(error, TW_INVALID,
                            "a symbol needs contract, tick, min, step and max: FIX 4.4 has no way to ask for them");
    if (!fix_units_of(symbol, i->volume_step, &units) || !fix_units_of(symbol, i->volume_max, &units))
        return tw_error_set(error, TW_INVALID, "step or max times contract has no exact quantity (38 OrderQty)");
    return TW_OK;
}

static tw_status symbol_add(struct fix_venue *venue, const char *name, char *value, struct tw_error *error)
{
    if (name[0] == '\0' || strlen(name) >= TW_SYMBOL_BYTES)
        return tw_error_set(error, TW_INVALID, "a symbol's name has 1 to %u characters", TW_SYMBOL_BYTES - 1);
    if (fix_venue_symbol(venue, name) != NULL)
        return tw_error_set(error, TW_INVALID, "symbol %s is given twice; keep one", name);
    if (venue->n_symbols == FIX_SYMBOLS_MAX)
        return tw_error_set(error, TW_INVALID, "more than %d symbols", FIX_SYMBOLS_MAX);
    struct fix_symbol *grown = realloc(venue->symbols, (venue->n_symbols + 1) * sizeof *grown);
    if (grown == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the symbols");
    venue->symbols = grown;
    struct fix_symbol *symbol = &grown[venue->n_symbols];
    *symbol = (struct fix_symbol){0};
    snprintf(symbol->instrument.symbol, sizeof symbol->instrument.symbol, "%s", name);
    char *rest = NULL, *word = strtok_r(value, " ", &rest);
    if (word == NULL)
        return tw_error_set(error, TW_INVALID, "symbol %s has no name at the venue (55 Symbol)", name);
    tw_status status = text_take(symbol->venue_name, sizeof symbol->venue_name, word, "55 Symbol", error);
    while (status == TW_OK && (word = strtok_r(NULL, " ", &rest)) != NULL) {
        char *equals = strchr(word, '=');
        if (equals == NULL)
            return tw_error_set(error, TW_INVALID, "found \"%.40s\", expected NAME=VALUE", word);
        *equals = '\0';
        if (!symbol_field(symbol, word, equals + 1, error))
            return TW_INVALID;
    }
    if (status == TW_OK)
        status = symbol_check(symbol, error);
    venue->n_symbols += status == TW_OK;
    return status;
}

/* ---- Sections. ---- */

static bool has_account(const char *pattern)
{
    return strstr(pattern, "{account}") != NULL;
}

static tw_status venue_check(struct fix_venue *venue, struct tw_error *error)
{
    if (venue->profile.name == NULL)
        return tw_error_set(error, TW_INVALID, "profile is missing; expected one of %s", fix_profile_names());
    if (venue->host[0] == '\0')
        return tw_error_set(error, TW_INVALID, "address is missing; expected HOST:PORT");
    if (venue->sender[0] == '\0')
        return tw_error_set(error, TW_INVALID, "sender is missing: every message names it (49 SenderCompID)");
    if (venue->target[0] == '\0')
        return tw_error_set(error, TW_INVALID, "target is missing: every message names it (56 TargetCompID)");
    if ((venue->certificate[0] == '\0') != (venue->key[0] == '\0'))
        return tw_error_set(error, TW_INVALID, "certificate and key go together");
    bool is_local = strcmp(venue->host, "127.0.0.1") == 0 || strcmp(venue->host, "::1") == 0 ||
                    strcmp(venue->host, "localhost") == 0;
    if (!venue->is_tls && !is_local)
        return tw_error_set(error, TW_INVALID,
                            "ca is missing: without it orders and the password (554) go to %.80s in plain text; "
                            "expected a PEM file or system (a line that is private by other means ends in a tunnel on "
                            "this machine)",
                            venue->host);
    if (venue->n_symbols == 0)
        return tw_error_set(error, TW_INVALID, "it names no symbol; expected at least one (55 Symbol)");
    venue->is_per_account = has_account(venue->sender) || has_account(venue->sender_sub) || has_account(venue->username);
    if (venue->profile.is_one_account && !venue->is_per_account)
        return tw_error_set(error, TW_INVALID,
                            "a session of %s is one account's: expected {account} in sender (49) or username (553)",
                            venue->profile.name);
    if (has_account(venue->password) && !venue->is_per_account)
        return tw_error_set(error, TW_INVALID, "{account} is in password (554), but neither in sender (49) nor username (553)");
    return TW_OK;
}

static tw_status venue_begin(struct fix_venues *venues, const char *name, int line, struct tw_error *error)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    if (name[0] == '\0' || strlen(name) >= FIX_NAME_BYTES || name[strspn(name, letters)] != '\0' || name[0] == '.')
        return tw_error_set(error, TW_INVALID, "found [%.80s], expected 1 to %d of A-Z a-z 0-9 . _ -", name,
                            FIX_NAME_BYTES - 1);
    if (fix_venues_find(venues, name) != NULL)
        return tw_error_set(error, TW_INVALID, "section [%s] is given twice; keep one", name);
    if (venues->n == FIX_VENUES_MAX)
        return tw_error_set(error, TW_INVALID, "more than %d sections", FIX_VENUES_MAX);
    struct fix_venue *grown = realloc(venues->list, (venues->n + 1) * sizeof *grown);
    if (grown == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the sessions");
    venues->list = grown;
    grown[venues->n] = (struct fix_venue){.heartbeat_s = 30, .connect_ms = 10000, .reset_min = -1, .line = line};
    snprintf(grown[venues->n].name, sizeof grown->name, "%s", name);
    venues->n++;
    return TW_OK;
}

static tw_status key_take(struct fix_venue *venue, char *key, char *value, struct tw_error *error)
{
    if (strncmp(key, "symbol ", 7) == 0)
        return symbol_add(venue, key + 7 + strspn(key + 7, " "), value, error);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(keys[i].key, key) == 0) {
            if (venue->profile.name == NULL && i > 0)
                return tw_error_set(error, TW_INVALID, "profile comes first: it decides what %.40s means", key);
            return keys[i].take(venue, value, error);
        }
    return tw_error_set(error, TW_INVALID, "unknown setting \"%.60s\" of a FIX session", key);
}

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\r", text[n - 1]) != NULL)
        text[--n] = '\0';
    return text;
}

static tw_status line_take(struct fix_venues *venues, char *line, int number, struct tw_error *error)
{
    char *at = trim(line), *equals = strchr(at, '=');
    size_t n = strlen(at);
    if (n == 0 || at[0] == '#' || at[0] == ';')
        return TW_OK;
    if (at[0] == '[' && at[n - 1] == ']') {
        at[n - 1] = '\0';
        tw_status status = venues->n > 0 ? venue_check(&venues->list[venues->n - 1], error) : TW_OK;
        return status == TW_OK ? venue_begin(venues, trim(at + 1), number, error) : status;
    }
    if (equals == NULL)
        return tw_error_set(error, TW_INVALID, "found \"%.60s\", expected [NAME], or KEY = VALUE", at);
    if (venues->n == 0)
        return tw_error_set(error, TW_INVALID, "found \"%.60s\" before the first [NAME]", at);
    *equals = '\0';
    return key_take(&venues->list[venues->n - 1], trim(at), trim(equals + 1), error);
}

tw_status fix_venues_read(const char *text, const char *path, struct fix_venues *ret, struct tw_error *error)
{
    struct tw_error why = {{0}};
    struct fix_venues venues = {0};
    tw_status status = TW_OK;
    int number = 0;
    for (const char *at = text; status == TW_OK && *at != '\0';) {
        char line[FIX_LINE_BYTES];
        size_t length = strcspn(at, "\n");
        number++;
        if (length >= sizeof line) {
            status = tw_error_set(&why, TW_INVALID, "a line of more than %d characters", FIX_LINE_BYTES - 1);
            break;
        }
        memcpy(line, at, length);
        line[length] = '\0';
        status = line_take(&venues, line, number, &why);
        at += length + (at[length] == '\n');
    }
    if (status == TW_OK && venues.n > 0)
        status = venue_check(&venues.list[venues.n - 1], &why);
    if (status == TW_OK) {
        *ret = venues;
        return TW_OK;
    }
    fix_venues_clear(&venues);
    return tw_error_set(error, status, "%s:%d: %s", path, number, why.text);
}

void fix_venues_clear(struct fix_venues *venues)
{
    for (size_t i = 0; i < venues->n; i++)
        free(venues->list[i].symbols);
    free(venues->list);
    *venues = (struct fix_venues){0};
}

const struct fix_venue *fix_venues_find(const struct fix_venues *venues, const char *name)
{
    for (size_t i = 0; i < venues->n; i++)
        if (strcmp(venues->list[i].name, name) == 0)
            return &venues->list[i];
    return NULL;
}

const struct fix_symbol *fix_venue_symbol(const struct fix_venue *venue, const char *symbol)
{
    for (size_t i = 0; i < venue->n_symbols; i++)
        if (strcmp(venue->symbols[i].instrument.symbol, symbol) == 0)
            return &venue->symbols[i];
    return NULL;
}

const struct fix_symbol *fix_venue_symbol_by_venue_name(const struct fix_venue *venue, const char *venue_name)
{
    for (size_t i = 0; i < venue->n_symbols; i++)
        if (strcmp(venue->symbols[i].venue_name, venue_name) == 0)
            return &venue->symbols[i];
    return NULL;
}

bool fix_fill_in(const char *pattern, const char *account, char *ret, size_t size)
{
    static const char mark[] = "{account}";
    size_t used = 0;
    for (const char *at = pattern; *at != '\0';) {
        bool is_mark = strncmp(at, mark, sizeof mark - 1) == 0;
        size_t n = is_mark ? strlen(account) : 1;
        if (used + n >= size)
            return false;
        memcpy(ret + used, is_mark ? account : at, n);
        used += n;
        at += is_mark ? sizeof mark - 1 : 1;
    }
    ret[used] = '\0';
    return true;
}

/* ---- Time. ---- */

static int minute_of_week(int64_t wall_ns)
{
    enum { WEEK = 7 * 1440, THURSDAY = 3 * 1440 }; /* 1970-01-01 was one */
    int64_t minutes = wall_ns / (60 * TW_NS_PER_S);
    return (int)((minutes + THURSDAY) % WEEK);
}

bool fix_hours_are_open(const struct fix_hours *hours, int64_t wall_ns)
{
    if (!hours->is_set)
        return true;
    int now = minute_of_week(wall_ns);
    if (hours->is_daily)
        now %= 1440;
    if (hours->start_min < hours->end_min)
        return now >= hours->start_min && now < hours->end_min;
    return now >= hours->start_min || now < hours->end_min;
}

int64_t fix_last_reset_wall_ns(const struct fix_venue *venue, int64_t wall_ns)
{
    const int64_t day_ns = 24 * 3600 * TW_NS_PER_S;
    if (venue->reset_min < 0)
        return INT64_MIN;
    int64_t reset_ns = wall_ns / day_ns * day_ns + venue->reset_min * 60 * TW_NS_PER_S;
    return reset_ns <= wall_ns ? reset_ns : reset_ns - day_ns;
}

/* ---- Quantities. ---- */

bool fix_units_of(const struct fix_symbol *symbol, tw_decimal lots, tw_decimal *ret_units)
{
    tw_decimal units, back;
    if (!tw_decimal_mul(lots, symbol->instrument.contract_size, &units) ||
        !tw_decimal_scale(units, TW_DECIMAL_ONE, symbol->instrument.contract_size, 1, TW_ROUND_DOWN, &back) || back != lots)
        return false;
    *ret_units = units;
    return true;
}

bool fix_lots_of(const struct fix_symbol *symbol, tw_decimal units, tw_decimal *ret_lots)
{
    tw_decimal lots, back;
    if (!tw_decimal_scale(units, TW_DECIMAL_ONE, symbol->instrument.contract_size, 1, TW_ROUND_DOWN, &lots) ||
        !tw_decimal_mul(lots, symbol->instrument.contract_size, &back) || back != units)
        return false;
    *ret_lots = lots;
    return true;
}
