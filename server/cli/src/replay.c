/* tradewake replay: prepare, send, wait, count. */
#include "replay.h"

#include <tradewake/base/clock.h>
#include <tradewake/paper/v1/paper.pb-c.h>
#include <tradewake/v1/copies.pb-c.h>
#include <tradewake/v1/followers.pb-c.h>
#include <tradewake/v1/metrics.pb-c.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES_MAX         ((size_t)64 << 20)
#define SPEED_MAX              1000000 /* x; above that it is max */
#define INSTRUMENTS_PER_CALL   100u
#define POLL_MS                100
#define PAGE                   1000u /* of copies: the most that an answer has */
#define TALLY_MAX              64u   /* kinds of state and reason; a replay sees a handful */
#define CONTRACT_OF_CURRENCIES "100000"

static const char *const list_copies = "/tradewake.v1.CopyService/ListCopies";
static const char *const get_master = "/tradewake.v1.EventService/GetMaster";
static const char *const get_own_time = "/tradewake.v1.MetricsService/GetOwnTimeSummary";
static const char *const configure_paper = "/tradewake.paper.v1.PaperService/Configure";
static const char *const get_book = "/tradewake.paper.v1.PaperService/GetBook";
static const char *const list_followers = "/tradewake.v1.FollowerService/ListFollowers";
static const char *const create_subscription = "/tradewake.v1.FollowerService/CreateSubscription";

struct state_count {
    int32_t state, reason;
    uint32_t count;
};

struct books {
    uint32_t followers, positions_min, positions_max;
    bool is_known;
};

struct replay {
    struct session *session;
    const char *file, *master_id;
    char *bytes;
    size_t size;
    struct tw_history history;
    struct replay_names names;
    int64_t *due_ns;
    uint32_t subscribed;
    bool has_paper;

    struct replay_result result;
    uint32_t pending; /* copies not at their end after --wait */
    bool was_counted;
    struct state_count counts[TALLY_MAX];
    uint32_t n_counts, copies_counted;
    const Tradewake__V1__Histogram *own_before; /* in the session's arena */
    Tradewake__V1__Histogram *own;              /* of this run; NULL = not known */
    uint64_t held;
    uint32_t open_positions; /* of the master, as the server has it */
    struct books books;
};

/* ---- Reading ---- */

static int read_file(struct replay *replay)
{
    FILE *file = fopen(replay->file, "rbe");
    if (file == NULL) {
        session_error(replay->session, "cannot read %s: %s", replay->file, strerror(errno));
        return TW_EXIT_USAGE;
    }
    replay->bytes = malloc(FILE_BYTES_MAX + 1);
    if (replay->bytes != NULL)
        replay->size = fread(replay->bytes, 1, FILE_BYTES_MAX + 1, file);
    bool is_bad = replay->bytes == NULL || ferror(file) != 0;
    int why = errno;
    fclose(file);
    if (is_bad) {
        session_error(replay->session, "cannot read %s: %s", replay->file, strerror(why));
        return TW_EXIT_USAGE;
    }
    if (replay->size > FILE_BYTES_MAX) {
        session_error(replay->session, "%s is larger than %zu MiB", replay->file,
                      FILE_BYTES_MAX >> 20);
        return TW_EXIT_USAGE;
    }
    return TW_EXIT_DONE;
}

static int read_history(struct replay *replay)
{
    struct tw_error error;
    const char *run = args_text(&replay->session->args, "--run");
    int code = read_file(replay);
    if (code != TW_EXIT_DONE)
        return code;
    if (tw_history_read(replay->file, replay->bytes, replay->size, &replay->history, &error) !=
        TW_OK) {
        session_error(replay->session, "%s", error.text);
        return TW_EXIT_USAGE;
    }
    if (!replay_names_init(&replay->names, replay->master_id, run, (const uint8_t *)replay->bytes,
                           replay->size))
        return usage_error(
            replay->session->command,
            "flag --run: found \"%s\", expected 1 to %u characters of [A-Za-z0-9._:-]",
            run != NULL ? run : "", REPLAY_RUN_CHARS_MAX);
    if (strlen(replay->master_id) >= TW_ID_BYTES)
        return usage_error(replay->session->command,
                           "flag --master: expected at most %u characters", TW_ID_CHARS_MAX);
    return TW_EXIT_DONE;
}

