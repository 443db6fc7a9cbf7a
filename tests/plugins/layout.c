/* Where every field of ABI 1.0 lies, by hand of the compiler that builds this: in C and in C++, with gcc and clang. A line
 * that is here never changes; fields that are appended get lines of their own. */
#include <tradewake_plugin.h>

#ifdef __cplusplus
#define CHECK(condition, words) static_assert(condition, words)
#else
#define CHECK(condition, words) _Static_assert(condition, words)
#endif
#define AT(type, field, offset) CHECK(offsetof(struct type, field) == offset, #type "." #field " has moved")
#define BYTES(type, size) CHECK(sizeof(struct type) == size, "struct " #type " has another size")

AT(twp_caps, size, 0);
AT(twp_caps, thread_model, 4);
AT(twp_caps, can, 8);
AT(twp_caps, id_strength, 12);
AT(twp_caps, code_table, 16);
AT(twp_caps, calls_max, 20);
AT(twp_caps, sessions_max, 24);
AT(twp_caps, call_timeout_ms, 28);
AT(twp_caps, settle_ms, 32);
AT(twp_caps, reserved, 36);
BYTES(twp_caps, 40);

AT(twp_order, size, 0);
AT(twp_order, op, 4);
AT(twp_order, side, 8);
AT(twp_order, type, 12);
AT(twp_order, attempt, 16);
AT(twp_order, flags, 20);
AT(twp_order, deadline_mono_ns, 24);
AT(twp_order, expires_wall_ns, 32);
AT(twp_order, volume, 40);
AT(twp_order, price, 48);
AT(twp_order, stop_price, 56);
AT(twp_order, stop_loss, 64);
AT(twp_order, take_profit, 72);
AT(twp_order, client_order_id, 80);
AT(twp_order, symbol, 120);
AT(twp_order, position_id, 184);
AT(twp_order, order_id, 248);
BYTES(twp_order, 312);

AT(twp_result, size, 0);
AT(twp_result, flags, 4);
AT(twp_result, reason, 8);
AT(twp_result, vendor_code, 12);
AT(twp_result, filled_volume, 16);
AT(twp_result, average_price, 24);
AT(twp_result, remaining_volume, 32);
AT(twp_result, retry_after_ns, 40);
AT(twp_result, order_id, 48);
AT(twp_result, position_id, 112);
AT(twp_result, remainder_position_id, 176);
AT(twp_result, text, 240);
BYTES(twp_result, 368);

AT(twp_account, size, 0);
AT(twp_account, is_netting, 4);
AT(twp_account, leverage, 8);
AT(twp_account, reserved, 12);
AT(twp_account, balance, 16);
AT(twp_account, equity, 24);
AT(twp_account, free_margin, 32);
AT(twp_account, currency, 40);
BYTES(twp_account, 48);

AT(twp_instrument, size, 0);
AT(twp_instrument, reserved, 4);
AT(twp_instrument, volume_min, 8);
AT(twp_instrument, volume_step, 16);
AT(twp_instrument, volume_max, 24);
AT(twp_instrument, contract_size, 32);
AT(twp_instrument, tick_size, 40);
AT(twp_instrument, min_notional, 48);
AT(twp_instrument, stops_distance, 56);
AT(twp_instrument, freeze_distance, 64);
AT(twp_instrument, base_currency, 72);
AT(twp_instrument, profit_currency, 80);
AT(twp_instrument, symbol, 88);
BYTES(twp_instrument, 152);

AT(twp_quote, size, 0);
AT(twp_quote, reserved, 4);
AT(twp_quote, bid, 8);
AT(twp_quote, ask, 16);
AT(twp_quote, symbol, 24);
BYTES(twp_quote, 88);

AT(twp_position, size, 0);
AT(twp_position, side, 4);
AT(twp_position, volume, 8);
AT(twp_position, open_price, 16);
AT(twp_position, stop_loss, 24);
AT(twp_position, take_profit, 32);
AT(twp_position, position_id, 40);
AT(twp_position, from_position_id, 104);
AT(twp_position, symbol, 168);
AT(twp_position, client_order_id, 232);
BYTES(twp_position, 272);

AT(twp_pending, size, 0);
AT(twp_pending, side, 4);
AT(twp_pending, type, 8);
AT(twp_pending, reserved, 12);
AT(twp_pending, volume, 16);
AT(twp_pending, price, 24);
AT(twp_pending, stop_price, 32);
AT(twp_pending, stop_loss, 40);
AT(twp_pending, take_profit, 48);
AT(twp_pending, expires_wall_ns, 56);
AT(twp_pending, order_id, 64);
AT(twp_pending, symbol, 128);
AT(twp_pending, client_order_id, 192);
BYTES(twp_pending, 232);

