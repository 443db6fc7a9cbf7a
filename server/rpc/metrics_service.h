/* metrics_service.h - tradewake.v1.MetricsService over server/telemetry.
 *
 * Both streams follow the same pattern: the sampler says that there is news (tw_call_post), the
 * stream thread takes what there is when the call is writable, and never more than one message
 * ahead of the reader. What a slow reader misses is counted or merged by the sampler's side. */
#ifndef TW_RPC_METRICS_SERVICE_H
#define TW_RPC_METRICS_SERVICE_H

#include <tradewake/base/status.h>
#include <tradewake/wire/server.h>

struct tw_telemetry;

/* Tells the methods where to ask. Before tw_wire_server_start(); telemetry stays until close.
 * Thread: main. */
void tw_metrics_service_open(struct tw_telemetry *telemetry);

/* After tw_wire_server_stop(), before tw_telemetry_stop(). Thread: main. */
void tw_metrics_service_close(void);

/* The rows for the table of methods. */
void tw_metrics_watch_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                 const struct tw_refusal *invalid);
void tw_metrics_watch_summary_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                         const struct tw_refusal *invalid);
void tw_metrics_watch_on_news(struct tw_call *call);
void tw_metrics_watch_on_finished(struct tw_call *call, bool cancelled);
void tw_metrics_summary_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                   const struct tw_refusal *invalid);
void tw_metrics_summary_on_post(struct tw_call *call);
void tw_metrics_summary_on_finished(struct tw_call *call, bool cancelled);
void tw_metrics_executor_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                    const struct tw_refusal *invalid);

/* clang-format off */
#define TW_METRICS_METHODS                                                                          \
    {.path = "/tradewake.v1.MetricsService/WatchOwnTime", .watches = true,                          \
     .on_request = tw_metrics_watch_on_request, .on_post = tw_metrics_watch_on_news,                \
     .on_writable = tw_metrics_watch_on_news, .on_timer = tw_metrics_watch_on_news,                 \
     .on_finished = tw_metrics_watch_on_finished},                                                  \
    {.path = "/tradewake.v1.MetricsService/WatchOwnTimeSummary", .watches = true,                   \
     .on_request = tw_metrics_watch_summary_on_request, .on_post = tw_metrics_watch_on_news,        \
     .on_writable = tw_metrics_watch_on_news, .on_timer = tw_metrics_watch_on_news,                 \
     .on_finished = tw_metrics_watch_on_finished},                                                  \
    {.path = "/tradewake.v1.MetricsService/GetOwnTimeSummary",                                      \
     .on_request = tw_metrics_summary_on_request, .on_post = tw_metrics_summary_on_post,            \
     .on_finished = tw_metrics_summary_on_finished},                                                \
    {.path = "/tradewake.v1.MetricsService/GetExecutorStatus",                                      \
     .on_request = tw_metrics_executor_on_request}
/* clang-format on */

#endif
