/* copy_service.c - tradewake.v1.CopyService. */
#include "audit.h"
#include "gate.h"
#include "readers.h"
#include "services.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/limits.h>
#include <tradewake/core/check.h>

#include <google/protobuf/timestamp.pb-c.h>

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFUSAL(name) TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_##name

static void refuse_large(struct tw_call *call)
{
    struct tw_refusal refusal = {0};
    tw_refuse(&refusal, REFUSAL(TOO_LARGE), NULL, "the answer takes more memory than one may");
    tw_call_refuse(call, &refusal);
}

/* ---- Filters ---- */

static bool check_enums(const char *field, const int *values, size_t n,
                        const ProtobufCEnumDescriptor *descriptor, struct tw_refusal *refusal)
{
    const struct tw_check check = {"filter.", refusal};
    for (size_t i = 0; i < n; i++) {
        char path[48];
        snprintf(path, sizeof path, "%s[%zu]", field, i);
        if (!tw_check_enum(&check, path, values[i], descriptor))
            return false;
    }
    return true;
}

/* Points into the message. */
static bool filter_read(const Tradewake__V1__CopyFilter *m, struct tw_copy_filter *ret,
                        struct tw_refusal *refusal)
{
    *ret = (struct tw_copy_filter){.master_id = "", .follower_id = "", .event_id = "", .subject_id = "",
                                   .received_from_wall_ns = INT64_MIN,
                                   .received_until_wall_ns = INT64_MAX};
    if (m == NULL)
        return true;
    const struct tw_check check = {"filter.", refusal};
    ret->master_id = m->master_id;
    ret->follower_id = m->follower_id;
    ret->event_id = m->event_id;
    ret->subject_id = m->master_position_id;
    ret->states = m->states;
    ret->n_states = m->n_states;
    ret->reasons = m->reasons;
    ret->n_reasons = m->n_reasons;
    ret->actions = m->actions;
    ret->n_actions = m->n_actions;
    return check_enums("states", (const int *)m->states, m->n_states,
                       &tradewake__v1__copy_state__descriptor, refusal) &&
           check_enums("reasons", (const int *)m->reasons, m->n_reasons,
                       &tradewake__v1__reason__descriptor, refusal) &&
           check_enums("actions", (const int *)m->actions, m->n_actions,
                       &tradewake__v1__copy_action__descriptor, refusal) &&
           tw_check_timestamp(&check, "received_from", m->received_from, &ret->received_from_wall_ns) &&
           tw_check_timestamp(&check, "received_until", m->received_until, &ret->received_until_wall_ns);
}

/* Any text that differs when the filter does. In arena; NULL: no memory. */
static char *filter_words(const Tradewake__V1__CopyFilter *m, bool slowest_first, struct tw_arena *arena)
{
    size_t size = m != NULL ? tradewake__v1__copy_filter__get_packed_size(m) : 0;
    uint8_t *packed = tw_arena_take(arena, size + 1);
    char *words = tw_arena_zero(arena, 2 * size + 16);
    if (packed == NULL || words == NULL)
        return NULL;
    if (m != NULL)
        tradewake__v1__copy_filter__pack(m, packed);
    int used = snprintf(words, 16, "copies%d", slowest_first);
    for (size_t i = 0; i < size; i++)
        snprintf(words + used + 2 * i, 3, "%02x", packed[i]);
    return words;
}

static bool catch_up(struct tw_refusal *refusal)
{
    if (tw_engine_catch_up(tw_services_engine()))
        return true;
    tw_refuse(refusal, REFUSAL(HISTORY_BEHIND), NULL, "the history has not caught up yet");
    refusal->retry_after_ns = TW_NS_PER_S;
    return false;
}

/* A question that the history answers: the call's own thread goes on when it has. */
static void past_done(struct tw_past *past)
{
    struct tw_call *call = past->context;
    tw_call_post(call);
    tw_call_unref(call);
}

static void past_ask(struct tw_call *call, struct tw_past *past)
{
    past->arena = tw_call_arena(call);
    past->done = past_done;
    past->context = call;
    tw_call_ref(call);
    tw_engine_past_ask(tw_services_engine(), past);
}

static void refuse_behind(struct tw_call *call)
{
    struct tw_refusal refusal;
    tw_refuse(&refusal, REFUSAL(HISTORY_BEHIND), NULL, "the history has not caught up yet");
    refusal.retry_after_ns = TW_NS_PER_S;
    tw_call_refuse(call, &refusal);
}

/* ---- GetCopy ---- */

static void refuse_unknown(struct tw_call *call, const char *copy_id)
{
    struct tw_refusal refusal = {0};
    tw_refuse(&refusal, REFUSAL(NOT_FOUND), "copy_id", "there is no copy \"%.64s\"", copy_id);
    tw_call_refuse(call, &refusal);
}

/* Not in memory: perhaps in the history. */
static void get_past_copy(struct tw_call *call, const char *copy_id)
{
    struct tw_past *past = tw_arena_zero(tw_call_arena(call), sizeof *past);
    if (past == NULL) {
        refuse_large(call);
        return;
    }
    past->kind = TW_PAST_COPY;
    past->copy_id = copy_id;
    tw_call_data_set(call, past);
    past_ask(call, past);
}

