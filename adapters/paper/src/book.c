#include "book.h"
#include "wide.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { SPARE_POSITIONS = 4, SPARE_PENDINGS = 2, POSITIONS_OF_ENTRY = 2 };

/* Far above any balance and far below an overflow of a sum of two. */
#define MONEY_MAX (INT64_MAX / 4)

static tw_decimal money_capped(wide value)
{
    return value > MONEY_MAX ? MONEY_MAX : value < -MONEY_MAX ? -MONEY_MAX : (tw_decimal)value;
}

static tw_decimal money_scale(tw_decimal value, tw_decimal numerator, tw_decimal denominator)
{
    tw_decimal scaled;
    if (tw_decimal_scale(value, numerator, denominator, 1, TW_ROUND_NEAREST, &scaled))
        return money_capped(scaled);
    return (value < 0) == (numerator < 0) ? MONEY_MAX : -MONEY_MAX;
}

static tw_decimal money_add(tw_decimal a, tw_decimal b)
{
    return money_capped((wide)a + b);
}

/* ---- Markets. ---- */

static uint32_t market_place(const struct book *book, const char *symbol)
{
    uint32_t low = 0, high = book->n_markets;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (strcmp(book->markets[middle]->symbol, symbol) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct market *book_market(const struct book *book, const char *symbol)
{
    uint32_t at = market_place(book, symbol);
    return at < book->n_markets && strcmp(book->markets[at]->symbol, symbol) == 0
               ? book->markets[at]
               : NULL;
}

/* Room for one more pointer; the list keeps what it has on failure. */
static bool room_for_one(void *list_at, uint32_t n, uint32_t *cap)
{
    void **list;
    memcpy(&list, list_at, sizeof(list));
    if (n < *cap)
        return true;
    uint32_t wanted = *cap == 0 ? 4 : *cap * 2;
    void **grown = realloc(list, wanted * sizeof(*grown));
    if (grown == NULL)
        return false;
    memcpy(list_at, &grown, sizeof(grown));
    *cap = wanted;
    return true;
}

struct market *book_market_make(struct book *book, const char *symbol)
{
    uint32_t at = market_place(book, symbol);
    if (at < book->n_markets && strcmp(book->markets[at]->symbol, symbol) == 0)
        return book->markets[at];
    if (!room_for_one(&book->markets, book->n_markets, &book->markets_cap))
        return NULL;
    struct market *market = calloc(1, sizeof(*market));
    if (market == NULL)
        return NULL;

    strncpy(market->symbol, symbol, sizeof(market->symbol) - 1);
    market->instrument = instruments_find(&book->instruments, market->symbol);
    memmove(&book->markets[at + 1], &book->markets[at],
            (book->n_markets - at) * sizeof(*book->markets));
    book->markets[at] = market;
    book->n_markets++;
    return market;
}

static void revalue_all(struct book *book);

static void markets_follow(struct book *book)
{
    for (uint32_t i = 0; i < book->n_markets; i++)
        book->markets[i]->instrument =
            instruments_find(&book->instruments, book->markets[i]->symbol);
    revalue_all(book);
}

void book_instruments_set(struct book *book, struct instruments *table)
{
    instruments_clear(&book->instruments);
    book->instruments = *table;
    *table = (struct instruments){0};
    markets_follow(book);
}

tw_status book_instrument_put(struct book *book, const struct tw_instrument *instrument)
{
    tw_status status = instruments_put(&book->instruments, instrument);
    markets_follow(book);
    return status;
}

/* ---- What things are worth. ---- */

static const struct market *pair(const struct book *book, const char *from, const char *to)
{
    char symbol[16] = "";
    strcat(strcat(symbol, from), to); /* two currencies of at most 7 */
    const struct market *market = book_market(book, symbol);
    return market != NULL && market->bid > 0 ? market : NULL;
}

/* At the exact mid of the pair, else at 1/mid of its inverse; unquoted money counts as it is. */
static tw_decimal converted(const struct book *book, tw_decimal money, const char *currency)
{
    if (currency[0] == '\0' || strcmp(currency, book->currency) == 0)
        return money;
    const struct market *market = pair(book, currency, book->currency);
    if (market != NULL)
        return money_scale(money, market->bid + market->ask, 2 * TW_DECIMAL_ONE);
    market = pair(book, book->currency, currency);
    if (market != NULL)
        return money_scale(money, 2 * TW_DECIMAL_ONE, market->bid + market->ask);
    return money;
}

static tw_decimal units_of(const struct market *market, tw_decimal volume)
{
    return market->instrument != NULL
               ? money_scale(volume, market->instrument->contract_size, TW_DECIMAL_ONE)
               : volume;
}

static const char *profit_currency(const struct market *market)
{
    return market->instrument != NULL ? market->instrument->profit_currency : "";
}

tw_decimal book_profit(const struct book *book, const struct position *position, tw_decimal volume,
                       tw_decimal price)
{
    tw_decimal moved =
        position->side == TW_BUY ? price - position->open_price : position->open_price - price;
    tw_decimal money = money_scale(moved, units_of(position->market, volume), TW_DECIMAL_ONE);
    return converted(book, money, profit_currency(position->market));
}

tw_decimal book_margin(const struct book *book, const struct market *market, tw_decimal volume,
                       tw_decimal price)
{
    if (book->leverage == 0)
        return 0;
    tw_decimal money = money_scale(price, units_of(market, volume), TW_DECIMAL_ONE);
    return converted(book, money, profit_currency(market)) / (tw_decimal)book->leverage;
}

static void value_forget(struct book *book, const struct position *position)
{
    book->floating = money_add(book->floating, -position->floating);
    book->margin = money_add(book->margin, -position->margin);
}

static void value_count(struct book *book, struct position *position)
{
    const struct market *market = position->market;
    tw_decimal price = position->side == TW_BUY ? market->bid : market->ask;
    position->floating = price > 0 ? book_profit(book, position, position->volume, price) : 0;
    position->margin = book_margin(book, market, position->volume, position->open_price);
    book->floating = money_add(book->floating, position->floating);
    book->margin = money_add(book->margin, position->margin);
}

/* From nothing, so that no rounding is carried along. */
static void revalue_all(struct book *book)
{
    book->floating = book->margin = 0;
    for (uint32_t i = 0; i < book->n_positions; i++)
        value_count(book, book->positions[i]);
}

void book_quote(struct book *book, struct market *market, tw_decimal bid, tw_decimal ask)
{
    market->bid = bid;
    market->ask = ask;
    market->quote_told = false;
    revalue_all(book); /* the pair may be what others are converted at */
}

void book_account(const struct book *book, struct tw_account *ret)
{
    *ret = (struct tw_account){.balance = book->line.balance, .leverage = book->leverage};
    memcpy(ret->currency, book->currency, sizeof(ret->currency));
    ret->equity = money_add(book->line.balance, book->floating);
    ret->free_margin = money_add(ret->equity, -book->margin);
}

/* ---- Positions and pendings. ---- */

static uint32_t position_place(const struct book *book, uint64_t ticket)
{
    uint32_t low = 0, high = book->n_positions;
    if (high > 0 && book->positions[high - 1]->ticket < ticket)
        return high; /* nearly always: tickets rise */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (book->positions[middle]->ticket < ticket)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct position *book_position(const struct book *book, uint64_t ticket)
{
    uint32_t at = position_place(book, ticket);
    return at < book->n_positions && book->positions[at]->ticket == ticket ? book->positions[at]
                                                                           : NULL;
}

struct position *book_position_of(const struct book *book, const struct market *market)
{
    for (uint32_t i = 0; i < book->n_positions; i++) {
        if (book->positions[i]->market == market)
            return book->positions[i];
    }
    return NULL;
}

static uint32_t pending_place(const struct book *book, uint64_t ticket)
{
    uint32_t at = book->n_pendings;
    while (at > 0 && book->pendings[at - 1]->ticket >= ticket)
        at--;
    return at;
}

struct pending *book_pending(const struct book *book, uint64_t ticket)
{
    uint32_t at = pending_place(book, ticket);
    return at < book->n_pendings && book->pendings[at]->ticket == ticket ? book->pendings[at]
                                                                         : NULL;
}

static void position_recycle(struct book *book, struct position *position)
{
    if (book->n_spare_positions < SPARE_POSITIONS)
        book->spare_positions[book->n_spare_positions++] = position;
    else
        free(position);
}

static void position_apply(struct book *book, const struct position *after)
{
    uint32_t at = position_place(book, after->ticket);
    struct position *position = NULL;
    if (at < book->n_positions && book->positions[at]->ticket == after->ticket)
        position = book->positions[at];
    if (position != NULL)
        value_forget(book, position);

    if (after->volume == 0) {
        if (position == NULL)
            return;
        memmove(&book->positions[at], &book->positions[at + 1],
                (book->n_positions - at - 1) * sizeof(*book->positions));
        book->n_positions--;
        position_recycle(book, position);
        return;
    }
    if (position == NULL) {
        position = book->spare_positions[--book->n_spare_positions];
        memmove(&book->positions[at + 1], &book->positions[at],
                (book->n_positions - at) * sizeof(*book->positions));
        book->positions[at] = position;
        book->n_positions++;
    }
    *position = *after;
    value_count(book, position);
}

static void pending_recycle(struct book *book, struct pending *pending)
{
    if (book->n_spare_pendings < SPARE_PENDINGS)
        book->spare_pendings[book->n_spare_pendings++] = pending;
    else
        free(pending);
}

static void pending_apply(struct book *book, const struct pending *after)
{
    uint32_t at = pending_place(book, after->ticket);
    bool is_there = at < book->n_pendings && book->pendings[at]->ticket == after->ticket;
    if (after->volume == 0) {
        if (!is_there)
            return;
        pending_recycle(book, book->pendings[at]);
        memmove(&book->pendings[at], &book->pendings[at + 1],
                (book->n_pendings - at - 1) * sizeof(*book->pendings));
        book->n_pendings--;
        return;
    }
    if (!is_there) {
        memmove(&book->pendings[at + 1], &book->pendings[at],
                (book->n_pendings - at) * sizeof(*book->pendings));
        book->pendings[at] = book->spare_pendings[--book->n_spare_pendings];
        book->n_pendings++;
    }
    *book->pendings[at] = *after;
}

/* ---- Deals and answers. ---- */

static void deal_apply(struct book *book, const struct deal *deal)
{
    if (book->n_deals < BOOK_DEALS_MAX) {
        book->deals[book->n_deals++] = *deal;
        return;
    }
    book->deals[book->deals_first] = *deal;
    book->deals_first = (book->deals_first + 1) % BOOK_DEALS_MAX;
}

const struct deal *book_deal(const struct book *book, uint32_t i)
{
    assert(i < book->n_deals);
    return &book->deals[(book->deals_first + i) % book->n_deals];
}

static uint32_t id_hash(const char *client_order_id)
{
    uint32_t hash = 2166136261u;
    for (const char *at = client_order_id; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    return hash ^ (hash >> 15);
}

static uint32_t *bucket_of(const struct book *book, uint32_t hash)
{
    return &book->buckets[hash & (book->n_buckets - 1)];
}

static struct answer *answer_find(const struct book *book, const char *client_order_id)
{
    if (book->n_buckets == 0)
        return NULL;
    uint32_t hash = id_hash(client_order_id);
    for (uint32_t i = *bucket_of(book, hash); i != 0; i = book->answers[i - 1].next) {
        struct answer *answer = &book->answers[i - 1];
        if (answer->hash == hash && strcmp(answer->client_order_id, client_order_id) == 0)
            return answer;
    }
    return NULL;
}

const struct answer *book_answer(const struct book *book, const char *client_order_id)
{
    return answer_find(book, client_order_id);
}

const struct answer *book_answer_at(const struct book *book, uint32_t i)
{
    assert(i < book->n_answers);
    return &book->answers[(book->answers_first + i) % book->n_answers];
}

static void answer_link(struct book *book, uint32_t index)
{
    uint32_t *bucket = bucket_of(book, book->answers[index].hash);
    book->answers[index].next = *bucket;
    *bucket = index + 1;
}

static void answer_unlink(struct book *book, uint32_t index)
{
    uint32_t *at = bucket_of(book, book->answers[index].hash);
    while (*at != index + 1)
        at = &book->answers[*at - 1].next;
    *at = book->answers[index].next;
}

static void answer_new(struct book *book, const struct answer *answer)
{
    uint32_t index;
    if (book->n_answers < BOOK_ANSWERS_MAX) {
        index = book->n_answers++;
    } else {
        index = book->answers_first;
        book->answers_first = (index + 1) % BOOK_ANSWERS_MAX;
        answer_unlink(book, index);
    }
    book->answers[index] = *answer;
    book->answers[index].hash = id_hash(answer->client_order_id);
    answer_link(book, index);
}

static bool is_executed(const struct answer *answer)
{
    return answer->outcome != TW_OUTCOME_REJECTED;
}

static bool moves_volume(enum tw_order_op op)
{
    return op == TW_OP_OPEN || op == TW_OP_CLOSE || op == TW_OP_PLACE;
}

/* The same id again. A refusal never hides an execution, a change never hides the order that was
 * changed under its id, and what was executed twice shows the sum: the broker does not refuse a
 * known id, so that a blind repeat is seen. */
static void answer_merge(struct answer *known, const struct answer *more)
{
    bool is_lesser = (is_executed(known) && !is_executed(more)) ||
                     (is_executed(known) && moves_volume(known->op) && !moves_volume(more->op));
    if (is_lesser)
        return;

    struct answer merged = *more;
    if (is_executed(known) && known->filled > 0 && more->filled > 0) {
        wide value =
            (wide)known->filled * known->average_price + (wide)more->filled * more->average_price;
        merged.filled = money_add(known->filled, more->filled);
        merged.average_price = (tw_decimal)(value / merged.filled);
        merged.position = known->position;
    }
    merged.hash = known->hash;
    merged.next = known->next;
    *known = merged;
}

static void answer_apply(struct book *book, const struct answer *answer)
{
    struct answer *known = answer_find(book, answer->client_order_id);
    if (known != NULL)
        answer_merge(known, answer);
    else
        answer_new(book, answer);
}

/* ---- Entries. ---- */

static bool answers_reserve(struct book *book)
{
    if (book->n_answers < book->answers_cap || book->answers_cap == BOOK_ANSWERS_MAX)
        return true;
    uint32_t cap = book->answers_cap == 0 ? 8 : book->answers_cap * 2;
    struct answer *answers = realloc(book->answers, cap * sizeof(*answers));
    if (answers == NULL)
        return false;
    book->answers = answers;
    uint32_t *buckets =
        calloc((size_t)cap * 2, sizeof(*buckets)); /* short chains: each link is a miss */
    if (buckets == NULL)
        return false; /* answers is merely larger than it says */
    free(book->buckets);
    book->buckets = buckets;
    book->answers_cap = cap;
    book->n_buckets = cap * 2;
    for (uint32_t i = 0; i < book->n_answers; i++)
        answer_link(book, i);
    return true;
}

static bool deals_reserve(struct book *book)
{
    if (book->n_deals < book->deals_cap || book->deals_cap == BOOK_DEALS_MAX)
        return true;
    uint32_t cap = book->deals_cap == 0 ? 8 : book->deals_cap * 2;
    struct deal *deals = realloc(book->deals, cap * sizeof(*deals));
    if (deals == NULL)
        return false;
    book->deals = deals;
    book->deals_cap = cap;
    return true;
}

static bool spares_reserve(struct book *book)
{
    while (book->n_spare_positions < POSITIONS_OF_ENTRY) {
        struct position *position = malloc(sizeof(*position));
        if (position == NULL)
            return false;
        book->spare_positions[book->n_spare_positions++] = position;
    }
    return true;
}

static bool pendings_reserve(struct book *book)
{
    if (book->n_spare_pendings == 0) {
        struct pending *pending = malloc(sizeof(*pending));
        if (pending == NULL)
            return false;
        book->spare_pendings[book->n_spare_pendings++] = pending;
    }
    return room_for_one(&book->pendings, book->n_pendings, &book->pendings_cap);
}

static bool positions_reserve(struct book *book)
{
    return spares_reserve(book) &&
           room_for_one(&book->positions, book->n_positions + 1, &book->positions_cap);
}

tw_status book_reserve(struct book *book)
{
    return answers_reserve(book) && deals_reserve(book) && positions_reserve(book) &&
                   pendings_reserve(book)
               ? TW_OK
               : TW_NO_MEMORY;
}

void book_apply(struct book *book, const struct entry *entry)
{
    book->line = entry->line;
    for (uint32_t i = 0; i < entry->n_positions; i++)
        position_apply(book, &entry->positions[i]);
    if (entry->has_pending)
        pending_apply(book, &entry->pending);
    if (entry->has_deal)
        deal_apply(book, &entry->deal);
    if (entry->has_answer)
        answer_apply(book, &entry->answer);
}

void book_clear(struct book *book)
{
    for (uint32_t i = 0; i < book->n_markets; i++)
        free(book->markets[i]);
    for (uint32_t i = 0; i < book->n_positions; i++)
        free(book->positions[i]);
    for (uint32_t i = 0; i < book->n_pendings; i++)
        free(book->pendings[i]);
    for (uint32_t i = 0; i < book->n_spare_positions; i++)
        free(book->spare_positions[i]);
    for (uint32_t i = 0; i < book->n_spare_pendings; i++)
        free(book->spare_pendings[i]);
    free(book->markets);
    free(book->positions);
    free(book->pendings);
    free(book->deals);
    free(book->answers);
    free(book->buckets);
    instruments_clear(&book->instruments);
    *book = (struct book){0};
}
