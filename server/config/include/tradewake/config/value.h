/* value.h - one value as a person writes it: "10s", "off", "127.0.0.1:9464".
 *
 * The same readers serve the configuration file, the environment and every flag of every command,
 * so that a word means the same everywhere. Nothing here knows a setting's name. */
#ifndef TW_CONFIG_VALUE_H
#define TW_CONFIG_VALUE_H

#include <tradewake/base/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tw_value_type {
    TW_VALUE_TEXT,     /* anything of UTF-8 without control characters */
    TW_VALUE_BOOL,     /* true, false, yes, no, on, off */
    TW_VALUE_INT,      /* a whole number from min to max */
    TW_VALUE_DURATION, /* "500us", "20ms", "10s", "1.5s", "2m", "1h", "0"; in nanoseconds, min to
                          max */
    TW_VALUE_SIZE,     /* "4096", "64KiB", "64MiB", "1GiB"; in bytes, min to max */
    TW_VALUE_ADDRESS,  /* "127.0.0.1:50051", "[::1]:50051", "host:50051", "unix:/run/x.sock" */
    TW_VALUE_PATH,     /* TW_VALUE_TEXT; shown as FILE or DIR in help */
    TW_VALUE_ENUM,     /* one of choices; its index */
};

struct tw_value_rule {
    enum tw_value_type type;
    int64_t min, max;    /* INT, DURATION, SIZE; both 0 = no bounds but from 0 up */
    const char *choices; /* ENUM: "debug|info|warn"; ADDRESS: words allowed beside it: "off" */
};

#define TW_VALUE_TEXT_BYTES 512u

/* Reads text by rule. *ret: the number (BOOL 0 or 1, ENUM the index; 0 for texts).
 * Thread: any.  Blocks: no.
 * Fails: TW_INVALID, with `found "...", expected ...` in error; *ret is untouched. */
TW_MUST_CHECK tw_status tw_value_parse(const struct tw_value_rule *rule, const char *text,
                                       int64_t *ret, struct tw_error *error);

/* "a whole number from 1 to 64": what a rule accepts, for help and messages. Returns text. */
char *tw_value_expected(const struct tw_value_rule *rule, char *text, size_t size);

/* The shortest way to write a duration or a size exactly: "1500ms", "64MiB". Returns text. */
char *tw_value_duration_text(int64_t ns, char *text, size_t size);
char *tw_value_size_text(int64_t bytes, char *text, size_t size);

/* The word of `words` that was most likely meant by `word`, or NULL when none is near. */
const char *tw_value_suggest(const char *word, const char *const *words, size_t n_words);

#endif
