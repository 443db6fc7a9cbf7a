/* faults.h - what goes wrong at the simulated broker, and at which call.
 *
 *     open#1=timeout_lost, close#*=busy, any#p0.01=requote
 *
 * A list of OP#N=FAULT, first match wins. N counts the calls of that OP from 1, repeats and lost
 * ones included, since the list was set; `*` is every call, p0.01 a share of them. */
#ifndef PAPER_FAULTS_H
#define PAPER_FAULTS_H

#include <tradewake/base/decimal.h>
#include <tradewake/base/status.h>

#include <stdint.h>

#define FAULTS_MAX        128u
#define FAULTS_TEXT_BYTES 4096u

enum fault_op {
    FAULT_OP_OPEN,
    FAULT_OP_CLOSE,
    FAULT_OP_MODIFY,
    FAULT_OP_PLACE,
    FAULT_OP_CANCEL,
    FAULT_OP_LOOKUP,
    FAULT_OP_ANY,
    FAULT_OP_COUNT
};

enum fault_kind {
    FAULT_NONE,
    FAULT_REQUOTE,
    FAULT_BUSY,
    FAULT_OFF_QUOTES,
    FAULT_RATE_LIMITED,
    FAULT_NO_MONEY,
    FAULT_MARKET_CLOSED,
    FAULT_REJECT,
    FAULT_NO_STOPS,
    FAULT_PARTIAL,
    FAULT_DELAY,
    FAULT_HANG,
    FAULT_HANG_EXECUTED,
    FAULT_TIMEOUT_EXECUTED,
    FAULT_TIMEOUT_LOST,
    FAULT_DROP_REPLY,
    FAULT_REJECT_EXECUTED,
    FAULT_KIND_COUNT
};

struct fault {
    enum fault_kind kind;
    int64_t value; /* partial: the volume (decimal); delay: ns; hang: ns past the time-out */
};

struct fault_rule {
    enum fault_op op;
    uint64_t nth;     /* 0 = every call, or a share of them */
    tw_decimal share; /* of one; 0 = not by chance */
    struct fault fault;
};

/* So long past its time-out does a call keep its thread that hangs, unless it says. */
#define HANG_NS (3 * TW_NS_PER_S)

/* A list from the heap, shared by nobody. {0} = no faults. */
struct faults {
    struct fault_rule *rules;
    uint32_t n_rules;
};

/* "" and "none" are the empty list. *ret is the caller's, faults_clear() it.
 * Fails: TW_INVALID (the entry and what is expected in error), TW_NO_MEMORY. Thread: any. */
TW_MUST_CHECK tw_status faults_parse(const char *text, struct faults *ret, struct tw_error *error);
void faults_clear(struct faults *faults);

/* Counts one call of op, and says what happens to it. counts: per op, FAULT_OP_COUNT of them; prng
 * is only drawn from when a rule with a share is reached. Under the account's lock. */
struct fault faults_next(const struct faults *faults, enum fault_op op,
                         uint64_t counts[FAULT_OP_COUNT], uint64_t *prng);

#endif
