/* What the host is answered and told, word by word of the venue. The line is the test's own: nothing is sent, no clock and
 * no thread decides. */
#include "fix.h"

#include <tradewake/base/clock.h>

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNITS(n) ((n) * TW_DECIMAL_ONE)

/* ---- The line. ---- */

struct fix_line {
    struct fix_account *accounts;
    struct fix_orders *orders;
};

static char sent_type[4], sent[FIX_BODY_BYTES + 1];
static uint64_t n_sent;

bool fix_line_is_up(const struct fix_line *line)
{
    (void)line;
    return true;
}

struct fix_orders *fix_line_orders(struct fix_line *line)
{
    return line->orders;
}

struct fix_account *fix_line_accounts(const struct fix_line *line)
{
    return line->accounts;
}

bool fix_line_send(struct fix_line *line, const char *msg_type, const struct fix_body *body, uint64_t *ret_seq, char why[WHY_BYTES])
{
    (void)line, (void)why;
    snprintf(sent_type, sizeof sent_type, "%s", msg_type);
    memcpy(sent, body->text, body->n);
    sent[body->n] = '\0';
    n_sent++;
    if (ret_seq != NULL)
        *ret_seq = n_sent;
    return true;
}

void tw_timer_set(struct tw_reactor *reactor, struct tw_timer *timer, int64_t due_mono_ns)
{
    (void)reactor, (void)timer, (void)due_mono_ns;
}

bool tw_timer_stop(struct tw_reactor *reactor, struct tw_timer *timer)
{
    (void)reactor, (void)timer;
    return true;
}

/* ---- A follower. ---- */

static const char sections[] = "[net]\n"
                               "profile = generic44\n"
                               "address = 127.0.0.1:1\n"
                               "sender = US\n"
                               "target = THEM\n"
                               "symbol X = X contract=1 tick=1 min=1 step=1 max=1000\n"
                               "[hedged]\n"
                               "profile = ctrader\n"
                               "address = 127.0.0.1:1\n"
                               "sender = A-{account}\n"
                               "target = THEM\n"
                               "currency = USD\n"
                               "symbol X = X contract=1 tick=1 min=1 step=1 max=1000\n";

static struct fix_venues venues;
static struct fix_adapter adapter;
static struct fix_line line;
static struct fix_account *account;
static int n_gone, n_done;
static char gone_position[FIX_ID_BYTES];

static void on_connection(void *context, bool is_connected, const char *why)
{
    (void)context, (void)is_connected, (void)why;
}

static void on_position(void *context, const struct tw_held_position *position, tw_reason reason)
{
    (void)context, (void)position, (void)reason;
}

static void on_order_gone(void *context, const char *order_id, const char *client_order_id, const char *position_id)
{
    (void)context, (void)order_id, (void)client_order_id;
    snprintf(gone_position, sizeof gone_position, "%s", position_id);
    n_gone++;
}

static void begin(const char *section)
{
    struct tw_error error = {{0}};
    cr_assert_eq(fix_venues_read(sections, "fix.ini", &venues, &error), TW_OK, "%s", error.text);
    account = calloc(1, sizeof *account);
    *account = (struct fix_account){
        .adapter = &adapter,
        .venue = fix_venues_find(&venues, section),
        .host = {.on_connection = on_connection, .on_position = on_position, .on_order_gone = on_order_gone},
        .settings = {.account = "1", .call_timeout_ns = 5 * TW_NS_PER_S},
        .line = &line,
        .is_up = true};
    line = (struct fix_line){.accounts = account, .orders = fix_orders_new(100)};
}

static void end(void)
{
    fix_calls_cut(account, "over");
    fix_account_free(account);
    fix_orders_free(line.orders);
    fix_venues_clear(&venues);
}

TestSuite(fix_calls, .fini = end);

/* ---- Calls. ---- */

static void on_done(struct tw_adapter_call *call)
{
    (void)call;
    n_done++;
}

