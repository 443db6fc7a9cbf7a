/* replay_history.c - files of past trades become events: the three formats, their quirks, and what
 * is said of a file that is none of them. The fixtures are made up. */
#include <tradewake/cli/history.h>

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct file {
    char *bytes;
    size_t size;
};

static struct file read_fixture(const char *name)
{
    char path[512];
    struct file file = {malloc(1 << 16), 0};
    snprintf(path, sizeof path, "%s/%s", TW_FIXTURES, name);
    FILE *stream = fopen(path, "rb");
    cr_assert_not_null(stream, "%s", path);
    file.size = fread(file.bytes, 1, 1 << 16, stream);
    fclose(stream);
    return file;
}

static struct tw_history read_events(const char *name)
{
    struct file file = read_fixture(name);
    struct tw_history history = {0};
    struct tw_error error = {0};
    tw_status status = tw_history_read(name, file.bytes, file.size, &history, &error);
    cr_assert_eq(status, TW_OK, "%s", error.text);
    free(file.bytes);
    return history;
}

/* One event as a line, so that a table of expectations can be read. */
static void event_line(const struct tw_history_event *event, char text[256])
{
    char volume[TW_DECIMAL_TEXT_BYTES], rest[TW_DECIMAL_TEXT_BYTES], price[TW_DECIMAL_TEXT_BYTES];
    char stop[TW_DECIMAL_TEXT_BYTES], take[TW_DECIMAL_TEXT_BYTES];
    static const char *const types[] = {"", "market", "limit", "stop"};
    snprintf(text, 256, "%s %s%s%s %s %s %s %s/%s @%s sl=%s tp=%s",
             tw_history_kind_word(event->kind), event->subject,
             event->remainder[0] != '\0' ? ">" : "", event->remainder,
             event->is_sell ? "sell" : "buy", types[event->type], event->symbol,
             tw_decimal_text(event->volume, volume), tw_decimal_text(event->remaining_volume, rest),
             tw_decimal_text(event->price, price), tw_decimal_text(event->stop_loss, stop),
             tw_decimal_text(event->take_profit, take));
}

static void expect_events(const struct tw_history *history, const char *const *lines, uint32_t n)
{
    cr_expect_eq(history->n_events, n);
    for (uint32_t i = 0; i < n && i < history->n_events; i++) {
        char line[256];
        event_line(&history->events[i], line);
        cr_expect_str_eq(line, lines[i], "event %u is \"%s\", expected \"%s\"", i, line, lines[i]);
        uint32_t previous = history->events[i].previous;
        cr_expect(previous == TW_HISTORY_NONE || previous < i,
                  "event %u comes before what it depends on", i);
    }
}

/* clang-format off */
static const char *const mql5_history[] = {
    "place row2 buy stop GOLD 0.02/ @2150.4 sl=2140.1 tp=2171",
    "open row5 buy market us30.cash 1.65/ @12345678.5 sl= tp=",
    "open row4 sell market EURUSD 0.1/ @1.08125 sl=1.083 tp=",
    "close row4 sell market EURUSD 0.1/ @1.083 sl= tp=",
    "close row5 buy market us30.cash 1.65/ @12345700.12345679 sl= tp=",
    "place row3 sell limit GOLD 0.02/ @2160 sl= tp=", /* replace in the second of the cancel */
    "cancel row2 buy stop GOLD 0.02/ @ sl= tp=",
    "cancel row3 sell limit GOLD 0.02/ @ sl= tp=",
};
/* clang-format on */

Test(replay_history, a_mql5_history_is_two_events_a_row_in_the_order_of_time)
{
    struct tw_history history = read_events("mql5_history.csv");

    cr_expect_eq(history.format, TW_HISTORY_MQL5_TRADES);
    expect_events(&history, mql5_history, sizeof mql5_history / sizeof mql5_history[0]);
    cr_expect_eq(history.rows_skipped, 1);
    cr_expect_eq(history.n_symbols, 3);
    cr_expect_eq(history.positions_held, 0);
    cr_expect_eq(history.events[0].at_s, 1927875600); /* 2031-02-03 09:00:00 */
    tw_history_clear(&history);
}

