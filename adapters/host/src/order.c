/* order.c - orders and questions: read on the wire's thread, asked of the adapter on a worker, answered on the wire's. */
#include "host.h"
#include "translate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_NS (5 * TW_NS_PER_S) /* so long may a call take whose caller says nothing else */

enum kind { KIND_EXECUTE, KIND_LOOKUP, KIND_SNAPSHOT, KIND_CHECK };

/* One call of the wire's. Two hold it: the wire until on_finished(), and whoever works on it. */
struct errand {
    struct tw_job job; /* first */
    struct tw_adapter_call call;
    struct guest *guest; /* NULL: of none */
    enum kind kind;
    struct memo *memo; /* KIND_EXECUTE */
    struct tw_call *wire;
    atomic_int refs;

    /* Written before is_done, read after it. */
    struct tw_ack ack;
    uint64_t sequence; /* KIND_SNAPSHOT: of the last update that is in it for certain */
    struct tw_snapshot snapshot;
    char key[65];
    struct tw_error error;
    tw_status status;
    bool is_repeat, is_authoritative;
    atomic_bool is_done;

    /* KIND_CHECK: texts are the request's, which lives as long as the wire's call is held. */
    struct tw_adapter_setting *settings;
    size_t n_settings;
    const char *credentials_ref;
};

static void errand_drop(struct errand *errand)
{
    if (atomic_fetch_sub(&errand->refs, 1) > 1)
        return;
    tw_snapshot_clear(&errand->snapshot);
    tw_call_unref(errand->wire);
    if (errand->guest != NULL)
        guest_drop(errand->guest);
    free(errand);
}

/* What there is to say is there. Thread: any. */
static void errand_tell(struct errand *errand)
{
    atomic_store(&errand->is_done, true);
    tw_call_post(errand->wire);
}

static struct tw_ack ack_of(enum tw_outcome outcome, tw_reason reason, bool is_not_sent, const char *words)
{
    struct tw_ack ack = {.outcome = outcome, .reason = reason, .not_sent = is_not_sent, .remaining_volume = TW_DECIMAL_UNSET};
    snprintf(ack.broker_message, sizeof ack.broker_message, "%s", words);
    return ack;
}

/* ---- Memory. ---- */

/* What the adapter said of an order, also when it said it late. What never left is as if it had not been asked. */
static void memo_take(struct errand *errand, const struct tw_ack *ack)
{
    struct guest *guest = errand->guest;
    if (errand->memo == NULL)
        return;
    pthread_mutex_lock(&guest->lock);
    errand->memo->is_out = false;
    errand->memo->ack = *ack;
    if (ack->not_sent)
        memory_remove(&guest->memory, errand->memo);
    pthread_mutex_unlock(&guest->lock);
    errand->memo = NULL;
}

/* True: it was given before; *ret is what is known of it. */
static bool memo_repeat(struct guest *guest, const struct tw_order *order, struct tw_ack *ret)
{
    const struct memo *memo = memory_find(&guest->memory, order->client_order_id, order->attempt);
    if (memo == NULL)
        return false;
    *ret = memo->is_out ? ack_of(TW_OUTCOME_AMBIGUOUS, REASON(UNSPECIFIED), false, "it is on its way") : memo->ack;
    return true;
}

/* A question about an order that was given here. True: it is on its way, and nobody can say: however late it is, while the
 * adapter has it it may still go out, so that "not found" proves nothing. What never comes back ends with the process
 * (tw_host_is_worn()). */
static bool memo_is_out(struct guest *guest, const char *client_order_id)
{
    pthread_mutex_lock(&guest->lock);
    bool is_out = memory_is_out(&guest->memory, client_order_id);
    pthread_mutex_unlock(&guest->lock);
    return is_out;
}

/* Where the adapter cannot find what it has itself told of, what it told stands. */
static void memo_add(struct guest *guest, const char *client_order_id, struct tw_ack *ack)
{
    if (ack->outcome != TW_OUTCOME_AMBIGUOUS && ack->outcome != TW_OUTCOME_NOT_FOUND)
        return;
    pthread_mutex_lock(&guest->lock);
    const struct memo *memo = memory_find_latest(&guest->memory, client_order_id);
    bool is_told = memo != NULL && !memo->is_out && memo->op != TW_OP_PLACE &&
                   (memo->ack.outcome == TW_OUTCOME_DONE || memo->ack.outcome == TW_OUTCOME_PARTIAL);
    if (is_told)
        *ack = memo->ack;
    pthread_mutex_unlock(&guest->lock);
}

