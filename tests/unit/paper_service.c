/* The handlers of PaperService with a call that keeps what it is answered: no network. */
#include "paper_fixture.h"

#include "../../server/rpc/paper_service.h"

#include <tradewake/paper/v1/paper.pb-c.h>

#include <criterion/criterion.h>

#define ERROR(name) TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_##name

/* Stands in for the one of proto/wire. */
struct tw_call {
    bool is_answered, is_refused;
    struct tw_refusal refusal;
    uint8_t packed[65536];
    size_t n_packed;
};

void tw_call_answer(struct tw_call *call, const ProtobufCMessage *response)
{
    cr_assert_not(call->is_answered || call->is_refused, "answered twice");
    cr_assert_leq(protobuf_c_message_get_packed_size(response), sizeof(call->packed));
    call->is_answered = true;
    call->n_packed = protobuf_c_message_pack(response, call->packed);
}

void tw_call_refuse(struct tw_call *call, const struct tw_refusal *refusal)
{
    cr_assert_not(call->is_answered || call->is_refused, "answered twice");
    call->is_refused = true;
    call->refusal = *refusal;
}

static char *words(const char *text)
{
    return (char *)(uintptr_t)text; /* requests are only read */
}

static struct tw_call act(const Tradewake__Paper__V1__ActByHandRequest *request)
{
    struct tw_call call = {0};
    tw_paper_act_on_request(&call, &request->base, NULL);
    return call;
}

static struct tw_call configure(const Tradewake__Paper__V1__ConfigureRequest *request)
{
    struct tw_call call = {0};
    tw_paper_configure_on_request(&call, &request->base, NULL);
    return call;
}

static struct tw_call get_book(const char *follower_id)
{
    struct tw_call call = {0};
    Tradewake__Paper__V1__GetBookRequest request;
    tradewake__paper__v1__get_book_request__init(&request);
    request.follower_id = words(follower_id);
    tw_paper_get_book_on_request(&call, &request.base, NULL);
    return call;
}

static struct tw_call hand_open(const char *symbol, int side, const char *volume)
{
    Tradewake__Paper__V1__HandOpen open;
    Tradewake__Paper__V1__ActByHandRequest request;
    tradewake__paper__v1__hand_open__init(&open);
    tradewake__paper__v1__act_by_hand_request__init(&request);
    open.symbol = words(symbol);
    open.side = (Tradewake__V1__Side)side;
    open.volume = words(volume);
    request.follower_id = words("F1");
    request.act_case = TRADEWAKE__PAPER__V1__ACT_BY_HAND_REQUEST__ACT_OPEN;
    request.open = &open;
    return act(&request);
}

static void assert_refused(const struct tw_call *call, int reason, const char *field,
                           const char *name)
{
    cr_assert(call->is_refused, "%s: was not refused", name);
    cr_expect_eq((int)call->refusal.reason, reason, "%s: reason %d", name,
                 (int)call->refusal.reason);
    cr_expect_str_eq(call->refusal.field, field, "%s: field %s", name, call->refusal.field);
    cr_expect_str_neq(call->refusal.text, "", "%s: no words", name);
}

static struct desk desk;

static void open_desk(void)
{
    desk_open(&desk, "latency=zero;quotes={\"EURUSD\":\"1.10000/1.10020\"}");
    tw_paper_service_adapter_set(desk.adapter);
}

static void close_desk(void)
{
    desk_close(&desk);
}

TestSuite(paper_service, .init = open_desk, .fini = close_desk);

Test(paper_service, a_book_has_canonical_decimals_and_no_stop_is_the_empty_text)
{
    struct tw_order order = open_of("copy-1", "EURUSD", TW_BUY, "0.10");
    order.take_profit = D("1.2");
    desk_execute(&desk, &order);

    struct tw_call call = get_book("F1");

    cr_assert(call.is_answered);
    Tradewake__Paper__V1__GetBookResponse *book =
        tradewake__paper__v1__get_book_response__unpack(NULL, call.n_packed, call.packed);
    cr_assert_eq(book->n_positions, 1);
    cr_expect_str_eq(book->positions[0]->volume, "0.1");
    cr_expect_str_eq(book->positions[0]->open_price, "1.1002");
    cr_expect_str_eq(book->positions[0]->stop_loss, "");
    cr_expect_str_eq(book->positions[0]->take_profit, "1.2");
    cr_expect_str_eq(book->positions[0]->client_order_id, "copy-1");
    cr_expect_str_eq(book->positions[0]->comment, "copy-1");
    cr_assert_eq(book->n_deals, 1);
    cr_expect_str_eq(book->deals[0]->client_order_id, "copy-1");
    cr_expect_neq(book->deals[0]->at->seconds, 0);
    cr_expect_str_eq(book->account->balance, "10000");
    cr_expect_eq(book->calls, 1);
    tradewake__paper__v1__get_book_response__free_unpacked(book, NULL);
}

