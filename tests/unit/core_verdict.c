/* core_verdict.c - what an answer leads to: outcome by operation, back-off, the window, proof of
 * absence. */
#include "core_support.h"

#include <tradewake/core/verdict.h>

#define MS(n) ((n)*TW_NS_PER_MS)
#define NOW   MS(1000000)

/* An open that was called once, a minute before it is too old. */
static struct tw_call_state state_of(enum tw_order_op op)
{
    return (struct tw_call_state){
        .op = op,
        .reduces_risk = op == TW_OP_CLOSE || op == TW_OP_CANCEL,
        .calls = 1,
        .window_left_ns = MS(60000),
        .call_deadline_mono_ns = NOW,
        .settle_ns = MS(1000),
        .not_found_is_final = true,
        .spread = UINT32_C(1) << 31, /* the middle */
    };
}

static const enum tw_order_op ops[] = {TW_OP_OPEN,  TW_OP_CLOSE,        TW_OP_MODIFY,
                                       TW_OP_PLACE, TW_OP_MODIFY_ORDER, TW_OP_CANCEL};
static const char *const op_words[] = {"open",  "close",        "modify",
                                       "place", "modify_order", "cancel"};

struct end {
    enum tw_next next;
    int state;
    tw_reason reason;
};

#define FINAL(state, reason)                                                                       \
    {                                                                                              \
        TW_NEXT_FINAL, STATE(state), REASON(reason)                                                \
    }
#define CALL(reason)                                                                               \
    {                                                                                              \
        TW_NEXT_CALL, STATE(QUEUED), REASON(reason)                                                \
    }
#define ASK(reason)                                                                                \
    {                                                                                              \
        TW_NEXT_LOOKUP, STATE(UNKNOWN), REASON(reason)                                             \
    }

