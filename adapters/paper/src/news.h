/* news.h - what the host of a session is told, in the order in which it happened, and never while a
 * lock is held.
 *
 * Whoever changes an account appends what there is to say under the account's lock, and calls
 * news_tell() when it is done. One thread at a time tells; another that comes meanwhile leaves its
 * news to it. So the order is kept, and no call of the host can wait for a lock that we hold while
 * we are inside the host. */
#ifndef PAPER_NEWS_H
#define PAPER_NEWS_H

#include "account.h"

/* All: under the lock. Dropped when there is no session or no connection; news without memory to
 * hold them are replaced by a connection that drops and comes back, after which the host asks for
 * everything. */
void news_connection(struct account *account, bool is_connected, const char *why);
void news_quote(struct account *account, struct market *market);
void news_instrument(struct account *account, const struct tw_instrument *instrument);
void news_market_open(struct account *account);
void news_position(struct account *account, const struct position *position, tw_reason reason);
void news_order_gone(struct account *account, const struct pending *pending, uint64_t position);
void news_account(struct account *account);

/* Gives the lock back and tells what there is to tell. Thread: any that holds the lock. */
void news_tell_and_unlock(struct account *account);

/* Nobody is told anything any more, and nobody is inside the host. Takes the lock itself. */
void news_end(struct account *account);

/* As the host sees it: without what a broker strips. Under the lock. */
void position_shown(const struct account *account, const struct position *position,
                    struct tw_held_position *ret);
void pending_shown(const struct account *account, const struct pending *pending,
                   struct tw_held_order *ret);

/* Tickets as text, 0 = "". */
void ticket_text(uint64_t ticket, char text[TW_BROKER_ID_BYTES]);
uint64_t ticket_parse(const char *text); /* 0 = not one of ours */

#endif
