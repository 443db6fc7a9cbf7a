/* tradewake_plugin.h - a broker's library behind a small synchronous C interface. ABI 1.0.
 *
 * A plugin is one shared library with one exported function. Copy this file; it needs nothing else of ours.
 *
 *     TWP_EXPORT const struct twp_plugin *tradewake_plugin_v1(uint32_t host_abi);
 *
 * The host (the server, or a process of its own that it starts) then works like this:
 *
 *     check?  session_open  (account | instruments | quotes | positions | orders | execute | lookup | events)*  session_close
 *
 * Rules, in the order of what they cost when they are broken:
 *   1  A mutating call (execute) is sent to the broker at most once. The plugin never repeats one by itself.
 *   2  An outcome that is not certain is TWP_AMBIGUOUS, which is 0: what nobody filled in may have been executed.
 *   3  Each call ends by its deadline_mono_ns (CLOCK_MONOTONIC). At the deadline it answers TWP_AMBIGUOUS; nothing is
 *      sent after it. A call that is still out a second later is lost: the host goes on without it, and never calls
 *      into it, never cancels it, never waits for it.
 *   4  Threads: as declared in twp_caps.thread_model, see there. Which thread calls is the host's choice (but AFFINE).
 *   5  Memory: what the host passes in is valid during the call; what the plugin needs longer, it copies. Nothing is
 *      allocated on one side and freed on the other. Lists are handed over one by one: list->add().
 *   6  The plugin does not call setlocale, sigaction, signal, fork, exit, abort, chdir, umask; it does not change the signal
 *      mask of a thread that is not its own, nor write to the file descriptors 0 to 2, nor let an exception or longjmp pass
 *      this border. The host never unloads it (dlclose), so its threads may live as long as the process.
 *
 * Versions. TWP_ABI is major.minor. Another major is refused. Within a major, fields are only ever appended to structs,
 * functions to twp_api, numbers to the enums; nothing moves. Each struct begins with its size in bytes, set by whoever
 * owns the memory to what that side knows. Read a field that is newer than 1.0 only if TWP_HAS(p, field); write only what
 * size covers. Structs are naturally aligned, without packing, without implicit padding; all text ends with a NUL.
 *
 * Numbers. Prices, volumes and money are integers of 1e-8 (1.2345 is 123450000): volumes in lots as the broker
 * counts them. TWP_UNSET is "not known", in changes "leave as it is"; a stop of 0 is none. Wall clocks are ns since 1970, UTC. */
#ifndef TRADEWAKE_PLUGIN_H
#define TRADEWAKE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TWP_MAGIC     UINT32_C(0x31505754) /* "TWP1" */
#define TWP_ABI_MAJOR 1u
#define TWP_ABI_MINOR 0u
#define TWP_ABI       ((TWP_ABI_MAJOR << 16) | TWP_ABI_MINOR)
#define TWP_ENTRY     "tradewake_plugin_v1"
#define TWP_EXPORT    __attribute__((visibility("default")))

#define TWP_HAS(p, field) ((p)->size >= (uint32_t)((const char *)(&(p)->field + 1) - (const char *)(p)))

#define TWP_UNSET INT64_MIN
typedef int64_t twp_decimal; /* 1e-8 */

/* ---- Outcomes: what every call returns, and what the host may do then ---- */
enum {
    TWP_AMBIGUOUS = 0,    /* it may have been executed: the host asks before anything else */
    TWP_DONE = 1,         /* as asked, in full; of a pending order: it works at the broker. Of a question: answered */
    TWP_ACCEPTED = 2,     /* the broker has it, what becomes of it is not known yet. Of a lookup: it works */
    TWP_PARTIAL = 3,      /* filled_volume of it, the rest of the order is gone */
    TWP_NO_CHANGE = 4,    /* it was so already: a success */
    TWP_RETRY_NOW = 5,    /* certainly not executed: the price moved */
    TWP_RETRY_LATER = 6,  /* certainly not executed: busy, limited, offline */
    TWP_REJECTED = 7,     /* certainly not executed, and the same order never will be */
    TWP_NOT_FOUND = 8,    /* its position or order is gone, for good. Of a lookup: not seen now */
    TWP_UNSUPPORTED = 9,  /* nothing was sent */
    TWP_SESSION_LOST = 10, /* the session is dead. Of execute: AMBIGUOUS, unless TWP_F_NOT_SENT */
    TWP_BY_CODE = 11,     /* what vendor_code means in twp_caps.code_table; a number that is not in it is AMBIGUOUS */
};

