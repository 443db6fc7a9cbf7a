/* ledger.h - the broker's own memory on disk: one append-only log for all accounts.
 *
 *     ledger.000007   what is held, written anew by a compaction (it begins with a SNAPSHOT record)
 *     ledger.000008   what happened since, record after record
 *
 * Every record is one write(2) with a checksum. What has been written survives the end of the
 * process, also by SIGKILL, because the kernel has it; it is not synced to the disk one by one, so
 * a power loss may take the last moments of this make-believe broker with it (README.md says why).
 *
 * Thread: any; the ledger's own lock is taken last, for one write. All "keep" functions: the caller
 * holds the account's lock, which is what puts an account's records in order. */
#ifndef PAPER_LEDGER_H
#define PAPER_LEDGER_H

#include "account.h"

/* Opens or makes the ledger in state_dir and brings back what it tells into paper->accounts.
 * Thread: main.  Fails: TW_IO (another process has it; damage: file and offset in error),
 * TW_NO_MEMORY. */
TW_MUST_CHECK tw_status ledger_open(const char *state_dir, struct paper *paper,
                                    struct ledger **ret_ledger, struct tw_error *error);
void ledger_close(struct ledger *ledger);

/* NULL as ledger: nothing is kept, TW_OK.
 * Fails: TW_IO, TW_NO_MEMORY; nothing of it has been written then. */
TW_MUST_CHECK tw_status ledger_keep_account(struct ledger *ledger, const struct account *account);
TW_MUST_CHECK tw_status ledger_keep_state(struct ledger *ledger, const struct account *account);
TW_MUST_CHECK tw_status ledger_keep_instruments(struct ledger *ledger,
                                                const struct account *account);
TW_MUST_CHECK tw_status ledger_keep_instrument(struct ledger *ledger, const struct account *account,
                                               const struct tw_instrument *instrument);
TW_MUST_CHECK tw_status ledger_keep_quote(struct ledger *ledger, const struct account *account,
                                          const struct quote *quote);
TW_MUST_CHECK tw_status ledger_keep_entry(struct ledger *ledger, const struct account *account,
                                          const struct entry *entry);

#endif
