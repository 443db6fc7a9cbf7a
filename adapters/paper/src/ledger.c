#include "ledger.h"
#include "record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* A segment is sealed at this size, or at that of the snapshot before it when that is larger: so
 * what compactions write stays in proportion to what was written. */
#define SEGMENT_BYTES_MAX (16u * 1024u * 1024u)

enum { ENTRY_BYTES_MAX = 2048, STATE_BYTES_MAX = FAULTS_TEXT_BYTES + 512, INSTRUMENT_BYTES = 256 };

enum record_type {
    RECORD_ACCOUNT = 1,
    RECORD_STATE,
    RECORD_INSTRUMENTS,
    RECORD_INSTRUMENT,
    RECORD_QUOTE,
    RECORD_ENTRY,
    RECORD_SNAPSHOT, /* first in its segment: everything before it is in what follows */
};

struct ledger {
    /* Set by open, read-only afterwards. */
    char dir[4096];
    int lock_fd;

    pthread_mutex_t lock; /* guards everything below */
    int fd;
    uint64_t segment, size_bytes, sealed_at_bytes;
    bool is_broken; /* a failed write could not be taken back */
    bool is_compacting;
    bool has_compactor; /* a thread to be joined */
    pthread_t compactor;
};

/* ---- Writing. ---- */

static void segment_name(const struct ledger *ledger, uint64_t segment, const char *suffix,
                         char name[4160])
{
    snprintf(name, 4160, "%s/ledger.%06llu%s", ledger->dir, (unsigned long long)segment, suffix);
}

static void segment_seal(struct ledger *ledger);

