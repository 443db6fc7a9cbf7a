/* follower_service.c - tradewake.v1.FollowerService: the engine's fleet, method by method. */
#include "audit.h"
#include "gate.h"
#include "services.h"

#include <tradewake/core/check.h>

#include <stdio.h>
#include <string.h>

#define REFUSAL(name) TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_##name

/* Answers with what the engine gave, or refuses. */
static void reply(struct tw_call *call, bool ok, const ProtobufCMessage *answer,
                  const struct tw_refusal *refusal)
{
    if (ok)
        tw_call_answer(call, answer);
    else
        tw_call_refuse(call, refusal);
}

/* The same for a change, with what there was before (NULL = nothing) and what there is now: the audit has it before the
 * caller does. */
static void reply_changed(struct tw_call *call, const ProtobufCMessage *request, const ProtobufCMessage *before,
                          const ProtobufCMessage *after, bool ok, const ProtobufCMessage *answer,
                          const struct tw_refusal *refusal)
{
    const struct tw_audited audited = {
        .request = request, .before = before, .after = ok ? after : NULL, .refusal = ok ? NULL : refusal};
    tw_audit_change(call, &audited);
    reply(call, ok, answer, refusal);
}

/* As they are now; NULL = there is none. */
static const ProtobufCMessage *follower_now(struct tw_call *call, const char *follower_id)
{
    struct tw_refusal ignored = {0};
    Tradewake__V1__Follower *follower = NULL;
    (void)tw_engine_follower_get(tw_services_engine(), follower_id, tw_call_arena(call), &follower, &ignored);
    return follower != NULL ? &follower->base : NULL;
}

static const ProtobufCMessage *subscription_now(struct tw_call *call, const char *subscription_id)
{
    struct tw_refusal ignored = {0};
    Tradewake__V1__Subscription *subscription = NULL;
    (void)tw_engine_subscription_get(tw_services_engine(), subscription_id, tw_call_arena(call), &subscription, &ignored);
    return subscription != NULL ? &subscription->base : NULL;
}

enum { HALTS_SHOWN_MAX = 4096 };

static const ProtobufCMessage *halt_now(struct tw_call *call, const char *follower_id, const char *master_id, bool everything)
{
    struct tw_arena *arena = tw_call_arena(call);
    Tradewake__V1__ActiveHalt **halts = tw_arena_zero(arena, HALTS_SHOWN_MAX * sizeof *halts);
    size_t n = halts != NULL ? tw_engine_halts_list(tw_services_engine(), arena, halts, HALTS_SHOWN_MAX) : 0;
    for (size_t i = 0; i < n; i++)
        if (halts[i]->everything == everything && strcmp(halts[i]->follower_id, follower_id) == 0 &&
            strcmp(halts[i]->master_id, master_id) == 0)
            return &halts[i]->base;
    return NULL;
}

static void refuse_large(struct tw_call *call)
{
    struct tw_refusal refusal = {0};
    tw_refuse(&refusal, REFUSAL(TOO_LARGE), NULL, "the answer takes more memory than one may");
    tw_call_refuse(call, &refusal);
}

