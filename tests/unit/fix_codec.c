/* Bytes to FIX messages and back. The scenarios of tests/scenarios and the fuzzer go further. */
#include <tradewake/fix/codec.h>

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fix_reader reader;
static struct fix_message message;

static void start(void)
{
    cr_assert_eq(fix_reader_init(&reader, 512), TW_OK);
}

static void stop(void)
{
    fix_reader_clear(&reader);
}

TestSuite(fix_codec, .init = start, .fini = stop, .timeout = 20);

/* "35=0|34=2|" as a message; "|" is the separator. Returns its size. */
static size_t frame(const char *body, char *ret)
{
    int n = sprintf(ret, "8=FIX.4.4\0019=%zu\001%s", strlen(body), body);
    unsigned sum = 0;
    for (int i = 0; i < n; i++) {
        ret[i] = ret[i] == '|' ? FIX_SOH : ret[i];
        sum += (unsigned char)ret[i];
    }
    return (size_t)(n + sprintf(ret + n, "10=%03u\001", sum % 256));
}

static void feed(const char *bytes, size_t n)
{
    while (n > 0) {
        size_t taken = fix_reader_feed(&reader, bytes, n);
        cr_assert_gt(taken, 0);
        bytes += taken;
        n -= taken;
        while (n > 0 && fix_reader_next(&reader, &message))
            ;
    }
}

Test(fix_codec, a_message_is_read_wherever_it_is_cut)
{
    char bytes[256];
    size_t n = frame("35=8|34=7|49=T|56=U|11=T1|58=a=b|", bytes);
    for (size_t cut = 0; cut <= n; cut++) {
        fix_reader_reset(&reader);
        (void)fix_reader_feed(&reader, bytes, cut);
        cr_assert_eq(fix_reader_next(&reader, &message), cut == n, "cut at %zu", cut);
        (void)fix_reader_feed(&reader, bytes + cut, n - cut);
        cr_assert(cut == n || fix_reader_next(&reader, &message), "cut at %zu", cut);
        cr_expect_eq(message.seq, 7);
        cr_expect_str_eq(message.type, "8");
        cr_expect(fix_message_is(&message, 58, "a=b"));
        cr_expect_null(fix_message_value(&message, 44, &(size_t){0}));
        cr_expect_eq(message.defect, FIX_NO_DEFECT);
        cr_expect_not(fix_reader_next(&reader, &message));
    }
    cr_expect_eq(reader.skipped_bytes, 0);
}

Test(fix_codec, whatever_is_changed_in_a_message_it_is_another_or_none)
{
    char bytes[256], changed[256];
    size_t n = frame("35=8|34=7|49=T|56=U|11=T1|", bytes);
    struct fix_field *fields = calloc(FIX_FIELDS_MAX, sizeof *fields);
    for (size_t at = 0; at < n; at++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(changed, bytes, n);
            changed[at] = (char)(changed[at] ^ 1 << bit);
            /* Only the begin string is no part of what the body says, and the sum covers that too. */
            cr_expect_not(fix_message_read(changed, n, fields, &message), "byte %zu bit %d", at, bit);
        }
    cr_expect(fix_message_read(bytes, n, fields, &message));
    cr_expect_not(fix_message_read(bytes, n - 1, fields, &message));
    free(fields);
}