/* All of it or nothing. */
static tw_status append_locked(struct ledger *ledger, const struct record_writer *writer)
{
    if (ledger->is_broken)
        return TW_IO;
    size_t done = 0;
    while (done < writer->n) {
        ssize_t n = pwrite(ledger->fd, writer->bytes + done, writer->n - done,
                           (off_t)(ledger->size_bytes + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            ledger->is_broken = ftruncate(ledger->fd, (off_t)ledger->size_bytes) != 0;
            return TW_IO;
        }
        done += (size_t)n;
    }
    ledger->size_bytes += writer->n;
    if (ledger->size_bytes >= ledger->sealed_at_bytes && !ledger->is_compacting)
        segment_seal(ledger);
    return TW_OK;
}

static tw_status append(struct ledger *ledger, struct record_writer *writer, uint32_t account,
                        enum record_type type)
{
    if (!record_end(writer, account, (uint8_t)type))
        return TW_NO_MEMORY;
    pthread_mutex_lock(&ledger->lock);
    tw_status status = append_locked(ledger, writer);
    pthread_mutex_unlock(&ledger->lock);
    return status;
}

/* ---- Each record: how it is written, how it is read. ---- */

tw_status ledger_keep_account(struct ledger *ledger, const struct account *account)
{
    if (ledger == NULL)
        return TW_OK;
    uint8_t bytes[INSTRUMENT_BYTES];
    struct record_writer writer;
    record_begin(&writer, bytes, sizeof(bytes));
    put_text(&writer, account->follower_id);
    put_number(&writer, account->is_netting);
    put_number(&writer, account->remainder_new_ticket);
    put_number(&writer, account->book.leverage);
    put_text(&writer, account->book.currency);
    return append(ledger, &writer, account->number, RECORD_ACCOUNT);
}

static void read_account(struct account *account, struct record_reader *body)
{
    char follower_id[TW_ID_BYTES];
    get_text(body, follower_id, sizeof(follower_id)); /* known: it is how the account was found */
    account->is_netting = get_number(body) != 0;
    account->remainder_new_ticket = get_number(body) != 0;
    account->book.leverage = (uint32_t)get_number(body);
    get_text(body, account->book.currency, sizeof(account->book.currency));
}

tw_status ledger_keep_state(struct ledger *ledger, const struct account *account)
{
    if (ledger == NULL)
        return TW_OK;
    uint8_t bytes[STATE_BYTES_MAX];
    struct record_writer writer;
    record_begin(&writer, bytes, sizeof(bytes));
    put_text(&writer, account->latency_text);
    put_text(&writer, account->faults_text);
    put_number(&writer, account->is_market_closed);
    put_number(&writer, account->strip_comments);
    put_number(&writer, account->latency_hash);
    put_number(&writer, account->faults_hash);
    put_number(&writer, account->instruments_hash);
    put_number(&writer, account->quotes_hash);
    return append(ledger, &writer, account->number, RECORD_STATE);
}

static void read_state(struct account *account, struct record_reader *body)
{
    char latency[256], faults[FAULTS_TEXT_BYTES];
    get_text(body, latency, sizeof(latency));
    get_text(body, faults, sizeof(faults));
    account->is_market_closed = get_number(body) != 0;
    account->strip_comments = get_number(body) != 0;
    account->latency_hash = get_number(body);
    account->faults_hash = get_number(body);
    account->instruments_hash = get_number(body);
    account->quotes_hash = get_number(body);
    account->is_settled = true;
    if (body->is_bad || account_latency_set(account, latency, NULL) != TW_OK ||
        account_faults_restore(account, faults, NULL) != TW_OK)
        body->is_bad = true;
}

static void put_instrument(struct record_writer *writer, const struct tw_instrument *instrument)
{
    put_text(writer, instrument->symbol);
    put_signed(writer, instrument->volume_min);
    put_signed(writer, instrument->volume_step);
    put_signed(writer, instrument->volume_max);
    put_signed(writer, instrument->contract_size);
    put_signed(writer, instrument->tick_size);
    put_signed(writer, instrument->min_notional);
    put_signed(writer, instrument->stops_distance);
    put_signed(writer, instrument->freeze_distance);
}

static void get_instrument(struct record_reader *body, struct tw_instrument *ret)
{
    *ret = (struct tw_instrument){0};
    get_text(body, ret->symbol, sizeof(ret->symbol));
    ret->volume_min = get_signed(body);
    ret->volume_step = get_signed(body);
    ret->volume_max = get_signed(body);
    ret->contract_size = get_signed(body);
    ret->tick_size = get_signed(body);
    ret->min_notional = get_signed(body);
    ret->stops_distance = get_signed(body);
    ret->freeze_distance = get_signed(body);
    body->is_bad = body->is_bad || instrument_check(ret) != NULL;
}

tw_status ledger_keep_instruments(struct ledger *ledger, const struct account *account)
{
    if (ledger == NULL)
        return TW_OK;
    const struct instruments *table = &account->book.instruments;
    size_t n = table->own != NULL ? table->n : 0; /* 0: the built-in table */
    size_t cap = RECORD_HEAD_BYTES + 16 + n * INSTRUMENT_BYTES;
    uint8_t *bytes = malloc(cap);
    if (bytes == NULL)
        return TW_NO_MEMORY;
    struct record_writer writer;
    record_begin(&writer, bytes, cap);
    put_number(&writer, n);
    for (size_t i = 0; i < n; i++)
        put_instrument(&writer, &table->own[i]);
    tw_status status = append(ledger, &writer, account->number, RECORD_INSTRUMENTS);
    free(bytes);
    return status;
}

static void read_instruments(struct account *account, struct record_reader *body)
{
    struct instruments table = {0};
    uint64_t n = get_number(body);
    for (uint64_t i = 0; i < n && !body->is_bad; i++) {
        struct tw_instrument instrument;
        get_instrument(body, &instrument);
        if (!body->is_bad && instruments_put(&table, &instrument) != TW_OK)
            body->is_bad = true;
    }
    if (n == 0)
        table = instruments_builtin();
    book_instruments_set(&account->book, &table);
}

tw_status ledger_keep_instrument(struct ledger *ledger, const struct account *account,
                                 const struct tw_instrument *instrument)
{
    if (ledger == NULL)
        return TW_OK;
    uint8_t bytes[RECORD_HEAD_BYTES + INSTRUMENT_BYTES];
    struct record_writer writer;
    record_begin(&writer, bytes, sizeof(bytes));
    put_instrument(&writer, instrument);
    return append(ledger, &writer, account->number, RECORD_INSTRUMENT);
}

static void read_instrument(struct account *account, struct record_reader *body)
{
    struct tw_instrument instrument;
    get_instrument(body, &instrument);
    if (!body->is_bad && book_instrument_put(&account->book, &instrument) != TW_OK)
        body->is_bad = true;
}

tw_status ledger_keep_quote(struct ledger *ledger, const struct account *account,
                            const struct quote *quote)
{
    if (ledger == NULL)
        return TW_OK;
    uint8_t bytes[INSTRUMENT_BYTES];
    struct record_writer writer;
    record_begin(&writer, bytes, sizeof(bytes));
    put_text(&writer, quote->symbol);
    put_signed(&writer, quote->bid);
    put_signed(&writer, quote->ask);
    return append(ledger, &writer, account->number, RECORD_QUOTE);
}

static void read_quote(struct account *account, struct record_reader *body)
{
    struct quote quote = {0};
    get_text(body, quote.symbol, sizeof(quote.symbol));
    quote.bid = get_signed(body);
    quote.ask = get_signed(body);
    struct market *market = body->is_bad ? NULL : book_market_make(&account->book, quote.symbol);
    if (market == NULL)
        body->is_bad = true;
    else
        book_quote(&account->book, market, quote.bid, quote.ask);
}

static struct market *get_market(struct account *account, struct record_reader *body)
{
    char symbol[TW_SYMBOL_BYTES];
    get_text(body, symbol, sizeof(symbol));
    struct market *market = body->is_bad ? NULL : book_market_make(&account->book, symbol);
    body->is_bad = body->is_bad || market == NULL;
    return market;
}

static void put_position(struct record_writer *writer, const struct position *position)
{
    put_number(writer, position->ticket);
    put_number(writer, position->from_ticket);
    put_text(writer, position->market->symbol);
    put_number(writer, position->side);
    put_signed(writer, position->volume);
    put_signed(writer, position->open_price);
    put_signed(writer, position->stop_loss);
    put_signed(writer, position->take_profit);
    put_text(writer, position->client_order_id);
}

static void get_position(struct account *account, struct record_reader *body, struct position *ret)
{
    *ret = (struct position){0};
    ret->ticket = get_number(body);
    ret->from_ticket = get_number(body);
    ret->market = get_market(account, body);
    ret->side = (enum tw_side)get_number(body);
    ret->volume = get_signed(body);
    ret->open_price = get_signed(body);
    ret->stop_loss = get_signed(body);
    ret->take_profit = get_signed(body);
    get_text(body, ret->client_order_id, sizeof(ret->client_order_id));
}

static void put_pending(struct record_writer *writer, const struct pending *pending)
{
    put_number(writer, pending->ticket);
    put_text(writer, pending->market->symbol);
    put_number(writer, pending->side);
    put_number(writer, pending->type);
    put_signed(writer, pending->volume);
    put_signed(writer, pending->price);
    put_signed(writer, pending->stop_price);
    put_signed(writer, pending->stop_loss);
    put_signed(writer, pending->take_profit);
    put_signed(writer, pending->expires_wall_ns);
    put_number(writer, pending->triggered);
    put_text(writer, pending->client_order_id);
}

static void get_pending(struct account *account, struct record_reader *body, struct pending *ret)
{
    *ret = (struct pending){0};
    ret->ticket = get_number(body);
    ret->market = get_market(account, body);
    ret->side = (enum tw_side)get_number(body);
    ret->type = (enum tw_order_type)get_number(body);
    ret->volume = get_signed(body);
    ret->price = get_signed(body);
    ret->stop_price = get_signed(body);
    ret->stop_loss = get_signed(body);
    ret->take_profit = get_signed(body);
    ret->expires_wall_ns = get_signed(body);
    ret->triggered = get_number(body) != 0;
    get_text(body, ret->client_order_id, sizeof(ret->client_order_id));
}

static void put_deal(struct record_writer *writer, const struct deal *deal)
{
    put_text(writer, deal->market->symbol);
    put_number(writer, deal->position);
    put_signed(writer, deal->volume);
    put_signed(writer, deal->price);
    put_signed(writer, deal->at_wall_ns);
    put_number(writer, deal->side);
    put_text(writer, deal->client_order_id);
}

static void get_deal(struct account *account, struct record_reader *body, struct deal *ret)
{
    *ret = (struct deal){0};
    ret->market = get_market(account, body);
    ret->position = get_number(body);
    ret->volume = get_signed(body);
    ret->price = get_signed(body);
    ret->at_wall_ns = get_signed(body);
    ret->side = (enum tw_side)get_number(body);
    get_text(body, ret->client_order_id, sizeof(ret->client_order_id));
}

static void put_answer(struct record_writer *writer, const struct answer *answer)
{
    put_text(writer, answer->client_order_id);
    put_number(writer, answer->stops_missing);
    put_number(writer, answer->op);
    put_number(writer, answer->outcome);
    put_number(writer, (uint64_t)answer->reason);
    put_number(writer, answer->position);
    put_number(writer, answer->order);
    put_number(writer, answer->remainder);
    put_signed(writer, answer->filled);
    put_signed(writer, answer->average_price);
    put_signed(writer, answer->remaining);
}

static void get_answer(struct record_reader *body, struct answer *ret)
{
    *ret = (struct answer){0};
    get_text(body, ret->client_order_id, sizeof(ret->client_order_id));
    ret->stops_missing = get_number(body) != 0;
    ret->op = (enum tw_order_op)get_number(body);
    ret->outcome = (enum tw_outcome)get_number(body);
    ret->reason = (tw_reason)get_number(body);
    ret->position = get_number(body);
    ret->order = get_number(body);
    ret->remainder = get_number(body);
    ret->filled = get_signed(body);
    ret->average_price = get_signed(body);
    ret->remaining = get_signed(body);
}

enum { HAS_PENDING = 4, HAS_DEAL = 8, HAS_ANSWER = 16, POSITIONS_MASK = 3 };

tw_status ledger_keep_entry(struct ledger *ledger, const struct account *account,
                            const struct entry *entry)
{
    if (ledger == NULL)
        return TW_OK;
    uint8_t bytes[ENTRY_BYTES_MAX];
    struct record_writer writer;
    record_begin(&writer, bytes, sizeof(bytes));
    put_number(&writer, entry->n_positions | (entry->has_pending ? HAS_PENDING : 0) |
                            (entry->has_deal ? HAS_DEAL : 0) |
                            (entry->has_answer ? HAS_ANSWER : 0));
    put_signed(&writer, entry->line.balance);
    put_number(&writer, entry->line.next_ticket);
    put_number(&writer, entry->line.calls);
    for (int op = 0; op < FAULT_OP_COUNT; op++)
        put_number(&writer, entry->line.counts[op]);
    for (uint32_t i = 0; i < entry->n_positions; i++)
        put_position(&writer, &entry->positions[i]);
    if (entry->has_pending)
        put_pending(&writer, &entry->pending);
    if (entry->has_deal)
        put_deal(&writer, &entry->deal);
    if (entry->has_answer)
        put_answer(&writer, &entry->answer);
    return append(ledger, &writer, account->number, RECORD_ENTRY);
}

static void read_entry(struct account *account, struct record_reader *body)
{
    struct entry entry = {0};
    uint64_t has = get_number(body);
    entry.line.balance = get_signed(body);
    entry.line.next_ticket = get_number(body);
    entry.line.calls = get_number(body);
    for (int op = 0; op < FAULT_OP_COUNT; op++)
        entry.line.counts[op] = get_number(body);
    entry.n_positions = (uint32_t)(has & POSITIONS_MASK);
    body->is_bad = body->is_bad || entry.n_positions > 2;
    for (uint32_t i = 0; i < entry.n_positions && !body->is_bad; i++)
        get_position(account, body, &entry.positions[i]);
    entry.has_pending = (has & HAS_PENDING) != 0;
    if (entry.has_pending)
        get_pending(account, body, &entry.pending);
    entry.has_deal = (has & HAS_DEAL) != 0;
    if (entry.has_deal)
        get_deal(account, body, &entry.deal);
    entry.has_answer = (has & HAS_ANSWER) != 0;
    if (entry.has_answer)
        get_answer(body, &entry.answer);
    if (body->is_bad || book_reserve(&account->book) != TW_OK)
        body->is_bad = true;
    else
        book_apply(&account->book, &entry);
}

typedef void read_fn(struct account *account, struct record_reader *body);

static read_fn *const read_by_type[] = {
    [RECORD_ACCOUNT] = read_account,
    [RECORD_STATE] = read_state,
    [RECORD_INSTRUMENTS] = read_instruments,
    [RECORD_INSTRUMENT] = read_instrument,
    [RECORD_QUOTE] = read_quote,
    [RECORD_ENTRY] = read_entry,
};

/* ---- The way back. ---- */

/* Accounts by their number, while a ledger is read. */
struct replay {
    struct paper *paper;
    struct account **by_number;
    size_t n;
};

static struct account *replay_account(struct replay *replay, const struct record *record)
{
    if (record->account < replay->n && replay->by_number[record->account] != NULL)
        return replay->by_number[record->account];
    if (record->type != RECORD_ACCOUNT || record->account > TW_FOLLOWERS_MAX * 16u)
        return NULL;
    if (record->account >= replay->n) {
        size_t n = (size_t)record->account * 2 + 16;
        struct account **grown = realloc(replay->by_number, n * sizeof(struct account *));
        if (grown == NULL)
            return NULL;
        memset(&grown[replay->n], 0, (n - replay->n) * sizeof(struct account *));
        replay->by_number = grown;
        replay->n = n;
    }
    char follower_id[TW_ID_BYTES];
    struct record_reader body = record->body;
    struct account *account = NULL;
    get_text(&body, follower_id, sizeof(follower_id));
    if (body.is_bad || account_make(replay->paper, follower_id, &account) != TW_OK)
        return NULL;
    account->number = record->account;
    if (replay->paper->n_accounts <= record->account)
        replay->paper->n_accounts = record->account + 1;
    struct instruments builtin = instruments_builtin();
    book_instruments_set(&account->book, &builtin);
    replay->by_number[record->account] = account;
    return account;
}

static bool replay_record(struct replay *replay, struct record *record)
{
    if (record->type == RECORD_SNAPSHOT)
        return true;
    if (record->type == 0 || record->type > RECORD_ENTRY)
        return false;
    struct account *account = replay_account(replay, record);
    if (account == NULL)
        return false;
    read_by_type[record->type](account, &record->body);
    return !record->body.is_bad;
}

/* Is there a whole record anywhere behind this place? Then this is damage, not a torn tail. */
static bool has_record_behind(const uint8_t *at, const uint8_t *end)
{
    struct record record;
    while ((size_t)(end - at) >= RECORD_HEAD_BYTES) {
        const uint8_t *next = ++at;
        if (record_next(&next, end, &record))
            return true;
    }
    return false;
}

/* The bytes of a file, mapped. */
struct image {
    const uint8_t *bytes;
    size_t size;
};

static tw_status image_open(const char *name, struct image *ret, struct tw_error *error)
{
    struct stat about;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        return tw_error_set(error, TW_IO, "%s: %s", name, strerror(why));
    }
    *ret = (struct image){.size = (size_t)about.st_size};
    if (ret->size > 0) {
        void *map = mmap(NULL, ret->size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED) {
            close(fd);
            return tw_error_set(error, TW_IO, "%s: %s", name, strerror(errno));
        }
        ret->bytes = map;
    }
    close(fd);
    return TW_OK;
}

