#include "flight.h"
#include "broker.h"
#include "news.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/crash_point.h>

#include <assert.h>
#include <stdlib.h>
#include <time.h>

enum stage { STAGE_OUT, STAGE_BACK, STAGE_LANDED };

struct flight {
    struct session *session;
    struct tw_adapter_call *call;
    struct flight *next; /* spare */
    enum flight_kind kind;
    enum stage stage;
    struct fault fault;
    uint32_t connection; /* the one it left on */
    int64_t due_mono_ns; /* of the next step */
    int64_t middle_mono_ns, limit_mono_ns;
    int64_t answer_mono_ns; /* INT64_MAX: no answer is on its way */
    int64_t hang_mono_ns;   /* it keeps its thread until then, past its time-out; 0 = it does not */
    uint32_t hang_faults;   /* account.faults_set when it began to */
};

static const enum fault_op fault_op_of[] = {
    [TW_OP_OPEN] = FAULT_OP_OPEN,     [TW_OP_CLOSE] = FAULT_OP_CLOSE,
    [TW_OP_MODIFY] = FAULT_OP_MODIFY, [TW_OP_MODIFY_ORDER] = FAULT_OP_MODIFY,
    [TW_OP_PLACE] = FAULT_OP_PLACE,   [TW_OP_CANCEL] = FAULT_OP_CANCEL,
};

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void land(struct flight *flight)
{
    flight->stage = STAGE_LANDED;
}

static void land_ambiguous(struct flight *flight, tw_reason reason)
{
    flight->call->ack = (struct tw_ack){
        .outcome = TW_OUTCOME_AMBIGUOUS, .reason = reason, .remaining_volume = TW_DECIMAL_UNSET};
    if (flight->kind == FLIGHT_SNAPSHOT)
        tw_snapshot_clear(flight->call->snapshot);
    land(flight);
}

/* Nothing has left us. A question that could not be asked is AMBIGUOUS, as always. */
static void land_unsent(struct flight *flight, enum refusal refusal)
{
    struct tw_ack *ack = &flight->call->ack;
    *ack = (struct tw_ack){.remaining_volume = TW_DECIMAL_UNSET};
    broker_refuse(ack, refusal);
    ack->not_sent = true;
    if (flight->kind == FLIGHT_LOOKUP)
        ack->outcome = TW_OUTCOME_AMBIGUOUS;
    land(flight);
}

/* ---- Out. ---- */

static void fault_draw(struct account *account, struct flight *flight)
{
    if (account->faults.n_rules == 0 || flight->kind == FLIGHT_SNAPSHOT)
        return;
    enum fault_op op =
        flight->kind == FLIGHT_LOOKUP ? FAULT_OP_LOOKUP : fault_op_of[flight->call->order.op];
    struct entry entry;
    account_entry(account, &entry);
    flight->fault = faults_next(&account->faults, op, entry.line.counts, &account->prng);
    /* The count outlives us, also when the call is cut right after this. */
    if (account_commit(account, &entry) != TW_OK)
        flight->fault = (struct fault){0}; /* the call itself is refused when it arrives */
}

static void depart_locked(struct account *account, struct flight *flight, int64_t now)
{
    bool is_reconnect_due = account->reconnect_mono_ns != 0 && account->reconnect_mono_ns <= now;
    if (is_reconnect_due || account->paper->reactor == NULL)
        account_house_keep(account);
    if (!account->is_connected) {
        land_unsent(flight, REFUSED_NO_CONNECTION);
        return;
    }
    if (now >= flight->call->deadline_mono_ns) {
        land_unsent(flight, REFUSED_TOO_LATE);
        return;
    }
    fault_draw(account, flight);
    int64_t latency = latency_sample_ns(&account->latency, &account->prng);
    int64_t delay = flight->fault.kind == FAULT_DELAY ? flight->fault.value : 0;
    flight->connection = account->connection;
    flight->middle_mono_ns = now + latency / 2 + delay;
    flight->answer_mono_ns = flight->middle_mono_ns + (latency - latency / 2);
    flight->limit_mono_ns = earlier(now + account->call_timeout_ns, flight->call->deadline_mono_ns);
    flight->due_mono_ns = earlier(flight->middle_mono_ns, flight->limit_mono_ns);
    flight->stage = STAGE_OUT;
}

static void depart(struct flight *flight, int64_t now)
{
    tw_crash_point_if(flight->kind == FLIGHT_EXECUTE, "paper.departing");
    struct account *account = flight->session->account;
    pthread_mutex_lock(&account->lock);
    depart_locked(account, flight, now);
    news_tell_and_unlock(account);
}

/* ---- At the broker. ---- */

