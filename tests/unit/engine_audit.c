/* The audit: its bytes, and how many refusals are written down. */
#include "audit.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct tw_audit halt = {
    .at_wall_ns = 1700000000123456789, .who = "operations", .peer = "ipv4:127.0.0.1:40122",
    .method = "/tradewake.v1.FollowerService/Halt", .master_id = "M1", .follower_id = "", .object_id = "",
    .result = 0, .why = "",
    .request = {"tradewake.v1.HaltRequest", (const uint8_t *)"\x01\x02", 2},
    .after = {"tradewake.v1.ActiveHalt", (const uint8_t *)"\x03", 1},
};

Test(engine_audit, a_record_that_is_read_says_what_was_written)
{
    struct state_out out = {0};
    char texts[TW_AUDIT_TEXTS_BYTES];
    struct tw_audit got;

    state_put_audit(&out, &halt);
    cr_assert(tw_audit_read(out.bytes, out.size, texts, &got));

    cr_expect_eq(got.at_wall_ns, halt.at_wall_ns);
    cr_expect_str_eq(got.who, "operations");
    cr_expect_str_eq(got.method, "/tradewake.v1.FollowerService/Halt");
    cr_expect_str_eq(got.master_id, "M1");
    cr_expect_str_eq(got.request.type, "tradewake.v1.HaltRequest");
    cr_expect(got.request.size == 2 && memcmp(got.request.bytes, "\x01\x02", 2) == 0);
    cr_expect_str_eq(got.before.type, "");
    cr_expect(got.after.size == 1 && got.after.bytes[0] == 3);
    state_out_clear(&out);
}

Test(engine_audit, a_record_that_is_cut_anywhere_is_none)
{
    struct state_out out = {0};
    char texts[TW_AUDIT_TEXTS_BYTES];
    struct tw_audit got;
    state_put_audit(&out, &halt);

    for (size_t size = 0; size < out.size; size++)
        cr_expect_not(tw_audit_read(out.bytes, size, texts, &got), "cut at %zu", size);
    state_out_clear(&out);
}

Test(engine_audit, a_text_longer_than_its_room_is_cut_and_the_rest_still_read)
{
    char why[2 * TW_AUDIT_TEXTS_BYTES], texts[TW_AUDIT_TEXTS_BYTES];
    struct state_out out = {0};
    struct tw_audit audit = halt, got;
    memset(why, 'w', sizeof why - 1);
    why[sizeof why - 1] = '\0';
    audit.why = why;

    state_put_audit(&out, &audit);
    cr_assert(tw_audit_read(out.bytes, out.size, texts, &got));

    cr_expect(strlen(got.why) > 100 && strlen(got.why) < TW_AUDIT_TEXTS_BYTES / 10);
    cr_expect_str_eq(got.after.type, "tradewake.v1.ActiveHalt");
    state_out_clear(&out);
}

Test(engine_audit, so_many_refusals_at_once_and_then_one_in_ten_seconds)
{
    struct tw_audit_pace pace = {0};
    int64_t now_ns = 5 * TW_NS_PER_S;
    unsigned written = 0;

    for (unsigned i = 0; i < 3 * TW_AUDIT_REFUSALS_AT_ONCE; i++)
        written += tw_audit_paced(&pace, now_ns);
    cr_expect_eq(written, (unsigned)TW_AUDIT_REFUSALS_AT_ONCE);

    written = 0;
    for (unsigned second = 1; second <= 3600; second++) /* an hour, a hundred a second */
        for (unsigned i = 0; i < 100; i++)
            written += tw_audit_paced(&pace, now_ns + second * TW_NS_PER_S);
    cr_expect_eq(written, 3600u / TW_AUDIT_REFUSAL_EVERY_S);

    written = 0; /* a quiet year, then a flood again */
    for (unsigned i = 0; i < 3 * TW_AUDIT_REFUSALS_AT_ONCE; i++)
        written += tw_audit_paced(&pace, now_ns + INT64_C(365) * 86400 * TW_NS_PER_S);
    cr_expect_eq(written, (unsigned)TW_AUDIT_REFUSALS_AT_ONCE);
}