Test(core_verdict, every_outcome_has_its_end_for_every_operation)
{
    static const struct {
        const char *name;
        struct tw_ack ack;
        struct end ends[6]; /* open, close, modify, place, modify_order, cancel */
    } rows[] = {
        {"nobody filled it in",
         {0},
         {ASK(TIMEOUT), ASK(TIMEOUT), ASK(TIMEOUT), ASK(TIMEOUT), ASK(TIMEOUT), ASK(TIMEOUT)}},
        {"ambiguous, with a reason",
         {.outcome = TW_OUTCOME_AMBIGUOUS, .reason = REASON(NO_CONNECTION)},
         {ASK(NO_CONNECTION), ASK(NO_CONNECTION), ASK(NO_CONNECTION), ASK(NO_CONNECTION),
          ASK(NO_CONNECTION), ASK(NO_CONNECTION)}},
        {"accepted is not executed",
         {.outcome = TW_OUTCOME_ACCEPTED},
         {ASK(TIMEOUT), ASK(TIMEOUT), ASK(TIMEOUT), ASK(TIMEOUT), ASK(TIMEOUT), ASK(TIMEOUT)}},
        {"done",
         {.outcome = TW_OUTCOME_DONE},
         {FINAL(DONE, UNSPECIFIED), FINAL(DONE, UNSPECIFIED), FINAL(DONE, UNSPECIFIED),
          FINAL(DONE, UNSPECIFIED), FINAL(DONE, UNSPECIFIED), FINAL(DONE, UNSPECIFIED)}},
        {"done, its stops are missing",
         {.outcome = TW_OUTCOME_DONE, .stops_missing = true},
         {FINAL(DONE, UNPROTECTED), FINAL(DONE, UNPROTECTED), FINAL(DONE, UNPROTECTED),
          FINAL(DONE, UNPROTECTED), FINAL(DONE, UNPROTECTED), FINAL(DONE, UNPROTECTED)}},
        {"no change",
         {.outcome = TW_OUTCOME_NO_CHANGE},
         {FINAL(DONE, NO_CHANGE), FINAL(DONE, NO_CHANGE), FINAL(DONE, NO_CHANGE),
          FINAL(DONE, NO_CHANGE), FINAL(DONE, NO_CHANGE), FINAL(DONE, NO_CHANGE)}},
        {"partly",
         {.outcome = TW_OUTCOME_PARTIAL},
         {FINAL(PARTIAL, BROKER_OTHER), CALL(UNSPECIFIED), FINAL(PARTIAL, BROKER_OTHER),
          FINAL(PARTIAL, BROKER_OTHER), FINAL(PARTIAL, BROKER_OTHER),
          FINAL(PARTIAL, BROKER_OTHER)}},
        {"partly, for want of money",
         {.outcome = TW_OUTCOME_PARTIAL, .reason = REASON(NO_MONEY)},
         {FINAL(PARTIAL, NO_MONEY), CALL(UNSPECIFIED), FINAL(PARTIAL, NO_MONEY),
          FINAL(PARTIAL, NO_MONEY), FINAL(PARTIAL, NO_MONEY), FINAL(PARTIAL, NO_MONEY)}},
        {"the price moved",
         {.outcome = TW_OUTCOME_RETRY_NOW, .reason = REASON(REQUOTE)},
         {CALL(REQUOTE), CALL(REQUOTE), CALL(REQUOTE), CALL(REQUOTE), CALL(REQUOTE),
          CALL(REQUOTE)}},
        {"busy",
         {.outcome = TW_OUTCOME_RETRY_LATER, .reason = REASON(BUSY)},
         {CALL(BUSY), CALL(BUSY), CALL(BUSY), CALL(BUSY), CALL(BUSY), CALL(BUSY)}},
        {"later, without a reason",
         {.outcome = TW_OUTCOME_RETRY_LATER},
         {CALL(BUSY), CALL(BUSY), CALL(BUSY), CALL(BUSY), CALL(BUSY), CALL(BUSY)}},
        {"never left: no connection",
         {.outcome = TW_OUTCOME_RETRY_LATER, .reason = REASON(NO_CONNECTION), .not_sent = true},
         {{TW_NEXT_CONNECT, STATE(QUEUED), REASON(NO_CONNECTION)},
          {TW_NEXT_CONNECT, STATE(QUEUED), REASON(NO_CONNECTION)},
          {TW_NEXT_CONNECT, STATE(QUEUED), REASON(NO_CONNECTION)},
          {TW_NEXT_CONNECT, STATE(QUEUED), REASON(NO_CONNECTION)},
          {TW_NEXT_CONNECT, STATE(QUEUED), REASON(NO_CONNECTION)},
          {TW_NEXT_CONNECT, STATE(QUEUED), REASON(NO_CONNECTION)}}},
        {"refused for want of money",
         {.outcome = TW_OUTCOME_REJECTED, .reason = REASON(NO_MONEY)},
         {FINAL(REJECTED, NO_MONEY), CALL(NO_MONEY), FINAL(REJECTED, NO_MONEY),
          FINAL(REJECTED, NO_MONEY), FINAL(REJECTED, NO_MONEY), CALL(NO_MONEY)}},
        {"refused without a reason",
         {.outcome = TW_OUTCOME_REJECTED},
         {FINAL(REJECTED, BROKER_OTHER), CALL(BROKER_OTHER), FINAL(REJECTED, BROKER_OTHER),
          FINAL(REJECTED, BROKER_OTHER), FINAL(REJECTED, BROKER_OTHER), CALL(BROKER_OTHER)}},
        {"the market is closed",
         {.outcome = TW_OUTCOME_REJECTED, .reason = REASON(MARKET_CLOSED)},
         {FINAL(REJECTED, MARKET_CLOSED),
          {TW_NEXT_MARKET, STATE(QUEUED), REASON(MARKET_CLOSED)},
          FINAL(REJECTED, MARKET_CLOSED),
          FINAL(REJECTED, MARKET_CLOSED),
          FINAL(REJECTED, MARKET_CLOSED),
          {TW_NEXT_MARKET, STATE(QUEUED), REASON(MARKET_CLOSED)}}},
        {"this adapter cannot",
         {.outcome = TW_OUTCOME_UNSUPPORTED, .reason = REASON(BROKER_OTHER)},
         {FINAL(REJECTED, BROKER_OTHER), CALL(BROKER_OTHER), FINAL(REJECTED, BROKER_OTHER),
          FINAL(REJECTED, BROKER_OTHER), FINAL(REJECTED, BROKER_OTHER), CALL(BROKER_OTHER)}},
        {"what it is about is gone",
         {.outcome = TW_OUTCOME_NOT_FOUND},
         {FINAL(REJECTED, BROKER_OTHER), FINAL(DONE, ALREADY_CLOSED), FINAL(DONE, ALREADY_CLOSED),
          FINAL(REJECTED, BROKER_OTHER), FINAL(DONE, NO_CHANGE), FINAL(DONE, ALREADY_CLOSED)}},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t k = 0; k < COUNT(ops); k++) {
            const struct tw_call_state state = state_of(ops[k]);
            struct tw_verdict verdict = tw_verdict_on_answer(&state, &rows[i].ack, NOW);
            const struct end *end = &rows[i].ends[k];
            cr_expect_eq(verdict.next, end->next, "%s, %s: next %d", rows[i].name, op_words[k],
                         (int)verdict.next);
            cr_expect_eq((int)verdict.state, end->state, "%s, %s: state %d", rows[i].name,
                         op_words[k], (int)verdict.state);
            cr_expect_eq(verdict.reason, end->reason, "%s, %s: %s", rows[i].name, op_words[k],
                         reason_name(verdict.reason));
        }
}