Test(replay_history, crlf_and_a_byte_order_mark_change_nothing)
{
    struct tw_history history = read_events("mql5_history_crlf_bom.csv");

    expect_events(&history, mql5_history, sizeof mql5_history / sizeof mql5_history[0]);
    tw_history_clear(&history);
}

Test(replay_history, mql5_positions_have_two_volumes_and_averaged_prices)
{
    static const char *const expected[] = {
        "open row5 buy market AUDCAD 0.01/ @0.8081 sl= tp=",
        "close row5 buy market AUDCAD 0.01/ @0.80811 sl= tp=", /* closed in the second it was opened
                                                                */
        "open row4 sell market AUDCAD 0.04/ @0.80812 sl= tp=",
        "open row3 sell market AUDCAD 0.3/ @0.8073754 sl= tp=", /* 0.8073753982300885 */
        "partial-close row4 sell market AUDCAD 0.01/0.03 @0.80201 sl= tp=",
        "close row3 sell market AUDCAD 0.3/ @0.80201 sl= tp=",
    };
    struct tw_history history = read_events("mql5_positions.csv");

    cr_expect_eq(history.format, TW_HISTORY_MQL5_POSITIONS);
    expect_events(&history, expected, sizeof expected / sizeof expected[0]);
    cr_expect_eq(history.positions_held, 1); /* 0.03 are left */
    tw_history_clear(&history);
}

Test(replay_history, mt4_chains_are_one_position_that_is_closed_in_parts)
{
    static const char *const expected[] = {
        "open 8000 buy market eurjpy 0.09/ @143.904 sl=143.833 tp=", /* 0.05 + 0.03 + 0.01 */
        "open 8005 buy market gbpusd 0.01/ @1.26153 sl= tp=",
        "partial-close 8000>8010 buy market eurjpy 0.05/0.04 @145 sl= tp=", /* its ticket is between
                                                                               the opens' */
        "open 8011 buy market gbpusd 0.01/ @1.26153 sl=1.26 tp=1.27",
        "open 8100 sell market nq100_m 0.09/ @14995.3 sl= tp=",
        "close 8005 buy market gbpusd 0.01/ @1.26145 sl= tp=", /* no ticket tells: behind the opens
                                                                */
        "close 8011 buy market gbpusd 0.01/ @1.27 sl= tp=",
        "partial-close 8100>8101 sell market nq100_m 0.02/0.07 @14990.1 sl= tp=", /* linked by its
                                                                                     child alone */
        "partial-close 8010>8020 buy market eurjpy 0.03/0.01 @145.01 sl= tp=",
        "close 8020 buy market eurjpy 0.01/ @145.02 sl= tp=",
        "open 8200 buy market usdchf 0.04/ @0.9 sl= tp=",
        "open 8201 sell market usdchf 0.04/ @0.902 sl= tp=", /* its size was lost to the close-by */
        "close 8200 buy market usdchf 0.04/ @0.901 sl= tp=",
        "close 8201 sell market usdchf 0.04/ @0.902 sl= tp=",
        "place 8300 sell limit eurusd 0.03/ @1.09186 sl= tp=",
        "cancel 8300 sell limit eurusd 0.03/ @ sl= tp=",
        "open 8400 buy market usdjpy 0.02/ @139.415 sl= tp=", /* its remainder is not in the file */
        "close 8400 buy market usdjpy 0.02/ @140.362 sl= tp=",
        "place 8500 buy stop usdjpy 0.03/ @141.023 sl=139.757 tp=",
    };
    struct tw_history history = read_events("mt4_statement.htm");

    cr_expect_eq(history.format, TW_HISTORY_MT4_STATEMENT);
    expect_events(&history, expected, sizeof expected / sizeof expected[0]);
    cr_expect_eq(history.positions_held, 1); /* 8101, under Open Trades */
    cr_expect_eq(history.orders_held, 1);    /* 8500, under Working Orders */
    cr_expect_eq(history.rows_skipped, 2);   /* a deposit, a summary */
    cr_expect_eq(history.n_symbols, 6);
    tw_history_clear(&history);
}