Test(fix_codec, a_message_above_the_cap_costs_nothing_and_the_next_is_read)
{
    char bytes[256];
    const char huge[] = "8=FIX.4.4\0019=10485760\00135=8\00134=2\00158=";
    feed(huge, sizeof huge - 1);
    for (int i = 0; i < 10000; i++)
        feed("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 64);
    cr_expect_leq(reader.end - reader.begin, reader.room);
    size_t n = frame("35=0|34=3|", bytes);
    (void)fix_reader_next(&reader, &message);
    cr_assert_eq(fix_reader_feed(&reader, bytes, n), n);
    cr_assert(fix_reader_next(&reader, &message));
    cr_expect_eq(message.seq, 3);
    cr_expect_eq(reader.skipped_times, 1);
    cr_expect_gt(reader.skipped_bytes, 640000);
}

Test(fix_codec, what_is_wrong_with_a_field_is_named)
{
    static const struct {
        const char *body;
        enum fix_defect defect;
        const char *tag;
    } cases[] = {
        {"35=0|34=2|", FIX_NO_DEFECT, ""},
        {"35=0|34=2|-1=x|", FIX_INVALID_TAG, "-1"},
        {"35=0|34=2|01=x|", FIX_INVALID_TAG, "01"},
        {"35=0|34=2|4294967331=x|", FIX_INVALID_TAG, "4294967331"},
        {"35=0|34=2|=x|", FIX_INVALID_TAG, ""},
        {"35=0|34=2|xyz|", FIX_INVALID_TAG, "xyz"},
        {"35=0|34=2|112=|", FIX_NO_VALUE, "112"},
        {"35=0|34=2|49=a|49=b|", FIX_TAG_REPEATED, "49"},
        {"35=0|34=2|9=5|", FIX_TAG_REPEATED, "9"},
        {"35=!|34=2|", FIX_TYPE_INVALID, ""},
        {"35=ABC|34=2|", FIX_TYPE_INVALID, ""},
        {"35=U12|34=2|", FIX_NO_DEFECT, ""},
        {"35=0|34=2|354=2|355=ab|", FIX_NO_DEFECT, ""},
        {"35=0|34=2|354=3|355=a|b|", FIX_NO_DEFECT, ""},
    };
    char bytes[256];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fix_reader_reset(&reader);
        (void)fix_reader_feed(&reader, bytes, frame(cases[i].body, bytes));
        cr_assert(fix_reader_next(&reader, &message), "%s", cases[i].body);
        cr_expect_eq(message.defect, cases[i].defect, "%s: %d", cases[i].body, (int)message.defect);
        size_t n = strlen(cases[i].tag);
        cr_expect(message.defect_tag_n == n && (n == 0 || memcmp(message.defect_tag, cases[i].tag, n) == 0), "%s", cases[i].body);
    }
}

Test(fix_codec, what_only_looks_like_a_message_is_skipped)
{
    static const char *const bodies[] = {
        "34=2|35=0|",              /* 35 is not the third */
        "35=0|34=2|354=99|355=a|", /* a data field that would eat the checksum */
        "35=0|34=2|10=000|58=x|",  /* a checksum in its middle */
    };
    char bytes[256], good[64];
    size_t good_n = frame("35=0|34=9|", good);
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        fix_reader_reset(&reader);
        (void)fix_reader_feed(&reader, bytes, frame(bodies[i], bytes));
        cr_expect_not(fix_reader_next(&reader, &message), "%s", bodies[i]);
        (void)fix_reader_feed(&reader, good, good_n);
        cr_assert(fix_reader_next(&reader, &message), "%s", bodies[i]);
        cr_expect_eq(message.seq, 9);
    }
}

Test(fix_codec, a_version_is_a_word)
{
    char bytes[256];
    for (int c = 1; c < 256; c++) {
        size_t n = frame("35=0|34=2|", bytes);
        memcpy(bytes, "8=FIX.4.x", 9);
        bytes[8] = (char)(c == FIX_SOH ? 0 : c); /* the separator would be another matter */
        unsigned sum = 0;
        for (size_t i = 0; i < n - 7; i++)
            sum += (unsigned char)bytes[i];
        sprintf(bytes + n - 7, "10=%03u\001", sum % 256);
        fix_reader_reset(&reader);
        (void)fix_reader_feed(&reader, bytes, n);
        cr_expect_eq(fix_reader_next(&reader, &message), c > ' ' && c <= '~', "%d", c);
    }
}

