#define OPENSSL_SUPPRESS_DEPRECATED /* the context on the stack */
#include <tradewake/core/digest.h>

#include <assert.h>
#include <openssl/sha.h>
#include <string.h>

void tw_sha256(const void *bytes, size_t size, uint8_t ret[TW_SHA256_BYTES])
{
    SHA256_CTX context;
    SHA256_Init(&context);
    SHA256_Update(&context, bytes, size);
    SHA256_Final(ret, &context);
}

void tw_lines_put(struct tw_lines *lines, const char *text)
{
    size_t size = strlen(text);
    assert(size < (size_t)(lines->end - lines->at));
    memcpy(lines->at, text, size);
    lines->at += size;
    *lines->at++ = '\n';
}

void tw_lines_put_number(struct tw_lines *lines, int64_t number)
{
    char digits[24], *first = digits + sizeof digits - 1;
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
    *first = '\0';
    do
        *--first = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (number < 0)
        *--first = '-';
    tw_lines_put(lines, first);
}
