#include "session.h"

#include "border.h"
#include "hand.h"

#include <tradewake/adapters/secret.h>
#include <tradewake/base/clock.h>
#include <tradewake/base/limits.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REASON(name) TRADEWAKE__V1__REASON__REASON_##name

#define LOOK_NS          (250 * TW_NS_PER_MS) /* the keeper's pace: quotes and events */
#define REOPEN_NS_MIN    (100 * TW_NS_PER_MS)
#define REOPEN_NS_MAX    (5 * TW_NS_PER_S)
enum { KEEPER_STACK_BYTES = 512 * 1024, ITEMS_MAX = 100000, WHY_BYTES = 320 };

struct link {
    struct twp_session *handle;
    struct hand *hand; /* AFFINE: who makes its calls; else NULL, and the caller does */
    struct link *next;
    uint32_t calls; /* inside the library now, the keeper's too; */
    uint32_t taken; /* of these, the workers' */
    int64_t due_mono_ns; /* when its call is over and lost, where it takes one at a time */
    bool is_lost;        /* no more calls; closed when nobody is in it */
};

struct session {
    /* Set by session_open(), read-only afterwards: any thread. */
    struct library *library;
    struct options options;
    const char *secrets_dir;
    struct tw_session_host host;
    uint32_t calls_max; /* of a link */
    pthread_t keeper;

    pthread_mutex_t lock; /* guards what follows; not held in a call into the library or the host */
    pthread_cond_t given; /* a link came back, or the last one is lost */
    pthread_cond_t news;  /* for the keeper */
    struct link *links;
    uint32_t n_alive, n_waiting;
    bool is_connected; /* told so, and meant so */
    bool is_closing, has_news, is_keeper_gone;

    /* Held while the host is told: behind a keeper that never comes back nobody is told any more. */
    pthread_mutex_t telling;
    bool is_abandoned;

    /* The keeper's alone. */
    struct due looking; /* the library's, while the keeper looks through a link that orders want */
    int64_t reopen_mono_ns, reopen_pause_ns;
    char why[WHY_BYTES];
};

