/* kill -9 between every two steps of send, store and receive: never a lower number, no order twice, no report lost; judged by
 * what the venue has seen.
 *
 * The trader is a process of its own (session, store, a pair of sockets), and dies at step k; another one goes on after it, and
 * dies at another step; a third one ends in good order. For every k that there is. */
#include <tradewake/fix/session.h>
#include <tradewake/fix/store.h>

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ORDERS = 4, SEEN_MAX = 256 };

static char folder[64], store_path[128], intents_path[128], reports_path[128];

static struct fix_now now_of(void)
{
    return (struct fix_now){.mono_ns = 1, .wall_ns = INT64_C(1796126400000000000)};
}

/* ---- The trader. ---- */

static struct {
    int step, dies_at; /* 0 = never */
    int socket, intents, reports;
    struct fix_session *session;
    struct fix_store *store;
    struct fix_actions actions;
    unsigned n_orders, n_answered;
    bool is_leaving;
} trader;

static void step(void)
{
    if (++trader.step == trader.dies_at)
        kill(getpid(), SIGKILL);
}

static void must(bool holds)
{
    if (!holds)
        _exit(2);
}

/* In two pieces, so that a message can be cut by the kill. */
static void send_bytes(const char *bytes, size_t n)
{
    step();
    must(send(trader.socket, bytes, n / 2, MSG_NOSIGNAL) == (ssize_t)(n / 2));
    step();
    must(send(trader.socket, bytes + n / 2, n - n / 2, MSG_NOSIGNAL) == (ssize_t)(n - n / 2));
    step();
}

static void perform(struct fix_actions *actions);

static void on_report(const struct fix_message *message)
{
    char line[32];
    size_t n = 0;
    const char *id = fix_message_value(message, 17, &n);
    must(id != NULL && n < sizeof line - 1);
    int length = snprintf(line, sizeof line, "%.*s\n", (int)n, id);
    step();
    must(write(trader.reports, line, (size_t)length) == length);
    step();
    trader.n_answered++;
}

static void perform(struct fix_actions *actions)
{
    for (size_t i = 0; i < actions->n; i++) {
        const struct fix_action *action = &actions->list[i];
        step();
        switch (action->what) {
        case FIX_DO_SEND:
            must(fix_store_out(trader.store, action->seq, 1, action->bytes, action->n, NULL) == TW_OK);
            send_bytes(action->bytes, action->n);
            break;
        case FIX_DO_DELIVER:
            on_report(action->message);
            break;
        case FIX_DO_EXPECT:
            must(fix_store_expect(trader.store, action->next_in, NULL) == TW_OK);
            break;
        case FIX_DO_RENUMBER:
            must(false);
            break;
        case FIX_DO_END:
            if (!trader.is_leaving || action->is_fatal)
                fprintf(stderr, "trader: %s\n", action->why);
            must(trader.is_leaving && !action->is_fatal);
            fix_store_close(trader.store);
            _exit(0);
        case FIX_DO_UP:
        case FIX_DO_MISSED:
        case FIX_DO_SAY:
            break;
        }
    }
    if (actions->has_more) {
        fix_session_more(trader.session, now_of(), actions);
        perform(actions);
    }
}

/* An order is an intent first; an intent is sent once, or by nobody. */
static void orders_send(void)
{
    static struct fix_actions actions;
    while (trader.n_orders < ORDERS && fix_session_is_synced(trader.session)) {
        char body[64];
        int n = snprintf(body, sizeof body, "11=T%u\00155=1\001", ++trader.n_orders);
        step();
        must(write(trader.intents, "x", 1) == 1);
        step();
        must(fix_session_send(trader.session, now_of(), "D", body, (size_t)n, &actions, NULL) == TW_OK);
        perform(&actions);
    }
    if (trader.n_orders == ORDERS && fix_session_is_synced(trader.session) && !trader.is_leaving) {
        trader.is_leaving = true;
        fix_session_logout(trader.session, now_of(), "", &trader.actions);
        perform(&trader.actions);
    }
}

