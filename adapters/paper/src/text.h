/* text.h - small readers of what people write in adapter_config. Pure. Thread: any. */
#ifndef PAPER_TEXT_H
#define PAPER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A piece of somebody's text, not NUL-terminated. */
struct span {
    const char *start;
    size_t size;
};

struct span span_of(const char *text);

/* Takes what stands before the next `separator` (or all there is) off *rest, without blanks around
 * it. False when nothing is left. */
bool span_split(struct span *rest, char separator, struct span *ret_part);

bool span_is(struct span span, const char *word);

/* Copies to a NUL-terminated buffer; false when it does not fit or holds a NUL. */
bool span_copy(struct span span, char *text, size_t size_bytes);

/* "130ms", "1.5s", "20us", "2m", "0": at most an hour. */
bool span_duration(struct span span, int64_t *ret_ns);

/* Digits only. */
bool span_number(struct span span, uint64_t max, uint64_t *ret);

/* FNV-1a: equal texts, equal numbers; for "has this setting changed?", not against an enemy. */
uint64_t text_hash(const char *text);

#endif