/* It arrived, and is never heard of again. */
static void swallow(struct account *account)
{
    struct entry entry;
    account_entry(account, &entry);
    entry.line.calls++;
    if (account_commit(account, &entry) != TW_OK)
        account->book.line
            .calls++; /* nothing but a counter: it is right until the end of the process */
}

static void look_up(struct account *account, struct flight *flight)
{
    struct tw_ack *ack = &flight->call->ack;
    broker_lookup(account, flight->call->order.client_order_id, ack);
    if (flight->fault.kind != FAULT_BUSY && flight->fault.kind != FAULT_RATE_LIMITED)
        return;
    *ack = (struct tw_ack){.remaining_volume = TW_DECIMAL_UNSET};
    broker_refuse(ack, flight->fault.kind == FAULT_BUSY ? REFUSED_BUSY : REFUSED_RATE_LIMITED);
    ack->outcome = TW_OUTCOME_AMBIGUOUS; /* could not ask */
}

static void picture(struct account *account, struct flight *flight)
{
    struct tw_ack *ack = &flight->call->ack;
    *ack = (struct tw_ack){.outcome = TW_OUTCOME_DONE, .remaining_volume = TW_DECIMAL_UNSET};
    if (broker_snapshot(account, tw_wall_ns(), flight->call->snapshot) != TW_OK)
        broker_refuse(ack, REFUSED_BUSY);
}

static void serve(struct account *account, struct flight *flight)
{
    struct tw_adapter_call *call = flight->call;
    switch (flight->kind) {
    case FLIGHT_EXECUTE:
        broker_execute(account, &call->order, flight->fault, tw_wall_ns(), &call->ack);
        return;
    case FLIGHT_LOOKUP:
        look_up(account, flight);
        return;
    case FLIGHT_SNAPSHOT:
        picture(account, flight);
        return;
    }
}

static bool is_on_its_connection(const struct account *account, const struct flight *flight)
{
    return account->is_connected && account->connection == flight->connection;
}

static void arrive_locked(struct account *account, struct flight *flight)
{
    enum fault_kind fault = flight->fault.kind;
    int64_t answer_mono_ns = flight->answer_mono_ns;
    flight->stage = STAGE_BACK;
    flight->answer_mono_ns = INT64_MAX;
    flight->due_mono_ns = flight->limit_mono_ns;
    if (!is_on_its_connection(account, flight)) {
        land_ambiguous(flight, TRADEWAKE__V1__REASON__REASON_NO_CONNECTION);
        return;
    }
    if (fault == FAULT_TIMEOUT_LOST)
        return;
    if (fault == FAULT_HANG || fault == FAULT_HANG_EXECUTED) {
        flight->hang_mono_ns = flight->limit_mono_ns + flight->fault.value;
        flight->hang_faults = account->faults_set;
    }
    if (fault == FAULT_HANG) {
        if (flight->kind == FLIGHT_EXECUTE)
            swallow(account);
        tw_crash_point("paper.hanging");
        return;
    }
    tw_crash_point_if(flight->kind == FLIGHT_EXECUTE, "paper.arrived");
    tw_crash_point_if(flight->kind == FLIGHT_LOOKUP, "paper.asked");
    serve(account, flight);
    tw_crash_point_if(flight->kind == FLIGHT_EXECUTE, "paper.executed");
    if (fault == FAULT_DROP_REPLY) {
        account_disconnect(account, "the broker dropped the connection", false);
        land_ambiguous(flight, TRADEWAKE__V1__REASON__REASON_NO_CONNECTION);
        return;
    }
    if (fault == FAULT_REJECT_EXECUTED) {
        flight->call->ack = (struct tw_ack){.remaining_volume = TW_DECIMAL_UNSET};
        broker_refuse(&flight->call->ack, REFUSED_OTHER);
    }
    if (fault == FAULT_TIMEOUT_EXECUTED || fault == FAULT_HANG_EXECUTED)
        return;
    flight->answer_mono_ns = answer_mono_ns;
    flight->due_mono_ns = earlier(answer_mono_ns, flight->limit_mono_ns);
}

static void arrive(struct flight *flight, int64_t now)
{
    struct account *account = flight->session->account;
    if (now > flight->limit_mono_ns || flight->middle_mono_ns > flight->limit_mono_ns) {
        land_ambiguous(flight, TRADEWAKE__V1__REASON__REASON_TIMEOUT);
        return;
    }
    pthread_mutex_lock(&account->lock);
    arrive_locked(account, flight);
    news_tell_and_unlock(account);
}

/* ---- Back. ---- */

