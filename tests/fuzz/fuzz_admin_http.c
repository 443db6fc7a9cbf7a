/* fuzz_admin_http.c
 * Targets:  http_request_read, http_query_has (what any program may send to the admin port)
 * Property: a request lies within the bytes, needs all of its own and none behind them, and its
 * path and query are printable; what is refused has a status we have words for. */
#include "http_request.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void require_printable(struct http_text text, const char *begin, const char *end)
{
    require(text.at >= begin && text.at + text.size <= end);
    for (size_t i = 0; i < text.size; i++)
        require(text.at[i] > ' ' && text.at[i] <= '~');
}

static void require_same(const struct http_request *a, const struct http_request *b)
{
    require(a->bytes == b->bytes && a->is_head == b->is_head && a->is_put == b->is_put &&
            a->keeps_alive == b->keeps_alive);
    require(a->body.size == b->body.size && a->body.at == b->body.at);
    require(a->path.size == b->path.size && memcmp(a->path.at, b->path.at, a->path.size) == 0);
    require(a->query.size == b->query.size && memcmp(a->query.at, b->query.at, a->query.size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A copy of exactly that size, so that a byte read too far is seen. */
    char *bytes = malloc(size > 0 ? size : 1);
    struct http_request request, again;
    int status = 0;
    if (bytes == NULL)
        return 0;
    memcpy(bytes, data, size);

    switch (http_request_read(bytes, size, &request, &status)) {
    case HTTP_MORE:
        require(size < HTTP_HEAD_BYTES_MAX + HTTP_BODY_BYTES_MAX);
        break;
    case HTTP_REFUSED:
        require(status >= 400 && strcmp(http_status_words(status), "Unknown") != 0);
        break;
    case HTTP_REQUEST:
        require(request.bytes > 0 && request.bytes <= size);
        require(request.bytes <= HTTP_HEAD_BYTES_MAX + HTTP_BODY_BYTES_MAX);
        require(request.body.size <= (request.is_put ? HTTP_BODY_BYTES_MAX : 0u));
        require(request.body.at + request.body.size == bytes + request.bytes);
        require_printable(request.path, bytes, request.body.at);
        require_printable(request.query, bytes, request.body.at);
        require(request.path.size > 0 && request.path.at[0] == '/');
        (void)http_query_has(request.query, "verbose");
        require(http_request_read(bytes, request.bytes - 1, &again, &status) == HTTP_MORE);
        require(http_request_read(bytes, request.bytes, &again, &status) == HTTP_REQUEST);
        require_same(&request, &again);
        break;
    }
    free(bytes);
    return 0;
}