Test(core_verdict, a_tighter_stop_that_is_refused_is_tried_as_often_as_an_open_a_wider_one_once)
{
    struct tw_call_state state = state_of(TW_OP_MODIFY);
    const struct tw_ack refused = {.outcome = TW_OUTCOME_REJECTED, .reason = REASON(INVALID_STOPS)};

    cr_expect_eq(tw_verdict_on_answer(&state, &refused, NOW).next, TW_NEXT_FINAL);
    state.reduces_risk = true;
    state.calls = TW_CALLS_PER_OPEN_MAX - 1;
    cr_expect_eq(tw_verdict_on_answer(&state, &refused, NOW).next, TW_NEXT_CALL);
    state.calls = TW_CALLS_PER_OPEN_MAX;
    cr_expect_eq(tw_verdict_on_answer(&state, &refused, NOW).next, TW_NEXT_FINAL);
    const struct tw_ack busy = {.outcome = TW_OUTCOME_RETRY_LATER, .reason = REASON(BUSY)};
    cr_expect_eq(tw_verdict_on_answer(&state, &busy, NOW).next, TW_NEXT_CALL, "that was no answer to it");
}

Test(core_verdict, calls_are_made_again_later_and_later)
{
    static const struct {
        uint32_t calls;
        int64_t wait_ms;
    } rows[] = {{1, 100},  {2, 200},  {3, 400},  {4, 800},
                {6, 3200}, {7, 5000}, {8, 5000}, {4000000000u, 5000}};
    const struct tw_ack busy = {.outcome = TW_OUTCOME_RETRY_LATER, .reason = REASON(BUSY)};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tw_call_state state = state_of(TW_OP_CLOSE);
        state.calls = rows[i].calls;
        struct tw_verdict verdict = tw_verdict_on_answer(&state, &busy, NOW);
        cr_expect_eq(verdict.at_mono_ns - NOW, MS(rows[i].wait_ms), "%u: %ld ms", rows[i].calls,
                     (verdict.at_mono_ns - NOW) / TW_NS_PER_MS);
    }
}

Test(core_verdict, a_price_that_moves_on_and_on_is_followed_ever_slower)
{
    static const int64_t waits_ms[] = {10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000};
    const struct tw_ack moved = {.outcome = TW_OUTCOME_RETRY_NOW, .reason = REASON(REQUOTE)};
    for (uint32_t i = 0; i < COUNT(waits_ms); i++) {
        struct tw_call_state state = state_of(TW_OP_CLOSE);
        state.calls = i + 1;
        cr_expect_eq(tw_verdict_on_answer(&state, &moved, NOW).at_mono_ns - NOW, MS(waits_ms[i]), "call %u", i + 1);
    }
}