enum {
    TWP_F_NOT_SENT = 1 << 0,      /* it never left the plugin. Not together with a success */
    TWP_F_FROM_BROKER = 1 << 1,   /* the broker's own word, not the plugin's */
    TWP_F_STOPS_MISSING = 1 << 2, /* executed, but its stops are not at the broker */
};

/* Why; the numbers of tradewake.v1.Reason. An unknown one is TWP_R_OTHER. */
enum {
    TWP_R_NONE = 0,
    TWP_R_SYMBOL_NOT_FOUND = 5,
    TWP_R_REQUOTE = 60,
    TWP_R_BUSY = 61,
    TWP_R_RATE_LIMITED = 62,
    TWP_R_NO_CONNECTION = 63,
    TWP_R_TIMEOUT = 64,
    TWP_R_INVALID_VOLUME = 65,
    TWP_R_INVALID_PRICE = 66,
    TWP_R_INVALID_STOPS = 67,
    TWP_R_NO_MONEY = 68,
    TWP_R_MARKET_CLOSED = 69,
    TWP_R_TRADE_DISABLED = 70,
    TWP_R_HEDGE_PROHIBITED = 71,
    TWP_R_FIFO = 72,
    TWP_R_INVALID_EXPIRY = 73,
    TWP_R_AUTH = 74,
    TWP_R_OTHER = 79,
};

/* ---- What the library can do: constant, known before any session ---- */

/* How many calls at once. Zero is the most careful one. */
enum {
    TWP_THREADS_GLOBAL = 0,  /* one in the whole library */
    TWP_THREADS_SESSION = 1, /* one per session, sessions side by side: the usual vendor library */
    TWP_THREADS_AFFINE = 2,  /* as SESSION, and always the same thread for a session */
    TWP_THREADS_FREE = 3,    /* any, up to calls_max per session */
};

/* What a client_order_id is worth when an order is to be found again. */
enum {
    TWP_ID_NONE = 0,
    TWP_ID_TAG = 1,     /* in a comment or magic number, searchable; not to be found is no proof */
    TWP_ID_JOURNAL = 2, /* the plugin writes it down, durably, before it calls the broker */
    TWP_ID_BROKER = 3,  /* the broker refuses a second order with the same id, for good */
};

enum {
    TWP_CAN_HEDGING = 1 << 0, /* accounts where a position has an id */
    TWP_CAN_NETTING = 1 << 1, /* accounts with one position per symbol. At least one of the two */
    TWP_CAN_LOOKUP = 1 << 2,  /* lookup finds an order by its client_order_id, a closed one too */
    TWP_CAN_REDUCE_ONLY = 1 << 3, /* a netting close never crosses zero */
};

enum { TWP_CODES_NONE = 0, TWP_CODES_MT4 = 1, TWP_CODES_MT5 = 2 };

struct twp_caps {
    uint32_t size;
    int32_t thread_model;
    uint32_t can;
    int32_t id_strength;
    int32_t code_table;
    uint32_t calls_max;     /* FREE: at once per session; 0 = 32 */
    uint32_t sessions_max;  /* at once for one account, where the vendor allows several; 0 = 1 */
    uint32_t call_timeout_ms; /* a sensible deadline for its calls; 0 = 2000 */
    uint32_t settle_ms;     /* so long after a call's deadline NOT_FOUND proves nothing; 0 = 60000 */
    uint32_t reserved;
};

/* ---- Values ---- */

#define TWP_ID_BYTES     64 /* tickets, as text */
#define TWP_SYMBOL_BYTES 64
#define TWP_CLIENT_BYTES 40 /* client_order_id: at most 20 of [A-Z0-9] */
#define TWP_TEXT_BYTES   128

enum { TWP_NO_SIDE = 0, TWP_BUY = 1, TWP_SELL = 2 };
enum { TWP_MARKET = 1, TWP_LIMIT = 2, TWP_STOP = 3, TWP_STOP_LIMIT = 4 };

enum {
    TWP_OP_OPEN = 0,         /* market: symbol, side, volume, stop_loss, take_profit, price as a hint */
    TWP_OP_CLOSE = 1,        /* position_id (netting: symbol), side of the order; volume UNSET = all there is */
    TWP_OP_MODIFY = 2,       /* position_id (netting: symbol): stop_loss, take_profit */
    TWP_OP_PLACE = 3,        /* type, price, stop_price, volume, stops, expires_wall_ns */
    TWP_OP_MODIFY_ORDER = 4, /* order_id: price, stop_price, stops, expires_wall_ns */
    TWP_OP_CANCEL = 5,       /* order_id */
};

