/* The history's file, thread and questions, over a log whose records are this test's own: "F number id",
 * "S number id follower", "E number event_id master_id position_id received_s", and
 * "C number index subscription change state own_ns". */
#include <tradewake/journal/history.h>
#include <tradewake/journal/journal.h>

#include <tradewake/base/clock.h>
#include <tradewake/base/log.h>

#include <criterion/criterion.h>

#include <pthread.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN = 1, OVER = 3 };
#define NOW_S 1800000000ull

static char root[64], log_dir[128], path[128];
static struct tw_journal *journal;
static struct tw_history *history;
static struct tw_error error;
static int64_t keep_ns;
static const char *log_id;
static unsigned seeded;

static tw_status take(void *context, struct tw_history_file *file, const struct tw_journal_seen *seen,
                      struct tw_error *ret_error)
{
    char text[256], id[65], master[65], position[65];
    unsigned long long a, b, c, d, e, f;
    (void)context;
    snprintf(text, sizeof text, "%.*s", (int)seen->size, (const char *)seen->bytes);
    if (sscanf(text, "F %llu %64s", &a, id) == 2)
        return tw_history_put_follower(file, (uint32_t)a, id, ret_error);
    if (sscanf(text, "S %llu %64s %llu", &a, id, &b) == 3)
        return tw_history_put_subscription(file, (uint32_t)a, id, (uint32_t)b, ret_error);
    if (sscanf(text, "E %llu %64s %64s %64s %llu", &a, id, master, position, &b) == 5) {
        const struct tw_history_event event = {.number = a,
                                               .event_id = id,
                                               .master_id = master,
                                               .subject_id = position,
                                               .symbol = "EURUSD",
                                               .trace_id = "",
                                               .received_ns = (int64_t)b * TW_NS_PER_S,
                                               .packed = (const uint8_t *)text,
                                               .packed_size = strlen(text)};
        return tw_history_put_event(file, &event, ret_error);
    }
    if (sscanf(text, "C %llu %llu %llu %llu %llu %llu", &a, &b, &c, &d, &e, &f) == 6) {
        snprintf(id, sizeof id, "T1COPY%llu-%llu", a, b);
        const struct tw_history_copy copy = {.place = a * TW_HISTORY_PLACES + b,
                                             .change_id = d,
                                             .subscription = (uint32_t)c,
                                             .copy_id = id,
                                             .action = 1,
                                             .state = (int32_t)e,
                                             .remarks = "",
                                             .symbol = "EUR'USD",
                                             .volume = -150000000,
                                             .price = TW_DECIMAL_UNSET,
                                             .stop_loss = 0,
                                             .take_profit = 1,
                                             .filled = INT64_MAX,
                                             .average_price = 123456789,
                                             .broker_order_id = "",
                                             .broker_position_id = "",
                                             .broker_message = "",
                                             .message = "done",
                                             .called_ns = f};
        tw_status status = tw_history_put_copy(file, &copy, ret_error);
        return status == TW_NOT_FOUND ? TW_OK : status;
    }
    return tw_error_set(ret_error, TW_INVALID, "what is \"%s\"?", text);
}

static tw_status seed(void *context, struct tw_history_file *file, struct tw_error *ret_error)
{
    (void)context;
    seeded++;
    tw_status status = tw_history_put_follower(file, 1, "F1", ret_error);
    return status == TW_OK ? tw_history_put_subscription(file, 1, "S1", 1, ret_error) : status;
}

static uint64_t say(const char *format, ...)
{
    char text[256];
    va_list values;
    va_start(values, format);
    int n = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    uint64_t sequence = tw_journal_append(journal, 1, text, (size_t)n);
    (void)tw_journal_sync(journal);
    if (history != NULL)
        tw_history_news(history, sequence);
    return sequence;
}

static void open_journal(void)
{
    const struct tw_journal_options options = {.dir = log_dir, .segment_bytes = 65536, .syncs = true};
    cr_assert_eq(tw_journal_open(&options, &journal, &error), TW_OK, "%s", error.text);
}

static void start(void)
{
    static const struct tw_history_words words[] = {{"states", OPEN, "OPEN"}, {"states", OVER, "OVER"}};
    const struct tw_history_options options = {.path = path,
                                               .log_dir = log_dir,
                                               .log_id = log_id,
                                               .log_last = tw_journal_appended(journal),
                                               .keep_ns = keep_ns,
                                               .open_states = 1u << OPEN,
                                               .words = words,
                                               .n_words = 2,
                                               .take = take,
                                               .seed = seed};
    cr_assert_eq(tw_history_start(&options, &history, &error), TW_OK, "%s", error.text);
    tw_history_news(history, tw_journal_durable(journal));
}

