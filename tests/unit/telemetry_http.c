/* The head of an HTTP request, row by row. */
#include "http_request.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOST "Host: localhost:9464\r\n"

struct row {
    const char *name, *bytes;
    enum http_verdict verdict;
    int status;               /* of a refusal */
    const char *path, *query; /* of a request */
    bool is_head, keeps_alive;
};

static const struct row rows[] = {
    {"a scrape", "GET /metrics HTTP/1.1\r\n" HOST "Accept: text/plain\r\n\r\n", HTTP_REQUEST, 0,
     "/metrics", "", false, true},
    {"a probe with a query", "GET /readyz?verbose HTTP/1.1\r\n" HOST "\r\n", HTTP_REQUEST, 0,
     "/readyz", "verbose", false, true},
    {"an empty query", "GET /? HTTP/1.1\r\n" HOST "\r\n", HTTP_REQUEST, 0, "/", "", false, true},
    {"HEAD", "HEAD / HTTP/1.1\r\n" HOST "\r\n", HTTP_REQUEST, 0, "/", "", true, true},
    {"close", "GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", HTTP_REQUEST, 0, "/", "",
     false, false},
    {"close in a list, in capitals", "GET / HTTP/1.1\r\n" HOST "Connection: TE , CLOSE\r\n\r\n",
     HTTP_REQUEST, 0, "/", "", false, false},
    {"1.0 closes", "GET / HTTP/1.0\r\n\r\n", HTTP_REQUEST, 0, "/", "", false, false},
    {"1.0 that asks to stay", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", HTTP_REQUEST, 0,
     "/", "", false, true},
    {"1.2 is read as 1.1", "GET / HTTP/1.2\r\n" HOST "\r\n", HTTP_REQUEST, 0, "/", "", false, true},
    {"through a proxy", "GET http://admin:9464/livez HTTP/1.1\r\n" HOST "\r\n", HTTP_REQUEST, 0,
     "/livez", "", false, true},
    {"an empty line before", "\r\nGET / HTTP/1.1\r\n" HOST "\r\n", HTTP_REQUEST, 0, "/", "", false,
     true},
    {"a field without a value", "GET / HTTP/1.1\r\n" HOST "X-A:\r\n\r\n", HTTP_REQUEST, 0, "/", "",
     false, true},
    {"a body of no bytes", "GET / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", HTTP_REQUEST, 0,
     "/", "", false, true},
    {"UTF-8 in a value", "GET / HTTP/1.1\r\n" HOST "X-A: \xc3\xa4\r\n\r\n", HTTP_REQUEST, 0, "/",
     "", false, true},
    {"more behind it", "GET / HTTP/1.1\r\n" HOST "\r\nGET /livez", HTTP_REQUEST, 0, "/", "", false,
     true},

    {"nothing", "", HTTP_MORE, 0, NULL, NULL, false, false},
    {"empty lines only", "\r\n\r\n", HTTP_MORE, 0, NULL, NULL, false, false},
    {"half a line", "GET /met", HTTP_MORE, 0, NULL, NULL, false, false},
    {"no empty line", "GET / HTTP/1.1\r\n" HOST, HTTP_MORE, 0, NULL, NULL, false, false},
    {"half an empty line", "GET / HTTP/1.1\r\n" HOST "\r", HTTP_MORE, 0, NULL, NULL, false, false},

    {"another method", "POST / HTTP/1.1\r\n" HOST "\r\n", HTTP_REFUSED, 405, NULL, NULL, 0, 0},
    {"a method of another form", "OPTIONS * HTTP/1.1\r\n" HOST "\r\n", HTTP_REFUSED, 405, NULL,
     NULL, 0, 0},
    {"small letters are another method", "get / HTTP/1.1\r\n" HOST "\r\n", HTTP_REFUSED, 405, NULL,
     NULL, 0, 0},
    {"HTTP/2", "PRI * HTTP/2.0\r\n\r\n", HTTP_REFUSED, 505, NULL, NULL, 0, 0},
    {"HTTP/0.9", "GET /\r\n\r\n", HTTP_REFUSED, 400, NULL, NULL, 0, 0},
    {"no version", "GET / HTTP/1\r\n\r\n", HTTP_REFUSED, 400, NULL, NULL, 0, 0},
    {"a version of letters", "GET / HTTP/x.1\r\n\r\n", HTTP_REFUSED, 400, NULL, NULL, 0, 0},
    {"two blanks", "GET  / HTTP/1.1\r\n" HOST "\r\n", HTTP_REFUSED, 400, NULL, NULL, 0, 0},
    {"a blank behind the version", "GET / HTTP/1.1 \r\n" HOST "\r\n", HTTP_REFUSED, 400, NULL, NULL,
     0, 0},
    {"no slash", "GET metrics HTTP/1.1\r\n" HOST "\r\n", HTTP_REFUSED, 400, NULL, NULL, 0, 0},
    {"a host without a path", "GET http://admin HTTP/1.1\r\n" HOST "\r\n", HTTP_REFUSED, 400, NULL,
     NULL, 0, 0},
    {"no host", "GET / HTTP/1.1\r\n\r\n", HTTP_REFUSED, 400, NULL, NULL, 0, 0},
    {"two hosts", "GET / HTTP/1.1\r\n" HOST HOST "\r\n", HTTP_REFUSED, 400, NULL, NULL, 0, 0},
    {"a folded line", "GET / HTTP/1.1\r\n" HOST "X-A: b\r\n c\r\n\r\n", HTTP_REFUSED, 400, NULL,
     NULL, 0, 0},
    {"a blank before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", HTTP_REFUSED, 400, NULL,
     NULL, 0, 0},
    {"a field without a colon", "GET / HTTP/1.1\r\n" HOST "X\r\n\r\n", HTTP_REFUSED, 400, NULL,
     NULL, 0, 0},
    {"a field without a name", "GET / HTTP/1.1\r\n" HOST ": x\r\n\r\n", HTTP_REFUSED, 400, NULL,
     NULL, 0, 0},
    {"a body", "GET / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc", HTTP_REFUSED, 413, NULL,
     NULL, 0, 0},
    {"a word to put", "PUT /loglevel HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\ndebug", HTTP_REQUEST, 0,
     "/loglevel", "", false, true},
    {"a word that has not come yet", "PUT /loglevel HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\ndebu", HTTP_MORE, 0,
     NULL, NULL, false, false},
    {"more than a word to put", "PUT /loglevel HTTP/1.1\r\n" HOST "Content-Length: 65\r\n\r\n", HTTP_REFUSED, 413, NULL,
     NULL, 0, 0},
    {"a length beyond every number", "PUT / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999999999\r\n\r\n",
     HTTP_REFUSED, 413, NULL, NULL, 0, 0},
    {"a posted body", "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\ndebug", HTTP_REFUSED, 413, NULL, NULL, 0, 0},
    {"two lengths", "GET / HTTP/1.1\r\n" HOST "Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
     HTTP_REFUSED, 400, NULL, NULL, 0, 0},
    {"a length with a sign", "GET / HTTP/1.1\r\n" HOST "Content-Length: +0\r\n\r\n", HTTP_REFUSED,
     400, NULL, NULL, 0, 0},
    {"an empty length", "GET / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n", HTTP_REFUSED, 400,
     NULL, NULL, 0, 0},
    {"chunks", "GET / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", HTTP_REFUSED, 501,
     NULL, NULL, 0, 0},
    {"a line feed alone", "GET / HTTP/1.1\n", HTTP_REFUSED, 400, NULL, NULL, 0, 0},
    {"a carriage return alone", "GET / HTTP/1.1\rX", HTTP_REFUSED, 400, NULL, NULL, 0, 0},
    {"TLS", "\x16\x03\x01\x02", HTTP_REFUSED, 400, NULL, NULL, 0, 0},
    {"a delete character", "GET /\x7f HTTP/1.1\r\n", HTTP_REFUSED, 400, NULL, NULL, 0, 0},
    {"UTF-8 in the target", "GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n", HTTP_REFUSED, 400, NULL, NULL,
     0, 0},
};

