#define _GNU_SOURCE
#include "sim.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <fcntl.h>
#include <unistd.h>

#define ONE        INT64_C(100000000)
#define NS_PER_MS  INT64_C(1000000)
#define FROM_PRICE INT64_C(110000000) /* 1.10000 */

enum { FIRST_NOTHING, FIRST_REPLY_LOST, FIRST_CALL_LOST, FIRST_REFUSED, FIRST_HANG_UP, FIRST_BY_CODE };
static const char *const firsts[] = {"", "reply_lost", "call_lost", "refused", "hang_up", NULL};

static const struct twp_instrument instruments[] = {
    {.size = sizeof(struct twp_instrument), .volume_min = ONE / 100, .volume_step = ONE / 100, .volume_max = 100 * ONE,
     .contract_size = 100000 * ONE, .tick_size = ONE / 100000, .base_currency = "EUR", .profit_currency = "USD",
     .symbol = "EURUSD"},
    {.size = sizeof(struct twp_instrument), .volume_min = ONE / 100, .volume_step = ONE / 100, .volume_max = 50 * ONE,
     .contract_size = 100 * ONE, .tick_size = ONE / 100, .base_currency = "XAU", .profit_currency = "USD",
     .symbol = "XAUUSD"},
};
static const struct {
    const char *symbol;
    twp_decimal bid, ask;
} prices[] = {{"EURUSD", FROM_PRICE, FROM_PRICE + ONE / 5000}, {"XAUUSD", 2400 * ONE, 2400 * ONE + ONE / 2}};
enum { SYMBOLS = sizeof prices / sizeof prices[0] };

struct done {
    char client_order_id[TWP_CLIENT_BYTES];
    int32_t outcome;
    struct twp_result result;
};

struct account {
    struct account *next;
    char key[80];
    pthread_mutex_t lock;
    int is_netting;
    unsigned opens; /* that came, executed or not */
    unsigned calls;
    uint64_t last_ticket;
    twp_decimal balance;
    int ledger; /* a file; -1 = none */
    struct twp_position *positions;
    struct twp_pending *orders;
    struct done *done;
    size_t n_positions, n_orders, n_done;
};

struct twp_session {
    struct account *account;
    const struct twp_host *host;
    int64_t latency_ns;
    int first, first_code;
    unsigned drop_every; /* 0 = never */
    int stamps;          /* a file; -1 = none */
    atomic_int is_dead;
    atomic_int inside; /* calls */
};

static pthread_mutex_t accounts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct account *accounts;

/* ---- Small things ---- */

int64_t sim_mono_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void sim_sleep_until(int64_t mono_ns)
{
    struct timespec until = {.tv_sec = (time_t)(mono_ns / 1000000000), .tv_nsec = (long)(mono_ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) {
    }
}

const char *sim_setting(const struct twp_open *open, const char *key)
{
    for (uint32_t i = 0; i < open->n_settings; i++)
        if (strcmp(open->settings[i].key, key) == 0)
            return open->settings[i].value;
    return "";
}

static int first_of(const char *word)
{
    for (int i = 0; firsts[i] != NULL; i++)
        if (strcmp(firsts[i], word) == 0)
            return i;
    return -1;
}

static int wrong(struct twp_words *words, const char *key, const char *value, const char *expected)
{
    snprintf(words->key, sizeof words->key, "%s", key);
    snprintf(words->text, sizeof words->text, "%s is \"%s\", expected %s", key, value, expected);
    return TWP_REJECTED;
}

int32_t sim_check(const struct twp_setting *settings, uint32_t n, struct twp_words *words)
{
    for (uint32_t i = 0; i < n; i++) {
        const char *key = settings[i].key, *value = settings[i].value;
        if (strcmp(key, "latency") == 0) {
            if (strspn(value, "0123456789") == 0 || strcmp(value + strspn(value, "0123456789"), "ms") != 0)
                return wrong(words, key, value, "milliseconds like 130ms");
        } else if (strcmp(key, "first_open") == 0) {
            if (first_of(value) < 0)
                return wrong(words, key, value, "reply_lost, call_lost, refused or hang_up");
        } else if (strcmp(key, "by_code") != 0 && strcmp(key, "drop_every") != 0 && strcmp(key, "password") != 0 &&
                   strcmp(key, "ledger") != 0 && strcmp(key, "stamps") != 0) {
            return wrong(words, key, value, "one of latency, first_open, by_code, drop_every, ledger, stamps, password as a key");
        }
    }
    return TWP_DONE;
}

static void text_set(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from);
}

