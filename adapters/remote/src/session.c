/* session.c - one account at a bridge, from OpenSession to its end. */
#include "remote.h"
#include "translate.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/log.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The host. ---- */

bool remote_tell_begin(struct session *session)
{
    struct remote *remote = session->remote;
    pthread_mutex_lock(&remote->lock);
    bool is_open = !session->is_closing;
    if (is_open)
        remote->telling = session;
    pthread_mutex_unlock(&remote->lock);
    return is_open;
}

void remote_tell_end(struct session *session)
{
    struct remote *remote = session->remote;
    pthread_mutex_lock(&remote->lock);
    remote->telling = NULL;
    pthread_cond_broadcast(&remote->changed);
    pthread_mutex_unlock(&remote->lock);
}

static void tell_connection(struct session *session, bool is_up, const char *why)
{
    bool is_news = is_up != session->is_told_up || (!is_up && strcmp(why, session->why) != 0) ||
                   (!is_up && !session->was_told_why);
    if (!is_news || !remote_tell_begin(session))
        return;
    session->is_told_up = is_up;
    session->was_told_why = true;
    snprintf(session->why, sizeof session->why, "%s", why);
    session->host.on_connection(session->host.context, is_up, session->why);
    remote_tell_end(session);
}

/* ---- Questions. ---- */

void remote_session_free(struct session *session)
{
    remote_working_clear(session);
    remote_known_clear(session);
    free(session->instruments);
    free(session->quotes);
    for (size_t i = 0; i < session->n_config; i++) {
        free(session->config[i].key);
        free(session->config[i].value);
    }
    free(session->config);
    free(session->config_list);
    free(session->account_key);
    free(session->credentials_ref);
    free(session->symbols);
    free(session);
}

void remote_session_back(struct session *session)
{
    struct remote *remote = session->remote;
    pthread_mutex_lock(&remote->lock);
    session->n_out--;
    bool is_last = session->is_closing && session->n_out == 0;
    pthread_mutex_unlock(&remote->lock);
    if (is_last)
        remote_session_free(session);
}

static void on_answer(void *context, const struct tw_wire_answer *answer, const ProtobufCMessage *response)
{
    struct question *question = context;
    struct session *session = question->session;
    bool is_wanted = !session->is_closing && session->life == question->life;
    if (is_wanted && response != NULL)
        question->answer(session, question->index, response);
    else if (is_wanted)
        remote_session_cut(session, answer);
    free(question);
    remote_session_back(session);
}

void remote_session_ask(struct session *session, const char *path, const ProtobufCMessage *request, uint32_t index,
                 void (*answer)(struct session *session, uint32_t index, const ProtobufCMessage *response))
{
    struct tw_error error = {{"no memory for a question"}};
    struct question *question = malloc(sizeof *question);
    tw_status status = TW_NO_MEMORY;
    if (question != NULL) {
        *question = (struct question){session, session->life, index, answer};
        pthread_mutex_lock(&session->remote->lock);
        session->n_out++;
        pthread_mutex_unlock(&session->remote->lock);
        status = tw_wire_call_begin(session->bridge->channel, path, request, tw_mono_ns() + ASK_NS, on_answer, question,
                                    NULL, &error);
    }
    if (status == TW_OK)
        return;
    remote_session_fail(session, error.text);
    if (question != NULL) {
        pthread_mutex_lock(&session->remote->lock);
        session->n_out--; /* whoever asks is out himself, or the tick: it is not the last */
        pthread_mutex_unlock(&session->remote->lock);
    }
    free(question);
}

/* ---- The way down. ---- */

void remote_session_fail(struct session *session, const char *why)
{
    struct remote *remote = session->remote;
    char words[WHY_BYTES];
    snprintf(words, sizeof words, "%.200s", why[0] != '\0' ? why : "the bridge ended the session");
    pthread_mutex_lock(&remote->lock);
    session->is_up = false;
    if (session->stream != NULL)
        tw_wire_pending_cancel(session->stream);
    session->stream = NULL;
    pthread_mutex_unlock(&remote->lock);
    if (session->phase == PHASE_UP && tw_mono_ns() - session->up_mono_ns > STEADY_NS)
        session->failures = 0;
    session->phase = PHASE_DOWN;
    session->life++;
    session->due_mono_ns = tw_mono_ns() + remote_back_off_ns(remote, session->failures++);
    tell_connection(session, false, words);
}