void tw_get_copy_on_request(struct tw_call *call, const ProtobufCMessage *request,
                            const struct tw_refusal *invalid)
{
    (void)invalid;
    const Tradewake__V1__GetCopyRequest *m = (const Tradewake__V1__GetCopyRequest *)request;
    struct tw_refusal refusal = {0};
    struct tw_record *record = NULL;
    if (!catch_up(&refusal)) {
        tw_call_refuse(call, &refusal);
        return;
    }
    struct tw_copy *copy = tw_engine_copy_find(tw_services_engine(), m->copy_id, &record);
    if (copy == NULL) {
        if (tw_engine_past_number(tw_services_engine()) > 0)
            get_past_copy(call, m->copy_id);
        else
            refuse_unknown(call, m->copy_id);
        return;
    }
    Tradewake__V1__Copy *answer = tw_copy_message(copy, tw_call_arena(call));
    tw_record_release(record);
    if (answer != NULL && !tw_gate_finds(call, request, answer->master_id, answer->follower_id)) {
        refuse_unknown(call, m->copy_id);
        return;
    }
    if (answer != NULL)
        tw_call_answer(call, &answer->base);
    else
        refuse_large(call);
}

void tw_get_copy_on_past(struct tw_call *call)
{
    const struct tw_past *past = tw_call_data(call);
    if (past->is_behind)
        refuse_behind(call);
    else if (past->n == 0 || !tw_gate_finds(call, &past->copies[0]->base, past->copies[0]->master_id,
                                              past->copies[0]->follower_id))
        refuse_unknown(call, past->copy_id);
    else
        tw_call_answer(call, &past->copies[0]->base);
}

/* ---- ResolveCopy ---- */

void tw_resolve_copy_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                const struct tw_refusal *invalid)
{
    (void)invalid;
    const Tradewake__V1__ResolveCopyRequest *m = (const Tradewake__V1__ResolveCopyRequest *)request;
    struct tw_engine *engine = tw_services_engine();
    struct tw_refusal refusal = {0};
    struct tw_record *record = NULL;
    struct tw_copy *copy = catch_up(&refusal) ? tw_engine_copy_find(engine, m->copy_id, &record) : NULL;
    if (copy == NULL && refusal.reason == REFUSAL(UNSPECIFIED)) /* what is UNKNOWN is in memory */
        tw_refuse(&refusal, REFUSAL(NOT_FOUND), "copy_id", "there is no copy \"%.64s\"", m->copy_id);
    const Tradewake__V1__Copy *before = copy != NULL ? tw_copy_message(copy, tw_call_arena(call)) : NULL;
    bool ok = copy != NULL && tw_engine_copy_resolve(engine, copy, m, &refusal) && catch_up(&refusal);
    Tradewake__V1__Copy *after = ok ? tw_copy_message(copy, tw_call_arena(call)) : NULL;
    if (record != NULL)
        tw_record_release(record);
    const struct tw_audited audited = {.request = request,
                                       .before = before != NULL ? &before->base : NULL,
                                       .after = after != NULL ? &after->base : NULL,
                                       .refusal = ok ? NULL : &refusal};
    tw_audit_change(call, &audited);
    if (after != NULL)
        tw_call_answer(call, &after->base);
    else if (!ok)
        tw_call_refuse(call, &refusal);
    else
        refuse_large(call);
}

/* ---- ListCopies: what is in memory, and what is in the past, as one row of pages ---- */

struct listed {
    Tradewake__V1__Copy *copy;
    uint64_t place, called_ns;
};

struct listing {
    const Tradewake__V1__ListCopiesRequest *request;
    struct tw_copy_filter filter;
    const char *words;
    struct listed from; /* what follows this: copies have falling places, or falling own times and places */
    struct listed *found;
    size_t n;
    uint32_t size;
    bool has_more; /* in memory */
    struct tw_past past;
    Tradewake__V1__ListCopiesResponse response;
};

static int by_place(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    return x->place < y->place ? 1 : x->place > y->place ? -1 : 0;
}

static int by_own_time(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    if (x->called_ns != y->called_ns)
        return x->called_ns < y->called_ns ? 1 : -1;
    return by_place(a, b);
}

static int order(const struct listing *listing, const struct listed *a, const struct listed *b)
{
    return listing->request->slowest_first ? by_own_time(a, b) : by_place(a, b);
}

static bool from_read(struct listing *listing, const char *place, struct tw_refusal *refusal)
{
    const struct tw_check check = {"", refusal};
    unsigned long long called_ns = 0, at = 0;
    int end = 0;
    listing->from = (struct listed){.place = UINT64_MAX, .called_ns = UINT64_MAX};
    if (place[0] == '\0')
        return true;
    if (sscanf(place, "%llu/%llu%n", &called_ns, &at, &end) != 2 || place[end] != '\0')
        return tw_check_fail(&check, "page_token", "is not one that this service gave out");
    listing->from = (struct listed){.place = at, .called_ns = called_ns};
    return true;
}

static bool list_memory_newest(struct listing *listing, struct tw_arena *arena)
{
    struct tw_copy **copies = tw_arena_zero(arena, listing->size * sizeof *copies);
    struct tw_copy_cursor cursor = {listing->from.place, 0};
    if (copies == NULL)
        return false;
    if (listing->from.place != UINT64_MAX)
        cursor = (struct tw_copy_cursor){listing->from.place / TW_HISTORY_PLACES,
                                         (uint32_t)(listing->from.place % TW_HISTORY_PLACES)};
    size_t n = tw_engine_copies_list(tw_services_engine(), &listing->filter, &cursor, copies, listing->size);
    for (size_t i = 0; i < n; i++) {
        listing->found[listing->n++] =
            (struct listed){.copy = tw_copy_message(copies[i], arena), .place = tw_copy_place(copies[i])};
        tw_copy_release(copies[i]);
    }
    listing->has_more = n == listing->size;
    return true;
}