static void order_set(struct tw_adapter_call *call, enum tw_order_op op, const char *id, const char *target)
{
    *call = (struct tw_adapter_call){.done = on_done, .deadline_mono_ns = tw_mono_ns() + 60 * TW_NS_PER_S};
    call->order = (struct tw_order){.op = op,
                                    .side = TW_BUY,
                                    .type = op == TW_OP_PLACE ? TW_ORDER_LIMIT : TW_ORDER_MARKET,
                                    .symbol = "X",
                                    .volume = UNITS(10),
                                    .price = op == TW_OP_PLACE ? UNITS(2) : op == TW_OP_MODIFY_ORDER ? UNITS(3) : TW_DECIMAL_UNSET,
                                    .stop_price = TW_DECIMAL_UNSET,
                                    .stop_loss = TW_DECIMAL_UNSET,
                                    .take_profit = TW_DECIMAL_UNSET,
                                    .expires_wall_ns = op == TW_OP_MODIFY_ORDER ? -1 : 0};
    snprintf(call->order.client_order_id, sizeof call->order.client_order_id, "%s", id);
    snprintf(call->order.order_id, sizeof call->order.order_id, "%s", target);
    n_done = 0;
}

static void execute(struct tw_adapter_call *call, enum tw_order_op op, const char *id, const char *target)
{
    order_set(call, op, id, target);
    fix_execute(account, call);
}

static void lookup(struct tw_adapter_call *call, enum tw_order_op op, const char *id)
{
    order_set(call, op, id, "");
    fix_lookup(account, call);
}

/* ---- What the venue says. ---- */

static struct fix_report report(const char *id, const char *orig, char exec_type, char ord_status, int64_t cum)
{
    static int n;
    struct fix_report made = {.exec_type = exec_type,
                              .ord_status = ord_status,
                              .symbol = "X",
                              .order_id = "V",
                              .side = TW_BUY,
                              .type = TW_ORDER_LIMIT,
                              .quantity = UNITS(10),
                              .cum = cum < 0 ? TW_DECIMAL_UNSET : UNITS(cum),
                              .leaves = TW_DECIMAL_UNSET,
                              .average = UNITS(2),
                              .last_price = TW_DECIMAL_UNSET,
                              .price = TW_DECIMAL_UNSET,
                              .stop_price = TW_DECIMAL_UNSET,
                              .reject_reason = FIX_NO_CODE};
    snprintf(made.cl_ord_id, sizeof made.cl_ord_id, "%s", id);
    snprintf(made.orig_cl_ord_id, sizeof made.orig_cl_ord_id, "%s", orig);
    snprintf(made.exec_id, sizeof made.exec_id, "E%d", ++n);
    return made;
}

static void say(const char *id, const char *orig, char exec_type, char ord_status, int64_t cum)
{
    struct fix_report made = report(id, orig, exec_type, ord_status, cum);
    fix_accounts_on_execution(&line, &made);
}

static void say_unknown(const char *id)
{
    struct fix_report made = report(id, "", 'I', '8', 0);
    made.reject_reason = 5;
    snprintf(made.order_id, sizeof made.order_id, "NONE");
    fix_accounts_on_execution(&line, &made);
}

static void say_duplicate(const char *id)
{
    struct fix_report made = report(id, "", '8', '8', 0);
    made.reject_reason = 6;
    snprintf(made.order_id, sizeof made.order_id, "NONE");
    fix_accounts_on_execution(&line, &made);
}

/* The question that is out is answered: all of it has filled. */
static void found_filled(const struct tw_adapter_call *call, const char *id)
{
    cr_expect_eq(n_done, 0);
    say(id, "", 'I', '2', 10);
    cr_assert_eq(n_done, 1);
    cr_expect_eq(call->ack.outcome, TW_OUTCOME_DONE, "outcome %d", call->ack.outcome);
    cr_expect_eq(call->ack.filled_volume, UNITS(10));
}

static void works(const char *id)
{
    static struct tw_adapter_call call;
    execute(&call, TW_OP_PLACE, id, "");
    say(id, "", '0', '0', 0);
    cr_assert_eq(n_done, 1);
    cr_assert_eq(call.ack.outcome, TW_OUTCOME_DONE);
}

/* ---- A pending that fills in part. ---- */