/* ---- Sessions ---- */

static void ledger_open(struct account *account, const char *folder);

static struct account *account_obtain(const struct twp_open *open)
{
    pthread_mutex_lock(&accounts_lock);
    struct account *account = accounts;
    while (account != NULL && strcmp(account->key, open->account_key) != 0)
        account = account->next;
    if (account == NULL && (account = calloc(1, sizeof *account)) != NULL) {
        text_set(account->key, sizeof account->key, open->account_key);
        pthread_mutex_init(&account->lock, NULL);
        account->is_netting = open->is_netting;
        account->balance = 10000 * ONE;
        ledger_open(account, sim_setting(open, "ledger"));
        account->next = accounts;
        accounts = account;
    }
    pthread_mutex_unlock(&accounts_lock);
    return account;
}

int32_t sim_session_open(const struct twp_open *open, struct twp_session **ret, struct twp_words *words)
{
    const char *latency = sim_setting(open, "latency"), *by_code = sim_setting(open, "by_code");
    struct twp_session *session = calloc(1, sizeof *session);
    if (session == NULL || (session->account = account_obtain(open)) == NULL) {
        free(session);
        text_set(words->text, sizeof words->text, "no memory");
        return TWP_RETRY_LATER;
    }
    session->host = open->host;
    session->latency_ns = latency[0] != '\0' ? strtol(latency, NULL, 10) * NS_PER_MS : sim_latency_ns;
    session->first = by_code[0] != '\0' ? FIRST_BY_CODE : first_of(sim_setting(open, "first_open"));
    session->drop_every = (unsigned)atoi(sim_setting(open, "drop_every"));
    session->first_code = by_code[0] != '\0' ? atoi(by_code) : 0;
    const char *stamps = sim_setting(open, "stamps");
    session->stamps = stamps[0] != '\0' ? openat(AT_FDCWD, stamps, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    *ret = session;
    return TWP_DONE;
}

void sim_session_close(struct twp_session *session)
{
    if (session->stamps >= 0)
        close(session->stamps);
    free(session);
}

/* Where one call at a time is promised, two are the host's mistake: nothing goes on. */
static void enter(struct twp_session *session)
{
    if (atomic_fetch_add(&session->inside, 1) > 0 && sim_is_one_at_a_time) {
        fprintf(stderr, "two calls at once in one session\n");
        abort();
    }
}

static int32_t leave(struct twp_session *session, int32_t outcome)
{
    atomic_fetch_sub(&session->inside, 1);
    return outcome;
}

/* ---- Questions ---- */

static int32_t account_now(struct twp_session *session, int64_t deadline_mono_ns, struct twp_account *ret)
{
    (void)deadline_mono_ns;
    if (session->is_dead)
        return TWP_SESSION_LOST;
    ret->is_netting = session->account->is_netting;
    ret->leverage = 100;
    ret->balance = ret->equity = ret->free_margin = session->account->balance;
    text_set(ret->currency, sizeof ret->currency, "USD");
    return TWP_DONE;
}

static int32_t instruments_now(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list)
{
    (void)session;
    (void)deadline_mono_ns;
    for (size_t i = 0; i < sizeof instruments / sizeof instruments[0]; i++)
        if (list->add(list->ctx, &instruments[i]) != 0)
            return TWP_AMBIGUOUS;
    return TWP_DONE;
}

static int32_t quotes_now(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list)
{
    (void)deadline_mono_ns;
    if (session->is_dead)
        return TWP_SESSION_LOST;
    for (size_t i = 0; i < SYMBOLS; i++) {
        struct twp_quote quote = {.size = sizeof quote, .bid = prices[i].bid, .ask = prices[i].ask};
        text_set(quote.symbol, sizeof quote.symbol, prices[i].symbol);
        if (list->add(list->ctx, &quote) != 0)
            return TWP_AMBIGUOUS;
    }
    return TWP_DONE;
}

static int32_t positions_now(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list)
{
    struct account *account = session->account;
    int32_t outcome = session->is_dead ? TWP_SESSION_LOST : TWP_DONE;
    (void)deadline_mono_ns;
    pthread_mutex_lock(&account->lock);
    for (size_t i = 0; i < account->n_positions && outcome == TWP_DONE; i++)
        if (list->add(list->ctx, &account->positions[i]) != 0)
            outcome = TWP_AMBIGUOUS;
    pthread_mutex_unlock(&account->lock);
    return outcome;
}

static int32_t orders_now(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list)
{
    struct account *account = session->account;
    int32_t outcome = session->is_dead ? TWP_SESSION_LOST : TWP_DONE;
    (void)deadline_mono_ns;
    pthread_mutex_lock(&account->lock);
    for (size_t i = 0; i < account->n_orders && outcome == TWP_DONE; i++)
        if (list->add(list->ctx, &account->orders[i]) != 0)
            outcome = TWP_AMBIGUOUS;
    pthread_mutex_unlock(&account->lock);
    return outcome;
}

/* ---- The book. Under the account's lock. ---- */

static void *grown(void *array, size_t n, size_t size)
{
    return (n & (n - 1)) == 0 ? realloc(array, (n == 0 ? 1 : 2 * n) * size) : array;
}

static struct twp_position *position_find(struct account *account, const struct twp_order *order)
{
    for (size_t i = 0; i < account->n_positions; i++) {
        struct twp_position *position = &account->positions[i];
        if (account->is_netting ? strcmp(position->symbol, order->symbol) == 0
                                : strcmp(position->position_id, order->position_id) == 0)
            return position;
    }
    return NULL;
}

static void position_remove(struct account *account, struct twp_position *position)
{
    *position = account->positions[--account->n_positions];
}

static twp_decimal price_of(const struct twp_order *order)
{
    for (size_t i = 0; i < SYMBOLS; i++)
        if (strcmp(prices[i].symbol, order->symbol) == 0)
            return order->side == TWP_BUY ? prices[i].ask : prices[i].bid;
    return 0;
}

static int32_t refuse(struct twp_result *ret, int32_t outcome, int32_t reason, const char *text)
{
    ret->reason = reason;
    ret->flags |= TWP_F_FROM_BROKER;
    text_set(ret->text, sizeof ret->text, text);
    return outcome;
}

static int32_t open_new(struct account *account, const struct twp_order *order, twp_decimal price, struct twp_result *ret)
{
    account->positions = grown(account->positions, account->n_positions, sizeof *account->positions);
    struct twp_position *position = &account->positions[account->n_positions++];
    *position = (struct twp_position){
        .size = sizeof *position,
        .side = order->side,
        .volume = order->volume,
        .open_price = price,
        .stop_loss = order->stop_loss == TWP_UNSET ? 0 : order->stop_loss,
        .take_profit = order->take_profit == TWP_UNSET ? 0 : order->take_profit,
    };
    if (account->is_netting)
        text_set(position->position_id, sizeof position->position_id, order->symbol);
    else
        snprintf(position->position_id, sizeof position->position_id, "%llu", (unsigned long long)++account->last_ticket);
    text_set(position->symbol, sizeof position->symbol, order->symbol);
    text_set(position->client_order_id, sizeof position->client_order_id, order->client_order_id);
    text_set(ret->position_id, sizeof ret->position_id, position->position_id);
    return TWP_DONE;
}

/* A netting account's second order of a symbol: more of it, less, or over to the other side. */
static int32_t net(struct account *account, struct twp_position *position, const struct twp_order *order, twp_decimal price,
                   struct twp_result *ret)
{
    text_set(ret->position_id, sizeof ret->position_id, position->position_id);
    if (position->side == order->side) {
        position->volume += order->volume;
    } else if (position->volume > order->volume) {
        position->volume -= order->volume;
    } else {
        twp_decimal over = order->volume - position->volume;
        position_remove(account, position);
        if (over > 0) {
            struct twp_order rest = *order;
            rest.volume = over;
            return open_new(account, &rest, price, ret);
        }
    }
    return TWP_DONE;
}

static int32_t do_open(struct account *account, const struct twp_order *order, struct twp_result *ret)
{
    twp_decimal price = price_of(order);
    if (price == 0)
        return refuse(ret, TWP_REJECTED, TWP_R_SYMBOL_NOT_FOUND, "unknown symbol");
    if (order->volume < ONE / 100 || order->volume % (ONE / 100) != 0)
        return refuse(ret, TWP_REJECTED, TWP_R_INVALID_VOLUME, "invalid volume");
    struct twp_position *position = account->is_netting ? position_find(account, order) : NULL;
    ret->filled_volume = order->volume;
    ret->average_price = price;
    return position != NULL ? net(account, position, order, price, ret) : open_new(account, order, price, ret);
}

static int32_t do_close(struct account *account, const struct twp_order *order, struct twp_result *ret)
{
    struct twp_position *position = position_find(account, order);
    if (position == NULL || position->side == order->side)
        return refuse(ret, TWP_NOT_FOUND, TWP_R_OTHER, "no such position");
    twp_decimal volume = order->volume == TWP_UNSET ? position->volume : order->volume;
    if (volume > position->volume && (order->flags & TWP_ORDER_REDUCE_ONLY) == 0)
        return refuse(ret, TWP_REJECTED, TWP_R_INVALID_VOLUME, "more than there is");
    int32_t outcome = volume > position->volume ? TWP_PARTIAL : TWP_DONE;
    if (volume > position->volume)
        volume = position->volume;
    ret->filled_volume = volume;
    ret->average_price = price_of(order);
    ret->remaining_volume = position->volume - volume;
    text_set(ret->position_id, sizeof ret->position_id, position->position_id);
    position->volume -= volume;
    if (position->volume == 0)
        position_remove(account, position);
    return outcome;
}

static int change(twp_decimal *stop, twp_decimal wanted)
{
    if (wanted == TWP_UNSET || wanted == *stop)
        return 0;
    *stop = wanted;
    return 1;
}

static int32_t do_modify(struct account *account, const struct twp_order *order, struct twp_result *ret)
{
    struct twp_position *position = position_find(account, order);
    if (position == NULL)
        return refuse(ret, TWP_NOT_FOUND, TWP_R_OTHER, "no such position");
    int changed = change(&position->stop_loss, order->stop_loss);
    changed |= change(&position->take_profit, order->take_profit);
    return changed ? TWP_DONE : TWP_NO_CHANGE;
}

static int32_t do_place(struct account *account, const struct twp_order *order, struct twp_result *ret)
{
    if (price_of(order) == 0)
        return refuse(ret, TWP_REJECTED, TWP_R_SYMBOL_NOT_FOUND, "unknown symbol");
    account->orders = grown(account->orders, account->n_orders, sizeof *account->orders);
    struct twp_pending *pending = &account->orders[account->n_orders++];
    *pending = (struct twp_pending){
        .size = sizeof *pending,
        .side = order->side,
        .type = order->type,
        .volume = order->volume,
        .price = order->price == TWP_UNSET ? 0 : order->price,
        .stop_price = order->stop_price == TWP_UNSET ? 0 : order->stop_price,
        .stop_loss = order->stop_loss == TWP_UNSET ? 0 : order->stop_loss,
        .take_profit = order->take_profit == TWP_UNSET ? 0 : order->take_profit,
        .expires_wall_ns = order->expires_wall_ns,
    };
    snprintf(pending->order_id, sizeof pending->order_id, "%llu", (unsigned long long)++account->last_ticket);
    text_set(pending->symbol, sizeof pending->symbol, order->symbol);
    text_set(pending->client_order_id, sizeof pending->client_order_id, order->client_order_id);
    text_set(ret->order_id, sizeof ret->order_id, pending->order_id);
    return TWP_DONE;
}

static struct twp_pending *pending_find(struct account *account, const struct twp_order *order)
{
    for (size_t i = 0; i < account->n_orders; i++)
        if (strcmp(account->orders[i].order_id, order->order_id) == 0)
            return &account->orders[i];
    return NULL;
}

static int32_t do_modify_order(struct account *account, const struct twp_order *order, struct twp_result *ret)
{
    struct twp_pending *pending = pending_find(account, order);
    if (pending == NULL)
        return refuse(ret, TWP_NOT_FOUND, TWP_R_OTHER, "no such order");
    int changed = change(&pending->price, order->price);
    changed |= change(&pending->stop_price, order->stop_price);
    changed |= change(&pending->stop_loss, order->stop_loss);
    changed |= change(&pending->take_profit, order->take_profit);
    return changed ? TWP_DONE : TWP_NO_CHANGE;
}

static int32_t do_cancel(struct account *account, const struct twp_order *order, struct twp_result *ret)
{
    struct twp_pending *pending = pending_find(account, order);
    if (pending == NULL)
        return refuse(ret, TWP_NOT_FOUND, TWP_R_OTHER, "no such order");
    *pending = account->orders[--account->n_orders];
    return TWP_DONE;
}

typedef int32_t do_fn(struct account *account, const struct twp_order *order, struct twp_result *ret);
static do_fn *const doing[] = {
    [TWP_OP_OPEN] = do_open,   [TWP_OP_CLOSE] = do_close,               [TWP_OP_MODIFY] = do_modify,
    [TWP_OP_PLACE] = do_place, [TWP_OP_MODIFY_ORDER] = do_modify_order, [TWP_OP_CANCEL] = do_cancel,
};

static void remember(struct account *account, const char *client_order_id, int32_t outcome, const struct twp_result *result)
{
    account->done = grown(account->done, account->n_done, sizeof *account->done);
    struct done *done = &account->done[account->n_done++];
    *done = (struct done){.outcome = outcome, .result = *result};
    text_set(done->client_order_id, sizeof done->client_order_id, client_order_id);
}

/* ---- Calls ---- */

static int32_t time_out(struct twp_result *ret)
{
    ret->reason = TWP_R_TIMEOUT;
    return TWP_AMBIGUOUS;
}

/* Sleeps; false: the deadline came first. */
static int travel(const struct twp_order *order, int64_t until_mono_ns)
{
    int is_late = sim_keeps_deadlines && until_mono_ns > order->deadline_mono_ns;
    sim_sleep_until(is_late ? order->deadline_mono_ns : until_mono_ns);
    return !is_late;
}

static int first_taken(struct twp_session *session, const struct twp_order *order)
{
    int first = FIRST_NOTHING;
    if (order->op != TWP_OP_OPEN)
        return first;
    pthread_mutex_lock(&session->account->lock);
    if (session->account->opens++ == 0)
        first = session->first;
    pthread_mutex_unlock(&session->account->lock);
    return first;
}

/* Every nth call loses its session, in turns before and after it was executed. 0 = this one does not. */
static unsigned drop_taken(struct twp_session *session)
{
    unsigned every = session->drop_every, calls = 0;
    pthread_mutex_lock(&session->account->lock);
    if (every > 0 && ++session->account->calls % every == 0)
        calls = session->account->calls / every;
    pthread_mutex_unlock(&session->account->lock);
    return calls;
}

static int32_t drop(struct twp_session *session, struct twp_result *ret)
{
    session->is_dead = 1;
    *ret = (struct twp_result){.size = ret->size, .remaining_volume = TWP_UNSET};
    return TWP_SESSION_LOST;
}

/* Under the account's lock. */
static int32_t carry_out(struct account *account, const struct twp_order *order, struct twp_result *ret)
{
    int32_t outcome = doing[order->op](account, order, ret);
    if (outcome == TWP_DONE || outcome == TWP_PARTIAL || outcome == TWP_NO_CHANGE)
        remember(account, order->client_order_id, outcome, ret);
    return outcome;
}

/* What is in the ledger is carried out, whatever happens to this process; until then nobody has heard of it. */
static int32_t trade(struct account *account, const struct twp_order *order, struct twp_result *ret)
{
    pthread_mutex_lock(&account->lock);
    int32_t outcome = carry_out(account, order, ret);
    bool is_done = outcome == TWP_DONE || outcome == TWP_PARTIAL;
    if (is_done && account->ledger >= 0 && write(account->ledger, order, sizeof *order) != (ssize_t)sizeof *order)
        abort();
    pthread_mutex_unlock(&account->lock);
    return outcome;
}

/* What earlier processes carried out comes to the same again. */
static void ledger_open(struct account *account, const char *folder)
{
    char path[512];
    struct twp_order order;
    account->ledger = -1;
    if (folder[0] == '\0')
        return;
    snprintf(path, sizeof path, "%s/%s", folder, account->key);
    account->ledger = openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    while (account->ledger >= 0 && read(account->ledger, &order, sizeof order) == (ssize_t)sizeof order) {
        struct twp_result result = {.size = sizeof result, .remaining_volume = TWP_UNSET};
        (void)carry_out(account, &order, &result);
    }
}

struct stamp {
    int64_t mono_ns;
    char client_order_id[TWP_CLIENT_BYTES];
    char unused[64 - 8 - TWP_CLIENT_BYTES];
};

static void stamp_write(const struct twp_session *session, const struct twp_order *order, int64_t mono_ns)
{
    struct stamp stamp = {.mono_ns = mono_ns};
    if (session->stamps < 0)
        return;
    memcpy(stamp.client_order_id, order->client_order_id, sizeof stamp.client_order_id);
    if (write(session->stamps, &stamp, sizeof stamp) != (ssize_t)sizeof stamp)
        abort();
}

static int32_t execute_now(struct twp_session *session, const struct twp_order *order, struct twp_result *ret)
{
    int64_t from = sim_mono_ns();
    stamp_write(session, order, from);
    int first = first_taken(session, order);
    if (session->is_dead) {
        ret->flags |= TWP_F_NOT_SENT;
        return TWP_SESSION_LOST;
    }
    if (order->op < TWP_OP_OPEN || order->op > TWP_OP_CANCEL)
        return TWP_UNSUPPORTED;
    if (first == FIRST_BY_CODE) {
        ret->vendor_code = session->first_code;
        return TWP_BY_CODE;
    }
    if (first == FIRST_REFUSED)
        return refuse(ret, TWP_REJECTED, TWP_R_NO_MONEY, "not enough money");
    if (first == FIRST_CALL_LOST) {
        sim_sleep_until(order->deadline_mono_ns);
        return time_out(ret);
    }
    if (!travel(order, from + session->latency_ns / 2))
        return time_out(ret);
    unsigned dropped = drop_taken(session);
    if (dropped % 2 == 1)
        return drop(session, ret);
    int32_t outcome = trade(session->account, order, ret);
    if (first == FIRST_HANG_UP || dropped > 0)
        return drop(session, ret);
    if (first == FIRST_REPLY_LOST)
        sim_sleep_until(order->deadline_mono_ns);
    if (first == FIRST_REPLY_LOST || !travel(order, from + session->latency_ns)) {
        *ret = (struct twp_result){.size = ret->size, .remaining_volume = TWP_UNSET};
        return time_out(ret);
    }
    return outcome;
}

static int32_t lookup_now(struct twp_session *session, const struct twp_order *order, struct twp_result *ret)
{
    struct account *account = session->account;
    int32_t outcome = TWP_NOT_FOUND;
    if (session->is_dead)
        return TWP_SESSION_LOST;
    pthread_mutex_lock(&account->lock);
    for (size_t i = account->n_done; i > 0 && outcome == TWP_NOT_FOUND; i--)
        if (strcmp(account->done[i - 1].client_order_id, order->client_order_id) == 0) {
            uint32_t size = ret->size;
            *ret = account->done[i - 1].result;
            ret->size = size;
            outcome = account->done[i - 1].outcome == TWP_NO_CHANGE ? TWP_DONE : account->done[i - 1].outcome;
        }
    for (size_t i = 0; i < account->n_orders; i++)
        if (strcmp(account->orders[i].client_order_id, order->client_order_id) == 0)
            outcome = TWP_ACCEPTED; /* it works */
    pthread_mutex_unlock(&account->lock);
    return outcome;
}

/* ---- What the plugin exports ---- */

int32_t sim_account(struct twp_session *session, int64_t deadline_mono_ns, struct twp_account *ret)
{
    enter(session);
    return leave(session, account_now(session, deadline_mono_ns, ret));
}

int32_t sim_instruments(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list)
{
    enter(session);
    return leave(session, instruments_now(session, deadline_mono_ns, list));
}

int32_t sim_quotes(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list)
{
    enter(session);
    return leave(session, quotes_now(session, deadline_mono_ns, list));
}

int32_t sim_positions(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list)
{
    enter(session);
    return leave(session, positions_now(session, deadline_mono_ns, list));
}

int32_t sim_orders(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list)
{
    enter(session);
    return leave(session, orders_now(session, deadline_mono_ns, list));
}

int32_t sim_execute(struct twp_session *session, const struct twp_order *order, struct twp_result *ret)
{
    enter(session);
    return leave(session, execute_now(session, order, ret));
}

int32_t sim_lookup(struct twp_session *session, const struct twp_order *order, struct twp_result *ret)
{
    enter(session);
    return leave(session, lookup_now(session, order, ret));
}
