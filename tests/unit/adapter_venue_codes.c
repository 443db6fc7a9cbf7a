/* What every listed code of MetaTrader 4 and 5 comes to, written down a second time, by class. */
#include <tradewake/adapters/venue_codes.h>

#include <criterion/criterion.h>
#include <string.h>

#define ANY (-1)

struct expected {
    enum tw_venue venue;
    enum tw_outcome outcome;
    int op; /* ANY = each of the six */
    bool not_sent;
    int32_t codes[32]; /* ended by -1 */
};

static const struct expected table[] = {
    {TW_VENUE_MT4, TW_OUTCOME_DONE, ANY, false, {0, -1}},
    {TW_VENUE_MT4, TW_OUTCOME_NO_CHANGE, TW_OP_MODIFY, false, {1, -1}},
    {TW_VENUE_MT4, TW_OUTCOME_NO_CHANGE, TW_OP_MODIFY_ORDER, false, {1, -1}},
    {TW_VENUE_MT4, TW_OUTCOME_RETRY_NOW, ANY, false, {135, 138, -1}},
    {TW_VENUE_MT4, TW_OUTCOME_RETRY_NOW, TW_OP_OPEN, false, {129, -1}},
    {TW_VENUE_MT4, TW_OUTCOME_RETRY_LATER, ANY, false, {4, 8, 136, 137, 139, 141, 145, 146, -1}},
    {TW_VENUE_MT4, TW_OUTCOME_RETRY_LATER, ANY, true, {6, -1}},
    {TW_VENUE_MT4, TW_OUTCOME_REJECTED, ANY, false,
     {3, 5, 7, 64, 65, 130, 131, 132, 133, 134, 140, 147, 148, 149, 150, -1}},
    {TW_VENUE_MT4, TW_OUTCOME_REJECTED, TW_OP_PLACE, false, {129, -1}},
    {TW_VENUE_MT4, TW_OUTCOME_AMBIGUOUS, ANY, false, {2, 6, 9, 128, 142, 143, 144, -1}},
    {TW_VENUE_MT4, TW_OUTCOME_AMBIGUOUS, TW_OP_OPEN, false, {1, -1}},
    {TW_VENUE_MT4, TW_OUTCOME_AMBIGUOUS, TW_OP_CLOSE, false, {1, -1}},
    {TW_VENUE_MT5, TW_OUTCOME_DONE, ANY, false, {10009, -1}},
    {TW_VENUE_MT5, TW_OUTCOME_DONE, TW_OP_PLACE, false, {10008, -1}},
    {TW_VENUE_MT5, TW_OUTCOME_ACCEPTED, TW_OP_OPEN, false, {10008, -1}},
    {TW_VENUE_MT5, TW_OUTCOME_PARTIAL, TW_OP_OPEN, false, {10010, -1}},
    {TW_VENUE_MT5, TW_OUTCOME_PARTIAL, TW_OP_CLOSE, false, {10010, -1}},
    {TW_VENUE_MT5, TW_OUTCOME_NO_CHANGE, ANY, false, {10025, -1}},
    {TW_VENUE_MT5, TW_OUTCOME_NOT_FOUND, ANY, false, {10036, -1}},
    {TW_VENUE_MT5, TW_OUTCOME_RETRY_NOW, ANY, false, {10004, 10020, -1}},
    {TW_VENUE_MT5, TW_OUTCOME_RETRY_NOW, TW_OP_CLOSE, false, {10015, -1}},
    {TW_VENUE_MT5, TW_OUTCOME_RETRY_LATER, ANY, false, {10021, 10024, 10028, 10029, -1}},
    {TW_VENUE_MT5, TW_OUTCOME_RETRY_LATER, ANY, true, {10031, -1}},
    {TW_VENUE_MT5, TW_OUTCOME_REJECTED, ANY, false,
     {10006, 10007, 10013, 10014, 10016, 10017, 10018, 10019, 10022, 10026, 10027, 10030, 10032, 10033,
      10034, 10035, 10038, 10040, 10041, 10042, 10043, 10044, 10045, 10046, -1}},
    {TW_VENUE_MT5, TW_OUTCOME_REJECTED, TW_OP_PLACE, false, {10015, -1}},
    {TW_VENUE_MT5, TW_OUTCOME_AMBIGUOUS, ANY, false, {10011, 10012, 10023, 10031, 10039, -1}},
    {TW_VENUE_MT5, TW_OUTCOME_AMBIGUOUS, TW_OP_MODIFY, false, {10010, -1}},
};
enum { ROWS = sizeof table / sizeof table[0] };