/* Every method: (call, its request as Request *m). */
#define METHOD(function, Request)                                                                    \
    static void function(struct tw_call *call, const Tradewake__V1__##Request *m);                   \
    void tw_##function##_on_request(struct tw_call *call, const ProtobufCMessage *request,           \
                                    const struct tw_refusal *invalid)                                \
    {                                                                                                \
        (void)invalid;                                                                               \
        function(call, (const Tradewake__V1__##Request *)request);                                   \
    }                                                                                                \
    static void function(struct tw_call *call, const Tradewake__V1__##Request *m)

METHOD(create_follower, CreateFollowerRequest)
{
    struct tw_refusal refusal = {0};
    Tradewake__V1__Follower *answer = NULL;
    bool ok = tw_engine_follower_create(tw_services_engine(), m->follower, m->request_id,
                                        tw_call_arena(call), &answer, &refusal);
    const ProtobufCMessage *now = ok ? &answer->base : NULL;
    reply_changed(call, &m->base, NULL, now, ok, now, &refusal);
}

METHOD(get_follower, GetFollowerRequest)
{
    struct tw_refusal refusal = {0};
    Tradewake__V1__Follower *answer = NULL;
    bool ok = tw_engine_follower_get(tw_services_engine(), m->follower_id, tw_call_arena(call), &answer,
                                     &refusal);
    reply(call, ok, ok ? &answer->base : NULL, &refusal);
}

METHOD(update_follower, UpdateFollowerRequest)
{
    struct tw_refusal refusal = {0};
    const ProtobufCMessage *before = m->follower != NULL ? follower_now(call, m->follower->follower_id) : NULL;
    Tradewake__V1__Follower *answer = NULL;
    bool ok = tw_engine_follower_update(tw_services_engine(), m->follower,
                                        m->update_mask != NULL ? m->update_mask->paths : NULL,
                                        m->update_mask != NULL ? m->update_mask->n_paths : 0,
                                        tw_call_arena(call), &answer, &refusal);
    const ProtobufCMessage *now = ok ? &answer->base : NULL;
    reply_changed(call, &m->base, before, now, ok, now, &refusal);
}

METHOD(delete_follower, DeleteFollowerRequest)
{
    struct tw_refusal refusal = {0};
    const ProtobufCMessage *before = follower_now(call, m->follower_id);
    Tradewake__V1__DeleteFollowerResponse answer;
    tradewake__v1__delete_follower_response__init(&answer);
    bool ok = tw_engine_follower_delete(tw_services_engine(), m->follower_id, m->on_open,
                                        &answer.closing, &refusal);
    reply_changed(call, &m->base, before, NULL, ok, &answer.base, &refusal);
}

METHOD(list_followers, ListFollowersRequest)
{
    struct tw_arena *arena = tw_call_arena(call);
    struct tw_refusal refusal = {0};
    char filter[128], after[81];
    uint32_t size = tw_page_size(m->page_size);
    Tradewake__V1__ListFollowersResponse answer;
    tradewake__v1__list_followers_response__init(&answer);
    snprintf(filter, sizeof filter, "followers/%.64s/%d", m->master_id, m->blocked);
    if (!tw_page_place(m->page_token, filter, after, &refusal)) {
        tw_call_refuse(call, &refusal);
        return;
    }
    answer.followers = tw_arena_zero(arena, size * sizeof(Tradewake__V1__Follower *));
    if (answer.followers == NULL) {
        refuse_large(call);
        return;
    }
    answer.n_followers = tw_engine_followers_list(tw_services_engine(), after, m->master_id, m->blocked,
                                                  arena, answer.followers, size);
    if (answer.n_followers == size)
        answer.next_page_token = tw_page_token(arena, filter, answer.followers[size - 1]->follower_id);
    tw_call_answer(call, &answer.base);
}

METHOD(create_subscription, CreateSubscriptionRequest)
{
    struct tw_refusal refusal = {0};
    Tradewake__V1__Subscription *answer = NULL;
    bool ok = tw_engine_subscription_create(tw_services_engine(), m->subscription, m->request_id,
                                            tw_call_arena(call), &answer, &refusal);
    const ProtobufCMessage *now = ok ? &answer->base : NULL;
    reply_changed(call, &m->base, NULL, now, ok, now, &refusal);
}

METHOD(get_subscription, GetSubscriptionRequest)
{
    struct tw_refusal refusal = {0};
    Tradewake__V1__Subscription *answer = NULL;
    bool ok = tw_engine_subscription_get(tw_services_engine(), m->subscription_id, tw_call_arena(call),
                                         &answer, &refusal);
    if (ok && !tw_gate_finds(call, &m->base, answer->master_id, answer->follower_id))
        ok = tw_refuse(&refusal, REFUSAL(NOT_FOUND), "subscription_id", "there is no subscription \"%.64s\"",
                       m->subscription_id);
    reply(call, ok, ok ? &answer->base : NULL, &refusal);
}

METHOD(update_subscription, UpdateSubscriptionRequest)
{
    struct tw_refusal refusal = {0};
    const ProtobufCMessage *before =
        m->subscription != NULL ? subscription_now(call, m->subscription->subscription_id) : NULL;
    Tradewake__V1__Subscription *answer = NULL;
    bool ok = tw_engine_subscription_update(tw_services_engine(), m->subscription,
                                            m->update_mask != NULL ? m->update_mask->paths : NULL,
                                            m->update_mask != NULL ? m->update_mask->n_paths : 0,
                                            tw_call_arena(call), &answer, &refusal);
    const ProtobufCMessage *now = ok ? &answer->base : NULL;
    reply_changed(call, &m->base, before, now, ok, now, &refusal);
}

METHOD(delete_subscription, DeleteSubscriptionRequest)
{
    struct tw_refusal refusal = {0};
    const ProtobufCMessage *before = subscription_now(call, m->subscription_id);
    Tradewake__V1__DeleteSubscriptionResponse answer;
    tradewake__v1__delete_subscription_response__init(&answer);
    bool ok = tw_engine_subscription_delete(tw_services_engine(), m->subscription_id, m->on_open,
                                            &answer.closing, &refusal);
    reply_changed(call, &m->base, before, NULL, ok, &answer.base, &refusal);
}

METHOD(list_subscriptions, ListSubscriptionsRequest)
{
    struct tw_arena *arena = tw_call_arena(call);
    struct tw_refusal refusal = {0};
    char filter[160], after[81];
    uint32_t size = tw_page_size(m->page_size);
    Tradewake__V1__ListSubscriptionsResponse answer;
    tradewake__v1__list_subscriptions_response__init(&answer);
    snprintf(filter, sizeof filter, "subscriptions/%.64s/%.64s", m->master_id, m->follower_id);
    if (!tw_page_place(m->page_token, filter, after, &refusal)) {
        tw_call_refuse(call, &refusal);
        return;
    }
    answer.subscriptions = tw_arena_zero(arena, size * sizeof(Tradewake__V1__Subscription *));
    if (answer.subscriptions == NULL) {
        refuse_large(call);
        return;
    }
    answer.n_subscriptions =
        tw_engine_subscriptions_list(tw_services_engine(), after, m->master_id, m->follower_id, arena,
                                     answer.subscriptions, size);
    if (answer.n_subscriptions == size)
        answer.next_page_token =
            tw_page_token(arena, filter, answer.subscriptions[size - 1]->subscription_id);
    tw_call_answer(call, &answer.base);
}

METHOD(halt, HaltRequest)
{
    struct tw_refusal refusal = {0};
    Tradewake__V1__HaltResponse answer;
    const ProtobufCMessage *before = halt_now(call, m->follower_id, m->master_id, m->everything);
    bool ok = tw_engine_halt(tw_services_engine(), m, tw_gate_caller_name(call), tw_call_arena(call), &answer, &refusal);
    reply_changed(call, &m->base, before, halt_now(call, m->follower_id, m->master_id, m->everything), ok, &answer.base, &refusal);
}

METHOD(resume, ResumeRequest)
{
    struct tw_refusal refusal = {0};
    Tradewake__V1__ResumeResponse answer;
    tradewake__v1__resume_response__init(&answer);
    const ProtobufCMessage *before = halt_now(call, m->follower_id, m->master_id, m->everything);
    bool ok = tw_engine_resume(tw_services_engine(), m, &refusal);
    reply_changed(call, &m->base, before, NULL, ok, &answer.base, &refusal);
}

METHOD(rearm_gate, RearmGateRequest)
{
    struct tw_refusal refusal = {0};
    const ProtobufCMessage *before = follower_now(call, m->follower_id);
    Tradewake__V1__Follower *answer = NULL;
    bool ok = tw_engine_gate_rearm(tw_services_engine(), m->follower_id, tw_call_arena(call), &answer, &refusal);
    const ProtobufCMessage *now = ok ? &answer->base : NULL;
    reply_changed(call, &m->base, before, now, ok, now, &refusal);
}

METHOD(reset_stop_out, ResetStopOutRequest)
{
    struct tw_refusal refusal = {0};
    const ProtobufCMessage *before = follower_now(call, m->follower_id);
    Tradewake__V1__Follower *answer = NULL;
    bool ok = tw_engine_stop_out_reset(tw_services_engine(), m->follower_id, tw_call_arena(call), &answer,
                                       &refusal);
    const ProtobufCMessage *now = ok ? &answer->base : NULL;
    reply_changed(call, &m->base, before, now, ok, now, &refusal);
}

METHOD(list_halts, ListHaltsRequest)
{
    (void)m;
    struct tw_arena *arena = tw_call_arena(call);
    Tradewake__V1__ListHaltsResponse answer;
    tradewake__v1__list_halts_response__init(&answer);
    answer.halts = tw_arena_zero(arena, HALTS_SHOWN_MAX * sizeof(Tradewake__V1__ActiveHalt *));
    if (answer.halts == NULL) {
        refuse_large(call);
        return;
    }
    answer.n_halts = tw_engine_halts_list(tw_services_engine(), arena, answer.halts, HALTS_SHOWN_MAX);
    tw_call_answer(call, &answer.base);
}
