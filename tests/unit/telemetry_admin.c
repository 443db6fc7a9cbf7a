/* The admin port over real sockets, and the text of /metrics against a reader that forgives nothing. */
#include "telemetry_fixture.h"

#include <tradewake/base/log.h>
#include <tradewake/telemetry/telemetry.h>

#include <tradewake/v1/copies.pb-c.h>
#include <tradewake/v1/types.pb-c.h>

#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(admin, .timeout = 60);
TestSuite(metrics, .timeout = 60);

/* ---- The server. ---- */

static atomic_bool is_ready = true;

/* False: a callback that is called now is called too late. */
static atomic_bool callbacks_allowed = true;

static bool always(void *context, char *why, size_t size)
{
    (void)context;
    (void)why;
    (void)size;
    return true;
}

static bool when_ready(void *context, char *why, size_t size)
{
    (void)context;
    snprintf(why, size, "the listener is not open");
    return atomic_load(&is_ready);
}

static const struct tw_health_check ready_checks[] = {
    {"journal", always}, {"listening", when_ready}, {NULL, NULL}};

static void executor_now(void *context, struct tw_executor_status *ret_status,
                         uint32_t *ret_threads_needed)
{
    (void)context;
    *ret_status = (struct tw_executor_status){
        .threads = 1024, .threads_ready = 1024, .threads_max = 4096, .calls_completed = 810};
    *ret_threads_needed = 960;
}

static void followers_now(void *context, uint32_t *ret_total, uint32_t *ret_connected)
{
    (void)context;
    *ret_total = 30;
    *ret_connected = 28;
}

static uint64_t backlog_now(void *context)
{
    (void)context;
    return 4096;
}

static struct tw_telemetry_options options_of(const char *listen)
{
    return (struct tw_telemetry_options){
        .instance_id = "i-1",
        .version = "0.1.0 \"beta\"\\x",
        .admin_listen = listen,
        .subjects = fixture_subjects,
        .callbacks = {.executor = executor_now, .followers = followers_now, .backlog = backlog_now,
                      .ready = ready_checks},
    };
}

static struct tw_telemetry *telemetry_begin(void)
{
    const struct tw_telemetry_options options = options_of("127.0.0.1:0");
    struct tw_telemetry *telemetry;
    struct tw_error error = {""};
    cr_assert_eq(tw_telemetry_start(&options, &telemetry, &error), TW_OK, "%s", error.text);
    cr_assert_gt(tw_telemetry_admin_port(telemetry), 0);
    return telemetry;
}

/* ---- A client. ---- */

struct answer {
    int status;
    char bytes[256 * 1024]; /* head and body */
    size_t size;
    char *body;
    size_t body_bytes;
    bool is_closed; /* the server closed behind it */
};

static int client_open(const struct tw_telemetry *telemetry)
{
    int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)tw_telemetry_admin_port(telemetry)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    cr_assert_eq(connect(file, (struct sockaddr *)&address, sizeof address), 0);
    /* A client that waits in vain fails here rather than at the time-out of the test. */
    const struct timeval patience = {.tv_sec = 5};
    setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return file;
}

static void client_send(int file, const char *bytes)
{
    cr_assert_eq(send(file, bytes, strlen(bytes), MSG_NOSIGNAL), (ssize_t)strlen(bytes));
}

/* Reads one answer, and no byte of the next. */
static void answer_read(int file, bool is_head, struct answer *ret)
{
    ret->size = 0;
    char *end = NULL;
    while (end == NULL) {
        ssize_t got = recv(file, ret->bytes + ret->size, 1, 0);
        cr_assert_eq(got, 1, "closed after \"%.*s\"", (int)ret->size, ret->bytes);
        ret->bytes[++ret->size] = '\0';
        end = strstr(ret->bytes, "\r\n\r\n");
    }
    cr_assert_eq(sscanf(ret->bytes, "HTTP/1.1 %d ", &ret->status), 1, "%s", ret->bytes);
    const char *length = strstr(ret->bytes, "Content-Length: ");
    cr_assert_not_null(length);
    ret->body = ret->bytes + ret->size;
    ret->body_bytes = is_head ? 0 : strtoul(length + strlen("Content-Length: "), NULL, 10);
    cr_assert_lt(ret->size + ret->body_bytes, sizeof ret->bytes);
    for (size_t got = 0; got < ret->body_bytes;) {
        ssize_t more = recv(file, ret->body + got, ret->body_bytes - got, 0);
        cr_assert_gt(more, 0);
        got += (size_t)more;
    }
    ret->body[ret->body_bytes] = '\0';
}