struct slow_copy {
    struct tw_copy *copy; /* held */
    struct listed key;
};

static int by_slow_key(const void *a, const void *b)
{
    return by_own_time(&((const struct slow_copy *)a)->key, &((const struct slow_copy *)b)->key);
}

/* Every match in memory that was called and comes after the page before, slowest first; from the heap. */
static struct slow_copy *collect_slow(struct listing *listing, size_t *ret_n)
{
    enum { AT_ONCE = 256 };
    struct tw_copy_cursor cursor = {UINT64_MAX, 0};
    struct tw_copy *copies[AT_ONCE];
    struct slow_copy *list = NULL;
    size_t n = 0, got;
    do {
        got = tw_engine_copies_list(tw_services_engine(), &listing->filter, &cursor, copies, AT_ONCE);
        struct slow_copy *grown = realloc(list, (n + got + 1) * sizeof *grown);
        list = grown != NULL ? grown : list;
        for (size_t i = 0; i < got; i++) {
            const struct listed key = {.place = tw_copy_place(copies[i]), .called_ns = tw_copy_own_time_ns(copies[i])};
            if (grown != NULL && key.called_ns > 0 && by_own_time(&listing->from, &key) < 0)
                list[n++] = (struct slow_copy){copies[i], key};
            else
                tw_copy_release(copies[i]);
        }
        if (grown == NULL)
            break;
    } while (got == AT_ONCE);
    if (list != NULL)
        qsort(list, n, sizeof *list, by_slow_key);
    *ret_n = n;
    return list;
}

static bool list_memory_slowest(struct listing *listing, struct tw_arena *arena)
{
    size_t n = 0;
    struct slow_copy *list = collect_slow(listing, &n);
    for (size_t i = 0; i < n; i++) {
        if (listing->n < listing->size) {
            list[i].key.copy = tw_copy_message(list[i].copy, arena);
            listing->found[listing->n++] = list[i].key;
        }
        tw_copy_release(list[i].copy);
    }
    listing->has_more = n > listing->size;
    free(list);
    return true;
}

/* Whether copies that memory has forgotten may belong on this page. */
static bool needs_past(const struct listing *listing)
{
    uint64_t number = tw_engine_past_number(tw_services_engine());
    if (number == 0 || listing->request->slowest_first)
        return number > 0;
    return listing->n < listing->size || listing->found[listing->n - 1].place / TW_HISTORY_PLACES <= number;
}

static void listing_ask(struct tw_call *call, struct listing *listing)
{
    bool is_full = listing->n == listing->size && !listing->request->slowest_first;
    listing->past.kind = TW_PAST_LIST;
    listing->past.filter = &listing->filter;
    listing->past.n_max = listing->size;
    listing->past.is_slowest_first = listing->request->slowest_first;
    listing->past.place = listing->from.place;
    listing->past.called_ns = listing->from.called_ns;
    listing->past.place_min = is_full ? listing->found[listing->n - 1].place : 0;
    tw_call_data_set(call, listing);
    past_ask(call, &listing->past);
}

/* Both in one order. A copy that was forgotten in between is in both. */
static void listing_merge(struct listing *listing)
{
    const struct tw_past *past = &listing->past;
    size_t kept = 0;
    for (size_t i = 0; i < past->n; i++)
        listing->found[listing->n++] = (struct listed){past->copies[i], past->places[i],
                                                       past->copies[i]->times->called_ns};
    qsort(listing->found, listing->n, sizeof *listing->found, listing->request->slowest_first ? by_own_time : by_place);
    const struct listed end = {.place = past->place, .called_ns = past->called_ns};
    for (size_t i = 0; i < listing->n; i++) {
        bool is_twin = kept > 0 && listing->found[kept - 1].place == listing->found[i].place;
        bool is_beyond = past->is_unfinished && order(listing, &end, &listing->found[i]) < 0;
        if (!is_twin && !is_beyond)
            listing->found[kept++] = listing->found[i];
    }
    listing->n = kept;
}

static void listing_answer(struct tw_call *call, struct listing *listing)
{
    struct tw_arena *arena = tw_call_arena(call);
    const struct tw_past *past = &listing->past;
    bool is_cut = listing->n > listing->size;
    listing->n = is_cut ? listing->size : listing->n;
    bool has_more = is_cut || past->is_unfinished || (listing->has_more && listing->n > 0);
    listing->response.copies = tw_arena_zero(arena, (listing->n + 1) * sizeof *listing->response.copies);
    for (size_t i = 0; i < listing->n && listing->response.copies != NULL; i++)
        if (listing->found[i].copy != NULL)
            listing->response.copies[listing->response.n_copies++] = listing->found[i].copy;
    if (has_more) {
        struct listed last = {.place = past->place, .called_ns = past->called_ns};
        if (listing->n == listing->size || !past->is_unfinished)
            last = listing->found[listing->n - 1];
        char place[64];
        snprintf(place, sizeof place, "%llu/%llu", (unsigned long long)last.called_ns, (unsigned long long)last.place);
        listing->response.next_page_token = tw_page_token(arena, listing->words, place);
    }
    if (listing->response.copies != NULL)
        tw_call_answer(call, &listing->response.base);
    else
        refuse_large(call);
}

