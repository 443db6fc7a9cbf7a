#include "services.h"

#include <tradewake/core/check.h>

#include <stdio.h>
#include <string.h>

static struct tw_engine *the_engine;

void tw_services_engine_set(struct tw_engine *engine)
{
    the_engine = engine;
}

struct tw_engine *tw_services_engine(void)
{
    return the_engine;
}

uint32_t tw_page_size(uint32_t asked)
{
    if (asked == 0)
        return TW_PAGE_SIZE_DEFAULT;
    return asked < TW_PAGE_SIZE_MAX ? asked : TW_PAGE_SIZE_MAX;
}

enum { HASH_DIGITS = 8, PLACE_BYTES_MAX = 80 };

/* FNV-1a, 32 bits: tells filters apart, protects nothing. */
static uint32_t hash(const char *text)
{
    uint32_t value = 2166136261u;
    for (; *text != '\0'; text++)
        value = (value ^ (unsigned char)*text) * 16777619u;
    return value;
}

char *tw_page_token(struct tw_arena *arena, const char *filter, const char *place)
{
    size_t length = strlen(place);
    char *token = tw_arena_zero(arena, HASH_DIGITS + 2 * length + 1);
    if (token == NULL)
        return NULL;
    snprintf(token, HASH_DIGITS + 1, "%08x", hash(filter));
    for (size_t i = 0; i < length; i++)
        snprintf(token + HASH_DIGITS + 2 * i, 3, "%02x", (unsigned char)place[i]);
    return token;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool tw_page_place(const char *token, const char *filter, char ret_place[81],
                   struct tw_refusal *refusal)
{
    const struct tw_check check = {"", refusal};
    size_t length = strlen(token);
    ret_place[0] = '\0';
    if (length == 0)
        return true;
    char expected[HASH_DIGITS + 1];
    snprintf(expected, sizeof expected, "%08x", hash(filter));
    if (length < HASH_DIGITS || length % 2 != 0 || length > HASH_DIGITS + 2 * PLACE_BYTES_MAX)
        return tw_check_fail(&check, "page_token", "is not one that this service gave out");
    if (strncmp(token, expected, HASH_DIGITS) != 0)
        return tw_check_fail(&check, "page_token", "belongs to another filter");
    size_t n = 0;
    for (const char *at = token + HASH_DIGITS; *at != '\0'; at += 2) {
        int high = digit(at[0]), low = digit(at[1]);
        if (high < 0 || low < 0 || (high == 0 && low == 0))
            return tw_check_fail(&check, "page_token", "is not one that this service gave out");
        ret_place[n++] = (char)(high * 16 + low);
    }
    ret_place[n] = '\0';
    return true;
}
