/* check.h - one field of a request, checked; the path of the field to blame is built only on failure.
 *
 * Every function answers true and sets *ret, or answers false with the refusal filled in. prefix is
 * the path of the message that holds the field, with its dot: "event.open.". */
#ifndef TW_CORE_CHECK_H
#define TW_CORE_CHECK_H

#include <tradewake/base/decimal.h>
#include <tradewake/wire/refusal.h>

#include <google/protobuf/duration.pb-c.h>
#include <google/protobuf/timestamp.pb-c.h>

#include <stdbool.h>
#include <stdint.h>

struct tw_check {
    const char *prefix;
    struct tw_refusal *refusal;
};

/* Refuses with INVALID_FIELD and the field's path; false, so that a failed check is one line. */
bool tw_check_fail(const struct tw_check *check, const char *field, const char *format, ...)
    TW_PRINTF(3, 4);

/* 1 to 64 characters of [A-Za-z0-9._:-]. */
bool tw_check_id(const struct tw_check *check, const char *field, const char *value);

/* Text of min..max bytes; UTF-8 and control characters were looked at when it was decoded. */
bool tw_check_text(const struct tw_check *check, const char *field, const char *value,
                   uint32_t bytes_min, uint32_t bytes_max);

enum tw_decimal_rule {
    TW_ANY_DECIMAL,      /* "" or a number */
    TW_NOT_NEGATIVE,     /* "" or a number of at least 0 */
    TW_POSITIVE,         /* "" or a number above 0 */
    TW_POSITIVE_REQUIRED /* a number above 0 */
};
bool tw_check_decimal(const struct tw_check *check, const char *field, const char *value,
                      enum tw_decimal_rule rule, tw_decimal *ret);

/* value is one of the enum's, and not its 0. */
bool tw_check_enum(const struct tw_check *check, const char *field, int value,
                   const ProtobufCEnumDescriptor *descriptor);

/* As tw_check_enum(), 0 allowed. */
bool tw_check_enum_or_default(const struct tw_check *check, const char *field, int value,
                              const ProtobufCEnumDescriptor *descriptor);

/* NULL: *ret stays. Out of the range of years 0001 to 9999, or nanos outside 0..1e9-1: refused.
 * Times that an int64 of nanoseconds cannot hold are refused, too. */
bool tw_check_timestamp(const struct tw_check *check, const char *field,
                        const Google__Protobuf__Timestamp *value, int64_t *ret_wall_ns);

/* NULL: *ret stays; else min_ns..max_ns. */
bool tw_check_duration(const struct tw_check *check, const char *field,
                       const Google__Protobuf__Duration *value, int64_t min_ns, int64_t max_ns,
                       int64_t *ret_ns);

#endif