#define HISTORY_HEADER                                                                             \
    "Time;Type;Volume;Symbol;Price;S/L;T/P;Time;Price;Commission;Swap;Profit;Comment\n"
#define HISTORY_ROW                                                                                \
    "2031.02.03 10:00:05;Sell;0.10;EURUSD;1.08125;;;2031.02.03 10:00:06;1.08300;;;-17.50;[sl]\n"
#define MT4(closed, open)                                                                          \
    "<html><table><tr><td><b>Closed Transactions:</b></td></tr>\n" closed                          \
    "<tr><td><b>Open Trades:</b></td></tr>\n" open                                                 \
    "<tr><td><b>Summary:</b></td></tr></table></html>"
#define MT4_ROW(ticket, title, side, item, close)                                                  \
    "<tr><td title=\"" title "\">" ticket "</td><td>2031.06.01 10:00:00</td><td>" side             \
    "</td><td>0.01</td><td>" item "</td><td>1.1</td><td>0</td><td>0</td><td>" close                \
    "</td><td>1.2</td></tr>\n"
#define CLOSED "2031.06.01 11:00:00"

struct bad_case {
    const char *name, *bytes, *expected;
};

/* clang-format off */
static const struct bad_case bad[] = {
    {"nothing", "", "F:1:1: the file is empty"},
    {"garbage", "\x7f" "ELF\x02\x01", "F:1:1: found no column \"Time\""},
    {"another CSV", "a;b;c\n1;2;3\n", "F:1:1: found no column \"Time\""},
    {"UTF-16", "\xff\xfeT", "F:1:1: found UTF-16, expected UTF-8"},
    {"a header alone", HISTORY_HEADER, "F:2:1: found no trade"},
    {"a row cut short", HISTORY_HEADER HISTORY_ROW "2031.02.03 10:00:05;Sell;0.1", "F:3:26: the row has 3 fields, expected 13 as in the header; is the file truncated?"},
    {"a row cut in its time", HISTORY_HEADER "2031.02.0", "F:2:1: the row has 1 fields"},
    {"one field too many", HISTORY_HEADER "2031.02.03 10:00:05;Sell;0.10;EURUSD;1.1;;;2031.02.03 10:00:06;1.1;;;1;x;y\n", "F:2:74: the row has 14 fields, expected 13 as in the header"},
    {"a month too many", HISTORY_HEADER "2031.13.03 10:00:05;Sell;0.10;EURUSD;1.1;;;2031.02.03 10:00:06;1.1;;;1;\n", "F:2:1: found \"2031.13.03 10:00:05\", expected a time"},
    {"a close time that is none", HISTORY_HEADER "2031.02.03 10:00:05;Sell;0.10;EURUSD;1.1;;;soon;1.1;;;1;\n", "F:2:44: found \"soon\", expected a time"},
    {"a volume of words", HISTORY_HEADER "2031.02.03 10:00:05;Sell;many;EURUSD;1.1;;;2031.02.03 10:00:06;1.1;;;1;\n", "F:2:26: found \"many\", expected a number"},
    {"a volume of zero", HISTORY_HEADER "2031.02.03 10:00:05;Sell;0.00;EURUSD;1.1;;;2031.02.03 10:00:06;1.1;;;1;\n", "F:2:26: found a volume that is not above 0"},
    {"an exponent", HISTORY_HEADER "2031.02.03 10:00:05;Sell;0.10;EURUSD;1e5;;;2031.02.03 10:00:06;1.1;;;1;\n", "F:2:38: found \"1e5\""},
    {"thousands in the wrong place", HISTORY_HEADER "2031.02.03 10:00:05;Sell;0.10;EURUSD;4 69 4.8;;;2031.02.03 10:00:06;1.1;;;1;\n", "F:2:38: found \"4 69 4.8\""},
    {"more digits than a decimal has", HISTORY_HEADER "2031.02.03 10:00:05;Sell;0.10;EURUSD;12345678901;;;2031.02.03 10:00:06;1.1;;;1;\n", "F:2:38: found \"12345678901\""},
    {"a price below zero", HISTORY_HEADER "2031.02.03 10:00:05;Sell;0.10;EURUSD;-1.1;;;2031.02.03 10:00:06;1.1;;;1;\n", "F:2:38: found a price below 0"},
    {"a type of its own", HISTORY_HEADER "2031.02.03 10:00:05;Hold;0.10;EURUSD;1.1;;;2031.02.03 10:00:06;1.1;;;1;\n", "F:2:21: found type \"Hold\", expected Buy"},
    {"a symbol that is no text", HISTORY_HEADER "2031.02.03 10:00:05;Sell;0.10;EUR\xff;1.1;;;2031.02.03 10:00:06;1.1;;;1;\n", "F:2:31: found \"EUR?\", expected a symbol"},
    {"HTML that is no statement", "<html><body>no</body></html>", "F:1:1: no \"Closed Transactions:\""},
    {"a statement cut between rows", "<html><tr><td>Closed Transactions:</td></tr>\n" MT4_ROW("5", "", "buy", "eurusd", CLOSED), "F:3:1: the file ends before \"Summary:\""},
    {"a statement cut inside a row", "<html><tr><td>Closed Transactions:</td></tr>\n<tr><td>5</td><td>2031.06", "F:2:1: this row does not end"},
    {"a trade of three cells", MT4("<tr><td>5</td><td>2031.06.01 10:00:00</td><td>buy</td></tr>\n", ""), "F:2:1: found 3 cells"},
    {"a ticket twice", MT4(MT4_ROW("5", "", "buy", "eurusd", CLOSED) MT4_ROW("5", "", "buy", "eurusd", CLOSED), ""), "F:3:1: ticket 5 stands twice, also in line 2"},
    {"its own remainder", MT4(MT4_ROW("5", "to #6", "buy", "eurusd", CLOSED) MT4_ROW("6", "to #5", "buy", "eurusd", CLOSED), ""), "F:2:1: ticket 5 is the remainder of itself"},
    {"linked to itself", MT4(MT4_ROW("5", "to #5", "buy", "eurusd", CLOSED), ""), "F:2:1: tickets 5 and 5 are linked"},
    {"two remainders", MT4(MT4_ROW("5", "to #6", "buy", "eurusd", CLOSED) MT4_ROW("6", "", "buy", "eurusd", CLOSED) MT4_ROW("7", "from #5", "buy", "eurusd", CLOSED), ""), "F:2:1: tickets 5 and 7 are linked, but one of them is part of another chain"},
    {"a chain of two symbols", MT4(MT4_ROW("5", "to #6", "buy", "eurusd", CLOSED) MT4_ROW("6", "", "buy", "gbpusd", CLOSED), ""), "F:2:1: tickets 5 and 6 are linked, but are not of one symbol and side"},
    {"a remainder of what is open", MT4(MT4_ROW("6", "from #5", "buy", "eurusd", CLOSED), MT4_ROW("5", "", "buy", "eurusd", "&nbsp;")), "F:4:1: ticket 5 is open still"},
};
/* clang-format on */

