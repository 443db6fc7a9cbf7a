/* Asking a server, and the arithmetic of histograms. */
#include "facts.h"

#include <tradewake/cli/fields.h>
#include <tradewake/v1/copies.pb-c.h>
#include <tradewake/v1/followers.pb-c.h>
#include <tradewake/v1/metrics.pb-c.h>

#include <grpc/health/v1/health.pb-c.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define METRICS "/tradewake.v1.MetricsService/"

enum { PAGE = 1000, ENOUGH_COPIES = 30 }; /* of a master, to say anything of its clock */

/* ---- Arithmetic ---- */

static void mark(uint64_t *quantile_ns, uint64_t total, uint64_t share_percent, uint64_t seen,
                 uint64_t n, uint64_t upper_ns)
{
    uint64_t rank = (total * share_percent + 99) / 100;
    if (seen < rank && seen + n >= rank)
        *quantile_ns = upper_ns;
}

/* How many `before` has in the bucket of that bound; *at goes along, since both are sorted. */
static uint64_t had(const Tradewake__V1__Histogram *before, uint64_t upper_ns, size_t *at)
{
    if (before == NULL)
        return 0;
    while (*at < before->n_bucket_upper_ns && before->bucket_upper_ns[*at] < upper_ns)
        ++*at;
    bool is_there = *at < before->n_bucket_upper_ns && *at < before->n_bucket_count &&
                    before->bucket_upper_ns[*at] == upper_ns;
    return is_there ? before->bucket_count[*at] : 0;
}

struct figures figures_between(const Tradewake__V1__Histogram *before,
                               const Tradewake__V1__Histogram *now)
{
    struct figures figures = {0};
    if (now == NULL)
        return figures;
    if (before != NULL && before->count > now->count)
        before = NULL;
    figures.count = now->count - (before != NULL ? before->count : 0);
    uint64_t seen = 0;
    size_t at = 0;
    for (size_t i = 0; i < now->n_bucket_upper_ns && i < now->n_bucket_count; i++) {
        uint64_t upper_ns = now->bucket_upper_ns[i], old = had(before, upper_ns, &at);
        uint64_t n = now->bucket_count[i] > old ? now->bucket_count[i] - old : 0;
        if (n == 0)
            continue;
        if (upper_ns > now->max_ns)
            upper_ns = now->max_ns;
        mark(&figures.p50_ns, figures.count, 50, seen, n, upper_ns);
        mark(&figures.p95_ns, figures.count, 95, seen, n, upper_ns);
        mark(&figures.p99_ns, figures.count, 99, seen, n, upper_ns);
        figures.max_ns = upper_ns;
        seen += n;
    }
    return figures;
}

static const Tradewake__V1__SummaryGroup *only_group(const Tradewake__V1__OwnTimeSummary *summary)
{
    return summary != NULL && summary->n_groups > 0 ? summary->groups[0] : NULL;
}

struct times facts_span(const Tradewake__V1__OwnTimeSummary *before,
                        const Tradewake__V1__OwnTimeSummary *now)
{
    const Tradewake__V1__SummaryGroup none = TRADEWAKE__V1__SUMMARY_GROUP__INIT;
    const Tradewake__V1__SummaryGroup *old = only_group(before), *new = only_group(now);
    if (new == NULL)
        new = &none;
    bool is_same_life = old != NULL && old->own_time != NULL && new->own_time != NULL &&
                        old->own_time->count <= new->own_time->count && old->held <= new->held;
    if (!is_same_life)
        old = &none;
    return (struct times){
        .own = figures_between(old->own_time, new->own_time),
        .path = figures_between(old->path_time, new->path_time),
        .wait = figures_between(old->queue_wait, new->queue_wait),
        .broker = figures_between(old->broker_time, new->broker_time),
        .held = new->held - old->held,
    };
}