enum { TWP_ORDER_REDUCE_ONLY = 1 << 0 }; /* never cross zero; with nothing to close NOT_FOUND */

struct twp_order {
    uint32_t size;
    int32_t op, side, type;
    uint32_t attempt; /* 0 for the first call of this client_order_id */
    uint32_t flags;
    int64_t deadline_mono_ns;
    int64_t expires_wall_ns; /* 0 = good till cancelled; MODIFY_ORDER: -1 = leave, 0 = remove */
    twp_decimal volume, price, stop_price, stop_loss, take_profit;
    char client_order_id[TWP_CLIENT_BYTES];
    char symbol[TWP_SYMBOL_BYTES];
    char position_id[TWP_ID_BYTES];
    char order_id[TWP_ID_BYTES];
};

/* Zeroed by the host, but for size. */
struct twp_result {
    uint32_t size;
    uint32_t flags;
    int32_t reason;
    int32_t vendor_code;
    twp_decimal filled_volume;    /* by this order, all its executions; 0 = nothing */
    twp_decimal average_price;    /* 0 = unknown */
    twp_decimal remaining_volume; /* of the position, after a CLOSE; set to UNSET by the host = not said */
    int64_t retry_after_ns;       /* 0 = the host's own pace */
    char order_id[TWP_ID_BYTES];
    char position_id[TWP_ID_BYTES];
    char remainder_position_id[TWP_ID_BYTES]; /* the new ticket of what a partial close left, where it is a new one */
    char text[TWP_TEXT_BYTES];    /* for people */
};

struct twp_account {
    uint32_t size;
    int32_t is_netting; /* must be what the host was told: twp_open.is_netting */
    uint32_t leverage;  /* 0 = unknown */
    uint32_t reserved;
    twp_decimal balance, equity, free_margin; /* UNSET = unknown */
    char currency[8];
};

struct twp_instrument {
    uint32_t size, reserved;
    twp_decimal volume_min, volume_step, volume_max; /* above 0 */
    twp_decimal contract_size, tick_size;            /* above 0 */
    twp_decimal min_notional, stops_distance, freeze_distance; /* 0 = none; distances in price */
    char base_currency[8], profit_currency[8]; /* "" = the account's */
    char symbol[TWP_SYMBOL_BYTES];
};

struct twp_quote {
    uint32_t size, reserved;
    twp_decimal bid, ask;
    char symbol[TWP_SYMBOL_BYTES];
};

struct twp_position {
    uint32_t size;
    int32_t side;
    twp_decimal volume, open_price, stop_loss, take_profit; /* stops: 0 = none */
    char position_id[TWP_ID_BYTES];
    char from_position_id[TWP_ID_BYTES]; /* the ticket this is the remainder of; "" = none */
    char symbol[TWP_SYMBOL_BYTES];
    char client_order_id[TWP_CLIENT_BYTES]; /* "" = not ours, or not known */
};

struct twp_pending {
    uint32_t size;
    int32_t side, type;
    uint32_t reserved;
    twp_decimal volume, price, stop_price, stop_loss, take_profit;
    int64_t expires_wall_ns; /* 0 = none */
    char order_id[TWP_ID_BYTES];
    char symbol[TWP_SYMBOL_BYTES];
    char client_order_id[TWP_CLIENT_BYTES];
};

/* What happened at the broker without a call of the host. */
enum {
    TWP_EVENT_POSITION = 1,    /* position: as it is now; volume 0 = it is gone */
    TWP_EVENT_ORDER_GONE = 2,  /* filled (position_id: what it became) or expired ("") */
    TWP_EVENT_MARKET_OPEN = 3, /* what waited for it may try */
};
struct twp_event {
    uint32_t size;
    int32_t kind, reason;
    uint32_t reserved;
    const struct twp_position *position; /* POSITION; as long as add() takes */
    char order_id[TWP_ID_BYTES];         /* ORDER_GONE, with what follows */
    char position_id[TWP_ID_BYTES];
    char client_order_id[TWP_CLIENT_BYTES];
};

struct twp_setting {
    const char *key, *value;
};

/* ---- The host's side ---- */

enum { TWP_LOG_DEBUG = 0, TWP_LOG_INFO = 1, TWP_LOG_WARN = 2, TWP_LOG_ERROR = 3 };

/* Stays as long as the process. Thread: any, also the plugin's own. Blocks: no. */
struct twp_host {
    uint32_t size, abi;
    void *ctx;
    void (*log)(void *ctx, int32_t level, const char *text, size_t length); /* secrets are nobody's business */
    int64_t (*mono_ns)(void *ctx);
};