void tw_list_copies_on_request(struct tw_call *call, const ProtobufCMessage *request,
                               const struct tw_refusal *invalid)
{
    (void)invalid;
    struct tw_arena *arena = tw_call_arena(call);
    struct tw_refusal refusal = {0};
    const Tradewake__V1__ListCopiesRequest *m = (const Tradewake__V1__ListCopiesRequest *)request;
    struct listing *listing = tw_arena_zero(arena, sizeof *listing);
    char place[81];
    if (listing == NULL) {
        refuse_large(call);
        return;
    }
    tradewake__v1__list_copies_response__init(&listing->response);
    listing->request = m;
    listing->size = tw_page_size(m->page_size);
    listing->words = filter_words(m->filter, m->slowest_first, arena);
    listing->found = tw_arena_zero(arena, 2 * listing->size * sizeof *listing->found);
    if (listing->words == NULL || listing->found == NULL) {
        refuse_large(call);
        return;
    }
    bool ok = filter_read(m->filter, &listing->filter, &refusal) &&
              tw_page_place(m->page_token, listing->words, place, &refusal) &&
              from_read(listing, place, &refusal) && catch_up(&refusal);
    if (!ok)
        tw_call_refuse(call, &refusal);
    else if (!(m->slowest_first ? list_memory_slowest : list_memory_newest)(listing, arena))
        refuse_large(call);
    else if (needs_past(listing))
        listing_ask(call, listing);
    else
        listing_answer(call, listing);
}

void tw_list_copies_on_past(struct tw_call *call)
{
    struct listing *listing = tw_call_data(call);
    if (listing->past.is_behind) {
        refuse_behind(call);
        return;
    }
    listing_merge(listing);
    listing_answer(call, listing);
}

/* ---- WatchCopies ---- */

enum { BACKLOG_MAX = 10000, BATCH_DEFAULT = 256, BATCH_MAX = 1024 };
#define EXISTING_AGE_NS (INT64_C(3600) * TW_NS_PER_S)

/* What is sent before the feed, from memory and from the past, in one order by change_id: a reader goes on at
 * the highest that it has seen.
 *
 *   memory: held copies, collected at the start    past: pages from the history, each asked for when the one
 *                                                  before has been sent */
struct watch {
    struct tw_change_feed *feed;
    Tradewake__V1__WatchCopiesRequest *request; /* a copy from the heap: the filter points into it */
    struct tw_copy_filter filter;
    uint32_t max_batch;
    int64_t max_delay_ns, heartbeat_ns;

    struct tw_change *backlog; /* what was in memory before, by change_id; each held */
    size_t n_backlog, backlog_at;
    bool is_started, owes_caught_up;
    bool is_over; /* evicted: nothing may follow */
    uint64_t dropped;
    uint64_t last_sent_change_id;
    uint64_t started_change_id; /* the last one when the stream began */
    int64_t batch_due_mono_ns;  /* 0 = nothing waits to be sent */
    int64_t last_write_mono_ns;

    /* The call has one reference, a question that is out another: the call may end meanwhile. */
    atomic_uint refs;
    atomic_bool is_answered; /* the history has done with past and arena; before, they are its own */
    bool is_asked, has_past; /* has_past: more of it may come behind the page in hand */
    struct tw_past past;
    struct tw_copy_filter past_filter;
    struct tw_arena arena;
    Tradewake__V1__Copy **page; /* by change_id; NULL = none yet */
    size_t n_page, page_at;
    uint64_t page_until; /* everything of the past up to this change_id is in hand */
};

static int by_change_id(const void *a, const void *b)
{
    const struct tw_change *x = a, *y = b;
    return x->change_id < y->change_id ? -1 : x->change_id > y->change_id;
}

static bool belongs_to_backlog(const struct watch *watch, uint64_t change_id)
{
    if (watch->request->resume_after > 0)
        return change_id > watch->request->resume_after;
    return watch->request->include_existing && change_id > 0;
}

/* What changed after the cursor, or what is there now: oldest change first. False: no memory. */
static bool backlog_collect(struct watch *watch)
{
    if (watch->request->resume_after == 0 && !watch->request->include_existing)
        return true;
    struct tw_copy_cursor cursor = {UINT64_MAX, 0};
    struct tw_copy *page[BATCH_DEFAULT];
    struct tw_copy_filter filter = watch->filter;
    int64_t hour_ago_ns = tw_wall_ns() - EXISTING_AGE_NS;
    size_t got;
    do {
        got = tw_engine_copies_list(tw_services_engine(), &filter, &cursor, page, BATCH_DEFAULT);
        struct tw_change *grown = realloc(watch->backlog, (watch->n_backlog + got + 1) * sizeof *grown);
        if (grown != NULL)
            watch->backlog = grown;
        for (size_t i = 0; i < got; i++) {
            uint64_t change_id = tw_copy_change_id(page[i]);
            bool is_recent = watch->request->resume_after > 0 || !tw_copy_is_terminal(page[i]) ||
                             tw_copy_received_wall_ns(page[i]) >= hour_ago_ns;
            if (grown != NULL && is_recent && belongs_to_backlog(watch, change_id))
                watch->backlog[watch->n_backlog++] = (struct tw_change){page[i], change_id};
            else
                tw_copy_release(page[i]);
        }
        if (grown == NULL)
            return false;
    } while (got == BATCH_DEFAULT &&
             (watch->request->resume_after > 0 || watch->n_backlog < BACKLOG_MAX));
    while (watch->request->resume_after == 0 && watch->n_backlog > BACKLOG_MAX)
        tw_copy_release(watch->backlog[--watch->n_backlog].copy); /* the oldest of them */
    qsort(watch->backlog, watch->n_backlog, sizeof *watch->backlog, by_change_id);
    return true;
}

/* ---- What memory has forgotten ---- */

