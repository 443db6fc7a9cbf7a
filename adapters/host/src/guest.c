/* guest.c - one account: made by the first OpenSession that names it, kept until it is closed, or opened otherwise. */
#include "host.h"
#include "translate.h"

#include <tradewake/base/log.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An OpenSession that waits until the account is connected, or will not be. */
struct opening {
    struct opening *next;
    struct tw_call *call;
    struct guest *guest;
    bool is_answered; /* the call's thread */
};

/* ---- Names. ---- */

void guest_id_text(const struct guest *guest, char ret[TOKEN_BYTES])
{
    pthread_mutex_lock(&guest->host->lock);
    snprintf(ret, TOKEN_BYTES, "%s.%llu", guest->host->epoch, (unsigned long long)guest->id);
    pthread_mutex_unlock(&guest->host->lock);
}

/* Under the host's lock. 0 = none of this process. */
static uint64_t id_parse(const struct tw_host *host, const char *session_id)
{
    size_t length = strlen(host->epoch);
    if (strncmp(session_id, host->epoch, length) != 0 || session_id[length] != '.')
        return 0;
    return strtoull(session_id + length + 1, NULL, 10);
}

static struct guest **place_of(struct tw_host *host, uint64_t id)
{
    struct guest **at = &host->guests;
    while (*at != NULL && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

struct guest *guest_of(struct tw_host *host, const char *session_id)
{
    pthread_mutex_lock(&host->lock);
    uint64_t id = id_parse(host, session_id);
    struct guest *guest = id > 0 ? *place_of(host, id) : NULL;
    if (guest != NULL)
        guest->n_refs++;
    pthread_mutex_unlock(&host->lock);
    return guest;
}

/* ---- The end. ---- */

static void guest_free(struct guest *guest)
{
    for (size_t i = 0; i < guest->n_settings; i++) {
        free((void *)(uintptr_t)guest->settings[i].key);
        free((void *)(uintptr_t)guest->settings[i].value);
    }
    free(guest->settings);
    free(guest->account_key);
    free(guest->credentials_ref);
    free(guest->listings);
    free(guest->happenings);
    memory_clear(&guest->memory);
    if (guest->lane != NULL)
        tw_lane_free(guest->lane);
    pthread_mutex_destroy(&guest->lock);
    free(guest);
}

/* The last that holds it hands it to the closer: closing a session waits, and nobody else may. */
void guest_drop(struct guest *guest)
{
    struct tw_host *host = guest->host;
    pthread_mutex_lock(&host->lock);
    assert(guest->n_refs > 0);
    if (--guest->n_refs == 0) {
        guest->next = host->leaving;
        host->leaving = guest;
        pthread_cond_signal(&host->news);
    }
    pthread_mutex_unlock(&host->lock);
}

void *guests_close_main(void *context)
{
    struct tw_host *host = context;
    pthread_mutex_lock(&host->lock);
    for (;;) {
        while (host->leaving == NULL && !host->is_stopping)
            pthread_cond_wait(&host->news, &host->lock);
        struct guest *guest = host->leaving;
        if (guest == NULL)
            break;
        host->leaving = guest->next;
        host->threads_needed -= guest->can.max_parallel;
        pthread_mutex_unlock(&host->lock);
        if (guest->session != NULL)
            host->options.ops->session_close(guest->session);
        guest_free(guest);
        pthread_mutex_lock(&host->lock);
    }
    pthread_mutex_unlock(&host->lock);
    return NULL;
}

/* ---- The beginning. ---- */

static bool settings_copy(struct guest *guest, const Tradewake__Adapter__V1__OpenSessionRequest *request)
{
    guest->account_key = strdup(request->account_key);
    guest->credentials_ref = strdup(request->credentials_ref);
    guest->settings = calloc(request->n_config + 1, sizeof *guest->settings);
    if (guest->account_key == NULL || guest->credentials_ref == NULL || guest->settings == NULL)
        return false;
    for (size_t i = 0; i < request->n_config; i++) {
        guest->settings[i] =
            (struct tw_adapter_setting){strdup(request->config[i]->key), strdup(request->config[i]->value)};
        guest->n_settings++;
        if (guest->settings[i].key == NULL || guest->settings[i].value == NULL)
            return false;
    }
    return true;
}

static bool has_setting(const struct guest *guest, const char *key, const char *value)
{
    for (size_t i = 0; i < guest->n_settings; i++)
        if (strcmp(guest->settings[i].key, key) == 0 && strcmp(guest->settings[i].value, value) == 0)
            return true;
    return false;
}

static bool is_same(const struct guest *guest, const Tradewake__Adapter__V1__OpenSessionRequest *request)
{
    bool is_same = guest->n_settings == request->n_config && strcmp(guest->credentials_ref, request->credentials_ref) == 0;
    for (size_t i = 0; i < request->n_config && is_same; i++)
        is_same = has_setting(guest, request->config[i]->key, request->config[i]->value);
    return is_same;
}

/* Threads before its first order; what cannot be had is said, and waits for one that is free. */
static void threads_prepare(struct tw_host *host, const struct guest *guest)
{
    struct tw_error error = {{0}};
    pthread_mutex_lock(&host->lock);
    host->threads_needed += guest->can.max_parallel;
    uint32_t needed = host->threads_needed;
    pthread_mutex_unlock(&host->lock);
    if (tw_executor_prepare(host->executor, needed, &error) != TW_OK)
        tw_log(TW_LOG_WARN, "host.threads", "wanted=%u why=\"%s\"", needed, error.text);
}

static tw_status guest_begin(struct guest *guest, struct tw_error *error)
{
    struct tw_host *host = guest->host;
    struct tw_session_options options = {
        .follower_id = guest->account_key,
        .adapter = host->options.adapter_name,
        .settings = guest->settings,
        .n_settings = guest->n_settings,
        .credentials_ref = guest->credentials_ref,
    };
    session_host_fill(guest, &options.host);
    tw_status status = host->options.ops->session_open(host->options.adapter, &options, &guest->session, error);
    if (status != TW_OK)
        return status;
    host->options.ops->capabilities(guest->session, &guest->can);
    guest->lane = tw_lane_new(host->executor, guest->can.max_parallel, NULL);
    return guest->lane != NULL ? TW_OK : tw_error_set(error, TW_NO_MEMORY, "no memory for an account");
}

/* One for the list, one for the caller. */
static struct guest *guest_new(struct tw_host *host, const Tradewake__Adapter__V1__OpenSessionRequest *request,
                               struct tw_error *error)
{
    struct guest *guest = calloc(1, sizeof *guest);
    if (guest == NULL) {
        (void)tw_error_set(error, TW_NO_MEMORY, "no memory for an account");
        return NULL;
    }
    guest->host = host;
    guest->n_refs = 1;
    guest->wants_picture = true;
    pthread_mutex_init(&guest->lock, NULL);
    tw_status status = strlen(request->account_key) == 0 || strlen(request->account_key) >= TW_ID_BYTES
                           ? tw_error_set(error, TW_INVALID, "account_key: expected 1 to %u characters", TW_ID_BYTES - 1)
                       : settings_copy(guest, request) ? guest_begin(guest, error)
                                                       : tw_error_set(error, TW_NO_MEMORY, "no memory for an account");
    if (status != TW_OK) {
        guest->can.max_parallel = 0;
        guest_drop(guest);
        return NULL;
    }
    threads_prepare(host, guest);
    return guest;
}

/* ---- OpenSession. ---- */

static void refused(struct tw_call *call, Tradewake__Adapter__V1__Outcome outcome, const char *words)
{
    Tradewake__Adapter__V1__OpenSessionResponse response;
    Tradewake__Adapter__V1__Status status;
    tradewake__adapter__v1__open_session_response__init(&response);
    tradewake__adapter__v1__status__init(&status);
    status.outcome = outcome;
    status.reason = REASON(NO_CONNECTION);
    status.broker_message = (char *)(uintptr_t)words;
    status.not_sent = true;
    response.status = &status;
    tw_call_answer(call, &response.base);
}

static void opened(struct tw_call *call, struct guest *guest)
{
    char id[TOKEN_BYTES], **symbols = NULL;
    struct account_message account;
    Tradewake__Adapter__V1__OpenSessionResponse response;
    Tradewake__Adapter__V1__Status status;
    tradewake__adapter__v1__open_session_response__init(&response);
    tradewake__adapter__v1__status__init(&status);
    guest_id_text(guest, id);
    status.outcome = OUTCOME(DONE);
    response.status = &status;
    response.session_id = id;
    response.epoch = id; /* numbers begin anew with each watcher, and the next OpenSession has another */
    response.netting = guest->can.netting;
    pthread_mutex_lock(&guest->lock);
    struct tw_account now = guest->account;
    symbols = tw_arena_take(tw_call_arena(call), guest->n_listings * sizeof *symbols + 1);
    for (size_t i = 0; symbols != NULL && i < guest->n_listings; i++) {
        const char *symbol = guest->listings[i].instrument.symbol;
        symbols[i] = tw_arena_text(tw_call_arena(call), symbol, strlen(symbol));
        if (symbols[i] == NULL)
            break;
        response.n_symbols++;
    }
    bool is_whole = response.n_symbols == guest->n_listings;
    pthread_mutex_unlock(&guest->lock);
    host_account_fill(&now, &account);
    response.account = &account.state;
    response.symbols = symbols;
    if (is_whole)
        tw_call_answer(call, &response.base);
    else
        refused(call, OUTCOME(RETRY_LATER), "no memory for the symbols");
}

/* Once the session has something to say. Thread: call. */
static void opening_answer(struct opening *opening)
{
    struct guest *guest = opening->guest;
    char why[WHY_BYTES];
    pthread_mutex_lock(&guest->lock);
    bool is_connected = guest->is_connected, is_known = guest->was_told && !opening->is_answered;
    memcpy(why, guest->why, sizeof why);
    pthread_mutex_unlock(&guest->lock);
    opening->is_answered |= is_known;
    if (is_known && is_connected)
        opened(opening->call, guest);
    else if (is_known)
        refused(opening->call, OUTCOME(RETRY_LATER), why[0] != '\0' ? why : "not connected");
}

/* Under guest->lock. */
void guest_openings_post(struct guest *guest)
{
    for (struct opening *opening = guest->openings; opening != NULL; opening = opening->next)
        tw_call_post(opening->call);
}

/* The guest of that account, as wanted; one that was opened otherwise leaves. NULL, with words. */
static struct guest *guest_obtain(struct tw_host *host, const Tradewake__Adapter__V1__OpenSessionRequest *request,
                                  struct tw_error *error)
{
    struct guest *found = NULL, *left = NULL;
    pthread_mutex_lock(&host->lock);
    for (struct guest **at = &host->guests; *at != NULL && found == NULL && left == NULL;) {
        if (strcmp((*at)->account_key, request->account_key) != 0)
            at = &(*at)->next;
        else if (is_same(*at, request))
            found = *at;
        else
            left = *at, *at = left->next;
    }
    if (found != NULL) {
        found->n_refs++;
        found->id = ++host->n_ids;
    }
    pthread_mutex_unlock(&host->lock);
    if (left != NULL)
        guest_drop(left);
    if (found != NULL)
        return found;
    found = guest_new(host, request, error);
    if (found == NULL)
        return NULL;
    pthread_mutex_lock(&host->lock);
    found->id = ++host->n_ids;
    found->n_refs++;
    found->next = host->guests;
    host->guests = found;
    pthread_mutex_unlock(&host->lock);
    return found;
}

void on_open_session(struct tw_call *call, const ProtobufCMessage *message, const struct tw_refusal *invalid)
{
    const Tradewake__Adapter__V1__OpenSessionRequest *request = (const void *)message;
    struct tw_error error = {{0}};
    (void)invalid;
    struct opening *opening = calloc(1, sizeof *opening);
    struct guest *guest = opening != NULL ? guest_obtain(host_here, request, &error) : NULL;
    if (guest == NULL) {
        free(opening);
        refused(call, OUTCOME(REJECTED), error.text[0] != '\0' ? error.text : "no memory for an account");
        return;
    }
    *opening = (struct opening){.call = tw_call_ref(call), .guest = guest};
    tw_call_data_set(call, opening);
    pthread_mutex_lock(&guest->lock);
    opening->next = guest->openings;
    guest->openings = opening;
    pthread_mutex_unlock(&guest->lock);
    opening_answer(opening);
}

void on_open_session_post(struct tw_call *call)
{
    struct opening *opening = tw_call_data(call);
    if (opening != NULL)
        opening_answer(opening);
}

void on_open_session_finished(struct tw_call *call, bool cancelled)
{
    struct opening *opening = tw_call_data(call);
    (void)cancelled;
    if (opening == NULL)
        return;
    struct guest *guest = opening->guest;
    pthread_mutex_lock(&guest->lock);
    for (struct opening **at = &guest->openings; *at != NULL; at = &(*at)->next)
        if (*at == opening) {
            *at = opening->next;
            break;
        }
    pthread_mutex_unlock(&guest->lock);
    tw_call_data_set(call, NULL);
    tw_call_unref(opening->call);
    guest_drop(guest);
    free(opening);
}

/* ---- CloseSession, GetInstrument. ---- */

/* An id that a later OpenSession has replaced closes nothing. */
void on_close_session(struct tw_call *call, const ProtobufCMessage *message, const struct tw_refusal *invalid)
{
    const Tradewake__Adapter__V1__CloseSessionRequest *request = (const void *)message;
    struct tw_host *host = host_here;
    Tradewake__Adapter__V1__CloseSessionResponse response;
    (void)invalid;
    pthread_mutex_lock(&host->lock);
    uint64_t id = id_parse(host, request->session_id);
    struct guest **at = place_of(host, id), *guest = id > 0 ? *at : NULL;
    if (guest != NULL)
        *at = guest->next;
    pthread_mutex_unlock(&host->lock);
    if (guest != NULL)
        guest_drop(guest);
    tradewake__adapter__v1__close_session_response__init(&response);
    tw_call_answer(call, &response.base);
}

static bool listing_find(struct guest *guest, const char *symbol, struct listing *ret)
{
    pthread_mutex_lock(&guest->lock);
    size_t i = 0;
    while (i < guest->n_listings && strcmp(guest->listings[i].instrument.symbol, symbol) != 0)
        i++;
    bool is_found = i < guest->n_listings;
    if (is_found)
        *ret = guest->listings[i];
    pthread_mutex_unlock(&guest->lock);
    return is_found;
}

void on_get_instrument(struct tw_call *call, const ProtobufCMessage *message, const struct tw_refusal *invalid)
{
    const Tradewake__Adapter__V1__GetInstrumentRequest *request = (const void *)message;
    struct guest *guest = guest_of(host_here, request->session_id);
    struct instrument_message answer;
    struct listing listing = {.bid = TW_DECIMAL_UNSET};
    (void)invalid;
    bool is_found = guest != NULL && listing_find(guest, request->symbol, &listing);
    host_instrument_fill(&listing.instrument, listing.bid, listing.ask, &answer);
    if (!is_found) {
        answer.status.outcome = OUTCOME(NOT_FOUND);
        answer.status.reason = REASON(SYMBOL_NOT_FOUND);
    }
    tw_call_answer(call, &answer.response.base);
    if (guest != NULL)
        guest_drop(guest);
}
