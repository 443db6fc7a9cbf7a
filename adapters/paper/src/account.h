/* account.h - one account at the simulated broker, and the adapter that has them all.
 *
 * An account is there from the first session on, and longer than any session: the broker does not
 * forget a customer because the customer is offline.
 *
 * Locks. paper.accounts_lock guards the table of accounts; account.lock guards everything of one
 * account. The second may be taken while the first is held, not the other way. ledger has its own
 * lock, taken last. Nothing of the host is called under any of them (news.c). */
#ifndef PAPER_ACCOUNT_H
#define PAPER_ACCOUNT_H

#include "book.h"
#include "faults.h"
#include "latency.h"
#include "settings.h"

#include <tradewake/adapters/adapter.h>

#include <pthread.h>
#include <uthash.h>

struct ledger;
struct flight;
struct news;

struct session {
    struct account *account;
    struct tw_session_host host;
    struct tw_capabilities capabilities;
};

struct account {
    /* Set when it is made, read-only afterwards: any thread. */
    struct paper *paper;
    UT_hash_handle hh; /* paper.accounts */
    uint32_t number;   /* in the ledger */
    char follower_id[TW_ID_BYTES];

    /* From the settings of the session; guarded by lock. */
    bool is_netting, remainder_new_ticket;
    uint32_t banned; /* enum banned, bits */
    char password[TW_ID_BYTES]; /* the name of the secret that a connection needs; "" = none */
    int64_t call_timeout_ns;
    uint64_t latency_hash, faults_hash, instruments_hash, quotes_hash;

    /* The broker's, set by settings and Configure; guarded by lock. */
    struct latency latency;
    struct faults faults;
    char *faults_text, *latency_text; /* from the heap; for the ledger */
    bool is_market_closed, strip_comments;
    uint64_t prng;
    struct book book;

    /* The line between us and the broker; guarded by lock. */
    char log_in_failed[TW_BROKER_TEXT_BYTES]; /* why; told by its address */
    bool is_cut; /* by Configure: stays down until it says up */
    bool is_connected;
    uint32_t connection; /* rises whenever it is lost: an answer of another connection is lost */
    int64_t reconnect_mono_ns; /* 0 = not waiting for one */

    /* What the host is to be told; guarded by lock, see news.c. */
    struct session *session; /* NULL = nobody is to be told */
    struct news *news, **news_last;
    bool account_news, is_telling;
    pthread_cond_t told;

    /* Calls that hang wait here; guarded by lock. */
    pthread_cond_t let_go;
    uint32_t faults_set; /* rises when they are set anew: what hangs comes back */

    struct tw_timer timer;     /* set under lock: the next expiry or reconnect */
    int64_t timer_due_mono_ns; /* INT64_MAX = not set */
    bool was_timer_set;

    bool is_settled; /* a session's settings have been taken over once; guarded by lock */

    pthread_mutex_t lock;
};

struct paper {
    /* Set by open, read-only afterwards: any thread. */
    struct tw_reactor *reactor; /* may be NULL: then expiry and reconnect happen at the next call */
    const char *secrets_dir;    /* NULL = there are none */
    struct ledger *ledger;      /* NULL = nothing is kept */

    struct account *accounts; /* by follower_id; guarded by accounts_lock */
    uint32_t n_accounts;
    pthread_mutex_t accounts_lock;

    struct flight *spare_flights; /* the reactor's alone */
};

/* Thread: any. NULL: no such account. */
struct account *account_find(struct paper *paper, const char *follower_id);

/* A new, empty account, in the table. Thread: main.
 * Fails: TW_NO_MEMORY. */
TW_MUST_CHECK tw_status account_make(struct paper *paper, const char *follower_id,
                                     struct account **ret_account);
void account_free(struct account *account);

/* ---- Under the account's lock. ---- */

/* Takes over what the settings say: everything for a new account; for one that is known, what does
 * not contradict its book, and of latency, faults, quotes and instruments what is written
 * differently than last time.
 * Fails: TW_INVALID (another account_mode or currency while it holds something), TW_NO_MEMORY,
 * TW_IO. */
TW_MUST_CHECK tw_status account_settle(struct account *account, struct settings *settings,
                                       struct tw_error *error);

/* Writes an entry to the ledger and applies it, or does neither. entry->line is taken as it is:
 * begin with account_entry().
 * Fails: TW_NO_MEMORY, TW_IO. */
TW_MUST_CHECK tw_status account_commit(struct account *account, const struct entry *entry);
void account_entry(const struct account *account, struct entry *ret);

/* Writes down what Configure and settings set; the ledger's STATE record. */
TW_MUST_CHECK tw_status account_state_keep(struct account *account);
TW_MUST_CHECK tw_status account_quote(struct account *account, const struct quote *quote);
TW_MUST_CHECK tw_status account_instrument(struct account *account,
                                           const struct tw_instrument *instrument);
/* set: the counting of calls begins anew; restore: it goes on (the ledger's way back). */
TW_MUST_CHECK tw_status account_faults_set(struct account *account, const char *text,
                                           struct tw_error *error);
TW_MUST_CHECK tw_status account_faults_restore(struct account *account, const char *text,
                                               struct tw_error *error);
TW_MUST_CHECK tw_status account_latency_set(struct account *account, const char *text,
                                            struct tw_error *error);

/* Loses the connection; it is made again by itself after a moment unless it was cut. */
void account_disconnect(struct account *account, const char *why, bool is_cut);
/* For a session that has just been attached: tells whether the account can be used. */
void account_begin(struct account *account);
void account_connect(struct account *account);

/* Does what is due by now (expiries, a reconnect) and sets the timer for the rest. */
void account_house_keep(struct account *account);

#endif
