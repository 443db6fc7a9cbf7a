/* tls.h - credentials from files; the only place that looks into a certificate.
 *
 * The core asks for the certificate at every handshake, under a lock of its own (fetch()); what it is
 * given was read and judged before, so that a bad pair of files never takes the place of a good one. */
#ifndef WIRE_TLS_H
#define WIRE_TLS_H

#include <tradewake/base/status.h>
#include <tradewake/wire/tls.h>

#include <grpc/grpc_security.h>

struct wire_tls;

/* Reads the files. paths: copied.
 * Fails: TW_INVALID (a file is not what it should be, key and certificate do not belong together, the
 *        certificate is over or not valid yet), TW_IO, TW_NO_MEMORY; error names the file. */
TW_MUST_CHECK tw_status wire_tls_new(const struct tw_wire_server_tls *paths, struct wire_tls **ret_tls,
                                     struct tw_error *error);
void wire_tls_free(struct wire_tls *tls); /* after the core's server; NULL is allowed */

/* Reads them again; on failure the old ones stay. Thread: any. */
TW_MUST_CHECK tw_status wire_tls_reload(struct wire_tls *tls, struct tw_error *error);

/* Owns: the caller. They refer to tls. */
grpc_server_credentials *wire_tls_server_credentials(struct wire_tls *tls);

/* Owns: the caller. Fails as wire_tls_new(). */
TW_MUST_CHECK tw_status wire_tls_client_credentials(const struct tw_wire_client_tls *paths,
                                                    grpc_channel_credentials **ret, struct tw_error *error);

#endif