char *ns_text(uint64_t ns, char text[NS_TEXT_BYTES])
{
    static const struct {
        uint64_t below_ns, unit_ns;
        int digits;
        const char *unit;
    } scales[] = {{UINT64_C(1000000), 1000, 0, "us"},
                  {UINT64_C(10000000), 1000000, 2, "ms"},
                  {UINT64_C(1000000000), 1000000, 1, "ms"},
                  {UINT64_MAX, 1000000000, 2, "s"}};
    size_t i = 0;
    if (ns == 0) {
        snprintf(text, NS_TEXT_BYTES, "-");
        return text;
    }
    while (ns >= scales[i].below_ns && i + 1 < sizeof scales / sizeof scales[0])
        i++;
    uint64_t whole = ns / scales[i].unit_ns, rest = ns % scales[i].unit_ns;
    if (scales[i].digits == 0)
        snprintf(text, NS_TEXT_BYTES, "%" PRIu64 " %s", whole, scales[i].unit);
    else if (scales[i].digits == 1)
        snprintf(text, NS_TEXT_BYTES, "%" PRIu64 ".%" PRIu64 " %s", whole,
                 rest * 10 / scales[i].unit_ns, scales[i].unit);
    else
        snprintf(text, NS_TEXT_BYTES, "%" PRIu64 ".%02" PRIu64 " %s", whole,
                 rest * 100 / scales[i].unit_ns, scales[i].unit);
    return text;
}

/* ---- Asking ---- */

static tw_status ask(struct facts_question *question, const char *method,
                     const ProtobufCMessage *request, void *ret_response)
{
    ProtobufCMessage *response = NULL;
    question->answer = (struct tw_wire_answer){0};
    tw_status status =
        tw_wire_client_call(question->client, method, request, question->deadline_mono_ns,
                            question->arena, &response, &question->answer, &question->error);
    if (status == TW_OK)
        *(ProtobufCMessage **)ret_response = response;
    return status;
}

tw_status facts_read_executor(struct facts_question *question, struct facts *facts)
{
    Tradewake__V1__GetExecutorStatusRequest request =
        TRADEWAKE__V1__GET_EXECUTOR_STATUS_REQUEST__INIT;
    Grpc__Health__V1__HealthCheckRequest asked = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    const Tradewake__V1__ExecutorStatus *said;
    const Grpc__Health__V1__HealthCheckResponse *health;
    char readiness[] = "readiness";
    asked.service = readiness;
    tw_status status = ask(question, METRICS "GetExecutorStatus", &request.base, &said);
    if (status == TW_OK)
        status = ask(question, "/grpc.health.v1.Health/Check", &asked.base, &health);
    if (status != TW_OK)
        return status;
    facts->is_ready =
        health->status == GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
    facts->executor = (struct executor_facts){
        .threads = said->threads,
        .ready = said->threads_ready,
        .max = said->threads_max,
        .needed = said->threads_needed,
        .in_flight = said->calls_in_flight,
        .queued = said->calls_queued,
        .peak = said->peak_in_flight,
        .lost = said->threads_lost,
        .groups = said->groups,
        .created_late = said->threads_created_late,
        .completed = said->calls_completed,
        .resident_bytes = said->resident_bytes,
        .is_pinned = said->pinned,
        .is_realtime = said->realtime,
    };
    return TW_OK;
}

tw_status facts_read_times(struct facts_question *question, struct facts *facts,
                           const Tradewake__V1__OwnTimeSummary **ret_summary)
{
    Tradewake__V1__GetOwnTimeSummaryRequest request =
        TRADEWAKE__V1__GET_OWN_TIME_SUMMARY_REQUEST__INIT;
    tw_status status = ask(question, METRICS "GetOwnTimeSummary", &request.base, ret_summary);
    if (status != TW_OK)
        return status;
    facts->samples_lost = (*ret_summary)->samples_lost;
    facts->since_start = facts_span(NULL, *ret_summary);
    return TW_OK;
}

/* One more of a kind; the first of them is the one that is named. */
static void one_more(struct some *some, const char *follower_id, const char *words)
{
    if (some->count++ > 0)
        return;
    snprintf(some->follower_id, sizeof some->follower_id, "%.64s", follower_id);
    snprintf(some->words, sizeof some->words, "%.159s", words);
}