/* ---- On a worker. ---- */

static void check_run(struct errand *errand)
{
    struct tw_host *host = host_here;
    const struct tw_session_options options = {
        .follower_id = "check",
        .adapter = host->options.adapter_name,
        .settings = errand->settings,
        .n_settings = errand->n_settings,
        .credentials_ref = errand->credentials_ref,
    };
    struct tw_error error = {{0}};
    char key[65] = "";
    tw_status status = host->options.ops->check(host->options.adapter, &options, key, &error);
    errand->status = status;
    errand->error = error;
    memcpy(errand->key, key, sizeof key);
}

static void adapter_ask(struct errand *errand)
{
    const struct tw_adapter_ops *ops = host_here->options.ops;
    switch (errand->kind) {
    case KIND_EXECUTE:
        ops->execute(errand->guest->session, &errand->call);
        break;
    case KIND_LOOKUP:
        ops->lookup(errand->guest->session, &errand->call);
        break;
    case KIND_SNAPSHOT:
        ops->snapshot(errand->guest->session, &errand->call);
        break;
    case KIND_CHECK:
        check_run(errand);
        break;
    }
}

/* In time: what the adapter said is the answer. */
static void errand_answer(struct errand *errand)
{
    errand->ack = errand->call.ack;
    if (errand->kind == KIND_LOOKUP) {
        memo_add(errand->guest, errand->call.order.client_order_id, &errand->ack);
        errand->is_authoritative = errand->ack.outcome != TW_OUTCOME_AMBIGUOUS;
    }
    errand_tell(errand);
}

static void on_run(struct tw_job *job)
{
    struct errand *errand = (struct errand *)(void *)job;
    struct tw_lane *lane = job->lane;
    tw_job_call_begin(job, errand->call.deadline_mono_ns);
    adapter_ask(errand);
    bool is_in_time = tw_job_call_end(job);
    memo_take(errand, &errand->call.ack);
    if (is_in_time) {
        tw_job_finish(job, TW_JOB_DONE);
        errand_answer(errand);
    } else {
        tw_lane_lost_call_end(lane);
    }
    errand_drop(errand);
}

/* The call is past its time: whoever asked is told so, and it goes on alone. */
static void on_lost(struct tw_job *job)
{
    struct errand *errand = (struct errand *)(void *)job;
    tw_job_finish(job, TW_JOB_DONE);
    errand->ack = ack_of(TW_OUTCOME_AMBIGUOUS, REASON(TIMEOUT), false, "the call does not come back");
    errand_tell(errand);
}

static void on_cancelled(struct tw_job *job)
{
    struct errand *errand = (struct errand *)(void *)job;
    errand->ack = ack_of(TW_OUTCOME_RETRY_LATER, REASON(NO_CONNECTION), true, "the host ends");
    memo_take(errand, &errand->ack);
    errand_tell(errand);
    errand_drop(errand);
}

/* ---- On the wire's thread. ---- */

static void execute_answer(struct errand *errand)
{
    struct answer_message answer;
    bool is_netting = errand->guest != NULL && errand->guest->can.netting;
    host_answer_fill(&errand->ack, &errand->call.order, is_netting, &answer);
    answer.response.repeated_answer = errand->is_repeat;
    tw_call_answer(errand->wire, &answer.response.base);
}

static void lookup_answer(struct errand *errand)
{
    struct answer_message answer;
    Google__Protobuf__Timestamp as_of;
    Tradewake__Adapter__V1__LookupResponse response;
    host_answer_fill(&errand->ack, NULL, false, &answer);
    tradewake__adapter__v1__lookup_response__init(&response);
    host_timestamp_fill(tw_wall_ns(), &as_of);
    response.last = &answer.response;
    response.as_of = &as_of;
    response.authoritative = errand->is_authoritative;
    tw_call_answer(errand->wire, &response.base);
}

