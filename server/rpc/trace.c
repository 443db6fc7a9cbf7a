#include "trace.h"

#include <stdio.h>
#include <string.h>

enum { VERSION_AT = 0, ID_AT = 3, PARENT_AT = 36, FLAGS_AT = 53, SIZE = 55 };

/* So many of 0-9a-f: capitals are not allowed. */
static bool is_hex(const char *text, size_t size)
{
    return strspn(text, "0123456789abcdef") >= size;
}

static bool is_zero(const char *text, size_t size)
{
    return strspn(text, "0") >= size;
}

/* Of a version that is not ours yet only the first four fields are read, and nothing but a dash may follow them. */
static bool is_good(const char *text)
{
    size_t size = strlen(text);
    bool is_first_version = strncmp(text, "00", 2) == 0;
    if (size < SIZE || text[ID_AT - 1] != '-' || text[PARENT_AT - 1] != '-' || text[FLAGS_AT - 1] != '-')
        return false;
    if (!is_hex(text + VERSION_AT, 2) || strncmp(text, "ff", 2) == 0)
        return false;
    if (is_first_version ? size != SIZE : size > SIZE && text[SIZE] != '-')
        return false;
    return is_hex(text + ID_AT, 32) && !is_zero(text + ID_AT, 32) && is_hex(text + PARENT_AT, 16) &&
           !is_zero(text + PARENT_AT, 16) && is_hex(text + FLAGS_AT, 2);
}

bool tw_trace_context_read(const char *text, struct tw_trace_context *ret)
{
    *ret = (struct tw_trace_context){{0}, {0}};
    if (text == NULL || !is_good(text))
        return false;
    char last = text[FLAGS_AT + 1];
    bool is_sampled = ((last >= 'a' ? last - 'a' + 10 : last - '0') & 1) != 0; /* the one flag that 00 has */
    memcpy(ret->id, text + ID_AT, 32);
    snprintf(ret->parent, sizeof ret->parent, "00-%.32s-%.16s-0%d", text + ID_AT, text + PARENT_AT, is_sampled);
    return true;
}