static void expect_row(const struct row *row)
{
    struct http_request request = {0};
    int status = 0;
    enum http_verdict verdict =
        http_request_read(row->bytes, strlen(row->bytes), &request, &status);

    cr_assert_eq(verdict, row->verdict, "%s: verdict %d, status %d", row->name, verdict, status);
    cr_expect_eq(status, row->status, "%s: %d", row->name, status);
    if (verdict != HTTP_REQUEST)
        return;
    cr_expect(http_text_is(request.path, row->path), "%s: %.*s", row->name, (int)request.path.size,
              request.path.at);
    cr_expect(http_text_is(request.query, row->query), "%s: %.*s", row->name,
              (int)request.query.size, request.query.at);
    cr_expect_eq(request.is_head, row->is_head, "%s", row->name);
    cr_expect_eq(request.keeps_alive, row->keeps_alive, "%s", row->name);
}

Test(http_request, rows_read_as_they_should)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect_row(&rows[i]);
}

/* Bytes come in pieces of any size: a request is complete with its last byte and not before. */
Test(http_request, a_request_is_whole_with_its_last_byte)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct http_request request = {0}, again = {0};
        int status;
        if (http_request_read(rows[i].bytes, strlen(rows[i].bytes), &request, &status) !=
            HTTP_REQUEST)
            continue;
        for (size_t size = 0; size < request.bytes; size++)
            cr_expect_eq(http_request_read(rows[i].bytes, size, &again, &status), HTTP_MORE,
                         "%s: %zu bytes", rows[i].name, size);
        cr_expect_eq(http_request_read(rows[i].bytes, request.bytes, &again, &status),
                     HTTP_REQUEST, "%s", rows[i].name);
    }
}

