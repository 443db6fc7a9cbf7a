#include <tradewake/base/log.h>

#include <tradewake/base/clock.h>

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static atomic_int level_now = TW_LOG_INFO;
static atomic_bool json_now;

static const char *const level_words[] = {
    [TW_LOG_DEBUG] = "debug", [TW_LOG_INFO] = "info", [TW_LOG_WARN] = "warn",
    [TW_LOG_ERROR] = "error", [TW_LOG_NONE] = "none",
};

void tw_log_level_set(enum tw_log_level level)
{
    atomic_store_explicit(&level_now, (int)level, memory_order_relaxed);
}

enum tw_log_level tw_log_level_get(void)
{
    return (enum tw_log_level)atomic_load_explicit(&level_now, memory_order_relaxed);
}

bool tw_log_level_parse(const char *word, enum tw_log_level *ret)
{
    for (size_t i = 0; i < sizeof level_words / sizeof level_words[0]; i++)
        if (strcmp(word, level_words[i]) == 0) {
            *ret = (enum tw_log_level)i;
            return true;
        }
    return false;
}

const char *tw_log_level_word(enum tw_log_level level)
{
    return level_words[level];
}

void tw_log_json_set(bool is_json)
{
    atomic_store_explicit(&json_now, is_json, memory_order_relaxed);
}

/* Appends text as the inside of a JSON string; what does not fit is cut. */
static size_t json_escape(char *line, size_t used, size_t size, const char *text)
{
    for (const char *at = text; *at != '\0' && used + 7 < size; at++) {
        unsigned char c = (unsigned char)*at;
        if (c == '"' || c == '\\') {
            line[used++] = '\\';
            line[used++] = (char)c;
        } else if (c < 0x20) {
            used += (size_t)snprintf(line + used, size - used, "\\u%04x", c);
        } else {
            line[used++] = (char)c;
        }
    }
    return used;
}

static size_t format_json(char *line, size_t size, const char *time, enum tw_log_level level,
                          const char *event, const char *words)
{
    int length = snprintf(line, size, "{\"time\":\"%s\",\"level\":\"%s\",\"event\":\"%s\",\"message\":\"",
                          time, level_words[level], event);
    size_t used = json_escape(line, (size_t)length, size - 4, words);
    memcpy(line + used, "\"}\n", 3);
    return used + 3;
}

static size_t format_text(char *line, size_t size, const char *time, enum tw_log_level level,
                          const char *event, const char *words)
{
    static const char letters[] = "DIWE";
    int length = snprintf(line, size - 1, "%s %c %s %s", time, letters[level], event, words);
    size_t used = (size_t)length < size - 1 ? (size_t)length : size - 2;
    for (size_t i = 0; i < used; i++)
        if (line[i] == '\n' || line[i] == '\r')
            line[i] = ' '; /* one line, one event */
    line[used] = '\n';
    return used + 1;
}

void tw_log(enum tw_log_level level, const char *event, const char *format, ...)
{
    if (level < tw_log_level_get() || level >= TW_LOG_NONE)
        return;

    char words[TW_LOG_LINE_BYTES - 256], line[TW_LOG_LINE_BYTES], time[TW_TIME_TEXT_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(words, sizeof words, format, values);
    va_end(values);
    tw_time_text(tw_wall_ns(), time);

    size_t length = atomic_load_explicit(&json_now, memory_order_relaxed)
                        ? format_json(line, sizeof line, time, level, event, words)
                        : format_text(line, sizeof line, time, level, event, words);
    ssize_t written = write(STDERR_FILENO, line, length);
    (void)written; /* nobody is left to tell */
}

bool tw_log_paced_at(struct tw_log_pace *pace, const char *event, int lines_per_s)
{
    long long now_s = tw_mono_ns() / TW_NS_PER_S;
    if (atomic_exchange_explicit(&pace->second, now_s, memory_order_relaxed) != now_s) {
        int left_out = atomic_exchange_explicit(&pace->lines, 0, memory_order_relaxed) - lines_per_s;
        if (left_out > 0)
            tw_log(TW_LOG_WARN, event, "lines_left_out=%d", left_out);
    }
    return atomic_fetch_add_explicit(&pace->lines, 1, memory_order_relaxed) < lines_per_s;
}

bool tw_log_paced(struct tw_log_pace *pace, const char *event)
{
    return tw_log_paced_at(pace, event, TW_LOG_PACED_LINES_PER_S);
}