Test(paper_service, an_account_nobody_has_is_not_found_everywhere)
{
    struct tw_call book = get_book("nobody"), malformed = get_book("a b");
    Tradewake__Paper__V1__ConfigureRequest change;
    tradewake__paper__v1__configure_request__init(&change);
    change.follower_id = words("nobody");
    struct tw_call configured = configure(&change);

    assert_refused(&book, ERROR(NOT_FOUND), "follower_id", "GetBook");
    assert_refused(&malformed, ERROR(INVALID_FIELD), "follower_id", "GetBook of no id");
    assert_refused(&configured, ERROR(NOT_FOUND), "follower_id", "Configure");
}

Test(paper_service, a_hand_opens_and_closes_and_the_host_hears_of_it)
{
    struct tw_call opened = hand_open("EURUSD", 1, "0.10");
    cr_assert(opened.is_answered);
    Tradewake__Paper__V1__ActByHandResponse *response =
        tradewake__paper__v1__act_by_hand_response__unpack(NULL, opened.n_packed, opened.packed);
    cr_expect_str_eq(desk.heard.position.position_id, response->position_id);
    cr_expect_str_eq(desk.heard.position.client_order_id, "");

    Tradewake__Paper__V1__HandClose close;
    Tradewake__Paper__V1__ActByHandRequest request;
    tradewake__paper__v1__hand_close__init(&close);
    tradewake__paper__v1__act_by_hand_request__init(&request);
    close.position_id = response->position_id;
    request.follower_id = words("F1");
    request.act_case = TRADEWAKE__PAPER__V1__ACT_BY_HAND_REQUEST__ACT_CLOSE;
    request.close = &close;
    struct tw_call closed = act(&request), again = act(&request);

    cr_expect(closed.is_answered);
    assert_decimal(desk.heard.position.volume, "0", "volume of what is gone");
    assert_refused(&again, ERROR(NOT_FOUND), "close.position_id", "closed twice");
    struct tw_paper_book book = desk_book(&desk);
    cr_expect_eq(book.n_deals, 2);
    cr_expect_eq(book.calls, 0);
    tw_paper_book_clear(&book);
    tradewake__paper__v1__act_by_hand_response__free_unpacked(response, NULL);
}

Test(paper_service, a_deposit_moves_the_balance)
{
    Tradewake__Paper__V1__HandDeposit deposit;
    Tradewake__Paper__V1__ActByHandRequest request;
    tradewake__paper__v1__hand_deposit__init(&deposit);
    tradewake__paper__v1__act_by_hand_request__init(&request);
    deposit.amount = words("-250.5");
    request.follower_id = words("F1");
    request.act_case = TRADEWAKE__PAPER__V1__ACT_BY_HAND_REQUEST__ACT_DEPOSIT;
    request.deposit = &deposit;

    cr_expect(act(&request).is_answered);
    assert_decimal(desk.heard.account.balance, "9749.5", "balance");
    deposit.amount = words("0");
    struct tw_call nothing = act(&request);
    assert_refused(&nothing, ERROR(INVALID_FIELD), "deposit.amount", "a deposit of nothing");
}

struct bad_open {
    const char *name, *symbol, *volume, *field;
    int side;
};

static const struct bad_open bad_opens[] = {
    {"no symbol", "", "0.10", "open.symbol", 1},
    {"unknown symbol", "NOPE", "0.10", "open.symbol", 1},
    {"no side", "EURUSD", "0.10", "open.side", 0},
    {"side outside the enum", "EURUSD", "0.10", "open.side", 9},
    {"volume with a comma", "EURUSD", "0,10", "open.volume", 1},
    {"volume of nothing", "EURUSD", "0", "open.volume", 1},
    {"volume off the step", "EURUSD", "0.011", "open.volume", 1},
};