static void stop(void)
{
    tw_history_stop(history);
    history = NULL;
}

static void setup(void)
{
    tw_log_level_set(TW_LOG_NONE);
    (void)strcpy(root, "/tmp/tradewake-history-XXXXXX");
    cr_assert_not_null(mkdtemp(root));
    snprintf(log_dir, sizeof log_dir, "%s/log", root);
    snprintf(path, sizeof path, "%s/history.db", root);
    keep_ns = INT64_MAX / 2;
    log_id = "one";
    open_journal();
}

static void teardown(void)
{
    char command[128];
    stop();
    tw_journal_close(journal);
    snprintf(command, sizeof command, "rm -rf --one-file-system %s", root);
    cr_expect_eq(system(command), 0);
}

TestSuite(journal_history, .init = setup, .fini = teardown, .timeout = 60);

/* ---- Asking, and waiting for the answer ---- */

struct asked {
    struct tw_history_question question;
    void (*look)(struct asked *asked, struct tw_history_file *file);
    pthread_mutex_t mutex;
    pthread_cond_t answered;
    bool is_answered, was_there;
    char found[65536]; /* copy ids, each followed by a space */
    size_t n, n_max;
    struct tw_history_page page;
    struct tw_history_filter filter;
    uint64_t after, last;
    tw_status status;
};

static void on_run(struct tw_history_question *question, struct tw_history_file *file)
{
    struct asked *asked = (struct asked *)((char *)question - offsetof(struct asked, question));
    asked->was_there = file != NULL;
    if (file != NULL)
        asked->look(asked, file);
    pthread_mutex_lock(&asked->mutex);
    asked->is_answered = true;
    pthread_cond_signal(&asked->answered);
    pthread_mutex_unlock(&asked->mutex);
}

static bool on_copy(void *context, const struct tw_history_copy *copy)
{
    struct asked *asked = context;
    if (asked->n_max > 0 && asked->n == asked->n_max)
        return false;
    asked->n++;
    strncat(asked->found, copy->copy_id + 6, sizeof asked->found - strlen(asked->found) - 2);
    strncat(asked->found, " ", 2);
    return true;
}

static struct asked *new_asked(void (*look)(struct asked *asked, struct tw_history_file *file))
{
    struct asked *asked = calloc(1, sizeof *asked);
    cr_assert_not_null(asked);
    pthread_mutex_init(&asked->mutex, NULL);
    pthread_cond_init(&asked->answered, NULL);
    asked->look = look;
    asked->question.run = on_run;
    asked->question.sequence = tw_journal_durable(journal);
    asked->question.deadline_mono_ns = tw_mono_ns() + 10 * TW_NS_PER_S;
    asked->filter = (struct tw_history_filter){.master_id = "", .follower_id = "", .event_id = "", .subject_id = "",
                                               .received_from_ns = INT64_MIN, .received_until_ns = INT64_MAX};
    asked->page = (struct tw_history_page){.filter = &asked->filter, .each = on_copy, .context = asked,
                                           .place = UINT64_MAX, .called_ns = UINT64_MAX};
    return asked;
}

static void await(struct asked *asked)
{
    pthread_mutex_lock(&asked->mutex);
    while (!asked->is_answered)
        pthread_cond_wait(&asked->answered, &asked->mutex);
    pthread_mutex_unlock(&asked->mutex);
}

static void ask(struct asked *asked)
{
    asked->is_answered = false;
    tw_history_ask(history, &asked->question);
    await(asked);
}

static void look_list(struct asked *asked, struct tw_history_file *file)
{
    asked->status = tw_history_list(file, &asked->page, &error);
}

static void look_changed(struct asked *asked, struct tw_history_file *file)
{
    asked->status = tw_history_changed(file, asked->after, UINT64_MAX, 1000, on_copy, asked, &asked->last, &error);
}

/* All copies, in one page. */
static const char *listed(void)
{
    static char found[65536];
    struct asked *asked = new_asked(look_list);
    ask(asked);
    cr_assert(asked->was_there);
    cr_assert_eq(asked->status, TW_OK, "%s", error.text);
    cr_assert_not(asked->page.is_unfinished);
    memcpy(found, asked->found, sizeof found);
    free(asked);
    return found;
}