static void image_close(struct image *image)
{
    if (image->bytes == NULL)
        return;
    void *map;
    memcpy(&map, &image->bytes, sizeof(map)); /* munmap() takes a pointer to what may be written */
    munmap(map, image->size);
}

/* Reads one segment. *ret_size: up to where it is good; a torn tail is allowed in the last one
 * only. */
static tw_status replay_segment(struct replay *replay, const char *name, bool is_last,
                                uint64_t *ret_size, struct tw_error *error)
{
    struct image image;
    tw_status status = image_open(name, &image, error);
    if (status != TW_OK)
        return status;
    const uint8_t *at = image.bytes, *end = at + image.size;
    struct record record;
    while (at != end && status == TW_OK) {
        const uint8_t *record_at = at;
        bool is_whole = record_next(&at, end, &record);
        if (!is_whole && is_last && !has_record_behind(at, end))
            break; /* the end of the process in the middle of a write */
        if (!is_whole || !replay_record(replay, &record))
            status = tw_error_set(error, TW_IO, "%s is damaged at byte %zu", name,
                                  (size_t)(record_at - image.bytes));
    }
    *ret_size = (uint64_t)(at - image.bytes);
    image_close(&image);
    return status;
}

static bool begins_with_snapshot(const char *name)
{
    struct image image;
    struct record record;
    if (image_open(name, &image, NULL) != TW_OK)
        return false;
    const uint8_t *at = image.bytes;
    bool is_snapshot = image.size > 0 && record_next(&at, at + image.size, &record) &&
                       record.type == RECORD_SNAPSHOT;
    image_close(&image);
    return is_snapshot;
}