static void check_answer(struct errand *errand)
{
    Tradewake__Adapter__V1__CheckConfigResponse response;
    tradewake__adapter__v1__check_config_response__init(&response);
    bool is_known = errand->ack.outcome == TW_OUTCOME_DONE;
    response.key = errand->key;
    response.words = is_known ? errand->error.text : errand->ack.broker_message;
    response.verdict = !is_known                  ? TRADEWAKE__ADAPTER__V1__CONFIG_VERDICT__CONFIG_VERDICT_UNSPECIFIED
                       : errand->status == TW_OK ? TRADEWAKE__ADAPTER__V1__CONFIG_VERDICT__CONFIG_VERDICT_GOOD
                                                 : TRADEWAKE__ADAPTER__V1__CONFIG_VERDICT__CONFIG_VERDICT_WRONG;
    tw_call_answer(errand->wire, &response.base);
}

static void refuse(struct tw_call *call, Tradewake__V1__ErrorReason reason, const char *words)
{
    struct tw_refusal refusal;
    tw_refuse(&refusal, reason, NULL, "%s", words);
    tw_call_refuse(call, &refusal);
}

/* The messages of a picture, in one block. */
struct picture {
    struct position_message *positions;
    struct working_message *orders;
    Tradewake__Adapter__V1__Position **position_list;
    Tradewake__Adapter__V1__WorkingOrder **order_list;
};

static bool picture_fill(struct errand *errand, struct picture *ret, Tradewake__Adapter__V1__SnapshotResponse *response)
{
    const struct tw_snapshot *snapshot = &errand->snapshot;
    struct tw_arena *arena = tw_call_arena(errand->wire);
    *ret = (struct picture){
        .positions = tw_arena_take(arena, (snapshot->n_positions + 1) * sizeof *ret->positions),
        .orders = tw_arena_take(arena, (snapshot->n_orders + 1) * sizeof *ret->orders),
        .position_list = tw_arena_take(arena, (snapshot->n_positions + 1) * sizeof *ret->position_list),
        .order_list = tw_arena_take(arena, (snapshot->n_orders + 1) * sizeof *ret->order_list),
    };
    if (ret->positions == NULL || ret->orders == NULL || ret->position_list == NULL || ret->order_list == NULL)
        return false;
    for (size_t i = 0; i < snapshot->n_positions; i++) {
        host_position_fill(&snapshot->positions[i], &ret->positions[i]);
        ret->position_list[i] = &ret->positions[i].position;
    }
    for (size_t i = 0; i < snapshot->n_orders; i++) {
        host_working_fill(&snapshot->orders[i], &ret->orders[i]);
        ret->order_list[i] = &ret->orders[i].order;
    }
    response->positions = ret->position_list;
    response->n_positions = response->position_count = (uint32_t)snapshot->n_positions;
    response->orders = ret->order_list;
    response->n_orders = response->order_count = (uint32_t)snapshot->n_orders;
    return true;
}

static void snapshot_answer(struct errand *errand)
{
    char epoch[TOKEN_BYTES];
    struct picture picture;
    struct account_message account;
    Google__Protobuf__Timestamp as_of;
    Tradewake__Adapter__V1__SnapshotResponse response;
    tradewake__adapter__v1__snapshot_response__init(&response);
    if (errand->ack.outcome != TW_OUTCOME_DONE || !errand->snapshot.complete) {
        refuse(errand->wire, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_OVERLOADED,
               errand->ack.broker_message[0] != '\0' ? errand->ack.broker_message : "there is no whole picture");
        return;
    }
    guest_id_text(errand->guest, epoch);
    host_account_fill(&errand->snapshot.account, &account);
    host_timestamp_fill(errand->snapshot.as_of_wall_ns, &as_of);
    response.epoch = epoch;
    response.sequence = errand->sequence;
    response.account = &account.state;
    response.as_of = &as_of;
    if (picture_fill(errand, &picture, &response))
        tw_call_answer(errand->wire, &response.base);
    else
        refuse(errand->wire, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_OVERLOADED, "no memory for the picture");
}

static void (*const answers[])(struct errand *errand) = {
    [KIND_EXECUTE] = execute_answer,
    [KIND_LOOKUP] = lookup_answer,
    [KIND_SNAPSHOT] = snapshot_answer,
    [KIND_CHECK] = check_answer,
};

