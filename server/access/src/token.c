/* token.c - JSON Web Tokens with Ed25519: RFC 7515 (compact form), 7519 (claims), 8037 (EdDSA), 7517 (keys),
 * 8705 section 3.1 (bound to a certificate). JSON is read by Jansson, signatures are OpenSSL's. */
#include "access.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/file.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SKEW_NS (30 * TW_NS_PER_S) /* clocks of callers are not ours */

enum { KEYS_BYTES_MAX = 64 * 1024, ED25519_KEY_BYTES = 32, ED25519_SIGNATURE_BYTES = 64, PART_BYTES_MAX = 3072 };

/* ---- base64url without padding (RFC 4648 section 5) ---- */

/* Returns how many bytes, or -1: not base64url, or more than size. */
static int base64url_read(const char *text, size_t length, uint8_t *ret, size_t size)
{
    char padded[PART_BYTES_MAX + 4];
    uint8_t bytes[PART_BYTES_MAX + 4];
    if (length == 0 || length > PART_BYTES_MAX || length % 4 == 1)
        return -1;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        bool is_in_alphabet = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
        if (!is_in_alphabet)
            return -1;
        padded[i] = c == '-' ? '+' : c == '_' ? '/' : c;
    }
    size_t n_padding = (4 - length % 4) % 4;
    memset(padded + length, '=', n_padding);
    int n = EVP_DecodeBlock(bytes, (const unsigned char *)padded, (int)(length + n_padding));
    n = n < 0 ? -1 : n - (int)n_padding;
    if (n < 0 || (size_t)n > size)
        return -1;
    memcpy(ret, bytes, (size_t)n);
    return n;
}

/* ret: room for 4 * (size + 2) / 3 + 1. */
static size_t base64url_write(const uint8_t *bytes, size_t size, char *ret)
{
    size_t n = (size_t)EVP_EncodeBlock((unsigned char *)ret, bytes, (int)size);
    while (n > 0 && ret[n - 1] == '=')
        n--;
    ret[n] = '\0';
    for (size_t i = 0; i < n; i++)
        ret[i] = ret[i] == '+' ? '-' : ret[i] == '/' ? '_' : ret[i];
    return n;
}

/* ---- Keys ---- */

void keys_clear(struct keys *keys)
{
    for (size_t i = 0; i < keys->n; i++)
        EVP_PKEY_free(keys->keys[i].key);
    keys->n = 0;
}

static EVP_PKEY *keys_find(const struct keys *keys, const char *id)
{
    for (size_t i = 0; i < keys->n; i++)
        if (strcmp(keys->keys[i].id, id) == 0)
            return keys->keys[i].key;
    return NULL;
}

static bool key_add(struct keys *keys, const json_t *jwk, const char **ret_why)
{
    const char *type = json_string_value(json_object_get(jwk, "kty"));
    const char *curve = json_string_value(json_object_get(jwk, "crv"));
    const char *id = json_string_value(json_object_get(jwk, "kid"));
    const char *x = json_string_value(json_object_get(jwk, "x"));
    uint8_t raw[ED25519_KEY_BYTES];
    *ret_why = NULL;
    if (type == NULL || strcmp(type, "OKP") != 0 || curve == NULL || strcmp(curve, "Ed25519") != 0)
        *ret_why = "expected \"kty\":\"OKP\",\"crv\":\"Ed25519\"";
    else if (id == NULL || id[0] == '\0' || strlen(id) >= KEY_ID_BYTES)
        *ret_why = "expected a \"kid\" of 1 to 64 characters";
    else if (json_object_get(jwk, "d") != NULL)
        *ret_why = "it holds a private key (\"d\"): only public ones belong here";
    else if (x == NULL || base64url_read(x, strlen(x), raw, sizeof raw) != ED25519_KEY_BYTES)
        *ret_why = "expected \"x\": 32 bytes in base64url";
    else if (keys_find(keys, id) != NULL)
        *ret_why = "its \"kid\" is there twice";
    else if (keys->n == KEYS_MAX)
        *ret_why = "there are more than 16";
    if (*ret_why != NULL)
        return false;
    EVP_PKEY *key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, raw, sizeof raw);
    if (key == NULL)
        *ret_why = "it is no point of the curve";
    else
        snprintf(keys->keys[keys->n].id, KEY_ID_BYTES, "%s", id);
    if (key != NULL)
        keys->keys[keys->n++].key = key;
    return key != NULL;
}

