/* The commands, one row each. */
#include "command.h"

#define EVENTS    "/tradewake.v1.EventService/"
#define COPIES    "/tradewake.v1.CopyService/"
#define FOLLOWERS "/tradewake.v1.FollowerService/"
#define METRICS   "/tradewake.v1.MetricsService/"
#define TEXT_RULE                                                                                  \
    {                                                                                              \
        .type = TW_VALUE_TEXT                                                                      \
    }
#define DURATION_RULE                                                                              \
    {                                                                                              \
        .type = TW_VALUE_DURATION, .min = 0, .max = INT64_C(31536000000000000)                     \
    }

/* Rows, not code. */
/* clang-format off */

/* ---- Columns ---- */

static const struct column follower_columns[] = {
    {"FOLLOWER", "follower_id", TW_FIELD_PLAIN}, {"MODE", "mode", TW_FIELD_PLAIN},
    {"ADAPTER", "adapter", TW_FIELD_PLAIN}, {"CONNECTED", "connected", TW_FIELD_PLAIN},
    {"PARALLEL", "max_parallel", TW_FIELD_PLAIN}, {"OPEN", "open_positions", TW_FIELD_PLAIN},
    {"BALANCE", "account.balance", TW_FIELD_PLAIN}, {"EQUITY", "account.equity", TW_FIELD_PLAIN},
    {"BLOCKED BY", "blocked_by", TW_FIELD_PLAIN}, {0},
};
static const struct column subscription_columns[] = {
    {"SUBSCRIPTION", "subscription_id", TW_FIELD_PLAIN}, {"MASTER", "master_id", TW_FIELD_PLAIN},
    {"FOLLOWER", "follower_id", TW_FIELD_PLAIN}, {"SIZING", "rules.sizing", TW_FIELD_PLAIN},
    {"MULTIPLIER", "rules.multiplier", TW_FIELD_PLAIN}, {"PENDING", "rules.pending", TW_FIELD_PLAIN}, {0},
};
static const struct column master_columns[] = {
    {"MASTER", "master_id", TW_FIELD_PLAIN}, {"FOLLOWERS", "followers", TW_FIELD_PLAIN},
    {"OPEN", "open_positions", TW_FIELD_PLAIN}, {"HALTED", "halted", TW_FIELD_PLAIN},
    {"LAST EVENT", "last_event_id", TW_FIELD_PLAIN}, {"RECEIVED", "last_received_at", TW_FIELD_TIME}, {0},
};
static const struct column halt_columns[] = {
    {"MASTER", "master_id", TW_FIELD_PLAIN}, {"FOLLOWER", "follower_id", TW_FIELD_PLAIN},
    {"EVERYTHING", "everything", TW_FIELD_PLAIN}, {"SINCE", "since", TW_FIELD_TIME},
    {"BY", "by", TW_FIELD_PLAIN}, {"NOTE", "note", TW_FIELD_PLAIN}, {0},
};
static const struct column copy_columns[] = {
    {"COPY", "copy_id", TW_FIELD_PLAIN}, {"FOLLOWER", "follower_id", TW_FIELD_PLAIN},
    {"ACTION", "action", TW_FIELD_PLAIN}, {"STATE", "state", TW_FIELD_PLAIN},
    {"REASON", "reason", TW_FIELD_PLAIN}, {"POSITION", "master_position_id", TW_FIELD_PLAIN},
    {"SYMBOL", "symbol", TW_FIELD_PLAIN}, {"SIDE", "side", TW_FIELD_PLAIN},
    {"VOLUME", "volume", TW_FIELD_PLAIN}, {"FILLED", "filled_volume", TW_FIELD_PLAIN},
    {"PRICE", "average_price", TW_FIELD_PLAIN}, {"OWN MS", "times.called_ns", TW_FIELD_MS},
    {"RECEIVED", "received_at", TW_FIELD_TIME}, {0},
};

/* ---- Options ---- */

#define EVENT_FIELDS                                                                                \
    {.flag = "--master", .value = "ID", .rule = TEXT_RULE, .is_required = true,                     \
     .field = "event.master_id", .help = "the master whose event it is"},                           \
    {.flag = "--event-id", .value = "ID", .rule = TEXT_RULE, .field = "event.event_id",             \
     .help = "idempotency key; made up when left out"},                                             \
    {.flag = "--sequence", .value = "N", .rule = TEXT_RULE, .field = "event.sequence",              \
     .help = "number of the event at its source"},                                                  \
    {.flag = "--observed-at", .value = "TIME", .rule = TEXT_RULE, .field = "event.observed_at",     \
     .help = "when it happened, RFC 3339; left out: now"},                                          \
    {.flag = "--field", .value = "PATH=VALUE", .rule = TEXT_RULE, .is_repeated = true,              \
     .field = "event.*", .help = "any other field of the event: master_account.balance=1000"}

#define EVENT_OPTIONS                                                                               \
    EVENT_FIELDS,                                                                                   \
    {.flag = "--wait", .value = "HOW", .rule = {.type = TW_VALUE_ENUM, .choices = "done|sent|accepted"}, \
     .default_text = "done", .help = "answer when every copy is that far: done, sent or accepted"},                         \
    {.flag = "--view", .value = "WHICH", .rule = TEXT_RULE, .field = "view",                        \
     .help = "copies to answer with: all, skipped or counts"}

#define EXPLAIN_OPTIONS                                                                             \
    EVENT_FIELDS,                                                                                   \
    {.flag = "--follower", .value = "ID", .rule = TEXT_RULE, .field = "follower_id",                \
     .help = "at this follower; left out: at every one"}

#define REQUIRED(name, what, path, words)                                                           \
    {.flag = name, .value = what, .rule = TEXT_RULE, .is_required = true, .field = path, .help = words}
#define OPTIONAL(name, what, path, words)                                                           \
    {.flag = name, .value = what, .rule = TEXT_RULE, .field = path, .help = words}
#define SWITCH(name, path, words) {.flag = name, .field = path, .help = words}