static _Noreturn void trader_main(int socket, int dies_at)
{
    const struct fix_session_options options = {.sender = "US", .target = "THEM"};
    const struct fix_store_options store_options = {.path = store_path};
    struct fix_reader reader;
    struct fix_message message;
    char bytes[512];
    trader.socket = socket;
    trader.dies_at = dies_at;
    trader.intents = open(intents_path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    trader.reports = open(reports_path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    trader.n_orders = (unsigned)lseek(trader.intents, 0, SEEK_END);
    step();
    must(fix_store_open(&store_options, 1, &trader.store, NULL) == TW_OK && fix_reader_init(&reader, 0) == TW_OK);
    step();
    struct fix_store_numbers numbers = fix_store_numbers(trader.store);
    must(fix_session_new(&options, numbers.next_out, numbers.next_in, &trader.session, NULL) == TW_OK);
    fix_session_on_connected(trader.session, now_of(), NULL, &trader.actions);
    perform(&trader.actions);
    for (;;) {
        ssize_t n = read(socket, bytes, sizeof bytes);
        must(n > 0);
        must(fix_reader_feed(&reader, bytes, (size_t)n) == (size_t)n);
        while (fix_reader_next(&reader, &message)) {
            step();
            fix_session_on_message(trader.session, now_of(), &message, &trader.actions);
            perform(&trader.actions);
            orders_send();
        }
    }
}

/* ---- The venue, and judge. ---- */

static struct {
    int socket;
    uint64_t next_in, next_out, highest; /* highest: of theirs, ever */
    char orders[SEEN_MAX][16];
    unsigned n_orders;
    unsigned report_of[SEEN_MAX * 4]; /* by number: the order that it reports; 0 = a message of the session */
    bool is_asked;
} venue;

static void venue_send(const char *type, uint64_t seq, const char *fields, size_t n)
{
    char bytes[512];
    struct fix_writer writer;
    fix_writer_begin(&writer, bytes, sizeof bytes, "FIX.4.4", type);
    fix_writer_number(&writer, 34, seq);
    if (seq < venue.next_out)
        fix_writer_fields(&writer, "122=20261201-12:00:00\001", 22);
    fix_writer_text(&writer, 49, "THEM");
    fix_writer_time(&writer, 52, now_of().wall_ns);
    fix_writer_text(&writer, 56, "US");
    if (seq < venue.next_out)
        fix_writer_text(&writer, 43, "Y");
    fix_writer_fields(&writer, fields, n);
    size_t size = fix_writer_end(&writer);
    cr_assert_gt(size, 0);
    (void)!send(venue.socket, bytes, size, MSG_NOSIGNAL); /* who is dead hears nothing */
}

static void report_send(uint64_t seq, unsigned order)
{
    char fields[64];
    int n = snprintf(fields, sizeof fields, "17=E%u\00111=%s\001", order, venue.orders[order - 1]);
    venue_send("8", seq, fields, (size_t)n);
}

static uint64_t venue_number(void)
{
    cr_assert_lt(venue.next_out, SEEN_MAX * 4);
    return venue.next_out;
}

static void venue_says(const char *type, const char *fields, size_t n)
{
    uint64_t seq = venue_number();
    venue_send(type, seq, fields, n);
    venue.next_out++;
}

static void replay(uint64_t from)
{
    for (uint64_t seq = from; seq < venue.next_out; seq++) {
        if (venue.report_of[seq] != 0)
            report_send(seq, venue.report_of[seq]);
        else {
            char fields[32];
            int n = snprintf(fields, sizeof fields, "36=%llu\001123=Y\001", (unsigned long long)seq + 1);
            venue_send("4", seq, fields, (size_t)n);
        }
    }
}

static void on_order(const struct fix_message *message)
{
    char id[16];
    cr_expect_not(fix_message_is(message, 43, "Y"), "an order as a duplicate");
    fix_message_text(message, 11, id, sizeof id);
    for (unsigned i = 0; i < venue.n_orders; i++)
        cr_expect_str_neq(venue.orders[i], id, "order %s twice", id);
    strcpy(venue.orders[venue.n_orders++], id);
    uint64_t seq = venue_number();
    venue.report_of[seq] = venue.n_orders;
    report_send(seq, venue.n_orders);
    venue.next_out++;
}

static void venue_on_message(const struct fix_message *message)
{
    uint64_t number = 0;
    bool is_fill = strcmp(message->type, "4") == 0;
    if (!is_fill) {
        cr_expect_gt(message->seq, venue.highest, "number %llu after %llu", (unsigned long long)message->seq,
                     (unsigned long long)venue.highest);
        venue.highest = message->seq;
    }
    if (is_fill && message->seq == venue.next_in && fix_message_number(message, 36, &number)) {
        venue.next_in = number;
        venue.is_asked = false;
        return;
    }
    if (message->type[0] == 'A')
        venue_says("A", "98=0\001108=0\001", 11);
    if (message->seq > venue.next_in && !venue.is_asked) {
        char fields[32];
        int n = snprintf(fields, sizeof fields, "7=%llu\00116=0\001", (unsigned long long)venue.next_in);
        venue_says("2", fields, (size_t)n);
        venue.is_asked = true;
    } else if (message->seq == venue.next_in) {
        venue.next_in++;
    }
    if (message->type[0] == 'D')
        on_order(message);
    else if (message->type[0] == '2' && fix_message_number(message, 7, &number))
        replay(number);
    else if (message->type[0] == '5')
        venue_says("5", "58=bye\001", 7);
}

/* One life of the trader. Its exit code; -1: it was killed. */
static int live(int dies_at)
{
    int pair[2], status = 0;
    struct fix_reader reader;
    struct fix_message message;
    char bytes[512];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    pid_t child = fork();
    if (child == 0) {
        close(pair[0]);
        trader_main(pair[1], dies_at);
    }
    close(pair[1]);
    venue.socket = pair[0];
    venue.is_asked = false;
    cr_assert_eq(fix_reader_init(&reader, 0), TW_OK);
    for (ssize_t n; (n = read(pair[0], bytes, sizeof bytes)) > 0;) {
        cr_assert_eq(fix_reader_feed(&reader, bytes, (size_t)n), (size_t)n);
        while (fix_reader_next(&reader, &message))
            venue_on_message(&message);
    }
    close(pair[0]);
    fix_reader_clear(&reader);
    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void start_anew(void)
{
    memset(&venue, 0, sizeof venue);
    venue.next_in = venue.next_out = 1;
    (void)unlink(store_path);
    (void)unlink(intents_path);
    (void)unlink(reports_path);
}

/* Whatever the venue has executed has been reported to somebody. */
static void reports_check(int k)
{
    char line[32], wanted[32];
    for (unsigned i = 1; i <= venue.n_orders; i++) {
        bool is_there = false;
        FILE *file = fopen(reports_path, "r");
        snprintf(wanted, sizeof wanted, "E%u\n", i);
        while (file != NULL && fgets(line, sizeof line, file) != NULL)
            is_there = is_there || strcmp(line, wanted) == 0;
        cr_expect(is_there, "killed at step %d: the report of %s is lost", k, venue.orders[i - 1]);
        if (file != NULL)
            fclose(file);
    }
}

static void start(void)
{
    strcpy(folder, "/tmp/fix_crash.XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(store_path, sizeof store_path, "%s/s.fix", folder);
    snprintf(intents_path, sizeof intents_path, "%s/intents", folder);
    snprintf(reports_path, sizeof reports_path, "%s/reports", folder);
}

static void stop(void)
{
    start_anew();
    (void)rmdir(folder);
}

Test(fix_crash, killed_at_every_step_it_goes_on_with_its_numbers_and_sends_nothing_twice, .init = start, .fini = stop,
     .timeout = 100)
{
    unsigned most = 0;
    int k = 1;
    for (bool was_killed = true; was_killed; k++) {
        start_anew();
        was_killed = live(k) == -1;
        if (was_killed)
            (void)live(k * 7 % 60 + 1);
        int end = live(0);
        cr_assert_eq(end, 0, "killed at step %d: the last one ends with %d", k, end);
        cr_expect_leq(venue.n_orders, ORDERS);
        most = venue.n_orders > most ? venue.n_orders : most;
        reports_check(k);
    }
    cr_expect_gt(k, 60, "%d steps", k);
    cr_expect_eq(most, ORDERS);
}