Test(fix_calls, a_cancel_of_what_has_filled_in_part_is_not_done_and_what_filled_is_found)
{
    static struct tw_adapter_call cancel;
    begin("net");
    works("p");
    say("p", "", 'F', '1', 4);

    execute(&cancel, TW_OP_CANCEL, "c", "p");
    say("c", "p", '4', '4', 4);

    cr_assert_eq(n_done, 1);
    cr_expect_eq(cancel.ack.outcome, TW_OUTCOME_NOT_FOUND, "outcome %d", cancel.ack.outcome);
    cr_expect_eq(n_gone, 0);
    lookup(&cancel, TW_OP_PLACE, "p");
    cr_assert_eq(n_done, 1);
    cr_expect_eq(cancel.ack.outcome, TW_OUTCOME_PARTIAL);
    cr_expect_eq(cancel.ack.filled_volume, UNITS(4));
}

Test(fix_calls, a_cancel_that_is_looked_up_forgets_no_part_either)
{
    static struct tw_adapter_call cancel;
    begin("net");
    works("p");
    say("p", "", 'F', '1', 4);
    execute(&cancel, TW_OP_CANCEL, "c", "p");
    fix_calls_cut(account, "cut");
    cr_assert_eq(cancel.ack.outcome, TW_OUTCOME_AMBIGUOUS);

    lookup(&cancel, TW_OP_CANCEL, "c");
    say("c", "p", 'I', '4', 4);

    cr_assert_eq(n_done, 1);
    cr_expect_eq(cancel.ack.outcome, TW_OUTCOME_NOT_FOUND, "outcome %d", cancel.ack.outcome);
    cr_expect_eq(n_gone, 0);
}

Test(fix_calls, a_cancel_of_an_earlier_life_is_looked_up_as_a_cancel)
{
    static struct tw_adapter_call cancel;
    begin("net");

    lookup(&cancel, TW_OP_CANCEL, "c1"); /* the venue calls it by its last name only */
    say("c1", "", 'I', '6', 0);
    cr_assert_eq(n_done, 1);
    cr_expect_eq(cancel.ack.outcome, TW_OUTCOME_AMBIGUOUS, "outcome %d", cancel.ack.outcome);
    lookup(&cancel, TW_OP_CANCEL, "c1");
    say("c1", "", 'I', '4', 0);
    cr_expect_eq(cancel.ack.outcome, TW_OUTCOME_DONE, "outcome %d", cancel.ack.outcome);

    lookup(&cancel, TW_OP_CANCEL, "c2");
    struct fix_report told = report("c2", "", 'I', '4', 4);
    snprintf(told.order_id, sizeof told.order_id, "W");
    fix_accounts_on_execution(&line, &told);
    cr_assert_eq(n_done, 1);
    cr_expect_eq(cancel.ack.outcome, TW_OUTCOME_NOT_FOUND, "outcome %d", cancel.ack.outcome);
}

Test(fix_calls, a_cancel_of_what_has_not_filled_is_done)
{
    static struct tw_adapter_call cancel;
    begin("net");
    works("p");

    execute(&cancel, TW_OP_CANCEL, "c", "p");
    say("c", "p", '4', '4', 0);

    cr_assert_eq(n_done, 1);
    cr_expect_eq(cancel.ack.outcome, TW_OUTCOME_DONE);
    cr_expect_eq(n_gone, 0, "the call tells it");
}

Test(fix_calls, a_pending_that_ends_filled_in_part_is_not_told_as_filled)
{
    static const char ends[] = {'C', '3', '4'};
    static struct tw_adapter_call call;
    char id[4] = "p0";
    begin("net");
    for (size_t i = 0; i < sizeof ends; i++, id[1]++) {
        works(id);
        say(id, "", 'F', '1', 4);
        say(id, "", ends[i], ends[i], 4);

        cr_expect_eq(n_gone, 0, "39=%c", ends[i]);
        lookup(&call, TW_OP_PLACE, id);
        cr_expect_eq(call.ack.outcome, TW_OUTCOME_PARTIAL);
        cr_expect_eq(call.ack.filled_volume, UNITS(4));
        fix_orders_remove(line.orders, fix_orders_find(line.orders, id));
    }
    works("whole");
    say("whole", "", 'F', '2', 10);
    cr_expect_eq(n_gone, 1);
    cr_expect_str_eq(gone_position, "X");
    works("none");
    say("none", "", 'C', 'C', 0);
    cr_expect_eq(n_gone, 2);
    cr_expect_str_eq(gone_position, "");
}

/* ---- Duplicates. ---- */

