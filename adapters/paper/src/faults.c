#include "faults.h"
#include "latency.h"
#include "text.h"

#include <tradewake/base/clock.h>

#include <stdlib.h>
#include <string.h>

static const char *const op_names[FAULT_OP_COUNT] = {
    [FAULT_OP_OPEN] = "open",   [FAULT_OP_CLOSE] = "close",   [FAULT_OP_MODIFY] = "modify",
    [FAULT_OP_PLACE] = "place", [FAULT_OP_CANCEL] = "cancel", [FAULT_OP_LOOKUP] = "lookup",
    [FAULT_OP_ANY] = "any",
};

/* on_lookup: does it say anything about a question, or only about an order? */
static const struct {
    const char *name;
    bool on_lookup;
} kinds[FAULT_KIND_COUNT] = {
    [FAULT_NONE] = {"", true},
    [FAULT_REQUOTE] = {"requote", false},
    [FAULT_BUSY] = {"busy", true},
    [FAULT_OFF_QUOTES] = {"off_quotes", false},
    [FAULT_RATE_LIMITED] = {"rate_limited", true},
    [FAULT_NO_MONEY] = {"no_money", false},
    [FAULT_MARKET_CLOSED] = {"market_closed", false},
    [FAULT_REJECT] = {"reject", false},
    [FAULT_NO_STOPS] = {"no_stops", false},
    [FAULT_PARTIAL] = {"partial", false},
    [FAULT_DELAY] = {"delay", true},
    [FAULT_HANG] = {"hang", true},
    [FAULT_HANG_EXECUTED] = {"hang_executed", false},
    [FAULT_TIMEOUT_EXECUTED] = {"timeout_executed", true},
    [FAULT_TIMEOUT_LOST] = {"timeout_lost", true},
    [FAULT_DROP_REPLY] = {"drop_reply", true},
    [FAULT_REJECT_EXECUTED] = {"reject_executed", false},
};

static bool op_parse(struct span span, enum fault_op *ret)
{
    for (int op = 0; op < FAULT_OP_COUNT; op++) {
        if (span_is(span, op_names[op])) {
            *ret = (enum fault_op)op;
            return true;
        }
    }
    return false;
}

static bool decimal_parse(struct span span, tw_decimal *ret)
{
    char text[TW_DECIMAL_TEXT_BYTES];
    return span.size > 0 && span_copy(span, text, sizeof(text)) && tw_decimal_parse(text, ret);
}

/* "3", "*", "p0.01" */
static bool which_parse(struct span span, struct fault_rule *rule)
{
    if (span_is(span, "*"))
        return true;
    if (span.size > 1 && span.start[0] == 'p')
        return decimal_parse((struct span){span.start + 1, span.size - 1}, &rule->share) &&
               rule->share > 0 && rule->share <= TW_DECIMAL_ONE;
    return span_number(span, UINT64_MAX, &rule->nth) && rule->nth > 0;
}

/* "busy", "partial:0.06", "delay:3s", "hang" */
static bool fault_parse(struct span span, struct fault *fault)
{
    struct span name = {0}, value = {0}, more;
    (void)span_split(&span, ':', &name);
    bool has_value = span_split(&span, ':', &value);
    if (span_split(&span, ':', &more) || name.size == 0)
        return false;
    for (int kind = FAULT_NONE + 1; kind < FAULT_KIND_COUNT; kind++) {
        if (!span_is(name, kinds[kind].name))
            continue;
        fault->kind = (enum fault_kind)kind;
        if (kind == FAULT_PARTIAL)
            return has_value && decimal_parse(value, &fault->value) && fault->value > 0;
        if (!has_value && (kind == FAULT_HANG || kind == FAULT_HANG_EXECUTED)) {
            fault->value = HANG_NS;
            return true;
        }
        if (kind == FAULT_DELAY || kind == FAULT_HANG || kind == FAULT_HANG_EXECUTED)
            return has_value && span_duration(value, &fault->value);
        return !has_value;
    }
    return false;
}

/* "open#1=busy": exactly one = and one #. */
static bool rule_parse(struct span span, struct fault_rule *ret)
{
    struct fault_rule rule = {0};
    struct span call, fault, op, which;
    if (!span_split(&span, '=', &call) || !span_split(&span, '=', &fault) || span.start != NULL ||
        !span_split(&call, '#', &op) || !span_split(&call, '#', &which) || call.start != NULL)
        return false;
    if (!op_parse(op, &rule.op) || !which_parse(which, &rule) || !fault_parse(fault, &rule.fault))
        return false;
    *ret = rule;
    return true;
}

tw_status faults_parse(const char *text, struct faults *ret, struct tw_error *error)
{
    struct faults faults = {0};
    if (text[0] == '\0' || strcmp(text, "none") == 0) {
        *ret = faults;
        return TW_OK;
    }
    if (strlen(text) >= FAULTS_TEXT_BYTES)
        return tw_error_set(error, TW_INVALID, "faults has %zu bytes, at most %u are read",
                            strlen(text), FAULTS_TEXT_BYTES - 1);

    faults.rules = calloc(FAULTS_MAX, sizeof(*faults.rules));
    if (faults.rules == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the list of faults");

    tw_status status;
    struct span rest = span_of(text), part;
    while (span_split(&rest, ',', &part)) {
        if (faults.n_rules == FAULTS_MAX) {
            status = tw_error_set(error, TW_INVALID, "faults has more than %u entries", FAULTS_MAX);
            goto fail;
        }
        if (!rule_parse(part, &faults.rules[faults.n_rules])) {
            status = tw_error_set(error, TW_INVALID,
                                  "faults entry \"%.*s\" is not OP#N=FAULT (open#1=busy, "
                                  "close#*=delay:2s, any#p0.01=requote)",
                                  (int)(part.size < 64 ? part.size : 64), part.start);
            goto fail;
        }
        faults.n_rules++;
    }
    /* Ten thousand accounts, one rule each: give back what was not needed. */
    struct fault_rule *fitted = realloc(faults.rules, faults.n_rules * sizeof(*fitted));
    if (fitted != NULL)
        faults.rules = fitted;
    *ret = faults;
    return TW_OK;

fail:
    faults_clear(&faults);
    return status;
}

void faults_clear(struct faults *faults)
{
    free(faults->rules);
    *faults = (struct faults){0};
}

static bool rule_matches(const struct fault_rule *rule, enum fault_op op,
                         const uint64_t counts[FAULT_OP_COUNT], uint64_t *prng)
{
    if (rule->op != op && rule->op != FAULT_OP_ANY)
        return false;
    if (op == FAULT_OP_LOOKUP && !kinds[rule->fault.kind].on_lookup)
        return false;
    if (rule->share > 0)
        return prng_below(prng, (uint64_t)TW_DECIMAL_ONE) < (uint64_t)rule->share;
    return rule->nth == 0 || rule->nth == counts[rule->op];
}

struct fault faults_next(const struct faults *faults, enum fault_op op,
                         uint64_t counts[FAULT_OP_COUNT], uint64_t *prng)
{
    counts[op]++;
    counts[FAULT_OP_ANY]++;
    for (uint32_t i = 0; i < faults->n_rules; i++) {
        if (rule_matches(&faults->rules[i], op, counts, prng))
            return faults->rules[i].fault;
    }
    return (struct fault){0};
}