static void watch_release(struct watch *watch)
{
    if (atomic_fetch_sub(&watch->refs, 1) != 1)
        return;
    for (; watch->backlog_at < watch->n_backlog; watch->backlog_at++)
        tw_copy_release(watch->backlog[watch->backlog_at].copy);
    free(watch->backlog);
    tw_arena_clear(&watch->arena);
    if (watch->request != NULL)
        tradewake__v1__watch_copies_request__free_unpacked(watch->request, NULL);
    free(watch);
}

static void watch_past_done(struct tw_past *past)
{
    struct tw_call *call = past->context;
    struct watch *watch = (struct watch *)((char *)past - offsetof(struct watch, past));
    atomic_store(&watch->is_answered, true);
    tw_call_post(call);
    tw_call_unref(call);
    watch_release(watch);
}

static void watch_past_ask(struct tw_call *call, struct watch *watch)
{
    watch->is_asked = true;
    atomic_store(&watch->is_answered, false);
    atomic_fetch_add(&watch->refs, 1);
    tw_call_ref(call);
    watch->past.context = call;
    tw_engine_past_ask(tw_services_engine(), &watch->past);
}

/* The rest is memory's. */
static void past_forget(struct watch *watch)
{
    watch->has_past = false;
    watch->page_until = UINT64_MAX;
}

/* After the memory's part was collected: what has been forgotten until then is all that memory does not have. */
static void past_begin(struct watch *watch)
{
    const Tradewake__V1__WatchCopiesRequest *m = watch->request;
    struct tw_engine *engine = tw_services_engine();
    uint64_t forgotten = tw_engine_forgotten_change_id(engine);
    watch->has_past = tw_engine_past_number(engine) > 0 && (m->resume_after > 0 ? forgotten > m->resume_after
                                                                                : m->include_existing);
    watch->page_until = watch->has_past ? m->resume_after : UINT64_MAX;
    tw_arena_init(&watch->arena, TW_ANSWER_BYTES_MAX * 8);
    watch->past_filter = watch->filter;
    watch->past = (struct tw_past){.arena = &watch->arena, .filter = &watch->past_filter, .done = watch_past_done};
    if (m->resume_after > 0) {
        watch->past.kind = TW_PAST_CHANGES;
        watch->past.after = m->resume_after;
        watch->past.until = forgotten;
        watch->past.n_max = BATCH_MAX;
        return;
    }
    int64_t hour_ago_ns = tw_wall_ns() - EXISTING_AGE_NS;
    if (watch->past_filter.received_from_wall_ns < hour_ago_ns)
        watch->past_filter.received_from_wall_ns = hour_ago_ns;
    watch->past.kind = TW_PAST_LIST;
    watch->past.place = watch->past.called_ns = UINT64_MAX;
    watch->past.n_max = BACKLOG_MAX - watch->n_backlog;
    if (watch->past.n_max == 0)
        past_forget(watch);
}

static int by_copy_change(const void *a, const void *b)
{
    const Tradewake__V1__Copy *x = *(Tradewake__V1__Copy *const *)a, *y = *(Tradewake__V1__Copy *const *)b;
    return x->change_id < y->change_id ? -1 : x->change_id > y->change_id;
}

/* The last hour, newest first, comes in pieces: all of them are put together before the first is sent. False:
 * no memory. */
static bool existing_add(struct watch *watch)
{
    struct tw_past *past = &watch->past;
    Tradewake__V1__Copy **grown = tw_arena_take(&watch->arena, (watch->n_page + past->n + 1) * sizeof *grown);
    if (grown == NULL)
        return false;
    if (watch->n_page > 0)
        memcpy(grown, watch->page, watch->n_page * sizeof *grown);
    memcpy(grown + watch->n_page, past->copies, past->n * sizeof *grown);
    watch->page = grown;
    watch->n_page += past->n;
    past->n_max -= past->n;
    past->n = 0;
    watch->has_past = past->is_unfinished && past->n_max > 0;
    qsort(watch->page, watch->n_page, sizeof *watch->page, by_copy_change);
    if (!watch->has_past)
        watch->page_until = UINT64_MAX;
    return true;
}

/* False: the call is refused, or ended. */
static bool past_take(struct tw_call *call, struct watch *watch)
{
    struct tw_past *past = &watch->past;
    watch->is_asked = false;
    if (past->is_behind) {
        refuse_behind(call);
        return false;
    }
    if (past->kind == TW_PAST_LIST) {
        if (!existing_add(watch))
            past_forget(watch);
        return true;
    }
    watch->page = past->copies;
    watch->n_page = past->n;
    watch->page_at = 0;
    watch->has_past = past->last > past->after && past->last < past->until;
    watch->page_until = watch->has_past ? past->last : UINT64_MAX;
    past->after = past->last;
    return true;
}

/* The next page, when the one before is sent. */
static void past_go_on(struct tw_call *call, struct watch *watch)
{
    if (watch->past.kind == TW_PAST_CHANGES) {
        tw_arena_reset(&watch->arena);
        watch->page = NULL;
        watch->n_page = watch->page_at = 0;
        watch->past.n = 0;
    }
    watch_past_ask(call, watch);
}

static bool resume_check(const Tradewake__V1__WatchCopiesRequest *m, struct tw_refusal *refusal)
{
    if (m->resume_after == 0)
        return true;
    struct tw_engine *engine = tw_services_engine();
    if (strcmp(m->journal_id, tw_engine_journal_id(engine)) != 0)
        return tw_refuse(refusal, REFUSAL(RESUME_OTHER_JOURNAL), "journal_id",
                         "this server's journal is \"%s\": start anew with include_existing",
                         tw_engine_journal_id(engine));
    if (m->resume_after < tw_engine_lost_change_id(engine))
        return tw_refuse(refusal, REFUSAL(RESUME_TOO_OLD), "resume_after",
                         "changes up to %llu have been forgotten: start anew with include_existing",
                         (unsigned long long)tw_engine_lost_change_id(engine));
    return true;
}

