#include "http_request.h"

#include <string.h>
#include <strings.h>

/* What the fields of one head have told so far. */
struct head {
    int minor; /* of the version */
    bool is_get, is_head, is_put;
    unsigned hosts, lengths;
    size_t body_bytes; /* above HTTP_BODY_BYTES_MAX: too many */
    bool says_close, says_keep_alive;
    struct http_request request;
};

bool http_text_is(struct http_text text, const char *word)
{
    return text.size == strlen(word) && memcmp(text.at, word, text.size) == 0;
}

static bool text_is_like(struct http_text text, const char *word) /* in any case */
{
    return text.size == strlen(word) && strncasecmp(text.at, word, text.size) == 0;
}

static bool is_token_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_token(struct http_text text)
{
    for (size_t i = 0; i < text.size; i++)
        if (!is_token_char(text.at[i]))
            return false;
    return text.size > 0;
}

/* Takes what is before the separator off the front of *rest; false when there is none. */
static bool split(struct http_text *rest, char separator, struct http_text *ret_front)
{
    const char *at = rest->size == 0 ? NULL : memchr(rest->at, separator, rest->size);
    if (at == NULL)
        return false;
    *ret_front = (struct http_text){rest->at, (size_t)(at - rest->at)};
    *rest = (struct http_text){at + 1, rest->size - ret_front->size - 1u};
    return true;
}

static struct http_text trimmed(struct http_text text)
{
    while (text.size > 0 && (text.at[0] == ' ' || text.at[0] == '\t'))
        text = (struct http_text){text.at + 1, text.size - 1u};
    while (text.size > 0 && (text.at[text.size - 1u] == ' ' || text.at[text.size - 1u] == '\t'))
        text.size--;
    return text;
}

/* ---- The request line. Each returns 0, or the status to refuse with. ---- */

static int read_version(struct http_text text, struct head *head)
{
    if (text.size != 8 || memcmp(text.at, "HTTP/", 5) != 0 || text.at[6] != '.' ||
        text.at[5] < '0' || text.at[5] > '9' || text.at[7] < '0' || text.at[7] > '9')
        return 400;
    if (text.at[5] != '1')
        return 505;
    head->minor = text.at[7] - '0';
    return 0;
}

/* "/path?query", or "http://host/path?query" as proxies send it. */
static int read_target(struct http_text target, struct head *head)
{
    static const char scheme[] = "http://";
    for (size_t i = 0; i < target.size; i++)
        if (target.at[i] <= ' ' || target.at[i] > '~')
            return 400;

    if (target.size >= sizeof scheme - 1 &&
        strncasecmp(target.at, scheme, sizeof scheme - 1) == 0) {
        const char *authority = target.at + sizeof scheme - 1, *end = target.at + target.size;
        const char *slash = memchr(authority, '/', (size_t)(end - authority));
        if (slash == NULL || slash == authority)
            return 400;
        target = (struct http_text){slash, (size_t)(end - slash)};
    }
    if (target.size == 0 || target.at[0] != '/')
        return 400;

    struct http_request *request = &head->request;
    request->query = target;
    if (!split(&request->query, '?', &request->path)) {
        request->path = target;
        request->query = (struct http_text){target.at + target.size, 0};
    }
    return 0;
}

static int read_request_line(struct http_text line, struct head *head)
{
    struct http_text method, target;
    if (!split(&line, ' ', &method) || !split(&line, ' ', &target) || !is_token(method))
        return 400;

    int status = read_version(line, head);
    if (status != 0)
        return status;
    head->is_get = http_text_is(method, "GET");
    head->is_head = http_text_is(method, "HEAD");
    head->is_put = http_text_is(method, "PUT");
    if (!head->is_get && !head->is_head && !head->is_put)
        return 0; /* 405, unless something is worse; its target may have another form */
    return read_target(target, head);
}

/* ---- The fields. ---- */

static int read_length(struct http_text value, struct head *head)
{
    for (size_t i = 0; i < value.size; i++) {
        if (value.at[i] < '0' || value.at[i] > '9')
            return 400;
        if (head->body_bytes <= HTTP_BODY_BYTES_MAX)
            head->body_bytes = 10u * head->body_bytes + (size_t)(value.at[i] - '0');
    }
    return value.size == 0 || ++head->lengths > 1 ? 400 : 0;
}