tw_status keys_parse(const char *path, const char *text, size_t size, struct keys *ret, struct tw_error *error)
{
    json_error_t place;
    json_t *set = json_loadb(text, size, JSON_REJECT_DUPLICATES, &place);
    *ret = (struct keys){0};
    if (set == NULL)
        return tw_error_set(error, TW_INVALID, "%s:%d:%d: not JSON: %s", path, place.line, place.column, place.text);
    tw_status status = TW_OK;
    const json_t *keys = json_object_get(set, "keys"), *jwk;
    size_t i;
    if (!json_is_array(keys))
        status = tw_error_set(error, TW_INVALID, "%s: no JWK set: expected {\"keys\":[...]}", path);
    json_array_foreach(keys, i, jwk)
    {
        const char *why;
        if (key_add(ret, jwk, &why))
            continue;
        status = tw_error_set(error, TW_INVALID, "%s: key %zu: %s", path, i + 1, why);
        break;
    }
    json_decref(set);
    if (status != TW_OK)
        keys_clear(ret);
    return status;
}

tw_status keys_read(const char *path, struct keys *ret, struct tw_error *error)
{
    char *text;
    size_t size;
    *ret = (struct keys){0};
    if (path[0] == '\0')
        return TW_OK;
    tw_status status = tw_file_read(path, KEYS_BYTES_MAX, &text, &size, error);
    if (status != TW_OK)
        return status;
    status = keys_parse(path, text, size, ret, error);
    free(text);
    return status;
}

/* ---- A token ---- */

/* header.payload.signature; false: not three parts. */
static bool parts_find(const char *text, size_t ret_from[3], size_t ret_length[3])
{
    size_t at = 0;
    for (size_t i = 0; i < 3; i++) {
        ret_from[i] = at;
        ret_length[i] = strcspn(text + at, ".");
        at += ret_length[i];
        if ((text[at] == '.') != (i < 2))
            return false;
        at++;
    }
    return true;
}

static json_t *part_json(const char *text, size_t length)
{
    uint8_t bytes[PART_BYTES_MAX];
    int n = base64url_read(text, length, bytes, sizeof bytes);
    return n > 0 ? json_loadb((const char *)bytes, (size_t)n, JSON_REJECT_DUPLICATES, NULL) : NULL;
}

static const char *signature_check(const struct keys *keys, const char *text, const size_t from[3],
                                   const size_t length[3])
{
    uint8_t signature[ED25519_SIGNATURE_BYTES];
    const char *why = NULL;
    json_t *header = part_json(text, length[0]);
    const char *algorithm = json_string_value(json_object_get(header, "alg"));
    const char *id = json_string_value(json_object_get(header, "kid"));
    EVP_PKEY *key = id != NULL ? keys_find(keys, id) : NULL;
    if (algorithm == NULL || strcmp(algorithm, "EdDSA") != 0)
        why = "token: alg is not EdDSA";
    else if (json_object_get(header, "crit") != NULL)
        why = "token: it asks for an extension (crit)";
    else if (key == NULL)
        why = "token: its key is not known";
    else if (base64url_read(text + from[2], length[2], signature, sizeof signature) != ED25519_SIGNATURE_BYTES)
        why = "token: its signature has not 64 bytes";
    if (why == NULL) {
        EVP_MD_CTX *verifier = EVP_MD_CTX_new();
        if (verifier == NULL || EVP_DigestVerifyInit(verifier, NULL, NULL, NULL, key) != 1 ||
            EVP_DigestVerify(verifier, signature, sizeof signature, (const unsigned char *)text, from[2] - 1) != 1)
            why = "token: the signature is wrong";
        EVP_MD_CTX_free(verifier);
    }
    json_decref(header);
    return why;
}

/* A string, or an array of them (RFC 7519 section 4.1.3). */
static bool is_for(const json_t *claim, const char *audience)
{
    size_t i;
    const json_t *one;
    if (json_is_string(claim))
        return strcmp(json_string_value(claim), audience) == 0;
    json_array_foreach(claim, i, one) if (json_is_string(one) && strcmp(json_string_value(one), audience) == 0) return true;
    return false;
}

