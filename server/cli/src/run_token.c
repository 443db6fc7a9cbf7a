/* token: keys and tokens, for development and for whoever signs them for us. */
#include "command.h"

#include <tradewake/access/access.h>
#include <tradewake/base/clock.h>

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>

int run_token_key(struct session *session)
{
    struct tw_error error = {0};
    const char *private_path = args_text(&session->args, "--private"), *public_path = args_text(&session->args, "--public");
    if (tw_token_key_make(private_path, public_path, args_text(&session->args, "--key-id"), &error) != TW_OK)
        return session_error(session, "%s", error.text);
    printf("%s: the private key, for who signs tokens and nobody else\n"
           "%s: the public one, for access.token_keys\n", private_path, public_path);
    return TW_EXIT_DONE;
}

/* SHA-256 of the first certificate in a PEM file. False: it was told why. */
static bool thumbprint_read(struct session *session, const char *path, uint8_t ret[32])
{
    unsigned size = 0;
    FILE *file = fopen(path, "re");
    X509 *certificate = file != NULL ? PEM_read_X509(file, NULL, NULL, NULL) : NULL;
    bool is_read = certificate != NULL && X509_digest(certificate, EVP_sha256(), ret, &size) == 1 && size == 32;
    if (!is_read)
        session_error(session, "%s: %s", path, file == NULL ? strerror(errno) : "it holds no certificate in PEM");
    X509_free(certificate);
    if (file != NULL)
        fclose(file);
    return is_read;
}

int run_token_issue(struct session *session)
{
    struct tw_error error = {0};
    char token[TW_TOKEN_BYTES_MAX];
    uint8_t thumbprint[32];
    const char *certificate = args_text(&session->args, "--certificate");
    int64_t now_s = tw_wall_ns() / TW_NS_PER_S;
    if (certificate != NULL && !thumbprint_read(session, certificate, thumbprint))
        return TW_EXIT_FAILED;
    const struct tw_token_claims claims = {
        .subject = args_text(&session->args, "--subject"),
        .audience = args_text(&session->args, "--audience"),
        .key_id = args_text(&session->args, "--key-id"),
        .issued_wall_s = now_s,
        .expires_wall_s = now_s + args_number(&session->args, "--lasts") / TW_NS_PER_S,
        .certificate_sha256 = certificate != NULL ? thumbprint : NULL,
    };
    if (tw_token_issue(args_text(&session->args, "--private"), &claims, token, &error) != TW_OK)
        return session_error(session, "%s", error.text);
    puts(token);
    return TW_EXIT_DONE;
}
