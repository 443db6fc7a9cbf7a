#include <tradewake/base/status.h>

#include <stdarg.h>
#include <stdio.h>

tw_status tw_error_set(struct tw_error *error, tw_status status, const char *format, ...)
{
    if (error == NULL)
        return status;

    va_list values;
    va_start(values, format);
    vsnprintf(error->text, sizeof error->text, format, values);
    va_end(values);
    return status;
}

const char *tw_status_words(tw_status status)
{
    switch (status) {
#define TW_STATUS_CASE(name, number, words)                                                         \
    case TW_##name:                                                                                 \
        return words;
        TW_STATUS_MAP(TW_STATUS_CASE)
#undef TW_STATUS_CASE
    }
    return "an unknown status";
}