void remote_session_cut(struct session *session, const struct tw_wire_answer *answer)
{
    enum { UNAVAILABLE = 14 };
    if (answer->code == UNAVAILABLE || !tw_wire_channel_is_ready(session->bridge->channel))
        remote_bridge_lost(session->bridge, tw_mono_ns());
    remote_session_fail(session, answer->message);
}

/* ---- The way up. ---- */

static void instruments_tell(struct session *session)
{
    struct tw_session_host *host = &session->host;
    host->on_instruments(host->context, session->instruments, session->n_instruments);
    for (size_t i = 0; i < session->n_instruments; i++)
        if (session->quotes[i][0] != TW_DECIMAL_UNSET && session->quotes[i][1] != TW_DECIMAL_UNSET)
            host->on_quote(host->context, session->instruments[i].symbol, session->quotes[i][0], session->quotes[i][1]);
}

void remote_session_up(struct session *session)
{
    if (!session->is_told_up)
        session->up_mono_ns = tw_mono_ns();
    session->phase = PHASE_UP;
    if (!remote_tell_begin(session))
        return;
    if (session->has_account)
        session->host.on_account(session->host.context, &session->account);
    if (session->n_instruments > 0 && !session->is_told_up)
        instruments_tell(session);
    remote_tell_end(session);
    if (!session->is_at_broker)
        return;
    pthread_mutex_lock(&session->remote->lock);
    session->is_up = true; /* the host may call as soon as it hears of it */
    pthread_mutex_unlock(&session->remote->lock);
    tell_connection(session, true, "");
}

static void instruments_whole(struct session *session)
{
    if (session->n_answered < session->n_asked)
        return;
    session->phase = PHASE_WATCHING;
    remote_watch_begin(session);
}

static void on_instrument(struct session *session, uint32_t index, const ProtobufCMessage *message)
{
    const Tradewake__Adapter__V1__GetInstrumentResponse *response = (const void *)message;
    struct tw_instrument *instrument = &session->instruments[session->n_instruments];
    tw_decimal *quote = session->quotes[session->n_instruments];
    (void)index;
    session->n_answered++;
    bool is_found = response->status != NULL && response->status->outcome == TRADEWAKE__ADAPTER__V1__OUTCOME__OUTCOME_DONE;
    /* The answer does not name its symbol: it is the index'th of the list. */
    char symbol[TW_SYMBOL_BYTES] = "";
    const char *at = session->symbols;
    for (uint32_t i = 0; i < index && at != NULL; i++) {
        at = strchr(at, ',');
        at = at != NULL ? at + 1 : NULL;
    }
    if (at != NULL)
        snprintf(symbol, sizeof symbol, "%.*s", (int)strcspn(at, ","), at);
    if (is_found && remote_instrument_from_response(symbol, response, instrument, &quote[0], &quote[1]))
        session->n_instruments++;
    else if (is_found)
        tw_log(TW_LOG_WARN, "bridge.instrument", "bridge=%s symbol=\"%s\" why=\"its numbers are none\"",
               session->bridge->name, symbol);
    instruments_whole(session);
}

static void instruments_ask(struct session *session)
{
    size_t n = session->symbols[0] != '\0';
    for (const char *at = strchr(session->symbols, ','); at != NULL; at = strchr(at + 1, ','))
        n++;
    free(session->instruments);
    free(session->quotes);
    session->instruments = calloc(n + 1, sizeof *session->instruments);
    session->quotes = calloc(n + 1, sizeof *session->quotes);
    session->n_instruments = session->n_answered = 0;
    session->n_asked = n;
    if (session->instruments == NULL || session->quotes == NULL) {
        remote_session_fail(session, "no memory for the instruments");
        return;
    }
    session->phase = PHASE_INSTRUMENTS;
    uint32_t life = session->life, index = 0;
    for (char *at = session->symbols; n > 0 && session->life == life; index++) {
        char symbol[TW_SYMBOL_BYTES];
        Tradewake__Adapter__V1__GetInstrumentRequest request;
        tradewake__adapter__v1__get_instrument_request__init(&request);
        snprintf(symbol, sizeof symbol, "%.*s", (int)strcspn(at, ","), at);
        request.session_id = session->session_id;
        request.symbol = symbol;
        remote_session_ask(session, METHOD("GetInstrument"), &request.base, index, on_instrument);
        at = strchr(at, ',');
        if (at == NULL)
            break;
        at++;
    }
    if (session->life == life)
        instruments_whole(session);
}

