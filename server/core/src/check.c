#include <tradewake/core/check.h>

#include <tradewake/base/clock.h>
#include <tradewake/base/limits.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool tw_check_fail(const struct tw_check *check, const char *field, const char *format, ...)
{
    char path[TW_REFUSAL_FIELD_BYTES], words[TW_REFUSAL_TEXT_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(words, sizeof words, format, values);
    va_end(values);
    snprintf(path, sizeof path, "%s%s", check->prefix, field);
    return tw_refuse(check->refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_INVALID_FIELD, path,
                     "%s", words);
}

static bool is_id_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("._:-", c) != NULL);
}

bool tw_check_id(const struct tw_check *check, const char *field, const char *value)
{
    size_t length = strlen(value);
    if (length == 0)
        return tw_check_fail(check, field, "is empty, expected 1 to %u characters", TW_ID_CHARS_MAX);
    if (length > TW_ID_CHARS_MAX)
        return tw_check_fail(check, field, "has %zu characters, expected 1 to %u", length,
                             TW_ID_CHARS_MAX);
    for (const char *at = value; *at != '\0'; at++)
        if (!is_id_char(*at))
            return tw_check_fail(check, field, "has a character outside [A-Za-z0-9._:-] at place %zu",
                                 (size_t)(at - value) + 1);
    return true;
}

bool tw_check_text(const struct tw_check *check, const char *field, const char *value,
                   uint32_t bytes_min, uint32_t bytes_max)
{
    size_t length = strlen(value);
    if (length < bytes_min || length > bytes_max)
        return tw_check_fail(check, field, "has %zu bytes, expected %u to %u", length, bytes_min,
                             bytes_max);
    return true;
}

bool tw_check_decimal(const struct tw_check *check, const char *field, const char *value,
                      enum tw_decimal_rule rule, tw_decimal *ret)
{
    tw_decimal parsed;
    if (!tw_decimal_parse(value, &parsed))
        return tw_check_fail(check, field,
                             "\"%.24s\" is not a decimal: up to 10 digits, a point, up to 8 digits",
                             value);
    if (parsed == TW_DECIMAL_UNSET && rule == TW_POSITIVE_REQUIRED)
        return tw_check_fail(check, field, "is missing, expected a number above 0");
    if (parsed != TW_DECIMAL_UNSET) {
        if ((rule == TW_POSITIVE || rule == TW_POSITIVE_REQUIRED) && parsed <= 0)
            return tw_check_fail(check, field, "is %.24s, expected a number above 0", value);
        if (rule == TW_NOT_NEGATIVE && parsed < 0)
            return tw_check_fail(check, field, "is %.24s, expected 0 or more", value);
    }
    *ret = parsed;
    return true;
}

bool tw_check_enum_or_default(const struct tw_check *check, const char *field, int value,
                              const ProtobufCEnumDescriptor *descriptor)
{
    if (protobuf_c_enum_descriptor_get_value(descriptor, value) == NULL)
        return tw_check_fail(check, field, "%d is not a %s", value, descriptor->short_name);
    return true;
}

bool tw_check_enum(const struct tw_check *check, const char *field, int value,
                   const ProtobufCEnumDescriptor *descriptor)
{
    if (value == 0)
        return tw_check_fail(check, field, "is missing, expected a %s", descriptor->short_name);
    return tw_check_enum_or_default(check, field, value, descriptor);
}

bool tw_check_timestamp(const struct tw_check *check, const char *field,
                        const Google__Protobuf__Timestamp *value, int64_t *ret_wall_ns)
{
    if (value == NULL)
        return true;
    /* An int64 of nanoseconds reaches from 1677 to 2262. */
    const int64_t seconds_max = INT64_MAX / TW_NS_PER_S - 1;
    if (value->seconds < -seconds_max || value->seconds > seconds_max)
        return tw_check_fail(check, field, "is outside the years 1678 to 2261");
    if (value->nanos < 0 || value->nanos >= TW_NS_PER_S)
        return tw_check_fail(check, field, "has %d nanos, expected 0 to 999999999", value->nanos);
    *ret_wall_ns = value->seconds * TW_NS_PER_S + value->nanos;
    return true;
}

bool tw_check_duration(const struct tw_check *check, const char *field,
                       const Google__Protobuf__Duration *value, int64_t min_ns, int64_t max_ns,
                       int64_t *ret_ns)
{
    if (value == NULL)
        return true;
    if (value->nanos <= -TW_NS_PER_S || value->nanos >= TW_NS_PER_S ||
        (value->seconds > 0 && value->nanos < 0) || (value->seconds < 0 && value->nanos > 0))
        return tw_check_fail(check, field, "has seconds and nanos that do not go together");
    const int64_t seconds_max = INT64_MAX / TW_NS_PER_S - 1;
    bool fits = value->seconds >= -seconds_max && value->seconds <= seconds_max;
    int64_t ns = fits ? value->seconds * TW_NS_PER_S + value->nanos : 0;
    if (!fits || ns < min_ns || ns > max_ns)
        return tw_check_fail(check, field, "is %lld.%09d s, expected %lld ms to %lld ms",
                             (long long)value->seconds, value->nanos < 0 ? -value->nanos : value->nanos,
                             (long long)(min_ns / TW_NS_PER_MS), (long long)(max_ns / TW_NS_PER_MS));
    *ret_ns = ns;
    return true;
}
