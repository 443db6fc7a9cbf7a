/* history_schema.c - what the file looks like, and what is asked of it: the SQL. README.md explains the tables. */
#include "history_file.h"

#define DECIMAL_WORDS(column)                                                                       \
    "CASE WHEN " column " IS NULL THEN '' ELSE rtrim(rtrim(printf('%s%d.%08d', "                    \
    "CASE WHEN " column " < 0 THEN '-' ELSE '' END, abs(" column ") / 100000000, "                  \
    "abs(" column ") % 100000000), '0'), '.') END"
#define TIME_WORDS(column)                                                                          \
    "strftime('%Y-%m-%dT%H:%M:%S', " column " / 1000000000, 'unixepoch') || "                       \
    "printf('.%09dZ', " column " % 1000000000)"

const char *const history_schema[] = {
    "CREATE TABLE progress (one INTEGER PRIMARY KEY CHECK (one = 1), log_id TEXT NOT NULL,"
    " taken INTEGER NOT NULL, taken_crc INTEGER NOT NULL, forgotten_change_id INTEGER NOT NULL,"
    " is_partial INTEGER NOT NULL)",
    "CREATE TABLE followers (number INTEGER PRIMARY KEY, follower_id TEXT NOT NULL)",
    "CREATE INDEX followers_by_id ON followers (follower_id)",
    "CREATE TABLE subscriptions (number INTEGER PRIMARY KEY, subscription_id TEXT NOT NULL,"
    " follower INTEGER NOT NULL)",
    "CREATE TABLE events (number INTEGER PRIMARY KEY, event_id TEXT NOT NULL, master_id TEXT NOT NULL,"
    " position_id TEXT NOT NULL, symbol TEXT NOT NULL, origin INTEGER NOT NULL,"
    " received_ns INTEGER NOT NULL, upstream_ns INTEGER NOT NULL, trace_id TEXT NOT NULL, volume_e8 INTEGER,"
    " request BLOB)",
    "CREATE INDEX events_by_master ON events (master_id)",
    "CREATE INDEX events_by_id ON events (event_id)",
    "CREATE INDEX events_by_position ON events (position_id)",
    "CREATE TABLE copies (place INTEGER PRIMARY KEY, event INTEGER NOT NULL, subscription INTEGER NOT NULL,"
    " follower INTEGER NOT NULL, copy_id TEXT NOT NULL, change_id INTEGER NOT NULL,"
    " action INTEGER NOT NULL, state INTEGER NOT NULL, reason INTEGER NOT NULL, remarks TEXT NOT NULL,"
    " side INTEGER NOT NULL, type INTEGER NOT NULL, symbol TEXT NOT NULL,"
    " volume_e8 INTEGER, price_e8 INTEGER, stop_loss_e8 INTEGER, take_profit_e8 INTEGER,"
    " filled_e8 INTEGER, average_price_e8 INTEGER,"
    " broker_order_id TEXT NOT NULL, broker_position_id TEXT NOT NULL, broker_code INTEGER NOT NULL,"
    " broker_message TEXT NOT NULL, message TEXT NOT NULL, attempts INTEGER NOT NULL,"
    " order_ids_0 INTEGER NOT NULL, order_ids_1 INTEGER NOT NULL,"
    " planned_ns INTEGER NOT NULL, journaled_ns INTEGER NOT NULL, started_ns INTEGER NOT NULL,"
    " called_ns INTEGER NOT NULL, answered_ns INTEGER NOT NULL, held_ns INTEGER NOT NULL,"
    " updated_ns INTEGER NOT NULL)",
    "CREATE INDEX copies_by_id ON copies (copy_id)",
    "CREATE INDEX copies_by_follower ON copies (follower)",
    "CREATE INDEX copies_by_change ON copies (change_id)",
    "CREATE INDEX copies_by_own_time ON copies (called_ns) WHERE called_ns > 0",
    "CREATE TABLE changes (place INTEGER NOT NULL, change_id INTEGER NOT NULL, state INTEGER NOT NULL,"
    " reason INTEGER NOT NULL, attempts INTEGER NOT NULL, volume_e8 INTEGER, filled_e8 INTEGER,"
    " average_price_e8 INTEGER, broker_code INTEGER NOT NULL, broker_message TEXT NOT NULL,"
    " updated_ns INTEGER NOT NULL, PRIMARY KEY (place, change_id)) WITHOUT ROWID",
    /* Which events came in an hour: numbers follow time but for what a clock does. */
    "CREATE TABLE hours (hour INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL)",
    "CREATE TABLE states (number INTEGER PRIMARY KEY, word TEXT NOT NULL)",
    "CREATE TABLE reasons (number INTEGER PRIMARY KEY, word TEXT NOT NULL)",
    "CREATE TABLE actions (number INTEGER PRIMARY KEY, word TEXT NOT NULL)",
    "CREATE TABLE origins (number INTEGER PRIMARY KEY, word TEXT NOT NULL)",
    "CREATE TABLE sides (number INTEGER PRIMARY KEY, word TEXT NOT NULL)",
    "CREATE TABLE types (number INTEGER PRIMARY KEY, word TEXT NOT NULL)",
    "CREATE VIEW copies_in_words AS SELECT " TIME_WORDS("e.received_ns") " AS received_at,"
    " e.master_id, f.follower_id, e.event_id, o.word AS origin, e.position_id, a.word AS action,"
    " s.word AS state, r.word AS reason, c.remarks, c.symbol, d.word AS side, t.word AS type,"
    " " DECIMAL_WORDS("e.volume_e8") " AS master_volume,"
    " " DECIMAL_WORDS("c.volume_e8") " AS volume, " DECIMAL_WORDS("c.price_e8") " AS price,"
    " " DECIMAL_WORDS("c.stop_loss_e8") " AS stop_loss, " DECIMAL_WORDS("c.take_profit_e8") " AS take_profit,"
    " " DECIMAL_WORDS("c.filled_e8") " AS filled_volume, " DECIMAL_WORDS("c.average_price_e8") " AS average_price,"
    " c.attempts, c.called_ns / 1000 AS own_time_us, c.held_ns / 1000 AS held_us,"
    " c.broker_order_id, c.broker_position_id, c.broker_code, c.broker_message, c.message,"
    " " TIME_WORDS("c.updated_ns") " AS updated_at, c.copy_id, u.subscription_id, e.trace_id,"
    " c.change_id, c.place, c.volume_e8, c.price_e8, c.filled_e8, c.average_price_e8, e.received_ns, c.called_ns"
    " FROM copies c JOIN events e ON e.number = c.event JOIN followers f ON f.number = c.follower"
    " JOIN subscriptions u ON u.number = c.subscription LEFT JOIN origins o ON o.number = e.origin"
    " LEFT JOIN actions a ON a.number = c.action LEFT JOIN states s ON s.number = c.state"
    " LEFT JOIN reasons r ON r.number = c.reason LEFT JOIN sides d ON d.number = c.side"
    " LEFT JOIN types t ON t.number = c.type",
    "CREATE VIEW changes_in_words AS SELECT " TIME_WORDS("h.updated_ns") " AS updated_at, c.copy_id,"
    " e.master_id, f.follower_id, e.event_id, e.position_id, a.word AS action, s.word AS state,"
    " r.word AS reason, h.attempts, " DECIMAL_WORDS("h.volume_e8") " AS volume,"
    " " DECIMAL_WORDS("h.filled_e8") " AS filled_volume, " DECIMAL_WORDS("h.average_price_e8") " AS average_price,"
    " h.broker_code, h.broker_message, h.change_id, h.place, h.volume_e8, h.filled_e8"
    " FROM changes h JOIN copies c ON c.place = h.place JOIN events e ON e.number = c.event"
    " JOIN followers f ON f.number = c.follower LEFT JOIN actions a ON a.number = c.action"
    " LEFT JOIN states s ON s.number = h.state LEFT JOIN reasons r ON r.number = h.reason",
    NULL,
};

