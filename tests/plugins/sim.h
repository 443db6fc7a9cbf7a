/* sim.h - a small broker in memory for the test plugins: what a vendor's library would be, without the vendor.
 *
 * Accounts are told apart by account_key and outlive their sessions. Every function may be called by any number of threads
 * at once. Settings:
 *   latency      "130ms": half out, half back
 *   first_open   what happens to the first open of the account: reply_lost, call_lost, refused, hang_up
 *   drop_every   "50": every 50th call loses its session, in turns before and after it was executed
 *   ledger       a folder: what the account has carried out is in FOLDER/KEY, one struct twp_order after the other, and is known
 *                again to the next process
 *   stamps       a file: the id of each order and when its call began (CLOCK_MONOTONIC), 64 bytes each
 *   by_code      "136": what the first open returns, as a platform's number, without executing anything */
#ifndef TESTS_PLUGINS_SIM_H
#define TESTS_PLUGINS_SIM_H

#include <tradewake_plugin.h>

int32_t sim_check(const struct twp_setting *settings, uint32_t n, struct twp_words *words);
int32_t sim_session_open(const struct twp_open *open, struct twp_session **ret, struct twp_words *words);
void sim_session_close(struct twp_session *session);
int32_t sim_account(struct twp_session *session, int64_t deadline_mono_ns, struct twp_account *ret);
int32_t sim_instruments(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list);
int32_t sim_quotes(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list);
int32_t sim_positions(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list);
int32_t sim_orders(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list);
int32_t sim_execute(struct twp_session *session, const struct twp_order *order, struct twp_result *ret);
int32_t sim_lookup(struct twp_session *session, const struct twp_order *order, struct twp_result *ret);

/* Set by the plugin that it is built into. */
extern const int64_t sim_latency_ns;    /* where the setting is left out */
extern const int sim_keeps_deadlines;   /* 0: an answer comes when it comes */
extern const int sim_is_one_at_a_time;  /* two calls at once in a session end the process */

/* For evil: a setting's value ("" = not given), and time. */
const char *sim_setting(const struct twp_open *open, const char *key);
int64_t sim_mono_ns(void);
void sim_sleep_until(int64_t mono_ns);

#define SIM_API                                                                                                     \
    {                                                                                                               \
        .size = sizeof(struct twp_api), .check = sim_check, .session_open = sim_session_open,                       \
        .session_close = sim_session_close, .account = sim_account, .instruments = sim_instruments,                 \
        .quotes = sim_quotes, .positions = sim_positions, .orders = sim_orders, .execute = sim_execute,             \
        .lookup = sim_lookup                                                                                        \
    }

#endif