/* "60x", "60" or "max"; 0 = max, -1 = neither. */
static int64_t parse_speed(const char *text)
{
    char *end;
    if (strcmp(text, "max") == 0)
        return 0;
    if (text[0] < '1' || text[0] > '9')
        return -1;
    long long speed = strtoll(text, &end, 10);
    bool is_good = speed <= SPEED_MAX && (*end == '\0' || strcmp(end, "x") == 0);
    return is_good ? speed : -1;
}

/* When each event is due, from the start. */
static int plan_times(struct replay *replay)
{
    const char *text = args_text(&replay->session->args, "--speed");
    int64_t speed = parse_speed(text),
            gap_max_ns = args_number(&replay->session->args, "--max-gap");
    if (speed < 0)
        return usage_error(
            replay->session->command,
            "flag --speed: found \"%s\", expected max, or a number such as 60x, at most %dx", text,
            SPEED_MAX);
    if (speed == 0)
        return TW_EXIT_DONE;
    const struct tw_history *history = &replay->history;
    replay->due_ns = calloc(history->n_events, sizeof *replay->due_ns);
    if (replay->due_ns == NULL)
        return session_error(replay->session, "no memory");
    for (uint32_t i = 1; i < history->n_events; i++) {
        int64_t gap_s = history->events[i].at_s - history->events[i - 1].at_s;
        int64_t gap_ns = gap_s / speed * TW_NS_PER_S + gap_s % speed * TW_NS_PER_S / speed;
        if (gap_max_ns > 0 && gap_ns > gap_max_ns)
            gap_ns = gap_max_ns;
        replay->due_ns[i] = replay->due_ns[i - 1] + gap_ns;
    }
    return TW_EXIT_DONE;
}

/* ---- Preparing the server ---- */

/* How many follow the master; 0 also when nobody ever did. */
static int ask_master(struct replay *replay)
{
    Tradewake__V1__GetMasterRequest request = TRADEWAKE__V1__GET_MASTER_REQUEST__INIT;
    struct tw_wire_answer answer = {0};
    struct tw_error error = {0};
    ProtobufCMessage *response;
    char master_id[TW_ID_BYTES];
    snprintf(master_id, sizeof master_id, "%s", replay->master_id);
    request.master_id = master_id;
    tw_status status = tw_wire_client_call(replay->session->client, get_master, &request.base,
                                           session_deadline(replay->session),
                                           &replay->session->arena, &response, &answer, &error);
    replay->subscribed = 0;
    if (status == TW_OK) {
        const Tradewake__V1__Master *master = (const void *)response;
        replay->subscribed = master->followers;
        replay->open_positions = master->open_positions;
        return TW_EXIT_DONE;
    }
    bool is_unknown =
        answer.refusal.reason == TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_MASTER_NOT_FOUND ||
        answer.refusal.reason == TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_NOT_FOUND;
    return is_unknown ? TW_EXIT_DONE : session_failed(replay->session, status, &answer, &error);
}

/* Six letters are a pair of currencies; everything else counts in units. */
static bool is_currency_pair(const char *symbol)
{
    size_t letters = 0;
    for (; (symbol[letters] >= 'A' && symbol[letters] <= 'Z') ||
           (symbol[letters] >= 'a' && symbol[letters] <= 'z');
         letters++)
        ;
    return letters == 6 && symbol[6] == '\0';
}

static void fill_instrument(Tradewake__Paper__V1__Instrument *instrument, char *symbol)
{
    static char min[] = "0.01", max[] = "1000", units[] = "1",
                currencies[] = CONTRACT_OF_CURRENCIES, tick[] = "0.00000001";
    tradewake__paper__v1__instrument__init(instrument);
    instrument->symbol = symbol;
    instrument->min_volume = min;
    instrument->volume_step = min;
    instrument->max_volume = max;
    instrument->contract_size = is_currency_pair(symbol) ? currencies : units;
    instrument->tick_size = tick;
}

