/* broken.c - three rules broken on purpose, to see that the judge sees. Each stands in front of a function of
 * the server, by the linker's --wrap; switched on with --broken WORD. */
#include "world.h"

#include <state.h> /* of the engine */

#include <tradewake/core/verdict.h>

const char *const broken_words[N_BROKEN] = {"", "blind-resend", "early-answer", "dropped-close"};

struct tw_verdict __real_tw_verdict_on_answer(const struct tw_call_state *state, const struct tw_ack *ack,
                                              int64_t now_mono_ns);
struct tw_verdict __wrap_tw_verdict_on_answer(const struct tw_call_state *state, const struct tw_ack *ack,
                                              int64_t now_mono_ns);
void __real_record_await_durable(struct tw_record *record);
void __wrap_record_await_durable(struct tw_record *record);
void __real_state_get_copy(struct state_in *in, struct tw_copy *copy);
void __wrap_state_get_copy(struct state_in *in, struct tw_copy *copy);

/* "No answer, so it was not done." */
struct tw_verdict __wrap_tw_verdict_on_answer(const struct tw_call_state *state, const struct tw_ack *ack,
                                              int64_t now_mono_ns)
{
    struct tw_ack taken_for = *ack;
    if (world->broken == BROKEN_BLIND_RESEND && ack->outcome == TW_OUTCOME_AMBIGUOUS)
        taken_for.outcome = TW_OUTCOME_RETRY_NOW;
    return __real_tw_verdict_on_answer(state, &taken_for, now_mono_ns);
}

/* The answer does not wait for the disk. */
void __wrap_record_await_durable(struct tw_record *record)
{
    if (world->broken == BROKEN_EARLY_ANSWER)
        atomic_store(&record->is_durable, true);
    else
        __real_record_await_durable(record);
}

/* A close that was on its way when the server died is taken for done. */
void __wrap_state_get_copy(struct state_in *in, struct tw_copy *copy)
{
    __real_state_get_copy(in, copy);
    if (world->broken == BROKEN_DROPPED_CLOSE && copy->op == TW_OP_CLOSE && copy->state == STATE(QUEUED))
        copy->state = STATE(DONE);
}
