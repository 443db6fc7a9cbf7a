#include <tradewake/config/value.h>

#include <tradewake/base/clock.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct unit {
    const char *word;
    int64_t factor;
};

/* Largest first, so that the first one that divides is the shortest way to write a number. */
static const struct unit duration_units[] = {
    {"h", 3600 * TW_NS_PER_S}, {"m", 60 * TW_NS_PER_S}, {"s", TW_NS_PER_S},
    {"ms", TW_NS_PER_MS},      {"us", TW_NS_PER_US},    {"ns", 1},
};
static const struct unit size_units[] = {
    {"GiB", INT64_C(1) << 30},
    {"MiB", INT64_C(1) << 20},
    {"KiB", INT64_C(1) << 10},
    {"", 1},
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A copy of text that is safe to print in one line: cut, without control characters. */
static const char *shown(const char *text, char *out, size_t size)
{
    size_t used = 0;
    for (; text[used] != '\0' && used + 4 < size && used < 80; used++)
        out[used] = (unsigned char)text[used] < 0x20 || text[used] == 0x7f ? '?' : text[used];
    if (text[used] != '\0') {
        memcpy(out + used, "...", 3);
        used += 3;
    }
    out[used] = '\0';
    return out;
}

static tw_status refuse(const struct tw_value_rule *rule, const char *text, struct tw_error *error)
{
    char expected[256], found[96];
    tw_value_expected(rule, expected, sizeof expected);
    if (text[0] == '\0')
        return tw_error_set(error, TW_INVALID, "found nothing, expected %s", expected);
    return tw_error_set(error, TW_INVALID, "found \"%s\", expected %s",
                        shown(text, found, sizeof found), expected);
}

/* The place of text in "a|b|c", or -1. */
static int64_t choice_index(const char *choices, const char *text)
{
    size_t length = strlen(text);
    int64_t index = 0;
    for (const char *at = choices; at != NULL && length > 0; index++) {
        const char *end = strchr(at, '|');
        size_t size = end != NULL ? (size_t)(end - at) : strlen(at);
        if (size == length && memcmp(at, text, length) == 0)
            return index;
        at = end != NULL ? end + 1 : NULL;
    }
    return -1;
}

static bool parse_bool(const char *text, int64_t *ret)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on"};
    for (size_t i = 0; i < COUNT(words); i++)
        if (strcmp(text, words[i]) == 0) {
            *ret = (int64_t)(i % 2);
            return true;
        }
    return false;
}

/* Digits, at least one; *cursor moves behind them. */
static bool parse_whole(const char **cursor, int64_t *ret)
{
    const char *at = *cursor;
    int64_t value = 0;
    if (!is_digit(*at))
        return false;
    for (; is_digit(*at); at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *at - '0', &value))
            return false;
    *cursor = at;
    *ret = value;
    return true;
}

static bool parse_int(const char *text, int64_t *ret)
{
    return parse_whole(&text, ret) && *text == '\0';
}

/* Behind the point: so many digits of one unit, exactly. "1.0005us" is less than a nanosecond and
 * refused. */
static bool parse_fraction(const char **cursor, int64_t factor, int64_t *ret)
{
    const char *at = *cursor;
    if (!is_digit(*at))
        return false;
    int64_t value = 0;
    for (; is_digit(*at); at++) {
        if (factor % 10 != 0) {
            if (*at != '0')
                return false;
            continue;
        }
        factor /= 10;
        value += (*at - '0') * factor;
    }
    *cursor = at;
    *ret = value;
    return true;
}

static bool parse_with_unit(const char *text, const struct unit *units, size_t n, int64_t *ret)
{
    int64_t whole = 0, fraction = 0;
    const char *at = text;
    if (!parse_whole(&at, &whole))
        return false;
    const char *digits = *at == '.' ? at + 1 : NULL;
    const char *word = at + (digits != NULL ? 1 + strspn(digits, "0123456789") : 0);
    if (*word == '\0' && whole == 0 && digits == NULL) { /* 0 needs no unit */
        *ret = 0;
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        if (strcmp(word, units[i].word) != 0)
            continue;
        return (digits == NULL || parse_fraction(&digits, units[i].factor, &fraction)) &&
               !__builtin_mul_overflow(whole, units[i].factor, &whole) &&
               !__builtin_add_overflow(whole, fraction, ret);
    }
    return false;
}

static bool parse_port(const char *text)
{
    int64_t port;
    return parse_int(text, &port) && port <= 65535;
}

static bool parse_address(const struct tw_value_rule *rule, const char *text)
{
    if (choice_index(rule->choices, text) >= 0)
        return true;
    if (strncmp(text, "unix:", 5) == 0)
        return text[5] != '\0';

    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text || !parse_port(colon + 1))
        return false;
    /* A host with colons of its own stands in brackets; nothing else may. */
    size_t host = (size_t)(colon - text);
    if (text[0] == '[')
        return host > 2 && text[host - 1] == ']' && memchr(text, ' ', host) == NULL;
    return memchr(text, ':', host) == NULL && memchr(text, ' ', host) == NULL &&
           memchr(text, '/', host) == NULL;
}