const char *const history_schema_audit[] = {
    "CREATE TABLE IF NOT EXISTS audit (sequence INTEGER NOT NULL, at_ns INTEGER NOT NULL, who TEXT NOT NULL,"
    " peer TEXT NOT NULL, method TEXT NOT NULL, master_id TEXT NOT NULL, follower_id TEXT NOT NULL,"
    " object_id TEXT NOT NULL, result TEXT NOT NULL, why TEXT NOT NULL, left_out INTEGER NOT NULL,"
    " record BLOB NOT NULL, PRIMARY KEY (at_ns, sequence)) WITHOUT ROWID",
    "CREATE VIEW IF NOT EXISTS audit_in_words AS SELECT " TIME_WORDS("at_ns") " AS at, who,"
    " substr(method, 2) AS method, master_id, follower_id, object_id,"
    " CASE result WHEN '' THEN 'DONE' ELSE result END AS result, why, peer, left_out, sequence FROM audit",
    NULL,
};

#define COPY_COLUMNS                                                                                \
    "SELECT c.place, c.change_id, f.follower_id, u.subscription_id, c.copy_id, c.action, c.state,"  \
    " c.reason, c.side, c.type, c.remarks, c.symbol, c.volume_e8, c.price_e8, c.stop_loss_e8,"      \
    " c.take_profit_e8, c.filled_e8, c.average_price_e8, c.broker_order_id, c.broker_position_id,"  \
    " c.broker_message, c.message, c.broker_code, c.attempts, c.order_ids_0, c.order_ids_1,"        \
    " c.planned_ns, c.journaled_ns, c.started_ns, c.called_ns, c.answered_ns, c.held_ns,"           \
    " c.updated_ns, e.number, e.event_id, e.master_id, e.position_id, e.symbol, e.trace_id,"        \
    " e.origin, e.received_ns, e.upstream_ns "
