/* The broker's memory on disk: what outlives the server, torn tails, damage, and compaction. */
#include "paper_fixture.h"
#include "record.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUOTES "quotes={\"EURUSD\":\"1.10000/1.10020\"}"

static char dir[64];

static void make_dir(void)
{
    strcpy(dir, "/tmp/paper-ledger-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    return remove(path);
}

static void remove_dir(void)
{
    nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(paper_ledger, .init = make_dir, .fini = remove_dir, .timeout = 60);

static void reopen(struct desk *desk, const char *settings)
{
    desk_close(desk);
    desk_open_with(desk, settings, dir, NULL);
}

static void assert_books_equal(const struct tw_paper_book *a, const struct tw_paper_book *b)
{
    cr_assert_eq(a->holds.n_positions, b->holds.n_positions);
    cr_assert_eq(a->holds.n_orders, b->holds.n_orders);
    cr_assert_eq(a->n_deals, b->n_deals);
    cr_expect_eq(a->calls, b->calls);
    cr_expect_eq(a->strip_comments, b->strip_comments);
    cr_expect_arr_eq(a->holds.positions, b->holds.positions,
                     a->holds.n_positions * sizeof(*a->holds.positions));
    cr_expect_arr_eq(a->holds.orders, b->holds.orders,
                     a->holds.n_orders * sizeof(*a->holds.orders));
    cr_expect_arr_eq(a->deals, b->deals, a->n_deals * sizeof(*a->deals));
    cr_expect_eq(a->holds.account.balance, b->holds.account.balance);
    cr_expect_eq(a->holds.account.equity, b->holds.account.equity);
}

/* One of everything: an open and a closed position, a remainder, a pending, a refusal. */
static void trade_a_little(struct desk *desk)
{
    struct tw_order with_stops = open_of("stops", "EURUSD", TW_BUY, "0.20");
    with_stops.stop_loss = D("1.05");
    with_stops.take_profit = D("1.15");
    struct tw_order place = place_of("pending", "EURUSD", TW_SELL, TW_ORDER_LIMIT, "0.10", "1.2");
    place.expires_wall_ns = tw_wall_ns() + 3600 * TW_NS_PER_S;
    struct tw_ack first = desk_open_position(desk, "first", "EURUSD", TW_BUY, "0.10");
    desk_execute(desk, &with_stops);
    desk_close_position(desk, "part", first.position_id, "0.04");
    desk_execute(desk, &place);
    desk_open_position(desk, "refused", "EURUSD", TW_BUY, "0.001");
}

Test(paper_ledger, the_book_its_counters_and_its_answers_outlive_the_server)
{
    struct desk desk;
    desk_open_with(&desk, "latency=zero;remainder=new_ticket;" QUOTES, dir, NULL);
    trade_a_little(&desk);
    struct tw_paper_book before = desk_book(&desk);
    cr_assert_eq(before.n_deals, 3);

    reopen(&desk, "latency=zero;remainder=new_ticket;" QUOTES);

    struct tw_paper_book after = desk_book(&desk);
    assert_books_equal(&before, &after);
    cr_expect_eq(desk_lookup(&desk, "first").outcome, TW_OUTCOME_DONE);
    cr_expect_str_neq(desk_lookup(&desk, "part").remainder_position_id, "");
    cr_expect_eq(desk_lookup(&desk, "pending").outcome, TW_OUTCOME_ACCEPTED);
    cr_expect_eq(desk_lookup(&desk, "refused").outcome, TW_OUTCOME_REJECTED);
    cr_expect_eq(desk_lookup(&desk, "never").outcome, TW_OUTCOME_NOT_FOUND);
    struct tw_ack next = desk_open_position(&desk, "next", "EURUSD", TW_BUY, "0.10");
    cr_expect_str_neq(next.position_id, before.holds.positions[0].position_id);
    tw_paper_book_clear(&before);
    tw_paper_book_clear(&after);
    desk_close(&desk);
}

Test(paper_ledger, a_book_can_be_read_before_its_session_is_open)
{
    struct desk desk;
    struct tw_adapter_options options = {.state_dir = dir};
    desk_open_with(&desk, "latency=zero;" QUOTES, dir, NULL);
    desk_open_position(&desk, "o", "EURUSD", TW_BUY, "0.10");
    desk_close(&desk);
    cr_assert_eq(tw_adapter_paper.open(&options, &desk.adapter, NULL), TW_OK);

    struct tw_paper_book book = desk_book(&desk);
    cr_expect_eq(book.holds.n_positions, 1);
    cr_expect_neq(book.holds.account.equity, book.holds.account.balance, "quotes are there, too");
    tw_paper_book_clear(&book);
    tw_adapter_paper.close(desk.adapter);
}

Test(paper_ledger, what_configure_set_outlives_the_server)
{
    static const struct tw_instrument odd = {.symbol = "ODD",
                                             .volume_min = TW_DECIMAL_ONE,
                                             .volume_step = TW_DECIMAL_ONE,
                                             .volume_max = 10 * TW_DECIMAL_ONE,
                                             .contract_size = TW_DECIMAL_ONE,
                                             .tick_size = TW_DECIMAL_ONE};
    struct desk desk;
    desk_open_with(&desk, "latency=zero;" QUOTES, dir, NULL);
    desk_quote(&desk, "EURUSD", "1.2", "1.3");
    desk_change(&desk, (struct tw_paper_change){.faults = "open#2=no_money",
                                                .market_closed = true,
                                                .strip_comments = true,
                                                .instruments = &odd,
                                                .n_instruments = 1});

    reopen(&desk, "latency=zero;" QUOTES);

    assert_decimal(desk.heard.bid, "1.2", "bid");
    cr_expect_eq(desk_open_position(&desk, "a", "EURUSD", TW_BUY, "0.10").reason,
                 REASON(MARKET_CLOSED));
    desk_change(&desk, (struct tw_paper_change){.market_open = true});
    cr_expect_eq(desk_open_position(&desk, "b", "EURUSD", TW_BUY, "0.10").reason, REASON(NO_MONEY));
    cr_expect_eq(desk_open_position(&desk, "c", "ODD", TW_BUY, "3").outcome, TW_OUTCOME_DONE);
    struct tw_paper_book book = desk_book(&desk);
    cr_expect(book.strip_comments);
    tw_paper_book_clear(&book);
    desk_close(&desk);
}

Test(paper_ledger, fault_counters_go_on_where_they_were)
{
    struct desk desk;
    const char *settings =
        "latency=zero;call_timeout=5ms;faults=open#1=timeout_lost,open#3=busy;" QUOTES;
    desk_open_with(&desk, settings, dir, NULL);
    cr_expect_eq(desk_open_position(&desk, "a", "EURUSD", TW_BUY, "0.10").outcome,
                 TW_OUTCOME_AMBIGUOUS);

    reopen(&desk, settings);
    cr_expect_eq(desk_open_position(&desk, "a", "EURUSD", TW_BUY, "0.10").outcome, TW_OUTCOME_DONE);
    reopen(&desk, settings);
    cr_expect_eq(desk_open_position(&desk, "b", "EURUSD", TW_BUY, "0.10").outcome,
                 TW_OUTCOME_RETRY_LATER);
    desk_close(&desk);
}

Test(paper_ledger, a_setting_that_is_written_differently_counts_again)
{
    struct desk desk;
    desk_open_with(&desk, "latency=zero;faults=open#1=busy;" QUOTES, dir, NULL);
    desk_quote(&desk, "EURUSD", "1.2", "1.3");
    desk_open_position(&desk, "a", "EURUSD", TW_BUY, "0.10");

    reopen(&desk, "latency=zero;faults=open#1=no_money;quotes={\"EURUSD\":\"1.5/1.5\"}");

    assert_decimal(desk.heard.bid, "1.5", "bid");
    cr_expect_eq(desk_open_position(&desk, "b", "EURUSD", TW_BUY, "0.10").reason, REASON(NO_MONEY));
    desk_close(&desk);
}

Test(paper_ledger, the_account_mode_cannot_change_under_open_positions)
{
    struct desk desk;
    struct tw_error error = {{0}};
    desk_open_with(&desk, "latency=zero;" QUOTES, dir, NULL);
    struct tw_ack open = desk_open_position(&desk, "o", "EURUSD", TW_BUY, "0.10");
    tw_adapter_paper.session_close(desk.session);

    cr_expect_eq(desk_session(&desk, "account_mode=netting", &error), TW_INVALID);
    cr_expect_not_null(strstr(error.text, "account_mode"));
    cr_assert_eq(desk_session(&desk, "latency=zero", &error), TW_OK);
    desk_close_position(&desk, "c", open.position_id, "");
    tw_adapter_paper.session_close(desk.session);
    cr_expect_eq(desk_session(&desk, "account_mode=netting", &error), TW_OK, "%s", error.text);
    desk_close(&desk);
}

Test(paper_ledger, what_was_answered_is_there_after_kill_9)
{
    int answered[2];
    cr_assert_eq(pipe(answered), 0);
    pid_t child = fork();
    if (child == 0) {
        struct desk desk;
        desk_open_with(&desk, "latency=zero;" QUOTES, dir, NULL);
        for (uint32_t i = 0;; i++) {
            char id[TW_COPY_ID_BYTES];
            snprintf(id, sizeof(id), "o%u", i);
            if (desk_open_position(&desk, id, "EURUSD", TW_BUY, "0.10").outcome !=
                    TW_OUTCOME_DONE ||
                write(answered[1], &i, sizeof(i)) != sizeof(i))
                _exit(1);
        }
    }
    uint32_t last = 0;
    while (last < 200)
        cr_assert_eq(read(answered[0], &last, sizeof(last)), sizeof(last));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(answered[1]);
    while (read(answered[0], &last, sizeof(last)) == sizeof(last)) {
    }

    struct desk desk;
    desk_open_with(&desk, "latency=zero;" QUOTES, dir, NULL);
    struct tw_paper_book book = desk_book(&desk);
    char id[TW_COPY_ID_BYTES];
    snprintf(id, sizeof(id), "o%u", last);
    cr_expect_geq(book.n_deals, last + 1);
    cr_expect_leq(book.n_deals, last + 2, "at most one was executed and not answered");
    cr_expect_eq(desk_lookup(&desk, id).outcome, TW_OUTCOME_DONE);
    tw_paper_book_clear(&book);
    desk_close(&desk);
}

/* ---- Damage. ---- */

static void path_of(const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s", dir, name);
}

static void append_bytes(const char *name, const void *bytes, size_t size)
{
    char path[128];
    path_of(name, path);
    int fd = open(path, O_WRONLY | O_APPEND);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
    close(fd);
}

static void flip_byte(const char *name, off_t at)
{
    char path[128], byte;
    path_of(name, path);
    int fd = open(path, O_RDWR);
    cr_assert_geq(fd, 0);
    cr_assert_eq(pread(fd, &byte, 1, at), 1);
    byte = (char)(byte ^ 0x40);
    cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static off_t size_of(const char *name)
{
    char path[128];
    struct stat about;
    path_of(name, path);
    return stat(path, &about) == 0 ? about.st_size : -1;
}

Test(paper_ledger, every_torn_tail_is_cut_and_what_came_before_is_kept)
{
    struct desk desk;
    desk_open_with(&desk, "latency=zero;" QUOTES, dir, NULL);
    desk_open_position(&desk, "kept", "EURUSD", TW_BUY, "0.10");
    off_t kept = size_of("ledger.000001");
    desk_open_position(&desk, "torn", "EURUSD", TW_BUY, "0.10");
    off_t whole = size_of("ledger.000001");
    desk_close(&desk);
    char path[128];
    uint8_t bytes[4096];
    path_of("ledger.000001", path);
    int fd = open(path, O_RDWR);
    cr_assert_eq(pread(fd, bytes, sizeof(bytes), kept), whole - kept);

    for (off_t size = kept; size < whole; size++) {
        cr_assert_eq(ftruncate(fd, kept), 0);
        cr_assert_eq(pwrite(fd, bytes, (size_t)(size - kept), kept), size - kept);
        struct tw_adapter_options options = {.state_dir = dir};
        struct tw_error error = {{0}};
        cr_assert_eq(tw_adapter_paper.open(&options, &desk.adapter, &error), TW_OK, "%s",
                     error.text);
        struct tw_paper_book book = desk_book(&desk);
        cr_expect_eq(book.n_deals, 1, "cut after %lld bytes", (long long)size);
        tw_paper_book_clear(&book);
        tw_adapter_paper.close(desk.adapter);
        cr_expect_eq(size_of("ledger.000001"), kept);
    }
    close(fd);
}

Test(paper_ledger, damage_in_the_middle_is_refused_with_its_place_and_nothing_is_cut)
{
    struct desk desk;
    desk_open_with(&desk, "latency=zero;" QUOTES, dir, NULL);
    off_t at = size_of("ledger.000001");
    desk_open_position(&desk, "a", "EURUSD", TW_BUY, "0.10");
    desk_open_position(&desk, "b", "EURUSD", TW_BUY, "0.10");
    off_t size = size_of("ledger.000001");
    desk_close(&desk);
    flip_byte("ledger.000001", at + 30);

    struct tw_adapter_options options = {.state_dir = dir};
    struct tw_error error = {{0}};
    char place[32];
    snprintf(place, sizeof(place), "byte %lld", (long long)at);
    cr_expect_eq(tw_adapter_paper.open(&options, &desk.adapter, &error), TW_IO);

    cr_expect_not_null(strstr(error.text, place), "%s, expected %s", error.text, place);
    cr_expect_eq(size_of("ledger.000001"), size);
}

Test(paper_ledger, bytes_that_are_no_record_at_the_end_are_a_torn_tail)
{
    struct desk desk;
    desk_open_with(&desk, "latency=zero;" QUOTES, dir, NULL);
    desk_open_position(&desk, "a", "EURUSD", TW_BUY, "0.10");
    desk_close(&desk);
    static const char junk[] = "TWPL\377\377\377\377 what is this";
    append_bytes("ledger.000001", junk, sizeof(junk));

    desk_open_with(&desk, "latency=zero;" QUOTES, dir, NULL);

    cr_expect_eq(desk_lookup(&desk, "a").outcome, TW_OUTCOME_DONE);
    desk_close(&desk);
}

Test(paper_ledger, a_second_process_is_refused)
{
    struct desk desk;
    void *second = NULL;
    struct tw_adapter_options options = {.state_dir = dir};
    struct tw_error error = {{0}};
    desk_open_with(&desk, "latency=zero", dir, NULL);

    cr_expect_eq(tw_adapter_paper.open(&options, &second, &error), TW_IO);
    cr_expect_not_null(strstr(error.text, "another process"));
    desk_close(&desk);
}

/* ---- Compaction. ---- */

static int segments_there(void)
{
    int n = 0;
    DIR *listing = opendir(dir);
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing))
        n += strncmp(entry->d_name, "ledger.", 7) == 0;
    closedir(listing);
    return n;
}

/* Changes that leave nothing behind but the last: the segments fill, the book does not grow. */
static void write_until_there_is(struct desk *desk, const char *segment, const char *position_id)
{
    for (int i = 0; size_of(segment) < 0; i++) {
        struct tw_order order = modify_of("", position_id, i % 2 == 0 ? "1.04" : "1.06", "");
        cr_assert_eq(desk_execute(desk, &order).outcome, TW_OUTCOME_DONE);
        cr_assert_lt(i, 1000000, "the segment before %s is never sealed", segment);
    }
}

Test(paper_ledger, a_long_ledger_is_compacted_and_tells_the_same)
{
    const char *settings = "latency=zero;remainder=new_ticket;" QUOTES;
    struct desk desk;
    desk_open_with(&desk, settings, dir, NULL);
    trade_a_little(&desk);
    struct tw_ack open = desk_open_position(&desk, "moved", "EURUSD", TW_BUY, "0.10");

    write_until_there_is(&desk, "ledger.000002", open.position_id);
    struct tw_paper_book before = desk_book(&desk);
    reopen(&desk, settings); /* the close waits for the compaction */
    struct tw_paper_book after = desk_book(&desk);
    assert_books_equal(&before, &after);
    cr_expect_lt(size_of("ledger.000001"), 8192, "a compacted segment holds the book alone");
    tw_paper_book_clear(&before);
    tw_paper_book_clear(&after);

    write_until_there_is(&desk, "ledger.000003", open.position_id);
    before = desk_book(&desk);
    desk_close(&desk);
    cr_expect_eq(size_of("ledger.000001"), -1, "what a compaction has taken in is removed");
    desk_open_with(&desk, settings, dir, NULL);
    after = desk_book(&desk);
    assert_books_equal(&before, &after);
    cr_expect_lt(size_of("ledger.000002"), 8192, "a compacted segment holds the book alone");
    cr_expect_eq(segments_there(), 2);
    cr_expect_eq(desk_lookup(&desk, "pending").outcome, TW_OUTCOME_ACCEPTED);
    cr_expect_eq(desk_lookup(&desk, "first").outcome, TW_OUTCOME_DONE);
    tw_paper_book_clear(&before);
    tw_paper_book_clear(&after);
    desk_close(&desk);
}

/* ---- Records. ---- */

Test(paper_ledger, fields_come_back_as_they_were_written)
{
    static const int64_t numbers[] = {0, 1, -1, 63, 64, -64, -65, INT64_MAX, INT64_MIN, 100000000};
    uint8_t bytes[512];
    struct record_writer writer;
    record_begin(&writer, bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        put_signed(&writer, numbers[i]);
        put_number(&writer, (uint64_t)numbers[i]);
    }
    put_text(&writer, "EURUSD");
    put_text(&writer, "");
    cr_assert(record_end(&writer, 77, 3));

    const uint8_t *at = bytes;
    struct record record;
    char text[8];
    cr_assert(record_next(&at, bytes + writer.n, &record));
    cr_expect_eq(record.account, 77);
    cr_expect_eq(record.type, 3);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        cr_expect_eq(get_signed(&record.body), numbers[i]);
        cr_expect_eq(get_number(&record.body), (uint64_t)numbers[i]);
    }
    get_text(&record.body, text, sizeof(text));
    cr_expect_str_eq(text, "EURUSD");
    get_text(&record.body, text, sizeof(text));
    cr_expect_str_eq(text, "");
    cr_expect_not(record.body.is_bad);
    (void)get_number(&record.body);
    cr_expect(record.body.is_bad, "there is nothing more");
}

Test(paper_ledger, no_changed_bit_of_a_record_goes_unnoticed)
{
    uint8_t bytes[64];
    struct record_writer writer;
    struct record record;
    record_begin(&writer, bytes, sizeof(bytes));
    put_text(&writer, "EURUSD");
    put_signed(&writer, -12345);
    cr_assert(record_end(&writer, 1, 5));
    for (size_t bit = 0; bit < writer.n * 8; bit++) {
        const uint8_t *at = bytes;
        bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ (1u << (bit % 8)));
        cr_expect_not(record_next(&at, bytes + writer.n, &record), "bit %zu", bit);
        cr_expect_eq(at, bytes, "nothing moved");
        bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ (1u << (bit % 8)));
    }
}

Test(paper_ledger, a_body_that_does_not_fit_is_not_a_record)
{
    uint8_t bytes[RECORD_HEAD_BYTES + 4];
    struct record_writer writer;
    record_begin(&writer, bytes, sizeof(bytes));
    put_text(&writer, "EURUSD");
    cr_expect_not(record_end(&writer, 1, 5));
}