Test(replay_history, what_is_wrong_is_named_with_its_place)
{
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct tw_history history = {.n_events = 7};
        struct tw_error error = {0};
        /* Exactly as long as it is, so that reading past the end is seen. */
        size_t size = strlen(bad[i].bytes);
        char *bytes = malloc(size > 0 ? size : 1);
        memcpy(bytes, bad[i].bytes, size);

        tw_status status = tw_history_read("F", bytes, size, &history, &error);

        cr_expect_eq(status, TW_INVALID, "%s was accepted", bad[i].name);
        cr_expect_eq(strncmp(error.text, bad[i].expected, strlen(bad[i].expected)), 0,
                     "%s: \"%s\", expected \"%s\"", bad[i].name, error.text, bad[i].expected);
        cr_expect_eq(history.n_events, 7, "%s changed the result", bad[i].name);
        free(bytes);
    }
}

Test(replay_history, a_file_cut_anywhere_is_an_error_or_a_shorter_history_and_never_a_crash)
{
    static const char *const names[] = {"mql5_history.csv", "mql5_positions.csv",
                                        "mt4_statement.htm"};
    for (size_t f = 0; f < sizeof names / sizeof names[0]; f++) {
        struct file file = read_fixture(names[f]);
        for (size_t size = 0; size < file.size; size++) {
            struct tw_history history = {0};
            struct tw_error error = {0};
            char *bytes = malloc(size > 0 ? size : 1);
            memcpy(bytes, file.bytes, size);
            tw_status status = tw_history_read(names[f], bytes, size, &history, &error);
            cr_expect(status == TW_OK || strstr(error.text, names[f]) != NULL,
                      "%s cut to %zu: \"%s\"", names[f], size, error.text);
            tw_history_clear(&history);
            free(bytes);
        }
        free(file.bytes);
    }
}

