/* call.c - orders and questions of the host. Begun on the reactor, answered on the line's thread, and given back on
 * the reactor. */
#include "remote.h"
#include "translate.h"

#include <tradewake/base/clock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { KIND_EXECUTE, KIND_LOOKUP, KIND_SNAPSHOT };

struct flight {
    struct tw_task task; /* first: the reactor gives it back */
    struct session *session;
    struct tw_adapter_call *call;
    enum kind kind;
    int64_t limit_mono_ns;
};

static void on_reactor(struct tw_task *task)
{
    struct flight *flight = (struct flight *)(void *)task;
    struct tw_adapter_call *call = flight->call;
    free(flight);
    call->done(call);
}

static void ack_set(struct tw_adapter_call *call, enum tw_outcome outcome, tw_reason reason, const char *words)
{
    call->ack = (struct tw_ack){.outcome = outcome, .reason = reason, .remaining_volume = TW_DECIMAL_UNSET};
    snprintf(call->ack.broker_message, sizeof call->ack.broker_message, "%.90s", words);
}

/* Nothing has left us, and nothing will. A question that could not be asked is AMBIGUOUS, as always. */
static void not_sent(struct tw_adapter_call *call, enum kind kind, tw_reason reason, const char *words)
{
    ack_set(call, kind == KIND_EXECUTE ? TW_OUTCOME_RETRY_LATER : TW_OUTCOME_AMBIGUOUS, reason, words);
    call->ack.not_sent = true;
    call->done(call);
}

/* ---- Back. ---- */

/* Whatever the transport says, it does not say that the bridge has not read it. */
static void lost(struct flight *flight, const struct tw_wire_answer *answer)
{
    enum { DEADLINE_EXCEEDED = 4 };
    bool is_late = answer->code == DEADLINE_EXCEEDED || tw_mono_ns() >= flight->limit_mono_ns;
    ack_set(flight->call, TW_OUTCOME_AMBIGUOUS, is_late ? REASON(TIMEOUT) : REASON(NO_CONNECTION), answer->message);
}

static void execute_answer(struct flight *flight, const ProtobufCMessage *response)
{
    struct tw_adapter_call *call = flight->call;
    struct tw_ack *ack = &call->ack;
    remote_ack_from_response(&call->order, (const Tradewake__Adapter__V1__ExecuteResponse *)(const void *)response, ack);
    /* It came too late at the bridge: the order itself is as good as before. */
    if (ack->outcome == TW_OUTCOME_REJECTED && ack->not_sent && ack->reason == REASON(TIMEOUT))
        ack->outcome = TW_OUTCOME_RETRY_LATER;
    bool is_placed = call->order.op == TW_OP_PLACE && ack->order_id[0] != '\0' &&
                     (ack->outcome == TW_OUTCOME_DONE || ack->outcome == TW_OUTCOME_ACCEPTED);
    if (!is_placed)
        return;
    pthread_mutex_lock(&flight->session->remote->lock);
    remote_working_add(flight->session, ack->order_id, call->order.client_order_id);
    pthread_mutex_unlock(&flight->session->remote->lock);
}

static void snapshot_answer(struct flight *flight, const ProtobufCMessage *response)
{
    const Tradewake__Adapter__V1__SnapshotResponse *picture = (const void *)response;
    bool is_whole = remote_snapshot_from_response(picture, tw_wall_ns(), flight->call->snapshot);
    ack_set(flight->call, is_whole ? TW_OUTCOME_DONE : TW_OUTCOME_AMBIGUOUS,
            is_whole ? REASON(UNSPECIFIED) : REASON(BROKER_OTHER), is_whole ? "" : "the snapshot is not whole");
}

static void on_answer(void *context, const struct tw_wire_answer *answer, const ProtobufCMessage *response)
{
    struct flight *flight = context;
    if (response == NULL)
        lost(flight, answer);
    else if (flight->kind == KIND_EXECUTE)
        execute_answer(flight, response);
    else if (flight->kind == KIND_LOOKUP)
        remote_ack_from_lookup((const Tradewake__Adapter__V1__LookupResponse *)(const void *)response, &flight->call->ack);
    else
        snapshot_answer(flight, response);
    flight->task.run = on_reactor;
    tw_reactor_post(flight->session->remote->reactor, &flight->task);
}

