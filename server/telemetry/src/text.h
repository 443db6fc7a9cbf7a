/* text.h - text that grows while it is written. A failed append is remembered, so that a page is
 * written line by line and checked once. {0} is empty. */
#ifndef TELEMETRY_TEXT_H
#define TELEMETRY_TEXT_H

#include <tradewake/base/status.h>

#include <stdbool.h>
#include <stddef.h>

struct text {
    char *bytes; /* from the heap; NUL-terminated when not NULL */
    size_t used, capacity;
    bool has_failed;
};

void text_add(struct text *text, const char *format, ...) TW_PRINTF(2, 3);
void text_clear(struct text *text);

#endif