/* Of every wait a quarter is spread; of what a broker asks for, nothing. */
Test(core_verdict, copies_that_failed_together_do_not_come_back_together)
{
    static const uint32_t spreads[] = {0, UINT32_C(1) << 31, UINT32_MAX};
    static const int64_t calls_ms[] = {700, 800, 900};
    const struct tw_ack busy = {.outcome = TW_OUTCOME_RETRY_LATER, .reason = REASON(BUSY)},
                        no = {.outcome = TW_OUTCOME_REJECTED, .reason = REASON(NO_MONEY)},
                        told = {.outcome = TW_OUTCOME_RETRY_LATER, .retry_after_ns = MS(1000)};
    for (size_t i = 0; i < COUNT(spreads); i++) {
        struct tw_call_state state = state_of(TW_OP_CLOSE);
        state.calls = 4;
        state.spread = spreads[i];
        const int64_t waits_ns[] = {tw_verdict_on_answer(&state, &busy, NOW).at_mono_ns - NOW,
                                    tw_verdict_on_answer(&state, &no, NOW).at_mono_ns - NOW};
        for (size_t k = 0; k < COUNT(waits_ns); k++)
            cr_expect(waits_ns[k] >= MS(calls_ms[i]) - 1 && waits_ns[k] <= MS(calls_ms[i]), "%zu, %zu: %ld", i, k,
                      (long)waits_ns[k]);
        cr_expect_eq(tw_verdict_on_answer(&state, &told, NOW).at_mono_ns, NOW + MS(1000));
    }
}

Test(core_verdict, a_broker_that_says_when_is_heard)
{
    const struct tw_call_state state = state_of(TW_OP_CLOSE);
    const struct tw_ack later = {.outcome = TW_OUTCOME_RETRY_LATER, .retry_after_ns = MS(700)};
    const struct tw_ack sooner = {.outcome = TW_OUTCOME_RETRY_LATER, .retry_after_ns = MS(7)};
    cr_expect_eq(tw_verdict_on_answer(&state, &later, NOW).at_mono_ns, NOW + MS(700));
    cr_expect_eq(tw_verdict_on_answer(&state, &sooner, NOW).at_mono_ns, NOW + MS(100),
                 "not below our own");
}

Test(core_verdict, an_open_is_called_five_times_and_inside_its_window)
{
    static const struct {
        const char *name;
        enum tw_order_op op;
        uint32_t calls;
        int64_t window_left_ms;
        bool is_position_closed, again;
    } rows[] = {
        {"the fourth call failed", TW_OP_OPEN, 4, 60000, false, true},
        {"the fifth", TW_OP_OPEN, 5, 60000, false, false},
        {"the window ends before", TW_OP_OPEN, 1, 100, false, false},
        {"the window is long enough", TW_OP_OPEN, 1, 101, false, true},
        {"the window has ended", TW_OP_PLACE, 1, -5, false, false},
        {"its close has come", TW_OP_OPEN, 1, 60000, true, false},
        {"a close has no window", TW_OP_CLOSE, 1, -60000, true, true},
        {"nor a number of calls", TW_OP_CLOSE, 5000, -60000, true, true},
        {"a change has a number of calls", TW_OP_MODIFY_ORDER, 5, 60000, false, false},
        {"but no window", TW_OP_MODIFY_ORDER, 4, -60000, false, true},
    };
    const struct tw_ack busy = {.outcome = TW_OUTCOME_RETRY_LATER, .reason = REASON(BUSY)};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tw_call_state state = state_of(rows[i].op);
        state.calls = rows[i].calls;
        state.window_left_ns = MS(rows[i].window_left_ms);
        state.is_position_closed = rows[i].is_position_closed;
        struct tw_verdict verdict = tw_verdict_on_answer(&state, &busy, NOW);
        cr_expect_eq(verdict.next, rows[i].again ? TW_NEXT_CALL : TW_NEXT_FINAL, "%s",
                     rows[i].name);
        if (!rows[i].again) {
            cr_expect_eq((int)verdict.state, STATE(REJECTED), "%s", rows[i].name);
            cr_expect_eq(verdict.reason, REASON(BUSY), "%s: the last refusal", rows[i].name);
        }
    }
}