/* Takes the items of one list, each a struct with its size; the host copies. 0 = go on; else stop, and return TWP_AMBIGUOUS.
 * Thread: the one that was called. */
struct twp_list {
    uint32_t size, reserved;
    void *ctx;
    int32_t (*add)(void *ctx, const void *item);
};

/* Words about a setting that is wrong, or about why a session does not open. */
struct twp_words {
    uint32_t size, reserved;
    char key[64];
    char text[TWP_TEXT_BYTES * 2];
};

struct twp_open {
    uint32_t size;
    int32_t is_netting;
    int64_t deadline_mono_ns;
    const struct twp_host *host;
    const char *account_key; /* the follower: what accounts are told apart by; one may have several sessions */
    const char *credentials_ref;
    const struct twp_setting *settings; /* "secret:NAME" is replaced by what it names; gone after the call */
    uint32_t n_settings, reserved;
};

/* ---- The plugin's side ---- */

struct twp_session; /* the plugin's own */

/* Every function returns an outcome. What may be NULL says so. Thread: by thread_model. */
struct twp_api {
    uint32_t size, reserved;

    /* Are these settings possible? No network. Wrong: TWP_REJECTED, with key and text. A value may be "secret:NAME".
     * NULL: there are no settings. Thread: any, any number. */
    int32_t (*check)(const struct twp_setting *settings, uint32_t n, struct twp_words *words);

    /* Logs in. Not TWP_DONE: words->text; the host tries again, slower and slower. */
    int32_t (*session_open)(const struct twp_open *open, struct twp_session **ret, struct twp_words *words);
    /* No call of the session is in progress. */
    void (*session_close)(struct twp_session *session);

    /* Questions: TWP_DONE is the whole answer, everything else none. TWP_SESSION_LOST: open it anew. */
    int32_t (*account)(struct twp_session *session, int64_t deadline_mono_ns, struct twp_account *ret);
    int32_t (*instruments)(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list);
    /* What is known here, without asking the broker; at once. At first all, then what has changed is enough. NULL: no
     * quotes. */
    int32_t (*quotes)(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list);
    int32_t (*positions)(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list);
    int32_t (*orders)(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list);
    /* What came since the last time; at once. NULL: no events. */
    int32_t (*events)(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list);

    /* Mutates. ret->text and ret->vendor_code wherever there are some. */
    int32_t (*execute)(struct twp_session *session, const struct twp_order *order, struct twp_result *ret);
    /* What became of order->client_order_id? DONE, PARTIAL, ACCEPTED (works), REJECTED, NOT_FOUND, or
     * AMBIGUOUS (could not ask). NULL without TWP_CAN_LOOKUP. */
    int32_t (*lookup)(struct twp_session *session, const struct twp_order *order, struct twp_result *ret);
};

/* Static. sizes: a library built with other alignment or packing is told apart before it is called. */
struct twp_plugin {
    uint32_t size;
    uint32_t magic; /* TWP_MAGIC */
    uint32_t abi;   /* TWP_ABI it was built with */
    uint32_t sizeof_caps, sizeof_order, sizeof_result, sizeof_account, sizeof_instrument, sizeof_quote, sizeof_position,
        sizeof_pending, sizeof_event, sizeof_open, reserved;
    const char *name, *version;
    const struct twp_caps *caps;
    const struct twp_api *api;
};

#define TWP_PLUGIN_SIZES                                                                                            \
    (uint32_t)sizeof(struct twp_plugin), TWP_MAGIC, TWP_ABI, (uint32_t)sizeof(struct twp_caps),                     \
        (uint32_t)sizeof(struct twp_order), (uint32_t)sizeof(struct twp_result), (uint32_t)sizeof(struct twp_account), \
        (uint32_t)sizeof(struct twp_instrument), (uint32_t)sizeof(struct twp_quote),                                \
        (uint32_t)sizeof(struct twp_position), (uint32_t)sizeof(struct twp_pending),                                \
        (uint32_t)sizeof(struct twp_event), (uint32_t)sizeof(struct twp_open), 0

/* The one exported function. It may be called before anything else, starts no thread and touches no network.
 * NULL: this library does not work with that host. */
typedef const struct twp_plugin *twp_entry_fn(uint32_t host_abi);
TWP_EXPORT const struct twp_plugin *tradewake_plugin_v1(uint32_t host_abi);

#ifdef __cplusplus
}
#endif

#endif
