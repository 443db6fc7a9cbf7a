/* config_value.c - single values as people write them. */
#include <tradewake/config/value.h>

#include <criterion/criterion.h>
#include <string.h>

#define S INT64_C(1000000000)

/* clang-format off */
static const struct {
    struct tw_value_rule rule;
    const char *text;
    int64_t expected; /* -1 = refused */
} cases[] = {
    {{.type = TW_VALUE_BOOL}, "true", 1},
    {{.type = TW_VALUE_BOOL}, "off", 0},
    {{.type = TW_VALUE_BOOL}, "TRUE", -1},
    {{.type = TW_VALUE_BOOL}, "", -1},
    {{.type = TW_VALUE_INT, .min = 1, .max = 64}, "1", 1},
    {{.type = TW_VALUE_INT, .min = 1, .max = 64}, "64", 64},
    {{.type = TW_VALUE_INT, .min = 1, .max = 64}, "65", -1},
    {{.type = TW_VALUE_INT, .min = 1, .max = 64}, "0", -1},
    {{.type = TW_VALUE_INT, .max = INT64_MAX}, "9223372036854775807", INT64_MAX},
    {{.type = TW_VALUE_INT, .max = INT64_MAX}, "9223372036854775808", -1},
    {{.type = TW_VALUE_INT}, "-1", -1},
    {{.type = TW_VALUE_INT}, "+1", -1},
    {{.type = TW_VALUE_INT}, "1 ", -1},
    {{.type = TW_VALUE_INT}, "0x10", -1},
    {{.type = TW_VALUE_DURATION}, "10s", 10 * S},
    {{.type = TW_VALUE_DURATION}, "1.5s", 3 * S / 2},
    {{.type = TW_VALUE_DURATION}, "0.000000001s", 1},
    {{.type = TW_VALUE_DURATION}, "0.0000000001s", -1}, /* less than a nanosecond */
    {{.type = TW_VALUE_DURATION}, "1.50ns", -1},
    {{.type = TW_VALUE_DURATION}, "1.0ns", 1},
    {{.type = TW_VALUE_DURATION}, "500us", 500000},
    {{.type = TW_VALUE_DURATION}, "2m", 120 * S},
    {{.type = TW_VALUE_DURATION}, "1h", 3600 * S},
    {{.type = TW_VALUE_DURATION}, "0", 0},
    {{.type = TW_VALUE_DURATION}, "10", -1},
    {{.type = TW_VALUE_DURATION}, "s", -1},
    {{.type = TW_VALUE_DURATION}, ".5s", -1},
    {{.type = TW_VALUE_DURATION}, "1.s", -1},
    {{.type = TW_VALUE_DURATION}, "-1s", -1},
    {{.type = TW_VALUE_DURATION}, "9999999999h", -1},
    {{.type = TW_VALUE_DURATION, .min = S, .max = 2 * S}, "999ms", -1},
    {{.type = TW_VALUE_SIZE}, "4096", 4096},
    {{.type = TW_VALUE_SIZE}, "64KiB", 65536},
    {{.type = TW_VALUE_SIZE}, "1GiB", 1 << 30},
    {{.type = TW_VALUE_SIZE}, "1.5KiB", -1},
    {{.type = TW_VALUE_SIZE}, "64KB", -1},
    {{.type = TW_VALUE_ADDRESS}, "127.0.0.1:50051", 0},
    {{.type = TW_VALUE_ADDRESS}, "[::1]:50051", 0},
    {{.type = TW_VALUE_ADDRESS}, "trader.example:1", 0},
    {{.type = TW_VALUE_ADDRESS}, "unix:/run/x.sock", 0},
    {{.type = TW_VALUE_ADDRESS}, "127.0.0.1:0", 0},
    {{.type = TW_VALUE_ADDRESS}, "127.0.0.1:65536", -1},
    {{.type = TW_VALUE_ADDRESS}, "127.0.0.1", -1},
    {{.type = TW_VALUE_ADDRESS}, ":50051", -1},
    {{.type = TW_VALUE_ADDRESS}, "::1:50051", -1},
    {{.type = TW_VALUE_ADDRESS}, "http://a:1", -1},
    {{.type = TW_VALUE_ADDRESS}, "unix:", -1},
    {{.type = TW_VALUE_ADDRESS}, "off", -1},
    {{.type = TW_VALUE_ADDRESS, .choices = "off"}, "off", 0},
    {{.type = TW_VALUE_ENUM, .choices = "auto|off"}, "auto", 0},
    {{.type = TW_VALUE_ENUM, .choices = "auto|off"}, "off", 1},
    {{.type = TW_VALUE_ENUM, .choices = "auto|off"}, "auto|off", -1},
    {{.type = TW_VALUE_ENUM, .choices = "auto|off"}, "au", -1},
    {{.type = TW_VALUE_ENUM, .choices = "auto|off"}, "", -1},
    {{.type = TW_VALUE_TEXT}, "", 0},
    {{.type = TW_VALUE_TEXT}, "a\nb", -1},
};
/* clang-format on */

Test(config_value, values_are_read_exactly_or_refused_with_what_was_found_and_expected)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t number = -77;
        struct tw_error error = {0};

        tw_status status = tw_value_parse(&cases[i].rule, cases[i].text, &number, &error);

        if (cases[i].expected < 0) {
            cr_expect_eq(status, TW_INVALID, "row %zu: \"%s\" was read as %lld", i, cases[i].text,
                         (long long)number);
            cr_expect_eq(number, -77, "row %zu: a refused value was stored", i);
            cr_expect_not_null(strstr(error.text, ", expected "), "row %zu: \"%s\"", i, error.text);
        } else {
            cr_expect_eq(status, TW_OK, "row %zu: %s", i, error.text);
            cr_expect_eq(number, cases[i].expected, "row %zu: \"%s\" was read as %lld", i,
                         cases[i].text, (long long)number);
        }
    }
}

Test(config_value, durations_and_sizes_are_written_the_shortest_exact_way)
{
    static const struct {
        int64_t value;
        const char *duration, *size;
    } rows[] = {{0, "0", "0"},
                {3 * S / 2, "1500ms", "1500000000"},
                {60 * S, "1m", "58593750KiB"},
                {1, "1ns", "1"},
                {1 << 20, "1048576ns", "1MiB"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[64];
        cr_expect_str_eq(tw_value_duration_text(rows[i].value, text, sizeof text),
                         rows[i].duration);
        cr_expect_str_eq(tw_value_size_text(rows[i].value, text, sizeof text), rows[i].size);
    }
}

Test(config_value, a_near_word_is_suggested_and_a_far_one_is_not)
{
    static const char *const words[] = {"listen", "admin", "log.level", "executor.threads", "off"};
    static const struct {
        const char *word, *expected;
    } rows[] = {{"lisen", "listen"},
                {"listne", "listen"},
                {"amdin", "admin"},
                {"fof", "off"} /* two fingers swapped */,
                {"log-level", "log.level"},
                {"executor.thread", "executor.threads"},
                {"journal", NULL},
                {"", NULL},
                {"x", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *near = tw_value_suggest(rows[i].word, words, sizeof words / sizeof words[0]);
        cr_expect(
            (near == NULL && rows[i].expected == NULL) ||
                (near != NULL && rows[i].expected != NULL && strcmp(near, rows[i].expected) == 0),
            "\"%s\" suggests %s", rows[i].word, near != NULL ? near : "nothing");
    }
}