/* The segments there are: from the first that counts to the last. 0 and 0: none. */
struct range {
    uint64_t first, last;
};

static tw_status segments_list(const struct ledger *ledger, struct range *ret,
                               struct tw_error *error)
{
    struct range range = {0};
    DIR *dir = opendir(ledger->dir);
    if (dir == NULL)
        return tw_error_set(error, TW_IO, "%s: %s", ledger->dir, strerror(errno));
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        unsigned long long segment;
        int end = 0;
        if (sscanf(entry->d_name, "ledger.%6llu%n", &segment, &end) != 1 ||
            entry->d_name[end] != '\0' || segment == 0)
            continue;
        if (range.first == 0 || segment < range.first)
            range.first = segment;
        if (segment > range.last)
            range.last = segment;
    }
    closedir(dir);
    *ret = range;
    return TW_OK;
}

/* What is before a snapshot is in it. */
static void range_cut(const struct ledger *ledger, struct range *range)
{
    char name[4160];
    for (uint64_t segment = range->last; segment > range->first; segment--) {
        segment_name(ledger, segment, "", name);
        if (begins_with_snapshot(name))
            range->first = segment;
    }
}

static void segments_remove(const struct ledger *ledger, uint64_t first, uint64_t before)
{
    char name[4160];
    for (uint64_t segment = first; segment < before; segment++) {
        segment_name(ledger, segment, "", name);
        unlink(name);
    }
}

