#include "news.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum news_kind {
    NEWS_CONNECTED, /* everything, then the connection */
    NEWS_DISCONNECTED,
    NEWS_QUOTE,
    NEWS_INSTRUMENT,
    NEWS_MARKET_OPEN,
    NEWS_POSITION,
    NEWS_ORDER_GONE,
};

struct news {
    struct news *next;
    enum news_kind kind;
    const char *why; /* static */
    tw_reason reason;
    union {
        struct quote quote;
        struct tw_instrument instrument;
        struct tw_held_position position;
        struct {
            uint64_t order, position;
            char client_order_id[TW_COPY_ID_BYTES];
        } gone;
    } about;
};

/* ---- What a host is shown. ---- */

void ticket_text(uint64_t ticket, char text[TW_BROKER_ID_BYTES])
{
    char reversed[24];
    int n = 0, at = 0;
    for (; ticket != 0; ticket /= 10)
        reversed[n++] = (char)('0' + ticket % 10);
    while (n > 0)
        text[at++] = reversed[--n];
    text[at] = '\0';
}

uint64_t ticket_parse(const char *text)
{
    uint64_t ticket = 0;
    int digits = 0;
    for (; *text >= '0' && *text <= '9' && digits < 19; text++, digits++)
        ticket = ticket * 10 + (uint64_t)(*text - '0');
    return *text == '\0' ? ticket : 0;
}

void position_shown(const struct account *account, const struct position *position,
                    struct tw_held_position *ret)
{
    *ret = (struct tw_held_position){.side = position->side,
                                     .volume = position->volume,
                                     .open_price = position->open_price,
                                     .stop_loss = position->stop_loss,
                                     .take_profit = position->take_profit};
    ticket_text(position->ticket, ret->position_id);
    memcpy(ret->symbol, position->market->symbol, sizeof(ret->symbol));
    if (account->strip_comments)
        return; /* both are what such a broker writes into the comment */
    memcpy(ret->client_order_id, position->client_order_id, sizeof(ret->client_order_id));
    ticket_text(position->from_ticket, ret->from_position_id);
}

void pending_shown(const struct account *account, const struct pending *pending,
                   struct tw_held_order *ret)
{
    *ret = (struct tw_held_order){.side = pending->side,
                                  .type = pending->type,
                                  .volume = pending->volume,
                                  .price = pending->price,
                                  .stop_price = pending->stop_price,
                                  .stop_loss = pending->stop_loss,
                                  .take_profit = pending->take_profit,
                                  .expires_wall_ns = pending->expires_wall_ns};
    ticket_text(pending->ticket, ret->order_id);
    memcpy(ret->symbol, pending->market->symbol, sizeof(ret->symbol));
    if (!account->strip_comments)
        memcpy(ret->client_order_id, pending->client_order_id, sizeof(ret->client_order_id));
}

/* ---- Noting. ---- */

/* NULL: nobody to tell, or no memory for it (then the host will be told everything anew). */
static struct news *note(struct account *account, enum news_kind kind)
{
    if (account->session == NULL)
        return NULL;
    struct news *news = calloc(1, sizeof(*news));
    if (news == NULL) {
        account_disconnect(account, "news were lost", false);
        return NULL;
    }
    news->kind = kind;
    *account->news_last = news;
    account->news_last = &news->next;
    return news;
}

static struct news *note_connected(struct account *account, enum news_kind kind)
{
    return account->is_connected ? note(account, kind) : NULL;
}

void news_connection(struct account *account, bool is_connected, const char *why)
{
    struct news *news = note(account, is_connected ? NEWS_CONNECTED : NEWS_DISCONNECTED);
    if (news != NULL)
        news->why = why;
}

void news_quote(struct account *account, struct market *market)
{
    struct news *news = note_connected(account, NEWS_QUOTE);
    if (news == NULL)
        return;
    memcpy(news->about.quote.symbol, market->symbol, sizeof(market->symbol));
    news->about.quote.bid = market->bid;
    news->about.quote.ask = market->ask;
    account->account_news = true;
}

void news_instrument(struct account *account, const struct tw_instrument *instrument)
{
    struct news *news = note_connected(account, NEWS_INSTRUMENT);
    if (news == NULL)
        return;
    const struct tw_instrument *kept =
        instruments_find(&account->book.instruments, instrument->symbol);
    news->about.instrument = kept != NULL ? *kept : *instrument;
}

void news_market_open(struct account *account)
{
    (void)note_connected(account, NEWS_MARKET_OPEN);
}

void news_position(struct account *account, const struct position *position, tw_reason reason)
{
    struct news *news = note_connected(account, NEWS_POSITION);
    if (news == NULL)
        return;
    position_shown(account, position, &news->about.position);
    news->reason = reason;
}

void news_order_gone(struct account *account, const struct pending *pending, uint64_t position)
{
    struct news *news = note_connected(account, NEWS_ORDER_GONE);
    if (news == NULL)
        return;
    news->about.gone.order = pending->ticket;
    news->about.gone.position = position;
    if (!account->strip_comments)
        memcpy(news->about.gone.client_order_id, pending->client_order_id, TW_COPY_ID_BYTES);
}

void news_account(struct account *account)
{
    account->account_news = true;
}

