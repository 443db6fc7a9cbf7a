/* status.h - one way to fail.
 *
 * A function that can fail returns a tw_status. The words for a human, where the cause is known, go
 * into an optional struct tw_error, always the last parameter. What we know of an order at a broker
 * is not a status but an outcome (adapters/adapter.h). */
#ifndef TW_BASE_STATUS_H
#define TW_BASE_STATUS_H

#define TW_STATUS_MAP(X)                                                                            \
    X(OK, 0, "ok")                                                                                  \
    X(INVALID, 1, "the input breaks a documented rule")                                             \
    X(BUSY, 2, "a bounded queue is full; nothing was changed")                                      \
    X(STOPPED, 3, "the component is shutting down")                                                 \
    X(CANCELLED, 4, "withdrawn before it began")                                                    \
    X(NOT_FOUND, 5, "there is no such thing")                                                       \
    X(EXISTS, 6, "it is there already")                                                             \
    X(LIMIT, 7, "a configured limit does not allow it")                                             \
    X(NO_MEMORY, 8, "the system has no memory to give")                                             \
    X(IO, 9, "the system refused to read or write")                                                 \
    X(UNREACHABLE, 10, "the other side does not answer")                                            \
    X(TIMEOUT, 11, "the deadline passed first")                                                     \
    X(REFUSED, 12, "the other side said no")                                                        \
    X(UNSUPPORTED, 13, "this one cannot do that")                                                   \
    X(ENDED, 14, "the stream is over")

typedef enum tw_status {
#define TW_STATUS_ENUM(name, number, words) TW_##name = number,
    TW_STATUS_MAP(TW_STATUS_ENUM)
#undef TW_STATUS_ENUM
} tw_status;

#define TW_MUST_CHECK __attribute__((warn_unused_result))
#define TW_PRINTF(at, first) __attribute__((format(printf, at, first)))

#define TW_ERROR_TEXT_BYTES 512u

/* Words for people about one failure. Caller's memory; {0} means no words. */
struct tw_error {
    char text[TW_ERROR_TEXT_BYTES];
};

/* Puts words into *error (NULL: none wanted) and returns `status`, so that failing is one line.
 * Thread: any.  Blocks: no. */
tw_status tw_error_set(struct tw_error *error, tw_status status, const char *format, ...)
    TW_PRINTF(3, 4);

/* The sentence of TW_STATUS_MAP; static. Thread: any. */
const char *tw_status_words(tw_status status);

#endif
