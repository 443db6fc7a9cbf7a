#include <tradewake/fix/codec.h>

#include <tradewake/base/clock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FEED_ROOM = 16384,        /* beside one message of the largest size */
    BEGIN_BYTES_MAX = 12,     /* "FIXT.1.1" and what may come */
    TRAILER_BYTES = 7,        /* "10=123" and its separator */
    PREFIX_BYTES = 32,        /* of a message that is written: 8 and 9 are known at its end */
    NUMBER_DIGITS_MAX = 18,
};

static const char begin_mark[] = "8=FIX";
enum { MARK_BYTES = sizeof begin_mark - 1 };

const char *fix_defect_words(enum fix_defect defect)
{
    switch (defect) {
    case FIX_INVALID_TAG:
        return "Invalid tag number";
    case FIX_TAG_MISSING:
        return "Required tag missing";
    case FIX_TAG_NOT_OF_TYPE:
        return "Tag not defined for this message type";
    case FIX_NO_VALUE:
        return "Tag specified without a value";
    case FIX_VALUE_WRONG:
        return "Value is incorrect (out of range) for this tag";
    case FIX_FORMAT_WRONG:
        return "Incorrect data format for value";
    case FIX_COMP_ID:
        return "CompID problem";
    case FIX_SENDING_TIME:
        return "SendingTime accuracy problem";
    case FIX_TYPE_INVALID:
        return "Invalid MsgType";
    case FIX_TAG_REPEATED:
        return "Tag appears more than once";
    case FIX_NO_DEFECT:
        break;
    }
    return "";
}