/* Orderly, or with a reset because of what the server had not read. */
static bool is_closed(int file)
{
    char byte;
    ssize_t got = recv(file, &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
}

static void get(const struct tw_telemetry *telemetry, const char *target, struct answer *ret)
{
    char request[512];
    int file = client_open(telemetry);
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
             target);
    client_send(file, request);
    answer_read(file, false, ret);
    cr_expect(is_closed(file));
    close(file);
}

/* ---- Pages. ---- */

static struct answer answer; /* large: not on the stack */

Test(admin, pages_answer_what_they_are_for)
{
    struct tw_telemetry *telemetry = telemetry_begin();

    get(telemetry, "/", &answer);
    cr_expect_eq(answer.status, 200);
    cr_expect_not_null(strstr(answer.bytes, "Content-Type: text/html"));
    cr_expect_not_null(strstr(answer.body, "href=\"/metrics\""));
    get(telemetry, "/livez", &answer);
    cr_expect_eq(answer.status, 200);
    get(telemetry, "/readyz", &answer);
    cr_expect_eq(answer.status, 200);
    cr_expect_str_eq(answer.body, "ready\n");
    get(telemetry, "/readyz?verbose", &answer);
    cr_expect_str_eq(answer.body, "[+]journal ok\n[+]listening ok\nready\n");
    get(telemetry, "/metrics", &answer);
    cr_expect_eq(answer.status, 200);
    cr_expect_not_null(strstr(answer.bytes, "Content-Type: text/plain; version=0.0.4"));
    get(telemetry, "/metrics/", &answer);
    cr_expect_eq(answer.status, 404);

    atomic_store(&is_ready, false);
    get(telemetry, "/readyz", &answer);
    cr_expect_eq(answer.status, 503);
    cr_expect_str_eq(answer.body, "[-]listening failed: the listener is not open\nnot ready\n");
    get(telemetry, "/livez", &answer);
    cr_expect_eq(answer.status, 200, "alive without being ready");
    get(telemetry, "/metrics", &answer);
    cr_expect_not_null(strstr(answer.body, "\ntradewake_ready 0\n"));
    tw_telemetry_stop(telemetry);
}

static void put(const struct tw_telemetry *telemetry, const char *target, const char *body, struct answer *ret)
{
    char request[512];
    int file = client_open(telemetry);
    snprintf(request, sizeof request, "PUT %s HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
             target, strlen(body), body);
    client_send(file, request);
    answer_read(file, false, ret);
    close(file);
}

Test(admin, the_log_level_is_read_and_put)
{
    static const struct {
        const char *body;
        int status;
        enum tw_log_level level;
    } rows[] = {
        {"debug", 200, TW_LOG_DEBUG},      {"level=error", 200, TW_LOG_ERROR}, {"none\r\n", 200, TW_LOG_NONE},
        {"loud", 400, TW_LOG_NONE},        {"", 400, TW_LOG_NONE},             {"level=", 400, TW_LOG_NONE},
        {"level=level=warn", 400, TW_LOG_NONE}, {"warn", 200, TW_LOG_WARN},
    };
    struct tw_telemetry *telemetry = telemetry_begin();
    enum tw_log_level before = tw_log_level_get();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put(telemetry, "/loglevel", rows[i].body, &answer);
        cr_expect_eq(answer.status, rows[i].status, "%s: %d", rows[i].body, answer.status);
        cr_expect_eq(tw_log_level_get(), rows[i].level, "%s", rows[i].body);
    }
    get(telemetry, "/loglevel", &answer);
    cr_expect_str_eq(answer.body, "warn\n");
    put(telemetry, "/metrics", "debug", &answer);
    cr_expect_eq(answer.status, 405, "%d", answer.status);
    tw_log_level_set(before);
    tw_telemetry_stop(telemetry);
}