static void read_connection(struct http_text value, struct head *head)
{
    struct http_text option;
    bool is_last;
    do {
        is_last = !split(&value, ',', &option);
        option = trimmed(is_last ? value : option);
        head->says_close |= text_is_like(option, "close");
        head->says_keep_alive |= text_is_like(option, "keep-alive");
    } while (!is_last);
}

static int read_field(struct http_text line, struct head *head)
{
    struct http_text name;
    if (!split(&line, ':', &name) || !is_token(name)) /* also a folded line, or "Name :" */
        return 400;

    struct http_text value = trimmed(line);
    if (text_is_like(name, "host") && ++head->hosts > 1)
        return 400;
    if (text_is_like(name, "transfer-encoding"))
        return 501;
    if (text_is_like(name, "content-length"))
        return read_length(value, head);
    if (text_is_like(name, "connection"))
        read_connection(value, head);
    return 0;
}

/* ---- The head. ---- */

/* The end of the head, behind its empty line; 0 = it is not there. A control character, or a line
 * feed or carriage return alone, is refused as soon as it is seen: it is TLS, or an attempt. */
static size_t head_end(const char *bytes, size_t size, size_t from, int *ret_status)
{
    for (size_t i = from; i < size; i++) {
        unsigned char c = (unsigned char)bytes[i];
        bool is_pair = c == '\n' && i > from && bytes[i - 1u] == '\r';
        if ((c < ' ' && c != '\t' && c != '\r' && !is_pair) || c == 0x7f ||
            (i > from && bytes[i - 1u] == '\r' && c != '\n')) {
            *ret_status = 400;
            return 0;
        }
        if (is_pair && i >= from + 3u && bytes[i - 2u] == '\n')
            return i + 1u;
    }
    return 0;
}

static int read_head(struct http_text lines, struct head *head)
{
    unsigned fields = 0;
    bool is_first = true;
    struct http_text line;

    while (split(&lines, '\n', &line)) {
        line.size--; /* the carriage return: head_end() has seen that it is there */
        if (line.size == 0)
            break;
        if (!is_first && ++fields > HTTP_FIELDS_MAX)
            return 431;
        int status = is_first ? read_request_line(line, head) : read_field(line, head);
        if (status != 0)
            return status;
        is_first = false;
    }
    if (head->minor >= 1 && head->hosts == 0)
        return 400;
    if (head->body_bytes > (head->is_put ? HTTP_BODY_BYTES_MAX : 0u))
        return 413;
    return head->is_get || head->is_head || head->is_put ? 0 : 405;
}

enum http_verdict http_request_read(const char *bytes, size_t size,
                                    struct http_request *ret_request, int *ret_status)
{
    size_t from = 0;
    while (size - from >= 2 && bytes[from] == '\r' && bytes[from + 1u] == '\n')
        from += 2; /* empty lines before a request: some clients end a body with one */

    int status = 0;
    size_t end = head_end(bytes, size, from, &status);
    if (status == 0 && end == 0 && size < HTTP_HEAD_BYTES_MAX)
        return HTTP_MORE;
    if (status == 0 && (end == 0 || end > HTTP_HEAD_BYTES_MAX))
        status = 431;

    struct head head = {0};
    if (status == 0)
        status = read_head((struct http_text){bytes + from, end - from}, &head);
    if (status != 0) {
        *ret_status = status;
        return HTTP_REFUSED;
    }

    if (size - end < head.body_bytes)
        return HTTP_MORE;
    head.request.body = (struct http_text){bytes + end, head.body_bytes};
    head.request.bytes = end + head.body_bytes;
    head.request.is_head = head.is_head;
    head.request.is_put = head.is_put;
    head.request.keeps_alive = !head.says_close && (head.minor >= 1 || head.says_keep_alive);
    *ret_request = head.request;
    return HTTP_REQUEST;
}

bool http_query_has(struct http_text query, const char *name)
{
    struct http_text parameter, key;
    bool is_last;
    do {
        is_last = !split(&query, '&', &parameter);
        if (is_last)
            parameter = query;
        if (http_text_is(split(&parameter, '=', &key) ? key : parameter, name))
            return true;
    } while (!is_last);
    return false;
}

const char *http_status_words(int status)
{
    static const struct {
        int status;
        const char *words;
    } rows[] = {
        {200, "OK"},
        {400, "Bad Request"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {413, "Content Too Large"},
        {431, "Request Header Fields Too Large"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].status == status)
            return rows[i].words;
    return "Unknown";
}