#define OPEN_FIELDS                                                                                 \
    REQUIRED("--position", "ID", "event.open.position_id", "the master's ticket"),                  \
    REQUIRED("--symbol", "SYMBOL", "event.open.symbol", "as the master calls it"),                  \
    REQUIRED("--side", "SIDE", "event.open.side", "buy or sell"),                                   \
    REQUIRED("--volume", "LOTS", "event.open.volume", "the master's volume"),                       \
    OPTIONAL("--price", "PRICE", "event.open.price", "where the master opened"),                    \
    OPTIONAL("--stop-loss", "PRICE", "event.open.stop_loss", "0 or left out: none"),                \
    OPTIONAL("--take-profit", "PRICE", "event.open.take_profit", "0 or left out: none"),            \
    OPTIONAL("--magic", "N", "event.open.magic", "the master's magic number"),                      \
    OPTIONAL("--comment", "TEXT", "event.open.comment", "the master's comment"),                    \
    OPTIONAL("--contract-size", "N", "event.open.contract_size", "needed by sizing mode CONTRACT"), \
    SWITCH("--increase", "event.open.increase", "adds to a position that is open")
static const struct command_option submit_open_options[] = {OPEN_FIELDS, EVENT_OPTIONS};
static const struct command_option explain_open_options[] = {OPEN_FIELDS, EXPLAIN_OPTIONS};
#define MODIFY_FIELDS                                                                               \
    REQUIRED("--position", "ID", "event.modify.position_id", "the master's ticket"),                \
    OPTIONAL("--stop-loss", "PRICE", "event.modify.stop_loss", "0: remove; left out: as it is"),    \
    OPTIONAL("--take-profit", "PRICE", "event.modify.take_profit", "0: remove; left out: as it is")
static const struct command_option submit_modify_options[] = {MODIFY_FIELDS, EVENT_OPTIONS};
static const struct command_option explain_modify_options[] = {MODIFY_FIELDS, EXPLAIN_OPTIONS};
#define CLOSE_FIELDS                                                                                \
    REQUIRED("--position", "ID", "event.close.position_id", "the master's ticket"),                 \
    OPTIONAL("--volume", "LOTS", "event.close.volume", "left out: all of it"),                      \
    OPTIONAL("--remaining", "LOTS", "event.close.remaining_volume", "what the master holds afterwards"), \
    OPTIONAL("--new-position", "ID", "event.close.new_position_id", "the remainder's ticket (MT4)"), \
    OPTIONAL("--price", "PRICE", "event.close.price", "where the master closed")
static const struct command_option submit_close_options[] = {CLOSE_FIELDS, EVENT_OPTIONS};
static const struct command_option explain_close_options[] = {CLOSE_FIELDS, EXPLAIN_OPTIONS};
#define PLACE_FIELDS                                                                                \
    REQUIRED("--order", "ID", "event.place.order_id", "the master's order"),                        \
    REQUIRED("--symbol", "SYMBOL", "event.place.symbol", "as the master calls it"),                 \
    REQUIRED("--side", "SIDE", "event.place.side", "buy or sell"),                                  \
    REQUIRED("--type", "TYPE", "event.place.type", "limit, stop or stop-limit"),                    \
    REQUIRED("--volume", "LOTS", "event.place.volume", "the master's volume"),                      \
    REQUIRED("--price", "PRICE", "event.place.price", "of the order"),                              \
    OPTIONAL("--stop-price", "PRICE", "event.place.stop_price", "of a stop-limit order"),           \
    OPTIONAL("--stop-loss", "PRICE", "event.place.stop_loss", "0 or left out: none"),               \
    OPTIONAL("--take-profit", "PRICE", "event.place.take_profit", "0 or left out: none"),           \
    OPTIONAL("--expires-at", "TIME", "event.place.expires_at", "RFC 3339"),                         \
    OPTIONAL("--magic", "N", "event.place.magic", "the master's magic number"),                     \
    OPTIONAL("--comment", "TEXT", "event.place.comment", "the master's comment")
static const struct command_option submit_place_options[] = {PLACE_FIELDS, EVENT_OPTIONS};
static const struct command_option explain_place_options[] = {PLACE_FIELDS, EXPLAIN_OPTIONS};
#define MODIFY_ORDER_FIELDS                                                                         \
    REQUIRED("--order", "ID", "event.modify_order.order_id", "the master's order"),                 \
    OPTIONAL("--price", "PRICE", "event.modify_order.price", "left out: as it is"),                 \
    OPTIONAL("--stop-price", "PRICE", "event.modify_order.stop_price", "left out: as it is"),       \
    OPTIONAL("--stop-loss", "PRICE", "event.modify_order.stop_loss", "0: remove; left out: as it is"), \
    OPTIONAL("--take-profit", "PRICE", "event.modify_order.take_profit", "0: remove; left out: as it is"), \
    OPTIONAL("--expires-at", "TIME", "event.modify_order.expires_at", "RFC 3339; left out: as it is")
static const struct command_option submit_modify_order_options[] = {MODIFY_ORDER_FIELDS, EVENT_OPTIONS};
static const struct command_option explain_modify_order_options[] = {MODIFY_ORDER_FIELDS, EXPLAIN_OPTIONS};
#define CANCEL_FIELDS                                                                               \
    REQUIRED("--order", "ID", "event.cancel.order_id", "the master's order")
static const struct command_option submit_cancel_options[] = {CANCEL_FIELDS, EVENT_OPTIONS};
static const struct command_option explain_cancel_options[] = {CANCEL_FIELDS, EXPLAIN_OPTIONS};
#define TRIGGER_FIELDS                                                                              \
    REQUIRED("--order", "ID", "event.trigger.order_id", "the master's order"),                      \
    REQUIRED("--position", "ID", "event.trigger.position_id", "what it became"),                    \
    OPTIONAL("--price", "PRICE", "event.trigger.price", "where it filled"),                         \
    OPTIONAL("--volume", "LOTS", "event.trigger.volume", "left out: all of it")
static const struct command_option submit_trigger_options[] = {TRIGGER_FIELDS, EVENT_OPTIONS};
static const struct command_option explain_trigger_options[] = {TRIGGER_FIELDS, EXPLAIN_OPTIONS};

static const struct command_option sync_options[] = {
    REQUIRED("--master", "ID", "master_id", "whose picture it is"),
    OPTIONAL("--id", "ID", "snapshot_id", "idempotency key; made up when left out"),
    OPTIONAL("--taken-at", "TIME", "taken_at", "when it was taken, RFC 3339; left out: now"),
    OPTIONAL("--sequence", "N", "sequence", "the last event that it contains"),
    {.flag = "--position", .value = "FIELDS", .rule = TEXT_RULE, .is_repeated = true, .field = "positions",
     .help = "position_id=1,symbol=EURUSD,side=buy,volume=0.10: one that the master holds"},
    {.flag = "--order", .value = "FIELDS", .rule = TEXT_RULE, .is_repeated = true, .field = "orders",
     .help = "order_id=7,symbol=EURUSD,side=buy,type=limit,volume=0.10,price=1.05: one that waits"},
    {.flag = "--file", .value = "FILE", .rule = TEXT_RULE, .help = "a snapshot in JSON, fields as in SyncMasterRequest; - is standard input"},
    {.flag = "--empty", .help = "the master holds nothing: needed where neither position nor order is named"},
    SWITCH("--dry-run", "dry_run", "tell what would be done"),
};