/* Two on one connection: the word of the first is not the beginning of the second. */
Test(admin, what_is_put_is_taken_off_the_connection)
{
    struct tw_telemetry *telemetry = telemetry_begin();
    enum tw_log_level before = tw_log_level_get();
    int file = client_open(telemetry);
    client_send(file, "PUT /loglevel HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nerrorGET /loglevel HTTP/1.1\r\nHost: a\r\n\r\n");
    answer_read(file, false, &answer);
    cr_expect_str_eq(answer.body, "error\n");
    answer_read(file, false, &answer);
    cr_expect_str_eq(answer.body, "error\n");
    close(file);
    tw_log_level_set(before);
    tw_telemetry_stop(telemetry);
}

Test(admin, a_connection_is_kept_and_requests_may_be_sent_ahead)
{
    struct tw_telemetry *telemetry = telemetry_begin();
    int file = client_open(telemetry);

    client_send(file,
                "GET /livez HTTP/1.1\r\nHost: a\r\n\r\nHEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
                "GET /none HTTP/1.1\r\nHost: a\r\n\r\nGET /rea");
    answer_read(file, false, &answer);
    cr_expect_eq(answer.status, 200);
    answer_read(file, true, &answer);
    cr_expect_eq(answer.status, 200);
    answer_read(file, false, &answer);
    cr_expect_eq(answer.status, 404);
    client_send(file, "dyz HTTP/1.0\r\n\r\n");
    answer_read(file, false, &answer);
    cr_expect_eq(answer.status, 200);
    cr_expect(is_closed(file), "HTTP/1.0 asked for one answer");
    close(file);
    tw_telemetry_stop(telemetry);
}

Test(admin, what_is_no_request_is_refused_and_the_connection_closed)
{
    static const struct {
        const char *bytes;
        int status;
    } rows[] = {
        {"POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 405},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 413},
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"\x16\x03\x01\x02\x01", 400},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
    };
    struct tw_telemetry *telemetry = telemetry_begin();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int file = client_open(telemetry);
        client_send(file, rows[i].bytes);
        answer_read(file, false, &answer);
        cr_expect_eq(answer.status, rows[i].status, "row %zu: %d", i, answer.status);
        cr_expect_not_null(strstr(answer.bytes, "Connection: close"));
        cr_expect(is_closed(file));
        close(file);
    }

    int file = client_open(telemetry);
    char *long_line = malloc(9000);
    memset(long_line, 'a', 8999);
    long_line[8999] = '\0';
    client_send(file, "GET / HTTP/1.1\r\nX: ");
    client_send(file, long_line);
    answer_read(file, false, &answer);
    cr_expect_eq(answer.status, 431);
    free(long_line);
    close(file);
    tw_telemetry_stop(telemetry);
}

/* Idle clients fill every place; whoever comes next is served all the same. */
Test(admin, a_full_house_makes_room_for_the_next_probe)
{
    enum { CLIENTS = 80 };
    int idle[CLIENTS];
    struct tw_telemetry *telemetry = telemetry_begin();
    for (int i = 0; i < CLIENTS; i++) {
        idle[i] = client_open(telemetry);
        client_send(idle[i], "GET / HT");
    }

    get(telemetry, "/livez", &answer);
    cr_expect_eq(answer.status, 200);
    cr_expect(is_closed(idle[0]), "the one that was idle longest had to go");
    tw_telemetry_stop(telemetry); /* with the others still connected */
    for (int i = 0; i < CLIENTS; i++)
        close(idle[i]);
}