static void ask_and_hear_unknown(struct tw_adapter_call *call, const char *id)
{
    lookup(call, TW_OP_OPEN, id);
    say_unknown(id);
    cr_assert_eq(n_done, 1);
    cr_assert_eq(call->ack.outcome, TW_OUTCOME_NOT_FOUND);
}

static void duplicate_of_what_was_lost(struct tw_adapter_call *call)
{
    execute(call, TW_OP_OPEN, "o", "");
    fix_calls_cut(account, "cut");
    ask_and_hear_unknown(call, "o");
    ask_and_hear_unknown(call, "o");
    execute(call, TW_OP_OPEN, "o", "");
    cr_assert_str_eq(sent_type, "D");
    say_duplicate("o");
    cr_assert_str_eq(sent_type, "H");
    cr_assert_eq(n_done, 0);
}

Test(fix_calls, a_duplicate_that_is_unknown_when_asked_for_is_no_final_answer)
{
    static struct tw_adapter_call call;
    begin("net");
    duplicate_of_what_was_lost(&call);

    say_unknown("o");

    cr_assert_eq(n_done, 1);
    cr_expect_eq(call.ack.outcome, TW_OUTCOME_AMBIGUOUS, "outcome %d", call.ack.outcome);
    lookup(&call, TW_OP_OPEN, "o");
    say_unknown("o");
    cr_expect_eq(n_done, 0, "the venue has it: unknown is no answer");
    found_filled(&call, "o");
}

Test(fix_calls, a_duplicate_whose_question_is_refused_as_not_found_is_no_final_answer)
{
    static struct tw_adapter_call call;
    begin("net");
    duplicate_of_what_was_lost(&call);

    fix_accounts_on_unread(&line, n_sent, "", false, 0, "ORDER_NOT_FOUND");

    cr_assert_eq(n_done, 1);
    cr_expect_eq(call.ack.outcome, TW_OUTCOME_AMBIGUOUS, "outcome %d", call.ack.outcome);
    lookup(&call, TW_OP_OPEN, "o");
    fix_accounts_on_unread(&line, n_sent, "", false, 0, "ORDER_NOT_FOUND");
    cr_assert_eq(n_done, 1);
    cr_expect_eq(call.ack.outcome, TW_OUTCOME_AMBIGUOUS, "outcome %d", call.ack.outcome);
}

/* ---- A change that is lost with the connection. ---- */

Test(fix_calls, a_lost_cancel_does_not_keep_the_next_from_being_sent)
{
    static struct tw_adapter_call first, second;
    begin("net");
    works("p");
    execute(&first, TW_OP_CANCEL, "c1", "p");
    fix_calls_cut(account, "cut");

    execute(&second, TW_OP_CANCEL, "c2", "p");

    cr_assert_eq(n_done, 0);
    cr_expect_str_eq(sent_type, "F");
    cr_expect_not_null(strstr(sent, "11=c2"));
    say("c1", "p", '4', '4', 0); /* the first has arrived after all */
    cr_assert_eq(n_done, 1);
    cr_expect_eq(second.ack.outcome, TW_OUTCOME_DONE);
}

Test(fix_calls, a_change_that_is_waited_for_keeps_others_from_being_sent)
{
    static struct tw_adapter_call first, second;
    begin("net");
    works("p");
    execute(&first, TW_OP_CANCEL, "c1", "p");

    execute(&second, TW_OP_CANCEL, "c2", "p");

    cr_expect_eq(n_done, 1);
    cr_expect_eq(second.ack.outcome, TW_OUTCOME_RETRY_LATER);
    say("c1", "p", '4', '4', 0);
    cr_expect_eq(first.ack.outcome, TW_OUTCOME_DONE);
}

Test(fix_calls, a_lost_replace_that_is_answered_late_answers_no_other)
{
    static struct tw_adapter_call first, second;
    begin("net");
    works("p");
    execute(&first, TW_OP_MODIFY_ORDER, "r1", "p");
    fix_calls_cut(account, "cut");
    execute(&second, TW_OP_MODIFY_ORDER, "r2", "p");
    cr_assert_str_eq(sent_type, "G");

    say("r1", "p", '5', '0', 0);
    cr_expect_eq(n_done, 0);
    say("r2", "p", '5', '0', 0);

    cr_assert_eq(n_done, 1);
    cr_expect_eq(second.ack.outcome, TW_OUTCOME_DONE);
    cr_expect_str_eq(fix_orders_find(line.orders, "p")->current_id, "r2");
}