/* Makes the file's symbols known to the paper accounts, where the server has such. */
static int configure_symbols(struct replay *replay)
{
    Tradewake__Paper__V1__Instrument instruments[INSTRUMENTS_PER_CALL];
    Tradewake__Paper__V1__Instrument *pointers[INSTRUMENTS_PER_CALL];
    for (uint32_t first = 0; first < replay->history.n_symbols; first += INSTRUMENTS_PER_CALL) {
        Tradewake__Paper__V1__ConfigureRequest request =
            TRADEWAKE__PAPER__V1__CONFIGURE_REQUEST__INIT;
        struct tw_wire_answer answer = {0};
        struct tw_error error = {0};
        ProtobufCMessage *response;
        request.instruments = pointers;
        for (uint32_t i = first;
             i < replay->history.n_symbols && request.n_instruments < INSTRUMENTS_PER_CALL; i++) {
            Tradewake__Paper__V1__Instrument *instrument = &instruments[request.n_instruments];
            fill_instrument(instrument, replay->history.symbols[i]);
            pointers[request.n_instruments++] = instrument;
        }
        tw_status status = tw_wire_client_call(replay->session->client, configure_paper,
                                               &request.base, session_deadline(replay->session),
                                               &replay->session->arena, &response, &answer, &error);
        if (tw_grpc_code_name(answer.code)[0] != '\0' &&
            strcmp(tw_grpc_code_name(answer.code), "UNIMPLEMENTED") == 0)
            return TW_EXIT_DONE; /* real brokers know their symbols */
        if (status != TW_OK)
            return session_failed(replay->session, status, &answer, &error);
        replay->has_paper = true;
    }
    return TW_EXIT_DONE;
}

static int subscribe(struct replay *replay, char *follower_id)
{
    Tradewake__V1__CreateSubscriptionRequest request =
        TRADEWAKE__V1__CREATE_SUBSCRIPTION_REQUEST__INIT;
    Tradewake__V1__Subscription subscription = TRADEWAKE__V1__SUBSCRIPTION__INIT;
    struct tw_wire_answer answer = {0};
    struct tw_error error = {0};
    ProtobufCMessage *response;
    char master_id[TW_ID_BYTES];
    snprintf(master_id, sizeof master_id, "%s", replay->master_id);
    subscription.master_id = master_id;
    subscription.follower_id = follower_id;
    request.subscription = &subscription;
    tw_status status = tw_wire_client_call(replay->session->client, create_subscription,
                                           &request.base, session_deadline(replay->session),
                                           &replay->session->arena, &response, &answer, &error);
    bool is_there =
        answer.refusal.reason == TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_ALREADY_EXISTS;
    return status == TW_OK || is_there ? TW_EXIT_DONE
                                       : session_failed(replay->session, status, &answer, &error);
}

/* Calls back with every follower of the master ("" = of anybody). */
typedef int follower_fn(struct replay *replay, const Tradewake__V1__Follower *follower);

static int each_follower(struct replay *replay, const char *master_id, follower_fn *visit)
{
    char token[256] = "", master[TW_ID_BYTES];
    snprintf(master, sizeof master, "%s", master_id);
    do {
        Tradewake__V1__ListFollowersRequest request = TRADEWAKE__V1__LIST_FOLLOWERS_REQUEST__INIT;
        ProtobufCMessage *response;
        request.page_size = PAGE;
        request.page_token = token;
        request.master_id = master;
        int code = session_call(replay->session, list_followers, &request.base,
                                &replay->session->arena, &response);
        const Tradewake__V1__ListFollowersResponse *page = (const void *)response;
        for (size_t i = 0; code == TW_EXIT_DONE && i < page->n_followers; i++)
            code = visit(replay, page->followers[i]);
        if (code != TW_EXIT_DONE)
            return code;
        snprintf(token, sizeof token, "%s", page->next_page_token);
    } while (token[0] != '\0');
    return TW_EXIT_DONE;
}

static int subscribe_visit(struct replay *replay, const Tradewake__V1__Follower *follower)
{
    return subscribe(replay, follower->follower_id);
}