Test(paper_service, a_hand_that_slips_is_told_which_field)
{
    for (size_t i = 0; i < sizeof(bad_opens) / sizeof(bad_opens[0]); i++) {
        const struct bad_open *c = &bad_opens[i];
        struct tw_call call = hand_open(c->symbol, c->side, c->volume);
        assert_refused(&call, ERROR(INVALID_FIELD), c->field, c->name);
    }
    Tradewake__Paper__V1__ActByHandRequest nothing;
    tradewake__paper__v1__act_by_hand_request__init(&nothing);
    nothing.follower_id = words("F1");
    struct tw_call call = act(&nothing);
    assert_refused(&call, ERROR(INVALID_FIELD), "act", "no act");
}

Test(paper_service, configure_refuses_what_cannot_be_and_then_changes_nothing)
{
    Tradewake__Paper__V1__Quote quote, *quotes[] = {&quote};
    Tradewake__Paper__V1__Instrument instrument, *instruments[] = {&instrument};
    Tradewake__Paper__V1__ConfigureRequest request, clean;
    tradewake__paper__v1__quote__init(&quote);
    tradewake__paper__v1__instrument__init(&instrument);
    tradewake__paper__v1__configure_request__init(&clean);

    request = clean;
    request.faults = words("open#0=busy");
    struct tw_call faults = configure(&request);
    request = clean;
    request.latency = words("quick");
    struct tw_call latency = configure(&request);
    request = clean;
    request.market_closed = request.market_open = 1;
    struct tw_call both = configure(&request);
    request = clean;
    request.connection = (Tradewake__Paper__V1__Connection)7;
    struct tw_call connection = configure(&request);
    request = clean;
    quote.symbol = words("EURUSD");
    quote.bid = words("1.2");
    quote.ask = words("1.1");
    request.n_quotes = 1;
    request.quotes = quotes;
    struct tw_call crossed = configure(&request);
    request = clean;
    instrument.symbol = words("NEW");
    instrument.min_volume = words("1");
    instrument.max_volume = words("10");
    instrument.volume_step = words("1");
    instrument.contract_size = words("1");
    request.n_instruments = 1;
    request.instruments = instruments;
    struct tw_call half = configure(&request);

    assert_refused(&faults, ERROR(INVALID_FIELD), "faults", "faults");
    assert_refused(&latency, ERROR(INVALID_FIELD), "latency", "latency");
    assert_refused(&both, ERROR(INVALID_FIELD), "market_open", "closed and open");
    assert_refused(&connection, ERROR(INVALID_FIELD), "connection", "connection");
    assert_refused(&crossed, ERROR(INVALID_FIELD), "quotes[0].ask", "crossed quote");
    assert_refused(&half, ERROR(INVALID_FIELD), "instruments[0].tick_size", "half an instrument");
    cr_expect_eq(desk_open_position(&desk, "o", "NEW", TW_BUY, "1").outcome, TW_OUTCOME_REJECTED);
}

Test(paper_service, a_known_instrument_is_changed_in_part_and_a_new_one_can_be_traded)
{
    Tradewake__Paper__V1__Instrument known, new, *instruments[] = {&known, &new};
    Tradewake__Paper__V1__ConfigureRequest request;
    tradewake__paper__v1__instrument__init(&known);
    tradewake__paper__v1__instrument__init(&new);
    tradewake__paper__v1__configure_request__init(&request);
    known.symbol = words("EURUSD");
    known.min_volume = words("0.5");
    new.symbol = words("NEW.x");
    new.min_volume = new.volume_step = words("0.01");
    new.max_volume = words("1000");
    new.contract_size = words("1");
    new.tick_size = words("0.00000001");
    request.n_instruments = 2;
    request.instruments = instruments;

    cr_assert(configure(&request).is_answered);

    cr_expect_eq(desk_open_position(&desk, "a", "EURUSD", TW_BUY, "0.10").reason,
                 REASON(INVALID_VOLUME));
    cr_expect_eq(desk_open_position(&desk, "b", "EURUSD", TW_BUY, "0.51").outcome, TW_OUTCOME_DONE);
    cr_expect_eq(desk_open_position(&desk, "c", "NEW.x", TW_BUY, "0.03").outcome, TW_OUTCOME_DONE);
}