/* ---- Telling. Without the lock from here on. ---- */

/* Everything a host is told before the connection, copied out from under the lock. */
struct picture {
    struct tw_account account;
    struct instruments instruments; /* the built-in table, or a copy of the account's own */
    struct quote *quotes;
    size_t n_quotes;
};

static bool picture_take(const struct account *account, struct picture *ret)
{
    const struct book *book = &account->book;
    struct picture picture = {.instruments = book->instruments};
    book_account(book, &picture.account);
    if (book->instruments.own != NULL) {
        picture.instruments.own = malloc(book->instruments.n * sizeof(struct tw_instrument));
        if (picture.instruments.own == NULL)
            return false;
        memcpy(picture.instruments.own, book->instruments.own,
               book->instruments.n * sizeof(struct tw_instrument));
        picture.instruments.list = picture.instruments.own;
    }
    if (book->n_markets > 0)
        picture.quotes = calloc(book->n_markets, sizeof(*picture.quotes));
    if (book->n_markets > 0 && picture.quotes == NULL) {
        instruments_clear(&picture.instruments);
        return false;
    }
    for (uint32_t i = 0; i < book->n_markets; i++) {
        const struct market *market = book->markets[i];
        if (market->bid <= 0)
            continue;
        struct quote *quote = &picture.quotes[picture.n_quotes++];
        memcpy(quote->symbol, market->symbol, sizeof(quote->symbol));
        quote->bid = market->bid;
        quote->ask = market->ask;
    }
    *ret = picture;
    return true;
}

static void picture_tell(const struct tw_session_host *host, const struct picture *picture)
{
    host->on_account(host->context, &picture->account);
    host->on_instruments(host->context, picture->instruments.list, picture->instruments.n);
    for (size_t i = 0; i < picture->n_quotes; i++)
        host->on_quote(host->context, picture->quotes[i].symbol, picture->quotes[i].bid,
                       picture->quotes[i].ask);
    host->on_connection(host->context, true, "");
}

static void picture_clear(struct picture *picture)
{
    instruments_clear(&picture->instruments);
    free(picture->quotes);
}

static void tell_one(const struct tw_session_host *host, const struct news *news)
{
    char order_id[TW_BROKER_ID_BYTES], position_id[TW_BROKER_ID_BYTES];
    switch (news->kind) {
    case NEWS_CONNECTED:
        return; /* with its picture, by the caller */
    case NEWS_DISCONNECTED:
        host->on_connection(host->context, false, news->why);
        return;
    case NEWS_QUOTE:
        host->on_quote(host->context, news->about.quote.symbol, news->about.quote.bid,
                       news->about.quote.ask);
        return;
    case NEWS_INSTRUMENT:
        host->on_instruments(host->context, &news->about.instrument, 1);
        return;
    case NEWS_MARKET_OPEN:
        host->on_market_open(host->context);
        return;
    case NEWS_POSITION:
        host->on_position(host->context, &news->about.position, news->reason);
        return;
    case NEWS_ORDER_GONE:
        ticket_text(news->about.gone.order, order_id);
        ticket_text(news->about.gone.position, position_id);
        host->on_order_gone(host->context, order_id, news->about.gone.client_order_id, position_id);
        return;
    }
}

static struct news *take_one(struct account *account)
{
    struct news *news = account->news;
    if (news == NULL)
        return NULL;
    account->news = news->next;
    if (account->news == NULL)
        account->news_last = &account->news;
    return news;
}

/* Tells the first of the news, or the account when there is none. Lock held at both ends. False:
 * there is nothing more to tell. */
static bool tell_next(struct account *account)
{
    const struct tw_session_host host = account->session->host;
    struct news *news = take_one(account);
    if (news != NULL) {
        struct picture picture = {0};
        bool has_picture = news->kind == NEWS_CONNECTED && picture_take(account, &picture);
        if (news->kind == NEWS_CONNECTED && !has_picture)
            account_disconnect(account, "no memory for the account's picture", false);
        pthread_mutex_unlock(&account->lock);
        tell_one(&host, news);
        if (has_picture)
            picture_tell(&host, &picture);
        picture_clear(&picture);
        free(news);
        pthread_mutex_lock(&account->lock);
        return true;
    }
    if (!account->account_news || !account->is_connected)
        return false;
    account->account_news = false;
    struct tw_account money;
    book_account(&account->book, &money);
    pthread_mutex_unlock(&account->lock);
    host.on_account(host.context, &money);
    pthread_mutex_lock(&account->lock);
    return true;
}

void news_tell_and_unlock(struct account *account)
{
    if (!account->is_telling && account->session != NULL) {
        account->is_telling = true;
        while (account->session != NULL && tell_next(account)) {
        }
        account->is_telling = false;
        if (account->session == NULL)
            pthread_cond_broadcast(&account->told);
    }
    pthread_mutex_unlock(&account->lock);
}

void news_end(struct account *account)
{
    pthread_mutex_lock(&account->lock);
    account->session = NULL;
    while (account->is_telling)
        pthread_cond_wait(&account->told, &account->lock);
    for (struct news *news = take_one(account); news != NULL; news = take_one(account))
        free(news);
    account->account_news = false;
    pthread_mutex_unlock(&account->lock);
}
