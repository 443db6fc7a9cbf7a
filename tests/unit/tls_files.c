#include "tls_files.h"

#include <assert.h>
#include <ftw.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tls_dir_make(char ret_dir[64])
{
    strcpy(ret_dir, "/tmp/tradewake-tls-XXXXXX");
    if (mkdtemp(ret_dir) == NULL)
        abort();
}

static int remove_one(const char *path, const struct stat *found, int flag, struct FTW *walk)
{
    (void)found, (void)flag, (void)walk;
    return remove(path);
}

void tls_dir_remove(const char *dir)
{
    nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *tls_path(const char *dir, const char *name)
{
    static char texts[8][128];
    static unsigned next;
    char *text = texts[next++ % 8];
    snprintf(text, sizeof texts[0], "%s/%s", dir, name);
    return text;
}

static void extension_add(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    assert(extension != NULL);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
}

static struct tls_pair pair_new(const char *common_name, long from_s, long until_s)
{
    struct tls_pair pair = {.certificate = X509_new(), .key = EVP_EC_gen("P-256")};
    uint64_t serial;
    RAND_bytes((unsigned char *)&serial, sizeof serial);
    assert(pair.certificate != NULL && pair.key != NULL);
    X509_set_version(pair.certificate, 2);
    ASN1_INTEGER_set_uint64(X509_get_serialNumber(pair.certificate), serial >> 1);
    X509_gmtime_adj(X509_getm_notBefore(pair.certificate), from_s);
    X509_gmtime_adj(X509_getm_notAfter(pair.certificate), until_s);
    X509_set_pubkey(pair.certificate, pair.key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(pair.certificate), "CN", MBSTRING_ASC,
                               (const unsigned char *)common_name, -1, -1, 0);
    return pair;
}

struct tls_pair tls_authority(const char *name)
{
    struct tls_pair pair = pair_new(name, -3600, 86400);
    X509_set_issuer_name(pair.certificate, X509_get_subject_name(pair.certificate));
    extension_add(pair.certificate, pair.certificate, NID_basic_constraints, "critical,CA:TRUE");
    extension_add(pair.certificate, pair.certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
    X509_sign(pair.certificate, pair.key, EVP_sha256());
    return pair;
}

struct tls_pair tls_signed(const struct tls_pair *authority, const char *names, long from_s, long until_s)
{
    struct tls_pair pair = pair_new("tradewake test", from_s, until_s);
    X509_set_issuer_name(pair.certificate, X509_get_subject_name(authority->certificate));
    extension_add(pair.certificate, authority->certificate, NID_subject_alt_name, names);
    X509_sign(pair.certificate, authority->key, EVP_sha256());
    return pair;
}

void tls_pair_free(struct tls_pair *pair)
{
    X509_free(pair->certificate);
    EVP_PKEY_free(pair->key);
}

void tls_write(const char *dir, const char *name, const struct tls_pair *pair)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s.pem", dir, name);
    FILE *file = fopen(path, "w");
    assert(file != NULL);
    PEM_write_X509(file, pair->certificate);
    fclose(file);
    snprintf(path, sizeof path, "%s/%s.key", dir, name);
    file = fopen(path, "w");
    assert(file != NULL);
    PEM_write_PrivateKey(file, pair->key, NULL, NULL, 0, NULL, NULL);
    fclose(file);
}