static const Tradewake__V1__SummaryGroup *ask_own_time(struct replay *replay)
{
    Tradewake__V1__GetOwnTimeSummaryRequest request =
        TRADEWAKE__V1__GET_OWN_TIME_SUMMARY_REQUEST__INIT;
    Tradewake__V1__SampleFilter filter = TRADEWAKE__V1__SAMPLE_FILTER__INIT;
    struct tw_wire_answer answer;
    ProtobufCMessage *response;
    char master_id[TW_ID_BYTES];
    snprintf(master_id, sizeof master_id, "%s", replay->master_id);
    filter.master_id = master_id;
    request.filter = &filter;
    if (session_try(replay->session, get_own_time, &request.base, &replay->session->arena,
                    &response, &answer) != TW_OK)
        return NULL;
    const Tradewake__V1__OwnTimeSummary *summary = (const void *)response;
    return summary->n_groups > 0 ? summary->groups[0] : NULL;
}

static int prepare(struct replay *replay)
{
    int code = session_connect(replay->session);
    if (code == TW_EXIT_DONE)
        code = ask_master(replay);
    bool is_new = code == TW_EXIT_DONE && replay->subscribed == 0;
    if (code == TW_EXIT_DONE)
        code = configure_symbols(replay);
    if (is_new && code == TW_EXIT_DONE && replay->has_paper)
        code = each_follower(replay, "", subscribe_visit);
    if (is_new && code == TW_EXIT_DONE)
        code = ask_master(replay);
    if (code != TW_EXIT_DONE)
        return code;
    if (replay->subscribed == 0)
        return session_error(
            replay->session,
            "nobody follows %s: `tradewake subscriptions create --master %s --follower F` first",
            replay->master_id, replay->master_id);
    const Tradewake__V1__SummaryGroup *before = ask_own_time(replay);
    replay->own_before = before != NULL ? before->own_time : NULL;
    replay->held = before != NULL ? before->held : 0;
    return TW_EXIT_DONE;
}

/* ---- After the last event ---- */

/* One page of the master's copies, in arena. NULL: it failed, and that was printed. */
static const Tradewake__V1__ListCopiesResponse *
ask_copies(struct replay *replay, bool only_pending, const char *token, struct tw_arena *arena)
{
    static Tradewake__V1__CopyState pending_states[] = {
        TRADEWAKE__V1__COPY_STATE__COPY_STATE_QUEUED, TRADEWAKE__V1__COPY_STATE__COPY_STATE_SENT,
        TRADEWAKE__V1__COPY_STATE__COPY_STATE_UNKNOWN};
    Tradewake__V1__ListCopiesRequest request = TRADEWAKE__V1__LIST_COPIES_REQUEST__INIT;
    Tradewake__V1__CopyFilter filter = TRADEWAKE__V1__COPY_FILTER__INIT;
    Google__Protobuf__Timestamp from = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    ProtobufCMessage *response;
    char master_id[TW_ID_BYTES], page_token[256];
    snprintf(master_id, sizeof master_id, "%s", replay->master_id);
    snprintf(page_token, sizeof page_token, "%s", token);
    filter.master_id = master_id;
    if (only_pending) {
        filter.states = pending_states;
        filter.n_states = COUNT(pending_states);
    } else if (replay->result.duplicates == 0) { /* else some are from an earlier run */
        from.seconds = replay->result.first_received_s;
        filter.received_from = &from;
    }
    request.filter = &filter;
    request.page_size = PAGE;
    request.page_token = page_token;
    int code = session_call(replay->session, list_copies, &request.base, arena, &response);
    return code == TW_EXIT_DONE ? (const void *)response : NULL;
}

static bool is_ours(const struct replay *replay, const Tradewake__V1__Copy *copy)
{
    return strncmp(copy->event_id, replay->names.prefix, strlen(replay->names.prefix)) == 0;
}

static void tally(struct replay *replay, const Tradewake__V1__Copy *copy)
{
    uint32_t at = 0;
    while (at < replay->n_counts && (replay->counts[at].state != (int32_t)copy->state ||
                                     replay->counts[at].reason != (int32_t)copy->reason))
        at++;
    if (at == TALLY_MAX)
        return;
    if (at == replay->n_counts)
        replay->counts[replay->n_counts++] =
            (struct state_count){(int32_t)copy->state, (int32_t)copy->reason, 0};
    replay->counts[at].count++;
    replay->copies_counted++;
}