/* NULL: answered already. Takes over the caller's hold of the guest; NULL = of none. */
static struct errand *errand_new(struct tw_call *call, enum kind kind, struct guest *guest)
{
    struct errand *errand = calloc(1, sizeof *errand);
    if (errand == NULL) {
        refuse(call, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_OVERLOADED, "no memory for a call");
        return NULL;
    }
    errand->kind = kind;
    errand->wire = tw_call_ref(call);
    errand->guest = guest;
    errand->call.ack.remaining_volume = TW_DECIMAL_UNSET;
    errand->call.snapshot = &errand->snapshot;
    atomic_init(&errand->refs, 1);
    tw_call_data_set(call, errand);
    int64_t deadline_mono_ns = tw_call_deadline_mono_ns(call);
    errand->call.deadline_mono_ns = deadline_mono_ns != INT64_MAX ? deadline_mono_ns : tw_mono_ns() + LOOK_NS;
    return errand;
}

static void errand_send(struct errand *errand, struct tw_lane *lane, enum tw_job_class job_class)
{
    errand->job = (struct tw_job){.run = on_run, .cancelled = on_cancelled, .lost = on_lost, .lane = lane, .job_class = job_class};
    atomic_fetch_add(&errand->refs, 1);
    struct tw_job *job = &errand->job;
    tw_executor_submit(host_here->executor, &job, 1);
}

/* Answered without a worker. */
static void errand_say(struct errand *errand, struct tw_ack ack)
{
    errand->ack = ack;
    answers[errand->kind](errand);
}

void on_order_post(struct tw_call *call)
{
    struct errand *errand = tw_call_data(call);
    if (errand != NULL && atomic_load(&errand->is_done))
        answers[errand->kind](errand);
}

void on_order_finished(struct tw_call *call, bool cancelled)
{
    struct errand *errand = tw_call_data(call);
    (void)cancelled;
    if (errand == NULL)
        return;
    tw_call_data_set(call, NULL);
    errand_drop(errand);
}

/* ---- Execute. ---- */

/* The memo of a new order; a repeat, or a refusal, in *ret otherwise. */
static struct memo *order_begin(struct guest *guest, const struct tw_order *order, int64_t limit_mono_ns, bool *ret_is_repeat,
                                struct tw_ack *ret)
{
    struct memo *memo = NULL;
    pthread_mutex_lock(&guest->lock);
    *ret_is_repeat = memo_repeat(guest, order, ret);
    if (!*ret_is_repeat) {
        memo = memory_begin(&guest->memory, order, limit_mono_ns);
        *ret = ack_of(TW_OUTCOME_RETRY_LATER, REASON(BUSY), true, "no memory for a call");
    }
    pthread_mutex_unlock(&guest->lock);
    return memo;
}

void on_execute(struct tw_call *call, const ProtobufCMessage *message, const struct tw_refusal *invalid)
{
    const Tradewake__Adapter__V1__ExecuteRequest *request = (const void *)message;
    struct guest *guest = guest_of(host_here, request->session_id);
    struct errand *errand = errand_new(call, KIND_EXECUTE, guest);
    struct tw_ack ack;
    (void)invalid;
    if (errand == NULL) {
        if (guest != NULL)
            guest_drop(guest);
        return;
    }
    int64_t now = tw_mono_ns(), deadline = host_deadline_mono_ns(request, tw_wall_ns(), now);
    if (guest == NULL) {
        errand_say(errand, ack_of(TW_OUTCOME_RETRY_LATER, REASON(NO_CONNECTION), true, "no such session: OpenSession first"));
        return;
    }
    if (deadline <= now) {
        errand_say(errand, ack_of(TW_OUTCOME_REJECTED, REASON(TIMEOUT), true, "the deadline had passed"));
        return;
    }
    if (!host_order_from_request(request, guest->can.netting, &errand->call.order)) {
        errand_say(errand, ack_of(TW_OUTCOME_REJECTED, REASON(BROKER_OTHER), true, "it is no order: a text or a number of it is none"));
        return;
    }
    if (deadline < errand->call.deadline_mono_ns)
        errand->call.deadline_mono_ns = deadline;
    errand->memo = order_begin(guest, &errand->call.order, errand->call.deadline_mono_ns, &errand->is_repeat, &ack);
    if (errand->memo == NULL) {
        errand_say(errand, ack);
        return;
    }
    enum tw_order_op op = errand->call.order.op;
    errand_send(errand, guest->lane, op == TW_OP_CLOSE || op == TW_OP_CANCEL ? TW_JOB_URGENT : TW_JOB_NORMAL);
}

