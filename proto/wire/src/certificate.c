/* certificate.c - what a client's certificate says of it. The core verified it at the handshake; it is a
 * property of the connection, so whoever sends on that connection is who it names. */
#include "serving.h"

#include <grpc/grpc_security.h>

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>

/* A name with a NUL in it would be cut, and be another's. */
static const char *name_keep(struct tw_call *call, const char *kind, const grpc_auth_property *property)
{
    if (property->value_length == 0 || memchr(property->value, '\0', property->value_length) != NULL)
        return NULL;
    size_t size = strlen(kind) + property->value_length + 1;
    char *name = tw_arena_take(&call->kept, size);
    if (name != NULL)
        snprintf(name, size, "%s%.*s", kind, (int)property->value_length, property->value);
    return name;
}

static size_t names_add(struct tw_call *call, grpc_auth_context *peer, const char *property_name, const char *kind,
                        const char **names, size_t n)
{
    grpc_auth_property_iterator each = grpc_auth_context_find_properties_by_name(peer, property_name);
    const grpc_auth_property *property;
    while (n < TW_CERTIFICATE_NAMES_MAX && (property = grpc_auth_property_iterator_next(&each)) != NULL) {
        const char *name = name_keep(call, kind, property);
        if (name != NULL)
            names[n++] = name;
    }
    return n;
}

const char *const *tw_call_certificate_names(struct tw_call *call, size_t *ret_n)
{
    *ret_n = call->n_certificate_names;
    if (call->certificate_names != NULL || call->queue->server->tls == NULL || call->core == NULL)
        return call->certificate_names;
    const char **names = tw_arena_take(&call->kept, TW_CERTIFICATE_NAMES_MAX * sizeof *names);
    grpc_auth_context *peer = grpc_call_auth_context(call->core);
    if (names != NULL && peer != NULL && grpc_auth_context_peer_is_authenticated(peer) != 0) {
        *ret_n = names_add(call, peer, "peer_uri", "uri:", names, 0);
        *ret_n = names_add(call, peer, "peer_dns", "dns:", names, *ret_n);
    }
    grpc_auth_context_release(peer);
    call->certificate_names = names;
    call->n_certificate_names = *ret_n;
    return names;
}

static bool pem_sha256(const grpc_auth_property *property, uint8_t ret[32])
{
    unsigned size = 0;
    BIO *bytes = BIO_new_mem_buf(property->value, (int)property->value_length);
    X509 *certificate = bytes != NULL ? PEM_read_bio_X509(bytes, NULL, NULL, NULL) : NULL;
    bool is_done = certificate != NULL && X509_digest(certificate, EVP_sha256(), ret, &size) == 1 && size == 32;
    X509_free(certificate);
    BIO_free(bytes);
    return is_done;
}

bool tw_call_certificate_sha256(const struct tw_call *call, uint8_t ret[32])
{
    bool is_done = false;
    if (call->queue->server->tls == NULL || call->core == NULL)
        return false;
    grpc_auth_context *peer = grpc_call_auth_context(call->core);
    if (peer != NULL && grpc_auth_context_peer_is_authenticated(peer) != 0) {
        grpc_auth_property_iterator each = grpc_auth_context_find_properties_by_name(peer, GRPC_X509_PEM_CERT_PROPERTY_NAME);
        const grpc_auth_property *property = grpc_auth_property_iterator_next(&each);
        is_done = property != NULL && pem_sha256(property, ret);
    }
    grpc_auth_context_release(peer);
    return is_done;
}