static bool symbols_take(struct session *session, const Tradewake__Adapter__V1__OpenSessionResponse *response)
{
    size_t size = 1;
    for (size_t i = 0; i < response->n_symbols; i++)
        size += strlen(response->symbols[i]) + 1;
    char *joined = calloc(size, 1);
    if (joined == NULL || response->n_symbols > SYMBOLS_MAX) {
        free(joined);
        return false;
    }
    for (size_t i = 0, used = 0; i < response->n_symbols; i++)
        used += (size_t)snprintf(joined + used, size - used, "%s%s", i > 0 ? "," : "", response->symbols[i]);
    free(session->symbols);
    session->symbols = joined;
    return true;
}

static void on_opened(struct session *session, uint32_t index, const ProtobufCMessage *message)
{
    const Tradewake__Adapter__V1__OpenSessionResponse *response = (const void *)message;
    const Tradewake__Adapter__V1__Status *status = response->status;
    char why[WHY_BYTES] = "";
    (void)index;
    if (status == NULL || status->outcome != TRADEWAKE__ADAPTER__V1__OUTCOME__OUTCOME_DONE)
        snprintf(why, sizeof why, "OpenSession: %.200s",
                 status != NULL && status->broker_message[0] != '\0' ? status->broker_message : "refused");
    else if (response->netting != session->can.netting)
        snprintf(why, sizeof why, "the account is %s: set account_mode", response->netting ? "netting" : "hedging");
    else if (response->session_id[0] == '\0' || strlen(response->session_id) >= TOKEN_BYTES ||
             strlen(response->epoch) >= TOKEN_BYTES)
        snprintf(why, sizeof why, "OpenSession: no session id of 1 to %d characters", TOKEN_BYTES - 1);
    else if (response->read_only)
        snprintf(why, sizeof why, "the account is read-only");
    if (why[0] != '\0') {
        remote_session_fail(session, why);
        return;
    }
    pthread_mutex_lock(&session->remote->lock);
    snprintf(session->session_id, sizeof session->session_id, "%s", response->session_id);
    pthread_mutex_unlock(&session->remote->lock);
    if (strcmp(session->epoch, response->epoch) != 0)
        session->count = (struct count){0};
    snprintf(session->epoch, sizeof session->epoch, "%s", response->epoch);
    session->has_account = remote_account_from_message(response->account, &session->account);
    session->is_at_broker = true;
    bool is_named = response->n_symbols == 0 || !session->wants_symbols || symbols_take(session, response);
    if (is_named)
        instruments_ask(session);
    else
        remote_session_fail(session, "the bridge names more symbols than there is room for: set symbols");
}

static void session_open(struct session *session)
{
    Tradewake__Adapter__V1__OpenSessionRequest request;
    tradewake__adapter__v1__open_session_request__init(&request);
    request.account_key = session->account_key;
    request.credentials_ref = session->credentials_ref;
    request.config = session->config_list;
    request.n_config = session->n_config;
    session->phase = PHASE_OPENING;
    remote_session_ask(session, METHOD("OpenSession"), &request.base, 0, on_opened);
}

void remote_session_tick(struct session *session, int64_t now_mono_ns)
{
    if (session->phase != PHASE_DOWN) {
        remote_watch_check(session, now_mono_ns);
        return;
    }
    if (session->due_mono_ns > now_mono_ns)
        return;
    if (!session->bridge->is_proven) {
        if (session->bridge->was_tried)
            tell_connection(session, false, session->bridge->why);
        return;
    }
    const Tradewake__Adapter__V1__GetCapabilitiesResponse *can = session->bridge->can;
    if (can->client_order_id_max != 0 && can->client_order_id_max < TW_COPY_ID_CHARS) {
        session->due_mono_ns = now_mono_ns + BACK_OFF_NS_MAX;
        tell_connection(session, false, "the bridge keeps no client order ids of 20 characters");
        return;
    }
    session_open(session);
}