/* ---- Questions. ---- */

static struct errand *question_new(struct tw_call *call, enum kind kind, const char *session_id)
{
    struct guest *guest = guest_of(host_here, session_id);
    if (guest == NULL) {
        refuse(call, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_NOT_FOUND, "no such session: OpenSession first");
        return NULL;
    }
    struct errand *errand = errand_new(call, kind, guest);
    if (errand == NULL)
        guest_drop(guest);
    return errand;
}

void on_lookup(struct tw_call *call, const ProtobufCMessage *message, const struct tw_refusal *invalid)
{
    const Tradewake__Adapter__V1__LookupRequest *request = (const void *)message;
    struct errand *errand = question_new(call, KIND_LOOKUP, request->session_id);
    (void)invalid;
    if (errand == NULL)
        return;
    struct tw_order *order = &errand->call.order;
    *order = (struct tw_order){.op = TW_OP_OPEN, .volume = TW_DECIMAL_UNSET, .price = TW_DECIMAL_UNSET,
                               .stop_price = TW_DECIMAL_UNSET, .stop_loss = TW_DECIMAL_UNSET, .take_profit = TW_DECIMAL_UNSET};
    size_t id = strlen(request->client_order_id), symbol = strlen(request->symbol);
    bool fits = id > 0 && id < sizeof order->client_order_id && symbol < sizeof order->symbol;
    if (!fits) {
        errand_say(errand, ack_of(TW_OUTCOME_AMBIGUOUS, REASON(UNSPECIFIED), false, "it is no id of ours"));
        return;
    }
    memcpy(order->client_order_id, request->client_order_id, id + 1);
    memcpy(order->symbol, request->symbol, symbol + 1);
    if (memo_is_out(errand->guest, order->client_order_id))
        errand_say(errand, ack_of(TW_OUTCOME_AMBIGUOUS, REASON(UNSPECIFIED), false, "it is on its way"));
    else
        errand_send(errand, errand->guest->lane, TW_JOB_NORMAL);
}

void on_snapshot(struct tw_call *call, const ProtobufCMessage *message, const struct tw_refusal *invalid)
{
    const Tradewake__Adapter__V1__SnapshotRequest *request = (const void *)message;
    struct errand *errand = question_new(call, KIND_SNAPSHOT, request->session_id);
    (void)invalid;
    if (errand == NULL)
        return;
    pthread_mutex_lock(&errand->guest->lock);
    errand->sequence = errand->guest->sequence; /* what comes from now on may be in it, and comes all the same */
    pthread_mutex_unlock(&errand->guest->lock);
    errand_send(errand, errand->guest->lane, TW_JOB_NORMAL);
}

void on_check_config(struct tw_call *call, const ProtobufCMessage *message, const struct tw_refusal *invalid)
{
    const Tradewake__Adapter__V1__CheckConfigRequest *request = (const void *)message;
    struct errand *errand = errand_new(call, KIND_CHECK, NULL);
    (void)invalid;
    if (errand == NULL)
        return;
    errand->settings = tw_arena_take(tw_call_arena(call), (request->n_config + 1) * sizeof *errand->settings);
    if (errand->settings == NULL) {
        errand_say(errand, ack_of(TW_OUTCOME_AMBIGUOUS, REASON(UNSPECIFIED), false, "no memory for the question"));
        return;
    }
    for (size_t i = 0; i < request->n_config; i++)
        errand->settings[i] = (struct tw_adapter_setting){request->config[i]->key, request->config[i]->value};
    errand->n_settings = request->n_config;
    errand->credentials_ref = request->credentials_ref;
    errand->call.ack.outcome = TW_OUTCOME_DONE; /* it is asked, and will have been */
    errand_send(errand, host_here->questions, TW_JOB_NORMAL);
}
