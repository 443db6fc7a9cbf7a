/* codec.h - FIX 4.4 on the wire: bytes to fields and back.
 *
 *     bytes, split anywhere --feed--> [ reader ] --next--> message: (tag, value)... --> session
 *
 * The reader believes nothing. A message is "8=FIX...", its length, its type, a body, and a checksum that agree; whatever
 * does not is skipped up to the next beginning, and counted: it never was a message, so it uses up no number. Data fields
 * take their size from the field before them and may hold separators. A message above the cap costs no memory.
 *
 * No locale, no floating point, no allocation after fix_reader_init(). Values are views into the reader's memory.
 * Thread: one at a time. */
#ifndef TW_FIX_CODEC_H
#define TW_FIX_CODEC_H

#include <tradewake/base/decimal.h>
#include <tradewake/base/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FIX_FIELDS_MAX = 4096,             /* of one message; more is no message */
    FIX_MESSAGE_BYTES_DEFAULT = 65536, /* a report is below 1 KiB, a list of parties a few */
    FIX_MESSAGE_BYTES_MAX = 1 << 20,
    FIX_TYPE_BYTES = 4,                /* "AN", and what venues made up */
    FIX_UTC_BYTES = 24,                /* "20261201-12:30:00.000" */
    FIX_NUMBER_BYTES = 24,
    FIX_TAG_DIGITS_MAX = 9,
    FIX_LENGTH_DIGITS_MAX = 9,
};

#define FIX_SOH '\001'

struct fix_field {
    uint32_t tag;      /* 0 = what stands there is no tag: see defect */
    uint32_t n;        /* of the value */
    const char *value; /* points into the message; not ended by a NUL */
};

/* What is wrong with a message whose length and checksum are right. It has a number and is answered by a Reject (3);
 * the values are those of SessionRejectReason (373). */
enum fix_defect {
    FIX_INVALID_TAG = 0,
    FIX_TAG_MISSING = 1,
    FIX_TAG_NOT_OF_TYPE = 2,
    FIX_NO_VALUE = 4,
    FIX_VALUE_WRONG = 5,
    FIX_FORMAT_WRONG = 6,
    FIX_COMP_ID = 9,
    FIX_SENDING_TIME = 10,
    FIX_TYPE_INVALID = 11,
    FIX_TAG_REPEATED = 13,
    FIX_NO_DEFECT = 1000,
};

/* The words of the standard for it: "Required tag missing". Static. */
const char *fix_defect_words(enum fix_defect defect);

struct fix_message {
    const char *bytes; /* all of it, from 8= to the last separator */
    size_t n;
    const struct fix_field *fields; /* in their order, 8, 9 and 10 too */
    size_t n_fields;
    char type[FIX_TYPE_BYTES]; /* 35; longer ones are cut, and invalid */
    bool is_44;                /* 8=FIX.4.4 */
    bool has_seq;
    uint64_t seq; /* 34 */
    enum fix_defect defect;   /* the first one */
    const char *defect_tag;   /* as it stands there: may be "-1" */
    uint32_t defect_tag_n;
};

/* ---- Reading. ---- */

struct fix_reader {
    char *bytes;
    size_t room, begin, end; /* unread: begin..end */
    struct fix_field *fields;
    size_t message_bytes_max;
    bool is_skipping;
    uint64_t skipped_bytes, skipped_times; /* so far: what was no message, and how often that began */
};

/* message_bytes_max: 0 = the default. Fails: TW_NO_MEMORY, TW_INVALID. */
TW_MUST_CHECK tw_status fix_reader_init(struct fix_reader *reader, size_t message_bytes_max);
void fix_reader_clear(struct fix_reader *reader); /* {0} is allowed */
/* A new connection: what is left of the old one is forgotten. */
void fix_reader_reset(struct fix_reader *reader);

/* Takes as much as there is room for, and says how much; at least one byte once fix_reader_next() has said false. Views of
 * earlier messages are gone. */
size_t fix_reader_feed(struct fix_reader *reader, const char *bytes, size_t n);

/* The next whole message; false: more bytes are needed. *ret is valid until feed, reset or clear. */
bool fix_reader_next(struct fix_reader *reader, struct fix_message *ret);

/* One message, exactly these bytes. fields: memory for FIX_FIELDS_MAX. False: it is none. */
bool fix_message_read(const char *bytes, size_t n, struct fix_field *fields, struct fix_message *ret);

/* The value of the first field with this tag; NULL = absent. */
const char *fix_message_value(const struct fix_message *message, uint32_t tag, size_t *ret_n);
/* True: it is there and is this text. */
bool fix_message_is(const struct fix_message *message, uint32_t tag, const char *text);
/* A whole number of at most 18 digits. False: absent, or none. */
bool fix_message_number(const struct fix_message *message, uint32_t tag, uint64_t *ret);
/* Cut to fit; "" = absent. */
void fix_message_text(const struct fix_message *message, uint32_t tag, char *ret, size_t size);

/* The tag of the data field that this length is for; 0 = it is for none. */
uint32_t fix_data_tag(uint32_t length_tag);

/* Whether this type belongs to the session (0 to 5, A) and not to the application. */
bool fix_type_is_admin(const char *type);

/* ---- Values. The reader changes nothing when it says no. ---- */

/* Digits only, at most 18. */
bool fix_number_read(const char *text, size_t n, uint64_t *ret);
/* A FIX number: "-", leading zeros and zeros behind the eighth decimal are allowed. False: it is none, or not exact. */
bool fix_decimal_read(const char *text, size_t n, tw_decimal *ret);
/* UTCTimestamp with 0 to 9 decimals of a second; :60 is the second after. False: it is none. */
bool fix_time_read(const char *text, size_t n, int64_t *ret_wall_ns);
/* UTCTimestamp with milliseconds. Returns text. */
char *fix_time_text(int64_t wall_ns, char text[FIX_UTC_BYTES]);

/* ---- Writing. ---- */

/* Into the caller's memory. What does not fit, and a value that is empty or would end its field, makes the whole message
 * unusable, not a part of it: is_full, and fix_writer_end() says 0. */
struct fix_writer {
    char *bytes;
    size_t room, n;
    size_t body; /* where what 9 counts begins */
    bool is_full;
};

/* 8, 9 and 35. */
void fix_writer_begin(struct fix_writer *writer, char *bytes, size_t room, const char *begin_string, const char *type);
void fix_writer_text(struct fix_writer *writer, uint32_t tag, const char *value);
void fix_writer_bytes(struct fix_writer *writer, uint32_t tag, const char *value, size_t n);
void fix_writer_number(struct fix_writer *writer, uint32_t tag, uint64_t value);
void fix_writer_time(struct fix_writer *writer, uint32_t tag, int64_t wall_ns);
/* A data field with its length before it. The value may hold anything. */
void fix_writer_data(struct fix_writer *writer, uint32_t length_tag, uint32_t tag, const char *value, size_t n);
/* Fields that are written already: "11=T1<SOH>55=1<SOH>". */
void fix_writer_fields(struct fix_writer *writer, const char *fields, size_t n);
/* Length and checksum. The size of the message; 0: it is not to be sent. */
size_t fix_writer_end(struct fix_writer *writer);

/* The same message, written from its fields. 0: no room. */
size_t fix_message_write(const struct fix_message *message, char *bytes, size_t room);

#endif