Test(replay_history, a_close_before_its_open_is_put_behind_it_and_counted)
{
    static const char text[] =
        HISTORY_HEADER "2031.02.03 10:00:05;Sell;0.10;EURUSD;1.1;;;2031.02.03 09:00:00;1.1;;;1;\n";
    struct tw_history history = {0};
    struct tw_error error = {0};

    cr_assert_eq(tw_history_read("F", text, sizeof text - 1, &history, &error), TW_OK, "%s",
                 error.text);

    cr_expect_eq(history.events_moved, 1);
    cr_expect_eq(history.events[0].kind, TW_HISTORY_OPEN);
    cr_expect_eq(history.events[1].kind, TW_HISTORY_CLOSE);
    cr_expect_eq(history.events[1].at_s, history.events[0].at_s);
    tw_history_clear(&history);
}

static const struct {
    const char *text, *expected;
} numbers[] = {
    {"4 694.88", "4694.88"},
    {"4\xc2\xa0"
     "694.88",
     "4694.88"}, /* no-break space */
    {"4\xa0"
     "694.88",
     "4694.88"}, /* the same in Windows-1252 */
    {"4\xe2\x80\xaf"
     "694.88",
     "4694.88"}, /* narrow no-break space */
    {"1 234 567.5", "1234567.5"},
    {"0.8073753982300885", "0.8073754"},
    {"0.123456784", "0.12345678"},
    {"0.123456785", "0.12345679"},
    {"0.9999999999", "1"},
    {"1234567890.12345678", "1234567890.12345678"},
    {"0000000000001.1", "1.1"},
};

Test(replay_history, prices_have_thousands_and_are_rounded_to_eight_decimals)
{
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char bytes[512], price[TW_DECIMAL_TEXT_BYTES];
        struct tw_history history = {0};
        struct tw_error error = {0};
        int size =
            snprintf(bytes, sizeof bytes,
                     HISTORY_HEADER
                     "2031.02.03 10:00:05;Sell;0.10;EURUSD;%s;;;2031.02.03 10:00:06;1.1;;;1;\n",
                     numbers[i].text);

        tw_status status = tw_history_read("F", bytes, (size_t)size, &history, &error);

        cr_assert_eq(status, TW_OK, "%s: %s", numbers[i].text, error.text);
        cr_expect_str_eq(tw_decimal_text(history.events[0].price, price), numbers[i].expected,
                         "%s became %s", numbers[i].text, price);
        tw_history_clear(&history);
    }
}
