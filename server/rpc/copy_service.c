/* copy_service.c - tradewake.v1.CopyService. */
#include "gate.h"
#include "services.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/limits.h>
#include <tradewake/core/check.h>

#include <google/protobuf/timestamp.pb-c.h>

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
    refusal->retry_after_ns = TW_NS_PER_S;
    return tw_refuse(refusal, REFUSAL(HISTORY_BEHIND), NULL, "the history has not caught up yet");
}

/* ---- GetCopy ---- */

void tw_get_copy_on_request(struct tw_call *call, const ProtobufCMessage *request,
                            const struct tw_refusal *invalid)
{
    (void)invalid;
    const Tradewake__V1__GetCopyRequest *m = (const Tradewake__V1__GetCopyRequest *)request;
    struct tw_refusal refusal = {0};
    struct tw_record *record = NULL;
    struct tw_copy *copy = NULL;
    bool ok = catch_up(&refusal);
    if (ok)
        copy = tw_engine_copy_find(tw_services_engine(), m->copy_id, &record);
    if (ok && copy == NULL)
        tw_refuse(&refusal, REFUSAL(NOT_FOUND), "copy_id", "there is no copy \"%.64s\"", m->copy_id);
    Tradewake__V1__Copy *answer = copy != NULL ? tw_copy_message(copy, tw_call_arena(call)) : NULL;
    if (answer != NULL && !tw_gate_sees(call, answer->master_id, answer->follower_id)) {
        tw_refuse(&refusal, REFUSAL(NOT_FOUND), "copy_id", "there is no copy \"%.64s\"", m->copy_id);
        tw_record_release(record);
        tw_call_refuse(call, &refusal);
        return;
    }
    if (copy != NULL)
        tw_record_release(record);
    if (answer != NULL)
        tw_call_answer(call, &answer->base);
    else if (copy != NULL)
        refuse_large(call);
    else
        tw_call_refuse(call, &refusal);
}

/* ---- ListCopies ---- */

struct listing {
    const Tradewake__V1__ListCopiesRequest *request;
    struct tw_copy_filter filter;
    const char *words;
    char place[81];
    uint32_t size;
    Tradewake__V1__ListCopiesResponse response;
};

static bool list_newest(struct listing *listing, struct tw_arena *arena, struct tw_copy **copies,
                        struct tw_refusal *refusal)
{
    struct tw_copy_cursor cursor = {UINT64_MAX, 0};
    if (listing->place[0] != '\0') {
        unsigned long long number = 0;
        unsigned index = 0;
        const struct tw_check check = {"", refusal};
        if (sscanf(listing->place, "%llu/%u", &number, &index) != 2)
            return tw_check_fail(&check, "page_token", "is not one that this service gave out");
        cursor = (struct tw_copy_cursor){number, index};
    }
    size_t n = tw_engine_copies_list(tw_services_engine(), &listing->filter, &cursor, copies, listing->size);
    for (size_t i = 0; i < n; i++) {
        Tradewake__V1__Copy *copy = tw_copy_message(copies[i], arena);
        if (copy != NULL)
            listing->response.copies[listing->response.n_copies++] = copy;
        tw_copy_release(copies[i]);
    }
    if (n == listing->size) {
        snprintf(listing->place, sizeof listing->place, "%llu/%u",
                 (unsigned long long)cursor.record_number, cursor.index);
        listing->response.next_page_token = tw_page_token(arena, listing->words, listing->place);
    }
    return true;
}

struct slow_copy {
    struct tw_copy *copy; /* held */
    uint64_t own_time_ns;
    uint64_t order; /* of finding: newest first among equals */
};

