#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_BYTES_MIN 1024u

static bool reserve(struct text *text, size_t more)
{
    size_t capacity = text->capacity == 0 ? TEXT_BYTES_MIN : text->capacity;
    while (capacity - text->used < more)
        capacity *= 2u;
    if (capacity == text->capacity)
        return true;
    char *bytes = realloc(text->bytes, capacity);
    if (bytes == NULL)
        return false;
    text->bytes = bytes;
    text->capacity = capacity;
    return true;
}

void text_add(struct text *text, const char *format, ...)
{
    va_list values, again;
    va_start(values, format);
    va_copy(again, values);
    int length = vsnprintf(NULL, 0, format, values);
    if (text->has_failed || length < 0 || !reserve(text, (size_t)length + 1u))
        text->has_failed = true;
    else
        text->used +=
            (size_t)vsnprintf(text->bytes + text->used, (size_t)length + 1u, format, again);
    va_end(again);
    va_end(values);
}

void text_clear(struct text *text)
{
    free(text->bytes);
    *text = (struct text){0};
}