static struct timespec timespec_of(int64_t mono_ns)
{
    return (struct timespec){mono_ns / TW_NS_PER_S, mono_ns % TW_NS_PER_S};
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- Links ---- */

static struct link *link_free_one(struct session *session)
{
    for (struct link *link = session->links; link != NULL; link = link->next)
        if (!link->is_lost && link->taken < session->calls_max)
            return link;
    return NULL;
}

/* NULL: there is none (then *ret_is_connected is false), or none came free in time. */
static struct link *link_take(struct session *session, int64_t until_mono_ns, bool *ret_is_connected)
{
    struct timespec until = timespec_of(until_mono_ns);
    pthread_mutex_lock(&session->lock);
    struct link *link = link_free_one(session);
    session->n_waiting++;
    for (int status = 0; link == NULL && session->is_connected && session->n_alive > 0 && status == 0;) {
        status = pthread_cond_clockwait(&session->given, &session->lock, CLOCK_MONOTONIC, &until);
        link = link_free_one(session);
    }
    session->n_waiting--;
    *ret_is_connected = session->is_connected && session->n_alive > 0;
    if (!session->is_connected)
        link = NULL;
    if (link != NULL) {
        link->calls++;
        link->taken++;
        link->due_mono_ns = until_mono_ns + LIBRARY_GRACE_NS;
    }
    pthread_mutex_unlock(&session->lock);
    return link;
}

static void link_lose(struct session *session, struct link *link)
{
    if (!link->is_lost)
        session->n_alive--;
    link->is_lost = true;
    session->has_news = true;
    pthread_cond_broadcast(&session->given); /* who waits for the last one waits for nothing */
    pthread_cond_signal(&session->news);
}

static void link_give(struct session *session, struct link *link, int32_t outcome)
{
    pthread_mutex_lock(&session->lock);
    link->calls--;
    link->taken--;
    if (outcome == TWP_SESSION_LOST)
        link_lose(session, link);
    else if (session->n_waiting > 0)
        pthread_cond_signal(&session->given);
    if (link->is_lost && link->calls == 0) {
        session->has_news = true;
        pthread_cond_signal(&session->news);
    }
    pthread_mutex_unlock(&session->lock);
}

static void link_back(struct session *session, struct link *link, int32_t outcome)
{
    pthread_mutex_lock(&session->lock);
    link->taken += session->calls_max > 1; /* link_give() takes it back */
    pthread_mutex_unlock(&session->lock);
    link_give(session, link, outcome);
}

/* For the keeper: one that no order waits for, and the library's turn, at once or not at all where that matters. */
static struct link *link_borrow(struct session *session, int64_t until_mono_ns, bool is_patient)
{
    bool is_free = session->calls_max > 1;
    pthread_mutex_lock(&session->lock);
    struct link *link = NULL;
    for (struct link *one = session->links; one != NULL && link == NULL; one = one->next)
        if (!one->is_lost && (is_free || (one->taken == 0 && session->n_waiting == 0)))
            link = one;
    if (link != NULL) {
        link->calls++;
        link->taken += !is_free; /* of FREE it takes no order's place */
        link->due_mono_ns = INT64_MAX; /* the keeper, who would see that it does not come back, is in it */
    }
    pthread_mutex_unlock(&session->lock);
    if (link == NULL || library_turn_take(session->library, is_patient ? until_mono_ns : 0, until_mono_ns))
        return link;
    link_back(session, link, TWP_DONE);
    return NULL;
}

static void link_return(struct session *session, struct link *link, int32_t outcome)
{
    library_turn_give(session->library);
    link_back(session, link, outcome);
}

/* ---- Calls ---- */

static void not_sent(struct tw_ack *ack, tw_reason reason, const char *words)
{
    *ack = (struct tw_ack){
        .outcome = TW_OUTCOME_RETRY_LATER, .reason = reason, .not_sent = true, .remaining_volume = TW_DECIMAL_UNSET};
    snprintf(ack->broker_message, sizeof ack->broker_message, "%s", words);
}

/* A question that could not be asked. */
static void not_asked(struct tw_ack *ack, tw_reason reason, const char *words)
{
    not_sent(ack, reason, words);
    ack->outcome = TW_OUTCOME_AMBIGUOUS;
}

typedef void refuse_fn(struct tw_ack *ack, tw_reason reason, const char *words);

static void end(struct session *session, struct link *link, int32_t outcome)
{
    library_turn_give(session->library);
    link_give(session, link, outcome);
}

/* A link, and the library's turn, or a refusal in ack: nothing has been sent then. */
static struct link *begin(struct session *session, struct tw_ack *ack, int64_t until_mono_ns, refuse_fn *refuse)
{
    bool is_connected = true;
    *ack = (struct tw_ack){.remaining_volume = TW_DECIMAL_UNSET};
    if (tw_mono_ns() >= until_mono_ns) {
        refuse(ack, REASON(TIMEOUT), "the deadline had passed");
        return NULL;
    }
    struct link *link = link_take(session, until_mono_ns, &is_connected);
    if (link == NULL) {
        refuse(ack, is_connected ? REASON(BUSY) : REASON(NO_CONNECTION),
               is_connected ? "every session at the broker was busy" : "no session at the broker");
    } else if (!library_turn_take(session->library, until_mono_ns, until_mono_ns)) {
        link_give(session, link, TWP_DONE);
        refuse(ack, REASON(BUSY), "the library was busy: it takes one call at a time");
        link = NULL;
    } else if (tw_mono_ns() >= until_mono_ns) {
        end(session, link, TWP_DONE);
        refuse(ack, REASON(TIMEOUT), "the deadline passed while it waited for a session");
        link = NULL;
    }
    return link;
}

static int64_t until_of(const struct session *session, const struct tw_adapter_call *call)
{
    return earlier(call->deadline_mono_ns, tw_mono_ns() + session->options.call_timeout_ns);
}

/* What a library may scribble over when it takes its answer for larger than it is told: of this size it is noticed. */
enum { GUARD_WORDS = 512 };
#define GUARD UINT64_C(0x7477506c7567696e)
struct exchange {
    struct twp_order order;
    uint64_t before[8];
    struct twp_result result;
    uint64_t after[GUARD_WORDS];
};

static void guards_set(struct exchange *exchange)
{
    for (size_t i = 0; i < sizeof exchange->before / sizeof exchange->before[0]; i++)
        exchange->before[i] = GUARD;
    for (size_t i = 0; i < GUARD_WORDS; i++)
        exchange->after[i] = GUARD;
}

static bool guards_hold(const struct exchange *exchange)
{
    for (size_t i = 0; i < sizeof exchange->before / sizeof exchange->before[0]; i++)
        if (exchange->before[i] != GUARD)
            return false;
    for (size_t i = 0; i < GUARD_WORDS; i++)
        if (exchange->after[i] != GUARD)
            return false;
    return true;
}

typedef int32_t order_fn(struct twp_session *session, const struct twp_order *order, struct twp_result *ret);
typedef int32_t list_fn(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list);

/* A call into the library, by whoever has to make it. */
struct calling {
    struct session *session;
    struct link *link;
    int32_t outcome;
    union {
        struct {
            order_fn *function;
            struct exchange *exchange;
        } order;
        struct {
            list_fn *function;
            const struct twp_list *list;
            int64_t until_mono_ns;
        } list;
        struct {
            struct twp_account *account;
            int64_t until_mono_ns;
        } account;
        struct {
            const struct twp_open *open;
            struct twp_session **ret;
            struct twp_words *words;
        } login;
    };
};

static int32_t call_make(struct calling *calling, struct hand *hand, hand_fn *run)
{
    hand_do(hand, run, calling);
    return calling->outcome;
}

static void order_run(void *context)
{
    struct calling *calling = context;
    struct exchange *exchange = calling->order.exchange;
    struct border border;
    exchange->result = (struct twp_result){.size = sizeof exchange->result, .remaining_volume = TWP_UNSET};
    guards_set(exchange);
    border_enter(&border);
    calling->outcome = calling->order.function(calling->link->handle, &exchange->order, &exchange->result);
    border_leave(calling->session->library, &border);
    if (!guards_hold(exchange)) {
        library_misbehaved(calling->session->library, "it wrote past the end of its answer");
        exchange->result.size = 0; /* nothing of it is believed */
    }
}

static int32_t order_call(struct session *session, struct link *link, order_fn *function, struct exchange *exchange)
{
    struct calling calling = {.session = session, .link = link, .order = {function, exchange}};
    return call_make(&calling, link->hand, order_run);
}

void session_execute(struct session *session, struct tw_adapter_call *call)
{
    struct exchange exchange;
    int64_t until_mono_ns = until_of(session, call);
    if (!border_order(&call->order, until_mono_ns, &exchange.order)) {
        not_sent(&call->ack, REASON(BROKER_OTHER), "an id of it is longer than a plugin takes");
        call->ack.outcome = TW_OUTCOME_REJECTED;
        return;
    }
    struct link *link = begin(session, &call->ack, until_mono_ns, not_sent);
    if (link == NULL)
        return;
    int32_t outcome = order_call(session, link, session->library->api.execute, &exchange);
    const char *what = border_answer(outcome, &exchange.result, &call->order, !session->options.is_netting,
                                     session->library->caps.code_table, &call->ack);
    if (what != NULL)
        library_misbehaved(session->library, what);
    end(session, link, outcome);
}

void session_lookup(struct session *session, struct tw_adapter_call *call)
{
    struct exchange exchange;
    int64_t until_mono_ns = until_of(session, call);
    if ((session->library->caps.can & TWP_CAN_LOOKUP) == 0 ||
        !border_order(&call->order, until_mono_ns, &exchange.order)) {
        not_asked(&call->ack, REASON(UNSPECIFIED), "this plugin cannot look an order up");
        return;
    }
    struct link *link = begin(session, &call->ack, until_mono_ns, not_asked);
    if (link == NULL)
        return;
    int32_t outcome = order_call(session, link, session->library->api.lookup, &exchange);
    const char *what = border_found(outcome, &exchange.result, session->library->caps.code_table, &call->ack);
    if (what != NULL)
        library_misbehaved(session->library, what);
    end(session, link, outcome);
}

/* ---- Lists ---- */

struct taking {
    struct session *session;
    struct tw_snapshot *snapshot;
    struct tw_instrument *instruments;
    size_t n_instruments;
    bool is_broken; /* an item is none, or there is no memory: the list is not whole */
};

/* One more place at the end of an array that doubles; NULL: no memory, or too many. */
static void *place(void **array, size_t n, size_t size)
{
    if (n >= ITEMS_MAX)
        return NULL;
    if ((n & (n - 1)) == 0) {
        void *larger = realloc(*array, (n == 0 ? 1 : 2 * n) * size);
        if (larger == NULL)
            return NULL;
        *array = larger;
    }
    return (char *)*array + n * size;
}

static int32_t broken(struct taking *taking, const char *what)
{
    taking->is_broken = true;
    library_misbehaved(taking->session->library, what);
    return 1;
}

static int32_t on_position_item(void *ctx, const void *item)
{
    struct taking *taking = ctx;
    struct tw_snapshot *to = taking->snapshot;
    struct tw_held_position *at = place((void **)&to->positions, to->n_positions, sizeof *at);
    if (at == NULL || !border_position(item, false, at))
        return broken(taking, "an item of its positions is none");
    to->n_positions++;
    return 0;
}

static int32_t on_order_item(void *ctx, const void *item)
{
    struct taking *taking = ctx;
    struct tw_snapshot *to = taking->snapshot;
    struct tw_held_order *at = place((void **)&to->orders, to->n_orders, sizeof *at);
    if (at == NULL || !border_pending(item, at))
        return broken(taking, "an item of its orders is none");
    to->n_orders++;
    return 0;
}

/* One that is wrong is left out: nothing is traded in it. */
static int32_t on_instrument_item(void *ctx, const void *item)
{
    struct taking *taking = ctx;
    struct tw_instrument *at = place((void **)&taking->instruments, taking->n_instruments, sizeof *at);
    if (at == NULL)
        return broken(taking, "its instruments do not fit");
    if (border_instrument(item, at))
        taking->n_instruments++;
    else
        library_misbehaved(taking->session->library, "an item of its instruments is none");
    return 0;
}

static void list_run(void *context)
{
    struct calling *calling = context;
    struct border border;
    border_enter(&border);
    calling->outcome = calling->list.function(calling->link->handle, calling->list.until_mono_ns, calling->list.list);
    border_leave(calling->session->library, &border);
}

/* TWP_DONE: whole. */
static int32_t list_call(struct session *session, struct link *link, list_fn *function, int64_t until_mono_ns,
                         int32_t (*add)(void *ctx, const void *item), struct taking *taking)
{
    const struct twp_list list = {.size = sizeof list, .ctx = taking, .add = add};
    struct calling calling = {.session = session, .link = link, .list = {function, &list, until_mono_ns}};
    int32_t outcome = call_make(&calling, link->hand, list_run);
    return outcome == TWP_DONE && taking->is_broken ? TWP_AMBIGUOUS : outcome;
}

static void account_run(void *context)
{
    struct calling *calling = context;
    struct session *session = calling->session;
    struct border border;
    border_enter(&border);
    calling->outcome =
        session->library->api.account(calling->link->handle, calling->account.until_mono_ns, calling->account.account);
    border_leave(session->library, &border);
}

static int32_t account_call(struct session *session, struct link *link, int64_t until_mono_ns, struct tw_account *ret,
                            bool *ret_is_netting)
{
    struct twp_account account = {
        .size = sizeof account, .balance = TWP_UNSET, .equity = TWP_UNSET, .free_margin = TWP_UNSET};
    struct calling calling = {.session = session, .link = link, .account = {&account, until_mono_ns}};
    int32_t outcome = call_make(&calling, link->hand, account_run);
    if (outcome == TWP_DONE && !border_account(&account, ret)) {
        library_misbehaved(session->library, "its account is none");
        outcome = TWP_AMBIGUOUS;
    }
    *ret_is_netting = account.is_netting != 0;
    return outcome;
}

void session_snapshot(struct session *session, struct tw_adapter_call *call)
{
    struct tw_snapshot *snapshot = call->snapshot;
    struct taking taking = {.session = session, .snapshot = snapshot};
    const struct twp_api *api = &session->library->api;
    int64_t until_mono_ns = until_of(session, call);
    bool is_netting;
    struct link *link = begin(session, &call->ack, until_mono_ns, not_sent);
    if (link == NULL)
        return;
    snapshot->as_of_wall_ns = tw_wall_ns(); /* what is newer than this may be missing */
    int32_t outcome = account_call(session, link, until_mono_ns, &snapshot->account, &is_netting);
    if (outcome == TWP_DONE)
        outcome = list_call(session, link, api->positions, until_mono_ns, on_position_item, &taking);
    if (outcome == TWP_DONE)
        outcome = list_call(session, link, api->orders, until_mono_ns, on_order_item, &taking);
    snapshot->complete = outcome == TWP_DONE;
    if (snapshot->complete)
        call->ack.outcome = TW_OUTCOME_DONE;
    else
        not_asked(&call->ack, REASON(NO_CONNECTION), "the broker gave no whole list");
    if (!snapshot->complete)
        tw_snapshot_clear(snapshot);
    end(session, link, outcome);
}

/* ---- The keeper: telling the host ---- */

/* False: the session is gone, and with it whoever wanted to hear. */
static bool tell_begin(struct session *session)
{
    pthread_mutex_lock(&session->telling);
    if (session->is_abandoned)
        pthread_mutex_unlock(&session->telling);
    return !session->is_abandoned;
}

static void tell_end(struct session *session)
{
    pthread_mutex_unlock(&session->telling);
}

static void tell_connection(struct session *session, bool is_connected, const char *why)
{
    pthread_mutex_lock(&session->lock);
    session->is_connected = is_connected;
    pthread_cond_broadcast(&session->given);
    pthread_mutex_unlock(&session->lock);
    if (tell_begin(session)) {
        session->host.on_connection(session->host.context, is_connected, why);
        tell_end(session);
    }
}

static int32_t on_quote_item(void *ctx, const void *item)
{
    struct taking *taking = ctx;
    struct session *session = taking->session;
    struct twp_quote quote;
    if (!border_quote(item, &quote))
        return broken(taking, "an item of its quotes is none");
    if (tell_begin(session)) {
        session->host.on_quote(session->host.context, quote.symbol, quote.bid, quote.ask);
        tell_end(session);
    }
    return 0;
}

static void event_tell(struct session *session, const struct twp_event *event, const struct tw_held_position *position)
{
    const struct tw_session_host *host = &session->host;
    if (event->kind == TWP_EVENT_POSITION)
        host->on_position(host->context, position,
                          position->volume == 0 ? REASON(ALREADY_CLOSED) : border_reason(event->reason));
    else if (event->kind == TWP_EVENT_ORDER_GONE)
        host->on_order_gone(host->context, event->order_id, event->client_order_id, event->position_id);
    else if (event->kind == TWP_EVENT_MARKET_OPEN)
        host->on_market_open(host->context);
}

static int32_t on_event_item(void *ctx, const void *item)
{
    struct taking *taking = ctx;
    struct twp_event event;
    struct tw_held_position position = {0};
    if (!border_event(item, &event) ||
        (event.kind == TWP_EVENT_POSITION && !border_position(event.position, true, &position)))
        return broken(taking, "an item of its events is none");
    if (tell_begin(taking->session)) {
        event_tell(taking->session, &event, &position);
        tell_end(taking->session);
    }
    return 0;
}

/* Quotes and events, where nobody else wants the session. */
static void look(struct session *session)
{
    const struct twp_api *api = &session->library->api;
    struct taking taking = {.session = session};
    int64_t until_mono_ns = tw_mono_ns() + session->options.call_timeout_ns;
    struct link *link = api->quotes != NULL || api->events != NULL ? link_borrow(session, until_mono_ns, false) : NULL;
    if (link == NULL)
        return;
    int32_t outcome = TWP_DONE;
    bool is_in_the_way = session->calls_max == 1;
    if (is_in_the_way)
        library_due_add(session->library, &session->looking, until_mono_ns);
    if (api->events != NULL)
        outcome = list_call(session, link, api->events, until_mono_ns, on_event_item, &taking);
    if (api->quotes != NULL && outcome != TWP_SESSION_LOST)
        outcome = list_call(session, link, api->quotes, until_mono_ns, on_quote_item, &taking);
    if (is_in_the_way)
        library_due_remove(session->library, &session->looking);
    link_return(session, link, outcome);
}

/* ---- The keeper: links ---- */

/* The library's settings with secrets in their place; wiped when it has logged in. */
static bool secrets_read(struct session *session, struct twp_setting *settings, struct tw_secret *secrets)
{
    struct tw_error error = {{0}};
    for (uint32_t i = 0; i < session->options.n_settings; i++) {
        settings[i] = session->options.settings[i];
        const char *name = tw_secret_name(settings[i].value);
        if (name == NULL)
            continue;
        if (tw_secret_read(session->secrets_dir, name, &secrets[i], &error) != TW_OK) {
            snprintf(session->why, sizeof session->why, "%.*s", WHY_BYTES - 1, error.text);
            return false;
        }
        settings[i].value = secrets[i].text;
    }
    return true;
}

static void login_run(void *context)
{
    struct calling *calling = context;
    struct library *library = calling->session->library;
    struct border border;
    border_enter(&border);
    calling->outcome = library->api.session_open(calling->login.open, calling->login.ret, calling->login.words);
    border_leave(library, &border);
}

static int32_t login(struct session *session, struct link *link, const struct twp_setting *settings)
{
    struct twp_words words = {.size = sizeof words};
    const struct twp_open open = {
        .size = sizeof open,
        .is_netting = session->options.is_netting,
        .deadline_mono_ns = tw_mono_ns() + session->options.call_timeout_ns,
        .host = &session->library->host,
        .account_key = session->options.follower_id,
        .credentials_ref = session->options.credentials_ref,
        .settings = settings,
        .n_settings = session->options.n_settings,
    };
    struct calling calling = {.session = session, .link = link, .login = {&open, &link->handle, &words}};
    if (!library_turn_take(session->library, open.deadline_mono_ns, open.deadline_mono_ns)) {
        snprintf(session->why, sizeof session->why, "the library was busy: it takes one call at a time");
        return TWP_RETRY_LATER;
    }
    int32_t outcome = call_make(&calling, link->hand, login_run);
    library_turn_give(session->library);
    words.text[sizeof words.text - 1] = '\0';
    if (outcome != TWP_DONE)
        snprintf(session->why, sizeof session->why, "%s", words.text[0] != '\0' ? words.text : "the plugin did not log in");
    return outcome;
}

static bool handle_open(struct session *session, struct link *link)
{
    uint32_t n = session->options.n_settings;
    struct twp_setting *settings = calloc(n + 1, sizeof *settings);
    struct tw_secret *secrets = calloc(n + 1, sizeof *secrets);
    bool is_open = settings != NULL && secrets != NULL && secrets_read(session, settings, secrets) &&
                   login(session, link, settings) == TWP_DONE;
    for (uint32_t i = 0; secrets != NULL && i < n; i++)
        tw_secret_wipe(&secrets[i]);
    free(secrets);
    free(settings);
    if (is_open && link->handle == NULL) {
        library_misbehaved(session->library, "it opened a session, and gave none");
        snprintf(session->why, sizeof session->why, "the plugin gave no session");
        is_open = false;
    }
    return is_open;
}

/* A thread of its own where the library wants one; NULL with why: there is none. */
static struct link *link_new(struct session *session)
{
    struct link *link = calloc(1, sizeof *link);
    bool wants_hand = session->library->caps.thread_model == TWP_THREADS_AFFINE;
    if (link != NULL && wants_hand)
        link->hand = hand_start(KEEPER_STACK_BYTES);
    if (link == NULL || (wants_hand && link->hand == NULL)) {
        free(link);
        snprintf(session->why, sizeof session->why, "no memory, or no thread, for a session");
        return NULL;
    }
    return link;
}

static bool link_open(struct session *session)
{
    struct link *link = link_new(session);
    if (link == NULL || !handle_open(session, link)) {
        if (link != NULL)
            hand_end(link->hand);
        free(link);
        return false;
    }
    pthread_mutex_lock(&session->lock);
    link->next = session->links;
    session->links = link;
    session->n_alive++;
    pthread_cond_signal(&session->given);
    pthread_mutex_unlock(&session->lock);
    return true;
}

static void close_run(void *context)
{
    struct calling *calling = context;
    struct border border;
    border_enter(&border);
    calling->session->library->api.session_close(calling->link->handle);
    border_leave(calling->session->library, &border);
}

/* Where the library's turn does not come, it keeps the session: nobody may call it. */
static void link_close(struct session *session, struct link *link)
{
    struct calling calling = {.session = session, .link = link};
    int64_t until_mono_ns = tw_mono_ns() + session->options.call_timeout_ns;
    if (library_turn_take(session->library, until_mono_ns, until_mono_ns)) {
        (void)call_make(&calling, link->hand, close_run);
        library_turn_give(session->library);
    }
    hand_end(link->hand);
    free(link);
}

/* Takes out one lost link that nobody is in; all of them when the session ends. */
static struct link *link_bury(struct session *session, bool is_end)
{
    struct link *found = NULL;
    pthread_mutex_lock(&session->lock);
    for (struct link **at = &session->links; *at != NULL && found == NULL; at = &(*at)->next)
        if ((is_end || (*at)->is_lost) && (*at)->calls == 0) {
            found = *at;
            session->n_alive -= !found->is_lost;
            *at = found->next;
            break;
        }
    pthread_mutex_unlock(&session->lock);
    return found;
}

static void links_close(struct session *session, bool is_end)
{
    for (struct link *link = link_bury(session, is_end); link != NULL; link = link_bury(session, is_end))
        link_close(session, link);
}

/* A session that takes one call at a time, and does not come back from it, is of no use to the closes that wait for it:
 * another takes its place. It is closed if its call ever returns. */
static void links_overdue(struct session *session)
{
    int64_t now_mono_ns = tw_mono_ns();
    bool has_lost = false;
    pthread_mutex_lock(&session->lock);
    bool has_own_place = session->calls_max == 1 && session->library->caps.thread_model != TWP_THREADS_GLOBAL;
    for (struct link *link = session->links; link != NULL && has_own_place; link = link->next)
        if (!link->is_lost && link->taken > 0 && now_mono_ns > link->due_mono_ns) {
            link_lose(session, link);
            has_lost = true;
        }
    pthread_mutex_unlock(&session->lock);
    if (has_lost)
        library_misbehaved(session->library, "a call does not come back: another session in its place");
}

static uint32_t alive(struct session *session)
{
    pthread_mutex_lock(&session->lock);
    uint32_t n = session->n_alive;
    pthread_mutex_unlock(&session->lock);
    return n;
}

static void links_lose(struct session *session)
{
    pthread_mutex_lock(&session->lock);
    for (struct link *link = session->links; link != NULL; link = link->next)
        link_lose(session, link);
    pthread_mutex_unlock(&session->lock);
}

/* What the host is told once, before it hears of the connection. False: why. */
static bool introduce(struct session *session)
{
    struct taking taking = {.session = session};
    struct tw_account account = {.balance = TW_DECIMAL_UNSET, .equity = TW_DECIMAL_UNSET, .free_margin = TW_DECIMAL_UNSET};
    int64_t until_mono_ns = tw_mono_ns() + session->options.call_timeout_ns;
    bool is_netting = false, is_good = false;
    struct link *link = link_borrow(session, until_mono_ns, true);
    if (link == NULL) {
        snprintf(session->why, sizeof session->why, "the library was busy: it takes one call at a time");
        return false;
    }
    int32_t outcome = account_call(session, link, until_mono_ns, &account, &is_netting);
    bool has_account = outcome == TWP_DONE;
    if (has_account && is_netting == session->options.is_netting)
        outcome = list_call(session, link, session->library->api.instruments, until_mono_ns, on_instrument_item, &taking);
    if (!has_account)
        snprintf(session->why, sizeof session->why, "the broker did not tell of the account");
    else if (is_netting != session->options.is_netting)
        snprintf(session->why, sizeof session->why, "the account is %s, account_mode is %s: nothing is sent",
                 is_netting ? "netting" : "hedging", is_netting ? "hedging" : "netting");
    else if (outcome != TWP_DONE)
        snprintf(session->why, sizeof session->why, "the broker did not tell of its instruments");
    else
        is_good = true;
    if (is_good && tell_begin(session)) {
        session->host.on_account(session->host.context, &account);
        session->host.on_instruments(session->host.context, taking.instruments, taking.n_instruments);
        tell_end(session);
    }
    if (is_good && session->library->api.quotes != NULL)
        outcome = list_call(session, link, session->library->api.quotes, until_mono_ns, on_quote_item, &taking);
    is_good = is_good && outcome != TWP_SESSION_LOST;
    free(taking.instruments);
    link_return(session, link, outcome);
    return is_good;
}

/* Later each time, until one is open again. */
static void reopen_put_off(struct session *session)
{
    session->reopen_mono_ns = tw_mono_ns() + session->reopen_pause_ns;
    session->reopen_pause_ns = earlier(2 * session->reopen_pause_ns, REOPEN_NS_MAX);
}

static bool is_closing(struct session *session)
{
    pthread_mutex_lock(&session->lock);
    bool is_closing = session->is_closing;
    pthread_mutex_unlock(&session->lock);
    return is_closing;
}

static void links_open(struct session *session)
{
    bool is_first = !session->is_connected;
    if (tw_mono_ns() < session->reopen_mono_ns)
        return;
    while (alive(session) < session->options.n_links)
        if (is_closing(session) || !link_open(session))
            break;
    if (is_closing(session)) /* who closes it waits for two calls, not for a row of logins */
        return;
    bool is_good = alive(session) > 0;
    if (is_good && is_first) {
        is_good = introduce(session);
        if (!is_good)
            links_lose(session);
    }
    if (is_good && is_first)
        tell_connection(session, true, "");
    else if (!is_good)
        tell_connection(session, false, session->why);
    if (is_good && alive(session) == session->options.n_links)
        session->reopen_pause_ns = REOPEN_NS_MIN;
    else
        reopen_put_off(session);
}

/* Until the time has come, or there is something to do. True: the end. */
static bool keeper_wait(struct session *session)
{
    struct timespec until = timespec_of(tw_mono_ns() + LOOK_NS);
    pthread_mutex_lock(&session->lock);
    for (int status = 0; !session->is_closing && !session->has_news && status == 0;)
        status = pthread_cond_clockwait(&session->news, &session->lock, CLOCK_MONOTONIC, &until);
    session->has_news = false;
    bool is_closing = session->is_closing;
    pthread_mutex_unlock(&session->lock);
    return is_closing;
}

static void session_free(struct session *session)
{
    pthread_mutex_destroy(&session->lock);
    pthread_mutex_destroy(&session->telling);
    pthread_cond_destroy(&session->given);
    pthread_cond_destroy(&session->news);
    options_clear(&session->options);
    free(session);
}

static void *keeper_main(void *arg)
{
    struct session *session = arg;
    do {
        links_overdue(session);
        if (session->is_connected && alive(session) == 0)
            tell_connection(session, false, "the plugin lost its session");
        links_close(session, false);
        if (alive(session) < session->options.n_links)
            links_open(session);
        if (session->is_connected)
            look(session);
        library_words_tell(session->library);
    } while (!keeper_wait(session));
    links_close(session, true);
    library_words_tell(session->library);
    pthread_mutex_lock(&session->lock);
    session->is_keeper_gone = true;
    pthread_cond_broadcast(&session->given); /* nobody waits for links any more, but session_close() */
    pthread_mutex_unlock(&session->lock);
    return NULL;
}

/* ---- Life ---- */

static tw_status keeper_start(struct session *session, struct tw_error *error)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, KEEPER_STACK_BYTES);
    int status = pthread_create(&session->keeper, &attributes, keeper_main, session);
    pthread_attr_destroy(&attributes);
    return status == 0 ? TW_OK : tw_error_set(error, TW_NO_MEMORY, "no thread for a session of plugin %s: %s",
                                              session->library->name, strerror(status));
}