static void add_follower(struct fleet_facts *fleet, const Tradewake__V1__Follower *follower)
{
    char word[64];
    const char *id = follower->follower_id;
    fleet->followers++;
    if (!follower->connected)
        one_more(&fleet->away, id, follower->connection_message);
    if (follower->gate_tripped)
        one_more(&fleet->tripped, id, "");
    if (follower->stop_out != NULL)
        one_more(&fleet->stopped_out, id, follower->stop_out->measured);
    if (follower->drift_count > 0) {
        one_more(&fleet->drifting, id, "");
        fleet->drifts += follower->drift_count;
    }
    bool is_told_elsewhere = !follower->connected || follower->gate_tripped || follower->halted ||
                             follower->stop_out != NULL;
    if (follower->blocked_by != TRADEWAKE__V1__REASON__REASON_UNSPECIFIED && !is_told_elsewhere)
        one_more(&fleet->blocked, id,
                 tw_fields_enum(&tradewake__v1__reason__descriptor, (int32_t)follower->blocked_by,
                                true, word, sizeof word));
}

tw_status facts_read_fleet(struct facts_question *question, struct facts *facts)
{
    Tradewake__V1__ListFollowersRequest request = TRADEWAKE__V1__LIST_FOLLOWERS_REQUEST__INIT;
    Tradewake__V1__ListHaltsRequest which = TRADEWAKE__V1__LIST_HALTS_REQUEST__INIT;
    const Tradewake__V1__ListFollowersResponse *page;
    const Tradewake__V1__ListHaltsResponse *halts;
    struct fleet_facts fleet = {0};
    request.page_size = PAGE;
    do {
        tw_status status =
            ask(question, "/tradewake.v1.FollowerService/ListFollowers", &request.base, &page);
        if (status != TW_OK)
            return status;
        for (size_t i = 0; i < page->n_followers; i++)
            add_follower(&fleet, page->followers[i]);
        request.page_token = page->next_page_token;
    } while (page->next_page_token[0] != '\0');

    tw_status status =
        ask(question, "/tradewake.v1.FollowerService/ListHalts", &which.base, &halts);
    if (status != TW_OK)
        return status;
    fleet.halts = (uint32_t)halts->n_halts;
    for (size_t i = 0; i < halts->n_halts; i++)
        fleet.is_all_halted |= halts->halts[i]->everything != 0;
    facts->fleet = fleet;
    return TW_OK;
}

tw_status facts_read_masters(struct facts_question *question, struct facts *facts)
{
    Tradewake__V1__GetOwnTimeSummaryRequest request =
        TRADEWAKE__V1__GET_OWN_TIME_SUMMARY_REQUEST__INIT;
    const Tradewake__V1__OwnTimeSummary *summary;
    request.group_by = TRADEWAKE__V1__GROUP_BY__GROUP_BY_MASTER;
    tw_status status = ask(question, METRICS "GetOwnTimeSummary", &request.base, &summary);
    if (status != TW_OK)
        return status;
    for (size_t i = 0; i < summary->n_groups; i++) {
        const Tradewake__V1__SummaryGroup *group = summary->groups[i];
        struct figures own = figures_between(NULL, group->own_time);
        struct figures path = figures_between(NULL, group->path_time);
        uint64_t way_ns = path.p50_ns > own.p50_ns ? path.p50_ns - own.p50_ns : 0;
        if (own.count < ENOUGH_COPIES)
            continue;
        if (way_ns > facts->late_ns) {
            facts->late_ns = way_ns;
            snprintf(facts->late_master, FACTS_ID_BYTES, "%.64s", group->key);
        }
        bool is_instant =
            path.p50_ns == own.p50_ns && path.p99_ns == own.p99_ns && path.max_ns == own.max_ns;
        if (is_instant)
            snprintf(facts->instant_master, FACTS_ID_BYTES, "%.64s", group->key);
    }
    return TW_OK;
}

tw_status facts_read_unknown(struct facts_question *question, struct facts *facts)
{
    Tradewake__V1__CopyFilter filter = TRADEWAKE__V1__COPY_FILTER__INIT;
    Tradewake__V1__ListCopiesRequest request = TRADEWAKE__V1__LIST_COPIES_REQUEST__INIT;
    Tradewake__V1__CopyState states[] = {TRADEWAKE__V1__COPY_STATE__COPY_STATE_UNKNOWN};
    const Tradewake__V1__ListCopiesResponse *page;
    filter.states = states;
    filter.n_states = 1;
    request.filter = &filter;
    request.page_size = PAGE;
    tw_status status = ask(question, "/tradewake.v1.CopyService/ListCopies", &request.base, &page);
    if (status == TW_OK)
        facts->unknown = (uint32_t)page->n_copies;
    return status;
}
