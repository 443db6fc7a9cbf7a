#include "text.h"

#include <tradewake/wire/message.h>

#include <stdint.h>
#include <string.h>

static size_t continuation_bytes(unsigned char lead)
{
    if (lead >= 0xc2 && lead <= 0xdf)
        return 1;
    if (lead >= 0xe0 && lead <= 0xef)
        return 2;
    if (lead >= 0xf0 && lead <= 0xf4)
        return 3;
    return 0; /* a continuation byte, or a lead of an overlong or too large character */
}

/* The character of several bytes at `at`: how long it is, 0 when it is no valid UTF-8. */
static size_t long_character(const unsigned char *at, size_t size, uint32_t *ret_code_point)
{
    static const uint32_t smallest[] = {0, 0x80, 0x800, 0x10000};
    size_t more = continuation_bytes(at[0]);
    if (more == 0 || more >= size)
        return 0;

    uint32_t code_point = at[0] & (0x3fu >> more);
    for (size_t i = 1; i <= more; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code_point = code_point << 6 | (at[i] & 0x3f);
    }
    if (code_point < smallest[more] || code_point > 0x10ffff)
        return 0;
    if (code_point >= 0xd800 && code_point <= 0xdfff)
        return 0; /* half of a UTF-16 pair */
    *ret_code_point = code_point;
    return more + 1;
}

size_t wire_text_check(const char *bytes, size_t size, enum text_fault *ret_fault)
{
    const unsigned char *text = (const unsigned char *)bytes;
    *ret_fault = TEXT_FINE;
    for (size_t i = 0; i < size;) {
        if (text[i] >= 0x20 && text[i] < 0x7f) {
            i++;
            continue;
        }

        uint32_t code_point = text[i];
        size_t length = text[i] < 0x80 ? 1 : long_character(text + i, size - i, &code_point);
        if (length == 0)
            *ret_fault = TEXT_NOT_UTF8;
        else if (code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0))
            *ret_fault = TEXT_CONTROL;
        if (*ret_fault != TEXT_FINE)
            return i;
        i += length;
    }
    return size;
}

void wire_text_clean(char *text)
{
    size_t length = strlen(text);
    for (size_t at = 0; at < length;) {
        enum text_fault fault;
        at += wire_text_check(text + at, length - at, &fault);
        if (at >= length)
            return;
        if (fault == TEXT_NOT_UTF8 && continuation_bytes((unsigned char)text[at]) >= length - at) {
            text[at] = '\0'; /* the buffer ended inside this character */
            return;
        }
        text[at++] = '?';
    }
}

bool tw_text_is_valid(const char *bytes, size_t size)
{
    enum text_fault fault;
    return wire_text_check(bytes, size, &fault) == size;
}
