#include "tls.h"

#include <tradewake/base/file.h>

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PEM_BYTES_MAX = 1 << 20 };

/* Texts of files, each ended by a NUL. The key's is wiped before it is freed. */
struct pems {
    char *chain, *key, *ca; /* ca NULL = none */
};

struct wire_tls {
    /* Set at the start, read-only afterwards: any thread. */
    char *certificate_path, *key_path, *ca_path;
    bool wants_certificate;

    /* Guarded by mutex. */
    pthread_mutex_t mutex;
    struct pems pems;
    bool is_new; /* the core has not been given them yet */
};

static void pems_clear(struct pems *pems)
{
    if (pems->key != NULL)
        OPENSSL_cleanse(pems->key, strlen(pems->key));
    free(pems->chain);
    free(pems->key);
    free(pems->ca);
    *pems = (struct pems){0};
}

/* ---- Files ---- */

static tw_status file_read(const char *path, char **ret_text, struct tw_error *error)
{
    size_t size;
    tw_status status = tw_file_read(path, PEM_BYTES_MAX, ret_text, &size, error);
    if (status == TW_OK && (size == 0 || strlen(*ret_text) != size)) {
        free(*ret_text);
        *ret_text = NULL;
        status = tw_error_set(error, TW_INVALID, "%s is no PEM file", path);
    }
    return status;
}

static X509 *certificate_first(const char *pem)
{
    BIO *bytes = BIO_new_mem_buf(pem, -1);
    X509 *certificate = bytes != NULL ? PEM_read_bio_X509(bytes, NULL, NULL, NULL) : NULL;
    BIO_free(bytes);
    return certificate;
}

/* A key with a password asks nobody: it is refused. */
static int no_password(char *buffer, int size, int is_writing, void *context)
{
    (void)buffer, (void)size, (void)is_writing, (void)context;
    return -1;
}

static EVP_PKEY *key_first(const char *pem)
{
    BIO *bytes = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bytes != NULL ? PEM_read_bio_PrivateKey(bytes, NULL, no_password, NULL) : NULL;
    BIO_free(bytes);
    return key;
}

static tw_status authority_check(const char *path, const char *pem, struct tw_error *error)
{
    X509 *authority = certificate_first(pem);
    if (authority == NULL)
        return tw_error_set(error, TW_INVALID, "%s holds no certificate in PEM", path);
    X509_free(authority);
    return TW_OK;
}

/* Whether the two belong together, today. */
static tw_status pair_check(const char *certificate_path, const char *chain, const char *key_path, const char *key_pem,
                            struct tw_error *error)
{
    tw_status status = TW_OK;
    X509 *certificate = certificate_first(chain);
    EVP_PKEY *key = key_first(key_pem);
    if (certificate == NULL)
        status = tw_error_set(error, TW_INVALID, "%s holds no certificate in PEM", certificate_path);
    else if (key == NULL)
        status = tw_error_set(error, TW_INVALID, "%s holds no private key in PEM without a password", key_path);
    else if (X509_check_private_key(certificate, key) != 1)
        status = tw_error_set(error, TW_INVALID, "the key in %s is not that of the certificate in %s", key_path,
                              certificate_path);
    else if (X509_cmp_current_time(X509_get0_notAfter(certificate)) <= 0)
        status = tw_error_set(error, TW_INVALID, "the certificate in %s has expired", certificate_path);
    else if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0)
        status = tw_error_set(error, TW_INVALID, "the certificate in %s is not valid yet", certificate_path);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return status;
}

/* ca_path: "" = none. */
static tw_status pems_read(const char *certificate_path, const char *key_path, const char *ca_path, struct pems *ret,
                           struct tw_error *error)
{
    struct pems pems = {0};
    tw_status status = file_read(certificate_path, &pems.chain, error);
    if (status == TW_OK)
        status = file_read(key_path, &pems.key, error);
    if (status == TW_OK)
        status = pair_check(certificate_path, pems.chain, key_path, pems.key, error);
    if (status == TW_OK && ca_path[0] != '\0')
        status = file_read(ca_path, &pems.ca, error);
    if (status == TW_OK && pems.ca != NULL)
        status = authority_check(ca_path, pems.ca, error);
    if (status == TW_OK)
        *ret = pems;
    else
        pems_clear(&pems);
    return status;
}

