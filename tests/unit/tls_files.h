/* tls_files.h - certificates made for a test: authorities and what they sign, as PEM files. */
#ifndef TLS_FILES_H
#define TLS_FILES_H

#include <openssl/evp.h>
#include <openssl/x509.h>

struct tls_pair {
    X509 *certificate;
    EVP_PKEY *key;
};

/* A folder of its own for one test; removed with all that is in it. */
void tls_dir_make(char ret_dir[64]);
void tls_dir_remove(const char *dir);
/* DIR/name, in one of a few static places. */
const char *tls_path(const char *dir, const char *name);

struct tls_pair tls_authority(const char *name);

/* names: as in a subjectAltName, "DNS:localhost,IP:127.0.0.1"; valid from now + from_s to now + until_s. */
struct tls_pair tls_signed(const struct tls_pair *authority, const char *names, long from_s, long until_s);
void tls_pair_free(struct tls_pair *pair);

/* DIR/NAME.pem and, where it has one, DIR/NAME.key. */
void tls_write(const char *dir, const char *name, const struct tls_pair *pair);

#endif
