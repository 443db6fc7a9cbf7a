/* text.h - is it text? UTF-8 without control characters. */
#ifndef WIRE_TEXT_H
#define WIRE_TEXT_H

#include <stddef.h>

enum text_fault { TEXT_FINE, TEXT_NOT_UTF8, TEXT_CONTROL };

/* The index of the first byte that is no text, and why; size when all of it is. Thread: any. */
size_t wire_text_check(const char *bytes, size_t size, enum text_fault *ret_fault);

/* Makes a NUL-terminated string text: what is not becomes '?', a character that was cut at the end
 * goes. Thread: any. */
void wire_text_clean(char *text);

#endif