Test(fix_calls, a_lost_change_is_found_lost_by_a_later_question)
{
    static struct tw_adapter_call call;
    begin("net");
    works("p");
    execute(&call, TW_OP_CANCEL, "c", "p");
    fix_calls_cut(account, "cut");

    lookup(&call, TW_OP_CANCEL, "c");
    say("p", "", 'I', '6', 0);
    cr_assert_eq(n_done, 1);
    cr_expect_eq(call.ack.outcome, TW_OUTCOME_AMBIGUOUS, "pending cancel");
    lookup(&call, TW_OP_CANCEL, "c");
    say("p", "", 'I', '0', 0);

    cr_assert_eq(n_done, 1);
    cr_expect_eq(call.ack.outcome, TW_OUTCOME_NOT_FOUND, "outcome %d", call.ack.outcome);
    execute(&call, TW_OP_CANCEL, "c", "p");
    cr_expect_eq(n_done, 0, "the same id once more");
    cr_expect_str_eq(sent_type, "F");
}

Test(fix_calls, a_replace_whose_word_is_lost_is_found_done_by_its_id)
{
    static struct tw_adapter_call call;
    begin("net");
    works("p");
    execute(&call, TW_OP_MODIFY_ORDER, "r", "p");
    fix_calls_cut(account, "cut");

    lookup(&call, TW_OP_MODIFY_ORDER, "r");
    say("r", "p", 'I', '0', 0);

    cr_assert_eq(n_done, 1);
    cr_expect_eq(call.ack.outcome, TW_OUTCOME_DONE, "outcome %d", call.ack.outcome);
    cr_expect_str_eq(fix_orders_find(line.orders, "p")->current_id, "r");
}

/* ---- What is over and not clear. ---- */

Test(fix_calls, a_fill_without_its_position_is_asked_for)
{
    static struct tw_adapter_call call;
    begin("hedged");
    execute(&call, TW_OP_OPEN, "o", "");
    say("o", "", 'F', '2', 10);
    cr_assert_eq(n_done, 1);
    cr_assert_eq(call.ack.outcome, TW_OUTCOME_AMBIGUOUS);

    lookup(&call, TW_OP_OPEN, "o");
    cr_assert_eq(n_done, 0);
    cr_expect_str_eq(sent_type, "H");
    struct fix_report told = report("o", "", 'I', '2', 10);
    snprintf(told.position_id, sizeof told.position_id, "77");
    fix_accounts_on_execution(&line, &told);

    cr_assert_eq(n_done, 1);
    cr_expect_eq(call.ack.outcome, TW_OUTCOME_DONE);
    cr_expect_str_eq(call.ack.position_id, "77");
}

Test(fix_calls, a_fill_whose_total_cannot_be_read_is_asked_for)
{
    static struct tw_adapter_call call;
    begin("net");
    execute(&call, TW_OP_OPEN, "o", "");
    say("o", "", 'F', '1', 4);
    say("o", "", 'F', '2', -1);
    cr_assert_eq(n_done, 1);
    cr_expect_eq(call.ack.outcome, TW_OUTCOME_AMBIGUOUS, "outcome %d", call.ack.outcome);

    lookup(&call, TW_OP_OPEN, "o");
    found_filled(&call, "o");
}

Test(fix_calls, an_end_whose_total_cannot_be_read_is_no_requote)
{
    static struct tw_adapter_call call;
    begin("net");
    execute(&call, TW_OP_OPEN, "o", "");
    say("o", "", '4', '4', -1);
    cr_assert_eq(n_done, 1);
    cr_expect_eq(call.ack.outcome, TW_OUTCOME_AMBIGUOUS, "outcome %d", call.ack.outcome);

    lookup(&call, TW_OP_OPEN, "o");
    say("o", "", 'I', '4', 4);

    cr_assert_eq(n_done, 1);
    cr_expect_eq(call.ack.outcome, TW_OUTCOME_PARTIAL);
}