Test(core_verdict, an_id_is_used_again_only_when_it_was_not_used_up)
{
    const struct tw_call_state open = state_of(TW_OP_OPEN), close = state_of(TW_OP_CLOSE);
    const struct tw_ack busy = {.outcome = TW_OUTCOME_RETRY_LATER};
    const struct tw_ack stayed = {.outcome = TW_OUTCOME_RETRY_LATER, .not_sent = true};
    const struct tw_ack part = {.outcome = TW_OUTCOME_PARTIAL};
    cr_expect_not(tw_verdict_on_answer(&open, &busy, NOW).same_id_again);
    cr_expect(tw_verdict_on_answer(&open, &stayed, NOW).same_id_again);
    cr_expect_not(tw_verdict_on_answer(&close, &part, NOW).same_id_again,
                  "the rest is another order");
}

/* ---- Look-ups ---- */

#define SETTLED (NOW + MS(1000) + 1)

Test(core_verdict, not_found_proves_absence_after_time_out_and_settle_time_twice)
{
    const struct tw_ack gone = {.outcome = TW_OUTCOME_NOT_FOUND};
    struct tw_call_state state = state_of(TW_OP_OPEN);
    bool absence = true;

    struct tw_verdict verdict = tw_verdict_on_lookup(&state, &gone, NOW + MS(1000), &absence);
    cr_expect_not(absence, "the settle time is not over");
    cr_expect_eq(verdict.next, TW_NEXT_LOOKUP);
    cr_expect_eq((int)verdict.state, STATE(UNKNOWN));

    verdict = tw_verdict_on_lookup(&state, &gone, SETTLED, &absence);
    cr_expect(absence);
    cr_expect_eq(verdict.next, TW_NEXT_LOOKUP, "once is not proof");

    state.absences = 1;
    verdict = tw_verdict_on_lookup(&state, &gone, SETTLED, &absence);
    cr_expect(absence);
    cr_expect_eq(verdict.next, TW_NEXT_CALL);
    cr_expect(verdict.same_id_again, "it never existed: its id is free");
}

Test(core_verdict, what_was_sent_long_ago_if_ever_is_asked_for_a_second_time_at_once)
{
    const struct tw_ack gone = {.outcome = TW_OUTCOME_NOT_FOUND};
    struct tw_call_state state = state_of(TW_OP_CLOSE);
    bool absence;
    state.lookups = 3;
    cr_expect_eq(tw_verdict_on_lookup(&state, &gone, SETTLED, &absence).at_mono_ns - SETTLED, MS(2000));
    int64_t later = SETTLED + MS(5001);
    cr_expect_eq(tw_verdict_on_lookup(&state, &gone, later, &absence).at_mono_ns - later, MS(50));
}

Test(core_verdict, what_is_proved_absent_is_sent_again_only_where_that_does_no_harm)
{
    static const struct {
        const char *name;
        enum tw_order_op op;
        bool is_final, is_position_closed;
        uint32_t calls;
        int64_t window_left_ms;
        bool again;
    } rows[] = {
        {"an open, and the adapter stands by it", TW_OP_OPEN, true, false, 1, 60000, true},
        {"an open, and the adapter does not", TW_OP_OPEN, false, false, 1, 60000, false},
        {"an order, and the adapter does not", TW_OP_PLACE, false, false, 1, 60000, false},
        {"an open that is too old", TW_OP_OPEN, true, false, 1, 0, false},
        {"an open whose position is closed", TW_OP_OPEN, true, true, 1, 60000, false},
        {"an open called five times", TW_OP_OPEN, true, false, 5, 60000, false},
        {"a close, whatever the adapter says", TW_OP_CLOSE, false, true, 5000, -1, true},
        {"a cancel", TW_OP_CANCEL, false, true, 50, -1, true},
        {"a change", TW_OP_MODIFY, false, false, 1, -1, true},
    };
    const struct tw_ack gone = {.outcome = TW_OUTCOME_NOT_FOUND};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tw_call_state state = state_of(rows[i].op);
        bool absence;
        state.absences = 1;
        state.not_found_is_final = rows[i].is_final;
        state.is_position_closed = rows[i].is_position_closed;
        state.calls = rows[i].calls;
        state.window_left_ns = MS(rows[i].window_left_ms);
        struct tw_verdict verdict = tw_verdict_on_lookup(&state, &gone, SETTLED, &absence);
        cr_expect_eq(verdict.next, rows[i].again ? TW_NEXT_CALL : TW_NEXT_FINAL, "%s",
                     rows[i].name);
        if (!rows[i].again) {
            cr_expect_eq((int)verdict.state, STATE(REJECTED), "%s", rows[i].name);
            cr_expect_eq(verdict.reason, REASON(NOT_EXECUTED), "%s", rows[i].name);
        }
    }
}

