/* conformance.h - the promises of adapter.h as tests. An adapter joins with one line:
 *
 *     static const struct adapter_under_test paper = {.ops = &tw_adapter_paper, ...};
 *     ADAPTER_CONFORMANCE_TESTS(paper, &paper)
 *
 * Each promise becomes a Criterion test named paper_conformance/PROMISE. What an adapter cannot do
 * it says in its capabilities; what its broker cannot be made to do is left out of the struct
 * below. A promise that needs it is then skipped by name, never silently left out.
 *
 * Blocking sessions are called on the test's threads, non-blocking ones on a reactor. */
#ifndef TW_ADAPTERS_CONFORMANCE_H
#define TW_ADAPTERS_CONFORMANCE_H

#include <tradewake/adapters/adapter.h>

#include <criterion/criterion.h>

/* Settings added to those of every session; a later value of a key replaces an earlier one. */
struct conformance_settings {
    const struct tw_adapter_setting *list;
    size_t n;
};

struct adapter_under_test {
    const struct tw_adapter_ops *ops;
    const void *own;     /* of tw_adapter_options */
    const char *adapter; /* as a follower says it; NULL = ops->name */
    struct conformance_settings settings; /* of every session */

    /* What is traded: decimals as text. part is less than volume, both multiples of the step. */
    const char *symbol, *volume, *part;
    const char *stop_loss, *take_profit; /* of a long position, allowed at the broker's quote */
    const char *limit_price;             /* a buy limit there does not fill by itself */

    /* Make the broker misbehave at the first open; empty = it cannot be made to. */
    struct conformance_settings reply_lost;      /* executed, and the answer never comes */
    struct conformance_settings call_lost;       /* not executed, and no answer comes */
    struct conformance_settings answer_late;     /* answered after the time-out, executed or not */
    struct conformance_settings refused;         /* final: not executed */
    struct conformance_settings connection_lost; /* executed, and the connection drops */
    struct conformance_settings slow;            /* a call takes about 100 ms */
};

/* clang-format off */
#define ADAPTER_CONFORMANCE_MAP(X, name, under_test)                                                \
    X(name, under_test, close_of_nothing_is_allowed)                                                \
    X(name, under_test, an_unknown_setting_is_refused_by_its_name)                                  \
    X(name, under_test, capabilities_are_within_the_limits)                                         \
    X(name, under_test, the_host_is_told_everything_before_the_connection)                          \
    X(name, under_test, an_open_says_what_it_did)                                                   \
    X(name, under_test, a_full_close_leaves_nothing)                                                \
    X(name, under_test, a_partial_close_leaves_the_rest)                                            \
    X(name, under_test, a_changed_stop_is_at_the_broker)                                            \
    X(name, under_test, a_change_to_what_is_already_so_succeeds)                                    \
    X(name, under_test, a_pending_is_placed_and_cancelled)                                          \
    X(name, under_test, what_is_gone_is_not_found)                                                  \
    X(name, under_test, a_snapshot_is_complete_and_carries_our_ids)                                 \
    X(name, under_test, a_look_up_finds_an_order_by_its_id_also_when_it_is_closed)                  \
    X(name, under_test, a_look_up_of_an_unknown_id_is_not_found)                                    \
    X(name, under_test, a_lost_reply_is_ambiguous_at_the_time_out_and_found_later)                  \
    X(name, under_test, a_lost_call_is_ambiguous_at_the_time_out_and_never_executed)                \
    X(name, under_test, a_late_answer_is_ambiguous_at_the_time_out)                                 \
    X(name, under_test, a_final_refusal_has_a_reason_and_executes_nothing)                          \
    X(name, under_test, a_lost_connection_is_ambiguous_and_made_again)                              \
    X(name, under_test, a_call_after_its_deadline_is_not_sent)                                      \
    X(name, under_test, calls_run_side_by_side_up_to_max_parallel)                                  \
    X(name, under_test, a_netting_close_never_crosses_zero)                                         \
    X(name, under_test, a_session_can_be_closed_and_opened_again)                                   \
    X(name, under_test, nobody_is_told_anything_after_the_close)
/* clang-format on */

#define ADAPTER_CONFORMANCE_DECLARE_(name, under_test, promise)                                    \
    void conformance_##promise(const struct adapter_under_test *under_test);
ADAPTER_CONFORMANCE_MAP(ADAPTER_CONFORMANCE_DECLARE_, unused, under_test)

#define ADAPTER_CONFORMANCE_TEST_(name, under_test, promise)                                       \
    Test(name##_conformance, promise, .timeout = 30)                                               \
    {                                                                                              \
        conformance_##promise(under_test);                                                         \
    }

#define ADAPTER_CONFORMANCE_TESTS(name, under_test)                                                \
    ADAPTER_CONFORMANCE_MAP(ADAPTER_CONFORMANCE_TEST_, name, under_test)

#endif