/* ---- The server's ---- */

tw_status wire_tls_new(const struct tw_wire_server_tls *paths, struct wire_tls **ret_tls, struct tw_error *error)
{
    struct wire_tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for certificates");
    pthread_mutex_init(&tls->mutex, NULL);
    tls->certificate_path = strdup(paths->certificate);
    tls->key_path = strdup(paths->key);
    tls->ca_path = strdup(paths->client_ca);
    tls->wants_certificate = paths->wants_certificate;
    tw_status status = tls->certificate_path == NULL || tls->key_path == NULL || tls->ca_path == NULL
                           ? tw_error_set(error, TW_NO_MEMORY, "no memory for certificates")
                           : wire_tls_reload(tls, error);
    if (status != TW_OK) {
        wire_tls_free(tls);
        return status;
    }
    *ret_tls = tls;
    return TW_OK;
}

void wire_tls_free(struct wire_tls *tls)
{
    if (tls == NULL)
        return;
    pems_clear(&tls->pems);
    pthread_mutex_destroy(&tls->mutex);
    free(tls->certificate_path);
    free(tls->key_path);
    free(tls->ca_path);
    free(tls);
}

tw_status wire_tls_reload(struct wire_tls *tls, struct tw_error *error)
{
    struct pems pems, old;
    tw_status status = pems_read(tls->certificate_path, tls->key_path, tls->ca_path, &pems, error);
    if (status != TW_OK)
        return status;
    pthread_mutex_lock(&tls->mutex);
    old = tls->pems;
    tls->pems = pems;
    tls->is_new = true;
    pthread_mutex_unlock(&tls->mutex);
    pems_clear(&old);
    return TW_OK;
}

/* At each handshake. The core insists on authorities, also where no certificate is asked for: then the
 * chain stands in, and is used for nothing. */
static grpc_ssl_certificate_config_reload_status fetch(void *context, grpc_ssl_server_certificate_config **ret)
{
    struct wire_tls *tls = context;
    pthread_mutex_lock(&tls->mutex);
    bool is_new = tls->is_new;
    tls->is_new = false;
    if (is_new) {
        const grpc_ssl_pem_key_cert_pair pair = {.private_key = tls->pems.key, .cert_chain = tls->pems.chain};
        const char *authorities = tls->pems.ca != NULL ? tls->pems.ca : tls->pems.chain;
        *ret = grpc_ssl_server_certificate_config_create(authorities, &pair, 1);
    }
    pthread_mutex_unlock(&tls->mutex);
    return is_new ? GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW : GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
}

grpc_server_credentials *wire_tls_server_credentials(struct wire_tls *tls)
{
    grpc_ssl_client_certificate_request_type asks = GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    if (tls->ca_path[0] != '\0')
        asks = tls->wants_certificate ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                      : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
    return grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(asks, fetch, tls));
}

/* ---- The client's ---- */

tw_status wire_tls_client_credentials(const struct tw_wire_client_tls *paths, grpc_channel_credentials **ret,
                                      struct tw_error *error)
{
    struct pems pems = {0};
    tw_status status = paths->certificate[0] != '\0'
                           ? pems_read(paths->certificate, paths->key, paths->ca, &pems, error)
                           : file_read(paths->ca, &pems.ca, error);
    if (status == TW_OK)
        status = authority_check(paths->ca, pems.ca, error);
    if (status == TW_OK) {
        grpc_ssl_pem_key_cert_pair pair = {.private_key = pems.key, .cert_chain = pems.chain};
        *ret = grpc_ssl_credentials_create(pems.ca, pems.chain != NULL ? &pair : NULL, NULL, NULL);
    }
    pems_clear(&pems);
    return status;
}
