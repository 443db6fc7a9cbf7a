#include "access.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A signature costs about 0.1 ms to check, a call comes 10 000 times a second with the same one. */
enum { SEEN_TOKENS = 1024 /* a power of two */ };

struct seen_token {
    bool is_set;
    uint8_t digest[SHA256_DIGEST_LENGTH]; /* of its text */
    struct token token;
};

struct tw_access {
    /* Set at the start, read-only afterwards: any thread. */
    char *policy_path, *keys_path, *audience;

    pthread_rwlock_t lock; /* guards policy and keys; written by a reload */
    struct policy *policy;
    struct keys keys;

    pthread_mutex_t seen_mutex;
    struct seen_token seen[SEEN_TOKENS]; /* by the digest's first bits; good ones only */
};

/* ---- Life ---- */

tw_status tw_access_open(const struct tw_access_options *options, struct tw_access **ret_access, struct tw_error *error)
{
    struct tw_access *access = calloc(1, sizeof *access);
    if (access == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the policy");
    pthread_rwlock_init(&access->lock, NULL);
    pthread_mutex_init(&access->seen_mutex, NULL);
    access->policy_path = strdup(options->policy_path);
    access->keys_path = strdup(options->keys_path);
    access->audience = strdup(options->audience);
    tw_status status = access->policy_path == NULL || access->keys_path == NULL || access->audience == NULL
                           ? tw_error_set(error, TW_NO_MEMORY, "no memory for the policy")
                           : tw_access_reload(access, error);
    if (status != TW_OK) {
        tw_access_close(access);
        return status;
    }
    *ret_access = access;
    return TW_OK;
}

void tw_access_close(struct tw_access *access)
{
    if (access == NULL)
        return;
    while (access->policy != NULL) {
        struct policy *older = access->policy->older;
        policy_free(access->policy);
        access->policy = older;
    }
    keys_clear(&access->keys);
    pthread_mutex_destroy(&access->seen_mutex);
    pthread_rwlock_destroy(&access->lock);
    free(access->policy_path);
    free(access->keys_path);
    free(access->audience);
    free(access);
}

tw_status tw_access_reload(struct tw_access *access, struct tw_error *error)
{
    struct policy *policy;
    struct keys keys, old;
    tw_status status = policy_read(access->policy_path, &policy, error);
    if (status != TW_OK)
        return status;
    status = keys_read(access->keys_path, &keys, error);
    if (status != TW_OK) {
        policy_free(policy);
        return status;
    }
    pthread_rwlock_wrlock(&access->lock);
    old = access->keys;
    access->keys = keys;
    policy->older = access->policy;
    access->policy = policy;
    pthread_mutex_lock(&access->seen_mutex); /* a key that is gone makes its tokens bad */
    memset(access->seen, 0, sizeof access->seen);
    pthread_mutex_unlock(&access->seen_mutex);
    pthread_rwlock_unlock(&access->lock);
    keys_clear(&old);
    return TW_OK;
}

/* ---- Who is it? ---- */

/* The token's text; NULL: the header is none of ours. */
static const char *bearer(const char *authorization)
{
    static const char scheme[] = "Bearer ";
    if (strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
        return NULL;
    return authorization + sizeof scheme - 1;
}

static struct seen_token *seen_place(struct tw_access *access, const uint8_t digest[SHA256_DIGEST_LENGTH])
{
    uint32_t at;
    memcpy(&at, digest, sizeof at);
    return &access->seen[at & (SEEN_TOKENS - 1)];
}

static bool seen_find(struct tw_access *access, const uint8_t digest[SHA256_DIGEST_LENGTH], struct token *ret)
{
    pthread_mutex_lock(&access->seen_mutex);
    const struct seen_token *seen = seen_place(access, digest);
    bool is_known = seen->is_set && memcmp(seen->digest, digest, SHA256_DIGEST_LENGTH) == 0;
    if (is_known)
        *ret = seen->token;
    pthread_mutex_unlock(&access->seen_mutex);
    return is_known;
}

static void seen_add(struct tw_access *access, const uint8_t digest[SHA256_DIGEST_LENGTH], const struct token *token)
{
    pthread_mutex_lock(&access->seen_mutex);
    struct seen_token *seen = seen_place(access, digest);
    seen->is_set = true;
    memcpy(seen->digest, digest, SHA256_DIGEST_LENGTH);
    seen->token = *token;
    pthread_mutex_unlock(&access->seen_mutex);
}

/* Under the lock, read. NULL = *ret is good, at this time and on this connection. */
static const char *token_read(struct tw_access *access, const char *text, const struct tw_presented *presented,
                              int64_t now_wall_ns, struct token *ret)
{
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)text, strlen(text), digest);
    if (!seen_find(access, digest, ret)) {
        const char *why = token_verify(&access->keys, access->audience, text, ret);
        if (why != NULL)
            return why;
        seen_add(access, digest, ret);
    }
    if (ret->is_bound && (!presented->has_certificate ||
                          CRYPTO_memcmp(ret->certificate_sha256, presented->certificate_sha256, 32) != 0))
        return "token: it is bound to another certificate";
    return token_is_in_time(ret, now_wall_ns);
}

/* An identity that has both is itself only with both. */
static const struct tw_identity *identify_by_token(struct tw_access *access, const struct tw_presented *presented,
                                                   int64_t now_wall_ns, const char **ret_why)
{
    struct token token;
    const char *text = bearer(presented->authorization);
    *ret_why = text == NULL ? "authorization: it is no bearer token"
                            : token_read(access, text, presented, now_wall_ns, &token);
    if (*ret_why != NULL)
        return NULL;
    const struct tw_identity *identity = policy_by_name(access->policy, token.subject);
    if (identity == NULL || !identity->takes_tokens)
        *ret_why = "token: the policy has no such identity with tokens";
    else if (identity->n_certificates > 0 && !identity_has_certificate(identity, presented->names, presented->n_names))
        *ret_why = "token: its identity also needs a certificate of its own";
    return *ret_why == NULL ? identity : NULL;
}

static const struct tw_identity *identify_by_certificate(struct tw_access *access, const struct tw_presented *presented,
                                                         const char **ret_why)
{
    const struct tw_identity *identity = policy_by_certificate(access->policy, presented->names, presented->n_names);
    if (presented->n_names == 0)
        *ret_why = "neither a token nor a certificate";
    else if (identity == NULL)
        *ret_why = "certificate: the policy has no identity with its name";
    else if (identity->takes_tokens)
        *ret_why = "certificate: its identity also needs a token";
    return *ret_why == NULL ? identity : NULL;
}

const struct tw_identity *tw_access_identify(struct tw_access *access, const struct tw_presented *presented,
                                             int64_t now_wall_ns, const char **ret_why)
{
    *ret_why = NULL;
    pthread_rwlock_rdlock(&access->lock);
    const struct tw_identity *identity = presented->authorization != NULL
                                             ? identify_by_token(access, presented, now_wall_ns, ret_why)
                                             : identify_by_certificate(access, presented, ret_why);
    pthread_rwlock_unlock(&access->lock);
    return identity;
}

const char *tw_identity_name(const struct tw_identity *identity)
{
    return identity->name;
}
