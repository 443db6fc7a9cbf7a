#include "text.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/decimal.h>

#include <string.h>

enum { DURATION_S_MAX = 3600 };

struct span span_of(const char *text)
{
    return (struct span){text, strlen(text)};
}

static struct span trimmed(struct span span)
{
    while (span.size > 0 && span.start[0] == ' ') {
        span.start++;
        span.size--;
    }
    while (span.size > 0 && span.start[span.size - 1] == ' ')
        span.size--;
    return span;
}

bool span_split(struct span *rest, char separator, struct span *ret_part)
{
    if (rest->start == NULL)
        return false;

    const char *end = memchr(rest->start, separator, rest->size);
    struct span part = {rest->start, end != NULL ? (size_t)(end - rest->start) : rest->size};
    if (end != NULL) {
        rest->size -= part.size + 1;
        rest->start = end + 1;
    } else {
        *rest = (struct span){0};
    }
    *ret_part = trimmed(part);
    return true;
}

bool span_is(struct span span, const char *word)
{
    return span.size == strlen(word) && memcmp(span.start, word, span.size) == 0;
}

bool span_copy(struct span span, char *text, size_t size_bytes)
{
    if (span.size >= size_bytes || memchr(span.start, '\0', span.size) != NULL)
        return false;
    memcpy(text, span.start, span.size);
    text[span.size] = '\0';
    return true;
}

static const struct {
    const char *name;
    int64_t ns;
} units[] = {
    {"us", TW_NS_PER_US}, {"ms", TW_NS_PER_MS}, {"s", TW_NS_PER_S}, {"m", 60 * TW_NS_PER_S}};

bool span_duration(struct span span, int64_t *ret_ns)
{
    size_t digits = 0;
    while (digits < span.size && strchr("0123456789.", span.start[digits]) != NULL)
        digits++;
    char text[TW_DECIMAL_TEXT_BYTES];
    tw_decimal count;
    if (digits == 0 || !span_copy((struct span){span.start, digits}, text, sizeof(text)) ||
        !tw_decimal_parse(text, &count))
        return false;

    struct span unit = {span.start + digits, span.size - digits};
    if (unit.size == 0 && count == 0) {
        *ret_ns = 0;
        return true;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (!span_is(unit, units[i].name))
            continue;
        tw_decimal ns;
        if (!tw_decimal_scale(units[i].ns, count, TW_DECIMAL_ONE, 1, TW_ROUND_NEAREST, &ns) ||
            ns > DURATION_S_MAX * TW_NS_PER_S)
            return false;
        *ret_ns = ns;
        return true;
    }
    return false;
}

bool span_number(struct span span, uint64_t max, uint64_t *ret)
{
    uint64_t number = 0;
    if (span.size == 0 || span.size > 18)
        return false;
    for (size_t i = 0; i < span.size; i++) {
        if (span.start[i] < '0' || span.start[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(span.start[i] - '0');
    }
    if (number > max)
        return false;
    *ret = number;
    return true;
}

uint64_t text_hash(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash;
}