/* ---- Values. ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool fix_number_read(const char *text, size_t n, uint64_t *ret)
{
    uint64_t number = 0;
    if (n == 0 || n > NUMBER_DIGITS_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(text[i]))
            return false;
        number = number * 10 + (uint64_t)(text[i] - '0');
    }
    *ret = number;
    return true;
}

bool fix_decimal_read(const char *text, size_t n, tw_decimal *ret)
{
    enum { WHOLE_MAX = 10, FRACTION_MAX = 8 };
    size_t at = 0, digits = 0, whole = 0, fraction = 0;
    int64_t units = 0;
    bool is_negative = n > 0 && text[0] == '-';
    at += is_negative;
    for (; at < n && is_digit(text[at]); at++, digits++) {
        whole += whole > 0 || text[at] != '0';
        if (whole > WHOLE_MAX)
            return false;
        units = units * 10 + (text[at] - '0');
    }
    if (at < n && text[at] == '.') {
        for (at++; at < n && is_digit(text[at]); at++, digits++) {
            if (fraction == FRACTION_MAX) {
                if (text[at] != '0')
                    return false;
                continue;
            }
            units = units * 10 + (text[at] - '0');
            fraction++;
        }
    }
    if (digits == 0 || at != n)
        return false;
    for (; fraction < FRACTION_MAX; fraction++)
        units *= 10;
    *ret = is_negative ? -units : units;
    return true;
}

static bool digits_read(const char *text, size_t n, int *ret)
{
    uint64_t number = 0;
    if (n > 9 || !fix_number_read(text, n, &number))
        return false;
    *ret = (int)number;
    return true;
}

/* Days since 1970-01-01 of the Gregorian calendar. */
static int64_t days_of(int year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = y / 400, of_era = y - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

bool fix_time_read(const char *text, size_t n, int64_t *ret_wall_ns)
{
    enum { YEAR_MAX = 2261 }; /* what nanoseconds in 64 bits hold */
    int year, month, day, hour, minute, second, fraction = 0;
    if (n < 17 || text[8] != '-' || text[11] != ':' || text[14] != ':')
        return false;
    bool is_good = digits_read(text, 4, &year) && digits_read(text + 4, 2, &month) && digits_read(text + 6, 2, &day) &&
                   digits_read(text + 9, 2, &hour) && digits_read(text + 12, 2, &minute) && digits_read(text + 15, 2, &second);
    if (!is_good || year < 1970 || year > YEAR_MAX || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60)
        return false;
    if (n > 17 && (text[17] != '.' || n > 27 || !digits_read(text + 18, n - 18, &fraction)))
        return false;
    for (size_t i = n > 17 ? n - 18 : 9; i < 9; i++)
        fraction *= 10;
    int64_t seconds = ((days_of(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    *ret_wall_ns = seconds * TW_NS_PER_S + fraction;
    return true;
}

char *fix_time_text(int64_t wall_ns, char text[FIX_UTC_BYTES])
{
    int64_t ms = wall_ns > 0 ? wall_ns / TW_NS_PER_MS : 0;
    int64_t day = ms / 86400000 + 719468;
    int64_t of_day = ms % 86400000;
    int64_t era = day / 146097, of_era = day - era * 146097;
    int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t shifted = (5 * of_year + 2) / 153; /* months from March on */
    unsigned day_of_month = (unsigned)(of_year - (153 * shifted + 2) / 5 + 1);
    unsigned month = (unsigned)(shifted < 10 ? shifted + 3 : shifted - 9);
    unsigned year = (unsigned)(year_of_era + era * 400 + (month <= 2));
    snprintf(text, FIX_UTC_BYTES, "%04u%02u%02u-%02u:%02u:%02u.%03u", year % 10000, month % 100, day_of_month % 100,
             (unsigned)(of_day / 3600000), (unsigned)(of_day / 60000 % 60), (unsigned)(of_day / 1000 % 60),
             (unsigned)(of_day % 1000));
    return text;
}

/* ---- Messages. ---- */

/* Fields that say how long the next one is. */
static const struct {
    uint16_t length, data;
} data_fields[] = {
    {90, 91},   {93, 89},   {95, 96},   {212, 213}, {348, 349}, {350, 351}, {352, 353}, {354, 355},
    {356, 357}, {358, 359}, {360, 361}, {362, 363}, {364, 365}, {445, 446}, {618, 619}, {621, 622},
};

uint32_t fix_data_tag(uint32_t length_tag)
{
    for (size_t i = 0; i < sizeof data_fields / sizeof data_fields[0]; i++)
        if (data_fields[i].length == length_tag)
            return data_fields[i].data;
    return 0;
}

bool fix_type_is_admin(const char *type)
{
    return type[0] != '\0' && type[1] == '\0' && strchr("012345A", type[0]) != NULL;
}

static bool is_type(const char *text, size_t n)
{
    if (n == 0 || n >= FIX_TYPE_BYTES || (n > 2 && text[0] != 'U'))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_digit(text[i]) && !(text[i] >= 'A' && text[i] <= 'Z') && !(text[i] >= 'a' && text[i] <= 'z'))
            return false;
    return true;
}

static void defect_set(struct fix_message *message, enum fix_defect defect, const char *tag, size_t n)
{
    if (message->defect != FIX_NO_DEFECT)
        return;
    message->defect = defect;
    message->defect_tag = tag;
    message->defect_tag_n = (uint32_t)n;
}

/* The tag at text, which ends at the "="; 0 = it is none. */
static uint32_t tag_read(const char *text, size_t n)
{
    uint64_t tag = 0;
    if (n == 0 || n > FIX_TAG_DIGITS_MAX || text[0] == '0' || !fix_number_read(text, n, &tag))
        return 0;
    return (uint32_t)tag;
}

/* What a length field that came just before says of this one; false: it is no data field. */
static bool data_length(const struct fix_message *message, const struct fix_field *field, uint64_t *ret)
{
    if (message->n_fields == 0 || field->tag == 0)
        return false;
    const struct fix_field *before = field - 1;
    return fix_data_tag(before->tag) == field->tag && fix_number_read(before->value, before->n, ret);
}

/* The field at *cursor. False: the frame is no message. */
static bool field_read(const char **cursor, const char *end, struct fix_message *message, struct fix_field *field)
{
    const char *at = *cursor;
    const char *soh = memchr(at, FIX_SOH, (size_t)(end - at));
    if (soh == NULL)
        return false;
    const char *equals = memchr(at, '=', (size_t)(soh - at));
    const char *tag_end = equals != NULL ? equals : soh;
    const char *value = equals != NULL ? equals + 1 : soh;
    uint64_t length;
    *field = (struct fix_field){.tag = tag_read(at, (size_t)(tag_end - at)), .value = value};
    if (equals != NULL && data_length(message, field, &length)) {
        if (length >= (uint64_t)(end - value) || value[length] != FIX_SOH)
            return false;
        soh = value + length;
    }
    field->n = (uint32_t)(soh - value);
    if (field->tag == 0)
        defect_set(message, FIX_INVALID_TAG, at, (size_t)(tag_end - at));
    else if (field->n == 0)
        defect_set(message, FIX_NO_VALUE, at, (size_t)(tag_end - at));
    *cursor = soh + 1;
    return true;
}

/* Those of which a second one would be taken for the first: 8, 9, 34, 35, 43, 49, 52, 56. */
static bool is_single(uint32_t tag)
{
    const uint64_t single = UINT64_C(1) << 8 | UINT64_C(1) << 9 | UINT64_C(1) << 34 | UINT64_C(1) << 35 |
                            UINT64_C(1) << 43 | UINT64_C(1) << 49 | UINT64_C(1) << 52 | UINT64_C(1) << 56;
    return tag < 64 && (single >> tag & 1) != 0;
}

/* Header values that the session needs. */
static void field_note(struct fix_message *message, const struct fix_field *field, uint64_t *seen)
{
    if (is_single(field->tag)) {
        if ((*seen >> field->tag & 1) != 0) {
            const char *tag = field->value - 2; /* "34=": both digits, or the one */
            size_t n = field->tag < 10 ? 1 : 2;
            defect_set(message, FIX_TAG_REPEATED, tag - (n - 1), n);
            return;
        }
        *seen |= UINT64_C(1) << field->tag;
    }
    if (field->tag == 8)
        message->is_44 = field->n == 7 && memcmp(field->value, "FIX.4.4", 7) == 0;
    if (field->tag == 34)
        message->has_seq = fix_number_read(field->value, field->n, &message->seq);
    if (field->tag == 35) {
        size_t n = field->n < FIX_TYPE_BYTES ? field->n : FIX_TYPE_BYTES - 1;
        memcpy(message->type, field->value, n);
        message->type[n] = '\0';
        if (field->n > 0 && !is_type(field->value, field->n))
            defect_set(message, FIX_TYPE_INVALID, NULL, 0);
    }
}

/* bytes: a frame whose length and checksum are right. */
static bool fields_read(const char *bytes, size_t n, struct fix_field *fields, struct fix_message *ret)
{
    const char *cursor = bytes, *end = bytes + n;
    uint64_t seen = 0;
    struct fix_message message = {.bytes = bytes, .n = n, .fields = fields, .defect = FIX_NO_DEFECT};
    while (cursor < end) {
        struct fix_field *field = &fields[message.n_fields];
        if (message.n_fields == FIX_FIELDS_MAX || !field_read(&cursor, end, &message, field))
            return false;
        if (field->tag == 10 && cursor != end)
            return false;
        field_note(&message, field, &seen);
        message.n_fields++;
    }
    if (fields[message.n_fields - 1].tag != 10)
        return false; /* a data field has eaten it */
    *ret = message;
    return true;
}

/* ---- Frames. ---- */

enum framing { FRAME_MORE, FRAME_GOOD, FRAME_BAD /* its length is right, and it is no message */, FRAME_NONE };

static unsigned checksum(const char *bytes, size_t n)
{
    unsigned sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (unsigned char)bytes[i];
    return sum & 255;
}

/* Where the "9=" begins; 0: not yet; SIZE_MAX: never. */
static size_t begin_string_end(const char *bytes, size_t n)
{
    size_t look = n < 2 + BEGIN_BYTES_MAX + 1 ? n : 2 + BEGIN_BYTES_MAX + 1;
    for (size_t i = MARK_BYTES; i < look; i++) {
        if (bytes[i] == FIX_SOH)
            return i + 1;
        if (bytes[i] <= ' ' || bytes[i] > '~')
            return SIZE_MAX;
    }
    return look < n || look == 2 + BEGIN_BYTES_MAX + 1 ? SIZE_MAX : 0;
}

/* "9=123<SOH>" at `at`. Where what it counts begins; 0: not yet; SIZE_MAX: it is none. */
static size_t body_length_read(const char *bytes, size_t n, size_t at, uint64_t *ret)
{
    size_t digits = 0;
    for (size_t i = 0; i < 2; i++) {
        if (at + i == n)
            return 0;
        if (bytes[at + i] != "9="[i])
            return SIZE_MAX;
    }
    at += 2;
    while (at + digits < n && digits <= FIX_LENGTH_DIGITS_MAX && is_digit(bytes[at + digits]))
        digits++;
    if (at + digits == n && digits <= FIX_LENGTH_DIGITS_MAX)
        return 0;
    if (digits == 0 || digits > FIX_LENGTH_DIGITS_MAX || bytes[at + digits] != FIX_SOH ||
        !fix_number_read(bytes + at, digits, ret))
        return SIZE_MAX;
    return at + digits + 1;
}

/* "10=123<SOH>", and a separator before it. */
static bool is_trailer(const char *at)
{
    return at[-1] == FIX_SOH && memcmp(at, "10=", 3) == 0 && is_digit(at[3]) && is_digit(at[4]) && is_digit(at[5]) &&
           at[6] == FIX_SOH;
}

/* Whether bytes begin with a message, and how long it is. bytes begin with the mark. */
static enum framing frame_look(const char *bytes, size_t n, size_t bytes_max, size_t *ret_size)
{
    uint64_t length = 0;
    size_t nine = begin_string_end(bytes, n);
    if (nine == 0 || nine == SIZE_MAX)
        return nine == 0 ? FRAME_MORE : FRAME_NONE;
    size_t body = body_length_read(bytes, n, nine, &length);
    if (body == 0 || body == SIZE_MAX)
        return body == 0 ? FRAME_MORE : FRAME_NONE;
    for (size_t i = 0; i < 3 && body + i < n; i++)
        if (bytes[body + i] != "35="[i])
            return FRAME_NONE;
    if (length < 5 || length > bytes_max || body + length + TRAILER_BYTES > bytes_max)
        return FRAME_NONE;
    size_t sum_at = body + (size_t)length;
    if (n < sum_at + TRAILER_BYTES)
        return FRAME_MORE;
    if (!is_trailer(bytes + sum_at))
        return FRAME_NONE;
    *ret_size = sum_at + TRAILER_BYTES;
    const char *digits = bytes + sum_at + 3;
    unsigned said = (unsigned)(digits[0] - '0') * 100 + (unsigned)(digits[1] - '0') * 10 + (unsigned)(digits[2] - '0');
    return said == checksum(bytes, sum_at) ? FRAME_GOOD : FRAME_BAD;
}

bool fix_message_read(const char *bytes, size_t n, struct fix_field *fields, struct fix_message *ret)
{
    size_t size = 0;
    return n >= MARK_BYTES && memcmp(bytes, begin_mark, MARK_BYTES) == 0 &&
           frame_look(bytes, n, FIX_MESSAGE_BYTES_MAX, &size) == FRAME_GOOD && size == n &&
           fields_read(bytes, n, fields, ret);
}

/* ---- The reader. ---- */

tw_status fix_reader_init(struct fix_reader *reader, size_t message_bytes_max)
{
    *reader = (struct fix_reader){.message_bytes_max = message_bytes_max != 0 ? message_bytes_max : FIX_MESSAGE_BYTES_DEFAULT};
    if (reader->message_bytes_max > FIX_MESSAGE_BYTES_MAX)
        return TW_INVALID;
    reader->room = reader->message_bytes_max + FEED_ROOM;
    reader->bytes = malloc(reader->room);
    reader->fields = calloc(FIX_FIELDS_MAX, sizeof *reader->fields);
    if (reader->bytes != NULL && reader->fields != NULL)
        return TW_OK;
    fix_reader_clear(reader);
    return TW_NO_MEMORY;
}

void fix_reader_clear(struct fix_reader *reader)
{
    free(reader->bytes);
    free(reader->fields);
    *reader = (struct fix_reader){0};
}

void fix_reader_reset(struct fix_reader *reader)
{
    reader->begin = reader->end = 0;
    reader->is_skipping = false;
}

size_t fix_reader_feed(struct fix_reader *reader, const char *bytes, size_t n)
{
    if (reader->begin > 0) {
        memmove(reader->bytes, reader->bytes + reader->begin, reader->end - reader->begin);
        reader->end -= reader->begin;
        reader->begin = 0;
    }
    size_t take = reader->room - reader->end < n ? reader->room - reader->end : n;
    if (take > 0)
        memcpy(reader->bytes + reader->end, bytes, take);
    reader->end += take;
    return take;
}

static void reader_skip(struct fix_reader *reader, size_t n)
{
    if (n == 0)
        return;
    reader->skipped_times += !reader->is_skipping;
    reader->is_skipping = true;
    reader->skipped_bytes += n;
    reader->begin += n;
}

/* Skips what cannot be the beginning of a message. False: no whole mark is there. */
static bool reader_find_mark(struct fix_reader *reader)
{
    const char *from = reader->bytes + reader->begin;
    size_t n = reader->end - reader->begin;
    const char *mark = memmem(from, n, begin_mark, MARK_BYTES);
    if (mark != NULL) {
        reader_skip(reader, (size_t)(mark - from));
        return true;
    }
    size_t keep = n < MARK_BYTES - 1 ? n : MARK_BYTES - 1;
    while (keep > 0 && memcmp(from + n - keep, begin_mark, keep) != 0)
        keep--;
    reader_skip(reader, n - keep);
    return false;
}

bool fix_reader_next(struct fix_reader *reader, struct fix_message *ret)
{
    while (reader_find_mark(reader)) {
        const char *bytes = reader->bytes + reader->begin;
        size_t size = 0;
        switch (frame_look(bytes, reader->end - reader->begin, reader->message_bytes_max, &size)) {
        case FRAME_MORE:
            return false;
        case FRAME_GOOD:
            if (fields_read(bytes, size, reader->fields, ret)) {
                reader->begin += size;
                reader->is_skipping = false;
                return true;
            }
            reader_skip(reader, size);
            break;
        case FRAME_BAD:
            reader_skip(reader, size);
            break;
        case FRAME_NONE:
            reader_skip(reader, 1);
            break;
        }
    }
    return false;
}

/* ---- What is in it. ---- */

const char *fix_message_value(const struct fix_message *message, uint32_t tag, size_t *ret_n)
{
    for (size_t i = 0; i < message->n_fields; i++)
        if (message->fields[i].tag == tag) {
            *ret_n = message->fields[i].n;
            return message->fields[i].value;
        }
    return NULL;
}

bool fix_message_is(const struct fix_message *message, uint32_t tag, const char *text)
{
    size_t n = 0;
    const char *value = fix_message_value(message, tag, &n);
    return value != NULL && n == strlen(text) && memcmp(value, text, n) == 0;
}

bool fix_message_number(const struct fix_message *message, uint32_t tag, uint64_t *ret)
{
    size_t n = 0;
    const char *value = fix_message_value(message, tag, &n);
    return value != NULL && fix_number_read(value, n, ret);
}

void fix_message_text(const struct fix_message *message, uint32_t tag, char *ret, size_t size)
{
    size_t n = 0;
    const char *value = fix_message_value(message, tag, &n);
    n = value == NULL ? 0 : n < size ? n : size - 1;
    for (size_t i = 0; i < n; i++)
        ret[i] = value[i] >= ' ' && value[i] <= '~' ? value[i] : '?';
    ret[n] = '\0';
}

/* ---- Writing. ---- */

static void put(struct fix_writer *writer, const char *bytes, size_t n)
{
    if (writer->is_full || writer->room - writer->n < n) {
        writer->is_full = true;
        return;
    }
    memcpy(writer->bytes + writer->n, bytes, n);
    writer->n += n;
}

static void put_field(struct fix_writer *writer, uint32_t tag, const char *value, size_t n)
{
    char head[16];
    int length = snprintf(head, sizeof head, "%u=", tag);
    put(writer, head, (size_t)length);
    put(writer, value, n);
    put(writer, "\001", 1);
}

void fix_writer_begin(struct fix_writer *writer, char *bytes, size_t room, const char *begin_string, const char *type)
{
    *writer = (struct fix_writer){.bytes = bytes, .room = room, .is_full = room < PREFIX_BYTES};
    size_t n = strlen(begin_string);
    if (writer->is_full || n == 0 || n > BEGIN_BYTES_MAX) {
        writer->is_full = true;
        return;
    }
    /* The prefix grows into its final place at the end; until then it keeps what stands in 8. */
    memcpy(bytes, begin_string, n + 1);
    writer->n = writer->body = PREFIX_BYTES;
    fix_writer_text(writer, 35, type);
}

void fix_writer_bytes(struct fix_writer *writer, uint32_t tag, const char *value, size_t n)
{
    if (n == 0 || memchr(value, FIX_SOH, n) != NULL)
        writer->is_full = true;
    else
        put_field(writer, tag, value, n);
}

void fix_writer_text(struct fix_writer *writer, uint32_t tag, const char *value)
{
    fix_writer_bytes(writer, tag, value, strlen(value));
}

void fix_writer_number(struct fix_writer *writer, uint32_t tag, uint64_t value)
{
    char text[FIX_NUMBER_BYTES];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    fix_writer_text(writer, tag, text);
}

void fix_writer_time(struct fix_writer *writer, uint32_t tag, int64_t wall_ns)
{
    char text[FIX_UTC_BYTES];
    fix_writer_text(writer, tag, fix_time_text(wall_ns, text));
}

void fix_writer_data(struct fix_writer *writer, uint32_t length_tag, uint32_t tag, const char *value, size_t n)
{
    if (n == 0 || fix_data_tag(length_tag) != tag) {
        writer->is_full = true;
        return;
    }
    fix_writer_number(writer, length_tag, n);
    put_field(writer, tag, value, n);
}

/* Fields that only the session writes. */
static bool is_of_session(uint32_t tag)
{
    return is_single(tag) || tag == 10;
}

void fix_writer_fields(struct fix_writer *writer, const char *fields, size_t n)
{
    const char *at = fields, *end = fields + n;
    while (at < end) {
        const char *soh = memchr(at, FIX_SOH, (size_t)(end - at));
        const char *equals = soh != NULL ? memchr(at, '=', (size_t)(soh - at)) : NULL;
        uint32_t tag = equals != NULL ? tag_read(at, (size_t)(equals - at)) : 0;
        if (tag == 0 || is_of_session(tag) || equals + 1 == soh) {
            writer->is_full = true;
            return;
        }
        at = soh + 1;
    }
    put(writer, fields, n);
}

size_t fix_writer_end(struct fix_writer *writer)
{
    char prefix[PREFIX_BYTES + 1], trailer[TRAILER_BYTES + 1];
    if (writer->is_full || writer->room - writer->n < TRAILER_BYTES)
        return 0;
    size_t length = writer->n - writer->body;
    int n = snprintf(prefix, sizeof prefix, "8=%.*s\0019=%u\001", BEGIN_BYTES_MAX, writer->bytes, (unsigned)length);
    if (n < 0 || (size_t)n > PREFIX_BYTES)
        return 0;
    memmove(writer->bytes + n, writer->bytes + writer->body, length);
    memcpy(writer->bytes, prefix, (size_t)n);
    size_t end = (size_t)n + length;
    snprintf(trailer, sizeof trailer, "10=%03u\001", checksum(writer->bytes, end));
    memcpy(writer->bytes + end, trailer, TRAILER_BYTES);
    return end + TRAILER_BYTES;
}

size_t fix_message_write(const struct fix_message *message, char *bytes, size_t room)
{
    struct fix_writer writer;
    char begin[BEGIN_BYTES_MAX + 1], type[FIX_TYPE_BYTES];
    size_t n = message->fields[0].n;
    if (message->n_fields < 4 || n > BEGIN_BYTES_MAX || message->fields[2].n >= sizeof type ||
        memchr(message->fields[2].value, '\0', message->fields[2].n) != NULL)
        return 0;
    memcpy(begin, message->fields[0].value, n);
    begin[n] = '\0';
    memcpy(type, message->fields[2].value, message->fields[2].n);
    type[message->fields[2].n] = '\0';
    fix_writer_begin(&writer, bytes, room, begin, type);
    for (size_t i = 3; i + 1 < message->n_fields; i++)
        put_field(&writer, message->fields[i].tag, message->fields[i].value, message->fields[i].n);
    return fix_writer_end(&writer);
}