static void expect_code(const struct expected *row, int32_t code)
{
    for (int op = TW_OP_OPEN; op <= TW_OP_CANCEL; op++) {
        if (row->op != ANY && row->op != op)
            continue;
        const struct tw_venue_code *found =
            tw_venue_code_find(row->venue, code, (enum tw_order_op)op, row->not_sent);
        cr_assert_not_null(found, "venue %d code %d op %d is not listed", row->venue, code, op);
        cr_expect_eq(found->outcome, row->outcome, "venue %d code %d op %d: outcome %d, expected %d", row->venue, code,
                     op, found->outcome, row->outcome);
    }
}

Test(adapter_venue_codes, every_code_has_its_class)
{
    for (size_t i = 0; i < ROWS; i++)
        for (const int32_t *code = table[i].codes; *code >= 0; code++)
            expect_code(&table[i], *code);
}

static bool is_expected(enum tw_venue venue, int32_t code)
{
    for (size_t i = 0; i < ROWS; i++)
        for (const int32_t *known = table[i].codes; table[i].venue == venue && *known >= 0; known++)
            if (*known == code)
                return true;
    return false;
}

Test(adapter_venue_codes, no_code_is_listed_that_is_not_expected_here_and_all_have_words)
{
    for (enum tw_venue venue = TW_VENUE_MT4; venue < TW_VENUE_COUNT; venue++) {
        size_t n;
        const struct tw_venue_code *rows = tw_venue_codes(venue, &n);
        cr_assert_gt(n, 0);
        for (size_t i = 0; i < n; i++) {
            cr_expect(is_expected(venue, rows[i].code), "venue %d code %d", venue, rows[i].code);
            cr_expect_str_neq(rows[i].words, "");
            bool is_refusal = rows[i].outcome >= TW_OUTCOME_RETRY_NOW;
            cr_expect(!is_refusal || rows[i].reason != TRADEWAKE__V1__REASON__REASON_UNSPECIFIED,
                      "code %d refuses without a reason", rows[i].code);
        }
    }
}

Test(adapter_venue_codes, every_operation_of_a_listed_code_has_a_row)
{
    for (enum tw_venue venue = TW_VENUE_MT4; venue < TW_VENUE_COUNT; venue++) {
        size_t n;
        const struct tw_venue_code *rows = tw_venue_codes(venue, &n);
        for (size_t i = 0; i < n; i++)
            for (int op = TW_OP_OPEN; op <= TW_OP_CANCEL; op++)
                cr_expect_not_null(tw_venue_code_find(venue, rows[i].code, (enum tw_order_op)op, false),
                                   "venue %d code %d op %d", venue, rows[i].code, op);
    }
}

Test(adapter_venue_codes, an_unlisted_code_is_nothing_that_is_known)
{
    cr_expect_null(tw_venue_code_find(TW_VENUE_MT4, 4000, TW_OP_OPEN, false));
    cr_expect_null(tw_venue_code_find(TW_VENUE_MT5, 10005, TW_OP_CLOSE, true));
    cr_expect_null(tw_venue_code_find(TW_VENUE_MT5, 0, TW_OP_CLOSE, false));
    cr_expect_null(tw_venue_code_find(TW_VENUE_NONE, 0, TW_OP_OPEN, false));
}