static const struct command_option replay_options[] = {
    {.flag = "--master", .value = "ID", .rule = TEXT_RULE, .is_required = true, .help = "whose events they are to be"},
    {.flag = "--speed", .value = "N", .rule = TEXT_RULE, .default_text = "max", .help = "60x: a minute of the file per second; max: as fast as the followers take it"},
    {.flag = "--max-gap", .value = "TIME", .rule = DURATION_RULE, .help = "no pause between events is longer than this"},
    {.flag = "--flood", .help = "a position's next event does not wait until the orders of its last one have been sent: a close then withdraws an open that still waits"},
    {.flag = "--run", .value = "ID", .rule = TEXT_RULE,
     .help = "ids of its own for this run; without it a second replay of the file is all duplicates"},
    {.flag = "--wait", .value = "TIME", .rule = DURATION_RULE, .default_text = "120s",
     .help = "after the last event: so long for copies to end; 0: not at all"},
    {.flag = "--dry-run", .help = "read the file, print its events, send nothing"},
};

static const struct command_option watch_options[] = {
    OPTIONAL("--master", "ID", "filter.master_id", "copies of this master only"),
    OPTIONAL("--follower", "ID", "filter.follower_id", "copies at this follower only"),
    OPTIONAL("--slower-than", "TIME", "filter.min_own_time", "only copies whose own time is at least this"),
    SWITCH("--exclude-warm-up", "filter.exclude_warm_up", "leave out what was sent before the server was warm"),
    SWITCH("--exclude-held", "filter.exclude_held", "leave out what had to wait for its turn"),
    {.flag = "--summary", .help = "percentiles per window instead of every copy"},
    {.flag = "--by", .value = "WHAT", .rule = TEXT_RULE, .help = "with --summary: by threads, master, follower, adapter or burst"},
    {.flag = "--window", .value = "TIME", .rule = DURATION_RULE, .help = "with --summary: how long a window is (default 1s)"},
};

static const struct command_option top_options[] = {
    {.flag = "--interval", .value = "TIME", .rule = {.type = TW_VALUE_DURATION, .min = 100000000, .max = INT64_C(3600000000000)},
     .default_text = "1s", .help = "how long a tick is"},
};

static const struct command_option doctor_options[] = {
    {.flag = "--over", .value = "TIME", .rule = DURATION_RULE, .default_text = "5s", .help = "what happens meanwhile is \"just now\""},
};

static const struct command_option copies_options[] = {
    OPTIONAL("--master", "ID", "filter.master_id", "of this master"),
    OPTIONAL("--follower", "ID", "filter.follower_id", "at this follower"),
    OPTIONAL("--event", "ID", "filter.event_id", "of this event"),
    OPTIONAL("--position", "ID", "filter.master_position_id", "of this position or order of the master"),
    {.flag = "--state", .value = "STATE", .rule = TEXT_RULE, .is_repeated = true, .field = "filter.states", .help = "queued, sent, done, rejected, ..."},
    {.flag = "--reason", .value = "REASON", .rule = TEXT_RULE, .is_repeated = true, .field = "filter.reasons", .help = "too_old, below_min, ..."},
    {.flag = "--action", .value = "ACTION", .rule = TEXT_RULE, .is_repeated = true, .field = "filter.actions", .help = "open, close, ..."},
    OPTIONAL("--from", "TIME", "filter.received_from", "received at or after, RFC 3339"),
    OPTIONAL("--until", "TIME", "filter.received_until", "received before, RFC 3339"),
    {.flag = "--limit", .value = "N", .rule = {.type = TW_VALUE_INT, .max = 1000000000}, .default_text = "100", .help = "at most so many; 0: all"},
    SWITCH("--slowest", "slowest_first", "by own time, instead of newest first; what was not called is left out"),
    {.flag = "--watch", .help = "print changes as they come"},
    {.flag = "--existing", .help = "with --watch: first what there is"},
};

#define FOLLOWER_FIELDS                                                                             \
    OPTIONAL("--adapter", "NAME", "follower.adapter", "paper, plugin:NAME, remote:NAME, fix:NAME"), \
    {.flag = "--set", .value = "KEY=VALUE", .rule = TEXT_RULE, .is_repeated = true,                 \
     .field = "follower.adapter_config", .help = "a setting of the adapter: latency=constant:130ms"}, \
    OPTIONAL("--name", "TEXT", "follower.display_name", "for people"),                              \
    OPTIONAL("--mode", "MODE", "follower.mode", "active, monitor, close-only or paused"),           \
    OPTIONAL("--max-parallel", "N", "follower.max_parallel", "broker calls at once; 0: the adapter's limit"), \
    {.flag = "--map", .value = "FROM=TO", .rule = TEXT_RULE, .is_repeated = true, .field = "follower.symbol_map", \
     .pair = "from_symbol,to_symbol", .help = "a symbol of the master is called so here"},          \
    OPTIONAL("--suffix", "TEXT", "follower.symbol_suffix", "EURUSD is EURUSD.vip here: .vip"),      \
    OPTIONAL("--credentials", "NAME", "follower.credentials_ref", "the name of a secret"),          \
    {.flag = "--field", .value = "PATH=VALUE", .rule = TEXT_RULE, .is_repeated = true,              \
     .field = "follower.*", .help = "any other field: risk.max_order_volume=5"}

static const struct command_option follower_fields[] = {FOLLOWER_FIELDS};
static const struct command_option follower_update_options[] = {
    FOLLOWER_FIELDS,
    OPTIONAL("--etag", "ETAG", "follower.etag", "refuse when somebody else changed it meanwhile"),
};
static const struct command_option followers_list_options[] = {
    OPTIONAL("--master", "ID", "master_id", "only those subscribed to it"),
    SWITCH("--blocked", "blocked", "only those for whom an open would not be sent now"),
};
static const struct command_option on_open_options[] = {
    OPTIONAL("--on-open", "WHAT", "on_open", "what is open: close, leave or follow-out; left out: refuse"),
};