/* Waits until no copy of the file is on its way, at most --wait. */
static int await_copies(struct replay *replay)
{
    int64_t span_ns = args_number(&replay->session->args, "--wait"),
            until_ns = tw_mono_ns() + span_ns;
    bool shows = isatty(STDERR_FILENO) != 0;
    struct tw_arena arena;
    int code = TW_EXIT_DONE;
    tw_arena_init(&arena, (size_t)64 << 20);
    while (span_ns > 0) {
        const Tradewake__V1__ListCopiesResponse *page = ask_copies(replay, true, "", &arena);
        if (page == NULL) {
            code = TW_EXIT_FAILED;
            break;
        }
        replay->pending = 0;
        for (size_t i = 0; i < page->n_copies; i++)
            replay->pending += is_ours(replay, page->copies[i]);
        bool is_more = page->next_page_token[0] != '\0';
        if (shows)
            fprintf(stderr, "\rwaiting for %" PRIu32 "%s copies ", replay->pending,
                    is_more ? " and more" : "");
        tw_arena_reset(&arena);
        if ((replay->pending == 0 && !is_more) || tw_mono_ns() >= until_ns || interrupted())
            break;
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * TW_NS_PER_MS}, NULL);
    }
    if (shows)
        fprintf(stderr, "\r%60s\r", "");
    tw_arena_clear(&arena);
    return code;
}

static int count_copies(struct replay *replay)
{
    struct tw_arena arena;
    char token[256] = "";
    int code = TW_EXIT_DONE;
    tw_arena_init(&arena, (size_t)64 << 20);
    do {
        const Tradewake__V1__ListCopiesResponse *page = ask_copies(replay, false, token, &arena);
        if (page == NULL) {
            code = TW_EXIT_FAILED;
            break;
        }
        for (size_t i = 0; i < page->n_copies; i++)
            if (is_ours(replay, page->copies[i]))
                tally(replay, page->copies[i]);
        snprintf(token, sizeof token, "%s", page->next_page_token);
        tw_arena_reset(&arena);
    } while (token[0] != '\0' && !interrupted());
    tw_arena_clear(&arena);
    replay->was_counted = code == TW_EXIT_DONE;
    return code;
}

/* What `later` has more than `before`: buckets of two histograms add and subtract. */
static void subtract_before(Tradewake__V1__Histogram *later, const Tradewake__V1__Histogram *before)
{
    size_t at = 0;
    for (size_t i = 0; before != NULL && i < later->n_bucket_upper_ns; i++) {
        while (at < before->n_bucket_upper_ns &&
               before->bucket_upper_ns[at] < later->bucket_upper_ns[i])
            at++;
        if (at < before->n_bucket_upper_ns &&
            before->bucket_upper_ns[at] == later->bucket_upper_ns[i])
            later->bucket_count[i] -= before->bucket_count[at];
    }
    if (before != NULL)
        later->count -= before->count;
}

/* The bound of the bucket that holds the value below which `per_mille` of them lie. */
static uint64_t percentile(const Tradewake__V1__Histogram *histogram, uint64_t per_mille)
{
    uint64_t rank = (histogram->count * per_mille + 999) / 1000, seen = 0;
    for (size_t i = 0; i < histogram->n_bucket_count; i++) {
        seen += histogram->bucket_count[i];
        if (seen >= rank && seen > 0)
            return histogram->bucket_upper_ns[i] < histogram->max_ns ? histogram->bucket_upper_ns[i]
                                                                     : histogram->max_ns;
    }
    return histogram->max_ns;
}

static void measure(struct replay *replay)
{
    const Tradewake__V1__SummaryGroup *after = ask_own_time(replay);
    if (after == NULL || after->own_time == NULL)
        return;
    replay->own = after->own_time; /* in the session's arena: ours to change */
    replay->held = after->held - replay->held;
    subtract_before(replay->own, replay->own_before);
}

