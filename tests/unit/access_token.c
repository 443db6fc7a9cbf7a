/* Tokens: what is good, and every way in which one is not. */
#include <access.h>
#include <tradewake/base/clock.h>

#include <criterion/criterion.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[64], paths[8][128];
static struct keys keys;
static struct tw_error error;
static struct token token;

static const char *path(const char *name)
{
    static unsigned next;
    char *text = paths[next++ % 8];
    snprintf(text, sizeof paths[0], "%s/%s", dir, name);
    return text;
}

static void files_make(void)
{
    strcpy(dir, "/tmp/tradewake-access-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    cr_assert_eq(tw_token_key_make(path("k1.pem"), path("k1.json"), "k1", &error), TW_OK, "%s", error.text);
    cr_assert_eq(tw_token_key_make(path("other.pem"), path("other.json"), "other", &error), TW_OK, "%s", error.text);
    cr_assert_eq(keys_read(path("k1.json"), &keys, &error), TW_OK, "%s", error.text);
}

static void files_remove(void)
{
    static const char *const names[] = {"k1.pem", "k1.json", "other.pem", "other.json", "policy.yaml"};
    keys_clear(&keys);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlink(path(names[i]));
    rmdir(dir);
}

/* What the key in NAME.pem makes of these claims. */
static const char *issue(const char *key, const char *key_id, const char *subject, const char *audience, int64_t expires_s)
{
    static char text[TW_TOKEN_BYTES_MAX];
    const struct tw_token_claims claims = {
        .subject = subject, .audience = audience, .key_id = key_id, .issued_wall_s = 1000, .expires_wall_s = expires_s};
    cr_assert_eq(tw_token_issue(path(key), &claims, text, &error), TW_OK, "%s", error.text);
    return text;
}

static const char *why(const char *text)
{
    const char *words = token_verify(&keys, "tradewake", text, &token);
    return words != NULL ? words : "";
}

Test(access_token, a_good_token_says_who_and_until_when, .init = files_make, .fini = files_remove)
{
    cr_expect_str_eq(why(issue("k1.pem", "k1", "web", "tradewake", 2000)), "");
    cr_expect_str_eq(token.subject, "web");
    cr_expect_eq(token.expires_wall_ns, 2000 * TW_NS_PER_S);
    cr_expect_not(token.is_bound);
    cr_expect_null(token_is_in_time(&token, 1999 * TW_NS_PER_S));
    cr_expect_null(token_is_in_time(&token, 2029 * TW_NS_PER_S), "clocks differ by half a minute");
    cr_expect_str_eq(token_is_in_time(&token, 2030 * TW_NS_PER_S), "token: it has expired");
    token.not_before_wall_ns = 1500 * TW_NS_PER_S;
    cr_expect_str_eq(token_is_in_time(&token, 1469 * TW_NS_PER_S), "token: it is not valid yet");
    cr_expect_null(token_is_in_time(&token, 1470 * TW_NS_PER_S));
}

Test(access_token, another_key_another_audience_another_letter, .init = files_make, .fini = files_remove)
{
    cr_expect_str_eq(why(issue("other.pem", "k1", "web", "tradewake", 2000)), "token: the signature is wrong");
    cr_expect_str_eq(why(issue("other.pem", "other", "web", "tradewake", 2000)), "token: its key is not known");
    cr_expect_str_eq(why(issue("k1.pem", "k1", "web", "elsewhere", 2000)), "token: it is for another audience");
    cr_expect_str_eq(why(issue("k1.pem", "k1", "", "tradewake", 2000)), "token: it has no sub");
    cr_expect_str_eq(why(""), "token: it is not of the form header.payload.signature");
    cr_expect_str_eq(why("a.b"), "token: it is not of the form header.payload.signature");
    cr_expect_str_eq(why("a.b.c.d"), "token: it is not of the form header.payload.signature");
    cr_expect_str_eq(why("...."), "token: it is not of the form header.payload.signature");
    cr_expect_str_eq(why(".."), "token: alg is not EdDSA");

    char text[TW_TOKEN_BYTES_MAX];
    strcpy(text, issue("k1.pem", "k1", "web", "tradewake", 2000));
    size_t size = strlen(text);
    for (size_t i = 0; i < size; i++) {
        char kept = text[i];
        text[i] = kept == 'A' ? 'B' : 'A';
        /* The last letter of a part may carry bits that no byte has: the same token, written otherwise. */
        if (i + 1 < size && text[i + 1] != '.')
            cr_expect_str_neq(why(text), "", "letter %zu", i);
        text[i] = kept;
    }
    cr_expect_str_eq(why(text), "");
}

/* A header and claims of any kind, signed by k1 as they are. */
static const char *signed_as(const char *header, const char *claims)
{
    static char text[TW_TOKEN_BYTES_MAX];
    unsigned char part[TW_TOKEN_BYTES_MAX], signature[64];
    size_t signature_size = sizeof signature;
    const char *parts[] = {header, claims};
    text[0] = '\0';
    for (int i = 0; i < 3; i++) {
        const unsigned char *bytes = i < 2 ? (const unsigned char *)parts[i] : signature;
        if (i == 2) {
            FILE *file = fopen(path("k1.pem"), "r");
            EVP_PKEY *key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
            EVP_MD_CTX *signer = EVP_MD_CTX_new();
            fclose(file);
            EVP_DigestSignInit(signer, NULL, NULL, NULL, key);
            EVP_DigestSign(signer, signature, &signature_size, (unsigned char *)text, strlen(text));
            EVP_MD_CTX_free(signer);
            EVP_PKEY_free(key);
            strcat(text, ".");
        }
        int n = EVP_EncodeBlock(part, bytes, i < 2 ? (int)strlen(parts[i]) : 64);
        for (int k = 0; k < n; k++)
            part[k] = part[k] == '+' ? '-' : part[k] == '/' ? '_' : part[k] == '=' ? '\0' : part[k];
        part[n] = '\0';
        strcat(text, (char *)part);
        if (i == 0)
            strcat(text, ".");
    }
    return text;
}

Test(access_token, what_is_signed_must_still_say_the_right_things, .init = files_make, .fini = files_remove)
{
    static const char head[] = "{\"alg\":\"EdDSA\",\"kid\":\"k1\"}";
    static const struct {
        const char *header, *claims, *why;
    } rows[] = {
        {head, "{\"sub\":\"web\",\"aud\":\"tradewake\",\"exp\":2000}", ""},
        {head, "{\"sub\":\"web\",\"aud\":[\"a\",\"tradewake\"],\"exp\":2000.5}", ""},
        {"{\"alg\":\"none\",\"kid\":\"k1\"}", "{\"sub\":\"web\",\"aud\":\"tradewake\",\"exp\":2000}", "token: alg is not EdDSA"},
        {"{\"alg\":\"HS256\",\"kid\":\"k1\"}", "{\"sub\":\"web\",\"aud\":\"tradewake\",\"exp\":2000}", "token: alg is not EdDSA"},
        {"{\"kid\":\"k1\"}", "{\"sub\":\"web\",\"aud\":\"tradewake\",\"exp\":2000}", "token: alg is not EdDSA"},
        {"{\"alg\":\"EdDSA\"}", "{\"sub\":\"web\",\"aud\":\"tradewake\",\"exp\":2000}", "token: its key is not known"},
        {"{\"alg\":\"EdDSA\",\"alg\":\"none\",\"kid\":\"k1\"}", "{}", "token: alg is not EdDSA"},
        {"{\"alg\":\"EdDSA\",\"kid\":\"k1\",\"crit\":[\"b64\"]}", "{}", "token: it asks for an extension (crit)"},
        {head, "[1]", "token: its payload is no JSON object"},
        {head, "nonsense", "token: its payload is no JSON object"},
        {head, "{\"aud\":\"tradewake\",\"exp\":2000}", "token: it has no sub"},
        {head, "{\"sub\":7,\"aud\":\"tradewake\",\"exp\":2000}", "token: it has no sub"},
        {head, "{\"sub\":\"web\",\"exp\":2000}", "token: it is for another audience"},
        {head, "{\"sub\":\"web\",\"aud\":[\"a\",7],\"exp\":2000}", "token: it is for another audience"},
        {head, "{\"sub\":\"web\",\"aud\":\"tradewake\"}", "token: it has no exp"},
        {head, "{\"sub\":\"web\",\"aud\":\"tradewake\",\"exp\":\"2000\"}", "token: it has no exp"},
        {head, "{\"sub\":\"web\",\"aud\":\"tradewake\",\"exp\":-1}", "token: it has no exp"},
        {head, "{\"sub\":\"web\",\"aud\":\"tradewake\",\"exp\":1e300}", "token: it has no exp"},
        {head, "{\"sub\":\"web\",\"aud\":\"tradewake\",\"exp\":2000,\"nbf\":\"x\"}", "token: its nbf is no time"},
        {head, "{\"sub\":\"web\",\"aud\":\"tradewake\",\"exp\":2000,\"cnf\":{}}",
         "token: it is bound to something that is no certificate"},
        {head, "{\"sub\":\"web\",\"aud\":\"tradewake\",\"exp\":2000,\"cnf\":{\"x5t#S256\":\"abc\"}}",
         "token: it is bound to something that is no certificate"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_str_eq(why(signed_as(rows[i].header, rows[i].claims)), rows[i].why, "row %zu", i);
}

Test(access_token, keys_that_will_not_do_are_named, .init = files_make, .fini = files_remove)
{
    static const struct {
        const char *text, *said;
    } rows[] = {
        {"", "k.json:1:0: not JSON: '[' or '{' expected near end of file"},
        {"{}", "k.json: no JWK set: expected {\"keys\":[...]}"},
        {"{\"keys\":[{\"kty\":\"RSA\"}]}", "k.json: key 1: expected \"kty\":\"OKP\",\"crv\":\"Ed25519\""},
        {"{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\"}]}", "k.json: key 1: expected a \"kid\" of 1 to 64 characters"},
        {"{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"a\",\"x\":\"AAAA\"}]}",
         "k.json: key 1: expected \"x\": 32 bytes in base64url"},
        {"{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"a\",\"d\":\"AAAA\"}]}",
         "k.json: key 1: it holds a private key (\"d\"): only public ones belong here"},
    };
    struct keys found;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_expect_eq(keys_parse("k.json", rows[i].text, strlen(rows[i].text), &found, &error), TW_INVALID);
        cr_expect_str_eq(error.text, rows[i].said);
    }
    cr_expect_eq(tw_token_key_make(path("k1.pem"), path("new.json"), "k1", &error), TW_EXISTS, "a key is not overwritten");
}

/* ---- All together ---- */

static struct tw_access *access_now;

static const char *who(const char *token_text, const char *const *names, size_t n_names, uint8_t certificate, int64_t now_s)
{
    static char header[TW_TOKEN_BYTES_MAX + 16];
    const char *words;
    struct tw_presented presented = {.names = names, .n_names = n_names, .has_certificate = certificate != 0};
    memset(presented.certificate_sha256, certificate, 32);
    snprintf(header, sizeof header, "bearer %s", token_text != NULL ? token_text : "");
    presented.authorization = token_text != NULL ? header : NULL;
    const struct tw_identity *identity = tw_access_identify(access_now, &presented, now_s * TW_NS_PER_S, &words);
    return identity != NULL ? tw_identity_name(identity) : words;
}

Test(access_token, token_and_certificate_each_alone_and_bound_together, .init = files_make, .fini = files_remove)
{
    FILE *file = fopen(path("policy.yaml"), "w");
    fputs("identities:\n  ops: {tokens: true, roles: [operator]}\n"
          "  web: {certificates: [\"dns:web\"], roles: [publisher], masters: [M1]}\n"
          "  both: {certificates: [\"dns:both\"], tokens: true, roles: [admin]}\n", file);
    fclose(file);
    const struct tw_access_options options = {path("policy.yaml"), path("k1.json"), "tradewake"};
    cr_assert_eq(tw_access_open(&options, &access_now, &error), TW_OK, "%s", error.text);
    const char *const web[] = {"dns:web"}, *const both[] = {"dns:both"};

    cr_expect_str_eq(who(NULL, NULL, 0, 0, 1500), "neither a token nor a certificate");
    for (int i = 0; i < 2; i++) /* the second time it is known */
        cr_expect_str_eq(who(issue("k1.pem", "k1", "ops", "tradewake", 2000), NULL, 0, 0, 1500), "ops");
    cr_expect_str_eq(who(issue("k1.pem", "k1", "ops", "tradewake", 2000), NULL, 0, 0, 2100), "token: it has expired");
    cr_expect_str_eq(who(NULL, web, 1, 1, 1500), "web");
    cr_expect_str_eq(who(issue("k1.pem", "k1", "web", "tradewake", 2000), web, 1, 1, 1500),
                     "token: the policy has no such identity with tokens");
    cr_expect_str_eq(who(NULL, both, 1, 1, 1500), "certificate: its identity also needs a token");
    cr_expect_str_eq(who(issue("k1.pem", "k1", "both", "tradewake", 2000), NULL, 0, 0, 1500),
                     "token: its identity also needs a certificate of its own");
    cr_expect_str_eq(who(issue("k1.pem", "k1", "both", "tradewake", 2000), web, 1, 1, 1500),
                     "token: its identity also needs a certificate of its own");
    cr_expect_str_eq(who(issue("k1.pem", "k1", "both", "tradewake", 2000), both, 1, 1, 1500), "both");

    uint8_t thumbprint[32];
    char text[TW_TOKEN_BYTES_MAX];
    memset(thumbprint, 7, sizeof thumbprint);
    const struct tw_token_claims bound = {.subject = "ops", .audience = "tradewake", .key_id = "k1", .issued_wall_s = 1000,
                                          .expires_wall_s = 2000, .certificate_sha256 = thumbprint};
    cr_assert_eq(tw_token_issue(path("k1.pem"), &bound, text, &error), TW_OK);
    cr_expect_str_eq(who(text, NULL, 0, 7, 1500), "ops");
    cr_expect_str_eq(who(text, NULL, 0, 8, 1500), "token: it is bound to another certificate");
    cr_expect_str_eq(who(text, NULL, 0, 0, 1500), "token: it is bound to another certificate");

    /* A key that is taken away takes its tokens along, also those that were seen. */
    cr_assert_eq(rename(path("other.json"), path("k1.json")), 0);
    cr_assert_eq(tw_access_reload(access_now, &error), TW_OK, "%s", error.text);
    cr_expect_str_eq(who(issue("k1.pem", "k1", "ops", "tradewake", 2000), NULL, 0, 0, 1500), "token: its key is not known");
    cr_expect_str_eq(who(issue("other.pem", "other", "ops", "tradewake", 2000), NULL, 0, 0, 1500), "ops");
    file = fopen(path("policy.yaml"), "w");
    fputs("identities: 7\n", file);
    fclose(file);
    cr_expect_eq(tw_access_reload(access_now, &error), TW_INVALID);
    cr_expect_str_eq(who(issue("other.pem", "other", "ops", "tradewake", 2000), NULL, 0, 0, 1500), "ops", "the good one stays");
    tw_access_close(access_now);
}
