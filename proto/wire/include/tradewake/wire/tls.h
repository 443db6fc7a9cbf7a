/* tls.h - what both sides of a connection are told about TLS: files, never bytes.
 *
 * TLS 1.2 and later. A server's certificate is read at the start and again by
 * tw_wire_server_tls_reload(); connections that are there keep the one they began with. */
#ifndef TW_WIRE_TLS_H
#define TW_WIRE_TLS_H

#include <stdbool.h>

/* PEM files. */
struct tw_wire_server_tls {
    const char *certificate; /* the chain, the server's own first */
    const char *key;         /* of the first certificate; not encrypted */
    const char *client_ca;   /* who signs clients' certificates; "" = none is asked for */
    bool wants_certificate;  /* a client without one is turned away */
};

struct tw_wire_client_tls {
    const char *ca;          /* who signs the server's certificate */
    const char *certificate; /* the client's own; "" = none */
    const char *key;
    const char *server_name; /* expected in the certificate in the address' place; "" = the address */
};

#endif