static tw_status replay_range(const struct ledger *ledger, struct paper *paper, struct range range,
                              bool is_open_ended, uint64_t *ret_size, struct tw_error *error)
{
    struct replay replay = {.paper = paper};
    tw_status status = TW_OK;
    char name[4160];
    for (uint64_t segment = range.first; segment <= range.last && status == TW_OK; segment++) {
        segment_name(ledger, segment, "", name);
        status =
            replay_segment(&replay, name, is_open_ended && segment == range.last, ret_size, error);
    }
    free(replay.by_number);
    return status;
}

/* ---- Compaction: sealed segments are read into a broker of their own, which is written down as it
 * is then. The living one is not asked and does not wait. ---- */

static tw_status keep_one(struct ledger *into, const struct account *account, struct entry *entry)
{
    tw_status status = ledger_keep_entry(into, account, entry);
    entry->n_positions = 0;
    entry->has_pending = entry->has_deal = entry->has_answer = false;
    return status;
}

static tw_status keep_book(struct ledger *into, const struct account *account)
{
    const struct book *book = &account->book;
    struct entry entry = {.line = book->line};
    tw_status status = TW_OK;
    for (uint32_t i = 0; i < book->n_deals && status == TW_OK; i++) {
        entry.has_deal = true;
        entry.deal = *book_deal(book, i);
        status = keep_one(into, account, &entry);
    }
    for (uint32_t i = 0; i < book->n_answers && status == TW_OK; i++) {
        entry.has_answer = true;
        entry.answer = *book_answer_at(book, i);
        status = keep_one(into, account, &entry);
    }
    for (uint32_t i = 0; i < book->n_positions && status == TW_OK; i++) {
        entry.n_positions = 1;
        entry.positions[0] = *book->positions[i];
        status = keep_one(into, account, &entry);
    }
    for (uint32_t i = 0; i < book->n_pendings && status == TW_OK; i++) {
        entry.has_pending = true;
        entry.pending = *book->pendings[i];
        status = keep_one(into, account, &entry);
    }
    return status == TW_OK ? ledger_keep_entry(into, account, &entry) : status;
}