#define RULE_FIELDS                                                                                 \
    {.flag = "--rule", .value = "NAME=VALUE", .rule = TEXT_RULE, .is_repeated = true,               \
     .field = "subscription.rules.*", .help = "multiplier=0.5, sizing=balance, max_volume=1, sides=buy, ..."}, \
    {.flag = "--map", .value = "FROM=TO", .rule = TEXT_RULE, .is_repeated = true,                   \
     .field = "subscription.rules.symbol_map", .pair = "from_symbol,to_symbol",                     \
     .help = "a symbol of the master is called so here"}

static const struct command_option subscription_create_options[] = {
    REQUIRED("--master", "ID", "subscription.master_id", "who is followed"),
    REQUIRED("--follower", "ID", "subscription.follower_id", "who follows"),
    RULE_FIELDS,
};
static const struct command_option subscription_update_options[] = {
    RULE_FIELDS,
    OPTIONAL("--etag", "ETAG", "subscription.etag", "refuse when somebody else changed it meanwhile"),
};
static const struct command_option subscriptions_list_options[] = {
    OPTIONAL("--master", "ID", "master_id", "of this master"),
    OPTIONAL("--follower", "ID", "follower_id", "of this follower"),
};

#define SCOPE_OPTIONS                                                                               \
    OPTIONAL("--follower", "ID", "follower_id", "this follower"),                                   \
    OPTIONAL("--master", "ID", "master_id", "this master; with --follower: this subscription"),     \
    SWITCH("--everything", "everything", "all of it")

static const struct command_option halt_options[] = {
    SCOPE_OPTIONS,
    SWITCH("--close-positions", "close_positions", "also close what was copied, and cancel what was placed"),
    OPTIONAL("--note", "TEXT", "note", "why, for the record"),
};
static const struct command_option resume_options[] = {SCOPE_OPTIONS};
static const struct command_option resolve_options[] = {
    REQUIRED("--state", "STATE", "state", "done, partial, or rejected: it was not executed"),
    OPTIONAL("--position", "ID", "broker_position_id", "what it opened, by the broker's id"),
    OPTIONAL("--filled", "LOTS", "filled_volume", "how much of it; left out: all of it"),
    OPTIONAL("--note", "TEXT", "note", "kept with the copy"),
};

static const struct command_option health_options[] = {
    {.flag = "--service", .value = "NAME", .rule = TEXT_RULE, .field = "service",
     .help = "liveness, readiness or a service's full name; left out: the server"},
    {.flag = "--wait", .value = "TIME", .rule = DURATION_RULE, .help = "ask again for so long until it serves"},
};
static const struct command_option config_show_options[] = {
    {.flag = "--effective", .help = "every setting with its value and where it came from; left out: only what is not a default"},
    {.flag = "--dev", .help = "with the defaults of `tradewake dev`"},
};

static const struct command_option dev_options[] = {
    {.flag = "--dashboard", .help = "a live page in the browser too; its address is printed"},
    {.flag = "--dashboard-listen", .value = "ADDR:PORT", .rule = {.type = TW_VALUE_ADDRESS}, .default_text = "127.0.0.1:8090",
     .help = "where the page is; port 0 takes a free one"},
};

#define REQUIRED_FLAG(name, what, kind, words)                                                       \
    {.flag = name, .value = what, .rule = {.type = kind}, .is_required = true, .help = words}
static const struct command_option token_key_options[] = {
    REQUIRED_FLAG("--private", "FILE", TW_VALUE_PATH, "where the private key goes (PEM, for its owner alone)"),
    REQUIRED_FLAG("--public", "FILE", TW_VALUE_PATH, "where the public key goes (a JWK set)"),
    REQUIRED_FLAG("--key-id", "ID", TW_VALUE_TEXT, "what the key is called (kid), in both"),
};
static const struct command_option token_issue_options[] = {
    REQUIRED_FLAG("--private", "FILE", TW_VALUE_PATH, "the private key that signs it"),
    REQUIRED_FLAG("--key-id", "ID", TW_VALUE_TEXT, "what that key is called (kid)"),
    REQUIRED_FLAG("--subject", "NAME", TW_VALUE_TEXT, "whose token it is: an identity of access.policy (sub)"),
    {.flag = "--audience", .value = "NAME", .rule = TEXT_RULE, .default_text = "tradewake", .help = "for whom (aud)"},
    {.flag = "--lasts", .value = "TIME", .rule = DURATION_RULE, .default_text = "15m", .help = "good for so long (exp)"},
    {.flag = "--certificate", .value = "FILE", .rule = {.type = TW_VALUE_PATH},
     .help = "good only on a connection with this certificate (cnf)"},
};
#define JOURNAL_OPTIONS                                                                             \
    {.flag = "--dir", .value = "DIR", .rule = {.type = TW_VALUE_PATH}, .help = "the journal; left out: the one of --state-dir"}, \
    {.flag = "--state-dir", .value = "DIR", .rule = {.type = TW_VALUE_PATH}, .default_text = "/var/lib/tradewake", \
     .variable = "TRADEWAKE_STATE_DIR", .help = "of the server whose journal it is"}