static bool parse_text(const char *text)
{
    for (const char *at = text; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return false;
    return strlen(text) < TW_VALUE_TEXT_BYTES;
}

static bool is_in_bounds(const struct tw_value_rule *rule, int64_t number)
{
    return (rule->min == 0 && rule->max == 0) || (number >= rule->min && number <= rule->max);
}

tw_status tw_value_parse(const struct tw_value_rule *rule, const char *text, int64_t *ret,
                         struct tw_error *error)
{
    int64_t number = 0;
    bool good = false;
    switch (rule->type) {
    case TW_VALUE_TEXT:
    case TW_VALUE_PATH:
        good = parse_text(text);
        break;
    case TW_VALUE_BOOL:
        good = parse_bool(text, &number);
        break;
    case TW_VALUE_INT:
        good = parse_int(text, &number) && is_in_bounds(rule, number);
        break;
    case TW_VALUE_DURATION:
        good = parse_with_unit(text, duration_units, COUNT(duration_units), &number) &&
               is_in_bounds(rule, number);
        break;
    case TW_VALUE_SIZE:
        good = parse_with_unit(text, size_units, COUNT(size_units), &number) &&
               is_in_bounds(rule, number);
        break;
    case TW_VALUE_ADDRESS:
        good = parse_text(text) && parse_address(rule, text);
        break;
    case TW_VALUE_ENUM:
        number = choice_index(rule->choices, text);
        good = number >= 0;
        break;
    }
    if (!good)
        return refuse(rule, text, error);
    *ret = number;
    return TW_OK;
}

static char *unit_text(int64_t value, const struct unit *units, size_t n, char *text, size_t size)
{
    if (value == 0) {
        snprintf(text, size, "0");
        return text;
    }
    for (size_t i = 0; i < n; i++)
        if (value % units[i].factor == 0) {
            snprintf(text, size, "%" PRId64 "%s", value / units[i].factor, units[i].word);
            break;
        }
    return text;
}

char *tw_value_duration_text(int64_t ns, char *text, size_t size)
{
    return unit_text(ns, duration_units, COUNT(duration_units), text, size);
}

char *tw_value_size_text(int64_t bytes, char *text, size_t size)
{
    return unit_text(bytes, size_units, COUNT(size_units), text, size);
}

static void expected_range(const struct tw_value_rule *rule, const char *what,
                           char *(*write)(int64_t, char *, size_t), char *text, size_t size)
{
    char min[32], max[32];
    if (rule->min == 0 && rule->max == 0)
        snprintf(text, size, "%s", what);
    else
        snprintf(text, size, "%s from %s to %s", what, write(rule->min, min, sizeof min),
                 write(rule->max, max, sizeof max));
}

static char *number_text(int64_t value, char *text, size_t size)
{
    snprintf(text, size, "%" PRId64, value);
    return text;
}

/* "a|b|c" as "a, b or c". */
static void expected_choices(const char *choices, char *text, size_t size)
{
    size_t used = 0;
    for (const char *at = choices; at != NULL && used < size;) {
        const char *end = strchr(at, '|');
        int length = end != NULL ? (int)(end - at) : (int)strlen(at);
        const char *before = at == choices ? "" : end != NULL ? ", " : " or ";
        int n = snprintf(text + used, size - used, "%s%.*s", before, length, at);
        used += n > 0 ? (size_t)n : 0;
        at = end != NULL ? end + 1 : NULL;
    }
}

char *tw_value_expected(const struct tw_value_rule *rule, char *text, size_t size)
{
    assert(size > 0);
    text[0] = '\0';
    switch (rule->type) {
    case TW_VALUE_TEXT:
        snprintf(text, size, "text of at most %u bytes without control characters",
                 TW_VALUE_TEXT_BYTES - 1);
        break;
    case TW_VALUE_PATH:
        snprintf(text, size, "a path of at most %u bytes", TW_VALUE_TEXT_BYTES - 1);
        break;
    case TW_VALUE_BOOL:
        snprintf(text, size, "true or false");
        break;
    case TW_VALUE_INT:
        expected_range(rule, "a whole number", number_text, text, size);
        break;
    case TW_VALUE_DURATION:
        expected_range(rule, "a duration such as 500ms, 10s or 2m", tw_value_duration_text, text,
                       size);
        break;
    case TW_VALUE_SIZE:
        expected_range(rule, "a size such as 64KiB or 1GiB", tw_value_size_text, text, size);
        break;
    case TW_VALUE_ADDRESS:
        snprintf(text, size, "an address such as 127.0.0.1:50051 or unix:/run/tradewake.sock%s%s",
                 rule->choices != NULL ? ", or " : "", rule->choices != NULL ? rule->choices : "");
        break;
    case TW_VALUE_ENUM:
        expected_choices(rule->choices, text, size);
        break;
    }
    return text;
}

/* ---- Did you mean ---- */

enum { SUGGEST_CHARS_MAX = 63 };

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Levenshtein, with a swap of neighbours counted as one change, as fingers make them. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t length_a = strlen(a), length_b = strlen(b);
    size_t rows[3][SUGGEST_CHARS_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= length_b; j++)
        last[j] = j;
    for (size_t i = 1; i <= length_a; i++) {
        now[0] = i;
        for (size_t j = 1; j <= length_b; j++) {
            size_t change = last[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = min3(last[j] + 1, now[j - 1] + 1, change);
            bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (is_swap && before[j - 2] + 1 < now[j])
                now[j] = before[j - 2] + 1;
        }
        size_t *freed = before;
        before = last;
        last = now;
        now = freed;
    }
    return last[length_b];
}

const char *tw_value_suggest(const char *word, const char *const *words, size_t n_words)
{
    size_t length = strlen(word);
    if (length > SUGGEST_CHARS_MAX)
        return NULL;
    const char *best = NULL;
    size_t best_distance = length < 4 ? 2 : length / 3 + 2; /* nearer than a third of it */
    for (size_t i = 0; i < n_words; i++) {
        if (strlen(words[i]) > SUGGEST_CHARS_MAX)
            continue;
        size_t distance = edit_distance(word, words[i]);
        if (distance < best_distance) {
            best = words[i];
            best_distance = distance;
        }
    }
    return best;
}
