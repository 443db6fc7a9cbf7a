/* admin.h - the admin port: /, /livez, /readyz and /metrics over HTTP/1.1, on the house thread.
 *
 * For probes, curl and Prometheus; plain, without names and passwords, and therefore on 127.0.0.1
 * unless somebody asks for more. It can be slow or full without anything else noticing: connections
 * are few, each has a deadline, and a stop waits for none of them. */
#ifndef TELEMETRY_ADMIN_H
#define TELEMETRY_ADMIN_H

#include <tradewake/base/status.h>

struct admin;
struct tw_telemetry;

/* Binds `listen` ("127.0.0.1:9464", "[::1]:0", ":9464" = any address) and serves what telemetry
 * knows.
 * Thread: main.  Blocks: until the house thread listens; name look-ups.
 * Fails:  TW_INVALID (no address), TW_IO (not to be bound; error says which and what to do). */
TW_MUST_CHECK tw_status admin_open(struct tw_telemetry *telemetry, const char *listen,
                                   struct admin **ret_admin, struct tw_error *error);

/* Closes every connection and frees. The sampler still runs. NULL is allowed.
 * Thread: main.  Blocks: until the house thread and the sampler have come round. */
void admin_close(struct admin *admin);

/* Thread: any. */
int admin_port(const struct admin *admin);

#endif
