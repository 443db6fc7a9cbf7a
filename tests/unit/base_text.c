/* base_text.c - times as text, the words of a status, levels of the log. */
#include <tradewake/base/clock.h>
#include <tradewake/base/log.h>
#include <tradewake/base/status.h>

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

Test(time, is_written_in_UTC_with_milliseconds)
{
    static const struct {
        int64_t wall_ns;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {999999, "1970-01-01T00:00:00.000Z"}, /* cut, not rounded: never later than it was */
        {1000000, "1970-01-01T00:00:00.001Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {-1000000000, "1969-12-31T23:59:59.000Z"},
        {INT64_C(1709164799999000000), "2024-02-28T23:59:59.999Z"},
        {INT64_C(1709164800000000000), "2024-02-29T00:00:00.000Z"},
        {INT64_C(1796032116123000000), "2026-11-30T09:48:36.123Z"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[TW_TIME_TEXT_BYTES];
        tw_time_text(cases[i].wall_ns, text);
        cr_expect_str_eq(text, cases[i].text);
    }
}

Test(time, monotonic_readings_do_not_fall)
{
    int64_t before_ns = tw_mono_ns();
    for (int i = 0; i < 10000; i++) {
        int64_t now_ns = tw_mono_ns();
        cr_assert_geq(now_ns, before_ns);
        before_ns = now_ns;
    }
}

Test(status, setting_an_error_returns_the_status_and_writes_the_words)
{
    struct tw_error error = {0};
    cr_expect_eq(tw_error_set(&error, TW_LIMIT, "%u of %u", 5u, 4u), TW_LIMIT);
    cr_expect_str_eq(error.text, "5 of 4");
    cr_expect_eq(tw_error_set(NULL, TW_IO, "nobody listens"), TW_IO);

    char longer[TW_ERROR_TEXT_BYTES * 2];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    cr_expect_eq(tw_error_set(&error, TW_INVALID, "%s", longer), TW_INVALID);
    cr_expect_eq(strlen(error.text), TW_ERROR_TEXT_BYTES - 1, "cut, and ended");
}

Test(status, every_status_has_its_words)
{
    for (int status = TW_OK; status <= TW_ENDED; status++)
        cr_expect_neq(strcmp(tw_status_words((tw_status)status), tw_status_words((tw_status)999)),
                      0, "%d", status);
}

Test(log, levels_have_names)
{
    enum tw_log_level level = TW_LOG_ERROR;
    cr_expect(tw_log_level_parse("debug", &level));
    cr_expect_eq(level, TW_LOG_DEBUG);
    cr_expect_not(tw_log_level_parse("loud", &level));
    cr_expect_not(tw_log_level_parse("", &level));
    cr_expect_eq(level, TW_LOG_DEBUG, "a word that is none changes nothing");
}

/* What the log writes to stderr while `write_it` runs. */
static size_t log_of(void (*write_it)(void), char *text, size_t size)
{
    int ends[2], before = dup(STDERR_FILENO);
    cr_assert_eq(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    write_it();
    dup2(before, STDERR_FILENO);
    close(ends[1]);
    ssize_t got = read(ends[0], text, size - 1);
    text[got > 0 ? got : 0] = '\0';
    close(ends[0]);
    close(before);
    return strlen(text);
}

static void two_lines_in_one(void)
{
    tw_log(TW_LOG_DEBUG, "not.shown", "a=1");
    tw_log(TW_LOG_WARN, "order.unknown", "order=7f3a text=\"%s\"", "two\nlines");
}

static void far_too_long(void)
{
    char longer[3 * TW_LOG_LINE_BYTES];
    memset(longer, 'y', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    tw_log(TW_LOG_ERROR, "long", "%s", longer);
}

Test(log, one_event_is_one_line_whatever_is_in_it)
{
    char text[4 * TW_LOG_LINE_BYTES];
    log_of(two_lines_in_one, text, sizeof text);
    cr_expect_not_null(strstr(text, " W order.unknown order=7f3a text=\"two lines\"\n"), "%s",
                       text);
    cr_expect_null(strstr(text, "not.shown"));

    size_t length = log_of(far_too_long, text, sizeof text);
    cr_expect_leq(length, TW_LOG_LINE_BYTES);
    cr_expect_eq(strchr(text, '\n'), text + length - 1, "cut, and still ended");
}

static void json_line(void)
{
    tw_log(TW_LOG_INFO, "a.b", "text=\"quote\" and \\ and \t");
}

Test(log, json_is_escaped)
{
    char text[TW_LOG_LINE_BYTES];
    tw_log_json_set(true);
    log_of(json_line, text, sizeof text);
    cr_expect_not_null(strstr(text, "\"level\":\"info\",\"event\":\"a.b\",\"message\":"
                                    "\"text=\\\"quote\\\" and \\\\ and \\u0009\"}\n"),
                       "%s", text);
}