static int book_visit(struct replay *replay, const Tradewake__V1__Follower *follower)
{
    Tradewake__Paper__V1__GetBookRequest request = TRADEWAKE__PAPER__V1__GET_BOOK_REQUEST__INIT;
    struct tw_wire_answer answer;
    struct tw_arena arena;
    ProtobufCMessage *response;
    request.follower_id = follower->follower_id;
    tw_arena_init(&arena, (size_t)256 << 20);
    if (session_try(replay->session, get_book, &request.base, &arena, &response, &answer) ==
        TW_OK) {
        struct books *books = &replay->books;
        uint32_t n =
            (uint32_t)((const Tradewake__Paper__V1__GetBookResponse *)(const void *)response)
                ->n_positions;
        books->positions_min =
            !books->is_known || n < books->positions_min ? n : books->positions_min;
        books->positions_max = n > books->positions_max ? n : books->positions_max;
        books->followers++;
        books->is_known = true;
    }
    tw_arena_clear(&arena);
    return TW_EXIT_DONE;
}

/* ---- The summary ---- */

static int by_count(const void *a, const void *b)
{
    const struct state_count *left = a, *right = b;
    return (left->count < right->count) - (left->count > right->count);
}

static char *day_text(int64_t at_s, char text[16])
{
    struct tm parts;
    time_t seconds = (time_t)at_s;
    if (gmtime_r(&seconds, &parts) == NULL || strftime(text, 16, "%Y-%m-%d", &parts) == 0)
        snprintf(text, 16, "?");
    return text;
}

static void print_file(const struct replay *replay, FILE *out)
{
    const struct tw_history *history = &replay->history;
    char from[16], until[16];
    fprintf(out, "%s: %s, %" PRIu32 " events (", replay->file,
            tw_history_format_words(history->format), history->n_events);
    for (int kind = 0, printed = 0; kind < TW_HISTORY_KIND_COUNT; kind++)
        if (history->by_kind[kind] > 0)
            fprintf(out, "%s%" PRIu32 " %s", printed++ > 0 ? ", " : "", history->by_kind[kind],
                    tw_history_kind_word((enum tw_history_kind)kind));
    fprintf(out, "), %" PRIu32 " symbols, %s to %s\n", history->n_symbols,
            day_text(history->events[0].at_s, from),
            day_text(history->events[history->n_events - 1].at_s, until));
    if (history->events_moved > 0)
        fprintf(out,
                "  %" PRIu32 " events lay before what they depend on, and were put behind it\n",
                history->events_moved);
}

static void print_answers(const struct replay *replay)
{
    const struct replay_result *result = &replay->result;
    printf("sent %" PRIu32 " events to %" PRIu32 " followers: %" PRIu64
           " copies accepted + %" PRIu64 " skipped, %" PRIu32 " duplicates, %" PRIu32
           " refused, %" PRIu32 " sent again\n",
           result->answered, replay->subscribed, result->accepted, result->skipped,
           result->duplicates, result->refused, result->resent);
    uint32_t answered = result->answered - result->refused;
    printf("accepted + skipped = %" PRIu32 " subscribed for %" PRIu32 " of %" PRIu32 " events\n",
           replay->subscribed, answered - result->mismatched, answered);
    for (uint32_t i = 0; i < result->mismatched && i < REPLAY_REFUSALS_KEPT; i++)
        printf("  %s\n", result->mismatches[i]);
    for (uint32_t i = 0; i < result->refused && i < REPLAY_REFUSALS_KEPT; i++)
        printf("  event %s refused: %s\n", result->refusals[i].event_id, result->refusals[i].text);
    if (result->refused > REPLAY_REFUSALS_KEPT)
        printf("  and %" PRIu32 " more\n", result->refused - REPLAY_REFUSALS_KEPT);
}

static void print_counts(const struct replay *replay)
{
    static const struct column columns[] = {
        {"STATE", NULL, TW_FIELD_PLAIN},
        {"REASON", NULL, TW_FIELD_PLAIN},
        {"COPIES", NULL, TW_FIELD_PLAIN},
        {0},
    };
    struct table *table = table_new(columns);
    for (uint32_t i = 0; i < replay->n_counts; i++) {
        char state[64], reason[64], count[24];
        tw_fields_enum(&tradewake__v1__copy_state__descriptor, replay->counts[i].state, true, state,
                       sizeof state);
        tw_fields_enum(&tradewake__v1__reason__descriptor, replay->counts[i].reason, true, reason,
                       sizeof reason);
        snprintf(count, sizeof count, "%" PRIu32, replay->counts[i].count);
        table_add_texts(table, (const char *const[]){state, reason, count});
    }
    table_print(table, stdout);
    table_free(table);
}

