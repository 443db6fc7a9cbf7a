/* access.h (own) - the parts of server/access: policy.c reads who there is, token.c what a token says,
 * rights.c is the table, access.c puts them together. */
#ifndef ACCESS_H
#define ACCESS_H

#include <tradewake/access/access.h>

#include <openssl/evp.h>

enum role { ROLE_PUBLISHER = 1, ROLE_OPERATOR = 2, ROLE_VIEWER = 4, ROLE_ADMIN = 8 };

/* A set of ids; sorted. */
struct id_set {
    char (*ids)[TW_ID_BYTES];
    size_t n;
    bool is_all;
};

struct tw_identity {
    char name[TW_ID_BYTES];
    unsigned roles; /* 1 << role */
    struct id_set masters, followers;
    const char **certificates; /* names, "uri:..." or "dns:..."; any of them will do */
    size_t n_certificates;
    bool takes_tokens; /* whose sub is its name */
};

/* ---- policy.c ---- */

struct policy {
    struct policy *older; /* what it took the place of: identities of it may be in use */
    struct tw_identity *identities; /* by name */
    size_t n_identities;
};

TW_MUST_CHECK tw_status policy_read(const char *path, struct policy **ret, struct tw_error *error);
TW_MUST_CHECK tw_status policy_parse(const char *path, const char *text, size_t size, struct policy **ret,
                                     struct tw_error *error);
void policy_free(struct policy *policy); /* without the older ones */
const struct tw_identity *policy_by_name(const struct policy *policy, const char *name);
const struct tw_identity *policy_by_certificate(const struct policy *policy, const char *const *names, size_t n_names);
bool identity_has_certificate(const struct tw_identity *identity, const char *const *names, size_t n_names);
bool id_set_has(const struct id_set *set, const char *id);

/* ---- token.c ---- */

enum { KEYS_MAX = 16, KEY_ID_BYTES = 65, SUBJECT_BYTES = TW_ID_BYTES };

struct keys {
    struct {
        char id[KEY_ID_BYTES];
        EVP_PKEY *key;
    } keys[KEYS_MAX];
    size_t n;
};

TW_MUST_CHECK tw_status keys_read(const char *path, struct keys *ret, struct tw_error *error);
TW_MUST_CHECK tw_status keys_parse(const char *path, const char *text, size_t size, struct keys *ret,
                                   struct tw_error *error);
void keys_clear(struct keys *keys);

/* What a good token says. */
struct token {
    char subject[SUBJECT_BYTES];
    int64_t not_before_wall_ns, expires_wall_ns;
    bool is_bound;
    uint8_t certificate_sha256[32];
};

/* Signature, form, audience: what does not change with time. NULL when it is good, else why not. */
const char *token_verify(const struct keys *keys, const char *audience, const char *text, struct token *ret);

/* NULL when it is in time, else why not. */
const char *token_is_in_time(const struct token *token, int64_t now_wall_ns);

#endif