static int64_t number_of(const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    cr_assert_eq(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    cr_assert_eq(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    cr_assert_eq(sqlite3_step(statement), SQLITE_ROW, "%s", sqlite3_errmsg(db));
    int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return number;
}

static void fleet(void)
{
    say("F 1 F1");
    say("F 2 F2");
    say("S 1 S1 1");
    say("S 2 S2 2");
}

/* Two events, two copies each; the first copy changes twice. */
static void little_story(void)
{
    fleet();
    say("E 1 e1 M1 p1 %llu", NOW_S);
    say("C 1 0 1 100 %d 0", OPEN);
    say("C 1 1 2 101 %d 20", OVER);
    say("E 2 e2 M2 p1 %llu", NOW_S + 3600);
    say("C 2 0 1 102 %d 30", OVER);
    say("C 2 1 2 103 %d 10", OVER);
    say("C 1 0 1 104 %d 40", OVER);
}

#define STORY "2-1 2-0 1-1 1-0 "

/* ---- Tests ---- */

Test(journal_history, what_the_log_says_is_listed_newest_first)
{
    start();
    little_story();

    cr_expect_str_eq(listed(), STORY);
    cr_expect_eq(number_of("SELECT count(*) FROM changes"), 5);
    cr_expect_eq(number_of("SELECT change_id FROM copies WHERE place = 65536"), 104);
}

Test(journal_history, what_was_there_before_it_started_too)
{
    little_story();
    start();

    cr_expect_str_eq(listed(), STORY);
}

Test(journal_history, numbers_are_kept_exactly_and_words_say_the_same)
{
    little_story();
    start();
    (void)listed();

    cr_expect_eq(number_of("SELECT volume = '-1.5' AND price = '' AND stop_loss = '0' AND take_profit = '0.00000001'"
                           " AND filled_volume = '92233720368.54775807' AND average_price = '1.23456789'"
                           " AND volume_e8 = -150000000 AND price_e8 IS NULL AND symbol = 'EUR''USD' AND state = 'OVER'"
                           " AND received_at = '2027-01-15T08:00:00.000000000Z'"
                           " FROM copies_in_words WHERE event_id = 'e1' AND follower_id = 'F1'"),
                 1);
}

Test(journal_history, a_start_goes_on_where_the_last_one_was)
{
    start();
    little_story();
    (void)listed();
    stop();
    say("E 3 e3 M1 p3 %llu", NOW_S);
    say("C 3 0 1 105 %d 0", OVER);
    start();

    cr_expect_str_eq(listed(), "3-0 " STORY);
    cr_expect_eq(number_of("SELECT count(*) FROM changes"), 6);
}

Test(journal_history, a_file_that_is_older_than_it_was_catches_up_and_doubles_nothing)
{
    char command[300];
    start();
    fleet();
    say("E 1 e1 M1 p1 %llu", NOW_S);
    say("C 1 0 1 100 %d 0", OPEN);
    (void)listed();
    stop();
    snprintf(command, sizeof command, "cp %s %s.kept", path, path);
    cr_assert_eq(system(command), 0);
    start();
    say("C 1 0 1 101 %d 0", OVER);
    say("C 1 1 2 102 %d 0", OVER);
    (void)listed();
    stop();
    snprintf(command, sizeof command, "mv %s.kept %s", path, path);
    cr_assert_eq(system(command), 0);
    start();

    cr_expect_str_eq(listed(), "1-1 1-0 ");
    cr_expect_eq(number_of("SELECT count(*) FROM changes"), 3);
    cr_expect_eq(number_of("SELECT max(change_id) FROM copies WHERE place = 65536"), 101);
}

static void damage(const char *how)
{
    char command[600];
    snprintf(command, sizeof command, "%s", how);
    if (how[0] != '-') {
        cr_assert_eq(system(command), 0, "%s", how);
        return;
    }
    sqlite3 *db = NULL;
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, how + 1, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

Test(journal_history, a_file_that_is_not_this_logs_is_made_anew)
{
    char gone[300], garbage[300], empty[300];
    snprintf(gone, sizeof gone, "rm %s", path);
    snprintf(garbage, sizeof garbage, "head -c 8192 /dev/urandom > %s", path);
    snprintf(empty, sizeof empty, ": > %s", path);
    const char *const hows[] = {
        gone, garbage, empty, "-PRAGMA user_version = 99", "-PRAGMA application_id = 1", "-DELETE FROM progress",
        "-UPDATE progress SET log_id = 'other'", "-UPDATE progress SET taken = taken + 1000",
        "-UPDATE progress SET taken_crc = taken_crc + 1",
    };
    little_story();
    for (size_t i = 0; i < sizeof hows / sizeof hows[0]; i++) {
        start();
        cr_assert_str_eq(listed(), STORY, "before %s", hows[i]);
        stop();
        damage(hows[i]);
    }
    start();
    cr_assert_str_eq(listed(), STORY);
}

Test(journal_history, a_file_in_the_way_of_nobody_is_tried_again)
{
    char aside[200];
    snprintf(aside, sizeof aside, "%s/later", root);
    snprintf(path, sizeof path, "%s/later/history.db", root);
    fleet();
    start();
    struct tw_history_status status;
    tw_history_status_get(history, &status);
    cr_expect(status.is_failing);
    cr_expect_gt(status.behind, 0u);
    cr_expect_eq(tw_history_taken(history), 0u, "the log must be kept for it");
    struct asked *asked = new_asked(look_list);
    asked->question.deadline_mono_ns = tw_mono_ns() + 20 * TW_NS_PER_MS;
    ask(asked);
    cr_expect_not(asked->was_there, "there is nothing to ask");
    free(asked);

    cr_assert_eq(mkdir(aside, 0700), 0);
    say("E 1 e1 M1 p1 %llu", NOW_S);
    say("C 1 0 1 100 %d 0", OVER);

    cr_expect_str_eq(listed(), "1-0 ");
    tw_history_status_get(history, &status);
    cr_expect_not(status.is_failing);
    cr_expect_eq(status.behind, 0u);
}

Test(journal_history, a_question_waits_until_the_file_has_come_so_far)
{
    start();
    fleet();
    struct asked *asked = new_asked(look_list);
    asked->question.sequence += 2;
    tw_history_ask(history, &asked->question);
    (void)listed();
    pthread_mutex_lock(&asked->mutex);
    cr_expect_not(asked->is_answered);
    pthread_mutex_unlock(&asked->mutex);
    say("E 1 e1 M1 p1 %llu", NOW_S);
    say("C 1 0 1 100 %d 0", OVER);
    await(asked);

    cr_expect_str_eq(asked->found, "1-0 ");
    free(asked);
}

Test(journal_history, a_question_past_its_deadline_or_the_stop_is_told_that_there_is_nothing)
{
    start();
    fleet();
    struct asked *late = new_asked(look_list), *left = new_asked(look_list);
    late->question.sequence = left->question.sequence = 1000;
    late->question.deadline_mono_ns = tw_mono_ns() + 10 * TW_NS_PER_MS;
    ask(late);
    cr_expect_not(late->was_there);
    tw_history_ask(history, &left->question);
    stop();

    cr_expect(left->is_answered);
    cr_expect_not(left->was_there);
    free(late);
    free(left);
}

Test(journal_history, filters_and_times)
{
    start();
    little_story();
    static const struct {
        const char *name;
        struct tw_history_filter filter;
        const char *found;
    } rows[] = {
        {"a master", {"M1", "", "", "", INT64_MIN, INT64_MAX}, "1-1 1-0 "},
        {"a follower", {"", "F2", "", "", INT64_MIN, INT64_MAX}, "2-1 1-1 "},
        {"nobody", {"", "F9", "", "", INT64_MIN, INT64_MAX}, ""},
        {"an event", {"", "", "e2", "", INT64_MIN, INT64_MAX}, "2-1 2-0 "},
        {"a position", {"", "", "", "p1", INT64_MIN, INT64_MAX}, STORY},
        {"a position of a master", {"M2", "", "", "p1", INT64_MIN, INT64_MAX}, "2-1 2-0 "},
        {"all four", {"M2", "F1", "e2", "p1", INT64_MIN, INT64_MAX}, "2-0 "},
        {"from", {"", "", "", "", (int64_t)(NOW_S + 1) * TW_NS_PER_S, INT64_MAX}, "2-1 2-0 "},
        {"until", {"", "", "", "", INT64_MIN, (int64_t)(NOW_S + 1) * TW_NS_PER_S}, "1-1 1-0 "},
        {"until, not it", {"", "", "", "", INT64_MIN, (int64_t)NOW_S * TW_NS_PER_S}, ""},
        {"another year", {"", "", "", "", 0, TW_NS_PER_S}, ""},
        {"a follower, from", {"", "F1", "", "", (int64_t)(NOW_S + 1) * TW_NS_PER_S, INT64_MAX}, "2-0 "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct asked *asked = new_asked(look_list);
        asked->filter = rows[i].filter;
        ask(asked);
        cr_expect_eq(asked->status, TW_OK);
        cr_expect_str_eq(asked->found, rows[i].found, "%s: %s", rows[i].name, asked->found);
        free(asked);
    }
}

Test(journal_history, pages_go_on_where_the_last_one_ended)
{
    start();
    fleet();
    for (unsigned i = 1; i <= 40; i++) {
        say("E %u e%u M%u p%u %llu", i, i, i % 2, i % 3, NOW_S + i);
        for (unsigned copy = 0; copy < 3; copy++)
            say("C %u %u %u %u %d %u", i, copy, 1 + copy % 2, i * 10 + copy, OVER, i * 7 % 5 + 1);
    }
    static const struct tw_history_filter filters[] = {
        {"", "", "", "", INT64_MIN, INT64_MAX}, {"M1", "", "", "", INT64_MIN, INT64_MAX},
        {"", "F1", "", "", INT64_MIN, INT64_MAX}, {"", "", "", "p2", INT64_MIN, INT64_MAX},
        {"M0", "F2", "", "p1", INT64_MIN, INT64_MAX}, {"", "", "e7", "", INT64_MIN, INT64_MAX},
    };
    for (size_t i = 0; i < 2 * sizeof filters / sizeof filters[0]; i++) {
        struct asked *whole = new_asked(look_list), *asked = new_asked(look_list);
        whole->filter = asked->filter = filters[i / 2];
        whole->page.is_slowest_first = asked->page.is_slowest_first = i % 2 == 1;
        ask(whole);
        cr_assert_gt(whole->n, 0u);
        do {
            asked->n = 0;
            asked->n_max = 4;
            ask(asked);
        } while (asked->page.is_unfinished);
        cr_expect_str_eq(asked->found, whole->found, "filter %zu", i);
        free(whole);
        free(asked);
    }
}

Test(journal_history, changes_after_one_are_those_of_the_latest_change_in_order)
{
    start();
    little_story();
    static const struct {
        uint64_t after;
        const char *found;
    } rows[] = {{0, "1-1 2-0 2-1 1-0 "}, {101, "2-0 2-1 1-0 "}, {103, "1-0 "}, {104, ""}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct asked *asked = new_asked(look_changed);
        asked->after = rows[i].after;
        ask(asked);
        cr_expect_str_eq(asked->found, rows[i].found);
        free(asked);
    }
}

Test(journal_history, what_is_old_and_over_goes)
{
    uint64_t old_s = (uint64_t)(tw_wall_ns() / TW_NS_PER_S) - 7200;
    keep_ns = 3600 * TW_NS_PER_S;
    fleet();
    say("E 1 old M1 p1 %llu", (unsigned long long)old_s);
    say("C 1 0 1 100 %d 0", OVER);
    say("C 1 1 2 101 %d 0", OVER);
    say("E 2 open M1 p2 %llu", (unsigned long long)old_s);
    say("C 2 0 1 102 %d 0", OPEN);
    say("E 3 new M1 p3 %llu", (unsigned long long)old_s + 7200);
    say("C 3 0 1 103 %d 0", OVER);
    start();
    (void)listed();
    stop();
    start(); /* it looks when it has nothing else to do */
    struct tw_history_status status = {0};
    for (int i = 0; i < 1000 && status.forgotten_change_id == 0; i++) {
        (void)usleep(10000);
        tw_history_status_get(history, &status);
    }

    cr_expect_str_eq(listed(), "3-0 2-0 ");
    cr_expect_eq(status.forgotten_change_id, 101u, "what was deleted cannot be resumed from");
    cr_expect_eq(number_of("SELECT count(*) FROM changes"), 2);
    cr_expect_eq(number_of("SELECT count(*) FROM events"), 2);
}

Test(journal_history, a_log_whose_beginning_is_gone_is_seeded)
{
    fleet();
    uint32_t segment = tw_journal_roll(journal);
    say("E 5 e5 M1 p5 %llu", NOW_S);
    say("C 5 0 1 500 %d 0", OVER);
    tw_journal_forget_before(journal, segment);
    start();

    cr_expect_eq(seeded, 1u);
    cr_expect_str_eq(listed(), "5-0 ");
    stop();
    start();
    cr_expect_eq(seeded, 1u, "once");
}

Test(journal_history, the_log_is_kept_until_it_is_on_the_disk)
{
    start();
    little_story();
    (void)listed();
    stop();
    cr_assert_eq(tw_journal_durable(journal), 11u);
    start();
    (void)listed();

    cr_expect_leq(tw_history_taken(history), 11u);
}