static void come_back(struct flight *flight)
{
    struct account *account = flight->session->account;
    if (flight->answer_mono_ns > flight->limit_mono_ns) {
        land_ambiguous(flight, TRADEWAKE__V1__REASON__REASON_TIMEOUT);
        return;
    }
    if (flight->answer_mono_ns == flight->middle_mono_ns) {
        land(flight); /* no time has passed in which the connection could have been lost */
        return;
    }
    pthread_mutex_lock(&account->lock);
    bool is_lost = !is_on_its_connection(account, flight);
    pthread_mutex_unlock(&account->lock);
    if (is_lost)
        land_ambiguous(flight, TRADEWAKE__V1__REASON__REASON_NO_CONNECTION);
    else
        land(flight);
}

static void step(struct flight *flight, int64_t now)
{
    if (flight->stage == STAGE_OUT)
        arrive(flight, now);
    else
        come_back(flight);
}

/* ---- Blocking: on the worker. ---- */

static void sleep_until(int64_t mono_ns)
{
    struct timespec until = {.tv_sec = mono_ns / TW_NS_PER_S, .tv_nsec = mono_ns % TW_NS_PER_S};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) {
    }
}

/* As a library does that does not mind its time-out. What it brings at last is true. */
static void hang(struct flight *flight)
{
    struct account *account = flight->session->account;
    const struct timespec until = {.tv_sec = flight->hang_mono_ns / TW_NS_PER_S,
                                   .tv_nsec = flight->hang_mono_ns % TW_NS_PER_S};
    int failed = 0;
    pthread_mutex_lock(&account->lock);
    while (account->faults_set == flight->hang_faults && failed == 0)
        failed = pthread_cond_timedwait(&account->let_go, &account->lock, &until);
    pthread_mutex_unlock(&account->lock);
    if (flight->fault.kind == FAULT_HANG_EXECUTED)
        land(flight);
    else
        land_ambiguous(flight, TRADEWAKE__V1__REASON__REASON_TIMEOUT);
}

static void fly_blocking(struct session *session, struct tw_adapter_call *call,
                         enum flight_kind kind)
{
    struct flight flight = {.session = session, .call = call, .kind = kind};
    int64_t now = tw_mono_ns();
    depart(&flight, now);
    while (flight.stage != STAGE_LANDED) {
        if (flight.due_mono_ns > now) {
            sleep_until(flight.due_mono_ns);
            now = tw_mono_ns();
        }
        step(&flight, now);
        if (flight.hang_mono_ns != 0 && flight.stage != STAGE_LANDED)
            hang(&flight);
    }
}

/* ---- Non-blocking: on the reactor. ---- */

static struct flight *flight_take(struct paper *paper)
{
    struct flight *flight = paper->spare_flights;
    if (flight == NULL)
        return malloc(sizeof(*flight));
    paper->spare_flights = flight->next;
    return flight;
}

static void flight_give(struct paper *paper, struct flight *flight)
{
    flight->next = paper->spare_flights;
    paper->spare_flights = flight;
}

static void timer_fired(struct tw_timer *timer);

static void fly_on(struct flight *flight, int64_t now)
{
    struct paper *paper = flight->session->account->paper;
    struct tw_adapter_call *call = flight->call;
    while (flight->stage != STAGE_LANDED) {
        if (flight->due_mono_ns > now) {
            tw_timer_set(paper->reactor, &call->timer, flight->due_mono_ns);
            return;
        }
        step(flight, now);
    }
    flight_give(paper, flight);
    call->done(call);
}

static void timer_fired(struct tw_timer *timer)
{
    struct tw_adapter_call *call =
        (struct tw_adapter_call *)(void *)((char *)timer - offsetof(struct tw_adapter_call, timer));
    fly_on(call->adapter_data[0], tw_mono_ns());
}

static void fly_nonblocking(struct session *session, struct tw_adapter_call *call,
                            enum flight_kind kind)
{
    struct flight *flight = flight_take(session->account->paper);
    if (flight == NULL) {
        call->ack = (struct tw_ack){.not_sent = true, .remaining_volume = TW_DECIMAL_UNSET};
        broker_refuse(&call->ack, REFUSED_BUSY);
        if (kind == FLIGHT_LOOKUP)
            call->ack.outcome = TW_OUTCOME_AMBIGUOUS;
        call->done(call);
        return;
    }
    *flight = (struct flight){.session = session, .call = call, .kind = kind};
    call->adapter_data[0] = flight;
    call->timer = (struct tw_timer){.fire = timer_fired};
    int64_t now = tw_mono_ns();
    depart(flight, now);
    fly_on(flight, now);
}

void flight_start(struct session *session, struct tw_adapter_call *call, enum flight_kind kind)
{
    if (session->capabilities.blocking)
        fly_blocking(session, call, kind);
    else
        fly_nonblocking(session, call, kind);
}

void flight_spares_free(struct paper *paper)
{
    while (paper->spare_flights != NULL) {
        struct flight *flight = paper->spare_flights;
        paper->spare_flights = flight->next;
        free(flight);
    }
}