Test(fix_codec, what_is_written_is_read_again)
{
    char bytes[512], again[512];
    struct fix_writer writer;
    struct fix_field *fields = calloc(FIX_FIELDS_MAX, sizeof *fields);
    fix_writer_begin(&writer, bytes, sizeof bytes, "FIX.4.4", "D");
    fix_writer_number(&writer, 34, 18446744073709551615u % 1000000000000000000u);
    fix_writer_time(&writer, 52, INT64_C(1796126400123456789));
    fix_writer_data(&writer, 354, 355, "a\001=\001b", 5);
    fix_writer_fields(&writer, "11=T1\00155=1\001", 11);
    size_t n = fix_writer_end(&writer);
    cr_assert(n > 0 && fix_message_read(bytes, n, fields, &message));
    cr_expect(fix_message_is(&message, 52, "20261201-12:00:00.123"));
    cr_expect(fix_message_is(&message, 355, "a\001=\001b"));
    cr_expect(fix_message_is(&message, 55, "1"));
    cr_assert_eq(fix_message_write(&message, again, sizeof again), n);
    cr_expect_eq(memcmp(bytes, again, n), 0);
    for (size_t room = 0; room < n + 32; room++) {
        fix_writer_begin(&writer, again, room, "FIX.4.4", "D");
        fix_writer_fields(&writer, "11=T1\00155=1\001", 11);
        size_t size = fix_writer_end(&writer);
        cr_expect(size == 0 || size <= room, "room %zu", room);
    }
    free(fields);
}

Test(fix_codec, what_is_no_field_makes_no_message)
{
    static const char *const bodies[] = {"11=\001", "11\001", "=x\001", "11=T1", "11=T1\001\001", "34=7\001", "10=000\001", "0=x\001", "x=1\001"};
    char bytes[512];
    struct fix_writer writer;
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        fix_writer_begin(&writer, bytes, sizeof bytes, "FIX.4.4", "D");
        fix_writer_fields(&writer, bodies[i], strlen(bodies[i]));
        cr_expect_eq(fix_writer_end(&writer), 0, "%s", bodies[i]);
    }
    fix_writer_begin(&writer, bytes, sizeof bytes, "FIX.4.4", "D");
    fix_writer_text(&writer, 58, "a\00111=T9");
    cr_expect_eq(fix_writer_end(&writer), 0);
}

Test(fix_codec, times_are_those_of_the_calendar)
{
    static const struct {
        const char *text;
        bool is_one;
        int64_t wall_ns;
    } cases[] = {
        {"19700101-00:00:00", true, 0},
        {"20000229-23:59:59.999", true, INT64_C(951868799999000000)},
        {"20261201-12:00:00.123456789", true, INT64_C(1796126400123456789)},
        {"20161231-23:59:60", true, INT64_C(1483228800000000000)},
        {"99991231-00:00:00", false, 0},
        {"20261301-00:00:00", false, 0},
        {"2026-12-01T00:00:00", false, 0},
        {"20261201-24:00:00", false, 0},
        {"20261201-12:00:00.", false, 0},
        {"20261201-12:00", false, 0},
    };
    char text[FIX_UTC_BYTES], again[FIX_UTC_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t wall_ns = 7;
        cr_expect_eq(fix_time_read(cases[i].text, strlen(cases[i].text), &wall_ns), cases[i].is_one, "%s", cases[i].text);
        cr_expect_eq(wall_ns, cases[i].is_one ? cases[i].wall_ns : 7, "%s", cases[i].text);
    }
    for (int64_t day = 0; day < 80000; day += 13) {
        int64_t wall_ns = (day * 86400 + day % 86400) * INT64_C(1000000000), back = 0;
        fix_time_text(wall_ns, text);
        cr_assert(fix_time_read(text, strlen(text), &back) && back == wall_ns, "%s", text);
        cr_assert_str_eq(fix_time_text(back, again), text);
    }
}