static bool watch_read(struct watch *watch, struct tw_refusal *refusal)
{
    const Tradewake__V1__WatchCopiesRequest *m = watch->request;
    const struct tw_check check = {"", refusal};
    watch->max_batch = m->max_batch == 0 ? BATCH_DEFAULT : m->max_batch;
    watch->max_delay_ns = 20 * TW_NS_PER_MS;
    watch->heartbeat_ns = 15 * TW_NS_PER_S;
    if (m->max_batch > BATCH_MAX)
        return tw_check_fail(&check, "max_batch", "is %u, at most %d", m->max_batch, BATCH_MAX);
    if (m->resume_after > 0 && m->journal_id[0] == '\0')
        return tw_check_fail(&check, "journal_id", "is required with resume_after");
    return filter_read(m->filter, &watch->filter, refusal) &&
           tw_check_duration(&check, "max_delay", m->max_delay, 0, 10 * TW_NS_PER_S, &watch->max_delay_ns) &&
           tw_check_duration(&check, "heartbeat_interval", m->heartbeat_interval, TW_NS_PER_S,
                             300 * TW_NS_PER_S, &watch->heartbeat_ns) &&
           resume_check(m, refusal);
}

static bool watch_write(struct tw_call *call, struct watch *watch, Tradewake__V1__WatchCopiesResponse *m)
{
    if (!tw_call_write(call, &m->base, false))
        return false;
    watch->last_write_mono_ns = tw_mono_ns();
    return true;
}

static void duration_set(Google__Protobuf__Duration *m, int64_t ns)
{
    google__protobuf__duration__init(m);
    m->seconds = ns / TW_NS_PER_S;
    m->nanos = (int32_t)(ns % TW_NS_PER_S);
}

static bool send_started(struct tw_call *call, struct watch *watch)
{
    Tradewake__V1__WatchCopiesResponse m;
    Tradewake__V1__WatchStarted started;
    Google__Protobuf__Duration interval;
    tradewake__v1__watch_copies_response__init(&m);
    tradewake__v1__watch_started__init(&started);
    duration_set(&interval, watch->heartbeat_ns);
    started.instance_id = (char *)(uintptr_t)tw_engine_instance_id(tw_services_engine());
    started.journal_id = (char *)(uintptr_t)tw_engine_journal_id(tw_services_engine());
    started.last_change_id = watch->started_change_id;
    started.heartbeat_interval = &interval;
    m.payload_case = TRADEWAKE__V1__WATCH_COPIES_RESPONSE__PAYLOAD_STARTED;
    m.started = &started;
    return watch_write(call, watch, &m);
}

static bool send_caught_up(struct tw_call *call, struct watch *watch)
{
    Tradewake__V1__WatchCopiesResponse m;
    Tradewake__V1__CaughtUp caught_up;
    tradewake__v1__watch_copies_response__init(&m);
    tradewake__v1__caught_up__init(&caught_up);
    caught_up.last_change_id = watch->started_change_id;
    m.payload_case = TRADEWAKE__V1__WATCH_COPIES_RESPONSE__PAYLOAD_CAUGHT_UP;
    m.caught_up = &caught_up;
    return watch_write(call, watch, &m);
}

static bool send_dropped(struct tw_call *call, struct watch *watch)
{
    Tradewake__V1__WatchCopiesResponse m;
    Tradewake__V1__Dropped dropped;
    tradewake__v1__watch_copies_response__init(&m);
    tradewake__v1__dropped__init(&dropped);
    dropped.count = watch->dropped;
    dropped.resume_after = watch->last_sent_change_id;
    m.payload_case = TRADEWAKE__V1__WATCH_COPIES_RESPONSE__PAYLOAD_DROPPED;
    m.dropped = &dropped;
    return watch_write(call, watch, &m);
}

static bool send_heartbeat(struct tw_call *call, struct watch *watch)
{
    Tradewake__V1__WatchCopiesResponse m;
    Tradewake__V1__Heartbeat heartbeat;
    Google__Protobuf__Timestamp now;
    int64_t now_ns = tw_wall_ns();
    tradewake__v1__watch_copies_response__init(&m);
    tradewake__v1__heartbeat__init(&heartbeat);
    google__protobuf__timestamp__init(&now);
    now.seconds = now_ns / TW_NS_PER_S;
    now.nanos = (int32_t)(now_ns % TW_NS_PER_S);
    heartbeat.server_time = &now;
    heartbeat.last_change_id = watch->last_sent_change_id;
    m.payload_case = TRADEWAKE__V1__WATCH_COPIES_RESPONSE__PAYLOAD_HEARTBEAT;
    m.heartbeat = &heartbeat;
    return watch_write(call, watch, &m);
}

/* One answer with several copies, being put together. Its address must not change. */
struct outgoing {
    struct tw_arena arena;
    Tradewake__V1__WatchCopiesResponse m;
    Tradewake__V1__CopyBatch batch;
};

/* False: no memory; send it all the same. */
static bool outgoing_begin(struct outgoing *out, size_t n_max)
{
    tw_arena_init(&out->arena, TW_ANSWER_BYTES_MAX * 2);
    tradewake__v1__watch_copies_response__init(&out->m);
    tradewake__v1__copy_batch__init(&out->batch);
    out->m.payload_case = TRADEWAKE__V1__WATCH_COPIES_RESPONSE__PAYLOAD_BATCH;
    out->m.batch = &out->batch;
    out->batch.copies = tw_arena_zero(&out->arena, (n_max + 1) * sizeof *out->batch.copies);
    return out->batch.copies != NULL;
}