Test(http_request, a_head_over_eight_kib_is_refused)
{
    static char bytes[HTTP_HEAD_BYTES_MAX + 64u];
    struct http_request request;
    int status = 0;
    int used = snprintf(bytes, sizeof bytes, "GET / HTTP/1.1\r\n" HOST "X-A: ");
    memset(bytes + used, 'a', sizeof bytes - (size_t)used);

    cr_expect_eq(http_request_read(bytes, HTTP_HEAD_BYTES_MAX - 1u, &request, &status), HTTP_MORE);
    cr_expect_eq(http_request_read(bytes, HTTP_HEAD_BYTES_MAX, &request, &status), HTTP_REFUSED);
    cr_expect_eq(status, 431);

    memcpy(bytes + HTTP_HEAD_BYTES_MAX - 4, "\r\n\r\n", 4);
    cr_expect_eq(http_request_read(bytes, HTTP_HEAD_BYTES_MAX, &request, &status), HTTP_REQUEST);
    memcpy(bytes + HTTP_HEAD_BYTES_MAX - 4, "aaaa", 4);
    memcpy(bytes + HTTP_HEAD_BYTES_MAX - 3, "\r\n\r\n", 4);
    status = 0;
    cr_expect_eq(http_request_read(bytes, HTTP_HEAD_BYTES_MAX + 1u, &request, &status),
                 HTTP_REFUSED);
    cr_expect_eq(status, 431);
}

Test(http_request, more_than_a_hundred_fields_are_refused)
{
    char bytes[4096] = "GET / HTTP/1.1\r\n" HOST;
    struct http_request request;
    int status = 0;
    size_t used = strlen(bytes);
    for (unsigned i = 1; i < HTTP_FIELDS_MAX; i++)
        used += (size_t)snprintf(bytes + used, sizeof bytes - used, "X-%u: 1\r\n", i);

    snprintf(bytes + used, sizeof bytes - used, "\r\n");
    cr_expect_eq(http_request_read(bytes, used + 2u, &request, &status), HTTP_REQUEST);
    snprintf(bytes + used, sizeof bytes - used, "X: 1\r\n\r\n");
    cr_expect_eq(http_request_read(bytes, strlen(bytes), &request, &status), HTTP_REFUSED);
    cr_expect_eq(status, 431);
}

Test(http_request, parameters_are_found_by_their_whole_name)
{
    static const struct {
        const char *query;
        bool has;
    } queries[] = {
        {"verbose", true},   {"verbose=1", true},  {"a=b&verbose", true},
        {"verbose&a", true}, {"", false},          {"verbos", false},
        {"verbose2", false}, {"a=verbose", false}, {"a=b&verbose=", true},
        {"&&", false},
    };
    for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++)
        cr_expect_eq(http_query_has((struct http_text){queries[i].query, strlen(queries[i].query)},
                                    "verbose"),
                     queries[i].has, "%s", queries[i].query);
}