static tw_status keep_whole_account(struct ledger *into, const struct account *account)
{
    tw_status status = ledger_keep_account(into, account);
    if (status == TW_OK)
        status = ledger_keep_instruments(into, account);
    for (uint32_t i = 0; i < account->book.n_markets && status == TW_OK; i++) {
        const struct market *market = account->book.markets[i];
        struct quote quote = {.bid = market->bid, .ask = market->ask};
        memcpy(quote.symbol, market->symbol, sizeof(quote.symbol));
        if (market->bid > 0)
            status = ledger_keep_quote(into, account, &quote);
    }
    if (status == TW_OK)
        status = keep_book(into, account);
    if (status == TW_OK && account->is_settled)
        status = ledger_keep_state(into, account);
    return status;
}

static tw_status snapshot_write(struct ledger *into, const struct paper *paper)
{
    uint8_t bytes[RECORD_HEAD_BYTES];
    struct record_writer writer;
    record_begin(&writer, bytes, sizeof(bytes));
    tw_status status = append(into, &writer, 0, RECORD_SNAPSHOT);
    for (const struct account *account = paper->accounts; account != NULL && status == TW_OK;
         account = account->hh.next)
        status = keep_whole_account(into, account);
    return status;
}

static void paper_shadow_clear(struct paper *shadow)
{
    struct account *account, *next;
    HASH_ITER(hh, shadow->accounts, account, next)
    {
        HASH_DEL(shadow->accounts, account);
        account_free(account);
    }
    pthread_mutex_destroy(&shadow->accounts_lock);
}