/* ---- Out. ---- */

static tw_status execute_send(struct flight *flight, char *session_id, int64_t now_mono_ns, struct tw_error *error)
{
    const struct session *session = flight->session;
    struct execute_message message;
    int64_t deadline_wall_ns = tw_wall_ns() + (flight->limit_mono_ns - now_mono_ns);
    remote_execute_message_fill(&flight->call->order, session_id, deadline_wall_ns, atomic_load(&session->bridge->comment_max),
                         &message);
    return tw_wire_call_begin_traced(session->bridge->channel, METHOD("Execute"), &message.request.base, flight->limit_mono_ns,
                                     flight->call->traceparent, on_answer, flight, NULL, error);
}

static tw_status lookup_send(struct flight *flight, char *session_id, struct tw_error *error)
{
    Tradewake__Adapter__V1__LookupRequest request;
    tradewake__adapter__v1__lookup_request__init(&request);
    request.session_id = session_id;
    request.client_order_id = flight->call->order.client_order_id;
    request.symbol = flight->call->order.symbol;
    return tw_wire_call_begin_traced(flight->session->bridge->channel, METHOD("Lookup"), &request.base, flight->limit_mono_ns,
                                     flight->call->traceparent, on_answer, flight, NULL, error);
}

static tw_status snapshot_send(struct flight *flight, char *session_id, struct tw_error *error)
{
    Tradewake__Adapter__V1__SnapshotRequest request;
    tradewake__adapter__v1__snapshot_request__init(&request);
    request.session_id = session_id;
    return tw_wire_call_begin(flight->session->bridge->channel, METHOD("Snapshot"), &request.base,
                              flight->limit_mono_ns, on_answer, flight, NULL, error);
}

static tw_status send(struct flight *flight, char *session_id, int64_t now_mono_ns, struct tw_error *error)
{
    switch (flight->kind) {
    case KIND_EXECUTE:
        return execute_send(flight, session_id, now_mono_ns, error);
    case KIND_LOOKUP:
        return lookup_send(flight, session_id, error);
    case KIND_SNAPSHOT:
        break;
    }
    return snapshot_send(flight, session_id, error);
}

static void fly(struct session *session, struct tw_adapter_call *call, enum kind kind)
{
    char session_id[TOKEN_BYTES];
    struct tw_error error = {{0}};
    int64_t now = tw_mono_ns(), limit = now + session->call_timeout_ns;
    if (limit > call->deadline_mono_ns)
        limit = call->deadline_mono_ns;
    pthread_mutex_lock(&session->remote->lock);
    bool is_up = session->is_up;
    snprintf(session_id, sizeof session_id, "%s", session->session_id);
    pthread_mutex_unlock(&session->remote->lock);
    if (!is_up || !tw_wire_channel_is_ready(session->bridge->channel)) {
        not_sent(call, kind, REASON(NO_CONNECTION), "no connection");
        return;
    }
    if (now >= limit) {
        not_sent(call, kind, REASON(TIMEOUT), "the deadline had passed");
        return;
    }
    struct flight *flight = malloc(sizeof *flight);
    if (flight == NULL) {
        not_sent(call, kind, REASON(BUSY), "no memory for a call");
        return;
    }
    *flight = (struct flight){.session = session, .call = call, .kind = kind, .limit_mono_ns = limit};
    if (send(flight, session_id, now, &error) == TW_OK)
        return; /* neither the flight nor the call is ours any more */
    free(flight);
    not_sent(call, kind, REASON(BUSY), error.text);
}

void remote_execute(void *session, struct tw_adapter_call *call)
{
    fly(session, call, KIND_EXECUTE);
}

void remote_lookup(void *session, struct tw_adapter_call *call)
{
    fly(session, call, KIND_LOOKUP);
}

void remote_snapshot(void *session, struct tw_adapter_call *call)
{
    fly(session, call, KIND_SNAPSHOT);
}
