/* metrics_service.h - tradewake.v1.MetricsService over tw_telemetry. */
#ifndef TW_RPC_METRICS_SERVICE_H
#define TW_RPC_METRICS_SERVICE_H

#include <tradewake/base/status.h>
#include <tradewake/wire/server.h>

struct tw_telemetry;

/* Its methods, to be put into the server's table. */
#define TW_METRICS_METHODS 4u
extern const struct tw_wire_method tw_metrics_methods[TW_METRICS_METHODS];

/* Tells the methods where to ask. Before tw_wire_server_start(); telemetry stays until close.
 * Thread: main.  Fails: TW_NO_MEMORY. */
TW_MUST_CHECK tw_status tw_metrics_service_open(struct tw_telemetry *telemetry);

/* After tw_wire_server_stop(), before tw_telemetry_stop(). Thread: main. */
void tw_metrics_service_close(void);

#endif