/* Writes what the segments of range hold in place of the last of them. *ret_size: its size. */
static tw_status compact(const struct ledger *ledger, struct range range, uint64_t *ret_size)
{
    struct paper shadow = {0};
    struct ledger into = {.lock_fd = -1, .segment = range.last, .sealed_at_bytes = UINT64_MAX};
    char name[4160], final[4160];
    uint64_t size;
    pthread_mutex_init(&shadow.accounts_lock, NULL);
    pthread_mutex_init(&into.lock, NULL);
    segment_name(ledger, range.last, ".new", name);
    segment_name(ledger, range.last, "", final);
    into.fd = open(name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    tw_status status =
        into.fd < 0 ? TW_IO : replay_range(ledger, &shadow, range, false, &size, NULL);
    if (status == TW_OK)
        status = snapshot_write(&into, &shadow);
    if (status == TW_OK && (fsync(into.fd) != 0 || rename(name, final) != 0))
        status = TW_IO;
    if (status == TW_OK) {
        segments_remove(ledger, range.first, range.last);
        *ret_size = into.size_bytes;
    } else {
        unlink(name); /* everything is still there as it was; the next seal tries again */
    }
    if (into.fd >= 0)
        close(into.fd);
    pthread_mutex_destroy(&into.lock);
    paper_shadow_clear(&shadow);
    return status;
}

static void *compactor_main(void *arg)
{
    struct ledger *ledger = arg;
    /* Not in the way of an order; and not SCHED_IDLE, which on a busy machine never comes to an end
     * while the next segment grows. */
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), 19);

    pthread_mutex_lock(&ledger->lock);
    struct range range = {.last = ledger->segment - 1};
    pthread_mutex_unlock(&ledger->lock);
    struct range there;
    uint64_t size = 0;
    if (segments_list(ledger, &there, NULL) == TW_OK) {
        range.first = there.first;
        range_cut(ledger, &range);
        segments_remove(ledger, there.first, range.first);
        if (compact(ledger, range, &size) != TW_OK)
            size = 0;
    }
    pthread_mutex_lock(&ledger->lock);
    ledger->is_compacting = false;
    ledger->sealed_at_bytes = size > SEGMENT_BYTES_MAX ? size : SEGMENT_BYTES_MAX;
    if (size == 0)
        ledger->sealed_at_bytes += ledger->size_bytes; /* it failed: not again at once */
    pthread_mutex_unlock(&ledger->lock);
    return NULL;
}