/* Nothing is written when no copy was put in. */
static void outgoing_send(struct outgoing *out, struct tw_call *call, struct watch *watch)
{
    if (out->batch.n_copies > 0)
        (void)watch_write(call, watch, &out->m); /* writable: it was looked at before */
    tw_arena_clear(&out->arena);
}

/* Sends these changes as one batch and gives the copies back. */
static void send_changes(struct tw_call *call, struct watch *watch, struct tw_change *changes, size_t n)
{
    struct outgoing out;
    bool has_room = outgoing_begin(&out, n);
    for (size_t i = 0; i < n; i++) {
        if (has_room && tw_copy_matches(changes[i].copy, &watch->filter)) {
            Tradewake__V1__Copy *copy = tw_copy_message(changes[i].copy, &out.arena);
            if (copy != NULL) {
                /* The cursor a reader keeps: later changes of this copy come again under their own. */
                copy->change_id = changes[i].change_id;
                out.batch.copies[out.batch.n_copies++] = copy;
            }
        }
        if (changes[i].change_id > watch->last_sent_change_id)
            watch->last_sent_change_id = changes[i].change_id;
        tw_copy_release(changes[i].copy);
    }
    outgoing_send(&out, call, watch);
}

static bool has_backlog(const struct watch *watch)
{
    bool has_page = watch->page_at < watch->n_page;
    bool has_memory = watch->backlog_at < watch->n_backlog &&
                      watch->backlog[watch->backlog_at].change_id <= watch->page_until;
    return has_page || has_memory;
}

/* The next of what was there before, as a message in arena; NULL: it does not match any more, or no memory. What
 * was forgotten in between is in both. */
static Tradewake__V1__Copy *backlog_next(struct watch *watch, struct tw_arena *arena)
{
    struct tw_change *memory = watch->backlog_at < watch->n_backlog ? &watch->backlog[watch->backlog_at] : NULL;
    Tradewake__V1__Copy *past = watch->page_at < watch->n_page ? watch->page[watch->page_at] : NULL;
    uint64_t change_id = past != NULL ? past->change_id : UINT64_MAX;
    if (memory != NULL && memory->change_id <= change_id) {
        watch->page_at += memory->change_id == change_id;
        watch->backlog_at++;
        past = tw_copy_matches(memory->copy, &watch->filter) ? tw_copy_message(memory->copy, arena) : NULL;
        if (past != NULL)
            past->change_id = memory->change_id;
        change_id = memory->change_id;
        tw_copy_release(memory->copy);
    } else {
        watch->page_at++;
    }
    if (change_id > watch->last_sent_change_id)
        watch->last_sent_change_id = change_id;
    return past;
}

static void send_backlog(struct tw_call *call, struct watch *watch)
{
    struct outgoing out;
    bool has_room = outgoing_begin(&out, watch->max_batch);
    while (has_room && out.batch.n_copies < watch->max_batch && has_backlog(watch)) {
        Tradewake__V1__Copy *copy = backlog_next(watch, &out.arena);
        if (copy != NULL)
            out.batch.copies[out.batch.n_copies++] = copy;
    }
    outgoing_send(&out, call, watch);
}

/* The feed's next batch, when it is full or its time has come. False: not yet. */
static bool send_news(struct tw_call *call, struct watch *watch, int64_t now_ns)
{
    size_t waiting = tw_change_feed_count(watch->feed);
    if (waiting == 0)
        return false;
    if (watch->batch_due_mono_ns == 0)
        watch->batch_due_mono_ns = now_ns + watch->max_delay_ns;
    if (waiting < watch->max_batch && now_ns < watch->batch_due_mono_ns)
        return false;
    struct tw_change changes[BATCH_MAX];
    uint64_t dropped = 0;
    size_t n = tw_change_feed_take(watch->feed, changes, watch->max_batch, &dropped);
    watch->dropped += dropped;
    watch->batch_due_mono_ns = 0;
    send_changes(call, watch, changes, n);
    return true;
}

/* As much as the reader takes now, in the order the contract names. */
static void watch_pump(struct tw_call *call, struct watch *watch)
{
    int64_t now_ns = tw_mono_ns();
    while (tw_call_is_writable(call)) {
        if (watch->is_asked) {
            break; /* the history's answer comes as news */
        } else if (watch->has_past && (watch->past.kind == TW_PAST_LIST || watch->page == NULL)) {
            past_go_on(call, watch); /* what cannot be read is refused before anything is said */
        } else if (!watch->is_started) {
            watch->is_started = send_started(call, watch);
        } else if (has_backlog(watch)) {
            send_backlog(call, watch);
        } else if (watch->has_past) {
            past_go_on(call, watch);
        } else if (watch->owes_caught_up) {
            watch->owes_caught_up = !send_caught_up(call, watch);
        } else if (watch->dropped > 0) {
            if (send_dropped(call, watch))
                watch->dropped = 0;
        } else if (!send_news(call, watch, now_ns)) {
            if (now_ns - watch->last_write_mono_ns < watch->heartbeat_ns)
                break;
            send_heartbeat(call, watch);
        }
    }
    int64_t due_ns = watch->last_write_mono_ns + watch->heartbeat_ns;
    if (watch->batch_due_mono_ns != 0 && watch->batch_due_mono_ns < due_ns)
        due_ns = watch->batch_due_mono_ns;
    int64_t hopeless_mono_ns = tw_reader_due_mono_ns(call);
    if (hopeless_mono_ns != INT64_MAX) /* nothing else can be done before */
        due_ns = hopeless_mono_ns;
    tw_call_timer_set(call, due_ns > now_ns ? due_ns : now_ns + TW_NS_PER_MS);
}

