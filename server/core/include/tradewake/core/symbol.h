/* symbol.h - names of instruments, so that most are told apart by one number and found by another.
 *
 * The head of a name is its first eight characters as a number, the first one lowest, zeros after its end; a
 * name of up to seven is its head. Its tail is its last eight, the last one highest, zeros before its beginning.
 * Pure; no name is looked at behind its end. */
#ifndef TW_CORE_SYMBOL_H
#define TW_CORE_SYMBOL_H

#include <tradewake/base/limits.h>

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t tw_symbol_head(const char *name)
{
    uint64_t head = 0;
    for (uint32_t i = 0; i < sizeof head && name[i] != '\0'; i++)
        head |= (uint64_t)(unsigned char)name[i] << (8 * i);
    return head;
}

/* head: the name's. */
static inline uint64_t tw_symbol_tail(const char *name, uint64_t head)
{
    if (head == 0)
        return 0;
    if (head >> 56 == 0) /* shorter than eight: at the other end of the number */
        return head << (unsigned)__builtin_clzll(head) / 8 * 8;
    size_t length = strlen(name);
    return tw_symbol_head(name + length - sizeof head);
}

/* Whether the name with this head is the other one. */
static inline bool tw_symbol_is(const char *name, uint64_t head, const char *other, uint64_t other_head)
{
    return head == other_head && (head >> 56 == 0 || strcmp(name, other) == 0);
}

/* A name put together of parts, with its hash: tw_symbol_begin(), then tw_symbol_add() part by part. */
struct tw_symbol {
    char text[TW_SYMBOL_BYTES + sizeof(uint64_t)]; /* written in eights */
    bool is_too_long;     /* of no account's; text is what came before */
    uint32_t length;
    uint64_t mixed, part; /* eight characters at a time */
};

static inline void tw_symbol_begin(struct tw_symbol *symbol)
{
    symbol->text[0] = '\0';
    symbol->is_too_long = false;
    symbol->length = 0;
    symbol->mixed = symbol->part = 0;
}

static inline uint64_t tw_symbol_mix(uint64_t mixed, uint64_t part)
{
    mixed = (mixed ^ part) * UINT64_C(0x9e3779b97f4a7c15);
    return mixed ^ mixed >> 32;
}

/* n characters, at most eight. */
static inline void tw_symbol_put(struct tw_symbol *symbol, uint64_t characters, uint32_t n)
{
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first character of a head is its lowest byte");
    uint32_t shift = 8 * (symbol->length % 8);
    symbol->is_too_long |= symbol->length + n > TW_SYMBOL_CHARS_MAX;
    if (n == 0 || symbol->is_too_long)
        return;
    memcpy(symbol->text + symbol->length, &characters, sizeof characters);
    symbol->part |= characters << shift;
    if (shift + 8 * n >= 64) {
        symbol->mixed = tw_symbol_mix(symbol->mixed, symbol->part);
        symbol->part = shift > 0 ? characters >> (64 - shift) : 0;
    }
    symbol->length += n;
    symbol->text[symbol->length] = '\0';
}

static inline void tw_symbol_add(struct tw_symbol *symbol, const char *part)
{
    uint64_t characters;
    do {
        uint32_t n = 0;
        for (characters = 0; n < sizeof characters && part[n] != '\0'; n++)
            characters |= (uint64_t)(unsigned char)part[n] << (8 * n);
        tw_symbol_put(symbol, characters, n);
        part += n;
    } while (characters >> 56 != 0);
}

/* A part that lies in eight bytes, with a zero among them: a currency. */
static inline void tw_symbol_add_short(struct tw_symbol *symbol, const char part[8])
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = UINT64_C(0x8080808080808080);
    uint64_t characters;
    memcpy(&characters, part, sizeof characters);
    uint64_t zeros = (characters - ones) & ~characters & highs; /* the lowest bit of it is the first one's */
    assert(zeros != 0);
    uint32_t n = (uint32_t)__builtin_ctzll(zeros) / 8;
    tw_symbol_put(symbol, characters & ((UINT64_C(1) << (8 * n)) - 1), n);
}

static inline uint32_t tw_symbol_hash(const struct tw_symbol *symbol)
{
    return (uint32_t)tw_symbol_mix(symbol->mixed, symbol->part ^ symbol->length);
}

#endif