Test(core_verdict, a_look_up_that_finds_ends_as_the_answer_would_have)
{
    static const struct {
        enum tw_outcome outcome;
        int state;
    } rows[] = {{TW_OUTCOME_DONE, STATE(DONE)},
                {TW_OUTCOME_PARTIAL, STATE(PARTIAL)},
                {TW_OUTCOME_NO_CHANGE, STATE(DONE)},
                {TW_OUTCOME_REJECTED, STATE(REJECTED)}};
    const struct tw_call_state state = state_of(TW_OP_OPEN);
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct tw_ack ack = {.outcome = rows[i].outcome};
        bool absence = true;
        struct tw_verdict verdict = tw_verdict_on_lookup(&state, &ack, SETTLED, &absence);
        cr_expect_eq(verdict.next, TW_NEXT_FINAL, "row %zu", i);
        cr_expect_eq((int)verdict.state, rows[i].state, "row %zu", i);
        cr_expect_not(absence, "row %zu", i);
    }
}

Test(core_verdict, a_look_up_that_fails_says_nothing_and_is_made_again)
{
    static const enum tw_outcome outcomes[] = {TW_OUTCOME_AMBIGUOUS, TW_OUTCOME_RETRY_LATER,
                                               TW_OUTCOME_RETRY_NOW, TW_OUTCOME_UNSUPPORTED,
                                               TW_OUTCOME_ACCEPTED};
    static const int64_t waits_ms[] = {250, 500, 1000, 2000, 4000, 5000, 5000};
    for (size_t i = 0; i < COUNT(outcomes); i++)
        for (uint32_t lookups = 0; lookups < COUNT(waits_ms); lookups++) {
            struct tw_call_state state = state_of(TW_OP_OPEN);
            const struct tw_ack ack = {.outcome = outcomes[i]};
            bool absence = true;
            state.lookups = lookups;
            state.absences = 1;
            struct tw_verdict verdict = tw_verdict_on_lookup(&state, &ack, SETTLED, &absence);
            cr_expect_eq(verdict.next, TW_NEXT_LOOKUP);
            cr_expect_not(absence);
            cr_expect_eq(verdict.at_mono_ns - SETTLED, MS(waits_ms[lookups]), "%u", lookups);
        }
}

Test(core_verdict, a_pending_order_that_is_found_waiting_is_done)
{
    const struct tw_call_state place = state_of(TW_OP_PLACE), open = state_of(TW_OP_OPEN);
    const struct tw_ack nameless = {.outcome = TW_OUTCOME_ACCEPTED},
                        waits = {.outcome = TW_OUTCOME_ACCEPTED, .order_id = "17"};
    bool absence;

    struct tw_verdict verdict = tw_verdict_on_lookup(&place, &waits, SETTLED, &absence);
    cr_expect_eq(verdict.next, TW_NEXT_FINAL);
    cr_expect_eq(verdict.state, STATE(DONE));
    cr_expect_eq(tw_verdict_on_lookup(&place, &nameless, SETTLED, &absence).next, TW_NEXT_LOOKUP,
                 "without its ticket it could never be cancelled");
    cr_expect_eq(tw_verdict_on_lookup(&open, &waits, SETTLED, &absence).next, TW_NEXT_LOOKUP);
}