#define COUNT_RULE {.type = TW_VALUE_INT, .min = 1, .max = INT64_MAX}
static const struct command_option adapter_check_options[] = {
    {.flag = "--address", .value = "ADDR", .rule = {.type = TW_VALUE_ADDRESS}, .is_required = true, .help = "where the bridge listens: unix:PATH, HOST:PORT (plain text)"},
    {.flag = "--account", .value = "KEY", .rule = {.type = TW_VALUE_TEXT}, .default_text = "adapter-check", .help = "an account to try it with, without real money"},
    {.flag = "--credentials", .value = "NAME", .rule = {.type = TW_VALUE_TEXT}, .help = "the name of a secret that the bridge knows"},
    {.flag = "--symbol", .value = "SYMBOL", .rule = {.type = TW_VALUE_TEXT}, .default_text = "EURUSD", .help = "what is opened and closed"},
    {.flag = "--volume", .value = "VOLUME", .rule = {.type = TW_VALUE_TEXT}, .default_text = "0.1", .help = "how much of it"},
    {.flag = "--part", .value = "VOLUME", .rule = {.type = TW_VALUE_TEXT}, .default_text = "0.04", .help = "how much of that is closed first"},
};
static const struct command_option plugin_host_options[] = {
    {.flag = "--plugin", .value = "FILE", .rule = {.type = TW_VALUE_PATH}, .is_required = true, .help = "the vendor's library"},
    {.flag = "--listen", .value = "ADDR", .rule = {.type = TW_VALUE_ADDRESS}, .is_required = true, .help = "unix:PATH, in a folder that nobody else can enter"},
    {.flag = "--name", .value = "NAME", .rule = TEXT_RULE, .help = "in log lines; left out: the file's"},
    {.flag = "--secrets", .value = "DIR", .rule = {.type = TW_VALUE_PATH}, .help = "where secret:NAME is a file"},
    {.flag = "--parent", .value = "PID", .rule = {.type = TW_VALUE_INT, .max = INT32_MAX}, .default_text = "0", .help = "end with this process, which started it; 0: with none"},
    {.flag = "--threads-max", .value = "N", .rule = {.type = TW_VALUE_INT, .max = 1000000}, .default_text = "0", .help = "as executor.threads_max"},
    {.flag = "--threads-lost-max", .value = "N", .rule = {.type = TW_VALUE_INT, .max = 1000000}, .default_text = "0", .help = "with so many calls that do not come back it ends"},
    {.flag = "--leaders", .value = "WORDS", .rule = TEXT_RULE, .default_text = "ordinary", .help = "realtime or ordinary, and pinned, core-dumps"},
    {.flag = "--log-level", .value = "LEVEL", .rule = TEXT_RULE, .default_text = "info", .help = "debug, info, warn, error or none"},
};
static const struct command_option journal_verify_options[] = {JOURNAL_OPTIONS};
static const struct command_option journal_dump_options[] = {
    JOURNAL_OPTIONS,
    {.flag = "--from", .value = "SEQUENCE", .rule = COUNT_RULE, .help = "the first record; left out: the oldest there is"},
    {.flag = "--count", .value = "N", .rule = COUNT_RULE, .help = "at most so many; left out: all"},
};
static const struct command_option journal_tail_options[] = {
    JOURNAL_OPTIONS,
    {.flag = "--count", .value = "N", .rule = COUNT_RULE, .default_text = "10", .help = "so many of the last"},
    {.flag = "--follow", .help = "go on with what is appended"},
    {.flag = "--for", .value = "TIME", .rule = DURATION_RULE, .help = "follow, and end after so long"},
};
static const struct command_option journal_snapshot_options[] = {
    JOURNAL_OPTIONS,
    {.flag = "--until", .value = "SEGMENT", .rule = {.type = TW_VALUE_INT, .min = 1, .max = 99999999}, .is_required = true,
     .help = "as it was at the end of this segment, which must be full"},
    {.flag = "--copies-remembered", .value = "N", .rule = COUNT_RULE, .default_text = "200000", .help = "as the server's setting"},
    {.flag = "--events-remembered", .value = "N", .rule = COUNT_RULE, .default_text = "1000000", .help = "as the server's setting"},
    {.flag = "--events-kept", .value = "TIME", .rule = DURATION_RULE, .default_text = "168h", .help = "as the server's setting"},
};

static const struct command_option audit_options[] = {
    {.flag = "--state-dir", .value = "DIR", .rule = {.type = TW_VALUE_PATH}, .default_text = "/var/lib/tradewake",
     .variable = "TRADEWAKE_STATE_DIR", .help = "of the server"},
    {.flag = "--since", .value = "TIME", .rule = DURATION_RULE, .help = "so long ago at most: 24h; left out: all"},
    {.flag = "--who", .value = "NAME", .rule = TEXT_RULE, .help = "this identity; -: nobody that was known"},
    {.flag = "--method", .value = "NAME", .rule = TEXT_RULE, .help = "Halt, UpdateFollower, ..."},
    {.flag = "--follower", .value = "ID", .rule = TEXT_RULE, .help = "about this follower"},
    {.flag = "--refused", .help = "only what was refused"},
};

/* ---- The table ---- */

#define OPTIONS(array) .options = array, .n_options = COUNT(array)
#define SUBMIT(action, array, words, example)                                                       \
    {.name = "submit " action, .shared = TAKES_CALL, .summary = words, OPTIONS(array),              \
     .examples = example, .run = run_submit, .method = EVENTS "SubmitEvent"}

#define EXPLAIN(action, array, words, example)                                                      \
    {.name = "explain " action, .shared = TAKES_CALL, .summary = words, OPTIONS(array),             \
     .json = "{\"explanations\": [tradewake.v1.Explanation, ...]}",                                          \
     .examples = example, .run = run_explain, .method = EVENTS "ExplainEvent"}