static void on_change(void *context)
{
    tw_call_post(context);
}

/* The request lives only as long as the call's first callback: the filter needs it longer. */
static Tradewake__V1__WatchCopiesRequest *request_copy(const ProtobufCMessage *request)
{
    size_t size = protobuf_c_message_get_packed_size(request);
    uint8_t *packed = malloc(size + 1);
    if (packed == NULL)
        return NULL;
    protobuf_c_message_pack(request, packed);
    Tradewake__V1__WatchCopiesRequest *copy =
        tradewake__v1__watch_copies_request__unpack(NULL, size, packed);
    free(packed);
    return copy;
}

static bool watch_begin(struct watch *watch, struct tw_call *call, const ProtobufCMessage *request,
                        struct tw_refusal *refusal)
{
    watch->request = request_copy(request);
    bool ok = watch->request != NULL && watch_read(watch, refusal);
    if (!ok)
        return false;
    /* The feed first, then what was there before: what changes in between comes twice, not never. */
    watch->feed = tw_engine_feed_open(tw_services_engine(), on_change, call);
    if (watch->feed == NULL || !catch_up(refusal) || !backlog_collect(watch))
        return false;
    past_begin(watch);
    watch->started_change_id = tw_engine_last_change_id(tw_services_engine());
    watch->last_sent_change_id = watch->request->resume_after > 0 ? watch->request->resume_after
                                                                  : watch->started_change_id;
    watch->owes_caught_up = watch->request->include_existing && watch->request->resume_after == 0;
    watch->last_write_mono_ns = tw_mono_ns();
    return true;
}

static void watch_end(struct watch *watch)
{
    if (watch == NULL)
        return;
    tw_engine_feed_close(watch->feed); /* it names the call */
    watch->feed = NULL;
    tw_watcher_give();
    watch_release(watch);
}

void tw_watch_copies_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                const struct tw_refusal *invalid)
{
    (void)invalid;
    struct tw_refusal refusal = {0};
    if (!tw_watcher_take(&refusal)) {
        tw_call_refuse(call, &refusal);
        return;
    }
    struct watch *watch = calloc(1, sizeof *watch);
    if (watch != NULL)
        atomic_init(&watch->refs, 1);
    else
        tw_watcher_give();
    if (watch != NULL && watch_begin(watch, call, request, &refusal)) {
        tw_call_data_set(call, watch);
        watch_pump(call, watch);
        return;
    }
    watch_end(watch);
    if (refusal.reason == REFUSAL(UNSPECIFIED)) {
        tw_refuse(&refusal, REFUSAL(OVERLOADED), NULL, "no memory for another watcher");
        refusal.retry_after_ns = TW_NS_PER_S;
    }
    tw_call_refuse(call, &refusal);
}

void tw_watch_copies_on_news(struct tw_call *call)
{
    struct watch *watch = tw_call_data(call);
    if (watch == NULL || watch->is_over)
        return;
    if (watch->is_asked && atomic_load(&watch->is_answered) && !past_take(call, watch))
        return;
    watch_pump(call, watch);
}

void tw_watch_copies_on_timer(struct tw_call *call)
{
    struct watch *watch = tw_call_data(call);
    if (watch == NULL || watch->is_over)
        return;
    watch->is_over = tw_reader_evict(call, tw_mono_ns());
    if (!watch->is_over)
        watch_pump(call, watch);
}

void tw_watch_copies_on_finished(struct tw_call *call, bool cancelled)
{
    (void)cancelled;
    watch_end(tw_call_data(call));
}

/* ---- CompareFollower: answered from the follower's lane ---- */

struct comparing {
    struct tw_comparison comparison;
    Tradewake__V1__CompareFollowerResponse response;
};

static void on_compared(struct tw_comparison *comparison)
{
    struct tw_call *call = comparison->context;
    tw_call_post(call);
    tw_call_unref(call); /* with it the arena, if the caller has gone meanwhile */
}

void tw_compare_follower_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                    const struct tw_refusal *invalid)
{
    (void)invalid;
    const Tradewake__V1__CompareFollowerRequest *m =
        (const Tradewake__V1__CompareFollowerRequest *)request;
    struct comparing *comparing = tw_arena_zero(tw_call_arena(call), sizeof *comparing);
    if (comparing == NULL) {
        refuse_large(call);
        return;
    }
    tradewake__v1__compare_follower_response__init(&comparing->response);
    comparing->comparison = (struct tw_comparison){
        .arena = tw_call_arena(call), .ret = &comparing->response, .done = on_compared, .context = call};
    tw_call_data_set(call, comparing);
    tw_call_ref(call);
    if (!tw_engine_follower_compare(tw_services_engine(), m->follower_id, &comparing->comparison)) {
        tw_call_refuse(call, &comparing->comparison.refusal);
        tw_call_unref(call);
    }
}

void tw_compare_follower_on_post(struct tw_call *call)
{
    struct comparing *comparing = tw_call_data(call);
    if (comparing->comparison.refusal.reason != REFUSAL(UNSPECIFIED))
        tw_call_refuse(call, &comparing->comparison.refusal);
    else
        tw_call_answer(call, &comparing->response.base);
}