/* Seconds, also with a fraction; times before 1970 and after 2200 are nobody's. */
static bool time_read(const json_t *claim, int64_t *ret_wall_ns)
{
    double seconds = json_number_value(claim);
    if (!json_is_number(claim) || !(seconds >= 0 && seconds < 7258118400.0))
        return false;
    *ret_wall_ns = (int64_t)seconds * TW_NS_PER_S;
    return true;
}

static const char *claims_read(const json_t *claims, const char *audience, struct token *ret)
{
    const char *subject = json_string_value(json_object_get(claims, "sub"));
    const json_t *not_before = json_object_get(claims, "nbf");
    const json_t *confirmation = json_object_get(claims, "cnf");
    const char *thumbprint = json_string_value(json_object_get(confirmation, "x5t#S256"));
    if (subject == NULL || subject[0] == '\0' || strlen(subject) >= SUBJECT_BYTES)
        return "token: it has no sub";
    if (!is_for(json_object_get(claims, "aud"), audience))
        return "token: it is for another audience";
    if (!time_read(json_object_get(claims, "exp"), &ret->expires_wall_ns))
        return "token: it has no exp";
    if (not_before != NULL && !time_read(not_before, &ret->not_before_wall_ns))
        return "token: its nbf is no time";
    if (confirmation != NULL) {
        ret->is_bound = true;
        if (thumbprint == NULL || base64url_read(thumbprint, strlen(thumbprint), ret->certificate_sha256, 32) != 32)
            return "token: it is bound to something that is no certificate";
    }
    snprintf(ret->subject, sizeof ret->subject, "%s", subject);
    return NULL;
}

const char *token_verify(const struct keys *keys, const char *audience, const char *text, struct token *ret)
{
    size_t from[3], length[3];
    *ret = (struct token){0};
    if (strlen(text) >= TW_TOKEN_BYTES_MAX || !parts_find(text, from, length))
        return "token: it is not of the form header.payload.signature";
    const char *why = signature_check(keys, text, from, length);
    if (why != NULL)
        return why;
    json_t *claims = part_json(text + from[1], length[1]);
    why = json_is_object(claims) ? claims_read(claims, audience, ret) : "token: its payload is no JSON object";
    json_decref(claims);
    return why;
}

const char *token_is_in_time(const struct token *token, int64_t now_wall_ns)
{
    if (now_wall_ns - SKEW_NS >= token->expires_wall_ns)
        return "token: it has expired";
    if (now_wall_ns + SKEW_NS < token->not_before_wall_ns)
        return "token: it is not valid yet";
    return NULL;
}

/* ---- Making them ---- */

/* A new file for its owner alone (mode), or TW_EXISTS. */
static tw_status file_create(const char *path, mode_t mode, FILE **ret, struct tw_error *error)
{
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    *ret = file >= 0 ? fdopen(file, "w") : NULL;
    if (*ret != NULL)
        return TW_OK;
    return tw_error_set(error, errno == EEXIST ? TW_EXISTS : TW_IO, "%s cannot be made: %s", path, strerror(errno));
}

tw_status tw_token_key_make(const char *private_path, const char *public_path, const char *key_id,
                            struct tw_error *error)
{
    uint8_t raw[ED25519_KEY_BYTES];
    char x[64];
    size_t size = sizeof raw;
    FILE *private_file = NULL, *public_file = NULL;
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    if (key == NULL || EVP_PKEY_get_raw_public_key(key, raw, &size) != 1) {
        EVP_PKEY_free(key);
        return tw_error_set(error, TW_IO, "the system has no random bytes to give");
    }
    base64url_write(raw, sizeof raw, x);
    tw_status status = file_create(private_path, 0600, &private_file, error);
    if (status == TW_OK)
        status = file_create(public_path, 0644, &public_file, error);
    if (status == TW_OK) {
        json_t *set = json_pack("{s:[{s:s,s:s,s:s,s:s,s:s,s:s}]}", "keys", "kty", "OKP", "crv", "Ed25519", "alg", "EdDSA",
                                "use", "sig", "kid", key_id, "x", x);
        bool is_written = PEM_write_PrivateKey(private_file, key, NULL, NULL, 0, NULL, NULL) == 1 && set != NULL &&
                          json_dumpf(set, public_file, JSON_INDENT(2)) == 0 && fputc('\n', public_file) != EOF;
        json_decref(set);
        if (!is_written)
            status = tw_error_set(error, TW_IO, "%s and %s cannot be written", private_path, public_path);
    }
    if (private_file != NULL && fclose(private_file) != 0 && status == TW_OK)
        status = tw_error_set(error, TW_IO, "%s cannot be written: %s", private_path, strerror(errno));
    if (public_file != NULL && fclose(public_file) != 0 && status == TW_OK)
        status = tw_error_set(error, TW_IO, "%s cannot be written: %s", public_path, strerror(errno));
    EVP_PKEY_free(key);
    return status;
}