AT(twp_event, size, 0);
AT(twp_event, kind, 4);
AT(twp_event, reason, 8);
AT(twp_event, reserved, 12);
AT(twp_event, position, 16);
AT(twp_event, order_id, 24);
AT(twp_event, position_id, 88);
AT(twp_event, client_order_id, 152);
BYTES(twp_event, 192);

AT(twp_setting, key, 0);
AT(twp_setting, value, 8);
BYTES(twp_setting, 16);

AT(twp_host, size, 0);
AT(twp_host, abi, 4);
AT(twp_host, ctx, 8);
AT(twp_host, log, 16);
AT(twp_host, mono_ns, 24);
BYTES(twp_host, 32);

AT(twp_list, size, 0);
AT(twp_list, reserved, 4);
AT(twp_list, ctx, 8);
AT(twp_list, add, 16);
BYTES(twp_list, 24);

AT(twp_words, size, 0);
AT(twp_words, reserved, 4);
AT(twp_words, key, 8);
AT(twp_words, text, 72);
BYTES(twp_words, 328);

AT(twp_open, size, 0);
AT(twp_open, is_netting, 4);
AT(twp_open, deadline_mono_ns, 8);
AT(twp_open, host, 16);
AT(twp_open, account_key, 24);
AT(twp_open, credentials_ref, 32);
AT(twp_open, settings, 40);
AT(twp_open, n_settings, 48);
AT(twp_open, reserved, 52);
BYTES(twp_open, 56);

AT(twp_api, size, 0);
AT(twp_api, reserved, 4);
AT(twp_api, check, 8);
AT(twp_api, session_open, 16);
AT(twp_api, session_close, 24);
AT(twp_api, account, 32);
AT(twp_api, instruments, 40);
AT(twp_api, quotes, 48);
AT(twp_api, positions, 56);
AT(twp_api, orders, 64);
AT(twp_api, events, 72);
AT(twp_api, execute, 80);
AT(twp_api, lookup, 88);
BYTES(twp_api, 96);

AT(twp_plugin, size, 0);
AT(twp_plugin, magic, 4);
AT(twp_plugin, abi, 8);
AT(twp_plugin, sizeof_caps, 12);
AT(twp_plugin, sizeof_order, 16);
AT(twp_plugin, sizeof_result, 20);
AT(twp_plugin, sizeof_account, 24);
AT(twp_plugin, sizeof_instrument, 28);
AT(twp_plugin, sizeof_quote, 32);
AT(twp_plugin, sizeof_position, 36);
AT(twp_plugin, sizeof_pending, 40);
AT(twp_plugin, sizeof_event, 44);
AT(twp_plugin, sizeof_open, 48);
AT(twp_plugin, reserved, 52);
AT(twp_plugin, name, 56);
AT(twp_plugin, version, 64);
AT(twp_plugin, caps, 72);
AT(twp_plugin, api, 80);
BYTES(twp_plugin, 88);

CHECK(TWP_AMBIGUOUS == 0 && TWP_DONE == 1 && TWP_ACCEPTED == 2 && TWP_PARTIAL == 3 && TWP_NO_CHANGE == 4, "outcomes");
CHECK(TWP_RETRY_NOW == 5 && TWP_RETRY_LATER == 6 && TWP_REJECTED == 7 && TWP_NOT_FOUND == 8, "outcomes");
CHECK(TWP_UNSUPPORTED == 9 && TWP_SESSION_LOST == 10 && TWP_BY_CODE == 11, "outcomes");
CHECK(TWP_THREADS_GLOBAL == 0 && TWP_THREADS_SESSION == 1 && TWP_THREADS_AFFINE == 2 && TWP_THREADS_FREE == 3, "threads");
CHECK(TWP_ID_NONE == 0 && TWP_ID_TAG == 1 && TWP_ID_JOURNAL == 2 && TWP_ID_BROKER == 3, "ids");
CHECK(TWP_F_NOT_SENT == 1 && TWP_F_FROM_BROKER == 2 && TWP_F_STOPS_MISSING == 4, "flags");
CHECK(TWP_OP_OPEN == 0 && TWP_OP_CLOSE == 1 && TWP_OP_MODIFY == 2 && TWP_OP_PLACE == 3, "operations");
CHECK(TWP_OP_MODIFY_ORDER == 4 && TWP_OP_CANCEL == 5, "operations");
CHECK(TWP_BUY == 1 && TWP_SELL == 2 && TWP_MARKET == 1 && TWP_LIMIT == 2 && TWP_STOP == 3 && TWP_STOP_LIMIT == 4, "orders");
CHECK(TWP_MAGIC == 0x31505754 && TWP_ABI_MAJOR == 1 && TWP_UNSET == INT64_MIN, "version");