static int by_own_time(const void *a, const void *b)
{
    const struct slow_copy *x = a, *y = b;
    if (x->own_time_ns != y->own_time_ns)
        return x->own_time_ns < y->own_time_ns ? 1 : -1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Every match that was called, slowest first; from the heap. */
static struct slow_copy *collect_slow(struct listing *listing, struct tw_copy **copies, size_t *ret_n)
{
    struct tw_copy_cursor cursor = {UINT64_MAX, 0};
    struct slow_copy *list = NULL;
    size_t n = 0, got;
    do {
        got = tw_engine_copies_list(tw_services_engine(), &listing->filter, &cursor, copies, listing->size);
        struct slow_copy *grown = realloc(list, (n + got + 1) * sizeof *grown);
        for (size_t i = 0; i < got && grown == NULL; i++)
            tw_copy_release(copies[i]);
        if (grown == NULL)
            break;
        list = grown;
        for (size_t i = 0; i < got; i++, n++)
            list[n] = (struct slow_copy){copies[i], tw_copy_own_time_ns(copies[i]), n};
    } while (got == listing->size);
    if (list != NULL)
        qsort(list, n, sizeof *list, by_own_time);
    *ret_n = n;
    return list;
}

static bool list_slowest(struct listing *listing, struct tw_arena *arena, struct tw_copy **copies,
                         struct tw_refusal *refusal)
{
    (void)refusal;
    size_t n = 0, from = (size_t)strtoull(listing->place, NULL, 10);
    struct slow_copy *list = collect_slow(listing, copies, &n);
    for (size_t i = 0; i < n; i++) {
        bool is_shown = i >= from && i - from < listing->size && list[i].own_time_ns > 0;
        Tradewake__V1__Copy *copy = is_shown ? tw_copy_message(list[i].copy, arena) : NULL;
        if (copy != NULL)
            listing->response.copies[listing->response.n_copies++] = copy;
        tw_copy_release(list[i].copy);
    }
    free(list);
    if (listing->response.n_copies == listing->size && from + listing->size < n) {
        snprintf(listing->place, sizeof listing->place, "%zu", from + listing->size);
        listing->response.next_page_token = tw_page_token(arena, listing->words, listing->place);
    }
    return true;
}

void tw_list_copies_on_request(struct tw_call *call, const ProtobufCMessage *request,
                               const struct tw_refusal *invalid)
{
    (void)invalid;
    struct tw_arena *arena = tw_call_arena(call);
    struct tw_refusal refusal = {0};
    struct listing listing = {.request = (const Tradewake__V1__ListCopiesRequest *)request};
    tradewake__v1__list_copies_response__init(&listing.response);
    listing.size = tw_page_size(listing.request->page_size);
    listing.words = filter_words(listing.request->filter, listing.request->slowest_first, arena);
    struct tw_copy **copies = tw_arena_zero(arena, listing.size * sizeof *copies);
    listing.response.copies = tw_arena_zero(arena, listing.size * sizeof(Tradewake__V1__Copy *));
    if (listing.words == NULL || copies == NULL || listing.response.copies == NULL) {
        refuse_large(call);
        return;
    }
    bool ok = filter_read(listing.request->filter, &listing.filter, &refusal) &&
              tw_page_place(listing.request->page_token, listing.words, listing.place, &refusal) &&
              catch_up(&refusal) &&
              (listing.request->slowest_first ? list_slowest : list_newest)(&listing, arena, copies,
                                                                            &refusal);
    if (ok)
        tw_call_answer(call, &listing.response.base);
    else
        tw_call_refuse(call, &refusal);
}

/* ---- WatchCopies ---- */

enum { BACKLOG_MAX = 10000, BATCH_DEFAULT = 256, BATCH_MAX = 1024 };
#define EXISTING_AGE_NS (INT64_C(3600) * TW_NS_PER_S)
#define HOPELESS_NS (30 * TW_NS_PER_S)

struct watch {
    struct tw_change_feed *feed;
    Tradewake__V1__WatchCopiesRequest *request; /* a copy from the heap: the filter points into it */
    struct tw_copy_filter filter;
    uint32_t max_batch;
    int64_t max_delay_ns, heartbeat_ns;

    struct tw_change *backlog; /* what was there before, by change_id; each held */
    size_t n_backlog, backlog_at;
    bool is_started, owes_caught_up;
    uint64_t dropped;
    uint64_t last_sent_change_id;
    uint64_t started_change_id; /* the last one when the stream began */
    int64_t batch_due_mono_ns;  /* 0 = nothing waits to be sent */
    int64_t last_write_mono_ns;
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

static bool resume_check(const Tradewake__V1__WatchCopiesRequest *m, struct tw_refusal *refusal)
{
    if (m->resume_after == 0)
        return true;
    struct tw_engine *engine = tw_services_engine();
    if (strcmp(m->journal_id, tw_engine_journal_id(engine)) != 0)
        return tw_refuse(refusal, REFUSAL(RESUME_OTHER_JOURNAL), "journal_id",
                         "this server's journal is \"%s\": start anew with include_existing",
                         tw_engine_journal_id(engine));
    if (m->resume_after < tw_engine_forgotten_change_id(engine))
        return tw_refuse(refusal, REFUSAL(RESUME_TOO_OLD), "resume_after",
                         "changes up to %llu have been forgotten: start anew with include_existing",
                         (unsigned long long)tw_engine_forgotten_change_id(engine));
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

/* Sends these changes as one batch and gives the copies back; nothing is written when none matches. */
static void send_changes(struct tw_call *call, struct watch *watch, struct tw_change *changes, size_t n)
{
    struct tw_arena arena;
    tw_arena_init(&arena, TW_ANSWER_BYTES_MAX * 2);
    Tradewake__V1__WatchCopiesResponse m;
    Tradewake__V1__CopyBatch batch;
    tradewake__v1__watch_copies_response__init(&m);
    tradewake__v1__copy_batch__init(&batch);
    batch.copies = tw_arena_zero(&arena, (n + 1) * sizeof *batch.copies);
    for (size_t i = 0; i < n; i++) {
        if (batch.copies != NULL && tw_copy_matches(changes[i].copy, &watch->filter)) {
            Tradewake__V1__Copy *copy = tw_copy_message(changes[i].copy, &arena);
            if (copy != NULL) {
                /* The cursor a reader keeps: later changes of this copy come again under their own. */
                copy->change_id = changes[i].change_id;
                batch.copies[batch.n_copies++] = copy;
            }
        }
        if (changes[i].change_id > watch->last_sent_change_id)
            watch->last_sent_change_id = changes[i].change_id;
        tw_copy_release(changes[i].copy);
    }
    m.payload_case = TRADEWAKE__V1__WATCH_COPIES_RESPONSE__PAYLOAD_BATCH;
    m.batch = &batch;
    if (batch.n_copies > 0)
        (void)watch_write(call, watch, &m); /* writable: it was looked at before */
    tw_arena_clear(&arena);
}

static void send_backlog(struct tw_call *call, struct watch *watch)
{
    size_t left = watch->n_backlog - watch->backlog_at;
    size_t n = left < watch->max_batch ? left : watch->max_batch;
    struct tw_change *from = &watch->backlog[watch->backlog_at];
    watch->backlog_at += n;
    send_changes(call, watch, from, n);
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
        if (!watch->is_started) {
            watch->is_started = send_started(call, watch);
        } else if (watch->backlog_at < watch->n_backlog) {
            send_backlog(call, watch);
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
    int64_t write_ns = tw_call_write_started_mono_ns(call);
    if (write_ns != 0)
        due_ns = write_ns + HOPELESS_NS;
    tw_call_timer_set(call, due_ns > now_ns ? due_ns : now_ns + TW_NS_PER_MS);
}

static void on_change(void *context)
{
    tw_call_post(context);
}

static void watch_free(struct watch *watch)
{
    tw_engine_feed_close(watch->feed);
    for (; watch->backlog_at < watch->n_backlog; watch->backlog_at++)
        tw_copy_release(watch->backlog[watch->backlog_at].copy);
    free(watch->backlog);
    if (watch->request != NULL)
        tradewake__v1__watch_copies_request__free_unpacked(watch->request, NULL);
    free(watch);
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
    watch->started_change_id = tw_engine_last_change_id(tw_services_engine());
    watch->last_sent_change_id = watch->request->resume_after > 0 ? watch->request->resume_after
                                                                  : watch->started_change_id;
    watch->owes_caught_up = watch->request->include_existing && watch->request->resume_after == 0;
    watch->last_write_mono_ns = tw_mono_ns();
    return true;
}

void tw_watch_copies_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                const struct tw_refusal *invalid)
{
    (void)invalid;
    struct tw_refusal refusal = {0};
    struct watch *watch = calloc(1, sizeof *watch);
    if (watch != NULL && watch_begin(watch, call, request, &refusal)) {
        tw_call_data_set(call, watch);
        watch_pump(call, watch);
        return;
    }
    if (watch != NULL)
        watch_free(watch);
    if (refusal.reason == REFUSAL(UNSPECIFIED)) {
        refusal.retry_after_ns = TW_NS_PER_S;
        tw_refuse(&refusal, REFUSAL(OVERLOADED), NULL, "no memory for another watcher");
    }
    tw_call_refuse(call, &refusal);
}

void tw_watch_copies_on_news(struct tw_call *call)
{
    struct watch *watch = tw_call_data(call);
    if (watch != NULL)
        watch_pump(call, watch);
}

void tw_watch_copies_on_timer(struct tw_call *call)
{
    struct watch *watch = tw_call_data(call);
    int64_t write_ns = tw_call_write_started_mono_ns(call);
    if (watch == NULL)
        return;
    if (write_ns == 0 || tw_mono_ns() - write_ns < HOPELESS_NS) {
        watch_pump(call, watch);
        return;
    }
    struct tw_refusal refusal = {0};
    tw_refuse(&refusal, REFUSAL(SUBSCRIBER_TOO_SLOW), NULL, "nothing was read for 30 s");
    tw_call_evict(call, &refusal);
}

void tw_watch_copies_on_finished(struct tw_call *call, bool cancelled)
{
    (void)cancelled;
    struct watch *watch = tw_call_data(call);
    if (watch != NULL)
        watch_free(watch);
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