static uint64_t copies_expected(const struct replay *replay)
{
    return replay->result.accepted + replay->result.skipped;
}

static void print_ms(const char *name, uint64_t ns)
{
    printf("  %s %" PRIu64 ".%03" PRIu64 " ms", name, ns / 1000000, ns / 1000 % 1000);
}

static void print_summary(const struct replay *replay)
{
    print_file(replay, stdout);
    print_answers(replay);
    if (replay->was_counted)
        print_counts(replay);
    if (replay->was_counted && replay->copies_counted < copies_expected(replay))
        printf("%" PRIu64 " copies are not remembered any more (copies.remembered)\n",
               copies_expected(replay) - replay->copies_counted);
    if (replay->pending > 0)
        printf("%" PRIu32 "%s copies are still on their way: `tradewake copies --master %s --state "
               "queued --state sent --state unknown`\n",
               replay->pending, replay->pending == PAGE ? " or more" : "", replay->master_id);
    if (replay->own != NULL && replay->own->count > 0) {
        printf("own time of %" PRIu64 " copies:", replay->own->count);
        print_ms("p50", percentile(replay->own, 500));
        print_ms("p95", percentile(replay->own, 950));
        print_ms("max", percentile(replay->own, 1000));
        printf("; %" PRIu64 " more waited for their turn\n", replay->held);
    }
    printf("the file ends with %" PRIu32 " positions and %" PRIu32
           " orders held; the server counts %" PRIu32 " positions of %s\n",
           replay->history.positions_held, replay->history.orders_held, replay->open_positions,
           replay->master_id);
    if (replay->books.is_known)
        printf("paper books: %" PRIu32 " to %" PRIu32 " positions at each of %" PRIu32
               " followers, of all masters\n",
               replay->books.positions_min, replay->books.positions_max, replay->books.followers);
}

static void json_member(struct tw_json *json, const char *key, uint64_t value)
{
    tw_json_key(json, key);
    tw_json_number(json, (int64_t)value);
}

static void json_counts(const struct replay *replay, struct tw_json *json)
{
    tw_json_key(json, "copies");
    tw_json_array(json);
    for (uint32_t i = 0; i < replay->n_counts; i++) {
        char text[64];
        tw_json_object(json);
        tw_json_key(json, "state");
        tw_json_text(json, tw_fields_enum(&tradewake__v1__copy_state__descriptor,
                                          replay->counts[i].state, false, text, sizeof text));
        tw_json_key(json, "reason");
        tw_json_text(json, tw_fields_enum(&tradewake__v1__reason__descriptor,
                                          replay->counts[i].reason, false, text, sizeof text));
        json_member(json, "count", replay->counts[i].count);
        tw_json_end(json, false);
    }
    tw_json_end(json, true);
}

static void json_refusals(const struct replay *replay, struct tw_json *json)
{
    tw_json_key(json, "first_refusals");
    tw_json_array(json);
    for (uint32_t i = 0; i < replay->result.refused && i < REPLAY_REFUSALS_KEPT; i++) {
        const struct replay_refusal *refusal = &replay->result.refusals[i];
        const char *const members[][2] = {{"event_id", refusal->event_id},
                                          {"reason", refusal->reason},
                                          {"field", refusal->field},
                                          {"message", refusal->text}};
        tw_json_object(json);
        for (size_t m = 0; m < COUNT(members); m++) {
            tw_json_key(json, members[m][0]);
            tw_json_text(json, members[m][1]);
        }
        tw_json_end(json, false);
    }
    tw_json_end(json, true);
}