Test(admin, a_stop_waits_for_no_client)
{
    struct tw_telemetry *telemetry = telemetry_begin();
    int idle = client_open(telemetry), busy = client_open(telemetry);
    client_send(idle, "GET / HTTP/1.1\r\n");
    for (int i = 0; i < 20; i++) /* answers that nobody reads */
        client_send(busy, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");

    int64_t begin_mono_ns = tw_mono_ns();
    tw_telemetry_stop(telemetry);
    cr_expect_lt(tw_mono_ns() - begin_mono_ns, TW_NS_PER_S);
    close(idle);
    close(busy);
}

/* A server stops its executor in between: nobody may ask about it any more. */
Test(admin, a_closed_port_calls_no_callback)
{
    struct tw_telemetry *telemetry = telemetry_begin();
    int kept = client_open(telemetry);
    client_send(kept, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    answer_read(kept, false, &answer);
    client_send(kept, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");

    tw_telemetry_admin_close(telemetry);
    atomic_store(&callbacks_allowed, false);
    (void)send(kept, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 35, MSG_NOSIGNAL);
    while (recv(kept, answer.bytes, sizeof answer.bytes, 0) > 0)
        ; /* what was on its way, then the end */
    cr_expect_eq(tw_telemetry_admin_port(telemetry), 0);
    tw_telemetry_admin_close(telemetry);
    tw_telemetry_stop(telemetry);
    close(kept);
}

Test(admin, a_port_in_use_is_named)
{
    struct tw_telemetry *telemetry = telemetry_begin(), *second = NULL;
    char address[64];
    struct tw_error error = {""};
    snprintf(address, sizeof address, "127.0.0.1:%d", tw_telemetry_admin_port(telemetry));
    struct tw_telemetry_options options = options_of(address);

    cr_expect_eq(tw_telemetry_start(&options, &second, &error), TW_IO);
    cr_expect_not_null(strstr(error.text, address), "%s", error.text);
    cr_expect_not_null(strstr(error.text, "EADDRINUSE"), "%s", error.text);
    tw_telemetry_stop(telemetry);
    cr_assert_eq(tw_telemetry_start(&options, &second, &error), TW_OK, "%s", error.text);
    tw_telemetry_stop(second);
}

Test(admin, addresses_are_checked)
{
    static const struct {
        const char *listen;
        tw_status status;
    } rows[] = {
        {"", TW_OK},
        {"localhost:0", TW_OK},
        {":0", TW_OK},
        {"127.0.0.1", TW_INVALID},
        {"127.0.0.1:", TW_INVALID},
        {"127.0.0.1:65536", TW_INVALID},
        {"127.0.0.1:-1", TW_INVALID},
        {"127.0.0.1:http", TW_INVALID},
        {"::1:9464", TW_INVALID},
        {"192.0.2.1:9464", TW_IO}, /* nobody's address */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tw_telemetry_options options = options_of(rows[i].listen);
        struct tw_telemetry *telemetry = NULL;
        struct tw_error error = {""};
        tw_status status = tw_telemetry_start(&options, &telemetry, &error);
        cr_expect_eq(status, rows[i].status, "%s: %d %s", rows[i].listen, status, error.text);
        if (rows[i].status != TW_OK)
            cr_expect_not_null(strstr(error.text, rows[i].listen), "%s", error.text);
        tw_telemetry_stop(telemetry);
    }
}

/* ---- /metrics. ---- */

/* One line of the text format, taken apart. */
struct metric_line {
    char name[128], labels[256];
    double value;
};

static bool name_read(const char **at, char *ret, size_t size)
{
    size_t used = 0;
    while ((isalnum((unsigned char)**at) || **at == '_' || **at == ':') && used + 1 < size)
        ret[used++] = *(*at)++;
    ret[used] = '\0';
    return used > 0 && !isdigit((unsigned char)ret[0]);
}

/* key="value",... with the three escapes. */
static bool labels_read(const char **at, char *ret, size_t size)
{
    const char *begin = *at;
    for (;;) {
        char key[64];
        if (!name_read(at, key, sizeof key) || **at != '=' || (*at)[1] != '"')
            return false;
        for (*at += 2; **at != '"'; (*at)++)
            if (**at == '\0' || **at == '\n' || (**at == '\\' && strchr("\\\"n", *++*at) == NULL))
                return false;
        (*at)++;
        if (**at != ',')
            break;
        (*at)++;
    }
    snprintf(ret, size, "%.*s", (int)(*at - begin), begin);
    return true;
}

static bool line_read(const char *line, struct metric_line *ret)
{
    char *end;
    *ret = (struct metric_line){.value = 0};
    if (!name_read(&line, ret->name, sizeof ret->name))
        return false;
    if (*line == '{') {
        line++;
        if (!labels_read(&line, ret->labels, sizeof ret->labels) || *line++ != '}')
            return false;
    }
    if (*line++ != ' ' || !isdigit((unsigned char)*line))
        return false;
    ret->value = strtod(line, &end);
    return *end == '\0';
}

/* The family of a series: its name, without what a histogram appends. */
static void family_of(const char *name, const char *type, char ret[128])
{
    static const char *const endings[] = {"_bucket", "_sum", "_count"};
    snprintf(ret, 128, "%s", name);
    for (size_t i = 0; strcmp(type, "histogram") == 0 && i < 3; i++) {
        size_t keep = strlen(ret) - strlen(endings[i]);
        if (strlen(ret) > strlen(endings[i]) && strcmp(ret + keep, endings[i]) == 0) {
            ret[keep] = '\0';
            return;
        }
    }
}

/* Reads the whole page: HELP, TYPE, then the lines of that family and no other, every series once,
 * buckets that only rise and end with the count. */
static void expect_strict(char *page, struct metric_line *lines, size_t *ret_lines)
{
    char help[128] = "", family[128] = "", type[32] = "";
    double bucket = 0;
    size_t count = 0;

    cr_assert_eq(page[strlen(page) - 1], '\n', "the last line ends, too");
    for (char *line = strtok(page, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (sscanf(line, "# HELP %127s", help) == 1) {
            cr_assert_gt(strlen(line), strlen("# HELP  ") + strlen(help), "%s", line);
            continue;
        }
        if (sscanf(line, "# TYPE %127s %31s", family, type) == 2) {
            cr_assert_str_eq(help, family, "%s", line);
            cr_assert(strcmp(type, "counter") == 0 || strcmp(type, "gauge") == 0 ||
                          strcmp(type, "histogram") == 0,
                      "%s", line);
            bool is_total =
                strlen(family) > 6 && strcmp(family + strlen(family) - 6, "_total") == 0;
            cr_assert_eq(strcmp(type, "counter") == 0, is_total, "%s", line);
            bucket = 0;
            continue;
        }
        struct metric_line *read = &lines[count];
        char own[128];
        cr_assert(line_read(line, read), "%s", line);
        family_of(read->name, type, own);
        cr_assert_str_eq(own, family, "%s", line);
        for (size_t i = 0; i < count; i++)
            cr_assert(strcmp(lines[i].name, read->name) != 0 ||
                          strcmp(lines[i].labels, read->labels) != 0,
                      "twice: %s", line);
        if (strstr(read->labels, "le=") != NULL) {
            cr_assert_geq(read->value, bucket, "%s", line);
            bucket = read->value;
        } else if (strcmp(type, "histogram") == 0 && strstr(read->name, "_count") != NULL) {
            cr_assert_eq(read->value, bucket, "%s", line);
        }
        count++;
        cr_assert_lt(count, 400);
    }
    *ret_lines = count;
}

static double value_of(const struct metric_line *lines, size_t count, const char *name,
                       const char *labels)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(lines[i].name, name) == 0 && strcmp(lines[i].labels, labels) == 0)
            return lines[i].value;
    cr_assert_fail("there is no %s{%s}", name, labels);
    return -1;
}

Test(metrics, the_page_is_well_formed_and_its_figures_are_right)
{
    static struct metric_line lines[400];
    struct tw_telemetry *telemetry = telemetry_begin();
    struct subject subject;
    size_t count = 0;
    subject_init(&subject, "M1", "F1");
    for (uint64_t i = 0; i < 3; i++)
        cr_assert(
            put_one(tw_telemetry_sampler(telemetry), &subject, 1000000)); /* 1 ms: on a bound */
    cr_assert(put_one(tw_telemetry_sampler(telemetry), &subject, 1000001));
    struct tw_sample held = sample_of(&subject, 3000000);
    held.held_ns = 2000000;
    subject_hold(&subject);
    cr_assert(tw_sampler_put(tw_telemetry_sampler(telemetry), &held));
    tw_copy_counters_add(3, 0);
    tw_copy_counters_add(6, 12);
    tw_copy_counters_add(6, 12);
    tw_copy_counters_add(99, -1);

    get(telemetry, "/metrics", &answer);
    expect_strict(answer.body, lines, &count);
    static const struct {
        const char *name, *labels;
        double value;
    } rows[] = {
        {"tradewake_own_time_seconds_bucket", "le=\"0.00001\"", 0},
        {"tradewake_own_time_seconds_bucket", "le=\"0.0005\"", 0},
        {"tradewake_own_time_seconds_bucket", "le=\"0.001\"", 3},
        {"tradewake_own_time_seconds_bucket", "le=\"0.002\"", 4},
        {"tradewake_own_time_seconds_bucket", "le=\"10\"", 4},
        {"tradewake_own_time_seconds_bucket", "le=\"+Inf\"", 4},
        {"tradewake_own_time_seconds_sum", "", 0.004000001},
        {"tradewake_path_time_seconds_count", "", 4},
        {"tradewake_queue_wait_seconds_count", "", 5},
        {"tradewake_broker_seconds_count", "", 5},
        {"tradewake_broker_seconds_bucket", "le=\"0.1\"", 0},
        {"tradewake_broker_seconds_bucket", "le=\"0.2\"", 5},
        {"tradewake_copies_total", "state=\"DONE\",reason=\"NONE\"", 1},
        {"tradewake_copies_total", "state=\"SKIPPED\",reason=\"BELOW_MIN\"", 2},
        {"tradewake_copies_total", "state=\"NONE\",reason=\"NONE\"", 1},
        {"tradewake_executor_threads", "kind=\"running\"", 1024},
        {"tradewake_executor_threads", "kind=\"needed\"", 960},
        {"tradewake_executor_calls_completed_total", "", 810},
        {"tradewake_followers", "connected=\"true\"", 28},
        {"tradewake_followers", "connected=\"false\"", 2},
        {"tradewake_journal_backlog_bytes", "", 4096},
        {"tradewake_samples_total", "", 5},
        {"tradewake_samples_held_total", "", 1},
        {"tradewake_samples_lost_total", "", 0},
        {"tradewake_ready", "", 1},
        {"tradewake_build_info", "version=\"0.1.0 \\\"beta\\\"\\\\x\"", 1},
        {"tradewake_instance_info", "instance_id=\"i-1\"", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_float_eq(value_of(lines, count, rows[i].name, rows[i].labels), rows[i].value,
                           1e-12, "%s{%s} is %f", rows[i].name, rows[i].labels,
                           value_of(lines, count, rows[i].name, rows[i].labels));
    cr_expect_gt(value_of(lines, count, "process_resident_memory_bytes", ""), 1e6);
    cr_expect_gt(value_of(lines, count, "process_open_fds", ""), 3);
    cr_expect_geq(value_of(lines, count, "process_threads", ""), 3);
    for (size_t i = 0; i < count; i++)
        cr_expect_null(strstr(lines[i].labels, "M1"), "no ids as labels");
    tw_telemetry_stop(telemetry);
}

/* Where Prometheus' own checker is installed, it has the last word. */
Test(metrics, promtool_finds_nothing_to_say)
{
    if (system("command -v promtool >/dev/null") != 0)
        cr_skip_test("promtool is not installed");
    struct tw_telemetry *telemetry = telemetry_begin();
    get(telemetry, "/metrics", &answer);
    tw_telemetry_stop(telemetry);

    FILE *promtool = popen("promtool check metrics >&2", "w");
    cr_assert_not_null(promtool);
    fputs(answer.body, promtool);
    cr_expect_eq(pclose(promtool), 0);
}

/* Every state and reason of the contract has its place in the table of counters. */
Test(metrics, the_counters_know_every_state_and_reason)
{
    const ProtobufCEnumDescriptor *states = &tradewake__v1__copy_state__descriptor;
    const ProtobufCEnumDescriptor *reasons = &tradewake__v1__reason__descriptor;
    cr_expect_eq(states->values[states->n_values - 1].value, (int)TW_COPY_STATES - 1);
    cr_expect_eq(reasons->values[reasons->n_values - 1].value, (int)TW_COPY_REASONS - 1);

    uint64_t before = tw_copy_counters_get(9, 79);
    tw_copy_counters_add(9, 79); /* UNKNOWN, BROKER_OTHER: the last of each */
    cr_expect_eq(tw_copy_counters_get(9, 79), before + 1);
    cr_expect_eq(tw_copy_counters_get(0, 0), tw_copy_counters_get(10, 80), "beside the table");
}