Test(fix_calls, an_unread_fill_before_the_end_is_no_requote)
{
    static struct tw_adapter_call call;
    begin("net");
    execute(&call, TW_OP_OPEN, "o", "");
    say("o", "", 'F', '1', -1);
    say("o", "", '4', '4', -1);

    cr_assert_eq(n_done, 1);
    cr_expect_eq(call.ack.outcome, TW_OUTCOME_AMBIGUOUS, "outcome %d", call.ack.outcome);
}

/* ---- A message that was not taken. ---- */

Test(fix_calls, a_refusal_is_that_of_the_message_it_names_by_number)
{
    static struct tw_adapter_call call;
    begin("net");
    execute(&call, TW_OP_OPEN, "o", "");
    uint64_t seq = n_sent;

    fix_accounts_on_unread(&line, seq + 1, "o", false, 0, "");
    cr_assert_eq(n_done, 0, "another message is meant");
    fix_accounts_on_unread(&line, seq, "", false, 0, "");
    cr_assert_eq(n_done, 1);

    execute(&call, TW_OP_OPEN, "p", "");
    fix_accounts_on_unread(&line, 0, "p", false, 0, "");
    cr_expect_eq(n_done, 1, "no number: the id is all there is");
}

/* ---- What working orders have become while nobody heard. ---- */

Test(fix_calls, working_orders_are_asked_for_once_reports_were_lost)
{
    begin("net");
    works("p");
    works("q");
    say("q", "", 'F', '2', 10);
    cr_assert_eq(n_gone, 1);
    n_sent = 0;

    fix_account_on_missed(account);
    cr_expect_eq(n_sent, 1, "the one that works");
    cr_expect_str_eq(sent_type, "H");
    cr_expect_not_null(strstr(sent, "11=p\001"), "%s", sent);
    say("p", "", 'I', '0', 0);
    cr_expect_eq(n_gone, 1, "it works on");

    fix_account_on_line(account, false, "cut");
    fix_account_on_missed(account);
    cr_expect_eq(n_sent, 1, "not before the line is up");
    fix_account_on_line(account, true, "");
    cr_expect_eq(n_sent, 2);
    say("p", "", 'I', '2', 10);
    cr_expect_eq(n_gone, 2);
    cr_expect_str_eq(gone_position, "X");
    fix_account_on_missed(account);
    cr_expect_eq(n_sent, 2, "none is left");
}

Test(fix_calls, a_working_order_that_nobody_knows_any_more_stays_as_it_was)
{
    begin("net");
    works("p");

    fix_account_on_missed(account);
    say_unknown("p");

    cr_expect_eq(n_gone, 0);
    cr_expect_not(fix_order_is_over(fix_orders_find(line.orders, "p")));
}

/* ---- Whose a report is, and what is known after some were lost. ---- */

Test(fix_calls, what_was_held_is_not_certain_once_reports_were_lost)
{
    begin("net");
    account->is_stale = false;
    fix_account_on_missed(account);
    cr_expect(account->is_stale);

    account->is_stale = false;
    fix_account_on_line(account, false, "cut");
    cr_expect(account->is_stale);
}

Test(fix_calls, an_execution_of_another_account_is_not_booked_to_the_only_one)
{
    begin("net");
    struct fix_report told = report("theirs", "", 'F', '2', 10);
    snprintf(told.account, sizeof told.account, "2");
    fix_accounts_on_execution(&line, &told);
    cr_assert_not_null(fix_orders_find(line.orders, "theirs"));
    cr_expect_null(fix_orders_find(line.orders, "theirs")->owner);

    told = report("ours", "", 'F', '2', 10);
    snprintf(told.order_id, sizeof told.order_id, "W");
    fix_accounts_on_execution(&line, &told);
    cr_expect_eq(fix_orders_find(line.orders, "ours")->owner, account, "none is named: it can only be this one");
}

Test(fix_calls, an_answer_that_names_no_account_is_that_of_who_asks)
{
    static struct tw_adapter_call call;
    begin("net");
    static struct fix_account other;
    other = *account;
    other.flights = NULL;
    other.next = NULL;
    snprintf(other.settings.account, sizeof other.settings.account, "2");
    account->next = &other;

    lookup(&call, TW_OP_OPEN, "q"); /* after a start: nobody has heard of it */
    found_filled(&call, "q");

    account->next = NULL;
}
