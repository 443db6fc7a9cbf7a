/* health.h - grpc.health.v1: what is serving, asked once (Check) or watched (Watch).
 *
 * Names are "" (the whole server), "liveness", "readiness" and each service; who sets them decides
 * which there are. A watcher gets the status now and at each change; while one write is out only
 * the latest status waits for it. A name nobody has set is NOT_FOUND in Check and SERVICE_UNKNOWN
 * in Watch, which stays open until it is set.
 *
 * One table per process. */
#ifndef TW_RPC_HEALTH_H
#define TW_RPC_HEALTH_H

#include <tradewake/wire/server.h>

#include <stdbool.h>

#define TW_HEALTH_NAMES_MAX  32u
#define TW_HEALTH_NAME_BYTES 201u

/* Sets a status; a new name is added. After tw_health_drain() everything stays NOT_SERVING.
 * Thread: any.  Blocks: no. */
void tw_health_set(const char *name, bool is_serving);

/* Everything is NOT_SERVING from now on, also what is set later; watchers are told.
 * Thread: any.  Blocks: no. */
void tw_health_drain(void);

/* Forgets every name. Thread: main, when no server runs. */
void tw_health_clear(void);

/* The rows for the table of methods. */
void tw_health_check_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                const struct tw_refusal *invalid);
void tw_health_watch_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                const struct tw_refusal *invalid);
void tw_health_watch_on_news(struct tw_call *call);
void tw_health_watch_on_timer(struct tw_call *call);
void tw_health_watch_on_finished(struct tw_call *call, bool cancelled);

/* clang-format off */
#define TW_HEALTH_METHODS                                                                           \
    {.path = "/grpc.health.v1.Health/Check", .on_request = tw_health_check_on_request},             \
    {.path = "/grpc.health.v1.Health/Watch", .watches = true,                                       \
     .on_request = tw_health_watch_on_request, .on_post = tw_health_watch_on_news,                  \
     .on_writable = tw_health_watch_on_news, .on_timer = tw_health_watch_on_timer,                  \
     .on_finished = tw_health_watch_on_finished}
/* clang-format on */

#endif