/* One JSON object as a part of a token. Returns its length, 0 when it does not fit. */
static size_t part_write(json_t *object, char *ret, size_t size)
{
    char *text = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;
    size_t n = text != NULL ? strlen(text) : 0, written = 0;
    if (n > 0 && n <= PART_BYTES_MAX && 4 * (n + 2) / 3 + 1 < size)
        written = base64url_write((const uint8_t *)text, n, ret);
    free(text);
    json_decref(object);
    return written;
}

static json_t *claims_json(const struct tw_token_claims *claims)
{
    json_t *object = json_pack("{s:s,s:s,s:I,s:I}", "sub", claims->subject, "aud", claims->audience, "iat",
                               (json_int_t)claims->issued_wall_s, "exp", (json_int_t)claims->expires_wall_s);
    if (object != NULL && claims->certificate_sha256 != NULL) {
        char thumbprint[64];
        base64url_write(claims->certificate_sha256, 32, thumbprint);
        json_object_set_new(object, "cnf", json_pack("{s:s}", "x5t#S256", thumbprint));
    }
    return object;
}

static tw_status sign(EVP_PKEY *key, const struct tw_token_claims *claims, char *ret, struct tw_error *error)
{
    uint8_t signature[ED25519_SIGNATURE_BYTES];
    size_t signature_size = sizeof signature;
    json_t *header = json_pack("{s:s,s:s,s:s}", "alg", "EdDSA", "typ", "JWT", "kid", claims->key_id);
    size_t n = part_write(header, ret, TW_TOKEN_BYTES_MAX);
    ret[n++] = '.';
    size_t payload = part_write(claims_json(claims), ret + n, TW_TOKEN_BYTES_MAX - n - 100);
    if (n == 1 || payload == 0)
        return tw_error_set(error, TW_LIMIT, "the token would be longer than %d characters", TW_TOKEN_BYTES_MAX);
    n += payload;
    EVP_MD_CTX *signer = EVP_MD_CTX_new();
    bool is_signed = signer != NULL && EVP_DigestSignInit(signer, NULL, NULL, NULL, key) == 1 &&
                     EVP_DigestSign(signer, signature, &signature_size, (const unsigned char *)ret, n) == 1;
    EVP_MD_CTX_free(signer);
    if (!is_signed)
        return tw_error_set(error, TW_INVALID, "the key does not sign: is it an Ed25519 key?");
    ret[n++] = '.';
    base64url_write(signature, sizeof signature, ret + n);
    return TW_OK;
}

tw_status tw_token_issue(const char *private_path, const struct tw_token_claims *claims,
                         char ret_token[TW_TOKEN_BYTES_MAX], struct tw_error *error)
{
    FILE *file = fopen(private_path, "re");
    if (file == NULL)
        return tw_error_set(error, TW_IO, "%s cannot be read: %s", private_path, strerror(errno));
    EVP_PKEY *key = PEM_read_PrivateKey(file, NULL, NULL, (void *)(uintptr_t) "");
    fclose(file);
    tw_status status = key != NULL && EVP_PKEY_get_id(key) == EVP_PKEY_ED25519
                           ? sign(key, claims, ret_token, error)
                           : tw_error_set(error, TW_INVALID, "%s holds no Ed25519 key in PEM", private_path);
    EVP_PKEY_free(key);
    return status;
}
