/* http_request.h - the head of an HTTP/1.x request, as a pure function of its bytes.
 *
 * What the admin port needs and no more: GET and HEAD without a body, PUT with a word in it, strict about everything
 * by which two readers of the same bytes could come to differ (RFC 9112). */
#ifndef TELEMETRY_HTTP_REQUEST_H
#define TELEMETRY_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_HEAD_BYTES_MAX 8192u /* what kubelets, browsers and Prometheus send is below 1 KiB */
#define HTTP_FIELDS_MAX     100u
#define HTTP_BODY_BYTES_MAX 64u /* of a PUT: one word */

struct http_text { /* points into the bytes that were read */
    const char *at;
    size_t size;
};

struct http_request {
    struct http_text path;  /* "/readyz"; as sent, not decoded */
    struct http_text query; /* "verbose"; without the question mark */
    struct http_text body;  /* of a PUT; empty with the others */
    size_t bytes;           /* of this request, head and body; the next one begins behind them */
    bool is_head;           /* HEAD: the answer has no body */
    bool is_put;
    bool keeps_alive;       /* the client may send another one */
};

enum http_verdict {
    HTTP_MORE,    /* so far it may become a request; nothing was set */
    HTTP_REQUEST, /* *ret_request is set */
    HTTP_REFUSED, /* *ret_status is set: 400, 405, 413, 431, 501, 505; close the connection */
};

/* Reads one request at the beginning of the bytes. Thread: any. */
enum http_verdict http_request_read(const char *bytes, size_t size,
                                    struct http_request *ret_request, int *ret_status);

bool http_text_is(struct http_text text, const char *word);

/* Whether the query has this parameter, with or without a value. */
bool http_query_has(struct http_text query, const char *name);

/* "Not Found"; static. */
const char *http_status_words(int status);

#endif