tw_status session_open(struct library *library, const struct tw_session_options *options, const char *secrets_dir,
                       struct session **ret, struct tw_error *error)
{
    char key[65] = "";
    struct session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for a session of plugin %s", library->name);
    session->library = library;
    session->secrets_dir = secrets_dir;
    session->host = options->host;
    session->calls_max = library->caps.calls_max;
    session->reopen_pause_ns = REOPEN_NS_MIN;
    pthread_mutex_init(&session->lock, NULL);
    pthread_mutex_init(&session->telling, NULL);
    pthread_cond_init(&session->given, NULL);
    pthread_cond_init(&session->news, NULL);
    tw_status status = options_read(library, options, &session->options, key, error);
    if (status == TW_OK)
        status = keeper_start(session, error);
    if (status != TW_OK) {
        session_free(session);
        return status;
    }
    *ret = session;
    return TW_OK;
}

/* A keeper whose call never comes back keeps all that it may still touch. */
void session_close(struct session *session)
{
    struct timespec until = timespec_of(tw_mono_ns() + 2 * session->options.call_timeout_ns + LIBRARY_GRACE_NS);
    pthread_mutex_lock(&session->lock);
    session->is_closing = true;
    pthread_cond_signal(&session->news);
    for (int status = 0; !session->is_keeper_gone && status == 0;)
        status = pthread_cond_clockwait(&session->given, &session->lock, CLOCK_MONOTONIC, &until);
    bool is_gone = session->is_keeper_gone;
    pthread_mutex_unlock(&session->lock);
    if (is_gone) {
        pthread_join(session->keeper, NULL);
        session_free(session);
        return;
    }
    pthread_mutex_lock(&session->telling);
    session->is_abandoned = true;
    pthread_mutex_unlock(&session->telling);
    library_misbehaved(session->library, "a call of its session does not come back: its thread is lost");
    library_words_tell(session->library);
    pthread_detach(session->keeper);
}

void session_capabilities(const struct session *session, struct tw_capabilities *ret)
{
    const struct twp_caps *caps = &session->library->caps;
    uint32_t parallel = session->calls_max * session->options.n_links;
    bool finds = (caps->can & TWP_CAN_LOOKUP) != 0 && caps->id_strength >= TWP_ID_TAG;
    *ret = (struct tw_capabilities){
        .blocking = true,
        .netting = session->options.is_netting,
        .query_by_id = finds,
        .not_found_is_final = finds && caps->id_strength >= TWP_ID_JOURNAL,
        .reduce_only = (caps->can & TWP_CAN_REDUCE_ONLY) != 0,
        .max_parallel = parallel < TW_PARALLEL_MAX ? parallel : TW_PARALLEL_MAX,
        .call_timeout_ms = (uint32_t)((session->options.call_timeout_ns + TW_NS_PER_MS - 1) / TW_NS_PER_MS),
        .settle_ms = (uint32_t)((session->options.settle_ns + TW_NS_PER_MS - 1) / TW_NS_PER_MS),
    };
}
