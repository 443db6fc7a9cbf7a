/* rpc_trace.c - which metadata is a trace by W3C Trace Context, and what goes on of it. */
#include "trace.h"

#include <criterion/criterion.h>

#include <string.h>

#define ID     "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"
#define NO_ID  "00000000000000000000000000000000"

static const struct {
    const char *name, *text, *forwarded; /* "" = it is none */
} rows[] = {
    {"sampled", "00-" ID "-" PARENT "-01", "00-" ID "-" PARENT "-01"},
    {"not sampled", "00-" ID "-" PARENT "-00", "00-" ID "-" PARENT "-00"},
    {"flags that 00 does not have", "00-" ID "-" PARENT "-ff", "00-" ID "-" PARENT "-01"},
    {"the same, not sampled", "00-" ID "-" PARENT "-fe", "00-" ID "-" PARENT "-00"},
    {"a later version", "cc-" ID "-" PARENT "-01", "00-" ID "-" PARENT "-01"},
    {"a later version with more", "cc-" ID "-" PARENT "-01-what-the-future-will-be-like", "00-" ID "-" PARENT "-01"},

    {"nothing", "", ""},
    {"version ff", "ff-" ID "-" PARENT "-01", ""},
    {"00 with more", "00-" ID "-" PARENT "-01-more", ""},
    {"a later version with more, and no dash", "cc-" ID "-" PARENT "-01.more", ""},
    {"cut", "00-" ID "-" PARENT "-0", ""},
    {"no trace", "00-" NO_ID "-" PARENT "-01", ""},
    {"no parent", "00-" ID "-0000000000000000-01", ""},
    {"capitals", "00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01", ""},
    {"a version of letters", "0x-" ID "-" PARENT "-01", ""},
    {"flags of letters", "00-" ID "-" PARENT "-0x", ""},
    {"another separator", "00_" ID "-" PARENT "-01", ""},
    {"a blank before", " 00-" ID "-" PARENT "-01", ""},
    {"a short trace", "00-4bf92f3577b34da6a3ce929d0e0e473-0" PARENT "-01", ""},
};

Test(rpc_trace, what_is_not_by_the_letter_is_none)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tw_trace_context trace;
        bool is_good = tw_trace_context_read(rows[i].text, &trace);

        cr_expect_eq(is_good, rows[i].forwarded[0] != '\0', "%s", rows[i].name);
        cr_expect_str_eq(trace.parent, rows[i].forwarded, "%s: %s", rows[i].name, trace.parent);
        cr_expect_str_eq(trace.id, is_good ? ID : "", "%s: %s", rows[i].name, trace.id);
    }
    struct tw_trace_context trace;
    cr_expect_not(tw_trace_context_read(NULL, &trace));
    cr_expect_str_eq(trace.parent, "");
}
