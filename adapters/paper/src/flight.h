/* flight.h - the way of one call: out, the broker, back.
 *
 *     depart ----- half the latency, delay -----> arrive ----- the other half -----> land
 *        |                                          |                                  |
 *     counted, fault and                     the ledger entry             the answer, or
 *     latency drawn                                                       AMBIGUOUS at the time-out
 *
 * A call whose time-out passes before it arrives never executes. One whose answer would come after
 * it is AMBIGUOUS at the time-out, not later. One that is out when the connection drops is
 * AMBIGUOUS, and executed only if it had arrived.
 *
 * The same steps for both kinds of session: a blocking one sleeps between them in the worker, a
 * non-blocking one sets the call's timer. */
#ifndef PAPER_FLIGHT_H
#define PAPER_FLIGHT_H

#include "account.h"

enum flight_kind { FLIGHT_EXECUTE, FLIGHT_LOOKUP, FLIGHT_SNAPSHOT };

/* Thread: worker (returns with the answer), or the reactor (call->done() tells, maybe at once). */
void flight_start(struct session *session, struct tw_adapter_call *call, enum flight_kind kind);

/* The reactor's spare ones. Thread: main; no call is out. */
void flight_spares_free(struct paper *paper);

#endif
