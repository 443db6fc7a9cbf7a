/* trace.h - the trace that a call belongs to: metadata `traceparent` (W3C Trace Context, level 1).
 *
 * What is not by the letter of it counts as none: an order never waits for a tracer. We make no spans of our own, so what
 * goes on to a bridge names the upstream's span as the parent. Pure functions; thread: any. */
#ifndef TW_RPC_TRACE_H
#define TW_RPC_TRACE_H

#include <stdbool.h>

#define TW_TRACE_ID_BYTES    33u
#define TW_TRACEPARENT_BYTES 56u

struct tw_trace_context {
    char id[TW_TRACE_ID_BYTES];        /* 32 hex digits; "" = none */
    char parent[TW_TRACEPARENT_BYTES]; /* as version 00, with what it has of the flags; "" = none */
};

/* text: the metadata; NULL = there is none. False: *ret is empty. */
bool tw_trace_context_read(const char *text, struct tw_trace_context *ret);

#endif