static tw_status segment_open(struct ledger *ledger, uint64_t segment, int *ret_fd)
{
    char name[4160];
    segment_name(ledger, segment, "", name);
    *ret_fd = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    return *ret_fd < 0 ? TW_IO : TW_OK;
}

/* Goes on in a new segment, and has the old ones compacted. Under the lock. Where that is not
 * possible everything goes on in the old one. */
static void segment_seal(struct ledger *ledger)
{
    int fd;
    if (ledger->lock_fd < 0)
        return; /* the ledger that a compaction writes */
    if (ledger->has_compactor) {
        pthread_join(ledger->compactor, NULL); /* it has left: is_compacting is false */
        ledger->has_compactor = false;
    }
    if (segment_open(ledger, ledger->segment + 1, &fd) != TW_OK) {
        ledger->sealed_at_bytes += SEGMENT_BYTES_MAX;
        return;
    }
    close(ledger->fd);
    ledger->fd = fd;
    ledger->segment++;
    ledger->size_bytes = 0;
    ledger->is_compacting = true;
    ledger->has_compactor = pthread_create(&ledger->compactor, NULL, compactor_main, ledger) == 0;
    ledger->is_compacting = ledger->has_compactor;
}

/* ---- Open and close. ---- */

static tw_status directory_lock(struct ledger *ledger, struct tw_error *error)
{
    char name[4160];
    snprintf(name, sizeof(name), "%s/lock", ledger->dir);
    ledger->lock_fd = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (ledger->lock_fd < 0)
        return tw_error_set(error, TW_IO, "%s: %s", name, strerror(errno));
    if (flock(ledger->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return tw_error_set(error, TW_IO,
                            "%s is held by another process: the ledger has one writer", name);
    return TW_OK;
}

/* Reads all there is, cuts a torn tail, and stands at the end. */
static tw_status restore(struct ledger *ledger, struct paper *paper, struct tw_error *error)
{
    struct range range;
    tw_status status = segments_list(ledger, &range, error);
    if (status != TW_OK)
        return status;
    uint64_t all_from = range.first, size = 0;
    if (range.last == 0)
        range.first = range.last = 1;
    range_cut(ledger, &range);
    if (all_from != 0)
        status = replay_range(ledger, paper, range, true, &size, error);
    if (status != TW_OK)
        return status;
    segments_remove(ledger, all_from == 0 ? range.first : all_from, range.first);
    ledger->segment = range.last;
    ledger->size_bytes = size;
    ledger->sealed_at_bytes = SEGMENT_BYTES_MAX;
    if (segment_open(ledger, range.last, &ledger->fd) != TW_OK ||
        ftruncate(ledger->fd, (off_t)size) != 0)
        return tw_error_set(error, TW_IO, "%s: the ledger cannot be written: %s", ledger->dir,
                            strerror(errno));
    return TW_OK;
}

tw_status ledger_open(const char *state_dir, struct paper *paper, struct ledger **ret_ledger,
                      struct tw_error *error)
{
    struct ledger *ledger = calloc(1, sizeof(*ledger));
    if (ledger == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the ledger");
    ledger->fd = ledger->lock_fd = -1;
    pthread_mutex_init(&ledger->lock, NULL);
    tw_status status = TW_OK;
    if (strlen(state_dir) >= sizeof(ledger->dir) - 64) {
        status = tw_error_set(error, TW_INVALID, "the path of the state directory is too long");
        goto fail;
    }
    strcpy(ledger->dir, state_dir);
    status = directory_lock(ledger, error);
    if (status == TW_OK)
        status = restore(ledger, paper, error);
    if (status != TW_OK)
        goto fail;
    *ret_ledger = ledger;
    return TW_OK;

fail:
    ledger_close(ledger);
    return status;
}

void ledger_close(struct ledger *ledger)
{
    if (ledger == NULL)
        return;
    if (ledger->has_compactor)
        pthread_join(ledger->compactor, NULL);
    if (ledger->fd >= 0)
        close(ledger->fd);
    if (ledger->lock_fd >= 0)
        close(ledger->lock_fd);
    pthread_mutex_destroy(&ledger->lock);
    free(ledger);
}
