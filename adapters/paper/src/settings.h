/* settings.h - adapter_config of a paper account, read and checked. Pure. */
#ifndef PAPER_SETTINGS_H
#define PAPER_SETTINGS_H

#include "faults.h"
#include "instruments.h"
#include "latency.h"

#include <tradewake/adapters/adapter.h>

#define SETTING_KEY_BYTES 65u

/* What the broker does not let an account do: bits. */
enum banned {
    BANNED_LOGIN = 1,     /* orders are answered as to an account that may not log in */
    BANNED_TRADING = 2,
    BANNED_OPENING = 4,   /* closing only */
    BANNED_HEDGING = 8,   /* two sides of one symbol */
    BANNED_OUT_OF_FIFO = 16, /* closing a position while an older one of its symbol and side is there */
};

struct settings {
    uint32_t banned;
    bool is_netting, nonblocking, remainder_new_ticket, has_seed;
    uint64_t seed;
    tw_decimal balance;
    char currency[8];
    uint32_t leverage; /* 0 = margin is not checked */
    int64_t call_timeout_ns, settle_ns;
    const char *password; /* the name of a secret, points into the options; "" = none is needed */
    struct latency latency;
    struct faults faults;
    struct instruments instruments;
    struct quote *quotes;
    size_t n_quotes;

    /* What Configure can change is taken from here only when the text is another one than last
     * time: the broker's state outlives the server. */
    uint64_t latency_hash, faults_hash, instruments_hash, quotes_hash;
    const char *faults_text, *latency_text; /* point into the options */
};

/* Reads every key; what is not named has its default. *ret is cleared by settings_clear(), also
 * after a failure.
 * Fails: TW_INVALID with the key in ret_key and words in error; TW_NO_MEMORY. Thread: any. */
TW_MUST_CHECK tw_status settings_read(const struct tw_session_options *options,
                                      struct settings *ret, char ret_key[SETTING_KEY_BYTES],
                                      struct tw_error *error);
void settings_clear(struct settings *settings);

#endif