/* CROSS JOIN: in this order, whatever SQLite thinks of the numbers. */
#define COPY_TABLES                                                                                 \
    "FROM copies c CROSS JOIN events e ON e.number = c.event"                                       \
    " CROSS JOIN followers f ON f.number = c.follower"                                              \
    " CROSS JOIN subscriptions u ON u.number = c.subscription "
#define EVENT_TABLES                                                                                \
    "FROM events e CROSS JOIN copies c ON c.place >= e.number * 65536 AND c.place < e.number * 65536 + 65536" \
    " CROSS JOIN followers f ON f.number = c.follower"                                              \
    " CROSS JOIN subscriptions u ON u.number = c.subscription "
#define SLOWEST "c.called_ns > 0 AND (c.called_ns, c.place) < (?2, ?1) "
#define SLOWEST_ORDER "ORDER BY c.called_ns DESC, c.place DESC"

const char *const history_sql[STATEMENTS] = {
    [PUT_FOLLOWER] = "INSERT INTO followers VALUES (?1, ?2) ON CONFLICT DO NOTHING",
    [PUT_SUBSCRIPTION] = "INSERT INTO subscriptions VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
    [PUT_EVENT] = "INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
                  " ON CONFLICT DO NOTHING",
    [PUT_HOUR] = "INSERT INTO hours VALUES (?1, ?2, ?2) ON CONFLICT DO UPDATE SET first = min(first, ?2),"
                 " last = max(last, ?2)",
    [PUT_COPY] =
        "INSERT INTO copies VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,"
        " ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34)"
        " ON CONFLICT DO UPDATE SET change_id = ?6, action = ?7, state = ?8, reason = ?9, remarks = ?10,"
        " side = ?11, type = ?12, symbol = ?13, volume_e8 = ?14, price_e8 = ?15, stop_loss_e8 = ?16,"
        " take_profit_e8 = ?17, filled_e8 = ?18, average_price_e8 = ?19, broker_order_id = ?20,"
        " broker_position_id = ?21, broker_code = ?22, broker_message = ?23, message = ?24, attempts = ?25,"
        " order_ids_0 = ?26, order_ids_1 = ?27, planned_ns = ?28, journaled_ns = ?29, started_ns = ?30,"
        " called_ns = ?31, answered_ns = ?32, held_ns = ?33, updated_ns = ?34 WHERE change_id < ?6",
    [PUT_CHANGE] = "INSERT INTO changes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT DO NOTHING",
    [PUT_AUDIT] = "INSERT INTO audit VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) ON CONFLICT DO NOTHING",
    [PUT_PROGRESS] = "REPLACE INTO progress VALUES (1, ?1, ?2, ?3, ?4, ?5)",
    [GET_EVENT] = "SELECT event_id, master_id, position_id, symbol, trace_id, origin, received_ns, upstream_ns,"
                  " volume_e8 FROM events WHERE number = ?1",
    /* An id that comes again after its follower was deleted has a new number; in copies it has its first. */
    [GET_SUBSCRIPTION] = "SELECT (SELECT min(number) FROM followers g WHERE g.follower_id = f.follower_id),"
                         " f.follower_id FROM subscriptions u JOIN followers f ON f.number = u.follower"
                         " WHERE u.number = ?1",
    [GET_FOLLOWER] = "SELECT min(number) FROM followers WHERE follower_id = ?1",
    [GET_PROGRESS] = "SELECT log_id, taken, taken_crc, forgotten_change_id, is_partial FROM progress WHERE one = 1",
    [GET_RANGE] = "SELECT min(first), max(last) FROM hours WHERE hour BETWEEN ?1 AND ?2",
    [FIND_COPY] = COPY_COLUMNS COPY_TABLES "WHERE c.copy_id = ?1",
    [FIND_EVENT] = "SELECT number, symbol, position_id, trace_id, origin, received_ns, upstream_ns, request FROM events"
                   " WHERE event_id = ?2 AND master_id = ?1 AND request IS NOT NULL ORDER BY number DESC",
    [COUNT_EVENT] = "SELECT state, reason, count(*) FROM copies WHERE place >= ?1 * 65536 AND"
                    " place < ?1 * 65536 + 65536 GROUP BY state, reason",
    [LIST_NEWEST] = COPY_COLUMNS COPY_TABLES "WHERE c.place < ?1 AND c.place >= ?2 ORDER BY c.place DESC",
    [LIST_FOLLOWER] = COPY_COLUMNS
        COPY_TABLES "WHERE c.follower = ?3 AND c.place < ?1 AND c.place >= ?2 ORDER BY c.place DESC",
    [LIST_OF_EVENT] = COPY_COLUMNS COPY_TABLES "WHERE c.place < ?1 AND c.place >= ?2 ORDER BY c.place DESC",
    [EVENTS_OF_MASTER] = "SELECT number, event_id, master_id, position_id, received_ns FROM events"
                         " WHERE master_id = ?1 AND number <= ?2 AND number >= ?3 ORDER BY number DESC",
    [EVENTS_OF_ID] = "SELECT number, event_id, master_id, position_id, received_ns FROM events"
                     " WHERE event_id = ?1 AND number <= ?2 AND number >= ?3 ORDER BY number DESC",
    [EVENTS_OF_SUBJECT] = "SELECT number, event_id, master_id, position_id, received_ns FROM events"
                          " WHERE position_id = ?1 AND number <= ?2 AND number >= ?3 ORDER BY number DESC",
    [SLOWEST_ALL] = COPY_COLUMNS COPY_TABLES "WHERE " SLOWEST SLOWEST_ORDER,
    [SLOWEST_RANGE] = COPY_COLUMNS COPY_TABLES "WHERE +c.called_ns > 0 AND (+c.called_ns, +c.place) < (?2, ?1)"
                                               " AND c.place >= ?3 AND c.place < ?4 " SLOWEST_ORDER,
    [SLOWEST_OF_ID] = COPY_COLUMNS EVENT_TABLES "WHERE e.event_id = ?3 AND " SLOWEST SLOWEST_ORDER,
    [SLOWEST_OF_SUBJECT] = COPY_COLUMNS EVENT_TABLES "WHERE e.position_id = ?3 AND " SLOWEST SLOWEST_ORDER,
    [LIST_CHANGED] = COPY_COLUMNS COPY_TABLES "WHERE c.change_id > ?1 AND c.change_id <= ?2 ORDER BY c.change_id",
    [OLD_EVENTS] = "SELECT e.number, e.received_ns, (SELECT count(*) FROM copies c WHERE c.place >= e.number * 65536"
                   " AND c.place < e.number * 65536 + 65536 AND (1 << c.state) & ?2 != 0) FROM events e"
                   " WHERE e.number > ?1 ORDER BY e.number LIMIT ?3",
    [OLD_CHANGE] = "SELECT max(change_id) FROM copies WHERE place >= ?1 * 65536 AND place < ?1 * 65536 + 65536",
    [DELETE_CHANGES] = "DELETE FROM changes WHERE place >= ?1 * 65536 AND place < ?1 * 65536 + 65536",
    [DELETE_COPIES] = "DELETE FROM copies WHERE place >= ?1 * 65536 AND place < ?1 * 65536 + 65536",
    [DELETE_EVENT] = "DELETE FROM events WHERE number = ?1",
    [DELETE_HOURS] = "DELETE FROM hours WHERE last < (SELECT min(number) FROM events)",
    [DELETE_AUDIT] = "DELETE FROM audit WHERE (at_ns, sequence) IN (SELECT at_ns, sequence FROM audit WHERE at_ns < ?1"
                     " ORDER BY at_ns LIMIT ?2)",
};