static void json_summary(const struct replay *replay, struct tw_json *json)
{
    const struct replay_result *result = &replay->result;
    tw_json_object(json);
    tw_json_key(json, "file");
    tw_json_text(json, replay->file);
    tw_json_key(json, "format");
    tw_json_text(json, tw_history_format_words(replay->history.format));
    json_member(json, "events", replay->history.n_events);
    json_member(json, "subscribed", replay->subscribed);
    json_member(json, "answered", result->answered);
    json_member(json, "accepted", result->accepted);
    json_member(json, "skipped", result->skipped);
    json_member(json, "duplicates", result->duplicates);
    json_member(json, "refused", result->refused);
    json_member(json, "sent_again", result->resent);
    json_member(json, "mismatched", result->mismatched);
    json_member(json, "pending", replay->pending);
    json_member(json, "positions_held", replay->history.positions_held);
    json_member(json, "orders_held", replay->history.orders_held);
    json_member(json, "open_positions", replay->open_positions);
    json_counts(replay, json);
    json_refusals(replay, json);
    if (replay->own != NULL && replay->own->count > 0) {
        tw_json_key(json, "own_time");
        tw_json_object(json);
        json_member(json, "count", replay->own->count);
        json_member(json, "p50_ns", percentile(replay->own, 500));
        json_member(json, "p95_ns", percentile(replay->own, 950));
        json_member(json, "max_ns", percentile(replay->own, 1000));
        json_member(json, "held", replay->held);
        tw_json_end(json, false);
    }
    if (replay->books.is_known) {
        tw_json_key(json, "paper_books");
        tw_json_object(json);
        json_member(json, "followers", replay->books.followers);
        json_member(json, "positions_min", replay->books.positions_min);
        json_member(json, "positions_max", replay->books.positions_max);
        tw_json_end(json, false);
    }
    tw_json_end(json, false);
}

/* The events, one a line, instead of sending them. */
static void print_dry(const struct replay *replay)
{
    for (uint32_t i = 0; i < replay->history.n_events; i++) {
        struct replay_request request;
        replay_request_init(&request, &replay->names, &replay->history.events[i],
                            replay->history.events[i].at_s * TW_NS_PER_S);
        struct tw_json json = {.out = stdout};
        tw_json_message(&json, &request.event.base);
    }
    print_file(replay, stderr);
}

/* ---- The command ---- */

static int send_and_count(struct replay *replay)
{
    const struct replay_sending sending = {
        .session = replay->session,
        .history = &replay->history,
        .names = &replay->names,
        .due_ns = replay->due_ns,
        .subscribed = replay->subscribed,
        .floods = args_has(&replay->session->args, "--flood"),
        .shows_progress = isatty(STDERR_FILENO) != 0,
    };
    bool shows_length = replay->due_ns != NULL && !replay->session->is_json;
    if (shows_length)
        fprintf(stderr, "the last event is due in %" PRId64 " s; --max-gap shortens pauses\n",
                replay->due_ns[replay->history.n_events - 1] / TW_NS_PER_S);
    int code = replay_send(&sending, &replay->result);
    if (code == TW_EXIT_DONE)
        code = await_copies(replay);
    if (code == TW_EXIT_DONE)
        code = count_copies(replay);
    if (code == TW_EXIT_DONE) {
        measure(replay);
        code = ask_master(replay);
    }
    if (code == TW_EXIT_DONE && replay->has_paper)
        code = each_follower(replay, replay->master_id, book_visit);
    qsort(replay->counts, replay->n_counts, sizeof replay->counts[0], by_count);
    if (replay->result.answered > 0 && replay->session->is_json)
        json_summary(replay, &replay->session->json);
    else if (replay->result.answered > 0)
        print_summary(replay);
    if (code != TW_EXIT_DONE)
        return code;
    bool is_clean =
        replay->result.refused == 0 && replay->result.mismatched == 0 && replay->pending == 0;
    return is_clean ? TW_EXIT_DONE : TW_EXIT_FAILED;
}

int run_replay(struct session *session)
{
    struct replay *replay = calloc(1, sizeof *replay);
    if (replay == NULL)
        return session_error(session, "no memory");
    replay->session = session;
    replay->file = session->args.operands[0];
    replay->master_id = args_text(&session->args, "--master");

    int code = read_history(replay);
    if (code == TW_EXIT_DONE)
        code = plan_times(replay);
    if (code == TW_EXIT_DONE && args_has(&session->args, "--dry-run")) {
        print_dry(replay);
    } else {
        if (code == TW_EXIT_DONE)
            code = prepare(replay);
        if (code == TW_EXIT_DONE)
            code = send_and_count(replay);
    }
    tw_history_clear(&replay->history);
    free(replay->due_ns);
    free(replay->bytes);
    free(replay);
    return code;
}