static const struct command table[] = {
    {.name = "dev", .shared = TAKES_SETTINGS, OPTIONS(dev_options), .run = run_dev,
     .summary = "Run a server with a paper broker and a demo fleet: nothing to configure",
     .notes = "Master M1 has 30 followers whose broker answers after about 130 ms.\n"
              "--dashboard needs Node, and the packages of client-examples/dashboard; it says what is missing.",
     .examples = "  tradewake dev\n  tradewake dev --dashboard\n  tradewake dev --listen 127.0.0.1:50052 --admin off"},
    {.name = "serve", .shared = TAKES_SETTINGS, .run = run_serve, .summary = "Run the server",
     .examples = "  tradewake serve --config tradewake.yaml\n  tradewake serve --state-dir ./state\n"
                 "  tradewake serve --listen 0.0.0.0:50051 --tls-certificate server.pem --tls-key server.key"},
    {.name = "check", .shared = TAKES_SETTINGS | TAKES_OUTPUT, .run = run_check,
     .json = "{file, verdict, given, problems: [{level, what}, ...]}",
     .summary = "Check a configuration and say what is wrong where",
     .examples = "  tradewake check --config tradewake.yaml"},
    {.name = "config show", .shared = TAKES_SETTINGS | TAKES_OUTPUT, OPTIONS(config_show_options), .run = run_config_show,
     .json = "{\"settings\": [{name, value, origin}, ...]}",
     .summary = "Print the settings that were given, and where each value came from",
     .examples = "  tradewake config show --effective --config tradewake.yaml"},
    {.name = "config reference", .run = run_config_reference,
     .summary = "Print a configuration file with every setting explained",
     .examples = "  tradewake config reference > tradewake.yaml"},
    {.name = "token key", OPTIONS(token_key_options), .run = run_token_key,
     .summary = "Make a key that signs tokens",
     .examples = "  tradewake token key --private signer.pem --public keys.json --key-id 2026-11"},
    {.name = "token issue", OPTIONS(token_issue_options), .run = run_token_issue,
     .summary = "Sign a token and print it: for development, or for a small installation",
     .examples = "  tradewake token issue --private signer.pem --key-id 2026-11 --subject web-backend --lasts 12h > token"},

    SUBMIT("open", submit_open_options, "Send that a master opened a position",
           "  tradewake submit open --master M1 --position 1 --symbol EURUSD --side buy --volume 0.10"),
    SUBMIT("close", submit_close_options, "Send that a master closed a position, or part of it",
           "  tradewake submit close --master M1 --position 1\n"
           "  tradewake submit close --master M1 --position 1 --volume 0.04 --remaining 0.06"),
    SUBMIT("modify", submit_modify_options, "Send that a master moved a position's stops",
           "  tradewake submit modify --master M1 --position 1 --stop-loss 1.0950 --take-profit 0"),
    SUBMIT("place", submit_place_options, "Send that a master placed a pending order",
           "  tradewake submit place --master M1 --order 7 --symbol EURUSD --side buy --type limit --volume 0.10 --price 1.05"),
    SUBMIT("modify-order", submit_modify_order_options, "Send that a master changed a pending order",
           "  tradewake submit modify-order --master M1 --order 7 --price 1.06"),
    SUBMIT("cancel", submit_cancel_options, "Send that a master cancelled a pending order",
           "  tradewake submit cancel --master M1 --order 7"),
    SUBMIT("trigger", submit_trigger_options, "Send that a master's pending order filled",
           "  tradewake submit trigger --master M1 --order 7 --position 8"),
    EXPLAIN("open", explain_open_options, "Show what an open would lead to, rule by rule; nothing is sent",
            "  tradewake explain open --master M1 --position 1 --symbol EURUSD --side buy --volume 0.10 --follower F1"),
    EXPLAIN("close", explain_close_options, "Show what a close, or a part of one, would lead to; nothing is sent",
            "  tradewake explain close --master M1 --position 1 --remaining 0.06"),
    EXPLAIN("modify", explain_modify_options, "Show what moved stops would lead to; nothing is sent",
            "  tradewake explain modify --master M1 --position 1 --stop-loss 1.0950 --follower F1"),
    EXPLAIN("place", explain_place_options, "Show what a pending order would lead to; nothing is sent",
            "  tradewake explain place --master M1 --order 7 --symbol EURUSD --side buy --type limit --volume 0.10 --price 1.05"),
    EXPLAIN("modify-order", explain_modify_order_options, "Show what changing a pending order would lead to; nothing is sent",
            "  tradewake explain modify-order --master M1 --order 7 --price 1.06"),
    EXPLAIN("cancel", explain_cancel_options, "Show what cancelling a pending order would lead to; nothing is sent",
            "  tradewake explain cancel --master M1 --order 7"),
    EXPLAIN("trigger", explain_trigger_options, "Show what a pending order that filled would lead to; nothing is sent",
            "  tradewake explain trigger --master M1 --order 7 --position 8"),
    {.name = "sync", .shared = TAKES_CALL, OPTIONS(sync_options), .run = run_sync, .method = EVENTS "SyncMaster",
     .summary = "Tell all that a master holds: what is missing at followers is sent",
     .notes = "Positions that are not named are closed. A file is JSON with the fields of SyncMasterRequest.",
     .examples = "  tradewake sync --master M1 --position position_id=1,symbol=EURUSD,side=buy,volume=0.10 --dry-run\n"
                 "  tradewake sync --master M1 --file snapshot.json\n"
                 "  tradewake sync --master M1 --empty"},
    {.name = "replay", .operands = "FILE", .n_operands_min = 1, .n_operands_max = 1, .shared = TAKES_CALL,
     OPTIONS(replay_options), .run = run_replay, .json = "{file, format, events, answered, accepted, skipped, ..., copies: [{state, reason, count}, ...]}; --dry-run: a tradewake.v1.TradeEvent a line",
     .summary = "Send a file of past trades as a master's events",
     .notes = "Reads the MQL5 history and positions exports (CSV) and the MT4 Detailed Statement (HTML),\n"
              "told apart by their content. Against `tradewake dev` it makes the file's symbols known to the\n"
              "demo accounts, and subscribes them to the master when nobody follows it yet.",
     .examples = "  tradewake replay statement.htm --master M1 --speed max\n"
                 "  tradewake replay history.csv --master M2 --speed 60x --max-gap 2s"},

    {.name = "watch", .shared = TAKES_CALL | TAKES_STREAM, OPTIONS(watch_options), .run = run_watch,
     .json = "a tradewake.v1.OwnTimeSample a line, {\"dropped\": tradewake.v1.Dropped} where this reader was too slow; --summary: a tradewake.v1.OwnTimeSummary a line",
     .summary = "Watch every copy's own time as it is measured",
     .examples = "  tradewake watch\n  tradewake watch --summary --by threads --window 5s\n  tradewake watch --count 810 -o json"},
    {.name = "copies", .shared = TAKES_CALL | TAKES_STREAM, OPTIONS(copies_options), .run = run_copies,
     .method = COPIES "ListCopies", .columns = copy_columns, .json = "{\"copies\": [tradewake.v1.Copy, ...]}; --watch: a tradewake.v1.Copy a line",
     .summary = "List what became of events at followers, newest first",
     .examples = "  tradewake copies --master M1 --state rejected --state unknown\n  tradewake copies --slowest --limit 10\n  tradewake copies --watch"},
    {.name = "copies get", .operands = "COPY_ID", .n_operands_min = 1, .n_operands_max = 1, .shared = TAKES_CALL,
     .operand_fields = {"copy_id"}, .run = run_call, .method = COPIES "GetCopy", .summary = "Show one copy in full",
     .examples = "  tradewake copies get T1ABCDEFGHIJKLMNOPQR"},
    {.name = "copies resolve", .operands = "COPY_ID", .n_operands_min = 1, .n_operands_max = 1, .shared = TAKES_CALL,
     OPTIONS(resolve_options), .operand_fields = {"copy_id"}, .run = run_call, .method = COPIES "ResolveCopy",
     .summary = "Say what became of a copy that is UNKNOWN, when its broker cannot be asked",
     .examples = "  tradewake copies resolve T1ABCDEFGHIJKLMNOPQR --state done --position 4711 --note \"seen in the terminal\"\n"
                 "  tradewake copies resolve T1ABCDEFGHIJKLMNOPQR --state rejected"},
    {.name = "masters", .shared = TAKES_CALL, .run = run_list, .method = EVENTS "ListMasters",
     .columns = master_columns, .summary = "List the masters and who listens",
     .examples = "  tradewake masters\n  tradewake masters -o json"},

    {.name = "followers", .shared = TAKES_CALL, OPTIONS(followers_list_options), .run = run_list,
     .method = FOLLOWERS "ListFollowers", .columns = follower_columns, .summary = "List the followers",
     .examples = "  tradewake followers --blocked"},
    {.name = "followers list", .shared = TAKES_CALL, OPTIONS(followers_list_options), .run = run_list,
     .method = FOLLOWERS "ListFollowers", .columns = follower_columns, .summary = "List the followers",
     .examples = "  tradewake followers list --master M1"},
    {.name = "followers get", .operands = "FOLLOWER_ID", .n_operands_min = 1, .n_operands_max = 1, .shared = TAKES_CALL,
     .operand_fields = {"follower_id"}, .run = run_call, .method = FOLLOWERS "GetFollower", .summary = "Show one follower in full",
     .examples = "  tradewake followers get F1"},
    {.name = "followers create", .operands = "FOLLOWER_ID", .n_operands_min = 1, .n_operands_max = 1, .shared = TAKES_CALL,
     OPTIONS(follower_fields), .operand_fields = {"follower.follower_id"}, .run = run_call,
     .method = FOLLOWERS "CreateFollower", .summary = "Add a follower",
     .examples = "  tradewake followers create F1 --adapter paper --set latency=constant:130ms --max-parallel 4"},
    {.name = "followers update", .operands = "FOLLOWER_ID", .n_operands_min = 1, .n_operands_max = 1, .shared = TAKES_CALL,
     OPTIONS(follower_update_options), .operand_fields = {"follower.follower_id"}, .mask_root = "follower", .run = run_call,
     .method = FOLLOWERS "UpdateFollower", .summary = "Change what the flags name; maps and lists as a whole",
     .examples = "  tradewake followers update F1 --mode close-only\n  tradewake followers update F1 --field risk.max_order_volume=5"},
    {.name = "followers mode", .operands = "FOLLOWER_ID MODE", .n_operands_min = 2, .n_operands_max = 2, .shared = TAKES_CALL,
     .operand_fields = {"follower.follower_id", "follower.mode"}, .run = run_followers_mode,
     .method = FOLLOWERS "UpdateFollower", .summary = "Set a follower's mode: active, monitor, close-only or paused",
     .examples = "  tradewake followers mode F1 paused"},
    {.name = "followers rearm", .operands = "FOLLOWER_ID", .n_operands_min = 1, .n_operands_max = 1, .shared = TAKES_CALL,
     .operand_fields = {"follower_id"}, .run = run_call, .method = FOLLOWERS "RearmGate",
     .summary = "Arm the last gate again that has stopped a follower's opens",
     .examples = "  tradewake followers rearm F1"},
    {.name = "followers compare", .operands = "FOLLOWER_ID", .n_operands_min = 1, .n_operands_max = 1, .shared = TAKES_CALL,
     .operand_fields = {"follower_id"}, .run = run_call, .method = COPIES "CompareFollower",
     .summary = "Compare what we believe a follower holds with what its broker says",
     .examples = "  tradewake followers compare F1"},
    {.name = "followers reset-stop-out", .operands = "FOLLOWER_ID", .n_operands_min = 1, .n_operands_max = 1, .shared = TAKES_CALL,
     .operand_fields = {"follower_id"}, .run = run_call, .method = FOLLOWERS "ResetStopOut",
     .summary = "Let a follower open positions again that a loss limit has stopped; its period begins anew",
     .examples = "  tradewake followers reset-stop-out F1"},
    {.name = "followers delete", .operands = "FOLLOWER_ID", .n_operands_min = 1, .n_operands_max = 1, .shared = TAKES_CALL,
     OPTIONS(on_open_options), .operand_fields = {"follower_id"}, .run = run_call, .method = FOLLOWERS "DeleteFollower",
     .summary = "Remove a follower", .examples = "  tradewake followers delete F1 --on-open close"},

    {.name = "subscriptions", .shared = TAKES_CALL, OPTIONS(subscriptions_list_options), .run = run_list,
     .method = FOLLOWERS "ListSubscriptions", .columns = subscription_columns, .summary = "List who follows whom",
     .examples = "  tradewake subscriptions --master M1"},
    {.name = "subscriptions list", .shared = TAKES_CALL, OPTIONS(subscriptions_list_options), .run = run_list,
     .method = FOLLOWERS "ListSubscriptions", .columns = subscription_columns, .summary = "List who follows whom",
     .examples = "  tradewake subscriptions list --follower F1 -o json"},
    {.name = "subscriptions get", .operands = "SUBSCRIPTION_ID", .n_operands_min = 1, .n_operands_max = 1, .shared = TAKES_CALL,
     .operand_fields = {"subscription_id"}, .run = run_call, .method = FOLLOWERS "GetSubscription", .summary = "Show one subscription with its rules",
     .examples = "  tradewake subscriptions get S1"},
    {.name = "subscriptions create", .shared = TAKES_CALL, OPTIONS(subscription_create_options), .run = run_call,
     .method = FOLLOWERS "CreateSubscription", .summary = "Let a follower follow a master",
     .examples = "  tradewake subscriptions create --master M1 --follower F1 --rule multiplier=0.5 --rule force_min=true"},
    {.name = "subscriptions update", .operands = "SUBSCRIPTION_ID", .n_operands_min = 1, .n_operands_max = 1, .shared = TAKES_CALL,
     OPTIONS(subscription_update_options), .operand_fields = {"subscription.subscription_id"}, .mask_root = "subscription",
     .run = run_call, .method = FOLLOWERS "UpdateSubscription", .summary = "Change the rules that the flags name",
     .examples = "  tradewake subscriptions update S1 --rule multiplier=2"},
    {.name = "subscriptions delete", .operands = "SUBSCRIPTION_ID", .n_operands_min = 1, .n_operands_max = 1, .shared = TAKES_CALL,
     OPTIONS(on_open_options), .operand_fields = {"subscription_id"}, .run = run_call, .method = FOLLOWERS "DeleteSubscription",
     .summary = "Let a follower follow a master no more",
     .examples = "  tradewake subscriptions delete S1 --on-open follow-out"},

    {.name = "halt", .shared = TAKES_CALL, OPTIONS(halt_options), .run = run_call, .method = FOLLOWERS "Halt",
     .summary = "Stop opening positions, at once; closes go on",
     .examples = "  tradewake halt --everything --note \"broker trouble\"\n  tradewake halt --follower F1 --close-positions"},
    {.name = "resume", .shared = TAKES_CALL, OPTIONS(resume_options), .run = run_call, .method = FOLLOWERS "Resume",
     .summary = "Lift a halt: exactly the scope that it named", .examples = "  tradewake resume --everything"},
    {.name = "halts", .shared = TAKES_CALL, .run = run_list, .method = FOLLOWERS "ListHalts", .columns = halt_columns,
     .summary = "List the halts in force", .examples = "  tradewake halts"},

    {.name = "executor", .shared = TAKES_CALL, .run = run_call, .method = METRICS "GetExecutorStatus",
     .summary = "Show the threads that are ready, and what they do", .examples = "  tradewake executor\n  tradewake executor -o json"},
    {.name = "top", .shared = TAKES_CALL | TAKES_STREAM, OPTIONS(top_options), .run = run_top,
     .json = "a line a tick: {at_ms, state, own_time: {count, p50_ns, p95_ns, p99_ns, max_ns}, path_time, queue_wait, broker_time, held, ...}; {at_ms, state, trouble} while nobody answers",
     .summary = "Show what the server does, live: times, executor, followers",
     .notes = "On a terminal: q ends it, p holds it. Elsewhere, and with -o json: one line of JSON a tick.",
     .examples = "  tradewake top\n  tradewake top --interval 5s\n  tradewake top --count 10 > ticks.jsonl"},
    {.name = "doctor", .shared = TAKES_CALL, OPTIONS(doctor_options), .run = run_doctor,
     .json = "{\"worst\": level, \"findings\": [{level, name, what, advice}, ...]}",
     .summary = "Say what is slow or wrong and what to do about it, in plain words",
     .notes = "Exit code by the worst finding: 0 none or notes, 4 a warning, 1 a problem.",
     .examples = "  tradewake doctor\n  tradewake doctor --over 30s -o json"},
    {.name = "health", .shared = TAKES_CALL, OPTIONS(health_options), .run = run_health,
     .method = "/grpc.health.v1.Health/Check", .summary = "Ask whether the server serves; exit code 0 when it does",
     .examples = "  tradewake health\n  tradewake health --service readiness --wait 30s"},
    {.name = "journal verify", .shared = TAKES_OUTPUT, OPTIONS(journal_verify_options), .run = run_journal,
     .json = "a line a segment {segment, first, last, bytes}, a line a snapshot {snapshot, sequence, verdict}, and {records, segments, first, last, verdict} last",
     .summary = "Read a journal and say whether it is whole; exit code 1 when it is damaged",
     .notes = "Changes nothing, and may run beside the server.",
     .examples = "  tradewake journal verify --state-dir ./state"},
    {.name = "journal dump", .shared = TAKES_OUTPUT, OPTIONS(journal_dump_options), .run = run_journal,
     .json = "a record a line: {segment, offset, sequence, durable, type, size, content}",
     .summary = "Print a journal's records, oldest first",
     .examples = "  tradewake journal dump --state-dir ./state --from 1000 --count 20 -o json"},
    {.name = "journal tail", .shared = TAKES_OUTPUT, OPTIONS(journal_tail_options), .run = run_journal,
     .json = "a record a line: {segment, offset, sequence, durable, type, size, content}",
     .summary = "Print a journal's last records, and those to come",
     .examples = "  tradewake journal tail --state-dir ./state --follow\n  tradewake journal tail --count 100 --for 10s -o json"},
    {.name = "journal snapshot", OPTIONS(journal_snapshot_options), .run = run_journal,
     .summary = "Write what a journal comes to at the end of a segment, as the server does by itself",
     .examples = "  tradewake journal snapshot --state-dir ./state --until 12"},
    {.name = "fix log", .operands = "FILE", .n_operands_min = 1, .n_operands_max = 1, .shared = TAKES_OUTPUT, .run = run_fix_log,
     .json = "an entry a line: {at, kind, type, message, next_out, next_in}",
     .summary = "Print what a FIX session said and heard, oldest first; passwords are not in its file",
     .notes = "Reads the file of a session under STATE_DIR/fix, and may run beside the server that writes it.",
     .examples = "  tradewake fix log state/fix/venue.fix\n  tradewake fix log state/fix/venue.fix.old -o json"},
    {.name = "audit", .shared = TAKES_OUTPUT, OPTIONS(audit_options), .run = run_audit,
     .json = "a change a line: {at, who, method, master_id, follower_id, object_id, result, why, peer, left_out, request, before, after}",
     .summary = "Tell who changed what and when, and who was refused, oldest first",
     .notes = "Reads the files of a server, and may run beside it.",
     .examples = "  tradewake audit --state-dir ./state --since 24h\n  tradewake audit --who operations --method Halt -o json"},
    {.name = "completion", .operands = "SHELL", .n_operands_min = 1, .n_operands_max = 1, .run = run_completion,
     .summary = "Print what bash, zsh or fish needs to complete commands and flags",
     .examples = "  source <(tradewake completion bash)\n  tradewake completion bash > /etc/bash_completion.d/tradewake\n"
                 "  source <(tradewake completion zsh)\n  tradewake completion fish | source"},
    {.name = "adapter-check", OPTIONS(adapter_check_options), .run = run_adapter_check,
     .summary = "Try out what a bridge to a broker promises, line by line; exit code 1 when something does not hold",
     .notes = "Opens and closes positions at the account: not for one with real money.",
     .examples = "  tradewake adapter-check --address unix:/run/bridge.sock --account demo-7"},
    {.name = "plugin-host", OPTIONS(plugin_host_options), .run = run_plugin_host,
     .summary = "Serve a vendor's library to the server over a unix socket, in a process of its own",
     .notes = "The server starts it by itself for each of its plugins; by hand it is for trying a library out.",
     .examples = "  tradewake plugin-host --plugin /opt/broker.so --listen unix:/run/user/0/broker.sock"},
    {.name = "version", .shared = TAKES_OUTPUT, .run = run_version, .json = "{version, contract, protobuf_c, compiler}",
     .summary = "Print the version",
     .examples = "  tradewake version\n  tradewake version -o json"},
};

/* clang-format on */

const struct command *commands_table(size_t *ret_n)
{
    *ret_n = COUNT(table);
    return table;
}
