/* log.h - one line, one event.
 *
 *     2026-11-30T09:48:36.123Z W order.unknown order=7f3a follower=acct-12 next=reconcile
 *
 * A line is formatted on the caller's stack and handed to the kernel in one write(2): no lock, no
 * allocation. Still never on the hot path (a line before the send cost the original system 2 to
 * 3 ms) and never under a lock. Code below the server returns failures and does not log them. */
#ifndef TW_BASE_LOG_H
#define TW_BASE_LOG_H

#include <tradewake/base/status.h>

#include <stdatomic.h>
#include <stdbool.h>

enum tw_log_level { TW_LOG_DEBUG, TW_LOG_INFO, TW_LOG_WARN, TW_LOG_ERROR, TW_LOG_NONE };

/* Lines below `level` are left out. Thread: any, at any time. Default: INFO. */
void tw_log_level_set(enum tw_log_level level);
enum tw_log_level tw_log_level_get(void);

/* "debug", "info", "warn", "error", "none"; false for another word, with *ret untouched. */
bool tw_log_level_parse(const char *word, enum tw_log_level *ret);
const char *tw_log_level_word(enum tw_log_level level); /* static */

/* JSON lines instead of text. Thread: any, at any time. */
void tw_log_json_set(bool is_json);

/* event: a stable name, "order.unknown". format: key=value pairs separated by single spaces, a value
 * with spaces in double quotes. Longer than TW_LOG_LINE_BYTES is cut.
 * Thread: any but workers and leaders.  Blocks: as long as stderr does. */
#define TW_LOG_LINE_BYTES 2048u
void tw_log(enum tw_log_level level, const char *event, const char *format, ...) TW_PRINTF(3, 4);

/* For events that a stranger can cause as often as he likes: zero it once, static. */
#define TW_LOG_PACED_LINES_PER_S 20
struct tw_log_pace {
    atomic_llong second;
    atomic_int lines;
};

/* Whether this second has room for one more line of the event; how many were left out is a line of its own, in the
 * next second that has one. Races between threads cost a line or two. Thread: as tw_log(). */
bool tw_log_paced(struct tw_log_pace *pace, const char *event);

/* The same with another number of lines. */
bool tw_log_paced_at(struct tw_log_pace *pace, const char *event, int lines_per_s);

#endif
